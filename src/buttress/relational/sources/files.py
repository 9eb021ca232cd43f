"""Parquet and CSV files, read by a DuckDB of our own."""

import re
from collections.abc import Callable, Sequence
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeGuard

from buttress.relational.sources.databases import reason, remedy
from buttress.relational.sources.deadline import cancelled_in_time, heard
from buttress.relational.sources.dialects import DUCKDB

FileSource = str | Path | list[str] | list[Path]


def connect_duckdb(path: str = ":memory:", read_only: bool = False) -> Any:
    """Return a connection to a DuckDB file, or to a DuckDB of our own in memory."""
    try:
        import duckdb
    except ImportError:
        raise ImportError("Files and features of entities need DuckDB. Install it with: "
                          "pip install 'buttress[duckdb]'") from None
    try:
        return duckdb.connect(path, read_only=read_only)
    except duckdb.Error as error:
        raise ValueError(f"The file {path!r} cannot be opened as a DuckDB database: {reason(error)} Where it is one of "
                         "another kind, such as SQLite's, write its tables to files (pandas.read_sql, to_parquet) and "
                         "name these as sources.") from error


def scanned(
    path: FileSource, statement: Callable[[str], str], fetch: str = "fetchall", place: Any = None
) -> Any:
    """Run a statement of the SELECT that reads a file, and fetch it all; ValueError for a file that cannot be read.

    DuckDB reads on while it is fetched from, so that a bad row far down shows only then. ``place`` is a DuckDB that is
    kept for many statements; to start one takes as long as to read thousands of rows.
    """
    connection = place or connect_duckdb()
    scan = scan_of(path)
    try:
        with cancelled_in_time(connection.interrupt):
            return heard(lambda: getattr(connection.execute(statement(scan)), fetch)(), connection.interrupt)
    except Exception as error:
        if not type(error).__module__.startswith(("duckdb", "_duckdb")):
            raise
        why = reason(error) + remedy(error, matching(path)[0].name)
        raise ValueError(f"The file {str(path)!r} cannot be read: {why}") from None


SCAN = "SELECT * FROM "
GLOB = re.compile(r"[*?[]")  # characters that stand for others in the patterns of DuckDB and of Python


def is_files(source: object) -> TypeGuard[FileSource]:
    """Say whether a source is the path of a file, a pattern of paths, or a list of them."""
    return isinstance(source, (str, Path, list))


def matching(path: FileSource) -> list[Path]:
    """Return the file of that name, or the files that the name fits as a pattern, or those of a list, in order."""
    if isinstance(path, list):
        return [file for one in path for file in matching(one)]
    if Path(path).exists() or not GLOB.search(str(path)):
        return [Path(path)]
    return [Path(found) for found in sorted(glob(str(path), recursive=True))]


def marks_of(path: FileSource) -> list[tuple[Path, int, int]]:
    """Return the files of a source, with their sizes and when they were written last: whether they have changed."""
    return [(file, file.stat().st_size, file.stat().st_mtime_ns) for file in matching(path)]


def file_columns(path: FileSource) -> list[str]:
    """Return the columns of files.

    Raises ValueError where one has two columns whose names differ in case alone, or of CSV in spaces around them:
    DuckDB calls the second one otherwise, which may be the name of a third, and takes the one for the other where
    another file has them in another order. Also where a folder is called as a column, see :func:`check_folders`.
    """
    found = [str(row[0]) for row in scanned(path, lambda scan: f"DESCRIBE {scan}")]
    files = matching(path)
    if files[0].suffix.lower() == ".parquet":
        headers = [parquet_header(file) for file in files]
    elif any(re.search(r"_\d+$", name) for name in found) or any(map(_keys_of_folders, files)):
        headers = [_text_header(file) for file in files]  # DuckDB renames a column whose name it has seen
    else:
        headers = []
    for file, header in zip(files, headers):
        check_folders(file, header)
        known: dict[str, str] = {}
        for name in header:
            folded = DUCKDB.fold(name if file.suffix.lower() == ".parquet" else name.strip())
            if folded in known:
                raise ValueError(f"DuckDB, which reads files, takes columns {known[folded]!r} and {name!r} of "
                                 f"{file.name!r} for one. Rename one of them, or read the file into a frame and give "
                                 "that.")
            known[folded] = name
    return found


