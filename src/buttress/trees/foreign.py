"""Sums of decision trees read from LightGBM and XGBoost, which tell their trees as JSON; neither is imported here.

LightGBM sends x <= threshold left and sums in float64. XGBoost rounds x to float32, sends x < threshold left, and sums
in float32, so that its scores are known less well. Both predict the class of the largest probability, which is that of
the largest score but for its last digits.
"""

import json
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from buttress._checks import Array
from buttress.trees.forest import Tree


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
