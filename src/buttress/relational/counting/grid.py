"""The margin oracle on a grid: scores of rows are rounded once to multiples of h, all counting after that is exact.

Rows come in chunks, and a node's whole rows in memory are one chunk. Only lists are held while they are counted.

Source: our own derivation on top of message passing (see docs/relational/counting.md); its planes and its point.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import RandomState
from scipy import sparse

from buttress._checks import Array
from buttress._proof import SLACK, U
from buttress.relational.counting import compiled
from buttress.relational.counting.lists import ENTRY_MEGABYTES, Lists, Sum, entries, groups, joined_lists, unit_lists
from buttress.relational.counting.margins import FIRST_BINS, Evaluation, MarginLoss, SumRounding, evaluation
from buttress.relational.counting.rows import ChunkedNode, MemoryNode, NodeRows, RowFeatures, drawn, fill, memory_nodes
from buttress.relational.counting.schedule import MinkowskiSum, multiplied
from buttress.relational.plan.plan import Index, Plan, total_weight
from buttress.relational.sources.deadline import check_time

PRODUCT_ENTRIES = 10_000_000  # at most of the lists that are made at once for some of the root's rows


class GridOracle:
    """Evaluate the mean loss over the rows of a join on a grid of ``bins`` steps over the range of scores.

    ``nodes`` of the join tree come children first, the root last; a join of one node is evaluated exactly. ``width`` is
    the number of coefficients, ``total`` the weight of all rows, ``memory`` the megabytes that the lists of a call may
    take. ``far`` are the largest features, where all sums over rows are made here: their rounding is then allowed for.
    """

    def __init__(self, nodes: Sequence[ChunkedNode], width: int, total: float, memory: float = np.inf,
                 far: Array | None = None):
        self.nodes = nodes
        self.width = width
        self.total = total
        self.memory = memory
        self.can_refine = True
        self.far = far
        self.proven = far is not None

    def rounding(self, met: int) -> SumRounding | None:
        """Return that of a call's sums: a number is added to at most once by each row of a table or node, up, at the
        root or down, and ``met`` times where lists meet."""
        if self.far is None:
            return None
        chunks = [rows for node in self.nodes for rows in node.chunks()]
        rows = sum(len(part.weight) + sum(features.X.shape[0] for features in part.features) for part in chunks)
        # a term's loss, its slope, and products with features and weights have 64 roundings at most
        return SumRounding(SLACK * U * (4 * rows + met + self.width + 64), self.far)

    def sample(self, n: int, rng: RandomState) -> tuple[Array, Array, Array]:
        """Return rows by weight: what :func:`drawn` does, and ones.

        Where the only node has no more than n rows, all of positive weight, and their weights.
        """
        nodes = self.nodes
        if len(nodes) > 1 or sum(len(rows.weight) for rows in nodes[0].chunks()) > n:
            return *drawn(nodes, self.width, n, rng), np.ones(n)
        parts = []
        for rows in nodes[0].chunks():
            kept = np.flatnonzero(rows.weight > 0)
            X = np.zeros((len(kept), self.width))
            fill(X, rows, np.arange(len(kept)), kept)
            parts.append((X, 2.0 * rows.side[kept] - 1.0, rows.weight[kept]))
        X, y, weight = (np.concatenate(part) for part in zip(*parts))
        return X, y, weight

    def __call__(self, beta: Array, loss: MarginLoss, bins: int = FIRST_BINS) -> Evaluation:
        """Return the plane and bounds at ``beta``, shape (width,): one reading of the root, two of other nodes.

        A grid whose lists take more than the memory is made coarser, which leaves the bounds true and further apart.
        """
        spans = [node.span(beta) for node in self.nodes]
        fewer = bins
        while True:
            try:
                seen = self.at_step(beta, loss, step_of(spans, fewer))
                break
            except MemoryError:
                if fewer <= 32:  # a quarter more ends there too, a quarter less at 16
                    raise
                fewer //= 2
        self.can_refine &= fewer == bins
        return seen

    def at_step(self, beta: Array, loss: MarginLoss, step: float) -> Evaluation:
        """Evaluate with a given step of the grid."""
        if len(self.nodes) == 1:
            return self._exact(beta, loss)
        found = _Pass(beta, loss, step, self.memory, np.zeros(self.width))
        messages: list[Message] = []
        for node in self.nodes[:-1]:
            messages.append(found.up(node, messages))
        # a call that took more than a quarter could not be repeated on a grid four times as fine
        self.can_refine = self.memory - found.free <= self.memory / 4
        found.root(self.nodes[-1], messages)
        for node, message in zip(self.nodes[-2::-1], messages[::-1]):
            found.down(node, message, messages)
        z, mass = found.margins()
        return evaluation(loss, beta, found.gradient / self.total, z, mass / self.total, found.error,
                          self.rounding(found.met))

    def _exact(self, beta: Array, loss: MarginLoss) -> Evaluation:
        parts = []
        for rows in in_time(self.nodes[-1]):
            label = 2.0 * rows.side - 1.0
            z = label * rows.scores(beta)
            mass = rows.weight / self.total
            b = np.zeros(self.width)
            rows.add(mass * label * loss.slope(z), b)
            parts.append(evaluation(loss, beta, b, z, mass, 0.0, self.rounding(0)))
        return Evaluation(sum(part.a for part in parts), np.sum([part.b for part in parts], axis=0),
                          *(sum(getattr(part, name) for part in parts)
                            for name in ("lower", "upper", "smooth", "tilt")))


def in_time(node: ChunkedNode) -> Iterator[NodeRows]:
    """Yield the rows of a node; TimeoutError when the time of the fit is up."""
    for rows in node.chunks():
        check_time()
        yield rows


def grid_oracle(plan: Plan, *, fold: bool = True, listed: int = 0, memory: float = np.inf) -> GridOracle:
    """Return the oracle of a join in memory, which lists its rows where there are at most ``listed`` of them.

    ``fold`` makes children with unique keys part of their parents, where nothing is rounded.
    """
    far = np.concatenate([abs(table.X).max(axis=0).toarray().ravel() if sparse.issparse(table.X)
                          else np.abs(table.X).max(axis=0, initial=0.0) for table in plan.tables])
    return GridOracle(memory_nodes(plan, fold, listed), plan.width, total_weight(plan), memory, far)


def listed_oracle(X: Array, y: Array, weight: Array) -> GridOracle:
    """Return the oracle of rows that are all here: scaled features (n, width), labels -1/+1, weights. It is exact."""
    one_key = np.zeros(1, dtype=np.int64)
    rows = NodeRows([RowFeatures(np.arange(X.shape[1]), X)], weight, np.array([0, len(y)]), one_key, [],
                    (y > 0).astype(np.int64))
    return GridOracle([MemoryNode([], rows)], X.shape[1], float(weight.sum()))


@dataclass(frozen=True)
class Message:
    """The lists of a node's keys; bin 0 is ``low``, and ``worth`` is what each entry is worth to the rows above."""

    lists: Lists
    low: int
    worth: Array


