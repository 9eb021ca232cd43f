"""Each allowance for rounding in the certificates of kernel machines, against exact fractions and numbers of 60 digits.

A test here fails if the allowance it is about is left out: it makes a case in which that alone holds the bound.
"""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hostile_lines import search
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from buttress import SVC
from buttress._proof import UNIT
from buttress.certificates.branch import _halved
from buttress.certificates.leads import Leads
from buttress.certificates.region import Attacker, Region
from buttress.certificates.relaxation import (
    Below,
    Lead,
    _added,
    _line,
    _linear,
    _refined,
    grown_bias,
    relaxed,
)
from buttress.certificates.second_order import _axes, second_order
from buttress.kernels import RBF, Cauchy, Laplacian, Linear, Polynomial, squared_distances
from buttress.scores import read_scores


def fractions(values):
    return [Fraction(float(value)) for value in np.ravel(values)]


def lead_of(kernel, Z, w, bias=0.0, square=1e30):
    return Lead([(kernel, 1.0)], np.array(Z, float), np.array([w], float), np.array([bias]), np.array([square]))


def box_of(row, half):
    """The region |x - row| <= half of one row, in l_inf."""
    return Attacker("linf", np.asarray(half, float)).region(np.array([row], float), np.ones(1))


@pytest.mark.parametrize("seed", [0, 1])
def test_no_bound_is_above_a_lead_that_is_0_in_exact_numbers(seed):
    compared, false = search(seed, 300)
    assert compared > 150
    assert false == []


def test_a_far_kernel_value_below_the_least_float_still_counts():
    """e^(-750) is 0 in float64, but a move of 12.7 towards its centre makes it e^(-216), which decides."""
    lead = lead_of(RBF(1.0), [[0.0], [27.4]], [1e-25, -1.0])
    assert relaxed(lead, box_of([0.0], [12.7]))[0][0] <= 0


LARGE = np.array([[1e16, 1.0, -1e16]])  # sums to 1, in float64 to 0


@pytest.mark.parametrize("which", ["value", "slope", "anchor"])
def test_a_sum_of_lines_that_cancel_says_what_it_lost(which):
    zeros = np.zeros((1, 3))
    value, steep = (LARGE, zeros) if which == "value" else (zeros, LARGE)
    centers = np.full((3, 1), 0.0 if which == "anchor" else 1.0)
    region = box_of([-1.0 if which == "anchor" else 0.0], [1.0])
    line = _line(region, centers, value, steep, zeros, 1.0, 1)
    said = line.const[0] + line.slope[0, 0] - line.doubt[0]
    assert said <= 1.0
    assert line.const[0] - line.slope[0, 0] + line.doubt[0] >= (1.0 if which == "value" else -1.0)
    assert line.doubt[0] >= 1 - abs(line.const[0] + line.slope[0, 0])


@pytest.mark.parametrize("name", ["const", "slope", "bend"])
def test_a_sum_of_functions_that_cancel_says_what_it_lost(name):
    parts = []
    for number in LARGE[0]:
        part = Below(np.zeros(1), np.zeros((1, 1)), np.zeros(1), np.zeros(1))
        getattr(part, name)[...] = number
        parts.append(part)
    whole = _added(parts, box_of([0.0], [1.0]))
    assert float(getattr(whole, name).ravel()[0]) != 1.0
    assert whole.doubt[0] >= 1.0


def test_a_region_holds_every_move_in_exact_numbers():
    rng = np.random.default_rng(0)
    for norm in ("linf", "l2"):
        for _ in range(200):
            row, scale = 10.0 ** rng.uniform(0, 9) * rng.normal(size=2), 10.0 ** rng.uniform(-2, 2, size=2)
            radius = float(10.0 ** rng.uniform(-10, 0))
            low, high = row - radius * scale * rng.random(2), row + radius * scale * rng.random(2)
            region = Attacker(norm, scale, low[None], high[None]).region(row[None], np.array([radius]))
            for move in ([1, 0], [0, -1], [-1, 0], [0.6, 0.8]):
                x = [Fraction(float(r)) + Fraction(float(s)) * Fraction(radius) * Fraction(m)
                     for r, s, m in zip(row, scale, move, strict=True)]
                x = [min(max(one, Fraction(float(a))), Fraction(float(b))) for one, a, b in
                     zip(x, low, high, strict=True)]
                assert inside(region, x)


