"""The path from the label's table to every other table of a join, what is read along it, and the rows asked about."""

import operator
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from buttress._checks import Array, near
from buttress.relational.declare import Join, Pair
from buttress.relational.entities.features import Feature, features_of, own_features
from buttress.relational.entities.words import WORDS, check_dated
from buttress.relational.plan.keys import LARGEST_EXACT, check_exact, check_kinds
from buttress.relational.plan.plan import Index
from buttress.relational.plan.times import date_column, moments
from buttress.relational.sources.columns import Column, make_column
from buttress.relational.sources.tables import frame_column, frame_names


@dataclass(frozen=True)
class Hop:
    """A step away from the label's table: ``columns`` are the pairs (of the parent, of the child) that are equal.

    The ``tie`` is of pairs of the label's table and the child that are equal too, where these close a circle.
    """

    parent: int
    child: int
    columns: tuple[tuple[str, str], ...]
    tie: "Hop | None" = None

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

    A path follows the pairs as they are declared, left or inner alike. Where pairs close a circle through the label's
    table, of the two tables beside that the one declared last is led to by the others, and tied to the entity's own
    row. Raises ValueError for a table that no pair leads to, for other circles, and for weights, which aggregates do
    not use.
    """
    edges: dict[frozenset[int], list[Pair]] = {}
    for pair in pairs:
        edges.setdefault(frozenset(pair.ends), []).append(pair)
    root, ties = join.root, {}
    for t in reversed(range(len(join.tables))):  # of two tables that could be tied, the one declared last is
        direct = frozenset((root, t))
        others = {ends: edge for ends, edge in edges.items() if ends != direct}
        if direct in edges and t in _paths(root, others):
            ties[t] = Hop(root, t, _columns(edges[direct], root))
            edges = others
    paths = _paths(root, edges)
    _check_tree(join, paths, ties, len(edges))
    for t, tie in ties.items():
        paths[t][-1] = replace(paths[t][-1], tie=tie)
    return {t: path for t, path in sorted(paths.items()) if t != root}


def _paths(root: int, edges: Mapping[frozenset[int], Sequence[Pair]]) -> dict[int, list[Hop]]:
    """Return the hops to each table that is led to, the fewest first."""
    paths: dict[int, list[Hop]] = {root: []}
    frontier = [root]
    while frontier:
        parent = frontier.pop(0)
        for child in [t for ends in edges if parent in ends for t in ends if t != parent and t not in paths]:
            paths[child] = [*paths[parent], Hop(parent, child, _columns(edges[frozenset((parent, child))], parent))]
            frontier.append(child)
    return paths


def _columns(edge: Sequence[Pair], parent: int) -> tuple[tuple[str, str], ...]:
    """Return the columns of pairs of two tables, those of the parent first."""
    return tuple((p.first[1], p.second[1]) if p.first[0] == parent else (p.second[1], p.first[1]) for p in edge)


def links(paths: Mapping[int, list[Hop]]) -> list[Hop]:
    """Return all hops and ties, each once."""
    return list(dict.fromkeys(link for path in paths.values() for hop in path for link in (hop, hop.tie) if link))


def many_to_many(paths: Mapping[int, list[Hop]], several: Callable[[Hop, int], bool]) -> list[int]:
    """Return the tables whose path leads to several rows, on to what these share with others, and to several again.

    Such as from a user to their ratings, the films of these, and all ratings of these films. ``several`` says whether a
    key of a hop has several rows in one of its tables.
    """
    several = cache(several)  # paths begin alike
    return [t for t, path in paths.items() if not path[-1].tie and _is_many_to_many(path, several)]


def _is_many_to_many(path: Sequence[Hop], several: Callable[[Hop, int], bool]) -> bool:
    led = shared = False
    for hop, after in pairwise(path):
        led = led or several(hop, hop.child)
        shared = shared or (led and several(after, after.parent))
        if shared and several(after, after.child):
            return True
    return False


def _check_tree(join: Join, paths: dict[int, list[Hop]], ties: Container[int], n_edges: int) -> None:
    names = [table.name for table in join.tables]
    alone = [names[t] for t in range(len(names)) if t not in paths]
    if alone:
        raise ValueError(f"Table {alone[0]!r} is not joined to {names[join.root]!r}. Add a pair of columns to on.")
    if n_edges > len(names) - 1:
        raise ValueError("EntityFeatures follows one path to each table, and pairs of this join form a circle that "
                         f"does not end at {join.tables[join.root].name!r}. Leave out the pairs between two of the "
                         "tables, or declare a table a second time under another name.")
    weighted = [table.name for table in join.tables if table.weights is not None]
    if weighted:
        raise ValueError(f"EntityFeatures counts every row once, and table {weighted[0]!r} has weights. Leave them "
                         "out.")
    for t, path in paths.items():
        beyond = next((hop.parent for hop in path if hop.parent in ties), None)
        if beyond is not None:
            raise ValueError(f"Table {names[beyond]!r} closes a circle of pairs, and nothing is joined to such a "
                             f"table. Declare it a second time, under another name, for {names[t]!r}.")


def root_keys(paths: Mapping[int, list[Hop]]) -> list[str]:
    """Return the columns of the label's table that paths begin with or are tied to, each once."""
    return list(dict.fromkeys(name for path in paths.values() for name in asked_keys(path)))


