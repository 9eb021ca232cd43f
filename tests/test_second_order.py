"""The bound of second order and each part of it, against closed forms, sums in loops and numbers of 60 digits.

Rounding is made coarse where an allowance for it is compared with its law.
"""

from decimal import Decimal, localcontext
from math import comb

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from buttress._proof import UNIT
from buttress.certificates import second_order as module
from buttress.certificates.region import TINY
from buttress.certificates.relaxation import Lead
from buttress.certificates.second_order import SecondOrder, _after_second, _axes, second_order
from buttress.kernels import RBF, Laplacian, Polynomial

COARSE = 1e-4


def coarse(terms, unit=UNIT):
    return COARSE * unit / UNIT * (terms + 16)


@pytest.fixture
def coarsely(monkeypatch):
    monkeypatch.setattr(module, "sum_error", coarse)


def lead_of(kernel, Z, w, bias=0.0, square=1e30, share=1.0):
    return Lead([(kernel, share)], np.array(Z, float), np.array([w], float), np.array([bias]), np.array([square]))


def made(kernel, **parts):
    """A second order of one row and two columns whose parts are given, else 0."""
    zeros = {"value": 1, "bias": 1, "slope": (1, 2), "spectrum": (1, 2), "turned": (1, 2), "entries": 1, "left": 1,
             "off": (1, 3), "sizes": (1, 3 + isinstance(kernel, Polynomial)), "summed": (1, 4)}
    given = {name: np.zeros(shape) for name, shape in zeros.items()} | {"scale": np.ones((1, 2))}
    given |= {name: np.reshape(part, np.shape(given[name])) for name, part in parts.items()}
    return SecondOrder(**given, kernel=kernel, shares=(0.01, 0.02))


def dual(spectrum, turned, off, eps):
    """The largest bound that a multiplier gives of the minimum over a ball, then less what stands for it is off by."""
    spectrum, turned = np.array(spectrum), np.array(turned)
    low = max(-spectrum.min(), 0)

    def fall(multiplier):
        bent = np.where(turned == 0, 1.0, spectrum + multiplier)
        return float((turned**2 / bent).sum() / 4 + eps**2 * multiplier)

    high = low + np.abs(turned).sum() / eps + 1e-9
    best = minimize_scalar(fall, bounds=(low + 1e-12, high), method="bounded", options={"xatol": 1e-14}).x
    best = min(best, low, key=fall) if not (turned[spectrum + low == 0]).any() else best
    lost, longer, apart = off
    return -fall(best) - eps**2 * (best * longer + lost) - eps * apart


BALLS = [([0.0, 1.0], [1.0, 0.0]), ([-1.0, 2.0], [0.5, -0.7]), ([-1.0, 2.0], [0.0, 0.3]), ([1.0, 2.0], [0.4, -0.3]),
         ([1.0, 2.0], [4.0, 3.0]), ([-3.0, -1.0], [1e-3, 2.0]), ([0.5, 0.5], [0.0, 0.0]), ([0.0, 0.0], [3.0, 4.0])]


@pytest.mark.parametrize("off", [(0.0, 0.0, 0.0), (0.5, 0.25, 0.125)])
@pytest.mark.parametrize(("spectrum", "turned"), BALLS)
def test_the_minimum_over_a_ball_is_that_of_the_best_multiplier(spectrum, turned, off):
    for eps in (0.3, 1.0, 2.0):
        second = made(RBF(1.0), spectrum=spectrum, turned=turned, off=off)
        assert second._over_ball(np.array([eps]))[0] == pytest.approx(dual(spectrum, turned, off, eps), rel=1e-7)
        around = eps * np.exp(1j * np.linspace(0, 2 * np.pi, 721)) * np.linspace(0, 1, 51)[:, None]
        u = np.stack([around.real, around.imag], axis=-1)
        if not any(off):
            least = (u @ turned + u**2 @ spectrum).min()
            assert least - 1e-3 * eps <= second._over_ball(np.array([eps]))[0] <= least + 1e-12


