"""What an audit found, as data (``to_dict``, a versioned schema), as a picture and as text."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from buttress.audit.measure import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCHEMA = "buttress.audit/1"


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
        "eps" and "noise": {"x": [...], estimator name: [...]}.
    suspicion : dict
        judged (rows that were), rows (rows there are), share (estimate of the share of wrong targets), above_half (rows
        more likely wrong than right), held_out_above_half (of these, held out), isolated (rows that resemble no other).
    suspicious : list of dict
        row, given, expected, probability, score, why; most suspicious first: all rows above one half, and others up to
        ten. A row is called by its label in a pandas index, else by its number.
    novel : list
        The held-out rows outside the support of the training rows (SVDD, nu = 0.05); their column of the
        table does not count for the recommendation.
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
    suspicious: list[dict[str, Any]]
    novel: list[Any]
    recommended: str | None
    code: str
    data: dict[str, Any]
    settings: dict[str, Any]
    subsampled: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __repr__(self) -> str:
        """Return what it says in a line; everything is in its attributes."""
        return (f"<AuditResult: {self.task} of {self.data['target']!r}, {self.data['rows']} rows; recommended: "
                f"{self.recommended}; {self.suspicion['above_half']} rows look wrong; {len(self.notes)} notes>")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and text, under the key "schema" the schema's version."""
        from buttress import __version__

        return {"schema": SCHEMA, "buttress": __version__, **asdict(self)}

    def plot(self, axes: "Sequence[Axes] | None" = None) -> "Figure":
        """Draw the curves on matplotlib ``axes`` (one a curve, made when None) and return the figure."""
        from buttress.audit.writing.picture import draw

        return draw(self, axes)

    def left_out(self) -> list[str]:
        """Return a sentence for each thing that was left out, with the reason."""
        budget = f"to keep the budget of {self.settings['budget']:g} seconds"
        asked = f"{self.settings['rows']} were asked for" if self.settings["rows"] else budget
        said = {"train": f"are used: {asked}", "test": "are used: more would hardly narrow the intervals",
                "novel": budget, "skipped": f"were skipped {budget}"}
        return [f"{what} {said[key]}." for key, what in self.subsampled.items()]

    def judged(self) -> str:
        """Return a sentence about how many rows look wrong, of which."""
        found = self.suspicion
        all_of = "all" if found["judged"] == found["rows"] else f"{found['judged']} of the"
        alone = f" {found['isolated']} resemble no other row." if found["isolated"] else ""
        return (f"{all_of} {found['rows']} rows were judged, held-out ones too: {found['above_half']} are more likely "
                f"wrong than right, and about {found['share']:.1%} are estimated to be wrong.{alone}").capitalize()

    def missed(self, floors: dict[str, float]) -> list[str]:
        """Return a sentence for each column of the recommended estimator that is worse than its floor, or was skipped.

        Where none is recommended, the plain one is judged. A floor is the least accuracy, or the largest RMSE, allowed
        in that column.
        """
        sentences, name = [], self.recommended or next(iter(self.rows))
        for key, floor in floors.items():
            value = self.rows[name][key].value
            worse = value is None or (value < floor if self.metric == "accuracy" else value > floor)
            if worse:
                found = "was skipped for the budget" if value is None else f"is {value:.3f}"
                sentences.append(f"{key} of {name} {found}, required {floor:g}")
        return sentences


def recommend(rows: dict[str, dict[str, Cell]], metric: str, margin: float = 0.01) -> str:
    """Return the estimator with the best mean over the columns measured of all; the plain one unless beaten clearly.

    Clearly means by ``margin``; for RMSE that is a share of the plain one's mean.
    """
    shared = [key for key in next(iter(rows.values())) if all(cells[key].value is not None for cells in rows.values())]
    if not shared:
        return next(iter(rows))
    means = {name: sum(cells[key].value or 0.0 for key in shared) / len(shared) for name, cells in rows.items()}
    sign = 1 if metric == "accuracy" else -1
    plain = next(iter(rows))
    best = max(means, key=lambda name: sign * means[name])
    needed = margin if metric == "accuracy" else margin * abs(means[plain])
    return best if sign * (means[best] - means[plain]) > needed else plain
