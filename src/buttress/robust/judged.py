"""What a robust regression says of its rows: who is corrupt, how many, and when they may be genuine.

A mixture of good and corrupt targets explains three kinds of clean data well: one side of a step, or a group with rules
of its own; targets of which many are equal, such as sales that are mostly 0; and the long tail of skewed targets. The
data do not say which it is. So the fit stands, and a warning says what was seen.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array, warn_user
from buttress._rows import median
from buttress.robust.tuning import MIXTURE
from buttress.solvers.contamination.residual_law import Fitted
from buttress.solvers.contamination.share_interval import around
from buttress.solvers.contamination.trimmed import least_scale, lts_scale, smallest
from buttress.solvers.contamination.tuning import TRIMMING


@dataclass(frozen=True)
class RobustFit(Fitted):
    """A fit with its ridge, whether it is the plain one, and which rows each start took as good, (starts, n),
    None where the starts saw a part of the rows.

    ``near`` are the coefficients of the S estimate of a linear fit.
    """

    alpha: float
    clean: bool
    votes: NDArray[np.bool_] | None
    near: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def weight(self) -> Array:
        """How far each row is believed, (n,): all rows where the plain fit stays."""
        return np.ones(len(self.known.responsibility)) if self.clean else self.known.responsibility


def scaled_targets(y: Array, centred: bool = True) -> tuple[Array, float, float]:
    """Return y less its median, over the scale of its middle half, or of more if that half is constant; and the two.

    Where targets are not to be ``centred`` the first is 0.
    """
    y = y.astype(np.float64)
    middle = float(median(y))
    parts = (len(y) // 2 + 1, 3 * len(y) // 4 + 1, len(y))
    unit = next((scale for scale in (lts_scale(y - middle, part) for part in parts) if scale > 0), 1.0)
    middle = middle if centred else 0.0
    return (y - middle) / unit, middle, unit


def least_residual_scale(y: Array) -> float:
    """Return the least inlier scale of a law of residuals of y (n,)."""
    return max(MIXTURE.least_scale, least_scale(y))


def chosen_inliers(outlier_proba: Array, share: float | None) -> NDArray[np.bool_]:
    """Return the rows that are probably good; with a share given, all rows except that share of likeliest outliers.

    A row with outlier probability 0 is always an inlier.
    """
    if share is None:
        return outlier_proba <= 0.5
    return (smallest(-outlier_proba, round(share * len(outlier_proba))) == 0) | (outlier_proba == 0)


def counted(outlier_proba: Array, shares: Array, *, none_too: bool) -> tuple[NDArray[np.bool_], float, Array]:
    """Return the rows taken as good, the share of corrupt ones and its interval.

    ``shares`` (2,) bound the share; ``none_too`` says that none may be corrupt.
    """
    share = float(outlier_proba.mean())
    return chosen_inliers(outlier_proba, None), share, around(share, shares, none_too=none_too)


def keep_share(
    model: Any, wrong: Array, share: float | None, shares: Callable[[], Array], *, none_too: bool
) -> NDArray[np.bool_]:
    """Set the share of corrupt rows and its interval, made once it is asked for, and return the rows taken as good."""
    estimate = float(wrong.mean()) if share is None else share
    model.contamination_ = estimate
    model.contamination_interval_ = lambda: (
        around(estimate, shares(), none_too=none_too) if share is None else np.full(2, estimate))
    return chosen_inliers(wrong, share)


def keep_rows(
    model: Any, robust: RobustFit, sigma: Array, share: float | None, unit: float, shares: Callable[[], Array], *,
    whole: bool,
) -> None:
    """Set the attributes that speak of rows, from a fit to targets in this unit, ``whole`` if nothing was left undone.

    ``shares`` returns the interval of the share of corrupt rows where none is given, once it is asked for.
    """
    wrong = 1 - robust.known.responsibility
    model.clean_ = robust.clean
    model.n_iter_ = robust.n_iter
    model.converged_ = robust.converged and whole
    model.weights_ = robust.fit.weight
    model.outlier_proba_ = wrong
    model.loo_residual_ = robust.fit.loo * unit
    model.loo_sigma_ = sigma
    model.scale_ = robust.known.law.scale * unit
    model.inlier_mask_ = keep_share(model, wrong, share, shares, none_too=robust.clean)
    agree = np.ones((1, len(sigma))) if robust.votes is None else robust.votes == model.inlier_mask_
    model.agreement_ = np.mean(agree, axis=0)


def warn_of_misleading(y: Array, residual: Array, bad: NDArray[np.bool_], *, together: bool) -> None:
    """Warn where rows named corrupt, ``bad`` (n,), may well be genuine.

    ``residual`` (n,) are targets y less what is expected of them; ``together`` says whether bad rows lie together in X.
    """
    seen = what_they_share(y, residual, bad, together=together)
    if seen is not None:
        what, fix = seen
        warn_user(f"{bad.sum()} of {len(y)} rows are named corrupt, but {what}. Look at them with outlier_report. If "
                  f"their targets are right, {fix}, or fit with contamination=0.")


def what_they_share(
    y: Array, residual: Array, bad: NDArray[np.bool_], *, together: bool
) -> tuple[str, str] | None:
    """Return what bad rows have in common with genuine ones, and what to do then; None where nothing, or they are few.
    """
    if not enough(bad):
        return None
    if together:
        return ("they lie together in X, like one side of a step of the function, or a group with its own rules",
                "give the fit a column that tells the two sides apart")
    values, counts = np.unique(y, return_counts=True)
    most = int(counts.argmax())
    if counts[most] > TRIMMING.shared_share * len(y) and (y[~bad] == values[most]).any():
        return (f"{counts[most] / len(y):.0%} of the targets are equal ({values[most]:g}), so the fit may take these "
                "as the good rows and the others as corrupt",
                "fit two models, one for whether a target has this value, and one for the other targets")
    above = float(np.mean(residual[bad] > 0))
    if max(above, 1 - above) >= 0.95:  # nearly all on one side
        side = "above" if above > 0.5 else "below"
        return (f"nearly all of them lie {side} what is expected, like the long tail of prices or salaries",
                "fit the logarithm of the targets" if side == "above" and y.min() > 0 else
                "fit a function of the targets that shortens the tail")
    return None


def enough(bad: NDArray[np.bool_]) -> bool:
    """Say whether the rows named corrupt are enough to ask what they have in common.

    A fiftieth is the most that may be named on clean data in silence; fewer than ten have something in common by
    chance.
    """
    return bool(bad.sum() >= max(0.02 * len(bad), 10))
