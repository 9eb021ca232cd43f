"""The linear support vector machine in the primal: its two objectives, and the step lengths of stochastic descent.

    minimise over w, b   1/2 ||w||^2 + sum_i C_i l(u_i),  u_i = m_i - y_i (w'x_i + b),  l(u) = max(0, u) or max(0, u)^2

The margins m_i are 1 for labels y_i. A target t with a tube of half width epsilon is two rows: y = 1 with margin
t - epsilon, and y = -1 with margin -t - epsilon.

Times lam = 1 / sum_i C_i this is the mean form  lam/2 ||w||^2 + sum_i share_i l(u_i), share_i = C_i / sum_j C_j, whose
strong convexity in w is lam: 1/(nC) when all C_i = C. (The lecture's lambda = 1/C belongs to the sum of the losses.)
Steps are taken in the mean form, objectives and gaps are the sum form's.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from buttress._checks import TINY, Array
from buttress._proof import SLACK, Near, U, plus, products, sums_of_rows
from buttress._state import Attribute, State
from buttress._types import DenseOrSparse, is_csr

RATE_ROWS = 10_000  # rows from which the rate of stochastic steps is estimated: an error of a tenth does no harm


@dataclass
class LinearProblem:
    """X of shape (n, d), dense or CSR; y in {-1, +1} and C_i > 0 of shape (n,); which loss; whether b is free or 0.

    ``margin`` holds the m_i.
    """

    X: DenseOrSparse
    y: Array
    bound: Array
    squared: bool = False
    intercept: bool = True
    margin: Array | float = 1.0

    @property
    def lam(self) -> float:
        """Strong convexity in w of the mean form."""
        return 1 / float(self.bound.sum())

    def slack(self, w: Array, b: float) -> Array:
        """Return u_i = m_i - y_i (w'x_i + b)."""
        return self.margin - self.y * (self.X @ w + b)

    def primal(self, w: Array, u: Array) -> float:
        """Return the objective at w with slacks u."""
        losses = np.maximum(u, 0)
        return 0.5 * float(w @ w) + float(self.bound @ (losses**2 if self.squared else losses))

    def feasible(self, a: Array) -> Array:
        """Return multipliers a moved into their box and, with a free b, onto sum a_i y_i = 0."""
        a = np.maximum(a, 0) if self.squared else np.clip(a, 0, self.bound)
        if self.intercept:
            plus, minus = (float(a[own].sum()) for own in (self.y > 0, self.y < 0))
            heavy = self.y > 0 if plus > minus else self.y < 0
            a = np.where(heavy, a * (min(plus, minus) / max(plus, minus, TINY)), a)
        return np.asarray(a)

    def dual(self, a: Array) -> float:
        """Return the dual objective of multipliers a, made feasible first.

        It is a lower bound of the optimum: sum m_i a_i - 1/2 ||sum a_i y_i x_i||^2, for the squared loss minus
        sum a_i^2 / (4 C_i).
        """
        a = self.feasible(a)
        return self.dual_at(a, self.X.T @ (self.y * a))

    def dual_at(self, a: Array, w: Array) -> float:
        """Return that of feasible multipliers a with w = sum a_i y_i x_i."""
        cost = 0.25 * float((a**2 / self.bound).sum()) if self.squared else 0.0
        return float((self.margin * a).sum()) - 0.5 * float(w @ w) - cost

    def proven(self, w: Array, b: float, a: Array | None) -> tuple[float, float]:
        """Return bounds of the objective at (w, b), and of the optimum from feasible multipliers a, in real numbers.

        The primal is at most the first, the optimum at least the second (minus infinity without multipliers). With a
        free b, sum a_i y_i is 0 up to rounding: moved to one a_j with room for it, the dual falls by its slope there.
        """
        pull = Near(self.y)
        margin = Near(self.margin, U * np.abs(self.margin) * np.ndim(self.margin))  # those of targets are rounded
        losses = ((products(self.X, Near(w)) + b) * pull * -1.0 + margin).each(plus)
        costs = (losses * losses if self.squared else losses) * self.bound
        primal = (Near(w) * w).sum() * 0.5 + costs.sum()
        if a is None:
            return float(primal.high), -np.inf
        Z = self.X  # rows less their mean: as sum a_i y_i = 0, the dual is the same, and less of it cancels
        if self.intercept and not is_csr(Z):
            Z = Z.astype(np.float64) - Z.mean(axis=0, dtype=np.float64)
        v = sums_of_rows(Z, self.y * a)
        dual = (margin * a).sum() + (v * v).sum() * -0.5
        if self.squared:
            dual = dual + (Near(a) * a * Near(0.25 / self.bound, U / self.bound)).sum() * -1.0
        return float(primal.high), float(dual.low) - (self._fall(Z, a, v) if self.intercept else 0.0)

    def _fall(self, Z: DenseOrSparse, a: Array, v: Near) -> float:
        """Return by how much the dual of the rows Z falls at most when one a_j gives up sum a_i y_i."""
        excess = math.fsum((a * self.y).tolist())
        rises = self.y * excess < 0
        room = np.where(rises, np.inf if self.squared else self.bound - a, a)
        j = int(np.where(np.isfinite(room), room, self.bound).argmax())
        if excess == 0 or room[j] < 2 * abs(excess):
            return 0.0 if excess == 0 else np.inf
        row = Z[[j]]
        size = float(row.multiply(row).sum() if is_csr(row) else (row**2).sum())
        bend = size + (0.5 / self.bound[j] if self.squared else 0.0)
        along = products(row, v)
        slope = float(np.abs(self.margin).max()) + float(np.abs([along.high, along.low]).max())
        slope += 0.5 * a[j] / self.bound[j] if self.squared else 0.0
        return SLACK * (abs(excess) * slope + 0.5 * excess**2 * bend)

    def relative_gap(self, primal: float, dual: float) -> float:
        """Return (primal - dual) / primal: 0 at the optimum, 1 for a dual value of 0."""
        return (primal - dual) / max(primal, 1e-14 / self.lam)  # instead of 0, in the ratio


class Plane(NamedTuple):
    """The plane w'x + b = 0; of exact solvers a lower bound of the optimum, and the multipliers that prove it."""

    w: Array
    b: float
    dual: float = -np.inf
    multipliers: Array | None = None


@dataclass
class Rate:
    """The step lengths first / (1 + decay t), t = 0, 1, ...; decay 0 is a constant step.

    Steps in the intercept are ``intercept`` times as long: next to columns whose size is far from 1 it would move too
    slowly or too fast. Because b is not penalised, the optimum stays the same.
    """

    _state = State(
        Attribute("first", "nonnegative"),
        Attribute("decay", "nonnegative"),
        Attribute("intercept", "nonnegative"))

    first: float
    decay: float = 0.0
    intercept: float = 1.0

    def __call__(self, t: int) -> float:
        return self.first / (1 + self.decay * t)


def best_rate(mu: float, noise: float, distance: float) -> Rate:
    """Return the lecture's best rate: the one under which its bound on p_t = E||z_t - z*||^2 falls fastest.

    For strong convexity ``mu``, gradient noise of variance at most ``noise`` (M) and ``distance`` p_0. Minimising
    (1 - eta mu) p_t + eta^2 M over eta gives eta_t = mu p_t / (2M) and p_t <= 4 M p_0 / (4M + mu^2 p_0 t), so
    first = mu p_0 / (2M) and decay = mu^2 p_0 / (4M).
    The bound needs eta mu <= 1. If p_0 is larger than 2M / mu^2, the first step is therefore 1 / mu. It makes
    p_1 = M / mu^2 for any p_0, and the rate continues as from p_0 = 2M / mu^2.
    """
    distance = min(distance, 2 * noise / mu / mu)  # mu^2 may overflow
    return Rate(mu * distance / (2 * noise), mu * (mu * distance) / (4 * noise))


def default_rate(problem: LinearProblem, rows: NDArray[np.intp]) -> Rate:
    """Return :func:`best_rate` for estimates of mu, M and p_0 from the rows.

    - M bounds the variance of the gradient of one row (hinge). It is the mean of ||x||^2 plus the square of the
      intercept's column, which is scaled to the size of the mean column.
    - mu is lam plus a fifth of the mean squared column, because rows near the margin add curvature to the mean loss.
    - p_0 = 2 / mu, because the mean form is at most 1 at w = 0, so that mu/2 p_0 <= 1.

    The rate is then 1 / (M + mu t / 2). With the squared loss the first step is 1 / L instead, L the largest curvature.
    ``rows`` are those that steps are taken on.
    """
    some = rows[np.linspace(0, len(rows) - 1, min(RATE_ROWS, len(rows))).astype(np.intp)]
    X = problem.X[some]
    share = problem.bound[some] * problem.lam
    share = share / share.sum()
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel() if is_csr(X) else np.einsum("ij,ij->i", X, X)
    size = float(share @ squares) / X.shape[1] or 1.0
    noise = (X.shape[1] + 1) * size
    mu = max(problem.lam + 0.2 * size, problem.lam * (1 + 1e-9))  # where rounding hides the squares of short columns
    rate = replace(best_rate(mu, noise, 2 / mu), intercept=size)
    return replace(rate, first=1 / (problem.lam + 2 * (squares.max() + size))) if problem.squared else rate


def chosen_rate(default: Rate, problem: LinearProblem, schedule: str, eta0: float | None, decay: float | None) -> Rate:
    """Return the step lengths of a schedule, "constant", "inverse" or "pegasos"; None stands for the default's.

    Raises ValueError for a first step that would turn w around.
    """
    first = default.first if eta0 is None else float(eta0)
    if not first * problem.lam < 1:
        raise ValueError(f"eta0 must be below nC = {1 / problem.lam:.6g} (the sum of all C_i). Got {first:g}."
                         + " Scale the columns of X (StandardScaler)." * (eta0 is None))
    decays = {"constant": 0.0, "pegasos": first * problem.lam,
              "inverse": default.decay if decay is None else float(decay)}
    return Rate(first, decays[schedule], default.intercept)


def best_intercept(residual: Array, lo: Array, hi: Array, l1: Array | float, total: float = 0.0) -> float:
    """Return a minimiser over b0 of the losses plus ``total`` b0, by sorting its breakpoints residual -+ l1."""
    if l1.any() if isinstance(l1, np.ndarray) else l1:  # numpy's own function takes longer than all of a small set
        points = np.concatenate([residual - l1, residual + l1])
        rises = np.concatenate([hi, -lo])
    else:
        points = residual
        rises = hi - lo
    order = points.argsort(kind="stable")
    slope = rises[order].cumsum() - hi.sum() + total
    return float(points[order[min(int(slope.searchsorted(0.0)), len(order) - 1)]])


def hinge_intercept(residual: Array, y: Array, bound: Array) -> float:
    """Return a minimiser over b0 of sum_i bound_i max(0, y_i (residual_i - b0)), y in {-1, +1}."""
    return best_intercept(residual, np.where(y > 0, 0.0, -bound), np.where(y > 0, bound, 0.0), 0.0)
