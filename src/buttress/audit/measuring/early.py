"""What is known before any model is fitted, and what is known of the labels: told while the rest still runs."""


import numpy as np

from buttress._suggest import agreeing, counted
from buttress.audit.baselines import MAJORITY, MEAN
from buttress.audit.findings import Evidence, Finding, find_first
from buttress.audit.measuring.study import Study
from buttress.audit.measuring.suspicion import Verdicts, plain


def look_at_columns(study: Study) -> dict[str, list[Finding]]:
    """Return what the checks that need no model find, by code, and tell each finding."""
    table = study.table
    none = np.zeros(0)
    nobody = Verdicts(table.target[:0], table.target[:0], none, none, none > 0, np.zeros((0, 0), dtype=np.intp), 0.0, 0,
                      study.classifies)
    evidence = Evidence(table, study.classifies, study.train, study.test, np.zeros(0, dtype=np.intp), nobody, {}, None,
                        MAJORITY if study.classifies else MEAN, study.options.eps)
    found = find_first(evidence, study.options.ignore)
    for finding in (finding for findings in found.values() for finding in findings):
        study.tell(f"{finding.severity} {finding.code} {finding.title}")
    if not any(found.values()):
        study.tell(f"{counted(len(table.numeric) + len(table.categorical), 'column')}: nothing looks wrong so far.")
    return found


def tell_of_labels(study: Study) -> None:
    """Tell how many targets look wrong among the rows of the robust fit, and the first of them."""
    verdicts, fitted = study.jury.first, study.jury.fitted
    wrong = np.flatnonzero(verdicts.wrong)
    kind = "label" if study.classifies else "target"
    if not len(wrong):
        study.tell(f"No {kind} of the first {len(fitted)} rows judged looks wrong.")
        return
    worst = wrong[verdicts.probability[wrong].argmax()]
    given, expected = (plain(labels[worst]) for labels in (verdicts.given, verdicts.expected))
    look = agreeing(len(wrong), "looks", "look")
    row = plain(study.table.row_numbers[fitted[worst]])
    study.tell(f"{counted(len(wrong), kind)} of the first {len(fitted)} rows judged {look} wrong, such as row {row}: "
               f"given {given!r}, expected {expected!r}.")
