"""Prove again, from a model file and its data, what the model claims; needs numpy and nothing of this package.

    python -m buttress.verify model.buttress data.csv [--target y] [--weights w] [--radii rows.csv]
    python -m buttress.verify model.buttress --table loan=loan.csv --table person=person.csv --on loan.who=person.id \
--target bad

Every number is a value with a bound of its error (Near): a sum of n terms errs by n roundings, numpy's exp, log and
powers by 8. So the upper bound of the primal objective and the lower bound of the dual one hold for the real numbers.
Proven are the gaps of SVC, SVR, LinearSVC, SVDD and MultiKernelSVDD, l2 radii of the rows of ``--radii`` (their column
``radius``, or the largest found) and the interval of a RelationalLinearSVC (mean hinge loss, a join of some thousand
rows). A claim is (what, stated, proven, whether it holds). Exit code: 0 proven, 1 not proven, 2 cannot be checked.
"""

import argparse
import csv
import hashlib
import json
import math
import struct
import sys
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

U = 2.0**-53  # one rounding
WIDER = 1.01  # bounds of errors are multiplied by this, for their own rounding
ROUNDED = 1e-9  # share by which a stated objective may be off: it was rounded, not bounded
SWEEPS = 400  # over the rows of a join, to find a lower bound
Array = NDArray[Any]
Model = dict[str, Any]
Claims = list[tuple[str, float, float, bool]]
Columns = dict[str, list[str]]


class Near:
    """Values and bounds of their errors."""

    def __init__(self, v: "Array | float", e: "Array | float" = 0.0):
        self.v: Array = np.asarray(v, dtype=np.float64)
        self.e: Array = np.broadcast_to(np.asarray(e, dtype=np.float64) * WIDER, self.v.shape)
        self.low = self.v - self.e - U * np.abs(self.v)
        self.high = self.v + self.e + U * np.abs(self.v)

    def __add__(self, other: "Near | Array | float") -> "Near":
        v = self.v + near(other).v
        return Near(v, self.e + near(other).e + U * np.abs(v))

    def __mul__(self, other: "Near | Array | float") -> "Near":
        v, e = near(other).v, near(other).e
        return Near(self.v * v, self.e * (np.abs(v) + e) + np.abs(self.v) * e + U * np.abs(self.v * v) + 1e-300)

    def __matmul__(self, other: "Near | Array") -> "Near":
        v, e = near(other).v, near(other).e
        each = (self.v.shape[-1] + 2) * U * (np.abs(self.v) @ np.abs(v)) + 1e-300
        return Near(self.v @ v, self.e @ (np.abs(v) + e) + np.abs(self.v) @ e + each)

    def plus(self) -> "Near":
        return Near(np.maximum(self.v, 0), self.e)


def near(value: "Near | Array | float") -> Near:
    return value if isinstance(value, Near) else Near(value)


def diagonal(K: Near) -> Near:
    return Near(np.diagonal(K.v), np.diagonal(K.e))


def read_model(path: str) -> Model:
    """Return the model of a file of format 2: dicts with "class" and attributes, lists, arrays, numbers and text."""
    with open(path, "rb") as file:
        content = file.read()
    if hashlib.sha256(content[:-32]).digest() != content[-32:] or content[:8] != b"BUTTRESS" or content[8] != 2:
        raise ValueError(f"{path} is no model file of format 2, or was changed: its SHA-256 is wrong.")
    length = struct.unpack_from("<Q", content, 12)[0]
    header = json.loads(content[20 : 20 + length])
    arrays = [np.frombuffer(content, entry["dtype"], math.prod(entry["shape"]), 20 + length + entry["start"])
              .reshape(entry["shape"]) for entry in header["arrays"]]

    def plain(part: Any) -> Any:
        if not isinstance(part, dict):
            return [plain(entry) for entry in part] if isinstance(part, list) else part
        if "class" in part:
            return {"class": part["class"], **{key: plain(entry) for key, entry in part["state"].items()}}
        kind = next(iter(part))
        readers: dict[str, Callable[[Any], Any]] = {
            "array": lambda i: arrays[i], "scalar": lambda i: arrays[i][()], "tuple": plain, "float": float,
            "objects": plain, "dict": lambda pairs: {plain(key): plain(entry) for key, entry in pairs}}
        return readers[kind](part[kind]) if kind in readers else part

    return dict(plain(header["model"]))


