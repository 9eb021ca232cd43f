"""Terms of the certificates' bounds of rounding that other terms cover in whole certificates, each where it is alone.

The functions that hold a term are called on their own: its neighbours are 0 there, or far too small.
"""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from test_certificate_rounding import LARGE, SINGLE, expansion, fractions, lead_of

from buttress.certificates import relaxation
from buttress.certificates import second_order as second_module
from buttress.certificates.region import Attacker, Region
from buttress.certificates.relaxation import (
    Below,
    Lead,
    RadialLines,
    _added,
    _line,
    _linear,
    _product,
    _radial,
    _refined,
    grown_bias,
    relaxed,
)
from buttress.certificates.second_order import _after_second, _axes, second_order
from buttress.expansion import KernelExpansion
from buttress.kernels import RBF, Cauchy, InverseMultiquadric, Laplacian, Log, MultiscaleRBF, Polynomial

HALF = 2.0**-53  # is lost beside 1


def box_of(row, half):
    """The region |x - row| <= half of one row, as it is."""
    return Region(np.array([row], float), np.array([half], float), None, np.ones(len(row)), np.ones(1))


def square_in_single(x):
    """|x|^2 as a loop in float32 sums it."""
    terms = np.asarray(x, np.float32) ** 2
    return float(np.add.accumulate(terms)[-1])


def worst_row(total, d=128):
    """A row of float32 numbers whose squared length, about ``total``, a loop in float32 gets most wrong."""
    rows = np.random.default_rng(0).uniform(0.5, 1, size=(2000, d))
    rows = (rows * np.sqrt(total / (rows**2).sum(axis=1))[:, None]).astype(np.float32)
    errors = [abs(square_in_single(x) - float((x.astype(float) ** 2).sum())) for x in rows]
    return rows[int(np.argmax(errors))].astype(float)


@pytest.mark.parametrize("far", ["row", "centre"])
def test_the_slack_is_that_of_the_lengths_of_rows_and_of_centres(far):
    x, z = np.zeros(128), np.zeros(128)
    (x if far == "row" else z)[:] = worst_row(50.0)
    lead = lead_of(RBF(1.0), [z], [1.0])
    lead.unit = SINGLE
    true = sum(one**2 for one in fractions(x + z))
    slack = Fraction(float(lead.slack(box_of(x, np.zeros(128)))[0, 0]))
    assert 0 < abs(Fraction(square_in_single(x + z)) - true) <= slack


def test_sums_of_doubts_and_a_doubt_beside_a_constant_are_rounded_up():
    flat = np.zeros((1, 1))
    parts = [Below(flat[0], flat, flat[0], np.array([doubt])) for doubt in (1.0, HALF, HALF)]
    assert Fraction(float(_added(parts, box_of([0.0], [1.0])).doubt[0])) >= 1 + 2 * Fraction(HALF)
    zeros = np.zeros((1, 3))
    doubt = _line(box_of([0.0], [1.0]), np.zeros((3, 1)), zeros, zeros, np.array([[1.0, HALF, HALF]]), 1.0, 1).doubt[0]
    assert Fraction(float(doubt)) >= 1 + 2 * Fraction(HALF)
    line = Below(np.array([-(2.0**-54)]), flat, flat[0], np.ones(1))
    assert Fraction(float(_refined(lambda guess: line, box_of([0.0], [0.5]))[0][0])) <= -1 - Fraction(2.0**-54)


def test_a_linear_part_is_off_by_what_cancels_in_its_moves_and_behind_its_scaler():
    lead = lead_of(RBF(1.0), [[0.0, 0.0, 0.0]], [1.0])
    lead.tilt = LARGE
    assert _linear(lead, box_of([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])).doubt[0] >= 1.0
    z, off, shift = scaled_to_zero()
    lead = lead_of(RBF(1.0), [[0.0]], [1.0])
    lead.tilt, lead.origin = np.ones((1, 1)), shift
    assert _linear(lead, box_of([z], [0.0])).doubt[0] >= off > 0


def scaled_to_zero():
    """A number that x a + b brings near 0, by how much rounding moved it, and |b|."""
    rng = np.random.default_rng(0)
    worst = 0.0, 0.0, 0.0
    for x in rng.uniform(9e5, 1e6, size=100):
        b = -float(x * 0.1) + 1e-3
        z = float(x * 0.1 + b)
        worst = max(worst, (float(abs(Fraction(z) - Fraction(float(x)) * Fraction(0.1) - Fraction(b))), z, -b))
    return worst[1], worst[0], worst[2]


