"""Columns of tables as NumPy arrays: numbers, times or text, and where they are missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

DIGITS = np.finfo(float).precision  # decimals of so many are told apart by the nearest floats


@dataclass(frozen=True)
class Column:
    """Values of shape (n,), True where they are NULL or NaN, and the kind: number, text, time or nested.

    ``zoned`` says of dates that they came with a time zone; their values are then in UTC. ``rounded`` says of numbers
    that they were decimals of more digits than a float has.
    """

    values: NDArray[Any]
    null: NDArray[np.bool_]
    kind: str
    zoned: bool = False
    rounded: bool = False


def make_column(values: ArrayLike, null: ArrayLike | None = None, zoned: bool = False) -> Column:
    """Return a Column from an array and its mask of missing values, with objects turned to numbers, times or text."""
    array = np.asarray(values)
    rounded = False
    missing = np.zeros(len(array), dtype=bool) if null is None else np.asarray(null, dtype=bool)
    if array.dtype.kind == "O" or array.ndim > 1:  # of polars' arrays and structures
        types = set(map(type, array.tolist()))
        if any(issubclass(one, (list, tuple, dict, set, bytes, bytearray, np.ndarray)) for one in types):
            return Column(array, missing | np.array([value is None for value in array]), "nested")
        zoned = zoned or any(getattr(value, "tzinfo", None) is not None for value in array[~missing][:1])
        rounded = Decimal in types and any(map(_is_rounded, array.tolist()))
        array, missing = _from_objects(array, missing, types)
    if array.dtype.kind == "f":
        missing = missing | np.isnan(array)
    elif array.dtype.kind in "mM":
        missing = missing | np.isnat(array)
    kinds = {"i": "number", "u": "number", "f": "number", "b": "number", "m": "time", "M": "time"}
    kind = kinds.get(array.dtype.kind, "text")
    return Column(array, missing, kind, zoned and kind == "time", rounded and kind == "number")


def _is_rounded(value: Any) -> bool:
    """Say whether a value is a decimal of more digits than a float tells apart, and other than the nearest float."""
    return (isinstance(value, Decimal) and value.is_finite() and len(value.normalize().as_tuple().digits) > DIGITS
            and value != float(value))


def _from_objects(
    values: NDArray[np.object_], null: NDArray[np.bool_], types: set[type]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    if types == {str}:
        return values, null
    null = null | np.fromiter(map(_is_missing, values), dtype=bool, count=len(values))
    kept = values[~null].tolist()
    types = {type(value) for value in kept}
    if not kept:  # NaN says that these were numbers, NULL says nothing
        return np.array([0.0 if value is None else np.nan for value in values]), null
    if types == {str}:
        return values, null
    try:
        plain = _from_times(kept)
        if plain is None and types == {int} and max(kept) >= 2**63 and min(kept) >= 0:  # NumPy would make floats
            plain = np.asarray(kept, dtype=np.uint64 if max(kept) < 2**64 else np.float64)
        elif plain is None:
            plain = np.asarray([float(v) if type(v).__name__ == "Decimal" else v for v in kept])
    except ValueError:
        return values, null
    if plain.dtype.kind not in "iufbmM":
        return np.asarray([None if absent else str(v) for v, absent in zip(values, null)], dtype=object), null
    full = np.zeros(len(values), dtype=plain.dtype)
    full[~null] = plain
    return full, null


def _is_missing(value: Any) -> bool:
    """Say whether a value is NULL, NaN or pandas' NA, which is equal to nothing and unequal to nothing."""
    return value is None or type(value).__name__ == "NAType" or value != value


def _from_times(values: list[Any]) -> NDArray[Any] | None:
    """Return dates (zones turned to UTC), lengths of time or times of a day as numpy's, None for anything else."""
    if all(isinstance(value, date) for value in values):
        if len({getattr(value, "tzinfo", None) is None for value in values}) > 1:
            return None  # some with a time zone and some without cannot be told apart in time
        plain = [v.astimezone(UTC).replace(tzinfo=None) if getattr(v, "tzinfo", None) else v for v in values]
        return np.asarray(plain, dtype="datetime64[us]")
    if all(isinstance(value, timedelta) for value in values):
        return np.asarray(values, dtype="timedelta64[us]")
    if all(isinstance(value, time) for value in values):
        return np.asarray([datetime.combine(date.min, v.replace(tzinfo=None)) - datetime.min for v in values],
                          dtype="timedelta64[us]")
    return None


def plain(column: Column) -> NDArray[Any]:
    """Return a column with its missing values as NaN, or NaT of times.

    Of text, truth values, and whole numbers that floats do not tell apart, they are None.
    """
    if not column.null.any():
        return column.values
    if column.kind == "time":
        return np.where(column.null, np.array("NaT", dtype=column.values.dtype), column.values)
    if column.values.dtype.kind in "iuf":
        floats = np.where(column.null, np.nan, column.values.astype(np.float64))
        if column.values.dtype.kind == "f" or np.nanmax(np.abs(floats), initial=0.0) < 2**53:
            return floats
    words = column.values.astype(object)
    words[column.null] = None
    return words


def objects(values: Sequence[object]) -> NDArray[np.object_]:
    """Return a one-dimensional array of objects, tuples and lists kept whole."""
    return np.fromiter(values, dtype=object, count=len(values))