def asked_keys(path: Sequence[Hop]) -> list[str]:
    """Return the columns of the label's table by which rows at the end of a path belong to its rows."""
    return [*path[0].above, *(path[-1].tie.above if path[-1].tie else [])]


def asked_names(join: Join, paths: Mapping[int, list[Hop]]) -> list[str]:
    """Return the columns of the label's table that features are made from: keys, the date, features; each once."""
    return list(dict.fromkeys([*root_keys(paths), *date_column(join), *join.tables[join.root].features]))


def shared_columns(paths: Mapping[int, list[Hop]], t: int) -> dict[str, Hop]:
    """Return the columns by whose values rows of a table are compared with earlier rows, and the hop of each.

    Each is the only pair of a hop that leads on from the table, or to it where it is tied: there the label's row says
    which rows are its own, and the pair what these share with others.
    """
    return {(hop.above if hop.parent == t else hop.below)[0]: hop for path in paths.values() for hop in path
            if len(hop.columns) == 1 and (hop.parent == t or (hop.child == t and hop.tie))}


def features_along(
    join: Join, paths: Mapping[int, list[Hop]], words: Mapping[str, Sequence[str]],
    categories: Mapping[str, Sequence[str]], compared: Callable[[Hop, int], bool]
) -> list[Feature]:
    """Return the features that there may be, by the words for each table and the categories of columns of text.

    ``compared`` says of a hop and its table whether rows are compared with others of the same key.
    """
    tables, date = join.tables, date_column(join)
    root = tables[join.root]
    found = own_features(root.name, root.features, categories, words[root.name], date)
    for t, path in paths.items():
        table = tables[t]
        dated = bool(date) and any(tables[hop.child].time is not None for hop in path)
        beside = [by for by, hop in shared_columns(paths, t).items() if compared(hop, t)]
        found += features_of(table.name, table.features, categories, words[table.name], table.time is not None, dated,
                             beside)
    return found


def used(join: Join, paths: Mapping[int, list[Hop]], table: int) -> list[str]:
    """Return the columns of a table that its features and the paths use, each once."""
    keys = [name for hop in links(paths)
            for t, names in ((hop.parent, hop.above), (hop.child, hop.below)) if t == table for name in names]
    times = [join.tables[table].time, join.tables[table].order] if table != join.root else []
    return list(dict.fromkeys([*keys, *filter(None, times), *join.tables[table].features]))


def asked_columns(X: Any, table: str, names: Sequence[str]) -> dict[str, Column]:
    """Return the named columns of rows of the label's ``table``.

    ``X`` is a frame, whose columns are found by name (``column`` or ``table.column``), an array with the columns in
    the order of ``names``, of one dimension where there is one, or a dict of columns that were read. Raises ValueError
    for a column that is not there, and for rows of another shape.
    """
    if isinstance(X, Join):
        raise ValueError(f"EntityFeatures has its join already, and takes rows of its label's table {table!r}: a frame "
                         f"with the columns {', '.join(names)}. Got a Join.")
    there = frame_names(X)
    if isinstance(X, dict) and all(isinstance(column, Column) for column in X.values()):
        found = {name: X[name] for name in names}
    elif there:
        found = {name: frame_column(X, _name_in(there, table, name)) for name in names}
    else:
        values = np.asarray(X, dtype=getattr(X, "dtype", object))
        values = values[:, None] if values.ndim == 1 and len(names) == 1 else values
        if values.ndim != 2 or values.shape[1] != len(names):
            raise ValueError(f"Rows of table {table!r} have {len(names)} columns here: {', '.join(names)}. Got an "
                             f"array of shape {values.shape}. Use a frame with them, or an array in this order.")
        found = {name: make_column(values[:, j]) for j, name in enumerate(names)}
    n = len(next(iter(found.values())).null) if found else 0
    if not n:
        raise ValueError(f"Found array with 0 sample(s) (rows of table {table!r}) while a minimum of 1 is required.")
    return found


def check_kinds_kept(
    features: Sequence[Feature], texts: Container[str], columns: Mapping[str, Mapping[str, Column]]
) -> None:
    """Refuse numbers where training held text, and no numbers where it held these; all NULL may be either.

    ``texts`` are the columns of text in training, ``columns`` those of each table now.
    """
    for feature in features:
        for name in filter(None, (feature.column, feature.by if feature.read == feature.column else "")):
            full = f"{feature.table}.{name}"
            was, column = "text" if full in texts else "number", columns[feature.table][name]
            of_date = feature.word in WORDS and WORDS[feature.word].of == "date"
            if column.kind != was and not column.null.all() and not of_date:
                was, now = (f"{kind}s" if kind == "number" else kind for kind in (was, column.kind))
                raise ValueError(f"Feature {full} held {was} in training, and holds {now} now. Convert it.")


