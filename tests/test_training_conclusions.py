"""How many rows carry a sign or a significance, against every set of rows."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import linregress
from scipy.stats import t as student
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import RobustLinearRegressor
from buttress.certificates import training_conclusions


def least_squares(X, y):
    """Coefficients and their t-values by the normal equations, the intercept left out."""
    A = np.column_stack([X, np.ones(len(y))])
    inverse = np.linalg.inv(A.T @ A)
    coef = inverse @ A.T @ y
    e = y - A @ coef
    t = coef / np.sqrt(e @ e / (len(y) - A.shape[1]) * np.diagonal(inverse))
    return coef[:-1], t[:-1], np.abs(t[:-1]) > student.isf(0.025, len(y) - A.shape[1])


def fewest(X, y, most):
    """The least number of rows that change each sign and each significance, up to ``most``; inf if none do."""
    coef, _, significant = least_squares(X, y)
    sign, level = np.full((2, X.shape[1]), np.inf)
    for k in range(1, most + 1):
        for rows in combinations(range(len(y)), k):
            other = least_squares(np.delete(X, rows, axis=0), np.delete(y, rows))
            sign[(other[0] * coef <= 0) & (sign > k)] = k
            level[(other[2] != significant) & (level > k)] = k
    return sign, level


@pytest.mark.parametrize("seed", range(8))
def test_the_truth_is_between_proof_and_attack(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(13, 2)) * [1.0, 30.0]
    X[0] *= 1 + 3 * (seed % 3)  # a row of high leverage
    y = rng.normal(size=13) + 0.6 * X[:, 0] * (seed % 4) + 100 * (seed % 2)
    found = training_conclusions(LinearRegression().fit(X, y), X, y)
    np.testing.assert_allclose(found.t, least_squares(X, y)[1], rtol=1e-9)
    sign, level = fewest(X, y, 4)
    assert (found.sign_proven < sign).all()
    assert (found.level_proven < level).all()
    assert (np.minimum(found.sign_found, 5) >= np.minimum(sign, 5)).all()
    assert (np.minimum(found.level_found, 5) >= np.minimum(level, 5)).all()
    for j in range(2):
        coef, _, significant = least_squares(np.delete(X, found.sign_rows[j], axis=0), np.delete(y, found.sign_rows[j]))
        assert coef[j] * found.coef[j] < 0 or not len(found.sign_rows[j])
        rows = found.level_rows[j]
        significant = least_squares(np.delete(X, rows, axis=0), np.delete(y, rows))[2]
        assert significant[j] != found.significant[j] or not len(rows)


def test_one_row_is_decided():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 1))
    y = -0.02 * X[:, 0] + 0.1 * rng.normal(size=40)
    y[3] += 5 * X[3, 0]
    slope = linregress(X[:, 0], y).slope
    others = [linregress(np.delete(X[:, 0], i), np.delete(y, i)).slope for i in range(40)]
    assert min(others) < 0 < slope
    found = training_conclusions(LinearRegression().fit(X, y), X, y)
    assert found.sign_proven == [0]
    assert found.sign_found == [1]
    assert found.sign_rows[0] == np.argmin(others)
    apart = np.column_stack([X, np.arange(40) == 7])  # without row 7 there is no such column: it is never left out
    found = training_conclusions(LinearRegression().fit(apart, y), apart, y)
    assert found.sign_rows[0] == np.argmin(others)


def test_something_is_proven_of_a_table_of_some_hundred_rows():
    X, y = load_diabetes(return_X_y=True)
    model = make_pipeline(StandardScaler(), LinearRegression()).fit(X, y)
    found = training_conclusions(model, X, y)
    bmi = 2
    assert 5 <= found.sign_proven[bmi] < found.sign_found[bmi] < np.inf
    assert 2 <= found.level_proven[bmi] < found.level_found[bmi]
    weak = np.flatnonzero(~found.significant)
    assert (found.level_proven < found.level_found)[weak].all()


def test_rows_that_hold_themselves_up_prove_nothing():
    X = np.zeros((6, 1))
    X[0] = 1.0  # one row alone has the column
    y = np.array([3.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    found = training_conclusions(LinearRegression().fit(X, y), X, y)
    assert found.sign_proven == [0]
    assert found.level_proven == [0]


def test_a_robust_line_is_turned_by_refits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    y = 0.15 * X[:, 0] + 0.5 * rng.normal(size=60)
    model = RobustLinearRegressor(random_state=0).fit(X, y)
    found = training_conclusions(model, X, y)
    assert found.sign_proven == [0]
    assert 1 <= found.sign_found[0] <= 30
    rows = found.sign_rows[0]
    other = RobustLinearRegressor(random_state=0).fit(np.delete(X, rows, axis=0), np.delete(y, rows)).summary()
    assert other.estimate[1] * model.summary().estimate[1] < 0


def test_what_has_no_t_values_is_refused():
    X, y = np.arange(6.0)[:, None], np.arange(6.0)
    with pytest.raises(ValueError, match="no t-values"):
        training_conclusions(Ridge().fit(X, y), X, y)
    with pytest.raises(ValueError, match="add rows"):
        training_conclusions(LinearRegression().fit(X[:2], y[:2]), X[:2], y[:2])
    with pytest.raises(ValueError, match="level"):
        training_conclusions(LinearRegression().fit(X, y), X, y, level=2)
