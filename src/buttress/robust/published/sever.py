"""SEVER for any estimator: fit, score each row by its gradient, drop the worst, and repeat.

Source: Diakonikolas, Kamath, Kane, Li, Steinhardt & Stewart (2019), algorithms 1 and 2.

The gradient of row i is g_i = sum_c R_ic k(x_i, .) e_c, R_i the derivative of its loss in the scores. Let the centred
gradients be the rows of G and v its first right singular vector. The score is tau_i = (G_i v)^2. It is computed without
features: the Gram matrix of the gradients is (R R') * K, centred on both sides, and tau_i = lmax u_i^2 with u its first
eigenvector. A penalty adds the same term to every gradient, which centring removes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import hstack, issparse
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.special import expit, softmax
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, get_routing_for_object, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import all_or_nothing
from buttress._checks import (
    Array,
    KernelScaleWarning,
    check_classes,
    check_contamination,
    check_count,
    check_number,
    check_X,
    check_X_y,
    silent,
)
from buttress._documented import Documented, advises
from buttress._rows import distinct_rows
from buttress._state import Attribute, State
from buttress._threads import own_threads
from buttress._types import (
    Labels,
    Mask,
    MatrixLike,
    ProbabilisticClassifier,
    RandomStateLike,
    Rows,
    ScoredClassifier,
    Trainable,
    VectorLike,
)
from buttress._weights import class_totals, repeated_rows
from buttress.features import landmarks, nystroem
from buttress.features.stored import StoredFeatures
from buttress.gram.entries import threads_of
from buttress.kernels import Kernel, KernelLike, Linear, as_kernel, is_precomputed, kernel_takes_sparse, warn_of_scale
from buttress.risks import Mean
from buttress.robust.published.descent import AUTO_LANDMARKS, GRAM_ROWS, KernelRisk
from buttress.robust.published.under_risk import KernelClassifier, KernelRegressor
from buttress.robust.report import of_rows_given
from buttress.solvers.contamination.trimmed import smallest, trimming
from buttress.solvers.run import run

Gram = Callable[[Array], Array]  # multiplication by a kernel matrix
Model = TypeVar("Model")
renamed = advises(rule="Give variance_ratio=4.0.", share="It is drop_share.", tolerance="It is variance_ratio.",
                  **dict.fromkeys(("gamma", "degree", "coef0"), "Give a kernel that has it, such as kernels.RBF(0.1)."))


@dataclass(kw_only=True, eq=False, repr=False)
class Sever(Documented, MetaEstimatorMixin, BaseEstimator):
    """The parameters and the loop of :class:`SeverRegressor` and :class:`SeverClassifier`."""

    _state = State(
        Attribute("estimator_", "part", of="BaseEstimator", shares="n_features", meaning="The last model."),
        Attribute("inlier_mask_", "bool", "n_rows", "Training rows it was fitted on."),
        Attribute("n_iter_", "count", meaning="Rounds run."),
        Attribute("converged_", "bool", meaning="Whether the last round found no row to leave out."))
    _machine: ClassVar[Callable[..., KernelRegressor | KernelClassifier]]  # what is fitted where no estimator is given

    estimator: Trainable | None = field(default=None, kw_only=False)
    contamination: float = 0.2
    drop_share: float | None = None
    variance_ratio: float | None = None
    n_rounds: int = 4
    kernel: KernelLike | None = None
    random_state: RandomStateLike = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse()
        return tags

    def _takes_sparse(self) -> bool:
        """Say whether the estimator takes sparse rows; the default one does not."""
        given = self.estimator
        return hasattr(given, "__sklearn_tags__") and bool(get_tags(given).input_tags.sparse)

    def _base(self) -> Trainable:
        """Return the estimator to clone: the one given, or a kernel machine with the kernel given."""
        if self.estimator is not None:
            return self.estimator
        kernel = "rbf" if self.kernel is None else self.kernel
        return self._machine(risk=Mean(), kernel=kernel, random_state=self.random_state)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what is taken, and what is passed on: what the estimator's own ``fit`` asks for."""
        passed = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(estimator=self._base(), method_mapping=passed)

    def _passed_on(self, metadata: dict[str, Any], rows: slice | Rows, n: int) -> Callable[[Mask], dict[str, Any]]:
        """Return a function of which of the numbered ``rows`` of n are kept to what the estimator's fit gets."""
        metadata = {name: value for name, value in metadata.items() if value is not None}
        if metadata and not get_config()["enable_metadata_routing"]:
            raise TypeError(f"{type(self).__name__}.fit passes {', '.join(metadata)} on by metadata routing only. Use "
                            "sklearn.set_config(enable_metadata_routing=True), and set_fit_request of the estimator.")
        wanted: dict[str, Any] = process_routing(self, "fit", **metadata).estimator.fit if metadata else {}
        if not isinstance(rows, slice) and get_routing_for_object(self._base()).consumes("fit", ["sample_weight"]):
            raise ValueError("sample_weight counts rows here, and the estimator asks for it under the same name. Use "
                             "its set_fit_request(sample_weight='trust'), and fit(..., trust=) for its own weights.")
        of_rows = {name for name, value in wanted.items() if np.shape(value)[:1] == (n,)}
        return lambda kept: {name: np.asarray(value)[rows][kept] if name in of_rows else value
                             for name, value in wanted.items()}

    def _filter(self, share: float) -> Callable[[Array], Mask]:
        """Return the filter of scores; ``share`` is dropped each round by default. ValueError for bad parameters."""
        check_count("n_rounds", self.n_rounds)
        if self.variance_ratio is None:
            dropped = share if self.drop_share is None else check_number("drop_share", self.drop_share, 0, 1,
                                                                         closed="left")
            return lambda tau: np.asarray(smallest(-tau, int(dropped * len(tau))) == 0)  # rounded down, as published
        ratio = check_number("variance_ratio", self.variance_ratio, 1, closed="left")
        if self.drop_share is not None:
            raise ValueError("drop_share is of the rule that drops the same share each round, variance_ratio of the "
                             f"random one. Got {self.drop_share!r} and {ratio:g}. Give one of them.")
        rng = check_random_state(self.random_state)
        return lambda tau: below_random_cut(tau, ratio, rng)

    def _sever(
        self, X: Array, share: float, groups: list[NDArray[np.intp]],
        fit: Callable[[Mask], Model], derivatives: Callable[[Model], Array],
    ) -> None:
        """Run the rounds, each within groups of row numbers; set the last model and the rows it was fitted on."""
        keep = self._filter(share)
        kernel = self._gradient_kernel(X)
        if not isinstance(self._base(), KernelRisk):  # which warns by itself
            warn_of_scale(kernel, X, X)

        def once(kept: Mask) -> Model:
            if kept.all():
                return fit(kept)
            with silent(KernelScaleWarning):  # the first fit has warned
                return fit(kept)

        def judge(model: Model, kept: Mask) -> tuple[Mask, float]:
            R = derivatives(model)
            after = kept.copy()
            for rows in groups:
                left = rows[kept[rows]]
                with threads_of(kernel, X):
                    times = gram_times(kernel, X[left])
                with own_threads():
                    after[left] = keep(scores(R[left], times))
            return after, 0.0

        steps = trimming(once, judge, np.ones(X.shape[0], dtype=bool))
        outcome = run(steps, max_iter=self.n_rounds, name=type(self).__name__, warn=False)
        self.estimator_, self.inlier_mask_ = outcome.state
        self.n_iter_ = outcome.n_iter
        self.converged_ = outcome.status in ("converged", "exhausted")

    def _gradient_kernel(self, X: Array) -> Kernel:
        """Return the kernel of the gradients' feature space: as given, else the estimator's own, else linear."""
        own: Any = {"kernel": self.kernel} if self.kernel is not None else self._base().get_params(deep=False)
        kernel = "linear" if own.get("kernel") is None else own["kernel"]
        if is_precomputed(kernel):
            raise ValueError(f"{type(self).__name__} refits on some rows of X and takes no Gram matrix. "
                             "Give a kernel by name, object or function.")
        gamma = "auto" if own.get("gamma") is None else own["gamma"]
        return as_kernel(kernel, gamma=gamma, degree=own.get("degree", 3), coef0=own.get("coef0", 0.0), X=X)

    def predict(self, X: MatrixLike) -> Labels:
        """Return the last model's prediction for each row of X (n, d)."""
        check_is_fitted(self)
        return self.estimator_.predict(check_X(self, X, sparse=self._takes_sparse()))


