"""Features of entities in this process: the columns in use of the base tables are read, and merged along each path."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from buttress._checks import Array
from buttress.relational.checks import check_feature
from buttress.relational.declare import Join
from buttress.relational.entities.asked import moments
from buttress.relational.entities.features import ROWS, Feature, Learned, Statistic, statistics_of, value_of
from buttress.relational.entities.merging import NEUTRAL, Found, merged, merged_by, of_rows, taken, when
from buttress.relational.entities.paths import Hop, used
from buttress.relational.plan.keys import combine, encode, match, match_count
from buttress.relational.plan.plan import Index
from buttress.relational.sources.columns import Column
from buttress.relational.sources.tables import read_columns

Columns = dict[str, Column]


class InProcess:
    """Aggregates of the tables of a join, whose columns in use are read once.

    ``paths`` are those of :func:`find_paths`, ``asked`` the columns of the rows that features are for, ``as_of`` their
    times (NaN nowhere) or None.
    """

    def __init__(self, join: Join, paths: Mapping[int, list[Hop]], asked: Columns, as_of: Array | None):
        self.join = join
        self.paths = paths
        self.as_of = as_of
        self.columns: dict[int, Columns] = {join.root: asked}
        self.times: dict[int, Array] = {}
        for t in paths:
            table = join.tables[t]
            names = used(join, paths, t)
            self.columns[t] = read_columns(table.source, names)
            if table.time is not None:
                self.times[t] = moments(self.columns[t][table.time], f"Time {table.name}.{table.time}")
        self._numbered: dict[Hop, tuple[Index, Index]] = {}

    def time_columns(self) -> Columns:
        """Return the columns of times, by "table.column"."""
        return {f"{self.join.tables[t].name}.{self.join.tables[t].time}": self.columns[t][str(self.join.tables[t].time)]
                for t in self.times}

    def learn(self, limit: int) -> Learned:
        """Return means of numbers and the ``limit`` most frequent values of text, of what the latest entity sees."""
        centers = {}
        categories = {}
        for t in self.paths:
            table = self.join.tables[t]
            for name in table.features:
                column = self.columns[t][name]
                known = ~column.null & self._in_time(t, len(column.null))
                kind = "text" if column.kind not in ("number", "time", "nested") else column.kind
                check_feature(table.name, name, kind, 0, 0.0)
                if kind == "text":
                    categories[f"{table.name}.{name}"] = most_frequent(column, known, limit)
                    continue
                values = np.asarray(column.values[known], dtype=np.float64)
                check_feature(table.name, name, kind, 0, float(np.abs(values).max(initial=0.0)))
                centers[f"{table.name}.{name}"] = float(values.mean()) if len(values) else 0.0
        return Learned(centers, categories)

    def _in_time(self, t: int, n: int) -> np.ndarray:
        if self.as_of is None or t not in self.times:
            return np.ones(n, dtype=bool)
        return self.times[t] < self.as_of.max()

    def values(self, features: Sequence[Feature], learned: Learned) -> Array:
        """Return the features' values, shape (n, n_features), NaN where an entity has no row with a value."""
        n = len(next(iter(self.columns[self.join.root].values())).null)
        out = np.zeros((n, len(features)))
        numbers = {table.name: t for t, table in enumerate(self.join.tables)}
        for t in self.paths:
            mine = [(j, feature) for j, feature in enumerate(features) if numbers[feature.table] == t]
            if not mine:
                continue
            centers = learned.centers_of(self.join.tables[t].name)
            found = self._along(t, statistics_of(feature for _, feature in mine), centers)
            for j, feature in mine:
                out[:, j] = value_of(feature, found, centers)
        return out

    def _along(self, t: int, statistics: list[Statistic], centers: Mapping[str, float]) -> Found:
        """Return the statistics of the rows of table t that belong to each entity, one table after the other."""
        n = len(next(iter(self.columns[t].values())).null)
        self._check_kinds(t, statistics)
        found = of_rows(statistics, self.columns[t], centers, self.times.get(t), n)
        at = np.arange(n)
        time = self._known_at(t)
        for hop in reversed(self.paths[t][1:]):
            above, below = self._codes(hop)
            if time is None:
                groups = merged(statistics, found, below[at], int(max(above.max(initial=0), below.max(initial=0))) + 1)
                at = np.flatnonzero((above >= 0) & (groups[ROWS.name][above] > 0))
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
            return merged_by(statistics, found, below[at], time, above, self.as_of)
        groups = merged(statistics, found, below[at], int(max(above.max(initial=0), below.max(initial=0))) + 1)
        return self._given(statistics, groups, above)

    def _given(self, statistics: Sequence[Statistic], groups: Found, keys: Index) -> Found:
        """Return the statistics of each key's group; those of no rows where the key is NULL."""
        found = taken(groups, keys)
        none = keys < 0
        if none.any():
            found = {name: np.where(none, NEUTRAL["SUM"], values) for name, values in found.items()}
            for statistic in statistics:
                found[statistic.name][none] = NEUTRAL[statistic.merge]
                if statistic.merge == "LAST":
                    found[when(statistic.name)][none] = -np.inf
        return found

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

    def _check_kinds(self, t: int, statistics: Sequence[Statistic]) -> None:
        """Refuse a column that held numbers in training and now holds something else."""
        table = self.join.tables[t].name
        for statistic in statistics:
            if statistic.of in ("value", "centred", "square"):
                column = self.columns[t][statistic.column]
                if column.kind != "number" and not column.null.all():
                    raise ValueError(f"Feature {table}.{statistic.column} held numbers in training, and holds "
                                     f"{column.kind} now. Convert it.")


def most_frequent(column: Column, known: np.ndarray, limit: int) -> list[str]:
    """Return the ``limit`` most frequent values of text, of equally frequent ones the first in order; sorted."""
    counts = Counter(column.values[known].tolist())
    return sorted(sorted(counts, key=lambda value: (-counts[value], value))[:limit])


def check_size(join: Join, hop: Hop, t: int, n_rows: float, largest: int) -> None:
    """Refuse rows limited in time whose path would have to be made, larger than any table on it."""
    if n_rows > largest:
        one, other = join.tables[hop.parent].name, join.tables[hop.child].name
        raise ValueError(f"Rows of {join.tables[t].name!r} belong to several rows of {one!r}, by way of {other!r}, and "
                         f"as_of looks at the time of each of the {n_rows:.3g} pairs. Only {largest:.3g} are allowed, "
                         f"the rows of a table. Leave out the time of {join.tables[t].name!r} or of {other!r}, or make "
                         "a view with one row a pair.")
