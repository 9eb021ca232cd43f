"""From the declaration to the plan: read, number the keys, find the tree, reduce, scale."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from buttress._checks import Array
from buttress.relational.checks import (
    check_classes,
    check_label,
    check_rows,
    check_total,
    used_columns,
)
from buttress.relational.declare import Join, Pair, key_columns
from buttress.relational.plan.features import table_data
from buttress.relational.plan.generic_join import distinct_rows
from buttress.relational.plan.keys import AttributeCodes, BagRows, bag_rows, combine, encode
from buttress.relational.plan.plan import Encoding, Index, Node, Plan, TableData, exact_counts, total_weight
from buttress.relational.plan.shape import Shape, attributes, find_shape
from buttress.relational.plan.times import is_of_dates, see, steps_to, times_of
from buttress.relational.sources.columns import Column
from buttress.relational.sources.databases import one_snapshot
from buttress.relational.sources.deadline import check_time
from buttress.relational.sources.tables import read_columns, row_count


def prepare(join: Join, *, intercept: bool = True, root: int | None = None, classes: Any = None,
            encoding: Encoding | None = None) -> Plan:
    """Read the join and return its plan. Raises ValueError for everything a user can get wrong in a join.

    ``root`` is the table whose rows are labelled, when it is not the one with the label; ``classes`` are the labels of
    a fitted model, of which the join need not hold both; ``encoding`` says how features become columns.
    """
    return prepare_with(join, (), intercept=intercept, root=root, classes=classes, encoding=encoding)[0]


def prepare_with(join: Join, wanted: Sequence[tuple[int, str]], *, intercept: bool = True, root: int | None = None,
                 classes: Any = None, encoding: Encoding | None = None) -> tuple[Plan, list[dict[str, Column]]]:
    """Return the plan and each table's columns, those ``wanted`` (place, name) too; the rest as in ``prepare``."""
    root = join.root if root is None else root
    with one_snapshot(join.connections):
        pairs = join.check()
        times = times_of(join, root)
        columns = [_read(join, i, pairs, [column for t, column in [*wanted, *times.items()] if t == i])
                   for i in range(len(join.tables))]
    base = [len(next(iter(column.values())).null) for column in columns]
    steps = steps_to(times, pairs, root)
    codes: list[AttributeCodes] = [{} for _ in join.tables]
    for a, attribute in enumerate(attributes([*pairs, *steps])):
        check_time()
        if not is_of_dates(attribute):
            for table, code in encode(join, attribute, columns).items():
                codes[table][a] = code
    shape = find_shape(join, [*pairs, *steps], root,
                       lambda: [np.log(max(len(distinct_rows(list(code.values()))[0]), 1)) for code in codes])
    notes, rows = _drop_null_keys(join, shape, codes, base)
    see(join, times, steps, shape.attributes, columns, codes, rows)
    nodes = _tree(join, shape, bag_rows(join, shape, codes, rows))
    counts = exact_counts(nodes)
    total = int(sum(counts[0].tolist()))
    check_rows(total, notes)
    tables = _tables(join, nodes, columns, root if intercept else -1, encoding or Encoding())
    y, found = _label(join, root, nodes[0], columns, tables, classes)
    plan = Plan(tables, nodes, y, found, root, notes, total, base, counts, optional=join.optional(pairs))
    if classes is None:  # a fitted model has a score of rows that weigh nothing, too
        check_total(total_weight(plan))
    return plan, columns


def _read(join: Join, i: int, pairs: Sequence[Pair], more: Sequence[str]) -> dict[str, Column]:
    """Return the columns of table ``i`` that the join uses, and ``more``; a column without a name if there are none."""
    table = join.tables[i]
    names = list(dict.fromkeys([*used_columns(table, key_columns(pairs, i)), *more]))
    if names:
        return read_columns(table.source, names)
    n = row_count(table.source)
    return {"": Column(np.zeros(n), np.zeros(n, dtype=bool), "number")}


def _drop_null_keys(
    join: Join, shape: Shape, codes: list[AttributeCodes], base: Sequence[int]
) -> tuple[list[str], list[Index]]:
    """Drop rows whose key is NULL, except in the table that a left join keeps; returns notes and the rows left."""
    notes = []
    rows = []
    for i, code in enumerate(codes):
        keep = np.ones(base[i], dtype=bool)
        for a, values in code.items():
            if (i, a) not in shape.kept:
                keep &= values >= 0
        if not keep.all():
            notes.append(f"{base[i] - int(keep.sum())} rows of {join.tables[i].name} have a NULL key and match nothing")
        rows.append(np.flatnonzero(keep))
        codes[i] = {a: values[keep] for a, values in code.items()}
    return notes, rows


