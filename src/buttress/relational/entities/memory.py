"""Features of entities in this process: the columns in use of the base tables are read, and merged along each path."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from buttress._checks import LARGEST, Array
from buttress.relational.declare import Join
from buttress.relational.entities.circles import Circle, circles, later
from buttress.relational.entities.features import (
    BETWEEN,
    Feature,
    Ranged,
    Statistic,
    ranged_of,
    statistics_of,
    value_of,
)
from buttress.relational.entities.paths import Hop, blocks, order_of, shared_columns, used
from buttress.relational.entities.ranges import MERGE, NEUTRAL, excess, ranged
from buttress.relational.plan.keys import combine, counted, encode, group_count, largest, match
from buttress.relational.plan.plan import Index
from buttress.relational.plan.times import delay_of, moments
from buttress.relational.sources.columns import Column
from buttress.relational.sources.tables import read_columns

Columns = dict[str, Column]
Found = dict[str, Array]  # statistics by name; under ``when`` of it how late a LAST is, and of "" the order in a time
PAIRS = 1 << 21  # rows with those they meet on the way that are held at a time, 16 MB a value; or a table's rows


@dataclass(frozen=True)
class StatisticRows:
    """Rows ``at`` of a table, each with statistics and when they became known; with ``value``, of one value each."""

    at: Index
    found: Found
    time: Array | None
    value: Index | None

    def some(self, rows: Index) -> "StatisticRows":
        """Return some of the rows, in their order."""
        time, value = (None if part is None else part[rows] for part in (self.time, self.value))
        return StatisticRows(self.at[rows], taken(self.found, rows), time, value)

    def met(self, at: Index, known: Array | None) -> "StatisticRows":
        """Return the rows as each met row ``at`` of the next table, which became ``known``: the later time counts."""
        return replace(self, at=at, time=later(self.time, known, at))

    def brought_together(self, key: Index, statistics: Sequence[Statistic]) -> tuple["StatisticRows", Index]:
        """Return one row a key where times do not matter, the earliest of each key and value, and their keys."""
        if self.value is not None:
            time = np.zeros(len(key)) if self.time is None else self.time
            there = np.flatnonzero((key >= 0) & ~np.isnan(time))
            order = there[np.lexsort([time[there], self.value[there], key[there]])]
            new = np.flatnonzero(np.diff(key[order], prepend=-1) | np.diff(self.value[order], prepend=-1))
            return self.some(order[new]), key[order[new]]
        if self.time is not None:
            return self, key
        keys = np.unique(key[key >= 0])
        together = merged(statistics, self.found, key, group_count(key, key))
        return StatisticRows(keys, taken(together, keys), None, None), keys


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
        self.orders: dict[int, Index] = {}  # ranks
        for t in paths:
            table = join.tables[t]
            names = used(join, paths, t)
            self.columns[t] = read_columns(table.source, names)
            if table.time is not None:
                time = self.columns[t][table.time]
                self.times[t] = moments(time, f"Time {table.name}.{table.time}") + delay_of(table, time)
            order = order_of(join, t, self.columns[t], lambda t, name: largest(self.columns[t][name]))
            if order is not None:
                self.orders[t] = np.unique(order, return_inverse=True)[1]
        self._numbered: dict[Hop, tuple[Index, Index]] = {}

    def moments_of(self, t: int, name: str) -> tuple[float, float, float]:
        """Return mean, deviation (of n) and largest magnitude of a column of numbers, of what the latest entity sees.
        """
        column = self.columns[t][name]
        values = np.asarray(column.values[~column.null & self._may_be_seen(t)], dtype=np.float64)
        small = values[np.abs(values) <= LARGEST]
        mean, deviation = (float(small.mean()), float(small.std())) if len(small) else (0.0, 0.0)
        return mean, deviation, float(np.abs(values).max(initial=0.0))

    def most_frequent(self, t: int, name: str, limit: int) -> list[str]:
        """Return the most frequent values of text, of what the latest entity sees."""
        column = self.columns[t][name]
        return most_frequent(column, ~column.null & self._may_be_seen(t), limit)

    def several(self, hop: Hop, t: int) -> bool:
        """Return whether a key of a hop has on average at least two rows of its table t that the latest entity sees."""
        codes = self._codes(hop)[t == hop.child]
        codes = codes[(codes >= 0) & self._may_be_seen(t)]
        return len(codes) >= 2 * max(len(np.unique(codes)), 1)

    def values(self, features: Sequence[Feature], centers: Mapping[str, float]) -> Array:
        """Return the features' values, shape (n, n_features), NaN where an entity has no row with a value."""
        n = len(next(iter(self.columns[self.join.root].values())).null)
        out = np.zeros((n, len(features)))
        for t, per in {(t, feature.per): None for t in self.paths for feature in features
                       if feature.table == self.join.tables[t].name}:
            mine = [(j, feature) for j, feature in enumerate(features)
                    if (feature.table, feature.per) == (self.join.tables[t].name, per)]
            wanted = [feature for _, feature in mine]
            statistics = statistics_of(wanted, centers)
            far = self._far_rows(t, per, statistics)
            for here, met in self._blocks(t):
                found = self._along(t, far, statistics, ranged_of(wanted, self.day), here, met)
                as_of = None if self.as_of is None else self.as_of[here]
                for j, feature in mine:
                    out[here, j] = value_of(feature, found, as_of, self.day)
        return out

    def _far_rows(self, t: int, per: str, statistics: Sequence[Statistic]) -> StatisticRows:
        """Return the rows of table t with their statistics, and the value of the column ``per`` if there is one."""
        columns = self._with_excess(t, statistics)
        n = len(next(iter(columns.values())).null)
        at = np.flatnonzero(~columns[per].null) if per else np.arange(n)
        value = np.unique(columns[per].values[at], return_inverse=True)[1].astype(np.int64) if per else None
        own = [statistic for statistic in statistics if statistic.of != "time"]
        found = of_rows(own, columns, self._place_in_time(t), n)
        found |= {when(""): self.orders[t]} if t in self.orders else {}
        time = self._known_at(t)
        return StatisticRows(at, taken(found, at), None if time is None else time[at], value)

    def _with_excess(self, t: int, statistics: Sequence[Statistic]) -> Columns:
        """Return the columns of table t, and by how much numbers exceed earlier ones of what their rows share."""
        found = dict(self.columns[t])
        for statistic in statistics:
            name, between, by = statistic.column.partition(BETWEEN)
            if between and statistic.column not in found:
                hop = shared_columns(self.paths, t)[by]
                less = excess(numbers(found[name]), self._codes(hop)[t == hop.child], self.times[t])
                found[statistic.column] = Column(less, np.isnan(less), "number")
        return found

    def _place_in_time(self, t: int) -> Array | None:
        """Return numbers that order the rows of a table by time, and where that is the same by its order column."""
        if t not in self.orders:
            return self.times.get(t)
        ranks = combine([np.unique(self.times[t], return_inverse=True)[1], self.orders[t]])
        return np.where(np.isnan(self.times[t]), np.nan, ranks)

    def _blocks(self, t: int) -> Iterator[tuple[Index, Circle | None]]:
        """Yield the questions in blocks: the rows of table t with those that lead there are held for one at a time.

        With each, where they meet the rows of a table that is tied to them.
        """
        path = self.paths[t]
        tie = path[-1].tie
        codes = [self._codes(hop) for hop in path]
        asked = codes[0][0]
        everyone = np.arange(len(asked))
        most = max([PAIRS, *(len(below) for _, below in codes)])
        if tie is not None:
            known = [self._known_at(hop.child) for hop in path]
            for part, met in circles(self.join.tables[t].name, codes, known, self._codes(tie), everyone):
                sizes = met.sizes(len(everyone))
                check_size(self.join, path, sizes.max(initial=0), most)
                yield from ((part[block], met) for block in blocks(part, sizes[part], most))
        elif all(self._known_at(hop.child) is None for hop in path[1:]):
            yield everyone, None
        else:
            sizes = np.ones(len(codes[-1][1]))
            for hop in reversed(path):
                sizes = counted(sizes * self._may_be_seen(hop.child), *self._codes(hop))
            check_size(self.join, path, sizes.max(initial=0), most)
            yield from ((block, None) for block in blocks(asked, sizes, most))

    def _along(self, t: int, far: StatisticRows, wanted: Sequence[Statistic], windows: Sequence[Ranged], here: Index,
               met: Circle | None) -> Found:
        """Return the statistics of the rows of table t that belong to each question, one table after the other."""
        statistics = [statistic for statistic in wanted if statistic.of != "time"]
        if met is None:
            rows, key, above = self._up(t, far, statistics, here)
        else:
            pairs = met.pairs(here, far.at)
            rows, key, above = replace(far.some(pairs.at), time=pairs.time), pairs.of, np.arange(len(here))
        rows, key = rows.brought_together(key, statistics)
        if rows.time is None or self.as_of is None:
            return taken(merged(statistics, rows.found, key, group_count(above, key)), above)
        found = rows.found | {statistic.name: rows.time for statistic in wanted if statistic.of == "time"}
        seen = merged_by(wanted, found, key, rows.time, above, self.as_of[here])
        return seen | ranged(windows, found, key, rows.time, found.get(when("")), above, self.as_of[here])

    def _up(
        self, t: int, far: StatisticRows, statistics: Sequence[Statistic], here: Index
    ) -> tuple[StatisticRows, Index, Index]:
        """Return the rows of the path's first table that some questions lead to, their keys, and those of questions."""
        reached = self._reached(t, here)
        rows = far.some(np.flatnonzero(reached[t][far.at]))
        for hop in reversed(self.paths[t][1:]):
            above, below = self._codes(hop)
            rows, key = rows.brought_together(below[rows.at], statistics)
            parents = np.flatnonzero(reached[hop.parent])
            first, second = match(above[parents], key)
            rows = rows.some(second).met(parents[first], self._known_at(hop.parent))
        above, below = self._codes(self.paths[t][0])
        return rows, below[rows.at], above[here]

    def _reached(self, t: int, here: Index) -> dict[int, NDArray[np.bool_]]:
        """Return for each table on the path to t which of its rows the questions lead to, before the latest of them.
        """
        found = {}
        rows: Index | NDArray[np.bool_] = here
        for hop in self.paths[t]:
            above, below = self._codes(hop)
            led_to = np.zeros(group_count(above, below), dtype=bool)
            led_to[above[rows]] = True
            led_to[-1] = False
            rows = found[hop.child] = led_to[below] & self._may_be_seen(hop.child, here)
        return found

    def _may_be_seen(self, t: int, here: Index | slice = slice(None)) -> NDArray[np.bool_]:
        """Return which rows of a table became known before the latest date of some questions."""
        if self.as_of is None or t not in self.times:
            return np.array(True)
        return self.times[t] < self.as_of[here].max()

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


