"""A fit among rows of which an unknown share is corrupt: each residual is an inlier's or an outlier's.

    r_i ~ (1 - pi) t_nu(0, s c_i) + pi G(m, o)

r_i is the residual of row i under the fit without it and c_i its spread (``leave_one_out``); G is nine tenths
normal, one tenth Cauchy, so that nothing lies too far out to be an outlier. Expectation: g_i = P(inlier | r_i).
Maximisation: weighted kernel ridge regression with weights g_i (nu + 1) / (nu + (r_i / s c_i)^2), then s, pi, m, o.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from buttress._checks import Array
from buttress.solvers.run import Step, Steps, run
from buttress.solvers.trimmed import lts_scale

MOST = 0.5  # a majority must be good for "good" to mean anything
ENOUGH = 4000  # rows to learn a law of five numbers from
DEGREES = (2.0, 4.0, 8.0, 30.0)


@dataclass(frozen=True)
class Law:
    """The two densities: inlier scale s and degrees nu; outlier share pi, location and scale."""

    scale: float
    nu: float
    share: float
    location: float
    width: float

    def log_parts(self, r: Array, spread: Array) -> tuple[Array, Array]:
        """Return the log densities of r as an inlier's and as an outlier's, each with its share."""
        s = self.scale * spread
        inlier = _log_student(r, s, self.nu) + np.log1p(-self.share)
        z = (r - self.location) / self.width
        normal = np.log(0.9) - 0.5 * np.log(2 * np.pi) - 0.5 * z * z
        cauchy = np.log(0.1) - np.log(np.pi) - np.log1p(z * z)
        with np.errstate(divide="ignore"):
            return inlier, np.log(self.share) + np.logaddexp(normal, cauchy) - np.log(self.width)

    def inlier_probability(self, r: Array, spread: Array) -> tuple[Array, float]:
        """Return P(inlier) of each residual, and the log likelihood of all."""
        inlier, outlier = self.log_parts(r, spread)
        total = np.logaddexp(inlier, outlier)
        return np.exp(inlier - total), float(total.sum())

    def row_weights(self, r: Array, spread: Array, inlier: Array) -> Array:
        return inlier * (self.nu + 1) / (self.nu + (r / (self.scale * spread)) ** 2)

    def refitted(self, r: Array, spread: Array, inlier: Array, *, share: float | None, floor: float) -> "Law":
        """Return the law of greatest likelihood given the probabilities; ``share`` fixes pi."""
        u = self.row_weights(r, spread, inlier)
        scale = max(float(np.sqrt((u * (r / spread) ** 2).sum() / max(inlier.sum(), 1e-12))), floor)
        bad = 1 - inlier
        location = weighted_median(r, bad)
        middle = 1.4826 * weighted_median(np.abs(r - location), bad)
        clipped = np.minimum(np.abs(r - location), 10 * middle)  # a few at 1e9 must not set the width of the rest
        width = max(float(np.sqrt((bad * clipped**2).sum() / max(bad.sum(), 1e-12))), 2 * scale)
        pi = float(np.clip(bad.mean(), 0.5 / len(r), MOST)) if share is None else share
        return Law(scale, self.nu, pi, location, width)


def first_law(r: Array, spread: Array, *, nu: float, share: float | None, floor: float) -> Law:
    """Return the law to start from: the scale of the better half, a wide outlier density around 0."""
    scale = max(0.8 * lts_scale(r / spread, len(r) // 2 + 1), floor)
    width = max(float(np.quantile(np.abs(r), 0.9)), 4 * scale)
    return Law(scale, nu, 0.3 if share is None else share, 0.0, width)


@dataclass(frozen=True)
class Explained:
    """Residuals explained by a law: P(inlier) of each and the log likelihood per row."""

    law: Law
    inlier: Array
    likelihood: float


def explain(r: Array, spread: Array, *, floor: float, share: float | None = None) -> Explained:
    """Return the law of greatest likelihood for given residuals: Student's t alone, or with an outlier density.

    The three parameters of the outliers must pay for themselves (Schwarz's criterion: log(n)/2 each). Above 4,000 rows
    the law is found on every k-th.
    """
    every, n = (r, spread), len(r)
    if n > ENOUGH:
        step = -(-n // ENOUGH)
        r, spread = r[::step], spread[::step]
        n = len(r)
    found = []
    for nu in DEGREES:
        alone = replace(first_law(r, spread, nu=nu, share=0.0, floor=floor), location=0.0)
        mixed = first_law(r, spread, nu=nu, share=share, floor=floor)
        for _ in range(50):
            alone = alone.refitted(r, spread, np.ones(n), share=0.0, floor=floor)
            mixed = mixed.refitted(r, spread, mixed.inlier_probability(r, spread)[0], share=share, floor=floor)
        if share is None:
            found.append((_log_student(r, alone.scale * spread, nu).sum(), alone))
        likelihood = mixed.inlier_probability(r, spread)[1]
        found.append((likelihood - (1.5 * np.log(n) if share is None else 0.0), mixed))
    likelihood, law = max(found, key=lambda pair: pair[0])
    inlier = law.inlier_probability(*every)[0] if law.share > 0 else np.ones(len(every[0]))
    return Explained(law, inlier, float(likelihood) / n)


@dataclass(frozen=True)
class Mixed:
    """One state of the mixture fit: fit, law, P(inlier), log likelihood per row and number of fits so far."""

    fit: Any
    law: Law
    inlier: Array
    likelihood: float
    n_iter: int


def mixture_steps(
    ridge: Any, y: Array, r: Array, spread: Array, *, alpha: float, nu: float, share: float | None, floor: float
) -> Steps:
    """Yield :class:`Mixed` states from residuals r (n,); the gap is the change of the log likelihood per row."""
    law = first_law(r, spread, nu=nu, share=share, floor=floor)
    last, n_iter = np.inf, 0
    while True:
        n_iter += 1
        inlier, _ = law.inlier_probability(r, spread)
        fit = ridge.solve(y, law.row_weights(r, spread, inlier), alpha)
        r, spread = fit.loo, fit.spread
        law = law.refitted(r, spread, inlier, share=share, floor=floor)
        inlier, total = law.inlier_probability(r, spread)
        mean = total / len(r)
        yield Step(Mixed(fit, law, inlier, mean, n_iter), gap=abs(mean - last), objective=-mean)
        last = mean


def mixture(ridge: Any, y: Array, r: Array, spread: Array, *, max_iter: int, tol: float = 1e-4, **law: Any) -> Mixed:
    """Run :func:`mixture_steps` to ``tol`` or ``max_iter``; a run cut short is no cause for alarm."""
    found: Mixed = run(mixture_steps(ridge, y, r, spread, **law), tol=tol, max_iter=max_iter, warn=False).state
    return found


def contaminated(plain: Explained, robust: Explained) -> bool:
    """Say whether leave-one-out likelihood calls for the robust fit: the guard of clean data.

    Both fits are judged by how well each foretells rows it has not seen. The robust one must gain a tenth of a nat a
    row and six in all: on clean data with heavy tails it gains .06 to .09 a row, with a fifth corrupt .2 and more.
    """
    return robust.likelihood - plain.likelihood > max(0.1, 6 / len(robust.inlier))


def weighted_median(x: Array, weight: Array) -> float:
    """Return the least entry of x that half the weight lies at or below."""
    order = np.argsort(x)
    reach = np.cumsum(weight[order])
    return float(x[order[min(int(np.searchsorted(reach, reach[-1] / 2)), len(x) - 1)]])


def _log_student(r: Array, s: Array, nu: float) -> Array:
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
    return constant - np.log(s) - (nu + 1) / 2 * np.log1p((r / s) ** 2 / nu)
