"""The parts of the parabolas' bound, each against its law: sums in loops, closed forms, fractions.

Rounding is made coarse where an allowance for it is compared with its law.
"""

from fractions import Fraction

import numpy as np
import pytest

from buttress._proof import UNIT
from buttress.certificates import branch as module
from buttress.certificates.branch import _bends, _eigenvalues, _lower_bound, _over_box, quadratic_bound
from buttress.certificates.region import Region
from buttress.certificates.relaxation import Exponentials, Lead, grown_bias
from buttress.kernels import RBF

COARSE = 1e-3


def coarse(terms):
    return COARSE * (terms + 16)


@pytest.fixture
def coarsely(monkeypatch):
    monkeypatch.setattr(module, "sum_error", coarse)


def posed(bias):
    rng = np.random.default_rng(0)
    lead = Lead([(RBF(0.3), 1.0)], rng.normal(size=(4, 2)), np.array([[1.0, -2.0, 0.5, -0.7]]), np.array([bias]),
                np.ones(1), unit=0.01)
    return lead, Region(rng.normal(size=(1, 2)), np.array([[0.5, 0.3]]), None, np.ones(2), np.ones(1))


@pytest.mark.parametrize("bias", [0.4, -0.4, 9.0])
def test_the_bound_is_the_least_of_the_parabolas_less_what_rounding_may_change(bias, coarsely, monkeypatch):
    lead, region = posed(bias)
    calls = []
    monkeypatch.setattr(module, "_lower_bound", lambda *given: calls.append(given) or -0.2)
    bound = quadratic_bound(lead, region)
    terms = Exponentials.over(lead, region)
    other = grown_bias(lead, 0.3, terms.grown, np.zeros((1, 2)))
    half, e, v = region.half[0], coarse(4 + 2), lead.centers - region.anchor[0]
    const = other.const[0] + min(other.bend[0], 0) * (0.5**2 + 0.3**2) * (1 + e)
    p, s, sizes = np.zeros(2), [], abs(other.const[0])
    doubt = terms.hidden[0] + other.doubt[0]
    for j, w in enumerate(terms.weights[0]):
        U = max(-terms.low[0, j], terms.high[0, j])
        k = _bends(np.array([U]), np.array([w > 0]))[0]
        const, p = const + w, p + 2 * 0.3 * w * v[j]
        s.append(w * k / 2)  # of the square of u
        sizes, doubt = sizes + abs(w) * (1 + U + k * U**2), doubt + terms.lost[0, j]
    doubt += e * (sizes + abs(const))
    assert bound == pytest.approx(const - doubt - 0.2 * (1 + e) - e * abs(const))
    unit = np.sqrt(2 * 0.3)  # of moves, in which u is v'd
    for given, true in zip(calls[0], (unit * v, s, p / unit, unit * half, doubt - const), strict=True):
        np.testing.assert_allclose(given, true)


@pytest.mark.parametrize(("away", "known"), [(0.0, True), (49.0, True), (51.0, False)])
def test_exponents_of_e_above_fifty_have_no_bound(away, known):
    lead = Lead([(RBF(0.5), 1.0)], np.array([[away]]), np.ones((1, 1)), np.ones(1), np.ones(1))
    region = Region(np.zeros((1, 1)), np.ones((1, 1)), None, np.ones(1), np.ones(1))  # u = 2 gamma away d
    assert (quadratic_bound(lead, region) > -np.inf) == known


@pytest.mark.parametrize("U", [0.0, 1e-9, 1.5e-6, 1e-3, 0.01, 1.0, 30.0])
def test_bends_are_those_of_the_exponential_but_for_their_rounding(U):
    """k = 2 (e^U - 1 - U) / U^2 = 1 + U/3 + ..., in fractions; of a small U that of 1e-6."""
    for side in (1, -1):
        u, term, k = side * Fraction(max(U, 1e-6)), Fraction(1), Fraction(0)
        for n in range(150):
            k, term = k + term, term * u / (n + 3)
        said, error = Fraction(float(_bends(np.array([U]), np.array([side < 0]))[0])), 16 * Fraction(UNIT)
        law = k * error * (1 + 1 / abs(u))
        assert abs(said - k - side * law) <= law / 4


def test_eigenvalues_are_less_by_all_that_their_factors_miss(coarsely, monkeypatch):
    rng = np.random.default_rng(1)
    A, s = rng.normal(size=(4, 3)), rng.normal(size=4)
    Q, R, e, W = rng.normal(size=(3, 2)), rng.normal(size=(2, 4)), np.array([-2.0, 1.0]), rng.normal(size=(2, 2))
    monkeypatch.setattr(np.linalg, "qr", lambda matrix: (Q, R))
    norm, share = np.linalg.norm, coarse(7)
    for e in (np.array([-2.0, 1.0]), np.array([0.5, 3.0]), np.array([-3.0, -1.0])):
        monkeypatch.setattr(np.linalg, "eigh", lambda matrix, e=e: (e, W))
        steep, long = max(abs(s)), norm(R)
        missed = norm(A.T - Q @ R) + share * np.sqrt(2) * long
        C = sum(s[j] * np.outer(R[:, j], R[:, j]) for j in range(4))
        stands = sum(e[k] * np.outer(W[:, k], W[:, k]) for k in range(2))
        lost = norm(C - stands) + share * 2 * (steep * long**2 + norm(e))
        wide, wider = (1 + norm(Z.T @ Z - np.eye(2)) + share * 2 for Z in (Q, W))
        true = wide * (min(e[0], 0) * wider - lost) - steep * missed * (2 * np.sqrt(wide) * long + missed)
        least, most = _eigenvalues(A, s)
        assert least == pytest.approx(true * (1 + share * 2))
        assert most == max(e[1], 0)


