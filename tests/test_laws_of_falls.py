"""By how much scores can fall, and what rounding adds to that: each law of ``norm_bound`` worked out by hand.

Few centres and one or two rows: small enough that a term, a factor or a sign that is wrong changes the number.
"""

from math import exp, inf, log, log1p, sqrt

import numpy as np
import pytest
from test_certificates import Expansion

from buttress._proof import sum_error
from buttress.certificates import certified_radius, norm_bound
from buttress.certificates.norm_bound import (
    KnownLeads,
    LinearTerm,
    ModelRounding,
    NoCertificateError,
    RadialTerm,
    WaveTerm,
    certified_terms,
    norm_doubt,
    summands,
)
from buttress.expansion import KernelExpansion
from buttress.features import RandomExpansion, random_features
from buttress.kernels import (
    RBF,
    Cauchy,
    Combination,
    InverseMultiquadric,
    Laplacian,
    Linear,
    Log,
    MultiscaleRBF,
    Polynomial,
    Radial,
)

EXACT = ModelRounding(0.0, np.zeros(2))


def near(number):
    return pytest.approx(number, rel=1e-9, abs=0)


def term_of(kernel, Z, coef, sizes=None):
    coef = np.array(coef, float)
    part = KernelExpansion(kernel, np.array(Z, float), coef, np.zeros(coef.shape[1]))
    return RadialTerm(part, np.abs(coef) if sizes is None else np.array(sizes, float))


def test_a_mean_of_kernels_with_several_peaks_of_steepness_is_certified_as_far_as_the_nearest():
    """Steep at .007 and again at .7: between them lie radii at which it is no longer steep."""
    f = KernelExpansion(MultiscaleRBF([1e4] + [1.0] * 110), np.array([[1e-3], [-1e-3]]), np.array([[1.0], [-1.0]]),
                        np.zeros(1))
    away = -np.linspace(0, 0.1, 2001)[:, None]
    f.intercept = -0.7 * f(away).min(axis=0)
    found = certified_radius(Expansion(f), np.zeros((1, 1))).l2[0]
    nearest = -away[np.argmax(f(away)[:, 0] < 0), 0]
    assert 0.95 * nearest < found < nearest


class Steady(Radial):
    """A kernel that nobody here knows: that of two widths."""

    definiteness = "pd"

    def profile(self, r2):
        return MultiscaleRBF([9.0, 1.0]).profile(r2)

    def slope(self, r2):
        return MultiscaleRBF([9.0, 1.0]).slope(r2)


@pytest.mark.parametrize(("kernel", "peak"), [
    (RBF(2.0), 0.5), (Cauchy(3.0), 1 / 3), (InverseMultiquadric(2.0), sqrt(2)), (Log(2, 4.0), 0.5)], ids=str)
def test_the_steepest_that_a_kernel_has_been_is_at_its_peak_and_no_more(kernel, peak):
    term = term_of(kernel, [[0.0]], [[1.0]])
    s = np.linspace(0, 5, 50_001)
    steep = np.maximum.accumulate(s * np.abs(kernel.slope(s**2))) / -float(kernel.slope(np.zeros(1))[0])
    at = np.array([peak / 2, peak, 2 * peak, 4.9])
    found, true = term._slide(at), np.interp(at, s, steep)
    assert (found >= true * (1 - 1e-9)).all()
    assert found == pytest.approx(true, rel=1e-7)
    assert found[1] == pytest.approx(found[3], rel=1e-15)


def test_of_a_mean_of_kernels_the_steepness_is_a_mean_and_of_an_unknown_kernel_that_at_0():
    r = np.array([0.2, 0.4, 2.0])
    mean = term_of(MultiscaleRBF([8.0, 0.5]), [[0.0]], [[1.0]])._slide(r)
    wanted = [8 * min(s, 0.25) * exp(-8 * min(s, 0.25) ** 2) + 0.5 * min(s, 1) * exp(-0.5 * min(s, 1) ** 2) for s in r]
    np.testing.assert_allclose(mean, np.array(wanted) / 8.5, rtol=1e-13)
    assert (mean > np.array(wanted) / 8.5).all()
    np.testing.assert_array_equal(term_of(Steady(), [[0.0]], [[1.0]])._slide(r), r)


def test_rounding_is_the_law_of_sums_and_that_of_squares_counts_what_the_scalers_subtract():
    rounding = ModelRounding(0.5, np.array([3.0, 4.0]))
    assert rounding.share(5) == sum_error(5, 0.5)
    assert rounding.squares(np.array([7.0]), 2)[0] == 4 * sum_error(2, 0.5) * (7 + 25)


