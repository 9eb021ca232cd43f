"""What a join becomes once read: tables with scaled features, and a tree of nodes with keys as numbers.

Nothing here knows where the data came from. Row r of the join is one row of each node, keys equal along the tree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array

Index = NDArray[Any]  # whole numbers: int64, int32 for bins


def indicator_name(feature: str) -> str:
    """Return the name of the column that is 1 where a feature is NULL."""
    return f"{feature} is NULL"


@dataclass(frozen=True)
class Encoding:
    """How features become columns: see RelationalLinearSVC.

    ``fills`` are those of a fitted model, by "table.column", where there is one: new rows are filled as in training.
    """

    missing: str = "raise"
    scaling: str = "max"
    fills: Mapping[str, float] | None = None


@dataclass(frozen=True)
class EncodedFeature:
    """One feature: numbers by a scale, or text by its categories, and whether an indicator of NULL follows.

    ``fill`` stands for NULL in numbers, where there is to be something.
    """

    name: str
    scale: float
    fill: float | None
    categories: list[str] | None
    indicator: bool

    @property
    def scales(self) -> list[float]:
        """The scale of each of its columns."""
        own = [self.scale] if self.categories is None else [1.0] * len(self.categories)
        return [*own, 1.0] if self.indicator else own

    def columns_of(self, table: str) -> list[str]:
        """Return the names of its columns in a table."""
        full = f"{table}.{self.name}"
        own = [full] if self.categories is None else [f"{full}={value}" for value in self.categories]
        return [*own, indicator_name(full)] if self.indicator else own


@dataclass
class TableData:
    """One table: features of its rows scaled to [-1, 1].

    ``X`` is an array or CSR matrix of shape (rows, width); a feature of the original is X times ``scale``.
    """

    name: str
    X: Any
    weight: Array
    features: list[EncodedFeature]
    rows: Index

    @property
    def scale(self) -> Array:
        """What undoes the scaling, for each column of X but that of ones."""
        return np.array([scale for feature in self.features for scale in feature.scales], dtype=np.float64)

    @property
    def names(self) -> list[str]:
        """Name of each column of X."""
        return [name for feature in self.features for name in feature.columns_of(self.name)]

    @property
    def fills(self) -> dict[str, float]:
        """What stands for NULL in each column of numbers."""
        return {feature.name: feature.fill for feature in self.features if feature.fill is not None}


@dataclass
class Node:
    """A node of the join tree: a table, or the keys of a cycle that were joined beforehand, with tables or without.

    ``members`` are (table number, its row for each row of the node); ``key`` numbers the groups that a row of the
    parent matches (sorted; empty in the root); ``down`` gives each row's group in each child, by node number; ``bound``
    names the keys joined beforehand.
    """

    members: list[tuple[int, Index]]
    parent: int
    key: Index
    n_keys: int
    down: dict[int, Index] = field(default_factory=dict)
    bound: list[str] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        return len(self.members[0][1]) if self.members else len(self.key)

    def weight(self, tables: list[TableData]) -> Array:
        """Product of the tables' weights, shape (n_rows,)."""
        out = np.ones(self.n_rows)
        for table, rows in self.members:
            out = out * tables[table].weight[rows]
        return out


@dataclass
class Plan:
    """A join read into memory. Nodes are in an order where parents come first; node 0 holds the label."""

    tables: list[TableData]
    nodes: list[Node]
    y: Array
    classes: NDArray[Any] | None
    label_table: int
    notes: list[str]
    n_rows: int
    base_rows: list[int]
    counts: list[Any]
    agm_log: float
    cover: Array
    row_weight: Array | None = None
    optional: list[str] = field(default_factory=list)  # tables that a left join need find no row of

    @property
    def slices(self) -> list[slice]:
        """Where each table's coefficients stand in the vector of all of them."""
        ends = np.cumsum([0, *(table.X.shape[1] for table in self.tables)])
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    @property
    def width(self) -> int:
        return sum(table.X.shape[1] for table in self.tables)

    def root_weight(self) -> Array:
        """Weights of the root's rows, with the weighting of label rows folded in."""
        weight = self.nodes[0].weight(self.tables)
        return weight if self.row_weight is None else weight * self.row_weight

    def weights(self) -> list[Array]:
        """Weights of every node's rows."""
        return [self.root_weight(), *(node.weight(self.tables) for node in self.nodes[1:])]


def count_rows(nodes: list[Node], weights: list[Any]) -> list[Any]:
    """Return per node, per row: the weight of all join rows of its subtree that extend the row.

    One pass from the leaves up; integer weights give exact integers (Python ones beyond 2^62).
    """
    counts: list[Any] = [None] * len(nodes)
    for i in reversed(range(len(nodes))):
        total = weights[i]
        for child, key in nodes[i].down.items():
            total = total * group_sums(counts[child], nodes[child])[key]
        counts[i] = total
    return counts


def group_sums(values: Any, node: Node) -> Any:
    """Sum values of a node's rows (sorted by key) over each key, keeping their type."""
    if node.n_rows == 0:
        return np.zeros(node.n_keys, dtype=values.dtype)
    starts = np.searchsorted(node.key, np.arange(node.n_keys))
    return np.add.reduceat(values, starts)


def exact_counts(nodes: list[Node]) -> list[Any]:
    """Return ``count_rows`` with every weight one, in int64 when the total fits, else in Python integers."""
    estimate = count_rows(nodes, [np.ones(node.n_rows) for node in nodes])
    kind: Any = np.int64 if estimate[0].sum() < 2.0**62 else object
    if nodes[0].n_rows == 0:
        return [np.zeros(node.n_rows, dtype=np.int64) for node in nodes]
    return count_rows(nodes, [np.ones(node.n_rows, dtype=np.int64).astype(kind) for node in nodes])


def total_weight(plan: Plan) -> float:
    """Return W, the sum of the weights of all rows of the join."""
    return float(count_rows(plan.nodes, plan.weights())[0].sum())
