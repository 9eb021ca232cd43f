"""The worst input of a ball, exactly: of trees by a mixed-integer program, of linear models in closed form.

Trees (Kantchelian, Tygar & Joseph, ICML 2016). Within a box only those splits matter whose threshold lies in it. Each
has a variable p in {0, 1}, 1 where x[feature] <= threshold; along one feature p rises with the threshold. Each leaf
that can be reached has a variable in [0, 1], 1 where x falls into it: those of a tree sum to 1, and at a split those on
the left sum to at most p, those on the right to at most 1 - p. The lead of the label over a rival is linear in the
leaves. Its minimum is the worst case; where the time is up, the solver's lower bound is still a certificate if it is
positive.

Linear models: the lead w'x + b is least at x - eps sign(w) (l_inf), clipped to the box, or at x - eps w / |w| (l_2),
with a box at the clip of x - t w for the t at which the length is eps. With one eps a column the same holds of moves in
units of their columns.
"""

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from buttress._checks import Array, check_number
from buttress._types import BoundsLike, Mask, MatrixLike, VectorLike
from buttress.attacks.ball import Ball, ball_of
from buttress.attacks.problem import AttackInfo, Problem, Worst, pose, warn_of_units
from buttress.attacks.targets import ExpansionTarget
from buttress.attacks.trees import NAMES, Forest, Tree, read_forest
from buttress.kernels import Linear
from buttress.scores import Scorable
from buttress.threats import Moves, ThreatModel, check_threat, read_threat

TOLERANCE = 1e-6  # of HiGHS, on whole numbers, constraints and the gap, in the units of the largest cost
HALVINGS = 100


@dataclass
class ExactInfo(AttackInfo):
    """What an exact attack achieved, per row.

    Parameters
    ----------
    bound : array of shape (n,)
        No input of the ball has a smaller lead of the label over any rival, in the units of the model's scores
        (probabilities of forests); -inf where the model was wrong from the start.
    proven : bool array of shape (n,)
        Whether the row is settled: broken, or proven to stand. False where the time was up.
    """

    bound: Array
    proven: Mask


def exact(
    model: Scorable,
    X: MatrixLike,
    y: VectorLike,
    *,
    eps: ArrayLike | None = None,
    norm: str = "linf",
    bounds: BoundsLike | None = None,
    threat: ThreatModel | None = None,
    max_time: float = 10.0,
    max_work: float | None = None,
    return_info: bool = False,
) -> Any:
    """Find the worst input of each ball, or prove that none is misclassified: trees (l_inf) and linear models.

    Parameters
    ----------
    model : fitted classifier
        A decision tree, random forest, extremely randomised trees, gradient boosting (also by histograms) of
        scikit-learn; or a linear model of its or of this package, also behind scalers.
    X, y, eps, norm, bounds, threat, return_info
        As in :func:`pgd`; trees take ``norm="linf"`` only. Swaps and moves of a threat are settled together.
    max_time : float
        Seconds a row for trees.
    max_work : float or None
        For trees, the leaves that a box reaches times the nodes of branch and bound, of all rows together: about a
        tenth of a millisecond each, and the same on any machine.

    Returns
    -------
    Array shaped like X, and an :class:`ExactInfo` with ``return_info=True``. ``info.proven & ~info.success`` are
    certified.

    Raises
    ------
    ValueError
        For another model, trees with ``norm="l2"`` or categorical splits, and as :func:`pgd` does.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from buttress import attacks
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RandomForestClassifier(5, random_state=0).fit(X, y)
    >>> found, info = attacks.exact(model, X[:5], y[:5], eps=0.2, return_info=True)
    >>> info.success, info.proven
    (array([False, False, False, False, False]), array([ True,  True,  True,  True,  True]))
    """
    check_threat(eps, norm, bounds, threat)
    problem = pose(model, X, y, bounds)
    ball, moves = _allowed(problem, eps, norm) if threat is None else _declared(problem, threat, X)
    max_time = check_number("max_time", max_time, 0)
    warn_of_units(problem, ball)
    worst = Worst(problem)
    rows = np.arange(len(problem.X))
    worst.see(rows, problem.X.copy(), problem.target.scores(problem.X))
    forest = read_forest(problem.model, problem.X)
    if forest is None:
        bound = _linear(worst, ball, moves)
    elif moves.norm == "l2":
        raise ValueError("Trees are attacked exactly for norm='linf' only. Got 'l2'. Use worst_case.")
    else:
        bound = _trees(worst, forest, moves, _Limits(max_time, np.inf if max_work is None else max_work))
    found, info = worst.report(ball)
    proven = info.success | (bound > 0)
    settled = ExactInfo(info.success, info.margin, info.distance, info.queries, ~proven, bound, proven)
    return (found, settled) if return_info else found


