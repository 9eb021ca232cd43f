"""From what a study measured to its result: the recommendation, the findings, the verdict, and its settings."""

import time
from collections.abc import Sequence
from typing import Any

from buttress._suggest import counted
from buttress.audit.against.compare import Comparison
from buttress.audit.baselines import GUESSES, NAMES, SIMPLER
from buttress.audit.findings import Check, Evidence, find_all
from buttress.audit.measuring.cells import Cell, beats
from buttress.audit.measuring.moves import KINDS
from buttress.audit.measuring.study import Study
from buttress.audit.measuring.suspicion import suspects
from buttress.audit.reading.split import HELD_OUT
from buttress.audit.result import AuditResult
from buttress.audit.sheet import Sheet
from buttress.audit.verdict import verdict
from buttress.audit.writing.paste import paste

NO_VOTE = ("certified", "median", "r2", *KINDS)  # columns that do not count for the recommendation
# Two estimators differ beyond chance (sign test, 5%) when six rows or more are right with one of them only; of fewer
# than twenty rows that would be a difference of .3, and the interval of no error at all reaches from .83 to 1.
ENOUGH = 20
INTERVAL = {"accuracy": "95% Clopper-Pearson over held-out rows", "rmse": "95% bootstrap over held-out rows"}
ATTACK = ("PGD, 40 steps, 2 starts; for scores without gradients the worst of several attacks by queries; numeric "
          "features only")


def conclude(
    study: Study, source: str, checks: Sequence[Check] = (), against: Comparison | None = None
) -> AuditResult:
    """Return the result of a finished study of the data called ``source``; ``checks`` are the user's own."""
    table, options, columns = study.table, study.options, study.columns()
    judged = [key for key in columns if key not in NO_VOTE]
    metric = "accuracy" if study.classifies else "rmse"
    best = _best(study, judged, metric)
    few = len(study.y_test) < ENOUGH
    plain = next(name for name in study.entries if name not in NAMES)
    if study.novel:
        columns["novel"] = f"{metric} on the {len(study.novel)} novel held-out rows".replace("rmse", "RMSE")
    skipped = sum(study.rows[name][key].value is None for name in study.unfitted for key in judged
                  if name not in study.unattacked)
    if skipped:
        study.subsampled["skipped"] = f"{counted(skipped, 'cell')} of the table"
    assert study.verdicts is not None
    evidence = Evidence(table, study.classifies, study.train, study.test, study.judged, study.verdicts, study.rows,
                        None if few else best, next(name for name in study.rows if name in GUESSES), options.eps,
                        study.novel, against)
    findings = find_all(evidence, checks, options.ignore, study.known)
    return AuditResult(
        task=study.task, metric=metric, columns=columns, rows=study.rows, curves=study.curves,
        suspicion=study.suspicion, suspects=suspects(study.verdicts, table, study.judged), novel=study.novel,
        recommended=None if few else best, code=paste(table, study.entries[plain if few else best]),
        data=_data(study, source), settings=_settings(study, INTERVAL[metric]), findings=findings,
        verdict=verdict(evidence, findings), baseline=evidence.baseline, subsampled=study.subsampled,
        notes=_notes(study), seconds=time.monotonic() - study.started,
        against=None if against is None else against.to_dict(),
        sheet=Sheet(table, study.verdicts, study.judged, options.rows is not None),
    )


def _best(study: Study, judged: list[str], metric: str) -> str:
    """Return the simplest of the estimators that are as good as any over the judged columns.

    One that predicts the majority everywhere cannot be moved by any attack. Where some are clearly better than the
    baseline on the rows as they are, only those are compared.
    """
    able = [name for name in study.unfitted if name not in study.unattacked and name not in GUESSES]
    guess = next(study.rows[name]["as_is"] for name in study.rows if name in GUESSES)
    able = [name for name in able if beats(study.rows[name]["as_is"], guess, study.classifies)] or able
    order = [name for name in SIMPLER if name in able] + [name for name in able if name not in SIMPLER]
    return recommend({name: {key: study.rows[name][key] for key in judged} for name in order}, metric)


def _data(study: Study, source: str) -> dict[str, Any]:
    table = study.table
    return {"source": source, "target": table.target_name, "rows": len(table), **study.sizes,
            "numeric": list(table.numeric), "categorical": list(table.categorical)}


def _settings(study: Study, interval: str) -> dict[str, Any]:
    options = study.options
    return {"eps": options.eps, "eps_unit": "standard deviations of each numeric feature", "norm": "linf",
            "attack": ATTACK, "swaps": options.swaps, "budget": options.budget, "rows": options.rows,
            "seed": options.seed, "ignore": list(options.ignore), "interval": interval}


def _notes(study: Study) -> list[str]:
    notes = [*study.table.notes, *study.notes]
    if study.classifies and not study.table.numeric:
        notes.append("No numeric features: the attack had nothing to perturb.")
    if len(study.y_test) < ENOUGH:
        notes.append(f"{len(study.y_test)} held-out rows are too few to recommend an estimator; {ENOUGH} are needed, "
                     f"of about {round(ENOUGH / HELD_OUT)} rows in all. The code is that of the plain machine.")
    if study.unfinished:
        notes.append(f"Not all fits converged of: {', '.join(sorted(study.unfinished))}. Raise the budget, or use "
                     "fewer rows.")
    wrong = study.suspicion.held_out_above_half
    if wrong:
        regression = "" if study.classifies else " RMSE, and what it recommends, follow those rows: see the median."
        notes.append(f"{wrong} of the {len(study.y_test)} held-out rows "
                     f"{'looks wrong itself' if wrong == 1 else 'look wrong themselves'}; every figure takes "
                     f"their targets as they are.{regression}")
    return notes


def recommend(rows: dict[str, dict[str, Cell]], metric: str, margin: float = 0.01) -> str:
    """Return the first estimator whose mean over the columns measured of all is clearly beaten by none.

    ``rows`` are in order of simplicity. Clearly means by more than ``margin``; for RMSE that is a share of its mean.
    """
    shared = [key for key in next(iter(rows.values())) if all(cells[key].value is not None for cells in rows.values())]
    if not shared:
        return next(iter(rows))
    means = {name: sum(cells[key].value or 0.0 for key in shared) / len(shared) for name, cells in rows.items()}
    sign = 1 if metric == "accuracy" else -1
    best = max(sign * mean for mean in means.values())
    needed = {name: margin if metric == "accuracy" else margin * abs(mean) for name, mean in means.items()}
    return next(name for name, mean in means.items() if best - sign * mean <= needed[name])
