"""The bounds behind the certificates against dense grids, closed forms, and each other."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC as SKLearnSVC

from buttress import SVC, attacks
from buttress.certificates import certified_radius, certified_within
from buttress.certificates.region import Attacker
from buttress.certificates.relaxation import CONVEX, Lead, relaxed
from buttress.certificates.second_order import second_order
from buttress.kernels import RBF, Cauchy, InverseMultiquadric, Laplacian, Linear, Log, MultiscaleRBF, Polynomial

from problems import breast_cancer, iris, moons, points

KERNELS = [RBF(0.7), MultiscaleRBF([0.9, 0.2]), Laplacian(0.5), Cauchy(0.4), InverseMultiquadric(1.3), Log(2, 0.5),
           Log(1.5, 0.5), Polynomial(2, 0.5, 1.0), Polynomial(3, 0.5, 1.0), Polynomial(3, 0.5, -0.5),
           Polynomial(4, 0.3, 1.0), Linear(0.5)]
kernels = pytest.mark.parametrize("kernel", KERNELS, ids=str)
ATTACKERS = [
    Attacker("linf", np.array([1.0, 1.0])),
    Attacker("linf", np.array([0.3, 2.0])),
    Attacker("l2", np.array([1.0, 1.0])),
    Attacker("l2", np.array([0.3, 2.0])),
    Attacker("linf", np.array([1.0, 1.5]), np.array([[-0.1, -3.0]]), np.array([[2.0, 0.1]])),
    Attacker("l2", np.array([1.0, 1.5]), np.array([[-0.1, -3.0]]), np.array([[2.0, 0.1]])),
]
attackers = pytest.mark.parametrize("attacker", ATTACKERS, ids=lambda a: f"{a.norm}-{a.scale}-{a.low is not None}")


def some_lead(kernel, seed, square=0.0):
    rng = np.random.default_rng(seed)
    return Lead([(kernel, 1.0)], rng.normal(size=(6, 2)), rng.normal(size=(1, 6)), rng.normal(size=1),
                np.array([square]))


def grid(attacker, radius, count=121):
    """Moves that the attacker may make from the origin, border included."""
    side = np.linspace(-radius, radius, count)
    moves = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    if attacker.norm == "l2":
        angle = np.linspace(0, 2 * np.pi, 721)
        border = radius * np.column_stack([np.cos(angle), np.sin(angle)])
        moves = np.vstack([moves[np.linalg.norm(moves, axis=1) <= radius], border])
    d = moves * attacker.scale
    if attacker.low is not None:
        d = d[((d >= attacker.low) & (d <= attacker.high)).all(axis=1)]
    return d


def least_on(lead, points_, anchor):
    """Least lead over the points; for RBF in units of e^(gamma |d|^2), d from the anchor."""
    many = lead[np.zeros(len(points_), dtype=int)](points_)
    kernel = lead.kernels[0][0]
    if isinstance(kernel, RBF):
        many = many * np.exp(kernel.gamma * ((points_ - anchor) ** 2).sum(axis=1))
    return many.min()


@kernels
@attackers
def test_lines_lie_below_every_point_of_a_grid(kernel, attacker):
    for seed, radius in itertools.product(range(4), (0.05, 0.5, 2.0)):
        lead = some_lead(kernel, seed)
        region = attacker.region(np.zeros((1, 2)), np.array([radius]))
        low, moves = relaxed(lead, region)
        least = least_on(lead, grid(attacker, radius), region.anchor[0])
        assert low[0] <= least + 1e-12
        assert (np.abs(moves[0]) <= region.half[0] * (1 + 1e-9)).all()


@kernels
def test_what_lines_miss_falls_with_the_square_of_the_radius(kernel):
    attacker, missed = ATTACKERS[0], []
    lead = some_lead(kernel, 1)
    for radius in (0.02, 0.01):
        region = attacker.region(np.zeros((1, 2)), np.array([radius]))
        missed.append(least_on(lead, grid(attacker, radius), region.anchor[0]) - relaxed(lead, region)[0][0])
    assert missed[1] <= missed[0] / 3 + 1e-9


@pytest.mark.parametrize("kernel", [k for k in KERNELS if isinstance(k, CONVEX)], ids=str)
def test_profiles_are_convex_and_fall(kernel):
    s = np.geomspace(1e-6, 30, 300)
    steep = np.diff(kernel.profile(s)) / np.diff(s)
    assert (steep <= 0).all()
    assert (np.diff(steep) >= -1e-6 * np.abs(steep[:-1])).all()


@attackers
def test_the_least_of_a_quadratic_over_a_region(attacker):
    rng = np.random.default_rng(0)
    for bend in (-0.8, 0.0, 0.3, 5.0):
        slope = rng.normal(size=(1, 2))
        region = attacker.region(np.zeros((1, 2)), np.array([0.6]))
        low, moves = region.least(slope, np.array([bend]))
        d = grid(attacker, 0.6, 401) - region.anchor
        least = (d @ slope[0] + bend * (d**2).sum(axis=1)).min()
        assert low[0] <= least + 1e-12
        assert low[0] >= least - 0.02 * max(1, abs(least)) or bend < 0  # with bend < 0 a ball and a box leave a gap
        assert slope[0] @ moves[0] + bend * moves[0] @ moves[0] >= low[0] - 1e-12


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("kernel", [RBF(0.7), Polynomial(2, 0.5, 1.0), Polynomial(3, 0.5, 1.0)], ids=str)
def test_second_order_lies_below_every_point_of_a_grid(kernel, norm):
    for seed, scale in itertools.product(range(5), ([1.0, 1.0], [0.3, 2.0])):
        lead = some_lead(kernel, seed)
        product = kernel if isinstance(kernel, RBF) else Polynomial(3, kernel.gamma**2)
        lead.square = np.array([lead.weights[0] @ product(lead.centers, lead.centers) @ lead.weights[0]])
        second = second_order(lead, np.zeros((1, 2)), np.array(scale))
        for radius in (0.05, 0.4, 1.5):
            attacker = Attacker(norm, np.array(scale))
            least = least_on(lead, grid(attacker, radius), np.zeros(2))
            low = second.bound(np.array([radius]), norm)[0]
            assert low <= least + 1e-12
            if radius == 0.05:
                assert low >= least - 0.02 * np.abs(lead.weights).sum()


def test_a_quadratic_has_its_exact_radius_in_l2():
    """Nearest point of a conic by a general solver from many starts."""
    X, y = moons(60)
    model = SVC(kernel=Polynomial(2, 0.5, 1.0), C=5.0).fit(X, y)
    rows = X[:6]
    radius = certified_radius(model, rows).l2
    for x, r in zip(rows, radius, strict=True):
        starts = x + np.random.default_rng(0).normal(size=(20, 2))
        on = {"type": "eq", "fun": lambda z: model.decision_function(z[None])[0]}
        runs = [minimize(lambda z, x=x: ((z - x) ** 2).sum(), s, constraints=on, method="SLSQP") for s in starts]
        nearest = min(np.sqrt(run.fun) for run in runs if run.success and abs(on["fun"](run.x)) < 1e-7)
        assert nearest * (1 - 1e-3) <= r <= nearest * (1 + 1e-6)


MACHINES = [
    SVC(gamma=20.0, C=10.0),
    SVC(kernel="laplacian", gamma=2.0, C=10.0),
    SVC(kernel="poly", degree=3, coef0=1.0, C=10.0),
    make_pipeline(StandardScaler(), SKLearnSVC(gamma=5.0, C=10.0)),
]
machines = pytest.mark.parametrize("model", MACHINES, ids=lambda m: str(m)[:40])


def nearest_on_a_grid(model, x, label, norm, box=None):
    """Distance to the nearest point of a fine grid that gets another label."""
    side = np.linspace(-1.5, 1.5, 401)
    moves = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    if box is not None:
        moves = moves[((x + moves >= box[0]) & (x + moves <= box[1])).all(axis=1)]
    size = np.abs(moves).max(axis=1) if norm == "linf" else np.linalg.norm(moves, axis=1)
    return size[model.predict(x + moves) != label].min(initial=np.inf)


@machines
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_branch_and_bound_comes_near_the_nearest_point_of_a_grid(model, norm):
    X, y = moons(80)
    model = model.fit(X, y)
    rows, labels = X[:3], model.predict(X[:3])
    nearest = np.array([nearest_on_a_grid(model, x, label, norm) for x, label in zip(rows, labels, strict=True)])
    nearest = np.minimum(nearest, 1.5)
    assert certified_within(model, rows, eps=0.8 * nearest, norm=norm, max_parts=10**6).all()
    assert not certified_within(model, rows, eps=1.01 * nearest, norm=norm, max_parts=10**6)[nearest < 1.5].any()


@machines
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_box_is_used_and_never_left(model, norm):
    X, y = moons(80)
    box = X.min(axis=0), X.max(axis=0)
    model = model.fit(X, y)
    rows, labels = X[:3], model.predict(X[:3])
    free, cut = (getattr(certified_radius(model, rows, norm=norm, bounds=b), norm) for b in (None, box))
    assert (cut >= free * (1 - 1e-3)).all()
    nearest = [nearest_on_a_grid(model, x, label, norm, box) for x, label in zip(rows, labels, strict=True)]
    assert (cut <= nearest).all()


def test_a_box_in_which_nothing_changes_has_no_end():
    X, y = moons(80)
    model = SVC(gamma=1.0).fit(X, y)
    row = X[:1]
    radius = certified_radius(model, row, bounds=(row - 1e-3, row + 1e-3))
    assert np.isinf(radius.l2).all()
    assert np.isinf(radius.linf).all()


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("problem", [moons, iris, breast_cancer], ids=lambda p: p.__name__)
@pytest.mark.parametrize("model", [SVC(kernel="poly", degree=2, coef0=1.0), SVC(kernel="poly", degree=3, coef0=1.0),
                                   make_pipeline(MinMaxScaler(), SVC(gamma=3.0, C=10.0))], ids=lambda m: str(m)[:60])
def test_certified_rows_withstand_the_attacks(model, problem, norm):
    X, y = problem()
    model = model.fit(X, y)
    rows = X[:: max(5, len(X) // 30)]
    labels = model.predict(rows)
    radius = getattr(certified_radius(model, rows, norm=norm), norm)
    eps = float(np.median(radius))
    within = certified_within(model, rows, eps=eps, norm=norm)
    assert within[radius > eps * (1 + 1e-3)].all()
    assert within.mean() > 0.4
    info = attacks.worst_case(model, rows, labels, eps=eps, norm=norm, steps=20, restarts=2, random_state=0,
                              return_info=True)[1]
    assert not (info.success & within).any()


def test_parts_never_lower_a_radius_nor_reach_what_falls():
    X, y = breast_cancer()
    model = SVC(gamma=0.1).fit(X[:300], y[:300])
    rows = X[300:302]
    labels = model.predict(rows)
    plain = certified_radius(model, rows, norm="linf").linf
    searched = certified_radius(model, rows, norm="linf", max_parts=500).linf
    assert (searched >= plain).all()
    for row, label, radius in zip(rows, labels, searched, strict=True):
        info = attacks.pgd(model, row[None], [label], eps=radius, restarts=5, random_state=0, return_info=True)[1]
        assert not info.success[0]


def test_the_radius_of_one_norm_follows_from_the_other():
    X, y = moons(60)
    model = SVC(gamma=3.0).fit(X, y)
    one = certified_radius(model, X[:5], norm="linf")
    np.testing.assert_array_equal(one.l2, one.linf)
    other = certified_radius(model, X[:5], norm="l2")
    np.testing.assert_allclose(other.linf, other.l2 / np.sqrt(2))


def test_rows_far_from_the_origin_are_not_certified_beyond_their_rounding():
    """At 1e7 from the origin squared distances lose half of their digits."""
    X, y = moons(60)
    model = make_pipeline(StandardScaler(with_std=False), SKLearnSVC(gamma=50.0, C=10.0)).fit(X + 1e7, y)
    rows = X + 1e7
    labels, radius = model.predict(rows), certified_radius(model, rows, norm="linf").linf
    rng = np.random.default_rng(0)
    for _ in range(200):
        moved = rows + (1 - 1e-9) * radius[:, None] * rng.choice([-1, 1], size=rows.shape)
        np.testing.assert_array_equal(model.predict(moved)[radius > 1e-6], labels[radius > 1e-6])


@pytest.mark.parametrize(
    ("call", "options", "message"),
    [
        (certified_radius, {"max_parts": -1}, "max_parts must be"),
        (certified_radius, {"norm": "l1"}, "norm must be one of"),
        (certified_radius, {"bounds": (0, 0.1)}, "bounds exclude the data"),
        (certified_within, {"eps": -0.1}, "eps must be radii >= 0"),
        (certified_within, {"eps": np.ones(3)}, "eps"),
        (certified_within, {"eps": 0.1, "norm": "l3"}, "norm must be one of"),
    ],
)
def test_bad_options_are_refused(call, options, message):
    X, y = moons(40)
    with pytest.raises(ValueError, match=message):
        call(SVC().fit(X, y), X, **options)


def test_points_are_where_the_attacker_may_be():
    attacker = ATTACKERS[5]
    region = attacker.region(np.zeros((1, 2)), np.array([0.8]))
    for move in points(50, 2) * 3:
        d = region.inside(move[None])[0] + region.anchor[0]
        assert (np.abs(d - region.anchor[0]) <= region.half[0] * (1 + 1e-9)).all()
        assert np.linalg.norm(d / attacker.scale) <= 0.8 * (1 + 1e-9)


def test_parts_are_counted_so_that_every_call_proves_the_same():
    X, y = moons(80)
    model = SVC(gamma=3.0, C=10.0).fit(X, y)
    plain, *proven = (certified_within(model, X[:40], eps=0.25, max_parts=max_parts) for max_parts in (0, 5, 5, 400))
    np.testing.assert_array_equal(proven[0], proven[1])
    shares = [plain.mean(), *(found.mean() for found in proven)]
    assert shares == sorted(shares)
    assert shares[0] < shares[1] < shares[-1]
    radii = [certified_radius(model, X[:10], max_parts=60, norm="linf").linf for _ in range(2)]
    np.testing.assert_array_equal(*radii)
