"""Sums of decision trees read from fitted models: single trees, forests, gradient boosting, also by histograms.

LightGBM and XGBoost tell their trees as JSON; neither is imported here. LightGBM sends x <= threshold left and sums in
float64. XGBoost rounds x to float32, sends x < threshold left, and sums in float32, so that its scores are known less
well. Both predict the class of the largest probability, which is that of the largest score but for its last digits.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from buttress._checks import Array
from buttress._types import Mask
from buttress.expansion import binary_contrasts, rival_contrasts
from buttress.scores import (
    SCALERS,
    Scorable,
    SignOf,
    centre_of,
    check_one_label,
    chosen,
    fitted_inside,
    scores_otherwise,
)
from buttress.trees.forest import Forest, Nodes, Tree


def is_lightgbm(model: object) -> bool:
    """Say whether a model is LightGBM's own classifier or regressor, no subclass of a user."""
    return f"{type(model).__module__}.{type(model).__name__}" in (
        "lightgbm.sklearn.LGBMClassifier", "lightgbm.sklearn.LGBMRegressor")


def is_xgboost(model: object) -> bool:
    """Say whether a model is one of XGBoost's own classifiers or regressors."""
    return f"{type(model).__module__}.{type(model).__name__}" in (
        "xgboost.sklearn.XGBClassifier", "xgboost.sklearn.XGBRFClassifier", "xgboost.sklearn.XGBRegressor",
        "xgboost.sklearn.XGBRFRegressor")


def raw_scores(model: Any, X: Array) -> Array:
    """Return what a model of these libraries makes probabilities of, for rows X (n, d): shape (n, k)."""
    asked = "raw_score" if is_lightgbm(model) else "output_margin"
    return np.asarray(model.predict(X, **{asked: True}), dtype=np.float64).reshape(len(X), -1)


def read_trees(model: Any) -> list[Tree]:
    """Return the trees of a model of these libraries.

    Raises ValueError for splits of categories, objectives of other kinds, linear leaves, and zeros or numbers that
    count as missing.
    """
    trees, objective = _of_lightgbm(model) if is_lightgbm(model) else _of_xgboost(model)
    known = (  # those of regressors whose predictions are their scores, or have the same sign
        "regression", "regression_l1", "huber", "fair", "quantile", "mape", "reg:squarederror", "reg:absoluteerror",
        "reg:pseudohubererror",
    ) if is_regressor(model) else ("binary", "multiclass", "binary:logistic", "multi:softprob", "multi:softmax")
    if objective not in known:
        raise refused(model, f"has the objective {objective!r}", f"with one of {', '.join(known)}")
    return trees


def refused(model: object, what: str, instead: str) -> ValueError:
    """Return the error for a model that is more than its trees tell, with how to fit one that is not."""
    return ValueError(f"{type(model).__name__} is not read as trees where it {what}. Fit it {instead}, or use "
                      "attacks.worst_case, which asks for predictions only.")


def _of_lightgbm(model: Any) -> tuple[list[Tree], str]:
    """Return the trees of LightGBM and the name of its objective."""
    told = model.booster_.dump_model()
    columns = told["num_tree_per_iteration"]
    trees = []
    for number, tree in enumerate(told["tree_info"]):
        nodes, left, right = [tree["tree_structure"]], [], []
        for node in nodes:  # grows
            inner = "split_feature" in node
            left.append(len(nodes) if inner else -1)
            right.append(len(nodes) + 1 if inner else -1)
            nodes += [node["left_child"], node["right_child"]] if inner else []
        if any(node.get("decision_type", "<=") != "<=" for node in nodes):
            raise refused(model, "splits categories", "to one column of 0 and 1 a category")
        if any(node.get("missing_type") == "Zero" or "leaf_coeff" in node for node in nodes):
            raise refused(model, "takes zeros for missing, or has linear leaves",
                          "with zero_as_missing=False and linear_tree=False")
        feature, threshold, leaf = (np.array([node.get(name, 0) for node in nodes]) for name in
                                    ("split_feature", "threshold", "leaf_value"))
        alone = Tree(feature, threshold.astype(np.float64), np.array(left), np.array(right), leaf[:, None])
        trees.append(alone.in_column(number % columns, columns))
    return trees, told.get("objective", "one of a user").split(" ")[0]


