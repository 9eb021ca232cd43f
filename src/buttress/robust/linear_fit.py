"""The fit of the robust linear regressor: an S estimate, then MM, then weights by the law of its residuals."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import row_norms

from buttress._checks import Array
from buttress._rows import drawn_rows, median
from buttress.robust.judged import RobustFit
from buttress.solvers.contamination.mm import (
    BREAKDOWN_BEND,
    SETTLED,
    Reweighted,
    best_start,
    bisquare,
    regressions,
    reweighting,
    s_estimate,
    weighted,
)
from buttress.solvers.contamination.residual_law import (
    MAD,
    Explained,
    LawLimits,
    LeftOutResiduals,
    explain,
    residuals_of,
    reweighted_steps,
)
from buttress.solvers.contamination.trimmed import smallest, within
from buttress.solvers.contamination.tuning import GUARD, TRIMMING
from buttress.solvers.ridge.leave_one_out import FeatureRidge, Fit
from buttress.solvers.run import SharedBudget

EVEN = 0.5  # probability from which a row is likelier good than corrupt


@dataclass(frozen=True)
class LinearTask:
    """Rows of features and their targets, the ridge, and limits of the law of the residuals."""

    ridge: FeatureRidge
    y: Array
    alpha: float
    limits: LawLimits

    @property
    def few(self) -> bool:
        """Whether the rows are few for the columns."""
        n, p = self.ridge.Z.shape
        return bool(p > TRIMMING.most_spent * n)

    @property
    def slight(self) -> float:
        """The ridge of an S estimate, which needs none where rows are many."""
        return self.alpha if self.few else 0.0

    def lost(self) -> float:
        """Return the degrees of freedom of an S estimate: of few rows those of ridge regression, at most a third."""
        n, p = self.ridge.Z.shape
        return min(float(np.sum(1 - 1 / self.plain().spread**2)), TRIMMING.most_spent * n) if self.few else p

    def plain(self) -> Fit:
        """Return ridge regression on all rows."""
        return self.ridge.solve(self.y, np.ones(len(self.y)), self.alpha)

    def unsuspected(self, fit: Fit) -> Explained:
        """Return the residuals explained by good rows alone: skewed ones, or wider where more is expected, are too."""
        return explain(residuals_of(fit, self.ridge, self.y), LawLimits(self.limits.floor, 0.0))

    def beyond(self, fit: Fit, known: Explained) -> float:
        """Return what rows far out in X add to the log likelihood of left-out rows: see :func:`nearness`."""
        parts = known.law.log_parts(residuals_of(fit, self.ridge, self.y))
        return float((1 - nearness(self.ridge.Z)) @ np.logaddexp(*parts))

    def judged(self, at: Reweighted, bend: float) -> tuple[Fit, Explained]:
        """Return the ridge regression with Tukey's weights, and its residuals explained."""
        fit = self.ridge.solve(self.y, bisquare(at.residual / at.scale, bend), self.alpha)
        return fit, explain(residuals_of(fit, self.ridge), self.limits)


def linear_fit(
    rows: LinearTask, n_starts: int, max_iter: int, rng: np.random.RandomState, budget: SharedBudget
) -> RobustFit:
    """Return the MM fit, reweighted by the law of its residuals, or plain ridge (:func:`plain_stays`)."""
    if rows.limits.share == 0 or not rows.y.any():
        plain = rows.plain()
        return RobustFit(plain, rows.unsuspected(plain), 1, rows.alpha, clean=True, votes=plain.weight[None, :] > 0,
                         near=plain.coef)
    ends = searched(rows, n_starts, rng, budget)
    votes = np.array([within(rows.y - rows.ridge.Z @ end.coef, TRIMMING.good_within, rows.limits.floor)
                      for end in ends])
    first = s_estimate(rows.ridge.Z, rows.y, ends[0].coef, rows.lost(), rows.slight, rows.limits.floor, budget,
                       tol=SETTLED**0.5)  # the scale, which is least there, is off by the square of that
    if not rows.few:  # with |b| / s that of the fit itself a ridge of s^2 / |b|^2 moves no b by half its standard error
        strength = float(first.coef @ first.coef) / first.scale**2
        # with less the rounding of Z'UZ can be larger where columns depend on others
        rows = replace(rows, alpha=max(rows.alpha / (1 + strength), 1e-12 * len(rows.y)))
    return budget.attempt(
        lambda: _efficient(rows, first, votes, max_iter, budget),
        otherwise=lambda: RobustFit(*rows.judged(first, BREAKDOWN_BEND), 1, rows.alpha, clean=False, votes=votes,
                                    near=first.coef),
        message="The fit was interrupted. The model is an S estimate: it bears bad rows, but uses little more than "
                "half of the good ones.")


