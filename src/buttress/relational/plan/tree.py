"""Join trees of a hypergraph: its vertices are join attributes, its edges tables.

Acyclicity is decided by a maximum-weight spanning tree (Bernstein & Goodman 1981; Maier 1983), which is the tree at
once; ear removal (Graham; Yu & Ozsoyoglu 1979) decides the same, and leaves what is cyclic.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

Edges = Sequence[frozenset[int]]

TIE_BREAK = 1e-9  # added to each cost of a cover, a logarithm, so that a table of one row does not make it ambiguous


@dataclass(frozen=True)
class Tree:
    """Tables in an order where parents come first, and each table's parent (-1 for the root)."""

    order: list[int]
    parent: list[int]


def _witness(e: int, left: list[int], edges: Edges) -> int | None:
    shared = {v for v in edges[e] if any(v in edges[f] for f in left if f != e)}
    return next((f for f in left if f != e and shared <= edges[f]), None)


def spanning_tree(edges: Edges, root: int = 0) -> Tree | None:
    """Return a join tree with the given root, or None when the hypergraph is cyclic.

    Among equals a table is attached to one with few children (a chain costs less than a star), last to the root.
    """
    parent = [-1] * len(edges)
    order = [root]
    degree = [0] * len(edges)
    total = 0
    while len(order) < len(edges):
        choices = [(len(edges[e] & edges[f]), -degree[f], f != root, -e, -f)
                   for e in range(len(edges)) if e not in order for f in order]
        weight, *_, child, above = max(choices)
        parent[-child] = -above
        degree[-above] += 1
        order.append(-child)
        total += weight
    wanted = sum(sum(v in e for e in edges) - 1 for v in frozenset().union(*edges))
    return Tree(order, parent) if total == wanted else None


def connected(edges: Edges) -> list[int]:
    """Return the tables that can be reached from the first one."""
    reached = {0}
    frontier = [0]
    while frontier:
        e = frontier.pop()
        new = [f for f in range(len(edges)) if f not in reached and edges[e] & edges[f]]
        reached.update(new)
        frontier += new
    return sorted(reached)


def edge_cover(edges: Edges, log_sizes: Sequence[float]) -> tuple[np.ndarray, float]:
    """Return the fractional edge cover of least sum of weight * log size, and that sum (the AGM bound's logarithm).

    Atserias, Grohe & Marx (2008): a join whose tables hold each key combination once has at most exp(sum) rows.

    >>> triangle = [frozenset({0, 1}), frozenset({1, 2}), frozenset({0, 2})]
    >>> float(edge_cover(triangle, [1.0, 1.0, 1.0])[0].sum())
    1.5
    """
    vertices = sorted(frozenset().union(*edges))
    if not vertices:
        return np.zeros(len(edges)), 0.0
    covers = -np.array([[float(v in e) for e in edges] for v in vertices])
    found = linprog(np.asarray(log_sizes) + TIE_BREAK, A_ub=covers, b_ub=-np.ones(len(vertices)), bounds=(0, None))
    return found.x, float(np.dot(found.x, log_sizes))


def cyclic_core(edges: Edges) -> list[int]:
    """Return the tables that ear removal leaves: one if the join is acyclic.

    >>> cyclic_core([frozenset({0, 1}), frozenset({1, 2}), frozenset({0, 2}), frozenset({2, 3})])
    [0, 1, 2]
    """
    left = list(range(len(edges)))
    while (ear := next((e for e in left if len(left) > 1 and _witness(e, left, edges) is not None), None)) is not None:
        left.remove(ear)
    return left