def inside(region, x):
    """Say whether a point of fractions lies in the region of one row."""
    d = [one - anchor for one, anchor in zip(x, fractions(region.anchor), strict=True)]
    if any(abs(one) > half for one, half in zip(d, fractions(region.half), strict=True)):
        return False
    if region.offset is None:
        return True
    away = [(one - middle) / scale for one, middle, scale in
            zip(d, fractions(region.offset), fractions(region.scale), strict=True)]
    return sum(one**2 for one in away) <= Fraction(float(region.radius[0])) ** 2


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_halves_of_a_part_cover_it_in_exact_numbers(norm):
    """The middles of the halves are rounded: at 1e8 by as much as the halves are wide."""
    rng = np.random.default_rng(1)
    lead = lead_of(RBF(1.0), rng.normal(size=(3, 2)), [1.0, -1.0, 1.0])
    for _ in range(100):
        row = 10.0 ** rng.uniform(0, 8) * rng.normal(size=2)
        parts = Attacker(norm, np.ones(2)).region(row[None], np.array([float(10.0 ** rng.uniform(-9, 0))]))
        for _ in range(6):
            children = _halved(lead, parts)
            for u in rng.uniform(-1, 1, size=(20, 2)):
                x = [a + h * Fraction(v) for a, h, v in
                     zip(fractions(parts.anchor), fractions(parts.half), u, strict=True)]
                assert not inside(parts, x) or any(inside(children[[i]], x) for i in range(len(children.anchor)))
            parts = children[[int(rng.integers(len(children.anchor)))]]


def test_spans_hold_every_product_in_exact_numbers():
    rng = np.random.default_rng(2)
    for _ in range(200):
        d = int(rng.choice([2, 40]))
        row, Z = 10.0 ** rng.uniform(-3, 6) * rng.normal(size=d), rng.normal(size=(3, d))
        half = 10.0 ** rng.uniform(-6, 0, size=d)
        offset = half * rng.uniform(-1, 1, size=d)
        for region in (box_of(row, half), Region(row[None], half[None], offset[None], np.ones(d), half.min()[None])):
            least, most, _ = region.spans(Z)
            for j, z in enumerate(Z):
                away = [b - a for a, b in zip(fractions(region.anchor), fractions(z), strict=True)]
                moves = fractions(region.half)
                reach = sum(abs(one) * move for one, move in zip(away, moves, strict=True))
                if region.offset is None:
                    assert Fraction(float(most[0, j])) >= reach
                    assert Fraction(float(least[0, j])) <= -reach
                    continue
                middle = sum(one * move for one, move in zip(away, fractions(offset), strict=True))
                square = sum(one**2 for one in away) * Fraction(float(region.radius[0])) ** 2
                over = Fraction(float(most[0, j])) - middle
                assert Fraction(float(most[0, j])) >= reach or (over >= 0 and over**2 >= square)