def _efficient(
    rows: LinearTask, first: Reweighted, votes: NDArray[np.bool_], max_iter: int, budget: SharedBudget
) -> RobustFit:
    """Return the fit that the S estimate ``first`` leads to.

    No row is named where the likeliest law is of skewed good rows: the plain fit stays with light tails, else this one.
    """
    steps = reweighting(rows.ridge.Z, rows.y, first, TRIMMING.tukey, rows.slight)
    outcome = budget.run(steps, tol=SETTLED, max_iter=max_iter)
    fit, known = rows.judged(outcome.state, TRIMMING.tukey)
    steps = reweighted_steps(rows.ridge, rows.y, fit, known, alpha=rows.alpha, limits=rows.limits)
    fit, known = budget.run(steps, tol=0.01, max_iter=max_iter, inner=False, callback=budget.report).state
    beyond = rows.beyond(fit, known)
    known = looked_again(rows, fit, known)
    clean = False
    if rows.limits.share is None:
        plain = rows.plain()
        unsuspected = rows.unsuspected(plain)
        # laws with a skew; a scale that grew would give good rows beside bad ones far out in X a wide one
        tail = known if (known.responsibility >= EVEN).all() else explain(
            replace(residuals_of(fit, rows.ridge), level=np.zeros(len(rows.y))), rows.limits, known=known)
        if tail.law.shaped and tail.law.share == 0:
            known, clean = tail, tail.law.nu > 2
        else:
            clean = plain_stays(rows, fit, known, unsuspected, rows.beyond(plain, unsuspected) - beyond)
    if clean:
        fit, known = plain, unsuspected
    else:
        weight = (fit.weight > 0) * known.law.weights(residuals_of(fit, rows.ridge), known.responsibility)
        fit = rows.ridge.solve(rows.y, weight, rows.alpha)
    return RobustFit(fit, known, max(outcome.n_iter, 1), rows.alpha, clean=clean, votes=votes, near=first.coef,
                     converged=outcome.converged)


def plain_stays(rows: LinearTask, fit: Fit, known: Explained, unsuspected: Explained, beyond: float) -> bool:
    """Say whether the plain fit, whose law knows good rows only, explains left-out rows as well as the robust ``fit``.

    Rows that are named stay out unless the plain fit is decisively likelier. Of ``beyond``, the lead that rows far out
    in X give it, no more counts than a real curve gives: a cluster that has turned the fit gives five times as much.
    Few rows for the columns let a fit that chooses its rows gain about half a nat a coefficient on clean data.
    """
    lead = (unsuspected.likelihood - known.likelihood) * len(rows.y)
    if (known.responsibility < EVEN).any():
        return bool(lead - max(beyond - GUARD.gain_a_row * len(rows.y), 0) > GUARD.gain_in_all)
    return bool(fit.weight.all() or lead > -rows.few * len(fit.coef) / 2)


def looked_again(rows: LinearTask, fit: Fit, known: Explained) -> Explained:
    """Return ``known`` with the rows judged again that are left once a first group of corrupt ones is out.

    There is one outlier density, and it goes where most of the corrupt rows are. If they all lie at one height, so does
    it, and it is too narrow for others that lie elsewhere: to the law these are then the tail of the good rows, however
    far they are. Without the first group the law of the rest shows them, if by Schwarz's criterion it has an outlier
    density of its own. This goes on while it finds more and half of the rows are left; a row is as good as in the worst
    look. A share given says how many rows are corrupt, and none are looked for again.
    """
    responsibility = known.responsibility.copy()
    law = known.law
    good = responsibility > EVEN
    seen = residuals_of(fit, rows.ridge)
    while rows.limits.share is None and not good.all() and 2 * good.sum() > len(good):
        rest = explain(seen.of(good), rows.limits)
        if rest.law.share == 0:
            break
        responsibility[good] = np.minimum(responsibility[good], rest.responsibility)
        law = replace(known.law, scale=rest.law.scale, nu=rest.law.nu, share=float(1 - responsibility.mean()))
        left = responsibility > EVEN
        if left.sum() == good.sum():
            break
        good = left
    return replace(known, law=law, responsibility=responsibility)


