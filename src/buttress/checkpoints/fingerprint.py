"""What two fits must have in common to end in the same bits: parameters, data, and where they are computed.

What a fit or a call is given becomes a digest, equal for what it cannot tell apart by type and content.
"""

import hashlib
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from importlib.metadata import version
from itertools import chain
from logging import Logger
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from llvmlite.binding import get_host_cpu_name
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import MetadataRequest
from threadpoolctl import threadpool_info

import buttress

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")

Fingerprint = dict[str, dict[str, str]]
Update = Callable[[Any], None]  # of a hash, with bytes or a view of them


def fingerprint(model: BaseEstimator, data: Mapping[str, object]) -> Callable[[], Fingerprint]:
    """Return a function that returns the fingerprint of a fit to ``data`` (arguments of ``fit`` by name).

    It holds texts by name in three parts. What the fit may change is taken now; the data are read when it is called.
    """
    given = model.get_params(deep=True)
    operational = ("checkpoint", "resume", "max_time", "progress")  # these do not change where a fit ends
    parameters = {name: _text(value) for name, value in given.items() if name.split("__")[-1] not in operational}
    here = environment()

    @cache
    def taken() -> Fingerprint:
        return {
            "parameters": {"estimator": type(model).__name__, **parameters},
            "data": {name: digest(value) for name, value in data.items()},
            "environment": here,
        }

    return taken


