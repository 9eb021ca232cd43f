"""The bytes of a model file: prefix, JSON header, raw arrays, signature if asked for, SHA-256.

Nothing here knows what a model is: :func:`pack` and :func:`unpack` turn a JSON value and a list of arrays into the
parts of a file and back.

The header begins with what reading it takes: ``nodes``, the number of its ``[``, ``{`` and ``,``; ``grown``, how much
of what it describes becomes larger in memory than it is in the file, in units of 100 bytes; ``array_bytes``, the length
of all arrays; and ``signed``. These are compared with the bytes before anything is parsed, and with what may be spent
on a file of this size, so that a small file cannot become a large model. Every byte of the arrays belongs to one array,
and every array is used once.
"""

import hashlib
import hmac
import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress.persistence.errors import ModelFileError

MAGIC = b"BUTTRESS"
VERSION = 2  # what is written
READABLE = (1, 2)
PREFIX = struct.Struct("<8sIQ")  # magic, format version, bytes of the header
DIGEST = hashlib.sha256().digest_size
LARGEST_HEADER = 2**25  # bytes: 32 MB of JSON describe a million parts, a model has hundreds
# What Python makes of JSON, in bytes, at most: of a list or dict, of any part, and of a unit of growth. Measured with
# tracemalloc on lists of empty dicts and of short texts.
OF_CONTAINER = 400
OF_NODE = 72
OF_GROWTH = 100
SPENT_AT_LEAST = 150_000_000  # bytes that the parts of any file may take, beside twice the length of the file
SHORTEST_KEY = 16  # bytes: a shorter one can be guessed
NUMBERS_AND_TEXT = "biufcU"  # kinds of dtype whose raw bytes hold all there is
LARGEST_CHARACTER = 0x10FFFF  # of Unicode
BUDGET = re.compile(rb'\{"nodes": (\d{1,12}), "grown": (\d{1,12}), "array_bytes": (\d{1,15}), "signed": (true|false), ')
DTYPE = re.compile(r"[<>|=]?[biufcUO]\d{0,9}")
AnyArray = NDArray[Any]


class Budget(NamedTuple):
    """What a header states of itself; ``grown`` is also what decoding may spend."""

    nodes: int
    grown: int
    array_bytes: int
    signed: bool


@dataclass(frozen=True)
class Content:
    """What a file holds: the format's version, the model as JSON, and the arrays it refers to by number.

    ``grown`` is what decoding may spend, ``written_by`` are the releases that wrote the file, ``written_at`` when (UTC,
    empty for files that do not say).
    """

    version: int
    model: object
    arrays: list[AnyArray]
    grown: int
    written_by: Mapping[str, str] = field(default_factory=dict)
    written_at: str = ""


def pack(
    model: object, arrays: Sequence[AnyArray], written_by: Mapping[str, str], *, grown: int = 0,
    key: bytes | None = None,
) -> list[bytes]:
    """Return the parts of a file that holds ``model``, a JSON value, and ``arrays`` in little-endian order."""
    now = datetime.now(UTC).isoformat(" ", "minutes")
    content: dict[str, object] = {
        "nodes": 0, "grown": grown, "array_bytes": sum(array.nbytes for array in arrays), "signed": key is not None,
        "model": model, "arrays": _slices(arrays), "written_by": dict(written_by), "written_at": now}
    content["nodes"] = _nodes(json.dumps(content, allow_nan=False).encode())  # the same whatever the number here
    header = json.dumps(content, allow_nan=False).encode()
    parts = [PREFIX.pack(MAGIC, VERSION, len(header)), header, *(array.tobytes() for array in arrays)]
    if key is not None:
        parts.append(_signature(parts, key))
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return [*parts, digest.digest()]


