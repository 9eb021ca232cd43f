"""How a region is halved until its parts are proven: what is counted, what breaks a lead, and where a radius ends."""

import numpy as np
import pytest

from buttress.certificates import branch as module
from buttress.certificates import region as region_module
from buttress.certificates.branch import (
    BranchOutcome,
    _bounded,
    _halved,
    _losses,
    prove,
    quadratic_bound,
    stretched,
)
from buttress.certificates.region import Attacker, Region
from buttress.certificates.relaxation import Lead
from buttress.certificates.second_order import second_order
from buttress.kernels import RBF, Laplacian, Linear, Polynomial


def lead_of(kernel, Z, w, bias=0.0):
    return Lead([(kernel, 1.0)], np.array(Z, float), np.array([w], float), np.array([bias]), np.full(1, 9.0))


def box(*half, at=0.0):
    return Region(np.full((1, len(half)), at), np.array([half], float), None, np.ones(len(half)), np.ones(1))


ONE = lead_of(RBF(1.0), [[0.0]], [0.0], 1.0)  # 1 everywhere
TWO = lead_of(RBF(1.0), [[0.0, 0.0]], [0.0], 1.0)


@pytest.fixture
def bounds(monkeypatch):
    """Let a bound be a function of a part's half width; return the widths of the parts of each call."""
    calls = []

    def use(bound, moves=lambda parts: np.zeros_like(parts.half)):
        def bounded(lead, parts):
            calls.append(parts.half[:, 0].tolist())
            return np.array([bound(round(half, 9)) for half in parts.half[:, 0]]), moves(parts)

        monkeypatch.setattr(module, "_bounded", bounded)
        return calls

    return use


@pytest.mark.parametrize(("most", "holds", "parts"), [
    (1, False, 1), (3, False, 3), (4, True, 7), (100, True, 7)])
def test_parts_are_halved_until_they_hold_or_as_many_are_seen_as_are_allowed(bounds, most, holds, parts):
    bounds({1.0: -0.5, 0.5: 0.0, 0.25: 1.0}.get)
    assert prove(ONE, box(1.0), most) == BranchOutcome(holds, parts)


@pytest.mark.parametrize(("most", "holds", "parts"), [(7, False, 3), (8, True, 7)])
def test_a_search_is_given_up_whose_first_halving_gains_too_little(bounds, most, holds, parts):
    """A quarter three times, for 8 parts, is what is missing after it."""
    bounds({1.0: -1.0, 0.5: -0.75, 0.25: 1.0}.get)
    assert prove(ONE, box(1.0), most) == BranchOutcome(holds, parts)


def test_later_halvings_may_gain_little(bounds):
    bounds({1.0: -1.0, 0.5: -0.25, 0.25: -0.24, 0.125: 1.0}.get)
    assert prove(ONE, box(1.0), 16) == BranchOutcome(True, 15)


def test_parts_beyond_the_memory_allowed_are_bounded_later_the_worst_first(bounds, monkeypatch):
    monkeypatch.setattr(module, "ENTRIES", 2 * 2)  # two parts of one centre and two columns
    calls = bounds({1.0: -1.0, 0.5: -0.5, 0.25: -0.1, 0.125: 1.0}.get)
    assert prove(TWO, box(1.0, 0.0), 100) == BranchOutcome(True, 15)
    assert [len(call) for call in calls] == [1, 2, 2, 2, 2, 2, 2, 2]
    assert calls[3] == pytest.approx([0.125, 0.125])  # of the last that were halved
    calls.clear()
    monkeypatch.setattr(module, "ENTRIES", 3 * 2)
    assert prove(TWO, box(1.0, 0.0), 100) == BranchOutcome(True, 15)
    assert [len(call) for call in calls] == [1, 2, 3, 3, 3, 1, 2]
    calls.clear()
    monkeypatch.setattr(module, "ENTRIES", 1)

    def bounded(lead, parts):
        calls.append(float(parts.anchor[0, 0]))
        known = np.where(parts.half[:, 0] > 0.4, np.where(parts.anchor[:, 0] > 0, -1.0, -0.4), 1.0)
        return np.where(parts.half[:, 0] > 0.9, -1.5, known), np.zeros_like(parts.half)

    monkeypatch.setattr(module, "_bounded", bounded)
    assert prove(TWO, box(1.0, 0.0), 100).holds
    np.testing.assert_allclose(calls, [0.0, 0.5, 0.75, 0.25, -0.5, -0.25, -0.75])
    calls.clear()
    monkeypatch.setattr(module, "ENTRIES", 8)
    monkeypatch.setattr(module, "_bounded", lambda lead, parts: (
        calls.append(parts.anchor[:, 0].tolist()) or bounded(lead, parts)[0], np.zeros_like(parts.half)))
    assert prove(TWO, box(1.0, 0.0), 100).holds
    np.testing.assert_allclose(calls[-2], [-0.75, -0.25, 0.25, 0.75])


