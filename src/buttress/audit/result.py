"""What an audit found, as data (``to_dict``, a versioned schema), as a picture and as text."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from buttress._suggest import agreeing, counted
from buttress.audit.baselines import NAMES
from buttress.audit.measure import Cell

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from buttress.audit.findings import Finding
    from buttress.audit.writing.sheet import Sheet

RENAMED = ("sheet", "suspects", "rows", "findings")  # attributes that the file has under another name, or not at all
SCHEMA = "buttress.audit/2"


@dataclass(repr=False)
class AuditResult:
    """What an audit found.

    Attributes
    ----------
    task : {"classification", "regression"}
    metric : str
        "accuracy" (higher is better) or "rmse" (lower is better).
    columns : dict of str to str
        The table's columns: key and what it says.
    rows : dict of str to dict of str to Cell
        Estimator name -> column key -> value with its interval; a Cell of None was skipped for the budget.
    curves : dict
        "eps" and "noise", and for a fitted model "moved", "swapped" and "blanked": {"x": [...], estimator: [...]}.
    suspicion : dict
        judged (rows that were), rows (rows there are), share (estimate of the share of wrong targets), above_half (rows
        more likely wrong than right), held_out_above_half (of these, held out), isolated (rows that resemble no other).
    suspects : list of dict
        row, given, expected, probability, score, verdict ("wrong" from probability .5 on, "borderline" from .25), why,
        values, unusual (columns in which it differs from the rows of its target) and neighbours (those that contradict
        it); most suspicious first. A row is called by its label in a pandas index, else by its number.
    novel : list
        The held-out rows that are farther from the others than those from each other, at a false discovery rate of
        10%; their column of the table does not count for the recommendation.
    findings : list of Finding
        The worst first: code, severity, title, evidence, advice.
    verdict : list of str
        Three sentences: on the labels, on the inputs, on what to use.
    baseline : str
        The estimator that every other has to beat: the majority or the mean.
    against : dict or None
        What became of newer rows: columns (with the p-value that each did not change, and whether it drifted), novel
        (numbers of new rows), auc (how well new rows are told from old ones), score_old and score_new (accuracy, or
        median absolute error, of gradient boosting), trusted.
    sheet : Sheet
        All rows as they came, with the verdict on each.
    recommended : str or None
        Name of the estimator to use; None where too few rows are held out to tell.
    code : str
        That estimator, or else the plain machine, as code to paste.
    data, settings, subsampled : dict
        What was audited, how, and what was left out to keep the budget.
    notes : list of str
    seconds : float
    """

    task: str
    metric: str
    columns: dict[str, str]
    rows: dict[str, dict[str, Cell]]
    curves: dict[str, dict[str, list[Any]]]
    suspicion: dict[str, Any]
    suspects: list[dict[str, Any]]
    novel: list[Any]
    recommended: str | None
    code: str
    data: dict[str, Any]
    settings: dict[str, Any]
    findings: list["Finding"]
    verdict: list[str]
    baseline: str
    sheet: "Sheet"
    against: dict[str, Any] | None = None
    subsampled: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __repr__(self) -> str:
        """Return what it says in a line; everything is in its attributes."""
        return (f"<AuditResult: {self.task} of {self.data['target']!r}, {self.data['rows']} rows; recommended: "
                f"{self.recommended}; {_looking(self.suspicion['above_half'])}; {counted(len(self.notes), 'note')}>")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and text, under the key "schema" the schema's version."""
        from buttress import __version__

        plain = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in RENAMED}
        estimators = {name: {key: asdict(cell) for key, cell in cells.items()} for name, cells in self.rows.items()}
        return {"schema": SCHEMA, "buttress": __version__, **plain, "estimators": estimators,
                "suspicious": self.suspects, "findings": [asdict(finding) for finding in self.findings]}

    @property
    def suspicious(self) -> Any:
        """The rows that look wrong or are borderline, as they came, as a frame like the user's, the worst first."""
        return frame(self.sheet.suspicious(), self.data["source"])

    @property
    def table(self) -> Any:
        """The table as a frame: a row an estimator, its cells' values."""
        columns: dict[str, list[Any]] = {"estimator": list(self.rows)}
        columns |= {key: [cells[key].value for cells in self.rows.values()] for key in self.columns}
        return frame(columns, self.data["source"])

    def save(self, folder: "str | Path") -> "list[Path]":
        """Write audit.json, suspicious.csv and, with jinja2, audit.html into ``folder``; returns their paths."""
        from pathlib import Path

        from buttress.audit.writing.report import write

        return write(self, Path(folder))

    def _repr_html_(self) -> str:
        """Return the page, for a notebook."""
        from buttress.audit.writing.report import embedded

        return embedded(self)

    def plot(self, axes: "Sequence[Axes] | None" = None) -> "Figure":
        """Draw the curves on matplotlib ``axes`` (one a curve, made when None) and return the figure."""
        from buttress.audit.writing.picture import draw

        return draw(self, axes)

    def left_out(self) -> list[str]:
        """Return a sentence for each thing that was left out, with the reason."""
        budget = f"to keep the budget of {self.settings['budget']:g} seconds"
        asked = f"{self.settings['rows']} were asked for" if self.settings["rows"] else budget
        said = {"train": f"are used: {asked}", "test": "are used: more would hardly narrow the intervals",
                "judged": f"have their labels judged: {asked}", "novel": budget, "moves": f"were moved {budget}",
                "certified": f"were certified {budget}", "skipped": f"were skipped {budget}"}
        return [f"{what} {said[key]}." for key, what in self.subsampled.items()]

    def judged(self) -> str:
        """Return a sentence about how many rows look wrong, of which."""
        found = self.suspicion
        all_of = "all" if found["judged"] == found["rows"] else f"{found['judged']} of the"
        alone = found["isolated"]
        resembling = f" {alone} {agreeing(alone, 'resembles', 'resemble')} no other row." if alone else ""
        return (f"{all_of} {found['rows']} rows were judged, held-out ones too: {found['above_half']} "
                f"{agreeing(found['above_half'], 'is', 'are')} more likely wrong than right, and about "
                f"{found['share']:.1%} are estimated to be wrong.{resembling}").capitalize()

    def missed(self, floors: dict[str, float]) -> list[str]:
        """Return a sentence for each column of the recommended estimator that is worse than its floor, or was skipped.

        Where none is recommended, the plain one is judged. A floor is the least accuracy, or the largest RMSE, allowed
        in that column.
        """
        name = self.recommended or next(name for name in self.rows if name not in NAMES)
        sentences = []
        for key, floor in floors.items():
            value = self.rows[name][key].value
            higher = self.metric == "accuracy" or key == "r2"
            worse = value is None or (value < floor if higher else value > floor)
            if worse:
                found = "was skipped for the budget" if value is None else f"is {value:.3f}"
                sentences.append(f"{key} of {name} {found}, required {floor:g}")
        return sentences


    def failing(self, fail_on: Sequence[str]) -> list[str]:
        """Return a sentence for each finding of a code in ``fail_on``, or of a severity in it or a worse one."""
        order = ["error", "warning", "note"]
        worst = [order.index(name) for name in fail_on if name in order]
        return [f"{finding.severity} {finding.code}: {finding.title}" for finding in self.findings
                if finding.code in fail_on or any(order.index(finding.severity) <= limit for limit in worst)]


