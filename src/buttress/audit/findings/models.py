"""Checks of what was measured: fragile models, novel rows, a model no better than the baseline."""

from collections.abc import Iterable

from buttress._suggest import agreeing
from buttress.audit.findings.finding import Check, Evidence, Finding, Severity
from buttress.audit.measuring.cells import number
from buttress.audit.measuring.suspicion import LISTED
from buttress.audit.writing.words import in_words

MOVED = 0.1  # drop of the accuracy under small moves that is a finding
MUCH_MOVED = 0.3
CORRUPTED = 0.1  # drop of the accuracy when 30% of the labels are wrong; share of the RMSE it grows by, times five
NOVEL = 0.1  # share of the held-out rows that is novel; of rows like the training rows it is about .05
YOURS = "yours ("  # how the row of a user's model begins
IN_PLACE = {  # columns about moves of the data as they came: what is done, and the advice
    "moved": ("Moving every number by at most {eps:g} robust deviations",
              "If inputs are noisy or can be manipulated, train against that, or widen the data."),
    "swapped": ("The worst swap of categories of a row", "See that categories are entered without mistakes."),
    "blanked": ("Leaving the worst cell of a row empty", "Refuse rows with such gaps, or train on rows with them."),
}


class FragileToMoves(Check):
    """The recommended model, or the user's, loses accuracy when a row changes a little."""

    code = "BUT014"
    title = "small moves change predictions"

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        yield from self._recommended(evidence)
        if evidence.classifies:
            for name in (name for name in evidence.rows if name.startswith(YOURS)):
                yield from self._yours(evidence, name)

    def _yours(self, evidence: Evidence, name: str) -> Iterable[Finding]:
        """Yield a finding for each kind of move of the columns as they came that the user's model does not stand."""
        before = evidence.cell(name, "as_is").value
        for key, what in IN_PLACE.items():
            after = evidence.cell(name, key).value
            if before is None or after is None or before - after < MOVED:
                continue
            severity = Severity.error if before - after >= MUCH_MOVED else Severity.warning
            yield self.finding(
                f"{what[0].format(eps=evidence.eps)} takes {name} from {before:.0%} right to {after:.0%}.", what[1],
                severity, estimator=name, move=key, as_is=before, moved=after)

    def _recommended(self, evidence: Evidence) -> Iterable[Finding]:
        before, after = (evidence.cell(evidence.recommended, key).value for key in ("as_is", "attacked"))
        if before is None or after is None or before - after < MOVED:
            return
        severity = Severity.error if before - after >= MUCH_MOVED else Severity.warning
        model = in_words(evidence.recommended or "", "classification")
        moves = f"Moving every number by at most {evidence.eps:g} standard deviations"
        moves = "What the threat allows" if evidence.threatened else moves
        yield self.finding(
            f"{moves} takes the {model} from {before:.0%} right to {after:.0%}.",
            "If inputs are noisy or can be manipulated, train against that (AdversarialClassifier), or widen the data.",
            severity, estimator=evidence.recommended, as_is=before, attacked=after, eps=evidence.eps)


class FragileToLabels(Check):
    """The recommended model gets worse when part of the training targets is wrong: a warning where some look wrong."""

    code = "BUT015"
    title = "wrong training targets change predictions"

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        name, key = evidence.recommended, "flipped_30" if evidence.classifies else "noise_30"
        before, after = evidence.cell(name, "as_is").value, evidence.cell(name, key).value
        if before is None or after is None:
            return
        worse = before - after if evidence.classifies else (after - before) / max(before, 1e-300) / 5
        if worse < CORRUPTED:
            return
        accuracies = f"{before:.0%} right to {after:.0%}"
        said = accuracies if evidence.classifies else f"RMSE {number(before)} to {number(after)}"
        model = in_words(name or "", "classification" if evidence.classifies else "regression")
        yield self.finding(
            f"With 30% of the training targets made wrong, the {model} goes from {said}.",
            "Correct wrong targets first, or use the model that finds wrong targets itself.",
            Severity.warning if evidence.verdicts.wrong.any() else Severity.note, estimator=name, as_is=before,
            corrupted=after)


class Novel(Check):
    """Held-out rows unlike the training rows."""

    code = "BUT016"
    title = "held-out rows are unlike the training rows"

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        count, n = len(evidence.novel), len(evidence.test)
        are = agreeing(count, "is", "are")
        many = count >= NOVEL * n
        if count:
            yield self.finding(f"{count} of {n} held-out rows {are} unlike {'every' if many else 'the'} training "
                               f"row{'' if many else 's'}.",
                               "Predictions there are guesses: collect more rows of that kind." if many else "",
                               Severity.warning if many else Severity.note, rows=evidence.novel[:LISTED], count=count)


class NoBetter(Check):
    """No model predicts better than the majority or the mean."""

    code = "BUT017"
    title = "no model beats the baseline"
    severity = Severity.error

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        if evidence.better == []:
            theirs = evidence.cell(evidence.baseline, evidence.decides)
            yield self.finding(
                f"No model is clearly better than the {evidence.baseline} ({theirs.number()}) on held-out rows.",
                "These columns may not tell the target: look for better ones before better models.",
                baseline=theirs.value)
