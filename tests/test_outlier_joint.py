"""MultiKernelSVDD(objective="joint") against cvxpy, its own dual, closed forms and SVDD."""

import numpy as np
import pytest

from buttress import SVDD, MultiKernelSVDD
from buttress.kernels import RBF, Combination, Laplacian, Linear, Log, Polynomial
from buttress.solvers.ball.kernel_weights import best_mix, harmonic, strongest_mixture

from ball_problems import normalised
from problems import points

KERNELS = [RBF(0.5), RBF(0.02), Polynomial(2, 0.3, 1.0), Laplacian(0.7), Log(2, 0.5), Linear()]


def centred(kernels, X):
    H = np.eye(len(X)) - 1 / len(X)
    return [H @ kernel(X, X) @ H for kernel in kernels]


def equation_3(grams, nu):
    """Minimise Eq. 3 as printed, over R2, c, xi and gamma, with phi_p(x_i) the rows of a root of the Gram matrix."""
    cvxpy = pytest.importorskip("cvxpy")
    n = len(grams[0])
    gamma = cvxpy.Variable(len(grams), nonneg=True)
    R2 = cvxpy.Variable()
    xi = cvxpy.Variable(n, nonneg=True)
    away = 0
    for p, K in enumerate(grams):
        values, vectors = np.linalg.eigh(K)
        phi = vectors * np.sqrt(np.maximum(values, 0))
        center = cvxpy.Variable((1, n))
        away = away + cvxpy.sum(cvxpy.square(gamma[p] * phi - np.ones((n, 1)) @ center), axis=1)
    problem = cvxpy.Problem(cvxpy.Minimize(R2 + cvxpy.sum(xi) / (nu * n)), [cvxpy.sum(gamma) == 1, away <= R2 + xi])
    optimum = problem.solve(solver="CLARABEL")
    assert problem.constraints[1].dual_value.sum() == pytest.approx(1, abs=1e-6)  # the a_i of Eq. 5
    return optimum, gamma.value


@pytest.mark.parametrize("normalize", ["variance", None])
@pytest.mark.parametrize("seed", range(2))
def test_joint_is_equation_3(seed, normalize):
    X = points(12, seed=seed)
    grams = (normalised if normalize else centred)(KERNELS, X)
    optimum, gamma = equation_3(grams, 0.3)
    model = MultiKernelSVDD(KERNELS, nu=0.3, objective="joint", normalize=normalize, tol=1e-7).fit(X)
    assert model.primal_objective_ == pytest.approx(optimum, rel=2e-6)
    assert -1e-12 <= model.dual_gap_ <= 1e-7 * model.primal_objective_
    assert model.primal_objective_ - model.dual_gap_ <= optimum * (1 + 2e-6)
    assert model.mixing_.sum() == pytest.approx(1)
    np.testing.assert_allclose(model.mixing_, gamma, atol=2e-3)
    np.testing.assert_allclose(model.kernel_weights_, model.mixing_**2, rtol=1e-9)


def test_every_kernel_gets_a_weight_in_proportion_to_its_inverse_variance():
    X = points(60)
    model = MultiKernelSVDD(KERNELS, objective="joint", tol=1e-8).fit(X)
    assert (model.mixing_ > 0).all()
    product = model.mixing_ * model.kernel_variances_
    np.testing.assert_allclose(product, product.mean(), rtol=1e-3)
    a = np.zeros(60)
    a[model.support_] = model.dual_coef_[0]
    V = np.array([np.diag(K) @ a - a @ K @ a for K in normalised(KERNELS, X)])
    assert 1 / (1 / V).sum() == pytest.approx(model.primal_objective_, rel=1e-6)


def test_one_kernel_is_svdd_and_equal_kernels_share_alike():
    X, new = points(50), points(15, seed=1)
    alone = SVDD(kernel=Laplacian(0.5)).fit(X)
    one = MultiKernelSVDD([Laplacian(0.5)], objective="joint").fit(X)
    np.testing.assert_allclose(one.decision_function(new), alone.decision_function(new), atol=1e-9)
    with pytest.warns(UserWarning, match="0 and 1"):
        two = MultiKernelSVDD([Laplacian(0.5)] * 2, objective="joint", normalize=None, tol=1e-8).fit(X)
    np.testing.assert_allclose(two.mixing_, 0.5, atol=1e-6)
    assert two.primal_objective_ == pytest.approx(alone.primal_objective_ / 2, rel=1e-6)


def test_units_of_kernels_matter_only_without_normalising():
    X = points(40)
    plain = [RBF(0.5), Linear()]
    scaled = [RBF(0.5), Combination([Linear()], [100.0])]
    both = [MultiKernelSVDD(kernels, objective="joint", tol=1e-8).fit(X).mixing_ for kernels in (plain, scaled)]
    np.testing.assert_allclose(*both, atol=1e-5)
    raw = [MultiKernelSVDD(kernels, objective="joint", normalize=None, tol=1e-8).fit(X) for kernels in (plain, scaled)]
    assert raw[1].mixing_[1] < 0.1 * raw[0].mixing_[1]


def test_no_other_weights_cost_less():
    X = points(40)
    kernels = [RBF(0.5), Linear()]
    best = MultiKernelSVDD(kernels, objective="joint", normalize=None, tol=1e-8).fit(X)
    for share in np.linspace(0.05, 0.95, 19):
        other = SVDD(kernel=Combination(kernels, [share**2, (1 - share) ** 2])).fit(X)
        assert best.primal_objective_ <= other.primal_objective_ * (1 + 1e-7)


def test_best_mix_minimises_the_cut_and_strongest_mixture_its_dual():
    rng = np.random.default_rng(0)
    for _ in range(20):
        cuts = rng.exponential(size=(5, 4))
        gamma = best_mix(cuts[0])
        assert gamma**2 @ cuts[0] == pytest.approx(harmonic(cuts[0]))
        assert all(other**2 @ cuts[0] >= harmonic(cuts[0]) for other in rng.dirichlet(np.ones(4), size=50))
        share = strongest_mixture(cuts)
        assert share.sum() == pytest.approx(1)
        assert (share >= 0).all()
        reply = best_mix(share @ cuts)  # a saddle point: no cut is higher there, so no mixture is stronger
        assert (cuts @ reply**2).max() == pytest.approx(harmonic(share @ cuts), rel=1e-5)
