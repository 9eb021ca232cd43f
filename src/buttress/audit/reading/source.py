"""From a file or the name of a bundled set to columns and a target, and what data are called in a report.

Loads nothing heavy before it has looked at the file, so that a mistake is answered at once.
"""

import csv
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from numpy.typing import NDArray

from buttress._suggest import listed, near
from buttress._types import NamedColumns, is_frame
from buttress.files.disk import check_there

SHOWN = 20  # columns that a message names
KINDS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet"}
PACKED = {  # first bytes: what a file is, and how to unpack it
    b"\x28\xb5\x2f\xfd": ("compressed (zstd)", "Unpack it: unzstd {}"),
    b"PAR1\x15": ("a Parquet file", "Use --format parquet, or end its name in .parquet."),
    b"BZh91AY": ("compressed (bzip2)", "Unpack it: bunzip2 -k {}"),
    b"\xfd7zXZ": ("compressed (xz)", "Unpack it: unxz -k {}"),
}
NUMBER = r"[-+]?\d*[{}]\d+([eE][-+]?\d+)?"  # with one mark for the decimal point
NULLS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"]


def load(source: str, target: str | None, file_format: str | None) -> tuple[NamedColumns, Any, str]:
    """Return (columns, target, target name) of a bundled set or a CSV or Parquet file.

    Raises ValueError for what is not there, cannot be read, or lacks the target, naming the nearest name there is.
    """
    if not Path(source).is_file():
        return _load_bundled(source, target)
    columns = read_file(source, file_format)
    if target is None:
        raise ValueError(f"--target is missing: name the column to predict, one of {listed(columns, SHOWN)}.")
    if target not in columns:
        raise ValueError(f"There is no column {target!r} in {source}.{near(target, columns)} "
                         f"The columns are {listed(columns, SHOWN)}.")
    return columns, columns.pop(target), target


def _header(path: Path) -> list[str]:
    """Return the first line of a text file that is not blank, parted."""
    with lines_of(path) as lines:
        separator = csv_options(path).get("separator", ",")
        return next(record for record in csv.reader(lines, delimiter=separator) if "".join(record).strip())


def _load_bundled(source: str, target: str | None) -> tuple[NamedColumns, Any, str]:
    if Path(source).exists() or Path(source).suffix or Path(source).parent != Path() or source == "-":
        check_there(Path(source))
    from buttress.datasets import BUNDLED, load_bundled

    if source not in BUNDLED:
        raise ValueError(f"{source!r} is neither a file nor a bundled data set ({', '.join(BUNDLED)})."
                         f"{near(source, BUNDLED)}")
    X, y, names, name = load_bundled(source)
    if target not in (None, name):
        raise ValueError(f"The target of {source!r} is {name!r}. Got --target {target!r}.")
    return {names[j]: X[:, j] for j in range(len(names))}, y, name


def read_file(source: str, file_format: str | None) -> NamedColumns:
    """Return the columns of a CSV or Parquet file; ValueError says what is wrong with one that cannot be read."""
    path = Path(source)
    if file_format not in (None, "csv", "parquet"):
        raise ValueError(f"--format must be csv or parquet. Got {file_format!r}.")
    kind = kind_of(source, file_format)
    if path.suffix.lower() == ".toml" and file_format is None:
        raise ValueError(f"{source!r} is no table. If it declares a join, buttress audit, train and fit read it, and "
                         "attack for a model that train wrote.")
    if kind not in ("csv", "parquet"):
        raise ValueError(f"Cannot tell the format of {source!r} from its name. Use --format csv or --format parquet. "
                         "Tables of a database are declared in a TOML file: see docs/relational/declaring.md.")
    if path.stat().st_size == 0:
        raise ValueError(f"{source!r} is empty.")
    with whole(path):
        _check_content(path, kind)
        frame = _frame(path, kind)
        # polars has renamed what comes again
        header = _header(path) if kind == "csv" and any("_duplicated_" in name for name in frame.columns) else []
    if frame.height == 0:
        raise ValueError(f"{source!r} has a header but no rows.")
    twice = [name for name in header if name and header.count(name) > 1]
    if twice:
        raise ValueError(f"{source} has two columns {twice[0]!r}. Rename one of them.")
    return dict(zip(frame.columns, frame.get_columns(), strict=True))


