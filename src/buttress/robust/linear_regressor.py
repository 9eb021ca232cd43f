"""Linear regression that bears two rows in five being corrupt, in X and in y: least trimmed squares, then MM."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from buttress._checks import (
    Array,
    InterruptedWarning,
    check_count,
    check_limits,
    check_number,
    check_X,
    check_X_y,
    warn_user,
)
from buttress._rows import equal_rows
from buttress._threads import threads_for
from buttress.robust.design import check_contamination, warn_of_near_copies
from buttress.robust.kernel_regressor import FLOOR, centre_and_spread, chosen_inliers
from buttress.robust.report import row_keys
from buttress.solvers.contamination.residual_law import Explained, contaminated, explain, reweighed_steps
from buttress.solvers.contamination.trimmed import concentrate, least_scale, lts_scale, m_steps, smallest
from buttress.solvers.ridge.leave_one_out import FeatureRidge
from buttress.solvers.run import Budget

SEARCHED = 10_000  # rows that the starts are tried on, where there are more
FAR = 1e8  # widths from the centre of a column, beyond which an entry counts as so far
GAIN = 0.01  # nats a row by which the law must improve for another reweighting; less, and it chases its own tails


class RobustLinearRegressor(RegressorMixin, BaseEstimator):
    """Linear regression with high breakdown and high efficiency: multi-start LTS, an M-step, then reweighting.

    Least trimmed squares, the sum of the h smallest squared residuals plus alpha ||w||^2, is descended from several
    starts; from the best three, the scale held fixed, Tukey's bisquare loss is descended, as it is from least absolute
    deviations, and this last end stays unless another foretells left-out rows much better. Where many rows are bad
    that scale is too large, and bad rows nearby are half heard. So the rows that the bisquare has not rejected are
    fitted once more by least squares, each weighted by the probability that it is good, and again while left-out rows
    become much likelier by it. Of more than 10,000 rows a random 10,000 choose the start. ||w|| is taken in units of
    the columns' robust scales. Plain ridge regression stays where leave-one-out likelihood finds nothing wrong. Rows of
    equal x are left out together; of rows that all but repeat another a warning is given.

    Parameters
    ----------
    contamination : "auto" or float in [0, 0.5), default="auto"
        Share of corrupt rows; ``"auto"`` bears up to 45 per cent. A number is taken at its word, without the guard.
    alpha : float, default=1.0
        Ridge, > 0. The constant, counted from the median of y, has it too.
    fit_intercept : bool, default=True
    n_starts : int, default=10
        Random starts, used below 50 columns, next to three fixed ones.
    max_iter : int, default=100
        Most iterations of the M-step.
    max_time : float or None, default=None
        Seconds after which no more starts, nor iterations, are begun; the best of what is known stays.
    progress : bool, default=False
        Show a progress line.
    random_state : int, RandomState or None

    Attributes
    ----------
    coef_ : array of shape (d,)
    intercept_ : float
    inlier_mask_, outlier_proba_, weights_, loo_residual_, loo_sigma_, scale_, contamination_, agreement_, row_keys_
        As in :class:`buttress.RobustKernelRegressor`; ``weights_`` are 0 where the bisquare rejects a row, 1 throughout
        where the plain fit stays.
    clean_, n_iter_
        Whether the guard found nothing wrong; iterations of the M-step.

    References
    ----------
    Rousseeuw, Least median of squares regression, 1984; Yohai, High breakdown-point and high efficiency robust
    estimates for regression, 1987; Gervini & Yohai, A class of robust and fully efficient regression estimators, 2002
    (reweighting; there by hard cutoffs).

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import RobustLinearRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> y = 3 * X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=100)
    >>> X[:40], y[:40] = 100.0, 1e4
    >>> model = RobustLinearRegressor(alpha=1e-3, random_state=0).fit(X, y)
    >>> model.coef_.round(1)
    array([ 3., -1.])
    """

    def __init__(
        self,
        *,
        contamination: float | str = "auto",
        alpha: float = 1.0,
        fit_intercept: bool = True,
        n_starts: int = 10,
        max_iter: int = 100,
        max_time: float | None = None,
        progress: bool = False,
        random_state: Any = None,
    ):
        self.contamination = contamination
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.max_time = max_time
        self.progress = progress
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "RobustLinearRegressor":
        """Fit to X of shape (n, d) and real targets y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100, naming the column.
        """
        budget = Budget(self.max_time, progress=self.progress, name=type(self).__name__)
        share = check_contamination(self.contamination)
        check_number("alpha", self.alpha, 0)
        check_count("n_starts", self.n_starts, 0)
        check_count("max_iter", self.max_iter)
        check_limits(None, self.max_time)
        X, y = check_X_y(self, X, y, numeric_target=True)
        self.row_keys_ = row_keys(X, y)
        warn_of_near_copies("linear", X)
        rng = check_random_state(self.random_state)
        intercept = bool(self.fit_intercept)
        Z, centre, width = robust_columns(X, intercept)
        middle, unit = centre_and_spread(y.astype(np.float64))
        middle = middle if intercept else 0.0
        ridge, y = FeatureRidge(Z, groups=equal_rows(X)), (y - middle) / unit
        with threads_for(Z.size * Z.shape[1]):
            fit, known, votes = self._fitted(ridge, y, share, rng, budget)
        budget.tell(self.n_iter_)
        slope = fit.coef[:-1] if intercept else fit.coef
        self.coef_ = slope * unit / width
        constant = unit * float(fit.coef[-1]) if intercept else 0.0
        self.intercept_ = middle + constant - float(centre @ self.coef_)
        self.weights_, self.outlier_proba_ = fit.weight, 1 - known.inlier
        self.loo_residual_, self.scale_ = fit.loo * unit, known.law.scale * unit
        self.loo_sigma_ = fit.loo / (known.law.scale * fit.spread)
        self.inlier_mask_ = chosen_inliers(self.outlier_proba_, share)
        self.contamination_ = float(self.outlier_proba_.mean()) if share is None else share
        self.agreement_ = np.mean(votes == self.inlier_mask_[None, :], axis=0)
        return self

    def _fitted(
        self, ridge: FeatureRidge, y: Array, share: float | None, rng: Any, budget: Budget
    ) -> tuple[Any, Any, Any]:
        """Return the fit, its residuals explained, and which rows each start took as good, shape (starts, n)."""
        ones = np.ones(len(y))
        plain = ridge.solve(y, ones, self.alpha)
        law: dict[str, Any] = {"share": share, "floor": max(FLOOR, least_scale(y))}
        known = explain(plain.loo, plain.spread, **{**law, "share": share or None})
        self.clean_, self.n_iter_ = share == 0 or not y.any(), 1
        if self.clean_:
            return plain, replace(known, inlier=ones), ones[None, :] > 0
        rows = part = Rows(ridge, y, self.alpha, trimmed_size(len(y), share))
        if len(y) > SEARCHED:
            part = rows.drawn(rng.choice(len(y), SEARCHED, replace=False), share)
        fits, ends = least_trimmed(part, n_starts=self.n_starts, rng=rng, budget=budget)
        votes = np.array([_kept(y - ridge.Z @ coef, law["floor"]) for coef in ends])
        try:
            fit, robust, self.n_iter_ = self._efficient(rows, part, fits, law, budget)
        except KeyboardInterrupt:
            warn_user("The fit was interrupted. The model is of least trimmed squares: it bears bad rows, but hears "
                      "little more than half of the good ones.", InterruptedWarning)
            fit = rows.trimmed(fits[0])
            return fit, explain(fit.loo, fit.spread, **law), votes
        needed = needed_gain(plain.spread)
        self.clean_ = share is None and not (contaminated(known, robust, needed) or plainly_contaminated(known, robust))
        if self.clean_:
            return plain, known, votes
        steps = reweighed_steps(ridge, y, fit, robust, alpha=self.alpha, **law)
        return *budget.run(steps, tol=GAIN, max_iter=self.max_iter, inner=False).state, votes

    def _efficient(
        self, rows: "Rows", part: "Rows", fits: list[Any], law: dict[str, Any], budget: Budget
    ) -> tuple[Any, Any, int]:
        """Return the M-fit to all rows, its residuals explained and its iterations, from fits to some.

        The last of those is the cautious one.
        """
        found = [self._m_step(part, fit, law, budget) for fit in fits]
        # A fit that trusts few rows explains those too well: it must beat the cautious one as a robust fit the plain.
        best = max(found, key=lambda result: result[1].likelihood)
        best = best if contaminated(found[-1][1], best[1]) else found[-1]
        return best if rows is part else self._m_step(rows, rows.trimmed(best[0]), law, budget)

    def _m_step(self, rows: "Rows", start: Any, law: dict[str, Any], budget: Budget) -> tuple[Any, Any, int]:
        """Return the M-fit from a trimmed fit, its leave-one-out residuals explained, and its iterations."""
        y, h, residual = rows.y, rows.h, rows.y - start.values
        spent = min(float(np.sum(1 - 1 / start.spread**2)), 0.5 * h)  # degrees of freedom the h rows paid for
        scale = max(lts_scale(residual, len(y) // 2 + 1) * np.sqrt(h / (h - spent)), law["floor"])
        steps = m_steps(rows.ridge, y, residual, alpha=rows.alpha, scale=scale)
        outcome = budget.run(steps, tol=1e-4, max_iter=self.max_iter, warn=("max_iter",))
        fit, _ = outcome.state
        return fit, explain(fit.loo, fit.spread, **law), max(outcome.n_iter, 1)

    def predict(self, X: Any) -> Array:
        """Return f(x) for each row of X (n, d)."""
        check_is_fitted(self)
        return check_X(self, X) @ self.coef_ + self.intercept_


def plainly_contaminated(plain: Explained, robust: Explained) -> bool:
    """Say whether the plain fit's own residuals tell of corrupt rows, so that any gain of the robust one will do.

    Where targets scatter widely and bad rows pull little, it gains but .02 nats a row. On clean data, skewed or with
    heavy tails, plain residuals have an outlier density of at most .09; with a fifth corrupt, one of .19 and more.
    """
    return plain.law.share > 0.12 and (robust.likelihood - plain.likelihood) * len(robust.inlier) > 6


def needed_gain(spread: Array) -> float:
    """Return the nats a row by which a robust fit must foretell left-out rows better than the plain one.

    Where columns are many for the rows, a fit that may choose its rows gains without cause: on clean data up to .1
    with a quarter as many columns as rows, .15 to .35 with a third and .1 to .5 with half as many. With 20 or 40 per
    cent bad rows it gains .2, .3 and .4 at least. With more columns than rows the ridge rules, and nothing is gained.
    ``spread`` (n,) is the plain fit's, and tells its mean leverage.
    """
    leverage = float(np.mean(1 - 1 / spread**2))
    return 0.1 + max(min(leverage, 1 - leverage) - 0.2, 0)


def robust_columns(X: Array, intercept: bool) -> tuple[Array, Array, Array]:
    """Return (Z, centre, width): columns less their median over the median size of what is not at it, plus ones.

    Neither is a moment: in a column that is not mostly one value no minority of rows moves them beyond bounds. Entries
    beyond 1e8 widths become that: squared, they would leave nothing of the other rows' digits.
    """
    n, d = X.shape
    centre, width = np.zeros(d), np.full(d, 1.4826)
    for j in range(d):
        column = np.ascontiguousarray(X[:, j])  # medians of contiguous numbers take a third of the time
        centre[j] = np.median(column) if intercept else 0.0
        off = np.abs(column - centre[j])
        if off.any():
            width[j] *= np.median(off[off > 0])
    Z = np.ones((n, d + intercept))
    np.divide(np.subtract(X, centre, out=Z[:, :d]), width, out=Z[:, :d])
    return np.clip(Z, -FAR, FAR, out=Z), centre, width


@dataclass(frozen=True)
class Rows:
    """Rows of features and their targets, the ridge that suits their number, and how many of them are trusted."""

    ridge: FeatureRidge
    y: Array
    alpha: float
    h: int

    def drawn(self, part: NDArray[np.intp], share: float | None) -> "Rows":
        """Return the numbered rows."""
        Z = self.ridge.Z[part]
        return Rows(FeatureRidge(Z, groups=equal_rows(Z)), self.y[part], self.alpha * len(part) / len(self.y),
                    trimmed_size(len(part), share))

    def trimmed(self, fit: Any) -> Any:
        """Return the fit to the rows that ``fit`` leaves the smallest residuals."""
        return self.ridge.solve(self.y, smallest(np.abs(self.y - self.ridge.Z @ fit.coef), self.h), self.alpha)


def least_trimmed(rows: Rows, *, n_starts: int, rng: Any, budget: Budget) -> tuple[list[Any], list[Array]]:
    """Return the three fits of least trimmed objective and one of least absolute deviations; and each start's end.

    Starts: the h targets nearest their middle, reweighted least absolute deviations, a trimmed gradient descent from
    zero, and random subsets of d + 2 rows where there are few columns.
    """
    ridge, y, alpha, h = rows.ridge, rows.y, rows.alpha, rows.h
    n, m = ridge.Z.shape
    absolute = _absolute(ridge, y, alpha)
    starts = [smallest(np.abs(y), h), smallest(np.abs(absolute), h),
              smallest(np.abs(_trimmed_descent(ridge.Z, y, h)), h)]
    for _ in range(n_starts if m < 50 and not budget.spent() else 0):
        part = rng.permutation(n)[: min(n, m + 2)]
        exact = lstsq(ridge.Z[part], y[part], check_finite=False)[0]
        starts.append(smallest(np.abs(y - ridge.Z @ exact), h))
    bounded = ridge.solve(y, 1 / np.maximum(np.abs(absolute), 1e-3), alpha)
    ends = [budget.run(concentrate(ridge, y, u, alpha=alpha, h=h), max_iter=30, progress=False) for u in starts]
    different = {end.state[1].tobytes(): end for end in ends}.values()
    best = [end.state[0] for end in sorted(different, key=lambda end: end.objective)[:3]]
    return [*best, bounded], [end.state[0].coef for end in ends]


def trimmed_size(n: int, share: float | None) -> int:
    """Return how many of n rows least trimmed squares keeps."""
    return max(int(min(0.55, 1 - (share or 0)) * n), min(n, 2))


def _kept(residual: Array, floor: float) -> NDArray[np.bool_]:
    r = np.abs(residual)
    return r <= 2.5 * max(lts_scale(r, len(r) // 2 + 1), floor)


def _absolute(ridge: FeatureRidge, y: Array, alpha: float) -> Array:
    """Return residuals of 30 rounds of reweighting towards least absolute deviations."""
    r = y
    for _ in range(30):
        r = y - ridge.solve(y, 1 / np.maximum(np.abs(r), 1e-3), alpha).values
    return r


def _trimmed_descent(Z: Array, y: Array, h: int) -> Array:
    """Return residuals of 100 gradient steps on the h smallest, each of length one over their curvature."""
    w = np.zeros(Z.shape[1])
    for _ in range(100):
        r = Z @ w - y
        kept = np.flatnonzero(smallest(np.abs(r), h))
        g = Z[kept].T @ r[kept]
        Zg = Z[kept] @ g
        curvature = Zg @ Zg
        if not curvature > 0:
            break
        w = w - (g @ g) / curvature * g
    return y - Z @ w
