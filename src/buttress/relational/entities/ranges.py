"""What earlier rows say, in this process: those in a window before a date, and those of the same key before each row.

Rows in windows are looked at as pairs of date and row, a block at a time.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from buttress._checks import Array
from buttress._compiling import compile_kernel
from buttress.relational.entities.features import ROWS, Ranged
from buttress.relational.plan.plan import Index

MERGE = {"SUM": np.add, "MIN": np.minimum, "MAX": np.maximum, "LAST": np.maximum}
NEUTRAL = {"SUM": 0.0, "MIN": np.inf, "MAX": -np.inf, "LAST": -np.inf}  # of no rows
BLOCK = 1 << 20  # pairs that are made at a time: 8 MB a value


def ranged(wanted: Sequence[Ranged], found: dict[str, Array], group: Index, time: Array, tied: Array | None,
           asked: Index, as_of: Array) -> dict[str, Array]:
    """Return for each question (key, as_of) the statistics ``wanted`` of the rows of its key in their windows.

    ``found`` are statistics of each row, ``group`` its key, ``time`` when it became known, and ``tied`` its rank among
    rows of that time, where they have one. Rows in order of key and time make each window a range of them.
    """
    known = np.flatnonzero((group >= 0) & ~np.isnan(time))
    tied = np.zeros(len(time)) if tied is None else tied
    order = known[np.lexsort([tied[known], time[known], group[known]])]
    time, tied = time[order], tied[order]
    moments = np.unique(time)
    width = len(moments) + 1
    codes = group[order] * width + np.searchsorted(moments, time)

    def place(limit: Array | float) -> Index:
        return np.searchsorted(codes, asked * width + np.searchsorted(moments, limit))

    stop = place(as_of)
    counts = np.append(0, np.cumsum(found[ROWS.name][order]))
    last = (np.diff(codes, append=-1) != 0) | (np.diff(tied, append=-1) != 0)
    until = counts[1:][last][np.cumsum(last) - last]  # rows up to this one, and those of its time and order
    out: dict[str, Array] = {}
    for window in {one.window for one in wanted}:
        start = place(as_of - window.size)
        if window.rows:
            start = np.maximum(place(-np.inf), np.searchsorted(until, counts[stop] - window.size, side="right"))
        mine = [one for one in wanted if one.window == window]
        out |= {one.name: np.full(len(asked), NEUTRAL[one.merge]) for one in mine}
        for here, pairs, first in _blocks(start, stop):
            age = time[pairs] - np.repeat(as_of[here], np.diff(np.append(first, len(pairs))))
            rows = order[pairs]
            for one in mine:
                out[one.name][here] = MERGE[one.merge].reduceat(_terms(one, found[one.base][rows], age), first)
    return out


def _blocks(start: Index, stop: Index) -> Iterator[tuple[Index, Index, Index]]:
    """Yield questions that have rows, the places of all their rows, and where those of each question begin."""
    there = np.flatnonzero(start < stop)
    ends = np.cumsum(stop[there] - start[there])
    for here in np.split(there, np.flatnonzero(np.diff(ends // BLOCK)) + 1):
        lengths = stop[here] - start[here]
        first = np.cumsum(lengths) - lengths
        if len(here):
            yield here, np.repeat(start[here] - first, lengths) + np.arange(lengths.sum()), first


def _terms(one: Ranged, values: Array, age: Array) -> Array:
    """Return what is added up, or compared, of each pair."""
    if not one.power:
        return values
    return values * age**one.power if one.merge == "SUM" else np.where(values > 0, age, NEUTRAL[one.merge])


def excess(values: Array, key: Index, time: Array) -> Array:
    """Return each row's value less the mean of the values of its key at earlier times; NaN where there are none.

    Values that are NaN, rows of key -1 and rows without a time (NaN) count nowhere. Sums are of one key alone.
    """
    there = np.flatnonzero((key >= 0) & ~np.isnan(time) & ~np.isnan(values))
    order = there[np.lexsort([time[there], key[there]])]
    found = np.full(len(values), np.nan)
    found[order] = values[order] - _earlier_means(values[order], key[order], time[order], np.empty(len(order)))
    return found


@compile_kernel("float64[::1](float64[::1], int64[::1], float64[::1], float64[::1])")
def _earlier_means(values: Array, key: Index, time: Array, mean: Array) -> Array:
    """Set ``mean`` for rows in order of key and time, 0 / 0 for the first time of a key, and return it."""
    total = before = 0.0  # of the rows up to this one, and of those before its time
    first = since = 0  # where its key and its time begin
    for i in range(len(values)):
        if i == 0 or key[i] != key[i - 1]:
            first = since = i
            total = before = 0.0
        elif time[i] != time[i - 1]:
            since = i
            before = total
        total += values[i]
        mean[i] = before / (since - first)
    return mean