def kernel(part: Model, X: Array, Z: Array) -> Near:
    """Return k(x_i, z_j) for a kernel as the file describes it."""
    if part["class"] == "Combination":
        weights = part["weights"] or [1 / len(part["kernels"])] * len(part["kernels"])
        terms = [kernel(inner, X, Z) * w for inner, w in zip(part["kernels"], weights, strict=True) if w > 0]
        return sum(terms[1:], terms[0])
    if part["class"] in ("Linear", "Polynomial"):
        base = Near(X) @ Z.T * part.get("gamma", 1.0) + part["coef0"]
        degree = part.get("degree", 1)
        if degree not in range(1, 20) or part["coef0"] < 0:
            raise ValueError("The kernel is not positive definite: its claims are none that can be checked.")
        power = base
        for _ in range(int(degree) - 1):
            power = power * base
        return power
    r2 = sum((np.subtract.outer(X[:, k], Z[:, k]) ** 2 for k in range(X.shape[1])), np.zeros((len(X), len(Z))))
    return profile(part, Near(r2, (X.shape[1] + 4) * 2 * U * r2))


def profile(part: Model, t: Near) -> Near:
    """Return F of a squared distance, for kernels that fall as it grows, from F at both ends of what t may be."""
    name = part["class"]
    shapes = {
        "RBF": lambda r2: np.exp(-part["gamma"] * r2), "Laplacian": lambda r2: np.exp(-part["gamma"] * np.sqrt(r2)),
        "MultiscaleRBF": lambda r2: np.mean([np.exp(-gamma * r2) for gamma in part["gammas"]], axis=0),
        "InverseMultiquadric": lambda r2: (r2 + part["offset"] ** 2) ** -0.5,
        "Cauchy": lambda r2: 1 / (1 + part["gamma"] * r2),
        "Log": lambda r2: -np.log1p((part["gamma"] * r2) ** (part["degree"] / 2))}
    if name not in shapes or np.min([np.min(value) for key, value in part.items() if key != "class"]) <= 0:
        raise ValueError(f"No proof is known here for the kernel {name} with these parameters.")
    high, low = shapes[name](np.maximum(t.low, 0)), shapes[name](t.high)
    return Near((low + high) / 2, (high - low) / 2 + 8 * U * (1 + np.abs(low) + np.abs(high)))


def within(name: str, value: float, low: float, high: float) -> Claims:
    """Return the claim that a stated value lies in [low, high], which were proven, up to rounding."""
    room = ROUNDED * (abs(value) + abs(low) + abs(high))
    return [(name, float(value), float(high if value < low else low), bool(low - room <= value <= high + room))]


def same(*pairs: tuple[Any, Any]) -> Claims:
    """Return the claim that the copies of numbers in a file, and the rows of the data, agree."""
    agree = all(np.shape(a) == np.shape(b) and np.array_equal(a, b) for a, b in pairs)
    return [("parts of the file and rows of the data agree", 1.0, float(agree), agree)]


def gap_claims(model: Model, q: int, primal: Near, dual: Near, lower: Near | None = None) -> Claims:
    """Return the claims of problem q: both objectives, and a gap that is at least the proven one."""
    value, bound, gap = (float(np.atleast_1d(model[name])[q])
                         for name in ("primal_objective_", "dual_objective_", "dual_gap_"))
    proven, room = float(primal.high - (lower or dual).low), 2 * ROUNDED * abs(float(primal.high))
    return [*within(f"primal objective {q}", value, float(primal.low), float(primal.high)),
            (f"dual objective {q}", bound, float(dual.low), bool(bound <= dual.high + room)),
            (f"duality gap {q}", gap, proven, bool(proven <= gap + room))]


