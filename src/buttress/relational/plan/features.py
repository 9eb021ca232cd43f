"""Features of a table: numbers divided by a scale, text one-hot, NULL filled and marked where that is asked.

What a feature becomes is decided from its statistics, which this process takes of its rows and a database by a SELECT.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from buttress._checks import Array
from buttress.relational.checks import (
    check_categories,
    check_decimals,
    check_feature,
    check_scale,
    check_weights,
    check_weights_kind,
)
from buttress.relational.declare import Table
from buttress.relational.plan.plan import EncodedFeature, Encoding, Index, TableData
from buttress.relational.sources.columns import Column

ROBUST_QUANTILE = 0.95  # of the magnitudes that are not 0: one value in twenty may be as far off as it likes


@dataclass(frozen=True)
class Statistics:
    """Of a feature's rows: the largest magnitude, how many are NULL, the mean, and what ``Encoding.scaling`` asks for.

    ``spread`` is the largest magnitude again, or ``robust_scale``; of text only ``n_null`` counts.
    """

    largest: float
    n_null: float
    mean: float
    spread: float


def encoded(table: str, name: str, kind: str, statistics: Statistics, categories: Callable[[], list[str]],
            encoding: Encoding) -> EncodedFeature:
    """Return what a feature becomes; ``categories`` finds the values of text. Raises ValueError where it is none."""
    numeric = kind == "number"
    check_feature(table, name, kind, int(statistics.n_null) if encoding.missing == "raise" else 0,
                  statistics.largest if numeric else 0.0)
    marked = statistics.n_null > 0
    check_scale(table, name, statistics.spread)
    if not numeric:
        known = categories()
        check_decimals(table, name, known)
        return EncodedFeature(name, 1.0, None, known, marked)
    if encoding.fills is not None:
        fill = encoding.fills.get(f"{table}.{name}")
    elif encoding.missing == "raise":
        fill = None
    else:
        fill = statistics.mean if encoding.missing == "mean" else 0.0
    return EncodedFeature(name, statistics.spread or 1.0, fill, None, marked)


def table_data(table: Table, columns: dict[str, Column], rows: Index, absent: bool, intercept: bool,
               encoding: Encoding) -> TableData:
    """Return the features of the given rows, an all-zero row after them if ``absent``, a column of ones if asked.

    Raises ValueError naming the column for NULL and NaN, where they are not to be filled, and values beyond 1e100.
    """
    blocks = []
    features = []
    for name in table.features:
        values = columns[name].values[rows]
        null = columns[name].null[rows]
        feature = _feature(table.name, name, columns[name].kind, values, null, encoding)
        features.append(feature)
        blocks.append(_numbers(feature, values, null) if feature.categories is None else
                      _one_hot(feature.categories, values, null))
        if feature.indicator:
            blocks.append(sparse.csr_array(null.astype(np.float64)[:, None]))
    if intercept:
        blocks.append(sparse.csr_array(np.ones((len(rows), 1))))
    X = sparse.hstack(blocks, format="csr") if blocks else sparse.csr_array((len(rows), 0))
    weight = _weights(table, columns, rows)
    if absent:
        X = sparse.vstack([X, sparse.csr_array((1, X.shape[1]))], format="csr")
        weight = np.append(weight, 1.0)
    # a wider table is mostly zeros of one-hot text
    return TableData(table.name, X if X.shape[1] > 16 else X.toarray(), weight, features, rows)


def _feature(table: str, name: str, kind: str, values: NDArray[np.generic], null: NDArray[np.bool_],
             encoding: Encoding) -> EncodedFeature:
    held = values[~null]

    def categories() -> list[str]:
        distinct = set(held.tolist())
        check_categories(table, name, len(distinct), len(values), lambda: max(map(str, distinct)))
        return np.unique(held.astype(str)).tolist()

    numbers = held.astype(np.float64) if kind == "number" else np.zeros(0)
    largest = float(np.abs(numbers).max(initial=0.0))
    spread = robust_scale(numbers) if encoding.scaling == "robust" else largest
    mean = float(numbers.mean()) if len(numbers) else 0.0
    return encoded(table, name, kind, Statistics(largest, int(null.sum()), mean, spread), categories, encoding)


def robust_scale(values: Array) -> float:
    """Return the quantile of the magnitudes that are not 0, by interpolation; 0 where all are."""
    magnitudes = np.abs(values[values != 0])
    return float(np.quantile(magnitudes, ROBUST_QUANTILE)) if len(magnitudes) else 0.0


def _numbers(feature: EncodedFeature, values: NDArray[np.generic], null: NDArray[np.bool_]) -> sparse.csr_array:
    filled = np.where(null, feature.fill or 0.0, values.astype(np.float64))
    return sparse.csr_array((filled / feature.scale)[:, None])


def _one_hot(categories: list[str], values: NDArray[np.generic], null: NDArray[np.bool_]) -> sparse.csr_array:
    codes = np.searchsorted(np.array(categories, dtype=str), values[~null].astype(str))
    place = (np.flatnonzero(~null), codes)
    return sparse.csr_array((np.ones(len(codes)), place), shape=(len(values), len(categories)))


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
