"""Tables whose columns in use are read here and kept in a DuckDB of our own, wherever they came from.

Keys are compared here, whatever values they are, and stand there as numbers; times and orders do as well.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from buttress._checks import Array
from buttress.relational.declare import Join, Pair
from buttress.relational.entities.paths import Hop, check_keys, links, order_of, used
from buttress.relational.entities.text import DatabasePlace, SqlTable, given
from buttress.relational.plan.keys import codes_of, columns_of, largest
from buttress.relational.plan.plan import Index
from buttress.relational.plan.shape import attributes
from buttress.relational.plan.times import delay_of, moments
from buttress.relational.sources.columns import Column, make_column
from buttress.relational.sources.databases import Connection, reading
from buttress.relational.sources.deadline import heard
from buttress.relational.sources.dialects import DUCKDB
from buttress.relational.sources.tables import read_columns
from buttress.relational.sql.plan import spilling

HeldColumns = dict[str, Column]


def kept_here(
    join: Join, paths: Mapping[int, list[Hop]], asked: HeldColumns, memory: float
) -> tuple[DatabasePlace, HeldColumns]:
    """Return the tables on the ``paths`` as a DuckDB of ``memory`` megabytes has them, and ``asked`` with its keys.

    One thread adds up: sums then follow from the rows alone.
    """
    columns = {join.root: asked} | {t: read_columns(join.tables[t].source, used(join, paths, t)) for t in paths}
    check_keys(join, paths, columns, lambda t, name: largest(columns[t][name]))
    keys = {place: make_column(codes, codes < 0) for place, codes in _key_codes(paths, columns).items()}
    connection = spilling(memory)
    heard(lambda: connection.execute("SET threads = 1"), None)
    tables = {t: _kept(connection, join, t, columns[t], {name: key for (at, name), key in keys.items() if at == t})
              for t in paths}
    place = DatabasePlace(connection, DUCKDB, tables, {t: columns[t] for t in paths})
    return place, asked | {name: key for (t, name), key in keys.items() if t == join.root}


def _key_codes(paths: Mapping[int, list[Hop]], columns: Mapping[int, HeldColumns]) -> dict[tuple[int, str], Index]:
    """Return the keys of (table, column) as numbers, equal where keys are and -1 where they are NULL."""
    pairs = [Pair((hop.parent, above), (hop.child, below), False) for hop in links(paths)
             for above, below in hop.columns]
    found = {(t, name): np.full(len(columns[t][name].null), -1) for pair in pairs
             for t, name in (pair.first, pair.second)}
    valued = [[(t, name) for t, name in (pair.first, pair.second) if not columns[t][name].null.all()] for pair in pairs]
    for attribute in attributes([Pair(places[0], places[-1], False) for places in valued if places]):
        places = columns_of(attribute)
        found.update(zip(places, codes_of([columns[t][name] for t, name in places]), strict=True))
    return found


def _kept(connection: Connection, join: Join, t: int, columns: HeldColumns, keys: HeldColumns) -> SqlTable:
    """Keep a table's ``keys``, its features, when its rows became known and their order; return how these read."""
    table = join.tables[t]
    features = [name for name in table.features  # a column without a value may be of any type
                if columns[name].kind in ("number", "text") or columns[name].null.all()]
    held = {f"k{j}": key for j, key in enumerate(keys.values())}
    held |= {f"v{j}": columns[name] if columns[name].kind == "text" else make_column(numbers(columns[name]))
             for j, name in enumerate(features)}
    if table.time is not None:
        time = columns[table.time]
        held["t"] = make_column(moments(time, f"Time {table.name}.{table.time}") + delay_of(table, time))
    order = order_of(join, t, columns, lambda t, name: largest(columns[name]))
    if order is not None:
        held["o"] = make_column(order)
    read, arrays = given(list(held.values()))
    chosen = ", ".join(f"{value} AS {name}" for name, value in zip(held, read, strict=True))
    with reading(connection, DUCKDB):
        heard(lambda: connection.register("given", arrays), None)
        heard(lambda: connection.execute(f"CREATE TABLE rows{t} AS SELECT {chosen} FROM given"), connection.interrupt)
        heard(lambda: connection.unregister("given"), None)
    return SqlTable(f"rows{t}", {name: f"b.k{j}" for j, name in enumerate(keys)},
                    {name: f"b.v{j}" for j, name in enumerate(features)}, "b.t" if "t" in held else None,
                    [f"b.{name}" for name in held if name == "o"], [f"b.{name}" for name in held])


def most_frequent(column: Column, limit: int) -> list[str]:
    """Return the ``limit`` most frequent values of text, of equally frequent ones the first in order; sorted."""
    counts = Counter(column.values[~column.null].tolist())
    return sorted(sorted(counts, key=lambda value: (-counts[value], value))[:limit])


def numbers(column: Column) -> Array:
    """Return a column's numbers, NaN where NULL."""
    whole = np.where(column.null, np.zeros(1, column.values.dtype), column.values)
    return np.where(column.null, np.nan, whole.astype(np.float64))