def signs(model: Model, y: Any, weight: Array) -> tuple[Array, list[tuple[Array, Array]]]:
    """Return C_i of each row, and for each problem of a classifier its rows and their signs."""
    classes = np.asarray(model["classes_"]).tolist()
    codes = np.array([[str(label) for label in classes].index(str(label)) for label in y])
    factor = np.array([(model["class_weight"] or {}).get(label, 1.0) for label in classes]) if (
        model["class_weight"] != "balanced") else weight.sum() / (len(classes) * np.bincount(codes, weight))
    C = float(model["C_"] if "C_" in model else model["C"]) * weight * factor[codes]
    if len(classes) == 2 or model.get("multi_class", "ovr") == "ovr":
        ones = [1] if len(classes) == 2 else range(len(classes))
        return C, [(np.arange(len(codes)), np.where(codes == one, 1.0, -1.0)) for one in ones]
    pairs = [(np.flatnonzero((codes == i) | (codes == j)), i) for i, j in combinations(range(len(classes)), 2)]
    return C, [(rows, np.where(codes[rows] == first, 1.0, -1.0)) for rows, first in pairs]


def svm(model: Model, X: Array, y: Any, weight: Array) -> Claims:
    """SVC and SVR: min 1/2 w'w + sum_i hi_i max(0, r_i - l1) - lo_i max(0, -r_i - l1), r = p - Kb - intercept.

    The dual point is b moved into its box. Its sum is not quite 0 and the best intercept is at most ``reach``, so that
    the dual value is a bound less their product.
    """
    held, l1 = model["expansion_"], float(model.get("epsilon", 0))
    B = np.zeros((len(X), held["coef"].shape[1]))
    B[model["support_"]] = held["coef"]
    C, tasks = (model["C"] * weight, [(np.arange(len(X)), y)]) if y.dtype == float else signs(model, y, weight)
    every = kernel(held["kernel"], X, X)
    one, other = (np.sort(part[part != 0]) for part in (held["coef"], model["dual_coef_"]))
    found = same((X[model["support_"]], model["support_vectors_"]), (held["centers"], model["support_vectors_"]),
                 (held["intercept"], model["intercept_"]), (one, other))
    for q, (rows, p) in enumerate(tasks):
        K, b, c = Near(every.v[np.ix_(rows, rows)], every.e[np.ix_(rows, rows)]), B[rows, q], C[rows]
        lo, hi = (-c, c) if y.dtype == float else (np.where(p > 0, 0, -c), np.where(p > 0, c, 0))
        f = K @ b
        r = Near(p) + f * -1 + -model["intercept_"][q]
        primal = Near(b) @ f * 0.5 + Near(hi) @ (r + -l1).plus() + Near(-lo) @ (r * -1 + -l1).plus()
        b = np.clip(b, lo * (1 - 4 * U), hi * (1 - 4 * U))
        top = math.sqrt(8 * float(primal.high) * float(np.max(np.abs(K.v))))
        reach = np.abs(p).max() + l1 + float(primal.high) / min(hi.max(), (-lo).max()) + top
        off = abs(math.fsum(b)) * reach
        dual = Near(p) @ b + Near(np.abs(b)) @ np.full(len(b), -l1) + Near(b) @ (K @ b) * -0.5 + Near(-off, off)
        found += gap_claims(model, q, primal, dual)
    return found


def linear(model: Model, X: Array, y: Any, weight: Array) -> Claims:
    """LinearSVC, whose file holds the multipliers of every row (not of solver="sgd", which proves nothing)."""
    found: Claims = []
    C, tasks = signs(model, y, weight)
    squared = model["loss"] == "squared_hinge"
    for q, (_, sign) in enumerate(tasks):
        w, a = Near(model["coef_"][q]), np.maximum(sign * model["dual_coef_"][q], 0)
        a = a if squared else np.minimum(a, C * (1 - 4 * U))
        u = ((Near(X) @ w + model["intercept_"][q]) * -sign + 1).plus()
        primal = w @ w * 0.5 + Near(C) @ (u * u if squared else u)
        v = Near(X.T) @ (sign * a)
        cost = 0.25 * a**2 / np.where(C > 0, C, np.inf) if squared else 0 * a
        most = max((float(primal.high) / C[side].max()) ** (0.5 if squared else 1) for side in (sign > 0, sign < 0))
        reach = 1 + most + 2 * math.sqrt(float(primal.high) * float((X**2).sum(axis=1).max()))
        off = abs(math.fsum(sign * a)) * reach if model["fit_intercept"] else 0.0
        dual = Near(a - cost, U * (a + 8 * cost)) @ np.ones(len(a)) + v @ v * -0.5 + Near(-off, off)
        found += gap_claims(model, q, primal, dual)
    return found


