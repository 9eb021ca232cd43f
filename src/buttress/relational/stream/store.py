"""Rows of the nodes of a join tree in files of our own: written once, then read chunk by chunk in every pass."""

import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from buttress._checks import Array
from buttress.relational.counting.lists import groups
from buttress.relational.counting.rows import Features, Rows
from buttress.relational.plan.plan import Index
from buttress.relational.sources.deadline import check_time

CODE_BYTES = 4  # of the number of a key
VALUE_BYTES = 8  # of a weight, and of a feature in memory
LEAST_ROWS = 10_000  # rows of a chunk, below which calls cost more than what they do
MOST_ROWS = 1_000_000  # rows of a chunk, beyond which nothing is gained
SAMPLE_ROWS = 2000  # rows of a chunk, at most, whose scores tell the range of all scores


@dataclass(frozen=True)
class Layout:
    """What a row of a node holds: ``children`` numbers of keys, features (``binary``: 0 or 1), in the root its label.

    ``children`` are the children's node numbers, ``columns`` the features' coefficients; ``optional`` marks the right
    side of a left join, whose last key is that of what finds no match: one row of zeros.
    """

    root: bool
    children: Sequence[int]
    binary: Sequence[bool]
    columns: Sequence[int] = ()
    optional: bool = False

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in memory."""
        return CODE_BYTES * (1 + len(self.children)) + VALUE_BYTES * (1 + len(self.binary))

    @property
    def width(self) -> int:
        """Number of columns of :func:`buttress.relational.sql.numbered.numbered`."""
        return len(self.children) + 2 + len(self.binary)


@dataclass(frozen=True)
class Chunk:
    """Rows of a node: ``up`` numbers their own keys, ascending; ``down`` those of the children.

    In the root ``up`` is 1 where the label is the second class.
    """

    up: Index
    down: list[Index]
    weight: Array
    X: Array

    @property
    def bytes(self) -> int:
        return sum(part.nbytes for part in (self.up, *self.down, self.weight, self.X))

    def rows(self, layout: Layout) -> Rows:
        start, numbers = groups(np.zeros_like(self.up) if layout.root else self.up)
        return Rows([Features(np.array(layout.columns, dtype=np.int64), self.X)], self.weight, start, numbers,
                    [code.astype(np.int64) for code in self.down], self.up.astype(np.int64))


@dataclass
class Budget:
    """Bytes of chunks that may stay in memory, for all nodes together."""

    left: float


@dataclass
class StoredNode:
    """A node's rows in one file, ordered by their own key; ``places`` are (offset, rows) of its chunks.

    A chunk ends where a key ends, unless one key has more rows than a chunk takes.
    ``sample`` holds features of some rows, those with the least and largest of each feature among them.
    """

    path: Path
    layout: Layout
    budget: Budget
    places: list[tuple[int, int]] = field(default_factory=list)
    kept: dict[int, Chunk] = field(default_factory=dict)
    samples: list[Array] = field(default_factory=list)
    n_keys: int = 0

    @property
    def children(self) -> Sequence[int]:
        return self.layout.children

    def span(self, beta: Array) -> tuple[float, float]:
        """Return about the least and the largest share of the score, those of a sample."""
        score = np.vstack(self.samples) @ beta[list(self.layout.columns)]
        return float(score.min()), float(score.max())

    def write(self, blocks: Iterable[Array], chunk_rows: int, absent: Sequence[int]) -> None:
        """Write the rows of ``numbered``, in chunks of about ``chunk_rows``; ``absent`` stands for -1 in each child."""
        held: list[Array] = []
        n_held = 0
        for block in blocks:
            held.append(block)
            n_held += len(block)
            while n_held >= chunk_rows:
                rows = np.vstack(held)
                cut = self._cut(rows, chunk_rows)
                self._append(rows[:cut], absent)
                held = [rows[cut:]]
                n_held = len(rows) - cut
        if n_held:
            self._append(np.vstack(held), absent)
        if self.layout.optional:
            empty = np.zeros((1, self.layout.width))
            empty[0, : len(absent) + 2] = [self.n_keys, *absent, 1.0]
            self._append(empty, absent)

    def _cut(self, rows: Array, chunk_rows: int) -> int:
        """Return how many of at least ``chunk_rows`` rows make a chunk: up to where a key ends, if one does."""
        if self.layout.root:
            return chunk_rows
        ends = np.flatnonzero(np.diff(rows[: chunk_rows + 1, 0])) + 1
        return int(ends[-1]) if len(ends) else chunk_rows

    def _append(self, rows: Array, absent: Sequence[int]) -> None:
        chunk = self._chunk(rows, absent)
        self.n_keys = 1 if self.layout.root else int(chunk.up[-1]) + 1
        with open(self.path, "ab") as file:
            self.places.append((file.tell(), len(rows)))
            for part in (chunk.up, *chunk.down, chunk.weight):
                part.tofile(file)
            for j, binary in enumerate(self.layout.binary):
                chunk.X[:, j].astype(np.uint8 if binary else np.float64).tofile(file)
        self.samples.append(_some_rows(chunk.X))
        if chunk.bytes <= self.budget.left:
            self.kept[len(self.places) - 1] = chunk
            self.budget.left -= chunk.bytes

    def _chunk(self, rows: Array, absent: Sequence[int]) -> Chunk:
        """Return the columns of ``rows``; the root's follow each other by the lists they consult."""
        first = 0 if self.layout.root else 1
        at = first + len(absent)
        if self.layout.root and len(absent):
            rows = rows[np.lexsort(rows[:, first:at].T)]
        down = [np.where(code < 0, none, code).astype(np.int32) for code, none in zip(rows[:, first:at].T, absent)]
        up = rows[:, at + 1] if self.layout.root else rows[:, 0]
        return Chunk(up.astype(np.int32), down, np.ascontiguousarray(rows[:, at]),
                     np.ascontiguousarray(rows[:, at + 1 + self.layout.root:]))

    def chunks(self) -> Iterator[Rows]:
        """Yield the rows in order, from memory or from the file; TimeoutError when the time of the fit is up."""
        for number in range(len(self.places)):
            check_time()
            yield (self.kept[number] if number in self.kept else self._read(number)).rows(self.layout)

    def _read(self, number: int) -> Chunk:
        offset, rows = self.places[number]
        with open(self.path, "rb") as file:
            file.seek(offset)
            up = np.fromfile(file, np.int32, rows)
            down = [np.fromfile(file, np.int32, rows) for _ in self.children]
            weight = np.fromfile(file, np.float64, rows)
            X = np.empty((rows, len(self.layout.binary)))
            for j, binary in enumerate(self.layout.binary):
                X[:, j] = np.fromfile(file, np.uint8 if binary else np.float64, rows)
        return Chunk(up, down, weight, X)


def _some_rows(X: Array) -> Array:
    """Return rows spread over a chunk, and those with the least and the largest of each feature."""
    spread = np.arange(0, len(X), max(len(X) // SAMPLE_ROWS, 1))
    return X[np.unique(np.concatenate([spread, X.argmin(axis=0), X.argmax(axis=0)]))]


class Store:
    """The nodes of a join in a temporary folder, which goes with this object; children come before their parents."""

    def __init__(self, layouts: Sequence[Layout], kept_bytes: float):
        folder = tempfile.TemporaryDirectory(prefix="buttress-", ignore_cleanup_errors=True)
        weakref.finalize(self, folder.cleanup)
        budget = Budget(kept_bytes)
        self.nodes = [StoredNode(Path(folder.name) / f"node{i}", layout, budget) for i, layout in enumerate(layouts)]
