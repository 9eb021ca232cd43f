"""The rows next to the label's table where the tables are, as text of table expressions.

Each path is a chain of them, from the far table to the label's: GROUP BY key, then join the next table, so that
nothing larger than a table is made, but pairs of rows that both have a time. Identifiers are always quoted by the
dialect.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.relational.entities.features import BETWEEN, Ranged, Statistic
from buttress.relational.entities.paths import Hop
from buttress.relational.sources.columns import Column
from buttress.relational.sources.databases import Connection, select
from buttress.relational.sources.dialects import Dialect
from buttress.relational.sql.text import own_prefix

AGGREGATE = {"SUM": "SUM", "MIN": "MIN", "MAX": "MAX", "LAST": "MAX"}


@dataclass(frozen=True)
class SqlTable:
    """A table as a FROM item, and how its columns read: keys (NaN as NULL), numbers and texts, its time or None, and
    what orders rows of one time, if anything; ``columns`` in use as they are.
    """

    item: str
    keys: Mapping[str, str]
    values: Mapping[str, str]
    time: str | None
    order: Sequence[str] = ()
    columns: Sequence[str] = ()


@dataclass(frozen=True)
class DatabasePlace:
    """Where tables of a join are: a connection, its dialect, the tables by number, and up to some rows of each."""

    connection: Connection
    dialect: Dialect
    tables: Mapping[int, SqlTable]
    samples: Mapping[int, dict[str, Column]]

    @property
    def prefix(self) -> str:
        return own_prefix([part for table in self.tables.values() for part in (table.item, *table.columns)])

    def select(self, statement: str) -> list[tuple[Any, ...]]:
        return select(self.connection, statement, self.dialect)

    @property
    def given(self) -> str:
        """Name of the table of arrays that DuckDB reads."""
        return f"{self.prefix}given"


@dataclass(frozen=True)
class Path:
    """One table's path: its hops, its statistics, where the tables are, and whether entities have a date.

    ``asked`` are the columns of "asked" that hold the keys of the first hop, ``day`` a day in the unit of times.
    ``per`` is the column by whose values rows are made one ("" for none), and ``tag`` marks the names of expressions.
    ``few`` says that few entities are asked for: far tables are then read by the keys that these lead to. ``paired``
    says that their keys have few dates: rows are then paired with each, which is right for many too, and slow.
    ``latest`` says that statistics are of all rows that the latest date of a key sees.
    """

    hops: Sequence[Hop]
    asked: Sequence[str]
    statistics: Sequence[Statistic]
    ranged: Sequence[Ranged]
    place: DatabasePlace
    dated: bool
    day: float
    per: str = ""
    tag: str = ""
    few: bool = False
    paired: bool = False
    latest: bool = False

    @property
    def number(self) -> int:
        return self.hops[-1].child

    @property
    def t(self) -> str:
        """What the names of its expressions have behind their letter."""
        return f"{self.number}{self.tag}"

    @property
    def carried(self) -> dict[str, str]:
        """What rows carry to the label's table beside their key, time and statistics, as expressions by name.

        That is v, by whose values rows are made one, or o, the order of rows of one time.
        """
        table = self.place.tables[self.number]
        if self.per:
            return {"v": table.values[self.per]}
        return dict(zip("o", table.order)) if self.dated and (self.ranged or self.raw) else {}

    @property
    def names(self) -> list[str]:
        """Names of the columns of statistics: s0, s1, ..."""
        return [f"s{j}" for j in range(len(self.statistics))]

    @property
    def raw(self) -> dict[str, str]:
        """Columns v0, v1, ... that rows with a time hold in place of their statistics, by the column's name.

        A path of one table makes them of these where they are added up: what a database puts in order is then narrow.
        None are held on longer paths, whose tables have their statistics merged on the way, for ``per``, and hashes.
        """
        if len(self.hops) > 1 or self.per or self.latest or not self.time_of(self.number):
            return {}
        used = [name for s in self.statistics for name in (s.column, s.by) if name]
        return {name: f"v{j}" for j, name in enumerate(dict.fromkeys(used))}

    @property
    def held(self) -> list[str]:
        """Names of the columns of rows that their statistics are made of."""
        return [*self.carried, *self.raw.values()] if self.raw else self.names

    @cached_property
    def found(self) -> dict[str, str]:
        """How statistics of rows that a date sees read by name, those in windows too."""
        return {s.name: f"f{self.t}.{name}" for s, name in zip(self.statistics, self.names)} | {
            one.name: f"{'f' if self.paired else 'b'}{self.t}.b{j}" for j, one in enumerate(self.ranged)}

    @cached_property
    def of_rows(self) -> list[str]:
        """The statistics of a row w, as expressions."""
        if not self.raw:
            return [f"w.{name}" for name in self.names]
        values = {name: f"w.{column}" for name, column in self.raw.items()}
        held = SqlTable("", {}, values, "w.t", [f"w.{name}" for name in self.carried])
        return ["w.t" if statistic.of == "time" else _of_row(held, statistic, self.place.dialect)
                for statistic in self.statistics]

    @property
    def of_latest(self) -> bool:
        """Whether a window is of the latest rows."""
        return any(one.window.rows for one in self.ranged)

    def named(self, *, of_time: bool) -> list[tuple[Statistic, str]]:
        """Return the statistics and their names: those of when rows became known, or those of their own columns."""
        return [(s, name) for s, name in zip(self.statistics, self.names) if (s.of == "time") == of_time]

    def time_of(self, table: int) -> str | None:
        """Return the expression of when rows of a table became known, None where that does not matter."""
        return self.place.tables[table].time if self.dated else None


def up_the_path(path: Path) -> tuple[list[str], bool]:
    """Return the expressions that end in r<number>: rows next to the label's table, and whether they have a time."""
    our = path.place.prefix
    parts, time = _around(path) if path.hops[-1].tie else _along(path)
    if path.per:
        once = ", ".join([*numbered(len(path.asked)), "v"])
        chosen = [once, *(["MIN(t) AS t"] if time else []), f"{path.place.dialect.number(1.0)} AS s0"]
        by = f" GROUP BY {once}"
    else:
        chosen = ["q.*", *(f"q.t AS {name}" for _, name in path.named(of_time=True) if not path.raw)]
        by = ""
    parts.append(f"{our}r{path.t} AS (SELECT {', '.join(chosen)} FROM {our}r{path.t}_1 q{by})")
    return parts, time is not None


