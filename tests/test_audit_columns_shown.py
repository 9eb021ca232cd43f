"""What the page shows of columns, and of models fitted again: against scipy, scikit-learn and formulas written out."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import f_oneway, kruskal, rankdata, spearmanr, t
from scipy.stats.contingency import association
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import balanced_accuracy_score
from sklearn.svm import LinearSVC

import buttress
from buttress.audit.measurements import MEASUREMENTS
from buttress.audit.measurements.columns import (
    ASSOCIATIONS,
    DRIFTED,
    PRECISION,
    associated,
    of_categories,
    of_numbers,
    step_of,
)
from buttress.audit.measurements.scores import REPEATED, corrected, folds_of
from buttress.audit.measuring.measurement import measure
from buttress.audit.measuring.split_table import split_table
from buttress.audit.options import Options
from buttress.audit.reading.split import set_apart
from buttress.audit.reading.table import columns_of, make_table
from buttress.audit.writing.pictures import ticks
from buttress.audit.writing.report import html

from audit_problems import only


def split_of(frame, y, entries=None, **options):
    table = make_table(columns_of(frame), y, "y", "auto")
    asked = Options(**options)
    set_apart(table, asked.groups, asked.time)
    return split_table(table, entries or {"majority class": DummyClassifier(), "plain SVC": LinearSVC()}, asked)


def found(split, *chosen):
    return measure(tuple(one for one in MEASUREMENTS if one in chosen), split, lambda *_: None, lambda line: None)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    a = rng.normal(size=300)
    return pd.DataFrame({"a": a, "b": np.exp(-a + 0.5 * rng.normal(size=300)), "kind": rng.choice(["x", "y", "z"], 300),
                         "side": np.where(a + rng.normal(size=300) > 0, "left", "right")})


def test_numbers_are_associated_by_spearman_and_categories_by_the_correlation_ratio_or_cramer(frame):
    a, b = (frame[name].to_numpy() for name in "ab")
    kind, side = (frame[name].to_numpy().astype(str) for name in ("kind", "side"))
    assert associated(of_numbers(a), of_numbers(b)) == pytest.approx(-spearmanr(a, b).statistic)
    ranks = rankdata(a)
    between = sum((kind == k).sum() * (ranks[kind == k].mean() - ranks.mean()) ** 2 for k in "xyz")
    assert associated(of_categories(kind), of_numbers(a)) == pytest.approx(np.sqrt(between / ranks.var() / 300))
    assert associated(of_categories(kind), of_numbers(a)) ** 2 * 299 == pytest.approx(
        kruskal(*(a[kind == k] for k in "xyz")).statistic)
    assert f_oneway(*(ranks[kind == k] for k in "xyz")).pvalue > 0.001  # it says little, and is no more than chance
    other = np.where(b > 1, "up", "down")
    assert associated(of_categories(side), of_categories(other)) == pytest.approx(
        association(pd.crosstab(side, other).to_numpy(), method="cramer"))


def test_gaps_rare_categories_and_constants_say_nothing():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    gaps = np.where(np.arange(200) % 4 == 0, np.nan, x)
    assert 0.8 < associated(of_numbers(x), of_numbers(gaps)) < 1
    named = np.array([f"row {k}" for k in range(200)])
    assert associated(of_categories(named), of_numbers(x)) == 0
    assert associated(of_categories(np.full(200, "same")), of_numbers(x)) == 0


def test_the_target_stands_first_and_pairs_of_numbers_have_a_sign(frame):
    result = found(split_of(frame, frame["side"].to_numpy()), ASSOCIATIONS).associations
    assert result.columns[:2] == ["y", "side"]
    values = np.array(result.values)
    assert np.allclose(values, values.T)
    assert np.allclose(np.diag(values), 1)
    a, b = result.columns.index("a"), result.columns.index("b")
    assert values[a, b] < -0.8
    assert (np.delete(values, [a, b], axis=0) >= 0).all()


@pytest.mark.parametrize(("column", "step"), [
    (np.arange(30.0), 1.0), (np.arange(30) / 100, 0.01), (1000.0 * np.arange(50), 1000.0), (np.arange(5.0), 0.0),
    (np.r_[np.nan, np.arange(30) / 10], 0.1), (np.pi * np.arange(30), 0.0), (1e9 + np.arange(40) / 1000, 0.0)])
def test_the_step_of_a_column_is_what_it_was_rounded_to(column, step):
    assert step_of(column) == step


def test_rounding_moves_a_number_by_half_a_step(frame):
    heights = np.random.default_rng(0).normal(170, 10, 300)
    result = found(split_of(frame.assign(cm=heights.round()), frame["side"].to_numpy()), PRECISION).precision
    assert [one.column for one in result] == ["cm"]
    moved = np.abs(heights.round() - heights).max() / heights.round().std()
    assert 0.95 * result[0].eps < moved <= result[0].eps


def test_columns_that_change_are_drawn_part_by_part_and_others_are_not(frame):
    n = len(frame)
    later = np.arange(n) >= n / 2
    changed = frame.assign(moved=frame["a"] + 3 * later, turned=np.where(later, "new", "old"))
    result = found(split_of(changed, frame["side"].to_numpy()), DRIFTED).along
    assert {one.column for one in result.columns} == {"moved", "turned"}
    drawn = {one.column: one for one in result.columns}
    parts = np.split(changed["moved"].to_numpy(), range(30, 300, 30))
    assert drawn["moved"].middle == pytest.approx([np.median(part) for part in parts])
    assert drawn["moved"].high == pytest.approx([np.quantile(part, 0.75) for part in parts])
    assert drawn["turned"].category == "new"
    assert drawn["turned"].middle == [0.0] * 5 + [1.0] * 5
    assert found(split_of(frame, frame["side"].to_numpy()), DRIFTED).along is None


def test_rows_are_in_order_of_their_times_where_these_are_known(frame):
    when = np.random.default_rng(1).permutation(len(frame))
    late = frame.assign(when=when, b=frame["b"] + 5 * (when > 150))
    result = found(split_of(late, frame["side"].to_numpy(), time="when"), DRIFTED).along
    assert result.along == "along when"
    assert [one.column for one in result.columns] == ["b"]
    assert found(split_of(late.drop(columns="when"), frame["side"].to_numpy()), DRIFTED).along is None


def test_folds_hold_every_row_once_groups_whole_and_classes_evenly():
    y = np.repeat([0, 1], [80, 20])
    fold = folds_of(y, None, True, 0)
    assert np.bincount(fold).tolist() == [20] * 5
    assert [int((y[fold == k] == 1).sum()) for k in range(5)] == [4] * 5
    together = np.repeat(np.arange(25), 4)
    fold = folds_of(y, together, True, 0)
    assert all(len(np.unique(fold[together == group])) == 1 for group in range(25))
    assert (folds_of(y, None, True, 0) != folds_of(y, None, True, 1)).any()


def test_the_interval_is_that_of_the_corrected_t_test():
    scores = np.array([0.8, 0.7, 0.75, 0.9, 0.85])
    cell = corrected(scores, True)
    half = t.ppf(0.975, 4) * np.sqrt((1 / 5 + 0.2 / 0.8) * np.var(scores, ddof=1))
    assert (cell.value, cell.low, cell.high) == pytest.approx((0.8, 0.8 - half, min(0.8 + half, 1)))


def test_a_thorough_audit_is_cross_validated_and_a_standard_one_is_not(frame):
    y = np.where(frame["a"] > 1, "rare", "common")
    y[:8] = np.where(y[:8] == "rare", "common", "rare")
    entries = {"majority class": DummyClassifier(), "logistic regression": LogisticRegression(),
               "plain SVC": LinearSVC(random_state=0), "certified SVC": LogisticRegression(C=0.1)}
    chosen = (REPEATED, *(one for one in MEASUREMENTS if one.name == "scores on the rows as they are"))
    result = found(split_of(frame, y, entries, effort="thorough", metric="balanced_accuracy"), *chosen)
    assert result.cells["cross_validated"]["majority class"].value == pytest.approx(0.5)
    split = split_of(frame, y, entries, effort="thorough", metric="balanced_accuracy")
    X, labels = np.r_[split.train.X, split.test.X], np.r_[split.train.y, split.test.y]
    scores = []
    for seed in range(3):
        fold = folds_of(labels, None, True, seed)
        scores += [balanced_accuracy_score(labels[fold == k], LogisticRegression().fit(
            X[fold != k], labels[fold != k]).predict(X[fold == k])) for k in range(5)]
    assert result.cells["cross_validated"]["logistic regression"].value == pytest.approx(np.mean(scores))
    assert "cross_validated" not in found(split_of(frame, y, entries), *chosen).columns
    timed = split_of(frame.assign(when=np.arange(len(frame))), y, entries, effort="thorough", time="when")
    assert "cross_validated" not in found(timed, *chosen).columns


def test_folds_that_would_leave_one_class_to_train_on_are_not_used():
    """No classifier can be fitted to them: of twelve groups the two of a class often fall into one fold."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=120), "who": np.repeat(np.arange(12), 10)})
    y = np.where(frame["who"] < 2, "few", "many")
    entries = {"majority class": DummyClassifier(), "plain SVC": LinearSVC(random_state=0)}
    chosen = (REPEATED, *(one for one in MEASUREMENTS if one.name == "scores on the rows as they are"))
    for seed in range(40):
        try:
            split = split_of(frame, y, entries, effort="thorough", groups="who", seed=seed)
        except ValueError:  # a class is on one side only
            continue
        assert 0 < found(split, *chosen).cells["cross_validated"]["plain SVC"].value <= 1


