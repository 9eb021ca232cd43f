"""The exact SVC against scikit-learn's, brute force and the definitions of its own certificate."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification
from sklearn.preprocessing import scale
from sklearn.svm import SVC as Libsvm

from buttress import SVC, NotConvergedWarning, svc_path
from buttress.kernels import RBF, Linear, Log, Precomputed
from buttress.svm.indefinite import IndefiniteKernelWarning

from problems import breast_cancer, iris, moons, noisy, points


def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16, y[:600]


def skewed():
    """Nine in ten of one class, 20 columns."""
    return make_classification(400, n_features=20, weights=[0.9], flip_y=0.05, random_state=1)


# name, problem, parameters of both libraries, whether rows get random weights
AGAINST_LIBSVM = [
    ("rbf", breast_cancer, {"C": 1.0}, False),
    ("small C", breast_cancer, {"C": 1e-2, "kernel": "linear"}, False),
    ("large C", noisy, {"C": 1e3, "gamma": 0.5}, False),
    ("linear", noisy, {"C": 10.0, "kernel": "linear"}, False),
    ("polynomial", moons, {"C": 1.0, "kernel": "poly", "degree": 3, "gamma": 1.0, "coef0": 1.0}, False),
    ("weights", noisy, {"C": 1.0}, True),
    ("class weights", skewed, {"C": 1.0, "class_weight": "balanced"}, False),
    ("given class weights", skewed, {"C": 100.0, "gamma": 0.01, "class_weight": {0: 0.5, 1: 3.0}}, True),
    ("three classes", iris, {"C": 1.0}, False),
    ("three classes weighted", iris, {"C": 10.0, "kernel": "linear"}, True),
    ("ten classes", digits, {"C": 10.0}, False),
    ("ten classes, balanced", digits, {"C": 0.1, "kernel": "poly", "class_weight": "balanced"}, False),
]


@pytest.mark.parametrize(("name", "problem", "options", "weighted"), AGAINST_LIBSVM, ids=[r[0] for r in AGAINST_LIBSVM])
def test_decision_values_are_those_of_libsvm(name, problem, options, weighted):
    X, y = problem()
    weight = np.random.default_rng(0).uniform(0.1, 2, len(y)) if weighted else None
    model = SVC(decision_function_shape="ovo", **options).fit(X, y, weight)
    # "balanced" and gamma="scale" count rows by their weight here, not in scikit-learn
    gamma = getattr(model.expansion_.kernel, "gamma", 1.0)
    theirs = Libsvm(decision_function_shape="ovo", tol=1e-6, **{**options, "gamma": gamma}).fit(X, y, weight)
    np.testing.assert_allclose(model.decision_function(X), theirs.decision_function(X), atol=1e-3)
    assert (model.dual_gap_ <= 1e-3 * np.asarray(model.primal_objective_)).all()
    assert model.converged_
    assert (model.predict(X) != theirs.predict(X)).mean() <= 0.005


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
@pytest.mark.parametrize("break_ties", [False, True])
def test_votes_are_those_of_libsvm(shape, break_ties):
    X, y = digits()
    options = {"C": 10.0, "gamma": 0.05, "decision_function_shape": shape, "break_ties": break_ties and shape == "ovr"}
    ours, theirs = SVC(**options).fit(X[:300], y[:300]), Libsvm(tol=1e-6, **options).fit(X[:300], y[:300])
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_array_equal(ours.n_support_.shape, theirs.n_support_.shape)
    assert ours.dual_coef_.shape == (9, len(ours.support_))


def dual_variables(model, n):
    b = np.zeros(n)
    b[model.support_] = model.dual_coef_[0]
    return b


@pytest.mark.parametrize("C", [1e-2, 1.0, 100.0])
def test_kkt_conditions_row_by_row(C):
    X, y = noisy()
    model = SVC(C=C, tol=1e-6).fit(X, y)
    alpha = np.abs(dual_variables(model, len(y)))
    margin = np.where(y == 1, 1, -1) * model.decision_function(X)
    assert abs(dual_variables(model, len(y)).sum()) < 1e-10
    for a, m in zip(alpha, margin, strict=True):
        if a == 0:
            assert m >= 1 - 1e-5
        elif a == C:
            assert m <= 1 + 1e-5
        else:
            assert 0 < a < C
            assert abs(m - 1) < 1e-5


def test_objectives_are_what_they_say():
    X, y = noisy()
    model = SVC(C=2.0, gamma=0.1).fit(X, y)
    signs, b, K = np.where(y == 1, 1, -1), dual_variables(model, len(y)), RBF(0.1)(X, X)
    dual = np.abs(b).sum() - 0.5 * b @ K @ b
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-12)
    losses = [np.maximum(0, 1 - signs * (K @ b + shift)).sum() for shift in model.intercept_ + np.linspace(-1, 1, 2001)]
    assert model.primal_objective_ <= 0.5 * b @ K @ b + 2 * min(losses) + 1e-9
    assert model.primal_objective_ >= model.dual_objective_
    assert model.dual_gap_ == pytest.approx(model.primal_objective_ - model.dual_objective_)


@pytest.mark.parametrize("options", [{}, {"class_weight": "balanced"}, {"kernel": "linear", "C": 10.0}], ids=str)
def test_weights_mean_repeated_rows(options):
    X, y = noisy(120)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = SVC(**options).fit(X, y, weight)
    repeated = SVC(**options).fit(X.repeat(weight, axis=0), y.repeat(weight))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-6)


def test_a_gram_matrix_is_its_kernel():
    X, y = iris()
    direct = SVC(kernel=RBF(0.3)).fit(X, y)
    gram = SVC(kernel="precomputed").fit(RBF(0.3)(X, X), y)
    np.testing.assert_allclose(gram.decision_function(RBF(0.3)(X, X)), direct.decision_function(X), atol=1e-10)
    function = SVC(kernel=lambda A, B: RBF(0.3)(A, B)).fit(X, y)
    np.testing.assert_allclose(function.decision_function(X), direct.decision_function(X), atol=1e-10)


def test_a_cache_of_two_rows_gives_the_same_model():
    X, y = noisy()
    small, whole = (SVC(cache_size=size).fit(X, y).decision_function(X) for size in (1e-6, 200))
    np.testing.assert_allclose(small, whole, atol=1e-6)


def test_limits_leave_a_usable_model_and_a_warning():
    X, y = breast_cancer()
    with pytest.warns(NotConvergedWarning, match="max_iter"):
        model = SVC(C=100.0, max_iter=1).fit(X, y)
    assert not model.converged_
    assert model.score(X, y) > 0.5
    with pytest.warns(NotConvergedWarning, match="max_time"):
        SVC(C=100.0, max_time=1e-9).fit(X, y)


def test_probabilities_come_from_calibration():
    X, y = moons()
    model = CalibratedClassifierCV(SVC(), ensemble=False).fit(X, y)
    probability = model.predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert (probability.argmax(axis=1) == y).mean() > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0}, "C must be in"),
        ({"C": -1.0}, "C must be in"),
        ({"tol": 0}, "tol must be in"),
        ({"cache_size": 0}, "cache_size must be in"),
        ({"gamma": -1}, "gamma must be in"),
        ({"kernel": "rfb"}, "Did you mean 'rbf'"),
        ({"decision_function_shape": "ovx"}, "decision_function_shape must be one of"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"max_time": -1}, "max_time must be"),
        ({"solver": "newton"}, "solver must be one of"),
        ({"multi_class": "ovx"}, "multi_class must be one of"),
        ({"indefinite": "ignore"}, "indefinite must be one of"),
        ({"class_weight": {0: -1.0, 1: 1.0}}, "class_weight of class 0"),
        ({"kernel": lambda A, B: A}, "must return shape"),
        ({"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)}, "NaN"),
        ({"kernel": "precomputed"}, "square"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_parameters_are_named(options, message):
    X, y = moons(40)
    with pytest.raises(ValueError, match=message):
        SVC(**options).fit(X, y)


def test_bad_gram_and_weights_are_named():
    K, y = RBF()(points(20), points(20)), np.arange(20) % 2
    K[0, 1] += 0.5
    with pytest.raises(ValueError, match="symmetric"):
        SVC(kernel="precomputed").fit(K, y)
    with pytest.raises(ValueError, match="sample_weight must not be negative"):
        SVC().fit(points(20), y, np.r_[-1.0, np.ones(19)])
    with pytest.raises(ValueError, match="zero for every row of class 1"):
        SVC().fit(points(20), y, 1.0 - y)


# --- float32, sparse, caches


def large(n=2600, seed=3):
    """Enough rows for float32 storage, with labels that overlap."""
    X, y = make_classification(n, n_features=10, n_informative=6, flip_y=0.1, random_state=seed)
    return scale(X), y


@pytest.mark.parametrize("options", [{}, {"C": 1000.0, "gamma": 0.05}, {"kernel": "laplacian", "gamma": 0.1},
                                     {"kernel": "linear", "C": 0.1}], ids=str)
def test_float32_rows_meet_the_tolerance_in_float64(options):
    X, y = large()
    model = SVC(**options).fit(X, y)
    K = model.expansion_.kernel(X, X)
    b = dual_variables(model, len(y))
    g, C, up = K @ b - np.where(y == 1, 1, -1), options.get("C", 1.0), y == 1
    can_rise, can_fall = np.where(up, b < C, b < 0), np.where(up, b > 0, b > -C)
    assert g[can_fall].max() - g[can_rise].min() <= 1.02e-3
    assert model.converged_
    dual = np.abs(b).sum() - 0.5 * b @ K @ b
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-9)


def test_the_skipped_rows_of_the_certificate_carry_no_loss():
    X, y = large()
    model = SVC(C=10.0).fit(X, y)
    K, b = model.expansion_.kernel(X, X), dual_variables(model, len(y))
    f, signs = K @ b, np.where(y == 1, 1, -1)
    at = np.concatenate([signs - f, model.intercept_])  # the minimum is at a breakpoint
    best = min(np.maximum(0, 1 - signs * (f + shift)).sum() for shift in at[::7])
    exact = min(best, np.maximum(0, 1 - signs * (f + model.intercept_)).sum())
    assert model.primal_objective_ == pytest.approx(0.5 * b @ f + 10 * exact, rel=1e-4)


def test_float32_in_float32_out():
    X, y = large()
    model = SVC().fit(X.astype(np.float32), y)
    assert model.support_vectors_.dtype == np.float32
    assert model.decision_function(X.astype(np.float32)).dtype == np.float32
    double = SVC(gamma=model.expansion_.kernel.gamma).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X.astype(np.float32)), double.decision_function(X), atol=2e-3)


@pytest.mark.parametrize("convert", [csr_matrix, csr_array])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "laplacian", "sigmoid"])
@pytest.mark.filterwarnings("ignore::buttress.svm.indefinite.IndefiniteKernelWarning")
def test_sparse_rows_give_the_dense_model(convert, kernel):
    X, y = load_digits(return_X_y=True)
    X, y = np.where(X > 12, X, 0)[:300] / 16, y[:300] % 3
    dense = SVC(kernel=kernel, tol=1e-6).fit(X, y)
    sparse = SVC(kernel=kernel, tol=1e-6).fit(convert(X), y)
    np.testing.assert_allclose(sparse.decision_function(convert(X)), dense.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-5)


def test_a_large_sparse_problem_stays_sparse():
    rng = np.random.default_rng(0)
    X = csr_matrix((rng.random((2200, 400)) < 0.03) * rng.normal(size=(2200, 400)))
    y = (X @ rng.normal(size=400) > 0).astype(int)
    np.testing.assert_allclose(SVC().fit(X, y).decision_function(X), SVC().fit(X.toarray(), y).decision_function(
        X.toarray()), atol=2e-3)


def test_sparse_rows_are_refused_by_kernels_that_cannot_take_them():
    X, y = moons(40)
    with pytest.raises(ValueError, match="take no sparse X"):
        SVC(kernel=lambda A, B: A @ B.T).fit(csr_matrix(X), y)


# --- many classes


def test_one_against_the_rest_is_one_machine_a_class():
    X, y = iris()
    model = SVC(multi_class="ovr", gamma=0.3).fit(X, y)
    single = np.stack([SVC(gamma=0.3).fit(X, y == c).decision_function(X) for c in range(3)], axis=1)
    np.testing.assert_allclose(model.decision_function(X), single, atol=1e-8)
    np.testing.assert_array_equal(model.predict(X), single.argmax(axis=1))
    assert model.dual_coef_.shape == (3, len(model.support_))
    with pytest.raises(ValueError, match='needs multi_class="ovo"'):
        SVC(multi_class="ovr", decision_function_shape="ovo").fit(X, y)


def test_pairs_share_the_rows_of_one_cache():
    X, y = load_digits(return_X_y=True)
    X, y = np.concatenate([X, X[:400] + 0.5]), np.concatenate([y, y[:400]])  # beyond what is computed at once
    together = SVC(C=10.0).fit(X, y)
    gamma = together.expansion_.kernel.gamma
    apart = 0.0
    for i in range(10):
        for j in range(i):
            rows = np.isin(y, [i, j])
            apart += SVC(C=10.0, gamma=gamma).fit(X[rows], y[rows]).n_kernel_rows_ * rows.mean()
    assert together.n_kernel_rows_ < 0.8 * apart


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


HANGS = [
    ("scikit-learn 30353", one_wide_column, {"C": 100, "kernel": "poly", "degree": 4, "gamma": 0.96, "tol": 0.01,
                                             "class_weight": {0: 1.05, 1: 0.956}}),
    ("scikit-learn 4648", two_close_far_points, {"kernel": "poly", "degree": 2, "gamma": "auto"}),
    ("scikit-learn 11020", scaled_badly, {"kernel": "linear", "C": 1.0}),
    ("scikit-learn 11020, C=1000", scaled_badly, {"kernel": "linear", "C": 1000.0}),
    ("cuml 2857", heavy_tails, {"kernel": "linear", "C": 25.239}),
    ("thundersvm 125", noisy, {"C": 1e5, "gamma": 0.001}),
]


@pytest.mark.parametrize(("name", "problem", "options"), HANGS, ids=[row[0] for row in HANGS])
def test_reported_hangs_end_with_a_certificate(name, problem, options):
    X, y = problem()
    model = SVC(**options).fit(X, y)
    assert model.converged_
    assert 0 <= model.dual_gap_ <= 1e-3 * model.primal_objective_


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
    from buttress.solvers import smo

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


@pytest.mark.parametrize("policy", ["clip", "flip", "shift", "krein"])
def test_spectral_policies_solve_the_changed_gram_matrix(policy):
    X, y = noisy(120)
    model = SVC(**SIGMOID, indefinite=policy).fit(X, y)
    H = np.eye(120) - 1 / 120
    values, U = np.linalg.eigh(H @ model.expansion_.kernel(X, X) @ H)
    assert values[0] < -1e-3
    new = {"clip": np.maximum(values, 0), "shift": values - values[0]}.get(policy, np.abs(values))
    gram = SVC(kernel="precomputed", tol=1e-6).fit((U * new) @ U.T, y)
    assert model.dual_objective_ == pytest.approx(gram.dual_objective_, rel=1e-6)
    assert model.converged_
    scores = gram.decision_function((U * new) @ U.T)
    if policy == "shift":  # the multiple of the identity that was added is not part of the kernel
        b = np.zeros(120)
        b[gram.support_] = gram.dual_coef_[0]
        scores = scores + values[0] * b
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-6)


def test_policies_leave_a_definite_kernel_alone():
    X, y = moons()
    K = RBF(2.0)(X, X)
    for policy in ("clip", "krein"):
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
