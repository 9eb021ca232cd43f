"""Every estimator fitted to the training rows as they are, and its score on the held-out rows as they are."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._types import Predictor
from buttress.audit.fitted import on_prepared
from buttress.audit.measuring.cells import accuracy, auc, balanced_accuracy, mean_loss, median_error, r2, rmse
from buttress.audit.measuring.fitting import answers, fitted
from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.split_table import SplitTable

OF_CLASSES = {
    "as_is": "accuracy on held-out rows as they are",
    "balanced": "balanced accuracy: the mean over the classes of the share of each that is right",
    "auc": "area under the ROC curve: how often a row of a class scores higher for it than a row of another",
    "log_loss": "mean of -log of the probability given to the true class; lower is better",
}
OF_NUMBERS = {
    "as_is": "RMSE on held-out rows as they are",
    "r2": "R²: share of the variance explained, 1 at best, 0 for the mean",
    "mae": "mean absolute error on them",
    "median": "median absolute error on them, which a few corrupt targets do not move",
}


def _take(split: SplitTable, measured: Measured) -> Course:
    result = Measured(columns=OF_CLASSES if split.classifies else OF_NUMBERS, on={
        "rows that models are trained on": f"{len(split.train)} of {split.sides['train']}",
        "rows held out to score them": f"{len(split.test)} of {split.sides['test']}"})
    result.cells = {key: {} for key in result.columns}
    for k, (name, estimator) in enumerate(split.entries.items()):
        yield f"{name}: as it is", k / len(split.entries)
        result.models[name] = model = _model(split, name, estimator, result)
        _score(split, name, answers(model, split.held_out(name)), result)
        if split.classifies:
            _rank(split, name, model, result)
    return result


def _rank(split: SplitTable, name: str, model: Predictor, found: Measured) -> None:
    """Measure how well a model's scores and probabilities tell the classes, where it gives any."""
    X, y, together = split.held_out(name), split.test.y, split.test.together
    classes = np.unique(split.train.y)
    if not np.array_equal(getattr(model, "classes_", ()), classes):  # of other classes, or of ones it does not name
        return
    scores = next((np.asarray(getattr(model, how)(X)) for how in ("decision_function", "predict_proba")
                   if hasattr(model, how)), None)
    if scores is not None and scores.size == len(y):
        scores = np.column_stack([-scores.ravel(), scores.ravel()])
    if scores is not None and scores.shape == (len(y), len(classes)):
        found.cells["auc"][name] = auc(scores, y, classes, together)
    if hasattr(model, "predict_proba"):
        given = np.asarray(model.predict_proba(X))[np.arange(len(y)), np.searchsorted(classes, y)]
        losses = -np.log(np.clip(given, np.finfo(np.float64).eps, 1.0))
        found.cells["log_loss"][name] = mean_loss(losses, split.options.seed, together)


def _model(split: SplitTable, name: str, estimator: Predictor, found: Measured) -> Predictor:
    if split.yours is not None and name == split.yours.name:
        return split.yours.model if split.in_place(name) else on_prepared(estimator, split.features.scaler)
    fit = fitted(split, name, split.unfitted[name], split.train.y)
    found.notes += fit.notes
    found.unfinished += [] if fit.converged else [name]
    return fit.model


def _score(split: SplitTable, name: str, predicted: NDArray[Any], found: Measured) -> None:
    y, seed, together = split.test.y, split.options.seed, split.test.together
    found.answers[name] = predicted
    if split.classifies:
        found.losses[name] = (predicted != y).astype(np.float64)
        found.cells["as_is"][name] = accuracy(predicted == y, together)
        found.cells["balanced"][name] = balanced_accuracy(predicted == y, y, together)
        return
    residual = predicted - y
    found.losses[name] = residual**2
    for key, score in (("as_is", rmse(residual, seed, together)), ("r2", r2(residual, y, seed, together)),
                       ("mae", mean_loss(np.abs(residual), seed, together)),
                       ("median", median_error(residual, seed, together))):
        found.cells[key][name] = score


AS_IS = Measurement("scores on the rows as they are", _take, Cost(9.0, rows=1.3))
