"""How many rows carry a conclusion of a regression: the sign of a coefficient, and whether it is significant.

For least squares a bound and an attack stand on both sides of the truth. Without the rows S, |S| <= k, with h the
weights of the targets in a coefficient b, V = h'h, n rows and p coefficients (``changed_rows`` has the others),

    |b_S - b| <= the bound of ``changed_rows``,
    V <= V_S <= V + |u|_top_k^2 / (1 - mu),
    RSS - |v|_top_k^2 / (1 - mu) <= RSS_S <= RSS,

so |t_S| = |b_S| / sqrt(RSS_S / (n - |S| - p) V_S) lies between what the ends give, and the level of Student's t between
those of n - p and n - k - p degrees of freedom. The attack leaves out, one by one, the row whose removal moves the
number most, exactly. What it finds is an upper bound; it is greedy, so fewer rows may do (Broderick, Giordano & Meager
2020; Freund & Hopkins, arXiv 2307.16315).

The attack that would make the proof false: exhaustive search on few rows, run by the tests.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.stats import t as student
from sklearn.base import clone

from buttress._checks import Array, check_number
from buttress._proof import UNIT
from buttress._types import Mask, MatrixLike, Predictor, Rows, VectorLike
from buttress.certificates.training.changed_rows import RemovedRows, predicted
from buttress.certificates.training.reading import check_reproduced
from buttress.certificates.training.smoother import ColumnSmoother


@dataclass(frozen=True)
class TrainingConclusions:
    """How many rows carry the sign and the significance of each of d coefficients.

    Parameters
    ----------
    coef, t : arrays of shape (d,)
        Coefficients and their t-values.
    significant : bool array of shape (d,)
        Whether the t-value is beyond the level.
    sign_proven, level_proven : arrays of shape (d,)
        No so many rows change the sign, or whether the coefficient is significant, by being left out.
    sign_found, level_found : arrays of shape (d,)
        So many rows, or fewer, do; inf where the attack found none.
    sign_rows, level_rows : lists of d int arrays
        These rows.
    """

    coef: Array
    t: Array
    significant: Mask
    sign_proven: Array
    level_proven: Array
    sign_found: Array
    level_found: Array
    sign_rows: list[Rows]
    level_rows: list[Rows]


@runtime_checkable
class Summarised(Protocol):
    """A regressor that states its coefficients with their t-values, such as ``RobustLinearRegressor``."""

    fit_intercept: bool

    def summary(self) -> Any:
        """Return ``estimate``, ``t`` (the intercept first, if there is one), ``freedom`` and the rows' ``weights``."""


def training_conclusions(
    model: Predictor, X_train: MatrixLike, y_train: VectorLike, *, level: float = 0.05,
) -> TrainingConclusions:
    """Return how many rows must be left out for a coefficient to change its sign, or its significance.

    Parameters
    ----------
    model : fitted LinearRegression or RobustLinearRegressor
        Of the second nothing is proven: the rows found are an upper bound, by refits.
    X_train, y_train : arrays of shape (n, d) and (n,)
        What it was fitted to, without weights.
    level : float
        In (0, 1): of the two-sided test that a coefficient is 0, for errors of equal variance (``LinearRegression``).

    Returns
    -------
    TrainingConclusions

    Raises
    ------
    ValueError
        For other models, for columns that depend on others, or with no more rows than coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from buttress import certificates
    >>> X, y = np.arange(8.0)[:, None], np.array([0.0, 0.1, -0.1, 0.1, 0.0, -0.1, 0.1, 6.0])
    >>> found = certificates.training_conclusions(LinearRegression().fit(X, y), X, y)
    >>> found.coef.round(2), found.sign_found, found.sign_rows  # the line rises on account of one row
    (array([0.5]), array([1.]), [array([7])])
    """
    share = check_number("level", level, 0, 1)
    if isinstance(model, Summarised):
        return _of_refits(model, np.asarray(X_train, dtype=np.float64), np.asarray(y_train, dtype=np.float64), share)
    found, y, *_ = predicted(model, X_train, y_train, X_train, None)
    if not isinstance(found.smoother, ColumnSmoother) or getattr(found.last, "alpha", 0.0) != 0:
        raise ValueError(f"{type(model).__name__} has no t-values. Give a LinearRegression or a RobustLinearRegressor.")
    X = np.column_stack([found.training, np.ones((len(y), int(found.last.fit_intercept)))])
    if len(y) <= X.shape[1]:
        raise ValueError(f"{len(y)} rows do not decide {X.shape[1]} coefficients: add rows, or drop columns.")
    coef = np.asarray(found.last.coef_, dtype=np.float64).ravel()
    weights, error = found.smoother.coefficients()
    away = error * np.linalg.norm(y) + check_reproduced(model, weights @ y, coef, float(np.abs(coef).max()))
    proof = _Proof(RemovedRows.of(*found.smoother(found.training), y), weights, error, coef, away, X.shape[1], share)
    attacks = [tuple(_attack(X, y, j, goal) for goal in _goals(coef[j], proof.significant[j], share))
               for j in range(len(coef))]
    return _concluded(coef, proof.t, proof.significant, proof.most(0), proof.most(1), attacks)


