"""The curves of the audit: scores by the share of corrupt training targets, and by the radius of attacks."""

from collections.abc import Iterator
from typing import Any

from buttress._types import Supervised
from buttress.audit import options as spending
from buttress.audit.contenders import key_of, settled
from buttress.audit.keeping import kept_stage
from buttress.audit.measuring.cells import Cell
from buttress.audit.measuring.study import Study
from buttress.audit.protocols import Labels
from buttress.checkpoints.memory import Memory
from buttress.datasets import contaminate

IN_TABLE = (0.1, 0.3)  # of these, the columns of the table
RADII = (0.0, 0.5, 1.0, 1.5, 2.0)  # of attacks, in multiples of eps


def noise_curve(study: Study) -> None:
    """Corrupt 10% and 30% first, the table's columns, then the rest of the curve while the budget lasts."""
    kind, prefix = ("flip", "flipped") if study.classifies else ("noise", "noise")
    curve: dict[str, list[Any]] = {"x": list(spending.NOISE)}
    curve |= {name: [None] * len(spending.NOISE) for name in study.entries}
    for name in study.entries:
        curve[name][0] = study.rows[name]["as_is"].value
    for k, rate in enumerate((*IN_TABLE, 0.2, 0.4)):
        study.report(f"{rate:.0%} of training targets corrupted", 0.6 + 0.07 * k)
        _, dirty, _ = contaminate(study.X, study.y, rate, kind, random_state=study.options.seed)
        for name, cell in _of_all(study, rate, dirty):
            curve[name][spending.NOISE.index(rate)] = cell.value
            if rate in IN_TABLE:
                study.rows[name][f"{prefix}_{rate:.0%}".rstrip("%")] = cell
    study.curves["noise"] = curve


def _of_all(study: Study, rate: float, dirty: Labels) -> Iterator[tuple[str, Cell]]:
    """Yield the score of each estimator after a fit to such targets; of rows that are one machine it is fitted once."""
    known: dict[str, tuple[str, Cell]] = {}
    for name, estimator in study.unfitted.items():
        again = settled(estimator, study.models[name])
        key = key_of(name, again)
        if key in known:
            twin, cell = known[key]
            study.unfinished |= {name} if twin in study.unfinished else set()
        elif study.left() < spending.FOR_CURVES * study.options.budget:
            continue
        else:
            cell = _of_dirty(study, name, again, rate, dirty)
            known[key] = name, cell
        yield name, cell


def _of_dirty(study: Study, name: str, estimator: Supervised, rate: float, dirty: Labels) -> Cell:
    """Return the score after a fit to targets of which a share is corrupt."""

    def scored() -> Memory:
        cell = study.score(name, study.fit(name, estimator, dirty))
        return {"cell": vars(cell), "unfinished": name in study.unfinished}

    found = kept_stage(["corrupted", name, rate], scored)
    study.unfinished |= {name} if found["unfinished"] else set()
    return Cell(**found["cell"])


def eps_curve(study: Study) -> None:
    """Attack the fitted classifiers at other radii while the budget lasts.

    What falls within a small radius falls within the larger ones too, so the points and the column of the table are
    taken when all radii have been attacked.
    """
    if not study.classifies:
        return
    radii = [share * study.options.eps for share in RADII]
    curve: dict[str, list[Any]] = {"x": radii} | {name: [None] * len(RADII) for name in study.entries}
    known = {name: {RADII.index(1.0)} for name in study.fallen}
    for k in (4, 1, 3):  # the widest first, then between
        study.report(f"attacks at eps {radii[k]:g}", 0.92)
        for name in known:
            if study.left() - study.attack_seconds[name] > spending.FOR_CURVES * study.options.budget:
                study.attacked(name, radii[k])
                known[name].add(k)
    for name, cells in study.rows.items():
        curve[name][0] = cells["as_is"].value
        for k in known.get(name, ()):
            curve[name][k] = study.stood(name, radii[k]).value
        if name in known:
            cells["attacked"] = study.stood(name, study.options.eps)
    study.curves["eps"] = curve
