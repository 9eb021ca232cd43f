"""The gradient of the Moreau envelope of a trimmed ridge objective, against every kept set and a general minimiser."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from buttress import KernelRegressor, Mean, Subquantile
from buttress._checks import NotConvergedWarning
from buttress.features.stored import StoredFeatures
from buttress.kernels import RBF
from buttress.solvers.gradient.space import Dual, Primal
from reproduce.subquantile.envelope import envelope_gradient, stationarity


def features_problem(seed, n=8, d=2):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d))
    y = Z @ np.ones(d) + 0.1 * rng.normal(size=n)
    y[: n // 4] += 4 * rng.normal(size=n // 4)
    return Z, y, rng.normal(size=d)


def by_every_kept_set(Z, y, w, n_kept, ridge, lam):
    """The prox and the envelope's value: for each set of kept rows a linear system, the least of them."""
    best = np.inf, w
    for kept in map(list, combinations(range(len(y)), n_kept)):
        A = 2 * Z[kept].T @ Z[kept] / n_kept + (2 * ridge + 1 / lam) * np.eye(len(w))
        h = np.linalg.solve(A, 2 * Z[kept].T @ y[kept] / n_kept + w / lam)
        loss = np.sort((Z @ h - y) ** 2)[:n_kept].mean()
        best = min(best, (loss + ridge * h @ h + (h - w) @ (h - w) / (2 * lam), h), key=lambda pair: pair[0])
    return best


@pytest.mark.parametrize("lam", [1e-4, 1e-3])
@pytest.mark.parametrize("seed", range(20))
def test_envelope_is_the_least_over_every_kept_set(seed, lam):
    Z, y, w = features_problem(seed)
    value, prox = by_every_kept_set(Z, y, w, 6, 0.01, lam)
    found = envelope_gradient(Primal(StoredFeatures(Z)), y, Subquantile(0.75), w, ridge=0.01, sample_weight=np.ones(8),
                              lam=lam)
    assert found.value == pytest.approx(value, rel=1e-9)
    assert found.norm == pytest.approx(np.linalg.norm(w - prox) / lam, rel=1e-6)
    assert found.distance == pytest.approx(lam * found.norm)


@pytest.mark.parametrize("lam", [0.01, 0.05, 10.0])
def test_a_large_lambda_gives_an_upper_bound_of_the_envelope(lam):
    for seed in range(20):
        Z, y, w = features_problem(seed)
        found = envelope_gradient(Primal(StoredFeatures(Z)), y, Subquantile(0.5), w, ridge=0.01,
                                  sample_weight=np.ones(8), lam=lam)
        assert found.value >= by_every_kept_set(Z, y, w, 4, 0.01, lam)[0] * (1 - 1e-9)


def test_mean_risk_agrees_with_a_general_minimiser():
    Z, y, w = features_problem(3)

    def objective(h):
        return np.mean((Z @ h - y) ** 2) + 0.1 * h @ h + (h - w) @ (h - w) / (2 * 0.7)

    prox = minimize(objective, w, tol=1e-12)
    found = envelope_gradient(Primal(StoredFeatures(Z)), y, Mean(), w, ridge=0.1, sample_weight=np.ones(8), lam=0.7)
    assert found.value == pytest.approx(prox.fun, rel=1e-9)
    assert found.norm == pytest.approx(np.linalg.norm(w - prox.x) / 0.7, rel=1e-5)


def test_its_gradient_is_that_of_its_values():
    """Finite differences of the envelope over functions of the RKHS, along the kernel functions of the rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 1))
    K = np.exp(-((X - X.T) ** 2))
    y = np.sin(2 * X[:, 0])
    y[:3] = 5.0
    c = rng.normal(size=12) * 0.1
    space = Dual(K, np.full(12, 1 / 12))

    def at(c):
        return envelope_gradient(space, y, Subquantile(0.75), c, ridge=0.0, sample_weight=np.ones(12), lam=0.05)

    slopes = [(at(c + h).value - at(c - h).value) / 2e-5 for h in 1e-5 * np.eye(12)]  # <gradient, k(x_i, .)>
    norm = np.sqrt(np.dot(slopes, np.linalg.solve(K + 1e-12 * np.eye(12), slopes)))
    assert at(c).norm == pytest.approx(norm, rel=1e-3)


def test_a_fitted_model_is_nearly_stationary_and_an_unfinished_one_is_not():
    X = np.linspace(0, 6, 60)[:, None]
    y = np.sin(X[:, 0])
    y[::6] = 9.0
    begun = KernelRegressor(risk=Subquantile(0.8), alpha=0.1, max_iter=3)
    with pytest.warns(NotConvergedWarning):
        begun = stationarity(begun.fit(X, y), X, y)
    model = KernelRegressor(risk=Subquantile(0.8), alpha=0.1, max_iter=20_000, tol=1e-6).fit(X, y)
    assert stationarity(model, X, y).norm < 1e-3 * begun.norm


def test_stationarity_is_that_of_the_models_own_objective():
    """Differences of the envelope's values, each by every set of 6 of 8 rows, in an orthonormal basis of their span."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 1))
    y = np.sin(X[:, 0])
    y[:2] = 5.0
    with pytest.warns(NotConvergedWarning):
        model = KernelRegressor(risk=Subquantile(0.75), kernel=RBF(1.0), alpha=0.6, max_iter=2, fit_intercept=False,
                                step="paper").fit(X, y)
    root = np.linalg.cholesky(RBF(1.0)(X, X))  # w = root' c has the norm of the function of coefficients c
    w = root.T @ model.dual_coef_
    values = [[by_every_kept_set(root, y, w + s * h, 6, 0.6 / 6, 1e-3)[0] for s in (1, -1)] for h in 1e-4 * np.eye(8)]
    slopes = [(up - down) / 2e-4 for up, down in values]
    assert stationarity(model, X, y, lam=1e-3).norm == pytest.approx(np.linalg.norm(slopes), rel=1e-4)
