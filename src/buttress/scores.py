"""The score function of a fitted classifier, written as a kernel expansion wherever it is one.

Attacks take exact input gradients from it, and certificates take norms. It is known for the classifiers of this package
and for these of scikit-learn: SVC, NuSVC, linear classifiers (LogisticRegression, LinearSVC, SGDClassifier,
RidgeClassifier, ...) and KernelRidge fitted to -1 and +1. They may stand alone, behind Nystroem features, in a pipeline
with scalers, or in a fitted search.
"""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC, NuSVC
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from buttress._arrays import Place
from buttress._checks import Array
from buttress._predicting import dense
from buttress._types import Labels, MatrixLike, Predictor, ProbabilisticClassifier, Rows, ScoredClassifier, SparseMatrix
from buttress.expansion import KernelExpansion, binary_contrasts, class_contrasts, pair_contrasts, pairs_of
from buttress.features.fourier import Scores
from buttress.kernels import RBF, Kernel, Linear, Polynomial, Sigmoid

# models that attacks and certificates take; a regressor is used as a classifier by the sign of its prediction
Scorable = ScoredClassifier | ProbabilisticClassifier | Predictor

# regressors that are used as classifiers by their sign
SIGNED = (KernelRidge, DecisionTreeRegressor, ExtraTreeRegressor, RandomForestRegressor, ExtraTreesRegressor,
          BaggingRegressor, GradientBoostingRegressor, HistGradientBoostingRegressor)
SCALERS = (StandardScaler, RobustScaler, MaxAbsScaler, MinMaxScaler)
MOST_DENSE = 1_000_000_000  # entries of sparse centres made dense at most, 8 GB


@dataclass
class ScoreFunction:
    """scores(x) = expansion((x - shift) * scale), and the contrasts between them that decide the class.

    Parameters
    ----------
    expansion : KernelExpansion or RandomExpansion
    contrasts : array of shape (n_classes, n_rivals, k)
        ``contrasts[c, r] @ scores`` is the lead of class c over its r-th rival.
    shift, scale : array of shape (d,) or float
        Of the scalers before the classifier.
    origin : array of shape (d,) or float
        The sizes of all that these subtract, one after the other, and of what squared distances are not centred by.
    sizes : array of shape (m, k) or None
        Sizes of the coefficients as the model sums them, where it has others than the expansion: behind features.
    """

    expansion: Scores
    contrasts: Array
    shift: Array | float = 0.0
    scale: Array | float = 1.0
    origin: Array | float = 0.0
    sizes: Array | None = None

    def inner(self, X: Array) -> Array:
        """Return the shifted and scaled rows, which the expansion takes."""
        return (X - self.shift) * self.scale

    def moved(self, place: Place) -> "ScoreFunction":
        """Return the same function with its arrays on the device of ``place``."""
        shift, scale = (float(part) if np.ndim(part) == 0 else place(part) for part in (self.shift, self.scale))
        return ScoreFunction(self.expansion.moved(place), place(self.contrasts), shift, scale)

    def __call__(self, X: Array) -> Array:
        """Return the scores of X (n, d), shape (n, k)."""
        return self.expansion(self.inner(X))

    def gradient(self, X: Array, V: Array) -> Array:
        """Return sum_c V[i, c] d score_c(x_i) / d x_i, shape (n, d)."""
        return self.expansion.gradient(self.inner(X), V) * self.scale


class SignOf:
    """The classifier that predicts the sign of a regressor of -1 and +1."""

    classes_: Labels = np.array([-1, 1])

    def __init__(self, regressor: Predictor):
        self.regressor = regressor
        self.n_features_in_: int | None = getattr(regressor, "n_features_in_", None)

    def decision_function(self, X: MatrixLike) -> Array:
        return self.regressor.predict(X).ravel()

    def predict(self, X: MatrixLike) -> Array:
        return np.where(self.decision_function(X) > 0, 1, -1)


def as_classifier(model: Scorable) -> ScoredClassifier | ProbabilisticClassifier:
    """Return the model; kernel ridge or trees fitted to -1 and +1, or a pipeline that ends in them, as :class:`SignOf`.
    """
    last = chosen(model)
    last = last.steps[-1][1] if isinstance(last, Pipeline) else last
    if isinstance(last, SIGNED) or type(last).__name__ in ("LGBMRegressor", "XGBRegressor", "XGBRFRegressor"):
        return SignOf(model)
    return cast(ScoredClassifier | ProbabilisticClassifier, model)


