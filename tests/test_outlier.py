"""SVDD and its mixture of kernels against OneClassSVM, general solvers, brute force, and their own certificates."""

import itertools
import pickle

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize
from sklearn.base import clone
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import OneClassSVM

from buttress import SVDD, MultiKernelSVDD, NotConvergedWarning
from buttress.kernels import (
    RBF,
    Cauchy,
    Combination,
    Custom,
    InverseMultiquadric,
    Laplacian,
    Linear,
    Log,
    Polynomial,
    Precomputed,
    Sigmoid,
    centers,
)
from buttress.solvers.ball import quantile_radius, solve_ball
from buttress.solvers.definite import correct, is_definite
from buttress.solvers.multikernel import KernelStack, alternate, descent_direction, nearest_low
from buttress.solvers.rows import KernelRows
from buttress.solvers.run import run

from problems import points

DEFINITE = [Linear(0.5), Polynomial(2, 0.3, 1.0), RBF(0.4), Laplacian(0.7), InverseMultiquadric(1.3), Log(2, 0.5),
            Log(1.5, 0.5), Cauchy(0.6)]
STATIONARY = [RBF(0.4), Laplacian(0.7), InverseMultiquadric(1.3), Cauchy(0.6)]
SIGMOID = Sigmoid(0.2, -0.5)
EIGHT = [Linear(), Polynomial(2, 0.3, 1.0), RBF(0.4), Laplacian(0.7), SIGMOID, InverseMultiquadric(1.3), Log(2, 0.5),
         Cauchy(0.6)]


def normalised(kernels, X):
    """Centred Gram matrices with tr/n = 1, the long way."""
    H = np.eye(len(X)) - 1 / len(X)
    grams = [H @ kernel(X, X) @ H for kernel in kernels]
    return [K * len(X) / np.trace(K) for K in grams]


def best_dual(grams, bound, sums_to=1.0):
    """Return max over a of min_p diag(K_p)'a - a'K_p a by SLSQP."""
    n = len(bound)
    values = [lambda a, K=K: np.diag(K) @ a - a @ K @ a for K in grams]
    slopes = [lambda a, K=K: np.diag(K) - 2 * K @ a for K in grams]
    above = [{"type": "ineq", "fun": lambda z, v=v: v(z[:-1]) - z[-1], "jac": lambda z, s=s: np.append(s(z[:-1]), -1.0)}
             for v, s in zip(values, slopes)]
    total = {"type": "eq", "fun": lambda z: z[:-1].sum() - sums_to, "jac": lambda z: np.append(np.ones(n), 0.0)}
    found = minimize(lambda z: -z[-1], np.append(bound / bound.sum(), 0.0), jac=lambda z: np.append(np.zeros(n), -1.0),
                     bounds=[(0, b) for b in bound] + [(None, None)], constraints=[*above, total], method="SLSQP",
                     options={"ftol": 1e-14, "maxiter": 2000})
    return found.x[-1]


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.77])
@pytest.mark.parametrize("kernel", STATIONARY, ids=str)
def test_one_class_svm_of_a_stationary_kernel(kernel, nu):
    X, new = points(150), points(100, seed=1)
    theirs = OneClassSVM(kernel=kernel, nu=nu, tol=1e-10).fit(X)
    ours = SVDD(kernel=kernel, nu=nu).fit(X)
    scale = 2 / (nu * len(X))
    np.testing.assert_allclose(ours.decision_function(new), scale * theirs.decision_function(new), atol=1e-8)
    clear = np.abs(theirs.decision_function(new)) > 1e-6
    np.testing.assert_array_equal(ours.predict(new)[clear], theirs.predict(new)[clear])


def test_a_polynomial_kernel_needs_the_ball():
    """Around the origin: far rows have large k(x, x), which the ball sees and the hyperplane takes for typical."""
    X = points(300, 2)
    far = np.array([[6.0, 0.0], [0.0, -6.0], [5.0, 5.0]])
    kernel = Polynomial(2, 1.0, 1.0)
    assert (SVDD(kernel=kernel).fit(X).predict(far) == -1).all()
    assert (OneClassSVM(kernel=kernel, nu=0.1).fit(X).predict(far) == 1).all()


