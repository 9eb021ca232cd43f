"""Corrections that a person filled into ``suspicious.csv``, applied to the file that was audited, or to a later one.

A row is found by its key, wherever it is now. A row that is not there as it was audited is refused.
A CSV file is copied byte by byte: nothing but the corrected targets and the dropped rows changes.

The key of a row is made of what is in it: by it the row is found in a file that was sorted, cut or added to.

    key = a letter, 16 hexadecimal digits of h, a dot, and which of the equal rows it is, counted from 1 in their order
    h   = mix(sum over columns of mix(mix(entry) + name))  modulo 2^64

mix is the finaliser of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014). The sum does not depend on the order of the
columns. A number counts by its value, however it is written, so that a row has one key as text of a CSV file and as a
row of a frame; whole numbers beyond 2^53 count by their digits, other entries by their text without the spaces around
it, and what means that an entry is missing as nothing.

Two rows that are not equal share a key with a chance of 2^-64 a pair, 3e-8 for some pair of a million. That is for
honest tables: who wants two rows with one key can make them.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.audit.reading.entries import EXACT, WHOLE, as_array, texts_of
from buttress.audit.reading.source import KINDS, NULLS, NUMBER, csv_options, kind_of, lines_of, unpacked, whole
from buttress.files.disk import write_bytes

COMMA, POINT = (re.compile(NUMBER.format(mark)) for mark in (",", r"\."))  # a number with this decimal mark
MISSING = 0x6D697373696E6721

Hashes = NDArray[np.uint64]


def row_keys(columns: Mapping[str, object]) -> list[str]:
    """Return the key of each row of the columns, which are arrays, series of pandas or polars, or lists of texts."""
    total: Any = np.uint64(0)
    with np.errstate(over="ignore"):
        for name, column in columns.items():
            total = total + _mix(_mix(_codes(column)) + np.uint64(_digest(name)))
    copies: Counter[int] = Counter()
    keys = []
    for code in _mix(np.atleast_1d(total)).tolist():
        copies[code] += 1
        keys.append(f"k{code:016x}.{copies[code]}")
    return keys


def _mix(codes: Hashes) -> Hashes:
    codes = (codes ^ (codes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    codes = (codes ^ (codes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return codes ^ (codes >> np.uint64(31))


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little")


def _codes(column: Any) -> Hashes:
    """Return the entries of a column as 64 bits each."""
    values = as_array(column)
    if values.dtype.kind in "fiu":
        numbers = values.astype(float)
        if np.nanmax(np.abs(numbers), initial=0.0) < EXACT:
            return _bits(numbers)
    texts = texts_of(values)
    return np.asarray(texts.spread(np.array([_code(text) for text in texts.distinct], dtype=np.uint64), MISSING))


def _bits(values: NDArray[np.float64]) -> Hashes:
    """Return the bits of numbers, one pattern for both zeros; numbers of float64 that are missing have a code."""
    return np.where(np.isnan(values), np.uint64(MISSING), (values + 0.0).view(np.uint64))


def _code(text: str) -> int:
    """Return an entry as 64 bits."""
    text = text.strip()
    if text in NULLS:
        return MISSING
    if WHOLE.fullmatch(text) and abs(int(text)) >= EXACT:
        return _digest(str(int(text)))
    try:
        return int(_bits(np.array([float(text.replace(",", ".") if COMMA.fullmatch(text) else text)]))[0])
    except ValueError:
        return _digest(text.lower() if text.lower() in ("true", "false") else text)  # TRUE is how Excel writes it


KEY = re.compile(r"k[0-9a-f]{16}\.[1-9][0-9]*")
YES = frozenset(("yes", "y", "x", "1", "1.0", "true", "drop"))
NO = frozenset(("", "no", "n", "0", "0.0", "false"))
MARK = "\ufeff"  # that some programs put before the first byte of a text


@dataclass
class Corrections:
    """The name of the target, by key its new entries and the rows to drop, and what the audit called each row."""

    target: str = ""
    corrected: dict[str, str] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    called: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Applied:
    """How many targets were corrected and rows dropped, and the rows that were refused, by their names in the audit."""

    corrected: int
    dropped: int
    refused: list[str]


def read_corrections(path: Path) -> Corrections:
    """Return what ``suspicious.csv`` was filled in with; ValueError names what cannot be understood."""
    with whole(path), lines_of(path) as lines:
        reader = csv.DictReader(lines, delimiter=csv_options(path).get("separator", ","))
        missing = [name for name in ("row", "target", "key") if name not in (reader.fieldnames or [])]
        if missing or not {"corrected", "drop"} & set(reader.fieldnames or []):
            raise ValueError(f"{path.name} needs the columns row, target, key, and corrected or drop, as in "
                             f"suspicious.csv. Got {', '.join(reader.fieldnames or [])}.")
        found = Corrections()
        for entry in reader:
            found.target = found.target or entry["target"]
            _read_row(entry, found, path.name)
    return found


def _read_row(entry: dict[str, str], found: Corrections, name: str) -> None:
    said = (entry.get("drop") or "").strip().lower()
    value = entry.get("corrected") or ""
    key = (entry["key"] or "").strip()
    if said not in YES | NO:
        raise ValueError(f"{name} says {said!r} under drop in row {entry['row']}. Use yes, or leave it empty.")
    if not value.strip() and said in NO:
        return
    if not KEY.fullmatch(key):
        raise ValueError(f"{name} has {key!r} under key in row {entry['row']}. Leave that column as it was.")
    if key in found.called:
        raise ValueError(f"{name} has the key of row {entry['row']} twice. Leave each row in it once.")
    found.called[key] = entry["row"]
    if said in YES:
        found.dropped.add(key)
    else:
        found.corrected[key] = value


def apply_corrections(found: Corrections, data: Path, output: Path) -> Applied:
    """Write ``data`` with the corrections to ``output``, but for rows that are not in it as they were audited."""
    kind = kind_of(str(data), None)
    if kind not in ("csv", "parquet"):
        raise ValueError(f"Cannot tell the format of {data.name!r} from its name: it must be CSV or Parquet.")
    suffix = output.suffix.lower()
    if suffix in (".gz", ".zip") or KINDS.get(suffix, kind) != kind:
        raise ValueError(f"The corrected file is plain {kind}, as {data.name}. Got --output {str(output)!r}: end its "
                         f"name in .{kind}.")
    with whole(data):
        keys = _write_parquet(found, data, output) if kind == "parquet" else _write_csv(found, data, output)
    there = set(keys) & found.called.keys()
    refused = [name for key, name in found.called.items() if key not in there]
    return Applied(len(there & found.corrected.keys()), len(there & found.dropped), refused)


def _write_csv(found: Corrections, data: Path, output: Path) -> list[str]:
    """Copy the file with the corrections; returns the keys of its rows."""
    options = csv_options(data)
    separator = options.get("separator", ",")
    with unpacked(data) as file:
        lines = [line.decode("utf-8", "surrogateescape") for line in file.read().splitlines(keepends=True)]
    mark = MARK if lines[0].startswith(MARK) else ""
    records = list(_records([lines[0].removeprefix(MARK), *lines[1:]], separator))
    start = next((i for i, (cells, _) in enumerate(records) if any(cell.strip() for cell in cells)), 0)
    header = _names(records[start][0])
    if found.target not in header:
        raise ValueError(f"{data.name} has no column {found.target!r}, the target of the corrections.")
    body = [cells for cells, _ in records[start + 1 :] if cells]
    keys = row_keys({name: [cells[j] if j < len(cells) else "" for cells in body] for j, name in enumerate(header)})
    rows = iter(keys)
    place = header.index(found.target)
    spelled = _spelled(found.corrected.values(), {cells[place] for cells in body if place < len(cells)})
    parts = [mark]
    for i, (cells, text) in enumerate(records):
        key = next(rows) if i > start and cells else None
        if key in found.corrected:
            entry = spelled[found.corrected[key]]
            pointed = options.get("decimal_comma") and POINT.fullmatch(entry)
            text = _with_entry(text, place, entry.replace(".", ",") if pointed else entry, separator)
        parts += [] if key in found.dropped else [text]
    write_bytes(output, ["".join(parts).encode("utf-8", "surrogateescape")])
    return keys


def _spelled(values: Iterable[str], targets: set[str]) -> dict[str, str]:
    """Return each correction as a target of the data that means the same: true as TRUE, 3 as 03.

    Without one it is as it was typed, without spaces around it.
    """
    alike = {_code(one): one for one in sorted(targets) if "," not in one}  # which may stand between thousands
    return {value: value if value in targets else alike.get(_code(value), value.strip()) for value in values}


def _records(lines: list[str], separator: str) -> Iterator[tuple[list[str], str]]:
    """Yield the cells of each record, none for a blank line, and its text with the end of its line."""
    reader = csv.reader(lines, delimiter=separator)
    done = 0
    for cells in reader:
        yield cells, "".join(lines[done : reader.line_num])
        done = reader.line_num


def _names(header: list[str]) -> list[str]:
    """Return the names of columns as polars reads them: a name that comes again gets a number."""
    seen: dict[str, int] = {}
    names = []
    for name in header:
        names.append(f"{name}_duplicated_{seen[name]}" if name in seen else name)
        seen[name] = seen.get(name, -1) + 1
    return names


def _with_entry(text: str, place: int, value: str, separator: str) -> str:
    """Return the text of a record with one cell replaced, in quotation marks where it was or must be."""
    plain = f"[^{re.escape(separator)}\r\n]*"
    cell = re.compile(f'"(?:[^"]|"")*"{plain}|{plain}')
    found = cell.match(text)
    for _ in range(place):
        if found is not None:  # a short record ends before
            found = cell.match(text, found.end() + 1) if text[found.end() :].startswith(separator) else None
    if found is None:
        raise ValueError(f"A row to be corrected has no cell for its target: {text.strip()[:80]!r}. Complete it.")
    if found.group().startswith('"') or any(mark in value for mark in f'{separator}"\r\n'):
        value = '"' + value.replace('"', '""') + '"'
    return text[: found.start()] + value + text[found.end() :]


def _write_parquet(found: Corrections, data: Path, output: Path) -> list[str]:
    """Write the file anew with the corrections; returns the keys of its rows."""
    import polars as pl

    frame: Any = pl.read_parquet(data, glob=False)
    if found.target not in frame.columns:
        raise ValueError(f"{data.name} has no column {found.target!r}, the target of the corrections.")
    kind = frame[found.target].dtype
    keys = row_keys({name: frame[name] for name in frame.columns})
    given = frame[found.target].cast(pl.String).to_list()
    spelled = _spelled(found.corrected.values(), set(filter(None, given)))
    new = {key: spelled[value] for key, value in found.corrected.items()}
    entries = pl.Series(found.target, [new.get(key, entry) for key, entry in zip(keys, given, strict=True)])
    try:
        # polars casts no text to a truth value
        truth = {"true": True, "false": False, "True": True, "False": False, None: None}
        column = entries.replace_strict(truth, return_dtype=kind) if kind == pl.Boolean else entries.cast(kind)
    except pl.exceptions.InvalidOperationError:
        raise ValueError(f"A corrected target is no {kind}, the type of {found.target!r} in {data.name}.") from None
    kept = [row for row, key in enumerate(keys) if key not in found.dropped]
    written = io.BytesIO()
    frame.with_columns(column)[kept].write_parquet(written)
    write_bytes(output, [written.getbuffer()])
    return keys