def test_a_fall_whose_square_is_below_the_least_float_counts():
    """f = w (x_1^2 - x_2^2) at (x, 0) is 0 at a distance of x / sqrt(2)."""
    for x in (1.0, 1e-25, 1e-30):
        lead = lead_of(Polynomial(2, 1.0, 0.0), np.eye(2), [1e-137, -1e-137], square=0.0)
        second = second_order(lead, np.array([[x, 0.0]]), np.ones(2))
        assert second.bound(np.array([0.708 * x]), "l2")[0] <= 0 < second.bound(np.array([0.706 * x]), "l2")[0]


@pytest.mark.parametrize("size", [1e-137, 1e-160, 1e-200])
def test_what_is_left_of_small_coefficients_is_not_0(size):
    lead = lead_of(Polynomial(3, 1.0, 0.0), [[1e-10]], [size], square=0.0)  # w (z x)^3, which is 0 at 0
    assert second_order(lead, np.ones((1, 1)), np.ones(1)).bound(np.array([1.01]), "l2")[0] <= 0
    lead = lead_of(RBF(1.0), [[0.0]], [size], bias=-size / 2, square=0.0)  # 0 where e^(-d^2) is 1/2
    assert second_order(lead, np.zeros((1, 1)), np.ones(1)).bound(np.array([0.84]), "l2")[0] <= 0


KERNELS = [RBF(0.7), Polynomial(2, 0.7, 1.0), Polynomial(3, 0.7, 1.0)]


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("bias", [0.8, -0.8])
@pytest.mark.parametrize("decides", ["ball", "eigenvalues", "entries"])
def test_a_bound_is_the_sum_of_its_parts_less_a_share_of_their_sizes(coarsely, kernel, norm, bias, decides):
    eps, off, scale, polynomial = 0.5, (0.03, 0.2, 0.05), np.array([0.5, 1.5]), isinstance(kernel, Polynomial)
    slope = np.array([0.3, -0.4]) * (30 if decides == "ball" else 1)
    turned, spectrum = np.array([0.0, 5.0 if decides != "ball" else 0.5]), [-0.6, 0.2]
    entries, sizes, summed = 0.5 if decides == "entries" else 10.0, [0.11, 0.13, 0.17, 0.19], [0.3, 0.9, 0.4, 0.6]
    second = made(kernel, value=2.0, bias=bias, slope=slope, spectrum=spectrum, turned=turned, entries=entries,
                  left=0.7, off=off, sizes=sizes[: 3 + polynomial], summed=summed, scale=scale)
    share = coarse(2)
    if norm == "l2":
        longest, least = 1.5 * eps * (1 + share), dual(spectrum, turned, off, eps)
    else:
        longest, least = np.sqrt(2.5) * eps * (1 + share), dual(spectrum, turned, off, np.sqrt(2) * eps)
        cube = [-entries, 2 * (-0.6 * 1.2 - 0.03)]
        flat = max(eps**2 * one - eps * np.abs(slope).sum() for one in cube)
        assert (flat > least) == (decides != "ball")
        least = max(least, flat)
    q = 2 * 0.7 * longest**2
    rest = 0.7 * (longest**3 if polynomial else np.sqrt(np.exp(q) - 1 - q - q**2 / 2 + coarse(0) * np.exp(q) * (1 + q)))
    intercept = bias * (1 if bias > 0 or polynomial else np.exp(0.7 * longest**2))
    doubt = sum(size * longest**k for k, size in enumerate(sizes[: 3 + polynomial]))
    if not polynomial:
        shaken = 0.01 + np.expm1(4 * 0.7 * 0.02 * (0.6 + 2 * longest**2))
        doubt += 2 * shaken * min(0.3 * np.exp(2 * 0.7 * 0.4 * longest), 0.9 * np.exp(0.7 * longest**2))
    whole = 2.0 + least - rest + intercept - doubt - share * (2.0 + abs(least) + rest + abs(intercept) + doubt)
    assert second.bound(np.array([eps]), norm)[0] == pytest.approx(whole, rel=1e-7)


