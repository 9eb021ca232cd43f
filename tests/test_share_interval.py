"""The interval for the share of corrupt rows: against truths, and against the exact law of a sum of Bernoulli draws."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.datasets import make_blobs

from buttress import RobustKernelClassifier, RobustKernelRegressor, RobustLinearRegressor
from buttress.solvers.contamination.confusion_law import Confusion, learn_confusion
from buttress.solvers.contamination.residual_law import Law, LawLimits, LeftOutResiduals
from buttress.solvers.contamination.share_interval import (
    LawsTried,
    around,
    label_shares,
    residual_shares,
    shortest,
)

POWER = 0.25


def shortest_by_trying_all(chance):
    """Return the ends of the shortest run of counts with nine tenths of the chance (n + 1,), the lowest of several."""
    ends = itertools.combinations_with_replacement(range(len(chance)), 2)
    runs = [(high - low, low, high) for low, high in ends if chance[low : high + 1].sum() >= 0.9]
    return min(runs)[1:]


@pytest.mark.parametrize("peak", [0.0, 0.2])
def test_rows_alike_give_the_shortest_interval_of_the_binomial_distribution(peak):
    n = 300
    rho = np.linspace(0.002, 0.5, 40)
    uneven = -((rho - peak) ** 2) / 0.002
    tried = LawsTried(uneven / POWER, n * rho, n * rho * (1 - rho) * POWER, np.ones(40))
    weight = np.exp(uneven) / np.exp(uneven).sum()
    expected = np.array(shortest_by_trying_all(weight @ binom.pmf(np.arange(n + 1)[None], n, rho[:, None]))) / n
    assert np.abs(shortest(tried, n, POWER) - expected).max() <= 2 / n
    assert (shortest(tried, n, POWER)[0] == 0) == (peak == 0)


def residuals(rng, n, share):
    """Draw residuals of the law that is learned: Student's t, and a far normal density."""
    bad = rng.random(n) < share
    return np.where(bad, rng.normal(3, 3, n), rng.standard_t(8, n)), bad


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_share_of_residuals_of_the_law_itself_is_held(share):
    rng = np.random.default_rng(0)
    held = []
    for _ in range(8):
        r, bad = residuals(rng, 300, share)
        low, high = residual_shares(Law(1.0, 8.0, share, 3.0, 3.0), LeftOutResiduals(r, np.ones(300)), LawLimits(1e-6))
        held.append(low <= bad.mean() <= high)
        assert 0 <= low <= high <= 0.5
    assert np.mean(held) >= 0.75


def test_more_rows_give_a_narrower_interval():
    rng = np.random.default_rng(1)
    widths = []
    for n in (100, 1600):
        r, _ = residuals(rng, n, 0.2)
        law = Law(1.0, 8.0, 0.2, 3.0, 3.0)
        widths.append(np.ptp(residual_shares(law, LeftOutResiduals(r, np.ones(n)), LawLimits(1e-6))))
    assert widths[1] < 0.6 * widths[0]


def scores_of(y, rng):
    """Return scores with which the softmax is right nearly always."""
    return np.eye(y.max() + 1)[y] * 4 + 0.3 * rng.normal(size=(len(y), y.max() + 1))


def test_share_of_uniform_flips_is_held():
    rng = np.random.default_rng(2)
    held = []
    for _ in range(8):
        y = rng.integers(0, 3, 300)
        given = np.where(rng.random(300) < 0.2, (y + rng.integers(1, 3, 300)) % 3, y)
        low, high = label_shares(scores_of(y, rng), given)
        held.append(low <= np.mean(given != y) <= high)
    assert np.mean(held) >= 0.75


def test_share_of_labels_wrong_in_one_direction_is_held():
    rng = np.random.default_rng(3)
    held = []
    for _ in range(8):
        y = rng.integers(0, 2, 300)
        given = np.where((y == 0) & (rng.random(300) < 0.3), 1, y)
        scores = scores_of(y, rng)
        low, high = label_shares(scores, given, learn_confusion(scores, given))
        held.append(low <= np.mean(given != y) <= high)
    assert np.mean(held) >= 0.75


def test_a_law_without_directions_leaves_the_interval_of_one_rate():
    y = np.random.default_rng(5).integers(0, 3, 90)
    scores = scores_of(y, np.random.default_rng(6))
    none = Confusion(np.eye(3), np.eye(3), np.zeros(3))
    assert label_shares(scores, y, none).tolist() == label_shares(scores, y).tolist()