def test_hard_ball_is_the_smallest_that_encloses_the_points():
    X = points(14, 2)
    balls = [(np.mean(pair, axis=0), np.linalg.norm(pair[0] - pair[1]) / 2) for pair in itertools.combinations(X, 2)]
    for p, q, r in itertools.combinations(X, 3):
        centre = np.linalg.solve(2 * np.array([q - p, r - p]), [q @ q - p @ p, r @ r - p @ p])
        balls.append((centre, np.linalg.norm(p - centre)))
    enclosing = [ball for ball in balls if np.linalg.norm(X - ball[0], axis=1).max() <= ball[1] + 1e-12]
    centre, radius = min(enclosing, key=lambda ball: ball[1])
    model = SVDD(kernel="linear", nu=1e-3).fit(X)
    assert model.radius_ == pytest.approx(radius, rel=1e-9)
    np.testing.assert_allclose(model.dual_coef_ @ model.support_vectors_, centre[None], atol=1e-9)
    assert (model.predict(X) == 1).all()


@pytest.mark.parametrize("kernel", DEFINITE, ids=str)
def test_objectives_enclose_the_optimum_of_a_general_solver(kernel):
    X, nu = points(18), 0.3
    weight = np.random.default_rng(3).uniform(0.2, 2, 18)
    model = SVDD(kernel=kernel, nu=nu).fit(X, sample_weight=weight)
    optimum = best_dual([kernel(X, X)], weight / (nu * weight.sum()))
    assert model.dual_objective_ == pytest.approx(optimum, abs=1e-6)
    assert 0 <= model.dual_gap_ + 1e-12 <= 1e-9
    assert model.converged_
    d2 = -model.score_samples(X)
    cost = lambda R2: R2 + weight @ np.maximum(0, d2 - R2) / (nu * weight.sum())  # noqa: E731
    assert model.primal_objective_ == pytest.approx(min(cost(R2) for R2 in d2), rel=1e-9)
    assert cost(model.radius_**2) == pytest.approx(model.primal_objective_, rel=1e-9)


def test_distances_are_those_to_the_centre():
    X, new = points(60), points(20, seed=1)
    model = SVDD(kernel="linear", nu=0.2).fit(X)
    centre = model.dual_coef_[0] @ X[model.support_]
    np.testing.assert_allclose(-model.score_samples(new), np.sum((new - centre) ** 2, axis=1), atol=1e-10)
    assert model.dual_coef_.sum() == pytest.approx(1)
    assert model.dual_coef_.max() <= 1 / (0.2 * 60) + 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_radius_is_a_quantile_that_minimises_the_primal(seed):
    rng = np.random.default_rng(seed)
    d2, weight = np.round(rng.exponential(size=9), 1), rng.integers(1, 4, 9).astype(float)
    total = rng.choice([1.0, 2.5, weight.sum() / 2, weight.sum()])
    cost = lambda R2: R2 + weight @ np.maximum(0, d2 - R2) / total  # noqa: E731
    R2 = quantile_radius(d2, weight, total)
    assert cost(R2) == pytest.approx(min(cost(value) for value in d2), rel=1e-12)
    assert weight[d2 > R2].sum() <= total * (1 + 1e-12)
    assert total <= weight[d2 >= R2].sum() + weight[(d2 < R2)].max(initial=0) + 1e-12


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.5, 1.0])
def test_nu_bounds_the_share_outside_and_the_share_of_support_vectors(nu):
    X = points(200)
    model = SVDD(nu=nu).fit(X)
    assert (model.predict(X) == -1).mean() <= nu
    assert len(model.support_) >= nu * 200
    np.testing.assert_array_equal(model.fit_predict(X), model.predict(X))


@pytest.mark.parametrize("model", [SVDD(kernel=Laplacian(0.5)), SVDD(kernel=SIGMOID, indefinite="clip"),
                                   SVDD(kernel=SIGMOID, indefinite="flip"), SVDD(kernel=SIGMOID, indefinite="shift"),
                                   MultiKernelSVDD(), MultiKernelSVDD(objective="spread")], ids=str)
