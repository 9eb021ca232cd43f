"""Radii of the verifier: as sharp as those of the library, and true, term by term."""

import math
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_iris
from verify_cases import models, rows

from buttress import SVC, LinearSVC, RobustBoostingClassifier, attacks, certificates, kernels, save, verify
from buttress.verify.core import Real
from buttress.verify.inputs.below import Round, cubes, gathered, powers, radial, radial_parabolas, remainder
from buttress.verify.inputs.quadratic import RowMoves
from buttress.verify.inputs.radii import LeadAtRow

from problems import moons

LONG = np.longdouble
long = pytest.mark.skipif(np.finfo(LONG).eps == np.finfo(float).eps, reason="no longer numbers than float64")
MACHINES = [
    SVC(gamma=0.5), SVC(gamma=5.0, C=10.0), SVC(gamma=100.0), SVC(kernel="laplacian", gamma=2.0),
    SVC(kernel=kernels.Cauchy(5.0)), SVC(kernel=kernels.InverseMultiquadric(0.5)), SVC(kernel=kernels.Log(2.0, 3.0)),
    SVC(kernel=kernels.Log(1.0, 1.0)), SVC(kernel=kernels.MultiscaleRBF((5.0, 0.5))), SVC(kernel="linear"),
    SVC(kernel="poly", degree=2, coef0=1.0), SVC(kernel="poly", degree=3, coef0=1.0, C=10.0),
    SVC(kernel="poly", degree=4, coef0=1.0), LinearSVC(),
    SVC(kernel=kernels.Combination([kernels.RBF(5.0), kernels.Polynomial(3, 0.5, 1.0)], [0.5, 2.0]))]


def read(model, folder):
    save(model, folder / "model")
    return verify.read_model(folder / "model")


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("model", MACHINES, ids=lambda model: str(model)[:70])
def test_radii_that_the_library_claims_are_proven(model, norm, tmp_path):
    X, y = moons(90)
    model.fit(X[:70], y[:70])
    claimed = getattr(certificates.certified_radius(model, X[70:], norm=norm), norm)
    assert (claimed > 0).mean() > 0.9
    short = 1e-4 if "laplacian" in str(model) else 0.0  # what rounding does at its cusp is bounded less sharply
    assert all(claim.holds for claim in verify.radii(read(model, tmp_path), X[70:], (1 - short) * claimed, norm))


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_radii_of_many_classes_and_columns_are_proven(norm, tmp_path):
    X, y = rows()[:2]
    for model in (SVC(C=100.0), SVC(multi_class="ovr"), LinearSVC()):
        claimed = getattr(certificates.certified_radius(model.fit(X, y), X[::3], norm=norm), norm)
        assert all(claim.holds for claim in verify.radii(read(model, tmp_path), X[::3], claimed, norm))


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("number", [0, 3])
def test_no_point_within_a_proven_radius_is_predicted_otherwise(number, norm, tmp_path):
    rng = np.random.default_rng(0)
    X, (estimator, y, _) = rows()[0], models()[number]
    model, some = read(estimator.fit(X, y), tmp_path), X[::40]
    found = np.array([radius for _, radius, _, _ in verify.radii(model, some, norm=norm)])
    away = rng.normal(size=(200, *some.shape)) if norm == "l2" else rng.choice([-1.0, 1.0], (200, *some.shape))
    away *= found[:, None] / np.linalg.norm(away, axis=2, keepdims=True, ord={"l2": 2, "linf": np.inf}[norm])
    labels = estimator.predict((some + away).reshape(-1, X.shape[1])).reshape(200, -1)
    assert (labels == estimator.predict(some)).all()
    for row, radius in zip(some, found, strict=True):
        moved = attacks.pgd(estimator, row[None], estimator.predict(row[None]), eps=radius, norm=norm, steps=20)
        assert estimator.predict(moved) == estimator.predict(row[None])
    assert not any(claim.holds for claim in verify.radii(model, some, found * 3, norm))


@pytest.mark.parametrize(("norm", "dual"), [("l2", 2), ("linf", 1)])
def test_radii_of_a_linear_machine_are_exact_and_larger_ones_are_not_proven(norm, dual, tmp_path):
    X, y = rows()[:2]
    model = SVC(kernel="linear").fit(X, y > 0)
    held = read(model, tmp_path)
    w = model.dual_coef_[0] @ model.support_vectors_
    exact = np.abs(X @ w + model.intercept_[0])[:5] / np.linalg.norm(w, dual)
    np.testing.assert_allclose([found for _, _, found, _ in verify.radii(held, X[:5], norm=norm)], exact, rtol=1e-4)
    assert all(holds for *_, holds in verify.radii(held, X[:5], exact * (1 - 1e-9), norm))
    assert not any(holds for *_, holds in verify.radii(held, X[:5], exact * (1 + 1e-9), norm))


