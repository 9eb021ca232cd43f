"""The model file: fitted estimators and kernels in one checked container that cannot run code.

A file is, in this order: 8 bytes ``BUTTRESS``, the format version (4 bytes) and the length of the header (8 bytes),
both little-endian; the header, JSON in UTF-8; the raw bytes of the arrays, one after the other; and the SHA-256 of all
of that (32 bytes). The header says which classes and values make up the model and which slice of the bytes is which
array. Nothing is compressed, so a file cannot grow when read.

Reading builds instances of this package's classes (and of scikit-learn's Pipeline, ColumnTransformer, SimpleImputer,
OneHotEncoder and scalers), by name from a closed list, and fills in numbers, text and arrays. No constructor, setter or
function named by the file is called.

Examples
--------
>>> import tempfile, pathlib
>>> from sklearn.datasets import load_iris
>>> from buttress import SVC, load, save
>>> X, y = load_iris(return_X_y=True)
>>> model = SVC().fit(X, y)
>>> path = pathlib.Path(tempfile.mkdtemp()) / "iris.buttress"
>>> save(model, path)
>>> bool((load(path).predict(X) == model.predict(X)).all())
True
"""

import hashlib
import importlib
import json
import os
import pickle
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator

from buttress._checks import check_count

MAGIC, VERSION = b"BUTTRESS", 1
PREFIX = struct.Struct("<8sIQ")
DIGEST = hashlib.sha256().digest_size
LARGEST_HEADER = 2**26  # 64 MB of JSON
LARGEST_FILE = 2**32
DEPTH = 50  # levels of nesting
DTYPES = "biufcUO"
# scikit-learn's own, whose state is numbers, text and arrays: what code pasted from an audit is made of, and scalers
FOREIGN = {
    "sklearn.compose": ("ColumnTransformer",),
    "sklearn.impute": ("SimpleImputer",),
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.preprocessing": ("MaxAbsScaler", "MinMaxScaler", "OneHotEncoder", "RobustScaler", "StandardScaler"),
}
PICKLED = (b"\x80", b"PK", b"\x1f\x8b", b"BZ", b"x")  # pickle, and what joblib and skops wrap it in


def save(model: Any, path: Any) -> None:
    """Write a fitted estimator or a kernel of this package to one file, whole or not at all.

    Parameters
    ----------
    model : estimator or kernel
        Of this package; also a scikit-learn Pipeline that ends in one, of scalers, SimpleImputer, OneHotEncoder and
        ColumnTransformer.
    path : str or path
        Replaced if it exists.

    Raises
    ------
    ValueError
        For a model that holds anything else, such as a function as its kernel; the message names where.
    """
    arrays: list[np.ndarray[Any, Any]] = []
    content = _encode(model, arrays, type(model).__name__, 0)
    if not (isinstance(content, dict) and "class" in content):
        raise ValueError(f"Only estimators and kernels can be saved. Got {type(model).__name__}.")
    header = json.dumps({"model": content, "arrays": _slices(arrays), "written_by": _versions()}, allow_nan=False)
    body = [PREFIX.pack(MAGIC, VERSION, len(header.encode())), header.encode(), *(a.tobytes() for a in arrays)]
    digest = hashlib.sha256()
    for part in body:
        digest.update(part)
    _write(Path(path), [*body, digest.digest()])


