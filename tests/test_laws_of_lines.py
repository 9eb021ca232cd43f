"""What the lines below kernels are, and what is taken off them: each law of ``relaxation`` worked out by hand.

One row, few centres: small enough that a term, a factor or a sign that is wrong changes the number that is asked for.
"""

import numpy as np
import pytest

from buttress._proof import UNIT, sum_error
from buttress.certificates.region import Attacker, Region
from buttress.certificates.relaxation import (
    TINY,
    Below,
    Exponentials,
    Lead,
    RadialLines,
    _added,
    _convex_lines,
    _cubic_lines,
    _factored,
    _line,
    _linear,
    _product,
    _radial,
    _refined,
    _summed,
    can_relax,
    grown_bias,
    relaxed,
)
from buttress.kernels import (
    RBF,
    Cauchy,
    Laplacian,
    Linear,
    Log,
    MultiscaleRBF,
    Polynomial,
    Sigmoid,
)

ROOM = 1e-3


def near(number):
    return pytest.approx(number, rel=1e-9, abs=0)


def lead_of(kernel, Z, w, bias=0.0, **more):
    return Lead([(kernel, 1.0)], np.array(Z, float), np.array([w], float), np.array([bias]), np.ones(1), **more)


def box_of(row, half):
    return Region(np.array([row], float), np.array([half], float), None, np.ones(len(row)), np.ones(1))


class Off(Lead):
    """A lead of which squared distances, or products, may be off by ``room``."""

    room = ROOM

    def slack(self, region):
        return np.full((1, len(self.centers)), self.room)


def off_of(kernel, Z, w, room=ROOM, bias=0.0):
    lead = Off([(kernel, 1.0)], np.array(Z, float), np.array([w], float), np.array([bias]), np.ones(1))
    lead.room = room
    return lead


def below(const, slope, bend, doubt):
    return Below(np.array([const]), np.array([slope], float), np.array([bend]), np.array([doubt]))


@pytest.mark.parametrize(("kernels", "values"), [([RBF(1.0)], 1), ([MultiscaleRBF([1.0, 2.0])], 2),
                                                 ([RBF(1.0), MultiscaleRBF([1.0, 2.0])], 3)], ids=str)
def test_a_sum_over_centres_is_off_by_the_law_of_sums_of_its_terms_and_kernel_values(kernels, values):
    ones = np.ones((1, 4))
    lead = Lead([(kernel, 0.5) for kernel in kernels], ones.T, ones, np.ones(1), np.ones(1), unit=3.0)
    assert lead.share() == sum_error(4 + values, 3.0)


@pytest.mark.parametrize(("Z", "from_0", "from_middle"), [
    ([[0.5], [1.5]], [2 * (1 + 9) + 0.25, 2 * (1 + 9) + 2.25], [2 * 9 + 0.25] * 2),
    ([[-1.0], [-3.0]], [2 * (1 + 9) + 1, 2 * (1 + 9) + 9], [2 * (9 + 9) + 1] * 2)])
def test_lengths_are_the_larger_of_those_from_0_and_from_the_middle_and_what_scalers_subtract(Z, from_0, from_middle):
    lead = lead_of(RBF(1.0), np.hstack([Z, np.zeros((2, 1))]), [1.0, 1.0], origin=5.0, unit=0.5)
    expected = np.maximum(from_0, from_middle) + 25
    np.testing.assert_allclose(lead.lengths(np.array([[1.0, 0.0]]), np.array([3.0]))[0], expected)
    np.testing.assert_allclose(lead.slack(box_of([1.0, 0.0], [3.0, 0.0]))[0], 4 * sum_error(2, 0.5) * expected)


def test_a_lead_is_that_of_its_kernels_its_linear_part_and_its_bias():
    Z, W = np.array([[1.0], [-1.0]]), np.array([[2.0, -1.0]])
    lead = Lead([(RBF(2.0), 0.5), (Linear(), 3.0)], Z, W, np.array([0.25]), np.ones(1), tilt=np.array([[7.0]]))
    x, values = 0.5, np.exp([-0.5, -4.5])
    assert lead(np.array([[x]]))[0] == near(0.5 * (2 * values[0] - values[1]) + 3 * 3 * x + 7 * x + 0.25)


