"""What attacks leave standing: a score for model selection, and who has fallen within which radius."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from buttress._checks import Array
from buttress._types import BoundsLike, Mask, MatrixLike, Rows, VectorLike
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


class Fallen:
    """The least radius within which each row is known to be misclassified; more is learned with every attack.

    An attack within a large radius may miss what one within a smaller radius has found, for each is a local search.
    Here a row that fell stays fallen, so that no accuracy rises with the radius, in whatever order the attacks come.

    Parameters
    ----------
    right : bool array of shape (n,)
        Whether each row is classified rightly as it is.

    Attributes
    ----------
    radius : array of shape (n,)
        0 where a row is wrong as it is, inf where none is known.
    proven : array of shape (n,)
        The largest radius within which each row is proven to stand; no attack is spent on it there.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress.attacks.scoring import Fallen
    >>> fallen = Fallen(np.array([True, True, False]))
    >>> fallen.attack(0.1, lambda rows: np.array([False, True]))
    array([False,  True, False])
    >>> fallen.attack(0.2, lambda rows: np.array([True]))      # row 0 stays fallen, and is not asked about again
    array([False,  True, False])
    """

    def __init__(self, right: Mask):
        self.radius: Array = np.where(right, np.inf, 0.0)
        self.proven: Array = np.zeros(len(right))

    def standing(self, eps: float) -> Mask:
        """Say which rows are not known to fall within ``eps``."""
        return np.asarray(self.radius > eps)

    def prove(self, eps: float, rows: Rows) -> None:
        """Note that these rows are proven to stand within ``eps``."""
        self.proven[rows] = np.maximum(self.proven[rows], eps)

    def attack(self, eps: float, survives: Callable[[Rows], Mask]) -> Mask:
        """Attack those rows, and say which still stand; ``survives(rows)`` says who of them stays right within eps."""
        rows = np.flatnonzero(self.standing(eps) & (self.proven < eps))
        if eps > 0 and len(rows):
            self.radius[rows[~survives(rows)]] = eps
        return self.standing(eps)
