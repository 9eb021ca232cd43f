"""From the declaration to the plan: read, number the keys, find the tree, reduce, scale."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from buttress._checks import Array
from buttress.relational.declare import Join, Pair
from buttress.relational.features import table_data
from buttress.relational.keys import attributes, combine, encode, match, match_count
from buttress.relational.plan import Index, Node, Plan, TableData, exact_counts, total_weight
from buttress.relational.sources import Column, read_columns, row_count
from buttress.relational.tree import cheapest_bags, connected, edge_cover, spanning_tree

Codes = dict[int, Index]  # attribute number -> codes of the rows


def prepare(join: Join, *, intercept: bool = True, root: int | None = None, classes: Any = None) -> Plan:
    """Read the join and return its plan. Raises ValueError for everything a user can get wrong in a join.

    ``root`` is the table whose rows are labelled, when it is not the one with the label; ``classes`` are the labels of
    a fitted model, of which the join need not hold both.
    """
    root = join.root if root is None else root
    pairs = join.check()
    groups = attributes(pairs)
    columns = [_read(join, i, pairs) for i in range(len(join.tables))]
    codes: list[Codes] = [{} for _ in join.tables]
    for a, attribute in enumerate(groups):
        for table, code in encode(join, attribute, columns).items():
            codes[table][a] = code
    notes, rows = _drop_null_keys(join, pairs, groups, codes, columns)
    edges = [frozenset(code) for code in codes]
    _check_connected(join, edges)
    sizes = [_distinct(code) for code in codes]
    cover, bound = edge_cover(edges, [np.log(max(distinct, 1)) for distinct, _ in sizes])
    agm_log = bound + float(sum(np.log(max(most, 1)) for _, most in sizes))
    bags = _bags(join, edges, pairs, [np.log(max(len(r), 1)) for r in rows])
    merged = [_joined(join, bag, codes, rows) for bag in bags]
    nodes = _tree(join, root, bags, merged, pairs)
    counts = exact_counts(nodes)
    total = int(sum(counts[0].tolist()))
    if total == 0:
        raise ValueError("The join has no rows: no combination of rows has equal keys. Check the pairs in on"
                         + (f" ({'; '.join(notes)})." if notes else "."))
    tables = _tables(join, nodes, columns, root if intercept else -1)
    y, classes = _label(join, root, nodes[0], columns, tables, classes)
    base = [len(next(iter(column.values())).null) for column in columns]
    plan = Plan(tables, nodes, y, classes, root, notes, total, base, counts, agm_log, cover)
    if not total_weight(plan) > 0:
        raise ValueError("Every row of the join has weight zero, so there is nothing to fit. Check the weights.")
    return plan


def _read(join: Join, i: int, pairs: Sequence[Pair]) -> dict[str, Column]:
    table = join.tables[i]
    keys = [column for pair in pairs for t, column in (pair.first, pair.second) if t == i]
    names = list(dict.fromkeys([*table.features, *filter(None, (table.label, table.weights)), *keys]))
    if names:
        return read_columns(table.source, names)
    n = row_count(table.source)
    return {"": Column(np.zeros(n), np.zeros(n, dtype=bool), "number")}


def _drop_null_keys(
    join: Join, pairs: Sequence[Pair], groups: Any, codes: list[Codes], columns: Sequence[dict[str, Column]]
) -> tuple[list[str], list[Index]]:
    """Drop rows whose key is NULL, except in the table that a left join keeps; returns notes and the rows left."""
    notes, rows = [], []
    kept_side = {(pair.first[0], a) for pair in pairs if pair.left for a, group in enumerate(groups)
                 if pair.first[1] in group.get(pair.first[0], []) and pair.second[1] in group.get(pair.second[0], [])}
    for i, code in enumerate(codes):
        n = len(next(iter(columns[i].values())).null)
        keep = np.ones(n, dtype=bool)
        for a, values in code.items():
            if (i, a) not in kept_side:
                keep &= values >= 0
        if not keep.all():
            notes.append(f"{n - int(keep.sum())} rows of {join.tables[i].name} have a NULL key and match nothing")
        rows.append(np.flatnonzero(keep))
        codes[i] = {a: values[keep] for a, values in code.items()}
    return notes, rows


def _check_connected(join: Join, edges: Sequence[frozenset[int]]) -> None:
    reached = connected(edges)
    if len(reached) < len(edges):
        alone = next(i for i in range(len(edges)) if i not in reached)
        raise ValueError(f"Table {join.tables[alone].name!r} is not joined to {join.tables[0].name!r}, so every row "
                         "would meet every row. Add a pair of columns to on.")


def _distinct(codes: Codes) -> tuple[int, int]:
    """Return the number of distinct keys of a table and the most rows that share one."""
    if not codes:
        return 1, 1
    all_codes = combine([code + 1 for code in codes.values()])
    many = np.unique(all_codes, return_counts=True)[1]
    return len(many), int(many.max(initial=1))


def _bags(join: Join, edges: Any, pairs: Sequence[Pair], logs: Sequence[float]) -> list[list[int]]:
    if spanning_tree(edges) is not None:
        return [[i] for i in range(len(edges))]
    if any(pair.left for pair in pairs):
        raise ValueError("A cyclic join cannot hold left joins. Make them inner, or join the cycle beforehand.")
    bags = cheapest_bags(edges, logs)
    assert bags is not None, "one group of all tables always has an acyclic quotient"
    return bags


def _joined(join: Join, bag: list[int], codes: list[Codes], rows: list[Index]) -> tuple[dict[int, Index], Codes]:
    """Join the tables of a group by hashing; returns each table's rows and the codes of the rows."""
    members, total = {bag[0]: rows[bag[0]]}, dict(codes[bag[0]])
    left = bag[1:]
    while left:
        table = max(left, key=lambda t: len(codes[t].keys() & total.keys()))
        left.remove(table)
        shared = sorted(codes[table].keys() & total.keys())
        n = len(next(iter(total.values())))
        both = combine([np.concatenate([total[a], codes[table][a]]) for a in shared])
        size = match_count(both[:n], both[n:])
        if size > join.max_bag_rows:
            names = ", ".join(join.tables[t].name for t in bag)
            raise ValueError(f"The join is cyclic and its cycle ({names}) needs {size:.3g} rows joined beforehand, "
                             f"more than max_bag_rows={join.max_bag_rows}. Raise max_bag_rows or drop a pair from on.")
        first, second = match(both[:n], both[n:])
        members = {t: r[first] for t, r in members.items()} | {table: rows[table][second]}
        total = {a: code[first] for a, code in total.items()} | {a: code[second] for a, code in codes[table].items()}
    return members, total


