"""From a model to JSON and arrays.

A value is JSON as it is, or one of these:

==================================================  =======================================================
``{"float": text}``                                 infinite, or not a number
``{"tuple": [...]}``, ``{"dict": [[key, value]]}``
``{"array": i}``, ``{"scalar": i}``                 the i-th array, or its only entry as a numpy number
``{"objects": [...], "shape": [...]}``              an array of objects
``{"csr_array": [...], "shape": [...]}``            data, indices and indptr; also ``csr_matrix``
``{"slice": [...]}``                                start, stop and step
``{"dtype": text}``, ``{"type": text}``             a dtype, or a number type of numpy
``{"random_state": ...}``                           the state of a RandomState
``{"numbered": [...], "numbers": i}``               a dict from text to numpy numbers, the entries of the i-th array
``{"records": [...], "columns": [[kind, i]]}``      a list of dicts with the same keys; the i-th array is a column
``{"bunch": [[key, value]]}``                       scikit-learn's dict with attributes
``{"spline": [...]}``                               a BSpline: knots, coefficients, degree, extrapolate, axis
``{"function": name}``, ``{"kind": name}``          a name of ``classes.FUNCTIONS``, or of ``classes.TYPES``
``{"class": name, "state": {...}}``                 an instance: a name of ``classes.CLASSES`` and its attributes
==================================================  =======================================================
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np
from scipy.interpolate import BSpline
from scipy.sparse import csr_array, csr_matrix
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import Bunch

from buttress.persistence.boosting import BOOSTED, flattened
from buttress.persistence.classes import TYPES, function_name_of, name_of
from buttress.persistence.container import NUMBERS_AND_TEXT, AnyArray
from buttress.persistence.errors import ModelFileError
from buttress.persistence.sklearn_classes import OF_TRAINING

DEPTH = 50  # levels of nesting; a pipeline of pipelines with fitted kernels in it has about 15
DTYPES = f"{NUMBERS_AND_TEXT}O"
UNSAVED = ("_sklearn_version", "_skl_callbacks")  # attributes scikit-learn adds to what it copies or runs
DATA = {"Table": ("source",)}  # a model holds what a table is called and what of it is used, never its rows
REBUILT = ("sklearn.IsotonicRegression",)  # its function f_ follows from the thresholds beside it
SPLINE = ("t", "c", "k", "extrapolate", "axis")  # what its constructor takes, in this order
Inner = Callable[[object, str], object]  # encodes a part, given what to call it in messages
KINDS: dict[str, type] = {"float": float, "int": int, "numpy": np.float64}  # of the numbers in a column of records
LARGEST_INT = 2**63 - 1


@dataclass
class Arrays:
    """The arrays of a file, and how much of them becomes Python objects when read, in units of the container."""

    held: list[AnyArray] = field(default_factory=list)
    grown: int = 0

    def add(self, value: AnyArray) -> int:
        """Put an array among the others, little-endian, and return its number."""
        self.held.append(value.astype(value.dtype.newbyteorder("<")))
        return len(self.held) - 1


def growth_of_records(count: int, columns: int) -> int:
    """Return the growth of a list of dicts, in units of the container: a dict of four floats takes 330 bytes."""
    return count * (2 + columns)


def encode(value: object, arrays: Arrays, where: str, depth: int = 0) -> object:
    """Return ``value`` as JSON, its arrays appended to ``arrays``.

    Raises
    ------
    ModelFileError
        For what a file cannot hold; ``where`` names it.
    """
    if depth > DEPTH:
        raise ModelFileError(f"{where} is nested too deeply to be saved.")

    def inner(part: object, name: str) -> object:
        return encode(part, arrays, f"{where}{name}", depth + 1)

    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if np.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray | np.generic):
        return _array(value, arrays, where, inner)
    if isinstance(value, BaseSearchCV):
        return inner(best_of(value, where), ".best_estimator_")
    if type(value) is dict and _is_numbered(value):
        arrays.grown += len(value)
        return {"numbered": list(value), "numbers": arrays.add(np.array(list(value.values())))}
    records = _records(value, arrays)
    if records is not None:
        return records
    encoded = _collection(value, inner)
    return _numpy_kind(value, inner) or _instance(value, where, inner) if encoded is None else encoded


def _array(value: AnyArray | np.generic, arrays: Arrays, where: str, inner: Inner) -> object:
    """Encode an array, or a numpy number; arrays are stored in little-endian order, wherever they were made."""
    kind = value.dtype.kind
    if type(value) is np.ndarray and kind == "O":
        return {"objects": [inner(entry, "[...]") for entry in value.ravel()], "shape": list(value.shape)}
    if kind not in NUMBERS_AND_TEXT or (isinstance(value, np.ndarray) and type(value) is not np.ndarray):
        raise _refusal(value, where)
    return {"array" if isinstance(value, np.ndarray) else "scalar": arrays.add(np.asarray(value))}


def _records(value: object, arrays: Arrays) -> object:
    """Encode a list of dicts with the same keys and numbers of one type a key, as histories are; None for others."""
    if type(value) is not list or len(value) < 2 or not all(type(entry) is dict for entry in value):
        return None
    keys = list(value[0])
    if not keys or not all(type(key) is str for key in keys) or any(list(entry) != keys for entry in value):
        return None
    columns = [[entry[key] for entry in value] for key in keys]
    kinds = [_kind_of(column) for column in columns]
    if None in kinds:
        return None
    arrays.grown += growth_of_records(len(value), len(keys))
    return {"records": keys, "columns": [[kind, arrays.add(np.array(column))]
                                         for kind, column in zip(kinds, columns, strict=True)]}


def _kind_of(column: list[object]) -> str | None:
    """Return the name of the one type of the numbers in a column, None where there are several or another."""
    kinds = {type(entry) for entry in column}
    name = next((name for name, known in KINDS.items() if kinds == {known}), None)
    return None if name == "int" and any(abs(entry) > LARGEST_INT for entry in column) else name  # type: ignore[arg-type]


def _is_numbered(value: dict[object, object]) -> bool:
    """Say whether a dict maps texts to numpy numbers of one type, as a vocabulary does, of which there are many."""
    kinds = {type(entry) for entry in value.values()}
    return len(kinds) == 1 and issubclass(kinds.pop(), np.number) and all(type(key) is str for key in value)


def best_of(search: object, where: str) -> object:
    """Return the best estimator of a fitted search over parameters; ModelFileError where there is none."""
    best: object = getattr(search, "best_estimator_", None)
    if best is None:
        raise ModelFileError(f"{where} is a {type(search).__name__} without a best estimator, of which alone a model "
                             "file takes something. Fit it first, with refit=True.")
    return best


def _collection(value: Any, inner: Inner) -> object:
    """Encode a list, tuple, dict or slice; None for anything else."""
    if type(value) is list:
        return [inner(entry, f"[{i}]") for i, entry in enumerate(value)]
    if type(value) is tuple:
        return {"tuple": [inner(entry, f"[{i}]") for i, entry in enumerate(value)]}
    if type(value) is dict:
        return {"dict": [[inner(key, " key"), inner(entry, f"[{key!r}]")] for key, entry in value.items()]}
    if type(value) is Bunch:
        return {"bunch": [[key, inner(entry, f"[{key!r}]")] for key, entry in value.items()]}
    if type(value) is slice:
        return {"slice": [inner(part, "") for part in (value.start, value.stop, value.step)]}
    return None


def _numpy_kind(value: object, inner: Inner) -> object:
    """Encode a CSR matrix, a dtype, a type, a RandomState, a spline or a function; None for anything else."""
    if type(value) in (csr_matrix, csr_array):
        kind = "csr_matrix" if type(value) is csr_matrix else "csr_array"
        parts = (value.data, value.indices, value.indptr)  # type: ignore[attr-defined]
        return {kind: [inner(part, "") for part in parts], "shape": list(value.shape)}  # type: ignore[attr-defined]
    if isinstance(value, np.dtype) and value.kind in DTYPES:
        return {"dtype": value.str}
    named = next((name for name, known in TYPES.items() if value is known), None)
    if named is not None:
        return {"kind": named}
    if isinstance(value, type) and issubclass(value, np.number) and np.dtype(value).kind in DTYPES:
        return {"type": np.dtype(value).str}
    if type(value) is np.random.RandomState:
        return {"random_state": inner(value.get_state(legacy=True), ".state")}
    if type(value) is BSpline:
        return {"spline": [inner(getattr(value, name), f".{name}") for name in SPLINE]}
    function = function_name_of(value)
    return None if function is None else {"function": function}


def _instance(value: object, where: str, inner: Inner) -> object:
    name = name_of(type(value))
    if name is None:
        raise _refusal(value, where)
    state = flattened(value, where) if name in BOOSTED and hasattr(value, "_predictors") else _state(value, name)
    return {"class": name, "state": {key: inner(entry, f".{key}") for key, entry in state.items()}}


def _state(value: object, name: str) -> dict[str, object]:
    """Return what is saved of an instance: all attributes but those of training, of a dataclass the public fields."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if not field.name.startswith("_")}
    left_out = (*UNSAVED, *OF_TRAINING.get(name, ()), *DATA.get(name, ()), *(("f_",) if name in REBUILT else ()))
    return {key: entry for key, entry in vars(value).items() if key not in left_out}


def _refusal(value: object, where: str) -> ModelFileError:
    cls = type(value)
    return ModelFileError(f"{where} is a {cls.__module__}.{cls.__name__}, which a model file cannot hold. It holds "
                      "estimators and kernels of this package, scikit-learn's pipelines, preprocessing, linear and "
                      "other models whose state is arrays, numbers, text and arrays, dense or CSR.")
