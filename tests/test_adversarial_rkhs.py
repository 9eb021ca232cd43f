"""The feature-space defence: its theorem, its exact solver against general ones, its stochastic solvers against it."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits

from buttress import SVC, AdversarialSVC, FeatureNoiseWarning, attacks
from buttress.features import RandomExpansion, feature_radius, random_features
from buttress.kernels import RBF, Cauchy, InverseMultiquadric, Laplacian, Linear
from buttress.solvers.classify import solve_svm
from buttress.solvers.dsg import KernelBasis, RandomBasis, doubly_stochastic, step_sizes
from buttress.solvers.rkhs import attacked, first_point, natural_path, path_search
from buttress.solvers.rows import KernelRows
from buttress.solvers.run import run

from problems import breast_cancer, iris, moons, points

QUIET = pytest.mark.filterwarnings("ignore::buttress.FeatureNoiseWarning")


def signed(n=60, noise=0.3, seed=0):
    X, y = moons(n, noise=noise, seed=seed)
    return X, 2.0 * y - 1


def value(K, y, w, b, C, radius):
    """The objective with C the weight of the sum."""
    f, norm = K @ w, np.sqrt(w @ K @ w)
    return 0.5 * norm**2 + C * np.maximum(0, 1 - y * (f + b) + radius * norm).sum()


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
    model = AdversarialSVC(defense="rkhs", C=20.0, eps=0.05, norm="l2", tol=1e-7).fit(X, y)
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
    options = {"defense": "rkhs", "gamma": 1.0, "norm": "l2", "fit_intercept": fit_intercept, "C": 1e3}
    with pytest.raises(ValueError, match="f = 0 is optimal for every C") as error:
        AdversarialSVC(eps=5.0, **options).fit(X, y)
    largest = float(str(error.value).split("Use eps < ")[1].split(",")[0])
    model = AdversarialSVC(eps=0.999 * largest, **options).fit(X, y)
    assert np.abs(model.decision_function(X) - model.expansion_.intercept[0]).max() > 1e-3
    with pytest.raises(ValueError, match="is too large"):
        AdversarialSVC(eps=1.001 * largest, **options).fit(X, y)


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
    linf = AdversarialSVC(defense="rkhs", C=50.0, eps=0.01).fit(X, y)
    l2 = AdversarialSVC(defense="rkhs", C=50.0, eps=0.01 * np.sqrt(30), norm="l2").fit(X, y)
    np.testing.assert_allclose(linf.decision_function(X), l2.decision_function(X), rtol=1e-9)


def plain_natural_dsg(features, X, y, C, batch, rng):
    """Dai et al.'s algorithm 1 written out: no norm, no radius, one step of 1/t a batch."""
    order = rng.permutation(len(y))
    X, y = X[order].astype(np.float32), y[order]
    alphas, f = [], np.zeros((len(y), 1))
    for t, start in enumerate(range(0, len(y), batch)):
        stop = min(start + batch, len(y))
        g = 1.0 / (t + 1)
        active = 1 - y[start:stop] * f[start:stop] > 0
        z = g * C / (stop - start) * np.where(active, y[start:stop], 0.0)
        alphas = [(1 - g) * alpha for alpha in alphas]
        alphas.append(features(X[start:stop], t).astype(np.float64).T @ z)
        f *= 1 - g
        f[stop:] += features(X[stop:], t) @ alphas[-1].astype(np.float32)
    return np.stack(alphas)


def test_eps_zero_is_natural_dsg_bit_for_bit():
    X, y = signed(200)
    features = random_features(RBF(1.0), 2, 32, seed=0)
    basis = RandomBasis(features, X, 10, 1)
    steps = doubly_stochastic(basis, y[:, None], C=2.0, radius=0.0, step=step_sizes("diminishing", 1.0), batch=20,
                              n_passes=1, fit_intercept=False, rng=np.random.RandomState(7))
    coef = run(steps).state[0]
    plain = plain_natural_dsg(features, X, y[:, None], 2.0, 20, np.random.RandomState(7))
    np.testing.assert_array_equal(coef, plain)
    assert np.abs(plain).max() > 0


