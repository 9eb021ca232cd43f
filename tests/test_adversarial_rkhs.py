"""The feature-space defence: its theorem, its exact solver against general ones, and what its estimator owes."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone

from buttress import SVC, AdversarialSVC, AdvSVM, FeatureNoiseWarning, NotConvergedWarning, StochasticAdvSVM
from buttress.features import feature_radius
from buttress.kernels import RBF, Cauchy, InverseMultiquadric, Laplacian
from buttress.solvers.qp.rkhs_path import attacked, first_point, natural_path, path_search
from buttress.solvers.run import run

from problems import breast_cancer, iris, moons, points
from rkhs_problems import QUIET, signed, value


def test_worst_feature_move_is_the_closed_form():
    """Theorem 2: no u of the ball costs more than radius ||f||, and -y radius f / ||f|| costs just that."""
    X, y = signed(20)
    K, w, radius = RBF(1.0)(X, X), points(20, 1, seed=1)[:, 0], 0.3
    norm = np.sqrt(w @ K @ w)
    worst = 1 - y * (K @ w) + radius * norm
    for u in points(200, 20, seed=2):
        u = u * radius / np.sqrt(u @ K @ u)
        assert (1 - y * (K @ w + w @ K @ u) <= worst + 1e-12).all()
    best = -radius * w / norm
    np.testing.assert_allclose(1 - y * (K @ w) - w @ K @ best, worst, atol=1e-12)


def test_moved_inputs_stay_inside_the_feature_ball():
    kernel, eps = Cauchy(0.6), 0.4
    X = points(30, 3)
    step = points(30, 3, seed=1)
    moved = X + eps * step / np.linalg.norm(step, axis=1, keepdims=True) * np.linspace(0, 1, 30)[:, None]
    move = np.sqrt(2 * kernel.diagonal(X) - 2 * np.diagonal(kernel(X, moved)))
    assert (move <= feature_radius(kernel, eps) + 1e-12).all()


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_exact_solver_agrees_with_a_general_solver(fit_intercept, share):
    X, y = signed(16, seed=3)
    kernel, C = RBF(1.0), 1.0
    K = kernel(X, X)
    L = np.linalg.cholesky(K)
    first = first_point(kernel, X, y, fit_intercept=fit_intercept)
    radius = share * first.norm / first.total
    solve = natural_path(kernel, X, y, fit_intercept=fit_intercept, tol=1e-9)
    outcome = run(path_search(solve, first, y, C=C, radius=radius), tol=1e-8, max_iter=100)
    w, b, _ = outcome.state
    assert outcome.objective == pytest.approx(value(K, y, w, b, C, radius), rel=1e-9)

    def slack(v):
        return v[17:] - 1 + y * (L @ v[:16] + v[16] * fit_intercept) - radius * np.sqrt(v[:16] @ v[:16] + 1e-16)

    start = np.r_[0.1 * points(1, 16)[0], 0.0, np.full(16, 3.0)]
    theirs = minimize(lambda v: 0.5 * v[:16] @ v[:16] + C * v[17:].sum(), start, method="SLSQP",
                      jac=lambda v: np.r_[v[:16], 0.0, np.full(16, C)], bounds=[(None, None)] * 17 + [(0, None)] * 16,
                      constraints={"type": "ineq", "fun": slack}, options={"maxiter": 1000, "ftol": 1e-12})
    assert outcome.objective == pytest.approx(theirs.fun, rel=1e-5)
    np.testing.assert_allclose(K @ w, L @ theirs.x[:16], atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [RBF(1.0), Laplacian(0.8), Cauchy(0.6), InverseMultiquadric(0.8)], ids=str)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_exact_solver_agrees_with_a_conic_solver(kernel, C):
    cp = pytest.importorskip("cvxpy")
    X, y = signed(120)
    X, y = X[10:], y[10:]
    K = kernel(X, X)
    L = np.linalg.cholesky(K + 1e-11 * np.eye(len(K)))
    first = first_point(kernel, X, y, fit_intercept=True)
    for share in (0.1, 0.5, 0.95):
        radius = share * first.norm / first.total
        solve = natural_path(kernel, X, y, fit_intercept=True, tol=1e-8)
        outcome = run(path_search(solve, first, y, C=C, radius=radius), tol=1e-8, max_iter=100)
        theta, b = cp.Variable(len(K)), cp.Variable()
        loss = cp.sum(cp.pos(1 - cp.multiply(y, L @ theta + b) + radius * cp.norm(theta)))
        problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(theta) + C * loss))
        problem.solve(solver=cp.CLARABEL)
        assert outcome.objective == pytest.approx(problem.value, rel=1e-6)
        apart = np.sqrt(2 * 1e-8 * problem.value)  # the norm by which solutions with gaps of 1e-8 can differ
        np.testing.assert_allclose(K @ outcome.state[0], L @ theta.value, atol=2 * apart)


@pytest.mark.parametrize("problem", [moons, breast_cancer])
def test_the_defence_only_relabels_C(problem):
    """Scores of the attacked machine are a multiple of those of the natural one with ``natural_C_``."""
    X, y = problem()
    model = AdvSVM(C=20.0, eps=0.05, norm="l2", tol=1e-7).fit(X, y)
    assert model.natural_C_[0] < 0.95 * 20.0
    natural = SVC(C=model.natural_C_[0] / len(X), kernel=model.expansion_.kernel, tol=1e-7).fit(X, y)
    ours, theirs = model.decision_function(X), natural.decision_function(X)
    scale = ours @ theirs / (theirs @ theirs)
    assert scale > 1
    np.testing.assert_allclose(ours, scale * theirs, atol=2e-4 * np.abs(ours).max())


def test_any_natural_machine_bounds_the_optimum_from_both_sides():
    """(P) and (D) hold for every C', not only for the right one."""
    X, y = signed()
    kernel, C, radius = RBF(1.0), 1.0, 0.1
    solve = natural_path(kernel, X, y, fit_intercept=True, tol=1e-9)
    first = first_point(kernel, X, y, fit_intercept=True)
    best = run(path_search(solve, first, y, C=C, radius=radius), tol=1e-9, max_iter=100).objective
    for natural_C in (0.01, 0.1, 0.5, 1.0):
        step = attacked(solve(natural_C), y, C, radius)
        assert step.objective * (1 - step.gap) <= best * (1 + 1e-8)
        assert step.objective >= best * (1 - 1e-8)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_collapse_is_refused_with_the_largest_radius(fit_intercept):
    X, y = moons(80, noise=0.1)
    X, y = X[20:], y[20:]
    options = {"gamma": 1.0, "norm": "l2", "fit_intercept": fit_intercept, "C": 1e3}
    with pytest.raises(ValueError, match="f = 0 is optimal for every C") as error:
        AdvSVM(eps=5.0, **options).fit(X, y)
    largest = float(str(error.value).split("Use eps < ")[1].split(",")[0])
    model = AdvSVM(eps=0.999 * largest, **options).fit(X, y)
    assert np.abs(model.decision_function(X) - model.expansion_.intercept[0]).max() > 1e-3
    with pytest.raises(ValueError, match="is too large"):
        AdvSVM(eps=1.001 * largest, **options).fit(X, y)