def most_frequent(column: Column, known: NDArray[np.bool_], limit: int) -> list[str]:
    """Return the ``limit`` most frequent values of text, of equally frequent ones the first in order; sorted."""
    counts = Counter(column.values[known].tolist())
    return sorted(sorted(counts, key=lambda value: (-counts[value], value))[:limit])


def check_size(join: Join, path: Sequence[Hop], n_pairs: float, largest: int) -> None:
    """Refuse to hold the pairs of one entity where they are more than are held at a time."""
    if n_pairs > largest:
        near, far, root = (join.tables[t].name for t in (path[-1].parent, path[-1].child, join.root))
        raise ValueError(f"One row of {root!r} leads to {n_pairs:.3g} pairs of a row of {near!r} and one of {far!r}, "
                         f"and as_of looks at the time of each. This process holds {largest:.3g} of them. Use "
                         "engine='sql', where a database may keep them on disk, or add a pair of columns to on that "
                         "says which of these rows belong together.")


def when(name: str) -> str:
    """Return the name under which it is kept how late a last value is."""
    return f"{name}@"


def of_rows(statistics: Sequence[Statistic], columns: Columns, time: Array | None, n: int) -> Found:
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
            shifted = np.nan_to_num(numbers(column)) - statistic.center
            value = np.square(shifted) if statistic.of == "square" else shifted
            known = ~column.null
            if statistic.of == "part":
                known = known & (columns[statistic.by].values == statistic.category)
            if statistic.merge == "LAST" and time is not None:
                known = known & ~np.isnan(time)
                found[when(statistic.name)] = np.where(known, time, -np.inf)
            found[statistic.name] = np.where(known, value, NEUTRAL[statistic.merge])
    return found


def numbers(column: Column) -> Array:
    """Return a column's numbers, NaN where NULL."""
    return np.where(column.null, np.nan, np.where(column.null, 0, column.values).astype(np.float64))


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
