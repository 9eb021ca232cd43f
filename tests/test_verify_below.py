"""Functions below a kernel expansion in the verifier: where each touches the sum, and what it takes off besides."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from test_verify_quadratic import UNIT, near
from test_verify_radii import LONG, at, exactly, long

from buttress.verify.inputs import below as module
from buttress.verify.inputs.below import (
    CUSP,
    INSIDE,
    Round,
    bends,
    column,
    cubes,
    exponential,
    gathered,
    powers,
    radial,
    radial_parabolas,
    remainder,
    span,
)
from buttress.verify.inputs.quadratic import RowMoves

SMOOTH = [{"class": "RBF", "gamma": 0.7}, {"class": "Cauchy", "gamma": 0.4},
          {"class": "InverseMultiquadric", "offset": 1.3}, {"class": "Log", "degree": 2.0, "gamma": 0.5}]
KERNELS = [*SMOOTH, {"class": "Laplacian", "gamma": 0.5}, {"class": "Log", "degree": 1.5, "gamma": 0.5}]
kernels = pytest.mark.parametrize("part", KERNELS, ids=str)
signs = pytest.mark.parametrize("c", [1.0, -1.0])
X, Z, EPS, GUESS = np.array([0.25]), np.array([[1.5]]), 0.5, np.array([0.125])
NEAR = 200 * UNIT


@pytest.fixture(autouse=True)
def _quietly():
    with np.errstate(all="ignore"):
        yield


def values(function, *moves):
    """The values of a function of one number at moves, in longer numbers; its errors are a few units."""
    low, high = at(function, np.array(moves)[:, None])
    assert (high - low < 1e-13 * (1 + np.abs(low))).all()
    return (low + high) / 2


def touches(function, part, c, *moves, steep=False):
    """Say whether a function meets the sum at moves, and, where it is asked, with the same slope at the first."""
    moves = np.array(moves)[:, None]
    missed = lifted(part, c, moves) - (at(function, moves)[0] + at(function, moves)[1]) / 2
    around = moves[0] + np.array([[-1e-4], [1e-4]])
    slope = np.diff(lifted(part, c, around) - (at(function, around)[0] + at(function, around)[1]) / 2) / 2e-4
    return (np.abs(missed) < NEAR * 10).all() and (not steep or abs(slope[0]) < 1e-6)


def lifted(part, c, moves):
    """The value of one centre at moves; that of RBF times e^(gamma |d|^2) where c is a pair (c, True)."""
    c, by_all = c if isinstance(c, tuple) else (c, False)
    factor = np.exp(LONG(part["gamma"]) * LONG(moves[:, 0]) ** 2) if by_all else 1
    return exactly(part, X, Z, np.array([c]), moves) * factor


def rounds(c, b=0.0, norm2=1.0, gamma=0.7):
    return Round(gamma, X, Z, np.array([c]), b, norm2)


def test_exponentials_and_remainders_are_as_near_as_said():
    for v, e in ((0.3, 0.0), (-2.0, 1e-3)):
        found = exponential(near(v, e))
        assert found.v == np.exp(v)
        assert found.e == pytest.approx(1.01 * np.exp(v) * (np.expm1(e) + 8 * UNIT), rel=1e-9, abs=0.0)
    assert exponential(near(-900.0)).e == pytest.approx(1.01e-300, rel=1e-9, abs=0.0)
    g = np.random.default_rng(0)
    t = np.r_[-1.0, 1.0, 30.0, -30.0, g.uniform(-1, 1, 60), g.uniform(-0.2, 0.2, 60), g.uniform(-3, 3, 60)]
    for order in (1, 2, 3):
        found = remainder(t, order)
        np.testing.assert_allclose(found.e, 1.01 * 256 * UNIT * found.v, rtol=1e-9)
        with localcontext() as context:
            context.prec = 60
            for one, v in zip(map(Decimal, t), found.v, strict=True):
                exact = (one.exp() - 1 - one * (order > 1) - one * one / 2 * (order > 2)) / one**order
                assert abs(Decimal(float(v)) - exact) <= Decimal(256 * UNIT) * exact
    np.testing.assert_array_equal([float(remainder(np.array(0.0), order).v) for order in (1, 2, 3)], [1, 0.5, 1 / 6])


@pytest.mark.parametrize("bent", [True, False])
@pytest.mark.parametrize("curves", [True, False])
def test_terms_are_gathered_as_they_are_in_fractions(bent, curves):
    g = np.random.default_rng(0)
    c, value, steep, curved, off = g.normal(size=(5, 3))
    directions, d = g.normal(size=(3, 2)), np.array([0.5, -0.25])
    found = gathered(c, near(value), near(steep), near(curved) if curves else None, near(off), near(directions), bent)
    exact = Fraction(0)
    for j in range(3):
        y = Fraction(off[j]) + sum(Fraction(v) * Fraction(x) for v, x in zip(directions[j], d, strict=True))
        squares = sum(Fraction(x) ** 2 for x in d) if bent else 0
        exact += Fraction(c[j]) * (Fraction(value[j]) + Fraction(steep[j]) * (y + squares)
                                   + (Fraction(curved[j]) * y * y if curves else 0))
    low, high = at(found, d[None])
    assert abs(float(low[0]) - float(exact)) < NEAR
    assert abs(float(high[0]) - float(exact)) < NEAR
    assert (found.curve is not None) == curves
    np.testing.assert_array_equal(column(c), c[:, None])


@long
@signs
def test_parabolas_and_lines_of_rbf_touch_at_the_guess_and_at_an_end(c):
    part = {"class": "RBF", "gamma": 0.7}
    held, moves = rounds(c), RowMoves(EPS)
    end = -EPS if c > 0 else EPS  # where the distance is largest u is least
    assert touches(held.parabolas(GUESS, moves), part, (c, True), GUESS[0], end, steep=True)
    ends = (GUESS[0],) if c > 0 else (-EPS, EPS)
    assert touches(held.lines(GUESS, moves), part, (c, True), *ends, steep=c > 0)
    for far, kind in ((np.array([9.0]), held.parabolas), (np.array([-9.0]), held.parabolas)):
        tau = np.sign(far[0]) * EPS * (1 - 1e-3)
        assert (values(kind(far, moves), tau) <= lifted(part, (c, True), np.array([[tau]]))).all()
    assert held.units(moves) == pytest.approx(2 * 0.7 * 1.25 * EPS, rel=30 * UNIT)
    np.testing.assert_allclose(held.directions().v, [[2 * 0.7 * 1.25]], rtol=1e-15)


@long
@signs
@pytest.mark.parametrize("norm2", [1.0, 0.9, 0.0])
def test_the_series_of_rbf_leaves_out_no_more_than_cauchy_and_schwarz(c, norm2):
    """E (1 + u + u^2/2) less the rest, E = e^(-g r^2), u = 2 g v d; the squares of its norm are E^2 (2 g r^2)^p / p!"""
    gamma, v = LONG(0.7), LONG(1.25)
    found = rounds(c, norm2=norm2).taylor(GUESS, RowMoves(EPS))
    E, r2, q = np.exp(-gamma * v**2), 2 * gamma * v**2, 2 * gamma * LONG(EPS) ** 2
    left = LONG(norm2) - E**2 * (1 + r2 + r2**2 / 2)
    rest = np.sqrt(max(left, 0) * (np.exp(q) - 1 - q - q**2 / 2))
    for d in (-0.5, 0.0, 0.3):
        u = 2 * gamma * v * LONG(d)
        expected = c * E * (1 + u + u**2 / 2) - rest
        assert -1e-12 < values(found, d)[0] - expected < NEAR


@long
@pytest.mark.parametrize("b", [2.0, -2.0])
def test_an_intercept_is_below_its_growth_and_touches_it(b):
    """b e^(g s) at s = |d|^2: a tangent at the guess, or a chord between 0 and the border."""
    found = rounds(0.0, b).lines(GUESS, RowMoves(EPS))
    ends = np.array([GUESS[0]] if b > 0 else [0.0, EPS])
    exact = b * np.exp(LONG(0.7) * LONG(ends) ** 2)
    assert (np.abs(values(found, *ends) - exact) < 4 * NEAR).all()
    d = np.linspace(-EPS, EPS, 41)
    missed = b * np.exp(LONG(0.7) * LONG(d) ** 2) - values(found, *d)
    assert (missed > -4 * NEAR).all()
    assert missed.max() < 0.1
    for kind in (rounds(0.0, b).taylor, rounds(0.0, b).parabolas):
        rest = 0.0 if "parabolas" in str(kind) else np.sqrt(np.exp(0.35) - 1 - 0.35 - 0.35**2 / 2)
        np.testing.assert_allclose((values(kind(GUESS, RowMoves(EPS)), *ends) + rest).astype(float),
                                   exact.astype(float),
                                   rtol=1e-12)


def test_distances_after_moves_are_bounded_on_both_sides_and_sharply():
    x, rows = np.array([0.0, 0.0]), np.array([[3.0, 4.0], [0.25, 0.0], [-1.0, -1.0]])
    for moves, lows, highs in ((RowMoves(0.5), [4.5**2, 0, (2**0.5 - 0.5) ** 2],
                                [5.5**2, 0.75**2, (2**0.5 + 0.5) ** 2]),
                               (RowMoves(0.5, 2), [2.5**2 + 3.5**2, 0, 0.5], [3.5**2 + 4.5**2, 0.75**2 + 0.25, 4.5])):
        away, r2, low, high = span(x, rows, moves)
        np.testing.assert_array_equal(away.v, rows)
        np.testing.assert_allclose(r2.v, [25, 0.0625, 2])
        for found, exact, sign in ((low, lows, 1), (high, highs, -1)):
            missed = sign * (np.array(exact) - found)
            assert (missed >= -1e-299).all()
            assert (missed <= 100 * UNIT * (1 + np.array(exact))).all()


@long
@kernels
@signs
def test_lines_touch_a_falling_function_at_the_guess_or_at_both_ends(part, c):
    found = radial(part, X, Z, np.array([c]), GUESS, RowMoves(EPS))
    assert touches(found, part, c, *((GUESS[0],) if c > 0 else (-EPS, EPS)), steep=c > 0)
    if c > 0:  # far beyond the ends the nearest end
        for guess, end in ((-2.0, -EPS), (1.0, EPS)):
            assert touches(radial(part, X, Z, np.array([c]), np.array([guess]), RowMoves(EPS)), part, c, end)


@long
def test_no_tangent_is_taken_too_near_a_cusp():
    part = {"class": "Laplacian", "gamma": 0.5}
    found = radial(part, X, X[None], np.ones(1), np.zeros(1), RowMoves(EPS))
    d = float(np.sqrt(CUSP) * EPS)
    assert CUSP == 1e-6
    assert abs(float(values(found, d)[0] - np.exp(-LONG(0.5) * LONG(d)))) < NEAR


@long
@kernels
@signs
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("curve", [1.0, -1.0])
def test_parabolas_of_falling_functions_are_those_that_are_said(part, c, far, curve):
    """F + F' y + k y^2 of y = r^2 - 2 v d + s - tau, in which -4 k v d s and k s^2 are replaced by what is below them.

    At s_0, that of the guess, or for s^2 times a negative number by a chord.
    """
    guess = np.array([EPS if far else -0.25]) * curve
    function = radial_parabolas(part, X, Z, np.array([c]), guess, RowMoves(EPS))
    low, high = LONG(0.75) ** 2, LONG(1.75) ** 2
    tau = np.clip((LONG(1.25) - LONG(guess[0])) ** 2, low + INSIDE * (high - low), high - INSIDE * (high - low))
    assert INSIDE == 0.1
    end = high if c > 0 else low
    F, steep = (profile_of(part, tau, order) for order in (0, 1))
    k = c * (profile_of(part, end) - F - steep * (end - tau)) / (end - tau) ** 2
    most, s0 = LONG(EPS) ** 2, LONG(guess[0]) ** 2
    for d in (-0.5, 0.1, 0.4):
        s, y = LONG(d) ** 2, LONG(1.25) ** 2 - tau - 2 * LONG(1.25) * LONG(d)
        squares = 2 * s0 * s - s0**2 if k > 0 else most * s
        lost = abs(4 * k * LONG(1.25)) * EPS * max(s0, most - s0)
        expected = c * (F + steep * (y + s)) + k * (y**2 + 2 * (LONG(1.25) ** 2 - tau) * s + squares) \
            - 4 * k * LONG(1.25) * LONG(d) * s0 - lost
        assert abs(float(values(function, d)[0] - expected)) < 1e-12


def profile_of(part, t, order=0):
    """F or F' at t, in longer numbers."""
    gamma, a = LONG(part.get("gamma", 1.0)), LONG(part.get("degree", 2.0)) / 2
    offset = LONG(part.get("offset", 1.0))
    return {"RBF": (np.exp(-gamma * t), -gamma * np.exp(-gamma * t)),
            "Laplacian": (np.exp(-gamma * np.sqrt(t)), -gamma * np.exp(-gamma * np.sqrt(t)) / (2 * np.sqrt(t))),
            "Cauchy": (1 / (1 + gamma * t), -gamma / (1 + gamma * t) ** 2),
            "InverseMultiquadric": ((t + offset**2) ** LONG(-0.5), -((t + offset**2) ** LONG(-1.5)) / 2),
            "Log": (-np.log1p((gamma * t) ** a), -a * (gamma * t) ** a / t / (1 + (gamma * t) ** a))}[
                part["class"]][order]


