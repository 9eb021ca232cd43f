"""Prove again, from a model file and its data, what the model claims; needs numpy and nothing of this package.

    python -m buttress.verify model.buttress data.csv [--target y] [--weights w] [--radii rows.csv]
    python -m buttress.verify model.buttress --table loan=loan.csv --table account=account.csv --on loan.account=account.id

Every number is a value with a bound of its error (Near): n additions err by n units in the last place, numpy's exp, log
and powers by 8. An upper bound of the primal objective and a lower bound of the dual one then hold for the real numbers.
Proven are the duality gaps of SVC, SVR, LinearSVC, SVDD and MultiKernelSVDD, l2 radii of the rows of ``--radii`` (their
last column, without it the largest found), and the interval of a RelationalLinearSVC of hinge losses on a join of up to
some thousand rows. Exit code: 0 proven, 1 not proven, 2 not a model that can be checked.
"""

import argparse
import csv
import hashlib
import json
import math
import struct
import sys
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

U = 2.0**-53  # of one rounding
WIDER = 1.01  # what bounds of errors are multiplied by, for their own rounding
ULPS = 8 * U  # of exp, log, tanh and powers
ROUNDED = 1e-9  # share by which a stated objective may be off: it was rounded, not bounded
OBJECTIVES = ("primal_objective", "dual_objective", "dual_gap")
SWEEPS = 400  # over the rows of a join, to find a lower bound


class NotCheckable(Exception):
    """A file or data that nothing can be proved from; the message says why."""


class Claim(NamedTuple):
    """What is claimed, what was stated, and what was proven of it."""

    name: str
    stated: float
    proven: float
    holds: bool


class Near:
    """Values and bounds of their errors, of one shape."""

    __array_priority__ = 10

    def __init__(self, v: Any, e: Any = 0.0):
        self.v = np.asarray(v, dtype=np.float64)
        self.e = np.broadcast_to(np.asarray(e, dtype=np.float64) * WIDER, self.v.shape)

    low = property(lambda self: self.v - self.e - U * np.abs(self.v))
    high = property(lambda self: self.v + self.e + U * np.abs(self.v))
    size = property(lambda self: np.abs(self.v) + self.e)
    T = property(lambda self: Near(self.v.T, self.e.T))

    def __getitem__(self, key):
        return Near(self.v[key], self.e[key])

    def __add__(self, other):
        v = self.v + near(other).v
        return Near(v, self.e + near(other).e + U * np.abs(v))

    def __neg__(self):
        return Near(-self.v, self.e)

    def __sub__(self, other):
        return self + -near(other)

    def __mul__(self, other):
        other = near(other)
        v = self.v * other.v
        return Near(v, self.e * other.size + np.abs(self.v) * other.e + U * np.abs(v) + 1e-300)

    def __matmul__(self, other):
        other = near(other)
        e = self.e @ other.size + np.abs(self.v) @ other.e
        n = self.v.shape[-1]
        return Near(self.v @ other.v, e + (n + 2) * U * (np.abs(self.v) @ np.abs(other.v)) + 1e-300)

    __radd__, __rmul__ = __add__, __mul__

    def sum(self):
        return Near(np.ones(len(self.v))) @ self

    def plus(self):
        """The larger of this and 0."""
        return Near(np.maximum(self.v, 0), self.e)


def near(value):
    return value if isinstance(value, Near) else Near(value)


def monotone(f, t, least=0.0):
    """Return f of a Near for a monotone f, t being at least ``least``."""
    ends = f(np.maximum(t.low, least)), f(np.maximum(t.high, least))
    middle = (ends[0] + ends[1]) / 2
    return Near(middle, np.abs(ends[0] - ends[1]) / 2 + ULPS * (1 + np.abs(middle)) + 1e-300)


