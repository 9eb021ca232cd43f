"""How many training labels would have to be wrong for a support vector machine: what can be proven.

A hinge loss is not linear in the labels, so the fewest wrong labels are not known; these are lower bounds.

**One wrong label.** The machine is fitted again with each label changed. The refit (w', b') has a duality gap g', and
the objective is 1-strongly convex in w, so the exact optimum of the changed labels has |w* - w'| <= r = sqrt(2 g'), and
b* lies where

    (|w'| - r)_+^2 / 2 + sum_i C (1 - y_i (f'(x_i) - b' + b) - r sqrt(K_ii))_+ <= P(w', b') .

A prediction stands if it keeps its sign for every w and b of that kind.

**More wrong labels**, of machines without intercept. With beta the dual coefficients and a = |beta|, the point beta
with beta_S = 0 is feasible for the labels changed on S, and

    |f* - f|(x) <= 1/2 top_k |beta_i K(x_i, x)| + sqrt(K(x, x)) sqrt(gap + top_k (g_i + k/4 a_i^2 K_ii)_+),
    g_i = C [(1 + m_i)_+ - (1 - m_i)_+] + a_i (1 - m_i),   m_i = y_i f(x_i),

top_k the sum of the k largest. With an intercept nothing is proven beyond one label.

**The gap** is that of coefficients cut to 0 <= y_i beta_i <= C. With an intercept the dual point is feasible only if
they sum to 0; whatever they sum to, P* >= D - |b*| |sum_i beta_i|, and some best b* is a kink y_i - f*(x_i) of the sum
of hinges, so |b*| <= 1 + sqrt(2 P max_i K_ii).

**Rounding.** With u = eps / 2 = 2^-53, s = |K| |beta| and Higham's gamma_n = n u, f is off by n u s, beta'f by 2 n u
|beta|'s, and a hinge of n rows by (2 n + 3) u of its terms, so objectives, sums and their differences are right to

    2 (n + 8) eps size,   size = 1/2 |beta|'s + C sum_i (1 + s_i + |b|),

which is added to every gap; values at other rows are right to 2 (n + 8) eps of their absolute terms. Kernel values are
taken as they were computed. The attack that would make it false: a refit that stopped early. Its gap is measured here
from its coefficients, and a prediction within the radius counts as changed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone

from buttress._checks import Array
from buttress._proof import UNIT
from buttress._types import Mask, Rows
from buttress.certificates.training.changed_rows import top
from buttress.certificates.training.reading import REPRODUCED
from buttress.scores import read_scores


@dataclass(frozen=True)
class HingeProblem:
    """Kernel values of n training rows and m rows asked about, the labels y of -1 and +1, and C.

    Parameters
    ----------
    K : array of shape (n, n)
    KT : array of shape (m, n)
    own : array of shape (m,)
        K(x, x) of the rows asked about.
    y : array of shape (n,)
    C : float
    intercept : bool
    """

    K: Array
    KT: Array
    own: Array
    y: Array
    C: float
    intercept: bool

    def solved(self, beta: Array, y: Array, b: float) -> "HingePoint":
        """Return the point with coefficients beta (n,), cut to the box, and intercept b for labels y, and its gap."""
        beta = y * np.clip(y * beta, 0, self.C)
        f = self.K @ beta
        spread = np.abs(self.K) @ np.abs(beta)
        square = float(beta @ f)
        primal = 0.5 * square + float(self.C * np.maximum(0, 1 - y * (f + b)).sum())
        dual = float(y @ beta) - 0.5 * square
        size = 0.5 * np.abs(beta) @ spread + self.C * (1 + spread + abs(b)).sum()
        doubt = float(rounding(len(y)) * size)
        lost = self._infeasible(beta, primal + doubt) if self.intercept else 0.0
        return HingePoint(beta, f, b, primal, max(primal - dual, 0) + lost + doubt, doubt)

    def _infeasible(self, beta: Array, primal: float) -> float:
        """Return what coefficients that do not sum to 0 may add to the dual objective."""
        away = abs(beta.sum()) + rounding(len(beta)) * np.abs(beta).sum()
        return float(away * (1 + np.sqrt(2 * primal * np.diagonal(self.K).max())))


def rounding(n: int) -> float:
    """Return the share of their absolute terms to which sums over n rows are right."""
    return 2 * (n + 8) * UNIT


@dataclass(frozen=True)
class HingePoint:
    """Coefficients (n,), values f (n,) without intercept, the intercept, the primal objective, a bound of the gap.

    ``doubt`` bounds the rounding of the objective.
    """

    beta: Array
    f: Array
    b: float
    primal: float
    gap: float
    doubt: float


def is_hinge_machine(model: object) -> bool:
    """Say whether a model is an ``SVC`` or this package's ``LinearSVC``; a subclass may predict in another way."""
    kind, home = type(model).__name__, type(model).__module__.split(".")[0]
    return (home == "buttress" and kind in ("SVC", "LinearSVC")) or (home == "sklearn" and kind == "SVC")


