"""Checks of how rows hang together: columns by which they should be held out as whole groups, or by time."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, kruskal, spearmanr
from sklearn.neighbors import NearestNeighbors

from buttress._suggest import column_called
from buttress.audit.findings.columns import LEVEL
from buttress.audit.findings.finding import Evidence, Finding, Made, Severity
from buttress.audit.reading.split import moments
from buttress.audit.reading.table import Table, given_column
from buttress.audit.reading.texts import texts_of

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
    table: Table, name: str, codes: NDArray[np.intp], known: NDArray[np.intp]
) -> tuple[float, float, float]:
    """Return the share of rows whose nearest other row has the same entry, by all other columns; that by chance; p."""
    order = np.random.default_rng(0).permutation(int(codes.max()) + 1)
    rows = known[np.argsort(order[codes[known]], kind="stable")][:2000]  # whole groups
    parts = [_scaled(column[rows]) for other, column in table.numeric.items() if other != name]
    for other in table.categorical:
        if other != name:
            parts += [(table.factors(other)[1][rows] == k)[:, None] for k in range(len(table.factors(other)[0]))]
    if not parts:
        return 0.0, 0.0, 1.0
    near = NearestNeighbors(n_neighbors=1).fit(np.hstack(parts)).kneighbors(return_distance=False)[:, 0]
    same = codes[rows] == codes[rows][near]
    sizes = np.bincount(codes[rows])
    chance = float((sizes * (sizes - 1)).sum() / (len(rows) * (len(rows) - 1)))
    return float(same.mean()), chance, float(binom.sf(int(same.sum()) - 1, len(rows), chance))


def _scaled(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a column in standard deviations, gaps in the middle, shape (n, 1)."""
    spread = float(np.nanstd(column)) or 1.0
    return np.nan_to_num((column - np.nanmean(column)) / spread)[:, None]


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
