"""Tables and how they join: the declaration, its checks, and the text that explains the plan made of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from buttress._checks import near
from buttress.relational.sources import column_names


class Table:
    """One table of a join.

    Parameters
    ----------
    name : str
        What the join calls it; a table may take part twice under two names.
    source : frame, path, or (connection, table name)
        A pandas, polars or Arrow frame; the path of a Parquet or CSV file; or a table of a DuckDB, psycopg or Spark
        connection, its name a string or a tuple (schema, table).
    features : list of str
        Columns the model is trained on. Numbers are divided by their largest magnitude, text is one-hot encoded.
    label : str or None
        The column to predict. Exactly one table of a join that is trained on has one.
    weights : str or None
        A column of non-negative numbers; a row of the join weighs the product of its tables' weights.

    Examples
    --------
    >>> from buttress.relational import Table
    >>> Table("account", "account.parquet", features=["age"])
    Table('account', features=['age'])
    """

    def __init__(self, name: str, source: Any, *, features: Sequence[str] = (), label: str | None = None,
                 weights: str | None = None):
        if not isinstance(name, str) or not name or "\0" in name:
            raise ValueError(f"A table's name must be a non-empty string without NUL characters. Got {name!r}.")
        if isinstance(features, str):
            raise ValueError(f"features of table {name!r} must be a list of column names. Got {features!r}. "
                             f"Use [{features!r}].")
        self.name = name
        self.source = source
        self.features = list(features)
        self.label = label
        self.weights = weights

    def __repr__(self) -> str:
        parts = [repr(self.name), f"features={self.features}"]
        parts += [f"{key}={value!r}" for key, value in (("label", self.label), ("weights", self.weights)) if value]
        return f"Table({', '.join(parts)})"

    def check(self) -> None:
        """Raise ValueError naming the first column the source does not have, or one named twice."""
        columns = column_names(self.source)
        for name in columns:
            if "\0" in name:
                raise ValueError(f"Table {self.name!r} has a column {name!r} with a NUL character. Rename it.")
        for name in [*self.features, *filter(None, (self.label, self.weights))]:
            if name not in columns:
                raise missing(name, self, columns)
        if len(set(self.features)) < len(self.features):
            raise ValueError(f"features of table {self.name!r} name a column twice: {self.features}.")
        if self.label is not None and self.label in self.features:
            raise ValueError(f"Column {self.label!r} of table {self.name!r} is both label and feature. Drop one.")


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


class Join:
    """An inner (or left) equi-join of tables, never materialised.

    Parameters
    ----------
    tables : list of Table
    on : list of pairs
        ``("loan.account_id", "account.account_id")`` for columns that must be equal; two pairs between the same tables
        make a composite key; ``("loan.account_id", "account.account_id", "left")`` keeps loans without an account,
        whose account features then count as zero. Nothing joins because names are equal. NULL keys match nothing.
    max_bag_rows : int, default=10_000_000
        Most rows a group of tables may have that must be joined beforehand because the join is cyclic.

    Examples
    --------
    >>> import pandas as pd
    >>> from buttress.relational import Join, Table
    >>> loan = pd.DataFrame({"account": [1, 1, 2], "sum": [10.0, 20.0, 5.0], "bad": [0, 1, 0]})
    >>> account = pd.DataFrame({"id": [1, 2, 2], "age": [30.0, 50.0, 60.0]})
    >>> join = Join([Table("loan", loan, features=["sum"], label="bad"), Table("account", account, features=["age"])],
    ...             on=[("loan.account", "account.id")])
    >>> join.explain().n_join_rows
    4
    """

    def __init__(self, tables: Sequence[Table], on: Sequence[Sequence[str]] = (), *, max_bag_rows: int = 10_000_000):
        self.tables = list(tables)
        self.on = [tuple(pair) for pair in on]
        self.max_bag_rows = max_bag_rows

    def __repr__(self) -> str:
        return f"Join({self.tables!r}, on={self.on!r})"

    def check(self) -> list[Pair]:
        """Check names and columns; returns the pairs with tables as numbers."""
        names = [table.name for table in self.tables]
        if not names:
            raise ValueError("A join needs at least one table. Got none.")
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"Two tables are called {twice!r}. Give each its own name, as an alias in SQL.")
        labelled = [table.name for table in self.tables if table.label is not None]
        if len(labelled) > 1:
            raise ValueError(f"One table may have a label. Got {len(labelled)}: {', '.join(labelled)}. Keep one.")
        for table in self.tables:
            table.check()
        return [self._pair(pair) for pair in self.on]

    @property
    def root(self) -> int:
        """Number of the table with the label; 0 when there is none."""
        return next((i for i, table in enumerate(self.tables) if table.label is not None), 0)

    def optional(self, pairs: list[Pair]) -> list[str]:
        """Return the names of the tables that a left join may find no row of."""
        return [table.name for i, table in enumerate(self.tables) if any(p.left and p.second[0] == i for p in pairs)]

    def _pair(self, pair: tuple[str, ...]) -> Pair:
        if len(pair) not in (2, 3) or (len(pair) == 3 and pair[2] not in ("left", "inner")):
            raise ValueError('Each entry of on must be ("table.column", "table.column"), or have "left" as third. '
                             f"Got {pair!r}.")
        first, second = self._column(pair[0]), self._column(pair[1])
        if first[0] == second[0]:
            raise ValueError(f"on joins table {self.tables[first[0]].name!r} with itself: {pair!r}. Declare the table "
                             "a second time under another name.")
        return Pair(first, second, len(pair) == 3 and pair[2] == "left")

    def _column(self, key: str) -> tuple[int, str]:
        fits = [i for i, table in enumerate(self.tables) if key.startswith(table.name + ".")]
        if not fits:
            names = [table.name for table in self.tables]
            raise ValueError(f"{key!r} must be 'table.column' with one of the tables {', '.join(names)}."
                             f"{near(key.split('.')[0], names)}")
        i = max(fits, key=lambda i: len(self.tables[i].name))
        column = key[len(self.tables[i].name) + 1:]
        columns = column_names(self.tables[i].source)
        if column not in columns:
            raise missing(column, self.tables[i], columns)
        return i, column

    def explain(self) -> Any:
        """Return an Explanation: join tree, exact number of rows, exact and sketched edges, bounds, cost.

        Printing it shows all of it as text.
        """
        from buttress.relational.explain import explain

        return explain(self)


def missing(column: str, table: Table, columns: Sequence[str]) -> ValueError:
    """Return the error for a column that is not there, with the nearest name."""
    return ValueError(f"Table {table.name!r} has no column {column!r}.{near(column, columns)} "
                      f"It has: {', '.join(columns)}.")
