"""Held-out rows that are farther from the others than those are from each other, and everybody's score on them."""

import numpy as np

from buttress.audit.against.tests import unlike
from buttress.audit.measurements.as_is import AS_IS
from buttress.audit.measuring.cells import accuracy, root_mean
from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.split_table import SplitTable
from buttress.audit.measuring.suspicion import plain

NOVELTY = 0.1  # of the rows called novel are not: a false discovery rate


def _take(split: SplitTable, measured: Measured) -> Course:
    yield "novel rows", 0.0
    rest = split.at_most(np.setdiff1d(np.arange(len(split.table)), split.test.places), split.plan.novelty)
    outside = np.sort(unlike(split.prepared(rest), split.test.X, NOVELTY))
    result = Measured(on={"rows that held-out ones are compared with": f"{len(rest)} of {len(split.table)}"})
    result.novel = [plain(row) for row in split.table.row_numbers[split.test.places[outside]]]
    if result.novel:
        what = "accuracy" if split.classifies else "RMSE"
        together = None if split.test.together is None else split.test.together[outside]
        result.columns["novel"] = f"{what} on the {len(result.novel)} novel held-out rows"
        result.cells["novel"] = {
            name: accuracy(loss[outside] == 0, together) if split.classifies
            else root_mean(loss[outside], split.options.seed, together) for name, loss in measured.losses.items()}
    return result


NOVEL = Measurement("novel rows", _take, Cost(0.1, rows=0.0), (AS_IS.name,))