def unpack(name: str, content: bytes, key: bytes | None = None) -> Content:
    """Return what a file called ``name`` holds.

    Raises
    ------
    ModelFileError
        For bytes that were cut short or changed, a file not signed with ``key``, a version this release does not read,
        or a header that does not describe itself and the bytes after it.
    """
    version, length = _checked_prefix(name, content)
    if key is not None and not _signed_with(content, key):
        raise ModelFileError(f"{name} is not signed with this key: it was written without one, with another, or by "
                             "someone who does not have it.")
    view = memoryview(content)[PREFIX.size : -DIGEST]
    header = bytes(view[:length])
    budget = _checked_budget(name, header, len(content))
    data = view[length : len(view) - DIGEST] if budget is not None and budget.signed else view[length:]
    if budget is not None and budget.array_bytes != len(data):
        raise ModelFileError(f"{name} states {budget.array_bytes:,} bytes of arrays and has {len(data):,}.")
    try:
        parsed = json.loads(header)
        arrays = _arrays(parsed["arrays"], data)
        written_by = {str(name): str(release) for name, release in parsed.get("written_by", {}).items()}
        grown = _affordable(header, len(content)) if budget is None else budget.grown
        return Content(version, parsed["model"], arrays, grown, written_by, str(parsed.get("written_at", "")))
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from None
    except (ValueError, RecursionError, OverflowError, KeyError, TypeError, AttributeError, MemoryError) as error:
        raise ModelFileError(f"{name} is not a well-formed model file: {error!r}.") from None


def check_key(key: bytes | None) -> bytes | None:
    """Return the key; ValueError for anything but bytes of a length that cannot be guessed."""
    if key is not None and (not isinstance(key, bytes) or len(key) < SHORTEST_KEY):
        raise ValueError(f"key must be at least {SHORTEST_KEY} secret bytes. Make one with secrets.token_bytes(32).")
    return key


def _signature(parts: Sequence[bytes], key: bytes) -> bytes:
    made = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        made.update(part)
    return made.digest()


def _signed_with(content: bytes, key: bytes) -> bool:
    """Say whether the bytes before the SHA-256 are the signature of those before them."""
    if len(content) < PREFIX.size + 2 * DIGEST:
        return False
    made = hmac.new(key, memoryview(content)[: -2 * DIGEST], hashlib.sha256).digest()
    return hmac.compare_digest(made, content[-2 * DIGEST : -DIGEST])


def _checked_prefix(name: str, content: bytes) -> tuple[int, int]:
    """Return the version and the length of the header of a file whose SHA-256 is right."""
    if len(content) < PREFIX.size + DIGEST:
        raise ModelFileError(f"{name} is cut short: {len(content)} bytes.")
    if hashlib.sha256(memoryview(content)[:-DIGEST]).digest() != content[-DIGEST:]:
        raise ModelFileError(f"{name} was changed or cut short after it was written: its SHA-256 is wrong.")
    _, version, length = PREFIX.unpack_from(content)
    if version not in READABLE:
        raise ModelFileError(f"{name} has format version {version}. This release reads versions {READABLE[0]} to "
                             f"{READABLE[-1]}. Update buttress.")
    if length > min(LARGEST_HEADER, len(content) - PREFIX.size - DIGEST):
        raise ModelFileError(f"{name} states a header of {length:,} bytes, which it cannot hold.")
    return version, length


def _checked_budget(name: str, header: bytes, size: int) -> Budget | None:
    """Return what the header states, None for files that state nothing; ModelFileError where it is wrong or too much.

    Nothing is parsed: brackets and commas are counted, those inside of texts too.
    """
    found = BUDGET.match(header)
    budget = None if found is None else Budget(int(found[1]), int(found[2]), int(found[3]), found[4] == b"true")
    if not header.isascii():
        raise ModelFileError(f"{name} is not a well-formed model file: its header is not ASCII.")
    if budget is not None and budget.nodes != _nodes(header):
        raise ModelFileError(f"{name} states {budget.nodes:,} parts and has {_nodes(header):,}.")
    if _affordable(header, size) < (0 if budget is None else budget.grown):
        raise ModelFileError(f"{name} would take more memory than {SPENT_AT_LEAST:,} bytes and twice its length. The "
                             "model has too many parts for a file, or the file was made to fill the memory.")
    return budget


def _nodes(header: bytes) -> int:
    return _containers(header) + header.count(b",")


def _containers(header: bytes) -> int:
    return header.count(b"[") + header.count(b"{")


