"""Kernel values of the verifier: each is its formula, and each bound of its error is its law, on a handful of rows."""

import math
from fractions import Fraction

import numpy as np
import pytest

from buttress.verify import kernels
from buttress.verify.core import TINY, WIDER, Real, U
from buttress.verify.kernels import (
    SHARP,
    Gaussians,
    described,
    diagonal,
    dot,
    kernel,
    linear_sums,
    padded,
    profile,
    sums,
)

SHAPED = [  # kernel, and its value at a squared distance
    ({"class": "RBF", "gamma": 0.7}, lambda t: math.exp(-0.7 * t)),
    ({"class": "Laplacian", "gamma": 0.7}, lambda t: math.exp(-0.7 * math.sqrt(t))),
    ({"class": "MultiscaleRBF", "gammas": [0.7, 0.1]}, lambda t: (math.exp(-0.7 * t) + math.exp(-0.1 * t)) / 2),
    ({"class": "InverseMultiquadric", "offset": 0.25}, lambda t: 1 / math.sqrt(t + 0.0625)),
    ({"class": "Cauchy", "gamma": 0.7}, lambda t: 1 / (1 + 0.7 * t)),
    ({"class": "Log", "degree": 1.5, "gamma": 0.7}, lambda t: -math.log(1 + (0.7 * t) ** 0.75)),
]
NAMES = [part["class"] for part, _ in SHAPED]
RBF, LAPLACIAN = SHAPED[0][0], SHAPED[1][0]


@pytest.mark.parametrize(("part", "value"), SHAPED, ids=NAMES)
def test_a_value_is_its_formula_and_lies_between_those_at_both_ends(part, value):
    found = profile(part, Real(1.0, 0.5 / WIDER))
    assert float(found.v) == pytest.approx((value(0.5) + value(1.5)) / 2, rel=1e-14)
    assert float(found.e) == pytest.approx(WIDER * (value(0.5) - value(1.5)) / 2, rel=1e-12)
    law = WIDER * U * (4 + 16 * abs(value(0.0)))
    np.testing.assert_allclose(profile(part, Real(0.0)).e, law, rtol=1e-9)
    assert float(profile(part, Real(0.0, 1.0)).low) <= value(0.0)


PRODUCTS = [({"class": "Linear", "coef0": 0.5}, lambda p: p + 0.5),
            ({"class": "Polynomial", "degree": 1, "gamma": 3.0, "coef0": 0.5}, lambda p: 3 * p + 0.5),
            ({"class": "Polynomial", "degree": 3, "gamma": 3.0, "coef0": 0.5}, lambda p: (3 * p + 0.5) ** 3)]
MIXED = {"class": "Combination", "kernels": [RBF, LAPLACIAN, PRODUCTS[2][0]], "weights": [0.25, 0.5, 0.0]}
X = np.array([[0.0, 1.0, -0.5], [2.0, 0.25, 1.0], [0.5, 0.5, 0.0], [0.0, -1.0, 1.0], [1.0, 1.5, 1.0]])


def exactly(part, x, z):
    """Return k(x, z) by the formulas above."""
    if part["class"] == "Combination":
        return sum(w * exactly(inner, x, z) for inner, w in zip(part["kernels"], part["weights"]))
    for other, value in SHAPED:
        if other == part:
            return value(float(((x - z) ** 2).sum()))
    return next(value for other, value in PRODUCTS if other == part)(float(x @ z))


EVERY = [part for part, _ in SHAPED + PRODUCTS] + [MIXED]


@pytest.mark.parametrize("part", EVERY, ids=lambda part: f"{part['class']} {part.get('degree', '')}")
def test_sums_and_diagonals_over_tiles_are_those_of_the_formulas(part, monkeypatch):
    monkeypatch.setattr(kernels, "TILE", 2)
    monkeypatch.setattr(kernels, "FEW", 2)
    monkeypatch.setattr(Gaussians, "of", lambda *_: None)
    coef = np.array([[1.0, -2.0], [0.5, 0.25], [3.0, 1.0]])
    K = np.array([[exactly(part, x, z) for z in X[:3]] for x in X])
    found, largest = sums(part, X, X[:3], coef)
    np.testing.assert_allclose(found.v, K @ coef, rtol=1e-12)
    assert found.e.max() < 1e-11
    np.testing.assert_allclose(diagonal(part, X).v, [exactly(part, x, x) for x in X], atol=1e-14)
    longest = (4 + 1 + 0.0625) * WIDER + 0.5
    assert largest == pytest.approx(longest if part["class"] == "Linear" else np.abs(K).max(), rel=1e-12)
    assert largest >= np.abs(K).max()


