"""Tables and how they join: the declaration and the checks of its names."""

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import near
from buttress._state import Attribute, State
from buttress._types import Attributes
from buttress.relational.sources.databases import Connection
from buttress.relational.sources.dialects import dialect_of
from buttress.relational.sources.files import check_days, check_durations
from buttress.relational.sources.tables import Source, check_source, column_names, connected

OF_A_PAIR = 'Each entry of on must be ("table.column", "table.column"), or have "left" as third. Got {!r}.'


class Table:
    """One table of a join.

    Parameters
    ----------
    name : str
        Its name in the join; a table may take part twice under two names.
    source : frame, path, list of paths, or (connection, table name)
        A pandas, polars or Arrow frame, a polars LazyFrame, an Arrow dataset, a DuckDB relation or a Spark frame; the
        path of a Parquet or CSV file, a pattern such as ``"part-*.parquet"``, or a list of files; or a table of a
        DuckDB, psycopg or Spark connection, of an SQLAlchemy engine or of a database URL, its name a string or a tuple
        (schema, table).
    features : list of str
        Columns the model is trained on. Numbers are divided by their largest magnitude, text is one-hot encoded.
    label : str or None
        The column to predict. Exactly one table of a join that is trained on has one.
    weights : str or None
        A column of non-negative numbers; a row of the join weighs the product of its tables' weights.
    time : str or None
        A column that says when each row became known, dates or numbers. A join's ``as_of`` leaves out rows by it, and
        :class:`EntityFeatures` orders them.
    order : str or None
        A second column, dates or numbers, that orders rows of the same ``time``: for example a number that grows within
        a day. NULL comes first.
    delay : str or None
        How much later than its ``time`` a row became known, such as ``"30d"`` (s, min, h, d, w), or a number as text if
        times are numbers; for a label that is known a month after the event. All words of time count from then.

    Examples
    --------
    >>> from buttress.relational import Table
    >>> Table("account", "account.parquet", features=["age"])
    Table('account', features=['age'])
    """

    _state = State(
        Attribute("name", "text"),
        Attribute("features", "label", "*"),
        Attribute("label", "text", "one or none"),
        Attribute("weights", "text", "one or none"),
        Attribute("time", "text", "one or none"),
        Attribute("order", "text", "one or none"),
        Attribute("delay", "text", "one or none"))

    def __init__(self, name: str, source: Source, *, features: Sequence[str] = (), label: str | None = None,
                 weights: str | None = None, time: str | None = None, order: str | None = None,
                 delay: str | None = None):
        if not isinstance(name, str) or not name or "\0" in name:
            raise ValueError(f"A table's name must be a non-empty string without NUL characters. Got {name!r}.")
        features = _columns(f"features of table {name!r}", features)
        for what, column in (("label", label), ("weights", weights), ("time", time), ("order", order)):
            if column is not None and not isinstance(column, str):
                raise ValueError(f"{what} of table {name!r} must be the name of a column, a text. Got {column!r}.")
        for what, value in (("order", order), ("delay", delay)):
            if value is not None and time is None:
                raise ValueError(f"{what}={value!r} of table {name!r} is for rows with a time, and the table has none. "
                                 "Give it time='column' too.")
        check_source(name, source)
        self.name = name
        self.source = connected(source)
        self.features = features
        self.label = label
        self.weights = weights
        self.time = time
        self.order = order
        self.delay = delay

    def __getattr__(self, name: str) -> Any:
        if name == "source":
            raise ValueError(f"Table {self.name!r} comes from a model file, which holds no tables. Give the model the "
                             "join with its tables again: model.set_params(join=join), or, where it is a step of a "
                             "pipeline, model.set_params(entityfeatures__join=join), with the name of that step.")
        raise AttributeError(f"Table has no attribute {name!r}")

    def __copy__(self) -> "Table":
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __getstate__(self) -> Attributes:
        """Refuse to go to another process with a connection, which cannot."""
        if isinstance(self.__dict__.get("source"), tuple):
            raise TypeError(f"Table {self.name!r} is of a database, whose connection cannot be sent to another process "
                            "or pickled. Use n_jobs=1, give frames or files, or keep a model by buttress.save, which "
                            "leaves tables out.")
        return self.__dict__

    def __repr__(self) -> str:
        parts = [repr(self.name), f"features={self.features}"]
        parts += [f"{name}={getattr(self, name)!r}" for name in ("label", "weights", "time", "order", "delay")
                  if getattr(self, name)]
        return f"Table({', '.join(parts)})"

    def check(self) -> list[str]:
        """Return the source's columns; ValueError names the first that is missing, or one that is named twice."""
        columns = column_names(self.source)
        for name in columns:
            if "\0" in name:
                raise ValueError(f"Table {self.name!r} has a column {name!r} with a NUL character. Rename it.")
        used = [*self.features, *filter(None, (self.label, self.weights, self.time, self.order))]
        _check_columns(used, self, columns)
        check_durations(self.source, used)
        for name in filter(None, (self.time, self.order)):
            check_days(self.source, name)
        if len(set(self.features)) < len(self.features):
            raise ValueError(f"features of table {self.name!r} name a column twice: {self.features}.")
        if self.label is not None and self.label in self.features:
            raise ValueError(f"Column {self.label!r} of table {self.name!r} is both label and feature. Drop one.")
        return columns


