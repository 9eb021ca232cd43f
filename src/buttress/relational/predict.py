"""A fitted model on new data: joined rows as arrays and frames, or another join."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from buttress._checks import Array, check_values, near
from buttress.relational.plan.plan import Plan, indicator_name
from buttress.relational.sources.columns import Column, make_column
from buttress.relational.sources.tables import frame_column, frame_names

Features = list[tuple[str, str, list[str] | None]]


def joined_features(
    X: Any, features: Features, optional: Collection[str], fills: Mapping[str, float], columns_known: Collection[str]
) -> Array:
    """Return the columns a model's coefficients stand for, of joined rows: an array in feature order, or a frame.

    A category that was not seen in training counts as none, and a row whose columns of an ``optional`` table are all
    NULL as one that a left join found no match for: they are 0. ``fills`` says what stands for NULL in numbers, and
    ``columns_known`` names the columns of the coefficients, indicators of NULL among them. Raises ValueError naming a
    missing column, NaN, or a wrong number of columns.
    """
    columns = [_column(X, f"{table}.{column}", j, len(features))
               for j, (table, column, _) in enumerate(features)]
    unmatched = {name: np.all([columns[j].null for j, (table, _, _) in enumerate(features) if table == name], axis=0)
                 for name in {table for table, _, _ in features} & set(optional)}
    blocks = []
    for (table, column, categories), values in zip(features, columns, strict=True):
        full = f"{table}.{column}"
        apart = np.asarray(unmatched.get(table, False))
        marked = indicator_name(full) in columns_known
        absent = values.null & ~apart
        if absent.any() and full not in fills and not (marked and categories is not None):
            raise ValueError(f"Column {full!r} is NULL or NaN in {int(absent.sum())} rows. Impute or drop them, or fit "
                             "with missing='mean'.")
        blocks.append(np.where(absent[:, None], fills.get(full, 0.0), _block(full, values, categories)))
        if marked:
            blocks.append(absent[:, None].astype(np.float64))
    n = len(X) if hasattr(X, "__len__") else X.num_rows
    return np.hstack(blocks) if blocks else np.zeros((n, 0))


def _block(name: str, column: Column, categories: list[str] | None) -> Array:
    """Return the columns of one feature, 0 where it is NULL."""
    if categories is not None:
        met: Array = (column.values.astype(str)[:, None] == np.array(categories)[None, :]).astype(np.float64)
        return np.where(column.null[:, None], 0.0, met)
    try:
        block = np.where(column.null, 0, column.values).astype(np.float64)[:, None]
    except (TypeError, ValueError):  # times or words
        raise ValueError(f"Column {name!r} must hold numbers, as in training.") from None
    check_values(block, [repr(name)], "RelationalLinearSVC")
    return block


def _column(X: Any, name: str, j: int, width: int) -> Column:
    columns = frame_names(X)
    if columns:
        if name not in columns:
            raise ValueError(f"The frame has no column {name!r}.{near(name, columns)} Rows of the join have "
                             "a column 'table.column' for each feature. For one answer a row of the label's table, "
                             "give a Join of the new tables.")
        return frame_column(X, name)
    X = np.asarray(X)
    if X.ndim != 2 or X.shape[1] != width:
        raise ValueError(f"Expected joined rows of {width} columns (feature_names_in_). Got shape {X.shape}.")
    return make_column(X[:, j])


def _check_kinds(plan: Plan, features: Features) -> None:
    """Refuse text where training held numbers, and numbers where it held text; all NULL may be either."""
    was = {(table, column): categories for table, column, categories in features}
    for table in plan.tables:
        for feature in table.features:
            full = f"{table.name}.{feature.name}"
            known = was.get((table.name, feature.name), feature.categories)
            if (known is None) == (feature.categories is None):
                continue
            marks = table.X[:, [table.names.index(indicator_name(full))]].sum() if feature.indicator else 0
            if marks < len(table.rows):
                kinds = ("numbers", "text") if known is None else ("text", "numbers")
                raise ValueError(f"Feature {full} held {kinds[0]} in training, and holds {kinds[1]} now. Convert it.")


def plan_beta(plan: Plan, coefficients: Mapping[str, float], intercept: float, features: Features) -> Array:
    """Return a model's coefficients, given by name, for the scaled columns of another plan."""
    here = {f"{table.name}.{feature.name}" for table in plan.tables for feature in table.features}
    absent = sorted({f"{table}.{column}" for table, column, _ in features} - here)
    if absent:
        raise ValueError(f"The join has no feature {absent[0]!r}, which the model was trained on."
                         f"{near(absent[0], here)}")
    _check_kinds(plan, features)
    beta = np.zeros(plan.width)
    for table, part in zip(plan.tables, plan.slices):
        coef = np.array([coefficients.get(name, 0.0) for name in table.names])
        beta[part.start : part.start + len(coef)] = coef * table.scale
        if part.stop - part.start > len(coef):
            beta[part.stop - 1] = intercept
    return beta
