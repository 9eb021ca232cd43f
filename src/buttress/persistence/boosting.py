"""Gradient boosting of scikit-learn in model files: its trees as arrays, checked before they are trees again.

Prediction follows the nodes in compiled code that trusts them, so that a forged file could make it read outside of
them, or go round for ever. Trees are therefore rebuilt only if every child stands behind its parent and every column,
child and set of categories there is.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

from buttress.files.container import Json, ModelFileError

BOOSTED = {"sklearn.HistGradientBoostingClassifier": HistGradientBoostingClassifier,
           "sklearn.HistGradientBoostingRegressor": HistGradientBoostingRegressor}
WORDS = 8  # of 32 bits, which hold a set of categories


def flattened(model: Any, where: str) -> Json:
    """Return the state of a fitted model, its trees as arrays; ModelFileError for what cannot be rebuilt."""
    if hasattr(model, "feature_names_in_") and model._preprocessor is not None:
        raise ModelFileError(f"{where} was fitted to a frame with categories, which a model file cannot hold. Put an "
                         "OrdinalEncoder before it and name the columns in categorical_features by number.")
    trees = [tree for iteration in model._predictors for tree in iteration]
    nodes = np.concatenate([tree.nodes for tree in trees])
    # the first four are remade from what stands in their place, the last three are of training
    left_out = ("_preprocessor", "_predictors", "_bin_mapper", "_loss", "_feature_subsample_rng", "_scorer", "_in_fit")
    state = {key: entry for key, entry in vars(model).items() if key not in left_out}
    state["_trees"] = {
        "sizes": np.array([len(tree.nodes) for tree in trees]),
        "nodes": {name: nodes[name].copy() for name in PREDICTOR_RECORD_DTYPE.names},
        "set_sizes": np.array([len(tree.raw_left_cat_bitsets) for tree in trees]),
        "sets": np.concatenate([tree.raw_left_cat_bitsets for tree in trees])}
    encoder = None if model._preprocessor is None else model._preprocessor.named_transformers_["encoder"]
    state["_categories"] = None if encoder is None else list(encoder.categories_)
    return state


def regrow(model: Any) -> None:
    """Put the trees, and what else prediction needs, back in place; ModelFileError for arrays that are no trees."""
    held = model.__dict__.pop("_trees")
    categories = model.__dict__.pop("_categories")
    width = int(model.n_features_in_)
    categorical = np.zeros(width, dtype=bool)
    categorical[: 0 if categories is None else len(categories)] = True  # they stand first behind the preprocessor
    if categories is not None and (len(categories) != int(np.sum(model.is_categorical_)) or len(
            model.is_categorical_) != width or any(len(known) > 256 for known in categories)):  # scikit-learn's limit
        raise ModelFileError("The categories in the file do not belong to its columns.")
    trees = _trees(held, categorical)
    per = int(model.n_trees_per_iteration_)
    if per < 1 or len(trees) % per or np.shape(model._baseline_prediction) != (1, per):
        raise ModelFileError("The file has another number of trees than its classes need.")
    model._predictors = [trees[start : start + per] for start in range(0, len(trees), per)]
    model._preprocessor = None if categories is None else _preprocessor(model, categories)
    model._bin_mapper = _BinMapper()
    model._bin_mapper.is_categorical_ = categorical.astype(np.uint8)
    model._bin_mapper.bin_thresholds_ = [
        np.arange(len(categories[j]), dtype=np.float64) if categorical[j] else None for j in range(width)]
    model._loss = model._get_loss(sample_weight=None)


def _trees(held: Mapping[str, Any], categorical: Any) -> list[TreePredictor]:
    sizes, set_sizes = held["sizes"], held["set_sizes"]
    nodes = np.zeros(int(sizes.sum()), dtype=PREDICTOR_RECORD_DTYPE)
    for name in PREDICTOR_RECORD_DTYPE.names:
        nodes[name] = held["nodes"][name]
    sets = np.asarray(held["sets"], dtype=np.uint32)
    if sets.shape != (int(set_sizes.sum()), WORDS) or min(sizes, default=0) < 1 or min(set_sizes, default=-1) < 0:
        raise ModelFileError("The trees in the file are not whole.")
    ends, set_ends = (np.concatenate([[0], np.cumsum(counts)]) for counts in (sizes, set_sizes))
    found = []
    for (begin, end), (first, last) in zip(pairwise(ends), pairwise(set_ends), strict=True):
        tree = nodes[begin:end].copy()
        _check(tree, last - first, categorical)
        found.append(TreePredictor(tree, np.zeros((last - first, WORDS), dtype=np.uint32), sets[first:last].copy()))
    return found


def _check(tree: Any, n_sets: int, categorical: Any) -> None:
    """Refuse a tree whose nodes point outside it, back, or to columns and sets there are not."""
    inner = tree["is_leaf"] == 0
    places, split = np.flatnonzero(inner), tree[inner]
    column = split["feature_idx"]
    sound = all(np.all((split[side] > places) & (split[side] < len(tree))) for side in ("left", "right"))
    sound = sound and bool(np.all((column >= 0) & (column < len(categorical))))
    by_set = split["is_categorical"] != 0
    if not (sound and np.all(categorical[column[by_set]]) and np.all(split["bitset_idx"][by_set] < n_sets)):
        raise ModelFileError("A tree in the file has nodes that point outside it.")


def _preprocessor(model: Any, categories: list[Any]) -> ColumnTransformer:
    """Return the transformer that codes categories and puts their columns first, fitted to rows that have all."""
    chosen = np.asarray(model.is_categorical_, dtype=bool)
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, encoded_missing_value=np.nan,
                             dtype=np.float64, categories=categories)
    made = ColumnTransformer([("encoder", encoder, chosen), ("numerical", FunctionTransformer(), ~chosen)])
    made.set_output(transform="default")
    rows = np.zeros((1, len(chosen)))
    rows[:, chosen] = [known[0] for known in categories]
    return made.fit(rows)
