"""Rows of a node of the join tree, as the grid oracle counts them and samples draw them, and rows of a join by number.

Source: Zhao, Christensen, Li, Hu & Yi, Random sampling over joins revisited, SIGMOD 2018 (exact weights).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy import sparse

from buttress._checks import Array
from buttress.relational.counting.schedule import Block, blocks_of, schedule
from buttress.relational.plan.plan import Index, Plan, group_sums


def unrank(plan: Plan, ranks: NDArray[Any]) -> list[Index]:
    """Return the row of every node for join rows given by number, by division with remainder down the tree."""
    rows: list[Any] = [None] * len(plan.nodes)
    rest: list[Any] = [None] * len(plan.nodes)
    kind: Any = plan.counts[0].dtype
    ends = np.cumsum(plan.counts[0])
    rows[0], rest[0] = _locate(ends, ranks.astype(kind))
    for i, node in enumerate(plan.nodes):
        left = rest[i]
        for child, key in node.down.items():
            below = plan.nodes[child]
            total = group_sums(plan.counts[child], below)
            base = np.cumsum(total) - total
            groups = key[rows[i]]
            inside = left % total[groups]
            left = left // total[groups]
            rows[child], rest[child] = _locate(np.cumsum(plan.counts[child]), base[groups] + inside)
    return rows


def _locate(ends: NDArray[Any], position: NDArray[Any]) -> tuple[Index, NDArray[Any]]:
    row = np.searchsorted(ends, position, side="right")
    start = np.where(row > 0, ends[row - 1], 0)
    return row, position - start


def table_rows(plan: Plan, rows: list[Index]) -> list[Index]:
    """Return each table's row from the nodes' rows."""
    found = {table: place[row] for node, row in zip(plan.nodes, rows) for table, place in node.members}
    return [found[table] for table in range(len(plan.tables))]


def scaled_design(plan: Plan, rows: list[Index]) -> Array:
    """Return the scaled features (n, plan.width) of join rows given by the nodes' rows."""
    blocks = [table.X[place] for table, place in zip(plan.tables, table_rows(plan, rows))]
    if any(sparse.issparse(block) for block in blocks):
        return sparse.hstack(blocks, format="csr").toarray()
    return np.hstack(blocks)


@dataclass(frozen=True)
class RowFeatures:
    """Features that rows get from one table: those of its row ``place``, or of the same row."""

    columns: Index  # numbers of the coefficients
    X: Any
    place: Index | None = None

    def of(self, rows: Index) -> Array:
        """Return the features of some rows as an array."""
        found = self.X[rows if self.place is None else self.place[rows]]
        return found.toarray() if sparse.issparse(found) else found

    def scores(self, beta: Array) -> Array:
        own = np.asarray(self.X @ beta[self.columns])
        return own if self.place is None else own[self.place]

    def add(self, count: Array, gradient: Array) -> None:
        """Add the sum of the features, each row times its count, to the gradient."""
        own = count if self.place is None else np.bincount(self.place, count, minlength=self.X.shape[0])
        gradient[self.columns] += self.X.T @ own


@dataclass
class NodeRows:
    """Rows in the order of their keys ``numbers``, which begin at ``start`` (and end at its last).

    ``down`` says which list of each child a row consults. In the root there is one key, ``side`` is 1 where the label
    is the second class, and rows follow each other by the lists they consult.
    """

    features: Sequence[RowFeatures]
    weight: Array
    start: Index
    numbers: Index
    down: Sequence[Index]
    side: Index
    last: tuple[bytes, Array] | None = None  # coefficients and scores: a pass asks for them three times

    def scores(self, beta: Array) -> Array:
        """Return the rows' shares of the score."""
        asked = beta.tobytes()
        if self.last is None or self.last[0] != asked:
            total = np.zeros(len(self.weight))
            for part in self.features:
                total += part.scores(beta)
            self.last = asked, total
        return self.last[1]

    def add(self, count: Array, gradient: Array) -> None:
        """Add the sum of the rows' features, each row times its count, to the gradient."""
        for part in self.features:
            part.add(count, gradient)


class ChunkedNode(Protocol):
    """A node whose rows come in chunks."""

    @property
    def children(self) -> Sequence[int]:
        """The numbers of the nodes whose lists they consult."""

    def chunks(self) -> Iterator[NodeRows]:
        """Yield the rows; of a file TimeoutError when the time of the fit is up."""

    def span(self, beta: Array) -> tuple[float, float]:
        """Return the least and the largest share of the score."""


