"""Checks of models and of what they will meet: fragile, no better than the baseline; novel rows, drifted columns."""

from collections.abc import Iterable

import numpy as np

from buttress._suggest import agreeing, counted, listed
from buttress._types import Labels
from buttress.audit.against import changed
from buttress.audit.findings.columns import LEVEL, SHOWN
from buttress.audit.findings.finding import Evidence, Finding, Made, Severity
from buttress.audit.measuring.cells import ENOUGH, number
from buttress.audit.measuring.suspicion import LISTED
from buttress.audit.reading.cautions import LOOKED_AT
from buttress.audit.writing.words import in_words

# columns about moves: what is done, and the advice; those behind the first are of the data as they came, for any model
MOVES = {
    "attacked": ("Moving every number by at most {eps:g} standard deviations", "If inputs are noisy or can be "
                 "manipulated, train against that (AdversarialClassifier), or widen the data."),
    "moved": ("Moving every number by at most {eps:g} robust deviations",
              "If inputs are noisy or can be manipulated, train against that, or widen the data."),
    "swapped": ("The worst swap of categories of a row", "See that categories are entered without mistakes."),
    "blanked": ("Leaving the worst cell of a row empty", "Refuse rows with such gaps, or train on rows with them."),
}


def fragile_to_moves(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """The recommended model, or the user's, loses accuracy when a row changes a little."""
    first, *in_place = MOVES
    yours = [name for name in evidence.rows if evidence.classifies and name.startswith("yours (")]  # of a user's model
    asked = [(evidence.recommended or "", first), *((name, key) for name in yours for key in in_place)]
    for name, key in asked:
        before, after = (evidence.cell(name, column).value for column in ("as_is", key))
        if before is None or after is None or before - after < 0.1:
            continue
        what, advice = MOVES[key]
        what = "What the threat allows" if evidence.threatened and key == first else what
        model = name if key in in_place else f"the {in_words(name, 'classification')}"
        facts = ({"move": key, "as_is": before, "moved": after} if key in in_place else
                 {"as_is": before, "attacked": after, "eps": evidence.eps})
        yield finding(f"{what.format(eps=evidence.eps)} takes {model} from {before:.0%} right to {after:.0%}.", advice,
                      Severity.error if before - after >= 0.3 else Severity.warning, estimator=name, **facts)


def fragile_to_labels(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """The recommended model gets worse when part of the training targets is wrong: a warning where some look wrong."""
    name, key = evidence.recommended, "flipped_30" if evidence.classifies else "noise_30"
    before, after = evidence.cell(name, "as_is").value, evidence.cell(name, key).value
    if before is None or after is None:
        return
    worse = before - after if evidence.classifies else (after - before) / max(before, 1e-300) / 5
    if worse < 0.1:  # of the accuracy, or a fifth of what the RMSE grows by
        return
    accuracies = f"{before:.0%} right to {after:.0%}"
    said = accuracies if evidence.classifies else f"RMSE {number(before)} to {number(after)}"
    model = in_words(name or "", evidence.table.task)
    yield finding(
        f"With 30% of the training targets made wrong, the {model} goes from {said}.",
        "Correct wrong targets first, or use the model that finds wrong targets itself.",
        Severity.warning if evidence.verdicts.wrong.any() else Severity.note, estimator=name, as_is=before,
        corrupted=after)


def novel(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Held-out rows unlike the training rows."""
    count, n = len(evidence.novel), len(evidence.test)
    are = agreeing(count, "is", "are")
    many = count >= 0.1 * n  # of rows like the training rows the share is about .05
    if count:
        yield finding(f"{count} of {n} held-out rows {are} unlike {'every' if many else 'the'} training "
                      f"row{'' if many else 's'}.",
                      "Predictions there are guesses: collect more rows of that kind." if many else "",
                      Severity.warning if many else Severity.note, rows=evidence.novel[:LISTED], count=count)


def no_better(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """No model predicts better than the majority or the mean."""
    if evidence.better == []:
        theirs = evidence.cell(evidence.baseline, evidence.decides)
        advice = remedy(evidence)
        yield finding(
            f"No model is clearly better than the {evidence.baseline} ({theirs.number()}) on held-out rows.",
            f"{advice[0].upper()}{advice[1:]}", baseline=theirs.value)


def remedy(evidence: Evidence) -> str:
    """Return what to do where no model beats the baseline: the columns are named last, for others may be the cause."""
    classes, rows = np.unique(evidence.target[evidence.test], return_counts=True)
    if evidence.decides == "balanced" and rows.min() < ENOUGH:
        return f"too few rows of class {str(classes[rows.argmin()])!r} are held out to tell: collect more of it."
    if not evidence.classifies and evidence.verdicts.wrong.any():
        return "look at the targets that look wrong first: a few far out decide the error."
    return "look for better columns before better models."


def drifted(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Columns whose newer entries come from another distribution."""
    newer = evidence.against
    if newer is not None and newer.drifted:
        says = {one.column: one.says for one in newer.columns}
        first = newer.drifted[0]
        yield finding(
            f"In {newer.source!r} {len(newer.drifted)} of {len(newer.columns)} columns drifted: "
            f"{listed(newer.drifted, SHOWN)}. {first!r}: {says[first]}.",
            "Find out why before a model is used on the new rows.", columns=newer.drifted,
            p_values={one.column: one.p for one in newer.columns if one.drifted})


def along_the_file(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Columns whose entries in the latter half of the file come from another distribution than those in the former."""
    table = evidence.table
    step = -(-len(table) // LOOKED_AT)
    columns: dict[str, Labels] = {**table.numeric, **table.categorical, table.target_name: evidence.target}
    columns = {name: column[::step] for name, column in columns.items()}
    rows = len(columns[table.target_name])
    sure = changed(columns, rows - rows // 2, LEVEL)
    found = [name for name in columns if name in sure]
    if found:
        yield finding(
            f"The latter half of the file differs from the former in {len(found)} of {len(columns)} columns: "
            f"{listed(found, SHOWN)}.",
            "If the rows are in order of time, hold out the last; if the file was sorted, nothing is wrong.",
            columns=found)


def novel_rows(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Newer rows far from all rows of the table."""
    newer = evidence.against
    if newer is not None and newer.novel:
        yield finding(
            f"{len(newer.novel)} of {newer.rows} rows of {newer.source!r} "
            f"{agreeing(len(newer.novel), 'is', 'are')} farther from the audited rows than those are from each "
            f"other, such as row {newer.novel[0]}.",
            "Predictions there are guesses: have them checked by a person.", rows=newer.novel[:LISTED],
            count=len(newer.novel))


def untrusted(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """A model of the table that does worse on newer rows, or may."""
    newer = evidence.against
    if newer is None or newer.trusted:
        return
    if newer.worse:
        assert newer.score_old is not None
        assert newer.score_new is not None
        says = f"a median error of {newer.score_old:.4g} on held-out rows, but {newer.score_new:.4g}"
        if evidence.classifies:
            says = f"{newer.score_old:.0%} of held-out rows right, but {newer.score_new:.0%}"
        yield finding(
            f"Gradient boosting has {says} on those of {newer.source!r}.", "Train again with newer rows.",
            score_old=newer.score_old, score_new=newer.score_new, p_value=newer.p_score)
        return
    why = [f"they can be told apart (AUC {newer.auc:.2f})"] * newer.apart
    why += [f"{counted(len(newer.drifted), 'column')} drifted"] * bool(newer.drifted)
    novel = len(newer.novel)
    why += [f"{counted(novel, 'row')} {agreeing(novel, 'is', 'are')} novel"] * bool(novel)
    yield finding(
        f"The rows of {newer.source!r} are not like the audited ones: {'; '.join(why)}. Without their targets it "
        "cannot be said how a model does on them.", "Get the targets of some, and audit against them.",
        Severity.warning, auc=newer.auc, p_value=newer.p_apart)
