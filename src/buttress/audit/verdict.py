"""The verdict of an audit: sentences in plain English, on the labels, on the inputs and on what to use.

A sentence follows from complete columns and their intervals only: nothing is said of what was cut short.
"""

from collections.abc import Sequence

from buttress._suggest import agreeing, counted
from buttress.audit.baselines import BOOSTING, LINEAR, OF_LOG, RIDGE
from buttress.audit.findings import Evidence, Finding, Severity
from buttress.audit.findings.models import remedy
from buttress.audit.findings.rows import doubt_of
from buttress.audit.measuring.cells import ENOUGH, beats, number
from buttress.audit.writing.words import in_words


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
        return f"Labels: cannot tell: a column gives the {kind}s away, and so agrees with wrong ones.{extra}"
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
        return f"Use: no model is recommended, for want of time. Not measured: {', '.join(cut)}."
    if len(evidence.test) < ENOUGH:
        return "Use: there are too few rows to tell which model is best."
    if evidence.better == []:
        return f"Use: no model is clearly better than the {evidence.baseline}; {remedy(evidence)}"
    if name is None:
        return f"Use: no model that was attacked is clearly better than the {evidence.baseline}."
    kinds = {"as_is": "{} right" if evidence.classifies else "RMSE {}", "mae": "mean error {}",
             "balanced": "{} right of each class on average"}
    says = kinds[evidence.decides].format(_score(evidence, name))
    r2 = evidence.cell(name, "r2").value
    says += f", R² {r2:.2f}" if r2 is not None else ""
    says += f" on held-out rows; the {evidence.baseline} has {_score(evidence, evidence.baseline)}"
    task = "classification" if evidence.classifies else "regression"
    return f"Use: {in_words(name, task)}: {says}. {_why(name, evidence)}"


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
        return f"As it is none is clearly better, and it stands {' and '.join(better)} better than the plain models."
    return "None is clearly better here."
