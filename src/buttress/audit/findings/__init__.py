"""Findings with codes: what a check found, how bad it is, and on what evidence; the audit's checks and a user's own."""

from collections.abc import Iterable, Mapping, Sequence

from buttress._suggest import near
from buttress.audit.findings.columns import constants, far_entries, indexes, missing_values, mixed_units
from buttress.audit.findings.copies import duplicates, near_duplicates
from buttress.audit.findings.finding import Check, Evidence, Finding, Listed, Severity
from buttress.audit.findings.leaks import leaks
from buttress.audit.findings.models import (
    along_the_file,
    drifted,
    fragile_to_labels,
    fragile_to_moves,
    no_better,
    novel,
    novel_rows,
    untrusted,
)
from buttress.audit.findings.rows import (
    imbalance,
    repeated_target,
    rows_in_groups,
    rows_with_times,
    skew,
    target_words,
    wrong_labels,
    wrong_of_one_kind,
)

__all__ = ["CHECKS", "Check", "Evidence", "Finding", "Severity", "check_codes", "find_all", "find_first"]

CHECKS = (
    Listed("BUT001", "a column gives the target away", leaks, Severity.error),
    Listed("BUT002", "a column numbers the rows", indexes),
    Listed("BUT003", "rows are copies", duplicates, of_columns=False),
    Listed("BUT004", "rows are nearly copies", near_duplicates),
    Listed("BUT005", "a column is constant, or nearly", constants, Severity.note),
    Listed("BUT006", "values are missing", missing_values),
    Listed("BUT007", "targets look wrong", wrong_labels, of_columns=False),
    Listed("BUT008", "wrong labels are of one kind", wrong_of_one_kind, of_columns=False),
    Listed("BUT009", "entries lie far out", far_entries),
    Listed("BUT010", "a column mixes units", mixed_units, Severity.error),
    Listed("BUT011", "words in the target mean that it is missing", target_words, Severity.error),
    Listed("BUT012", "classes differ in size", imbalance),
    Listed("BUT013", "the target is skewed", skew, Severity.note),
    Listed("BUT014", "small moves change predictions", fragile_to_moves, of_columns=False),
    Listed("BUT015", "wrong training targets change predictions", fragile_to_labels, of_columns=False),
    Listed("BUT016", "held-out rows are unlike the training rows", novel, of_columns=False),
    Listed("BUT017", "no model beats the baseline", no_better, Severity.error, of_columns=False),
    Listed("BUT018", "columns drifted", drifted, of_columns=False),
    Listed("BUT019", "newer rows are novel", novel_rows, of_columns=False),
    Listed("BUT020", "a model may fail on newer rows", untrusted, Severity.error, of_columns=False),
    Listed("BUT021", "columns change along the file", along_the_file, Severity.note),
    Listed("BUT022", "one target is repeated", repeated_target),
    Listed("BUT023", "rows belong to groups", rows_in_groups),
    Listed("BUT024", "rows have times", rows_with_times, Severity.note),
)


def check_codes(codes: Iterable[str], checks: Sequence[Check] = (), words: Sequence[str] = ()) -> None:
    """Refuse codes of no check, naming those there are; ``words`` may stand in place of codes."""
    known = [check.code for check in (*CHECKS, *checks)]
    for code in codes:
        if code not in (*known, *words):
            instead = f"Give {', '.join(words)} or a code. " if words else ""
            meant = near(code, [*map(str, words), *known])
            raise ValueError(f"There is no finding {code!r}.{meant} {instead}The codes are {', '.join(known)}; see "
                             "docs/findings.md.")


def find_first(evidence: Evidence, ignore: Sequence[str] = ()) -> dict[str, list[Finding]]:
    """Return by code what the checks that need no model find, without the codes to ignore."""
    return {check.code: list(check.find(evidence)) for check in CHECKS
            if check.of_columns and check.code not in ignore}


def find_all(
    evidence: Evidence, checks: Sequence[Check] = (), ignore: Sequence[str] = (),
    known: Mapping[str, list[Finding]] | None = None,
) -> list[Finding]:
    """Return what all checks find, the worst first, without the codes to ignore; ``known`` was found before."""
    known = known or {}
    codes = [check.code for check in (*CHECKS, *checks)]
    if len(set(codes)) < len(codes):
        raise ValueError(f"Two checks have one code, of {', '.join(codes)}. Give yours its own, as in MINE001.")
    check_codes(ignore, checks)
    found = [finding for check in (*CHECKS, *checks) if check.code not in ignore
             for finding in (known[check.code] if check.code in known else check.find(evidence))]
    return sorted(found, key=lambda finding: list(Severity).index(finding.severity))
