"""Newer rows against a table: what did not change raises few alarms, what did is found and named."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency, false_discovery_control, ks_2samp

import buttress
from buttress.audit.against import _newer, check_columns, compare, same_categories, same_numbers, same_share, unlike
from buttress.audit.reading.split import split
from buttress.audit.reading.table import columns_of, make_table

from audit_problems import only

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
drift = pytest.importorskip("drift")


def test_without_drift_alarms_are_rare_and_drift_is_found():
    """At most 5% in the long run: of 20 pairs, 5 or more would come three times in a thousand."""
    assert sum(drift.alarms(drift.compared(seed))["any"] for seed in range(20)) < 5
    assert all("c0" in drift.compared(seed, 1.5).drifted for seed in range(3))


def test_columns_are_compared_by_their_entries_and_by_their_gaps():
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=80), rng.normal(0.4, 1, 60)
    assert same_numbers(old, new) == pytest.approx(2 * ks_2samp(old, new).pvalue)
    gaps = np.where(np.arange(60) % 2, new, np.nan)
    assert same_numbers(old, gaps) == pytest.approx(2 * same_share(np.isnan(old), np.isnan(gaps)))
    texts = np.repeat(np.array(["a", "b", "c"], dtype=object), [30, 30, 30])
    others = np.repeat(np.array(["a", "b", "c"], dtype=object), [10, 30, 50])
    assert same_categories(texts, others) == pytest.approx(chi2_contingency([[30, 30, 30], [10, 30, 50]]).pvalue)


def test_columns_of_two_values_are_compared_without_warnings_of_scipy():
    old, new = (np.where(np.arange(60) < ones, 1.0, 0.0) for ones in (30, 32))
    with warnings.catch_warnings(action="error"):
        assert same_numbers(old, new) == 1


def test_a_number_between_two_classes_is_none_of_them():
    rng = np.random.default_rng(0)
    table = make_table({"a": rng.normal(size=80)}, np.arange(80) % 2 + 1, "y", "auto")
    new = {"a": table.numeric["a"], "y": np.where(np.arange(80) % 2, 2.5, 1.0)}
    assert _newer(table, new)[1].tolist() == ["2.5" if i % 2 else 1 for i in range(80)]


def test_whole_classes_are_found_among_texts_of_a_column_with_a_stray_word():
    table = make_table({"a": np.arange(40.0) ** 1.5}, np.arange(40) % 2, "y", "auto")
    new = {"a": np.arange(4.0), "y": np.array(["0.0", " 1", "n.a.", None], dtype=object)}
    assert _newer(table, new)[1].tolist() == [0, 1, "n.a.", None]


@pytest.mark.parametrize(("old", "new", "named"), [
    ([True, False], [1, 0], "holds '0'"), ([1, 0], [True, False], "holds 'False'"), (["1.0", "2.0"], [1, 2], "'1.0'")])
def test_classes_that_are_all_written_otherwise_are_not_called_errors(old, new, named):
    a = np.random.default_rng(0).normal(size=40)
    table = make_table({"a": a}, np.array(old * 20), "y", "classification")
    with pytest.raises(ValueError, match=f"The target 'y' of the newer data .*{named}.* Write it as there, or leave"):
        _newer(table, {"a": a, "y": np.array(new * 20)})
    assert _newer(table, {"a": a, "y": np.array([None, old[0]] * 20, dtype=object)})[1][:2].tolist() == [
        None, table.target[0]]


@pytest.fixture(autouse=True, scope="module")
def few():
    """One machine beside the baselines: what is tested here is about the newer rows."""
    with only("plain SVC"):
        yield


@pytest.fixture(scope="module")
def frames():
    rng = np.random.default_rng(0)

    def frame(n, shift):
        X = pd.DataFrame({"a": rng.normal(size=n) + shift, "b": rng.normal(size=n), "k": rng.choice(["x", "y"], n)})
        return X, np.where(X["a"] - shift + 0.3 * rng.normal(size=n) > 0, "yes", "no")

    return frame(160, 0.0), frame(120, 2.0)


def test_the_audit_says_what_became_of_newer_rows(frames):
    (X, y), (newer, targets) = frames
    found = buttress.audit(None, X, y, rows=60, against=newer.assign(target=targets))
    assert found.against["trusted"] is False
    assert [one["column"] for one in found.against["columns"] if one["drifted"]] == ["a"]
    assert {"BUT018", "BUT020"} <= {finding.code for finding in found.findings}
    assert found.against["score_old"] > 0.8 > found.against["score_new"]
    assert "may fail on the 120 newer ones" in found._repr_html_().replace("&#x27;", "'")


def test_newer_rows_without_a_column_are_refused_before_any_work(frames):
    (X, y), (newer, _) = frames
    with pytest.raises(ValueError, match="lack the column 'b'"):
        buttress.audit(None, X, y, against=newer[["a", "k"]])
    with pytest.raises(ValueError, match="have 5 rows"):
        buttress.audit(None, X, y, against=newer[:5])


def test_newer_rows_without_a_target_are_said_to_be_so_and_a_misspelt_one_is_named(frames):
    (X, y), (newer, targets) = frames
    table = make_table(columns_of(X), y, "target", "auto")
    for name, held in (("target", targets), ("tarqet", targets), ("target", None)):
        check_columns(table, columns_of(newer.assign(**{name: held})), "new.csv")
    says = "The newer data 'new.csv' have no targets 'target': no model is scored there."
    assert [note for note in table.notes if "newer" in note] == [f"{says} Did you mean 'tarqet'?", says]


def scored(frames, change):
    """The comparison of the frames' rows, the targets of the newer ones changed; the audit compares the same way."""
    (X, y), (newer, _) = frames
    targets = np.where(newer["a"] > 2.0, "yes", "no").astype(object)
    table = make_table(columns_of(X), y, "target", "auto")
    train, test, _ = split(table, 0)
    columns = columns_of(newer.assign(target=change(targets)))
    return compare(table, columns, "newer", train, test, 0).to_dict()


