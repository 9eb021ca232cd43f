"""What is measured of columns, without a model: findings, precision, associations, and how they change along the rows.

Precision is to what the numbers of a column are given: ``eps`` is at least how far rounding alone moves them.

An association says how much two columns say the same: one number from 0 to 1 for each pair of the target and the
columns that say most of it. It is the largest correlation that can be made of the two: of numbers the rank correlation
of Spearman, with its sign; of a category and a number the correlation ratio of the ranks; of two categories the first
canonical correlation of their indicators, Cramer's V where both have two values. Categories of few rows count together.

Columns are drawn whose later rows come from another distribution than the earlier ones, by the tests of newer rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from buttress._suggest import counted
from buttress.audit.against import changed
from buttress.audit.findings import Evidence, find_first
from buttress.audit.findings.columns import LEVEL
from buttress.audit.measuring.measurement import (
    Along,
    Associations,
    ColumnBand,
    Cost,
    Measured,
    Measurement,
    Precision,
    Stages,
)
from buttress.audit.measuring.split_table import Places, SplitTable
from buttress.audit.measuring.suspicion import none_judged
from buttress.audit.reading.cautions import LOOKED_AT, stretched


def _take_findings(split: SplitTable, measured: Measured) -> Stages:
    yield "columns", 0.0
    table = split.table
    evidence = Evidence(table, split.train.places, split.test.places, np.zeros(0, dtype=np.intp),
                        none_judged(table.target, split.classifies), {}, None, split.baseline, split.options.eps)
    known = find_first(evidence, split.options.ignore)
    told = [f"{finding.severity} {finding.code} {finding.title}" for findings in known.values() for finding in findings]
    yours = split.yours.notes if split.yours is not None else []
    return Measured(
        known=known, notes=[*stretched(table), *([split.note] if split.note else []), *yours],
        told=told or [f"{counted(len(table.numeric) + len(table.categorical), 'column')}: nothing looks wrong so far."])


COLUMNS = Measurement("columns", _take_findings, Cost(0.5, rows=0.0))


FINEST, COARSEST = -9, 9  # powers of ten that are tried


def _take_precision(split: SplitTable, measured: Measured) -> Stages:
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


PRECISION = Measurement("what columns are rounded to", _take_precision, Cost(0.01, rows=0.0),
                        applies=lambda split: bool(split.table.numeric))


def _take_associations(split: SplitTable, measured: Measured) -> Stages:
    yield "associations of columns", 0.0
    table, places = split.table, split.train.places
    target: NDArray[Any] = table.target[places]
    first = of_categories(target.astype(str)) if split.classifies else of_numbers(target.astype(np.float64))
    bases = {name: of_numbers(column[places]) for name, column in table.numeric.items()}
    bases |= {name: of_categories(column[places]) for name, column in table.categorical.items()}
    with_target = {name: associated(first, basis) for name, basis in bases.items()}
    chosen = sorted(bases, key=lambda name: -with_target[name])[:12]  # beside the target
    all_of = [(first, not split.classifies), *((bases[name], name in table.numeric) for name in chosen)]
    values = [[associated(one, other) * (np.sign(one.T @ other).item() if numbers and too else 1.0)
               for other, too in all_of] for one, numbers in all_of]
    return Measured(associations=Associations([table.target_name, *chosen], values, len(places)))


def of_numbers(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the centred ranks (n, 1) of numbers, of length 1; missing ones in the middle."""
    known = ~np.isnan(column)
    ranks = np.zeros(len(column))
    ranks[known] = rankdata(column[known])
    ranks[known] -= ranks[known].mean() if known.any() else 0.0
    return ranks[:, None] / max(float(np.linalg.norm(ranks)), np.finfo(np.float64).tiny)


def of_categories(column: NDArray[Any]) -> NDArray[np.float64]:
    """Return an orthonormal basis (n, k) of what centred indicators of categories can say; k is 0 where they are one.
    """
    values, codes, counts = np.unique(column, return_inverse=True, return_counts=True)
    # the indicator of one row fits anything
    codes = np.unique(np.where(counts >= 10, np.arange(len(values)), -1)[codes], return_inverse=True)[1]
    indicators = (codes[:, None] == np.arange(codes.max() + 1)).astype(np.float64)
    left, sizes, _ = np.linalg.svd(indicators - indicators.mean(axis=0), full_matrices=False)
    return np.asarray(left[:, sizes > 1e-9 * np.sqrt(len(column))])


def associated(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the largest correlation of combinations of two orthonormal bases, (n, k) and (n, l)."""
    between = one.T @ other
    return float(np.clip(np.linalg.norm(between, 2), 0.0, 1.0)) if between.size else 0.0


ASSOCIATIONS = Measurement("associations of columns", _take_associations, Cost(0.03))


PARTS = 10  # of the rows in their order, of equal size


def _take_drift(split: SplitTable, measured: Measured) -> Stages:
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


DRIFTED = Measurement("columns along the rows", _take_drift, Cost(0.03, rows=0.0))
