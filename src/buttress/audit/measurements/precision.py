"""To what the numbers of a column are given, and how far rounding alone moves them: what ``eps`` may be at least."""


import numpy as np
from numpy.typing import NDArray

from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.shown import Precision
from buttress.audit.measuring.split_table import SplitTable
from buttress.audit.reading.cautions import LOOKED_AT

FINEST, COARSEST = -9, 9  # powers of ten that are tried


def _take(split: SplitTable, measured: Measured) -> Course:
    yield "what columns are rounded to", 0.0
    found = [(name, column, step_of(column)) for name, column in split.table.numeric.items()]
    rounded = [Precision(name, step, float(step / 2 / np.nanstd(column))) for name, column, step in found if step]
    return Measured(precision=sorted(rounded, key=lambda one: -one.eps))


def step_of(column: NDArray[np.float64]) -> float:
    """Return the largest power of ten of which all entries are multiples, 0 where none shows.

    >>> step_of(np.arange(0, 500, 10.0)), step_of(np.arange(100) / 8), step_of(np.sqrt(np.arange(100.0)))
    (10.0, 0.001, 0.0)
    """
    entries = np.unique(column[:: -(-len(column) // LOOKED_AT)])
    entries = np.abs(entries[~np.isnan(entries)])
    if len(entries) < 20:  # so few are levels or counts rather than rounded
        return 0.0
    for power in range(COARSEST, FINEST - 1, -1):
        steps = entries / 10.0**power
        if steps.max() > 1e6:  # finer ones are as the computer holds them, and show no rounding
            return 0.0
        if (np.abs(steps - np.round(steps)) <= 1e-13 * steps).all():  # its digits and a division may be off
            return float(f"1e{power}")
    return 0.0


PRECISION = Measurement("what columns are rounded to", _take, Cost(0.01, rows=0.0),
                        applies=lambda split: bool(split.table.numeric))
