"""A join of tables, declared in a TOML file, as one table to audit: a row for each row of the label's table."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from buttress._types import NamedColumns
from buttress.audit.reading.entries import is_missing
from buttress.audit.reading.table import DataTable, make_table
from buttress.relational import EntityFeatures, Join, entity_table, read_join
from buttress.relational.command import as_written, class_texts
from buttress.relational.entities.transformer import EntityTable


def read_entities(source: str, target: str | None, task: str) -> tuple[DataTable, EntityFeatures]:
    """Return the table that a join in a TOML file comes to, and the features that were learned.

    ``target`` is "table.column", in place of the file's label. Rows are called by a key that tells them apart, else by
    their number. Raises ValueError for a join without a label, and for all that :func:`entity_table` refuses.
    """
    join = read_join(source, target)
    name = _label(join, source)
    rows = entity_table(join)
    table = make_table(rows.columns, _as_read(join, rows), name, task, rows.names)
    table.origin = source, "join"
    table.notes.append(f"A row is a row of {join.tables[join.root].name!r}. Features of other tables are aggregates of "
                       f"the rows that belong to it{f', as known before {join.date}' if join.date else ''}.")
    timed = [t.name for t in join.tables if t.time]
    if timed and not join.date:
        table.notes.append(f"With as_of='all', rows of {', '.join(timed)} count that came after the label was given. "
                           "What they tell of it cannot be known when it is predicted.")
    return table, rows.made


def newer_entities(source: str, made: EntityFeatures) -> NamedColumns:
    """Return the columns, the label among them if there is one, of another join with the same tables."""
    join = _like(made.join, read_join(source), source)
    rows = entity_table(join, made)
    return rows.columns if rows.label is None else {**rows.columns, _label(join, source): _as_read(join, rows)}


def labelled_entities(source: str, target: str | None, made: EntityFeatures) -> tuple[Mapping[str, object], Any, str]:
    """Return the columns of another join with the same tables, its label, and what that is called."""
    join = _like(made.join, read_join(source, target), source)
    name = _label(join, source)
    rows = entity_table(join, made)
    return rows.columns, _as_read(join, rows), name


def entities_to_predict(source: str, made: EntityFeatures) -> EntityTable:
    """Return the rows of another join with the same tables; their labels are not read, since new rows have none."""
    join = _like(made.join, read_join(source), source)
    asked = made.join.tables[made.join.root].name
    join.tables.sort(key=lambda table: table.name != asked)  # without a label the first table is that of the label
    for table in join.tables:
        table.label = None
    return entity_table(join, made)


def _as_read(join: Join, rows: EntityTable) -> Any:
    """Return the labels as one table would have them: yes and no, which DuckDB takes for truth values, are texts."""
    texts = as_written(join, rows.label)
    return rows.label if {str(text).lower() for text in texts.tolist()} <= {"true", "false", "none"} else texts


def texts_in_join(made: EntityFeatures, labels: Any) -> dict[str, str]:
    """Return the commonest text of each class in the label table's file, by class; a database has none of its own."""
    classes = np.unique([label for label in labels.tolist() if not is_missing(label)])
    return dict(zip(map(str, classes.tolist()), class_texts(made.join, classes), strict=True))


def _like(trained: Join, join: Join, source: str) -> Join:
    """Return a join whose label table is called as in training, if it is the only one with a name of its own.

    ValueError where rows belong together otherwise, or are known at other times, than in training.
    """
    _call_alike(trained, join)
    one, other = map(_declared, (trained, join))
    if one != other:
        lacks, has = ("; ".join(sorted(apart)) or "nothing else" for apart in (one - other, other - one))
        raise ValueError(f"{source} does not declare what the model was trained with: {lacks}. In its place it has: "
                         f"{has}. Only where tables are, the label, and the name of its table may differ.")
    return join


def _call_alike(trained: Join, join: Join) -> None:
    name = trained.tables[trained.root].name
    new = {table.name for table in join.tables} - {table.name for table in trained.tables}
    if len(new) != 1 or name in {table.name for table in join.tables}:
        return
    renamed = next(t for t, table in enumerate(join.tables) if table.name in new)

    def called(key: str) -> str:
        t, column = join.find_column(key)
        return f"{name}.{column}" if t == renamed else key

    join.on = [(called(pair[0]), called(pair[1]), *pair[2:]) for pair in join.on]
    join.as_of = join.as_of if join.date is None else called(join.date)
    join.tables[renamed].name = name


def _declared(join: Join) -> set[str]:
    """Return what of a join decides which rows belong together, and when they are known, in words."""
    said = {f"on {' = '.join(sorted(pair[:2]))}" for pair in join.on} | {f"using {name}" for name in join.using}
    for table in join.tables:
        timed = {"time": table.time, "order": table.order, "delay": table.delay}
        said.add(f"table {table.name}" + "".join(f", {what} {value}" for what, value in timed.items() if value))
    return said | {f"as_of {join.as_of}"}


def _label(join: Join, source: str) -> str:
    table = join.tables[join.root]
    if table.label is None:
        raise ValueError(f"{source} has no table with a label. Add label = '...' to one, or use --target table.column.")
    return f"{table.name}.{table.label}"
