"""What looks wrong with whole columns: numbers of rows, entries far out, and columns that give the target away."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._suggest import listed
from buttress.audit.reading.entries import factorised
from buttress.audit.reading.table import DataTable

NORMAL_QUARTILES = 1.349  # standard deviations of a normal column between its quartiles
LOOKED_AT = 20_000  # rows of a longer table that some checks of columns look at
SPLIT = 3e38  # scikit-learn's trees split numbers of float32, which are smaller


@dataclass(frozen=True)
class Quartiles:
    """Of the numbers of a column, NaN where missing, and their robust deviation.

    That is the standard deviation where the quartiles are equal.
    """

    low: float
    middle: float
    high: float
    spread: float


def quartiles_of(column: NDArray[np.float64]) -> Quartiles:
    low, middle, high = np.nanquantile(column, [0.25, 0.5, 0.75]).tolist()
    return Quartiles(low, middle, high, (high - low) / NORMAL_QUARTILES or float(np.nanstd(column)))


def stretched(table: DataTable) -> list[str]:
    """Return a sentence on the columns of which a few entries make the standard deviation, if there are any."""
    far = {name: found for name, column in table.numeric.items() if len(found := _far_out(column))}
    if not far:
        return []
    rows = table.row_numbers[np.unique(np.concatenate(list(far.values())))].tolist()
    return [f"Column{'s' * (len(far) > 1)} {listed(far, 3)}: entries lie so far out (row{'s' * (len(rows) > 1)} "
            f"{listed(rows, 3, str)}) that they make the standard deviation, and standardised all other rows look "
            "alike. Correct or drop those rows, or take logarithms."]


def _far_out(column: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the rows that make the standard deviation of a column; none of one that is mostly one value."""
    found = quartiles_of(column)
    # a lognormal column of log deviation 2 is as far from a normal one
    reach = 20.0 * (found.high - found.low) / NORMAL_QUARTILES
    if not 0 < reach < np.nanstd(column):
        return np.empty(0, dtype=np.intp)
    return np.flatnonzero(np.abs(column - found.middle) > reach)


def skewed(y: NDArray[np.float64]) -> bool:
    """Say whether one of the outer tenths of the targets lies over twice as far from the median as the other."""
    low, middle, high = np.quantile(y, [0.1, 0.5, 0.9])
    return bool(low < middle < high and not 0.5 <= (high - middle) / (middle - low) <= 2)


def counts(column: NDArray[np.float64]) -> bool:
    """Say whether a column holds n whole numbers in sequence, each once, in whatever order."""
    ordered = np.sort(column)
    return bool(ordered[0] % 1 == 0 and np.array_equal(ordered, ordered[0] + np.arange(len(ordered))))


def tells(column: NDArray[Any], y: NDArray[Any], codes: NDArray[np.intp] | None) -> str:
    """Return how a column gives the target away, empty if it does not; ``codes`` number the classes of the target."""
    if column.dtype.kind == "f" and np.isnan(column).any():
        return ""
    if y.dtype.kind != "U" and column.dtype.kind == "f" and np.array_equal(column, y):
        return "equals"
    if codes is None:
        return "is a straight line in" if _proportional(column, y) else ""
    values, low, high = _classes_of(column, codes)
    if (low < high).any():
        return ""  # a value with rows of two classes
    # a value stands for four rows on average, if knowing its class is to say anything
    few = len(values) * 4 <= len(codes)
    runs = 1 + np.count_nonzero(np.diff(low))  # of one class, in order of the values
    return "alone tells" if few or (column.dtype.kind == "f" and runs == codes.max() + 1) else ""


def _classes_of(
    column: NDArray[Any], codes: NDArray[np.intp]
) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.intp]]:
    """Return the values of a column in order, and the least and the greatest class of each."""
    values, value_of = factorised(column)
    low = np.full(len(values), len(codes))
    high = np.full(len(values), -1)
    np.minimum.at(low, value_of, codes)
    np.maximum.at(high, value_of, codes)
    return values, low, high


def _proportional(column: NDArray[Any], y: NDArray[np.float64]) -> bool:
    if column.dtype.kind != "f":
        return False
    x, z = (values / np.abs(values).max() - np.mean(values / np.abs(values).max()) for values in (column, y))
    slope = (x @ z) / (x @ x)
    return bool(np.abs(z - slope * x).max() <= 1e-9 * np.abs(z).max())
