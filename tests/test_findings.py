"""Findings: each planted cause is found under its code; clean data are quiet; codes can be left out."""

import json
import pydoc
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import buttress
from buttress.audit.baselines import stands_in_box
from buttress.audit.conclude import verdict
from buttress.audit.findings import CHECKS, Check, Evidence, Severity, check_codes, find_all
from buttress.audit.findings.columns import far_out
from buttress.audit.findings.leaks import association
from buttress.audit.measuring.cells import Cell
from buttress.audit.measuring.suspicion import Verdicts
from buttress.audit.reading.split import split
from buttress.audit.reading.table import make_table

from audit_problems import conforms, only

ROWS = 200


def clean(seed=0):
    rng = np.random.default_rng(seed)
    X = {"a": rng.normal(50, 9, ROWS), "b": rng.normal(size=ROWS), "c": rng.normal(size=ROWS),
         "d": rng.choice(["x", "y"], ROWS).astype(object)}
    return X, (X["b"] + X["c"] + rng.normal(size=ROWS) > 0).astype(int)


def evidence_of(X, y, task="auto", wrong=(), cells=None, novel=(), interval=(0.02, 0.2), better=("model",)):
    """Evidence with verdicts and scores made up, so that no model need be fitted."""
    table = make_table(X, y, "y", task)
    classifies = table.classifies
    train, test, _ = split(table, 0)
    judged = np.arange(len(table))
    probability = np.full(len(table), 0.001)
    probability[list(wrong)] = 0.99
    expected = table.target.copy()
    if classifies:
        expected[list(wrong)] = np.unique(y)[0]
    else:  # on both sides of what is expected
        expected[list(wrong)] += 9 * y.std() * np.where(np.arange(len(wrong)) % 2, 1, -1)
    verdicts = Verdicts(table.target, expected, probability, probability, np.zeros(len(table), bool),
                        np.zeros((len(table), 1), int), float(probability.mean()), classifies, interval)
    guess = "majority class" if classifies else "mean of the target"
    score = Cell(0.9, 0.85, 0.95) if classifies else Cell(1.0, 0.9, 1.1)
    rows = {"model": {"as_is": score} | (cells or {}), guess: {"as_is": Cell(0.5) if classifies else Cell(3.0)}}
    return Evidence(table, train, test, judged, verdicts, rows, "model", guess, 0.25, list(novel),
                    better=None if better is None else list(better))


def codes(*arguments, least=Severity.note, **options):
    order = list(Severity)
    found = find_all(evidence_of(*arguments, **options))
    return {finding.code for finding in found if order.index(finding.severity) <= order.index(least)}


@pytest.mark.parametrize("seed", range(5))
def test_clean_tables_are_quiet(seed):
    X, y = clean(seed)
    assert codes(X, y) == set()
    assert codes({name: X[name] for name in "bcd"}, X["a"]) == set()


def with_column(name, values):
    def plant(X, y):
        return X | {name: values(X, y)}, y
    return plant


def far(value):
    return with_column("a", lambda X, y: np.r_[np.full(3, value), X["a"][3:]])