def _allowed(problem: Problem, eps: ArrayLike | None, norm: str) -> tuple[Ball, Moves]:
    """Return the ball and the moves of the short form of a threat."""
    width = problem.X.shape[1]
    ball = ball_of(eps, norm, width, problem.place)
    reach = np.broadcast_to(ball.reach, (1, width))
    return ball, Moves(reach, norm, problem.low, problem.high, np.zeros(width), (), 0)


def _declared(problem: Problem, threat: ThreatModel, X: MatrixLike) -> tuple[Ball, Moves]:
    """Return the ball of a threat's numbers and all its moves."""
    moves = read_threat(threat, problem.X, X)
    return ball_of(moves.reach, moves.norm, problem.X.shape[1], problem.place), moves


def _linear(worst: Worst, ball: Ball, moves: Moves) -> Array:
    """Show ``worst`` the least lead over each rival, and return the least of them, (n,)."""
    problem, target = worst.problem, worst.problem.target
    if not (isinstance(target, ExpansionTarget) and isinstance(target.expansion.kernel, Linear)):
        raise ValueError(f"No exact attack is known for {type(problem.model).__name__}. Use a linear model, or "
                         f"{NAMES}; worst_case takes any classifier.")
    rows, bound = np.arange(len(problem.X)), np.full(len(problem.X), np.inf)
    contrasts = target.contrasts[problem.codes]
    for rival in range(contrasts.shape[1]):
        V = contrasts[:, rival]
        W = target.linearise(problem.X).gradient(V)
        start = _steepest_swaps(problem.X, W, moves)
        moved = _steepest(start, moves.box(start, rows), W, ball)
        bound = np.minimum(bound, np.einsum("ik,ik->i", V, target.scores(moved)))
        moved = moves.stepped(moved, start)
        worst.see(rows, moved, target.scores(moved))
    return bound


def _steepest_swaps(X: Array, W: Array, moves: Moves) -> Array:
    """Return the rows with those of their groups swapped that lower w'x most."""
    falls, choices = np.zeros((len(X), len(moves.groups))), np.zeros((len(X), len(moves.groups)), dtype=int)
    for number, group in enumerate(moves.groups):
        w = W[:, group.places]
        fall = w @ group.choices.T - (w * X[:, group.places]).sum(axis=1, keepdims=True)
        choices[:, number], falls[:, number] = fall.argmin(axis=1), fall.min(axis=1)
    found = X.copy()
    for number in np.argsort(falls, axis=1)[:, : moves.most].T:
        for row in np.flatnonzero(np.take_along_axis(falls, number[:, None], axis=1)[:, 0] < 0):
            group = moves.groups[number[row]]
            found[row, group.places] = group.choices[choices[row, number[row]]]
    return found


def _steepest(X: Array, box: tuple[Array, Array], W: Array, ball: Ball) -> Array:
    """Return where w'x is least in the ball around rows X and the box."""
    low, high = box
    eps = ball.radius
    unit = ball.step(W, 1.0)
    if ball.norm == "linf":
        return np.clip(X - eps * unit, low, high)
    if not np.isfinite(low).any() and not np.isfinite(high).any():
        return X - eps * unit

    def length(step: Array) -> Array:
        return np.linalg.norm(ball.measured(np.clip(X - step * unit, low, high) - X), axis=1, keepdims=True)

    short, long = np.full((len(X), 1), eps), np.full((len(X), 1), eps)
    for _ in range(HALVINGS):  # first double the longest step, then halve the bracket
        long = np.where(length(long) < eps, 2 * long, long)
    for _ in range(HALVINGS):
        middle = (short + long) / 2
        within = length(middle) <= eps
        short, long = np.where(within, middle, short), np.where(within, long, middle)
    return np.clip(X - short * unit, low, high)


