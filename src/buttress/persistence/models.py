"""What models hold beside plain data, as JSON and back. Instances are filled in; none of their methods is called.

==========================================================  ======================================================
``{"class": name, "state": {...}}``                         an instance: a name of ``classes.py`` and its attributes
``{"objects": [...], "shape": [...]}``                      an array of objects
``{"csr_array": [...], "shape": [...]}``                    data, indices and indptr; also ``csr_matrix``
``{"slice": [start, stop, step]}``
``{"dtype": text}``, ``{"type": text}``                     a dtype, or a number type of numpy
``{"named": name}``                                         another type or a function, of ``classes.NAMED``
``{"random_state": ...}``                                   the state of a RandomState
``{"bunch": [[key, value]]}``                               scikit-learn's dict with attributes
``{"spline": [...]}``                                       a BSpline: knots, coefficients, degree, extrapolate, axis
==========================================================  ======================================================

Gradient boosting of scikit-learn is its trees as arrays, checked before they are trees again. Prediction follows the
nodes in compiled code that trusts them, so that a forged file could make it read outside of them, or go round for ever.
Trees are therefore rebuilt only if every child stands behind its parent and every column, child and set of categories
there is.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.interpolate import BSpline
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection._search import BaseSearchCV
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from sklearn.utils import Bunch

from buttress._state import attributes_of, check_attributes, check_state, parameters_of
from buttress.files.container import NUMBERS_AND_TEXT, AnyArray, Json, ModelFileError, named_dtype
from buttress.files.values import InnerDecoder, InnerEncoder
from buttress.persistence.classes import LEFT_OUT, STATE_OF_SKLEARN, class_named, name_of, name_of_thing, thing_named

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
    categorical = np.arange(width) < len(categories or ())  # they stand first behind the preprocessor
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


WORDS_OF_STATE = 624  # of a Mersenne Twister


def encoded(value: Any, where: str, inner: InnerEncoder) -> object:
    """Return as JSON what is no plain data; ModelFileError for what a file cannot hold, which ``where`` names."""
    if type(value) is np.ndarray and value.dtype.kind == "O":
        return {"objects": [inner(entry, "[...]") for entry in value.ravel()], "shape": list(value.shape)}
    if isinstance(value, BaseSearchCV):
        return inner(_best_of(value, where), ".best_estimator_")
    if type(value) in (csr_matrix, csr_array):
        parts = [inner(part, "") for part in (value.data, value.indices, value.indptr)]
        return {type(value).__name__: parts, "shape": list(value.shape)}
    if type(value) is slice:
        return {"slice": [inner(part, "") for part in (value.start, value.stop, value.step)]}
    if isinstance(value, np.dtype) and value.kind in f"{NUMBERS_AND_TEXT}O":
        return {"dtype": value.str}
    if type(value) is np.random.RandomState:
        return {"random_state": inner(value.get_state(legacy=True), ".state")}
    if type(value) is Bunch:
        return {"bunch": [[key, inner(entry, f"[{key!r}]")] for key, entry in value.items()]}
    if type(value) is BSpline:
        taken = ("t", "c", "k", "extrapolate", "axis")  # by its constructor, in this order
        return {"spline": [inner(getattr(value, name), f".{name}") for name in taken]}
    named = name_of_thing(value)
    if named is not None:
        return {"named": named}
    if isinstance(value, type) and issubclass(value, np.number) and np.dtype(value).kind in NUMBERS_AND_TEXT:
        return {"type": np.dtype(value).str}
    return _encoded_instance(value, where, inner)


def _best_of(search: object, where: str) -> object:
    """Return the best estimator of a fitted search over parameters; ModelFileError where there is none."""
    best: object = getattr(search, "best_estimator_", None)
    if best is None:
        raise ModelFileError(f"{where} is a {type(search).__name__} without a best estimator, of which alone a model "
                             "file takes something. Fit it first, with refit=True.")
    return best


def _encoded_instance(value: object, where: str, inner: InnerEncoder) -> object:
    cls = type(value)
    name = name_of(cls)
    if type(value) is np.ndarray:
        raise ModelFileError(f"{where} is an array of {value.dtype}. A model file holds arrays of numbers and text: "
                             "before the fit make text of dates, with astype(str), or numbers.")
    if name is None:
        raise ModelFileError(f"{where} is a {cls.__module__}.{cls.__name__}, which a model file cannot hold. It holds "
                             "estimators and kernels of this package, scikit-learn's pipelines, preprocessing, linear "
                             "and other models whose state is arrays, numbers, text and arrays, dense or CSR.")
    if name in BOOSTED and hasattr(value, "_predictors"):
        state = flattened(value, where)
    elif is_dataclass(value) and not isinstance(value, BaseEstimator):
        state = {field.name: getattr(value, field.name) for field in fields(value) if not field.name.startswith("_")}
    else:
        added = ("_sklearn_version", "_skl_callbacks")  # by scikit-learn, to what it copies or runs
        left_out = (*added, *LEFT_OUT.get(name, ()))
        state = {key: getattr(value, key) for key in vars(value) if key not in left_out}
    return {"class": name, "state": {key: inner(entry, f".{key}") for key, entry in state.items()}}


def decoded(part: Json, inner: InnerDecoder) -> Any:
    """Return what JSON stands for that is no plain data."""
    if "class" in part:
        return _instance(part, inner)
    (kind,) = part.keys() - {"shape"}
    if kind not in _READERS:
        raise ModelFileError(f"The file holds a value of the kind {kind!r}, which this release does not know. If a "
                             "later release wrote the file, update buttress.")
    return _READERS[kind](part, inner)


def _instance(part: Json, inner: InnerDecoder) -> object:
    """Return an instance with these attributes, without calling anything of its class."""
    cls = class_named(part["class"])
    _add_defaults(cls, part["state"])
    state = {str(key): inner(entry) for key, entry in part["state"].items()}
    own = cls.__module__.startswith("buttress.")
    declared = {*attributes_of(cls), *parameters_of(cls)}
    for key in state:
        known = key in declared if own else key.isidentifier() and not key.startswith("__")
        if not known or callable(getattr(cls, key, None)):
            raise ModelFileError(f"The file sets {key!r} of {cls.__name__}, which is no attribute that it declares.")
    made: Any = object.__new__(cls)
    made.__dict__.update(state)
    for field in fields(cls) if is_dataclass(cls) else ():
        if field.name not in state and field.default_factory is not MISSING:
            made.__dict__[field.name] = field.default_factory()
    if own:
        check_state(made)
    else:
        _complete(made, state)
    return made


def _add_defaults(cls: Any, state: Json) -> None:
    """Put the defaults of parameters that came after the file was written into what it says; ModelFileError for others.
    """
    own = cls.__module__.startswith("buttress.") and (issubclass(cls, BaseEstimator) or is_dataclass(cls))
    for name, parameter in parameters_of(cls).items() if own else ():
        if name in state or name.startswith("_") or name in LEFT_OUT.get(cls.__name__, ()):
            continue
        if parameter.default is Parameter.empty or not isinstance(parameter.default, bool | int | float | str | None):
            raise ModelFileError(f"The file has no {name!r} of {cls.__name__}.")
        state[name] = parameter.default


def _complete(made: Any, state: Mapping[str, Any]) -> None:
    """Check of a class of scikit-learn what its code takes on trust, and make again what no file holds."""
    check_attributes(made, STATE_OF_SKLEARN, {})
    words = state.get("vocabulary_")
    if words is not None and sorted(int(place) for place in words.values()) != list(range(len(words))):
        raise ModelFileError(f"The vocabulary of {type(made).__name__} in the file does not number its words.")
    if "_trees" in state and type(made) in BOOSTED.values():
        regrow(made)
    if type(made) is IsotonicRegression and "X_thresholds_" in state:
        made._build_f(state["X_thresholds_"], state["y_thresholds_"])


def _objects(part: Json, inner: InnerDecoder) -> AnyArray:
    made: AnyArray = np.empty(len(part["objects"]), dtype=object)
    for place, entry in enumerate(part["objects"]):
        made[place] = inner(entry)
    return made.reshape([int(n) for n in part["shape"]])


def _csr(cls: Any, part: Json, inner: InnerDecoder) -> object:
    """Return a CSR matrix; ModelFileError for indices that point outside it.

    scipy's own check does not look at the row pointers of a matrix whose last one is 0, but its products follow them.
    """
    data, indices, indptr = (inner(entry) for entry in part[cls.__name__])
    n_rows, n_columns = (int(n) for n in part["shape"])
    whole_numbers = all(isinstance(index, np.ndarray) and index.dtype.kind == "i" for index in (indices, indptr))
    sound = whole_numbers and data.ndim == indices.ndim == indptr.ndim == 1 and len(indptr) == n_rows + 1
    sound = sound and indptr[0] == 0 and indptr[-1] == len(data) == len(indices) and bool((np.diff(indptr) >= 0).all())
    if not (sound and indices.min(initial=0) >= 0 and indices.max(initial=-1) < n_columns):
        raise ModelFileError("A sparse matrix in the file has indices that point outside it.")
    return cls((data, indices, indptr), shape=(n_rows, n_columns))


def _random_state(part: Json, inner: InnerDecoder) -> np.random.RandomState:
    """Return a generator; ModelFileError for a position outside its state, which numpy would follow out of it."""
    kind, words, position, has_gauss, gauss = inner(part["random_state"])
    sound = kind == "MT19937" and type(position) is int and 0 <= position <= WORDS_OF_STATE and has_gauss in (0, 1)
    sound = sound and isinstance(words, np.ndarray) and words.shape == (WORDS_OF_STATE,) and words.dtype == np.uint32
    if not (sound and np.any(words) and np.isfinite(gauss)):
        raise ModelFileError("A random generator in the file has a state that no generator has.")
    made = np.random.RandomState()
    made.set_state((kind, words, position, has_gauss, gauss))
    return made


def _spline(part: Json, inner: InnerDecoder) -> BSpline:
    """Return a spline; its constructor refuses knots and coefficients that do not fit together."""
    knots, coefficients, degree, extrapolate, axis = (inner(entry) for entry in part["spline"])
    if axis != 0:  # its constructor would turn the coefficients again each time
        raise ModelFileError(f"A spline in the file has axis {axis!r}. SplineTransformer makes splines along axis 0.")
    return BSpline(knots, coefficients, degree, extrapolate=extrapolate, axis=axis)


_READERS: dict[str, Callable[[Json, InnerDecoder], object]] = {
    "objects": _objects,
    "csr_matrix": lambda part, inner: _csr(csr_matrix, part, inner),
    "csr_array": lambda part, inner: _csr(csr_array, part, inner),
    "slice": lambda part, inner: slice(*(inner(entry) for entry in part["slice"])),
    "dtype": lambda part, inner: named_dtype(part["dtype"]),
    "type": lambda part, inner: named_dtype(part["type"]).type,
    "named": lambda part, inner: thing_named(part["named"]),
    "random_state": _random_state,
    "bunch": lambda part, inner: Bunch(**{str(key): inner(value) for key, value in part["bunch"]}),
    "spline": _spline,
}
