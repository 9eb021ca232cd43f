"""A misclassified input of trees, by a search of each box, and by a mixed-integer program where that is not over.

The search is of parts of the box (``trees/search.py``). The program is that of Kantchelian, Tygar & Joseph, ICML 2016.

Within a box only those splits matter whose threshold lies in it. Each has a variable p in {0, 1}, 1 where
x[feature] <= threshold; along one feature p rises with the threshold. Each leaf that can be reached has a variable in
[0, 1], 1 where x falls into it: those of a tree sum to 1, and at a split those on the left sum to at most p, those on
the right to at most 1 - p. The lead of the label over a rival is linear in the leaves. Its minimum is the worst case;
where the time is up, the solver's lower bound is still a certificate if it is positive.

What a group of columns becomes has a variable in {0, 1} for each choice, which sum to 1; p of a split on such a column
is the sum of the choices at most its threshold, and at most k groups choose something else than they are. Where only
some numbers may be moved, each has a variable in {0, 1} that every split needs on whose other side x is.
"""

import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from buttress._checks import Array
from buttress._types import Mask
from buttress.attacks.problem import Worst
from buttress.threats import Moves
from buttress.trees import Forest, Tree

PARTS = 3000  # of a box, a rival, before its program: a quarter more or less is alike (`benchmarks/trees.py --most`)


@dataclass
class ProgramLimits:
    """Of programs: the seconds of a row, and the work that is left to all."""

    seconds: float
    work: float


def least_of_trees(worst: Worst, forest: Forest, moves: Moves, limits: ProgramLimits) -> Array:
    """Return lower bounds of the leads, (n,): by a search of each box, and by a program a rival where it is not over.

    The box holds all that the moves allow. Where they allow all of it, what the search meets is shown to ``worst``.
    """
    problem, wrong = worst.problem, worst.wrong.copy()
    bound = np.full((len(wrong), forest.contrasts.shape[1]), np.inf)
    over = np.ones(bound.shape, dtype=bool)
    lows, highs = moves.hull(problem.X)
    for code in np.unique(problem.codes[~wrong]):
        rows = np.flatnonzero(~wrong & (problem.codes == code))
        for rival, contrast in enumerate(forest.contrasts[code]):
            found = forest.searched(lows[rows], highs[rows], contrast, PARTS)
            bound[rows, rival] = found.bound - forest.rounding(contrast)
            over[rows, rival] = (bound[rows, rival] > 0) | (found.over & moves.free)
            met = np.flatnonzero(np.isfinite(found.met) & moves.free)
            worst.meet(rows[met], np.clip(problem.X[rows[met]], found.low[met], found.high[met]))
    for row in np.flatnonzero(~over.all(axis=1)):
        box = _Box(problem.X[row], lows[row], highs[row], moves)
        deadline = time.monotonic() + limits.seconds
        for left in np.flatnonzero(~over[row]):
            if worst.wrong[row] or limits.work <= 0:
                break
            contrast = forest.contrasts[problem.codes[row], left]
            least, point = _least_lead(forest, contrast, box, limits, max(deadline - time.monotonic(), 1e-3))
            bound[row, left] = max(bound[row, left], least)
            if point is not None:
                worst.meet(np.array([row]), point[None])
    return np.where(wrong, -np.inf, bound.min(axis=1))


@dataclass
class _Box:
    """Where one row x may go, and what of it is swapped."""

    x: Array
    low: Array
    high: Array
    moves: Moves

    def threshold(self, feature: int, given: float) -> float:
        """Return a threshold that separates the values that the feature can have as the given one does.

        Where it moves in steps, that is the middle between two of them.
        """
        if not self.moves.step[feature]:
            return given
        step, x = float(self.moves.step[feature]), float(self.x[feature])
        first, last = round((self.low[feature] - x) / step), round((self.high[feature] - x) / step)
        values = x + step * np.arange(first, last + 1)
        return x + step * (first + int((values <= given).sum()) - 0.5)

    def choices(self) -> list[Array]:
        """Return what each group can be, (choices, g): first what it is."""
        return [np.vstack([self.x[group.places], group.choices]) for group in self.moves.groups]