def test_integer_weights_mean_repeated_rows(model):
    X, new = points(50), points(20, seed=1)
    weight = np.random.default_rng(0).integers(0, 4, 50)
    weighted = clone(model).fit(X, sample_weight=weight.astype(float))
    repeated = clone(model).fit(X.repeat(weight, axis=0))
    np.testing.assert_allclose(weighted.decision_function(new), repeated.decision_function(new), atol=1e-7)


@pytest.mark.parametrize("kernel", [Linear(-3.0), Log(2, 0.5)], ids=str)
def test_conditionally_definite_kernels_are_exact_and_constants_change_nothing(kernel):
    X, new = points(40), points(10, seed=1)
    shift = lambda A, B: kernel(A, B) + 0.3 * A[:, :1] + 0.3 * B[:, 0] + 2  # noqa: E731
    model, shifted = SVDD(kernel=kernel).fit(X), SVDD(kernel=shift).fit(X)
    assert model.dual_gap_ < 1e-10
    np.testing.assert_allclose(model.decision_function(new), shifted.decision_function(new), atol=1e-9)


@pytest.mark.parametrize("kernel", [Polynomial(2, 0.3, 1.0), RBF(0.4)], ids=str)
def test_precomputed_is_the_kernel(kernel):
    X, new = points(60), points(15, seed=1)
    given = SVDD(kernel="precomputed").fit(kernel(X, X))
    known = SVDD(kernel=kernel).fit(X)
    np.testing.assert_allclose(given.decision_function(kernel(new, X), diag=kernel.diagonal(new)),
                               known.decision_function(new), atol=1e-10)
    np.testing.assert_array_equal(given.fit_predict(kernel(X, X)), known.fit_predict(X))


def test_precomputed_asks_for_the_diagonal_unless_it_is_constant():
    X, new = points(30), points(5, seed=1)
    model = SVDD(kernel="precomputed").fit(Linear()(X, X))
    with pytest.raises(ValueError, match="needs diag"):
        model.predict(Linear()(new, X))
    with pytest.raises(ValueError, match="shape"):
        model.predict(Linear()(new, X), diag=np.ones(4))
    model.fit(RBF()(X, X))
    np.testing.assert_allclose(model.score_samples(RBF()(new, X)), model.score_samples(RBF()(new, X), diag=np.ones(5)))
    with pytest.raises(ValueError, match="computes k"):
        SVDD().fit(X).predict(X, diag=np.ones(30))


def test_many_rows_are_certified_too():
    X = points(2500, 6)
    model = SVDD(nu=0.05, kernel=Laplacian(0.3)).fit(X)
    assert model.converged_
    assert 0 <= model.dual_gap_ <= 1e-3 * model.primal_objective_
    d2 = -model.score_samples(X)
    cost = model.radius_**2 + np.maximum(0, d2 - model.radius_**2).sum() / (0.05 * 2500)
    assert model.primal_objective_ == pytest.approx(cost, rel=1e-9)  # float64, though its rows were float32
    a, K = model.dual_coef_[0], Laplacian(0.3)(model.support_vectors_, model.support_vectors_)
    assert model.dual_objective_ == pytest.approx(a.sum() - a @ K @ a, rel=1e-9)
    small = SVDD(nu=0.05, kernel=Laplacian(0.3), cache_size=0.1).fit(X)
    assert small.primal_objective_ == pytest.approx(model.primal_objective_, rel=1e-3)


def test_float32_rows_give_way_where_they_are_not_good_enough():
    rows = KernelRows(RBF(1e-3), points(400), real=np.float32)
    ball = solve_ball(rows, np.ones(400), 0.1, gap_tol=1e-9, exact_rows=0)
    assert rows.real == np.float64
    assert ball.converged
    assert ball.gap <= 1e-9 * ball.primal


