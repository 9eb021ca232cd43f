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
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

U = 2.0**-53  # one rounding
WIDER = 1.01  # bounds of errors are multiplied by this, for their own rounding
ROUNDED = 1e-9  # share by which a stated objective may be off: it was rounded, not bounded
SWEEPS = 400  # over the rows of a join, to find a lower bound
Array = np.ndarray[Any, Any]
Model = dict[str, Any]
Claims = list[tuple[str, float, float, bool]]
Columns = dict[str, list[str]]


class Near:
    """Values v and bounds e of their errors: the real numbers lie between low and high."""

    def __init__(self, v: Any, e: Any = 0.0):
        v, e = (v.v, v.e) if isinstance(v, Near) else (v, np.asarray(e) * WIDER)
        self.v: Array = np.asarray(v, dtype=float)
        self.e: Array = np.broadcast_to(e, self.v.shape)
        self.low, self.high = self.v - self.e - U * np.abs(self.v), self.v + self.e + U * np.abs(self.v)

    def __add__(self, other: Any) -> "Near":
        v = self.v + Near(other).v
        return Near(v, self.e + Near(other).e + U * np.abs(v))

    def __mul__(self, other: Any) -> "Near":
        v, e = Near(other).v, Near(other).e
        return Near(self.v * v, self.e * (np.abs(v) + e) + np.abs(self.v) * e + U * np.abs(self.v * v) + 1e-300)

    def __matmul__(self, other: Any) -> "Near":
        v, e = Near(other).v, Near(other).e
        rounding = (self.v.shape[-1] + 2) * U * (np.abs(self.v) @ np.abs(v)) + 1e-300
        return Near(self.v @ v, self.e @ (np.abs(v) + e) + np.abs(self.v) @ e + rounding)

    def each(self, part: Callable[[Array], Array]) -> "Near":
        return Near(part(self.v), part(self.e))


def plus(values: Array) -> Array:
    return np.maximum(values, 0)


def read_model(path: str) -> Model:
    """Return the model of a file of format 4: dicts with "class" and attributes, lists, arrays, numbers and text."""
    content = np.fromfile(path, np.uint8).tobytes()
    if hashlib.sha256(content[:-32]).digest() != content[-32:] or content[:8] != b"BUTTRESS" or content[8] != 4:
        raise ValueError(f"{path} is no model file of format 4, or was changed: its SHA-256 is wrong.")
    begin = 20 + int.from_bytes(content[12:20], "little")
    arrays, place = [], begin
    for entry in json.loads(content[20:begin])["arrays"]:
        flat = np.frombuffer(content, entry["dtype"], math.prod(entry["shape"]), place)
        arrays.append(flat.reshape(entry["shape"]))
        place += flat.nbytes

    def plain(part: Any) -> Any:
        kind, held = next(iter([*part.items(), ("", part)]))
        readers: dict[str, Callable[[Any], Any]] = {"array": lambda i: arrays[i], "scalar": lambda i: arrays[i][()],
            "column": lambda i: arrays[i].tolist(), "float": float, "dict": lambda two: dict(zip(*two, strict=True)),
            "tuple": list, "objects": list, "class": lambda name: {"class": name, **part["state"]}}
        return readers[kind](held) if kind in readers else part

    return dict(json.loads(content[20:begin], object_hook=plain)["model"])


def kernel(part: Model, X: Array, Z: Array) -> Near:
    """Return k(x_i, z_j) for a kernel as the file describes it."""
    if part["class"] == "Combination":
        weights = part["weights"] or [1 / len(part["kernels"])] * len(part["kernels"])
        terms = [kernel(inner, X, Z) * w for inner, w in zip(part["kernels"], weights, strict=True) if w > 0]
        return sum(terms[1:], terms[0])
    if part["class"] in ("Linear", "Polynomial"):
        base = power = Near(X) @ Z.T * part.get("gamma", 1.0) + part["coef0"]
        degree = part.get("degree", 1)
        if degree not in range(1, 20) or part["coef0"] < 0:
            raise ValueError("The kernel is not positive definite: its claims are none that can be checked.")
        for _ in range(int(degree) - 1):
            power = power * base
        return power
    r2 = sum((np.subtract.outer(X[:, k], Z[:, k]) ** 2 for k in range(X.shape[1])), np.zeros((len(X), len(Z))))
    return profile(part, Near(r2, (X.shape[1] + 4) * 2 * U * r2))