def test_beyond_the_collapse_nothing_beats_zero():
    """No multiple of the mean direction, nor any random one, lowers the objective at f = 0."""
    X, y = signed(40)
    K = RBF(1.0)(X, X)
    radius = np.sqrt(y @ K @ y) / 40
    directions = [y, *points(50, 40, seed=1), *(y * np.abs(points(50, 40, seed=2)))]
    for w in directions:
        for size in (1e-3, 1e-2, 0.1):
            w_small = size * w / np.sqrt(w @ K @ w)
            assert value(K, y, w_small, 0, 10.0, 1.001 * radius) >= 10.0 * 40
    downhill = 1e-3 * y / np.sqrt(y @ K @ y)
    assert value(K, y, downhill, 0, 10.0, 0.9 * radius) < 10.0 * 40


def test_linf_radius_is_converted_by_the_root_of_the_width():
    X, y = breast_cancer()
    linf = AdvSVM(C=50.0, eps=0.01).fit(X, y)
    l2 = AdvSVM(C=50.0, eps=0.01 * np.sqrt(30), norm="l2").fit(X, y)
    np.testing.assert_allclose(linf.decision_function(X), l2.decision_function(X), rtol=1e-9)


@QUIET
@pytest.mark.parametrize("machine", [
    AdvSVM(), StochasticAdvSVM(n_features=200, batch_size=10, n_passes=10, random_state=0),
    StochasticAdvSVM(n_features=None, batch_size=10, n_passes=10, random_state=0)], ids=str)
def test_three_classes_and_the_same_model_after_pickling(machine):
    X, y = iris()
    model = clone(machine).set_params(C=50.0, eps=0.01, norm="l2").fit(X, y)
    scores = model.decision_function(X)
    assert scores.shape == (150, 3)
    assert model.score(X, y) > 0.8
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(X), scores)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "linear"}, "StochasticAdvSVM needs .* RBF, Laplacian, Cauchy, InverseMultiquadric"),
        ({"step": "decreasing"}, "step must be one of"),
        ({"step_size": 0}, "step_size must be in"),
        ({"n_features": 0}, "n_features must be a whole number"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"n_passes": 0}, "n_passes must be a whole number"),
    ],
)
def test_bad_parameters_of_steps_are_named(parameters, message):
    X, y = moons(20)
    with pytest.raises(ValueError, match=message):
        StochasticAdvSVM(**parameters).fit(X, y)