@pytest.mark.parametrize("policy", ["clip", "flip", "shift"])
def test_corrected_spectra(policy):
    X, new = points(40), points(7, seed=1)
    K, K_new = SIGMOID(X, X), SIGMOID(new, X)
    values, U = np.linalg.eigh(K)
    wanted = {"clip": np.maximum(values, 0), "flip": np.abs(values), "shift": values - values[0]}[policy]
    kernel, gram = correct(SIGMOID, X, np.ones(40), policy)
    np.testing.assert_allclose(gram, (U * wanted) @ U.T, atol=1e-9)
    np.testing.assert_allclose(kernel(X, X), gram, atol=1e-8)
    np.testing.assert_allclose(kernel.diagonal(X), np.diagonal(gram), atol=1e-8)
    mapped = K_new if policy == "shift" else K_new @ (U * (wanted / values)) @ U.T
    np.testing.assert_allclose(kernel(new, X), mapped, atol=1e-8)
    both = np.vstack([X, new])
    if policy != "flip":
        np.testing.assert_allclose(kernel(both, both), kernel(both, both).T, atol=1e-10)
    by_differences = (kernel(new + 1e-6 * np.eye(3)[0], X) - kernel(new - 1e-6 * np.eye(3)[0], X)) / 2e-6
    V = points(7, 40, seed=2)
    np.testing.assert_allclose(kernel.gradient(new, X, V)[:, 0], np.sum(V * by_differences, axis=1), atol=1e-6)
    given, same = correct(Precomputed(), K, np.ones(40), policy)
    np.testing.assert_allclose(same, gram, atol=1e-9)
    np.testing.assert_allclose(given(K_new, centers(Precomputed(), K)), mapped, atol=1e-8)


def test_indefinite_kernels_warn_or_are_refused_and_certified_once_corrected():
    X = points(50)
    with pytest.warns(UserWarning, match="indefinite"):
        model = SVDD(kernel=SIGMOID).fit(X)
    assert np.isnan(model.dual_gap_)
    assert set(model.predict(X)) <= {-1, 1}
    with pytest.raises(ValueError, match="indefinite"):
        SVDD(kernel=SIGMOID, indefinite="raise").fit(X)
    for policy in ("clip", "flip", "shift"):
        corrected = SVDD(kernel=SIGMOID, indefinite=policy).fit(X)
        assert 0 <= corrected.dual_gap_ + 1e-12 <= 1e-9
        np.testing.assert_array_equal(corrected.predict(X), corrected.fit_predict(X))
        given = SVDD(kernel="precomputed", indefinite=policy).fit(SIGMOID(X, X))
        assert given.primal_objective_ == pytest.approx(corrected.primal_objective_, rel=1e-9)
        np.testing.assert_array_equal(given.fit_predict(SIGMOID(X, X)), corrected.predict(X))
    with pytest.raises(ValueError, match="5000"):
        SVDD(kernel=SIGMOID, indefinite="clip").fit(np.zeros((5001, 1)))


def test_functions_are_judged_by_their_spectrum():
    X = points(60)
    assert is_definite(RBF(), X)
    assert is_definite(Custom(lambda A, B: A @ B.T), X)
    assert not is_definite(Custom(lambda A, B: -A @ B.T), X)
    assert not is_definite(Precomputed(), SIGMOID(X, X))


# ---------------------------------------------------------------- several kernels


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("solver", "tol"), [("cutting-plane", 1e-7), ("reduced-gradient", 1e-6)])
def test_minimax_agrees_with_a_general_solver(solver, tol, seed):
    X, nu = points(16, seed=seed), 0.3
    kernels = [RBF(0.5), RBF(0.02), Polynomial(2, 0.3, 1.0), Laplacian(0.7), Log(2, 0.5), Linear()]
    optimum = best_dual(normalised(kernels, X), np.full(16, 1 / (nu * 16)))
    model = MultiKernelSVDD(kernels, nu=nu, solver=solver, tol=tol).fit(X)
    assert model.primal_objective_ == pytest.approx(optimum, abs=1e-6)
    assert -1e-9 <= model.dual_gap_ <= tol * model.primal_objective_
    assert model.primal_objective_ - model.dual_gap_ <= optimum + 1e-6