def fewest_wrong(
    model: Any, X: Array, y: Array, Z: Array, suspects: Rows, most: int
) -> tuple[Array, Rows, Mask]:
    """Return lower bounds of the number of wrong labels that change each prediction of a fitted SVC.

    Parameters
    ----------
    model : fitted machine of two classes, for which ``is_hinge_machine``
    X, y : arrays of shape (n, d) and (n,)
        Training rows and their labels as -1 and +1.
    Z : array of shape (m, d)
    suspects : int array
        The rows whose labels may be wrong.
    most : int
        Larger numbers are not looked into.

    Returns
    -------
    needed : array of shape (m,)
        No smaller number of wrong labels changes the prediction.
    rows : int array of shape (m,)
        A label that does it alone, -1 where none is known.
    exact : bool array of shape (m,)
        Whether ``needed`` is the least number: some label surely changes the prediction alone.
    """
    problem = _problem(model, X, y, Z)
    point = problem.solved(_beta(model, len(y)), y, _intercept(model))
    values = problem.KT @ point.beta + point.b
    again = _refitted(problem, model, X, y)
    if not np.allclose(problem.KT @ again.beta + again.b, values, rtol=0, atol=REPRODUCED * np.abs(values).max()):
        raise ValueError(f"{type(model).__name__} fitted again to X_train and y_train gives other values than the "
                         "model. Give the data it was fitted to; if it was fitted with sample_weight, use "
                         "LeastSquaresClassifier.")
    second = values > 0
    rows = np.full(len(Z), -1)
    stands = np.ones(len(Z), dtype=bool)
    for i in suspects:
        other = y.copy()
        other[i] *= -1
        low, high = _interval(problem, _refitted(problem, model, X, other), other)
        stands &= np.where(second, low, -high) > 0
        rows[np.where(second, high, -low) < 0] = i
    needed = 1.0 + stands
    if not problem.intercept:
        needed = np.maximum(needed, _without_intercept(problem, point, np.abs(values), suspects, most))
    return needed, rows, rows >= 0


def _problem(model: Any, X: Array, y: Array, Z: Array) -> HingeProblem:
    score = read_scores(model)
    kernel: Any = getattr(score and score.expansion, "kernel", None)
    known = getattr(kernel, "definiteness", "") == "pd" and hasattr(model, "C") and model.class_weight is None
    known = known and getattr(model, "multi_class", "") != "crammer_singer"
    if not (known and getattr(model, "loss", "hinge") == "hinge" and hasattr(model, "dual_coef_")):
        raise ValueError(f"Nothing can be proven of wrong labels for this {type(model).__name__}: its kernel must be "
                         "known by name and positive definite, its loss the hinge of two classes, with a dual point, "
                         "and class_weight None.")
    own = np.array([kernel(z[None], z[None]).item() for z in Z])
    return HingeProblem(kernel(X, X), kernel(Z, X), own, y, float(model.C), getattr(model, "fit_intercept", True))