def _tree(join: Join, top: int, bags: Any, merged: Any, pairs: Sequence[Pair]) -> list[Node]:
    """Build the nodes in tree order, add the rows of left joins, and drop rows that take no part in the join."""
    edges = [frozenset(a for a in codes if sum(a in other for _, other in merged) > 1) for _, codes in merged]
    root = next(i for i, bag in enumerate(bags) if top in bag)
    tree = spanning_tree(edges, root)
    assert tree is not None
    place = {bag: i for i, bag in enumerate(tree.order)}
    nodes, codes = [], []
    left = {pair.second[0]: pair.first[0] for pair in pairs if pair.left}
    for bag in tree.order:
        parent = tree.parent[bag]
        _check_left(join, left, bags, bag, parent)
        nodes.append(Node([(t, r.copy()) for t, r in merged[bag][0].items()], place.get(parent, -1),
                          np.zeros(0, np.int64), 0))
        codes.append(dict(merged[bag][1]))
    for i in range(1, len(nodes)):
        p = nodes[i].parent
        shared = sorted(edges[tree.order[i]] & edges[tree.order[p]])
        optional = len(bags[tree.order[i]]) == 1 and bags[tree.order[i]][0] in left
        _link(nodes, codes, i, shared, optional)
    _reduce(nodes)
    _sort(nodes)
    return nodes


def _check_left(join: Join, left: dict[int, int], bags: Any, bag: int, parent: int) -> None:
    for table in bags[bag]:
        if table in left and (parent < 0 or left[table] not in bags[parent]):
            kept = join.tables[left[table]].name
            raise ValueError(f"The left join of {kept!r} to {join.tables[table].name!r} must lead away from the table "
                             "with the label. Put the label's table on the left side, or make the join inner.")


def _link(nodes: list[Node], codes: list[Codes], i: int, shared: list[int], optional: bool) -> None:
    """Set the keys of the edge from node i to its parent; an optional child gets a zero row per unmatched key."""
    p, n = nodes[i].parent, nodes[i].n_rows
    key = combine([np.concatenate([codes[i][a], codes[p][a]]) for a in shared])
    key, up = key[:n], key[n:]
    if optional:
        dummy = np.setdiff1d(np.unique(up), key)
        absent = np.full(len(dummy), -1, dtype=np.int64)
        nodes[i].members = [(t, np.concatenate([r, absent])) for t, r in nodes[i].members]
        codes[i] = {a: np.concatenate([c, absent]) for a, c in codes[i].items()}
        key = np.concatenate([key, dummy])
        top = int(max(key.max(initial=0), up.max(initial=0))) + 1
        key, up = np.where(key < 0, top, key), np.where(up < 0, top, up)
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
        parent = nodes[nodes[i].parent]
        values = np.unique(nodes[i].key)
        nodes[i].n_keys = len(values)
        parent.down[i] = np.searchsorted(values, parent.down[i])
        nodes[i].key = np.searchsorted(values, nodes[i].key)
        _keep(nodes[i], np.argsort(nodes[i].key, kind="stable"))


def _tables(join: Join, nodes: list[Node], columns: Any, root: int) -> list[TableData]:
    """Build the features of the rows in use and point the nodes at them; row -1 becomes an all-zero row."""
    tables: list[Any] = [None] * len(join.tables)
    for node in nodes:
        for m, (t, rows) in enumerate(node.members):
            used, place = np.unique(rows, return_inverse=True)
            absent = len(used) > 0 and used[0] < 0
            tables[t] = table_data(join.tables[t], columns[t], used[1:] if absent else used, absent,
                                   t == root)
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
    gone = int(column.null[rows].sum())
    if gone:
        raise ValueError(f"Label {table.name}.{table.label} is NULL or NaN in {gone} rows. Drop those rows.")
    values = column.values[rows]
    values = values.astype(str) if values.dtype.kind == "O" else values
    classes = np.unique(values) if known is None else known
    strange = np.setdiff1d(values, classes)
    if len(classes) != 2 or len(strange):
        got = np.unique(values)
        raise ValueError(f"Label {table.name}.{table.label} must have two classes among the rows that join"
                         f"{'' if known is None else f', {known[0]} and {known[1]}'}. "
                         f"Got {len(got)}: {', '.join(map(str, got[:5].tolist()))}.")
    return np.where(values == classes[1], 1.0, -1.0)[place], classes
