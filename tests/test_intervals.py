"""Intervals of regressors: the definition of CV+, coverage of new rows, and what is refused."""


import pickle
from copy import copy, deepcopy
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from buttress import SVR, KernelRegressor, Mean, RobustKernelRegressor, RobustLinearRegressor, load, save
from buttress.certainty.intervals import HeldOutFits, folds_of, hold_out, interval
from buttress.kernels import RBF
from buttress.robust import kernel_regressor, linear_regressor
from buttress.solvers.ridge.leave_one_out import FeatureRidge, GramRidge

REGRESSORS = [KernelRegressor(risk=Mean()),
              RobustKernelRegressor(random_state=0), RobustLinearRegressor(random_state=0)]
EVERY = [*REGRESSORS, SVR(C=5.0)]


def name(model):
    return type(model).__name__


def scattered(n, seed, bad=0.0, noise=(0.1, 0.5)):
    """Targets about a smooth function of three columns, noisier on one side; the first rows are off."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3))
    y = 2 * X[:, 0] - X[:, 1] + np.where(X[:, 2] > 0, noise[1], noise[0]) * rng.normal(size=n)
    many = int(bad * n)
    y[:many] = rng.normal(6, 3, size=many)
    return X, y


def by_definition(held, values, coverage):
    """CV+ of one row, written down with sorted lists; all rows weigh 1."""
    n = len(held.fold)
    scale = max(values[-1], held.least)
    low = sorted(values[f] - scale * d for f, d in zip(held.fold, held.distance, strict=True))
    high = sorted(values[f] + scale * d for f, d in zip(held.fold, held.distance, strict=True))
    k = int(np.ceil(coverage * (n + 1) - 1e-9))
    return low[n - k], high[k - 1]


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
def test_the_ends_are_those_of_the_definition(coverage):
    rng = np.random.default_rng(0)
    fold = rng.integers(3, size=40)
    held = HeldOutFits(np.zeros((0, 4)), np.zeros(4), fold, rng.exponential(size=40), np.ones(40), 0.2,
                       np.arange(40), 40)
    values = rng.normal(size=(5, 4))
    expected = [by_definition(held, row, coverage) for row in values]
    np.testing.assert_allclose(interval(held, values, coverage), expected, rtol=1e-12)


def test_a_weight_of_two_is_a_row_twice():
    rng = np.random.default_rng(1)
    fold, distance, values = rng.integers(3, size=30), rng.exponential(size=30), rng.normal(size=(4, 4))
    weight = rng.integers(0, 3, size=30)
    once = HeldOutFits(np.zeros((0, 4)), np.zeros(4), fold, distance, weight.astype(float), 0.2,
                       np.arange(30), 30)
    copied = HeldOutFits(np.zeros((0, 4)), np.zeros(4), np.repeat(fold, weight), np.repeat(distance, weight),
                         np.ones(weight.sum()), 0.2, np.repeat(np.arange(30), weight), 30)
    np.testing.assert_allclose(interval(once, values, 0.8), interval(copied, values, 0.8))


@pytest.mark.parametrize("exact", [True, False], ids=["gram", "features"])
def test_fits_without_a_fold_are_refits(exact):
    X, y = scattered(60, 0)
    K = RBF(0.5)(X, X)
    Z = np.linalg.cholesky(K + 1e-10 * np.eye(60))
    ridge = GramRidge(K) if exact else FeatureRidge(Z)
    fit = ridge.solve(y, np.ones(60), 0.3)
    held = hold_out(ridge, y, fit, 0.3, groups=None, weight=np.ones(60), by_folds=True)
    basis = K if exact else Z
    for k in range(10):
        rest = held.fold != k
        dual = np.linalg.solve(K[np.ix_(rest, rest)] + 0.3 * np.eye(rest.sum()), y[rest])
        np.testing.assert_allclose(basis @ held.coef[:, k], K[:, rest] @ dual, atol=1e-4)


def test_equal_rows_share_a_fold_and_folds_are_of_one_size():
    groups = np.repeat(np.arange(30), 2)
    fold = folds_of(60, groups, 10)
    assert (fold[::2] == fold[1::2]).all()
    assert set(np.bincount(fold)) == {6}
    assert set(np.bincount(folds_of(7, None, 10))) == {1}


def test_copies_of_rows_are_held_out_as_rows_of_weight_two():
    X, y = scattered(60, 0)
    weight = 1 + np.arange(60) % 2
    model = KernelRegressor(risk=Mean(), tol=1e-9)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    copied = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert np.isfinite([one.predict_interval(X) for one in (weighted, copied)]).all()
    once, twice = weighted.held_out_, copied.held_out_
    assert (np.repeat(once.fold, weight) == twice.fold).all()
    np.testing.assert_allclose(np.repeat(once.distance, weight), twice.distance, rtol=1e-5)


@pytest.mark.parametrize("model", EVERY, ids=name)
def test_intervals_hold_the_share_of_new_targets_that_was_asked_for(model):
    covered = []
    for seed in range(4):
        X, y = scattered(1120, seed)
        low, high = model.fit(X[:120], y[:120]).predict_interval(X[120:], coverage=0.8).T
        if model is not REGRESSORS[1] or model.clean_:  # where it takes the noisier side for corrupt they hold less
            covered.append(np.mean((low <= y[120:]) & (y[120:] <= high)))
    # of 120 rows a split's coverage has a deviation of sqrt(.8 * .2 / 120) = .037, the mean of four .018
    assert len(covered) >= 3
    assert 0.8 - 0.055 <= np.mean(covered) <= 0.8 + 0.07


@pytest.mark.parametrize("model", REGRESSORS[1:], ids=name)
def test_corrupt_training_rows_do_not_count(model):
    covered, widths = [], []
    for seed in range(4):
        X, y = scattered(1150, seed, bad=0.03)
        y[:30] = np.random.default_rng(seed).normal(6, 3, size=30)
        low, high = model.fit(X[:150], y[:150]).predict_interval(X[150:], coverage=0.9).T
        covered.append(np.mean((low <= y[150:]) & (y[150:] <= high)))
        widths.append(np.mean(high - low))
    assert 0.9 - 0.06 <= np.mean(covered) <= 0.97
    assert max(widths) < 3  # the noise has deviations of .1 and .5; the corrupt rows are 6 off


@pytest.mark.parametrize("model", EVERY, ids=name)
def test_intervals_are_wider_where_the_noise_is(model):
    X, y = scattered(400, 3, noise=(0.2, 0.5))  # of .1 and .5 the robust line takes the wider for corrupt
    low, high = model.fit(X, y).predict_interval(X).T
    wide = high - low
    assert wide[X[:, 2] > 0.3].mean() > 1.3 * wide[X[:, 2] < -0.3].mean()
    assert (low <= high).all()


@pytest.mark.parametrize("model", REGRESSORS, ids=name)
def test_units_of_the_target_are_those_of_the_interval(model):
    X, y = scattered(80, 4)
    one = model.fit(X, y).predict_interval(X)
    other = model.fit(X, 1000 * y + 5).predict_interval(X)
    np.testing.assert_allclose(other, 1000 * one + 5, rtol=2e-2, atol=30)  # the descent of one model has a tolerance


@pytest.mark.parametrize("model", EVERY, ids=name)
def test_the_lower_end_is_the_lower_one_at_a_coverage_that_crosses_them(model):
    X, y = scattered(80, 0)
    low, high = clone(model).fit(X, y).predict_interval(X, 0.01).T
    assert (low <= high).all()


@pytest.mark.parametrize("model", EVERY, ids=name)
@pytest.mark.parametrize("coverage", [0.0, 1.0, 1.5, -0.1, np.nan, "most", True])
def test_a_coverage_out_of_range_is_refused(model, coverage):
    X, y = scattered(40, 0)
    with pytest.raises(ValueError, match="coverage must be"):
        model.fit(X, y).predict_interval(X, coverage=coverage)


@pytest.mark.parametrize("model", EVERY, ids=name)
def test_too_few_rows_for_a_coverage_are_counted(model):
    X, y = scattered(25, 0)
    model.fit(X, y)
    assert model.predict_interval(X[:3], coverage=0.9).shape == (3, 2)
    with pytest.raises(ValueError, match=r"coverage=0\.99 needs at least 99 training rows"):
        model.predict_interval(X, coverage=0.99)


@pytest.mark.parametrize("model", EVERY, ids=name)
def test_a_loaded_model_has_the_same_intervals(model, tmp_path):
    X, y = scattered(60, 0)
    save(model.fit(X, y), tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_interval(X), model.predict_interval(X))


@pytest.mark.parametrize("options", [{"kernel": "linear"}, {"n_landmarks": 10}, {"alpha": 0.0}], ids=str)
def test_a_kernel_regressor_without_its_rows_names_the_way_out(options):
    X, y = scattered(40, 0)
    with pytest.raises(ValueError, match="RobustKernelRegressor"):
        KernelRegressor(max_iter=20, tol=1.0, **options).fit(X, y).predict_interval(X)


def test_residuals_of_a_machine_are_those_of_refits():
    X, y = scattered(50, 1)
    model = SVR(C=0.5, epsilon=0.3, tol=1e-8).fit(X, y)
    model.predict_interval(X, coverage=0.5)
    refits = []
    for i in range(50):
        rest = np.arange(50) != i
        refits.append(SVR(C=0.5, epsilon=0.3, tol=1e-8, gamma=model.expansion_.kernel.gamma).fit(X[rest], y[rest])
                      .predict(X[i : i + 1])[0])
    columns = model.expansion_.kernel(X, model.support_vectors_) @ model.held_out_.coef + model.held_out_.intercept
    np.testing.assert_allclose(columns[:, 0], model.predict(X))
    apart = np.abs(np.abs(y - model.loo_decision_) - np.abs(y - refits))
    assert np.median(apart) < 0.02
    if not model.held_out_.coef[:, 1].any():
        np.testing.assert_allclose(model.held_out_.distance, np.abs(y - model.loo_decision_))


def test_a_gram_matrix_gives_intervals_of_one_width():
    X, y = scattered(60, 2)
    K = RBF(0.5)(X, X)
    given = SVR(kernel="precomputed").fit(K, y)
    low, high = given.predict_interval(K, coverage=0.8).T
    k = int(np.ceil(0.8 * 61 - 1e-9))
    half = np.sort(np.abs(y - given.loo_decision_))[k - 1]
    np.testing.assert_allclose(high - given.predict(K), half)
    np.testing.assert_allclose(given.predict(K) - low, half)


def test_rows_without_weight_and_tubes_without_support():
    X, y = scattered(60, 2)
    weight = np.ones(60)
    weight[:20] = 0.0
    alone = SVR(gamma=1.0).fit(X[20:], y[20:]).predict_interval(X, coverage=0.8)
    np.testing.assert_allclose(SVR(gamma=1.0).fit(X, y, weight).predict_interval(X, coverage=0.8), alone, atol=1e-6)
    wide = SVR(epsilon=100.0).fit(X, y)
    assert len(wide.support_) == 0
    low, high = wide.predict_interval(X, coverage=0.8).T
    assert np.mean((low <= y) & (y <= high)) >= 0.8


def test_a_second_fit_has_intervals_of_its_own():
    X, y = scattered(60, 2)
    model = SVR().fit(X, y)
    model.predict_interval(X)
    np.testing.assert_array_equal(model.fit(X, y + 5).predict_interval(X), SVR().fit(X, y + 5).predict_interval(X))


@pytest.mark.parametrize("model", EVERY, ids=name)
def test_intervals_of_a_group_are_those_of_its_rows_alone(model):
    X, y = scattered(200, 0)
    fitted = clone(model).fit(X, y)
    own, new = np.where(X[:, 2] > 0, "wide", "narrow"), np.array(["wide", "narrow"] * 25)
    ends = fitted.predict_interval(X[:50], groups=(own, new))
    held = fitted.held_out_
    for group in ("wide", "narrow"):
        rows = own[held.row] == group
        alone = copy(fitted)
        alone.held_out_ = HeldOutFits(held.coef, held.intercept, held.fold[rows], held.distance[rows],
                                      held.weight[rows], held.least, held.row[rows], 200)
        np.testing.assert_array_equal(ends[new == group], alone.predict_interval(X[:50])[new == group])


def test_groups_of_one_width_are_covered_each():
    """Of a machine whose intervals have one width, the noisier fifth is covered as often as asked."""
    by_group, plain = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, noisy = rng.normal(size=(1300, 2)), rng.random(1300) < 0.2
        y = X[:, 0] + np.where(noisy, 1.0, 0.1) * rng.normal(size=1300)
        model = SVR(kernel="precomputed").fit(X[:300] @ X[:300].T, y[:300])
        asked = X[300:] @ X[:300].T
        for coverages, groups in ((plain, None), (by_group, (noisy[:300], noisy[300:]))):
            low, high = model.predict_interval(asked, groups=groups).T
            inside = (low <= y[300:]) & (y[300:] <= high)
            coverages.append([inside[noisy[300:]].mean(), inside[~noisy[300:]].mean()])
    assert np.mean(plain, axis=0)[0] < 0.75
    assert np.all(np.abs(np.mean(by_group, axis=0) - 0.9) < 0.03)


@pytest.mark.parametrize("model", EVERY, ids=name)
def test_groups_are_of_the_rows_given(model):
    """With weights 0 and 2 rows are left out or doubled; their groups are still those of the rows as given."""
    X, y = scattered(60, 1)
    weight = np.array([0, 2] * 30)
    y[31] += 100
    fitted = clone(model).fit(X, y, sample_weight=weight)
    fitted.predict_interval(X[:1], coverage=0.5)
    held = fitted.held_out_
    assert held.given == 60
    assert held.row[held.distance.argmax()] == 31
    assert set(held.row[held.weight > 0]) <= set(range(1, 60, 2))


def test_a_group_of_few_heavy_rows_is_no_group_of_many():
    X, y = scattered(150, 3)
    rare = np.arange(150) < 9
    fitted = KernelRegressor(risk=Mean()).fit(X, y, sample_weight=np.where(rare, 15.0, 1.0))
    held = fitted.predict_interval(X[:1], 0.5) is not None and fitted.held_out_
    assert held.of_rows(np.flatnonzero(rare)).weight.sum() == pytest.approx(9)
    with pytest.warns(UserWarning, match=r"fewer than 19 training rows: group True \(9\)"):
        assert np.isinf(fitted.predict_interval(X[:1], 0.95, groups=(rare, [True]))).all()


@pytest.mark.parametrize("model", REGRESSORS[1:], ids=name)
def test_a_group_that_a_robust_fit_mostly_names_corrupt_is_told(model):
    rng = np.random.default_rng(0)
    X, noisy = rng.normal(size=(400, 2)), rng.random(400) < 0.3
    y = X[:, 0] + np.where(noisy, 10.0, 1.0) * 0.2 * rng.normal(size=400)
    fitted = clone(model).fit(X, y)
    with pytest.warns(UserWarning, match=r"Of group True only \d+ of \d+ training rows count: the others are named"):
        fitted.predict_interval(X[:2], groups=(noisy, [True, False]))


@pytest.mark.parametrize("model", EVERY, ids=name)
def test_a_group_of_too_few_rows_is_promised_nothing(model):
    X, y = scattered(60, 2)
    groups = np.array(["many"] * 55 + ["it's"] * 5)
    fitted = clone(model).fit(X, y)
    with pytest.warns(UserWarning, match=r"for 2 of 3 classes or groups.*group \"it's\" \(.*group None \(0\)"):
        ends = fitted.predict_interval(X[:3], groups=(groups, np.array(["many", "it's", np.nan], dtype=object)))
    assert np.isfinite(ends[0]).all()
    assert np.isinf(ends[1:]).all()
    with pytest.raises(ValueError, match=r"groups must be two arrays, of the 60 rows given to fit and of the 3 rows"):
        fitted.predict_interval(X[:3], groups=(groups[1:], groups[:3]))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_robust_line_makes_intervals_and_standard_errors_when_they_are_asked_for(weighted, monkeypatch, tmp_path):
    """And answers the same bits then, as do its copies, whatever the caller has changed in between."""
    X, y = scattered(120, 3, bad=0.1)
    counts = np.arange(120) % 3 if weighted else None
    model = RobustLinearRegressor(random_state=0)
    with monkeypatch.context() as context:
        context.setattr(linear_regressor, "KEPT", 0)
        at_once = clone(model).fit(X, y, counts)
    fitting = [True]

    def only_later(function, *given, **options):
        assert not fitting
        return function(*given, **options)

    for asked in ("hold_out", "mm_estimate", "residual_shares"):
        monkeypatch.setattr(linear_regressor, asked, partial(only_later, getattr(linear_regressor, asked)))
    given, targets = X.copy(), y.copy()
    late = clone(model).fit(given, targets, counts)
    fitting.clear()
    save(late, tmp_path / "model")
    copies = [late, pickle.loads(pickle.dumps(late)), deepcopy(late), load(tmp_path / "model")]
    given *= 0.0
    targets *= 0.0
    late.set_params(alpha=7.0, fit_intercept=False)
    own = np.arange(120) % 2
    for one in copies:
        for groups in (None, (own, own)):
            np.testing.assert_array_equal(one.predict_interval(X, groups=groups),
                                          at_once.predict_interval(X, groups=groups))
        np.testing.assert_array_equal(one.mm_.covariance, at_once.mm_.covariance)
        np.testing.assert_array_equal(one.contamination_interval_, at_once.contamination_interval_)
    assert not hasattr(model, "held_out_")


def test_a_robust_kernel_machine_makes_intervals_when_they_are_asked_for(monkeypatch):
    X, y = scattered(120, 3, bad=0.1)

    def refused(*given, **options):
        raise AssertionError("a fit pays for no interval")

    with monkeypatch.context() as context:
        context.setattr(kernel_regressor, "hold_out", refused)
        late = RobustKernelRegressor(random_state=0).fit(X, y)
        with pytest.raises(AssertionError, match="pays"):
            late.predict_interval(X)
    now = RobustKernelRegressor(random_state=0).fit(X, y)
    for one in (late, deepcopy(late), pickle.loads(pickle.dumps(late))):
        np.testing.assert_array_equal(one.predict_interval(X), now.predict_interval(X))