def _beta(model: Any, n: int) -> Array:
    beta = (model.dual_coef_.toarray() if issparse(model.dual_coef_) else np.asarray(model.dual_coef_)).ravel()
    if hasattr(model, "support_"):
        if model.support_.max(initial=0) >= n:
            raise ValueError(f"X_train has {n} rows, and the model was fitted to more. Give the data it was fitted to.")
        beta, of_support = np.zeros(n), beta
        beta[model.support_] = of_support
    return beta


def _intercept(model: Any) -> float:
    return float(np.ravel(model.intercept_).item())


def _refitted(problem: HingeProblem, model: Any, X: Array, y: Array) -> HingePoint:
    """Return the optimum for other labels, up to its gap; with one class left the constant machine."""
    if np.ptp(y) == 0:
        return problem.solved(np.zeros(len(y)), y, float(y.mean()))
    again = clone(model).fit(X, y)
    return problem.solved(_beta(again, len(y)), y, _intercept(again))


def _interval(problem: HingeProblem, point: HingePoint, y: Array) -> tuple[Array, Array]:
    """Return between which values the exact optimum's predictions lie, two arrays (m,)."""
    radius = np.sqrt(2 * point.gap)
    reach = radius * np.sqrt(problem.own)
    low, high = _intercepts(problem, point, y, radius) if problem.intercept else (0.0, 0.0)
    values = problem.KT @ point.beta
    doubt = rounding(len(y)) * (np.abs(problem.KT) @ np.abs(point.beta) + reach)
    return values + low - reach - doubt, values + high + reach + doubt


def _intercepts(problem: HingeProblem, point: HingePoint, y: Array, radius: float) -> tuple[float, float]:
    """Return an interval that holds the intercept of the exact optimum: where the sum of hinges is low enough.

    The sum is convex in the intercept and a line between its kinks.
    """
    share = rounding(len(y))
    slack = radius * np.sqrt(np.diagonal(problem.K))
    kinks = np.sort(y * (1 - slack) - point.f)
    beyond = point.primal / problem.C + 1
    kinks = np.hstack([kinks[0] - beyond, kinks, kinks[-1] + beyond])
    sums = problem.C * np.maximum(0, 1 - y * (point.f + kinks[:, None]) - slack).sum(axis=1)
    length = max(float(np.sqrt(max(float(point.beta @ point.f), 0.0))) - radius, 0.0)
    doubt = 2 * point.doubt + share * problem.C * (slack + np.abs(kinks).max()).sum()
    most = point.primal + doubt - 0.5 * length**2
    inside = np.flatnonzero(sums <= most)
    ends = []
    for last, step in ((inside.min(), -1), (inside.max(), 1)):
        pair = [last, last + step]
        end = np.interp(most, sums[pair], kinks[pair]) if 0 <= pair[1] < len(kinks) else step * np.inf
        ends.append(float(end + step * share * abs(end)))
    return ends[0], ends[1]


def _without_intercept(
    problem: HingeProblem, point: HingePoint, margin: Array, suspects: Rows, most: int
) -> Array:
    """Return one more than the largest number of wrong labels that is proven not to matter, at most ``most``."""
    stands = [margin > _largest_move(problem, point, suspects, k) for k in range(1, most + 1)]
    return 1.0 + np.logical_and.accumulate(np.reshape(stands, (most, len(margin)))).sum(axis=0)


def _largest_move(problem: HingeProblem, point: HingePoint, suspects: Rows, k: int) -> Array:
    """Return how far k wrong labels move values (m,) at most."""
    alpha = np.abs(point.beta)[suspects]
    m = (problem.y * point.f)[suspects]
    diagonal = np.diagonal(problem.K)[suspects]
    gain = problem.C * (np.maximum(0, 1 + m) - np.maximum(0, 1 - m)) + alpha * (1 - m)
    terms = np.abs(problem.KT) * np.abs(point.beta)
    square = point.gap + point.doubt + top(gain + 0.25 * k * alpha**2 * diagonal, k)
    moved = 0.5 * top(terms[:, suspects], k) + np.sqrt(problem.own * square)
    return moved + rounding(len(point.beta)) * (moved + terms.sum(axis=1))
