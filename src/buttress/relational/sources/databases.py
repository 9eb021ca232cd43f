"""Databases as this package uses them: one SELECT at a time, all of a fit's from one snapshot, cancelled in time.

Only SELECT is ever sent, and what a read-only transaction or a savepoint needs around it. Nothing is written; arrays
that DuckDB reads in this process are a temporary view of the connection as long as a query runs.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np

from buttress.relational.sources.deadline import cancelled_in_time, heard
from buttress.relational.sources.dialects import DUCKDB, POSTGRES, SPARK, Dialect, dialect_of

LONGEST_LINE = 300  # characters of a line of a database's error that are shown
READ_ONLY = "TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"

Connection = Any  # of DuckDB or psycopg, or a Spark session: none need be installed, and dialect_of tells them apart


@dataclass(frozen=True)
class Item:
    """A table inside a database: what stands for it after FROM, and how each of its columns in use is written.

    Columns that go to a database are called c0, c1, ... there, for DuckDB and Spark do not tell names apart that
    differ in case alone; a user's own table has its own names.
    """

    text: str
    columns: Mapping[str, str]


def item_of(dialect: Dialect, table: str | tuple[str, ...], names: Iterable[str]) -> Item:
    """Return the item of a table that a database holds, with the named columns."""
    return Item(dialect.table(table), {name: dialect.quote(name) for name in names})


class SourceLostError(RuntimeError):
    """A database failed while a join was read or trained on: connection lost, table dropped, out of memory."""


class SourceChangedError(RuntimeError):
    """The rows of a join changed while it was read or trained on, so that nothing holds of any one state of them."""


# the connection that stands in for a user's while a snapshot is open, by the user's id
_OPEN: ContextVar[Mapping[int, Connection] | None] = ContextVar("open", default=None)


@contextmanager
def one_snapshot(connections: Iterable[Connection]) -> Iterator[None]:
    """Read every connection as it is now, whatever others commit until the block ends.

    A transaction that the user has open stays open. PostgreSQL: a read-only REPEATABLE READ transaction, shared by
    several connections to one database; where the user's own transaction is READ COMMITTED, SourceChangedError when
    anything was committed meanwhile. DuckDB: a transaction; on a connection of our own where the user's has a result
    that is not fetched yet. Spark has no transactions: each query reads what is there, but for :func:`pinned_tables`.
    """
    already = _OPEN.get() or {}
    fresh = {id(c): c for c in connections if id(c) not in already}
    exported: dict[tuple[Any, ...], str] = {}
    with ExitStack() as stack:
        places = dict(already)
        for key, connection in fresh.items():
            dialect = dialect_of(connection)
            places[key] = connection
            if dialect is DUCKDB:
                places[key] = stack.enter_context(_duckdb_snapshot(connection))
            elif dialect is POSTGRES:
                stack.enter_context(_postgres_snapshot(connection, exported, len(fresh) > 1))
        token = _OPEN.set(places)
        try:
            yield
        finally:
            _OPEN.reset(token)


def _busy(connection: Connection) -> bool:
    """Say whether a connection has a result that is not fetched yet, which another query on it would lose."""
    try:
        _duckdb_rows(connection, "SELECT 1")
    except Exception as error:
        return "ResourceInUse" in type(error).__name__
    return False


@contextmanager
def _duckdb_snapshot(connection: Connection) -> Iterator[Connection]:
    place = connection.cursor() if _busy(connection) else connection
    ours: list[bool] = []  # filled by another thread, whenever Ctrl-C comes
    try:
        with failing(DUCKDB):
            heard(lambda: ours.append(_begun(place)), None)
        yield place
    finally:
        if any(ours):
            heard(lambda: place.sql("ROLLBACK"), None)


def _begun(connection: Connection) -> bool:
    """Begin a transaction, and say so, unless the user has begun one, which is a snapshot too."""
    first, second = (connection.sql("SELECT txid_current()").fetchall() for _ in range(2))
    if first != second:
        connection.sql("BEGIN TRANSACTION")  # begin() would drop a result that is not fetched yet, in DuckDB 1
    return first != second


@contextmanager
def _postgres_snapshot(
    connection: Connection, exported: dict[tuple[Any, ...], str], shared: bool
) -> Iterator[None]:
    """Hold a snapshot; where it is ``shared``, ``exported`` keeps its name for more connections to the database."""
    if _status(connection) == "INTRANS":
        with _users_transaction(connection):
            yield
        return
    try:
        with failing(POSTGRES), cancelled_in_time(connection.cancel):
            place = (connection.info.host, connection.info.port, connection.info.dbname)
            _begin(connection, exported.get(place))
            if shared and place not in exported:
                exported[place] = _rows(connection, "SELECT pg_export_snapshot()", POSTGRES)[0][0]
        yield
    finally:
        with failing(POSTGRES):
            if not connection.closed:
                connection.rollback()


def _begin(connection: Connection, snapshot: str | None) -> None:
    """Begin a read-only transaction; psycopg begins one by itself where autocommit is off."""
    _run(connection, f"BEGIN {READ_ONLY}" if connection.autocommit else f"SET {READ_ONLY}")
    if snapshot is not None:
        _run(connection, f"SET TRANSACTION SNAPSHOT '{snapshot}'")
    # PostgreSQL has no statistics of what a pass makes on its way, and takes many rows for few or few for many: then it
    # joins by nested loops, which take too long on cycles, or compiles expressions, which costs more than it saves
    for name in ("jit", "enable_nestloop"):
        _run(connection, f"SELECT set_config('{name}', 'off', true) FROM pg_settings WHERE name = '{name}'")


@contextmanager
def _users_transaction(connection: Connection) -> Iterator[None]:
    """Read inside the user's transaction; SourceChangedError when it does not keep one snapshot and others commit."""
    isolation = select(connection, "SELECT current_setting('transaction_isolation')", POSTGRES)[0][0]
    if isolation in ("repeatable read", "serializable"):
        yield
        return
    statement = "SELECT CAST(txid_current_snapshot() AS TEXT)"
    before = select(connection, statement, POSTGRES)[0][0]
    yield
    if _committed_between(before, select(connection, statement, POSTGRES)[0][0]):
        raise SourceChangedError(
            "Others committed to the PostgreSQL database while the join was read, and the transaction that is open on "
            f"its connection is {isolation.upper()}, where each SELECT sees what was committed before it. Commit or "
            "roll back before the fit, which then reads one snapshot, or begin yours with REPEATABLE READ.")