def test_minimax_mixes_two_views_of_which_neither_suffices():
    """Each kernel sees one column, and each column has its own outliers: only a mixture makes both bearable."""
    X = points(40, 2)
    X[:3, 0] *= 6
    X[3:6, 1] *= 6
    kernels = [lambda A, B: A[:, :1] @ B[:, :1].T, lambda A, B: A[:, 1:] @ B[:, 1:].T]
    model = MultiKernelSVDD(kernels, tol=1e-8).fit(X)
    optimum = best_dual(normalised(kernels, X), np.full(40, 1 / 4))
    assert model.primal_objective_ == pytest.approx(optimum, abs=1e-6)
    assert (model.kernel_weights_ > 0.1).all()
    np.testing.assert_allclose(model.kernel_variances_, model.kernel_variances_.mean(), rtol=1e-3)
    slopes = [MultiKernelSVDD(kernels, weights=model.kernel_weights_ + h * np.array([1, -1])).fit(X).primal_objective_
              for h in (-1e-3, 0, 1e-3)]
    assert slopes[1] <= min(slopes) + 1e-9


@pytest.mark.parametrize("objective", ["minimax", "spread"])
@pytest.mark.parametrize("kernel", [Laplacian(0.5), Polynomial(2, 0.3, 1.0)], ids=str)
def test_one_kernel_is_svdd(kernel, objective):
    X, new = points(70), points(20, seed=1)
    many = MultiKernelSVDD([kernel], objective=objective).fit(X)
    one = SVDD(kernel=kernel).fit(X)
    np.testing.assert_allclose(many.decision_function(new), one.decision_function(new), atol=1e-9)
    np.testing.assert_array_equal(many.kernel_weights_, [1.0])


def test_copies_warn_share_their_weight_under_spread_and_change_nothing_under_minimax():
    X, new = points(60), points(20, seed=1)
    two = [Laplacian(0.5), Linear()]
    copied = [Laplacian(0.5), Linear(), lambda A, B: 7 * A @ B.T + 3]
    with pytest.warns(UserWarning, match="1 and 2"):
        spread = MultiKernelSVDD(copied, objective="spread").fit(X)
    assert spread.kernel_weights_[1] == pytest.approx(spread.kernel_weights_[2], rel=1e-9)
    with pytest.warns(UserWarning, match="1 and 2"):
        minimax = MultiKernelSVDD(copied, tol=1e-8).fit(X)
    alone = MultiKernelSVDD(two, tol=1e-8).fit(X)
    np.testing.assert_allclose(minimax.decision_function(new), alone.decision_function(new), atol=1e-5)


def test_spread_is_monotone_ends_at_its_closed_form_and_does_not_depend_on_the_start():
    X = points(80)
    kernels = [RBF(0.5), Polynomial(2, 0.3, 1.0), Laplacian(0.7), Log(2, 0.5), Linear()]
    model = MultiKernelSVDD(kernels, objective="spread", tol=1e-6).fit(X)
    objective = np.array([entry["objective"] for entry in model.history_])
    assert (np.diff(objective) >= -1e-8).all()
    assert model.n_iter_ <= 12
    V = model.kernel_variances_
    np.testing.assert_allclose(model.kernel_weights_, V / V.sum(), atol=1e-5)
    assert objective[-1] == pytest.approx(np.linalg.norm(V), rel=1e-6)
    grams, rng = normalised(kernels, X), np.random.default_rng(0)
    a = np.zeros(80)
    a[model.support_] = model.dual_coef_[0]
    np.testing.assert_allclose([np.diag(K) @ a - a @ K @ a for K in grams], V, rtol=1e-7)
    for _ in range(3):
        stack = KernelStack([*kernels], [X] * 5, np.ones(80), 0.1, cache_size=50, gap_tol=1e-9)
        stack.scales = model.kernel_scales_
        other = run(alternate(stack, rng.dirichlet(np.ones(5))), tol=1e-6, max_iter=50).state[0]
        np.testing.assert_allclose(other.eta, model.kernel_weights_, atol=1e-5)
    for _ in range(20):  # no dual point beside it has a larger norm of V
        other = a + 0.05 * (rng.dirichlet(np.ones(80)) - a)
        assert np.linalg.norm([np.diag(K) @ other - other @ K @ other for K in grams]) <= objective[-1] + 1e-9


