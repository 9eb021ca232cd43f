"""How a kept model stands moved inputs: its accuracy on labelled rows within each radius."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from buttress._types import Mask, Rows
from buttress.attacks.scoring import Fallen
from buttress.audit.baselines import attacked_by_columns, reads_columns
from buttress.audit.fitted import on_prepared, order_columns
from buttress.audit.measuring.cells import has_gradients, has_scores
from buttress.audit.models.table_model import TableModel
from buttress.audit.protocols import Labels
from buttress.audit.reading.table import make_table
from buttress.displays import RobustnessCurveDisplay

ROWS = 500  # drawn of more: a 95% interval of an accuracy is then at most .09 wide
QUERY_OPTIONS = {"steps": 10, "restarts": 3}


@dataclass
class Robustness:
    """Accuracy within each radius: attacked from above, proven from below, and where the attack saw nothing.

    ``eps`` are in standard deviations of each numeric column, of the training rows if the model knows them; ``proven``
    is None where no proof is known; ``how`` names the attack; ``rows`` is how many were attacked.
    """

    eps: list[float]
    attacked: list[float]
    proven: list[float] | None
    blind: list[bool]
    how: str
    rows: int


def attack(
    model: object, columns: Mapping[str, object], y: object, target: str, eps: Sequence[float], *, rows: int = ROWS,
    seed: int = 0,
) -> Robustness:
    """Attack a fitted classifier on labelled rows within each of the radii; 0 is put in front.

    Raises ValueError for regressions, models without scores, and data that do not suit the model.
    """
    estimator, X, labels, movable, by_columns = _posed(model, columns, y, target)
    if len(X) > rows:
        chosen = np.sort(np.random.default_rng(seed).choice(len(X), rows, replace=False))
        X, labels = X[chosen], labels[chosen]
    radii = sorted({0.0, *(float(radius) for radius in eps)})
    if by_columns:
        fallen = Fallen(np.asarray(estimator.predict(X) == labels))
        shares = [float(fallen.attack(radius, partial(_by_columns, estimator, X, labels, radius, movable, seed)).mean())
                  for radius in radii]
        return Robustness(radii, shares, None, [False] * len(radii), "corners, then column by column", len(X))
    low, high = X.copy(), X.copy()
    low[:, :movable], high[:, :movable] = -np.inf, np.inf
    exact = has_gradients(estimator)
    curve = RobustnessCurveDisplay.from_estimator(
        estimator, X, labels, eps=radii, bounds=(low, high), attack="pgd" if exact else "worst_case", plot=False,
        random_state=seed, attack_options=None if exact else QUERY_OPTIONS)
    proven = None if curve.certified_accuracy is None else np.asarray(curve.certified_accuracy).tolist()
    blind = [False] * len(radii) if curve.blind is None else [bool(mark) for mark in curve.blind]
    how = "projected gradient descent" if exact else "the worst of several attacks by queries"
    return Robustness(radii, np.asarray(curve.attacked_accuracy).tolist(), proven, blind, how, len(X))


def _by_columns(
    estimator: Any, X: NDArray[np.float64], y: Labels, radius: float, movable: int, seed: int, rows: Rows
) -> Mask:
    return attacked_by_columns(estimator, X[rows], y[rows], radius, movable, seed)


def _posed(
    model: object, columns: Mapping[str, object], y: object, target: str
) -> tuple[Any, NDArray[np.float64], Labels, int, bool]:
    """Return the estimator, its rows in standard deviations, their classes, how many columns move, and how."""
    if isinstance(model, TableModel):
        if model.task != "classification":
            raise ValueError(f"The model predicts numbers ({model.target}). Attacks are on classifiers.")
        labels = model.codes_of(y, target)  # type: ignore[arg-type]
        prepare, estimator = model.pipeline[0], model.pipeline[-1]
        X = np.asarray(prepare.transform(model.rows_of(columns)), dtype=np.float64)
        posed = estimator, X, labels, len(model.numeric), reads_columns(model.estimator)
    else:
        posed = _posed_foreign(model, columns, y, target)
    if not has_scores(posed[0]):
        raise ValueError(f"{type(posed[0]).__name__} gives labels only: an attack has no scores to go by.")
    return posed


def _posed_foreign(
    model: Any, columns: Mapping[str, object], y: object, target: str
) -> tuple[Any, NDArray[np.float64], Labels, int, bool]:
    """Return the same for a model that was fitted elsewhere, on numeric columns; the data give the units."""
    known = getattr(model, "classes_", None)
    if known is None:
        raise ValueError(f"The file holds a {type(model).__name__}, which is no classifier; only those are attacked.")
    table, _ = make_table(columns, y, target, "classification")
    order_columns(model, table)
    labels = table.target if known.dtype.kind in "iufb" else table.target.astype(str)
    if set(labels.tolist()) - set(known.tolist()):
        raise ValueError(f"The target {target!r} holds {sorted(set(labels.tolist()) - set(known.tolist()))[0]!r}. The "
                         f"model's classes are {', '.join(map(str, known))}.")
    values = np.column_stack(list(table.numeric.values()))
    scaler = StandardScaler().fit(values)
    return on_prepared(model, scaler), scaler.transform(values), labels, values.shape[1], False