@pytest.mark.parametrize("kernel", ["linear", "log"])
def test_kernels_that_do_not_fall_with_the_distance_are_named(kernel):
    with pytest.raises(ValueError, match=r"AdvSVM needs .* RBF, Laplacian, Cauchy, InverseMultiquadric"):
        AdvSVM(kernel=kernel).fit(*moons(20))


@pytest.mark.parametrize("name", ["step", "step_size", "n_features", "batch_size", "n_passes", "device",
                                  "random_state"])
def test_the_exact_machine_has_no_parameters_of_steps(name):
    with pytest.raises(TypeError, match=f"AdvSVM has no parameter '{name}'. .*(StochasticAdvSVM|Remove it)"):
        AdvSVM(**{name: None})


@pytest.mark.parametrize("machine", [AdvSVM, StochasticAdvSVM])
def test_the_old_word_for_the_algorithm_names_the_machine(machine):
    with pytest.raises(TypeError, match=r"no parameter 'solver'.*StochasticAdvSVM takes doubly stochastic steps"):
        machine(solver="dsg")


def test_rows_beyond_single_precision_are_refused():
    with pytest.raises(ValueError, match="Scale the columns"):
        StochasticAdvSVM(eps=0).fit(1e60 * points(20, 2), np.arange(20) % 2)


def test_pixels_with_a_radius_below_one_are_warned_of():
    X = np.random.default_rng(0).integers(0, 256, (40, 5)).astype(float)
    X[0, 0] = 255
    with pytest.warns(UserWarning, match="Divide X by 255"):
        AdversarialSVC(eps=0.1, random_state=0, max_iter=10).fit(X, np.arange(40) % 2)


def test_a_second_fit_keeps_nothing_of_another_basis_and_no_block_of_training():
    X, y = moons(60)
    common = {"eps": 0.01, "norm": "l2", "gamma": 1.0, "random_state": 0}
    for first in (64, None):
        for second in (64, None):
            model = StochasticAdvSVM(n_features=first, **common)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FeatureNoiseWarning)
                model.fit(X, y).set_params(n_features=second).fit(X, y)
                fresh = StochasticAdvSVM(n_features=second, **common).fit(X, y)
            assert set(vars(model)) == set(vars(fresh))
            if second is not None:
                assert {place.dtype for _, place in model.expansion_.features._kept} <= {"float64"}


def test_a_fit_that_is_refused_leaves_the_last_one():
    X, y = moons(60)
    model = AdvSVM(eps=0.01, norm="l2", gamma=1.0).fit(X, y)
    before, scores = dict(vars(model)), model.decision_function(X)
    with pytest.raises(ValueError, match="is too large for AdvSVM"):
        model.set_params(eps=50.0).fit(X + 1.0, np.where(y == 1, "b", "a"))
    assert {**vars(model), "eps": 0.01} == before
    np.testing.assert_array_equal(model.decision_function(X), scores)


@pytest.mark.parametrize("eps", [0.0, 1e-3])
def test_the_exact_path_keeps_to_its_time_and_its_certificate_holds(eps):
    """Columns of very different scales, where one natural machine takes minutes."""
    rng = np.random.RandomState(3)
    X = rng.standard_cauchy(size=(1500, 1)) * rng.normal(size=(1500, 10)) * 10 ** rng.uniform(-4, 4, 10)
    y = np.sign(rng.normal(size=1500))
    machine = AdvSVM(eps=eps, C=1e6, kernel="rbf", gamma=0.1, max_time=1e-3)
    with pytest.warns(NotConvergedWarning):
        model = machine.fit(X, y)
    kernel = RBF(0.1)
    w = np.zeros(1500)  # how many rows have a coefficient depends on the time
    w[[np.flatnonzero((row == X).all(axis=1))[0] for row in model.expansion_.centers]] = model.expansion_.coef[:, 0]
    radius = feature_radius(kernel, eps * np.sqrt(10))  # the longest move of ten columns
    found = value(kernel(X, X), y, w, model.expansion_.intercept[0], 1e6 / 1500, radius)
    constant = 2e6 * min((y > 0).mean(), (y < 0).mean())  # the objective of w = 0
    assert found - model.dual_gap_ <= constant