@dataclass
class _Limits:
    """Of programs: the seconds of a row, and the work that is left to all."""

    seconds: float
    work: float


def _trees(worst: Worst, forest: Forest, moves: Moves, limits: _Limits) -> Array:
    """Return lower bounds of the leads, (n,): tree by tree, and by a program a rival where that proves nothing."""
    problem = worst.problem
    bound = np.where(worst.wrong, -np.inf, np.inf)
    lows, highs = moves.hull(problem.X)
    for code in np.unique(problem.codes[~worst.wrong]):
        rows = np.flatnonzero(~worst.wrong & (problem.codes == code))
        for contrast in forest.contrasts[code]:
            leads = forest.least(lows[rows], highs[rows], contrast) - _hidden(forest, contrast)
            bound[rows] = np.minimum(bound[rows], leads)
    for row in np.flatnonzero(~worst.wrong & (bound <= 0)):
        if limits.work <= 0:
            break
        bound[row] = np.inf
        box = _Box(problem.X[row], lows[row], highs[row], forest, moves)
        deadline = time.monotonic() + limits.seconds
        for contrast in forest.contrasts[problem.codes[row]]:
            least, point = _least_lead(forest, contrast, box, limits, max(deadline - time.monotonic(), 1e-3))
            bound[row] = min(bound[row], least)
            if point is not None:
                one = np.array([row])
                worst.see(one, point[None], problem.target.scores(point[None]))
                worst.queries += 1
            if worst.wrong[row]:
                break
    return bound


class _Box:
    """Where one row x may go, the ends of the box as the trees compare them, and what of it is swapped."""

    def __init__(self, x: Array, low: Array, high: Array, forest: Forest, moves: Moves):
        self.x = x
        self.low = low
        self.high = high
        self.seen_low = forest.rounded(low)
        self.seen_high = forest.rounded(high)
        self.forest = forest
        self.moves = moves

    def threshold(self, feature: int, given: float) -> float:
        """Return a threshold that separates the values that the feature can have as the given one does.

        Where it moves in steps, that is the middle between two of them.
        """
        step, x = float(self.moves.step[feature]), float(self.x[feature])
        if step == 0:
            return given
        first, last = round((self.low[feature] - x) / step), round((self.high[feature] - x) / step)
        values = self.forest.rounded(x + step * np.arange(first, last + 1))
        return x + step * (first + int((values <= given).sum()) - 0.5)

    def choices(self) -> list[Array]:
        """Return what each group can be as the trees compare it, (choices, g): first what it is."""
        return [self.forest.rounded(np.vstack([self.x[group.places], group.choices])) for group in self.moves.groups]


