"""What two fits must have in common to end in the same bits: parameters, data, and where they are computed.

What a fit or a call is given becomes a digest, equal for what it cannot tell apart by type and content.
"""

import hashlib
import platform
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from llvmlite.binding import get_host_cpu_name
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import MetadataRequest
from threadpoolctl import threadpool_info

OPERATIONAL = ("checkpoint", "resume", "max_time", "progress")  # parameters that do not change where a fit ends
PACKAGES = ("buttress", "numpy", "scipy", "scikit-learn", "numba")
OF_LIBRARY = ("internal_api", "version", "architecture", "threading_layer", "num_threads")

Fingerprint = dict[str, dict[str, str]]
Update = Callable[[Any], None]  # of a hash, with bytes or a view of them


def fingerprint(model: BaseEstimator, data: Mapping[str, object]) -> Callable[[], Fingerprint]:
    """Return a function that returns the fingerprint of a fit to ``data`` (arguments of ``fit`` by name).

    It holds texts by name in three parts. What the fit may change is taken now; the data are read when it is called.
    """
    given = model.get_params(deep=True)
    parameters = {name: _text(value) for name, value in given.items() if name.split("__")[-1] not in OPERATIONAL}
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
    for library in threadpool_info():
        if library["user_api"] == "blas":
            name = f"{library['user_api']} of {library.get('prefix', '')}"
            known = " ".join(str(library[key]) for key in OF_LIBRARY if key in library)
            found[name] = f"{found[name]}, {known}" if name in found else known
    return found


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Return what does not change in a process: the processor and the versions of packages."""
    found = [("Python", platform.python_version()), ("processor", f"{platform.machine()} {get_host_cpu_name()}")]
    for package in PACKAGES:
        try:
            found.append((package, version(package)))
        except PackageNotFoundError:
            found.append((package, "not installed"))
    return tuple(found)


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


def _feed(value: Any, update: Update) -> None:
    """Show type and content of a value to a hash."""
    update(f"{type(value).__module__}.{type(value).__qualname__};".encode())
    if value is None or isinstance(value, bool | int | float | str | bytes | np.generic):
        update(repr(value).encode())
    elif isinstance(value, np.ndarray):
        _feed_array(value, update)
    elif issparse(value):
        for part in (value.tocsr().data, value.tocsr().indices, value.tocsr().indptr):
            _feed_array(part, update)
        update(repr(value.shape).encode())
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            _feed(key, update)
            _feed(entry, update)
    elif isinstance(value, list | tuple):
        for entry in value:
            _feed(entry, update)
    else:
        _feed_object(value, update)


def _feed_array(value: Any, update: Update) -> None:
    update(f"{value.dtype.str}{value.shape}{value.flags.f_contiguous}{value.flags.c_contiguous}".encode())
    if value.dtype.kind == "O":
        update(repr(value.tolist()).encode())
    else:
        update(raw(value))


def raw(array: Any) -> "memoryview[int]":
    """Return the bytes of an array, in its own order where its memory is contiguous, else row by row; no copy then."""
    whole = array if array.flags.c_contiguous else array.T if array.flags.f_contiguous else array.copy()
    return memoryview(whole.reshape(-1).view(np.uint8))


def _feed_object(value: Any, update: Update) -> None:
    """Show a frame, an estimator or kernel, a random generator, a function or any other object to a hash.

    An object that says itself what tells it from others has a method ``checkpoint_identity``.
    """
    if hasattr(value, "checkpoint_identity"):
        _feed(value.checkpoint_identity(), update)
    elif hasattr(value, "columns") and hasattr(value, "__array__"):
        for name in value.columns:
            _feed(str(name), update)
            _feed_array(np.asarray(value[name]), update)
    elif isinstance(value, MetadataRequest):  # which holds itself
        update(repr(value).encode())
    elif isinstance(value, np.random.RandomState):
        _feed(value.get_state(legacy=False), update)
    elif isinstance(value, np.random.Generator):
        _feed(value.bit_generator.state, update)
    elif isinstance(value, FunctionType):
        held = tuple(cell.cell_contents for cell in value.__closure__ or ())
        _feed((value.__qualname__, value.__code__, value.__defaults__, held), update)
    elif isinstance(value, CodeType):
        _feed((value.co_code, value.co_consts, value.co_names), update)
    elif hasattr(value, "__array__"):
        _feed_array(np.asarray(value), update)
    elif hasattr(value, "__dict__"):
        _feed(vars(value), update)
    else:
        update(repr(value).encode())
