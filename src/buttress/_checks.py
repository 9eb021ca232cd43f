"""Checks of parameters and data that every room shares, and the warnings they raise.

Every error says what was expected, what was given and what to do about it, and names the column.
"""

import math
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, timedelta
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sklearn
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from buttress._as_given import canonical, refuse_missing, refuse_unread, unwrapped
from buttress._suggest import LARGEST, brief, near
from buttress._types import Array, BoundsLike, Estimator, Labels, MatrixLike, Rows, VectorLike

MAJORITY = ("With half of the rows corrupt or more, nothing in the data says which half is the true one: "
            "set it below 0.5.")
TINY = 1e-300  # stands for 0 in a divisor and in a logarithm
# source files whose frames a warning passes over
INNER = (str(Path(__file__).parent) + os.sep, str(Path(sklearn.__file__).parent) + os.sep)


class NotConvergedWarning(ConvergenceWarning):
    """The iteration or time limit came before the tolerance; the model holds the best state seen."""


class FeatureNoiseWarning(UserWarning):
    """The noise of random features outweighs the input gradient of the model they were fitted to."""


class KernelScaleWarning(UserWarning):
    """The kernel sees the training rows as all unlike each other, or all alike: X is not scaled to the kernel."""


class InterruptedWarning(UserWarning):
    """Ctrl-C stopped a fit; the model holds the best state seen."""


_SILENT: ContextVar[tuple[type[Warning], ...]] = ContextVar("_SILENT", default=())
_PASSED_ON: ContextVar[bool] = ContextVar("_PASSED_ON", default=False)


@contextmanager
def silent(*categories: type[Warning], pass_on: bool = False) -> Iterator[None]:
    """Keep :func:`warn_user` from warnings of these categories, in this thread alone.

    With ``pass_on``, a fit that Ctrl-C cut short raises KeyboardInterrupt in place of its warning. The filters of
    ``warnings.catch_warnings`` are those of the process, and two threads may leave each other's.
    """
    silenced = _SILENT.set(_SILENT.get() + categories)
    passed_on = _PASSED_ON.set(_PASSED_ON.get() or pass_on)
    try:
        yield
    finally:
        _PASSED_ON.reset(passed_on)
        _SILENT.reset(silenced)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn in the name of the line that called this package, however deep below it the cause is.

    Frames of scikit-learn, its wrappers of ``fit`` and its pipelines, are passed over as well. The depth is counted
    here because ``warnings.warn`` takes ``skip_file_prefixes`` from Python 3.12 on only.
    """
    if _PASSED_ON.get() and issubclass(category, InterruptedWarning):
        raise KeyboardInterrupt
    if issubclass(category, _SILENT.get()):
        return
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INNER):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)


def check_number(
    name: str, value: object, low: float, high: float = math.inf, *, closed: str = "neither", fix: str = ""
) -> float:
    """Return ``value`` as a float inside the interval (``closed``: left, right, both, neither), or raise."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else None
    left = closed in ("left", "both")
    right = closed in ("right", "both")
    if number is not None and (number >= low if left else number > low) and (
            number <= high if right else number < high):
        return number
    within = f"{'[' if left else '('}{low:g}, {high:g}{']' if right else ')'}. Got {value!r}. {fix}".rstrip()
    raise ValueError(f"{name} must be {'a number in' if number is None else 'in'} {within}")


