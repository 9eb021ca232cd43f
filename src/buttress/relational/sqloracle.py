"""The margin oracle inside a database: the plan as SQL text, sent to where the tables are.

Only SELECT is sent. Files and frames are counted by a DuckDB of our own, which spills to disk when memory is short.
"""

from pathlib import Path
from typing import Any

import numpy as np

from buttress._checks import LARGEST, Array
from buttress.relational import sqltext
from buttress.relational.declare import Join, Pair
from buttress.relational.dialects import DUCKDB, Dialect, dialect_of
from buttress.relational.grid import step_of
from buttress.relational.keys import attributes
from buttress.relational.margins import Evaluation, MarginLoss, evaluation
from buttress.relational.plan import Plan, TableData
from buttress.relational.sources import Column, _duckdb, _Query, _scan, make_column, select
from buttress.relational.tree import spanning_tree


def sql_home(join: Join) -> tuple[Any, Dialect, list[str]]:
    """Return the connection, its dialect and each table as a FROM item.

    Raises ValueError when the tables live in more than one database.
    """
    connections = {id(table.source[0]): table.source[0] for table in join.tables if isinstance(table.source, tuple)}
    if len(connections) > 1 or (connections and not all(isinstance(t.source, tuple) for t in join.tables)):
        raise ValueError("engine='sql' needs all tables in one database, or none in any. Use engine='memory', or copy "
                         "the tables into one database.")
    if connections:
        connection = next(iter(connections.values()))
        dialect = dialect_of(connection)
        return connection, dialect, [dialect.table(table.source[1]) for table in join.tables]
    connection, items = _duckdb(), []
    for i, table in enumerate(join.tables):
        if isinstance(table.source, (str, Path)):
            items.append(f"({_scan(table.source)})")
        else:
            connection.register(f"frame{i}", _plain_text(table.source))
            items.append(f"frame{i}")
    return connection, DUCKDB, items


def _plain_text(frame: Any) -> Any:
    """Return a pandas frame with its text columns as objects, for a DuckDB older than pandas' own text type."""
    if not hasattr(frame, "iloc"):
        return frame
    text = [name for name in frame.columns if str(frame[name].dtype) in ("str", "string")]
    return frame.astype(dict.fromkeys(text, object)) if text else frame


