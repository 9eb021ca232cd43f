"""Trees: boxes around rows, and l_inf radii, within which the class that ``predict`` computes stays.

Scores are an offset and a leaf's value of each tree, added up in this order. Over a box each tree gives at least the
least lead of the leaves that the box reaches, so their sum is below every lead in it. Where that is not above 0 the box
is halved at a threshold. A move of at most r takes an entry x to a float64 number no smaller than x - r, and so none
below x - r rounded.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import Array, Claim, Model, U, agreed, only, table
from ..foreign import certificate, data_of, digest_of
from ..machines import OF_ALL, contrasts, told_apart

ATTRIBUTES = OF_ALL + "eps bounds threat n_estimators learning_rate max_depth l2_regularization max_bins classes_ " \
    "forest_"
TREES = "trees"
NODES = {"feature": int, "threshold": float, "left": int, "right": int, "value": float}


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
    check_trees(trees, X.shape[1])
    return [Claim("trees", float(len(trees)), float(len(trees)), True)]


def check_trees(trees: list[Model], width: int) -> None:
    """Raise ValueError unless the trees are trees, of rows with so many columns, each node but the first with a parent.
    """
    for tree in trees:
        only(tree, " ".join(NODES))
        own, inner = np.arange(len(tree["left"])), tree["left"] >= 0
        ordered = (own < tree["left"]) & (own < tree["right"]) & (np.maximum(tree["left"], tree["right"]) < len(own))
        columns = (tree["feature"] >= 0) & (tree["feature"] < width)
        lengths = {len(tree[name]) for name in NODES}
        parents = np.bincount(np.r_[tree["left"][inner], tree["right"][inner]].clip(0), minlength=len(own))
        if not (lengths == {len(own)} and (parents[1:] == 1).all()
                and (inner == (tree["right"] >= 0)).all() and (ordered & columns)[inner].all()
                and np.isfinite(tree["value"]).all() and not np.isnan(tree["threshold"]).any()):
            raise ValueError("The file holds nodes that are no tree.")


def reached(tree: Model, low: Array, high: Array) -> Array:
    """Say which nodes some row of a box comes to."""
    found = np.zeros(len(tree["left"]), bool)
    found[0] = True
    for node in np.flatnonzero(tree["left"] > 0):
        column, place = tree["feature"][node], tree["threshold"][node]
        found[tree["left"][node]] = found[node] and low[column] <= place
        found[tree["right"][node]] = found[node] and high[column] > place
    return found


def least(forest: Model, V: Array, low: Array, high: Array) -> float:
    """Return a lower bound of the lead V over a box, less what rounding may change in it."""
    total = float(V @ forest["offset"])
    size = 1 + float(np.abs(V) @ np.abs(forest["offset"]))  # 1: probabilities lose a lead of less than a few units
    for tree in forest["trees"]:
        leads = tree["value"] @ V
        leaves = reached(tree, low, high) & (tree["left"] < 0)
        total += float(leads[leaves].min())
        size += float((np.abs(tree["value"]) @ np.abs(V)).max())
    return total - 4 * (len(forest["trees"]) + len(V) + 4) * U * size


def winner(forest: Model, leads: Array, x: Array) -> int:
    """Return the class whose leads over its rivals are largest in sum: its score is the largest."""
    return int(np.argmax([sum(least(forest, V, x, x) for V in of_class) for of_class in leads]))


def stays(forest: Model, V: Array, low: Array, high: Array) -> bool:
    """Say whether the lead V is proven to be above 0 in a box, in parts if need be."""
    parts = [(low, high)]
    for _ in range(2000):  # parts of a box, at most
        if not parts:
            return True
        low, high = parts.pop()
        if least(forest, V, low, high) > 0:
            continue
        cut = widest_cut(forest, V, low, high)
        if cut is None:
            return False
        below, above = high.copy(), low.copy()
        below[cut[0]], above[cut[0]] = cut[1], np.nextafter(cut[1], np.inf)
        parts += [(low, below), (above, high)]
    return not parts


def widest_cut(forest: Model, V: Array, low: Array, high: Array) -> tuple[int, float] | None:
    """Return column and threshold at which the tree whose lead varies most in a box splits it; None if none does."""
    widest, cut = 0.0, None
    for tree in forest["trees"]:
        found, inner = reached(tree, low, high), tree["left"] > 0
        leads = (tree["value"] @ V)[found & ~inner]
        split = np.flatnonzero(found & inner & found[tree["left"]] & found[tree["right"]])
        if len(split) and leads.max() - leads.min() > widest:
            widest = leads.max() - leads.min()
            cut = int(tree["feature"][split[0]]), float(tree["threshold"][split[0]])
    return cut


def from_trees(forest: Any, classes: Any, X: Any, y: Any, low: Any, high: Any) -> Model:
    """Return the certificate that rows X (n, d) keep the class they are given, wherever in their boxes they move.
    """
    if not (hasattr(forest, "trees") and hasattr(forest, "offset")):
        raise TypeError(f"forest must have an offset and trees. Got {type(forest).__name__}. Give what "
                        "buttress.trees.read_forest returns of a model of trees; of any other it is None.")
    names, written = np.asarray(classes).tolist(), as_json(forest)
    offset, trees = written["offset"], written["trees"]
    held = opened(offset, trees)
    leads = leads_of(names, held)
    given = [names[winner(held, leads, x)] for x in table(X)]
    stated = {"model": TREES, "classes": names, "sha256": digest_of([offset, trees])}
    point = {"offset": offset, "trees": trees, "low": np.asarray(low).tolist(), "high": np.asarray(high).tolist()}
    return certificate(stated, point, X, y, {"prediction": given})


def as_json(forest: Any) -> Model:
    """Return an ``offset`` (k,) and ``trees`` with the arrays of :class:`buttress.trees.Tree`, in lists."""
    trees = [{name: np.asarray(getattr(tree, name)).tolist() for name in NODES} for tree in forest.trees]
    for tree, held in zip(forest.trees, trees, strict=True):  # JSON has no infinite numbers: none is beyond the largest
        held["threshold"] = np.nan_to_num(np.where(tree.left > 0, tree.threshold, 0.0)).tolist()
    return {"offset": np.asarray(forest.offset).tolist(), "trees": trees}


def opened(offset: Any, trees: Any) -> Model:
    """Return the trees of a certificate as arrays."""
    return {"offset": np.array(offset, float), "trees": [
        {name: np.array(tree[name], NODES.get(name, float)) for name in tree} for tree in trees]}


def leads_of(classes: list[Any], forest: Model) -> Array:
    """Return the leads of each class over its rivals: two classes have a score together, or one each."""
    k, scores = len(classes), len(forest["offset"])
    if k == scores == 2:
        return np.array([[[1.0, -1.0]], [[-1.0, 1.0]]])
    if scores != (1 if k == 2 else k):
        raise ValueError(f"{k} classes have another number of scores than {scores}.")
    return contrasts(k, pairs=False)


def prove_trees(held: Model, X: Any, y: Any, weight: Array | None = None) -> list[Claim]:
    """Return the claims of a certificate of trees at rows X (n, d) with targets y (n,): one for each row."""
    stated, point, rows = held["problem"], held["point"], table(X)
    if stated.keys() != {"model", "classes", "sha256"} or point.keys() != {"offset", "trees", "low", "high"} \
            or held["claim"].keys() != {"prediction"}:
        raise ValueError("Of trees it is claimed what is predicted in boxes from low to high around rows.")
    forest = opened(point["offset"], point["trees"])
    check_trees(forest["trees"], rows.shape[1])
    low, high = (np.array(point[side], float) for side in ("low", "high"))
    leads, winners = leads_of(stated["classes"], forest), told_apart(stated["classes"], held["claim"]["prediction"])
    if not (low.shape == high.shape == rows.shape and len(winners) == len(rows)) or np.isnan([low, high]).any():
        raise ValueError("A box and a prediction are claimed for each row.")
    same = stated["sha256"] == digest_of([point["offset"], point["trees"]])
    found = [agreed("the data are those of the certificate", held["data"] == data_of(rows, y)),
             agreed("the trees are those of the problem", same)]
    for i, (x, winner) in enumerate(zip(rows, winners, strict=True)):
        within = bool((low[i] <= x).all() and (x <= high[i]).all())
        holds = within and all(stays(forest, V, low[i], high[i]) for V in leads[winner])
        found.append(Claim(f"row {i} keeps its class in its box", 1.0, float(holds), holds))
    return found


def tree_radii(model: Model, rows: Array, stated: Array | None = None) -> list[Claim]:
    """Return for each row whether its stated l_inf radius is proven, or the largest found that is."""
    rows = table(rows)
    sound(model, rows, None, rows)
    forest, found = model["forest_"], list[Claim]()
    places = [float(np.abs(np.where(tree["left"] > 0, tree["threshold"], 0.0)).max()) for tree in forest["trees"]]
    for i, x in enumerate(rows):
        rivals = forest["contrasts"][winner(forest, forest["contrasts"], x)]

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
    for _ in range(60):  # halvings
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
