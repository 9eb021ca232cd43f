"""What the attributes of each class of this package look like: shapes, kinds of numbers, ranges, finiteness.

A row of ``SCHEMAS`` names the attributes of a class. ``"f[m,k]"`` is an array of m rows and k columns of finite floats;
the letters of one class stand for the same length everywhere, ``*`` for any. Without brackets it is one value.

====== =======================================================
f, x   floats: finite, any (also infinite and not a number)
p      floats of at least 0
i, n   integers, integers of at least 0
b, s   truth values, text
v      numbers, text or objects
@      an instance of a class of this package
None   None
====== =======================================================

Alternatives stand between bars; "None" and "list" are such values. ``"n:d"`` is a number of at least 0 that d stands
for. What has no row (parameters, which ``fit`` checks, and what only people read) is taken as it is.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse

from buttress.persistence.errors import ModelFileError

State = Mapping[str, Any]
Row = dict[str, str]

_WIDTH = {"n_features_in_": "n:d"}
_CLASSES = {"classes_": "v[c]"}
_RUN = {"n_iter_": "n", "converged_": "b"}
_OBJECTIVES = {"primal_objective_": "x|x[q]", "dual_objective_": "x|x[q]", "dual_gap_": "x|x[q]"}
_SCORED = {**_WIDTH, "expansion_": "@", "contrasts_": "f[c,*,q]"}
_ROWS = {"outlier_proba_": "x[r]", "weights_": "x[r]", "inlier_mask_": "b[r]", "agreement_": "x[r]",
         "row_keys_": "x[r]", "scale_": "x", "contamination_": "x", "contamination_interval_": "x[2]", "n_iter_": "n"}
_MACHINE = {**_WIDTH, **_RUN, **_OBJECTIVES, "support_": "n[s]", "support_vectors_": "f[s,d]", "dual_coef_": "f[*,s]",
            "intercept_": "f[q]", "expansion_": "@", "_start_size": "n", "_start_rows": "n[t]", "_start_coef": "f[t,q]",
            "n_negative_curvature_": "n", "n_kernel_rows_": "p"}
_BALL = {"n_features_in_": "n", **_RUN, "support_": "n[s]", "support_vectors_": "f[s,*]|f[*,s,*]",
         "dual_coef_": "p[1,s]", "expansion_": "@", "center_norm2_": "f", "radius_": "p", "offset_": "f",
         "primal_objective_": "f", "dual_objective_": "f", "dual_gap_": "x", "loo_distance2_": "x[r]",
         "loo_weight_": "p[r]"}
_LINEAR_ROWS = {**_WIDTH, "coef_": "f[d]", "intercept_": "f", "inlier_mask_": "b[r]", "n_iter_": "n"}
_DESCENT = {**_WIDTH, **_RUN, "expansion_": "@", "dual_coef_": "f[m]|f[m,k]", "weights_": "x[r]",
            "inlier_mask_": "b[r]", "objective_": "x"}

SCHEMAS: dict[str, Row] = {
    "AdversarialLinearSVC": {**_SCORED, **_CLASSES, "coef_": "f[q,d]", "intercept_": "f[q]",
                             "primal_objective_": "x[q]", "dual_gap_": "x[q]", "n_iter_": "n"},
    "AdvSVM": {**_SCORED, **_CLASSES, "norm_": "x[q]", "natural_C_": "x[q]", "dual_gap_": "x[q]",
               "gradient_noise_": "x[q]", "gradient_signal_": "x[q]", "feature_radius_": "p", "n_iter_": "n"},
    "AdversarialClassifier": {**_WIDTH, **_CLASSES, "estimator_": "@", "chosen_": "s"},
    "AdversarialSVC": {**_SCORED, **_CLASSES, "landmarks_": "f[m,d]", "n_iter_": "n"},
    "CRR": {**_LINEAR_ROWS, "correction_": "f[r]", "objective_": "x"},
    "Calibration": {"slope": "f[k]", "shift": "f[k]", "n_classes": "n", "pairs": "b", "rows": "p"},
    "CertifiedSVC": {**_SCORED, **_CLASSES, "landmarks_": "f[m,d]", "certified_margin_": "x[*]", "n_iter_": "n"},
    "HeldOut": {"scores": "x[r,*]", "codes": "n[r]", "weight": "p[r]", "n_classes": "n", "pairs": "b", "wrong": "x"},
    "HeldOutFits": {"coef": "f[m,k]", "intercept": "f[k]", "fold": "i[r]", "distance": "x[r]", "weight": "p[r]",
                    "least": "p"},
    "KernelClassifier": {**_DESCENT, **_CLASSES, "contrasts_": "f[c,*,*]"},
    "KernelExpansion": {"kernel": "@", "centers": "f[m,*]", "coef": "f[m,k]", "intercept": "f[k]",
                        "linear": "None|f[*,k]"},
    "KernelRegressor": {**_DESCENT, "intercept_": "f"},
    "LeftOut": {"scores": "x[r,k]", "codes": "n[r]", "weight": "p[r]", "support": "n[s]", "coef": "f[s,k]",
                "free": "b[s,k]", "first": "i[r]", "spans": "None|x[s,k]", "done": "b"},
    "LinearSVC": {**_WIDTH, **_CLASSES, **_RUN, **_OBJECTIVES, "coef_": "f[q,d]", "intercept_": "f[q]",
                  "dual_coef_": "f[q,*]", "_lam": "p"},
    "MMEstimate": {"coef": "f[p]", "covariance": "x[p,p]", "scale": "p", "weights": "p[r]", "freedom": "i"},
    "MultiKernelSVDD": {**_BALL, "kernel_weights_": "p[m]", "mixing_": "p[m]", "kernel_scales_": "p[m]",
                        "kernel_variances_": "x[m]", "bound_coef_": "p[r]", "n_solved_": "n"},
    "NystroemMap": {"kernel": "@", "landmarks": "f[m,*]", "root": "f[m,*]"},
    "PerClass": {"codes": "n[r]"},
    "RandomExpansion": {"features": "@", "coef": "f[*,*,k]", "intercept": "f[k]"},
    "RandomFeatures": {"kernel": "@", "width": "n", "size": "n", "seed": "n"},
    "Rate": {"first": "p", "decay": "p", "intercept": "p"},
    "RelationalLinearSVC": {"n_features_in_": "n", **_CLASSES, "alpha_": "p", "intercept_": "f[1]", "coef_": "f[1,w]",
                            "beta_": "f[*]", "dual_bound_": "x", "gap_": "x", "n_oracle_calls_": "n",
                            "n_join_rows_": "n", "coef_names_": "v[w]", "n_iter_": "n", "converged_": "b"},
    "RobustKernelClassifier": {**_SCORED, **_CLASSES, **_ROWS, "loo_score_": "x[r]", "loo_proba_": "x[r,c]",
                               "isolated_": "b[r]", "confusion_": "x[c,c]", "alpha_": "p"},
    "RobustKernelRegressor": {**_WIDTH, **_ROWS, "expansion_": "@", "intercept_": "f", "loo_residual_": "x[r]",
                              "loo_sigma_": "x[r]", "alpha_": "p"},
    "RobustLinearRegressor": {**_WIDTH, **_ROWS, "coef_": "f[d]", "intercept_": "f", "loo_residual_": "x[r]",
                              "loo_sigma_": "x[r]", "mm_": "None|@"},
    "STIR": {**_LINEAR_ROWS, "scale_": "p"},
    "SVC": {**_MACHINE, **_CLASSES, "contrasts_": "f[c,*,q]", "n_support_": "n[c]"},
    "SVDD": _BALL,
    "SVR": {**_MACHINE, "_judged": "n[j]", "_judged_targets": "f[j]", "_judged_rows": "None|f[j,d]"},
    "SeverClassifier": {**_WIDTH, **_CLASSES, "inlier_mask_": "b[r]", "n_iter_": "n", "estimator_": "@"},
    "SeverRegressor": {**_WIDTH, "inlier_mask_": "b[r]", "n_iter_": "n", "estimator_": "@"},
    "SpectrumCorrected": {"landmarks": "None|f[m,*]", "vectors": "f[*,*]", "known": "None|f[*,*]"},
    "SuffixMean": {"added": "n", "size": "n", "young_size": "n", "total": "f[w]", "young": "f[w]"},
    "TrimmedLikelihoodClassifier": {**_LINEAR_ROWS, **_CLASSES},
    "TrimmedLikelihoodRegressor": _LINEAR_ROWS,
    "Walk": {"v": "f[d]", "carry": "f[5]"},
}
_OF_SKLEARN: Row = {  # where scikit-learn's classes have such attributes at all
    **_WIDTH, "classes_": "v[*]|list", "coef_": "f[*]|f[*,d]|list", "components_": "f[*,d]", "mean_": "None|f[d]",
    "var_": "None|f[d]|f[*,d]", "scale_": "None|f[d]|f", "intercept_": "f|f[*]|list"}
_PATTERN = re.compile(r"([fxpinbsv@])(?:\[([^\]]*)\])?(?::(\w))?")
_KINDS = {"f": "fiu", "x": "fiu", "p": "fiu", "i": "iu", "n": "iu", "b": "b", "v": "biufUO", "s": "U"}
_TYPES: dict[str, tuple[type, ...]] = {
    "f": (float, int, np.floating, np.integer), "x": (float, int, np.floating, np.integer),
    "p": (float, int, np.floating, np.integer), "i": (int, np.integer), "n": (int, np.integer), "b": (bool, np.bool_),
    "s": (str,)}


def check_state(cls: type, state: State) -> None:
    """Check the attributes of one instance of a class, and that its parts belong together.

    Raises
    ------
    ModelFileError
        Naming the class, the attribute, what it must look like, and what it is.
    """
    lengths: dict[str, int] = {}
    name = cls.__name__
    own = cls.__module__.startswith("buttress.")
    for attribute, row in (SCHEMAS.get(name, {}) if own else _OF_SKLEARN).items():
        if attribute in state and not any(_fits(one, state[attribute], lengths) for one in row.split("|")):
            raise ModelFileError(f"{name}.{attribute} in the file is {_said(state[attribute])}. Expected {row} "
                                 f"with {lengths or 'any lengths'} (see buttress.persistence.schema).")
    for holds, said in _TOGETHER.get(name, ()) if own else ():
        if not holds(state):
            raise ModelFileError(f"{name} in the file: {said}.")


def _fits(row: str, value: Any, lengths: dict[str, int]) -> bool:
    """Say whether a value is what one alternative of a row says; learns the lengths of letters."""
    if row in ("None", "list"):
        return value is None if row == "None" else isinstance(value, list)
    parsed = _PATTERN.fullmatch(row)
    assert parsed is not None, row
    kind, shape, letter = parsed.groups()
    if kind == "@":
        return hasattr(value, "__dict__") and type(value).__module__.startswith(("buttress.", "sklearn."))
    if shape is not None:
        return _fits_array(kind, shape.split(","), value, lengths)
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "b"):
        return False
    number: Any = value
    if letter is not None and lengths.setdefault(letter, int(number)) != number:
        return False
    return kind in "bs" or _in_range(kind, np.asarray(float(number)))


def _fits_array(kind: str, shape: Sequence[str], value: Any, lengths: dict[str, int]) -> bool:
    """Say the same of an array, dense or sparse; the lengths of letters are learnt only if everything fits."""
    if not (isinstance(value, np.ndarray) or issparse(value)) or len(value.shape) != len(shape):
        return False
    known = dict(lengths)
    for letter, length in zip(shape, value.shape, strict=True):
        if letter != "*" and (int(letter) if letter.isdigit() else known.setdefault(letter, length)) != length:
            return False
    numbers = value if isinstance(value, np.ndarray) else value.data
    if value.dtype.kind not in _KINDS[kind] or (kind not in "bv" and not _in_range(kind, numbers)):
        return False
    lengths.update(known)
    return True


def _in_range(kind: str, numbers: Any) -> bool:
    numbers = np.asarray(numbers)
    return bool((kind in "xi" or np.isfinite(numbers).all()) and (kind not in "pn" or (numbers >= 0).all()))


def _said(value: Any) -> str:
    if isinstance(value, np.ndarray) or issparse(value):
        return f"an array of shape {value.shape} and type {value.dtype}"
    return f"{str(value)[:40]!r}, a {type(value).__name__}"


def _same_width(state: State) -> bool:
    """Say whether the rows that an expansion takes are as wide as those the model was fitted to."""
    scores = state.get("expansion_")
    if scores is None:
        return True
    features = getattr(scores, "features", None)
    if features is not None:
        return bool(features.width == state["n_features_in_"])
    by_number = getattr(scores.kernel, "known", None) is not None or type(scores.kernel).__name__ == "Precomputed"
    return by_number or scores.centers.shape[1] == state["n_features_in_"] or type(scores.kernel).__name__ not in _PLAIN


def _scores_meet_contrasts(state: State) -> bool:
    if "contrasts_" not in state or "expansion_" not in state:
        return True
    return bool(state["contrasts_"].shape[2] == state["expansion_"].coef.shape[-1])


def _kernel_is_sound(state: State) -> bool:
    """Say whether the kernel's own check of its parameters passes."""
    try:
        return isinstance(state["kernel"].definiteness, str)
    except ValueError:
        return False


