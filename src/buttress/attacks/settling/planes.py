"""The worst input of linear models, in closed form.

The lead w'x + b is least at x - eps sign(w) (l_inf), clipped to the box, or at x - eps w / |w| (l_2), with a box at the
clip of x - t w for the t at which the length is eps. With one eps a column the same holds of moves in units of their
columns. Swaps add to it, so that the worst k are those that lower it most. The bound is lowered by what rounding may
change in that input, and in the leads that the model computes around it.
"""

from typing import Any

import numpy as np

from buttress._checks import Array
from buttress.attacks.ball import Ball
from buttress.attacks.problem import Worst
from buttress.attacks.targets import ExpansionTarget
from buttress.kernels import Linear
from buttress.scores import ScoreFunction
from buttress.threats import Moves
from buttress.trees import NAMES

HALVINGS = 100


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
        W = target.linearise(problem.X).gradient(V)
        start = _steepest_swaps(problem.X, W, moves)
        moved = _most_moved(_steepest(start, moves.box(start, rows), W, ball), start, W, moves)
        lead = np.einsum("ik,ik->i", V, target.scores(moved))
        bound = np.minimum(bound, lead - _hidden(target.exact, V, problem.X, moved))
        moved = moves.stepped(moved, start)
        worst.see(rows, moved, target.scores(moved))
    return bound


def _hidden(score: ScoreFunction, V: Array, X: Array, moved: Array) -> Array:
    """Return what rounding may change in the leads V (n, k) at moved rows: 4 shares of the sizes of what they sum."""
    held: Any = score.expansion
    steep = np.abs(held.coef).T @ np.abs(held.centers) + (0 if held.linear is None else np.abs(held.linear).T)
    reach = np.abs(score.inner(X)) + np.abs(score.inner(moved)) + 2 * np.abs(score.origin * score.scale)
    sizes = np.einsum("ik,kj,ij->i", np.abs(V), steep, reach) + np.abs(V) @ np.abs(held.intercept)
    return np.asarray(4 * (sum(held.centers.shape) + 16) * np.finfo(X.dtype).eps * sizes)


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
