"""Features of entities where the tables are: one SELECT, sent to the database that holds them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import LARGEST, Array
from buttress.relational.declare import Join, Table
from buttress.relational.entities.features import BETWEEN, ROWS, Feature, Statistic, ranged_of, statistics_of
from buttress.relational.entities.memory import HeldColumns, kept_here
from buttress.relational.entities.paths import Hop, asked_keys, blocks, check_keys, links, order_of, root_keys, used
from buttress.relational.entities.statement import expression, laid_out, own_expression, whole
from buttress.relational.entities.text import DatabasePlace, Path, SqlTable, given, numbered, texts
from buttress.relational.plan.keys import combine, encode, largest
from buttress.relational.plan.plan import Index
from buttress.relational.plan.times import DAY, delay_of
from buttress.relational.sources.blocks import number_blocks
from buttress.relational.sources.columns import Column, make_column
from buttress.relational.sources.databases import Item, failing, pinned_tables, postgres_cursor
from buttress.relational.sources.dialects import DUCKDB, POSTGRES, SPARK, Dialect
from buttress.relational.sql.plan import as_moment, column_sample, home_of, typed_sample
from buttress.relational.sql.text import as_number

FEW = 100  # entities that are looked up by their keys; of more, whole tables are read once
PAIRS = 1 << 21  # rows with those they meet on the way that are made at a time; or a table's rows
FEW_DATES = 2  # of a key, up to which pairs of rows and dates take neither database more time than an order of both


def find_place(join: Join, paths: Mapping[int, list[Hop]], numbers: Sequence[int], memory: float,
               owner: object = None, asked: Mapping[str, Column] | None = None) -> DatabasePlace:
    """Return where the tables with these numbers are, and how their columns in use read.

    ``asked`` are the columns of the rows that features are for; without them, it is for a SELECT that is kept.
    Tables of Spark, which has no transactions, are read once for an ``owner``, and kept as long as it lives.
    """
    as_of = {join.root: join.find_column(join.date)[1]} if join.date is not None else {}
    columns = {t: list(dict.fromkeys([*used(join, paths, t), *filter(None, [as_of.get(t)])])) for t in numbers}
    connection, dialect, items = home_of([join.tables[t] for t in numbers], [columns[t] for t in numbers], memory)
    if dialect is SPARK and owner is not None:
        items = pinned_tables(owner, connection, items)
    sample = typed_sample if asked is None else column_sample
    samples = {t: sample(connection, dialect, item, columns[t]) for t, item in zip(numbers, items)}
    texts = _text_columns(paths, samples if asked is None else {**samples, join.root: asked})
    tables = {t: _sql_table(join.tables[t], item, samples[t], as_of.get(t), dialect,
                            [name for name in samples[t] if (t, name) in texts]) for t, item in zip(numbers, items)}
    return DatabasePlace(connection, dialect, tables, samples)


def _text_columns(paths: Mapping[int, list[Hop]], samples: Mapping[int, Mapping[str, Column]]) -> set[tuple[int, str]]:
    """Return (table, column) of text, and of columns without a value that are equal to one of text."""
    found = {(t, name) for t, columns in samples.items() for name, column in columns.items() if column.kind == "text"}
    pairs = {((hop.parent, above), (hop.child, below)) for hop in links(paths) for above, below in hop.columns}
    for _ in pairs:  # as far as a chain of them may reach
        found |= {(t, name) for pair in pairs if not found.isdisjoint(pair) for t, name in pair
                  if samples[t][name].null.all()}
    return found


def _sql_table(table: Table, item: Item, sample: dict[str, Column], as_of: str | None,
               dialect: Dialect, texts: Sequence[str]) -> SqlTable:
    """Return how columns of a table read; its time is ``as_of``, if it has that, else when its rows became known."""
    time = as_of or table.time
    quoted = {name: f"b.{item.columns[name]}" for name in sample}
    nan = dialect.number(np.nan)
    keys = {name: f"NULLIF({quoted[name]}, {nan})" if column.values.dtype.kind == "f" and not column.null.all()
            else f"CAST({quoted[name]} AS TEXT)" if name in texts and dialect is POSTGRES  # uuid, enum, char(n)
            else quoted[name] for name, column in sample.items()}
    values = {name: quoted[name] if sample[name].kind == "text"
              else as_number(quoted[name], sample[name], dialect, nan_is_null=True) for name in table.features}
    known = [as_moment(quoted[name], sample[name], dialect) if name in quoted else None for name in (time, table.order)]
    order = [f"COALESCE({number}, {dialect.number(-np.inf)})" for number in known[1:] if number]
    delay = delay_of(table, sample[time]) if time in sample and not as_of else 0.0
    late = f"({known[0]} + {dialect.number(delay)})" if delay else known[0]
    return SqlTable(item.text, keys, values, late, order, list(quoted.values()))


class InDatabase:
    """Aggregates of the tables of a join inside the database that holds all of them but the label's.

    ``paths`` are those of :func:`find_paths`, ``asked`` the columns of the rows that features are for, ``as_of`` their
    times or None, ``day`` a day in the unit of times. Files and frames, and with ``here`` the columns in use of any
    tables, are aggregated by a DuckDB of our own, within ``memory`` megabytes.
    """

    def __init__(self, join: Join, paths: Mapping[int, list[Hop]], asked: HeldColumns, as_of: Array | None, day: float,
                 memory: float, here: bool = False):
        self.join = join
        self.paths = paths
        self.as_of = as_of
        self.day = day
        self.keys = root_keys(paths)
        if here:
            self.place, self.asked = kept_here(join, paths, asked, memory)
        else:
            self.place = find_place(join, paths, list(paths), memory, self, asked)
            self.asked = asked | _typed(asked, join.root, links(paths), self.place.samples)
            check_keys(join, paths, {**self.place.samples, join.root: self.asked}, self._magnitude)
            for t in paths:
                order_of(join, t, self.place.samples[t], self._magnitude)
        self.columns = self.place.samples

    def moments_of(self, t: int, name: str) -> tuple[float, float, float]:
        """Return mean, deviation (of n) and largest magnitude of a column of numbers, of what the latest entity sees.
        """
        value = self.place.tables[t].values[name]
        small = f"CASE WHEN ABS({value}) <= {self.place.dialect.number(LARGEST)} THEN {value} END"
        chosen = f"AVG({small}), STDDEV_POP({small}), MAX(ABS({value}))"
        mean, deviation, most = self.place.select(f"SELECT {chosen} {self._rows_seen(t)}")[0]
        return float(mean or 0), float(deviation or 0), float(most or 0)

    def most_frequent(self, t: int, name: str, limit: int) -> list[str]:
        """Return the most frequent values of text, of what the latest entity sees."""
        value = f"CAST({self.place.tables[t].values[name]} AS {self.place.dialect.text_type})"
        ordered = f'{value} COLLATE "C"' if self.place.dialect is POSTGRES else value
        rows = self.place.select(f"SELECT {value}, COUNT(*) {self._rows_seen(t)} AND {value} IS NOT NULL "
                                 f"GROUP BY {value} ORDER BY COUNT(*) DESC, {ordered} LIMIT {limit}")
        return sorted(str(row[0]) for row in rows)

    def several(self, hop: Hop, t: int) -> bool:
        """Return whether a key of a hop has on average at least two rows of its table t that the latest entity sees."""
        keys = [self.place.tables[t].keys[name] for name in (hop.below if t == hop.child else hop.above)]
        known = "".join(f" AND {key} IS NOT NULL" for key in keys)
        rows = f"SELECT COUNT(*) AS n {self._rows_seen(t)}{known} GROUP BY {', '.join(keys)}"
        return float(self.place.select(f"SELECT AVG(n) FROM ({rows}) q")[0][0] or 0) >= 2

    def _rows_seen(self, t: int) -> str:
        """Return FROM and WHERE of the rows of a table that the latest entity sees."""
        table = self.place.tables[t]
        if self.as_of is None or table.time is None:
            return f"FROM {table.item} b WHERE 1 = 1"
        return f"FROM {table.item} b WHERE {table.time} < {self.place.dialect.number(float(self.as_of.max()))}"

    def values(self, features: Sequence[Feature], centers: Mapping[str, float]) -> Array:
        """Return the features' values, shape (n, n_features), NaN where an entity has no row with a value."""
        n = len(next(iter(self.asked.values())).null)
        paths = paths_of(self.join, self.paths, features, centers, self.place, self.day, self._paired)
        if not paths:
            return np.zeros((n, len(features)))
        chosen = [expression(feature, paths[feature.table, feature.per]) if (feature.table, feature.per) in paths
                  else "NULL" for feature in features]
        divided = self._blocks(list(paths.values()), n)
        if len(divided) == 1:
            return self._ask(paths.values(), chosen, np.arange(n), few=n <= FEW)
        out = np.zeros((n, len(features)))
        for here in divided:
            out[here] = self._ask(paths.values(), chosen, here, few=True)
        return out

    def seen(self, features: Sequence[Feature]) -> dict[str, Array]:
        """Return for each table what stands for the rows that the latest date of each entity's key sees, shape (n, 4).

        That is their number and the sum of their 64-bit hashes by two moduli, which together tell it whole (-1 where
        there are no rows), and the entity's own date, 0 without dates. A hash is of a row's columns in use, its time,
        and by how much it exceeds earlier rows, where ``features`` ask for that. Raises ValueError where a database
        has no hash.
        """
        n = len(next(iter(self.asked.values())).null)
        keys = np.column_stack([np.zeros(n), *(self._codes([name]) for name in self.keys)])  # 0 for all where no key is
        _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        which = which.reshape(-1)  # of two dimensions in NumPy 2.0
        asked = self.some(first)
        date = np.zeros(n) if self.as_of is None else self.as_of
        if asked.as_of is not None:
            np.maximum.at(asked.as_of, which, date)
        paths = self._hashed_paths(features)
        # what is left of a sum of hashes by these two numbers are floats, which together tell 106 bits
        chosen = [part for path in paths for part in (
            f"f{path.t}.s0", *(f"MOD(f{path.t}.s1, {modulus})" for modulus in (2**53, 2**53 - 1)))]
        found = np.nan_to_num(asked._ask(paths, chosen, np.arange(len(first)), len(first) <= FEW), nan=-1)[which]
        return {self.join.tables[path.number].name: np.column_stack([found[:, 3 * j : 3 * j + 3], date])
                for j, path in enumerate(paths)}

    def _hashed_paths(self, features: Sequence[Feature]) -> list[Path]:
        """Return the paths that count rows and add up their hashes; ValueError where a database has no hash."""
        if not self.place.dialect.hashed:
            raise ValueError("Rows are compared by hashes of DuckDB or PostgreSQL. Got tables of "
                             f"{self.place.dialect.name}. Leave known out (refresh), or read them from files.")
        place = self.place
        tables = {t: replace(table, values={  # an ENUM's hash would be of a number
            name: f"CAST({value} AS {place.dialect.text_type})" if place.samples[t][name].kind == "text" else value
            for name, value in table.values.items()}) for t, table in place.tables.items()}
        paths = []
        for t, hops in self.paths.items():
            mine = statistics_of([f for f in features if f.table == self.join.tables[t].name], {})
            wanted = [ROWS, Statistic("hash", "SUM", "hash"), *(one for one in mine if BETWEEN in one.column)]
            paths.append(Path(hops, [f"a{self.keys.index(key)}" for key in asked_keys(hops)], wanted, [],
                              replace(place, tables=tables), self.join.date is not None, self.day, latest=True))
        return paths

    def some(self, rows: Index) -> "InDatabase":
        """Return the same for some of the entities."""
        made = copy(self)
        made.asked = {name: replace(column, values=column.values[rows], null=column.null[rows])
                      for name, column in self.asked.items()}
        made.as_of = None if self.as_of is None else self.as_of[rows]
        return made

    def _ask(self, paths: Iterable[Path], chosen: Sequence[str], here: Index, few: bool) -> Array:
        """Return what is chosen for some entities, a row each; NULL is NaN. ``few`` reads no rows but theirs."""
        asked, arrays = self._asked_rows(here)
        place = self.place
        nan = place.dialect.number(np.nan)
        numbers = [f"COALESCE(CAST({value} AS {place.dialect.double}), {nan})" for value in ["a.i", *chosen]]
        parts, select = whole(asked, [replace(path, few=few) for path in paths], numbers, place.prefix)
        statement = f"WITH {', '.join(parts)} {select}"
        out = np.full((len(here), len(chosen)), np.nan)
        with self._by_index(len(here) <= FEW):
            for found in number_blocks(place.connection, statement, place.dialect, len(numbers), place.given, arrays):
                out[found[:, 0].astype(np.intp)] = found[:, 1:]
        return out

    def _blocks(self, paths: Sequence[Path], n: int) -> list[Index]:
        """Return the entities in blocks: rows limited in time, with those that lead there, are made of one at a time.
        """
        everything = np.arange(n)
        pairs = {path.number: replace(path, statistics=[ROWS], ranged=[], dated=False, per="") for path in paths
                 if any(path.time_of(hop.child) for hop in path.hops[1:])}
        if not pairs:
            return [everything]
        sizes = np.nansum(self._ask(pairs.values(), [f"f{path.t}.s0" for path in pairs.values()], everything, n <= FEW),
                          axis=1)
        if sizes.sum() <= PAIRS:
            return [everything]
        counts = [self.place.select(f"SELECT COUNT(*) FROM {table.item} b")[0][0]
                  for t, table in self.place.tables.items()]
        return blocks(self._codes(self.keys), sizes, max(PAIRS, *counts))

    def _codes(self, names: Sequence[str]) -> Index:
        """Return the keys of the entities as numbers, -1 where NULL."""
        asked = [self.asked if t == self.join.root else {} for t in range(len(self.join.tables))]
        return combine([encode(self.join, {self.join.root: [name]}, asked)[self.join.root] for name in names])

    def _paired(self, names: Sequence[str]) -> bool:
        """Return whether no key of these columns has more than a few dates."""
        if self.as_of is None:
            return False
        codes = self._codes(names)
        dates = np.unique(combine([codes, np.unique(self.as_of, return_inverse=True)[1]]), return_index=True)[1]
        return int(np.bincount(codes[dates] + 1)[1:].max(initial=0)) <= FEW_DATES

    @contextmanager
    def _by_index(self, few: bool) -> Iterator[None]:
        """Let PostgreSQL look rows up one by one, which a snapshot forbids it for the sake of whole tables.

        The setting goes with the savepoint.
        """
        if not few or self.place.dialect is not POSTGRES:
            yield
            return
        with failing(POSTGRES), postgres_cursor(self.place.connection) as cursor:
            cursor.execute("SAVEPOINT buttress_few")
            cursor.execute("SELECT set_config('enable_nestloop', 'on', true)")
            try:
                yield
            finally:
                if not self.place.connection.closed:
                    cursor.execute("ROLLBACK TO SAVEPOINT buttress_few")

    def _asked_rows(self, here: Index) -> tuple[str, dict[str, NDArray[Any]]]:
        """Return the SELECT of some entities: i, their number among these, keys a0, a1, ... and time t.

        DuckDB reads them from arrays, which are returned too, and other databases from the text.
        """
        dialect = self.place.dialect
        some = self.some(here)
        columns = {"i": make_column(np.arange(len(here)))}
        columns |= {f"a{j}": some.asked[name] for j, name in enumerate(self.keys)}
        if some.as_of is not None:
            columns["t"] = make_column(some.as_of)
        kinds = [_kind(column, dialect, name) for column, name in zip(columns.values(), ["i", *self.keys, "t"])]
        chosen = ", ".join(f"CAST(v{j} AS {kind}) AS {name}" for j, (name, kind) in enumerate(zip(columns, kinds)))
        if dialect is not DUCKDB:
            return f"SELECT {chosen} FROM ({dialect.listed([texts(column) for column in columns.values()])}) v", {}
        read, arrays = given(list(columns.values()))
        values = ", ".join(f"{value} AS v{j}" for j, value in enumerate(read))
        return f"SELECT {chosen} FROM (SELECT {values} FROM {self.place.given}) v", arrays

    def _magnitude(self, t: int, name: str) -> float:
        if t == self.join.root:
            return largest(self.asked[name])
        key = self.place.tables[t].keys[name]
        return float(self.place.select(f"SELECT MAX(ABS({key})) FROM {self.place.tables[t].item} b")[0][0] or 0)


