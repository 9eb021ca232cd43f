"""Rows of the last table of a circle of pairs, such as a user's ratings of films of the same kind, in this process.

The path leads from a question to keys of that table; the tie, a second pair, says which of its rows are the question's
own. Pairs of a question and a row are found by going part of the path down from the questions and the rest up from the
rows, and meeting where both ways together hold the fewest rows. Only those that agree in the tie as well are made.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from buttress._checks import Array
from buttress.relational.plan.keys import combine, counted, match
from buttress.relational.plan.plan import Index

Codes = tuple[Index, Index]  # keys of the two tables of a hop as numbers, -1 where NULL
ON_THE_WAY = 1 << 25  # rows of both ways that are held at a time


@dataclass(frozen=True)
class Way:
    """Rows ``at`` of a table, each with the row ``of`` where its way began and the latest time on the way, if any.
    """

    at: Index
    of: Index
    time: Array | None

    def on(self, here: Index, there: Index, known: Array | None) -> "Way":
        """Return the way one table further, over all pairs of equal keys."""
        first, second = match(here[self.at], there)
        return Way(second, self.of[first], later(None if self.time is None else self.time[first], known, second))


def later(time: Array | None, known: Array | None, at: Index) -> Array | None:
    """Return the later of a way's times and those at which the rows ``at`` became known, if either matters."""
    if known is None or time is None:
        return time if known is None else known[at]
    return np.maximum(time, known[at])


@dataclass(frozen=True)
class Circle:
    """The ways from questions and from rows, and the keys, tie included, by which both meet."""

    down: Way
    up: Way
    keys: Codes

    def sizes(self, n: int) -> Array:
        """Return how many rows each of n questions is paired with."""
        many = counted(np.ones(len(self.keys[1])), *self.keys)
        return np.asarray(np.bincount(self.down.of, weights=many, minlength=n), dtype=float)

    def pairs(self, asked: Index, rows: Index) -> Way:
        """Return the pairs of some questions and ``rows``: places ``at`` among the rows and ``of`` among questions."""
        asked_at, row_at = _places(asked, self.down.of), _places(rows, self.up.of)
        mine, theirs = np.flatnonzero(asked_at >= 0), np.flatnonzero(row_at >= 0)
        first, second = match(self.keys[0][mine], self.keys[1][theirs])
        first, second = mine[first], theirs[second]
        time = None if self.down.time is None else self.down.time[first]
        return Way(row_at[second], asked_at[first], later(time, self.up.time, second))


def circles(name: str, hops: Sequence[Codes], known: Sequence[Array | None], tie: Codes,
            asked: Index) -> Iterator[tuple[Index, Circle]]:
    """Yield the questions ``asked`` in parts whose ways can be held, each with where it meets rows of table ``name``.

    ``hops`` are the keys of each hop from the questions, ``known`` when rows of each table that is led to became known,
    if that matters, and ``tie`` the keys of the questions and of the last table that are equal as well. Raises
    ValueError where the ways of one question cannot be held.
    """
    middle, size = meeting([(hops[0][0][asked], hops[0][1]), *hops[1:]])
    if size <= ON_THE_WAY:
        yield asked, circle(hops, known, tie, asked, middle)
    elif len(asked) > 1:
        for half in np.array_split(asked, 2):
            yield from circles(name, hops, known, tie, half)
    else:
        raise ValueError(f"The circle of pairs that ends at {name!r} holds {size:.3g} rows on the way of one row, more "
                         "than this process keeps. Use engine='sql'.")


def circle(hops: Sequence[Codes], known: Sequence[Array | None], tie: Codes, asked: Index, middle: int) -> Circle:
    """Return where the questions ``asked`` meet the rows of the last table, over the hop ``middle``."""
    down = Way(asked, asked, None)
    for (above, below), time in zip(hops[:middle], known):
        down = down.on(above, below, time)
    last = np.arange(len(hops[-1][1]))
    up = Way(last, last, known[-1])
    for level in range(len(hops) - 1, middle, -1):
        above, below = hops[level]
        up = up.on(below, above, known[level - 1])
    above, below = hops[middle]
    both = combine([np.concatenate([above[down.at], below[up.at]]), np.concatenate([tie[0][down.of], tie[1][up.of]])])
    return Circle(down, up, (both[:len(down.at)], both[len(down.at):]))


def meeting(hops: Sequence[Codes]) -> tuple[int, float]:
    """Return the hop over which both ways meet, so that they hold the fewest rows, and how many rows these are."""
    down, up = [np.ones(len(hops[0][0]))], [np.ones(len(hops[-1][1]))]
    for above, below in hops[:-1]:
        down.append(counted(down[-1], below, above))
    for above, below in hops[:0:-1]:
        up.append(counted(up[-1], above, below))
    sizes = [one.sum() + other.sum() for one, other in zip(down, reversed(up))]
    return int(np.argmin(sizes)), float(min(sizes))


def _places(some: Index, of: Index) -> Index:
    """Return the place of each row ``of`` among ``some`` rows, -1 where it is none of them."""
    place = np.full(max(some.max(initial=-1), of.max(initial=-1)) + 1, -1)
    place[some] = np.arange(len(some))
    return place[of]