PARTS = [{"class": "RBF", "gamma": 0.7}, {"class": "Laplacian", "gamma": 0.5}, {"class": "Cauchy", "gamma": 0.4},
         {"class": "InverseMultiquadric", "offset": 1.3}, {"class": "Log", "degree": 2.0, "gamma": 0.5},
         {"class": "Log", "degree": 1.5, "gamma": 0.5}, {"class": "Linear", "coef0": 0.5},
         *({"class": "Polynomial", "degree": p, "gamma": 0.5, "coef0": c} for p, c in
           ((2, 1.0), (3, 0.0), (3, 1.0), (4, 0.2), (5, 0.5)))]


def exactly(part, x, Z, c, moves):
    """The sum of kernel values at x + moves, in longer numbers; that of RBF times e^(gamma |d|^2)."""
    x, Z, moves = (np.asarray(one, LONG) for one in (x, Z, moves))
    t = ((Z - x - moves[:, None]) ** 2).sum(axis=2)
    gamma, offset = (LONG(part.get(name, 1.0)) for name in ("gamma", "offset"))
    value = {"RBF": lambda: np.exp(-gamma * t), "Laplacian": lambda: np.exp(-gamma * np.sqrt(t)),
             "Cauchy": lambda: 1 / (1 + gamma * t), "InverseMultiquadric": lambda: 1 / np.sqrt(t + offset**2),
             "Log": lambda: -np.log1p((gamma * t) ** (LONG(part["degree"]) / 2))}.get(
                 part["class"], lambda: (gamma * ((x + moves) @ Z.T) + LONG(part["coef0"])) ** part.get("degree", 1))
    return value() @ np.asarray(c, LONG)


def at(below, moves):
    """Lower and upper values of a function below at moves, of all that its errors leave open."""
    M, s = np.asarray(moves, LONG), (np.asarray(moves, LONG) ** 2).sum(axis=1)
    d = M.shape[1]
    curve = below.curve if below.curve is not None else Real(np.zeros((d, d)))
    value = (LONG(below.const.v) + M @ below.slope.v + np.einsum("ij,jk,ik->i", M, curve.v.astype(LONG), M)
             + LONG(below.bend.v) * s)
    error = (LONG(below.const.e) + np.abs(M) @ below.slope.e + np.einsum("ij,jk,ik->i", np.abs(M), curve.e, np.abs(M))
             + LONG(below.bend.e) * s)
    return value - error, value + error


def made(part, x, Z, c):
    """All functions below a sum of these kernel values."""
    if part["class"] == "RBF":
        norm2 = float(exactly(part, Z[0], Z, c, Z - Z[0]) @ c) + 1e-14 * np.abs(c).sum() ** 2
        one = Round(part["gamma"], x, Z, c, 0.0, norm2)
        return [one.lines, one.taylor, one.parabolas]
    kinds = [powers, cubes][: 1 + (part.get("degree") == 3)] if "coef0" in part else [radial, radial_parabolas]
    return [partial(kind, part, x, Z, c) for kind in kinds]


def cases(part, seed, offset=0.0, scale=1.0, columns=0):
    """Yield a row, centres, coefficients, a radius, a guess, and the functions below there, with moves and sums.

    Moves are drawn from the ball, or from the cube of so many columns, its corners among them.
    """
    rng = np.random.default_rng(seed)
    for eps in (1e-9, 0.05, 0.5, 2.0):
        x, Z, c = rng.normal(size=2), rng.normal(size=(5, 2)), rng.normal(size=5) * scale
        x, Z = x + offset, Z + offset
        moves = rng.normal(size=(1000, 2))
        if columns:
            moves = np.clip(moves, -1, 1) * eps
        else:
            moves *= eps * rng.random((1000, 1)) ** 0.3 / np.linalg.norm(moves, axis=1, keepdims=True)
        guess = moves[0]
        yield x, Z, c, eps, guess, made(part, x, Z, c), moves


