"""From a file or the name of a bundled set to columns and a target.

Loads nothing heavy before it has looked at the file, so that a mistake is answered at once.
"""

import csv
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from buttress._suggest import near

KINDS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet"}
SEPARATORS = ",;\t|"  # the first of equals
NUMBER = r"[-+]?\d*[{}]\d+([eE][-+]?\d+)?"  # with one mark for the decimal point
NULLS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"]


def load(source: str, target: str | None, file_format: str | None) -> tuple[dict[str, Any], Any, str]:
    """Return (columns, target, target name) of a bundled set or a CSV or Parquet file.

    Raises ValueError for what is not there, cannot be read, or lacks the target, naming the nearest name there is.
    """
    if not Path(source).is_file():
        return _load_bundled(source, target)
    columns = _read_file(source, file_format)
    if target is None:
        raise ValueError(f"--target is missing: name the column to predict, one of {_listed(list(columns))}.")
    if target not in columns:
        raise ValueError(f"There is no column {target!r} in {source}.{near(target, columns)} "
                         f"The columns are {_listed(list(columns))}.")
    y = columns.pop(target)
    return columns, y, target


def _load_bundled(source: str, target: str | None) -> tuple[dict[str, Any], Any, str]:
    if Path(source).is_dir():
        raise ValueError(f"{source!r} is a folder. Name a CSV or Parquet file in it.")
    if Path(source).suffix or Path(source).parent != Path():
        raise ValueError(f"There is no file {source!r}. Check the path.")
    from buttress.datasets import BUNDLED, load_bundled

    if source not in BUNDLED:
        raise ValueError(f"{source!r} is neither a file nor a bundled data set ({', '.join(BUNDLED)})."
                         f"{near(source, BUNDLED)}")
    X, y, names, name = load_bundled(source)
    if target not in (None, name):
        raise ValueError(f"The target of {source!r} is {name!r}. Got --target {target!r}.")
    return {names[j]: X[:, j] for j in range(len(names))}, y, name


def _read_file(source: str, file_format: str | None) -> dict[str, Any]:
    path = Path(source)
    if file_format not in (None, "csv", "parquet"):
        raise ValueError(f"--format must be csv or parquet. Got {file_format!r}.")
    kind = kind_of(source, file_format)
    if kind not in ("csv", "parquet"):
        raise ValueError(f"Cannot tell the format of {source!r} from its name. Use --format csv or --format parquet.")
    if path.stat().st_size == 0:
        raise ValueError(f"{source!r} is empty.")
    try:
        import polars as pl
    except ImportError:
        raise ImportError("Reading files needs polars. Install it with: pip install 'buttress[report]'") from None
    try:
        frame = pl.read_parquet(path) if kind == "parquet" else pl.read_csv(path, **csv_options(path))
    except Exception as error:  # polars raises its own family; whatever it says, the file cannot be read
        fix = _encoding(path) if kind == "csv" else ""
        raise ValueError(f"Cannot read {source!r} as {kind}: {fix or ' '.join(str(error).split())[:200]}") from None
    if frame.height == 0:
        raise ValueError(f"{source!r} has a header but no rows.")
    return dict(zip(frame.columns, frame.get_columns(), strict=True))


def kind_of(source: str, file_format: str | None) -> str | None:
    """Return "csv", "parquet" or "bundled", None for a file whose name does not say what it is."""
    if not Path(source).is_file():
        return "bundled"
    return file_format or KINDS.get(Path(source).suffix.lower())


def read_call(source: str, kind: str) -> str:
    """Return the call of polars, imported as pl, that reads a file as the audit does."""
    if kind == "parquet":
        return f"pl.read_parquet({source!r})"
    options = ",\n    ".join(f"{name}={value!r}" for name, value in csv_options(Path(source)).items())
    return f"pl.read_csv(\n    {source!r},\n    {options})"


def csv_options(path: Path) -> dict[str, Any]:
    """Return the options of ``polars.read_csv`` that suit a file, from its first lines.

    The separator is the one of comma, semicolon, tab and bar that parts the header most; next to another than a comma,
    a comma may be the decimal point. Blank lines before the header are skipped.
    """
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as lines:
        first = list(islice(lines, 100))
    blank = next((i for i, line in enumerate(first) if line.strip()), 0)
    separator = max(SEPARATORS, key=lambda mark: len(next(_records(first[blank:], mark), [])))
    records = _records(first[blank:], separator)
    header = next(records, [])
    options: dict[str, Any] = {"infer_schema_length": None, "null_values": NULLS}
    if blank:
        options["skip_lines"] = blank
    if separator != ",":
        entries = [entry for record in records for entry in record]
        decimals = {mark for entry in entries for mark in ".," if re.fullmatch(NUMBER.format(mark), entry)}
        options |= {"separator": separator, "decimal_comma": decimals == {","}}
    if any('"' in name for name in header) and len(set(header)) == len(header):
        options["new_columns"] = header  # polars leaves doubled quotes as they are
    return options


def _records(lines: list[str], separator: str) -> Iterator[list[str]]:
    """Part lines at a separator, at quoted ones too where the csv module refuses a text (of over 131,072 letters)."""
    reader = csv.reader(lines, delimiter=separator)
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield lines[reader.line_num - 1].rstrip("\r\n").split(separator)


def _encoding(path: Path) -> str:
    """Return what is wrong with the encoding of a text file and what to do about it, empty when it is UTF-8."""
    content = path.read_bytes()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        likely = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "cp1252 (Windows, or Latin-1)"
        codec = likely.split()[0]
        return (f"it is not UTF-8: byte {content[error.start]:#04x} in line {line}. It is likely {likely}. Save it as "
                f"UTF-8, from a shell: iconv -f {codec} -t utf-8 {path.name} > utf8.csv")
    return ""


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")
