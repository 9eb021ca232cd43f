"""Judging rows that the robust fit has not seen: planted wrong labels are found, and the rows keep their places."""

import numpy as np
import pytest

from buttress.audit.findings.copies import NEAR, _near_rows
from buttress.audit.measuring import suspicion
from buttress.audit.measuring.judging import judged_by, with_others
from buttress.audit.measuring.suspicion import judge, nearest
from buttress.audit.reading.entries import factorised, texts_of


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_wrong_targets_of_rows_the_fit_has_not_seen_are_found(task, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(360, 2))
    y = X[:, 0] + 0.05 * rng.normal(size=360)
    if task == "classification":
        X[:, 0] += np.sign(X[:, 0])
        y = (X[:, 0] > 0).astype(int)
    wrong = rng.permutation(360)[:30]
    y[wrong] = 1 - y[wrong] if task == "classification" else y[wrong] + 5
    fitted = rng.permutation(360)[:120]
    others = np.setdiff1d(np.arange(360), fitted)
    judged = np.concatenate([fitted, others])
    first, model = judge(X[fitted], y[fitted], task, seed=0)
    assert with_others(first, [], y[fitted]).counts(120, fitted < 0).judged == 120
    verdicts = with_others(first, [judged_by(model, X[others], y[others], False)], y[judged])
    verdicts.near = nearest(verdicts, judged, 120, X.__getitem__)
    counted = verdicts.counts(360, np.isin(judged, others))
    assert counted.held_out_above_half == verdicts.wrong[120:].sum()
    found = judged[verdicts.wrong]
    assert len(np.intersect1d(found, wrong)) >= 25
    assert len(np.setdiff1d(found, wrong)) <= 3
    place = int(np.flatnonzero(verdicts.wrong & np.isin(judged, others))[0])
    distance = np.linalg.norm(X[fitted] - X[judged[place]], axis=1)
    assert judged[verdicts.near[place, 0]] == fitted[distance.argmin()]
    monkeypatch.setattr(suspicion, "COMPARED", 300)
    verdicts.near = nearest(verdicts, judged, 120, X.__getitem__)
    fine = np.flatnonzero(~verdicts.wrong & ~verdicts.borderline)
    assert len(verdicts.neighbours(place)) == 50
    assert not any("nearest" in verdicts.why(int(i)) for i in fine)  # of many rows they are not looked for


def test_different_texts_are_numbered_as_by_numpy():
    entries = np.array(["b", None, "a", "b", np.nan, "c"], dtype=object)
    texts = texts_of(entries)
    assert [texts.distinct[code] if code >= 0 else None for code in texts.codes] == ["b", None, "a", "b", None, "c"]
    assert texts.counts.tolist() == [2, 1, 1]
    words = np.random.default_rng(0).choice(["é", "z", "", "A", "10", "9"], 50).astype(object)
    for column in (words, words.astype(str), np.random.default_rng(1).integers(0, 9, 50).astype(float)):
        values, codes = factorised(column)
        expected = np.unique(column.astype(str) if column.dtype == object else column, return_inverse=True)
        np.testing.assert_array_equal(values, expected[0])
        np.testing.assert_array_equal(codes, expected[1])


def test_near_rows_are_those_of_all_pairs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    X = np.concatenate([X, X[:20] + 1e-4 * rng.uniform(-1, 1, size=(20, 4)), X[20:25]])
    distance = np.abs(X[:, None] - X[None]).max(axis=2)
    expected = np.flatnonzero(((distance > 0) & (distance < NEAR)).any(axis=1))
    found, partner = _near_rows(X, np.unique(X, axis=0, return_inverse=True)[1].ravel())
    np.testing.assert_array_equal(found, expected)
    assert np.all(distance[found, partner] < NEAR)