@dataclass
class Consulted:
    """Lists that rows consult, those of the children and products of them: ``keys`` are (list, key of each row)."""

    lists: list[Lists]
    worth: list[Array]
    keys: list[tuple[int, Index]]
    products: list[tuple[int, int, Index, Sum]] = field(default_factory=list)  # the list, of which, its entries

    def summed(self, q: Index, w: Array, start: Index, order: Any = slice(None)) -> Sum:
        """Return rows, some in an ``order``, that are added up with the first of the lists that they consult."""
        op, key = self.keys[0]
        return Sum(q[order], w[order], start, key[order], self.lists[op], self.worth[op])

    def multiply(self, product: MinkowskiSum, free: float) -> int:
        """Make a product of two lists, the entries of one as rows that consult the other.

        Returns how often a number is added to, at most, on the way up or back.
        """
        one, (first, second) = self.lists[product.left], product.keys
        start, entry = entries(one, first)
        rows = Sum(one.bins[entry], one.mass[entry], start, np.repeat(second, np.diff(start)),
                   self.lists[product.right], self.worth[product.right])
        self.products.append((len(self.lists), product.left, entry, rows))
        self.lists.append(rows.up(free))
        self.worth.append(np.zeros(len(self.lists[-1].mass)))
        return len(entry) + rows.below.longest

    def spread(self) -> None:
        """Bring what products are worth to the lists that they are made of."""
        for made, one, entry, rows in reversed(self.products):
            np.add.at(self.worth[one], entry, rows.down(self.lists[made], self.worth[made]))


