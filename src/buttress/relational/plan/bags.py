"""The rows of each bag of a join tree: those of its one table, or the keys of a cycle joined worst-case optimally."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from buttress.relational.checks import check_bag
from buttress.relational.declare import Join
from buttress.relational.plan.keys import combine, match, match_count
from buttress.relational.plan.leapfrog import Relation, distinct_rows, join_keys
from buttress.relational.plan.plan import Index
from buttress.relational.plan.shape import Shape

Codes = dict[int, Index]  # attribute number -> codes of the rows


@dataclass
class BagRows:
    """The rows of a bag: the row of each of its tables, and the codes of its attributes."""

    members: dict[int, Index]
    codes: Codes


def bag_rows(join: Join, shape: Shape, codes: list[Codes], rows: list[Index]) -> list[BagRows]:
    """Return the rows of every bag; ``codes`` and ``rows`` are those of the tables, rows without a key left out.

    From the leaves of the tree up, so that the keys of a bag on a cycle are joined with what the bags below it found.
    """
    found: dict[int, BagRows] = {}
    for bag in reversed(shape.tree.order):
        tables = shape.bags[bag]
        if not shape.bound[bag]:
            found[bag] = BagRows({tables[0]: rows[tables[0]]}, dict(codes[tables[0]]))
            continue
        below = [{a: found[child].codes[a] for a in shape.edge(child)}
                 for child, parent in enumerate(shape.tree.parent) if parent == bag and shape.bound[child]]
        filters = [code for t, code in enumerate(codes) if t not in shape.right_tables]
        keys = _bound_keys(join, shape, bag, [*filters, *below])
        found[bag] = _with_tables(join, tables, keys, codes, rows)
    return [found[bag] for bag in range(len(shape.bags))]


def _bound_keys(join: Join, shape: Shape, bag: int, held: Sequence[Codes]) -> Codes:
    """Return the distinct keys of a bag: the join of what is ``held``, projected on its attributes."""
    bound = shape.bound[bag]
    relations: list[Relation] = [{a: values for a, values in part.items() if a in bound} for part in held]
    found = join_keys([_distinct(relation) for relation in relations if relation], join.max_bag_rows)
    if found is None:
        touched = sorted({t for a in bound for t in shape.attributes[a]})
        check_bag(join, touched, join.max_bag_rows + 1)
        raise AssertionError("more rows than max_bag_rows are refused")
    return found


def _distinct(relation: Relation) -> Relation:
    """Return the distinct rows of a relation, without those that have no key in one of its attributes."""
    whole = np.all([values >= 0 for values in relation.values()], axis=0)
    columns = distinct_rows([values[whole] for values in relation.values()])
    return dict(zip(relation, columns, strict=True))


def are_unique(codes: Codes, held: Iterable[int]) -> bool:
    """Return whether no two rows of a table agree in some attributes, rows without a key left out."""
    found = _distinct({a: codes[a] for a in held})
    whole = np.all([codes[a] >= 0 for a in found], axis=0)
    return len(next(iter(found.values()))) == int(whole.sum())


def _with_tables(join: Join, tables: Sequence[int], keys: Codes, codes: list[Codes], rows: list[Index]) -> BagRows:
    """Return the keys of a bag with the rows of its tables, whose other attributes join the codes."""
    members: dict[int, Index] = {}
    total = keys
    for t in tables:
        shared = sorted(codes[t].keys() & total.keys())
        n = len(next(iter(total.values())))
        both = combine([np.concatenate([total[a], codes[t][a]]) for a in shared])
        check_bag(join, tables, match_count(both[:n], both[n:]))
        first, second = match(both[:n], both[n:])
        members = {s: r[first] for s, r in members.items()} | {t: rows[t][second]}
        total = {a: code[first] for a, code in total.items()} | {a: code[second] for a, code in codes[t].items()}
    return BagRows(members, total)
