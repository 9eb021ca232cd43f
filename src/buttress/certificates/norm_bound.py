"""How far a score can fall by what is known of it in its kernel's space: its norm, its value and its gradient.

A kernel machine's lead of the predicted class over a rival is f(x) + b with f in the kernel's Hilbert space, so

    |f(x + d) - f(x)| = |<f, k(x + d, .) - k(x, .)>| <= ||f|| sqrt(2 F(0) - 2 F(|d|^2))                              (1)

for a stationary kernel k(x, z) = F(|x - z|^2). (1) holds for every f of that norm. Of this f also its value and its
gradient g at x are known; k(x, .) and the derivatives of k at x are orthogonal there, which leaves

    f(x + d) >= F(r^2)/F(0) f(x) + F'(r^2)/F'(0) g'd - ||f'|| sqrt(F(0) - F(r^2)^2/F(0) + 2 r^2 F'(r^2)^2/F'(0))     (2)

with r = |d| and ||f'||^2 = ||f||^2 - f(x)^2/F(0) + |g|^2/(2 F'(0)). Each row gets the better of (1) and (2); of a
kernel that is only conditionally definite (2) is without f(x). For l_inf, g'd is bounded by the l1 norm of g, and r by
sqrt(n_features) times the radius. (1) is the kernel form of Xu, Caramanis & Mannor (JMLR 2009); (2) is the sharpest
bound that uses these numbers alone.

Linear parts have their exact radii |f| / ||w||, and a sum of kernels loses no more than its terms do. Sums of random
features, which lie in no such space, get theirs from their gradient and the largest derivatives they have anywhere.

What rounding can change in the scores that the model itself computes, in the precision of the rows it is given, counts
as a part of the fall (:class:`ModelRounding`). A squared distance that is off by s moves a convex profile that falls by
F(0) - F(s) at most, and F(0) - F(s + t) <= F(0) - F(s) + F(0) - F(t).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from buttress._checks import Array
from buttress._proof import sum_error
from buttress.expansion import KernelExpansion
from buttress.features import RandomExpansion
from buttress.features.fourier import Scores
from buttress.kernels import (
    RBF,
    Cauchy,
    Combination,
    InverseMultiquadric,
    Kernel,
    Linear,
    Log,
    MultiscaleRBF,
    Radial,
    squared_distances,
)

# the distance s at which a kernel falls fastest: the only peak of s |F'(s^2)|
STEEPEST: dict[type, Callable[[Any], float]] = {
    RBF: lambda kernel: (2 * kernel.gamma) ** -0.5,
    Cauchy: lambda kernel: (3 * kernel.gamma) ** -0.5,
    InverseMultiquadric: lambda kernel: kernel.offset / 2**0.5,
    Log: lambda kernel: kernel.gamma**-0.5,  # of degree 2: another has a cusp at 0
}

# (radius (n,), norm) -> by how much the leads (n,) can fall within it
Fall = Callable[[Array, str], Array]


class NoCertificateError(ValueError):
    """A model of which nothing is known that a proof could rest on."""


@dataclass(frozen=True)
class ModelRounding:
    """How exactly a model computes: the unit of its floating point numbers, and what its scalers subtract.

    Parameters
    ----------
    unit : float
        That of the rows it is given: of float32 rows scores are computed in float32.
    origin : array of shape (d,)
        Sizes of all that the scalers subtract, behind them.
    """

    unit: float
    origin: Array

    def share(self, count: int) -> float:
        """Return by which share of its terms' sizes a sum of ``count`` of them may be off."""
        return sum_error(count, self.unit)

    def squares(self, lengths: Array, width: int) -> Array:
        """Return by how much a squared distance may be off that is computed from these squared lengths."""
        return 4 * self.share(width) * (lengths + self.origin @ self.origin)


def certified_terms(expansion: Scores, sizes: Array) -> "list[LinearTerm | RadialTerm | WaveTerm] | None":
    """Split an expansion into terms of one kernel; None where a kernel has no norm to bound it by.

    ``sizes`` are those of its coefficients, as the model sums them.
    """
    if isinstance(expansion, RandomExpansion):
        return [WaveTerm(expansion)]
    if not isinstance(expansion, KernelExpansion):
        raise NoCertificateError(f"No certified radius is known for scores that are a {type(expansion).__name__}.")
    terms: list[LinearTerm | RadialTerm | WaveTerm] = []
    for kernel, weight in summands(expansion.kernel):
        part = KernelExpansion(kernel, expansion.centers, weight * expansion.coef, np.zeros(expansion.coef.shape[1]))
        if isinstance(kernel, Linear):
            terms.append(LinearTerm(part, weight * sizes))
        elif isinstance(kernel, Radial) and kernel.definiteness in ("pd", "cpd"):
            terms.append(RadialTerm(part, weight * sizes))
        else:
            return None
    if expansion.linear is not None:
        k = expansion.coef.shape[1]
        terms.append(LinearTerm(KernelExpansion(Linear(), expansion.linear.T, np.eye(k), np.zeros(k)), np.eye(k)))
    return terms


