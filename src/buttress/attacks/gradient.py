"""Gradient attacks: the fast gradient sign method, and projected gradient descent on the margin.

Sources: Goodfellow, Shlens & Szegedy (ICLR 2015) for FGSM, Madry et al. (ICLR 2018) for PGD.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array, check_count, check_number, check_option, check_values
from buttress.attacks.targets import Target, as_target, label_codes
from buttress.expansion import margins, winners


@dataclass
class AttackInfo:
    """What an attack achieved, per row.

    Parameters
    ----------
    success : bool array of shape (n,)
        Whether the returned row is classified wrongly.
    margin : array of shape (n,)
        Margin of the returned row for its label.
    distance : array of shape (n,)
        How far it was moved, in the attack's norm.
    queries : int
        Rows scored or differentiated, all rows together.
    """

    success: NDArray[np.bool_]
    margin: Array
    distance: Array
    queries: int


def fgsm(
    model: Any, X: Any, y: Any, *, eps: float, norm: str = "linf", bounds: Any = None, return_info: bool = False
) -> Any:
    """Fast gradient sign method: one step of length ``eps`` down the margin, the unmoved row where that is no worse.

    Parameters as in :func:`pgd`. Returns an array shaped like X, and an :class:`AttackInfo` with ``return_info=True``.
    """
    return pgd(model, X, y, eps=eps, norm=norm, bounds=bounds, steps=1, step_size=eps, return_info=return_info)


def pgd(
    model: Any,
    X: Any,
    y: Any,
    *,
    eps: float,
    norm: str = "linf",
    bounds: Any = None,
    steps: int = 40,
    step_size: float | None = None,
    restarts: int = 1,
    random_state: Any = None,
    return_info: bool = False,
) -> Any:
    """Projected gradient descent on the margin within a ball and a box; the worst iterate is returned.

    Parameters
    ----------
    model : fitted classifier
        With ``decision_function`` or ``predict_proba``.
    X : array of shape (n, d)
    y : array of shape (n,)
        The labels to attack.
    eps : float
        Radius of the ball around each row, >= 0, in the units of X.
    norm : {"linf", "l2"}
    bounds : (low, high) or None
        Box to stay in: numbers, or arrays that broadcast to X. It must hold X.
    steps, step_size, restarts : int, float or None, int
        Steps per start, their length (default 2.5 eps / steps, at most eps), and starts: the first from X, the others
        random in the ball.
    random_state : int, RandomState or None
        Of the random starts.
    return_info : bool
        Return ``(perturbed, AttackInfo)``.

    Raises
    ------
    ValueError
        For eps < 0, a box that excludes rows of X, labels the model does not know, or a model without scores.
    """
    target = as_target(model)
    X, low, high = checked_inputs(model, X, bounds)
    codes = label_codes(model, y, len(X))
    eps = check_number("eps", eps, 0, closed="left")
    check_option("norm", norm, ("linf", "l2"))
    steps, restarts = check_count("steps", steps), check_count("restarts", restarts)
    default = min(eps, 2.5 * eps / steps)
    length = default if step_size is None else check_number("step_size", step_size, 0, closed="left")
    rng = np.random.default_rng(random_state) if not hasattr(random_state, "uniform") else random_state
    best = Worst(target, codes, X)
    for start in range(restarts):
        moved = X if start == 0 else np.clip(X + random_in_ball(rng, X.shape, eps, norm), low, high)
        descend(target, moved, X, codes, eps, norm, low, high, steps, length, best)
    info = AttackInfo(best.wrong, best.margin, distances(best.X - X, norm), best.queries)
    return (best.X, info) if return_info else best.X


class Worst:
    """The worst version of each row met so far: a wrongly classified one, then the one of least margin."""

    def __init__(self, target: Target, codes: NDArray[np.intp], X: Array):
        self.target = target
        self.codes = codes
        self.X = X.copy()
        self.margin = np.full(len(X), np.inf)
        self.wrong = np.zeros(len(X), dtype=bool)
        self.queries = 0

    def see(self, X: Array) -> Array:
        """Score X, keep what is worse than before, and return the contrasts (n, k) that attain the margins."""
        scores = self.target.scores(X)
        margin, contrast = margins(scores, self.codes, self.target.contrasts)
        wrong = winners(scores, self.target.contrasts) != self.codes
        worse = (wrong & ~self.wrong) | ((wrong == self.wrong) & (margin < self.margin))
        self.X[worse], self.margin[worse], self.wrong[worse] = X[worse], margin[worse], wrong[worse]
        self.queries += len(X)
        return contrast


def descend(
    target: Target, moved: Array, X: Array, codes: NDArray[np.intp], eps: float, norm: str, low: Any, high: Any,
    steps: int, length: float, best: Worst,
) -> None:
    """Walk ``steps`` steps down the margin from ``moved``, projecting on the ball around X and the box."""
    for _ in range(steps):
        contrast = best.see(moved)
        g = target.gradient(moved, contrast)
        best.queries += len(X)
        moved = np.clip(X + into_ball(moved - length * direction(g, norm) - X, eps, norm), low, high)
    best.see(moved)


def direction(g: Array, norm: str) -> Array:
    """Return the steepest unit step of each row of g: its signs, or its direction."""
    return np.sign(g) if norm == "linf" else g / np.maximum(np.linalg.norm(g, axis=1, keepdims=True), 1e-300)


def into_ball(delta: Array, eps: float, norm: str) -> Array:
    """Project each row of ``delta`` on the ball of radius ``eps``."""
    if norm == "linf":
        return np.clip(delta, -eps, eps)
    size = np.linalg.norm(delta, axis=1, keepdims=True)
    return delta * np.minimum(1, eps / np.maximum(size, 1e-300))


def random_in_ball(rng: Any, shape: tuple[int, ...], eps: float, norm: str) -> Array:
    """Draw one point a row, uniformly in the ball of radius ``eps``."""
    if norm == "linf":
        return rng.uniform(-eps, eps, shape)
    direction = rng.normal(size=shape)
    radius = eps * rng.uniform(size=(shape[0], 1)) ** (1 / shape[1])
    return radius * direction / np.linalg.norm(direction, axis=1, keepdims=True)


def distances(delta: Array, norm: str) -> Array:
    """Return the norm of each row."""
    return np.abs(delta).max(axis=1) if norm == "linf" else np.linalg.norm(delta, axis=1)


def checked_inputs(model: Any, X: Any, bounds: Any) -> tuple[Array, Any, Any]:
    """Return X as float64 (n, d) and the box; ValueError for the wrong width, NaN, or a box that excludes X."""
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or len(X) == 0:
        raise ValueError(f"X must be two-dimensional with at least one row. Got shape {X.shape}.")
    width = getattr(model, "n_features_in_", X.shape[1])
    if X.shape[1] != width:
        raise ValueError(f"X has {X.shape[1]} features, but the model was fitted on {width}.")
    check_values(X, [str(j) for j in range(X.shape[1])], "An attack")
    if bounds is None:
        return X, -np.inf, np.inf
    low, high = (np.asarray(side, dtype=np.float64) for side in bounds)
    outside = (low > X) | (high < X)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(f"bounds exclude the data: row {row}, column {column} is {X[row, column]:g}. Give a box in "
                         "the units of X that holds every row.")
    return X, low, high
