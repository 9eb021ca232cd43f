"""Rows of a join by number or drawn at random, by exact counts along the join tree.

Source: Zhao, Christensen, Li, Hu & Yi, Random sampling over joins revisited, SIGMOD 2018 (exact weights).
"""

import random
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy import sparse

from buttress._checks import Array
from buttress.relational.plan.plan import Index, Node, Plan, count_rows


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


def draw(plan: Plan, n: int, rng: RandomState, *, weighted: bool) -> list[Index]:
    """Return the nodes' rows of n join rows drawn with repetition, uniformly or by weight."""
    if not weighted and plan.n_rows < 2**62:
        return unrank(plan, rng.randint(0, plan.n_rows, size=n, dtype=np.int64))
    if not weighted:
        source = random.Random(int(rng.randint(2**31)))
        return unrank(plan, np.array([source.randrange(plan.n_rows) for _ in range(n)], dtype=object))
    counts = count_rows(plan.nodes, plan.weights())
    rows: list[Any] = [None] * len(plan.nodes)
    ends = np.cumsum(counts[0])
    rows[0] = _pick(ends, rng.uniform(size=n) * ends[-1], counts[0])
    for i, node in enumerate(plan.nodes):
        for child, key in node.down.items():
            ends = np.cumsum(counts[child])
            total, base = _groups(plan.nodes[child], ends)
            groups = key[rows[i]]
            rows[child] = _pick(ends, base[groups] + rng.uniform(size=n) * total[groups], counts[child])
    return rows


def _pick(ends: Array, position: Array, counts: Array) -> Index:
    """Return the row at each position of the running totals, never one of weight zero."""
    positive = np.flatnonzero(counts > 0)
    return positive[np.minimum(np.searchsorted(ends[positive], position, side="right"), len(positive) - 1)]


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