@pytest.mark.parametrize("at", [0.05, 3.0])
def test_the_scores_at_moved_rows_are_bounded_by_values_at_the_row_and_by_coefficients(at):
    second = made(RBF(0.7), summed=[0.3, 0.9 if at == 3.0 else 0.2, 0.4, 0.6])
    near, coefficients = 0.3 * np.exp(2 * 0.7 * 0.4 * at), second.summed[0, 1] * np.exp(0.7 * at**2)
    assert (near < coefficients) == (at == 3.0)
    shaken = 0.01 + np.expm1(4 * 0.7 * 0.02 * (0.6 + 2 * at**2))
    assert second._doubt(np.array([at]))[0] == pytest.approx(2 * shaken * min(near, coefficients))


def test_the_rest_of_a_series_is_as_near_as_its_law():
    """Of three terms and a geometric rest, or with the rounding of e^q."""
    with localcontext() as context:
        context.prec = 60
        for q in (1e-9, 1e-3, 0.0101, 0.05, 0.0999, 0.1, 0.15, 0.1999, 1.0, 20.0):
            true = Decimal(q).exp() - 1 - Decimal(q) - Decimal(q) ** 2 / 2
            room = q**4 / 20 * (1 / 36 - 1 / 42) * float(true) if q < 0.1 else 32 * UNIT * (1 + q) * np.exp(q)
            said = Decimal(float(_after_second(np.array([q]))[0]))
            assert true <= said <= true * (1 + Decimal(40 * UNIT)) + Decimal(1.05 * room)


def test_axes_miss_what_they_miss_and_what_rounding_hides(coarsely, monkeypatch):
    rng = np.random.default_rng(0)
    n, d = 2, 3
    e, p = rng.normal(size=(2, n, d))
    V, B = rng.normal(size=(2, n, d, d))
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: (e, V))
    same, turned, off = _axes(B, p)
    assert same is e
    for i in range(n):
        t = [sum(V[i, j, k] * p[i, j] for j in range(d)) for k in range(d)]
        lost = sum(abs(B[i, j, l] - sum(V[i, j, k] * e[i, k] * V[i, l, k] for k in range(d)))
                   for j in range(d) for l in range(d))
        longer = sum(abs(sum(V[i, j, k] * V[i, j, l] for j in range(d)) - (k == l)) for k in range(d) for l in range(d))
        apart = sum(abs(p[i, j] - sum(V[i, j, k] * t[k] for k in range(d))) for j in range(d))
        sizes = d * np.array([np.abs(e[i]).sum(), d, np.abs(t).sum()])
        np.testing.assert_allclose(turned[i], t)
        np.testing.assert_allclose(off[i], np.array([lost, longer, apart]) * (1 + coarse(9)) + coarse(3) * sizes)


def posed(kernel, share=1.0):
    rng = np.random.default_rng(1)
    lead = lead_of(kernel, rng.normal(size=(4, 2)), rng.normal(size=4), 0.3, 3.0, share)
    lead.sizes, lead.origin, lead.unit = np.array([[1.0, 2.0, 0.5, 3.0]]), 0.7, 8 * UNIT
    return lead, np.array([[0.4, -0.9]]), np.array([0.5, 2.0])


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_expansion_is_the_gradient_and_half_the_hessian_of_the_lead(kernel):
    """Of the lead times e^(gamma |d|^2), by differences."""
    lead, x, scale = posed(kernel, 0.5)
    second, h = second_order(lead, x, scale), 1e-3
    gamma = kernel.gamma if isinstance(kernel, RBF) else 0.0

    def value(*u):
        d = scale * np.array(u)
        return float((lead(x + d)[0] - lead.bias[0]) * np.exp(gamma * d @ d))

    steps = np.eye(2) * h
    slope = [(value(*u) - value(*-u)) / (2 * h) for u in steps]
    B = [[(value(*(u + v)) - value(*(u - v)) - value(*(v - u)) + value(*(-u - v))) / (8 * h**2) for v in steps]
         for u in steps]
    e, V = np.linalg.eigh(B)
    assert second.value[0] == pytest.approx(value(0, 0))
    np.testing.assert_allclose(second.slope[0], slope, rtol=1e-4)
    np.testing.assert_allclose(second.spectrum[0], e, rtol=1e-4)
    np.testing.assert_allclose(np.abs(second.turned[0]), np.abs(V.T @ slope), rtol=1e-4)
    falling = sum(abs(B[i][j]) if i != j else max(-B[i][j], 0) for i in range(2) for j in range(2))
    assert second.entries[0] == pytest.approx(falling, rel=1e-4)
    np.testing.assert_array_equal(second.scale, scale[None])


