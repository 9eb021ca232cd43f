"""Where to start an attack: at the nearest rows that the model puts in another class, brought into the ball.

Gradients of narrow kernels vanish before they point anywhere, and those of neighbours and trees are 0. Rows of another
class are known points of the right kind; so is the point of the ball nearest to one.
"""

from collections.abc import Iterator

import numpy as np
from scipy.spatial.distance import cdist

from buttress._arrays import to_numpy
from buttress._checks import Array
from buttress._types import Rows
from buttress.attacks.ball import Ball
from buttress.attacks.problem import Problem
from buttress.attacks.targets import ExpansionTarget
from buttress.expansion import winners

MOST_ROWS = 2000  # candidates at most, half of them rows of the model's


def starts_at_others(problem: Problem, rows: Rows, ball: Ball, count: int) -> Iterator[Array]:
    """Yield versions of the rows (r, d) in their balls, nearest to a row of another class, the nearest first.

    Candidates are the rows the model keeps (its centres, or neighbours) and those attacked. Nothing is yielded where
    the model puts all of them in one class.
    """
    others = _candidates(problem)
    codes = to_numpy(winners(problem.target.scores(problem.place(others)), problem.target.contrasts))
    X, labels = to_numpy(problem.X[rows]), to_numpy(problem.codes[rows])
    apart = _apart(X, others, ball)
    apart[labels[:, None] == codes] = np.inf
    nearest = np.argsort(apart, axis=1)[:, :count]
    for rank in range(nearest.shape[1]):
        chosen = nearest[:, rank]
        known = np.isfinite(apart[np.arange(len(X)), chosen])
        if not known.any():
            return
        target = np.where(known[:, None], others[chosen], X)
        delta = ball.project(problem.place(target - X))
        yield problem.clip(rows, problem.X[rows] + delta)


def _apart(X: Array, others: Array, ball: Ball) -> Array:
    """Return the distances of rows from others in the ball's norm, columns that stay left out."""
    if ball.columns is not None:
        columns = to_numpy(ball.columns)[0]
        moving = columns > 0
        X, others = (rows[:, moving] / columns[moving] for rows in (X, others))
    return cdist(X, others, "chebyshev" if ball.norm == "linf" else "euclidean")


def _candidates(problem: Problem) -> Array:
    """Return rows of the model and of the batch, (c, d)."""
    own, batch = _rows_of(problem), to_numpy(problem.X).astype(np.float64)
    if own is None:
        return batch[:MOST_ROWS]
    return np.vstack([own[: MOST_ROWS // 2], batch[: MOST_ROWS // 2]])


def _rows_of(problem: Problem) -> Array | None:
    """Return the rows that a model keeps, in the units of X: centres of an expansion or rows of a neighbours model."""
    target = problem.target
    width = problem.X.shape[1]
    if isinstance(target, ExpansionTarget):
        scale, shift = (np.asarray(to_numpy(part)) for part in (target.exact.scale, target.exact.shift))
        rows: Array = to_numpy(target.expansion.centers) / scale + shift
    else:
        rows = getattr(problem.model, "_fit_X", np.empty(0))
    known = isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.shape[1] == width and len(rows) > 0
    return rows.astype(np.float64) if known else None