@renamed
@dataclass(kw_only=True, eq=False, repr=False)
class SeverRegressor(RegressorMixin, Sever):
    """A regressor refitted without the rows whose squared-loss gradients stand out (SEVER).

    Each round fits ``estimator`` on the remaining rows. It scores each row by (g_i'v)^2, where g_i is the gradient
    (f(x_i) - y_i) k(x_i, .) and v the direction in which the gradients vary most, and drops the rows with the highest
    scores. The last model is fitted on the rows that remain.

    Parameters
    ----------
    estimator : regressor, default=KernelRegressor(risk=Mean()), in the one step that is exact for it
        What is fitted, cloned each round.
    contamination : float in [0, 0.5), default=0.2
        Share of the rows that are corrupt, as you estimate it.
    drop_share : float in [0, 1), default=contamination / 2
        Share of the remaining rows that each round drops (the published code).
    variance_ratio : float or None, default=None
        A number >= 1 in place of ``drop_share``: drop rows with scores above a uniform draw from (0, largest score),
        and stop once the mean score is at most so many times that of normal gradients with the same median (the
        published theory, which leaves clean rows nearly alone); 4 is a good choice.
    n_rounds : int, default=4
        Most rounds.
    kernel : str, kernel, function or None, default=None
        The feature space of the gradients, and the kernel of the default estimator, RBF. None takes the kernel of the
        given estimator if it has one, else a linear one. Above 5,000 rows gradients use 1,000 Nystroem features.
    random_state : int, RandomState or None
        For ``variance_ratio``, and of the default estimator.

    References
    ----------
    Diakonikolas et al., Sever: a robust meta-algorithm for stochastic optimization, ICML 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import SeverRegressor
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> y[::10] = 9.0
    >>> int(SeverRegressor(contamination=0.1).fit(X, y).inlier_mask_[::10].sum())
    0
    """

    _state = State()  # that of Sever, listed above

    @all_or_nothing
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike | None = None, **metadata: Any) -> Self:
        """Fit to X of shape (n, d), sparse where the estimator takes that, and real targets y (n,); returns self.

        A row of weight w, a whole number, is w equal rows, to the estimator too. Not all of them may be dropped:
        ``inlier_mask_`` is that of one of them. ``metadata`` goes to the estimator's ``fit`` by scikit-learn's metadata
        routing, of the rows that are left. Weights that only the estimator is to use, while all rows are judged alike,
        go there by another name, as after its ``set_fit_request(sample_weight="trust")``.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100, naming the column, weights that
        are not whole and positive or 0, and TypeError for metadata without routing.
        """
        X, y = check_X_y(self, X, y, numeric_target=True, sparse=self._takes_sparse())
        rows = repeated_rows(sample_weight, X)
        passed = self._passed_on(metadata, rows, len(y))
        X = X[rows]
        targets = y[rows].astype(np.float64)
        share = check_contamination(self.contamination) / 2
        self._sever(X, share, [np.arange(len(targets))],
                    lambda kept: clone(self._base()).fit(X[kept], targets[kept], **passed(kept)),
                    lambda model: (model.predict(X) - targets)[:, None])
        return of_rows_given(self, rows, len(y))

    @staticmethod
    def _machine(**params: Any) -> KernelRegressor:
        # for the mean of the squared losses one preconditioned step is exact
        return KernelRegressor(acceleration=None, step="preconditioned", **params)