def _concluded(
    coef: Array, t: Array, significant: Mask, sign: Array, level: Array, attacks: list[tuple[Rows | None, ...]]
) -> TrainingConclusions:
    """Return the answer from the rows found for the sign and the significance of each coefficient."""
    none = np.empty(0, dtype=int)
    kinds = list(zip(*attacks, strict=True))
    sign_found, level_found = (np.array([np.inf if rows is None else float(len(rows)) for rows in kind])
                               for kind in kinds)
    of_sign, of_level = ([none if rows is None else rows for rows in kind] for kind in kinds)
    return TrainingConclusions(coef, t, significant, sign, level, sign_found, level_found, of_sign, of_level)


class _Proof:
    """What no k rows can change, of each of d coefficients of least squares with p coefficients in all.

    Parameters
    ----------
    left_out : RemovedRows
    weights : array of shape (d, n)
        Of the targets in each coefficient; ``error`` (d,) bounds the Euclidean error of each.
    coef : array of shape (d,)
        ``away`` (d,) bounds how far they are from what the weights say.
    """

    def __init__(
        self, left_out: RemovedRows, weights: Array, error: Array, coef: Array, away: Array, p: int, level: float
    ):
        self.left_out = left_out
        self.weights = weights
        self.error = error
        self.coef = coef
        self.away = away
        self.level = level
        self.freedom = len(left_out.e) - p
        self.length = np.linalg.norm(weights, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.t = coef / (np.sqrt(left_out.e @ left_out.e / self.freedom) * self.length)
        self.significant = np.abs(self.t) > student.isf(level / 2, self.freedom)
        self.holds = cache(self._holds)

    def _holds(self, k: int) -> tuple[Mask, Mask]:
        """Return which signs, and which answers to whether a coefficient is significant, no k rows change."""
        if k >= self.freedom:
            return (np.zeros(len(self.coef), dtype=bool),) * 2
        fall, rise = self.left_out.moves(self.weights, self.error, k)
        inward, outward = np.where(self.coef >= 0, (fall, rise), (rise, fall)) + self.away
        size = np.abs(self.coef)
        t_low, t_high = self._t_values(k, size - inward, np.maximum(size + outward, inward - size))
        above = t_low > student.isf(self.level / 2, self.freedom - k)
        below = t_high < student.isf(self.level / 2, self.freedom)
        return size > inward, np.where(self.significant, above, below)

    def _t_values(self, k: int, low: Array, high: Array) -> tuple[Array, Array]:
        """Return the least and largest |t| without k rows, given those of the coefficients."""
        e, e_most = np.abs(self.left_out.e), self.left_out.e_most
        least = max(float((np.maximum(2 * e - e_most, 0) ** 2).sum() - self.left_out.stretch(e_most, k)), 0.0)
        shortest = np.maximum(self.length - self.error, 0)
        stretched = self.left_out.stretch(np.abs(self.weights) + self.error[:, None], k)
        longest = np.hypot(self.length + self.error, np.sqrt(stretched))
        wider = 1 + 16 * len(e) * UNIT  # the rounding of these sums, and of Student's t
        with np.errstate(divide="ignore", invalid="ignore"):
            t_low = np.maximum(low, 0) / (np.sqrt((e_most**2).sum() / (self.freedom - k)) * longest)
            t_high = high / (np.sqrt(least / self.freedom) * shortest)
        return t_low / wider, t_high * wider

    def most(self, kind: int) -> Array:
        """Return, for each coefficient, the most rows that change nothing: of the sign (0) or the significance (1)."""
        rows = range(1, self.freedom)

        def changes(j: int, k: int) -> bool:
            return not self.holds(k)[kind][j]

        found = [bisect_left(rows, True, key=partial(changes, j)) for j in range(len(self.coef))]
        return np.array(found, dtype=np.float64)


Goal = Callable[[Any, Any, int], Any]  # of coefficients, their t-values and degrees of freedom: below 0 where it is met


def _goals(coef: float, significant: bool, level: float) -> tuple[Goal, Goal]:
    """Return what is below 0 where the sign has changed, and where the answer to significance has."""
    def sign(b: Any, t: Any, freedom: int) -> Any:
        return b if coef > 0 else -b

    def answer(b: Any, t: Any, freedom: int) -> Any:
        above = np.abs(t) - student.isf(level / 2, freedom)
        return above if significant else -above

    return sign, answer


def _attack(X: Array, y: Array, j: int, goal: Goal) -> Rows | None:
    """Return rows without which the goal is met, each the one that then helps most; None where none are found."""
    for rows, now in _path(X, y, j, goal):
        if now < 0:
            return rows
    return None


def _path(X: Array, y: Array, j: int, goal: Goal) -> Iterator[tuple[Rows, float]]:
    """Yield the rows left out so far and what the goal is then, for coefficient j of least squares on X (n, p)."""
    keep = np.arange(len(y))
    gone: list[int] = []
    while len(keep) > X.shape[1] + 1:
        A, freedom = X[keep], len(keep) - X.shape[1]
        basis, triangle = np.linalg.qr(A)
        if np.abs(np.diagonal(triangle)).min() <= len(y) * UNIT * np.abs(triangle).max():
            return  # columns that only the rows left out told apart
        inverse = np.linalg.inv(triangle)
        h, z = (basis**2).sum(axis=1), basis @ inverse[j]
        b, V = float(inverse[j] @ (basis.T @ y[keep])), float(inverse[j] @ inverse[j])
        e = y[keep] - basis @ (basis.T @ y[keep])
        free = np.maximum(1 - h, UNIT)
        with np.errstate(divide="ignore", invalid="ignore"):
            yield np.array(gone, dtype=int), float(goal(b, b / np.sqrt(e @ e / freedom * V), freedom))
            after = b - z * e / free
            squares = np.maximum(e @ e - e**2 / free, 0) * (V + z**2 / free)  # of all rows the same share of t's
            score = np.where(h < 1 - len(y) * UNIT, goal(after, after / np.sqrt(squares), freedom), np.inf)
        worst = int(np.nan_to_num(score, nan=np.inf).argmin())
        gone.append(int(keep[worst]))
        keep = np.delete(keep, worst)


def _of_refits(model: Any, X: Array, y: Array, level: float) -> TrainingConclusions:
    """Return what refits find, without a proof: along the path of weighted least squares, as few rows as do it."""
    stated = model.summary()
    first = int(model.fit_intercept)
    coef, t = stated.estimate[first:], stated.t[first:]
    significant = np.abs(t) > student.isf(level / 2, stated.freedom)
    root = np.sqrt(stated.weights)
    A = np.column_stack([X, np.ones((len(y), first))]) * root[:, None]
    attacks = []
    for j in range(len(coef)):
        def now(rows: Rows, goal: Goal, j: int = j) -> float:
            refit = clone(model).fit(np.delete(X, rows, axis=0), np.delete(y, rows)).summary()
            return float(goal(refit.estimate[first + j], refit.t[first + j], refit.freedom))

        attacks.append(tuple(_shortest(A, y * root, j, goal, now) for goal in _goals(coef[j], significant[j], level)))
    nothing = np.zeros(len(coef))
    return _concluded(coef, t, significant, nothing, nothing, attacks)


def _shortest(A: Array, y: Array, j: int, goal: Goal, now: Callable[[Rows, Goal], float]) -> Rows | None:
    """Return a start of the path after which a refit meets the goal; None if halving, for the shortest, meets none."""
    ways = [rows for rows, _ in _path(A, y, j, goal)][: len(y) // 2]
    place = bisect_left(ways, True, key=lambda rows: now(rows, goal) < 0)
    return ways[place] if place < len(ways) else None
