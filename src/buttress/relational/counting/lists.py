"""Lists, one a key, that go up the join tree, and their products: of (bin, weight), or of scored annotations.

The general form of message passing is with NumPy alone. An entry is a score v and an annotation of a commutative
semiring. Joining two lists adds scores and multiplies annotations; merging entries adds annotations. Counting, sums and
minima under one additive inequality are all read from the list at the root (FAQ-AI with one inequality; Abo Khamis et
al., PODS 2019).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from buttress._checks import Array
from buttress.relational.counting import compiled
from buttress.relational.plan.plan import Index

MOST_ENTRIES = 20_000_000  # entries of lists held at once, 32 bytes each: score, annotation and two indices


class TooManyEntriesError(MemoryError):
    """The exact lists do not fit; round the scores to a grid first."""


@dataclass(frozen=True)
class Semiring:
    """Annotations are rows of an array (n, 1); ``add`` merges rows by a ufunc, ``multiply`` joins two arrays.

    ``zero`` leaves what is added to it and ``one`` what is multiplied by it.
    """

    name: str
    add: np.ufunc
    multiply: Callable[[Array, Array], Array]
    zero: Any = 0.0
    one: Any = 1.0


COUNTING = Semiring("counting", np.add, np.multiply)
DECLARED = {ring.name: ring for ring in (
    COUNTING,
    Semiring("sum-product", np.add, np.multiply),
    Semiring("min-plus", np.minimum, np.add, zero=np.inf, one=0.0),
    Semiring("max-plus", np.maximum, np.add, zero=-np.inf, one=0.0),
    Semiring("max-product", np.maximum, np.multiply),
    Semiring("boolean", np.maximum, np.multiply),
)}


@dataclass
class ScoredEntries:
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


def merge(semiring: Semiring, group: Index, n_groups: int, score: Array, value: Array) -> ScoredEntries:
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
    return ScoredEntries(end, score[first], merged)


def extend(
    semiring: Semiring, score: Array, value: Array, key: Index, below: ScoredEntries
) -> tuple[Index, Array, Array]:
    """Return (row, score, annotation) of every entry that rows get from the lists they consult."""
    row, entry = expand(key, below.end)
    return row, score[row] + below.score[entry], semiring.multiply(value[row], below.value[entry])


def times(semiring: Semiring, one: ScoredEntries, two: ScoredEntries, keys: tuple[Index, Index]) -> ScoredEntries:
    """Return the lists of products of pairs of lists."""
    row, entry = expand(keys[0], one.end)
    at, score, value = extend(semiring, one.score[entry], one.value[entry], keys[1][row], two)
    return merge(semiring, row[at], len(keys[0]), score, value)


ENTRY_MEGABYTES = 20e-6  # of an entry of a list: bin (4 bytes), weight and adjoint (8 each)


@dataclass(frozen=True)
class Lists:
    """Lists of (bin, weight), one per key, as slices of flat arrays; ``width`` bounds the bins.

    ``megabytes`` are what they may come to, of which they were given room.
    """

    begin: Index
    end: Index
    bins: Index
    mass: Array
    width: int
    megabytes: float = 0.0

    @property
    def arrays(self) -> tuple[Index, Index, Index, Array]:
        return self.begin, self.end, self.bins, self.mass

    @property
    def longest(self) -> int:
        """The entries of the longest list."""
        return int((self.end - self.begin).max())

    def of(self, keys: Index) -> "Lists":
        """Return the lists of some keys."""
        return replace(self, begin=self.begin[keys], end=self.end[keys])

    def filled(self) -> "Lists":
        """Return the lists without the room behind the last, once they are made."""
        used = int(self.end[-1])
        return replace(self, bins=self.bins[:used].copy(), mass=self.mass[:used].copy())


def unit_lists() -> Lists:
    """Return the one list that all rows consult where they have no child: its entry leaves their bin and weight."""
    return Lists(np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int32), np.ones(1), 1)


@dataclass(frozen=True)
class Sum:
    """Rows of bin ``q`` and weight ``w`` that are added up to lists: those of list k begin at ``start[k]``.

    Each row consults list ``key`` of ``below``, whose bins are shifted by its own and whose weights are multiplied;
    ``worth`` is what each entry of ``below`` is worth, found on the way down.
    """

    q: Index
    w: Array
    start: Index
    key: Index
    below: Lists
    worth: Array

    def up(self, free: float) -> Lists:
        """Return the lists that the rows are added up to."""
        width = int(self.q.max(initial=0)) + self.below.width
        ends = np.concatenate([[0], np.cumsum((self.below.end - self.below.begin)[self.key])])
        out = room(np.diff(ends[self.start]), width, free)
        compiled.block_up(self.q, self.w, self.start, self.key, *self.below.arrays, width, *out.arrays)
        return out.filled()

    def down(self, made: Lists, worth: Array) -> Array:
        """Return what a weight of 1 of each row is worth, from the ``worth`` of the entries of the lists ``made``.

        What the entries below are worth is added up in place.
        """
        found = np.zeros(len(self.q))
        compiled.block_down(self.q, self.w, self.start, self.key, *self.below.arrays, made.width, *made.arrays, worth,
                            self.worth, found)
        return found


def entries(lists: Lists, chosen: Index) -> tuple[Index, Index]:
    """Return where the entries of each of the ``chosen`` lists begin, and the end of the last; and the entries."""
    many = (lists.end - lists.begin)[chosen]
    start = np.concatenate([[0], np.cumsum(many)])
    return start, np.arange(start[-1]) + np.repeat(lists.begin[chosen] - start[:-1], many)


def joined_lists(chunks: Sequence[tuple[Lists, int]], numbers: Index, free: float) -> tuple[Lists, int]:
    """Return the lists of several chunks of rows as one, and its least bin; a key may be in two chunks.

    ``chunks`` are a chunk's lists and its least bin, ``numbers`` the keys of all chunks, ascending.
    """
    if len(chunks) == 1:
        return chunks[0]
    low = min(place for _, place in chunks)
    before = np.cumsum([0, *(len(lists.mass) for lists, _ in chunks)])
    whole = Lists(np.concatenate([lists.begin + at for (lists, _), at in zip(chunks, before)]),
                  np.concatenate([lists.end + at for (lists, _), at in zip(chunks, before)]),
                  np.concatenate([lists.bins for lists, _ in chunks]),
                  np.concatenate([lists.mass for lists, _ in chunks]), max(lists.width for lists, _ in chunks))
    q = np.repeat([place - low for _, place in chunks], [len(lists.begin) for lists, _ in chunks]).astype(np.int32)
    start, _ = groups(numbers)
    return Sum(q, np.ones(len(q)), start, np.arange(len(q)), whole, np.zeros(0)).up(free), low


def groups(numbers: Index) -> tuple[Index, Index]:
    """Return where each key's rows begin, and the end of the last; and the numbers of the keys."""
    start = np.flatnonzero(np.diff(numbers, prepend=-1))
    return np.append(start, len(numbers)).astype(np.int64), numbers[start]


def room(sizes: Index, width: int, free: float) -> Lists:
    """Return empty lists with room for ``sizes`` entries each, never more than ``width``, and one entry at the end.

    Raises MemoryError when they take more than ``free`` megabytes.
    """
    ends = np.cumsum(np.minimum(sizes, width))
    begin = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    total = int(ends[-1])
    megabytes = ENTRY_MEGABYTES * total
    if megabytes > free:
        raise MemoryError(f"A pass over this join needs lists of {megabytes:.3g} megabytes, where "
                          f"memory_limit leaves {free:.3g}. Raise memory_limit, or use engine='sql', which spills "
                          "to disk.")
    return Lists(begin, begin.copy(), np.zeros(total + 1, dtype=np.int32), np.zeros(total + 1), width,
                 megabytes)
