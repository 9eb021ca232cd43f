"""Lists of scored annotations, a list a key, with NumPy alone: the general form of message passing over the tree.

An entry is a score v and an annotation of a commutative semiring. Joining two lists adds scores and multiplies
annotations; merging entries adds annotations. Counting, sums and minima under one additive inequality are all read
from the list at the root (FAQ-AI with one inequality; Abo Khamis et al., PODS 2019).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from buttress._checks import Array
from buttress.relational.plan.plan import Index

MOST_ENTRIES = 20_000_000  # entries of lists held at once, 32 bytes each: score, annotation and two indices


class TooManyEntriesError(MemoryError):
    """The exact lists do not fit; round the scores to a grid first."""


@dataclass(frozen=True)
class Semiring:
    """Annotations are rows of an array (n, width); ``add`` merges rows by a ufunc, ``multiply`` joins two arrays.

    ``zero`` leaves what is added to it and ``one`` what is multiplied by it; ``idempotent``: a + a = a.
    """

    name: str
    add: np.ufunc
    multiply: Callable[[Array, Array], Array]
    width: int = 1
    zero: Any = 0.0
    one: Any = 1.0
    idempotent: bool = False


def _product_rule(a: Array, b: Array) -> Array:
    return np.column_stack([a[:, 0] * b[:, 0], a[:, 0] * b[:, 1] + a[:, 1] * b[:, 0]])


COUNTING = Semiring("counting", np.add, np.multiply)
SUM = Semiring("sum", np.add, _product_rule, 2)  # (count, sum of a quantity that adds up over the tables)
DECLARED = {ring.name: ring for ring in (
    COUNTING,
    Semiring("sum-product", np.add, np.multiply),
    Semiring("min-plus", np.minimum, np.add, zero=np.inf, one=0.0, idempotent=True),
    Semiring("max-plus", np.maximum, np.add, zero=-np.inf, one=0.0, idempotent=True),
    Semiring("max-product", np.maximum, np.multiply, idempotent=True),
    Semiring("boolean", np.maximum, np.multiply, idempotent=True),
)}


@dataclass
class Entries:
    """Entries of the lists 0, 1, ... with ``end[k]`` the end of list k; scores ascend within a list."""

    end: Index
    score: Array
    value: Array


def expand(key: Index, end: Index) -> tuple[Index, Index]:
    """Return all pairs (row, entry of the list the row consults)."""
    begin = np.concatenate([[0], end[:-1]])
    many = (end - begin)[key]
    if many.sum() > MOST_ENTRIES:
        raise TooManyEntriesError(f"The lists of this join need {many.sum():.3g} entries, more than {MOST_ENTRIES}.")
    row = np.repeat(np.arange(len(key)), many)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(begin[key], many)


def merge(semiring: Semiring, group: Index, n_groups: int, score: Array, value: Array) -> Entries:
    """Return lists per group with entries of equal score added up."""
    order = np.lexsort((score, group))
    group = group[order]
    score = score[order]
    value = value[order]
    new = np.ones(len(group), dtype=bool)
    new[1:] = (group[1:] != group[:-1]) | (score[1:] != score[:-1])
    first = np.flatnonzero(new)
    merged = semiring.add.reduceat(value, first, axis=0) if len(first) else value
    end = np.searchsorted(group[first], np.arange(n_groups), side="right")
    return Entries(end, score[first], merged)


def extend(semiring: Semiring, score: Array, value: Array, key: Index, below: Entries) -> tuple[Index, Array, Array]:
    """Return (row, score, annotation) of every entry that rows get from the lists they consult."""
    row, entry = expand(key, below.end)
    return row, score[row] + below.score[entry], semiring.multiply(value[row], below.value[entry])


def times(semiring: Semiring, one: Entries, two: Entries, keys: tuple[Index, Index]) -> Entries:
    """Return the lists of products of pairs of lists."""
    row, entry = expand(keys[0], one.end)
    at, score, value = extend(semiring, one.score[entry], one.value[entry], keys[1][row], two)
    return merge(semiring, row[at], len(keys[0]), score, value)
