"""What attacks leave standing: a score for model selection, C and gamma chosen by it, and who fell at which radius."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from buttress._checks import Array, check_count, check_number, silent
from buttress._types import BoundsLike, Mask, MatrixLike, RandomStateLike, Rows, VectorLike
from buttress.attacks.collapse import warn_if_given_up, warn_if_lost
from buttress.attacks.gradient import pgd
from buttress.attacks.settling.attack import exact
from buttress.attacks.targets import label_codes
from buttress.kernels import resolve_gamma
from buttress.scores import Scorable
from buttress.threats import ThreatModel
from buttress.trees import read_forest


@dataclass(frozen=True)
class AttackedAccuracy:
    """Accuracy under :func:`pgd`, of trees under :func:`exact`: a ``scoring`` for searches and cross-validation.

    The C and gamma that are best on clean rows are seldom best under attack, for plain machines too. A search costs the
    fits and one attack on each fold. Judge the chosen machine on other rows, by ``worst_case``.

    Parameters
    ----------
    eps : float or array of shape (d,) or (1, d), or None
        Radius, or one for each column, in the units of X: before the scalers of a pipeline.
    norm, bounds, threat, steps, restarts, random_state
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

    eps: ArrayLike | None = None
    norm: str = "linf"
    bounds: BoundsLike | None = None
    steps: int = 20
    restarts: int = 1
    random_state: int = 0
    threat: ThreatModel | None = None

    def __call__(self, model: Scorable, X: MatrixLike, y: VectorLike) -> float:
        """Return the share of rows that a fitted classifier still gets right."""
        return float(self.kept(model, X, y).mean())

    def kept(self, model: Scorable, X: MatrixLike, y: VectorLike) -> Mask:
        """Return which rows it still gets right; of trees those that are proven, or that the exact attack settles."""
        norm = self.norm if self.threat is None else self.threat.norm
        if norm == "linf" and read_forest(model, np.asarray(X)[:1]) is not None:
            # the work ends it, after some ten seconds, and not the time; rows that it leaves open count as fallen
            info = exact(model, X, y, eps=self.eps, bounds=self.bounds, threat=self.threat, max_row_time=1e9,
                         max_work=1e5, return_info=True)[1]
            return np.asarray(info.proven & ~info.success)
        info = pgd(model, X, y, eps=self.eps, norm=self.norm, bounds=self.bounds, threat=self.threat, steps=self.steps,
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


@dataclass
class Tried:
    """One fit of a search: its parameters, which of the rows held out it keeps, and whether it tells them apart.

    ``collapsed`` says that it puts all rows held out in one class.
    """

    parameters: dict[str, float]
    kept: Mask
    collapsed: bool = False

    @property
    def accuracy(self) -> float:
        """The share of the rows that it keeps."""
        return float(self.kept.mean())

    @property
    def rank(self) -> tuple[float, bool]:
        """What fits are chosen by: of equal accuracies one that has not collapsed."""
        return self.accuracy, not self.collapsed

    def is_better(self, other: "Tried") -> bool:
        """Say whether it keeps more rows than an earlier one by more than the standard error of their difference.

        b rows that only one of two keeps and c that only the other does differ by b - c, whose standard error is
        sqrt(b + c) where neither is better (McNemar 1947). Of two that differ by less the earlier one stays, unless it
        alone has collapsed.
        """
        gained, lost = int((self.kept & ~other.kept).sum()), int((other.kept & ~self.kept).sum())
        error = float(np.sqrt(gained + lost))
        return gained - lost >= -error if other.collapsed and not self.collapsed else gained - lost > error


def tuned(
    estimator: Any,
    X: MatrixLike,
    y: VectorLike,
    *,
    eps: ArrayLike | None = None,
    norm: str = "linf",
    bounds: BoundsLike | None = None,
    threat: ThreatModel | None = None,
    fits: int = 8,
    held_out: float = 0.25,
    random_state: RandomStateLike = 0,
    return_info: bool = False,
) -> Any:
    """Choose C and gamma of a classifier by its accuracy under attack on rows held out, and fit it to all rows.

    The C and gamma that are best on clean rows are seldom best under attack. The search starts at those of the
    estimator. It changes gamma by factors of 3 as long as that helps, then C by factors of 10, then both once more,
    until no step helps or the limit of fits is reached. If several are equal, the first is kept. If the machine is
    right no more often than the majority class, a warning says so.

    Parameters
    ----------
    estimator : classifier
        With a parameter C: a machine of this package or of scikit-learn, or a pipeline that ends in one. It is not
        changed. gamma is chosen too if the kernel is given by name.
    X, y : array of shape (n, d), array of shape (n,)
    eps, norm, bounds, threat
        What the attacker may do, as in :func:`pgd`; the ends of ``bounds`` are numbers, or one for each column. A
        machine that is trained against attacks has its own ``eps``.
    fits : int
        Most fits of the search; one more fit is to all rows.
    held_out : float
        Share of the rows, in (0, 1), that is attacked and not fitted, in the proportions of the classes.
    random_state : int, RandomState or None
        Of the rows held out.
    return_info : bool
        Return ``(model, list of Tried)``. These accuracies chose the model, so they are too high for it: judge it on
        other rows.

    Raises
    ------
    ValueError
        For an estimator without C, or parameters out of range. Ctrl-C leaves no model.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from buttress import SVC, attacks
    >>> X, y = load_wine(return_X_y=True)
    >>> model, tried = attacks.tuned(SVC(), scale(X), y, eps=0.5, return_info=True)
    >>> len(tried) <= 8, max(each.accuracy for each in tried) >= tried[0].accuracy
    (True, True)
    """
    check_count("fits", fits)
    check_number("held_out", held_out, 0, 1, closed="neither")
    names, start = movable(estimator, X, y)
    if not names:
        raise ValueError(f"tuned chooses the C and gamma of a classifier. Got {estimator!r}, which has no C. Use "
                         "GridSearchCV with scoring=attacks.AttackedAccuracy(eps) for other parameters.")
    y = np.asarray(y)
    enough = np.unique(y, return_counts=True)[1].min() >= 2  # else a class cannot be in both parts
    parts = train_test_split(X, y, test_size=held_out, random_state=random_state, stratify=y if enough else None)
    score = AttackedAccuracy(eps=eps, norm=norm, bounds=bounds, threat=threat)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of machines of scikit-learn that are only tried
        tried = search(lambda parameters: trial(estimator, parameters, score, *parts), names, start, fits)
    best = best_of(tried)
    model = clone(estimator).set_params(**best.parameters).fit(X, y)
    predicted, codes = (label_codes(model, labels, len(y)) for labels in (model.predict(X), y))
    told: Any = np.asarray(X, dtype=np.float64), codes, eps if threat is None and np.ndim(np.array(eps)) == 0 else None
    warn_if_given_up(type(estimator).__name__, predicted, *told)
    warn_if_lost(best.accuracy, parts[3], *told)
    return (model, tried) if return_info else model


def trial(
    estimator: Any, parameters: dict[str, float], score: AttackedAccuracy, X: Any, X_held: Any, y: Any, y_held: Any
) -> Tried:
    """Fit a copy with these parameters to X and y, and attack the rows held out; Ctrl-C in the fit is passed on."""
    model = clone(estimator).set_params(**parameters)
    with silent(UserWarning, pass_on=True):
        model.fit(X, y)
    with silent(UserWarning):
        collapsed = len(np.unique(model.predict(X_held))) == 1
        return Tried(parameters, score.kept(model, X_held, y_held), collapsed)


def best_of(tried: list[Tried]) -> Tried:
    """Return the fit that kept most rows, the first of equals."""
    return max(tried, key=lambda each: each.rank)


def search(
    try_at: Callable[[dict[str, float]], Tried], names: list[tuple[str, float]], start: dict[str, float], fits: int
) -> list[Tried]:
    """Return what was tried: from the start, each name in turn is moved by its factor up, else down, while that helps.

    A pass over all names without a better point ends the search, as do ``fits`` fits.
    """
    tried = [try_at(start)]
    best = tried[0]
    improved = True
    while improved:
        improved = False
        for name, factor in names:
            for step in (factor, 1 / factor):
                moved = True
                while moved and len(tried) < fits:
                    point = {**best.parameters, name: best.parameters[name] * step}
                    known = any(np.allclose([*point.values()], [*each.parameters.values()]) for each in tried)
                    now = best if known else try_at(point)
                    tried += [] if known else [now]
                    moved = now.rank > best.rank
                    best = now if moved else best
                    improved |= moved
    return tried


def movable(estimator: Any, X: MatrixLike, y: VectorLike) -> tuple[list[tuple[str, float]], dict[str, float]]:
    """Return which of C and gamma can be moved, with their factors, and where they start; none without a C."""
    steps = getattr(estimator, "steps", None)
    prefix = "" if steps is None else f"{steps[-1][0]}__"
    parameters = estimator.get_params()
    if prefix + "C" not in parameters:
        return [], {}
    names = [(prefix + "C", 10.0)]
    start = {prefix + "C": check_number("C", parameters[prefix + "C"], 0)}
    kernel = parameters.get(prefix + "kernel", "linear")
    if isinstance(kernel, str) and kernel not in ("linear", "precomputed") and prefix + "gamma" in parameters:
        inner = X if steps is None or len(steps) == 1 else clone(estimator[:-1]).fit_transform(X, y)
        start[prefix + "gamma"] = resolve_gamma(parameters[prefix + "gamma"], np.asarray(inner, dtype=np.float64))
        names.insert(0, (prefix + "gamma", 3.0))  # from one gamma tried to the next
    return names, start
