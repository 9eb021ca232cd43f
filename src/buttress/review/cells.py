"""Cells that are out of line with the others of their row, and what these say should be there."""

from dataclasses import dataclass

import numpy as np

from buttress.audit.reading.table import Table
from buttress.robust.cells import cell_law, deviating_cells


@dataclass(frozen=True)
class WrongCell:
    """What stands in a cell, and what the other columns of its row predict."""

    value: float
    expected: float


def wrong_cells(table: Table) -> dict[int, dict[str, WrongCell]]:
    """Return the cells of numbers at fault by the place of their row and by column, rows without one left out."""
    names = list(table.numeric)
    X = np.array([np.where(np.isnan(column), np.nanmedian(column), column) for column in table.numeric.values()]).T
    if not len(names) or np.abs(X).max() > 1e100:
        return {}
    at_fault = {place: columns for place, columns in enumerate(deviating_cells(X).columns) if len(columns)}
    if not at_fault:
        return {}
    judged = [j for j in range(len(names)) if np.median(np.abs(X[:, j] - np.median(X[:, j]))) > 0]
    law = cell_law(X[:, judged])
    found: dict[int, dict[str, WrongCell]] = {}
    for place, columns in at_fault.items():
        U = law.scaled(X[place : place + 1, judged])
        U[:, [judged.index(j) for j in columns]] = 0.0  # what is wrong itself predicts nothing
        expected = law.middle + law.scale * law.expected(U)[0]
        found[place] = {names[j]: WrongCell(float(X[place, j]), float(expected[judged.index(j)])) for j in columns}
    return found
