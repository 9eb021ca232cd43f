"""Cells that are out of line with the others of their row, and what these say should be there."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buttress.audit.reading.table import Table
from buttress.robust.cells import deviating_cells


@dataclass(frozen=True)
class WrongCell:
    """What stands in a cell, and what the other columns of its row predict."""

    value: float
    expected: float


def wrong_cells(table: Table, rows: NDArray[np.intp]) -> dict[int, dict[str, WrongCell]]:
    """Return the cells of numbers at fault in some rows by the place of the row and by column, others left out.

    A gap counts as the median of its column.
    """
    names = list(table.numeric)
    if not names:
        return {}
    columns = [column[rows] for column in table.numeric.values()]
    X = np.column_stack([np.nan_to_num(column, nan=np.nanmedian(every)) for column, every in
                         zip(columns, table.numeric.values(), strict=True)])
    cells = deviating_cells(X)
    return {int(rows[i]): {names[j]: WrongCell(float(X[i, j]), float(expected))
                           for j, expected in zip(wrong, cells.expected[i], strict=True)}
            for i, wrong in enumerate(cells.columns) if len(wrong)}
