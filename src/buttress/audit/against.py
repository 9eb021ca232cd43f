"""A table against newer rows of the same columns: drifted columns, novel rows, and what becomes of a model.

All tests of a comparison together raise a false alarm on at most 5% of pairs of tables without drift or copies: half is
for the columns and the model together, half for the rows, each under false-discovery control.
"""

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, fisher_exact, ks_2samp, mannwhitneyu
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.neighbors import NearestNeighbors

from buttress._suggest import near
from buttress._types import Labels, Rows
from buttress.audit.reading.cautions import SPLIT
from buttress.audit.reading.entries import NOTATIONS, as_array, categories_of, check_there, is_missing, spelled
from buttress.audit.reading.table import DataTable, read_as_before
from buttress.certainty.conformal import p_values, rejected
from buttress.files.container import Json

LEAST_EXPECTED = 5.0  # rows expected of a category in each table; rarer ones count together, for the chi-squared test


def same_numbers(old: NDArray[np.float64], new: NDArray[np.float64]) -> float:
    """Return the p-value that two columns of numbers, NaN where missing, come from one distribution.

    Twice the smaller one of two tests: Kolmogorov and Smirnov's of the entries, Fisher's of how many are missing.
    """
    known_old, known_new = old[~np.isnan(old)], new[~np.isnan(new)]
    entries = 1.0
    if min(len(known_old), len(known_new)) >= 5:
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # it falls back on the asymptotic one
            entries = float(ks_2samp(known_old, known_new).pvalue)
    return min(1.0, 2 * min(entries, same_share(np.isnan(old), np.isnan(new))))


def same_share(old: NDArray[np.bool_], new: NDArray[np.bool_]) -> float:
    """Return Fisher's exact p-value that rows of both tables are as often marked."""
    marked_old, marked_new = int(old.sum()), int(new.sum())
    if marked_old + marked_new == 0:
        return 1.0
    return float(fisher_exact([[marked_old, len(old) - marked_old], [marked_new, len(new) - marked_new]]).pvalue)


def same_categories(old: Labels, new: Labels) -> float:
    """Return the p-value of a chi-squared test that two columns of texts come from one distribution."""
    values, codes = np.unique(np.concatenate([old.astype(str), new.astype(str)]), return_inverse=True)
    counts = np.stack([np.bincount(codes[: len(old)], minlength=len(values)),
                       np.bincount(codes[len(old) :], minlength=len(values))])
    expected = counts.sum(axis=0) * min(len(old), len(new)) / (len(old) + len(new))
    rare = expected < LEAST_EXPECTED
    counts = np.column_stack([counts[:, ~rare], counts[:, rare].sum(axis=1)]) if rare.any() else counts
    counts = counts[:, counts.sum(axis=0) > 0]
    if counts.shape[1] == 2 and counts.sum(axis=0).min() < 4 * LEAST_EXPECTED:
        return float(fisher_exact(counts).pvalue)
    return float(chi2_contingency(counts, correction=False).pvalue) if counts.shape[1] > 1 else 1.0


def unlike(known: NDArray[np.float64], rows: NDArray[np.float64], rate: float) -> Rows:
    """Return the numbers of the rows (m, d) that are farther from the known ones (n, d) than those are from each other.

    The farthest comes first. They are named at a false discovery rate, by p = (1 + number of different known rows as
    far from their fifth nearest) / (n + 1). So fewer than m / (n + 1) / rate rows are never found. P(p <= t) is at most
    t for a row like the known ones: with it among them all n + 1 would be drawn alike, and it only brings the others
    nearer. A near copy is one neighbour of five.
    """
    known = np.unique(known, axis=0)  # copies are near each other, and new rows have none among the known
    if len(known) <= 1:
        return np.zeros(0, dtype=np.intp)
    # a row is as far out as its fifth nearest row is far
    index = NearestNeighbors(n_neighbors=min(5, len(known) - 1)).fit(known)
    distance = index.kneighbors(rows)[0][:, -1]
    p = p_values(distance, index.kneighbors()[0][:, -1], np.ones(len(known)))
    found = np.flatnonzero(rejected(p, rate, adaptive=False))
    return np.asarray(found[np.argsort(-distance[found], kind="stable")])


def changed(columns: Mapping[str, Labels], half: int, rate: float) -> list[str]:
    """Return the columns whose rows from ``half`` on come from another distribution than those before.

    They are named at a false discovery rate, the surest first.
    """
    p = {name: (same_numbers if column.dtype.kind == "f" else same_categories)(column[:half], column[half:])
         for name, column in columns.items()}
    found = rejected(np.array(list(p.values())), rate, adaptive=False)
    return sorted((name for name, is_found in zip(p, found, strict=True) if is_found), key=lambda name: p[name])


RATE = 0.025  # of false discoveries, among the columns and the model, and among the rows
MOST_ROWS = 5000  # of each table in the tests of rows and of models; drawn of more
SHOWN = 10  # novel rows, and new values of a category, that are named
ENOUGH = 20  # new rows


