"""A fit among rows of which an unknown share is corrupt: each residual is an inlier's or an outlier's.

    r_i ~ (1 - pi) t_nu(0, s c_i) + pi G(m, o),        c_i^2 = a_i^2 + b q_i

r_i is the residual of row i under the fit without it and a_i its spread (``leave_one_out``); q_i is the part of
k(x_i, x_i) that landmark features miss (0 where they are exact): such a row is off because the features cannot follow
it, and not because it is corrupt. To a Gaussian process the missing part adds variance in proportion to q_i. G is nine
tenths normal, one tenth Cauchy, so that nothing lies too far out to be an outlier. In turn: g_i = P(inlier | r_i);
kernel ridge regression with weights g_i; the law s, b, pi, m, o of its residuals, by expectation and maximisation.
"""

from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from scipy.special import gammaln

from buttress._checks import Array
from buttress._rows import drawn_rows
from buttress.solvers.contamination.trimmed import lts_scale
from buttress.solvers.run import Budget, Step, Steps

MOST = 0.5  # a majority must be good for "good" to mean anything
ENOUGH = 4000  # rows to learn a law of five numbers from
DEGREES = (2.0, 4.0, 8.0, 30.0)


@dataclass(frozen=True)
class Law:
    """The two densities: inlier scale s and degrees nu; outlier share pi, location m and width o; b, the ``stray``."""

    scale: float
    nu: float
    share: float
    location: float
    width: float
    stray: float = 0.0

    def spread(self, spread: Array, missed: Array | None) -> Array:
        """Return c, shape (n,), from a and q."""
        return spread if missed is None or self.stray == 0 else np.sqrt(spread**2 + self.stray * missed)

    def log_parts(self, r: Array, c: Array) -> tuple[Array, Array]:
        """Return the log densities of r as an inlier's and as an outlier's, each with its share."""
        inlier = _log_student(r, self.scale * c, self.nu) + np.log1p(-self.share)
        z = (r - self.location) / self.width
        normal = np.log(0.9) - 0.5 * np.log(2 * np.pi) - 0.5 * z * z
        cauchy = np.log(0.1) - np.log(np.pi) - np.log1p(z * z)
        with np.errstate(divide="ignore"):
            return inlier, np.log(self.share) + np.logaddexp(normal, cauchy) - np.log(self.width)

    def inlier_probability(self, r: Array, c: Array) -> tuple[Array, float]:
        """Return P(inlier) of each residual, and the log likelihood of all."""
        inlier, outlier = self.log_parts(r, c)
        total = np.logaddexp(inlier, outlier)
        return np.exp(inlier - total), float(total.sum())

    def weights(self, r: Array, c: Array, inlier: Array) -> Array:
        """Return the weights of a least squares fit: P(inlier), times Student's weight where t has no variance.

        Elsewhere a good row far off counts in full: what is left of real rows is misfit, with a tail on one side, and
        weights that fall off with the residual would move the mean.
        """
        if self.nu > 2:
            return inlier
        return inlier * np.minimum((self.nu + 1) / (self.nu + (r / (self.scale * c)) ** 2), 1)

    def refitted(
        self, r: Array, spread: Array, inlier: Array, *, share: float | None, floor: float,
        missed: Array | None = None
    ) -> "Law":
        """Return the law of greatest likelihood given the probabilities; ``share`` fixes pi."""
        c = self.spread(spread, missed)
        square = (self.nu + 1) / (self.nu + (r / (self.scale * c)) ** 2) * r**2
        variance, beyond = _variance(square, spread, missed, inlier, c)
        scale = max(float(np.sqrt(variance)), floor)
        if share == 0:
            return replace(self, scale=scale, stray=beyond / scale**2)
        bad = 1 - inlier
        location = weighted_median(r, bad)
        middle = 1.4826 * weighted_median(np.abs(r - location), bad)
        clipped = np.minimum(np.abs(r - location), 10 * middle)  # a few at 1e9 must not set the width of the rest
        width = max(float(np.sqrt((bad * clipped**2).sum() / max(bad.sum(), 1e-12))), 2 * scale)
        pi = float(np.clip(bad.mean(), 0.5 / len(r), MOST)) if share is None else share
        return Law(scale, self.nu, pi, location, width, beyond / scale**2)