def _looking(wrong: int) -> str:
    return f"{counted(wrong, 'row')} {agreeing(wrong, 'looks', 'look')} wrong"


def recommend(rows: dict[str, dict[str, Cell]], metric: str, margin: float = 0.01) -> str:
    """Return the first estimator whose mean over the columns measured of all is clearly beaten by none.

    ``rows`` are in order of simplicity. Clearly means by more than ``margin``; for RMSE that is a share of its mean.
    """
    shared = [key for key in next(iter(rows.values())) if all(cells[key].value is not None for cells in rows.values())]
    if not shared:
        return next(iter(rows))
    means = {name: sum(cells[key].value or 0.0 for key in shared) / len(shared) for name, cells in rows.items()}
    sign = 1 if metric == "accuracy" else -1
    best = max(sign * mean for mean in means.values())
    needed = {name: margin if metric == "accuracy" else margin * abs(mean) for name, mean in means.items()}
    return next(name for name, mean in means.items() if best - sign * mean <= needed[name])


def frame(columns: dict[str, list[Any]], source: str) -> Any:
    """Return columns as a frame: pandas if the data came so, else polars, or whichever is installed; else a dict."""
    libraries = ("pandas", "polars") if source.startswith("pandas") else ("polars", "pandas")
    for library in libraries:
        if find_spec(library):
            extra = {"strict": False} if library == "polars" else {}
            return import_module(library).DataFrame(columns, **extra)
    return columns