def _far_rows(path: Path, keys: Sequence[str]) -> str:
    """Return the SELECT of rows of the far table with ``keys`` k0, k1, ..., their time t, and what statistics need."""
    last = _with_excess(path)
    time = path.time_of(path.number)
    chosen = _keys(last, keys) + ([f"{time} AS t"] if time else [])
    chosen += [f"{value} AS {name}" for name, value in path.carried.items()]
    made = [(last.values[column], name) for column, name in path.raw.items()] or [
        (_of_row(last, statistic, path.place.dialect), name) for statistic, name in path.named(of_time=False)]
    chosen += [f"{value} AS {name}" for value, name in made]
    known = f" AND {last.values[path.per]} IS NOT NULL" if path.per else ""
    if path.few:
        known += f" AND {_led_to(path, len(path.hops) - 1)}"
    return f"SELECT {', '.join(chosen)} FROM {last.item} b{_known(last, keys, time)}{known}"


def _along(path: Path) -> tuple[list[str], str | None]:
    """Return the expressions of rows that meet one table after the other, and what their time reads."""
    parts = _reached(path) if path.few else []
    parts.append(f"{path.place.prefix}r{path.t}_{len(path.hops)} AS ({_far_rows(path, path.hops[-1].below)})")
    time = path.time_of(path.number)
    for level in range(len(path.hops) - 1, 0, -1):
        more, time = _next_table(path, level, time)
        parts += more
    return parts, time


def _around(path: Path) -> tuple[list[str], str | None]:
    """Return the expression of rows that close a circle: all tables joined from the keys that are asked for."""
    names = numbered(len(path.asked))
    keys = [f"q.{name}" for name in names]
    asked = ", ".join(f"{name} AS {key}" for name, key in zip(path.asked, names))
    items = [f"(SELECT DISTINCT {asked} FROM {path.place.prefix}asked a) q"]
    for level, hop in enumerate(path.hops):
        above = [f"j{level - 1}.u{i}" if level else keys[i] for i in range(len(hop.columns))]
        above += keys[len(path.hops[0].columns):] if hop.tie else []
        rows = _far_rows(path, [*hop.below, *hop.tie.below]) if hop.tie else _rows_between(path, level)
        items.append(f"({rows}) j{level} ON " + " AND ".join(f"{key} = j{level}.k{i}" for i, key in enumerate(above)))
    times = [f"j{level}.t" for level, hop in enumerate(path.hops) if path.time_of(hop.child)]
    chosen = [*keys, *(f"{_latest(times)} AS t" for _ in times[:1])]
    chosen += [f"j{level}.{name}" for name in (*path.carried, *(name for _, name in path.named(of_time=False)))]
    return [f"{path.place.prefix}r{path.t}_1 AS (SELECT {', '.join(chosen)} FROM {' JOIN '.join(items)})"], (
        "t" if times else None)


