"""The fit of the robust linear regressor: plain ridge or least trimmed squares and then MM, whichever gains."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq

from buttress._checks import Array
from buttress._rows import SAMPLES, equal_rows
from buttress.robust.judged import Found
from buttress.solvers.contamination.residual_law import (
    MAD,
    Explained,
    Fitted,
    LeftOutResiduals,
    Limits,
    explain,
    gains_enough,
    residuals_of,
    reweighted_steps,
)
from buttress.solvers.contamination.trimmed import concentrate, lts_scale, m_steps, smallest, within
from buttress.solvers.contamination.tuning import GUARD, TRIMMING
from buttress.solvers.ridge.leave_one_out import FeatureRidge, Fit
from buttress.solvers.run import Budget

EVEN = 0.5  # probability from which a row is likelier good than corrupt


@dataclass(frozen=True)
class LinearTask:
    """Rows of features and their targets, the ridge that suits their number, how many are trusted, and limits."""

    ridge: FeatureRidge
    y: Array
    alpha: float
    h: int
    limits: Limits

    def drawn(self, part: NDArray[np.intp]) -> "LinearTask":
        """Return the numbered rows."""
        Z = self.ridge.Z[part]
        return LinearTask(FeatureRidge(Z, groups=equal_rows(Z)), self.y[part], self.alpha * len(part) / len(self.y),
                          trimmed_size(len(part), self.limits.share), self.limits)

    def trimmed(self, fit: Fit) -> Fit:
        """Return the fit to the rows that ``fit`` leaves the smallest residuals."""
        return self.ridge.solve(self.y, smallest(np.abs(self.y - self.ridge.Z @ fit.coef), self.h), self.alpha)

    def explained(self, fit: Fit) -> Explained:
        """Return the leave-one-out residuals of a fit explained."""
        return explain(residuals_of(fit, self.ridge), self.limits)


def linear_fit(rows: LinearTask, n_starts: int, max_iter: int, rng: np.random.RandomState, budget: Budget) -> Found:
    """Fit plain ridge and the robust fit, and keep one of them; with many rows, a part of them chooses the start.

    ====================  ==========================  ================================================
    contamination known   robust fit gains            kept
    ====================  ==========================  ================================================
    yes, 0                -                           plain
    yes                   -                           robust, reweighted
    no                    :func:`needed_gain`         robust, reweighted
    no                    something, where the plain  robust, reweighted (:func:`plainly_contaminated`)
                          residuals show outliers
    no                    less                        plain
    ====================  ==========================  ================================================
    """
    plain = rows.ridge.solve(rows.y, np.ones(len(rows.y)), rows.alpha)
    share = rows.limits.share
    known = explain(residuals_of(plain, rows.ridge), Limits(rows.limits.floor, share or None))
    if share == 0 or not rows.y.any():
        ones = np.ones(len(rows.y))
        return Found(plain, replace(known, responsibility=ones), 1, rows.alpha, clean=True, votes=ones[None, :] > 0)
    part = rows
    if len(rows.y) > SAMPLES.rows:
        part = rows.drawn(rng.choice(len(rows.y), SAMPLES.rows, replace=False))
    fits, ends = least_trimmed(part, n_starts=n_starts, rng=rng, budget=budget)
    votes = np.array([within(rows.y - rows.ridge.Z @ coef, TRIMMING.good_within, rows.limits.floor) for coef in ends])
    robust = budget.attempt(
        lambda: _efficient(rows, part, fits, max_iter, budget), otherwise=lambda: None,
        message="The fit was interrupted. The model is of least trimmed squares: it bears bad rows, but uses little "
                "more than half of the good ones.")
    if robust is None:
        fit = rows.trimmed(fits[0])
        return Found(fit, rows.explained(fit), 1, rows.alpha, clean=False, votes=votes, ends=ends)
    gains = gains_enough(known, robust.known, needed_gain(plain.spread)) or plainly_contaminated(known, robust.known)
    if share is None and not gains:
        known = looked_again(plain, known, rows.limits)
        return Found(plain, known, robust.n_iter, rows.alpha, clean=True, votes=votes, ends=ends)
    steps = reweighted_steps(rows.ridge, rows.y, robust.fit, robust.known, alpha=rows.alpha, limits=rows.limits)
    fit, known = budget.run(steps, tol=0.01, max_iter=max_iter, inner=False, callback=budget.report).state
    known = looked_again(fit, known, rows.limits)
    return Found(fit, known, robust.n_iter, rows.alpha, clean=False, votes=votes, ends=ends)


def looked_again(fit: Fit, known: Explained, limits: Limits) -> Explained:
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
    while limits.share is None and not good.all() and 2 * good.sum() > len(good):
        rest = explain(LeftOutResiduals(fit.loo[good], fit.spread[good]), limits)
        if rest.law.share == 0:
            break
        responsibility[good] = np.minimum(responsibility[good], rest.responsibility)
        law = replace(known.law, scale=rest.law.scale, nu=rest.law.nu, share=float(1 - responsibility.mean()))
        left = responsibility > EVEN
        if left.sum() == good.sum():
            break
        good = left
    return replace(known, law=law, responsibility=responsibility)


def _efficient(rows: LinearTask, part: LinearTask, fits: list[Fit], max_iter: int, budget: Budget) -> Fitted:
    """Return the M-fit to all rows from fits to some, of which the last is the cautious one."""
    cautious = _m_fit(part, fits[-1], max_iter, budget)
    others = [_m_fit(part, fit, max_iter, budget) for fit in fits[:-1] if not budget.spent()]
    # A fit that uses few rows fits those too well. So it must gain as much over the cautious fit as a robust one must
    # gain over the plain one.
    best = max([*others, cautious], key=lambda result: result.known.likelihood)
    best = best if gains_enough(cautious.known, best.known) else cautious
    return best if rows is part else _m_fit(rows, rows.trimmed(best.fit), max_iter, budget)


def _m_fit(rows: LinearTask, start: Fit, max_iter: int, budget: Budget) -> Fitted:
    """Return the M-fit from a trimmed fit, its scale corrected for the degrees of freedom the h rows paid for."""
    residual = rows.y - start.values
    spent = min(float(np.sum(1 - 1 / start.spread**2)), TRIMMING.most_spent * rows.h)
    correction = np.sqrt(rows.h / (rows.h - spent))
    scale = max(lts_scale(residual, len(residual) // 2 + 1) * correction, rows.limits.floor)
    steps = m_steps(rows.ridge, rows.y, residual, alpha=rows.alpha, scale=scale)
    outcome = budget.run(steps, tol=1e-4, max_iter=max_iter, warn=("max_iter",))
    fit = outcome.state[0]
    return Fitted(fit, rows.explained(fit), max(outcome.n_iter, 1))


def plainly_contaminated(plain: Explained, robust: Explained) -> bool:
    """Say whether the plain fit's own residuals show corrupt rows, so that any gain of the robust fit is enough.

    If targets scatter widely and bad rows change the fit little, it gains only .02 nats a row. On clean data, skewed or
    with heavy tails, plain residuals have an outlier density of at most .09; with a fifth corrupt, one of .19 and more.
    """
    gain = (robust.likelihood - plain.likelihood) * len(robust.responsibility)
    return plain.law.share > GUARD.plain_share and gain > GUARD.gain_in_all


def needed_gain(spread: Array) -> float:
    """Return the nats per row by which a robust fit must predict left-out rows better than the plain one.

    With many columns for the rows, a fit that can choose its rows gains even on clean data: up to .1 with a quarter as
    many columns as rows, .15 to .35 with a third and .1 to .5 with half as many. With 20 or 40 per cent bad rows it
    gains at least .2, .3 and .4. With more columns than rows the ridge decides the fit, and nothing is gained.
    ``spread`` (n,) is the plain fit's, from which the mean leverage follows.
    """
    leverage = float(np.mean(1 - 1 / spread**2))
    return GUARD.gain_a_row + max(min(leverage, 1 - leverage) - GUARD.free_leverage, 0)


def least_trimmed(
    rows: LinearTask, *, n_starts: int, rng: np.random.RandomState, budget: Budget
) -> tuple[list[Fit], list[Array]]:
    """Return the three fits of least trimmed objective and one of least absolute deviations; and each start's end."""
    absolute = _absolute(rows.ridge, rows.y, rows.alpha)
    bounded = rows.ridge.solve(rows.y, _absolute_weights(absolute), rows.alpha)
    tried = 0 if budget.spent() else n_starts
    ends = [budget.run(concentrate(rows.ridge, rows.y, u, alpha=rows.alpha, h=rows.h), max_iter=30,
                       progress=False) for u in _starts(rows, absolute, tried, rng)]
    different = {end.state[1].tobytes(): end for end in ends}.values()
    best = [end.state[0] for end in sorted(different, key=lambda end: end.objective)[: TRIMMING.followed]]
    return [*best, bounded], [end.state[0].coef for end in ends]


