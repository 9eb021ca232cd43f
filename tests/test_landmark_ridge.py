"""Ridge regression on landmark features against the same on explicit ones, and what landmarks cannot follow."""

from unittest.mock import patch

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.linear_model import Ridge

from buttress import KernelRegressor, RobustKernelRegressor
from buttress._rows import equal_rows
from buttress.features import made, nystroem
from buttress.features.stored import BatchedFeatures, BatchedRows, landmark_features
from buttress.kernels import RBF
from buttress.risks import Subquantile
from buttress.robust.batches import PairedBatches
from buttress.robust.design import Regime, kernel_design
from buttress.robust.regression_fit import best_alpha_of_many
from buttress.robust.report import row_keys
from buttress.robust.tuning import MIXTURE
from buttress.solvers.contamination.residual_law import LawLimits, LeftOutResiduals, em_rounds, first_law
from buttress.solvers.ridge import landmarks
from buttress.solvers.ridge.landmarks import LandmarkRidge
from buttress.solvers.ridge.leave_one_out import FeatureRidge, factorised
from buttress.solvers.ridge.tuning import LEVERAGES

from problems import points

X = points(300, 3)
Y = np.sin(2 * X[:, 0]) + X[:, 1]
U = np.round(4 * np.random.default_rng(0).random(300)) / 4
MAP = nystroem(RBF(0.5), X[:20])


@pytest.fixture(params=["stored", "made again", "single"])
def features(request, monkeypatch):
    monkeypatch.setattr(made, "FEATURE_BYTES", 0 if request.param == "made again" else 10**9)
    monkeypatch.setattr(made, "SINGLE", 0 if request.param == "single" else 10**9)
    monkeypatch.setattr(made, "PANEL_ENTRIES", 700)
    return landmark_features(MAP, X, 1.0)


@patch.dict(vars(LEVERAGES), exact_from=1e-12)
def test_fit_path_and_leave_one_out_are_those_of_explicit_features(features):
    plain, ours = FeatureRidge(features[np.arange(300)].astype(float)), LandmarkRidge(features)
    targets = np.column_stack([Y, Y**2])
    few = np.where(np.arange(300) % 70 == 0, 1.0, 0.0)
    steps = (targets, U), (targets, np.where(np.arange(300) % 7 == 0, 0.25, U)), (targets[:, ::-1], few), (targets, few)
    for y, u in (*steps, (targets, np.ones(300)), (-targets, np.ones(300))):
        one, other = plain.solve(y, u, 0.5), ours.solve(y, u, 0.5)
        np.testing.assert_allclose(other.loo, one.loo, atol=2e-4 if features.eps > 1e-9 else 1e-9)
        np.testing.assert_allclose(other.spread, one.spread, atol=2e-4 if features.eps > 1e-9 else 1e-9)
    rows = np.arange(0, 300, 7)
    for one, other in zip(plain.path(Y, U, [0.1, 2.0], rows), ours.path(Y, U, [0.1, 2.0], rows), strict=True):
        np.testing.assert_allclose(other.loo, one.loo, atol=2e-4 if features.eps > 1e-9 else 1e-9)


def test_there_and_back_is_two_products(features):
    Z = features[np.arange(300)].astype(float)
    C = np.random.default_rng(0).normal(size=(Z.shape[1], 3))
    pairs = [(X[:70], Y[:70]), (X[70:], Y[70:])]
    keys = [row_keys(some, np.zeros(len(some))) for some, _ in pairs]
    rows = BatchedRows(PairedBatches(lambda: pairs, keys, np.dtype(np.float64)), 3, np.dtype(np.float64))
    for made_of in (features, BatchedFeatures(made.recipe_of(MAP, 300, 1.0, constant=True), rows, 1.0)):
        values, back = made_of.there_and_back(C, lambda V, y, u: u[:, None] * np.tanh(V - y[:, None]), Y, U)
        close = 2e-4 if features.eps > 1e-9 else 1e-9
        np.testing.assert_allclose(values, Z @ C, atol=close)
        np.testing.assert_allclose(back, Z.T @ (U[:, None] * np.tanh(Z @ C - Y[:, None])), atol=300 * close)


@pytest.mark.parametrize("size", [1e9, 1e15, 1e30])
def test_a_huge_target_leaves_nothing_behind_when_its_weight_falls_to_0(features, size):
    huge = np.where(np.arange(300) == 7, size, Y)
    without = np.where(np.arange(300) == 7, 0.0, U)
    ridge = LandmarkRidge(features)
    ridge.solve(huge, np.where(np.arange(300) == 7, 0.5, U), 0.5)
    left = ridge.solve(huge, without, 0.5)
    expected = LandmarkRidge(features).solve(huge, without, 0.5)
    np.testing.assert_allclose(left.values, expected.values, atol=1e-4 if features.eps > 1e-9 else 1e-6)


