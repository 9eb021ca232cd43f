"""Where tables come from: frames, files and database tables, all read as columns of NumPy arrays.

Only SELECT is ever sent to a database, and nothing of it is written.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from buttress._checks import near
from buttress.relational.dialects import DUCKDB, POSTGRES, SPARK, Dialect, dialect_of

LONGEST_LINE = 300  # characters of a line of a database's error that are shown


class Frame(Protocol):
    """A pandas, polars or Arrow frame: columns by name."""

    def __getitem__(self, name: str, /) -> Any: ...


class Cursor(Protocol):
    """What a statement returns; ``description`` gives each column's name first."""

    @property
    def description(self) -> Sequence[tuple[Any, ...]] | None: ...

    def fetchall(self) -> Sequence[tuple[Any, ...]]: ...


class SqlConnection(Protocol):
    """A DuckDB or psycopg connection. The drivers type their statements differently, hence Any."""

    def execute(self, statement: Any, /) -> Cursor: ...


class DuckDBConnection(SqlConnection, Protocol):
    """A DuckDB connection, which can also read a frame under a name."""

    def register(self, name: str, frame: Frame, /) -> object: ...


class PostgresConnection(SqlConnection, Protocol):
    """A psycopg connection: what is needed to leave no transaction open."""

    closed: bool
    info: Any

    def rollback(self) -> None: ...


class SparkSession(Protocol):
    """A Spark session."""

    def sql(self, statement: str, /) -> Any: ...


Connection = SqlConnection | SparkSession
TableName = str | tuple[str, ...]
Source = Frame | str | Path | tuple[Connection, TableName]


class SourceLostError(RuntimeError):
    """A database failed while a join was read or trained on: connection lost, table dropped, out of memory."""


@dataclass(frozen=True)
class Column:
    """Values of shape (n,), True where they are NULL or NaN, and the kind: number, text or time."""

    values: NDArray[Any]
    null: NDArray[np.bool_]
    kind: str


def make_column(values: ArrayLike, null: ArrayLike | None = None) -> Column:
    """Return a Column from an array and its mask of missing values, with objects turned to numbers, times or text."""
    array = np.asarray(values)
    missing = np.zeros(len(array), dtype=bool) if null is None else np.asarray(null, dtype=bool)
    if array.dtype.kind == "O":
        array, missing = _from_objects(array, missing)
    if array.dtype.kind == "f":
        missing = missing | np.isnan(array)
    elif array.dtype.kind in "mM":
        missing = missing | np.isnat(array)
    kinds = {"i": "number", "u": "number", "f": "number", "b": "number", "m": "time", "M": "time"}
    return Column(array, missing, kinds.get(array.dtype.kind, "text"))


