"""How much memory a join takes that is counted in this process, from the sizes and kinds of its columns."""

from collections.abc import Sequence

from buttress.relational.checks import used_columns
from buttress.relational.declare import Join, Pair, Table, key_columns
from buttress.relational.sources.columns import Column, make_column, objects
from buttress.relational.sources.databases import item_of
from buttress.relational.sources.dialects import DUCKDB, dialect_of
from buttress.relational.sources.files import is_files, scanned
from buttress.relational.sources.tables import row_count
from buttress.relational.sql.plan import KIND_ROWS, column_sample

# Bytes at the peak of a fit, from the arrays that are alive then (measured: benchmarks/relational.py --parts memory)
VALUE = 9  # a value that was read: 8, and 1 for whether it is missing
KEY = 24  # a key, more than its value: its code, its code among the rows that are left, its place in their order
FEATURE = 32  # a feature, more than its value: the matrix, and three copies while it is scaled
ROW = 16  # any row: its number, and how many rows of the join it is part of
WORD = 57  # a text that Python holds, with the pointer to it
OBJECT = 56  # a value that a driver hands over as a Python object in a tuple
FREED = 1.15  # memory that was given back, and that the system still counts


def needed_megabytes(join: Join, pairs: Sequence[Pair], outside_only: bool = False) -> float:
    """Return the megabytes that a fit to a join in this process takes at its peak, beside the frames it is given.

    ``pairs`` are those of :meth:`Join.check`. A few queries a table: the number of its rows, and a few of them.
    ``outside_only`` leaves out the frames of this process.
    """
    total = 0.0
    for i, table in enumerate(join.tables):
        outside = isinstance(table.source, tuple) or is_files(table.source)
        if outside or not outside_only:
            keys = key_columns(pairs, i)
            total += row_count(table.source) * _row_bytes(table, keys, outside, i == join.root)
    return total * FREED / 1e6


def _row_bytes(table: Table, keys: Sequence[str], outside: bool, root: bool) -> float:
    """Return the bytes of a row of a table at the peak of a fit."""
    used = used_columns(table, keys)
    size = float(ROW + KEY * len(set(keys)) + FEATURE * (len(table.features) + root))
    if not outside:
        return size
    words = sum(column.kind == "text" for column in _few_rows(table, used).values())
    handed = OBJECT * (len(used) + 1) if isinstance(table.source, tuple) and dialect_of(table.source[0]) is not DUCKDB \
        else 0
    return size + VALUE * len(used) + WORD * words + handed


def column_count(table: Table) -> int:
    """Return about how many columns a table's features become: of text, one for each value that a few rows hold.

    A frame's text counts once.
    """
    read = _few_rows(table, table.features)
    return sum(len(set(read[name].values[~read[name].null].tolist())) if name in read and read[name].kind == "text"
               else 1 for name in table.features)


def _few_rows(table: Table, names: Sequence[str]) -> dict[str, Column]:
    """Return up to KIND_ROWS rows of a table outside of this process."""
    if isinstance(table.source, tuple):
        dialect = dialect_of(table.source[0])
        return column_sample(table.source[0], dialect, item_of(dialect, table.source[1], names), names)
    source = table.source
    if not names or not is_files(source):
        return {}
    chosen = ", ".join(DUCKDB.quote(name) for name in names)
    rows = scanned(source, lambda scan: f"SELECT {chosen} FROM ({scan}) LIMIT {KIND_ROWS}")
    read = list(zip(*rows)) if rows else [()] * len(names)
    return {name: make_column(objects(values)) for name, values in zip(names, read)}
