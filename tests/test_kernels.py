"""Kernels against loops over their formulas, finite differences, and the spectra their tags promise."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist
from sklearn.base import clone

from buttress import SVC
from buttress.kernels import (
    RBF,
    Combination,
    Custom,
    DotProduct,
    Laplacian,
    Linear,
    Log,
    Polynomial,
    Precomputed,
    Radial,
    Stretched,
    as_kernel,
    centers,
    resolve_gamma,
    squared_distances,
)
from buttress.kernels.points import centred

from problems import KERNELS, points

FORMULAS = {
    "linear": lambda x, z: x @ z,
    "poly": lambda x, z: (0.5 * x @ z + 1) ** 3,
    "rbf": lambda x, z: np.exp(-0.5 * np.sum((x - z) ** 2)),
    "laplacian": lambda x, z: np.exp(-0.5 * np.sqrt(np.sum((x - z) ** 2))),
    "sigmoid": lambda x, z: np.tanh(0.5 * x @ z + 1),
    "imq": lambda x, z: (np.sum((x - z) ** 2) + 1 / 0.5) ** -0.5,
    "log": lambda x, z: -np.log(1 + 0.5 * np.sum((x - z) ** 2)),
    "cauchy": lambda x, z: 1 / (1 + 0.5 * np.sum((x - z) ** 2)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_values_follow_the_formula(name):
    X, Z = points(7), points(5, seed=1)
    kernel = as_kernel(name, gamma=0.5, degree=3, coef0=1.0)
    expected = [[FORMULAS[name](x, z) for z in Z] for x in X]
    np.testing.assert_allclose(kernel(X, Z), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(X), [FORMULAS[name](x, x) for x in X], rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_gradient_agrees_with_finite_differences(kernel):
    X, Z, V = points(6), points(5, seed=1), points(6, 5, seed=2)
    numeric = Custom(kernel).gradient(X, Z, V)
    np.testing.assert_allclose(kernel.gradient(X, Z, V), numeric, atol=1e-8)


def test_differences_are_small_beside_the_unit_of_a_column():
    X, Z, V = 1e-8 * points(6), 1e-8 * points(5, seed=1), points(6, 5, seed=2)
    kernel = RBF(1e16)
    np.testing.assert_allclose(Custom(kernel).gradient(X, Z, V), kernel.gradient(X, Z, V), atol=1.0)  # of 1e8


@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if isinstance(kernel, Radial | DotProduct)], ids=str)
def test_columns_in_which_all_centres_are_alike_count_as_any_other(kernel):
    """Rows differ from the centres there too, and move along them."""
    X, Z, V = points(6, 5), points(4, 5, seed=1), points(6, 4, seed=2)
    Z[:, [0, 3]] = [0.0, 0.7]
    at = centred(kernel, Z)(X)
    np.testing.assert_allclose(at.values, kernel(X, Z), rtol=1e-12)
    np.testing.assert_allclose(at.gradient(V), Custom(kernel).gradient(X, Z, V), atol=1e-8)
    rows, columns = np.array([4, 1]), np.array([[0, 1, 3], [3, 2, 0]])
    steps = np.array([0.3, -0.2, 0.5, 0.1, 0.0])[columns]
    got = at.nudged(rows, columns, steps, V[rows])
    for r, b in np.ndindex(2, 3):
        moved = X[rows[r]] + steps[r, b] * np.eye(5)[columns[r, b]]
        assert got[r, b] == pytest.approx(float(kernel(moved[None], Z)[0] @ V[rows[r]]), rel=1e-9, abs=1e-12)


def test_steps_along_few_of_many_columns_cost_those_columns_only():
    X, Z = points(2, 5000), points(100, 5000, seed=1)
    at = centred(RBF(1e-4), Z)(X)
    tracemalloc.start()
    at.nudged(np.arange(2), np.array([[3, 70], [70, 9]]), np.full((2, 2), 0.1), np.ones((2, 100)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < Z.nbytes / 10


@pytest.mark.parametrize("kernel", [*KERNELS, Log(degree=3, gamma=0.5)], ids=str)
def test_spectrum_agrees_with_the_tag(kernel):
    X = points(60)
    K = kernel(X, X)
    H = np.eye(60) - 1 / 60
    if kernel.definiteness == "pd":
        assert np.linalg.eigvalsh(K)[0] > -1e-9
    elif kernel.definiteness == "cpd":
        assert np.linalg.eigvalsh(H @ K @ H)[0] > -1e-9
        assert np.linalg.eigvalsh(K)[0] < -1e-6
    else:
        assert np.linalg.eigvalsh(H @ K @ H)[0] < -1e-6


def test_stretched_columns_are_columns_multiplied_beforehand():
    X, Z, scales = points(6), points(5, seed=1), np.array([1.5, 0.0, 0.3])
    for kernel in (RBF(0.4), Linear(0.5), Polynomial(2, 0.3, 1.0)):
        expected = kernel(X * scales, Z * scales)
        stretched = Stretched(kernel, scales)
        for got in (stretched(X, Z), stretched.toward(Z)(X), stretched(csr_matrix(X), csr_matrix(Z))):
            np.testing.assert_allclose(got, expected, rtol=1e-12)
        np.testing.assert_allclose(stretched.diagonal(csr_matrix(X)), np.diagonal(kernel(X * scales, X * scales)))


def test_tags_follow_the_parameters():
    assert as_kernel("linear").definiteness == "pd"
    assert Polynomial(degree=2.5, coef0=1.0).definiteness == "indefinite"
    assert Log(degree=3).definiteness == "indefinite"
    assert Combination([RBF(), Log()]).definiteness == "cpd"
    assert Combination([RBF(), Log()], [1.0, 0.0]).definiteness == "pd"


def test_laplacian_is_the_l2_one_and_equal_rows_are_at_distance_zero():
    from sklearn.metrics.pairwise import laplacian_kernel

    X = 1e3 + points(10)
    K = Laplacian(0.5)(X, np.vstack([X, X]))
    assert (np.diagonal(K[:, :10]) == 1).all()
    assert (np.diagonal(K[:, 10:]) == 1).all()
    assert not np.allclose(K[:, :10], laplacian_kernel(X, gamma=0.5))


def test_a_row_far_away_does_not_blur_the_distances_of_the_others():
    X = points(200)
    far = np.vstack([X, np.full((2, 3), 1e8)])
    r2 = squared_distances(far, far)
    np.testing.assert_allclose(r2[:200, :200], cdist(X, X, "sqeuclidean"), atol=1e-12)
    np.testing.assert_allclose(r2[200, :200], cdist(far[200:201], X, "sqeuclidean")[0], rtol=1e-12)
    assert (np.diagonal(r2) == 0).all()
    assert r2[200, 201] == 0


@pytest.mark.parametrize("d", [1, 30, 500])
def test_distances_agree_with_scipys_far_from_the_origin(d):
    X, Z = points(50, d), points(40, d, seed=1)
    exact = cdist(X + 1e6, Z + 1e6, "sqeuclidean")
    np.testing.assert_allclose(squared_distances(X + 1e6, Z + 1e6), exact, rtol=1e-9, atol=1e-12)
    assert squared_distances(X, Z[:0]).shape == (50, 0)


def test_a_broken_degree_needs_a_base_that_is_not_negative():
    kernel = Polynomial(degree=2.5, coef0=1.0)
    with pytest.raises(ValueError, match="degree must be whole where"):
        kernel(points(5), 10 * points(5, seed=1))
    np.testing.assert_allclose(kernel(np.eye(2), np.eye(2)), [[2**2.5, 1], [1, 2**2.5]])


def test_precomputed_picks_columns_of_the_gram():
    X = points(8)
    G = RBF()(X, X)
    kernel = Precomputed()
    Z = centers(kernel, G)
    np.testing.assert_array_equal(kernel(G[:3], Z[[5, 1]]), G[:3][:, [5, 1]])
    np.testing.assert_array_equal(kernel.diagonal(G), np.ones(8))
    with pytest.raises(ValueError, match="no gradient"):
        kernel.gradient(G, Z, G)


def test_a_function_is_a_kernel():
    kernel = as_kernel(lambda X, Z: X @ Z.T + 1)
    X = points(5)
    np.testing.assert_allclose(kernel.diagonal(X), np.sum(X**2, axis=1) + 1)
    with pytest.raises(ValueError, match="must return shape"):
        as_kernel(lambda X, Z: X)(X, X)
    with pytest.raises(ValueError, match="NaN"):
        as_kernel(lambda X, Z: np.full((len(X), len(Z)), np.nan))(X, X)


def test_gamma_scale_counts_repeated_rows_by_weight():
    X, weight = points(6), np.array([1, 2, 0, 3, 1, 1.0])
    repeated = X.repeat(weight.astype(int), axis=0)
    weighted = as_kernel("rbf", gamma="scale", X=X, sample_weight=weight)
    assert weighted.gamma == pytest.approx(1 / (3 * repeated.var()), rel=1e-12)
    assert as_kernel("rbf", gamma="auto", X=X).gamma == pytest.approx(1 / 3)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels_clone(kernel):
    X = points(5)
    np.testing.assert_array_equal(clone(kernel)(X, X), kernel(X, X))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_kernel("rfb"), "Did you mean 'rbf'"),
        (lambda: as_kernel("rbf", gamma=-1), "gamma must be in"),
        (lambda: as_kernel("rbf", gamma="large"), "'scale' or 'auto'"),
        (lambda: as_kernel(RBF(gamma=0)), "gamma must be in"),
        (lambda: as_kernel(3), "kernel must be"),
        (lambda: as_kernel(Combination([])), "at least one"),
        (lambda: as_kernel(Combination([RBF()], [-1.0])), "weights"),
        (lambda: as_kernel(Combination([RBF()], [1.0, 2.0])), "one entry for each"),
        (lambda: as_kernel(Stretched(RBF(), [1.0, -1.0])), r"scales\[1\]"),
        (lambda: as_kernel(Stretched(Combination([RBF()]), [1.0])), "of a sum stretch each part"),
        (lambda: Stretched(RBF(), [1.0])(points(3), points(3)), "one entry for each of the 3 columns"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("mean", [0.0, 1e3, 1e9])
def test_scale_is_the_variance_of_sparse_entries_too(mean):
    X = mean + np.random.default_rng(0).normal(size=(30, 3)) * np.array([[1.0], [0.0]] * 15)
    weight = np.arange(30.0)
    middle = np.average(X.mean(axis=1), weights=weight)
    expected = 1 / np.average(((X - middle) ** 2).sum(axis=1), weights=weight)
    for made in (np.asarray, csr_matrix):
        assert resolve_gamma("scale", made(X), weight) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("unit", [1e-15, 1.0, 1e15])
def test_scale_of_float32_entries_is_that_of_float64(unit):
    X = unit * np.random.default_rng(0).normal(size=(30, 3))
    assert resolve_gamma("scale", X.astype(np.float32)) == pytest.approx(resolve_gamma("scale", X), rel=1e-5)
    assert resolve_gamma("scale", np.full((30, 3), unit / 7, dtype=np.float32)) == 1


@pytest.mark.parametrize(("unit", "kind"), [(1e-25, np.float32), (1e-20, np.float32), (1e25, np.float32),
                                            (1e-160, np.float64)])
def test_entries_whose_squares_no_float_holds_are_refused(unit, kind):
    """Their kernel would be the same for every two rows, or 0."""
    X = (unit * np.random.default_rng(0).normal(size=(30, 3))).astype(kind)
    for made in (np.asarray, csr_matrix):
        with pytest.raises(ValueError, match=f"gamma='scale' .*{np.dtype(kind)}.* Scale the columns"):
            SVC().fit(made(X), np.arange(30) % 2)
