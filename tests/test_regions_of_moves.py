"""Where rows may be moved to: lengths, spans and least values, against sums in loops, grids and the best multiplier.

Rounding is made coarse where an allowance for it is compared with its law.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from buttress.certificates import region as module
from buttress.certificates.region import Attacker, Region, _least_in_box, box_reach

COARSE = 1e-3


def coarse(terms):
    return COARSE * (terms + 16)


@pytest.fixture
def coarsely(monkeypatch):
    monkeypatch.setattr(module, "sum_error", coarse)


def posed(norm="l2", n=3, d=3, seed=0):
    rng = np.random.default_rng(seed)
    half, offset = rng.uniform(0.5, 1, size=(n, d)), rng.uniform(-0.4, 0.4, size=(n, d))
    return Region(rng.normal(size=(n, d)), half, offset if norm == "l2" else None, rng.uniform(0.5, 2, size=d),
                  np.array([0.2, 0.6, 3.0])[:n])


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_the_longest_move_is_that_to_a_corner_or_across_the_ball(coarsely, norm):
    region = posed(norm)
    corner = np.sqrt((region.half**2).sum(axis=1))
    if norm == "l2":
        across = np.sqrt((region.offset**2).sum(axis=1)) + max(region.scale) * region.radius
        assert set(across < corner) == {True, False}
        corner = np.minimum(corner, across)
    np.testing.assert_allclose(region.longest(), corner * (1 + coarse(3)))


def test_a_rounded_region_is_wider_by_a_number_of_roundings(coarsely):
    region = posed()
    wider = region.rounded()
    off = coarse(0) * (np.abs(region.anchor) + region.half)
    np.testing.assert_allclose(wider.half, region.half + off)
    away = np.sqrt(((off / region.scale) ** 2).sum(axis=1))
    np.testing.assert_allclose(wider.radius, (region.radius + away) * (1 + coarse(3)))
    assert wider.anchor is region.anchor
    assert wider.offset is region.offset


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_spans_are_those_of_the_box_and_of_the_ball(coarsely, norm):
    region, Z, e = posed(norm), np.random.default_rng(1).normal(size=(4, 3)), coarse(3)
    found, decided = region.spans(Z), set()
    products = replace(region, anchor=np.zeros_like(region.anchor)).spans(Z)[:2]
    for i, j in np.ndindex(3, 4):
        h, r = region.half[i], region.radius[i]
        ends = []
        for a in (region.anchor[i], np.zeros(3)):
            v = Z[j] - a
            reach = sum(abs(v) * h) * (1 + e)
            low, high = -reach, reach
            if norm == "l2":
                o, s = region.offset[i], region.scale
                square = sum((v * s) ** 2) + 2 * e * (sum((a * s) ** 2) + sum((Z[j] * s) ** 2))
                away = np.sqrt(sum(a**2)) + np.sqrt(sum(Z[j] ** 2))
                wide = r * np.sqrt(square) + e * np.sqrt(sum(o**2)) * away
                decided |= {(len(ends), o @ v - wide > low, o @ v + wide < high)}
                low, high = max(low, o @ v - wide), min(high, o @ v + wide)
            ends.append((low, high))
        np.testing.assert_allclose([(low[i, j], high[i, j]) for low, high in (found[:2], products)], ends)
        near = np.maximum(np.abs(Z[j] - region.anchor[i]) - h, 0)
        assert found[2][i, j] == pytest.approx(near @ near)
    assert norm == "linf" or {(0, True, True), (0, False, False), (1, True, True), (1, False, False)} <= decided


def test_a_centre_at_the_anchor_has_no_reach_but_for_rounding():
    region = posed()
    region.anchor[:] = 0.0
    least, most, nearest = region.spans(np.zeros((1, 3)))
    for found in (least, most, nearest, region._round_reach(np.zeros((1, 3)))):
        assert not found.any()


def test_sums_of_a_box_are_those_of_loops():
    rng = np.random.default_rng(2)
    a, h, Z = rng.normal(size=(2, 3)), rng.uniform(0, 1, size=(2, 3)), rng.normal(size=(4, 3))
    away = np.abs(Z - a[:, None])
    reach, nearest = box_reach(a, h, Z)
    np.testing.assert_allclose(reach, (away * h[:, None]).sum(axis=2))
    np.testing.assert_allclose(nearest, (np.maximum(away - h[:, None], 0) ** 2).sum(axis=2))


@pytest.mark.parametrize("bend", [2.0, 0.0, -2.0])
def test_the_least_of_a_parabola_over_an_interval_is_exact_but_for_its_rounding(coarsely, bend):
    slope, half = np.array([[0.3, -0.3, 3.0, -9.0, 0.0]]), np.array([[0.5, 1.0, 0.25, 1.0, 0.7]])
    value, d = _least_in_box(slope, np.full((1, 5), bend), half)
    best, sizes = [], 0.0
    for p, h, at in zip(slope[0], half[0], d[0], strict=True):
        places = [-h, h] + ([-p / (2 * bend)] if bend > 0 and abs(p / (2 * bend)) <= h else [])
        best.append(min(p * u + bend * u**2 for u in places))
        assert p * at + bend * at**2 == pytest.approx(best[-1])
        sizes += abs(p * at) + abs(bend) * at**2
    assert value[0] == pytest.approx(sum(best) - coarse(5) * sizes)


def test_a_multiplier_adds_the_ball_and_takes_off_the_rounding_of_its_parts(coarsely):
    region, slope = posed(), np.random.default_rng(3).normal(size=(3, 3))
    bend, multiplier = np.array([0.5, -0.3, 0.0]), np.array([0.2, 0.7, 1.1])
    value, d = region._with_multiplier(slope, bend, multiplier)
    for i in range(3):
        weight, o = multiplier[i] / region.scale**2, region.offset[i]
        inner, moves = _least_in_box((slope[i] - 2 * weight * o)[None], (bend[i] + weight)[None], region.half[i][None])
        apart, beyond = sum(weight * o**2), multiplier[i] * region.radius[i] ** 2
        lost = apart + beyond + 4 * sum(weight * abs(o) * region.half[i])
        assert value[i] == pytest.approx(inner[0] + apart - beyond - coarse(3) * lost)
        np.testing.assert_array_equal(d[i], moves[0])


def best_multiplier(region, slope, bend):
    """The largest bound that any multiplier gives, for one row."""
    def bound(power):
        return -region._with_multiplier(slope, bend, np.exp(np.full(1, power)))[0][0]

    powers = np.linspace(-12, 8, 400)
    start = powers[np.argmin([bound(power) for power in powers])]
    found = minimize_scalar(bound, bounds=(start - 0.1, start + 0.1), method="bounded", options={"xatol": 1e-12})
    return max(-found.fun, region._with_multiplier(slope, bend, np.zeros(1))[0][0])


@pytest.mark.parametrize("more", [0.0, 5.0])
@pytest.mark.parametrize("bend", [1.0, 0.0, -0.7, 30.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_least_in_a_ball_comes_near_what_the_best_multiplier_gives(seed, bend, more):
    rng = np.random.default_rng(seed)
    region, slope, bends = posed(n=1, seed=seed), rng.normal(size=(1, 3)), np.array([bend])
    region.half += more
    region.radius[:] = rng.uniform(0.1, 0.5)
    value, moves = region.least(slope, bends)
    best = best_multiplier(region, slope, bends)
    assert best - 1e-4 * abs(best) <= value[0] <= best + 1e-9
    along = np.random.default_rng(0).normal(size=(4000, 3))
    along *= rng.random((4000, 1)) / np.linalg.norm(along, axis=1)[:, None]
    points = region.inside(region.offset + region.radius * region.scale * along)
    points = np.vstack([points, moves])
    values = points @ slope[0] + bend * (points**2).sum(axis=1)
    assert value[0] <= values.min() + 1e-12
    assert values[-1] <= value[0] + 0.1 * region.radius[0] * np.linalg.norm(slope * region.scale)


@pytest.mark.parametrize("seed", range(3))
def test_many_multipliers_come_to_the_best_of_any(seed, monkeypatch):
    """In boxes that cut their balls, for slopes and bends of any size."""
    monkeypatch.setattr(module, "MULTIPLIERS", 40)
    rng, n = np.random.default_rng(seed), 300
    scale, radius = 10 ** rng.uniform(-1, 1, size=4), 10 ** rng.uniform(-2, 0, size=n)
    half = radius[:, None] * scale * rng.uniform(0.1, 1, size=(n, 4))
    region = Region(np.zeros((n, 4)), half, half * rng.uniform(-1, 1, size=(n, 4)), scale, radius)
    slope, bend = rng.normal(size=(n, 4)), rng.choice([1, -1, 0], size=n) * 10 ** rng.uniform(-2, 3, size=n)
    best = region._with_multiplier(slope, bend, np.zeros(n))[0]
    for power in np.linspace(-6, 9, 301):
        best = np.maximum(best, region._with_multiplier(slope, bend, np.full(n, 10**power))[0])
    sizes = np.linalg.norm(slope * scale, axis=1) * radius + np.abs(bend) * (half**2).sum(axis=1)
    assert ((best - region.least(slope, bend)[0]) / sizes).max() < 1e-9


@pytest.mark.parametrize("bend", [0.7, -0.7, 0.0])
def test_in_a_round_ball_the_first_multiplier_is_the_best(bend, monkeypatch):
    """|slope| / (2 radius) less the bend, around its middle."""
    monkeypatch.setattr(module, "MULTIPLIERS", 1)
    offset = np.array([0.1, -0.2])
    slope = np.array([[3.0, 4.0], [0.3, 0.4]]) - 2 * bend * offset
    region = Region(np.zeros((2, 2)), np.full((2, 2), 9.0), np.full((2, 2), offset), np.full(2, 2.0), np.full(2, 0.5))
    steep = np.array([5.0, 0.5])
    move = np.minimum(1.0, steep / (2 * bend)) if bend > 0 else 1.0
    true = -steep * move + bend * move**2 + slope @ offset + bend * offset @ offset
    np.testing.assert_allclose(region.least(slope, np.full(2, bend))[0], true, atol=1e-12)


def test_a_ball_without_radius_and_a_function_without_slope_have_a_bound():
    region = Region(np.zeros((2, 2)), np.ones((2, 2)), np.zeros((2, 2)), np.ones(2), np.array([0.0, 1.0]))
    value, moves = region.least(np.array([[1.0, 0.0], [0.0, 0.0]]), np.zeros(2))
    np.testing.assert_allclose(value, 0.0, atol=1e-12)
    np.testing.assert_array_equal(moves[0], 0.0)


def test_moves_are_brought_into_the_box_and_towards_the_middle_of_the_ball():
    half, offset, scale = np.array([[1.0, 2.0]]), np.array([[0.5, 0.0]]), np.array([1.0, 2.0])
    region = Region(np.zeros((1, 2)), half, offset, scale, np.full(1, 0.5))
    for move, into in (([9.0, 0.0], [1.0, 0.0]), ([0.6, 0.1], [0.6, 0.1]), ([0.5, -9.0], [0.5, -1.0]),
                       ([-9.0, 0.0], [0.0, 0.0]), ([0.5, 0.0], [0.5, 0.0])):
        np.testing.assert_allclose(region.inside(np.array([move])), [into])
    region.offset = None
    np.testing.assert_array_equal(region.inside(np.array([[9.0, -9.0]])), [[1.0, -2.0]])


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_an_attacker_reaches_the_common_part_of_two_boxes(norm, monkeypatch):
    monkeypatch.setattr(module, "sum_error", lambda terms: 0.0)
    Z, scale, radius = np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([1.0, 0.5]), np.array([2.0, 4.0])
    region = Attacker(norm, scale).region(Z, radius)
    np.testing.assert_array_equal(region.anchor, Z)
    np.testing.assert_array_equal(region.half, [[2.0, 1.0], [4.0, 2.0]])
    low, high = np.array([[0.0, 1.5], [-1.0, -9.0]]), np.array([[9.0, 2.5], [2.0, 9.0]])
    region = Attacker(norm, scale, low, high).region(Z, radius)
    np.testing.assert_array_equal(region.anchor, [[1.5, 2.0], [0.5, 0.0]])
    np.testing.assert_array_equal(region.half, [[1.5, 0.5], [1.5, 2.0]])
    np.testing.assert_array_equal(region.radius, radius)
    if norm == "l2":
        np.testing.assert_array_equal(region.offset, Z - region.anchor)
    else:
        assert region.offset is None
