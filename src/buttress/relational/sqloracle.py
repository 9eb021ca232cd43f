"""The margin oracle inside a database: the plan as SQL text, sent to where the tables are.

Only SELECT is sent. Files and frames are counted by a DuckDB of our own, which spills to disk when memory is short.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from buttress._checks import LARGEST, Array
from buttress.relational import sqltext
from buttress.relational.declare import Join
from buttress.relational.features import check_categories, check_time
from buttress.relational.grid import step_of
from buttress.relational.keys import check_kinds
from buttress.relational.margins import Evaluation, MarginLoss, evaluation
from buttress.relational.plan import Plan, TableData
from buttress.relational.shape import attributes
from buttress.relational.sources import Column, make_column, objects, select
from buttress.relational.sqlplan import sql_home, sql_tree
from buttress.relational.sqlsample import sample_rows
from buttress.relational.weighting import class_factors

EMPTY = "The join has no rows (or none of positive weight): no rows have equal keys. Check the pairs in on."


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

    Attributes
    ----------
    plan : Plan
        Names, scales and classes; no rows.
    total : float
        Sum of the weights of the join's rows.
    """

    def __init__(self, join: Join, *, intercept: bool = True, per_label_row: bool = False, class_weight: Any = None,
                 memory: float = 4000):
        pairs = join.check()
        self.can_refine = True
        self.join, self.intercept = join, intercept
        self.connection, self.dialect, items = sql_home(join, memory)
        self.tree, self.columns, self.node_of = sql_tree(join, pairs, self.connection, self.dialect, items,
                                                         per_label_row)
        samples = [self._sample(i, item) for i, item in enumerate(items)]
        for attribute in attributes(pairs):
            check_kinds(join, attribute, samples)
        self._drop_nan_keys(samples)
        data = [self._features(i, samples[i], intercept and i == join.root) for i in range(len(join.tables))]
        for i, table in enumerate(join.tables):
            if table.weights:
                self._check_weights(i, samples[i])
                self.tree.nodes[self.node_of[i]].weights.append(self.columns[i, table.weights])
        classes = self._label(samples[join.root])
        n_rows = self._count(class_weight, classes)
        self.plan = Plan(data, [], np.zeros(0), classes, join.root, [], n_rows, [], [], 0.0, np.zeros(0),
                         optional=join.optional(pairs))
        self._owners = self.tree.owners(self.tree.root)

    def _count(self, class_weight: Any, classes: Any) -> int:
        """Set the weight of all rows (class weights included) and return their number."""
        zeros = [np.zeros(len(node.features)) for node in self.tree.nodes]
        counted = self._select(sqltext.counting_pass(self.tree, zeros, 0.0, 1.0, sums=False))
        weight = {int(row[0]): float(row[1]) for row in counted}
        n_rows = int(sum(float(row[2]) for row in counted))
        if not n_rows or not sum(weight.values()) > 0:
            raise ValueError(EMPTY)
        factors = class_factors(class_weight, classes, (weight.get(0, 0.0), weight.get(1, 0.0)))
        if factors != (1.0, 1.0):
            root, number = self.tree.nodes[self.tree.root], self.dialect.number
            root.weights.append(f"({root.label} * {number(factors[1] - factors[0])} + {number(factors[0])})")
        self.total = sum(factors[side] * value for side, value in weight.items())
        return n_rows

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

    def __call__(self, beta: Array, loss: MarginLoss, bins: int = 1024) -> Evaluation:
        """Return the plane and bounds at ``beta``, shape (plan.width,), by two SELECTs."""
        parts, offset = self._shares(beta)
        rows = self._select(sqltext.ranges(self.tree, parts)) if self._owners else []
        spans = [(float(row[1] or 0), float(row[2] or 0)) for row in rows]
        return self.at_step(beta, loss, step_of([*spans, (offset, offset)], bins))

    def at_step(self, beta: Array, loss: MarginLoss, step: float) -> Evaluation:
        """Evaluate with a given step of the grid."""
        rows = self._select(sqltext.counting_pass(self.tree, *self._shares(beta), step))
        found = np.array([[float(value) for value in row] for row in rows])
        label = np.where(found[:, 0] == 1, 1.0, -1.0)
        z, mass = label * step * found[:, 1], found[:, 2] / self.total
        push = label * loss.slope(z) / self.total
        b = np.zeros(self.plan.width)
        for column, (table, j) in enumerate(self._owners):
            b[self.plan.slices[table].start + j] = push @ found[:, 4 + column]
        if self.intercept:
            b[self.plan.slices[self.join.root].stop - 1] = push @ found[:, 2]
        error = sqltext.rounded_shares(self.tree) * step / 2 * (1 + 1e-9)
        return evaluation(loss, beta, b, z, mass, error)

    def sample(self, n: int) -> tuple[Array, Array, Array]:
        """Return about n rows drawn by weight: scaled features (k, plan.width), labels -1/+1, and how often each.

        The database draws, so the rows differ from call to call.
        """
        node = self.tree.nodes[self.tree.root]
        offered = float(self._select(f"SELECT COUNT(*) FROM {node.item} q")[0][0])
        repeats = int(min(max(np.ceil(2 * n / max(offered, 1.0)), 1), 1000))
        rows = self._select(sample_rows(self.tree, n, self.total, repeats))
        X = np.zeros((len(rows), self.plan.width))
        if not rows:  # few were asked for, and chance gave none
            return X, np.zeros(0), np.zeros(0)
        found = np.array([[float(value or 0) for value in row] for row in rows])
        for column, (table, j) in enumerate(pair for node in self.tree.nodes for pair in node.owner):
            X[:, self.plan.slices[table].start + j] = found[:, 2 + column]
        if self.intercept:
            X[:, self.plan.slices[self.join.root].stop - 1] = 1.0
        return X, np.where(found[:, 0] == 1, 1.0, -1.0), found[:, 1]

    def _select(self, statement: str) -> list[tuple[Any, ...]]:
        return select(self.connection, statement, self.dialect)

    def _sample(self, i: int, item: str) -> dict[str, Column]:
        """Read up to 100 values of each column in use that are not NULL, to learn what kind they are."""
        names = [name for t, name in self.columns if t == i]
        quoted = {name: self.dialect.quote(name) for name in names}
        if not names:
            return {}
        rows = self._select(f"SELECT {', '.join(quoted.values())} FROM {item} q LIMIT 100")
        read = list(zip(*rows)) if rows else [()] * len(names)
        out = {name: make_column(objects(values)) for name, values in zip(names, read)}
        for name in [name for name in names if out[name].null.all() and rows]:
            more = self._select(f"SELECT {quoted[name]} FROM {item} q WHERE {quoted[name]} IS NOT NULL LIMIT 100")
            out[name] = make_column(objects([row[0] for row in more]))
        return out

    def _features(self, i: int, sample: dict[str, Column], intercept: bool) -> TableData:
        """Add a table's feature expressions to its node and return their names and scales."""
        table, node = self.join.tables[i], self.tree.nodes[self.node_of[i]]
        read = {name: self._number(self.columns[i, name], sample[name]) if sample[name].kind == "number" else
                f"CASE WHEN {self.columns[i, name]} IS NULL THEN NULL ELSE 1 END" for name in table.features}
        found = self._select(sqltext.statistics(self.tree, self.node_of[i], list(read.values())))[0]
        scales: list[float] = []
        described: list[tuple[str, list[str] | None]] = []
        for j, name in enumerate(table.features):
            most, gone = float(found[1 + 2 * j] or 0), int(found[2 + 2 * j] or 0)
            if gone or not most <= LARGEST:
                raise ValueError(f"Feature {table.name}.{name} "
                                 + (f"is NULL or NaN in {gone} rows. Impute or drop those rows." if gone else
                                    f"holds {most:g}, too large. Rescale or drop those rows."))
            check_time(table.name, name, sample[name].kind)
            categories = None if sample[name].kind == "number" else self._categories(i, name, int(found[0] or 0))
            node.features += self._expressions(i, name, read[name], most or 1.0, categories)
            scales += [most or 1.0] if categories is None else [1.0] * len(categories)
            described.append((name, categories))
        width = len(scales)
        node.owner += [(i, j) for j in range(width)]
        return TableData(table.name, np.zeros((0, width + intercept)), np.zeros(0), np.array(scales), described,
                         np.zeros(0, dtype=np.int64))

    def _categories(self, i: int, name: str, n: int) -> list[str]:
        """Return the values of a text over n rows, sorted; counted first, for identifiers are as many as rows."""
        spot = self.tree, self.node_of[i], self.columns[i, name]
        many = int(self._select(sqltext.distinct(*spot, "COUNT(DISTINCT x)"))[0][0])
        check_categories(self.join.tables[i].name, name, many, n, lambda: str(
            self._select(f"{sqltext.distinct(*spot)} ORDER BY x DESC LIMIT 1")[0][0]))
        return sorted(str(row[0]) for row in self._select(sqltext.distinct(*spot)))

    def _expressions(self, i: int, name: str, read: str, scale: float, categories: Sequence[str] | None) -> list[str]:
        number = self.dialect.number
        if categories is None:
            return [f"({read} / {number(scale)})"]
        return [f"(CASE WHEN {self.columns[i, name]} = {self.dialect.text(value)} THEN {number(1.0)} "
                f"ELSE {number(0.0)} END)" for value in categories]

    def _number(self, quoted: str, column: Column) -> str:
        if column.null.all():  # nothing is known of its type
            return f"(CASE WHEN {quoted} IS NULL THEN NULL ELSE 0.0 END)"
        if column.values.dtype.kind == "b":
            return f"(CASE WHEN {quoted} THEN 1.0 WHEN NOT {quoted} THEN 0.0 END)"
        return f"CAST({quoted} AS {self.dialect.double})"

    def _check_weights(self, i: int, sample: dict[str, Column]) -> None:
        table = self.join.tables[i]
        name, shown = table.weights or "", f"Weights {table.name}.{table.weights}"
        if sample[name].kind != "number":
            raise ValueError(f"{shown} must be numbers. Got {sample[name].kind}.")
        quoted = f"CAST({self.columns[i, name]} AS {self.dialect.double})"
        most, gone, _, negative = self._select(sqltext.statistics(
            self.tree, self.node_of[i], [quoted, f"CASE WHEN {quoted} < 0 THEN NULL ELSE 1 END"]))[0][1:]
        if gone:
            raise ValueError(f"{shown} are NULL or NaN in {int(gone)} rows. Impute or drop those rows.")
        if negative or not float(most or 0) <= LARGEST:
            raise ValueError(f"{shown} must be in [0, 1e100]. Got {int(negative)} negative ones, and up to "
                             f"{float(most or 0):g} in magnitude.")

    def _label(self, sample: dict[str, Column]) -> Any:
        """Set the root's label expression (1 for the second class) and return the two classes."""
        table, i = self.join.tables[self.join.root], self.join.root
        label = table.label or ""
        rows = self._select(sqltext.distinct(self.tree, self.node_of[i], self.columns[i, label]))
        values = [row[0] for row in rows]
        if not values:
            raise ValueError(EMPTY)
        if any(value is None or value != value for value in values):
            raise ValueError(f"Label {table.name}.{label} is NULL or NaN in some rows. Drop those rows.")
        classes = np.unique(np.array([str(v) for v in values] if sample[label].kind != "number" else values))
        if len(classes) != 2:
            raise ValueError(f"Label {table.name}.{label} must have two classes among the rows that join. "
                             f"Got {len(classes)}: {', '.join(map(str, classes[:5].tolist()))}.")
        literal = self._literal(classes[1], sample[label])
        self.tree.nodes[self.node_of[i]].label = f"CASE WHEN {self.columns[i, label]} = {literal} THEN 1 ELSE 0 END"
        return classes

    def _literal(self, value: Any, column: Column) -> str:
        if column.values.dtype.kind == "b":
            return "TRUE"
        return self.dialect.text(str(value)) if column.kind != "number" else repr(value.item())


def _holds_floats(column: Column) -> bool:
    return column.values.dtype.kind == "f" and bool((~column.null | np.isnan(column.values)).any())
