"""The MM estimate of a linear model without a ridge, and the covariance of its coefficients.

    S     min over b, s   s   subject to   sum_i chi((y_i - x_i'b) / s) = (n - p) / 2
    MM    sum_i psi((y_i - x_i'b) / s) x_i = 0,   s from S                                  (Yohai 1987)

chi is Tukey's bisquare with its bend at 1.548, where half of the rows may be bad, psi the derivative of the one with
its bend at 4.685. With u_i = r_i / s of MM, v_i those of S, M = mean psi'(u_i) x_i x_i',

    IF_i = s M^-1 (psi(u_i) x_i - mean(psi'(u) u x) (chi(v_i) - 1/2) / mean(chi'(v) v)),
    cov(b) = sum_i IF_i IF_i' / n^2.

Errors need be neither symmetric nor of one variance (Croux, Dhaene & Hoorelbeke, Robust standard errors for robust
estimators, 2003; it is what robustbase::lmrob reports).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, lapack

from buttress._checks import TINY, Array
from buttress._rows import cached, median
from buttress._state import Attribute, State
from buttress._threads import slices
from buttress.solvers.contamination.tuning import TRIMMING
from buttress.solvers.run import SharedBudget, Step, Steps

BREAKDOWN_BEND = 1.547645  # deviations: the S scale is then that of normal errors, and half of the rows may be bad
HALF = 0.5  # mean of chi at the scale
SETTLED = 1e-8  # scales: change of the residuals that ends either descent
DEPENDENT = 1e-10  # of the largest singular value: a smaller one means columns that depend on others


@dataclass(frozen=True)
class MMEstimate:
    """Coefficients (p,), their covariance (p, p), the scale of the errors, the weights of the rows (n,), and n - p."""

    _state = State(
        Attribute("coef", "finite", "n_coef"),
        Attribute("covariance", "real", "n_coef, n_coef"),
        Attribute("scale", "nonnegative"),
        Attribute("weights", "nonnegative", "n_rows"),
        Attribute("freedom", "integer"))

    coef: Array
    covariance: Array
    scale: float
    weights: Array
    freedom: int


def rho(u: Array, bend: float) -> Array:
    """Return Tukey's bisquare loss, 1 from the bend on."""
    inside = np.maximum(1 - (u / bend) ** 2, 0)
    return np.asarray(1 - inside * inside * inside)  # a power of 3 takes many times as long


def rho_slope(u: Array, bend: float) -> Array:
    """Return its derivative."""
    return np.asarray(6 * u / bend**2 * np.clip(1 - (u / bend) ** 2, 0, None) ** 2)


def bisquare(u: Array, bend: float) -> Array:
    """Return Tukey's weights psi(u) / u, with psi(u) = u (1 - (u / bend)^2)^2 within the bend."""
    return np.asarray(np.clip(1 - (u / bend) ** 2, 0, None) ** 2)


def psi_slope(u: Array, bend: float) -> Array:
    """Return the derivative of psi."""
    inside = np.clip(1 - (u / bend) ** 2, 0, None)
    return np.asarray(inside * (1 - 5 * (u / bend) ** 2) * (inside > 0))


def m_scale(r: Array, lost: float, first: float) -> float:
    """Return s with sum_i chi(r_i / s) = (n - lost) / 2, from a first guess; 0 where more than half of r (n,) are 0.

    By Newton's method in log s, in which the slope of the sum's logarithm is between 0 and -2.
    """
    s = first
    for _ in range(60):  # some five are usual
        if not s > 0:
            return 0.0
        square = np.minimum(np.abs(r / (s * BREAKDOWN_BEND)), 1) ** 2  # in this order a square cannot overflow
        inside = 1 - square
        slopes = inside * inside
        total = float(len(r) - slopes @ inside)
        ratio = total / (HALF * (len(r) - lost))
        # the inverse of the slope, large where no residual is near the bend
        s *= ratio ** np.clip(total / max(6 * float(square @ slopes), TINY), 0.5, 2.0)
        if abs(ratio - 1) < SETTLED:
            break
    return float(s)


