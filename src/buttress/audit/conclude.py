"""From what was measured to the result of an audit: the recommendation, the findings, the verdict, and its settings.

The verdict is sentences in plain English, on the labels, on the inputs and on what to use. A sentence follows from
complete columns and their intervals only: nothing is said of what was cut short.
"""

from collections.abc import Sequence

import numpy as np

from buttress._suggest import agreeing, counted
from buttress._types import Mask
from buttress.audit.against import Comparison
from buttress.audit.baselines import BOOSTING, LINEAR, NAMES, OF_LOG, RIDGE
from buttress.audit.data import ClassScore, Sheet
from buttress.audit.findings import Check, Evidence, Finding, Severity, find_all
from buttress.audit.findings.models import remedy
from buttress.audit.findings.rows import doubt_of
from buttress.audit.measuring.cells import ENOUGH, Cell, accuracy, beats, number
from buttress.audit.measuring.fits import better_than_guessing, recommended
from buttress.audit.measuring.measurement import Measured
from buttress.audit.measuring.split_table import SplitTable
from buttress.audit.measuring.suspicion import none_judged, suspects
from buttress.audit.reading.split import HELD_OUT
from buttress.audit.result import AuditResult
from buttress.audit.writing.paste import paste
from buttress.audit.writing.words import HEADINGS, in_words
from buttress.files.container import Json


def verdict(evidence: Evidence, findings: Sequence[Finding], cut: Sequence[str] = ()) -> list[str]:
    """Return three sentences: whether the labels can be trusted, whether the inputs can, and which model to use.

    ``cut`` names the measurements for which there was no time.
    """
    return [_labels(evidence, findings), _inputs(findings, cut), _use(evidence, cut)]


def _labels(evidence: Evidence, findings: Sequence[Finding]) -> str:
    kind = "label" if evidence.classifies else "target"
    verdicts = evidence.verdicts
    judged = len(verdicts.given)
    if not judged:
        return f"Labels: the {kind}s were not judged."
    extra = "".join(f" {finding.title}" for finding in findings if finding.code in ("BUT011", "BUT022"))
    wrong = int(verdicts.wrong.sum())
    low, high = verdicts.interval
    if not wrong and any(finding.code == "BUT001" and finding.severity is Severity.error for finding in findings):
        return f"Labels: cannot tell: a column gives the {kind}s away, so it agrees with wrong ones too.{extra}"
    if not wrong and high <= 0.01:  # of the targets, at most
        return f"Labels: no {kind} of the {judged} rows judged looks wrong.{extra}"
    if not wrong:
        return (f"Labels: cannot tell: no single {kind} of the {judged} judged stands out, but between {low:.0%} and "
                f"{high:.0%} may be wrong.{extra}")
    sure = "few enough to look at one by one" if wrong <= 30 else "correct the first of them before you tune a model"
    tail = doubt_of(evidence) or sure
    return (f"Labels: {'cannot tell: ' * (tail != sure)}{wrong} of the {judged} {kind}s judged "
            f"{agreeing(wrong, 'looks', 'look')} wrong, and between {low:.1%} and {high:.1%} are estimated to be; "
            f"{tail}.{extra}")


def _inputs(findings: Sequence[Finding], cut: Sequence[str]) -> str:
    codes = ("BUT001", "BUT002", "BUT003", "BUT004", "BUT006", "BUT009", "BUT010", "BUT014", "BUT016", "BUT021",
             "BUT023", "BUT024")
    found = [finding for finding in findings if finding.code in codes]
    bad = [finding for finding in found if finding.severity is not Severity.note]
    if not bad:
        unseen = f"; not measured: {', '.join(cut)}" if cut else ""
        noted = f"nothing worse than {counted(len(found), 'note')} below" if found else "nothing that was looked for"
        return f"Inputs: {noted} was found in the columns{unseen}."
    more = f" ({len(bad) - 1} more below)" if len(bad) > 1 else ""
    return f"Inputs: {bad[0].title.rstrip('.')}{more}."


def _use(evidence: Evidence, cut: Sequence[str]) -> str:
    name = evidence.recommended
    if cut:
        return f"Use: no model is recommended: the time was too short. Not measured: {', '.join(cut)}."
    if len(evidence.test) < ENOUGH:
        return "Use: there are too few rows to tell which model is best."
    if evidence.better == []:
        return f"Use: no model is clearly better than the {evidence.baseline}; {remedy(evidence)}"
    if name is None:
        return f"Use: no model that may be recommended is clearly better than the {evidence.baseline}."
    kinds = {"as_is": "{} right" if evidence.classifies else "RMSE {}", "mae": "mean error {}",
             "balanced": "{} right of each class on average"}
    says = kinds[evidence.decides].format(_score(evidence, name))
    r2 = evidence.cell(name, "r2").value
    says += f", R² {r2:.2f}" if r2 is not None else ""
    says += f" on held-out rows; the {evidence.baseline} has {_score(evidence, evidence.baseline)}"
    return f"Use: {in_words(name, evidence.table.task)}: {says}. {_why(name, evidence)}"