@long
@pytest.mark.parametrize("part", PARTS, ids=str)
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("columns", [0, 2])
def test_functions_lie_below_the_sum_everywhere_in_ball_and_cube(part, offset, columns):
    if offset and "degree" in part and "coef0" in part and part["degree"] > 3:
        offset = 1e3
    for seed in range(6):
        for x, Z, c, eps, guess, bounds, moves in cases(part, seed, offset, columns=columns):
            exact = exactly(part, x, Z, c, moves)
            if part["class"] == "RBF":
                exact = exact * np.exp(LONG(part["gamma"]) * (np.asarray(moves, LONG) ** 2).sum(axis=1))
            size = float(np.abs(exact).max()) + float(np.abs(exactly(part, x, Z, np.abs(c), moves)).max())
            for bound in bounds:
                below = bound(guess, RowMoves(eps, columns))
                assert (at(below, moves)[0] <= exact + 1e-18 * size).all(), (seed, eps, bound)
                low, worst = below.least(RowMoves(eps, columns))
                assert low <= exact.min() + 1e-18 * size
                assert np.linalg.norm(worst, np.inf if columns else 2) <= eps * (1 + 1e-6)


@long
@pytest.mark.parametrize("part", PARTS, ids=str)
def test_what_functions_miss_falls_with_the_radius(part):
    """By its square for lines, by its cube for parabolas."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, Z, c = rng.normal(size=2), rng.normal(size=(5, 2)) + 1, rng.normal(size=5)
        for bound in made(part, x, Z, c):
            lines = getattr(bound, "__name__", None) == "lines" or getattr(bound, "func", None) is radial
            power = 2 if lines else 3
            missed = []
            for eps in (0.02, 0.01):
                low, worst = bound(np.zeros(2), RowMoves(eps)).least(RowMoves(eps))
                worst = worst * min(1.0, eps / np.linalg.norm(worst))
                factor = np.exp(part["gamma"] * worst @ worst) if part["class"] == "RBF" else 1.0
                missed.append(float(exactly(part, x, Z, c, worst[None])[0] * factor) - low)
            assert -1e-12 <= missed[1] <= missed[0] / 2 ** (power - 0.4) + 1e-13


def test_the_least_of_a_quadratic_function_in_a_cube():
    """Exact where no two columns are multiplied; else below a grid's, and near it where one column rules."""
    rng = np.random.default_rng(0)
    side = np.linspace(-0.7, 0.7, 201)
    grid = np.stack(np.meshgrid(side, side), axis=2).reshape(-1, 2)
    for number in range(60):
        apart = number % 2 == 0
        directions = np.array([[1.0, 0.0], [0.0, 1.0]]) if apart else rng.normal(size=(2, 2))
        steep, curved = rng.normal(size=2), rng.normal(size=2)
        below = gathered(np.ones(2), Real(np.zeros(2)), Real(steep), Real(curved), Real(np.zeros(2)),
                         Real(directions), False)
        low, worst = below.least(RowMoves(0.7, 2))
        values = at(below, grid)[0]
        assert low <= values.min() <= low + (1e-3 if apart else 2 * np.abs(curved).max())
        assert np.abs(worst).max() <= 0.7
        if apart:
            assert float(at(below, worst[None])[0][0]) == pytest.approx(low, abs=1e-12)


def test_the_least_of_a_quadratic_function_in_a_ball():
    rng = np.random.default_rng(0)
    for number in range(40):
        steep, directions = rng.normal(size=4), rng.normal(size=(4, 2))
        curved = Real(rng.normal(size=4)) if number % 2 else None
        below = gathered(np.ones(4), Real(np.zeros(4)), Real(steep), curved, Real(np.zeros(4)), Real(directions), True)
        low, worst = below.least(RowMoves(0.7))
        angle = np.linspace(0, 2 * np.pi, 2_001)
        grid = np.concatenate([r * np.column_stack([np.cos(angle), np.sin(angle)]) for r in np.linspace(0, 0.7, 20)])
        values = at(below, grid)[0]
        assert low <= values.min() <= low + 1e-2 * (1 + abs(low))
        assert at(below, worst[None])[0] <= low + 1e-6 * (1 + abs(low))
        assert at(below, worst[None])[1] >= low - 1e-6 * (1 + abs(low))


