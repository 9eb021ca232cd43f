"""The one loop: every algorithm is a generator of :class:`Step`, and :func:`run` alone drives it.

It knows the tolerance, the budgets, the callback, the progress bar and Ctrl-C; algorithms know none of them.

Examples
--------
>>> from buttress.solvers.run import Step, run
>>> def halving(x):
...     while True:
...         yield Step(x, gap=abs(x), objective=x * x)
...         x = x / 2
>>> outcome = run(halving(1.0), tol=0.1, max_iter=100)
>>> outcome.state, outcome.n_iter, outcome.status
(0.0625, 4, 'converged')
"""

import functools
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from buttress._checks import InterruptedWarning, NotConvergedWarning, warn_user

Steps = Generator["Step", None, None]
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

SPENT = 1e-9  # seconds that are left when none are, so that every run makes its first step


@dataclass(frozen=True)
class Step:
    """One state of an algorithm.

    Parameters
    ----------
    state : object
        What the model is made of. It is kept, so it must not be changed in place afterwards.
    objective : float
        What is minimised; the state with the least is the best.
    gap : float or None
        How far from optimal, in the algorithm's own measure, where it has one. At most ``tol`` means converged.
    change : float or None
        How much the last iteration changed, for algorithms that can tell no more. At most ``tol`` means converged.
    done : bool
        Whether the algorithm has nothing left to do: a fixed point, or the end of a plan.
    iterations : int
        How many iterations led from the last step to this one.
    shown : str
        What the progress line says of it in place of gap and objective.
    """

    state: Any
    objective: float
    gap: float | None = None
    change: float | None = None
    done: bool = False
    iterations: int = 1
    shown: str = ""

    def converged(self, tol: float) -> bool:
        """Say whether the algorithm is done, or within ``tol`` by its own measure."""
        return self.done or any(measure is not None and measure <= tol for measure in (self.gap, self.change))

    @property
    def measures(self) -> dict[str, float]:
        """The measures that the algorithm has, by name."""
        named = {"gap": self.gap, "change": self.change}
        return {name: value for name, value in named.items() if value is not None}

    def measured(self) -> str:
        """Return the measures as text, such as ``"gap 0.02"``."""
        return ", ".join(f"{name} {value:.3g}" for name, value in self.measures.items())


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


def run(
    steps: Steps,
    *,
    tol: float = 0.0,
    max_iter: int | None = None,
    max_time: float | None = None,
    callback: Callable[[Step], bool | None] | None = None,
    progress: bool = False,
    name: str = "fit",
    warn: bool | tuple[str, ...] = True,
    inner: bool = False,
    keep: str = "best",
) -> Outcome:
    """Iterate until a step has converged, the budget is spent, the callback returns True, or Ctrl-C.

    Parameters
    ----------
    steps : generator of Step
        The first step is the starting point; it counts no iteration.
    tol : float
        Stop once a step's gap, or its change, is at most this.
    max_iter : int or None
        Most iterations, None or -1 for no limit.
    max_time : float or None
        Most seconds, None for no limit; checked between steps.
    callback : function of a Step or None
        Called after each step; a true result stops the run.
    progress : bool
        Show a rich progress line on stderr, where that is a terminal.
    name : str
        What the progress line and the warnings call the run.
    warn : bool or tuple of {"max_iter", "max_time"}
        Warn with NotConvergedWarning when a budget ran out, or when one of these did.
    inner : bool
        A part of another run or fit, to which Ctrl-C is passed on. A fit of several problems has them all inner but
        the last: while some have no solution there is no model. See :func:`all_or_nothing`.
    keep : {"best", "last"}
        Which state a run ends with that did not converge: that of the least objective, or the last, for algorithms
        whose objective is an estimate from a batch.

    Returns
    -------
    Outcome
        A converged run ends with its last state.
    """
    watch = _Watch(tol, None if max_iter == -1 else max_iter, max_time, callback, keep)
    try:
        with _display(progress, name, watch.max_iter) as show:
            for step in steps:
                watch.note(step)
                show(watch.outcome.n_iter, step)
                if watch.over(step):
                    break
    except TimeoutError:  # an algorithm whose own steps end when the time is up
        if watch.best is None:
            raise
        watch.outcome.status = "max_time"
    except KeyboardInterrupt:
        if watch.best is None or inner:
            raise
        watch.outcome.status = "interrupted"
        warn_user(_interrupted(name, watch.outcome, watch.best), InterruptedWarning)
    finally:
        steps.close()
    assert watch.best is not None, "an algorithm yields at least its starting point"
    _warn_of_the_end(name, watch.outcome, watch.best, tol, warn)
    return watch.ended(watch.best)


