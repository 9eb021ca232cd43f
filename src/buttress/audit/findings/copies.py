"""Checks of rows that repeat others: copies, nearly copies, and whether their targets contradict each other."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from buttress._suggest import agreeing, counted
from buttress.audit.findings.finding import Check, Evidence, Finding, Severity
from buttress.audit.reading.cautions import LOOKED
from buttress.audit.reading.split import groups
from buttress.audit.reading.table import Table

NEAR = 1e-3  # standard deviations: rows nearer than that, in every column, are near-duplicates
FEWEST_COLUMNS = 3  # numeric columns below which near rows are no sign of a copy
VARIED = 10_000  # different values that are many, however many rows there are
CELL = 0.1  # standard deviations: side of the cells in which near rows are looked for; targets that differ by it differ
GRIDS = 4  # of them; rows at the full distance are parted by one of 30 columns in a quarter of the grids
MOST_IN_CELL = 500  # rows compared with each other
FEW_COPIES = 0.01  # share of the rows below which copies are good to know only, and of held-out rows to matter there
BY_CHANCE = 0.35  # share of the pairs of equal rows, by an estimate that errs on the small side, if they are cases
DIVISIONS = 20  # of the columns in halves
MIXER = np.uint64(0x9E3779B97F4A7C15)  # an odd number of many ones and zeros (Knuth's multiplicative hashing)
HALF = np.uint64(32)  # bits of a word
ACROSS = "so scores are too high"


class Duplicates(Check):
    """Rows with equal features, those with different targets among them, and copies across the split."""

    code = "BUT003"
    title = "rows are copies"

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        group = groups(evidence.table)
        sizes = np.bincount(group)
        copies = int((sizes - 1).sum())
        if not copies:
            return
        across = np.isin(group[evidence.test], group[evidence.train])
        disagreeing = _disagreeing(group, evidence)
        rows = evidence.labels(np.flatnonzero(sizes[group] > 1))
        facts = {"rows": rows, "count": copies, "different_targets": disagreeing, "across": int(across.sum())}
        said = f"{counted(copies, 'row')} {agreeing(copies, 'repeats', 'repeat')} the features of another"
        if disagreeing:
            said += f"; {counted(disagreeing, 'group')} of {int((sizes > 1).sum())} have different targets"
        if _by_chance(evidence.table) >= BY_CHANCE:
            yield self.finding(f"{said}.", "Columns of few values have nearly as many by chance: they may be different "
                               "cases that no column tells apart.", Severity.note, **facts)
            return
        severity = _severity(copies / len(group), disagreeing / len(group), across)
        yield self.finding(said + _across(across) + ".", _advice(disagreeing), severity, **facts)


def _disagreeing(group: NDArray[np.intp], evidence: Evidence) -> int:
    codes = evidence.table.target_codes()
    kinds = int(codes.max()) + 1
    pairs = np.unique(group * kinds + codes) // kinds
    return int((np.bincount(pairs) > 1).sum())


def _across(held: NDArray[np.bool_]) -> str:
    """Return what held-out rows that repeat training rows do to scores; one of hundreds does nothing."""
    if held.mean() < FEW_COPIES:
        return ""
    return f"; {counted(int(held.sum()), 'held-out row')} repeat training rows, {ACROSS}"


def _severity(copies: float, disagreeing: float, held: NDArray[np.bool_]) -> Severity:
    """Return how bad copies are, by their shares of the rows: the more contradict each other, the worse."""
    if disagreeing >= FEW_COPIES:
        return Severity.error
    return Severity.warning if disagreeing or max(copies, held.mean()) >= FEW_COPIES else Severity.note


def _advice(disagreeing: int) -> str:
    """Return what to do about copies."""
    if disagreeing:
        return "Of copies with different targets at most one is right: look them up, and drop or correct the others."
    return "Drop copies, or split so that copies stay together."


def _by_chance(table: Table) -> float:
    """Return the share of the pairs of equal rows that chance gives, as with few columns of few values.

    Rows are equal where they are in one half of the columns and in the other. If the halves knew nothing of each other,
    that would be the pairs equal in one, times those equal in the other, over all pairs: the most of several divisions,
    for columns that do know of each other give more. Each entry becomes a random number, a half of a row their sum.
    """
    columns = np.ascontiguousarray(table.coded()[:LOOKED].T).view(np.uint64)
    rng = np.random.default_rng(0)
    salts = rng.integers(0, 2**63, (len(columns), 1), dtype=np.uint64)
    words = (columns ^ columns >> HALF ^ salts) * MIXER
    words = (words ^ words >> HALF) * MIXER
    equal = _pairs(words.sum(axis=0))
    if not equal:
        return 0.0
    halves = [np.array_split(rng.permutation(len(words)), 2) for _ in range(DIVISIONS)]
    most = max(_pairs(words[one].sum(axis=0)) * _pairs(words[other].sum(axis=0)) for one, other in halves)
    return most / equal / (words.shape[1] * (words.shape[1] - 1) / 2)


def _pairs(keys: NDArray[np.uint64]) -> float:
    """Return how many pairs of rows have equal keys."""
    counts = np.unique(keys, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1)).sum() / 2)


class NearDuplicates(Check):
    """Rows that differ from another by next to nothing in every numeric column, and not in a category."""

    code = "BUT004"
    title = "rows are nearly copies"
    of_columns = True

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        table = evidence.table
        enough = min(len(table) / 10, VARIED)
        varied = [column for column in table.numeric.values() if len(np.unique(column)) > enough]
        if len(varied) < FEWEST_COLUMNS:
            return
        X = table.coded()
        numbers = X[:, : len(table.numeric)]
        numbers -= np.nanmean(numbers, axis=0)
        numbers /= np.nanstd(numbers, axis=0)
        found, partner = _near(np.nan_to_num(X, copy=False))
        if not len(found):
            return
        across = np.isin(evidence.test, found[~np.isin(partner, evidence.test)])
        disagreeing = int(_differ(evidence, found, partner).sum())
        said = (f"{counted(len(found), 'row')} {agreeing(len(found), 'differs', 'differ')} from another by less than "
                f"{NEAR:g} standard deviations in every column")
        if disagreeing:
            said += f"; {disagreeing} of them have another target than it"
        advice = _advice(disagreeing) if disagreeing else "Look whether one measurement was entered twice."
        yield self.finding(said + _across(across) + ".", advice,
                           _severity(len(found) / len(X), disagreeing / len(X), across), rows=evidence.labels(found),
                           count=len(found), different_targets=disagreeing, across=int(across.sum()))


def _differ(evidence: Evidence, rows: NDArray[np.intp], others: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Say of rows whether their target is not that of another one; numbers may differ by next to nothing."""
    y = evidence.target
    if evidence.classifies:
        return np.asarray(y[rows] != y[others])
    return np.asarray(np.abs(y[rows] - y[others]) > CELL * y.std())