def read_model(path):
    """Return the model of a file of format 2: dicts with "class" and attributes, lists, arrays, numbers and text."""
    with open(path, "rb") as file:
        content = file.read()
    if hashlib.sha256(content[:-32]).digest() != content[-32:] or content[:8] != b"BUTTRESS":
        raise NotCheckable(f"{path} is no model file, or was changed: its SHA-256 is wrong.")
    version, length = struct.unpack_from("<IQ", content, 8)
    if version != 2:
        raise NotCheckable(f"{path} has format {version}. Load it and save it again.")
    header = json.loads(content[20 : 20 + length])
    arrays = []
    for entry in header["arrays"]:
        count = math.prod(entry["shape"])
        flat = np.frombuffer(content, entry["dtype"], count, 20 + length + entry["start"])
        arrays.append(flat.reshape(entry["shape"]))

    def plain(part):
        if isinstance(part, list):
            return [plain(entry) for entry in part]
        if not isinstance(part, dict):
            return part
        if "class" in part:
            return {"class": part["class"], **{key: plain(entry) for key, entry in part["state"].items()}}
        kind = next(iter(part))
        if kind in ("array", "scalar"):
            return arrays[part[kind]][() if kind == "scalar" else ...]
        if kind == "dict":
            return {plain(key): plain(entry) for key, entry in part["dict"]}
        if kind == "objects":
            return np.array([plain(entry) for entry in part["objects"]], dtype=object)
        return float(part["float"]) if kind == "float" else plain(part[kind]) if kind == "tuple" else part

    return plain(header["model"])


def kernel(part, X, Z):
    """Return k(x_i, z_j) as Near, for a kernel as the file describes it."""
    name = part["class"]
    if name == "Combination":
        weights = part["weights"] if part["weights"] is not None else [1 / len(part["kernels"])] * len(part["kernels"])
        terms = [kernel(inner, X, Z) * w for inner, w in zip(part["kernels"], weights, strict=True) if w > 0]
        return sum(terms[1:], terms[0])
    if name in ("Linear", "Polynomial"):
        s = Near(X) @ Near(Z.T)
        if name == "Linear":
            return s + part["coef0"]
        if part["degree"] != int(part["degree"]) or part["degree"] < 1 or part["coef0"] < 0:
            raise NotCheckable("The polynomial kernel is not positive definite.")
        base = power = s * part["gamma"] + part["coef0"]
        for _ in range(int(part["degree"]) - 1):
            power = power * base
        return power
    r2 = sum((np.subtract.outer(X[:, k], Z[:, k]) ** 2 for k in range(X.shape[1])), np.zeros((len(X), len(Z))))
    t = Near(r2, (X.shape[1] + 4) * 2 * U * r2)
    return profile(part, t)


def profile(part, t):
    """Return F(t) of a squared distance t; each F falls as t grows."""
    name = part["class"]
    if name == "MultiscaleRBF":
        terms = [monotone(lambda r2, g=g: np.exp(-g * r2), t) for g in part["gammas"]]
        return sum(terms[1:], terms[0]) * (1 / len(terms))
    shapes = {
        "RBF": lambda r2: np.exp(-part["gamma"] * r2), "Laplacian": lambda r2: np.exp(-part["gamma"] * np.sqrt(r2)),
        "InverseMultiquadric": lambda r2: 1 / np.sqrt(r2 + part["offset"] ** 2),
        "Cauchy": lambda r2: 1 / (1 + part["gamma"] * r2),
        "Log": lambda r2: -np.log1p((part["gamma"] * r2) ** (part["degree"] / 2))}
    if name not in shapes or not all(value > 0 for key, value in part.items() if key != "class"):
        raise NotCheckable(f"No proof is known here for the kernel {name} with these parameters.")
    return monotone(shapes[name], t)


def stated(name, value, low, high):
    """Return the claim that a stated value lies in [low, high], which were proven, up to rounding."""
    room = ROUNDED * (abs(float(value)) + abs(float(low)) + abs(float(high)))
    proven = float(high) if value < low else float(low)
    return Claim(name, float(value), proven, bool(low - room <= value <= high + room))