@dataclass
class Drift:
    """One column: the p-value that it did not change, whether that is a discovery, and what changed in words."""

    column: str
    p: float
    says: str
    drifted: bool = False


@dataclass
class Comparison:
    """What was found of newer rows: ``p_*`` are p-values that nothing changed; scores are None without a target."""

    source: str
    rows: int
    columns: list[Drift]
    novel: list[int]  # numbers of the new rows, the most unlike first
    auc: float  # how well a forest tells new rows from old ones, .5 if not at all
    p_apart: float
    apart: bool
    score_old: float | None = None
    score_new: float | None = None
    p_score: float | None = None
    worse: bool = False

    @property
    def drifted(self) -> list[str]:
        """The columns that drifted, the surest first."""
        return [one.column for one in sorted(self.columns, key=lambda one: one.p) if one.drifted]

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against using a model of the old rows on the new ones.

        With targets the scores decide; without them rows that are told apart, or columns that drifted, are enough.
        """
        return not self.worse if self.p_score is not None else not (self.apart or self.drifted or self.novel)

    def to_dict(self) -> Json:
        """Return everything as plain values."""
        return asdict(self) | {"trusted": self.trusted, "novel": self.novel[:SHOWN], "novel_rows": len(self.novel)}


def compare(
    table: DataTable, columns: Mapping[str, object], source: str, train: NDArray[np.intp],
    test: NDArray[np.intp], seed: int,
) -> Comparison:
    """Compare a table, of which a model is trained on the rows ``train``, with newer ``columns`` of the same names."""
    new, target = _newer(table, columns)
    rows = len(next(iter((new.numeric | new.categorical).values())))
    drifts = [_numbers(name, column, new.numeric[name]) for name, column in table.numeric.items()]
    drifts += [_texts(name, column, new.categorical[name]) for name, column in table.categorical.items()]
    old, coded = _coded(table, new)
    rng = np.random.default_rng(seed)
    some = np.sort(rng.permutation(rows)[:MOST_ROWS])
    auc, p_apart = _told_apart(old[rng.permutation(len(old))[:MOST_ROWS]], coded[some], seed)
    novel = unlike(old[rng.permutation(len(old))[:MOST_ROWS]], coded, RATE).tolist()
    before, now, p = None, None, None
    if target is not None:
        known = np.array([value is not None for value in target])
        before, now, p = _scores(old, table.target, train, test, coded[known], target[known], table.classifies,
                                 seed)
    tests = [*(one.p for one in drifts), p_apart, *([] if p is None else [p])]
    discovered = rejected(np.array(tests), RATE, adaptive=False).tolist()
    drifts = [replace(one, drifted=is_found) for one, is_found in zip(drifts, discovered, strict=False)]
    return Comparison(source, rows, drifts, novel, auc, p_apart, discovered[len(drifts)], before, now, p,
                      p is not None and discovered[-1])


def check_columns(table: DataTable, columns: Mapping[str, object], source: str) -> None:
    """Refuse newer data that lack columns of the table, have too few rows, or cannot be read as the table was.

    A note says where they have no targets, which a column of another name may be.
    """
    check_there((*table.numeric, *table.categorical), columns, f"The newer data {source!r}", "the table has")
    rows = int(np.shape(np.asarray(next(iter(columns.values()))))[0])
    if rows < ENOUGH:
        raise ValueError(f"The newer data {source!r} have {rows} rows. At least {ENOUGH} are needed to tell anything.")
    if _newer(table, columns)[1] is None:
        table.notes.append(f"The newer data {source!r} have no targets {table.target_name!r}: no model is scored there."
                           f"{near(table.target_name, columns.keys() - {table.target_name})}")


def _newer(table: DataTable, columns: Mapping[str, object]) -> tuple[DataTable, Labels | None]:
    """Return the newer columns read as those of the table were, and their target if any is there (None: missing)."""
    numeric = {name: read_as_before(name, columns[name], table.read_as.get(name)) for name in table.numeric}
    categorical = {name: categories_of(columns[name]) for name in table.categorical}
    new = DataTable(numeric, categorical, np.empty(0), table.target_name, np.empty(0), table.task)
    given = columns.get(table.target_name)
    if given is None:
        return new, None
    if table.target.dtype.kind == "f":
        values = read_as_before(table.target_name, given, table.read_as.get(table.target_name))
        target = np.array([None if np.isnan(value) else value for value in values], dtype=object)
    else:
        labels = {spelled(label): label for label in np.unique(table.target).tolist()}
        whole = table.target.dtype.kind in "iu"
        target = np.array([None if is_missing(label) else labels.get(_spelled(label, whole), str(label))
                           for label in as_array(given).tolist()], dtype=object)
        seen = set(target.tolist()) - {None}
        if seen and seen.isdisjoint(labels.values()):
            raise ValueError(f"The target {table.target_name!r} of the newer data holds {min(map(str, seen))!r}, and "
                             f"no class of the table, such as {min(labels)!r}. Write it as there, or leave it out.")
    return new, target if any(value is not None for value in target) else None


def _spelled(label: object, whole: bool) -> str:
    """Return a class as a text; a text that is a number as that number, where the table's classes are whole ones."""
    number = NOTATIONS[0].number(label) if whole and isinstance(label, str) else np.nan
    return spelled(label if np.isnan(number) else number)


