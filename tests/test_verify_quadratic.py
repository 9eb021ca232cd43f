"""Quadratic functions of a move in the verifier: each bound against fractions and closed forms, and sharp."""

from fractions import Fraction

import numpy as np
import pytest

from buttress.verify.core import Real
from buttress.verify.inputs.quadratic import (
    Axes,
    Quadratic,
    RowMoves,
    above,
    dominated,
    length,
    multiplier,
    root,
    size,
    squared,
    summed,
)

UNIT = 2.0**-53
SIDES = np.eye(2), np.array([[0.6, -0.8], [0.8, 0.6]])


@pytest.fixture(autouse=True)
def _quietly():
    with np.errstate(all="ignore"):  # as whoever asks for radii
        yield


def near(values, errors=0.0):
    """Values with these errors, as they are."""
    found = Real(np.asarray(values, float))
    found.e = np.broadcast_to(np.asarray(errors, float), found.v.shape)
    return found


def below(const=0.0, slope=(0.0, 0.0), curve=None, bend=0.0):
    return Quadratic(near(const), slope if isinstance(slope, Real) else near(slope),
                     None if curve is None else near(curve), near(bend))


@pytest.mark.parametrize("terms", [2, 10])
def test_what_rounding_takes_off_a_sum_is_a_unit_a_term_and_eight_more(terms):
    assert above(1.0, terms) == 1 + (terms + 8) * UNIT
    g = np.random.default_rng(0)
    for x in 1 + 4e-16 * g.integers(0, 9, (300, terms)):
        assert above((x * x * x).sum(), terms) >= sum(Fraction(one) ** 3 for one in x)


def test_lengths_are_rounded_up_and_those_whose_squares_are_0_have_one():
    np.testing.assert_array_equal(length(np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 1.0]])),
                                  [above(5.0, 2), above(1e-150, 2), above(1.0, 2)])
    assert length(np.array([1e-170])) >= 1e-170
    assert size(near([[-2.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 4.0]])) == above(5.0, 4)
    assert squared(near([[3.0, 4.0]])).v == squared(near([3.0, 4.0])).v == 25
    assert root(near(4.0)) == above(2.0, 0)
    assert root(near(4.0, 5.0)) == above(np.sqrt(np.nextafter(9.0, 10)), 0)
    assert root(near(-4.0)) == 0


def test_moves_reach_no_farther_than_said():
    assert RowMoves(2.0).longest == 2
    assert RowMoves(2.0).square == above(4.0, 0)
    assert RowMoves(0.5, 4).longest == above(1.0, 4)
    assert RowMoves(np.array([3.0, 4.0]), 2).longest == above(5.0, 2)
    rows, sizes = near([[-2.0, 2.0]] * 10, [[1.0, 2.0]] * 10), np.array([[3.0, 4.0]] * 10)
    np.testing.assert_array_equal(RowMoves(0.5).reach(rows), above(0.5 * length(sizes), 2))
    np.testing.assert_array_equal(RowMoves(0.5, 2).reach(rows), above(np.full(10, 3.5), 2))
    np.testing.assert_array_equal(RowMoves(np.array([0.5, 2.0]), 2).reach(rows), above(np.full(10, 9.5), 2))


def test_the_least_of_separate_columns_is_that_of_each():
    """p d + e d^2 over |d| <= eps: inside, at the border, of both signs, and where a column has no part."""
    e = [2.0, 2.0, -1.0, 0.0, 0.0, 1.0]
    slope = [1.0, -3.0, 0.25, -0.5, 0.0, 0.0]
    exact = -Fraction(1, 8) - (Fraction(3, 2) - Fraction(1, 2)) - (Fraction(1, 8) + Fraction(1, 4)) - Fraction(1, 4)
    low, move = below(1.0, slope).in_cube(0.5, np.array(e))
    assert -60 * UNIT <= low - float(1 + exact) < 0
    assert Fraction(low) <= 1 + exact
    assert 1 + np.array(slope) @ move + np.array(e) @ move**2 == pytest.approx(low, abs=1e-14)
    low, _ = below(1.0, slope).in_cube(np.full(6, 0.5), np.array(e))
    assert -60 * UNIT <= low - float(1 + exact) < 0
    low, _ = below(0.0, near([1.0], 0.25)).in_cube(0.5, np.array([0.0]))
    assert -0.625 * (1 + 60 * UNIT + 0.01) <= low <= -0.625