def _affordable(header: bytes, size: int) -> int:
    """Return how much may grow beside the parts of the header, in units; negative if those alone are too many."""
    return (SPENT_AT_LEAST + 2 * size - OF_CONTAINER * _containers(header) - OF_NODE * _nodes(header)) // OF_GROWTH


def _slices(arrays: Sequence[AnyArray]) -> list[dict[str, object]]:
    """Return dtype, shape and place of each array among the bytes after the header."""
    described: list[dict[str, object]] = []
    start = 0
    for array in arrays:
        entry: dict[str, object] = {"dtype": array.dtype.str, "shape": list(array.shape), "start": start}
        if not array.flags.c_contiguous:  # products of it round otherwise than those of a copy in another order
            entry.update({"order": "F"} if array.flags.f_contiguous else {"axes": _by_stride(array)})
        described.append(entry)
        start += array.nbytes
    return described


def _by_stride(array: AnyArray) -> list[int]:
    """Return the axes of an array from the longest stride to the shortest: its order in memory."""
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))


def _arrays(described: Sequence[Mapping[str, Any]], data: memoryview) -> list[AnyArray]:
    """Return the arrays; ModelFileError unless they lie one behind the other and fill the data."""
    arrays: list[AnyArray] = []
    end = 0
    for entry in described:
        if int(entry["start"]) != end:
            raise ModelFileError("Its arrays overlap, or leave bytes between them.")
        arrays.append(_array(entry, data))
        end += arrays[-1].nbytes
    if end != len(data):
        raise ModelFileError(f"It has {len(data) - end:,} bytes that belong to no array.")
    return arrays


def _array(entry: Mapping[str, Any], data: memoryview) -> AnyArray:
    """Return one array, its own copy; ModelFileError where it does not fit into the bytes there are."""
    dtype = named_dtype(entry["dtype"])
    shape = [int(n) for n in entry["shape"]]
    start = int(entry["start"])
    count = 1  # a Python integer: a product of numpy's would overflow on a forged shape
    for n in shape:
        count *= n
    fits = min(shape, default=0) >= 0 and 0 <= start <= len(data) - count * dtype.itemsize
    if dtype.kind not in NUMBERS_AND_TEXT or not fits or (dtype.itemsize == 0 and count > 0):
        raise ModelFileError(f"The file describes an array of {shape} {dtype} that it does not hold.")
    if dtype.itemsize == 0:
        return np.zeros(shape, dtype=dtype)
    flat = np.frombuffer(data, dtype=dtype, count=count, offset=start)
    _check_entries(flat)
    if "axes" in entry:
        return _in_order(flat.reshape(shape), [int(axis) for axis in entry["axes"]])
    order: Literal["C", "F"] = "F" if entry.get("order") == "F" else "C"
    return flat.reshape(shape).copy(order=order)


def _in_order(array: AnyArray, axes: Sequence[int]) -> AnyArray:
    """Return a copy whose axes lie in this order in memory."""
    moved = np.ascontiguousarray(array.transpose(axes))
    return (moved.copy() if np.shares_memory(moved, array) else moved).transpose(np.argsort(axes))


def _check_entries(flat: AnyArray) -> None:
    """Refuse bytes that are no value of their type: truth values beyond 1, characters beyond Unicode."""
    if flat.dtype.kind == "b" and flat.size and flat.view(np.uint8).max() > 1:
        raise ModelFileError("It holds truth values that are neither 0 nor 1.")
    if flat.dtype.kind == "U" and flat.size and flat.view(np.uint32).max() > LARGEST_CHARACTER:
        raise ModelFileError("It holds text with characters that do not exist.")


def named_dtype(text: object) -> "np.dtype[Any]":
    """Return a dtype of numbers, text or objects; ModelFileError for any other, which a model has no use for."""
    if not (isinstance(text, str) and DTYPE.fullmatch(text)):
        raise ModelFileError(f"The file names the dtype {text!r}, which is not one of numbers, text or objects.")
    try:
        made: np.dtype[Any] = np.dtype(text)
    except TypeError:
        raise ModelFileError(f"The file names the dtype {text!r}, which there is not.") from None
    return made
