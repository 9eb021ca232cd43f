"""From JSON and arrays back to a model: instances are filled in, none of their methods is called."""

from collections import Counter
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
from buttress.persistence.container import AnyArray, Content, named_dtype
from buttress.persistence.encode import DEPTH, KINDS, growth_of_records
from buttress.persistence.errors import ModelFileError
from buttress.persistence.schema import check_state

Inner = Callable[[object], Any]  # decodes a part
SAME_HASH = 16  # keys of one dict that may have the same hash; those of equal numbers are one key
WORDS_OF_STATE = 624  # of a Mersenne Twister


class _Reading:
    """One file being read: each array may be used once, and parts may grow as much as the file may spend."""

    def __init__(self, content: Content):
        self.version = content.version
        self._arrays: list[AnyArray | None] = list(content.arrays)
        self._left = content.grown

    def array(self, number: int) -> AnyArray:
        """Return an array that nothing has used yet."""
        found = self._arrays[number]
        if found is None or number < 0:
            raise ModelFileError("Two parts of it are the same array.")
        self._arrays[number] = None
        return found

    def spend(self, units: int) -> None:
        """Refuse a file whose parts grow more than it stated."""
        self._left -= units
        if self._left < 0:
            raise ModelFileError("Its parts take more memory than its header states.")

    def finish(self) -> None:
        """Refuse a file with arrays that belong to nothing."""
        if any(entry is not None for entry in self._arrays):
            raise ModelFileError("It has arrays that no part of the model is made of.")


def decode(content: Content) -> Any:
    """Return the model a file holds.

    Raises
    ------
    ModelFileError
        For classes, attributes or dtypes that no model has.
    Exception
        Of any other kind, for JSON that :func:`buttress.persistence.encode.encode` never writes.
    """
    reading = _Reading(content)
    model = _decode(content.model, reading, 0)
    reading.finish()
    if not (isinstance(content.model, dict) and "class" in content.model):
        raise ModelFileError("It holds no estimator and no kernel.")
    return model


def _decode(value: object, reading: _Reading, depth: int) -> Any:
    if depth > DEPTH:
        raise ModelFileError("The file is nested too deeply.")

    def inner(part: object) -> Any:
        return _decode(part, reading, depth + 1)

    if isinstance(value, list):
        return [inner(part) for part in value]
    if not isinstance(value, dict):
        return value
    if "class" in value:
        name = value["class"]
        cls = class_named(name, reading.version)
        return _instance(cls, {str(key): inner(part) for key, part in value["state"].items()})
    if "array" in value:
        return reading.array(value["array"])
    if "scalar" in value:
        return _scalar(reading.array(value["scalar"]))
    if "numbered" in value:
        reading.spend(len(value["numbered"]))
        return dict(zip(value["numbered"], reading.array(value["numbers"]), strict=True))
    if "records" in value:
        return _records(value["records"], value["columns"], reading)
    (kind,) = value.keys() - {"shape"}
    if kind not in _READERS:
        raise ModelFileError(f"The file holds a value of the kind {kind!r}, which this release does not know. If a "
                             "later release wrote the file, update buttress.")
    return _READERS[kind](value[kind], value, inner)


def _scalar(array: AnyArray) -> object:
    if array.ndim:
        raise ModelFileError("A number in the file has a shape.")
    return array[()]