def test_an_input_that_breaks_a_lead_is_returned_as_a_move_from_the_middle(bounds):
    zero = lead_of(RBF(1.0), [[0.0]], [0.0], 0.0)
    assert prove(zero, box(1.0, at=3.0), 9).move is not None
    assert prove(zero, box(1.0, at=3.0), 9).parts == 1
    lead = lead_of(Linear(0.0), [[1.0]], [1.0], -2.5)  # 0 at 2.5
    bounds({1.0: -1.0, 0.5: -0.1}.get, lambda parts: np.where(parts.anchor < 3, -parts.half / 2, np.nan))
    found = prove(lead, box(1.0, at=3.0), 9)
    assert (found.holds, found.parts, found.move) == (False, 3, pytest.approx(np.array([-0.75])))
    bounds({1.0: -1.0, 0.5: -0.1}.get, lambda parts: np.where(parts.anchor < 3, parts.half * 0, parts.half))
    found = prove(lead, box(1.0, at=3.0), 9)
    assert (found.holds, found.parts, found.move.tolist()) == (False, 3, [-0.5])  # 0 exactly


@pytest.mark.parametrize("ball", [False, True])
@pytest.mark.parametrize("kernel", [RBF(1.0), Polynomial(2, 1.0, 1.0), Laplacian(1.0)], ids=str)
def test_parts_that_lines_do_not_prove_are_bounded_by_curves(kernel, ball, monkeypatch):
    rng = np.random.default_rng(0)
    lead = lead_of(kernel, rng.normal(size=(3, 2)), [1.0, -0.6, 0.4], 0.2)[np.zeros(4, dtype=int)]
    half = np.array([[0.4, 0.3], [0.4, 0.3], [1.0, 0.9], [0.1, 0.2]])
    parts = Region(rng.normal(size=(4, 2)), half, 0.1 * half if ball else None, np.ones(2), half[:, 0])
    lines, moves = np.array([-50.0, 1e-9, -1e-9, -50.0]), np.zeros((4, 2))
    monkeypatch.setattr(module, "relaxed", lambda lead, parts: (lines.copy(), moves))
    bound, at = _bounded(lead, parts)
    assert at is moves
    for i in range(4):
        one, part, curve = lead[i : i + 1], parts[i : i + 1], -np.inf
        if isinstance(kernel, RBF) and not ball:
            curve = quadratic_bound(one, part)
        elif not isinstance(kernel, Laplacian):
            curve = second_order(one, part.anchor, part.half).bound(np.ones(1), "linf")[0]
        assert bound[i] == pytest.approx(lines[i] if i == 1 else max(lines[i], curve), rel=1e-9)


def test_parts_of_which_lines_prove_exactly_0_are_bounded_by_curves_too(monkeypatch):
    monkeypatch.setattr(module, "relaxed", lambda lead, parts: (np.zeros(1), np.zeros((1, 1))))
    assert _bounded(lead_of(RBF(1.0), [[0.0]], [1.0], 1.0), box(0.1))[0][0] > 0


def test_halves_are_those_along_the_column_that_costs_most(monkeypatch):
    monkeypatch.setattr(region_module, "sum_error", lambda terms: 0.0)
    lead = lead_of(RBF(1.0), [[0.0, 1.0]], [1.0])[np.zeros(2, dtype=int)]
    anchor, half = np.array([[0.0, 0.0], [5.0, 1.0]]), np.array([[1.0, 0.5], [0.25, 8.0]])
    parts = Region(anchor, half, None, np.ones(2), np.array([1.0, 2.0]))
    children = _halved(lead, parts)  # centre 1 above the first, 5 beside the second
    np.testing.assert_array_equal(children.anchor, [[0, -0.25], [0, 0.25], [4.875, 1], [5.125, 1]])
    np.testing.assert_array_equal(children.half, [[1, 0.25], [1, 0.25], [0.125, 8], [0.125, 8]])
    np.testing.assert_array_equal(children.radius, [1, 1, 2, 2])
    assert children.offset is None
    parts.offset, parts.scale = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([2.0, 0.5])
    parts.radius = np.array([2.0, 0.4375])  # (1.25 - .25) / .5; and (1.125 - .125) / 2, too far by a little
    children = _halved(lead, parts)
    np.testing.assert_array_equal(children.anchor, [[0, -0.25], [0, 0.25], [5.125, 1]])
    np.testing.assert_array_equal(children.offset, [[0, 1.25], [0, 0.75], [0.875, 0]])
    np.testing.assert_array_equal(children.radius, [2, 2, 0.4375])


