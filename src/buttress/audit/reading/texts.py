"""A column as its different entries and a number for each row: what is done with texts is done once for each of them.

Of a million rows of a category there are a few different texts, so that reading them costs next to nothing.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._types import Labels

EXACT = 2**53  # whole numbers up to here are float64 numbers
WHOLE = re.compile(r"[-+]?[0-9]{1,1000}")
MISSING_TYPES = ("<NA>", "NaT")  # how missing values of pandas print


@dataclass(frozen=True)
class Texts:
    """The different texts of a column in the order they come in, and the number of each row's, -1 where missing."""

    distinct: list[str]
    codes: NDArray[np.intp]

    @property
    def counts(self) -> NDArray[np.intp]:
        """How many rows have each text."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.distinct))

    @property
    def known(self) -> int:
        """How many entries are not missing."""
        return int((self.codes >= 0).sum())

    def spread(self, values: NDArray[np.generic], missing: object) -> Labels:
        """Return for each row the entry of ``values`` that belongs to its text."""
        return np.append(values, np.array([missing], dtype=values.dtype))[self.codes]


def as_array(column: Any) -> NDArray[Any]:
    """Return a column of a frame, or a sequence, as an array; of objects where it would be another.

    A frame makes floats of whole numbers with a gap; polars makes no array of those of 128 bits, and several columns of
    one that is nested.
    """
    kind = str(getattr(column, "dtype", "")).lower()
    if not kind.endswith("int128"):
        values = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
        rounded = values.dtype.kind == "f" and "int" in kind and np.nanmax(np.abs(values), initial=0.0) >= EXACT
        if not rounded and (values.ndim == 1 or not hasattr(column, "to_list")):
            return values
    return np.fromiter(column.to_list(), object, len(column))


def texts_of(values: Labels) -> Texts:
    """Return the entries of a column (n,) as texts; None, NaN and the missing values of pandas are missing."""
    numbers: dict[object, int] = {}
    entries = values.tolist() if values.dtype.kind == "O" else values
    if values.dtype.kind != "O" or not {type(entry) for entry in entries} <= {str, type(None)}:
        entries = [None if is_missing(value) else str(value) for value in values]
    codes = np.fromiter((numbers.setdefault(entry, len(numbers)) for entry in entries), np.intp, len(values))
    distinct = list(numbers)
    if None in numbers:
        gap = numbers[None]
        del distinct[gap]
        codes = np.where(codes == gap, -1, codes - (codes > gap))
    return Texts([str(text) for text in distinct], codes)


def is_missing(value: object) -> bool:
    """Say whether an entry stands for none."""
    if isinstance(value, str):
        return value in MISSING_TYPES
    nan = isinstance(value, (float, np.floating)) and math.isnan(value)
    return value is None or nan or str(value) in MISSING_TYPES


def factorised(column: Labels) -> tuple[Labels, NDArray[np.intp]]:
    """Return the different values of a column (n,) in order, and the place of each row's among them.

    As ``numpy.unique`` does, but without sorting the rows where they are texts.
    """
    if column.dtype.kind not in "OU":
        values, codes = np.unique(column, return_inverse=True)
        return values, codes.ravel()
    numbers: dict[str, int] = {}
    codes = np.fromiter((numbers.setdefault(str(entry), len(numbers)) for entry in column.tolist()), np.intp,
                        len(column))
    order = np.argsort(np.array(list(numbers)))
    return np.array(list(numbers))[order], np.argsort(order)[codes]
