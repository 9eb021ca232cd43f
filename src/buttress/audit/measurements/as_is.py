"""Every estimator fitted to the training rows as they are, and its score on the held-out rows as they are."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._types import Predictor
from buttress.audit.fitted import on_prepared
from buttress.audit.measuring.cells import accuracy, median_error, r2, rmse
from buttress.audit.measuring.fitting import fitted
from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.split_table import SplitTable

OF_CLASSES = {"as_is": "accuracy on held-out rows as they are"}
OF_NUMBERS = {
    "as_is": "RMSE on held-out rows as they are",
    "r2": "R²: share of the variance explained, 1 at best, 0 for the mean",
    "median": "median absolute error on them, which a few corrupt targets do not move",
}


def _take(split: SplitTable, measured: Measured) -> Course:
    found = Measured(columns=OF_CLASSES if split.classifies else OF_NUMBERS, on={
        "rows that models are trained on": f"{len(split.train)} of {split.sides['train']}",
        "rows held out to score them": f"{len(split.test)} of {split.sides['test']}"})
    found.cells = {key: {} for key in found.columns}
    for k, (name, estimator) in enumerate(split.entries.items()):
        yield f"{name}: as it is", k / len(split.entries)
        found.models[name] = model = _model(split, name, estimator, found)
        _score(split, name, model.predict(split.held_out(name)), found)
    return found


def _model(split: SplitTable, name: str, estimator: Predictor, found: Measured) -> Predictor:
    if split.yours is not None and name == split.yours.name:
        return split.yours.model if split.in_place(name) else on_prepared(estimator, split.features.scaler)
    fit = fitted(split, name, split.unfitted[name], split.train.y)
    found.notes += fit.notes
    found.unfinished += [] if fit.converged else [name]
    return fit.model


def _score(split: SplitTable, name: str, predicted: NDArray[Any], found: Measured) -> None:
    y, seed = split.test.y, split.options.seed
    if split.classifies:
        found.losses[name] = (predicted != y).astype(np.float64)
        found.cells["as_is"][name] = accuracy(predicted == y)
        return
    residual = predicted - y
    found.losses[name] = residual**2
    for key, score in (("as_is", rmse(residual, seed)), ("r2", r2(residual, y, seed)),
                       ("median", median_error(residual, seed))):
        found.cells[key][name] = score


AS_IS = Measurement("scores on the rows as they are", _take, Cost(4.0, rows=1.3))
