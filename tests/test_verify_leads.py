"""Leads of the verifier: what rounding may change in them, how far they are searched, and the radii of rows."""

from functools import partial

import numpy as np
import pytest
from test_verify_quadratic import UNIT, near

from buttress.expansion import KernelExpansion
from buttress.kernels import MultiscaleRBF
from buttress.verify.inputs import radii as module
from buttress.verify.inputs.quadratic import Quadratic, RowMoves
from buttress.verify.inputs.radii import LeadAtRow, expanded, farthest, parts, radii, rounded, widest

RBF, CUBE = {"class": "RBF", "gamma": 0.7}, {"class": "Polynomial", "degree": 3.0, "gamma": 0.5, "coef0": 1.0}
LINEAR, CAUCHY = {"class": "Linear", "coef0": 0.25}, {"class": "Cauchy", "gamma": 0.4}


close = partial(pytest.approx, rel=1e-9, abs=0.0)


def both(*weighted):
    return {"class": "Combination", "kernels": [one for one, _ in weighted], "weights": [each for _, each in weighted]}


def lead_of(part, x=(0.25, -0.5), Z=((1.0, 0.5), (-0.5, 2.0)), c=(1.0, -0.5), b=0.0, norm2=1.0, **more):
    Z = np.array(Z, float)
    return LeadAtRow(part, np.array(x, float), Z, np.ones(1), np.array(c, float)[:, None], np.array([b]), norm2, **more)


def test_a_kernel_is_a_sum_of_those_that_count():
    scales = {"class": "MultiscaleRBF", "gammas": [1.0, 2.0, 4.0, 8.0]}
    assert parts(scales) == [({"class": "RBF", "gamma": gamma}, 0.25) for gamma in scales["gammas"]]
    held = both((RBF, 2.0), (CUBE, 0.0), (both((LINEAR, 0.5), (CAUCHY, 0.25)), 3.0))
    assert parts(held) == [(RBF, 2.0), (LINEAR, 1.5), (CAUCHY, 0.75)]


@pytest.mark.parametrize(("part", "more", "names"), [
    (RBF, {}, ["lines", "taylor", "parabolas"]), (both((RBF, 1.0), (CUBE, 0.0)), {}, ["lines", "taylor", "parabolas"]),
    (both((RBF, 2.0)), {}, ["bound", "bound"]), (RBF, {"linear": np.ones((2, 1))}, ["bound", "bound"]),
    (both((RBF, 1.0), (CAUCHY, 1.0)), {}, ["bound", "bound"]), (CAUCHY, {}, ["bound", "bound"]),
    (LINEAR, {}, ["bound"]), (CUBE, {}, ["bound"] * 2), (both((CUBE, 1.0), (CUBE, 0.5)), {}, ["bound"] * 2),
    (both((CUBE, 1.0), (LINEAR, 0.5)), {}, ["bound"]), (both((CUBE, 1.0), (CAUCHY, 0.5)), {}, ["bound"] * 2)])
def test_each_kernel_has_the_bounds_that_are_known_for_it(part, more, names):
    lead = lead_of(part, **more)
    assert [bound.__name__ for bound in lead.bounds] == names
    assert (lead.round is not None) == ("lines" in names)


@pytest.mark.parametrize("part", [LINEAR, CAUCHY, CUBE, both((RBF, 0.5), (CUBE, 2.0))], ids=str)
def test_a_lead_is_the_sum_that_it_says(part):
    lead = lead_of(part, b=0.125, linear=np.array([[2.0], [-3.0]]))
    move = np.array([0.5, 0.25])
    x = lead.x + move
    squares = ((lead.Z - x) ** 2).sum(axis=1)
    known = {"Linear": lambda one: lead.Z @ x + 0.25, "Cauchy": lambda one: 1 / (1 + 0.4 * squares),
             "RBF": lambda one: np.exp(-0.7 * squares), "Polynomial": lambda one: (0.5 * lead.Z @ x + 1) ** 3}
    values = sum(known[one["class"]](one) * weight for one, weight in parts(part))
    exact = lead.c @ values + 2 * x[0] - 3 * x[1] + 0.125
    assert lead.value(move) == pytest.approx(exact, rel=1e-14)
    for bound in lead.bounds:
        low, worst = bound(np.zeros(2), RowMoves(1e-9)).least(RowMoves(1e-9))
        assert low == pytest.approx(lead.value(np.zeros(2)), abs=1e-7)
        assert lead.value(worst) <= lead.value(np.zeros(2))


class Constant(Quadratic):
    """A function below that is the same everywhere, whose least is where it is said."""

    def least(self, moves):
        return float(self.const.v), self.slope.v