@pytest.mark.parametrize("kernel", [RBF(0.5), Linear(0.0), Polynomial(2, 1.0, 1.0)], ids=str)
def test_a_column_costs_what_its_range_adds_to_the_terms(kernel):
    rng = np.random.default_rng(0)
    Z, w = rng.normal(size=(3, 2)), np.array([1.0, -2.0, 0.5])
    lead, parts = lead_of(kernel, Z, w), box(0.5, 0.2, at=0.7)
    lead.kernels = [(kernel, 0.25)]
    loss = np.zeros(2)
    for z, c in zip(Z, w, strict=True):
        away = np.abs(z - (0.7 if isinstance(kernel, RBF) else 0.0))
        size = 0.25 * abs(c) * (np.exp(-0.5 * ((z - 0.7) ** 2).sum()) if isinstance(kernel, RBF) else 1.0)
        loss += size * (away @ parts.half[0]) * away * parts.half[0]
    np.testing.assert_allclose(_losses(lead, parts)[0], loss)


ROW = np.ones((1, 2))


@pytest.fixture
def trials(monkeypatch):
    """Let radii below one hold, others be open or broken; return what was tried with how many parts."""
    tried = []

    def use(holds, parts=1, breaks=None):
        def proven(lead, region, most):
            radius = float(region.radius[0])
            tried.append((radius, most))
            if radius <= holds:
                return BranchOutcome(True, parts)
            if breaks is None or radius < breaks:
                return BranchOutcome(False, parts)
            return BranchOutcome(False, parts, ROW[0] + [breaks, 0.0] - region.anchor[0])

        monkeypatch.setattr(module, "prove", proven)
        return tried

    monkeypatch.setattr(region_module, "sum_error", lambda terms: 0.0)
    return use


def stretch(start, first, most, breaks=np.inf):
    lead = lead_of(Linear(0.0), [[1.0, 0.0]], [-1.0], 1.0 + breaks if breaks < np.inf else 1e9)
    return stretched(lead, Attacker("linf", np.ones(2), ROW - 0.5, ROW + 1e200), ROW, start, first, most, np.max)


@pytest.mark.parametrize(("holds", "breaks"), [(1.9, np.inf), (1.15, 1.16), (1.58, 1.6), (1.23, 9.0), (1.4, 1.45)])
def test_factors_between_radii_grow_where_one_is_proven_and_shrink_where_not(trials, holds, breaks):
    tried = trials(holds, breaks=breaks)
    found, growth, low, radii, broken = stretch(1.0, 9.0, 9, breaks), 1.2, 1.0, [], np.inf
    radius = 1.2
    while len(radii) < 9 and low < 0.99 * broken:
        radii.append(radius)
        low, growth = (radius, growth**1.5) if radius <= holds else (low, 1 + (growth - 1) / 2)
        broken = breaks if radius >= breaks else broken
        radius = growth * low if growth * low < broken else (low + broken) / 2
    np.testing.assert_allclose([radius for radius, _ in tried], radii, rtol=1e-8)
    assert [most for _, most in tried] == [1 + left // 3 for left in range(9, 9 - len(radii), -1)]
    assert found == pytest.approx(low)


def test_a_radius_of_nothing_starts_at_half_of_the_first(trials):
    tried = trials(3.0)
    stretch(0.0, 2.0, 3)
    np.testing.assert_allclose([radius for radius, _ in tried], [1.0, 2.0**1.5, 2.0**1.5 * 2.0**2.25])
    tried.clear()
    trials(0.3)
    assert stretch(0.0, 2.0, 3) == 0.25
    np.testing.assert_allclose([radius for radius, _ in tried], [1.0, 0.5, 0.25])


def test_a_radius_ends_within_a_hundredth_of_where_the_lead_breaks(trials):
    tried = trials(1.19, breaks=1.2)
    assert 1.188 < stretch(1.1879, 9.0, 99, 1.2) <= 1.19
    assert len(tried) > 1
    tried.clear()
    assert stretch(1.1881, 9.0, 99, 1.2) == 1.1881
    assert len(tried) == 1


def test_parts_are_spent_and_no_radius_beyond_what_can_be_squared_is_tried(trials):
    tried = trials(1.1, parts=4)
    stretch(1.0, 9.0, 8)
    assert len(tried) == 2
    tried.clear()
    trials(np.inf)
    found = stretch(1e100, 1.0, 10**6)
    assert 1e140 < found <= 1e150
    assert all(radius <= 1e150 for radius, _ in tried)
