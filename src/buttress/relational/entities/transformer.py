"""The transformer from rows of the label's table to one row of features each, and that table with its features."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import all_or_nothing
from buttress._checks import Array, check_count, check_number, check_option
from buttress._documented import Documented
from buttress._state import Attribute, State
from buttress.relational.checks import check_decimals, check_feature
from buttress.relational.declare import Join
from buttress.relational.entities.database import InDatabase, feature_select
from buttress.relational.entities.features import Feature, center, fills_of, kept
from buttress.relational.entities.known import KnownFeatures
from buttress.relational.entities.memory import most_frequent, numbers
from buttress.relational.entities.paths import (
    Hop,
    asked_columns,
    asked_names,
    check_held,
    check_kinds_kept,
    features_along,
    find_paths,
    many_to_many,
    root_keys,
    used,
    ways,
)
from buttress.relational.entities.words import WORDS, check_dated, check_functions, default_functions
from buttress.relational.plan.keys import largest
from buttress.relational.plan.times import DAY, check_times, date_column, dates_of, moments
from buttress.relational.sources.columns import Column, plain
from buttress.relational.sources.databases import one_snapshot
from buttress.relational.sources.files import is_files
from buttress.relational.sources.tables import read_columns, row_count
from buttress.relational.sql.plan import VALUE_MEGABYTES


@dataclass(kw_only=True, eq=False, repr=False)
class EntityFeatures(Documented, TransformerMixin, BaseEstimator):
    """Turn rows of the label's table into rows of features: their own, and aggregates of the rows that belong to them.

    Each table of the join is aggregated along the pairs that lead to it from the label's table, by GROUP BY where the
    table is. The join is never materialised. If pairs form a circle through the label's table, two tables have a pair
    with the label's table. The one declared last is tied: its rows agree with the table before it and with the label's
    row. For an entity without rows, counts, sums and shares are 0, and other features are missing.

    Parameters
    ----------
    join : Join
        Which tables there are, and how they join; left and inner pairs mean the same here. ``Join(..., as_of=)`` and
        ``Table(..., time=)`` limit every entity to the rows that were known before its date.
    functions : sequence of str or None, default=None
        Words for what there is of each table; None is "count" to "share" of this list, and with an ``as_of`` words of
        time: "since_last", "since_first", "gap_mean", "gap_last", "overdue", "mean" and "bias" of the latest 3 and 10
        rows, "bias" of all, and where times are dates "count", "count .. /all" and "sum" of the last 30 and 90 days.
        A table that is reached many to many has only "mean" and "share": over several rows, what these share with
        others, and several rows of that (keys have two rows or more, on average, of what the latest entity sees).

        - Of its rows "count". Of its numbers "mean", "sum", "min", "max", "std" (with n - 1) and "last" (the value with
          the latest ``time``, if it has one; the last of several by the table's ``order``, else the largest), and
          "shrunk": the mean less its ``centers_``, were there ten rows more at that. Of its text the "share" of each
          value, and "sum_by", the sum of each number over its rows. NULL is skipped.
        - Of its times, in days (in their own unit where they are numbers): "since_last" and "since_first" to the date,
          "gap_mean" and "gap_last" between rows, and "overdue", the time since the last row over the mean gap. Of its
          numbers "trend", the least-squares slope a day, and "bias", the mean of each number less what was usual
          before: the mean of the rows at earlier times with the same key (a user's ratings less those of each film
          before). The key is that of a pair that leads on from the table, or to it where it is tied; by default only
          one that two rows or more have on average. A row that is the first with its key does not count.
        - Of the date itself "hour", "weekday" (Monday is 0), "season_sin" and "season_cos", in UTC.
        - A window after a word: "sum:30d" of the rows at most 30 days before the date (s, min, h, d, w; "sum:30" where
          times are numbers), "mean:3rows" of the latest three and those of the same time (and order) as the third.
          "count:30d/all" divides by what the word says of all rows.
    max_categories : int, default=20
        Values of a text column that have a share, or a column of the entity's own row: the most frequent ones.
    missing : {"mean", "zero", "nan"}, default="mean"
        Replaces a missing value: the mean of the feature in training, 0, or NaN for models that accept it.
    engine : {"auto", "memory", "sql"}, default="auto"
        Where tables are aggregated: in our own DuckDB, which reads the columns in use, or by one SELECT in the database
        that holds them all. "auto" takes the database if these columns exceed ``memory_limit`` megabytes.
    memory_limit : float, default=4000
        Megabytes of our own DuckDB, which then spills to disk; your connection keeps its own limit. In addition
        ``transform`` holds keys and dates of its rows, and its result, 8 bytes for each number.

    Notes
    -----
    ``fit`` and ``transform`` take rows of the label's table, or only these columns, in any order: a frame, or an array
    in the order of ``feature_names_in_``. The other tables are read again each time. If no entity in training has more
    than one row of a table, its mean, sum, min, max and last are one feature, named after the first of them.

    Examples
    --------
    >>> import pandas as pd
    >>> from buttress.relational import EntityFeatures, Join, Table
    >>> loans = pd.DataFrame({"id": [1, 2], "date": [5, 9], "sum": [10.0, 20.0]})
    >>> visits = pd.DataFrame({"loan": [1, 1, 2], "day": [3, 7, 8], "minutes": [4.0, 6.0, 5.0]})
    >>> join = Join([Table("loans", loans, features=["sum"]),
    ...              Table("visits", visits, features=["minutes"], time="day")],
    ...             on=[("loans.id", "visits.loan")], as_of="loans.date")
    >>> made = EntityFeatures(join, functions=("count", "mean")).fit(loans)
    >>> [str(name) for name in made.get_feature_names_out()]
    ['loans.sum', 'visits.count', 'visits.minutes.mean']
    >>> made.transform(loans)
    array([[10.,  1.,  4.],
           [20.,  1.,  5.]])
    """

    _state = State(
        Attribute("features_", "any", meaning='(table, function, column, category, column of the category) of each '
                                              'feature, "" for what it has not.'),
        Attribute("categories_", "any", meaning='By "table.column" of text: the values that have a feature.'),
        Attribute("centers_", "any",
                  meaning='By "table.column" of numbers: about the mean, subtracted before squares are added up.'),
        Attribute("fills_", "real", "*", "What stands for missing values."),
        Attribute("ways_", "any", meaning="By table: the pairs, times and order that say which of its rows belong to "
                                          "a row."))

    join: Join = field(kw_only=False)
    functions: Sequence[str] | None = field(default=None, kw_only=False)
    max_categories: int = 20
    missing: str = "mean"
    engine: str = "auto"
    memory_limit: float = 4000

    def fit(self, X: Any, y: Any = None) -> "EntityFeatures":
        """Learn which features there are, and what stands for missing ones, from rows of the label's table.

        Raises ValueError for everything wrong with the join, the parameters and the rows, naming table and column, and
        SourceLostError when a database fails.
        """
        self.fit_transform(X)
        return self

    @all_or_nothing
    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit to rows of the label's table and return their features; ``y`` is not used."""
        values = self._filled(self._learn(X))
        for name in self.join.tables[self.join.root].features:  # who reads an entity_table may know commas
            check_decimals(self._label_table, name, self.categories_.get(f"{self._label_table}.{name}", ()))
        return values

    def transform(self, X: Any) -> Array:
        """Return the features of rows of the label's table, old or new, shape (n, n_features)."""
        check_is_fitted(self)
        features = self._features()
        with one_snapshot(self.join.connections):
            paths = find_paths(self.join, self.join.check())
            check_held(features, self.ways_, self.join, paths)
            names = [*self.feature_names_in_, *root_keys(paths), *date_column(self.join)]
            own = asked_columns(X, self._label_table, list(dict.fromkeys(names)))
            aggregates = self._aggregates(paths, own)
            tables = {self.join.tables[t].name: columns for t, columns in aggregates.columns.items()}
            check_kinds_kept(features, self.categories_, {**tables, self._label_table: own})
            values = aggregates.values(features, self.centers_)
        return self._filled(self._with_own(features, own, values))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the features: ``trans.count``, ``trans.amount.mean``, ``trans.kind=cash.share``."""
        check_is_fitted(self)
        return np.array([feature.name for feature in self._features()], dtype=object)

    def to_sql(self, columns: Sequence[str] = ()) -> str:
        """Return the SELECT that makes the features of all rows of the label's table, in the database that holds all.

        Its columns are ``columns`` of the label's table (its keys, if none are named) and the features, as
        ``transform`` has them.
        """
        check_is_fitted(self)
        if any(not isinstance(table.source, tuple) for table in self.join.tables):
            raise ValueError("to_sql needs the tables of one database. Give each as (connection, table name).")
        with one_snapshot(self.join.connections):
            self.join.check_asked(columns)
            paths = find_paths(self.join, self.join.check())
            check_held(self._features(), self.ways_, self.join, paths)
            keys = root_keys(paths)
            fills = None if self.missing == "nan" else self.fills_
            return feature_select(self.join, paths, self._features(), self.centers_, fills, list(columns) or keys)

    def _learn(self, X: Any, known: KnownFeatures | None = None) -> Array:
        """Set the fitted attributes and return the values of the features, NaN where they are missing."""
        self._check_parameters()
        with one_snapshot(self.join.connections):
            paths = find_paths(self.join, self.join.check())
            names = asked_names(self.join, paths)
            own = asked_columns(X, self._label_table, names)
            self.feature_names_in_ = np.array(names, dtype=object)
            self.n_features_in_ = len(names)
            aggregates = self._aggregates(paths, own)
            self._learn_columns(paths, own, aggregates)
            words = self._words(paths, aggregates)
            features = features_along(self.join, paths, words, self.categories_,
                                      lambda hop, t: bool(self.functions) or aggregates.several(hop, t))
            values = aggregates.values(features, self.centers_) if known is None else (
                known.values(aggregates, features, self.centers_))
            values = self._with_own(features, own, values)
        single = [feature.table for j, feature in enumerate(features)
                  if feature.function == "count" and values[:, j].max(initial=0) <= 1]
        left = kept(features, words, single)
        if not left:
            raise ValueError("No table of the join gives a feature. Name features, or count among the functions. For "
                             "'bias', give a table with numbers and a time a pair of on that leads to another table.")
        values = values[:, [features.index(feature) for feature in left]]
        self.features_ = [(f.table, f.function, f.column, f.category, f.by) for f in left]
        self.fills_ = fills_of(values, self.missing)
        self.ways_ = ways(self.join, paths)
        return values

    def _learn_columns(self, paths: dict[int, list[Hop]], own: dict[str, Column], aggregates: InDatabase) -> None:
        """Set the most frequent values of text, and about the means of numbers, of what the latest entity sees."""
        self.centers_: dict[str, float] = {}
        self.categories_: dict[str, list[str]] = {}
        for t in (self.join.root, *paths):
            table = self.join.tables[t]
            for name in table.features:
                full = f"{table.name}.{name}"
                column = own[name] if t == self.join.root else aggregates.columns[t][name]
                check_feature(table.name, name, column.kind, 0, 0.0)
                if column.kind == "text" and t == self.join.root:
                    self.categories_[full] = most_frequent(column, self.max_categories)
                elif column.kind == "text":
                    self.categories_[full] = aggregates.most_frequent(t, name, self.max_categories)
                    check_decimals(table.name, name, self.categories_[full])
                elif t != self.join.root:
                    mean, deviation, most = aggregates.moments_of(t, name)
                    check_feature(table.name, name, column.kind, 0, most)
                    self.centers_[full] = center(mean, deviation, most)

    @property
    def _label_table(self) -> str:
        return self.join.tables[self.join.root].name

    def _features(self) -> list[Feature]:
        return [Feature(*parts) for parts in self.features_]

    def _check_parameters(self) -> None:
        if not isinstance(self.join, Join):
            raise ValueError(f"join must be a Join. Got {type(self.join).__name__}.")
        check_functions(self.functions or ())
        check_count("max_categories", self.max_categories)
        check_option("missing", self.missing, ("mean", "zero", "nan"))
        check_option("engine", self.engine, ("auto", "memory", "sql"))
        check_number("memory_limit", self.memory_limit, 0)

    def _words(self, paths: dict[int, list[Hop]], aggregates: InDatabase) -> dict[str, Sequence[str]]:
        """Return the words that are asked for, by table; those of time are refused where there is no date."""
        if self.functions is not None:
            check_dated(self.functions, self.join.date, aggregates.day == DAY)
            return {table.name: self.functions for table in self.join.tables}
        usual = default_functions(self.join.date is not None, aggregates.day)
        far = many_to_many(paths, aggregates.several)
        few = ("mean", "share")  # of what is reached many to many: other words of it gained nothing on MovieLens
        return {table.name: few if t in far else usual for t, table in enumerate(self.join.tables)}

    def _aggregates(self, paths: dict[int, list[Hop]], own: dict[str, Column]) -> InDatabase:
        """Return what aggregates the tables, where they are or in this process."""
        as_of = None
        day = 1.0  # in the unit of times, which are numbers
        times = {}
        for column in date_column(self.join):
            as_of = dates_of(self.join, own[column])
            day = DAY if own[column].kind == "time" else 1.0
            times[f"{self._label_table}.{column}"] = own[column]
        inside = self.engine == "sql" or (self.engine == "auto" and self._megabytes(paths) > self.memory_limit)
        made = InDatabase(self.join, paths, own, as_of, day, self.memory_limit, here=not inside)
        if as_of is not None:
            for t, time in ((t, self.join.tables[t].time) for t in paths):
                if time is not None:
                    times[f"{self.join.tables[t].name}.{time}"] = made.columns[t][time]
            check_times(times)
        return made

    def _megabytes(self, paths: dict[int, list[Hop]]) -> float:
        """Return the size of the columns in use of tables in databases and files, but the label's."""
        outside = [t for t in paths if isinstance(self.join.tables[t].source, tuple) or
                   is_files(self.join.tables[t].source)]
        return sum(VALUE_MEGABYTES * len(used(self.join, paths, t)) * row_count(self.join.tables[t].source)
                   for t in outside)

    def _with_own(self, features: Sequence[Feature], own: dict[str, Column], values: Array) -> Array:
        """Return ``values`` with the features of the entities' own rows filled in."""
        for j in [j for j, feature in enumerate(features) if feature.table == self._label_table]:
            feature = features[j]
            column = own[feature.column]
            if feature.word in WORDS:
                values[:, j] = WORDS[feature.word].numpy(moments(column, feature.source))
            elif feature.function == "is":
                values[:, j] = ~column.null & (column.values == feature.category)
            else:
                check_feature(feature.table, feature.column, "number", 0, largest(column))
                values[:, j] = numbers(column)
        return values

    def _filled(self, values: Array) -> Array:
        if self.missing != "nan":
            np.copyto(values, self.fills_, where=np.isnan(values))
        return values

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags


@dataclass(frozen=True)
class EntityTable:
    """Rows of the label's table.

    ``columns`` are arrays (n,) by name: the table's own features, text as it is, and the aggregates that ``made`` has
    learned; missing numbers are NaN, texts and truth values None. ``label`` is None where the join has none. ``names``
    are the values of a key that no two rows share, None where there is no such key. ``keys`` are the keys and the date
    by which rows of other tables belong to a row, by name. ``anew`` is the number of rows that aggregates were made of.
    """

    columns: dict[str, NDArray[Any]]
    keys: dict[str, NDArray[Any]]
    label: NDArray[Any] | None
    names: NDArray[Any] | None
    made: EntityFeatures
    anew: int


def entity_table(join: Join, made: EntityFeatures | None = None, functions: Sequence[str] | None = None,
                 known: str | Path | None = None) -> EntityTable:
    """Return the rows of the label's table of a join with their features, for models and reports that take frames.

    Parameters
    ----------
    join : Join
        With ``as_of``, each row has only what was known before its date.
    made : EntityFeatures or None
        Learned on another copy of the tables, whose aggregates are to be made of these; None learns them here.
    functions : sequence of str or None
        The words that are learned here, as those of :class:`EntityFeatures`.
    known : str, Path or None
        A file that keeps the aggregates for the next call, in which only those of rows are computed that see other
        rows than before, or had other features learned; in DuckDB or PostgreSQL, ``made`` is None.

    Raises
    ------
    ValueError
        For everything :class:`EntityFeatures` refuses, and a file ``known`` that was changed or cannot be written.

    Examples
    --------
    >>> import pandas as pd
    >>> from buttress.relational import Join, Table, entity_table
    >>> loans = pd.DataFrame({"id": [1, 2], "kind": ["car", "house"], "bad": [0, 1]})
    >>> visits = pd.DataFrame({"loan": [1, 1, 2], "minutes": [4.0, 6.0, 5.0]})
    >>> rows = entity_table(Join([Table("loans", loans, features=["kind"], label="bad"), Table("visits", visits)],
    ...                          on=[("loans.id", "visits.loan")]))
    >>> rows.columns
    {'loans.kind': array(['car', 'house'], dtype=object), 'visits.count': array([2., 1.])}
    >>> rows.label, rows.names
    (array([0, 1]), array([1, 2]))
    """
    table = join.tables[join.root]
    kept_in = None if known is None else KnownFeatures.at(known)
    with one_snapshot(join.connections):
        paths = find_paths(join, join.check())
        read = list(dict.fromkeys([*asked_names(join, paths), *filter(None, [table.label])]))
        own = read_columns(table.source, read)
        if made is None:
            made = EntityFeatures(join, functions, missing="nan", engine="auto" if kept_in is None else "sql")
            values = made._learn(own, kept_in)
        elif known is not None:
            raise ValueError("known goes with features that are learned here. Leave made out, or known.")
        else:
            made = copy(made).set_params(join=join)
            values = made.transform(own)
    columns = {f"{table.name}.{name}": plain(own[name]) for name in table.features}
    columns |= {str(name): values[:, j] for j, name in enumerate(made.get_feature_names_out())
                if made.features_[j][0] != table.name}
    label = None if table.label is None else plain(own[table.label])
    keys = {f"{table.name}.{name}": plain(own[name]) for name in (*root_keys(paths), *date_column(join))}
    return EntityTable(columns, keys, label, _names([own[name] for name in root_keys(paths)]), made,
                       len(values) if kept_in is None else kept_in.anew)


def _names(keys: list[Column]) -> NDArray[Any] | None:
    """Return the first column that tells the rows apart."""
    return next((key.values for key in keys if not key.null.any() and key.kind in ("number", "text")
                 and len(np.unique(key.values)) == len(key.values)), None)
