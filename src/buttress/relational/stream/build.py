"""From a plan in SQL to rows in files of our own, before the first pass."""

import numpy as np
from numpy.random import RandomState

from buttress.relational.plan.plan import TableData
from buttress.relational.sources.blocks import blocks
from buttress.relational.sql.numbered import numbered
from buttress.relational.sql.oracle import SqlOracle
from buttress.relational.stream import store
from buttress.relational.stream.oracle import StreamedOracle
from buttress.relational.stream.store import Layout, Store, Tree

# shares of the memory of a fit; arrays of a chunk's size are alive some ten times over while it is counted
KEPT_SHARE = 1 / 4  # of chunks that stay in memory
LIST_SHARE = 1 / 3  # of lists
CHUNK_SHARE = 1 / 64  # of one chunk
MEGABYTE = 1e6


def streamed(oracle: SqlOracle, memory: float, random_state: RandomState | int | None) -> StreamedOracle:
    """Read the rows that take part in a join from its database, and return the oracle over them.

    They lie in a temporary folder, which goes with the oracle; the database is not needed any more. ``memory`` are the
    megabytes that all this may take. Raises OSError when the disk is full, and
    SourceChangedError when a file of the join is written to meanwhile.
    """
    sql = oracle.tree
    layouts = [_layout(oracle, i) for i in range(len(sql.nodes))]
    rows_of = Store(layouts, KEPT_SHARE * memory * MEGABYTE)
    for i, (node, layout) in enumerate(zip(rows_of.nodes, layouts)):
        rows = blocks(oracle.connection, numbered(sql, i), sql.dialect, layout.width)
        try:
            node.write(rows, _chunk_rows(layout, CHUNK_SHARE * memory * MEGABYTE))
        except TimeoutError:  # an OSError, too
            raise
        except OSError as error:
            raise OSError(f"Rows of the join could not be written to {node.path.parent}: {error}. Set TMPDIR to a "
                          "folder with more room, or use engine='sql', which writes none.") from error
    oracle.check_files()
    slices = oracle.plan.slices
    columns = [np.array([slices[t].start + j for t, j in node.owner], dtype=np.int64) for node in sql.nodes]
    intercept = slices[oracle.join.root].stop - 1 if oracle.intercept else None
    tree = Tree(sql.order, [node.children for node in sql.nodes], columns, intercept)
    return StreamedOracle(rows_of, tree, oracle.plan.width, oracle.total, LIST_SHARE * memory, random_state)


def _chunk_rows(layout: Layout, chunk_bytes: float) -> int:
    """Return how many rows a chunk takes: few where their lists are multiplied, which takes memory for every row."""
    if len(layout.children) > (2 if layout.root else 1):
        return store.LEAST_ROWS
    return int(np.clip(chunk_bytes / layout.row_bytes, store.LEAST_ROWS, store.MOST_ROWS))


def _layout(oracle: SqlOracle, i: int) -> Layout:
    node = oracle.tree.nodes[i]
    kinds = {t: _binary(oracle.plan.tables[t]) for t in {t for t, _ in node.owner}}
    return Layout(i == oracle.tree.root, node.children, [kinds[t][j] for t, j in node.owner])


def _binary(table: TableData) -> list[bool]:
    """Say of each column of a table whether it is a category's or an indicator's, which is 0 or 1."""
    found: list[bool] = []
    for name, categories in table.features:
        found += [False] if categories is None else [True] * len(categories)
        found += [True] if name in table.indicators else []
    return found
