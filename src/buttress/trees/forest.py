"""Sums of decision trees: what they score, and between which bounds over boxes."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._state import Attribute, Lengths, State, StateError
from buttress._types import Mask
from buttress.trees.search import least_sums

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
        alone = Forest([self], np.zeros((0, 0, len(contrast))), np.zeros(len(contrast)))
        return alone.least(low, high, contrast), -alone.least(low, high, -contrast)

    def in_column(self, column: int, columns: int) -> "Tree":
        """Return the tree of one score, as one that adds to a column of several."""
        value = np.zeros((len(self.left), columns))
        value[:, column] = self.value[:, 0]
        return replace(self, value=value)


@dataclass(frozen=True)
class BoxSearch:
    """What a search of n boxes knows of a lead.

    Parameters
    ----------
    bound : array of shape (n,)
        A lower bound over the box, up to rounding.
    met : array of shape (n,)
        The least that was met where rounding may hide it, or less; inf where none was.
    low, high : array of shape (n, d)
        The box in which it is that, where it was met.
    over : bool array of shape (n,)
    """

    bound: Array
    met: Array
    low: Array
    high: Array
    over: Mask


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
    scaled = False  # whether rows are scaled first, which is done in their own precision

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

    def searched(self, low: Array, high: Array, contrast: Array, most: int) -> BoxSearch:
        """Search boxes from low to high (n, d) for the least ``scores(x) @ contrast``, ``most`` parts of each at most.

        A search is over where a lead is met that rounding cannot hide, or where none is left that it could.
        """
        nowhere = np.full(1, -1)
        trees = self.trees or [Tree(nowhere, np.zeros(1), nowhere, nowhere, np.zeros((1, len(contrast))))]
        sizes = [len(tree.left) for tree in trees]
        roots = np.cumsum([0, *sizes[:-1]])
        first = np.repeat(roots, sizes)
        feature, threshold, left, right = (np.concatenate([getattr(tree, name) for tree in trees])
                                           for name in ("feature", "threshold", "left", "right"))
        left, right = (np.where(side < 0, side, side + first) for side in (left, right))
        value = np.concatenate([tree.value @ contrast for tree in trees])
        low, high = (np.array(side, dtype=np.float64, order="C") for side in (low, high))
        room = np.empty((2, min(most, len(feature)) + 2, low.shape[1]))
        seen = least_sums(feature, threshold, left, right, value, roots, float(self.offset @ contrast), low, high,
                          self.rounding(contrast), most, np.empty(len(feature), dtype=np.intp), *room)
        return BoxSearch(seen[:, 0], seen[:, 1], low, high, seen[:, 2] > 0)

    def least(self, low: Array, high: Array, contrast: Array) -> Array:
        """Return a lower bound (n,) of ``scores(x) @ contrast`` over boxes from low to high (n, d), tree by tree."""
        return self.searched(low, high, contrast, 1).bound

    def rounding(self, contrast: Array) -> float:
        """Return what rounding may change in ``scores(x) @ contrast``, between the model's sum and the one here.

        Both sum at x, and at the row where the offset was read: 4 roundings of half a unit a tree. A lead of less than
        a few units can be lost in probabilities, too.
        """
        largest = [float(np.abs(tree.value @ contrast).max()) for tree in self.trees]
        size = float(np.abs(self.offset) @ np.abs(contrast)) + sum(largest)
        return 2 * (len(largest) + 4) * self.unit * (size + 1)
