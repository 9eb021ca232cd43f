"""The share of held-out rows that are right and, by a proof, stay right under every small move.

Only rows that stand the attack can have a proof, so no others are looked at, and what is proven is never more than what
the attack left.
"""

import time
from functools import partial

import numpy as np
from numpy.typing import NDArray

from buttress._types import Predictor
from buttress.audit import options as spending
from buttress.audit.baselines import MAJORITY, reads_columns
from buttress.audit.keeping import kept_stage
from buttress.audit.measuring.cells import Cell, accuracy
from buttress.audit.measuring.study import Study
from buttress.certificates import certified_within
from buttress.checkpoints.memory import Memory

PROVEN_FIRST = 50  # rows whose proofs tell how long those of the others take


def prove(study: Study) -> None:
    """Fill in what is proven of each model that has a certificate, and note on how many rows where not on all."""
    for name, model in study.models.items():
        if name == MAJORITY:  # a constant cannot be moved
            study.rows[name]["certified"] = study.rows[name]["as_is"]
            continue
        if reads_columns(name) or name in study.in_place:
            continue
        fallen = study.fallen.get(name)
        right = np.asarray(model.predict(study.X_test) == study.y_test)
        standing = right if fallen is None else fallen.standing(study.options.eps)
        proven = kept_stage(["certified", name], partial(_certified, study, model, standing))["proven"]
        if proven is None:
            continue
        study.rows[name]["certified"] = proven_share(proven, standing)
        if len(proven) < standing.sum():
            said = f"{len(proven)} of the {standing.sum()} held-out rows of {name} that stand the attack"
            study.subsampled.setdefault("certified", said)


def _certified(study: Study, model: Predictor, standing: NDArray[np.bool_]) -> Memory:
    seconds = spending.ONE_CERTIFICATE * study.left()
    return {"proven": certified(model, study.X_test[standing], study.options.eps, seconds)}


def certified(model: Predictor, X: NDArray[np.float64], eps: float, seconds: float) -> NDArray[np.bool_] | None:
    """Say of each row whether no move within eps can change its class; None where no certificate is known.

    Of the first rows only, where all would take more than some seconds.
    """
    begun = time.monotonic()
    if not len(X):
        return np.empty(0, dtype=bool)
    try:
        proven = certified_within(model, X[:PROVEN_FIRST], eps=eps)
    except ValueError:  # no certificate is known for this model
        return None
    a_row = (time.monotonic() - begun) / len(proven)
    more = X[PROVEN_FIRST : max(PROVEN_FIRST, int(seconds / max(a_row, 1e-9)))]
    if len(more):
        proven = np.concatenate([proven, certified_within(model, more, eps=eps)])
    return proven


def proven_share(proven: NDArray[np.bool_], standing: NDArray[np.bool_]) -> Cell:
    """Return the share of all rows that is proven, from the proofs of the first of the ``standing`` ones.

    Where not all have been looked at it is the share of those standing times the share of these that is proven; the
    interval is that of both, which makes it too wide rather than too narrow.
    """
    if len(proven) == standing.sum():
        everywhere = standing.copy()
        everywhere[standing] = proven
        return accuracy(everywhere)
    one, other = accuracy(standing), accuracy(proven)
    value, low, high = ((a or 0.0) * (b or 0.0) for a, b in (
        (one.value, other.value), (one.low, other.low), (one.high, other.high)))
    return Cell(value, low, high)