def test_a_bound_must_be_above_what_rounding_may_change():
    lead, asked = lead_of(RBF, c=(1.0, 1.0)), []

    def bound(move, moves):
        asked.append(move)
        return Constant(near(0.5), near([0.25, 0.5]), None, near(0.0))

    assert not lead.above(0.5, bound, RowMoves(1.0))
    np.testing.assert_array_equal(asked, np.array([[0.25, 0.5]]) * [[0], [0.5], [0.75], [0.875]])
    assert lead.above(np.nextafter(0.5, 0), bound, RowMoves(1.0))
    lost = lead.allowance(0.5) * np.exp(0.7 * 0.25)
    for const, holds in ((lost * (1 + 1e-12), True), (lost * (1 - 1e-12), False)):
        lead.bounds = [lambda move, moves, const=const: Constant(near(const), near([0.0, 0.0]), None, near(0.0))]
        assert lead.holds(RowMoves(0.5)) == holds
    other = lead_of(CAUCHY)
    lost = other.allowance(0.5)
    other.value = lambda move: 1.0
    for const, holds in ((lost * (1 + 1e-12), True), (lost * (1 - 1e-12), False)):
        other.bounds = [lambda move, moves, const=const: Constant(near(const), near([0.0, 0.0]), None, near(0.0))]
        assert other.holds(RowMoves(0.5)) == holds
    lead.bounds = [lambda move, moves: Constant(near(-1.0), near([np.inf, 0.0]), None, near(0.0))]
    assert not lead.holds(RowMoves(0.5))


def n(terms):
    """The share that rounding may change in a sum of so many products."""
    return (terms + 16) * 1.01 * UNIT


SIZES = {"x": (0.25, -0.5), "Z": ((1.0, 0.5), (-0.5, 2.0), (3.0, 0.0)), "c": (1.0, -0.5, 0.25)}


def test_what_rounding_may_change_is_what_is_said_of_each_part():
    """Far rows, an intercept, a linear part and what scalers subtract: each alone and with its size."""
    assert rounded(4) == n(4)
    assert lead_of(LINEAR, c=(0.0, 0.0), b=-8.0).allowance(0.5) == close(8 * n(0))
    tilt, origin = np.array([[2.0], [-4.0]]), np.array([1.0, 3.0])
    found = lead_of(LINEAR, c=(0.0, 0.0), linear=tilt, origin=origin).allowance(0.5)
    assert found == close((2 * (0.25 + 0.5 + 2) + 4 * (0.5 + 0.5 + 6)) * n(2))
    sizes = np.array([0.25 + 0.25, 0.125 + 1.0, 0.75])
    reach = np.sqrt([1.25, 4.25, 9.0]) * 0.75
    for part, p, gamma, coef0 in ((LINEAR, 1, 1.0, 0.25), (CUBE, 3, 0.5, 1.0)):
        size = gamma * (sizes + reach) + coef0
        np.testing.assert_allclose(farthest(part, *map(np.array, (SIZES["x"], SIZES["Z"])), 0.75), size)
        lost = np.array([1.0, 0.5, 0.25]) @ size**p * n(p * (2 + 8) + 3 + 1)
        assert lead_of(part, **SIZES).allowance(0.75) == close(lost)
        twice = lead_of(both((part, 2.0), (part, 1.0)), **SIZES).allowance(0.75)
        assert twice == close(3 * lost * n(p * 10 + 5) / n(p * 10 + 4))
    middle = np.array([1.0, 0.5])
    own, others = np.abs(np.array(SIZES["x"]) - middle) + origin, np.abs(np.array(SIZES["Z"]) - middle) + origin
    lengths = 2 * (own @ own + 0.75**2) + (others**2).sum(axis=1)
    for part in (CAUCHY, {"class": "Laplacian", "gamma": 0.5}, {"class": "Log", "degree": 2.0, "gamma": 0.5}):
        shape = {"Cauchy": lambda t: 1 / (1 + 0.4 * t), "Laplacian": lambda t: np.exp(-0.5 * np.sqrt(t)),
                 "Log": lambda t: -np.log1p(0.5 * t)}[part["class"]]
        off = shape(0.0) - shape(4 * n(2) * lengths)
        largest = np.log1p(lengths) if part["class"] == "Log" else np.ones(3)
        lost = np.array([1.0, 0.5, 0.25]) @ (off + largest * n(4))
        found = lead_of(part, **SIZES, origin=origin).allowance(0.75)
        assert lost <= found <= lost + 1.75 * 60 * UNIT
        assert lead_of(both((part, 2.0)), **SIZES, origin=origin).allowance(0.75) == close(2 * found)