def test_beside_a_linear_part_one_kernel_is_a_sum_of_lines():
    box = box_of([0.2], [0.8])
    for tilt, lines in ((None, _factored), (np.array([[-0.5]]), _summed)):
        lead = lead_of(RBF(1.0), [[0.5], [-0.3]], [1.0, -0.4], bias=1.0, tilt=tilt)
        assert relaxed(lead, box)[0][0] == _refined(lines(lead, box), box)[0][0]


@pytest.mark.parametrize(("kernel", "known"), [
    (Polynomial(3), True), (Polynomial(2), True), (Polynomial(4), True), (Polynomial(5), False), (Polynomial(1), False),
    (Polynomial(2.5), False), (Log(2.0), True), (Log(1.5), True), (Log(2.5), False), (RBF(1.0), True), (Linear(), True),
    (Sigmoid(), False)], ids=str)
def test_lines_are_known_of_cubes_even_powers_and_convex_kernels(kernel, known):
    assert can_relax(kernel) == known


def test_tangents_are_taken_again_halfway_to_where_the_bound_was_least_and_the_best_of_three_counts():
    guesses, consts = [], iter([1.0, 3.0, 2.0])

    def lines(guess):
        guesses.append(float(guess[0, 0]))
        return below(next(consts), [1.0], 0.0, 0.0)

    best, moves = _refined(lines, box_of([0.0], [2.0]))
    assert guesses == [0.0, -1.0, -1.5]
    assert (best[0], moves[0, 0]) == (near(1.0), -2.0)


def test_what_is_taken_off_a_line_is_its_doubt_rounded_up_beside_its_constant():
    def least(const, doubt):
        return _refined(lambda guess: below(const, [0.0], 0.0, doubt), box_of([0.0], [1.0]))[0][0]

    assert least(0.0, 1.0) == -1 - 16 * UNIT
    assert least(1.0, 0.0) == 1 - 16 * UNIT
    assert least(1.0, 1.0) == -32 * UNIT


def test_a_sum_of_lines_is_theirs_and_may_be_off_by_the_law_of_sums_of_their_sizes():
    box = box_of([0.0, 0.0], [3.0, 4.0])
    one, two = below(2.0, [3.0, 4.0], 5.0, 0.0), below(-7.0, [0.0, -1.0], -0.5, 0.0)
    both = _added([one, two], box)
    assert (both.const[0], both.slope[0].tolist(), both.bend[0]) == (-5.0, [3.0, 3.0], 4.5)
    assert both.doubt[0] == near(sum_error(2) * (2 + 5 * 5 + 5 * 25 + 7 + 1 * 5 + 0.5 * 25))
    flat = below(0.0, [0.0, 0.0], 0.0, 1.0)
    assert _added([flat, flat], box).doubt[0] == 2 + 2 * sum_error(2)


def test_a_linear_part_is_its_own_line_off_by_the_law_of_sums_over_columns():
    lead = lead_of(RBF(1.0), [[0.0, 0.0]], [1.0], origin=7.0, tilt=np.array([[3.0, -0.5]]), unit=1.0)
    line = _linear(lead, box_of([2.0, -3.0], [0.25, 1.0]))
    assert (line.const[0], line.slope[0].tolist(), line.bend[0]) == (7.5, [3.0, -0.5], 0.0)
    assert line.doubt[0] == near(sum_error(2, 1.0) * (3 * (2 + 0.25 + 7) + 0.5 * (3 + 1 + 7)))


@pytest.mark.parametrize("about", [0, 1])
def test_a_line_of_moves_is_off_by_the_law_of_sums_over_centres(about):
    box, Z = box_of([3.0, 4.0], [5.0, 12.0]), np.array([[0.0, 2.0], [6.0, 8.0]])
    value, steep, lost = np.array([[1.0, -4.0]]), np.array([[2.0, -0.5]]), np.array([[0.0, 0.0]])
    line = _line(box, Z, value, steep, lost, -3.0, about)
    slope = -3 * (2 * Z[0] - 0.5 * Z[1] - about * 1.5 * np.array([3.0, 4.0]))
    assert (line.const[0], line.slope[0].tolist()) == (-3.0, near(slope))
    far = 2 * 2 + 0.5 * 10 + about * 2.5 * 5
    assert line.doubt[0] == near(sum_error(2) * (5 + 3 * far * 13))
    lost = _line(box, Z, 0 * value, 0 * steep, np.array([[0.75, 0.25]]), -3.0, about).doubt[0]
    assert lost == 1 + sum_error(2)


