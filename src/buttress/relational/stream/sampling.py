"""Rows of a streamed join drawn by weight: one reading of each node to weigh it, one to draw.

Source: Zhao, Christensen, Li, Hu & Yi, Random sampling over joins revisited, SIGMOD 2018 (exact weights).
"""

from collections.abc import Sequence

import numpy as np
from numpy.random import RandomState

from buttress._checks import Array
from buttress.relational.counting.rows import Rows
from buttress.relational.plan.plan import Index
from buttress.relational.stream.store import StoredNode


def key_weights(nodes: Sequence[StoredNode]) -> list[Array]:
    """Return for each node the weight of the rows of its subtree, a key; in the root that of all rows."""
    totals: list[Array] = []
    for node in nodes:
        total = np.zeros(node.n_keys)
        for rows in node.chunks():
            total[rows.numbers] += np.add.reduceat(_mass(rows, node, totals), rows.start[:-1])
        totals.append(total)
    return totals


def _mass(rows: Rows, node: StoredNode, totals: list[Array]) -> Array:
    """Return the weight of the rows of the join that extend each row of a chunk, down the tree."""
    mass = rows.weight.copy()
    for key, child in zip(rows.down, node.children):
        mass *= totals[child][key]
    return mass


def draw(nodes: Sequence[StoredNode], width: int, n: int, rng: RandomState) -> tuple[Array, Array]:
    """Return n rows drawn with repetition by weight: features (n, width) and labels -1/+1."""
    totals = key_weights(nodes)
    X = np.zeros((n, width))
    y = np.zeros(n)
    keys: list[Index] = [np.zeros(n, dtype=np.int64) for _ in nodes]
    for i in reversed(range(len(nodes))):
        point = _points(keys[i], totals[i], rng)
        before = 0.0
        for number, rows in enumerate(nodes[i].chunks()):
            ends = before + np.cumsum(_mass(rows, nodes[i], totals))
            last = number == len(nodes[i].places) - 1
            here = np.flatnonzero((point >= before) & ((point < ends[-1]) | last))
            row = _row_at(ends - before, point[here] - before)
            for part in rows.features:
                X[here[:, None], part.columns] = part.X[row]
            for child, key in zip(nodes[i].children, rows.down):
                keys[child][here] = key[row]
            if i == len(nodes) - 1:
                y[here] = 2.0 * rows.side[row] - 1.0
            before = float(ends[-1])
    return X, y


def _points(keys: Index, totals: Array, rng: RandomState) -> Array:
    """Return a random point within the weights of each key, where those of the keys follow each other."""
    base = np.cumsum(totals) - totals
    return base[keys] + rng.uniform(size=len(keys)) * totals[keys]


def _row_at(ends: Array, point: Array) -> Index:
    """Return the row at each point of the running totals, never one of weight 0."""
    positive = np.flatnonzero(np.diff(ends, prepend=0.0) > 0)
    return positive[np.minimum(np.searchsorted(ends[positive], point, side="right"), len(positive) - 1)]
