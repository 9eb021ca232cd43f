"""Checks of rows and of the target: wrong labels, classes, skew, words that mean missing, and rows that hang together.

Rows that hang together should be held out as whole groups, or by time.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, binom, kruskal, spearmanr
from sklearn.neighbors import NearestNeighbors

from buttress._suggest import agreeing, column_called, counted
from buttress.audit.findings.columns import LEVEL
from buttress.audit.findings.finding import Evidence, Finding, Made, Severity
from buttress.audit.measuring.cells import number
from buttress.audit.reading.cautions import skewed
from buttress.audit.reading.entries import MISSING_WORDS, texts_of
from buttress.audit.reading.split import moments
from buttress.audit.reading.table import DataTable, given_column

LEAST_SHARE = 0.02  # of the targets estimated wrong from which that is a finding, with rows named


def wrong_labels(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Targets that look wrong: how many, with an interval of the rate; a note where that holds that none is."""
    verdicts = evidence.verdicts
    wrong = np.flatnonzero(verdicts.wrong)
    n = len(verdicts.given)
    if not len(wrong):
        return
    low, high = verdicts.interval
    kind = "labels" if evidence.classifies else "targets"
    doubt = doubt_of(evidence)
    clear = len(wrong) >= LEAST_SHARE * n and low > LEAST_SHARE / 2 and not doubt
    yield finding(
        f"{len(wrong)} of {n} {kind} {agreeing(len(wrong), 'looks', 'look')} wrong; an estimated "
        f"{verdicts.share:.1%} are ({low:.1%} to {high:.1%}){'; ' * bool(doubt)}{doubt}.",
        "Look at the rows that suspicious.csv calls wrong, correct there those that are, and run buttress apply.",
        Severity.error if clear else Severity.warning if low > 0 else Severity.note,
        rows=evidence.labels(evidence.judged[wrong[np.argsort(-verdicts.probability[wrong], kind="stable")]]),
        count=len(wrong), judged=n, rate=verdicts.share, low=low, high=high, doubt=doubt)


def doubt_of(evidence: Evidence) -> str:
    """Return why targets that look wrong may be right, empty if nothing says so.

    The verdicts themselves may say it, or that no model tells the target. A wrong label is a miss of the best model,
    too; where less than half of its misses can be wrong labels, the others are right and look the same.
    """
    score, share = evidence.cell(evidence.recommended, "as_is").value, evidence.verdicts.share
    misleading = evidence.verdicts.misleading()
    if not misleading and evidence.better == []:
        return f"no model is clearly better than the {evidence.baseline}, so that none tells wrong from right"
    # wrong labels are an error only if they explain half of the misses
    if misleading or not evidence.classifies or score is None or 1 - score <= 2 * share:
        return misleading
    return (f"the best model misses {1 - score:.0%} of the held-out rows, so that most misses are not wrong labels, "
            "and some of these may be right")