def load(
    path: Any, *, max_bytes: int = LARGEST_FILE, pickle_can_run_any_code_and_i_trust_this_file: bool = False
) -> Any:
    """Read a model that :func:`save` wrote; every byte is checked against the SHA-256 first.

    Parameters
    ----------
    path : str or path
    max_bytes : int, default=2**32
        Largest file to read.
    pickle_can_run_any_code_and_i_trust_this_file : bool, default=False
        Also read a pickle. Unpickling runs whatever its author put into it; only for files you made yourself.

    Returns
    -------
    The estimator or kernel, as it was saved.

    Raises
    ------
    ValueError
        For a file that is too large, is no model file, is of a later version, was cut short or changed anywhere, or
        names a class that is not on the closed list.
    """
    path, size = Path(path), os.stat(path).st_size
    if size > check_count("max_bytes", max_bytes):
        raise ValueError(f"{path.name} is {size:,} bytes. Expected at most max_bytes={max_bytes:,}.")
    content = path.read_bytes()
    if not content.startswith(MAGIC):
        if not pickle_can_run_any_code_and_i_trust_this_file:
            raise ValueError(_foreign_file(path.name, content))
        return pickle.loads(content)
    header, data = _checked(path.name, content)
    try:
        arrays = [_array(entry, data) for entry in header["arrays"]]
        return _decode(header["model"], arrays, 0)
    except (KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path.name} is not a well-formed model file: {error!r}.") from None


def _foreign_file(name: str, content: bytes) -> str:
    if content.startswith(PICKLED):
        return (f"{name} looks like a pickle, which can run any code when it is read. Save the model with "
                "buttress.save instead; if you made this file yourself, "
                "load(path, pickle_can_run_any_code_and_i_trust_this_file=True) reads it.")
    return f"{name} is not a model file: it does not begin with {MAGIC.decode()}, or its beginning was changed."


def _checked(name: str, content: bytes) -> tuple[Any, memoryview]:
    """Return the header and the array bytes of a file whose SHA-256 is right."""
    if len(content) < PREFIX.size + DIGEST:
        raise ValueError(f"{name} is cut short: {len(content)} bytes.")
    if hashlib.sha256(memoryview(content)[:-DIGEST]).digest() != content[-DIGEST:]:
        raise ValueError(f"{name} was changed or cut short after it was written: its SHA-256 is wrong.")
    _, version, length = PREFIX.unpack_from(content)
    if version != VERSION:
        raise ValueError(f"{name} has format version {version}. This release reads {VERSION}. Update buttress.")
    if length > min(LARGEST_HEADER, len(content) - PREFIX.size - DIGEST):
        raise ValueError(f"{name} states a header of {length:,} bytes, which it cannot hold.")
    view = memoryview(content)[PREFIX.size : -DIGEST]
    try:
        header = json.loads(bytes(view[:length]))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is not a well-formed model file: {error}.") from None
    return header, view[length:]


def _write(path: Path, parts: list[bytes]) -> None:
    """Write a temporary file beside ``path``, readable by whom the user's umask lets read, and move it there.

    OSError names ``path``, of which the user knows.
    """
    temporary = path.absolute().parent / f"{path.name}.{uuid4().hex}"
    try:
        with temporary.open("xb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise type(error)(error.errno, error.strerror, str(path)) from None
        raise


def _versions() -> dict[str, str]:
    import sklearn

    import buttress

    return {"buttress": buttress.__version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__}


# Values are JSON as they are, or one of: {"float": text}, {"tuple": [...]}, {"dict": [[key, value], ...]},
# {"array": number}, {"objects": [...], "shape": [...]}, {"scalar": number of an array of one entry},
# {"csr_matrix" or "csr_array": [data, indices, indptr], "shape": [...]}, {"random_state": [...]},
# {"slice": [start, stop, step]}, {"dtype": text}, {"type": text} for a number type of numpy,
# {"class": "room:Name", "state": {...}}


def _encode(value: Any, arrays: list[np.ndarray[Any, Any]], where: str, depth: int) -> Any:
    """Return ``value`` as JSON, its arrays appended to ``arrays``; ``where`` names it for messages."""
    if depth > DEPTH:
        raise ValueError(f"{where} is nested too deeply to be saved.")

    def inner(entry: Any, name: str) -> Any:
        return _encode(entry, arrays, f"{where}{name}", depth + 1)

    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if np.isfinite(value) else {"float": repr(value)}
    if type(value) is list:
        return [inner(entry, f"[{i}]") for i, entry in enumerate(value)]
    if type(value) is tuple:
        return {"tuple": [inner(entry, f"[{i}]") for i, entry in enumerate(value)]}
    if type(value) is dict:
        return {"dict": [[inner(key, " key"), inner(entry, f"[{key!r}]")] for key, entry in value.items()]}
    if isinstance(value, np.ndarray) and type(value) is np.ndarray and value.dtype.kind == "O":
        return {"objects": [inner(entry, "[...]") for entry in value.ravel()], "shape": list(value.shape)}
    if type(value) is np.ndarray and value.dtype.kind in "biufcU":
        arrays.append(value.astype(value.dtype.newbyteorder("<")))
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic) and value.dtype.kind in "biufcU":
        arrays.append(np.asarray(value, dtype=value.dtype.newbyteorder("<")))
        return {"scalar": len(arrays) - 1}
    if type(value) in (csr_matrix, csr_array):
        kind = "csr_matrix" if type(value) is csr_matrix else "csr_array"
        return {kind: [inner(part, "") for part in (value.data, value.indices, value.indptr)],
                "shape": list(value.shape)}
    if type(value) is slice:
        return {"slice": [inner(part, "") for part in (value.start, value.stop, value.step)]}
    if isinstance(value, np.dtype) and value.kind in DTYPES:
        return {"dtype": value.str}
    if isinstance(value, type) and issubclass(value, np.number) and np.dtype(value).kind in DTYPES:
        return {"type": np.dtype(value).str}
    if type(value) is np.random.RandomState:
        return {"random_state": inner(value.get_state(legacy=True), ".state")}
    return {"class": _name(type(value), where), "state": {k: inner(v, f".{k}") for k, v in _state(value).items()}}


