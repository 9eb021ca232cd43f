"""How much memory a fit takes whose rows are streamed, from what is known before it: sizes of tables and keys."""

import numpy as np

from buttress.relational.counting.lists import ENTRY_MEGABYTES
from buttress.relational.declare import Join
from buttress.relational.plan.plan import Node, Plan
from buttress.relational.sources.dialects import DUCKDB, dialect_of
from buttress.relational.sql.memory import column_count
from buttress.relational.sql.plan import LEAST_MEMORY
from buttress.relational.stream.build import CHUNK_SHARE, LIST_SHARE, MEGABYTE
from buttress.relational.stream.store import Layout

# measured: benchmarks/relational_streams.py --parts large
LIBRARIES = 100.0  # megabytes of DuckDB's code and of loops that are compiled, as a process that has neither grows
DATABASE_SHARE = 1 / 2  # of the memory, for a DuckDB of our own that rows are streamed from: the rest is for the rows
IN_DATABASE = 2.0  # bytes that DuckDB holds for one of a table's while it numbers the keys
ALIVE = 10  # arrays of a chunk's size that are alive while it is counted


def streamed_megabytes(join: Join, plan: Plan, memory: float) -> float:
    """Return the megabytes that a streamed fit takes at its peak when it may take ``memory`` of them, as an estimate.

    ``plan`` is of the keys of the join. The larger of what the database takes while rows are brought, and of lists
    and a chunk in a pass. A DuckDB of the user's has a limit of its own, which is not
    known here, and a category that no row of a sample has is not counted.
    """
    memory = max(memory, LEAST_MEMORY)
    row_megabytes = [_row_bytes(join, plan, node, i) / MEGABYTE for i, node in enumerate(plan.nodes)]
    largest = max(max((plan.base_rows[t] for t, _ in node.members), default=node.n_rows) * each
                  for node, each in zip(plan.nodes, row_megabytes))
    ours = not join.connections or dialect_of(join.connections[0]) is DUCKDB
    brought = min(IN_DATABASE * largest, max(DATABASE_SHARE * memory, LEAST_MEMORY)) if ours else 0.0
    lists = min(_entries(plan) * ENTRY_MEGABYTES, LIST_SHARE * memory)
    return LIBRARIES + max(brought, lists + ALIVE * min(largest, CHUNK_SHARE * memory))


def _row_bytes(join: Join, plan: Plan, node: Node, i: int) -> int:
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
