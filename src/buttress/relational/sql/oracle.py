"""The margin oracle inside a database: the plan as SQL text, sent to where the tables are.

Only SELECT is sent. Files and frames are counted by a DuckDB of our own, which spills to disk when memory is short.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.relational.checks import (
    check_categories,
    check_classes,
    check_feature,
    check_label,
    check_rows,
    check_sides,
    check_total,
    check_weights,
    check_weights_kind,
)
from buttress.relational.counting.grid import step_of
from buttress.relational.counting.listed import ListedOracle
from buttress.relational.counting.margins import FIRST_BINS, HINGE_WIDTHS, Evaluation, MarginLoss, evaluation
from buttress.relational.declare import Join
from buttress.relational.plan.features import ROBUST_QUANTILE
from buttress.relational.plan.keys import check_exact, check_kinds
from buttress.relational.plan.plan import Encoding, Plan, TableData
from buttress.relational.plan.shape import attributes
from buttress.relational.plan.weighting import ClassWeight, class_factors
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
from buttress.relational.sql.listing import FINER, PLAIN_ROWS, every_row, label_means, rows_by_bin
from buttress.relational.sql.meeting import Window, completed, meeting_pass, numbers, window_around
from buttress.relational.sql.plan import column_sample, sql_home, sql_tree
from buttress.relational.sql.sample import sample_rows

OFFERS = 2  # times as many rows as are asked for that the root offers to the sample, so that few are accepted twice
MOST_REPEATS = 1000  # times that each row of the root is offered to a sample, at most
BOUND_ROUNDING = 1e-9  # share by which a bound grows, so that rounding in the database cannot bring it below the truth


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
        self.join = join
        self.encoding = encoding or Encoding()
        self._base_rows = 0
        self.intercept = intercept
        self.connection, self.dialect, items = sql_home(join, pairs, memory)
        self._marks = self._files()
        if self.dialect is SPARK:
            items = pinned_tables(self, self.connection, items)
        self.tree, self.columns, self.node_of = sql_tree(join, pairs, self.connection, self.dialect, items,
                                                         per_label_row)
        samples = [self._sample(i, item) for i, item in enumerate(items)]
        for attribute in attributes(pairs):
            check_kinds(join, attribute, samples)
            check_exact(join, attribute, samples, lambda i, name: self._magnitude(items[i], name))
        self._drop_nan_keys(samples)
        data = [self._features(i, samples[i], intercept and i == join.root) for i in range(len(join.tables))]
        for i, table in enumerate(join.tables):
            if table.weights is not None:
                self._add_weights(i, table.weights, samples[i][table.weights])
        classes = self._label(samples[join.root])
        if keep and not join.connections:
            self._prepare()
        self.check_files()
        n_rows, class_totals = self._count()
        self.total = self._weigh_classes(class_weight, classes, class_totals)
        self.plan = Plan(data, [], np.zeros(0), classes, join.root, [], n_rows, [], [], 0.0, np.zeros(0),
                         optional=join.optional(pairs))
        self._owners = self.tree.owners(self.tree.root)
        self._ranges: tuple[Array, list[tuple[float, float]]] | None = None
        self._totals: Array | None = None
        self._kept: tuple[Array, tuple[float, Window | None, bool], Array] | None = None

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
        zeros = [np.zeros(len(node.features)) for node in self.tree.nodes]
        counted = self._select(text.counting_pass(self.tree, zeros, 0.0, 1.0, sums=False))
        weight = {int(row[0]): float(row[1]) for row in counted}
        n_rows = int(sum(float(row[2]) for row in counted))
        check_rows(n_rows)
        check_sides(len(weight))
        check_total(sum(weight.values()))
        return n_rows, (weight.get(0, 0.0), weight.get(1, 0.0))

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
        floats = {quoted for (i, name), quoted in self.columns.items() if _holds_floats(samples[i][name])}
        nan = self.dialect.number(np.nan)
        for node in self.tree.nodes:
            node.keys = {a: [f"NULLIF({name}, {nan})" if name in floats else name for name in names]
                         for a, names in node.keys.items()}

    def _shares(self, beta: Array) -> tuple[list[Array], float]:
        """Return the coefficients of each node's features, and the intercept."""
        slices = self.plan.slices
        parts = [np.array([beta[slices[t].start + j] for t, j in node.owner]) for node in self.tree.nodes]
        return parts, float(beta[slices[self.join.root].stop - 1]) if self.intercept else 0.0

    def __call__(self, beta: Array, loss: MarginLoss, bins: int = FIRST_BINS) -> Evaluation:
        """Return the plane and bounds at ``beta``, shape (plan.width,), by two SELECTs or what is kept of them."""
        few = self.plan.n_rows <= PLAIN_ROWS * self._base_rows
        return self.at_step(beta, loss, self._step(beta, bins * (FINER if few else 1)), one_by_one=few)

    def _step(self, beta: Array, bins: int) -> float:
        """Return the step of a grid of ``bins`` over the range of scores, which is kept for the next call."""
        if self._ranges is None or not np.array_equal(self._ranges[0], beta):
            parts, offset = self._shares(beta)
            rows = self._select(text.ranges(self.tree, parts)) if self._owners else []
            spans = [(float(row[1] or 0), float(row[2] or 0)) for row in rows]
            self._ranges = beta.copy(), [*spans, (offset, offset)]
        return step_of(self._ranges[1], bins)

    def at_step(self, beta: Array, loss: MarginLoss, step: float, *, one_by_one: bool = False) -> Evaluation:
        """Evaluate with a given step of the grid, by tables or over the rows of the join ``one_by_one``."""
        rounded = 1 if one_by_one else text.rounded_shares(self.tree)
        error = rounded * step / 2 * (1 + BOUND_ROUNDING)
        reach = max(loss.bend, error, *HINGE_WIDTHS)
        window = window_around(reach, step) if reach < np.inf else None
        found = self._counted_rows(beta, step, window, one_by_one)
        label = np.where(found[:, 0] == 1, 1.0, -1.0)
        z = label * step * found[:, 1]
        mass = found[:, 2] / self.total
        push = label * loss.slope(z) / self.total
        b = np.zeros(self.plan.width)
        for column, (table, j) in enumerate(self._owners):
            b[self.plan.slices[table].start + j] = push @ found[:, 3 + column]
        if self.intercept:
            b[self.plan.slices[self.join.root].stop - 1] = push @ found[:, 2]
        return evaluation(loss, beta, b, z, mass, error)

    def _counted_rows(self, beta: Array, step: float, window: Window | None, one_by_one: bool) -> Array:
        """Return (side, bin, weight, sums) of the join's rows; with a window its bins alone are told apart.

        These are kept: a fit asks for several slopes at one point, and they serve all of them.
        """
        asked = step, window, one_by_one
        if self._kept is None or self._kept[1] != asked or not np.array_equal(self._kept[0], beta):
            found = self._sent(*self._shares(beta), step, window, one_by_one)
            if window is None:
                return found
            self._kept = beta.copy(), asked, found
        return self._kept[2]

    def _sent(self, parts: list[Array], offset: float, step: float, window: Window | None, one_by_one: bool) -> Array:
        """Return (side, bin, weight, sums) of the join's rows by one SELECT."""
        if window is None or not (one_by_one or self.dialect.shares_parts):
            statement = (rows_by_bin(self.tree, parts, offset, step, None) if one_by_one else
                         text.counting_pass(self.tree, parts, offset, step))
            return numbers(self._select(statement))
        totals = self._whole()
        near = rows_by_bin if one_by_one or not self.tree.nodes[self.tree.root].children else meeting_pass
        counted = numbers(self._select(near(self.tree, parts, offset, step, window)))
        return completed(counted.reshape(-1, 2 + totals.shape[1]), totals, window)

    def _whole(self) -> Array:
        """Return weight and sums over all rows of the join of each class, shape (2, ...)."""
        if self._totals is None:
            zeros = [np.zeros(len(node.features)) for node in self.tree.nodes]
            rows = numbers(self._select(text.counting_pass(self.tree, zeros, 0.0, 1.0)))
            self._totals = np.array([rows[rows[:, 0] == side, 2:].sum(axis=0) for side in range(2)])
        return self._totals

    def sample(self, n: int) -> tuple[Array, Array, Array]:
        """Return about n rows drawn by weight: scaled features (k, plan.width), labels -1/+1, and how often each.

        The database draws, so the rows differ from call to call.
        """
        offered = float(self.label_rows())
        repeats = int(min(max(np.ceil(OFFERS * n / max(offered, 1.0)), 1), MOST_REPEATS))
        return self._design(self._select(sample_rows(self.tree, n, self.total, repeats)),
                            self._in_nodes())

    def listed(self) -> ListedOracle:
        """Return the exact oracle of all rows of the join, which are read into this process: they must be few."""
        return ListedOracle(*self._design(self._select(every_row(self.tree)), self._in_nodes()))

    def label_means(self) -> ListedOracle:
        """Return the exact oracle of the mean features of the join rows of each label row, read into this process."""
        if self.node_of.count(self.node_of[self.join.root]) > 1:
            raise ValueError("objective='mean' inside a database needs the label's table outside the join's cycle. Use "
                             "engine='memory'.")
        return ListedOracle(*self._design(self._select(label_means(self.tree)), self._owners))

    def label_rows(self) -> int:
        """Return the number of rows of the label's table."""
        return int(self._select(f"SELECT COUNT(*) FROM {self.tree.nodes[self.tree.root].item} q")[0][0])

    def _in_nodes(self) -> list[tuple[int, int]]:
        return [pair for node in self.tree.nodes for pair in node.owner]

    def _design(
        self, rows: list[tuple[Any, ...]], owners: Sequence[tuple[int, int]]
    ) -> tuple[Array, Array, Array]:
        """Return features (k, plan.width), labels -1/+1 and weights of rows (side, weight, features of ``owners``)."""
        X = np.zeros((len(rows), self.plan.width))
        if not rows:  # few were asked for, and chance gave none
            return X, np.zeros(0), np.zeros(0)
        found = numbers(rows)
        for column, (table, j) in enumerate(owners):
            X[:, self.plan.slices[table].start + j] = found[:, 2 + column]
        if self.intercept:
            X[:, self.plan.slices[self.join.root].stop - 1] = 1.0
        return X, np.where(found[:, 0] == 1, 1.0, -1.0), found[:, 1]

    def _magnitude(self, item: Item, name: str) -> float:
        """Return the largest magnitude of a column of numbers."""
        number = f"NULLIF(CAST({item.columns[name]} AS {self.dialect.double}), {self.dialect.number(np.nan)})"
        return float(self._select(f"SELECT MAX(ABS({number})) FROM {item.text} q")[0][0] or 0)

    def _select(self, statement: str) -> list[tuple[Any, ...]]:
        return select(self.connection, statement, self.dialect)

    def _sample(self, i: int, item: Item) -> dict[str, Column]:
        return column_sample(self.connection, self.dialect, item, [name for t, name in self.columns if t == i])

    def _features(self, i: int, sample: dict[str, Column], intercept: bool) -> TableData:
        """Add a table's feature expressions to its node and return their names and scales."""
        table = self.join.tables[i]
        node = self.tree.nodes[self.node_of[i]]
        read = {name: self._number(self.columns[i, name], sample[name]) if sample[name].kind == "number" else
                f"CASE WHEN {self.columns[i, name]} IS NULL THEN NULL ELSE 1 END" for name in table.features}
        far_off = self.dialect.quantile.format(ROBUST_QUANTILE, "NULLIF(ABS({0}), 0)")
        more = ["AVG({0})", far_off if self.encoding.scaling == "robust" else "MAX({0})"]
        found = self._select(text.statistics(self.tree, self.node_of[i], list(read.values()), more))[0]
        self._base_rows += int(found[0])
        data = TableData(table.name, np.zeros((0, 0)), np.zeros(0), np.zeros(0), [], np.zeros(0, dtype=np.int64))
        scales: list[float] = []
        for j, name in enumerate(table.features):
            largest, n_null, mean, far = (float(value or 0) for value in found[1 + 4 * j : 5 + 4 * j])
            numeric = sample[name].kind == "number"
            check_feature(table.name, name, sample[name].kind, int(n_null) if self.encoding.missing == "raise" else 0,
                          largest if numeric else 0.0)
            if numeric:
                scale = (far if self.encoding.scaling == "robust" else largest) or 1.0
                fill = mean if self.encoding.missing == "mean" else 0.0
                if self.encoding.missing != "raise":
                    data.fills[name] = fill
                node.features.append(f"(COALESCE({read[name]}, {self.dialect.number(fill)}) / "
                                     f"{self.dialect.number(scale)})")
                scales.append(scale)
            categories = None if numeric else self._categories(i, name, int(found[0] or 0))
            node.features += self._one_hot(i, name, categories or [])
            scales += [1.0] * len(categories or [])
            data.features.append((name, categories))
            if n_null:
                node.features.append(f"(CASE WHEN {read[name]} IS NULL THEN {self.dialect.number(1.0)} "
                                     f"ELSE {self.dialect.number(0.0)} END)")
                scales.append(1.0)
                data.indicators |= {name}
        node.owner += [(i, j) for j in range(len(scales))]
        data.X = np.zeros((0, len(scales) + intercept))
        data.scale = np.array(scales)
        return data

    def _categories(self, i: int, name: str, n: int) -> list[str]:
        """Return the values of a text over n rows, sorted; counted first, for identifiers are as many as rows."""
        place = self.tree, self.node_of[i], self.columns[i, name]
        n_values = int(self._select(text.distinct(*place, "COUNT(DISTINCT x)"))[0][0])
        check_categories(self.join.tables[i].name, name, n_values, n, lambda: str(
            self._select(f"{text.distinct(*place)} ORDER BY x DESC LIMIT 1")[0][0]))
        return sorted(str(row[0]) for row in self._select(text.distinct(*place)) if row[0] is not None)

    def _one_hot(self, i: int, name: str, categories: Sequence[str]) -> list[str]:
        number = self.dialect.number
        return [f"(CASE WHEN {self.columns[i, name]} = {self.dialect.text(value)} THEN {number(1.0)} "
                f"ELSE {number(0.0)} END)" for value in categories]

    def _number(self, quoted: str, column: Column) -> str:
        return text.as_number(quoted, column, self.dialect, nan_is_null=self.encoding.missing != "raise")

    def _add_weights(self, i: int, name: str, column: Column) -> None:
        """Check a table's weights and multiply them into its node's."""
        table = self.join.tables[i].name
        check_weights_kind(table, name, column.kind)
        quoted = f"CAST({self.columns[i, name]} AS {self.dialect.double})"
        found = self._select(text.statistics(
            self.tree, self.node_of[i], [quoted, f"CASE WHEN {quoted} < 0 THEN NULL ELSE 1 END"]))[0]
        largest = float(found[1] or 0)
        n_null = int(found[2] or 0)
        n_negative = int(found[4] or 0)
        check_weights(table, name, n_null, n_negative, largest)
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


def _holds_floats(column: Column) -> bool:
    return column.values.dtype.kind == "f" and bool((~column.null | np.isnan(column.values)).any())
