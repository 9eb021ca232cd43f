"""Allowances for rounding are those that are stated, no less and no more: each term where the others are small.

u = 2^-53 is one rounding, and bounds of errors are taken 1.01 times. That the laws hold is shown in fractions
(``test_proven_terms.py``); here they are written down again, term by term.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from buttress import _proof
from buttress._proof import Near
from buttress.gram import rounding
from buttress.kernels import RBF, Cauchy, InverseMultiquadric, Laplacian, Linear, Log, MultiscaleRBF, Polynomial

U = float(np.finfo(np.float64).eps) / 2
SINGLE = float(np.finfo(np.float32).eps) / 2
TINY = 1e-300  # what a product may lose below the range of float64, where values may be flushed to 0 too


def is_near(near, v, e):
    """Check a number with bounds against its value and the allowance, each to many digits."""
    np.testing.assert_allclose(near.v, v, rtol=1e-12)
    np.testing.assert_allclose(near.e, 1.01 * np.asarray(e), rtol=1e-9, atol=0)


# numbers with bounds


@pytest.mark.parametrize(("v", "e"), [(3.0, 1e-3), (-3.0, 0.0), (0.0, 1e-3)])
def test_ends_are_away_by_the_error_and_two_roundings(v, e):
    near = Near(v, e)
    is_near(near, v, e)
    taken = 2 * Fraction(U) * (abs(Fraction(v)) + Fraction(float(near.e)))
    for end, side in ((near.low, -1), (near.high, 1)):
        away = side * (Fraction(float(end)) - Fraction(v)) - Fraction(float(near.e))
        assert abs(away - taken) <= taken / 2  # the ends are rounded


@pytest.mark.parametrize(("v", "e", "w", "f"), [(3.0, 1e-3, 5.0, 1e-2), (3.0, 0.0, 5.0, 0.0), (3.0, 1e-3, 0.0, 0.0),
                                                (0.0, 0.0, -5.0, 1e-2), (0.0, 1e-3, 0.0, 1e-3), (0.0, 0.0, 0.0, 0.0)])
def test_sums_and_products_of_two(v, e, w, f):
    x, y = Near(v, e / 1.01), Near(w, f / 1.01)
    is_near(x + y, v + w, e + f + U * abs(v + w))
    is_near(x * y, v * w, e * (abs(w) + f) + abs(v) * f + U * abs(v * w) + TINY)
    if not f:
        is_near(x + w, v + w, e + U * abs(v + w))
        is_near(x * w, v * w, e * abs(w) + U * abs(v * w) + TINY)


def test_sums_of_all_and_parts_of_each():
    values = np.array([3.0, -2.0, 0.5])
    is_near(Near(values).sum(), 1.5, 3 * U * 5.5)
    is_near(Near(0 * values, np.array([1.0, 2.0, 4.0]) / 1.01).sum(), 0.0, 7.0)
    assert _proof.plus(values).tolist() == [3.0, 0.0, 0.5]
    is_near(Near(values, 2.0 / 1.01).each(_proof.plus), [3.0, 0.0, 0.5], np.full(3, 2.0))


@pytest.mark.parametrize("chunk", [2, 3, 4096])
@pytest.mark.parametrize("shape", [np.asarray, csr_array])
def test_products_with_rows(shape, chunk, monkeypatch):
    monkeypatch.setattr(_proof, "CHUNK", chunk)
    rng = np.random.default_rng(0)
    X, w, a = rng.normal(size=(7, 3)), rng.normal(size=3), rng.normal(size=7)
    e = rng.random(3)
    size = np.abs(X) @ np.abs(w)
    is_near(_proof.products(shape(X), Near(w)), X @ w, 5 * U * size)
    is_near(_proof.products(shape(X), Near(w, e / 1.01)), X @ w, np.abs(X) @ e + 5 * U * size)
    is_near(_proof.products(shape(X), Near(0 * w)), np.zeros(7), np.full(7, 3 * TINY))
    is_near(_proof.sums_of_rows(shape(X), a), X.T @ a, 15 * U * np.abs(X.T) @ np.abs(a))
    is_near(_proof.sums_of_rows(shape(X), 0 * a), np.zeros(3), np.full(3, 7 * TINY))


def test_sharp_sums_of_rows():
    X = np.random.default_rng(0).normal(size=(5, 3))
    a = np.array([1.0, 0.0, -2.0, 3.0, 0.0])
    is_near(_proof.sharp_sums_of_rows(X, a), X.T @ a, U * np.abs(X.T @ a))
    is_near(_proof.sharp_sums_of_rows(0 * X, a), np.zeros(3), np.full(3, 3 * TINY))
    of_sparse = _proof.sharp_sums_of_rows(csr_array(X), a)
    is_near(of_sparse, X.T @ a, 11 * U * np.abs(X.T) @ np.abs(a))


def test_products_and_what_they_lose_add_up_without_rounding():
    rng = np.random.default_rng(0)
    for x, a in rng.normal(size=(300, 2)):
        lost = float(Fraction(x) * Fraction(a) - Fraction(x * a))
        assert _proof._dot(np.array([x, x * a, lost]), np.array([a, -1.0, -1.0])) == 0.0
    for x, a in rng.normal(size=(30, 2, 9)):
        assert _proof._dot(x, a) == float(sum(Fraction(p) * Fraction(q) for p, q in zip(x, a)))


def test_one_bound_that_is_measured_is_enough_to_say_so():
    assert [_proof.proof_word(each) for each in ([True, True], [True, False])] == ["proven", "measured"]


# bounds of entries and of sums of them


def test_bounds_of_sums_of_entries():
    root, own = np.array([1.0, 3.0, 0.5, 0.0]), np.array([1e-3, 0.0, 4e-3, 2e-3])
    bounds = rounding.EntryErrors(root, own, 1e-4)
    b, index = np.array([-2.0, 1.0, 0.5]), np.array([2, 0, 1])
    size = np.abs(b) * root[index]
    for chain in (0.0, 2.0**40):
        expected = 1.01 * root[index] * ((1e-4 + chain * U + own[index]) * size.sum() + size @ own[index])
        np.testing.assert_allclose(bounds.of_sums(b, index, chain), expected, rtol=1e-12)
    np.testing.assert_allclose(bounds.of_sums(np.ones(1) * -7, np.array([3]), 0.0), 7e-100, rtol=1e-12)
    np.testing.assert_allclose(bounds.of_diagonal(np.array([1, 0])), 1.01e-4 * np.array([9.0, 1.0]), rtol=1e-12)
    assert bounds.of_diagonal(np.array([3])) == [1e-100]
    scaled = bounds.times(16.0, 2.0**40)
    np.testing.assert_allclose(scaled.root, 4 * root)
    np.testing.assert_allclose(scaled.share, 1e-4 + 2.0**-13, rtol=1e-12)
    assert scaled.own is own


def test_bounds_of_sums_of_single_entries():
    """Coefficients of 0 do not count, and the rows above four times the median of ``own`` are added one by one."""
    own = np.array([1.0, 1.0, 4.0, 8.0, np.inf, 500.0, 500.0, 500.0, 500.0, 500.0]) * 2.0**-10
    bounds = rounding.EntryErrors(np.ones(10), own, 2.0**-9)
    b = np.array([3.0, 1.0, 2.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    b[:5] = 3.0, 1.0, 2.0, -5.0, 0.0
    columns, rows, mass = np.arange(10), np.array([2, 0]), np.array([0.0, 7.0])
    most = 4 * np.median(own[:4])
    above = 5.0 * own[3] * (own[3] > most)
    expected = 1.01 * (1.12 * (2.0**-9 + 2.0**-13 + own[rows] + most) * mass + above)
    found = bounds.of_single_sums(b, columns, 2.0**40, mass, rows)
    np.testing.assert_allclose(found, expected + 2.0**-120 * 11, rtol=1e-12)
    equal = rounding.EntryErrors(np.ones(3), np.array([1.0, 1.0, 4.0]), 0.0)  # as large as what is taken for all
    assert equal.of_single_sums(np.ones(3), np.arange(3), 0.0, np.zeros(1), np.zeros(1, int)) == [3 * 2.0**-120]
    far = rounding.EntryErrors(np.ones(4), np.array([0.01, 0.01, 0.01, np.inf]), 0.0)  # an entry is wrong by 1 at most
    assert far.of_single_sums(np.array([0.0, 1.0, 1.0, 3.0]), np.arange(4), 0.0, np.zeros(1), np.zeros(1, int)
                              ) == pytest.approx([1.01 * 3])
    assert far.of_single_sums(np.zeros(4), np.arange(4), 0.0, np.ones(1), np.zeros(1, int)
                              ) == pytest.approx([1.01 * 1.12 * 0.01])


def test_bounds_of_sums_of_single_entries_whose_columns_are_weighted():
    bounds = rounding.EntryErrors(np.ones(3), np.array([2.0, 8.0, np.inf]) * 2.0**-10, 2.0**-9)
    b, columns, rows = np.array([-3.0, 1.0, 0.5]), np.arange(3), np.array([1, 0])
    mass, K = np.array([4.5, 2.0]), np.array([[0.5, 1.0, 1.0], [0.25, 0.5, 1.0]])
    found = bounds.of_single_sums(b, columns, 2.0**40, mass, rows, lambda part: K @ part)
    spread = K @ [3 * 2.0**-9, 2.0**-7, 0.0]
    expected = 1.01 * (1.12 * ((2.0**-9 + 2.0**-13 + bounds.own[rows]) * mass + spread) + 0.5)  # 0.5 k is off by 0.5
    np.testing.assert_allclose(found, expected + 2.0**-120 * 4.5, rtol=1e-12)


@pytest.mark.parametrize(("n", "chain"), [(10, 18), (2000, 1024 + 2000 / 256), (1_000_000, 1024 + 1_000_000 / 256)])
def test_sums_that_a_value_passes_through(n, chain):
    assert rounding.chain_of(n, 256) == chain


@pytest.mark.parametrize("kernel", [RBF(0.3), MultiscaleRBF((0.3,)), Laplacian(0.3), InverseMultiquadric(1.7),
                                    Cauchy(0.3), Log(0.8)], ids=lambda kernel: type(kernel).__name__)
def test_how_much_a_share_of_the_distance_moves_a_kernel_is_the_most_that_it_does(kernel):
    t = np.geomspace(1e-12, 1e12, 200_001)
    moved = np.abs(t * np.gradient(kernel.profile(t), t))[1:-1].max()
    assert rounding.SWINGS[type(kernel)](kernel) == pytest.approx(moved, rel=1e-3)


def test_means_of_many_widths_have_no_bound():
    swings = [rounding.SWINGS[MultiscaleRBF](MultiscaleRBF((1.0,) * k)) for k in (1, 50, 51)]
    assert swings == [1 / np.e, 1 / np.e, np.inf]


SQUARES = np.array([2.0, 1e-3, 1e9, 0.5])


def test_bounds_of_gaussian_entries():
    d, gamma = 3, 0.3
    (bounds,) = rounding.distance_errors(RBF(gamma), SQUARES, d)
    c = 1.01 * (2 * d + 80) * U
    np.testing.assert_allclose(bounds.own, c * np.minimum(1.01 * gamma * SQUARES, 1 / (np.e * 1e-4)), rtol=1e-12)
    np.testing.assert_allclose(bounds.share, 8 * U, rtol=1e-12)
    assert (bounds.root == 1).all()
    single = rounding.single_errors(RBF(gamma), SQUARES[[0, 1, 3]], d)
    expected = 1.06 * 1.01 * (2 * d + 20) * SINGLE * gamma * (1 + 2 * d * SINGLE) * SQUARES[[0, 1, 3]]
    np.testing.assert_allclose(single.own, expected, rtol=1e-10)
    np.testing.assert_allclose(single.share, 4 * SINGLE, rtol=1e-12)
    assert (single.root == 1).all()
    each = rounding.single_errors(RBF(gamma), np.append(SQUARES[[0, 1]], 0.0), np.array([3, 3, 7]))  # d of each row
    np.testing.assert_allclose(each.own, [*expected[:2], 1.06 * 1.01 * 34 * SINGLE * gamma * 2.0**-110], rtol=1e-10)


def test_gaussian_entries_of_rows_too_long_for_float32_have_no_bound(monkeypatch):
    squares = np.array([0.0499, 0.0501, 1e12]) / (1.06 * 1.01 * 100 * SINGLE)
    own = rounding.single_errors(RBF(1.0), squares, 40).own
    assert (own < np.inf).tolist() == [True, False, False]
    assert own[1:].tolist() == [np.inf, np.inf]
    monkeypatch.setattr(rounding, "SINGLE_MOST", own[0])  # at the border it is known
    assert rounding.single_errors(RBF(1.0), squares, 40).own[0] == own[0]


@pytest.mark.parametrize("kernel", [Laplacian(0.3), InverseMultiquadric(1.7), Cauchy(0.3), Log(0.8)],
                         ids=lambda kernel: type(kernel).__name__)
def test_bounds_of_functions_of_the_distance(kernel):
    d, swing = 3, rounding.SWINGS[type(kernel)](kernel)
    largest = max(abs(kernel.profile(np.array([0.0, 4 * 1.01 * SQUARES.max()]))))
    (bounds,) = rounding.distance_errors(kernel, SQUARES, d)
    share = 1.01 * (swing * (1.01 * (2 * d + 80) * U / 1e-4 + 64 * U) / largest + 64 * U)
    np.testing.assert_allclose(bounds.share, share, rtol=1e-12)
    np.testing.assert_allclose(bounds.root, np.full(4, largest**0.5), rtol=1e-12)
    assert (bounds.own == 0).all()


def test_a_kernel_that_is_0_everywhere_has_errors_of_0():
    (bounds,) = rounding.distance_errors(Log(4.0), np.array([1e-240]), 3)
    assert (bounds.share, bounds.root.tolist()) == (0.0, [0.0])  # its values are below the range of floats


@pytest.mark.parametrize(("kernel", "gamma", "coef0", "degree"), [
    (Linear(), 1.0, 0.0, 1), (Linear(-3.0), 1.0, 3.0, 1), (Polynomial(3, 0.5, -2.0), 0.5, 2.0, 3)],
    ids=["linear", "shifted", "cubic"])
def test_bounds_of_functions_of_the_inner_product(kernel, gamma, coef0, degree):
    (bounds,) = rounding.product_errors(kernel, SQUARES, 3)
    np.testing.assert_allclose(bounds.root**2, (gamma * 1.01 * SQUARES + coef0) ** degree, rtol=1e-12)
    np.testing.assert_allclose(bounds.share, (degree * 9 + 16) * U, rtol=1e-12)
    assert (bounds.own == 0).all()


def test_powers_that_are_no_whole_numbers_have_no_bound():
    assert rounding.product_errors(Polynomial(1.5, 1.0, 1.0), SQUARES, 3) is None


@pytest.mark.parametrize(("kernel", "squares", "known"), [
    (Polynomial(2, 1e50, 1e-50), 1.0, True), (Polynomial(2, 1e50, 0.99e-50), 1.0, False),
    (Polynomial(2, 1.01e50, 1.0), 1.0, False), (Polynomial(2, 1.0, 0.0), 1.0, True), (Linear(-1.01e50), 1.0, False),
    (Linear(1e-9), 1e-250, True), (Linear(1e-9), 0.99e-250, False)])
def test_bounds_hold_for_parameters_and_rows_away_from_the_ends_of_floats(kernel, squares, known):
    assert (rounding.product_errors(kernel, np.array([squares, 0.0]), 3) is not None) == known
