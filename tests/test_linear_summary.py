"""Standard errors of the robust linear fit: published figures, refits of resampled rows, and the normal case."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import t as student

from buttress import RobustLinearRegressor, load, save
from buttress.solvers.contamination.mm import (
    BREAKDOWN_BEND,
    Reweighted,
    bisquare,
    m_scale,
    mm_estimate,
    psi_slope,
    reweighting,
    rho,
    rho_slope,
)

NAMES = ["Air.Flow", "Water.Temp", "Acid.Conc."]
STACKLOSS = np.array([  # Brownlee 1965: air flow, water temperature, acid concentration, loss
    [80, 27, 89, 42], [80, 27, 88, 37], [75, 25, 90, 37], [62, 24, 87, 28], [62, 22, 87, 18], [62, 23, 87, 18],
    [62, 24, 93, 19], [62, 24, 93, 20], [58, 23, 87, 15], [58, 18, 80, 14], [58, 18, 89, 14], [58, 17, 88, 13],
    [58, 18, 82, 11], [58, 19, 93, 12], [50, 18, 89, 8], [50, 18, 86, 7], [50, 19, 72, 8], [50, 19, 79, 8],
    [50, 20, 80, 9], [56, 20, 82, 15], [70, 20, 91, 15]], dtype=float)
# log temperature and log light of 47 stars (Rousseeuw & Leroy 1987, chapter 2)
STARS = np.array([
    4.37, 5.23, 4.56, 5.74, 4.26, 4.93, 4.56, 5.74, 4.30, 5.19, 4.46, 5.46, 3.84, 4.65, 4.57, 5.27,
    4.26, 5.57, 4.37, 5.12, 3.49, 5.73, 4.43, 5.45, 4.48, 5.42, 4.01, 4.05, 4.29, 4.26, 4.42, 4.58,
    4.23, 3.94, 4.42, 4.18, 4.23, 4.18, 3.49, 5.89, 4.29, 4.38, 4.29, 4.22, 4.42, 4.42, 4.49, 4.85,
    4.38, 5.02, 4.42, 4.66, 4.29, 4.66, 4.38, 4.90, 4.22, 4.39, 3.48, 6.05, 4.38, 4.42, 4.56, 5.10,
    4.45, 5.22, 3.49, 6.29, 4.23, 4.34, 4.62, 5.62, 4.53, 5.10, 4.45, 5.22, 4.53, 5.18, 4.43, 5.57,
    4.38, 4.62, 4.45, 5.06, 4.50, 5.34, 4.45, 5.34, 4.55, 5.54, 4.45, 4.98, 4.42, 4.50,
]).reshape(-1, 2)


@pytest.mark.parametrize("guess", [0.1, 1.0, 1e3])
@pytest.mark.parametrize("kind", ["normal", "cauchy", "far", "half exact", "huge"])
def test_the_scale_is_the_root_from_any_guess(kind, guess):
    rng = np.random.default_rng(0)
    r = {"normal": rng.normal(size=2000), "cauchy": rng.standard_cauchy(size=2000), "huge": 1e90 * rng.normal(size=200),
         "far": np.append(rng.normal(size=1200), rng.normal(1e6, 1, size=800)),
         "half exact": np.append(np.zeros(900), rng.normal(size=1100))}[kind]

    def left(log_s):
        return rho(r / np.exp(log_s), BREAKDOWN_BEND).sum() - (len(r) - 3) / 2

    middle = np.log(np.abs(r).mean())
    root = np.exp(brentq(left, middle - 30, middle + 30, xtol=1e-13))
    np.testing.assert_allclose(m_scale(r, 3, guess * np.abs(r).mean()), root, rtol=1e-6)


def test_the_scale_of_rows_fitted_exactly_is_0():
    assert m_scale(np.zeros(50), 3, 1.0) == 0


def test_stackloss_is_as_lmrob_reports_it():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(STACKLOSS[:, :3], columns=NAMES)
    table = RobustLinearRegressor(random_state=0).fit(X, STACKLOSS[:, 3]).summary()
    # summary(lmrob(stack.loss ~ ., data = stackloss)) of R's robustbase
    np.testing.assert_allclose(table.estimate, [-41.52462, 0.93885, 0.57955, -0.11292], rtol=1e-4)
    np.testing.assert_allclose(table.std_error, [5.29780, 0.11743, 0.26296, 0.06989], rtol=1e-4)
    np.testing.assert_allclose(table.t, [-7.838, 7.995, 2.204, -1.616], atol=1e-3)
    np.testing.assert_allclose(table.p_value, [4.82e-07, 3.68e-07, 0.0416, 0.1246], rtol=2e-3)
    assert table.scale == pytest.approx(1.912, abs=1e-3)
    assert table.name.tolist() == ["intercept", *NAMES]
    assert np.flatnonzero(table.weights == 0).tolist() == [20]
    assert str(table).splitlines()[2].split()[0] == "Air.Flow"


def test_four_giants_do_not_turn_the_line_of_star_cluster_cygnus():
    table = RobustLinearRegressor(random_state=0).fit(STARS[:, :1], STARS[:, 1]).summary()
    # summary(lmrob(log.light ~ log.Te, data = starsCYG)) of R's robustbase
    np.testing.assert_allclose(table.estimate, [-4.9694, 2.2532], rtol=1e-4)
    np.testing.assert_allclose(table.std_error, [3.4100, 0.7691], rtol=1e-4)
    assert table.scale == pytest.approx(0.4715, abs=1e-4)
    assert np.flatnonzero(table.weights == 0).tolist() == [10, 19, 29, 33]


@pytest.mark.parametrize("bend", [BREAKDOWN_BEND, 4.685])
def test_slopes_are_derivatives(bend):
    u, h = np.linspace(-6, 6, 97) + 0.013, 1e-6
    np.testing.assert_allclose(rho_slope(u, bend), (rho(u + h, bend) - rho(u - h, bend)) / (2 * h), atol=1e-8)

    def psi(u):
        return u * bisquare(u, bend)

    np.testing.assert_allclose(psi_slope(u, bend), (psi(u + h) - psi(u - h)) / (2 * h), atol=1e-7)
    np.testing.assert_allclose(psi(u), rho_slope(u, bend) * bend**2 / 6, atol=1e-12)


def test_the_scale_solves_its_equation_and_is_that_of_normal_errors():
    r = np.random.default_rng(0).normal(size=20000)
    s = m_scale(r, 3, 1.0)
    assert rho(r / s, BREAKDOWN_BEND).sum() == pytest.approx((20000 - 3) / 2, rel=1e-6)
    assert s == pytest.approx(1, abs=0.03)
    assert m_scale(np.repeat([0.0, 1.0], [30, 10]), 1, 1.0) < 1e-3
    assert m_scale(np.repeat([0.0, 1.0], [30, 10]), 1, 1e-200) < 1e-3  # no square of 1e200 overflows


def test_errors_are_those_of_resampled_rows():
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(300), rng.normal(size=(300, 2))])
    y = X @ [1.0, 2.0, -1.0] + (0.5 + np.abs(X[:, 1])) * rng.standard_t(4, size=300)
    y[:30] += 40
    start = np.array([1.0, 2.0, -1.0])  # the truth
    drawn = [rng.integers(300, size=300) for _ in range(100)]
    spread = np.std([mm_estimate(X[rows], y[rows], start).coef for rows in drawn], axis=0)
    error = np.sqrt(np.diagonal(mm_estimate(X, y, start).covariance))
    np.testing.assert_allclose(error, spread, rtol=0.25)  # 100 draws know a deviation to .07; the rest is skewness


def test_intervals_hold_the_coefficient_as_often_as_they_say():
    held = []
    truth = np.array([0.0, 1.0, -2.0])
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = np.column_stack([np.ones(80), rng.normal(size=(80, 2))])
        y = X @ truth + rng.normal(size=80)
        y[:8] = 30
        found = mm_estimate(X, y, truth)
        half = student.ppf(0.9, found.freedom) * np.sqrt(np.diagonal(found.covariance))
        held.append(np.abs(found.coef - truth) <= half)
    assert 0.8 - 0.09 <= np.mean(held) <= 0.8 + 0.09


def test_the_table_follows_from_estimates_and_errors(tmp_path):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(50, 2))
    model = RobustLinearRegressor(fit_intercept=False, random_state=0).fit(X, X[:, 0] + rng.normal(size=50))
    table = model.summary(coverage=0.9)
    half = student.ppf(0.95, 48) * table.std_error
    np.testing.assert_allclose(np.column_stack([table.low, table.high]),
                               np.column_stack([table.estimate - half, table.estimate + half]))
    assert table.name.tolist() == ["x0", "x1"]
    assert list(table.columns()) == ["name", "estimate", "std_error", "low", "high", "t", "p_value"]
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").summary().estimate, model.summary().estimate)


def test_units_of_columns_and_targets_are_those_of_the_table():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=60)
    one = RobustLinearRegressor(random_state=0).fit(X, y).summary()
    other = RobustLinearRegressor(random_state=0).fit(X * [10, 0.1], 5 * y + 100).summary()
    np.testing.assert_allclose(other.std_error, one.std_error * [5, 0.5, 50], rtol=1e-5)
    np.testing.assert_allclose(other.estimate, one.estimate * [5, 0.5, 50] + [100, 0, 0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("X", "y"), [
    (np.eye(3), [1.0, 2.0, 4.0]),
    (np.column_stack([np.arange(20.0), np.arange(20.0)]), np.random.default_rng(0).normal(size=20)),
    (np.arange(20.0)[:, None], np.arange(20.0)),
], ids=["few rows", "dependent", "exact"])
def test_where_there_are_no_errors_it_says_why(X, y):
    with pytest.raises(ValueError, match="no standard errors"):
        RobustLinearRegressor(random_state=0).fit(X, y).summary()


@pytest.mark.parametrize("coverage", [0, 1, 2, "wide"])
def test_a_coverage_out_of_range_is_refused(coverage):
    X = np.random.default_rng(0).normal(size=(30, 1))
    with pytest.raises(ValueError, match="coverage must be"):
        RobustLinearRegressor(random_state=0).fit(X, X[:, 0] + X[:, 0] ** 2).summary(coverage)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4])
@pytest.mark.parametrize("bend", [BREAKDOWN_BEND, 4.685])
@pytest.mark.parametrize("seed", range(3))
def test_a_descent_lowers_the_loss_at_each_step_and_ends_after_few(seed, bend, share):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(500, 4))
    y = X @ [1.0, -1.0, 2.0, 0.0] + rng.normal(size=500)
    bad = np.arange(500) < 500 * share
    X[bad], y[bad] = 10 + X[bad], -10
    far = rng.normal(size=4)
    states = []
    for step in reweighting(X, y, Reweighted(far, y - X @ far, 1.5), bend):
        states.append(step.state)
        if step.change <= 1e-9 or len(states) > 100:
            break
    losses = [rho(at.residual / 1.5, bend).sum() for at in states]
    assert (np.diff(losses) <= 1e-12 * losses[0]).all()
    last = states[-1].residual / 1.5
    np.testing.assert_allclose(X.T @ (bisquare(last, bend) * last), 0, atol=1e-6)
    near = sum(abs(at.residual - states[-1].residual).max() > 1e-9 for at in states if
               abs(at.residual - states[-1].residual).max() < 0.3)
    assert near <= 6, "from a third of a deviation on it is Newton's method"
