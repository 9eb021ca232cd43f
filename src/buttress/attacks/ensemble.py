"""The worst of several attacks within one ball, so that no single weak one is taken for robustness."""

from typing import Any

from numpy.typing import ArrayLike

from buttress._checks import check_count
from buttress._types import BoundsLike, MatrixLike, RandomStateLike, Rng, Rows, VectorLike
from buttress.attacks.ball import Ball, direction
from buttress.attacks.gradient import REACH, descend, generator, starts_at_others, walk_to_rivals
from buttress.attacks.joint import attacked
from buttress.attacks.nearest import along_coordinates, along_gradients
from buttress.attacks.problem import Worst
from buttress.scores import Scorable
from buttress.threats import ThreatModel


def worst_case(
    model: Scorable,
    X: MatrixLike,
    y: VectorLike,
    *,
    eps: ArrayLike | None = None,
    norm: str = "linf",
    bounds: BoundsLike | None = None,
    threat: ThreatModel | None = None,
    steps: int = 100,
    restarts: int = 5,
    random_state: RandomStateLike = None,
    device: str | None = None,
    return_info: bool = False,
) -> Any:
    """Run all attacks of an ensemble, and return the worst rows found.

    Each attack works on the rows that are still classified correctly after the ones before.

    In turn: a single step; projected descent from the row and from random points, with long and with short steps;
    within smaller radii; from the points of the ball nearest to rows of another class; on the margin against each
    rival; for ``norm="l2"`` Carlini & Wagner; for models with gradients by finite differences ZOO with wide
    differences; and random corners of the ball, which work where gradients are flat. All attack margins, which exist
    for two classes too; the loss ratio of other ensembles (DLR) needs four classes.

    Parameters
    ----------
    model, X, y, eps, norm, bounds, threat, random_state, device, return_info
        As in :func:`pgd`.
    steps : int
        Steps of each descent.
    restarts : int
        Starts of each descent: the first from X, the others random in the ball.

    Returns
    -------
    Array, or for a model fitted on column names a frame, shaped like X, and an :class:`AttackInfo` with
    ``return_info=True``. The accuracy under attack is ``1 - info.success.mean()``.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import SVC, attacks
    >>> X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> model = SVC(kernel="linear").fit(X, y)
    >>> [attacks.worst_case(model, X, y, eps=eps, return_info=True)[1].success.mean() for eps in (0.9, 1.1)]
    [np.float64(0.0), np.float64(1.0)]
    """
    steps, restarts = check_count("steps", steps), check_count("restarts", restarts)

    def search(worst: Worst, ball: Ball) -> None:
        problem, radius, rng = worst.problem, ball.radius, generator(random_state)
        for rows in problem.blocks():
            descend(worst, rows, problem.X[rows], ball, 1, radius)
            for start in range(restarts):
                for length in (REACH * radius / steps, radius / 4):  # long steps leave flat places
                    _descend_standing(worst, rows, ball, steps, min(radius, length), rng if start else None)
            # it may be flat at radius
            for share in (1 / 4, 1 / 16, 1 / 64) if problem.target.gradient_cost == 1 else ():
                _descend_standing(worst, rows, ball.shrunk(share), steps, REACH * share * radius / steps, None)
            _try_others(worst, rows, ball, steps)
            walk_to_rivals(worst, rows, ball, steps, min(radius, REACH * radius / steps))
            for _ in range(10 * restarts):  # random corners
                _jump(worst, rows, ball, rng)
        _try_nearest(worst, ball, rng)

    return attacked(search, model, X, y, eps=eps, norm=norm, bounds=bounds, threat=threat, device=device,
                    return_info=return_info)


def _descend_standing(
    worst: Worst, rows: Rows, ball: Ball, steps: int, length: float, rng: Rng | None
) -> None:
    """Descend on the rows not yet wrong, from a random point with ``rng``."""
    problem, rows = worst.problem, rows[~worst.wrong[rows]]
    moved = problem.X[rows]
    if rng is not None:
        moved = problem.clip(rows, moved + ball.draw(rng, tuple(moved.shape), problem.place))
    descend(worst, rows, moved, ball, steps, length)


def _try_others(worst: Worst, rows: Rows, ball: Ball, steps: int) -> None:
    """Start at the points of the balls nearest to rows of another class; walk on from the first where that is cheap."""
    problem, rows = worst.problem, rows[~worst.wrong[rows]]
    if not len(rows):
        return
    for rank, moved in enumerate(starts_at_others(problem, rows, ball, 10)):  # rows of another class
        standing = ~worst.wrong[rows]
        if rank < 3 and problem.target.gradient_cost == 1:  # of them, from how many to walk on
            descend(worst, rows[standing], moved[standing], ball, steps, REACH * ball.radius / steps)
        else:
            worst.meet(rows[standing], moved[standing])


def _jump(worst: Worst, rows: Rows, ball: Ball, rng: Rng) -> None:
    """Score one random point on the border of the ball around each row that is still classified correctly."""
    problem, rows = worst.problem, rows[~worst.wrong[rows]]
    X = problem.X[rows]
    delta = problem.place(ball.radius * direction(rng.normal(size=X.shape), ball.norm)) * ball.columns
    worst.meet(rows, problem.clip(rows, X + delta))


def _try_nearest(worst: Worst, ball: Ball, rng: Rng) -> None:
    """Try the nearest misclassified inputs that the unlimited attacks find, cut off at the ball."""
    problem = worst.problem
    rows = problem.place.xp.argwhere(~worst.wrong)[:, 0]
    if ball.radius == 0 or not len(rows):
        return
    found = []
    near = problem.around(rows, problem.X[rows], problem.low[rows], problem.high[rows])
    if ball.norm == "l2" and bool(worst.sloped.any()):
        found.append(along_gradients(near, rng))
    if problem.target.gradient_cost > 1:
        # differences over a whole radius are wide enough to cross the thresholds of trees
        found.append(along_coordinates(near, rng, steps=50, rounds=2, h=ball.radius / 2,
                                       learning_rate=ball.radius / 5))
    for closest in found:
        worst.queries += closest.queries
        worst.meet(rows, problem.clip(rows, near.X + ball.project(closest.X - near.X)))
