"""What a run knows of itself: its limits, its clock, the outcome that it will return, and what it keeps to go on later.

A run keeps in the checkpoint of its fit what it needs to go on, and goes on from what it finds there.
"""

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from buttress.checkpoints.journal import Journal, Memory, current_journal, journal_of_fit
from buttress.solvers.steps import Restartable, Step, Steps


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


class Keeper:
    """Keeps the record of a run in the journal of the fit, and restarts the run from the record that is there.

    Without a journal, or for an algorithm that cannot be restarted, it keeps nothing.
    """

    def __init__(self, steps: Steps, watch: Watch):
        self.run = steps
        self.watch = watch
        self.journal = current_journal() if isinstance(steps, Restartable) else None
        self.number = 0 if self.journal is None else self.journal.enter()
        self.start = ""
        self.best: Memory | None = None
        self.last: Memory | None = None
        self.spent = 0.0  # seconds that taking memories took
        self.restored = False  # whether the run had ended before it was taken up

    def alone(self) -> AbstractContextManager[None]:
        """Return a block in which runs are part of this one and keep nothing themselves, if this one keeps a record."""
        return nullcontext() if self.journal is None else journal_of_fit(None)

    def steps(self) -> Generator[Step, None, None]:
        """Yield the steps of the run that are still to come."""
        if self.journal is None:
            yield from self.run
            return
        first = next(self.run)
        self.start = float(first.objective).hex()
        found = self.journal.saved(self.number, self.start)
        record = None if found is None else Record(**found)
        if record is None:
            yield first
        else:
            self._go_on_from(record)
        if record is None or record.status in ("", "exhausted"):  # those that end of themselves do so again
            yield from self.run

    def _go_on_from(self, record: Record) -> None:
        """Restart the algorithm from its last step, having asked it for its best one."""
        assert isinstance(self.run, Restartable), "only the records of such algorithms are kept"
        self.best = record.best
        self.last = record.last
        self.restored = record.status != ""
        self.run.restart(record.best)
        self.watch.go_on_from(record, next(self.run))
        self.run.restart(record.last)
        next(self.run)

    def over(self, step: Step) -> bool:
        """Say whether the run ends at this step; keep what it needs to go on from it, and write that if it is time."""
        over = self.watch.over(step)
        if self.journal is None:
            return over
        due = self.journal.due
        self._remember(step, needed=due or over)
        from_outside = over and self.watch.outcome.status in ("max_time", "stopped")
        if self.last is not None and self.best is not None and (from_outside or (due and not over)):
            self.journal.keep(self.number, self.start, self._record(""))
        self.journal.cut |= from_outside
        return over

    def _remember(self, step: Step, *, needed: bool) -> None:
        """Take the memory of the step where it is needed, and elsewhere while that takes a small share of the time.

        A run whose best step is not the last is not kept where the memory of its best step was not taken.
        """
        assert step.memory is not None, "the steps of a restartable algorithm carry a memory"
        started = time.monotonic()
        # of the run, for memories that are perhaps not written
        cheap = self.watch.keep != "last" and self.spent <= 0.005 * (started - self.watch.start)
        self.last = step.memory() if needed or cheap else None
        if self.watch.best is step:
            self.best = self.last
        self.spent += time.monotonic() - started

    def end(self) -> None:
        """Keep how the run ended."""
        if self.journal is not None and self.last is not None and self.best is not None and not self.restored:
            self.journal.end(self.number, self.start, self._record(self.watch.outcome.status))

    def _record(self, status: str) -> Memory:
        assert self.best is not None, "the first step is the best so far"
        assert self.last is not None, "a step was noted"
        outcome = self.watch.outcome
        return vars(Record(self.best, self.last, outcome.n_iter, self.watch.seconds, status, list(outcome.history)))


def cut_short() -> None:
    """Have the journal of the fit keep what it holds: a part of it was ended from outside."""
    journal: Journal | None = current_journal()
    if journal is not None:
        journal.stop()
