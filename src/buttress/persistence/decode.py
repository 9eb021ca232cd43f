"""From JSON and arrays back to a model: instances are filled in, none of their methods is called."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter, signature
from typing import Any, cast

import numpy as np
from scipy.interpolate import BSpline
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.utils import Bunch

from buttress.persistence.boosting import BOOSTED, regrow
from buttress.persistence.classes import TYPES, class_named, function_named
from buttress.persistence.container import AnyArray, Content
from buttress.persistence.encode import DEPTH, DTYPES

Inner = Callable[[object], Any]  # decodes a part


def decode(content: Content) -> Any:
    """Return the model a file holds.

    Raises
    ------
    ValueError
        For classes, attributes or dtypes that no model has.
    KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError
        For JSON that :func:`buttress.persistence.encode.encode` never writes.
    """
    return _decode(content.model, content, 0)


def _decode(value: object, content: Content, depth: int) -> Any:
    if depth > DEPTH:
        raise ValueError("The file is nested too deeply.")

    def inner(part: object) -> Any:
        return _decode(part, content, depth + 1)

    if isinstance(value, list):
        return [inner(part) for part in value]
    if not isinstance(value, dict):
        return value
    if "class" in value:
        state = {str(key): inner(part) for key, part in value["state"].items()}
        return _instance(class_named(value["class"], content.version), state)
    if "array" in value:
        return content.arrays[value["array"]]
    if "scalar" in value:
        return content.arrays[value["scalar"]][()]
    if "numbered" in value:
        return dict(zip(value["numbered"], content.arrays[value["numbers"]], strict=True))
    (kind,) = value.keys() - {"shape"}
    if kind not in _READERS:
        raise ValueError(f"The file holds a value of the kind {kind!r}, which this release does not know. If a later "
                         "release wrote the file, update buttress.")
    return _READERS[kind](value[kind], value, inner)


def _instance(cls: type, state: dict[str, object]) -> object:
    """Return an instance with these attributes, without calling anything of its class."""
    for key in state:
        if not key.isidentifier() or key.startswith("__") or callable(getattr(cls, key, None)):
            raise ValueError(f"The file sets {key!r} of {cls.__name__}, which is no attribute of a model.")
    for field in fields(cls) if is_dataclass(cls) else ():
        if field.name not in state and field.default_factory is not MISSING:
            state[field.name] = field.default_factory()
    made: object = object.__new__(cls)
    made.__dict__.update({**_later_parameters(cls, state), **state})
    _complete(made, state)
    return made


def _complete(made: Any, state: Mapping[str, Any]) -> None:
    """Check, or make again, what compiled code would take on trust; ValueError for numbers that point outside."""
    words = state.get("vocabulary_")
    if words is not None and sorted(int(place) for place in words.values()) != list(range(len(words))):
        raise ValueError(f"The vocabulary of {type(made).__name__} in the file does not number its words.")
    if "_trees" in state and type(made) in BOOSTED.values():
        regrow(made)
    if type(made) is IsotonicRegression and "X_thresholds_" in state:
        made._build_f(state["X_thresholds_"], state["y_thresholds_"])


def _later_parameters(cls: type, state: dict[str, object]) -> dict[str, object]:
    """Return the defaults of an estimator's parameters that came after the file was written."""
    if not issubclass(cls, BaseEstimator) or not cls.__module__.startswith("buttress."):
        return {}
    parameters = signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.name not in state and p.default is not Parameter.empty}


def _dict(part: list[tuple[object, object]], inner: Inner) -> dict[object, object]:
    return {inner(key): inner(value) for key, value in part}


def _objects(part: list[object], whole: Mapping[str, Any], inner: Inner) -> AnyArray:
    made: AnyArray = np.empty(len(part), dtype=object)
    made[:] = [inner(entry) for entry in part]
    return made.reshape([int(n) for n in whole["shape"]])


def _csr(cls: type, part: list[object], whole: Mapping[str, Any], inner: Inner) -> object:
    """Return a CSR matrix; ValueError for indices that point outside it."""
    data, indices, indptr = (inner(entry) for entry in part)
    made = cls((data, indices, indptr), shape=tuple(int(n) for n in whole["shape"]))
    made.check_format(full_check=True)
    return made


def _dtype(text: object) -> "np.dtype[Any]":
    """Return a dtype of numbers, text or objects; ValueError for any other, which a model has no use for."""
    made: np.dtype[Any] = np.dtype(str(text))
    if made.kind not in DTYPES:
        raise ValueError(f"The file names the dtype {text!r}, which is not one of numbers, text or objects.")
    return made


def _random_state(part: object, inner: Inner) -> np.random.RandomState:
    made = np.random.RandomState()
    made.set_state(inner(part))
    return made


def _spline(part: list[object], inner: Inner) -> BSpline:
    """Return a spline; its constructor refuses knots and coefficients that do not fit together."""
    knots, coefficients, degree, extrapolate, axis = (inner(entry) for entry in part)
    return BSpline(knots, coefficients, degree, extrapolate=extrapolate, axis=axis)


# each takes the part under its key, the dict the key is in, and what decodes the parts of the part
_READERS: dict[str, Callable[[Any, Mapping[str, Any], Inner], object]] = {
    "float": lambda part, whole, inner: float(part),
    "tuple": lambda part, whole, inner: tuple(inner(entry) for entry in part),
    "dict": lambda part, whole, inner: _dict(part, inner),
    "objects": _objects,
    "csr_matrix": lambda part, whole, inner: _csr(csr_matrix, part, whole, inner),
    "csr_array": lambda part, whole, inner: _csr(csr_array, part, whole, inner),
    "slice": lambda part, whole, inner: slice(*(inner(entry) for entry in part)),
    "dtype": lambda part, whole, inner: _dtype(part),
    "type": lambda part, whole, inner: cast(object, _dtype(part).type),
    "random_state": lambda part, whole, inner: _random_state(part, inner),
    "bunch": lambda part, whole, inner: Bunch(**{str(key): inner(value) for key, value in part}),
    "spline": lambda part, whole, inner: _spline(part, inner),
    "function": lambda part, whole, inner: function_named(part),
    "kind": lambda part, whole, inner: TYPES[part],
}