class SqlOracle:
    """Evaluate the mean loss over the rows of a join by one SELECT.

    Parameters
    ----------
    join : Join
        Acyclic, its tables in one database (or in files and frames).
    intercept : bool

    Attributes
    ----------
    plan : Plan
        Names, scales and classes; no rows.
    total : float
        Sum of the weights of the join's rows.
    """

    def __init__(self, join: Join, *, intercept: bool = True):
        pairs = join.check()
        self.join = join
        self.connection, self.dialect, items = sql_home(join)
        self.tables, self.order = _tables(join, pairs, items)
        self.intercept = intercept
        samples = [self._sample(i) for i in range(len(join.tables))]
        _check_kinds(join, self.tables, samples)
        data = [self._features(i, samples[i], intercept and i == join.root) for i in range(len(join.tables))]
        for i, table in enumerate(join.tables):
            if table.weights:
                self.tables[i].weight = self.dialect.quote(table.weights)
        classes = self._classes(samples[join.root])
        side = self.dialect.quote(join.tables[join.root].label or "")
        literal = self._literal(classes[1], samples[join.root][join.tables[join.root].label or ""])
        self.tables[join.root].label = f"CASE WHEN {side} = {literal} THEN 1 ELSE 0 END"
        zeros = [np.zeros(part.X.shape[1]) for part in data]
        counted = self._select(sqltext.counting_pass(self.tables, self.order, self.dialect, zeros, 1.0, sums=False))
        n_rows = int(sum(float(row[2]) for row in counted))
        self.total = sum(float(row[1]) for row in counted)
        if not n_rows or not self.total > 0:
            raise ValueError("The join has no rows (or none of positive weight). Check the pairs in on.")
        self.plan = Plan(data, [], np.zeros(0), classes, join.root, [], n_rows, [], [], 0.0, np.zeros(0))
        self._columns = sqltext.subtree_columns(self.tables, self.order[0])

    def __call__(self, beta: Array, loss: MarginLoss, bins: int = 1024) -> Evaluation:
        """Return the plane and bounds at ``beta``, shape (plan.width,), by two SELECTs."""
        parts = [beta[part] for part in self.plan.slices]
        rows = self._select(sqltext.ranges(self.tables, self.dialect, parts)) if self._columns else []
        return self.at_step(beta, loss, step_of([(float(row[1] or 0), float(row[2] or 0)) for row in rows], bins))

    def at_step(self, beta: Array, loss: MarginLoss, step: float) -> Evaluation:
        """Evaluate with a given step of the grid."""
        parts = [beta[part] for part in self.plan.slices]
        rows = self._select(sqltext.counting_pass(self.tables, self.order, self.dialect, parts, step))
        found = np.array([[float(value) for value in row] for row in rows])
        label = np.where(found[:, 0] == 1, 1.0, -1.0)
        z, mass = label * step * found[:, 1], found[:, 2] / self.total
        push = label * loss.slope(z) / self.total
        b = np.zeros(self.plan.width)
        for column, (table, j) in enumerate(self._columns):
            b[self.plan.slices[table].start + j] = push @ found[:, 4 + column]
        if self.intercept:
            b[self.plan.slices[self.join.root].stop - 1] = push @ found[:, 2]
        error = sqltext.share_of(self.tables) * step / 2 * (1 + 1e-9)
        return evaluation(loss, beta, b, z, mass, error)

    def _select(self, statement: str) -> list[tuple[Any, ...]]:
        return select(self.connection, statement, self.dialect)

    def _sample(self, i: int) -> dict[str, Column]:
        """Read up to 100 rows of the columns in use, to learn what kind they are."""
        table = self.join.tables[i]
        keys = [name for names in self.tables[i].keys.values() for name in names]
        names = list(dict.fromkeys([*table.features, *filter(None, (table.label, table.weights)), *keys]))
        if not names:
            return {}
        listed = ", ".join(self.dialect.quote(name) for name in names)
        rows = self._select(f"SELECT {listed} FROM {self.tables[i].item} LIMIT 100")
        columns = list(zip(*rows)) if rows else [()] * len(names)
        out = {}
        for name, values in zip(names, columns):
            array = np.empty(len(values), dtype=object)
            array[:] = values
            out[name] = make_column(array)
        return out

    def _features(self, i: int, sample: dict[str, Column], intercept: bool) -> TableData:
        """Set a table's feature expressions and return its names and scales."""
        table, sql = self.join.tables[i], self.tables[i]
        numbers = [name for name in table.features if sample[name].kind == "number"]
        raw = {name: self._number(name, sample[name]) for name in numbers}
        found = self._select(sqltext.statistics(self.tables, self.order, self.dialect, i, [
            raw.get(name, f"CASE WHEN {self.dialect.quote(name)} IS NULL THEN NULL ELSE 1 END")
            for name in table.features]))[0]
        scales: list[float] = []
        described: list[tuple[str, list[str] | None]] = []
        for j, name in enumerate(table.features):
            most, gone = float(found[1 + 2 * j] or 0), int(found[2 + 2 * j] or 0)
            if gone or not most <= LARGEST:
                what = f"NULL in {gone} rows" if gone else f"{most:g} somewhere"
                raise ValueError(f"Feature {table.name}.{name} is {what}. Impute, rescale or drop those rows.")
            if name in raw:
                scale = most or 1.0
                sql.features.append(f"({raw[name]} / {self.dialect.number(scale)})")
                scales.append(scale)
                described.append((name, None))
                continue
            if sample[name].kind == "time":
                raise ValueError(f"Feature {table.name}.{name} holds times. Turn it into a number first.")
            quoted = self.dialect.quote(name)
            values = sorted(str(row[0]) for row in self._select(
                sqltext.distinct(self.tables, self.order, self.dialect, i, quoted)))
            one, zero = self.dialect.number(1.0), self.dialect.number(0.0)
            sql.features += [f"(CASE WHEN {quoted} = {self.dialect.text(v)} THEN {one} ELSE {zero} END)"
                             for v in values]
            scales += [1.0] * len(values)
            described.append((name, values))
        width = len(sql.features) + intercept
        return TableData(table.name, np.zeros((0, width)), np.zeros(0), np.array(scales), described,
                         np.zeros(0, dtype=np.int64))

    def _number(self, name: str, column: Column) -> str:
        quoted = self.dialect.quote(name)
        if column.values.dtype.kind == "b":
            return f"(CASE WHEN {quoted} THEN 1.0 WHEN NOT {quoted} THEN 0.0 END)"
        return f"CAST({quoted} AS {self.dialect.double})"

    def _classes(self, sample: dict[str, Column]) -> Any:
        table = self.join.tables[self.join.root]
        label = table.label or ""
        rows = self._select(sqltext.distinct(self.tables, self.order, self.dialect, self.join.root,
                                             self.dialect.quote(label)))
        values = [row[0] for row in rows]
        if any(value is None for value in values):
            raise ValueError(f"Label {table.name}.{label} is NULL in some rows. Drop those rows.")
        classes = np.unique(np.array([str(v) for v in values] if sample[label].kind == "text" else values))
        if len(classes) != 2:
            raise ValueError(f"Label {table.name}.{label} must have two classes among the rows that join. "
                             f"Got {len(classes)}: {', '.join(map(str, classes[:5].tolist()))}.")
        return classes

    def _literal(self, value: Any, column: Column) -> str:
        if column.values.dtype.kind == "b":
            return "TRUE"
        return self.dialect.text(str(value)) if column.kind == "text" else repr(value.item())


