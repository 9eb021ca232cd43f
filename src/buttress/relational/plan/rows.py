"""Rows of a join by number, by exact counts along the join tree.

Source: Zhao, Christensen, Li, Hu & Yi, Random sampling over joins revisited, SIGMOD 2018 (exact weights).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from buttress._checks import Array
from buttress.relational.plan.plan import Index, Node, Plan


def unrank(plan: Plan, ranks: NDArray[Any]) -> list[Index]:
    """Return the row of every node for join rows given by number, by division with remainder down the tree."""
    rows: list[Any] = [None] * len(plan.nodes)
    rest: list[Any] = [None] * len(plan.nodes)
    kind: Any = plan.counts[0].dtype
    ends = np.cumsum(plan.counts[0])
    rows[0], rest[0] = _locate(ends, ranks.astype(kind))
    for i, node in enumerate(plan.nodes):
        left = rest[i]
        for child, key in node.down.items():
            below = plan.nodes[child]
            ends = np.cumsum(plan.counts[child])
            total, base = _groups(below, ends)
            groups = key[rows[i]]
            inside = left % total[groups]
            left = left // total[groups]
            rows[child], rest[child] = _locate(ends, base[groups] + inside)
    return rows


def _groups(node: Node, ends: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return each key's total and where its range begins, from the running totals of the node's rows."""
    last = ends[np.searchsorted(node.key, np.arange(node.n_keys), side="right") - 1]
    base = np.concatenate([np.zeros(1, dtype=ends.dtype), last[:-1]])
    return last - base, base


def _locate(ends: NDArray[Any], position: NDArray[Any]) -> tuple[Index, NDArray[Any]]:
    row = np.searchsorted(ends, position, side="right")
    start = np.where(row > 0, ends[row - 1], 0)
    return row, position - start


def table_rows(plan: Plan, rows: list[Index]) -> list[Index]:
    """Return each table's row from the nodes' rows."""
    found: list[Any] = [None] * len(plan.tables)
    for node, row in zip(plan.nodes, rows):
        for table, place in node.members:
            found[table] = place[row]
    return found


def scaled_design(plan: Plan, rows: list[Index]) -> Array:
    """Return the scaled features (n, plan.width) of join rows given by the nodes' rows."""
    blocks = [table.X[place] for table, place in zip(plan.tables, table_rows(plan, rows))]
    if any(sparse.issparse(block) for block in blocks):
        return sparse.hstack(blocks, format="csr").toarray()
    return np.hstack(blocks)