def program(K, p, lo, hi, l1, b, intercept, free=True):
    """Return the primal objective at b and the intercept, and a dual bound, of
    min 1/2 w'w + sum_i hi_i max(0, r_i - l1) - lo_i max(0, -r_i - l1), r = p - Kb - intercept.

    The dual point is b moved into its box. Its sum is not quite 0 and the optimal intercept is at most ``reach``, so
    that the dual value is a bound less their product.
    """
    f = K @ near(b)
    r = near(p) - f - intercept
    losses = (near(hi) * (r - l1).plus()).sum() + (near(-lo) * (-r - l1).plus()).sum()
    primal = (near(b) @ f) * 0.5 + losses
    c = np.clip(b, lo * (1 - 4 * U), hi * (1 - 4 * U))
    dual = near(p) @ near(c) - near(np.abs(c)).sum() * l1 - (near(c) @ (K @ near(c))) * 0.5
    heaviest = min(hi.max(), (-lo).max())
    top = float(np.max(K.size))
    reach = np.abs(p).max() + l1 + primal.high / heaviest + math.sqrt(8 * max(primal.high, 0) * top)
    off = abs(math.fsum(c)) * reach if free else 0.0
    return primal, dual - Near(off, off)


def machine_claims(model, q, primal, dual, lower=None):
    """Return the claims of problem q: both objectives, and a gap that is at least the proven one."""
    value, bound, gap = (float(np.atleast_1d(model[f"{name}_"])[q]) for name in OBJECTIVES)
    proven = float(primal.high - (dual if lower is None else lower).low)
    room = ROUNDED * float(primal.high + abs(primal.high))
    return [stated(f"primal objective {q}", value, primal.low, primal.high),
            Claim(f"dual objective {q}", bound, float(dual.low), bool(bound <= dual.high + room)),
            Claim(f"duality gap {q}", gap, proven, bool(proven <= gap + room))]


def same(*pairs):
    """Return the claim that the copies of numbers in a file, and the rows of the data, agree."""
    agree = all(np.shape(a) == np.shape(b) and np.array_equal(a, b) for a, b in pairs)
    return Claim("parts of the file and the data agree", 1.0, float(agree), agree)


def codes_of(model, y):
    """Return class numbers of labels, which are text or numbers."""
    known = {str(label): code for code, label in enumerate(model["classes_"])}
    try:
        return np.array([known[str(label)] for label in y])
    except KeyError as missing:
        raise NotCheckable(f"The label {missing} is none of the classes {list(known)}.") from None


def bounds_of(model, codes, weight):
    """Return C_i of each row."""
    n_classes = len(model["classes_"])
    given = model["class_weight"]
    factor = np.ones(n_classes)
    if given == "balanced":
        counts = np.bincount(codes, weight, n_classes)
        factor = counts.sum() / (n_classes * counts)
    elif given is not None:
        factor = np.array([given.get(label, 1.0) for label in np.asarray(model["classes_"]).tolist()])
    return float(model.get("C_", model["C"])) * weight * factor[codes]


def problems_of(model, codes):
    """Return for each problem its rows and their signs."""
    n_classes = len(model["classes_"])
    everything = np.arange(len(codes))
    if n_classes == 2:
        return [(everything, np.where(codes == 1, 1.0, -1.0))]
    if model.get("multi_class", "ovr") == "ovr":
        return [(everything, np.where(codes == c, 1.0, -1.0)) for c in range(n_classes)]
    pairs = combinations(range(n_classes), 2)
    rows = [(np.flatnonzero((codes == i) | (codes == j)), i) for i, j in pairs]
    return [(index, np.where(codes[index] == first, 1.0, -1.0)) for index, first in rows]


def layout(model, codes):
    """Return the coefficients in scikit-learn's order: of a row of class i against class j, a line for each j != i."""
    coef, n_classes = model["expansion_"]["coef"], len(model["classes_"])
    if n_classes == 2 or model["multi_class"] == "ovr":
        return coef.T
    laid = np.zeros((n_classes - 1, len(coef)))
    for column, (i, j) in enumerate(combinations(range(n_classes), 2)):
        laid[j - 1, codes == i] = coef[codes == i, column]
        laid[i, codes == j] = coef[codes == j, column]
    return laid


