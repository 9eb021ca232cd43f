"""SVDD and MultiKernelSVDD: R^2 + sum_i hi_i max(0, d_i^2 - R^2), d_i the distance of row i to the centre.

The dual is max diag(K)'a - a'Ka over 0 <= a <= hi of sum 1. As R^2 >= 0 costs nothing, sum(a) = s <= 1 will do, with
a'Ka / s in place of a'Ka. With d_i those of the model itself and c* = sum_i a_i phi(x_i) / s,

    primal(model) - dual(a) = sum_i hi_i max(0, d_i^2 - R^2) - a_i (d_i^2 - R^2)  +  (1 - s) R^2  +  s |c - c*|^2.
"""

import math
from typing import Any

import numpy as np

from .core import WIDER, Array, Claim, Model, Real, U, only, same, within
from .gaps import LossProgram, objectives
from .kernels import described, diagonal, sums
from .machines import OF_ALL

OF_BALLS = OF_ALL + "nu contamination degree gamma coef0 indefinite cache_size support_ support_vectors_ dual_coef_ " \
    "radius_ center_norm2_ loo_scores_ loo_weight_ offset_ kernel_ expansion_ _fit_diagonal "
ATTRIBUTES = {
    "SVDD": OF_BALLS + "kernel",
    "MultiKernelSVDD": OF_BALLS + "kernels objective normalize weights kernel_weights_ mixing_ kernel_scales_ "
                                  "kernel_variances_ kernels_ bound_coef_ n_solved_"}
BELOW = 1 - 4 * U  # what up to three roundings cannot bring to 1
ALIKE = 1e-9  # share of the threshold by which sums of the model's distances may be off


def problem(model: Model) -> Model:
    """Return the problem that a model states; ValueError for what no proof knows."""
    only(model, ATTRIBUTES[model["class"]])
    only(model["expansion_"], "kernel centers coef intercept linear")
    share = model["contamination"]
    share = share if share in (None, "auto") else float(share)
    found = {"model": model["class"], "nu": float(model["nu"]), "contamination": share}
    if not 0 < found["nu"] <= 1:
        raise ValueError("nu is no share of rows.")
    if model["class"] == "SVDD":
        return found | {"kernel": described(model["kernel_"])}
    learned = "bound_coef_" in model
    weights = None if learned or model.get("weights") is None else np.ravel(model["kernel_weights_"]).tolist()
    return found | {"kernels": [described(part) for part in model["kernels_"]], "objective": model["objective"],
                    "normalize": model["normalize"], "weights": weights, "over all weights": learned}


def reached(part: Model, X: Array, a: Array, hi: Array) -> float:
    """Return a value that the dual reaches at a point of the box near a, and so a lower bound of the ball's cost."""
    rows = np.flatnonzero(a)
    b, Z = inside(a, hi)[rows], X[rows]
    product = sums(part, Z, Z, b[:, None])[0].each(np.ravel)
    spread = diagonal(part, Z) @ b - Real(b) @ product * (1 / (math.fsum(b) * BELOW))
    return float(spread.low)


def inside(a: Array, hi: Array) -> Array:
    """Return a in its box, with a sum of at most 1."""
    b = np.clip(a, 0, hi * BELOW)
    return b * (BELOW / max(BELOW, math.fsum(b)))


def ball(model: Model, X: Array, y: Any, weight: Array) -> list[Claim]:
    """Return the claims of a ball, and of a mixture those of its scales and its lower bound over all weights."""
    stated, held, support = problem(model), model["expansion_"], np.asarray(model["support_"])
    rows, mixture = X[support], model["class"] == "MultiKernelSVDD"
    part = described(model["kernel_"])
    double = held["coef"].dtype == held["intercept"].dtype == np.float64
    once = len(np.unique(support)) == len(support) and np.isin(support, np.arange(len(X))).all()
    found = same((once, True), (double, True), (held.get("linear"), None),
                 (rows, model["support_vectors_"]), (held["centers"], rows), (held["coef"].T, model["dual_coef_"]),
                 (described(held["kernel"]), part), (held["intercept"], [0.0]))
    if not all(claim.holds for claim in found):
        return found
    a = np.zeros(len(X))
    a[support] = np.ravel(model["dual_coef_"])
    hi, R2 = weight / (stated["nu"] * math.fsum(weight)), Real(float(model["radius_"])) * float(model["radius_"])
    K, largest = sums(part, X, rows, held["coef"])
    product = K.each(np.ravel)
    norm2 = Real(a) @ product
    d2 = diagonal(part, X) - product * 2 + norm2
    losses = LossProgram(d2 - R2, np.zeros(len(a)), hi)
    b = inside(a, hi)
    total = math.fsum(b)
    apart = float(np.abs(a - b / total).sum()) ** 2 * largest * WIDER
    gap = losses.gap(b) + (1 - total) * float(R2.high) + apart
    primal = R2 + losses.total()
    scale = float(np.abs(d2.v).max())
    found += within("norm of the centre, squared", float(model["center_norm2_"]), norm2.low, norm2.high, ALIKE * scale)
    found += threshold(model, part, d2, a, weight, float(R2.v), ALIKE * scale)
    high = float(primal.high)
    most = high - mixed(model, X, hi, stated) if mixture and stated["over all weights"] else gap
    if mixture:
        found += weights(model, stated, X, weight)
    return found + objectives("", model, 0, primal, gap, most)