def profile(part: Model, t: Near) -> Near:
    """Return F of a squared distance, for kernels that fall as it grows, from F at both ends of what t may be."""
    shapes = {
        "RBF": lambda r2: np.exp(-part["gamma"] * r2), "Laplacian": lambda r2: np.exp(-part["gamma"] * np.sqrt(r2)),
        "MultiscaleRBF": lambda r2: np.mean([np.exp(-gamma * r2) for gamma in part["gammas"]], axis=0),
        "InverseMultiquadric": lambda r2: (r2 + part["offset"] ** 2) ** -0.5,
        "Cauchy": lambda r2: 1 / (1 + part["gamma"] * r2),
        "Log": lambda r2: -np.log1p((part["gamma"] * r2) ** (part["degree"] / 2))}
    if part["class"] not in shapes or min(np.min(value) for key, value in part.items() if key != "class") <= 0:
        raise ValueError(f"No proof is known here for the kernel {part['class']} with these parameters.")
    high, low = (shapes[part["class"]](end) for end in (plus(t.low), t.high))
    return Near((low + high) / 2, (high - low) / 2 + 8 * U * (1 + np.abs(low) + np.abs(high)))


def within(name: str, value: float, low: Any, high: Any) -> Claims:
    """Return the claim that a stated value lies in [low, high], which were proven, up to rounding."""
    room = ROUNDED * (abs(value) + abs(low) + abs(high))
    return [(name, float(value), float(high if value < low else low), bool(low - room <= value <= high + room))]


def same(*pairs: tuple[Any, Any]) -> Claims:
    """Return the claim that the copies of numbers in a file, and the rows of the data, agree."""
    agree = all(np.array_equal(a, b) for a, b in pairs)
    return [("parts of the file and rows of the data agree", 1.0, float(agree), agree)]


def gaps(model: Model, q: int, primal: Near, dual: Near, lower: Any = None) -> Claims:
    """Return the claims of problem q: both objectives, and a gap that is at least the proven one."""
    value, bound, gap = (float(np.atleast_1d(model[f"{name}_"])[q])
                         for name in ("primal_objective", "dual_objective", "dual_gap"))
    proven, room = float(primal.high - (dual.low if lower is None else lower)), 2 * ROUNDED * abs(float(primal.high))
    return [*within(f"primal objective {q}", value, primal.low, primal.high),
            (f"dual objective {q}", bound, float(dual.low), bool(bound <= dual.high + room)),
            (f"duality gap {q}", gap, proven, proven <= gap + room)]


def problems(model: Model, y: Any, weight: Array) -> list[tuple[Array, Array, Array]]:
    """Return for each problem of a machine its rows, their targets (signs for classes) and their C_i."""
    every, C = np.arange(len(y)), float(model["C_" if "C_" in model else "C"]) * weight
    if model["class"] == "SVR":
        return [(every, np.array(y, dtype=float), C)]
    classes = np.asarray(model["classes_"]).tolist()
    k, codes = len(classes), np.array([[str(label) for label in classes].index(str(label)) for label in y])
    balanced, given = weight.sum() / (k * np.bincount(codes, weight)), model["class_weight"] or {}
    C = C * (balanced if given == "balanced" else np.array([given.get(label, 1.0) for label in classes]))[codes]
    firsts = [(every, one) for one in (range(k) if k > 2 else [1])]
    if k > 2 and model.get("multi_class", "ovr") != "ovr":
        firsts = [(np.flatnonzero((codes == i) | (codes == j)), i) for i in range(k) for j in range(i + 1, k)]
    return [(rows, np.where(codes[rows] == one, 1.0, -1.0), C[rows]) for rows, one in firsts]