class _Program:
    """The constraints, collected as the trees are walked through."""

    def __init__(self) -> None:
        self.splits: dict[tuple[int, float], int] = {}  # (feature, threshold) -> its number
        self.costs: list[float] = []  # of the leaves
        self.entries: list[tuple[int, bool, int, float]] = []  # (row, is split, number, coefficient)
        self.low: list[float] = []
        self.high: list[float] = []

    def constrain(self, leaves: list[int], split: int | None, share: float, low: float, high: float) -> None:
        """Add low <= sum of the leaves + share p <= high."""
        row = len(self.low)
        self.entries += [(row, False, leaf, 1.0) for leaf in leaves]
        if split is not None:
            self.entries.append((row, True, split, share))
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
        if box.seen_high[feature] <= threshold:
            return self.walk(tree, values, box, left)
        if box.seen_low[feature] > threshold:
            return self.walk(tree, values, box, right)
        split = self.splits.setdefault((feature, threshold), len(self.splits))
        below, above = self.walk(tree, values, box, left), self.walk(tree, values, box, right)
        self.constrain(below, split, -1.0, -np.inf, 0.0)
        self.constrain(above, split, 1.0, -np.inf, 1.0)
        return below + above

    def order(self) -> None:
        """Add that a split implies those of larger thresholds of its feature."""
        ordered = sorted(self.splits)
        for first, second in pairwise(ordered):
            if first[0] == second[0]:
                self._tie([(self.splits[first], 1.0), (self.splits[second], -1.0)], -np.inf, 0.0)

    def swap(self, box: _Box) -> None:
        """Add what groups of columns become, at most so many of them something else, and tie their splits to it."""
        swapped = []
        for group, choices in enumerate(box.choices()):
            taken = [self.splits.setdefault((-1 - group, float(choice)), len(self.splits))
                     for choice in range(len(choices))]
            self._tie([(one, 1.0) for one in taken], 1.0, 1.0)
            swapped += taken[1:]
            for place, values in zip(box.moves.groups[group].places, choices.T, strict=True):
                for (feature, threshold), split in self.splits.items():
                    if feature == place:
                        below = [(one, -1.0) for one, is_low in zip(taken, values <= threshold) if is_low]
                        self._tie([(split, 1.0), *below], 0.0, 0.0)
        if swapped:
            self._tie([(one, 1.0) for one in swapped], 0.0, float(box.moves.most))

    def _tie(self, splits: list[tuple[int, float]], low: float, high: float) -> None:
        """Add low <= sum of shares of splits <= high."""
        self.entries += [(len(self.low), True, split, share) for split, share in splits]
        self.low.append(low)
        self.high.append(high)

    def solve(self, limits: _Limits, seconds: float) -> tuple[float, Array | None]:
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
    forest: Forest, contrast: Array, box: _Box, limits: _Limits, seconds: float
) -> tuple[float, Array | None]:
    """Return a lower bound of the lead over the box, and the input at which it is least, None if none was met."""
    program = _Program()
    for tree in forest.trees:
        leaves = program.walk(tree, tree.value @ contrast, box)
        program.constrain(leaves, None, 0.0, 1.0, 1.0)
    program.order()
    program.swap(box)
    bound, splits = program.solve(limits, seconds)
    bound += float(forest.offset @ contrast) - _hidden(forest, contrast)
    return bound, None if splits is None else _point(program, splits > 0.5, forest, box)


def _hidden(forest: Forest, contrast: Array) -> float:
    """Return what a lead may be off by: the solver's tolerances, and the rounding of the model's own sums."""
    largest = [float(np.abs(tree.value @ contrast).max()) for tree in forest.trees]
    size = float(np.abs(forest.offset) @ np.abs(contrast)) + sum(largest)
    return TOLERANCE * (sum(largest) + max(largest)) + (len(largest) + 4) * float(np.finfo(float).eps) * size


def _point(program: _Program, below: Mask, forest: Forest, box: _Box) -> Array:
    """Return the input nearest to x on the sides of the thresholds that the splits are on."""
    floor, ceiling = np.full(len(box.x), -np.inf), np.full(len(box.x), np.inf)
    for (feature, threshold), number in program.splits.items():
        if feature < 0:
            continue
        if below[number]:
            ceiling[feature] = min(ceiling[feature], threshold)
        else:
            floor[feature] = max(floor[feature], threshold)
    kind = np.float32 if forest.single else np.float64
    with np.errstate(over="ignore"):
        at_most = ceiling.astype(kind)
        at_most = np.where(at_most > ceiling, np.nextafter(at_most, kind(-np.inf)), at_most).astype(np.float64)
        above = floor.astype(kind)
        above = np.where(above <= floor, np.nextafter(above, kind(np.inf)), above).astype(np.float64)
    seen = forest.rounded(box.x)
    point = np.where(seen > ceiling, np.maximum(at_most, box.low), box.x)
    point = np.where(seen <= floor, np.minimum(above, box.high), point)
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
    for number, group in enumerate(box.moves.groups):
        options = np.vstack([box.x[group.places], group.choices])
        chosen = [choice for choice in range(len(options)) if below[program.splits[-1 - number, float(choice)]]]
        point[group.places] = options[chosen[0] if chosen else 0]
    return point
