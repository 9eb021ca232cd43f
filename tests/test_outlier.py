"""SVDD and its mixture of kernels against OneClassSVM, general solvers, brute force, and their own certificates."""

import itertools
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import OneClassSVM

from buttress import SVDD, IndefiniteKernelWarning, MultiKernelSVDD, NotConvergedWarning
from buttress.gram.rows import KernelRows
from buttress.gram.spectrum import correct, is_definite
from buttress.kernels import (
    RBF,
    Cauchy,
    Custom,
    InverseMultiquadric,
    Laplacian,
    Linear,
    Log,
    MultiscaleRBF,
    Polynomial,
    Precomputed,
    centers,
)
from buttress.solvers.ball.soft_ball import quantile_radius, solve_ball
from buttress.solvers.qp.solve import Limits

from ball_problems import EIGHT, SIGMOID, best_dual, distances2, normalised
from problems import points

DEFINITE = [Linear(0.5), Polynomial(2, 0.3, 1.0), RBF(0.4), Laplacian(0.7), InverseMultiquadric(1.3), Log(2, 0.5),
            Log(1.5, 0.5), Cauchy(0.6)]
STATIONARY = [RBF(0.4), Laplacian(0.7), InverseMultiquadric(1.3), Cauchy(0.6)]


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.77])
@pytest.mark.parametrize("kernel", STATIONARY, ids=str)
def test_one_class_svm_of_a_stationary_kernel(kernel, nu):
    X, new = points(150), points(100, seed=1)
    theirs = OneClassSVM(kernel=kernel, nu=nu, tol=1e-10).fit(X)
    ours = SVDD(kernel=kernel, nu=nu, contamination=None).fit(X)
    scale = 2 / (nu * len(X))
    inside = ours.radius_**2 - distances2(ours, new)
    np.testing.assert_allclose(inside, scale * theirs.decision_function(new), atol=1e-8)
    clear = np.abs(theirs.decision_function(new)) > 1e-6
    np.testing.assert_array_equal(ours.predict(new)[clear], theirs.predict(new)[clear])


def test_a_polynomial_kernel_needs_the_ball():
    """Around the origin: far rows have large k(x, x), which the ball sees and the hyperplane takes for typical."""
    X = points(300, 2)
    far = np.array([[6.0, 0.0], [0.0, -6.0], [5.0, 5.0]])
    kernel = Polynomial(2, 1.0, 1.0)
    assert (SVDD(kernel=kernel, nu=0.1).fit(X).predict(far) == -1).all()
    assert (OneClassSVM(kernel=kernel, nu=0.1).fit(X).predict(far) == 1).all()


def test_hard_ball_is_the_smallest_that_encloses_the_points():
    X = points(14, 2)
    balls = [(np.mean(pair, axis=0), np.linalg.norm(pair[0] - pair[1]) / 2) for pair in itertools.combinations(X, 2)]
    for p, q, r in itertools.combinations(X, 3):
        centre = np.linalg.solve(2 * np.array([q - p, r - p]), [q @ q - p @ p, r @ r - p @ p])
        balls.append((centre, np.linalg.norm(p - centre)))
    enclosing = [ball for ball in balls if np.linalg.norm(X - ball[0], axis=1).max() <= ball[1] + 1e-12]
    centre, radius = min(enclosing, key=lambda ball: ball[1])
    model = SVDD(kernel="linear", nu=1e-3, contamination=None).fit(X)
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
    d2 = distances2(model, X)
    cost = lambda R2: R2 + weight @ np.maximum(0, d2 - R2) / (nu * weight.sum())  # noqa: E731
    assert model.primal_objective_ == pytest.approx(min(cost(R2) for R2 in d2), rel=1e-9)
    assert cost(model.radius_**2) == pytest.approx(model.primal_objective_, rel=1e-9)


def test_distances_are_those_to_the_centre():
    X, new = points(60), points(20, seed=1)
    model = SVDD(kernel="linear", nu=0.2).fit(X)
    centre = model.dual_coef_[0] @ X[model.support_]
    np.testing.assert_allclose(-model.score_samples(new), np.sum((new - centre) ** 2, axis=1), atol=1e-10)
    assert model.center_norm2_ == pytest.approx(centre @ centre, rel=1e-9)
    assert model.dual_coef_.sum() == pytest.approx(1)
    assert model.dual_coef_.max() <= 1 / (0.2 * 60) + 1e-12
    a = np.zeros(60)
    a[model.support_] = model.dual_coef_[0]
    slack = -model.score_samples(X) - model.radius_**2
    outside = slack > 1e-6
    assert outside.sum() >= 5
    np.testing.assert_allclose(a[outside], 1 / (0.2 * 60), rtol=1e-12)  # so 1 / (nu n) - a - slack is not 0


class Averaged(MultiscaleRBF):
    """A user's own kernel of positive values."""

    def profile(self, r2):
        return super().profile(r2) / 2 + 1 / (2 + 2 * r2)


