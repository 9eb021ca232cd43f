"""The law of good residuals with a shape: skewed, and wider where more is expected; and what fit says of such rows."""

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import cauchy, norm
from scipy.stats import t as student

from buttress import RobustKernelRegressor, RobustLinearRegressor
from buttress.kernels import RBF
from buttress.robust import regression_fit
from buttress.robust.design import kernel_design
from buttress.robust.judged import what_they_share
from buttress.robust.tuning import MIXTURE
from buttress.solvers.contamination.residual_law import (
    Explained,
    Fitted,
    Law,
    LawLimits,
    LeftOutResiduals,
    em_rounds,
    explain,
    first_law,
    levels,
)
from buttress.solvers.ridge.leave_one_out import Fit
from buttress.solvers.run import SharedBudget

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from trial_sets import GENERATED, corrupted_targets, dataset

SHAPED = Law(0.7, 8.0, 0.0, 0.0, 5.0, mode=-0.4, skew=0.6, growth=0.3)


def drawn(law, level, rng):
    """Residuals of unit spread from a law without outliers, by its definition."""
    n = len(level)
    above = rng.random(n) < np.exp(law.skew) / (2 * np.cosh(law.skew))
    size = np.abs(rng.standard_t(law.nu, size=n)) * law.scale
    off = np.where(above, np.exp(law.skew) * size, -np.exp(-law.skew) * size)
    return (off + law.mode) * np.exp(law.growth * level)


@pytest.mark.parametrize("c", [0.5, 2.0])
def test_the_density_of_good_residuals_integrates_to_one(c):
    def density(r):
        return float(np.exp(SHAPED.log_inlier(LeftOutResiduals(np.array([r]), np.array([c])))[0]))

    mode = SHAPED.mode * c
    assert quad(density, -np.inf, mode)[0] + quad(density, mode, np.inf)[0] == pytest.approx(1, abs=1e-7)


def test_without_a_shape_it_is_students_law():
    from scipy.stats import t

    r, c = np.array([-2.0, 0.1, 5.0]), np.array([1.0, 2.0, 0.5])
    law = replace(SHAPED, mode=0.0, skew=0.0, growth=0.0)
    np.testing.assert_allclose(law.log_inlier(LeftOutResiduals(r, c)), t.logpdf(r, 8.0, scale=0.7 * c), rtol=1e-12)


def test_the_two_densities_are_those_of_scipy_however_far_a_residual_is():
    r = np.concatenate([np.linspace(-9, 9, 40), [-1e9, 1e9, 1e30]])
    law = Law(0.7, 4.0, 0.3, 1.0, 2.5)
    inlier, outlier = law.log_parts(LeftOutResiduals(r, np.ones(len(r))))
    z = (r - 1.0) / 2.5
    of_outliers = np.log(0.3 / 2.5) + logsumexp([norm.logpdf(z) + np.log(0.9), cauchy.logpdf(z) + np.log(0.1)], axis=0)
    np.testing.assert_allclose(inlier, np.log(0.7) + student.logpdf(r, 4.0, scale=0.7), rtol=1e-12)
    np.testing.assert_allclose(outlier, of_outliers, rtol=1e-12)
    good, likelihood = law.e_step(LeftOutResiduals(r, np.ones(len(r))))
    np.testing.assert_allclose(good, np.exp(inlier - np.logaddexp(inlier, outlier)), rtol=1e-12)
    np.testing.assert_allclose(likelihood, np.logaddexp(inlier, outlier).sum(), rtol=1e-12)


@pytest.mark.parametrize("share", [0.0, None])
def test_rounds_end_where_more_would_say_the_same(share, monkeypatch):
    rng = np.random.default_rng(0)
    r = rng.standard_t(4, size=500)
    r[:100] += 15
    seen, limits = LeftOutResiduals(r, np.ones(500)), LawLimits(1e-9, share)
    first = first_law(seen, 4.0, limits)
    law = first
    for _ in range(500):
        law = law.m_step(seen, law.e_step(seen)[0], limits)
    steps = []
    monkeypatch.setattr(Law, "m_step", lambda *given, step=Law.m_step: steps.append(given) or step(*given))
    found = em_rounds(first, seen, limits, 500)
    assert len(steps) < 50
    assert abs(found.e_step(seen)[1] - law.e_step(seen)[1]) < 1e-2
    assert abs(found.scale / law.scale - 1) < 1e-2


