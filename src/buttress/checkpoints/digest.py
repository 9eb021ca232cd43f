"""A digest of what a fit or a call is given, equal for what it cannot tell apart by type and content."""

import hashlib
import zlib
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.metadata_routing import MetadataRequest

Update = Callable[[Any], None]  # of a hash, with bytes or a view of them


def digest(value: object) -> str:
    """Return the SHA-256 of a value in hexadecimal; the same for what a fit cannot tell apart by type and content."""
    state = hashlib.sha256()
    _feed(value, state.update)
    return state.hexdigest()


def summary(value: object) -> str:
    """Return a short digest that is quick to compute: enough to see that two calls in the same place differ."""
    state = 0

    def update(part: Any) -> None:
        nonlocal state
        state = zlib.crc32(part, state)

    _feed(value, update)
    return f"{state:08x}"


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
