"""Audits for tests: of a few estimators, so that they take no longer than what is tested needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from buttress.audit import contenders

ALL = dict(contenders._CONTENDERS)


@contextmanager
def only(*names: str) -> Iterator[None]:
    """Audit only those of the contenders, all where none are named, beside the baselines."""
    few = {task: {name: factory for name, factory in entries.items() if name in names or not names}
           for task, entries in ALL.items()}
    with patch.object(contenders, "_CONTENDERS", few):
        yield


def conforms(value, schema, top):
    """Check a value against the part of JSON Schema that our schemas use."""
    schema = top["$defs"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema
    kinds = {"object": dict, "array": list, "string": str, "number": (int, float), "boolean": bool, "null": type(None),
             "integer": int}
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        assert isinstance(value, tuple(np.ravel([kinds[name] for name in names if name != "number"]).tolist())
                          + ((int, float) if "number" in names else ())), (value, names)
    assert value == schema.get("const", value)
    assert value in schema.get("enum", [value])
    if isinstance(value, dict):
        assert set(schema.get("required", [])) <= set(value)
        for key, entry in value.items():
            inner = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
            assert inner is not False, f"{key} is not in the schema"
            conforms(entry, inner, top)
    if isinstance(value, list):
        assert schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        for entry in value:
            conforms(entry, schema.get("items", {}), top)
    if isinstance(value, float):
        assert schema.get("minimum", value) <= value <= schema.get("maximum", value)