def _state(value: Any) -> dict[str, Any]:
    """Return what is to be saved of an instance: all attributes, of a dataclass those it is made from."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if not field.name.startswith("_")}
    return {key: entry for key, entry in vars(value).items() if key not in ("_sklearn_version", "_skl_callbacks")}


def _name(cls: type, where: str) -> str:
    """Return the name a class is saved under: the shortest module of this package that offers it, and its own."""
    module, name = cls.__module__, cls.__name__
    rooms = [".".join(module.split(".")[:n]) for n in range(2, module.count(".") + 2)]
    for room in rooms:
        if (module.startswith("buttress.") or name in FOREIGN.get(room, ())) and _offers(room, name) is cls:
            return f"{room}:{name}"
    raise ValueError(f"{where} is a {module}.{name}, which a model file cannot hold. It holds estimators and "
                     "kernels of this package, scikit-learn's Pipeline, ColumnTransformer, SimpleImputer, "
                     "OneHotEncoder and scalers, numbers, text and arrays, dense or CSR.")


def _offers(room: str, name: str) -> Any:
    return getattr(importlib.import_module(room), name, None)


def _class(name: Any) -> type:
    """Return the class saved under ``name``; ValueError for one that is not this package's or listed."""
    room, _, own = str(name).partition(":")
    ours = room.startswith("buttress.") and all(part.isidentifier() and part[0] != "_" for part in room.split("."))
    if not ours and own not in FOREIGN.get(room, ()):
        raise ValueError(f"The file names the class {name!r}, which is not on the list of those a model is made of.")
    try:
        cls = _offers(room, own)
    except ImportError:
        cls = None
    made_of = isinstance(cls, type) and (issubclass(cls, BaseEstimator) or is_dataclass(cls))
    if not made_of or not cls.__module__.startswith(("buttress.", "sklearn.")):
        raise ValueError(f"The file names the class {name!r}, which this release does not have.")
    return cls


def _slices(arrays: list[np.ndarray[Any, Any]]) -> list[dict[str, Any]]:
    """Return dtype, shape and place of each array among the bytes after the header."""
    ends = np.cumsum([0, *(a.nbytes for a in arrays)])
    return [
        {"dtype": a.dtype.str, "shape": list(a.shape), "start": int(start)}
        for a, start in zip(arrays, ends, strict=False)
    ]