def machine(model: Model, X: Array, y: Any, weight: Array) -> Claims:
    """SVC, SVR, LinearSVC: min |w|^2 / 2 + sum_i c_i L(r_i), r = p - w'phi(x) - intercept.

    L(r) is max(0, |r| - l1) for numbers p; for signs p it is max(0, pr), or its square. The dual: max p'b - l1 |b|_1 -
    b'Kb / 2 (for squares less sum b_i^2 / 4 c_i) over b of sum 0 between lo and hi. The b of the file is moved there;
    its sum is not quite 0 and the best intercept is at most ``reach``, so the bound is less by their product.
    """
    linear, squared, l1 = model["class"] == "LinearSVC", model.get("loss") == "squared_hinge", model.get("epsilon", 0)
    held, found = model.get("expansion_", {}), Claims()
    if not linear:
        every, coef = kernel(held["kernel"], X, X), np.zeros((len(X), held["coef"].shape[1]))
        coef[model["support_"]] = held["coef"]
        one, other = (np.sort(part[part != 0]) for part in (held["coef"], model["dual_coef_"]))
        found += same((X[model["support_"]], model["support_vectors_"]), (held["centers"], model["support_vectors_"]),
                      (held["intercept"], model["intercept_"]), (one, other))
    for q, (rows, p, c) in enumerate(problems(model, y, weight)):
        if linear:
            b, w, top = model["dual_coef_"][q], Near(model["coef_"][q]), (X**2).sum(axis=1).max()
            f, norm2 = Near(X) @ w, w @ w
        else:
            b, K = coef[rows, q], every.each(operator.itemgetter(np.ix_(rows, rows)))
            f, norm2, top = K @ b, Near(b) @ (K @ b), np.abs(K.v).max()
        lo, hi = (-c, c) if model["class"] == "SVR" else (np.where(p > 0, 0, -c), np.where(p > 0, c, 0))
        r = Near(p) + f * -1 + -model["intercept_"][q]
        above, below = (r + -l1).each(plus), (r * -1 + -l1).each(plus)
        primal = norm2 * 0.5 + Near(hi) @ (above * above if squared else above)
        primal = primal + Near(-lo) @ (below * below if squared else below)
        most = (float(primal.high) / min(hi.max(), -lo.min())) ** (0.5 if squared else 1)
        reach = np.abs(p).max() + l1 + most + math.sqrt(8 * primal.high * top)
        box = [np.where(end != 0, np.copysign(np.inf, end), 0) if squared else end * (1 - 4 * U) for end in (lo, hi)]
        b = np.clip(b, *box)
        off = abs(math.fsum(b)) * reach if model.get("fit_intercept", True) else 0.0
        less, v = l1 * np.abs(b) + squared * 0.25 * b**2 / np.where(c > 0, c, 1), Near(X.T) @ b if linear else Near(b)
        dual = Near(p) @ b + Near(-less, 8 * U * less) @ np.ones(len(b)) + v @ (v if linear else K @ b) * -0.5
        found += gaps(model, q, primal, dual + Near(-off, off))
    return found


def spread(K: Near, a: Array, hi: Array) -> Near:
    """Return a value that max_a diag(K)'a - a'Ka over 0 <= a <= hi of sum 1 reaches, from a moved into the box.

    Divided by its sum, a may leave the box by the share ``beyond``; the maximum then grows by at most that share.
    """
    c = np.clip(a, 0, hi)
    total = math.fsum(c)
    share, beyond = Near(1 / total, 4 * U / total), max(0.0, 1 / total - 1) + 4 * U
    return (K.each(np.diagonal) @ c * share + Near(c) @ (K @ c) * share * share * -1) * (1 / (1 + beyond))


