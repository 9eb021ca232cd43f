"""What small moves of the inputs do: every classifier attacked within each radius, on the held-out rows that stand.

Of a row that is proven to stand nothing is tried: the share of those is a column of its own. What falls within a small
radius falls within the larger ones too, so that no curve rises, and the column of the table is taken when all radii
have been attacked. Gradient boosting on numbers without gaps is attacked exactly up to the radius of the table: what
trying leaves standing is settled by a program each, as far as the planned work goes.
"""

import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._types import Mask, Predictor, Rows
from buttress.attacks import exact
from buttress.attacks.scoring import Fallen
from buttress.audit.baselines import GUESSES, NAMES, attacked_by_columns, reads_columns
from buttress.audit.contenders import key_of, settled
from buttress.audit.keeping import kept_stage
from buttress.audit.measurements.as_is import AS_IS
from buttress.audit.measuring.cells import Cell, accuracy, attacked_correct, has_gradients, has_scores, queries_a_row
from buttress.audit.measuring.measurement import Cost, Course, Measured, Measurement
from buttress.audit.measuring.split_table import SplitTable
from buttress.audit.measuring.threatened import SOLVER_SECONDS, under_threat
from buttress.certificates import certified_within
from buttress.checkpoints.memory import Memory
from buttress.threats import ThreatModel

FEWEST = 30  # rows attacked by queries: of fewer an interval of an accuracy is wider than .35


def _take(split: SplitTable, measured: Measured) -> Course:
    eps = split.options.radius
    radii = [share * eps for share in split.plan.radii]
    result = Measured(columns={
        "attacked": "accuracy under the worst that the threat allows",
        "certified": "accuracy that nothing the threat allows can lower, proven",
    } if split.options.threat is not None else {
        "attacked": f"accuracy, numbers moved by {eps:g} standard deviations to do harm",
        "certified": "accuracy no attack within eps can lower, proven"})
    if split.options.threat is not None:
        result.notes.append(f"Attacked and proven is what this allows. {split.options.threat}".replace("\n", " "))
    result.cells = {key: {} for key in result.columns}
    attacked = {name: rows for name in measured.models if (rows := _rows(split, name, measured.models[name], result))}
    machines: dict[str, str] = {}  # rows of the table that are one machine are attacked once
    for name, rows in attacked.items():
        first = machines.setdefault(_machine(split, name, measured.models[name]), name)
        result.fallen[name] = result.fallen[first] if first != name else Fallen(measured.losses[name][:rows] == 0)
    order = sorted(radii, key=lambda radius: (radius != eps, -radius))  # the table's, the widest, then between
    for k, radius in enumerate(order):
        for name in machines.values():
            yield f"{name}: attacked at eps {radius:g}", k / len(radii)
            known = _attack(split, name, measured.models[name], radius, result)
            if known and radius == eps:
                twins = (other for other in attacked if result.fallen[other] is result.fallen[name])
                result.cells["certified"] |= dict.fromkeys(twins, _share(split, result.fallen[name].proven >= eps))
    curve: dict[str, list[Any]] = {"x": [0.0, *radii]}
    for name, fallen in result.fallen.items():
        result.cells["attacked"][name] = _share(split, fallen.standing(eps))
        curve[name] = [float(fallen.standing(radius).mean()) for radius in (0.0, *radii)]
    result.curves["eps"] = curve
    for name in filter(reads_columns, result.cells["certified"]):
        decided = (result.fallen[name].proven >= eps) | ~result.fallen[name].standing(eps)
        result.on[f"rows of {name} of which the worst move is known"] = f"{decided.sum()} of {len(decided)}"
    return result


def _machine(split: SplitTable, name: str, model: Predictor) -> str:
    """Return a text that is equal for estimators of the table that are one fitted machine."""
    unfitted = split.unfitted.get(name)
    return name if unfitted is None else key_of(name, settled(unfitted, model))


def _share(split: SplitTable, rows: Mask) -> Cell:
    """Return the share of the first held-out rows that are so."""
    return accuracy(rows, None if split.test.together is None else split.test.together[: len(rows)])


def _rows(split: SplitTable, name: str, model: Predictor, found: Measured) -> int:
    """Return on how many held-out rows a model is attacked, 0 with a note where it cannot be."""
    rows = len(split.test)
    why_not = ""
    if split.in_place(name):
        why_not = f"{name} reads the columns as they came, and is moved in them: see moved, swapped and blanked."
        why_not += "" if split.options.threat is None else " Attack it under the threat with buttress attack --threat."
    elif not has_scores(model):
        why_not = f"{name} gives labels only: it was not attacked, and is not recommended."
    elif name not in NAMES and not has_gradients(model):
        queries = queries_a_row(split.test.X.shape[1], len(np.unique(split.train.y)))
        rows = min(rows, int(split.plan.queries / queries))
        found.on[f"rows of {name} attacked by queries"] = f"{rows} of {len(split.test)}"
        if rows < min(FEWEST, len(split.test)):
            why_not = (f"{name} has no known gradients, and an attack by queries would ask it {queries:,} times a row: "
                       "it was not attacked, and is not recommended. Take more effort.")
        else:
            found.notes.append(f"{name} has no known gradients: it was attacked by queries, with the worst of several "
                               "attacks.")
    if not why_not:
        return rows
    found.unattacked.append(name)
    found.notes.append(why_not)
    return 0


