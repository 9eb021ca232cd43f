"""C and gamma chosen by how rows left out are classified, which every fit gives for a part of its cost.

Errors of a few hundred rows come in steps of one row, and the least of 35 counts is often luck. So what is compared is
the probability of an error, mean over the rows left out: p_i = 1 / (1 + exp(lead of the right class over its strongest
rival)), in the log odds of the model's own calibration.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import clone

from buttress._callbacks import without_callbacks
from buttress._checks import NotConvergedWarning, warn_user
from buttress._types import MatrixLike
from buttress._weights import check_weights
from buttress.certainty.calibration import Calibration, HeldOut, calibrate
from buttress.kernels.choose import resolve_gamma
from buttress.solvers.qp.program import Start
from buttress.solvers.qp.solve import SVMSolution
from buttress.solvers.run import Budget
from buttress.svm.task import Training

LOO = "loo"  # the value of C and gamma that asks for a choice
CS = (0.1, 0.316, 1.0, 3.16, 10.0, 31.6, 100.0)  # tried for C="loo", half a decade apart
GAMMAS = (0.03, 0.1, 0.316, 1.0, 3.16)  # times gamma="scale", tried for gamma="loo"


def left_out_error(held: HeldOut) -> float:
    """Return the weighted share of the rows whose class does not win every comparison when they are left out."""
    plain = Calibration(np.ones(1), np.zeros(1), held.n_classes, held.pairs, 0.0)
    own, weight = plain.own_leads(held)
    return float(np.average(~(own > 0), weights=weight))


def left_out_risk(held: HeldOut) -> float:
    """Return the mean probability, by the calibration of these scores, that a row left out is not of its class."""
    own, weight = calibrate(held).own_leads(held)
    return float(np.average(expit(-own), weights=weight))


class Refitted(Protocol):
    """An estimator that is fitted for one value of C and gamma after another."""

    C: float | str
    gamma: float | str
    kernel: Any
    max_time: float | None
    converged_: bool
    loo_error_: float

    def _prepare(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Training: ...

    def _with_kernel(self, task: Training) -> Training: ...

    def _solve(self, task: Training, starts: Sequence[Start] | None, *, inner: bool) -> list[SVMSolution]: ...

    def _held_out(self) -> HeldOut: ...


Model = TypeVar("Model", bound=Refitted)


@dataclass
class BestFit(Generic[Model]):
    """The best fit so far, its risk, and how many there were."""

    best: Model | None = None
    risk: float = np.inf
    fits: int = 0

    def note(self, fit: Model, risk: float) -> None:
        """Count a fit, and keep it if it is the best. One that ran out of time is no rival of one that did not."""
        self.fits += 1
        if self.best is None or (risk < self.risk and fit.converged_ >= self.best.converged_):
            self.best = fit
            self.risk = risk


def choose(model: Model, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Model:
    """Return the best fit, by :func:`left_out_risk`, of a walk over values of C and gamma that starts from C = 1.

    For a gamma C grows while the risk falls, or shrinks if at first it grew; then gamma does so, from ``"scale"`` on,
    each value with the C that was best before. Each fit of a gamma starts from the one before, on the same kernel rows.
    When time is up, or at Ctrl-C, the best fit so far is the choice.
    """
    if model.gamma == LOO and not isinstance(model.kernel, str):
        raise ValueError(f"gamma='loo' needs a kernel given by its name. Got kernel={model.kernel!r}. Use "
                         "kernel='rbf', or give the kernel its gamma.")
    budget = Budget(model.max_time, name="SVC")
    Cs: Sequence[float] = CS if model.C == LOO else [float(model.C)]
    first = without_callbacks(clone(model)).set_params(C=1.0 if model.C == LOO else model.C,
                                                       gamma="scale" if model.gamma == LOO else model.gamma)
    task = first._prepare(X, y, sample_weight)
    gammas = _gammas(model, task, sample_weight)
    tried: BestFit[Model] = BestFit()
    budget.attempt(
        lambda: _walk(Line(first, task), Cs, gammas, tried, budget), otherwise=lambda: None,
        known=lambda: tried.best is not None,
        message=f"The choice of C and gamma was interrupted. The model is the best so far of {len(Cs) * len(gammas)} "
                "at most that were to be tried.")
    assert tried.best is not None, "there is a C and a gamma to try"
    if budget.cut:
        warn_user(f"The choice of C and gamma stopped at max_time after {tried.fits} fits, of at most "
                  f"{len(Cs) * len(gammas)}. The model is the best of these. Raise max_time.", NotConvergedWarning)
    tried.best.loo_error_ = left_out_error(tried.best._held_out())
    return tried.best


def _gammas(model: Refitted, task: Training, sample_weight: ArrayLike | None) -> list[Any]:
    if model.gamma != LOO:
        return [model.gamma]
    unit = resolve_gamma("scale", task.X, check_weights(sample_weight, task.X))
    return [factor * unit for factor in GAMMAS]


def _walk(
    line: "Line[Model]", Cs: Sequence[float], gammas: Sequence[Any], tried: BestFit[Model], budget: Budget
) -> None:
    """Try values of C and gamma, the first of them those of ``line``."""
    start = GAMMAS.index(1.0) if len(gammas) > 1 else 0
    line.first.gamma = gammas[start]
    at_C = Cs.index(1.0) if len(Cs) > 1 else 0

    def least_of(number: int) -> float:
        nonlocal at_C
        here = line if number == start else line.with_gamma(gammas[number])

        def risk(place: int) -> float:
            fit = here.fit(Cs[place], budget.left())
            found = left_out_risk(fit._held_out())
            tried.note(fit, found)
            return found

        place, least = walk(risk, at_C, len(Cs), budget)
        at_C = place if least == tried.risk else at_C
        return least

    walk(least_of, start, len(gammas), budget)


def walk(value: Callable[[int], float], start: int, many: int, budget: Budget) -> tuple[int, float]:
    """Return a place of 0, ..., many - 1 and its value: upwards from ``start`` while it falls, else downwards."""
    best = start
    least = value(start)
    for step in (1, -1):
        place = best + step
        while 0 <= place < many and not budget.spent():
            found = value(place)
            if not found < least:
                break
            best = place
            least = found
            place += step
        if best != start:
            break
    return best, least


@dataclass
class Line(Generic[Model]):
    """Fits of one kernel for one C after another, each started from the one before, on the same kernel rows."""

    first: Model
    task: Training
    C: float = 0.0
    solved: Sequence[SVMSolution] = ()

    def fit(self, C: float, max_time: float | None) -> Model:
        """Return the fit at C. Ctrl-C is passed on."""
        model = copy(self.first)
        model.C = float(C)
        model.max_time = max_time
        starts = [scaled(solution, model.C / self.C) for solution in self.solved] or None
        self.solved = model._solve(self.task, starts, inner=True)
        self.C = model.C
        return model

    def with_gamma(self, gamma: float) -> "Line[Model]":
        """Return the line of another gamma."""
        first = copy(self.first)
        first.gamma = gamma
        return Line(first, first._with_kernel(self.task))


def scaled(solution: SVMSolution, most: float) -> Start:
    """Return the coefficients times the best factor s up to ``most``: the one that maximises s sum|b| - s^2/2 b'Kb."""
    total = float(np.abs(solution.b).sum())
    quadratic = 2 * (total - solution.proof.dual)
    best = min(total / quadratic, most) if quadratic > 0 else min(1.0, most)
    return Start(best * solution.b, None if solution.stored is None else best * solution.stored)
