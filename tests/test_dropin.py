"""Our machines in place of scikit-learn's: the same parameters, the same attributes, the same optimum."""

import inspect
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.svm
from scipy.sparse import csr_array, csr_matrix, issparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import scale

import buttress
from buttress import SVC, SVDD, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR, OneClassSVM, StochasticAdvSVM, _predicting
from buttress.checkpoints.journal import _global_rng

from problems import iris, moons

NAMES = ["SVC", "SVR", "LinearSVC", "NuSVC", "NuSVR", "LinearSVR", "OneClassSVM"]


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), y


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_of_scikit_learn_is_taken_at_its_default(name):
    theirs, ours = getattr(sklearn.svm, name), getattr(buttress, name)
    known = inspect.signature(ours).parameters
    lacking = {"class_weight"} if name == "NuSVC" else set()  # which theirs does not read
    assert set(inspect.signature(theirs).parameters) - set(known) == lacking
    given = theirs().get_params()
    for key in lacking | {"probability"} & given.keys():
        del given[key]
    X, y = (moons(40)[0], np.arange(40.0)) if "R" in name[-1] else moons(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours(**given).fit(X, y)


@pytest.mark.parametrize(("model", "name", "value"), [
    (SVC(), "shrinking", False), (SVR(), "shrinking", False), (LinearSVC(), "dual", True),
    (LinearSVR(), "intercept_scaling", 10.0)])
def test_what_changes_nothing_is_told_once(model, name, value, monkeypatch):
    monkeypatch.setattr(_predicting, "_told", set())
    X, y = moons(40)
    plain = clone(model).fit(X, y)
    model = clone(model).set_params(**{name: value})
    with pytest.warns(UserWarning, match=f"{name}={value}.* gives the same model"):
        model.fit(X, y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)


def test_truth_values_of_numpy_are_truth_values(monkeypatch):
    monkeypatch.setattr(_predicting, "_told", set())
    X, y = moons(40)
    with pytest.warns(UserWarning, match="gives the same model"):
        LinearSVC(dual=np.True_).fit(X, y)
    for value in (1, np.int64(1), "True"):
        with pytest.raises(ValueError, match="dual must be one of"):
            LinearSVC(dual=value).fit(X, y)


def test_a_one_class_machine_without_rows_left_out_says_who_has_them():
    X, _ = moons(40)
    model = OneClassSVM().fit(X)
    assert not hasattr(model, "loo_decision_")
    with pytest.raises(AttributeError, match=r"OneClassSVM has no loo_decision_\. SVDD keeps rows left out"):
        getattr(model, "loo_decision_")  # noqa: B009


@pytest.mark.parametrize("probability", [True, False])
def test_probability_is_as_deprecated_as_in_scikit_learn(probability):
    X, y = moons(40)
    with pytest.warns(FutureWarning, match="`probability` parameter was deprecated"):
        model = SVC(probability=probability).fit(X, y)
    assert model.predict_proba(X).shape == (40, 2)


@pytest.mark.parametrize("model", [LinearSVR(penalty="l1"), LinearSVR(dual=False)])
def test_sets_of_arguments_that_scikit_learn_refuses_are_refused(model):
    with pytest.raises(ValueError, match=r"Unsupported set of arguments: penalty='l.', loss='epsilon_insensitive'"):
        model.fit(*moons(40))


def test_no_seed_changes_a_fit():
    X, y = moons(60)
    for kind in (SVC, NuSVC, LinearSVC, LinearSVR):
        models = [kind(random_state=seed).fit(X, y) for seed in (None, 0, 1)]
        assert len({model.predict(X).tobytes() for model in models}) == 1


def test_a_fit_that_goes_on_leaves_numpys_generator_alone(tmp_path):
    X, y = moons(60)
    for number in (0, 1):
        np.random.seed(number)  # noqa: NPY002
        before = np.random.get_state()[1].tolist()  # noqa: NPY002
        model = SVC(max_iter=5 if number == 0 else None, checkpoint=str(tmp_path / str(number)), resume=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
    assert _global_rng(SVC()) is None
    assert _global_rng(StochasticAdvSVM()) is not None


# --- attributes


@pytest.mark.parametrize("make", [np.asarray, csr_matrix, csr_array], ids=["dense", "matrix", "array"])
@pytest.mark.parametrize("kind", ["SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM"])
def test_attributes_are_scikit_learns(kind, make):
    X, y = iris()
    X, y = X[y < 2], y[y < 2].astype(float)
    y = y if kind.endswith("C") else X[:, 0] + y
    X = X + np.random.default_rng(0).normal(scale=0.7, size=X.shape) + 3
    share = {"nu": 0.437} if "nu" in getattr(buttress, kind)().get_params() else {}
    ours = getattr(buttress, kind)(kernel="linear", tol=1e-5, **share).fit(make(X), y)
    theirs = getattr(sklearn.svm, kind)(kernel="linear", tol=1e-5, **share).fit(make(X), y)
    for name in ("coef_", "dual_coef_", "support_vectors_"):
        assert issparse(getattr(ours, name)) == issparse(getattr(theirs, name))
        assert len(getattr(ours, name).shape) == 2
    # with more rows than columns several coefficients of rows give one plane
    mine, other = (model.coef_.toarray() if issparse(model.coef_) else model.coef_ for model in (ours, theirs))
    np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-4, atol=1e-4)
    for name in ("intercept_", "n_support_", "shape_fit_"):
        assert np.shape(getattr(ours, name)) == np.shape(getattr(theirs, name))
    assert ours.n_support_.sum() == len(ours.support_) == ours.dual_coef_.shape[1]
    assert ours.shape_fit_ == (100, 4)
    assert ours.fit_status_ == theirs.fit_status_ == 0
    assert type(ours.n_iter_) is type(theirs.n_iter_)
    assert np.shape(ours.n_iter_) == np.shape(theirs.n_iter_)


def test_weights_of_classes_are_kept():
    X, y = iris()
    given = {0: 2.0, 2: 0.5}
    for value in (None, "balanced", given):
        ours, theirs = (kind(class_weight=value).fit(X[:120], y[:120]).class_weight_ for kind in (SVC, sklearn.svm.SVC))
        np.testing.assert_allclose(ours, theirs)


def test_weights_of_classes_are_weights_of_rows():
    X, y = iris()
    rows = np.array([1.0, 3.0, 0.5])[y]
    for model in (SVC(gamma=0.5), LinearSVC(), LinearSVC(loss="squared_hinge")):
        model.set_params(tol=1e-7)
        by_class = clone(model).set_params(class_weight={1: 3.0, 2: 0.5}).fit(X, y).decision_function(X)
        np.testing.assert_allclose(by_class, model.fit(X, y, sample_weight=rows).decision_function(X), atol=1e-3)


def test_columns_have_weights_under_a_linear_kernel_only():
    X, y = iris()
    for model in (SVC(kernel="linear", decision_function_shape="ovo"), SVR(kernel="linear")):
        model.fit(X, y)
        ours = np.squeeze(X @ model.coef_.T + model.intercept_)
        np.testing.assert_allclose(ours, model.decision_function(X) if y is not None and hasattr(
            model, "classes_") else model.predict(X), atol=1e-9)
        with pytest.raises(ValueError, match="read-only"):
            model.coef_[0, 0] = 1.0
    assert not hasattr(SVC().fit(X, y), "coef_")
    assert not hasattr(SVC(kernel="linear"), "coef_")


# --- kernels of what is no table of numbers


def shared_letters(A, B):
    return np.array([[float(len(set(a) & set(b))) for b in B] for a in A])


WORDS = ["ab", "abc", "bc", "xy", "xyz", "yz", "abz", "xyc"]


@pytest.mark.parametrize("rows", [WORDS, np.array(WORDS), np.array(WORDS, dtype=object),
                                  [frozenset(word) for word in WORDS], [list(word) for word in WORDS],
                                  pl.Series(WORDS)], ids=["list", "text", "object", "sets", "tokens", "polars"])
def test_a_kernel_of_texts_is_its_gram_matrix(rows):
    y = np.array([0, 0, 0, 1, 1, 1, 0, 1])
    gram = shared_letters(WORDS, WORDS)
    for kind, targets in ((SVC, y), (NuSVC, y), (SVR, y.astype(float)), (OneClassSVM, None)):
        direct = kind(kernel=shared_letters, tol=1e-6).fit(rows, targets)
        given = kind(kernel="precomputed", tol=1e-6).fit(gram, targets)
        np.testing.assert_array_equal(direct.support_, given.support_)
        asked = ["a", "xyzz", "b"]
        np.testing.assert_allclose(direct.predict(asked), given.predict(shared_letters(asked, WORDS)), atol=1e-12)
    assert SVC(kernel=shared_letters).fit(rows, y).predict_proba(["a", "x"]).argmax(axis=1).tolist() == [0, 1]


def test_a_kernel_function_gets_frames_with_texts_as_they_are_and_of_numbers_as_arrays():
    frame = pd.DataFrame({"word": WORDS, "n": range(8)})
    y = np.array([0, 0, 0, 1, 1, 1, 0, 1])
    model = SVC(kernel=lambda A, B: shared_letters(A["word"], B["word"])).fit(frame, y)
    np.testing.assert_allclose(model.decision_function(frame),
                               SVC(kernel=shared_letters).fit(WORDS, y).decision_function(WORDS))
    numbers = frame[["n"]].astype("Float64")
    assert SVC(kernel=lambda A, B: A @ B.T).fit(numbers, y).feature_names_in_ == ["n"]


def test_a_kernel_function_gets_sparse_rows_as_they_are():
    X, y = moons(60)
    seen = []

    def inner(A, B):
        seen.append(issparse(A) and issparse(B))
        return A @ B.T

    sparse = SVC(kernel=inner).fit(csr_matrix(X), y)
    np.testing.assert_allclose(sparse.decision_function(csr_matrix(X)),
                               SVC(kernel="linear").fit(X, y).decision_function(X), atol=1e-6)
    assert all(seen)
    assert sparse.n_features_in_ == 2
    assert sparse.shape_fit_ == (60, 2)


def test_a_fit_to_a_table_forgets_the_texts_before():
    X, y = moons(60)
    model = SVC(kernel=shared_letters).fit(WORDS, [0, 0, 0, 1, 1, 1, 0, 1])
    model.set_params(kernel=lambda A, B: A @ B.T).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), sklearn.svm.SVC(kernel="linear").fit(X, y).predict(X))
    model.set_params(kernel=shared_letters).fit(WORDS, [0, 0, 0, 1, 1, 1, 0, 1])
    with pytest.raises(ValueError, match="must return shape"):
        model.set_params(kernel=lambda A, B: np.ones((1, 1))).fit(WORDS, [0, 0, 0, 1, 1, 1, 0, 1])