def test_numbers_are_cross_validated_by_their_rmse(frame):
    entries = {"mean of the target": DummyRegressor(), "ridge regression": Ridge(), "plain kernel ridge": Ridge()}
    chosen = (REPEATED, *(one for one in MEASUREMENTS if one.name == "scores on the rows as they are"))
    y = frame["a"].to_numpy() + 0.1 * frame["b"].to_numpy()
    cells = found(split_of(frame[["a", "b"]], y, entries, effort="thorough"), *chosen).cells["cross_validated"]
    assert cells["mean of the target"].value == pytest.approx(y.std(), rel=0.05)
    assert cells["ridge regression"].high < cells["mean of the target"].low


def test_rows_to_test_on_are_compared_with_the_others(frame):
    rows = np.arange(300)
    later = frame.assign(b=frame["b"] + 5 * (rows >= 200))
    y = frame["side"].to_numpy()
    table = make_table(columns_of(later), y, "y", "auto")
    table.to_test = rows >= 200
    entries = {"majority class": DummyClassifier(), "plain SVC": LinearSVC()}
    result = found(split_table(table, entries, Options()), DRIFTED).along
    assert [one.column for one in result.columns] == ["b"]
    assert result.columns[0].middle == pytest.approx([later["b"][:200].median(), later["b"][200:].median()])


def test_the_page_shows_all_of_it(frame):
    changed = frame.assign(moved=frame["a"] + 3 * (np.arange(300) >= 150), cm=(10 * frame["a"]).round())
    with only("plain SVC"):
        page = html(buttress.audit(None, changed, frame["side"].to_numpy(), effort="quick"))
    for part in ("along", "associations", "rounding"):
        assert f'id="{part}"' in page
    assert 'aria-label="moved: median from' in page


@pytest.mark.parametrize(("top", "numbers"), [
    (1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]), (0.25, [0.0, 0.05, 0.1, 0.15, 0.2, 0.25]), (3.0, [0.0, 1.0, 2.0, 3.0]),
    (1.45e6, [0.0, 5e5, 1e6]), (0.3, [0.0, 0.1, 0.2, 0.3])])
def test_axes_have_round_numbers(top, numbers):
    assert ticks(top) == pytest.approx(numbers)
