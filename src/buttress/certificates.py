"""Certificates: for each row a radius inside which no perturbation, found or not, changes the prediction.

A kernel machine's lead of the predicted class over a rival is f(x) + b with f in the kernel's Hilbert space, so

    |f(x + d) - f(x)| = |<f, k(x + d, .) - k(x, .)>| <= ||f|| sqrt(2 F(0) - 2 F(|d|^2))                              (1)

for a stationary kernel k(x, z) = F(|x - z|^2). (1) holds for every f of that norm. Of this f also its value and its
gradient g at x are known; k(x, .) and the derivatives of k at x are orthogonal there, which leaves

    f(x + d) >= F(r^2)/F(0) f(x) + F'(r^2)/F'(0) g'd - ||f'|| sqrt(F(0) - F(r^2)^2/F(0) + 2 r^2 F'(r^2)^2/F'(0))     (2)

with r = |d| and ||f'||^2 = ||f||^2 - f(x)^2/F(0) + |g|^2/(2 F'(0)). Each row gets the best of (1), of (2), and of (2)
without f(x) or without g. For l_inf, g'd is bounded by the l1 norm of g, and r by sqrt(n_features) times the radius.
(1) is the kernel form of Xu, Caramanis & Mannor (JMLR 2009); (2) is the sharpest bound that uses these numbers alone.

Linear parts have their exact radii |f| / ||w||, and a sum of kernels loses no more than its terms do. Sums of random
features, which lie in no such space, get theirs from their gradient and the largest derivatives they have anywhere.

Examples
--------
>>> import numpy as np
>>> from buttress import SVC, certificates
>>> X, y = np.array([[-1.0, 0.0], [1.0, 0.0]]), np.array([0, 1])
>>> radius = certificates.certified_radius(SVC(kernel="linear").fit(X, y), X)
>>> radius.l2.round(6), radius.linf.round(6)
(array([1., 1.]), array([1., 1.]))
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.utils.validation import check_is_fitted

from buttress._checks import Array, check_rows
from buttress._types import MatrixLike
from buttress.expansion import KernelExpansion, Scores, winners
from buttress.features import RandomExpansion
from buttress.kernels import Combination, Kernel, Linear, Radial, squared_distances
from buttress.scores import Scorable, ScoreFunction, SignOf, as_classifier, read_scores

ROUNDING = 1e-13  # share of the sum of all terms that a computed score may be off by
CERTIFIED_ROWS = 1000  # rows at a time
OUTWARD = 1e-9  # share by which an eigenvalue or a peak is rounded up, so that the bound stays one
NORM_ROUNDING = 1e-12  # share by which a squared norm may be off
UNDER_ROOT = 1e-15  # what rounding may hide under a root, in units of the kernel's largest value
LEAST_TOP = 1e-3  # that value, at least
SUMS_TO_0 = 1e-9  # share of the terms that the coefficients of a conditionally definite kernel may sum to
STEEPEST_WITHIN = (-5, 5)  # powers of e of a kernel's own length between which it falls fastest
STEEPEST_TOL = 1e-7
DOUBLINGS = 60  # of a radius: past 1e18 the scores have no other value to fall to
HALVINGS = 60  # between a radius that holds and one that does not
FIRST_STEP_DOWN = 1e-3  # share of the upper radius tried while no radius is known to hold

# (radius (n,), norm) -> by how much the leads (n,) can fall within it
Fall = Callable[[Array, str], Array]


@dataclass
class CertifiedRadius:
    """Radii inside which the prediction cannot change, 0 where nothing is certified, inf where it is constant.

    Parameters
    ----------
    l2, linf : array of shape (n,)
        In the units of X.
    """

    l2: Array
    linf: Array


def certified_radius(model: Scorable, X: MatrixLike) -> CertifiedRadius:
    """Return for each row of X a radius inside which no input gets another prediction.

    Parameters
    ----------
    model : fitted classifier
        A kernel expansion with stationary, linear or summed kernels: of this package, scikit-learn's SVC, linear
        classifiers and KernelRidge on -1 and +1, also behind Nystroem features, scalers and in pipelines.
    X : array of shape (n, d)

    Returns
    -------
    CertifiedRadius
        With arrays ``l2`` and ``linf`` of shape (n,). Both are proofs, up to rounding that is allowed for: no attack
        succeeds inside them. They say nothing about whether the prediction is right.

    Raises
    ------
    ValueError
        For a model or kernel without such a bound, X of the wrong width, NaN or inf.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import SVC, certificates
    >>> X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> model = SVC(kernel="linear").fit(X, y)
    >>> certificates.certified_radius(model, X)
    CertifiedRadius(l2=array([1., 1.]), linf=array([1., 1.]))
    """
    model = as_classifier(model)
    if not isinstance(model, SignOf):
        check_is_fitted(model)
    score = read_scores(model)
    if score is None:
        raise ValueError(f"No certificate is known for {type(model).__name__}. It must be a kernel expansion: an "
                         "estimator of this package, SVC, a linear classifier, or one behind scalers or Nystroem.")
    X = check_rows(X, getattr(model, "n_features_in_", None), "A certificate").astype(np.float64, copy=False)
    lead = _Lead(score, X.shape[1])
    parts = [lead.radii(X[start : start + CERTIFIED_ROWS]) for start in range(0, len(X), CERTIFIED_ROWS)]
    l2, linf = np.concatenate([np.empty((2, 0)), *parts], axis=1)
    return CertifiedRadius(l2, linf)


class _Lead:
    """The lead of every class over every rival, as a sum of terms with one kernel each."""

    def __init__(self, score: ScoreFunction, width: int):
        self.score = score
        self.scale = np.broadcast_to(np.asarray(score.scale, dtype=np.float64), width)
        self.terms = certified_terms(score.expansion)

    def radii(self, X: Array) -> Array:
        """Return the radii of the rows of X in both norms, shape (2, n)."""
        contrasts = self.score.contrasts
        Z = self.score.inner(X)
        scores = self.score.expansion(Z)
        codes = winners(scores, contrasts)
        radii = np.full((2, len(X)), np.inf)
        for rival in range(contrasts.shape[1]):
            V = contrasts[codes, rival]
            size = sum((term.size(V) for term in self.terms), np.abs(V) @ np.abs(self.score.expansion.intercept))
            lead = np.einsum("ik,ik->i", V, scores) - ROUNDING * size
            falls = [term.fall(Z, V, self.scale) for term in self.terms]
            for row, norm in enumerate(("l2", "linf")):
                radii[row] = np.minimum(radii[row], _largest_radius(lead, falls, norm))
        return radii


def certified_terms(expansion: Scores) -> "list[_LinearTerm | _RadialTerm | _WaveTerm]":
    """Split an expansion into terms of one kernel; ValueError for a kernel that has no certificate."""
    if isinstance(expansion, RandomExpansion):
        return [_WaveTerm(expansion)]
    if not isinstance(expansion, KernelExpansion):
        raise ValueError(f"No certificate is known for scores that are a {type(expansion).__name__}.")
    terms: list[_LinearTerm | _RadialTerm | _WaveTerm] = []
    for kernel, weight in summands(expansion.kernel):
        part = KernelExpansion(kernel, expansion.centers, weight * expansion.coef, np.zeros(expansion.coef.shape[1]))
        if isinstance(kernel, Linear):
            terms.append(_LinearTerm(part))
        elif isinstance(kernel, Radial) and kernel.definiteness in ("pd", "cpd"):
            terms.append(_RadialTerm(part))
        else:
            raise ValueError(f"No certificate is known for {kernel!r}. Use a stationary kernel (RBF, Laplacian, "
                             "Cauchy, InverseMultiquadric, Log of degree <= 2), a linear one, or a sum of them.")
    return terms


def summands(kernel: Kernel) -> list[tuple[Kernel, float]]:
    """Return a kernel as a weighted sum of others, itself if it is none."""
    if not isinstance(kernel, Combination):
        return [(kernel, 1.0)]
    weights = [1 / len(kernel.kernels)] * len(kernel.kernels) if kernel.weights is None else kernel.weights
    nested = [(summands(part), float(w)) for part, w in zip(kernel.kernels, weights, strict=True)]
    return [(part, inner * outer) for parts, outer in nested for part, inner in parts if inner * outer > 0]


class _LinearTerm:
    """w'x: falls by exactly ||w|| times the radius, in the dual norm."""

    def __init__(self, part: KernelExpansion):
        self.weights = part.centers.T @ part.coef  # (d, k)

    def size(self, V: Array) -> Array:
        return np.zeros(len(V))

    def fall(self, Z: Array, V: Array, scale: Array) -> Fall:
        W = (V @ self.weights.T) * scale
        dual = {"l2": np.linalg.norm(W, axis=1), "linf": np.abs(W).sum(axis=1)}
        return lambda radius, norm: dual[norm] * radius