@dataclass(frozen=True)
class Pair:
    """Two columns, each (table number, column name), that must be equal; ``left`` keeps the first table's rows."""

    first: tuple[int, str]
    second: tuple[int, str]
    left: bool

    @property
    def ends(self) -> tuple[int, int]:
        """Numbers of the two tables."""
        return self.first[0], self.second[0]


def key_columns(pairs: Sequence[Pair], table: int) -> list[str]:
    """Return the columns of a table that the pairs join, in the order of the pairs."""
    return [column for pair in pairs for t, column in (pair.first, pair.second) if t == table]


class Join:
    """An inner (or left) equi-join of tables, never materialised.

    Parameters
    ----------
    tables : list of Table
    on : list of pairs
        ``("loan.account_id", "account.account_id")`` for columns that must be equal; two pairs between the same tables
        make a composite key; ``("loan.account_id", "account.account_id", "left")`` keeps loans without an account, and
        sets their account features to zero. Equal names alone join nothing. NULL keys match nothing.
    using : list of str
        Names of key columns that are equal in every table that has them, as USING in SQL.
    max_bag_rows : int, default=10_000_000
        Most rows of a bag of keys, which is joined first because the join is cyclic; in a database, of a group of
        tables. With ``as_of`` also the most pairs of a table's rows with the dates that see them.
    as_of : str or None
        ``"loan.date"``, a column of the label's table: each of its rows is joined only to rows with a ``time`` (plus
        ``delay``) before it, and :class:`EntityFeatures` uses only these. Rows of a table without a ``time`` count as
        always known. ``"all"`` uses all rows, so features may use what happened after the label. Without ``as_of``,
        tables with a ``time`` are refused.

    Examples
    --------
    >>> import pandas as pd
    >>> from buttress.relational import Join, Table, describe
    >>> loan = pd.DataFrame({"account": [1, 1, 2], "sum": [10.0, 20.0, 5.0], "bad": [0, 1, 0]})
    >>> account = pd.DataFrame({"id": [1, 2, 2], "age": [30.0, 50.0, 60.0]})
    >>> join = Join([Table("loan", loan, features=["sum"], label="bad"), Table("account", account, features=["age"])],
    ...             on=[("loan.account", "account.id")])
    >>> describe(join).n_join_rows
    4
    """

    _state = State(
        Attribute("tables", "part", of="Table"),
        Attribute("on", "any"),
        Attribute("using", "label", "*"),
        Attribute("max_bag_rows", "count"),
        Attribute("as_of", "text", "one or none"))

    def __init__(self, tables: Sequence[Table], on: Sequence[Sequence[str]] = (), *, using: Sequence[str] = (),
                 max_bag_rows: int = 10_000_000, as_of: str | None = None):
        _check_form(on)
        self.tables = _tables(tables)
        self.on = [_texts_of(pair) for pair in on]
        self.using = _columns("using", using)
        self.max_bag_rows = max_bag_rows
        self.as_of = as_of
        if self.date is not None:
            _check_date(as_of, self.tables[self.root].name if self.tables else "")

    @property
    def date(self) -> str | None:
        """The column that ``as_of`` names; None where there is none, and all rows are used."""
        return None if self.as_of == "all" else self.as_of

    def __repr__(self) -> str:
        used = f", using={self.using!r}" if self.using else ""
        dated = f", as_of={self.as_of!r}" if self.as_of else ""
        return f"Join({self.tables!r}, on={self.on!r}{used}{dated})"

    def checkpoint_identity(self) -> list[object]:
        """Return what tells this declaration from others; whether the rows are others is seen when they are read."""
        return [repr(self), self.max_bag_rows]

    def __sklearn_clone__(self) -> "Join":
        """Return the join itself: clones of a model share its tables and connections."""
        return self

    def __len__(self) -> int:
        """Refuse to be split by rows: join rows of one entity are not independent."""
        raise ValueError("The rows of a Join are not made, so that no search or split of scikit-learn's can divide "
                         "them. Use relational.cross_validate(join, alphas), whose folds are rows of the label's "
                         "table, or JoinSampler(join).sample(n) for rows that any estimator takes.")

    def __array__(self, dtype: object = None, copy: object = None) -> NDArray[np.generic]:
        """Refuse to become an array, as ``len`` refuses."""
        return np.zeros(len(self))

    def __bool__(self) -> bool:
        return True

    def bare(self) -> "Join":
        """Return the join of the same rows, without features, label and weights."""
        made = copy(self)
        made.tables = [Table(t.name, t.source, time=t.time, delay=t.delay) for t in self.tables]
        return made

    def check(self) -> list[Pair]:
        """Check names and columns, asking each source for its columns once; return the pairs, tables as numbers."""
        self._check_names()
        columns = [table.check() for table in self.tables]
        if self.date is not None:
            t, date = self.find_column(self.date, columns)
            check_days(self.tables[t].source, date)
        return [self._pair(pair, columns) for pair in [*self.on, *self._equal_names(columns)]]

    def _equal_names(self, columns: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
        """Return the pairs that ``using`` stands for: each table that has the column, joined to the first that has."""
        pairs = []
        for name in self.using:
            holders = [table.name for table, there in zip(self.tables, columns) if name in there]
            if len(holders) < 2:
                raise ValueError(f"using names {name!r}, which {len(holders)} of the tables have as a column. It needs "
                                 f"two or more.{near(name, {c for there in columns for c in there})}")
            pairs += [(f"{holders[0]}.{name}", f"{other}.{name}") for other in holders[1:]]
        return pairs

    def _check_names(self) -> None:
        names = [table.name for table in self.tables]
        if not names:
            raise ValueError("A join needs at least one table. Got none.")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"Two tables are called {twice!r}. Give each its own name, as an alias in SQL.")
        labelled = [table.name for table in self.tables if table.label is not None]
        if len(labelled) > 1:
            raise ValueError(f"One table may have a label. Got {len(labelled)}: {', '.join(labelled)}. Keep one.")

    @property
    def root(self) -> int:
        """Number of the table with the label; 0 when there is none."""
        return next((i for i, table in enumerate(self.tables) if table.label is not None), 0)

    @property
    def connections(self) -> list[Connection]:
        """The database connections of its tables, each once."""
        found = {id(t.source[0]): t.source[0] for t in self.tables if isinstance(t.source, tuple)}
        return list(found.values())

    def optional(self, pairs: list[Pair]) -> list[str]:
        """Return the names of the tables that a left join may find no row of."""
        return [table.name for i, table in enumerate(self.tables) if any(p.left and p.second[0] == i for p in pairs)]

    def _pair(self, pair: tuple[str, ...], columns: Sequence[Sequence[str]]) -> Pair:
        if len(pair) not in (2, 3) or (len(pair) == 3 and pair[2] not in ("left", "inner")):
            raise ValueError(OF_A_PAIR.format(pair))
        first = self.find_column(pair[0], columns)
        second = self.find_column(pair[1], columns)
        if first[0] == second[0]:
            raise ValueError(f"on joins table {self.tables[first[0]].name!r} with itself: {pair!r}. Declare the table "
                             "a second time under another name.")
        return Pair(first, second, len(pair) == 3 and pair[2] == "left")

    def find_column(self, key: str, columns: Sequence[Sequence[str]] | None = None) -> tuple[int, str]:
        """Return (table number, column name) of "table.column"; ``columns`` are those of the tables, if known."""
        fits = [i for i, table in enumerate(self.tables) if key.startswith(table.name + ".")]
        if not fits:
            names = [table.name for table in self.tables]
            meant = [f"{table.name}.{key}" for table in self.tables if key in column_names(table.source)]
            raise ValueError(f"{key!r} must be 'table.column' with one of the tables {', '.join(names)}."
                             f"{f' Use {meant[0]!r}.' if meant else near(key.split('.')[0], names)}")
        there = {i: column_names(self.tables[i].source) if columns is None else columns[i] for i in fits}
        parts = {i: key[len(self.tables[i].name) + 1:] for i in fits}
        held = [i for i in fits if parts[i] in there[i]]
        if len(held) > 1:
            one, other = (f"column {parts[i]!r} of table {self.tables[i].name!r}" for i in held[:2])
            raise ValueError(f"{key!r} may be {one} and {other}. Rename one of the tables.")
        i = held[0] if held else max(fits, key=lambda i: len(self.tables[i].name))
        _check_columns([parts[i]], self.tables[i], there[i])
        return i, parts[i]

    def check_asked(self, columns: Sequence[str]) -> None:
        """Refuse ``columns`` that are no list of columns of the label's table."""
        table = self.tables[self.root]
        _check_columns(_columns("columns", columns), table, column_names(table.source))


