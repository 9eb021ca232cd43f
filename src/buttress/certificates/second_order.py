"""Second order: the value, gradient and Hessian of a lead at x are known numbers, and what is left of it is bounded.

RBF. With v_j = z_j - x, w_j = c_j exp(-gamma |v_j|^2) and A_p = sum_j w_j v_j^(tensor p),

    e^(gamma |d|^2) sum_j c_j k(x + d, z_j) = sum_p (2 gamma)^p / p! <A_p, d^(tensor p)>

since the left side is sum_j w_j e^(2 gamma v_j'd). The same series of <f, f> is

    ||f||^2 = sum_p (2 gamma)^p / p! |A_p|^2,

so that by Cauchy and Schwarz all terms from p = 3 on come to at most

    R sqrt(e^q - 1 - q - q^2/2),   R^2 = ||f||^2 - A_0^2 - 2 gamma |A_1|^2 - 2 gamma^2 |A_2|^2,   q = 2 gamma |d|^2.

What remains is a quadratic function of d, and the intercept times e^(gamma |d|^2).

Polynomials of degree 2 and 3 are their own Taylor series: a quadratic function, and for degree 3 the cubic form of
T = gamma^3 sum_j c_j z_j^(tensor 3), at most |T| |d|^3 with |T|^2 = gamma^6 sum_ij c_i c_j (z_i'z_j)^3.

The quadratic p'u + u'Bu of moves u in the units of X has its exact minimum over a ball: for each multiplier
lambda > -min eig(B), lambda >= 0, it is at least -1/4 sum_l p_l^2 / (e_l + lambda) - lambda eps^2 in the basis of the
eigenvectors of B. Over the cube |u_l| <= eps it is at least -eps |p|_1 + eps^2 max(d min(0, eig(B)), -sum |B|), the
sum without the positive part of the diagonal, or the minimum over the ball of radius eps sqrt(d) around it.
"""

from dataclasses import dataclass

import numpy as np

from buttress._checks import Array
from buttress.certificates.region import UNIT, Rows
from buttress.certificates.relaxation import Lead
from buttress.kernels import RBF, Polynomial

MOST_COLUMNS = 128  # a spectrum of d columns takes d^3 operations a row
BISECTIONS = 40


@dataclass
class SecondOrder:
    """Leads as value + p'u + u'Bu - rest(r) and the intercept, for moves u of the rows of X.

    Parameters
    ----------
    value, bias : array of shape (n,)
    slope, spectrum, turned : array of shape (n, d)
        p, the eigenvalues of B, and p in the basis of its eigenvectors.
    entries : array of shape (n,)
        sum |B|, of its diagonal the negative part only.
    left : array of shape (n,)
        The norm R, or |T|.
    sizes : array of shape (n, 3)
        Sums of the sizes of the terms of each order, for the rounding.
    kernel : RBF or Polynomial
    scale : array of shape (n, d)
    """

    value: Array
    bias: Array
    slope: Array
    spectrum: Array
    turned: Array
    entries: Array
    left: Array
    sizes: Array
    kernel: RBF | Polynomial
    scale: Array

    def __getitem__(self, rows: Rows) -> "SecondOrder":
        return SecondOrder(self.value[rows], self.bias[rows], self.slope[rows], self.spectrum[rows], self.turned[rows],
                           self.entries[rows], self.left[rows], self.sizes[rows], self.kernel, self.scale[rows])

    def bound(self, eps: Array, norm: str) -> Array:
        """Return lower bounds (n,) of the leads within eps (n,), for RBF in units of e^(gamma |d|^2)."""
        d = self.scale.shape[1]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if norm == "l2":
                longest = self.scale.max(axis=1) * eps
                least = self._over_ball(eps)
            else:
                longest = np.linalg.norm(self.scale, axis=1) * eps
                apart = -eps * np.abs(self.slope).sum(axis=1)
                apart += eps**2 * np.maximum(d * np.minimum(self.spectrum[:, 0], 0), -self.entries)
                least = np.fmax(self._over_ball(np.sqrt(d) * eps), apart)
            return self.value + least - self._rest(longest) + self._intercept(longest) - self._doubt(longest)

    def _over_ball(self, eps: Array) -> Array:
        """Return the minimum of p'u + u'Bu over |u| <= eps."""
        low = np.maximum(-self.spectrum[:, 0], 0)
        high = low + np.linalg.norm(self.turned, axis=1) / (2 * eps) + np.finfo(float).tiny
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            long = ((self.turned / (self.spectrum + middle[:, None])) ** 2).sum(axis=1) > 4 * eps**2
            low, high = np.where(long, middle, low), np.where(long, high, middle)
        high = np.maximum(high, np.maximum(-self.spectrum[:, 0], 0) * (1 + 4 * UNIT))
        fall = np.where(self.turned == 0, 0, self.turned**2 / (self.spectrum + high[:, None])).sum(axis=1) / 4
        return -fall - high * eps**2

    def _rest(self, longest: Array) -> Array:
        if isinstance(self.kernel, Polynomial):
            return self.left * longest**3
        q = 2 * self.kernel.gamma * longest**2
        return self.left * np.sqrt(np.maximum(_after_second(q), 0))

    def _intercept(self, longest: Array) -> Array:
        if isinstance(self.kernel, Polynomial):
            return self.bias
        grown: Array = np.exp(self.kernel.gamma * longest**2)
        return np.where(self.bias > 0, self.bias, self.bias * grown)

    def _doubt(self, longest: Array) -> Array:
        powers = longest[:, None] ** np.arange(3)
        return 4 * ((self.sizes * powers).sum(axis=1) + UNIT * np.abs(self._intercept(longest)))