def test_weights_may_be_given_and_predict_is_that_of_the_combination():
    X, new = points(60), points(20, seed=1)
    kernels = [RBF(0.5), Linear()]
    for weights in ("uniform", [1.0, 3.0], None):
        model = MultiKernelSVDD(kernels, weights=weights).fit(X)
        assert isinstance(model.kernel_, Combination)
        assert model.kernel_weights_.sum() == pytest.approx(1)
        direct = SVDD(kernel=model.kernel_).fit(X)
        np.testing.assert_allclose(model.decision_function(new), direct.decision_function(new), atol=1e-7)
    np.testing.assert_allclose(MultiKernelSVDD(kernels, weights=[1.0, 3.0]).fit(X).kernel_weights_, [0.25, 0.75])


def test_normalising_makes_weights_independent_of_units():
    X = points(60)
    scaled = [RBF(0.5), Combination([Laplacian(0.5)], [1e3]), Linear()]
    plain = [RBF(0.5), Laplacian(0.5), Linear()]
    for objective in ("minimax", "spread"):
        one = MultiKernelSVDD(scaled, objective=objective).fit(X).kernel_weights_
        np.testing.assert_allclose(one, MultiKernelSVDD(plain, objective=objective).fit(X).kernel_weights_, atol=1e-6)
    raw = MultiKernelSVDD(scaled, objective="spread", normalize=None).fit(X)
    assert raw.kernel_weights_[1] > 0.98
    assert MultiKernelSVDD(scaled, normalize=None).fit(X).kernel_weights_[1] < 1e-12
    model = MultiKernelSVDD(plain, nu=1.0).fit(X)  # nu = 1: all rows count alike, and V_p of that is 1
    np.testing.assert_allclose(model.kernel_variances_, 1, rtol=1e-9)


@pytest.mark.parametrize("kernel", EIGHT, ids=str)
def test_each_of_the_eight_kernels_serves_in_both(kernel):
    X, new = points(60), points(20, seed=1)
    single = SVDD(kernel=kernel, indefinite="clip").fit(X)
    mixture = MultiKernelSVDD([kernel, RBF(0.3)], indefinite="clip", weights=[0.5, 0.5]).fit(X)
    for model in (single, mixture, MultiKernelSVDD([kernel, RBF(0.3)], indefinite="clip").fit(X)):
        assert -1e-9 <= model.dual_gap_ <= 1e-4 * model.primal_objective_
        assert np.isfinite(model.decision_function(new)).all()


def test_an_indefinite_kernel_in_a_mixture():
    X = points(60)
    with pytest.warns(UserWarning, match="indefinite"):
        model = MultiKernelSVDD([SIGMOID, RBF(0.3)]).fit(X)
    assert np.isnan(model.dual_gap_)
    clipped = MultiKernelSVDD([SIGMOID, RBF(0.3)], indefinite="clip", tol=1e-7, nu=0.3).fit(X[:22])
    gram = correct(SIGMOID, X[:22], np.ones(22), "clip")[1]
    H = np.eye(22) - 1 / 22
    centred = H @ gram @ H
    optimum = best_dual([centred * 22 / np.trace(centred), *normalised([RBF(0.3)], X[:22])], np.full(22, 1 / 6.6))
    assert clipped.primal_objective_ == pytest.approx(optimum, abs=1e-6)