def mm_estimate(X: Array, y: Array, start: Array, bend: float = TRIMMING.tukey) -> MMEstimate | None:
    """Return the MM estimate for X (n, p) and y (n,), from the S estimate that coefficients ``start`` (p,) lead to.

    With the ``bend`` of psi at infinity the coefficients are those of least squares. None where there is no estimate:
    rows no more than columns, columns that depend on others, or half of the rows fitted exactly.
    """
    n, p = X.shape
    if n <= p + 1:
        return None
    found = s_estimate(X, y, start, p)
    s = found.scale
    if not s > DEPENDENT * float(np.abs(y).max()):
        return None
    last = ended(reweighting(X, y, found, bend))
    u = last.residual / s
    M = X.T @ (X * psi_slope(u, bend)[:, None]) / n
    values = np.linalg.eigvalsh(M)
    if not values[0] > DEPENDENT * values[-1]:
        return None
    v = found.residual / s
    if not np.mean(rho_slope(v, BREAKDOWN_BEND) * v) > 0:  # no row lies between fitted exactly and rejected
        return None
    covariance = _covariance(X, u, v, s, M, bend)
    return MMEstimate(last.coef, covariance, s, bisquare(u, bend), n - p)


@dataclass(frozen=True)
class Reweighted:
    """Coefficients (p,), their residuals (n,), and the scale of these."""

    coef: Array
    residual: Array
    scale: float


def s_estimate(
    X: Array, y: Array, start: Array, lost: float, alpha: float = 0.0, floor: float = 0.0,
    budget: SharedBudget | None = None, tol: float = SETTLED,
) -> Reweighted:
    """Return the S estimate that reweighting from coefficients ``start`` (p,) leads to.

    ``lost`` are the degrees of freedom of a fit, p without a ridge; no scale is below ``floor``.
    """
    r = y - X @ start
    s = m_scale(r, lost, float(median(np.abs(r))) or float(np.abs(r).mean()))
    steps = reweighting(X, y, Reweighted(start, r, max(s, floor)), BREAKDOWN_BEND, alpha, floor, lost)
    return ended(steps, budget, tol)


def reweighting(
    X: Array, y: Array, start: Reweighted, bend: float, alpha: float = 0.0, floor: float = 0.0,
    lost: float | None = None,
) -> Steps:
    """Yield :class:`Reweighted` of ever less loss, see :func:`_lower`; the change is that of the residuals.

    The scale is that of ``start`` or, where degrees of freedom ``lost`` are given, S's.
    """
    at = start
    change = np.inf
    while True:
        yield Step(at, change=change, objective=at.scale, done=not at.scale > 0)
        b, r = _lower(X, y, at, bend, alpha)
        change = float(np.abs(r - at.residual).max()) / at.scale
        at = Reweighted(b, r, at.scale if lost is None else max(m_scale(r, lost, at.scale), floor))


def _lower(X: Array, y: Array, at: Reweighted, bend: float, alpha: float) -> tuple[Array, Array]:
    """Return coefficients (p,) and their residuals (n,) of less loss at this scale than those of ``at``.

    They are those of Newton's method, or where these have no less loss those of a ridge regression with Tukey's
    weights, which have: Newton's need a third to a tenth of the steps.
    """
    width = at.scale * bend
    part = np.maximum(1 - (at.residual / width) ** 2, 0)
    weight = part * part
    slope = part * (5 * part - 4)
    b = _solved(X, slope, slope * (y - at.residual) + weight * at.residual, alpha)
    if b is not None:
        r = y - X @ b
        now = np.maximum(1 - (r / width) ** 2, 0)
        if now @ (now * now) - part @ weight >= 3 * alpha * (b @ b - at.coef @ at.coef) / width**2:
            return b, r
    b = weighted(X, y, weight, alpha)
    return b, y - X @ b


def ended(steps: Steps, budget: SharedBudget | None = None, tol: float = SETTLED) -> Reweighted:
    """Return the last state of steps that have settled, or whose time is up."""
    return (budget or SharedBudget()).run(steps, tol=tol, max_iter=500, keep="last").state


def best_start(
    X: Array, y: Array, starts: Array, near: Array, lost: float, alpha: float, floor: float, budget: SharedBudget
) -> list[Reweighted]:
    """Return the S estimates to which the best of coefficients ``starts`` (k, p) lead, the one of least scale first.

    Two steps of reweighting tell good starts from bad ones (Salibian-Barrera & Yohai, A fast algorithm for S-regression
    estimates, 2006). Half of those that go on have the least scale, half the least with rows weighted by ``near`` (n,).
    """
    parts = [_screened(X, y, starts[part], near, lost, alpha, floor) for part in slices(len(starts), X.size)]
    coefs, scales, others = (np.concatenate(some) for some in zip(*parts, strict=True))
    good = np.abs(y - coefs @ X.T) <= TRIMMING.good_within * scales[:, None]
    best = np.unique([*_unlike(good, scales), *_unlike(good, others)])
    # their ends are only compared, so a thousandth of the scale will do
    ends = (s_estimate(X, y, b, lost, alpha, floor, budget, tol=1e-3) for b in coefs[best])
    return sorted(ends, key=lambda found: found.scale)