def _records(keys: list[str], columns: list[tuple[str, int]], reading: _Reading) -> list[dict[str, object]]:
    """Return a list of dicts from a column of numbers a key."""
    found = []
    for kind, number in columns:
        column = reading.array(number)
        if column.ndim != 1 or column.dtype.kind != ("i" if kind == "int" else "f") or kind not in KINDS:
            raise ModelFileError("A column of records in the file holds other numbers than it states.")
        reading.spend(growth_of_records(len(column), len(columns)) // len(columns))
        found.append(list(column) if kind == "numpy" else column.tolist())
    return [dict(zip(keys, entries, strict=True)) for entries in zip(*found, strict=True)]


def _instance(cls: type, state: dict[str, object]) -> object:
    """Return an instance with these attributes, without calling anything of its class."""
    for key in state:
        if not key.isidentifier() or key.startswith("__") or callable(getattr(cls, key, None)):
            raise ModelFileError(f"The file sets {key!r} of {cls.__name__}, which is no attribute of a model.")
    for field in fields(cls) if is_dataclass(cls) else ():
        if field.name not in state and field.default_factory is not MISSING:
            state[field.name] = field.default_factory()
        if field.name not in state and field.default is MISSING:
            raise ModelFileError(f"The file has no {field.name!r} of {cls.__name__}.")
    check_state(cls, state)
    made: object = object.__new__(cls)
    made.__dict__.update({**_later_parameters(cls, state), **state})
    _complete(made, state)
    return made


def _complete(made: Any, state: Mapping[str, Any]) -> None:
    """Check, or make again, what compiled code would take on trust; ModelFileError for numbers that point outside."""
    words = state.get("vocabulary_")
    if words is not None and sorted(int(place) for place in words.values()) != list(range(len(words))):
        raise ModelFileError(f"The vocabulary of {type(made).__name__} in the file does not number its words.")
    if "_trees" in state and type(made) in BOOSTED.values():
        regrow(made)
    if type(made) is IsotonicRegression and "X_thresholds_" in state:
        made._build_f(state["X_thresholds_"], state["y_thresholds_"])


def _later_parameters(cls: type, state: dict[str, object]) -> dict[str, object]:
    """Return the defaults of an estimator's parameters that came after the file was written."""
    if not issubclass(cls, BaseEstimator) or not cls.__module__.startswith("buttress."):
        return {}
    parameters = signature(cls).parameters.values()
    missing = [p.name for p in parameters if p.name not in state and p.default is Parameter.empty
               and p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    if missing:
        raise ModelFileError(f"The file has no {missing[0]!r} of {cls.__name__}.")
    return {p.name: p.default for p in parameters if p.name not in state and p.default is not Parameter.empty}


def _dict(part: list[tuple[object, object]], inner: Inner) -> dict[object, object]:
    """Return a dict; ModelFileError for keys of which many have one hash, which takes the square of their number."""
    keys = [inner(key) for key, _ in part]
    for key in keys:
        for entry in key if isinstance(key, tuple) else (key,):
            if not (entry is None or isinstance(entry, bool | int | float | str | np.generic)):
                raise ModelFileError(f"A dict in the file has the key {key!r}. Expected numbers and text.")
    if max(Counter(map(hash, keys)).values(), default=0) > SAME_HASH or len(set(keys)) < len(keys):
        raise ModelFileError("A dict in the file has keys that are the same, or made to collide.")
    return dict(zip(keys, (inner(value) for _, value in part), strict=True))


def _objects(part: list[object], whole: Mapping[str, Any], inner: Inner) -> AnyArray:
    made: AnyArray = np.empty(len(part), dtype=object)
    for place, entry in enumerate(part):
        made[place] = inner(entry)
    return made.reshape([int(n) for n in whole["shape"]])


def _csr(cls: type, part: list[object], whole: Mapping[str, Any], inner: Inner) -> object:
    """Return a CSR matrix; ModelFileError for indices that point outside it.

    scipy's own check does not look at the row pointers of a matrix whose last one is 0, but its products follow them.
    """
    data, indices, indptr = (inner(entry) for entry in part)
    n_rows, n_columns = (int(n) for n in whole["shape"])
    whole_numbers = all(isinstance(index, np.ndarray) and index.dtype.kind == "i" for index in (indices, indptr))
    sound = whole_numbers and data.ndim == indices.ndim == indptr.ndim == 1 and len(indptr) == n_rows + 1
    sound = sound and indptr[0] == 0 and indptr[-1] == len(data) == len(indices) and bool((np.diff(indptr) >= 0).all())
    if not (sound and indices.min(initial=0) >= 0 and indices.max(initial=-1) < n_columns):
        raise ModelFileError("A sparse matrix in the file has indices that point outside it.")
    return cls((data, indices, indptr), shape=(n_rows, n_columns))


def _random_state(part: object, inner: Inner) -> np.random.RandomState:
    """Return a generator; ModelFileError for a position outside its state, which numpy would follow out of it."""
    kind, words, position, has_gauss, gauss = inner(part)
    sound = kind == "MT19937" and type(position) is int and 0 <= position <= WORDS_OF_STATE and has_gauss in (0, 1)
    sound = sound and isinstance(words, np.ndarray) and words.shape == (WORDS_OF_STATE,) and words.dtype == np.uint32
    if not (sound and np.any(words) and np.isfinite(gauss)):
        raise ModelFileError("A random generator in the file has a state that no generator has.")
    made = np.random.RandomState()
    made.set_state((kind, words, position, has_gauss, gauss))
    return made


def _spline(part: list[object], inner: Inner) -> BSpline:
    """Return a spline; its constructor refuses knots and coefficients that do not fit together."""
    knots, coefficients, degree, extrapolate, axis = (inner(entry) for entry in part)
    if axis != 0:  # its constructor would turn the coefficients again each time
        raise ModelFileError(f"A spline in the file has axis {axis!r}. SplineTransformer makes splines along axis 0.")
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
    "dtype": lambda part, whole, inner: named_dtype(part),
    "type": lambda part, whole, inner: cast(object, named_dtype(part).type),
    "random_state": lambda part, whole, inner: _random_state(part, inner),
    "bunch": lambda part, whole, inner: Bunch(**{str(key): inner(value) for key, value in part}),
    "spline": lambda part, whole, inner: _spline(part, inner),
    "function": lambda part, whole, inner: function_named(part),
    "kind": lambda part, whole, inner: TYPES[part],
}