def over(kernel, z, region, slack=0.0):
    return RadialLines.over(kernel, np.array([z], float), region, slack)


def test_squared_distances_lie_between_those_of_the_nearest_and_the_farthest_corner():
    found = over(RBF(1.0), [2.0], box_of([0.0], [0.5]))
    assert (found.square[0, 0], found.low[0, 0], found.high[0, 0]) == (4.0, near(1.5**2), near(2.5**2))
    assert (found.F_low[0, 0], found.F_high[0, 0]) == (near(np.exp(-(1.5**2))), near(np.exp(-(2.5**2))))
    assert over(RBF(1.0), [2.0], box_of([0.0], [0.5]), 0.25).low[0, 0] == near(2.0)
    assert over(RBF(1.0), [0.25], box_of([0.0], [0.5]), 0.25).low[0, 0] == 0
    ball = Attacker("l2", np.ones(2)).region(np.zeros((1, 2)), np.ones(1))
    assert over(RBF(1.0), [2.0, 2.0], ball).low[0, 0] == near(8 - 2 * np.sqrt(8))  # in the box around it, 2


@pytest.mark.parametrize("kernel", [Laplacian(1.0), Cauchy(2.0), Log(1.5, 0.5)], ids=str)
def test_tangents_touch_where_they_are_asked_to_and_chords_meet_both_ends(kernel):
    lines = over(kernel, [2.0], box_of([0.0], [0.5]))

    def at(line, square):
        return float((line[0] + line[1] * (square - lines.square))[0, 0])

    for asked, touched in ((3.0, 3.0), (1.0, 1.5**2), (9.0, 2.5**2)):
        tangent = lines.tangents(np.array([[asked]]))
        assert at(tangent, touched) == near(kernel.profile(np.array(touched)))
        assert tangent[1][0, 0] == near(kernel.slope(np.array([touched]))[0])
    for end in (1.5**2, 2.5**2):
        assert at(lines.chords(), end) == near(kernel.profile(np.array(end)))
    point = over(kernel, [2.0], box_of([0.0], [0.0])).chords()
    assert (point[0][0, 0], point[1][0, 0]) == (near(kernel.profile(np.array(4.0))), near(kernel.slope(np.array(4.0))))


def test_at_a_cusp_a_tangent_touches_a_millionth_of_the_way():
    lines = over(Laplacian(1.0), [0.0], box_of([0.0], [1.0]))
    assert lines.tangents(np.zeros((1, 1)))[1][0, 0] == near(Laplacian(1.0).slope(np.array([1e-6]))[0])


@pytest.mark.parametrize(("weight", "half", "room"), [(2.0, 0.5, ROOM), (-2.0, 0.5, ROOM), (2.0, 1.5, ROOM),
                                                      (-2.0, 0.5, 0.0), (2.0, 0.5, 0.0)])
@pytest.mark.parametrize("kernel", [Cauchy(2.0), Log(2.0, 1.0)], ids=str)
def test_a_line_of_a_radial_kernel_is_off_by_its_distances_its_value_and_its_bend(kernel, weight, half, room):
    lead, box = off_of(kernel, [[-6.0]], [weight], room), box_of([-7.0], [half])
    line, guess = _radial(kernel, 1.0, lead, box)(np.array([[half]])), half
    low, high = max((1 - half) ** 2 * (half < 1) - room, 0), (1 + half) ** 2
    F, slope = (lambda s: kernel.profile(np.array([s]))[0]), (lambda s: kernel.slope(np.array([s]))[0])
    touch = max((1 - guess) ** 2, 1e-6 * high)
    steep = weight * (slope(touch) if weight > 0 else (F(high) - F(low)) / (high - low))
    value = weight * (F(touch) + slope(touch) * (1 - touch)) if weight > 0 else weight * F(low) + steep * (1 - low)
    assert (line.const[0], line.bend[0], line.slope[0, 0]) == (near(value), near(steep), near(-2 * steep))
    nearest = max(low - room, 0)
    lost = 2 * (2 * (F(nearest) - F(nearest + room))) + abs(steep) * room
    sums = 2 * lead.share() * max(abs(F(low)), abs(F(high)))
    sums += sum_error(1) * (abs(value) + 2 * abs(steep) * (6 + 7) * half)
    assert line.doubt[0] == near(lost + sums + lead.share() * abs(steep) * half**2)