class _Program:
    """The constraints, collected as the trees are walked through."""

    def __init__(self) -> None:
        self.splits: dict[tuple[int, float], int] = {}  # (feature, threshold) -> its number
        self.costs: list[float] = []  # of the leaves
        self.entries: list[tuple[int, bool, int, float]] = []  # (row, is split, number, coefficient)
        self.low: list[float] = []
        self.high: list[float] = []

    def constrain(self, leaves: list[int], splits: list[tuple[int, float]], low: float, high: float) -> None:
        """Add low <= sum of the leaves + sum of shares of splits <= high."""
        row = len(self.low)
        self.entries += [(row, False, leaf, 1.0) for leaf in leaves]
        self.entries += [(row, True, split, share) for split, share in splits]
        self.low.append(low)
        self.high.append(high)

    def walk(self, tree: Tree, values: Array, box: _Box, node: int = 0) -> list[int]:
        """Add the leaves below a node that the box reaches, with their constraints; return their numbers."""
        left, right = int(tree.left[node]), int(tree.right[node])
        if left < 0:
            self.costs.append(float(values[node]))
            return [len(self.costs) - 1]
        feature = int(tree.feature[node])
        threshold = box.threshold(feature, float(tree.threshold[node]))
        if box.high[feature] <= threshold:
            return self.walk(tree, values, box, left)
        if box.low[feature] > threshold:
            return self.walk(tree, values, box, right)
        split = self.splits.setdefault((feature, threshold), len(self.splits))
        below, above = self.walk(tree, values, box, left), self.walk(tree, values, box, right)
        self.constrain(below, [(split, -1.0)], -np.inf, 0.0)
        self.constrain(above, [(split, 1.0)], -np.inf, 1.0)
        return below + above

    def order(self) -> None:
        """Add that a split implies those of larger thresholds of its feature."""
        ordered = sorted(self.splits)
        for first, second in pairwise(ordered):
            if first[0] == second[0]:
                self.constrain([], [(self.splits[first], 1.0), (self.splits[second], -1.0)], -np.inf, 0.0)

    def swap(self, box: _Box) -> None:
        """Add what groups of columns become, at most so many of them something else, and tie their splits to it."""
        swapped = []
        for group, choices in enumerate(box.choices()):
            taken = [self.splits.setdefault((-1 - group, float(choice)), len(self.splits))
                     for choice in range(len(choices))]
            self.constrain([], [(one, 1.0) for one in taken], 1.0, 1.0)
            swapped += taken[1:]
            for place, values in zip(box.moves.groups[group].places, choices.T, strict=True):
                for (feature, threshold), split in self.splits.items():
                    if feature == place:
                        below = [(one, -1.0) for one, is_low in zip(taken, values <= threshold) if is_low]
                        self.constrain([], [(split, 1.0), *below], 0.0, 0.0)
        if swapped:
            self.constrain([], [(one, 1.0) for one in swapped], 0.0, float(box.moves.most))

    def move(self, box: _Box) -> None:
        """Add that at most so many numbers are on another side of a split than they are now."""
        if not box.moves.limited:
            return
        moved: dict[int, int] = {}
        for (feature, threshold), split in list(self.splits.items()):
            if feature in box.moves.moving:
                one = moved.setdefault(feature, len(self.splits))
                self.splits[-1 - len(box.moves.groups) - feature, 0.0] = one
                if box.x[feature] <= threshold:
                    self.constrain([], [(split, 1.0), (one, 1.0)], 1.0, np.inf)
                else:
                    self.constrain([], [(split, 1.0), (one, -1.0)], -np.inf, 0.0)
        if moved:
            self.constrain([], [(one, 1.0) for one in moved.values()], 0.0, float(box.moves.most_moved))

    def solve(self, limits: ProgramLimits, seconds: float) -> tuple[float, Array | None]:
        """Return a lower bound of the least cost and the splits of the best solution met, None if there is none.

        The solver closes its gap to an absolute tolerance, so costs are put in units of the largest.
        """
        unit = max(map(abs, self.costs), default=0.0) or 1.0
        count, leaves = len(self.splits), len(self.costs)
        rows, kinds, numbers, coefs = (np.array(part) for part in zip(*self.entries, strict=True))
        columns = np.where(kinds, numbers, count + numbers)
        matrix = coo_matrix((coefs, (rows, columns)), shape=(len(self.low), count + leaves)).tocsr()
        whole = np.concatenate([np.ones(count), np.zeros(leaves)])
        options = {"time_limit": seconds, "mip_rel_gap": 0.0}
        if limits.work < np.inf:
            options["node_limit"] = 1 + int(max(limits.work, 0.0) / leaves)
        costs = np.concatenate([np.zeros(count), self.costs]) / unit
        solved = milp(costs, integrality=whole, bounds=Bounds(0, 1),
                      constraints=LinearConstraint(matrix, np.array(self.low), np.array(self.high)), options=options)
        limits.work -= leaves * max(1, solved.mip_node_count or 1)
        bound = solved.mip_dual_bound
        return -np.inf if bound is None else float(bound) * unit, None if solved.x is None else solved.x[:count]


