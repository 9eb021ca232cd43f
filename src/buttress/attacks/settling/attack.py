"""The exact attack: an input that a threat allows and that is misclassified, or the proof that there is none."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from buttress._checks import Array, check_number
from buttress._types import BoundsLike, Mask, MatrixLike, VectorLike
from buttress.attacks.ball import Ball, ball_of
from buttress.attacks.problem import AttackInfo, Problem, Worst, pose, warn_of_units
from buttress.attacks.settling.planes import least_of_planes
from buttress.attacks.settling.program import ProgramLimits, least_of_trees
from buttress.scores import Scorable
from buttress.threats import Moves, ThreatModel, check_threat, read_threat
from buttress.trees import read_forest


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
    max_time: float = 10.0,
    max_work: float | None = None,
    return_info: bool = False,
) -> Any:
    """Find a misclassified input of each ball, or prove that there is none: trees (l_inf) and linear models.

    Parameters
    ----------
    model : fitted classifier
        A decision tree, random forest, extremely randomised trees, bagged trees, gradient boosting (also by
        histograms) of scikit-learn; LightGBM's or XGBoost's classifier, of numbers; a regressor of these kinds fitted
        to -1 and +1, by the sign of what it predicts; or a linear model of scikit-learn or of this package; each also
        behind scalers.
    X, y, eps, norm, bounds, threat, return_info
        As in :func:`pgd`; trees take ``norm="linf"`` only. Swaps and moves of a threat are settled together.
    max_time : float
        Seconds a row for the programs of trees.
    max_work : float or None
        For trees, the leaves that a box reaches times the nodes of their programs' branch and bound, of all rows
        together: about a tenth of a millisecond each, and the same on any machine. Before a program 3,000 parts of
        the box are looked at, which takes a few milliseconds and settles most rows.

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
        bound = least_of_planes(worst, ball, moves)
    elif moves.norm == "l2":
        raise ValueError("Trees are attacked exactly for norm='linf' only. Got 'l2'. Use worst_case.")
    else:
        bound = least_of_trees(worst, forest, moves, ProgramLimits(max_time, np.inf if max_work is None else max_work))
    found, info = worst.report(ball)
    proven = info.success | (bound > 0)
    settled = ExactInfo(info.success, info.margin, info.distance, info.queries, ~proven, bound, proven)
    return (found, settled) if return_info else found


def _allowed(problem: Problem, eps: ArrayLike | None, norm: str) -> tuple[Ball, Moves]:
    """Return the ball and the moves of the short form of a threat."""
    width = problem.X.shape[1]
    ball = ball_of(eps, norm, width, problem.place)
    reach = np.broadcast_to(ball.reach, (1, width))
    return ball, Moves(reach, norm, problem.low, problem.high, np.zeros(width), (), 0, width)


def _declared(problem: Problem, threat: ThreatModel, X: MatrixLike) -> tuple[Ball, Moves]:
    """Return the ball of a threat's numbers and all its moves."""
    moves = read_threat(threat, problem.X, X)
    return ball_of(moves.reach, moves.norm, problem.X.shape[1], problem.place), moves
