"""The margin oracle by rank sketches: counts within 1 + error at any scale of the scores, and the paper's far points.

Entries of a list, scores ascending, are grouped while the count before them grows by at most a factor 1 + error; a
group is kept as its largest score (rounding scores up) and its total. Every row of the join stays in one group, and
the way back uses the same groups, so the counts belong to one set of rows and the plane is valid
(see docs/relational/counting.md).

Factors multiply: counts that went through k sketches of 1 + e each are within (1 + e)^k. Each sketch therefore gets
e = (1 + error)^(1/k) - 1, about error / k, and its lists have about k times as many groups.
"""

from dataclasses import dataclass, replace

import numpy as np

from buttress._checks import Array
from buttress.relational.counting.lists import TooManyEntriesError, expand
from buttress.relational.counting.margins import Evaluation
from buttress.relational.counting.rows import block_rows
from buttress.relational.counting.schedule import Block, MinkowskiSum, blocks_of, schedule
from buttress.relational.plan.plan import Index, Plan, total_weight

ROUNDING = 1e-12  # relative: a weight this near to (1 + error)^k has reached it


@dataclass
class Sketch:
    """Lists of groups: end of each list, largest score and weight of each group; and where each came from.

    ``bucket[e]`` is the group of gathered entry e, ``row[e]`` and ``entry[e]`` what it was made of.
    """

    end: Index
    high: Array
    mass: Array
    bucket: Index
    row: Index
    entry: Index


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


def make_sketch(
    list_of: Index, n_lists: int, high: Array, mass: Array, row: Index, entry: Index, error: float
) -> Sketch:
    """Group gathered entries into a Sketch."""
    order, group = group_entries(list_of, n_lists, high, mass, error)
    n = int(group[-1]) + 1 if len(group) else 0
    last = np.searchsorted(group, np.arange(n), side="right") - 1
    total: Array = np.bincount(group, mass[order], minlength=n).astype(np.float64)
    end = np.searchsorted(list_of[order][last], np.arange(n_lists), side="right")
    bucket = np.empty(len(order), dtype=np.int64)
    bucket[order] = group
    return Sketch(end, high[order][last], total, bucket, row, entry)