@pytest.mark.parametrize("shape", [(5, 2), (2, 5)])
def test_a_tangent_plane_is_taken_less_its_rounding(shape, coarsely, monkeypatch):
    monkeypatch.setattr(module, "STEPS", 1)
    rng = np.random.default_rng(2)
    A, s, p, h = rng.normal(size=shape), rng.normal(size=shape[0]), rng.normal(size=shape[1]), rng.random(shape[1])
    bound, y = _over_box(A, s, 3.0, p, h, 50.0, np.inf)
    at = -h * np.sign(p)
    K = (A.T * s) @ A + 3.0 * np.eye(shape[1])
    sizes = np.abs(s) @ (np.abs(A) @ h) ** 2 + 3.0 * h @ h + np.abs(p) @ h
    assert bound == pytest.approx(-at @ K @ at - h @ np.abs(p + 2 * K @ at) - 3.0 * h @ h - 3 * coarse(7) * sizes)
    np.testing.assert_allclose(y, np.clip(at - (p + 2 * K @ at) / 50.0, -h, h))
    monkeypatch.setattr(module, "STEPS", 4)
    before, moved = at, at
    for step in range(4):
        y = np.clip(moved - (p + 2 * K @ moved) / 50.0, -h, h)
        before, moved = y, np.clip(y + step / (step + 3) * (y - before), -h, h)
    np.testing.assert_allclose(_over_box(A, s, 3.0, p, h, 50.0, np.inf)[1], y)


@pytest.mark.parametrize("shape", [(40, 3), (3, 3)])
def test_convex_parabolas_have_their_minimum(shape):
    """Over the box: by 3,000 plain gradient steps."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        A, s = rng.normal(size=shape) + 2 * np.eye(*shape), rng.uniform(0.5, 1, size=shape[0])
        p, h = rng.normal(size=3) * 3, rng.uniform(0.1, 1, size=3)
        B = (A.T * s) @ A
        y, steep = np.zeros(3), 2 * np.linalg.eigvalsh(B)[-1]
        for _ in range(3000):
            y = np.clip(y - (p + 2 * B @ y) / steep, -h, h)
        least = p @ y + y @ B @ y
        for scale in (1.0, 1e4):
            bound = _lower_bound(A / scale, s, p / scale, h * scale, np.inf)
            assert least - 0.01 * abs(least) <= bound <= least


def test_steps_go_on_until_a_bound_is_above_what_is_enough(monkeypatch):
    A, s, p, h = np.eye(2), np.array([1.0, 0.3]), np.array([0.5, -0.2]), np.ones(2)
    best = _over_box(A, s, 0.0, p, h, 2.0, np.inf)[0]
    monkeypatch.setattr(module, "STEPS", 1)
    first = _over_box(A, s, 0.0, p, h, 2.0, np.inf)[0]
    monkeypatch.setattr(module, "STEPS", 30)
    assert first < _over_box(A, s, 0.0, p, h, 2.0, first)[0] < best
    assert _over_box(A, s, 0.0, p, h, 2.0, np.nextafter(first, -np.inf))[0] == first
    one = _lower_bound(A, s, p, h, -9.0)
    assert one < _lower_bound(A, s, p, h, one)


def test_one_convex_column_beside_a_concave_one_costs_little():
    """p'd + d'Bd of columns by themselves, whose least values add up: the units of the columns are found."""
    for bend, p in ((1.0, 0.3), (10.0, 3.0)):
        V, s = np.eye(2), np.array([bend, -1.0])
        least = -(p**2) / (4 * bend) - 1.0 - 0.5
        assert least - 0.05 * abs(least) <= _lower_bound(V, s, np.array([p, 0.5]), np.ones(2), np.inf) <= least


def test_units_start_at_a_root_of_the_bends_and_fall_to_half_where_y_is_inside(coarsely, monkeypatch):
    V, s, p, half = np.array([[1.0, 2.0, 4.0], [0.5, -1.0, 2.0]]), np.array([2.0, -3.0]), np.arange(1.0, 4.0), np.array(
        [0.5, 0.25, 0.0])
    calls, inside = [], np.array([1.0, 0.5, 0.0])
    monkeypatch.setattr(module, "_eigenvalues", lambda A, s: (-2.0, 5.0))
    monkeypatch.setattr(module, "_over_box", lambda *given: calls.append(given) or (-len(calls), inside * given[4]))
    assert _lower_bound(V, s, p, half, -1.0) == -1.0  # no more than enough is not enough
    t = (2 * V[0] ** 2 + 3 * V[1] ** 2) ** 0.25
    for A, same, shift, q, h, steep, enough in calls:
        np.testing.assert_allclose(A, V / t)
        np.testing.assert_allclose(q, p / t)
        np.testing.assert_allclose(h, half * t * (1 + coarse(0)))
        assert (same is s, shift, steep, enough) == (True, 2.0, 14.0, -1.0)
        t = t * [2.0, np.sqrt(1.75), 1.0]
    assert len(calls) == 4