def _walks_meet_width(state: State) -> bool:
    d = state.get("n_features_in_", 0)
    return all(len(walk.v) == d and len(mean.total) == d + 1 for walk, mean in state.get("_walks", ()))


_PLAIN = ("Cauchy", "InverseMultiquadric", "Laplacian", "Linear", "Log", "MultiscaleRBF", "Polynomial", "RBF",
          "Sigmoid")  # kernels of rows as they are given
Check = tuple[Callable[[State], bool], str]
_EXPANDED: tuple[Check, ...] = ((_same_width, "the expansion is of rows of another width"),
                                (_scores_meet_contrasts, "the contrasts are of another number of scores"))
_SOUND: tuple[Check, ...] = ((_kernel_is_sound, "the kernel's parameters are out of range"),)
_TOGETHER: dict[str, tuple[Check, ...]] = {
    **{name: _EXPANDED for name, row in SCHEMAS.items() if "expansion_" in row},
    "KernelExpansion": _SOUND,
    "NystroemMap": _SOUND,
    "RandomFeatures": _SOUND,
    "RandomExpansion": ((lambda state: state["features"].size == state["coef"].shape[1],
                         "the coefficients are of another number of features"),),
    "LinearSVC": ((_walks_meet_width, "the descent stands at weights of another width"),),
}
