"""The settings of an audit."""

from dataclasses import dataclass
from enum import StrEnum

from buttress._checks import check_count, check_limits, check_number, check_option
from buttress.threats import ThreatModel


class Metric(StrEnum):
    """By what the verdict is: of classes, or of numbers."""

    auto = "auto"
    accuracy = "accuracy"
    balanced_accuracy = "balanced_accuracy"
    rmse = "rmse"
    mae = "mae"


class Effort(StrEnum):
    """How much is measured: the plan that a table gets."""

    quick = "quick"
    standard = "standard"
    thorough = "thorough"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The settings of an audit, as :func:`buttress.audit.call.audit` states them; TypeError, or ValueError, for others.
    """

    task: str = "auto"
    eps: float = 0.25
    effort: str = Effort.standard
    max_time: float | None = None
    rows: int | None = None
    seed: int = 0
    ignore: tuple[str, ...] = ()  # codes of findings to leave out
    swaps: int = 1  # most categories of a row that are swapped
    groups: str | None = None  # the column whose equal entries belong together
    time: str | None = None  # the column that says when rows were
    metric: str = Metric.auto
    threat: ThreatModel | None = None  # in place of eps, for what is attacked, proven and trained against
    drop: tuple[str, ...] = ()  # columns that were left out as no features

    @property
    def radius(self) -> float:
        """The radius of the table's attack: ``eps``, or 1 in multiples of a threat's budgets."""
        return self.eps if self.threat is None else 1.0

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        if not isinstance(self.threat, ThreatModel | None):
            raise TypeError(f"threat must be a ThreatModel or None. Got {self.threat!r}.")
        check_option("task", self.task, ("auto", "classification", "regression"))
        check_number("eps", self.eps, 0, fix="It is a radius in standard deviations.")
        check_option("effort", self.effort, tuple(Effort))
        check_option("metric", self.metric, tuple(Metric))
        if self.groups is not None and self.time is not None:
            raise ValueError("Give groups or time, not both: rows are held out by whole groups, or the latest are.")
        check_limits(None, self.max_time)
        check_count("random_state", self.seed, 0)
        check_count("swaps", self.swaps, 1)
        if self.rows is not None:
            check_count("rows", self.rows, 20)