@dataclass(frozen=True)
class MemoryNode:
    """A node whose rows are in memory, as one chunk."""

    children: Sequence[int]
    rows: NodeRows

    def chunks(self) -> Iterator[NodeRows]:
        yield self.rows

    def span(self, beta: Array) -> tuple[float, float]:
        score = self.rows.scores(beta)
        return float(score.min()), float(score.max())


def memory_nodes(plan: Plan, fold: bool, listed: int) -> list[MemoryNode]:
    """Return the nodes of a plan, children before their parents.

    With ``fold`` children with unique keys are part of their parents' rows. A join of at most ``listed`` rows is one
    node, which has them all.
    """
    if plan.n_rows <= listed:
        rows = unrank(plan, np.arange(plan.n_rows))
        blocks = [Block(list(enumerate(rows)), np.array([0, plan.n_rows]))]
        side = (plan.y[rows[0]] > 0).astype(np.int64)
    else:
        below, root = schedule(plan, products=False, fold=fold)
        blocks = [*blocks_of(below), root]
        side = (plan.y > 0).astype(np.int64)
    weights = plan.weights()
    order = blocks[-1].order()
    blocks[-1] = blocks[-1].part(order)
    return [MemoryNode([op for op, _ in block.lists], block_rows(plan, block, weights, side[order]))
            for block in blocks]


def block_rows(plan: Plan, block: Block, weights: list[Array], side: Index) -> NodeRows:
    """Return the rows of a block, with the product of the ``weights`` of their nodes."""
    weight = np.ones(block.n_rows)
    columns = np.arange(plan.width)
    features = []
    for node, at in block.parts:
        weight *= weights[node] if at is None else weights[node][at]
        for table, place in plan.nodes[node].members:
            features.append(RowFeatures(columns[plan.slices[table]], plan.tables[table].X,
                                        place if at is None else place[at]))
    return NodeRows(features, weight, block.start, np.arange(len(block.start) - 1), [key for _, key in block.lists],
                    side)


def fill(X: Array, rows: NodeRows, here: Index, row: Index) -> None:
    """Write the features of some rows where they belong."""
    for part in rows.features:
        X[np.ix_(here, part.columns)] = part.of(row)


def drawn(nodes: Sequence[ChunkedNode], width: int, n: int, rng: RandomState) -> tuple[Array, Array]:
    """Return n rows drawn with repetition by weight: scaled features (n, width) and labels -1/+1."""
    totals, n_chunks = _key_weights(nodes)
    X = np.zeros((n, width))
    y = np.zeros(n)
    keys: list[Index] = [np.zeros(n, dtype=np.int64) for _ in nodes]
    for i in reversed(range(len(nodes))):
        base = np.cumsum(totals[i]) - totals[i]
        point = base[keys[i]] + rng.uniform(size=n) * totals[i][keys[i]]  # within the weights of the row's key
        before = 0.0
        for number, rows in enumerate(nodes[i].chunks(), start=1):
            ends = before + np.cumsum(_mass(rows, nodes[i], totals))
            here = np.flatnonzero((point >= before) & ((point < ends[-1]) | (number == n_chunks[i])))
            row = _row_at(ends - before, point[here] - before)
            fill(X, rows, here, row)
            for child, key in zip(nodes[i].children, rows.down):
                keys[child][here] = key[row]
            if i == len(nodes) - 1:
                y[here] = 2.0 * rows.side[row] - 1.0
            before = float(ends[-1])
    return X, y


def _key_weights(nodes: Sequence[ChunkedNode]) -> tuple[list[Array], list[int]]:
    """Return for each node the weight of the rows of its subtree, a key (in the root that of all), and its chunks."""
    totals: list[Array] = []
    n_chunks = []
    for node in nodes:
        chunks = [(rows.numbers, np.add.reduceat(_mass(rows, node, totals), rows.start[:-1])) for rows in node.chunks()]
        numbers, sums = map(np.concatenate, zip(*chunks))
        totals.append(np.bincount(numbers, sums).astype(np.float64))
        n_chunks.append(len(chunks))
    return totals, n_chunks


def _mass(rows: NodeRows, node: ChunkedNode, totals: list[Array]) -> Array:
    """Return the weight of the rows of the join that extend each row of a chunk, down the tree."""
    mass = rows.weight.copy()
    for key, child in zip(rows.down, node.children):
        mass *= totals[child][key]
    return mass


def _row_at(ends: Array, point: Array) -> Index:
    """Return the row at each point of the running totals, never one of weight 0."""
    positive = np.flatnonzero(np.diff(ends, prepend=0.0) > 0)
    return positive[np.minimum(np.searchsorted(ends[positive], point, side="right"), len(positive) - 1)]