def polynomial(p, coef0=0.25):
    if p == 1:
        return {"class": "Linear", "coef0": coef0}
    return {"class": "Polynomial", "degree": float(p), "gamma": 0.5, "coef0": coef0}


@long
@signs
@pytest.mark.parametrize("coef0", [0.25, -1.5, -0.4375])
@pytest.mark.parametrize("p", [1, 2, 3, 4, 5])
def test_parabolas_of_powers_touch_at_the_guess_and_reach_no_farther_than_they_must(p, coef0, c, monkeypatch):
    part, moves, held = polynomial(p, coef0), RowMoves(EPS), []
    monkeypatch.setattr(module, "bends", lambda p, *given: held.extend(given) or bends(p, *given))
    found = powers(part, X, Z, np.array([c]), GUESS, moves)
    assert touches(found, part, c, GUESS[0], steep=True)
    gamma = part.get("gamma", 1.0)
    t0, reach = gamma * 1.5 * 0.25 + coef0, gamma * 0.75
    if p > 1:
        power, low, high, _ = held
        for one, exact in ((low, t0 - reach), (high, t0 + reach), (power[1].v, t0 + reach / 4)):
            assert one[0] == pytest.approx(exact, abs=50 * UNIT)
        assert low[0] < t0 - reach < t0 + reach < high[0]
    missed = exactly(part, X, Z, np.array([c]), np.linspace(-EPS, EPS, 401)[:, None]) \
        - values(found, *np.linspace(-EPS, EPS, 401))
    assert missed.min() > -1e-13
    if p > 2 and not (p == 4 and low[0] < 0 < high[0] and c > 0):
        assert min(missed[0], missed[-1]) < 1e-13


