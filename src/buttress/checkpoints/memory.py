"""What an algorithm needs to go on from a step, and how it becomes bytes and comes back: data only, never code.

A file is the magic, the SHA-256 of the rest, the length of a JSON header, that header, and raw arrays.
"""

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from buttress._types import Rng
from buttress.checkpoints.digest import raw

# By name: arrays, numbers, text, None, and lists and mappings of these. Tuples come back as lists. A partial, called
# when the value is written, stands for what it returns.
Memory: TypeAlias = Mapping[str, Any]
AnyArray = NDArray[Any]

MAGIC = b"BUTTCKP1"
LENGTH = struct.Struct("<Q")
DIGEST = hashlib.sha256().digest_size
KINDS = "biufcU"  # kinds of dtype whose raw bytes hold all there is


def to_parts(value: object) -> "list[bytes | memoryview[int]]":
    """Return the parts of a file that holds ``value``; TypeError for what is not data.

    They are views of the arrays, so they are to be written at once.
    """
    found = _Arrays()
    encoded = _encoded(value, found)
    body = json.dumps({"value": encoded, "arrays": [_described(array) for array in found.arrays]}).encode()
    parts: list[bytes | memoryview[int]] = [LENGTH.pack(len(body)), body, *map(raw, found.arrays)]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return [MAGIC, digest.digest(), *parts]


def from_bytes(name: str, content: bytes) -> Any:
    """Return what a file called ``name`` holds; ValueError where it was cut short or changed."""
    start = len(MAGIC) + DIGEST
    rest = memoryview(content)[start:]
    if not content.startswith(MAGIC) or hashlib.sha256(rest).digest() != content[len(MAGIC) : start]:
        raise ValueError(f"{name} is not a whole checkpoint file: it was cut short or changed after it was written. "
                         "Delete it, or use resume=False, which starts anew.")
    (length,) = LENGTH.unpack_from(rest)
    header = json.loads(bytes(rest[LENGTH.size : LENGTH.size + length]))
    data = rest[LENGTH.size + length :]
    arrays = []
    for described in header["arrays"]:
        array = _array(described, data)
        arrays.append(array)
        data = data[array.nbytes :]
    return _decoded(header["value"], arrays)


def rng_state(rng: Rng) -> Memory:
    """Return the state of a random generator, as part of a memory."""
    if isinstance(rng, np.random.RandomState):
        return dict(rng.get_state(legacy=False))
    return dict(rng.bit_generator.state)


def set_rng_state(rng: Rng, state: Memory) -> None:
    """Put a random generator into a state that ``rng_state`` returned."""
    if isinstance(rng, np.random.RandomState):
        rng.set_state(dict(state))
    else:
        rng.bit_generator.state = state


class _Arrays:
    """The arrays of a file. What is there twice, as the memory of a step that is both best and last, is written once.
    """

    def __init__(self) -> None:
        self.arrays: list[AnyArray] = []
        self._places: dict[int, int] = {}
        self._called: dict[int, tuple[object, object]] = {}  # by id; the partial is held, so that its id stays its own

    def place(self, array: AnyArray) -> int:
        if id(array) not in self._places:
            self._places[id(array)] = len(self.arrays)
            self.arrays.append(array)
        return self._places[id(array)]

    def called(self, stand_in: partial[Any]) -> object:
        """Return what a partial returns, called once."""
        if id(stand_in) not in self._called:
            self._called[id(stand_in)] = (stand_in, stand_in())
        return self._called[id(stand_in)][1]


def _encoded(value: object, arrays: _Arrays) -> object:
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in KINDS:
            raise TypeError(f"A checkpoint holds numbers and text. Got an array of {value.dtype}.")
        return {"array": arrays.place(value)}
    if isinstance(value, partial):
        return _encoded(arrays.called(value), arrays)
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {"map": [[key, _encoded(entry, arrays)] for key, entry in value.items()]}
    if isinstance(value, Sequence):
        return [_encoded(entry, arrays) for entry in value]
    raise TypeError(f"A checkpoint holds data. Got a {type(value).__name__}.")


def _decoded(value: Any, arrays: list[AnyArray]) -> Any:
    if isinstance(value, list):
        return [_decoded(entry, arrays) for entry in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    return {key: _decoded(entry, arrays) for key, entry in value["map"]}


def _described(array: AnyArray) -> dict[str, object]:
    """Return dtype, shape and order: products of an array in Fortran order round otherwise than those of its copy."""
    columns_first = array.flags.f_contiguous and not array.flags.c_contiguous
    return {"dtype": array.dtype.str, "shape": list(array.shape), "order": "F" if columns_first else "C"}


def _array(described: Mapping[str, Any], data: memoryview) -> AnyArray:
    dtype = np.dtype(described["dtype"])
    shape = described["shape"]
    count = int(np.prod(shape, dtype=object)) if shape else 1
    flat: AnyArray = np.frombuffer(data[: count * dtype.itemsize], dtype=dtype, count=count)
    return flat.reshape(shape, order=described["order"]).copy(order=described["order"])
