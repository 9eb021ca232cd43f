"""How columns change along the file, along the times, or from the rows trained on to those tested on: what to draw.

Columns are drawn whose later rows come from another distribution than the earlier ones, by the tests of newer rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.audit.against.tests import changed
from buttress.audit.findings.columns import LEVEL
from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.shown import Along, ColumnBand
from buttress.audit.measuring.split_table import Places, SplitTable
from buttress.audit.reading.cautions import LOOKED_AT

PARTS = 10  # of the rows in their order, of equal size


def _take(split: SplitTable, measured: Measured) -> Course:
    yield "columns along the rows", 0.0
    table = split.table
    along, rows, ends = _ordered_parts(split)
    columns: dict[str, NDArray[Any]] = {name: column[rows] for name, column in {
        **table.numeric, **table.categorical, table.target_name: table.target}.items()}
    target = columns[table.target_name]
    columns[table.target_name] = target.astype(str) if split.classifies else target.astype(np.float64)
    found = changed(columns, ends[len(ends) // 2], LEVEL)
    drawn = [_drawn(name, np.split(columns[name], ends)) for name in found[:12]]
    return Measured(along=Along(along, len(found), drawn) if drawn else None)


def _ordered_parts(split: SplitTable) -> tuple[str, Places, list[int]]:
    """Return what the rows are in order of, some of them in that order, and where parts after the first begin."""
    table = split.table
    if table.to_test is not None:
        sides = [side[:: -(-len(side) // LOOKED_AT)] for side in map(np.flatnonzero, (~table.to_test, table.to_test))]
        return "from the rows trained on to those tested on", np.concatenate(sides), [len(sides[0])]
    rows = np.arange(len(table)) if table.times is None else np.argsort(table.times, kind="stable")
    rows = rows[:: -(-len(rows) // LOOKED_AT)]
    along = "along the file" if table.times is None else f"along {split.options.time}"
    return along, rows, [len(rows) * k // PARTS for k in range(1, PARTS)]


def _drawn(name: str, parts: list[NDArray[Any]]) -> ColumnBand:
    """Return the quartiles of a column in each part, or the share of the category that changes most."""
    if parts[0].dtype.kind == "f":
        known = [part[~np.isnan(part)] for part in parts]
        thirds = [np.quantile(entries, [0.25, 0.5, 0.75]).tolist() if len(entries) else [None] * 3 for entries in known]
        return ColumnBand(name, None, *(list(line) for line in zip(*thirds, strict=True)))
    values = np.unique(np.concatenate(parts))
    shares = np.array([[float((part == value).mean()) for part in parts] for value in values])
    most = int(np.ptp(shares, axis=1).argmax())
    line = shares[most].tolist()
    return ColumnBand(name, str(values[most]), line, line, line)


DRIFTED = Measurement("columns along the rows", _take, Cost(0.03, rows=0.0))