def _columns(what: str, columns: object) -> list[str]:
    """Return names of columns as a list; ValueError for what is no list of texts."""
    if isinstance(columns, str):
        raise ValueError(f"{what} must be a list of column names. Got {columns!r}. Use [{columns!r}].")
    found = list(columns) if isinstance(columns, Iterable) else None
    if found is None or not all(isinstance(column, str) for column in found):
        raise ValueError(f"{what} must be a list of column names, which are texts. Got {columns!r}.")
    return found


def _tables(tables: object) -> list[Table]:
    """Return tables as a list; ValueError for what is no list of them."""
    if isinstance(tables, Table):
        raise ValueError(f"tables must be a list of Table. Got one. Use [{tables!r}].")
    if not isinstance(tables, Iterable):
        raise ValueError(f"tables must be a list of Table. Got {type(tables).__name__}.")
    found = list(tables)
    other = next((one for one in found if not isinstance(one, Table)), None)
    if other is not None:
        raise ValueError(f"tables must be a list of Table. It holds a {type(other).__name__}. Use Table('name', "
                         "source, features=[...]).")
    return found


def _check_form(on: object) -> None:
    """Refuse an ``on`` that is no list of pairs, with how to write it."""
    if isinstance(on, dict):
        raise ValueError(f"on must be a list of pairs. Got a dict. Use on={list(on.items())!r}.")
    if isinstance(on, str) or not isinstance(on, Iterable):
        raise ValueError(f'on must be a list of pairs ("table.column", "table.column"). Got {on!r}.')
    if isinstance(on, Sequence) and len(on) in (2, 3) and all(isinstance(part, str) for part in on):
        raise ValueError(f"on must be a list of pairs. Got one pair. Use on=[{tuple(on)!r}].")


