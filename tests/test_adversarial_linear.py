"""The free-range linear machine against Zhou's program written out, its own worst case, and the plain machine."""

import re
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone

from buttress import SVC, AdversarialLinearSVC, FreeRangeSVC, NotConvergedWarning
from buttress.certificates import certified_within

from problems import breast_cancer, iris, moons, noisy, points


def objective(X, y, w, b, C, share, both):
    """The objective with the worst move of each row found coordinate by coordinate; y is -1 and 1."""
    low, high = X.min(axis=0), X.max(axis=0)
    ends = np.stack([share * (low - X), share * (high - X)]) * w
    worst = np.where(y > 0, ends.min(axis=0).sum(axis=1), -ends.max(axis=0).sum(axis=1))
    worst[(y < 0) & (not both)] = 0
    return 0.5 * w @ w + C * np.maximum(0, 1 - y * (X @ w + b) - worst).sum()


@pytest.mark.parametrize("attacked_class", ["positive", "both"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.4])
def test_objective_is_the_worst_case_and_no_neighbour_is_lower(attacked_class, share):
    X, codes = noisy(120)
    y, both = 2.0 * codes - 1, attacked_class == "both"
    model = FreeRangeSVC(C=0.5, C_f=share, attacked_class=attacked_class, tol=1e-9).fit(X, codes)
    w, b = model.coef_[0], model.intercept_[0]
    best = objective(X, y, w, b, 0.5, share, both)
    assert model.primal_objective_ == pytest.approx(best, rel=1e-9)
    assert -1e-12 * best <= model.dual_gap_ <= 1e-9 * best
    for size in (1e-3, 1e-1):
        for move in size * points(100, 9, seed=1):
            assert objective(X, y, w + move[:8], b + move[8], 0.5, share, both) >= best * (1 - 1e-9)


@pytest.mark.parametrize("attacked_class", ["positive", "both"])
def test_solution_is_that_of_the_full_program(attacked_class):
    """Zhou's variables t, u, v written out and handed to a general solver."""
    X, codes = noisy(10)
    X, y, C, share = X[:, :3], 2.0 * codes - 1, 0.7, 0.2
    low, high = X.min(axis=0), X.max(axis=0)
    n, d = X.shape
    near, far = X - low, high - X
    swap = (y < 0)[:, None]
    up, down = np.where(swap, far, near), np.where(swap, near, far)
    attacked = 1.0 if attacked_class == "both" else (y > 0)[:, None]
    # variables: w, b, xi, u - v = w with u, v >= 0 for each row
    def parts(z):
        return z[:d], z[d], z[d + 1 : d + 1 + n], z[d + 1 + n :].reshape(2, n, d)

    def hinge(z):
        w, b, xi, (u, v) = parts(z)
        return xi - 1 + y * (X @ w + b) - share * (attacked * (u * up + v * down)).sum(axis=1)

    def split(z):
        w, _, _, (u, v) = parts(z)
        return (u - v - w).ravel()

    start = np.r_[np.zeros(d + 1), np.full(n, 2.0), np.full(2 * n * d, 0.1)]
    bounds = [(None, None)] * (d + 1) + [(0, None)] * (n + 2 * n * d)
    theirs = minimize(lambda z: 0.5 * z[:d] @ z[:d] + C * z[d + 1 : d + 1 + n].sum(), start, method="SLSQP",
                      bounds=bounds, constraints=[{"type": "ineq", "fun": hinge}, {"type": "eq", "fun": split}],
                      options={"maxiter": 500, "ftol": 1e-13})
    model = FreeRangeSVC(C=C, C_f=share, attacked_class=attacked_class, tol=1e-9).fit(X, codes)
    assert model.primal_objective_ == pytest.approx(theirs.fun, rel=1e-6)
    np.testing.assert_allclose(model.coef_[0], theirs.x[:d], atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_solution_is_that_of_a_conic_solver(C, share):
    cp = pytest.importorskip("cvxpy")
    X, codes = breast_cancer()
    low, high, P = X.min(axis=0), X.max(axis=0), codes == 1
    w, b = cp.Variable(30), cp.Variable()
    t = share * ((X - low) @ cp.pos(w) + (high - X) @ cp.pos(-w))
    loss = cp.sum(cp.pos(1 - X[P] @ w - b + t[P])) + cp.sum(cp.pos(1 + X[~P] @ w + b))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + C * loss))
    problem.solve(solver=cp.CLARABEL)
    model = FreeRangeSVC(C=C, C_f=share, tol=1e-8).fit(X, codes)
    assert model.primal_objective_ == pytest.approx(problem.value, rel=1e-5)
    np.testing.assert_allclose(model.coef_[0], w.value, atol=1e-3 * np.abs(w.value).max())


