"""How much memory a fit takes whose rows are counted in this process, in memory or streamed, known before it."""

from collections.abc import Sequence

import numpy as np

from buttress.relational.checks import used_columns
from buttress.relational.counting.lists import ENTRY_MEGABYTES
from buttress.relational.declare import Join, Pair, Table, key_columns
from buttress.relational.plan.plan import Node, Plan
from buttress.relational.sources.columns import Column, make_column, objects
from buttress.relational.sources.databases import item_of
from buttress.relational.sources.dialects import DUCKDB, dialect_of
from buttress.relational.sources.files import is_files, scanned
from buttress.relational.sources.tables import row_count
from buttress.relational.sql.plan import KIND_ROWS, LEAST_MEMORY, column_sample
from buttress.relational.stream import CHUNK_SHARE, LIST_SHARE, Layout

# Bytes at the peak of a fit, from the arrays that are alive then (measured: benchmarks/relational.py --parts memory)
VALUE = 9  # a value that was read: 8, and 1 for whether it is missing
KEY = 24  # a key, more than its value: its code, its code among the rows that are left, its place in their order
FEATURE = 8  # a feature, more than its value: the matrix
COPIES = 24  # a feature while its table is scaled: three copies
SAMPLED = 32  # a feature of a row of the sample: the row, its copy for the start's solver, and that solver's own
ROW = 16  # any row: its number, and how many rows of the join it is part of
WORD = 57  # a text that Python holds, with the pointer to it
OBJECT = 56  # a value that a driver hands over as a Python object in a tuple
CODE = 45e6  # bytes that a process grows by when it loads solvers and compiled loops, after its sample is gone
FREED = 1.15  # memory that was given back, and that the system still counts

# measured: benchmarks/relational_streams.py --parts large
LIBRARIES = 100.0  # megabytes of DuckDB's code and of loops that are compiled, as a process that has neither grows
DATABASE_SHARE = 1 / 2  # of the memory, for a DuckDB of our own that rows are streamed from: the rest is for the rows
IN_DATABASE = 2.0  # bytes that DuckDB holds for one of a table's while it numbers the keys
ALIVE = 10  # arrays of a chunk's size that are alive while it is counted


def needed_megabytes(join: Join, pairs: Sequence[Pair], outside_only: bool = False, sampled: int = 0) -> float:
    """Return the megabytes that a fit to a join in this process takes at its peak, beside the frames it is given.

    ``pairs`` are those of :meth:`Join.check`. A few queries a table: the number of its rows, and a few of them.
    ``outside_only`` leaves out the frames of this process; ``sampled`` are the rows of the sample, which is left out
    without.
    """
    kept = scaled = 0.0
    for i, table in enumerate(join.tables):
        outside = isinstance(table.source, tuple) or is_files(table.source)
        if outside or not outside_only:
            keys = key_columns(pairs, i)
            n = row_count(table.source)
            kept += n * _row_bytes(table, keys, outside, i == join.root)
            scaled = max(scaled, n * COPIES * (len(table.features) + (i == join.root)))
    solving = max(CODE, sampled * SAMPLED * sum(map(column_count, join.tables))) if sampled else 0.0
    return (kept + max(scaled, solving)) * FREED / 1e6


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
    if not names or not is_files(table.source):
        return {}
    chosen = ", ".join(DUCKDB.quote(name) for name in names)
    rows = scanned(table.source, lambda scan: f"SELECT {chosen} FROM ({scan}) LIMIT {KIND_ROWS}")
    read = list(zip(*rows)) if rows else [()] * len(names)
    return {name: make_column(objects(values)) for name, values in zip(names, read)}


def streamed_megabytes(join: Join, plan: Plan, memory: float) -> float:
    """Return the megabytes that a streamed fit takes at its peak when it may take ``memory`` of them, as an estimate.

    ``plan`` is of the keys of the join. The larger of what the database takes while rows are brought, and of lists
    and a chunk in a pass. A DuckDB of the user's has a limit of its own, which is not
    known here, and a category that no row of a sample has is not counted.
    """
    memory = max(memory, LEAST_MEMORY)
    row_megabytes = [_node_bytes(join, node, i) / 1e6 for i, node in enumerate(plan.nodes)]
    largest = max(max((plan.base_rows[t] for t, _ in node.members), default=node.n_rows) * each
                  for node, each in zip(plan.nodes, row_megabytes))
    ours = not join.connections or dialect_of(join.connections[0]) is DUCKDB
    brought = min(IN_DATABASE * largest, max(DATABASE_SHARE * memory, LEAST_MEMORY)) if ours else 0.0
    lists = min(_entries(plan) * ENTRY_MEGABYTES, LIST_SHARE * memory)
    return LIBRARIES + max(brought, lists + ALIVE * min(largest, CHUNK_SHARE * memory))


def _node_bytes(join: Join, node: Node, i: int) -> int:
    """Return the bytes of a row of a node in memory."""
    width = sum(column_count(join.tables[t]) for t, _ in node.members) + (i == 0)  # the root's ones
    return Layout(i == 0, list(node.down), [False] * width).row_bytes


def _entries(plan: Plan) -> float:
    """Return about how many entries the lists of all nodes but the root have, on however fine a grid."""
    lengths = np.ones(len(plan.nodes))
    total = 0.0
    for i in reversed(range(1, len(plan.nodes))):
        node = plan.nodes[i]
        entries = node.n_rows * float(np.prod([lengths[child] for child in node.down]))
        lengths[i] = entries / max(node.n_keys, 1)
        total += entries
    return total
