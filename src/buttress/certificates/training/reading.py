"""From a fitted model and its training data to the weights with which it adds up its targets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.sparse import issparse
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from buttress._checks import Array, check_rows
from buttress._types import MatrixLike, Predictor, VectorLike
from buttress._weights import check_weights
from buttress.certificates.training.smoother import ColumnSmoother, GramSmoother, Smoother
from buttress.scores import predicts_itself

# steps of a pipeline that never see the targets
BLIND = (
    StandardScaler, RobustScaler, MinMaxScaler, MaxAbsScaler, Normalizer, PCA, SimpleImputer, PolynomialFeatures,
    PowerTransformer, QuantileTransformer, KBinsDiscretizer, OneHotEncoder, OrdinalEncoder, Nystroem, RBFSampler,
)
ADVICE = ("Proofs about training data need a model that is linear in its targets: KernelRidge, Ridge, RidgeClassifier, "
          "LinearRegression, GaussianProcessRegressor(optimizer=None) or buttress.LeastSquaresClassifier.")
REPRODUCED = 1e-6  # of the spread of what the model was fitted to: how far the refit may be from it


@runtime_checkable
class LinearInTargets(Protocol):
    """A fitted model of this package that is linear in the numbers it was fitted to."""

    def target_weights(self, X: Array, sample_weight: Array) -> Smoother:
        """Return the weights of the training targets, given the training rows X (n, d)."""


@dataclass(frozen=True)
class Refit:
    """The weights of a model's training targets at the rows that are asked about.

    Parameters
    ----------
    weights : array of shape (m, n)
        h_i(x) of each row asked about and each training row.
    error : array of shape (m,)
        Bounds of the Euclidean error of each row of ``weights``.
    smoother : Smoother
        Makes the weights of other rows.
    training : array of shape (n, d)
        The training rows, as the model's last step sees them.
    last : object
        That step.
    """

    weights: Array
    error: Array
    smoother: Smoother
    training: Array
    last: Any


def prepared(
    model: Predictor, X_train: MatrixLike, X: MatrixLike
) -> tuple[Any, Array, Array]:
    """Return the step that predicts, and training rows and rows asked about as it sees them, in float64."""
    check_is_fitted(model)
    last, prepare = _last_step(model)
    training, rows = (check_rows(_dense(prepare(part)), None, "This certificate") for part in (X_train, X))
    if training.shape[1] != rows.shape[1]:
        raise ValueError(f"X_train has {training.shape[1]} columns and X has {rows.shape[1]}. Give the rows that the "
                         "model was fitted to, with all its columns.")
    return last, training.astype(np.float64), rows.astype(np.float64)


def refit(model: Predictor, X_train: MatrixLike, X: MatrixLike, sample_weight: VectorLike | None) -> Refit:
    """Return the weights with which a fitted model adds up its training targets at the rows of X.

    Raises ValueError for models that are not linear in their targets, naming what is.
    """
    last, training, rows = prepared(model, X_train, X)
    smoother = _smoother(last, training, check_weights(sample_weight, training))
    weights, error = smoother(rows)
    return Refit(weights, error, smoother, training, last)


def check_reproduced(model: object, found: Array, values: Array, spread: float) -> Array:
    """Return how far the refit's values (m,) or (m, k) are from the model's, row by row; ValueError where too far."""
    away = np.abs(found - values)
    # the largest value may be far above the spread
    if not away.max() <= REPRODUCED * spread + 1e-9 * np.abs(values).max():
        raise ValueError(f"{type(model).__name__} fitted again to X_train and y_train gives other values than the "
                         f"model: by up to {away.max():.2g}, where they spread over {spread:.2g}. Give the data and "
                         "the sample_weight that it was fitted with, as they were; training_removals is of models "
                         "without weights.")
    return np.atleast_2d(away.T).max(axis=0)


def _dense(X: Any) -> Any:
    return X.toarray() if issparse(X) else X


def _last_step(model: Any) -> tuple[Any, Callable[[MatrixLike], MatrixLike]]:
    """Return the estimator that predicts, and what prepares rows for it; ValueError where a step reads the targets."""
    in_steps = isinstance(model, Pipeline) and not predicts_itself(type(model))
    last = model.steps[-1][1] if in_steps else model
    if hasattr(last, "best_estimator_"):
        raise ValueError(f"{type(last).__name__} chose its parameters by the labels, which a proof does not cover. "
                         "Give its best_estimator_: the proof is then for these parameters held fixed.")
    if not in_steps:
        return model, lambda X: X
    for step in [each for _, part in model.steps[:-1] for each in _steps(part)]:
        if type(step) not in BLIND:
            raise ValueError(f"The step {type(step).__name__} may read the labels, so other labels may prepare other "
                             "columns, which a proof does not cover. Prepare the columns first, and give the last step "
                             "and its rows: the proof is then for these columns held fixed.")
    return last, model[:-1].transform if len(model.steps) > 1 else lambda X: X


def _steps(step: Any) -> list[Any]:
    """Return a transformer, or those inside a pipeline or a ColumnTransformer."""
    if type(step) in (Pipeline, ColumnTransformer):
        inside = step.steps if type(step) is Pipeline else step.transformers_
        return [each for _, part, *_ in inside for each in _steps(part)]
    return [] if step is None or isinstance(step, str) else [step]


def _smoother(model: Any, X: Array, weight: Array) -> Smoother:
    readers: Mapping[type, Callable[[Any, Array, Array], Smoother]] = {
        KernelRidge: _kernel_ridge, GaussianProcessRegressor: _process, Ridge: _columns, RidgeClassifier: _columns,
        LinearRegression: _columns}
    if type(model) in readers:
        return readers[type(model)](model, X, weight)
    if isinstance(model, LinearInTargets) and type(model).__module__.startswith("buttress."):
        return model.target_weights(X, weight)
    raise ValueError(f"{type(model).__name__} is not known to be linear in its targets. {ADVICE}")


def _kernel_ridge(model: KernelRidge, X: Array, weight: Array) -> Smoother:
    if isinstance(model.kernel, str) and model.kernel == "precomputed":
        raise ValueError("KernelRidge with kernel='precomputed' does not tell rows apart from kernel values. Give a "
                         "kernel by name or as a function.")
    if np.ndim(model.alpha) != 0:
        raise ValueError("KernelRidge with one alpha a target is not covered. Fit one machine a target.")

    def kernel(Z: Array) -> Array:
        if callable(model.kernel):
            return pairwise_kernels(Z, X, metric=model.kernel, **(model.kernel_params or {}))
        return pairwise_kernels(Z, X, metric=model.kernel, filter_params=True, gamma=model.gamma, degree=model.degree,
                                coef0=model.coef0)

    return GramSmoother(kernel, kernel(X), model.alpha / _positive(weight))


def _process(model: GaussianProcessRegressor, X: Array, weight: Array) -> Smoother:
    if model.optimizer is not None and model.kernel_.n_dims > 0:
        raise ValueError("GaussianProcessRegressor tuned its kernel by the targets, which a proof does not cover. Fit "
                         "it "
                         "with kernel=model.kernel_ and optimizer=None: the proof is then for this kernel held fixed.")
    if np.ptp(weight) > 0:
        raise ValueError("GaussianProcessRegressor takes no sample_weight. Leave it out.")
    penalty = np.broadcast_to(np.asarray(model.alpha, dtype=np.float64), len(X))
    mean = np.full(len(X), 1 / len(X)) if model.normalize_y else None
    return GramSmoother(lambda Z: model.kernel_(Z, X), model.kernel_(X), penalty, mean)


def _columns(model: Ridge | RidgeClassifier | LinearRegression, X: Array, weight: Array) -> Smoother:
    if model.positive:
        raise ValueError(f"{type(model).__name__}(positive=True) is not linear in its targets. {ADVICE}")
    if getattr(model, "class_weight", None) is not None:
        raise ValueError(f"{type(model).__name__} with class_weight weighs rows by their labels, so it is not linear "
                         "in "
                         "them. Give sample_weight in its place.")
    alpha = getattr(model, "alpha", 0.0)
    if np.ndim(alpha) != 0:
        raise ValueError(f"{type(model).__name__} with one alpha a target is not covered. Fit one machine a target.")
    if alpha > 0 and X.shape[1] > len(X):
        mean = weight / _positive(weight).sum() if model.fit_intercept else None
        first = mean @ X if mean is not None else 0.0  # products of columns far from 0 would lose what is left of them
        far = X - first
        return GramSmoother(lambda Z: (Z - first) @ far.T, far @ far.T, alpha / _positive(weight), mean, centred=True)
    return ColumnSmoother(X, float(alpha), weight, model.fit_intercept)


def _positive(weight: Array) -> Array:
    if not (weight > 0).all():
        raise ValueError("sample_weight is 0 in some rows: they say nothing here. Leave them out of X_train and "
                         "y_train.")
    return weight