def test_a_kernel_without_weight_is_not_computed():
    """Its values may be too large for any float."""
    far = np.full((1, 2), 1e120)
    assert np.isfinite(kernel(MIXED, far, far).v).all()
    assert (kernel({**MIXED, "weights": [0.0, 0.0, 0.0]}, X, X[:2]).v == np.zeros((5, 2))).all()


@pytest.fixture
def distances(monkeypatch):
    """The squared distances of which values are asked, in order."""
    seen = []
    monkeypatch.setattr(kernels, "profile", lambda part, t: seen.append(t) or profile(part, t))
    return seen


def test_squared_distances_from_products_and_from_differences_err_by_their_laws(distances, monkeypatch):
    monkeypatch.setattr(kernels, "TILE", 2)
    far = X[:4] + 1e4
    centre = np.array([-1e4, 2e4, 0.0])
    found = kernel(RBF, far, far[1:], centre)
    a, r2 = far - centre, ((X[:4, None] - X[None, 1:4]) ** 2).sum(axis=2)
    lengths = (a**2).sum(axis=1)[:, None] + (a[1:] ** 2).sum(axis=1)
    np.testing.assert_allclose(distances[0].e, WIDER * (2 * 3 + 7) * U * lengths, rtol=1e-9)
    np.testing.assert_allclose(np.concatenate([t.v for t in distances[1:]]), r2.ravel(), atol=1e-9)
    for t in distances[1:]:
        np.testing.assert_allclose(t.e, WIDER * (3 + 2) * U * t.v, rtol=1e-9)
    np.testing.assert_allclose(found.v, np.exp(-0.7 * r2), rtol=1e-10)
    assert found.e.max() < 1e-14


@pytest.mark.parametrize(("roundings", "asked"), [(0.75, 1), (1.5, 2)])
def test_values_are_summed_by_differences_where_products_lose_so_many_roundings(roundings, asked, distances):
    assert SHARP == 10_000  # of 16 digits 4: a value of products has 12
    lengths = 2 * (3 * 1e6**2)
    gamma = roundings * SHARP / (13 * lengths)
    kernel({"class": "RBF", "gamma": gamma}, np.full((1, 3), 1e6), np.array([[1e6 + 100, 1e6, 1e6]]))
    assert len(distances) == asked


GAMMA = {"gamma": 1.0}


@pytest.mark.parametrize(("part", "known"), [
    ({"class": "RBF", "gamma": 0.0}, False), ({"class": "RBF", "gamma": 1e-9}, True),
    ({"class": "RBF", "gamma": math.inf}, False), ({"class": "RBF"}, False), ({"class": "RBF", "more": 1}, False),
    ({"class": "MultiscaleRBF", "gammas": [1.0, 0.0]}, False), ({"class": "MultiscaleRBF", "gammas": [1, 2]}, True),
    ({"class": "InverseMultiquadric", "offset": 0.0}, False),
    ({"class": "Log", "degree": 2.0, **GAMMA}, True), ({"class": "Log", "degree": 2.5, **GAMMA}, False),
    ({"class": "Log", "degree": 0.0, **GAMMA}, False), ({"class": "Log", "degree": 1.0, "gamma": 0.0}, False),
    ({"class": "Linear", "coef0": 0.0}, True), ({"class": "Linear", "coef0": -1.0}, False),
    *(({"class": "Polynomial", "degree": degree, "gamma": gamma, "coef0": coef0}, known)
      for degree, gamma, coef0, known in ((1, 1, 0, True), (19, 1, 0, True), (0, 1, 0, False), (20, 1, 0, False),
                                          (2.5, 1, 0, False), (2, 0, 0, False), (2, 1, -1, False), (2, -1, 9, False),
                                          (3, 0.5, 2, True))),
    *(({"class": "Combination", "kernels": [RBF, LAPLACIAN], "weights": weights}, known)
      for weights, known in (([0.0, 2.0], True), ([-1.0, 2.0], False), ([math.inf, 0.0], False), ([1.0], False)))],
    ids=str)
def test_kernels_are_known_where_they_are_definite(part, known):
    if known:
        assert described(part)["class"] == part["class"]
        return
    with pytest.raises((ValueError, KeyError)):
        described(part)


def test_kernels_without_weights_count_alike():
    assert described({**MIXED, "weights": None})["weights"] == [1 / 3] * 3


def test_an_exact_product_is_rounded_once():
    rng = np.random.default_rng(0)
    for _ in range(50):
        x = rng.normal(size=3) * 2.0 ** rng.integers(-40, 40, 3)
        a = np.append(rng.normal(size=2), 0.0)
        a[2] = -(x[:2] @ a[:2]) / x[2]  # nearly all cancels
        exact = sum(Fraction(p) * Fraction(q) for p, q in zip(x, a))
        assert abs(Fraction(dot(x, a)) - exact) <= Fraction(U) * abs(exact)


