"""Join trees of a hypergraph, and which attributes of a cyclic one to bind: its edges are tables.

Acyclicity is decided by a maximum-weight spanning tree (Bernstein & Goodman 1981; Maier 1983), which is the tree at
once; ear removal (Graham; Yu & Ozsoyoglu 1979) decides the same, and leaves what is cyclic.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import linprog

Edges = Sequence[frozenset[int]]


Bags = list[frozenset[int]]


@dataclass(frozen=True)
class JoinTree:
    """Tables in an order where parents come first, and each table's parent (-1 for the root)."""

    order: list[int]
    parent: list[int]


def _witness(e: int, left: list[int], edges: Edges) -> int | None:
    shared = {v for v in edges[e] if any(v in edges[f] for f in left if f != e)}
    return next((f for f in left if f != e and shared <= edges[f]), None)


def spanning_tree(edges: Edges, root: int = 0) -> JoinTree | None:
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
    return JoinTree(order, parent) if total == wanted else None


def connected(edges: Edges) -> list[int]:
    """Return the tables that can be reached from the first one."""
    reached = {0}
    for _ in edges:  # a table further each time
        reached |= {f for f, edge in enumerate(edges) if any(edge & edges[e] for e in reached)}
    return sorted(reached)


def edge_cover(edges: Edges, log_sizes: Sequence[float]) -> tuple[np.ndarray, float]:
    """Return the fractional edge cover of least sum of weight * log size, and that sum (the AGM bound's logarithm).

    Atserias, Grohe & Marx (2008): a join whose tables hold each key combination once has at most exp(sum) rows.

    >>> triangle = [frozenset({0, 1}), frozenset({1, 2}), frozenset({0, 2})]
    >>> float(edge_cover(triangle, [1.0, 1.0, 1.0])[0].sum())
    1.5
    """
    vertices = sorted(frozenset().union(*edges))
    covers = -np.array([[float(v in e) for e in edges] for v in vertices])
    # so a table of one row, whose cost is 0, does not make the cover ambiguous
    found = linprog(np.asarray(log_sizes) + 1e-9, A_ub=covers, b_ub=-np.ones(len(vertices)), bounds=(0, None))
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


class Decomposition:
    """Tree decompositions of a cyclic join, by the order in which its attributes are eliminated, and their bounds.

    A bag is a set of attributes. By the AGM bound a bag has at most n^rho rows, rho its least fractional edge cover;
    the largest rho of a decomposition is its width, and the least width is 3/2 for a triangle, 2 for every longer
    cycle, k/2 for a clique of k attributes (Grohe & Marx, SODA 2006).

    Every decomposition comes from an order of eliminating attributes: the bag of an attribute is itself and those that
    it can reach through eliminated ones. The least sum of the bags' bounds is found over all orders by dynamic
    programming on the set of eliminated attributes (Bodlaender et al., ESA 2006, Theorem 3). ``log_sizes`` are the
    logarithms of the tables' numbers of distinct keys.
    """

    def __init__(self, edges: Edges, log_sizes: Sequence[float]):
        self.edges = edges
        self.log_sizes = log_sizes
        self.vertices = frozenset().union(*edges)
        self.log_rows = cache(self._log_rows)

    def _log_rows(self, bag: frozenset[int]) -> float:
        """Return the logarithm of the AGM bound of a bag, whose tables are projected on it."""
        inside = [(edge & bag, size) for edge, size in zip(self.edges, self.log_sizes, strict=True) if edge & bag]
        return edge_cover([edge for edge, _ in inside], [size for _, size in inside])[1]

    def bag(self, gone: frozenset[int], vertex: int) -> frozenset[int]:
        """Return the bag of a vertex eliminated after those in ``gone``."""
        reached = frozenset({vertex})
        for _ in range(len(gone) + 1):  # an eliminated one further each time
            passed = reached & gone | {vertex}
            reached |= frozenset().union(*(edge for edge in self.edges if edge & passed))
        return reached - (gone - {vertex})

    def greedy_order(self) -> list[int]:
        """Return an order that takes the vertex of the least bag each time."""
        order: list[int] = []
        while len(order) < len(self.vertices):
            gone = frozenset(order)
            order.append(min(sorted(self.vertices - gone), key=lambda v: self.log_rows(self.bag(gone, v))))
        return order

    def bags(self, order: Sequence[int]) -> Bags:
        """Return the bags of an order."""
        return [self.bag(frozenset(order[:i]), vertex) for i, vertex in enumerate(order)]

    def best_order(self) -> list[int]:
        """Return the order of least cost, by dynamic programming; sets costlier than the greedy order drop out."""
        greedy = self.greedy_order()
        most = float(sum(np.exp(self.log_rows(bag)) for bag in self.bags(greedy)))
        layer: dict[frozenset[int], tuple[float, list[int]]] = {frozenset(): (0.0, [])}
        for _ in self.vertices:
            following: dict[frozenset[int], tuple[float, list[int]]] = {}
            for gone, (cost, order) in layer.items():
                for vertex in self.vertices - gone:
                    total = cost + float(np.exp(self.log_rows(self.bag(gone, vertex))))
                    after = gone | {vertex}
                    if total <= most and total < following.get(after, (np.inf, []))[0]:
                        following[after] = total, [*order, vertex]
            layer = following
        return layer[self.vertices][1] if self.vertices in layer else greedy


def decompose(edges: Edges, log_sizes: Sequence[float]) -> Bags:
    """Return the bags of the decomposition with the least sum of AGM bounds, none inside another.

    Attributes of the same tables are bound together from the start, so that they count as one.

    >>> cycle = [frozenset({i, (i + 1) % 5}) for i in range(5)]
    >>> sorted(map(len, decompose(cycle, [7.0] * 5)))
    [3, 3, 3]
    """
    alike: dict[frozenset[int], list[int]] = {}
    for v in sorted(frozenset().union(*edges)):
        alike.setdefault(frozenset(i for i, edge in enumerate(edges) if v in edge), []).append(v)
    twins = {group[0]: frozenset(group) for group in alike.values()}
    found = Decomposition([edge & twins.keys() for edge in edges], log_sizes)
    order = found.best_order() if len(twins) <= 10 else found.greedy_order()  # 1,024 sets
    bags = dict.fromkeys(found.bags(order))
    largest = [bag for bag in bags if not any(bag < other for other in bags)]
    return [frozenset().union(*(twins[v] for v in bag)) for bag in largest]
