"""The SELECT that makes the features of entities where the tables are, as text.

Each path is a chain of expressions, from the far table to the label's: GROUP BY key, then join the next table, so that
nothing larger than a table is made, but pairs of rows that both have a time. What must be known before a date is added
up once between two dates of a key, and then over the dates by a window. Identifiers are always quoted by the dialect.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from buttress.relational.entities.features import Feature, Ranged, Statistic, letters_of
from buttress.relational.entities.paths import Hop
from buttress.relational.entities.words import TURN, WORDS
from buttress.relational.sources.columns import Column
from buttress.relational.sources.databases import Connection, select
from buttress.relational.sources.dialects import Dialect
from buttress.relational.sql.text import own_prefix

AGGREGATE = {"SUM": "SUM", "MIN": "MIN", "MAX": "MAX", "LAST": "MAX"}


@dataclass(frozen=True)
class SqlTable:
    """A table as a FROM item, and how its columns read: keys (NaN as NULL), numbers and texts, its time or None, and
    what orders rows of one time, if anything.
    """

    item: str
    keys: Mapping[str, str]
    values: Mapping[str, str]
    time: str | None
    order: Sequence[str] = ()


@dataclass(frozen=True)
class Place:
    """Where tables of a join are: a connection, its dialect, the tables by number, and up to some rows of each."""

    connection: Connection
    dialect: Dialect
    tables: Mapping[int, SqlTable]
    samples: Mapping[int, dict[str, Column]]

    @property
    def prefix(self) -> str:
        return own_prefix([table.item for table in self.tables.values()])

    def select(self, statement: str) -> list[tuple[Any, ...]]:
        return select(self.connection, statement, self.dialect)


@dataclass(frozen=True)
class Path:
    """One table's path: its hops, its statistics, where the tables are, and whether entities have a date.

    ``asked`` are the columns of "asked" that hold the keys of the first hop, ``day`` a day in the unit of times.
    ``per`` is the column by whose values rows are made one ("" for none), and ``tag`` marks the names of expressions.
    ``few`` says that few entities are asked for: far tables are then read by the keys that these lead to, ``latest``
    that statistics are of all rows that the latest date of a key sees.
    """

    hops: Sequence[Hop]
    asked: Sequence[str]
    statistics: Sequence[Statistic]
    ranged: Sequence[Ranged]
    place: Place
    dated: bool
    day: float
    per: str = ""
    tag: str = ""
    few: bool = False
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
        None are held on longer paths, whose tables have their statistics merged on the way, and for ``per``.
        """
        if len(self.hops) > 1 or self.per or not self.time_of(self.number):
            return {}
        used = [name for s in self.statistics for name in (s.column, s.by) if name]
        return {name: f"v{j}" for j, name in enumerate(dict.fromkeys(used))}

    @property
    def held(self) -> list[str]:
        """Names of the columns of rows that their statistics are made of."""
        return [*self.carried, *self.raw.values()] if self.raw else self.names

    @property
    def of_rows(self) -> list[str]:
        """The statistics of a row w, as expressions."""
        if not self.raw:
            return [f"w.{name}" for name in self.names]
        values = {name: f"w.{column}" for name, column in self.raw.items()}
        held = SqlTable("", {}, values, "w.t", [f"w.{name}" for name in self.carried])
        return ["w.t" if statistic.of == "time" else _of_row(held, statistic, self.place.dialect)
                for statistic in self.statistics]

    def named(self, *, of_time: bool) -> list[tuple[Statistic, str]]:
        """Return the statistics and their names: those of when rows became known, or those of their own columns."""
        return [(s, name) for s, name in zip(self.statistics, self.names) if (s.of == "time") == of_time]

    def time_of(self, table: int) -> str | None:
        """Return the expression of when rows of a table became known, None where that does not matter."""
        return self.place.tables[table].time if self.dated else None


def path_parts(path: Path) -> tuple[list[str], bool]:
    """Return the expressions that end in f<number>: the statistics per key, and per date where rows have a time.

    Also returns whether there are dates.
    """
    parts, timed = _up_the_path(path)
    keys = _numbered(len(path.asked))
    if path.latest:
        return [*parts, _until_latest(path, keys, timed)], False
    t = path.t
    same = " AND ".join(f"a.{name} = r.{key}" for name, key in zip(path.asked, keys))
    our = path.place.prefix
    wanted = f"SELECT r.* FROM {our}r{t} r WHERE EXISTS (SELECT 1 FROM {our}asked a WHERE {same})"
    parts.append(f"{our}w{t} AS ({wanted})")
    if not timed:
        by = ", ".join(keys)
        parts.append(f"{our}f{t} AS (SELECT {by}, {_merged(path.named(of_time=False))} FROM {our}w{t} w GROUP BY {by})")
        return parts, False
    return parts + _until_dates(path, keys) + (_in_windows(path, keys) if path.ranged else []), True