def test_the_shape_is_recovered_and_no_other_is_likelier():
    rng = np.random.default_rng(0)
    level = rng.uniform(-2, 2, size=10_000)
    r = drawn(SHAPED, level, rng)
    seen = LeftOutResiduals(r, np.ones(len(r)), level=level)
    limits = LawLimits(1e-9, 0.0)
    law = em_rounds(replace(first_law(seen, 8.0, limits), share=0.0), seen, limits, 80)
    found = np.array([law.scale, law.mode, law.skew, law.growth])
    np.testing.assert_allclose(found, [0.7, -0.4, 0.6, 0.3], atol=0.05)

    def likelihood(law):
        return law.log_inlier(seen).sum()

    best = likelihood(law)
    for name in ("scale", "mode", "skew", "growth"):
        for step in (-0.01, 0.01):
            assert likelihood(replace(law, **{name: getattr(law, name) + step})) < best


def test_a_skewed_tail_is_good_and_a_second_group_is_not():
    rng = np.random.default_rng(1)
    level = rng.uniform(-1, 1, size=800)
    r = (rng.gamma(2.0, size=800) - 2) * np.exp(0.3 * level)
    seen = LeftOutResiduals(r, np.ones(800), level=level)
    assert np.mean(explain(seen, LawLimits(1e-6)).responsibility < 0.5) < 0.01
    assert np.mean(explain(replace(seen, level=None), LawLimits(1e-6)).responsibility < 0.5) > 0.01
    bad = np.arange(800) < 160
    r[bad] = rng.normal(15, 2, size=160)
    found = explain(seen, LawLimits(1e-6))
    np.testing.assert_array_equal(found.responsibility < 0.5, bad)


def test_the_ridge_that_misses_every_row_by_more_than_counts_is_never_the_best():
    X = np.random.default_rng(0).normal(size=(60, 4))
    y = X.sum(axis=1)
    design = kernel_design(RBF(0.1), X, n_landmarks="auto", rng=np.random.RandomState(0))
    task = regression_fit.RegressionTask(design, y, LawLimits(1e-6), None, 1, 0, np.random.RandomState(0),
                                         SharedBudget())
    everyone = np.ones(60)
    fits = [design.ridge.solve(y, everyone, alpha) for alpha in MIXTURE.ridges * design.unit]
    scale = float(np.median(np.abs(fits[0].loo) / fits[0].spread)) / MIXTURE.bounded_at
    assert np.all(np.abs(fits[-1].loo) > MIXTURE.bounded_at * scale)
    state = Fitted(fits[0], Explained(Law(scale, 8.0, 0.0, 0.0, 1.0), everyone, 0.0), 1)
    least = min(MIXTURE.ridges) * design.unit
    assert regression_fit._best_alpha(task, state) == pytest.approx(least)


def test_where_targets_are_equal_no_scale_falls_below_the_floor():
    rng = np.random.default_rng(2)
    level = rng.uniform(-3, 3, size=500)
    r = np.where(level < 0.5, 0.0, rng.exponential(2.0, size=500))
    seen = LeftOutResiduals(r, np.ones(500), level=level)
    law = em_rounds(first_law(seen, 8.0, LawLimits(0.3)), seen, LawLimits(0.3), 50)
    _, side = law.sides(seen)
    assert side.min() > 0.29


def test_levels_are_of_the_prediction_without_the_row():
    y = np.array([5.0, 1.0, 2.0, 100.0])
    loo = np.array([1.0, 1.0, 1.0, 1.0])
    level = levels(y, Fit(y, y, loo, loo, loo))
    np.testing.assert_allclose(level[:3], (np.array([4.0, 0.0, 1.0]) - 2.5) / (1.4826 * 2.0))
    assert level[3] == 3
    assert levels(np.ones(4), Fit(y, y, np.zeros(4), loo, loo)) is None


