"""Classifiers whose scores are a chain of smooth functions: their values and gradients, from what was fitted.

Read are networks (MLPClassifier, by their weights: logits do not go flat where probabilities do), sigmoid calibration,
one-vs-rest and one-vs-one, over anything that is read, behind affine transformers (scalers, PCA and the like, column
selection), polynomial features and column transformers of such. The votes of neighbours are flat: soft ones are read.

A function is a :data:`Smooth`: of rows X (n, d) it returns its values (n, k) and the pullback V (n, k) -> gradients
(n, d) of sum_c V_ic value_ic.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import expit, logsumexp, softmax
from sklearn.calibration import CalibratedClassifierCV, _SigmoidCalibration
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, FactorAnalysis, FastICA, IncrementalPCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest, SelectPercentile, VarianceThreshold
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from buttress._checks import TINY, Array
from buttress._tuned import tuned
from buttress.expansion import class_contrasts, pair_contrasts, pairs_of
from buttress.scores import numbers_of, read_scores

Pullback = Callable[[Array], Array]
Smooth = Callable[[Array], tuple[Array, Pullback]]

AFFINE = (StandardScaler, RobustScaler, MaxAbsScaler, MinMaxScaler, PCA, IncrementalPCA, TruncatedSVD, FastICA,
          FactorAnalysis, SelectKBest, SelectPercentile, VarianceThreshold, GaussianRandomProjection,
          SparseRandomProjection)


@dataclass(frozen=True)
class SoftVotes:
    """How far the soft votes of neighbours reach."""

    width: float = tuned(0.25, "of the squared distance to the last that votes", "width of a soft vote",
                         "breast cancer and wine, `benchmarks/robust.py sensitivity --only SoftVotes`")


SOFT = SoftVotes()


@dataclass
class Chain:
    """Scores of rows as a smooth function, and the contrasts (n_classes, n_rivals, k) between them that decide."""

    scores: Smooth
    contrasts: Array


@dataclass
class Votes(Chain):
    """Soft votes of rows, so many ``voters``: they show the way, and say nothing of who wins."""

    voters: int


class UnknownPart(Exception):
    """Some part of a model is not known here."""


def read_chain(model: Any) -> Chain | None:
    """Return the scores of a fitted classifier, None where some part is not known.

    One score for two classes, one a class for more, or of machines that vote one a pair (i, j), positive for i.
    """
    try:
        return _chain(model)
    except UnknownPart:
        return None


def _chain(model: Any) -> Chain:
    model = getattr(model, "best_estimator_", model)
    if isinstance(model, Pipeline):
        last = _chain(model.steps[-1][1])
        steps = [_transformer(step) for _, step in model.steps[:-1]]
        return replace(last, scores=_composed([*steps, last.scores]))
    score = read_scores(model)
    if score is not None:
        known = score
        return Chain(lambda X: (known(X), lambda V: known.gradient(X, V)), known.contrasts)
    n_classes = len(model.classes_)
    if type(model) is KNeighborsClassifier:
        return Votes(_votes(model), class_contrasts(n_classes), model.n_samples_fit_)
    scores = _scores(model)
    if type(model) is OneVsOneClassifier and n_classes > 2:
        # of a pair, scikit-learn's score is positive for the second
        return Chain(scores, -pair_contrasts(pairs_of(n_classes), n_classes))
    return Chain(scores, class_contrasts(n_classes))


def _scores(model: Any) -> Smooth:
    """Return the scores of a classifier that is no kernel expansion."""
    answers = ("predict", "predict_proba", "_forward_pass_fast")  # a subclass may fit in another way
    if isinstance(model, MLPClassifier) and all(getattr(type(model), name, None) is getattr(MLPClassifier, name, None)
                                                for name in answers):
        return _network(model)
    if type(model) is CalibratedClassifierCV:
        return _calibrated(model)
    if type(model) is OneVsOneClassifier or (type(model) is OneVsRestClassifier and not model.multilabel_):
        parts = [_one_a_class(each, 2) for each in model.estimators_]
        return _side_by_side([(slice(None), [j], part) for j, part in enumerate(parts)], len(parts))
    raise UnknownPart


def _one_a_class(model: Any, n_classes: int) -> Smooth:
    """Return the scores of a classifier whose scores are one for two classes, or one a class."""
    chain = _chain(model)
    if isinstance(chain, Votes) or not np.array_equal(chain.contrasts, class_contrasts(n_classes)):
        raise UnknownPart
    return chain.scores


def _transformer(step: Any) -> Smooth:
    """Return a fitted transformer as a smooth function."""
    if step is None or step == "passthrough" or (type(step) is FunctionTransformer and step.func is None):
        return lambda X: (X, lambda V: V)
    if isinstance(step, Pipeline):
        return _composed([_transformer(each) for _, each in step.steps])
    if type(step) in AFFINE and not getattr(step, "clip", False):
        return _affine(step)
    if type(step) is PolynomialFeatures:
        return _polynomial(step)
    if type(step) is ColumnTransformer:
        return _columns(step)
    raise UnknownPart


def _composed(parts: list[Smooth]) -> Smooth:
    """Return one function after another."""

    def forward(X: Array) -> tuple[Array, Pullback]:
        pullbacks = []
        for part in parts:
            X, pullback = part(X)
            pullbacks.append(pullback)

        def back(V: Array) -> Array:
            for pullback in reversed(pullbacks):
                V = pullback(V)
            return V

        return X, back

    return forward


def _side_by_side(parts: Sequence[tuple[Any, Any, Smooth]], width: int) -> Smooth:
    """Return one function of ``width`` values from parts: which columns each takes, which values it gives, itself."""

    def forward(X: Array) -> tuple[Array, Pullback]:
        out, pulls = np.empty((len(X), width)), []
        for taken, given, part in parts:
            out[:, given], pull = part(X[:, taken])
            pulls.append(pull)

        def back(V: Array) -> Array:
            G = np.zeros_like(X)
            for (taken, given, _), pull in zip(parts, pulls, strict=True):
                G[:, taken] += pull(V[:, given])
            return G

        return out, back

    return forward


def _affine(step: Any) -> Smooth:
    """Return x -> A'x + b of a transformer that is one, from what it makes of 0 and of the unit vectors."""
    d = step.n_features_in_
    start = _dense(step, np.zeros((1, d)))
    A = _dense(step, np.eye(d)) - start
    return lambda X: (X @ A + start, lambda V: V @ A.T)