def _typed(asked: Mapping[str, Column], root: int, hops: Iterable[Hop],
           samples: Mapping[int, Mapping[str, Column]]) -> dict[str, Column]:
    """Return keys of X without a value as columns of the type that they are compared with, still without a value."""
    equal = [(above, samples[hop.child][below]) for hop in hops if hop.parent == root for above, below in hop.columns]
    return {above: replace(like, values=np.zeros(len(asked[above].null), like.values.dtype), null=asked[above].null)
            for above, like in equal if asked[above].null.all() and not like.null.all()}


def _kind(column: Column, dialect: Dialect, name: str) -> str:
    """Return the SQL type that a column of X is sent as; ValueError for what cannot be."""
    kind = column.values.dtype.kind
    if kind == "M":
        if (column.values.astype("datetime64[us]") != column.values)[~column.null].any():
            raise ValueError(f"Key {name!r} of X holds times finer than a microsecond, which databases do not tell "
                             "apart. Round them, or use engine='memory'.")
        return dialect.instant if column.zoned else dialect.local
    if column.kind not in ("number", "text"):
        raise ValueError(f"Key {name!r} of X holds {column.kind}, which cannot be sent to a database. Use "
                         "engine='memory'.")
    types = {"b": "BOOLEAN", "i": "BIGINT", "u": "DECIMAL(20, 0)", "f": dialect.double}
    return types.get(kind, dialect.text_type)


