"""Certificates of other machines: how far a fit of libsvm, or of whatever holds dual coefficients, is from its optimum.

A certificate is an object of JSON (docs/certificate-files.md): the problem, a digest of the data, a point, and what is
claimed of it. Nothing in it is trusted: gap and violation of the conditions of optimality are proven from the data.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .core import Array, Claim, Model, agreed, single, table
from .gaps import LossProgram, objectives
from .kernels import described
from .machines import StatedMachine, measured, same_label

VERSION = 1
NAMES = {"linear": "Linear", "rbf": "RBF", "poly": "Polynomial"}
KEYS = {"certificate", "problem", "data", "point", "claim"}


def digest(X: Array, y: Any) -> str:
    """Return the SHA-256 of the rows, float64, little-endian, row by row, and of the targets, a line each."""
    found = hashlib.sha256(np.ascontiguousarray(X, "<f8").tobytes())
    found.update("".join(f"{same_label(label)!r}\n" for label in np.asarray(y).tolist()).encode())
    return found.hexdigest()


def digest_of(scores: Any) -> str:
    """Return the SHA-256 of scores or trees, as JSON without blanks and with sorted keys."""
    return hashlib.sha256(json.dumps(scores, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def from_duals(model: Any, X: Any, y: Any, *, gamma: float | None = None) -> Model:
    """Return the certificate of a fitted SVC or SVR with scikit-learn's attributes.

    These are ``support_``, ``dual_coef_``, ``intercept_``, of classes ``classes_`` and ``n_support_``, and the
    parameters; ``gamma`` is the number where the model keeps the word it was given.
    """
    dual = np.asarray(model.dual_coef_.toarray() if hasattr(model.dual_coef_, "toarray") else model.dual_coef_, float)
    kernel: Model = {"class": NAMES[model.kernel]}
    if model.kernel == "linear":
        kernel["coef0"] = 0.0
    else:
        used = getattr(model, "_gamma", model.gamma) if gamma is None else gamma
        if isinstance(used, str):
            raise ValueError(f"gamma must be the number that the fit used. The model keeps {used!r} only: give gamma=.")
        kernel["gamma"] = float(used)
    if model.kernel == "poly":
        kernel |= {"degree": model.degree, "coef0": float(model.coef0)}
    stated: Model = {"model": "SVR", "C": float(model.C), "kernel": kernel}
    if hasattr(model, "classes_"):
        classes = np.asarray(model.classes_).tolist()
        stated |= {"model": "SVC", "class_weight": model.class_weight, "classes": classes,
                   "pairs of classes": len(classes) > 2}
        dual = dual if len(classes) == 2 else of_pairs(dual, np.asarray(model.n_support_))
    else:
        stated["epsilon"] = float(model.epsilon)
    point = {"support": np.asarray(model.support_).tolist(), "coef": dual.T.tolist(),
             "intercept": np.ravel(model.intercept_).tolist()}
    return certificate(stated, point, X, y, {"violation": float(model.tol)})


def of_pairs(dual: Array, counts: Array) -> Array:
    """Return the coefficients (pairs, m) of pairs of classes, of libsvm's layout (classes - 1, m)."""
    codes, k = np.repeat(np.arange(len(counts)), counts), len(counts)
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    return np.array([np.where(codes == i, dual[j - 1], np.where(codes == j, dual[i], 0.0)) for i, j in pairs])


def certificate(stated: Model, point: Mapping[str, Any], X: Any, y: Any, claim: Mapping[str, Any]) -> Model:
    """Return the certificate of a point of a problem, as JSON."""
    return {"certificate": VERSION, "problem": stated, "data": data_of(table(X), y), "point": dict(point),
            "claim": dict(claim)}


def data_of(rows: Array, y: Any) -> Model:
    return {"rows": len(rows), "columns": rows.shape[1], "sha256": digest(rows, y)}


def read_certificate(path: Any) -> Model:
    """Return the certificate in a file; ValueError for anything else."""
    held = json.loads(Path(path).read_text(encoding="utf-8"), object_pairs_hook=single)
    if not isinstance(held, dict) or held.keys() != KEYS or held["certificate"] != VERSION:
        raise ValueError(f"{path} is no certificate of version {VERSION}, an object of {', '.join(sorted(KEYS))}.")
    return held


def prove_certificate(held: Model, X: Any, y: Any, weight: Array | None = None) -> list[Claim]:
    """Return the claims of a certificate: the proven objectives, gaps and violations, and whether what it claims holds.
    """
    rows, claim = table(X), held["claim"]
    stated = held["problem"] | {"kernel": described(held["problem"]["kernel"])}
    support = np.array(held["point"]["support"], dtype=int)
    if not claim.keys() <= {"gap", "violation"}:
        raise ValueError(f"A certificate claims a gap and a violation. Got {sorted(claim)}.")
    point = StatedMachine(support, np.array(held["point"]["coef"], float), np.array(held["point"]["intercept"], float))
    found = [agreed("the data are those of the certificate", held["data"] == data_of(rows, y))]
    weight = np.ones(len(rows)) if weight is None else weight
    for q, (losses, b, gap, primal) in enumerate(measured(stated, rows, y, weight, point)):
        found += objectives(f" {q}", None, q, primal, gap, gap)[:2]
        for name, value in (("gap", gap), ("violation", violation(losses, b))):
            allowed = float(np.atleast_1d(claim.get(name, value))[min(q, np.size(claim.get(name, value)) - 1)])
            found.append(Claim(f"{name} {q}", allowed, value, value <= allowed))
    return found


def violation(losses: LossProgram, b: Array) -> float:
    """Return an upper bound of the largest violation of the optimality conditions, libsvm's measure of its tolerance.

    It is max (slope of the dual downwards, b_i > lo_i) - min (slope upwards, b_i < hi_i), at most 0 at the optimum.
    """
    near = 1e-12 * (losses.hi - losses.lo)  # what counts as at its bound
    lower, raise_ = b > losses.lo + near, b < losses.hi - near
    down, up = (np.where(positive, losses.l1, -losses.l1) for positive in (b > 0, b >= 0))
    return float((down - losses.r.low)[lower].max(initial=-np.inf) - (up - losses.r.high)[raise_].min(initial=np.inf))
