"""Trees: l_inf radii of rows within which the class that ``predict`` computes stays.

Scores are an offset and a leaf's value of each tree, added up in this order. Over a box each tree gives at least the
least lead of the leaves that the box reaches, so their sum is below every lead in it. A move of at most r takes an
entry x to a float64 number no smaller than x - r, and so none below x - r rounded.
"""

from collections.abc import Callable

import numpy as np

from .core import Array, Claim, Model, U, only
from .machines import OF_ALL, contrasts

ATTRIBUTES = OF_ALL + "eps bounds threat n_estimators learning_rate max_depth l2_regularization max_bins classes_ " \
    "forest_"
HALVINGS = 60


def problem(model: Model) -> Model:
    """Return what a model of trees states, in plain numbers and text; ValueError for what no proof knows."""
    only(model, ATTRIBUTES)
    only(model["forest_"], "offset contrasts trees")
    classes = np.asarray(model["classes_"]).tolist()
    if not np.array_equal(model["forest_"]["contrasts"], contrasts(len(classes), pairs=False)):
        raise ValueError("The leads of the file are not those of its classes.")
    return {"model": model["class"], "classes": classes, "norm": "linf", "trees": len(model["forest_"]["trees"])}


def sound(model: Model, X: Array, y: object, weight: Array) -> list[Claim]:
    """Return the claim that the trees are trees: each node before its children, each leaf finite, each column there."""
    problem(model)
    trees = model["forest_"]["trees"]
    for tree in trees:
        only(tree, "feature threshold left right value")
        own, inner = np.arange(len(tree["left"])), tree["left"] >= 0
        ordered = (own < tree["left"]) & (own < tree["right"]) & (np.maximum(tree["left"], tree["right"]) < len(own))
        columns = (tree["feature"] >= 0) & (tree["feature"] < X.shape[1])
        lengths = {len(tree[name]) for name in ("feature", "threshold", "left", "right", "value")}
        if not (lengths == {len(own)} and (inner == (tree["right"] >= 0)).all() and (ordered & columns)[inner].all()
                and np.isfinite(tree["value"]).all() and not np.isnan(tree["threshold"]).any()):
            raise ValueError("The file holds nodes that are no tree.")
    return [Claim("trees", float(len(trees)), float(len(trees)), True)]


def least(forest: Model, V: Array, low: Array, high: Array) -> float:
    """Return a lower bound of the lead V over a box, less what rounding may change in it."""
    total = float(V @ forest["offset"])
    size = float(np.abs(V) @ np.abs(forest["offset"]))
    for tree in forest["trees"]:
        reached = np.zeros(len(tree["left"]), bool)
        reached[0] = True
        for node in np.flatnonzero(tree["left"] >= 0):
            column, place = tree["feature"][node], tree["threshold"][node]
            reached[tree["left"][node]] = reached[node] and low[column] <= place
            reached[tree["right"][node]] = reached[node] and high[column] > place
        leads = tree["value"] @ V
        total += float(leads[reached & (tree["left"] < 0)].min())
        size += float((np.abs(tree["value"]) @ np.abs(V)).max())
    return total - 4 * (len(forest["trees"]) + len(V) + 4) * U * size


def tree_radii(model: Model, rows: Array, stated: Array | None = None) -> list[Claim]:
    """Return for each row whether its stated l_inf radius is proven, or the largest found that is."""
    rows = np.asarray(rows, float)
    sound(model, rows, None, rows)
    forest, found = model["forest_"], list[Claim]()
    places = [float(np.abs(tree["threshold"][tree["left"] >= 0]).max(initial=0.0)) for tree in forest["trees"]]
    for i, x in enumerate(rows):
        leads = [min(least(forest, V, x, x) for V in of_class) for of_class in forest["contrasts"]]
        rivals = forest["contrasts"][int(np.argmax(leads))]

        def holds(radius: float, x: Array = x, rivals: Array = rivals) -> bool:
            return all(least(forest, V, x - radius, x + radius) > 0 for V in rivals)

        far = 2 * (max(places, default=0.0) + float(np.abs(x).max()) + 1)
        claimed = far if stated is None else float(stated[i])
        radius = claimed if holds(claimed) else widest(holds, min(claimed, far))
        found.append(Claim(f"l_inf radius of row {i}", radius if stated is None else claimed, radius,
                           stated is None or claimed <= radius))
    return found


def widest(holds: Callable[[float], bool], most: float) -> float:
    """Return a radius below ``most`` that is proven, close to the largest."""
    low, high = 0.0, most
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