def test_no_share_is_the_plain_linear_machine():
    X, y = breast_cancer()
    plain = SVC(kernel="linear", C=0.3, tol=1e-6).fit(X, y)
    ours = FreeRangeSVC(C=0.3, C_f=0.0, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), plain.decision_function(X), atol=1e-3)
    assert ours.primal_objective_ == pytest.approx(plain.primal_objective_, rel=1e-5)


def test_share_buys_accuracy_against_free_range_attackers():
    X, y = breast_cancer()
    low, high = X.min(axis=0), X.max(axis=0)
    accuracy = []
    for share in (0.0, 0.1):
        model = FreeRangeSVC(C=0.1, C_f=share, attacked_class="both").fit(X, y)
        signs = np.where(y == 1, 1.0, -1.0)[:, None]
        ends = np.where(signs * model.coef_ > 0, low, high)
        accuracy.append(model.score(X + 0.1 * (ends - X), y))
    assert accuracy[1] > accuracy[0] + 0.05


def test_units_do_not_matter_and_constant_columns_get_no_weight():
    X, y = noisy(100)
    X = np.hstack([X, np.full((100, 1), 7.0)])
    model = FreeRangeSVC(tol=1e-9).fit(X, y)
    assert model.coef_[0, -1] == 0
    scaled = FreeRangeSVC(tol=1e-9, C=1e-8).fit(1e4 * X + 3, y)
    np.testing.assert_allclose(1e4 * scaled.coef_, model.coef_, atol=1e-5)


def test_bounds_widen_the_attack_and_must_hold_the_rows():
    X, y = breast_cancer()
    narrow = FreeRangeSVC(C_f=0.02, attacked_class="both").fit(X, y)
    same = FreeRangeSVC(C_f=0.02, attacked_class="both", bounds=(X.min(axis=0), X.max(axis=0))).fit(X, y)
    wide = FreeRangeSVC(C_f=0.02, attacked_class="both", bounds=(-50, 50)).fit(X, y)
    np.testing.assert_array_equal(narrow.coef_, same.coef_)
    assert wide.primal_objective_ > narrow.primal_objective_
    with pytest.raises(ValueError, match="bounds exclude the data: row"):
        FreeRangeSVC(bounds=(0, 1)).fit(X, y)


