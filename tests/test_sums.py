"""Weighted sums of kernel values against the same sums written out, at every edge of a panel and any threads."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from buttress.gram import sums
from buttress.gram.sums import weighted_sums
from buttress.kernels import RBF, Cauchy

RNG = np.random.default_rng(0)
# relative to the sum of the absolute coefficients
ERRORS = {np.float64: 1e-14, np.float32: 1e-6}
SIZES = [(1, 1, 1), (1, 5000, 3), (513, 511, 1), (700, 1100, 3), (0, 4, 2), (3, 0, 2)]


def written_out(X, Z, coef, gamma):
    return np.exp(-gamma * cdist(X, Z, "sqeuclidean")) @ coef


@pytest.mark.parametrize("real", ERRORS)
@pytest.mark.parametrize(("n", "m", "k"), SIZES)
def test_gaussian_sums_are_those_written_out(n, m, k, real):
    X = (RNG.normal(size=(n, 6)) + 30).astype(real)
    Z = (RNG.normal(size=(m, 6)) + 30).astype(real)
    coef = RNG.normal(size=(m, k))
    found = weighted_sums(RBF(0.2), Z, real)(X, coef)
    assert found.dtype == np.float64
    expected = written_out(X.astype(float), Z.astype(float), coef, 0.2) if m else np.zeros((n, k))
    np.testing.assert_allclose(found, expected, rtol=0, atol=ERRORS[real] * np.abs(coef).sum() + 1e-15)


@pytest.mark.parametrize("real", ERRORS)
def test_a_row_at_a_center_far_from_the_others_is_at_distance_0(real):
    Z = np.array([[0.0, 0.0], [1.0, 0.0], [3e4, 3e4]], dtype=real)
    found = weighted_sums(RBF(1.0), Z, real)(Z, np.eye(3))
    np.testing.assert_allclose(found[2], [0, 0, 1], atol=1e-12)


@pytest.mark.parametrize("real", ERRORS)
@pytest.mark.parametrize(("n", "m"), [(2000, 900), (40, 3000), (1, 60_000)])
def test_threads_do_not_change_a_bit(n, m, real):
    X = RNG.normal(size=(n, 7)).astype(real)
    Z = RNG.normal(size=(m, 7)).astype(real)
    coef = RNG.normal(size=(m, 2))
    made = weighted_sums(RBF(0.1), Z, real)
    found = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            found.append(made(X, coef))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("entries", [1, 7, 40, 10**6])
def test_other_kernels_are_summed_by_blocks_of_rows(entries, monkeypatch):
    monkeypatch.setattr(sums, "BLOCK_ENTRIES", entries)
    X, Z, coef = RNG.normal(size=(23, 3)), RNG.normal(size=(7, 3)), RNG.normal(size=(7, 2))
    found = weighted_sums(Cauchy(0.5), Z, np.float64)(X, coef)
    np.testing.assert_allclose(found, (1 / (1 + 0.5 * cdist(X, Z, "sqeuclidean"))) @ coef, atol=1e-13)