def _committed_between(before: str, after: str) -> bool:
    """Say whether a transaction ended between two snapshots, each xmin:xmax:transactions under way."""
    (_, top, running), (_, new_top, still) = (text.split(":") for text in (before, after))
    under_way = {int(number) for number in still.split(",") if number}
    asked = [*(int(number) for number in running.split(",") if number), *range(int(top), int(new_top))]
    return any(number not in under_way for number in asked)


def _status(connection: Connection) -> str:
    status = "CLOSED" if connection.closed else str(connection.info.transaction_status.name)
    if status == "INERROR":
        raise SourceLostError("The PostgreSQL connection's transaction has failed before. Roll it back first: "
                              "connection.rollback().")
    return status


@contextmanager
def reading(connection: Connection, dialect: Dialect) -> Iterator[None]:
    """Turn any failure of the database into one SourceLostError, and leave no transaction in error or open.

    Raises TimeoutError when the time limit ended the query, and KeyboardInterrupt after Ctrl-C.
    """
    status = _status(connection) if dialect is POSTGRES else ""
    with failing(dialect):
        try:
            if status == "INTRANS":
                _run(connection, "SAVEPOINT buttress")
            with cancelled_in_time(lambda: _cancel(connection, dialect)):
                yield
        finally:
            if status and not connection.closed:
                _leave(connection, status)


@contextmanager
def failing(dialect: Dialect) -> Iterator[None]:
    """Turn any failure of the database into one SourceLostError."""
    try:
        yield
    except (ValueError, TimeoutError, SourceChangedError, SourceLostError):
        raise
    except Exception as error:
        raise SourceLostError(f"{dialect.name} failed while the join was read: {reason(error)}. {_fix(error)}") \
            from error


def _leave(connection: Connection, before: str) -> None:
    """Bring a connection's transaction back to where it was before a query."""
    if connection.info.transaction_status.name == "ACTIVE" != before:  # psycopg leaves a COPY that Ctrl-C ends at once
        with suppress(Exception):
            while connection.pgconn.get_copy_data(0)[0] > 0:
                pass
        while connection.pgconn.get_result():
            pass
    inside = connection.info.transaction_status.name in ("INTRANS", "INERROR")
    if inside and before == "IDLE":
        connection.rollback()
    elif inside and before == "INTRANS":
        _run(connection, "ROLLBACK TO SAVEPOINT buttress")
        _run(connection, "RELEASE SAVEPOINT buttress")


def _cancel(connection: Connection, dialect: Dialect) -> None:
    if dialect is POSTGRES:
        connection.cancel()
    elif dialect is DUCKDB:
        connection.interrupt()
    else:
        connection.sparkContext.cancelAllJobs()


ADVICE = {  # by what the text of an error holds, its kind too
    "statement timeout": "The connection's own statement_timeout ended it. Raise it for this session (SET "
                         "statement_timeout = 0), or use max_time.",
    "permission denied": "Ask for SELECT on the columns in use; no others are read.",
    "operator does not exist": "The database does not compare these types of keys. Cast one of them in a view, or use "
                               "engine='memory'.",
    "infinity": "Write a date between the years 1 and 9999 in its place, such as one before all others, or NULL for "
                "what is never known, in a view.",
    "out of memory": "Give it more memory (for files and frames: raise memory_limit), or room on disk to spill to.",
}