@renamed
@dataclass(kw_only=True, eq=False, repr=False)
class SeverClassifier(ClassifierMixin, Sever):
    """A classifier refitted without the rows whose logistic-loss gradients stand out (SEVER).

    As :class:`SeverRegressor`, with g_i = (softmax(f(x_i)) - e_{y_i}) k(x_i, .), f the estimator's decision function;
    where it has none, its predicted probabilities stand for the softmax.

    Parameters
    ----------
    estimator : classifier, default=KernelClassifier(risk=Mean())
        What is fitted, cloned each round.
    drop_share : float in [0, 1), default=contamination / n_rounds
        Share of the remaining rows that each round drops.
    contamination, variance_ratio, n_rounds, kernel, random_state
        As in :class:`SeverRegressor`.
    balanced : bool, default=True
        Score and drop rows within each class. Otherwise a whole class may be dropped.

    References
    ----------
    Diakonikolas et al., Sever: a robust meta-algorithm for stochastic optimization, ICML 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from buttress import SeverClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(SeverClassifier(contamination=0.1).fit(X, y).score(X, y) > 0.9)
    True
    """

    _state = State(Attribute("classes_", "label", "n_classes"))
    _machine = KernelClassifier

    balanced: bool = True

    @all_or_nothing
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike | None = None, **metadata: Any) -> Self:
        """Fit to X of shape (n, d), sparse where the estimator takes that, and class labels y (n,); returns self.

        Weights, ``metadata`` and errors as in :class:`SeverRegressor`; ValueError also for fewer than two classes, a
        class without weight, or a filter that would leave one class only.
        """
        X, y = check_X_y(self, X, y, sparse=self._takes_sparse())
        self.classes_, codes = check_classes(y, "SeverClassifier")
        n_classes = len(self.classes_)
        rows = repeated_rows(sample_weight, X)
        passed = self._passed_on(metadata, rows, len(y))
        X = X[rows]
        codes = codes[rows]
        class_totals(self.classes_, codes, np.ones(len(codes)))
        share = check_contamination(self.contamination) / check_count("n_rounds", self.n_rounds)
        groups = [np.flatnonzero(codes == c) for c in range(n_classes)] if self.balanced else [np.arange(len(codes))]

        def fit(kept: Mask) -> Any:
            left = np.bincount(codes[kept], minlength=n_classes)
            if not left.all():
                raise ValueError(f"Filtering dropped every row of class {self.classes_[left.argmin()]!r}. "
                                 "Use balanced=True or drop less.")
            return clone(self._base()).fit(X[kept], self.classes_[codes[kept]], **passed(kept))

        self._sever(X, share, groups, fit, lambda model: probabilities(model, X) - np.eye(n_classes)[codes])
        return of_rows_given(self, rows, len(y))

    @available_if(lambda self: hasattr(getattr(self, "estimator_", KernelClassifier), "decision_function"))
    def decision_function(self, X: MatrixLike) -> Array:
        """Return the last model's decision function at each row of X (n, d), where it has one."""
        check_is_fitted(self)
        return self.estimator_.decision_function(check_X(self, X, sparse=self._takes_sparse()))