def _tree(join: Join, shape: Shape, merged: Sequence[BagRows]) -> list[Node]:
    """Build the nodes in tree order, add the rows of left joins, and drop rows that take no part in the join."""
    place = {bag: i for i, bag in enumerate(shape.tree.order)}
    nodes = []
    codes = []
    for bag in shape.tree.order:
        here = merged[bag]
        n = len(next(iter(here.codes.values()), ()))
        nodes.append(Node([(t, rows.copy()) for t, rows in here.members.items()],
                          place.get(shape.tree.parent[bag], -1), np.zeros(0 if here.members else n, np.int64), 0,
                          bound=[_name(join, shape, a) for a in sorted(shape.bound[bag])]))
        codes.append(dict(here.codes))
    for i, bag in enumerate(shape.tree.order[1:], start=1):
        _link(nodes, codes, i, shape.edge(bag), bag in shape.optional)
    _reduce(nodes)
    _sort(nodes)
    return nodes


def _name(join: Join, shape: Shape, a: int) -> str:
    """Return the first column of an attribute, which stands for all of them."""
    table, names = next(iter(shape.attributes[a].items()))
    return f"{join.tables[table].name}.{names[0]}"


def _link(nodes: list[Node], codes: list[AttributeCodes], i: int, shared: list[int], optional: bool) -> None:
    """Set the keys of the edge from node i to its parent; an optional child gets a zero row per unmatched key."""
    p = nodes[i].parent
    n = nodes[i].n_rows
    key = combine([np.concatenate([codes[i][a], codes[p][a]]) for a in shared])
    up = key[n:]
    key = key[:n]
    if optional:
        dummy = np.setdiff1d(np.unique(up), key)
        absent = np.full(len(dummy), -1, dtype=np.int64)
        nodes[i].members = [(t, np.concatenate([r, absent])) for t, r in nodes[i].members]
        codes[i] = {a: np.concatenate([c, absent]) for a, c in codes[i].items()}
        key = np.concatenate([key, dummy])
        top = int(max(key.max(initial=0), up.max(initial=0))) + 1
        key = np.where(key < 0, top, key)
        up = np.where(up < 0, top, up)
    nodes[i].key = key
    nodes[p].down[i] = up


def _keep(node: Node, keep: Any) -> None:
    node.members = [(t, r[keep]) for t, r in node.members]
    node.down = {c: k[keep] for c, k in node.down.items()}
    node.key = node.key[keep] if len(node.key) else node.key


def _reduce(nodes: list[Node]) -> None:
    """Yannakakis' full reducer: semi-joins up the tree, then down."""
    for i in reversed(range(1, len(nodes))):
        parent = nodes[nodes[i].parent]
        _keep(parent, np.isin(parent.down[i], nodes[i].key[nodes[i].key >= 0]))
    for i in range(1, len(nodes)):
        _keep(nodes[i], np.isin(nodes[i].key, nodes[nodes[i].parent].down[i]))


def _sort(nodes: list[Node]) -> None:
    """Number the keys of each edge 0, 1, ... and sort the child's rows by them."""
    for i in range(1, len(nodes)):
        check_time()
        parent = nodes[nodes[i].parent]
        values = np.unique(nodes[i].key)
        nodes[i].n_keys = len(values)
        parent.down[i] = np.searchsorted(values, parent.down[i])
        nodes[i].key = np.searchsorted(values, nodes[i].key)
        below = list(nodes[i].down.values())[:1]  # rows that consult one list follow each other
        _keep(nodes[i], np.lexsort([*below, nodes[i].key]))


def _tables(join: Join, nodes: list[Node], columns: Any, root: int, encoding: Encoding) -> list[TableData]:
    """Build the features of the rows in use and point the nodes at them; row -1 becomes an all-zero row."""
    tables: list[Any] = [None] * len(join.tables)
    for node in nodes:
        check_time()
        for m, (t, rows) in enumerate(node.members):
            used, place = np.unique(rows, return_inverse=True)
            absent = len(used) > 0 and used[0] < 0
            tables[t] = table_data(join.tables[t], columns[t], used[1:] if absent else used, absent,
                                   t == root, encoding)
            if absent:  # the zero row stands last
                place = np.where(place == 0, len(used) - 1, place - 1)
            node.members[m] = (t, place.reshape(-1).astype(np.int64))
    return tables


def _label(
    join: Join, number: int, root: Node, columns: Any, tables: list[TableData], known: Any
) -> tuple[Array, Any]:
    """Return -1/+1 for the root's rows and the two classes; ones and None when the table has no label."""
    table = join.tables[number]
    place = next(rows for t, rows in root.members if t == number)
    if table.label is None:
        return np.ones(root.n_rows), None
    column = columns[number][table.label]
    rows = tables[number].rows
    check_label(table.name, table.label, int(column.null[rows].sum()))
    values = column.values[rows]
    values = values.astype(str) if values.dtype.kind == "O" else values
    found = np.unique(values)
    check_classes(table.name, table.label, found, known)
    classes = found if known is None else known
    return np.where(values == classes[1], 1.0, -1.0)[place], classes
