"""A statement of the adversarial SVM paper on its ball of features, tried on moves of the rows themselves."""

import numpy as np
from sklearn.datasets import make_moons

from buttress._checks import Array
from buttress.expansion import KernelExpansion
from buttress.features import feature_radius
from buttress.kernels import RBF
from buttress.svm import SVC

__all__ = ["tight_cover"]

EPS = 0.4
KERNEL = RBF(1.0)


def tight_cover() -> dict[str, float]:
    """Return the largest fall of a score over moves of a row within EPS, over radius |f|, the largest in the ball.

    f = k(x, .) - k(x + d, .) for a move d of length EPS, attacked at x; and a machine fitted to 100 rows of two
    columns, attacked at each of them: the largest and the median share.
    """
    apart = KernelExpansion(KERNEL, np.array([[0.0, 0.0], [EPS, 0.0]]), np.array([[1.0], [-1.0]]), np.zeros(1))
    X, y = make_moons(100, noise=0.25, random_state=0)
    model = SVC(kernel=KERNEL, C=10.0).fit(X, y)
    fitted = shares(model.expansion_, X, np.where(y == 1, 1.0, -1.0))
    return {"two points": float(shares(apart, np.zeros((1, 2)), np.ones(1))[0]),
            "fitted, most": float(fitted.max()), "fitted, median": float(np.median(fitted))}


def shares(f: KernelExpansion, X: Array, signs: Array) -> Array:
    """Return the largest fall of each row's score times its sign over a grid of moves, over radius |f|."""
    angles = np.linspace(0, 2 * np.pi, 90, endpoint=False)
    lengths = EPS * np.linspace(0, 1, 21)
    moves = (lengths[:, None, None] * np.column_stack([np.cos(angles), np.sin(angles)])).reshape(-1, 2)
    norm = np.sqrt(f.coef[:, 0] @ f.kernel(f.centers, f.centers) @ f.coef[:, 0])
    falls = [sign * f(x[None])[0, 0] - (sign * f(x + moves)[:, 0]).min() for x, sign in zip(X, signs, strict=True)]
    return np.array(falls) / (feature_radius(KERNEL, EPS) * norm)
