"""Where the tables of a join live in SQL, and the tree of FROM items that counting is written over."""

import re
import tempfile
import weakref
from collections.abc import Sequence
from functools import partial

import numpy as np

from buttress.relational.checks import check_bag, check_dates, check_seen, used_columns
from buttress.relational.declare import Join, Pair, Table, key_columns
from buttress.relational.plan.shape import Shape, find_shape
from buttress.relational.plan.times import AT, check_times, delay_of, moments, steps_to, times_of
from buttress.relational.sources.columns import Column, make_column, objects
from buttress.relational.sources.databases import Connection, Item, item_of, select
from buttress.relational.sources.deadline import heard
from buttress.relational.sources.dialects import DUCKDB, Dialect, dialect_of, is_zoned
from buttress.relational.sources.files import connect_duckdb, is_files, scan_of
from buttress.relational.sources.tables import column_names, gathered, under_own_names
from buttress.relational.sql.text import SqlNode, SqlTree, as_number, own_prefix

KIND_ROWS = 100  # rows read of a column to learn what kind of values it holds
LEAST_MEMORY = 200  # megabytes without which DuckDB cannot sort or join
VALUE_MEGABYTES = 8e-6  # megabytes of a value: a 64-bit float or integer
TYPES = (("bool", "bool"), (r"u?(tiny|small|big|huge)?int(eger)?$", "int64"),
         ("numeric|decimal|real|float|double", "float64"),
         ("timestamp|date$", "datetime64[us]"), ("time|interval", "timedelta64[us]"))  # others read as text
QuotedNames = dict[tuple[int, str], str]  # (table, column) -> its quoted name in the node that holds the table


def sql_home(join: Join, pairs: Sequence[Pair], memory: float) -> tuple[Connection, Dialect, list[Item]]:
    """Return the connection of a join's tables, its dialect and each table as an item; see ``home_of``."""
    times = times_of(join, join.root)
    used = [dict.fromkeys([*used_columns(t, key_columns(pairs, i)), *filter(None, [times.get(i)])])
            for i, t in enumerate(join.tables)]
    return home_of(join.tables, [list(names) for names in used], memory)


def seen_items(join: Join, pairs: list[Pair], connection: Connection, dialect: Dialect,
               items: list[Item]) -> tuple[list[Pair], list[Item]]:
    """Return the pairs and items of a join whose rows are limited in time, as of one that need not be.

    As :func:`see` has it, the items of tables on the way to those with a time hold a row once for each date that sees
    it.
    """
    times = times_of(join, join.root)
    steps = steps_to(times, pairs, join.root)
    if not steps:
        return pairs, items
    samples = {t: typed_sample(connection, dialect, items[t], [name])[name] for t, name in times.items()}
    check_times({f"{join.tables[t].name}.{name}": samples[t] for t, name in times.items()})
    for t, name in times.items():  # text is refused
        moments(samples[t], f"as_of={join.as_of!r}" if t == join.root else f"Time {join.tables[t].name}.{name}")
    found = list(items)
    root = found[join.root]
    at = root.columns[times[join.root]]
    found[join.root] = Item(root.text, {**root.columns, AT: at})
    when = as_moment(at, samples[join.root], dialect)
    unknown, most = select(connection, f"SELECT COUNT(*) - COUNT({when}), MAX(ABS({when})) FROM {root.text} q",
                           dialect)[0]
    check_dates(join, int(unknown), float(most or 0) if samples[join.root].kind == "number" else 0.0)
    own = own_prefix([f"{item.text} {' '.join(item.columns.values())}" for item in items])
    for near, far in (step.ends for step in steps):
        above = found[near]
        below = found[far]
        keys = [(above.columns[names[near]], below.columns[names[far]]) for names in
                (dict([pair.first, pair.second]) for pair in pairs) if names.keys() == {near, far}]
        tests = [f"b.{column} = d.{own}{j}" for j, (_, column) in enumerate(keys)]
        if far in times:
            late = dialect.number(delay_of(join.tables[far], samples[far]))
            known = as_moment(f"b.{below.columns[times[far]]}", samples[far], dialect)
            tests.append(f"{known} + {late} < {as_moment(f'd.{own}', samples[join.root], dialect)}")
        asked = [f"{column} AS {own}{j}" for j, (column, _) in enumerate(keys)]
        questions = f"SELECT DISTINCT {', '.join(asked)}, {above.columns[AT]} AS {own} FROM {above.text} q"
        held = ", ".join(f"b.{column}" for column in below.columns.values())
        text = f"(SELECT {held}, d.{own} FROM {below.text} b JOIN ({questions}) d ON {' AND '.join(tests)})"
        check_seen(join, far, int(select(connection, f"SELECT COUNT(*) FROM {text} q", dialect)[0][0]))
        found[far] = Item(text, {**below.columns, AT: own})
    return [*pairs, *steps], found


