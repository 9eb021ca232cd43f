"""Questions about the rows of a join: how many, how much, the least under one additive inequality; and means.

The first are answered by lists, of the scores that occur among the rows below the root and what these rows add up to.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from buttress._checks import Array
from buttress.relational.counting.lists import (
    COUNTING,
    ScoredEntries,
    Semiring,
    TooManyEntriesError,
    extend,
    merge,
    times,
)
from buttress.relational.counting.schedule import Block, MinkowskiSum, node_scores, schedule
from buttress.relational.plan.plan import Index, Plan, count_rows, total_weight

ROUNDING = 1e-12  # relative: a weight this near to (1 + error)^k has reached it


@dataclass(frozen=True)
class Answer:
    """What a query over a join is.

    ``value`` is exact where ``sure`` and ``possible`` are equal. Otherwise each row's score was rounded by at most
    ``score_error``: ``sure`` is the query over rows that satisfy the inequality for certain, ``possible`` over those
    that may; or, with ``eps``, the query lies between the two.
    """

    value: Any
    sure: Any
    possible: Any
    score_error: float


def root_list(plan: Plan, scores: list[Array], semiring: Semiring, annotations: list[Array]) -> ScoredEntries:
    """Return one list: every score of the join's rows with the sum of its annotations.

    ``scores`` holds each node's rows' shares of the score, ``annotations`` arrays (n_rows, 1).
    Raises TooManyEntriesError when the scores that occur are too many to list.
    """
    root, made = _lists_below(plan, scores, semiring, annotations)
    return _list_of(root, made, scores, semiring, annotations, np.zeros(plan.nodes[0].n_rows, np.int64), 1)


def below(plan: Plan, scores: list[Array], semiring: Semiring, annotations: list[Array], most: float,
          eps: float | None = None) -> Answer:
    """Return the sum of the annotations of the join's rows whose score is at most ``most``.

    It is exact where the scores below the root can be listed. Else scores are rounded to the finest grid that fits; or,
    with ``eps``, of weights of at least 0, it lies between the least and 1 + eps times as much.
    """
    with suppress(TooManyEntriesError):
        value, = _totals(plan, scores, semiring, annotations, [most])
        return Answer(value, value, value, 0.0)
    if eps is not None:
        return _within(eps, plan, scores, semiring, annotations, most)
    spread = sum(float(np.ptp(score)) for score in scores)
    for bins in (1 << 14, 1 << 11, 1 << 8, 1 << 5):  # steps, tried until the lists fit in memory
        step = spread / bins or 1.0
        rounded = [np.floor(score / step + 0.5) for score in scores]
        error = sum(float(np.abs(score - step * q).max(initial=0)) for score, q in zip(scores, rounded)) * (1 + 1e-9)
        with suppress(TooManyEntriesError):
            limits = [limit / step for limit in (most, most - error, most + error)]
            value, sure, possible = _totals(plan, rounded, semiring, annotations, limits)
            return Answer(value, sure, possible, error)
    raise TooManyEntriesError("The join's lists do not fit even on a grid of 32 steps. Sample rows instead.")


def _within(eps: float, plan: Plan, scores: list[Array], semiring: Semiring, annotations: list[Array],
            most: float) -> Answer:
    """Return a sum of sketches and 1 + eps times as much, a hundredth being left for rounding."""
    try:
        found, = _totals(plan, scores, semiring, annotations, [most], 0.99 * eps)
    except TooManyEntriesError as error:
        raise MemoryError(f"{error} Raise eps (now {eps:g}), or leave it out.") from None
    least = found * (1 - 1e-7)  # sums of lists along a tree are rounded by less
    return Answer(least, least, least * (1 + eps), 0.0)


def _totals(plan: Plan, scores: list[Array], semiring: Semiring, annotations: list[Array], limits: Sequence[float],
            eps: float = 0.0) -> list[Any]:
    """Return for each limit the sum of the annotations of the join's rows whose score is at most that.

    The root's scores are not listed: each of its rows meets the first entries of its list, whose sums are known.
    Raises TooManyEntriesError when the scores below the root are too many to list. Of weights, of at least 0, what is
    returned is at most the sum, and with ``eps`` times 1 + eps at least.
    """
    root, made = _lists_below(plan, scores, semiring, annotations, eps)
    node = root.parts[0][0]
    score = scores[node]
    if not root.lists:
        return [_total(semiring, annotations[node][score <= most]) for most in limits]
    op, key = root.lists[0]
    lists = made[op]
    begin = np.concatenate([[0], lists.end[:-1]])
    sums = lists.value.copy()
    for first, last in zip(begin.tolist(), lists.end.tolist()):
        if last > first + 1:
            sums[first:last] = semiring.add.accumulate(lists.value[first:last], axis=0)
    totals = []
    for most in limits:
        place = _first_above(score, lists.score, begin[key], lists.end[key], most)
        found = np.flatnonzero(place > begin[key])
        totals.append(_total(semiring, semiring.multiply(annotations[node][found], sums[place[found] - 1])))
    return totals


def _total(semiring: Semiring, terms: Array) -> Any:
    """Return what annotations (n, 1) add up to."""
    if not len(terms):
        return semiring.zero
    total = semiring.add.reduce(terms, axis=0)[0]
    return float(total) if terms.dtype == np.float64 else total


def _first_above(score: Array, entries: Array, begin: Index, end: Index, most: float) -> Index:
    """Return for each row the first place in begin..end, where entries ascend, whose sum with its score exceeds most.

    By halves, and by the sums themselves: a difference would round otherwise.
    """
    low, high = begin, end
    while (low < high).any():
        middle = (low + high) // 2
        within = (low < high) & (score + entries[np.minimum(middle, len(entries) - 1)] <= most)
        low, high = np.where(within, middle + 1, low), np.where(within, high, np.maximum(middle, low))
    return low


def _lists_below(plan: Plan, scores: list[Array], semiring: Semiring, annotations: list[Array],
                 eps: float = 0.0) -> tuple[Block, list[ScoredEntries]]:
    """Return the block of the root's rows, and the lists of all operations before it, sketched for ``eps`` > 0."""
    operations, root = schedule(plan, fold=False)
    made: list[ScoredEntries] = []
    error = stage_error(eps, len(operations))
    for operation in operations:
        if isinstance(operation, MinkowskiSum):
            found = times(semiring, made[operation.left], made[operation.right], operation.keys)
        else:
            node = plan.nodes[operation.parts[0][0]]
            found = _list_of(operation, made, scores, semiring, annotations, node.key, node.n_keys)
        made.append(_sketched(semiring, found, error) if eps else found)
    return root, made


