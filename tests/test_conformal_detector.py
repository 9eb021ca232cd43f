"""p-values around any detector: counted by hand, and kept by one that knows its training rows by heart."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import false_discovery_control
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity, LocalOutlierFactor
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

from buttress import SVDD, ConformalDetector, novel_columns

FOREST = IsolationForest(n_estimators=10, random_state=0)


class FromTheMean(BaseEstimator):
    """Minus the distance to the mean of its training rows."""

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        return self

    def score_samples(self, X):
        return -np.linalg.norm(X - self.mean_, axis=1)


class ByHeart(FromTheMean):
    """Calls its training rows typical, and no other."""

    def fit(self, X, y=None):
        self.known_ = X
        return super().fit(X)

    def score_samples(self, X):
        known = (X[:, None] == self.known_).all(axis=2).any(axis=1)
        return np.where(known, 1e6, super().score_samples(X))


class OfPyOD(BaseEstimator):
    """Distance to the mean: larger scores are more novel, and the module is PyOD's."""

    fit = FromTheMean.fit

    def decision_function(self, X):
        return np.linalg.norm(X - self.mean_, axis=1)


OfPyOD.__module__ = "pyod.models.mean"


@parametrize_with_checks([ConformalDetector(FOREST), ConformalDetector(FromTheMean(), cv=3)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def rows(n, seed):
    return np.random.default_rng(seed).standard_t(5, size=(n, 3))


@pytest.mark.parametrize("cv", [0.3, 4, "jackknife+"])
def test_p_values_are_those_counted_by_hand(cv):
    X, new = rows(23, 0), rows(9, 1)
    model = ConformalDetector(FromTheMean(), cv=cv, random_state=7).fit(X)
    counts = {0.3: [7], 4: [6, 6, 6, 5], "jackknife+": [1] * 23}[cv]
    order = np.random.RandomState(7).permutation(23)
    parts = np.split(order[: sum(counts)], np.cumsum(counts)[:-1])
    expected = []
    for x in new:
        beyond = 0
        for part in parts:
            mean = np.mean([X[i] for i in range(23) if i not in part], axis=0)
            beyond += sum(np.linalg.norm(X[i] - mean) >= np.linalg.norm(x - mean) for i in part)
        expected.append((1 + beyond) / (1 + sum(counts)))
    np.testing.assert_allclose(model.p_values(new), expected, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(new) == -1, np.array(expected) <= 0.1 + 1e-12)
    np.testing.assert_array_equal(model.novel(new, 0.3), false_discovery_control(expected) <= 0.3 + 1e-12)


@pytest.mark.parametrize("cv", [0.5, 5, "jackknife+"])
@pytest.mark.parametrize("detector", [ByHeart(), FromTheMean()])
def test_typical_rows_have_small_p_values_no_more_often_than_they_say(detector, cv):
    n = 40
    p = np.concatenate([ConformalDetector(detector, cv=cv, random_state=seed).fit(rows(n, seed)).p_values(
        rows(30, 900 + seed)) for seed in range(60)])
    for t in (0.1, 0.25):
        assert np.mean(p <= t) <= t + 3.5 * np.sqrt(t * (1 - t) / n / 60) * 1.5  # rows of one fit go together
        assert np.mean(p <= t) > t / 3


def test_split_keeps_the_false_discovery_rate_of_a_detector_that_knows_its_rows_by_heart():
    false, found = [], []
    for seed in range(60):
        new = rows(40, 500 + seed)
        new[:10] += 8
        model = ConformalDetector(ByHeart(), random_state=seed).fit(rows(120, seed))
        for adaptive in (False, True):
            named = model.novel(new, fdr=0.2, adaptive=adaptive)
            false.append(named[10:].sum() / max(named.sum(), 1))
            found.append(named[:10].mean())
    assert np.mean(false) <= 0.2 + 3 * np.std(false) / np.sqrt(120)
    assert np.mean(found) > 0.9


@pytest.mark.parametrize("detector", [
    SVDD(), FOREST, OneClassSVM(), LocalOutlierFactor(novelty=True), KernelDensity(), GaussianMixture(), OfPyOD()])
def test_every_kind_of_detector_puts_far_rows_out(detector):
    new = np.vstack([rows(20, 1), np.full((5, 3), 30.0)])
    p = ConformalDetector(detector, cv=4, random_state=0).fit(rows(60, 0)).p_values(new)
    assert p[20:].max() == pytest.approx(1 / 61)
    assert p[:20].mean() > 0.3


@pytest.mark.parametrize("cv", [0, 1, 1.5, -0.2, "loo", True, 61])
def test_bad_parts_are_refused(cv):
    with pytest.raises(ValueError, match="cv must be"):
        ConformalDetector(FOREST, cv=cv).fit(rows(60, 0))


def test_a_detector_without_scores_of_new_rows_is_told_the_way():
    with pytest.raises(ValueError, match="novelty=True"):
        ConformalDetector(LocalOutlierFactor()).fit(rows(60, 0))


def test_the_detector_given_is_not_touched_and_the_seed_decides():
    X, new = rows(60, 0), rows(10, 1)
    model = ConformalDetector(FromTheMean(), cv=3, random_state=1)
    np.testing.assert_array_equal(model.fit(X).p_values(new), clone(model).fit(X).p_values(new))
    assert not hasattr(model.detector, "mean_")
    with pytest.warns(UserWarning, match="can name no row"):
        model.novel(new, fdr=0.001)


def test_columns_are_those_found_by_hand():
    X, new = rows(30, 0), rows(4, 1)
    model = FromTheMean().fit(X)
    expected = np.zeros((4, 3))
    for i, j in np.ndindex(4, 3):
        for value in X[:, j]:
            moved = new[i].copy()
            moved[j] = value
            gain = np.linalg.norm(new[i] - X.mean(axis=0)) - np.linalg.norm(moved - X.mean(axis=0))
            expected[i, j] = max(expected[i, j], gain)
    np.testing.assert_allclose(novel_columns(model, new, X, tried=30), expected, atol=1e-12)


@pytest.mark.parametrize("detector", [SVDD(), FOREST, OfPyOD()])
def test_the_column_that_is_off_is_named_and_a_typical_row_has_none(detector):
    X = rows(200, 0)
    new = np.zeros((3, 3)) + 30 * np.eye(3)
    gains = novel_columns(detector.fit(X), new, X)
    np.testing.assert_array_equal(gains.argmax(axis=1), [0, 1, 2])
    assert (novel_columns(detector, np.median(X, axis=0)[None], X) < 0.2 * gains.max()).all()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_keep_their_names_before_a_detector_that_knows_them(frame):
    X, new, names = rows(40, 0), rows(3, 1), ["a", "b", "c"]
    named = [frame(dict(zip(names, part.T, strict=True))) for part in (X, new)]
    model = SVDD().fit(named[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gains = novel_columns(model, named[1], named[0])
        with pytest.raises(ValueError, match=r"X must have .* order: a, b, c"):
            novel_columns(model, named[1][["c", "b", "a"]], named[0])
    np.testing.assert_allclose(gains, novel_columns(SVDD().fit(X), new, X), rtol=1e-12)


def test_a_row_that_breaks_a_relation_of_two_columns_has_both():
    x = np.random.default_rng(0).normal(size=300)
    X = np.column_stack([x, x + 0.05 * rows(300, 1)[:, 0], rows(300, 2)[:, 0]])
    gains = novel_columns(SVDD().fit(X), [[1.0, -1.0, 0.0]], X)[0]
    assert gains[:2].min() > 5 * gains[2]


@pytest.mark.parametrize("cv", [0.5, 3, "jackknife+"])
def test_scores_of_minus_infinity_are_ties(cv):
    """A kernel of bounded reach gives them to every row without a neighbour: such rows are no rarer than each other."""
    X, new = np.arange(40.0)[:, None], np.arange(40.0)[:, None] + 0.5
    model = ConformalDetector(KernelDensity(kernel="tophat", bandwidth=0.1), cv=cv, random_state=0).fit(X)
    assert np.isneginf(model.left_out_).all()
    np.testing.assert_array_equal(model.p_values(new), 1.0)
    assert not model.novel(new, fdr=0.2).any()
    assert (novel_columns(model.detectors_[0], np.array([[1e6]]), np.array([[1e5]])) == 0).all()


def test_training_rows_that_are_judged_are_found_and_said():
    X = rows(100, 0)
    model = ConformalDetector(FromTheMean(), random_state=0).fit(X)
    with pytest.warns(UserWarning, match="30 of 50 rows equal a training row, and 0 of 100.*too large"):
        model.p_values(np.vstack([X[:30], rows(20, 1)]))


def test_training_rows_that_were_repeated_are_said_and_rows_that_repeat_by_nature_are_not():
    X = rows(100, 0)
    model = ConformalDetector(FromTheMean(), random_state=0)
    with pytest.warns(UserWarning, match="0 of 50 rows equal a training row, and 200 of 200.*too small"):
        model.fit(X.repeat(2, axis=0)).p_values(rows(50, 1))
    discrete = np.random.default_rng(0).integers(0, 3, size=(400, 2)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(discrete[:300]).p_values(discrete[300:])
        model.fit(X).p_values(rows(50, 1))


def test_copies_are_false_alarms_no_more_often_than_stated():
    alarms = 0
    for seed in range(150):
        draws = np.round(np.random.default_rng(seed).normal(size=(160, 2)), 1)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            ConformalDetector(FromTheMean(), random_state=0).fit(draws[:100]).p_values(draws[100:])
        alarms += bool(said)
    assert alarms <= 3


@pytest.mark.parametrize("fitted_to", [pd.DataFrame, np.asarray], ids=["frame", "array"])
def test_typical_rows_with_columns_in_another_order_are_refused(fitted_to):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)) + [0, 9], columns=["a", "b"])
    model = SVDD().fit(fitted_to(X))
    assert novel_columns(model, X[:1] + [9, 0], X).argmax() == 0
    with pytest.raises(ValueError, match=r"known must have the columns .* in their order: a, b"):
        novel_columns(model, X[:1], X[["b", "a"]])
