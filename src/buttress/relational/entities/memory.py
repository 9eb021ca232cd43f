"""Features of entities in this process: the columns in use of the base tables are read, and merged along each path."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.relational.declare import Join
from buttress.relational.entities.features import ROWS, Feature, Ranged, Statistic, ranged_of, statistics_of, value_of
from buttress.relational.entities.paths import Hop, moments, used
from buttress.relational.entities.ranges import ranged
from buttress.relational.plan.keys import combine, encode, match, match_count
from buttress.relational.plan.plan import Index
from buttress.relational.sources.columns import Column
from buttress.relational.sources.tables import read_columns

Columns = dict[str, Column]
Found = dict[str, Array]  # statistics by name; of a LAST also the time, under the name that ``when`` gives
MERGE = {"SUM": np.add, "MIN": np.minimum, "MAX": np.maximum, "LAST": np.maximum}
NEUTRAL = {"SUM": 0.0, "MIN": np.inf, "MAX": -np.inf, "LAST": -np.inf}  # of no rows


class InProcess:
    """Aggregates of the tables of a join, whose columns in use are read once.

    ``paths`` are those of :func:`find_paths`, ``asked`` the columns of the rows that features are for, ``as_of`` their
    times (NaN nowhere) or None, ``day`` a day in the unit of times.
    """

    def __init__(self, join: Join, paths: Mapping[int, list[Hop]], asked: Columns, as_of: Array | None, day: float):
        self.join = join
        self.paths = paths
        self.as_of = as_of
        self.day = day
        self.columns: dict[int, Columns] = {join.root: asked}
        self.times: dict[int, Array] = {}
        for t in paths:
            table = join.tables[t]
            names = used(join, paths, t)
            self.columns[t] = read_columns(table.source, names)
            if table.time is not None:
                self.times[t] = moments(self.columns[t][table.time], f"Time {table.name}.{table.time}")
        self._numbered: dict[Hop, tuple[Index, Index]] = {}

    def mean_and_largest(self, t: int, name: str) -> tuple[float, float]:
        """Return the mean and the largest magnitude of a column of numbers, of what the latest entity sees."""
        values = np.asarray(self.columns[t][name].values[self._seen(t, name)], dtype=np.float64)
        return float(values.mean()) if len(values) else 0.0, float(np.abs(values).max(initial=0.0))

    def most_frequent(self, t: int, name: str, limit: int) -> list[str]:
        """Return the most frequent values of text, of what the latest entity sees."""
        return most_frequent(self.columns[t][name], self._seen(t, name), limit)

    def _seen(self, t: int, name: str) -> NDArray[np.bool_]:
        known = ~self.columns[t][name].null
        return known if self.as_of is None or t not in self.times else known & (self.times[t] < self.as_of.max())

    def values(self, features: Sequence[Feature], centers: Mapping[str, float]) -> Array:
        """Return the features' values, shape (n, n_features), NaN where an entity has no row with a value."""
        n = len(next(iter(self.columns[self.join.root].values())).null)
        out = np.zeros((n, len(features)))
        for t, per in {(t, feature.per): None for t in self.paths for feature in features
                       if feature.table == self.join.tables[t].name}:
            mine = [(j, feature) for j, feature in enumerate(features)
                    if (feature.table, feature.per) == (self.join.tables[t].name, per)]
            wanted = [feature for _, feature in mine]
            found = self._values(t, per) if per else self._along(t, statistics_of(wanted, centers),
                                                                 ranged_of(wanted, self.day))
            for j, feature in mine:
                out[:, j] = value_of(feature, found, self.as_of, self.day)
        return out

    def _along(self, t: int, wanted: list[Statistic], windows: list[Ranged]) -> Found:
        """Return the statistics of the rows of table t that belong to each entity, one table after the other."""
        n = len(next(iter(self.columns[t].values())).null)
        statistics = [statistic for statistic in wanted if statistic.of != "time"]
        found = of_rows(statistics, self.join.tables[t].name, self.columns[t], self.times.get(t), n)
        at = np.arange(n)
        time = self._known_at(t)
        for hop in reversed(self.paths[t][1:]):
            above, below = self._codes(hop)
            if time is None:
                groups = merged(statistics, found, below[at], _groups(above, below))
                at = np.flatnonzero(groups[ROWS.name][above] > 0)
                found = taken(groups, above[at])
                time = self._known_at(hop.parent)
                time = None if time is None else time[at]
                continue
            check_size(self.join, hop, t, match_count(above, below[at]), max(len(above), len(below)))
            at, second = match(above, below[at])
            found = taken(found, second)
            own = self._known_at(hop.parent)
            time = time[second] if own is None else np.maximum(time[second], own[at])
        above, below = self._codes(self.paths[t][0])
        if time is not None and self.as_of is not None:
            found |= {statistic.name: time for statistic in wanted if statistic.of == "time"}
            seen = merged_by(wanted, found, below[at], time, above, self.as_of)
            return seen | ranged(windows, found, below[at], time, above, self.as_of)
        return taken(merged(statistics, found, below[at], _groups(above, below)), above)

    def _values(self, t: int, name: str) -> Found:
        """Return for each entity how many different values of a column its rows have; earlier rows of one are enough.
        """
        column = self.columns[t][name]
        at = np.flatnonzero(~column.null)
        value = np.unique(column.values[at], return_inverse=True)[1].astype(np.int64)
        known = self._known_at(t)
        time = np.full(len(at), -np.inf) if known is None else known[at]
        for hop in reversed(self.paths[t][1:]):
            above, below = self._codes(hop)
            key, value, time = _firsts(below[at], value, time)
            check_size(self.join, hop, t, match_count(above, key), max(len(above), len(below)))
            at, second = match(above, key)
            own = self._known_at(hop.parent)
            value = value[second]
            time = time[second] if own is None else np.maximum(time[second], own[at])
        above, below = self._codes(self.paths[t][0])
        key, value, time = _firsts(below[at], value, time)
        ones = {ROWS.name: np.ones(len(key))}
        if self.as_of is None:
            return taken(merged([ROWS], ones, key, _groups(above, below)), above)
        return merged_by([ROWS], ones, key, time, above, self.as_of)

    def _known_at(self, t: int) -> Array | None:
        """Return when each row of a table became known, None where that does not matter."""
        return None if self.as_of is None else self.times.get(t)

    def _codes(self, hop: Hop) -> tuple[Index, Index]:
        """Return the keys of both tables of a hop as numbers, -1 where NULL."""
        if hop not in self._numbered:
            columns = [self.columns.get(t, {}) for t in range(len(self.join.tables))]
            codes = [encode(self.join, {hop.parent: [above], hop.child: [below]}, columns)
                     for above, below in hop.columns]
            n = len(codes[0][hop.parent])
            both = combine([np.concatenate([code[hop.parent], code[hop.child]]) for code in codes])
            self._numbered[hop] = both[:n], both[n:]
        return self._numbered[hop]


