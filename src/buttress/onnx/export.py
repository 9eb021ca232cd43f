"""``to_onnx``, the converters that skl2onnx calls for our models, and what a graph puts out for each kind of them."""

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier, is_outlier_detector
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import buttress
from buttress._checks import Array
from buttress._types import Estimator, MatrixLike
from buttress.certainty.probabilities import Probabilities
from buttress.expansion import pairs_of
from buttress.onnx.graph import GraphNodes, add_diagonal, add_logs, add_probabilities, add_scores
from buttress.outlier.kernel_values import in_logs
from buttress.robust import TrimmedLikelihoodRegressor
from buttress.svm import OneClassSVM
from buttress.svm.pairs import ExactClassifier

if TYPE_CHECKING:
    from onnx import ModelProto

MODELS = (
    "AdvSVM", "AdversarialClassifier", "AdversarialLinearSVC", "AdversarialSVC", "BatchedRidge",
    "BatchedRidgeClassifier", "CRR", "CertifiedSVC", "FreeRangeSVC", "KernelClassifier", "KernelRegressor",
    "LeastSquaresClassifier", "LinearSVC", "LinearSVR", "MultiKernelSVDD", "NuSVC", "NuSVR", "OneClassSVM",
    "RobustKernelClassifier", "RobustKernelRegressor", "RobustLinearRegressor", "STIR", "SVC", "SVDD", "SVR",
    "SeverClassifier", "SeverRegressor", "StochasticAdvSVM", "StochasticLinearSVC", "TrimmedLikelihoodClassifier",
    "TrimmedLikelihoodRegressor")


def to_onnx(
    model: Estimator, X: MatrixLike | None = None, *, probabilities: bool = False, target_opset: int | None = None
) -> "ModelProto":
    """Return a fitted model, or a pipeline of scikit-learn's transformers that ends in one, as an ONNX model.

    A classifier puts out ``label`` and ``scores`` (its ``decision_function``, (n, 1) for two classes), a regressor
    ``variable``, (n, 1), and a one-class model ``label`` (1 or -1) and ``scores``, at least 0 inside. Inputs and scores
    are float32; between them our part of the graph computes in float64, as the model does. Labels that are not whole
    numbers are strings. Sets and intervals are not in the graph.

    Parameters
    ----------
    model : fitted estimator or Pipeline
        Any of this package's estimators of arrays but trees, ``Nystroem`` and ``ConformalDetector``, alone or behind
        transformers that skl2onnx knows.
    X : array or frame or None
        Rows like those to come; only their type and columns matter. Needed where columns have names or are not all
        numbers (a ``ColumnTransformer``). None is one input ``X`` of shape (n, n_features_in_).
    probabilities : bool, default=False
        Put out ``probabilities`` (n, n_classes) too, those of ``predict_proba``.
    target_opset : int or None
        Version of the standard, at least 13; None for the newest that skl2onnx writes.

    Raises
    ------
    ImportError
        Without the extra ``onnx``.
    NotImplementedError
        For kernels that have no graph (a function of yours), naming those that have one.
    TypeError
        For a model over a join, or of another package that skl2onnx does not know.
    ValueError
        For probabilities of a model that has none, or that has no rows left out to make them of.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import buttress
    >>> X, y = load_iris(return_X_y=True)
    >>> graph = buttress.to_onnx(buttress.SVC().fit(X, y))  # doctest: +SKIP
    >>> [output.name for output in graph.graph.output]  # doctest: +SKIP
    ['label', 'scores']
    """
    skl2onnx = _skl2onnx()
    check_is_fitted(model)
    register_converters()
    types = importlib.import_module("skl2onnx.common.data_types")
    width = getattr(model, "n_features_in_", None)
    given = [("X", types.FloatTensorType([None, width]))] if X is None else None
    options = {id(_with_probabilities(model)): {"probabilities": True}} if probabilities else None
    try:
        made: ModelProto = skl2onnx.to_onnx(model, _sample(X), initial_types=given, options=options,
                                            target_opset=target_opset)
    except skl2onnx.common.exceptions.MissingShapeCalculator as error:
        raise TypeError(f"{type(model).__name__} cannot be written as ONNX: {str(error).splitlines()[0]} Models of "
                        "arrays of this package and of scikit-learn can.") from None
    return made


