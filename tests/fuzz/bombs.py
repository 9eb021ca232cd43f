"""Files that are small, or cheap to write, and would fill the memory or hold the processor if they were believed."""

import json

from .forgeries import PREFIX, VERSION, sealed

GROWN = 1_000_000  # units of growth that each states, as many as small files may


def bombs(megabytes):
    """Yield (name, file) of about this many megabytes at most."""
    count = megabytes * 1_000_000
    yield "empty lists", _of_text("[" + "[]," * (count // 3) + "0]")
    yield "empty dicts", _of_text("[" + "{}," * (count // 3) + "0]")
    yield "short texts", _of_text("[" + '"ab",' * (count // 5) + "0]")
    yield "a long text of wide characters", _of_text(json.dumps("\U0001f600" + "a" * count))
    yield "a list in a list", _of_text("[" * (count // 2) + "]" * (count // 2))
    yield "a long number", _of_text("9" * count)
    entries = [{"dtype": "<f8", "shape": [count // 16]}] * 20_000
    yield "many arrays over the same bytes", _of([{"array": i} for i in range(20_000)], entries, bytes(count // 2))
    yield "one array in many places", _of([{"array": 0}] * 20_000, [{"dtype": "<f8", "shape": [1]}], bytes(8))
    yield "keys of one hash", _of({"dict": [[k * (2**61 - 1) for k in range(count // 30)], [0] * (count // 30)]})
    yield "keys of one place", _of({"dict": [[k << 45 for k in range(count // 30)], [0] * (count // 30)]})
    words = {"dict": [[str(k) for k in range(count // 12)], {"column": 0, "numpy": True}]}
    yield "a vocabulary", _of(words, [{"dtype": "|u1", "shape": [count // 12]}], bytes(count // 12))
    columns = [{"dtype": "<f2", "shape": [count // 8]} for _ in range(4)]
    records = {"records": list("abcd"), "columns": [{"column": i, "numpy": False} for i in range(4)]}
    yield "records", _of(records, columns, bytes(count // 8 * 8))
    yield "records in many places", _of([records] * 1_000, columns, bytes(count // 8 * 8))
    yield "texts without characters", _of({"array": 0}, [{"dtype": "<U0", "shape": [10**12]}])
    yield "a stated header", PREFIX.pack(b"BUTTRESS", VERSION, 2**60) + bytes(count)


def _of(model, arrays=(), data=b""):
    return _of_text(json.dumps(model), json.dumps(list(arrays)), data)


def _of_text(model, arrays="[]", data=b""):
    """Return a sealed file that states what it has around a model and arrays given as text."""
    rest = f'"grown": {GROWN}, "array_bytes": {len(data)}, "signed": false, "model": {model}, "arrays": {arrays}, '
    rest += '"written_by": {}, "written_at": ""}'
    nodes = sum(rest.count(sign) for sign in "[{,") + 2
    return sealed(f'{{"nodes": {nodes}, {rest}'.encode(), data)
