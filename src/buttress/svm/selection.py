"""C and gamma chosen by the error of rows left out, which every fit gives for a part of its cost."""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from buttress._checks import Array, check_weights, check_X_y
from buttress._types import MatrixLike
from buttress.certainty.calibration import HeldOut, pairs_of
from buttress.kernels.choose import resolve_gamma
from buttress.svm.machine import recalled

if TYPE_CHECKING:
    from buttress.svm.classifier import SVC

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


def choose(model: "SVC", X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None) -> "SVC":
    """Return the fit, of all C and gamma to be tried, with the least left-out error; of equals that of least gamma, C.

    Along C each fit starts from the one before, on the same kernel rows.
    """
    if model.gamma == LOO and not isinstance(model.kernel, str):
        raise ValueError(f"gamma='loo' needs a kernel given by its name. Got kernel={model.kernel!r}. Use "
                         "kernel='rbf', or give the kernel its gamma.")
    gammas = [model.gamma]
    if model.gamma == LOO:
        rows, _ = check_X_y(clone(model), X, y, sparse=True, single=True)
        unit = resolve_gamma("scale", rows, check_weights(sample_weight, rows))
        gammas = [factor * unit for factor in GAMMAS]
    Cs: Sequence[float] = CS if model.C == LOO else [float(model.C)]
    best: SVC | None = None
    for gamma in gammas:
        for fit in path(clone(model).set_params(C=Cs[0], gamma=gamma), X, y, Cs, sample_weight):
            fit.loo_error_ = left_out_error(fit._held_out())
            if best is None or fit.loo_error_ < best.loo_error_:
                best = fit
    assert best is not None, "there is a C and a gamma to try"
    return best


def path(
    first: "SVC", X: MatrixLike, y: ArrayLike, Cs: Sequence[float], sample_weight: ArrayLike | None
) -> Iterator["SVC"]:
    """Yield a fit of the model for every C, each started from the one before, on the same kernel rows.

    Ctrl-C is passed on.
    """
    task = first._prepare(X, y, sample_weight)
    last: SVC | None = None
    for C in Cs:
        model = copy(first)
        model.C = float(C)
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
