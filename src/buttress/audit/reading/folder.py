"""The rows of Parquet files that need not fit into memory, read by DuckDB in batches.

Rows are numbered through: files in the order of their paths, rows in that of their file. Every SELECT reads one file
and orders by the number of the row in it, so that neither DuckDB's threads nor the order in which a folder is listed
change what comes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from buttress._suggest import counted, near
from buttress._types import Labels, Rows
from buttress.relational.sources.dialects import DUCKDB
from buttress.relational.sources.files import (
    GLOB,
    SCAN,
    FileSource,
    check_folders,
    connect_duckdb,
    durations,
    file_columns,
    matching,
    parquet_header,
    scanned,
)

BATCH_ROWS = 20_000  # of a batch, fewer at the end of a file: its features on 1,000 landmarks take 160 MB
MOST_CLASSES = 1_000  # different values of a target of whole numbers or texts that are looked at
NUMBER = "file_row_number"  # what DuckDB calls the number of a row in its file
ReadColumns = dict[str, Labels]


@dataclass(frozen=True)
class ParquetRows:
    """Parquet files with one schema: ``starts`` (files + 1) are the numbers of their first rows, ``columns`` the types.

    ``duckdb`` reads them.
    """

    source: str
    files: list[Path]
    starts: Rows
    columns: dict[str, str]
    duckdb: Any

    def __len__(self) -> int:
        return int(self.starts[-1])

    def batches(self, names: Sequence[str]) -> Iterator[tuple[Rows, ReadColumns]]:
        """Yield the numbers of rows, in their order, and the named columns of them."""
        for file, first, end in zip(self.files, self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
            for start in range(first, end, BATCH_ROWS):
                stop = min(end, start + BATCH_ROWS)
                where = f"{NUMBER} >= {start - first} AND {NUMBER} < {stop - first}"
                yield np.arange(start, stop), self._read(file, names, where, stop - start)

    def at(self, rows: Rows, names: Sequence[str]) -> ReadColumns:
        """Return the named columns of the rows with these numbers, which ascend."""
        parts = []
        for file, first, end in zip(self.files, self.starts[:-1], self.starts[1:], strict=True):
            inside = (rows[(rows >= first) & (rows < end)] - first).tolist()
            if inside:
                parts.append(self._read(file, names, f"{NUMBER} IN (SELECT unnest({inside}))", len(inside)))
        return {name: np.concatenate([part[name] for part in parts]) for name in names}

    def place(self, rows: Rows) -> ReadColumns:
        """Return the file of each row, by its path below the source, and its number in it."""
        of = np.searchsorted(self.starts, rows, side="right") - 1
        return {"file": np.array([str(file) for file in self.files])[of], "row_in_file": rows - self.starts[of]}

    @contextmanager
    def named(self, numbers: Rows) -> Iterator[None]:
        """Say in an error about rows of a batch, which counts them from its first, which file and rows these are."""
        try:
            yield
        except ValueError as error:
            if " row" not in str(error):
                raise
            file, first = (values.tolist()[0] for values in self.place(numbers[:1]).values())
            raise ValueError(f"Rows {first} to {first + len(numbers) - 1} of {file!r}, counted from the first of "
                             f"these: {error}") from None

    def check_target(self, name: str | None) -> Labels:
        """Return the different values of a target, ``MOST_CLASSES`` and one of more.

        Raises ValueError where there is no such column, where a row has no target, naming the file, and where all rows
        have one value.
        """
        listed = ", ".join(map(repr, self.columns))
        if name is None:
            raise ValueError(f"--target is missing: name the column to predict, one of {listed}.")
        if name not in self.columns:
            raise ValueError(f"There is no column {name!r} in {self.source!r}.{near(name, self.columns)} The columns "
                             f"are {listed}.")
        if self.columns[name] == "DURATION":
            raise ValueError(f"The target {name!r} holds dates or durations. Give it as numbers, such as days.")
        quoted = DUCKDB.quote(name)
        real = self.columns[name] in ("DOUBLE", "FLOAT")
        absent = f"{quoted} IS NULL" + (f" OR NOT isfinite({quoted})" if real else "")
        for file in self.files if self._count(self.files, absent) else ():
            if gone := self._count(file, absent):
                raise ValueError(f"The target {name!r} is missing in {counted(gone, 'row')} of {str(file)!r}. Write "
                                 "the files without such rows, or fill them in.")
        found = scanned(self.files, lambda scan: f"SELECT DISTINCT {quoted} AS value FROM ({scan}) q "
                                                 f"LIMIT {MOST_CLASSES + 1}", "fetchnumpy", self.duckdb)
        values = _plain(found["value"])
        if len(values) == 1:
            raise ValueError(f"The target {name!r} of {self.source!r} has only one value, {values.tolist()[0]!r}: "
                             "there is nothing to predict. Add files with other values, or name another column.")
        return np.sort(values)

    def _count(self, files: FileSource, condition: str) -> int:
        """Return how many rows of files meet a condition."""
        return int(scanned(files, lambda scan: f"SELECT COUNT(*) FROM ({scan}) q WHERE {condition}",
                           place=self.duckdb)[0][0])

    def _read(self, file: Path, names: Sequence[str], where: str, rows: int) -> ReadColumns:
        """Return the named columns of some rows of a file, in their order there."""
        chosen = ", ".join([*(f"{DUCKDB.quote(name)} AS c{j}" for j, name in enumerate(names)), NUMBER])
        found = scanned(file, lambda scan: f"SELECT {chosen} FROM {scan.removeprefix(SCAN)[:-1]}, "
                                           f"{NUMBER}=true) WHERE {where} ORDER BY {NUMBER}", "fetchnumpy", self.duckdb)
        if len(found[NUMBER]) != rows:
            raise ValueError(f"{str(file)!r} has changed while it was read. Run the command again when it does not.")
        columns = {name: _plain(found[f"c{j}"]) for j, name in enumerate(names)}
        return {name: column.astype("m8[us]") if self.columns[name] == "DURATION" else column
                for name, column in columns.items()}


def is_folder(source: str) -> bool:
    """Say whether a source is a folder, or a pattern of several files such as ``"2024/*.parquet"``."""
    return Path(source).is_dir() or (GLOB.search(source) is not None and not Path(source).exists())


def parquet_rows(source: str) -> ParquetRows:
    """Return the rows of the Parquet files in a folder and those below, or of a pattern.

    DuckDB reads the names of folders such as ``year=2024`` as a column. What lies in a folder under a name that starts
    with a dot is left out, as half-written files are.

    Raises ValueError where there are none, and where one cannot be read or has another schema than the first, naming
    the file and what differs.
    """
    folder = Path(source)
    files = matching(source) if not folder.is_dir() else sorted(
        file for file in folder.rglob("*") if file.suffix.lower() in (".parquet", ".pq")
        and not any(part.startswith(".") for part in file.relative_to(folder).parts))
    if not files:
        raise ValueError(f"{source!r} is a folder, or a pattern, without a file that ends in .parquet. Name a folder "
                         "of Parquet files, or a pattern such as 'folder/*.parquet'.")
    for file in files:
        if file.suffix != ".parquet":
            raise ValueError(f"{str(file)!r} is no Parquet file by its name. Several files are read as Parquet alone: "
                             "end their names in .parquet.")
    duckdb = connect_duckdb()
    file_columns(files[0])
    header = parquet_header(files[0])
    first = _schema(files[0], duckdb)
    if NUMBER in map(str.lower, first):
        raise ValueError(f"{str(files[0])!r} has a column called {NUMBER!r}, DuckDB's word for the number of a row. "
                         "Rename it.")
    for file in files[1:]:
        check_folders(file, header)
        _check_schema(file, _schema(file, duckdb), files[0], first)
    rows = dict(scanned(files, lambda scan: "SELECT file_name, num_rows FROM parquet_file_metadata"
                                            + scan.removeprefix(SCAN + "read_parquet"), place=duckdb))
    counts = [rows[str(file)] for file in files]
    if not sum(counts):
        raise ValueError(f"The Parquet files of {source!r} have columns but no rows.")
    return ParquetRows(source, files, np.concatenate([[0], np.cumsum(counts)]).astype(np.intp), first, duckdb)


def _schema(file: Path, duckdb: Any) -> dict[str, str]:
    """Return the type of each column; to DuckDB alone Arrow's durations are whole numbers."""
    kinds = {str(row[0]): str(row[1]) for row in scanned(file, lambda scan: f"DESCRIBE {scan}", place=duckdb)}
    return kinds | dict.fromkeys(durations(file, duckdb), "DURATION")


