"""All rows as they came, each with the verdict on it: ``suspicious.csv``, ready to be sorted and corrected."""

import csv
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from buttress.audit.measuring.suspicion import Verdicts
from buttress.audit.reading.row_keys import row_keys
from buttress.audit.reading.table import Table, taken
from buttress.audit.reading.texts import as_array

CHUNK = 50_000  # rows written at a time


@dataclass
class Sheet:
    """The rows of the data as they came and what was found of each."""

    table: Table
    verdicts: Verdicts
    judged: NDArray[np.intp]
    fewer: bool = False  # rows were asked for than there are

    @cached_property
    def keys(self) -> list[str]:
        """The key of each row, in the file's order."""
        return row_keys(self._given())

    @cached_property
    def verdict_columns(self) -> dict[str, list[Any]]:
        """The columns of the verdict by name, a row each, in the file's order."""
        table, verdicts = self.table, self.verdicts
        names = ("row", "verdict", "probability", "expected", "why", "target", "key", "corrected", "drop")
        columns = {name: np.full(len(as_array(table.given_target)), None, dtype=object) for name in names}
        columns["row"][:] = np.arange(len(columns["row"]))  # what rows without a target are called
        columns["row"][table.places] = table.row_numbers.astype(object)
        columns["verdict"][:] = "not judged: it has no target"
        columns["verdict"][table.places] = "not judged: fewer rows were asked for" if self.fewer else "not judged"
        columns["target"][:] = table.target_name
        columns["key"][:] = self.keys
        judged, kinds = table.places[self.judged], verdicts.kinds()
        columns["verdict"][judged] = kinds
        columns["probability"][judged] = np.round(verdicts.probability, 4)
        columns["expected"][judged] = verdicts.expected
        columns["why"][judged] = [verdicts.why(i) if kind != "fine" else None for i, kind in enumerate(kinds)]
        return {name: column.tolist() for name, column in columns.items()}

    def _given(self) -> dict[str, object]:
        return {self.table.target_name: self.table.given_target, **self.table.given}

    def write(self, path: Path) -> None:
        """Write all rows as CSV, in the order of the file, some at a time: many do not fit in memory as text."""
        given = self._given()
        verdict = self.verdict_columns
        names = [name if name not in verdict else f"{name} (data)" for name in given]
        polars = all(type(column).__module__.startswith("polars.") for column in given.values())
        write = _write_series if polars else _write_entries
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerow([*verdict, *names])
            for start in range(0, len(verdict["row"]), CHUNK):
                part = slice(start, start + CHUNK)
                write(file, [column[part] for column in verdict.values()],
                      [taken(column, part) for column in given.values()])

    def suspicious(self) -> dict[str, list[Any]]:
        """Return the columns of the rows that look wrong or are borderline, the most suspicious first."""
        verdict = self.verdict_columns
        chosen = sorted((i for i, kind in enumerate(verdict["verdict"]) if kind in ("wrong", "borderline")),
                        key=lambda i: -verdict["probability"][i])
        names = ["row", "verdict", "probability", "expected", "why"]
        picked = np.array(chosen, dtype=np.intp)
        return {name: [verdict[name][i] for i in chosen] for name in names} | {
            name: as_list(taken(column, picked)) for name, column in self._given().items()}


def as_list(column: object) -> list[Any]:
    """Return a column of a frame, or a sequence, as a list of Python values."""
    return list(column.to_list() if hasattr(column, "to_list") else np.asarray(column).tolist())


def _write_entries(file: TextIO, found: list[list[Any]], given: list[object]) -> None:
    """Write some rows, entry by entry."""
    columns = [*found, *(as_list(column) for column in given)]
    csv.writer(file, lineterminator="\n").writerows(zip(*columns, strict=True))


def _write_series(file: TextIO, found: list[list[Any]], given: list[Any]) -> None:
    """Write some rows of series of polars, which does that in a tenth of the time."""
    import polars as pl

    columns = [*(pl.Series(column, strict=False) for column in found), *given]
    texts = [column.cast(pl.String).str.to_titlecase() if column.dtype == pl.Boolean else column for column in columns]
    frame = pl.DataFrame([column.alias(str(place)) for place, column in enumerate(texts)])
    try:
        file.write(frame.write_csv(include_header=False))
    except pl.exceptions.ComputeError:  # a column is nested, or of durations or bytes
        _write_entries(file, found, given)