def test_spans_of_products_and_the_longest_move_hold_in_exact_numbers():
    rng = np.random.default_rng(6)
    for _ in range(300):
        d = int(rng.choice([1, 3, 40]))
        half, Z = 10.0 ** rng.uniform(-6, 0, size=d), rng.normal(size=(3, d))
        offset = half * rng.uniform(-1, 1, size=d)
        box = Region(np.zeros((1, d)), half[None], None, np.ones(d), half.min()[None])
        ball = Region(np.zeros((1, d)), half[None], offset[None], np.ones(d), half.min()[None])
        assert Fraction(float(box.longest()[0])) ** 2 >= sum(one**2 for one in fractions(half))
        for j, z in enumerate(Z):
            reach = sum(abs(a) * b for a, b in zip(fractions(z), fractions(half), strict=True))
            least, most, _ = box.spans(Z)
            assert Fraction(float(least[0, j])) <= -reach <= reach <= Fraction(float(most[0, j]))
            middle = sum(a * b for a, b in zip(fractions(z), fractions(offset), strict=True))
            square = sum(one**2 for one in fractions(z)) * Fraction(float(half.min())) ** 2
            over = Fraction(float(ball.spans(Z)[1][0, j])) - middle
            assert over + middle >= reach or (over >= 0 and over**2 >= square)


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler()], ids=str)
@pytest.mark.parametrize(("far", "wide"), [(0.0, 1e4), (1e9, 1e-3)])
def test_the_slack_holds_what_a_model_may_lose_in_squared_distances(scaler, far, wide):
    """Far moves of a row at the middle; columns far from 0, which the scalers bring there."""
    rng = np.random.default_rng(7)
    X = far + rng.normal(size=(40, 3))
    model = make_pipeline(scaler, SVC(gamma=1.0)).fit(X, X[:, 0] > far)
    leads = Leads(read_scores(model), 3)
    Z, lead = leads.score.inner(X[:1]), leads.rivals(X[:1], leads.scale)[0].lead
    slack = lead.slack(Attacker("linf", np.full(3, wide)).region(Z, np.ones(1)))
    for _ in range(20):
        x = (Z[0] + 0.999 * wide * rng.choice([-1, 1], size=3)) / leads.score.scale + leads.score.shift
        squares = squared_distances(model[0].transform(x[None]), lead.centers)[0]
        scaled = behind(model[0], x)
        for square, z, room in zip(squares, lead.centers, slack[0], strict=True):
            true = sum((a - b) ** 2 for a, b in zip(scaled, fractions(z), strict=True))
            assert abs(Fraction(float(square)) - true) <= Fraction(float(room))


def behind(scaler, x):
    """Return a row behind a scaler, in exact numbers."""
    if isinstance(scaler, StandardScaler):
        return [(a - b) / c for a, b, c in zip(fractions(x), fractions(scaler.mean_), fractions(scaler.scale_),
                                               strict=True)]
    return [a * c + b for a, b, c in zip(fractions(x), fractions(scaler.min_), fractions(scaler.scale_), strict=True)]


def test_a_ball_as_wide_as_its_row_is_far_loses_no_digit_of_its_reach():
    """At 1e8 from the origin |z - a|^2 from products is off by more than it is; the reach must not be."""
    rng = np.random.default_rng(3)
    for _ in range(100):
        d = 64
        row = 1e8 + rng.normal(size=d)
        Z = row + 1e-3 * rng.normal(size=(2, d))
        region = Attacker("l2", np.ones(d)).region(row[None], np.ones(1))
        most = region.spans(Z)[1]
        for j, z in enumerate(Z):
            square = sum((b - a) ** 2 for a, b in zip(fractions(row), fractions(z), strict=True))
            assert Fraction(float(most[0, j])) ** 2 >= square


def test_the_least_of_a_quadratic_is_below_it_in_exact_numbers():
    rng = np.random.default_rng(4)
    for _ in range(300):
        d = int(rng.choice([1, 3, 30]))
        slope, half = rng.normal(size=d) * 10.0 ** rng.uniform(-8, 8, size=d), 10.0 ** rng.uniform(-8, 2, size=d)
        bend = float(rng.choice([-1, 0, 1])) * 10.0 ** rng.uniform(-8, 8)
        region = Region(np.zeros((1, d)), half[None], None, np.ones(d), np.ones(1))
        low = Fraction(float(region.least(slope[None], np.array([bend]))[0][0]))
        true = Fraction(0)
        for p, h in zip(fractions(slope), fractions(half), strict=True):
            ends = [-p * h + Fraction(bend) * h**2, p * h + Fraction(bend) * h**2]
            middle = -p / (2 * Fraction(bend)) if bend > 0 else None
            inner = [p * middle + Fraction(bend) * middle**2] if middle is not None and abs(middle) <= h else []
            true += min(ends + inner)
        assert low <= true
        assert low >= true - Fraction(1e-12) * (abs(true) + sum(abs(p) * h for p, h in zip(
            fractions(slope), fractions(half), strict=True)))


