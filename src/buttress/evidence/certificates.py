"""The certificates of evidence: of rows under a threat, and of the fit, for which the training rows are needed.

Of rows: for each a radius that the verifier proves again, or none. The library's radius of every way to swap a row is
where the search begins; the verifier's own proof, run here, decides. So what is written is what ``buttress-verify``
finds. Work is counted in boxes and their sizes, never in seconds.

Of the fit: how far it is from its optimum, and what wrong labels could change.
"""

import csv
import io
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, SVR

from buttress import verify
from buttress._types import Array, Labels
from buttress.certificates import certified_radius, training_flips
from buttress.evidence.folder import Proven, Statement
from buttress.expansion import KernelExpansion
from buttress.kernels import Kernel
from buttress.least_squares import LeastSquaresClassifier
from buttress.persistence import save
from buttress.scores import as_classifier, fitted_inside, read_scores
from buttress.threats import Moves, ThreatModel, read_threat
from buttress.trees import NAMES, Forest, read_forest
from buttress.verify.core import Model
from buttress.verify.evidence import TARGET, TRAINING, prove_held
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


FLIPS = "labels.json"


def as_csv(X: Array, y: Any) -> bytes:
    """Return rows and targets as CSV, each number in as many digits as tell it apart."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([*range(X.shape[1]), TARGET])
    writer.writerows([*map(repr, row), label] for row, label in zip(X.tolist(), y, strict=True))
    return text.getvalue().encode()


def innermost(model: Any, X: Any) -> tuple[Any, Array]:
    """Return the last step of pipelines, and rows as it takes them."""
    while isinstance(model, Pipeline) or fitted_inside(model) is not None:
        inner = fitted_inside(model)
        X = model[:-1].transform(X) if inner is None and len(model.steps) > 1 else X
        model = model[-1] if inner is None else inner
    return model, np.ascontiguousarray(X, dtype=np.float64)


def prove_optimum(model: Any, X: Any, y: Labels) -> Proven:
    """Return how far the last step of a model is from the optimum of its problem on the training rows (n, d)."""
    last, rows = innermost(model, X)
    try:
        name, content, held = _fit_file(last, rows, y)
        claims = prove_held(held, rows, np.asarray(y).astype(str).tolist())
    except IndexError:
        return Proven([], {}, f"no gap is proven of {type(last).__name__}: it was fitted to more than the {len(rows)} "
                              "training rows given")
    except (ValueError, TypeError, LookupError) as error:
        return Proven([], {}, f"no gap is proven of {type(last).__name__}: {error}")
    if not all(claim.holds for claim in claims):
        return Proven([], {}, f"the gap of {type(last).__name__} is not proven on these training rows: "
                              f"{next(claim.name for claim in claims if not claim.holds)}. Are they those of the fit, "
                              "without weights?")
    gap = 1.1 * max(claim.proven for claim in claims if "gap" in claim.name)  # another processor sums in another order
    reached = max(abs(claim.proven) for claim in claims if "primal" in claim.name)
    said = Statement("proven", "distance from the optimum, at most", gap,
                     f"The objective that {type(last).__name__} was trained to minimise is within {gap:.3g} of its "
                     f"least possible value ({100 * gap / reached if reached else 0.0:.2g}% of what it reached), on "
                     f"{len(rows)} training rows.",
                     {"file": name, "value": "gap", "at": 0.0})
    return Proven([said], {name: content, TRAINING: as_csv(rows, y)})


def _fit_file(last: Any, X: Array, y: Labels) -> tuple[str, bytes, Model]:
    """Return the name and the content of the file that holds a fit, and what the verifier reads in it."""
    if type(last) in (SVC, SVR):
        held = {**verify.from_duals(last, X, y), "claim": {}}
        return "optimum.json", json.dumps(held).encode(), held
    if type(last).__name__ not in ("SVC", "SVR", "LinearSVC") or not type(last).__module__.startswith("buttress."):
        raise ValueError("it is no machine whose optimum can be bounded here")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimum.buttress"
        save(last, path)
        return path.name, path.read_bytes(), verify.read_model(path)


def prove_labels(model: Any, X: Any, y: Labels, Z: Any, words: list[str]) -> Proven:
    """Return how many predictions at rows Z (m, d) stand wrong labels among the training rows X (n, d)."""
    last, rows = innermost(model, X)
    asked = innermost(model, Z)[1]
    if type(last) is LeastSquaresClassifier:
        kernel = last.expansion_.kernel
        stated = {"kernel": {"class": type(kernel).__name__, **kernel.get_params()}, "alpha": last.alpha_,
                  "intercept": True}
    elif type(last) is RidgeClassifier and np.ndim(last.alpha) == 0:
        stated = {"kernel": {"class": "Linear", "coef0": 0.0}, "alpha": float(last.alpha),
                  "intercept": bool(last.fit_intercept)}
    else:
        return Proven([], {}, f"how many wrong labels change a prediction is proven of least squares, not of "
                              f"{type(last).__name__}")
    try:
        told_apart(words, words)
        found = training_flips(last, rows, y, asked)
    except ValueError as error:
        return Proven([], {}, f"wrong labels that change predictions are not proven on these training rows: {error}")
    labels = [words[code] for code in np.searchsorted(last.classes_, y)]
    prediction = np.array(words)[np.searchsorted(last.classes_, found.prediction)]
    held = verify.from_flips({**stated, "classes": words}, rows, labels, asked, found)
    held["claim"]["prediction"] = prediction.tolist()
    claims = prove_held(held, rows, labels)
    needed = [None if claim.proven == math.inf else claim.proven for claim in claims[1:]]
    held["claim"]["needed"] = needed
    k = math.ceil(0.01 * len(rows))  # of the training labels
    stands = np.array([each is None or each > k for each in needed])
    said = Statement("proven", f"predictions that stand {k} wrong training labels, at least", float(stands.mean()),
                     f"{stands.sum()} of {len(stands)} predictions stay the same whichever {k} of {len(rows)} training "
                     "labels are wrong.", {"file": FLIPS, "value": "predictions kept", "at": float(k)})
    return Proven([said], {FLIPS: json.dumps(held).encode(), TRAINING: as_csv(rows, labels)})
