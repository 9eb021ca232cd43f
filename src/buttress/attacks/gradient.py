"""Gradient attacks: the fast gradient sign method, and projected gradient descent on the margin.

They start at the row, at random points, and where the ball is nearest to rows that the model puts in another class:
gradients of narrow kernels vanish before they point anywhere, and those of trees are 0.

Sources: Goodfellow, Shlens & Szegedy (ICLR 2015) for FGSM, Madry et al. (ICLR 2018) for PGD.
"""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from buttress._arrays import to_numpy
from buttress._checks import Array, check_count, check_number
from buttress._types import BoundsLike, MatrixLike, RandomStateLike, Rng, Rows, VectorLike
from buttress.attacks.ball import Ball
from buttress.attacks.joint import attacked
from buttress.attacks.problem import AttackProblem, Met, Worst
from buttress.attacks.targets import ExpansionTarget
from buttress.expansion import winners
from buttress.scores import Scorable
from buttress.threats import ThreatModel

REACH = 2.5  # radii that all steps of a descent reach together, so that it can turn (Madry et al. 2018)
MOST_ROWS = 2000  # rows of other classes to start at, half of them rows of the model's


def fgsm(
    model: Scorable,
    X: MatrixLike,
    y: VectorLike,
    *,
    eps: ArrayLike | None = None,
    norm: str = "linf",
    bounds: BoundsLike | None = None,
    threat: ThreatModel | None = None,
    device: str | None = None,
    return_info: bool = False,
) -> Any:
    """Fast gradient sign method: one step of length ``eps`` down the margin, or the original row if that is no worse.

    Parameters as in :func:`pgd`. Returns perturbed rows shaped like X, and an :class:`AttackInfo` with
    ``return_info=True``.
    """
    return pgd(model, X, y, eps=eps, norm=norm, bounds=bounds, threat=threat, steps=1, device=device,
               return_info=return_info)


def pgd(
    model: Scorable,
    X: MatrixLike,
    y: VectorLike,
    *,
    eps: ArrayLike | None = None,
    norm: str = "linf",
    bounds: BoundsLike | None = None,
    threat: ThreatModel | None = None,
    steps: int = 40,
    step_size: float | None = None,
    restarts: int = 1,
    random_state: RandomStateLike = None,
    device: str | None = None,
    return_info: bool = False,
) -> Any:
    """Projected gradient descent on the margin within a ball and a box; the worst iterate is returned.

    Parameters
    ----------
    model : fitted classifier
        With ``decision_function`` or ``predict_proba``.
    X : array of shape (n, d)
        Classifiers with exact gradients are attacked in its precision, float32 or float64; float32 is about twice as
        fast. Results are always judged in float64.
    y : array of shape (n,)
        The labels to attack.
    eps : float or array of shape (d,) or (1, d)
        Radius of the ball around each row, >= 0, in the units of X; one number, or one for each column. For "l2" the
        ball is then the ellipsoid sum_j (d_j / eps_j)^2 <= 1. A column of radius 0 stays.
    norm : {"linf", "l2"}
    bounds : (low, high) or None
        Box of allowed inputs: numbers, or arrays that broadcast to X. It must contain X.
    threat : ThreatModel or None
        What may be done to each column, instead of eps, norm and bounds: budgets of numbers and swaps of categories.
        The numbers are then moved around the worst swaps.
    steps, step_size, restarts : int, float or None, int
        Steps for each start; their length (default 2.5 eps / steps, at most eps; with one eps for each column it is
        that of the widest column, the others in proportion); and starts: the first from X, the second from the point of
        the ball nearest to a row of another class, the others random in the ball. With more than two classes, rows that
        are still right are then attacked towards each rival in turn. If gradients are exact, rows that stay right
        although the gradient says that a quarter of the radius is enough are also attacked within smaller radii.
    random_state : int, RandomState or None
        Of the random starts.
    device : str or None
        Compute with torch on this device, such as "cuda" (``pip install buttress[torch]``); None is numpy. Only for
        classifiers with exact gradients, radial kernels and those of an inner product. Arrays go in and come out as
        numpy's.
    return_info : bool
        Return ``(perturbed, AttackInfo)``.

    Raises
    ------
    ValueError
        For eps < 0, a box that excludes rows of X, labels that the model does not know, or a model without scores.

    Warns
    -----
    UserWarning
        If no score changed near any row, so the attack learned nothing, or if eps seems to be for another scale of X.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import SVC, attacks
    >>> X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> model = SVC(kernel="linear").fit(X, y)
    >>> found, info = attacks.pgd(model, X, y, eps=0.25, return_info=True)
    >>> found
    array([[-0.75],
           [ 0.75]])
    >>> info.margin.round(6), info.success
    (array([0.75, 0.75]), array([False, False]))
    """
    steps, restarts = check_count("steps", steps), check_count("restarts", restarts)
    given = None if step_size is None else check_number("step_size", step_size, 0, closed="left")

    def search(worst: Worst, ball: Ball) -> None:
        problem, rng = worst.problem, generator(random_state)
        length = min(ball.radius, REACH * ball.radius / steps) if given is None else given
        for rows in problem.blocks():
            for start in range(restarts):
                descend(worst, rows, _start(problem, rows, start, ball, rng), ball, steps, length)
            if steps > 1:
                walk_to_rivals(worst, rows, ball, steps, length)
                if problem.target.gradient_cost == 1:
                    walk_shorter(worst, rows, ball, steps, length)

    return attacked(search, model, X, y, eps=eps, norm=norm, bounds=bounds, threat=threat, device=device,
                    return_info=return_info)


