"""How a region is halved until its parts are proven: what is counted, what breaks a lead, and where a radius ends."""

import numpy as np
import pytest

from buttress.certificates import branch as module
from buttress.certificates import region as region_module
from buttress.certificates.branch import (
    _bounded,
    _halved,
    _losses,
    prove,
    quadratic_bound,
)
from buttress.certificates.region import Region
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


def seen(calls):
    """Return how many parts were bounded."""
    return sum(map(len, calls))


@pytest.mark.parametrize(("most", "holds", "parts"), [
    (1, False, 1), (3, False, 3), (4, True, 7), (100, True, 7)])
def test_parts_are_halved_until_they_hold_or_as_many_are_seen_as_are_allowed(bounds, most, holds, parts):
    calls = bounds({1.0: -0.5, 0.5: 0.0, 0.25: 1.0}.get)
    assert (prove(ONE, box(1.0), most), seen(calls)) == (holds, parts)


@pytest.mark.parametrize(("most", "holds", "parts"), [(7, False, 3), (8, True, 7)])
def test_a_search_is_given_up_whose_first_halving_gains_too_little(bounds, most, holds, parts):
    """A quarter three times, for 8 parts, is what is missing after it."""
    calls = bounds({1.0: -1.0, 0.5: -0.75, 0.25: 1.0}.get)
    assert (prove(ONE, box(1.0), most), seen(calls)) == (holds, parts)


def test_later_halvings_may_gain_little(bounds):
    calls = bounds({1.0: -1.0, 0.5: -0.25, 0.25: -0.24, 0.125: 1.0}.get)
    assert (prove(ONE, box(1.0), 16), seen(calls)) == (True, 15)


def test_parts_beyond_the_memory_allowed_are_bounded_later_the_worst_first(bounds, monkeypatch):
    monkeypatch.setattr(module, "ENTRIES", 2 * 2)  # two parts of one centre and two columns
    calls = bounds({1.0: -1.0, 0.5: -0.5, 0.25: -0.1, 0.125: 1.0}.get)
    assert (prove(TWO, box(1.0, 0.0), 100), seen(calls)) == (True, 15)
    assert [len(call) for call in calls] == [1, 2, 2, 2, 2, 2, 2, 2]
    assert calls[3] == pytest.approx([0.125, 0.125])  # of the last that were halved
    calls.clear()
    monkeypatch.setattr(module, "ENTRIES", 3 * 2)
    assert (prove(TWO, box(1.0, 0.0), 100), seen(calls)) == (True, 15)
    assert [len(call) for call in calls] == [1, 2, 3, 3, 3, 1, 2]
    calls.clear()
    monkeypatch.setattr(module, "ENTRIES", 1)

    def bounded(lead, parts):
        calls.append(float(parts.anchor[0, 0]))
        known = np.where(parts.half[:, 0] > 0.4, np.where(parts.anchor[:, 0] > 0, -1.0, -0.4), 1.0)
        return np.where(parts.half[:, 0] > 0.9, -1.5, known), np.zeros_like(parts.half)

    monkeypatch.setattr(module, "_bounded", bounded)
    assert prove(TWO, box(1.0, 0.0), 100)
    np.testing.assert_allclose(calls, [0.0, 0.5, 0.75, 0.25, -0.5, -0.25, -0.75])
    calls.clear()
    monkeypatch.setattr(module, "ENTRIES", 8)
    monkeypatch.setattr(module, "_bounded", lambda lead, parts: (
        calls.append(parts.anchor[:, 0].tolist()) or bounded(lead, parts)[0], np.zeros_like(parts.half)))
    assert prove(TWO, box(1.0, 0.0), 100)
    np.testing.assert_allclose(calls[-2], [-0.75, -0.25, 0.25, 0.75])


def test_an_input_that_breaks_a_lead_ends_the_search(bounds):
    lead = lead_of(Linear(0.0), [[1.0]], [1.0], -2.5)  # 0 at 2.5
    calls = bounds({1.0: 1.0}.get)
    for move in (lambda parts: np.where(parts.anchor < 3, -parts.half / 2, np.nan),
                 lambda parts: np.where(parts.anchor < 3, parts.half * 0, parts.half)):  # 0 exactly
        bounds({1.0: -1.0, 0.5: -0.1, 0.25: 1.0}.get, move)
        calls.clear()
        assert (prove(lead, box(1.0, at=3.0), 9), seen(calls)) == (False, 3)
    bounds({1.0: 1.0}.get)
    assert not prove(lead_of(RBF(1.0), [[0.0]], [0.0], 0.0), box(1.0, at=3.0), 9)


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
