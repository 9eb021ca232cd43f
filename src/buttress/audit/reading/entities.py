"""A join of tables, declared in a TOML file, as one table to audit: a row for each row of the label's table."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from buttress.audit.reading.table import Table, make_table
from buttress.relational import EntityFeatures, Join, entity_table, read_join
from buttress.relational.command import class_texts
from buttress.relational.entities.transformer import EntityTable


def read_entities(source: str, target: str | None, task: str) -> tuple[Table, str, EntityFeatures]:
    """Return the table that a join in a TOML file comes to, the task, and the features that were learned.

    ``target`` is "table.column", in place of the file's label. Rows are called by a key that tells them apart, else by
    their number. Raises ValueError for a join without a label, and for all that :func:`entity_table` refuses.
    """
    join = read_join(source, target)
    name = _label(join)
    if name is None:
        raise ValueError(f"{source} has no table with a label. Add label = '...' to one, or use --target table.column.")
    rows = entity_table(join)
    table, settled = make_table(rows.columns, rows.label, name, task, rows.names)
    table.origin = source, "join"
    table.notes.append(f"A row is a row of {join.tables[join.root].name!r}. Features of other tables are aggregates of "
                       f"the rows that belong to it{f', as known before {join.date}' if join.date else ''}.")
    timed = [t.name for t in join.tables if t.time]
    if timed and not join.date:
        table.notes.append(f"With as_of='all', rows of {', '.join(timed)} count that came after the label was given. "
                           "What they tell of it cannot be known when it is predicted.")
    return table, settled, rows.made


def newer_entities(source: str, made: EntityFeatures) -> dict[str, Any]:
    """Return the columns, the label among them if there is one, of another join with the same tables."""
    join = _like(made.join, read_join(source), source)
    rows = entity_table(join, made)
    name = _label(join)
    return rows.columns if name is None else {**rows.columns, name: rows.label}


def entities_to_predict(source: str, made: EntityFeatures) -> EntityTable:
    """Return the rows of another join with the same tables; their labels are not read, since new rows have none."""
    join = _like(made.join, read_join(source), source)
    asked = made.join.tables[made.join.root].name
    join.tables.sort(key=lambda table: table.name != asked)  # without a label the first table is that of the label
    for table in join.tables:
        table.label = None
    return entity_table(join, made)


def texts_in_join(made: EntityFeatures, labels: Any) -> dict[str, str]:
    """Return the commonest text of each class in the label table's file, by class; a database has none of its own."""
    classes = np.unique(labels) if np.asarray(labels).dtype.kind in "biuf" else np.zeros(0)
    return dict(zip(map(str, classes.tolist()), class_texts(made.join, classes), strict=True))


def _like(trained: Join, join: Join, source: str) -> Join:
    """Return a join; ValueError where its rows belong together otherwise, or are known at other times, than trained."""
    one, other = map(_declared, (trained, join))
    apart = next((what for what in one if one[what] != other[what]), None)
    if apart is not None:
        raise ValueError(f"{source} declares {apart} {other[apart]!r}, and the model was trained with {one[apart]!r}. "
                         "Declare the same: only where tables are, and the label, may differ.")
    return join


def _declared(join: Join) -> Mapping[str, object]:
    tables = sorted((table.name, table.time, table.order, table.delay) for table in join.tables)
    return {"the tables (name, time, order, delay)": tables, "on": sorted(sorted(pair[:2]) for pair in join.on),
            "using": sorted(join.using), "as_of": join.as_of}


def _label(join: Join) -> str | None:
    table = join.tables[join.root]
    return None if table.label is None else f"{table.name}.{table.label}"