# --- a share nu


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("weighed", [False, True])
def test_nu_svc_is_libsvms_machine(nu, weighed):
    X, y = cancer()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y)) if weighed else None
    ours = NuSVC(nu=nu, gamma=0.05).fit(X, y, weight)
    theirs = sklearn.svm.NuSVC(nu=nu, gamma=0.05, tol=1e-7).fit(X, y, weight)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    np.testing.assert_allclose(ours.predict(X), SVC(C=ours.C_, gamma=0.05).fit(X, y, weight).predict(X))


def test_nu_bounds_the_losses_and_the_support_vectors():
    X, y = cancer()
    for nu in (0.1, 0.4):
        model = NuSVC(nu=nu).fit(X, y)
        losing = np.mean((2 * y - 1) * model.decision_function(X) < 1 - 1e-6)
        assert losing <= nu <= len(model.support_) / len(y)


def test_many_classes_have_a_C_a_pair():
    X, y = iris()
    ours, theirs = NuSVC(nu=0.2).fit(X, y), sklearn.svm.NuSVC(nu=0.2, tol=1e-7).fit(X, y)
    assert ours.C_.shape == (3,)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)


def test_an_infeasible_nu_is_refused():
    X, y = cancer()
    with pytest.raises(ValueError, match=r"nu is infeasible: with these classes it must be at most 0\.745"):
        NuSVC(nu=0.8).fit(X, y)
    most = NuSVC(nu=2 * np.mean(y == 0), gamma=0.05).fit(X, y)  # all rows of a class at their bound: many C do
    np.testing.assert_allclose(np.abs(most.dual_coef_).sum(), 2 * most.C_ * np.sum(y == 0), rtol=1e-3)
    noise = np.random.default_rng(0).normal(size=(80, 2))
    with pytest.warns(UserWarning, match="too small for these classes"):
        model = NuSVC(nu=0.05, kernel="linear").fit(noise, np.arange(80) % 2)
    assert model.C_ >= 1e4
    assert np.mean(model.predict(noise) != np.arange(80) % 2) > 0.05


