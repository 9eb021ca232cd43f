"""From what a study measured to its result: the recommendation, the notes and the settings it was made under."""

import time
from typing import TYPE_CHECKING

from buttress.audit.reading.split import HELD_OUT
from buttress.audit.result import AuditResult, recommend
from buttress.audit.writing.paste import paste

if TYPE_CHECKING:
    from buttress.audit.study import Study  # which imports this module

NO_VOTE = ("certified", "median")  # columns that do not count for the recommendation
# Two estimators differ beyond chance (sign test, 5%) when six rows or more are right with one of them only; of fewer
# than twenty rows that would be a difference of .3, and the interval of no error at all reaches from .83 to 1.
ENOUGH = 20
INTERVAL = {"accuracy": "95% Clopper-Pearson over held-out rows", "rmse": "95% bootstrap over held-out rows"}
ATTACK = ("PGD, 40 steps, 2 starts; for scores without gradients the worst of several attacks by queries; numeric "
          "features only")


def conclude(study: "Study", source: str) -> AuditResult:
    """Return the result of a finished study of the data called ``source``."""
    table = study.table
    options = study.options
    columns = study.columns()
    judged = [key for key in columns if key not in NO_VOTE]
    metric = "accuracy" if study.classifies else "rmse"
    candidates = [name for name in study.unfitted if name not in study.unattacked]
    best = recommend({name: {key: study.rows[name][key] for key in judged} for name in candidates}, metric)
    few = len(study.y_test) < ENOUGH
    pasted = study.entries[next(iter(study.entries)) if few else best]
    if study.novel:
        columns["novel"] = f"{metric} on the {len(study.novel)} novel held-out rows".replace("rmse", "RMSE")
    skipped = sum(study.rows[name][key].value is None for name in candidates for key in judged)
    if skipped:
        study.subsampled["skipped"] = f"{skipped} cells of the table"
    data = {"source": source, "target": table.target_name, "rows": len(table), **study.sizes,
            "numeric": list(table.numeric), "categorical": list(table.categorical)}
    settings = {"eps": options.eps, "eps_unit": "standard deviations of each numeric feature", "norm": "linf",
                "attack": ATTACK, "budget": options.budget,
                "rows": options.rows, "seed": options.seed, "interval": INTERVAL[metric]}
    return AuditResult(
        task=study.task, metric=metric, columns=columns, rows=study.rows, curves=study.curves,
        suspicion=study.suspicion, suspicious=study.suspicious, novel=study.novel, recommended=None if few else best,
        code=paste(table, pasted), data=data, settings=settings, subsampled=study.subsampled,
        notes=_notes(study), seconds=time.monotonic() - study.started,
    )


def _notes(study: "Study") -> list[str]:
    notes = [*study.table.notes, *study.notes]
    if study.classifies and not study.table.numeric:
        notes.append("No numeric features: the attack had nothing to perturb.")
    if len(study.y_test) < ENOUGH:
        notes.append(f"{len(study.y_test)} held-out rows are too few to recommend an estimator; {ENOUGH} are needed, "
                     f"of about {round(ENOUGH / HELD_OUT)} rows in all. The code is that of the plain machine.")
    if study.unfinished:
        notes.append(f"Not all fits converged of: {', '.join(sorted(study.unfinished))}. Raise the budget, or use "
                     "fewer rows.")
    wrong = study.suspicion["held_out_above_half"]
    if wrong:
        regression = "" if study.classifies else " RMSE, and what it recommends, follow those rows: see the median."
        notes.append(f"{wrong} of the {len(study.y_test)} held-out rows look wrong themselves; every figure takes "
                     f"their targets as they are.{regression}")
    return notes
