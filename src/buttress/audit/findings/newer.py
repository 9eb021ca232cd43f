"""Checks of newer rows against the table, and of later ones in it: drifted columns, novel rows, models that may fail.
"""

from collections.abc import Iterable

from buttress._suggest import agreeing, counted, listed
from buttress._types import Labels
from buttress.audit.against.tests import changed
from buttress.audit.findings.columns import LEVEL, SHOWN
from buttress.audit.findings.finding import Evidence, Finding, Made, Severity
from buttress.audit.measuring.suspicion import LISTED
from buttress.audit.reading.cautions import LOOKED_AT


def drifted(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Columns whose newer entries come from another distribution."""
    found = evidence.against
    if found is not None and found.drifted:
        says = {one.column: one.says for one in found.columns}
        first = found.drifted[0]
        yield finding(
            f"In {found.source!r} {len(found.drifted)} of {len(found.columns)} columns drifted: "
            f"{listed(found.drifted, SHOWN)}. {first!r}: {says[first]}.",
            "Find out why before a model is used on the new rows.", columns=found.drifted,
            p_values={one.column: one.p for one in found.columns if one.drifted})


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
    found = evidence.against
    if found is not None and found.novel:
        yield finding(
            f"{len(found.novel)} of {found.rows} rows of {found.source!r} "
            f"{agreeing(len(found.novel), 'is', 'are')} farther from the audited rows than those are from each "
            f"other, such as row {found.novel[0]}.",
            "Predictions there are guesses: have them checked by a person.", rows=found.novel[:LISTED],
            count=len(found.novel))


def untrusted(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """A model of the table that does worse on newer rows, or may."""
    found = evidence.against
    if found is None or found.trusted:
        return
    if found.worse:
        assert found.score_old is not None
        assert found.score_new is not None
        says = f"a median error of {found.score_old:.4g} on held-out rows, but {found.score_new:.4g}"
        if evidence.classifies:
            says = f"{found.score_old:.0%} of held-out rows right, but {found.score_new:.0%}"
        yield finding(
            f"Gradient boosting has {says} on those of {found.source!r}.", "Train again with newer rows.",
            score_old=found.score_old, score_new=found.score_new, p_value=found.p_score)
        return
    why = [f"they can be told apart (AUC {found.auc:.2f})"] * found.apart
    why += [f"{counted(len(found.drifted), 'column')} drifted"] * bool(found.drifted)
    novel = len(found.novel)
    why += [f"{counted(novel, 'row')} {agreeing(novel, 'is', 'are')} novel"] * bool(novel)
    yield finding(
        f"The rows of {found.source!r} are not like the audited ones: {'; '.join(why)}. Without their targets it "
        "cannot be said how a model does on them.", "Get the targets of some, and audit against them.",
        Severity.warning, auc=found.auc, p_value=found.p_apart)