@dataclass
class _Watch:
    """What a run knows: its limits, its clock, the best step so far, and the outcome that it will return."""

    tol: float
    max_iter: int | None
    max_time: float | None
    callback: Callable[[Step], bool | None] | None
    keep: str
    start: float = field(default_factory=time.monotonic)
    best: Step | None = None
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
        elif self.max_time is not None and self.outcome.history[-1]["seconds"] >= self.max_time:
            self.outcome.status = "max_time"
        else:
            return False
        return True

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.start

    def ended(self, best: Step) -> Outcome:
        """Return the outcome with the state of the best step."""
        self.outcome.state = best.state
        self.outcome.objective = best.objective
        self.outcome.gap = float("inf") if best.gap is None else best.gap
        return self.outcome


def _warn_of_the_end(
    name: str, outcome: Outcome, best: Step, tol: float, warn: bool | tuple[str, ...]
) -> None:
    warned = ("max_iter", "max_time") if warn is True else warn or ()
    if outcome.status in warned:
        where = f" with {best.measured()} > tol {tol:.3g}" if best.measures else ""
        warn_user(f"{name} stopped at {outcome.status} after {outcome.n_iter} iterations{where}. "
                  f"Raise {outcome.status}{' or tol' if where else ''}, or scale the data.", NotConvergedWarning)


def all_or_nothing(fit: F) -> F:
    """Decorate the fit of an estimator: when it raises, also at Ctrl-C, the estimator is left as it was before.

    Attributes are given back by name, so a fit must not change an array of an earlier one in place.
    """

    @functools.wraps(fit)
    def guarded(model: object, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(model))
        try:
            return fit(model, *args, **kwargs)
        except BaseException:
            model.__dict__ = before  # at once, so that a second Ctrl-C finds nothing half done
            raise

    return cast(F, guarded)


def countdown(max_time: float | None) -> Callable[[], float | None]:
    """Return a function of what is left of ``max_time`` seconds from now, at least a little; None where that is None.

    For estimators that make several runs within one limit.
    """
    start = time.monotonic()
    return lambda: None if max_time is None else max(SPENT, max_time - (time.monotonic() - start))


class Budget:
    """What the runs inside one fit share: the seconds left of ``max_time``, the progress line, and Ctrl-C."""

    def __init__(self, max_time: float | None = None, *, progress: bool = False, name: str = "fit"):
        self.left = countdown(max_time)
        self.progress = progress
        self.name = name
        self.cut = False  # whether anything was left undone for lack of time
        self.interrupted = False  # whether Ctrl-C ended a part of the fit

    def spent(self) -> bool:
        """Say whether the time is up, so that what is left to do is to be left."""
        self.cut |= self.over
        return self.over

    @property
    def over(self) -> bool:
        """Whether the time is up; unlike ``spent`` it does not say that anything of the model is left undone."""
        return self.left() == SPENT

    def run(self, steps: Steps, **options: Any) -> Outcome:
        """Return :func:`run` of one part of the fit; Ctrl-C is passed on, and ``tell`` warns once of a spent budget."""
        shared = {"max_time": self.left(), "progress": self.progress, "name": self.name, "warn": False, "inner": True}
        outcome = run(steps, **{**shared, **options})
        self.cut |= outcome.status == "max_time"
        return outcome

    def attempt(
        self, work: Callable[[], T], *, otherwise: Callable[[], T], message: str,
        known: Callable[[], bool] | None = None
    ) -> T:
        """Return ``work()``, or at Ctrl-C what ``otherwise()`` makes of what is known, with a warning.

        ``message`` says what the model then is. Where ``known`` says that there is nothing yet to make a model of,
        Ctrl-C is passed on.
        """
        try:
            return work()
        except KeyboardInterrupt:
            if known is not None and not known():
                raise
        self.interrupted = True
        warn_user(message, InterruptedWarning)
        return otherwise()

    def tell(self, n_iter: int) -> None:
        """Warn where the time did not suffice."""
        if self.cut:
            warn_user(f"{self.name} stopped at max_time after {n_iter} iterations. Raise max_time, or use fewer rows, "
                      "columns or landmarks.", NotConvergedWarning)


def _interrupted(name: str, outcome: Outcome, best: Step) -> str:
    how_good = f" ({best.measured()})" if best.measures else ""
    return f"{name} was interrupted after {outcome.n_iter} iterations; the model holds the best state seen{how_good}."


def _record(step: Step, n_iter: int, seconds: float) -> dict[str, float]:
    return {"n_iter": n_iter, "seconds": seconds, **step.measures, "objective": step.objective}


@contextmanager
def _display(progress: bool, name: str, max_iter: int | None) -> Iterator[Callable[[int, Step], None]]:
    if not (progress and sys.stderr.isatty()):
        yield lambda n_iter, step: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=max_iter, state="")

        def show(n_iter: int, step: Step) -> None:
            state = step.shown or ", ".join(filter(None, (step.measured(), f"objective {step.objective:.6g}")))
            bar.update(task, completed=n_iter, state=f"iteration {n_iter}, {state}")

        yield show
