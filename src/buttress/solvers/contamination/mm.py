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
from scipy.linalg import cho_solve, lapack

from buttress._checks import Array
from buttress._rows import drawn_rows
from buttress._state import Attribute, State
from buttress.solvers.contamination.tuning import TRIMMING

BREAKDOWN_BEND = 1.547645  # deviations: the S scale is then that of normal errors, and half of the rows may be bad
HALF = 0.5  # mean of chi at the scale
SETTLED = 1e-8  # scales: change of the residuals that ends either descent
STEPS = 500  # most steps of either
SEARCHED = 1000  # rows, drawn from more, that it is searched on
SCALE_STEPS = 60  # most steps to a scale; each at least halves what is left
WELL_APART = 1e-4  # of the largest pivot of X'UX: normal equations then lose at most half of the digits
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
    return np.asarray(1 - np.clip(1 - (u / bend) ** 2, 0, None) ** 3)


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


def m_scale(r: Array, p: int, first: float) -> float:
    """Return s with sum_i chi(r_i / s) = (n - p) / 2, from a first guess; 0 where more than half of r (n,) are 0."""
    s = first
    for _ in range(SCALE_STEPS):
        if not s > 0:
            return 0.0
        ratio = float(rho(r / s, BREAKDOWN_BEND).sum()) / (HALF * (len(r) - p))
        s *= np.sqrt(ratio)
        if abs(ratio - 1) < SETTLED:
            break
    return float(s)


def mm_estimate(X: Array, y: Array, starts: Array) -> MMEstimate | None:
    """Return the MM estimate for X (n, p) and y (n,); the S estimate is searched from ``starts`` (k, p).

    None where there is none: rows no more than columns, columns that depend on others, or half of the rows fitted
    exactly.
    """
    n, p = X.shape
    if n <= p + 1:
        return None
    found = _s_estimate(X, y, best_start(X, y, starts))
    s = found.scale
    if not s > DEPENDENT * float(np.abs(y).max()):
        return None
    last = _reweighted(X, y, found, TRIMMING.tukey)
    u = last.residual / s
    M = X.T @ (X * psi_slope(u, TRIMMING.tukey)[:, None]) / n
    values = np.linalg.eigvalsh(M)
    if not values[0] > DEPENDENT * values[-1]:
        return None
    v = found.residual / s
    if not np.mean(rho_slope(v, BREAKDOWN_BEND) * v) > 0:  # no row lies between fitted exactly and rejected
        return None
    covariance = _covariance(X, u, v, s, M)
    return MMEstimate(last.coef, covariance, s, bisquare(u, TRIMMING.tukey), n - p)


def best_start(X: Array, y: Array, starts: Array) -> Array:
    """Return coefficients near the S estimate of least scale, from ``starts`` (k, p).

    Two steps of reweighting tell good starts from bad ones; of the best three the one stays whose scale ends least
    (Salibian-Barrera & Yohai, A fast algorithm for S-regression estimates, 2006).
    """
    rows = np.arange(len(X))[drawn_rows(len(X), SEARCHED)]
    near = [_s_estimate(X[rows], y[rows], b, steps=2) for b in starts]
    best = sorted(near, key=lambda found: found.scale)[: TRIMMING.followed]
    ends = [_s_estimate(X[rows], y[rows], found.coef) for found in best]
    return min(ends, key=lambda found: found.scale).coef


@dataclass(frozen=True)
class Reweighted:
    """Coefficients (p,), their residuals (n,), and the scale of these."""

    coef: Array
    residual: Array
    scale: float


def _s_estimate(X: Array, y: Array, start: Array, steps: int = STEPS) -> Reweighted:
    """Return the S estimate that reweighting from ``start`` leads to in so many steps."""
    r = y - X @ start
    s = m_scale(r, X.shape[1], float(np.median(np.abs(r))) or float(np.abs(r).mean()))
    return _reweighted(X, y, Reweighted(start, r, s), BREAKDOWN_BEND, steps, fixed=False)


def _reweighted(
    X: Array, y: Array, start: Reweighted, bend: float, steps: int = STEPS, *, fixed: bool = True
) -> Reweighted:
    """Return where least squares with Tukey's weights leads to, with the scale of ``start`` or, not ``fixed``, S's."""
    b = start.coef
    r = start.residual
    s = start.scale
    for _ in range(steps):
        if not s > 0:
            break
        b = _weighted(X, y, bisquare(r / s, bend))
        step = y - X @ b
        moved = float(np.abs(step - r).max()) / s
        r = step
        s = s if fixed else m_scale(r, X.shape[1], s)
        if moved < SETTLED:
            break
    return Reweighted(b, r, s)


def _weighted(X: Array, y: Array, u: Array) -> Array:
    """Return the least squares of weights u: by the normal equations, or by an SVD where columns nearly depend."""
    Z = X * u[:, None]
    factor, failed = lapack.dpotrf(Z.T @ X, lower=1)
    pivots = factor.diagonal()
    if not failed and pivots.min() > WELL_APART * pivots.max():
        return np.asarray(cho_solve((factor, True), Z.T @ y))
    root = np.sqrt(u)
    return np.asarray(np.linalg.lstsq(X * root[:, None], y * root, rcond=None)[0])


def _covariance(X: Array, u: Array, v: Array, s: float, M: Array) -> Array:
    """Return cov(b) from the three products of the two terms of IF.

    The variance of chi is taken about its mean at the true scale, 1/2, as lmrob does; a sample's is (1 - p / n) / 2.
    """
    n = len(X)
    bend = TRIMMING.tukey
    psi = bisquare(u, bend) * u
    chi = rho(v, BREAKDOWN_BEND)
    inverse = s * np.linalg.inv(M)
    by_scale = inverse @ (X.T @ (psi_slope(u, bend) * u)) / n / np.mean(rho_slope(v, BREAKDOWN_BEND) * v)
    own = inverse @ (X.T @ (X * (psi**2)[:, None])) @ inverse / n
    both = np.outer(by_scale, inverse @ (X.T @ (psi * chi)) / n)
    scales = (np.mean(chi**2) - HALF**2) * np.outer(by_scale, by_scale)
    return np.asarray((own - both - both.T + scales) / n)