def svm(model, X, y, weight):
    """Return the claims of SVC and SVR."""
    expansion = model["expansion_"]
    b = np.zeros((len(X), expansion["coef"].shape[1]))
    b[model["support_"]] = expansion["coef"]
    K = kernel(expansion["kernel"], X, X)
    if model["class"] == "SVR":
        hi = model["C"] * weight
        tasks = [(np.arange(len(X)), np.asarray(y, dtype=float), -hi, hi, float(model["epsilon"]))]
        laid = expansion["coef"].T
    else:
        codes = codes_of(model, y)
        hi = bounds_of(model, codes, weight)
        laid = layout(model, codes[model["support_"]])
        tasks = [(rows, sign, np.where(sign > 0, 0.0, -hi[rows]), np.where(sign > 0, hi[rows], 0.0), 0.0)
                 for rows, sign in problems_of(model, codes)]
    if not np.isfinite(hi).all():
        raise NotCheckable("The gap of a hard margin (C=inf) is not checked.")
    found = [same((X[model["support_"]], model["support_vectors_"]), (expansion["centers"], model["support_vectors_"]),
                  (expansion["intercept"], model["intercept_"]), (laid, model["dual_coef_"]))]
    for q, (rows, p, lo, high, l1) in enumerate(tasks):
        proven = program(K[np.ix_(rows, rows)], p, lo, high, l1, b[rows, q], float(model["intercept_"][q]))
        found += machine_claims(model, q, *proven)
    return found


def linear(model, X, y, weight):
    """Return the claims of LinearSVC, whose file holds the multipliers of every row."""
    if "dual_coef_" not in model:
        raise NotCheckable("This LinearSVC has no dual point: solver='sgd' proves nothing.")
    codes, found = codes_of(model, y), []
    hi = bounds_of(model, codes, weight)
    squared = model["loss"] == "squared_hinge"
    for q, (_, sign) in enumerate(problems_of(model, codes)):
        w, c = near(model["coef_"][q]), sign * model["dual_coef_"][q]
        u = (1 - (near(X) @ w + float(model["intercept_"][q])) * sign).plus()
        primal = w @ w * 0.5 + near(hi) @ (u * u if squared else u)
        c = np.maximum(c, 0) if squared else np.clip(c, 0, hi * (1 - 4 * U))
        v = near(X.T) @ near(sign * c)
        dual = near(c).sum() - v @ v * 0.5
        if squared:
            dual = dual - near(np.where(hi > 0, c**2 / np.maximum(hi, 1e-300), 0)).sum() * 0.25 * (1 + 8 * U)
        most = [(primal.high / hi[side].max()) ** (0.5 if squared else 1) for side in (sign > 0, sign < 0)]
        reach = 1 + max(most) + math.sqrt(2 * primal.high * float((X**2).sum(axis=1).max()) * (1 + ULPS))
        off = abs(math.fsum(sign * c)) * reach if model["fit_intercept"] else 0.0
        found += machine_claims(model, q, primal, dual - Near(off, off))
    return found


def spread(K, a, hi):
    """Return a lower bound of max_a diag(K)'a - a'Ka over 0 <= a <= hi of sum 1, from a moved there.

    Divided by its sum, a may leave its box by the share ``beyond``; the objective then grows by at most that share.
    """
    c = np.clip(a, 0, hi)
    total = math.fsum(c)
    inverse = Near(1 / total, 4 * U / total)
    value = (Near(np.diagonal(K.v), np.diagonal(K.e)) @ near(c)) * inverse
    value = value - (near(c) @ (K @ near(c))) * inverse * inverse
    beyond = max(0.0, 1 / total - 1) + 4 * U
    return value * (1 / (1 + beyond))


