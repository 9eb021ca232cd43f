"""Checks of rows that repeat others: copies, nearly copies, and whether their targets contradict each other."""

from collections.abc import Iterable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.stats import poisson

from buttress._suggest import agreeing, counted
from buttress.audit.findings.columns import LEVEL
from buttress.audit.findings.finding import Evidence, Finding, Made, Severity
from buttress.audit.reading.cautions import LOOKED_AT
from buttress.audit.reading.split import groups
from buttress.audit.reading.table import DataTable

NEAR = 1e-3  # standard deviations: rows nearer than that, in every column, are near-duplicates
GAP = 1e9  # standard deviations: a missing entry is far from every number
TARGETS_APART = 0.1  # standard deviations: targets that differ by it differ
FEW_COPIES = 0.01  # share of the rows below which copies are good to know only, and of held-out rows to matter there
MIXER = np.uint64(0x9E3779B97F4A7C15)  # an odd number of many ones and zeros (Knuth's multiplicative hashing)
HALF = np.uint64(32)  # bits of a word


def duplicates(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Rows with equal features, those with different targets among them, and copies across the split."""
    group = groups(evidence.table)
    if int(group.max()) + 1 == len(group):
        return
    group, what, chance = _beyond_chance(group, _with_targets(group, evidence), _words(evidence.table))
    copies = len(group) - int(group.max()) - 1
    sizes, first = np.bincount(group), np.unique(_with_targets(group, evidence), return_index=True)[1]
    disagreeing = int((np.bincount(group[first]) > 1).sum())  # groups with different targets
    across = np.isin(group[evidence.test], group[evidence.train])
    rows = evidence.labels(np.flatnonzero(sizes[group] > 1))
    facts = {"rows": rows, "count": copies, "different_targets": disagreeing, "across": int(across.sum())}
    said = f"{counted(copies, 'row')} {agreeing(copies, 'repeats', 'repeat')} {what} of another"
    if disagreeing:
        said += f"; {counted(disagreeing, 'group')} of {int((sizes > 1).sum())} have different targets"
    if chance:
        yield finding(f"{said}.", "Columns of few values have nearly as many by chance: they may be different "
                      "cases that no column tells apart.", Severity.note, **facts)
        return
    severity = _severity(copies / len(group), disagreeing / len(group), across)
    yield finding(said + _across(across) + ".",
                  _advice(disagreeing, "Drop copies, or split so that copies stay together."), severity, **facts)


def _with_targets(group: NDArray[np.intp], evidence: Evidence) -> NDArray[np.intp]:
    """Return a number for each row, the same for rows of one group that have one target."""
    codes = evidence.table.target_codes
    return np.unique(group * (int(codes.max()) + 1) + codes, return_inverse=True)[1].ravel()


def _across(held: NDArray[np.bool_]) -> str:
    """Return what held-out rows that repeat training rows do to scores; one of hundreds does nothing."""
    if held.mean() < FEW_COPIES:
        return ""
    return f"; {counted(int(held.sum()), 'held-out row')} repeat training rows, so scores are too high"


def _severity(copies: float, disagreeing: float, held: NDArray[np.bool_]) -> Severity:
    """Return how bad copies are, by their shares of the rows: the more contradict each other, the worse."""
    if disagreeing >= FEW_COPIES:
        return Severity.error
    return Severity.warning if disagreeing or max(copies, held.mean()) >= FEW_COPIES else Severity.note


def _advice(disagreeing: int, agreed: str) -> str:
    """Return what to do about copies, ``agreed`` where their targets are equal."""
    apart = "Of copies with different targets at most one is right: look them up, and drop or correct the others."
    return apart if disagreeing else agreed


def _words(table: DataTable) -> NDArray[np.uint64]:
    """Return the entries of some rows as random numbers, a column each and the target last, shape (d + 1, rows).

    Rows with equal sums over some columns are equal in them.
    """
    step = -(-len(table) // LOOKED_AT)
    entries = np.column_stack([table.coded()[::step], table.target_codes[::step].astype(np.float64)])
    columns = np.ascontiguousarray(entries.T).view(np.uint64)
    salts = np.random.default_rng(0).integers(0, 2**63, (len(columns), 1), dtype=np.uint64)
    words = (columns ^ columns >> HALF ^ salts) * MIXER
    return np.asarray((words ^ words >> HALF) * MIXER)


def _beyond_chance(
    group: NDArray[np.intp], same: NDArray[np.intp], words: NDArray[np.uint64]
) -> tuple[NDArray[np.intp], str, bool]:
    """Return the groups that are more than chance gives, in what they are equal, and whether there are none.

    ``group`` numbers rows of equal features, ``same`` those of equal targets too. Where most rows repeat another, the
    columns are too few to tell.
    """
    equal, agreeing = _pairs(group), _pairs(same)
    limit, scale = len(group) / 2, (len(group) / words.shape[1]) ** 2

    def chance(pairs: float, among: NDArray[np.uint64]) -> bool:
        # Twice as many may be by chance. On benchmarks/audit_truth.py --columns, choosing half, and 200 drawn tables of
        # dependent columns of few values 1.5 and 2.5 find as many copies, 1 takes a sixth of the clean ones for copies.
        return bool(poisson.sf(pairs - 1, 2.0 * scale * _expected(among)) >= LEVEL)

    few = int(group.max()) + 1 < limit
    if (few or chance(equal - agreeing, words[:-1])) and int(same.max()) + 1 >= limit and not chance(agreeing, words):
        return same, "the features and the target", False
    return group, "the features", few or chance(equal, words[:-1])


def _expected(words: NDArray[np.uint64]) -> float:
    """Return how many pairs of equal rows chance gives, as with few columns of few values.

    Columns are put into blocks. If two of them differ independently where all others are equal, the pairs equal in both
    are to those that differ in the one as those that differ in the other are to those that differ in both. Copies are
    among the first only. Two that know of each other, as years of work and of age, seldom differ alone, and where they
    differ most often they would hide the others: what holds without these two holds where it is more.
    """
    if len(words) < 2:
        return np.inf
    parts = np.array_split(np.random.default_rng(0).permutation(len(words)), min(8, len(words)))
    blocks = [words[part].sum(axis=0, dtype=np.uint64) for part in parts]
    whole = words.sum(axis=0, dtype=np.uint64)
    equal = _pairs(whole)
    in_one = [_pairs(whole - block) - equal for block in blocks]  # pairs that differ in no other block
    in_two = np.array([_pairs(whole - blocks[a] - blocks[b]) - in_one[a] - in_one[b] - equal
                       for a, b in combinations(range(len(blocks)), 2)])
    products = np.array([one * other for one, other in combinations(in_one, 2)])
    rest = np.arange(len(in_two)) != in_two.argmax()
    return max(float(products[part].sum()) / max(float(in_two[part].sum()), 1.0) for part in (slice(None), rest))


def _pairs(keys: NDArray[np.uint64 | np.intp]) -> float:
    """Return how many pairs of rows have equal keys."""
    counts = np.unique(keys, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1)).sum() / 2)


def near_duplicates(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Rows that differ from another by next to nothing in every numeric column, and not in a category."""
    table = evidence.table
    enough = min(len(table) / 10, 10_000)  # so many values are many, however many rows there are
    varied = [column for column in table.numeric.values() if len(np.unique(column)) > enough]
    if len(varied) < 3:  # near rows of so few are no sign of a copy
        return
    X = np.asarray(table.native().fit_transform(table.coded()))
    found, partner = _near_rows(np.nan_to_num(X, nan=GAP), groups(table))
    if not len(found):
        return
    across = np.isin(evidence.test, found[~np.isin(partner, evidence.test)])
    disagreeing = int(_differ(evidence, found, partner).sum())
    said = (f"{counted(len(found), 'row')} {agreeing(len(found), 'differs', 'differ')} from another by less than "
            f"{NEAR:g} standard deviations in every column")
    if disagreeing:
        said += f"; {disagreeing} of them have another target than it"
    yield finding(said + _across(across) + ".",
                  _advice(disagreeing, "Look whether one measurement was entered twice."),
                  _severity(len(found) / len(X), disagreeing / len(X), across), rows=evidence.labels(found),
                  count=len(found), different_targets=disagreeing, across=int(across.sum()))


def _differ(evidence: Evidence, rows: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Say of rows whether their target is not that of another one; numbers may differ by next to nothing."""
    y = evidence.target
    if evidence.classifies:
        return np.asarray(y[rows] != y[others])
    return np.asarray(np.abs(y[rows] - y[others]) > TARGETS_APART * y.std())


def _near_rows(X: NDArray[np.float64], group: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows that have another one near but not equal, and that one; ``group`` numbers rows that are equal."""
    firsts = np.unique(group, return_index=True)[1]
    distance, nearest = cKDTree(X[firsts]).query(X[firsts], k=2, p=np.inf, distance_upper_bound=NEAR)
    found = np.flatnonzero(np.isfinite(distance[:, 1])[group])  # the nearest row of all is the row itself
    return found, firsts[nearest[group[found], 1]]
