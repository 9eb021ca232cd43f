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

Rounding: eigenvectors V and -values e are as they come, and what B differs from V diag(e) V', V'V from I and p from
V V'p is measured; with w = V'u the quadratic is at least (V'p)'w + w'diag(e) w less these differences. Sums are off by
their roundings (:func:`sum_error`), among them the scores that the model itself computes at the moved row.
"""

from dataclasses import dataclass
from math import comb

import numpy as np

from buttress._checks import Array
from buttress._proof import sum_error
from buttress.certificates.region import TINY, SomeRows
from buttress.certificates.relaxation import Lead
from buttress.kernels import RBF, Polynomial


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
    off : array of shape (n, 3)
        Sums of sizes, at least the norms, of what B differs from what stands for it, V'V from I, and p likewise.
    sizes : array of shape (n, 3) or (n, 4)
        By how much the terms of each order may be off, for moves of length 1 behind the scalers.
    summed : array of shape (n, 4)
        For RBF what the model's own scores rest on: sizes of its terms at the row, and of its coefficients; the
        distance of the farthest centre; squared lengths of the numbers that squared distances are made of.
    scale : array of shape (n, d)
    kernel : RBF or Polynomial
    shares : tuple of float
        By which share of its terms' sizes a sum over the centres may be off, and one over the columns.
    """

    value: Array
    bias: Array
    slope: Array
    spectrum: Array
    turned: Array
    entries: Array
    left: Array
    off: Array
    sizes: Array
    summed: Array
    scale: Array
    kernel: RBF | Polynomial
    shares: tuple[float, float]

    def __getitem__(self, rows: SomeRows) -> "SecondOrder":
        return SecondOrder(self.value[rows], self.bias[rows], self.slope[rows], self.spectrum[rows], self.turned[rows],
                           self.entries[rows], self.left[rows], self.off[rows], self.sizes[rows], self.summed[rows],
                           self.scale[rows], self.kernel, self.shares)

    def bound(self, eps: Array, norm: str) -> Array:
        """Return lower bounds (n,) of the leads within eps (n,), for RBF in units of e^(gamma |d|^2)."""
        d = self.scale.shape[1]
        share = sum_error(d)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if norm == "l2":
                longest = self.scale.max(axis=1) * eps
                least = self._over_ball(eps)
            else:
                longest = np.linalg.norm(self.scale, axis=1) * eps
                lowest = np.minimum(self.spectrum[:, 0], 0) * (1 + self.off[:, 1]) - self.off[:, 0]
                apart = eps**2 * np.maximum(d * lowest, -self.entries) - eps * np.abs(self.slope).sum(axis=1)
                least = np.fmax(self._over_ball(np.sqrt(d) * eps), apart)
            longest = longest * (1 + share)
            rest, intercept, doubt = self._rest(longest), self._intercept(longest), self._doubt(longest)
            sizes = np.abs(self.value) + np.abs(least) + rest + np.abs(intercept) + doubt
            bound: Array = self.value + least - rest + intercept - doubt - share * sizes
            return bound

    def _over_ball(self, eps: Array) -> Array:
        """Return the minimum of p'u + u'Bu over |u| <= eps, but for a share of it that ``bound`` takes off.

        Squares of p, which may be below the least float where p is not, are not taken.
        """
        lost, longer, apart = self.off.T
        low = np.maximum(-self.spectrum[:, 0], 0)
        high = low + np.abs(self.turned).sum(axis=1) / (2 * eps)
        for _ in range(40):  # halvings
            middle = (low + high) / 2
            long = ((self.turned / (self.spectrum + middle[:, None])) ** 2).sum(axis=1) > 4 * eps**2
            low, high = np.where(long, middle, low), np.where(long, high, middle)
        moved = np.where(self.turned == 0, 0, self.turned / (self.spectrum + high[:, None]))
        fall = (self.turned * moved).sum(axis=1) / 4
        return -fall - eps**2 * (high * (1 + longer) + lost) - eps * apart

    def _rest(self, longest: Array) -> Array:
        if isinstance(self.kernel, Polynomial):
            return self.left * longest**3
        q = 2 * self.kernel.gamma * longest**2
        return self.left * np.sqrt(np.maximum(_after_second(q), 0))

    def _intercept(self, longest: Array) -> Array:
        if isinstance(self.kernel, Polynomial):
            return self.bias
        least: Array = np.minimum(self.bias, self.bias * np.exp(self.kernel.gamma * longest**2))
        return least

    def _doubt(self, longest: Array) -> Array:
        """Return what rounding may change in the bound, and in the scores that the model computes at moved rows.

        For RBF either by the share of a sum over the centres, and by e to the power of what gamma r^2 is off by, 4
        units of the lengths a column: of the scores' sizes, which the terms of the series here add up to as well.
        """
        own: Array = (self.sizes * longest[:, None] ** np.arange(self.sizes.shape[1])).sum(axis=1)
        if isinstance(self.kernel, Polynomial):
            return own
        gamma, (at_row, coefficients, far, lengths) = self.kernel.gamma, self.summed.T
        grown = gamma * longest**2
        shaken = self.shares[0] + np.expm1(4 * gamma * self.shares[1] * (lengths + 2 * longest**2))
        scores = np.minimum(at_row * np.exp(2 * gamma * far * longest), coefficients * np.exp(grown))
        return own + 2 * shaken * scores


def _after_second(q: Array) -> Array:
    """Return e^q - 1 - q - q^2/2, rounded up.

    Where they cancel, q^3/6 (1 + q/4 + q^2/20 (1 + q/6 + ...)), with powers of q/6 for what its factors make smaller.
    """
    series = q**3 / 6 * (1 + q / 4 * (1 + q / 5 / (1 - q / 6)))
    error = sum_error(0)
    return np.where(q < 0.1, series * (1 + error), np.exp(q) * (1 + error * (1 + q)) - 1 - q - q**2 / 2)


@np.errstate(over="ignore", invalid="ignore")  # no bound follows
def second_order(lead: Lead, X: Array, scale: Array) -> SecondOrder | None:
    """Return the expansion of the leads at the rows X behind the scalers; None for a kernel without one here.

    ``scale`` is how far a unit moves each column, (d,) or one a row (n, d).
    """
    kernel, share = lead.kernels[0]
    d = X.shape[1]
    if len(lead.kernels) > 1 or lead.tilt is not None or d > 128:  # a spectrum of d columns takes d^3 operations a row
        return None
    if not isinstance(kernel, RBF | Polynomial):
        return None
    if isinstance(kernel, Polynomial) and kernel.degree not in (2, 3):
        return None
    size, expand = share * lead.of_size(), _expand_rbf if isinstance(kernel, RBF) else _expand_polynomial
    rows = [expand(kernel, share * lead.weights[i], size[i], lead, lead.square[i], X[i]) for i in range(len(X))]
    value, slope, matrix, left, sizes, summed = (np.array(part) for part in zip(*rows, strict=True))
    scale = np.broadcast_to(scale, slope.shape)
    slope, matrix = slope * scale, matrix * scale[:, :, None] * scale[:, None]
    falling = np.abs(matrix)
    np.einsum("ijj->ij", falling)[:] = np.maximum(-np.einsum("ijj->ij", matrix), 0)
    entries = falling.sum(axis=(1, 2)) * (1 + sum_error(d**2))
    spectrum, turned, off = _axes(matrix, slope)
    return SecondOrder(value, lead.bias, slope, spectrum, turned, entries, left, off, sizes, summed, scale, kernel,
                       (lead.share(), sum_error(d, lead.unit)))


def _axes(B: Array, p: Array) -> tuple[Array, Array, Array]:
    """Return eigenvalues e and V'p, both (n, d), and sums of sizes (n, 3) of B - V diag(e) V', V'V - I and p - V V'p.

    Products of d terms are off by sums of |V_ik e_k V_jk|, |V_ij V_ik| and |V_ik (V'p)_k|, which come to at most d
    times sum |e|, d and |V'p|_1 but for the lengths of V's columns, whose squares are not above 2.
    """
    e, V = np.linalg.eigh(B)
    d = e.shape[1]
    turned = np.einsum("ijk,ij->ik", V, p)
    lost = B - (V * e[:, None]) @ V.transpose(0, 2, 1)
    longer = V.transpose(0, 2, 1) @ V - np.eye(d)
    apart = p - np.einsum("ijk,ik->ij", V, turned)
    sums = [np.abs(part).reshape(len(e), -1).sum(axis=1) for part in (lost, longer, apart)]
    sizes = [np.abs(e).sum(axis=1), np.full(len(e), float(d)), np.abs(turned).sum(axis=1)]
    off = np.array(sums) * (1 + sum_error(d**2)) + sum_error(d) * d * np.array(sizes)
    return e, turned, off.T


Expanded = tuple[float, Array, Array, float, Array, Array]


def _expand_rbf(kernel: RBF, c: Array, size: Array, lead: Lead, square: float, x: Array) -> Expanded:
    """Return A_0, 2 gamma A_1, 2 gamma^2 A_2, R, by how much these terms may be off, and what the scores rest on.

    Of the coefficients' sizes sum |c| no norm sqrt((2 gamma)^p / p!) |A_p| is larger than that, and in m + d roundings
    it is off by no more than their share of it: the three squares by 6 such shares, and their sums by 2 more. A square
    below the least float is 0, and a value that exp says is 0 is one, here and in the model.
    """
    gamma, V, d = kernel.gamma, lead.centers - x, len(x)
    r2 = np.einsum("ij,ij->i", V, V)
    values = np.exp(-gamma * r2)
    w = c * values
    U = np.sqrt(2 * gamma) * V  # of no unit: gamma**2 may be no float
    value, first, second = float(w.sum()), U.T @ w, (U.T * w) @ U
    bent = float((second**2).sum()) / 2
    left = square - value**2 - first @ first - bent
    hidden = 4 * sum_error(len(w) + d) * size.sum() ** 2 + sum_error(d**2) * bent + TINY
    left = float(np.sqrt(max(left, 0) + hidden))  # by far more than one rounding of it too high
    orders = np.stack([np.ones_like(r2), 2 * gamma * np.sqrt(r2), gamma * (2 * gamma * r2)])
    sizes = 2 * TINY * orders @ size
    lengths = lead.lengths(x[None], np.zeros(1)).max()
    summed = np.array([size @ values, size.sum(), np.sqrt(r2.max()), lengths])
    return value, np.sqrt(2 * gamma) * first, gamma * second, left, sizes, summed


def _expand_polynomial(kernel: Polynomial, c: Array, size: Array, lead: Lead, square: float, x: Array) -> Expanded:
    """Return f(x), its gradient, half its Hessian, |T|, by how much the terms of a moved row may be off, and zeros.

    A power p of a product of d columns behind a scaler passes through p (d + 8) roundings, here and in the model. |T|^2
    is a sum over pairs of centres of third powers; one below the least float is 0.
    """
    Z, p = kernel.gamma * lead.centers, int(kernel.degree)
    t = Z @ x + kernel.coef0
    halves = p * (p - 1) / 2 * c * t ** (p - 2)
    first, second = Z.T @ (p * c * t ** (p - 1)), (Z.T * halves) @ Z
    steep = np.linalg.norm(Z, axis=1)
    largest = steep * (np.linalg.norm(x) + lead.origin) + abs(kernel.coef0)
    orders = np.stack([comb(p, k) * largest ** (p - k) * steep**k for k in range(p + 1)])
    sizes = 2 * sum_error(len(c) + p * (len(x) + 8), lead.unit) * orders @ size
    cubic = max(square, 0) + sum_error(2 * len(c) + 3 * len(x)) * (size @ steep**3) ** 2 + TINY
    left = float(np.sqrt(cubic)) if p == 3 else 0.0
    return float(c @ t**p), first, second, left, sizes, np.zeros(4)
