"""Counting a join whose rows lie in files of our own: written once, then read chunk by chunk in every pass.

They come from a plan in SQL before the first pass, and memory holds only lists.
"""

import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from buttress._checks import Array
from buttress.relational.counting.grid import GridOracle
from buttress.relational.counting.lists import groups
from buttress.relational.counting.rows import NodeRows, RowFeatures
from buttress.relational.plan.plan import TableData
from buttress.relational.sources.blocks import number_blocks
from buttress.relational.sources.deadline import check_time
from buttress.relational.sql.listing import numbered
from buttress.relational.sql.oracle import SqlOracle

LEAST_ROWS = 10_000  # rows of a chunk, below which calls cost more than what they do
MOST_ROWS = 1_000_000  # rows of a chunk, beyond which nothing is gained

# shares of the memory of a fit; arrays of a chunk's size are alive some ten times over while it is counted
LIST_SHARE = 1 / 3  # of lists
CHUNK_SHARE = 1 / 64  # of one chunk


@dataclass
class StoredNode:
    """A node's rows in one file, ordered by their own key; ``places`` are (offset, rows) of its chunks.

    A row holds ``children`` numbers of keys, features (``binary``: 0 or 1), in the root its label. ``children`` are the
    children's node numbers, ``columns`` the features' coefficients; ``optional`` marks the right side of a left join,
    whose last key is that of what finds no match: one row of zeros. A chunk ends where a key ends, unless one key has
    more rows than a chunk takes. ``samples`` hold features of some rows, those with the least and largest of each
    feature among them.
    """

    path: Path
    root: bool
    children: Sequence[int]
    binary: Sequence[bool]
    columns: Sequence[int]
    optional: bool
    places: list[tuple[int, int]] = field(default_factory=list)
    samples: list[Array] = field(default_factory=list)
    n_keys: int = 0

    @property
    def width(self) -> int:
        """Number of columns of :func:`buttress.relational.sql.listing.numbered`."""
        return len(self.children) + 2 + len(self.binary)

    def chunk_rows(self, chunk_bytes: float) -> int:
        """Return how many rows a chunk takes: few below the root where lists are multiplied, which takes memory.
        """
        if len(self.children) > 1 and not self.root:
            return LEAST_ROWS
        row_bytes = 4 * (1 + len(self.children)) + 8 * (1 + len(self.binary))  # of keys, and of a weight and features
        return int(np.clip(chunk_bytes / row_bytes, LEAST_ROWS, MOST_ROWS))

    def span(self, beta: Array) -> tuple[float, float]:
        """Return about the least and the largest share of the score, those of a sample."""
        score = np.vstack(self.samples) @ beta[list(self.columns)]
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
        if self.optional:
            empty = np.zeros((1, self.width))
            empty[0, : len(absent) + 2] = [self.n_keys, *absent, 1.0]
            self._append(empty, absent)

    def _cut(self, rows: Array, chunk_rows: int) -> int:
        """Return how many of at least ``chunk_rows`` rows make a chunk: up to where a key ends, if one does."""
        if self.root:
            return chunk_rows
        ends = np.flatnonzero(np.diff(rows[: chunk_rows + 1, 0])) + 1
        return int(ends[-1]) if len(ends) else chunk_rows

    def _append(self, rows: Array, absent: Sequence[int]) -> None:
        """Write a chunk: keys (in the root the label's side), children's keys, weights, features, column by column.

        The root's rows follow each other by the lists they consult.
        """
        root = self.root
        first = 0 if root else 1
        at = first + len(absent)
        if root and len(absent):
            rows = rows[np.lexsort(rows[:, first:at].T)]
        up = rows[:, at + 1] if root else rows[:, 0]
        down = [np.where(code < 0, none, code) for code, none in zip(rows[:, first:at].T, absent)]
        X = rows[:, at + 1 + root:]
        self.n_keys = 1 if root else int(up[-1]) + 1
        with open(self.path, "ab") as file:
            self.places.append((file.tell(), len(rows)))
            for codes in (up, *down):
                codes.astype(np.int32).tofile(file)
            rows[:, at].tofile(file)
            for j, binary in enumerate(self.binary):
                X[:, j].astype(np.uint8 if binary else np.float64).tofile(file)
        # rows of a chunk, at most, whose scores tell the range of all scores
        spread = np.arange(0, len(X), max(len(X) // 2000, 1))
        self.samples.append(X[np.unique(np.concatenate([spread, X.argmin(axis=0), X.argmax(axis=0)]))])

    def chunks(self) -> Iterator[NodeRows]:
        """Yield the rows in order, read from the file; TimeoutError when the time of the fit is up."""
        for offset, n in self.places:
            check_time()
            with open(self.path, "rb") as file:
                file.seek(offset)
                up, *down = (np.fromfile(file, np.int32, n).astype(np.int64) for _ in range(1 + len(self.children)))
                weight = np.fromfile(file, np.float64, n)
                X = np.empty((n, len(self.binary)))
                for j, binary in enumerate(self.binary):
                    X[:, j] = np.fromfile(file, np.uint8 if binary else np.float64, n)
            start, numbers = groups(np.zeros_like(up) if self.root else up)
            features = [RowFeatures(np.array(self.columns, dtype=np.int64), X)]
            yield NodeRows(features, weight, start, numbers, down, up)


def streamed(oracle: SqlOracle, memory: float) -> GridOracle:
    """Read the rows that take part in a join from its database, and return the oracle over them.

    They lie in a temporary folder, which goes with the oracle; the database is not needed any more. ``memory`` are the
    megabytes that all this may take. Raises OSError when the disk is full, and
    SourceChangedError when a file of the join is written to meanwhile.
    """
    order = oracle.tree.order[::-1]
    folder = tempfile.TemporaryDirectory(prefix="buttress-", ignore_cleanup_errors=True)
    nodes = [_node(oracle, i, order, folder.name) for i in order]
    counted = GridOracle(nodes, oracle.plan.width, oracle.total, LIST_SHARE * memory)
    weakref.finalize(counted, folder.cleanup)
    for i, node in zip(order, nodes):
        rows = number_blocks(oracle.connection, numbered(oracle.tree, i), oracle.dialect, node.width)
        absent = [nodes[child].n_keys - 1 for child in node.children]
        try:
            node.write(rows, node.chunk_rows(CHUNK_SHARE * memory * 1e6), absent)
        except TimeoutError:  # an OSError, too
            raise
        except OSError as error:
            raise OSError(f"Rows of the join could not be written to {node.path.parent}: {error}. Set TMPDIR to a "
                          "folder with more room, or use engine='sql', which writes none.") from error
    oracle.check_files()
    return counted


def _node(oracle: SqlOracle, i: int, order: Sequence[int], folder: str) -> StoredNode:
    """Return a node without rows; columns of categories, indicators and ones are 0 or 1."""
    node = oracle.tree.nodes[i]
    numbers = {part.start + j for table, part in zip(oracle.plan.tables, oracle.plan.slices)
               for j, binary in enumerate(_binary(table)) if not binary}
    return StoredNode(Path(folder) / f"node{i}", i == oracle.tree.root, [order.index(child) for child in node.children],
                      [column not in numbers for column in node.columns], node.columns, node.optional)


def _binary(table: TableData) -> list[bool]:
    """Say of each column of a table whether it is a category's or an indicator's."""
    return [feature.categories is not None or j > 0 for feature in table.features
            for j in range(len(feature.scales))]