def ball(model, X, y, weight):
    """Return the claims of SVDD and MultiKernelSVDD."""
    expansion, a = model["expansion_"], np.zeros(len(X))
    a[model["support_"]] = model["dual_coef_"][0]
    hi = weight / (model["nu"] * weight.sum())
    K = kernel(model["kernel_"], X, X)
    product = K @ near(a)
    norm2 = near(a) @ product
    d2 = Near(np.diagonal(K.v), np.diagonal(K.e)) - product * 2 + norm2
    radius2 = float(model["radius_"]) ** 2
    primal = near(hi) @ (d2 - radius2).plus() + radius2
    found = [same((X[model["support_"]], model["support_vectors_"]), (expansion["centers"], model["support_vectors_"]),
                  (expansion["coef"].T, model["dual_coef_"]), (expansion["kernel"], model["kernel_"])),
             stated("norm of the centre, squared", model["center_norm2_"], norm2.low, norm2.high)]
    if model["contamination"] is None:
        room = max(float(np.mean(d2.high)) * model["tol"], 0) + ROUNDED * radius2
        found.append(stated("offset", -model["offset_"], radius2, radius2 + room))
    dual = spread(K, a, hi)
    lower = mixture_bound(model, X, hi, found) if model["class"] == "MultiKernelSVDD" else None
    return found + machine_claims(model, 0, primal, dual, dual if lower is None else lower)


def mixture_bound(model, X, hi, found):
    """Return a lower bound over all weights of kernels, None where they are given; adds the claims of the scales."""
    eta, scales, point = model["kernel_weights_"], model["kernel_scales_"], model.get("bound_coef_")
    matrices = [kernel(part, X, X) for part in model["kernels_"]]
    even = hi / hi.sum()
    for p, K in enumerate(matrices if model["normalize"] == "variance" and len(matrices) > 1 else ()):
        value = spread(K, even, np.ones(len(X)))
        found.append(stated(f"scale of kernel {p}", scales[p], value.low, value.high))
    found.append(same((np.asarray(model["kernel_"]["weights"]), eta / scales)))
    total = float(np.sum(np.sqrt(eta) if model["objective"] == "joint" else eta))
    found.append(stated("sum of the weights", total, 1.0, 1.0))
    if point is None:
        return None
    cuts = [spread(K, point, hi) * (1 / scale) for K, scale in zip(matrices, scales, strict=True)]
    lows = np.array([float(cut.low) for cut in cuts])
    if model["objective"] == "joint":
        return Near(1 / np.sum(1 / lows) * (1 - 99 * U)) if (lows > 0).all() else Near(0.0)
    return Near(lows.min())


def fall(part, x, Z, c, eps):
    """Return by how much sum_j c_j k(., z_j) can fall within the l2 radius eps of x: the best of three bounds.

    Every centre by itself, r_j moving by eps; the norm of the sum in the kernel's space; for RBF the slope at x and the
    curvature of every centre between the nearest and the farthest it can be.
    """
    name = part["class"]
    if name == "Combination":
        return sum(fall(inner, x, Z, w * c, eps) for inner, w in zip(part["kernels"], part["weights"], strict=True))
    if name == "Linear":
        w = near(Z.T) @ near(c)
        return math.sqrt((w @ w).high) * eps * (1 + ULPS)
    if name == "Polynomial":
        raise NotCheckable("Radii are proved for radial and linear kernels.")
    r = np.sqrt(((x - Z) ** 2).sum(axis=1))
    at, inner, outer = (profile(part, Near(t**2, (8 + Z.shape[1]) * 2 * U * t**2))
                        for t in (r, np.maximum(r - eps, 0), r + eps))
    falls = [(np.where(c > 0, c, 0) @ (at.high - outer.low) + np.where(c < 0, -c, 0) @ (inner.high - at.low))]
    if name != "Log":
        norm2 = (near(c) @ (kernel(part, Z, Z) @ near(c))).high
        most, least = (profile(part, Near(t)) for t in (0.0, eps**2 * (1 + ULPS)))
        falls.append(math.sqrt(max(norm2, 0) * 2 * max(most.high - least.low, 0)))
    if name == "RBF":
        gamma = part["gamma"]
        slope = near((x - Z).T) @ (at * near(c * 2 * gamma))
        high = np.maximum(4 * gamma**2 * (r + eps) ** 2 - 2 * gamma, 0) * inner.high
        bend = np.where(c > 0, c, 0) @ (2 * gamma * inner.high) + np.where(c < 0, -c, 0) @ high
        falls.append(math.sqrt((slope @ slope).high) * eps + bend * eps**2 / 2)
    return min(falls) * (1 + 1e-12) + 1e-15 * float(np.abs(c).sum())


