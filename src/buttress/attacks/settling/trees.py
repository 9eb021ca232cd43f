"""Sums of decision trees read from scikit-learn: single trees, forests, gradient boosting, also by histograms."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

from buttress._checks import Array
from buttress.expansion import binary_contrasts, rival_contrasts
from buttress.scores import Scorable

Nodes = NDArray[np.intp]
AVERAGED = (DecisionTreeClassifier, RandomForestClassifier, ExtraTreesClassifier)
NAMES = "DecisionTreeClassifier, RandomForestClassifier, ExtraTreesClassifier, GradientBoostingClassifier or " \
        "HistGradientBoostingClassifier"


@dataclass
class Tree:
    """Nodes of one tree: an inner one sends rows with ``x[feature] <= threshold`` left; a leaf has ``left`` -1.

    Parameters
    ----------
    feature, left, right : int array of shape (nodes,)
    threshold : array of shape (nodes,)
    value : array of shape (nodes, k)
        What a leaf adds to the scores.
    """

    feature: Nodes
    threshold: Array
    left: Nodes
    right: Nodes
    value: Array


@dataclass
class Forest:
    """scores(x) = offset + sum of the trees' leaves; ``single`` where rows are rounded to float32 before comparing.

    Parameters
    ----------
    trees : list of Tree
    contrasts : array of shape (n_classes, n_rivals, k)
    offset : array of shape (k,)
    single : bool
    """

    trees: list[Tree]
    contrasts: Array
    offset: Array
    single: bool

    def rounded(self, x: Array) -> Array:
        """Return entries as the trees compare them."""
        return x.astype(np.float32).astype(np.float64) if self.single else x

    def scores(self, X: Array) -> Array:
        """Return the scores of the rows of X, shape (n, k)."""
        total = np.tile(self.offset, (len(X), 1))
        rows = self.rounded(X)
        for tree in self.trees:
            at = np.zeros(len(X), dtype=np.intp)
            while (tree.left[at] >= 0).any():
                inner = np.flatnonzero(tree.left[at] >= 0)
                node = at[inner]
                low = rows[inner, tree.feature[node]] <= tree.threshold[node]
                at[inner] = np.where(low, tree.left[node], tree.right[node])
            total += tree.value[at]
        return total

    def least(self, low: Array, high: Array, contrast: Array) -> Array:
        """Return a lower bound (n,) of ``scores(x) @ contrast`` over boxes from low to high (n, d), tree by tree."""
        low, high = self.rounded(low), self.rounded(high)
        total = np.full(len(low), float(self.offset @ contrast))
        for tree in self.trees:
            reached = np.zeros((len(tree.left), len(low)), dtype=bool)
            reached[0] = True
            for node in np.flatnonzero(tree.left >= 0):  # each before its children
                feature, threshold = tree.feature[node], tree.threshold[node]
                reached[tree.left[node]] = reached[node] & (low[:, feature] <= threshold)
                reached[tree.right[node]] = reached[node] & (high[:, feature] > threshold)
            leaves = tree.left < 0
            total += np.where(reached[leaves], (tree.value[leaves] @ contrast)[:, None], np.inf).min(axis=0)
        return total


def read_forest(classifier: Scorable, X: Array) -> Forest | None:
    """Return the trees of a fitted classifier, None for another kind of model; X (n, d) are rows to read an offset at.

    ValueError for histogram boosting with categorical columns, and for boosting that starts from another estimator,
    whose predictions are no constant.
    """
    model: Any = getattr(classifier, "best_estimator_", classifier)
    if type(model) in AVERAGED:
        return _averaged(getattr(model, "estimators_", [model]), len(model.classes_))
    if type(model) is GradientBoostingClassifier:
        if model.init is not None and model.init != "zero":
            raise ValueError(f"Boosting that starts from {model.init!r} is not read as trees. Fit it with init=None or "
                             "init='zero'.")
        shape = model.estimators_.shape
        trees = [_tree(model.estimators_[i, k].tree_, model.learning_rate, k, shape[1])
                 for i in range(shape[0]) for k in range(shape[1])]
    elif type(model) is HistGradientBoostingClassifier:
        trees = [_histogram_tree(tree.nodes, k, len(row)) for row in model._predictors for k, tree in enumerate(row)]
    else:
        return None
    columns = trees[0].value.shape[1]
    contrasts = binary_contrasts() if columns == 1 else rival_contrasts(columns)
    forest = Forest(trees, contrasts, np.zeros(columns), type(model) is GradientBoostingClassifier)
    forest.offset = (model.decision_function(X[:1]).reshape(1, -1) - forest.scores(X[:1]))[0]
    return forest


def _averaged(estimators: list[DecisionTreeClassifier], n_classes: int) -> Forest:
    """Return the mean of the class shares in the leaves."""
    trees = []
    for estimator in estimators:
        tree = estimator.tree_
        value = tree.value[:, 0]
        value = value / value.sum(axis=1, keepdims=True) / len(estimators)
        trees.append(Tree(tree.feature, tree.threshold, tree.children_left, tree.children_right, value))
    return Forest(trees, rival_contrasts(n_classes), np.zeros(n_classes), True)


def _tree(tree: object, rate: float, column: int, columns: int) -> Tree:
    """Return a regression tree that adds to one column of the scores."""
    value = np.zeros((tree.node_count, columns))  # type: ignore[attr-defined]
    value[:, column] = rate * tree.value[:, 0, 0]  # type: ignore[attr-defined]
    return Tree(tree.feature, tree.threshold, tree.children_left, tree.children_right, value)  # type: ignore[attr-defined]


def _histogram_tree(nodes: NDArray[np.void], column: int, columns: int) -> Tree:
    if nodes["is_categorical"].any():
        raise ValueError("Trees that split categories are not read. Encode the categorical columns as numbers "
                         "(OneHotEncoder) and fit HistGradientBoostingClassifier to those.")
    value = np.zeros((len(nodes), columns))
    value[:, column] = nodes["value"]
    leaf = nodes["is_leaf"].astype(bool)
    left, right = (np.where(leaf, -1, nodes[side].astype(np.intp)) for side in ("left", "right"))
    return Tree(nodes["feature_idx"].astype(np.intp), nodes["num_threshold"].astype(np.float64), left, right, value)