def environment() -> dict[str, str]:
    """Return versions, processor, threads and BLAS: what rounding depends on."""
    found = dict(versions())
    if "torch" in sys.modules:
        found["torch"] = str(sys.modules["torch"].__version__)
    blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
    keys = ("internal_api", "version", "architecture", "threading_layer", "num_threads")
    for known in sorted(" ".join(str(library[key]) for key in keys if key in library) for library in blas):
        found["blas"] = f"{found['blas']}, {known}" if "blas" in found else known
    return found


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Return what does not change in a process: the processor and the versions of packages."""
    here = (("Python", platform.python_version()), ("processor", f"{platform.machine()} {get_host_cpu_name()}"))
    return (*here, ("buttress", buttress.__version__), *((package, version(package)) for package in PACKAGES))


def differences(now: Fingerprint, then: Fingerprint, part: str) -> list[str]:
    """Return what of a part differs, in words."""
    found = []
    for name in sorted(now[part].keys() | then[part].keys()):
        old = then[part].get(name, "missing")
        new = now[part].get(name, "missing")
        if old != new:
            found.append(f"{name} differs" if part == "data" else f"{name} was {old}, now {new}")
    return found


def _text(value: object) -> str:
    """Return a parameter as text that is equal for equal parameters, and readable where it can be."""
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return repr(value)
    return f"{type(value).__name__} {digest(value)[:12]}"


def digest(value: object) -> str:
    """Return the SHA-256 of a value in hexadecimal; the same for what a fit cannot tell apart by type and content."""
    state = hashlib.sha256()
    _feed(value, state.update)
    return state.hexdigest()


def _feed(value: Any, update: Update, above: tuple[int, ...] = ()) -> None:
    """Show type and content of a value to a hash, but not again what it is part of: ``above`` are the ids of that."""
    update(f"{type(value).__module__}.{type(value).__qualname__};".encode())
    if value is None or isinstance(value, bool | int | float | str | bytes | np.generic):
        update(repr(value).encode())
    elif isinstance(value, np.ndarray):
        _feed_array(value, update)
    elif issparse(value):
        for part in (value.tocsr().data, value.tocsr().indices, value.tocsr().indptr):
            _feed_array(part, update)
        update(repr(value.shape).encode())
    elif id(value) not in above:
        parts = list(_parts(value))
        update(b"%d;" % len(parts))  # so that what is nested otherwise differs
        for part in parts:
            _feed(part, update, (*above, id(value)))


def _feed_array(value: Any, update: Update) -> None:
    update(f"{value.dtype.str}{value.shape}{value.flags.f_contiguous}{value.flags.c_contiguous}".encode())
    if value.dtype.kind != "O":
        update(raw(value))
        return
    entries = value.reshape(-1).tolist()
    if set(map(type, entries)) <= {type(None), bool, int, float, str}:
        update(repr(entries).encode())
    else:  # texts of other objects may leave out what tells them apart
        _feed(entries, update)


def raw(array: Any) -> "memoryview[int]":
    """Return the bytes of an array, in its own order where its memory is contiguous, else row by row; no copy then."""
    whole = array if array.flags.c_contiguous else array.T if array.flags.f_contiguous else array.copy()
    return memoryview(whole.reshape(-1).view(np.uint8))


def _parts(value: Any) -> Iterable[Any]:
    """Return what tells a container, a frame, a random generator or any other object from others of its type.

    An object that says so itself has a method ``checkpoint_identity``.
    """
    if isinstance(value, type | FunctionType | CodeType | MethodType | partial | property | staticmethod | classmethod):
        return _of_code(value)
    if isinstance(value, Mapping):
        return chain.from_iterable(value.items())
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if hasattr(value, "checkpoint_identity"):
        return list(value.checkpoint_identity())
    if hasattr(value, "__wrapped__"):  # of a cache, or compiled
        return [value.__wrapped__]
    if hasattr(value, "columns") and hasattr(value, "__array__"):
        return [part for name in value.columns for part in (str(name), np.asarray(value[name]))]
    if isinstance(value, np.random.RandomState):
        return [value.get_state(legacy=False)]
    if isinstance(value, np.random.Generator):
        return [value.bit_generator.state]
    if hasattr(value, "__array__"):
        return [np.asarray(value)]
    return [repr(value)] if isinstance(value, MetadataRequest) else _state(value)  # whose owner changes in a fit


def _state(value: Any) -> list[Any]:
    """Return what pickle would keep of an object, and of what cannot be pickled its text, but not where it lies."""
    try:
        found = value.__reduce_ex__(2)
    except Exception:  # any, as its library raises
        plain = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
        found = (plain, getattr(value, "__dict__", None))
    parts = found if isinstance(found, tuple) else (found,)
    return [type(value), *(list(part) if isinstance(part, Iterator) else part for part in parts)]


def _of_code(value: Any) -> list[Any]:
    """Return what tells a class, or what can be called, from others: its code, and the values that this goes by."""
    if isinstance(value, CodeType):
        return [value.co_code, value.co_consts, value.co_names]
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, property):
        return [value.fget]
    if not isinstance(value, type | FunctionType):
        return [value.__func__, getattr(value, "__self__", None)]
    called = [value.__module__, value.__qualname__]
    if isinstance(value, type):
        return called + [_own_values(vars(kind)) for kind in value.__mro__ if _of_user(kind)]
    read = _read(_names(value.__code__), value.__globals__) if _of_user(value) else {}
    held = [cell.cell_contents for cell in value.__closure__ or ()]
    return called + [value.__code__, value.__defaults__, value.__kwdefaults__, held, _own_values(read)]


def _names(code: CodeType) -> list[str]:
    """Return the names that a function's code reads elsewhere, those of functions inside it too."""
    inside = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part)]
    return [*code.co_names, *inside]


def _read(names: Iterable[str], held: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what names stand for in a namespace, and in the modules of the user that some of them stand for."""
    found = {name: held[name] for name in names if name in held}
    return {name: _read(set(names) - {name}, vars(part)) if isinstance(part, ModuleType) and _of_user(part) else part
            for name, part in sorted(found.items())}


def _own_values(named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values but modules and classes of others, which versions tell apart, logs, and what Python keeps."""
    return {name: part for name, part in named.items()
            if (isinstance(part, FunctionType) or name == "__call__" or not name.startswith("__"))
            and (_of_user(part) if isinstance(part, type) else not isinstance(part, ModuleType | Logger))}


def _of_user(kind: Any) -> bool:
    """Say whether a class, function or module is the user's own, not Python's or of a package."""
    module = kind.__name__ if isinstance(kind, ModuleType) else str(kind.__module__)
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return module.split(".")[0] not in (*sys.stdlib_module_names, "buttress") and "-packages" not in file
