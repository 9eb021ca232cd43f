"""What wrong targets or missing rows can do to a fit by squared losses: its predictions, coefficients and t-values.

Targets that may each be off by ``by``: f(x) moves by sum_S h_i d_i, |d_i| <= by_i, so k of them move it by the sum of
the k largest |h_i| by_i at most, which some do: exact.

One law for missing rows. With H the hat matrix, e the residuals, and h the weights of the targets in a prediction or
coefficient f = h'y, a fit without the rows S has (Cook & Weisberg 1982)

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
from buttress._proof import UNIT
from buttress._types import MatrixLike, Predictor, VectorLike
from buttress.certificates.training.reading import Refit, check_reproduced, refit
from buttress.certificates.training.wrong import check_eligible


@dataclass(frozen=True)
class TrainingInterval:
    """Between what values predictions lie.

    Parameters
    ----------
    prediction : array of shape (m,)
    low, high : arrays of shape (m,)
        Proven: no data that were thought possible give a prediction outside. -inf and inf where nothing is proven.
    """

    prediction: Array
    low: Array
    high: Array


def training_moves(
    model: Predictor, X_train: MatrixLike, y_train: VectorLike, X: MatrixLike, *, by: VectorLike | float, rows: int,
    eligible: VectorLike | None = None, sample_weight: VectorLike | None = None,
) -> TrainingInterval:
    """Return an interval that holds each prediction if at most ``rows`` training targets are wrong by at most ``by``.

    Parameters
    ----------
    model : fitted regressor
        ``KernelRidge``, ``Ridge``, ``LinearRegression`` or ``GaussianProcessRegressor(optimizer=None)``, alone or
        behind steps of a pipeline that do not read the targets.
    X_train, y_train : arrays of shape (n, d) and (n,)
        What it was fitted to.
    X : array of shape (m, d)
    by : float or array of shape (n,)
        In the unit of the targets, >= 0.
    rows : int
        Most targets that are wrong, >= 0.
    eligible : bool array of shape (n,) or None
        Which targets may be wrong.
    sample_weight : array of shape (n,) or None
        What the model was fitted with.

    Returns
    -------
    TrainingInterval
        No smaller interval holds, up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from buttress import certificates
    >>> X, y = np.arange(5.0)[:, None], np.arange(5.0)
    >>> found = certificates.training_moves(LinearRegression().fit(X, y), X, y, [[2.0]], by=1.0, rows=2)
    >>> found.low.round(6), found.high.round(6)  # a mean of five, of which two are off by one
    (array([1.6]), array([2.4]))
    """
    found, y, prediction, away = predicted(model, X_train, y_train, X, sample_weight)
    reach = np.asarray(by, dtype=np.float64)
    if reach.shape not in ((), y.shape) or not (np.isfinite(reach) & (reach >= 0)).all():
        raise ValueError(f"by must be a number >= 0, or one for each of the {len(y)} training rows. Got {by!r}.")
    off = np.where(check_eligible(eligible, len(y)), reach, 0.0)
    size = top(np.abs(found.weights) * off, check_count("rows", rows, 0))
    slack = away + found.error * np.linalg.norm(off) + len(y) * UNIT * size
    return TrainingInterval(prediction, prediction - size - slack, prediction + size + slack)


def predicted(
    model: Predictor, X_train: MatrixLike, y_train: VectorLike, X: MatrixLike, sample_weight: VectorLike | None
) -> tuple[Refit, Array, Array, Array]:
    """Return the refit, the targets, the model's predictions, and how far the refit is from them."""
    if hasattr(model, "classes_"):
        raise ValueError(f"{type(model).__name__} predicts classes. Give a regressor, or use training_flips.")
    found = refit(model, X_train, X, sample_weight)
    y = np.asarray(y_train, dtype=np.float64)
    if y.shape != (found.weights.shape[1],) or not np.isfinite(y).all():
        raise ValueError(f"y_train must hold one finite target for each of the {found.weights.shape[1]} rows of "
                         "X_train. "
                         f"Got shape {y.shape}.")
    prediction = np.asarray(model.predict(X), dtype=np.float64).ravel()
    away = check_reproduced(model, found.weights @ y, prediction, float(np.ptp(y)))
    return found, y, prediction, away + found.error * np.linalg.norm(y)


def top(values: Array, k: int) -> Array:
    """Return the sum of the k largest positive entries along the last axis."""
    if k == 0:
        return np.zeros(values.shape[:-1])
    k = min(k, values.shape[-1])
    return np.maximum(np.partition(values, -k, axis=-1)[..., -k:], 0).sum(axis=-1)


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
    left_out = RemovedRows.of(*found.smoother(found.training), y)
    fall, rise = left_out.moves(found.weights, found.error, min(check_count("rows", rows, 0), len(y)))
    return TrainingInterval(prediction, prediction - fall - away, prediction + rise + away)


@dataclass(frozen=True)
class RemovedRows:
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
    def of(cls, H: Array, error: Array, y: Array) -> "RemovedRows":
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