def test_an_expansion_is_split_into_terms_of_its_kernels_with_their_weights():
    Z, coef = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), np.array([[1.0], [-3.0], [0.5]])
    sizes = np.full((3, 1), 7.0)
    mixed = Combination([RBF(1.0), Linear(), Laplacian(2.0)], [0.5, 3.0, 0.0])
    line = np.array([[5.0], [-1.0]])
    radial, linear, own = certified_terms(KernelExpansion(mixed, Z, coef, np.ones(1), line), sizes)
    assert isinstance(radial, RadialTerm)
    np.testing.assert_array_equal(radial.part.coef, 0.5 * coef)
    np.testing.assert_array_equal(radial.sizes, 0.5 * sizes)
    np.testing.assert_array_equal(linear.weights, 3 * Z.T @ coef)
    np.testing.assert_array_equal(linear.sizes, 3 * Z.T @ sizes)
    np.testing.assert_array_equal(own.weights, line)
    np.testing.assert_array_equal(own.sizes, np.abs(line))
    assert [part.part.intercept.tolist() for part in (radial,)] == [[0.0]]
    two = KernelExpansion(Linear(), Z, np.tile(coef, 2), np.ones(2), np.tile(line, 2))
    assert certified_terms(two, sizes)[1].weights.shape == (2, 2)
    assert certified_terms(KernelExpansion(Polynomial(3), Z, coef, np.ones(1)), sizes) is None
    with pytest.raises(NoCertificateError, match="scores that are a str"):
        certified_terms("scores", sizes)


def test_a_combination_is_the_mean_of_its_kernels_unless_weights_say_otherwise():
    one, two = RBF(1.0), Laplacian(2.0)
    assert summands(one) == [(one, 1.0)]
    assert [weight for _, weight in summands(Combination([one, two, one]))] == [near(1 / 3)] * 3
    nested = Combination([Combination([one, two], [2.0, 0.0]), two], [0.25, 4.0])
    assert [(type(kernel), weight) for kernel, weight in summands(nested)] == [(RBF, 0.5), (Laplacian, 4.0)]


def test_a_linear_term_falls_by_its_dual_norms_and_twice_the_law_of_sums_over_columns_and_centres():
    part = KernelExpansion(Linear(), np.array([[3.0, -4.0], [0.0, 1.0], [0.0, -1.0]]), np.array([[1.0], [2.0], [2.0]]),
                           np.zeros(1))
    sizes = np.array([[1.0], [5.0], [6.0]])  # |w| = (3, 4), summed from (3, 4 + 5 + 6)
    term, scale = LinearTerm(part, sizes), np.array([2.0, 0.5])
    Z, V = np.array([[1.0, -2.0]]), np.array([[-1.0]])
    assert term.size(Z, V, np.array([7.0, 8.0]))[0] == 3 * (1 + 14) + 15 * (2 + 16)
    radius = np.array([3.0])
    for unit in (0.0, 0.5):
        lost = 2 * sum_error(2 + 3, unit)
        W = np.array([(3 + lost * 3) * 2, (4 + lost * 15) * 0.5])
        fall = term.fall(Z, V, scale, ModelRounding(unit, np.zeros(2)))
        assert fall(radius, "l2")[0] == near(3 * np.linalg.norm(W))
        assert (fall(radius, "linf")[0], fall(radius, "l1")[0]) == (near(3 * W.sum()), near(3 * W.max()))


def test_waves_fall_by_their_gradient_and_bend_or_by_the_steepest_of_all():
    features = random_features(RBF(0.5), 2, 3, seed=0)
    coef = np.random.default_rng(0).normal(size=(2, 3, 1))
    expansion = RandomExpansion(features, coef, np.zeros(1))
    term, scale = WaveTerm(expansion), np.array([2.0, 0.5])
    W, c = np.hstack([features.waves(block)[0] for block in range(2)]), coef.ravel()
    unit = features.amplitude / sqrt(3)
    steepest = unit * sqrt(np.linalg.norm(W, 2) ** 2 * (1 + 1e-9)) * 2 * np.linalg.norm(c)
    bent = unit * 2 * np.linalg.norm((W * np.abs(c)) @ W.T, 2) * (1 + 1e-9)
    Z, V = np.array([[0.3, -0.2], [1.0, 2.0], [0.0, 0.0]]), np.array([[-2.0], [-2.0], [2.0]])
    sizes = unit * 2 * np.abs(c).sum() * (1 + np.linalg.norm(W, axis=0).max() * (np.linalg.norm(Z, axis=1) + 5))
    np.testing.assert_allclose(term.size(Z, V, np.array([3.0, -4.0])), sizes)
    outer, fall = expansion.gradient(Z, V) * scale, term.fall(Z, V, scale, EXACT)
    for norm, stretch, dual in (("l2", 2.0, np.linalg.norm(outer, axis=1)),
                                ("linf", sqrt(4.25), np.abs(outer).sum(axis=1))):
        for radius in (1e-3, 0.5, 9.0):
            r = stretch * radius
            wanted = np.minimum(steepest * r, dual * radius + bent * r**2 / 2)
            np.testing.assert_allclose(fall(np.full(3, radius), norm), wanted, rtol=1e-12)
    assert norm_bound._top_eigenvalue(np.diag([1.0, 4.0, 2.0])) == pytest.approx(4 * (1 + 1e-9), rel=1e-12)