def check_one_label(model: Scorable, X: Any = None) -> None:
    """Raise ValueError where a fitted classifier predicts several labels for the first of the rows X, or for zeros."""
    X = np.zeros((1, model.n_features_in_)) if X is None else X  # type: ignore[union-attr]
    nameless = hasattr(model, "feature_names_in_") and not hasattr(X, "columns")
    with warnings.catch_warnings() if nameless else nullcontext():  # filters are those of all threads
        if nameless:
            warnings.simplefilter("ignore")  # of arrays in place of frames
        predicted = np.shape(as_classifier(model).predict(X[:1]))
    if predicted != (1,):
        raise ValueError(f"{type(model).__name__} predicts several labels a row. Attacks and certificates need a "
                         "classifier of one: fit one a label.")


def fitted_inside(model: object) -> Any:
    """Return the estimator that a meta-estimator of this package predicts with, None for other models."""
    return getattr(model, "estimator_", None) if type(model).__module__.startswith("buttress.") else None


def read_scores(model: Scorable) -> ScoreFunction | None:
    """Return the score function of a fitted classifier, None if it is not known here as a kernel expansion."""
    if isinstance(model, SignOf):
        return read_scores(model.regressor)
    if chosen(model) is not model:
        return read_scores(chosen(model))
    if fitted_inside(model) is not None:
        return read_scores(fitted_inside(model))
    if isinstance(model, Pipeline):
        return None if predicts_itself(type(model)) else _pipeline(model)
    if hasattr(model, "expansion_") and hasattr(model, "contrasts_"):
        if scores_otherwise(type(model)):
            return None
        return ScoreFunction(_dense_centers(model.expansion_), model.contrasts_)
    if type(model) in (SVC, NuSVC):
        return _svc(model)
    if type(model) is KernelRidge:
        return _kernel_ridge(model)
    own = type(model).__module__.startswith("sklearn.")  # a user's subclass may score in another way
    if own and isinstance(model, LinearClassifierMixin) and hasattr(model, "coef_"):
        return _linear(model)
    return None


def chosen(model: Any) -> Any:
    """Return the model that a search chose and predicts with; any other as it is."""
    return model if predicts_itself(type(model)) else getattr(model, "best_estimator_", model)


def predicts_itself(cls: type) -> bool:
    """Say whether a user's class, around a model of another, predicts in a way of its own."""
    theirs = [part for part in cls.__mro__ if not part.__module__.startswith(("sklearn.", "imblearn.", "buttress."))]
    return any(name in vars(part) for part in theirs for name in ("predict", "decision_function", "predict_proba"))


def scores_otherwise(cls: type) -> bool:
    """Say whether a user's subclass of an estimator of this package replaces anything of it but its ``fit``."""
    ours = next((part for part in cls.__mro__ if part.__module__.startswith("buttress.")), object)
    theirs = {name for part in cls.__mro__[: cls.__mro__.index(ours)] for name in vars(part)}
    return any(hasattr(ours, name) for name in theirs if name != "fit" and not name.startswith(("__", "set_", "_abc_")))


def _pipeline(model: Pipeline) -> ScoreFunction | None:
    """Return the scores of the last step composed with the steps before it, from the last to the first."""
    score = read_scores(model.steps[-1][1])
    for _, step in reversed(model.steps[:-1]):
        if score is None:
            return None
        if type(step) is Nystroem:
            score = _behind_nystroem(step, score)
        elif step is not None and step != "passthrough":
            score = _behind_scaler(step, score)
    return score


def _behind_scaler(scaler: BaseEstimator, score: ScoreFunction) -> ScoreFunction | None:
    """Return the scores of ((x - a) * b - shift) * scale; None if the transformer is not a plain scaler."""
    if type(scaler) not in SCALERS or getattr(scaler, "clip", False):
        return None
    b = np.asarray(1.0 if scaler.scale_ is None else scaler.scale_, dtype=np.float64)  # fitted to float32 it holds that
    a, b = (-scaler.min_ / b, b) if type(scaler) is MinMaxScaler else (centre_of(scaler), 1 / b)
    return replace(score, shift=a + score.shift / b, scale=b * score.scale, origin=np.abs(a) + score.origin / np.abs(b))


def centre_of(scaler: Any) -> Array | float:
    """Return what a scaler of scikit-learn's subtracts before it divides, 0 where that is nothing."""
    if getattr(scaler, "with_mean", getattr(scaler, "with_centering", False)):
        return scaler.mean_ if type(scaler) is StandardScaler else scaler.center_
    return 0.0


def _behind_nystroem(features: Nystroem, score: ScoreFunction) -> ScoreFunction | None:
    """Return linear scores of Nystroem features K(x, Z) R' as an expansion over the landmarks Z."""
    kernel = _kernel(features.kernel, features.gamma, features.degree, features.coef0, features.components_)
    linear = score.expansion
    if kernel is None or not isinstance(linear, KernelExpansion) or not isinstance(linear.kernel, Linear):
        return None
    weights = (linear.centers * score.scale).T @ linear.coef
    intercept = linear(np.atleast_2d(score.inner(np.zeros(len(features.components_)))))[0]
    landmarks = dense(features.components_)
    expansion = KernelExpansion(kernel, landmarks, features.normalization_.T @ weights, intercept)
    sizes = np.abs(features.normalization_.T) @ np.abs(weights)
    return ScoreFunction(expansion, score.contrasts, origin=_middle(landmarks), sizes=sizes)


