"""What every estimator has to beat: the majority or the mean, a linear model, and gradient boosting.

Gradient boosting is fitted to the columns as they are, with missing values and categories; the others to the prepared
features. For a skewed positive target the linear model and boosting are also fitted to its logarithm.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from buttress._types import Labels, Predictor, Supervised
from buttress.audit.moves.search import worst_within
from buttress.audit.reading.cautions import skewed
from buttress.audit.reading.table import Table

MAJORITY = "majority class"
MEAN = "mean of the target"
LOGISTIC = "logistic regression"
RIDGE = "ridge regression"
BOOSTING = "gradient boosting"
OF_LOG = " of the logarithm"
GUESSES = (MAJORITY, MEAN)
LINEAR = (LOGISTIC, RIDGE)
SIMPLER = (*LINEAR, RIDGE + OF_LOG, BOOSTING, BOOSTING + OF_LOG)  # of equals the first is recommended
NAMES = (*GUESSES, *SIMPLER)


def baselines(table: Table, task: str, seed: int) -> dict[str, Supervised]:
    """Return the unfitted baselines of a task by name, from the least to the most able."""
    categorical = list(range(len(table.numeric), len(table.numeric) + len(table.categorical)))
    if task == "classification":
        boosting = HistGradientBoostingClassifier(categorical_features=categorical, random_state=seed)
        return {MAJORITY: DummyClassifier(strategy="prior"), LOGISTIC: LogisticRegression(max_iter=1000),
                BOOSTING: boosting}
    regression = HistGradientBoostingRegressor(categorical_features=categorical, random_state=seed)
    found: dict[str, Supervised] = {MEAN: DummyRegressor(), RIDGE: Ridge(), BOOSTING: regression}
    if takes_logarithms(table, task):
        found[RIDGE + OF_LOG] = _of_logarithm(Ridge())
        found[BOOSTING + OF_LOG] = _of_logarithm(regression)
    return found


def _of_logarithm(regressor: Supervised) -> Supervised:
    return TransformedTargetRegressor(regressor, func=np.log, inverse_func=np.exp)


def takes_logarithms(table: Table, task: str) -> bool:
    """Say whether the target is positive and skewed, so that its logarithm is worth a fit."""
    return task == "regression" and bool(table.target.min() > 0) and skewed(table.target)


def reads_columns(name: str) -> bool:
    """Say whether a baseline is fitted to the columns as they are rather than to the prepared features."""
    return name.startswith(BOOSTING)


def attacked_by_columns(
    model: Predictor, X: NDArray[np.float64], y: Labels, eps: float, n_numeric: int, seed: int
) -> NDArray[np.bool_]:
    """Say of each row whether it stays right under the worst moves of its numbers found by trying.

    A greedy search by the margin of the true class in ``predict_proba``. Missing entries and categories stay. It is a
    lower bound on what an attack can do, as any attack is.
    """
    reach = np.where(np.arange(X.shape[1]) < n_numeric, eps, 0.0)
    return np.asarray((model.predict(X) == y) & stands_in_box(model, X, y, (X - reach, X + reach), seed))


def stands_in_box(
    model: Predictor, X: NDArray[np.float64], y: Labels, box: tuple[NDArray[np.float64], NDArray[np.float64]], seed: int
) -> NDArray[np.bool_]:
    """Say of each row whether the worst move found by trying in its box, two ends of shape (n, d), leaves it right."""
    [(worst, _)] = worst_within(lambda rows: -_margin(model, rows, np.resize(y, len(rows))), X, [box], seed)
    return np.asarray(model.predict(worst) == y)


def _margin(model: Predictor, X: NDArray[np.float64], y: Labels) -> NDArray[np.float64]:
    """Return the probability of the true class less that of the likeliest other."""
    proba = np.array(model.predict_proba(X))  # type: ignore[attr-defined]
    rows, place = np.arange(len(y)), np.searchsorted(model.classes_, y)  # type: ignore[attr-defined]
    true = proba[rows, place]
    proba[rows, place] = -np.inf
    return np.asarray(true - proba.max(axis=1))