def ball(model: Model, X: Array, y: Any, weight: Array) -> Claims:
    """SVDD and MultiKernelSVDD: R^2 + sum_i hi_i max(0, d_i^2 - R^2); of a mixture also its scales and lower bound."""
    held, rows, a = model["expansion_"], X[model["support_"]], np.zeros(len(X))
    a[model["support_"]] = model["dual_coef_"][0]
    hi, R2, K = weight / (model["nu"] * weight.sum()), float(model["radius_"]) ** 2, kernel(model["kernel_"], X, X)
    norm2 = Near(a) @ (K @ a)
    d2 = K.each(np.diagonal) + K @ a * -2 + norm2
    primal, lower = Near(hi) @ (d2 + -R2).each(plus) + R2, None
    found = same((rows, model["support_vectors_"]), (held["centers"], rows), (held["coef"].T, model["dual_coef_"]),
                 (held["kernel"], model["kernel_"]), (held["intercept"], [0.0]))
    found += within("norm of the centre, squared", model["center_norm2_"], norm2.low, norm2.high)
    if model["contamination"] is None and model["converged_"]:
        found += within("offset", -model["offset_"], R2, R2 + model["tol"] * np.mean(d2.high))
    if model["class"] == "MultiKernelSVDD":
        eta, scales, joint = model["kernel_weights_"], model["kernel_scales_"], model["objective"] == "joint"
        sources = [kernel(part, X, X) for part in model["kernels_"]]
        found += same((model["kernel_"]["weights"], eta / scales))
        for p, source in enumerate(sources if model["normalize"] == "variance" and len(sources) > 1 else ()):
            scale = spread(source, weight / weight.sum(), np.ones(len(X)))
            found += within(f"scale of kernel {p}", scales[p], scale.low, scale.high)
        found += within("sum of the weights", np.sum(eta**0.5 if joint else eta), 1.0, 1.0)
        if "bound_coef_" in model:
            cuts = np.array([(spread(source, model["bound_coef_"], hi) * (1 / s)).low
                             for source, s in zip(sources, scales, strict=True)])
            lower = (1 - 99 * U) / np.sum(1 / cuts) if joint and min(cuts) > 0 else min(cuts)
    return found + gaps(model, 0, primal, spread(K, a, hi), lower)


def fall(part: Model, x: Array, Z: Array, c: Array, eps: float) -> float:
    """Return by how much sum_j c_j k(., z_j) can fall within the l2 radius eps of x: the least of three bounds.

    Every centre by itself, its distance changing by eps; the norm of the sum in the kernel's space; for RBF the slope
    at x and the curvature of every centre between the nearest and the farthest it can be.
    """
    if part["class"] == "Combination":
        return sum(fall(one, x, Z, w * c, eps) for one, w in zip(part["kernels"], part["weights"], strict=True))
    if part["class"] == "Linear":
        w = Near(Z.T) @ c
        return math.sqrt((w @ w).high) * eps * (1 + 8 * U)
    r, noise = np.sqrt(((x - Z) ** 2).sum(axis=1)), (16 + Z.shape[1]) * U
    up, down = plus(c), plus(-c)
    at, close, far = (profile(part, Near(t**2, noise * t**2)) for t in (r, plus(r - eps), r + eps))
    falls = [up @ (at.high - far.low) + down @ (close.high - at.low)]
    if part["class"] != "Log":
        most, least = profile(part, Near(0.0)).high, profile(part, Near(eps**2, U * eps**2)).low
        falls.append(math.sqrt((Near(c) @ (kernel(part, Z, Z) @ c)).high * 2 * (most - least)))
    if part["class"] == "RBF":
        bend = 2 * part["gamma"]
        slope = Near((x - Z).T) @ (at * (c * bend))
        curved = up @ (bend * close.high) + down @ (plus(bend**2 * (r + eps) ** 2 - bend) * close.high)
        falls.append(math.sqrt((slope @ slope).high) * eps + curved * eps**2 / 2)
    return float(min(falls)) * (1 + 1e-12) + 1e-15 * float(np.abs(c).sum())


def radii(model: Model, rows: Array, stated: Array | None = None) -> Claims:
    """Return for each row of a classifier whether its stated radius is proven, and the largest found that is."""
    held, found = model["expansion_"], Claims()
    scores = kernel(held["kernel"], rows, held["centers"]) @ held["coef"] + held["intercept"]
    for i, x in enumerate(rows):
        leads, low = (Near(model["contrasts_"]) @ scores.each(operator.itemgetter(i))).low, 0.0
        winner = (leads > 0).sum(axis=1).argmax()
        for step in (*(() if stated is None else stated[i : i + 1]), *2.0 ** np.arange(30, -34, -1)):
            falls = [fall(held["kernel"], x, held["centers"], held["coef"] @ rival, low + float(step))
                     for rival in model["contrasts_"][winner]]
            low += float(step) * bool((leads[winner] > falls).all())
        claimed = low if stated is None else float(stated[i])
        found.append((f"radius of row {i}", claimed, low, claimed <= low))
    return found


