"""From values to JSON and arrays, and back: what models and checkpoints have in common.

A value is JSON as it is, or one of these:

==================================================  =======================================================
``{"float": text}``                                 infinite, or not a number
``{"tuple": [...]}``, ``{"dict": [keys, values]}``  of what they hold
``{"array": i}``, ``{"scalar": i}``                 the i-th array, or its only entry as a numpy number
``{"column": i, "numpy": bool}``                    a list of numbers of one type, numpy's or Python's: the i-th array
``{"records": keys, "columns": [...]}``             a list of dicts with the same keys, a list of entries a key
==================================================  =======================================================

Of anything else, whoever encodes and decodes says what it becomes: ``other``. An array that stands in several places is
written once.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from buttress.files.container import NUMBERS_AND_TEXT, AnyArray, Content, Json, ModelFileError

DEPTH = 50  # levels of nesting; a pipeline of pipelines with fitted kernels in it has about 15
PLAIN = {bool: "b", int: "i", float: "f"}  # numbers of Python, and the kind of their arrays
OF_RECORD = 2  # growth of a dict in a list: one of four floats takes 330 bytes
InnerEncoder = Callable[[object, str], object]  # encodes a part, given what to call it in messages
InnerDecoder = Callable[[object], Any]


def refused(value: object, where: str, inner: InnerEncoder) -> object:
    """Raise ModelFileError for what is no plain data."""
    raise ModelFileError(f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which is not data.")


class Encoder:
    """Turns values into JSON; ``arrays`` are those of the file, ``grown`` how much of them becomes Python objects."""

    def __init__(self, other: Callable[[Any, str, InnerEncoder], object] = refused):
        self.arrays: list[AnyArray] = []
        self.grown = 0
        self._other = other
        self._places: dict[int, tuple[object, int]] = {}  # by id; the array is held, so that its id stays its own

    def encode(self, value: Any, where: str, depth: int = 0) -> object:
        """Return ``value`` as JSON; ModelFileError for what a file cannot hold, which ``where`` names."""
        if depth > DEPTH:
            raise ModelFileError(f"{where} is nested too deeply to be saved.")

        def inner(part: object, name: str) -> object:
            return self.encode(part, f"{where}{name}", depth + 1)

        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if np.isfinite(value) else {"float": repr(value)}
        if (type(value) is np.ndarray or isinstance(value, np.generic)) and value.dtype.kind in NUMBERS_AND_TEXT:
            return {"array": self._place(value)} if isinstance(value, np.ndarray) else {
                "scalar": self._place(np.asarray(value))}
        if type(value) is list:
            return self._column(value) or self._records(value, inner) or [
                inner(entry, f"[{i}]") for i, entry in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": [inner(entry, f"[{i}]") for i, entry in enumerate(value)]}
        if type(value) is dict:
            self.grown += len(value)
            return {"dict": [inner(list(value), " key"), inner(list(value.values()), ".values()")]}
        return self._other(value, where, inner)

    def _place(self, array: AnyArray) -> int:
        """Put an array among the others, little-endian, and return its number."""
        if id(array) not in self._places:
            self.arrays.append(array.astype(array.dtype.newbyteorder("<"), copy=not array.flags.forc))
            self._places[id(array)] = (array, len(self.arrays) - 1)
        return self._places[id(array)][1]

    def _column(self, value: list[Any]) -> object:
        """Encode a list of numbers of one type as an array; None for others."""
        kinds = {type(entry) for entry in value}
        kind = kinds.pop() if len(kinds) == 1 else object
        if kind not in PLAIN and not issubclass(kind, np.number):
            return None
        column = np.array(value)
        if column.dtype.kind != PLAIN.get(kind, column.dtype.kind):  # whole numbers that no array holds
            return None
        self.grown += len(value)
        return {"column": self._place(column), "numpy": kind not in PLAIN}

    def _records(self, value: list[Any], inner: InnerEncoder) -> object:
        """Encode a list of dicts with the same keys, texts, as histories are; None for others."""
        keys = list(value[0]) if value and type(value[0]) is dict else []
        if not keys or any(type(key) is not str for key in keys) or any(
                type(entry) is not dict or list(entry) != keys for entry in value):
            return None
        self.grown += OF_RECORD * len(value)
        return {"records": keys, "columns": [inner([entry[key] for entry in value], f"[:][{key!r}]") for key in keys]}


class Decoder:
    """Turns the JSON of a file into values; its parts may grow as much as the file may spend."""

    def __init__(self, content: Content, other: Callable[[Json, InnerDecoder], Any] | None = None):
        self._arrays = content.arrays
        self._used = [False] * len(content.arrays)
        self._left = content.grown
        self._other = other

    def decode(self, value: object, depth: int = 0) -> Any:
        """Return the value that this JSON stands for.

        Raises
        ------
        ModelFileError
            For what no file says.
        Exception
            Of any other kind, for JSON that an encoder never writes.
        """
        if depth > DEPTH:
            raise ModelFileError("The file is nested too deeply.")

        def inner(part: object) -> Any:
            return self.decode(part, depth + 1)

        if isinstance(value, list):
            return [inner(part) for part in value]
        if not isinstance(value, dict):
            return value
        if "float" in value:
            return float(value["float"])
        if "array" in value:
            return self._array(value["array"])
        if "scalar" in value:
            return _only_entry(self._array(value["scalar"]))
        if "column" in value:
            column = self._array(value["column"])
            self._spend(column.size)
            return list(column) if value["numpy"] else column.tolist()
        if "records" in value:
            columns = [inner(column) for column in value["columns"]]
            self._spend(OF_RECORD * len(columns[0]))
            return [dict(zip(value["records"], entries, strict=True)) for entries in zip(*columns, strict=True)]
        if "tuple" in value:
            return tuple(inner(entry) for entry in value["tuple"])
        if "dict" in value:
            keys, entries = (inner(part) for part in value["dict"])
            self._spend(len(keys))
            return _dict(keys, entries)
        if self._other is None:
            raise ModelFileError(f"The file holds {set(value)}, which is not data.")
        return self._other(value, inner)

    def finish(self) -> None:
        """Refuse a file with arrays that belong to nothing."""
        if not all(self._used):
            raise ModelFileError("It has arrays that no part of it is made of.")

    def _array(self, number: int) -> AnyArray:
        if not (type(number) is int and 0 <= number < len(self._arrays)):
            raise ModelFileError(f"It names an array {number!r}, and has {len(self._arrays)}.")
        self._used[number] = True
        return self._arrays[number]

    def _spend(self, units: int) -> None:
        self._left -= units
        if self._left < 0:
            raise ModelFileError("Its parts take more memory than its header states.")


def _only_entry(array: AnyArray) -> object:
    if array.ndim:
        raise ModelFileError("A number in the file has a shape.")
    return array[()]


def _dict(keys: list[Any], values: list[Any]) -> Mapping[Any, Any]:
    """Return a dict; ModelFileError for keys of which many have one hash, which takes the square of their number."""
    for key in keys:
        for entry in key if isinstance(key, tuple) else (key,):
            if not (entry is None or isinstance(entry, bool | int | float | str | np.generic)):
                raise ModelFileError(f"A dict in the file has the key {key!r}. Expected numbers and text.")
    # more than 16 keys of one hash are made to collide; those of equal numbers are one key
    if max(Counter(map(hash, keys)).values(), default=0) > 16 or len(set(keys)) < len(keys):
        raise ModelFileError("A dict in the file has keys that are the same, or made to collide.")
    return dict(zip(keys, values, strict=True))
