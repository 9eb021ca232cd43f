"""Which join attributes of a cyclic join to bind together: a tree decomposition of least fractional hypertree width.

A bag is a set of attributes. By the AGM bound a bag has at most n^rho rows, rho its least fractional edge cover; the
largest rho of a decomposition is its width, and fhtw is the least width there is: 3/2 for a triangle, 2 for every
longer cycle, k/2 for a clique of k attributes. Source: Grohe & Marx, Constraint solving via fractional edge covers,
SODA 2006.

Every tree decomposition comes from an order of eliminating attributes: the bag of an attribute is itself and those
that it can reach through eliminated ones. The least sum of the bags' bounds is found over all orders by dynamic
programming on the set of eliminated attributes (Bodlaender et al., ESA 2006, Theorem 3).
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from buttress.relational.plan.tree import Edges, edge_cover

SEARCHED_ATTRIBUTES = 10  # all orders of so many attributes are searched: 1,024 sets; of more, one order is taken

Bags = list[frozenset[int]]


class Decomposition:
    """The bags that orders of elimination give, and their bounds.

    ``log_sizes`` are the logarithms of the tables' numbers of distinct keys.
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
        reached = {vertex}
        frontier = [vertex]
        while frontier:
            near = frozenset().union(*(edge for edge in self.edges if frontier[-1] in edge))
            frontier.pop()
            new = near - reached
            reached |= new
            frontier += [v for v in new if v in gone]
        return frozenset(reached - (gone - {vertex}))

    def greedy_order(self) -> list[int]:
        """Return an order that takes the vertex of the least bag each time."""
        order: list[int] = []
        while len(order) < len(self.vertices):
            gone = frozenset(order)
            order.append(min(sorted(self.vertices - gone), key=lambda v: self.log_rows(self.bag(gone, v))))
        return order

    def cost(self, order: Sequence[int]) -> float:
        """Return the sum of the bounds of the bags of an order."""
        return float(sum(np.exp(self.log_rows(bag)) for bag in self.bags(order)))

    def bags(self, order: Sequence[int]) -> Bags:
        """Return the bags of an order."""
        return [self.bag(frozenset(order[:i]), vertex) for i, vertex in enumerate(order)]

    def best_order(self) -> list[int]:
        """Return the order of least cost, by dynamic programming; sets costlier than the greedy order drop out."""
        greedy = self.greedy_order()
        most = self.cost(greedy)
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
    order = found.best_order() if len(twins) <= SEARCHED_ATTRIBUTES else found.greedy_order()
    bags = dict.fromkeys(found.bags(order))
    largest = [bag for bag in bags if not any(bag < other for other in bags)]
    return [frozenset().union(*(twins[v] for v in bag)) for bag in largest]


def width(edges: Edges, bags: Bags) -> float:
    """Return the largest fractional edge cover of a bag, its tables projected on it: the exponent of n."""
    return max(Decomposition(edges, [1.0] * len(edges)).log_rows(bag) for bag in bags)
