"""Machines that give up at a radius: they put all rows in one class, or are no more often right than one that does.

A linear machine learns nothing exactly where w = 0 is optimal. With the losses of the rarer class at their steepest,
and m_i from 0 to the weight of row i, of the same sum, on the other rows, that is where some m gives

    |mean of the rarer class - sum_i m_i x_i / sum_i m_i|_inf <= 2 eps

(the subgradient of the attacked hinge loss at w = 0), whatever C is. The least such eps is a linear program.
"""

import numpy as np
from scipy.optimize import linprog

from buttress._checks import Array, warn_user
from buttress._rows import drawn_rows
from buttress._types import Labels, Mask, Rows

HOPELESS = "A linear machine learns nothing here at any eps: the majority class alone has the least hinge loss."
NOTHING = 1e-6  # of eps: a radius that is no more than the linear program's error
NO_BETTER = 0.01  # share of the rows by which a machine must be more often right than one class for all


def warn_if_given_up(name: str, predicted: Rows, X: Array, codes: Rows, eps: float | None) -> None:
    """Warn of class numbers predicted for the rows X that one class for all would match, and say what may be learned.

    ``eps`` is the radius of all columns, None where they have several.
    """
    constant = float(np.bincount(codes).max()) / len(codes)
    collapsed = len(np.unique(predicted)) == 1
    if collapsed or (predicted == codes).mean() <= constant + NO_BETTER:
        what = "predicts one class for all rows and" if collapsed else "predicts several classes, but"
        warn_user(f"{name} {what} is no better on its training rows than the majority class {under(eps)}. "
                  f"{advice(X, codes, eps)}")


def warn_if_lost(kept: float, held_out: Labels, X: Array, codes: Rows, eps: float | None) -> None:
    """Warn of the share of rows held out that the best of several fits keeps where one class for all keeps more."""
    most = float(np.unique(held_out, return_counts=True)[1].max()) / len(held_out)
    if kept < most - NO_BETTER:
        warn_user(f"{under(eps).capitalize()} the best candidate keeps {kept:.2f} of the rows held out, and the "
                  f"majority class would keep {most:.2f}. {advice(X, codes, eps)}")


def under(eps: float | None) -> str:
    """Return in words what a machine was trained against."""
    return "under its threat" if eps is None else f"at eps={eps:g}"


def advice(X: Array, codes: Rows, eps: float | None) -> str:
    """Return what to try: a radius at which a linear machine still learns, and other parameters."""
    if eps is None:
        return "Allow smaller moves or fewer swaps, or take a larger C or another gamma."
    least = learnable(X, codes)
    if least < NOTHING * eps:
        return f"{HOPELESS} Take a larger C or another gamma, or give the rarer classes larger weights."
    radius = f"Below eps={least:.3g} a linear machine still learns" if least < eps else "A linear machine learns here"
    return f"{radius} (AdversarialLinearSVC). Or take a larger C or another gamma."


def learnable(X: Array, codes: Rows, weight: Array | None = None) -> float:
    """Return the radius below which a linear machine learns to tell some class from the rest, for "linf" and "l2".

    ``weight`` (n,) are those of the rows. For "linf" it is exact, for "l2" a lower bound; of more than 1,000 rows it is
    that of 1,000 drawn.
    """
    drawn = drawn_rows(len(X), 1000)  # of the linear program
    weight = np.ones(len(X)) if weight is None else weight / weight.max()
    X, codes, weight = X[drawn], codes[drawn], weight[drawn]
    classes = np.unique(codes)
    sides = classes[:1] if len(classes) == 2 else classes
    return max((_distance_of_means(X, codes == code, weight) for code in sides), default=0.0) / 2


def _distance_of_means(X: Array, mine: Mask, weight: Array) -> float:
    """Return the least l_inf distance of the mean of the rarer side from a mean of the other's rows of even weights."""
    rare = mine if weight[mine].sum() <= weight[~mine].sum() else ~mine
    total = weight[rare].sum()
    if not total:
        return 0.0
    scale = np.ptp(X, axis=0).max() or 1.0
    gap = (X[~rare] - weight[rare] @ X[rare] / total) / scale
    sides = np.vstack([np.column_stack([gap.T, -np.ones(X.shape[1])]), np.column_stack([-gap.T, -np.ones(X.shape[1])])])
    solved = linprog(np.append(np.zeros(len(gap)), 1.0), A_ub=sides, b_ub=np.zeros(len(sides)),
                     A_eq=np.append(np.ones(len(gap)), 0.0)[None], b_eq=[1.0],
                     bounds=[*((0, most) for most in weight[~rare] / total), (0, None)])
    return float(solved.fun) * float(scale) if solved.status == 0 else 0.0
