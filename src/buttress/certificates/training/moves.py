"""What wrong targets can do to the predictions of squared losses.

Targets that may each be off by ``by``: f(x) moves by sum_S h_i d_i, |d_i| <= by_i, so k of them move it by the sum of
the k largest |h_i| by_i at most, which some do: exact.
"""

from dataclasses import dataclass

import numpy as np

from buttress._checks import Array, check_count
from buttress._types import MatrixLike, Predictor, VectorLike
from buttress.certificates.region import UNIT
from buttress.certificates.training.reading import Refit, check_reproduced, refit
from buttress.certificates.training.wrong import check_eligible


@dataclass(frozen=True)
class TrainingInterval:
    """Between what values predictions lie.

    Parameters
    ----------
    prediction : array of shape (m,)
    low, high : arrays of shape (m,)
        Proven: no data that were thought possible give a prediction outside. -inf and inf where nothing is proven.
    """

    prediction: Array
    low: Array
    high: Array


def training_moves(
    model: Predictor, X_train: MatrixLike, y_train: VectorLike, X: MatrixLike, *, by: VectorLike | float, rows: int,
    eligible: VectorLike | None = None, sample_weight: VectorLike | None = None,
) -> TrainingInterval:
    """Return an interval that holds each prediction if at most ``rows`` training targets are wrong by at most ``by``.

    Parameters
    ----------
    model : fitted regressor
        ``KernelRidge``, ``Ridge``, ``LinearRegression`` or ``GaussianProcessRegressor(optimizer=None)``, alone or
        behind steps of a pipeline that do not read the targets.
    X_train, y_train : arrays of shape (n, d) and (n,)
        What it was fitted to.
    X : array of shape (m, d)
    by : float or array of shape (n,)
        In the unit of the targets, >= 0.
    rows : int
        Most targets that are wrong, >= 0.
    eligible : bool array of shape (n,) or None
        Which targets may be wrong.
    sample_weight : array of shape (n,) or None
        What the model was fitted with.

    Returns
    -------
    TrainingInterval
        No smaller interval holds, up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from buttress import certificates
    >>> X, y = np.arange(5.0)[:, None], np.arange(5.0)
    >>> found = certificates.training_moves(LinearRegression().fit(X, y), X, y, [[2.0]], by=1.0, rows=2)
    >>> found.low.round(6), found.high.round(6)  # a mean of five, of which two are off by one
    (array([1.6]), array([2.4]))
    """
    found, y, prediction, away = predicted(model, X_train, y_train, X, sample_weight)
    reach = np.asarray(by, dtype=np.float64)
    if reach.shape not in ((), y.shape) or not (np.isfinite(reach) & (reach >= 0)).all():
        raise ValueError(f"by must be a number >= 0, or one for each of the {len(y)} training rows. Got {by!r}.")
    off = np.where(check_eligible(eligible, len(y)), reach, 0.0)
    size = top(np.abs(found.weights) * off, check_count("rows", rows, 0))
    slack = away + found.error * np.linalg.norm(off) + len(y) * UNIT * size
    return TrainingInterval(prediction, prediction - size - slack, prediction + size + slack)


def predicted(
    model: Predictor, X_train: MatrixLike, y_train: VectorLike, X: MatrixLike, sample_weight: VectorLike | None
) -> tuple[Refit, Array, Array, Array]:
    """Return the refit, the targets, the model's predictions, and how far the refit is from them."""
    if hasattr(model, "classes_"):
        raise ValueError(f"{type(model).__name__} predicts classes. Give a regressor, or use training_flips.")
    found = refit(model, X_train, X, sample_weight)
    y = np.asarray(y_train, dtype=np.float64)
    if y.shape != (found.weights.shape[1],) or not np.isfinite(y).all():
        raise ValueError(f"y_train must hold one finite target for each of the {found.weights.shape[1]} rows of "
                         "X_train. "
                         f"Got shape {y.shape}.")
    prediction = np.asarray(model.predict(X), dtype=np.float64).ravel()
    away = check_reproduced(model, found.weights @ y, prediction, float(np.ptp(y)))
    return found, y, prediction, away + found.error * np.linalg.norm(y)


def top(values: Array, k: int) -> Array:
    """Return the sum of the k largest positive entries along the last axis."""
    if k == 0:
        return np.zeros(values.shape[:-1])
    k = min(k, values.shape[-1])
    return np.maximum(np.partition(values, -k, axis=-1)[..., -k:], 0).sum(axis=-1)
