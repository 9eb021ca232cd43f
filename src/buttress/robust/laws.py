"""What the robust estimators say of their rows, said of the left-out probabilities or predictions of any model."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils.validation import check_array

from buttress._as_given import refuse_unread
from buttress._checks import Array, check_classes, check_known, check_targets, check_values
from buttress._types import Labels, MatrixLike, Rows, VectorLike
from buttress.robust.judged import counted, least_residual_scale, scaled_targets, warn_of_misleading
from buttress.robust.report import likeliest
from buttress.solvers.contamination.confusion_law import likeliest_confusion, one_rate
from buttress.solvers.contamination.label_law import explain_labels, likeliest_one_rate
from buttress.solvers.contamination.residual_law import LawLimits, LeftOutResiduals, explain
from buttress.solvers.contamination.share_interval import label_shares, residual_shares


@dataclass(frozen=True)
class RowsJudged:
    """Who is corrupt and how many are: probabilities (n,), rows taken as good, and the share with its interval."""

    outlier_proba: Array
    inlier_mask: NDArray[np.bool_]
    contamination: float
    contamination_interval: Array

    def named(self, fdr: float) -> NDArray[np.bool_]:
        """Return the most rows, (n,), of which by their probabilities a share of at most ``fdr`` in (0, 1) is right.

        None is named that is likelier right than corrupt. As the ``fdr`` of :func:`outlier_report`.
        """
        return likeliest(self.outlier_proba, fdr)


@dataclass(frozen=True)
class LabelsJudged(RowsJudged):
    """Beside these ``classes`` (C,), P(true class | label) of each row (n, C), and the shares (C, C) of each true class
    that were given each label.
    """

    classes: Labels
    true_proba: Array
    confusion: Array


@dataclass(frozen=True)
class TargetsJudged(RowsJudged):
    """Beside these how far each target is off, (n,), in deviations of good ones, and their scale in units of y."""

    sigma: Array
    scale: float


def label_law(pred_probs: MatrixLike, y: VectorLike, *, classes: VectorLike | None = None) -> LabelsJudged:
    """Find wrong labels, and estimate how many there are, from the out-of-sample probabilities of any model.

    The model of the labels is that of :class:`RobustKernelClassifier`. A label is wrong with probability rho, and is
    then any of the other classes; or each pair of true class and label has its own rate. A right label follows the
    given probabilities, made sharper or flatter by one temperature, so they need not be calibrated. Rates and
    temperature are learned from the labels. The result is the mean over their values, weighted by the likelihood.

    Parameters
    ----------
    pred_probs : array of shape (n, C)
        P(class) of each row from a model fitted without it, as ``cross_val_predict(..., method="predict_proba")``
        returns. A model that has seen the wrong labels agrees with them, so they are not found.
    y : array of shape (n,)
        The given labels.
    classes : array of shape (C,) or None, default=None
        The class of each column. None: the column names of a frame if these are the labels of y, otherwise the sorted
        labels of y. A class without labels is harmless if its probabilities are almost 0; otherwise the estimated share
        of wrong labels is too low.

    Returns
    -------
    LabelsJudged
        ``outlier_proba`` (n,) that the label is wrong, ``inlier_mask`` (n,), ``contamination`` (the share of wrong
        labels), ``contamination_interval`` (2,), ``classes`` (C,) sorted, ``true_proba`` (n, C) and ``confusion``
        (C, C), true class by label; ``named(fdr)`` (n,).

    Raises
    ------
    ValueError
        For labels of one class or outside ``classes``, another number of columns or rows, NaN, and rows that are no
        probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_predict
    >>> from buttress import label_law
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = np.arange(0, 150, 10)
    >>> given = y.copy()
    >>> given[wrong] = (y[wrong] + 1) % 3
    >>> law = label_law(cross_val_predict(LogisticRegression(max_iter=1000), X, given, method="predict_proba"), given)
    >>> bool(np.mean(~law.inlier_mask[wrong]) > 0.9), round(law.contamination, 1)
    (True, 0.1)
    """
    refuse_unread("pred_probs", pred_probs)
    refuse_unread("y", y)
    check_targets(y, numeric=False)
    chances = check_array(pred_probs, ensure_2d=False, dtype=np.float64, input_name="pred_probs")
    names, codes, order = _read_classes(getattr(pred_probs, "columns", None), y, classes)
    if chances.shape != (len(codes), len(names)):
        raise ValueError(f"pred_probs must have a row a label and a column a class, {(len(codes), len(names))}. Got "
                         f"shape {chances.shape}. Give predict_proba whole, and classes= if y lacks some of them.")
    _check_chances(chances)
    return _judged(chances[:, order], codes, names)


def _read_classes(columns: VectorLike | None, y: VectorLike, classes: VectorLike | None) -> tuple[Labels, Rows, Rows]:
    """Return the classes in order, the place among them of each label, and the column of each class.

    ``columns`` are names of columns, which count where they are the classes and none are given.
    """
    if classes is None:
        names, codes = check_classes(y, "label_law")
        named = names if columns is None else np.asarray(columns)
        called, words = (part.tolist() if named.dtype.kind in "biuf" else part.astype(str).tolist()
                         for part in (named, names))
        return names, codes, np.array([called.index(word) for word in words] if set(called) == set(words)
                                      else np.arange(len(words)))
    order = np.argsort(classes)
    names = np.asarray(classes)[order]
    if len(np.unique(names)) < len(names):
        raise ValueError(f"classes must name each column once. Got {names.tolist()}. Sum columns of one class.")
    return names, check_known(np.asarray(y), names), order


def _judged(chances: Array, codes: Rows, names: Labels) -> LabelsJudged:
    """Return what the law says of labels ``codes`` by the probabilities of classes ``names``, one column each."""
    # with fewer than half a row by its probabilities a class is none of these rows
    kept = np.flatnonzero((chances.sum(axis=0) > 0.5) | (np.bincount(codes, minlength=len(names)) > 0))
    if 2 <= len(kept) < len(names):  # with the others, wrong labels would come out too unlikely
        part = chances[:, kept]
        law = _judged(part / part.sum(axis=1, keepdims=True), np.searchsorted(kept, codes), names[kept])
        true, rates = np.zeros(chances.shape), np.eye(len(names))
        true[:, kept] = law.true_proba
        rates[np.ix_(kept, kept)] = law.confusion
        return replace(law, classes=names, true_proba=true, confusion=rates)
    scores = np.log(np.maximum(chances, 1e-6))  # where a model says 0; from 1e-30 to 1e-3 nothing depends on it
    flips = explain_labels(scores, codes)
    directed = likeliest_confusion(scores, codes)
    part = expit(directed.lead(len(codes), *likeliest_one_rate(scores, codes)))
    true = (1 - part) * flips.true_chances(codes) + part * directed.true_chances(scores, codes)
    wrong = np.clip(1 - true[np.arange(len(codes)), codes], 0, 1)
    rates = (1 - part) * one_rate(len(names), float(flips.wrong.mean())) + part * directed.rates
    said = counted(wrong, label_shares(scores, codes, directed), none_too=False)
    return LabelsJudged(wrong, *said, names, true, rates)


def _check_chances(chances: Array) -> None:
    """Refuse rows that are no probabilities, naming the first."""
    # single precision, or rounded to few digits
    off = np.flatnonzero((chances < 0).any(axis=1) | ~(np.abs(chances.sum(axis=1) - 1) < 1e-3))
    if len(off):
        raise ValueError(f"pred_probs must be at least 0 and sum to 1 in each row. Got {chances[off[0]].tolist()} in "
                         f"row {off[0]}. Give predict_proba, or the softmax of scores.")


def residual_law(predictions: VectorLike, y: VectorLike) -> TargetsJudged:
    """Find wrong targets, and estimate how many there are, from the out-of-sample predictions of any model.

    The model of the errors is that of :class:`RobustKernelRegressor`: errors of good rows follow Student's t, which may
    be skewed, errors of corrupt rows a wide density. Widths and shares are learned from the errors; probabilities are
    means over their values, weighted by the likelihood. Errors of good rows must not grow with the prediction: the
    model was fitted to the corrupt rows too, and its errors grow where it follows them.

    Parameters
    ----------
    predictions : array of shape (n,)
        Predictions of a model fitted without the row, as ``cross_val_predict`` returns. Use a model that a few large
        targets do not change much, such as a forest or one with absolute loss.
    y : array of shape (n,)
        The given targets.

    Returns
    -------
    TargetsJudged
        ``outlier_proba`` (n,) that the target is wrong, ``inlier_mask`` (n,), ``contamination`` (the share of wrong
        targets), ``contamination_interval`` (2,), ``sigma`` (n,) and ``scale``; ``named(fdr)`` (n,).

    Warns if the named targets may be right: if nearly all lie on one side, or many targets are equal.

    Raises
    ------
    ValueError
        For arrays of different lengths or of fewer than two rows, NaN, inf and entries beyond 1e100.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from sklearn.model_selection import cross_val_predict
    >>> from buttress import residual_law
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=200)
    >>> y[::10] += 3
    >>> forest = RandomForestRegressor(min_samples_leaf=5, criterion="absolute_error", random_state=0)
    >>> law = residual_law(cross_val_predict(forest, X, y), y)
    >>> bool((~law.inlier_mask[::10]).all()), round(law.contamination, 1)
    (True, 0.1)
    """
    refuse_unread("predictions", predictions)
    refuse_unread("y", y)
    check_targets(y, numeric=True)
    given: Array = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", ensure_min_samples=2)
    predicted: Array = check_array(predictions, ensure_2d=False, dtype=np.float64, input_name="predictions")
    if predicted.ndim != 1 or predicted.shape != given.shape:
        raise ValueError("residual_law needs a prediction for each target, both of shape (n,). Got predictions of "
                         f"shape {predicted.shape} and y of shape {given.shape}.")
    check_values(np.column_stack([predicted, given]), ["predictions", "y"], "residual_law")
    targets, middle, unit = scaled_targets(given)
    expected = (predicted - middle) / unit
    seen = LeftOutResiduals(targets - expected, np.ones(len(targets)), level=np.zeros(len(targets)))
    limits = LawLimits(least_residual_scale(targets))
    known = explain(seen, limits)
    law = known.law
    wrong = 1 - known.responsibility
    mask, share, interval = counted(wrong, residual_shares(law, seen, limits), none_too=law.share == 0)
    warn_of_misleading(given, given - predicted, ~mask, together=False)
    return TargetsJudged(wrong, mask, share, interval, law.sigma(seen), law.scale * unit)
