"""SEVER for any estimator: fit, score the rows by their gradients, drop the worst, fit again."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import hstack, issparse
from scipy.special import expit, softmax
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from buttress._checks import (
    Array,
    KernelScaleWarning,
    check_classes,
    check_contamination,
    check_count,
    check_number,
    check_option,
    check_X,
    check_X_y,
    silent,
)
from buttress._documented import Documented
from buttress._rows import distinct_rows
from buttress._state import Attribute, State
from buttress._types import (
    Labels,
    MatrixLike,
    ProbabilisticClassifier,
    RandomStateLike,
    ScoredClassifier,
    Trainable,
    VectorLike,
)
from buttress.features import landmarks, nystroem
from buttress.kernels import (
    Kernel,
    KernelLike,
    Linear,
    as_kernel,
    is_precomputed,
    kernel_takes_sparse,
    warn_of_scale,
)
from buttress.risks import Mean
from buttress.robust.kernel_risk import AUTO_LANDMARKS, GRAM_ROWS, KernelRisk
from buttress.robust.under_risk import KernelClassifier, KernelRegressor
from buttress.solvers.contamination.sever import Filter, Gram, Mask, random_cut, sever, worst_share
from buttress.solvers.run import all_or_nothing, run

Model = TypeVar("Model")


class Sever(Documented, MetaEstimatorMixin, BaseEstimator):
    """The parameters and the loop of :class:`SeverRegressor` and :class:`SeverClassifier`."""

    _machine: Callable[[], KernelRegressor | KernelClassifier]  # what is fitted where no estimator is given

    def __init__(
        self,
        estimator: Trainable | None = None,
        *,
        contamination: float = 0.2,
        rule: str = "share",
        share: float | None = None,
        tolerance: float = 4.0,
        n_rounds: int = 4,
        kernel: KernelLike | None = None,
        gamma: float | str = "auto",
        degree: float = 3,
        coef0: float = 0.0,
        random_state: RandomStateLike = None,
    ):
        self.estimator = estimator
        self.contamination = contamination
        self.rule = rule
        self.share = share
        self.tolerance = tolerance
        self.n_rounds = n_rounds
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse()
        return tags

    def _takes_sparse(self) -> bool:
        """Say whether the estimator takes sparse rows; the default one does not."""
        given = self.estimator
        return hasattr(given, "__sklearn_tags__") and bool(get_tags(given).input_tags.sparse)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what is passed on: what the estimator's own ``fit`` asks for."""
        base = self._kernel_machine(self._machine()) if self.estimator is None else self.estimator
        passed = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=type(self).__name__).add(estimator=base, method_mapping=passed)

    def _passed_on(self, metadata: dict[str, Any], n: int) -> Callable[[Mask], dict[str, Any]]:
        """Return a function of the rows kept, of n, to what the estimator's fit gets beside them."""
        metadata = {name: value for name, value in metadata.items() if value is not None}
        if metadata and not get_config()["enable_metadata_routing"]:
            raise TypeError(f"{type(self).__name__}.fit passes {', '.join(metadata)} on by metadata routing only. Use "
                            "sklearn.set_config(enable_metadata_routing=True), and set_fit_request of the estimator.")
        wanted: dict[str, Any] = process_routing(self, "fit", **metadata).estimator.fit if metadata else {}
        of_rows = {name for name, value in wanted.items() if np.shape(value)[:1] == (n,)}
        return lambda kept: {name: np.asarray(value)[kept] if name in of_rows else value
                             for name, value in wanted.items()}

    def _filter(self, share: float) -> Filter:
        """Return the filter of the rule; ``share`` is what it drops per round. Raises ValueError for bad parameters."""
        check_count("n_rounds", self.n_rounds)
        check_option("rule", self.rule, ("share", "random"))
        tolerance = check_number("tolerance", self.tolerance, 1, closed="left")
        share = share if self.share is None else check_number("share", self.share, 0, 1, closed="left")
        if self.rule == "share":
            return worst_share(share)
        return random_cut(tolerance, check_random_state(self.random_state))

    def _sever(
        self, X: Array, base: Trainable, share: float, groups: list[NDArray[np.intp]],
        fit: Callable[[Mask], Model], derivatives: Callable[[Model], Array],
    ) -> None:
        """Run the rounds and set the last model and the rows it was fitted on."""
        keep = self._filter(share)
        kernel = self._gradient_kernel(base, X)
        if not isinstance(base, KernelRisk):  # which warns by itself
            warn_of_scale(kernel, X, X)

        def once(kept: Mask) -> Model:
            if kept.all():
                return fit(kept)
            with silent(KernelScaleWarning):  # the first fit has warned
                return fit(kept)

        steps = sever(once, derivatives, lambda rows: gram_times(kernel, X[rows]), groups, keep)
        outcome = run(steps, max_iter=self.n_rounds, name=type(self).__name__, warn=False)
        self.inlier_mask_, self.estimator_ = outcome.state
        self.n_iter_ = outcome.n_iter

    def _kernel_machine(self, machine: KernelRegressor | KernelClassifier) -> Trainable:
        """Return the default estimator with the kernel given, or RBF."""
        kernel = "rbf" if self.kernel is None else self.kernel
        machine.set_params(kernel=kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0,
                           random_state=self.random_state)
        return machine

    def _gradient_kernel(self, base: Trainable, X: Array) -> Kernel:
        """Return the kernel of the gradients' feature space: as given, else the estimator's own, else linear."""
        own = base.get_params(deep=False)
        chosen = own if self.kernel is None and "kernel" in own else self.get_params(deep=False)
        kernel = "linear" if chosen["kernel"] is None else chosen["kernel"]
        if is_precomputed(kernel):
            raise ValueError(f"{type(self).__name__} refits on some rows of X and takes no Gram matrix. "
                             "Give a kernel by name, object or function.")
        gamma = "auto" if chosen.get("gamma") is None else chosen["gamma"]
        return as_kernel(kernel, gamma=gamma, degree=chosen.get("degree", 3), coef0=chosen.get("coef0", 0.0), X=X)