def searched(rows: LinearTask, n_starts: int, rng: np.random.RandomState, budget: SharedBudget) -> list[Reweighted]:
    """Return S estimates of at most 1,000 rows, the best first: see :func:`likeliest_first`.

    They start from the targets nearest their middle, from least absolute deviations, and from random rows.
    """
    part = drawn_rows(len(rows.y), 1000)  # on which the start is searched
    Z = rows.ridge.Z[part]
    y = rows.y[part]
    n, p = Z.shape
    alpha = rows.slight * n / len(rows.y)
    chosen = np.zeros((0 if budget.stop_if_spent() or p >= TRIMMING.wide else n_starts, n))
    for start in chosen:
        start[rng.permutation(n)[:p]] = 1
    starts = [weighted(Z, y, smallest(np.abs(y), n // 2 + 1), alpha), _absolute(Z, y, alpha),
              *regressions(Z, y, chosen, 0.0)]
    lost = rows.lost() * n / len(rows.y) if rows.few else p
    near = nearness(Z)
    return likeliest_first(best_start(Z, y, np.array(starts), near, lost, alpha, rows.limits.floor, budget), near,
                           rows.limits)


def nearness(Z: Array) -> Array:
    """Return weights of rows of Z (n, p), 1 for the half nearest the middle, beyond as one over the squared distance.

    Rows far out in X that lie together have small residuals on some plane, whatever the others say, and a law that
    allows for it: they vouch for one another.
    """
    length = row_norms(Z)
    return np.asarray(np.minimum(1, median(length) / length) ** 2)


def likeliest_first(ends: list[Reweighted], near: Array, limits: LawLimits) -> list[Reweighted]:
    """Return S estimates, that of least scale first unless another is decisively likelier to rows weighted by ``near``.
    """
    told = [LeftOutResiduals(end.residual, np.ones(len(near))) for end in ends]
    gains = [near @ np.logaddexp(*explain(seen, limits).law.log_parts(seen)) for seen in told]
    best = int(np.argmax(gains))
    return [ends[best], *ends[:best], *ends[best + 1 :]] if gains[best] > gains[0] + GUARD.gain_in_all else ends


def _absolute(Z: Array, y: Array, alpha: float) -> Array:
    """Return the coefficients to which reweighting towards least absolute deviations leads."""
    coef = np.zeros(Z.shape[1])
    for _ in range(30):
        coef = weighted(Z, y, 1 / np.maximum(np.abs(y - Z @ coef), 1e-3), alpha)
    return coef


def robust_columns(X: Array, intercept: bool) -> tuple[Array, Array, Array]:
    """Return (Z, centre, width): columns less their median over the median size of what is not at it, plus ones.

    Neither is a moment: in a column that is not mostly one value no minority of rows moves them beyond bounds. Entries
    beyond 1e8 widths become that: squared, they would leave nothing of the other rows' digits.
    """
    n, d = X.shape
    centre = np.zeros(d)
    width = np.full(d, MAD)
    for j in range(d):
        column = np.ascontiguousarray(X[:, j])  # medians of contiguous numbers take less time
        centre[j] = median(column) if intercept else 0.0
        off = np.abs(column - centre[j])
        if off.any():
            width[j] *= median(off[off > 0])
    Z = np.ones((n, d + intercept))
    np.divide(np.subtract(X, centre, out=Z[:, :d]), width, out=Z[:, :d])
    return np.clip(Z, -1e8, 1e8, out=Z), centre, width


@dataclass(frozen=True)
class ColumnUnits:
    """Units a fit was made in: columns less ``centre`` over ``width``, targets over ``unit``, a constant or not."""

    centre: Array
    width: Array
    unit: float
    intercept: bool

    def original(self, coef: Array) -> tuple[Array, Array]:
        """Return slopes (d, ...) and constants (...) in the units given, from coefficients there, (d or d + 1, ...)."""
        slope = coef[:-1] if self.intercept else coef
        slope = (slope.T * (self.unit / self.width)).T
        constant = self.unit * coef[-1] if self.intercept else np.zeros(coef.shape[1:])
        return slope, constant - self.centre @ slope
