"""The common part of both ball detectors: scores, decisions and predictions, and the checks before a fit."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import _num_samples, check_is_fitted

from buttress._callbacks import CallbackSupportMixin
from buttress._checks import (
    Array,
    NotConvergedWarning,
    check_limits,
    check_number,
    check_option,
    check_values,
    check_X_y,
    silent,
    warn_user,
)
from buttress._documented import Documented
from buttress._proof import proof_word
from buttress._rows import drawn_rows
from buttress._state import Attribute
from buttress._threads import ending, own_threads
from buttress._types import Attributes, Mask, MatrixLike, VectorLike
from buttress.certainty.conformal import as_rows, named, p_values, threshold
from buttress.certainty.left_out import left_out_distances
from buttress.expansion import KernelExpansion
from buttress.gram.spectrum import POLICIES, IndefiniteKernelWarning, correct, is_definite
from buttress.kernels import Kernel, KernelLike, centers
from buttress.outlier.kernel_values import in_logs, kernel_of_width, left_out_logs, log_scores
from buttress.solvers.ball.soft_ball import SoftBall

# what both estimators hold alike
OF_BALLS = (
    Attribute("support_", "index", "n_support", "Row numbers of the support vectors.", below="n_rows"),
    Attribute("support_vectors_", "finite", "n_support, * or *, n_support, *",
              "Their rows; of a stack of Gram matrices, of each."),
    Attribute("dual_coef_", "nonnegative", "1, n_support",
              "Their coefficients, which sum to 1: c = sum_i dual_coef_i phi(x_i)."),
    Attribute("radius_", "nonnegative",
              meaning="R; R^2 is a (1 - nu)-quantile of the squared distances of the training rows."),
    Attribute("center_norm2_", "finite", meaning="||c||^2."),
    Attribute("loo_scores_", "real", "n_rows",
              "Leave-one-out score of each training row, to compare with ``score_samples`` of new rows; NaN for rows "
              "without weight."),
    Attribute("loo_weight_", "nonnegative", "n_rows", "How much each counts in p-values."),
    Attribute("offset_", "finite",
              meaning="Rows with at least this score are inside: see ``contamination``. With None, the score at R^2 "
                      "plus the error that rounding and ``tol`` allow, so rows on the boundary are inside. "
                      "``decision_function(X) = score_samples(X) - offset_``."),
    Attribute("kernel_", "part", of="Kernel", meaning="The fitted kernel; of several their weighted sum."),
    Attribute("expansion_", "part", of="KernelExpansion", meaning="The scores as a function of rows, for attacks."),
    Attribute("_fit_diagonal", "finite", "n_rows or *, n_rows or none"))


@dataclass(kw_only=True, eq=False, repr=False)
class BallDetector(Documented, CallbackSupportMixin, OutlierMixin, BaseEstimator, ABC):
    """The base class of both estimators: scores, decisions, predictions and p-values from the fitted ball."""

    nu: float = 0.9
    contamination: float | str | None = "auto"
    degree: float = 3
    gamma: float | str = "neighbors"
    coef0: float = 0.0
    tol: float = 1e-3
    indefinite: str = "warn"
    cache_size: float = 200
    max_iter: int | None = None
    max_time: float | None = None
    progress: bool = False

    novelty = True  # scikit-learn's word for detectors of new rows: contamination is a share of these

    def _check(self) -> None:
        """Raise ValueError for parameters above that are out of range."""
        check_number("nu", self.nu, 0, 1, closed="right", fix="nu is the share of rows that may lie outside.")
        if self.contamination is not None and self.contamination != "auto":
            check_number("contamination", self.contamination, 0, 1, fix="A share, 'auto' or None.")
        check_number("tol", self.tol, 0)
        check_number("cache_size", self.cache_size, 0)
        check_option("indefinite", self.indefinite, POLICIES)
        check_limits(self.max_iter, self.max_time)

    def _training_rows(self, X: MatrixLike) -> Array:
        """Return checked training rows (n, d), at least two."""
        return check_X_y(self, X, np.zeros(_num_samples(X)))[0]

    def _kernel(self, kernel: KernelLike, X: Array, weight: Array, near: Callable[[], float]) -> Kernel:
        """Return the kernel object of one that a user gave and the parameters above."""
        return kernel_of_width(kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, X=X, weight=weight,
                               near=near)

    def _in_time(self, weight: Array, left: Callable[[], float | None], solve: Callable[[Array], None]) -> None:
        """Call ``solve`` on the weights of the rows; where no time is left for a ball of all rows, on those of few.

        The others then count as rows without weight, and nothing is proven of the whole.
        """
        kept = np.flatnonzero(weight)
        try:
            with own_threads(), ending(left() if len(kept) > FEWEST else None):
                solve(weight)
            return
        except TimeoutError:
            some = kept[drawn_rows(len(kept), FEWEST)]
        with silent(NotConvergedWarning):
            solve(np.where(np.isin(np.arange(len(weight)), some), weight, 0.0))
        self.dual_gap_ = float("nan")
        self.proof_ = proof_word([False])
        self.converged_ = False
        warn_user(f"{type(self).__name__} had no time for a ball of all rows: it was fitted to {len(some)} rows, those "
                  "with a loo_weight_. Raise max_time.", NotConvergedWarning)

    @abstractmethod
    def _rows_and_diagonal(self, X: MatrixLike, diag: ArrayLike | None) -> tuple[Array, Array]:
        """Return the rows of X in the form that ``expansion_`` takes, and k(x, x) of each."""

    def _described(self, kernel: Kernel, X: Array, Z: Array, weight: Array, ball: SoftBall) -> Attributes:
        """Return the attributes of the model of a ball around the rows of X that have weight, Z as centers."""
        keep = np.flatnonzero(weight)
        used = np.flatnonzero(ball.a)
        support = keep[used].astype(np.int32)
        expansion = KernelExpansion(kernel, Z[support], ball.a[used, None], np.zeros(1))
        scores = np.full(len(weight), np.nan)
        counts = as_rows(weight)
        at = np.append(ball.distance2, ball.radius2 + ball.slack)  # of all rows, and at the boundary
        if in_logs(kernel):
            sums = (float(kernel.diagonal(Z[:1])[0]) + ball.norm2 - at) / 2
            scores[keep] = left_out_logs(expansion, used, sums[:-1])
            at = -np.log(np.maximum(sums, np.finfo(float).tiny))
        else:
            scores[keep] = -left_out_distances(ball.distance2, ball.a)
        if self.contamination is None:
            offset = -float(at[-1])
        elif isinstance(self.contamination, str):
            offset = -outermost(at[:-1], counts[keep])
        else:
            far = farther(-scores[keep], kernel, ball.norm2)
            offset = -threshold(far, counts[keep], self.contamination)
        return {
            "kernel_": kernel,
            "support_": support,
            "support_vectors_": X[support],
            "dual_coef_": ball.a[None, used],
            "expansion_": expansion,
            "center_norm2_": ball.norm2,
            "radius_": float(np.sqrt(max(ball.radius2, 0.0))),
            "loo_scores_": scores,
            "loo_weight_": counts,
            "offset_": offset,
            "primal_objective_": ball.primal,
            "dual_objective_": ball.dual,
        }

    def _scores(self, rows: Array, diagonal: Array) -> Array:
        if in_logs(self.kernel_):
            return log_scores(self.expansion_, rows)
        return 2 * self.expansion_(rows)[:, 0] - diagonal - self.center_norm2_

    def score_samples(self, X: MatrixLike, diag: ArrayLike | None = None) -> Array:
        """Return how typical each row of X (n, d) is, shape (n,): the larger, the nearer to the centre.

        For a kernel of positive values and constant k(x, x), such as rbf, laplacian and cauchy, it is
        log sum_i a_i k(x_i, x), which has the order of the distances and does not saturate far from the rows. For
        others it is minus the squared distance to the centre.

        ``diag`` holds k(x, x), shape (n,), and is needed with a precomputed kernel unless it was constant in training.
        """
        check_is_fitted(self)
        return self._scores(*self._rows_and_diagonal(X, diag))

    def decision_function(self, X: MatrixLike, diag: ArrayLike | None = None) -> Array:
        """Return ``score_samples(X) - offset_``, shape (n,): at least 0 within the threshold.

        ``diag`` as in :meth:`score_samples`.
        """
        return self.score_samples(X, diag) - self.offset_

    def predict(self, X: MatrixLike, diag: ArrayLike | None = None) -> NDArray[np.intp]:
        """Return 1 for rows of X within the threshold ``offset_`` (up to rounding), -1 for rows beyond, shape (n,).

        ``diag`` as in :meth:`score_samples`.
        """
        return np.where(self.decision_function(X, diag) >= 0, 1, -1)

    def p_values(self, X: MatrixLike, diag: ArrayLike | None = None) -> Array:
        """Return for each row of X (n, d) the probability that a typical row is as far from the centre, shape (n,).

        Typical rows get a value of at most t with probability t, or a little less, for every t; the least is
        1 / (n_train + 1). The training rows' distances are those of each left out, so no rows were set aside. For rows
        that are not among them; a training row is nearer to the centre than a new one like it. ``diag`` as in
        :meth:`score_samples`.
        """
        return p_values(-self.score_samples(X, diag), *self._left_out())

    def novel(self, X: MatrixLike, fdr: float = 0.05, *, adaptive: bool = False, diag: ArrayLike | None = None) -> Mask:
        """Say which rows of X (n, d) are novel, such that in the mean at most the share ``fdr`` of these is typical.

        Benjamini and Hochberg's procedure on :meth:`p_values`: the more novel rows there are in X, the less far out a
        row must be. ``adaptive`` estimates how many are typical, and finds more where few are. ``fdr`` in (0, 1);
        ``diag`` as in :meth:`score_samples`. With n_train rows nothing can be named unless about
        n / (fdr (n_train + 1)) rows stand out together; warns where ``fdr`` is so small that no rows can.
        """
        check_is_fitted(self)
        return named(self.p_values(X, diag), fdr, float(self._left_out()[1].sum()), adaptive=adaptive)

    def _own_p_values(self, X: MatrixLike) -> Array:
        """Return the p-value of each training row (n,) among the others; of a row of no weight that of a new row."""
        own = self.loo_weight_
        new = self._scores(*self._rows_and_diagonal(X, self._fit_diagonal))
        scores = np.where(own > 0, self.loo_scores_, new)
        beyond = p_values(-scores, *self._left_out()) * (1 + own.sum()) - 1
        return np.asarray((1 + beyond - own) / (1 + own.sum() - own))

    def _left_out(self) -> tuple[Array, Array]:
        """Return how far out training rows left out are and their weights, of rows that have one."""
        used = self.loo_weight_ > 0
        return farther(-self.loo_scores_[used], self.kernel_, self.center_norm2_), self.loo_weight_[used]

    def fit_predict(self, X: MatrixLike, y: VectorLike | None = None, **fit_params: Any) -> NDArray[np.intp]:
        """Fit to X and return 1 for its rows within the threshold ``offset_``, -1 for those beyond, shape (n,).

        With a number as ``contamination`` -1 for that share of the rows, those farthest from the centre without them.
        """
        self.fit(X, y, **fit_params)
        if not isinstance(self.contamination, str | None):
            return np.where(self._own_p_values(X) <= self.contamination * (1 + 1e-12), -1, 1)
        return np.where(self._scores(*self._rows_and_diagonal(X, self._fit_diagonal)) - self.offset_ >= 0, 1, -1)


FEWEST = 500  # rows that a fit without time learns from: a tenth of a second for seven kernels
ALIKE = 1e-9  # relative: scores so near each other are on one side


def farther(far: Array, kernel: Kernel, norm2: float) -> Array:
    """Return distances and what rounding may add to them: a new row that equals a training row is no farther."""
    return far + ALIKE * np.abs(far) + 64 * float(np.finfo(float).eps) * (1.0 if in_logs(kernel) else abs(norm2))


def outermost(far: Array, weight: Array) -> float:
    """Return a value between those of the rows that are farthest out, at most a tenth by weight, and of all others."""
    order = np.argsort(-far, kind="stable")
    value = far[order]
    # a tenth of the weight is left outside, as nu=.1 does of a wide kernel
    k = int(np.searchsorted(np.cumsum(weight[order]), 0.1 * weight.sum() * (1 + ALIKE), side="right"))
    room = ALIKE * float(np.abs(value).max())
    while k > 0 and value[k - 1] - value[k] <= room:
        k -= 1
    return float(value[k - 1] + value[k]) / 2 if k else float(value[0]) + room


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
        raise ValueError(f"{kernel!r} is indefinite, so the ball in it is not unique. Use indefinite='clip' or 'flip', "
                         "or another kernel.")
    if policy == "warn":
        warn_user(f"{kernel!r} is indefinite: the ball found is a stationary point and dual_gap_ is NaN. Use "
                  "indefinite='clip' or 'flip' for a certified one.", IndefiniteKernelWarning)
        return Settling(kernel, None, False)
    return Settling(*correct(kernel, X, weight, policy), True)


def unit_of(kernel: Kernel, X: Array) -> float:
    """Return the divisor of kernel values: their variance over a few rows if it is outside 1e-6 to 1e6, else 1.

    Within that range, division would only add rounding.
    """
    some = np.unique(np.linspace(0, len(X) - 1, 64).astype(np.intp))  # only the order of magnitude matters
    with np.errstate(over="ignore", invalid="ignore"):
        K = kernel(X[some], centers(kernel, X)[some])
        variance = float(np.diagonal(K).mean() - K.mean())
    if not np.isfinite(K).all():
        raise ValueError(f"{kernel!r} overflows on these rows: some of its values are not finite. Scale the columns "
                         "of X.")
    return variance if variance > 0 and not 1e-6 <= variance <= 1e6 else 1.0


def warn_unproven(name: str) -> None:
    """Warn that the time was up before the certificate."""
    warn_user(f"{name} had no time to prove its gap: dual_gap_ is measured, not proven. Raise max_time.",
              NotConvergedWarning)


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