@pytest.mark.parametrize("nu", [0.1, 0.5, 1.0])
def test_nu_svr_is_libsvms_machine_and_its_tube_that_of_svr(nu):
    X, y = diabetes()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    ours = NuSVR(nu=nu, C=10, gamma=0.05).fit(X, y, weight)
    theirs = sklearn.svm.NuSVR(nu=nu, C=10, gamma=0.05, tol=1e-6).fit(X, y, weight)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=0.05)
    tube = SVR(epsilon=ours.epsilon_, C=10, gamma=0.05).fit(X, y, weight)
    np.testing.assert_allclose(ours.predict(X), tube.predict(X), atol=0.05)
    outside = np.abs(ours.predict(X) - y) > ours.epsilon_ + 1e-3
    assert weight[outside].sum() <= nu * weight.sum() + 1e-9


def test_the_flattest_tube_that_holds_every_row():
    """Against a general solver of the same program, and against C so large that no coefficient reaches it."""
    from scipy.optimize import LinearConstraint, minimize

    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = 100 * (X @ [2.0, -1.0, 0.5] + rng.uniform(-0.1, 0.1, 30))
    model = SVR(C=np.inf, epsilon=15.0, kernel="linear", tol=1e-6).fit(X, y)
    assert np.abs(model.predict(X) - y).max() <= 15 * (1 + 1e-6)
    inside = LinearConstraint(np.column_stack([X, np.ones(30)]), y - 15, y + 15)
    found = minimize(lambda z: 0.5 * z[:3] @ z[:3], np.append(model.coef_[0], model.intercept_), method="trust-constr",
                     jac=lambda z: np.append(z[:3], 0.0), constraints=[inside],
                     options={"gtol": 1e-10, "xtol": 1e-12}).fun
    np.testing.assert_allclose(0.5 * np.sum(model.coef_**2), found, rtol=1e-4)
    weight = rng.uniform(0.5, 2, 30)
    np.testing.assert_allclose(
        SVR(C=np.inf, epsilon=15.0).fit(X, y, weight).predict(X), SVR(C=1e8, epsilon=15.0).fit(X, y, weight).predict(X),
        rtol=1e-5)
    assert model.loo_decision_.shape == (30,)


