"""The margin oracle over rows in files: each pass reads them chunk by chunk, and only lists are in memory.

It is the grid oracle of ``counting/grid.py``, with the lists that several children give multiplied chunk by chunk.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from sklearn.utils import check_random_state

from buttress._checks import Array
from buttress.relational.counting import compiled
from buttress.relational.counting.grid import REFINABLE_SHARE, step_of
from buttress.relational.counting.lists import Lists, block_lists, leaf_lists, no_lists, product_lists
from buttress.relational.counting.margins import FIRST_BINS, Evaluation, MarginLoss, evaluation
from buttress.relational.counting.schedule import Product, multiplied
from buttress.relational.plan.plan import Index
from buttress.relational.stream.sampling import draw
from buttress.relational.stream.store import Chunk, Store, Tree

NO_KEYS = np.zeros(0, dtype=np.int64)


@dataclass
class Message:
    """The lists of a node's keys, and one more of a single empty row for parents without a match; bin 0 is ``low``."""

    lists: Lists
    low: int
    adjoint: Array


@dataclass
class Part:
    """What rows of a chunk consult: lists (and what each is worth), the key of each row, and the products made."""

    lists: list[Lists]
    adjoint: list[Array]
    keys: list[tuple[int, Index]]
    products: list[Product]
    low: int


class StreamedOracle:
    """Evaluate the mean loss over the rows of a join whose nodes lie in files.

    ``memory`` are the megabytes that the lists of a call may take; ``total`` is the sum of the weights of all rows. An
    int as ``random_state`` draws the same rows each time.
    """

    def __init__(self, store: Store, tree: Tree, width: int, total: float, memory: float,
                 random_state: RandomState | int | None = None):
        self.store = store
        self.tree = tree
        self.width = width
        self.total = total
        self.memory = memory
        self.random_state = random_state
        self.can_refine = True

    def sample(self, n: int) -> tuple[Array, Array, Array]:
        """Return n rows drawn by weight: scaled features (n, width), labels -1/+1, and ones."""
        X, y = draw(self.store, self.tree, self.width, n, check_random_state(self.random_state))
        return X, y, np.ones(n)

    def __call__(self, beta: Array, loss: MarginLoss, bins: int = FIRST_BINS) -> Evaluation:
        """Return the plane and bounds at ``beta``, shape (width,): one reading of the root, two of other nodes."""
        offset = beta[self.tree.intercept] if self.tree.intercept is not None else 0.0
        ranges = [(float(offset), float(offset))]
        for node, columns in zip(self.store.nodes, self.tree.columns):
            if len(columns) and len(node.samples):
                score = node.sample @ beta[columns]
                ranges.append((float(score.min()), float(score.max())))
        return self.at_step(beta, loss, step_of(ranges, bins))

    def at_step(self, beta: Array, loss: MarginLoss, step: float) -> Evaluation:
        """Evaluate with a given step of the grid."""
        found = _Pass(self, beta, loss, step)
        messages: dict[int, Message] = {}
        for i in reversed(self.tree.order[1:]):
            messages[i] = found.up(i, messages)
        found.root(messages)
        for i in self.tree.order[1:]:
            found.down(i, messages)
        z, mass = found.margins()
        return evaluation(loss, beta, found.gradient / self.total, z, mass / self.total, sum(found.error))