def _name_in(there: Sequence[str], table: str, name: str) -> str:
    for candidate in (name, f"{table}.{name}"):
        if there.count(candidate) > 1:
            raise ValueError(f"X has {there.count(candidate)} columns called {candidate!r}. Keep one.")
        if candidate in there:
            return candidate
    raise ValueError(f"X has no column {name!r} of table {table!r}.{near(name, there)} It has: {', '.join(there)}.")


def blocks(keys: Index, sizes: Array, largest: int) -> list[Index]:
    """Return the questions in blocks, those of one key together; ``sizes``, of their keys, come to ``largest`` a block.

    A block may have up to twice as much, and more where one key alone has.
    """
    order = np.argsort(keys, kind="stable")
    first = np.diff(keys[order], prepend=np.iinfo(np.int64).min) != 0
    block = np.cumsum(np.where(first, sizes[order], 0)) // largest
    starts = np.flatnonzero(np.diff(block) != 0) + 1
    return np.split(order, starts[first[starts]])


def check_keys(join: Join, paths: Mapping[int, list[Hop]], columns: Mapping[int, dict[str, Column]],
               magnitude: Callable[[int, str], float]) -> None:
    """Refuse pairs of keys that cannot be compared; ``columns`` are some of each table's, ``magnitude`` the largest."""
    held = [columns.get(t, {}) for t in range(len(join.tables))]
    for hop in links(paths):
        for above, below in hop.columns:
            pair = {hop.parent: [above], hop.child: [below]}
            check_kinds(join, pair, held)
            check_exact(join, pair, held, magnitude)


def order_of(join: Join, t: int, columns: Mapping[str, Column], magnitude: Callable[[int, str], float]) -> Array | None:
    """Return what orders a table's rows of the same time, as numbers, NULL before all else; None where nothing does.

    ``magnitude`` gives the largest one of a table's column of numbers. Raises ValueError for numbers beyond 2^53.
    """
    table = join.tables[t]
    if table.order is None:
        return None
    column = columns[table.order]
    found = moments(column, f"Order {table.name}.{table.order}")
    counts = column.values.dtype.kind in "iuf" and not column.null.all()
    most = magnitude(t, table.order) if counts else 0.0
    if most >= LARGEST_EXACT:
        raise ValueError(f"Order {table.name}.{table.order} holds {most:.17g}, and floats beyond 2^53 do not tell "
                         "neighbouring whole numbers apart. Use dates, or smaller numbers.")
    return np.where(column.null, -np.inf, found)


def ways(join: Join, paths: Mapping[int, list[Hop]]) -> dict[str, str]:
    """Return by which pairs, times and order the rows of each table are told; of the label's no name, which may change.
    """
    said = [f"{table.name}." for table in join.tables]
    found = {}
    for t, path in paths.items():
        pairs = [f"{said[link.child]}{below}" + ("" if link.parent == join.root else f" = {said[link.parent]}{above}")
                 for hop in path for link in (hop, hop.tie) if link
                 for above, below in sorted(link.columns, key=operator.itemgetter(1))]
        dated = [f"{what} {said[hop.child]}{column}" for hop in path for what in ("time", "order")
                 if (column := getattr(join.tables[hop.child], what)) is not None]
        found[join.tables[t].name] = ", ".join([*pairs, *dated])
    return found


def check_held(features: Sequence[Feature], were: Mapping[str, str], join: Join,
               paths: Mapping[int, list[Hop]]) -> None:
    """Refuse another join than in training: of other ``ways`` to a table, or without what features are of."""
    _check_columns(features, join, paths)
    for name, now in ways(join, paths).items():
        if now != were.get(name, now):
            raise ValueError(f"In training, rows of table {name!r} were told by {were[name]}, and this join tells them "
                             f"by {now}. Declare the pairs, times and order of training.")


def _check_columns(features: Sequence[Feature], join: Join, paths: Mapping[int, list[Hop]]) -> None:
    check_dated([feature.function for feature in features if feature.word in WORDS], join.date, True)
    held = {table.name: {"", *table.features} for table in join.tables}
    led_by = {table.name: set(shared_columns(paths, t)) if join.date and table.time else set()
              for t, table in enumerate(join.tables)}
    held[join.tables[join.root].name] |= set(date_column(join))
    for f in features:
        excess = f.read != f.column
        if f.column in held.get(f.table, set()) and f.by in (led_by if excess else held)[f.table]:
            continue
        names = ", ".join(repr(name) for name in ((f.column,) if excess else (f.column, f.by)) if name)
        more = (f" with {names} among its features" if names else "") + (
            f", with a time, and with a pair of the column {f.by!r}" if excess else "")
        raise ValueError(f"Feature {f.name!r} was learned in training, and this join has no table {f.table!r}{more}. "
                         "Declare both as in training.")
