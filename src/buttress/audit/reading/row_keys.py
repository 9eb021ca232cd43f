"""A key for each row, made of what is in it: by it a row is found again in a file that was sorted, cut or added to.

    key = a letter, 16 hexadecimal digits of h, a dot, and which of the equal rows it is, counted from 1 in their order
    h   = mix(sum over columns of mix(mix(entry) + name))  modulo 2^64

mix is the finaliser of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014). The sum does not depend on the order of the
columns. A number counts by its value, however it is written, so that a row has one key as text of a CSV file and as a
row of a frame; whole numbers beyond 2^53 count by their digits, other entries by their text without the spaces around
it, and what means that an entry is missing as nothing.

Two rows that are not equal share a key with a chance of 2^-64 a pair, 3e-8 for some pair of a million. That is for
honest tables: who wants two rows with one key can make them.
"""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.audit.reading.source import NULLS, NUMBER
from buttress.audit.reading.texts import EXACT, WHOLE, as_array, texts_of

COMMA = re.compile(NUMBER.format(","))  # a number with a decimal comma
MISSING = 0x6D697373696E6721

Codes = NDArray[np.uint64]


def row_keys(columns: Mapping[str, object]) -> list[str]:
    """Return the key of each row of the columns, which are arrays, series of pandas or polars, or lists of texts."""
    total: Any = np.uint64(0)
    with np.errstate(over="ignore"):
        for name, column in columns.items():
            total = total + _mix(_mix(_codes(column)) + np.uint64(_digest(name)))
    hashes = _mix(np.atleast_1d(total))
    return [f"k{code:016x}.{copy}" for code, copy in zip(hashes.tolist(), _copies(hashes).tolist(), strict=True)]


def _copies(hashes: Codes) -> NDArray[np.intp]:
    """Return for each row how many rows up to it, with itself, have its hash."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    counted = np.arange(len(hashes)) - np.repeat(starts, np.diff(np.append(starts, len(hashes)))) + 1
    return counted[np.argsort(order)]


def _mix(codes: Codes) -> Codes:
    codes = (codes ^ (codes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    codes = (codes ^ (codes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return codes ^ (codes >> np.uint64(31))


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little")


def _codes(column: Any) -> Codes:
    """Return the entries of a column as 64 bits each."""
    values = as_array(column)
    if values.dtype.kind in "fiu":
        numbers = values.astype(float)
        if np.nanmax(np.abs(numbers), initial=0.0) < EXACT:
            return _bits(numbers)
    texts = texts_of(values)
    return np.asarray(texts.spread(np.array([_code(text) for text in texts.distinct], dtype=np.uint64), MISSING))


def _bits(values: NDArray[np.float64]) -> Codes:
    """Return the bits of numbers, one pattern for both zeros; numbers of float64 that are missing have a code."""
    return np.where(np.isnan(values), np.uint64(MISSING), (values + 0.0).view(np.uint64))


def _code(text: str) -> int:
    """Return an entry as 64 bits."""
    text = text.strip()
    if text in NULLS:
        return MISSING
    if WHOLE.fullmatch(text) and abs(int(text)) >= EXACT:
        return _digest(str(int(text)))
    try:
        return int(_bits(np.array([float(text.replace(",", ".") if COMMA.fullmatch(text) else text)]))[0])
    except ValueError:
        return _digest(text.lower() if text in ("True", "False") else text)
