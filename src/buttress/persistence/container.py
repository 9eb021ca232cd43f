"""The bytes of a model file: prefix, JSON header, raw arrays, SHA-256; written whole or not at all.

Nothing here knows what a model is: :func:`pack` and :func:`unpack` turn a JSON value and a list of arrays into the
parts of a file and back, and :func:`write` puts them in place.
"""

import hashlib
import json
import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

MAGIC = b"BUTTRESS"
VERSION = 2  # what is written
READABLE = (1, 2)
PREFIX = struct.Struct("<8sIQ")  # magic, format version, bytes of the header
DIGEST = hashlib.sha256().digest_size
LARGEST_HEADER = 2**26  # bytes: 64 MB of JSON describe millions of parts, a model has hundreds
NUMBERS_AND_TEXT = "biufcU"  # kinds of dtype whose raw bytes hold all there is
AnyArray = NDArray[Any]


@dataclass(frozen=True)
class Content:
    """What a file holds: the format's version, the model as JSON, and the arrays it refers to by number.

    ``written_by`` are the releases that wrote it, ``written_at`` when (UTC, empty for files that do not say).
    """

    version: int
    model: object
    arrays: list[AnyArray]
    written_by: Mapping[str, str] = field(default_factory=dict)
    written_at: str = ""


def pack(model: object, arrays: Sequence[AnyArray], written_by: Mapping[str, str]) -> list[bytes]:
    """Return the parts of a file that holds ``model``, a JSON value, and ``arrays`` in little-endian order."""
    now = datetime.now(UTC).isoformat(" ", "minutes")
    content = {"model": model, "arrays": _slices(arrays), "written_by": dict(written_by), "written_at": now}
    header = json.dumps(content, allow_nan=False).encode()
    parts = [PREFIX.pack(MAGIC, VERSION, len(header)), header, *(array.tobytes() for array in arrays)]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return [*parts, digest.digest()]


def unpack(name: str, content: bytes) -> Content:
    """Return what a file called ``name`` holds.

    Raises
    ------
    ValueError
        For bytes that were cut short or changed, a version this release does not read, or a header that does not
        describe the bytes after it.
    """
    version, length = _checked_prefix(name, content)
    view = memoryview(content)[PREFIX.size : -DIGEST]
    try:
        header = json.loads(bytes(view[:length]))
        data = view[length:]
        arrays = [_array(entry, data) for entry in header["arrays"]]
        written_by = {str(name): str(release) for name, release in header.get("written_by", {}).items()}
        return Content(version, header["model"], arrays, written_by, str(header.get("written_at", "")))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError, OverflowError, KeyError, TypeError,
            AttributeError) as error:
        raise ValueError(f"{name} is not a well-formed model file: {error!r}.") from None


def _checked_prefix(name: str, content: bytes) -> tuple[int, int]:
    """Return the version and the length of the header of a file whose SHA-256 is right."""
    if len(content) < PREFIX.size + DIGEST:
        raise ValueError(f"{name} is cut short: {len(content)} bytes.")
    if hashlib.sha256(memoryview(content)[:-DIGEST]).digest() != content[-DIGEST:]:
        raise ValueError(f"{name} was changed or cut short after it was written: its SHA-256 is wrong.")
    _, version, length = PREFIX.unpack_from(content)
    if version not in READABLE:
        raise ValueError(f"{name} has format version {version}. This release reads versions {READABLE[0]} to "
                         f"{READABLE[-1]}. Update buttress.")
    if length > min(LARGEST_HEADER, len(content) - PREFIX.size - DIGEST):
        raise ValueError(f"{name} states a header of {length:,} bytes, which it cannot hold.")
    return version, length


def _slices(arrays: Sequence[AnyArray]) -> list[dict[str, object]]:
    """Return dtype, shape and place of each array among the bytes after the header."""
    described: list[dict[str, object]] = []
    start = 0
    for array in arrays:
        entry: dict[str, object] = {"dtype": array.dtype.str, "shape": list(array.shape), "start": start}
        if array.flags.f_contiguous and not array.flags.c_contiguous:  # products of it round otherwise than its copy's
            entry["order"] = "F"
        described.append(entry)
        start += array.nbytes
    return described


def _array(entry: Mapping[str, Any], data: memoryview) -> AnyArray:
    """Return one array, its own copy; ValueError where it does not fit into the bytes there are."""
    dtype = np.dtype(str(entry["dtype"]))
    shape = [int(n) for n in entry["shape"]]
    start = int(entry["start"])
    count = 1  # a Python integer: a product of numpy's would overflow on a forged shape
    for n in shape:
        count *= n
    fits = min(shape, default=0) >= 0 and 0 <= start <= len(data) - count * dtype.itemsize
    if dtype.kind not in NUMBERS_AND_TEXT or not fits:
        raise ValueError(f"The file describes an array of {shape} {dtype} that it does not hold.")
    if dtype.itemsize == 0:
        return np.zeros(shape, dtype=dtype)
    order: Literal["C", "F"] = "F" if entry.get("order") == "F" else "C"
    return np.frombuffer(data, dtype=dtype, count=count, offset=start).reshape(shape).copy(order=order)


def write(path: Path, parts: Sequence[bytes]) -> None:
    """Write a temporary file beside ``path``, with the rights of any new file of the user, and move it there.

    An OSError names ``path``, not the temporary file.
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