def check_count(name: str, value: object, low: int = 1, fix: str = "") -> int:
    """Return ``value`` as an int of at least ``low``, or raise, with the words of ``fix`` at the end."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        raise ValueError(f"{name} must be a whole number of at least {low}. Got {value!r}. {fix}".rstrip())
    return int(value)


def check_contamination(value: object) -> float:
    """Return a share of corrupt rows in [0, 0.5), or raise and explain."""
    return check_number("contamination", value, 0, 0.5, closed="left", fix=MAJORITY)


def check_contamination_or_auto(value: object) -> float | None:
    """Return a share of corrupt rows in [0, 0.5), None for ``"auto"``, or raise and explain."""
    if isinstance(value, str) and value == "auto":
        return None
    if isinstance(value, str) or value is None:
        raise ValueError(f"contamination must be 'auto' or a number in [0, 0.5). Got {value!r}.")
    return check_contamination(value)


Option = TypeVar("Option")


def check_option(name: str, value: Option, options: Sequence[Option]) -> Option:
    """Return ``value`` if it is one of ``options``, or raise with the nearest name."""
    if any(value is option or (isinstance(value, str | np.bool_) and value == option) for option in options):
        return value
    listed = ", ".join(repr(str(option) if isinstance(option, str) else option) for option in options)
    raise ValueError(f"{name} must be one of {listed}. Got {brief(value)}.{near(str(value), map(str, options))}")


def check_X_y(
    estimator: Estimator, X: MatrixLike, y: VectorLike | None, *, numeric_target: bool = False, min_rows: int = 2,
    sparse: bool = False, single: bool = False, reset: bool = True,
) -> tuple[Array, Labels]:
    """Check training data for ``estimator``; X becomes float64 of shape (n, d), y one-dimensional.

    With ``sparse`` a sparse X becomes CSR in place of an error; with ``single`` a float32 X stays one; without
    ``reset`` X must have the columns seen before.
    Raises ValueError naming the column for NaN, inf, values beyond 1e100 and entries that are not numbers.
    """
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    refuse_unread("y", y)
    check_targets(y, numeric_target)
    y = y if numeric_target else unwrapped(y)
    rows: Array
    targets: Labels
    rows, targets = _converted(estimator, X, y, reset=reset, numeric_target=numeric_target, sparse=sparse,
                               single=single)
    who = type(estimator).__name__
    if rows.shape[0] < min_rows:
        raise ValueError(f"{who} needs at least {min_rows} rows. Got n_samples = {rows.shape[0]}.")
    if not _surely_within(rows):
        check_values(rows, column_names(estimator, rows.shape[1]), who)
    if numeric_target:
        check_values(targets[:, None], ["y"], who)
    return rows, targets


def check_targets(y: VectorLike, numeric: bool) -> None:
    """Refuse targets that are missing, and ``numeric`` ones that are text or times, naming the first."""
    targets = np.asarray(y).ravel()
    refuse_missing(targets)
    if not numeric or targets.dtype.kind not in "OUSmM":
        return
    refused = (str, bytes, date, timedelta, np.datetime64, np.timedelta64)
    other = next((i for i, target in enumerate(targets) if isinstance(target, refused)), None)
    if other is not None:
        raise ValueError(f"y must hold numbers. Got the text or time {str(targets[other])!r} in row {other}. Convert "
                         "it, with astype(float) if it is a number, or use a classifier.")


def check_X(estimator: Estimator, X: MatrixLike, *, sparse: bool = False, single: bool = False) -> Array:
    """Check data to predict on against the training columns of ``estimator``; returns float64 of shape (n, d)."""
    rows: Array = _converted(estimator, X, None, reset=False, numeric_target=False, sparse=sparse, single=single)
    if not _surely_within(rows):
        check_values(rows, column_names(estimator, rows.shape[1]), type(estimator).__name__)
    return rows


def _converted(
    estimator: Estimator, X: MatrixLike, y: VectorLike | None, *, reset: bool, numeric_target: bool, sparse: bool,
    single: bool,
) -> Any:
    """Return X, or X and y where y is given, as arrays; an error about text names its column."""
    refuse_unread("X", X)
    if _as_they_are(estimator, X, y, reset=reset, numeric_target=numeric_target, single=single):
        return X if y is None else (X, y)
    options: dict[str, Any] = {"dtype": [np.float64, np.float32] if single else np.float64, "ensure_all_finite": False,
                               "reset": reset}
    if sparse:
        options |= {"accept_sparse": "csr", "accept_large_sparse": True}
    if y is not None:
        options |= {"y": y, "y_numeric": numeric_target}
    try:
        made = validate_data(estimator, X, **options)
        return (canonical(made[0]), made[1]) if isinstance(made, tuple) else canonical(made)
    except (ValueError, TypeError) as error:
        column = _first_text_column(X)
        if column is None or "complex" in str(error).lower():
            raise
        refused = ValueError if isinstance(error, ValueError) else TypeError
        detail = str(error).split(". ")[0].splitlines()[0]
        raise refused(f"Column {column} of X holds entries that are not numbers ({detail}). Encode or drop the column; "
                      "turn dates into numbers, such as days.") from None


def _as_they_are(
    estimator: Estimator, X: MatrixLike, y: VectorLike | None, *, reset: bool, numeric_target: bool, single: bool
) -> bool:
    """Say whether X and y are arrays that the long checks of scikit-learn would not change, and note the width."""
    if type(X) is not np.ndarray or X.ndim != 2 or X.size == 0 or hasattr(estimator, "feature_names_in_"):
        return False
    if X.dtype != np.float64 and not (single and X.dtype == np.float32):
        return False
    if y is not None and not _targets_as_they_are(y, len(X), numeric_target):
        return False
    if reset:
        vars(estimator)["n_features_in_"] = X.shape[1]
    return X.shape[1] == getattr(estimator, "n_features_in_", None)


def _targets_as_they_are(y: VectorLike, n: int, numeric: bool) -> bool:
    """Say whether y is an array of n finite numbers, or of texts where they need not be ``numeric``."""
    if type(y) is not np.ndarray or y.shape != (n,) or y.dtype.kind not in ("iuf" if numeric else "iufbU"):
        return False
    return y.dtype.kind != "f" or bool(np.isfinite(y).all())


def _first_text_column(X: MatrixLike) -> str | None:
    """Name the first column of ``X`` that cannot be read as numbers, or None."""
    if isinstance(X, np.ndarray) and X.dtype.kind not in "OUS":
        return None
    names = list(X.columns) if hasattr(X, "columns") else None
    try:
        table = np.asarray(X, dtype=object)
    except (ValueError, TypeError):
        return None
    if table.ndim != 2:
        return None
    for j in range(table.shape[1]):
        try:
            table[:, j].astype(np.float64)
        except (ValueError, TypeError):
            return repr(names[j]) if names else str(j)
    return None


def column_names(estimator: Estimator, width: int) -> list[str]:
    """Names of the columns the estimator saw, quoted for messages; their numbers when they had none."""
    names = getattr(estimator, "feature_names_in_", None)
    return [repr(str(name)) for name in names] if names is not None else [str(j) for j in range(width)]


def check_values(X: Array, columns: Sequence[str], who: str = "buttress") -> None:
    """Raise ValueError, naming the first column of ``X`` (n, d) that holds NaN, inf or a value beyond 1e100."""
    if _surely_within(X):
        return
    with np.errstate(invalid="ignore"):  # of float32 beside float32 values 1e100 would be inf, and inf within it
        bad = ~(np.abs(np.asarray(X.data) if issparse(X) else X) <= np.float64(LARGEST))
    if not bad.any():
        return
    sparse: Any = X
    i, j = (index[bad] for index in sparse.tocoo().coords) if issparse(X) else np.nonzero(bad)
    column = int(j.min())
    rows = np.sort(i[j == column])
    where = f"column {columns[column]} ({rows.size} rows, the first is row {rows[0]})"
    value = X[rows[0], column]
    if np.isnan(value):
        raise ValueError(f"Input contains NaN in {where}. {who} takes no missing values: impute or drop those rows.")
    if np.isinf(value):
        raise ValueError(f"Input contains inf (infinity) in {where}. Replace or drop those rows.")
    raise ValueError(f"Input contains {value:g} in {where}, too large for float64 kernels. Rescale the column.")


def _surely_within(X: Array) -> bool:
    """Say whether the sum of squares, in one pass, shows that X holds no NaN, no inf and nothing beyond 1e100."""
    entries = np.asarray(X.data) if issparse(X) else np.ravel(X, order="K")
    with np.errstate(over="ignore", invalid="ignore"):
        return entries.dtype.kind == "f" and float(entries @ entries) <= LARGEST**2


def check_rows(X: MatrixLike, width: int | None, who: str, names: Sequence[Any] | None = None) -> Array:
    """Return rows of shape (n, width), in float64 unless they are float32, for what is given a fitted model.

    ``names`` are those of the columns that the model was fitted on, where it knows them.

    Raises ValueError for sparse rows, entries that are no real numbers, NaN and inf (naming the column), another width.
    """
    refuse_unread("X", X)
    if issparse(X):
        raise ValueError(f"{who} needs dense rows. Got a sparse {type(X).__name__}. Use X.toarray().")
    column = _first_text_column(X)
    if column is not None:
        raise ValueError(f"Column {column} of X holds entries that are not numbers. Encode or drop the column.")
    rows = np.asarray(X)
    if rows.dtype.kind == "c":
        raise ValueError(f"{who} needs real numbers. Got {rows.dtype} rows.")
    rows = rows if rows.dtype == np.float32 else rows.astype(np.float64, copy=False)
    if rows.ndim != 2:
        raise ValueError(f"X must be two-dimensional, (n, {width}). Got shape {rows.shape}.")
    if width is not None and rows.shape[1] != width:
        raise ValueError(f"X has {rows.shape[1]} features, but the model was fitted on {width}. Give those columns."
                         f"{_lacking(X, names)}")
    check_values(rows, [str(j) for j in range(rows.shape[1])], who)
    return rows


def _lacking(X: MatrixLike, names: Sequence[Any] | None) -> str:
    """Say which columns of a model a frame lacks and which it has besides, of either at most five."""
    if names is None or not hasattr(X, "columns"):
        return ""
    given = list(X.columns)
    parts = {"Missing": [name for name in names if name not in given],
             "Not known": [name for name in given if name not in names]}
    told = (f" {what}: {', '.join(map(repr, map(str, found[:5])))}{', ...' if len(found) > 5 else ''}."
            for what, found in parts.items() if found)
    return "".join(told)


def check_box(bounds: BoundsLike, X: Array, *, finite: bool = False) -> tuple[Array, Array]:
    """Return the two ends of a box, each to be broadcast to X; ValueError for anything else or one that excludes X."""
    try:
        low, high = (np.asarray(side, dtype=X.dtype) for side in bounds)
        outside = np.broadcast_to(~((low <= X) & (high >= X)), X.shape)
    except (TypeError, ValueError):
        raise ValueError(f"bounds must be (low, high), each a number or an array that broadcasts to X {X.shape}. "
                         f"Got {bounds!r}.") from None
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(f"bounds exclude the data: row {row}, column {column} is {X[row, column]:g}. Give a box in "
                         "the units of X that holds every row.")
    if finite and not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(f"bounds must be finite. Got {bounds!r}. Give the limits of each column, or None.")
    return low, high


def check_columns(name: str, value: ArrayLike, width: int) -> Array:
    """Return one radius a column, (1, width); ValueError for other shapes, negative ones, NaN or inf."""
    try:
        columns = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        columns = np.full(0, np.nan)
    if columns.shape not in ((width,), (1, width)) or not (np.isfinite(columns) & (columns >= 0)).all():
        raise ValueError(f"{name} must be a number >= 0, or one for each of the {width} columns of X. Got {value!r}. "
                         "Give radii in the units of X.")
    return columns.reshape(1, width)


def check_classes(y: VectorLike, who: str) -> tuple[Labels, Rows]:
    """Return the sorted classes of ``y`` and each row's class number; refuse continuous or one-class targets."""
    from sklearn.utils.multiclass import check_classification_targets

    labels = np.asarray(y)
    kinds = sorted({"str" if isinstance(label, str) else type(label).__name__ for label in labels}
                   if labels.dtype.kind == "O" else ())
    if kinds not in ([], ["str"]):
        raise TypeError(f"Unknown label type: {who} needs texts or an array of numbers, labels of one type in y. Got "
                        f"{' and '.join(kinds)}. Make all of them text: [str(label) for label in y].")
    if labels.ndim != 1 or labels.dtype.kind not in "biuU":  # of these, labels are no continuous target beyond doubt
        check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"{who} needs at least 2 classes in y. Got 1 class: {classes.tolist()[0]!r}. Add rows of "
                         "another class.")
    return classes, codes


def check_known(y: Labels, classes: Labels, stated: ArrayLike | None = None) -> Rows:
    """Return the number of each label of y (m,) among the sorted ``classes``; refuse labels that are not there.

    Refuses classes ``stated`` that are others, too.
    """
    if stated is not None and not np.array_equal(np.unique(stated), classes):
        raise ValueError(f"classes must be those of the first call, {classes}. Got {stated!r}.")
    known = np.isin(y, classes)
    if not known.all():
        raise ValueError(f"y holds the label {y[~known].tolist()[0]!r}, which is not among the classes of the model, "
                         f"{classes.tolist()}. Leave it out, or fit a model that knows it; in batches, name it in "
                         "classes at first.")
    return np.searchsorted(classes, y)


def check_limits(max_iter: int | None, max_time: float | None) -> None:
    """Refuse iteration and time limits that are not positive; None is no limit."""
    if max_iter is not None:
        check_count("max_iter", max_iter, fix="None is no limit.")
    if max_time is not None:
        check_number("max_time", max_time, 0)
