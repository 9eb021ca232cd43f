"""Wrong targets, missing rows, and one common set of wrong labels, against brute force."""

from fractions import Fraction
from functools import partial
from itertools import combinations, product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress.certificates import training_accuracy, training_moves, training_removals

REGRESSORS = [
    KernelRidge(alpha=0.5, kernel="rbf", gamma=0.7),
    KernelRidge(alpha=3.0, kernel="rbf", gamma=0.2),
    GaussianProcessRegressor(RBF(0.8), alpha=0.5, optimizer=None),
    LinearRegression(),
    Ridge(alpha=2.0, fit_intercept=False),
    Ridge(alpha=10.0),
]


def table(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, X[:, 0] + 0.5 * rng.normal(size=n), rng.normal(size=(5, 2))


@pytest.mark.parametrize("model", REGRESSORS, ids=str)
def test_moved_targets_are_those_of_brute_force(model):
    X, y, Z = table(8, 0)
    by = np.random.default_rng(1).random(8)
    found = training_moves(model.fit(X, y), X, y, Z, by=by, rows=2)
    seen = []
    for rows in combinations(range(8), 2):
        for signs in product([-1, 1], repeat=2):
            moved = y.copy()
            moved[list(rows)] += signs * by[list(rows)]
            seen.append(model.fit(X, moved).predict(Z))
    np.testing.assert_allclose(found.low, np.min(seen, axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.high, np.max(seen, axis=0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("model", REGRESSORS, ids=str)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_no_rows_left_out_lead_outside(model, k):
    X, y, Z = table(16, 1)
    found = training_removals(model.fit(X, y), X, y, Z, rows=k)
    seen = [model.fit(np.delete(X, rows, 0), np.delete(y, rows)).predict(Z)
            for size in range(k + 1) for rows in combinations(range(16), size)]
    low, high = np.min(seen, axis=0), np.max(seen, axis=0)
    assert (found.low <= low).all()
    assert (found.high >= high).all()
    if k == 1:
        np.testing.assert_allclose(found.low, low, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(found.high, high, rtol=1e-8, atol=1e-8)


def test_some_removals_are_proven():
    X, y, Z = table(300, 2)
    found = training_removals(Ridge(alpha=1.0).fit(X, y), X, y, Z, rows=5)
    assert (found.high - found.low < 1).all()


def test_a_row_that_holds_itself_up_proves_nothing():
    X, y = np.array([[0.0], [0.0], [0.0], [1.0]]), np.array([0.0, 1.0, 0.0, 9.0])  # one row alone has the column
    found = training_removals(LinearRegression().fit(X, y), X, y, X, rows=1)
    assert np.isinf(found.low).all()


def test_what_a_proof_of_removals_does_not_cover_is_refused():
    X, y, Z = table(10, 0)
    process = GaussianProcessRegressor(RBF(1.0), optimizer=None, normalize_y=True, alpha=0.1).fit(X, y)
    with pytest.raises(ValueError, match="normalize_y"):
        training_removals(process, X, y, Z, rows=1)
    with pytest.raises(ValueError, match="training_flips"):
        training_moves(RidgeClassifier().fit(X, y > 0), X, y, Z, by=1.0, rows=1)
    with pytest.raises(ValueError, match="by must be"):
        training_moves(Ridge().fit(X, y), X, y, Z, by=-1.0, rows=1)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [1, 2, 3])
def test_one_common_set_is_between_proof_and_attack(seed, k):
    X, y, Z = table(11, seed)
    y, rng = y > 0, np.random.default_rng(seed)
    Z = rng.normal(size=(12, 2))
    truth = Z[:, 0] > 0
    model = make_pipeline(StandardScaler(), RidgeClassifier(alpha=3.0)).fit(X, y)
    found = training_accuracy(model, X, y, Z, truth, flips=k)
    worst = model.score(Z, truth)
    for size in range(1, k + 1):
        for rows in combinations(range(11), size):
            other = y.copy()
            other[list(rows)] ^= True
            if other.any() and not other.all():
                after = RidgeClassifier(alpha=3.0).fit(model[0].transform(X), other).predict(model[0].transform(Z))
                worst = min(worst, (after == truth).mean())
    assert found.clean == model.score(Z, truth)
    assert found.each <= found.together <= worst <= found.attacked <= found.clean
    other = y.copy()
    other[found.rows] ^= True
    after = RidgeClassifier(alpha=3.0).fit(model[0].transform(X), other).predict(model[0].transform(Z))
    assert (after == truth).mean() == pytest.approx(found.attacked)


@pytest.mark.parametrize("seed", range(5))
def test_intervals_hold_in_fractions_for_a_column_far_from_0(seed):
    rng = np.random.default_rng(seed)
    X, y, z = 1e8 + rng.normal(size=7), rng.normal(size=7), 1e8 + rng.normal(size=4)
    rows, far = ([Fraction(each) for each in part.tolist()] for part in (X, z))
    mean = sum(rows) / 7
    H = [[Fraction(1, 7) + (at - mean) * (x - mean) / sum((x - mean) ** 2 for x in rows) for x in rows] for at in far]
    found = training_moves(LinearRegression().fit(X[:, None], y), X[:, None], y, z[:, None], by=1e6, rows=1)
    for i, h in enumerate(H):
        prediction = sum(each * Fraction(t) for each, t in zip(h, y.tolist()))
        most = 1000000 * max(map(abs, h))
        assert Fraction(found.low[i]) <= prediction - most
        assert Fraction(found.high[i]) >= prediction + most


@pytest.mark.parametrize("model", [Ridge(alpha=1e-3), LinearRegression()])
def test_weights_are_noticed_where_targets_are_far_from_0(model):
    """What weights change is a millionth of such targets, and far outside an interval that knows of none."""
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(11, 2)), rng.integers(1, 4, 11)
    y = 1e4 + X[:, 0] + 0.01 * rng.normal(size=11)
    fitted = clone(model).fit(X, y, sample_weight=weight)
    for asked in (partial(training_removals, rows=1), partial(training_moves, rows=1, by=1.0)):
        with pytest.raises(ValueError, match=r"gives other values than the model.*sample_weight"):
            asked(fitted, X, y, X)
        assert asked(clone(model).fit(X, y), X, y, X).low.shape == (11,)
