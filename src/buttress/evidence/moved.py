"""The certificate of rows under a threat: for each row a radius that the verifier proves again, or none.

The library's radius of every way to swap a row is where the search begins; the verifier's own proof, run here, decides.
So what is written is what ``buttress-verify`` finds. Work is counted in boxes and their sizes, never in seconds.
"""

import json
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from buttress import verify
from buttress._types import Array, Labels
from buttress.certificates import certified_radius
from buttress.evidence.statements import Proven, Statement
from buttress.expansion import KernelExpansion
from buttress.kernels import Kernel
from buttress.scores import as_classifier, read_scores
from buttress.threats import Moves, ThreatModel, read_threat
from buttress.trees import NAMES, Forest, read_forest
from buttress.verify.core import Model
from buttress.verify.inputs.threatened import keeps, read_reach
from buttress.verify.inputs.threatened import read_scores as opened
from buttress.verify.inputs.trees import as_json
from buttress.verify.kernels import described
from buttress.verify.machines import contrasts, told_apart

FILE = "moved.json"
LARGEST = 100.0  # times the budgets: a radius is stated no larger
SHARES = (1 - 2.0**-14, 0.97, 0.9, 0.75, 0.5, 0.25)  # of the library's radius, tried in turn
NARROWER = 1 - 2.0**-10  # times a radius that is stated: another processor sums in another order
MOST_WORK = 60_000_000  # numbers that proofs look at, each box counting as BOX more: about half a minute
BOX = 10_000


def scores_of(model: Any, X: Array) -> Model:
    """Return the scores of a classifier as a certificate holds them; ValueError where no proof is known."""
    forest = read_forest(as_classifier(model), X)
    if forest is not None and forest.unit > Forest.unit:
        raise ValueError(f"proofs are of scores in float64, and {_last_step(model)} sums in float32")
    if forest is not None:
        return as_json(forest)
    score = read_scores(as_classifier(model))
    held = None if score is None else score.expansion
    if score is None or score.sizes is not None or not isinstance(held, KernelExpansion):
        raise ValueError(f"no proof is known for {_last_step(model)}: its scores are neither a kernel expansion nor "
                         f"trees ({NAMES})")
    if any(part.dtype != np.float64 for part in (held.centers, held.coef)):
        raise ValueError("proofs are of scores in float64: fit the model to rows in float64")
    pairs = next((pairs for pairs in (False, True)
                  if np.array_equal(score.contrasts, contrasts(len(score.contrasts), pairs=pairs))), None)
    if pairs is None:
        raise ValueError(f"no proof is known for the way in which {_last_step(model)} decides")
    wide = {name: np.broadcast_to(np.asarray(getattr(score, name), float).ravel(), X.shape[1]).tolist()
            for name in ("shift", "scale", "origin")}
    arrays = {name: np.asarray(getattr(held, name), float).tolist() for name in ("centers", "coef", "intercept")}
    linear = None if held.linear is None else np.asarray(held.linear, float).tolist()
    return {"kernel": described(_kernel(held.kernel)), "pairs": pairs, "linear": linear, **arrays, **wide}


def _last_step(model: Any) -> str:
    """Return what the last step of pipelines is called."""
    return _last_step(model[-1]) if isinstance(model, Pipeline) else type(model).__name__


def _kernel(kernel: Kernel) -> Model:
    """Return a kernel by its class and parameters."""
    held = kernel.get_params(deep=False)
    if "kernels" in held:
        held["kernels"] = [_kernel(inner) for inner in held["kernels"]]
    return {"class": type(kernel).__name__, **held}


def written(moves: Moves) -> Model:
    """Return a threat as a certificate holds it: a larger one without bounds, directions and steps."""
    groups = [{"places": group.places.tolist(), "choices": group.choices.tolist()} for group in moves.groups]
    return {"reach": moves.reach[0].tolist(), "groups": groups, "most_swaps": moves.most}


def prove_rows(model: Any, X: Array, words: list[str], y: list[str], threat: ThreatModel, said: str) -> Proven:
    """Return for each row of X (n, d), whose labels are y, a radius in multiples of a threat's budgets.

    ``said`` is the threat in words.
    """
    try:
        told_apart(words, y)
        scores = scores_of(model, X)
    except ValueError as error:
        return Proven([], {}, str(error))
    if not np.isfinite(X).all():
        return Proven([], {}, "rows have gaps after their preparation, and proofs are of finite numbers")
    moves = read_threat(threat, X, X)
    stated = written(moves)
    codes = np.searchsorted(model.classes_, model.predict(X))
    radius, untried = _radii(model, X, codes, moves, scores, words)
    claim = {"prediction": [words[code] for code in codes], "radius": radius}
    held = verify.from_threat(scores, words, stated, X, y, claim)
    files = {FILE: json.dumps(held, allow_nan=False).encode()}
    return Proven(_statements(held, y, untried, said), files, radius=radius)


def _radii(
    model: Any, X: Array, codes: Labels, moves: Moves, scores: Model, words: list[str]
) -> tuple[list[float | None], int]:
    """Return the radii that the verifier proves, None for none, and how many rows were not tried."""
    opened_scores, stated = opened(scores, words, X.shape[1]), written(moves)
    reach = read_reach(stated, X.shape[1])
    size = BOX + np.size(scores["centers"]) * len(words) if "centers" in scores else (
        BOX + sum(len(tree["left"]) for tree in scores["trees"]) * len(words))
    tried = X[: int(MOST_WORK / (size * moves.count()))]
    most = _of_library(model, tried, codes[: len(tried)], moves)
    found: list[float | None] = [None] * len(X)
    for i, x in enumerate(tried):
        sizes = (float(share * min(most[i], LARGEST)) for share in SHARES if most[i] >= 0)
        found[i] = next((NARROWER * each for each in sizes
                         if keeps(opened_scores, stated, x, int(codes[i]), each * reach)), None)
    return found, len(X) - len(tried)


def _of_library(model: Any, X: Array, codes: Labels, moves: Moves) -> Array:
    """Return the least radius (n,) of all ways to swap a row, -1 where a swap alone changes its class."""
    least = np.full(len(X), np.inf)
    for way in moves.ways() if len(X) else ():
        swapped = moves.swapped(X, way)
        if moves.reach.any():
            least = np.minimum(least, certified_radius(model, swapped, norm="linf", scale=moves.reach).linf)
        least[np.searchsorted(model.classes_, model.predict(swapped)) != codes] = -1.0
    return least


def _statements(held: Model, y: list[str], untried: int, threat: str) -> list[Statement]:
    claim = held["claim"]
    radius = np.array([-1.0 if each is None else each for each in claim["radius"]])
    right = np.array(claim["prediction"]) == np.array(y)
    kept, proven = radius >= 1, radius >= 0
    rests = {"file": FILE}
    beyond = f" {untried} rows were not tried: the work would have been too much." if untried else ""
    return [
        Statement("proven", "accuracy under the threat, at least", float((right & kept).mean()),
                  f"{(right & kept).sum()} of {len(y)} rows are predicted right and stay so whatever is done within "
                  f"the threat. {threat}", {**rests, "value": "rows right and kept", "at": 1.0}),
        Statement("proven", "rows with a proven radius", float(proven.mean()),
                  f"{proven.sum()} of {len(y)} rows have a radius (times the threat's budgets, beside its swaps) "
                  f"within which the prediction stays, right or wrong; {(~proven).sum()} are not proven.{beyond}",
                  {**rests, "value": "rows kept", "at": 0.0})]
