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
from buttress.audit.reading.table import Table, as_array

VERDICT_COLUMNS = ("row", "verdict", "probability", "expected", "why", "target", "key", "corrected", "drop")
CHUNK = 50_000  # rows written at a time
NOT_DRAWN = "not judged"
NOT_ASKED = "not judged: fewer rows were asked for"
NO_TARGET = "not judged: it has no target"


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
    def found(self) -> dict[str, list[Any]]:
        """The columns of the verdict by name, a row each, in the file's order."""
        table = self.table
        rows = len(as_array(table.given_target))
        found: dict[str, list[Any]] = {name: [None] * rows for name in VERDICT_COLUMNS}
        found["row"] = self._numbers(rows)
        found["verdict"] = [NO_TARGET] * rows
        found["target"] = [table.target_name] * rows
        found["key"] = self.keys
        for place in table.places.tolist():
            found["verdict"][place] = NOT_ASKED if self.fewer else NOT_DRAWN
        probability = np.round(self.verdicts.probability, 4).tolist()
        expected = self.verdicts.expected.tolist()
        for i, (place, kind) in enumerate(zip(table.places[self.judged].tolist(), self.verdicts.kinds(), strict=True)):
            found["verdict"][place] = kind
            found["probability"][place] = probability[i]
            found["expected"][place] = expected[i]
            found["why"][place] = self.verdicts.why(i) if kind != "fine" else None
        return found

    def _given(self) -> dict[str, object]:
        return {self.table.target_name: self.table.given_target, **self.table.given}

    def _numbers(self, rows: int) -> list[Any]:
        """Return what the rows are called; those without a target by their number."""
        names: list[Any] = list(range(rows))
        for place, name in zip(self.table.places.tolist(), self.table.row_numbers.tolist(), strict=True):
            names[place] = name
        return names

    def write(self, path: Path) -> None:
        """Write all rows as CSV, in the order of the file, some at a time: many do not fit in memory as text."""
        given = self._given()
        found = self.found
        names = [name if name not in found else f"{name} (data)" for name in given]
        write = _write_series if all(_is_polars(column) for column in given.values()) else _write_entries
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerow([*found, *names])
            for start in range(0, len(found["row"]), CHUNK):
                part = slice(start, start + CHUNK)
                write(file, [column[part] for column in found.values()],
                      [taken(column, part) for column in given.values()])

    def suspicious(self) -> dict[str, list[Any]]:
        """Return the columns of the rows that look wrong or are borderline, the most suspicious first."""
        found = self.found
        chosen = [i for i, kind in enumerate(found["verdict"]) if kind in ("wrong", "borderline")]
        chosen.sort(key=lambda i: -found["probability"][i])
        names = ["row", "verdict", "probability", "expected", "why"]
        picked = np.array(chosen, dtype=np.intp)
        return {name: [found[name][i] for i in chosen] for name in names} | {
            name: as_list(taken(column, picked)) for name, column in self._given().items()}


def taken(column: object, part: slice | NDArray[np.intp]) -> object:
    """Return some rows of a column of a frame, or of a sequence."""
    if hasattr(column, "iloc"):
        return column.iloc[part]
    return column[part] if hasattr(column, "to_list") else np.asarray(column)[part]  # type: ignore[index]


def as_list(column: object) -> list[Any]:
    """Return a column of a frame, or a sequence, as a list of Python values."""
    for method in ("to_list", "tolist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return np.asarray(column).tolist()


def _is_polars(column: object) -> bool:
    return type(column).__module__.partition(".")[0] == "polars"


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
    file.write(frame.write_csv(include_header=False))
