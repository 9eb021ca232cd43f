"""Rows of numbers from a database, a block after the other, so that they are never all in memory."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from itertools import islice
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.relational.sources.databases import (
    Connection,
    postgres_cursor,
    reading,
    stand_in,
)
from buttress.relational.sources.deadline import heard
from buttress.relational.sources.dialects import DUCKDB, POSTGRES, Dialect

BLOCK_ROWS = 20_000  # rows of a block, about: each is a few megabytes


def number_blocks(connection: Connection, statement: str, dialect: Dialect, width: int, name: str = "",
                  arrays: Mapping[str, NDArray[Any]] | None = None) -> Iterator[Array]:
    """Yield the rows of a SELECT of ``width`` 64-bit floats, none of them NULL, as arrays (rows, width).

    DuckDB reads ``arrays`` where they are, as a table ``name``.
    """
    place = stand_in(connection, dialect)
    with reading(place, dialect):
        if dialect is DUCKDB:
            yield from _duckdb_blocks(place, statement, name, arrays)
        elif dialect is POSTGRES:
            yield from _postgres_blocks(place, statement, width)
        else:
            yield from _spark_blocks(place, statement)


def _duckdb_blocks(connection: Connection, statement: str, name: str,
                   arrays: Mapping[str, NDArray[Any]] | None) -> Iterator[Array]:
    """Yield the rows as they are made; ``arrays`` are a view of the connection until they are."""
    # DuckDB 1 keeps a result that the user has not fetched yet beside sql() alone; 2 has told of it, in stand_in
    abort = getattr(connection, "abort", None)
    run = connection.execute if abort else connection.sql
    try:
        if arrays:
            heard(lambda: connection.register(name, arrays), None)
        result: Any = heard(lambda: run(statement), connection.interrupt)
        # DuckDB hands over columns by pandas many times faster than rows, in vectors of 2048 rows
        fetched = partial(result.fetch_df_chunk, BLOCK_ROWS // 2048) if find_spec("pandas") else \
            partial(result.fetchmany, BLOCK_ROWS)
        while len(rows := heard(fetched, connection.interrupt)):
            yield np.asarray(rows, dtype=np.float64)
    finally:
        with suppress(Exception):  # the view goes with a transaction that has failed
            if abort:  # the rest of a result that nobody reads would be in the way of all that comes, even of ROLLBACK
                heard(abort, None)
            if arrays:
                heard(lambda: connection.unregister(name), None)  # here DuckDB would end it at Ctrl-C


def _postgres_blocks(connection: Connection, statement: str, width: int) -> Iterator[Array]:
    """Read PostgreSQL's binary format, in which rows of 64-bit floats have one length, up to a row of -1 columns."""
    columns = [("n", ">i2")] + [(f"{part}{j}", kind) for j in range(width) for part, kind in (("l", ">i4"),
                                                                                         ("v", ">f8"))]
    row = np.dtype(cast(Any, columns))
    with postgres_cursor(connection) as cursor, cursor.copy(f"COPY ({statement}) TO STDOUT (FORMAT BINARY)") as copy:
        held = bytearray()
        skip = 19  # signature, flags and the length of what else comes first
        end = 2
        for part in copy:
            held += part
            if len(held) >= BLOCK_ROWS * row.itemsize:
                whole = (len(held) - skip - end) // row.itemsize  # the last bytes may be the end of the rows
                yield _floats(held, row, skip, whole, width)
                del held[:skip + whole * row.itemsize]
                skip = 0
        whole = (len(held) - skip - end) // row.itemsize
        if whole > 0:
            yield _floats(held, row, skip, whole, width)


def _floats(held: bytearray, row: Any, skip: int, whole: int, width: int) -> Array:
    found = np.frombuffer(bytes(held[skip:skip + whole * row.itemsize]), dtype=row)
    if any((found[f"l{j}"] != 8).any() for j in range(width)):
        raise ValueError("PostgreSQL gave NULL for a number of the join. Fill it, or use missing='mean'.")
    return np.column_stack([found[f"v{j}"].astype(np.float64) for j in range(width)])


def _spark_blocks(spark: Connection, statement: str) -> Iterator[Array]:
    rows = iter(spark.sql(statement).toLocalIterator())
    while held := [tuple(row) for row in islice(rows, BLOCK_ROWS)]:
        yield np.array(held, dtype=np.float64)
