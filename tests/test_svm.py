"""The exact SVC against scikit-learn's, brute force and the definitions of its own certificate."""


import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_classification
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC as Libsvm

from buttress import SVC, NotConvergedWarning
from buttress.kernels import RBF
from buttress.svm.classifier import BestFit

from problems import breast_cancer, iris, large, moons, noisy, points


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


def test_scores_of_pairs_break_no_ties():
    X, y = iris()
    for kind in (SVC, Libsvm):
        with pytest.raises(ValueError, match="break_ties must be False"):
            kind(break_ties=True, decision_function_shape="ovo").fit(X, y).predict(X)


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
    assert dual * (1 - 1e-9) <= model.dual_objective_ <= dual * (1 + 1e-13)
    losses = [np.maximum(0, 1 - signs * (K @ b + shift)).sum() for shift in model.intercept_ + np.linspace(-1, 1, 2001)]
    assert model.primal_objective_ <= (0.5 * b @ K @ b + 2 * min(losses)) * (1 + 1e-9)
    assert model.primal_objective_ >= model.dual_objective_
    reached = 0.5 * b @ K @ b + 2 * np.maximum(0, 1 - signs * (K @ b + model.intercept_)).sum()
    assert reached - dual <= model.dual_gap_ + 1e-12 * reached  # what float64 sums here may be off by
    assert model.dual_gap_ <= model.primal_objective_ - model.dual_objective_


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
    theirs = Libsvm(C=100.0, tol=1e-6).fit(X, y)
    a, sign = theirs.dual_coef_[0], np.where(y == 1, 1.0, -1.0)
    losses = np.maximum(0, 1 - sign * theirs.decision_function(X)).sum()
    least = 0.5 * a @ rbf_kernel(X[theirs.support_], gamma=theirs._gamma) @ a + 100 * losses
    for name, limit in (("max_iter", 1), ("max_time", 1e-9)):
        with pytest.warns(NotConvergedWarning, match=name):
            model = SVC(C=100.0, **{name: limit}).fit(X, y)
        assert not model.converged_
        assert model.dual_objective_ <= least * (1 + 1e-6)
        assert model.primal_objective_ >= least * (1 - 1e-6)
        losses = np.maximum(0, 1 - sign * model.decision_function(X)).sum()
        norm = model.dual_coef_[0] @ (model.decision_function(X)[model.support_] - model.intercept_)
        assert model.primal_objective_ == pytest.approx(0.5 * norm + 100 * losses, rel=1e-6)


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
        SVC().fit(points(20), y, np.r_[-1.0, np.zeros(19)])
    with pytest.raises(ValueError, match="zero for every row of class 1"):
        SVC().fit(points(20), y, 1.0 - y)


# --- float32, sparse, caches


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
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-5)
    assert model.dual_objective_ <= dual * (1 + 1e-11)  # the rounding of K, which b'Kb may multiply by a thousand