def _dense(step: Any, X: Array) -> Array:
    """Return what a transformer makes of rows without column names."""
    nameless = copy(step)
    for name in ("feature_names_in_", "_sklearn_output_config"):
        nameless.__dict__.pop(name, None)
    made = nameless.transform(X)
    return np.asarray(made.toarray() if hasattr(made, "toarray") else made, dtype=np.float64)


def _polynomial(step: PolynomialFeatures) -> Smooth:
    """Return the products of powers."""
    powers = step.powers_

    def forward(X: Array) -> tuple[Array, Pullback]:
        def product(exponents: Array) -> Array:
            return np.prod(X[:, None, :] ** exponents, axis=2)

        def back(V: Array) -> Array:
            G = np.empty_like(X)
            for j in range(X.shape[1]):
                used = powers[:, j] > 0
                lowered = powers[used] - np.eye(X.shape[1], dtype=powers.dtype)[j]
                G[:, j] = (V[:, used] * powers[used, j] * product(lowered)).sum(axis=1)
            return G

        return product(powers), back

    return forward


def _columns(step: ColumnTransformer) -> Smooth:
    """Return transformers of some columns each, by name or number."""
    if step.transformer_weights:
        raise UnknownPart
    names = list(getattr(step, "feature_names_in_", range(step.n_features_in_)))
    parts = [(numbers_of(columns, names), step.output_indices_[name], part)
             for name, part, columns in step.transformers_ if not (isinstance(part, str) and part == "drop")]
    known = [(taken, given, _transformer(part)) for taken, given, part in parts if len(taken)]
    return _side_by_side(known, max((given.stop for _, given, _ in known), default=0))


ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {  # and slopes by their values
    "identity": (lambda a: a, np.ones_like),
    "relu": (lambda a: np.maximum(a, 0), lambda h: (h > 0).astype(np.float64)),
    "tanh": (np.tanh, lambda h: 1 - h**2),
    "logistic": (expit, lambda h: h * (1 - h)),
}