def _after_second(q: Array) -> Array:
    """Return e^q - 1 - q - q^2/2 without cancellation, rounded up."""
    series = q**3 / 6 * (1 + q / 4 * (1 + q / 5 * (1 + q / 6 * (1 + q / 7 * (1 + q / 8)))))
    return np.where(q < 0.1, series * (1 + 1e-9), np.exp(q) - 1 - q - q**2 / 2 + 16 * UNIT * np.exp(q))


def second_order(lead: Lead, X: Array, scale: Array) -> SecondOrder | None:
    """Return the expansion of the leads at the rows X behind the scalers; None for a kernel without one here.

    ``scale`` is how far a unit moves each column, (d,) or one a row (n, d).
    """
    kernel, share = lead.kernels[0]
    if len(lead.kernels) > 1 or lead.tilt is not None or X.shape[1] > MOST_COLUMNS:
        return None
    if not isinstance(kernel, RBF | Polynomial):
        return None
    if isinstance(kernel, Polynomial) and kernel.degree not in (2, 3):
        return None
    rows = [_expand(kernel, share * lead.weights[i], lead, lead.square[i], X[i]) for i in range(len(X))]
    value, slope, matrix, left, sizes = (np.array(part) for part in zip(*rows, strict=True))
    scale = np.broadcast_to(scale, slope.shape)
    slope, matrix = slope * scale, matrix * scale[:, :, None] * scale[:, None]
    spectrum, vectors = np.linalg.eigh(matrix)
    width = np.linalg.norm(matrix, axis=(1, 2))
    spectrum = spectrum - 8 * UNIT * scale.shape[1] * width[:, None]
    diagonal = np.einsum("ijj->ij", matrix)
    entries = np.abs(matrix).sum(axis=(1, 2)) - np.maximum(diagonal, 0).sum(axis=1)
    turned = np.einsum("ijk,ij->ik", vectors, slope)
    sizes = sizes * (1 + lead.slack(X).max(axis=1)[:, None] / lead.unit * 2 * kernel.gamma) * lead.unit / UNIT
    return SecondOrder(value, lead.bias, slope, spectrum, turned, entries, left, sizes, kernel, scale)


Expanded = tuple[float, Array, Array, float, Array]


def _expand(kernel: RBF | Polynomial, c: Array, lead: Lead, square: float, x: Array) -> Expanded:
    if isinstance(kernel, RBF):
        return _expand_rbf(kernel, c, lead, square, x)
    return _expand_polynomial(kernel, c, lead, square, x)


def _expand_rbf(kernel: RBF, c: Array, lead: Lead, square: float, x: Array) -> Expanded:
    """Return A_0, 2 gamma A_1, 2 gamma^2 A_2, R and the sizes of these terms."""
    gamma, V = kernel.gamma, lead.centers - x
    r2 = np.einsum("ij,ij->i", V, V)
    w = c * np.exp(-gamma * r2)
    value, first, second = float(w.sum()), V.T @ w, (V.T * w) @ V
    rounding = UNIT * (len(w) + 16)
    left = square - value**2 - 2 * gamma * first @ first - 2 * gamma**2 * (second**2).sum()
    left = float(np.sqrt(max(left, 0) + rounding * np.abs(c).sum() ** 2))
    orders = np.stack([np.ones_like(r2), 2 * gamma * np.sqrt(r2), 2 * gamma**2 * r2])
    return value, 2 * gamma * first, 2 * gamma**2 * second, left, rounding * orders @ np.abs(w)


def _expand_polynomial(kernel: Polynomial, c: Array, lead: Lead, square: float, x: Array) -> Expanded:
    """Return f(x), its gradient, half its Hessian, |T| and the sizes of these terms."""
    Z, p, gamma = lead.centers, int(kernel.degree), kernel.gamma
    t = gamma * (Z @ x) + kernel.coef0
    halves = p * (p - 1) / 2 * gamma**2 * c * t ** (p - 2)
    first, second = Z.T @ (p * gamma * c * t ** (p - 1)), (Z.T * halves) @ Z
    rounding, length = UNIT * (len(c) + 16), np.linalg.norm(Z, axis=1)
    size = gamma * length * np.linalg.norm(x) + abs(kernel.coef0)
    orders = np.stack([size**p, p * gamma * length * size ** (p - 1), gamma**2 * length**2 * p * size ** (p - 2)])
    left = float(np.sqrt(max(square, 0) + rounding * (np.abs(c) * (gamma * length) ** 3).sum() ** 2)) if p == 3 else 0.0
    return float(c @ t**p), first, second, left, p * rounding * orders @ np.abs(c)
