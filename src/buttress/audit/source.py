"""From a file or the name of a bundled set to columns and a target.

Loads nothing heavy before it has looked at the file, so that a mistake is answered at once.
"""

import csv
from pathlib import Path
from typing import Any

from buttress._suggest import near

KINDS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"}
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
    if target not in columns and len(columns) == 1 and ";" in next(iter(columns)):
        raise ValueError(f"{source} seems to be separated by semicolons. Save it with commas.")
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
        frame = pl.read_parquet(path) if kind == "parquet" else pl.read_csv(
            path, infer_schema_length=None, null_values=NULLS)
    except Exception as error:  # polars raises its own family; whatever it says, the file cannot be read
        fix = _encoding(path) if kind == "csv" else ""
        raise ValueError(f"Cannot read {source!r} as {kind}: {fix or ' '.join(str(error).split())[:200]}") from None
    if frame.height == 0:
        raise ValueError(f"{source!r} has a header but no rows.")
    names = frame.columns if kind == "parquet" else _header(path, frame.columns)
    return dict(zip(names, frame.get_columns(), strict=True))


def kind_of(source: str, file_format: str | None) -> str | None:
    """Return "csv", "parquet" or "bundled", None for a file whose name does not say what it is."""
    if not Path(source).is_file():
        return "bundled"
    return file_format or KINDS.get(Path(source).suffix.lower())


def read_call(source: str, kind: str) -> str:
    """Return the call of polars, imported as pl, that reads a file as the audit does."""
    if kind == "parquet":
        return f"pl.read_parquet({source!r})"
    return f"pl.read_csv({source!r}, infer_schema_length=None,\n                    null_values={NULLS!r})"


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


def _header(path: Path, names: list[str]) -> list[str]:
    """Return the names in the header of a CSV file, for polars leaves doubled quotes in them as they are."""
    with path.open(newline="", encoding="utf-8-sig") as lines:
        header = next(csv.reader(lines))
    return header if len(set(header)) == len(names) and all(header) else names


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")