def _rows_between(path: Path, level: int) -> str:
    """Return the SELECT of a table on the way: keys k0, k1, ... toward the label's table, u0, ... away from it, time t.
    """
    hop = path.hops[level]
    table, time = path.place.tables[hop.child], path.time_of(hop.child)
    chosen = [*_keys(table, hop.below), *_keys(table, path.hops[level + 1].above, "u"),
              *([f"{time} AS t"] if time else [])]
    return f"SELECT {', '.join(chosen)} FROM {table.item} b{_known(table, hop.below, time)}"


def _with_excess(path: Path) -> SqlTable:
    """Return the far table, and by how much its numbers exceed the mean of earlier rows of what their rows share.

    Times and values are columns before they are added up, for DuckDB puts nothing in order by what may fail. Of few
    entities, earlier rows are looked up for each of theirs.
    """
    table = path.place.tables[path.number]
    found = dict.fromkeys(s.column for s in path.statistics if BETWEEN in s.column)
    if not found:
        return table
    our = path.place.prefix
    read, made = [f"{table.time} AS {our}t"], []
    for j, column in enumerate(found):
        name, _, by = column.partition(BETWEEN)
        known = f"{table.time} IS NOT NULL AND {table.keys[by]} IS NOT NULL"
        number = f"CASE WHEN {known} THEN {table.values[name]} END"
        read += [f"{table.keys[by]} AS {our}k{j}", f"{number} AS {our}v{j}"]
        value, key, time = f"b.{our}v{j}", f"b.{our}k{j}", f"b.{our}t"
        one = f"SELECT {table.keys[by]} AS k, {table.time} AS t, {number} AS v FROM {table.item} b"
        mean = (f"(SELECT AVG(w.v) FROM ({one}) w WHERE w.k = {key} AND w.t < {time})" if path.few else
                _earlier_mean(value, key, time))
        made.append(f"{value} - {mean} AS {our}x{j}")
    item = f"(SELECT b.*, {', '.join(made)} FROM (SELECT {', '.join([*table.columns, *read])} FROM {table.item} b) b)"
    return replace(table, item=item, values={**table.values, **{name: f"b.{our}x{j}" for j, name in enumerate(found)}})


def _earlier_mean(value: str, key: str, time: str) -> str:
    """Return the expression of the mean of a key's values at times before a row's, for all rows at once."""
    total, count = (f"({what}({value}) OVER (PARTITION BY {key} ORDER BY {time}) - "
                    f"{what}({value}) OVER (PARTITION BY {key}, {time}))" for what in ("SUM", "COUNT"))
    return f"{total} / NULLIF({count}, 0)"


def _led_to(path: Path, level: int) -> str:
    """Return the condition that a row b of a table on the path has a key that the entities that are asked for lead to.
    """
    our = path.place.prefix
    hop = path.hops[level]
    names = path.asked if level == 0 else numbered(len(hop.columns))
    above = f"{our}asked" if level == 0 else f"{our}k{path.t}_{level}"
    if hop.tie:
        hop, names, above = hop.tie, path.asked[len(path.hops[0].columns):], f"{our}asked"
    keys = path.place.tables[hop.child].keys
    same = " AND ".join(f"a.{name} = {keys[key]}" for name, key in zip(names, hop.below))
    return f"EXISTS (SELECT 1 FROM {above} a WHERE {same})"


def _reached(path: Path) -> list[str]:
    """Return the expressions k<number>_<level>: keys of the next table away from the label's that are led to."""
    parts = []
    for level, hop in enumerate(path.hops[1:]):
        table = path.place.tables[hop.parent]
        chosen = ", ".join(_keys(table, hop.above))
        parts.append(f"{path.place.prefix}k{path.t}_{level + 1} AS (SELECT DISTINCT {chosen} FROM {table.item} b "
                     f"WHERE {_led_to(path, level)})")
    return parts


