"""Certificates that need the training rows: how far a fit is from its optimum, and what wrong labels could change."""

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
from buttress.certificates import training_flips
from buttress.evidence.statements import Proven, Statement
from buttress.least_squares import LeastSquaresClassifier
from buttress.persistence import save
from buttress.scores import fitted_inside
from buttress.verify.core import Model
from buttress.verify.evidence import TARGET, TRAINING
from buttress.verify.machines import told_apart
from buttress.verify.proofs import prove_held

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