def test_axes_stand_for_their_matrix_but_for_what_they_say():
    """Exactly, with w = V'u: p'u + u'Bu >= (V'p)'w + w'diag(e) w - lost |u|^2 - apart |u|, |w|^2 <= (1 + longer) |u|^2.
    """
    rng = np.random.default_rng(5)
    for d in (2, 12):
        for _ in range(10):
            A = rng.normal(size=(d, d)) * 10.0 ** rng.uniform(-6, 6, size=d)
            B, p = (A + A.T)[None], rng.normal(size=(1, d))
            e, turned, off = _axes(B, p)
            V = np.linalg.eigh(B)[1][0]
            for _ in range(5):
                u = fractions(rng.normal(size=d))
                w = [sum(Fraction(float(V[i, k])) * u[i] for i in range(d)) for k in range(d)]
                true = sum(a * b for a, b in zip(fractions(p), u, strict=True)) + sum(
                    u[i] * Fraction(float(B[0, i, j])) * u[j] for i in range(d) for j in range(d))
                said = sum(q * one + f * one**2 for q, f, one in zip(fractions(turned), fractions(e), w, strict=True))
                lost, longer, apart = fractions(off)
                square = sum(one**2 for one in u)
                assert (true - said + lost * square) >= 0 or (said - true - lost * square) ** 2 <= apart**2 * square
                assert sum(one**2 for one in w) <= (1 + longer) * square


@pytest.mark.parametrize("kernel", [RBF(0.5), Laplacian(0.5), Cauchy(0.4), Polynomial(2, 0.5, 1.0), Linear(0.5)],
                         ids=str)
def test_a_lead_smaller_than_what_the_model_sums_is_not_proven(kernel):
    """Two classes whose scores are 1e9 and differ by 1e-9: the model's own sums are off by more."""
    lead = lead_of(kernel, [[0.3, 0.2], [0.1, 0.4]], [1.0, -0.9])
    x, region = np.array([[0.2, 0.3]]), box_of([0.2, 0.3], [1e-12, 1e-12])
    assert relaxed(lead, region)[0][0] > 0
    lead.bias = 1e-9 - lead(x)
    assert relaxed(lead, region)[0][0] > 0
    lead.sizes = np.full((1, 2), 1e9)
    assert relaxed(lead, region)[0][0] <= 0
    second = second_order(lead, x, np.ones(2))
    assert second is None or second.bound(np.array([1e-12]), "linf")[0] <= 0


def test_a_squared_distance_that_is_off_counts_most_at_a_cusp():
    """At a centre of a Laplacian kernel a squared distance off by 1e-15 moves the value by 1e-8."""
    lead = lead_of(Laplacian(1.0), [[1.0, 1.0], [3.0, 1.0]], [1.0, -0.5])
    x = np.array([[1.0, 1.0]])
    lead.bias = 1e-9 - lead(x)
    assert relaxed(lead, box_of([1.0, 1.0], [1e-14, 1e-14]))[0][0] <= 0


def test_far_rows_are_proven_no_more_than_their_distances_are_known():
    """At 1e6 the float64 distances of a model are off by 1e-3 of the kernel's width."""
    for kernel in (RBF(1.0), Cauchy(1.0)):
        lead = lead_of(kernel, [[1e6, 1e6], [1e6 + 1, 1e6]], [1.0, -1.0])
        x = np.array([[1e6 + 0.5, 1e6]])
        lead.bias = 1e-6 - lead(x)
        assert relaxed(lead, box_of(x[0], [1e-9, 1e-9]))[0][0] <= 0
        second = second_order(lead, x, np.ones(2))
        assert second is None or second.bound(np.array([1e-9]), "linf")[0] <= 0


SINGLE = float(np.finfo(np.float32).eps)


@pytest.mark.parametrize("kernel", [RBF(0.5), Cauchy(0.4), Polynomial(2, 0.5, 1.0), Linear(0.5)], ids=str)
def test_what_a_model_of_float32_sums_is_known_to_its_own_digits_only(kernel):
    """Rows and centres at 0, whose distances have no rounding: of scores of 1e4 float32 has no fourth decimal."""
    lead = lead_of(kernel, [[0.0, 0.0], [0.0, 0.0]], [1.0, -0.9])
    x, region = np.zeros((1, 2)), box_of([0.0, 0.0], [1e-12, 1e-12])
    lead.sizes, lead.unit = np.full((1, 2), 1e4), SINGLE
    lead.bias = 1e-4 - lead(x)
    assert relaxed(lead, region)[0][0] <= 0
    second = second_order(lead, x, np.ones(2))
    assert second is None or second.bound(np.array([1e-12]), "linf")[0] <= 0
    lead.unit = UNIT
    assert relaxed(lead, region)[0][0] > 0


