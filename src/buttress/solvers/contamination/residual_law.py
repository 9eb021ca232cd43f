"""A fit to rows of which an unknown share is corrupt: each residual comes from an inlier or an outlier density.

    r_i ~ (1 - pi) t_nu(0, s c_i) + pi G(m, o),        c_i^2 = (a_i^2 + b q_i) exp(2 h z_i)

r_i is the residual of row i under the fit without it, and a_i its spread (``leave_one_out``). q_i is the part of
k(x_i, x_i) that landmark features miss (0 if they are exact). A row with a large q_i has a large residual because the
features cannot represent it, and not because it is corrupt: for a Gaussian process the missing part adds a variance
proportional to q_i. z_i is what is expected of the row, standardised (:func:`levels`): with h > 0 large targets scatter
more. G is nine tenths normal and one tenth Cauchy, so that no residual is too large for an outlier.

Good residuals of real tables are often skewed too. A law with a shape has, in place of t_nu(0, s c), the two-piece law
of Fernandez & Steel (1998): its mode is at u c, and its scale is s c exp(k) above and s c exp(-k) below. Without a
shape u = k = h = 0. Either may lead expectation and maximisation astray, so that both are tried (Schwarz's criterion).

The two steps of expectation and maximisation alternate:

- E-step (:meth:`Law.e_step`): the responsibility g_i = P(inlier | r_i) of the inlier density for each row;
- M-step: kernel ridge regression with weights g_i, and the law s, b, pi, m, o of its residuals (:meth:`Law.m_step`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from buttress._checks import TINY, Array
from buttress._rows import drawn_rows, median
from buttress._weights import weighted_median
from buttress.solvers.contamination.trimmed import lts_scale
from buttress.solvers.contamination.tuning import RESIDUALS
from buttress.solvers.ridge.leave_one_out import Fit, Ridge
from buttress.solvers.run import Step, Steps

MAD = 1.4826  # standard deviations in a median distance, for normal errors


@dataclass(frozen=True)
class LawLimits:
    """Constraints on a law: the least inlier scale, and the outlier share if it is given."""

    floor: float
    share: float | None = None


@dataclass(frozen=True)
class LeftOutResiduals:
    """Residuals r (n,) of rows under fits without them, their spread a, what features miss q, and levels z, (n,) each.

    q is None where features are exact, and z where no law with a shape is asked for.
    """

    r: Array
    spread: Array
    missed: Array | None = None
    level: Array | None = None

    def __len__(self) -> int:
        return len(self.r)

    def of(self, rows: slice | NDArray[Any]) -> "LeftOutResiduals":
        """Return those of some rows."""
        missed, level = (None if values is None else values[rows] for values in (self.missed, self.level))
        return LeftOutResiduals(self.r[rows], self.spread[rows], missed, level)

    def drawn(self) -> "LeftOutResiduals":
        """Return those that a law is learned from, the least first: of more than 10,000 rows a random part.

        Medians then sort what is nearly in order, which takes a tenth of the time.
        """
        part = self.of(drawn_rows(len(self)))
        return part.of(np.argsort(part.r, kind="stable"))


@dataclass(frozen=True)
class MixtureSchedule:
    """How a mixture is fitted: degrees of freedom of inliers, EM rounds of the law between fits, stopping rules, shape.
    """

    nu: float
    rounds: int
    max_iter: int
    tol: float
    shaped: bool = False


@dataclass(frozen=True)
class Law:
    """The two densities: inlier scale s and degrees of freedom nu; outlier share pi, location m and width o; b.

    The shape is ``mode`` u, ``skew`` k and ``growth`` h.
    """

    scale: float
    nu: float
    share: float
    location: float
    width: float
    stray: float = 0.0
    mode: float = 0.0
    skew: float = 0.0
    growth: float = 0.0

    @property
    def shaped(self) -> bool:
        """Whether good residuals are skewed, or scatter more where more is expected."""
        return bool(self.mode or self.skew or self.growth)

    def spread(self, seen: LeftOutResiduals) -> Array:
        """Return c, shape (n,), from a, q and z."""
        c = seen.spread
        if seen.missed is not None and self.stray != 0:
            c = np.sqrt(c**2 + self.stray * seen.missed)
        return c if seen.level is None or self.growth == 0 else c * np.exp(self.growth * seen.level)

    def sides(self, seen: LeftOutResiduals) -> tuple[Array, Array]:
        """Return how far the residuals lie from the mode, and the inlier scale on their side of it, both (n,)."""
        c = self.spread(seen)
        off = seen.r - self.mode * c
        return off, self.scale * np.where(off > 0, float(np.exp(self.skew)), float(np.exp(-self.skew))) * c

    def sigma(self, seen: LeftOutResiduals) -> Array:
        """Return the residuals in standard deviations, shape (n,)."""
        off, side = self.sides(seen)
        return off / side

    def log_inlier(self, seen: LeftOutResiduals) -> Array:
        """Return the log densities of the residuals under the inlier density, shape (n,)."""
        off, side = self.sides(seen)
        return _log_student(off, side, self.nu) + np.where(off > 0, self.skew, -self.skew) - np.log(np.cosh(self.skew))

    def log_parts(self, seen: LeftOutResiduals) -> tuple[Array, Array]:
        """Return the log densities of the residuals under the inlier and the outlier density, each times its share."""
        inlier = self.log_inlier(seen) + np.log1p(-self.share)
        if self.share == 0:
            return inlier, np.full(len(seen), -np.inf)
        z = (seen.r - self.location) / self.width
        normal = (1 - RESIDUALS.cauchy_share) / np.sqrt(2 * np.pi) * np.exp(-0.5 * z * z)
        cauchy = RESIDUALS.cauchy_share / np.pi / (1 + z * z)
        return inlier, np.log(self.share / self.width) + np.log(normal + cauchy)

    def e_step(self, seen: LeftOutResiduals) -> tuple[Array, float]:
        """Return the responsibilities P(inlier | r_i), shape (n,), and the log likelihood of all."""
        inlier, outlier = self.log_parts(seen)
        if self.share == 0:
            return np.ones(len(seen)), float(inlier.sum())
        lead = inlier - outlier
        less = np.exp(-np.abs(lead))
        total = np.maximum(inlier, outlier) + np.log1p(less)
        return np.where(lead > 0, 1.0, less) / (1 + less), float(total.sum())

    def weights(self, seen: LeftOutResiduals, responsibility: Array) -> Array:
        """Return the weights of a least squares fit: responsibilities, times Student's weight if nu <= 2.

        For nu > 2 a good row with a large residual keeps its full weight. Residuals of real data are mostly misfit with
        a tail on one side, and weights that decrease with the residual would bias the mean.
        """
        if self.nu > 2:
            return responsibility
        return responsibility * np.minimum((self.nu + 1) / (self.nu + self.sigma(seen) ** 2), 1)

    def m_step(self, seen: LeftOutResiduals, responsibility: Array, limits: LawLimits) -> "Law":
        """Return the law of greatest likelihood given the responsibilities; with levels one with a shape."""
        learned = self._scaled if seen.level is None else self._shaped
        good = learned(seen, responsibility, limits)
        if limits.share == 0:
            return good
        bad = 1 - responsibility
        location, width = _outliers(seen.r, bad)
        least = 0.5 / len(seen)
        share = float(np.clip(bad.mean(), least, RESIDUALS.most_bad)) if limits.share is None else limits.share
        return replace(good, share=share, location=location, width=max(width, RESIDUALS.least_width * good.scale))

    def _scaled(self, seen: LeftOutResiduals, responsibility: Array, limits: LawLimits) -> "Law":
        c = self.spread(seen)
        square = (self.nu + 1) / (self.nu + (seen.r / (self.scale * c)) ** 2) * seen.r**2
        variance, beyond = _variance(square, seen, responsibility, c)
        scale = max(float(np.sqrt(variance)), limits.floor)
        return replace(self, scale=scale, stray=beyond / scale**2)

    def _shaped(self, seen: LeftOutResiduals, responsibility: Array, limits: LawLimits) -> "Law":
        """Return the law with the likeliest mode, then the two scales, then a step of Fisher scoring for the growth."""
        level = seen.level
        assert level is not None, "a shape is learned from levels"
        c = self.spread(seen)
        x = seen.r / c
        off, side = self.sides(seen)
        weight = responsibility * (self.nu + 1) / (self.nu + (off / side) ** 2)
        precise = weight * (c / side) ** 2
        mode = float(precise @ x / max(float(precise.sum()), TINY))
        n = max(float(responsibility.sum()), TINY)
        scale, skew = _two_scales(x - mode, weight, n, limits.floor)
        z = level - responsibility @ level / n
        law = replace(self, scale=scale, mode=mode, skew=skew)
        excess = weight * law.sigma(seen) ** 2 - responsibility
        information = 2 * self.nu / (self.nu + 3) * float(responsibility @ z**2)
        step = float(excess @ z) / max(information, TINY)
        most = float(np.log(scale / limits.floor)) / RESIDUALS.far_level
        growth = float(np.clip(self.growth + step, -most, most))  # nowhere is the scale below the floor
        middle = float(np.exp((self.growth - growth) * (responsibility @ level / n)))
        return replace(law, scale=max(scale * middle, limits.floor), mode=mode * middle, growth=growth)


def _two_scales(off: Array, weight: Array, n: float, floor: float) -> tuple[float, float]:
    """Return s and k of greatest likelihood for n weighted distances from the mode, of variances s^2 exp(2k), exp(-2k).

    Minimises n log(s exp(k) + s exp(-k)) + up / (2 s^2 exp(2k)) + down / (2 s^2 exp(-2k)), with the weighted squares up
    and down; in closed form the scales are as the cube roots of these. Neither scale is below the floor.
    """
    up = np.cbrt(max(float(weight @ np.where(off > 0, off, 0) ** 2), TINY))
    down = np.cbrt(max(float(weight @ np.where(off > 0, 0, off) ** 2), TINY))
    above = max(float(np.sqrt((up + down) / n) * up), floor)
    below = max(float(np.sqrt((up + down) / n) * down), floor)
    return float(np.sqrt(above * below)), float(0.5 * np.log(above / below))


def levels(y: Array, fit: Fit) -> Array | None:
    """Return what the fit without each row expects of it, standardised and bounded, (n,); None where that is constant.
    """
    expected = y - fit.loo
    expected = expected - median(expected)
    width = MAD * float(median(np.abs(expected)))
    return np.clip(expected / width, -RESIDUALS.far_level, RESIDUALS.far_level) if width > 0 else None


def residuals_of(fit: Fit, ridge: Ridge, y: Array | None = None) -> LeftOutResiduals:
    """Return the residuals of rows left out of a fit of ``ridge``, with levels where targets y (n,) are given."""
    return LeftOutResiduals(fit.loo, fit.spread, ridge.missed, None if y is None else levels(y, fit))


def _outliers(r: Array, bad: Array) -> tuple[float, float]:
    """Return the location and width of residuals r (n,) weighted by ``bad`` (n,), robust to a few residuals of 1e9."""
    location = weighted_median(r, bad)
    middle = MAD * weighted_median(np.abs(r - location), bad)
    clipped = np.minimum(np.abs(r - location), 10.0 * middle)
    return location, float(np.sqrt((bad * clipped**2).sum() / max(bad.sum(), 1e-12)))


def _variance(square: Array, seen: LeftOutResiduals, responsibility: Array, c: Array) -> tuple[float, float]:
    """Return s^2 and s^2 b, both >= 0, by regressing the squares of inliers on a^2 and q with weights 1 / c^4.

    This is a step of Fisher scoring for the likelihood of the two.
    """
    weight = responsibility / (c * c) ** 2  # a power of 4 takes many times as long
    level = seen.spread**2
    missed = seen.missed
    one = float(weight @ (level * square)) / max(float(weight @ level**2), TINY)
    if missed is None or not missed.any():
        return one, 0.0
    both = float(weight @ (level * missed))
    other = float(weight @ missed**2)
    aim = np.array([weight @ (level * square), weight @ (missed * square)])
    A = np.array([[float(weight @ level**2), both], [both, other]])
    if np.linalg.det(A) <= 1e-9 * A[0, 0] * A[1, 1]:  # the two cannot be separated
        return one, 0.0
    near, far = np.linalg.solve(A, aim)
    if far <= 0:
        return one, 0.0
    return max(float(near), 1e-3 * one), float(far)


def first_law(seen: LeftOutResiduals, nu: float, limits: LawLimits) -> Law:
    """Return the law to start from: the scale of the smaller half of residuals, and a wide outlier density around 0."""
    scale = max(0.8 * lts_scale(seen.r / seen.spread, len(seen) // 2 + 1), limits.floor)
    width = max(float(np.quantile(np.abs(seen.r), 0.9)), 4.0 * scale)
    return Law(scale, nu, 0.3 if limits.share is None else limits.share, 0.0, width)


@dataclass(frozen=True)
class Explained:
    """The likeliest law, its log likelihood per row, responsibilities (n,) over all, and laws tried without a shape."""

    law: Law
    responsibility: Array
    likelihood: float
    tried: Sequence[tuple[float, Law]] = ()


def explain(
    seen: LeftOutResiduals, limits: LawLimits, telling: NDArray[np.bool_] | None = None, known: Explained | None = None
) -> Explained:
    """Return the law of greatest likelihood for given residuals: Student's t alone, or with an outlier density.

    With levels laws with a shape are tried as well, with the b of the likeliest without. A parameter that m rows tell
    costs log(m)/2 (Schwarz's criterion): the middle and width of the outlier density those that it explains, its share
    and the three of a shape all. Of more than 10,000 rows a random part is used.
    Heavier tails may explain a single large residual about as well as an outlier density. So responsibilities are the
    mean over all laws, by that criterion. Only ``telling`` rows (n,) say which it is. ``known`` has the plain laws.
    """
    part = (seen if telling is None else seen.of(telling)).drawn()
    plain = _tried(replace(part, level=None), limits) if known is None else known.tried
    found = [*plain]
    if seen.level is not None:
        cost = shape_cost(len(part))
        stray = max(found, key=lambda pair: pair[0])[1].stray
        found += [(other - cost, law) for other, law in _tried(part, limits, stray)]
    best, law = max(found, key=lambda pair: pair[0])
    likely = [(np.exp(other - best), tried) for other, tried in found if other > best - 10.0]
    summed = sum((weight * (tried.e_step(seen)[0] if tried.share else 1.0) for weight, tried in likely),
                 np.zeros(len(seen)))
    responsibility = np.minimum(summed / sum(weight for weight, _ in likely), 1)
    return Explained(law, responsibility, float(best) / len(part), plain)


def shape_cost(n: int) -> float:
    """Return the nats that the three numbers of a shape must gain on n rows, by Schwarz's criterion."""
    return float(3 * np.log(n) / 2)


def _tried(seen: LeftOutResiduals, limits: LawLimits, stray: float = 0.0) -> list[tuple[float, Law]]:
    """Return (Schwarz's criterion in nats, law) for each number of degrees of freedom, from laws with this b."""
    n, found = len(seen), []
    for nu in RESIDUALS.degrees:
        mixed = replace(first_law(seen, nu, limits), stray=stray)
        if limits.share is None:
            alone = em_rounds(replace(mixed, share=0.0), seen, LawLimits(limits.floor, 0.0), RESIDUALS.rounds)
            found.append((float(alone.log_inlier(seen).sum()), alone))
        mixed = em_rounds(mixed, seen, limits, RESIDUALS.rounds)
        cost = np.log(n) / 2 + np.log(max(n * mixed.share, 1.0)) if limits.share is None else 0.0
        found.append((mixed.e_step(seen)[1] - cost, mixed))
    return found


def em_rounds(law: Law, seen: LeftOutResiduals, limits: LawLimits, rounds: int) -> Law:
    """Return the law after rounds of E-step and M-step on given residuals, or when it is as likely as the one before.
    """
    last = np.inf
    for _ in range(rounds):
        good, likelihood = law.e_step(seen)
        law = law.m_step(seen, good, limits)
        if abs(likelihood - last) < 1e-3:  # nats in all rows: decisions are taken by whole ones
            break
        last = likelihood
    return law


def reweighted_steps(
    ridge: Ridge, y: Array, fit: Fit, known: Explained, *, alpha: float, limits: LawLimits,
    telling: NDArray[np.bool_] | None = None, shaped: bool = False) -> Steps:
    """Yield (fit, :class:`Explained`) of least squares with the weights of the law, learned again after each fit.

    Starts at ``fit`` and its law ``known``. Rows of weight 0 there keep weight 0. Otherwise a bad row far away in X
    could get a weight, because its spread is large, and would then pull the fit towards it. The change is the gain of
    likelihood per row. Ends before a fit that loses likelihood, except for the first.
    """
    kept = fit.weight > 0
    aim = y if shaped else None
    yield Step((fit, known), objective=-known.likelihood)
    for k in count():
        last = known.likelihood
        weight = known.law.weights(residuals_of(fit, ridge, aim), known.responsibility)
        fit = ridge.solve(y, kept * weight, alpha)
        known = explain(residuals_of(fit, ridge, aim), limits, telling)
        if k and known.likelihood < last:
            return
        yield Step((fit, known), change=known.likelihood - last, objective=-known.likelihood)


@dataclass(frozen=True)
class Fitted:
    """A fit, its residuals explained, the number of fits that led to it, and whether they ended of themselves."""

    fit: Fit
    known: Explained
    n_iter: int
    converged: bool = field(default=True, kw_only=True)


def mixture_steps(
    ridge: Ridge, y: Array, fit: Fit, *, alpha: float, limits: LawLimits, schedule: MixtureSchedule
) -> Steps:
    """Yield :class:`Fitted` states from the residuals of ``fit``; the change is that of the log likelihood per row.

    With more than 10,000 rows the law is learned from a random part of them. Weights that a ridge rounds may alternate
    for ever between two sets; the steps are done when a set comes back.
    """
    aim = y if schedule.shaped else None
    seen = residuals_of(fit, ridge, aim)
    law = em_rounds(first_law(seen.drawn(), schedule.nu, limits), seen.drawn(), limits, schedule.rounds)
    last = np.inf
    before: list[Array] = []  # the weights of the last two fits
    for n_iter in count(1):
        fit = ridge.solve(y, law.e_step(seen)[0], alpha)
        alternates = len(before) == 2 and np.array_equal(fit.weight, before[0])
        before = [*before[-1:], fit.weight]
        seen = residuals_of(fit, ridge, aim)
        law = em_rounds(law, seen.drawn(), limits, schedule.rounds)
        responsibility, total = law.e_step(seen)
        mean = total / len(y)
        yield Step(Fitted(fit, Explained(law, responsibility, mean), n_iter), change=abs(mean - last), objective=-mean,
                   done=alternates)
        last = mean


def _log_student(r: Array, s: Array, nu: float) -> Array:
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
    return constant - np.log(s) - (nu + 1) / 2 * np.log1p((r / s) ** 2 / nu)
