"""From what was measured to the result of an audit: the recommendation, the findings, the verdict, and its settings."""

from collections.abc import Sequence

import numpy as np

from buttress._types import Mask
from buttress.audit.against.compare import Comparison
from buttress.audit.baselines import NAMES
from buttress.audit.data import ClassScore
from buttress.audit.findings import Check, Evidence, find_all
from buttress.audit.measuring.cells import ENOUGH, Cell, accuracy
from buttress.audit.measuring.choosing import better_than_guessing, recommended
from buttress.audit.measuring.measurement import Measured
from buttress.audit.measuring.split_table import SplitTable
from buttress.audit.measuring.suspicion import none_judged, suspects
from buttress.audit.reading.split import HELD_OUT
from buttress.audit.result import AuditResult
from buttress.audit.sheet import Sheet
from buttress.audit.verdict import verdict
from buttress.audit.writing.paste import paste
from buttress.audit.writing.words import HEADINGS
from buttress.files.container import Json

INTERVAL = {"accuracy": "95% Clopper-Pearson over held-out rows", "rmse": "95% bootstrap over held-out rows"}


def conclude(
    split: SplitTable, measured: Measured, source: str, checks: Sequence[Check] = (), against: Comparison | None = None,
    seconds: float = 0.0,
) -> AuditResult:
    """Return the result of what was measured of the data called ``source``; ``checks`` are the user's own."""
    table, options = split.table, split.options
    metric = "accuracy" if split.classifies else "rmse"
    best = recommended(split, measured)
    order = [*HEADINGS, *measured.columns]
    measured.columns = dict(sorted(measured.columns.items(), key=lambda column: order.index(column[0])))
    rows = measured.rows(list(split.entries))
    shown = measured.rows(list({**split.entries, **measured.models}))
    verdicts = measured.verdicts or none_judged(table.target, split.classifies)
    evidence = Evidence(table, split.classifies, split.train.places, split.test.places, measured.judged, verdicts, rows,
                        best, split.baseline, options.eps, measured.novel, against, split.decides,
                        better_than_guessing(split, measured), options.threat is not None)
    findings = find_all(evidence, checks, options.ignore, measured.known)
    plain = next(name for name in split.entries if name not in NAMES)
    return AuditResult(
        task=split.task, metric=metric, columns=measured.columns, rows=shown, curves=measured.curves,
        suspicion=verdicts.counts(len(table)), suspects=suspects(verdicts, table, measured.judged),
        novel=measured.novel, recommended=best,
        code=paste(table, split.unfitted.get(best or plain, split.entries[best or plain])),
        data={"source": source, "target": table.target_name, "rows": len(table), **split.sides,
              "numeric": list(table.numeric), "categorical": list(table.categorical)},
        settings=_settings(split, INTERVAL[metric]), findings=findings,
        gain=measured.gain, labels=measured.labels, along=measured.along,
        associations=measured.associations, precision=measured.precision,
        by_class=_by_class(split, measured, best or plain),
        verdict=verdict(evidence, findings, measured.cut), baseline=evidence.baseline, measured=measured.on,
        cut=measured.cut, notes=_notes(split, measured, verdicts.counts(len(table)).held_out_above_half),
        against=None if against is None else against.to_dict(), seconds=seconds,
        sheet=Sheet(table, verdicts, measured.judged, options.rows is not None),
    )


def _by_class(split: SplitTable, measured: Measured, name: str) -> dict[str, ClassScore]:
    """Return the scores of each class of a model on the held-out rows, none where it was not asked or of numbers."""
    answers, y, together = measured.answers.get(name), split.test.y, split.test.together
    if answers is None or not split.classifies:
        return {}

    def share(right: Mask, among: Mask) -> Cell:
        return accuracy(right[among], None if together is None else together[among]) if among.any() else Cell()

    return {str(label): ClassScore(int((y == label).sum()), share(answers == label, y == label),
                                   share(y == label, answers == label)) for label in np.unique(y).tolist()}


def _settings(split: SplitTable, interval: str) -> Json:
    options = split.options
    threat = options.threat
    return {"eps": options.eps, "eps_unit": "standard deviations of each numeric feature",
            "norm": "linf" if threat is None else threat.norm, "threat": None if threat is None else str(threat),
            "attack": "PGD, 40 steps, 2 starts; for scores without gradients the worst of several attacks by queries; "
                      "of gradient boosting on numbers without gaps exact, as far as the planned work goes; numeric "
                      "features only",
            "swaps": options.swaps, "effort": str(options.effort), "max_time": options.max_time,
            "rows": options.rows, "seed": options.seed, "ignore": list(options.ignore), "interval": interval,
            "groups": options.groups, "time": options.time, "metric": str(split.metric)}


def _notes(split: SplitTable, measured: Measured, wrong: int) -> list[str]:
    notes = [*split.table.notes, *measured.notes]
    if split.classifies and not split.table.numeric:
        notes.append("No numeric features: the attack had nothing to perturb.")
    if len(split.test) < ENOUGH:
        notes.append(f"{len(split.test)} held-out rows are too few to recommend an estimator; {ENOUGH} are needed, "
                     f"of about {round(ENOUGH / HELD_OUT)} rows in all. The code is that of the plain machine.")
    if measured.unfinished:
        notes.append(f"Not all fits converged of: {', '.join(sorted(set(measured.unfinished)))}.")
    if wrong:
        regression = "" if split.classifies else " RMSE, and what it recommends, follow those rows: see the median."
        notes.append(f"{wrong} of the {len(split.test)} held-out rows "
                     f"{'looks wrong itself' if wrong == 1 else 'look wrong themselves'}; every figure takes "
                     f"their targets as they are.{regression}")
    return notes