def _numbers(name: str, old: NDArray[np.float64], new: NDArray[np.float64]) -> Drift:
    said = [f"median {np.nanmedian(column):.4g}, missing {np.isnan(column).mean():.1%}" if not np.isnan(column).all()
            else "all missing" for column in (old, new)]
    return Drift(name, same_numbers(old, new), f"{said[0]}; now {said[1]}")


def _texts(name: str, old: Labels, new: Labels) -> Drift:
    values = np.union1d(old.astype(str), new.astype(str))
    shares = {value: (float(np.mean(old == value)), float(np.mean(new == value))) for value in values.tolist()}
    most = max(shares, key=lambda value: abs(shares[value][0] - shares[value][1]))
    fresh = [value for value, (before, _) in shares.items() if before == 0]
    said = f"{most!r} {shares[most][0]:.1%}; now {shares[most][1]:.1%}"
    return Drift(name, same_categories(old, new), said + (f"; new: {', '.join(fresh[:SHOWN])}" if fresh else ""))


def _coded(table: DataTable, new: DataTable) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return old and new rows as numbers: in robust deviations of the old ones, missing at 0 beside a column that says
    so, categories as 0/1 columns of the old values."""
    parts: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for name, column in table.numeric.items():
        low, middle, high = np.nanquantile(column, [0.25, 0.5, 0.75])
        scale = (high - low) or np.nanstd(column) or 1.0
        scaled = [np.clip((values - middle) / scale, -SPLIT, SPLIT) for values in (column, new.numeric[name])]
        parts.append((np.nan_to_num(scaled[0]), np.nan_to_num(scaled[1])))
        if np.isnan(scaled[0]).any():
            parts.append((np.isnan(scaled[0]), np.isnan(scaled[1])))
    for name, column in table.categorical.items():
        parts += [(column == value, new.categorical[name] == value) for value in np.unique(column.astype(str))]
    return (np.column_stack([part[0] for part in parts]).astype(np.float64),
            np.column_stack([part[1] for part in parts]).astype(np.float64))


def _told_apart(old: NDArray[np.float64], new: NDArray[np.float64], seed: int) -> tuple[float, float]:
    """Return the AUC of a forest that tells new rows from old ones, on rows it has not seen, and its p-value.

    The classifier two-sample test (Lopez-Paz & Oquab, ICLR 2017), with the rank test of Mann and Whitney.
    """
    rng = np.random.default_rng(seed)
    halves = [np.array_split(rng.permutation(len(rows)), 2) for rows in (old, new)]
    X = np.concatenate([old[halves[0][0]], new[halves[1][0]]])
    is_new = np.repeat([0, 1], [len(halves[0][0]), len(halves[1][0])])
    forest = ExtraTreesClassifier(50, min_samples_leaf=5, class_weight="balanced", random_state=seed).fit(X, is_new)
    said = [forest.predict_proba(rows[half[1]])[:, 1] for rows, half in zip((old, new), halves, strict=True)]
    test = mannwhitneyu(said[1], said[0], alternative="greater", method="asymptotic")
    return float(test.statistic) / (len(said[0]) * len(said[1])), float(test.pvalue)


def _scores(
    old: NDArray[np.float64], y: Labels, train: NDArray[np.intp], test: NDArray[np.intp], new: NDArray[np.float64],
    y_new: Labels, classifies: bool, seed: int,
) -> tuple[float, float, float]:
    """Return the score of gradient boosting on held-out old rows and on new ones, and the p-value that it is no worse.

    Accuracy and Fisher's test of the errors, or the median absolute error and the rank test.
    """
    boosting = HistGradientBoostingClassifier if classifies else HistGradientBoostingRegressor
    model = boosting(random_state=seed).fit(old[train], y[train])
    if classifies:
        wrong = model.predict(old[test]) != y[test], model.predict(new).astype(object) != y_new
        counts = [[int(part.sum()), int((~part).sum())] for part in wrong[::-1]]
        p = float(fisher_exact(counts, alternative="greater").pvalue)
        return 1 - float(wrong[0].mean()), 1 - float(wrong[1].mean()), p
    size = np.abs(model.predict(old[test]) - y[test]), np.abs(model.predict(new) - y_new.astype(np.float64))
    p = mannwhitneyu(size[1], size[0], alternative="greater").pvalue
    return float(np.median(size[0])), float(np.median(size[1])), float(p)
