"""A worst-case-optimal join of key columns: leapfrog triejoin, compiled.

Attributes are bound one after the other. Each relation is sorted by its attributes in that order, so that the rows
that agree with the values bound so far are a range, and the values of the next attribute are ascending inside it. The
common values of the ranges are found by letting each leap to the largest value of the others. The time is within a
logarithm of the AGM bound, and nothing but the result is held.

Source: Veldhuizen, Leapfrog triejoin: a simple, worst-case optimal join algorithm, ICDT 2014.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numba
import numpy as np

from buttress._compiling import compile_kernel
from buttress.relational.plan.plan import Index

Relation = Mapping[int, Index]  # attribute -> values of the rows, all >= 0


@numba.njit(error_model="numpy")
def _leap(column: Index, low: int, high: int, value: int) -> int:
    """Return the first place in [low, high) of an ascending column that is not below a value, by galloping."""
    if low >= high or column[low] >= value:
        return low
    stride = 1
    while low + stride < high and column[low + stride] < value:
        low += stride
        stride *= 2
    high = min(high, low + stride)
    low += 1
    while low < high:
        middle = (low + high) // 2
        if column[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(error_model="numpy")
def _agree(columns: Index, column: Index, at: Index, end: Index, first: int, last: int) -> bool:
    """Move the places of levels first ... last - 1 to their next common value; returns whether there is one."""
    agreeing = 0
    k = first
    value = -1
    while agreeing < last - first:
        at[k] = _leap(columns[column[k] :], at[k], end[k], value)
        if at[k] >= end[k]:
            return False
        here = int(columns[column[k] + at[k]])
        agreeing = agreeing + 1 if here == value else 1
        value = here
        k = k + 1 if k + 1 < last else first
    return True


@compile_kernel("int64(" + 6 * "int64[::1], " + "int64, int64[:,::1])", makes_arrays=True)
def _triejoin(columns: Index, column: Index, size: Index, deeper: Index, first: Index, start: Index, most: int,
              out: Index) -> int:
    """Write the values of each attribute for at most ``most`` rows and return how many there are, at most most + 1.

    Level k is an attribute of a relation: its values begin at ``columns[column[k]]``; ``deeper[k]`` is the relation's
    next level, -1 for the last. Attribute d has the levels first[d] ... first[d + 1] - 1. ``start`` lists the levels
    that begin a relation, of ``size`` rows.
    """
    low = np.zeros(column.size, dtype=np.int64)
    high = np.zeros(column.size, dtype=np.int64)
    at = np.zeros(column.size, dtype=np.int64)
    high[start] = size
    last = first.size - 2
    bound = np.zeros(last + 1, dtype=np.int64)
    count = 0
    depth = 0
    while depth >= 0 and count <= most:
        if _agree(columns, column, at, high, first[depth], first[depth + 1]):
            value = int(columns[column[first[depth]] + at[first[depth]]])
            bound[depth] = value
            for k in range(first[depth], first[depth + 1]):
                if deeper[k] >= 0:
                    low[deeper[k]] = at[k]
                    high[deeper[k]] = _leap(columns[column[k] :], at[k], high[k], value + 1)
            if depth < last:
                depth += 1
                for k in range(first[depth], first[depth + 1]):
                    at[k] = low[k]
                continue
            if count < out.shape[1]:
                out[:, count] = bound
            count += 1
        else:
            depth -= 1
        for k in range(first[depth], first[depth + 1] if depth >= 0 else first[depth]):
            at[k] = high[deeper[k]] if deeper[k] >= 0 else at[k] + 1
    return count


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


def _levels(relations: Sequence[Relation], order: Sequence[int]) -> tuple[Index, ...]:
    """Return the arrays that ``_triejoin`` reads: the columns end to end, and its five arrays of levels."""
    place = {level: k for k, level in enumerate((a, r) for a in order for r, held in enumerate(relations) if a in held)}
    column = np.zeros(len(place), dtype=np.int64)
    deeper = np.full(len(place), -1, dtype=np.int64)
    parts: list[Index] = []
    start = []
    sizes = []
    for r, relation in enumerate(relations):
        own = [a for a in order if a in relation]
        rows = distinct_rows([relation[a] for a in own])
        for a, values in zip(own, rows, strict=True):
            column[place[a, r]] = sum(map(len, parts))
            parts.append(values)
        for above, below in pairwise(own):
            deeper[place[above, r]] = place[below, r]
        start.append(place[own[0], r])
        sizes.append(len(rows[0]))
    first = np.searchsorted([order.index(a) for a, _ in place], np.arange(len(order) + 1))
    return (np.concatenate(parts), column, np.array(sizes), deeper, first, np.array(start))


def distinct_rows(columns: Sequence[Index]) -> list[Index]:
    """Return the distinct rows of columns of equal length, sorted by the first, then the second, and so on."""
    order = np.lexsort(columns[::-1])
    ordered = [values[order].astype(np.int64) for values in columns]
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any([values[1:] != values[:-1] for values in ordered], axis=0)
    return [values[new] for values in ordered]


def join_keys(relations: Sequence[Relation], most: int) -> dict[int, Index] | None:
    """Return the distinct rows of the natural join of relations by attribute, or None if there are more than ``most``.

    Two passes: one counts, one writes, so that no more is held than the result and the sorted relations.

    >>> two = {0: np.array([1, 1, 2]), 1: np.array([5, 6, 5])}, {1: np.array([5, 7]), 2: np.array([8, 9])}
    >>> {a: values.tolist() for a, values in join_keys(two, 10).items()}
    {1: [5, 5], 0: [1, 2], 2: [8, 8]}
    """
    order = order_of(relations)
    levels = _levels(relations, order)
    total = int(_triejoin(*levels, most, np.zeros((len(order), 0), dtype=np.int64)))
    if total > most:
        return None
    found = np.empty((len(order), total), dtype=np.int64)
    _triejoin(*levels, most, found)
    return dict(zip(order, found, strict=True))
