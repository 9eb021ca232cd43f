"""Sums of decision trees: what they score, and between which bounds over boxes."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._state import Attribute, Lengths, State, StateError

Nodes = NDArray[np.intp]


def _check_order(tree: "Tree", lengths: Lengths) -> None:
    """Refuse nodes that a walk from the first would not leave behind: each comes before its two children."""
    inner = tree.left >= 0
    own = np.arange(len(tree.left))
    ordered = (own < tree.left) & (own < tree.right) & (tree.left < len(own)) & (tree.right < len(own))
    if not (len(own) and (inner == (tree.right >= 0)).all() and ordered[inner].all()):
        raise StateError("The nodes of a tree are not in the order of its branches.")


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

    _state = State(
        Attribute("feature", "index", "n_nodes", below="n_features"),
        Attribute("threshold", "real", "n_nodes"),
        Attribute("left", "integer", "n_nodes", low=-1),
        Attribute("right", "integer", "n_nodes", low=-1),
        Attribute("value", "finite", "n_nodes, n_scores"),
        together=_check_order)

    feature: Nodes
    threshold: Array
    left: Nodes
    right: Nodes
    value: Array

    def ends(self, low: Array, high: Array, contrast: Array) -> tuple[Array, Array]:
        """Return the least and the largest value @ contrast, (n,), of leaves reached from boxes low to high (n, d)."""
        reached = np.zeros((len(self.left), len(low)), dtype=bool)
        reached[0] = True
        for node in np.flatnonzero(self.left >= 0):  # each before its children
            feature, threshold = self.feature[node], self.threshold[node]
            reached[self.left[node]] = reached[node] & (low[:, feature] <= threshold)
            reached[self.right[node]] = reached[node] & (high[:, feature] > threshold)
        leaves = self.left < 0
        values = (self.value[leaves] @ contrast)[:, None]
        return (np.where(reached[leaves], values, np.inf).min(axis=0),
                np.where(reached[leaves], values, -np.inf).max(axis=0))

    def in_column(self, column: int, columns: int) -> "Tree":
        """Return the tree of one score, as one that adds to a column of several."""
        value = np.zeros((len(self.left), columns))
        value[:, column] = self.value[:, 0]
        return replace(self, value=value)


@dataclass
class Forest:
    """scores(x) = offset + sum of the trees' leaves.

    Thresholds are in the units of the rows as they are given, in float64: where the model scales them, or rounds them
    to float32, each is the largest number that the model still sends left.

    Parameters
    ----------
    trees : list of Tree
    contrasts : array of shape (n_classes, n_rivals, k)
    offset : array of shape (k,)
    """

    _state = State(
        Attribute("offset", "finite", "n_scores"),
        Attribute("contrasts", "finite", "n_classes, *, n_scores"),
        Attribute("trees", "part", "n_trees", of="Tree", shares="n_scores, n_features"))

    trees: list[Tree]
    contrasts: Array
    offset: Array
    unit = float(np.finfo(float).eps)  # of the numbers in which the model sums

    def scores(self, X: Array) -> Array:
        """Return the scores of the rows of X, shape (n, k)."""
        total = np.tile(self.offset, (len(X), 1))
        for tree in self.trees:
            at = np.zeros(len(X), dtype=np.intp)
            while (tree.left[at] >= 0).any():
                inner = np.flatnonzero(tree.left[at] >= 0)
                node = at[inner]
                low = X[inner, tree.feature[node]] <= tree.threshold[node]
                at[inner] = np.where(low, tree.left[node], tree.right[node])
            total += tree.value[at]
        return total

    def least(self, low: Array, high: Array, contrast: Array) -> Array:
        """Return a lower bound (n,) of ``scores(x) @ contrast`` over boxes from low to high (n, d), tree by tree."""
        total = np.full(len(low), float(self.offset @ contrast))
        for tree in self.trees:
            total += tree.ends(low, high, contrast)[0]
        return total

    def rounding(self, contrast: Array) -> float:
        """Return what rounding may change in ``scores(x) @ contrast``, between the model's sum and the one here.

        Both sum at x, and at the row where the offset was read: 4 roundings of half a unit a tree. A lead of less than
        a few units can be lost in probabilities, too.
        """
        largest = [float(np.abs(tree.value @ contrast).max()) for tree in self.trees]
        size = float(np.abs(self.offset) @ np.abs(contrast)) + sum(largest)
        return 2 * (len(largest) + 4) * self.unit * (size + 1)
