"""The classifier along a path of C: rows and solutions of one C serve the next."""

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from buttress._checks import Array, check_number
from buttress._types import MatrixLike
from buttress.solvers.run import Budget
from buttress.svm.classifier import SVC
from buttress.svm.machine import recalled


def svc_path(
    X: MatrixLike, y: ArrayLike, Cs: Sequence[float], sample_weight: ArrayLike | None = None, **parameters: Any
) -> list[SVC]:
    """Fit :class:`SVC` for every C in ``Cs``; returns the fitted models in that order.

    Ctrl-C ends the path: the models that are ready are returned, with a warning.

    The kernel rows are computed once for all of them (as far as ``cache_size`` goes), and each fit starts from the
    solution before it, scaled to the C of its own, so that a path in increasing order is the fastest.

    Parameters
    ----------
    X, y, sample_weight
        As in ``SVC.fit``.
    Cs : sequence of float
        Finite and > 0.
    **parameters
        Of :class:`SVC`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from buttress.svm import svc_path
    >>> X, y = make_moons(200, noise=0.3, random_state=0)
    >>> models = svc_path(X, y, [0.1, 1.0, 10.0])
    >>> [model.C for model in models], all(model.converged_ for model in models)
    ([0.1, 1.0, 10.0], True)
    """
    for position, C in enumerate(Cs):
        check_number(f"Cs[{position}]", float(C), 0)
    if not len(Cs):
        raise ValueError("Cs must hold at least one value. Got an empty sequence. Give, for example, [0.1, 1, 10].")
    first = SVC(**{**parameters, "C": float(Cs[0])})
    task = first._prepare(X, y, sample_weight)
    models: list[SVC] = []

    def follow() -> list[SVC]:
        for C in Cs:
            model = copy(first)
            model.C = float(C)
            model._solve(task, scaled(models[-1], model.C) if models else None, inner=True)
            models.append(model)
        return models

    return Budget().attempt(
        follow, otherwise=lambda: models, known=lambda: bool(models),
        message=f"svc_path was interrupted. It returns the models that are ready, of {len(Cs)} values of C.")


def scaled(model: SVC, C: float) -> Array:
    """Return the model's coefficients times the best factor that C allows: s maximises s sum|b| - s^2/2 b'Kb."""
    coef = recalled(model)
    assert coef is not None, "the model has been fitted"
    dual = np.atleast_1d(model.dual_objective_)
    total = np.abs(coef).sum(axis=0)
    quadratic = 2 * (total - dual)
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.where(quadratic > 0, total / quadratic, 1.0)
    return coef * np.clip(best, 0.0, C / model.C)