def radii(model, rows, claims=None):
    """Return for each row a proven l2 radius: the claimed one where that is proven, else the largest found."""
    expansion, found = model["expansion_"], []
    if expansion.get("linear") is not None:
        raise NotCheckable("Radii of an expansion with a linear part are not checked.")
    scores = kernel(expansion["kernel"], rows, expansion["centers"]) @ near(expansion["coef"]) + expansion["intercept"]
    for i, x in enumerate(rows):
        leads = near(model["contrasts_"]) @ scores[i]
        winner = int((leads.low > 0).sum(axis=1).argmax())
        lines = [(model["contrasts_"][winner, r] @ expansion["coef"].T, float(leads.low[winner, r]))
                 for r in range(leads.v.shape[1])]

        def holds(eps, x=x, lines=lines):
            return all(lead > fall(expansion["kernel"], x, expansion["centers"], c, eps) for c, lead in lines)

        low, high = 0.0, 1e-6 if claims is None or not holds(float(claims[i])) else 0.0
        while high and holds(high):
            low, high = high, 2 * high if high < 1e6 else 0.0
        for _ in range(30 if high else 0):
            middle = (low + high) / 2
            low, high = (middle, high) if holds(middle) else (low, middle)
        found.append(low if high or claims is None else float(claims[i]))
    return np.array(found)


def join_rows(tables, on):
    """Return the rows of a join of tables (dicts of lists of text) as dicts from table to row number."""
    found = [{}]
    for name, table in tables.items():
        pairs = [(a, b) for left, right in on for a, b in ((left, right), (right, left)) if a.split(".", 1)[0] == name]
        grown = []
        for row, number in product(found, range(len(next(iter(table.values()))))):
            others = [(a, b.split(".", 1)) for a, b in pairs if b.split(".", 1)[0] in row]
            if all(table[a.split(".", 1)[1]][number] == tables[t][c][row[t]] for a, (t, c) in others):
                grown.append({**row, name: number})
        found = grown
    return found


def relational(model, tables, on, label):
    """Return the claims of a RelationalLinearSVC: its scales, and an interval that holds the optimum."""
    if model["loss"] != "hinge" or model["objective"] != "rows" or model["class_weight"] is not None:
        raise NotCheckable("Intervals are checked of the mean hinge loss of join rows, without class weights.")
    rows = join_rows(tables, on)
    X = np.empty((len(rows), len(model["coef_names_"])))
    for k, name in enumerate(model["coef_names_"]):
        table, column = name.split("=", 1)[0].split(".", 1)
        entries = [tables[table][column][row[table]] for row in rows]
        X[:, k] = [entry == name.split("=", 1)[1] for entry in entries] if "=" in name else np.array(entries, float)
    used = np.array([row[model["label_table_"]] for row in rows])
    sign = np.where(codes_of(model, [tables[model["label_table_"]][label][i] for i in used]) == 1, 1.0, -1.0)
    share = np.ones(len(rows)) if model["row_weight"] == "join" else 1 / np.bincount(used)[used]
    share = share / share.sum()
    scale = np.abs(X).max(axis=0)
    beta, alpha = model["coef_"][0] * scale, float(model["alpha_"])
    if model["fit_intercept"]:
        X, scale, beta = (np.append(X, np.ones((len(X), 1)), axis=1), np.append(scale, 1.0),
                          np.append(beta, model["intercept_"]))
    A = X / scale * sign[:, None]
    primal = near(share) @ (1 - near(A) @ near(beta)).plus() + (near(beta) @ near(beta)) * alpha
    s, norms = (A @ beta < 1).astype(float), (A**2).sum(axis=1)
    v = A.T @ (share * s) / (2 * alpha)
    low, stated_low = -math.inf, float(model["objective_interval_"][0])
    for _ in range(SWEEPS):
        w = near(A.T) @ near(share * s)
        low = max(low, float((near(share) @ near(s) - (w @ w) * (1 / (4 * alpha))).low) - 4 * U)
        if low >= stated_low:
            break
        for i in range(len(A)):
            step = np.clip(s[i] + (1 - A[i] @ v) * 2 * alpha / (share[i] * norms[i]), 0, 1) - s[i]
            s[i] += step
            v += step * share[i] / (2 * alpha) * A[i]
    held = np.sort(np.abs(model["beta_"]))
    return [Claim("coefficients in scaled columns", 1.0, 1.0, bool(np.allclose(held, np.sort(np.abs(beta)), 1e-9))),
            Claim("rows of the join", model["n_join_rows_"], len(rows), len(rows) == model["n_join_rows_"]),
            Claim("upper end", float(model["objective_interval_"][1]), float(primal.high),
                  bool(primal.high <= model["objective_interval_"][1] * (1 + ROUNDED))),
            Claim("lower end", stated_low, low, bool(low >= stated_low * (1 - ROUNDED) - U))]


