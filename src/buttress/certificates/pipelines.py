"""Fitted pipelines and networks read step by step, as bounds of what moved rows become (``enclosures``)."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.feature_selection import SelectFromModel, SelectKBest, SelectPercentile, VarianceThreshold
from sklearn.impute import SimpleImputer
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

from buttress._checks import Array
from buttress.certificates.enclosures import Enclosure, activated, affine, product, scaled
from buttress.certificates.norm_bound import NoCertificateError
from buttress.expansion import KernelExpansion, class_contrasts
from buttress.kernels import Linear
from buttress.scores import ScoreFunction, check_one_label, fitted_inside, numbers_of, read_scores
from buttress.trees.reading import steps_of

StepBound = Callable[[Enclosure], Enclosure]


class UnknownStep(NoCertificateError):
    """A step that is not known here, at which something moves."""


@dataclass(frozen=True)
class BoundedSteps:
    """A classifier as bounds of what it sees of moved rows, and its scores there.

    ``scores`` bounds scores, or is None where ``kernel`` holds them as a function of what ``seen`` bounds.
    """

    seen: StepBound
    scores: StepBound | None
    kernel: ScoreFunction | None
    contrasts: Array


def read_steps(model: Any) -> BoundedSteps | None:
    """Return a fitted pipeline or network, step by step; None where its classifier is not known here."""
    steps = steps_of(model)
    last = fitted_inside(steps[-1]) or steps[-1]
    before = _in_turn([_step(step) for step in steps[:-1]])
    if type(last) is MLPClassifier and last.out_activation_ in ("logistic", "softmax"):
        check_one_label(last)
        network = _layers(last.coefs_, last.intercepts_, last.activation)
        return BoundedSteps(before, network, None, class_contrasts(len(last.classes_)))
    score = read_scores(last)
    if score is None or len(steps) == 1 or not isinstance(score.expansion, KernelExpansion):
        return None
    expansion = score.expansion
    if not isinstance(expansion.kernel, Linear):
        return BoundedSteps(before, None, score, score.contrasts)
    if expansion.linear is not None:
        return None
    inner = partial(scaled, a=score.scale, shift=score.shift)
    layers = _layers([np.asarray(expansion.centers).T, expansion.coef], [np.zeros(1), expansion.intercept], "identity")
    return BoundedSteps(before, _in_turn([inner, layers]), None, score.contrasts)


def in_single(model: Any) -> bool:
    """Say whether some step of a fitted pipeline holds float32, and so may compute in it."""
    parts = steps_of(model)
    if type(parts[0]) is ColumnTransformer:
        parts += [part for _, part, _ in parts[0].transformers_ if not isinstance(part, str)]
    held = [value for part in parts if hasattr(part, "__dict__") for value in vars(part).values()]
    arrays = [array for value in held for array in (value if isinstance(value, list) else [value])]
    return any(getattr(array, "dtype", None) == np.float32 for array in arrays)


def _in_turn(parts: list[StepBound]) -> StepBound:
    def bound(z: Enclosure) -> Enclosure:
        for part in parts:
            z = part(z)
        return z

    return bound


def _step(step: Any) -> StepBound:
    """Return a fitted transformer as a bound; one that is not known takes only what does not move."""
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return lambda z: z
    if type(step) is Pipeline:
        return _in_turn([_step(each) for _, each in step.steps])
    for kinds, read in READ:
        found = read(step) if type(step) in kinds else None
        if found is not None:
            return found
    return lambda z: _transformed(step, z)


def _transformed(step: Any, z: Enclosure) -> Enclosure:
    """Return what a transformer makes of values that do not move."""
    if not z.still:
        raise UnknownStep(f"No certified radius is known behind {type(step).__name__}, whose input moves. Move other "
                          "columns only, or use scalers, PCA, selection, polynomial features or a ColumnTransformer "
                          "without transformer_weights.")
    nameless = copy(step)
    for name in ("feature_names_in_", "_sklearn_output_config"):
        nameless.__dict__.pop(name, None)
    made: Any = nameless.transform(z.centre)
    values = np.asarray(made.toarray() if hasattr(made, "toarray") else made, dtype=np.float64)
    return z.with_parts(values, np.zeros((len(values), z.moves.shape[1], values.shape[1])), np.zeros_like(values))


def _scaler(step: Any) -> StepBound | None:
    if getattr(step, "clip", False):
        return None
    if type(step) is MinMaxScaler:
        return lambda z: scaled(z, step.scale_, step.min_)
    with_middle = getattr(step, "with_mean", getattr(step, "with_centering", False))
    middle = (step.mean_ if type(step) is StandardScaler else step.center_) if with_middle else 0.0
    scale = 1.0 if step.scale_ is None else 1 / step.scale_
    return lambda z: scaled(z, scale, shift=middle)


def _components(step: Any) -> StepBound:
    A = np.asarray(step.components_, dtype=np.float64).T
    middle = getattr(step, "mean_", None)
    if not getattr(step, "whiten", False):
        return lambda z: affine(z, A, shift=0.0 if middle is None else middle)
    deviation = np.sqrt(step.explained_variance_)
    scale = 1 / np.maximum(deviation, np.finfo(deviation.dtype).eps)
    return lambda z: scaled(affine(z, A, shift=0.0 if middle is None else middle), scale)


def _selected(step: Any) -> StepBound:
    places = np.flatnonzero(step.get_support())
    return lambda z: z.of_columns(places)


def _imputer(step: SimpleImputer) -> StepBound | None:
    """Return the columns that it keeps: rows without gaps pass as they are."""
    missing = step.missing_values
    if step.add_indicator or not (isinstance(missing, float) and np.isnan(missing)):
        return None
    kept = np.flatnonzero(~np.isnan(np.asarray(step.statistics_, dtype=np.float64)))
    return lambda z: z.of_columns(kept if not step.keep_empty_features else np.arange(z.centre.shape[1]))


def _polynomial(step: PolynomialFeatures) -> StepBound:
    def bound(z: Enclosure) -> Enclosure:
        ones = np.ones((len(z.centre), 1))
        one = z.with_parts(ones, np.zeros((len(ones), z.moves.shape[1], 1)), np.zeros_like(ones))
        columns = []
        for powers in step.powers_:
            column = one
            for place in np.repeat(np.arange(len(powers)), powers):
                factor = z.of_columns(np.array([place]))
                column = factor if column is one else product(column, factor)
            columns.append(column)
        return _beside(z, columns)

    return bound


def _columns(step: ColumnTransformer) -> StepBound | None:
    if step.transformer_weights:
        return None
    names = list(getattr(step, "feature_names_in_", range(step.n_features_in_)))
    parts = [(numbers_of(columns, names), _step(part), step.output_indices_[name])
             for name, part, columns in step.transformers_ if not (isinstance(part, str) and part == "drop")]
    parts = sorted(((places, part, given.start) for places, part, given in parts if len(places)),
                   key=lambda each: each[2])
    return lambda z: _beside(z, [part(z.of_columns(places)) for places, part, _ in parts])


def _beside(z: Enclosure, parts: list[Enclosure]) -> Enclosure:
    """Return the values of several parts side by side."""
    return z.with_parts(np.concatenate([part.centre for part in parts], axis=1),
                        np.concatenate([part.moves for part in parts], axis=2),
                        np.concatenate([part.slack for part in parts], axis=1))


def _unchanged(step: FunctionTransformer) -> StepBound | None:
    return (lambda z: z) if step.func is None else None


def _layers(weights: list[Array], intercepts: list[Array], activation: str) -> StepBound:
    """Return what layers make of values, the last without an activation."""
    parts: list[StepBound] = []
    for W, b in zip(weights, intercepts, strict=True):
        parts += [partial(affine, A=W.astype(np.float64), b=b.astype(np.float64)), partial(activated, name=activation)]
    return _in_turn(parts[:-1])


READ: list[tuple[tuple[type, ...], Callable[[Any], StepBound | None]]] = [
    ((StandardScaler, RobustScaler, MaxAbsScaler, MinMaxScaler), _scaler),
    ((PCA, IncrementalPCA, TruncatedSVD), _components),
    ((SelectKBest, SelectPercentile, VarianceThreshold, SelectFromModel), _selected),
    ((SimpleImputer,), _imputer),
    ((PolynomialFeatures,), _polynomial),
    ((ColumnTransformer,), _columns),
    ((FunctionTransformer,), _unchanged),
]
