"""Fits of an audit: a copy of an estimator, fitted until it is done, with what it warns of as notes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from buttress._types import Labels, Predictor, Supervised
from buttress.audit.baselines import OF_LOG
from buttress.audit.measuring.split_table import SplitTable
from buttress.audit.warned import noted
from buttress.audit.writing.words import in_words

FARTHEST = 1e50  # a prediction at most: its square, and the square of that, are then float64 numbers


@dataclass
class FittedCopy:
    """A fitted copy, whether it converged, and what it warned of."""

    model: Supervised
    converged: bool
    notes: list[str]


def fitted(split: SplitTable, name: str, estimator: Supervised, y: Labels, quiet: bool = False) -> FittedCopy:
    """Fit a copy to the training rows with targets y; what it warns of is dropped where it is to be ``quiet``."""
    notes: list[str] = []
    if name.endswith(OF_LOG):  # corrupt targets may be negative
        y = np.maximum(y, split.table.target.min())
    with noted(notes, None if quiet else in_words(name, split.task)) as early:
        model = clone(estimator).fit(split.train.taken_by(name), y)
    return FittedCopy(model, not early, notes)


def answers(model: Predictor, X: NDArray[np.float64]) -> Labels:
    """Return what a model predicts of rows X (n, d); what is beyond float64, as exponentials may be, is just large."""
    with np.errstate(over="ignore"):
        found = np.asarray(model.predict(X))
    return np.clip(found, -FARTHEST, FARTHEST) if found.dtype.kind == "f" else found