def spread(K: Near, a: Array, hi: Array) -> Near:
    """Return a value that max_a diag(K)'a - a'Ka over 0 <= a <= hi of sum 1 reaches, from a moved into the box.

    Divided by its sum, a may leave the box by the share ``beyond``; the maximum then grows by at most that share.
    """
    c = np.clip(a, 0, hi)
    total = math.fsum(c)
    share, beyond = Near(1 / total, 4 * U / total), max(0.0, 1 / total - 1) + 4 * U
    return (diagonal(K) @ c * share + Near(c) @ (K @ c) * share * share * -1) * (1 / (1 + beyond))


def ball(model: Model, X: Array, y: Any, weight: Array) -> Claims:
    """SVDD and MultiKernelSVDD: R^2 + sum_i hi_i max(0, d_i^2 - R^2); of a mixture also its scales and lower bound."""
    held, rows, a = model["expansion_"], X[model["support_"]], np.zeros(len(X))
    a[model["support_"]] = model["dual_coef_"][0]
    hi, R2, K = weight / (model["nu"] * weight.sum()), float(model["radius_"]) ** 2, kernel(model["kernel_"], X, X)
    norm2 = Near(a) @ (K @ a)
    d2 = diagonal(K) + K @ a * -2 + norm2
    primal, dual, lower = Near(hi) @ (d2 + -R2).plus() + R2, spread(K, a, hi), None
    found = same((rows, model["support_vectors_"]), (held["centers"], rows), (held["coef"].T, model["dual_coef_"]))
    found += same((held["kernel"], model["kernel_"]), (held["intercept"], [0.0]))
    found += within("norm of the centre, squared", model["center_norm2_"], float(norm2.low), float(norm2.high))
    if model["contamination"] is None and model["converged_"]:
        found += within("offset", -model["offset_"], R2, R2 + model["tol"] * float(np.mean(d2.high)))
    if model["class"] == "MultiKernelSVDD":
        eta, scales, parts = model["kernel_weights_"], model["kernel_scales_"], model["kernels_"]
        sources = [kernel(part, X, X) for part in parts]
        found += same((model["kernel_"]["weights"], eta / scales))
        for p, source in enumerate(sources if model["normalize"] == "variance" and len(parts) > 1 else ()):
            scale = spread(source, weight / weight.sum(), np.ones(len(X)))
            found += within(f"scale of kernel {p}", scales[p], float(scale.low), float(scale.high))
        total = float(np.sum(eta**0.5 if model["objective"] == "joint" else eta))
        found += within("sum of the weights", total, 1.0, 1.0)
        if "bound_coef_" in model:
            cuts = [float((spread(source, model["bound_coef_"], hi) * (1 / s)).low)
                    for source, s in zip(sources, scales, strict=True)]
            joint = model["objective"] == "joint" and min(cuts) > 0
            lower = Near((1 - 99 * U) / np.sum(1 / np.array(cuts)) if joint else min(cuts))
    return found + gap_claims(model, 0, primal, dual, lower)


