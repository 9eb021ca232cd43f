"""Whose rows are held out, and by what measure: groups, times and rows to test on, and intervals that obey them."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

import buttress
from buttress import cli
from buttress.audit.baselines import MAJORITY
from buttress.audit.findings import CHECKS, Evidence
from buttress.audit.measuring.cells import (
    accuracy,
    auc,
    balanced_accuracy,
    median_error,
    r2,
    rmse,
    standard_error,
)
from buttress.audit.measuring.split_table import split_table
from buttress.audit.measuring.suspicion import none_judged
from buttress.audit.options import Options
from buttress.audit.reading.corrections import row_keys
from buttress.audit.reading.split import set_apart, split, table_to_test
from buttress.audit.reading.table import columns_of, make_table, read_as_before


def patients(n=240, count=30, seed=0):
    """Rows of patients, whose label is theirs and has nothing to do with what is measured of them."""
    rng = np.random.default_rng(seed)
    who = rng.integers(0, count, n)
    X = rng.normal(size=(count, 3))[who] * 3 + 0.2 * rng.normal(size=(n, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["patient"] = [f"P{number:03d}" for number in who]
    frame["day"] = pd.date_range("2024-01-01", periods=n)[rng.permutation(n)].strftime("%Y-%m-%d")
    return frame, (np.arange(count) % 2)[who]


def table_of(frame, y, groups=None, time=None):
    table = make_table(columns_of(frame), y, "y", "auto")
    set_apart(table, groups, time)
    return table


@pytest.mark.parametrize("seed", range(5))
def test_groups_stay_whole_and_their_column_is_no_feature(seed):
    frame, y = patients()
    table = table_of(frame, y, groups="patient")
    train, test, note = split(table, seed)
    who = frame["patient"].to_numpy()
    assert not set(who[train]) & set(who[test])
    assert len(train) + len(test) == len(y)
    assert 0.15 < len(test) / len(y) < 0.45
    assert "patient" not in (*table.numeric, *table.categorical)
    assert "30 of them" in note


def test_the_latest_rows_are_held_out_and_equal_times_are_on_one_side():
    frame, y = patients()
    table = table_of(frame, y, time="day")
    train, test, _ = split(table, 0)
    assert frame["day"].to_numpy()[train].max() < frame["day"].to_numpy()[test].min()
    assert len(test) == round(0.3 * len(y))
    months = frame.assign(day=frame["day"].str[:7])
    train, test, _ = split(table_of(months, y, time="day"), 0)
    assert not set(months["day"][train]) & set(months["day"][test])
    years = frame.assign(day=[f"{1500 + 36 * i}-12-31" for i in range(len(y))])  # up to 9999 or so
    assert split(table_of(years, y, time="day"), 0)[1].tolist() == list(range(168, 240))


@pytest.mark.parametrize("values", [pd.Series(np.arange(240.0)), pd.date_range("2024-01-01", periods=240)])
def test_times_are_numbers_or_dates_too(values):
    frame, y = patients()
    _, test, _ = split(table_of(frame.assign(when=values), y, time="when"), 0)
    assert test.tolist() == list(range(168, 240))


def test_a_row_without_a_group_is_one_and_one_without_a_time_is_refused():
    frame, y = patients()
    frame.loc[[3, 5], "patient"] = None
    table = table_of(frame, y, groups="patient")
    assert len({table.groups[3], table.groups[5], *table.groups}) == len(set(frame["patient"].dropna())) + 2
    with pytest.raises(ValueError, match="'patient' puts all rows into one group"):
        table_of(frame.assign(patient=1), y, groups="patient")
    with pytest.raises(ValueError, match="'patient' is empty"):
        table_of(frame.assign(patient=np.nan), y, groups="patient")
    frame.loc[4, "day"] = None
    with pytest.raises(ValueError, match="'day' has no time in 1 row, such as row 4"):
        table_of(frame, y, time="day")


@pytest.mark.parametrize(("options", "match"), [
    ({"drop": ["a", "patent"]}, "^drop names the column 'patent', which is not among the features.*'patient'"),
    ({"groups": "patent"}, "^groups names the column 'patent', which is not among the features.*'patient'"),
    ({"time": "patient"}, "Times must be numbers, or dates such as 2024-03-31"),
    ({"groups": "patient", "time": "day"}, "not both"),
    ({"metric": "rmse"}, "does not suit a classification task"),
])
def test_what_cannot_be_obeyed_is_refused(options, match):
    frame, y = patients()
    with pytest.raises(ValueError, match=match):
        buttress.audit(None, frame, y, **options)


def test_a_class_that_only_later_rows_have_is_refused():
    frame, y = patients()
    y = np.where(frame["day"] > "2024-08-01", 2, y)
    with pytest.raises(ValueError, match="Class 2 of 'y' is in no row that models would be trained on"):
        split(table_of(frame, y, time="day"), 0)


def test_models_are_tested_on_the_rows_given_to_test_them():
    frame, y = patients()
    more = {**columns_of(frame[200:]), "y": y[200:]}
    table = table_to_test(columns_of(frame[:200]), y[:200], "y", "auto", more)
    train, test, _ = split(table, 0)
    assert (train.tolist(), test.tolist()) == (list(range(200)), list(range(200, 240)))
    with pytest.raises(ValueError, match="lack the columns 'c', 'y'"):
        table_to_test(columns_of(frame), y, "y", "auto", columns_of(frame.drop(columns="c")))


def test_a_column_to_drop_is_no_feature_and_in_the_keys_of_rows():
    frame, y = patients()
    frame["b"], frame["t"] = 1e300, pd.date_range("2020-01-01", periods=len(frame))  # refused as features
    test = frame[200:].drop(columns=["b", "t"]), y[200:]
    result = buttress.audit(None, frame[:200], y[:200], drop=["day", "b", "t"], test=test, effort="quick",
                            target_name="y")
    assert (result.data["numeric"], result.data["categorical"]) == (["a", "c"], ["patient"])
    assert result.settings["drop"] == ["day", "b", "t"]
    assert result.sheet.keys[:200] == row_keys({"y": y[:200], **columns_of(frame[:200])})


@pytest.mark.parametrize("column", [
    2**60 + 1 + np.arange(40), np.arange(40) % 2 == 0, np.linspace(0, 1, 40, dtype=np.float32),
    np.datetime64("2020-01-01T00:00:01") + np.arange(40), np.arange(40).astype("m8[s]"),
], ids=lambda column: str(column.dtype))
@pytest.mark.parametrize("other", [
    np.arange(8), np.arange(8) + 0.5, np.full(8, np.nan), np.array(["a"] * 8), np.array(["b"] * 8, dtype=object),
    np.datetime64("2021-01-01") + np.arange(8), None,
], ids=lambda other: str(getattr(other, "dtype", None)))
def test_the_keys_of_rows_do_not_depend_on_the_type_that_rows_to_test_on_have(column, other):
    X, y = {"id": column, "a": np.arange(40) / 7}, np.arange(40) % 2 == 0
    more = {"a": np.arange(8.0), "y": np.arange(8) % 2} | ({} if other is None else {"id": other})
    table = table_to_test(X, y, "y", "auto", more, drop=["id"])
    assert row_keys({"y": table.given_target, **table.given})[:40] == row_keys({"y": y, **X})
    assert set(table.target) == {0, 1}


def test_a_column_of_numbers_stays_one_with_rows_to_test_or_is_refused():
    X, y = {"a": np.arange(40.0)}, np.arange(40) % 2
    more = {"a": np.array(["1.5", "", "x"], dtype=object), "y": [0, 0, 0]}
    table = table_to_test(X, y, "y", "auto", more)
    np.testing.assert_array_equal(table.numeric["a"], [*X["a"], 1.5, np.nan, np.nan])
    with pytest.raises(ValueError, match="'a' held numbers before"):
        table_to_test(X, y, "y", "auto", more | {"a": np.array(["x"] * 3, dtype=object)})


def test_truth_values_beside_another_word_are_read_as_before():
    """The word alone makes texts of the column: what was refused was then its first entry, TRUE."""
    read = read_as_before("flag", np.array(["TRUE", "yes", "false", ""], dtype=object), None)
    np.testing.assert_array_equal(read, [1, np.nan, 0, np.nan])


def test_labels_of_patients_are_told_by_random_rows_and_not_by_whole_patients():
    """The columns say who a patient is and nothing else, so a new patient cannot be told: an honest accuracy is .5."""
    frame, y = patients(count=40)
    frame = frame.drop(columns="day")
    random = split_table(make_table(columns_of(frame.drop(columns="patient")), y, "y", "auto"), {}, Options())
    table = make_table(columns_of(frame), y, "y", "auto")
    set_apart(table, "patient", None)
    grouped = split_table(table, {}, Options())
    scores = []
    for one in (random, grouped):
        model = KNeighborsClassifier(1).fit(one.train.X, one.train.y)
        scores.append(accuracy(model.predict(one.test.X) == one.test.y, one.test.together))
    assert scores[0].value > 0.95
    assert scores[1].low < 0.5 < scores[1].high
    assert scores[1].high - scores[1].low > 3 * (scores[0].high - scores[0].low)


def test_an_interval_over_groups_holds_the_truth_where_one_over_rows_does_not():
    """Whole groups are right or wrong: 200 tables of 20 groups of 10 rows, in each of which a group is right at .7."""
    rng, held, naive = np.random.default_rng(0), 0, 0
    groups = np.repeat(np.arange(20), 10)
    for _ in range(200):
        correct = (rng.random(20) < 0.7)[groups]
        cell, plain = accuracy(correct, groups), accuracy(correct)
        held += cell.low <= 0.7 <= cell.high
        naive += plain.low <= 0.7 <= plain.high
    assert held >= 185
    assert naive < 150


def test_groups_of_one_row_are_rows():
    rng = np.random.default_rng(0)
    values, alone = rng.normal(size=50), rng.permutation(50)
    assert standard_error(values, alone) == pytest.approx(values.std(ddof=1) / np.sqrt(50))
    y, residual = rng.normal(size=50), rng.normal(size=50)
    for cell in (rmse(residual, 0, np.arange(50)), r2(residual, y, 0, np.arange(50)),
                 median_error(residual, 0, np.arange(50))):
        assert cell.low < cell.value < cell.high
    assert rmse(residual, 0, np.arange(50)) == rmse(residual, 0)


def test_errors_of_groups_have_wider_intervals():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(15), 20)
    y, residual = rng.normal(size=300), np.repeat(rng.normal(size=15), 20) + 0.1 * rng.normal(size=300)
    for measure in (lambda together: rmse(residual, 0, together), lambda together: r2(residual, y, 0, together),
                    lambda together: median_error(residual, 0, together)):
        wide, narrow = measure(groups), measure(None)
        assert wide.value == narrow.value
        assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)


@pytest.mark.parametrize("count", [2, 4])
def test_balanced_accuracy_and_auc_are_those_of_scikit_learn(count):
    rng = np.random.default_rng(count)
    y = rng.choice(count, 300, p=np.arange(1, count + 1) / np.arange(1, count + 1).sum())
    X = np.round(np.eye(count)[y] + rng.normal(size=(300, count)), 1)  # with ties
    model = LogisticRegression().fit(X, y)
    scores = model.predict_proba(X)
    found = auc(scores, y, model.classes_)
    expected = roc_auc_score(y, scores[:, 1] if count == 2 else scores, multi_class="ovr")
    assert found.value == pytest.approx(expected)
    cell = balanced_accuracy(model.predict(X) == y, y)
    assert cell.value == pytest.approx(balanced_accuracy_score(y, model.predict(X)))
    assert cell.low < cell.value < cell.high


def test_the_interval_of_an_auc_holds_the_truth():
    """Normal scores one apart: the area is P(N(1, 2) > 0) = Phi(1 / sqrt(2))."""
    truth, held, rng = norm.cdf(1 / np.sqrt(2)), 0, np.random.default_rng(0)
    y = np.arange(120) % 3 == 0
    for _ in range(200):
        scores = y + rng.normal(size=120)
        cell = auc(np.column_stack([-scores, scores]), y, np.array([False, True]))
        held += cell.low <= truth <= cell.high
    assert 180 <= held <= 200


def test_what_the_majority_cannot_win_decides_where_a_class_is_rare():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), (np.arange(300) % 15 == 0).astype(int)
    table = make_table(columns_of(X), y, "y", "auto")
    assert split_table(table, {}, Options()).decides == "balanced"
    assert split_table(table, {}, Options(metric="accuracy")).decides == "as_is"
    table = make_table(columns_of(X), np.arange(300) % 3, "y", "auto")
    assert split_table(table, {}, Options()).metric == "accuracy"
    majority = balanced_accuracy(y == 0, y)
    assert majority.value == 0.5


def check(code):
    return next(one for one in CHECKS if one.code == code)


def found_by(code, frame, y):
    table = make_table(columns_of(frame), y, "y", "auto")
    none = np.zeros(0, dtype=np.intp)
    evidence = Evidence(table, none, none, none, none_judged(table.target, True), {}, None,
                        MAJORITY, 0.25)
    return list(check(code).find(evidence))


@pytest.mark.parametrize("options", [{"groups": "who"}, {"time": "when"}])
def test_a_column_that_tells_the_target_of_relatives_only_is_no_leak_where_they_are_held_out_together(options):
    """A number near that of rows of the same patient, or of the same weeks, whose targets are alike."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(30), 20)
    y = np.repeat(rng.permutation(30) % 2, 20)
    frame = pd.DataFrame({"near": who + 0.2 * rng.random(600), "noise": rng.normal(size=600), "who": who,
                          "when": np.arange(600)})
    for features in (["near", "noise"], [*frame]):
        columns = frame[features]
        table = make_table(columns_of(columns), y, "y", "auto")
        if len(features) > 2:
            table.numeric.pop("who" if "time" in options else "when", None)
            set_apart(table, options.get("groups"), options.get("time"))
        none = np.zeros(0, dtype=np.intp)
        evidence = Evidence(table, none, none, none, none_judged(y, True), {}, None, MAJORITY, 0.25)
        found = list(check("BUT001").find(evidence))
        assert [one.evidence["columns"] for one in found] == ([["near"]] if len(features) == 2 else [])


