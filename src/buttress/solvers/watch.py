"""What a run knows of itself: its limits, its clock, and the outcome that it will return."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from buttress.checkpoints.memory import Memory
from buttress.solvers.steps import Step


@dataclass
class Outcome:
    """How a run ended: ``status`` is converged, exhausted (the algorithm can do no more), max_iter, max_time, stopped
    (by the callback) or interrupted."""

    state: Any
    status: str
    n_iter: int
    objective: float
    gap: float = float("inf")
    history: list[dict[str, float]] = field(default_factory=list)

    @property
    def converged(self) -> bool:
        return self.status == "converged"


@dataclass
class Record:
    """What is kept of one run.

    Parameters
    ----------
    best, last : Memory
        Of the best step, whose state is the outcome, and of the last one, from which the algorithm goes on.
    n_iter, seconds : number
        Of the run so far.
    status : str
        How it ended, empty while it goes on.
    history : list of dict
    """

    best: Memory
    last: Memory
    n_iter: int
    seconds: float
    status: str
    history: list[dict[str, float]]


@dataclass
class Watch:
    """What a run knows: its limits, its clock, the best step so far, and the outcome that it will return."""

    tol: float
    max_iter: int | None
    max_time: float | None
    callback: Callable[[Step], bool | None] | None
    keep: str
    start: float = field(default_factory=time.monotonic)
    best: Step | None = None
    earlier: float = 0.0  # seconds that the run had taken where it was taken up again, which max_time does not count
    outcome: Outcome = field(default_factory=lambda: Outcome(None, "exhausted", 0, float("inf")))

    def note(self, step: Step) -> None:
        """Count and record the step, and keep it where it is the best."""
        best = self.best
        self.outcome.n_iter += step.iterations if best is not None else 0
        self.outcome.history.append(_record(step, self.outcome.n_iter, self.seconds))
        if best is None or step.objective <= best.objective or step.converged(self.tol) or self.keep == "last":
            self.best = step

    def over(self, step: Step) -> bool:
        """Say whether the run ends at this step, the last one recorded; the outcome then says why."""
        stop = self.callback(step) if self.callback is not None else False
        if step.converged(self.tol):
            self.outcome.status = "converged"
        elif stop:
            self.outcome.status = "stopped"
        elif self.max_iter is not None and self.outcome.n_iter >= self.max_iter:
            self.outcome.status = "max_iter"
        elif self.max_time is not None and self.outcome.history[-1]["seconds"] - self.earlier >= self.max_time:
            self.outcome.status = "max_time"
        else:
            return False
        return True

    @property
    def seconds(self) -> float:
        return self.earlier + time.monotonic() - self.start

    def ended(self, best: Step) -> Outcome:
        """Return the outcome with the state of the best step."""
        self.outcome.state = best.state
        self.outcome.objective = best.objective
        self.outcome.gap = float("inf") if best.gap is None else best.gap
        return self.outcome

    def go_on_from(self, record: Record, best: Step) -> None:
        """Take over what an earlier run of the same problem knew."""
        self.best = best
        self.earlier = record.seconds
        self.outcome.n_iter = record.n_iter
        self.outcome.history = record.history
        self.outcome.status = record.status or self.outcome.status


def _record(step: Step, n_iter: int, seconds: float) -> dict[str, float]:
    return {"n_iter": n_iter, "seconds": seconds, **step.measures, "objective": step.objective}