def _of_xgboost(model: Any) -> tuple[list[Tree], str]:
    """Return the trees of XGBoost up to its best iteration, and the name of its objective."""
    gap = np.nan if model.missing is None else model.missing
    told = json.loads(bytes(model.get_booster().save_raw("json")))["learner"]
    if told["gradient_booster"]["name"] != "gbtree" or not np.isnan(gap):
        raise refused(model, f"has the booster {told['gradient_booster']['name']!r} and missing={gap}",
                      "with booster='gbtree' and missing=nan")
    grown = told["gradient_booster"]["model"]
    best = getattr(model, "best_iteration", len(grown["iteration_indptr"]) - 2)
    kept = grown["trees"][: grown["iteration_indptr"][best + 1]]
    columns = max(grown["tree_info"]) + 1
    trees = []
    for tree, column in zip(kept, grown["tree_info"], strict=False):
        if any(tree["split_type"]) or int(tree["tree_param"]["size_leaf_vector"]) > 1:
            raise refused(model, "splits categories, or has leaves of several values",
                          "to one column of 0 and 1 a category, with multi_strategy='one_output_per_tree'")
        order = [0]
        for node in order:  # grows: each node before its children
            order += [tree[side][node] for side in ("left_children", "right_children") if tree[side][node] >= 0]
        place = np.full(len(tree["left_children"]) + 1, -1)
        place[order] = np.arange(len(order))
        left, right = (place[np.array(tree[side])[order]] for side in ("left_children", "right_children"))
        split = np.array(tree["split_conditions"], dtype=np.float32)[order]
        leaf = np.where(left < 0, split, 0.0)[:, None]
        below = np.nextafter(split, np.float32(-np.inf)).astype(np.float64)  # the largest number that is less
        trees.append(Tree(np.array(tree["split_indices"])[order], below, left, right, leaf).in_column(column, columns))
    return trees, told["objective"]["name"]


FARTHEST = np.int64(np.float64(1e300).view(np.int64))  # the place of 1e300 in the order of floats
SINGLE = (DecisionTreeClassifier, ExtraTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor)
AVERAGED = (*SINGLE, RandomForestClassifier, ExtraTreesClassifier, BaggingClassifier, RandomForestRegressor,
            ExtraTreesRegressor, BaggingRegressor)
BY_HISTOGRAMS = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
NAMES = "RobustBoostingClassifier, DecisionTreeClassifier, RandomForestClassifier, ExtraTreesClassifier, " \
        "BaggingClassifier of trees, GradientBoostingClassifier, HistGradientBoostingClassifier, LGBMClassifier or " \
        "XGBClassifier, or a regressor of these kinds on -1 and +1"


def read_forest(classifier: Scorable, X: Array) -> Forest | None:
    """Return the trees of a fitted classifier, also behind scalers, None for another kind of model.

    X (n, d) are rows to read an offset at. ValueError for histogram boosting with categorical columns, for boosting
    that starts from another estimator, whose predictions are no constant, and for what ``reading.py`` refuses.
    """
    given: Any = classifier.regressor if isinstance(classifier, SignOf) else classifier
    given = chosen(given)
    steps = steps_of(given)
    model = fitted_inside(steps[-1]) or steps[-1]
    scalers = [step for step in steps[:-1] if step not in (None, "passthrough")]
    if any(type(step) not in SCALERS or getattr(step, "clip", False) for step in scalers):
        return None
    own = getattr(model, "forest_", None)
    if isinstance(own, Forest) and not scores_otherwise(type(model)):
        copies = [replace(tree) for tree in own.trees]
        _in_units_of_rows(copies, scalers, single=False)
        forest = replace(own, trees=copies)
        forest.scaled = bool(scalers)
        return forest
    trees = _trees_of(model)
    if trees is None:
        return None
    _in_units_of_rows(trees, scalers, not (type(model) in BY_HISTOGRAMS or is_lightgbm(model)))
    columns = trees[0].value.shape[1]
    forest = Forest(trees, binary_contrasts() if columns == 1 else rival_contrasts(columns), np.zeros(columns))
    forest.scaled = bool(scalers)
    if is_lightgbm(model) or is_xgboost(model):
        _set_offset(forest, model, X, scalers)
    elif type(model) not in AVERAGED:
        score = given.predict if is_regressor(model) else given.decision_function
        forest.offset = (score(X[:1]).reshape(1, -1) - forest.scores(X[:1]))[0]
    return forest


def _trees_of(model: Any) -> list[Tree] | None:
    """Return the trees of a fitted classifier of another library, in its units; None for another kind of model."""
    if type(model) in AVERAGED:
        check_one_label(model)
        single = getattr(model, "estimators_", [model])
        if {type(tree) for tree in single} - set(SINGLE):
            return None
        bagged = type(model) in (BaggingClassifier, BaggingRegressor)
        return _in_whole(_averaged(single), model) if bagged else _averaged(single)
    if type(model) in (GradientBoostingClassifier, GradientBoostingRegressor):
        if model.init is not None and model.init != "zero":
            raise ValueError(f"Boosting that starts from {model.init!r} is not read as trees. Fit it with init=None or "
                             "init='zero'.")
        return [Tree(tree.feature, tree.threshold, tree.children_left, tree.children_right,
                     model.learning_rate * tree.value[:, 0]).in_column(k, len(row))
                for row in model.estimators_ for k, tree in enumerate(each.tree_ for each in row)]
    if type(model) in BY_HISTOGRAMS:
        if model.loss in ("poisson", "gamma"):  # of predictions that are all positive
            raise refused(model, f"has the loss {model.loss!r}", "with loss='squared_error'")
        if model.is_categorical_ is not None:  # also where no tree splits them: they come first in its columns
            raise ValueError("Boosting by histograms with categorical columns is not read as trees. Encode these as "
                             "numbers (OneHotEncoder), and fit it with categorical_features=None.")
        return [_histogram_tree(tree.nodes, k, len(row)) for row in model._predictors for k, tree in enumerate(row)]
    if is_xgboost(model):
        check_one_label(model)
    return read_trees(model) if is_lightgbm(model) or is_xgboost(model) else None