class _WaveTerm:
    """sum_j c_j cos(w_j'x + b_j), random features: by its gradient and the largest one or second derivative anywhere.

    With W the frequencies, |gradient| <= |W| ||c|| and |Hessian| <= |W diag(|c|) W'|, in spectral norms.
    """

    def __init__(self, expansion: RandomExpansion):
        self.expansion = expansion
        self.unit = expansion.features.amplitude / np.sqrt(expansion.features.size)
        self.stretching = np.sqrt(_top_eigenvalue(self._spread(np.ones(expansion.coef.shape[:2]))))

    def _spread(self, weights: Array) -> Array:
        """Return W diag(weights) W' over all blocks of features, (d, d); weights is (blocks, m)."""
        waves = (self.expansion.features.waves(block)[0] for block in range(len(weights)))
        total: Array = sum((W * w) @ W.T for W, w in zip(waves, weights, strict=True))
        return total

    def size(self, V: Array) -> Array:
        """Return the sum of the sizes of the terms."""
        total: Array = self.unit * np.abs(V) @ np.abs(self.expansion.coef).sum(axis=(0, 1))
        return total

    def fall(self, Z: Array, V: Array, scale: Array) -> Fall:
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
    return float(np.linalg.eigvalsh(matrix)[-1]) * (1 + OUTWARD)