def _up_the_path(path: Path) -> tuple[list[str], bool]:
    """Return the expressions that end in r<number>: rows next to the label's table, and whether they have a time."""
    our = path.place.prefix
    last = path.place.tables[path.number]
    time = path.time_of(path.number)
    chosen = _keys(last, path.hops[-1].below) + ([f"{time} AS t"] if time else [])
    chosen += [f"{value} AS {name}" for name, value in path.carried.items()]
    made = [(_of_row(last, statistic, path.place.dialect), name) for statistic, name in path.named(of_time=False)]
    made = [(last.values[column], name) for column, name in path.raw.items()] or made
    chosen += [f"{value} AS {name}" for value, name in made]
    known = f" AND {last.values[path.per]} IS NOT NULL" if path.per else ""
    parts = []
    if path.few:
        parts, known = _reached(path), known + f" AND {_led_to(path, len(path.hops) - 1)}"
    parts += [f"{our}r{path.t}_{len(path.hops)} AS (SELECT {', '.join(chosen)} FROM {last.item} b"
             f"{_known(last, path.hops[-1].below, time)}{known})"]
    for level in range(len(path.hops) - 1, 0, -1):
        more, time = _next_table(path, level, time)
        parts += more
    if path.per:
        once = ", ".join([*_numbered(len(path.asked)), "v"])
        chosen = [once, *(["MIN(t) AS t"] if time else []), f"{path.place.dialect.number(1.0)} AS s0"]
        by = f" GROUP BY {once}"
    else:
        chosen = ["q.*", *(f"q.t AS {name}" for _, name in path.named(of_time=True) if not path.raw)]
        by = ""
    parts.append(f"{our}r{path.t} AS (SELECT {', '.join(chosen)} FROM {our}r{path.t}_1 q{by})")
    return parts, time is not None


def _led_to(path: Path, level: int) -> str:
    """Return the condition that a row b of a table on the path has a key that the entities that are asked for lead to.
    """
    our = path.place.prefix
    hop = path.hops[level]
    keys = path.place.tables[hop.child].keys
    names = path.asked if level == 0 else _numbered(len(hop.columns))
    above = f"{our}asked" if level == 0 else f"{our}k{path.t}_{level}"
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
    keys = _numbered(len(path.hops[level].columns))
    statistics = path.named(of_time=False)
    parts = []
    if not time:
        listed = ", ".join([*keys, *path.carried])
        one = f"{path.place.prefix}m{path.t}_{level}"
        parts.append(f"{one} AS (SELECT {listed}, {_merged(statistics)} FROM {rows} w GROUP BY {listed})")
        rows = one
    table = path.place.tables[path.hops[level].parent]
    up = path.hops[level - 1].below
    above = path.time_of(path.hops[level].parent)
    times = [part for part in ("m.t" if time else None, above) if part]
    latest = times[0] if len(times) == 1 else f"GREATEST({', '.join(times)})"
    chosen = _keys(table, up) + ([f"{latest} AS t"] if times else [])
    chosen += [f"m.{name}" for name in (*path.carried, *(name for _, name in statistics))]
    same = " AND ".join(f"{table.keys[name]} = m.{key}" for name, key in zip(path.hops[level].above, keys))
    known = f" AND {_led_to(path, level - 1)}" if path.few else ""
    parts.append(f"{path.place.prefix}r{path.t}_{level} AS (SELECT {', '.join(chosen)} "
                 f"FROM {table.item} b JOIN {rows} m ON {same}{_known(table, up, above)}{known})")
    return parts, "t" if times else None


