"""A worst-case-optimal join of key columns: one attribute after the other, by the table with the fewest values for it.

Each relation is a trie: sorted by its attributes in the order of binding, it has a node for each distinct beginning of
its rows. A row of bound attributes is at one node of every trie. The next attribute's values are taken from the trie
with the fewest there and looked up in the others. The time is within a logarithm of the AGM bound, and beside the
result only some rows of each attribute are held.

Source: Ngo, Re & Rudra, Skew strikes back: new developments in the theory of join algorithms, SIGMOD Record 2013.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from buttress.relational.plan.plan import Index

Relation = Mapping[int, Index]  # attribute -> values of the rows, all >= 0
Trie = Mapping[int, Index]  # attribute -> for each node (its parent) * (values of the attribute) + value, ascending

BLOCK = 1 << 18  # rows of bound attributes that are made at a time, about


def order_of(relations: Sequence[Relation]) -> list[int]:
    """Return the attributes in an order of binding: each after those it shares most relations with."""
    left = sorted(set().union(*relations))
    order: list[int] = []
    while left:
        following = max(left, key=lambda a: (sum(a in r and not r.keys().isdisjoint(order) for r in relations),
                                             sum(a in r for r in relations), -a))
        order.append(following)
        left.remove(following)
    return order


def _trie(relation: Relation, order: Sequence[int], values: Mapping[int, Index]) -> Trie:
    own = [a for a in order if a in relation]
    rows = distinct_rows([np.searchsorted(values[a], relation[a]) for a in own])
    node = np.zeros(len(rows[0]), dtype=np.int64)
    trie = {}
    for a, column in zip(own, rows, strict=True):
        trie[a], node = np.unique(node * len(values[a]) + column, return_inverse=True)
    return trie


def _bound(tries: Sequence[Trie], order: Sequence[int], values: Mapping[int, Index], rows: list[Index],
           nodes: list[Index]) -> Iterator[list[Index]]:
    """Yield the rows of all attributes in blocks, from ``rows`` of the first ones, at ``nodes`` of each trie."""
    if len(rows) == len(order):
        yield rows
        return
    a = order[len(rows)]
    width = len(values[a])
    held = [r for r, trie in enumerate(tries) if a in trie]
    low, high = (np.array([np.searchsorted(tries[r][a], (nodes[r] + more) * width) for r in held]) for more in (0, 1))
    many = (high - low).min(axis=0)
    fewest = (high - low).argmin(axis=0)
    for piece in np.split(np.arange(len(many)), np.flatnonzero(np.diff(np.cumsum(many) // BLOCK)) + 1):
        at = np.repeat(piece, many[piece])
        child = np.arange(len(at)) - np.repeat(np.cumsum(many[piece]) - many[piece], many[piece])
        value = np.zeros(len(at), dtype=np.int64)
        for k, r in enumerate(held):
            mine = fewest[at] == k
            value[mine] = tries[r][a][low[k][at[mine]] + child[mine]] % width
        met = np.ones(len(at), dtype=bool)
        below = [node[at] for node in nodes]
        for r in held:
            key = below[r] * width + value
            below[r] = np.searchsorted(tries[r][a], key)
            met &= tries[r][a][np.minimum(below[r], len(tries[r][a]) - 1)] == key
        yield from _bound(tries, order, values, [*(row[at[met]] for row in rows), values[a][value[met]]],
                          [node[met] for node in below])


def distinct_rows(columns: Sequence[Index]) -> list[Index]:
    """Return the distinct rows of columns of equal length, sorted by the first, then the second, and so on."""
    order = np.lexsort(columns[::-1])
    ordered = [values[order].astype(np.int64) for values in columns]
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any([values[1:] != values[:-1] for values in ordered], axis=0)
    return [values[new] for values in ordered]


def join_keys(relations: Sequence[Relation], most: int) -> dict[int, Index]:
    """Return the distinct rows of the natural join of relations by attribute; where they are more than ``most``, some.

    >>> two = {0: np.array([1, 1, 2]), 1: np.array([5, 6, 5])}, {1: np.array([5, 7]), 2: np.array([8, 9])}
    >>> {a: values.tolist() for a, values in join_keys(two, 10).items()}
    {1: [5, 5], 0: [1, 2], 2: [8, 8]}
    """
    order = order_of(relations)
    values = {a: np.unique(np.concatenate([relation[a] for relation in relations if a in relation])) for a in order}
    tries = [_trie(relation, order, values) for relation in relations]
    found = []
    total = 0
    for rows in _bound(tries, order, values, [], [np.zeros(1, dtype=np.int64) for _ in tries]):
        found.append(rows)
        total += len(rows[0])
        if total > most:
            break
    return dict(zip(order, map(np.concatenate, zip(*found, strict=True)), strict=True))