def test_distances_in_a_kernel_of_the_users_own_are_in_that():
    X = points(30)
    model = SVDD(kernel=Averaged([0.3, 2.0]), nu=0.2).fit(X)
    K, a = model.kernel_(X, X), np.zeros(30)
    a[model.support_] = model.dual_coef_[0]
    np.testing.assert_allclose(-model.score_samples(X), 1 - 2 * K @ a + a @ K @ a, atol=1e-9)


def test_radius_of_a_model_is_a_quantile_from_above():
    """At the nu-quantile the primal is dearer, but for nu = 1/2, where both are the median."""
    X, nu = points(200), 0.1
    model = SVDD(kernel="linear", nu=nu).fit(X)
    d2 = -model.score_samples(X)
    assert np.quantile(d2, 1 - nu, method="lower") <= model.radius_**2 * (1 + 1e-9)
    assert model.radius_**2 <= np.quantile(d2, 1 - nu, method="higher") * (1 + 1e-9)
    from_below = np.quantile(d2, nu)
    assert from_below + np.maximum(0, d2 - from_below).sum() / (nu * 200) > 2 * model.primal_objective_


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
    model = SVDD(nu=nu, gamma="scale", contamination=None).fit(X)
    assert (model.predict(X) == -1).mean() <= nu
    assert len(model.support_) >= nu * 200
    at_or_beyond = distances2(model, X) >= model.radius_**2 - 1e-4  # those that "R or more" calls anomalies
    assert nu == 1 or at_or_beyond.mean() > nu
    np.testing.assert_array_equal(model.fit_predict(X), model.predict(X))


BALL = {"nu": 0.1, "contamination": None}


@pytest.mark.parametrize("model", [SVDD(kernel=Laplacian(0.5), **BALL), SVDD(kernel=SIGMOID, indefinite="clip", **BALL),
                                   SVDD(kernel=SIGMOID, indefinite="flip", **BALL),
                                   MultiKernelSVDD(**BALL),
                                   MultiKernelSVDD(objective="spread", **BALL)], ids=str)
def test_integer_weights_mean_repeated_rows(model):
    X, new = points(50), points(20, seed=1)
    weight = np.random.default_rng(0).integers(0, 4, 50)
    weighted = clone(model).fit(X, sample_weight=weight.astype(float))
    repeated = clone(model).fit(X.repeat(weight, axis=0))
    np.testing.assert_allclose(weighted.decision_function(new), repeated.decision_function(new), atol=1e-7)


@pytest.mark.parametrize("seed", range(12))
def test_where_all_weigh_as_much_as_they_can_the_ball_is_the_weighted_mean(seed):
    X, weight = points(30, seed=seed), np.random.default_rng(seed).uniform(0.1, 3, 30)
    for model in (SVDD(kernel="linear", nu=1.0), MultiKernelSVDD([Linear()], nu=1.0, normalize=None)):
        model.fit(X, sample_weight=weight)
        spread = np.average(((X - np.average(X, axis=0, weights=weight)) ** 2).sum(axis=1), weights=weight)
        assert model.converged_
        assert model.dual_objective_ <= spread * (1 + 1e-14)
        assert spread * (1 - 1e-14) <= model.primal_objective_ <= spread * (1 + 1e-9)


@pytest.mark.parametrize("kernel", [Linear(-3.0), Log(2, 0.5)], ids=str)
def test_conditionally_definite_kernels_are_exact_and_constants_change_nothing(kernel):
    X, new = points(40), points(10, seed=1)
    shift = lambda A, B: kernel(A, B) + 0.3 * A[:, :1] + 0.3 * B[:, 0] + 2  # noqa: E731
    model, shifted = SVDD(kernel=kernel).fit(X), SVDD(kernel=shift).fit(X)
    assert model.dual_gap_ < 1e-8
    np.testing.assert_allclose(model.decision_function(new), shifted.decision_function(new), atol=1e-9)


@pytest.mark.parametrize("kernel", [Polynomial(2, 0.3, 1.0), RBF(0.4)], ids=str)
def test_precomputed_is_the_kernel(kernel):
    X, new = points(60), points(15, seed=1)
    given = SVDD(kernel="precomputed", **BALL).fit(kernel(X, X))
    known = SVDD(kernel=kernel, **BALL).fit(X)
    scores = given.score_samples(kernel(new, X), diag=kernel.diagonal(new))
    np.testing.assert_allclose(scores, -distances2(known, new), atol=1e-10)
    np.testing.assert_array_equal(given.predict(kernel(new, X), diag=kernel.diagonal(new)), known.predict(new))
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
    d2 = distances2(model, X)
    cost = model.radius_**2 + np.maximum(0, d2 - model.radius_**2).sum() / (0.05 * 2500)
    assert model.primal_objective_ == pytest.approx(cost, rel=1e-9)  # float64, though its rows were float32
    a, K = model.dual_coef_[0], Laplacian(0.3)(model.support_vectors_, model.support_vectors_)
    assert model.dual_objective_ == pytest.approx(a.sum() - a @ K @ a, rel=1e-9)
    small = SVDD(nu=0.05, kernel=Laplacian(0.3), cache_size=0.1).fit(X)
    assert small.primal_objective_ == pytest.approx(model.primal_objective_, rel=1e-3)