def _fix(error: Exception) -> str:
    kind = type(error).__name__.replace("OutOfMemory", "out of memory")
    known = next((fix for words, fix in ADVICE.items() if words in f"{kind} {error}".lower()), "")
    return known or remedy(error, "FILE").strip() or (
        "Check the connection and that its tables still exist, then fit again.")


def reason(error: Exception) -> str:
    """Return the first line of a database's error; of a bad row of a file also what is wrong with it."""
    lines = str(error).strip().splitlines() or [repr(error)]
    causes = [line.strip() for line in lines if line.startswith((": ", "Caused by: "))]
    if causes and lines[0].startswith("An error occurred while calling"):  # Spark's, whose last cause says most
        return causes[-1].removeprefix(": ").removeprefix("Caused by: ")[:LONGEST_LINE]
    if "CSV Error" not in lines[0]:
        return lines[0]
    kept = lines[: lines.index("")] if "" in lines else lines
    return "; ".join(line[:LONGEST_LINE] for line in kept if not line.startswith("Original Line"))


def remedy(error: Exception, name: str) -> str:
    """Return what to do about a row of a file that cannot be read, empty for other errors."""
    text = reason(error).lower()
    if "unicode" in text or "utf-8" in text or "encod" in text:
        return f" Save it as UTF-8, from a shell: iconv -f cp1252 -t utf-8 {name} > utf8.csv"
    if "could not convert" in text:
        return " Correct that row, or leave its entry empty: the rows before it hold another type."
    return ""


def stand_in(connection: Connection, dialect: Dialect) -> Connection:
    """Return the connection that stands in for a user's: that of the open snapshot, or a new one beside a busy one."""
    already = _OPEN.get() or {}
    if id(connection) in already:
        return already[id(connection)]
    if dialect is DUCKDB and _busy(connection):
        return connection.cursor()
    return connection


def select(connection: Connection, statement: str, dialect: Dialect) -> list[tuple[Any, ...]]:
    """Run one SELECT and return its rows; outside of a snapshot no transaction is left open."""
    place = stand_in(connection, dialect)
    with reading(place, dialect):
        return _rows(place, statement, dialect)


def select_arrays(connection: Connection, statement: str) -> dict[str, Any]:
    """Run one SELECT on DuckDB and return its columns as arrays."""
    place = stand_in(connection, DUCKDB)
    with reading(place, DUCKDB):
        return heard(lambda: place.sql(statement).fetchnumpy(), place.interrupt)


def pinned_tables(owner: object, spark: Connection, items: Sequence[Item]) -> list[Item]:
    """Return views of the columns of tables as they are now, whatever becomes of these: Spark has no transactions.

    The rows are kept by Spark's workers, in memory and on their disks, and nothing is written where tables are. They
    are freed with their ``owner``.
    """
    views = []
    for item in items:
        own = {name: f"c{j}" for j, name in enumerate(item.columns)}
        chosen = ", ".join(f"{quoted} AS {own[name]}" for name, quoted in item.columns.items()) or "1 AS one"
        view = f"buttress_{uuid4().hex}"
        with reading(spark, SPARK):
            spark.sql(f"SELECT {chosen} FROM {item.text} q").localCheckpoint().createTempView(view)
        weakref.finalize(owner, unpinned, spark, view).atexit = False
        views.append(Item(view, own))
    return views


def unpinned(spark: Connection, name: str) -> None:
    """Drop a view of :func:`pinned_tables`, unless the session has ended."""
    with suppress(Exception):
        spark.catalog.dropTempView(name)


def _rows(place: Connection, statement: str, dialect: Dialect) -> list[tuple[Any, ...]]:
    if dialect is SPARK:
        return [tuple(row) for row in place.sql(statement).collect()]
    if dialect is DUCKDB:
        return _duckdb_rows(place, statement)
    return _postgres_rows(place, statement)


def _duckdb_rows(connection: Connection, statement: str) -> list[tuple[Any, ...]]:
    return heard(lambda: connection.sql(statement).fetchall(), connection.interrupt)


def _run(connection: Connection, statement: str) -> None:
    with postgres_cursor(connection) as cursor:
        cursor.execute(statement)


def postgres_cursor(connection: Connection) -> Any:
    """Return a cursor of our own: the connection's may return rows of other kinds."""
    import psycopg
    from psycopg.rows import tuple_row

    return psycopg.Cursor(connection, row_factory=tuple_row)


def _postgres_rows(connection: Connection, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows with 32-bit floats as such, and char(n) without the blanks that PostgreSQL pads it with."""
    with postgres_cursor(connection) as cursor:
        cursor.execute(statement, prepare=False)  # a plan that the server keeps fails once a table is altered
        rows = cursor.fetchall()
        read: dict[int, Callable[[Any], Any]] = {700: np.float32, 1042: lambda text: text.rstrip(" ")}  # real, char(n)
        changed = {j: read[column.type_code] for j, column in enumerate(cursor.description or ())
                   if column.type_code in read}
    if not changed:
        return list(rows)
    return [tuple(changed[j](value) if j in changed and value is not None else value
                  for j, value in enumerate(row)) for row in rows]