@pytest.mark.parametrize("sides", SIDES, ids=["axes", "turned"])
@pytest.mark.parametrize("curves", [(2.0, 0.5), (2.0, -0.5), (-1.0, -0.25), (0.0, 0.0)])
@pytest.mark.parametrize("border", [True, False])
def test_the_least_in_a_ball_is_that_of_lagrange(sides, curves, border):
    """A point w and a multiplier m >= 0, -e of the border, or 0 inside, with slope -2 (e + m) w: the least is there."""
    e, point = np.array(curves), np.array([0.3, -0.4])
    m = max(0.0, -e.min()) + 0.75 if border else 0.0
    if not border and e.min() <= 0:
        return
    eps = 0.5 if border else 2.0
    slope = sides @ (-2 * (e + m) * point)
    least = float(-2 * (e + m) * point @ point + e @ point**2)
    found, move = below(0.5, slope, sides @ np.diag(e) @ sides.T).least(RowMoves(eps))
    assert -200 * UNIT <= found - (0.5 + least) <= 1e-17
    np.testing.assert_allclose(move, sides @ point, atol=1e-7)
    found, move = below(0.5, slope).in_ball(eps, Axes(e, sides, 0.0, 0.0))
    assert -120 * UNIT <= found - (0.5 + least) <= 1e-17
    np.testing.assert_allclose(move, sides @ point, atol=1e-7)


def test_a_slope_that_does_not_point_to_the_border_is_taken_there():
    """-w_0^2 + w_1^2 + .3 w_1 in the ball of .5: the multiplier is 1, and w_1 = -.3/4."""
    axes = Axes(np.array([-1.0, 1.0]), np.eye(2), 0.0, 0.0)
    found, move = below(0.0, (0.0, 0.3)).in_ball(0.5, axes)
    least = -(0.25 - 0.075**2) + 0.075**2 - 0.3 * 0.075
    assert -100 * UNIT <= found - least <= 0
    np.testing.assert_allclose(np.abs(move), [np.sqrt(0.25 - 0.075**2), 0.075], atol=1e-7)
    found, move = below(0.0, (1e-25, 0.0)).in_ball(0.5, axes)
    assert -100 * UNIT <= found + 0.25 <= 0
    np.testing.assert_allclose(move, [-0.5, 0.0], atol=1e-7)


def test_what_axes_miss_is_taken_off():
    flat = np.zeros(2)
    linear = below(0.0, (1.0, 0.0))
    for found, fall in (
            (below().in_ball(0.5, Axes(flat, np.eye(2), 4.0, 0.0)), 1.0),  # lost eps^2
            (below(slope=near([0.0, 0.0], [0.3, 0.4])).in_ball(2.0, Axes(flat, np.eye(2), 0.0, 0.0)), 1.0),
            (linear.in_ball(1.0, Axes(flat, np.eye(2), 0.0, 1.0)), 1.5),  # eps |p| / 2 is that of the multiplier
            (linear.in_ball(1.0, Axes(flat, np.diag([0.5, 1.0]), 0.0, 0.0)), 1.25)):  # V V'p is p / 4
        assert -fall * (1 + 40 * UNIT) <= found[0] <= -fall


def test_no_square_of_small_numbers_is_lost():
    """Slopes, or a radius, whose squares are 0 in float64."""
    for slope, eps in ((1e-165, 1.0), (1e100, 1e-170), (1e-10, 1e-170)):
        for columns in (0, 1):
            assert below(0.0, [slope]).least(RowMoves(eps, columns))[0] <= -slope * eps


def test_the_multiplier_is_the_one_with_which_the_bound_is_best():
    assert multiplier(np.zeros(2), np.array([3.0, 4.0]), 0.5) == pytest.approx(5.0, rel=1e-13)
    assert multiplier(np.array([-1.0, 3.0]), np.array([2.0, 0.0]), 0.25) == pytest.approx(5.0, rel=1e-13)
    assert multiplier(np.array([-1.0, 3.0]), np.zeros(2), 0.25) == 1
    assert multiplier(np.array([5.0]), np.array([1.0]), 0.25) == pytest.approx(0.0, abs=1e-13)