def paths_of(join: Join, paths: Mapping[int, list[Hop]], features: Sequence[Feature],
             centers: Mapping[str, float], place: DatabasePlace, day: float,
             paired: Callable[[Sequence[str]], bool]) -> dict[tuple[str, str], Path]:
    """Return the paths that features need, by the name of the table and the column by whose values rows are one.

    ``paired`` says of columns of the label's table whether their keys have few dates.
    """
    keys = root_keys(paths)
    found = {}
    for t, hops in paths.items():
        name = join.tables[t].name
        few = join.date is not None and paired(asked_keys(hops))
        for tag, per in enumerate(dict.fromkeys(feature.per for feature in features if feature.table == name)):
            mine = [feature for feature in features if (feature.table, feature.per) == (name, per)]
            asked = [f"a{keys.index(key)}" for key in asked_keys(hops)]
            found[name, per] = Path(hops, asked, statistics_of(mine, centers), ranged_of(mine, day), place,
                                    join.date is not None, day, per, f"v{tag}" if per else "", paired=few)
    return found


def feature_select(join: Join, paths: Mapping[int, list[Hop]], features: Sequence[Feature],
                   centers: Mapping[str, float], fills: Array | None, columns: Sequence[str]) -> str:
    """Return the SELECT of ``columns`` of the label's table and the features of each of its rows, in lines."""
    place = find_place(join, paths, [join.root, *paths], 0.0)
    root = place.tables[join.root]
    dialect = place.dialect
    keys = root_keys(paths)
    own = [feature for feature in features if feature.table == join.tables[join.root].name]
    chosen = [f"b.{dialect.quote(name)} AS o{j}" for j, name in enumerate(columns)]
    chosen += [f"{root.keys[name]} AS a{j}" for j, name in enumerate(keys)]
    chosen += [f"{root.time} AS t"] if join.date is not None else []
    chosen += [f"{own_expression(feature, root, dialect)} AS x{j}" for j, feature in enumerate(own)]
    day = 1.0
    if join.date is not None and place.samples[join.root][join.find_column(join.date)[1]].kind == "time":
        day = DAY
    found = paths_of(join, paths, features, centers, place, day, lambda names: _few_dates(place, root, names))
    outside = [f"a.o{j} AS {dialect.quote(name)}" for j, name in enumerate(columns)]
    for j, feature in enumerate(features):
        value = f"a.x{own.index(feature)}" if feature in own else expression(feature, found[feature.table, feature.per])
        filled = value if fills is None else f"COALESCE({value}, {dialect.number(float(fills[j]))})"
        outside.append(f"{filled} AS {dialect.quote(feature.name)}")
    parts, select = whole(f"SELECT {', '.join(chosen)} FROM {root.item} b", found.values(), outside, place.prefix)
    return laid_out(parts, select, {t: table.name for t, table in enumerate(join.tables)}, place.prefix)


def _few_dates(place: DatabasePlace, root: SqlTable, names: Sequence[str]) -> bool:
    """Return whether no key of these columns of the label's table has more than a few dates, as it is now."""
    keys = numbered(len(names))
    chosen = ", ".join(f"{root.keys[name]} AS {key}" for name, key in zip(names, keys))
    known = " AND ".join(f"{root.keys[name]} IS NOT NULL" for name in names)
    dates = f"SELECT DISTINCT {chosen}, {root.time} AS t FROM {root.item} b WHERE {known}"
    return not place.select(f"SELECT 1 FROM ({dates}) q GROUP BY {', '.join(keys)} "
                            f"HAVING COUNT(*) > {FEW_DATES} LIMIT 1")
