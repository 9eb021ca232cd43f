"""From values to JSON and arrays, and back: what models and checkpoints have in common.

A value is JSON as it is, or one of these:

==================================================  =======================================================
``{"float": text}``                                 infinite, or not a number
``{"tuple": [...]}``, ``{"dict": [[key, value]]}``
``{"array": i}``, ``{"scalar": i}``                 the i-th array, or its only entry as a numpy number
``{"numbered": [...], "numbers": i}``               a dict from text to numpy numbers, the entries of the i-th array
``{"records": [...], "columns": [[kind, i]]}``      a list of dicts with the same keys; the i-th array is a column
==================================================  =======================================================

Of anything else, whoever encodes and decodes says what it becomes: ``other``. An array that stands in several places is
written once.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from buttress.files.container import NUMBERS_AND_TEXT, AnyArray, Content, Json, ModelFileError

DEPTH = 50  # levels of nesting; a pipeline of pipelines with fitted kernels in it has about 15
SAME_HASH = 16  # keys of one dict that may have the same hash; those of equal numbers are one key
KINDS: dict[str, type] = {"float": float, "int": int, "numpy": np.float64}  # of the numbers in a column of records
LARGEST_INT = 2**63 - 1
InnerEncoder = Callable[[object, str], object]  # encodes a part, given what to call it in messages
InnerDecoder = Callable[[object], Any]


def growth_of_records(count: int, columns: int) -> int:
    """Return the growth of a list of dicts, in units of the container: a dict of four floats takes 330 bytes."""
    return count * (2 + columns)


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
        if type(value) is dict and _is_numbered(value):
            self.grown += len(value)
            return {"numbered": list(value), "numbers": self._place(np.array(list(value.values())))}
        if type(value) is list:
            return self._records(value) or [inner(entry, f"[{i}]") for i, entry in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": [inner(entry, f"[{i}]") for i, entry in enumerate(value)]}
        if type(value) is dict:
            return {"dict": [[inner(key, " key"), inner(entry, f"[{key!r}]")] for key, entry in value.items()]}
        return self._other(value, where, inner)

    def _place(self, array: AnyArray) -> int:
        """Put an array among the others, little-endian, and return its number."""
        if id(array) not in self._places:
            self.arrays.append(array.astype(array.dtype.newbyteorder("<"), copy=not array.flags.forc))
            self._places[id(array)] = (array, len(self.arrays) - 1)
        return self._places[id(array)][1]

    def _records(self, value: list[Any]) -> object:
        """Encode a list of dicts with the same keys and numbers of one type a key, as histories are; None for others.
        """
        if len(value) < 2 or not all(type(entry) is dict and entry.keys() == value[0].keys() for entry in value):
            return None
        keys = list(value[0])
        columns = [[entry[key] for entry in value] for key in keys]
        kinds = [_kind_of(column) for column in columns]
        alike = all(type(key) is str for key in keys) and all(list(entry) == keys for entry in value)
        if not (keys and alike) or None in kinds:
            return None
        self.grown += growth_of_records(len(value), len(keys))
        return {"records": keys, "columns": [[kind, self._place(np.array(column))]
                                             for kind, column in zip(kinds, columns, strict=True)]}


def _kind_of(column: Sequence[Any]) -> str | None:
    """Return the name of the one type of the numbers in a column, None where there are several or another."""
    kinds = {type(entry) for entry in column}
    name = next((name for name, known in KINDS.items() if kinds == {known}), None)
    return None if name == "int" and any(abs(entry) > LARGEST_INT for entry in column) else name


def _is_numbered(value: dict[object, object]) -> bool:
    """Say whether a dict maps texts to numpy numbers of one type, as a vocabulary does, of which there are many."""
    kinds = {type(entry) for entry in value.values()}
    return len(kinds) == 1 and issubclass(kinds.pop(), np.number) and all(type(key) is str for key in value)


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
        if "numbered" in value:
            self._spend(len(value["numbered"]))
            return dict(zip(value["numbered"], self._array(value["numbers"]), strict=True))
        if "records" in value:
            return self._records(value["records"], value["columns"])
        if "tuple" in value:
            return tuple(inner(entry) for entry in value["tuple"])
        if "dict" in value:
            return _dict([inner(key) for key, _ in value["dict"]], [inner(entry) for _, entry in value["dict"]])
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

    def _records(self, keys: list[str], columns: list[tuple[str, int]]) -> list[Mapping[str, object]]:
        """Return a list of dicts from a column of numbers a key."""
        found = []
        for kind, number in columns:
            column = self._array(number)
            if column.ndim != 1 or column.dtype.kind != ("i" if kind == "int" else "f") or kind not in KINDS:
                raise ModelFileError("A column of records in the file holds other numbers than it states.")
            self._spend(growth_of_records(len(column), len(columns)) // len(columns))
            found.append(list(column) if kind == "numpy" else column.tolist())
        return [dict(zip(keys, entries, strict=True)) for entries in zip(*found, strict=True)]


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
    if max(Counter(map(hash, keys)).values(), default=0) > SAME_HASH or len(set(keys)) < len(keys):
        raise ModelFileError("A dict in the file has keys that are the same, or made to collide.")
    return dict(zip(keys, values, strict=True))
