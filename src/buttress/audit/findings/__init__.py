"""Findings with codes: what a check found, how bad it is, and on what evidence; the audit's checks and a user's own."""

from collections.abc import Iterable, Mapping, Sequence

from buttress._suggest import near
from buttress.audit.findings.belonging import Groups, Times
from buttress.audit.findings.columns import Constants, FarOut, Indexes, MissingValues, MixedUnits
from buttress.audit.findings.copies import Duplicates, NearDuplicates
from buttress.audit.findings.finding import Check, Evidence, Finding, Severity
from buttress.audit.findings.leaks import Leaks
from buttress.audit.findings.models import FragileToLabels, FragileToMoves, NoBetter, Novel
from buttress.audit.findings.newer import AlongTheFile, Drifted, NovelRows, Untrusted
from buttress.audit.findings.rows import (
    Imbalance,
    RepeatedTarget,
    Skew,
    TargetWords,
    WrongLabels,
    WrongOfOneKind,
)

__all__ = ["CHECKS", "Check", "Evidence", "Finding", "Severity", "check_codes", "find_all", "find_first"]

CHECKS: tuple[Check, ...] = (
    Leaks(), Indexes(), Duplicates(), NearDuplicates(), Constants(), MissingValues(), WrongLabels(), WrongOfOneKind(),
    FarOut(), MixedUnits(), TargetWords(), Imbalance(), Skew(), FragileToMoves(), FragileToLabels(), Novel(),
    NoBetter(), Drifted(), NovelRows(), Untrusted(), AlongTheFile(), RepeatedTarget(), Groups(), Times(),
)
_WORST_FIRST = list(Severity)


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
    return sorted(found, key=lambda finding: _WORST_FIRST.index(finding.severity))