@pytest.mark.parametrize(("kernel", "F"), [(RBF(2.0), lambda s: exp(-2 * s)), (Log(2, 3.0), lambda s: -log1p(3 * s)),
                                           (InverseMultiquadric(0.5), lambda s: 1 / sqrt(s + 0.25)),
                                           (InverseMultiquadric(4.0), lambda s: 1 / sqrt(s + 16))],
                         ids=["RBF", "Log", "InverseMultiquadric", "wide InverseMultiquadric"])
def test_a_squared_norm_is_off_by_its_distances_and_by_the_law_of_sums_of_its_terms(kernel, F):
    Z = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 3.0], [1.0, 0.0], [1.0, 0.0]])  # at most 3 from the median
    off = 4 * sum_error(2) * 3 * 9
    sums = 2 * sum_error(5) * max(F(0), abs(F(36)), 1.0)
    assert norm_doubt(kernel, Z) == pytest.approx(F(0) - F(off) + sums, rel=1e-3, abs=0)


def test_the_size_of_a_radial_term_is_that_of_its_largest_values():
    Z, V = np.array([[0.5, 0.0], [3.0, 0.0]]), np.array([[1.0, -2.0]] * 2)
    centers, coef, sizes = [[0.0, 0.0], [0.0, 1.0], [0.0, 5.0]], np.ones((3, 2)), np.arange(6.0).reshape(3, 2)
    weight = sizes[:, 0] + 2 * sizes[:, 1]
    for kernel, top in ((RBF(1.0), 1.0), (InverseMultiquadric(0.5), 2.0), (InverseMultiquadric(4.0), 1.0)):
        assert term_of(kernel, centers, coef, sizes).size(Z, V, np.zeros(2)) == near([weight.sum() * top] * 2)
    square = np.array([[0.25, 1.25, 25.25], [9.0, 10.0, 34.0]])
    wanted = (weight * np.maximum(2 * np.log1p(0.1 * square), 1.0)).sum(axis=1)
    np.testing.assert_allclose(term_of(Log(2, 0.1), centers, coef, sizes).size(Z, V, np.zeros(2)), wanted)


COARSE = ModelRounding(2.0**-10, np.array([0.5, 0.0]))


def one_term(kernel=None):
    """Two centres, whose median is (2, 0), with sizes 3 and 4, twice those of the coefficients."""
    return term_of(kernel or RBF(0.25), [[1.0, 0.0], [3.0, 0.0]], [[1.5], [-2.0]], [[3.0], [4.0]])


ROW, CONTRAST = np.array([[2.0, 1.0]]), np.array([[-1.0]])
LOST = 4 * sum_error(2, 2.0**-10) * (2 * 1 + 1 + 0.25)  # of both squared distances, which are 2


