"""The exact kernel support vector classifier, and its path over C."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import all_or_nothing, step_callback, with_callbacks, without_callbacks
from buttress._checks import Array, NotConvergedWarning, check_number, silent, warn_user
from buttress._state import Attribute, State
from buttress._types import ClassWeight, MatrixLike
from buttress._weights import check_weights, loss_weights
from buttress.checkpoints.journal import resumable
from buttress.gram.rows import KernelRows
from buttress.kernels.choose import resolve_gamma
from buttress.solvers.qp.program import Start, classifier_qp
from buttress.solvers.qp.solve import HARDEST, Limits, SVMSolution, solve, without_loss
from buttress.solvers.run import SharedBudget
from buttress.svm.left_out import CS, GAMMAS, LOO, left_out_error, left_out_risk, scaled, walk
from buttress.svm.pairs import ExactClassifier
from buttress.svm.task import Training


@dataclass(kw_only=True, eq=False, repr=False)
class SVC(ExactClassifier):
    """Kernel support vector classifier, exact, with an optimality gap.

    Minimises 1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i (w'phi(x_i) + b)), C_i = C * class weight * sample weight, by block
    decomposition of its dual. More than two classes are split into pairs that vote, as in libsvm, or into one problem
    for each class. All problems share one cache of kernel rows.

    Parameters
    ----------
    C : float or "loo", default=1.0
        A number is the weight of the hinge losses against the norm, > 0. ``numpy.inf`` is the hard margin: no loss at
        all, the widest margin 1/||w|| (only rows of weight 0 are then ignored). "loo" chooses from .1 to 100, by the
        probability that a left-out row is misclassified.
    kernel : str, kernel object or function, default="rbf"
        A name (see :func:`buttress.kernels.as_kernel`), an object such as ``RBF(0.1)``, ``"precomputed"``, or a
        function of two arrays (n, d), (m, d) that returns (n, m). ``"columns"``, for dense X, is the RBF kernel with a
        weight for each column, plus a linear kernel. Both are learned by the leave-one-out error of kernel ridge on at
        most 1,000 rows; ``expansion_.kernel`` holds them.
    degree, gamma, coef0
        Parameters of a kernel given by name, as in scikit-learn. gamma is a number, ``"scale"``, ``"auto"``, or
        ``"loo"``: chosen like C.
    tol : float, default=1e-3
        Stop when the largest KKT violation is at most this; > 0. The duality gap is then checked too.
    gap : float or None, default=None
        Stop as soon as the duality gap, computed in float64, is at most this share of the primal objective, in (0, 1):
        for large n, if the last digits are not needed. None asks for ``tol`` and a gap of 1e-3. It has no effect with
        an indefinite kernel, which has no gap.
    cache_size : float, default=200
        Megabytes of kernel rows to keep.
    class_weight : dict, "balanced" or None
        As in scikit-learn.
    max_iter : int or None, default=None
        Most pair updates per problem; a started block is finished. None, or -1 as in scikit-learn, is libsvm's limit of
        max(10 million, 100 n).
    max_time : float or None
        Most seconds of the whole fit.
    solver : {"auto", "smo", "ipm"}, default="auto"
        "smo" updates pairs of coefficients; "ipm" is an interior-point method for up to 3,000 rows, whose iterations do
        not depend on C or the scale; "auto" starts with "smo" and changes to "ipm" if it stalls.
    multi_class : {"ovo", "ovr"}, default="ovo"
        With more than two classes: one problem for each pair, which vote, or one for each class against the rest.
    indefinite : {"warn", "raise", "clip", "flip"}, default="warn"
        For a kernel that is not positive definite on the data (sigmoid, some functions and Gram matrices). "warn": a
        stationary point, with a warning and without an optimality gap. "raise": an error. "clip", "flip": negative
        eigenvalues of the Gram matrix (up to 5,000 rows) become 0, or their absolute values, which is the Krein-space
        machine.
    warm_start : bool, default=False
        Start from the previous fit's solution if it had as many rows; they should be the same rows in the same order.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Shape of the decision function for more than two classes: one column for each class (votes, ties broken by the
        scores) or for each pair.
    break_ties : bool, default=False
        Predict the largest "ovr" decision value instead of the first class with the most votes; refused with "ovo".
    shrinking, verbose, random_state, probability
        Accepted as in scikit-learn, without effect on the model; ``verbose`` shows progress, and last digits may then
        differ. Nothing is drawn at random, and probabilities are always available.
    device : str or None, default=None
        Compute kernel matrices with torch on this device, such as "cuda" (``pip install buttress[torch]``): for dense
        rows and a kernel that depends on a distance or an inner product. None is numpy. The model holds numpy arrays.
    progress : bool, default=False
        Show a progress line.
    checkpoint : str or None, default=None
        Folder in which the fit saves its state every few seconds, to continue if its process is killed.
    resume : bool or "approximately", default=False
        True: continue from ``checkpoint``, to the same bits, or start if it is empty. "approximately" accepts other
        versions or threads.

    References
    ----------
    Fan, Chen & Lin, Working set selection using second order information, JMLR 6, 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from buttress import SVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SVC().fit(X, y)
    >>> bool(model.dual_gap_ <= 1e-3 * model.primal_objective_)
    True
    """

    _state = State(
        Attribute("C_", "positive", meaning="The C that was chosen.", when='with "loo"'),
        Attribute("gamma_", "any", meaning="The gamma that was chosen.", when='with "loo"'))

    C: float | str = 1.0
    class_weight: ClassWeight = None

    @all_or_nothing
    @resumable
    @with_callbacks
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "SVC":
        """Fit to X of shape (n, d), dense or sparse, and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), fewer than
        two classes, a class without weight, a kernel with values beyond 1e30, or a hard margin on
        data that cannot be separated. Ctrl-C during the last problem (with two classes, the only one) ends it early,
        with a warning; before that, or where one compiled pass solves the last problem (up to 1,500 rows), it raises
        KeyboardInterrupt, and the estimator stays as it was. With C or gamma "loo", Ctrl-C and ``max_time`` end the
        choice: the best of the fits that are ready is the model, with a warning.
        """
        if self.C != LOO:
            fix = "Or use C='loo', which chooses it by rows left out." if isinstance(self.C, str) else ""
            check_number("C", self.C, 0, closed="right", fix=fix)
        if LOO in (self.C, self.gamma):
            step_callback(self, X, y, None)  # the fits that are tried are no steps; its end is reported
            self._adopt(choose(self, X, y, sample_weight))
            return self
        for name in ("C_", "gamma_"):
            self.__dict__.pop(name, None)
        self._fit(X, y, sample_weight, self.class_weight)
        return self

    @property
    def loo_error_(self) -> float:
        """Share of the training rows (by weight) that are misclassified when they are left out."""
        check_is_fitted(self)
        return left_out_error(self._held_out())

    def _adopt(self, best: "SVC") -> None:
        """Take over what another fit, of the C and gamma chosen, has found."""
        for name in vars(best).keys() - best.get_params(deep=False).keys():
            setattr(self, name, getattr(best, name))
        self.C_ = best.C
        self.gamma_ = best.gamma

    def _solve_pair(
        self, rows: KernelRows, y: Array, weight: Array, start: Start | None, limits: Limits
    ) -> tuple[SVMSolution, Array]:
        C = float(self.C)
        bounds = loss_weights(C, weight)
        if np.isinf(C):
            ones = np.ones(len(y))
            solution = without_loss(rows, lambda bound, begun: classifier_qp(rows, y, bound * ones, begun), limits)
            if solution is None:
                raise ValueError(
                    "C=inf asks for a hard margin, but the data cannot be separated by this kernel: every margin is "
                    f"below {HARDEST**-0.5:g} of the data's spread. Give a finite C, or a kernel that separates.")
            return solution, bounds
        return solve(classifier_qp(rows, y, bounds, start), limits), bounds


@dataclass
class Line:
    """Fits of one kernel for one C after another, each started from the one before, on the same kernel rows."""

    first: SVC
    task: Training
    C: float = 0.0
    solved: Sequence[SVMSolution] = ()

    def fit(self, C: float, max_time: float | None) -> SVC:
        """Return the fit at C. Ctrl-C is passed on."""
        model = copy(self.first)
        model.C = float(C)
        model.max_time = max_time
        starts = [scaled(solution, model.C / self.C) for solution in self.solved] or None
        self.solved = model._solve(self.task, starts, inner=True)
        self.C = model.C
        return model

    def with_gamma(self, gamma: float) -> "Line":
        """Return the line of another gamma."""
        first = copy(self.first)
        first.gamma = gamma
        return Line(first, first._with_kernel(self.task))


@dataclass
class BestFit:
    """The best fit so far, its risk, and how many there were."""

    best: SVC | None = None
    risk: float = np.inf
    fits: int = 0

    def note(self, fit: SVC, risk: float) -> None:
        """Count a fit, and keep it if it is the best. One that ran out of time is no rival of one that did not."""
        self.fits += 1
        if self.best is None or (not fit.converged_, risk) < (not self.best.converged_, self.risk):
            self.best = fit
            self.risk = risk


def choose(model: SVC, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None) -> SVC:
    """Return the best fit, by :func:`left_out_risk`, of a walk over values of C and gamma that starts from C = 1.

    For a gamma C grows while the risk falls, or shrinks if at first it grew; then gamma does so, from ``"scale"`` on,
    each value with the C that was best before. Each fit of a gamma starts from the one before, on the same kernel rows.
    When time is up, or at Ctrl-C, the best fit so far is the choice.
    """
    if model.gamma == LOO and not isinstance(model.kernel, str):
        raise ValueError(f"gamma='loo' needs a kernel given by its name. Got kernel={model.kernel!r}. Use "
                         "kernel='rbf', or give the kernel its gamma.")
    budget = SharedBudget(model.max_time, name="SVC")
    Cs: Sequence[float] = CS if model.C == LOO else [float(model.C)]
    first = without_callbacks(clone(model)).set_params(C=1.0 if model.C == LOO else model.C,
                                                       gamma="scale" if model.gamma == LOO else model.gamma)
    task = first._prepare(X, y, sample_weight, first.class_weight)
    gammas = _gammas(model, task, sample_weight)
    tried = BestFit()
    budget.attempt(
        lambda: _walk(Line(first, task), Cs, gammas, tried, budget), otherwise=lambda: None,
        known=lambda: tried.best is not None,
        message=f"The choice of C and gamma was interrupted. The model is the best so far of {len(Cs) * len(gammas)} "
                "at most that were to be tried.")
    assert tried.best is not None, "there is a C and a gamma to try"
    if budget.cut:
        warn_user(f"The choice of C and gamma stopped at max_time after {tried.fits} fits, of at most "
                  f"{len(Cs) * len(gammas)}. The model is the best of these. Raise max_time.", NotConvergedWarning)
    return tried.best


def _gammas(model: SVC, task: Training, sample_weight: ArrayLike | None) -> list[Any]:
    if model.gamma != LOO:
        return [model.gamma]
    with silent(UserWarning):  # of rows left out, which was said
        weight = check_weights(sample_weight, task.X, leave_out=True)
    unit = resolve_gamma("scale", task.X, weight)
    return [factor * unit for factor in GAMMAS]


def _walk(
    line: Line, Cs: Sequence[float], gammas: Sequence[Any], tried: BestFit, budget: SharedBudget
) -> None:
    """Try values of C and gamma, the first of them those of ``line``."""
    start = GAMMAS.index(1.0) if len(gammas) > 1 else 0
    line.first.gamma = gammas[start]
    at_C = Cs.index(1.0) if len(Cs) > 1 else 0

    def least_of(number: int) -> float:
        nonlocal at_C
        here = line if number == start else line.with_gamma(gammas[number])

        def risk(place: int) -> float:
            fit = here.fit(Cs[place], budget.left())
            found = left_out_risk(fit._held_out())
            tried.note(fit, found)
            return found

        place, least = walk(risk, at_C, len(Cs), budget)
        at_C = place if least == tried.risk else at_C
        return least

    walk(least_of, start, len(gammas), budget)


def svc_path(
    X: MatrixLike, y: ArrayLike, Cs: Sequence[float], sample_weight: ArrayLike | None = None, **parameters: Any
) -> list[SVC]:
    """Fit :class:`SVC` for every C in ``Cs``; returns the fitted models in that order.

    Ctrl-C ends the path: the models that are ready are returned, with a warning.

    The kernel rows are computed once for all of them (as far as ``cache_size`` allows). Each fit starts from the
    solution before it, scaled to its own C, so a path in increasing order is the fastest.

    Parameters
    ----------
    X, y, sample_weight
        As in ``SVC.fit``.
    Cs : sequence of float
        Finite and > 0.
    **parameters
        Of :class:`SVC`, except checkpoint and ``gamma="loo"``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from buttress.svm import svc_path
    >>> X, y = make_moons(200, noise=0.3, random_state=0)
    >>> models = svc_path(X, y, [0.1, 1.0, 10.0])
    >>> [model.C for model in models], all(model.converged_ for model in models)
    ([0.1, 1.0, 10.0], True)
    >>> best = min(models, key=lambda model: model.loo_error_)
    >>> bool(best.loo_error_ < 0.1)
    True
    """
    kept = {name: parameters[name] for name in ("checkpoint", "resume") if parameters.get(name)}
    if kept:
        raise ValueError(f"svc_path keeps no checkpoint. Got {kept}. Leave it out, or fit SVC for each C.")
    for position, C in enumerate(Cs):
        check_number(f"Cs[{position}]", float(C), 0)
    if not len(Cs):
        raise ValueError("Cs must hold at least one value. Got an empty sequence. Give, for example, [0.1, 1, 10].")
    models: list[SVC] = []

    def follow() -> None:
        first = SVC(**{**parameters, "C": float(Cs[0])})
        line = Line(first, first._prepare(X, y, sample_weight, first.class_weight))
        for C in Cs:
            models.append(line.fit(C, first.max_time))

    SharedBudget().attempt(
        follow, otherwise=lambda: None, known=lambda: bool(models),
        message=f"svc_path was interrupted. It returns the models that are ready, of {len(Cs)} values of C.")
    return models
