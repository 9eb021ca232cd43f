"""What an attack sees of a model: scores of rows, their gradients, and scores of steps along coordinates."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from buttress._arrays import NUMPY, Place, namespace
from buttress._as_given import one_label_each
from buttress._checks import TINY, Array, check_known, check_values
from buttress._types import Classifier, MatrixLike, ProbabilisticClassifier, Rows, ScoredClassifier, VectorLike
from buttress.attacks.chain import Chain, Pullback, Votes, read_chain
from buttress.expansion import KernelExpansion, class_contrasts, pair_contrasts, pairs_of
from buttress.features import RandomExpansion, WavePoint
from buttress.kernels import RBF
from buttress.kernels.points import centred, nudge, weighted
from buttress.scores import Scorable, ScoreFunction, SignOf, as_classifier, fitted_inside, read_scores

# turns rows into what a model was fitted on: arrays, or data frames with its column names
AsFitted = Callable[[Array], MatrixLike]
Scored = ScoredClassifier | ProbabilisticClassifier

QUERY_ROWS = 100_000  # rows of one query
ENTRIES = 500_000  # kernel values of one block of rows, 4 MB: they stay in the cache between steps


class Target(ABC):
    """Scores (n, k), their contrasts between classes, and input gradients of weighted scores."""

    contrasts: Array
    exact: Any  # the function of the scores in float64 on numpy
    decides: Any = None  # labels of rows, where they need not be the winners of the scores; None where they are
    gradient_cost = 1  # rows scored for the gradient at one row
    block = 4096  # rows to work on at a time
    separable = False  # whether steps along coordinates cost no more memory than the rows
    shows_slopes = True  # whether gradients are those of the scores
    place = NUMPY  # of all arrays

    @abstractmethod
    def linearise(self, X: Array) -> tuple[Array, Pullback]:
        """Return the scores of X (n, d), shape (n, k), and V (n, k) -> the gradients (n, d) of the V-weighted scores.
        """

    def scores(self, X: Array) -> Array:
        """Return the scores of X (n, d), shape (n, k)."""
        parts = [self.linearise(X[start : start + self.block])[0] for start in range(0, len(X), self.block)]
        return namespace(X).concatenate(parts)

    def nudged(self, X: Array, columns: Rows, steps: Array, V: Array) -> Array:
        """Return the scores of rows X (r, d), weighted by V (r, k), after each of ``steps`` along ``columns``, (r, B).
        """
        return weighted(self.scores(nudge(X, columns, steps)).reshape(*columns.shape, -1), V)


class ScoreTarget(Target):
    """A score function that is known, of (x - shift) * scale, with its arrays in one place."""

    def __init__(self, score: ScoreFunction, place: Place):
        self.exact = score
        self.place = place
        self.there = score.moved(place)
        self.contrasts = self.there.contrasts

    def _scaled(self, steps: Array, columns: Rows) -> Array:
        """Return steps along columns as they are behind the scalers."""
        scale: Any = self.there.scale
        return steps * (scale if np.ndim(scale) == 0 else scale[columns])


class ExpansionTarget(ScoreTarget):
    """A kernel expansion: coordinate steps without new distances."""

    def __init__(self, score: ScoreFunction, place: Place):
        super().__init__(score, place)
        expansion = self.expansion = cast(KernelExpansion, self.there.expansion)
        self.block = max(1, ENTRIES // max(1, len(expansion.centers)))
        self.separable = type(expansion.kernel) is RBF
        self._at = centred(expansion.kernel, expansion.centers)

    def _flat(self, inner: Array) -> Array:
        """Return what the scores of rows behind the scalers hold beside the kernel's values."""
        flat, linear = self.expansion.intercept, self.expansion.linear
        return flat if linear is None else flat + inner @ linear

    def linearise(self, X: Array) -> tuple[Array, Pullback]:
        inner = self.there.inner(X)
        point, coef, linear = self._at(inner), self.expansion.coef, self.expansion.linear

        def gradient(V: Array) -> Array:
            g = point.gradient(V @ coef.T)
            return (g if linear is None else g + V @ linear.T) * self.there.scale

        return point.values @ coef + self._flat(inner), gradient

    def nudged(self, X: Array, columns: Rows, steps: Array, V: Array) -> Array:
        inner, steps, rows = self.there.inner(X), self._scaled(steps, columns), namespace(X).arange(len(X))
        near = self._at(inner).nudged(rows, columns, steps, V @ self.expansion.coef.T)
        near = near + (V * self._flat(inner)).sum(1)[:, None]
        linear = self.expansion.linear
        return near if linear is None else near + steps * (V @ linear.T)[rows[:, None], columns]