def _set_offset(forest: Forest, model: Any, X: Array, scalers: list[Any]) -> None:
    """Set the offset of another library's model at the first row; the others must have the scores of the trees."""
    if is_xgboost(model):
        forest.unit = float(np.finfo(np.float32).eps)
    scaled = X
    for scaler in scalers:
        scaled = scaler.transform(scaled)
    apart = raw_scores(model, scaled) - forest.scores(X)
    forest.offset = apart[0]
    if (np.abs(apart - apart[0]) > forest.rounding(np.ones(len(apart[0])))).any():
        raise refused(model, "scores rows otherwise than its trees do", "without dart or a base margin")


def steps_of(model: Any) -> list[Any]:
    """Return the steps of a pipeline, of pipelines in it too, or a model alone."""
    model = chosen(model)
    return [inner for _, step in model.steps for inner in steps_of(step)] if type(model) is Pipeline else [model]


def _in_units_of_rows(trees: list[Tree], scalers: list[Any], single: bool) -> None:
    """Put thresholds in the units of rows: the largest number that, scaled and rounded as the model does, is below."""
    if not (scalers or single):
        return
    feature = np.concatenate([tree.feature for tree in trees])
    threshold = np.concatenate([tree.threshold for tree in trees])
    inner = np.concatenate([tree.left >= 0 for tree in trees]) & np.isfinite(threshold)

    def below(x: Array) -> Mask:
        for scaler in scalers:
            x = _scaled(scaler, x, feature[inner])
        with np.errstate(over="ignore"):
            return np.asarray((x.astype(np.float32) if single else x) <= threshold[inner])

    threshold[inner] = _largest(below, int(inner.sum()))
    for tree, part in zip(trees, np.split(threshold, np.cumsum([len(tree.left) for tree in trees])[:-1]), strict=True):
        tree.threshold = part


def _scaled(scaler: Any, x: Array, feature: Nodes) -> Array:
    """Return entries of these features as a scaler makes them, to the last bit."""
    if type(scaler) is MinMaxScaler:
        return np.asarray(x * scaler.scale_[feature] + scaler.min_[feature])
    centre = np.broadcast_to(centre_of(scaler), scaler.n_features_in_)[feature]
    return x - centre if scaler.scale_ is None else np.asarray((x - centre) / scaler.scale_[feature])


def _largest(below: Callable[[Array], Mask], n: int) -> Array:
    """Return the largest float64 (n,) of which a condition holds that holds of all smaller ones, by bisection of bits.

    The bits of floats, read as whole numbers, are in the order of the floats.
    """
    low, high = np.full(n, -FARTHEST), np.full(n, FARTHEST)
    for _ in range(64):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        holds = below(_float_of(middle))
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return _float_of(low)


def _float_of(order: NDArray[np.int64]) -> Array:
    """Return the floats that come at these places in their order, 0.0 at place 0."""
    bits = np.where(order >= 0, order, np.int64(np.iinfo(np.int64).min) - order)
    return bits.view(np.float64)


def _averaged(estimators: list[Any]) -> list[Tree]:
    """Return the mean of the class shares, or of the predictions, in the leaves."""
    trees = []
    for estimator in estimators:
        tree = estimator.tree_
        value = tree.value[:, 0]
        value = value if is_regressor(estimator) else value / value.sum(axis=1, keepdims=True)
        trees.append(Tree(tree.feature, tree.threshold, tree.children_left, tree.children_right,
                          value / len(estimators)))
    return trees


def _in_whole(trees: list[Tree], bag: Any) -> list[Tree]:
    """Return trees that saw some columns and classes as trees of all those of their bag."""
    whole = []
    for tree, estimator, places in zip(trees, bag.estimators_, bag.estimators_features_, strict=True):
        value = np.zeros((len(tree.value), getattr(bag, "n_classes_", 1)))
        value[:, getattr(estimator, "classes_", np.zeros(1)).astype(int)] = tree.value
        whole.append(replace(tree, feature=places[np.maximum(tree.feature, 0)], value=value))
    return whole


def _histogram_tree(nodes: NDArray[np.void], column: int, columns: int) -> Tree:
    leaf = nodes["is_leaf"].astype(bool)
    left, right = (np.where(leaf, -1, nodes[side].astype(np.intp)) for side in ("left", "right"))
    tree = Tree(nodes["feature_idx"].astype(np.intp), nodes["num_threshold"].astype(np.float64), left, right,
                nodes["value"][:, None])
    return tree.in_column(column, columns)