@dataclass
class _Pass:
    """One pass up the tree, over the root and back down, within ``free`` megabytes."""

    beta: Array
    loss: MarginLoss
    step: float
    free: float
    gradient: Array
    error: float = 0.0
    met: int = 0  # additions to one number where lists meet, at most
    histogram: tuple[int, Array] | None = None

    def up(self, node: ChunkedNode, messages: list[Message]) -> Message:
        """Return the lists of a node's keys, from its rows and its children's lists."""
        found = []
        numbers = []
        before = self.free
        off = 0.0
        for rows in in_time(node):
            q, low, rounding = self._bins(node, rows, messages)
            off = max(off, rounding)
            part = self._consulted(node, rows.down, len(q), messages, most=1)
            made = part.summed(q, rows.weight, rows.start).up(self.free)
            self.free -= made.megabytes
            found.append((made, low))
            numbers.append(rows.numbers)
        self.error += off
        lists, low = joined_lists(found, np.concatenate(numbers), self.free)
        self.free = before - lists.megabytes
        return Message(lists, low, np.zeros(len(lists.mass)))

    def root(self, node: ChunkedNode, messages: list[Message]) -> None:
        """Meet the root's rows with its children's lists: histograms, the gradient and what each entry is worth."""
        off = 0.0
        for rows in in_time(node):
            q, low, rounding = self._bins(node, rows, messages)
            off = max(off, rounding)
            width = int(q.max(initial=0)) + 1 + sum(messages[c].lists.width - 1 for c in node.children)
            score: Array = self.step * (np.arange(width, dtype=np.float64) + low)
            slope = np.concatenate([-self.loss.slope(-score), self.loss.slope(score)])
            histogram = np.zeros(2 * width)
            q += (rows.side * width).astype(np.int32)  # the bins of the second class follow those of the first
            worth = np.zeros(len(q))
            longest = sorted(messages[c].lists.longest for c in node.children)
            most = min(PRODUCT_ENTRIES, self.free / (4 * ENTRY_MEGABYTES))
            size = max(int(most / max(min(width, math.prod(longest[1:])), 1)), 1)
            for piece in (slice(first, first + size) for first in range(0, len(q), size)):
                check_time()
                keys = [key[piece] for key in rows.down]
                part = self._consulted(node, keys, len(keys[0]), messages, most=2)
                worth[piece] = self._meet_rows(q[piece], rows.weight[piece], part, slope, histogram)
                part.spread()
            rows.add(rows.weight * worth, self.gradient)
            self.histogram = _sum_of_histograms(self.histogram, (low, histogram.reshape(2, width)))
        self.error += off

    def _meet_rows(self, q: Index, weight: Array, part: Consulted, slope: Array, histogram: Array) -> Array:
        """Meet some of the root's rows with their lists; returns what a weight of 1 of each is worth.

        Of two lists the first is added up for each key of the second, so that rows meet that in groups of equal bins.
        """
        op, key = part.keys[-1]
        last = part.lists[op]
        if len(part.keys) == 2:
            order = np.argsort(key, kind="stable")
            start, numbers = groups(key[order])
            rows = part.summed(q, weight, start, order)
            made = rows.up(self.free)
            self.met += rows.below.longest
            part.keys = [(op, np.repeat(numbers, made.end - made.begin))]
            found = np.empty(len(q))
            found[order] = rows.down(made, self._meet_rows(made.bins, made.mass, part, slope, histogram))
            return found
        self.met += len(q) + last.longest
        worth = np.zeros(len(q))
        compiled.meet(q, weight, key, *last.arrays, slope, histogram, part.worth[op], worth)
        return worth

    def down(self, node: ChunkedNode, message: Message, messages: list[Message]) -> None:
        """Bring what a node's lists are worth to its rows and to its children's lists."""
        for rows in in_time(node):
            q, low, _ = self._bins(node, rows, messages)
            q += low - message.low
            part = self._consulted(node, rows.down, len(q), messages, most=1)
            summed = part.summed(q, rows.weight, rows.start)
            self.met += summed.below.longest
            worth = summed.down(message.lists.of(rows.numbers), message.worth)
            part.spread()
            rows.add(rows.weight * worth, self.gradient)

    def _bins(self, node: ChunkedNode, rows: NodeRows, messages: list[Message]) -> tuple[Index, int, float]:
        """Return the bins of rows' scores, counted from the least; the least of what the rows make with their
        children's lists; and how far off the scores are then."""
        score = rows.scores(self.beta)
        rounded = np.floor(score / self.step + 0.5)
        low = rounded.min()
        return ((rounded - low).astype(np.int32), int(low) + sum(messages[c].low for c in node.children),
                float(np.abs(score - self.step * rounded).max()))

    def _consulted(
        self, node: ChunkedNode, keys: Sequence[Index], n: int, messages: list[Message], most: int
    ) -> Consulted:
        """Return the lists of n rows, multiplied until there are at most ``most``."""
        if not keys:
            return Consulted([unit_lists()], [np.zeros(1)], [(0, np.zeros(n, dtype=np.int64))])
        products, left = multiplied(list(enumerate(keys)), most, len(keys))
        part = Consulted([messages[c].lists for c in node.children], [messages[c].worth for c in node.children], left)
        free = self.free
        for product in products:
            self.met += part.multiply(product, free)
            free -= part.lists[-1].megabytes
        return part

    def margins(self) -> tuple[Array, Array]:
        """Return the margins that occur and their weights."""
        assert self.histogram is not None, "the root was met"
        low, histogram = self.histogram
        score = self.step * (np.arange(histogram.shape[1]) + float(low))
        mass = histogram.reshape(-1)
        return np.concatenate([-score, score])[mass > 0], mass[mass > 0]


def _sum_of_histograms(one: tuple[int, Array] | None, two: tuple[int, Array]) -> tuple[int, Array]:
    """Add two histograms (least bin, weights a label)."""
    if one is None:
        return two
    low = min(one[0], two[0])
    total = np.zeros((2, max(place + part.shape[1] for place, part in (one, two)) - low))
    for place, part in (one, two):
        total[:, place - low : place - low + part.shape[1]] += part
    return low, total


def step_of(ranges: Sequence[tuple[float, float]], bins: int) -> float:
    """Return h so that the sum of the ranges of the nodes' shares of the score is ``bins`` steps.

    No finer than what the rounding of 64-bit sums leaves of the largest score, and 1 where all scores are 0.
    """
    spread = sum(high - low for low, high in ranges)
    largest = max((max(abs(low), abs(high)) for low, high in ranges), default=0.0)
    return max(spread / bins, 1e-9 * largest) or 1.0