def relational(model: Model, tables: dict[str, Columns], on: list[list[str]], label: str) -> Claims:
    """RelationalLinearSVC: alpha |beta|^2 + sum_i share_i max(0, 1 - A_i beta) over the rows of the join."""
    if (model["loss"], model["objective"], model["class_weight"]) != ("hinge", "rows", None):
        raise ValueError("Intervals are checked of the mean hinge loss of join rows, without class weights.")
    rows: list[dict[Any, Any]] = [{}]
    for name, columns in tables.items():
        added = [{(name,): n, **{f"{name}.{column}": texts[n] for column, texts in columns.items()}}
                 for n in range(len(next(iter(columns.values()))))]
        rows = [row for old in rows for new in added for row in [old | new]
                if all(row[a] == row[b] for a, b in on if a in row and b in row)]
    X = np.empty((len(rows), len(model["coef_names_"])))
    for k, (place, _, category) in enumerate(name.partition("=") for name in model["coef_names_"]):
        X[:, k] = [row[place] == category if category else float(row[place]) for row in rows]
    place = model["label_table_"]
    sign = np.array([1.0 if row[f"{place}.{label}"] == str(model["classes_"][1]) else -1.0 for row in rows])
    used = np.array([row[(place,)] for row in rows])
    share = np.ones(len(rows)) if model["row_weight"] == "join" else 1 / np.bincount(used)[used]
    share, scale, alpha = share / share.sum(), np.abs(X).max(axis=0), float(model["alpha_"])
    beta = np.append(model["coef_"][0] * scale, model["intercept_"])
    A = np.column_stack([X / scale, np.full(len(X), float(model["fit_intercept"]))]) * sign[:, None]
    high = float((Near(share) @ (Near(A) @ beta * -1 + 1).each(plus) + Near(beta) @ beta * alpha).high)
    (least, most), low, s = model["objective_interval_"], -math.inf, (A @ beta < 1).astype(float)
    v = A.T @ (share * s) / (2 * alpha)
    for _ in range(SWEEPS):  # of dual coordinate ascent: every s in [0, 1]^n proves a lower bound
        w = Near(A.T) @ (share * s)
        low = max(low, float((Near(share) @ s + w @ w * (-1 / (4 * alpha))).low) - 8 * U)
        for i in range(len(A) if low < least else 0):
            step = np.clip(s[i] + (1 - A[i] @ v) * 2 * alpha / (share[i] * (A[i] @ A[i])), 0, 1) - s[i]
            s[i] += step
            v += step * share[i] / (2 * alpha) * A[i]
    return [("rows of the join", model["n_join_rows_"], len(rows), len(rows) == model["n_join_rows_"]),
            ("upper end of the interval", most, high, high <= most + ROUNDED * abs(high)),
            ("lower end of the interval", least, low, low >= least - ROUNDED * abs(high))]


def prove(model: Model, X: Array, y: Any = None, weight: Array | None = None) -> Claims:
    """Return the claims of a model read by :func:`read_model`, on its training rows X (n, d) and targets y (n,)."""
    proofs = {"SVC": machine, "SVR": machine, "LinearSVC": machine, "SVDD": ball, "MultiKernelSVDD": ball}
    if model["class"] not in proofs:
        raise ValueError(f"{model['class']} makes no claim that is checked here, but {', '.join(proofs)} do.")
    return proofs[model["class"]](model, X, y, np.ones(len(X)) if weight is None else weight)


def read_columns(path: str) -> Columns:
    with open(path, newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def claims_of(given: argparse.Namespace) -> Claims:
    model = read_model(given.model)
    if given.table:
        tables = {name: read_columns(path) for name, path in (entry.split("=", 1) for entry in given.table)}
        return relational(model, tables, [entry.split("=", 1) for entry in given.on], given.target)
    columns, rows = read_columns(given.data), read_columns(given.radii) if given.radii else {}
    weight = np.array(columns.pop(given.weights), dtype=float) if given.weights else None
    y = columns.pop(given.target or list(columns)[-1]) if "SVDD" not in model["class"] else None
    stated = np.array(rows.pop("radius"), dtype=float) if "radius" in rows else None
    X, Z = (np.array(list(held.values()), dtype=float).T.copy() for held in (columns, rows))
    return prove(model, X, y, weight) + (radii(model, Z, stated) if rows else [])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="buttress-verify", description="Prove a model's claims from file and data.")
    for name, count in (("model", None), ("data", "?"), ("--target", None), ("--weights", None), ("--radii", None)):
        parser.add_argument(name, nargs=count)
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
