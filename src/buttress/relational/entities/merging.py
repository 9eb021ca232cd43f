"""Statistics of sets of rows in this process: from rows, merged by key, and as known at a time."""

from collections.abc import Mapping, Sequence

import numpy as np

from buttress._checks import Array
from buttress.relational.entities.features import Statistic
from buttress.relational.plan.plan import Index
from buttress.relational.sources.columns import Column

NEUTRAL = {"SUM": 0.0, "MIN": np.inf, "MAX": -np.inf, "LAST": -np.inf}  # of no rows
Found = dict[str, Array]  # statistics by name; of a LAST also the time, under the name that ``when`` gives


def when(name: str) -> str:
    """Return the name under which the time of a last value is kept."""
    return f"{name}@"


def of_rows(statistics: Sequence[Statistic], columns: Mapping[str, Column], centers: Mapping[str, float],
            time: Array | None, n: int) -> Found:
    """Return the statistics of each of a table's n rows; equal arrays are one object, so that they are merged once."""
    ones = np.ones(n)
    found: Found = {}
    for statistic in statistics:
        if statistic.of == "row":
            found[statistic.name] = ones
            continue
        column = columns[statistic.column]
        if statistic.of == "category":
            found[statistic.name] = (~column.null & (column.values == statistic.category)).astype(float)
        elif statistic.of == "known":
            found[statistic.name] = (~column.null).astype(float) if column.null.any() else ones
        else:
            less = 0.0 if statistic.of == "value" else centers.get(statistic.column, 0.0)
            shifted = np.where(column.null, 0, column.values).astype(np.float64) - less
            value = np.square(shifted) if statistic.of == "square" else shifted
            known = ~column.null
            if statistic.merge == "LAST" and time is not None:
                known = known & ~np.isnan(time)
                found[when(statistic.name)] = np.where(known, time, -np.inf)
            found[statistic.name] = np.where(known, value, NEUTRAL[statistic.merge])
    return found


def taken(found: Found, rows: Index) -> Found:
    """Return the statistics of some rows, in their order; one object stays one."""
    done = {id(values): values[rows] for values in found.values()}
    return {name: done[id(values)] for name, values in found.items()}


def merged(statistics: Sequence[Statistic], found: Found, group: Index, n_groups: int) -> Found:
    """Return the statistics of each group of rows; rows of group -1 are left out."""
    kept = None if (group >= 0).all() else group >= 0
    group = group if kept is None else group[kept]
    sums: dict[int, Array] = {}
    out: Found = {}
    for statistic in statistics:
        values = found[statistic.name] if kept is None else found[statistic.name][kept]
        if statistic.merge == "SUM":
            same = id(found[statistic.name])
            if same not in sums:
                sums[same] = np.bincount(group, values, n_groups).astype(np.float64)
            out[statistic.name] = sums[same]
        elif statistic.merge == "LAST":
            times = found[when(statistic.name)] if kept is None else found[when(statistic.name)][kept]
            latest = _end(np.maximum, times, group, n_groups, -np.inf)
            values = np.where(times == latest[group], values, -np.inf)
            out[statistic.name] = _end(np.maximum, values, group, n_groups, -np.inf)
            out[when(statistic.name)] = latest
        else:
            end = np.minimum if statistic.merge == "MIN" else np.maximum
            out[statistic.name] = _end(end, values, group, n_groups, NEUTRAL[statistic.merge])
    return out


def _end(end: np.ufunc, values: Array, group: Index, n_groups: int, neutral: float) -> Array:
    out = np.full(n_groups, neutral)
    end.at(out, group, values)
    return out


def merged_by(statistics: Sequence[Statistic], found: Found, group: Index, time: Array, asked: Index,
              as_of: Array) -> Found:
    """Return for each question (key, as_of) the statistics of the rows of its key whose time is before it.

    Every row goes to the first question of its key that may see it; then questions of one key take over, in the order
    of their times, what those before them have seen. Rows and questions of key -1, and rows without a time, are left
    out.
    """
    dates, date = np.unique(as_of, return_inverse=True)
    width = len(dates) + 1
    question = asked * width + date
    order = np.argsort(question, kind="stable")
    place = np.searchsorted(question[order], group * width + np.searchsorted(dates, time, side="right"))
    there = place < len(order)
    first = np.full(len(group), -1)
    first[there] = order[place[there]]
    first[(group < 0) | (asked[first] != group)] = -1
    seen = merged(statistics, found, first, len(asked))
    return _taken_over(statistics, seen, asked, as_of)


def _taken_over(statistics: Sequence[Statistic], seen: Found, asked: Index, as_of: Array) -> Found:
    """Add to each question what the questions of its key before it have seen: all second ones, then all third ones."""
    order = np.lexsort([as_of, asked])
    starts = np.flatnonzero(np.diff(asked[order], prepend=np.iinfo(np.int64).min))
    place = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    by_place = np.argsort(place, kind="stable")
    ends = np.searchsorted(place[by_place], np.arange(place.max(initial=0) + 2))
    once = list({id(seen[statistic.name]): statistic for statistic in statistics}.values())
    for r in range(1, len(ends) - 1):
        here = by_place[ends[r] : ends[r + 1]]
        now = order[here]
        before = order[here - 1]
        for statistic in once:
            _add(seen, statistic, now, before)
    return seen


def _add(seen: Found, statistic: Statistic, now: Index, before: Index) -> None:
    values = seen[statistic.name]
    if statistic.merge == "SUM":
        values[now] += values[before]
    elif statistic.merge == "MIN":
        values[now] = np.minimum(values[now], values[before])
    elif statistic.merge == "MAX":
        values[now] = np.maximum(values[now], values[before])
    else:
        times = seen[when(statistic.name)]
        earlier = (times[before] > times[now]) | ((times[before] == times[now]) & (values[before] > values[now]))
        values[now] = np.where(earlier, values[before], values[now])
        times[now] = np.maximum(times[now], times[before])
