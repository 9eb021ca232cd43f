"""What an audit found, as data (``to_dict``, a versioned schema), as a picture and as text, and all rows as they came.

Each row stands with the verdict on it in ``suspicious.csv``, ready to be sorted and corrected.
"""

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._suggest import agreeing
from buttress.audit.baselines import NAMES
from buttress.audit.findings import Finding
from buttress.audit.measuring.cells import Cell
from buttress.audit.measuring.measurement import Shown
from buttress.audit.measuring.suspicion import Suspect, Suspicion, Verdicts
from buttress.audit.reading.corrections import row_keys
from buttress.audit.reading.entries import as_array, as_list
from buttress.audit.reading.table import DataTable, taken
from buttress.files.container import Json

CHUNK = 50_000  # rows written at a time


@dataclass
class Sheet:
    """The rows of the data as they came and what was found of each."""

    table: DataTable
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
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*verdict, *names])
            for start in range(0, len(verdict["row"]), CHUNK):
                part = slice(start, start + CHUNK)
                found = [column[part] for column in verdict.values()]
                writer.writerows(zip(*found, *(as_list(taken(column, part)) for column in given.values()), strict=True))

    def suspicious(self) -> dict[str, list[Any]]:
        """Return the columns of the rows that look wrong or are borderline, the most suspicious first."""
        verdict = self.verdict_columns
        chosen = sorted((i for i, kind in enumerate(verdict["verdict"]) if kind in ("wrong", "borderline")),
                        key=lambda i: -verdict["probability"][i])
        names = ["row", "verdict", "probability", "expected", "why"]
        picked = np.array(chosen, dtype=np.intp)
        return {name: [verdict[name][i] for i in chosen] for name in names} | {
            name: as_list(taken(column, picked)) for name, column in self._given().items()}


# attributes that the file has in another form, under another name, or not at all
SCHEMA = "buttress.audit/3"


@dataclass(frozen=True)
class ClassScore:
    """Of one class, among the held-out rows as they are: how many there are, and which share of them is found.

    ``precision`` is the share that is right of the rows said to be of the class.
    """

    rows: int
    recall: Cell
    precision: Cell


@dataclass(repr=False, kw_only=True)
class AuditData(Shown):
    """What an audit found, as data: the base of :class:`buttress.audit.AuditResult`, which says what each field is."""

    task: str
    metric: str
    rows: dict[str, dict[str, Cell]]
    suspicion: Suspicion
    suspects: list[Suspect]
    recommended: str | None
    code: str
    data: Json
    settings: Json
    findings: list[Finding]
    verdict: list[str]
    baseline: str
    sheet: Sheet
    against: Json | None = None
    by_class: dict[str, ClassScore] = field(default_factory=dict)
    measured: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def to_dict(self) -> Json:
        """Return everything as plain lists, dicts, numbers and text, under the key "schema" the schema's version."""
        from buttress import __version__

        remade = ("sheet", "suspicion", "suspects", "rows", "findings", "seconds")
        plain = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in remade}
        found = {**plain, "estimators": self.rows, "suspicion": self.suspicion, "suspicious": self.suspects,
                 "findings": self.findings}
        return {"schema": SCHEMA, "buttress": __version__, **rounded(found)}

    @property
    def suspicious(self) -> Any:
        """The rows that look wrong or are borderline, as they came, as a frame like the user's, the worst first.

        A pandas frame has the index of those rows.
        """
        columns = self.sheet.suspicious()
        return frame(columns, self.data["source"], columns["row"])

    @property
    def table(self) -> Any:
        """The table as a frame: a row an estimator, its cells' values."""
        columns: dict[str, list[Any]] = {"estimator": list(self.rows)}
        columns |= {key: [cells[key].value for cells in self.rows.values()] for key in self.columns}
        return frame(columns, self.data["source"])

    def cut_short(self) -> str:
        """Return a sentence about what there was no time to measure, empty where everything was measured."""
        if not self.cut:
            return ""
        return (f"Cut short after {self.settings['max_time']:g} seconds: {', '.join(self.cut)} "
                f"{agreeing(len(self.cut), 'was', 'were')} not measured, and no model is recommended.")

    def higher(self, key: str) -> bool:
        """Say whether more is better in a column of the table."""
        return key != "log_loss" if self.task == "classification" else key == "r2"

    def missed(self, floors: dict[str, float]) -> list[str]:
        """Return a sentence for each column of the recommended estimator that is worse than its floor, or was skipped.

        Where none is recommended, the plain one is judged. A floor is the least accuracy, or the largest RMSE, allowed
        in that column.
        """
        name = self.recommended or next(name for name in self.rows if name not in NAMES)
        sentences = []
        for key, floor in floors.items():
            value = self.rows[name].get(key, Cell()).value
            if value is None or (value < floor if self.higher(key) else value > floor):
                found = "was not measured" if value is None else f"is {value:.3f}"
                sentences.append(f"{key} of {name} {found}, required {floor:g}")
        return sentences


    def failing(self, fail_on: Sequence[str]) -> list[str]:
        """Return a sentence for each finding of a code in ``fail_on``, or of a severity in it or a worse one."""
        order = ["error", "warning", "note"]
        worst = [order.index(name) for name in fail_on if name in order]
        return [f"{finding.severity} {finding.code}: {finding.title}" for finding in self.findings
                if finding.code in fail_on or any(order.index(finding.severity) <= limit for limit in worst)]


def rounded(data: Any) -> Any:
    """Return data as plain lists, dicts and numbers, these rounded to the digits that the file holds."""
    if is_dataclass(data) and not isinstance(data, type):
        data = asdict(data)
    if isinstance(data, dict):
        return {key: rounded(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [rounded(value) for value in data]
    # what is beyond may change with a processor or a library
    return float(f"{data:.6g}") if isinstance(data, float) else data


def frame(columns: dict[str, list[Any]], source: str, index: list[Any] | None = None) -> Any:
    """Return columns as a frame: pandas if the data came so, else polars, or whichever is installed; else a dict.

    ``index`` is that of a pandas frame.
    """
    libraries = ("pandas", "polars") if source.startswith("pandas") else ("polars", "pandas")
    for library in libraries:
        if find_spec(library):
            extra: dict[str, object] = {"strict": False} if library == "polars" else {"index": index}
            return import_module(library).DataFrame(columns, **extra)
    return columns