def fall(part: Model, x: Array, Z: Array, c: Array, eps: float) -> float:
    """Return by how much sum_j c_j k(., z_j) can fall within the l2 radius eps of x: the least of three bounds.

    Every centre by itself, its distance changing by eps; the norm of the sum in the kernel's space; for RBF the slope
    at x and the curvature of every centre between the nearest and the farthest it can be.
    """
    if part["class"] == "Combination":
        return sum(fall(one, x, Z, w * c, eps) for one, w in zip(part["kernels"], part["weights"], strict=True))
    if part["class"] == "Linear":
        w = Near(Z.T) @ c
        return math.sqrt(float((w @ w).high)) * eps * (1 + 8 * U)
    r, noise = np.sqrt(((x - Z) ** 2).sum(axis=1)), (16 + Z.shape[1]) * U
    up, down = np.maximum(c, 0), np.maximum(-c, 0)
    at, close, far = (profile(part, Near(t**2, noise * t**2)) for t in (r, np.maximum(r - eps, 0), r + eps))
    falls = [float(up @ (at.high - far.low) + down @ (close.high - at.low))]
    if part["class"] != "Log":
        most, least = (float(v) for v in (profile(part, Near(0.0)).high, profile(part, Near(eps**2, U * eps**2)).low))
        falls.append(math.sqrt(float((Near(c) @ (kernel(part, Z, Z) @ c)).high) * 2 * (most - least)))
    if part["class"] == "RBF":
        bend = 2 * part["gamma"]
        slope = Near((x - Z).T) @ (at * (c * bend))
        curved = up @ (bend * close.high) + down @ (np.maximum(bend**2 * (r + eps) ** 2 - bend, 0) * close.high)
        falls.append(math.sqrt(float((slope @ slope).high)) * eps + float(curved) * eps**2 / 2)
    return min(falls) * (1 + 1e-12) + 1e-15 * float(np.abs(c).sum())


def radii(model: Model, rows: Array, stated: Array | None = None) -> Claims:
    """Return for each row of a classifier whether its radius is proven; without radii the largest found."""
    held, contrasts, found = model["expansion_"], model["contrasts_"], []
    scores = kernel(held["kernel"], rows, held["centers"]) @ held["coef"] + held["intercept"]
    for i, x in enumerate(rows):
        leads = Near(contrasts) @ Near(scores.v[i], scores.e[i])
        winner = int((leads.low > 0).sum(axis=1).argmax())
        low, high = 0.0, 1e-3 if stated is None else float(stated[i])
        def holds(eps: float, x: Array = x, winner: int = winner, least: Array = leads.low) -> bool:
            return all(lead > fall(held["kernel"], x, held["centers"], held["coef"] @ contrast, eps)
                       for contrast, lead in zip(contrasts[winner], least[winner], strict=True))
        while high < 1e9 and holds(high):
            low, high = high, high * 2 if stated is None else math.inf
        for _ in range(40 if high < 1e9 else 0):
            middle = (low + high) / 2
            low, high = (middle, high) if holds(middle) else (low, middle)
        found.append((f"radius of row {i}", low if stated is None else float(stated[i]), low,
                      bool(stated is None or low >= stated[i])))
    return found