class RankOracle:
    """Evaluate the mean hinge over the rows of a join by rank sketches.

    Parameters
    ----------
    plan : Plan
    error : float
        Counts of rows below a score are kept within a factor 1 + error, whatever the number of sketches.
    guard : float
        Take only rows that no perturbation of every feature by this share can bring to the other side of the margin:
        1 - y beta.x >= guard |beta|.|x| (the paper's far points). ``lower`` is then of the set of far points only,
        and ``smooth`` is made of the paper's arrays H_k (equation 6), which take their share of ``error`` too.
    """

    def __init__(self, plan: Plan, *, error: float = 0.1, guard: float = 0.0):
        self.plan = plan
        self.error = error
        self.guard = guard
        self.operations, self.root = schedule(plan)
        side = (plan.y > 0).astype(np.int64)
        blocks = [*blocks_of(self.operations), self.root]
        self.rows, self.far = ([block_rows(held, block, plan.weights(), side) for block in blocks]
                               for held in (plan, _absolute(plan)))
        self.total = total_weight(plan)
        self.stage_error = stage_error(error, len(self.operations) + bool(guard))
        self.least = float(np.prod([rows.weight.min(initial=np.inf, where=rows.weight > 0) for rows in self.rows]))

    def __call__(self, beta: Array) -> Evaluation:
        """Return the plane and the lower bound at ``beta``; ``smooth`` is the paper's F-hat without the ridge."""
        try:
            return self._evaluate(beta)
        except TooManyEntriesError as error:
            raise MemoryError(f"{error} With solver='paper', raise sketch_error (now {self.error:g}), or use "
                              "solver='auto'.") from None

    def _evaluate(self, beta: Array) -> Evaluation:
        counts = [np.zeros(len(rows.weight)) for rows in self.rows]
        inside = 0.0
        sketched = 0.0
        for label in (-1.0, 1.0):
            work, count, hat = self._one_label(label, self.local(label, beta))
            for i, signed in work:
                counts[i] += signed
            inside += count
            sketched += hat
        b = np.zeros(self.plan.width)
        for rows, signed in zip(self.rows, counts):
            rows.add(signed, b)
        b /= self.total
        a = inside / self.total
        return Evaluation(beta, a, b, a - float(b @ beta), np.inf, sketched / self.total)

    def local(self, label: float, beta: Array) -> list[Array]:
        """Return for each block's rows their share of label times score, and of the guard."""
        return [label * rows.scores(beta) + self.guard * far.scores(np.abs(beta))
                for rows, far in zip(self.rows, self.far)]

    def _one_label(self, label: float, local: list[Array]) -> tuple[list[tuple[int, Array]], float, float]:
        """Return signed counts of the rows of each block, the weight of the set taken, and its sketched hinge sum."""
        sketches: list[Sketch] = []
        blocks = iter(range(len(local)))
        for operation in self.operations:
            if isinstance(operation, MinkowskiSum):
                sketches.append(self._product(operation, sketches))
            else:
                i = next(blocks)
                sketches.append(self._block(operation, local[i], self.rows[i].weight, sketches))
        mass = self.rows[-1].weight * (self.plan.y == label)
        adjoint = [np.zeros(len(sketch.mass)) for sketch in sketches]
        root = self.root
        if not root.lists:
            taken = mass * (local[-1] <= 1)
            return [(len(local) - 1, label * taken)], float(taken.sum()), self._hinge_sum(1 - local[-1], mass)
        op, key = root.lists[0]
        rows = np.flatnonzero(mass)
        at, entry = expand(key[rows], sketches[op].end)
        at = rows[at]
        high = local[-1][at] + sketches[op].high[entry]
        share = mass[at] * sketches[op].mass[entry]
        taken = share * (high <= 1)
        adjoint[op] += np.bincount(entry, mass[at] * (high <= 1), minlength=len(adjoint[op]))
        work = [(len(local) - 1, np.asarray(label * np.bincount(at, taken, minlength=root.n_rows), dtype=np.float64))]
        self._down(label, sketches, adjoint, work)
        return work, float(taken.sum()), self._hinge_sum(1 - high, share)

    def _hinge_sum(self, value: Array, mass: Array) -> float:
        """Return the weighted sum of the positive values: as it is, or for far points by the paper's equation 6."""
        if self.guard:
            return sum_below(*thresholds(value, mass, self.stage_error, self.least))
        return float(mass @ np.maximum(0, value))

    def _block(self, block: Block, score: Array, w: Array, sketches: list[Sketch]) -> Sketch:
        n_lists = len(block.start) - 1
        owner = np.repeat(np.arange(n_lists), np.diff(block.start))
        if not block.lists:
            row = np.arange(block.n_rows)
            return make_sketch(owner, n_lists, score, w, row, np.full(len(row), -1), self.stage_error)
        op, key = block.lists[0]
        return self._consulting(owner, n_lists, (score, w), np.arange(block.n_rows), key, sketches[op])

    def _product(self, product: MinkowskiSum, sketches: list[Sketch]) -> Sketch:
        """Pairs of groups: those of the first lists as rows that consult the second."""
        one = sketches[product.left]
        pair, first = expand(product.keys[0], one.end)
        return self._consulting(pair, len(product.keys[0]), (one.high[first], one.mass[first]), first,
                                product.keys[1][pair], sketches[product.right])

    def _consulting(self, owner: Index, n_lists: int, rows: tuple[Array, Array], numbers: Index, key: Index,
                    below: Sketch) -> Sketch:
        """Return the lists of rows (largest score, weight), called ``numbers``, with those they consult."""
        at, entry = expand(key, below.end)
        high, mass = (part[at] for part in rows)
        return make_sketch(owner[at], n_lists, high + below.high[entry], mass * below.mass[entry], numbers[at], entry,
                           self.stage_error)

    def _down(self, label: float, sketches: list[Sketch], adjoint: list[Array],
              work: list[tuple[int, Array]]) -> None:
        """Walk back along the same groups, adding each block's signed counts to ``work``."""
        i = len(self.rows) - 1
        for n in reversed(range(len(sketches))):
            operation = self.operations[n]
            sketch = sketches[n]
            v = adjoint[n][sketch.bucket]
            if isinstance(operation, MinkowskiSum):
                sides = ((operation.left, sketch.row), (operation.right, sketch.entry))
                for (op, mine), (rival, other) in (sides, sides[::-1]):
                    adjoint[op] += np.bincount(mine, v * sketches[rival].mass[other], minlength=len(adjoint[op]))
                continue
            i -= 1
            w = self.rows[i].weight[sketch.row]
            if operation.lists:
                op = operation.lists[0][0]
                adjoint[op] += np.bincount(sketch.entry, w * v, minlength=len(adjoint[op]))
                w = w * sketches[op].mass[sketch.entry]
            count = np.bincount(sketch.row, w * v, minlength=operation.n_rows)
            work.append((i, np.asarray(label * count, dtype=np.float64)))


def _absolute(plan: Plan) -> Plan:
    """Return the plan with every feature replaced by its magnitude."""
    return replace(plan, tables=[replace(table, X=abs(table.X)) for table in plan.tables])


def thresholds(value: Array, mass: Array, error: float, least: float = 1.0) -> tuple[Array, Array]:
    """Return the thresholds H_0 >= H_1 >= ..., and the weights least (1 + error)^k they stand for.

    H_k is the largest H such that the rows with a value of at least H weigh at least (1 + error)^k. The sum of the
    positive values is the integral over h > 0 of the weight of the rows with a value of at least h. Between H_{k+1} and
    H_k that weight lies in [(1 + error)^k, (1 + error)^(k+1)), which gives equation 6 and Lemma 9 of Abo-Khamis, Im,
    Moseley, Pruhs & Samadian (APOCS 2021). The paper asks H_k for floor((1 + error)^k) rows only, but counts
    (1 + error)^k of them: its F-hat can be almost twice F. Here neither is rounded down, so both sides of Lemma 9 hold,
    also for weights.

    ``value`` and ``mass`` have shape (n,); ``least`` is the smallest positive weight of a row.
    """
    keep = mass > 0
    order = np.argsort(-value[keep], kind="stable")
    if not len(order):
        return np.zeros(0), np.zeros(0)
    descending = value[keep][order]
    reached = np.cumsum(mass[keep][order])
    top = int(np.floor(np.log(reached[-1] / least * (1 + ROUNDING)) / np.log1p(error)))
    weight: Array = least * (1.0 + error) ** np.arange(max(top, 0) + 1, dtype=np.float64)
    first = np.searchsorted(reached, weight * (1 - ROUNDING))
    return descending[np.minimum(first, len(reached) - 1)], weight


def sum_below(H: Array, weight: Array) -> float:
    """Return equation 6: sum_k weight_k (H_k - H_{k+1}) over the positive thresholds, with H = 0 after the last."""
    H = np.maximum(H, 0.0)
    return float(weight @ (H - np.append(H[1:], 0.0))) if len(H) else 0.0
