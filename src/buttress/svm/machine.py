"""What the exact machines share: their parameters, the rows they are solved on, and what they hold after a fit."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from buttress._arrays import check_device
from buttress._checks import Array, check_limits, check_number, check_option, check_X_y
from buttress._predicting import Shrinking, note_idle, rows_to_score, sparse_or_dense
from buttress._proof import PROOF, proof_word
from buttress._rows import drawn_rows
from buttress._state import Attribute, Later, Promise, one_or_each
from buttress._types import DenseOrSparse, Labels, MatrixLike, Rows, VectorLike
from buttress.expansion import KernelExpansion
from buttress.gram.rows import KernelRows
from buttress.gram.spectrum import POLICIES, Settled, settle
from buttress.gram.sums import hyperplane
from buttress.kernels import (
    Custom,
    DotProduct,
    Kernel,
    KernelLike,
    Linear,
    Precomputed,
    Radial,
    as_kernel,
    fitted_kernel,
    is_precomputed,
)
from buttress.kernels.choose import check_gram
from buttress.kernels.points import OnDevice
from buttress.solvers.qp.solve import SOLVERS, Limits, SVMSolution
from buttress.solvers.ridge.columns import column_kernel
from buttress.solvers.ridge.leave_one_out import TooRoundedError
from buttress.solvers.ridge.tuning import COLUMNS
from buttress.svm.left_out import Solved, left_out
from buttress.svm.task import Training

# of one problem an objective is a number, of several an array with one a problem
OF_MACHINES = (
    Attribute("primal_objective_", "real", "one or n_problems",
              "An upper bound of the objective above at this model; a number for one problem, else one a problem."),
    Attribute("dual_objective_", "real", "one or n_problems", "A lower bound of the optimum."),
    Attribute("dual_gap_", "real", "one or n_problems",
              "Upper bound of how far the objective is above the optimum; at most the difference of the two. NaN for "
              "an indefinite kernel."),
    PROOF,
    Attribute("converged_", "bool",
              meaning="Whether ``tol`` was met and the computed gap is at most 1e-3 of the primal objective, or "
                      "rounding. After the interior-point method only the gap counts; with ``gap``, only whether it "
                      "was met."),
    Attribute("n_iter_", "count", "one or n_problems",
              "Pair updates, or interior-point steps; for a classifier of each problem."),
    Attribute("n_kernel_rows_", "nonnegative", meaning="Computed kernel values, in units of whole kernel rows."),
    Attribute("n_negative_curvature_", "count",
              meaning="Pair updates along which the kernel curved downwards: 0 for a positive definite one."),
    Attribute("history_", "history", meaning="After each block of the last problem; objective: minus the dual's."),
    Attribute("expansion_", "part", of="KernelExpansion", shares="n_features, n_scores",
              meaning="The scores as a function of rows, for attacks."),
    Attribute("_start_size", "count", length="n_rows"),
    Attribute("_start_rows", "index", "n_start", below="n_rows"),
    Attribute("_start_coef", "finite", "n_start, n_scores"))
OF_LEFT_OUT = Attribute("_left_out", "part", of="LeftOut", shares="n_rows, n_scores")


@dataclass(kw_only=True, eq=False, repr=False)
class KernelMachine(Shrinking, BaseEstimator):
    """The parameters of the exact machines, documented at :class:`SVC`, and how their fits begin and end."""

    kernel: KernelLike = "rbf"
    degree: float = 3
    gamma: float | str = "scale"
    coef0: float = 0.0
    tol: float = 1e-3
    gap: float | None = None
    cache_size: float = 200
    max_iter: int | None = None
    max_time: float | None = None
    solver: str = "auto"
    indefinite: str = "warn"
    warm_start: bool = False
    device: str | None = None
    progress: bool = False
    checkpoint: str | None = None
    resume: bool | str = False

    _left_out: ClassVar[Any] = Later()

    def __sklearn_tags__(self) -> Any:
        return sparse_or_dense(super().__sklearn_tags__(), is_precomputed(self.kernel))

    @property
    def _most(self) -> int | None:
        """``max_iter``, of which scikit-learn writes -1 for no limit."""
        return None if self.max_iter == -1 else self.max_iter

    def _check(self) -> None:
        """Check the parameters above."""
        note_idle(self, shrinking="the solver decides by itself which rows to set aside, and the optimality gap holds "
                                  "either way.")
        check_number("tol", self.tol, 0)
        if self.gap is not None:
            check_number("gap", self.gap, 0, 1)
        check_number("cache_size", self.cache_size, 0)
        check_option("solver", self.solver, SOLVERS)
        check_option("indefinite", self.indefinite, POLICIES)
        check_limits(self._most, self.max_time)

    def _checked(self, X: MatrixLike, y: VectorLike, *, numeric_target: bool = False) -> tuple[DenseOrSparse, Labels]:
        """Return X and y, checked; of an X that only the kernel's function can read, its Gram matrix."""
        self.__dict__.pop("_objects", None)
        if not only_for_function(self.kernel, X):
            return check_X_y(self, X, y, numeric_target=numeric_target, sparse=True, single=True)
        gram, labels = check_X_y(self, self._gram(X, X), y, numeric_target=numeric_target)
        check_gram(gram)
        known: Any = X
        self._objects = known
        if issparse(known):
            self.n_features_in_ = known.shape[1]
        else:
            del self.n_features_in_
        return gram, labels

    def _gram(self, X: Any, Z: Any) -> Array:
        """Return the values of the kernel's function between two sets that it alone can read."""
        function: Any = self.kernel
        return Custom(function)(X, Z)

    def _rows_of(
        self, X: DenseOrSparse, order: Rows, sections: Rows | None = None, weight: Array | None = None,
        targets: tuple[Labels, Array] | None = None
    ) -> tuple[Kernel, Settled, KernelRows]:
        """Return the kernel fitted to X, what is solved with on its rows ``order``, and the cached rows of that.

        ``targets`` are those of the rows ``order``, numbers or of classes, and their weights (m,). Refuses a kernel
        whose values are beyond float64's reach.
        """
        kernel = Precomputed() if hasattr(self, "_objects") else self._kernel_of(X, order, weight, targets)
        solved_on = X[np.ix_(order, order)] if isinstance(kernel, Precomputed) else X[order]
        settled = settle(kernel, solved_on, self.indefinite)
        with np.errstate(over="ignore", invalid="ignore"):
            largest = np.abs(settled.kernel.diagonal(settled.X)).max()
        if not largest <= 1e30:  # curvatures and bounds of larger kernels overflow in products
            raise ValueError(f"The kernel reaches {largest:.3g} on these rows, and the program's products would "
                             "overflow float64. Scale the columns of X (StandardScaler), or lower gamma, degree or "
                             "coef0.")
        known = settled.change is not None  # a matrix then, which is there already
        solved_with = settled.kernel if known else on_device(settled.kernel, settled.X, self.device)
        return kernel, settled, KernelRows(solved_with, settled.X, self.cache_size, real=None, sections=sections)

    def _kernel_of(
        self, X: DenseOrSparse, order: Rows, weight: Array | None, targets: tuple[Labels, Array] | None
    ) -> Kernel:
        if not (isinstance(self.kernel, str) and self.kernel == "columns"):
            return fitted_kernel(self, X, weight)
        if targets is None or issparse(X):
            raise ValueError("kernel='columns' learns a weight for each column of a dense X from labels or targets. "
                             "Use kernel='rbf' here, or X.toarray().")
        rbf = as_kernel("rbf", gamma=self.gamma, X=X, sample_weight=weight)
        assert isinstance(rbf, Radial)
        some = drawn_rows(len(order), COLUMNS.rows)
        numbers = self._numbers(targets[0][some])
        u = targets[1][some]
        with suppress(TooRoundedError):
            centred = numbers - np.average(numbers, axis=0, weights=u)
            learned = column_kernel(X[order[some]], centred, u, rbf, alpha=COLUMNS.ridge)[0]
            # too few different rows show no rounding: then what the largest entry of K is rounded by must be small
            if np.finfo(np.float64).eps * learned.diagonal(X).max() <= self.tol:
                return learned
        raise ValueError("Columns of X are too far from 0 for kernel='columns': in float64 rounding of its linear "
                         "part hides the rest. Scale them (StandardScaler), or use kernel='rbf'.")

    def _numbers(self, targets: Labels) -> Array:
        """Return targets as numbers, (m,) or (m, k)."""
        return np.asarray(targets, dtype=np.float64)

    @property
    def coef_(self) -> DenseOrSparse:
        """Weights of the columns under a linear kernel, (n_scores, n_features), read-only; sparse for a sparse X."""
        check_is_fitted(self)
        if not isinstance(self.expansion_.kernel, Linear):
            raise AttributeError(f"coef_ is there with a linear kernel only. Got kernel={self.kernel!r}.")
        centers, weights = self.expansion_.centers, self.expansion_.coef
        coef: Any = hyperplane(centers, weights).T.copy()
        coef = type(centers)(coef) if issparse(centers) else coef
        (coef.data if issparse(coef) else coef).flags.writeable = False
        return coef

    @property
    def shape_fit_(self) -> tuple[int, ...]:
        """Shape of the training data."""
        check_is_fitted(self)
        return (self._start_size, self.n_features_in_) if hasattr(self, "n_features_in_") else (self._start_size,)

    @property
    def fit_status_(self) -> int:
        """0 where the fit converged, else 1."""
        check_is_fitted(self)
        return int(not self.converged_)

    @property
    def loo_decision_(self) -> Array:
        """Scores of the training rows, each under the fit without it: (n,), or (n, n_problems) of several problems.

        Rows equal in x and y are left out together. NaN for rows that have no part in a problem.
        """
        check_is_fitted(self)
        if "_left_out" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no loo_decision_. SVDD keeps rows left out, for p_values.")
        scores = self._left_out_scores()
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _left_out_scores(self) -> Array:
        """Return the scores (n, k) of the training rows, each left out with its equals."""
        kept = self._left_out
        if kept.done:
            return kept.scores
        kernel = self.expansion_.kernel
        place = np.searchsorted(np.sort(self.support_), kept.support)
        numbers = np.argsort(self.support_, kind="stable")[place]
        rows = self.support_vectors_[numbers]
        return kept.decision(kernel, rows[:, kept.support] if isinstance(kernel, Precomputed) else rows)

    def _scores(self, X: MatrixLike) -> tuple[DenseOrSparse, Array]:
        """Return the rows of X, checked, and their scores in every problem, (n, k)."""
        if not hasattr(self, "expansion_"):
            check_is_fitted(self)
        rows = self._gram(X, self._objects) if hasattr(self, "_objects") else rows_to_score(self, X, single=True)
        model: KernelExpansion = self.expansion_
        if self.device is not None:
            model = replace(model, kernel=on_device(model.kernel, rows, self.device))
        return rows, model(rows)

    def _limits(self, **others: Any) -> Limits:
        """Return the limits that the parameters ask for, and others."""
        return Limits(tol=self.tol, max_iter=self._most, progress=bool(self.progress or self.verbose),
                      solver=self.solver, gap_tol=1e-3 if self.gap is None else self.gap, by_gap=self.gap is not None,
                      **others)

    def _recalled(self, task: Training, n_problems: int) -> Array | None:
        """Return where a warm start begins, (n, k) of the rows solved on; None for from 0."""
        if not self.warm_start or not hasattr(self, "_start_coef"):
            return None
        if (self._start_size, self._start_coef.shape[1]) != (task.X.shape[0], n_problems):
            return None
        coef = np.zeros((self._start_size, n_problems))
        coef[self._start_rows] = self._start_coef
        return coef[task.order]

    def _take(self, task: Training, coef: Array, solutions: list[SVMSolution]) -> None:
        """Set what was learned; ``coef`` (n, k) are of the rows solved on."""
        used = coef.any(axis=1)
        self._start_size = task.X.shape[0]
        self._start_rows = task.order[used]
        self._start_coef = coef[used]
        intercept = np.array([solution.proof.intercept for solution in solutions])
        self.__dict__.update(task.described(coef, intercept))
        for name, key in (("primal_objective_", "primal"), ("dual_objective_", "dual"), ("dual_gap_", "gap")):
            values = [getattr(solution.proof, key) if task.settled.convex else np.nan for solution in solutions]
            setattr(self, name, one_or_each(values))
        definite = task.settled.kernel.definiteness in ("pd", "cpd")
        self.proof_ = proof_word(definite and solution.proof.product.proven for solution in solutions)
        self.converged_ = all(solution.converged for solution in solutions)
        taken = [solution.outcome.n_iter for solution in solutions]
        self.n_iter_ = taken[0] if task.classes is None else np.array(taken, dtype=np.int32)
        self.n_kernel_rows_ = task.rows.n_computed
        self.n_negative_curvature_ = 0 if task.settled.convex else sum(one.downwards for one in solutions)
        self.history_ = solutions[-1].outcome.history

    def _keep_left_out(self, task: Training, problems: list[Solved]) -> None:
        """Keep what scores of rows left out are made of; they are completed at once where their Gram matrix is another.
        """
        n, used, settled = task.X.shape[0], task.order, task.settled
        self.__dict__["_left_out"] = Promise(
            partial(left_out, n, used, (task.codes, task.weight), task.groups, problems))
        if settled.change is not None:
            solved = np.empty(n, dtype=np.intp)
            solved[used] = np.arange(len(used))
            support = solved[self._left_out.support]
            self._left_out.decision(settled.kernel, settled.X[np.ix_(support, support)])


