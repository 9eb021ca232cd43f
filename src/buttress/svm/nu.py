"""The machines of a share nu: the C, or the width of the tube, at which the coefficients sum to nu of their bounds.

sum_i |b_i| / sum_i C_i of the classifier is linear in 1/C while the same coefficients are on their bounds, and grows
with it; that of the regressor is linear in epsilon, and falls. So the value asked for is found by secants, each fit
starting from the one before, and on the last piece exactly.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from buttress._callbacks import all_or_nothing, with_callbacks
from buttress._checks import Array, check_number, warn_user
from buttress._documented import advises
from buttress._state import Attribute, State, one_or_each
from buttress._types import MatrixLike
from buttress.checkpoints.journal import resumable
from buttress.gram.rows import KernelRows
from buttress.solvers.qp.program import Start, classifier_qp
from buttress.solvers.qp.solve import Limits, SVMSolution, solve
from buttress.solvers.run import countdown
from buttress.svm.left_out import scaled
from buttress.svm.pairs import ExactClassifier
from buttress.svm.regressor import ExactRegressor, Tube

FARTHEST = 1e8  # largest and, inverted, smallest C that is tried
STEP = 10.0  # from one C to the next, until nu is between


def _check_nu(nu: object) -> float:
    return check_number("nu", nu, 0, 1, closed="right", fix="nu is a share of the rows.")


class Search:
    """The solutions that were tried; ``excess`` of a parameter is how far its share is from nu, 0.0 where it is met."""

    def __init__(self, solved: Callable[[float, SVMSolution | None], SVMSolution],
                 total: Callable[[float], float], nu: float, tol: float):
        self.solved = solved
        self.total = total
        self.nu = nu
        self.close = 0.01 * tol * nu  # how far the share may be from nu
        self.last: SVMSolution | None = None
        self.n_iter = 0
        self.reached = 0.0  # what was too much where nothing less could be had

    def excess(self, value: float) -> float:
        self.last = replace(self.solved(value, self.last), found=value)
        self.n_iter += self.last.outcome.n_iter
        self.last.outcome.n_iter = self.n_iter
        excess = float(np.abs(self.last.b).sum()) / self.total(value) - self.nu
        return 0.0 if abs(excess) <= self.close or not self.last.converged else excess

    def from_one(self) -> SVMSolution:
        """Return the solution of a positive value, looked for from 1 on; the least tried if more is missing there."""
        near = far = 1.0
        before = self.excess(far)
        step = 1 / STEP if before > 0 else STEP
        while before != 0 and 1 / FARTHEST < far < FARTHEST:
            near, far = far, far * step
            after = self.excess(far)
            if before * after < 0:
                return self.between({near: before, far: after})
            # the share counts as at its least once it no longer falls
            if step < 1 and far < 1e-4 and before - after <= self.close:
                break
            before = after
        self.reached = before
        assert self.last is not None, "a value was tried"
        return self.last

    def between(self, ends: dict[float, float]) -> SVMSolution:
        """Return the solution of the value at which nothing exceeds, between two of which the excess is known.

        They are not solved again: from another start a solution that is cut short may have an excess of another sign.
        """
        def excess(value: float) -> float:
            return ends[value] if value in ends else self.excess(value)

        root = float(brentq(excess, min(ends), max(ends), xtol=np.finfo(float).tiny, rtol=1e-12))
        if self.last is None or self.last.found != root:
            self.excess(root)
        assert self.last is not None, "a value was tried"
        return self.last


@advises(class_weight="scikit-learn's takes it and does not read it. Use SVC(class_weight=...), or sample_weight.")
@dataclass(kw_only=True, eq=False, repr=False)
class NuSVC(ExactClassifier):
    """Kernel support vector classifier of a share nu, exact, with an optimality gap.

    Is the machine of :class:`SVC` at the C, found for each pair of classes, at which the coefficients sum to nu of what
    their bounds allow: sum_i alpha_i = nu sum_i C_i. At most the share nu of the rows (counted by weight) then has a
    positive loss, and at least the share nu are support vectors. It is the machine of libsvm and scikit-learn, which
    take ``class_weight`` and do not read it.

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1], and at most twice the share of the smaller class. With classes that overlap no C gives a small nu:
        the model is then that of the largest C tried, with a warning.
    kernel, degree, gamma, coef0, tol, gap, cache_size, max_iter, max_time, solver, multi_class
        As in :class:`SVC`; the limits of iterations are those of each C that is tried. gamma is no ``"loo"``.
    indefinite, warm_start, decision_function_shape, break_ties, device, progress, checkpoint, resume
        As in :class:`SVC`.
    probability, random_state, shrinking, verbose
        As in :class:`SVC`.

    References
    ----------
    Chang & Lin, Training nu-support vector classifiers: theory and algorithms, Neural Computation 13, 2001, theorem 4.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from buttress import NuSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = NuSVC(nu=0.2).fit(X, y)
    >>> bool(len(model.support_) >= 0.2 * len(y))
    True
    """

    _state = State(Attribute("C_", "positive", "one or n_problems", "The C that was found, of each problem."))

    nu: float = 0.5

    @all_or_nothing
    @resumable
    @with_callbacks
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "NuSVC":
        """Fit to X of shape (n, d), dense or sparse, and class labels y of shape (n,); returns self.

        Raises ValueError as :class:`SVC` does, and for a nu that is infeasible. Ctrl-C raises KeyboardInterrupt.
        """
        _check_nu(self.nu)
        self.C_ = one_or_each(float(solution.found or 0) for solution in self._fit(X, y, sample_weight, None))
        return self

    def _solve_pair(
        self, rows: KernelRows, y: Array, weight: Array, start: Start | None, limits: Limits
    ) -> tuple[SVMSolution, Array]:
        nu, total, left = float(self.nu), float(weight.sum()), countdown(limits.max_time)
        most = 2 * min(weight[y > 0].sum(), weight[y < 0].sum()) / total
        if nu > most * (1 + 1e-12):
            raise ValueError(f"The specified nu is infeasible: with these classes it must be at most {most:.6g}. "
                             f"Got {nu:g}.")

        def solved(inverse: float, last: SVMSolution | None) -> SVMSolution:
            begun = start if last is None or last.found is None else scaled(last, last.found / inverse)
            return solve(classifier_qp(rows, y, weight / inverse, begun),
                         replace(limits, max_time=left(), inner=True))

        search = Search(solved, lambda inverse: total / inverse, nu, self.tol)
        found = search.from_one()
        C = 1 / float(found.found or np.inf)
        if search.reached > search.close:
            warn_user(f"nu={nu:g} is too small for these classes, which overlap: with C={C:g} the coefficients still "
                      f"sum to {nu + search.reached:.3g} of their bounds. The model is that of this C. Raise nu.")
        return replace(found, found=C), C * weight


@dataclass(kw_only=True, eq=False, repr=False)
class NuSVR(ExactRegressor):
    """Kernel support vector regressor whose tube leaves out a share nu of the rows, exact, with an optimality gap.

    Is the machine of :class:`SVR` at the epsilon at which the coefficients sum to nu of their bounds: sum_i |b_i| =
    nu sum_i C_i, or at epsilon = 0 where they sum to less.

    Parameters
    ----------
    nu : float, default=0.5
        At most this share of the rows is outside the tube, and at least this share are support vectors; in (0, 1].
    C : float, default=1.0
        As in :class:`SVR`, and finite.
    kernel, degree, gamma, coef0, tol, gap, cache_size, max_iter, max_time, solver, indefinite, warm_start, device
        As in :class:`SVC`; the limits of iterations are those of each epsilon that is tried. gamma is no ``"loo"``.
    progress, checkpoint, resume, shrinking, verbose
        As in :class:`SVC`.

    References
    ----------
    Schoelkopf, Smola, Williamson & Bartlett, New support vector algorithms, Neural Computation 12, 2000, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import NuSVR
    >>> x = np.linspace(0, 6, 50)[:, None]
    >>> y = np.sin(x[:, 0]) + np.random.default_rng(0).normal(scale=0.1, size=50)
    >>> model = NuSVR(C=10.0, nu=0.3).fit(x, y)
    >>> bool(np.mean(np.abs(model.predict(x) - y) > model.epsilon_ + 1e-3) <= 0.3)
    True
    """

    _state = State(Attribute("epsilon_", "nonnegative",
                             meaning="Half the width of the tube that was found. In units of y."))

    _closed = "neither"

    nu: float = 0.5

    @all_or_nothing
    @resumable
    @with_callbacks
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "NuSVR":
        """Fit to X of shape (n, d), dense or sparse, and numbers y of shape (n,); returns self.

        Raises ValueError as :class:`SVR` does. Ctrl-C raises KeyboardInterrupt.
        """
        _check_nu(self.nu)
        self._fit(X, y, sample_weight)
        return self

    def _solve_tube(self, tube: Tube) -> SVMSolution:
        left, total = countdown(self.max_time), float(tube.bound.sum())
        search = Search(lambda epsilon, _: tube.solved(epsilon, left(), inner=True), lambda epsilon: total,
                        float(self.nu), self.tol)
        flattest, widest = search.excess(0.0), float(np.ptp(tube.targets))
        found = search.last
        if flattest > 0:
            found = search.between({0.0: flattest, widest: search.excess(widest)})
        assert found is not None, "a width was tried"
        self.epsilon_ = float(found.found or 0.0)
        return found