def _frame(path: Path, kind: str) -> Any:
    """Return the file as a polars frame."""
    try:
        import polars as pl
    except ImportError:
        raise ImportError("Reading files needs polars. Install it with: pip install 'buttress[report]'") from None
    try:
        if kind == "parquet":
            return pl.read_parquet(path, glob=False)
        frame = pl.read_csv(path if packing(path) is None else unpacked(path).read(), **csv_options(path))
        return frame.with_columns(pl.col(pl.Int128).cast(pl.String))  # numbers of 20 digits, which no array holds
    except Exception as error:  # polars raises its own family; whatever it says, the file cannot be read
        fix = _encoding(unpacked(path).read(), path.name) or _ragged(path) if kind == "csv" else ""
        raise ValueError(f"Cannot read {str(path)!r} as {kind}: {fix or ' '.join(str(error).split())[:200]}") from None


def packing(path: Path) -> str | None:
    """Return "gzip" or "zip" for a packed file, by its first bytes, None for a plain one."""
    with path.open("rb") as file:
        first = file.read(4)
    return "gzip" if first.startswith(b"\x1f\x8b") else "zip" if first == b"PK\x03\x04" else None


def unpacked(path: Path) -> BinaryIO:
    """Open a file, a gzip file, or the only file in a zip archive, for reading."""
    kind = packing(path)
    if kind == "gzip":
        return cast(BinaryIO, gzip.open(path, "rb"))
    if kind is None:
        return path.open("rb")
    archive = zipfile.ZipFile(path)
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
    if len(names) != 1:
        raise ValueError(f"{str(path)!r} is a zip archive of {len(names)} files, or a spreadsheet; give one file in "
                         f"an archive. Unpack it, or save the sheet as CSV, in place of {path.name}.")
    return cast(BinaryIO, archive.open(names[0]))


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """Read entries of any length, as polars does, and say of a packed file that was cut short or changed which it is.
    """
    limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, RuntimeError) as error:
        raise ValueError(f"{str(path)!r} cannot be unpacked: {error}. Copy it again, or unpack it yourself.") from None
    finally:
        csv.field_size_limit(limit)


def lines_of(path: Path) -> TextIO:
    """Open a text file, packed or not, for reading; what is not UTF-8 is replaced."""
    return io.TextIOWrapper(unpacked(path), encoding="utf-8-sig", errors="replace", newline="")


def kind_of(source: str, file_format: str | None) -> str | None:
    """Return "csv", "parquet" or "bundled", None for a file whose name does not say what it is."""
    if not Path(source).is_file():
        return "bundled"
    suffixes = [suffix.lower() for suffix in Path(source).suffixes]
    if suffixes and suffixes[-1] in (".gz", ".zip"):
        suffixes = suffixes[:-1] or [".csv"]
        return file_format or KINDS.get(suffixes[-1], "csv")
    return file_format or KINDS.get(Path(source).suffix.lower())


def read_call(source: str, kind: str) -> str:
    """Return the call of polars, imported as pl, that reads a file as the audit does."""
    if kind == "parquet":
        return f"pl.read_parquet({source!r}{', glob=False' * has_marks(source)})"
    options = ",\n    ".join(f"{name}={value!r}" for name, value in csv_options(Path(source)).items())
    file = repr(source)
    if packing(Path(source)) == "zip":
        with zipfile.ZipFile(source) as archive:
            file = f"zipfile.ZipFile({source!r}).read({archive.namelist()[0]!r})"
    return f"pl.read_csv(\n    {file},\n    {options})"


def has_marks(source: str) -> bool:
    """Say whether polars would take the name of a file, such as data[1].csv, for a pattern of names."""
    return any(mark in source for mark in "*?[")