def test_axes_are_those_of_the_matrix_and_say_what_they_miss():
    M = np.array([[2.0, 0.7], [0.7, -1.0]])
    for errors in (0.0, 1e-3):
        axes = Axes.of_matrix(near(M, errors))
        np.testing.assert_allclose(axes.V * axes.e @ axes.V.T, M, atol=1e-14)
        assert 2 * errors <= axes.lost <= 2.03 * errors + 60 * UNIT
        assert 0 < axes.longer <= 30 * UNIT
    flat = Axes.of(near(-0.5, 0.125), 3)
    np.testing.assert_array_equal(flat.e, [-0.5] * 3)
    np.testing.assert_array_equal(flat.V, np.eye(3))
    assert (flat.lost, flat.longer) == (0.125, 0)


@pytest.mark.parametrize(("e", "least"), [([-2.0, 3.0], -3.0), ([3.0, 2.0], 1.0), ([0.0, 4.0], -0.5)])
def test_the_least_of_a_form_is_that_of_its_axes_less_what_they_miss(e, least):
    assert least - 0.02 <= Axes(np.array(e), np.eye(2), 0.5, 0.25).least <= least


def test_what_a_diagonal_has_more_than_the_entries_beside_it():
    M = near([[5.0, -1.0, 0.5], [2.0, 1.0, -0.25], [0.0, 0.0, -3.0]], [[0.1, 0.2, 0.3], [0.0, 0.0, 0.0], [0.0] * 3])
    exact = np.array([5 - 0.1 - 1.2 - 0.8, 1 - 2.25, -3.0])
    found = dominated(M)
    assert (found <= exact).all()
    assert (found >= exact - [0.003, 60 * UNIT, 20 * UNIT]).all()


@pytest.mark.parametrize(("curve", "slope"), [
    (None, (1.0, -1.0)), (np.diag([1.0, -1.0]), (1.0, 0.5)), ([[1.0, 0.9], [0.9, 1.0]], (2.0, 0.0)),
    ([[0.0, 2.0], [2.0, 0.0]], (0.0, 0.0)), ([[3.0, 1.0], [1.0, 3.0]], (0.1, -0.1))])
def test_the_best_of_all_bounds_is_taken(curve, slope):
    function, moves = below(2.0, slope, curve, 0.25), RowMoves(0.5, 2)
    M = None if curve is None else near(np.asarray(curve) + 0.25 * np.eye(2))
    axes = Axes.of(near(0.25), 2) if M is None else Axes.of_matrix(M)
    ways = [function.in_ball(moves.longest, axes), function.in_cube(0.5, np.full(2, axes.least))]
    ways += [] if M is None else [function.in_cube(0.5, dominated(M))]
    found, move = function.least(moves)
    assert found == pytest.approx(max(low for low, _ in ways), abs=40 * UNIT)
    assert np.abs(move).max() <= 0.5
    assert any(np.allclose(move, np.clip(way, -0.5, 0.5), atol=1e-6) for _, way in ways)
    ball, _ = function.least(RowMoves(moves.longest))
    assert ball == pytest.approx(ways[0][0], abs=40 * UNIT)


def test_of_numbers_that_are_infinite_nothing_is_known():
    low, move = below(1.0, (0.0, 0.0), [[np.inf, 0.0], [0.0, 1.0]]).least(RowMoves(1.0))
    assert low == -np.inf
    assert np.isnan(move).all()


def test_sums_of_functions_are_those_of_their_parts():
    one, other = below(1.0, (1.0, 2.0), None, 3.0), below(10.0, (20.0, 30.0), np.eye(2), 50.0)
    found = summed([(one, 2.0), (other, 0.5), (other, 0.25)])
    assert (found.const.v, found.bend.v) == (9.5, 43.5)
    np.testing.assert_array_equal(found.slope.v, [17.0, 26.5])
    np.testing.assert_array_equal(found.curve.v, 0.75 * np.eye(2))
    assert summed([(one, 2.0)]).curve is None
