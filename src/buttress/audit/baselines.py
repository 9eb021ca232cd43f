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

from buttress._types import Predictor, Supervised
from buttress.audit.protocols import Labels
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
ITERATIONS = 1000  # most of the logistic regression
SWEEPS = 2  # over the columns, in an attack on a model without gradients
CORNERS = 20  # of the ball, tried at random first


def baselines(table: Table, task: str, seed: int) -> dict[str, Supervised]:
    """Return the unfitted baselines of a task by name, from the least to the most able."""
    categorical = list(range(len(table.numeric), len(table.numeric) + len(table.categorical)))
    if task == "classification":
        boosting = HistGradientBoostingClassifier(categorical_features=categorical, random_state=seed)
        return {MAJORITY: DummyClassifier(strategy="prior"), LOGISTIC: LogisticRegression(max_iter=ITERATIONS),
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
    """Say of each row whether it stays right under the worst moves found by trying: corners, then column by column.

    A greedy search by ``predict_proba``: each numeric column in turn goes to x - eps or x + eps where that lowers the
    margin of the true class. Missing entries and categories stay. It is a lower bound on what an attack can do, as any
    attack is.
    """
    rng = np.random.default_rng(seed)
    worst, lowest = X.copy(), _margin(model, X, y)

    def keep(trials: list[NDArray[np.float64]]) -> None:
        """Keep the first of the worst trials of each row; all are asked for at once, which takes less than in turns."""
        margins = _margin(model, np.concatenate(trials), np.tile(y, len(trials)))
        for trial, margin in zip(trials, margins.reshape(len(trials), len(y)), strict=True):
            better = margin < lowest
            worst[better] = trial[better]
            lowest[better] = margin[better]

    def corner() -> NDArray[np.float64]:
        trial = X.copy()
        trial[:, :n_numeric] += eps * rng.choice([-1.0, 1.0], size=(len(X), n_numeric))
        return trial

    def moved(j: int, move: float) -> NDArray[np.float64]:
        trial = worst.copy()
        trial[:, j] = X[:, j] + move
        return trial

    keep([corner() for _ in range(CORNERS)])
    for _ in range(SWEEPS):
        for j in rng.permutation(n_numeric):
            keep([moved(j, move) for move in (-eps, eps)])
    return np.asarray((model.predict(X) == y) & (model.predict(worst) == y))


def _margin(model: Predictor, X: NDArray[np.float64], y: Labels) -> NDArray[np.float64]:
    """Return the probability of the true class less that of the likeliest other."""
    proba = np.array(model.predict_proba(X))  # type: ignore[attr-defined]
    rows, place = np.arange(len(y)), np.searchsorted(model.classes_, y)  # type: ignore[attr-defined]
    true = proba[rows, place]
    proba[rows, place] = -np.inf
    return np.asarray(true - proba.max(axis=1))
