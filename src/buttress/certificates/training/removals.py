"""What missing rows can do to a fit by squared losses: one law for its predictions, coefficients and t-values.

With H the hat matrix, e the residuals, and h the weights of the targets in a prediction or coefficient f = h'y, a fit
without the rows S has (Cook & Weisberg 1982)

    f_S - f = -h_S' (I - H_SS)^-1 e_S.

Let g_i = 1 / (1 - H_ii), r_i = g_i e_i (the residuals of rows left out alone), and M_ij = H_ij sqrt(g_i g_j) off the
diagonal, 0 on it. Then h_S'(I - H_SS)^-1 e_S = u'(I - M_SS)^-1 v with u_i = h_i sqrt(g_i), v_i = e_i sqrt(g_i), and
(I - M)^-1 = I + M + M (I - M)^-1 M gives, for |S| <= k and mu = max_i (the k - 1 largest |M_ij|) < 1,

    +-h_S'(I - H_SS)^-1 e_S <= top_k (+-h_i r_i + |h_i| g_i A_i)_+ + |u|_top_k |sqrt(g) A|_top_k mu / (1 - mu),
    A_i = the larger of the sums of the k - 1 largest H_ij r_j and of the k - 1 largest -H_ij r_j, j != i, above 0,

where top_k sums the k largest and |.|_top_k is the Euclidean norm of the k largest. Nothing is proven for mu >= 1. For
k = 1 the right side is h_i r_i itself: exact. It sharpens the first-order bound of Freund & Hopkins (arXiv 2307.16315).

The attacks that would make it false: a row with H_ii near 1, near copies that hold each other up, and residuals that
are all rounding. Errors of H and h are bounded by ``smoother`` and enter every term outward: |h_i r_i| is at most 1 + 8
eps times the product of the bounds of both, and sums of n terms are widened by 8 n eps.
"""

from dataclasses import dataclass

import numpy as np

from buttress._checks import Array, check_count
from buttress._types import MatrixLike, Predictor, VectorLike
from buttress.certificates.region import UNIT
from buttress.certificates.training.moves import TrainingInterval, predicted, top


def training_removals(
    model: Predictor, X_train: MatrixLike, y_train: VectorLike, X: MatrixLike, *, rows: int,
) -> TrainingInterval:
    """Return an interval that holds each prediction if at most ``rows`` training rows are left out.

    Parameters
    ----------
    model, X_train, y_train, X
        As in :func:`training_moves`, fitted without weights. The columns that steps of a pipeline prepare, and a
        kernel's width, are held fixed.
    rows : int
        Most rows that are left out, >= 0.

    Returns
    -------
    TrainingInterval
        Exact for one row; infinite where nothing is proven.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from buttress import certificates
    >>> X, y = np.arange(5.0)[:, None], np.array([0.0, 1.0, 2.0, 3.0, 9.0])
    >>> model = LinearRegression().fit(X, y)
    >>> certificates.training_removals(model, X, y, [[4.0]], rows=1).low.round(6)  # without the last row
    array([4.])
    """
    found, y, prediction, away = predicted(model, X_train, y_train, X, None)
    if getattr(found.last, "normalize_y", False):
        raise ValueError("normalize_y=True scales the targets anew without a row, which this proof does not cover. "
                         "Scale the targets first, and fit with normalize_y=False.")
    left_out = LeftOut.of(*found.smoother(found.training), y)
    fall, rise = left_out.moves(found.weights, found.error, min(check_count("rows", rows, 0), len(y)))
    return TrainingInterval(prediction, prediction - fall - away, prediction + rise + away)


@dataclass(frozen=True)
class LeftOut:
    """The training rows as their removal moves a fit; arrays with ``most`` are upper bounds of absolute values.

    Parameters
    ----------
    H : array of shape (n, n)
        The hat matrix.
    error : array of shape (n,)
        Bounds of the Euclidean error of its rows.
    e, e_most, r, r_most : arrays of shape (n,)
        The residuals, and those of rows left out alone.
    g_most : array of shape (n,)
        Of 1 / (1 - H_ii): inf where a row may hold itself up.
    """

    H: Array
    error: Array
    e: Array
    e_most: Array
    r: Array
    r_most: Array
    g_most: Array

    @classmethod
    def of(cls, H: Array, error: Array, y: Array) -> "LeftOut":
        """Return the rows of a fit with this hat matrix, its errors, and targets y."""
        e = y - H @ y
        e_most = np.abs(e) + error * np.linalg.norm(y) + 2 * len(y) * UNIT * (np.abs(H) @ np.abs(y) + np.abs(y))
        with np.errstate(divide="ignore"):
            g_most = 1 / np.maximum(1 - np.diagonal(H) - error - 4 * UNIT, 0)
        r = e / np.maximum(1 - np.diagonal(H), UNIT)
        return cls(H, error, e, e_most, r, e_most * g_most, g_most)

    def moves(self, h: Array, error: Array, k: int) -> tuple[Array, Array]:
        """Return bounds (m,) of how far h'y, for each row of h (m, n) with errors (m,), falls and rises without k rows.
        """
        A, mu = self.held_up(k)
        if not mu < 1:
            return (np.full(len(h), np.inf),) * 2
        h_most = np.abs(h) + error[:, None]
        gain = h * self.r
        slack = (1 + 8 * UNIT) * h_most * self.r_most - np.abs(gain) + h_most * self.g_most * A
        root = np.sqrt(self.g_most)
        rest = norm_of_top(h_most * root, k) * norm_of_top(A * root, k) * mu / (1 - mu)
        wider = 1 + 8 * len(A) * UNIT
        return wider * (top(gain + slack, k) + rest), wider * (top(slack - gain, k) + rest)

    def stretch(self, h: Array, k: int) -> Array:
        """Return bounds of h_S'(I - H_SS)^-1 h_S over all sets of k rows, for each row of h (m, n) or h (n,), >= 0."""
        mu = self.held_up(k)[1]
        if not mu < 1:
            return np.full(h.shape[:-1], np.inf)
        return (1 + 8 * len(self.r) * UNIT) * norm_of_top(h * np.sqrt(self.g_most), k) ** 2 / (1 - mu)

    def held_up(self, k: int) -> tuple[Array, float]:
        """Return A (n,) and mu for sets of k rows; mu is inf where a row may hold itself up."""
        n = len(self.r)
        A, mu = np.zeros(n), 0.0
        if k == 0:
            return A, mu
        if not np.isfinite(self.g_most).all():
            return A, np.inf
        root = np.sqrt(self.g_most)
        for part in np.array_split(np.arange(n), -(-n * n // 4_000_000)):  # memory only
            most = np.abs(self.H[part]) + self.error[part, None]
            most[np.arange(len(part)), part] = 0.0
            signed = self.H[part] * self.r
            signed[np.arange(len(part)), part] = 0.0
            slack = (1 + 8 * UNIT) * most * self.r_most - np.abs(signed)
            A[part] = np.maximum(top(signed + slack, k - 1), top(slack - signed, k - 1))
            mu = max(mu, float((root[part] * top(most * root, k - 1)).max()))
        return A, mu * (1 + 8 * n * UNIT)


def norm_of_top(values: Array, k: int) -> Array:
    """Return the Euclidean norm of the k largest of non-negative entries along the last axis."""
    return np.sqrt(top(values**2, k))
