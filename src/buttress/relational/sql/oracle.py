"""The margin oracle inside a database: the plan as SQL text, sent to where the tables are.

Only SELECT is sent. Files and frames are counted by a DuckDB of our own, which spills to disk when memory is short.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._types import ClassWeight
from buttress.relational.checks import (
    check_categories,
    check_classes,
    check_label,
    check_range,
    check_rows,
    check_sides,
    check_total,
    check_weights,
    check_weights_kind,
)
from buttress.relational.counting.grid import GridOracle, listed_oracle, step_of
from buttress.relational.counting.margins import FIRST_BINS, Evaluation, MarginLoss, evaluation
from buttress.relational.declare import Join
from buttress.relational.plan.features import ROBUST_QUANTILE, Statistics, encoded
from buttress.relational.plan.keys import check_exact, check_kinds
from buttress.relational.plan.plan import Encoding, Plan, TableData, class_factors
from buttress.relational.plan.shape import attributes
from buttress.relational.sources.columns import Column, make_column, objects
from buttress.relational.sources.databases import (
    Item,
    SourceChangedError,
    pinned_tables,
    reading,
    select,
)
from buttress.relational.sources.deadline import heard
from buttress.relational.sources.dialects import SPARK
from buttress.relational.sources.files import is_files, marks_of
from buttress.relational.sql import text
from buttress.relational.sql.listing import every_row, label_means, sample_rows
from buttress.relational.sql.plan import column_sample, seen_items, sql_home, sql_tree


class SqlOracle:
    """Evaluate the mean loss over the rows of a join by one SELECT.

    Parameters
    ----------
    join : Join
        Its tables in one database (or in files and frames).
    intercept : bool
    per_label_row : bool
        Divide the weight of each row of the label's table by its number of join rows.
    class_weight : dict, "balanced" or None
    memory : float
        Megabytes that a DuckDB of our own may take before it spills to disk.
    encoding : Encoding or None
        How features become columns.
    keep : bool
        Keep the rows of files and frames that take part in the join, so that no pass reads a file again.

    Attributes
    ----------
    plan : Plan
        Names, scales and classes; no rows.
    total : float
        Sum of the weights of the join's rows.
    """

    def __init__(self, join: Join, *, intercept: bool = True, per_label_row: bool = False,
                 class_weight: ClassWeight = None, memory: float = 4000,
                 encoding: Encoding | None = None, keep: bool = True):
        pairs = join.check()
        self.can_refine = True
        self.proven = False  # the database adds up
        self.join = join
        self.encoding = encoding or Encoding()
        self.connection, self.dialect, items = sql_home(join, pairs, memory)
        self._marks = self._files()
        if self.dialect is SPARK:
            items = pinned_tables(self, self.connection, items)
        seen = seen_items(join, pairs, self.connection, self.dialect, items)
        self.tree, self.columns, self.node_of = sql_tree(join, *seen, self.connection, self.dialect, per_label_row)
        samples = [column_sample(self.connection, self.dialect, item, [name for t, name in self.columns
                                                                       if t == i and name in item.columns])
                   for i, item in enumerate(items)]
        for attribute in attributes(pairs):
            check_kinds(join, attribute, samples)
            check_exact(join, attribute, samples, lambda i, name: self._magnitude(items[i], name))
        self._drop_nan_keys(samples)
        data: list[TableData] = []
        for i, sample in enumerate(samples):
            first = sum(table.X.shape[1] for table in data)
            data.append(self._features(i, sample, intercept and i == join.root, first))
        self._weights: list[tuple[float, float]] = []  # the least above 0 and the largest of each table
        for i, table in enumerate(join.tables):
            if table.weights is not None:
                self._add_weights(i, table.weights, samples[i][table.weights])
        classes = self._label(samples[join.root])
        if keep and not join.connections:
            self._prepare()
        self.check_files()
        n_rows, class_totals = self._count()
        self.total = self._weigh_classes(class_weight, classes, class_totals)
        self.plan = Plan(data, [], np.zeros(0), classes, join.root, [], n_rows, [], [],
                         optional=join.optional(pairs))
        self._columns = self.tree.columns(self.tree.root)
        self._kept: tuple[tuple[bytes, int], tuple[Array, Array, float]] | None = None

    def _files(self) -> list[list[tuple[Path, int, int]]]:
        return [marks_of(table.source) for table in self.join.tables if is_files(table.source)]

    def check_files(self) -> None:
        """Raise SourceChangedError if a file of the join was written to since its first row was read."""
        if self._files() != self._marks:
            raise SourceChangedError("A file of the join was written to while it was read, so that nothing holds of "
                                     "any one state of it. Fit again once it is complete, or fit a copy.")

    def _prepare(self) -> None:
        """Keep the rows and columns in use as tables of a DuckDB of our own, so that no pass reads a file again."""
        statements = text.prepared(self.tree)
        for i, (node, statement) in enumerate(zip(self.tree.nodes, statements)):
            with reading(self.connection, self.dialect):
                duckdb = self.connection
                heard(partial(duckdb.execute, f"CREATE TABLE prepared{i} AS {statement}"), duckdb.interrupt)
            self.tree.nodes[i] = replace(
                node, item=f"prepared{i}", keys={a: [f"k{a}"] for a in node.keys}, weights=["w"],
                label=None if node.label is None else "side", features=[f"x{j}" for j in range(len(node.features))])

    def _count(self) -> tuple[int, tuple[float, float]]:
        """Return the number of rows of the join and the total weight of each class."""
        weighed = replace(self.tree, nodes=[replace(node, features=[], columns=[]) for node in self.tree.nodes])
        ones = replace(weighed, nodes=[replace(node, weights=[]) for node in weighed.nodes], per_label_row=False)
        counted = sum(self._class_weights(ones).values())
        check_range(counted, self._weights)
        n_rows = int(counted)
        check_rows(n_rows)
        weight = self._class_weights(weighed)
        check_sides(len(weight))
        check_total(sum(weight.values()))
        return n_rows, (weight.get(0, 0.0), weight.get(1, 0.0))

    def _class_weights(self, tree: text.SqlTree) -> dict[int, float]:
        """Return the weight of the rows of the join by label side, of a tree without features."""
        counted = self._select(text.counting_pass(tree, [np.zeros(0) for _ in tree.nodes], 1.0))
        return {int(side): float(weight) for side, _, weight in counted}

    def _weigh_classes(self, class_weight: ClassWeight, classes: NDArray[Any], totals: tuple[float, float]) -> float:
        """Multiply the root's weights by the factors of the classes; return the weight of all rows with them."""
        factors = class_factors(class_weight, classes, totals)
        if factors != (1.0, 1.0):
            root = self.tree.nodes[self.tree.root]
            number = self.dialect.number
            root.weights.append(f"({root.label} * {number(factors[1] - factors[0])} + {number(factors[0])})")
        return sum(factor * value for factor, value in zip(factors, totals))

    def _drop_nan_keys(self, samples: list[dict[str, Column]]) -> None:
        """Read NaN in a key as NULL, which matches nothing: databases hold NaN equal to NaN."""
        floats = {quoted for (i, name), quoted in self.columns.items()
                  if name in samples[i] and _holds_floats(samples[i][name])}
        nan = self.dialect.number(np.nan)
        for node in self.tree.nodes:
            node.keys = {a: [f"NULLIF({name}, {nan})" if name in floats else name for name in names]
                         for a, names in node.keys.items()}

    def _shares(self, beta: Array) -> list[Array]:
        """Return the coefficients of each node's features."""
        return [beta[node.columns] for node in self.tree.nodes]

    def __call__(self, beta: Array, loss: MarginLoss, bins: int = FIRST_BINS) -> Evaluation:
        """Return the plane and bounds at ``beta``, shape (plan.width,), by two SELECTs.

        What they count is kept: a fit asks for several slopes at one point, and it serves all of them.
        """
        asked = beta.tobytes(), bins
        if self._kept is None or self._kept[0] != asked:
            self._kept = asked, self._counted(beta, self._step(beta, bins))
        return self._evaluation(beta, loss, *self._kept[1])

    def at_step(self, beta: Array, loss: MarginLoss, step: float) -> Evaluation:
        """Evaluate with a given step of the grid."""
        return self._evaluation(beta, loss, *self._counted(beta, step))

    def _step(self, beta: Array, bins: int) -> float:
        """Return the step of a grid of ``bins`` over the range of scores."""
        rows = self._select(text.ranges(self.tree, self._shares(beta))) if self._columns else []
        return step_of([(float(row[1] or 0), float(row[2] or 0)) for row in rows], bins)

    def _counted(self, beta: Array, step: float) -> tuple[Array, Array, float]:
        """Return (side, weight, sums) of the join's rows by bin, the bins' scores, and how far these may be off."""
        rounded = sum(bool(node.features) or node.parent < 0 for node in self.tree.nodes)
        found = _floats(self._select(text.counting_pass(self.tree, self._shares(beta), step)))
        off = rounded * step / 2 * (1 + 1e-9)  # rounding in the database cannot bring it below the truth
        return np.delete(found, 1, axis=1), step * found[:, 1], off

    def _evaluation(self, beta: Array, loss: MarginLoss, found: Array, score: Array, error: float) -> Evaluation:
        label = np.where(found[:, 0] == 1, 1.0, -1.0)
        b = np.zeros(self.plan.width)
        b[self._columns] = (label * loss.slope(label * score) / self.total) @ found[:, 2:]
        return evaluation(loss, beta, b, label * score, found[:, 1] / self.total, error)

    def sample(self, n: int, rng: RandomState) -> tuple[Array, Array, Array]:
        """Return about n rows drawn by weight: scaled features (k, plan.width), labels -1/+1, and how often each.

        The database draws, not ``rng``, so the rows differ from call to call.
        """
        offered = float(self.label_rows())
        repeats = int(min(max(np.ceil(2 * n / max(offered, 1.0)), 1), 1000))  # few are accepted twice then
        return self._design(sample_rows(self.tree, n, self.total, repeats))

    def listed(self) -> GridOracle:
        """Return the exact oracle of all rows of the join, which are read into this process: they must be few."""
        return listed_oracle(*self._design(every_row(self.tree)))

    def label_means(self) -> GridOracle:
        """Return the exact oracle of the mean features of the join rows of each label row, read into this process."""
        if self.node_of.count(self.node_of[self.join.root]) > 1:
            raise ValueError("objective='mean' inside a database needs the label's table outside the join's cycle. Use "
                             "engine='memory'.")
        return listed_oracle(*self._design(label_means(self.tree)))

    def label_rows(self) -> int:
        """Return the number of rows of the label's table."""
        return int(self._select(f"SELECT COUNT(*) FROM {self.tree.nodes[self.tree.root].item} q")[0][0])

    def _design(self, statement: str) -> tuple[Array, Array, Array]:
        """Return features (k, plan.width), labels -1/+1 and weights of what a SELECT gives: side, weight, features."""
        found = _floats(self._select(statement)).reshape(-1, 2 + len(self._columns))  # chance may give no row
        X = np.zeros((len(found), self.plan.width))
        X[:, self._columns] = found[:, 2:]
        return X, np.where(found[:, 0] == 1, 1.0, -1.0), found[:, 1]

    def _magnitude(self, item: Item, name: str) -> float:
        """Return the largest magnitude of a column of numbers."""
        number = f"NULLIF(CAST({item.columns[name]} AS {self.dialect.double}), {self.dialect.number(np.nan)})"
        return float(self._select(f"SELECT MAX(ABS({number})) FROM {item.text} q")[0][0] or 0)

    def _select(self, statement: str) -> list[tuple[Any, ...]]:
        return select(self.connection, statement, self.dialect)

    def _features(self, i: int, sample: dict[str, Column], intercept: bool, first: int) -> TableData:
        """Add a table's feature expressions to its node, coefficients from ``first`` on; return what they are."""
        table = self.join.tables[i]
        node = self.tree.nodes[self.node_of[i]]
        nan_is_null = self.encoding.missing != "raise"
        read = [text.as_number(self.columns[i, name], sample[name], self.dialect, nan_is_null)
                if sample[name].kind == "number" else
                f"CASE WHEN {self.columns[i, name]} IS NULL THEN NULL ELSE 1 END" for name in table.features]
        far_off = self.dialect.quantile.format(ROBUST_QUANTILE, "NULLIF(ABS({0}), 0)")
        more = ["AVG({0})", far_off if self.encoding.scaling == "robust" else "MAX(ABS({0}))"]
        found = self._select(text.statistics(self.tree, self.node_of[i], read, more))[0]
        n_rows = int(found[0] or 0)
        features = []
        for j, name in enumerate(table.features):
            statistics = Statistics(*(float(value or 0) for value in found[1 + 4 * j : 5 + 4 * j]))
            feature = encoded(table.name, name, sample[name].kind, statistics,
                              partial(self._categories, i, name, n_rows), self.encoding)
            features.append(feature)
            node.features += text.feature_expressions(feature, self.columns[i, name], read[j], self.dialect)
        if intercept:
            node.features.append(self.dialect.number(1.0))
        width = sum(len(feature.scales) for feature in features) + intercept
        node.columns += range(first, first + width)
        return TableData(table.name, np.zeros((0, width)), np.zeros(0), features, np.zeros(0, dtype=np.int64))

    def _categories(self, i: int, name: str, n: int) -> list[str]:
        """Return the values of a text over n rows, sorted; counted first, for identifiers are as many as rows."""
        place = self.tree, self.node_of[i], self.columns[i, name]
        n_values = int(self._select(text.distinct(*place, "COUNT(DISTINCT x)"))[0][0])
        check_categories(self.join.tables[i].name, name, n_values, n, lambda: str(
            self._select(f"{text.distinct(*place)} ORDER BY x DESC LIMIT 1")[0][0]))
        return sorted(str(row[0]) for row in self._select(text.distinct(*place)) if row[0] is not None)

    def _add_weights(self, i: int, name: str, column: Column) -> None:
        """Check a table's weights and multiply them into its node's."""
        table = self.join.tables[i].name
        check_weights_kind(table, name, column.kind)
        quoted = f"CAST({self.columns[i, name]} AS {self.dialect.double})"
        found = self._select(text.statistics(
            self.tree, self.node_of[i], [quoted, f"CASE WHEN {quoted} < 0 THEN NULL ELSE 1 END"],
            ["MIN(NULLIF({0}, 0))"]))[0]
        largest = float(found[1] or 0)
        n_null = int(found[2] or 0)
        n_negative = int(found[5] or 0)
        check_weights(table, name, n_null, n_negative, largest)
        self._weights.append((float(found[3] or np.inf), largest))
        self.tree.nodes[self.node_of[i]].weights.append(self.columns[i, name])

    def _label(self, sample: dict[str, Column]) -> NDArray[Any]:
        """Set the root's label expression (1 for the second class) and return the two classes."""
        i = self.join.root
        table = self.join.tables[i].name
        label = self.join.tables[i].label or ""
        place = self.tree, self.node_of[i], self.columns[i, label]
        kinds = self.dialect.type_of.format("x")
        rows = self._select(f"SELECT x, CAST(x AS {self.dialect.text_type}), {kinds} FROM ({text.distinct(*place)}) q")
        values = [row[0] for row in rows]
        check_rows(len(values))
        if any(value is None or value != value for value in values):
            missing = "x IS NULL"
            if _holds_floats(sample[label]):
                missing += f" OR x = {self.dialect.number(np.nan)}"
            check_label(table, label, int(self._select(f"{text.distinct(*place, 'COUNT(*)')} WHERE {missing}")[0][0]))
        if rows[0][2].upper() == "FLOAT":  # 32 bits, which DuckDB and Spark give as Python's 64
            values = [np.float32(value) for value in values]
        classes = make_column(objects(values)).values
        classes = classes.astype(str) if classes.dtype.kind == "O" else classes
        order = np.argsort(classes)
        check_classes(table, label, classes[order])
        literal = self.dialect.typed(*rows[order[1]][1:])
        self.tree.nodes[self.node_of[i]].label = f"CASE WHEN {self.columns[i, label]} = {literal} THEN 1 ELSE 0 END"
        return classes[order]


def _floats(rows: list[tuple[Any, ...]]) -> Array:
    """Return the rows of a SELECT as floats, 0 where it gives NULL."""
    return np.array([[float(value or 0) for value in row] for row in rows])


def _holds_floats(column: Column) -> bool:
    return column.values.dtype.kind == "f" and bool((~column.null | np.isnan(column.values)).any())