def _from_objects(values: NDArray[np.object_], null: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    null = null | np.fromiter((value is None or value != value for value in values), dtype=bool, count=len(values))
    kept = values[~null].tolist()
    types = {type(value) for value in kept}
    if not kept:  # NaN says that these were numbers, NULL says nothing
        return np.array([0.0 if value is None else np.nan for value in values]), null
    if types == {str}:
        return values, null
    try:
        times = _from_times(kept)
        plain = np.asarray([float(v) if type(v).__name__ == "Decimal" else v for v in kept]) if times is None else times
    except ValueError:
        return values, null
    if plain.dtype.kind not in "iufbmM":
        return np.asarray([None if absent else str(v) for v, absent in zip(values, null)], dtype=object), null
    full = np.zeros(len(values), dtype=plain.dtype)
    full[~null] = plain
    return full, null


def _from_times(values: list[Any]) -> NDArray[Any] | None:
    """Return dates (zones turned to UTC), lengths of time or times of a day as numpy's, None for anything else."""
    if all(isinstance(value, date) for value in values):
        plain = [v.astimezone(UTC).replace(tzinfo=None) if getattr(v, "tzinfo", None) else v for v in values]
        return np.asarray(plain, dtype="datetime64[us]")
    if all(isinstance(value, timedelta) for value in values):
        return np.asarray(values, dtype="timedelta64[us]")
    if all(isinstance(value, time) for value in values):
        return np.asarray([datetime.combine(date.min, v.replace(tzinfo=None)) - datetime.min for v in values],
                          dtype="timedelta64[us]")
    return None


def column_names(source: Source) -> list[str]:
    """Return the column names of a source."""
    if isinstance(source, tuple):
        return _Query(source).names()
    if isinstance(source, (str, Path)):
        return [row[0] for row in _scanned(source, "DESCRIBE {}")]
    frame: Any = source
    names = frame.column_names if hasattr(frame, "column_names") else frame.columns
    return [str(name) for name in names]


def read_columns(source: Source, names: Sequence[str]) -> dict[str, Column]:
    """Return the named columns of a source: frame, path of a Parquet or CSV file, or (connection, table name)."""
    if isinstance(source, tuple):
        return _Query(source).read(names)
    if isinstance(source, (str, Path)):
        chosen = ", ".join(DUCKDB.quote(name) for name in names) or "1 AS one"
        return _masked(_scanned(source, f"SELECT {_escaped(chosen)} FROM ({{}})", "fetchnumpy"))
    return {name: _frame_column(source, name) for name in names}


def row_count(source: Source) -> int:
    """Return the number of rows of a source."""
    if isinstance(source, tuple):
        return _Query(source).count()
    if isinstance(source, (str, Path)):
        return int(_scanned(source, "SELECT COUNT(*) FROM ({})")[0][0])
    frame: Any = source
    return int(frame.num_rows if hasattr(frame, "num_rows") else len(frame))


def _frame_column(frame: Frame, name: str) -> Column:
    column = frame[name]
    if hasattr(column, "isna"):  # pandas
        return make_column(column.to_numpy(), column.isna().to_numpy())
    if hasattr(column, "combine_chunks"):  # Arrow
        return make_column(column.to_numpy(), column.is_null().to_numpy())
    null = column.is_null().to_numpy()  # polars
    return make_column(column.to_numpy(), null)


def _masked(columns: dict[str, NDArray[Any]]) -> dict[str, Column]:
    result = {}
    for name, values in columns.items():
        if hasattr(values, "categories"):  # an ENUM comes as a pandas categorical
            values = np.asarray(values, dtype=object)
        mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
        result[name] = make_column(np.ma.getdata(values), mask)
    return result


def connect_duckdb() -> Any:
    """Return a DuckDB of our own, in memory."""
    try:
        import duckdb
    except ImportError:
        raise ImportError("Reading Parquet and CSV files needs DuckDB. Install it with: "
                          "pip install 'buttress[duckdb]'") from None
    return duckdb.connect()


def _scanned(path: str | Path, statement: str, fetch: str = "fetchall") -> Any:
    """Run a statement with the file in place of {} and fetch it all; a file that cannot be read becomes one ValueError.

    DuckDB reads on while it is fetched from, so that a bad row far down shows only then.
    """
    connection = connect_duckdb()
    scan = scan_of(path)
    try:
        return getattr(connection.execute(statement.format(scan)), fetch)()
    except Exception as error:
        if not type(error).__module__.startswith(("duckdb", "_duckdb")):
            raise
        reason = _reason(error) + _remedy(error, Path(path).name)
        raise ValueError(f"The file {str(path)!r} cannot be read: {reason}") from None


def _reason(error: Exception) -> str:
    """Return the first line of a database's error; of a bad row of a file also what is wrong with it."""
    lines = str(error).strip().splitlines() or [repr(error)]
    if "CSV Error" not in lines[0]:
        return lines[0]
    kept = lines[: lines.index("")] if "" in lines else lines
    return "; ".join(line[:LONGEST_LINE] for line in kept if not line.startswith("Original Line"))


def _remedy(error: Exception, name: str) -> str:
    """Return what to do about a row of a file that cannot be read, empty for other errors."""
    reason = _reason(error).lower()
    if "unicode" in reason or "utf-8" in reason or "encod" in reason:
        return f" Save it as UTF-8, from a shell: iconv -f cp1252 -t utf-8 {name} > utf8.csv"
    if "could not convert" in reason:
        return " Correct that row, or leave its entry empty: the rows before it hold another type."
    return ""


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def scan_of(path: str | Path) -> str:
    """Return the SELECT that reads a Parquet or CSV file; ValueError for a file that is not there, or another kind."""
    if not Path(path).exists():
        raise ValueError(f"A table's source must be a frame, a file or (connection, table name). Got the path "
                         f"{str(path)!r}, where there is no file.")
    suffix = Path(path).suffix.lower()
    readers = {".parquet": "read_parquet", ".csv": "read_csv", ".tsv": "read_csv", ".gz": "read_csv"}
    if suffix not in readers:
        raise ValueError(f"A file must end in .parquet, .csv, .tsv or .csv.gz. Got {str(path)!r}.")
    return f"SELECT * FROM {readers[suffix]}({DUCKDB.text(str(path))})"


@contextmanager
def reading(connection: Connection, dialect: Dialect) -> Iterator[None]:
    """Turn any failure of the database into one SourceLostError, and leave no transaction of ours open."""
    postgres = cast(PostgresConnection, connection) if dialect is POSTGRES else None
    ours = postgres is not None and not postgres.closed and postgres.info.transaction_status.name == "IDLE"
    try:
        yield
    except (ValueError, KeyboardInterrupt):
        raise
    except Exception as error:
        fix = _remedy(error, "FILE").strip() or "Check the connection and that its tables still exist, then fit again."
        if "OutOfMemory" in type(error).__name__ or "out of memory" in str(error).lower():
            fix = "Give it more memory (for files and frames: raise memory_limit), or room on disk to spill to."
        raise SourceLostError(f"{dialect.name} failed while the join was read: {_reason(error)}. {fix}") from error
    finally:
        if ours and postgres is not None and not postgres.closed:
            postgres.rollback()


def select(connection: Connection, statement: str, dialect: Dialect) -> list[tuple[Any, ...]]:
    """Run one SELECT and return its rows."""
    with reading(connection, dialect):
        if dialect is SPARK:
            return [tuple(row) for row in cast(SparkSession, connection).sql(statement).collect()]
        return [tuple(row) for row in cast(SqlConnection, connection).execute(statement).fetchall()]


class _Query:
    """A table (or view) of a connection."""

    def __init__(self, source: tuple[Connection, TableName]):
        if len(source) != 2:
            raise ValueError(f"A database table is given as (connection, table name). Got {len(source)} entries.")
        self.connection = source[0]
        self.dialect = dialect_of(source[0])
        self.name = source[1]
        self.table = self.dialect.table(source[1])

    def names(self) -> list[str]:
        """Return the columns; a table that is not there is named, with the nearest that is."""
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
            raise ValueError(f"{self.dialect.name} has no table {name!r}.{near(name, there)}") from None

    def _tables(self) -> list[str]:
        if self.dialect is SPARK:
            return [str(row[1]) for row in select(self.connection, "SHOW TABLES", self.dialect)]
        return [str(row[0]) for row in select(
            self.connection, "SELECT DISTINCT table_name FROM information_schema.tables", self.dialect)]

    def _names(self) -> list[str]:
        statement = f"SELECT * FROM {self.table} WHERE 1 = 0"
        with reading(self.connection, self.dialect):
            if self.dialect is SPARK:
                return list(cast(SparkSession, self.connection).sql(statement).columns)
            return [column[0] for column in cast(SqlConnection, self.connection).execute(statement).description or ()]

    def count(self) -> int:
        return int(select(self.connection, f"SELECT COUNT(*) FROM {self.table}", self.dialect)[0][0])

    def read(self, names: Sequence[str]) -> dict[str, Column]:
        chosen = ", ".join(self.dialect.quote(name) for name in names) or "1 AS one"
        statement = f"SELECT {chosen} FROM {self.table}"
        if self.dialect is DUCKDB:
            with reading(self.connection, self.dialect):
                found: Any = cast(DuckDBConnection, self.connection).execute(statement)
                return _masked(found.fetchnumpy())
        rows = select(self.connection, statement, self.dialect)
        columns = list(zip(*rows)) if rows else [()] * len(names)
        return {name: make_column(objects(values)) for name, values in zip(names, columns)}


def objects(values: Sequence[object]) -> NDArray[np.object_]:
    """Return a one-dimensional array of objects."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
