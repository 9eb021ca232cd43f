"""Certificates on tables with a few far rows, against float64 kernel values from differences of the coordinates."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from buttress import SVC, SVDD, SVR, MultiKernelSVDD
from buttress.gram.rows import KernelRows
from buttress.kernels import RBF, Laplacian

ROWS = 3000  # more than are trained on in float64
TABLES = [("missing", 0), ("missing", 1), ("shifted", 2), ("stamps", 3), ("stamps", 4)]


def table(kind, seed, n=ROWS):
    """Return ordinary rows with six far ones at random places."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    far = rng.choice(n, 6, replace=False)
    if kind == "missing":
        X[far, -1] = 9999
    elif kind == "shifted":
        X[far, 3] += 1e3
    else:
        X[far, 2] = 1.6e9 + rng.normal(size=6)
    return X, rng


def kernel_values(X, Z, gamma):
    """exp(-gamma |x - z|^2) from differences, a few rows at a time."""
    parts = [((X[top : top + 50, None] - Z) ** 2).sum(axis=2) for top in range(0, len(X), 50)]
    return np.exp(-gamma * np.concatenate(parts))


def sums(model, X, gamma):
    """Return b and f = K b of a fitted machine."""
    b = np.zeros(len(X))
    b[model.support_] = model.dual_coef_[0]
    return b, kernel_values(X, X[model.support_], gamma) @ b[model.support_]


def assert_stated(model, primal, dual):
    """The stated numbers are bounds of those recomputed in float64, which are right to 1e-13, and close to them."""
    small, rounding = 1e-7 * abs(primal), 1e-13 * abs(primal)
    assert model.converged_
    assert model.proof_ == "proven"
    assert primal - rounding <= model.primal_objective_ <= primal + small
    assert dual - small <= model.dual_objective_ <= dual + rounding
    assert primal - dual - rounding <= model.dual_gap_ <= primal - dual + small


@pytest.mark.parametrize(("kind", "seed"), TABLES)
def test_the_gap_of_a_classifier_is_true(kind, seed):
    X, rng = table(kind, seed)
    y = np.where(X[:, 0] + X[:, 1] > 0, 1, -1)
    y[rng.random(len(y)) < 0.2] *= -1
    model = SVC(C=10.0, gamma=0.2).fit(X, y)
    b, f = sums(model, X, 0.2)
    h = 1 - y * (f + model.intercept_)
    assert_stated(model, 0.5 * b @ f + 10 * np.maximum(0, h).sum(), np.abs(b).sum() - 0.5 * b @ f)


@pytest.mark.parametrize(("kind", "seed"), TABLES)
def test_the_gap_of_a_regressor_is_true(kind, seed):
    X, rng = table(kind, seed)
    y = np.sin(X[:, 0] + X[:, 1]) + 0.3 * rng.normal(size=len(X))
    model = SVR(C=10.0, gamma=0.2, epsilon=0.1).fit(X, y)
    b, f = sums(model, X, 0.2)
    r = y - f - model.intercept_
    primal = 0.5 * b @ f + 10 * np.maximum(0, np.abs(r) - 0.1).sum()
    assert_stated(model, primal, y @ b - 0.1 * np.abs(b).sum() - 0.5 * b @ f)


def ball_objectives(a, f, nu):
    """Return both objectives of the smallest soft ball around rows of length 1 in feature space, for f = K a."""
    d2 = 1 - 2 * f + a @ f
    worst = np.sort(d2)[::-1]
    radius2 = worst[int(nu * len(d2))]
    return radius2 + np.maximum(0, d2 - radius2).sum() / (nu * len(d2)), 1 - a @ f


@pytest.mark.parametrize(("kind", "seed"), TABLES)
def test_the_gap_of_a_ball_is_true(kind, seed):
    X, _ = table(kind, seed)
    model = SVDD(nu=0.1, kernel="rbf", gamma=0.2).fit(X)
    assert_stated(model, *ball_objectives(*sums(model, X, 0.2), 0.1))


@pytest.mark.parametrize(("kind", "seed"), TABLES)
def test_the_objectives_of_a_mixture_are_true(kind, seed):
    X, _ = table(kind, seed, 600)
    model = MultiKernelSVDD([RBF(0.2), RBF(0.02)], nu=0.1, normalize=None).fit(X)
    a = np.zeros(len(X))
    a[model.support_] = model.dual_coef_[0]
    f = sum(weight * sums(model, X, gamma)[1] for weight, gamma in zip(model.kernel_weights_, (0.2, 0.02)))
    primal, dual = ball_objectives(a, f, 0.1)
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-9)
    variances = [1 - a @ sums(model, X, gamma)[1] for gamma in (0.2, 0.02)]
    np.testing.assert_allclose(model.kernel_variances_, variances, rtol=1e-9)


@pytest.mark.parametrize("length", [1e4, 1e7, 1e8, 1e9])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("real", [None, np.float64])
@pytest.mark.parametrize("kernel", [RBF(0.2), Laplacian(0.5)], ids=str)
def test_products_in_float64_are_right_however_far_rows_are(kernel, real, sparse, length):
    rng = np.random.default_rng(int(np.log10(length)))
    X = rng.normal(size=(2100, 12))
    X[rng.random(X.shape) < 0.9 * sparse] = 0
    groups = rng.permutation(2100)[:60].reshape(3, 20)  # apart from each other, and close among themselves
    X[groups[0], 3] += length
    X[groups[1]] += length
    X[groups[2], :2] -= 3 * length
    b = rng.normal(size=2100)
    some = np.union1d(groups, np.arange(40))
    left, right = X[some].astype(np.longdouble), X.astype(np.longdouble)
    r2 = np.array([((x - right) ** 2).sum(axis=1) for x in left])
    expected = (np.exp(-0.2 * r2) if isinstance(kernel, RBF) else np.exp(-0.5 * np.sqrt(r2))) @ b
    rows = KernelRows(kernel, csr_matrix(X) if sparse else X, real=real)
    np.testing.assert_allclose(rows.proven_times(b).f[some], expected.astype(float), atol=2e-9)
    np.testing.assert_allclose(rows.proven_times(b, some).f[some], expected.astype(float), atol=2e-9)
