"""The path from the label's table to every other table of a join, and what is read along it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from buttress.relational.declare import Join, Pair


@dataclass(frozen=True)
class Hop:
    """A step away from the label's table: ``columns`` are the pairs (of the parent, of the child) that are equal."""

    parent: int
    child: int
    columns: tuple[tuple[str, str], ...]

    @property
    def above(self) -> list[str]:
        """Key columns of the parent."""
        return [column for column, _ in self.columns]

    @property
    def below(self) -> list[str]:
        """Key columns of the child."""
        return [column for _, column in self.columns]


def find_paths(join: Join, pairs: Sequence[Pair]) -> dict[int, list[Hop]]:
    """Return for each table but the label's the hops that lead to it.

    A path follows the pairs as they are declared, left or inner alike. Raises ValueError for a table that no pair
    leads to, for one that two paths lead to, and for weights, which aggregates do not use.
    """
    edges: dict[frozenset[int], list[Pair]] = {}
    for pair in pairs:
        edges.setdefault(frozenset(pair.ends), []).append(pair)
    paths: dict[int, list[Hop]] = {join.root: []}
    frontier = [join.root]
    while frontier:
        parent = frontier.pop(0)
        for child in [t for edge in edges if parent in edge for t in edge if t != parent and t not in paths]:
            paths[child] = [*paths[parent], _hop(parent, child, edges[frozenset((parent, child))])]
            frontier.append(child)
    _check_tree(join, paths, len(edges))
    del paths[join.root]
    return dict(sorted(paths.items()))


def _hop(parent: int, child: int, pairs: Sequence[Pair]) -> Hop:
    return Hop(parent, child, tuple((p.first[1], p.second[1]) if p.first[0] == parent else (p.second[1], p.first[1])
                                    for p in pairs))


def _check_tree(join: Join, paths: dict[int, list[Hop]], n_edges: int) -> None:
    names = [table.name for table in join.tables]
    alone = [names[t] for t in range(len(names)) if t not in paths]
    if alone:
        raise ValueError(f"Table {alone[0]!r} is not joined to {names[join.root]!r}. Add a pair of columns to on.")
    if n_edges > len(names) - 1:
        raise ValueError("EntityFeatures follows one path to each table, and the pairs of this join form a cycle. "
                         "Leave out the pairs between two of the tables, or declare a table a second time under "
                         "another name.")
    weighted = [table.name for table in join.tables if table.weights is not None]
    if weighted:
        raise ValueError(f"EntityFeatures counts every row once, and table {weighted[0]!r} has weights. Leave them "
                         "out.")


def root_keys(paths: Mapping[int, list[Hop]]) -> list[str]:
    """Return the columns of the label's table that paths begin with, each once."""
    return list(dict.fromkeys(name for path in paths.values() for name in path[0].above))


def date_column(join: Join) -> list[str]:
    """Return the column of the label's table that says until when rows are known, if there is one, as a list."""
    if join.as_of is None:
        return []
    t, column = join.find_column(join.as_of)
    if t != join.root:
        raise ValueError(f"as_of must be a column of the label's table {join.tables[join.root].name!r}. Got "
                         f"{join.as_of!r}.")
    if not any(table.time for i, table in enumerate(join.tables) if i != join.root):
        raise ValueError(f"as_of={join.as_of!r} needs tables that say when their rows became known. Give at least "
                         "one Table(..., time='column').")
    return [column]


def asked_names(join: Join, paths: Mapping[int, list[Hop]]) -> list[str]:
    """Return the columns of the label's table that features are made from: keys, the date, features; each once."""
    return list(dict.fromkeys([*root_keys(paths), *date_column(join), *join.tables[join.root].features]))


def used(join: Join, paths: Mapping[int, list[Hop]], table: int) -> list[str]:
    """Return the columns of a table that its features and the paths use, each once."""
    keys = [name for path in paths.values() for hop in path
            for t, names in ((hop.parent, hop.above), (hop.child, hop.below)) if t == table for name in names]
    time = [join.tables[table].time] if table != join.root else []
    return list(dict.fromkeys([*keys, *filter(None, time), *join.tables[table].features]))
