"""Cells that are out of line with the others of their row, and what these say should be there."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buttress.audit.reading.table import Table
from buttress.robust.cells import cell_law, deviating_cells


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
    at_fault = {i: wrong for i, wrong in enumerate(deviating_cells(X).columns) if len(wrong)}
    if not at_fault:
        return {}
    judged = [j for j in range(len(names)) if np.median(np.abs(X[:, j] - np.median(X[:, j]))) > 0]
    law = cell_law(X[:, judged])
    found: dict[int, dict[str, WrongCell]] = {}
    for i, wrong in at_fault.items():
        U = law.scaled(X[i : i + 1, judged])
        U[:, [judged.index(j) for j in wrong]] = 0.0  # what is wrong itself predicts nothing
        expected = law.middle + law.scale * law.expected(U)[0]
        found[int(rows[i])] = {names[j]: WrongCell(float(X[i, j]), float(expected[judged.index(j)])) for j in wrong}
    return found