class _Pass:
    """One pass up the tree, over the root and back down."""

    def __init__(self, oracle: StreamedOracle, beta: Array, loss: MarginLoss, step: float):
        self.oracle = oracle
        self.tree = oracle.tree
        self.beta = beta
        self.loss = loss
        self.step = step
        self.free = oracle.memory
        self.gradient = np.zeros(oracle.width)
        self.error = [0.0] * len(oracle.store.nodes)
        self.histograms: list[tuple[int, Array]] = []

    def up(self, i: int, messages: dict[int, Message]) -> Message:
        """Return the lists of a node's keys, from its rows and its children's lists."""
        node = self.oracle.store.nodes[i]
        found: list[tuple[Lists, int]] = []
        last = -1
        for chunk in node.chunks():
            q, low = self._bins(i, chunk)
            part = self._consulted(i, chunk, messages, most=1)
            start, _ = _groups(chunk.up)
            if part.keys:
                op, key = part.keys[0]
                out = block_lists(q, chunk.weight, start, key, part.lists[op], self.free)
            else:
                out = leaf_lists(q, chunk.weight, start, self.free)
            made = _compact(out), low + part.low
            if chunk.up[0] == last:
                self.free += found[-1][0].megabytes
                made = _carried(found, made)
                self.free -= found[-1][0].megabytes
            last = chunk.up[-1]
            found.append(made)
            self.free -= made[0].megabytes
        self.oracle.can_refine = self.oracle.memory - self.free <= self.oracle.memory * REFINABLE_SHARE
        return _joined(found)

    def root(self, messages: dict[int, Message]) -> None:
        """Meet the root's rows with its children's lists: histograms, the gradient and what each entry is worth."""
        i = self.tree.root
        for chunk in self.oracle.store.nodes[i].chunks():
            q, low = self._bins(i, chunk)
            part = self._consulted(i, chunk, messages, most=2)
            side = chunk.up.astype(np.int64)
            order = np.argsort(part.keys[1][1], kind="stable") if len(part.keys) == 2 and part.products else None
            weight = chunk.weight
            if order is not None:  # rows that consult one product follow each other
                q = q[order]
                side = side[order]
                weight = weight[order]
                part.keys = [(op, key[order]) for op, key in part.keys]
            count = self._meet(q, weight, side, part, low)
            if order is not None:
                count[order] = count.copy()
            self._spread(part)
            self._add(i, chunk, count)

    def _slope(self, low: int, width: int) -> Array:
        """Return y u of both labels at ``width`` bins from ``low`` on."""
        score: Array = (self.step * (np.arange(width) + float(low))).astype(np.float64)
        return np.stack([-self.loss.slope(-score), self.loss.slope(score)])

    def _meet(self, q: Index, weight: Array, side: Index, part: Part, low: int) -> Array:
        """Run the root's kernel on a chunk; returns the rows' signed counts."""
        width = int(q.max(initial=0)) + 1 + sum(part.lists[op].width - 1 for op, _ in part.keys)
        slope = self._slope(low + part.low, width)
        histogram = np.zeros_like(slope)
        count = np.zeros(len(q))
        if len(part.keys) == 2:
            (op, key), (op2, key2) = part.keys
            compiled.root_two(q, weight, side, key, key2, *part.lists[op].arrays, *part.lists[op2].arrays, slope,
                              histogram, part.adjoint[op], part.adjoint[op2], count)
        else:
            below, key = _only(part)
            worth = part.adjoint[part.keys[0][0]] if part.keys else np.zeros(0)
            compiled.root_one(q, weight, side, key, *below.arrays, slope, histogram, worth, count)
        self.histograms = [_added([*self.histograms, (low + part.low, histogram)])]
        return count

    def down(self, i: int, messages: dict[int, Message]) -> None:
        """Bring what a node's lists are worth to its rows and to its children's lists."""
        message = messages[i]
        lists = message.lists
        for chunk in self.oracle.store.nodes[i].chunks():
            q, low = self._bins(i, chunk)
            part = self._consulted(i, chunk, messages, most=1)
            q += low + part.low - message.low
            below, key = _only(part)
            start, numbers = _groups(chunk.up)
            count = np.zeros(len(q))
            worth = part.adjoint[part.keys[0][0]] if part.keys else np.zeros(0)
            compiled.block_down(q, chunk.weight, start, key, *below.arrays, lists.width,
                                lists.begin[numbers], lists.end[numbers], lists.bins, lists.mass, message.adjoint,
                                worth, count)
            self._spread(part)
            self._add(i, chunk, count)

    def _bins(self, i: int, chunk: Chunk) -> tuple[Index, int]:
        """Return the bins of a chunk's scores, counted from the least, and the least."""
        score = chunk.X @ self.beta[self.tree.columns[i]]
        if i == self.tree.root and self.tree.intercept is not None:
            score = score + self.beta[self.tree.intercept]
        rounded = np.floor(score / self.step + 0.5)
        self.error[i] = max(self.error[i], float(np.abs(score - self.step * rounded).max()))
        low = rounded.min()
        return (rounded - low).astype(np.int32), int(low)

    def _consulted(self, i: int, chunk: Chunk, messages: dict[int, Message], most: int) -> Part:
        """Return the lists of a chunk's rows, multiplied until there are at most ``most``."""
        children = self.tree.children[i]
        lists = [messages[c].lists for c in children]
        products, consulted = multiplied(list(enumerate(self._keys(chunk, lists))), most, len(lists))
        free = self.free
        for product in products:
            lists.append(product_lists(product, lists, free))
            free -= lists[-1].megabytes
        adjoint = [messages[c].adjoint for c in children] + [np.zeros(len(part.mass))
                                                              for part in lists[len(children):]]
        return Part(lists, adjoint, consulted, products, sum(messages[c].low for c in children))

    def _keys(self, chunk: Chunk, lists: Sequence[Lists]) -> list[Index]:
        """Return which of its children's lists each row consults: the last one where a left join finds none."""
        return [np.where(code < 0, len(part.begin) - 1, code).astype(np.int64) for part, code in zip(lists, chunk.down)]

    def _spread(self, part: Part) -> None:
        """Bring what products are worth to the lists that they are made of."""
        first = len(part.lists) - len(part.products)
        for n in reversed(range(len(part.products))):
            product = part.products[n]
            made = part.lists[first + n]
            compiled.product_down(*product.keys, *part.lists[product.left].arrays, *part.lists[product.right].arrays,
                                  made.width, *made.arrays, part.adjoint[first + n], part.adjoint[product.left],
                                  part.adjoint[product.right])

    def _add(self, i: int, chunk: Chunk, count: Array) -> None:
        self.gradient[self.tree.columns[i]] += chunk.X.T @ count
        if i == self.tree.root and self.tree.intercept is not None:
            self.gradient[self.tree.intercept] += count.sum()

    def margins(self) -> tuple[Array, Array]:
        """Return the margins that occur and their weights."""
        low, histogram = _added(self.histograms)
        score = self.step * (np.arange(histogram.shape[1]) + float(low))
        mass = histogram.reshape(-1)
        return np.concatenate([-score, score])[mass > 0], mass[mass > 0]