def _array(entry: dict[str, Any], data: memoryview) -> np.ndarray[Any, Any]:
    """Return one array, its own copy; ValueError where it does not fit into the bytes there are."""
    dtype, shape, start = np.dtype(str(entry["dtype"])), [int(n) for n in entry["shape"]], int(entry["start"])
    count = 1
    for n in shape:
        count *= n
    if dtype.kind not in "biufcU" or min(shape, default=0) < 0 or not 0 <= start <= len(data) - count * dtype.itemsize:
        raise ValueError(f"The file describes an array of {shape} {dtype} that it does not hold.")
    if dtype.itemsize == 0:
        return np.zeros(shape, dtype=dtype)
    return np.frombuffer(data, dtype=dtype, count=count, offset=start).reshape(shape).copy()


def _decode(value: Any, arrays: list[np.ndarray[Any, Any]], depth: int) -> Any:
    """Return what :func:`_encode` was given."""
    if depth > DEPTH:
        raise ValueError("The file is nested too deeply.")

    def inner(entry: Any) -> Any:
        return _decode(entry, arrays, depth + 1)

    if isinstance(value, list):
        return [inner(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "class" in value:
        return _instance(_class(value["class"]), {str(k): inner(entry) for k, entry in value["state"].items()})
    ((kind, content),) = [item for item in value.items() if item[0] != "shape"]
    return _READERS[kind](content, value, arrays, inner)


def _instance(cls: type, state: dict[str, Any]) -> Any:
    """Return an instance with these attributes, without calling anything of its class."""
    for key in state:
        if not key.isidentifier() or key.startswith("__") or callable(getattr(cls, key, None)):
            raise ValueError(f"The file sets {key!r} of {cls.__name__}, which is no attribute of a model.")
    made: Any = object.__new__(cls)
    for field in fields(cls) if is_dataclass(cls) else ():
        if field.name not in state and field.default_factory is not MISSING:
            state[field.name] = field.default_factory()
    made.__dict__.update(state)
    return made


def _objects(content: Any, value: Any, inner: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
    made: np.ndarray[Any, Any] = np.empty(len(content), dtype=object)
    made[:] = [inner(entry) for entry in content]
    return made.reshape([int(n) for n in value["shape"]])


def _csr(cls: Any, content: Any, value: Any, inner: Callable[[Any], Any]) -> Any:
    """Return a CSR matrix; ValueError for indices that point out of it."""
    data, indices, indptr = (inner(part) for part in content)
    made = cls((data, indices, indptr), shape=tuple(int(n) for n in value["shape"]))
    made.check_format(full_check=True)
    return made


def _dtype(content: Any) -> Any:
    """Return a dtype of numbers, text or objects; ValueError for any other, which a model has no use for."""
    made = np.dtype(str(content))
    if made.kind not in DTYPES:
        raise ValueError(f"The file names the dtype {content!r}, which is not one of numbers, text or objects.")
    return made


def _random_state(content: Any, inner: Callable[[Any], Any]) -> np.random.RandomState:
    made = np.random.RandomState()
    made.set_state(inner(content))
    return made


_READERS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "float": lambda content, value, arrays, inner: float(content),
    "tuple": lambda content, value, arrays, inner: tuple(inner(entry) for entry in content),
    "dict": lambda content, value, arrays, inner: {inner(key): inner(entry) for key, entry in content},
    "array": lambda content, value, arrays, inner: arrays[content],
    "scalar": lambda content, value, arrays, inner: arrays[content][()],
    "objects": lambda content, value, arrays, inner: _objects(content, value, inner),
    "csr_matrix": lambda content, value, arrays, inner: _csr(csr_matrix, content, value, inner),
    "csr_array": lambda content, value, arrays, inner: _csr(csr_array, content, value, inner),
    "slice": lambda content, value, arrays, inner: slice(*(inner(part) for part in content)),
    "dtype": lambda content, value, arrays, inner: _dtype(content),
    "type": lambda content, value, arrays, inner: _dtype(content).type,
    "random_state": lambda content, value, arrays, inner: _random_state(content, inner),
}