class SeverRegressor(RegressorMixin, Sever):
    """A regressor refitted without the rows whose squared-loss gradients stand out (SEVER).

    Each round fits ``estimator`` on the remaining rows. It scores each row by (g_i'v)^2, where g_i is the gradient
    (f(x_i) - y_i) k(x_i, .) and v the direction in which the gradients vary most, and drops the rows with the highest
    scores. The last model is fitted on the rows that remain.

    Parameters
    ----------
    estimator : regressor, default=KernelRegressor(risk=Mean())
        What is fitted, cloned each round.
    contamination : float in [0, 0.5), default=0.2
        Share of the rows that are corrupt, as you estimate it.
    rule : {"share", "random"}, default="share"
        ``"share"`` drops the same share of the remaining rows each round (the published code). ``"random"`` drops rows
        with scores above a uniform draw from (0, largest score); it stops once the mean score is at most ``tolerance``
        times that of normal gradients with the same median (the published theory).
    share : float in [0, 1), default=contamination / 2
        What ``rule="share"`` drops each round.
    tolerance : float, default=4.0
        Of ``rule="random"``, >= 1.
    n_rounds : int, default=4
        Most rounds.
    kernel, gamma, degree, coef0
        The feature space of the gradients, and the kernel of the default estimator. ``kernel=None`` takes the kernel of
        the given estimator if it has one, else a linear one. Above 5,000 rows gradients use 1,000 Nystroem features.
    random_state : int, RandomState or None
        For ``rule="random"``.

    References
    ----------
    Diakonikolas, Kamath, Kane, Li, Steinhardt & Stewart, Sever: a robust meta-algorithm for stochastic optimization,
    ICML 2019.

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

    _state = State(
        Attribute("estimator_", "part", of="BaseEstimator", shares="n_features", meaning="The last model."),
        Attribute("inlier_mask_", "bool", "n_rows", "Training rows it was fitted on."),
        Attribute("n_iter_", "count", meaning="Rounds run."))

    @all_or_nothing
    def fit(self, X: MatrixLike, y: VectorLike, **metadata: Any) -> "SeverRegressor":
        """Fit to X of shape (n, d), sparse where the estimator takes that, and real targets y (n,); returns self.

        ``metadata`` goes to the estimator's ``fit`` by scikit-learn's metadata routing, of the rows that are left. All
        rows are judged alike, whatever weight the estimator gives them.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100, naming the column, and
        TypeError for metadata without routing.
        """
        X, y = check_X_y(self, X, y, numeric_target=True, sparse=self._takes_sparse())
        y = y.astype(np.float64)
        base = self._kernel_machine(self._machine()) if self.estimator is None else self.estimator
        share = check_contamination(self.contamination) / 2
        passed = self._passed_on(metadata, len(y))
        self._sever(X, base, share, [np.arange(len(y))],
                    lambda kept: clone(base).fit(X[kept], y[kept], **passed(kept)),
                    lambda model: (model.predict(X) - y)[:, None])
        return self

    @staticmethod
    def _machine() -> KernelRegressor:
        # for the mean of the squared losses one preconditioned step is exact
        return KernelRegressor(risk=Mean(), acceleration=None, step="preconditioned")

    def predict(self, X: MatrixLike) -> Array:
        """Return the last model's prediction for each row of X (n, d)."""
        check_is_fitted(self)
        return self.estimator_.predict(check_X(self, X, sparse=self._takes_sparse()))