def _score(evidence: Evidence, name: str) -> str:
    """Return a model's score by the metric that decides."""
    value = evidence.cell(name, evidence.decides).value or 0.0
    return f"{value:.0%}" if evidence.classifies else number(value)


def _why(name: str, evidence: Evidence) -> str:
    """Return why it was chosen: it is the simplest that none clearly beats, or it withstands what simpler ones do not.
    """
    plain = [other for other in evidence.rows if other.startswith((*LINEAR, BOOSTING, RIDGE, "plain"))]
    if name in plain:
        kind = "A linear model, the easiest to explain: none" if name in LINEAR or name == RIDGE + OF_LOG else "None"
        return f"{kind} is clearly better here."
    withstood = {"attacked": "moved inputs", "flipped_30": "wrong labels", "noise_30": "wrong targets"}
    better = [says for key, says in withstood.items() if plain and all(
        beats(evidence.cell(name, key), evidence.cell(other, key), evidence.classifies)
        for other in (*plain, evidence.baseline))]
    if better:
        return f"None is clearly better here, and it withstands {' and '.join(better)} better than the plain models."
    return "None is clearly better here."


def conclude(
    split: SplitTable, measured: Measured, checks: Sequence[Check] = (), against: Comparison | None = None,
    seconds: float = 0.0,
) -> AuditResult:
    """Return the result of what was measured; ``checks`` are the user's own."""
    table, options = split.table, split.options
    best = recommended(split, measured)
    order = [*HEADINGS, *measured.columns]
    measured.columns = dict(sorted(measured.columns.items(), key=lambda column: order.index(column[0])))
    rows = measured.rows(list(split.entries))
    shown = measured.rows(list({**split.entries, **measured.models}))
    verdicts = measured.verdicts or none_judged(table.target, split.classifies)
    suspicion = verdicts.counts(len(table), np.isin(measured.judged, split.test.places))
    evidence = Evidence(
        table, split.train.places, split.test.places, measured.judged, verdicts, rows, best,
        split.baseline, options.eps, novel=measured.novel, against=against, decides=split.decides,
        better=better_than_guessing(split, measured), threatened=options.threat is not None)
    findings = find_all(evidence, checks, options.ignore, measured.known)
    plain = next(name for name in split.entries if name not in NAMES)
    return AuditResult(
        task=table.task, metric=str(split.metric), columns=measured.columns, rows=shown, curves=measured.curves,
        suspicion=suspicion, suspects=suspects(verdicts, table, measured.judged),
        novel=measured.novel, recommended=best,
        code=paste(table, split.unfitted.get(best or plain, split.entries[best or plain])),
        data={"source": table.origin[0] or table.origin[1], "target": table.target_name, "rows": len(table),
              **split.sides, "numeric": list(table.numeric), "categorical": list(table.categorical)},
        settings=_settings(split), findings=findings,
        gain=measured.gain, labels=measured.labels, along=measured.along,
        associations=measured.associations, precision=measured.precision,
        by_class=_by_class(split, measured, best or plain),
        verdict=verdict(evidence, findings, measured.cut), baseline=evidence.baseline, measured=measured.on,
        cut=measured.cut, notes=_notes(split, measured, suspicion.held_out_above_half),
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


def _settings(split: SplitTable) -> Json:
    options = split.options
    threat = options.threat
    return {"eps": options.eps, "eps_unit": "standard deviations of each numeric feature",
            "norm": "linf" if threat is None else threat.norm, "threat": None if threat is None else str(threat),
            "attack": "PGD, 40 steps, 2 starts; for scores without gradients the worst of several attacks by queries; "
                      "of gradient boosting on numbers without gaps exact, as far as the planned work goes; numeric "
                      "features only",
            "swaps": options.swaps, "effort": str(options.effort), "max_time": options.max_time,
            "rows": options.rows, "seed": options.seed, "ignore": list(options.ignore),
            "interval": f"95% {'Clopper-Pearson' if split.classifies else 'bootstrap'} over held-out rows",
            "groups": options.groups, "time": options.time, "drop": list(options.drop), "metric": str(split.metric)}


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
