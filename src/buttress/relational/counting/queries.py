"""Questions about the rows of a join under one additive inequality on their score: how many, how much, the least.

One evaluator serves them all: ``root_lists`` gives, per label, the scores that occur among the join's rows and the
annotations of the rows with each score.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from buttress._checks import Array
from buttress.relational.counting.schedule import Product, node_scores, schedule
from buttress.relational.counting.semiring import (
    COUNTING,
    Entries,
    Semiring,
    TooManyEntriesError,
    extend,
    merge,
    times,
)
from buttress.relational.plan.plan import Plan, count_rows, group_sums

EXACT_SCORE = 1e-12  # how far the scores of lists that were not rounded to a grid may be off: rounding of their sums
GRIDS = (1 << 14, 1 << 11, 1 << 8, 1 << 5)  # steps of the grids tried in turn, until the lists fit in memory


@dataclass(frozen=True)
class Interval:
    """A number known to lie in [low, high]; ``value`` is the middle."""

    low: float
    high: float

    @property
    def value(self) -> float:
        return (self.low + self.high) / 2


def root_lists(plan: Plan, scores: list[Array], semiring: Semiring, annotations: list[Array]) -> Entries:
    """Return the lists of the labels -1 and +1: every score of the join's rows with the sum of its annotations.

    ``scores`` holds each node's rows' shares of the score, ``annotations`` arrays (n_rows, semiring.width).
    Raises TooManyEntriesError when the scores that occur are too many to list.
    """
    work = schedule(plan, root_lists=1, fold=False)
    made: list[Entries] = []
    for number, operation in enumerate(work.operations):
        if isinstance(operation, Product):
            made.append(times(semiring, made[operation.left], made[operation.right], operation.keys))
            continue
        node = operation.parts[0][0]
        score = scores[node]
        value = annotations[node]
        last = number == len(work.operations) - 1
        group = (plan.y > 0).astype(np.int64) if last else plan.nodes[node].key
        n_groups = 2 if last else plan.nodes[node].n_keys
        if operation.lists:
            op, key = operation.lists[0]
            row, score, value = extend(semiring, score, value, key, made[op])
            group = group[row]
        made.append(merge(semiring, group, n_groups, score, value))
    return made[-1]


def lists_or_grid(
    plan: Plan, scores: list[Array], semiring: Semiring, annotations: list[Array]
) -> tuple[Entries, float]:
    """Return ``root_lists``, exact or on the finest grid that fits, and how far scores may be off."""
    try:
        return root_lists(plan, scores, semiring, annotations), EXACT_SCORE
    except TooManyEntriesError:
        spread = sum(float(np.ptp(score)) for score in scores)
    for bins in GRIDS:
        step = spread / bins or 1.0
        rounded = [np.floor(score / step + 0.5) for score in scores]
        error = sum(float(np.abs(score - step * q).max(initial=0)) for score, q in zip(scores, rounded))
        try:
            entries = root_lists(plan, rounded, semiring, annotations)
        except TooManyEntriesError:
            continue
        return Entries(entries.end, step * entries.score, entries.value), error
    raise TooManyEntriesError("The join's lists do not fit even on a grid of 32 steps. Sample rows instead.")


def class_accuracy(plan: Plan, beta: Array) -> dict[int, tuple[Interval, float]]:
    """Return per label (-1, +1) the weight of the rows classified correctly, and the weight of all its rows.

    A row of label +1 is correct when its score is > 0, one of label -1 when it is <= 0.
    """
    entries, error = lists_or_grid(plan, node_scores(plan, beta), COUNTING,
                                   [weight[:, None] for weight in plan.weights()])
    result = {}
    for label, (first, last) in zip((-1, 1), ((0, entries.end[0]), (entries.end[0], entries.end[1]))):
        score = entries.score[first:last]
        weight = entries.value[first:last, 0]
        right = score > 0 if label > 0 else score <= 0
        unsure = (np.abs(score) <= error) & (error > EXACT_SCORE)
        low = float(weight[right & ~unsure].sum())
        result[label] = (Interval(low, low + float(weight[unsure].sum())), float(weight.sum()))
    return result


def mean_scores(plan: Plan, beta: Array) -> Array:
    """Return for each row of the root the mean score of the join rows that extend it, by one pass of (count, sum)."""
    scores = node_scores(plan, beta)
    weights = plan.weights()
    counts = count_rows(plan.nodes, weights)
    means: list[Any] = [None] * len(plan.nodes)
    for i in reversed(range(len(plan.nodes))):
        total = scores[i]
        for child, key in plan.nodes[i].down.items():
            below = plan.nodes[child]
            mass = group_sums(counts[child], below)
            part = np.divide(group_sums(counts[child] * means[child], below), mass, out=np.zeros(below.n_keys),
                             where=mass > 0)
            total = total + part[key]
        means[i] = total
    return np.asarray(means[0])