def summands(kernel: Kernel) -> list[tuple[Kernel, float]]:
    """Return a kernel as a weighted sum of others, itself if it is none."""
    if not isinstance(kernel, Combination):
        return [(kernel, 1.0)]
    weights = [1 / len(kernel.kernels)] * len(kernel.kernels) if kernel.weights is None else kernel.weights
    nested = [(summands(part), float(w)) for part, w in zip(kernel.kernels, weights, strict=True)]
    return [(part, inner * outer) for parts, outer in nested for part, inner in parts if inner * outer > 0]


class LinearTerm:
    """w'x: falls by exactly ||w|| times the radius, in the dual norm, but for rounding."""

    def __init__(self, part: KernelExpansion, sizes: Array):
        self.weights = part.centers.T @ part.coef  # (d, k)
        self.sizes = np.abs(part.centers).T @ sizes
        self.count = len(part.coef)

    def size(self, Z: Array, V: Array, origin: Array) -> Array:
        """Return the sum of the sizes of the terms, and of what the scalers subtract from them."""
        sizes: Array = np.einsum("il,il->i", np.abs(V) @ self.sizes.T, np.abs(Z) + 2 * origin)
        return sizes

    def fall(self, Z: Array, V: Array, scale: Array, rounding: ModelRounding) -> Fall:
        share = rounding.share(Z.shape[1] + self.count)  # for the weights, and for what is computed at moved rows
        W = (np.abs(V @ self.weights.T) + 2 * share * np.abs(V) @ self.sizes.T) * scale
        dual = {"l2": np.linalg.norm(W, axis=1), "linf": W.sum(axis=1), "l1": W.max(axis=1)}
        return lambda radius, norm: dual[norm] * radius


class WaveTerm:
    """sum_j c_j cos(w_j'x + b_j), random features: by its gradient and the largest one or second derivative anywhere.

    With W the frequencies, |gradient| <= |W| ||c|| and |Hessian| <= |W diag(|c|) W'|, in spectral norms.
    """

    def __init__(self, expansion: RandomExpansion):
        self.expansion = expansion
        self.unit = expansion.features.amplitude / np.sqrt(expansion.features.size)
        blocks = range(len(expansion.coef))
        self.longest = max(float(np.linalg.norm(expansion.features.waves(b)[0], axis=0).max()) for b in blocks)
        self.stretching = np.sqrt(_top_eigenvalue(self._spread(np.ones(len(expansion.coef)))))

    def _spread(self, weights: Array) -> Array:
        """Return W diag(weights) W' over all blocks of features, (d, d); weights is (blocks, m) or (blocks,)."""
        waves = (self.expansion.features.waves(block)[0] for block in range(len(weights)))
        total: Array = sum((W * w) @ W.T for W, w in zip(waves, weights, strict=True))
        return total

    def size(self, Z: Array, V: Array, origin: Array) -> Array:
        """Return the sum of the sizes of the terms, and of how far rounding may turn their angles."""
        total: Array = self.unit * np.abs(V) @ np.abs(self.expansion.coef).sum(axis=(0, 1))
        return total * (1 + self.longest * (np.linalg.norm(Z, axis=1) + np.linalg.norm(origin)))

    def fall(self, Z: Array, V: Array, scale: Array, rounding: ModelRounding) -> Fall:
        kinds, which = np.unique(V, axis=0, return_inverse=True)
        coefs = [self.expansion.coef @ v for v in kinds]
        steepest = self.unit * self.stretching * np.array([np.linalg.norm(c) for c in coefs])[which.ravel()]
        bent = self.unit * np.array([_top_eigenvalue(self._spread(np.abs(c))) for c in coefs])[which.ravel()]
        outer, stretch = self.expansion.gradient(Z, V) * scale, _stretch(scale)
        dual = {"l2": np.linalg.norm(outer, axis=1), "linf": np.abs(outer).sum(axis=1)}

        def fall(radius: Array, norm: str) -> Array:
            r = stretch[norm] * radius
            return np.minimum(steepest * r, dual[norm] * radius + bent * r**2 / 2)

        return fall