@pytest.mark.parametrize("policy", ["warn", "clip"])
def test_a_stack_of_gram_matrices_is_the_list_of_kernels(policy):
    X, new = points(50), points(15, seed=1)
    kernels = [Polynomial(2, 0.3, 1.0), RBF(0.4), SIGMOID][: 2 if policy == "warn" else 3]
    stack, stack_new = np.stack([k(X, X) for k in kernels]), np.stack([k(new, X) for k in kernels])
    given = MultiKernelSVDD("precomputed", indefinite=policy).fit(stack)
    known = MultiKernelSVDD(kernels, indefinite=policy).fit(X)
    np.testing.assert_allclose(given.kernel_weights_, known.kernel_weights_, atol=1e-7)
    diag = np.stack([k.diagonal(new) for k in kernels])
    np.testing.assert_allclose(given.decision_function(stack_new, diag), known.decision_function(new), atol=1e-7)
    np.testing.assert_array_equal(given.fit_predict(stack), known.fit_predict(X))
    with pytest.raises(ValueError, match="needs diag"):
        given.predict(stack_new)
    with pytest.raises(ValueError, match="n_new"):
        given.predict(stack_new[:1], diag)


def test_a_small_cache_gives_the_same_answer():
    X = points(400)
    kernels = [RBF(0.5), Laplacian(0.5), Linear()]
    full = MultiKernelSVDD(kernels).fit(X)
    small = MultiKernelSVDD(kernels, cache_size=0.2).fit(X)
    assert small.primal_objective_ == pytest.approx(full.primal_objective_, rel=1e-4)


def test_nearest_low_is_the_projection():
    rng = np.random.default_rng(0)
    for _ in range(20):
        m = int(rng.integers(2, 7))
        eta, cuts = rng.dirichlet(np.ones(m)), rng.exponential(size=(4, m))
        level = np.quantile(cuts.max(axis=0), 0.4)
        found = nearest_low(eta, cuts, level)
        assert found.sum() == pytest.approx(1)
        assert (cuts @ found).max() <= level + 1e-9
        oracle = minimize(lambda x, eta=eta: np.sum((x - eta) ** 2), np.eye(m)[cuts.max(axis=0).argmin()],
                          method="SLSQP", bounds=[(0, 1)] * m, options={"ftol": 1e-14, "maxiter": 500},
                          constraints=[LinearConstraint(np.ones(m), 1, 1), LinearConstraint(cuts, -np.inf, level)])
        assert np.sum((found - eta) ** 2) == pytest.approx(oracle.fun, abs=1e-7)


def test_descent_direction_keeps_the_sum_and_the_signs():
    eta, V = np.array([0.0, 0.2, 0.5, 0.3, 0.0]), np.array([3.0, 2.0, 1.5, 1.0, 0.5])
    D = descent_direction(eta, V)
    assert D.sum() == pytest.approx(0)
    assert D[0] == 0  # zero, and the gradient would make it negative
    assert D[4] > 0
    assert D @ V < 0


# ---------------------------------------------------------------- scikit-learn, limits and bad input


@pytest.mark.parametrize("model", [*(SVDD(kernel=k, indefinite="clip") for k in EIGHT), MultiKernelSVDD()], ids=str)
def test_decision_boundary_display(model):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    X = points(60, 2)
    shown = DecisionBoundaryDisplay.from_estimator(model.fit(X), X, response_method="decision_function",
                                                   grid_resolution=20)
    assert np.ptp(shown.response) > 0
    pyplot.close("all")


def test_grid_search_over_a_kernel_object_and_pickle():
    X = np.vstack([points(80, 2), 4 + points(20, 2, seed=1)])
    y = np.r_[np.ones(80), -np.ones(20)]
    search = GridSearchCV(SVDD(kernel=RBF()), {"kernel__gamma": [1e-3, 500.0], "nu": [0.2]}, scoring="roc_auc",
                          cv=StratifiedKFold(3))
    search.fit(X, y)
    assert search.best_params_["kernel__gamma"] == 1e-3
    for model in (search.best_estimator_, MultiKernelSVDD().fit(X)):
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_limits_leave_a_usable_model():
    X = points(2000)
    with pytest.warns(NotConvergedWarning, match="max_iter"):
        model = SVDD(max_iter=1, kernel=Laplacian(0.3)).fit(X)
    assert not model.converged_
    assert model.dual_gap_ > 0
    with pytest.warns(NotConvergedWarning, match="max_iter"):
        many = MultiKernelSVDD(max_iter=1, tol=1e-9).fit(X[:100])
    assert many.dual_gap_ > 0
    assert np.isfinite(many.decision_function(X)).all()


