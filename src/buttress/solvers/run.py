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

import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from buttress._checks import InterruptedWarning, NotConvergedWarning, warn_user

Steps = Generator["Step", None, None]
T = TypeVar("T")

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

    def told(self) -> str:
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
        A part of another run or fit, to which Ctrl-C is passed on.
    keep : {"best", "last"}
        Which state a run ends with that did not converge: that of the least objective, or the last, for algorithms
        whose objective is an estimate from a batch.

    Returns
    -------
    Outcome
        A converged run ends with its last state.
    """
    max_iter = None if max_iter == -1 else max_iter
    start, outcome, best = time.monotonic(), Outcome(None, "exhausted", 0, float("inf")), None
    try:
        with _display(progress, name, max_iter) as show:
            for step in steps:
                outcome.n_iter += step.iterations if best is not None else 0
                seconds = time.monotonic() - start
                outcome.history.append(_record(step, outcome.n_iter, seconds))
                if best is None or step.objective <= best.objective or step.converged(tol) or keep == "last":
                    best = step
                show(outcome.n_iter, step)
                outcome.status = _status(step, tol, outcome.n_iter, max_iter, seconds, max_time, callback)
                if outcome.status != "running":
                    break
            else:
                outcome.status = "exhausted"
    except TimeoutError:  # an algorithm whose own steps end when the time is up
        if best is None:
            raise
        outcome.status = "max_time"
    except KeyboardInterrupt:
        if best is None or inner:
            raise
        outcome.status = "interrupted"
        warn_user(_interrupted(name, outcome, best), InterruptedWarning)
    finally:
        steps.close()
    assert best is not None, "an algorithm yields at least its starting point"
    outcome.state, outcome.objective = best.state, best.objective
    outcome.gap = float("inf") if best.gap is None else best.gap
    _warn_of_the_end(name, outcome, best, tol, warn)
    return outcome


def _warn_of_the_end(
    name: str, outcome: Outcome, best: Step, tol: float, warn: bool | tuple[str, ...]
) -> None:
    told = ("max_iter", "max_time") if warn is True else warn or ()
    if outcome.status in told:
        where = f" with {best.told()} > tol {tol:.3g}" if best.measures else ""
        warn_user(f"{name} stopped at {outcome.status} after {outcome.n_iter} iterations{where}. "
                  f"Raise {outcome.status}{' or tol' if where else ''}, or scale the data.", NotConvergedWarning)


def countdown(max_time: float | None) -> Callable[[], float | None]:
    """Return a function of what is left of ``max_time`` seconds from now, at least a little; None where that is None.

    For estimators that make several runs within one limit.
    """
    start = time.monotonic()
    return lambda: None if max_time is None else max(SPENT, max_time - (time.monotonic() - start))


class Budget:
    """What the runs inside one fit share: the seconds left of ``max_time``, the progress line, and Ctrl-C."""

    def __init__(self, max_time: float | None = None, *, progress: bool = False, name: str = "fit"):
        self.left, self.progress, self.name = countdown(max_time), progress, name
        self.cut = False  # whether anything was left undone for lack of time
        self.interrupted = False  # whether Ctrl-C ended a part of the fit

    def spent(self) -> bool:
        """Say whether the time is up, so that what is left to do is to be left."""
        over = self.left() == SPENT
        self.cut |= over
        return over

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
    how_good = f" ({best.told()})" if best.measures else ""
    return f"{name} was interrupted after {outcome.n_iter} iterations; the model holds the best state seen{how_good}."


def _record(step: Step, n_iter: int, seconds: float) -> dict[str, float]:
    return {"n_iter": n_iter, "seconds": seconds, **step.measures, "objective": step.objective}


def _status(
    step: Step,
    tol: float,
    n_iter: int,
    max_iter: int | None,
    seconds: float,
    max_time: float | None,
    callback: Callable[[Step], bool | None] | None,
) -> str:
    stop = callback(step) if callback is not None else False
    if step.converged(tol):
        return "converged"
    if stop:
        return "stopped"
    if max_iter is not None and n_iter >= max_iter:
        return "max_iter"
    return "max_time" if max_time is not None and seconds >= max_time else "running"


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
            state = step.shown or ", ".join(filter(None, (step.told(), f"objective {step.objective:.6g}")))
            bar.update(task, completed=n_iter, state=f"iteration {n_iter}, {state}")

        yield show
