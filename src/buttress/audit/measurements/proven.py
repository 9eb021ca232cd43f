"""The share of held-out rows that are right and, by a proof, stay right under every small move.

Only rows that stand the attack can have a proof, so no others are looked at, and what is proven is never more than what
the attack left.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from buttress._types import Mask, Predictor
from buttress.audit.baselines import MAJORITY
from buttress.audit.keeping import kept_stage
from buttress.audit.measurements.as_is import AS_IS
from buttress.audit.measurements.attacked import ATTACKED, standing
from buttress.audit.measuring.cells import accuracy
from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.split_table import SplitTable
from buttress.certificates import certified_within
from buttress.checkpoints.memory import Memory


def _take(split: SplitTable, measured: Measured) -> Course:
    found = Measured(columns={"certified": "accuracy no attack within eps can lower, proven"}, cells={"certified": {}})
    for k, (name, model) in enumerate(measured.models.items()):
        yield f"{name}: certificates", k / len(measured.models)
        if name == MAJORITY:  # a constant cannot be moved
            found.cells["certified"][name] = measured.cells["as_is"][name]
        elif name in measured.settled:
            found.cells["certified"][name] = accuracy(measured.settled[name])
        elif not split.in_place(name):
            stands = standing(split, name, measured)
            proven = kept_stage(["certified", name], partial(_certified, split, name, model, stands))["proven"]
            if proven is not None:
                found.cells["certified"][name] = accuracy(proven)
    return found


def _certified(split: SplitTable, name: str, model: Predictor, stands: Mask) -> Memory:
    return {"proven": certified(model, split.test.taken_by(name), split.options.eps, stands)}


def certified(model: Predictor, X: NDArray[np.float64], eps: float, stands: Mask) -> Mask | None:
    """Say of each row whether it stands and no move within eps can change its class; None where no proof is known."""
    proven = stands.copy()
    try:
        if stands.any():
            proven[stands] = certified_within(model, X[stands], eps=eps)
    except ValueError:  # no certificate is known for this model
        return None
    return proven


PROVEN = Measurement("proofs against moved inputs", _take, Cost(3.0), (AS_IS.name, ATTACKED.name),
                     lambda split: split.classifies)
