"""The shape of a join: groups of tables or of keys joined beforehand, their tree, its left joins.

Counting in this process and counting as SQL share it, so that they cannot mean different joins. A cycle is broken by
bags of keys alone, bound together at fractional hypertree width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from buttress.relational.declare import Join, Pair
from buttress.relational.plan.tree import Edges, JoinTree, connected, cyclic_core, decompose, spanning_tree

KeyNames = dict[int, list[str]]


@dataclass(frozen=True)
class Shape:
    """The join tree of groups of tables ("bags": one table each, unless the join is cyclic).

    ``attributes`` are the columns that must be equal, table number -> its columns (mostly one); ``bound`` are the
    attributes whose keys a bag joins beforehand, none for a table alone; ``shared`` gives each
    bag's attributes that other bags hold too; ``optional`` are the bags on the right of a left join; ``kept`` the
    (table, attribute) whose rows stay though the key is NULL or matches nothing.
    """

    attributes: list[KeyNames]
    bags: list[list[int]]
    bound: list[frozenset[int]]
    shared: list[frozenset[int]]
    tree: JoinTree
    optional: frozenset[int]
    kept: frozenset[tuple[int, int]]

    @property
    def right_tables(self) -> frozenset[int]:
        """The tables on the right of a left join, which drop no row."""
        return frozenset(self.bags[bag][0] for bag in self.optional)

    def edge(self, bag: int) -> list[int]:
        """Return the attributes that a bag shares with its parent, none for the root."""
        parent = self.tree.parent[bag]
        return sorted(self.shared[bag] & self.shared[parent]) if parent >= 0 else []


def find_shape(join: Join, pairs: Sequence[Pair], root: int, log_sizes: Callable[[], Sequence[float]]) -> Shape:
    """Return the shape of a join whose root holds table ``root``.

    ``log_sizes`` gives the logarithms of the tables' numbers of rows; it is asked for cyclic joins only. Cycles
    are broken by bags of keys at fractional hypertree width, or by one group of whole tables where a left join is part
    of the cycle. Raises ValueError for tables that are not joined, and for left joins without a place in a tree.
    """
    groups = attributes(pairs)
    edges = [frozenset(a for a, group in enumerate(groups) if i in group) for i in range(len(join.tables))]
    _check_connected(join, edges)
    left = {pair.second[0] for pair in pairs if pair.left}
    bags, bound = _bags(join, edges, left, log_sizes)
    shared = _shared([*edges, *bound], [[*bag, len(edges) + i] for i, bag in enumerate(bags)])
    tree = spanning_tree(shared, next(i for i, bag in enumerate(bags) if root in bag))
    assert tree is not None, "the bags were chosen so that they form a tree"
    kept = frozenset((pair.first[0], a) for pair in pairs if pair.left for a, group in enumerate(groups)
                     if all(column in group.get(table, []) for table, column in (pair.first, pair.second)))
    optional = frozenset(i for i, bag in enumerate(bags) if bag and bag[0] in left)
    shape = Shape(groups, bags, bound, shared, tree, optional, kept)
    _check_left(join, pairs, shape)
    return shape


def _bags(join: Join, edges: Edges, left: set[int], log_sizes: Callable[[], Sequence[float]]
          ) -> tuple[list[list[int]], list[frozenset[int]]]:
    """Return the tables of each bag, and the attributes whose keys it joins beforehand."""
    core = cyclic_core(edges)
    if len(core) == 1:
        return [[i] for i in range(len(edges))], [frozenset()] * len(edges)
    if left.isdisjoint(core):
        return _bags_of_keys(edges, core, log_sizes())
    kept = [t for t in core if t not in left]
    bags = [*([t] for t in range(len(edges)) if t not in kept), kept]
    if len(connected([edges[t] for t in kept])) < len(kept) or spanning_tree(_shared(edges, bags)) is None:
        names = ", ".join(join.tables[t].name for t in sorted(left))
        raise ValueError(f"The join is cyclic, and the cycle runs through a left join (of {names}). Make it inner, or "
                         "join the cycle beforehand.")
    return bags, [frozenset(a for t in bag for a in edges[t] if sum(a in edges[s] for s in bag) > 1) for bag in bags]


def _shared(edges: Edges, bags: Sequence[Sequence[int]]) -> list[frozenset[int]]:
    """Return the attributes of each bag of edges that other bags hold too."""
    held = [frozenset().union(*(edges[e] for e in bag)) for bag in bags]
    return [frozenset(a for a in mine if sum(a in other for other in held) > 1) for mine in held]


def _bags_of_keys(
    edges: Edges, core: Sequence[int], log_sizes: Sequence[float]
) -> tuple[list[list[int]], list[frozenset[int]]]:
    """Return the tables, each a bag by itself, and bags of keys at fractional hypertree width.

    Attributes outside the cycle stay with their tables.
    """
    inside = {t: frozenset(a for a in edges[t] if sum(a in edges[s] for s in core) > 1) for t in core}
    found = decompose(list(inside.values()), [log_sizes[t] for t in core])
    wide = [bag for bag in found if not any(bag <= held for held in inside.values())]
    bags: list[list[int]] = [[t] for t in range(len(edges))]
    return bags + [[] for _ in wide], [frozenset[int]()] * len(edges) + wide


def attributes(pairs: Sequence[Pair]) -> list[KeyNames]:
    """Group the columns that must be equal.

    Left pairs stand alone, because the columns of a left join are not equal where nothing matched.
    """
    groups: list[set[tuple[int, str]]] = []
    for pair in (p for p in pairs if not p.left):
        both = {pair.first, pair.second}
        touched = [group for group in groups if group & both]
        groups = [group for group in groups if not group & both] + [both.union(*touched)]
    groups += [{pair.first, pair.second} for pair in pairs if pair.left]
    found = []
    for group in groups:
        attribute: KeyNames = {}
        for table, column in sorted(group):
            attribute.setdefault(table, []).append(column)
        found.append(attribute)
    return found


def _check_connected(join: Join, edges: Edges) -> None:
    reached = connected(edges)
    if len(reached) < len(edges):
        alone = next(i for i in range(len(edges)) if i not in reached)
        raise ValueError(f"Table {join.tables[alone].name!r} is not joined to {join.tables[0].name!r}, so every row "
                         "would meet every row. Add a pair of columns to on; if that is what you want, join them on a "
                         "column that is the same everywhere.")


def _check_left(join: Join, pairs: Sequence[Pair], shape: Shape) -> None:
    """Refuse left joins that would drop the rows they are declared to keep, or keep others."""
    names = [table.name for table in join.tables]
    sides = {(p.first[0], p.second[0]) for p in pairs if p.left}
    for kept, right in sorted(sides):
        bag = next(i for i, tables in enumerate(shape.bags) if right in tables)
        parent = shape.tree.parent[bag]
        if parent < 0 or kept not in shape.bags[parent]:
            raise ValueError(f"The left join of {names[kept]!r} to {names[right]!r} must lead away from the table with "
                             "the label. Put the label's table on the left side, or make the join inner.")
        if any((t, a) not in shape.kept for a in shape.edge(bag) for t in shape.attributes[a]
               if t in shape.bags[parent]):
            raise ValueError(f"{names[kept]!r} and {names[right]!r} are joined both left and inner. Declare all their "
                             "pairs \"left\", or none.")
        below = [i for i, above in enumerate(shape.tree.parent) if above == bag and i not in shape.optional]
        if below:
            child = names[shape.bags[below[0]][0]]
            raise ValueError(f"{names[right]!r} is joined left to {names[kept]!r}, but {child!r} is joined to "
                             f"{names[right]!r} inner, which would drop the rows of {names[kept]!r} that the left join "
                             f"keeps. Declare that pair \"left\" too, {names[right]!r} first.")