def test_no_line_is_above_a_kernel_whose_centre_lies_within_the_ball():
    """A chord from the border of the ball to its far side is above the values near the centre."""
    region = Attacker("l2", np.ones(1)).region(np.zeros((1, 1)), np.ones(1))
    for apart in (0.5, 0.8, 0.9):
        lead = lead_of(Laplacian(1.0), [[apart]], [-1.0])
        assert relaxed(lead, region)[0][0] <= -1.0


class Off(Lead):
    """A lead of which squared distances, or products, may be off by ``room``."""

    room = 1e-3

    def slack(self, region):
        return np.full((len(region.anchor), len(self.centers)), self.room)


@pytest.mark.parametrize("here", [-1, 0, 1])
@pytest.mark.parametrize("kernel", [Laplacian(1.0), Cauchy(1.0), MultiscaleRBF([1.0])], ids=str)
def test_lines_hold_for_distances_off_by_all_of_the_slack_here_and_in_the_model(kernel, here, monkeypatch):
    room = Off.room
    monkeypatch.setattr(relaxation, "squared_distances", lambda X, Z: np.maximum(
        ((X[:, None] - Z) ** 2).sum(axis=2) + here * room, 0))
    for apart, half, weight in ((a, h, w) for a in (0.0, room, 2 * room, 0.01, 1.0) for h in (0.0, 0.5, 1.0)
                                for w in (1.0, -1.0)):
        lead = Off([(kernel, 1.0)], np.array([[np.sqrt(apart)]]), np.array([[weight]]), np.zeros(1), np.ones(1))
        lines = _radial(kernel, 1.0, lead, box_of([0.0], [half]))
        for guess in (0.0, half, -half):
            line = lines(np.array([[guess]]))
            for d in np.linspace(-half, half, 9):
                low = (line.const + line.slope[:, 0] * d + line.bend * d**2 - line.doubt)[0]
                t = (np.sqrt(apart) - d) ** 2
                model = [weight * kernel.profile(np.array([max(t + side * room, 0.0)]))[0] for side in (-1, 0, 1)]
                assert low <= min(model) + 1e-12


@pytest.mark.parametrize("kernel", [Polynomial(2, 0.5, 0.0), Polynomial(3, 0.5, 1.0), Polynomial(4, 1.0, 0.0)], ids=str)
def test_lines_of_powers_hold_for_products_off_by_all_of_the_slack(kernel):
    for z, half, weight in ((z, h, w) for z in (0.0, 1.0, -3.0) for h in (0.0, 0.5) for w in (1.0, -1.0)):
        lead = Off([(kernel, 1.0)], np.array([[z]]), np.array([[weight]]), np.zeros(1), np.ones(1))
        lines = _product(kernel, 1.0, lead, box_of([1.0], [half]))
        for guess in (0.0, half, -half):
            line = lines(np.array([[guess]]))
            for d in np.linspace(-half, half, 5):
                low = (line.const + line.slope[:, 0] * d - line.doubt)[0]
                sides = (kernel.gamma * (z * (1 + d) + side * Off.room) + kernel.coef0 for side in (-1, 0, 1))
                assert low <= min(weight * t**kernel.degree for t in sides) + 1e-15


def test_the_sum_of_bends_is_known_to_its_own_digits():
    """Slopes of about 1e16 and 1: what is lost counts 1e4 times in a box of 100."""
    kernel, flat, worst = Cauchy(1.0), np.zeros((1, 1)), 0
    region = box_of([0.0], [100.0])
    for weight in (1.1, 1.3, 1.7):
        lead = Off([(kernel, 1.0)], np.zeros((2, 1)), np.array([[1e16, weight]]), np.zeros(1), np.ones(1))
        lead.room = 0.0
        steep = RadialLines.over(kernel, lead.centers, region).tangents(np.zeros((1, 2)))[1] * lead.weights
        line = _radial(kernel, 1.0, lead, region)(flat)
        lost = abs(sum(fractions(steep)) - Fraction(float(line.bend[0]))) * 10**4
        worst = max(worst, lost)
        assert lost <= Fraction(float(line.doubt[0]))
    assert worst > 2000