@pytest.fixture(scope="module")
def rings():
    """Rows like those of abalone: noise skewed to the right that grows with what is expected; to fit and to predict."""
    X, y = dataset("long tail", 7)
    return X[:350], y[:350], X[350:], y[350:]


def error(model, X, y):
    return np.sqrt(np.mean((model.predict(X) - y) ** 2))


def test_without_a_guard_a_long_tail_of_good_rows_is_not_named(rings, monkeypatch):
    X, y, X_test, y_test = rings
    monkeypatch.setattr(regression_fit, "guarded", lambda task, mixed, robust: robust)
    model = RobustKernelRegressor(random_state=0).fit(X, y)
    plain = RobustKernelRegressor(contamination=0, random_state=0).fit(X, y)
    assert np.mean(~model.inlier_mask_) < 0.05
    assert error(model, X_test, y_test) < 1.03 * error(plain, X_test, y_test)


def test_mirrored_targets_among_them_cost_little(rings):
    X, y, X_test, y_test = rings
    dirty, bad = corrupted_targets(X, y, "mirrored", 0.3, np.random.default_rng(7))
    model = RobustKernelRegressor(random_state=0).fit(X, dirty)
    oracle = RobustKernelRegressor(contamination=0, random_state=0).fit(X[~bad], y[~bad])
    assert error(model, X_test, y_test) < 1.1 * error(oracle, X_test, y_test)


@pytest.mark.parametrize(("kind", "said"), [
    ("step", "lie together in X"), ("two levels", "lie together in X"), ("salaries", "lie above what is expected"),
])
def test_genuine_rows_that_look_corrupt_are_not_named_in_silence(kind, said):
    X, y = GENERATED[kind](np.random.default_rng(5))
    with pytest.warns(UserWarning, match=said):
        RobustKernelRegressor(random_state=0).fit(X[:280], y[:280])


def test_the_linear_fit_speaks_of_a_long_tail_and_of_equal_targets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    with pytest.warns(UserWarning, match="lie above what is expected.*logarithm"):
        RobustLinearRegressor(random_state=0).fit(X, 9 + X[:, 0] + rng.normal(size=400) + 8 * (np.arange(400) < 40))
    with pytest.warns(UserWarning, match=r"targets are equal \(0\)"):
        RobustLinearRegressor(random_state=0).fit(X, np.where(rng.random(400) < 0.6, 0, np.exp(X[:, 0])))


def test_clean_rows_and_a_share_given_pass_in_silence():
    X, y = GENERATED["friedman1"](np.random.default_rng(5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RobustKernelRegressor(random_state=0).fit(X[:200], y[:200])
        RobustKernelRegressor(contamination=0.1, random_state=0).fit(X[:200], y[:200] + 20.0 * (np.arange(200) < 20))


def test_few_rows_and_rows_on_both_sides_have_nothing_in_common():
    y = np.arange(500.0)
    bad = np.arange(500) < 40
    both = np.where(np.arange(500) % 2, 5.0, -5.0)
    assert what_they_share(y, both, bad, together=False) is None
    assert what_they_share(y, np.ones(500), np.arange(500) < 9, together=True) is None
    above = what_they_share(y, np.ones(500), bad, together=False)
    assert above is not None
    assert "above" in above[0]
    assert "shortens the tail" in above[1]  # 0 has no logarithm


def groups_on_both_sides(seed):
    """Return X, y and which rows are bad: 20 targets far above, 10 half as far below, of 100 on a plane with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(100, 3))
    y = X @ [2.0, -1.0, 0.5] + 0.3 * rng.normal(size=100)
    y[:20] += 8
    y[20:30] -= 4
    return X, y, np.arange(100) < 30


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))])
def test_a_second_group_of_corrupt_rows_is_named_though_the_first_lies_elsewhere(seed):
    X, y, bad = groups_on_both_sides(seed)
    model = RobustLinearRegressor(random_state=0).fit(X, y)
    assert (model.outlier_proba_[bad] > 0.9).all()
    assert np.mean(~model.inlier_mask_[~bad]) <= 0.02
    low, high = model.contamination_interval_
    assert low <= 0.3 <= high + 0.01