def test_interval_holds_the_estimate_and_zero_where_nothing_was_found():
    interval = np.array([0.1, 0.2])
    assert around(0.3, interval, none_too=False).tolist() == [0.1, 0.3]
    assert around(0.05, interval, none_too=False).tolist() == [0.05, 0.2]
    assert around(0.15, interval, none_too=True).tolist() == [0.0, 0.2]


def shifted_line(share, seed=0):
    """Return X, y and which rows are bad, of a line with noise and rows that are five higher."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 2))
    bad = rng.random(120) < share
    return X, X[:, 0] + 0.2 * rng.normal(size=120) + 5 * bad, bad


@pytest.mark.filterwarnings("ignore:.*named corrupt")
@pytest.mark.parametrize("share", [0.0, 0.2])
@pytest.mark.parametrize("estimator", [RobustKernelRegressor, RobustLinearRegressor])
def test_regressors_hold_the_share(estimator, share):
    X, y, bad = shifted_line(share)
    model = estimator(random_state=0).fit(X, y)
    low, high = model.contamination_interval_
    assert low <= bad.mean() <= high
    assert low <= model.contamination_ <= high
    assert high - low < (0.2 if share else 0.5)  # none found in few rows: none or many that lie near the others


@pytest.mark.parametrize("direction", [False, True])
def test_classifier_holds_the_share(direction):
    rng = np.random.default_rng(0)
    X, y = make_blobs(200, centers=[[0, 0], [5, 0], [0, 5]], random_state=0)
    given = (np.where((y == 0) & (rng.random(200) < 0.4), 1, y) if direction else
             np.where(rng.random(200) < 0.15, (y + rng.integers(1, 3, 200)) % 3, y))
    model = RobustKernelClassifier(random_state=0).fit(X, given)
    low, high = model.contamination_interval_
    assert low <= np.mean(given != y) <= high
    assert high - low < 0.3


def test_the_interval_of_labels_is_made_once_it_is_asked_for(monkeypatch):
    X, y = make_blobs(90, centers=[[0, 0], [5, 0], [0, 5]], random_state=0)
    told = []
    monkeypatch.setattr("buttress.robust.kernel_classifier.label_shares",
                        lambda *seen, **how: told.append(seen) or label_shares(*seen, **how))
    model = RobustKernelClassifier(random_state=0).fit(X, y)
    assert not told
    assert model.contamination_interval_.tolist() == model.contamination_interval_.tolist()
    (first, codes, _), = told
    assert first.shape == (90, 3)
    np.testing.assert_array_equal(codes, y)


@pytest.mark.filterwarnings("ignore:.*named corrupt")
@pytest.mark.parametrize("estimator", [RobustKernelRegressor, RobustLinearRegressor, RobustKernelClassifier])
def test_a_share_given_is_the_interval(estimator):
    X, y, _ = shifted_line(0.2)
    y = y > 0 if estimator is RobustKernelClassifier else y
    model = estimator(contamination=0.2, random_state=0).fit(X, y)
    assert model.contamination_interval_.tolist() == [0.2, 0.2]


@pytest.mark.filterwarnings("ignore:.*named corrupt")
def test_interval_on_landmarks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 2))
    bad = rng.random(700) < 0.2
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=700) + 4 * bad
    low, high = RobustKernelRegressor(n_landmarks=20, random_state=0).fit(X, y).contamination_interval_
    assert low <= bad.mean() <= high
    assert high - low < 0.2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*named corrupt")
def test_coverage_of_shifted_targets_over_many_tables():
    held = []
    for seed in range(60):
        X, y, bad = shifted_line([0.0, 0.1, 0.3][seed % 3], seed)
        low, high = RobustKernelRegressor(random_state=0).fit(X, y).contamination_interval_
        held.append(low <= bad.mean() <= high)
    assert np.mean(held) >= 0.85


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("n", [5, 10])
def test_no_share_beyond_those_that_were_tried_is_within_an_interval(n):
    rng = np.random.default_rng(n)
    model = RobustKernelRegressor(random_state=0).fit(rng.normal(size=(n, 2)), rng.normal(size=n))
    low, high = model.contamination_interval_
    assert 0 <= low <= model.contamination_ <= high <= max(0.5, model.contamination_)
