"""All rows as they came, each with the verdict on it: ``suspicious.csv``, ready to be sorted and corrected."""

import csv
import io
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.audit.reading.table import Table
from buttress.audit.suspicion import Verdicts

VERDICT_COLUMNS = ("row", "verdict", "probability", "expected", "why", "target", "corrected", "drop")
NOT_DRAWN = "not judged: left out to keep the budget"
NO_TARGET = "not judged: it has no target"


@dataclass
class Sheet:
    """The rows of the data as they came and what was found of each."""

    table: Table
    verdicts: Verdicts
    judged: NDArray[np.intp]

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """Every column by name: those of the verdict first, then those of the data; a row each, in the file's order."""
        table = self.table
        data = {name: as_list(column) for name, column in self._given().items()}
        rows = len(data[table.target_name])
        found: dict[str, list[Any]] = {name: [None] * rows for name in VERDICT_COLUMNS}
        found["row"] = self._numbers(rows)
        found["verdict"] = [NO_TARGET] * rows
        found["target"] = [table.target_name] * rows
        for place in table.places:
            found["verdict"][place] = NOT_DRAWN
        for i, (place, kind) in enumerate(zip(table.places[self.judged].tolist(), self.verdicts.kinds(), strict=True)):
            found["verdict"][place] = kind
            found["probability"][place] = round(float(self.verdicts.probability[i]), 4)
            found["expected"][place] = self.verdicts.expected[i].item()
            found["why"][place] = self.verdicts.why(i) if kind != "fine" else None
        return found | {name if name not in found else f"{name} (data)": column for name, column in data.items()}

    def _given(self) -> dict[str, object]:
        return {self.table.target_name: self.table.given_target, **self.table.given}

    def _numbers(self, rows: int) -> list[Any]:
        """Return what the rows are called; those without a target by their number."""
        names: list[Any] = list(range(rows))
        for place, name in zip(self.table.places.tolist(), self.table.row_numbers.tolist(), strict=True):
            names[place] = name
        return names

    def text(self) -> str:
        """Return all rows as CSV, in the order of the file."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*self.columns.values(), strict=True))
        return buffer.getvalue()

    def suspicious(self) -> dict[str, list[Any]]:
        """Return the columns of the rows that look wrong or are borderline, the most suspicious first."""
        chosen = [i for i, kind in enumerate(self.columns["verdict"]) if kind in ("wrong", "borderline")]
        chosen.sort(key=lambda i: -self.columns["probability"][i])
        names = ["row", "verdict", "probability", "expected", "why"]
        data = {name: as_list(column) for name, column in self._given().items()}
        return {name: [self.columns[name][i] for i in chosen] for name in names} | {
            name: [column[i] for i in chosen] for name, column in data.items()}


def as_list(column: object) -> list[Any]:
    """Return a column of a frame, or a sequence, as a list of Python values."""
    for method in ("to_list", "tolist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return np.asarray(column).tolist()