class WaveTarget(ScoreTarget):
    """Sums of random features: they know their gradient, and short steps along coordinates."""

    separable = True

    def __init__(self, score: ScoreFunction, place: Place):
        super().__init__(score, place)
        # phases of one block of rows, 32 MB
        # for fewer rows, reading or drawing the frequencies takes longer than their products
        self.block = max(64, 4_000_000 // max(1, score.expansion.coef.shape[0] * score.expansion.coef.shape[1]))

    def _point(self, X: Array) -> WavePoint:
        return WavePoint(cast(RandomExpansion, self.there.expansion), self.there.inner(X))

    def linearise(self, X: Array) -> tuple[Array, Pullback]:
        point = self._point(X)
        return point.scores, lambda V: point.gradient(V) * self.there.scale

    def nudged(self, X: Array, columns: Rows, steps: Array, V: Array) -> Array:
        near = self._point(X).nudged(namespace(X).arange(len(X)), columns, self._scaled(steps, columns), V)
        return super().nudged(X, columns, steps, V) if near is None else near


def by_differences(scores: Callable[[Array], Array], X: Array, V: Array) -> Array:
    """Return sum_c V_ic d score_c(x_i) / d x_i (n, d) by central differences, 2 d queries a row."""
    d = X.shape[1]
    steps = 1e-4 * np.maximum(1, np.abs(X).max(axis=0))  # relative
    offsets = np.concatenate([np.diag(steps), -np.diag(steps)])
    G = np.empty_like(X)
    rows = max(1, QUERY_ROWS // (2 * d))
    for start in range(0, len(X), rows):
        part = slice(start, start + rows)
        moved = (X[part, None, :] + offsets).reshape(-1, d)
        pairs = scores(moved).reshape(len(X[part]), 2, d, -1)
        G[part] = np.einsum("idk,ik->id", pairs[:, 0] - pairs[:, 1], V[part]) / (2 * steps)
    return G


class QueryTarget(Target):
    """Anything with scores: gradients by central differences, unless the model has ``input_gradient(X, V)``.

    The model, for gradients too, is asked with ``as_fitted(rows)``, rows of the type that it was fitted on.
    """

    def __init__(self, model: Scored, as_fitted: AsFitted = np.asarray):
        self.ask = _score_function(model)
        self.decides = lambda X: model.predict(as_fitted(X))
        self.exact = self.scores
        self.as_fitted = as_fitted
        self.own = getattr(model, "input_gradient", None) if hasattr(model, "decision_function") else None
        self.gradient_cost = 2 * getattr(model, "n_features_in_", 1) if self.own is None else 1
        n_classes = len(model.classes_)
        if getattr(_last_step(model), "decision_function_shape", "ovr") == "ovo" and n_classes > 2:
            self.contrasts = pair_contrasts(pairs_of(n_classes), n_classes)
        else:
            self.contrasts = class_contrasts(n_classes)

    def scores(self, X: Array) -> Array:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            parts = [np.asarray(self.ask(self.as_fitted(X[start : start + QUERY_ROWS])))
                     for start in range(0, len(X), QUERY_ROWS)]
        scores = np.concatenate(parts).reshape(len(X), -1).astype(np.float64)
        if scores.shape[1] != self.contrasts.shape[2]:
            raise ValueError(f"The model gives {scores.shape[1]} scores a row. Expected {self.contrasts.shape[2]} for "
                             f"its {len(self.contrasts)} classes.")
        check_values(scores, [f"{j} of the model's scores" for j in range(scores.shape[1])], "An attack")
        return scores

    def _gradient(self, X: Array, V: Array) -> Array:
        if self.own is None:
            return by_differences(self.scores, X, V)
        G = np.array(self.own(self.as_fitted(X), V), dtype=np.float64)  # ours to write to
        if G.shape != X.shape:
            raise ValueError(f"The model's input_gradient gives an array of shape {G.shape}. Expected {X.shape}, a "
                             "gradient for each row that it is asked for.")
        check_values(G, [f"{j} of the model's input_gradient" for j in range(G.shape[1])], "An attack")
        return G

    def linearise(self, X: Array) -> tuple[Array, Pullback]:
        return self.scores(X), partial(self._gradient, X)


class ChainTarget(QueryTarget):
    """A chain of smooth functions: scores and gradients from what was fitted; the model itself decides."""

    def __init__(self, model: Scored, chain: Chain, as_fitted: AsFitted):
        super().__init__(model, as_fitted)
        self.chain = chain.scores
        self.contrasts = chain.contrasts
        self.gradient_cost = 1

    scores = Target.scores

    def linearise(self, X: Array) -> tuple[Array, Pullback]:
        return self.chain(X)


class VotesTarget(ChainTarget):
    """Votes of neighbours: the scores are the model's, flat almost everywhere, the gradients those of soft votes."""

    scores = QueryTarget.scores
    shows_slopes = False

    def __init__(self, model: Scored, chain: Votes, as_fitted: AsFitted):
        super().__init__(model, chain, as_fitted)
        self.block = max(1, ENTRIES // chain.voters)

    def linearise(self, X: Array) -> tuple[Array, Pullback]:
        return self.scores(X), self.chain(X)[1]


def _in_order(model: Scored, as_fitted: AsFitted) -> bool:
    """Say whether rows come with the columns in the order that the model was fitted on."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return True
    columns = getattr(as_fitted(np.zeros((1, len(names)))), "columns", names)
    return list(columns) == list(names)


def _score_function(model: Scored) -> Callable[[MatrixLike], Array]:
    if hasattr(model, "decision_function"):
        return cast(ScoredClassifier, model).decision_function
    if not hasattr(model, "predict_proba"):
        raise ValueError(f"{type(model).__name__} gives labels only, so there is no margin to attack. Use a classifier "
                         "with decision_function or predict_proba.")

    predict_proba = model.predict_proba

    def log_odds(X: MatrixLike) -> Array:
        logs = np.log(np.clip(predict_proba(X), TINY, None))
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    return log_odds


def _last_step(model: Classifier) -> Any:
    """Return the classifier at the end of a pipeline, inside a fitted search or inside one of our meta-estimators."""
    last: Any = getattr(model, "best_estimator_", model)
    last = last.steps[-1][1] if hasattr(last, "steps") else last
    inner = fitted_inside(last)
    return last if inner is None else _last_step(inner)


def _queried(model: Scored, as_fitted: AsFitted) -> QueryTarget:
    """Return what an attack sees of a model that is no known score function: more where a chain of it is known."""
    chain = read_chain(model) if _in_order(model, as_fitted) else None
    if chain is None:
        return QueryTarget(model, as_fitted)
    if isinstance(chain, Votes):
        return VotesTarget(model, chain, as_fitted)
    return ChainTarget(model, chain, as_fitted)


def as_target(model: Scorable, place: Place = NUMPY, as_fitted: AsFitted = np.asarray) -> Target:
    """Return what an attack needs of a fitted classifier, in one place; models that are only queried stay in float64.

    ``as_fitted`` turns rows into what such a model was fitted on.
    ValueError for a model that gives labels only, or one to be asked on a device that is no known score function.
    """
    model = as_classifier(model)
    if not isinstance(model, SignOf):
        check_is_fitted(model)
    if not hasattr(model, "classes_"):
        raise ValueError(f"{type(model).__name__} is no fitted classifier: it has no classes_. Attacks need one with "
                         "decision_function or predict_proba.")
    score = read_scores(model)
    if score is None:
        if place.device is not None:
            raise ValueError(f"{type(model).__name__} computes its scores itself, so an attack on it cannot run on "
                             f"device={place.device!r}. Leave device at None.")
        return _queried(model, as_fitted)
    if isinstance(score.expansion, KernelExpansion):
        target = ExpansionTarget(score, place)
        target.decides = model.predict if getattr(_last_step(model), "break_ties", False) else None
        return target
    return WaveTarget(score, place)


def label_codes(model: Scorable, y: VectorLike, n: int) -> Rows:
    """Return the class numbers of labels y (n,); ValueError for one the model was not fitted on."""
    return check_known(one_label_each(y, n), np.asarray(as_classifier(model).classes_))