def test_each_class_is_the_positive_one_in_turn():
    X, y = iris()
    model = FreeRangeSVC(C_f=0.02).fit(X, y)
    for c in range(3):
        alone = FreeRangeSVC(C_f=0.02).fit(X, y == c)
        np.testing.assert_allclose(model.coef_[c], alone.coef_[0], atol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": -1}, "C must be in"),
        ({"C_f": 1.5}, "C_f must be in .*share of the way"),
        ({"attacked_class": "negative"}, "attacked_class must be one of 'positive', 'both'"),
        ({"tol": 0}, "tol must be in"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    X, y = noisy(20)
    with pytest.raises(ValueError, match=message):
        clone(FreeRangeSVC()).set_params(**parameters).fit(X, y)


@pytest.mark.parametrize(
    ("X", "bounds", "message"),
    [
        (points(20, 2), 3, "bounds must be .low, high."),
        (points(20, 2), (np.zeros(3), 1), "bounds must be .low, high."),
        (points(20, 2), (-np.inf, np.inf), "bounds must be finite"),
        (points(20, 2), (np.full((20, 2), -9), 9), "a limit a feature"),
        (1e-99 * points(20, 2), None, "Scale the columns"),
        (1e99 * points(20, 2), None, "Scale the columns"),
    ],
)
def test_limits_and_scales_out_of_reach_are_refused(X, bounds, message):
    with pytest.raises(ValueError, match=message):
        FreeRangeSVC(bounds=bounds).fit(X, np.arange(20) % 2)


@pytest.mark.parametrize(("norm", "dual"), [("linf", 1), ("l2", 2), ("l1", np.inf)])
def test_ball_machines_are_certified_by_their_margin_less_the_dual_norm(norm, dual):
    X, y = breast_cancer()
    model = AdversarialLinearSVC(norm=norm, eps=0.2).fit(X, y)
    lead = np.abs(model.decision_function(X)) - 0.3 * np.linalg.norm(model.coef_[0], dual)
    clear = np.abs(lead) > 1e-9
    np.testing.assert_array_equal(certified_within(model, X, eps=0.3, norm=norm)[clear], lead[clear] > 0)


def test_an_l1_ball_is_certified_for_kernels_by_the_l2_ball_that_holds_it():
    X, y = noisy(60)
    model = SVC(gamma=0.1).fit(X, y)
    ours, wider = (certified_within(model, X, eps=0.2, norm=norm) for norm in ("l1", "l2"))
    np.testing.assert_array_equal(ours, wider)
    assert ours.any()


@pytest.mark.filterwarnings("ignore:.*did not reach")
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_radius_that_leaves_nothing_of_the_machine_is_warned_of_with_one_that_leaves_something(norm):
    X, y = breast_cancer()
    with pytest.warns(UserWarning, match="coefficients of 1 of 1 machines are next to 0") as told:
        model = AdversarialLinearSVC(eps=50.0, norm=norm).fit(X, y)
    assert len(np.unique(model.predict(X))) == 1
    least = float(re.search(r"Use eps below (\S+)\.", str(told[0].message))[1])
    learned = AdversarialLinearSVC(eps=0.9 * least, norm=norm).fit(X, y)
    assert len(np.unique(learned.predict(X))) == 2
    with pytest.warns(UserWarning, match="next to 0.*Use a larger C"):
        AdversarialLinearSVC(eps=1e-3, C=1e-9, norm=norm).fit(X, y)


@pytest.mark.parametrize("model", [FreeRangeSVC(), AdversarialLinearSVC(),
                                   AdversarialLinearSVC(norm="l2"),
                                   AdversarialLinearSVC(norm="l1")], ids=str)
def test_one_row_far_beyond_all_others_is_refused_with_the_remedy_or_fitted(model):
    X, y = moons(60)
    X[0, 0] = 1e40
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        try:
            model.fit(X, y)
        except ValueError as error:
            if "Scale the columns" in str(error):
                return
            raise
    assert np.isfinite(model.coef_).all()
    constant = 2 * min((y == 0).sum(), (y == 1).sum())  # the objective of w = 0 with the best intercept
    assert model.primal_objective_ - model.dual_gap_ <= constant * (1 + 1e-9)
    assert model.dual_gap_ >= 0


def test_a_radius_is_advised_with_the_weights_of_the_rows_and_none_where_no_radius_is_learned():
    X = np.repeat([[0.0], [1.0], [2.0]], [5, 2, 5], axis=0)
    y = np.repeat([0, 1, 0], [5, 2, 5])
    with pytest.warns(UserWarning, match=r"next to 0.*learns nothing here at any eps.*sample_weight"):
        AdversarialLinearSVC(eps=0.1).fit(X, y)
    X, y = np.array([[0.0]] * 8 + [[0.8]] * 2 + [[1.0]] * 2), np.repeat([0, 1], [10, 2])
    with pytest.warns(UserWarning, match=r"Use eps below 0\.1\."):  # from the mean of the two at .8
        AdversarialLinearSVC(eps=0.2).fit(X, y)
    weight = np.where(y == 1, 5.0, 1.0)
    with pytest.warns(UserWarning, match=r"Use eps below 0\.42\."):  # from the mean of all ten, at .16
        AdversarialLinearSVC(eps=0.45).fit(X, y, sample_weight=weight)
    assert np.abs(AdversarialLinearSVC(eps=0.4, C=100.0).fit(X, y, sample_weight=weight).coef_).max() > 1e-3
