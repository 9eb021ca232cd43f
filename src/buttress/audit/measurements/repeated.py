"""Scores of repeated cross-validation, of a thorough audit: what the choice of held-out rows does to them.

The baselines, the plain machine and the recommended one are fitted again to four fifths of all rows in use, three times
five of them. The interval is that of the corrected resampled t-test (Nadeau & Bengio, Machine Learning 2003): as the
folds share most of their rows, the variance of a mean of J scores is (1 / J + test rows / training rows) of theirs.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.metrics import accuracy_score, balanced_accuracy_score, mean_absolute_error, root_mean_squared_error

from buttress._types import Labels
from buttress.audit.baselines import NAMES
from buttress.audit.measurements.as_is import AS_IS
from buttress.audit.measuring.cells import Cell, Together
from buttress.audit.measuring.choosing import recommended
from buttress.audit.measuring.fitting import answers
from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.split_table import SplitTable
from buttress.audit.options import Effort, Metric
from buttress.audit.warned import noted

FOLDS = 5
REPEATS = 3
SCORES = {Metric.accuracy: accuracy_score, Metric.balanced_accuracy: balanced_accuracy_score,
          Metric.rmse: root_mean_squared_error, Metric.mae: mean_absolute_error}


def _take(split: SplitTable, measured: Measured) -> Course:
    plain = next(name for name in split.entries if name not in NAMES)
    names = [name for name in split.unfitted if name in (*NAMES, plain, recommended(split, measured))]
    y = np.concatenate([split.train.y, split.test.y])
    together = None if split.train.together is None or split.test.together is None else np.concatenate(
        [split.train.together, split.test.together])
    found = Measured(columns={"cross_validated": f"{split.metric} by {FOLDS}-fold cross-validation, {REPEATS} times"})
    found.cells["cross_validated"] = {}
    folds = [fold == number for fold in (folds_of(y, together, split.classifies, split.options.seed + k)
             for k in range(REPEATS)) for number in range(FOLDS)]
    folds = [fold for fold in folds if not split.classifies or len(np.unique(y[~fold])) > 1]
    for k, name in enumerate(names):
        X = np.concatenate([split.train.taken_by(name), split.test.taken_by(name)])
        scores = []
        for fold in folds:
            yield f"{name}: cross-validation", k / len(names)
            with noted([], None):
                model = clone(split.unfitted[name]).fit(X[~fold], y[~fold])
            scores.append(float(SCORES[Metric(split.metric)](y[fold], answers(model, X[fold]))))
        if len(scores) > 1:
            found.cells["cross_validated"][name] = corrected(np.array(scores), split.classifies)
    return found


def folds_of(y: Labels, together: Together, classifies: bool, seed: int) -> NDArray[np.intp]:
    """Return the fold of each row (n,): by chance, whole groups, or else as many of each class in all of them."""
    units = np.arange(len(y)) if together is None else np.unique(together, return_inverse=True)[1]
    order = np.random.default_rng(seed).permutation(int(units.max()) + 1)
    if classifies and together is None:
        order = order[np.argsort(np.unique(y, return_inverse=True)[1][order], kind="stable")]
    return (np.argsort(order) % FOLDS)[units]


def corrected(scores: NDArray[np.float64], share: bool) -> Cell:
    """Return the mean of the scores of all folds with its 95% interval, within [0, 1] for a ``share`` of the rows."""
    value = float(scores.mean())
    spread = float(np.sqrt((1 / len(scores) + 1 / (FOLDS - 1)) * scores.var(ddof=1)))
    half = float(student.ppf(0.975, len(scores) - 1)) * spread
    return Cell(value, max(value - half, 0.0), min(value + half, 1.0) if share else value + half)


REPEATED = Measurement(
    "repeated cross-validation", _take, Cost(8.0, rows=1.3), (AS_IS.name,),
    lambda split: split.options.effort == Effort.thorough and split.table.times is None and split.table.to_test is None)