def _until_dates(path: Path, keys: Sequence[str]) -> list[str]:
    """Return the expressions from rows with a time to f<number>, a row for each key and date that is asked.

    ``seg`` counts the dates of a key from the latest one back to a row: the first date that may see the row.
    """
    t = path.t
    our = path.place.prefix
    listed = ", ".join(keys)
    dates = ", ".join(f"a.{name} AS {key}" for name, key in zip(path.asked, keys))
    there = " AND ".join(f"a.{name} IS NOT NULL" for name in path.asked)
    empty = ", ".join("NULL" for _ in path.held)
    between = ", ".join(f"{AGGREGATE[s.merge]}(CASE WHEN later = 1 THEN {value} END) AS {name}"
                        for s, value, name in zip(path.statistics, path.of_rows, path.names))
    back = f"OVER (PARTITION BY {listed} ORDER BY t DESC, later DESC ROWS UNBOUNDED PRECEDING)"
    forward = f"OVER (PARTITION BY {listed} ORDER BY seg DESC ROWS UNBOUNDED PRECEDING)"
    total = ", ".join(f"{AGGREGATE[s.merge]}({name}) {forward} AS {name}"
                      for s, name in zip(path.statistics, path.names))
    return [
        f"{our}e{t} AS (SELECT {listed}, t, 1 AS later, CAST(NULL AS {path.place.dialect.double}) AS due, "
        f"{', '.join(path.held)} FROM {our}w{t} w UNION ALL SELECT {listed}, t, 0, t, {empty} "
        f"FROM (SELECT DISTINCT {dates}, a.t FROM {our}asked a WHERE {there}) q)",
        f"{our}n{t} AS (SELECT e.*, SUM(1 - later) {back} AS seg FROM {our}e{t} e)",
        f"{our}g{t} AS (SELECT {listed}, seg, MAX(CASE WHEN later = 0 THEN due END) AS t, "
        f"{between} FROM {our}n{t} w WHERE seg > 0 GROUP BY {listed}, seg)",
        f"{our}f{t} AS (SELECT {listed}, t, {total} FROM {our}g{t} g)",
    ]


def _until_latest(path: Path, keys: Sequence[str], timed: bool) -> str:
    """Return the expression f<number>: statistics of the rows before the latest date of a key; hashes are of times too.
    """
    our = path.place.prefix
    dates = ", ".join(f"{name} AS {key}" for name, key in zip(path.asked, keys))
    latest = f"SELECT {dates}{', MAX(t) AS t' if timed else ''} FROM {our}asked a GROUP BY {', '.join(path.asked)}"
    same = " AND ".join([f"a.{key} = r.{key}" for key in keys] + (["r.t < a.t"] if timed else []))
    added = {name: path.place.dialect.hashed.format(f"r.{name}, r.t") if timed and s.of == "hash" else f"r.{name}"
             for s, name in zip(path.statistics, path.names)}
    listed = ", ".join(f"r.{key}" for key in keys)
    summed = ", ".join(f"SUM({value}) AS {name}" for name, value in added.items())
    return (f"{our}f{path.t} AS (SELECT {listed}, {summed} FROM {our}r{path.t} r JOIN ({latest}) a ON {same} "
            f"GROUP BY {listed})")


def _in_windows(path: Path, keys: Sequence[str]) -> list[str]:
    """Return the expressions that end in b<number>: statistics of the rows in windows before each key and date.

    Rows meet the dates of their key; c counts the rows of a key up to the time of a row, s0 those before a date.
    """
    t = path.t
    our = path.place.prefix
    listed = ", ".join(keys)
    tests = {one.window: _inside(path, one) for one in path.ranged}
    chosen = [f"{AGGREGATE[one.merge]}(CASE WHEN {tests[one.window]} THEN {_term(path, one)} END) AS b{j}"
              for j, one in enumerate(path.ranged)]
    near = " OR ".join(tests.values())
    same = " AND ".join(f"w.{key} = f.{key}" for key in keys)
    by = ", ".join([*(f"f.{key}" for key in keys), "f.t"])
    up = ", ".join(["w.t", *(f"w.{name}" for name in path.carried)])
    row = path.of_rows[0]
    counted = [f"{our}c{t} AS (SELECT w.*, SUM({row}) OVER (PARTITION BY {listed} ORDER BY {up}) AS c FROM {our}w{t} w)"
               for _ in range(any(one.window.rows for one in path.ranged))]
    return [*counted, f"{our}b{t} AS (SELECT {by}, {', '.join(chosen)} FROM {our}f{t} f JOIN {our}"
                      f"{'c' if counted else 'w'}{t} w ON {same} AND w.t < f.t AND ({near}) GROUP BY {by})"]


def _inside(path: Path, one: Ranged) -> str:
    """Return the condition that a row w is in a window before a date f."""
    if one.window.text == "":
        return "1 = 1"
    size = path.place.dialect.number(one.window.size)
    return f"w.c > f.s0 - {size}" if one.window.rows else f"w.t >= f.t - {size}"