def test_sums_of_products_err_by_their_law(monkeypatch):
    monkeypatch.setattr(kernels, "TILE", 2)
    coef = np.array([[1.0], [-0.5], [3.0]])
    found, _ = linear_sums(0.5, X, X[:3], coef)
    w, total = X[:3].T @ coef, coef.sum()
    known = WIDER * (U * np.abs(w) + 3 * TINY)
    f = WIDER**2 * (np.abs(X) @ known + 3 * U * (np.abs(X) @ (np.abs(w) + known)) + TINY)
    shift = WIDER * (WIDER * U * total * 0.5 + U * total * 0.5 + TINY)
    np.testing.assert_allclose(found.e, WIDER * (f + shift + U * np.abs(X @ w + total * 0.5)), rtol=1e-9)
    nothing = linear_sums(0.0, np.ones((1, 1)), np.zeros((3, 1)), coef)[0].e
    np.testing.assert_allclose(nothing, WIDER * TINY * (WIDER**2 * (3 * WIDER + 1) + WIDER), rtol=1e-9)


def test_padding_adds_rows_of_0_up_to_a_whole_stack():
    for n, stacks in ((4, 2), (5, 3), (1, 1)):
        found = padded(np.ones((n, 3)), 2)
        assert found.shape == (stacks, 2, 3)
        assert found.sum() == 3 * n
        assert (found.reshape(-1, 3)[:n] == 1).all()


@pytest.mark.parametrize(("d", "k", "n"), [(1, 1, 3), (3, 1, 700), (3, 2, 9), (1, 30, 3), (100, 1, 9)])
def test_no_product_of_gaussians_has_more_multiplications_than_one_thread_takes(d, k, n):
    side = Gaussians(1.0, np.zeros((n, d)), np.zeros((n, k))).side
    assert side**2 * max(d + 2, 3 * k) <= 200_000 < (2 * side) ** 2 * max(d + 2, 3 * k)
    assert side == 2 ** round(math.log2(side))


@pytest.mark.parametrize(("tile", "k", "n"), [(512, 1, 3), (16, 2000, 20), (8, 2000, 21)])
def test_sums_of_gaussians_err_by_their_law(tile, k, n, monkeypatch):
    """Of 2,000 columns a stack has 4 rows: several stacks are added in several goes, the last one not full."""
    monkeypatch.setattr(kernels, "TILE", tile)
    rng = np.random.default_rng(0)
    Z, rows, coef = rng.normal(size=(n, 2)), 8 * X[:, :2], rng.normal(size=(n, k))
    centred = Gaussians(0.7, Z, coef)
    side = centred.side
    few, stacks = tile // side, math.ceil(n / side)
    found = centred.sums(rows)
    values = np.exp(-0.7 * ((rows[:, None] - Z) ** 2).sum(axis=2))
    np.testing.assert_allclose(found.v, values @ coef, rtol=1e-9, atol=1e-14)
    share, lengths = 4 * (2 + 4) * U * 0.7, (Z**2).sum(axis=1)
    terms = (rows**2).sum(axis=1)[:, None] * (values @ np.abs(coef)) + values * lengths @ np.abs(coef)
    added = (side + few + stacks // few + 16) * U * (values @ np.abs(coef))
    expected = WIDER * (WIDER * share * terms + added + TINY * np.abs(coef).sum(axis=0))
    np.testing.assert_allclose(found.e, expected, rtol=1e-9)


def test_gaussians_are_summed_in_one_product_where_it_loses_no_more_than_differences_would():
    """eta = 4 (d + 4) roundings of gamma (|x|^2 + |z|^2), at the farthest row and the farthest centre."""
    for roundings, taken in ((0.75, True), (1.5, False)):
        square = roundings * SHARP / (4 * 5)
        for x, z in ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5)):
            near = Gaussians(1.0, np.sqrt([[0.0], [z * square]]), np.ones((2, 1)))
            assert (near.sums(np.sqrt([[0.0], [x * square]])) is not None) == taken


def test_sums_of_gaussians_are_taken_from_the_middle_of_the_rows():
    far = X + 1e5
    found, largest = sums(RBF, far, far[:3], np.ones((3, 1)))
    assert found.e.max() < 1e-12
    assert largest == 1.0
    np.testing.assert_allclose(found.v[:, 0], [sum(exactly(RBF, x, z) for z in X[:3]) for x in X], rtol=1e-9)