def _top_eigenvalue(matrix: Array) -> float:
    return float(np.linalg.eigvalsh(matrix)[-1]) * (1 + 1e-9)  # so that the bound stays one


@dataclass(frozen=True)
class KnownLeads:
    """Values of leads, the lengths of their gradients, by how much both may be off, and squared norms, all (n,)."""

    value: Array
    value_off: Array
    steep: Array
    steep_off: Array
    square: Array


def norm_doubt(kernel: Radial, centers: Array) -> float:
    """Return what rounding may hide of a squared norm c'Kc, for coefficients c whose sizes sum to 1."""
    lengths = ((centers - np.median(centers, axis=0)) ** 2).sum(axis=1).max(initial=0.0)
    off = 4 * sum_error(centers.shape[1]) * 3 * lengths  # of a squared distance, as of two of these lengths
    top, near, farthest = (float(kernel.profile(np.array(square))) for square in (0.0, off, 4 * lengths))
    return top - near + 2 * sum_error(len(centers)) * max(top, abs(farthest), 1.0)


class RadialTerm:
    """sum_j c_j F(|x - z_j|^2): falls by the least of the bounds (1) and (2) of the module."""

    def __init__(self, part: KernelExpansion, sizes: Array):
        self.part, self.sizes, kernel = part, sizes, part.kernel
        self.profile: Callable[[Array], Array] = kernel.profile
        self.slope: Callable[[Array], Array] = kernel.slope
        self.top, self.bend = float(self.profile(np.array(0.0))), -float(self.slope(np.array(0.0)))
        self.definite = kernel.definiteness == "pd"
        self.smooth = 0 < self.bend < np.inf
        single = [RBF(gamma) for gamma in kernel.gammas] if isinstance(kernel, MultiscaleRBF) else [kernel]
        self.peaks = [(each, STEEPEST[type(each)](each)) for each in single if type(each) in STEEPEST]
        self.gram = part.coef.T @ part(part.centers)  # (k, k): <f_a, f_b>
        self.norm_doubt = norm_doubt(kernel, part.centers)

    def size(self, Z: Array, V: Array, origin: Array) -> Array:
        """Return the sum of the sizes of the terms: up to the kernel's largest value, or twice the one at Z."""
        weight = np.abs(V) @ self.sizes.T
        if self.definite:
            return np.asarray(weight.sum(axis=1) * max(self.top, 1.0))
        values = 2 * np.abs(self.profile(squared_distances(Z, self.part.centers)))
        return np.asarray((weight * np.maximum(values, 1.0)).sum(axis=1))

    def fall(self, Z: Array, V: Array, scale: Array, rounding: ModelRounding) -> Fall:
        """Return the bound on the fall of the V-contrasted scores at the inner rows Z, with what rounding adds."""
        exact, doubt, stretch = self._exact_fall(Z, V, scale, rounding), self._doubt(Z, V, rounding), _stretch(scale)
        return lambda radius, norm: exact(radius, norm) + doubt(stretch[norm] * radius)

    def _off(self, Z: Array, rounding: ModelRounding) -> Array:
        """Return by how much squared distances (n, m) may be off.

        Lengths are those from the median, which predictions centre by, or lie within what the model's origin says.
        """
        middle = np.median(self.part.centers, axis=0)
        own, others = (((rows - middle) ** 2).sum(axis=1) for rows in (Z, self.part.centers))
        return rounding.squares(2 * own[:, None] + others, Z.shape[1])

    def _doubt(self, Z: Array, V: Array, rounding: ModelRounding) -> Callable[[Array], Array]:
        """Return what rounding of the squared distances may change in the leads (n,), within lengths r (n,)."""
        weight = np.abs(V) @ self.sizes.T
        still = (weight * (self.top - self.profile(self._off(Z, rounding)))).sum(axis=1)
        total = weight.sum(axis=1)

        def doubt(r: Array) -> Array:
            moved: Array = still + total * (self.top - self.profile(rounding.squares(2 * r**2, Z.shape[1])))
            return moved

        return doubt

    def _exact_fall(self, Z: Array, V: Array, scale: Array, rounding: ModelRounding) -> Fall:
        sizes = np.abs(V) @ np.abs(self.part.coef).sum(axis=0)
        lost = self.norm_doubt * (1 if self.definite else 4)
        square = np.maximum(np.einsum("ik,kl,il->i", V, self.gram, V), 0) + sizes**2 * lost
        if not self.definite:  # only coefficients that sum to zero have a norm
            square = np.where(np.abs(V @ self.part.coef.sum(axis=0)) <= self.norm_doubt * sizes, square, np.inf)
        stretch = _stretch(scale)
        if not self.smooth:
            return self._cusp_fall(Z, V, scale, square)
        f, g = np.einsum("ik,ik->i", V, self.part(Z)), self.part.gradient(Z, V)
        outer = g * scale
        value_off, slope_off = self._inexact(Z, V, rounding)
        dual = {"l2": np.linalg.norm(outer, axis=1) + slope_off * stretch["l2"],
                "linf": np.abs(outer).sum(axis=1) + slope_off * stretch["linf"]}
        known = KnownLeads(f, value_off, np.linalg.norm(g, axis=1), slope_off, square)
        return lambda radius, norm: self._fall(radius, stretch[norm] * radius, known, dual[norm])

    def _inexact(self, Z: Array, V: Array, rounding: ModelRounding) -> tuple[Array, Array]:
        """Return by how much the values and the lengths of the gradients at Z may be off, both (n,)."""
        weight, off, count = np.abs(V) @ self.sizes.T, self._off(Z, rounding), len(self.part.coef)
        share = rounding.share(Z.shape[1] + count)
        value = (weight * (self.top - self.profile(off) + share * max(self.top, 1.0))).sum(axis=1)
        bent = self.bend * (1 + share) - np.abs(self.slope(off))
        far = np.sqrt(squared_distances(Z, self.part.centers) + off)
        return value, 2 * (weight * far * bent).sum(axis=1)

    def _fall(self, radius: Array, r: Array, known: "KnownLeads", dual: Array) -> Array:
        """The least of the bounds for perturbations of at most ``radius``, at most r in the l2 norm inside."""
        top, square = self.top, known.square
        F, S = self.profile(r**2), self.slope(r**2)
        rest = sum_error(0) * (abs(self.top) + np.abs(F))  # of the differences under roots
        apart = 2 * (top - F)  # |k(x + d, .) - k(x, .)|^2
        along = 2 * (r * S / np.sqrt(self.bend)) ** 2  # its part along g
        turn = (np.maximum(known.steep - known.steep_off, 0) / np.sqrt(2 * self.bend)) ** 2
        slide = np.minimum(dual * radius, (known.steep + known.steep_off) * self._slide(r))
        sink, turned, left = np.zeros_like(r), apart, square - turn
        if self.definite:
            sink = np.maximum((known.value + known.value_off) * (1 - F / top), 0)
            turned = top - F**2 / top
            left = left - np.maximum(np.abs(known.value) - known.value_off, 0) ** 2 / top
        known_fall = sink + slide + np.sqrt(np.maximum(left, 0) * (np.maximum(turned - along, 0) + rest))
        return np.fmin(np.sqrt(square * (apart + rest)), known_fall)  # of an infinite radius one may be NaN

    def _slide(self, r: Array) -> Array:
        """Return s |F'(s^2) / F'(0)| at its largest over s <= r, or more.

        F' falls in size, so that is at most r. Of a kernel with one peak it is the value there, or at r before it; of a
        mean of kernels, which may have several, at most the mean of theirs.
        """
        if not self.peaks:
            return r
        steep = sum(s * np.abs(kernel.slope(s**2)) for kernel, peak in self.peaks for s in [np.minimum(r, peak)])
        return np.asarray(steep / (len(self.peaks) * self.bend) * (1 + sum_error(len(self.peaks))))

    def _cusp_fall(self, Z: Array, V: Array, scale: Array, square: Array) -> Fall:
        """Of a kernel without a second derivative at 0: (1), and how far each centre may come nearer or go away."""
        distance = np.sqrt(squared_distances(Z, self.part.centers))
        values = self.profile(distance**2)
        weight = V @ self.part.coef.T
        stretch = _stretch(scale)

        def fall(radius: Array, norm: str) -> Array:
            r = stretch[norm] * radius
            nearer = self.profile(np.maximum(distance - r[:, None], 0) ** 2) - values
            further = values - self.profile((distance + r[:, None]) ** 2)
            each = np.where(weight > 0, weight * further, -weight * nearer).sum(axis=1)
            F = self.profile(r**2)
            return np.minimum(each, np.sqrt(square * (2 * (self.top - F) + sum_error(0) * (abs(self.top) + np.abs(F)))))

        return fall


def _stretch(scale: Array) -> dict[str, Array]:
    """How long, in l2 and inside the scalers, a perturbation of radius 1 outside can be, of all rows or one a row."""
    return {"l2": np.abs(scale).max(axis=-1), "linf": np.linalg.norm(scale, axis=-1)}