def _near(X: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows that have another one near but not equal, and that one.

    Rows that near lie in one cell of a grid, unless a side of a cell parts them; so in one of several grids, each
    shifted by chance. Rows alone in their cell after a few columns are done with, so that many rows take no longer.
    """
    rng = np.random.default_rng(0)
    partner = np.full(len(X), -1)
    for _ in range(GRIDS):
        shift = np.asarray(rng.random(X.shape[1]))
        for rows in _cells(X, shift):
            X_cell = X[rows[:MOST_IN_CELL]]
            distance = np.abs(X_cell[:, None] - X_cell[None]).max(axis=2)
            close = (distance > 0) & (distance < NEAR)
            have = close.any(axis=1)
            partner[rows[:MOST_IN_CELL][have]] = rows[close[have].argmax(axis=1)]
    found = np.flatnonzero(partner >= 0)
    return found, partner[found]


def _cells(X: NDArray[np.float64], shift: NDArray[np.float64]) -> list[NDArray[np.intp]]:
    """Return the rows of each cell that holds several, in the grid of sides ``CELL`` shifted by that share of them."""
    rows = np.arange(len(X))
    cell = np.zeros(len(X), dtype=np.intp)
    for j in range(X.shape[1]):
        steps = np.unique(np.floor(X[rows, j] / CELL + shift[j]), return_inverse=True)[1]
        cell, sizes = np.unique(cell * (steps.max() + 1) + steps, return_inverse=True, return_counts=True)[1:]
        shared = sizes[cell] > 1
        rows, cell = rows[shared], cell[shared]
        if not len(rows):
            return []
    order = np.argsort(cell, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(cell[order])) + 1)
