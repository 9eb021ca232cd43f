"""Which proof belongs to which model and certificate."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from . import balls, joins, machines
from .core import Array, Claim, Model, table
from .foreign import prove_certificate
from .inputs import threatened, trees
from .moves import TARGETS, prove_moves
from .training import LEAST_SQUARES, prove_flips

Proof = Callable[[Model, Array, Any, Array], list[Claim]]
PROOFS: dict[str, tuple[Callable[[Model], Model], Proof]] = {
    "SVC": (machines.problem, machines.machine), "SVR": (machines.problem, machines.machine),
    "LinearSVC": (machines.problem, machines.hyperplane), "SVDD": (balls.problem, balls.ball),
    "MultiKernelSVDD": (balls.problem, balls.ball), "RobustBoostingClassifier": (trees.problem, trees.sound)}
CERTIFICATES = {LEAST_SQUARES: prove_flips, TARGETS: prove_moves, trees.TREES: trees.prove_trees,
                threatened.THREATENED: threatened.prove_threat}


def prove(model: Model, X: Array, y: Any = None, weight: Array | None = None) -> list[Claim]:
    """Return the claims of a model read by :func:`read_model`, on its training rows X (n, d) and targets y (n,)."""
    if model["class"] not in PROOFS:
        raise ValueError(f"{model['class']} makes no claim that is checked here, but {', '.join(PROOFS)} do.")
    proof, rows = PROOFS[model["class"]][1], table(X)
    weight = np.ones(len(rows)) if weight is None else np.maximum(weight, 0)  # a negative one leaves its row out
    claims = proof(model, rows, y, weight)
    # a proof that rounding spoils is tried again with longer numbers, which are slow
    if len(rows) > 3_000 or all(claim.holds for claim in claims) or not claims[0].holds:
        return claims
    return proof(model, rows.astype(np.longdouble), y, weight)


def prove_held(model: Model, X: Array, y: Any, weight: Array | None = None) -> list[Claim]:
    """Return the claims of a model or of a certificate."""
    if "certificate" not in model:
        return prove(model, X, y, weight)
    return CERTIFICATES.get(model["problem"]["model"], prove_certificate)(model, X, y, weight)


def problem_of(model: Model) -> Model:
    """Return the problem that a model or a certificate states, as plain JSON."""
    if "certificate" in model:
        return dict(model["problem"])
    stated = joins.problem(model) if model["class"] == "RelationalLinearSVC" else PROOFS[model["class"]][0](model)
    return dict(json.loads(json.dumps(stated, default=lambda value: np.asarray(value).tolist())))