def _term(path: Path, one: Ranged) -> str:
    """Return what is added up, or compared, of a row w before a date f."""
    base = path.of_rows[[s.name for s in path.statistics].index(one.base)]
    if one.merge == "SUM" or not one.power:
        return " * ".join([base] + ["(w.t - f.t)"] * one.power)
    return f"CASE WHEN {base} > {path.place.dialect.number(0.0)} THEN w.t - f.t END"


def _numbered(n: int) -> list[str]:
    return [f"k{j}" for j in range(n)]


def _keys(table: SqlTable, names: Sequence[str]) -> list[str]:
    return [f"{table.keys[name]} AS k{j}" for j, name in enumerate(names)]


def _known(table: SqlTable, keys: Sequence[str], time: str | None) -> str:
    tests = [f"{table.keys[name]} IS NOT NULL" for name in keys] + ([f"{time} IS NOT NULL"] if time else [])
    return f" WHERE {' AND '.join(tests)}"


def _merged(named: Sequence[tuple[Statistic, str]]) -> str:
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
        category = dialect.text(statistic.category)
        return f"CASE WHEN {table.values[statistic.by]} = {category} THEN {value} END"
    if statistic.of == "category":
        return _is(value, statistic.category, dialect)
    if statistic.of == "known":
        return f"CASE WHEN {value} IS NOT NULL THEN {one} ELSE {dialect.number(0.0)} END"
    if statistic.merge == "LAST":
        late = dialect.array.format(", ".join([str(table.time), *table.order, value]))
        return f"CASE WHEN {value} IS NOT NULL AND {table.time} IS NOT NULL THEN {late} END"
    less = f"({value} - {dialect.number(statistic.center)})"
    return {"value": value, "centred": less, "square": f"{less} * {less}"}[statistic.of]


def _is(value: str, category: str, dialect: Dialect) -> str:
    return f"CASE WHEN {value} = {dialect.text(category)} THEN {dialect.number(1.0)} ELSE {dialect.number(0.0)} END"


def expression(feature: Feature, path: Path) -> str:
    """Return the expression of a feature from f<number> and b<number>, NULL where an entity has no value."""
    read = {s.name: f"f{path.t}.{name}" for s, name in zip(path.statistics, path.names)}
    read |= {one.name: f"b{path.t}.b{j}" for j, one in enumerate(path.ranged)}
    of = {letter: read[name] for letter, name in letters_of(feature).items()}
    if "p" in of:
        of["p"] = path.place.dialect.item.format(of["p"], 2 + len(path.place.tables[path.number].order))
    number = path.place.dialect.number
    value = WORDS[feature.word].sql.format(t="a.t", u=number(path.day), zero=number(0.0), one=number(1.0), **of)
    if feature.whole is None:
        return value
    return f"({value}) / NULLIF({expression(feature.whole, path)}, {number(0.0)})"


def own_expression(feature: Feature, table: SqlTable, dialect: Dialect) -> str:
    """Return the expression of a feature of the label table's own row, of the alias b of its table."""
    if feature.word in WORDS:
        return WORDS[feature.word].sql.format(t=table.time, turn=dialect.number(TURN))
    value = table.values[feature.column]
    return value if feature.function == "value" else _is(value, feature.category, dialect)


def whole(asked: str, paths: Iterable[Path], chosen: Sequence[str], prefix: str) -> tuple[list[str], str]:
    """Return the SELECT of ``chosen`` expressions over "asked a" and the statistics of every path, and what is before.

    That are its common table expressions. ``asked`` is the SELECT of the entities, ``prefix`` that of every path.
    """
    parts = [f"{prefix}asked AS ({asked})"]
    joined = [f"{prefix}asked a"]
    for path in paths:
        more, dated = path_parts(path)
        parts += more
        tests = [f"a.{name} = f{path.t}.k{j}" for j, name in enumerate(path.asked)]
        tests += [f"a.t = f{path.t}.t"] if dated else []
        joined.append(f"LEFT JOIN {prefix}f{path.t} f{path.t} ON {' AND '.join(tests)}")
        if path.ranged:
            near = " AND ".join(test.replace(f" f{path.t}.", f" b{path.t}.") for test in tests)
            joined.append(f"LEFT JOIN {prefix}b{path.t} b{path.t} ON {near}")
    return parts, f"SELECT {', '.join(chosen)} FROM {' '.join(joined)}"