@pytest.mark.parametrize(("code", "plant"), [
    ("BUT001", with_column("leak", lambda X, y: 2.0 * y + 1)),
    ("BUT001", with_column("leak", lambda X, y: y + 0.15 * np.random.default_rng(9).normal(size=ROWS))),
    ("BUT002", with_column("", lambda X, y: np.argsort(np.argsort(X["a"])) * 3 + 7)),
    ("BUT002", with_column("id", lambda X, y: np.arange(ROWS))),
    ("BUT021", with_column("b", lambda X, y: X["b"] + (np.arange(ROWS) >= ROWS // 2))),
    ("BUT003", lambda X, y: ({n: np.r_[v[:180], v[:20]] for n, v in X.items()}, np.r_[y[:180], y[:20]])),
    ("BUT004", lambda X, y: ({n: np.r_[v[:190], v[:10] + 1e-5 * np.arange(10)] if v.dtype.kind == "f"
                              else np.r_[v[:190], v[:10]] for n, v in X.items()}, np.r_[y[:190], y[:10]])),
    ("BUT005", with_column("one", lambda X, y: np.ones(ROWS))),
    ("BUT005", with_column("nearly", lambda X, y: np.r_[5.0, np.ones(ROWS - 1)])),
    ("BUT006", with_column("a", lambda X, y: np.where(np.arange(ROWS) % 3 == 0, np.nan, X["a"]))),
    ("BUT006", with_column("a", lambda X, y: np.where((y == 1) & (np.arange(ROWS) % 4 == 0), np.nan, X["a"]))),
    ("BUT009", far(-999.0)), ("BUT009", far(-51.0)), ("BUT009", far(5000.0)), ("BUT009", far(50000.0)),
    ("BUT010", with_column("w", lambda X, y: np.array([f"{n} kg" if n % 4 else "900 g" for n in range(ROWS)], object))),
    ("BUT011", lambda X, y: (X, np.where(np.arange(ROWS) < 9, "n.a.", y.astype(str)).astype(object))),
    ("BUT012", lambda X, y: (X, (np.arange(ROWS) % 20 == 0).astype(int))),
])
def test_a_planted_cause_is_found_under_its_code(code, plant):
    assert code in codes(*plant(*clean()))


def test_a_good_predictor_is_no_leak_where_others_predict_as_well():
    """Petals tell setosa alone, as genuine columns may; a column that tells all three classes is far ahead of them."""
    X, y = load_iris(return_X_y=True)
    columns = {f"c{j}": X[:, j] for j in range(4)}
    assert association(columns["c2"], y, True) == 1.0
    assert "BUT001" not in codes(columns, y)
    few = {name: columns[name] for name in ("c0", "c1")}
    assert "BUT001" not in codes(few, y)
    assert "BUT001" in codes(few | {"leak": y + 0.15 * np.random.default_rng(0).normal(size=150)}, y)


@pytest.mark.parametrize(("value", "cause"), [
    (-999.0, "code for a missing value"), (-51.0, "sign is wrong"), (5000.0, "100 times more"),
    (50000.0, "1000 times more")])
def test_the_cause_of_an_entry_far_out_is_named(value, cause):
    found = find_all(evidence_of(*far(value)(*clean())))
    assert [cause in finding.title for finding in found if finding.code == "BUT009"] == [True]


def test_a_heavy_tail_is_not_called_far_out():
    for seed in range(20):
        assert len(far_out(np.random.default_rng(seed).lognormal(10, 1, 300))) == 0


def test_counts_and_amounts_with_zeros_thin_out_and_are_not_called_far_out():
    """Poisson counts of lognormal means, and incomes of which a fifth are zero: no entry is a mistake."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        assert len(far_out(rng.poisson(rng.lognormal(1, 1, 300)).astype(float))) == 0
        assert len(far_out(np.where(rng.random(300) < 0.2, 0.0, rng.lognormal(10, 1, 300)))) == 0


def test_codes_are_found_among_counts_and_zeros_among_large_numbers():
    counts = np.random.default_rng(0).poisson(3.0, 300).astype(float)
    counts[0] = 11.0  # ten different counts
    counts[[5, 9, 70]] = 98.0, 99.0, 99.0
    assert far_out(counts).tolist() == [5, 9, 70]
    weights = np.random.default_rng(0).normal(80, 5, 300)
    weights[7] = 0.0
    assert far_out(weights).tolist() == [7]


@pytest.mark.parametrize(("values", "cause"), [
    ([98.0, 99.0, 99.0], "98 and 99 look like codes"),
    ([2.54 * 170, 2.54 * 168, 2.54 * 173], "2.54 times more than usual, another unit"),
    ([2.54 * 170, 2.54 * 170, 2.54 * 170], ""),  # one value three times is no unit
    ([17000.0, 17000.0, 17000.0], "100 times more"), ([600.0, 2000.0, 9000.0], ""),
    ([170e3, 162e3, 190e3, 168e3, 174e3, 171e3, 169e3, 172e3], "1000 times more"),  # of 190 there are few
    ([170e3, 600e3, 900e3, 400e3, 300e3, 171e3, 500e3, 200e3], ""),
    # nine in ten lie between 158 and 182: half the one and twice the other end what is of the wrong sign
    ([-82.0], "sign is wrong"), ([-75.0], ""), ([-355.0], "sign is wrong"), ([-372.0], ""),
])
def test_a_cause_is_named_only_where_it_takes_all_entries_among_the_others(values, cause):
    heights = np.r_[values, np.random.default_rng(0).normal(170, 7, ROWS - len(values))]
    named = find_all(evidence_of(clean()[0] | {"a": heights}, clean()[1]))
    titles = [finding.title for finding in named if finding.code == "BUT009"]
    assert [cause in title and (bool(cause) or title.endswith("in row 0.")) for title in titles] == [True]


@pytest.mark.parametrize("spread", [0.1, 1.0, 1.3])
def test_fifteen_entries_times_a_thousand_are_named_with_the_cause(spread):
    """Of 200 entries they are more than a twentieth, and of a wide column they are not far out among the logarithms."""
    X, y = clean()
    for seed in range(5):
        rng = np.random.default_rng(seed)
        sizes = rng.lognormal(3, spread, ROWS)
        rows = np.sort(rng.permutation(ROWS)[:15])
        sizes[rows] *= 1000
        [one] = found_of("BUT009", X | {"a": sizes}, y)
        assert "1000 times more" in one.title
        assert set(one.evidence["rows"]) <= set(rows.tolist())
        assert len(one.evidence["rows"]) >= 14


def test_no_tail_of_a_power_is_taken_for_a_mistake_of_units():
    for seed in range(200):
        assert len(far_out(1 + np.random.default_rng(seed).pareto(1.0, 300))) < 3


def test_codes_below_zero_are_found_where_others_are_larger_than_they():
    X, y = clean()
    careers = np.random.default_rng(0).gamma(1.0, 2000.0, ROWS).round()
    careers[[3, 50, 120]] = -999.0
    [one] = found_of("BUT009", X | {"a": careers}, y)
    assert one.evidence["rows"] == [3, 50, 120]
    assert "-999 looks like a code" in one.title
    careers[[3, 50, 120]] = 5.0, 5.0, -1.0
    assert found_of("BUT009", X | {"a": careers}, y) == []


def test_columns_swapped_in_some_rows_are_named_and_what_rises_together_is_not():
    rng = np.random.default_rng(0)
    X, y = clean()
    X |= {"a": rng.normal(175, 9, ROWS), "b": rng.normal(70, 10, ROWS)}
    assert found_of("BUT009", X, y) == []
    rows = [5, 60, 61, 150, 199]
    X["a"][rows], X["b"][rows] = X["b"][rows], X["a"][rows].copy()
    [one] = found_of("BUT009", X, y)
    assert "'a' and 'b' look swapped in 5 rows, such as row 5" in one.title
    assert one.evidence["rows"] == rows
    X["a"] = X["b"] + 100 + rng.normal(size=ROWS)
    assert not any("swapped" in one.title for one in found_of("BUT009", X, y))


@pytest.mark.parametrize("seed", range(10))
def test_columns_swapped_in_3_percent_of_the_rows_are_named_wherever_the_rows_lie_within_them(seed):
    """The largest entry too, which is outside the range of nine in ten."""
    rng = np.random.default_rng(seed)
    X, y = clean()
    X |= {"a": rng.normal(180, 10, ROWS), "b": rng.normal(4.8, 0.5, ROWS)}
    rows = np.unique(np.r_[X["a"].argmax(), rng.permutation(ROWS)[:5]])
    X["a"][rows], X["b"][rows] = X["b"][rows], X["a"][rows].copy()
    [one] = found_of("BUT009", X, y)
    assert one.evidence["cause"] == "swapped"
    assert one.evidence["rows"] == rows.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_entries_of_either_sign_times_a_thousand_are_named_and_heavy_tails_are_not(seed):
    rng = np.random.default_rng(seed)
    X, y = clean()
    numbers = rng.normal(size=ROWS)
    rows = np.sort(rng.permutation(ROWS)[:8])
    numbers[rows] *= 1000
    [one] = found_of("BUT009", X | {"a": numbers}, y)
    assert "1000 times more" in one.title
    assert set(one.evidence["rows"]) <= set(rows.tolist())
    returns = rng.standard_t(2, size=ROWS)
    assert not any(one.evidence["cause"] for one in found_of("BUT009", X | {"a": returns}, y))


def test_one_repeated_target_is_named_and_counts_and_round_prices_are_not():
    X, _ = clean()
    rng = np.random.default_rng(0)
    targets = X["b"].copy()
    targets[rng.permutation(ROWS)[:20]] = 0.75
    [one] = found_of("BUT022", X, targets)
    assert one.evidence["value"] == 0.75
    assert len(one.evidence["rows"]) == one.evidence["count"] == 20
    assert one.title in verdict(evidence_of(X, targets), [one])[0]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        prices = rng.lognormal(11, 0.4, ROWS)
        for fine in (prices, np.round(prices, -4), rng.poisson(12, ROWS).astype(float), rng.normal(size=ROWS).round(1)):
            assert found_of("BUT022", X, fine, task="regression") == []


def test_the_index_of_a_sorted_frame_was_dropped_and_does_no_harm():
    X, y = clean()
    order = np.argsort(y, kind="stable")
    X = {name: column[order] for name, column in X.items()}
    [one] = found_of("BUT002", X | {"Unnamed: 0": np.arange(ROWS)}, y[order])
    assert one.severity is Severity.note
    [one] = found_of("BUT002", X | {"visit": np.arange(ROWS)}, y[order])
    assert one.severity is Severity.error
    assert "(AUC 1.00)" in one.title  # which is no rank correlation
    [one] = found_of("BUT002", X | {"visit": np.arange(ROWS)}, np.sort(X["b"]))
    assert "(rank correlation 1.00)" in one.title


def test_numbers_of_rows_in_another_order_are_not_said_to_number_them():
    X, y = clean()
    order = np.arange(ROWS)
    for numbers, says in ((order, "numbers the rows"), (order[::-1], "numbers the rows"),
                          (np.random.default_rng(0).permutation(ROWS), "not in their order")):
        [one] = found_of("BUT002", X | {"id": numbers}, y)
        assert says in one.title
    [one] = found_of("BUT002", X | {"id": np.argsort(np.argsort(X["b"]))}, X["b"], task="regression")
    assert "predicts the target" in one.title
    assert "sorted" not in one.title


def test_every_row_that_was_found_is_in_the_evidence():
    X, y = clean()
    for count in (1, 15, 20):
        [one] = found_of("BUT016", X, y, novel=range(count))
        assert one.evidence["rows"] == list(range(count))
    [one] = found_of("BUT007", X, y, wrong=range(15))
    assert sorted(one.evidence["rows"]) == list(range(15))


def test_what_was_measured_becomes_findings():
    X, y = clean()
    good = {"as_is": Cell(0.95, 0.9, 0.98)}
    assert "BUT007" in codes(X, y, wrong=range(9), cells=good, least=Severity.error)
    assert "BUT007" not in codes(X, y, wrong=range(9), cells={"as_is": Cell(0.8, 0.75, 0.85)}, least=Severity.error)
    many = range(len(y) // 3)
    assert "BUT007" not in codes(X, y, wrong=many, least=Severity.error)
    assert "BUT007" in codes(X, y, wrong=many, least=Severity.warning)
    ones = np.flatnonzero(y == 1)[:20]
    assert "BUT008" in codes(X, y, wrong=ones, cells=good, least=Severity.warning)
    assert "BUT008" not in codes(X, y, wrong=ones[:5])
    weak = {"as_is": Cell(0.6, 0.55, 0.65)}  # most of its misses are right, and look the same
    assert "BUT008" not in codes(X, y, wrong=ones, cells=weak, least=Severity.warning)
    assert codes(X, y, cells={"attacked": Cell(0.5)}, least=Severity.error) == {"BUT014"}
    assert codes(X, y, cells={"flipped_30": Cell(0.7)}) == {"BUT015"}
    assert codes(X, y, cells={"flipped_30": Cell(0.7)}, least=Severity.warning) == set()
    assert "BUT015" in codes(X, y, wrong=range(9), cells={"flipped_30": Cell(0.7)}, least=Severity.warning)
    assert codes(X, y, better=()) == {"BUT017"}
    assert codes(X, y, better=None) == set()
    assert codes(X, y, novel=range(9), least=Severity.warning) == {"BUT016"}
    assert codes({"b": X["b"], "c": X["c"]}, np.exp(2 * X["b"])) >= {"BUT013"}


def found_of(code, *arguments, **options):
    """The findings of one code."""
    return [one for one in find_all(evidence_of(*arguments, **options)) if one.code == code]


@pytest.mark.parametrize(("code", "move"), [("BUT003", 0.0), ("BUT004", 1e-5)])
def test_the_more_copies_contradict_each_other_the_louder(code, move):
    X, y = clean()
    twice = {name: np.r_[values[:180], values[:20] + move] if values.dtype.kind == "f"
             else np.r_[values[:180], values[:20]] for name, values in X.items()}
    order = list(Severity)
    loudness = []
    for wrong in range(0, 21, 4):
        [one] = found_of(code, twice, np.r_[y[:180], 1 - y[:wrong], y[wrong:20]])
        assert ("different targets" in one.advice) == (wrong > 0)
        assert one.evidence["different_targets"] in (wrong, 2 * wrong)  # groups, or rows near another
        assert len(one.evidence["rows"]) == 40
        loudness.append(-order.index(one.severity))
    assert loudness == sorted(loudness)
    assert loudness[-1] == 0


def test_rows_equal_by_chance_are_cases_and_not_to_be_dropped():
    """Nine scores of one to ten, most of them one, as in biopsies: many rows differ in one score alone."""
    rng = np.random.default_rng(0)
    scores = {f"v{j}": np.minimum(rng.geometric(0.7, 700), 10).astype(float) for j in range(9)}
    [one] = found_of("BUT003", scores, (sum(scores.values()) + rng.normal(size=700) > 13).astype(int))
    assert one.severity is Severity.note
    assert "different cases" in one.advice
    assert "rop" not in one.advice


def scores_of_few_values(seed, rows=400):
    """Six columns of few values that all follow one hidden number, and a target that does too, of three decimals."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=rows)
    values = [np.round(np.clip(hidden + rng.normal(size=rows), -1.5, 1.5) * step) for step in (1, 1, 1, 2, 2, 3)]
    return {f"v{j}": column for j, column in enumerate(values)}, np.round(hidden + rng.normal(size=rows), 3)


@pytest.mark.parametrize("seed", range(5))
def test_columns_of_few_values_that_know_of_each_other_have_equal_rows_by_chance(seed):
    X, numbers = scores_of_few_values(seed)
    for y in (numbers, (numbers > 0).astype(int)):
        [one] = found_of("BUT003", X, y)
        assert one.severity is Severity.note
        assert one.evidence["different_targets"] > 0
        assert "different cases" in one.advice


@pytest.mark.parametrize("seed", range(5))
def test_columns_that_follow_each_other_have_equal_rows_by_chance(seed):
    """Years since a degree and years of work, as of professors: they seldom differ alone."""
    rng = np.random.default_rng(seed)
    since = np.minimum(rng.geometric(0.05, 400), 50).astype(float)
    X = {"since": since, "work": np.maximum(since - rng.geometric(0.3, 400) + 1, 0), "rank": 1.0 * (since > 6),
         "field": 1.0 * rng.integers(0, 2, 400)}
    [one] = found_of("BUT003", X, np.round(1000 * X["rank"] + 300 * rng.normal(size=400)))
    assert one.severity is Severity.note
    assert one.evidence["count"] > 0


@pytest.mark.parametrize("seed", range(5))
def test_rows_entered_twice_are_found_among_rows_equal_by_chance_by_their_targets(seed):
    X, y = scores_of_few_values(seed)
    places = np.r_[np.arange(400), np.random.default_rng(seed).choice(400, 12, replace=False)]
    [one] = found_of("BUT003", {name: column[places] for name, column in X.items()}, y[places])
    assert one.severity is Severity.warning
    assert one.title.startswith("12 rows repeat the features and the target of another")
    assert set(one.evidence["rows"]) == {*places[400:].tolist(), *range(400, 412)}
    assert one.evidence["different_targets"] == 0


def test_copies_far_apart_in_a_long_file_are_found():
    rng = np.random.default_rng(0)
    X = {f"v{j}": rng.normal(size=50_000) for j in range(4)}
    y = rng.integers(0, 2, 50_000)
    places = np.r_[np.arange(50_000), np.arange(1000)]
    [one] = found_of("BUT003", {name: column[places] for name, column in X.items()}, y[places])
    assert one.severity is not Severity.note
    assert one.evidence["count"] == 1000
    assert one.evidence["different_targets"] == 0


def test_one_pair_nearly_equal_in_hundreds_does_not_make_scores_too_high():
    X = {name: np.random.default_rng(j).normal(size=536) for j, name in enumerate("abcd")}
    y = (X["a"] > 0).astype(int)
    for name in X:
        X[name][-1] = X[name][0] + 1e-6
    y[-1] = y[0]
    [one] = found_of("BUT004", X, y)
    assert one.severity is Severity.note
    assert "too high" not in one.title


def test_every_near_row_is_found_and_a_gap_is_near_no_number():
    """Of 1,500 pairs whose columns are all nearly as far apart as may be; a number in place of a gap is the mean."""
    rng = np.random.default_rng(0)
    half = np.round(rng.normal(size=(1500, 30)), 3)
    whole = np.vstack([half, half + 0.0009 * rng.choice([-1.0, 1.0], size=half.shape)])
    X = {f"c{j}": column / column.std() for j, column in enumerate(whole.T)}
    y = (X["c0"] > 0).astype(int)
    [one] = found_of("BUT004", X, y)
    assert one.evidence["count"] == 3000
    gapped = {name: np.append(column, column[0])
              for name, column in zip("abcd", rng.normal(size=(4, 400)), strict=True)}
    gapped["a"][0] = np.nan
    gapped["a"][-1] = gapped["a"][1:-1].mean()
    assert found_of("BUT004", gapped, np.arange(401) % 2) == []


def test_a_column_that_agrees_with_the_target_in_most_rows_gives_it_away():
    rng = np.random.default_rng(1)
    X, y = clean()
    agreeing = np.where(rng.random(ROWS) < 0.03, 1 - y, y)
    for leak in (agreeing.astype(float), np.where(agreeing, "yes", "no").astype(object)):
        assert [one.evidence["columns"] for one in found_of("BUT001", X | {"leak": leak}, y)] == [["leak"]]
    missing = np.where(agreeing, min(X["b"].min(), X["c"].min()) + 1.0, np.nan)  # apart from numbers of any size
    missing[np.flatnonzero(agreeing)[:3]] = 9.0
    assert [one.evidence["columns"] for one in found_of("BUT001", X | {"leak": missing}, y)] == [["leak"]]
    rare = (X["b"] + X["c"] + rng.normal(size=ROWS) > 1.5).astype(int)  # one in five: 3% are a sixth of its rows
    agreeing = np.where(rng.random(ROWS) < 0.03, 1 - rare, rare).astype(float)
    assert [one.evidence["columns"] for one in found_of("BUT001", X | {"leak": agreeing}, rare)] == [["leak"]]
    numbers = X["b"] + 0.3 * rng.normal(size=ROWS)
    mixed = np.where(rng.random(ROWS) < 0.03, rng.permutation(numbers), numbers)
    assert [one.evidence["columns"] for one in found_of("BUT001", X | {"leak": mixed}, numbers)] == [["leak"]]


def test_a_column_that_gives_away_one_class_of_five_is_a_leak_and_a_good_predictor_is_not():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 5, 400)
    X = {name: y + 2.0 * rng.normal(size=400) for name in "abc"}
    assert found_of("BUT001", X, y) == []
    [one] = found_of("BUT001", X | {"leak": np.where(y == 3, 8.0, 0.0) + rng.normal(size=400)}, y)
    assert "which rows are 3" in one.title
    clear = {name: y + 0.3 * rng.normal(size=400) for name in "abc"}
    assert found_of("BUT001", clear, y) == []


def test_association_is_the_auc_of_every_pair():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    x = rng.integers(0, 9, 60) + y
    ones, zeros = x[y == 1], x[y == 0]
    auc = np.mean([(one > zero) + 0.5 * (one == zero) for one in ones for zero in zeros])
    assert association(x.astype(float), y, True) == pytest.approx(abs(2 * auc - 1))


def test_codes_are_unique_documented_and_can_be_left_out():
    known = [check.code for check in CHECKS]
    assert len(set(known)) == len(known)
    page = (Path(__file__).parents[1] / "docs" / "findings.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", page, flags=re.M) == sorted(known)
    X, y = clean()
    evidence = evidence_of(X | {"one": np.ones(ROWS)}, y)
    assert find_all(evidence, ignore=["BUT005"]) == []
    with pytest.raises(ValueError, match="no finding 'BUT999'"):
        check_codes(["BUT999"])


class Negative(Check):
    code = "MINE001"
    title = "negative entries"

    def find(self, evidence):
        yield from (self.finding(f"{name} is negative", column=name) for name, column in evidence.table.numeric.items()
                    if (column < 0).any())


def test_a_check_of_ones_own_joins():
    found = find_all(evidence_of(*clean()), [Negative()])
    assert [(finding.code, finding.evidence) for finding in found] == [
        ("MINE001", {"column": "b"}), ("MINE001", {"column": "c"})]
    with pytest.raises(ValueError, match="Two checks have one code"):
        find_all(evidence_of(*clean()), [Negative(), Negative()])


def test_the_verdict_is_three_sentences_on_labels_inputs_and_use():
    evidence = evidence_of(*far(-999.0)(*clean()), wrong=range(9), cells={"as_is": Cell(0.95, 0.9, 0.98)})
    said = verdict(evidence, find_all(evidence))
    assert [sentence.split(":")[0] for sentence in said] == ["Labels", "Inputs", "Use"]
    assert "9 of the 200 labels judged look wrong, and between 2.0% and 20.0% are estimated to be; few" in said[0]
    assert "-999" in said[1]
    assert "95% right" in said[2]
    evidence = evidence_of(*clean(), better=())
    assert "no model is clearly better than the majority class" in verdict(evidence, find_all(evidence))[2]


def said_of(*arguments, **options):
    evidence = evidence_of(*arguments, **options)
    return verdict(evidence, find_all(evidence))


def test_what_was_noted_of_the_columns_is_not_nothing():
    X, y = clean()
    assert said_of(X, y)[1] == "Inputs: nothing that was looked for was found in the columns."
    drifting = X | {"b": X["b"] + (np.arange(ROWS) >= ROWS // 2)}
    assert said_of(drifting, y)[1] == "Inputs: nothing worse than 1 note below was found in the columns."


def test_how_many_targets_are_wrong_is_the_estimators_own_interval():
    """The sum of p (1 - p) takes the fit for certain: nine rows of .99 would be 4.4% to 5.4%."""
    [one] = found_of("BUT007", *clean(), wrong=range(9), interval=(0.013, 0.081))
    assert (one.evidence["low"], one.evidence["high"]) == (0.013, 0.081)
    assert "(1.3% to 8.1%)" in one.title


def test_rows_that_look_wrong_are_a_note_where_none_may_be():
    """A warning says that targets are wrong, and that is not shown by an interval that holds 0."""
    X, y = clean()
    ones = np.flatnonzero(y == 1)[:20]
    for low, severity in ((0.0, Severity.note), (0.003, Severity.warning)):
        for code in ("BUT007", "BUT008"):
            [one] = found_of(code, X, y, wrong=ones, interval=(low, 0.2), cells={"as_is": Cell(0.95, 0.9, 0.98)})
            assert one.severity == severity
            assert (one.evidence["count"], one.code) == (20, code)


def test_that_no_target_is_wrong_is_said_only_where_the_interval_says_it():
    assert "no label of the 200 rows judged looks wrong" in said_of(*clean(), interval=(0.0, 0.004))[0]
    unsure = said_of(*clean(), interval=(0.0, 0.15))[0]
    assert "cannot tell" in unsure
    assert "between 0% and 15% may be wrong" in unsure


def test_a_column_made_from_the_labels_hides_wrong_ones():
    """Labels are drawn at random, so half are wrong by any rule: none may be said to be right since a copy agrees."""
    X, _ = clean()
    y = np.random.default_rng(1).integers(0, 2, ROWS)
    said = said_of(X | {"refund": 1 - y}, y, interval=(0.0, 0.0))[0]
    assert said.startswith("Labels: cannot tell: a column gives the labels away")
    assert said_of(X, y, interval=(0.0, 0.0))[0].startswith("Labels: no label")


def test_columns_are_not_blamed_for_few_rows_of_a_class_or_targets_far_out():
    X, y = clean()
    few = np.where(np.arange(ROWS) % 20, "usual", "rare")
    evidence = evidence_of(X, few, better=())
    evidence.decides = "balanced"
    [one] = [one for one in find_all(evidence) if one.code == "BUT017"]
    assert one.advice == "Too few rows of class 'rare' are held out to tell: collect more of it."
    assert one.advice[1:] in verdict(evidence, [one])[2]
    out = {"better": (), "task": "regression"}
    [one] = found_of("BUT017", X, X["b"], wrong=range(9), **out)
    assert "look wrong first" in one.advice
    for blamed in (found_of("BUT017", X, X["b"], **out), found_of("BUT017", X, y, wrong=range(9), better=())):
        assert [one.advice for one in blamed] == ["Look for better columns before better models."]


def test_where_no_model_tells_the_target_none_tells_wrong_from_right():
    X, y = clean()
    for data in ((X, y), ({name: X[name] for name in "bcd"}, X["a"])):
        some = {"wrong": range(9), "cells": {"as_is": Cell(0.95)}}
        assert "cannot tell" not in verdict(evidence_of(*data, **some), [])[0]
        evidence = evidence_of(*data, **some, better=())
        said = verdict(evidence, find_all(evidence))[0]
        assert "cannot tell: 9 of the 200" in said
        assert f"no model is clearly better than the {evidence.baseline}" in said
        assert [one.severity for one in find_all(evidence) if one.code == "BUT007"] == [Severity.warning]


def test_of_targets_that_are_mostly_zero_nothing_can_be_told():
    X, _ = clean()
    X["b"] = np.abs(X["b"])
    y = np.where(np.arange(ROWS) % 3 == 0, X["b"], 0.0)
    evidence = evidence_of(X, y, wrong=np.flatnonzero(y > 0))
    said = verdict(evidence, find_all(evidence))[0]
    assert "cannot tell" in said
    assert "of the targets are equal (0)" in said
    assert [one.severity for one in find_all(evidence) if one.code == "BUT007"] == [Severity.warning]


def test_the_verdict_on_models_follows_from_the_cells():
    """A model at the majority's rate stands nothing; few rows are no fault of the columns; no model is no few rows."""
    X, y = clean()
    at_the_rate = {"as_is": Cell(0.9, 0.85, 0.95), "flipped_30": Cell(0.51, 0.45, 0.57)}
    evidence = evidence_of(X, y, cells=at_the_rate)
    evidence.rows |= {"plain SVC": {"as_is": Cell(0.9, 0.85, 0.95), "flipped_30": Cell(0.4, 0.3, 0.5)}}
    evidence.rows["majority class"]["flipped_30"] = Cell(0.5, 0.44, 0.56)
    assert "stands" not in verdict(evidence, [])[2]
    evidence.rows["model"]["flipped_30"] = Cell(0.8, 0.75, 0.85)
    assert "stands wrong labels better than the plain models" in verdict(evidence, [])[2]
    evidence.recommended = None
    assert "no model that may be recommended is clearly better" in verdict(evidence, [])[2]
    evidence.test = evidence.test[:10]
    assert "too few rows" in verdict(evidence, [])[2]


def test_moves_by_columns_find_the_worst_corner_of_a_linear_model():
    """For a linear model the worst move within the ball is known: every number against the sign of its weight."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = (X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=150) > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    margin = model.decision_function(X) * np.where(y == 1, 1, -1)
    survives = margin > 0.3 * np.abs(model.coef_[0, :3]).sum()
    reach = [0.3, 0.3, 0.3, 0.0]
    stands = (model.predict(X) == y) & stands_in_box(model, X, y, (X - reach, X + reach), 0)
    np.testing.assert_array_equal(stands, survives)


@pytest.fixture(scope="module")
def audited():
    import pandas as pd

    X, y = clean()
    y[:8] = 1 - y[:8]
    frame = pd.DataFrame(X | {"</script><script>alert(1)</script>": X["b"] ** 2}, index=np.arange(ROWS) + 500)
    with only("plain SVC", "robust, contamination unknown"):
        return frame, y, buttress.audit(None, frame, y, rows=60)


def test_the_file_conforms_to_its_schema(audited):
    import buttress.audit.writing

    path = Path(buttress.audit.writing.__file__).with_name("audit.schema.json")
    schema = json.loads(path.read_text(encoding="utf-8"))
    conforms(json.loads(json.dumps(audited[2].to_dict(), allow_nan=False)), schema, schema)


def test_a_result_is_at_home_in_a_notebook(audited, tmp_path):
    frame, y, result = audited
    assert result._repr_html_().startswith("<iframe")
    assert "<script>alert" not in result._repr_html_()
    assert list(result.table["estimator"]) == list(result.rows)
    assert type(result.suspicious).__module__.startswith("pandas")
    assert set(frame.columns) <= set(result.suspicious.columns)
    target = result.suspicious[result.data["target"]]
    assert [y[row - 500] for row in result.suspicious["row"]] == target.tolist()
    names = {path.name for path in result.save(tmp_path / "deep" / "er")}
    assert names == {"audit.json", "audit.html", "suspicious.csv"}
    shown = pydoc.plain(pydoc.render_doc(buttress.audit))
    assert re.search(r"audit\(\s*estimator", shown)


def test_no_cell_is_shaded_that_is_no_better_than_the_baseline(audited):
    from buttress.audit.writing.report import _best

    result = audited[2]
    kept = result.rows
    try:
        result.rows = {name: {key: Cell(0.5, 0.4, 0.6) for key in cells} for name, cells in kept.items()}
        assert {_best(result, key) for key in result.columns} == {None}
    finally:
        result.rows = kept


def test_a_misspelt_severity_is_refused_with_the_right_one():
    with pytest.raises(ValueError, match=r"'eror'\. Did you mean 'error'\? Give error, warning, note or a code"):
        check_codes(["eror"], words=list(Severity))
    check_codes(["note", "BUT007"], words=list(Severity))
