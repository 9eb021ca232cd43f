"""Corrections that a person filled into ``suspicious.csv``, applied to the file that was audited.

A CSV file is copied entry by entry as text, so nothing but the corrected targets and the dropped rows changes.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buttress.audit.reading.source import csv_options, kind_of, lines_of

NEEDED = ("row", "target")
YES = frozenset(("yes", "y", "x", "1", "1.0", "true", "drop"))
NO = frozenset(("", "no", "n", "0", "0.0", "false"))


@dataclass
class Corrections:
    """The name of the target, its new entries by row number, and the rows to drop."""

    target: str
    corrected: dict[int, str]
    dropped: set[int]


def read_corrections(path: Path) -> Corrections:
    """Return what ``suspicious.csv`` was filled in with; ValueError names what cannot be understood."""
    with lines_of(path) as lines:
        reader = csv.DictReader(lines, delimiter=csv_options(path).get("separator", ","))
        missing = [name for name in NEEDED if name not in (reader.fieldnames or [])]
        if missing or not {"corrected", "drop"} & set(reader.fieldnames or []):
            raise ValueError(f"{path.name} needs the columns row, target, and corrected or drop, as in suspicious.csv. "
                             f"Got {', '.join(reader.fieldnames or [])}.")
        found = Corrections("", {}, set())
        for entry in reader:
            found.target = found.target or entry["target"]
            _read_row(entry, found, path.name)
    return found


def _read_row(entry: dict[str, str], found: Corrections, name: str) -> None:
    said = (entry.get("drop") or "").strip().lower()
    value = (entry.get("corrected") or "").strip()
    if said not in YES | NO:
        raise ValueError(f"{name} says {said!r} under drop in row {entry['row']}. Use yes, or leave it empty.")
    if not value and said in NO:
        return
    if not entry["row"].strip().isdigit():
        raise ValueError(f"{name} calls a row {entry['row']!r}. Rows of a file are numbers, counted from 0.")
    row = int(entry["row"])
    if said in YES:
        found.dropped.add(row)
    else:
        found.corrected[row] = value


def apply_corrections(found: Corrections, data: Path, output: Path) -> tuple[int, int]:
    """Write ``data`` with the corrections to ``output``; returns how many targets were corrected and rows dropped."""
    kind = kind_of(str(data), None)
    if kind not in ("csv", "parquet"):
        raise ValueError(f"Cannot tell the format of {data.name!r} from its name: it must be CSV or Parquet.")
    rows = _write_parquet(found, data, output) if kind == "parquet" else _write_csv(found, data, output)
    beyond = [row for row in (*found.corrected, *found.dropped) if row >= rows]
    if beyond:
        output.unlink()
        raise ValueError(f"Row {beyond[0]} is to be changed, but {data.name} has {rows} rows. Is it the file audited?")
    return len(found.corrected), len(found.dropped)


def _write_csv(found: Corrections, data: Path, output: Path) -> int:
    options = csv_options(data)
    separator = options.get("separator", ",")
    with lines_of(data) as lines:
        records = list(csv.reader(lines, delimiter=separator))
    start = next((i for i, record in enumerate(records) if any(entry.strip() for entry in record)), 0)
    header, body = records[start], [record for record in records[start + 1:] if record]
    if found.target not in header:
        raise ValueError(f"{data.name} has no column {found.target!r}, the target of the corrections.")
    with output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(_corrected(found, body, header.index(found.target)))
    return len(body)


def _corrected(found: Corrections, body: list[list[str]], place: int) -> Iterator[list[str]]:
    for row, record in enumerate(body):
        if row in found.dropped:
            continue
        if row in found.corrected:
            record[place] = found.corrected[row]
        yield record


def _write_parquet(found: Corrections, data: Path, output: Path) -> int:
    import polars as pl

    frame: Any = pl.read_parquet(data)
    if found.target not in frame.columns:
        raise ValueError(f"{data.name} has no column {found.target!r}, the target of the corrections.")
    kind = frame[found.target].dtype
    entries = frame[found.target].cast(pl.String).to_list()
    for row, value in found.corrected.items():
        if row < len(entries):
            entries[row] = value
    try:
        column = pl.Series(found.target, entries).cast(kind)
    except pl.exceptions.InvalidOperationError:
        raise ValueError(f"A corrected target is no {kind}, the type of {found.target!r} in {data.name}.") from None
    kept = [row for row in range(frame.height) if row not in found.dropped]
    frame.with_columns(column)[kept].write_parquet(output)
    return int(frame.height)