def stage_error(error: float, stages: int) -> float:
    """Return the error of each of so many sketches whose factors together stay within 1 + error."""
    return float(np.expm1(np.log1p(error) / max(stages, 1)))


def group_entries(list_of: Index, n_lists: int, high: Array, mass: Array, error: float) -> tuple[Index, Index]:
    """Return the order that sorts entries by list and score, and the group of each sorted entry.

    Entries with equal floor(log(count before) / log(1 + error)) share a group; the first of a list stands alone. What
    is before an entry is added up list by list: the sums of other lists would round small ones away.
    """
    order = np.lexsort((high, list_of))
    owner = list_of[order]
    mass = mass[order]
    first = np.searchsorted(owner, np.arange(n_lists))
    end = np.searchsorted(owner, np.arange(n_lists), side="right")
    split = np.ones(len(owner), dtype=bool)
    # a shorter list is kept as it is, not grouped
    for begin, last in zip(*(place[end - first > 32].tolist() for place in (first, end))):
        before = np.cumsum(mass[begin:last - 1])
        with np.errstate(divide="ignore"):
            level = np.floor(np.log(before) / np.log1p(error))
        split[begin + 2:last] = (level[1:] != level[:-1]) | (before[1:] <= 0)
    return order, np.cumsum(split) - 1


def _sketched(semiring: Semiring, lists: ScoredEntries, error: float) -> ScoredEntries:
    """Return lists whose sums up to any score are lower, by a factor of at most 1 + error."""
    owner = np.repeat(np.arange(len(lists.end)), np.diff(lists.end, prepend=0))
    _, group = group_entries(owner, len(lists.end), lists.score, lists.value[:, 0], error)
    last = np.flatnonzero(np.diff(group, append=-1))
    first = np.concatenate([[0], last[:-1] + 1])
    end = np.searchsorted(owner[last], np.arange(len(lists.end)), side="right")
    return ScoredEntries(end, lists.score[last], semiring.add.reduceat(lists.value, first, axis=0))


def _list_of(block: Block, made: list[ScoredEntries], scores: list[Array], semiring: Semiring, annotations: list[Array],
             group: Index, n_groups: int) -> ScoredEntries:
    """Return the lists of the rows of a block, by their ``group``."""
    node = block.parts[0][0]
    score, value = scores[node], annotations[node]
    if block.lists:
        op, key = block.lists[0]
        row, score, value = extend(semiring, score, value, key, made[op])
        group = group[row]
    return merge(semiring, group, n_groups, score, value)