def test_weights_are_used_in_quarters(features):
    ridge, fine = LandmarkRidge(features), np.random.default_rng(1).random(300)
    used = ridge.solve(Y, fine, 0.5).weight
    assert np.abs(used - fine).max() <= 0.125
    assert set(used) <= {0, 0.25, 0.5, 0.75, 1}


@pytest.mark.parametrize("step", ["spectral", "preconditioned"])
@pytest.mark.parametrize("kept", ["made again", "single"])
def test_descent_does_not_depend_on_how_features_are_kept(step, kept, monkeypatch):
    def fitted():
        return KernelRegressor(risk=Subquantile(0.8), n_landmarks=30, step=step, random_state=0).fit(X, Y).predict(X)

    expected = fitted()
    monkeypatch.setattr(made, "FEATURE_BYTES" if kept == "made again" else "SINGLE", 0)
    monkeypatch.setattr(made, "PANEL_ENTRIES", 700)
    np.testing.assert_allclose(fitted(), expected, atol=1e-3 if kept == "single" else 1e-8)


@patch.dict(vars(LEVERAGES), few_rows=0, exact_from=0.0)
@patch.dict(vars(LEVERAGES), exact_from=1e-12)
def test_equal_rows_are_left_out_together_whichever_rows_are_looked_at():
    twins = np.repeat(X[:100], 3, axis=0)
    rows = landmark_features(MAP, twins, 1.0)
    Z = rows[np.arange(300)]
    ridge = LandmarkRidge(rows, equal_rows(twins))
    seen = np.array([0, 8, 150])
    for fit, at in ((ridge.solve(Y, U, 0.3), seen), (next(ridge.path(Y, U, [0.3], seen)), np.arange(3))):
        for place, i in zip(at, seen, strict=True):
            left = np.arange(300) // 3 != i // 3
            model = Ridge(0.3, fit_intercept=False).fit(Z[left], Y[left], U[left])
            assert fit.loo[place] == pytest.approx(Y[i] - model.predict(Z[[i]])[0], abs=1e-7)


def test_features_leave_out_what_the_landmarks_cannot_say(features):
    K = RBF(0.5)(X, X[:20])
    expected = 1 - np.sum(K * np.linalg.solve(RBF(0.5)(X[:20], X[:20]), K.T).T, axis=1)
    np.testing.assert_allclose(features.missed, np.maximum(expected, 0), atol=1e-4)
    assert features.missed[:20].max() < 1e-4 < features.missed[20:].mean()


@patch.dict(vars(LEVERAGES), few_rows=0)
def test_projected_leverages_are_near_and_strong_ones_exact():
    rows = landmark_features(MAP, X, 1.0)
    Z = rows[np.arange(300)]
    exact = FeatureRidge(Z).solve(Y, np.ones(300), 0.01)
    close = LandmarkRidge(rows).solve(Y, np.ones(300), 0.01)
    h, near = (1 - (Y - fit.values) / fit.loo for fit in (exact, close))
    assert np.median(np.abs(near / h - 1)) < 0.5
    strong = (h > 0.3) & (near > 0.2)
    assert strong.any()
    np.testing.assert_allclose(near[strong], h[strong], atol=1e-8)
    np.testing.assert_allclose(close.values, Ridge(0.01, fit_intercept=False).fit(Z, Y).predict(Z), atol=1e-6)


def test_variance_that_grows_with_what_is_missed_is_learned():
    rng = np.random.default_rng(0)
    missed = rng.random(4000)
    r = 0.3 * np.sqrt(1 + 20 * missed) * student(8).rvs(4000, random_state=1)
    r[:400] = rng.normal(12, 2, size=400)
    seen = LeftOutResiduals(r, np.ones(4000), missed)
    law = em_rounds(first_law(seen, 8.0, LawLimits(1e-9)), seen, LawLimits(1e-9), rounds=60)
    assert law.scale == pytest.approx(0.3, rel=0.15)
    assert law.scale**2 * law.stray == pytest.approx(0.09 * 20, rel=0.15)
    assert law.share == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_rows_that_landmarks_cannot_follow_are_not_taken_for_corrupt(rate):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 4))
    truth = np.sin(X[:, 0]) + np.cos(2 * X[:, 1]) + X[:, 2] * X[:, 3] / 2
    y = truth + 0.1 * rng.normal(size=6000)
    bad = rng.random(6000) < rate
    y[bad] = rng.normal(5, 5, size=bad.sum())
    model = RobustKernelRegressor(gamma=0.5, n_landmarks=60, random_state=0).fit(X, y)
    Z = nystroem(RBF(0.5), model.expansion_.centers)(X)
    error = np.sqrt(np.mean((model.predict(X) - truth) ** 2))
    least = min(np.sqrt(np.mean((Ridge(a).fit(Z[~bad], y[~bad]).predict(Z) - truth) ** 2)) for a in (1e-3, 0.1, 1))
    assert least > 0.2  # twice the noise: too few landmarks
    assert error < 1.03 * least
    assert np.mean(~model.inlier_mask_[~bad]) < 0.01
    assert model.contamination_ == pytest.approx(rate, abs=0.05)
    assert model.n_iter_ <= 10


