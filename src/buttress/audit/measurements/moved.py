"""The columns and curves of the audit about moves in the data as they came, of every estimator of the table."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from buttress.attacks.swaps import WRONG
from buttress.audit.baselines import reads_columns
from buttress.audit.keeping import kept_stage
from buttress.audit.measurements.as_is import AS_IS
from buttress.audit.measurements.attacked import FEWEST
from buttress.audit.measuring.cells import Cell, accuracy, rmse
from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.split_table import SplitTable
from buttress.audit.moves.asking import AskedModel, on_prepared_rows
from buttress.audit.moves.search import CORNERS, SWEEPS, blanks_of, swaps_of, worst_changes, worst_numbers
from buttress.audit.moves.yours import Yours
from buttress.checkpoints.memory import Memory


def _take(split: SplitTable, measured: Measured) -> Course:
    yours = split.yours
    assert yours is not None
    result = Measured(columns=yours.columns, cells={key: {} for key in yours.columns})
    rows = {key: _rows(split, yours, key) for key in yours.columns}
    result.on = {f"rows of which {says}": f"{rows[key]} of {len(split.test)}" for key, says in (
        ("moved", "numbers are moved as they came"), ("swapped", "categories are swapped"),
        ("blanked", "cells are left empty")) if key in rows}
    result.curves = {key: {"x": list(_steps(split, yours, key))} for key in yours.columns}
    for k, (name, model) in enumerate(measured.models.items()):
        asked = yours.model.asked() if name == yours.name else on_prepared_rows(
            model, split.features.native if reads_columns(name) else split.features.prepared, split.table.target,
            split.classifies)
        for key in yours.columns:
            yield f"{name}: {key}", k / len(measured.models)
            cells = _kept_search(split, yours, name, asked, key, rows[key])
            at = {"moved": split.options.eps, "swapped": float(split.options.swaps), "blanked": 1.0}[key]
            result.cells[key][name] = cells[int(np.argmin(np.abs(np.array(result.curves[key]["x"]) - at)))]
            result.curves[key][name] = [cell.value for cell in cells]
    return result


def _steps(split: SplitTable, yours: Yours, key: str) -> Sequence[float]:
    if key == "moved":
        return [0.0, *(share * split.options.eps for share in (0.5, 1.0, 2.0))]
    axes = [axis for axis in yours.model.space.axes if (axis.levels if key == "swapped" else axis.gap is not None)]
    most = min(len(axes), max(3, split.options.swaps))  # cells of a row, at the end of a curve
    return [float(count) for count in range(most + 1)]


def _rows(split: SplitTable, yours: Yours, key: str) -> int:
    """Return on how many held-out rows a search asks all models, so that each is asked as often as is planned."""
    movable = sum(1 for axis in yours.model.space.axes if axis.spread)
    changes = len(swaps_of(yours.model.space.axes) if key == "swapped" else blanks_of(yours.model.space.axes))
    steps = len(_steps(split, yours, key)) - 1
    asks = steps * (CORNERS + 2 * SWEEPS * movable if key == "moved" else changes)
    return min(len(split.test), max(FEWEST, int(split.plan.queries / max(asks, 1))))


def _kept_search(split: SplitTable, yours: Yours, name: str, asked: AskedModel, key: str, rows: int) -> list[Cell]:
    """Return the cells of one curve, or what the checkpoint of the audit keeps of them."""

    def searched() -> Memory:
        return {"cells": [vars(cell) for cell in _search(split, yours, asked, key, rows)]}

    return [Cell(**cell) for cell in kept_stage(["moves", name, key], searched)["cells"]]


def _search(split: SplitTable, yours: Yours, asked: AskedModel, key: str, count: int) -> list[Cell]:
    axes = yours.model.space.axes
    steps = _steps(split, yours, key)[1:]
    changes = swaps_of(axes) if key == "swapped" else blanks_of(axes)
    movable = [axis for axis in axes if axis.spread]
    rows = yours.model.space.rows(split.test.places)[:count]
    enough = WRONG if split.classifies else np.inf
    searched = [[harm(rows), *(worst_numbers(harm, rows, movable, steps, split.options.seed) if key == "moved"
                               else worst_changes(harm, rows, changes, len(steps), enough))]
                for harm in asked.harms(split.table.target)]
    return [_cell(np.max(one, axis=0), split) for one in zip(*searched, strict=True)]


def _cell(harms: NDArray[np.float64], split: SplitTable) -> Cell:
    together = None if split.test.together is None else split.test.together[: len(harms)]
    return accuracy(harms < WRONG, together) if split.classifies else rmse(harms, split.options.seed, together)


MOVED = Measurement("moves of the columns as they came", _take, Cost(60.0), (AS_IS.name,),
                    lambda split: split.yours is not None)
