"""The margin oracle on a grid: scores of rows are rounded once to multiples of h, all counting after that is exact.

Source: our own derivation on top of message passing (see docs/relational/counting.md); guarantees G1 and G3 there.
"""

import numpy as np

from buttress._checks import Array
from buttress.relational.counting import compiled
from buttress.relational.counting.lists import Lists, block_lists, leaf_lists, no_lists, product_lists
from buttress.relational.counting.margins import FIRST_BINS, Evaluation, MarginLoss, evaluation
from buttress.relational.counting.schedule import (
    Block,
    Product,
    Schedule,
    block_values,
    gather_gradient,
    listed,
    node_scores,
    schedule,
)
from buttress.relational.plan.plan import Index, Plan, total_weight
from buttress.relational.sources.deadline import check_time

FINEST_STEP = 1e-9  # share of the largest score; finer steps would be lost in the rounding of 64-bit sums
REFINABLE_SHARE = 1 / 4  # of the memory: a call that took more could not be repeated on a grid four times as fine
_NONE = np.zeros(0, dtype=np.int64)


class GridOracle:
    """Evaluate the mean loss over the rows of a join on a grid of ``bins`` steps over the range of scores.

    Parameters
    ----------
    plan : Plan
        The join.
    fold : bool
        Fold children with unique keys into their parents, where nothing is rounded. A join all of whose edges are
        such is evaluated exactly.
    rows : list of arrays or None
        The nodes' rows of every row of the join, where they are so few that they can be listed: exact as well.
    memory : float
        Megabytes that the lists of a call may take.
    """

    def __init__(self, plan: Plan, *, fold: bool = True, rows: list[Index] | None = None, memory: float = np.inf):
        self.plan = plan
        self.memory = memory
        self.can_refine = True
        self.schedule: Schedule = schedule(plan, fold=fold) if rows is None else listed(rows)
        self.schedule.operations[-1], order = self.schedule.root.sorted_by_lists()
        self.y = (plan.y if rows is None else plan.y[rows[0]])[order]
        weights = plan.weights()
        self.weights = [block_values(block, weights, product=True) for block in self.schedule.blocks]
        self.side = (self.y > 0).astype(np.int64)
        self.total = total_weight(plan)
        self.exact = len(self.schedule.operations) == 1

    def __call__(self, beta: Array, loss: MarginLoss, bins: int = FIRST_BINS) -> Evaluation:
        """Return the plane and bounds at ``beta``, shape (plan.width,), in one pass up and one down."""
        scores = node_scores(self.plan, beta)
        local = [block_values(block, scores) for block in self.schedule.blocks]
        if self.exact:
            return self._exact(beta, loss, local[0])
        return self._on_grid(beta, loss, local, grid_step(local, bins))

    def at_step(self, beta: Array, loss: MarginLoss, step: float) -> Evaluation:
        """Evaluate with a given step of the grid."""
        scores = node_scores(self.plan, beta)
        return self._on_grid(beta, loss, [block_values(block, scores) for block in self.schedule.blocks], step)

    def _exact(self, beta: Array, loss: MarginLoss, score: Array) -> Evaluation:
        z = self.y * score
        mass = self.weights[0] / self.total
        b = gather_gradient(self.plan, [(self.schedule.root, mass * self.y * loss.slope(z))])
        return evaluation(loss, beta, b, z, mass, 0.0)

    def _on_grid(self, beta: Array, loss: MarginLoss, local: list[Array], step: float) -> Evaluation:
        rounded = [np.floor(score / step + 0.5) for score in local]
        error = sum(float(np.abs(score - step * q).max(initial=0)) for score, q in zip(local, rounded))
        lowest = [int(q.min()) for q in rounded]  # no block is empty: the join has rows
        shifted = [(q - low).astype(np.int32) for q, low in zip(rounded, lowest)]
        lists = self._up(shifted)
        width = self._width(shifted[-1], [lists[op].width for op, _ in self.schedule.root.lists])
        score: Array = (step * (np.arange(width) + sum(lowest))).astype(np.float64)
        slope = np.stack([-loss.slope(-score), loss.slope(score)])
        histogram, work = self._down(shifted, lists, slope)
        b = gather_gradient(self.plan, work) / self.total
        z = np.concatenate([-score, score])
        mass = histogram.reshape(-1) / self.total
        used = mass > 0
        return evaluation(loss, beta, b, z[used], mass[used], error)

    def _width(self, q: Index, widths: list[int]) -> int:
        return int(q.max(initial=0)) + 1 + sum(width - 1 for width in widths)

    def _up(self, shifted: list[Index]) -> list[Lists]:
        lists: list[Lists] = []
        blocks = iter(range(len(shifted)))
        free = self.memory
        for operation in self.schedule.operations[:-1]:
            check_time()
            if isinstance(operation, Product):
                lists.append(product_lists(operation, lists, free))
            else:
                i = next(blocks)
                lists.append(_block(operation, shifted[i], self.weights[i], lists, free))
            free -= lists[-1].megabytes
        self.can_refine = self.memory - free <= self.memory * REFINABLE_SHARE
        return lists

    def _down(self, shifted: list[Index], lists: list[Lists], slope: Array) -> tuple[Array, list[tuple[Block, Array]]]:
        """Run the root and the way back; returns histograms per label and the signed counts of every block's rows."""
        adjoint = [np.zeros(len(part.mass)) for part in lists]
        histogram = np.zeros_like(slope)
        root = self.schedule.root
        i = len(shifted) - 1
        count = np.zeros(root.n_rows)
        if len(root.lists) == 2:
            (op, key), (op2, key2) = root.lists
            compiled.root_two(shifted[i], self.weights[i], self.side, key, key2, *lists[op].arrays,
                              *lists[op2].arrays, slope, histogram, adjoint[op], adjoint[op2], count)
        else:
            op, key = root.lists[0]
            compiled.root_one(shifted[i], self.weights[i], self.side, key, *lists[op].arrays, slope, histogram,
                              adjoint[op], count)
        work = [(root, count)]
        for n in reversed(range(len(lists))):
            check_time()
            operation = self.schedule.operations[n]
            if isinstance(operation, Product):
                one = lists[operation.left]
                two = lists[operation.right]
                compiled.product_down(*operation.keys, *one.arrays, *two.arrays, lists[n].width, *lists[n].arrays,
                                      adjoint[n], adjoint[operation.left], adjoint[operation.right])
                continue
            i -= 1
            count = np.zeros(operation.n_rows)
            op, key = operation.lists[0] if operation.lists else (-1, _NONE)
            below = lists[op] if operation.lists else no_lists()
            compiled.block_down(shifted[i], self.weights[i], operation.start, key, *below.arrays, lists[n].width,
                                *lists[n].arrays, adjoint[n], adjoint[op] if operation.lists else np.zeros(0), count)
            work.append((operation, count))
        return histogram, work


def grid_step(local: list[Array], bins: int) -> float:
    """Return h so that the sum of the blocks' ranges of scores is ``bins`` steps."""
    return step_of([(float(score.min()), float(score.max())) for score in local if len(score)], bins)


def step_of(ranges: list[tuple[float, float]], bins: int) -> float:
    """Return h for ranges of scores; no finer than FINEST_STEP of the largest score, and 1 where all scores are 0."""
    spread = sum(high - low for low, high in ranges)
    largest = max((max(abs(low), abs(high)) for low, high in ranges), default=0.0)
    return max(spread / bins, FINEST_STEP * largest) or 1.0


def _block(block: Block, q: Index, w: Array, lists: list[Lists], free: float) -> Lists:
    if not block.lists:
        return leaf_lists(q, w, block.start, free)
    op, key = block.lists[0]
    return block_lists(q, w, block.start, key, lists[op], free)
