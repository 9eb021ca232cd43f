"""Keys as numbers, one dictionary per join attribute, shared by every table that holds it, and the rows of each bag.

The rows of a bag are those of its one table, or the keys of a cycle joined worst-case optimally.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.relational.checks import check_bag
from buttress.relational.declare import Join
from buttress.relational.plan.generic_join import Relation, distinct_rows, join_keys
from buttress.relational.plan.plan import Index
from buttress.relational.plan.shape import KeyNames, Shape
from buttress.relational.sources.columns import Column

LARGEST_EXACT = 2.0**53  # below which every whole number is a 64-bit float, and no other is rounded to it


def encode(join: Join, attribute: KeyNames, columns: Sequence[dict[str, Column]]) -> dict[int, Index]:
    """Return for each table of an attribute its rows' codes, -1 where a key is NULL (or a table's own columns differ).

    Raises ValueError when the columns are of different kinds.
    """
    check_kinds(join, attribute, columns)
    check_exact(join, attribute, columns, lambda table, name: largest(columns[table][name]))
    places = columns_of(attribute)
    codes = codes_of([columns[table][name] for table, name in places])
    result: dict[int, Index] = {}
    for (table, _), code in zip(places, codes):
        before = result.get(table)
        result[table] = code if before is None else np.where(before == code, code, -1)
    return result


def columns_of(attribute: KeyNames) -> list[tuple[int, str]]:
    """Return the (table, column) of an attribute."""
    return [(table, name) for table, names in attribute.items() for name in names]


def check_kinds(join: Join, attribute: KeyNames, columns: Sequence[dict[str, Column]]) -> None:
    """Raise ValueError when the columns of one attribute hold different kinds of values."""
    parts = {(table, name): columns[table][name] for table, name in columns_of(attribute)}
    kinds = {place: _kind(part) for place, part in parts.items()}
    if len({kinds[place] for place, part in parts.items() if not part.null.all()}) > 1:
        listed = ", ".join(f"{join.tables[table].name}.{name} ({kind})" for (table, name), kind in kinds.items())
        raise ValueError(f"Keys that join must be of one type. Got {listed}. Convert one of them.")
    if "nested" in kinds.values():
        table, name = next(place for place, kind in kinds.items() if kind == "nested")
        raise ValueError(f"Key {join.tables[table].name}.{name} holds arrays, structures or bytes, which are no keys. "
                         "Join on columns of single values.")


def _kind(column: Column) -> str:
    if column.values.dtype.kind == "b":
        return "truth value"
    return f"{column.kind} with a time zone" if column.zoned else column.kind


def check_exact(join: Join, attribute: KeyNames, columns: Sequence[dict[str, Column]],
                magnitude: Callable[[int, str], float]) -> None:
    """Refuse keys of which one is held as floats and one is beyond 2^53: databases and this process round differently.

    So do they decimals of many digits.

    ``magnitude`` gives the largest one of a table's column.
    """
    places = columns_of(attribute)
    held = {place: columns[place[0]][place[1]].values.dtype.kind for place in places
            if not columns[place[0]][place[1]].null.all()}
    if "f" not in held.values():
        return
    for table, name in held:
        most = magnitude(table, name)
        if most >= LARGEST_EXACT:
            raise ValueError(f"Key {join.tables[table].name}.{name} holds {most:.17g}, and floats beyond 2^53 do "
                             "not tell neighbouring whole numbers apart. Make all columns of the key BIGINT, or text.")
        if columns[table][name].rounded:
            raise ValueError(f"Key {join.tables[table].name}.{name} holds decimals of more digits than floats tell "
                             "apart. Round all columns of the key alike, or make them text.")


def largest(column: Column) -> float:
    """Return the largest magnitude of a column of numbers."""
    return float(np.abs(column.values[~column.null].astype(np.float64)).max(initial=0.0))


def codes_of(parts: Sequence[Column]) -> list[Index]:
    """Return the values of columns as numbers, one for equal values in any of them, and -1 where NULL."""
    kept = [part.values[~part.null] for part in parts]
    if any(values.dtype.kind in "OUST" for values in kept):
        seen: dict[Any, int] = {}
        numbered = [np.fromiter((seen.setdefault(v, len(seen)) for v in values.tolist()), np.int64, len(values))
                    for values in kept]
    else:
        everything = _one_type([values for values in kept if len(values)] or kept[:1])  # all NULL has no type
        flat = np.unique(everything, return_inverse=True)[1].reshape(-1)
        numbered = np.split(flat, np.cumsum([len(values) for values in kept])[:-1])
    out = []
    for part, code in zip(parts, numbered):
        full = np.full(len(part.values), -1, dtype=np.int64)
        full[~part.null] = code
        out.append(full)
    return out


def _one_type(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate number arrays without losing digits of integers; beside floats none is beyond 2^53."""
    if {values.dtype.kind for values in parts} == {"i", "u"}:
        parts = [values.astype(np.int64) if (values < 2**63).all() else values for values in parts]
        if any(values.dtype.kind == "u" for values in parts):  # NumPy's common type would be a float
            parts = [values.astype(object) for values in parts]
    return np.concatenate(parts)


