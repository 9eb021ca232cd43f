"""The exact SVR against scikit-learn's, brute force and the definitions of its own certificate."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale
from sklearn.svm import SVR as Libsvm

from buttress import SVR, IndefiniteKernelWarning, NotConvergedWarning
from buttress.kernels import RBF, Linear

from problems import points


def waves(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), y / y.std()


AGAINST_LIBSVM = [
    ("default", waves, {}, False),
    ("small C", waves, {"C": 0.01}, False),
    ("large C", waves, {"C": 100.0, "gamma": 0.3}, False),
    ("no tube", waves, {"epsilon": 0.0}, False),
    ("wide tube", waves, {"epsilon": 1.0, "C": 10.0}, False),
    ("linear", diabetes, {"kernel": "linear"}, False),
    ("polynomial", diabetes, {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.1}, False),
    ("weights", diabetes, {"C": 3.0, "gamma": 0.1}, True),
]


@pytest.mark.parametrize(("name", "problem", "options", "weighted"), AGAINST_LIBSVM, ids=[r[0] for r in AGAINST_LIBSVM])
def test_predictions_are_those_of_libsvm(name, problem, options, weighted):
    X, y = problem()
    weight = np.random.default_rng(0).uniform(0.1, 2, len(y)) if weighted else None
    model = SVR(**options).fit(X, y, weight)
    theirs = Libsvm(tol=1e-7, **options).fit(X, y, weight)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), atol=1e-3)
    assert model.converged_
    assert 0 <= model.dual_gap_ <= 1e-3 * model.primal_objective_


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5])
def test_kkt_conditions_row_by_row(epsilon):
    X, y = waves()
    model = SVR(C=2.0, epsilon=epsilon, tol=1e-6).fit(X, y)
    b = np.zeros(len(y))
    b[model.support_] = model.dual_coef_[0]
    assert abs(b.sum()) < 1e-10
    for coefficient, residual in zip(b, y - model.predict(X), strict=True):
        if coefficient == 0:
            assert abs(residual) <= epsilon + 1e-6
        elif abs(coefficient) == 2:
            assert residual * np.sign(coefficient) >= epsilon - 1e-6
        else:
            assert residual == pytest.approx(epsilon * np.sign(coefficient), abs=1e-6)


def test_objectives_are_what_they_say():
    X, y = waves()
    model = SVR(C=2.0, gamma=0.3).fit(X, y)
    b, K = np.zeros(len(y)), RBF(0.3)(X, X)
    b[model.support_] = model.dual_coef_[0]
    primal = 0.5 * b @ K @ b + 2 * np.maximum(0, np.abs(y - K @ b - model.intercept_) - 0.1).sum()
    dual = y @ b - 0.1 * np.abs(b).sum() - 0.5 * b @ K @ b
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)
    assert dual * (1 - 1e-9) <= model.dual_objective_ <= dual * (1 + 1e-13)


def test_weights_mean_repeated_rows():
    X, y = waves(120)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    weighted, repeated = SVR().fit(X, y, weight), SVR().fit(X.repeat(weight, axis=0), y.repeat(weight))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)


def test_gram_and_sparse_and_single_are_the_kernel_on_rows():
    X, y = waves()
    X = np.where(X > 0, X, 0)
    model = SVR(gamma=0.4).fit(X, y)
    expected, K = model.predict(X), RBF(0.4)(X, X)
    np.testing.assert_allclose(SVR(kernel="precomputed").fit(K, y).predict(K), expected, atol=1e-9)
    np.testing.assert_allclose(SVR(gamma=0.4).fit(csr_matrix(X), y).predict(csr_matrix(X)), expected, atol=1e-6)
    single = SVR(gamma=0.4).fit(X.astype(np.float32), y).predict(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=1e-4)


def test_many_rows_in_float32_meet_the_tolerance():
    X, y = waves(2500)
    model = SVR(C=10.0).fit(X, y)
    b = np.zeros(len(y))
    b[model.support_] = model.dual_coef_[0]
    g = model.expansion_.kernel(X, X) @ b - y
    up = np.where(b < 10, g + np.where(b >= 0, 0.1, -0.1), np.inf)
    down = np.where(b > -10, g + np.where(b > 0, 0.1, -0.1), -np.inf)
    assert down.max() - up.min() <= 1.02e-3
    assert model.converged_


def test_badly_scaled_columns_do_not_hang():
    X, y = load_diabetes(return_X_y=True)
    X = X * 10.0 ** (np.arange(10) / 2)
    model = SVR(kernel="linear", C=100.0).fit(X, y)
    assert model.converged_
    with pytest.warns(NotConvergedWarning):
        SVR(kernel="linear", C=100.0, solver="smo", max_iter=1000).fit(X, y)


def test_polynomials_of_high_degree_end_or_say_why():
    X, y = waves()
    assert SVR(kernel="poly", degree=5, gamma=1.0, coef0=1.0, C=100.0).fit(X, y).converged_  # thundersvm 240
    with pytest.raises(ValueError, match="The kernel reaches"):
        SVR(kernel="poly", degree=75, gamma=1.0, coef0=1.0).fit(X, y)


def test_warm_start_and_policies():
    X, y = waves(2100)
    model = SVR(C=10.0, warm_start=True).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ < 0.2 * first
    with pytest.warns(IndefiniteKernelWarning):
        assert np.isnan(SVR(kernel="sigmoid", gamma=1.0).fit(X[:100], y[:100]).dual_gap_)
    assert SVR(kernel="sigmoid", gamma=1.0, indefinite="clip").fit(X[:100], y[:100]).converged_


def test_a_flat_target_and_all_rows_in_the_tube():
    X = points(30)
    for y in (np.full(30, 3.0), 3 + 0.01 * points(30, 1)[:, 0]):
        model = SVR().fit(X, y)
        assert len(model.support_) == 0
        np.testing.assert_allclose(model.predict(X), y, atol=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"C": -np.inf}, "C must be in"), ({"C": 0}, "C must be in"), ({"epsilon": -0.1}, "epsilon must be in"),
     ({"kernel": "liner"}, "Did you mean 'linear'"), ({"solver": "sgd"}, "solver must be one of"),
     ({"kernel": Linear(), "tol": -1}, "tol must be in")], ids=str)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        SVR(**options).fit(*waves(40))
