"""Features of a table: numbers divided by a scale, text one-hot, NULL filled and marked where that is asked."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from buttress._checks import Array
from buttress.relational.checks import check_categories, check_feature, check_weights, check_weights_kind
from buttress.relational.declare import Table
from buttress.relational.plan.plan import Encoding, Index, TableData
from buttress.relational.sources.columns import Column

MOST_DENSE_COLUMNS = 16  # columns; a wider table, mostly zeros of one-hot text, is kept as a CSR matrix


ROBUST_QUANTILE = 0.95  # of the magnitudes that are not 0: one value in twenty may be as far off as it likes


@dataclass
class Encoded:
    """One feature: its columns, their scales, its categories (None for numbers), and how NULL is held."""

    block: sparse.csr_array
    scales: list[float]
    categories: list[str] | None
    fill: float | None
    indicator: bool


def table_data(table: Table, columns: dict[str, Column], rows: Index, absent: bool, intercept: bool,
               encoding: Encoding) -> TableData:
    """Return the features of the given rows, an all-zero row after them if ``absent``, a column of ones if asked.

    Raises ValueError naming the column for NULL and NaN, where they are not to be filled, and values beyond 1e100.
    """
    found = {name: _encoded(table.name, name, columns[name], rows, encoding) for name in table.features}
    blocks = [feature.block for feature in found.values()]
    scales = [scale for feature in found.values() for scale in feature.scales]
    if intercept:
        blocks.append(sparse.csr_array(np.ones((len(rows), 1))))
    X = _stacked(blocks, len(rows), absent)
    weight = _weights(table, columns, rows)
    weight = np.append(weight, 1.0) if absent else weight
    return TableData(table.name, X, weight, np.array(scales, dtype=np.float64),
                     [(name, feature.categories) for name, feature in found.items()], rows,
                     {name: feature.fill for name, feature in found.items() if feature.fill is not None},
                     frozenset(name for name, feature in found.items() if feature.indicator))


def _encoded(table: str, name: str, column: Column, rows: Index, encoding: Encoding) -> Encoded:
    null = column.null[rows]
    refused = int(null.sum()) if encoding.missing == "raise" else 0
    if column.kind != "number":
        check_feature(table, name, column.kind, refused, 0.0)
        block, categories = _one_hot(table, name, column.values[rows], null)
        return _with_indicator(Encoded(block, [1.0] * len(categories), categories, None, False), null)
    values = np.asarray(column.values[rows], dtype=np.float64)
    held = values[~null]
    check_feature(table, name, column.kind, refused, float(np.abs(held).max(initial=0.0)))
    scale = robust_scale(held) if encoding.scaling == "robust" else float(np.abs(held).max(initial=0.0)) or 1.0
    fill = _fill(f"{table}.{name}", held, encoding)
    filled = np.where(null, 0.0 if fill is None else fill, values)
    return _with_indicator(Encoded(sparse.csr_array((filled / scale)[:, None]), [scale], None, fill, False), null)


def robust_scale(values: Array) -> float:
    """Return the quantile of the magnitudes that are not 0, by interpolation; 1 where all are."""
    magnitudes = np.abs(values[values != 0])
    return float(np.quantile(magnitudes, ROBUST_QUANTILE)) if len(magnitudes) else 1.0


def _fill(name: str, held: Array, encoding: Encoding) -> float | None:
    """Return what stands for NULL: what did in training, or 0 or the mean of the values that are there."""
    if encoding.fills is not None:
        return encoding.fills.get(name)
    if encoding.missing == "raise":
        return None
    return float(held.mean()) if encoding.missing == "mean" and len(held) else 0.0


def _with_indicator(feature: Encoded, null: NDArray[np.bool_]) -> Encoded:
    if null.any():
        marked = sparse.csr_array(null.astype(np.float64)[:, None])
        feature.block = sparse.hstack([feature.block, marked], format="csr")
        feature.scales.append(1.0)
        feature.indicator = True
    return feature


def _one_hot(
    table: str, name: str, values: NDArray[np.generic], null: NDArray[np.bool_]
) -> tuple[sparse.csr_array, list[str]]:
    held = values[~null]
    distinct = set(held.tolist())
    check_categories(table, name, len(distinct), len(values), lambda: max(map(str, distinct)))
    categories, codes = np.unique(held.astype(str), return_inverse=True)
    place = (np.flatnonzero(~null), codes.reshape(-1))
    block = sparse.csr_array((np.ones(len(held)), place), shape=(len(values), len(categories)))
    return block, categories.tolist()


def _stacked(blocks: Sequence[sparse.csr_array], n: int, absent: bool) -> Array | sparse.csr_array:
    X = sparse.hstack(blocks, format="csr") if blocks else sparse.csr_array((n, 0))
    if absent:
        X = sparse.vstack([X, sparse.csr_array((1, X.shape[1]))], format="csr")
    return X if X.shape[1] > MOST_DENSE_COLUMNS else X.toarray()


def _weights(table: Table, columns: dict[str, Column], rows: Index) -> Array:
    if table.weights is None:
        return np.ones(len(rows))
    column = columns[table.weights]
    check_weights_kind(table.name, table.weights, column.kind)
    n_null = int(column.null[rows].sum())
    weight = np.asarray(column.values[rows], dtype=np.float64)
    n_negative = int((weight < 0).sum())
    check_weights(table.name, table.weights, n_null, n_negative, float(np.abs(weight).max(initial=0.0)))
    return weight
