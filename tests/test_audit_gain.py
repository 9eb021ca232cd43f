"""What following the advice gains, scores class by class, and the report as Markdown."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    mean_absolute_error,
    precision_score,
    recall_score,
    root_mean_squared_error,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_audit import only

import buttress
from buttress.audit.baselines import baselines
from buttress.audit.contenders import contenders
from buttress.audit.measurements import MEASUREMENTS
from buttress.audit.measuring.cells import balanced, standard_error
from buttress.audit.measuring.measurement import measure
from buttress.audit.measuring.split_table import split_table
from buttress.audit.options import Options
from buttress.audit.reading.table import columns_of, make_table
from buttress.audit.writing.report import html
from buttress.svm import SVC


@pytest.fixture(scope="module")
def flipped():
    """Two clear classes, of which 15 labels of 300 are wrong."""
    X, y = make_classification(300, 4, class_sep=2.5, flip_y=0, random_state=0)
    rows = np.random.default_rng(0).choice(300, 15, replace=False)
    given = y.copy()
    given[rows] = 1 - y[rows]
    return X, y, given, rows


@pytest.fixture(scope="module")
def result(flipped):
    with only("plain SVC", "robust, contamination unknown"):
        frame = pd.DataFrame(flipped[0], columns=list("a|cd"), index=[f"r{k}" for k in range(300)])
        return buttress.audit(None, frame, pd.Series(flipped[2], index=frame.index), effort="quick")


def test_the_gain_is_on_rows_that_no_correction_touches(result, flipped):
    gain = result.gain
    assert gain.rows == result.data["test"] - result.suspicion.held_out_above_half
    assert 0 < gain.corrected <= result.suspicion.above_half
    assert gain.after == result.recommended
    assert gain.gained.value == pytest.approx(gain.both.value - gain.today.value)
    assert gain.gained.low <= gain.gained.value <= gain.gained.high
    assert 'id="gain"' in html(result)


def test_the_scores_of_a_gain_are_those_of_fits_to_labels_as_given_and_corrected(flipped):
    """All 15 wrong labels are found here, and neighbours, in the place of a machine, follow each."""
    X, y, given, _ = flipped
    table = make_table(columns_of(X), given, "y", "auto")
    entries = {"majority class": DummyClassifier(), "mine": KNeighborsClassifier(1),
               "plain SVC": KNeighborsClassifier(3)}
    split = split_table(table, entries, Options(rows=200))
    chosen = tuple(one for one in MEASUREMENTS if one.name in {
        "scores on the rows as they are", "wrong targets", "what the advice gains"})
    found = measure(chosen, split, lambda *_: None, lambda line: None)
    np.testing.assert_array_equal(np.sort(found.judged[found.verdicts.wrong]), np.flatnonzero(given != y))
    train, test = split.train.places, split.test.places
    kept = test[given[test] == y[test]]
    assert (found.gain.before, found.gain.after, found.gain.rows) == ("mine", "plain SVC", len(kept))
    assert found.gain.corrected == (given[train] != y[train]).sum()
    mine, ours = KNeighborsClassifier(1), make_pipeline(StandardScaler(), KNeighborsClassifier(3))
    for cell, model, labels in ((found.gain.today, mine, given), (found.gain.model, ours, given),
                                (found.gain.both, ours, y)):
        assert cell.value == model.fit(X[train], labels[train]).score(X[kept], y[kept])
    assert found.gain.today.value < found.gain.model.value < found.gain.both.value


@pytest.mark.parametrize(("metric", "score", "sign"), [
    ("accuracy", accuracy_score, 1), ("balanced_accuracy", balanced_accuracy_score, 1),
    ("rmse", root_mean_squared_error, -1), ("mae", mean_absolute_error, -1)])
def test_the_gain_is_by_the_metric_that_decides(metric, score, sign):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=240)
    if sign > 0:
        y = (y > 0.8).astype(int)
    with only("plain SVC", "plain kernel ridge"):
        table = make_table(columns_of(pd.DataFrame(X, columns=list("abc"))), y, "y", "auto")
        split = split_table(table, contenders(table.task, 0.25, 0) | baselines(table, 0),
                            Options(effort="quick", metric=metric))
        found = measure(MEASUREMENTS, split, lambda *_: None, lambda line: None)
        if metric == "accuracy":
            result = buttress.audit(None, pd.DataFrame(X, columns=list("abc")), y, effort="quick", metric=metric)
            assert result.gain == found.gain
    gain = found.gain
    rows = ~np.isin(split.test.places, found.judged[found.verdicts.wrong])
    today, model = (score(split.test.y[rows], found.answers[name][rows]) for name in (gain.before, gain.after))
    assert gain.today.value == pytest.approx(today)
    assert gain.model.value == pytest.approx(model)
    assert gain.gained.value == pytest.approx(sign * (gain.both.value - gain.today.value))
    assert gain.gained.low <= gain.gained.value <= gain.gained.high


def test_a_gain_of_balanced_accuracy_has_the_standard_error_of_its_classes():
    """Over 2,000 draws of rows, class by class, as many as there are of each."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [180, 20])
    better = rng.choice([-1.0, 0.0, 1.0], len(y), p=[0.1, 0.6, 0.3])
    value, spread = balanced(better, y)
    assert value == pytest.approx((better[:180].mean() + better[180:].mean()) / 2)
    drawn = [(rng.choice(better[:180], 180).mean() + rng.choice(better[180:], 20).mean()) / 2 for _ in range(2000)]
    assert standard_error(spread) == pytest.approx(np.std(drawn), rel=0.1)


def test_scores_class_by_class_are_those_of_scikit_learn(flipped):
    X, _, given, _ = flipped
    table = make_table(columns_of(X), given, "y", "auto")
    with only("plain SVC"):
        again = buttress.audit(None, X, given, effort="quick")
    split = split_table(table, {"plain SVC": SVC()}, Options(effort="quick"))
    name = again.recommended or "plain SVC"
    if name == "plain SVC":
        predicted = SVC().fit(split.train.X, split.train.y).predict(split.test.X)
        for label in (0, 1):
            score = again.by_class[str(label)]
            assert score.rows == (split.test.y == label).sum()
            assert score.recall.value == pytest.approx(recall_score(split.test.y, predicted, pos_label=label))
            assert score.precision.value == pytest.approx(precision_score(split.test.y, predicted, pos_label=label))
    assert sum(score.rows for score in again.by_class.values()) == again.data["test"]


def test_suspicious_rows_keep_their_index(result):
    assert list(result.suspicious.index) == list(result.suspicious["row"])
    assert result.suspicious.index[0].startswith("r")


def test_markdown_holds_the_verdict_and_a_table_of_equal_width(result):
    text = result.to_markdown()
    assert all(sentence in text for sentence in result.verdict)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(result.rows)
    assert len({len(re.split(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert all(finding.code in text for finding in result.findings)