def test_distances_and_what_their_rounding_changes_in_values_and_slopes():
    term = one_term()
    np.testing.assert_allclose(term._off(ROW, COARSE), [[LOST, LOST]])
    r, share = 0.5, sum_error(2 + 2, 2.0**-10)
    doubt = term._doubt(ROW, CONTRAST, COARSE)(np.array([r]))[0]
    apart = 4 * sum_error(2, 2.0**-10) * (2 * r**2 + 0.25)
    assert doubt == near(7 * (1 - exp(-LOST / 4)) + 7 * (1 - exp(-apart / 4)))
    value, slope = term._inexact(ROW, CONTRAST, COARSE)
    assert value[0] == near(7 * (1 - exp(-LOST / 4) + share))
    assert slope[0] == near(2 * 7 * sqrt(2 + LOST) * (0.25 * (1 + share) - 0.25 * exp(-LOST / 4)))
    tall = one_term(InverseMultiquadric(0.5))._inexact(ROW, CONTRAST, COARSE)[0][0]
    assert tall == near(7 * (2 - 1 / sqrt(LOST + 0.25) + share * 2))
    flat = one_term(InverseMultiquadric(4.0))._inexact(ROW, CONTRAST, COARSE)[0][0]
    assert flat == near(7 * (0.25 - 1 / sqrt(LOST + 16) + share))
    whole = term.fall(ROW, CONTRAST, np.array([3.0, 1.0]), COARSE)(np.array([r]), "l2")[0]
    exact = term._exact_fall(ROW, CONTRAST, np.array([3.0, 1.0]), COARSE)(np.array([r]), "l2")[0]
    assert whole == near(exact + term._doubt(ROW, CONTRAST, COARSE)(np.array([3 * r]))[0])


def test_what_is_known_of_a_smooth_term_is_its_value_its_gradient_and_its_norm(monkeypatch):
    term, scale, seen = one_term(), np.array([3.0, 0.5]), {}
    monkeypatch.setattr(term, "_fall", lambda radius, r, known, dual: seen.update(known=known, dual=dual, r=r) or r)
    value_off, slope_off = term._inexact(ROW, CONTRAST, COARSE)
    fall, near_value = term._exact_fall(ROW, CONTRAST, scale, COARSE), exp(-0.5)
    g = -2 * 0.25 * near_value * np.array([-1.5 * 1 - 2.0 * 1, -1.5 + 2.0])  # of -1.5 k(., (1, 0)) + 2 k(., (3, 0))
    outer = np.abs(g * scale)
    for norm, stretch, length in (("l2", 3.0, np.linalg.norm(outer)), ("linf", sqrt(9.25), outer.sum())):
        fall(np.array([0.5]), norm)
        known = seen["known"]
        assert (seen["r"][0], seen["dual"][0]) == (near(0.5 * stretch), near(length + slope_off[0] * stretch))
        assert (known.value[0], known.steep[0]) == (near(0.5 * near_value), near(np.linalg.norm(g)))
        assert (known.value_off[0], known.steep_off[0]) == (value_off[0], slope_off[0])
        assert known.square[0] == near(1.5**2 + 4 - 2 * 3 * exp(-1) + 3.5**2 * term.norm_doubt)


def numbers(*values):
    return KnownLeads(*(np.array([value]) for value in values))


def test_a_fall_by_the_norm_or_by_value_gradient_and_what_is_left_of_the_norm():
    """(1) and (2) of the module, for F = 2 e^(-s): F(0) = 2, F'(0) = -2."""
    term = term_of(InverseMultiquadric(0.5), [[0.0]], [[1.0]])
    F, S = (lambda s: (s + 0.25) ** -0.5), (lambda s: -0.5 * (s + 0.25) ** -1.5)
    for r, dual, offs in ((0.1, 9.0, (0.0, 0.0)), (0.1, 0.2, (0.0, 0.0)), (0.1, 9.0, (0.125, 0.25)),
                          (0.1, 9.0, (0.125, 0.9)), (2.0, 9.0, (0.7, 0.25)), (0.1, 9.0, (-0.7, 0.0))):
        value, steep, square = 0.5, 0.75, 1.5
        value_off, steep_off = abs(offs[0]), offs[1]
        value = -value if offs[0] == -0.7 else value
        f, s, bend = F(r * r), S(r * r), 4.0
        peak = min(r, 0.5 / sqrt(2))
        slide = min(dual * 0.3, (steep + steep_off) * peak * -S(peak**2) / bend)
        left = square - max(steep - steep_off, 0) ** 2 / (2 * bend) - max(abs(value) - value_off, 0) ** 2 / 2
        sink = max((value + value_off) * (1 - f / 2), 0)
        known = sink + slide + sqrt(left * (2 - f * f / 2 - 2 * r * r * s * s / bend))
        wanted = min(sqrt(square * 2 * (2 - f)), known)
        found = term._fall(np.array([0.3]), np.array([r]), numbers(value, value_off, steep, steep_off, square),
                           np.array([dual]))[0]
        assert found == pytest.approx(wanted, rel=1e-9), (r, dual, offs)
    by_norm = term._fall(np.array([0.3]), np.array([0.1]), numbers(1e9, 0.0, 1e9, 0.0, 1.5), np.array([1e9]))[0]
    assert by_norm == pytest.approx(sqrt(1.5 * 2 * (2 - F(0.01))), rel=1e-9)
    log_term = term_of(Log(2, 1.0), [[0.0]], [[1.0]])
    found = log_term._fall(np.array([0.1]), np.array([0.1]), numbers(5.0, 0.0, 0.5, 0.0, 2.0), np.array([0.5]))[0]
    wanted = 0.5 * 0.1 / 1.01 + sqrt((2 - 0.125) * (2 * log(1.01) - 2 * 0.01 / 1.01**2))
    assert found == pytest.approx(wanted, rel=1e-9)


