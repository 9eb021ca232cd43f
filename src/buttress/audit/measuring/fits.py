"""Fits of an audit, with what they warn of as notes, and which estimator is recommended after them.

The data as they are decide; among equals, what else was measured of all. An estimator is as good as the best where it
loses to it by less than a standard error of their difference, row by row (Breiman, Friedman, Olshen & Stone 1984, for
trees: the simplest within one standard error).
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from buttress._checks import NotConvergedWarning
from buttress._types import Labels, Predictor, Supervised
from buttress.audit.baselines import OF_LOG, SIMPLER
from buttress.audit.measuring.cells import ENOUGH, Together, class_weights, standard_error
from buttress.audit.measuring.measurement import Measured
from buttress.audit.measuring.split_table import SplitTable
from buttress.audit.options import Metric
from buttress.audit.writing.words import in_words


@contextmanager
def noted(notes: list[str], name: str | None) -> Iterator[list[str]]:
    """Add what users are warned of to ``notes``, each once and after ``name``, if it has one; with None it is dropped.

    Yields a list that gets what says that a fit has not converged. Other warnings go on as they are.
    """
    unfinished: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotConvergedWarning)
        yield unfinished
    for warning in caught:
        if issubclass(warning.category, NotConvergedWarning):
            unfinished.append(str(warning.message))
        elif not issubclass(warning.category, UserWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        elif name is not None and (note := f"{name}: {warning.message}".removeprefix(": ")) not in notes:
            notes.append(note)


FARTHEST = 1e50  # a prediction at most: its square, and the square of that, are then float64 numbers


def fitted(
    split: SplitTable, name: str, estimator: Supervised, y: Labels, notes: list[str] | None = None
) -> tuple[Supervised, bool]:
    """Return a copy fitted to the training rows with targets y, and whether it converged; what it warns of is noted."""
    if name.endswith(OF_LOG):  # corrupt targets may be negative
        y = np.maximum(y, split.table.target.min())
    with noted([] if notes is None else notes, None if notes is None else in_words(name, split.table.task)) as early:
        model = clone(estimator).fit(split.train.taken_by(name), y)
    return model, not early


def answers(model: Predictor, X: NDArray[np.float64]) -> Labels:
    """Return what a model predicts of rows X (n, d); what is beyond float64, as exponentials may be, is just large."""
    with np.errstate(over="ignore"):
        found = np.asarray(model.predict(X))
    return np.clip(found, -FARTHEST, FARTHEST) if found.dtype.kind == "f" else found


FLIPS, AT_ONCE = 2000, 100  # draws of signs, and how many in memory
ALIKE = 0.01  # accuracy, or share of an RMSE, by which two scores differ without that it matters


def better_than_guessing(split: SplitTable, measured: Measured) -> list[str] | None:
    """Return the models that beat the baseline by more than chance, on the same rows; None where that cannot be told.

    Were a model no better, each row, or group of rows, would as soon speak for the baseline. So its sign is drawn anew,
    for all models at once, and a model is better whose gain the largest of all reaches in few draws (Westfall & Young
    1993): of a table without any, one is named in 5% of cases at most.
    """
    if split.baseline not in measured.losses or len(split.test) < ENOUGH:
        return None
    theirs = _losses(split, measured, split.baseline)
    names = [name for name in measured.losses if name != split.baseline]
    gained = np.column_stack([theirs - _losses(split, measured, name) for name in names])
    if split.test.together is not None:
        groups = np.unique(split.test.together, return_inverse=True)[1]
        gained = np.stack([np.bincount(groups, each) for each in gained.T], axis=1)
    gained /= np.maximum(np.linalg.norm(gained, axis=0), np.finfo(np.float64).tiny)
    rng = np.random.default_rng(split.options.seed)
    largest = np.concatenate([(rng.choice([-1.0, 1.0], (AT_ONCE, len(gained))) @ gained).max(axis=1)
                              for _ in range(0, FLIPS, AT_ONCE)])
    # of sums of numbers whose squares sum to 1
    reached = [int((largest >= total - 1e-9).sum()) for total in gained.sum(axis=0)]
    return [name for name, count in zip(names, reached, strict=True) if (count + 1) / (FLIPS + 1) <= 0.05]


def recommended(split: SplitTable, measured: Measured) -> str | None:
    """Return the estimator to use, None where that cannot be told: too few rows, no model better than the baseline.

    Nor is one recommended where something was cut short that would have had a say.
    """
    better = better_than_guessing(split, measured)
    if better is None or measured.cut:
        return None
    able = [name for name in split.unfitted if name not in measured.unattacked and name in better]
    good = as_good({name: _losses(split, measured, name) for name in able}, split.classifies, split.test.together,
                   2.0 if split.metric == Metric.rmse else 1.0)
    return simplest(good, measured, deciding_columns(split, measured), split.classifies) if good else None


def _losses(split: SplitTable, measured: Measured, name: str) -> NDArray[np.float64]:
    """Return the losses (n,) of a model on the held-out rows whose mean its metric is, but for a square root."""
    loss = measured.losses[name]
    if split.metric == Metric.balanced_accuracy:
        return loss * class_weights(split.test.y)
    return np.sqrt(loss) if split.metric == Metric.mae else loss


def as_good(
    losses: dict[str, NDArray[np.float64]], classifies: bool, together: Together = None, power: float = 2.0
) -> list[str]:
    """Return those whose losses (n,) on the rows as they are none clearly beats: 0 or 1 of classes, squared of numbers.

    Clearly is by more than a standard error of the difference, over rows or the groups they belong to ``together``; but
    what is worse by two points of accuracy, or 5% of the RMSE, is worse, and what is so by one point, or 1%, is not. A
    loss of numbers is the error to this ``power``.
    """
    if not losses:
        return []
    best = min(losses.values(), key=lambda loss: float(loss.mean()))
    unit = 1.0 if classifies else max(power * float(best.mean()), np.finfo(np.float64).tiny)  # an RMSE's share is half
    good = []
    for name, loss in losses.items():
        behind = (loss - best) / unit
        error = standard_error(behind, together)
        # a score may be worse by .02 of the accuracy, or .05 of the RMSE, however uncertain
        if behind.mean() <= max(ALIKE, min(error, 0.02 if classifies else 0.05)):
            good.append(name)
    return good


def deciding_columns(split: SplitTable, measured: Measured) -> list[str]:
    """Return the columns that count among equals: scores as they are and moved, and planted faults that were found."""
    verdicts = measured.verdicts
    found = verdicts is not None and verdicts.wrong.any() and verdicts.interval[0] >= 0.01 and not verdicts.misleading()
    planted = ("flipped_10", "flipped_30", "noise_10", "noise_30") if found else ()
    counted = [split.decides, *["attacked"] * split.classifies, *planted]
    return [key for key in counted if key in measured.columns]


def simplest(names: list[str], measured: Measured, columns: list[str], classifies: bool) -> str:
    """Return the first, in order of simplicity, whose mean over the columns is clearly beaten by none."""
    order = [name for name in SIMPLER if name in names] + [name for name in names if name not in SIMPLER]
    shared = [key for key in columns if all(measured.cells[key].get(name) is not None for name in order)]
    values = {name: [measured.cells[key][name].value or 0.0 for key in shared] for name in order}
    means = {name: sum(found) / len(found) for name, found in values.items()}
    if classifies:
        return next(name for name in order if means[name] >= max(means.values()) - ALIKE)
    return next(name for name in order if means[name] <= (1 + ALIKE) * min(means.values()))