def test_targets_that_are_missing_are_left_out_and_new_classes_are_errors(frames):
    whole = scored(frames, lambda targets: targets)
    holes = scored(frames, lambda targets: np.where(np.arange(len(targets)) < 3, None, targets))
    assert abs(holes["score_new"] - whole["score_new"]) < 0.03
    assert scored(frames, lambda targets: np.full(len(targets), None))["score_new"] is None
    others = scored(frames, lambda targets: np.where(np.arange(len(targets)) % 2, "other", targets))
    assert abs(others["score_new"] - whole["score_new"] / 2) < 0.1


def test_newer_columns_that_cannot_be_read_are_refused_by_name(frames):
    (X, y), (newer, _) = frames
    for value in ("many", 1e300):
        with pytest.raises(ValueError, match="Column 'a' h"):
            buttress.audit(None, X, y, rows=60, against=newer.assign(a=[value] * len(newer)))


def test_rows_like_the_known_ones_are_called_unlike_in_at_most_a_tenth_of_tables():
    """At a rate of .1; heavy tails and columns of few values among them. 12 of 60 come twice in a hundred at most."""
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = (rng.normal(size=(150, 6)), rng.standard_t(2, (150, 3)), rng.integers(0, 4, (150, 5)) * 1.0)[seed % 3]
        alarms += unlike(X[:105], X[105:], 0.1).size > 0
    assert alarms < 12


def test_unlike_rows_are_found_from_as_many_on_as_p_values_allow():
    rng = np.random.default_rng(0)
    known, rows = rng.normal(size=(105, 4)), rng.normal(size=(45, 4))
    least = int(np.ceil(45 / 106 / 0.1))
    for count in (least - 1, least):
        moved = rows.copy()
        moved[:count] += 50 * np.arange(1, count + 1)[:, None]
        assert unlike(known, moved, 0.1).tolist() == list(range(count))[::-1] * (count == least)  # the farthest first


def fifth(row, others):
    return np.sort(np.linalg.norm(others - row, axis=1))[4]


def test_unlike_rows_are_those_of_the_definition_and_no_surer_than_with_the_row_among_the_known():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        draw = (rng.normal, rng.standard_cauchy)[seed % 2]
        known, rows = np.round(5 * draw(size=(60, 2))), np.round(5 * draw(size=(12, 2)))  # exact distances
        rows[:3] += 10_000
        different = np.unique(known, axis=0)
        far = np.array([fifth(row, different) for row in rows])
        own = np.array([fifth(row, np.delete(different, i, axis=0)) for i, row in enumerate(different)])
        p = np.array([(1 + (own >= one).sum()) / (1 + len(own)) for one in far])
        found = unlike(known, rows, 0.3)
        assert set(found) == set(np.flatnonzero(false_discovery_control(p) <= 0.3 + 1e-12))
        assert (np.diff(far[found]) <= 0).all()
        for i, row in enumerate(rows):  # conformal p-values proper, of all rows with the new one
            whole = [fifth(one, np.vstack([np.delete(different, j, axis=0), row])) for j, one in enumerate(different)]
            assert p[i] >= (1 + (np.array(whole) >= far[i]).sum()) / (1 + len(whole))


@pytest.mark.parametrize(("times", "apart"), [(2, 0.0), (6, 0.0), (2, 1e-6)])
def test_rows_that_are_there_several_times_make_new_ones_no_stranger(times, apart):
    alarms = 0
    for seed in range(40):
        known, rows = drift.repeated(np.random.default_rng(seed), 300, 3, times, apart).reshape(2, 150, 3)
        alarms += unlike(known, rows, drift.RATE).size > 0
    assert alarms <= 3


def test_rows_that_are_all_equal_are_compared_with_nothing():
    assert unlike(np.ones((30, 2)), np.zeros((5, 2)), 0.1).size == 0
    assert unlike(np.repeat(np.eye(3), 9, axis=0), 50 * np.ones((30, 3)), 0.3).size == 30




def test_entries_beyond_float32_are_no_mistake():
    """scikit-learn's trees, which look for leaks and tell new rows from old, refuse them without naming the column."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(80, 2)), columns=["a", "b"])
    y = np.where(X.a + X.b > 0, "u", "v")
    far = X.copy()
    far.loc[3, "a"] = 1e60
    assert buttress.audit(None, X, y, effort="quick", against=far).against["apart"] is False
    assert buttress.audit(None, far, y, effort="quick", against=X).against["apart"] is False