@pytest.mark.parametrize("kernel", [RBF(1.0), MultiscaleRBF([1.0])], ids=str)
@pytest.mark.parametrize("centre", [0.0, 26.62])
def test_values_below_the_range_of_float64_may_be_0_in_a_model(kernel, centre):
    """Near e^(-709) a model may say 0, of which the intercept then decides."""
    lead = lead_of(kernel, [[centre]], [1.0], bias=-1e-309)
    assert relaxed(lead, box_of([0.0], [0.0 if centre else 26.62]))[0][0] <= 0


def test_a_bias_grown_by_hundreds_of_powers_of_e_is_below_itself():
    rng = np.random.default_rng(0)
    with localcontext() as context:
        context.prec = 60
        for _ in range(100):
            bias, far = float(rng.uniform(0.5, 1)), float(rng.uniform(15, 25))
            line = grown_bias(lead_of(RBF(1.0), [[0.0]], [1.0], bias), 1.0, np.array([far**2]), np.array([[far]]))
            square = Decimal(far) ** 2
            said = Decimal(float(line.const[0])) + Decimal(float(line.bend[0])) * square - Decimal(float(line.doubt[0]))
            assert said <= Decimal(bias) * square.exp()


def test_a_region_around_0_and_one_at_the_edge_of_its_ball_hold_their_moves():
    rng = np.random.default_rng(0)
    for scale, radius in rng.uniform(0.1, 10, size=(50, 2)):
        region = Attacker("linf", np.array([scale])).region(np.zeros((1, 1)), np.array([radius]))
        assert fractions(region.half)[0] >= Fraction(scale) * Fraction(radius)
    for row, edge in rng.uniform(0.5, 1, size=(50, 2)):  # a box about 0 on the ball's border
        low, high = np.array([[-edge * 1e-9]]), np.array([[edge * 2e-9]])
        region = Attacker("l2", np.ones(1), low, high).region(np.array([[row]]), np.array([row]))
        middle = fractions(region.anchor)[0] + fractions(region.offset)[0]
        assert fractions(region.radius)[0] >= max(middle, Fraction(row))


def test_halves_of_a_ball_far_from_0_reach_its_border():
    """The middle of a half is rounded at 1e8, that of the ball seen from it is not."""
    from buttress.certificates.branch import _halved

    lead, rng = lead_of(RBF(1.0), [[0.0], [1.0]], [1.0, -1.0]), np.random.default_rng(0)
    for _ in range(50):
        row = 1e8 * rng.uniform(1, 2)
        whole = Region(np.array([[row]]), np.array([[1e-7]]), np.array([[3e-9]]), np.ones(1), np.array([5e-8]))
        centre = fractions(whole.anchor)[0] + fractions(whole.offset)[0]
        for child in range(2):
            half = _halved(lead, whole)[[child]]
            moved = fractions(half.anchor)[0] + fractions(half.offset)[0]
            assert fractions(half.radius)[0] >= fractions(whole.radius)[0] + abs(moved - centre)


def in_exact_numbers(region, slope, bend, multiplier):
    """The least over the box of the function with the ball's multiplier."""
    total = -Fraction(multiplier) * fractions(region.radius)[0] ** 2
    for p, o, s, h in zip(*map(fractions, (slope, region.offset, region.scale, region.half)), strict=True):
        weight = Fraction(multiplier) / s**2
        bent, steep = Fraction(bend) + weight, p - 2 * weight * o
        at = [-h, h] + ([-steep / (2 * bent)] if bent > 0 and abs(steep) <= 2 * bent * h else [])
        total += min(steep * d + bent * d**2 for d in at) + weight * o**2
    return total


@pytest.mark.parametrize(("half", "offset", "radius"), [(1e-30, 1.0, 1e-30), (1e-30, 0.0, 1.0), (1.0, 1e-9, 1e-30)])
def test_a_multiplier_of_the_ball_bounds_what_each_of_its_parts_loses(half, offset, radius):
    rng = np.random.default_rng(0)
    for _ in range(60):
        o, r, k = offset * rng.uniform(0.5, 1, size=2), radius * rng.uniform(0.5, 1), float(rng.uniform(0.5, 1))
        region = Region(np.zeros((1, 2)), np.full((1, 2), half), o[None], np.ones(2), np.array([r]))
        value = region._with_multiplier(2 * k * o[None] * (half == 1.0), np.array([-k]), np.array([k]))[0][0]
        true = in_exact_numbers(region, 2 * k * o * (half == 1.0), -k, k)
        assert Fraction(float(value)) <= true
    slope = np.array([[0.3 * 3, 0.0]])  # 2 k o is rounded, and cancels against the slope
    for k in rng.uniform(0.5, 1, size=60):
        region = Region(np.zeros((1, 2)), np.ones((1, 2)), np.array([[1e-9 / 3, 0.0]]), np.ones(2), np.array([1e-30]))
        slope = 2 * k * region.offset
        value = region._with_multiplier(slope, np.array([-k]), np.array([k]))[0][0]
        assert Fraction(float(value)) <= in_exact_numbers(region, slope, -k, k)


