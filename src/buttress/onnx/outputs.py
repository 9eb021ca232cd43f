"""What a graph puts out for each kind of model: a class and scores, a number, or inside and outside."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector

from buttress._checks import Array
from buttress.certainty.calibration import pairs_of
from buttress.onnx.kernels import add_diagonal, add_scores
from buttress.onnx.nodes import Nodes
from buttress.robust import TrimmedLikelihoodRegressor
from buttress.svm import SVC

SQUEEZE = 3.0  # a sum of pairwise scores decides between equal votes only: see svm/task.py::votes


def add_outputs(add: Nodes, model: Any, X: str, outputs: list[str]) -> None:
    """Add the outputs of a fitted model, named as the graph wants them, for rows X (n, d) of doubles."""
    if is_outlier_detector(model):
        add_ball(add, model, X, *outputs)
    elif is_classifier(model):
        add_classes(add, model, X, *outputs)
    else:
        add.single(add_values(add, model, X), outputs[0])


def add_values(add: Nodes, model: Any, X: str) -> str:
    """Add the predictions of a regressor, (n, 1)."""
    if not hasattr(model, "expansion_"):
        value = add("Add", add("MatMul", X, np.asarray(model.coef_)[:, None]), np.asarray(model.intercept_))
        poisson = isinstance(model, TrimmedLikelihoodRegressor) and model.family == "poisson"
        return add("Exp", value) if poisson else value
    scores = add_scores(add, model.expansion_, X)
    shift = 0.0 if np.ndim(model.intercept_) else float(model.intercept_)  # SVR's is in its expansion
    return add("Add", scores, shift)


def add_ball(add: Nodes, model: Any, X: str, label: str, score: str) -> None:
    """Add 1 inside the ball and -1 outside, and the squared radius minus the squared distance to the centre."""
    inner = add("Mul", add_scores(add, model.expansion_, X), 2.0)
    distance = add("Sub", add_diagonal(add, model.expansion_.kernel, X), inner)
    decision = add("Sub", -float(model.center_norm2_) - float(model.offset_), distance)
    outside = add.cast(add("Less", decision, 0.0), np.int64)
    add("Sub", np.array([[1]]), add("Mul", outside, np.array([[2]])), output=label)
    add.single(decision, score)


def add_classes(add: Nodes, model: Any, X: str, label: str, score: str) -> None:
    """Add the predicted class and the decision values, (n, 1) for two classes and (n, C) else."""
    scores = add_scores(add, model.expansion_, X)
    if len(model.classes_) == 2:
        chosen = add.cast(add("Greater", scores, 0.0), np.int64)
        add.labels(add("Squeeze", chosen, np.array([1])), model.classes_, label)
        add.single(scores, score)
    elif isinstance(model, SVC) and model.multi_class == "ovo":
        _add_votes(add, model, scores, label, score)
    else:
        leads = np.asarray(model.contrasts_)
        add.labels(_winner(add, scores, leads), model.classes_, label)
        add.single(scores, score)


def _winner(add: Nodes, scores: str, contrasts: Array) -> str:
    """Add the number of the class that leads over most rivals; the first of equals."""
    n_classes, rivals, k = contrasts.shape
    leads = add("MatMul", scores, contrasts.reshape(n_classes * rivals, k).T)
    ahead = add.cast(add("Greater", leads, 0.0), np.float64)
    counts = add("MatMul", ahead, np.repeat(np.eye(n_classes), rivals, axis=0))
    return add("ArgMax", counts, axis=1, keepdims=0)


def _add_votes(add: Nodes, model: SVC, scores: str, label: str, score: str) -> None:
    """Add the class with most votes of the pairs; the first of equals, or by their scores with ``break_ties``."""
    pairs = pairs_of(len(model.classes_))
    first = np.zeros((len(pairs), len(model.classes_)))
    second = np.zeros_like(first)
    for row, (i, j) in enumerate(pairs):
        first[row, i] = 1
        second[row, j] = 1
    wins = add.cast(add("Greater", scores, 0.0), np.float64)
    counts = add("Add", add("MatMul", wins, first), add("MatMul", add("Sub", 1.0, wins), second))
    confidence = add("MatMul", scores, first - second)
    squeezed = add("Div", confidence, add("Mul", add("Add", add("Abs", confidence), 1.0), SQUEEZE))
    decision = add("Add", counts, squeezed)
    winner = add("ArgMax", decision if model.break_ties else counts, axis=1, keepdims=0)
    add.labels(winner, model.classes_, label)
    add.single(scores if model.decision_function_shape == "ovo" else decision, score)
