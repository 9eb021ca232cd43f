"""What is measured on the rows of the evidence: each with its interval, rows, seed and what measured it."""

from collections.abc import Mapping

import numpy as np

from buttress._types import Labels
from buttress.audit.measuring.cells import Cell, accuracy, rmse
from buttress.audit.models.attacking import attack
from buttress.evidence.statements import Statement
from buttress.threats import ThreatModel


def of_labels(y: Labels, predicted: Labels) -> list[Statement]:
    """Return the accuracy, that of the commonest class, and the share that is right of each class."""
    right = predicted == y
    commonest = max(sorted(set(y.tolist())), key=y.tolist().count)
    each = [(label, y == label) for label in sorted(set(y.tolist()))]
    return [_measured("accuracy", accuracy(right), len(y), "of the rows are predicted right"),
            _measured("accuracy of the commonest class", accuracy(y == commonest), len(y),
                      f"would be right if {commonest!r} were predicted for every row"),
            *(_measured(f"right of class {label}", accuracy(right[rows]), int(rows.sum()),
                        f"of the rows of class {label!r} are predicted right") for label, rows in each)]


def of_numbers(y: Labels, predicted: Labels, seed: int) -> list[Statement]:
    """Return the root mean squared error, and that of the mean of these rows."""
    target = y.astype(np.float64)
    error, least = rmse(target - predicted, seed), rmse(target - target.mean(), seed)
    return [_measured("root mean squared error", error, len(y), "in units of the target", seed),
            _measured("error of the mean", least, len(y),
                      "if the mean of these rows were predicted for every row", seed)]


def under_attack(
    model: object, columns: Mapping[str, object], y: object, target: str, threat: ThreatModel | None, eps: float,
    seed: int,
) -> Statement:
    """Return the accuracy that an attack leaves: the true one is no larger."""
    found = attack(model, columns, y, target, [eps], rows=len(np.asarray(y, dtype=object)), seed=seed, threat=threat)
    rows = found.rows
    blind = ". The attack was blind: near most rows no score changed, so this says nothing" if found.blind[-1] else ""
    cell = accuracy(np.arange(rows) < round(found.attacked[-1] * rows))
    return _measured("accuracy under attack", cell, rows,
                     f"of the rows are still right after {found.how}: under the threat it is at most this{blind}", seed,
                     "attack")


def _measured(name: str, cell: Cell, rows: int, says: str, seed: int | None = None, by: str = "predict") -> Statement:
    return Statement("measured", name, cell.value,
                     f"{cell.value:.4g} (95% interval {cell.low:.3g} to {cell.high:.3g}) {says}.",
                     {"rows": rows, "interval": [cell.low, cell.high], "seed": seed, "by": by})
