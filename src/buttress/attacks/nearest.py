"""Attacks that look for the nearest misclassified input: Carlini & Wagner with gradients, ZOO with scores alone.

Both minimise, for a row x0 and over x in a box,

    ||x - x0||^2 + c max(margin(x), -kappa)

by Adam, and search for the weight c: halving it where that succeeded, raising it where it did not.

Sources: Carlini & Wagner (IEEE S&P 2017); Chen, Zhang, Sharma, Yi & Hsieh (AISec 2017) for ZOO.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from buttress._arrays import namespace
from buttress._checks import Array, check_count, check_number
from buttress._types import BoundsLike, Mask, MatrixLike, RandomStateLike, Rng, Rows, VectorLike
from buttress.attacks.ball import Ball
from buttress.attacks.chain import Pullback
from buttress.attacks.gradient import generator
from buttress.attacks.problem import AttackProblem, Closest, pose
from buttress.attacks.targets import Target
from buttress.scores import Scorable

ANYWHERE = Ball(np.inf, "l2")
LEAST = 1e-12  # margin and squared slope that count as none
# Adam's usual constants: what the running means keep, and the least size to divide by
MEAN_KEPT = 0.9
SQUARE_KEPT = 0.999

EVERY = slice(None)  # column

# (rows, their gradients, contrasts, which are still in the way of success) -> columns (B,), the margin's slopes (b, B)
Slope = Callable[[Array, Pullback, Array, Mask], tuple[Rows | slice, Array]]


def carlini_wagner(
    model: Scorable,
    X: MatrixLike,
    y: VectorLike,
    *,
    bounds: BoundsLike | None = None,
    kappa: float = 0.0,
    steps: int = 100,
    rounds: int = 9,
    learning_rate: float | None = None,
    random_state: RandomStateLike = None,
    device: str | None = None,
    return_info: bool = False,
) -> Any:
    """Carlini & Wagner's attack in the l2 norm, without a limit of distance: finds near misclassified inputs.

    Parameters
    ----------
    model, X, y, bounds, device, return_info
        As in :func:`pgd`; the distances reported are l2.
    kappa : float, default=0.0
        Margin by which a row must be misclassified, >= 0.
    steps, rounds : int
        Adam steps per round, and rounds of the search for c. The first c is the right one for a linear model.
    learning_rate : float or None
        Of Adam, in units of X; default 1% of the width of the box, or of the range of X where there is no box.
    random_state : int, RandomState or None
        Rows for which nothing was found start the next round from a random point, farther away each time.

    Returns
    -------
    Array, or for a model fitted on column names a frame, shaped like X: the nearest misclassified inputs, moved back
    towards the original row as far as they stay misclassified. If none was found for a row, the input with the smallest
    margin. With ``return_info=True`` also an :class:`AttackInfo`.

    Raises
    ------
    ValueError
        As in :func:`pgd`, and for kappa < 0.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import SVC, attacks
    >>> X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> model = SVC(kernel="linear").fit(X, y)
    >>> info = attacks.carlini_wagner(model, X, y, return_info=True)[1]
    >>> info.distance.round(3)
    array([1., 1.])
    """
    closest = along_gradients(pose(model, X, y, bounds, device), generator(random_state), kappa=kappa, steps=steps,
                              rounds=rounds, learning_rate=learning_rate)
    return closest.report(ANYWHERE, return_info)


def along_gradients(
    problem: AttackProblem, rng: Rng, *, kappa: float = 0.0, steps: int = 100, rounds: int = 9,
    learning_rate: float | None = None,
) -> Closest:
    """Return what :func:`carlini_wagner` meets."""
    closest = Closest(problem, check_number("kappa", kappa, 0, closed="left"))

    def slope(x: Array, gradient: Pullback, contrast: Array, active: Mask) -> tuple[slice, Array]:
        closest.queries += len(x) * problem.target.gradient_cost
        return EVERY, gradient(contrast)

    _search(closest, slope, steps, rounds, learning_rate, rng)
    return closest


def zoo(
    model: Scorable,
    X: MatrixLike,
    y: VectorLike,
    *,
    bounds: BoundsLike | None = None,
    kappa: float = 0.0,
    steps: int = 300,
    rounds: int = 3,
    coordinates: int = 128,
    learning_rate: float | None = None,
    h: float | None = None,
    random_state: RandomStateLike = None,
    device: str | None = None,
    return_info: bool = False,
) -> Any:
    """Zeroth order optimisation: Carlini & Wagner's attack by score differences along random coordinates.

    All rows and coordinates of a step are scored at once. For kernel expansions each costs O(m) instead of O(m d)
    operations, because a step along one coordinate changes all distances by known amounts.

    Parameters
    ----------
    model, X, y, bounds, kappa, rounds, learning_rate, device, return_info
        As in :func:`carlini_wagner`.
    steps : int
        Adam steps per round, each along ``coordinates`` random coordinates (or all, if there are fewer), with two
        queries for each coordinate. Rows that are misclassified at the moment cost no queries.
    h : float or None
        Half the length of a finite difference, in units of X; default 1e-4 of the width of the box or of the range of
        X. Use a larger value for models that compute in float32, and for trees, whose scores are flat between
        thresholds.
    random_state : int, RandomState or None
        Of the coordinates, and of new starts.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import SVC, attacks
    >>> X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> model = SVC(kernel="linear").fit(X, y)
    >>> info = attacks.zoo(model, X, y, random_state=0, return_info=True)[1]
    >>> info.distance.round(3)
    array([1., 1.])
    """
    closest = along_coordinates(pose(model, X, y, bounds, device), generator(random_state), kappa=kappa, steps=steps,
                                rounds=rounds, coordinates=coordinates, learning_rate=learning_rate, h=h)
    return closest.report(ANYWHERE, return_info)


def along_coordinates(
    problem: AttackProblem, rng: Rng, *, kappa: float = 0.0, steps: int, rounds: int, coordinates: int = 128,
    learning_rate: float | None, h: float | None,
) -> Closest:
    """Return what :func:`zoo` meets."""
    closest = Closest(problem, check_number("kappa", kappa, 0, closed="left"))
    d = problem.X.shape[1]
    width = problem.width * 0 + check_number("h", h, 0) if h is not None else 1e-4 * problem.width
    count = min(d, check_count("coordinates", coordinates))

    def slope(x: Array, gradient: Pullback, contrast: Array, active: Mask) -> tuple[Rows, Array]:
        columns = problem.place(rng.permutation(d)[:count])  # of all rows, so that the model sees few columns move
        closest.queries += 2 * count * int(active.sum())
        return columns, _differences(problem.target, x, contrast, columns, width[columns], active)

    _search(closest, slope, steps, rounds, learning_rate, rng,
            per_row=1 if problem.target.separable else 2 * count)
    return closest


def _differences(target: Target, x: Array, contrast: Array, columns: Rows, h: Array, active: Mask) -> Array:
    """Return the slopes (b, B) of the contrasted scores along the columns, 0 for rows that are not active."""
    xp = namespace(x)
    rows = xp.argwhere(active)[:, 0]
    g = 0 * x[:, columns]
    if len(rows):
        pairs = xp.concatenate([columns, columns])
        steps = 0 * x[rows][:, pairs] + xp.concatenate([h, -h])
        leads = target.nudged(x[rows], xp.stack([pairs] * len(rows)), steps, contrast[rows])
        g[rows] = (leads[:, : len(h)] - leads[:, len(h) :]) / (2 * h)
    return g


class _Adam:
    """Adam with a step count for each entry, so that entries can be moved in turn (beta .9 and .999)."""

    def __init__(self, X: Array, rate: Array):
        self.mean = 0 * X
        self.square = 0 * X
        self.count = 0 * X
        self.rate = rate

    def step(self, w: Array, columns: Rows | slice, g: Array) -> None:
        """Move w (b, d) against the gradient g of its columns (b, B)."""
        at = (EVERY, columns)
        mean = self.mean[at] = MEAN_KEPT * self.mean[at] + (1 - MEAN_KEPT) * g
        square = self.square[at] = SQUARE_KEPT * self.square[at] + (1 - SQUARE_KEPT) * g**2
        count = self.count[at] = self.count[at] + 1
        size = namespace(w).sqrt(square / (1 - SQUARE_KEPT**count)) + 1e-8
        w[at] -= self.rate[columns] * (mean / (1 - MEAN_KEPT**count)) / size


def _search(
    closest: Closest, slope: Slope, steps: int, rounds: int, learning_rate: float | None, rng: Rng,
    per_row: int = 1,
) -> None:
    """Search for c row by row (all rows of a block together), then draw what was found back towards the rows."""
    problem, xp = closest.problem, closest.problem.place.xp
    steps, rounds = check_count("steps", steps), check_count("rounds", rounds)
    rate = (0.01 * problem.width if learning_rate is None
            else 0 * problem.width + check_number("learning_rate", learning_rate, 0))
    for rows in problem.blocks(per_row):
        X, c = problem.X[rows], None
        low, high = (problem.place(np.full(len(rows), end)) for end in (0.0, np.inf))
        for number in range(rounds):
            # of the box, a standard deviation more in each round
            away = 0.1 * number * problem.width * problem.place(rng.normal(size=X.shape))
            start = problem.clip(rows, xp.where(xp.isfinite(high)[:, None], X, X + away))
            c, hit = _round(closest, rows, start, slope, steps, rate, c)
            high = xp.where(hit, xp.minimum(high, c), high)
            low = xp.where(hit, low, xp.maximum(low, c))
            # c rises tenfold where nothing was found (Carlini & Wagner)
            c = xp.where(xp.isfinite(high), (low + xp.minimum(high, c)) / 2, 10 * c)
        _draw_back(closest, rows)


def _round(
    closest: Closest, rows: Rows, start: Array, slope: Slope, steps: int, rate: Array, c: Array | None
) -> tuple[Array, Mask]:
    """Descend from ``start`` with weights c (None: those of a linear model); return c and who succeeded."""
    problem = closest.problem
    X = problem.X[rows]
    moved, adam = start + 0, _Adam(X, rate)
    hit = problem.place(np.zeros(len(rows), dtype=bool))
    for _ in range(steps):
        x = problem.clip(rows, moved)
        scores, gradient = problem.target.linearise(x)
        margin, contrast, wrong = closest.see(rows, x, scores)
        active = ~wrong | (margin > -closest.kappa)
        hit |= ~active
        columns, g = slope(x, gradient, contrast, active)
        closest.slope(rows, g)
        if c is None:  # 2 margin / |gradient|^2 would just do for a linear model; g may hold some of its slopes only
            c = 2 * margin.clip(LEAST, None) / ((g**2).sum(axis=1) * X.shape[1] / g.shape[1]).clip(LEAST, None)
        adam.step(moved, columns, 2 * (x - X)[:, columns] + (c * active)[:, None] * g)
    assert c is not None  # steps >= 1
    return c, hit


def _draw_back(closest: Closest, rows: Rows) -> None:
    """Bisect the line from each row to what was found for it for the nearest point that is still misclassified."""
    rows = rows[closest.wrong[rows] & (closest.distance[rows] > 0)]
    if not len(rows):
        return
    xp = closest.problem.place.xp
    X = closest.problem.X[rows]
    found = closest.X[rows]
    low, high = (closest.problem.place(np.full(len(rows), end)) for end in (0.0, 1.0))
    for _ in range(20):  # to a millionth of its length
        middle = (low + high) / 2
        x = X + middle[:, None] * (found - X)
        margin, _, wrong = closest.see(rows, x, closest.problem.target.scores(x))
        hit = wrong & (margin <= -closest.kappa)
        low = xp.where(hit, low, middle)
        high = xp.where(hit, middle, high)
