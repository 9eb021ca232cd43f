"""One measurement, what measurements find and a result shows, and the one loop that makes them and knows the time."""

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._suggest import agreeing, counted
from buttress._types import AuditProgress, Predictor
from buttress.attacks.scoring import Fallen
from buttress.audit.findings.finding import Finding
from buttress.audit.measuring.cells import Cell
from buttress.audit.measuring.split_table import SplitTable
from buttress.audit.measuring.suspicion import Plain, Verdicts


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


Stage = tuple[str, float]  # what is done next, and the share of the measurement that is done
Stages = Generator[Stage, None, "Measured"]


@dataclass
class Measured(Shown):
    """What has been measured: of all measurements so far, or of one, which fills in its own part.

    ``cells`` holds the table by column and estimator. ``on`` says what was measured and on how many rows, in the order
    it was done.
    ``losses`` are those of each estimator on the held-out rows as they are, (n,): 0 or 1, or squared errors. ``fallen``
    are the held-out rows of each attacked model. ``unattacked`` models are not recommended.
    """

    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)
    on: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)  # what a terminal shows at once
    known: dict[str, list[Finding]] = field(default_factory=dict)  # what needed no model, by code
    models: dict[str, Predictor] = field(default_factory=dict)
    losses: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    answers: dict[str, NDArray[Any]] = field(default_factory=dict)  # of the models on the held-out rows as they are
    unfinished: list[str] = field(default_factory=list)
    unattacked: list[str] = field(default_factory=list)
    fallen: dict[str, Fallen] = field(default_factory=dict)
    verdicts: Verdicts | None = None
    judged: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    def add(self, found: "Measured") -> None:
        """Take over what one measurement has found."""
        for one in fields(self):
            mine, theirs = getattr(self, one.name), getattr(found, one.name)
            if isinstance(mine, dict):
                mine.update(theirs)
            elif isinstance(mine, list):
                mine += [entry for entry in theirs if entry not in mine]
            elif theirs is not None and np.size(theirs):
                setattr(self, one.name, theirs)

    def rows(self, names: Sequence[str]) -> dict[str, dict[str, Cell]]:
        """Return the cells by estimator, empty ones where there is nothing to measure."""
        return {name: {key: self.cells.get(key, {}).get(name, Cell()) for key in self.columns} for name in names}


@dataclass(frozen=True)
class Cost:
    """Seconds on one core: ``seconds`` at 1,000 rows trained on, 500 held out, 50 columns and two classes.

    They grow with these powers of the rows trained on and the classes, and the root of the columns; ``audit_plan.py``
    in the benchmarks measures them. They say beforehand how long an audit takes, and decide nothing.
    """

    seconds: float
    rows: float = 1.0
    classes: float = 0.5

    def of(self, split: SplitTable) -> float:
        """Return the seconds that the measurement should take of a table."""
        classes = len(np.unique(split.train.y)) if split.classifies else 2
        return float(self.seconds * (len(split.train) / 1000) ** self.rows * (split.train.X.shape[1] / 50) ** 0.5
                     * (max(2, classes) / 2) ** self.classes)


@dataclass(frozen=True)
class Measurement:
    """One thing that is measured of a split table.

    ``take`` is a generator: it yields a :data:`Stage` before each piece of work and returns what it has found, so that
    one that is cut short leaves nothing. It may read what the measurements it ``needs`` have found.
    """

    name: str
    take: Callable[[SplitTable, Measured], Stages]
    cost: Cost
    needs: tuple[str, ...] = ()
    applies: Callable[[SplitTable], bool] = lambda split: True


def seconds_of(measurements: Sequence[Measurement], split: SplitTable) -> float:
    """Return how long the measurements of a table should take on one core."""
    return sum(one.cost.of(split) for one in measurements if one.applies(split))


def measure(
    measurements: Sequence[Measurement], split: SplitTable, report: AuditProgress, tell: Callable[[str], None],
    deadline: float | None = None,
) -> Measured:
    """Make the measurements one after another, and none that would begin after the clock (monotonic) says so."""
    measured = Measured()
    chosen = [one for one in measurements if one.applies(split)]
    whole = max(seconds_of(chosen, split), 1e-9)
    done = 0.0
    for one in chosen:
        share = one.cost.of(split) / whole
        lacking = [need for need in one.needs if need in measured.cut]
        found = None if lacking else _result_of(one, split, measured, deadline, report, done, share)
        if found is None:
            measured.cut.append(one.name)
        else:
            measured.add(found)
            for line in found.told:
                tell(line)
        done += share
    return measured


def _result_of(
    one: Measurement, split: SplitTable, measured: Measured, deadline: float | None, report: AuditProgress,
    start: float, share: float,
) -> Measured | None:
    """Return what a measurement finds, None where it was cut short; it begins at ``start`` and is a share of all."""
    course = one.take(split, measured)
    while deadline is None or time.monotonic() < deadline:
        try:
            what, part = next(course)
        except StopIteration as end:
            return end.value
        report(what, start + share * part)
    course.close()
    return None