def _attack(split: SplitTable, name: str, model: Predictor, eps: float, found: Measured) -> bool:
    """Prove of the rows that stand what can be proven, and attack the others; say whether any proof is known."""
    fallen = found.fallen[name]

    def attacked() -> Memory:
        threat = split.threat_to(name)
        with warnings.catch_warnings():
            if eps != split.options.radius:  # the table's attack says what there is to say
                warnings.simplefilter("ignore", UserWarning)
            if threat is not None and name not in GUESSES:
                known = _under_threat(split, name, model, threat, eps, fallen)
            else:
                known = _prove(split, name, model, eps, fallen)
                fallen.attack(eps, partial(_survives, split, name, model, eps, fallen))
        return {"radius": fallen.radius, "proven": fallen.proven, "known": known}

    kept = kept_stage(["attacked", name, eps], attacked)
    fallen.radius, fallen.proven = kept["radius"], kept["proven"]
    return bool(kept["known"])


def _under_threat(
    split: SplitTable, name: str, model: Predictor, threat: ThreatModel, share: float, fallen: Fallen
) -> bool:
    """Prove and attack the rows that stand under a multiple of a threat; say whether any proof is known."""
    rows = np.flatnonzero(fallen.standing(share) & (fallen.proven < share))
    if not len(rows):
        return True
    X, y = split.test.taken_by(name)[rows], split.test.y[rows]
    found = under_threat(model, X, y, threat.scaled(share), np.ones(len(rows), dtype=bool), split.options.seed,
                         codes=reads_columns(name) and bool(split.table.categorical), work=split.plan.programs)
    if found.proven is not None:
        fallen.prove(share, rows[found.proven & found.stands])
    stands = dict(zip(rows.tolist(), found.stands.tolist(), strict=True))
    fallen.attack(share, lambda left: np.array([stands[row] for row in left.tolist()], dtype=bool))
    return found.proven is not None


def _prove(split: SplitTable, name: str, model: Predictor, eps: float, fallen: Fallen) -> bool:
    """Note who of the rows that stand is proven to, before any attack; say whether proofs of the model are known."""
    rows = np.flatnonzero(fallen.standing(eps))
    if name in GUESSES:  # a constant cannot be moved
        fallen.prove(np.inf, rows)
        return True
    if reads_columns(name):  # what tries leave standing is settled after them
        return _is_settled(split, name)
    proven = certified(model, split.test.X[rows], eps)
    if proven is not None:
        fallen.prove(eps, rows[proven])
    return proven is not None


def certified(model: Predictor, X: NDArray[np.float64], eps: float) -> Mask | None:
    """Say of which rows no move within eps can change the class; None where no proof is known of such a model."""
    try:
        return certified_within(model, X, eps=eps) if len(X) else np.zeros(0, dtype=bool)
    except ValueError:
        return None


def _survives(split: SplitTable, name: str, model: Predictor, eps: float, fallen: Fallen, rows: Rows) -> Mask:
    """Say which of some held-out rows a fitted model gets right after an attack; note who is proven to."""
    X, y, numbers = split.test.taken_by(name)[rows], split.test.y[rows], len(split.table.numeric)
    if not reads_columns(name):
        return attacked_correct(model, X, y, eps, numbers, split.options.seed)
    stands = attacked_by_columns(model, X, y, eps, numbers, split.options.seed)
    left = np.flatnonzero(stands)
    if len(left) and eps <= split.options.eps and _is_settled(split, name):
        info = exact(model, X[left], y[left], eps=eps, max_time=SOLVER_SECONDS, max_work=split.plan.programs,
                     return_info=True)[1]
        stands[left] = ~info.success
        fallen.prove(eps, rows[left[info.proven & ~info.success]])
    return stands


def _is_settled(split: SplitTable, name: str) -> bool:
    """Say whether a model is attacked exactly: gradient boosting, of which splits of categories and gaps are not read.
    """
    return reads_columns(name) and not split.table.categorical and not np.isnan(split.test.native).any()


ATTACKED = Measurement("moved inputs", _take, Cost(7.0, rows=1.0), (AS_IS.name,), lambda split: split.classifies)