def test_the_cube_takes_off_what_stands_for_its_matrix_differs_by():
    def bound(off):
        second = expansion()
        second.turned, second.slope, second.entries = np.full((1, 2), 1e6), np.ones((1, 2)), np.array([1e6])
        second.spectrum, second.off = np.array([[-1.0, 1.0]]), np.array([off])
        return second.bound(np.array([0.5]), "linf")[0]

    plain = bound([0.0, 0.0, 0.0])
    assert bound([1.0, 0.0, 0.0]) <= plain - 0.499
    assert bound([0.0, 1.0, 0.0]) <= plain - 0.499


def test_the_entries_of_a_matrix_are_summed_without_its_diagonal(monkeypatch):
    for rising, few in ((1e16, 0.3), (0.0, HALF / 2)):
        B = np.array([[rising, few, 1.0 if few < 0.1 else 0.0], [few, 0.0, 0.0], [1.0 if few < 0.1 else 0.0, 0.0, 0.0]])
        monkeypatch.setattr(second_module, "_expand_polynomial", lambda *given, B=B: (
            0.0, np.zeros(3), B, 0.0, np.zeros(3), np.zeros(4)))
        second = second_order(lead_of(Polynomial(2, 1.0, 1.0), np.zeros((1, 3)), [1.0]), np.zeros((1, 3)), np.ones(3))
        assert Fraction(float(second.entries[0])) >= sum(map(abs, fractions(B))) - Fraction(rising)


def test_the_rest_of_an_exponential_series_is_rounded_up():
    with localcontext() as context:
        context.prec = 60
        for q in [*np.linspace(1e-3, 3, 400), *np.geomspace(3, 600, 50)]:
            q = float(q)
            true = Decimal(q).exp() - 1 - Decimal(q) - Decimal(q) ** 2 / 2
            assert Decimal(float(_after_second(np.array([q]))[0])) >= true


def test_what_an_expansion_of_second_order_leaves_out_is_not_below_that_of_60_digits():
    """Near the only centre R^2 is far below what rounding changes in the differences it comes from."""
    rng = np.random.default_rng(0)
    for far in rng.uniform(1e-4, 1e-2, size=60):
        z = float(far)
        second = second_order(lead_of(RBF(1.0), [[z]], [1.0], square=1.0), np.zeros((1, 1)), np.ones(1))
        with localcontext() as context:
            context.prec = 60
            z2 = Decimal(z) ** 2
            true = 1 - (-2 * z2).exp() * (1 + 2 * z2 + 2 * z2**2)
            assert Decimal(float(second.left[0])) ** 2 >= true > 0


def test_values_below_the_range_of_float64_count_in_the_second_order():
    """e^(-800) is 0 in float64, and times -1e60 far above an intercept of 1e-300."""
    lead = lead_of(RBF(1.0), [[np.sqrt(800.0)]], [-1e60], bias=1e-300, square=1e120)
    assert second_order(lead, np.zeros((1, 1)), np.ones(1)).bound(np.array([1e-200]), "l2")[0] <= 0


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_an_intercept_grown_by_hundreds_of_powers_of_e_is_below_itself_in_the_second_order(norm):
    rng = np.random.default_rng(0)
    for scale, far in zip(rng.uniform(0.5, 2, size=100), rng.uniform(15, 18, size=100), strict=True):
        second = nothing_but(bias=-1.0, scale=scale)
        said = second.bound(np.array([far / scale]), norm)[0]
        with localcontext() as context:
            context.prec = 60
            assert Decimal(float(said)) <= -((Decimal(float(scale)) * Decimal(float(far / scale))) ** 2).exp()


def test_a_doubt_beside_a_value_of_the_second_order_is_rounded_up():
    second = nothing_but()
    second.value, second.sizes = np.array([-(2.0**-54)]), np.array([[1.0, 0.0, 0.0]])
    assert Fraction(float(second.bound(np.array([0.5]), "l2")[0])) <= -1 - Fraction(2.0**-54)