def test_of_values_that_float64_has_not_the_least_are_counted():
    lead, box = off_of(RBF(1.0), [[40.0]], [3.0], 0.0), box_of([0.0], [1.0])
    assert _radial(RBF(1.0), 1.0, lead, box)(np.zeros((1, 1))).doubt[0] == near(3 * 8 * TINY)
    assert _factored(off_of(RBF(1.0), [[0.0]], [3.0], 0.0), box_of([0.0], [26.0]))(np.zeros((1, 1))).doubt[0] == near(
        3 * (2 * sum_error(2) + sum_error(1)) + 3 * 8 * TINY * np.exp(676.0))
    terms = Exponentials.over(lead, box)
    assert terms.hidden[0] == near(8 * TINY * 3 * np.e)
    assert terms.lost[0, 0] == near(8 * TINY * 3 * np.exp(80.0))


def test_exponentials_range_over_the_box_and_are_off_by_their_distances_and_the_law_of_sums():
    lead, box = off_of(RBF(2.0), [[1.0]], [-3.0]), box_of([0.5], [0.25])
    lead.sizes = np.array([[5.0]])
    for room in (ROOM, 0.0):
        lead.room = room
        terms = Exponentials.over(lead, box)
        assert (terms.low[0, 0], terms.high[0, 0]) == (near(-0.5), near(0.5))
        assert (terms.grown[0], terms.weights[0, 0]) == (near(2 * 0.0625), near(-3 * np.exp(-0.5)))
        shaken = 4 * np.expm1(2 * room) + sum_error(2)
        assert terms.lost[0, 0] == near(5 * np.exp(-0.5) * shaken * np.exp(0.5))


@pytest.mark.parametrize("half", [0.0, 1e-9, 1e-6, 0.5, 3.0])
@pytest.mark.parametrize("weight", [2.0, -2.0])
def test_lines_of_one_rbf_kernel_touch_its_exponentials(weight, half):
    """A tangent at the guess, a chord at both ends; the values are taken out of the sum that the doubt is about."""
    lead, box = off_of(RBF(1.0), [[1.5]], [weight * np.exp(0.25)], 0.0), box_of([1.0], [half])
    for guess in (-half, half / 4, half):
        line = _factored(lead, box)(np.array([[guess]]))
        for d in [guess] if weight > 0 else [-half, half]:
            touched = line.const[0] + line.slope[0, 0] * d + line.bend[0] * d**2
            assert touched == near(weight * np.exp(d))
        assert line.slope[0, 0] == near(weight * (np.exp(guess) if weight > 0 else np.sinh(half) / half if half else 1))
    assert line.doubt[0] > 0


@pytest.mark.parametrize("bias", [3.0, -3.0])
def test_a_grown_bias_is_touched_at_the_guess_or_met_at_both_ends(bias):
    guess, gamma, grown = np.array([[0.5, -0.25]]), 2.0, np.array([0.9])
    line = grown_bias(lead_of(RBF(gamma), [[0.0, 0.0]], [1.0], bias), gamma, grown, guess)
    for square in [0.3125] if bias > 0 else [0.0, 0.45]:
        assert line.const[0] + line.bend[0] * square == near(bias * np.exp(gamma * square))
    steep = np.exp(0.625) if bias > 0 else np.expm1(0.9) / 0.9
    assert (line.bend[0], line.slope.tolist()) == (near(bias * gamma * steep), [[0.0, 0.0]])
    assert line.doubt[0] == near(sum_error(0) * 3 * np.exp(0.9) * 1.9)
    still = grown_bias(lead_of(RBF(gamma), [[0.0]], [1.0], bias), gamma, np.zeros(1), np.array([[0.5]]))
    assert still.doubt[0] == near(sum_error(0) * 3 * np.exp(0.5) * 1.5)