def _least_lead(
    forest: Forest, contrast: Array, box: _Box, limits: ProgramLimits, seconds: float
) -> tuple[float, Array | None]:
    """Return a lower bound of the lead over the box, and the input at which it is least, None if none was met."""
    program = _Program()
    for tree in forest.trees:
        leaves = program.walk(tree, tree.value @ contrast, box)
        program.constrain(leaves, [], 1.0, 1.0)
    program.order()
    program.swap(box)
    program.move(box)
    bound, splits = program.solve(limits, seconds)
    bound += float(forest.offset @ contrast) - _hidden(forest, contrast)
    return bound, None if splits is None else _point(program, splits > 0.5, box)


def _hidden(forest: Forest, contrast: Array) -> float:
    """Return what a lead may be off by: the solver's tolerances, and the rounding of the model's own sums."""
    largest = [float(np.abs(tree.value @ contrast).max()) for tree in forest.trees]
    # HiGHS may be off by 1e-6 of the largest cost, on whole numbers, constraints and the gap
    return 1e-6 * (sum(largest) + max(largest)) + forest.rounding(contrast)


def _point(program: _Program, below: Mask, box: _Box) -> Array:
    """Return the input nearest to x on the sides of the thresholds that the splits are on."""
    floor, ceiling = np.full(len(box.x), -np.inf), np.full(len(box.x), np.inf)
    for (feature, threshold), number in program.splits.items():
        if feature < 0:
            continue
        if below[number]:
            ceiling[feature] = min(ceiling[feature], threshold)
        else:
            floor[feature] = max(floor[feature], threshold)
    point = np.where(box.x > ceiling, ceiling, box.x)
    point = np.where(box.x <= floor, np.nextafter(floor, np.inf), point)
    return _swapped(program, below, box, _on_steps(point, floor, ceiling, box))


def _on_steps(point: Array, floor: Array, ceiling: Array, box: _Box) -> Array:
    """Return the point with columns that move in steps on the nearest step beyond the middle between two."""
    for feature in np.flatnonzero(box.moves.step):
        step, x = box.moves.step[feature], box.x[feature]
        if x > ceiling[feature]:
            point[feature] = x + step * np.floor((ceiling[feature] - x) / step)
        elif x <= floor[feature]:
            point[feature] = x + step * np.ceil((floor[feature] - x) / step)
    return point


def _swapped(program: _Program, below: Mask, box: _Box, point: Array) -> Array:
    """Return the point with its groups as the program chose them."""
    for number, (group, options) in enumerate(zip(box.moves.groups, box.choices(), strict=True)):
        chosen = [choice for choice in range(len(options)) if below[program.splits[-1 - number, float(choice)]]]
        point[group.places] = options[chosen[0] if chosen else 0]
    return point