def register_converters() -> None:
    """Teach skl2onnx our estimators, so that its own ``to_onnx`` and ``convert_sklearn`` take them too."""
    skl2onnx = _skl2onnx()
    options = {"probabilities": [True, False], "zipmap": None}  # the second is what skl2onnx tells each last step
    for name in MODELS:
        kind = getattr(buttress, name)
        skl2onnx.update_registered_converter(kind, alias_of(kind), _shapes, _convert, parser=_parse, options=options)


def alias_of(kind: type) -> str:
    """Return the name under which skl2onnx knows a class of ours."""
    return f"Buttress{kind.__name__}"


def _skl2onnx() -> Any:
    try:
        return importlib.import_module("skl2onnx")
    except ImportError:
        raise ImportError("ONNX graphs need skl2onnx. Install it with: pip install buttress[onnx]") from None


def _with_probabilities(model: Any) -> Any:
    """Return the estimator that a model ends in, once its probabilities are calibrated."""
    while isinstance(model, Pipeline):
        model = model[-1]
    inner = getattr(model, "estimator_", model)
    if not (isinstance(inner, Probabilities) and hasattr(model, "predict_proba")):
        raise ValueError(f"probabilities=True needs a classifier of this package with predict_proba and a graph. Got "
                         f"{type(model).__name__}. Leave it at False.")
    inner._calibrated()
    return model


def _sample(X: MatrixLike | None) -> Any:
    """Return one row of X, its numbers of float32: runtimes have no float64 of some transformers, such as imputers."""
    if X is None:
        return None
    first: Any = X[:1]  # type: ignore[index]
    first = first.to_pandas() if hasattr(first, "to_pandas") else first  # skl2onnx reads no types of polars
    if not hasattr(X, "columns"):
        return np.asarray(first, dtype=np.float32)
    first = first.rename(columns=str) if hasattr(first, "rename") else first  # whole numbers are no names of inputs
    wide = [name for name in first.columns if first[name].dtype == np.float64]
    return first.astype(dict.fromkeys(wide, np.float32)) if hasattr(first, "astype") else first


def _parse(scope: Any, model: Any, inputs: list[Any], custom_parsers: Any = None) -> list[Any]:
    """Declare the outputs of a model."""
    types = importlib.import_module("skl2onnx.common.data_types")
    operator = scope.declare_local_operator(alias_of(type(model)), model)
    operator.inputs = inputs
    if is_classifier(model) or is_outlier_detector(model):
        whole = is_outlier_detector(model) or model.classes_.dtype.kind in "iub"
        label = types.Int64TensorType if whole else types.StringTensorType
        operator.outputs.append(scope.declare_local_variable("label", label()))
        operator.outputs.append(scope.declare_local_variable("scores", types.FloatTensorType()))
        if scope.get_options(model, {"probabilities": False})["probabilities"]:
            operator.outputs.append(scope.declare_local_variable("probabilities", types.FloatTensorType()))
    else:
        operator.outputs.append(scope.declare_local_variable("variable", types.FloatTensorType()))
    return operator.outputs