def nothing_but(bias=0.0, scale=1.0):
    """The second order of an intercept alone, for an RBF kernel of gamma 1 and one column."""
    second = second_order(lead_of(RBF(1.0), [[0.0]], [1.0], square=1.0), np.zeros((1, 1)), np.full(1, scale))
    for name in ("value", "slope", "spectrum", "turned", "entries", "left", "off", "sizes", "summed"):
        setattr(second, name, np.zeros_like(getattr(second, name)))
    second.bias = np.array([bias])
    return second


def test_norms_of_what_axes_miss_are_not_below_those_of_fractions(monkeypatch):
    rng = np.random.default_rng(0)
    for _ in range(100):
        A = rng.normal(size=(2, 2))
        B = (A + A.T)[None]
        (e, V), off = np.linalg.eigh(B), _axes(B, np.zeros((1, 2)))[2]
        assert fractions(off)[0] ** 2 >= missed(B[0], e[0], V[0])
    monkeypatch.setattr(np.linalg, "eigh", lambda B: (np.zeros((1, 2)), np.eye(2)[None]))
    for _ in range(100):
        B = rng.normal(size=(1, 2, 2))
        assert fractions(_axes(B, np.zeros((1, 2)))[2])[0] ** 2 >= missed(B[0], np.zeros(2), np.eye(2))


def missed(B, e, V):
    """|B - V diag(e) V'|^2 in fractions."""
    d = len(B)
    V = [fractions(row) for row in V]
    return sum((Fraction(float(B[i, j])) - sum(V[i][k] * Fraction(float(e[k])) * V[j][k] for k in range(d))) ** 2
               for i in range(d) for j in range(d))


@pytest.mark.parametrize("far", ["row", "centre", "move"])
def test_scores_of_float32_are_known_as_well_as_their_distances(far):
    """e^(-50) from 128 squares that float32 adds up: by the lengths of the row, of the centre, or of the move."""
    x, places = worst_row(50.0), {"row": np.zeros(128), "centre": np.zeros(128)}
    if far != "move":
        places[far] = x
    lead = lead_of(RBF(1.0), [places["centre"]], [1.0], square=1.0)
    lead.unit = SINGLE
    second = second_order(lead, places["row"][None], np.ones(128))
    true = float((x**2).sum())
    doubt = second._doubt(np.array([np.sqrt(true) if far == "move" else 0.0]))[0]
    grown = true if far == "move" else 0.0
    assert doubt >= abs(np.exp(grown - square_in_single(x)) - np.exp(grown - true)) > 0


@pytest.mark.parametrize("kernel", [RBF(1.0), Polynomial(2, 1.0, 1.0)], ids=str)
def test_what_a_scaler_loses_moves_the_scores_of_the_second_order(kernel):
    z, off, shift = scaled_to_zero()
    lead = lead_of(kernel, [[0.3]], [1.0], square=1.0)
    lead.origin = shift
    doubt = second_order(lead, np.array([[z]]), np.ones(1))._doubt(np.zeros(1))[0]
    places = np.array([[z - off], [z + off]])
    assert doubt >= np.abs(kernel(places, lead.centers) - kernel(np.array([[z]]), lead.centers)).max() > 1e-12


def test_the_sum_over_centres_and_products_of_a_model_of_float32_lose_a_unit_a_term():
    many, d = 20000, 128
    weights = np.append(1.0, np.full(many - 1, SINGLE / 4))
    lead = lead_of(Polynomial(2, 1.0, 1.0), np.zeros((many, 1)), weights, square=1.0)
    lead.unit = SINGLE
    second = second_order(lead, np.zeros((1, 1)), np.ones(1))
    lost = (many - 1) * SINGLE / 4  # each is less than half a unit of 1
    assert second._doubt(np.zeros(1))[0] >= lost
    x = np.append(1.0, np.full(d - 1, 2.0**-12))
    lead = lead_of(Polynomial(3, 1.0, 0.0), [x], [1.0], square=1.0)
    lead.unit = SINGLE
    assert square_in_single(x) == 1.0
    doubt = second_order(lead, x[None], np.ones(d))._doubt(np.zeros(1))[0]
    assert doubt >= float((x @ x) ** 3 - 1) > 0
    lead = lead_of(Polynomial(2, 1.0, 0.0), [[0.1, 0.3]], [1.0], square=1.0)
    row = np.array([[0.7, 0.9]])
    true = sum(a * b for a, b in zip(fractions(lead.centers), fractions(row), strict=True)) ** 2
    assert Fraction(float(second_order(lead, row, np.ones(2))._doubt(np.zeros(1))[0])) >= abs(
        Fraction(float(lead(row)[0])) - true)