@pytest.mark.parametrize("room", [ROOM, 0.0])
@pytest.mark.parametrize("kernel", [Polynomial(3, 0.5, 1.0), Polynomial(2, 0.5, -0.25), Linear(0.75)], ids=str)
def test_a_line_of_a_power_is_off_by_its_product_and_by_the_law_of_sums(kernel, room):
    degree, gamma = (1, 1.0) if isinstance(kernel, Linear) else (kernel.degree, kernel.gamma)
    lead, box = off_of(kernel, [[2.0]], [3.0], room), box_of([1.0], [0.25])
    line = _product(kernel, 1.0, lead, box)(np.array([[0.25]]))
    middle, wide = 2 * gamma + kernel.coef0, 0.5 * gamma
    top, slack = middle + wide, gamma * room
    steep = 3 * degree * top ** (degree - 1)
    value = 3 * top**degree - steep * wide
    assert (line.const[0], line.slope[0, 0]) == (near(value), near(2 * gamma * steep))
    extent = top + 2 * slack
    lost = 2 * 3 * degree * extent ** (degree - 1) * (slack + lead.share() * extent)
    assert line.doubt[0] == near(lost + sum_error(1) * (abs(value) + gamma * steep * 2 * 0.25))
    low = _product(kernel, 1.0, off_of(kernel, [[-2.0]], [3.0], room), box)(np.zeros((1, 1)))
    far = max(abs(kernel.coef0 - 2.5 * gamma), abs(kernel.coef0 - 1.5 * gamma)) + 2 * slack
    if room:
        assert low.doubt[0] == near(2 * 3 * degree * far ** (degree - 1) * slack)


def test_a_line_of_a_cube_is_that_of_cubes_where_it_is_not_convex():
    for weight, touched in ((1.0, -1.5), (-1.0, 1.5)):  # from -3 to 3: the tangent at 3/2 meets the cube again at -3
        cube = Polynomial(3, 1.0, 0.0)
        line = _product(cube, 1.0, off_of(cube, [[1.0]], [weight], 0.0), box_of([0.0], [3.0]))(np.zeros((1, 1)))
        assert line.slope[0, 0] == near(weight * 3 * 1.5**2)
        assert line.const[0] + line.slope[0, 0] * -touched * weight**2 == near(-(touched**3) * weight)


@pytest.mark.parametrize("tangent", [True, False])
@pytest.mark.parametrize(("degree", "lines"), [(1, _convex_lines), (2, _convex_lines), (4, _convex_lines),
                                               (3, _cubic_lines)])
def test_no_line_of_a_power_could_be_nearer(degree, lines, tangent):
    """Below or above t^p on all of [l, u]; touched at the point that is asked for, or at both ends."""
    for low, high in ((0.5, 2.0), (-1.0, 3.0), (-3.0, 1.0), (-2.0, -0.5), (-1.0, 1.0), (-3.0, 1.5)):
        for share in (0.0, 0.3, 1.0):
            at = low + share * (high - low)
            steep, meets = (float(one[0, 0]) for one in lines(
                degree, np.array([[tangent]]), *(np.array([[one]]) for one in (low, high, at))))
            t = np.linspace(low, high, 601)
            apart = (t**degree - (meets**degree + steep * (t - meets))) * (1 if tangent else -1)
            assert apart.min() >= -1e-12
            assert apart.min() <= 1e-4
            touch = at
            if degree == 3:  # t^3 as seen where it is convex: the tangent farthest left that stays below
                l, u, touch = (low, high, at) if tangent else (-high, -low, -at)
                first = max(-l / 2, 0)
                expected = 3 * max(touch, first) ** 2 if u >= first else l * l + l * u + u * u
            else:
                chord = (high**degree - low**degree) / (high - low)
                expected = degree * at ** (degree - 1) if tangent else chord
            assert steep == near(expected)