def _svc(model: SVC | NuSVC) -> ScoreFunction | None:
    """Return the scores of libsvm's machines, with one column of coefficients for each pair of classes."""
    kernel = _kernel(model.kernel, model._gamma, model.degree, model.coef0, model.support_vectors_)
    if kernel is None:
        return None
    n_classes, dual = len(model.classes_), dense(model.dual_coef_)
    if n_classes == 2:
        coef = dual.T
        contrasts = binary_contrasts()
    else:
        pairs = pairs_of(n_classes)
        codes = np.repeat(np.arange(n_classes), model.n_support_)
        coef = np.zeros((len(codes), len(pairs)))
        contrasts = pair_contrasts(pairs, n_classes)
        for column, (i, j) in enumerate(pairs):
            coef[codes == i, column] = dual[j - 1, codes == i]
            coef[codes == j, column] = dual[i, codes == j]
    expansion = KernelExpansion(kernel, dense(model.support_vectors_), coef, model.intercept_)
    return ScoreFunction(expansion, contrasts)


def _kernel_ridge(model: KernelRidge) -> ScoreFunction | None:
    kernel = _kernel(model.kernel, model.gamma, model.degree, model.coef0, model.X_fit_)
    coef = model.dual_coef_.reshape(len(model.X_fit_), -1)
    if kernel is None or coef.shape[1] != 1:
        return None
    rows = dense(model.X_fit_)
    return ScoreFunction(KernelExpansion(kernel, rows, coef, np.zeros(1)), binary_contrasts(), origin=_middle(rows))


def _linear(model: LinearClassifierMixin) -> ScoreFunction | None:
    """Return linear scores x'w_c + b_c as an expansion of the linear kernel, with one centre w_c for each score."""
    coef = np.atleast_2d(dense(model.coef_)).astype(np.float64)
    check_one_label(model, np.zeros((1, coef.shape[1])))
    n_classes = len(model.classes_)
    intercept = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), len(coef))
    return ScoreFunction(KernelExpansion(Linear(), coef, np.eye(len(coef)), intercept), class_contrasts(n_classes))


def _kernel(
    name: str | Callable[[Array, Array], float], gamma: float | None, degree: float | None, coef0: float | None,
    Z: Array | SparseMatrix,
) -> Kernel | None:
    """Return the kernel here that equals this one of scikit-learn's ``pairwise_kernels`` or libsvm, None if none."""
    width = 1 / Z.shape[1] if gamma is None else gamma
    offset = 1.0 if coef0 is None else coef0  # the default of pairwise_kernels
    made: dict[str, Callable[[], Kernel]] = {
        "linear": lambda: Linear(),
        "rbf": lambda: RBF(width),
        "poly": lambda: Polynomial(3 if degree is None else degree, width, offset),
        "polynomial": lambda: Polynomial(3 if degree is None else degree, width, offset),
        "sigmoid": lambda: Sigmoid(width, offset),
    }
    return made[name]() if isinstance(name, str) and name in made else None


def _dense_centers(expansion: Scores) -> Scores:
    """Return the expansion with dense centres, because attacks move dense rows.

    Raises ValueError if the dense centres would take more memory than most machines have.
    """
    if not isinstance(expansion, KernelExpansion) or not issparse(expansion.centers):
        return expansion
    centers: Any = expansion.centers
    entries = centers.shape[0] * centers.shape[1]
    if entries > MOST_DENSE:
        raise ValueError(f"This model was fitted to sparse rows, and attacks and certificates need dense ones: its "
                         f"{centers.shape[0]} centres of {centers.shape[1]} columns would take {entries / 1.25e8:.0f} "
                         "GB. Fit it to fewer columns (TruncatedSVD), or with fewer landmarks.")
    return replace(expansion, centers=centers.toarray())


def _middle(rows: Array) -> Array:
    """Return how far the median of rows is from 0 in each column: scikit-learn's distances are not centred by it."""
    return np.abs(np.median(rows, axis=0))


def numbers_of(columns: Any, names: list[Any]) -> Rows:
    """Return the numbers of columns that a column transformer was given by name, number, slice or mask."""
    listed = [columns] if isinstance(columns, str) else columns
    if not isinstance(listed, slice) and len(listed) and all(isinstance(column, str) for column in listed):
        return np.array([names.index(column) for column in listed])
    numbers: Any = np.arange(len(names))
    return np.atleast_1d(numbers[listed])