def brute_force_objectives(model, X, y, C):
    """Return the primal value at the best intercept and the dual value, from all kernel values in float64."""
    b = dual_variables(model, len(y))
    f = model.expansion_.kernel(X, X) @ b
    signs = np.where(y == 1, 1, -1)
    margins = signs - f  # the least loss is at one of these
    order = np.argsort(margins)
    losses = [np.maximum(0, 1 - signs * (f + margins[k])).sum() for k in order[:: max(1, len(order) // 40)]]
    near = slice(*np.clip(np.argmin(losses) * max(1, len(order) // 40) + np.r_[-80, 80], 0, len(order)))
    loss = min(np.maximum(0, 1 - signs * (f + margins[k])).sum() for k in order[near])
    return 0.5 * b @ f + C * loss, np.abs(b).sum() - 0.5 * b @ f


@pytest.mark.parametrize("options", [{}, {"C": 30.0, "gamma": 0.5}, {"C": 0.01}, {"gap": 0.02}], ids=str)
def test_objectives_are_on_their_sides_of_those_by_brute_force(options):
    """At n = 2,500 rows are float32, and those of variables on their bounds stay so in the certificate."""
    X, y = large()
    model = SVC(**options).fit(X, y)
    primal, dual = brute_force_objectives(model, X, y, options.get("C", 1.0))
    assert model.dual_objective_ <= dual * (1 + 1e-12)
    assert model.primal_objective_ >= primal * (1 - 1e-12)
    assert model.dual_gap_ <= primal - dual + 3e-5 * dual


def test_the_skipped_rows_of_the_certificate_carry_no_loss():
    X, y = large()
    model = SVC(C=10.0).fit(X, y)
    K, b = model.expansion_.kernel(X, X), dual_variables(model, len(y))
    f, signs = K @ b, np.where(y == 1, 1, -1)
    at = np.concatenate([signs - f, model.intercept_])  # the minimum is at a breakpoint
    best = min(np.maximum(0, 1 - signs * (f + shift)).sum() for shift in at[::7])
    exact = min(best, np.maximum(0, 1 - signs * (f + model.intercept_)).sum())
    assert model.primal_objective_ == pytest.approx(0.5 * b @ f + 10 * exact, rel=1e-4)


@pytest.mark.parametrize("gap", [0.05, 0.5])
def test_the_primal_objective_is_that_of_the_machine_that_predicts(gap):
    """A fit that stops on the gap leaves free variables that do not agree on the intercept."""
    X, y = large()
    model = SVC(gap=gap).fit(X, y)
    f = model.decision_function(X)
    b = dual_variables(model, len(y))
    loss = np.maximum(0, 1 - np.where(y == 1, 1, -1) * f).sum()
    assert model.primal_objective_ == pytest.approx(0.5 * b @ (f - model.intercept_[0]) + loss, rel=3e-5)


def test_float32_in_float32_out():
    X, y = large()
    model = SVC().fit(X.astype(np.float32), y)
    assert model.support_vectors_.dtype == np.float32
    assert model.decision_function(X.astype(np.float32)).dtype == np.float32
    double = SVC(gamma=model.expansion_.kernel.gamma).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X.astype(np.float32)), double.decision_function(X), atol=2e-3)


@pytest.mark.parametrize("convert", [csr_matrix, csr_array])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "laplacian", "sigmoid"])
@pytest.mark.filterwarnings("ignore::buttress.IndefiniteKernelWarning")
def test_sparse_rows_give_the_dense_model(convert, kernel):
    X, y = load_digits(return_X_y=True)
    X, y = np.where(X > 12, X, 0)[:300] / 16, y[:300] % 3
    dense = SVC(kernel=kernel, tol=1e-6).fit(X, y)
    sparse = SVC(kernel=kernel, tol=1e-6).fit(convert(X), y)
    np.testing.assert_allclose(sparse.decision_function(convert(X)), dense.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("convert", [csr_matrix, csr_array])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "cauchy", "imq", "log"])
def test_sparse_rows_far_from_0_give_the_dense_model(convert, kernel):
    rng = np.random.default_rng(0)
    X = np.hstack([rng.normal(size=(60, 3)) + 1e8, (rng.random((60, 40)) < 0.05) * rng.normal(size=(60, 40))])
    y = (X[:, 0] + rng.normal(size=60) > 1e8).astype(int)
    dense, sparse = (SVC(kernel=kernel, gamma=0.3).fit(rows[:40], y[:40]) for rows in (X, convert(X)))
    for model, rows in ((sparse, convert(X)), (sparse, X), (dense, convert(X))):
        np.testing.assert_allclose(model.decision_function(rows), dense.decision_function(X), atol=1e-9)


def test_a_large_sparse_problem_stays_sparse():
    rng = np.random.default_rng(0)
    X = csr_matrix((rng.random((2200, 400)) < 0.03) * rng.normal(size=(2200, 400)))
    y = (X @ rng.normal(size=400) > 0).astype(int)
    np.testing.assert_allclose(SVC().fit(X, y).decision_function(X), SVC().fit(X.toarray(), y).decision_function(
        X.toarray()), atol=2e-3)


def test_sparse_rows_are_refused_by_kernels_that_cannot_take_them():
    X, y = moons(40)
    with pytest.raises(TypeError, match="Sparse precomputed kernels are not supported"):
        SVC(kernel="precomputed").fit(csr_matrix(X @ X.T), y)


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


@pytest.mark.parametrize("change", [("ovo", "ovr"), ("ovr", "ovo")])
def test_scores_are_read_as_they_were_fitted_whatever_the_parameters_say_since(change):
    X, y = iris()
    fitted, other = change
    model, changed = SVC(multi_class=fitted).fit(X, y), SVC(multi_class=fitted).fit(X, y).set_params(multi_class=other)
    np.testing.assert_array_equal(changed.predict(X), model.predict(X))
    np.testing.assert_array_equal(changed.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(changed.predict_proba(X), model.predict_proba(X))


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


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_fit_that_ran_out_of_time_is_no_rival_of_one_that_did_not(order):
    fits = [SVC(), SVC()]
    fits[0].converged_ = True
    fits[1].converged_ = False
    tried = BestFit()
    for place in order:
        tried.note(fits[place], (0.3, 0.1)[place])
    assert tried.best is fits[0]
    assert (tried.risk, tried.fits) == (0.3, 2)
