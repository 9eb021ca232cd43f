"""SVC, SVR and LinearSVC: min |w|^2 / 2 + sum_i C_i L(p_i - w'phi(x_i) - intercept), at what ``predict`` computes.

L(r) is max(0, |r| - l1) for numbers p; for signs p it is max(0, pr), or its square. The dual is max p'b - l1 |b|_1 -
b'Kb / 2 (for squares less sum b_i^2 / 4 C_i) over b between lo and hi, of sum 0 where the intercept is free. With r the
residuals of the model itself and any such b,

    primal(model) - dual(b) = sum_i loss_i(r_i) - b_i r_i + l1 |b_i|  +  |w - sum_i b_i phi(x_i)|^2 / 2

so the gap is a sum over rows, none below 0, and what rounding adds to both objectives alike is not in it.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .core import WIDER, Array, Claim, Model, Real, U, only, same
from .gaps import LossProgram, balanced, objectives
from .kernels import described, sums

OF_ALL = "n_features_in_ feature_names_in_ _sklearn_output_config converged_ history_ n_iter_ tol max_iter max_time " \
         "progress primal_objective_ dual_objective_ dual_gap_ proof_ "
OF_MACHINES = OF_ALL + "C kernel degree gamma coef0 gap cache_size solver indefinite warm_start device checkpoint " \
    "resume shrinking verbose n_support_ n_kernel_rows_ n_negative_curvature_ expansion_ _left_out _start_size " \
    "_start_rows _start_coef support_ support_vectors_ dual_coef_ intercept_ "
OF_CLASSIFIERS = "class_weight classes_ _certainty "
ATTRIBUTES = {
    "SVC": OF_MACHINES + OF_CLASSIFIERS + "multi_class decision_function_shape break_ties contrasts_ C_ "
                                          "gamma_ class_weight_ probability random_state",
    "SVR": OF_MACHINES + "epsilon held_out_ _judged _judged_targets _judged_rows",
    "LinearSVC": OF_ALL + OF_CLASSIFIERS + "C loss solver schedule eta0 decay average fit_intercept random_state coef_ "
                                           "intercept_ dual_coef_ _walks _rng _lam _steps penalty dual "
                                           "intercept_scaling multi_class verbose"}


def problem(model: Model) -> Model:
    """Return the problem that a model states, in plain numbers and text; ValueError for what no proof knows."""
    only(model, ATTRIBUTES[model["class"]])
    C = float(model["C_"] if model["C"] == "loo" else model["C"])
    if not 0 < C < math.inf or model.get("device") is not None:
        raise ValueError("A hard margin, and scores computed on a device, make no claim that is checked here.")
    if (model.get("penalty", "l2"), model.get("multi_class", "ovr")) not in (("l2", "ovr"), ("l2", "ovo")):
        raise ValueError("The sparse machine, and the joint one of all classes, have no proof here.")
    found: Model = {"model": model["class"], "C": C}
    if model["class"] == "LinearSVC":
        found |= {"loss": model["loss"], "fit_intercept": bool(model["fit_intercept"])}
    else:
        only(model["expansion_"], "kernel centers coef intercept linear")
        found["kernel"] = described(model["expansion_"]["kernel"])
    if model["class"] == "SVR":
        return found | {"epsilon": float(model["epsilon"])}
    classes = np.asarray(model["classes_"]).tolist()
    pairs = model["class"] == "SVC" and len(classes) > 2 and model["multi_class"] != "ovr"
    given = model["class_weight"]
    given = {str(label): float(factor) for label, factor in given.items()} if isinstance(given, dict) else given
    return found | {"class_weight": given, "classes": classes, "pairs of classes": pairs}


def same_label(label: Any) -> Any:
    """Return a label so that the same one in a file and in a table of text are equal; whole numbers of any length.

    One called "nan" is a text: the number is not equal to itself.
    """
    text = str(label)
    for kind in (int, float):
        try:
            found = kind(text)
        except ValueError:
            continue
        return text if found != found else found
    return text


def told_apart(classes: list[Any], y: Any) -> Array:
    """Return the number of the class of each label."""
    numbers = {same_label(label): code for code, label in enumerate(classes)}
    if len(numbers) < len(classes):
        raise ValueError("Two classes have the same label.")
    return np.array([numbers[same_label(label)] for label in y])


def programs(stated: Model, y: Any, weight: Array) -> list[tuple[Array, Array, Array]]:
    """Return for each program the targets of all rows (signs of classes), and the bounds lo and hi of its dual."""
    C = stated["C"] * weight
    if stated["model"] == "SVR":
        return [(np.array(y, dtype=float), -C, C)]
    classes = stated["classes"]
    codes, k = told_apart(classes, y), len(classes)
    given = stated["class_weight"] or {}
    if given == "balanced":
        C = C * (weight.sum() / (k * np.bincount(codes, weight, k)))[codes]
    else:
        each = {same_label(label): factor for label, factor in given.items()}
        C = C * np.array([each.get(same_label(label), 1.0) for label in classes])[codes]
    sides: list[tuple[int, Any]] = [(one, [i for i in range(k) if i != one]) for one in (range(k) if k > 2 else [1])]
    if stated["pairs of classes"]:
        sides = [(i, [j]) for i, j in itertools.combinations(range(k), 2)]
    found = []
    for one, others in sides:
        first, second = codes == one, np.isin(codes, others)
        found.append((np.where(first, 1.0, -1.0), np.where(second, -C, 0.0), np.where(first, C, 0.0)))
    return found


def copies(model: Model, X: Array, stated: Model) -> list[Claim]:
    """Return the claim that all parts of a kernel machine's file say the same, and what the data say."""
    held, support = model["expansion_"], np.asarray(model["support_"])
    one, other = (np.sort(part[part != 0]) for part in (held["coef"], model["dual_coef_"]))
    double = all(held[name].dtype == np.float64 for name in ("coef", "intercept"))
    pairs = [(double, True), (held.get("linear"), None), (X[support], model["support_vectors_"]),
             (held["centers"], model["support_vectors_"]), (held["intercept"], model["intercept_"]), (one, other)]
    if model["class"] == "SVC":
        pairs.append((model["contrasts_"], contrasts(len(stated["classes"]), pairs=stated["pairs of classes"])))
    return same(*pairs)


