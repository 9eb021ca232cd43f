"""The corrected table audited again, beside the first audit: what the decisions changed."""

from dataclasses import dataclass

import numpy as np

from buttress.audit.call import audit_table
from buttress.audit.data import AuditData
from buttress.audit.options import Effort, Options
from buttress.audit.reading.table import make_table
from buttress.audit.reading.texts import as_array
from buttress.review.course import Review
from buttress.review.store import Action


@dataclass(frozen=True)
class Compared:
    """A line for each thing that was measured twice: what, before and after; ``refused`` says why there is none."""

    lines: list[tuple[str, str, str]]
    refused: str = ""


def compared(review: Review) -> Compared:
    """Audit the table with the decisions of a review at little effort, and return both beside each other."""
    table = review.table
    target = table.target.copy()
    kept = np.ones(len(target), dtype=bool)
    for key, one in list(review.store.current.items()):
        place = review.place_of[key]
        kept[place] = one.action is not Action.drop
        if one.action is Action.correct:
            target[place] = review.target_after(place, one)
    try:
        audited = []
        for y, rows in ((table.target, np.ones(len(target), dtype=bool)), (target, kept)):
            columns = {name: as_array(column)[table.places][rows] for name, column in table.given.items()}
            made, task = make_table(columns, y[rows], table.target_name, review.result.task)
            audited.append(audit_table(None, made, task, Options(task=task, effort=Effort.quick), None, 0.0, "again"))
    except ValueError as error:
        return Compared([], str(error))
    return Compared(_lines(*audited))


def _lines(before: AuditData, after: AuditData) -> list[tuple[str, str, str]]:
    def said(found: AuditData) -> list[str]:
        looks = found.suspicion
        name = found.recommended or found.baseline
        share = f"{looks.share:.1%} ({looks.share_low:.1%} to {looks.share_high:.1%})"
        score = found.rows[name]["as_is"].text().replace("\n", " ")
        return [str(looks.rows), share, str(looks.above_half), str(len(found.findings)), name, score]

    names = ["rows", "targets estimated wrong", "rows more likely wrong than right", "findings",
             "model to use", f"its {after.metric} on held-out rows"]
    return list(zip(names, said(before), said(after), strict=True))
