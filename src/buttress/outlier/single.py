"""Support vector data description with one kernel."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from buttress._callbacks import Report, all_or_nothing, showing, step_callback, with_callbacks
from buttress._checks import Array, NotConvergedWarning, check_X, warn_user
from buttress._proof import PROOF, proof_word
from buttress._state import Attribute, State
from buttress._types import Attributes, MatrixLike, VectorLike
from buttress._weights import check_weights
from buttress.gram.rows import KernelRows
from buttress.gram.spectrum import known_diagonal
from buttress.kernels import Combination, KernelLike, Precomputed, centers, is_precomputed
from buttress.kernels.choose import fitting
from buttress.outlier.detector import (
    OF_BALLS,
    BallDetector,
    Settling,
    checked_diag,
    refuse_diag,
    settle,
    unit_of,
    warn_unproven,
)
from buttress.outlier.kernel_values import near_distance2
from buttress.solvers.ball.soft_ball import ball_of, solve_ball
from buttress.solvers.qp.solve import Limits
from buttress.solvers.run import Step, countdown


@dataclass(kw_only=True, eq=False, repr=False)
class SVDD(BallDetector):
    """Support vector data description: the smallest soft ball around the rows, exact, with an optimality gap.

    Minimises R^2 + 1/(nu n) sum_i w_i max(0, ||phi(x_i) - c||^2 - R^2) over R^2 and the centre c. The weights w are
    scaled to sum to n. About the share nu of the rows is outside the ball. ``contamination`` decides which rows
    ``predict`` calls outliers. For a kernel that depends only on x - z, the boundary is that of scikit-learn's
    OneClassSVM; for others, such as the polynomial kernel, it is different.

    Parameters
    ----------
    kernel : str, kernel object or function, default="rbf"
        A name (see :func:`buttress.kernels.as_kernel`), an object such as ``RBF(0.1)``, ``"precomputed"``, or a
        function of two arrays (n, d), (m, d) that returns (n, m).
    nu : float, default=0.9
        Upper bound on the share of rows outside and lower bound on the share of support vectors, in (0, 1]. At 1 all
        rows count alike, and the score is that of a kernel density estimate.
    contamination : float in (0, 1), "auto" or None, default="auto"
        Where a row is outside. A number is the share of new rows, if they are like the training rows, that may be: the
        threshold is the score whose p-value it is (:meth:`p_values`). ``"auto"`` leaves a tenth of the training rows
        outside, by scores that each of them had a part in; new rows like them are outside more often. None is the
        radius of the ball.
    degree, gamma, coef0
        Parameters of a kernel given by name, as in scikit-learn. ``gamma="neighbors"``, the default, is 1 / m for rbf,
        m the median squared distance from a row to the third nearest of the different rows, and as wide for the other
        functions of a distance; the rest have ``"scale"``. Scale the columns first: the distance treats them alike.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, > 0: libsvm's measure, in units of the mean squared distance
        to the centre. Of more than 200 / nu rows no squared distance violates its condition by more than ``tol`` / 100
        of that mean. The duality gap is checked too.
    indefinite : {"warn", "raise", "clip", "flip"}, default="warn"
        What to do with a kernel that is not even conditionally positive definite. ``"warn"``: the result is a
        stationary point, and ``dual_gap_`` is NaN. ``"raise"``: a ValueError. The others correct its Gram matrix, up to
        5,000 rows: negative eigenvalues become 0 (``"clip"``) or their absolute value (``"flip"``).
    cache_size : float, default=200
        Megabytes of kernel rows to keep.
    max_iter : int or None, default=None
        Most pair updates; a started block is finished.
    max_time : float or None
        Most seconds. If they end before a ball of all rows is known, the model is fitted to 500 rows: the others have
        weight 0, and ``dual_gap_`` is NaN. If they end before the gap is proven, ``proof_`` says so. Checks,
        ``gamma="neighbors"`` and a correction by ``indefinite`` run before the limit applies.
    progress : bool, default=False
        Show a progress line.

    References
    ----------
    Tax & Duin, Support Vector Data Description, Machine Learning 54, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import SVDD
    >>> X = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 0.5]])
    >>> model = SVDD(kernel="linear", nu=0.1, contamination=None).fit(X)
    >>> model.radius_, model.predict([[1.0, -0.9], [1.0, -1.1]])
    (1.0, array([ 1, -1]))
    """

    _state = State(
        *OF_BALLS,
        Attribute("primal_objective_", "finite", meaning="An upper bound of the objective above at this ball."),
        Attribute("dual_objective_", "finite", meaning="A lower bound of the optimum."),
        Attribute("dual_gap_", "real",
                  meaning="Upper bound of how far it is above the optimum. NaN for an indefinite kernel."),
        PROOF,
        Attribute("converged_", "bool",
                  meaning="Whether ``tol`` was met and the gap is at most 1e-3 of the primal objective."),
        Attribute("n_iter_", "count", meaning="Pair updates."),
        Attribute("history_", "history", meaning="After each block, in the solver's own scaling."))

    kernel: KernelLike = "rbf"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike | None = None, sample_weight: ArrayLike | None = None) -> "SVDD":
        """Fit to X of shape (n, d), rows counted by ``sample_weight`` (n,); returns self. y is ignored.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), fewer than
        two rows, or negative weights.
        """
        self._check()
        left = countdown(self.max_time)
        rows = self._training_rows(X)
        weight = check_weights(sample_weight, rows)
        kernel = fitting(self._kernel(self.kernel, rows, weight, partial(near_distance2, rows, weight)), rows)
        Z = centers(kernel, rows)
        self._fit_diagonal = kernel.diagonal(rows) if isinstance(kernel, Precomputed) else None
        settled = settle(kernel, rows, weight, self.indefinite)
        report = step_callback(self, rows, y, None)
        self._in_time(weight, left, lambda counted: self._solve(settled, rows, Z, counted, report, left))
        return self

    def _solve(
        self, settled: Settling, rows: Array, Z: Array, weight: Array, report: Report,
        left: Callable[[], float | None],
    ) -> None:
        """Set the attributes of the ball around the rows that have weight."""
        kernel, gram, certified = settled
        keep = np.flatnonzero(weight)
        given = gram is not None or isinstance(kernel, Precomputed)
        part = (rows if gram is None else gram)[np.ix_(keep, keep)] if given else rows[keep]
        trained = Precomputed() if given else kernel
        unit = unit_of(trained, part)
        if unit != 1:
            if given:
                part = part / unit
            else:
                trained = Combination([kernel], [1 / unit])

        def at(step: Step) -> Attributes:
            apart = KernelRows(trained, part, self.cache_size, real=np.float64)
            ball = ball_of(apart, weight[keep], self.nu, step.state.b)
            return self._described(kernel, rows, Z, weight, ball.times(unit))

        gram_rows = KernelRows(trained, part, self.cache_size, real=np.float64 if given else None)
        limits = Limits(tol=self.tol, max_iter=self.max_iter, max_time=left(), callback=showing(report, at),
                        progress=self.progress)
        ball = solve_ball(gram_rows, weight[keep], self.nu, limits).times(unit)
        self.__dict__.update(self._described(kernel, rows, Z, weight, ball))
        self.dual_gap_ = ball.gap if certified else float("nan")
        self.proof_ = proof_word([ball.proven, trained.definiteness in ("pd", "cpd")])
        self.converged_ = ball.converged
        self.n_iter_ = ball.outcome.n_iter
        self.history_ = ball.outcome.history
        if ball.outcome.status == "late":
            warn_unproven("SVDD")
        status = ball.outcome.status
        if not ball.converged and (status in ("exhausted", "stalled") or (certified and status == "converged")):
            warn_user(f"SVDD stopped where rounding hides further progress, with a duality gap of {ball.gap:.3g}. "
                      "Scale the columns of X to similar ranges.", NotConvergedWarning)

    def _rows_and_diagonal(self, X: MatrixLike, diag: ArrayLike | None) -> tuple[Array, Array]:
        rows = check_X(self, X)
        if self._fit_diagonal is None:
            refuse_diag(diag)
            return rows, self.kernel_.diagonal(rows)
        return rows, known_diagonal(self.kernel_, rows, checked_diag(diag, (len(rows),), self._fit_diagonal))
