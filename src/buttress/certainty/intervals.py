"""Intervals that hold the target of a new row with a given probability, from fits that leave training rows out.

With mu_i(x) the prediction of a fit without row i, R_i = |y_i - mu_i(x_i)| and s > 0 a local scale, also without row i,

    [ the alpha-quantile of mu_i(x) - s(x) R_i / s_i,   the (1 - alpha)-quantile of mu_i(x) + s(x) R_i / s_i ],

the quantiles over n + 1 rows of which the last is at infinity. Where each row is left out alone this is the
jackknife+, where rows are left out by folds it is CV+. For any data that can be exchanged CV+ covers at least
1 - 2 alpha of new targets, and 1 - alpha where fits change little with a row (Barber, Candes, Ramdas & Tibshirani,
Predictive inference with the jackknife+, 2021, theorems 1 and 4). The proof asks that a fit without a row does not
know it at all. Here the ridge, and row weights of robust fits, are those of the fit to all rows; docs/intervals.md
measures what that costs.

A support vector machine has the values of rows left out, and no fits without them: its mu_i(x) are all mu(x). That is
the jackknife, which covers as the jackknife+ does where no row moves the fit much elsewhere (shown there too).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from buttress._checks import TINY, Array, check_number, warn_user
from buttress._compiling import compile_kernel
from buttress._predicting import Mixed, rows_to_score
from buttress._rows import drawn_rows, equal_rows
from buttress._state import Attribute, State
from buttress._tuned import THEORY, UNBEATEN, tuned
from buttress._types import DenseOrSparse, MatrixLike, Rows
from buttress.certainty.conformal import GroupPair, check_coverage, grouped, too_few
from buttress.certainty.left_out import landmark_root
from buttress.expansion import KernelExpansion
from buttress.solvers.ridge.leave_one_out import FeatureRidge, Fit, Ridge, fits_without

ROUNDING = 1e-12  # of a sum of weights


@dataclass(frozen=True)
class Intervals:
    """How the fits without rows are made and used."""

    folds: int = tuned(10, "folds", "of CV+: each fit has nine tenths of the rows", THEORY)
    rows: int = tuned(4000, "rows", "drawn for the quantiles: a coverage of .9 is then known to .005", THEORY)
    least_scale: float = tuned(0.2, "of the mean scale", "least local scale: near 0 a residual has no bound", UNBEATEN)
    ridges: tuple[float, ...] = tuned((1.0, 10.0, 100.0), "ridges of the fit", "tried for the local scale", UNBEATEN)
    landmarks: int = tuned(300, "support vectors", "that carry the local scale of a machine", THEORY)


INTERVALS = Intervals()


@dataclass
class HeldOutFits:
    """Fits without some of the rows, as columns of coefficients, and how far each row is from the fit without it.

    ``coef`` (m, K + 1) and ``intercept`` (K + 1,) take the place of the model's own: K fits, then the local scale. Fit
    ``fold[i]`` left row i out; ``distance`` (n,) are |y_i - mu_i(x_i)| / s_i, ``weight`` (n,) says how much rows count,
    and ``least`` is the least local scale. ``row`` (n,) are the numbers of the rows among the ``given``
    ones, None where that is not known.
    """

    _state = State(
        Attribute("coef", "finite", "n_coef, n_fits"),
        Attribute("intercept", "finite", "n_fits"),
        Attribute("fold", "index", "n_judged", below="n_fits"),
        Attribute("distance", "real", "n_judged"),
        Attribute("weight", "nonnegative", "n_judged"),
        Attribute("least", "nonnegative"),
        Attribute("row", "index", "n_judged or none", below="n_given"),
        Attribute("given", "count", "one or none", length="n_given"))

    coef: Array
    intercept: Array
    fold: Rows
    distance: Array
    weight: Array
    least: float
    row: Rows | None = None
    given: int | None = None

    def times(self, unit: float, shift: float, coef: Array, intercept: Array) -> "HeldOutFits":
        """Return the same for targets times ``unit`` plus ``shift``, the coefficients given in these units."""
        moved = intercept + np.append(np.full(coef.shape[1] - 1, shift), 0.0)
        return replace(self, coef=coef, intercept=moved, least=self.least * unit)

    def of_rows(self, own: Rows) -> "HeldOutFits":
        """Return the same of some of the rows, numbered or in a mask, that count no more than they are."""
        weight = self.weight[own]
        counted = weight * min(1.0, weight.sum() / max(float(weight @ weight), TINY))
        return replace(self, fold=self.fold[own], distance=self.distance[own], weight=counted, row=None)


def hold_out(
    ridge: Ridge, y: Array, fit: Fit, alpha: float, *, groups: Rows | None, weight: Array, by_folds: bool
) -> HeldOutFits:
    """Return fits without a fold of rows each, row weights and ridge being those of ``fit`` to y (n,).

    Rows of one of the ``groups`` (equal x) share a fold. Without ``by_folds`` the one fit to all rows, with its
    leave-one-out residuals, stands for the fits without a row. That is the jackknife; with rows enough for landmarks no
    row moves the fit.
    """
    n = len(y)
    fold = np.zeros(n, dtype=np.intp)
    if by_folds:
        fold = folds_of(n, groups, INTERVALS.folds)
        coef, values = fits_without(ridge, y, fit.weight, alpha, fold)
        size = np.abs(y - values)
    else:
        coef = fit.coef[:, None]
        size = np.abs(fit.loo)
    rows = np.arange(n)[drawn_rows(n, INTERVALS.rows)]
    scale_coef, scale, least = local_scale(ridge, size, fit, alpha, weight, rows)
    return HeldOutFits(np.column_stack([coef, scale_coef]), np.zeros(coef.shape[1] + 1), fold[rows],
                   size[rows] / scale, weight[rows], least, rows, n)


def jackknife(
    expansion: KernelExpansion, X: DenseOrSparse | None, missed: Array, weight: Array, alpha: float
) -> HeldOutFits:
    """Return the fit of an expansion with one score, and a local scale, as those without the rows of X (n, d).

    ``missed`` (n,) is by how much rows left out are missed. The scale is a ridge fit in the span of some of the
    expansion's centres. Without X it is constant.
    """
    root, some = np.zeros((0, 0)), np.zeros(0, dtype=np.intp)
    Z = np.ones((len(missed), 1))
    if X is not None and len(expansion.coef):
        some = np.arange(len(expansion.coef))[drawn_rows(len(expansion.coef), INTERVALS.landmarks)]
        points = expansion.centers[some]
        root = landmark_root(expansion.kernel, points)
        Z = np.column_stack([expansion.kernel(X, points) @ root, Z])
    fit = Fit(np.zeros(Z.shape[1]), np.zeros(len(Z)), missed, np.ones(len(Z)), weight)
    held = hold_out(FeatureRidge(Z, groups=None if X is None else equal_rows(X)), missed, fit, alpha,
                    groups=None, weight=weight, by_folds=False)
    scale = np.zeros(len(expansion.coef))
    scale[some] = root @ held.coef[:-1, 1]
    return replace(held, coef=np.column_stack([expansion.coef, scale]),
                   intercept=np.append(expansion.intercept, held.coef[-1, 1]))


def folds_of(n: int, groups: Rows | None, most: int) -> Rows:
    """Return a fold for each of n rows, drawn at random but always the same; rows of one group share it."""
    number = np.arange(n) if groups is None else groups
    first = np.unique(number, return_index=True)[1]  # copies of a row move no other to another fold
    drawn = np.random.default_rng(0).permutation(len(first)) % min(most, len(first))
    return drawn[first.argsort().argsort()[number]].astype(np.intp)


def local_scale(
    ridge: Ridge, size: Array, model: Fit, alpha: float, weight: Array, rows: Rows
) -> tuple[Array, Array, float]:
    """Return coefficients of the scale of residuals of ``size`` (n,), its values at ``rows``, and the least scale.

    The scale is a ridge fit to the sizes with the row weights of ``model``, at the ridge that makes intervals of these
    rows narrowest, each left out; the constant 1 (coefficients 0) where no ridge makes them narrower than that.
    """
    best = (np.zeros_like(model.coef), np.ones(len(rows)), 1.0)
    mean = float(weight @ size) / max(float(weight.sum()), np.finfo(float).tiny)
    if not mean > 0:
        return best
    seen = size[rows]
    narrowest = _width(seen, best[1], weight[rows])
    least = INTERVALS.least_scale * mean

    def scale_of(residual: Array) -> Array:
        return np.asarray(np.maximum(seen - residual, least))

    alphas = alpha * np.array(INTERVALS.ridges)
    if len(rows) < len(size):  # each fit to many rows is a pass over all
        widths = [_width(seen, scale_of(fit.loo), weight[rows]) for fit in ridge.path(size, model.weight, alphas, rows)]
        alphas = alphas[[np.argmin(widths)]]
    for one in alphas:
        fit = ridge.solve(size, model.weight, float(one))
        scale = scale_of(fit.loo[rows])
        width = _width(seen, scale, weight[rows])
        if width < narrowest:
            narrowest = width
            best = (fit.coef, scale, least)
    return best


def _width(size: Array, scale: Array, weight: Array) -> float:
    """Return half the mean width of intervals of coverage .9 with this scale."""
    order = np.argsort(size / scale)
    reach = np.cumsum(weight[order])
    k = int(np.searchsorted(reach, 0.9 * reach[-1]))  # at the default coverage
    return float(size[order[k]] / scale[order[k]] * (weight @ scale) / reach[-1])


def interval(held: HeldOutFits, values: Array, coverage: float, groups: GroupPair | None = None) -> Array:
    """Return the lower and upper ends (n_new, 2) from the columns of ``held`` at the new rows, ``values`` (n_new, K+1).

    With ``groups``, of the training rows given and of the new ones, each group has its own quantiles.

    Raises ValueError for a coverage outside (0, 1) or one that asks for more rows than there are; of a group that is
    a warning, and its intervals have no ends.
    """
    if groups is None:
        return _interval(held, values, coverage)
    share = check_number("coverage", coverage, 0, 1)
    of = grouped(groups, held, len(values))
    parts = [held.of_rows(of.own == k) for k in range(len(of.names))]
    counts = np.array([part.weight.sum() for part in parts])
    names = [f"group {name!r}" for name in of.names]
    few = too_few(share, counts, names, "Their intervals have no ends.")
    for name, part, count, short in zip(names, parts, counts, few):
        if not short and count < len(part.weight) / 2:
            warn_user(f"Of {name} only {count:.0f} of {len(part.weight)} training rows count: the others are named "
                      "corrupt, or have little weight. Its intervals are for targets like these. Use SVR for all rows.")
    ends = np.tile([-np.inf, np.inf], (len(values), 1))
    for k in np.flatnonzero(~few):
        ends[of.new == k] = _interval(parts[k], values[of.new == k], share)
    return ends


def _interval(held: HeldOutFits, values: Array, coverage: float) -> Array:
    share = check_coverage(coverage, float(held.weight.sum()))
    needed = share * (held.weight.sum() + 1) * (1 - ROUNDING)
    order = np.lexsort((held.distance, held.fold))
    start = np.searchsorted(held.fold[order], np.arange(values.shape[1]))
    rows = (held.distance[order], held.weight[order].astype(np.float64), start, needed)
    centre = np.ascontiguousarray(values[:, :-1], dtype=np.float64)
    scale = np.maximum(values[:, -1].astype(np.float64), held.least)
    upper = np.empty(len(values))
    below = np.empty(len(values))
    upper_ends(centre, scale, *rows, upper)
    upper_ends(-centre, scale, *rows, below)
    return np.sort(np.column_stack([-below, upper]), axis=1)  # where a low coverage has crossed the ends


@compile_kernel("Tuple((int64, float64))(float64[::1], float64, float64[::1], int64[::1], int64[::1])")
def farthest(centre: Array, scale: float, distance: Array, start: Rows, last: Rows) -> tuple[int, float]:
    """Return the fold of the farthest end centre + scale * distance, and that end; -1 where no row is left.

    Of fold k the rows start[k] to last[k] are left, whose ``distance`` grows.
    """
    best = -1
    end = -np.inf
    for k in range(last.size):
        if last[k] >= start[k]:
            reached = centre[k] + scale * distance[last[k]]
            if reached > end:
                best = k
                end = reached
    return best, end


@compile_kernel("void(f8[:,::1], f8[::1], f8[::1], f8[::1], i8[::1], f8, f8[::1])", makes_arrays=True)
def upper_ends(
    centre: Array, scale: Array, distance: Array, weight: Array, start: Rows, needed: float, out: Array
) -> None:
    """Put into ``out`` (m,) the least of each row's ends centre + scale * distance up to which they weigh ``needed``.

    ``centre`` (m, K) are the values of the K fits, ``scale`` (m,) is the local one. Fit k left out the training rows
    start[k] to start[k + 1]. The farthest end is dropped, and then the next, as long as the others weigh enough: those
    are few, where sorting takes all.
    """
    total = weight.sum()
    for row in range(out.size):
        last = start[1:] - 1
        left = total
        best, end = farthest(centre[row], scale[row], distance, start, last)
        while best >= 0:
            out[row] = end
            left -= weight[last[best]]
            if left < needed:
                break
            last[best] -= 1
            best, end = farthest(centre[row], scale[row], distance, start, last)


class ExpansionIntervals(Mixed):
    """Intervals of a regressor that predicts with its ``expansion_`` and holds fits without its rows."""

    expansion_: KernelExpansion
    held_out_: Any  # HeldOutFits, or Later

    def predict_interval(
        self, X: MatrixLike, coverage: float = 0.9, *, groups: GroupPair | None = None
    ) -> Array:
        """Return the lower and upper ends, shape (n, 2), of intervals that hold new targets with this probability.

        The intervals are CV+, scaled locally: see :mod:`buttress.certainty.intervals` for what is promised. With
        ``groups``, a pair of labels of the training rows as given to ``fit`` and of the rows of X, of each group: of a
        robust fit, of its rows that are not named corrupt, with a warning where these are less than half.

        Raises ValueError for a coverage outside (0, 1), or with fewer rows than coverage / (1 - coverage); of a group
        of so few a warning, and its intervals are infinite.
        """
        check_is_fitted(self)
        held: HeldOutFits = self.held_out_
        columns = KernelExpansion(self.expansion_.kernel, self.expansion_.centers, held.coef, held.intercept)
        return interval(held, columns(rows_to_score(self, X)), coverage, groups)
