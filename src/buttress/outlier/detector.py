"""The common part of both ball detectors: scores, decisions and predictions, and the checks before a fit."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import _num_samples, check_is_fitted

from buttress._callbacks import CallbackSupportMixin
from buttress._checks import Array, check_limits, check_number, check_option, check_values, check_X_y, warn_user
from buttress._types import MatrixLike, VectorLike
from buttress.expansion import KernelExpansion
from buttress.gram.spectrum import POLICIES, correct, is_definite
from buttress.kernels import Kernel, centers
from buttress.solvers.qp.ball import Ball


class BallDetector(CallbackSupportMixin, OutlierMixin, BaseEstimator, ABC):
    """The base class of both estimators: scores, decisions and predictions from the fitted ball."""

    @abstractmethod
    def _rows_and_diagonal(self, X: MatrixLike, diag: ArrayLike | None) -> tuple[Array, Array]:
        """Return the rows of X in the form that ``expansion_`` takes, and k(x, x) of each."""

    @abstractmethod
    def _train_rows_and_diagonal(self, X: MatrixLike) -> tuple[Array, Array]:
        """Return the same for the training rows."""

    def _set_ball(self, kernel: Kernel, X: Array, Z: Array, keep: NDArray[np.intp], ball: Ball) -> None:
        used = np.flatnonzero(ball.a)
        self.support_ = keep[used].astype(np.int32)
        self.support_vectors_ = X[self.support_]
        self.dual_coef_ = ball.a[None, used]
        self.expansion_ = KernelExpansion(kernel, Z[self.support_], ball.a[used, None], np.zeros(1))
        self.center_norm2_ = ball.norm2
        self.radius_ = float(np.sqrt(max(ball.radius2, 0.0)))
        self.offset_ = -(ball.radius2 + ball.slack)
        self.primal_objective_ = ball.primal
        self.dual_objective_ = ball.dual

    def _scores(self, rows: Array, diagonal: Array) -> Array:
        return 2 * self.expansion_(rows)[:, 0] - diagonal - self.center_norm2_

    def score_samples(self, X: MatrixLike, diag: ArrayLike | None = None) -> Array:
        """Return minus the squared distance of each row of X (n, d) to the centre, shape (n,).

        ``diag`` holds k(x, x), shape (n,), and is needed with a precomputed kernel unless it was constant in training.
        """
        check_is_fitted(self)
        return self._scores(*self._rows_and_diagonal(X, diag))

    def decision_function(self, X: MatrixLike, diag: ArrayLike | None = None) -> Array:
        """Return the squared radius minus the squared distance to the centre, shape (n,): at least 0 inside.

        ``diag`` as in :meth:`score_samples`.
        """
        return self.score_samples(X, diag) - self.offset_

    def predict(self, X: MatrixLike, diag: ArrayLike | None = None) -> NDArray[np.intp]:
        """Return 1 for rows of X inside the ball or on it (up to rounding), -1 for rows outside, shape (n,).

        ``diag`` as in :meth:`score_samples`.
        """
        return np.where(self.decision_function(X, diag) >= 0, 1, -1)

    def fit_predict(self, X: MatrixLike, y: VectorLike | None = None, **fit_params: Any) -> NDArray[np.intp]:
        """Fit to X and return 1 for its rows inside the ball, -1 for those outside, shape (n,)."""
        self.fit(X, y, **fit_params)
        return np.where(self._scores(*self._train_rows_and_diagonal(X)) - self.offset_ >= 0, 1, -1)


class BallParameters(Protocol):
    """The parameters that both estimators have."""

    nu: float
    tol: float
    cache_size: float
    indefinite: str
    max_iter: int
    max_time: float | None


def check_ball_parameters(estimator: BallParameters) -> None:
    """Raise ValueError for common parameters out of range."""
    check_number("nu", estimator.nu, 0, 1, closed="right", fix="nu is the share of rows that may lie outside.")
    check_number("tol", estimator.tol, 0)
    check_number("cache_size", estimator.cache_size, 0)
    check_option("indefinite", estimator.indefinite, POLICIES)
    check_limits(estimator.max_iter, estimator.max_time)


def training_rows(estimator: BaseEstimator, X: MatrixLike) -> Array:
    """Return checked training rows (n, d), at least two."""
    rows: Array = check_X_y(estimator, X, np.zeros(_num_samples(X)))[0]
    return rows


class Settling(NamedTuple):
    """The kernel to use, its Gram matrix if one had to be computed, and whether the ball can be certified."""

    kernel: Kernel
    gram: Array | None
    certain: bool


def settle(kernel: Kernel, X: Array, weight: Array, policy: str) -> Settling:
    """Apply ``policy`` to the kernel on the training rows X if it is indefinite there."""
    if is_definite(kernel, X):
        return Settling(kernel, None, True)
    if policy == "raise":
        raise ValueError(f"{kernel!r} is indefinite, so the ball in it is not unique. Use indefinite='clip', 'flip' or "
                         "'shift', or another kernel.")
    if policy == "warn":
        warn_user(f"{kernel!r} is indefinite: the ball found is a stationary point and dual_gap_ is NaN. Use "
                  "indefinite='clip', 'flip' or 'shift' for a certified one.")
        return Settling(kernel, None, False)
    return Settling(*correct(kernel, X, weight, policy), True)


UNIT_ROWS = 64  # rows from which the scale of a kernel is estimated; only its order of magnitude matters
LEAST_UNIT = 1e-6  # kernels with a variance between this and MOST_UNIT are not rescaled: that would only add rounding
MOST_UNIT = 1e6


def unit_of(kernel: Kernel, X: Array) -> float:
    """Return the divisor of kernel values: their variance over a few rows if it is outside 1e-6 to 1e6, else 1."""
    some = np.unique(np.linspace(0, len(X) - 1, UNIT_ROWS).astype(np.intp))
    with np.errstate(over="ignore", invalid="ignore"):
        K = kernel(X[some], centers(kernel, X)[some])
        variance = float(np.diagonal(K).mean() - K.mean())
    if not np.isfinite(K).all():
        raise ValueError(f"{kernel!r} overflows on these rows: some of its values are not finite. Scale the columns "
                         "of X.")
    return variance if variance > 0 and not LEAST_UNIT <= variance <= MOST_UNIT else 1.0


def refuse_diag(diag: object) -> None:
    """Raise ValueError if a diagonal is given although the kernel can compute it."""
    if diag is not None:
        raise ValueError("diag is for precomputed kernels: this kernel computes k(x, x) itself. Leave diag out.")


def checked_diag(diag: ArrayLike | None, shape: tuple[int, ...], fitted: Array) -> Array:
    """Return k(x, x) of new rows of a precomputed kernel, in this shape; without ``diag``, the constant of training."""
    if diag is None:
        constant = fitted[..., :1]
        if not np.allclose(fitted, constant, rtol=1e-9, atol=0):
            raise ValueError("A precomputed kernel needs diag, the values k(x, x) of the rows to score, since they "
                             f"differ between the training rows. Pass diag of shape {shape}.")
        return np.broadcast_to(constant, shape)
    array = np.asarray(diag, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"diag must hold k(x, x) of each row, shape {shape}. Got shape {array.shape}.")
    check_values(array.reshape(-1, 1), ["diag"])
    return array
