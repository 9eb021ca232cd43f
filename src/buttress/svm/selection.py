"""C and gamma chosen by how rows left out are classified, which every fit gives for a part of its cost.

Errors of a few hundred rows come in steps of one row, and the least of 35 counts is often luck. So what is compared is
the probability of an error, mean over the rows left out: p_i = 1 / (1 + exp(lead of the right class over its strongest
rival)), in the log odds of the model's own calibration.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import clone

from buttress._checks import Array, NotConvergedWarning, check_weights, check_X_y, warn_user
from buttress._types import MatrixLike
from buttress.certainty.calibration import HeldOut, calibrate, pairs_of
from buttress.kernels.choose import resolve_gamma
from buttress.solvers.run import Budget
from buttress.svm.machine import recalled

if TYPE_CHECKING:
    from buttress.svm.classifier import SVC

Data = tuple[MatrixLike, ArrayLike, ArrayLike | None]  # X, y and the sample weights
LOO = "loo"  # the value of C and gamma that asks for a choice
CS = (0.1, 0.316, 1.0, 3.16, 10.0, 31.6, 100.0)  # tried for C="loo", half a decade apart
GAMMAS = (0.03, 0.1, 0.316, 1.0, 3.16)  # times gamma="scale", tried for gamma="loo"


def left_out_error(held: HeldOut) -> float:
    """Return the weighted share of the rows whose class does not win every comparison when they are left out."""
    scores = held.scores
    rows = np.arange(len(held.codes))
    if held.n_classes == 2:
        lead = np.where(held.codes == 1, scores[:, 0], -scores[:, 0])
    elif held.pairs:
        lead = np.full(len(rows), np.inf)
        for column, (i, j) in enumerate(pairs_of(held.n_classes)):
            sign = np.where(held.codes == i, 1.0, np.where(held.codes == j, -1.0, np.nan))
            lead = np.fmin(lead, sign * scores[:, column])
    else:
        own = scores[rows, held.codes]
        others = scores.copy()
        others[rows, held.codes] = -np.inf
        lead = own - others.max(axis=1)
    used = held.weight > 0
    return float(np.average(~(lead[used] > 0), weights=held.weight[used]))


def left_out_risk(held: HeldOut) -> float:
    """Return the mean probability, by the calibration of these scores, that a row left out is not of its class."""
    own = calibrate(held).leads(held.scores)[np.arange(len(held.codes)), held.codes]
    used = held.weight > 0
    return float(np.average(expit(-own[used]), weights=held.weight[used]))


@dataclass
class Tried:
    """The best fit so far, its risk, and how many there were."""

    best: "SVC | None" = None
    risk: float = np.inf
    fits: int = 0

    def note(self, fit: "SVC", risk: float) -> None:
        """Count a fit, and keep it if it is the best. One that ran out of time is no rival of one that did not."""
        self.fits += 1
        if self.best is None or (risk < self.risk and fit.converged_ >= self.best.converged_):
            self.best = fit
            self.risk = risk


def choose(model: "SVC", X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None) -> "SVC":
    """Return the fit of the C and gamma that are tried with the least :func:`left_out_risk`, the first of equals.

    For each gamma C grows, each fit starting from the one before, on the same kernel rows, until the risk grows. When
    time is up, or at Ctrl-C, the best fit so far is the choice.
    """
    budget = Budget(model.max_time, name="SVC")
    gammas = _gammas(model, X, y, sample_weight)
    Cs: Sequence[float] = CS if model.C == LOO else [float(model.C)]
    tried = Tried()

    def search() -> None:
        for gamma in gammas:
            _follow(clone(model).set_params(C=Cs[0], gamma=gamma), Cs, (X, y, sample_weight), tried, budget)

    budget.attempt(
        search, otherwise=lambda: None, known=lambda: tried.best is not None,
        message=f"The choice of C and gamma was interrupted. The model is the best so far of {len(Cs) * len(gammas)} "
                "that were to be tried.")
    assert tried.best is not None, "there is a C and a gamma to try"
    if budget.cut:
        warn_user(f"The choice of C and gamma stopped at max_time after {tried.fits} fits, of at most "
                  f"{len(Cs) * len(gammas)}. The model is the best of these. Raise max_time.", NotConvergedWarning)
    tried.best.loo_error_ = left_out_error(tried.best._held_out())
    return tried.best


def _gammas(model: "SVC", X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None) -> list[Any]:
    if model.gamma != LOO:
        return [model.gamma]
    if not isinstance(model.kernel, str):
        raise ValueError(f"gamma='loo' needs a kernel given by its name. Got kernel={model.kernel!r}. Use "
                         "kernel='rbf', or give the kernel its gamma.")
    rows, _ = check_X_y(clone(model), X, y, sparse=True, single=True)
    unit = resolve_gamma("scale", rows, check_weights(sample_weight, rows))
    return [factor * unit for factor in GAMMAS]


def _follow(first: "SVC", Cs: Sequence[float], data: Data, tried: Tried, budget: Budget) -> None:
    """Try the fits of one gamma, until the risk grows or time is up."""
    X, y, sample_weight = data
    least = np.inf
    if tried.best is not None and budget.spent():
        return
    for fit in path(first, X, y, Cs, sample_weight, budget.left):
        risk = left_out_risk(fit._held_out())
        tried.note(fit, risk)
        if risk > least or (Cs[-1] != fit.C and budget.spent()):
            return
        least = risk


def path(
    first: "SVC", X: MatrixLike, y: ArrayLike, Cs: Sequence[float], sample_weight: ArrayLike | None,
    left: Callable[[], float | None] | None = None
) -> Iterator["SVC"]:
    """Yield a fit of the model for every C, each started from the one before, on the same kernel rows.

    Each has the seconds that ``left()`` leaves. Ctrl-C is passed on.
    """
    task = first._prepare(X, y, sample_weight)
    last: SVC | None = None
    for C in Cs:
        model = copy(first)
        model.C = float(C)
        model.max_time = model.max_time if left is None else left()
        model._solve(task, None if last is None else scaled(last, model.C), inner=True)
        yield model
        last = model


def scaled(model: "SVC", C: float) -> Array:
    """Return the model's coefficients times the best factor that C allows: s maximises s sum|b| - s^2/2 b'Kb."""
    coef = recalled(model)
    assert coef is not None, "the model has been fitted"
    dual = np.atleast_1d(model.dual_objective_)
    total = np.abs(coef).sum(axis=0)
    quadratic = 2 * (total - dual)
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.where(quadratic > 0, total / quadratic, 1.0)
    return coef * np.clip(best, 0.0, C / float(model.C))
