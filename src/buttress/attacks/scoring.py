"""A score for model selection: accuracy on held-out rows after an attack on each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from buttress._types import BoundsLike, Mask, MatrixLike, VectorLike
from buttress.attacks.gradient import pgd
from buttress.scores import Scorable


@dataclass(frozen=True)
class AttackedAccuracy:
    """Accuracy under :func:`pgd`, as a ``scoring`` for grid search and cross-validation of any classifier.

    The C and gamma that are best on clean rows are seldom best under attack, for plain machines too. A search costs the
    fits and one attack on each fold. It chooses; the machine chosen is to be judged on other rows, by ``worst_case``.

    Parameters
    ----------
    eps : float or array of shape (d,) or (1, d)
        Radius, or one a column, in the units of X, as the estimator is given it: in front of the scalers of a pipeline.
    norm, bounds, steps, restarts, random_state
        As in :func:`pgd`; the ends of ``bounds`` are numbers or one number a column.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.preprocessing import scale
    >>> from buttress import SVC, attacks
    >>> X, y = load_wine(return_X_y=True)
    >>> grid = {"C": [0.1, 1, 10], "gamma": [0.003, 0.03, 0.3]}
    >>> search = GridSearchCV(SVC(), grid, scoring=attacks.AttackedAccuracy(eps=0.5), cv=3).fit(scale(X), y)
    >>> search.best_params_["gamma"] < 0.3
    True
    """

    eps: ArrayLike
    norm: str = "linf"
    bounds: BoundsLike | None = None
    steps: int = 20
    restarts: int = 1
    random_state: int = 0

    def __call__(self, model: Scorable, X: MatrixLike, y: VectorLike) -> float:
        """Return the share of rows that a fitted classifier still gets right."""
        return float(self.kept(model, X, y).mean())

    def kept(self, model: Scorable, X: MatrixLike, y: VectorLike) -> Mask:
        """Return which rows it still gets right."""
        info = pgd(model, X, y, eps=self.eps, norm=self.norm, bounds=self.bounds, steps=self.steps,
                   restarts=self.restarts, random_state=self.random_state, return_info=True)[1]
        return np.asarray(~info.success)