def _unlike(good: NDArray[np.bool_], scales: Array) -> list[int]:
    """Return starts of least scale (k,), each of which takes other rows as good, (k, n), than those before it."""
    order = np.argsort(scales, kind="stable")
    chosen: list[int] = []
    while len(order) and len(chosen) < TRIMMING.descended:
        chosen.append(int(order[0]))
        order = order[np.mean(good[order] != good[order[0]], axis=1) > TRIMMING.alike]
    return chosen


def _screened(
    X: Array, y: Array, B: Array, near: Array, lost: float, alpha: float, floor: float
) -> tuple[Array, Array, Array]:
    """Return coefficients (k, p) two steps on from B (k, p), and nearly their scales (k,), of rows alike and weighted.
    """
    alike = np.ones(len(X))
    R = y - B @ X.T
    s = _rescaled(np.maximum(median(np.abs(R)), floor + TINY), R, alike, lost, floor)
    for _ in range(2):
        B = regressions(X, y, bisquare(R / s[:, None], BREAKDOWN_BEND), alpha)
        R = y - B @ X.T
        s = _rescaled(s, R, alike, lost, floor)
    return B, s, _rescaled(s, R, near, lost, floor)


def regressions(X: Array, y: Array, U: Array, alpha: float) -> Array:
    """Return the ridge regressions (k, p) of weights U (k, n), near those of least norm where columns depend on others.
    """
    n, p = X.shape
    A = (U @ (X[:, :, None] * X[:, None, :]).reshape(n, -1)).reshape(-1, p, p)
    A[:, np.arange(p), np.arange(p)] += alpha + DEPENDENT * n
    return np.asarray(np.linalg.solve(A, ((U * y) @ X)[:, :, None])[:, :, 0], dtype=np.float64)


def _rescaled(s: Array, R: Array, near: Array, lost: float, floor: float) -> Array:
    """Return scales (k,) of residuals R (k, n) of weighted rows, three steps on from s: near enough to rank them."""
    aim = HALF * (1 - lost / len(near)) * near.sum()
    for _ in range(3):
        s = np.maximum(s * np.sqrt(rho(R / s[:, None], BREAKDOWN_BEND) @ near / aim), floor + TINY)
    return s


def weighted(X: Array, y: Array, u: Array, alpha: float) -> Array:
    """Return the ridge regression of weights u: by the normal equations, or by an SVD where columns nearly depend."""
    found = _solved(X, u, u * y, alpha)
    if found is not None:
        return found
    root = np.sqrt(u)
    return np.asarray(np.linalg.lstsq(X * root[:, None], y * root, rcond=None)[0])


def _solved(X: Array, u: Array, aim: Array, alpha: float) -> Array | None:
    """Return b with (X'UX + alpha I) b = X'``aim``; None where that matrix is not definite, or nearly so."""
    A = alpha * np.eye(X.shape[1])
    for part in cached(len(X)):
        A += (X[part] * u[part, None]).T @ X[part]
    factor, failed = lapack.dpotrf(A, lower=1)
    pivots = factor.diagonal()
    # normal equations then lose at most half of the digits
    if failed or not (alpha > 0 or pivots.min() > 1e-4 * pivots.max()):
        return None
    return np.asarray(cho_solve((factor, True), X.T @ aim))


def _covariance(X: Array, u: Array, v: Array, s: float, M: Array, bend: float) -> Array:
    """Return cov(b) from the three products of the two terms of IF.

    The variance of chi is taken about its mean at the true scale, 1/2, as lmrob does; a sample's is (1 - p / n) / 2.
    """
    n = len(X)
    psi = bisquare(u, bend) * u
    chi = rho(v, BREAKDOWN_BEND)
    inverse = s * np.linalg.inv(M)
    by_scale = inverse @ (X.T @ (psi_slope(u, bend) * u)) / n / np.mean(rho_slope(v, BREAKDOWN_BEND) * v)
    own = inverse @ (X.T @ (X * (psi**2)[:, None])) @ inverse / n
    both = np.outer(by_scale, inverse @ (X.T @ (psi * chi)) / n)
    scales = (np.mean(chi**2) - HALF**2) * np.outer(by_scale, by_scale)
    return np.asarray((own - both - both.T + scales) / n)
