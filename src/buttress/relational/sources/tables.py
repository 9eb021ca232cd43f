"""Where tables come from: frames, files and database tables, all read as columns of NumPy arrays.

Only SELECT is ever sent to a database, and nothing of it is written.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeGuard
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from buttress._checks import near
from buttress.relational.sources.columns import DIGITS, Column, make_column, objects
from buttress.relational.sources.databases import Connection, SourceLostError, reason, select, select_arrays
from buttress.relational.sources.dialects import DUCKDB, POSTGRES, SPARK, dialect_of, is_zoned
from buttress.relational.sources.files import FileSource, connect_duckdb, file_columns, is_files, scanned

AnyFrame = Any  # of pandas, polars or Arrow: none need be installed
TableName = str | tuple[str, ...]
Source = AnyFrame | FileSource | tuple[Connection, TableName]


def column_names(source: Source) -> list[str]:
    """Return the column names of a source."""
    if isinstance(source, tuple):
        return _Query(source).names()
    if is_files(source):
        return file_columns(source)
    if hasattr(source, "collect_schema"):  # a polars LazyFrame
        return list(source.collect_schema().names())
    if _is_dataset(source):
        return list(source.schema.names)
    return frame_names(source)


def read_columns(source: Source, names: Sequence[str]) -> dict[str, Column]:
    """Return the named columns of a source: frame, path of a Parquet or CSV file, or (connection, table name)."""
    if isinstance(source, tuple):
        return _Query(source).read(names)
    if is_files(source):
        chosen = ", ".join(DUCKDB.quote(name) for name in names) or "1 AS one"
        return _of_arrays(scanned(source, lambda scan: f"SELECT {chosen} FROM ({scan})", "fetchnumpy"),
                          lambda: scanned(source, lambda scan: f"DESCRIBE SELECT {chosen} FROM ({scan})"))
    frame = gathered(source, names)
    return {name: frame_column(frame, name) for name in names}


def row_count(source: Source) -> int:
    """Return the number of rows of a source."""
    if isinstance(source, tuple):
        return _Query(source).count()
    if is_files(source):
        return int(scanned(source, lambda scan: f"SELECT COUNT(*) FROM ({scan})")[0][0])
    frame = gathered(source, column_names(source)[:1])
    return int(frame.num_rows if hasattr(frame, "num_rows") else len(frame))


def frame_names(frame: AnyFrame) -> list[str]:
    """Return the column names of a frame, none of what is no frame."""
    return [str(name) for name in getattr(frame, "column_names", getattr(frame, "columns", []))]


def _is_dataset(frame: object) -> TypeGuard[AnyFrame]:
    return hasattr(frame, "to_table") and hasattr(frame, "schema")


def gathered(lazy: AnyFrame, names: Sequence[str]) -> AnyFrame:
    """Return the named columns of a frame that is read when asked; a frame as it is."""
    if hasattr(lazy, "collect_schema") and hasattr(lazy, "collect"):  # a polars LazyFrame
        return lazy.select(names).collect()
    if _is_dataset(lazy):  # Arrow's
        return lazy.to_table(columns=list(names))
    if hasattr(lazy, "fetchnumpy"):  # a DuckDB relation
        chosen = ", ".join(DUCKDB.quote(name) for name in names) or "1 AS one"
        return lazy.project(chosen).df()
    return lazy


def under_own_names(frame: AnyFrame, names: Sequence[str]) -> tuple[AnyFrame, dict[str, str]]:
    """Return a frame with its columns called c0, c1, ..., and what the named ones are called.

    Text of pandas becomes objects, for a DuckDB older than pandas' own text type.
    """
    there = frame_names(frame)
    own = [f"c{j}" for j in range(len(there))]
    places = dict(zip(there, own))
    called = {name: places[name] for name in names}
    if hasattr(frame, "rename_columns"):  # Arrow
        return frame.rename_columns(own), called
    if not hasattr(frame, "iloc"):  # polars
        if find_spec("pyarrow") is None:
            raise ImportError("DuckDB reads polars frames by pyarrow. Install it with: pip install pyarrow, or use "
                              "engine='memory'.")
        return frame.rename(places), called
    shallow = frame.copy(deep=False)
    shallow.columns = own
    text = [name for name in called.values() if str(shallow[name].dtype) in ("str", "string")]
    return (shallow.astype(dict.fromkeys(text, object)) if text else shallow), called


def check_source(name: str, source: Any) -> None:
    """Refuse what is no source of the table ``name``, with how to write one."""
    if isinstance(source, tuple):
        if len(source) == 2 and isinstance(source[0], str) and hasattr(source[1], "execute"):
            hint = "Give the connection first: (connection, 'table')."
        elif len(source) == 2 and isinstance(source[1], (str, tuple)) and all(isinstance(p, str) for p in source[1]):
            return
        else:
            hint = "A table's schema goes with its name: (connection, ('schema', 'table'))."
    elif isinstance(source, list) and not all(isinstance(path, (str, Path)) for path in source):
        hint = "A list must hold paths of files. Make a frame of rows: pandas.DataFrame(rows)."
    elif is_files(source) or _has(source, "collect_schema", "column_names", "columns") or _is_dataset(source):
        return
    elif _has(source, "execute", "raw_connection", "sparkContext"):
        hint = f"Name the table in the database too: (connection, {name!r})."
    else:
        hint = "Make a frame of it, with pandas.DataFrame and named columns."
    raise ValueError(f"The source of table {name!r} must be a frame, a file or (connection, table name). Got "
                     f"{type(source).__name__}. {hint}")


def _has(source: object, *parts: str) -> bool:
    return any(hasattr(source, part) for part in parts)


_CONNECTED: "WeakValueDictionary[str, Any]" = WeakValueDictionary()  # the connection of a URL, one for all its tables


def connected(source: Source) -> Source:
    """Return a source with an SQLAlchemy engine or a URL replaced by a connection, a Spark frame by a view of it."""
    if isinstance(source, tuple) and len(source) == 2:
        return _connection(source[0]), source[1]
    frame: Any = source
    if type(source).__module__.startswith("pyspark") and hasattr(frame, "createTempView"):
        name = f"buttress_{uuid4().hex}"
        frame.createTempView(name)
        return frame.sparkSession, name
    return source


def _connection(place: Any) -> Any:
    if isinstance(place, str):
        address = place if "://" in place else str(Path(place).absolute())  # another file in another folder
        found = _CONNECTED.get(address)
        if found is None or getattr(found, "closed", False):
            found = _CONNECTED[address] = connect(place)
        return found
    if type(place).__module__.startswith("sqlalchemy"):
        if hasattr(place, "raw_connection"):  # an engine: a connection of its own, not to be handed back to the pool
            if place not in _ENGINES:
                raw = place.raw_connection()
                _ENGINES[place] = raw.driver_connection
                raw.detach()
            return _ENGINES[place]
        return place.connection.driver_connection
    return place


_ENGINES: "WeakKeyDictionary[Any, Any]" = WeakKeyDictionary()  # the connection of an SQLAlchemy engine


def connect(address: str) -> Any:
    """Return a read-only connection to a PostgreSQL URL or a DuckDB file."""
    address = address.replace("postgresql+psycopg://", "postgresql://")
    if address.startswith(("postgresql://", "postgres://")):
        try:
            import psycopg
        except ImportError:
            raise ImportError("PostgreSQL needs psycopg. Install it with: pip install 'buttress[postgres]'") from None
        try:
            return psycopg.connect(address, autocommit=True, options="-c default_transaction_read_only=on")
        except psycopg.OperationalError as error:
            raise SourceLostError(f"PostgreSQL cannot be reached: {reason(error)}. Check that the server runs, and the "
                                  "host, port, database and user of the address.") from error
    if not Path(address).exists():
        raise ValueError(f"database must be a postgresql:// address or a DuckDB file. There is no file {address!r}."
                         + (" Write tables of another database to files (pandas.read_sql, to_parquet) and name "
                            "these as sources." if "://" in address else ""))
    return connect_duckdb(address, read_only=True)


def frame_column(frame: AnyFrame, name: str) -> Column:
    """Return a column of a frame; names of pandas need not be texts."""
    plain = not hasattr(frame, "iloc") or name in frame.columns
    column = frame[name] if plain else frame.iloc[:, frame_names(frame).index(name)]
    missing = column.isna() if hasattr(column, "isna") else column.is_null()
    kind = column.type if hasattr(column, "combine_chunks") else column.dtype
    zone = getattr(kind, "tz", None) or getattr(kind, "time_zone", None)
    local = zone is None or not hasattr(column, "iloc")  # pandas would make objects of others, to the microsecond
    return make_column((column if local else column.dt.tz_convert(None)).to_numpy(), missing.to_numpy(),
                       zone is not None)


def _of_arrays(
    arrays: dict[str, NDArray[Any]], described: Callable[[], Sequence[tuple[Any, ...]]]
) -> dict[str, Column]:
    """Return columns that DuckDB gave; ``described`` gives (name, type) of each.

    Dates may have a time zone, and decimals, which come as floats, more digits than these.
    """
    result = {}
    for name, values in arrays.items():
        if hasattr(values, "categories"):  # an ENUM comes as a pandas categorical
            values = np.asarray(values, dtype=object)
        mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
        result[name] = make_column(np.ma.getdata(values), mask)
    if any(column.kind == "time" or column.values.dtype.kind == "f" for column in result.values()):
        for name, kind, *_ in described():
            column, decimal = result[name], re.fullmatch(r"DECIMAL\(\d+,(\d+)\)", str(kind))
            if column.kind == "time":
                result[name] = replace(column, zoned=is_zoned(kind))
            elif decimal:  # a float holds all of a number's digits where there are few
                digits = np.abs(column.values[~column.null]).max(initial=0.0) * 10.0 ** int(decimal[1])
                result[name] = replace(column, rounded=bool(digits >= 10.0**DIGITS))
    return result


def _schema_hint(name: str, there: Sequence[str]) -> str:
    """Return what to write for "schema.table", where there is such a table; else nothing."""
    *schema, table = name.split(".")
    return f" Give the schema apart: (connection, {(*schema, table)!r})." if schema and table in there else ""


class _Query:
    """A table (or view) of a connection."""

    def __init__(self, source: tuple[Connection, TableName]):
        self.connection = source[0]
        self.dialect = dialect_of(source[0])
        self.name = source[1]
        self.table = self.dialect.table(source[1])

    def names(self) -> list[str]:
        """Return the columns; a table that is not there is named, with the nearest that is."""
        if self.dialect is DUCKDB and isinstance(self.name, str) and re.search(r"[./\\*?:]", self.name):
            self._check_no_file(self.name)
        try:
            return self._names()
        except SourceLostError as error:
            try:
                there = self._tables()
            except SourceLostError:
                raise error from None
            name = self.name if isinstance(self.name, str) else self.name[-1]
            if name in there:
                raise
            raise ValueError(f"{self.dialect.name} has no table {name!r}."
                             + (_schema_hint(name, there) or near(name, there))) from None

    def _check_no_file(self, name: str) -> None:
        """Refuse a name that DuckDB would take for a file's: what is asked for is a table of the database."""
        there = self._tables()
        if name not in there:
            file = f"{near(name, there)} To read a file, give its path as the source: Table(..., {name!r})."
            raise ValueError(f"The database has no table {name!r}.{_schema_hint(name, there) or file}")

    def _tables(self) -> list[str]:
        if self.dialect is SPARK:
            return [str(row[1]) for row in select(self.connection, "SHOW TABLES", self.dialect)]
        return [str(row[0]) for row in select(
            self.connection, "SELECT DISTINCT table_name FROM information_schema.tables", self.dialect)]

    def _names(self) -> list[str]:
        if self.dialect is SPARK:
            return [str(row[0]) for row in select(self.connection, f"SHOW COLUMNS IN {self.table}", self.dialect)]
        if self.dialect is POSTGRES:  # from the catalogue, for which a grant on the columns in use suffices
            name = self.dialect.text(self.table)
            return [str(row[0]) for row in select(
                self.connection, f"SELECT attname FROM pg_attribute WHERE attrelid = CAST({name} AS regclass) "
                "AND attnum > 0 AND NOT attisdropped ORDER BY attnum", self.dialect)]
        return list(select_arrays(self.connection, f"SELECT * FROM {self.table} WHERE 1 = 0"))

    def count(self) -> int:
        return int(select(self.connection, f"SELECT COUNT(*) FROM {self.table}", self.dialect)[0][0])

    def read(self, names: Sequence[str]) -> dict[str, Column]:
        chosen = ", ".join(self.dialect.quote(name) for name in names) or "1 AS one"
        statement = f"SELECT {chosen} FROM {self.table}"
        if self.dialect is DUCKDB:
            return _of_arrays(select_arrays(self.connection, statement),
                              lambda: select(self.connection, f"DESCRIBE {statement}", self.dialect))
        rows = select(self.connection, statement, self.dialect)
        columns = list(zip(*rows)) if rows else [()] * len(names)
        return {name: make_column(objects(values)) for name, values in zip(names, columns)}
