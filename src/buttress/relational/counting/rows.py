"""Rows of a node of the join tree, all of them in memory or some of them from a file: what the grid oracle counts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from buttress._checks import Array
from buttress.relational.counting.schedule import Block, listed, schedule
from buttress.relational.plan.plan import Index, Plan
from buttress.relational.sources.deadline import check_time

PRODUCT_ROWS = 10_000  # rows whose lists are multiplied at once: a product takes memory for every row


@dataclass(frozen=True)
class Features:
    """Features that rows get from one table: those of its row ``place``, or of the same row."""

    columns: Any  # slice or numbers of the coefficients
    X: Any
    place: Index | None = None

    def scores(self, beta: Array) -> Array:
        own = np.asarray(self.X @ beta[self.columns])
        return own if self.place is None else own[self.place]

    def add(self, count: Array, gradient: Array) -> None:
        """Add the sum of the features, each row times its count, to the gradient."""
        own = count if self.place is None else np.bincount(self.place, count, minlength=self.X.shape[0])
        gradient[self.columns] += self.X.T @ own


@dataclass(frozen=True)
class Rows:
    """Rows in the order of their keys ``numbers``, which begin at ``start`` (and end at its last).

    ``down`` says which list of each child a row consults. In the root there is one key, ``side`` is 1 where the label
    is the second class, and rows follow each other by the lists they consult.
    """

    features: Sequence[Features]
    weight: Array
    start: Index
    numbers: Index
    down: Sequence[Index]
    side: Index

    def scores(self, beta: Array) -> Array:
        """Return the rows' shares of the score."""
        total = np.zeros(len(self.weight))
        for part in self.features:
            total += part.scores(beta)
        return total


class Node(Protocol):
    """A node whose rows come in chunks."""

    @property
    def children(self) -> Sequence[int]:
        """The numbers of the nodes whose lists they consult."""
        ...

    def chunks(self) -> Iterator[Rows]:
        """Yield the rows; TimeoutError when the time of the fit is up."""
        ...

    def span(self, beta: Array) -> tuple[float, float]:
        """Return the least and the largest share of the score."""
        ...


@dataclass(frozen=True)
class MemoryNode:
    """A node whose rows are in memory, as one chunk or several."""

    children: Sequence[int]
    parts: Sequence[Rows]

    def chunks(self) -> Iterator[Rows]:
        for rows in self.parts:
            check_time()
            yield rows

    def span(self, beta: Array) -> tuple[float, float]:
        scores = [rows.scores(beta) for rows in self.parts]
        return min(float(score.min()) for score in scores), max(float(score.max()) for score in scores)


def memory_nodes(plan: Plan, fold: bool, rows: list[Index] | None) -> list[MemoryNode]:
    """Return the nodes of a plan, children before their parents.

    With ``fold`` children with unique keys are part of their parents' rows, and with ``rows``, the nodes' rows of every
    row of the join, there is one node.
    """
    blocks = (schedule(plan, root_lists=None, fold=fold) if rows is None else listed(rows)).blocks
    side = ((plan.y if rows is None else plan.y[rows[0]]) > 0).astype(np.int64)
    weights = plan.weights()
    *others, root = blocks
    made = [MemoryNode([op for op, _ in block.lists], [_rows(plan, block, weights, side[:0])]) for block in others]
    order = root.order()
    step = PRODUCT_ROWS if len(root.lists) > 2 else root.n_rows
    parts = [order[first : first + step] for first in range(0, root.n_rows, step)]
    return [*made, MemoryNode([op for op, _ in root.lists],
                              [_rows(plan, root.part(part), weights, side[part]) for part in parts])]


def _rows(plan: Plan, block: Block, weights: list[Array], side: Index) -> Rows:
    weight = np.ones(block.n_rows)
    features = []
    for node, at in block.parts:
        weight *= weights[node] if at is None else weights[node][at]
        for table, place in plan.nodes[node].members:
            features.append(Features(plan.slices[table], plan.tables[table].X, place if at is None else place[at]))
    return Rows(features, weight, block.start, np.arange(len(block.start) - 1), [key for _, key in block.lists], side)
