"""What looks wrong with whole columns: numbers of rows, and columns that give the target away."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.audit.table import Table

FEW = 4  # a value stands for at least so many rows on average, if knowing its class is to say anything


def cautions(table: Table, classifies: bool) -> list[str]:
    """Return a sentence for each column that counts the rows or tells the target; the columns are kept."""
    notes = []
    for name, column in table.numeric.items():
        if _counts(column):
            notes.append(f"Column {name!r} counts the rows: all its entries are different whole numbers in sequence, "
                         f"from {column.min():.0f}. It was kept; drop it if it only numbers them.")
    columns: dict[str, NDArray[Any]] = {**table.numeric, **table.categorical}
    for name, column in columns.items():
        how = _tells(column, table.target, classifies)
        if how:
            notes.append(f"Column {name!r} {how} the target {table.target_name!r}. It was kept; check that it is not "
                         "made from it, and would be known before it.")
    return notes


def _counts(column: NDArray[np.float64]) -> bool:
    """Say whether a column holds n whole numbers in sequence, each once, in whatever order."""
    ordered = np.sort(column)
    return bool(ordered[0] % 1 == 0 and np.array_equal(ordered, ordered[0] + np.arange(len(ordered))))


def _tells(column: NDArray[Any], y: NDArray[Any], classifies: bool) -> str:
    """Return how a column gives the target away, empty if it does not."""
    if column.dtype.kind == "f" and np.isnan(column).any():
        return ""
    if y.dtype.kind != "U" and column.dtype.kind == "f" and np.array_equal(column, y):
        return "equals"
    if not classifies:
        return "is a straight line in" if _proportional(column, y) else ""
    codes = np.unique(y, return_inverse=True)[1]
    values, value_of = np.unique(column.astype(str) if column.dtype.kind == "O" else column, return_inverse=True)
    low, high = np.full(len(values), len(y)), np.full(len(values), -1)
    np.minimum.at(low, value_of, codes)
    np.maximum.at(high, value_of, codes)
    if (low < high).any():
        return ""  # a value with rows of two classes
    runs = 1 + int((low[1:] != low[:-1]).sum())
    few = len(values) * FEW <= len(y)
    return "alone tells" if few or (column.dtype.kind == "f" and runs == codes.max() + 1) else ""


def _proportional(column: NDArray[Any], y: NDArray[np.float64]) -> bool:
    if column.dtype.kind != "f":
        return False
    x, z = (values / np.abs(values).max() - np.mean(values / np.abs(values).max()) for values in (column, y))
    slope = (x @ z) / (x @ x)
    return bool(np.abs(z - slope * x).max() <= 1e-9 * np.abs(z).max())