def test_what_rounding_hides_under_the_roots_of_a_fall_is_a_share_of_the_values():
    """At a radius of next to nothing F(0) - F is 0 in float64, and the roots are of what may be hidden alone."""
    term, r = term_of(RBF(1.0), [[0.0]], [[1.0]]), np.array([1e-12])
    hidden = 2 * sum_error(0)
    assert term._fall(r, r, numbers(0.0, 0.0, 0.0, 0.0, 9.0), np.zeros(1))[0] == near(3 * sqrt(hidden))
    assert term._fall(r, r, numbers(9e9, 0.0, 0.0, 0.0, 1e22), np.zeros(1))[0] < 0.999 * sqrt(1e22 * hidden)
    wide = term_of(Laplacian(1.0), [[0.0]], [[1.0]])._cusp_fall(np.full((1, 1), 1e3), np.ones((1, 1)), np.ones(1),
                                                                np.array([9.0]))
    assert wide(np.array([1e3]), "l2")[0] == 0  # e^(-1000) has nothing to lose
    tiny = term_of(Laplacian(1.0), [[0.0]], [[1e9]])._cusp_fall(np.zeros((1, 1)), np.ones((1, 1)), np.ones(1),
                                                                np.array([9.0]))
    apart = 2 * -np.expm1(-1e-14)
    assert tiny(np.array([1e-14]), "l2")[0] == pytest.approx(3 * sqrt(apart + hidden), rel=1e-2)


def test_a_norm_is_what_rounding_may_hide_of_it_where_coefficients_cancel():
    """Of a conditionally definite kernel four times that; one whose coefficients do not cancel has no norm there."""
    for kernel, times in ((Laplacian(1.0), 1), (Log(1.5, 1.0), 4)):
        term = term_of(kernel, [[0.0], [0.0]], [[1e9], [-1e9]])
        fall = term._exact_fall(np.zeros((1, 1)), np.ones((1, 1)), np.ones(1), ModelRounding(0.0, np.zeros(1)))
        apart = 2 * float(kernel.profile(np.array(0.0)) - kernel.profile(np.array(1.0)))
        wanted = 2e9 * sqrt(times * term.norm_doubt * apart)
        assert fall(np.ones(1), "l2")[0] == pytest.approx(wanted, rel=1e-9)
    still = term_of(Log(2, 1.0), [[0.0], [1.0]], [[0.0], [0.0]])
    fall = still._exact_fall(np.zeros((1, 1)), np.ones((1, 1)), np.ones(1), ModelRounding(0.0, np.zeros(1)))
    assert fall(np.ones(1), "l2")[0] == 0
    apart = term_of(Log(1.5, 1.0), [[0.0], [1.0]], [[1.0], [0.0]])
    fall = apart._exact_fall(np.zeros((1, 1)), np.ones((1, 1)), np.ones(1), ModelRounding(0.0, np.zeros(1)))
    assert fall(np.ones(1), "l2")[0] == near(log(2))


def test_at_a_cusp_each_centre_comes_nearer_or_goes_away():
    kernel, scale = Laplacian(1.0), np.array([2.0, 1.0])
    term = term_of(kernel, [[3.0, 4.0], [0.0, 1.0]], [[2.0], [-0.5]])
    for norm, r in (("l2", 2.0), ("linf", sqrt(5))):
        fall = term._cusp_fall(np.zeros((1, 2)), np.ones((1, 1)), scale, np.array([inf]))
        wanted = 2 * (exp(-5) - exp(-5 - r)) + 0.5 * (1 - exp(-1))
        assert fall(np.ones(1), norm)[0] == near(wanted)
        short = term._cusp_fall(np.zeros((1, 2)), np.ones((1, 1)), scale, np.array([inf]))(np.array([0.25]), norm)[0]
        assert short == near(2 * (exp(-5) - exp(-5 - r / 4)) + 0.5 * (exp(-1 + r / 4) - exp(-1)))
