"""The relational paper's pseudo-gradient descent: far points counted by rank sketches, within 1 + error at any scale.

Entries of a list, scores ascending, are grouped while the count before them grows by at most a factor 1 + error; a
group is kept as its largest score (rounding scores up) and its total. Every row of the join stays in one group, and
the way back uses the same groups, so the counts belong to one set of rows and the plane is valid
(see docs/relational/counting.md).

Factors multiply: counts that went through k sketches of 1 + e each are within (1 + e)^k. Each sketch therefore gets
e = (1 + error)^(1/k) - 1, about error / k, and its lists have about k times as many groups.

Source: Abo-Khamis, Im, Moseley, Pruhs & Samadian, A relational gradient descent algorithm for support vector machine
training, APOCS 2021, sections 1 and 3.3, with F as in its eq. (3). docs/relational/paper.md lists where it contradicts
itself, and what is taken here.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

import numpy as np

from buttress._checks import Array
from buttress.relational.counting.lists import expand
from buttress.relational.counting.margins import Evaluation
from buttress.relational.counting.queries import group_entries, stage_error, thresholds
from buttress.relational.counting.rows import block_rows
from buttress.relational.counting.schedule import Block, MinkowskiSum, blocks_of, schedule
from buttress.relational.plan.plan import Index, Plan, total_weight
from buttress.solvers.run import Step, Steps

Iterates = Generator[tuple[int, Array], Array, None]


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
        return Evaluation(a, b, a - float(b @ beta), np.inf, sketched / self.total)

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
            return self.least * sum_below(*thresholds(value, mass / self.least, self.stage_error))
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


def sum_below(H: Array, weight: Array) -> float:
    """Return equation 6: sum_k weight_k (H_k - H_{k+1}) over the positive thresholds, with H = 0 after the last."""
    H = np.maximum(H, 0.0)
    return float(weight @ (H - np.append(H[1:], 0.0))) if len(H) else 0.0


def ball_radius(alpha: float, d: int) -> float:
    """Return sqrt(d) / (2 alpha), which holds the optimum when features lie in [-1, 1]."""
    return float(np.sqrt(d) / (2 * alpha))


def step_size(alpha: float, d: int, rule: str) -> Callable[[int], float]:
    """Return eta_t: "theorem" 1/(8 alpha sqrt(d t)) (Theorems 1, 15) or "section" 1/(alpha sqrt(d t)) (3.3)."""
    factor = {"theorem": 8.0, "section": 1.0}[rule]
    return lambda t: 1 / (factor * alpha * np.sqrt(d * t))


def pseudo_gradient_descent(oracle: RankOracle, alpha: float, rule: str) -> Steps:
    """Yield the iterates; the objective of a step is F-hat, so the run's best state is the paper's final hypothesis.

    ``oracle`` counts far points (guard = the paper's epsilon), rounding scores up.
    """
    d = oracle.plan.width
    iterates = projected_descent(np.zeros(d), ball_radius(alpha, d), step_size(alpha, d, rule))
    _, beta = next(iterates)
    while True:
        seen = oracle(beta)
        ridge = alpha * float(beta @ beta)
        yield Step(beta, objective=seen.smooth + ridge)
        _, beta = iterates.send(2 * alpha * beta - seen.b)


def projected_descent(start: Array, radius: float, step: Callable[[int], float]) -> Iterates:
    """Yield (t, beta^(t)) from t = 0; the caller sends the gradient there. step(t) is the step that gives beta^(t).

    beta^(t+1) is the point of the ball of this radius closest to beta^(t) - step(t + 1) g (eq. 2).
    """
    beta = start
    t = 0
    while True:
        gradient = yield t, beta
        t += 1
        beta = beta - step(t) * gradient
        beta = beta * (radius / max(float(np.linalg.norm(beta)), radius))