def test_no_tube_holds_two_targets_of_one_row():
    X, y = np.array([[0.0], [0.0], [1.0]]), np.array([0.0, 3.0, 1.0])
    with pytest.raises(ValueError, match="a tube that holds every row, but no function"):
        SVR(C=np.inf, epsilon=1.0).fit(X, y)
    assert np.abs(SVR(C=np.inf, epsilon=1.5).fit(X, y).predict(X) - y).max() <= 1.5 + 1e-6
    with pytest.raises(ValueError, match="C must be in"):
        NuSVR(C=np.inf).fit(X, y)


# --- one class


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", [NuSVC, NuSVR])
@pytest.mark.parametrize("max_iter", [1, 5, 20, 40])
def test_a_share_that_is_looked_for_in_too_few_steps_gives_a_model_that_says_so(kind, max_iter, seed):
    """Solutions cut short have other shares from other starts, and so may the ends of the search."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=40) > 0, 1, -1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = kind(nu=0.2, max_iter=max_iter).fit(X, y if kind is NuSVC else X[:, 0] + y)
    assert model.converged_ or any("max_iter" in str(one.message) for one in told)


@pytest.mark.parametrize("nu", [0.05, 0.5])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid"])
@pytest.mark.filterwarnings("ignore:.*not positive definite")
def test_one_class_machine_is_libsvms(nu, kernel):
    X, _ = cancer()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    gamma = 0.02 if kernel == "rbf" else 0.005
    ours = OneClassSVM(nu=nu, kernel=kernel, gamma=gamma, coef0=1.0).fit(X, sample_weight=weight)
    theirs = sklearn.svm.OneClassSVM(nu=nu, kernel=kernel, gamma=gamma, coef0=1.0, tol=1e-5).fit(
        X, sample_weight=weight)
    size = np.abs(theirs.score_samples(X)).max()
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-4 * size)
    np.testing.assert_allclose(ours.dual_coef_.sum(), nu * weight.sum())
    assert weight[ours.predict(X) == -1].sum() <= nu * weight.sum()


def test_one_class_machine_is_the_ball_of_a_radial_kernel():
    X, _ = cancer()
    machine, ball = OneClassSVM(nu=0.2, gamma=0.02).fit(X), SVDD(nu=0.2, gamma=0.02, contamination=None).fit(X)
    total = machine.dual_coef_.sum()
    inner = np.exp(ball.score_samples(X)) - np.exp(ball.offset_)  # its scores are logarithms
    np.testing.assert_allclose(machine.decision_function(X) / total, inner, atol=1e-4)


def test_the_gap_of_one_class_holds_against_the_primal():
    X, _ = cancer()
    model = OneClassSVM(nu=0.3, gamma=0.02, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    best = OneClassSVM(nu=0.3, gamma=0.02, tol=1e-8).fit(X)

    def objective(machine):
        norm2 = machine.dual_coef_ @ (machine.score_samples(machine.support_vectors_))
        return 0.5 * norm2[0] - machine.offset_ * 0.3 * len(X) + np.maximum(-machine.decision_function(X), 0).sum()

    assert model.dual_objective_ <= objective(best) <= model.primal_objective_
    assert objective(model) - objective(best) <= model.dual_gap_
    assert best.dual_gap_ <= 1e-6 * abs(best.primal_objective_)
    np.testing.assert_allclose(objective(best), best.primal_objective_, rtol=1e-6)


@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_rows_around_the_origin_have_no_plane_and_the_fit_converges(nu):
    Z = np.random.default_rng(0).normal(size=(100, 3))
    X = np.r_[Z, -Z]  # equal coefficients sum to w = 0, so the optimum is 0
    with warnings.catch_warnings(action="error"):
        model = OneClassSVM(kernel="linear", nu=nu).fit(X)
    assert model.converged_
    assert model.primal_objective_ == pytest.approx(0, abs=1e-8)
    np.testing.assert_allclose(model.score_samples(X), 0, atol=1e-8)


def test_warm_starts_of_one_class_keep_the_sum():
    X, _ = cancer()
    model = OneClassSVM(nu=0.1, warm_start=True).fit(X)
    for nu in (0.4, 0.05):
        again = model.set_params(nu=nu).fit(X)
        cold = OneClassSVM(nu=nu).fit(X)
        np.testing.assert_allclose(again.decision_function(X), cold.decision_function(X), atol=1e-4)


@pytest.mark.parametrize(("name", "value"), [("solver", "ipm"), ("indefinite", "clip"), ("nu", 0.0)])
def test_one_class_refuses_what_it_has_not(name, value):
    with pytest.raises(ValueError, match=f"{name} must be"):
        OneClassSVM(**{name: value}).fit(moons(40)[0])


# --- linear targets


@pytest.mark.parametrize("make", [np.asarray, csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("C", [0.01, 10.0])
@pytest.mark.parametrize("intercept", [True, False])
def test_linear_svr_is_the_optimum(C, make, intercept):
    """Against a kernel machine on its dual, and against the smooth problem by another library."""
    from scipy.optimize import minimize

    X, y = diabetes()
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    plain = LinearSVR(C=C, epsilon=20.0, tol=1e-8, fit_intercept=intercept).fit(make(X), y, weight)
    if intercept:
        kernel = SVR(kernel="linear", C=C, epsilon=20.0, tol=1e-6).fit(X, y, weight)
        np.testing.assert_allclose(plain.primal_objective_, kernel.primal_objective_, rtol=1e-6)
        np.testing.assert_allclose(plain.coef_, kernel.coef_[0], atol=0.02)
    squared = LinearSVR(C=C, epsilon=20.0, loss="squared_epsilon_insensitive", fit_intercept=intercept).fit(
        make(X), y, weight)

    def objective(z):
        over = np.maximum(np.abs(y - X @ z[:-1] - z[-1] * intercept) - 20.0, 0)
        return 0.5 * z[:-1] @ z[:-1] + C * weight @ over**2

    found = minimize(objective, np.append(squared.coef_, squared.intercept_), method="BFGS").fun
    assert squared.dual_objective_ <= found * (1 + 1e-9)
    np.testing.assert_allclose(squared.primal_objective_, found, rtol=1e-6)
    assert intercept or squared.intercept_ == [0.0]


def test_bounds_of_linear_svr_hold_for_any_unit_of_the_targets():
    X, y = diabetes()
    for unit in (1e-9, 1.0, 1e9):
        model = LinearSVR(C=1.0, epsilon=10 * unit).fit(X, unit * y)
        over = np.maximum(np.abs(unit * y - model.predict(X)) - 10 * unit, 0).sum()
        value = 0.5 * model.coef_ @ model.coef_ + over
        assert value <= model.primal_objective_ * (1 + 1e-12)
        assert 0 <= model.dual_gap_ <= 1e-3 * model.primal_objective_
    some = slice(0, 60)
    model = LinearSVR(C=1.0, epsilon=0.1).fit(X[some], y[some] / 7)
    w, b = [Fraction(value) for value in model.coef_], Fraction(model.intercept_[0])
    exact = sum(value**2 for value in w) / 2
    for row, target in zip(X[some], y[some] / 7, strict=True):
        away = abs(Fraction(target) - b - sum(v * Fraction(value) for v, value in zip(w, row, strict=True)))
        exact += max(Fraction(0), away - Fraction(0.1))
    assert Fraction(model.dual_objective_) <= exact <= Fraction(model.primal_objective_)
    constant = LinearSVR().fit(X, np.full(len(y), 3.0))
    np.testing.assert_allclose(constant.predict(X), 3.0)