@pytest.mark.parametrize("radius", [0.0, 0.05])
def test_many_features_follow_the_kernel_iterate_by_iterate(radius):
    X, y = signed(120)
    options = {"C": 2.0, "radius": radius, "step": step_sizes("constant", 0.2), "batch": 20, "n_passes": 1,
               "fit_intercept": True}
    random = RandomBasis(random_features(RBF(1.0), 2, 10_000, seed=0), X, 6, 1)
    exact = KernelBasis(RBF(1.0), X, 1)
    K = RBF(1.0)(X, X)
    pairs = zip(*(doubly_stochastic(basis, y[:, None], rng=np.random.RandomState(1), **options)
                  for basis in (random, exact)), strict=True)
    for ours, theirs in pairs:
        f = sum((random.features(X, t) @ coef for t, coef in enumerate(ours.state[0])), np.zeros((120, 1)))
        np.testing.assert_allclose(f + ours.state[1], K @ theirs.state[0] + theirs.state[1], atol=0.05)
        np.testing.assert_allclose(ours.state[2], theirs.state[2], atol=0.02)


@pytest.mark.parametrize("step", ["constant", "diminishing"])
@pytest.mark.parametrize("passes", [1, 3])
def test_norm_recursion_is_the_norm(step, passes):
    """For the kernel itself the recursion is exact; for random features within 2% of z'K z of the same updates."""
    X, y = breast_cancer()
    y = 2.0 * y[:, None] - 1
    options = {"C": 4.0, "radius": 0.02, "step": step_sizes(step, 0.3 if step == "constant" else 1.0), "batch": 100,
               "n_passes": passes, "fit_intercept": False}
    K = RBF(0.02)(X, X)
    steps = doubly_stochastic(KernelBasis(RBF(0.02), X, 1), y, rng=np.random.RandomState(0), **options)
    coef, _, norm = run(steps).state
    assert norm[0] == pytest.approx(np.sqrt(coef[:, 0] @ K @ coef[:, 0]), rel=1e-9)
    basis = RandomBasis(random_features(RBF(0.02), 30, 1024, seed=0), X, 6 * passes, 1)
    shadow = KernelBasis(RBF(0.02), X, 1)
    add, shrink, reorder = basis.add, basis.shrink, basis.reorder
    basis.add = lambda t, rows, z: (shadow.add(t, rows, z), add(t, rows, z))[1]
    basis.shrink = lambda factor: (shadow.shrink(factor), shrink(factor))[1]
    basis.reorder = lambda order: (shadow.reorder(order), reorder(order))[1]
    norm = run(doubly_stochastic(basis, y, rng=np.random.RandomState(0), **options)).state[2]
    coef = shadow.state()[:, 0]
    assert norm[0] == pytest.approx(np.sqrt(coef @ K @ coef), rel=0.02)


@pytest.mark.parametrize("solver", ["dsg", "sgd"])
def test_update_is_the_functional_gradient(solver):
    """One batch of all rows from f1 to f2: (f1 - f2) / g is the gradient of the objective, by finite differences."""
    X, y = signed(30)
    K, radius, C = RBF(1.0)(X, X), 0.05, 2.0
    size = 1.0 if solver == "sgd" else 0.5
    basis = KernelBasis(RBF(1.0), X, 1) if solver == "sgd" else RandomBasis(
        random_features(RBF(1.0), 2, 100_000, seed=0), X, 2, 1)
    steps = doubly_stochastic(basis, y[:, None], C=C, radius=radius, step=lambda t: size if t == 1 else 1e-3, batch=30,
                              n_passes=2, fit_intercept=False, rng=np.random.RandomState(0))
    states = [step.state[0] for step in steps]
    if solver == "sgd":
        w = [state[:, 0] for state in states]
    else:
        f = [sum(basis.features(X, t) @ coef for t, coef in enumerate(state)) for state in states[1:]]
        w = [None, *(np.linalg.lstsq(K, column[:, 0], rcond=1e-6)[0] for column in f)]
    change = K @ (w[1] - w[2]) / 1e-3
    h = 1e-6

    def risk(v):
        return value(K, y, v, 0.0, C / 30, radius)

    gradient = [(risk(w[1] + h * e) - risk(w[1] - h * e)) / (2 * h) for e in np.eye(30)]
    np.testing.assert_allclose(change, gradient, atol=1e-4 if solver == "sgd" else 0.02)


