"""The exact attack: an input that a threat allows and that is misclassified, or the proof that there is none.

Of linear models the worst input is known in closed form. The lead w'x + b is least at x - eps sign(w) (l_inf), clipped
to the box, or at x - eps w / |w| (l_2), with a box at the clip of x - t w for the t at which the length is eps. With
one eps a column the same holds of moves in units of their columns. Swaps add to it, so that the worst k are those that
lower it most. The bound is lowered by what rounding may change in that input, and in the leads that the model computes
around it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from buttress._checks import Array, check_number
from buttress._proof import sum_error
from buttress._types import BoundsLike, Mask, MatrixLike, VectorLike
from buttress.attacks.ball import Ball
from buttress.attacks.joint import posed
from buttress.attacks.problem import AttackInfo, Worst
from buttress.attacks.settling.program import ProgramLimits, least_of_trees
from buttress.attacks.targets import ExpansionTarget
from buttress.kernels import Linear
from buttress.scores import Scorable, ScoreFunction
from buttress.threats import Moves, ThreatModel
from buttress.trees import NAMES, read_forest

HALVINGS = 100  # of a bracket, after 53 of which no float64 lies between its ends


def least_of_planes(worst: Worst, ball: Ball, moves: Moves) -> Array:
    """Show ``worst`` the least lead over each rival, and return the least of them, (n,)."""
    problem, target = worst.problem, worst.problem.target
    if not (isinstance(target, ExpansionTarget) and isinstance(target.expansion.kernel, Linear)):
        raise ValueError(f"No exact attack is known for {type(problem.model).__name__}. Use a linear model, or "
                         f"{NAMES}; worst_case takes any classifier.")
    if moves.limited and moves.norm == "l2":
        raise ValueError("At most so many numbers of an ellipsoid are not settled exactly. Use norm='linf', or pgd and "
                         "certificates.certified_within.")
    rows, bound = np.arange(len(problem.X)), np.full(len(problem.X), np.inf)
    contrasts = target.contrasts[problem.codes]
    for rival in range(contrasts.shape[1]):
        V = contrasts[:, rival]
        W = target.linearise(problem.X)[1](V)
        start = _steepest_swaps(problem.X, W, moves)
        moved = _most_moved(_steepest(start, moves.box(start, rows), W, ball), start, W, moves)
        lead = np.einsum("ik,ik->i", V, target.scores(moved))
        bound = np.minimum(bound, lead - _hidden(target.exact, V, problem.X, moved))
        worst.meet(rows, moves.stepped(moved, start))
    return bound


def _hidden(score: ScoreFunction, V: Array, X: Array, moved: Array) -> Array:
    """Return what rounding may change in the leads V (n, k) at moved rows: 4 shares of the sizes of what they sum."""
    held: Any = score.expansion
    steep = np.abs(held.coef).T @ np.abs(held.centers) + (0 if held.linear is None else np.abs(held.linear).T)
    reach = np.abs(score.inner(X)) + np.abs(score.inner(moved)) + 2 * np.abs(score.origin * score.scale)
    sizes = np.einsum("ik,kj,ij->i", np.abs(V), steep, reach) + np.abs(V) @ np.abs(held.intercept)
    return np.asarray(4 * sum_error(sum(held.centers.shape), float(np.finfo(X.dtype).eps)) * sizes)


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


def _most_moved(moved: Array, start: Array, W: Array, moves: Moves) -> Array:
    """Return the rows with only those of their numbers moved that lower w'x most, of independent moves."""
    if not moves.limited:
        return moved
    falls = W * (start - moved)
    rank = np.argsort(np.argsort(-falls, axis=1, kind="stable"), axis=1)
    swapped = np.isin(np.arange(start.shape[1]), moves.moving, invert=True)
    return np.where((rank < moves.most_moved) | swapped, moved, start)


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
class ExactInfo(AttackInfo):
    """What an exact attack achieved, per row.

    Parameters
    ----------
    bound : array of shape (n,)
        No input of the ball has a smaller lead of the label over any rival, in the units of the model's scores
        (probabilities of forests); -inf where the model was wrong from the start.
    proven : bool array of shape (n,)
        Whether the row is settled: broken, or proven to stand. False where the time was up, or rounding may hide it.
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
    max_row_time: float = 10.0,
    max_work: float | None = None,
    return_info: bool = False,
) -> Any:
    """Find a misclassified input of each ball, or prove that there is none: trees (l_inf) and linear models.

    Parameters
    ----------
    model : fitted classifier
        scikit-learn's decision tree, random forest, extremely randomised trees, bagged trees or (histogram) gradient
        boosting; LightGBM's or XGBoost's classifier on numbers; a regressor of these kinds fitted to -1 and +1, used by
        its sign; or a linear model of scikit-learn or of this package. Each may be in a pipeline after scalers.
    X, y, eps, norm, bounds, threat, return_info
        As in :func:`pgd`; trees take ``norm="linf"`` only. Swaps and moves of a threat are searched together.
    max_row_time : float
        Most seconds for each row, for the mixed-integer programs of trees.
    max_work : float or None
        For trees, a limit of work that is the same on any machine: leaves that a box reaches times nodes of branch and
        bound in the programs, for all rows together; about a tenth of a millisecond each. Before a program 3,000 parts
        of the box are searched, which takes a few milliseconds and decides most rows.

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
    worst, ball, moves = posed(model, X, y, eps, norm, bounds, threat)
    limits = ProgramLimits(check_number("max_row_time", max_row_time, 0), np.inf if max_work is None else max_work)
    problem, rows = worst.problem, np.arange(len(worst.X))
    worst.meet(rows, problem.X.copy())
    worst.sloped[:] = True  # it follows no slopes
    forest = read_forest(problem.model, problem.X)
    if forest is None:
        bound = least_of_planes(worst, ball, moves)
    elif moves.norm == "l2":
        raise ValueError("Trees are attacked exactly for norm='linf' only. Got 'l2'. Use worst_case.")
    else:
        bound = least_of_trees(worst, forest, moves, limits)
    found, info = worst.report(ball)
    proven = info.success | (bound > 0)
    settled = ExactInfo(info.success, info.margin, info.distance, info.queries, ~proven, bound, proven)
    return (found, settled) if return_info else found