def test_what_is_left_of_a_norm_that_cancels_is_not_below_it():
    """R^2 of one centre is (2 gamma r^2)^3 / 6, which 1 less its first terms does not show."""
    q = 1e-6
    second = second_order(lead_of(RBF(1.0), [[float(np.sqrt(q / 2))]], [1.0], square=1.0), np.zeros((1, 1)), np.ones(1))
    assert second.left[0] ** 2 >= q**3 / 6
    near = 1 + 2.0**-27
    lead = lead_of(Polynomial(3, 1.0, 0.0), [[1.0], [near]], [1.0, -1.0], square=0.0)
    assert second_order(lead, np.zeros((1, 1)), np.ones(1)).left[0] >= near**3 - 1


def test_terms_of_a_centre_whose_value_is_0_in_float64_have_a_size():
    """e^(-750), of which the terms of order 2 are 1500 times as large."""
    r = float(np.sqrt(750.0))
    second = second_order(lead_of(RBF(1.0), [[r]], [1.0], square=1.0), np.zeros((1, 1)), np.ones(1))
    assert second.value[0] == 0
    for size, order in zip(second.sizes[0], (1.0, 2 * r, 2 * r**2), strict=True):
        with localcontext() as context:
            context.prec = 60
            assert Decimal(float(size)) >= Decimal(-750).exp() * Decimal(order)


def test_coefficients_whose_squares_are_0_prove_nothing_beyond_the_second_order():
    """At 1e-170 the squares of norms are 0, and the rest of the series with them: the lead is below 0 within 1."""
    centers = [[1.64323629], [0.66087415], [-2.60631446]]
    weights = np.array([0.90535587, 0.44637457, -0.53695324])
    reached = min(weights @ np.exp(-(np.subtract(centers, x)[:, 0] ** 2)) for x in np.linspace(-1, 1, 99))
    assert reached < 0
    lead = lead_of(RBF(1.0), centers, 1e-170 * weights, square=0.0)
    assert second_order(lead, np.zeros((1, 1)), np.ones(1)).bound(np.ones(1), "l2")[0] <= 0
    found = second_order(lead_of(RBF(1.0), centers, weights), np.zeros((1, 1)), np.ones(1))
    assert found.bound(np.ones(1), "l2")[0] <= reached


@pytest.mark.parametrize("far", [3.0, 10.0, 1e3])
@pytest.mark.parametrize("kernel", [Cauchy(1.0), InverseMultiquadric(1.0), MultiscaleRBF([1.0, 0.5]), Laplacian(1.0),
                                    Log(1.0, 1.0), RBF(1.0)], ids=lambda kernel: type(kernel).__name__)
def test_distances_are_as_exact_as_those_from_the_median_of_the_centres(kernel, far):
    """A row and a centre near 0, the other centres far away, and so their median: within .9 r distances become 0."""
    centers, weights = np.r_[0.0, np.full(15, far)][:, None], np.r_[-1.0, np.zeros(15)]
    r = 0.9 * np.sqrt(16 * np.finfo(float).eps * 2 * far**2)
    lead = lead_of(kernel, centers, weights)
    points = np.linspace(r, 3 * r, 501)[:, None]
    model = KernelExpansion(kernel, centers, weights[:, None], np.zeros(1))(points)[:, 0]
    model = model * np.exp((points[:, 0] - 2 * r) ** 2) if isinstance(kernel, RBF) else model
    assert relaxed(lead, box_of([2 * r], [r]).rounded())[0][0] <= model.min()


@pytest.mark.parametrize("count", [512, 4096])
def test_a_mean_of_many_kernels_is_off_by_a_unit_for_each(count):
    kernel = MultiscaleRBF([1.0] * count)
    squares = np.linspace(0.3, 0.7, 41) * count * 2.0**-53
    off = kernel.profile(squares) - np.exp(-squares)
    near, far = sorted(np.sqrt(squares[[off.argmax(), off.argmin()]]))
    region = box_of([np.sqrt(squares[off.argmax()])], [far - near]).rounded()
    points = np.linspace(region.anchor[0, 0] - far + near, region.anchor[0, 0] + far - near, 501)[:, None]
    model = KernelExpansion(kernel, np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1))(points)
    assert relaxed(lead_of(kernel, [[0.0]], [1.0]), region)[0][0] <= model.min()
