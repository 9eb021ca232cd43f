"""MultiKernelSVDD against general solvers, SVDD of one kernel, closed forms, and its own certificates."""


import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from buttress import SVDD, MultiKernelSVDD, NotConvergedWarning
from buttress.gram.spectrum import correct
from buttress.kernels import (
    RBF,
    Combination,
    Laplacian,
    Linear,
    Log,
    Polynomial,
)
from buttress.solvers.ball.kernel_stack import KernelStack
from buttress.solvers.ball.kernel_weights import alternate, nearest_low
from buttress.solvers.run import run

from ball_problems import EIGHT, SIGMOID, best_dual, normalised
from problems import points

# ---------------------------------------------------------------- several kernels


@pytest.mark.parametrize("seed", range(3))
def test_minimax_agrees_with_a_general_solver(seed):
    X, nu = points(16, seed=seed), 0.3
    kernels = [RBF(0.5), RBF(0.02), Polynomial(2, 0.3, 1.0), Laplacian(0.7), Log(2, 0.5), Linear()]
    optimum = best_dual(normalised(kernels, X), np.full(16, 1 / (nu * 16)))
    model = MultiKernelSVDD(kernels, nu=nu, tol=1e-7).fit(X)
    assert model.primal_objective_ == pytest.approx(optimum, abs=1e-6)
    assert -1e-9 <= model.dual_gap_ <= 1e-7 * model.primal_objective_
    assert model.primal_objective_ - model.dual_gap_ <= optimum + 1e-6
    assert model.kernel_weights_.max() > 0.999  # on these rows one kernel gets all the weight


def test_minimax_mixes_two_views_of_which_neither_suffices():
    """Each kernel sees one column, and each column has its own outliers: only a mixture makes both bearable."""
    X = points(40, 2)
    X[:3, 0] *= 6
    X[3:6, 1] *= 6
    kernels = [lambda A, B: A[:, :1] @ B[:, :1].T, lambda A, B: A[:, 1:] @ B[:, 1:].T]
    model = MultiKernelSVDD(kernels, nu=0.1, tol=1e-8).fit(X)
    optimum = best_dual(normalised(kernels, X), np.full(40, 1 / 4))
    assert model.primal_objective_ == pytest.approx(optimum, abs=1e-6)
    assert (model.kernel_weights_ > 0.1).all()
    np.testing.assert_allclose(model.kernel_variances_, model.kernel_variances_.mean(), rtol=1e-3)
    slopes = [SVDD(kernel=Combination(model.kernels_, (model.kernel_weights_ + [h, -h]) / model.kernel_scales_), nu=0.1)
              .fit(X).primal_objective_ for h in (-1e-3, 0, 1e-3)]
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
    model = MultiKernelSVDD(kernels, nu=0.1, objective="spread", tol=1e-6).fit(X)
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
        other = run(alternate(stack, rng.dirichlet(np.ones(5))), tol=1e-6, max_iter=50).state.trial
        np.testing.assert_allclose(other.eta, model.kernel_weights_, atol=1e-5)
    for gamma in np.abs(rng.normal(size=(100, 5))):  # Eq. 10: no other unit vector has a larger product with V
        assert gamma @ V / np.linalg.norm(gamma) <= objective[-1] + 1e-9
    minimax = MultiKernelSVDD(kernels, nu=0.1, tol=1e-6).fit(X)
    assert np.abs(minimax.kernel_weights_ - model.kernel_weights_).max() > 0.3  # Eq. 10 is not Eq. 7
    for _ in range(20):  # no dual point beside it has a larger norm of V
        other = a + 0.05 * (rng.dirichlet(np.ones(80)) - a)
        assert np.linalg.norm([np.diag(K) @ other - other @ K @ other for K in grams]) <= objective[-1] + 1e-9


def test_predict_is_that_of_the_combination():
    X, new = points(60), points(20, seed=1)
    kernels = [RBF(0.5), Linear()]
    for objective in ("uniform", "minimax", "spread"):
        model = MultiKernelSVDD(kernels, objective=objective).fit(X)
        assert isinstance(model.kernel_, Combination)
        assert model.kernel_weights_.sum() == pytest.approx(1)
        direct = SVDD(kernel=model.kernel_).fit(X)
        np.testing.assert_allclose(model.decision_function(new), direct.decision_function(new), atol=1e-7)
    mean = MultiKernelSVDD(kernels, objective="uniform", normalize=None).fit(X)
    assert mean.kernel_weights_.tolist() == [0.5, 0.5]
    direct = SVDD(kernel=Combination(kernels)).fit(X)
    np.testing.assert_allclose(mean.decision_function(new), direct.decision_function(new), atol=1e-7)


def test_given_weights_are_those_of_a_combination():
    with pytest.raises(TypeError, match=r"has no parameter 'weights'\..*objective='uniform'.*Combination"):
        MultiKernelSVDD(weights=[1.0, 3.0])


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
    mixture = MultiKernelSVDD([kernel, RBF(0.3)], indefinite="clip", objective="uniform").fit(X)
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


@pytest.mark.parametrize("objective", ["minimax", "joint"])
def test_a_fit_without_time_states_bounds_that_hold(objective):
    X = points(80)
    best = MultiKernelSVDD(nu=0.3, objective=objective, tol=1e-7).fit(X)
    with pytest.warns(NotConvergedWarning, match="max_time"):
        model = MultiKernelSVDD(nu=0.3, objective=objective, tol=1e-7, max_time=1e-9).fit(X)
    assert not model.converged_
    assert model.primal_objective_ >= best.primal_objective_ * (1 - 1e-6)
    assert model.primal_objective_ - model.dual_gap_ <= best.primal_objective_ * (1 + 1e-6)


def test_equal_weights_without_time_are_not_called_converged():
    X = points(400)
    with pytest.warns(NotConvergedWarning, match="max_time"):
        model = MultiKernelSVDD([RBF(0.5), RBF(5.0)], nu=0.5, objective="uniform", max_time=1e-9).fit(X)
    whole = MultiKernelSVDD([RBF(0.5), RBF(5.0)], nu=0.5, objective="uniform").fit(X)
    assert not model.converged_
    assert whole.converged_
    assert model.primal_objective_ - model.dual_gap_ <= whole.primal_objective_ <= model.primal_objective_ * (1 + 1e-9)