def thresholds(value: Array, mass: Array, error: float) -> tuple[Array, Array]:
    """Return the thresholds H_0 >= H_1 >= ..., and the weights (1 + error)^k they stand for.

    H_k is the largest H such that the rows with a value of at least H weigh at least (1 + error)^k. The sum of the
    positive values is the integral over h > 0 of the weight of the rows with a value of at least h. Between H_{k+1} and
    H_k that weight lies in [(1 + error)^k, (1 + error)^(k+1)), which gives equation 6 and Lemma 9 of Abo-Khamis, Im,
    Moseley, Pruhs & Samadian (APOCS 2021). The paper asks H_k for floor((1 + error)^k) rows only, but counts
    (1 + error)^k of them: its F-hat can be almost twice F. Here neither is rounded down, so both sides of Lemma 9 hold,
    also for weights.

    ``value`` and ``mass`` have shape (n,).
    """
    keep = mass > 0
    order = np.argsort(-value[keep], kind="stable")
    if not len(order):
        return np.zeros(0), np.zeros(0)
    descending = value[keep][order]
    reached = np.cumsum(mass[keep][order])
    top = int(np.floor(np.log(reached[-1] * (1 + ROUNDING)) / np.log1p(error)))
    weight: Array = (1.0 + error) ** np.arange(max(top, 0) + 1, dtype=np.float64)
    first = np.searchsorted(reached, weight * (1 - ROUNDING))
    return descending[np.minimum(first, len(reached) - 1)], weight


def accuracy_interval(plan: Plan, beta: Array) -> tuple[float, float]:
    """Return two numbers between which the share of the rows' weight lies that is classified correctly.

    A row of label +1 is correct when its score is > 0, one of label -1 when it is <= 0.
    """
    root, *others = [weight[:, None] for weight in plan.weights()]
    wrong = np.zeros(2)
    for label, most in ((1.0, 0.0), (-1.0, np.nextafter(0.0, -1.0))):
        scores = [label * score for score in node_scores(plan, beta)]
        found = below(plan, scores, COUNTING, [root * (plan.y == label)[:, None], *others], most)
        wrong += found.sure, found.possible
    high, low = np.maximum(1 - wrong / total_weight(plan), 0.0).tolist()
    return low, high


def mean_scores(plan: Plan, beta: Array) -> Array:
    """Return for each row of the root the mean score of the join rows that extend it."""
    counts = count_rows(plan.nodes, plan.weights())
    return np.sum([_at_root(plan, i, score, counts) for i, score in enumerate(node_scores(plan, beta))], axis=0)


def label_means(plan: Plan) -> tuple[Array, Array, Array]:
    """Return a row for each row of the label's table that takes part in the join.

    Returns the mean scaled features of its join rows (n, plan.width), its label -1/+1, and their total weight.

    A score is linear in the features, so the mean score of an entity's join rows is the score of their mean features.
    These are found by one pass up the tree per table, a row a key at a time.
    """
    counts = count_rows(plan.nodes, plan.weights())
    place = next(rows for t, rows in plan.nodes[0].members if t == plan.label_table)
    entity, place = np.unique(place, return_inverse=True)
    blocks: list[Any] = [None] * len(plan.tables)
    for i, node in enumerate(plan.nodes):
        for t, rows in node.members:
            means = _means(_at_root(plan, i, plan.tables[t].X[rows], counts), place, counts[0], len(entity))
            blocks[t] = means.toarray() if sparse.issparse(means) else means
    y = np.zeros(len(entity))
    y[place] = plan.y
    weight: Array = np.bincount(place, counts[0].astype(np.float64), len(entity)).astype(np.float64)
    return np.hstack(blocks), y, weight


def _at_root(plan: Plan, i: int, values: Any, counts: list[Any]) -> Any:
    """Return for each row of the root the mean of the values of a node's rows over the join rows that extend it."""
    while i > 0:
        node = plan.nodes[i]
        values = _means(values, node.key, counts[i], node.n_keys)[plan.nodes[node.parent].down[i]]
        i = node.parent
    return values


def _means(values: Any, group: Index, weight: Array, n_groups: int) -> Any:
    """Return the weighted mean of rows of each group, 0 where all weights are."""
    weight = weight.astype(np.float64)
    mass = np.bincount(group, weight, n_groups)
    share = np.divide(weight, mass[group], out=np.zeros(len(weight)), where=mass[group] > 0)
    return sparse.csr_array((share, (group, np.arange(len(group)))), shape=(n_groups, len(group))) @ values
