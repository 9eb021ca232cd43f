"""The verdict of an audit: three sentences in plain English, on the labels, on the inputs and on what to use."""

from collections.abc import Sequence

from buttress.audit.baselines import BOOSTING, GUESSES, LINEAR, NAMES, OF_LOG, RIDGE
from buttress.audit.findings import Evidence, Finding, Severity
from buttress.audit.findings.rows import MANY
from buttress.audit.measuring.cells import number

LABELS = ("BUT007", "BUT008", "BUT011")
INPUTS = ("BUT001", "BUT002", "BUT003", "BUT004", "BUT006", "BUT009", "BUT010", "BUT014", "BUT016")


def verdict(evidence: Evidence, findings: Sequence[Finding]) -> list[str]:
    """Return three sentences: whether the labels can be trusted, whether the inputs can, and which model to use."""
    return [_labels(evidence, findings), _inputs(findings), _use(evidence, findings)]


def _labels(evidence: Evidence, findings: Sequence[Finding]) -> str:
    kind = "label" if evidence.classifies else "target"
    judged = len(evidence.verdicts.given)
    words = [finding for finding in findings if finding.code == "BUT011" and finding.severity is Severity.error]
    count = sum(finding.evidence["count"] for finding in words)
    extra = f" {count} {'is a word' if count == 1 else 'are words'} for a missing value." if words else ""
    wrong = int(evidence.verdicts.wrong.sum())
    if not wrong:
        return f"Labels: no {kind} of the {judged} rows judged looks wrong.{extra}"
    share = float(evidence.verdicts.probability.sum()) / judged
    tail = "few enough to look at one by one" if wrong <= 30 else "correct the first of them before you tune a model"
    if any(finding.code == "BUT007" and finding.evidence["doubtful"] for finding in findings):
        tail = "some of them may be right, as the columns do not tell everything"
    if share >= MANY:
        tail = f"so many may also mean that the columns do not tell the {kind}s"
    look = "looks" if wrong == 1 else "look"
    return (f"Labels: {wrong} of the {judged} {kind}s judged {look} wrong, and about {share:.1%} are estimated to be; "
            f"{tail}.{extra}")


def _inputs(findings: Sequence[Finding]) -> str:
    bad = [finding for finding in findings if finding.code in INPUTS and finding.severity is not Severity.note]
    if not bad:
        return "Inputs: nothing in the columns looks wrong."
    more = f" ({len(bad) - 1} more below)" if len(bad) > 1 else ""
    return f"Inputs: {bad[0].title.rstrip('.')}{more}."


def _use(evidence: Evidence, findings: Sequence[Finding]) -> str:
    name = evidence.recommended
    if name is None:
        return "Use: there are too few rows to tell which model is best."
    if any(finding.code == "BUT017" for finding in findings):
        return (f"Use: no model is clearly better than the {evidence.baseline}; look for better columns before better "
                "models.")
    score = evidence.cell(name, "as_is").value or 0.0
    says = f"{score:.0%} right" if evidence.classifies else f"RMSE {number(score)}"
    r2 = evidence.cell(name, "r2").value
    says += f", R² {r2:.2f}" if r2 is not None else ""
    says += f" on held-out rows; the {evidence.baseline} has {_baseline(evidence)}"
    return f"Use: {name} ({says}). {_why(name)}"


def _baseline(evidence: Evidence) -> str:
    value = evidence.cell(evidence.baseline, "as_is").value or 0.0
    return f"{value:.0%}" if evidence.classifies else number(value)


def _why(name: str) -> str:
    """Return why the simplest model that is as good as any was chosen."""
    if name in LINEAR or name == RIDGE + OF_LOG:
        return "A plain linear model is as good as anything here, and the easiest to explain."
    if name.startswith(BOOSTING):
        return "It is the standard for tables; nothing robust is clearly better here."
    if name.startswith("plain"):
        return "No robust machine is clearly better here, and no simpler model as good."
    if name not in (*NAMES, *GUESSES) and not name.startswith("yours"):
        return "Over all measures of the table it holds up best against moved inputs and wrong labels."
    return "Over all measures of the table it is the best."