def as_moment(quoted: str, sample: Column, dialect: Dialect) -> str:
    """Return the expression of a date or time as the number that orders it, NULL where it is missing."""
    if sample.kind == "time":  # DuckDB has no functions of times to the nanosecond with a time zone
        return dialect.moment.format(f"CAST({quoted} AS {dialect.instant})" if sample.zoned else quoted)
    return as_number(quoted, sample, dialect, nan_is_null=True)


def home_of(
    tables: Sequence[Table], used: Sequence[Sequence[str]], memory: float
) -> tuple[Connection, Dialect, list[Item]]:
    """Return the connection of tables whose columns ``used`` are read, its dialect and each table as an item.

    A DuckDB of our own takes ``memory`` megabytes, or the least it can work with, and spills to disk beyond. Raises
    ValueError when the tables live in more than one database.
    """
    connections = {id(table.source[0]): table.source[0] for table in tables if isinstance(table.source, tuple)}
    if len(connections) > 1 or (connections and not all(isinstance(t.source, tuple) for t in tables)):
        raise ValueError("Engines 'sql' and 'stream' need all tables in one database, or none in any. Use "
                         "engine='memory', or copy the tables into one database.")
    if connections:
        connection = next(iter(connections.values()))
        dialect = dialect_of(connection)
        return connection, dialect, [_as_written(connection, dialect, item_of(dialect, t.source[1], names))
                                     for t, names in zip(tables, used) if isinstance(t.source, tuple)]
    database = spilling(memory)
    items = []
    for i, table in enumerate(tables):
        if is_files(table.source):
            items.append(Item(f"({scan_of(table.source)})", {name: DUCKDB.quote(name) for name in used[i]}))
        elif not isinstance(table.source, tuple):
            read = list(used[i]) or column_names(table.source)[:1]
            frame, columns = under_own_names(gathered(table.source, read), read)
            heard(partial(database.register, f"frame{i}", frame), None)
            items.append(Item(f"frame{i}", columns))
    return database, DUCKDB, items


def _as_written(connection: Connection, dialect: Dialect, item: Item) -> Item:
    """Return an item whose texts are equal only where they are written alike, whatever collation DuckDB has for them.
    """
    columns = list(item.columns.values()) if dialect is DUCKDB else []
    kinds = select(connection, f"DESCRIBE SELECT {', '.join(columns)} FROM {item.text} q", DUCKDB) if columns else []
    texts = [f'{name} COLLATE "binary" AS {name}' for name, kind in zip(columns, kinds) if kind[1] == "VARCHAR"]
    return Item(f"(SELECT * REPLACE ({', '.join(texts)}) FROM {item.text})", item.columns) if texts else item


def column_sample(connection: Connection, dialect: Dialect, item: Item, names: Sequence[str]) -> dict[str, Column]:
    """Read up to KIND_ROWS values of each named column that are not NULL, to learn what kind they are."""
    if not names:
        return {}
    quoted = {name: item.columns[name] for name in names}
    zoned = set()
    if dialect is DUCKDB:  # which hands over what it holds with a time zone only by another library
        kinds = select(connection, f"DESCRIBE SELECT {', '.join(quoted.values())} FROM {item.text} q", DUCKDB)
        zoned = {name for name, row in zip(quoted, kinds) if is_zoned(row[1])}
    quoted |= {name: f"make_timestamp(epoch_us(CAST({quoted[name]} AS {dialect.instant})))" for name in zoned}
    rows = select(connection, f"SELECT {', '.join(quoted.values())} FROM {item.text} q LIMIT {KIND_ROWS}", dialect)
    read = list(zip(*rows)) if rows else [()] * len(names)
    out = {name: make_column(objects(values), zoned=name in zoned) for name, values in zip(names, read)}
    for name in [name for name in names if out[name].null.all() and rows]:
        more = select(connection, f"SELECT {quoted[name]} FROM {item.text} q WHERE {quoted[name]} IS NOT NULL "
                                  f"LIMIT {KIND_ROWS}", dialect)
        out[name] = make_column(objects([row[0] for row in more]), zoned=name in zoned)
    return out


def typed_sample(connection: Connection, dialect: Dialect, item: Item, names: Sequence[str]) -> dict[str, Column]:
    """Return ``column_sample``, with one value of the type of each column that holds none: for a SELECT that is kept.

    What such a SELECT finds when it is run may be more than NULL.
    """
    out = column_sample(connection, dialect, item, names)
    for name in [name for name in names if out[name].null.all()]:
        held = f"(SELECT {item.columns[name]} FROM {item.text} q LIMIT 1)"  # NULL of that type where there is no row
        kind = str(select(connection, f"SELECT {dialect.type_of.format(held)}", dialect)[0][0])
        out[name] = make_column(np.zeros(1, next((dtype for pattern, dtype in TYPES if re.match(pattern, kind, re.I)),
                                                 "str")))
    return out


def spilling(memory: float) -> Connection:
    """Return a DuckDB in memory that spills to a folder of its own, removed with the connection."""
    connection = connect_duckdb()
    folder = tempfile.TemporaryDirectory(prefix="buttress-", ignore_cleanup_errors=True)
    weakref.finalize(connection, folder.cleanup)
    heard(lambda: connection.execute(f"SET temp_directory = {DUCKDB.text(folder.name)}; "
                                     f"SET memory_limit = '{int(max(memory, LEAST_MEMORY))}MB'"), None)
    return connection