def csv_options(path: Path) -> dict[str, Any]:
    """Return the options of ``polars.read_csv`` that suit a file, from its first lines.

    The separator is the one of comma, semicolon, tab and bar that parts the header most; next to another than a comma,
    a comma may be the decimal point. Blank lines before the header are skipped, and lines may end in a carriage
    return alone.
    """
    with whole(path), lines_of(path) as lines:
        first = list(islice(lines, 100))
        blank = next((i for i, line in enumerate(first) if line.strip()), 0)
        parted = {mark: list(csv.reader(first[blank:], delimiter=mark)) or [[]] for mark in ",;\t|"}
    separator = max(parted, key=lambda mark: len(parted[mark][0]))  # the first of equals
    header, *records = parted[separator]
    options: dict[str, Any] = {"infer_schema_length": None, "null_values": NULLS}
    if has_marks(str(path)):
        options["glob"] = False
    if blank:
        options["skip_lines"] = blank
    if all(line.endswith("\r") for line in first[:-1]) and len(first) > 1:
        options["eol_char"] = "\r"
    if separator != ",":
        entries = [entry for record in records for entry in record]
        decimals = {mark for entry in entries for mark in ".," if re.fullmatch(NUMBER.format(mark), entry)}
        options |= {"separator": separator, "decimal_comma": decimals == {","}}
    if any('"' in name for name in header) and len(set(header)) == len(header):
        options["new_columns"] = header  # polars leaves doubled quotes as they are
    return options


def _check_content(path: Path, kind: str) -> None:
    """Refuse what a file reader would misread: packed files, and a header in another encoding, which polars replaces.

    In the rows below the header polars refuses another encoding itself.
    """
    header = b""
    with unpacked(path) if kind == "csv" else path.open("rb") as file:
        for line in file:
            header += line
            if line.strip():  # blank lines before the header are skipped
                break
    for mark, (what, command) in PACKED.items():
        if header.startswith(mark) and (kind, mark[:4]) != ("parquet", b"PAR1"):
            raise ValueError(f"{str(path)!r} is {what}. {command.format(path.name)}")
    fix = _encoding(header, path.name) if kind == "csv" else ""
    if fix:
        raise ValueError(f"Cannot read {str(path)!r} as csv: {fix}")


def _encoding(content: bytes, name: str) -> str:
    """Return what is wrong with the encoding of a text file and what to do about it, empty when it is UTF-8."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        likely = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "cp1252 (Windows, or Latin-1)"
        codec = likely.split()[0]
        return (f"it is not UTF-8: byte {content[error.start]:#04x} in line {line}. It is likely {likely}. Save it as "
                f"UTF-8, from a shell: iconv -f {codec} -t utf-8 {name} > utf8.csv")
    return ""


def _ragged(path: Path) -> str:
    """Return what is wrong with a text file whose lines have more entries than its header, empty when none has."""
    with lines_of(path) as lines:
        rows = csv.reader(lines, delimiter=csv_options(path).get("separator", ","))
        header = next((row for row in rows if row), [])
        first = rows.line_num
        longer = next((row for row in rows if len(row) > len(header)), None)
        if longer is None:
            return ""
        more = f"line {rows.line_num} has {len(longer)} entries, the header, line {first}, has {len(header)}. "
    if header and header[0].startswith("#"):
        return f"{more}The header looks like a comment. Take such lines out: grep -v '^#' {path.name} > plain.csv"
    return more + "Correct that line, or the header; an entry with a separator in it needs quotation marks around it."


def kind_of_frame(X: object) -> str:
    """Return what data given as an object are called in a report: "pandas frame", "polars frame" or "array"."""
    return f"{type(X).__module__.partition('.')[0]} frame" if is_frame(X) else "array"


def labels_of(X: object, y: object) -> NDArray[Any] | None:
    """Return the index of a pandas X, or else y, and None where rows have numbers only."""
    indexed: list[Any] = [data for data in (X, y) if type(data).__module__.partition(".")[0] == "pandas"]
    return indexed[0].index.to_numpy() if indexed else None