def wrong_of_one_kind(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Wrong labels that are mostly class a given as class b; no surer than that they are wrong."""
    verdicts = evidence.verdicts
    if not evidence.classifies:
        return
    wrong = verdicts.wrong
    kinds, counts = np.unique(np.stack([verdicts.given[wrong].astype(str), verdicts.expected[wrong].astype(str)]),
                              axis=1, return_counts=True) if wrong.any() else (np.empty((2, 0)), np.empty(0, int))
    for (given, expected), count in zip(kinds.T.tolist(), counts.tolist(), strict=True):
        # by chance a wrong label falls on a class as its rows do, and is expected to be one of the others
        share = float(np.mean(verdicts.given.astype(str) == given)) / max(1, len(np.unique(verdicts.given)) - 1)
        low = float(beta.ppf(0.025, count, int(wrong.sum()) - count + 1))
        if low > 0.5 and binom.sf(count - 1, int(wrong.sum()), share) < LEVEL:
            rate = count / max(1, int((verdicts.given.astype(str) == given).sum()))
            yield finding(
                f"{count} of the {int(wrong.sum())} labels that look wrong are {expected!r} given as {given!r} "
                f"({rate:.0%} of all {given!r}).",
                "A rule or a person may mix the two up: look how they were told apart.",
                Severity.note if verdicts.interval[0] == 0 or doubt_of(evidence) else Severity.warning,
                given=given, expected=expected, count=count, share_low=low)


def target_words(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Words in a target that mean, or may mean, that it is missing."""
    for word, count in evidence.table.target_words.items():
        if word.strip().lower() in MISSING_WORDS:
            rows = "its row was" if count == 1 else "their rows were"
            yield finding(f"{_targets(count)} {word!r}: {rows} left out, not made a class.",
                          "Leave such targets empty, or fill them in.", word=word, count=count)
        else:
            yield finding(f"{_targets(count)} {word!r}, which was taken for a class.",
                          "If it means that the target is missing, leave it empty.", Severity.warning,
                          word=word, count=count)


def _targets(count: int) -> str:
    return "1 target is" if count == 1 else f"{count} targets are"


def imbalance(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Classes of very different sizes."""
    if not evidence.classifies:
        return
    labels, counts = np.unique(evidence.target, return_counts=True)
    ratio = counts.max() / counts.min()
    if ratio >= 10.0:
        rare = str(labels[counts.argmin()])
        yield finding(
            f"Class {rare!r} has {counted(int(counts.min()), 'row')}, the largest {counts.max()}: {ratio:.0f} to "
            "one.",
            "Accuracy says little here: look at each class, and weight the rare one.",
            counts={str(label): int(count) for label, count in zip(labels, counts, strict=True)},
            ratio=float(ratio))


def repeated_target(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """One number that is the target of many rows, while the others differ."""
    if evidence.classifies:
        return
    values, counts = np.unique(evidence.target, return_counts=True)
    place = int(counts.argmax())
    most, next_most = int(counts[place]), int(np.delete(counts, place).max())
    if most >= 3.0 * next_most and binom.sf(most - 1, most + next_most, 0.5) < LEVEL:
        yield finding(
            f"{most} of {len(evidence.target)} targets are {number(float(values[place]))}, no other number is more "
            f"than {next_most} times.",
            "Find out whether it stands for a missing, a rounded or a cut off number: such rows follow no column.",
            rows=evidence.labels(np.flatnonzero(evidence.target == values[place])), value=float(values[place]),
            count=most, next=next_most)


def skew(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """A skewed target of a regression."""
    if evidence.classifies or not skewed(evidence.target):
        return
    low, middle, high = (float(q) for q in np.quantile(evidence.target, [0.1, 0.5, 0.9]))
    logs = evidence.target.min() > 0
    yield finding(
        f"The target is skewed: a tenth lies below {number(low)}, half below {number(middle)}, a tenth above "
        f"{number(high)}.",
        "Suspicious rows were judged, and models also fitted, on its logarithm." if logs else
        "Square roots of counts may suit it better; some large targets look wrong that are not.",
        Severity.note if logs else Severity.warning, tenth=low, median=middle, last_tenth=high)


WHO = re.compile(r"(?i)(?:^|[\W_])(?:id|patient|subject|person|participant|user|customer|client|account|household"
                 r"|family|group|site|session|batch|animal|owner)s?(?:$|[\W_])|(?<=[a-z])I[Dd]$")
WHEN = re.compile(r"(?i)(?:^|[\W_])(?:date|datetime|timestamp|year)(?:$|[\W_])")


def rows_in_groups(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """A column whose equal entries mark rows that are alike, so that held-out rows have relatives among the others."""
    table = evidence.table
    if table.groups is not None or table.times is not None or table.to_test is not None:
        return
    named = [name for name in table.numeric if WHO.search(name)]
    for name in (*table.identifiers, *named, *table.categorical):
        codes = texts_of(given_column(table, name, "groups")).codes
        known = np.flatnonzero(codes >= 0)
        # a column of fewer entries says kinds rather than whose a row is
        if not 10 <= len(np.unique(codes[known])) <= len(known) / 2:
            continue
        share, chance, p = _share_with_neighbour(table, name, codes, known)
        if share >= max(0.2, 3.0 * chance) and p < LEVEL:
            yield finding(
                f"Rows of one {name!r} are alike: {share:.0%} of the rows have one of the same {name!r} nearest to "
                f"them, by chance {chance:.0%} would. Held out at random they have such relatives among the "
                "training rows, and scores are too high for new ones.",
                f"If a model is to serve a new {name!r}, run it again with --groups {name!r}.",
                Severity.note if name in table.categorical and not WHO.search(name) else Severity.warning,
                column=name, share=share, chance=chance)


def _share_with_neighbour(
    table: DataTable, name: str, codes: NDArray[np.intp], known: NDArray[np.intp]
) -> tuple[float, float, float]:
    """Return the share of rows whose nearest other row has the same entry, by all other columns; that by chance; p."""
    order = np.random.default_rng(0).permutation(int(codes.max()) + 1)
    rows = known[np.argsort(order[codes[known]], kind="stable")][:2000]  # whole groups
    others = replace(table, numeric={other: column[rows] for other, column in table.numeric.items() if other != name},
                     categorical={other: texts[rows] for other, texts in table.categorical.items() if other != name})
    if not others.numeric and not others.categorical:
        return 0.0, 0.0, 1.0
    X = others.preparation().fit_transform(others.array())
    near = NearestNeighbors(n_neighbors=1).fit(X).kneighbors(return_distance=False)[:, 0]
    same = codes[rows] == codes[rows][near]
    sizes = np.bincount(codes[rows])
    chance = float((sizes * (sizes - 1)).sum() / (len(rows) * (len(rows) - 1)))
    return float(same.mean()), chance, float(binom.sf(int(same.sum()) - 1, len(rows), chance))


def rows_with_times(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """A column of times: if later rows are to be predicted, the latest should be held out."""
    table = evidence.table
    if table.groups is not None or table.times is not None or table.to_test is not None:
        return
    for name in (*table.dates, *(name for name in table.numeric if WHEN.search(name))):
        try:
            when = moments(name, given_column(table, name, "time"), table)
        except ValueError:  # in a notation that is read by nothing here, or with gaps
            continue
        p = _changes(when, evidence.target, evidence.classifies)
        changes = ", and the target changes with it" if p < LEVEL else ""
        yield finding(
            f"{column_called(name)} says when rows were{changes}.",
            f"If a model is to predict later rows, run it again with --time {name!r}, to test on the latest.",
            Severity.warning if changes else Severity.note, column=name, p_value=p)


def _changes(when: NDArray[np.float64], y: NDArray[Any], classifies: bool) -> float:
    """Return the p-value that the target does not change with time."""
    if len(np.unique(when)) < 2:
        return 1.0
    if classifies:
        return float(kruskal(*(when[y == label] for label in np.unique(y))).pvalue)
    return float(spearmanr(when, y).pvalue)