def probabilities(model: ScoredClassifier | ProbabilisticClassifier, X: Array) -> Array:
    """Return a classifier's softmax of decision values, or its predicted probabilities, shape (n, C)."""
    if not hasattr(model, "decision_function"):
        if not hasattr(model, "predict_proba"):
            raise ValueError("estimator must be a classifier with decision_function or predict_proba, whose scores say "
                             f"how far off a label is. Got {type(model).__name__}.")
        return model.predict_proba(X)
    f = model.decision_function(X)
    if f.ndim == 2:
        return softmax(f, axis=1)
    p = expit(f)
    return np.column_stack([1 - p, p])


def scores(R: Array, gram: Gram) -> Array:
    """Return tau (n,) from the derivatives R (n, C) and multiplication by the kernel matrix of the same rows."""

    def times(v: Array) -> Array:
        u = v - v.mean()
        u = np.sum(R * gram(R * u[:, None]), axis=1)
        return u - u.mean()

    if len(R) < 3:  # no direction stands out, and the eigenvalue solver needs more than two
        return np.zeros(len(R))
    start = np.random.default_rng(0).normal(size=len(R))  # any vector that is not orthogonal to u
    if not np.any(times(start)):
        return np.zeros(len(R))
    value, u = eigsh(LinearOperator((len(R), len(R)), matvec=lambda v: times(np.ravel(v)), dtype=np.float64), k=1,
                     v0=start, tol=1e-8)  # scores are only compared with one another
    return value[0] * u[:, 0] ** 2


def below_random_cut(tau: Array, ratio: float, rng: np.random.RandomState) -> Mask:
    """Return the rows with scores below a uniform draw from (0, max tau) (the published theory).

    All rows stay if the mean score is at most ``ratio`` sigma^2. sigma^2 is the variance of normal gradients
    with this median score: median / 0.4549, the median of chi^2_1.
    """
    if len(tau) == 0 or tau.mean() <= ratio * np.median(tau) / 0.4549364:
        return np.ones(len(tau), dtype=bool)
    return np.asarray(tau < rng.uniform(0, tau.max()))


def gram_times(kernel: Kernel, X: Array) -> Gram:
    """Return a function that multiplies by the kernel matrix of the rows of X, by features if those are smaller."""
    if isinstance(kernel, Linear) and kernel.definiteness == "pd":
        constant = np.full((X.shape[0], 1), np.sqrt(kernel.coef0))
        Z: Any = hstack([X, constant], format="csr") if issparse(X) else np.hstack([X, constant])
    elif X.shape[0] > GRAM_ROWS and kernel.definiteness == "pd":
        rng = np.random.RandomState(0)
        points = (distinct_rows(X[rng.choice(X.shape[0], AUTO_LANDMARKS, replace=False)]) if issparse(X)
                  else landmarks(X, AUTO_LANDMARKS, rng=rng, method="uniform"))
        Z = nystroem(kernel, points)(X)
    else:
        if issparse(X) and not kernel_takes_sparse(kernel):
            raise ValueError(f"{kernel!r} takes no sparse X. Use X.toarray(), or a kernel by name for the gradients.")
        return StoredFeatures(kernel(X, X)).times
    return lambda v: Z @ (Z.T @ v)
