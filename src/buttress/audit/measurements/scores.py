"""Scores on rows held out: as they are, on the novel among them, in repeated splits, and after wrong training targets.

Novel rows are farther from the others than those are from each other.

A thorough audit repeats its cross-validation: what does the choice of held-out rows do to the scores? The baselines,
the plain machine and the recommended one are fitted again to four fifths of all rows in use, three times five of them.
The interval is that of the corrected resampled t-test (Nadeau & Bengio, Machine Learning 2003): as the folds share most
of their rows, the variance of a mean of J scores is (1 / J + test rows / training rows) of theirs.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.metrics import accuracy_score, balanced_accuracy_score, mean_absolute_error, root_mean_squared_error

from buttress._types import Labels, Predictor, Supervised
from buttress.audit.against import unlike
from buttress.audit.baselines import NAMES, on_prepared
from buttress.audit.contenders import settled
from buttress.audit.keeping import kept_stage
from buttress.audit.measuring.cells import (
    Cell,
    Together,
    auc,
    balanced_accuracy,
    mean_loss,
    median_error,
    r2,
)
from buttress.audit.measuring.fits import answers, fitted, noted, recommended
from buttress.audit.measuring.measurement import Cost, Measured, Measurement, Stages
from buttress.audit.measuring.split_table import SplitTable
from buttress.audit.measuring.suspicion import plain
from buttress.audit.options import Effort, Metric
from buttress.checkpoints.journal import Memory
from buttress.datasets import contaminate

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


def _take_as_is(split: SplitTable, measured: Measured) -> Stages:
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


def _rank(split: SplitTable, name: str, model: Predictor, result: Measured) -> None:
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
        result.cells["auc"][name] = auc(scores, y, classes, together)
    if hasattr(model, "predict_proba"):
        given = np.asarray(model.predict_proba(X))[np.arange(len(y)), np.searchsorted(classes, y)]
        losses = -np.log(np.clip(given, np.finfo(np.float64).eps, 1.0))
        result.cells["log_loss"][name] = mean_loss(losses, split.options.seed, together)


def _model(split: SplitTable, name: str, estimator: Predictor, result: Measured) -> Predictor:
    if split.yours is not None and name == split.yours.name:
        return split.yours.model if split.in_place(name) else on_prepared(estimator, split.features.scaler)
    notes: list[str] = []
    model, converged = fitted(split, name, split.unfitted[name], split.train.y, notes)
    result.notes += [note for note in notes if note.partition(": ")[2] not in "\n".join(result.notes)]  # once for all
    result.unfinished += [] if converged else [name]
    return model


def _score(split: SplitTable, name: str, predicted: NDArray[Any], result: Measured) -> None:
    y, seed, together = split.test.y, split.options.seed, split.test.together
    result.answers[name] = predicted
    result.losses[name] = (predicted != y).astype(np.float64) if split.classifies else (predicted - y) ** 2
    result.cells["as_is"][name] = split.score(result.losses[name])
    if split.classifies:
        result.cells["balanced"][name] = balanced_accuracy(predicted == y, y, together)
        return
    residual = predicted - y
    for key, score in (("r2", r2(residual, y, seed, together)), ("mae", mean_loss(np.abs(residual), seed, together)),
                       ("median", median_error(residual, seed, together))):
        result.cells[key][name] = score


AS_IS = Measurement("scores on the rows as they are", _take_as_is, Cost(9.0, rows=1.3))


NOVELTY = 0.1  # of the rows called novel are not: a false discovery rate


def _take_novel(split: SplitTable, measured: Measured) -> Stages:
    yield "novel rows", 0.0
    rest = split.at_most(np.setdiff1d(np.arange(len(split.table)), split.test.places), split.plan.novelty)
    outside = np.sort(unlike(split.prepared(rest), split.test.X, NOVELTY))
    result = Measured(on={"rows that held-out ones are compared with": f"{len(rest)} of {len(split.table)}"})
    result.novel = [plain(row) for row in split.table.row_numbers[split.test.places[outside]]]
    if result.novel:
        what = "accuracy" if split.classifies else "RMSE"
        result.columns["novel"] = f"{what} on the {len(result.novel)} novel held-out rows"
        result.cells["novel"] = {name: split.score(loss[outside], outside) for name, loss in measured.losses.items()}
    return result


NOVEL = Measurement("novel rows", _take_novel, Cost(0.1, rows=0.0), (AS_IS.name,))


FOLDS = 5  # scikit-learn's default
REPEATS = 3  # of the folds, each with another draw: the cost grows with them
SCORES = {Metric.accuracy: accuracy_score, Metric.balanced_accuracy: balanced_accuracy_score,
          Metric.rmse: root_mean_squared_error, Metric.mae: mean_absolute_error}


def _take_repeated(split: SplitTable, measured: Measured) -> Stages:
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
    "repeated cross-validation", _take_repeated, Cost(8.0, rows=1.3), (AS_IS.name,),
    lambda split: split.options.effort == Effort.thorough and split.table.times is None and split.table.to_test is None)


def _take_corrupted(split: SplitTable, measured: Measured) -> Stages:
    shares = split.plan.shares
    kind, says = ("flip", "accuracy, {:.0%} of training labels flipped") if split.classifies else (
        "noise", "RMSE, {:.0%} of training targets corrupted")
    columns = (0.1, 0.3)  # the shares that the table shows
    keys = {share: f"{'flipped' if kind == 'flip' else kind}_{share:.0%}".rstrip("%") for share in columns}
    found = Measured(columns={key: says.format(share) for share, key in keys.items()},
                     cells={key: {} for key in keys.values()})
    curve: dict[str, list[Any]] = {"x": [0.0, *shares]}
    curve |= {name: [measured.cells["as_is"][name].value] for name in split.entries}
    for k, share in enumerate(shares):
        _, dirty, _ = contaminate(split.train.X, split.train.y, share, kind, random_state=split.options.seed)
        for name, estimator in split.unfitted.items():
            yield f"{share:.0%} of training targets corrupted: {name}", k / len(shares)
            cell, converged = _scored(split, name, settled(estimator, measured.models[name]), share, dirty)
            found.unfinished += [] if converged else [name]
            curve[name].append(cell.value)
            if share in keys:
                found.cells[keys[share]][name] = cell
    found.curves["noise"] = {name: values for name, values in curve.items() if name == "x" or len(values) > 1}
    return found


def _scored(
    split: SplitTable, name: str, estimator: Supervised, share: float, dirty: Labels
) -> tuple[Cell, bool]:
    """Return the score after a fit to such targets, and whether the fit converged."""

    def scored() -> Memory:
        model, converged = fitted(split, name, estimator, dirty)
        predicted, y = answers(model, split.test.taken_by(name)), split.test.y
        cell = split.score(predicted != y if split.classifies else (predicted - y) ** 2)
        return {"cell": vars(cell), "converged": converged}

    known = kept_stage(["corrupted", name, share], scored)
    return Cell(**known["cell"]), known["converged"]


CORRUPTED = Measurement("wrong training targets", _take_corrupted, Cost(9.0, rows=1.3), needs=(AS_IS.name,))