def _firsts(key: Index, value: Index, time: Array) -> tuple[Index, Index, Array]:
    """Return the earliest row of each key and value; rows of key -1 and rows without a time are left out."""
    there = np.flatnonzero((key >= 0) & ~np.isnan(time))
    order = there[np.lexsort([time[there], value[there], key[there]])]
    new = np.flatnonzero(np.diff(key[order], prepend=-1) | np.diff(value[order], prepend=-1))
    return key[order[new]], value[order[new]], time[order[new]]


def _groups(above: Index, below: Index) -> int:
    """Return one more than there are keys: the last group, of key -1, has no rows."""
    return int(max(above.max(initial=0), below.max(initial=0))) + 2


def most_frequent(column: Column, known: NDArray[np.bool_], limit: int) -> list[str]:
    """Return the ``limit`` most frequent values of text, of equally frequent ones the first in order; sorted."""
    counts = Counter(column.values[known].tolist())
    return sorted(sorted(counts, key=lambda value: (-counts[value], value))[:limit])


def check_size(join: Join, hop: Hop, t: int, n_rows: float, largest: int) -> None:
    """Refuse rows limited in time whose path would have to be made, larger than any table on it."""
    if n_rows > largest:
        raise ValueError(f"A row of {join.tables[t].name!r} belongs to several rows of "
                         f"{join.tables[hop.parent].name!r}, and as_of looks at the time of each of the {n_rows:.3g} "
                         f"pairs. Only {largest:.3g} are allowed, the rows of a table. To keep both times, make a view "
                         "with one row a pair and the later of its times.")


def when(name: str) -> str:
    """Return the name under which the time of a last value is kept."""
    return f"{name}@"


def of_rows(statistics: Sequence[Statistic], table: str, columns: Columns, time: Array | None, n: int) -> Found:
    """Return the statistics of each of a table's n rows; equal arrays are one object, so that they are merged once.

    Raises ValueError for a column that held numbers in training and now holds something else.
    """
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
            if column.kind != "number" and not column.null.all():
                raise ValueError(f"Feature {table}.{statistic.column} held numbers in training, and holds "
                                 f"{column.kind} now. Convert it.")
            shifted = np.where(column.null, 0, column.values).astype(np.float64) - statistic.center
            value = np.square(shifted) if statistic.of == "square" else shifted
            known = ~column.null
            if statistic.of == "part":
                known = known & (columns[statistic.by].values == statistic.category)
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
    kept = np.flatnonzero(group >= 0)
    if len(kept) < len(group):
        group, found = group[kept], taken(found, kept)
    done: dict[tuple[int, str], Array] = {}
    out: Found = {}
    for statistic in statistics:
        values = found[statistic.name]
        same = id(values), statistic.merge
        if statistic.merge == "LAST":
            times = found[when(statistic.name)]
            latest = _of_groups("MAX", times, group, n_groups)
            values = np.where(times == latest[group], values, -np.inf)
            out[when(statistic.name)] = latest
        if same not in done:
            done[same] = _of_groups(statistic.merge, values, group, n_groups)
        out[statistic.name] = done[same]
    return out


def _of_groups(merge: str, values: Array, group: Index, n_groups: int) -> Array:
    out = np.full(n_groups, NEUTRAL[merge])
    MERGE[merge].at(out, group, values)
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
    if statistic.merge == "LAST":
        times = seen[when(statistic.name)]
        earlier = (times[before] > times[now]) | ((times[before] == times[now]) & (values[before] > values[now]))
        values[now] = np.where(earlier, values[before], values[now])
        times[now] = np.maximum(times[now], times[before])
    else:
        values[now] = MERGE[statistic.merge](values[now], values[before])
