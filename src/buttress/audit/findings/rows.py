"""Checks of rows and of the target: copies, wrong labels, classes, skew, words that mean missing."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, binom

from buttress._suggest import agreeing, counted
from buttress.audit.findings.finding import Check, Evidence, Finding, Severity
from buttress.audit.measuring.cells import number
from buttress.audit.reading.cautions import skewed
from buttress.audit.reading.entries import MISSING_WORDS
from buttress.audit.reading.split import groups

NEAR = 1e-3  # standard deviations: rows nearer than that, in every column, are near-duplicates
FEWEST_COLUMNS = 3  # numeric columns below which near rows are no sign of a copy
VARIED = 10_000  # different values that are many, however many rows there are
CELL = 0.1  # standard deviations: side of the cells in which near rows are looked for
GRIDS = 4  # of them; rows at the full distance are parted by one of 30 columns in a quarter of the grids
MOST_IN_CELL = 500  # rows compared with each other
FEW_COPIES = 0.01  # share of the rows below which copies are good to know only
DIFFERENT = 0.1  # share of the groups of copies with different targets from which they are cases, entered once each
FEW = 20  # rows of a class below which it is rare
IMBALANCE = 10.0  # rows of the largest class to one of the smallest
LEVEL = 0.001  # of tests
SHARE = 0.02  # of the targets estimated wrong from which that is a finding, with rows named
MANY = 0.2  # share of targets from which wrong ones look like columns that do not tell
EXPLAINED = 0.5  # share of the misses of the best model that wrong labels explain, for them to be an error
ONE_KIND = 5  # wrong labels of one kind, at least


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
        across = len(np.intersect1d(group[evidence.train], group[evidence.test]))
        disagreeing = _disagreeing(group, evidence)
        cases = disagreeing >= DIFFERENT * int((sizes > 1).sum())
        few_columns = len(evidence.table.numeric) + len(evidence.table.categorical) < FEWEST_COLUMNS
        said = f"{counted(copies, 'row')} {agreeing(copies, 'repeats', 'repeat')} the features of another"
        if disagreeing:
            said += f"; {counted(disagreeing, 'group')} of {int((sizes > 1).sum())} have different targets"
        if across:
            said += (f"; {counted(across, 'group')} {agreeing(across, 'is', 'are')} on both sides of the split, so "
                     "scores are too high")
        few = few_columns or cases or copies < FEW_COPIES * len(group)
        severity = Severity.note if few_columns or (few and not across) else Severity.warning
        advice = ("They may be different cases that no column tells apart." if cases else
                  "Drop copies, or split so that copies stay together.")
        yield self.finding(said + ".", advice, severity,
                           rows=evidence.labels(np.flatnonzero(sizes[group] > 1)), count=copies,
                           different_targets=disagreeing, across=across)


def _disagreeing(group: NDArray[np.intp], evidence: Evidence) -> int:
    codes = evidence.table.target_codes()
    kinds = int(codes.max()) + 1
    pairs = np.unique(group * kinds + codes) // kinds
    return int((np.bincount(pairs) > 1).sum())


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
        held = np.isin(np.arange(len(X)), evidence.test)
        across = int((held[found] != held[partner]).sum())
        said = (f"{counted(len(found), 'row')} {agreeing(len(found), 'differs', 'differ')} from another by less than "
                f"{NEAR:g} standard deviations in every column")
        said += f"; {across} of them across the split, so scores are too high" if across else ""
        yield self.finding(f"{said}.", "Look whether one measurement was entered twice.",
                           rows=evidence.labels(found), count=len(found), across=across)


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


class WrongLabels(Check):
    """Targets that look wrong: how many, with an interval of the rate."""

    code = "BUT007"
    title = "targets look wrong"

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        verdicts = evidence.verdicts
        wrong = np.flatnonzero(verdicts.wrong)
        n = len(verdicts.given)
        if not len(wrong):
            return
        # by the fit's probabilities, rows independent; an interval for how many of these rows are wrong
        mean = float(verdicts.probability.sum())
        deviation = float(np.sqrt((verdicts.probability * (1 - verdicts.probability)).sum()))
        low, high = max(0.0, mean - 1.96 * deviation) / n, min(float(n), mean + 1.96 * deviation) / n
        kind = "labels" if evidence.classifies else "targets"
        doubt = self._doubt(evidence, mean / n)
        clear = len(wrong) >= SHARE * n and low > SHARE / 2 and not doubt
        yield self.finding(
            f"{len(wrong)} of {n} {kind} {agreeing(len(wrong), 'looks', 'look')} wrong; an estimated {mean / n:.1%} "
            f"are ({low:.1%} to {high:.1%}).{doubt}",
            "Look at the rows that suspicious.csv calls wrong, correct there those that are, and run buttress apply.",
            Severity.error if clear else Severity.warning,
            rows=evidence.labels(evidence.judged[wrong[np.argsort(-verdicts.probability[wrong], kind="stable")]]),
            count=len(wrong), judged=n, rate=mean / n, low=low, high=high, doubtful=bool(doubt))

    def _doubt(self, evidence: Evidence, rate: float) -> str:
        """Return why rows that look wrong may be right, empty if nothing says so: the columns do not tell the target.

        A wrong label is a miss of the best model; where less than half of its misses can be wrong labels, the others
        are right and look the same.
        """
        if rate >= MANY:
            return " So many may also mean that the columns do not tell the targets."
        score = evidence.cell(evidence.recommended, "as_is").value
        if not evidence.classifies or score is None or 1 - score <= rate / EXPLAINED:
            return ""
        return (f" The best model misses {1 - score:.0%} of the held-out rows: most misses are not wrong labels, and "
                "some of these rows may be right.")


class WrongOfOneKind(Check):
    """Wrong labels that are mostly class a given as class b."""

    code = "BUT008"
    title = "wrong labels are of one kind"

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        verdicts = evidence.verdicts
        if not evidence.classifies:
            return
        wrong = verdicts.wrong
        kinds, counts = np.unique(np.stack([verdicts.given[wrong].astype(str), verdicts.expected[wrong].astype(str)]),
                                  axis=1, return_counts=True) if wrong.any() else (np.empty((2, 0)), np.empty(0, int))
        for (given, expected), count in zip(kinds.T.tolist(), counts.tolist(), strict=True):
            # by chance a wrong label falls on a class as its rows do, and is expected to be one of the others
            share = float(np.mean(verdicts.given.astype(str) == given)) / max(1, len(np.unique(verdicts.given)) - 1)
            if count >= ONE_KIND and binom.sf(count - 1, int(wrong.sum()), share) < LEVEL:
                rate = count / max(1, int((verdicts.given.astype(str) == given).sum()))
                low = float(beta.ppf(0.025, count, max(1, int(wrong.sum()) - count + 1)))
                yield self.finding(
                    f"{count} of the {int(wrong.sum())} labels that look wrong are {expected!r} given as {given!r} "
                    f"({rate:.0%} of all {given!r}).",
                    "A rule or a person may mix the two up: look how they were told apart.",
                    given=given, expected=expected, count=count, share_low=low)


class TargetWords(Check):
    """Words in a target that mean, or may mean, that it is missing."""

    code = "BUT011"
    title = "words in the target mean that it is missing"
    severity = Severity.error
    of_columns = True

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        for word, count in evidence.table.target_words.items():
            if word.strip().lower() in MISSING_WORDS:
                rows = "its row was" if count == 1 else "their rows were"
                yield self.finding(f"{_targets(count)} {word!r}: {rows} left out, not made a class.",
                                   "Leave such targets empty, or fill them in.", word=word, count=count)
            else:
                yield self.finding(f"{_targets(count)} {word!r}, which was taken for a class.",
                                   "If it means that the target is missing, leave it empty.", Severity.warning,
                                   word=word, count=count)


def _targets(count: int) -> str:
    return "1 target is" if count == 1 else f"{count} targets are"


class Imbalance(Check):
    """Classes of very different sizes."""

    code = "BUT012"
    title = "classes differ in size"
    of_columns = True

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        if not evidence.classifies:
            return
        labels, counts = np.unique(evidence.target, return_counts=True)
        ratio = counts.max() / counts.min()
        if ratio >= IMBALANCE:
            rare = str(labels[counts.argmin()])
            yield self.finding(
                f"Class {rare!r} has {counted(int(counts.min()), 'row')}, the largest {counts.max()}: {ratio:.0f} to "
                "one.",
                "Accuracy says little here: look at each class, and weight the rare one.",
                counts={str(label): int(count) for label, count in zip(labels, counts, strict=True)},
                ratio=float(ratio))


class Skew(Check):
    """A skewed target of a regression."""

    code = "BUT013"
    title = "the target is skewed"
    severity = Severity.note
    of_columns = True

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        if evidence.classifies or not skewed(evidence.target):
            return
        low, middle, high = (float(q) for q in np.quantile(evidence.target, [0.1, 0.5, 0.9]))
        logs = evidence.target.min() > 0
        yield self.finding(
            f"The target is skewed: a tenth lies below {number(low)}, half below {number(middle)}, a tenth above "
            f"{number(high)}.",
            "Suspicious rows were judged, and models also fitted, on its logarithm." if logs else
            "Square roots of counts may suit it better; some large targets look wrong that are not.",
            Severity.note if logs else Severity.warning, tenth=low, median=middle, last_tenth=high)