def contrasts(k: int, *, pairs: bool) -> Array:
    """Return the leads of each class over its rivals as sums of the scores, (k, rivals, scores)."""
    if k == 2:
        return np.array([[[-1.0]], [[1.0]]])
    if not pairs:
        return np.array([[np.eye(k)[i] - np.eye(k)[j] for j in range(k) if j != i] for i in range(k)])
    found = np.zeros((k, k - 1, k * (k - 1) // 2))
    for column, (i, j) in enumerate(itertools.combinations(range(k), 2)):
        found[i, j - 1, column], found[j, i, column] = 1.0, -1.0
    return found


def machine(model: Model, X: Array, y: Any, weight: Array) -> list[Claim]:
    """Return the claims of SVC and SVR: with K their kernel, w = sum_j coef_j phi(x_j)."""
    stated, held = problem(model), model["expansion_"]
    if model["support_vectors_"].dtype == np.float32:
        X = X.astype(np.float32).astype(X.dtype)
    found = copies(model, X, stated)
    if not all(claim.holds for claim in found):
        return found
    point = StatedMachine(model["support_"], held["coef"], held["intercept"])
    for q, (_, _, gap, primal) in enumerate(measured(stated, X, y, weight, point)):
        found += objectives(f" {q}", model, q, primal, gap, gap)
    return found


class StatedMachine(NamedTuple):
    """What a kernel machine predicts with: rows of the data, their coefficients (m, k), and k intercepts."""

    support: Array
    coef: Array
    intercept: Array


def measured(
    stated: Model, X: Array, y: Any, weight: Array, at: StatedMachine
) -> Iterator[tuple[LossProgram, Array, float, Real]]:
    """Yield of each program its losses, the coefficients of all rows, an upper bound of the gap, and the primal value.

    ValueError for a point that names a row twice or none of the data, or has not one score a program.
    """
    asked, known = programs(stated, y, weight), np.isin(at.support, np.arange(len(X))).all()
    if at.coef.shape != (len(np.unique(at.support)), len(asked)) or len(at.intercept) != len(asked) or not known:
        raise ValueError("The point is none of these programs: of other rows, or with other scores.")
    f, largest = sums(stated["kernel"], X, X[at.support], at.coef)
    for q, (p, lo, hi) in enumerate(asked):
        b = np.zeros(len(X))
        b[at.support] = at.coef[:, q]
        scores = Real(f.v[:, q], f.e[:, q])
        losses = LossProgram(Real(p) - scores - float(at.intercept[q]), lo, hi, stated.get("epsilon", 0.0))
        point = balanced(b, lo, hi)
        apart = float(np.abs(b - point).sum()) ** 2 / 2 * largest * WIDER
        yield losses, b, losses.gap(point) + apart, Real(b) @ scores * 0.5 + losses.total()


def hyperplane(model: Model, X: Array, y: Any, weight: Array) -> list[Claim]:
    """Return the claims of LinearSVC, whose file holds w, the intercept and b."""
    stated = problem(model)
    squared, free = stated["loss"] == "squared_hinge", stated["fit_intercept"]
    double = model["coef_"].dtype == model["intercept_"].dtype == np.float64
    found = same((double, True), (free or not np.any(model["intercept_"]), True))
    for q, (p, lo, hi) in enumerate(programs(stated, y, weight)):
        w = Real(model["coef_"][q])
        losses = LossProgram(Real(p) - Real(X) @ w - float(model["intercept_"][q]), lo, hi, squared=squared)
        b = balanced(model["dual_coef_"][q], *losses.box()) if free else np.clip(model["dual_coef_"][q], *losses.box())
        away = X - np.median(X, axis=0) * free  # b sums to 0 then
        apart = w - Real(away.T, U * np.abs(away.T)) @ b
        gap = losses.gap(b) + float((apart @ apart * 0.5).high)
        found += objectives(f" {q}", model, q, w @ w * 0.5 + losses.total(), gap, gap)
    return found
