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
``{"class": name, "state": {...}}``                 an instance: a name of ``classes.CLASSES`` and its attributes
==================================================  =======================================================
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass

import numpy as np
from scipy.sparse import csr_array, csr_matrix

from buttress.persistence.classes import name_of
from buttress.persistence.container import NUMBERS_AND_TEXT, AnyArray

DEPTH = 50  # levels of nesting; a pipeline of pipelines with fitted kernels in it has about 15
DTYPES = f"{NUMBERS_AND_TEXT}O"
UNSAVED = ("_sklearn_version", "_skl_callbacks")  # attributes scikit-learn adds to what it copies or runs
Inner = Callable[[object, str], object]  # encodes a part, given what to call it in messages


def encode(value: object, arrays: list[AnyArray], where: str, depth: int = 0) -> object:
    """Return ``value`` as JSON, its arrays appended to ``arrays``.

    Raises
    ------
    ValueError
        For what a file cannot hold; ``where`` names it.
    """
    if depth > DEPTH:
        raise ValueError(f"{where} is nested too deeply to be saved.")

    def inner(part: object, name: str) -> object:
        return encode(part, arrays, f"{where}{name}", depth + 1)

    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if np.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.ndarray | np.generic):
        return _array(value, arrays, where, inner)
    encoded = _collection(value, inner)
    return _numpy_kind(value, inner) or _instance(value, where, inner) if encoded is None else encoded


def _array(value: AnyArray | np.generic, arrays: list[AnyArray], where: str, inner: Inner) -> object:
    """Encode an array, or a numpy number; arrays are stored in little-endian order, wherever they were made."""
    kind = value.dtype.kind
    if type(value) is np.ndarray and kind == "O":
        return {"objects": [inner(entry, "[...]") for entry in value.ravel()], "shape": list(value.shape)}
    if kind not in NUMBERS_AND_TEXT or (isinstance(value, np.ndarray) and type(value) is not np.ndarray):
        raise _refusal(value, where)
    arrays.append(np.asarray(value).astype(value.dtype.newbyteorder("<")))
    return {"array" if isinstance(value, np.ndarray) else "scalar": len(arrays) - 1}


def _collection(value: object, inner: Inner) -> object:
    """Encode a list, tuple, dict or slice; None for anything else."""
    if type(value) is list:
        return [inner(entry, f"[{i}]") for i, entry in enumerate(value)]
    if type(value) is tuple:
        return {"tuple": [inner(entry, f"[{i}]") for i, entry in enumerate(value)]}
    if type(value) is dict:
        return {"dict": [[inner(key, " key"), inner(entry, f"[{key!r}]")] for key, entry in value.items()]}
    if type(value) is slice:
        return {"slice": [inner(part, "") for part in (value.start, value.stop, value.step)]}
    return None


def _numpy_kind(value: object, inner: Inner) -> object:
    """Encode a CSR matrix, a dtype, a number type or a RandomState; None for anything else."""
    if type(value) in (csr_matrix, csr_array):
        kind = "csr_matrix" if type(value) is csr_matrix else "csr_array"
        parts = (value.data, value.indices, value.indptr)  # type: ignore[attr-defined]
        return {kind: [inner(part, "") for part in parts], "shape": list(value.shape)}  # type: ignore[attr-defined]
    if isinstance(value, np.dtype) and value.kind in DTYPES:
        return {"dtype": value.str}
    if isinstance(value, type) and issubclass(value, np.number) and np.dtype(value).kind in DTYPES:
        return {"type": np.dtype(value).str}
    if type(value) is np.random.RandomState:
        return {"random_state": inner(value.get_state(legacy=True), ".state")}
    return None


def _instance(value: object, where: str, inner: Inner) -> object:
    name = name_of(type(value))
    if name is None:
        raise _refusal(value, where)
    return {"class": name, "state": {key: inner(entry, f".{key}") for key, entry in _state(value).items()}}


def _state(value: object) -> dict[str, object]:
    """Return what is saved of an instance: all attributes, of a dataclass the public fields."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if not field.name.startswith("_")}
    return {key: entry for key, entry in vars(value).items() if key not in UNSAVED}


def _refusal(value: object, where: str) -> ValueError:
    cls = type(value)
    return ValueError(f"{where} is a {cls.__module__}.{cls.__name__}, which a model file cannot hold. It holds "
                      "estimators and kernels of this package, scikit-learn's Pipeline, ColumnTransformer, "
                      "SimpleImputer, OneHotEncoder and scalers, numbers, text and arrays, dense or CSR.")
