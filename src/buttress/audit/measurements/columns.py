"""What is known before any model is fitted: the findings of columns, target and split."""

import numpy as np

from buttress._suggest import counted
from buttress.audit.findings import Evidence, find_first
from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.split_table import SplitTable
from buttress.audit.measuring.suspicion import none_judged
from buttress.audit.reading.cautions import stretched


def _take(split: SplitTable, measured: Measured) -> Course:
    yield "columns", 0.0
    table = split.table
    evidence = Evidence(table, split.classifies, split.train.places, split.test.places, np.zeros(0, dtype=np.intp),
                        none_judged(table.target, split.classifies), {}, None, split.baseline, split.options.eps)
    known = find_first(evidence, split.options.ignore)
    told = [f"{finding.severity} {finding.code} {finding.title}" for findings in known.values() for finding in findings]
    yours = split.yours.notes if split.yours is not None else []
    return Measured(
        known=known, notes=[*stretched(table), *([split.note] if split.note else []), *yours],
        told=told or [f"{counted(len(table.numeric) + len(table.categorical), 'column')}: nothing looks wrong so far."])


COLUMNS = Measurement("columns", _take, Cost(0.5, rows=0.0))
