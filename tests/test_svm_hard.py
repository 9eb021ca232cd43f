"""The exact SVC where it is hard: reported hangs, hard margins, warm starts and indefinite kernels."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import scale

from buttress import SVC, SVR, IndefiniteKernelWarning, NotConvergedWarning, svc_path
from buttress.kernels import RBF, Linear, Log, Precomputed

from problems import iris, large, moons, noisy

# --- never hangs: the data of reported hangs, as far as they can be generated


def scaled_badly():
    return load_breast_cancer(return_X_y=True)


def one_wide_column():
    rng = np.random.default_rng(0)
    return rng.exponential(4, size=(500, 1)), (rng.random(500) < 0.48).astype(int)


def two_close_far_points():
    return np.array([[1, 99999.0], [2, 99999.0]]), np.array([0, 1])


def heavy_tails():
    rng = np.random.default_rng(0)
    X = scale(rng.standard_t(2.2, size=(700, 200)))
    return X, (X @ rng.normal(size=200) + 30 * rng.normal(size=700) > 40).astype(int)


HANGS = [  # kernel values so large that their rounding leaves less to prove have a share of their own
    ("scikit-learn 30353", one_wide_column, {"C": 100, "kernel": "poly", "degree": 4, "gamma": 0.96, "tol": 0.01,
                                             "class_weight": {0: 1.05, 1: 0.956}}, 0.1),
    ("scikit-learn 4648", two_close_far_points, {"kernel": "poly", "degree": 2, "gamma": "auto"}, 1.0),
    ("scikit-learn 11020", scaled_badly, {"kernel": "linear", "C": 1.0}, 1e-3),
    ("scikit-learn 11020, C=1000", scaled_badly, {"kernel": "linear", "C": 1000.0}, 1e-3),
    ("cuml 2857", heavy_tails, {"kernel": "linear", "C": 25.239}, 1e-3),
    ("thundersvm 125", noisy, {"C": 1e5, "gamma": 0.001}, 1e-3),
]


@pytest.mark.parametrize(("name", "problem", "options", "share"), HANGS, ids=[row[0] for row in HANGS])
def test_reported_hangs_end_with_a_certificate(name, problem, options, share):
    X, y = problem()
    model = SVC(**options).fit(X, y)
    assert model.converged_
    assert 0 <= model.dual_gap_ <= share * model.primal_objective_


@pytest.mark.parametrize(("degree", "gamma"), [(7, 4178.386), (8, 864.158)])
def test_kernels_beyond_float64_are_refused_with_a_reason(degree, gamma):
    X, y = load_iris(return_X_y=True)  # scikit-learn 13557
    with pytest.raises(ValueError, match=r"The kernel reaches .*e\+.* Scale the columns"):
        SVC(kernel="poly", degree=degree, gamma=gamma).fit(X, y)


def test_the_guard_ends_what_pairs_cannot():
    X, y = scaled_badly()
    with pytest.warns(NotConvergedWarning, match="max_iter"):
        model = SVC(kernel="linear", C=100.0, solver="smo", max_iter=20_000).fit(X, y)
    assert not model.converged_
    assert model.primal_objective_ >= 2892.08857 >= model.dual_objective_  # the optimum by solver="ipm"
    assert SVC(kernel="linear", C=100.0, solver="ipm").fit(X, y).dual_objective_ == pytest.approx(2892.08857, rel=1e-3)


def test_solvers_agree():
    X, y = noisy()
    pairs, interior = (SVC(solver=solver, tol=1e-6).fit(X, y) for solver in ("smo", "ipm"))
    assert interior.dual_objective_ == pytest.approx(pairs.dual_objective_, rel=1e-6)
    np.testing.assert_allclose(interior.decision_function(X), pairs.decision_function(X), atol=1e-3)
    with pytest.raises(ValueError, match="takes up to 3000 rows"):
        SVC(solver="ipm").fit(np.tile(X, (11, 1)), np.tile(y, 11))


def test_ctrl_c_leaves_a_usable_model(monkeypatch):
    from buttress import InterruptedWarning
    from buttress.solvers.qp import smo

    calls = iter(range(100))

    def interrupted(*arguments):
        if next(calls) == 3:
            raise KeyboardInterrupt
        return pair_updates(*arguments)

    pair_updates = smo.pair_updates
    monkeypatch.setattr(smo, "pair_updates", interrupted)
    X, y = large()
    with pytest.warns(InterruptedWarning):
        model = SVC(C=100.0).fit(X, y)
    assert not model.converged_
    assert model.dual_gap_ > 0
    assert model.score(X, y) > 0.6


# --- the hard margin


def test_hard_margin_is_the_widest():
    import cvxpy as cp

    X, y = load_iris(return_X_y=True)
    X, y = X[:100], y[:100]
    model = SVC(C=np.inf, kernel="linear", tol=1e-8).fit(X, y)
    w, b, signs = cp.Variable(4), cp.Variable(), np.where(y == 1, 1, -1)
    cp.Problem(cp.Minimize(cp.sum_squares(w)), [cp.multiply(signs, X @ w + b) >= 1]).solve(solver="CLARABEL")
    beta = (model.dual_coef_ @ model.support_vectors_)[0]
    assert 1 / np.linalg.norm(beta) == pytest.approx(1 / np.linalg.norm(w.value), rel=1e-5)
    distances = signs * model.decision_function(X) / np.linalg.norm(beta)
    assert distances.min() == pytest.approx(1 / np.linalg.norm(beta), rel=1e-5)


def test_hard_margin_of_rbf_meets_every_row():
    X, y = moons()
    model = SVC(C=np.inf, gamma=5.0).fit(X, y)
    assert (np.where(y == 1, 1, -1) * model.decision_function(X)).min() >= 1 - 2e-3


@pytest.mark.parametrize(("problem", "options"), [(noisy, {"kernel": "linear"}),
                                                  (lambda: (np.zeros((4, 2)), np.array([0, 1, 0, 1])), {})])
def test_no_hard_margin_without_separation(problem, options):
    X, y = problem()
    with pytest.raises(ValueError, match="cannot be separated"):
        SVC(C=np.inf, **options).fit(X, y)


@pytest.mark.parametrize(("problem", "options"), [
    (lambda: (load_iris().data[:100], load_iris().target[:100]), {"max_iter": 3}), (noisy, {"max_iter": 30})])
def test_a_margin_that_was_not_found_states_no_bound_of_it(problem, options):
    X, y = problem()
    with pytest.warns(NotConvergedWarning):
        model = SVC(C=np.inf, kernel="linear", **options).fit(X, y)
    assert (np.where(y == 1, 1, -1) * model.decision_function(X)).min() < 0.9, "rows are inside of it"
    assert model.primal_objective_ == model.dual_gap_ == np.inf
    assert model.proof_ == "measured"


# --- warm starts and the path


def test_warm_start_ends_where_a_cold_one_does_and_sooner():
    X, y = large()
    warm = SVC(C=10.0, warm_start=True).fit(X, y)
    cold_iterations = warm.n_iter_
    warm.set_params(C=11.0).fit(X, y)
    cold = SVC(C=11.0).fit(X, y)
    np.testing.assert_allclose(warm.decision_function(X), cold.decision_function(X), atol=5e-3)
    assert warm.n_iter_ < 0.7 * min(cold_iterations, cold.n_iter_)
    other = warm.fit(X[:100], y[:100])  # other rows: starts afresh
    np.testing.assert_allclose(other.decision_function(X), SVC(C=11.0).fit(X[:100], y[:100]).decision_function(X),
                               atol=1e-6)


@pytest.mark.parametrize("problem", [noisy, iris])
def test_path_is_its_separate_fits(problem):
    X, y = problem()
    Cs = [0.1, 1.0, 10.0, 100.0]
    path = svc_path(X, y, Cs, gamma=0.2)
    for C, model in zip(Cs, path, strict=True):
        assert model.C == C
        alone = SVC(C=C, gamma=0.2).fit(X, y)
        np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), atol=1e-6)


def test_path_reuses_rows():
    X, y = large()
    Cs = [1.0, 3.0, 10.0]
    path = svc_path(X, y, Cs)
    apart = [SVC(C=C).fit(X, y) for C in Cs]
    assert path[-1].n_kernel_rows_ < 0.6 * sum(model.n_kernel_rows_ for model in apart)
    for model, alone in zip(path, apart, strict=True):
        assert model.dual_objective_ == pytest.approx(alone.dual_objective_, rel=1e-4)


@pytest.mark.parametrize(("Cs", "message"), [([], "at least one"), ([1.0, -1.0], r"Cs\[1\] must be in")])
def test_bad_paths_are_named(Cs, message):
    with pytest.raises(ValueError, match=message):
        svc_path(*moons(40), Cs)


def test_a_path_refuses_a_checkpoint_that_it_would_not_keep(tmp_path):
    with pytest.raises(ValueError, match="keeps no checkpoint"):
        svc_path(*moons(40), [1.0], checkpoint=str(tmp_path))
    with pytest.raises(ValueError, match="keeps no checkpoint"):
        svc_path(*moons(40), [1.0], resume=True)


# --- indefinite kernels


SIGMOID = {"kernel": "sigmoid", "gamma": 0.5, "coef0": -1.0}


def test_indefinite_kernels_warn_and_carry_no_certificate():
    X, y = noisy()
    with pytest.warns(IndefiniteKernelWarning, match="stationary point"):
        model = SVC(**SIGMOID).fit(X, y)
    assert np.isnan(model.dual_gap_)
    assert model.n_negative_curvature_ > 0
    with pytest.raises(ValueError, match="not positive definite"):
        SVC(**SIGMOID, indefinite="raise").fit(X, y)
    with pytest.raises(ValueError, match="takes up to 5000 rows"):
        SVC(**SIGMOID, indefinite="clip").fit(np.tile(X, (17, 1)), np.tile(y, 17))


def test_a_semidefinite_sigmoid_and_conditional_kernels_need_no_policy():
    X, y = noisy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SVC(kernel=Log(2, 0.5), indefinite="raise").fit(X, y)
        SVC(kernel=lambda A, B: A @ B.T, indefinite="raise").fit(X, y)


@pytest.mark.parametrize("policy", ["clip", "flip"])
def test_spectral_policies_solve_the_changed_gram_matrix(policy):
    X, y = noisy(120)
    model = SVC(**SIGMOID, indefinite=policy).fit(X, y)
    H = np.eye(120) - 1 / 120
    values, U = np.linalg.eigh(H @ model.expansion_.kernel(X, X) @ H)
    assert values[0] < -1e-3
    new = np.maximum(values, 0) if policy == "clip" else np.abs(values)
    gram = SVC(kernel="precomputed", tol=1e-6).fit((U * new) @ U.T, y)
    assert model.dual_objective_ == pytest.approx(gram.dual_objective_, rel=1e-6)
    assert model.converged_
    scores = gram.decision_function((U * new) @ U.T)
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-6)


def test_policies_leave_a_definite_kernel_alone():
    X, y = moons()
    K = RBF(2.0)(X, X)
    for policy in ("clip", "flip"):
        model = SVC(kernel=Precomputed(), indefinite=policy).fit(K, y)
        np.testing.assert_allclose(model.decision_function(K), SVC(gamma=2.0).fit(X, y).decision_function(X), atol=1e-8)


def test_constant_shifts_of_the_kernel_change_nothing():
    X, y = noisy()
    plain, moved = (SVC(kernel=Linear(c)).fit(X, y) for c in (0.0, -50.0))
    np.testing.assert_allclose(moved.decision_function(X), plain.decision_function(X), atol=1e-6)


def test_one_row_far_away_leaves_the_model_of_the_others_as_it_was():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    plain = SVC(gamma=1 / 30).fit(X, y)
    model = SVC(gamma=1 / 30).fit(np.vstack([X, np.full((1, 30), 1e8)]), np.append(y, 0))
    moved = model.decision_function(X) - plain.decision_function(X)  # by the intercept, for the row holds one at most
    assert np.abs(moved).max() < 0.05
    assert abs(model.score(X, y) - plain.score(X, y)) < 0.01


@pytest.mark.parametrize(("machine", "far"), [(SVC(kernel="linear"), 1e9), (SVR(kernel="linear", C=1000), 1e8)])
def test_a_column_far_from_zero_gets_our_warning_and_none_of_numpy(machine, far):
    X = np.c_[np.random.default_rng(0).normal(size=(50, 3)), np.full(50, far)]
    y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", NotConvergedWarning)
        machine.fit(X, y)