def test_float32_rows_give_way_where_they_are_not_good_enough():
    rows = KernelRows(RBF(1e-3), points(400), real=np.float32)
    ball = solve_ball(rows, np.ones(400), 0.1, Limits(gap_tol=1e-9), exact_rows=0)
    assert rows.real == np.float64
    assert ball.converged
    assert ball.gap <= 1e-9 * ball.primal


@pytest.mark.parametrize("policy", ["clip", "flip"])
def test_corrected_spectra(policy):
    X, new = points(40), points(7, seed=1)
    K, K_new = SIGMOID(X, X), SIGMOID(new, X)
    values, U = np.linalg.eigh(K)
    wanted = {"clip": np.maximum(values, 0), "flip": np.abs(values)}[policy]
    kernel, gram = correct(SIGMOID, X, np.ones(40), policy)
    np.testing.assert_allclose(gram, (U * wanted) @ U.T, atol=1e-9)
    np.testing.assert_allclose(kernel(X, X), gram, atol=1e-8)
    np.testing.assert_allclose(kernel.diagonal(X), np.diagonal(gram), atol=1e-8)
    mapped = K_new @ (U * (wanted / values)) @ U.T
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
    with pytest.warns(IndefiniteKernelWarning, match="indefinite"):
        model = SVDD(kernel=SIGMOID, **BALL).fit(X)
    assert np.isnan(model.dual_gap_)
    assert set(model.predict(X)) <= {-1, 1}
    with pytest.raises(ValueError, match="indefinite"):
        SVDD(kernel=SIGMOID, indefinite="raise").fit(X)
    for policy in ("clip", "flip"):
        corrected = SVDD(kernel=SIGMOID, indefinite=policy, **BALL).fit(X)
        assert 0 <= corrected.dual_gap_ + 1e-12 <= 1e-9
        np.testing.assert_array_equal(corrected.predict(X), corrected.fit_predict(X))
        given = SVDD(kernel="precomputed", indefinite=policy, **BALL).fit(SIGMOID(X, X))
        assert given.primal_objective_ == pytest.approx(corrected.primal_objective_, rel=1e-9)
        np.testing.assert_array_equal(given.fit_predict(SIGMOID(X, X)), corrected.predict(X))
    with pytest.raises(ValueError, match="5000"):
        SVDD(kernel=SIGMOID, indefinite="clip").fit(points(5001))


def test_functions_are_judged_by_their_spectrum():
    X = points(60)
    assert is_definite(RBF(), X)
    assert is_definite(Custom(lambda A, B: A @ B.T), X)
    assert not is_definite(Custom(lambda A, B: -A @ B.T), X)
    assert not is_definite(Precomputed(), SIGMOID(X, X))


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
    theirs = OneClassSVM(kernel=Laplacian(0.3), nu=model.nu, tol=1e-9).fit(X)
    a = theirs.dual_coef_[0] / theirs.dual_coef_.sum()
    least = 1 - a @ Laplacian(0.3)(X[theirs.support_], X[theirs.support_]) @ a  # k(x, x) = 1
    assert not model.converged_
    assert model.primal_objective_ - model.dual_gap_ <= least * (1 + 1e-9) <= model.primal_objective_
    with pytest.warns(NotConvergedWarning, match="max_iter"):
        many = MultiKernelSVDD(max_iter=1, tol=1e-9).fit(X[:100])
    optimum = best_dual(normalised(many.kernels_, X[:100]), np.full(100, 1 / (many.nu * 100)))
    assert many.primal_objective_ - many.dual_gap_ <= optimum * (1 + 1e-6) <= many.primal_objective_


def test_a_gap_that_rounding_leaves_open_is_told():
    with pytest.warns(NotConvergedWarning, match="rounding hides further progress"):
        model = SVDD(kernel="linear", nu=0.1).fit(points(60) + 1e8)  # products of rows are rounded by more than R^2
    assert not model.converged_
    assert SVDD().fit(np.ones((60, 3))).converged_


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
    model = SVDD(contamination=None).fit(X)
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


def test_a_fit_of_many_rows_does_not_wait_for_what_float32_cannot_resolve():
    """Coefficients that sum to nu n = 3,000 are known to some thousandths from rows of float32."""
    X = np.random.default_rng(0).normal(size=(30_000, 5))
    model = SVDD(nu=0.1, gamma=0.01).fit(X)
    assert model.converged_
    assert model.n_iter_ < len(X)
    assert model.dual_gap_ <= 1e-5 * model.primal_objective_