def check_folders(file: Path, header: list[str]) -> None:
    """Refuse a file with a column that DuckDB takes from the name of a folder, as in ``run=3/rows.parquet``, instead.
    """
    keys = _keys_of_folders(file)
    for name in header:
        if DUCKDB.fold(name.strip()) in keys:
            raise ValueError(f"DuckDB, which reads files, takes column {name!r} of {str(file)!r} from the name of a "
                             "folder in that path, not from the file. Rename the folder or the column, or read the "
                             "file into a frame and give that.")


def _keys_of_folders(file: Path) -> set[str]:
    """Return the names before the signs of equality in the folders of a path."""
    return {DUCKDB.fold(part.partition("=")[0].strip()) for part in file.parent.parts if "=" in part}


def parquet_header(file: Path) -> list[str]:
    """Return the columns that a file names, without the parts of nested ones, which follow them."""
    header = []
    parts = 0
    for name, children in scanned(file, lambda scan: "SELECT name, num_children FROM parquet_schema"
                                                     + scan.removeprefix(SCAN + "read_parquet"))[1:]:
        if parts:
            parts += (children or 0) - 1
        else:
            header.append(str(name))
            parts = children or 0
    return header


def _text_header(file: Path) -> list[str]:
    """Return the first line of a file, but for columns without a name."""
    alone = "header=false, all_varchar=true, hive_partitioning=false"
    rows = scanned(file, lambda scan: scan.removesuffix("header=true)") + f"{alone}) LIMIT 1")
    return [name for row in rows for name in row if name]


def check_days(path: object, name: str) -> None:
    """Refuse a column of dates in a text file of which DuckDB guesses whether the day or the month comes first."""
    if not is_files(path) or matching(path)[0].suffix.lower() == ".parquet":
        return
    date = DUCKDB.quote(name)
    short = rf"regexp_matches({date}, '^\s*(0?[1-9]|1[0-2])[-/. ](0?[1-9]|1[0-2])[-/. ]\d')"

    def first(condition: str) -> list[tuple[str]]:
        where = f"WHERE {condition} LIMIT 1"
        return list(scanned(path, lambda scan: f"SELECT {date} FROM ({scan[:-1]}, all_varchar=true)) {where}"))

    found = [] if first(f"NOT {short}") else first(short)
    if found:
        raise ValueError(f"Column {name!r} of {str(path)!r} holds dates such as {found[0][0]!r}, which may begin with "
                         "the day or the month. Write them as 2024-03-31, or read the file into a frame and give that.")


def durations(file: Path, place: Any = None) -> list[str]:
    """Return the columns of a Parquet file that are Arrow's durations, to DuckDB whole numbers; none without polars."""
    if file.suffix.lower() != ".parquet" or find_spec("polars") is None or not scanned(
            file, lambda scan: "SELECT 1 FROM parquet_kv_metadata" + scan.removeprefix(SCAN + "read_parquet")
                               + " WHERE key = 'ARROW:schema'", place=place):
        return []
    import polars as pl

    return [name for name, kind in pl.scan_parquet(file, glob=False).collect_schema().items() if kind == pl.Duration]


def check_durations(path: object, names: Sequence[str]) -> None:
    """Refuse durations in the first of the files: numbers to DuckDB, in a unit that the next file need not have."""
    found = [name for name in (durations(matching(path)[0]) if is_files(path) else ()) if name in names]
    if found:
        raise ValueError(f"Column {found[0]!r} of {str(path)!r} holds durations. Write them as numbers of one unit, "
                         "such as days.")


def scan_of(path: FileSource) -> str:
    """Return the SELECT that reads a Parquet or CSV file, or all files of a pattern such as ``"part-*.parquet"``.

    Raises ValueError for a file that is not there, or of another kind.
    """
    files = matching(path)
    if not files or not all(file.exists() for file in files):
        raise ValueError(f"A table's source must be a frame, a file or (connection, table name). Got the path "
                         f"{str(path)!r}, where there is no file.")
    readers = {".parquet": "read_parquet", ".csv": "read_csv", ".tsv": "read_csv", ".gz": "read_csv"}
    kinds = sorted({file.suffix.lower() for file in files})
    if len(kinds) > 1 or kinds[0] not in readers:
        raise ValueError(f"A file must end in .parquet, .csv, .tsv or .csv.gz. Got {str(path)!r}.")
    names = ", ".join(DUCKDB.text(GLOB.sub(lambda mark: f"[{mark[0]}]", str(file))) for file in files)
    header = "" if kinds[0] == ".parquet" else ", header=true"  # also of a file that has nothing else
    return f"{SCAN}{readers[kinds[0]]}([{names}]{header})"
