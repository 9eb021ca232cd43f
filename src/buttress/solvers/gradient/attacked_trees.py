"""Boosted trees against rows that move in boxes.

    minimise over F = b + f_1 + ... + f_T    sum_i w_i max over F in [low_i, high_i] of loss(y_i, F)

low_i = b + sum_t min of f_t over the box of row i, and high_i likewise of the maxima. F(x) lies between both wherever
an attacker moves the row within its box, so this bounds the sum of the worst losses from above, and what it leaves
right is proven. Each tree is a step of Newton's method at the worse end of each interval.

A node sends a row to both sides where its box holds the threshold. There the attacker chooses: rows that pull upwards
go to the side of the smaller value, the others to that of the larger. Either side may be it, and both ways are summed
from the same four histograms: of the rows that can, and that must, go left, of either pull. Below, a row counts in
every node that it can reach.

Source: Andriushchenko & Hein, Provably robust boosted decision stumps and trees against adversarial attacks, NeurIPS
2019 (the bound, and a split's robust loss); Chen & Guestrin, XGBoost, KDD 2016, equations 5 to 7 (Newton's steps).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from buttress._checks import Array
from buttress._types import Rows
from buttress.solvers.run import Step, Steps
from buttress.trees import Forest, Tree

ALIKE = 1e-9  # relative difference of sums that rounding may have made


@dataclass(frozen=True)
class Growth:
    """How a tree grows: levels of splits, and what is added to the sum of second derivatives."""

    depth: int
    ridge: float


@dataclass(frozen=True)
class Grid:
    """Thresholds, and which of them rows can pass, by whole numbers.

    Parameters
    ----------
    thresholds : array of shape (d, k)
        Of each column in ascending order, inf behind the last.
    first : int array of shape (n, d)
        The first threshold at which a row can go left.
    last : int array of shape (n, d)
        The first threshold at which a row cannot go right.
    """

    thresholds: Array
    first: Rows
    last: Rows

    @classmethod
    def of(cls, low: Array, high: Array, most: int) -> "Grid":
        """Return at most ``most`` thresholds a column, between neighbouring ends of the boxes of the rows (n, d)."""
        columns = [_between(np.union1d(low[:, j], high[:, j]), most) for j in range(low.shape[1])]
        thresholds = np.full((len(columns), max(1, max(map(len, columns)))), np.inf)
        for j, column in enumerate(columns):
            thresholds[j, : len(column)] = column
        first, last = (np.stack([np.searchsorted(column, side[:, j]) for j, column in enumerate(columns)], axis=1)
                       for side in (low, high))
        return cls(thresholds, first, last)


def _between(ends: Array, most: int) -> Array:
    middle = ends[:-1] + (ends[1:] - ends[:-1]) / 2
    if len(middle) <= most:
        return middle
    return middle[np.linspace(0, len(middle) - 1, most).astype(np.intp)]


# (lower and upper ends of F, (n,) each) -> the sum of the worst losses, their slopes downwards, second derivatives
Newton = Callable[[Array, Array], tuple[float, Array, Array]]


def logistic(y: Array, weight: Array) -> Newton:
    """Return Newton's steps of w log(1 + exp(-y F)) at its worst, y in {-1, 1}."""

    def newton(low: Array, high: Array) -> tuple[float, Array, Array]:
        lead = np.where(y > 0, low, -high)
        wrong = expit(-lead)
        loss = float(weight @ np.logaddexp(0, -lead))
        # a leaf of sure rows stays defined
        return loss, weight * y * wrong, weight * np.maximum(wrong * (1 - wrong), 1e-16)

    return newton


def squared(y: Array, weight: Array) -> Newton:
    """Return Newton's steps of w (y - F)^2 / 2 at its worst."""

    def newton(low: Array, high: Array) -> tuple[float, Array, Array]:
        residual = np.where(y - low > high - y, y - low, y - high)
        return float(weight @ residual**2) / 2, weight * residual, weight

    return newton


def boosted(
    box: tuple[Array, Array], newtons: list[Newton], start: Array, contrasts: Array, growth: Growth, *, rate: float,
    rounds: int, bins: int
) -> Steps:
    """Yield forests, from none to ``rounds`` trees a score, with the bound of the worst losses.

    ``box`` holds the lower and upper ends (n, d) of the rows, ``newtons`` the losses of k scores, which start at (k,).
    """
    low, high = box
    grid = Grid.of(low, high, bins)
    k = len(newtons)
    forest = Forest([], contrasts, start)
    ends = [(np.full(len(low), each), np.full(len(low), each)) for each in start]
    for done in range(rounds + 1):
        pulls = [newton(*end) for newton, end in zip(newtons, ends, strict=True)]
        yield Step(forest, objective=sum(loss for loss, _, _ in pulls), done=done == rounds)
        trees = []
        for column, (_, g, h) in enumerate(pulls):
            tree = grown(grid, g, h, growth, rate)
            least, most = tree.ends(low, high, np.ones(1))
            ends[column] = (ends[column][0] + least, ends[column][1] + most)
            trees.append(tree.in_column(column, k))
        forest = Forest([*forest.trees, *trees], contrasts, start)


