"""Nystroem features and landmarks against the kernel itself, the best low-rank approximation, and plain counting."""

import pickle

import numpy as np
import pytest

from buttress.features import landmarks, nystroem, random_features
from buttress.kernels import RBF, Laplacian, Linear, Log, Polynomial, Sigmoid

from problems import points


def test_landmarks_of_times_in_seconds_are_different_rows():
    """So far from 0 the squares of one second are lost."""
    times = 1.7e9 + np.arange(200.0)[:, None]
    chosen = landmarks(times, 50, rng=np.random.RandomState(0))
    assert len(np.unique(chosen)) == 50


@pytest.mark.parametrize("kernel", [RBF(0.4), Laplacian(0.7), Linear(0.5), Polynomial(2, 0.3, 1.0)], ids=str)
def test_features_are_exact_wherever_one_point_is_a_landmark(kernel):
    X, Z = points(40), points(15, seed=1)
    phi = nystroem(kernel, Z)
    np.testing.assert_allclose(phi(X) @ phi(Z).T, kernel(X, Z), atol=1e-6)


def test_all_points_as_landmarks_give_the_kernel_and_fewer_a_lower_bound_of_it():
    X = points(40)
    K = RBF(0.4)(X, X)
    full = nystroem(RBF(0.4), X)(X)
    np.testing.assert_allclose(full @ full.T, K, atol=1e-7)
    part = nystroem(RBF(0.4), X[:10])(X)
    left = K - part @ part.T  # the Schur complement, positive semidefinite
    assert np.linalg.eigvalsh(left)[0] > -1e-8
    assert np.trace(left) >= np.linalg.eigvalsh(K)[:-10].sum() - 1e-8  # Eckart & Young: no rank 10 does better


def test_landmarks_of_less_than_full_rank_are_taken():
    X = points(20)
    phi = nystroem(Linear(), X)  # 20 landmarks, rank 3
    np.testing.assert_allclose(phi(X) @ phi(X).T, X @ X.T, atol=1e-9)


def test_the_expansion_is_the_linear_function_of_the_features():
    X, theta, intercept = points(30), points(12, 2, seed=2), np.array([0.3, -1.0])
    phi = nystroem(RBF(0.4), points(12, seed=1))
    np.testing.assert_allclose(phi.expansion(theta, intercept)(X), phi(X) @ theta + intercept, atol=1e-9)


@pytest.mark.parametrize("method", ["kmeans++", "uniform"])
def test_landmarks_are_different_rows_of_X(method):
    X = np.repeat(points(30), 3, axis=0)
    chosen = landmarks(X, 12, rng=np.random.RandomState(0), method=method)
    assert chosen.shape == (12, 3)
    assert len(np.unique(chosen, axis=0)) == 12
    assert all((row == X).all(axis=1).any() for row in chosen)
    again = landmarks(np.random.default_rng(1).permutation(X), 12, rng=np.random.RandomState(0), method=method)
    np.testing.assert_array_equal(chosen, again)  # neither the order of the rows nor their number counts
    everything = landmarks(X, 31, rng=np.random.RandomState(0), method=method)
    np.testing.assert_array_equal(everything, np.unique(X, axis=0))


def test_spread_out_landmarks_reach_every_cluster():
    rng = np.random.default_rng(0)
    clusters = np.vstack([rng.normal(size=(300, 2)), *(c + 0.1 * rng.normal(size=(3, 2)) for c in ([50, 0], [0, 50]))])
    chosen = landmarks(clusters, 10, rng=np.random.RandomState(0))
    assert (chosen[:, 0] > 40).any()
    assert (chosen[:, 1] > 40).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nystroem(Log(), points()), "need a positive definite kernel"),
        (lambda: nystroem(Sigmoid(), points()), "need a positive definite kernel"),
        (lambda: landmarks(points(), 0, rng=np.random.RandomState(0)), "n_landmarks must be"),
        (lambda: landmarks(points(), 5, rng=np.random.RandomState(0), method="kmeans"), "Did you mean"),
        (lambda: random_features(RBF(), 2.5, 4, seed=0), "width must be"),
    ],
)
def test_bad_parameters_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_function_that_is_not_definite_is_found_out():
    from buttress.kernels import Custom

    with pytest.raises(ValueError, match="not positive definite"):
        nystroem(Custom(lambda A, B: -A @ B.T), points())


def test_a_map_is_pickled_also_after_use():
    X = points(30, 3)
    phi = nystroem(RBF(0.5), X[:10])
    expected = phi(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(phi))(X), expected)
