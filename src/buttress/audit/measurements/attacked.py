"""What small moves do: of the inputs of every classifier, and of the data as they came, of every estimator.

Every classifier is attacked within each radius, on the held-out rows that stand. Of a row that is proven to stand
nothing is tried: the share of those is a column of its own. What falls within a small radius falls within the larger
ones too, so that no curve rises, and the column of the table is taken when all radii have been attacked. Gradient
boosting on numbers without gaps is attacked exactly, as far as the planned work goes.
"""

import warnings
from typing import Any

import numpy as np

from buttress._types import Predictor
from buttress.attacks.scoring import Fallen
from buttress.attacks.swaps import WRONG
from buttress.audit.baselines import GUESSES, NAMES, Yours, reads_columns
from buttress.audit.keeping import kept_stage
from buttress.audit.measurements.scores import AS_IS
from buttress.audit.measuring.cells import Cell, has_gradients, has_scores, queries_a_row
from buttress.audit.measuring.measurement import Cost, Measured, Measurement, Stages
from buttress.audit.measuring.split_table import SplitTable
from buttress.audit.measuring.threatened import under_threat
from buttress.audit.moves import AskedModel, on_prepared_rows
from buttress.checkpoints.journal import Memory

FEWEST = 30  # rows attacked by queries: of fewer an interval of an accuracy is wider than .35


def _take_inputs(split: SplitTable, measured: Measured) -> Stages:
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
    attacked = {name: rows for name in measured.models if (rows := _tested(split, name, measured.models[name], result))}
    result.fallen = {name: Fallen(measured.losses[name][:rows] == 0) for name, rows in attacked.items()}
    order = sorted(radii, key=lambda radius: (radius != eps, -radius))  # the table's, the widest, then between
    for k, radius in enumerate(order):
        for name in attacked:
            yield f"{name}: attacked at eps {radius:g}", k / len(radii)
            known = _attack(split, name, measured.models[name], radius, result)
            if known and radius == eps:
                result.cells["certified"][name] = split.score(result.fallen[name].proven < eps)
    curve: dict[str, list[Any]] = {"x": [0.0, *radii]}
    for name, fallen in result.fallen.items():
        result.cells["attacked"][name] = split.score(~fallen.standing(eps))
        curve[name] = [float(fallen.standing(radius).mean()) for radius in (0.0, *radii)]
    result.curves["eps"] = curve
    for name in filter(reads_columns, result.cells["certified"]):
        decided = (result.fallen[name].proven >= eps) | ~result.fallen[name].standing(eps)
        result.on[f"rows of {name} of which the worst move is known"] = f"{decided.sum()} of {len(decided)}"
    return result


def _tested(split: SplitTable, name: str, model: Predictor, result: Measured) -> int:
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
        result.on[f"rows of {name} attacked by queries"] = f"{rows} of {len(split.test)}"
        if rows < min(FEWEST, len(split.test)):
            why_not = (f"{name} has no known gradients, and an attack by queries would ask it {queries:,} times a row: "
                       "it was not attacked, and is not recommended. Take more effort.")
        else:
            result.notes.append(f"{name} has no known gradients: it was attacked by queries, with the worst of several "
                               "attacks.")
    if not why_not:
        return rows
    result.unattacked.append(name)
    result.notes.append(why_not)
    return 0


def _attack(split: SplitTable, name: str, model: Predictor, eps: float, result: Measured) -> bool:
    """Prove of the rows that stand what can be proven, and attack the others; say whether any proof is known."""
    fallen = result.fallen[name]

    def attacked() -> Memory:
        with warnings.catch_warnings():
            if eps != split.options.radius:  # the table's attack says what there is to say
                warnings.simplefilter("ignore", UserWarning)
            known = _under_threat(split, name, model, eps, fallen)
        return {"radius": fallen.radius, "proven": fallen.proven, "known": known}

    kept = kept_stage(["attacked", name, eps], attacked)
    fallen.radius, fallen.proven = kept["radius"], kept["proven"]
    return bool(kept["known"])


def _under_threat(split: SplitTable, name: str, model: Predictor, share: float, fallen: Fallen) -> bool:
    """Prove and attack the rows that stand under a multiple of the threat; say whether any proof is known."""
    if name in GUESSES:  # a constant cannot be moved
        fallen.prove(np.inf, np.flatnonzero(fallen.standing(share)))
    rows = np.flatnonzero(fallen.standing(share) & (fallen.proven < share))
    if not len(rows):
        return True
    X, y = split.test.taken_by(name)[rows], split.test.y[rows]
    found = under_threat(model, X, y, split.threat_to(name).scaled(share), np.ones(len(rows), dtype=bool),
                         split.options.seed, codes=reads_columns(name) and bool(split.table.categorical),
                         work=split.plan.programs)
    if found.proven is not None:
        fallen.prove(share, rows[found.proven & found.stands])
    fallen.radius[rows[~found.stands]] = share
    return found.proven is not None


ATTACKED = Measurement("moved inputs", _take_inputs, Cost(7.0, rows=1.0), (AS_IS.name,), lambda split: split.classifies)


def _take_moves(split: SplitTable, measured: Measured) -> Stages:
    yours = split.yours
    assert yours is not None
    result = Measured(columns={key: move.says for key, move in yours.moves.items()},
                      cells={key: {} for key in yours.moves},
                      curves={key: {"x": list(move.steps)} for key, move in yours.moves.items()})
    # so many rows that each model is asked as often as is planned
    rows = {key: min(len(split.test), max(FEWEST, int(split.plan.queries / move.asks)))
            for key, move in yours.moves.items()}
    result.on = {f"rows of which {move.on}": f"{rows[key]} of {len(split.test)}" for key, move in yours.moves.items()}
    for k, (name, model) in enumerate(measured.models.items()):
        asked = yours.model.asked() if name == yours.name else on_prepared_rows(
            model, split.features.native if reads_columns(name) else split.features.prepared, split.table.target,
            split.classifies)
        for key, move in yours.moves.items():
            yield f"{name}: {key}", k / len(measured.models)
            cells = _kept_search(split, yours, name, asked, key, rows[key])
            result.cells[key][name] = cells[int(np.argmin(np.abs(np.array(move.steps) - move.shown)))]
            result.curves[key][name] = [cell.value for cell in cells]
    return result


def _kept_search(split: SplitTable, yours: Yours, name: str, asked: AskedModel, key: str, rows: int) -> list[Cell]:
    """Return the cells of one curve, or what the checkpoint of the audit keeps of them."""

    def searched() -> Memory:
        return {"cells": [vars(cell) for cell in _search(split, yours, asked, key, rows)]}

    return [Cell(**cell) for cell in kept_stage(["moves", name, key], searched)["cells"]]


def _search(split: SplitTable, yours: Yours, asked: AskedModel, key: str, count: int) -> list[Cell]:
    rows = yours.model.space.rows(split.test.places)[:count]
    searched = [[harm(rows), *yours.moves[key].worst(harm, rows)] for harm in asked.harms(split.table.target)]
    harms = [np.max(one, axis=0) for one in zip(*searched, strict=True)]
    return [split.score(harm >= WRONG if split.classifies else harm**2) for harm in harms]


MOVED = Measurement("moves of the columns as they came", _take_moves, Cost(60.0), (AS_IS.name,),
                    lambda split: split.yours is not None)