def combine(codes: Sequence[Index]) -> Index:
    """Number the distinct rows of several code columns; a row with any -1 is -1."""
    null = np.any([code < 0 for code in codes], axis=0)
    total = codes[0]
    for code in codes[1:]:
        pairs = total.astype(np.int64) * (int(code.max(initial=0)) + 1) + code
        total = np.unique(pairs, return_inverse=True)[1].reshape(-1)
    return np.where(null, -1, total)


def match(left: Index, right: Index) -> tuple[Index, Index]:
    """Return all pairs (row of left, row of right) whose codes are equal and not -1."""
    order = np.argsort(right, kind="stable")
    low, high = (np.searchsorted(right, left, side=side, sorter=order) for side in ("left", "right"))
    many = np.where(left < 0, 0, high - low)
    first = np.repeat(np.arange(len(left)), many)
    offset = np.arange(len(first)) - np.repeat(np.cumsum(many) - many, many)
    return first, order[np.repeat(low, many) + offset]


def counted(sizes: Array, above: Index, below: Index) -> Array:
    """Return for each row of one table, of key ``above``, the sum of ``sizes`` of another's rows of that key ``below``.
    """
    there = below >= 0  # the last of the groups, of key -1, has no rows
    many = np.bincount(below[there], sizes[there], int(max(above.max(initial=0), below.max(initial=0))) + 2)
    return np.asarray(many[above], dtype=np.float64)


AttributeCodes = dict[int, Index]  # attribute number -> codes of the rows


@dataclass
class BagRows:
    """The rows of a bag: the row of each of its tables, and the codes of its attributes."""

    members: dict[int, Index]
    codes: AttributeCodes


def bag_rows(join: Join, shape: Shape, codes: list[AttributeCodes], rows: list[Index]) -> list[BagRows]:
    """Return the rows of every bag; ``codes`` and ``rows`` are those of the tables, rows without a key left out.

    From the leaves of the tree up, so that the keys of a bag on a cycle are joined with what the bags below it found.
    """
    found: dict[int, BagRows] = {}
    for bag in reversed(shape.tree.order):
        tables = shape.bags[bag]
        if not shape.bound[bag]:
            found[bag] = BagRows({tables[0]: rows[tables[0]]}, dict(codes[tables[0]]))
        else:
            below = [{a: found[child].codes[a] for a in shape.edge(child)}
                     for child, parent in enumerate(shape.tree.parent) if parent == bag and shape.bound[child]]
            filters = [code for t, code in enumerate(codes) if t not in shape.right_tables]
            keys = _bound_keys(join, shape, bag, [*filters, *below])
            found[bag] = _with_tables(join, tables, keys, codes, rows)
    return [found[bag] for bag in range(len(shape.bags))]


def _bound_keys(join: Join, shape: Shape, bag: int, held: Sequence[AttributeCodes]) -> AttributeCodes:
    """Return the distinct keys of a bag: the join of what is ``held``, projected on its attributes."""
    bound = shape.bound[bag]
    relations: list[Relation] = [{a: values for a, values in part.items() if a in bound} for part in held]
    found = join_keys([_distinct(relation) for relation in relations if relation], join.max_bag_rows)
    touched = sorted({t for a in bound for t in shape.attributes[a]})
    check_bag(join, touched, len(next(iter(found.values()))))
    return found


def _distinct(relation: Relation) -> Relation:
    """Return the distinct rows of a relation, without those that have no key in one of its attributes."""
    whole = np.all([values >= 0 for values in relation.values()], axis=0)
    columns = distinct_rows([values[whole] for values in relation.values()])
    return dict(zip(relation, columns, strict=True))


def _with_tables(
    join: Join, tables: Sequence[int], keys: AttributeCodes, codes: list[AttributeCodes], rows: list[Index]
) -> BagRows:
    """Return the keys of a bag with the rows of its tables, whose other attributes join the codes."""
    members: dict[int, Index] = {}
    total = keys
    for t in tables:
        shared = sorted(codes[t].keys() & total.keys())
        n = len(next(iter(total.values())))
        both = combine([np.concatenate([total[a], codes[t][a]]) for a in shared])
        check_bag(join, tables, int(counted(np.ones(len(both) - n), both[:n], both[n:]).sum()))
        first, second = match(both[:n], both[n:])
        members = {s: r[first] for s, r in members.items()} | {t: rows[t][second]}
        total = {a: code[first] for a, code in total.items()} | {a: code[second] for a, code in codes[t].items()}
    return BagRows(members, total)