def only_for_function(kernel: KernelLike, X: MatrixLike) -> bool:
    """Say whether the kernel is a user's function and X are sparse rows or no table of numbers: it alone reads them."""
    if isinstance(kernel, str | Kernel) or not callable(kernel):
        return False
    if issparse(X):
        return True
    try:
        rows = np.asarray(X)
    except ValueError:  # lists of several lengths
        return True
    other = rows.dtype.kind in "OUS" and not all(isinstance(entry, Real) for entry in rows.flat)
    return rows.ndim > 0 and (rows.ndim != 2 or other)


def on_device(kernel: Kernel, X: DenseOrSparse, device: str | None) -> Kernel:
    """Return the kernel with its matrices computed on a device of torch; itself where that is None.

    Raises ValueError for a device that torch does not have, for sparse rows, and for kernels that depend on more than
    a distance or an inner product.
    """
    if check_device(device) is None:
        return kernel
    if issparse(X):
        raise ValueError(f"device={device!r} computes with dense rows. Got a sparse X. Use X.toarray(), or leave "
                         "device at None.")
    if not isinstance(kernel, Radial | DotProduct):
        raise ValueError(f"On a device, kernels are computed that depend on a distance or an inner product. Got "
                         f"{kernel!r} and device={device!r}. Leave device at None.")
    return OnDevice(kernel, str(device))
