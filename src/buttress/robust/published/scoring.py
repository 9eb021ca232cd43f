"""A score for model selection on folds that are themselves corrupted."""

from typing import Any

import numpy as np
from sklearn.metrics import make_scorer
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from buttress._checks import Array, check_number
from buttress._types import VectorLike
from buttress._weights import check_weights, weighted_median

NORMAL_MEDIAN = 0.6744898  # of |z|, z standard normal


def bounded_loss(
    y_true: VectorLike, y_pred: VectorLike, *, bound: float | None = None, sample_weight: VectorLike | None = None
) -> float:
    """Return the mean of min(|y_true - y_pred|, bound)^2.

    The squared error of a corrupted row is unbounded, so that on a contaminated fold a few rows decide which model is
    best. Here each counts for bound^2 at most, whatever the model.

    Parameters
    ----------
    y_true, y_pred : arrays of shape (n,)
    bound : float or None, default=None
        Largest error that counts, > 0, in units of y. None takes the median of |y_true - median(y_true)| / 0.6745 (or,
        where that is 0, the mean of it): an error as large as the spread of y itself is as bad as any. It must not
        depend on the model, or a bad one would be allowed a larger bound.
    sample_weight : array of shape (n,) or None

    Raises
    ------
    ValueError
        For a bound that is not positive, or arrays of different lengths.

    Examples
    --------
    >>> from buttress import bounded_loss
    >>> bounded_loss([0.0, 1.0, 2.0], [0.0, 1.0, 1e9], bound=3.0)
    3.0
    """
    true: Array = column_or_1d(check_array(y_true, ensure_2d=False, dtype=np.float64, input_name="y_true"))
    predicted: Array = column_or_1d(check_array(y_pred, ensure_2d=False, dtype=np.float64, input_name="y_pred"))
    check_consistent_length(true, predicted)
    weight = check_weights(sample_weight, true)
    if bound is None:
        spread = np.abs(true - weighted_median(true, weight))
        limit = weighted_median(spread, weight) / NORMAL_MEDIAN or float(np.average(spread, weights=weight)) or 1.0
    else:
        limit = check_number("bound", bound, 0)
    return float(np.average(np.minimum(np.abs(true - predicted), limit) ** 2, weights=weight))


def bounded_loss_scorer(bound: float | None = None) -> Any:
    """Return :func:`bounded_loss` as a scorer (its negative) for grid search and cross-validation.

    Give ``bound`` a number where folds are small: the default is taken from each fold anew. With metadata routing,
    ``bounded_loss_scorer().set_score_request(sample_weight=True)`` passes weights on.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from buttress import KernelRegressor, bounded_loss_scorer
    >>> search = GridSearchCV(KernelRegressor(), {"alpha": [0.1, 1.0]}, scoring=bounded_loss_scorer())
    """
    return make_scorer(bounded_loss, greater_is_better=False, bound=bound)
