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