def grown(grid: Grid, g: Array, h: Array, growth: Growth, rate: float) -> Tree:
    """Return the tree that follows gradients g (n,) with second derivatives h (n,), each leaf's step times ``rate``."""
    nodes = [_Node()]
    waiting = [(nodes[0], np.arange(len(g)), grid.first, grid.last, 0)]
    while waiting:
        node, rows, first, last, level = waiting.pop()
        node.value = rate * float(g[rows].sum() / (h[rows].sum() + growth.ridge))
        split = best_split(grid, first, last, g[rows], h[rows], growth) if level < growth.depth else None
        if split is None:
            continue
        j, place = split
        node.feature, node.threshold = j, float(grid.thresholds[j, place])
        node.left, node.right = len(nodes), len(nodes) + 1
        left, right = _Node(), _Node()
        nodes += [left, right]
        low_side, high_side = first[:, j] <= place, last[:, j] > place
        last_left, first_right = last[low_side].copy(), first[high_side].copy()
        last_left[:, j] = np.minimum(last_left[:, j], place)
        first_right[:, j] = np.maximum(first_right[:, j], place + 1)
        waiting.append((left, rows[low_side], first[low_side], last_left, level + 1))
        waiting.append((right, rows[high_side], first_right, last[high_side], level + 1))
    return Tree(
        np.array([one.feature for one in nodes], dtype=np.intp), np.array([one.threshold for one in nodes]),
        np.array([one.left for one in nodes], dtype=np.intp), np.array([one.right for one in nodes], dtype=np.intp),
        np.array([[one.value] for one in nodes]))


@dataclass
class _Node:
    """A node of a tree while it grows, a leaf until it is split."""

    feature: int = 0
    threshold: float = np.inf
    left: int = -1
    right: int = -1
    value: float = 0.0


def best_split(
    grid: Grid, first: Rows, last: Rows, g: Array, h: Array, growth: Growth
) -> tuple[int, int] | None:
    """Return the column and the place of the threshold of most gain under attack, None where none gains.

    The gain of values l and r is that of Newton's model, where rows on both sides get the worse value for them. Of
    gains that are equal up to rounding the first is taken, whatever the order of the rows.
    """
    places = grid.thresholds.shape[1]
    up = g > 0
    sums = [[_up_to(reach, weight * side, places) for reach in (first, last) for side in (up, ~up)]
            for weight in (g, h)]
    g_all, h_all = float(g.sum()), float(h.sum())
    least = ALIKE * h_all  # a side of less may hold no row at all, only what the rounding of sums left
    gains = []
    for smaller_left in (True, False):
        # rows that pull upwards are sent to the smaller value where they can, the others to the larger
        g_left, h_left = ((can_up + must_down) if smaller_left else (must_up + can_down)
                          for can_up, can_down, must_up, must_down in sums)
        g_right, h_right = g_all - g_left, h_all - h_left
        with np.errstate(divide="ignore", invalid="ignore"):
            left, right = g_left / (h_left + growth.ridge), g_right / (h_right + growth.ridge)
            gain = g_left * left + g_right * right - g_all**2 / (h_all + growth.ridge)
        allowed = (left <= right) if smaller_left else (left >= right)
        allowed &= (h_left > least) & (h_right > least) & np.isfinite(grid.thresholds)
        gains.append(np.where(allowed, gain, -np.inf).ravel())
    gain = np.maximum(*gains)
    if gain.max() <= 1e-12 * float(g @ g):  # below, rounding decides
        return None
    at = int((gain >= (1 - ALIKE) * gain.max()).argmax())
    return at // places, at % places


def _up_to(places: Rows, weight: Array, k: int) -> Array:
    """Return the sums (d, k) of the weights of rows whose place in a column is at most 0, 1, ..., k - 1."""
    d = places.shape[1]
    cells = (places + np.arange(d) * (k + 1)).ravel()
    sums = np.bincount(cells, np.repeat(weight, d), minlength=d * (k + 1)).reshape(d, k + 1)
    return np.cumsum(sums[:, :k], axis=1)
