"""What both robust kernel estimators have in common: parameters, checks, and fits to an array or to batches."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils import check_random_state

from buttress._callbacks import CallbackSupportMixin, Report, all_or_nothing, step_callback, with_callbacks
from buttress._checks import check_contamination_or_auto, check_limits, check_number, check_X_y
from buttress._documented import Documented
from buttress._predicting import sparse_or_dense
from buttress._state import Attribute, State
from buttress._types import Labels, RandomStateLike, VectorLike
from buttress._weights import repeated_rows
from buttress.kernels import Kernel, KernelLike, as_kernel, is_precomputed
from buttress.kernels.choose import fitting
from buttress.robust.batches import batched_table
from buttress.robust.design import Setting, affordable, several_widths, warn_of_near_copies
from buttress.robust.report import OF_ROWS, of_rows_given, row_keys
from buttress.solvers.run import SharedBudget


@dataclass(kw_only=True, eq=False, repr=False)
class RobustKernelMachine(Documented, CallbackSupportMixin, BaseEstimator, ABC):
    """The base class of :class:`RobustKernelClassifier` and :class:`RobustKernelRegressor`."""

    _state = State(*OF_ROWS, Attribute("alpha_", "nonnegative", meaning="The ridge."))

    contamination: float | str = "auto"
    alpha: float | str = "auto"
    kernel: KernelLike = "rbf"
    degree: float = 3
    gamma: float | str = "multiscale"
    coef0: float = 0.0
    n_landmarks: int | str = "auto"
    max_time: float | None = None
    progress: bool = False
    random_state: RandomStateLike = None

    def __sklearn_tags__(self) -> Any:
        return sparse_or_dense(super().__sklearn_tags__(), is_precomputed(self.kernel))

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: VectorLike | None = None) -> Self:
        """Fit to X of shape (n, d), dense or sparse, and y of shape (n,), class labels or real targets; returns self.

        ``sample_weight`` (n,) counts rows. A row of weight w, a whole number, is w equal rows: judged by a fit without
        all of them, in one fold, and as costly. So twice the weights are twice the rows, and intervals are narrower; a
        row of weight 0 is not there.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), weights
        that are not whole and positive or 0, or go with a precomputed kernel, fewer than two classes, or a class
        without weight, or too small to be trimmed by the number given. Warns of dense rows that all but repeat
        another, and of X out of scale for the kernel. A classifier warns of many rows that resemble none, a regressor
        where half of the rows look corrupt, and where the rows named may be genuine: they lie together in X or on one
        side, or many targets are equal.
        """
        budget = self._budget()
        numeric = is_regressor(self)
        X, y = check_X_y(self, X, y, numeric_target=numeric, sparse=True, single=numeric)
        rows = repeated_rows(sample_weight, X)
        if is_precomputed(self.kernel) and not isinstance(rows, slice):
            raise ValueError("sample_weight goes with rows. Got it with kernel='precomputed'. Repeat rows and columns "
                             "of the Gram matrix, or give a kernel of rows.")
        warn_of_near_copies(self.kernel, X)
        targets = self._targets(y)
        self.row_keys_ = row_keys(X, targets.astype(np.float64))[rows]
        self._fit_rows(X[rows], targets[rows], budget, step_callback(self, X, y, None))
        return of_rows_given(self, rows, len(y))

    @all_or_nothing
    def fit_batches(self, batches: Any, y: Any = None) -> Self:
        """Fit on landmarks to rows that come in batches, which are never all in memory; returns self.

        The model is the one that :meth:`fit` gives for the same rows in one array, up to the order of sums. Several
        passes are made over the batches, since whether a row is corrupt depends on all rows; a ``partial_fit``, which
        sees each batch once, cannot know it. What is kept of each row are numbers: target, weight, residual or scores,
        and landmark features where all of them take up to 1 GB. With more, or with Dask, each step of a classifier's
        fit is a pass. Up to 3,000 rows, or as many as landmarks, are collected and fitted in memory. Near copies are
        not searched for.

        Parameters
        ----------
        batches : iterable of (X, y), function without arguments that returns one, or Dask array or data frame
            It must give the same batches each time. X has shape (n_k, d), dense, and y shape (n_k,). An iterator, which
            ends after one pass, is refused. With Dask each worker sums the Gram matrices of its blocks.
        y : Dask array or series, with a Dask collection only
            Its blocks must be those of ``batches``.

        Raises ValueError as :meth:`fit`, naming the batch, and where batches change between passes.
        """
        budget = self._budget()
        table = batched_table(self, batches, y)
        targets = self._targets(table.y)
        self.row_keys_ = table.keys + targets
        return self._fit_rows(table.rows(self.n_landmarks), targets, budget)

    def _budget(self) -> SharedBudget:
        """Return the budget of a fit that begins; ValueError for parameters out of range."""
        check_contamination_or_auto(self.contamination)
        if self.alpha != "auto":
            check_number("alpha", self.alpha, 0)
        if isinstance(self.gamma, str) and self.gamma not in ("auto", "multiscale"):
            raise ValueError(f"gamma must be a positive number, 'auto' or 'multiscale' here. Got {self.gamma!r}. "
                             "('scale' is one over the variance of X, which corrupt rows move: use RobustScaler.)")
        check_limits(None, self.max_time)
        return SharedBudget(self.max_time, progress=self.progress, name=type(self).__name__)

    def _setting(self, X: Any, *, alike: bool = False) -> Setting:
        """Return what a fit to the rows X works with."""
        count = self.n_landmarks
        if isinstance(count, str) and count == "auto" and self.max_time is not None:
            count = affordable(X.shape[0], self.max_time)
        return Setting(X, self._kernel_of(X), count, check_random_state(self.random_state), alike)

    def _kernel_of(self, X: Any) -> Kernel:
        """Return the kernel for the rows X; with ``gamma="multiscale"`` "rbf" is one of several widths."""
        gamma = "auto" if self.gamma == "multiscale" else self.gamma
        if gamma != self.gamma and isinstance(self.kernel, str) and self.kernel == "rbf":
            return several_widths(X)
        return fitting(as_kernel(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0, X=X), X)

    @abstractmethod
    def _targets(self, y: Labels) -> Labels:
        """Return checked targets y (n,) as numbers: of classes, or as they are."""

    @abstractmethod
    def _fit_rows(self, X: Any, y: Labels, budget: SharedBudget, report: Report = None) -> Self:
        """Fit to checked rows X, an array, CSR or in batches, and :meth:`_targets` y (n,)."""