def test_a_linear_part_that_cancels_says_what_it_lost():
    lead = lead_of(RBF(1.0), [[0.0, 0.0, 0.0]], [1.0])
    lead.tilt = LARGE
    line = _linear(lead, box_of([1.0, 1.0, 1.0], [1e-3, 1e-3, 1e-3]))
    assert line.doubt[0] >= 1.0  # in some order of the sum


def test_the_sum_of_a_constant_and_its_fall_is_not_rounded_up():
    """1e16 - 1/2 is 1e16 in float64."""
    flat = np.zeros(1)
    line = Below(np.array([1e16]), np.array([[1.0]]), flat, flat)
    assert Fraction(float(_refined(lambda guess: line, box_of([0.0], [0.5]))[0][0])) <= 10**16 - Fraction(1, 2)


def test_a_grown_bias_is_below_it_in_numbers_of_60_digits():
    rng = np.random.default_rng(8)
    with localcontext() as context:
        context.prec = 60
        for _ in range(300):
            bias, gamma = rng.normal() * 10.0 ** rng.uniform(-3, 3), float(10.0 ** rng.uniform(-2, 2))
            far = float(rng.uniform(0, 4 / np.sqrt(gamma)))
            move = np.array([[far * rng.random()]])
            lead = lead_of(RBF(gamma), [[0.0]], [1.0], bias)
            line = grown_bias(lead, gamma, np.array([gamma * far**2 * (1 + 1e-15)]), move)
            for d in (move[0, 0], far, 0.0, far * rng.random()):
                square = Decimal(float(d)) ** 2
                said = Decimal(float(line.const[0])) + Decimal(float(line.bend[0])) * square
                assert said - Decimal(float(line.doubt[0])) <= Decimal(bias) * (Decimal(gamma) * square).exp()


def expansion():
    lead = lead_of(RBF(0.5), [[0.3, 0.1], [-0.2, 0.5]], [1.0, -0.5], square=1.0)
    return second_order(lead, np.zeros((1, 2)), np.ones(2))


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_what_stands_for_a_matrix_is_taken_less_what_it_differs_by(norm):
    """By ``lost`` |u|^2, ``apart`` |u| and ``longer`` times the multiplier |u|^2, at least for the ball's own bound."""
    eps = np.array([0.5])
    longest = 0.5 if norm == "l2" else 0.5 * np.sqrt(2)
    second = expansion()
    second.slope = np.full((1, 2), 1e3)  # the bound over the ball decides
    plain = second.bound(eps, norm)[0]
    for column, falls in ((0, longest**2), (2, longest)):
        second = expansion()
        second.slope = np.full((1, 2), 1e3)
        second.off = second.off + np.eye(3)[column]
        assert second.bound(eps, norm)[0] <= plain - 0.999 * falls
    second = expansion()
    second.slope = np.full((1, 2), 1e3)
    second.off = second.off + np.eye(3)[1]
    low = -float(second.spectrum[0, 0])
    assert second.bound(eps, norm)[0] <= plain - 0.999 * max(low, 0.0) * longest**2
    assert low > 0


def test_the_sum_of_an_expansion_is_not_rounded_up():
    """1e16 + 3 is 1e16 + 4 in float64."""
    second = expansion()
    second.value, second.bias = np.array([1e16]), np.array([3.0])
    second.left, second.slope, second.turned = np.zeros(1), np.zeros((1, 2)), np.zeros((1, 2))
    second.spectrum, second.entries = np.zeros((1, 2)), np.zeros(1)
    second.off, second.sizes, second.summed = np.zeros((1, 3)), np.zeros((1, 3)), np.zeros((1, 4))
    assert Fraction(float(second.bound(np.zeros(1) + 1e-3, "linf")[0])) <= 10**16 + 3
