"""Features of a table: numbers divided by their largest magnitude, text one-hot, and the way back."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from buttress._checks import Array
from buttress.relational.checks import check_categories, check_feature, check_weights, check_weights_kind
from buttress.relational.columns import Column
from buttress.relational.declare import Table
from buttress.relational.plan.plan import Index, TableData

MOST_DENSE_COLUMNS = 16  # columns; a wider table, mostly zeros of one-hot text, is kept as a CSR matrix


def table_data(table: Table, columns: dict[str, Column], rows: Index, absent: bool, intercept: bool) -> TableData:
    """Return the features of the given rows, an all-zero row after them if ``absent``, a column of ones if asked.

    Raises ValueError naming the column for NULL, NaN or values beyond 1e100.
    """
    blocks: list[sparse.csr_array] = []
    scales: list[float] = []
    described: list[tuple[str, list[str] | None]] = []
    for name in table.features:
        block, scale, categories = _encoded(table.name, name, columns[name], rows)
        blocks.append(block)
        scales += scale
        described.append((name, categories))
    if intercept:
        blocks.append(sparse.csr_array(np.ones((len(rows), 1))))
    X = _stacked(blocks, len(rows), absent)
    weight = _weights(table, columns, rows)
    weight = np.append(weight, 1.0) if absent else weight
    return TableData(table.name, X, weight, np.array(scales, dtype=np.float64), described, rows)


def _encoded(
    table: str, name: str, column: Column, rows: Index
) -> tuple[sparse.csr_array, list[float], list[str] | None]:
    """Return one feature's columns, their scales, and its categories (None for numbers)."""
    n_null = int(column.null[rows].sum())
    if column.kind != "number":
        check_feature(table, name, column.kind, n_null, 0.0)
        block, categories = _one_hot(table, name, column.values[rows])
        return block, [1.0] * len(categories), categories
    values = np.asarray(column.values[rows], dtype=np.float64)
    largest = float(np.abs(values).max(initial=0.0))
    check_feature(table, name, column.kind, n_null, largest)
    scale = largest or 1.0
    return sparse.csr_array((values / scale)[:, None]), [scale], None


def _one_hot(table: str, name: str, values: NDArray[np.generic]) -> tuple[sparse.csr_array, list[str]]:
    n = len(values)
    distinct = set(values.tolist())
    check_categories(table, name, len(distinct), n, lambda: max(map(str, distinct)))
    categories, codes = np.unique(values.astype(str), return_inverse=True)
    block = sparse.csr_array((np.ones(n), codes.reshape(-1), np.arange(n + 1)), shape=(n, len(categories)))
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
