"""The classifier along a path of C: rows and solutions of one C serve the next."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from buttress._checks import check_number
from buttress._types import MatrixLike
from buttress.solvers.run import Budget
from buttress.svm.classifier import SVC
from buttress.svm.selection import Line, left_out_error


def svc_path(
    X: MatrixLike, y: ArrayLike, Cs: Sequence[float], sample_weight: ArrayLike | None = None, *,
    score: str | None = None, **parameters: Any
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
    score : {None, "loo"}, default=None
        "loo" gives each model ``loo_error_``, the share of the training rows that are misclassified when they are left
        out, from its own fit (see :attr:`SVC.loo_decision_`).
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
    >>> models = svc_path(X, y, [0.1, 1.0, 10.0], score="loo")
    >>> best = min(models, key=lambda model: model.loo_error_)
    >>> bool(best.loo_error_ < 0.1)
    True
    """
    for position, C in enumerate(Cs):
        check_number(f"Cs[{position}]", float(C), 0)
    if not len(Cs):
        raise ValueError("Cs must hold at least one value. Got an empty sequence. Give, for example, [0.1, 1, 10].")
    if score not in (None, "loo"):
        raise ValueError(f"score must be None or 'loo'. Got {score!r}.")
    models: list[SVC] = []

    def follow() -> None:
        first = SVC(**{**parameters, "C": float(Cs[0])})
        line = Line(first, first._prepare(X, y, sample_weight))
        for C in Cs:
            models.append(line.fit(C, first.max_time))

    Budget().attempt(
        follow, otherwise=lambda: None, known=lambda: bool(models),
        message=f"svc_path was interrupted. It returns the models that are ready, of {len(Cs)} values of C.")
    if score == "loo":
        for model in models:
            model.loo_error_ = left_out_error(model._held_out())
    return models