def _tables(join: Join, pairs: list[Pair], items: list[str]) -> tuple[list[sqltext.SqlTable], list[int]]:
    groups = attributes(pairs)
    edges = [frozenset(a for a, group in enumerate(groups) if i in group) for i in range(len(join.tables))]
    tree = spanning_tree(edges, join.root)
    if tree is None:
        raise ValueError("engine='sql' takes acyclic joins. Use engine='memory' for this cyclic one.")
    right = {pair.second[0]: pair.first[0] for pair in pairs if pair.left}
    tables = []
    for i, item in enumerate(items):
        parent = tree.parent[i]
        if (parent < 0 and i != join.root) or (parent >= 0 and not edges[i] & edges[parent]):
            raise ValueError(f"Table {join.tables[i].name!r} is not joined to the others. Add a pair of columns to on.")
        if i in right and right[i] != parent:
            raise ValueError(f"The left join to {join.tables[i].name!r} must lead away from the table with the label.")
        kept = {a for a, group in enumerate(groups) for pair in pairs if pair.left and pair.first[0] == i
                and pair.first[1] in group.get(i, []) and pair.second[1] in group.get(pair.second[0], [])}
        tables.append(sqltext.SqlTable(
            item, {a: groups[a][i] for a in sorted(edges[i])}, parent, [c for c, p in enumerate(tree.parent) if p == i],
            sorted(edges[i] & edges[parent]) if parent >= 0 else [], i in right, kept))
    return tables, tree.order


def _check_kinds(join: Join, tables: list[sqltext.SqlTable], samples: list[dict[str, Column]]) -> None:
    for a in {a for table in tables for a in table.keys}:
        spots = [(i, name) for i, table in enumerate(tables) for name in table.keys.get(a, [])]
        kinds = {samples[i][name].kind for i, name in spots if not samples[i][name].null.all()}
        if len(kinds) > 1:
            listed = ", ".join(f"{join.tables[i].name}.{name} ({samples[i][name].kind})" for i, name in spots)
            raise ValueError(f"Keys that join must be of one type. Got {listed}. Convert one of them.")


def megabytes(join: Join) -> float:
    """Return the size of the columns in use of a join's database tables and files, eight bytes a value."""
    total = 0.0
    for i, table in enumerate(join.tables):
        if not isinstance(table.source, (tuple, str, Path)):
            continue
        keys = {pair[side] for pair in join.on for side in (0, 1) if join._column(pair[side])[0] == i}
        width = len(table.features) + len(keys) + bool(table.label) + bool(table.weights)
        count = _Query(table.source).count() if isinstance(table.source, tuple) else _file_rows(table.source)
        total += 8e-6 * width * count
    return total


def _file_rows(path: Any) -> int:
    return int(_duckdb().execute(f"SELECT COUNT(*) FROM ({_scan(path)})").fetchall()[0][0])