def _check_schema(file: Path, found: dict[str, str], first: Path, known: dict[str, str]) -> None:
    """Refuse a file whose columns, in whatever order, are not those of the first."""
    for name in [*known, *found]:
        kinds = [str(columns.get(name, "missing")) for columns in (known, found)]
        if kinds[0] != kinds[1]:
            raise ValueError(f"Column {name!r} is {kinds[0]} in {str(first)!r} and {kinds[1]} in {str(file)!r}. All "
                             "files need the same columns: write that one anew, or leave it out by a pattern.")


def _plain(values: Any) -> Labels:
    """Return a masked column as other readers do: NaN for numbers that are missing, None for texts, and bytes."""
    data = np.ma.getdata(values)
    if data.dtype.kind == "O":
        data[:] = np.fromiter((bytes(one) if type(one) is bytearray else one for one in data), object, len(data))
    if not np.ma.is_masked(values):
        return np.asarray(data)
    plain = np.array(data, dtype=np.float64 if data.dtype.kind in "iuf" else None)
    if plain.dtype.kind not in "fmM":
        plain = plain.astype(object)
    plain[values.mask] = None if plain.dtype.kind == "O" else np.array("NaT" if plain.dtype.kind in "mM" else np.nan,
                                                                       dtype=plain.dtype)
    return plain
