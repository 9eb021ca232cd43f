"""Features of a table: numbers divided by their largest magnitude, text one-hot, and the way back."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from buttress._checks import LARGEST, Array
from buttress.relational.declare import Table
from buttress.relational.plan import Index, TableData
from buttress.relational.sources import Column

DENSE = 16  # one-hot columns beyond this many make the table's features sparse

MANY = 50  # values of a text that are one-hot encoded whatever the number of rows


def table_data(table: Table, columns: dict[str, Column], rows: Index, absent: bool, intercept: bool) -> TableData:
    """Return the features of the given rows, an all-zero row after them if ``absent``, a column of ones if asked.

    Raises ValueError naming the column for NULL, NaN or values beyond 1e100.
    """
    blocks: list[Any] = []
    scales: list[list[float]] = []
    described: list[tuple[str, list[str] | None]] = []
    for name in table.features:
        column = columns[name]
        _check(table, name, column, rows)
        if column.kind == "number":
            block, scale = _scaled(np.asarray(column.values[rows], dtype=np.float64), table, name)
            blocks.append(block)
            scales.append([scale])
            described.append((name, None))
        else:
            block, categories = _one_hot(table.name, name, column.values[rows])
            blocks.append(block)
            scales.append([1.0] * len(categories))
            described.append((name, categories))
    if intercept:
        blocks.append(sparse.csr_array(np.ones((len(rows), 1))))
    X = _stacked(blocks, len(rows), absent)
    weight = _weights(table, columns, rows)
    weight = np.append(weight, 1.0) if absent else weight
    return TableData(table.name, X, weight, np.concatenate([np.zeros(0), *scales]), described, rows)


def _check(table: Table, name: str, column: Column, rows: Index) -> None:
    gone = int(column.null[rows].sum())
    if gone:
        raise ValueError(f"Feature {table.name}.{name} is NULL or NaN in {gone} rows. Impute or drop those rows.")
    check_time(table.name, name, column.kind)


def check_time(table: str, name: str, kind: str) -> None:
    """Refuse a feature of times: what counts (age, weekday, season) is not ours to guess."""
    if kind == "time":
        raise ValueError(f"Feature {table}.{name} holds times. Turn it into numbers that mean something to a linear "
                         "model, such as days before the label's date, the hour or the month, and use those.")


def check_categories(table: str, name: str, many: int, n: int, example: Callable[[], str]) -> None:
    """Refuse text of ``many`` values in n rows, nearly one each: identifiers, or numbers with a stray word among them.

    The values are counted before they are encoded, or fetched from a database; only an ``example`` is asked for.
    """
    if many > max(MANY, n / 2):
        raise ValueError(f"Feature {table}.{name} is text with {many} values in {n} rows (such as {example()!r}): an "
                         "identifier, or numbers with a word among them. Leave it out of features, or mend the column.")


def _scaled(values: Array, table: Table, name: str) -> tuple[Any, float]:
    most = float(np.abs(values).max(initial=0.0))
    if not most <= LARGEST:
        raise ValueError(f"Feature {table.name}.{name} holds {most:g}, too large. Rescale or drop those rows.")
    return sparse.csr_array((values / most if most else values)[:, None]), most if most else 1.0


def _one_hot(table: str, name: str, values: NDArray[Any]) -> tuple[Any, list[str]]:
    n, met = len(values), set(values.tolist())
    check_categories(table, name, len(met), n, lambda: max(map(str, met)))
    categories, codes = np.unique(values.astype(str), return_inverse=True)
    block = sparse.csr_array((np.ones(n), codes.reshape(-1), np.arange(n + 1)), shape=(n, len(categories)))
    return block, categories.tolist()


def _stacked(blocks: list[Any], n: int, absent: bool) -> Any:
    X = sparse.hstack(blocks, format="csr") if blocks else sparse.csr_array((n, 0))
    if absent:
        X = sparse.vstack([X, sparse.csr_array((1, X.shape[1]))], format="csr")
    return X if X.shape[1] > DENSE else X.toarray()


def _weights(table: Table, columns: dict[str, Column], rows: Index) -> Array:
    if table.weights is None:
        return np.ones(len(rows))
    column = columns[table.weights]
    if column.kind != "number":
        raise ValueError(f"Weights {table.name}.{table.weights} must be numbers. Got {column.kind}.")
    _check(table, table.weights, column, rows)
    weight = np.asarray(column.values[rows], dtype=np.float64)
    if (weight < 0).any() or not (weight <= LARGEST).all():
        raise ValueError(f"Weights {table.name}.{table.weights} must be in [0, 1e100]. Got {weight.min():g} to "
                         f"{weight.max():g}.")
    return weight
