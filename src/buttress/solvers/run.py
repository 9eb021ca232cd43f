"""The one loop: every algorithm is a generator of :class:`Step`, and :func:`run` alone drives it.

It knows the tolerance, the budgets, the callback, the progress bar, Ctrl-C and checkpoints; algorithms know none of
them. One that can go on from any of its steps says so in one place: its steps carry a ``memory``, and it takes one.

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
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar

from buttress._checks import InterruptedWarning, NotConvergedWarning, warn_user
from buttress.solvers.steps import Restartable, Step, Steps, restartable
from buttress.solvers.watch import Keeper, Outcome, Watch, cut_short

__all__ = ["Outcome", "Restartable", "SharedBudget", "Step", "Steps", "countdown", "restartable", "run"]

T = TypeVar("T")

SPENT = 1e-9  # seconds that are left when none are, so that every run makes its first step


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
        Most iterations, None for no limit.
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
        the last: while some have no solution there is no model. See :func:`buttress._callbacks.all_or_nothing`.
    keep : {"best", "last"}
        Which state a run ends with that did not converge: that of the least objective, or the last, for algorithms
        whose objective is an estimate from a batch.

    Returns
    -------
    Outcome
        A converged run ends with its last state.
    """
    watch = Watch(tol, max_iter, max_time, callback, keep)
    keeper = Keeper(steps, watch)
    try:
        # closed here, because a Ctrl-C while Python drops a generator is swallowed
        with _display(progress, name, watch.max_iter) as show, keeper.alone(), closing(keeper.steps()) as ahead:
            for step in ahead:
                watch.note(step)
                show(watch.outcome.n_iter, step)
                if keeper.over(step):
                    break
            keeper.end()
    except TimeoutError:  # an algorithm whose own steps end when the time is up
        if watch.best is None:
            raise
        watch.outcome.status = "max_time"
        cut_short()
    except KeyboardInterrupt:
        if watch.best is None or inner:
            raise
        watch.outcome.status = "interrupted"
        cut_short()
        warn_user(_interrupted(name, watch.outcome, watch.best), InterruptedWarning)
    finally:
        steps.close()
    assert watch.best is not None, "an algorithm yields at least its starting point"
    _warn_of_the_end(name, watch.outcome, watch.best, tol, warn)
    return watch.ended(watch.best)


def _warn_of_the_end(
    name: str, outcome: Outcome, best: Step, tol: float, warn: bool | tuple[str, ...]
) -> None:
    warned = ("max_iter", "max_time") if warn is True else warn or ()
    if outcome.status in warned:
        where = f" with {best.measured()} > tol {tol:.3g}" if best.measures else ""
        warn_user(f"{name} stopped at {outcome.status} after {outcome.n_iter} iterations{where}. "
                  f"Raise {outcome.status}{' or tol' if where else ''}, or scale the data.", NotConvergedWarning)


def countdown(max_time: float | None) -> Callable[[], float | None]:
    """Return a function of what is left of ``max_time`` seconds from now, at least a little; None where that is None.

    For estimators that make several runs within one limit.
    """
    start = time.monotonic()
    return lambda: None if max_time is None else max(SPENT, max_time - (time.monotonic() - start))


class SharedBudget:
    """What the runs inside one fit share: the seconds left of ``max_time``, the progress line, and Ctrl-C."""

    def __init__(
        self, max_time: float | None = None, *, progress: bool = False, name: str = "fit",
        report: Callable[[Step], bool | None] | None = None,
    ):
        self.left = countdown(max_time)
        self.progress = progress
        self.name = name
        self.report = report  # hears of the steps that are models of the whole fit; a true result ends it
        self.stopped = False  # whether ``report`` asked for the end
        self.cut = False  # whether anything was left undone for lack of time
        self.interrupted = False  # whether Ctrl-C ended a part of the fit

    def stop_if_spent(self) -> bool:
        """Say whether the time is up or ``report`` wants no more; what is left to do is then to be left, and noted."""
        over = self.over
        if over:
            self._cut_short()
        elif self.stopped:
            cut_short()
        return over or self.stopped

    def note(self, step: Step) -> None:
        """Report a step that is a model of the whole fit, made outside of any run."""
        if self.report is not None and self.report(step):
            self.stopped = True

    def _cut_short(self) -> None:
        self.cut = True
        cut_short()

    @property
    def whole(self) -> bool:
        """Whether nothing was left undone: for lack of time, by ``report`` or by Ctrl-C."""
        return not (self.cut or self.stopped or self.interrupted)

    @property
    def over(self) -> bool:
        """Whether the time is up; unlike ``stop_if_spent`` it notes nothing as left undone."""
        return self.left() == SPENT

    def run(self, steps: Steps, **options: Any) -> Outcome:
        """Return :func:`run` of one part of the fit; Ctrl-C is passed on, and ``tell`` warns once of a spent budget."""
        shared = {"max_time": self.left(), "progress": self.progress, "name": self.name, "warn": False, "inner": True}
        if self.stopped:
            options |= {"max_iter": 0, "callback": None}
        outcome = run(steps, **{**shared, **options})
        if outcome.status == "max_time":
            self._cut_short()
        self.stopped |= outcome.status == "stopped"
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
        cut_short()
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