def squared_error(radius, step, times, trials, C=1.0):
    """Mean over trials of the mean squared distance of f_t to the exact f on the rows, at each of ``times``."""
    X, y = signed(60)
    kernel = RBF(1.0)
    K = kernel(X, X)
    solve = natural_path(kernel, X, y, fit_intercept=False, tol=1e-9)
    first = first_point(kernel, X, y, fit_intercept=False)
    w = run(path_search(solve, first, y, C=C / 60, radius=radius), tol=1e-9, max_iter=100).state[0]
    errors = np.zeros((trials, len(times)))
    passes = -(-times[-1] // 6)
    for trial in range(trials):
        features = random_features(kernel, 2, 8, seed=trial)
        basis = RandomBasis(features, X, 6 * passes, 1)
        basis.state = lambda basis=basis: basis.coef  # no copies: looked at only here
        steps = doubly_stochastic(basis, y[:, None], C=C, radius=radius, step=step, batch=10, n_passes=passes,
                                  fit_intercept=False, rng=np.random.RandomState(trial))
        blocks = np.stack([features(X, t) for t in range(times[-1])])
        for t, state in enumerate(steps):
            if t in times:
                f = np.einsum("tim,tm->i", blocks[:t], state.state[0][:t, :, 0])
                errors[trial, times.index(t)] = np.mean((f - K @ w) ** 2)
            if t >= times[-1]:
                break
    return errors.mean(axis=0)


@pytest.mark.parametrize("radius", [0.0, 0.1], ids=["natural", "attacked"])
def test_diminishing_steps_converge_as_one_over_t(radius):
    """Theorem 3: E |f_t(x) - f*(x)|^2 = O(1/t) under steps theta/t."""
    times = [32, 64, 128, 256, 384]
    errors = squared_error(radius, step_sizes("diminishing", 1.0), times, trials=12)
    slope = np.polyfit(np.log(times), np.log(errors), 1)[0]
    assert -1.2 <= slope <= -0.8


def test_constant_steps_reach_a_floor_that_falls_with_the_step():
    """Theorem 4: near f* up to an error in proportion to the step."""
    floors = []
    for size in (0.2, 0.05):
        errors = squared_error(0.1, step_sizes("constant", size), [round(20 / size), round(24 / size)], trials=8)
        assert errors[1] > 0.4 * errors[0]
        floors.append(errors.mean())
    assert floors[1] < 0.5 * floors[0]


@QUIET
def test_large_steps_do_not_turn_the_model_around():
    X, y = moons(100)
    model = AdversarialSVC(defense="rkhs", solver="sgd", step="constant", step_size=5.0, C=1.0, eps=0.05, norm="l2",
                           gamma=1.0, batch_size=20, n_passes=3, fit_intercept=False, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.7


@QUIET
@pytest.mark.parametrize("solver", ["exact", "dsg", "sgd"])
def test_three_classes_and_the_same_model_after_pickling(solver):
    X, y = iris()
    model = AdversarialSVC(defense="rkhs", solver=solver, C=50.0, eps=0.01, norm="l2", n_features=200, batch_size=10,
                           n_passes=10, step_size=1.0, random_state=0).fit(X, y)
    scores = model.decision_function(X)
    assert scores.shape == (150, 3)
    assert model.score(X, y) > 0.8
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(X), scores)


@QUIET
def test_features_are_never_stored():
    X, y = points(300, 200), np.arange(300) % 2
    model = AdversarialSVC(defense="rkhs", solver="dsg", eps=0, batch_size=50, random_state=0).fit(X, y)
    one_block = 200 * 1024 * 8
    assert len(pickle.dumps(model)) < one_block / 10


def test_random_features_fall_to_attacks_that_landmarks_withstand():
    """The same kernel, C and rows; both maps classify alike without an attack."""
    X, y = load_digits(return_X_y=True)
    X, y = X[(y == 3) | (y == 8)] / 16, y[(y == 3) | (y == 8)]
    model = AdversarialSVC(eps=0, C=1.0, gamma=0.05, n_landmarks=100, random_state=0).fit(X, y)
    waves = random_features(RBF(0.05), 64, 200, seed=0)
    features, signs = waves(X, 0), np.where(y == 8, 1.0, -1.0)
    solution = solve_svm(KernelRows(Linear(), features), signs, np.ones(len(y)))
    twin = copy.copy(model)
    coef, intercept = (features.T @ solution.b)[None, :, None], np.array([solution.intercept])
    twin.expansion_ = RandomExpansion(waves, coef, intercept)
    assert twin.score(X, y) > 0.98
    assert model.score(X, y) > 0.98
    X, y = X[:100], y[:100]
    few, many = ((m.predict(attacks.pgd(m, X, y, eps=0.12, steps=10)) == y).mean() for m in (twin, model))
    assert few < many - 0.2


def test_noise_of_random_features_is_warned_of_where_it_is_large():
    X, y = breast_cancer()
    X = np.hstack([X, points(len(X), 70)])
    with pytest.warns(FeatureNoiseWarning, match="noise of l1 norm"):
        noisy = AdversarialSVC(defense="rkhs", solver="dsg", C=8.0, eps=0, n_features=64, batch_size=100,
                               random_state=0).fit(X, y)
    assert (noisy.gradient_noise_ > noisy.gradient_signal_).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error", FeatureNoiseWarning)
        AdversarialSVC(defense="rkhs", solver="dsg", C=8.0, eps=0, gamma=0.5, n_features=4096, batch_size=50,
                       random_state=0).fit(*moons(400))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "linear"}, "RBF, Laplacian, Cauchy, InverseMultiquadric"),
        ({"kernel": "log"}, "RBF, Laplacian, Cauchy, InverseMultiquadric"),
        ({"solver": "dgs"}, "Did you mean"),
        ({"step": "decreasing"}, "step must be one of"),
        ({"step_size": 0}, "step_size must be in"),
        ({"defense": "input", "solver": "dsg"}, "defense='rkhs'"),
        ({"defense": "input", "fit_intercept": False}, "always has an intercept"),
        ({"n_features": 0}, "n_features must be a whole number"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"n_passes": 0}, "n_passes must be a whole number"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    X, y = moons(20)
    with pytest.raises(ValueError, match=message):
        AdversarialSVC(**{"defense": "rkhs", **parameters}).fit(X, y)