def _shapes(operator: Any) -> None:
    """State the shapes of the outputs."""
    rows = operator.inputs[0].get_first_dimension()
    flat = is_classifier(operator.raw_operator)
    for place, output in enumerate(operator.outputs):
        output.type.shape = [rows] if flat and place == 0 else [rows, None]


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Write a model down as nodes; of a meta-estimator of ours the model that it has kept, if it is ours."""
    outer = operator.raw_operator
    model = getattr(outer, "estimator_", outer)
    if not type(model).__module__.startswith("buttress."):
        raise TypeError(f"{type(outer).__name__} of {type(model).__name__} cannot be written as ONNX. Export its "
                        "estimator_ by skl2onnx.")
    add = GraphNodes(scope, container)
    X = add("Concat", *[add.cast(one.full_name, np.float64) for one in operator.inputs], axis=1)  # an input a column
    outputs = [output.full_name for output in operator.outputs]
    if is_outlier_detector(model):
        add_ball(add, model, X, *outputs)
    elif is_classifier(model):
        add_classes(add, model, X, *outputs)
    else:
        add.cast(add_values(add, model, X), np.float32, outputs[0])


def add_values(add: GraphNodes, model: Any, X: str) -> str:
    """Add the predictions of a regressor, (n, 1)."""
    if not hasattr(model, "expansion_"):
        value = add("Add", add("MatMul", X, np.asarray(model.coef_)[:, None]), np.asarray(model.intercept_))
        poisson = isinstance(model, TrimmedLikelihoodRegressor) and model.family == "poisson"
        return add("Exp", value) if poisson else value
    scores = add_scores(add, model.expansion_, X)
    shift = 0.0 if np.ndim(model.intercept_) else float(model.intercept_)  # SVR's is in its expansion
    return add("Add", scores, shift)


def add_ball(add: GraphNodes, model: Any, X: str, label: str, score: str) -> None:
    """Add 1 inside and -1 outside, and the decision: the score less the offset."""
    if isinstance(model, OneClassSVM):
        decision = add_scores(add, model.expansion_, X)
    else:
        decision = add("Sub", add_distances(add, model, X), float(model.offset_))
    inside = add.cast(add("GreaterOrEqual", decision, 0.0), np.int64)  # not of NaN
    add("Sub", add("Mul", inside, np.array([[2]])), np.array([[1]]), output=label)
    add.cast(decision, np.float32, score)


def add_distances(add: GraphNodes, model: Any, X: str) -> str:
    """Add the scores of a ball: the logarithm of what its centre has of each row, or minus the squared distance."""
    if in_logs(model.expansion_.kernel):
        return add_logs(add, model.expansion_, X)
    inner = add("Mul", add_scores(add, model.expansion_, X), 2.0)
    distance = add("Sub", add_diagonal(add, model.expansion_.kernel, X), inner)
    return add("Sub", -float(model.center_norm2_), distance)


def add_classes(add: GraphNodes, model: Any, X: str, label: str, score: str, probability: str | None = None) -> None:
    """Add the predicted class and the decision values, (n, 1) for two classes and (n, C) else; and probabilities."""
    scores = decision = add_scores(add, model.expansion_, X)
    if len(model.classes_) == 2:
        winner = add("Squeeze", add.cast(add("Greater", scores, 0.0), np.int64), np.array([1]))
    elif isinstance(model, ExactClassifier) and not model.one_a_class:
        winner, decision = _votes(add, model, scores)
    else:
        winner = _winner(add, scores, np.asarray(model.contrasts_))
    add.labels(winner, model.classes_, label)
    add.cast(decision, np.float32, score)
    if probability is not None:
        add.cast(add_probabilities(add, model._calibrated(), scores, winner), np.float32, probability)


def _winner(add: GraphNodes, scores: str, contrasts: Array) -> str:
    """Add the number of the class that leads over most rivals; the first of equals."""
    n_classes, rivals, k = contrasts.shape
    leads = add("MatMul", scores, contrasts.reshape(n_classes * rivals, k).T)
    ahead = add.cast(add("Greater", leads, 0.0), np.float64)
    counts = add("MatMul", ahead, np.repeat(np.eye(n_classes), rivals, axis=0))
    return add("ArgMax", counts, axis=1, keepdims=0)


def _votes(add: GraphNodes, model: ExactClassifier, scores: str) -> tuple[str, str]:
    """Add the class with most votes of the pairs, the first of equals or by ``break_ties``, and the decision values."""
    numbers = np.eye(len(model.classes_))
    first, second = (numbers[list(side)] for side in zip(*pairs_of(len(numbers)), strict=True))
    wins = add.cast(add("Greater", scores, 0.0), np.float64)
    counts = add("Add", add("MatMul", wins, first), add("MatMul", add("Sub", 1.0, wins), second))
    confidence = add("MatMul", scores, first - second)
    # a sum of pairwise scores decides between equal votes only: see svm/task.py::votes
    squeezed = add("Div", confidence, add("Mul", add("Add", add("Abs", confidence), 1.0), 3.0))
    decision = add("Add", counts, squeezed)
    winner = add("ArgMax", decision if model.break_ties else counts, axis=1, keepdims=0)
    return winner, scores if model.decision_function_shape == "ovo" else decision
