"""Rows of a streamed join drawn by weight: one reading of each node to weigh it, one to draw.

Source: Zhao, Christensen, Li, Hu & Yi, Random sampling over joins revisited, SIGMOD 2018 (exact weights).
"""

import numpy as np
from numpy.random import RandomState

from buttress._checks import Array
from buttress.relational.plan.plan import Index
from buttress.relational.stream.store import Chunk, Store, Tree

NONE = -1  # the key of a row that a left join finds nothing for


def key_weights(store: Store, tree: Tree) -> list[Array]:
    """Return for each node the weight of the rows of its subtree, a key; in the root that of all rows."""
    totals: list[Array] = [np.zeros(0)] * len(store.nodes)
    for i in reversed(tree.order):
        totals[i] = np.zeros(1 if i == tree.root else store.nodes[i].n_keys)
        for chunk in store.nodes[i].chunks():
            mass = _mass(chunk, tree.children[i], totals)
            if i == tree.root:
                totals[i] += mass.sum()
            else:
                np.add.at(totals[i], chunk.up, mass)
    return totals


def _mass(chunk: Chunk, children: list[int], totals: list[Array]) -> Array:
    """Return the weight of the rows of the join that extend each row of a chunk, down the tree."""
    mass = chunk.weight.copy()
    for code, child in zip(chunk.down, children):
        mass *= np.append(totals[child], 1.0)[code]  # NONE reads the last one
    return mass


def draw(store: Store, tree: Tree, width: int, n: int, rng: RandomState) -> tuple[Array, Array]:
    """Return n rows drawn with repetition by weight: features (n, width) and labels -1/+1."""
    totals = key_weights(store, tree)
    X = np.zeros((n, width))
    y = np.zeros(n)
    if tree.intercept is not None:
        X[:, tree.intercept] = 1.0
    keys: dict[int, Index] = {tree.root: np.zeros(n, dtype=np.int64)}
    for i in tree.order:
        chosen = np.flatnonzero(keys[i] != NONE)
        point = _points(keys[i][chosen], totals[i], rng)
        for child in tree.children[i]:
            keys[child] = np.full(n, NONE, dtype=np.int64)
        before = 0.0
        for number, chunk in enumerate(store.nodes[i].chunks()):
            ends = before + np.cumsum(_mass(chunk, tree.children[i], totals))
            last = number == len(store.nodes[i].places) - 1
            inside = (point >= before) & ((point < ends[-1]) | last)
            row = _row_at(ends - before, point[inside] - before)
            here = chosen[inside]
            X[here[:, None], tree.columns[i]] = chunk.X[row]
            for child, code in zip(tree.children[i], chunk.down):
                keys[child][here] = code[row]
            if i == tree.root:
                y[here] = np.where(chunk.up[row] == 1, 1.0, -1.0)
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
