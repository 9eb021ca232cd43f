"""What a join becomes once read: tables with scaled features, and a tree of nodes with keys as numbers.

Nothing here knows where the data came from. Row r of the join is one row of each node, keys equal along the tree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import LARGEST, Array
from buttress._types import ClassWeight
from buttress.relational.checks import check_range

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
    """A node of the join tree: a table, or keys (with a left join tables) of a cycle that were joined beforehand.

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

    def weights(self) -> list[Array]:
        """Weights of every node's rows, in the root with the weighting of label rows folded in."""
        root, *others = [node.weight(self.tables) for node in self.nodes]
        return [root if self.row_weight is None else root * self.row_weight, *others]


@np.errstate(over="ignore", invalid="ignore")  # of weights; whole numbers are Python's there
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
    starts = np.searchsorted(node.key, np.arange(node.n_keys))
    return np.add.reduceat(values, starts)


def exact_counts(nodes: list[Node]) -> list[Any]:
    """Return ``count_rows`` with every weight one, in int64 when the total fits, else in Python integers."""
    estimate = count_rows(nodes, [np.ones(node.n_rows) for node in nodes])
    kind: Any = np.int64 if estimate[0].sum() < 2.0**62 else object
    return count_rows(nodes, [np.ones(node.n_rows, dtype=np.int64).astype(kind) for node in nodes])


def total_weight(plan: Plan) -> float:
    """Return W, the sum of the weights of all rows of the join."""
    return float(count_rows(plan.nodes, plan.weights())[0].sum())


def label_row_weights(plan: Plan) -> Array:
    """Return one over the number of join rows of the label's row that each row of the root belongs to."""
    place = next(rows for t, rows in plan.nodes[0].members if t == plan.label_table)
    per_label_row = np.bincount(place, plan.counts[0].astype(np.float64))
    return np.asarray(1 / per_label_row[place])


def class_factors(
    class_weight: ClassWeight, classes: NDArray[Any], totals: tuple[float, float]
) -> tuple[float, float]:
    """Return the factors of the two classes; "balanced" makes their totals equal, W / (2 total of the class).

    Raises ValueError for a dict with a class that is not there, or a weight that is neither 0 nor within 1e-100 to
    1e100.
    """
    if class_weight is None:
        return 1.0, 1.0
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f'class_weight must be None, "balanced" or a dict. Got {class_weight!r}.')
        if not min(totals) > 0:
            raise ValueError('class_weight="balanced" needs rows of positive weight in both classes. Check weights.')
        return sum(totals) / (2 * totals[0]), sum(totals) / (2 * totals[1])
    known = classes.tolist()
    unknown = [name for name in class_weight if name not in known]
    if unknown:
        raise ValueError(f"class_weight names {unknown[0]!r}, which is not a class. The classes are {known}.")
    factors = tuple(float(class_weight.get(name, 1.0)) for name in known)
    held = all(factor == 0 or 1 / LARGEST <= factor <= LARGEST for factor in factors)
    if not held or not sum(f * t for f, t in zip(factors, totals)) > 0:
        raise ValueError(f"class_weight must hold 0 or numbers from {1 / LARGEST:g} to {LARGEST:g}, not all of them 0. "
                         f"Got {class_weight}.")
    return factors[0], factors[1]


def weigh(plan: Plan, row_weight: str, class_weight: ClassWeight) -> None:
    """Set the plan's ``row_weight`` for "join" or "label_row", and for the weights of the classes."""
    check_range(plan.n_rows, [(table.weight[table.weight > 0].min(initial=np.inf), table.weight.max(initial=0.0))
                              for table in plan.tables])
    plan.row_weight = label_row_weights(plan) if row_weight == "label_row" else None
    if class_weight is not None:
        assert plan.classes is not None, "a plan without a label has no classes to weigh"
        weight = count_rows(plan.nodes, plan.weights())[0]
        totals = float(weight[plan.y < 0].sum()), float(weight[plan.y > 0].sum())
        factors = class_factors(class_weight, plan.classes, totals)
        own = np.ones(len(plan.y)) if plan.row_weight is None else plan.row_weight
        plan.row_weight = own * np.where(plan.y > 0, factors[1], factors[0])