def test_a_memory_map_is_read_in_parts_and_a_float32_one_stays_so(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5000, 20)).astype(np.float32)
    y = np.sin(rows[:, 0]) + 0.1 * rng.normal(size=5000)
    y[:1000] = rng.normal(8, 2, size=1000)
    mapped = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=rows.shape)
    mapped[:] = rows
    turned = []
    double = made.double
    monkeypatch.setattr(made, "double", lambda X: turned.append(len(X)) or double(X))
    model = RobustKernelRegressor(n_landmarks=50, random_state=0).fit(mapped, y)
    monkeypatch.undo()
    same = RobustKernelRegressor(n_landmarks=50, random_state=0).fit(rows.astype(float), y)
    np.testing.assert_allclose(model.predict(rows[:50]), same.predict(rows[:50]), atol=1e-5)
    assert (~model.inlier_mask_[:1000]).mean() > 0.95


@patch.dict(vars(LEVERAGES), few_rows=0, exact_from=0.05)
def test_projected_path_is_the_solutions_seen_at_some_rows(features):
    ridge, rows = LandmarkRidge(features), np.arange(0, 300, 7)
    for alpha, seen in zip([0.1, 2.0], ridge.path(Y, U, [0.1, 2.0], rows), strict=True):
        whole = ridge.solve(Y, U, alpha)
        for name in ("values", "loo", "spread", "weight"):
            np.testing.assert_allclose(getattr(seen, name), getattr(whole, name)[rows], atol=1e-4)


@pytest.mark.parametrize("gamma", [0.05, 0.5, 5.0])
def test_the_ridge_of_many_rows_is_the_best_of_all_and_no_more_are_tried_than_need_be(gamma, monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 3))
    y = np.sin(2 * rows[:, 0]) + rows[:, 1] + 0.5 * rng.normal(size=2000)
    design = kernel_design(RBF(gamma), rows, n_landmarks=20, rng=np.random.RandomState(0))
    good = np.ones(2000)
    alphas = MIXTURE.ridges[::2] * design.unit
    errors = [float(fit.loo @ fit.loo) for fit in design.ridge.path(y, good, alphas, np.arange(2000))]
    best, tried = int(np.argmin(errors)), []
    monkeypatch.setattr(landmarks, "factorised", lambda A: tried.append(1) or factorised(A))
    assert best_alpha_of_many(design, y, good) == alphas[best]
    assert len(tried) == min(best + 2, len(alphas))


def test_many_rows_are_first_judged_at_a_twentieth_of_the_mean_eigenvalue():
    few, many = (kernel_design(RBF(0.5), X, n_landmarks=m, rng=np.random.RandomState(0)) for m in (20, 5))
    assert few.regime is Regime.FEW
    assert many.regime is Regime.MANY
    Z = many.ridge.features[np.arange(300)]
    assert 0 < 20 * many.steady <= 300 / 5
    assert many.steady == pytest.approx((np.sum(Z[:, :-1] ** 2) + 300 * many.ridge.missed.mean()) / 5 / 20)


@pytest.mark.slow
def test_corners_are_not_lost_where_rows_are_many():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60_000, 8))
    truth = np.sin(X[:, 0]) + np.cos(2 * X[:, 1]) + X[:, 2] * X[:, 3] / 2
    y, bad = truth + 0.1 * rng.normal(size=len(X)), rng.random(len(X)) < 0.2
    y[bad] = rng.normal(5, 5, bad.sum())
    model = RobustKernelRegressor(gamma=1 / 8, n_landmarks=1000, random_state=2).fit(X, y)
    seen = rng.normal(size=(20_000, 8))
    curve = np.sin(seen[:, 0]) + np.cos(2 * seen[:, 1]) + seen[:, 2] * seen[:, 3] / 2
    Z = nystroem(RBF(1 / 8), model.expansion_.centers)
    fits = [Ridge(alpha).fit(Z(X[~bad]), y[~bad]) for alpha in (0.1, 1)]
    least = min(np.sqrt(np.mean((fit.predict(Z(seen)) - curve) ** 2)) for fit in fits)
    assert np.sqrt(np.mean((model.predict(seen) - curve) ** 2)) < 1.03 * least