class _RadialTerm:
    """sum_j c_j F(|x - z_j|^2): falls by the least of the bounds (1) and (2) of the module."""

    def __init__(self, part: KernelExpansion):
        self.part, kernel = part, part.kernel
        self.profile: Callable[[Array], Array] = kernel.profile
        self.slope: Callable[[Array], Array] = kernel.slope
        zero = np.zeros(1)
        self.top, self.bend = float(self.profile(zero)[0]), -float(self.slope(zero)[0])
        self.definite = kernel.definiteness == "pd"
        self.smooth = 0 < self.bend < np.inf
        self.steepest = self._steepest() if self.smooth else 0.0
        panel = KernelExpansion(kernel, part.centers, part.coef, np.zeros(part.coef.shape[1]))
        self.gram = part.coef.T @ panel(part.centers)  # (k, k): <f_a, f_b>

    def size(self, V: Array) -> Array:
        """Return the sum of the sizes of the terms, up to the kernel's largest value."""
        total: Array = np.abs(V) @ np.abs(self.part.coef).sum(axis=0)
        return total * max(self.top, 1.0)

    def fall(self, Z: Array, V: Array, scale: Array) -> Fall:
        """Return the bound on the fall of the V-contrasted scores at the inner rows Z."""
        square = np.maximum(np.einsum("ik,kl,il->i", V, self.gram, V), 0) * (1 + NORM_ROUNDING)
        if not self.definite:  # only coefficients that sum to zero have a norm
            sums = np.abs(V @ self.part.coef.sum(axis=0))
            square = np.where(sums <= SUMS_TO_0 * self.size(V), square, np.inf)
        if not self.smooth:
            return self._cusp_fall(Z, V, scale, square)
        stretch = _stretch(scale)
        f, g = np.einsum("ik,ik->i", V, self.part(Z)), self.part.gradient(Z, V)
        outer = g * scale
        dual = {"l2": np.linalg.norm(outer, axis=1), "linf": np.abs(outer).sum(axis=1)}
        slope_square = (g**2).sum(axis=1)
        return lambda radius, norm: self._fall(radius, stretch[norm] * radius, f, slope_square, dual[norm], square)

    def _fall(self, radius: Array, r: Array, f: Array, slopes: Array, dual: Array, square: Array) -> Array:
        """The least of the bounds for perturbations of at most ``radius``, at most r in the l2 norm inside."""
        top = self.top
        rest = UNDER_ROOT * max(abs(self.top), LEAST_TOP)
        F = self.profile(r**2)
        S = self.slope(r**2)
        apart = 2 * (top - F)  # |k(x + d, .) - k(x, .)|^2
        along = 2 * r**2 * S**2 / self.bend  # its part along g
        flat = np.maximum(square - slopes / (2 * self.bend), 0)
        slide = np.minimum(dual * radius, np.sqrt(slopes) * self._slide(r))
        bounds = [np.sqrt(square * (apart + rest)), slide + np.sqrt(flat * (np.maximum(apart - along, 0) + rest))]
        if self.definite:
            sink = np.maximum(f * (1 - F / top), 0)
            turned = np.maximum(top - F**2 / top, 0)
            left = np.maximum(square - f**2 / top, 0)
            bounds.append(sink + np.sqrt(left * (turned + rest)))
            left = np.maximum(left - slopes / (2 * self.bend), 0)
            bounds.append(sink + slide + np.sqrt(left * (np.maximum(turned - along, 0) + rest)))
        return np.min(bounds, axis=0)

    def _slide(self, r: Array) -> Array:
        """Return the largest s |F'(s^2) / F'(0)| over s <= r: it rises to one peak."""
        s = np.minimum(r, self.steepest)
        return s * np.abs(self.slope(s**2)) / self.bend * (1 + OUTWARD)

    def _steepest(self) -> float:
        """Return the distance at which the kernel falls fastest, the peak of s |F'(s^2)|."""
        unit = np.sqrt((abs(self.top) or 1.0) / self.bend)

        def rate(power: float) -> float:
            s = unit * np.exp(power)
            return -float(s * np.abs(self.slope(np.array([s**2])))[0])

        peak = minimize_scalar(rate, bounds=STEEPEST_WITHIN, method="bounded", options={"xatol": STEEPEST_TOL})
        return float(unit * np.exp(peak.x))

    def _cusp_fall(self, Z: Array, V: Array, scale: Array, square: Array) -> Fall:
        """Of a kernel without a second derivative at 0: (1), and how far each centre may come nearer or go away."""
        distance = np.sqrt(squared_distances(Z, self.part.centers))
        values = self.profile(distance**2)
        weight = V @ self.part.coef.T
        stretch = _stretch(scale)

        def fall(radius: Array, norm: str) -> Array:
            r = (stretch[norm] * radius)[:, None]
            nearer = self.profile(np.maximum(distance - r, 0) ** 2) - values
            further = values - self.profile((distance + r) ** 2)
            each = np.where(weight > 0, weight * further, -weight * nearer).sum(axis=1)
            return np.minimum(each, np.sqrt(square * (2 * (self.top - self.profile(r[:, 0] ** 2)) + UNDER_ROOT)))

        return fall


def _stretch(scale: Array) -> dict[str, float]:
    """How long, in l2 and inside the scalers, a perturbation of radius 1 outside can be."""
    return {"l2": float(np.abs(scale).max()), "linf": float(np.linalg.norm(scale))}


def _largest_radius(lead: Array, falls: list[Fall], norm: str) -> Array:
    """Return the largest radius at which the falls, which rise with it, stay below the lead; bisection from below."""

    def holds(radius: Array) -> NDArray[np.bool_]:
        with np.errstate(over="ignore", invalid="ignore"):
            return sum((fall(radius, norm) for fall in falls), np.zeros_like(radius)) < lead

    low, high = np.zeros_like(lead), np.ones_like(lead)
    for _ in range(DOUBLINGS):
        more = holds(high)
        low, high = np.where(more, high, low), np.where(more, 2 * high, high)
        if not more.any():
            break
    endless = holds(high)
    for _ in range(HALVINGS):
        middle = np.where(low > 0, np.sqrt(low) * np.sqrt(high), high * FIRST_STEP_DOWN)
        more = holds(middle)
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.where(endless, np.inf, low)
