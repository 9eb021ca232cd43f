"""The exact one-class machine: rows apart from the origin of feature space."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin
from sklearn.utils.validation import _num_samples

from buttress._callbacks import CallbackSupportMixin, all_or_nothing, step_callback, with_callbacks
from buttress._checks import Array, check_number, check_option
from buttress._documented import Documented
from buttress._proof import SLACK
from buttress._state import Attribute, State
from buttress._types import MatrixLike, VectorLike
from buttress._weights import check_weights
from buttress.checkpoints.journal import resumable
from buttress.solvers.linear.primal import best_intercept
from buttress.solvers.qp.program import Start, one_class_qp
from buttress.solvers.qp.solve import solve
from buttress.svm.machine import OF_MACHINES, KernelMachine
from buttress.svm.task import Training


@dataclass(kw_only=True, eq=False, repr=False)
class OneClassSVM(Documented, CallbackSupportMixin, OutlierMixin, KernelMachine):
    """The one-class machine of Schoelkopf, exact, with an optimality gap.

    Minimises 1/2 ||w||^2 - rho nu sum_i w_i + sum_i w_i max(0, rho - w'phi(x_i)) over w and rho, w_i the weights of
    rows: libsvm's and scikit-learn's machine in their units. With a kernel of x - z its decisions are those of
    :class:`SVDD`, which besides has p-values and a threshold for a share of new rows.

    Parameters
    ----------
    nu : float, default=0.5
        At most this share of the rows is outside, and at least this share are support vectors; in (0, 1].
    kernel, degree, gamma, coef0, tol, gap, cache_size, max_iter, max_time, warm_start, device, progress, checkpoint
        As in :class:`SVC`; kernel is no ``"columns"``, gamma no ``"loo"``.
    solver : {"auto", "smo"}, default="auto"
        Both improve pairs.
    indefinite : {"warn", "raise"}, default="warn"
        For a kernel that is not positive definite on the data.
    resume, shrinking, verbose
        As in :class:`SVC`.

    References
    ----------
    Schoelkopf, Platt, Shawe-Taylor, Smola & Williamson, Estimating the support of a high-dimensional distribution,
    Neural Computation 13, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> OneClassSVM(nu=0.1, gamma=0.1).fit(X).predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    _state = State(
        Attribute("support_", "index", "n_support", "Row numbers of the support vectors.", below="n_rows"),
        Attribute("support_vectors_", "finite", "n_support, n_features", "Their rows."),
        Attribute("n_support_", "count", "1", "How many there are."),
        Attribute("dual_coef_", "nonnegative", "n_scores, n_support", "Their coefficients, which sum to nu sum_i w_i."),
        Attribute("intercept_", "finite", "n_scores", "Minus ``offset_``."),
        Attribute("offset_", "finite",
                  meaning="rho, less what rounding may add: ``decision_function(X) = score_samples(X) - offset_``."),
        *OF_MACHINES)

    nu: float = 0.5

    @all_or_nothing
    @resumable
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike | None = None, sample_weight: ArrayLike | None = None) -> "OneClassSVM":
        """Fit to X of shape (n, d), dense or sparse; y is not read; returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column). Rows of
        negative weight are left out, with a warning.
        """
        self._check()
        check_number("nu", self.nu, 0, 1, closed="right", fix="nu is the share of rows that may lie outside.")
        check_option("solver", self.solver, ("auto", "smo"))
        check_option("indefinite", self.indefinite, ("warn", "raise"))
        rows, _ = self._checked(X, np.zeros(_num_samples(X)))
        weight = check_weights(sample_weight, rows, leave_out=True)
        used = np.flatnonzero(weight)
        kernel, settled, shared = self._rows_of(rows, used, weight=weight)
        task = Training(rows, kernel, used, np.zeros(len(used), dtype=np.intp), weight[used], None, settled, shared,
                        step_callback(self, rows, y, None))
        coef = self._recalled(task, 1)
        qp = one_class_qp(shared, task.weight, float(self.nu), None if coef is None else Start(coef[:, 0]))
        none = np.zeros(len(used))
        report = task.reporting(none[:, None], [], np.arange(len(used)),
                                lambda values: best_intercept(-values, none, task.weight, 0.0, qp.total))
        unit = 64 * np.finfo(float).eps
        size = qp.total * float(np.abs(shared.diagonal).max())  # at least a score
        solution = solve(qp, self._limits(convex=settled.convex, max_time=self.max_time, callback=report,
                                          floor=unit * size * qp.total))
        self._take(task, solution.b[:, None], [solution])
        # in place, for the expansion holds the same array: rows on the boundary are inside whatever the rounding
        room = unit * (size + abs(self.intercept_[0]))
        self.intercept_ += room
        rise = SLACK * room * qp.total  # of the objective at most, as rho is smaller by ``room``
        self.primal_objective_ += rise
        self.dual_gap_ += rise
        self.offset_ = -float(self.intercept_[0])
        return self

    def decision_function(self, X: MatrixLike) -> Array:
        """Return w'phi(x) - rho of the rows of X (n, d), shape (n,): positive inside."""
        rows, scores = self._scores(X)
        return scores[:, 0].astype(rows.dtype, copy=False)

    def score_samples(self, X: MatrixLike) -> Array:
        """Return w'phi(x) of the rows of X (n, d), shape (n,)."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: MatrixLike) -> NDArray[np.intp]:
        """Return 1 for rows of X (n, d) inside or on the boundary, -1 for rows outside, shape (n,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)
