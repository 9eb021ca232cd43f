"""From a file, a bundled set or a frame to columns of numbers and of categories, with everything dropped on record.

Loads scikit-learn only to prepare the features, so that the command refuses unusable data at once.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._suggest import LARGEST

MISSING = "(missing)"
MAX_LEVELS = 50  # a text column with more values than this is taken for an identifier
MAX_CLASSES = 10  # whole-number targets with at most this many values are classes


@dataclass
class Table:
    """Feature columns by name and the target, rows aligned; numbers are float64 with NaN, categories are text.

    ``by_number`` says that the names x0, x1, ... stand for columns of an array; ``origin`` is the file or bundled set
    it was read from and its kind, None for data given as objects.
    """

    numeric: dict[str, NDArray[np.float64]]
    categorical: dict[str, NDArray[Any]]
    target: NDArray[Any]
    target_name: str
    row_numbers: NDArray[np.intp]
    notes: list[str] = field(default_factory=list)
    by_number: bool = False
    origin: tuple[str, str] | None = None

    def __len__(self) -> int:
        return len(self.target)

    def array(self) -> NDArray[Any]:
        """Return the features as one object array (n, d), numbers first."""
        columns = [*self.numeric.values(), *self.categorical.values()]
        return np.array([np.asarray(column, dtype=object) for column in columns], dtype=object).T

    def preparation(self) -> Any:
        """Return the transformer of :meth:`array`: numbers median-filled and standardised, categories to 0/1."""
        from sklearn.compose import ColumnTransformer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        numbers = list(range(len(self.numeric)))
        categories = list(range(len(numbers), len(numbers) + len(self.categorical)))
        return ColumnTransformer([
            ("numeric", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
            ("categorical", OneHotEncoder(handle_unknown="ignore", sparse_output=False), categories),
        ])


def columns_of(X: Any) -> dict[str, Any]:
    """Return the columns of an array (named by number) or of a pandas or polars frame."""
    if hasattr(X, "columns"):
        return {str(name): X[name] for name in X.columns}
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must be two-dimensional, rows by columns. Got shape {X.shape}.")
    return {f"x{j}": X[:, j] for j in range(X.shape[1])}


def make_table(columns: dict[str, Any], target: Any, target_name: str, task: str) -> tuple[Table, str]:
    """Sort columns into numbers and categories, drop what cannot be used (each with a note), and settle the task."""
    notes: list[str] = []
    y, present = _clean_target(target, target_name, notes)
    numeric: dict[str, NDArray[np.float64]] = {}
    categorical: dict[str, NDArray[Any]] = {}
    for name, column in columns.items():
        values = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
        if len(values) != len(present):
            raise ValueError(f"Column {name!r} has {len(values)} rows, the target {target_name!r} has {len(present)}.")
        _place(name, values[present], numeric, categorical, notes)
    if not numeric and not categorical:
        raise ValueError(f"No usable feature column is left. {' '.join(notes)}")
    task = settle_task(y, target_name, task)
    y = y.astype(np.float64) if task == "regression" else _as_labels(y)
    return Table(numeric, categorical, y, target_name, np.flatnonzero(present), notes), task


def _clean_target(target: Any, name: str, notes: list[str]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    y = np.asarray(target.to_numpy() if hasattr(target, "to_numpy") else target)
    if y.ndim != 1:
        raise ValueError(f"The target {name!r} must be one column. Got shape {y.shape}.")
    present = np.array([not _is_missing(value) for value in y], dtype=bool)
    if not present.all():
        notes.append(f"{(~present).sum()} rows without a target {name!r} were dropped.")
    y = y[present]
    if len(y) < 20:
        raise ValueError(f"An audit needs at least 20 rows with a target. Got {len(y)}.")
    if y.dtype.kind == "f":
        _refuse_extremes(name, y)
    return y, present


def _place(name: str, values: Any, numeric: dict[str, Any], categorical: dict[str, Any], notes: list[str]) -> None:
    numbers = _numbers(name, values)
    if numbers is not None:
        known = numbers[~np.isnan(numbers)]
        if known.size == 0 or known.min() == known.max():
            notes.append(f"Column {name!r} is {'empty' if known.size == 0 else 'constant'} and was dropped.")
        else:
            numeric[name] = numbers
        return
    text = np.array([MISSING if _is_missing(value) else str(value) for value in values], dtype=object)
    levels = len(set(text))
    if levels < 2:
        notes.append(f"Column {name!r} is constant and was dropped.")
    elif levels > MAX_LEVELS:
        notes.append(f"Column {name!r} has {levels} different texts and was dropped as an identifier.")
    else:
        categorical[name] = text


def _numbers(name: str, values: Any) -> NDArray[np.float64] | None:
    """Return the values as float64 with NaN where missing, or None when they are not numbers."""
    if values.dtype.kind in "iufb":
        numbers = values.astype(np.float64)
    elif values.dtype.kind == "O" and all(_is_missing(v) or isinstance(v, (int, float, np.number)) for v in values):
        numbers = np.array([np.nan if _is_missing(v) else float(v) for v in values])
    else:
        return None
    _refuse_extremes(name, numbers)
    return numbers


def _refuse_extremes(name: str, numbers: NDArray[Any]) -> None:
    bad = np.flatnonzero(np.abs(numbers) > LARGEST)
    if bad.size:
        raise ValueError(f"Column {name!r} holds {numbers[bad[0]]:g} in row {bad[0]} ({bad.size} such rows). "
                         "Replace infinite and huge entries or drop those rows.")


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, (float, np.floating)) and math.isnan(value)) or str(value) == "<NA>"


def settle_task(y: NDArray[Any], name: str, task: str) -> str:
    """Return "classification" or "regression": text, bools and whole numbers with at most 10 values are classes."""
    number = y.dtype.kind in "iuf"
    values = np.unique(y.astype(str) if y.dtype.kind == "O" else y)
    first = values.tolist()[0]
    whole = number and bool(np.all(np.asarray(values, dtype=np.float64) % 1 == 0))
    classes = not number or (whole and len(values) <= MAX_CLASSES)
    if task == "classification" and number and not whole:
        raise ValueError(f"The target {name!r} is continuous, which is not a set of classes. Use --task regression.")
    if task == "regression" and not number:
        raise ValueError(f"The target {name!r} holds {first!r}, which is not a number. Use --task classification.")
    if len(values) < 2:
        raise ValueError(f"The target {name!r} has only one value, {first!r}: there is nothing to predict.")
    return task if task != "auto" else ("classification" if classes else "regression")


def _as_labels(y: NDArray[Any]) -> NDArray[Any]:
    """Return class labels as text, or as whole numbers where they are numbers."""
    return y.astype(np.int64) if y.dtype.kind in "iuf" else np.array([str(value) for value in y])