@long
def test_cubes_leave_out_no_more_than_their_cubic_form():
    """|sum_j c_j (g z_j'd)^3| is at most |d|^3 sqrt(sum_jk c_j c_k (g z_j'g z_k)^3)."""
    part, rows, c = polynomial(3), np.array([[1.5], [-0.5]]), np.array([1.0, 2.0])
    found = cubes(part, X, rows, c, GUESS, RowMoves(EPS))
    g = LONG(0.5) * LONG(rows[:, 0])
    rest = np.sqrt((c @ g**3) ** 2) * LONG(EPS) ** 3
    t = g * LONG(X[0]) + LONG(0.25)
    for d in (-0.5, 0.0, 0.3):
        expected = c @ (t**3 + 3 * t**2 * g * LONG(d) + 3 * t * (g * LONG(d)) ** 2) - rest
        assert -1e-12 < values(found, d)[0] - expected < NEAR
    canceled = cubes(part, X, rows[[0, 0]], np.array([1.0, -1.0]), GUESS, RowMoves(EPS))
    assert abs(float(values(canceled, 0.3)[0])) < 1e-7


@pytest.mark.parametrize("p", [2, 3, 4, 5, 6])
def test_bends_are_the_least_and_largest_over_the_range(p):
    """Of [t^p - tau^p - p tau^(p-1) (t - tau)] / (t - tau)^2; for even p where the range crosses 0 at least 0."""
    for low, high, tau in ((-1.0, 0.5, 0.25), (0.0, 0.75, 0.5), (-0.5, 0.0, -0.25), (0.5, 1.0, 0.75),
                           (-1.0, -0.25, -0.5)):
        t = np.linspace(low, high, 400)
        t = t[np.abs(t - tau) > 1e-3]
        bend = (t**p - tau**p - p * tau ** (p - 1) * (t - tau)) / (t - tau) ** 2
        powers_of = [near([tau**i]) for i in range(p + 1)]
        ends = np.array([low]), np.array([high])
        least, most = (bends(p, powers_of, *ends, np.array([up]))[0] for up in (True, False))
        turns = low < 0 < high and p in (4, 6)
        assert least == (0 if turns else pytest.approx(bend.min(), abs=1e-11))
        assert most == pytest.approx(bend.max(), abs=1e-11)
        assert least <= bend.min() + 1e-11
        assert most >= bend.max() - 1e-11