def _start(problem: AttackProblem, rows: Rows, start: int, ball: Ball, rng: Rng) -> Array:
    """Return where the first, the second or a later descent starts."""
    X = problem.X[rows]
    if start == 0:
        return X
    if start == 1:
        other = next(starts_at_others(problem, rows, ball, 1), None)
        if other is not None:
            return other
    return problem.clip(rows, X + ball.draw(rng, tuple(X.shape), problem.place))


def starts_at_others(problem: AttackProblem, rows: Rows, ball: Ball, count: int) -> Iterator[Array]:
    """Yield versions of the rows (r, d) in their balls, nearest to a row of another class, the nearest first.

    Candidates are the rows the model keeps (its centres, or neighbours) and those attacked. Nothing is yielded where
    the model puts all of them in one class.
    """
    others = _candidates(problem)
    codes = to_numpy(winners(problem.target.scores(problem.place(others)), problem.target.contrasts))
    X, labels = to_numpy(problem.X[rows]), to_numpy(problem.codes[rows])
    apart = _distances(X, others, ball)
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


def _distances(X: Array, others: Array, ball: Ball) -> Array:
    """Return the distances of rows from others in the ball's norm, columns that stay left out."""
    columns = np.broadcast_to(to_numpy(cast(Array, ball.columns)), (1, X.shape[1]))[0]
    moving = columns > 0
    X, others = (rows[:, moving] / columns[moving] for rows in (X, others))
    return cdist(X, others, "chebyshev" if ball.norm == "linf" else "euclidean")


def _candidates(problem: AttackProblem) -> Array:
    """Return rows to start at, (c, d): those without gaps that the model keeps, in the units of X, and of the batch."""
    target, batch = problem.target, to_numpy(problem.X).astype(np.float64)
    if isinstance(target, ExpansionTarget):
        scale, shift = (np.asarray(to_numpy(part)) for part in (target.exact.scale, target.exact.shift))
        own: Any = to_numpy(target.expansion.centers) / scale + shift
    else:
        own = getattr(problem.model, "_fit_X", None)  # of a neighbours model
    if not (isinstance(own, np.ndarray) and own.ndim == 2 and own.shape[1] == batch.shape[1] and len(own)):
        return batch[:MOST_ROWS]
    return np.vstack([own[np.isfinite(own).all(axis=1)][: MOST_ROWS // 2], batch[: MOST_ROWS // 2]])


def walk_to_rivals(worst: Met, rows: Rows, ball: Ball, steps: int, length: float) -> None:
    """Descend from the rows on the lead over each rival in turn, as long as they are classified correctly."""
    problem = worst.problem
    rivals = problem.target.contrasts.shape[1]
    for rival in range(rivals if rivals > 1 else 0):
        rows = rows[~worst.wrong[rows]]
        lead = problem.target.contrasts[problem.codes[rows], rival]
        descend(worst, rows, problem.X[rows], ball, steps, length, lead)


def walk_shorter(worst: Met, rows: Rows, ball: Ball, steps: int, length: float) -> None:
    """Descend within smaller radii from rows that stand although the slope at them says that a fraction would do.

    Steps that are a share of a wide ball leap over the border, to where the model may be flat.
    """
    for share in (4 ** -float(turn) for turn in range(1, 10)):  # in steps, to some millionths of the radius
        rows = rows[~worst.wrong[rows] & (worst.near[rows] < share * ball.radius)]
        descend(worst, rows, worst.problem.X[rows], ball.shrunk(share), steps, share * length)


def descend(
    met: Met, rows: Rows, moved: Array, ball: Ball, steps: int, length: float,
    lead: Array | None = None,
) -> None:
    """Walk ``steps`` steps down the margin from ``moved``, projecting on the ball around the rows and the box.

    ``lead`` are contrasts (b, k) to walk down in place of those that attain the margins.
    """
    if not len(rows):
        return
    problem = met.problem
    xp = problem.place.xp
    X = problem.X[rows]
    low = problem.low[rows]
    high = problem.high[rows]
    if ball.norm == "linf":  # the ball is a box too
        low = xp.maximum(low, X - ball.reach)
        high = xp.minimum(high, X + ball.reach)
    for step in range(steps):
        scores, gradient = problem.target.linearise(moved)
        margin, contrast, _ = met.see(rows, moved, scores)
        g = gradient(contrast if lead is None else lead)
        met.slope(rows, g)
        if step == 0:
            met.look(rows, margin, g, ball)
        met.queries += len(g) * problem.target.gradient_cost
        moved -= ball.step(g, length)
        if ball.norm == "l2":
            moved = X + ball.project(moved - X)
        xp.maximum(moved, low, out=moved)  # numpy's clip to arrays takes six times as long
        xp.minimum(moved, high, out=moved)
    met.meet(rows, moved)


def generator(random_state: RandomStateLike) -> Any:
    """Return what ``random_state`` stands for: itself if it can draw, else a generator with that seed."""
    if hasattr(random_state, "uniform"):
        return random_state
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(f"random_state must be None, a whole number or a generator. Got {random_state!r}.") from None
