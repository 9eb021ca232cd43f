"""Cells of rows changed for other entries: the search behind swapped categories, of an attack and of an audit.

Entries are numbers, such as codes of categories, NaN for an empty cell. A way is what some columns get. All ways of so
many cells are tried (``try_ways``), or one cell after another, each the worst beside those before (``add_one``).
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from buttress._checks import Array
from buttress._suggest import LARGEST
from buttress._types import Mask, Rows

Column = Any  # a name or a number
Change = tuple[Column, float]
Way = tuple[Change, ...]
Cells = dict[Column, Array]  # the entries of the columns that may change, one a row

ASKED = 20_000  # versions that a model is asked about at once
WRONG = 1.0  # the harm of a classifier from which a row is misclassified


class WorstCells:
    """The version of each row met so far that does most harm.

    Parameters
    ----------
    given : dict
        The entries (n,) of each column, as they came.
    harm : callable
        ``harm(rows, cells)`` is the harm (b,) of these rows (b,), the columns holding ``cells``, each (b,).
    enough : float
        Harm from which a row is settled: it is asked about no more.

    Attributes
    ----------
    cells : dict
        The entries of the worst versions.
    most : array of shape (n,)
        Their harm.
    asked : int
        Versions the model was asked about.
    """

    def __init__(self, given: Cells, harm: Callable[[Rows, Cells], Array], n: int, *, enough: float = np.inf):
        self.given = given
        self.harm = harm
        self.enough = enough
        self.cells = _of(given, np.arange(n))
        self.most = np.array(harm(np.arange(n), given))
        self.asked = n

    def try_ways(self, ways: Iterable[Way], start: Cells | None = None) -> None:
        """Change the rows that are not settled in each of the ways, from ``start`` or else from the rows as they came.

        A cell that ``start`` has changed already keeps what it got. Of equals the version met first stays.
        """
        left = iter(ways)
        start = self.given if start is None else start
        while len(rows := np.flatnonzero(self.most < self.enough)) and (
            batch := list(islice(left, max(1, ASKED // len(rows))))
        ):
            cells = _of(start, np.tile(rows, len(batch)))
            for way, part in zip(batch, _parts(len(rows), len(batch)), strict=True):
                for column, entry in way:
                    untouched = same(cells[column][part], self.given[column][rows])
                    cells[column][part] = np.where(untouched, entry, cells[column][part])
            harms = np.asarray(self.harm(np.tile(rows, len(batch)), cells))
            self.asked += len(harms)
            for part in _parts(len(rows), len(batch)):
                self._keep(rows, _of(cells, part), harms[part])

    def add_one(self, changes: Sequence[Change]) -> None:
        """Change one more cell of each row, the one that does most harm beside those changed so far, if any does."""
        self.try_ways([(change,) for change in changes], start=_of(self.cells, np.arange(len(self.most))))

    def changed(self) -> Array:
        """Return how many cells of each worst version differ from the row as it came."""
        differ = [~same(self.cells[column], values) for column, values in self.given.items()]
        return np.sum(differ, axis=0, dtype=np.float64) if differ else np.zeros(len(self.most))

    def _keep(self, rows: Rows, cells: Cells, harms: Array) -> None:
        better = (harms > self.most[rows]) & (self.most[rows] < self.enough)
        self.most[rows[better]] = harms[better]
        for column, values in cells.items():
            self.cells[column][rows[better]] = values[better]


def harm_done(wrong: Mask, margin: Array | None) -> Array:
    """Return the harm to a classifier: 1 and more where it is wrong; below that, margins say how near it is to it."""
    if margin is None:
        return wrong.astype(np.float64)
    bounded = np.clip(np.nan_to_num(margin, nan=0.0), -LARGEST, LARGEST)  # those of a model may be infinite
    return np.asarray(2.0 * wrong - bounded / (1 + np.abs(bounded)))


def lead_of(scores: Array, codes: Rows) -> Array:
    """Return by how much the score of each row's class leads over its best rival; scores (n, k), codes (n,)."""
    rows = np.arange(len(codes))
    rivals = np.array(scores, dtype=np.float64)
    rivals[rows, codes] = -np.inf
    return np.asarray(scores[rows, codes] - rivals.max(axis=1))


def same(first: Array, second: Array) -> Mask:
    """Say where two columns hold the same entry; empty cells (NaN) are alike."""
    return np.asarray((first == second) | (np.isnan(first) & np.isnan(second)))


def _of(cells: Cells, rows: Rows | slice) -> Cells:
    """Return the cells of some rows, copied."""
    return {column: values[rows].copy() for column, values in cells.items()}


def _parts(rows: int, ways: int) -> list[slice]:
    return [slice(number * rows, (number + 1) * rows) for number in range(ways)]