def sql_tree(join: Join, pairs: Sequence[Pair], items: Sequence[Item], connection: Connection, dialect: Dialect,
             per_label_row: bool) -> tuple[SqlTree, QuotedNames, list[int]]:
    """Return the tree, the names of the columns in use, and the node of each table.

    A bag of keys that breaks a cycle is a FROM item without a table: the distinct keys that its tables admit. Where the
    cycle runs beside a left join, it is a group of tables: their join. Both are refused beyond ``max_bag_rows``.
    """
    def counted(item: str) -> int:
        return int(select(connection, f"SELECT COUNT(*) FROM {item} q", dialect)[0][0])

    shape = find_shape(join, pairs, join.root, lambda: [np.log(max(counted(item.text), 1)) for item in items])
    nodes = []
    columns = {}
    for bag, tables in enumerate(shape.bags):
        if tables:
            item, here = _item(join, shape, bag, items)
            columns.update(here)
            held = {a: [here[t, name] for t in tables for name in shape.attributes[a].get(t, [])]
                    for a in sorted(shape.shared[bag])}
        else:
            item, held = _keys_item(shape, bag, items)
        if len(tables) != 1:
            check_bag(join, tables or _touched(shape, bag), counted(item))
        parent = shape.tree.parent[bag]
        nodes.append(SqlNode(item, held, parent, [c for c, p in enumerate(shape.tree.parent) if p == bag],
                             shape.edge(bag), bag in shape.optional,
                             {a for t, a in shape.kept if t in tables}))
    if per_label_row and len(shape.bags[shape.tree.order[0]]) > 1:
        raise ValueError("row_weight='label_row' inside a database needs the label's table outside the join's cycle. "
                         "Use engine='memory', or row_weight='join'.")
    node_of = [next(b for b, tables in enumerate(shape.bags) if t in tables) for t in range(len(join.tables))]
    return SqlTree(nodes, shape.tree.order, dialect, per_label_row), columns, node_of


def _keys(shape: Shape, table: int) -> list[str]:
    return [name for attribute in shape.attributes for name in attribute.get(table, [])]


def _item(join: Join, shape: Shape, bag: int, items: Sequence[Item]) -> tuple[str, QuotedNames]:
    """Return the FROM item of a bag and what its columns are called there."""
    tables = shape.bags[bag]
    used = [(t, name) for t in tables for name in used_columns(join.tables[t], _keys(shape, t))]
    if len(tables) == 1:
        return items[tables[0]].text, {(t, name): items[t].columns[name] for t, name in used}
    alias = {key: f"c{j}" for j, key in enumerate(used)}
    listed = ", ".join(f"b{t}.{items[t].columns[name]} AS {short}" for (t, name), short in alias.items())
    equal = []
    for group in shape.attributes:
        equals = [f"b{t}.{items[t].columns[name]}" for t in tables for name in group.get(t, [])]
        equal += [f"{equals[0]} = {other}" for other in equals[1:]]
    sources = ", ".join(f"{items[t].text} b{t}" for t in tables)
    return f"(SELECT {listed} FROM {sources} WHERE {' AND '.join(equal)})", dict(alias)


def _touched(shape: Shape, bag: int) -> list[int]:
    """Return the tables, none of them on the right of a left join, that hold a key of the bag."""
    found = {t for a in shape.bound[bag] for t in shape.attributes[a]}
    return sorted(found - shape.right_tables)


def _keys_item(shape: Shape, bag: int, items: Sequence[Item]) -> tuple[str, dict[int, list[str]]]:
    """Return the FROM item of a bag of keys, and its key columns.

    Each table gives its distinct keys of the bag, and the item is their join: every combination once.
    """
    parts = []
    place: dict[int, str] = {}
    equal = []
    for t in _touched(shape, bag):
        names = {a: [items[t].columns[name] for name in shape.attributes[a][t]]
                 for a in sorted(shape.bound[bag]) if t in shape.attributes[a]}
        listed = ", ".join(f"{first[0]} AS k{a}" for a, first in names.items())
        tests = [f"{first[0]} IS NOT NULL" for first in names.values()]
        tests += [f"{first[0]} = {other}" for first in names.values() for other in first[1:]]
        parts.append(f"(SELECT DISTINCT {listed} FROM {items[t].text} q{t} WHERE {' AND '.join(tests)}) p{t}")
        equal += [f"{place[a]} = p{t}.k{a}" for a in names if a in place]
        place = {a: f"p{t}.k{a}" for a in names} | place
    columns = ", ".join(f"{place[a]} AS k{a}" for a in sorted(place))
    tests_of_pairs = f" WHERE {' AND '.join(equal)}" if equal else ""
    return f"(SELECT {columns} FROM {', '.join(parts)}{tests_of_pairs})", {a: [f"k{a}"] for a in sorted(place)}