def _network(model: MLPClassifier) -> Smooth:
    """Return the logits, before the last activation."""
    activate, slope = ACTIVATIONS[model.activation]
    weights = [W.astype(np.float64) for W in model.coefs_]

    def forward(X: Array) -> tuple[Array, Pullback]:
        layers = [X]
        for W, b in zip(weights[:-1], model.intercepts_[:-1], strict=True):
            layers.append(activate(layers[-1] @ W + b))

        def back(V: Array) -> Array:
            V = V @ weights[-1].T
            for W, h in zip(reversed(weights[:-1]), reversed(layers[1:]), strict=True):
                V = (V * slope(h)) @ W.T
            return V

        return layers[-1] @ weights[-1] + model.intercepts_[-1], back

    return forward


def _votes(model: KNeighborsClassifier) -> Smooth:
    """Return the logarithms of soft votes, sums of exp(-|x - x_i|^2 / width) by class; for two their difference.

    Distances are Euclidean and votes equal, whatever the model's are. The width is that of the neighbours at x, and its
    own slope is left out.
    """
    codes, voters = model._y, model._fit_X
    dense = isinstance(voters, np.ndarray) and voters.shape == (len(codes), model.n_features_in_)
    if not (dense and np.isfinite(voters).all()):  # some distances take rows with gaps
        raise UnknownPart
    classes = [np.asarray(voters[codes == c], dtype=np.float64) for c in range(len(model.classes_))]

    def forward(X: Array) -> tuple[Array, Pullback]:
        apart = [cdist(X, rows, "sqeuclidean") for rows in classes]
        last = np.partition(np.hstack(apart), model.n_neighbors - 1, axis=1)[:, [model.n_neighbors - 1]]
        rival = np.max([each.min(axis=1) for each in apart], axis=0)[:, None]
        # on a voter itself, a width is at least a share of the squared distance to the class farthest off
        width = np.maximum(SOFT.width * last, 1e-12 * rival + TINY)
        logs = np.column_stack([logsumexp(-each / width, axis=1) for each in apart])

        def back(V: Array) -> Array:
            W = np.column_stack([-V, V]) if len(classes) == 2 else V
            pulls = [softmax(-each / width, axis=1) @ rows - X for each, rows in zip(apart, classes, strict=True)]
            return np.einsum("ic,cij->ij", W, np.stack(pulls)) * (2 / width)

        return logs[:, [1]] - logs[:, [0]] if len(classes) == 2 else logs, back

    return forward


def _calibrated(model: CalibratedClassifierCV) -> Smooth:
    """Return the logarithms of the mean probabilities, for two classes their difference; sigmoid calibration only."""
    n_classes = len(model.classes_)
    members = [(_one_a_class(each.estimator, n_classes), each.calibrators) for each in model.calibrated_classifiers_]
    scored = all(hasattr(each.estimator, "decision_function") for each in model.calibrated_classifiers_)
    if not scored or any(type(each) is not _SigmoidCalibration for _, some in members for each in some):
        raise UnknownPart

    def forward(X: Array) -> tuple[Array, Pullback]:
        parts = [_member(inner, calibrators, X) for inner, calibrators in members]
        logs = np.stack([part for part, _ in parts])
        mean = np.logaddexp.reduce(logs, axis=0)
        shares = np.exp(logs - mean)

        def back(V: Array) -> Array:
            W = np.column_stack([-V, V]) if n_classes == 2 else V
            return sum((pull(W * share) for (_, pull), share in zip(parts, shares, strict=True)),
                       np.zeros_like(X))

        return mean[:, [1]] - mean[:, [0]] if n_classes == 2 else mean, back

    return forward


def _member(inner: Smooth, calibrators: list[_SigmoidCalibration], X: Array) -> tuple[Array, Pullback]:
    """Return the logarithms of one member's probabilities (n, n_classes), and their pullback."""
    values, pull = inner(X)
    a, b = (np.array([getattr(each, name) for each in calibrators]) for name in ("a_", "b_"))
    t = -(a * values + b)
    if len(calibrators) == 1:
        logs = np.column_stack([-np.logaddexp(0, t), -np.logaddexp(0, -t)])
        return logs, lambda V: pull(-a * (V[:, [1]] * expit(-t) - V[:, [0]] * expit(t)))
    logs = -np.logaddexp(0, -t)
    total = np.logaddexp.reduce(logs, axis=1, keepdims=True)

    def back(V: Array) -> Array:
        V = V - V.sum(axis=1, keepdims=True) * np.exp(logs - total)
        return pull(-a * V * expit(-t))

    return logs - total, back
