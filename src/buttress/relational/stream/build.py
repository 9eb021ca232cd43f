"""From a plan in SQL to rows in files of our own, before the first pass."""

from collections.abc import Sequence

import numpy as np
from numpy.random import RandomState

from buttress.relational.plan.plan import TableData
from buttress.relational.sources.blocks import blocks
from buttress.relational.sql.numbered import numbered
from buttress.relational.sql.oracle import SqlOracle
from buttress.relational.stream import store
from buttress.relational.stream.oracle import StreamedOracle
from buttress.relational.stream.store import Layout, Store

# shares of the memory of a fit; arrays of a chunk's size are alive some ten times over while it is counted
LIST_SHARE = 1 / 3  # of lists
CHUNK_SHARE = 1 / 64  # of one chunk
MEGABYTE = 1e6


def streamed(oracle: SqlOracle, memory: float, random_state: RandomState | int | None) -> StreamedOracle:
    """Read the rows that take part in a join from its database, and return the oracle over them.

    They lie in a temporary folder, which goes with the oracle; the database is not needed any more. ``memory`` are the
    megabytes that all this may take. Raises OSError when the disk is full, and
    SourceChangedError when a file of the join is written to meanwhile.
    """
    order = oracle.tree.order[::-1]
    rows_of = Store([_layout(oracle, i, order) for i in order])
    for i, node in zip(order, rows_of.nodes):
        rows = blocks(oracle.connection, numbered(oracle.tree, i), oracle.dialect, node.layout.width)
        absent = [rows_of.nodes[child].n_keys - 1 for child in node.children]
        try:
            node.write(rows, _chunk_rows(node.layout, CHUNK_SHARE * memory * MEGABYTE), absent)
        except TimeoutError:  # an OSError, too
            raise
        except OSError as error:
            raise OSError(f"Rows of the join could not be written to {node.path.parent}: {error}. Set TMPDIR to a "
                          "folder with more room, or use engine='sql', which writes none.") from error
    oracle.check_files()
    return StreamedOracle(rows_of, oracle.plan.width, oracle.total, LIST_SHARE * memory, random_state)


def _chunk_rows(layout: Layout, chunk_bytes: float) -> int:
    """Return how many rows a chunk takes: few where their lists are multiplied, which takes memory for every row."""
    if len(layout.children) > (2 if layout.root else 1):
        return store.LEAST_ROWS
    return int(np.clip(chunk_bytes / layout.row_bytes, store.LEAST_ROWS, store.MOST_ROWS))


def _layout(oracle: SqlOracle, i: int, order: Sequence[int]) -> Layout:
    """Return the layout of a node's rows; columns of categories, indicators and ones are 0 or 1."""
    node = oracle.tree.nodes[i]
    numbers = {part.start + j for table, part in zip(oracle.plan.tables, oracle.plan.slices)
               for j, binary in enumerate(_binary(table)) if not binary}
    return Layout(i == oracle.tree.root, [order.index(child) for child in node.children],
                  [column not in numbers for column in node.columns], node.columns, node.optional)


def _binary(table: TableData) -> list[bool]:
    """Say of each column of a table whether it is a category's or an indicator's."""
    return [feature.categories is not None or j > 0 for feature in table.features
            for j in range(len(feature.scales))]
