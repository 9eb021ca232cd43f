"""The bytes of a file, of a model or of a checkpoint: prefix, JSON header, raw arrays, signature if asked for, SHA-256.

A file is, in this order: 8 bytes ``BUTTRESS``, the format version (4 bytes) and the length of the header (8 bytes),
both little-endian; the header, JSON in ASCII; the raw bytes of the arrays, one after the other; with a key, the
HMAC-SHA256 of all of that (32 bytes); and the SHA-256 of everything before it (32 bytes). Nothing is compressed, and
what parts of JSON take in memory is limited before any is parsed. :func:`pack` and :func:`unpack` turn a JSON value and
a list of arrays into the parts of a file and back.

The header begins with what reading it takes: ``nodes``, the number of its ``[``, ``{`` and ``,``; ``grown``, how much
of what it describes becomes larger in memory than it is in the file, in units of 100 bytes; ``array_bytes``, the length
of all arrays; and ``signed``. These are compared with the bytes before anything is parsed, and with what may be spent
on a file of this size, so that a small file cannot become a large model. Every byte of the arrays belongs to one array,
and every array is used once.
"""

import hashlib
import hmac
import json
import math
import os
import re
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

MAGIC = b"BUTTRESS"
VERSION = 4  # what is written and read
PREFIX = struct.Struct("<8sIQ")  # magic, format version, bytes of the header
DIGEST = hashlib.sha256().digest_size
SPENT_AT_LEAST = 150_000_000  # bytes that the parts of any file may take, beside twice the length of the file
SHORTEST_KEY = 16  # bytes: a shorter one can be guessed
NUMBERS_AND_TEXT = "biufcU"  # kinds of dtype whose raw bytes hold all there is
BUDGET = re.compile(rb'\{"nodes": (\d{1,12}), "grown": (\d{1,12}), "array_bytes": (\d{1,15}), "signed": (true|false), ')
AnyArray = NDArray[Any]
FilePart: TypeAlias = "bytes | memoryview[int]"  # of a file
Json: TypeAlias = dict[str, Any]  # an object of JSON


class ModelFileError(ValueError):
    """A file that is refused, or a model that cannot be saved; the message says which part and why."""


class StatedSizes(NamedTuple):
    """What a header states of itself; ``grown`` is also what decoding may spend."""

    nodes: int
    grown: int
    array_bytes: int
    signed: bool


@dataclass(frozen=True)
class Content:
    """What a file holds: a value as JSON, and the arrays it refers to by number.

    ``grown`` is what decoding may spend, ``written_by`` are the releases that wrote the file, ``written_at`` when (UTC,
    empty for files that do not say).
    """

    model: object
    arrays: list[AnyArray]
    grown: int
    written_by: Mapping[str, str] = field(default_factory=dict)
    written_at: str = ""


def pack(
    model: object, arrays: Sequence[AnyArray], written_by: Mapping[str, str], *, grown: int = 0,
    key: bytes | None = None,
) -> Sequence[FilePart]:
    """Return the parts of a file that holds ``model``, a JSON value, and ``arrays`` in little-endian order.

    Some are views of the arrays, so they are to be written at once. SOURCE_DATE_EPOCH, in seconds, is the time of
    writing where the environment has it: the file is then the same each time.
    """
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    now = datetime.fromtimestamp(seconds, UTC).isoformat(" ", "minutes")
    content: Json = {
        "nodes": 0, "grown": grown, "array_bytes": sum(array.nbytes for array in arrays), "signed": key is not None,
        "model": model, "arrays": [_described(array) for array in arrays], "written_by": dict(written_by),
        "written_at": now}
    content["nodes"] = _nodes(json.dumps(content, allow_nan=False).encode())  # the same whatever the number here
    header = json.dumps(content, allow_nan=False).encode()
    parts: list[FilePart] = [PREFIX.pack(MAGIC, VERSION, len(header)), header, *map(_raw, arrays)]
    if key is not None:
        signature = hmac.new(key, digestmod=hashlib.sha256)
        for part in parts:
            signature.update(part)
        parts.append(signature.digest())
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
    length = _checked_prefix(name, content)
    if key is not None and not _signed_with(content, key):
        raise ModelFileError(f"{name} is not signed with this key: it was written without one, with another, or by "
                             "someone who does not have it.")
    view = memoryview(content)[PREFIX.size : -DIGEST]
    header = bytes(view[:length])
    budget = _checked_budget(name, header, len(content))
    data = view[length : len(view) - DIGEST] if budget.signed else view[length:]
    if budget.array_bytes != len(data):
        raise ModelFileError(f"{name} states {budget.array_bytes:,} bytes of arrays and has {len(data):,}.")
    try:
        parsed = json.loads(header)
        arrays = _arrays(parsed["arrays"], data)
        written_by = {str(name): str(release) for name, release in parsed["written_by"].items()}
        return Content(parsed["model"], arrays, budget.grown, written_by, str(parsed["written_at"]))
    except ModelFileError as error:
        raise ModelFileError(f"{name}: {error}") from None
    except (ValueError, RecursionError, OverflowError, KeyError, TypeError, AttributeError, MemoryError) as error:
        raise ModelFileError(f"{name} is not a well-formed file: {error!r}.") from None


def check_key(key: bytes | None) -> None:
    """Raise ValueError for a key that is anything but bytes of a length that cannot be guessed."""
    if key is not None and (not isinstance(key, bytes) or len(key) < SHORTEST_KEY):
        raise ValueError(f"key must be at least {SHORTEST_KEY} secret bytes. Make one with secrets.token_bytes(32).")


def _raw(array: AnyArray) -> FilePart:
    """Return the bytes of an array row by row, a view of them where they lie so."""
    if not array.flags.c_contiguous or array.nbytes == 0:
        return array.tobytes()
    flat: Any = array.reshape(-1).view(np.uint8)
    return memoryview(flat)