@pytest.mark.parametrize("scale", [1e-6, 1e6, 1e30])
def test_units_of_the_rows_do_not_matter_and_nothing_hangs(scale):
    X = points(60)
    plain = SVDD(kernel=Polynomial(2, 1.0, 0.0)).fit(X)
    model = SVDD(kernel=Polynomial(2, 1.0, 0.0)).fit(X * scale)
    assert model.converged_
    assert model.radius_ == pytest.approx(plain.radius_ * scale**2, rel=1e-6)
    np.testing.assert_array_equal(model.predict(X * scale), plain.predict(X))


def test_equal_rows_make_a_ball_of_radius_zero():
    X = np.ones((5, 2))
    model = SVDD().fit(X)
    assert model.radius_ == pytest.approx(0, abs=1e-6)
    assert model.predict([[1.0, 1.0], [1.0, 2.0]]).tolist() == [1, -1]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SVDD(nu=0), r"nu must be in \(0, 1\]"),
        (SVDD(nu=1.1), "nu must be in"),
        (SVDD(nu="auto"), "nu must be a number"),
        (SVDD(tol=0), "tol must be"),
        (SVDD(indefinite="ignore"), "indefinite must be one of"),
        (SVDD(kernel="rfb"), "Did you mean 'rbf'"),
        (SVDD(kernel="precomputed"), "square"),
        (MultiKernelSVDD([]), "at least one kernel"),
        (MultiKernelSVDD("rbf"), r"must be a list .* \['rbf'\]"),
        (MultiKernelSVDD(["rbf", "precomputed"]), "stack"),
        (MultiKernelSVDD(["rbf", "lapacian"]), "Did you mean 'laplacian'"),
        (MultiKernelSVDD(["linear", RBF(1e-30)]), r"kernels\[1\], RBF\(gamma=1e-30\), has no variance"),
        (MultiKernelSVDD(nu=2), "nu must be in"),
        (MultiKernelSVDD(objective="max"), "objective must be one of"),
        (MultiKernelSVDD(normalize="trace"), "normalize must be one of"),
        (MultiKernelSVDD(solver="alternate"), "does not solve objective='minimax'"),
        (MultiKernelSVDD(objective="spread", solver="cutting-plane"), "does not solve objective='spread'"),
        (MultiKernelSVDD(solver="newton"), "solver must be one of"),
        (MultiKernelSVDD(["rbf"], weights=[1.0, 2.0]), r"shape \(1,\)"),
        (MultiKernelSVDD(["rbf", "linear"], weights=[1.0, -2.0]), "not be negative"),
        (MultiKernelSVDD(["rbf"], weights="even"), "weights must be one of"),
        (MultiKernelSVDD("precomputed"), r"shape \(m, n, n\)"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(points(12))


@pytest.mark.parametrize("shape", [(2, 5, 4), (0, 5, 5), (5, 5)])
def test_a_stack_of_wrong_shape(shape):
    with pytest.raises(ValueError, match=r"\(m, n, n\)"):
        MultiKernelSVDD("precomputed").fit(np.ones(shape))


def test_a_stack_that_is_not_symmetric():
    stack = np.stack([np.eye(4), np.eye(4)])
    stack[1, 0, 2] = 1
    with pytest.raises(ValueError, match="Matrix 1"):
        MultiKernelSVDD("precomputed").fit(stack)


@pytest.mark.parametrize("model", [SVDD(), MultiKernelSVDD()], ids=str)
def test_bad_data_names_the_column(model):
    for value in (np.nan, np.inf, 1e300):
        X = points(10)
        X[3, 2] = value
        with pytest.raises(ValueError, match="column 2"):
            model.fit(X)
    with pytest.raises(ValueError, match="at least 2 rows"):
        model.fit(points(1))
    with pytest.raises(ValueError, match="negative"):
        model.fit(points(10), sample_weight=-np.ones(10))
