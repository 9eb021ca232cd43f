"""Parabolas below a lead, against its values at corners and points of the box, closed forms and eigenvalues."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.preprocessing import scale

from buttress import SVC, attacks
from buttress.certificates import certified_within
from buttress.certificates.branch import _bends, _eigenvalues, quadratic_bound
from buttress.certificates.region import Region
from buttress.certificates.relaxation import Lead
from buttress.kernels import RBF, Laplacian

from problems import breast_cancer


def posed(seed, m=12, d=6, gamma=0.3, width=0.2, away=0.0):
    """A random lead and a box around a row, one column of which is held in place."""
    rng = np.random.default_rng(seed)
    half = width * rng.random((1, d))
    half[0, 0] = 0.0
    lead = Lead([(RBF(gamma), 1.0)], rng.normal(size=(m, d)) + away, rng.normal(size=(1, m)), rng.normal(size=1),
                np.ones(1))
    return lead, Region(rng.normal(size=(1, d)) + away, half, None, np.ones(d), np.ones(1))


def lowest(lead, region, seed, points=4000):
    """The least value, in units of e^(gamma |d|^2), that corners, points and steps along the gradient find."""
    rng = np.random.default_rng(seed)
    half = region.half[0]
    moves = half * np.vstack([rng.choice([-1.0, 1.0], (points, half.size)), rng.uniform(-1, 1, (points, half.size))])

    def values(moves):
        many = lead[np.zeros(len(moves), dtype=int)]
        return np.exp(lead.kernels[0][0].gamma * (moves**2).sum(axis=1)) * many(region.anchor + moves)

    best = moves[np.argsort(values(moves))[:5]]
    for _ in range(30):
        weights = np.repeat(lead.weights, len(best), axis=0)
        steep = lead.kernels[0][0].gradient(region.anchor + best, lead.centers, weights)
        best = np.clip(best - 0.3 * half * np.sign(steep), -half, half)
        moves = np.vstack([moves, best])
    return values(moves).min()


@pytest.mark.parametrize("width", [1e-6, 0.01, 0.2, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(6))
def test_no_point_of_the_box_has_a_lower_lead(seed, width):
    lead, region = posed(seed, width=width)
    bound, found = quadratic_bound(lead, region), lowest(lead, region, seed)
    assert bound <= found
    if width <= 0.01:  # where the lead is nearly a plane, so is what lies below it
        assert found - bound <= 1e-3 * (np.abs(lead.weights).sum() + np.abs(lead.bias[0]) + 1)


@pytest.mark.parametrize("m", [3, 40])
@pytest.mark.parametrize("away", [0.0, 1e6])
def test_columns_far_from_0_cost_what_rounding_may(m, away):
    lead, region = posed(1, m=m, width=1e-3, away=away)
    bound, found = quadratic_bound(lead, region), lowest(lead, region, 1)
    assert bound <= found
    assert (found - bound < 0.1) == (away == 0.0)


def test_one_centre_is_exact_at_the_corner_that_is_nearest_to_it():
    d = 5
    centre, half = np.array([[0.5, -0.5, 0.5, 0.5, -0.5]]), np.full((1, d), 0.1)
    lead = Lead([(RBF(0.7), 1.0)], centre, np.array([[-1.0]]), np.array([2.0]), np.ones(1))
    nearest = 0.1 * np.sign(centre)
    values = -np.exp(-0.7 * ((centre - nearest) ** 2).sum() + 0.7 * (nearest**2).sum()) + 2.0  # the bias is least at 0
    assert quadratic_bound(lead, Region(np.zeros((1, d)), half, None, np.ones(d), np.ones(1))) == pytest.approx(values)


def test_other_kernels_and_balls_have_none():
    lead, region = posed(0)
    for kernel, tilt in ((Laplacian(1.0), None), (RBF(0.3), np.ones((1, 6)))):
        other = Lead([(kernel, 1.0)], lead.centers, lead.weights, lead.bias, lead.square, tilt=tilt)
        assert quadratic_bound(other, region) == -np.inf
    for half, offset in ((region.half, np.zeros((1, 6))), (1e9 + region.half, None)):
        assert quadratic_bound(lead, Region(region.anchor, half, offset, np.ones(6), np.ones(1))) == -np.inf


@pytest.mark.parametrize("U", [1e-12, 1e-5, 0.0099, 0.01, 0.0101, 0.3, 5.0, 40.0])
def test_parabolas_lie_on_their_side_of_the_exponential(U):
    """In fractions: the series of e^u, and what is left of it."""
    def exponential(u):
        term = total = Fraction(1)
        for n in range(1, 200):
            term = term * u / n
            total += term
        return total

    below, above = (Fraction(float(_bends(np.array([U]), np.array([side]))[0])) for side in (True, False))
    for share in (-1, Fraction(-1, 2), Fraction(-1, 1000), Fraction(1, 1000), Fraction(1, 2), 1):
        u = share * Fraction(U)
        left = exponential(u) - 1 - u
        assert below * u**2 / 2 <= left <= above * u**2 / 2


@pytest.mark.parametrize("shape", [(5, 30), (30, 5), (20, 20), (1, 4)])
@pytest.mark.parametrize("seed", range(5))
def test_the_least_eigenvalue_is_below_that_of_the_products(shape, seed):
    rng = np.random.default_rng(seed)
    A, s = rng.normal(size=shape), rng.normal(size=shape[0])
    e = np.linalg.eigvalsh((A.T * s) @ A)
    least, most = _eigenvalues(A, s)
    room = 1e-9 * np.abs(e).max()
    assert min(e[0], 0) - room <= least <= min(e[0], 0) + 1e-14 * room
    assert most == pytest.approx(max(e[-1], 0), abs=room)


def test_every_row_of_thirty_columns_is_attacked_or_proven():
    """Lines and second order by themselves leave 5 of these 60 rows open, at 3,000 parts each."""
    X, y = breast_cancer()
    order = np.random.default_rng(0).permutation(len(X))
    X, y = scale(X)[order], y[order]
    model = SVC().fit(X[:300], y[:300])
    rows, named = X[300:360], model.predict(X[300:360])
    broken = attacks.worst_case(model, rows, named, eps=0.3, random_state=0, return_info=True)[1].success
    np.testing.assert_array_equal(certified_within(model, rows, eps=0.3), ~broken)
