"""A fitted model on new data: joined rows as arrays and frames, or another join."""

from typing import Any

import numpy as np

from buttress._checks import Array, check_values, near
from buttress.relational.plan import Plan
from buttress.relational.sources import make_column

Features = list[tuple[str, str, list[str] | None]]


def joined_features(X: Any, features: Features) -> Array:
    """Return the columns a model's coefficients stand for, of joined rows: an array in feature order, or a frame.

    A category that was not seen in training counts as none. Raises ValueError naming a missing column, NaN, or a wrong
    number of columns.
    """
    blocks = []
    for j, (table, column, categories) in enumerate(features):
        name = f"{table}.{column}"
        values = make_column(_column(X, name, j, len(features)))
        if values.null.any():
            raise ValueError(f"Column {name!r} is NULL or NaN in {int(values.null.sum())} rows. Impute or drop them.")
        if categories is not None:
            blocks.append(values.values.astype(str)[:, None] == np.array(categories)[None, :])
            continue
        try:
            block = np.asarray(values.values, dtype=np.float64)[:, None]
        except ValueError:
            raise ValueError(f"Column {name!r} must hold numbers, as in training.") from None
        check_values(block, [repr(name)], "RelationalLinearSVC")
        blocks.append(block)
    n = len(X) if hasattr(X, "__len__") else X.num_rows
    return np.hstack(blocks).astype(np.float64) if blocks else np.zeros((n, 0))


def _column(X: Any, name: str, j: int, width: int) -> Any:
    columns = list(getattr(X, "column_names", getattr(X, "columns", [])))
    if columns:
        if name not in columns:
            raise ValueError(f"The frame has no column {name!r}.{near(name, map(str, columns))}")
        return np.asarray(X[name].to_numpy())
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] != width:
        raise ValueError(f"Expected joined rows of {width} columns (feature_names_in_). Got shape {X.shape}.")
    return X[:, j]


def plan_beta(plan: Plan, model: Any) -> Array:
    """Return a model's coefficients for the scaled columns of another plan, matched by name."""
    known = dict(zip(model.coef_names_, model.coef_[0]))
    here = {f"{table.name}.{column}" for table in plan.tables for column, _ in table.features}
    absent = sorted(set(model.feature_names_in_) - here)
    if absent:
        raise ValueError(f"The join has no feature {absent[0]!r}, which the model was trained on."
                         f"{near(absent[0], here)}")
    beta = np.zeros(plan.width)
    for table, part in zip(plan.tables, plan.slices):
        coef = np.array([known.get(name, 0.0) for name in table.names])
        beta[part.start : part.start + len(coef)] = coef * table.scale
        if part.stop - part.start > len(coef):
            beta[part.stop - 1] = model.intercept_[0]
    return beta