@pytest.mark.parametrize("count", [512, 4096])
def test_a_mean_of_many_kernels_is_off_by_a_unit_for_each(count):
    kernel = MultiscaleRBF([1.0] * count)
    squares = np.linspace(0.3, 0.7, 41) * count * UNIT
    off = kernel.profile(squares) - np.exp(-squares)
    x = np.sqrt(squares[[np.abs(off).argmax()]])
    model = KernelExpansion(kernel, np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1))(x[None])[0, 0]
    lead = LeadAtRow({"class": "MultiscaleRBF", "gammas": [1.0] * count}, x, np.zeros((1, 1)), np.ones(1),
                     np.ones((1, 1)), np.zeros(1), 1.0)
    assert 0.2 * count * UNIT < abs(model - np.exp(-x @ x)) < lead.allowance(0.0)


@pytest.mark.parametrize("scale", [1.0, 1e-160, 1e-165])
def test_coefficients_whose_squares_are_0_prove_nothing_false(scale):
    """e^(-d^2) - 1.5 e^(-(1 - d)^2) is 0 at d = (1 - log 1.5) / 2."""
    c = np.array([1.0, -1.5]) * scale
    lead = lead_of({"class": "RBF", "gamma": 1.0}, [0.0], [[0.0], [1.0]], c, norm2=3 * scale**2)
    assert not lead.holds(RowMoves((1 - np.log(1.5)) / 2 + 1e-9))
    assert lead.holds(RowMoves(0.25)) == (scale == 1)


class Holding:
    """A lead that is proven up to a radius."""

    def __init__(self, most):
        self.most, self.asked = most, []

    def holds(self, moves):
        self.asked.append(moves.eps)
        return moves.eps <= self.most


@pytest.mark.parametrize(("most", "step"), [(1 / 3, 2.0**-15), (1000.1, 2.0**-4), (3e-9, 2.0**-33),
                                             (1 + 1.5 * 2.0**-14, 2.0**-14)])
def test_a_radius_is_the_largest_multiple_of_the_last_step(most, step):
    """Steps below 2^-14 of what is proven, or below 2^-33, are not tried."""
    assert widest(Holding(most), np.inf, 0) == step * np.floor(most / step)


def test_the_search_for_a_radius_ends_where_it_is_said():
    all_holds, none = Holding(np.inf), Holding(0.0)
    assert widest(all_holds, 5.0, 3) == 5.0
    assert widest(none, np.inf, 0) == 0
    assert none.asked[1:] == [2.0**power for power in range(30, -34, -1)]
    almost = Holding(np.nextafter(0.75, 0))
    assert 0.75 * (1 - 2.0**-13) < widest(almost, 0.75, 0) < 0.75
    assert max(almost.asked[1:]) < 0.75


def three():
    """A linear classifier of three classes in one column, as a file holds it."""
    return {"class": "LinearSVC", "coef_": np.array([[-1.0], [0.0], [2.0]]), "intercept_": np.array([0.0, 0.25, -1.0]),
            "C": 1.0, "loss": "hinge", "fit_intercept": True, "class_weight": None, "classes_": np.array([0, 1, 2])}


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_radius_is_that_of_the_nearest_rival(norm):
    """The scores -x, .25 and 2x - 1: the borders are at -.25 and .625."""
    rows = np.array([[-1.0], [0.0], [0.5], [1.0]])
    exact = np.array([0.75, 0.25, 0.125, 0.375])
    found = radii(three(), rows, norm=norm)
    np.testing.assert_allclose([claim.proven for claim in found], exact, rtol=2.0**-13)
    assert [claim.name for claim in found] == [f"{norm} radius of row {i}" for i in range(4)]
    assert all(claim.holds and claim.stated == claim.proven <= true for claim, true in zip(found, exact, strict=True))
    assert all(claim.holds for claim in radii(three(), rows, exact * (1 - 1e-9), norm))
    larger = radii(three(), rows, exact * (1 + 1e-9), norm)
    assert not any(claim.holds for claim in larger)
    np.testing.assert_array_equal([claim.stated for claim in larger], exact * (1 + 1e-9))
    part, *_, leads = expanded(three())
    assert (part, leads.shape) == ({"class": "Linear", "coef0": 0.0}, (3, 2, 3))


@pytest.mark.parametrize(("norm", "columns"), [("l2", 0), ("linf", 1)])
def test_every_lead_is_searched_in_the_norm_that_is_asked(norm, columns, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "widest", lambda lead, most, columns: asked.append((most, columns)) or most / 2)
    radii(three(), np.array([[-1.0], [0.0], [0.5]]), np.full(3, 8.0), norm)
    assert asked == [(8.0, columns), (4.0, columns)] * 3


def test_of_a_row_between_two_classes_no_radius_is_proven():
    assert radii(three(), np.array([[-0.25]]))[0].proven == 0
    held = three() | {"coef_": np.zeros((3, 1)), "intercept_": np.array([0.0, 1.0, 0.0])}
    assert radii(held, np.array([[3.0]]))[0].proven == 2.0**30