def threshold(model: Model, part: Model, d2: Real, a: Array, weight: Array, R2: float, room: float) -> list[Claim]:
    """Return the claim that the offset is the one that follows from the distances.

    It is minus R^2 and the violation of the optimality conditions (max d^2 of rows below their bound less min d^2 of
    the support vectors). With "auto" it is between the tenth of the rows farthest out and the others, with a number as
    ``contamination`` minus the largest distance of a row left out, d^2 / (1 - a)^2, whose share of rows at least as far
    exceeds it. Scores in logarithms are log f with f = (k + |c|^2 - d^2) / 2, of a row left out (f - a k) / (1 - a).
    """
    kept, room, offset = weight > 0, room + float(d2.e.max()), -float(model["offset_"])
    logs = in_logs(part)
    k = float(diagonal(part, model["support_vectors_"][:1]).v.item())
    total = k + float(model["center_norm2_"])
    if model["contamination"] is None:
        open_ = kept & (a < weight / (float(model["nu"]) * weight.sum()) * (1 - 1e-12))
        violation = max(0.0, d2.v[open_].max(initial=-math.inf) - d2.v[a > 0].min())
        offset = total - 2 * math.exp(-offset) if logs else offset
        return within("offset", offset, R2 + violation, R2 + violation, room)
    share = weight[kept] / weight.max()
    counts = share * (share.sum() / (share @ share))
    if model["contamination"] == "auto":
        far = np.argsort(-d2.v[kept], kind="stable")
        value = d2.v[kept][far]
        first = value[np.searchsorted(np.cumsum(counts[far]), 0.1 * counts.sum() * (1 + 1e-9), side="right")]
        outer = value[value > first + room].min(initial=np.inf)
        return within("offset", total - 2 * math.exp(-offset) if logs else offset, first, outer, room)
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where(a < 1, d2.v / (1 - a) ** 2, np.inf)[kept]
        left_out = k - ((total - d2.v) / 2 - a * k)[kept] / (1 - a[kept]) if logs else far
    offset = k - math.exp(-offset) if logs else offset
    order = np.argsort(-left_out, kind="stable")
    p = (1 + np.cumsum(counts[order])) / (1 + counts.sum())
    found = left_out[order][(p > float(model["contamination"]) * (1 + 1e-12)).argmax()]
    return within("offset", offset, found, found, room + ALIKE * float(found))


def in_logs(part: Model) -> bool:
    """Say whether scores are logarithms: those of kernels whose values are positive and alike where rows are equal."""
    if part["class"] == "Combination":
        return all(in_logs(inner) for inner, w in zip(part["kernels"], part["weights"], strict=True) if w > 0)
    return part["class"] in ("RBF", "Laplacian", "Cauchy", "InverseMultiquadric", "MultiscaleRBF")


def weights(model: Model, stated: Model, X: Array, weight: Array) -> list[Claim]:
    """Return the claims that the kernel of a mixture is made of the stated kernels, scales and weights."""
    eta, scales, joint = model["kernel_weights_"], model["kernel_scales_"], stated["objective"] == "joint"
    part, sizes = described(model["kernel_"]), np.sqrt(eta) if joint else eta
    found = same((part["weights"], eta / scales), (part["kernels"], stated["kernels"]))
    if stated["normalize"] == "variance" and len(scales) > 1:
        share = weight / weight.sum()
        for p, source in enumerate(stated["kernels"]):
            scale = reached(source, X, share, np.ones(len(X)))
            found += within(f"scale of kernel {p}", float(scales[p]), scale, scale, ALIKE * scale)
    elif not np.array_equal(scales, np.ones(len(scales))):
        found += same((scales, np.ones(len(scales))))
    return found + within("sum of the weights", float(np.sum(sizes)), 1.0, 1.0, ALIKE)


def mixed(model: Model, X: Array, hi: Array, stated: Model) -> float:
    """Return a lower bound of the cost of the ball over all weights of the kernels."""
    cuts = [reached(source, X, model["bound_coef_"], hi) / scale * BELOW
            for source, scale in zip(stated["kernels"], model["kernel_scales_"], strict=True)]
    joint = stated["objective"] == "joint" and min(cuts) > 0
    return float(BELOW / math.fsum(1 / cut for cut in cuts) if joint else min(cuts))