def _starts(rows: LinearTask, absolute: Array, n_starts: int, rng: np.random.RandomState) -> list[Array]:
    """Return the weights to start from, each of h rows.

    They are the h targets nearest their middle, the smallest residuals of least absolute deviations, and those of fits
    to random subsets of d + 2 rows where there are few columns.
    """
    Z = rows.ridge.Z
    n, m = Z.shape
    residuals = [rows.y, absolute]
    for _ in range(n_starts if m < 50 else 0):  # of more columns a few rows seldom are all good
        part = rng.permutation(n)[: min(n, m + 2)]
        exact = lstsq(Z[part], rows.y[part], check_finite=False)[0]
        residuals.append(rows.y - Z @ exact)
    return [smallest(np.abs(r), rows.h) for r in residuals]


def trimmed_size(n: int, share: float | None) -> int:
    """Return how many of n rows least trimmed squares keeps."""
    return max(int(min(TRIMMING.trusted, 1 - (share or 0)) * n), min(n, 2))


def _absolute(ridge: FeatureRidge, y: Array, alpha: float) -> Array:
    """Return residuals of reweighting towards least absolute deviations."""
    r = y
    for _ in range(30):
        r = y - ridge.solve(y, _absolute_weights(r), alpha).values
    return r


def _absolute_weights(r: Array) -> Array:
    return np.asarray(1 / np.maximum(np.abs(r), 1e-3))


def robust_columns(X: Array, intercept: bool) -> tuple[Array, Array, Array]:
    """Return (Z, centre, width): columns less their median over the median size of what is not at it, plus ones.

    Neither is a moment: in a column that is not mostly one value no minority of rows moves them beyond bounds. Entries
    beyond 1e8 widths become that: squared, they would leave nothing of the other rows' digits.
    """
    n, d = X.shape
    centre = np.zeros(d)
    width = np.full(d, MAD)
    for j in range(d):
        column = np.ascontiguousarray(X[:, j])  # medians of contiguous numbers take a third of the time
        centre[j] = np.median(column) if intercept else 0.0
        off = np.abs(column - centre[j])
        if off.any():
            width[j] *= np.median(off[off > 0])
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