@long
@np.errstate(all="ignore")
@pytest.mark.parametrize("order", [1, 2, 3])
def test_remainders_of_the_series_of_e(order):
    """Against the mean of e^(t s) (1 - s)^(order - 1) over s in [0, 1], by Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    s = (nodes + 1) / 2
    for t in (-30.0, -3.0, -1.0001, -1.0, -0.3, 0.0, 1e-8, 0.7, 1.0, 1.0001, 4.0, 30.0):
        exact = (weights / 2 * np.exp(t * s) * (1 - s) ** (order - 1)).sum() / math.factorial(order - 1)
        if order < 3 or t > -10:
            assert remainder(np.array([t]), order).v[0] == pytest.approx(exact, rel=1e-10)


@long
def test_a_lead_holds_as_far_as_its_intercept_lets_it():
    """One centre at the row: c F(eps^2) + b = 0 has the radius."""
    x, Z = np.zeros(2), np.zeros((1, 2))
    for part in PARTS[:6]:
        for c in (1.0, -1.0):
            ends = exactly(part, x, Z, np.array([c]), np.array([[0.0, 0.0], [0.4, 0.0]]))
            b = float(-ends[1]) if c > 0 else float(-ends[1] + 0.3)
            lead = LeadAtRow(part, x, Z, np.ones(1), np.array([[c]]), np.array([b]), 1.0)
            assert lead.holds(RowMoves(0.36 if c > 0 else 0.4))
            assert lead.value(np.array([0.4, 0.0])) == pytest.approx(0.0 if c > 0 else 0.3, abs=1e-12)
            if c > 0:
                assert not lead.holds(RowMoves(0.4 * (1 + 1e-12)))


def test_rounding_of_predictions_is_taken_off():
    """At a distance of 1e6 float64 predictions are off by some 1e-4 of a kernel value, which is more than this lead."""
    x = np.array([1e6, 1e6])
    Z = np.array([[1e6, 1e6], [-1e6, -1e6]])
    lead = LeadAtRow({"class": "RBF", "gamma": 1.0}, x, Z, np.ones(1), np.ones((2, 1)), np.array([-1.0 + 1e-6]), 2.0)
    assert not lead.holds(RowMoves(1e-5))
    for own in (x - 1e6, np.array([1e7, 1e7])):  # where all rows are far away their middle is subtracted
        alone = LeadAtRow({"class": "RBF", "gamma": 1.0}, own, own[None], np.ones(1), np.ones((1, 1)),
                          np.array([-1.0 + 1e-6]), 1.0)
        assert alone.holds(RowMoves(1e-5))


def trees(tmp_path):
    X, y = load_iris(return_X_y=True)
    return X, RobustBoostingClassifier(eps=0.2, n_estimators=20).fit(X, y)


def test_radii_of_trees_are_proven_and_larger_ones_are_not(tmp_path):
    X, model = trees(tmp_path)
    held, claimed = read(model, tmp_path), certificates.certified_radius(model, X[::10]).linf
    assert (claimed > 0).all()
    assert all(claim.holds for claim in verify.tree_radii(held, X[::10], claimed))
    found = np.array([claim.proven for claim in verify.tree_radii(held, X[::10])])
    np.testing.assert_allclose(found, claimed, rtol=1e-6)
    assert not any(claim.holds for claim in verify.tree_radii(held, X[::10], 1.01 * claimed + 1e-6))


def test_no_corner_within_a_proven_radius_of_trees_is_predicted_otherwise(tmp_path):
    X, model = trees(tmp_path)
    found = np.array([claim.proven for claim in verify.tree_radii(read(model, tmp_path), X[::10])])
    rng = np.random.default_rng(0)
    for _ in range(300):
        moved = X[::10] + found[:, None] * rng.choice([-1.0, 0.0, 1.0], X[::10].shape)
        assert (model.predict(moved) == model.predict(X[::10])).all()


@pytest.mark.parametrize("forgery", [
    lambda held: held["forest_"]["trees"][0].update(left=0 * held["forest_"]["trees"][0]["left"]),
    lambda held: held["forest_"]["trees"][0].update(feature=held["forest_"]["trees"][0]["feature"] + 4),
    lambda held: held["forest_"]["trees"][0].update(threshold=np.nan * held["forest_"]["trees"][0]["threshold"]),
    lambda held: held["forest_"]["trees"][0].update(value=np.inf + held["forest_"]["trees"][0]["value"]),
    lambda held: held["forest_"]["trees"][0].update(right=held["forest_"]["trees"][0]["right"] + 1000),
    lambda held: held["forest_"]["trees"][0].update(weight=2.0),
    lambda held: held["forest_"].update(contrasts=-held["forest_"]["contrasts"]),
    lambda held: held["forest_"].update(rate=2.0),
    lambda held: held.update(expansion_={}),
])
def test_forged_trees_are_refused(forgery, tmp_path):
    X, model = trees(tmp_path)
    held = read(model, tmp_path)
    held = {**held, "forest_": {**held["forest_"], "trees": [dict(tree) for tree in held["forest_"]["trees"]]}}
    forgery(held)
    with pytest.raises(ValueError, match=r"file|attributes"):
        verify.tree_radii(held, X[:2])