def _texts_of(pair: object) -> tuple[str, ...]:
    """Return an entry of ``on``; ValueError for one that is no texts."""
    if isinstance(pair, str) or not isinstance(pair, Iterable) or not all(isinstance(part, str) for part in pair):
        raise ValueError(OF_A_PAIR.format(pair))
    return tuple(pair)


def _check_date(as_of: object, table: str) -> None:
    """Refuse an ``as_of`` that names no column of the label's table; whether there is one, ``check`` says."""
    if not isinstance(as_of, str) or not as_of.startswith(f"{table}."):
        raise ValueError(f"as_of must be a column of the label's table {table!r} (the first, where none has a label). "
                         f"Got {as_of!r}. Use as_of='{table}.date', with the name of the column of dates, or "
                         "as_of='all' for all rows, whenever they became known.")


def _check_columns(used: Collection[str], table: Table, columns: Sequence[str]) -> None:
    """Refuse columns in use that are not among those of a table, or there twice.

    Also those that the table's database does not tell from others, whose names differ in case alone.
    """
    for column in used:
        if column not in columns:
            plain = column.removeprefix(f"{table.name}.")
            hint = f" Use {plain!r}, without the table's name." if plain != column and plain in columns else \
                f"{near(column, columns)} It has: {', '.join(columns)}."
            raise ValueError(f"Table {table.name!r} has no column {column!r}.{hint}")
        if columns.count(column) > 1:
            raise ValueError(f"Table {table.name!r} has {columns.count(column)} columns called {column!r}. Rename one.")
    if not isinstance(table.source, tuple):
        return
    dialect = dialect_of(table.source[0])
    known: dict[str, str] = {}
    for name in columns:
        other = known.setdefault(dialect.fold(name), name)
        if other != name and not {name, other}.isdisjoint(used):
            raise ValueError(f"{dialect.name} takes columns {other!r} and {name!r} of table {table.name!r} for one. "
                             "Rename one of them, in a view.")
