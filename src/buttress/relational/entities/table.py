"""The label's table as one row of columns an entity: its own features as they are, aggregates of the other tables."""

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress.relational.declare import Join
from buttress.relational.entities.paths import asked_names, find_paths, root_keys
from buttress.relational.entities.transformer import EntityFeatures
from buttress.relational.sources.columns import Column
from buttress.relational.sources.databases import one_snapshot
from buttress.relational.sources.tables import read_columns


@dataclass(frozen=True)
class EntityTable:
    """Rows of the label's table.

    ``columns`` are arrays (n,) by name: the table's own features, text as it is, and the aggregates that ``made`` has
    learned; a missing number is NaN, a missing text None. ``label`` is None where the join has none. ``names`` are the
    values of a key that no two rows share, None where there is no such key.
    """

    columns: dict[str, NDArray[Any]]
    label: NDArray[Any] | None
    names: NDArray[Any] | None
    made: EntityFeatures


def entity_table(join: Join, made: EntityFeatures | None = None) -> EntityTable:
    """Return the rows of the label's table of a join with their features, for models and reports that take frames.

    Parameters
    ----------
    join : Join
        With ``as_of``, each row has only what was known before its date.
    made : EntityFeatures or None
        Learned on another copy of the tables, whose aggregates are to be made of these; None learns them here.

    Raises
    ------
    ValueError
        For everything :class:`EntityFeatures` refuses.

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
    with one_snapshot(join.connections):
        paths = find_paths(join, join.check())
        read = list(dict.fromkeys([*asked_names(join, paths), *filter(None, [table.label])]))
        own = read_columns(table.source, read)
        if made is None:
            made = EntityFeatures(join, missing="nan")
            values = made.fit_transform(own)
        else:
            made = copy(made).set_params(join=join)
            values = made.transform(own)
    columns = {f"{table.name}.{name}": _plain(own[name]) for name in table.features}
    columns |= {str(name): values[:, j] for j, name in enumerate(made.get_feature_names_out())
                if made.features_[j][0] != table.name}
    label = None if table.label is None else _plain(own[table.label])
    return EntityTable(columns, label, _names([own[name] for name in root_keys(paths)]), made)


def _plain(column: Column) -> NDArray[Any]:
    """Return a column with its missing values as NaN, None or NaT."""
    if not column.null.any() or column.kind == "time":
        return column.values
    if column.kind == "number":
        return np.where(column.null, np.nan, column.values.astype(np.float64))
    words = column.values.astype(object)
    words[column.null] = None
    return words


def _names(keys: list[Column]) -> NDArray[Any] | None:
    """Return the first column that tells the rows apart."""
    return next((key.values for key in keys if not key.null.any() and key.kind in ("number", "text")
                 and len(np.unique(key.values)) == len(key.values)), None)
