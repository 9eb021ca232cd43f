"""Weights of rows and of classes, checked."""

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from buttress._as_given import refuse_unread
from buttress._checks import Array, check_number, check_values, warn_user
from buttress._proof import plus
from buttress._suggest import LARGEST
from buttress._types import ClassWeight, Labels, Rows, VectorLike

ROUNDING = 1e-12  # of a sum of weights
MOST_COPIES = 10_000_000  # rows that counts may make: 100 columns of them take 8 GB


def check_weights(sample_weight: VectorLike | None, X: Array, *, leave_out: bool = False) -> Array:
    """Return non-negative float64 weights of shape (n,), ones when None; at least one is positive.

    They are a copy: what a fit makes later must not follow what becomes of the array that was given. Negative ones are
    refused, or become 0 with a warning: scikit-learn's machines ``leave_out`` such rows.
    """
    if sample_weight is None:
        return np.ones(X.shape[0])
    refuse_unread("sample_weight", sample_weight)
    weight: Array = _check_sample_weight(sample_weight, X, dtype=np.float64, copy=True)
    check_values(weight[:, None], ["sample_weight"])
    negative = weight < 0
    if negative.any() and not (leave_out and weight.max() > 0):
        raise ValueError(f"sample_weight must not be negative. Got {weight.min():g} in row {weight.argmin()}.")
    if negative.any():
        warn_user(f"sample_weight is negative in {negative.sum()} rows, the first of them row {negative.argmax()}: "
                  "they are left out, as in scikit-learn. Use weight 0 instead.")
        weight = plus(weight)
    if not weight.any():
        raise ValueError("sample_weight is zero for every row, so there is nothing to fit. Give a row weight.")
    return weight


def repeated_rows(sample_weight: VectorLike | None, X: Array) -> slice | Rows:
    """Return the numbers of the rows of X (n, d), each as often as its weight says; all of them where that is once.

    Raises ValueError for weights that are no counts, or count fewer than two rows or more than a fit can hold.
    """
    weight = check_weights(sample_weight, X)
    if (weight == 1).all():
        return slice(None)
    total = float(weight.sum())
    broken = weight % 1 != 0
    if broken.any():
        raise ValueError(f"sample_weight counts rows here: whole numbers. Got {weight[broken][0]:g} in row "
                         f"{broken.argmax()}. Give counts, or use KernelRegressor or KernelClassifier with shares.")
    if not 2 <= total <= MOST_COPIES:
        raise ValueError(f"sample_weight counts rows, of which a fit needs at least 2 and holds all, {MOST_COPIES:,} "
                         f"at most. Got n_samples = {total:g}. Divide the counts by a common number.")
    return np.repeat(np.arange(len(weight)), weight.astype(np.intp))


def class_totals(classes: Labels, codes: Rows, weight: Array) -> Array:
    """Return the weight of all rows of each class; ValueError for one without any."""
    totals = np.asarray(np.bincount(codes, weight, minlength=len(classes)), dtype=np.float64)
    if not totals.all():
        raise ValueError(f"sample_weight is zero for every row of class {classes[totals == 0].tolist()[0]!r}. "
                         "Drop the class or give it weight.")
    return totals


def class_weights(
    class_weight: ClassWeight, classes: Labels, codes: Rows, weight: Array
) -> Array:
    """Return the weight of each class: ones, those of a dict, or n / (n_classes n_c) with rows counted by weight.

    Raises ValueError where a class has rows but no weight at all.
    """
    from sklearn.utils.class_weight import compute_class_weight

    totals = class_totals(classes, codes, weight)
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        return weight.sum() / (len(totals) * totals)
    weights = compute_class_weight(class_weight, classes=classes, y=classes[codes])
    for label, value in zip(classes.tolist(), weights, strict=True):
        check_number(f"class_weight of class {label!r}", float(value), 0)
    return weights


def loss_weights(C: float, weight: Array) -> Array:
    """Return C_i, C times the weights (n,) of rows and classes; ValueError where products with them leave float64."""
    low, high = (float(C) * float(end) for end in (weight.min(), weight.max()))
    if not (np.isinf(C) or 1 / LARGEST <= low <= high <= LARGEST):
        raise ValueError(f"C times the weights of rows and classes must be from {1 / LARGEST:g} to {LARGEST:g}. Got "
                         f"{low:g} to {high:g}. Scale C or the weights.")
    return C * weight


def weighted_median(values: Array, weight: Array) -> float:
    """Return the median of values (n,), each as often as its weight says; between two middle ones their mean."""
    order = np.argsort(values, kind="stable")
    reach = np.cumsum(weight[order])
    half = reach[-1] / 2
    low, high = np.searchsorted(reach, [half * (1 - ROUNDING), half * (1 + ROUNDING)])
    return float(values[order[low]] + values[order[high]]) / 2