def test_entries_are_rounded_up(coarsely):
    lead, x, scale = posed(Polynomial(2, 0.7, 1.0))
    B = 0.49 * np.einsum("j,jk,jl->kl", lead.weights[0], lead.centers, lead.centers) * scale * scale[:, None]
    falling = 2 * abs(B[0, 1]) + max(-B[0, 0], 0) + max(-B[1, 1], 0)
    assert second_order(lead, x, scale).entries[0] == pytest.approx(falling * (1 + coarse(4)))


def test_what_an_expansion_of_gaussians_leaves_and_rests_on(coarsely):
    lead, x, scale = posed(RBF(0.7), 0.5)
    second, V, size = second_order(lead, x, scale), lead.centers - x, 0.5 * lead.sizes[0]
    values = np.exp(-0.7 * (V**2).sum(axis=1))
    w = 0.5 * lead.weights[0] * values
    A = [w.sum(), np.einsum("j,jk->k", w, V), np.einsum("j,jk,jl->kl", w, V, V)]
    norms = [(2 * 0.7) ** p / [1, 1, 2][p] * (np.asarray(A[p]) ** 2).sum() for p in range(3)]
    hidden = 4 * coarse(4 + 2) * size.sum() ** 2 + coarse(4) * norms[2]
    assert 3.0 - sum(norms) > 0
    assert second.left[0] == pytest.approx(np.sqrt(3.0 - sum(norms) + hidden))
    far = np.linalg.norm(V, axis=1)
    sizes = [2 * TINY * rate * (size * far**p).sum() for p, rate in enumerate((1.0, 1.4, 0.98))]
    np.testing.assert_allclose(second.sizes[0], sizes)
    lengths = lead.lengths(x, np.zeros(1)).max()
    np.testing.assert_allclose(second.summed[0], [size @ values, size.sum(), far.max(), lengths])
    np.testing.assert_allclose(second.shares, (lead.share(), coarse(2, 8 * UNIT)))
    lead.square = np.zeros(1)  # what rounding made of a smaller norm
    assert second_order(lead, x, scale).left[0] == pytest.approx(np.sqrt(hidden))


@pytest.mark.parametrize("degree", [2, 3])
def test_what_a_power_leaves_and_may_be_off_by(coarsely, degree):
    lead, x, scale = posed(Polynomial(degree, 0.7, -1.0), 0.5)
    second, size = second_order(lead, x, scale), 0.5 * lead.sizes[0]
    steep = 0.7 * np.linalg.norm(lead.centers, axis=1)
    if degree == 3:
        hidden = coarse(2 * 4 + 3 * 2) * (size @ steep**3) ** 2
        assert second.left[0] == pytest.approx(np.sqrt(3.0 + hidden))
        lead.square = np.full(1, -1.0)
        assert second_order(lead, x, scale).left[0] == pytest.approx(np.sqrt(hidden))
    else:
        assert second.left[0] == 0
    largest = steep * (np.linalg.norm(x) + 0.7) + 1.0
    orders = [comb(degree, k) * largest ** (degree - k) * steep**k for k in range(degree + 1)]
    np.testing.assert_allclose(second.sizes[0], [2 * coarse(4 + degree * 10, 8 * UNIT) * size @ one for one in orders])


def test_leads_of_other_kernels_or_too_many_columns_have_none():
    def of(kernel, d=2, tilt=None, more=()):
        lead = lead_of(kernel, np.ones((1, d)), [1.0])
        lead.tilt, lead.kernels = tilt, [*lead.kernels, *more]
        return second_order(lead, np.zeros((1, d)), np.ones(d))

    assert of(RBF(1.0), 128) is not None
    assert of(RBF(1.0), 129) is None
    assert of(Polynomial(2, 1.0, 1.0)) is not None
    assert of(Polynomial(3, 1.0, 1.0)) is not None
    assert of(Polynomial(4, 1.0, 1.0)) is None
    assert of(Laplacian(1.0)) is None
    assert of(RBF(1.0), tilt=np.zeros((1, 2))) is None
    assert of(RBF(1.0), more=[(RBF(2.0), 1.0)]) is None