class SeverClassifier(ClassifierMixin, Sever):
    """A classifier refitted without the rows whose logistic-loss gradients stand out (SEVER).

    As :class:`SeverRegressor`, with g_i = (softmax(f(x_i)) - e_{y_i}) k(x_i, .), f the estimator's decision function;
    where it has none, its predicted probabilities stand for the softmax.

    Parameters
    ----------
    estimator : classifier, default=KernelClassifier(risk=Mean())
        What is fitted, cloned each round.
    share : float in [0, 1), default=contamination / n_rounds
        What ``rule="share"`` drops each round.
    contamination, rule, tolerance, n_rounds, kernel, gamma, degree, coef0, random_state
        As in :class:`SeverRegressor`.
    balanced : bool, default=True
        Score and drop rows within each class. Otherwise a whole class may be dropped.

    References
    ----------
    Diakonikolas, Kamath, Kane, Li, Steinhardt & Stewart, Sever: a robust meta-algorithm for stochastic optimization,
    ICML 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from buttress import SeverClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(SeverClassifier(contamination=0.1).fit(X, y).score(X, y) > 0.9)
    True
    """

    _state = State(
        Attribute("classes_", "label", "n_classes"),
        Attribute("estimator_", "part", of="BaseEstimator", shares="n_features", meaning="The last model."),
        Attribute("inlier_mask_", "bool", "n_rows", "Training rows it was fitted on."),
        Attribute("n_iter_", "count", meaning="Rounds run."))

    def __init__(
        self,
        estimator: Trainable | None = None,
        *,
        contamination: float = 0.2,
        rule: str = "share",
        share: float | None = None,
        tolerance: float = 4.0,
        n_rounds: int = 4,
        balanced: bool = True,
        kernel: KernelLike | None = None,
        gamma: float | str = "auto",
        degree: float = 3,
        coef0: float = 0.0,
        random_state: RandomStateLike = None,
    ):
        super().__init__(estimator, contamination=contamination, rule=rule, share=share, tolerance=tolerance,
                         n_rounds=n_rounds, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0,
                         random_state=random_state)
        self.balanced = balanced

    @all_or_nothing
    def fit(self, X: MatrixLike, y: VectorLike, **metadata: Any) -> "SeverClassifier":
        """Fit to X of shape (n, d), sparse where the estimator takes that, and class labels y (n,); returns self.

        ``metadata`` as in :class:`SeverRegressor`. Raises ValueError for parameters out of range, NaN, inf or entries
        beyond 1e100 (naming the column), fewer than two classes, or a filter that would leave one class only, and
        TypeError for metadata without routing.
        """
        X, y = check_X_y(self, X, y, sparse=self._takes_sparse())
        self.classes_, codes = check_classes(y, "SeverClassifier")
        n_classes = len(self.classes_)
        base = self._kernel_machine(self._machine()) if self.estimator is None else self.estimator
        passed = self._passed_on(metadata, len(y))
        share = check_contamination(self.contamination) / check_count("n_rounds", self.n_rounds)
        everything = [np.arange(len(y))]
        groups = [np.flatnonzero(codes == c) for c in range(n_classes)] if self.balanced else everything

        def fit(kept: Mask) -> Any:
            left = np.bincount(codes[kept], minlength=n_classes)
            if not left.all():
                raise ValueError(f"Filtering dropped every row of class {self.classes_[left.argmin()]!r}. "
                                 "Use balanced=True or drop less.")
            return clone(base).fit(X[kept], y[kept], **passed(kept))

        self._sever(X, base, share, groups, fit, lambda model: probabilities(model, X) - np.eye(n_classes)[codes])
        return self

    @staticmethod
    def _machine() -> KernelClassifier:
        return KernelClassifier(risk=Mean())

    def predict(self, X: MatrixLike) -> Labels:
        """Return the last model's class for each row of X (n, d)."""
        check_is_fitted(self)
        return self.estimator_.predict(check_X(self, X, sparse=self._takes_sparse()))

    @available_if(lambda self: hasattr(getattr(self, "estimator_", KernelClassifier), "decision_function"))
    def decision_function(self, X: MatrixLike) -> Array:
        """Return the last model's decision function at each row of X (n, d), where it has one."""
        check_is_fitted(self)
        return self.estimator_.decision_function(check_X(self, X, sparse=self._takes_sparse()))


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
        K = kernel(X, X)
        return lambda v: K @ v
    return lambda v: Z @ (Z.T @ v)


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