def _groups(up: Index) -> tuple[Index, Index]:
    """Return where each key's rows begin, and the end of the last; and the numbers of the keys."""
    start = np.flatnonzero(np.diff(up, prepend=-1))
    return np.append(start, len(up)).astype(np.int64), up[start]


def _only(part: Part) -> tuple[Lists, Index]:
    if not part.keys:
        return no_lists(), NO_KEYS
    op, key = part.keys[0]
    return part.lists[op], key


def _compact(made: Lists) -> Lists:
    """Return lists without the room that they did not need."""
    sizes = made.end - made.begin
    begin = np.cumsum(sizes) - sizes
    at = np.repeat(made.begin - begin, sizes) + np.arange(int(sizes.sum()))
    return Lists(begin, begin + sizes, made.bins[at], made.mass[at], made.width)


def _carried(found: list[tuple[Lists, int]], after: tuple[Lists, int]) -> tuple[Lists, int]:
    """Move the last list of ``found`` into the first one of ``after``, which is of the same key; returns ``after``."""
    before, place = found[-1]
    lists, low = after
    first = before.begin[-1]
    found[-1] = Lists(before.begin[:-1], before.end[:-1], before.bins[:first], before.mass[:first], before.width), place
    end = lists.end[0]
    least = min(place, low)
    bins, at = np.unique(np.concatenate([before.bins[first:] + np.int32(place - least),
                                         lists.bins[:end] + np.int32(low - least)]), return_inverse=True)
    mass = np.bincount(at, np.concatenate([before.mass[first:], lists.mass[:end]]))
    ends = lists.end + (len(bins) - end)
    return Lists(np.append(0, ends[:-1]), ends, np.append(bins, lists.bins[end:] + np.int32(low - least)),
                 np.append(mass, lists.mass[end:]), max(before.width + place, lists.width + low) - least), least


def _joined(found: Sequence[tuple[Lists, int]]) -> Message:
    """Return the lists of all chunks, and one of a single row with score 0 and weight 1, as one message."""
    low = min([0, *(place for _, place in found)])
    width = max([1 - low, *(part.width + place - low for part, place in found)])
    sizes = np.concatenate([*(part.end - part.begin for part, _ in found), np.ones(1, dtype=np.int64)])
    begin = np.cumsum(sizes) - sizes
    bins = np.concatenate([*(part.bins + np.int32(place - low) for part, place in found),
                           np.array([-low, 0], dtype=np.int32)])
    mass = np.concatenate([*(part.mass for part, _ in found), np.array([1.0, 0.0])])
    return Message(Lists(begin, begin + sizes, bins, mass, width), low, np.zeros(len(mass)))


def _added(histograms: Sequence[tuple[int, Array]]) -> tuple[int, Array]:
    """Add histograms (least bin, weights per label) up."""
    low = min(place for place, _ in histograms)
    high = max(place + part.shape[1] for place, part in histograms)
    total = np.zeros((2, high - low))
    for place, part in histograms:
        total[:, place - low : place - low + part.shape[1]] += part
    return low, total
