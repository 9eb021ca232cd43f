"""What an attack sees of a model: scores of rows, and their gradients in the input."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from buttress._checks import Array, check_values
from buttress.expansion import KernelExpansion, binary_contrasts, rival_contrasts

DIFFERENCE = 1e-4  # relative step of the central differences
CHUNK = 100_000  # rows of one query


class Target(Protocol):
    """Scores (n, k), their contrasts between classes, and input gradients of weighted scores."""

    contrasts: Array

    def scores(self, X: Array) -> Array:
        """Return the scores of X (n, d), shape (n, k)."""

    def gradient(self, X: Array, V: Array) -> Array:
        """Return sum_c V_ic d score_c(x_i) / d x_i, shape (n, d)."""


class ExpansionTarget:
    """A kernel expansion: exact gradients."""

    def __init__(self, expansion: KernelExpansion, contrasts: Array):
        self.expansion = expansion
        self.contrasts = contrasts

    def scores(self, X: Array) -> Array:
        return self.expansion(X)

    def gradient(self, X: Array, V: Array) -> Array:
        return self.expansion.gradient(X, V)


class QueryTarget:
    """Any classifier with scores: gradients by central differences."""

    def __init__(self, model: Any):
        self.query = _score_function(model)
        n_classes = len(model.classes_)
        self.contrasts = binary_contrasts() if n_classes == 2 else rival_contrasts(n_classes)

    def scores(self, X: Array) -> Array:
        scores = np.concatenate([self.query(X[start : start + CHUNK]) for start in range(0, len(X), CHUNK)])
        check_values(scores.reshape(len(X), -1), [f"{j} of the model's scores" for j in range(scores[0].size)])
        return scores.reshape(len(X), -1)

    def gradient(self, X: Array, V: Array) -> Array:
        n, d = X.shape
        steps = DIFFERENCE * np.maximum(1, np.abs(X).max(axis=0))
        shifted = X[:, None, None, :] + np.array([1.0, -1.0])[None, None, :, None] * np.diag(steps)[None, :, None, :]
        scores = self.scores(shifted.reshape(-1, d)).reshape(n, d, 2, -1)
        return np.einsum("idk,ik->id", scores[:, :, 0] - scores[:, :, 1], V) / (2 * steps)


def _score_function(model: Any) -> Any:
    if hasattr(model, "decision_function"):
        return model.decision_function
    if not hasattr(model, "predict_proba"):
        raise ValueError(f"{type(model).__name__} gives labels only, so there is no margin to attack. Use a classifier "
                         "with decision_function or predict_proba.")

    def log_odds(X: Array) -> Array:
        logs = np.log(np.clip(model.predict_proba(X), 1e-300, None))
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    return log_odds


def as_target(model: Any) -> Target:
    """Return what an attack needs of a fitted classifier; ValueError for one that gives labels only."""
    check_is_fitted(model)
    if hasattr(model, "expansion_") and hasattr(model, "contrasts_"):
        return ExpansionTarget(model.expansion_, model.contrasts_)
    return QueryTarget(model)


def label_codes(model: Any, y: Any, n: int) -> NDArray[np.intp]:
    """Return the class numbers of labels y (n,); ValueError for one the model was not fitted on."""
    y = np.asarray(y)
    if y.shape != (n,):
        raise ValueError(f"y must have one label for each of the {n} rows of X. Got shape {y.shape}.")
    known = np.isin(y, model.classes_)
    if not known.all():
        raise ValueError(f"y holds the label {y[~known][0]!r}, which the model was not fitted on. "
                         f"Its classes are {list(model.classes_)}.")
    return np.searchsorted(model.classes_, y)