def _next_table(path: Path, level: int, time: str | None) -> tuple[list[str], str | None]:
    """Return the expressions of rows that meet the next table toward the label's, and what their time reads."""
    rows = f"{path.place.prefix}r{path.t}_{level + 1}"
    keys = numbered(len(path.hops[level].columns))
    statistics = path.named(of_time=False)
    parts = []
    if not time:
        listed = ", ".join([*keys, *path.carried])
        one = f"{path.place.prefix}m{path.t}_{level}"
        parts.append(f"{one} AS (SELECT {listed}, {merged(statistics)} FROM {rows} w GROUP BY {listed})")
        rows = one
    table = path.place.tables[path.hops[level].parent]
    up = path.hops[level - 1].below
    above = path.time_of(path.hops[level].parent)
    times = [part for part in ("m.t" if time else None, above) if part]
    chosen = _keys(table, up) + ([f"{_latest(times)} AS t"] if times else [])
    chosen += [f"m.{name}" for name in (*path.carried, *(name for _, name in statistics))]
    same = " AND ".join(f"{table.keys[name]} = m.{key}" for name, key in zip(path.hops[level].above, keys))
    known = f" AND {_led_to(path, level - 1)}" if path.few else ""
    parts.append(f"{path.place.prefix}r{path.t}_{level} AS (SELECT {', '.join(chosen)} "
                 f"FROM {table.item} b JOIN {rows} m ON {same}{_known(table, up, above)}{known})")
    return parts, "t" if times else None


def _latest(times: Sequence[str]) -> str:
    return times[0] if len(times) == 1 else f"GREATEST({', '.join(times)})"


def given(columns: Sequence[Column]) -> tuple[list[str], dict[str, NDArray[Any]]]:
    """Return how columns read that DuckDB reads from arrays, and these: values, whatever stands where they are NULL."""
    arrays = {f"v{j}": _values(column) for j, column in enumerate(columns)}
    arrays |= {f"n{j}": column.null for j, column in enumerate(columns)}
    return [f"CASE WHEN n{j} THEN NULL ELSE v{j} END" for j in range(len(columns))], arrays


def _values(column: Column) -> NDArray[Any]:
    dtype = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}.get(column.values.dtype.kind)
    return column.values.astype(dtype) if dtype else np.array([text or "" for text in texts(column)], dtype=object)


def texts(column: Column) -> list[str | None]:
    """Return values as text that reads back as the same, None for NULL."""
    if column.values.dtype.kind == "M":
        return [None if absent else str(value).replace("T", " ") + ("+00:00" if column.zoned else "")
                for value, absent in zip(column.values.astype("datetime64[us]"), column.null)]
    write = repr if column.values.dtype.kind == "f" else str
    return [None if absent else write(value) for value, absent in zip(column.values.tolist(), column.null)]


def numbered(n: int) -> list[str]:
    return [f"k{j}" for j in range(n)]


def _keys(table: SqlTable, names: Sequence[str], letter: str = "k") -> list[str]:
    return [f"{table.keys[name]} AS {letter}{j}" for j, name in enumerate(names)]


def _known(table: SqlTable, keys: Sequence[str], time: str | None) -> str:
    return " WHERE " + " AND ".join(f"{one} IS NOT NULL" for one in [*(table.keys[name] for name in keys), time] if one)


def merged(named: Sequence[tuple[Statistic, str]]) -> str:
    return ", ".join(f"{AGGREGATE[statistic.merge]}({name}) AS {name}" for statistic, name in named)


def _of_row(table: SqlTable, statistic: Statistic, dialect: Dialect) -> str:
    """Return the expression of a statistic of one row."""
    one = dialect.number(1.0)
    if statistic.of == "row":
        return one
    if statistic.of == "hash":
        columns = [one, *filter(None, [table.time]), *table.order, *table.values.values()]
        return dialect.hashed.format(", ".join(columns))
    value = table.values[statistic.column]
    if statistic.of == "part":
        return f"CASE WHEN {_equal(table.values[statistic.by], statistic.category, dialect)} THEN {value} END"
    if statistic.of == "category":
        return is_category(value, statistic.category, dialect)
    if statistic.of == "known":
        return f"CASE WHEN {value} IS NOT NULL THEN {one} ELSE {dialect.number(0.0)} END"
    if statistic.merge == "LAST":
        late = dialect.array.format(", ".join([str(table.time), *table.order, value]))
        return f"CASE WHEN {value} IS NOT NULL AND {table.time} IS NOT NULL THEN {late} END"
    less = f"({value} - {dialect.number(statistic.center)})"
    return {"value": value, "centred": less, "square": f"{less} * {less}"}[statistic.of]


def is_category(value: str, category: str, dialect: Dialect) -> str:
    same = _equal(value, category, dialect)
    return f"CASE WHEN {same} THEN {dialect.number(1.0)} ELSE {dialect.number(0.0)} END"


def _equal(value: str, category: str, dialect: Dialect) -> str:
    """Return the condition that text is a category; a column without a value may be of another type."""
    return f"CAST({value} AS {dialect.text_type}) = {dialect.text(category)}"