def _variance(square: Array, spread: Array, missed: Array | None, inlier: Array, c: Array) -> tuple[float, float]:
    """Return s^2 and s^2 b, both >= 0, by regressing the squares of inliers on a^2 and q with weights 1 / c^4.

    That is a step of Fisher's scoring for the likelihood of the two.
    """
    weight = inlier / c**4
    level = spread**2
    one = float(weight @ (level * square)) / max(float(weight @ level**2), 1e-300)
    if missed is None or not missed.any():
        return one, 0.0
    both, other = float(weight @ (level * missed)), float(weight @ missed**2)
    aim = np.array([weight @ (level * square), weight @ (missed * square)])
    A = np.array([[float(weight @ level**2), both], [both, other]])
    if np.linalg.det(A) <= 1e-9 * A[0, 0] * A[1, 1]:
        return one, 0.0
    near, far = np.linalg.solve(A, aim)
    if far <= 0:
        return one, 0.0
    return max(float(near), 1e-3 * one), float(far)


def first_law(r: Array, spread: Array, *, nu: float, share: float | None, floor: float) -> Law:
    """Return the law to start from: the scale of the better half, a wide outlier density around 0."""
    scale = max(0.8 * lts_scale(r / spread, len(r) // 2 + 1), floor)
    width = max(float(np.quantile(np.abs(r), 0.9)), 4 * scale)
    return Law(scale, nu, 0.3 if share is None else share, 0.0, width)


@dataclass(frozen=True)
class Explained:
    """Residuals explained: the likeliest law and its log likelihood per row; P(inlier) of each, over all laws."""

    law: Law
    inlier: Array
    likelihood: float


def explain(
    r: Array, spread: Array, missed: Array | None = None, *, floor: float, share: float | None = None
) -> Explained:
    """Return the law of greatest likelihood for given residuals: Student's t alone, or with an outlier density.

    The three parameters of the outliers must pay for themselves (Schwarz's criterion: log(n)/2 each). Above 4,000 rows
    the law is found on some, drawn at random. Heavier tails may explain a single row far off about as well as an
    outlier density, so P(inlier) is the mean over all laws tried, weighted by what Schwarz's criterion says of them.
    """
    part = drawn_rows(len(r), ENOUGH)
    some, a, q = r[part], spread[part], None if missed is None else missed[part]
    n, found = len(some), []
    for nu in DEGREES:
        first = first_law(some, a, nu=nu, share=share, floor=floor)
        alone, mixed = replace(first, share=0.0), first
        for _ in range(50):
            alone = alone.refitted(some, a, np.ones(n), share=0.0, floor=floor, missed=q)
            mixed = learned(mixed, some, a, q, share=share, floor=floor, rounds=1)
        if share is None:
            found.append((_log_student(some, alone.scale * alone.spread(a, q), nu).sum(), alone))
        likelihood = mixed.inlier_probability(some, mixed.spread(a, q))[1]
        found.append((likelihood - (1.5 * np.log(n) if share is None else 0.0), mixed))
    likelihood, law = max(found, key=lambda pair: pair[0])
    likely = [(np.exp(other - likelihood), tried) for other, tried in found if other > likelihood - 10]
    inlier = sum(weight * tried.inlier_probability(r, tried.spread(spread, missed))[0] for weight, tried in likely)
    return Explained(law, np.minimum(inlier / sum(weight for weight, _ in likely), 1), float(likelihood) / n)


def learned(
    law: Law, r: Array, spread: Array, missed: Array | None, *, share: float | None, floor: float, rounds: int
) -> Law:
    """Return the law after rounds of expectation and maximisation on given residuals."""
    for _ in range(rounds):
        inlier, _ = law.inlier_probability(r, law.spread(spread, missed))
        law = law.refitted(r, spread, inlier, share=share, floor=floor, missed=missed)
    return law


def reweighed_steps(
    ridge: Any, y: Array, fit: Any, known: Explained, *, alpha: float, share: float | None, floor: float
) -> Steps:
    """Yield (fit, :class:`Explained`) of least squares with the weights of the law, learned again after each fit.

    Starts at ``fit`` and its law ``known``. Rows that have no weight there get none: a bad row far out in X would be
    forgiven a large residual, and once it has a weight it pulls the fit to itself. The change is the gain of
    likelihood per row. Ends before a fit, other than the first, that loses likelihood.
    """
    kept = fit.weight > 0
    yield Step((fit, known), objective=-known.likelihood)
    for k in count():
        last, c = known.likelihood, known.law.spread(fit.spread, ridge.missed)
        fit = ridge.solve(y, kept * known.law.weights(fit.loo, c, known.inlier), alpha)
        known = explain(fit.loo, fit.spread, ridge.missed, floor=floor, share=share)
        if k and known.likelihood < last:
            return
        yield Step((fit, known), change=known.likelihood - last, objective=-known.likelihood)


@dataclass(frozen=True)
class Mixed:
    """One state of the mixture fit: fit, law, P(inlier), log likelihood per row and number of fits so far."""

    fit: Any
    law: Law
    inlier: Array
    likelihood: float
    n_iter: int


def mixture_steps(
    ridge: Any, y: Array, r: Array, spread: Array, *, alpha: float, nu: float, share: float | None, floor: float,
    rounds: int
) -> Steps:
    """Yield :class:`Mixed` states from residuals r (n,); the change is that of the log likelihood per row.

    Between two fits the law is learned in ``rounds``. Above 4,000 rows it is learned from some, drawn at random.
    """
    known: dict[str, Any] = {"share": share, "floor": floor, "rounds": rounds}
    part, missed = drawn_rows(len(r), ENOUGH), ridge.missed
    some = None if missed is None else missed[part]
    law = first_law(r[part], spread[part], nu=nu, share=share, floor=floor)
    law = learned(law, r[part], spread[part], some, **known)
    last, n_iter = np.inf, 0
    while True:
        n_iter += 1
        inlier, _ = law.inlier_probability(r, law.spread(spread, missed))
        fit = ridge.solve(y, inlier, alpha)
        r, spread = fit.loo, fit.spread
        law = learned(law, r[part], spread[part], some, **known)
        inlier, total = law.inlier_probability(r, law.spread(spread, missed))
        mean = total / len(r)
        yield Step(Mixed(fit, law, inlier, mean, n_iter), change=abs(mean - last), objective=-mean)
        last = mean


def mixture(
    ridge: Any, y: Array, r: Array, spread: Array, *, max_iter: int, tol: float = 1e-4,
    budget: Budget, **law: Any
) -> Mixed:
    """Run :func:`mixture_steps` to ``tol``, ``max_iter`` or the end of the budget; none is cause for alarm."""
    steps = mixture_steps(ridge, y, r, spread, **law)
    found: Mixed = budget.run(steps, tol=tol, max_iter=max_iter).state
    return found


def contaminated(plain: Explained, robust: Explained, needed: float = 0.1) -> bool:
    """Say whether leave-one-out likelihood calls for the robust fit: the guard of clean data.

    Both fits are judged by how well each foretells rows it has not seen. The robust one must gain ``needed`` nats a
    row and six in all: on clean data with heavy tails it gains .06 to .09 a row, with a fifth corrupt .2 and more.
    """
    return robust.likelihood - plain.likelihood > max(needed, 6 / len(robust.inlier))


def weighted_median(x: Array, weight: Array) -> float:
    """Return the least entry of x that half the weight lies at or below."""
    order = np.argsort(x)
    reach = np.cumsum(weight[order])
    return float(x[order[min(int(np.searchsorted(reach, reach[-1] / 2)), len(x) - 1)]])


def _log_student(r: Array, s: Array, nu: float) -> Array:
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
    return constant - np.log(s) - (nu + 1) / 2 * np.log1p((r / s) ** 2 / nu)
