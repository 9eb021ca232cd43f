"""From a plan in SQL to rows in files of our own, read once from where the tables are."""

import numpy as np
from numpy.random import RandomState

from buttress.relational.plan.plan import TableData
from buttress.relational.sources.blocks import blocks
from buttress.relational.sql.numbered import numbered
from buttress.relational.sql.oracle import SqlOracle
from buttress.relational.stream.oracle import StreamedOracle, Tree
from buttress.relational.stream.store import Layout, Store, chunk_rows

# shares of the memory of a fit; arrays of a chunk's size are alive some ten times over while it is counted
KEPT_SHARE = 1 / 4  # of chunks that stay in memory
LIST_SHARE = 1 / 3  # of lists
CHUNK_SHARE = 1 / 64  # of one chunk
MEGABYTE = 1e6


def streamed(oracle: SqlOracle, memory: float, random_state: RandomState | int | None) -> StreamedOracle:
    """Read the rows that take part in a join from its database, and return the oracle over them.

    They lie in a temporary folder, which goes with the oracle; the database is not needed any more. ``memory`` are the
    megabytes that all this may take.
    """
    sql = oracle.tree
    layouts = [_layout(oracle, i) for i in range(len(sql.nodes))]
    store = Store(layouts, KEPT_SHARE * memory * MEGABYTE)
    for i, (node, layout) in enumerate(zip(store.nodes, layouts)):
        rows = blocks(oracle.connection, numbered(sql, i), sql.dialect, layout.width)
        node.write(rows, chunk_rows(layout.row_bytes, CHUNK_SHARE * memory * MEGABYTE))
    slices = oracle.plan.slices
    columns = [np.array([slices[t].start + j for t, j in node.owner], dtype=np.int64) for node in sql.nodes]
    intercept = slices[oracle.join.root].stop - 1 if oracle.intercept else None
    tree = Tree(sql.order, [node.children for node in sql.nodes], columns, intercept)
    return StreamedOracle(store, tree, oracle.plan.width, oracle.total, LIST_SHARE * memory, random_state)


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
