"""What measurements find and a result shows beside the cells of its table: declared once for both."""

from dataclasses import dataclass, field
from typing import Any

from buttress._suggest import agreeing, counted
from buttress.audit.measuring.cells import Cell
from buttress.audit.measuring.suspicion import Plain


@dataclass(frozen=True)
class Gain:
    """Scores on ``rows`` held-out rows, by the metric that models are compared by: of the model ``before`` as the data
    are, of the one ``after``, and of that one trained on ``corrected`` targets. ``gained`` is by how much the last is
    better than the first.
    """

    before: str
    after: str
    rows: int
    corrected: int
    today: Cell
    model: Cell
    both: Cell
    gained: Cell


@dataclass(frozen=True)
class Hanging:
    """A training row that looks wrong or is borderline, on whose label ``count`` held-out predictions hang: it is one
    of the fewest that would have to be others to change them. ``predictions`` are rows, the most fragile first.
    """

    row: Plain
    count: int
    predictions: list[Plain]


@dataclass(frozen=True)
class WrongLabels:
    """What the least-squares machine, fitted to ``trained`` rows, stands: half of the held-out rows ``needed`` wrong
    labels or more; the share ``proven`` stays right whichever ``labels`` of them are wrong, of all the share ``share``.
    The majority class stays so on the share ``majority``.
    """

    machine: str
    trained: int
    labels: int
    share: float
    needed: Cell
    proven: Cell
    majority: Cell
    hanging: list[Hanging]

    def says(self) -> str:
        """Return it in a sentence."""
        needed = counted(int(self.needed.value or 0), "wrong label")
        return (f"Whichever {self.labels} of the {self.trained} training labels {agreeing(self.labels, 'is', 'are')} "
                f"wrong (up to {self.share:.2%} of all may be, as estimated), the least-squares machine is "
                f"proven right on at least {self.proven.number()} of the held-out rows (the majority class on "
                f"{self.majority.number()}); half of them need {needed} or more.")


@dataclass(frozen=True)
class ColumnBand:
    """A column part by part: the quartiles of numbers, or ``middle`` alone, the share of ``category``."""

    column: str
    category: str | None
    low: list[float | None]
    middle: list[float | None]
    high: list[float | None]


@dataclass(frozen=True)
class Along:
    """The columns that change ``along`` something, the surest first, ``found`` of them."""

    along: str
    found: int
    columns: list[ColumnBand]


@dataclass(frozen=True)
class Associations:
    """Of ``columns``, the target first, the numbers of all pairs, (m, m), over so many ``rows``."""

    columns: list[str]
    values: list[list[float]]
    rows: int


@dataclass(frozen=True)
class Precision:
    """A column given to whole multiples of ``step``: rounding moves an entry by up to ``eps`` standard deviations."""

    column: str
    step: float
    eps: float


@dataclass
class Shown:
    """What a result shows as it was measured.

    ``columns`` says what the columns of the table mean; ``curves`` are by kind and estimator, beside their "x"; ``cut``
    are the measurements for which there was no time.
    """

    columns: dict[str, str] = field(default_factory=dict)
    curves: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    novel: list[Any] = field(default_factory=list)
    gain: Gain | None = None
    labels: WrongLabels | None = None
    along: Along | None = None
    associations: Associations | None = None
    precision: list[Precision] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