def test_rows_beyond_single_precision_are_refused():
    with pytest.raises(ValueError, match="Scale the columns"):
        AdversarialSVC(defense="rkhs", solver="dsg", eps=0).fit(1e60 * points(20, 2), np.arange(20) % 2)


def test_pixels_with_a_radius_below_one_are_warned_of():
    X = np.random.default_rng(0).integers(0, 256, (40, 5)).astype(float)
    X[0, 0] = 255
    with pytest.warns(UserWarning, match="Divide X by 255"):
        AdversarialSVC(eps=0.1, random_state=0, max_iter=10).fit(X, np.arange(40) % 2)


def test_a_second_fit_keeps_nothing_of_another_solver_and_no_block_of_training():
    X, y = moons(60)
    settings = [{"defense": "input"}, {"defense": "rkhs", "solver": "exact"}, {"defense": "rkhs", "solver": "dsg"},
                {"defense": "rkhs", "solver": "sgd"}]
    common = {"eps": 0.01, "norm": "l2", "gamma": 1.0, "n_features": 64, "n_landmarks": 20, "random_state": 0}
    for first in settings:
        for second in settings:
            model = AdversarialSVC(**common, **first)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FeatureNoiseWarning)
                model.fit(X, y).set_params(**{"solver": "exact", **second}).fit(X, y)
                fresh = AdversarialSVC(**common, **second).fit(X, y)
            assert set(vars(model)) == set(vars(fresh))
            if second.get("solver") == "dsg":
                assert {place.dtype for _, place in model.expansion_.features._kept} <= {"float64"}
