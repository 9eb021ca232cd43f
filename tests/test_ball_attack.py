"""The linear machine against moves within a ball: against a conic solver, the plain machine, and attacks on it."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone

from buttress import SVC, AdversarialLinearSVC, attacks, certificates
from buttress.solvers.linear.attacked_bounds import dual_norm, nearest_in_ball

from problems import breast_cancer, iris, noisy, points

NORMS = ("linf", "l2", "l1")


def objective(X, y, w, b, C, eps, norm):
    return 0.5 * w @ w + C * np.maximum(0, 1 - y * (X @ w + b) + eps * dual_norm(w, norm)).sum()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("C", "eps"), [(1.0, 0.1), *(
    pytest.param(C, eps, marks=pytest.mark.slow) for C in (0.01, 1.0, 100.0) for eps in (0.01, 0.1, 0.5))])
def test_solution_is_that_of_a_conic_solver(norm, C, eps):
    cp = pytest.importorskip("cvxpy")
    X, codes = breast_cancer()
    y = 2.0 * codes - 1
    w, b = cp.Variable(30), cp.Variable()
    fall = eps * cp.norm(w, {"linf": 1, "l2": 2, "l1": "inf"}[norm])
    hinge = cp.pos(1 - cp.multiply(y, X @ w + b) + fall)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + C * cp.sum(hinge)))
    problem.solve(solver=cp.CLARABEL)
    model = AdversarialLinearSVC(norm=norm, C=C, eps=eps, tol=1e-8).fit(X, codes)
    assert model.primal_objective_ == pytest.approx(problem.value, rel=1e-6)
    np.testing.assert_allclose(model.coef_[0], w.value, atol=1e-3 * np.abs(w.value).max())
    np.testing.assert_allclose(model.primal_objective_,
                               objective(X, y, model.coef_[0], model.intercept_[0], C, eps, norm), rtol=1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_gap_is_at_most_tol_and_no_neighbour_is_lower(norm):
    X, codes = noisy(120)
    y = 2.0 * codes - 1
    model = AdversarialLinearSVC(norm=norm, C=0.5, eps=0.2, tol=1e-9).fit(X, codes)
    w, b, best = model.coef_[0], model.intercept_[0], model.primal_objective_
    assert -1e-12 * best <= model.dual_gap_ <= 1e-9 * best
    for size in (1e-3, 1e-1):
        for move in size * points(100, 9, seed=1):
            assert objective(X, y, w + move[:8], b + move[8], 0.5, 0.2, norm) >= best * (1 - 1e-9)


def test_a_radius_a_column_is_the_objective_that_is_stated_and_no_neighbour_is_lower():
    X, codes = noisy(120)
    X[:, 3] = 7.0  # a column that does not vary
    y, eps = 2.0 * codes - 1, np.linspace(0.0, 0.4, 8)
    model = AdversarialLinearSVC(C=0.5, eps=eps, tol=1e-9).fit(X, codes)
    w, b, best = model.coef_[0], model.intercept_[0], model.primal_objective_

    def stated(w, b):
        return 0.5 * w @ w + 0.5 * np.maximum(0, 1 - y * (X @ w + b) + eps @ np.abs(w)).sum()

    assert best == pytest.approx(stated(w, b), rel=1e-9)
    assert 0 <= model.dual_gap_ <= 1e-9 * best
    for size in (1e-3, 1e-1):
        for move in size * points(100, 9, seed=1):
            assert stated(w + move[:8], b + move[8]) >= best * (1 - 1e-9)
    stands = y * model.decision_function(X) > eps @ np.abs(w)
    proven = certificates.certified_within(model, X, eps=eps[None])
    np.testing.assert_array_equal(proven & (model.predict(X) == codes), stands)
    moved = attacks.exact(model, X, codes, eps=eps)
    np.testing.assert_array_equal(model.predict(moved) == codes, stands)


def test_equal_radii_are_one_radius_and_others_are_refused():
    X, y = iris()
    one, each = (AdversarialLinearSVC(eps=eps).fit(X, y) for eps in (0.2, [0.2] * 4))
    np.testing.assert_array_equal(one.coef_, each.coef_)
    np.testing.assert_array_equal(one.dual_gap_, each.dual_gap_)
    with pytest.raises(ValueError, match="norm='linf' only"):
        AdversarialLinearSVC(eps=[0.2] * 4, norm="l2").fit(X, y)
    frame = pd.Series([0.2] * 4)
    for eps in (frame, np.array(0.2)):
        np.testing.assert_array_equal(AdversarialLinearSVC(eps=eps).fit(X, y).coef_, one.coef_)
    for eps in ([0.2] * 3, [0.2, 0.2, -0.1, 0.2], [0.2, 0.2, np.nan, 0.2], "wide", None):
        with pytest.raises((ValueError, TypeError), match="eps must be"):
            AdversarialLinearSVC(eps=eps).fit(X, y)


@pytest.mark.parametrize("norm", NORMS)
def test_no_radius_is_the_plain_linear_machine(norm):
    X, y = breast_cancer()
    plain = SVC(kernel="linear", C=0.3, tol=1e-6).fit(X, y)
    for eps in (0.0, 1e-9):
        ours = AdversarialLinearSVC(norm=norm, C=0.3, eps=eps, tol=1e-8).fit(X, y)
        np.testing.assert_allclose(ours.decision_function(X), plain.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("norm", NORMS)
def test_a_ball_that_covers_the_data_leaves_the_constant(norm):
    X, y = noisy(60)
    model = AdversarialLinearSVC(norm=norm, eps=100.0, tol=1e-8).fit(X, y)
    assert np.abs(model.coef_).max() < 1e-6
    assert model.primal_objective_ == pytest.approx(2 * min(np.bincount(y)), rel=1e-6)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_what_is_not_attacked_is_certified(norm):
    """The worst move of a linear machine is known: attack, certificate and closed form are one number."""
    X, y = breast_cancer()
    model = AdversarialLinearSVC(norm=norm, eps=0.2).fit(X[::2], y[::2])
    X, y = X[1::2], y[1::2]
    stands = (2 * y - 1) * model.decision_function(X) > 0.2 * dual_norm(model.coef_[0], norm)
    info = attacks.exact(model, X, y, eps=0.2, norm=norm, return_info=True)[1]
    proven = certificates.certified_within(model, X, eps=0.2, norm=norm) & (model.predict(X) == y)
    np.testing.assert_array_equal(~info.success, stands)
    np.testing.assert_array_equal(proven, stands)


@pytest.mark.parametrize("norm", NORMS)
def test_units_do_not_matter(norm):
    X, y = noisy(100)
    X = np.hstack([X, np.full((100, 1), 7.0)])
    options = {"norm": norm, "tol": 1e-9}
    model = AdversarialLinearSVC(eps=0.1, **options).fit(X, y)
    scaled = AdversarialLinearSVC(eps=1e3, C=1e-8, **options).fit(1e4 * X + 3, y)
    np.testing.assert_allclose(1e4 * scaled.coef_, model.coef_, atol=1e-5)
    assert model.coef_[0, -1] == 0


def test_each_class_is_set_against_the_rest():
    X, y = iris()
    model = AdversarialLinearSVC(norm="l2", eps=0.05).fit(X, y)
    for c in range(3):
        alone = AdversarialLinearSVC(norm="l2", eps=0.05).fit(X, y == c)
        np.testing.assert_allclose(model.coef_[c], alone.coef_[0], atol=1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_distance_to_a_ball_is_that_of_a_descent(norm):
    v = points(1, 4, seed=3)[0]
    size = {"linf": np.inf, "l2": 2, "l1": 1}[norm]
    constraint = {"type": "ineq", "fun": lambda u: 0.5 - np.linalg.norm(u, size)}
    tries = [minimize(lambda u: ((u - v) ** 2).sum(), 0.05 * start, method="SLSQP", constraints=[constraint]).fun
             for start in points(10, 4, seed=4)]
    assert np.linalg.norm(v - nearest_in_ball(v, 0.5, norm)) == pytest.approx(np.sqrt(min(tries)), rel=1e-3)
    np.testing.assert_array_equal(nearest_in_ball(v, 100.0, norm), v)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"norm": "l3"}, "norm must be one of 'linf', 'l2', 'l1'"),
        ({"eps": -1}, "eps must be in .*radius in the units of X"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    X, y = noisy(20)
    with pytest.raises(ValueError, match=message):
        clone(AdversarialLinearSVC()).set_params(**parameters).fit(X, y)