PROOFS = {"SVC": svm, "SVR": svm, "LinearSVC": linear, "SVDD": ball, "MultiKernelSVDD": ball}


def prove(model, X, y, weight=None):
    """Return the claims of a model read by :func:`read_model`, on its training rows X (n, d) and targets y (n,)."""
    if model.get("class") not in PROOFS:
        raise NotCheckable(f"{model.get('class')} makes no claim that is checked here, but {', '.join(PROOFS)} do.")
    return PROOFS[model["class"]](model, X, y, np.ones(len(X)) if weight is None else weight)


def read_columns(path):
    """Return the columns of a CSV file with a header as lists of text."""
    with open(path, newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    return {name: [row[k] for row in rows] for k, name in enumerate(names)}


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="buttress-verify", description="Prove a model's claims from file and data.")
    parser.add_argument("model")
    parser.add_argument("data", nargs="?")
    for option in ("--target", "--weights", "--radii"):
        parser.add_argument(option)
    for option in ("--table", "--on"):
        parser.add_argument(option, action="append", default=[])
    given = parser.parse_args(arguments)
    try:
        claims = claims_of(given, read_model(given.model))
    except (OSError, ValueError, KeyError, NotCheckable) as error:
        print(f"buttress-verify: {error}", file=sys.stderr)
        return 2
    for name, value, proven, holds in claims:
        print(f"{'proven    ' if holds else 'NOT PROVEN'} {name}: stated {value:.10g}, proven {proven:.10g}")
    return 0 if all(claim.holds for claim in claims) else 1


def claims_of(given, model):
    """Return the claims that the arguments ask for."""
    if given.table:
        tables = {name: read_columns(path) for name, path in (entry.split("=", 1) for entry in given.table)}
        return relational(model, tables, [entry.split("=", 1) for entry in given.on], given.target)
    columns = read_columns(given.data)
    weight = np.array(columns.pop(given.weights), dtype=float) if given.weights else None
    ball_only = model["class"] in ("SVDD", "MultiKernelSVDD")
    y = None if ball_only else columns.pop(given.target or list(columns)[-1])
    claims = prove(model, np.array(list(columns.values()), dtype=float).T.copy(), y, weight)
    if given.radii:
        rows = read_columns(given.radii)
        stated_radii = np.array(rows.pop("radius"), dtype=float) if "radius" in rows else None
        found = radii(model, np.array(list(rows.values()), dtype=float).T.copy(), stated_radii)
        wanted = found if stated_radii is None else stated_radii
        claims += [Claim(f"radius of row {i}", *pair, pair[1] >= pair[0]) for i, pair in
                   enumerate(zip(wanted.tolist(), found.tolist(), strict=True))]
    return claims


if __name__ == "__main__":
    sys.exit(main())