def relational(model: Model, tables: dict[str, Columns], on: list[list[str]], label: str) -> Claims:
    """RelationalLinearSVC: alpha |beta|^2 + sum_i share_i max(0, 1 - A_i beta) over the rows of the join."""
    if (model["loss"], model["objective"], model["class_weight"]) != ("hinge", "rows", None):
        raise ValueError("Intervals are checked of the mean hinge loss of join rows, without class weights.")
    rows: list[dict[str, int]] = [{}]
    for name, columns in tables.items():
        keys = [[side.split(".", 1) for side in pair] for pair in on]
        rows = [{**row, name: n} for row in rows for n in range(len(next(iter(columns.values())))) if all(
            tables[s][a][n if s == name else row[s]] == tables[t][b][n if t == name else row[t]] for (s, a), (t, b)
            in keys if name in (s, t) and {s, t} <= {name, *row})]
    X = np.empty((len(rows), len(model["coef_names_"])))
    for k, (place, _, category) in enumerate(name.partition("=") for name in model["coef_names_"]):
        entries = [tables[place.split(".", 1)[0]][place.split(".", 1)[1]][row[place.split(".", 1)[0]]] for row in rows]
        X[:, k] = [entry == category for entry in entries] if category else [float(entry) for entry in entries]
    used = np.array([row[model["label_table_"]] for row in rows])
    signed = {"class_weight": None, "classes_": model["classes_"], "C": 1.0}
    (_, sign), = signs(signed, [tables[model["label_table_"]][label][i] for i in used], np.ones(len(used)))[1]
    share = np.ones(len(rows)) if model["row_weight"] == "join" else 1 / np.bincount(used)[used]
    share, scale, alpha = share / share.sum(), np.abs(X).max(axis=0), float(model["alpha_"])
    beta = np.append(model["coef_"][0] * scale, model["intercept_"])
    A = np.column_stack([X / scale, np.full(len(X), float(model["fit_intercept"]))]) * sign[:, None]
    primal = Near(share) @ (Near(A) @ beta * -1 + 1).plus() + Near(beta) @ beta * alpha
    (low_stated, high_stated), low, s = model["objective_interval_"], -math.inf, (A @ beta < 1).astype(float)
    v = A.T @ (share * s) / (2 * alpha)
    for sweep in range(SWEEPS):  # of dual coordinate ascent: every s in [0, 1]^n proves a lower bound
        w = Near(A.T) @ (share * s)
        low = max(low, float((Near(share) @ s + w @ w * (-1 / (4 * alpha))).low) - 8 * U)
        for i in range(len(A) if low < low_stated and sweep < SWEEPS - 1 else 0):
            step = np.clip(s[i] + (1 - A[i] @ v) * 2 * alpha / (share[i] * (A[i] @ A[i])), 0, 1) - s[i]
            s[i] += step
            v += step * share[i] / (2 * alpha) * A[i]
    high = float(primal.high)
    return [("rows of the join", model["n_join_rows_"], len(rows), len(rows) == model["n_join_rows_"]),
            ("upper end of the interval", high_stated, high, high <= high_stated + ROUNDED * abs(high)),
            ("lower end of the interval", low_stated, low, low >= low_stated - ROUNDED * abs(high))]


def prove(model: Model, X: Array, y: Any = None, weight: Array | None = None) -> Claims:
    """Return the claims of a model read by :func:`read_model`, on its training rows X (n, d) and targets y (n,)."""
    proofs = {"SVC": svm, "SVR": svm, "LinearSVC": linear, "SVDD": ball, "MultiKernelSVDD": ball}
    if model["class"] not in proofs:
        raise ValueError(f"{model['class']} makes no claim that is checked here, but {', '.join(proofs)} do.")
    target = np.asarray(y, dtype=float if model["class"] == "SVR" else str)
    return proofs[model["class"]](model, X, target, np.ones(len(X)) if weight is None else weight)


def read_columns(path: str) -> Columns:
    with open(path, newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    return {name: [row[k] for row in rows] for k, name in enumerate(names)}


def claims_of(given: argparse.Namespace) -> Claims:
    model = read_model(given.model)
    if given.table:
        tables = {name: read_columns(path) for name, path in (entry.split("=", 1) for entry in given.table)}
        return relational(model, tables, [entry.split("=", 1) for entry in given.on], given.target)
    columns = read_columns(given.data)
    weight = np.array(columns.pop(given.weights), dtype=float) if given.weights else None
    y = columns.pop(given.target or list(columns)[-1]) if "SVDD" not in model["class"] else None
    claims = prove(model, np.array(list(columns.values()), dtype=float).T.copy(), y, weight)
    rows = read_columns(given.radii) if given.radii else {}
    stated = np.array(rows.pop("radius"), dtype=float) if "radius" in rows else None
    return claims + (radii(model, np.array(list(rows.values()), dtype=float).T.copy(), stated) if rows else [])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="buttress-verify", description="Prove a model's claims from file and data.")
    parser.add_argument("model")
    parser.add_argument("data", nargs="?")
    for name in ("--target", "--weights", "--radii"):
        parser.add_argument(name)
    for name in ("--table", "--on"):
        parser.add_argument(name, action="append", default=[])
    try:
        claims = claims_of(parser.parse_args(arguments))
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        sys.stderr.write(f"buttress-verify: cannot check: {error!r}\n")
        return 2
    for name, stated, proven, holds in claims:
        sys.stdout.write(f"{'proven' if holds else 'NOT PROVEN'}: {name}: stated {stated:.10g}, found {proven:.10g}\n")
    return 0 if all(holds for *_, holds in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