def test_a_leak_is_found_on_the_rows_given_to_test_on():
    """There the column tells the target, and of the others nothing does; elsewhere it does not matter."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    table = make_table({"leak": y + 0.1 * rng.normal(size=300), "noise": rng.normal(size=300)}, y, "y", "auto")
    none = np.zeros(0, dtype=np.intp)
    evidence = Evidence(table, none, none, none, none_judged(y, True), {}, None, MAJORITY, 0.25)
    table.to_test = np.arange(300) >= 200
    assert [one.evidence["columns"] for one in check("BUT001").find(evidence)] == [["leak"]]
    table.numeric["leak"][200:] = rng.normal(size=100)
    assert list(check("BUT001").find(evidence)) == []


def test_a_column_that_says_whose_rows_are_is_a_finding_with_the_command():
    frame, y = patients(count=60)
    (found,) = found_by("BUT023", frame, y)
    assert (found.code, found.severity, found.evidence["column"]) == ("BUT023", "warning", "patient")
    assert found.evidence["share"] > 0.9
    assert "--groups 'patient'" in found.advice
    mixed = frame.assign(patient=np.random.default_rng(1).permutation(frame["patient"]))
    assert found_by("BUT023", mixed, y) == []
    numbered = frame.assign(patient=frame["patient"].str[1:].astype(int))
    assert [one.evidence["column"] for one in found_by("BUT023", numbered, y)] == ["patient"]
    assert found_by("BUT023", numbered.rename(columns={"patient": "measured"}), y) == []  # a number like others


def test_a_column_of_times_is_a_finding_and_a_warning_where_the_target_changes():
    frame, y = patients()
    (found,) = found_by("BUT024", frame, y)
    assert (found.code, found.severity) == ("BUT024", "note")
    (found,) = found_by("BUT024", frame, (frame["day"] > "2024-05-01").astype(int).to_numpy())
    assert found.severity == "warning"
    assert "--time 'day'" in found.advice


def test_the_command_obeys_groups_and_rows_to_test(tmp_path, monkeypatch):
    frame, y = patients()
    frame = frame.drop(columns="day").assign(y=y)
    frame[:160].to_csv(tmp_path / "data.csv", index=False)
    frame[160:].to_csv(tmp_path / "test.csv", index=False)
    monkeypatch.setattr(sys, "argv", [
        "buttress", "audit", str(tmp_path / "data.csv"), "--target", "y", "--test", str(tmp_path / "test.csv"),
        "--groups", "patient", "--effort", "quick", "--metric", "balanced_accuracy", "--output", str(tmp_path)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 0
    found = json.loads((tmp_path / "audit.json").read_text())
    assert (found["data"]["train"], found["data"]["test"]) == (160, 80)
    assert found["settings"]["groups"] == "patient"
    assert found["metric"] == found["settings"]["metric"] == "balanced_accuracy"
    assert found["data"]["numeric"] == ["a", "b", "c"]
    assert "patient" not in found["data"]["categorical"]
    cell = found["estimators"]["logistic regression"]["as_is"]
    assert cell["low"] < 0.5 < cell["high"]  # of patients seen before more would be right