def _signed_with(content: bytes, key: bytes) -> bool:
    """Say whether the bytes before the SHA-256 are the signature of those before them."""
    if len(content) < PREFIX.size + 2 * DIGEST:
        return False
    made = hmac.new(key, memoryview(content)[: -2 * DIGEST], hashlib.sha256).digest()
    return hmac.compare_digest(made, content[-2 * DIGEST : -DIGEST])


def _checked_prefix(name: str, content: bytes) -> int:
    """Return the length of the header of a file of this format whose SHA-256 is right."""
    if len(content) < PREFIX.size + DIGEST:
        raise ModelFileError(f"{name} is cut short: {len(content)} bytes.")
    if hashlib.sha256(memoryview(content)[:-DIGEST]).digest() != content[-DIGEST:]:
        raise ModelFileError(f"{name} was changed or cut short after it was written: its SHA-256 is wrong.")
    _, version, length = PREFIX.unpack_from(content)
    if version < VERSION:
        raise ModelFileError(f"{name} has format version {version}, of an earlier release. This release reads version "
                             f"{VERSION} only: fit the model again and save it.")
    if version > VERSION:
        raise ModelFileError(f"{name} has format version {version}. This release reads version {VERSION}. Update "
                             "buttress.")
    # the 32 MB of a header describe a million parts, a model has hundreds
    if length > min(2**25, len(content) - PREFIX.size - DIGEST):
        raise ModelFileError(f"{name} states a header of {length:,} bytes, which it cannot hold.")
    return int(length)


def _checked_budget(name: str, header: bytes, size: int) -> StatedSizes:
    """Return what the header states; ModelFileError where it is wrong or too much.

    Nothing is parsed: brackets and commas are counted, those inside of texts too.
    """
    found = BUDGET.match(header)
    if found is None or not header.isascii():
        raise ModelFileError(f"{name} is not a well-formed file: its header is not ASCII, or does not say what "
                             "reading it takes.")
    budget = StatedSizes(int(found[1]), int(found[2]), int(found[3]), found[4] == b"true")
    containers = header.count(b"[") + header.count(b"{")
    if budget.nodes != _nodes(header):
        raise ModelFileError(f"{name} states {budget.nodes:,} parts and has {_nodes(header):,}.")
    # bytes that Python makes of JSON at most, measured with tracemalloc on lists of empty dicts and of short texts
    spent = 400 * containers + 72 * budget.nodes + 100 * budget.grown
    if spent > SPENT_AT_LEAST + 2 * size:
        raise ModelFileError(f"{name} would take more memory than {SPENT_AT_LEAST:,} bytes and twice its length. The "
                             "model has too many parts for a file, or the file was made to fill the memory.")
    return budget


def _nodes(header: bytes) -> int:
    return header.count(b"[") + header.count(b"{") + header.count(b",")


def _described(array: AnyArray) -> Json:
    """Return dtype and shape of an array, and the order of its axes in memory where it is not row by row."""
    entry: Json = {"dtype": array.dtype.str, "shape": list(array.shape)}
    if not array.flags.c_contiguous:  # products of it round otherwise than those of a copy in another order
        entry["axes"] = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    return entry


def _arrays(described: Sequence[Mapping[str, Any]], data: memoryview) -> list[AnyArray]:
    """Return the arrays, which lie one behind the other; ModelFileError unless they fill the data."""
    arrays: list[AnyArray] = []
    for entry in described:
        arrays.append(_array(entry, data))
        data = data[arrays[-1].nbytes :]
    if len(data):
        raise ModelFileError(f"It has {len(data):,} bytes that belong to no array.")
    return arrays


def _array(entry: Mapping[str, Any], data: memoryview) -> AnyArray:
    """Return the array at the beginning of the data, its own copy; ModelFileError where it does not fit."""
    dtype = named_dtype(entry["dtype"])
    shape = [int(n) for n in entry["shape"]]
    count = math.prod(shape)  # a Python integer: a product of numpy's would overflow on a forged shape
    fits = min(shape, default=0) >= 0 and count * dtype.itemsize <= len(data)
    if dtype.kind not in NUMBERS_AND_TEXT or not fits or dtype.itemsize == 0:
        raise ModelFileError(f"The file describes an array of {shape} {dtype} that it does not hold.")
    flat = np.frombuffer(data, dtype=dtype, count=count)
    _check_entries(flat)
    axes = [int(axis) for axis in entry.get("axes", range(len(shape)))]
    return flat.reshape(shape).transpose(axes).copy(order="C").transpose(np.argsort(axes))


def _check_entries(flat: AnyArray) -> None:
    """Refuse bytes that are no value of their type: truth values beyond 1, characters beyond Unicode."""
    if flat.dtype.kind == "b" and flat.size and flat.view(np.uint8).max() > 1:
        raise ModelFileError("It holds truth values that are neither 0 nor 1.")
    if flat.dtype.kind == "U" and flat.size and flat.view(np.uint32).max() > sys.maxunicode:
        raise ModelFileError("It holds text with characters that do not exist.")


def named_dtype(text: object) -> "np.dtype[Any]":
    """Return a dtype of numbers, text or objects; ModelFileError for any other, which a model has no use for."""
    if not (isinstance(text, str) and re.fullmatch(r"[<>|=]?[biufcUO]\d{0,9}", text)):
        raise ModelFileError(f"The file names the dtype {text!r}, which is not one of numbers, text or objects.")
    try:
        made: np.dtype[Any] = np.dtype(text)
    except TypeError:
        raise ModelFileError(f"The file names the dtype {text!r}, which there is not.") from None
    return made
