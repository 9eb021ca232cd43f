"""Scores of rows left out, probabilities and prediction sets, against refits, closed forms and scikit-learn."""

import gc
import pickle
import warnings
import weakref
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from scipy.special import softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_blobs, make_classification, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils.validation import has_fit_parameter

from buttress import (
    SVC,
    SVR,
    AdversarialLinearSVC,
    AdversarialSVC,
    AdvSVM,
    CertifiedSVC,
    FreeRangeSVC,
    KernelClassifier,
    KernelRegressor,
    LeastSquaresClassifier,
    LinearSVC,
    RobustKernelClassifier,
    RobustKernelRegressor,
    StochasticAdvSVM,
    StochasticLinearSVC,
    linear,
    load,
    save,
    svc_path,
)
from buttress.adversarial import machine as held_out
from buttress.certainty import left_out, probabilities
from buttress.certainty.calibration import HeldOut, calibrate, coupled, leading, pairs_of
from buttress.certainty.conformal import grouped, lower_threshold
from buttress.certainty.left_out import Slopes, leverages, one_step, squared_spans
from buttress.relational import Join, JoinSampler, RelationalLinearSVC, Table
from buttress.robust.published import under_risk
from buttress.solvers.run import SharedBudget
from buttress.svm import classifier
from buttress.svm.left_out import CS, GAMMAS, left_out_error, left_out_risk, walk

RKHS = {"C": 100.0, "eps": 1e-3}
CLASSIFIERS = [
    SVC(),
    SVC(multi_class="ovr"),
    SVC(break_ties=True),
    LinearSVC(),
    LinearSVC(loss="squared_hinge"),
    LinearSVC(solver="dual"),
    StochasticLinearSVC(random_state=0, max_iter=10),
    AdversarialSVC(random_state=0, max_iter=20),
    AdvSVM(**RKHS),
    KernelClassifier(),
    RobustKernelClassifier(random_state=0),
]


def problem(n=60, seed=0):
    return make_moons(n, noise=0.3, random_state=seed)


def refitted(model, X, y, method):
    """The score of each row under the fit to all others."""
    out = np.empty(len(y))
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        out[i] = getattr(clone(model).fit(X[others], y[others]), method)(X[i : i + 1])[0]
    return out


@pytest.mark.parametrize(("model", "method"), [
    (SVC(tol=1e-8, gamma=1.0), "decision_function"),
    (SVR(tol=1e-8, C=1.0, epsilon=0.2, gamma=1.0), "predict"),
    (SVC(tol=1e-8, kernel="sigmoid", gamma=0.5, indefinite="clip"), "decision_function"),
], ids=["SVC", "SVR", "clipped"])
def test_left_out_scores_are_those_of_refits(model, method):
    X, y = problem()
    y = y if method == "decision_function" else np.sin(X[:, 0]) + 0.2 * y
    fitted = clone(model).fit(X, y)
    error = np.abs(fitted.loo_decision_ - refitted(model, X, y, method))
    support = np.isin(np.arange(len(y)), fitted.support_)
    change = np.abs(fitted.loo_decision_ - getattr(fitted, method)(X))
    assert np.all(change[~support] < 1e-9)
    if model.get_params()["indefinite"] == "warn":  # a clipped matrix is another without the row
        assert np.all(error[~support] < 1e-6)
    assert np.median(error[support]) < 0.2 * change.max()


@pytest.mark.parametrize("model", [KernelClassifier(), SVC(), LinearSVC()], ids=str)
def test_a_fit_does_not_keep_the_rows_of_fits_before(model):
    X, y = make_moons(40, random_state=0)
    before = weakref.ref(model.fit(X, y)._certainty)
    model.fit(X, y)
    gc.collect()
    assert before() is None


def test_probabilities_over_a_join():
    rng = np.random.default_rng(0)
    loan = pd.DataFrame({"account": rng.integers(0, 20, 300), "sum": rng.normal(size=300)})
    loan["bad"] = loan["sum"] + 0.5 * rng.normal(size=300) > 0.3
    account = pd.DataFrame({"id": np.arange(20), "age": rng.normal(size=20)})
    join = Join([Table("loan", loan, features=["sum"], label="bad"), Table("account", account, features=["age"])],
                on=[("loan.account", "account.id")])
    model = RelationalLinearSVC(random_state=0).fit(join)
    X, y = JoinSampler(join).take(range(300))
    p = model.predict_proba(X)
    assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    expected = LogisticRegression(C=np.inf).fit(model.decision_function(X)[:, None], y)
    assert_allclose(p[:, 1], expected.predict_proba(model.decision_function(X)[:, None])[:, 1], atol=0.05)
    assert model.predict_set(X).shape == (300, 2)


def test_left_out_score_of_a_row_of_weight_two_is_that_of_two_rows():
    X, y = problem(40)
    weight = 1 + np.arange(40) % 3
    weighted = SVC(gamma=1.0, tol=1e-9).fit(X, y, weight)
    repeated = SVC(gamma=1.0, tol=1e-9).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(np.repeat(weighted.loo_decision_, weight), repeated.loo_decision_, atol=1e-6)
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("n_free", [20, 400])
def test_spans_are_distances_to_the_free_support_vectors(n_free):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n_free + 10, 8))
    K = np.exp(-((Z[:, None] - Z[None]) ** 2).sum(axis=2))
    free = np.arange(len(Z)) < n_free
    found = squared_spans(lambda i, j: K[np.ix_(i, j)], K.diagonal(), free)
    for i in (0, 5, n_free, n_free + 9):
        others = np.setdiff1d(np.flatnonzero(free), [i])
        H = np.ones((len(others) + 1, len(others) + 1))
        H[:-1, :-1] = K[np.ix_(others, others)]
        H[-1, -1] = 0.0
        k = np.append(K[others, i], 1.0)
        assert_allclose(found[i], K[i, i] - k @ np.linalg.solve(H, k), rtol=1e-6)


def test_spans_have_the_unit_of_the_kernel():
    X = np.random.default_rng(0).normal(size=(12, 8))
    K = X @ X.T + 1
    for unit in (2.0**-1025, 2.0**90):
        found, known = (squared_spans(lambda i, j, c=c: c * K[np.ix_(i, j)], c * K.diagonal(), np.arange(12) < 6)
                        for c in (unit, 1.0))
        assert_allclose(found, unit * known, rtol=1e-6)


def test_distances_to_some_free_support_vectors_are_no_shorter_than_those_to_all(monkeypatch):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(900, 12))
    K = np.exp(-0.1 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))
    free = np.arange(900) < 400
    exact = squared_spans(lambda i, j: K[np.ix_(i, j)], K.diagonal(), free)
    monkeypatch.setattr(left_out, "MOST_FREE", 150)
    near = squared_spans(lambda i, j: K[np.ix_(i, j)], K.diagonal(), free)
    assert np.all(near >= exact - 1e-9)
    assert np.median(near - exact) < 0.5 * np.median(exact)


@pytest.mark.parametrize("n_free", [1, 2])
def test_few_free_support_vectors(n_free):
    K = np.array([[1.0, 0.2, 0.1], [0.2, 1.0, 0.3], [0.1, 0.3, 1.0]])
    found = squared_spans(lambda i, j: K[np.ix_(i, j)], K.diagonal(), np.arange(3) < n_free)
    apart = 2 - 2 * K
    if n_free == 1:  # the others are as far away as it is; without it nothing is free
        assert_allclose(found, [1.0, apart[0, 1], apart[0, 2]], rtol=1e-6)
    else:
        assert_allclose(found[:2], apart[0, 1], rtol=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
def test_one_newton_step_is_exact_for_squared_losses(intercept):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    weight = rng.uniform(0.5, 2, 30)
    Z = np.column_stack([X, np.ones(30)]) if intercept else X
    penalty = np.diag([1.0] * 4 + [1e-8] * intercept)

    def scores(w):
        return Z @ np.linalg.solve(Z.T @ (w[:, None] * Z) + penalty, Z.T @ (w * y))

    expected = [scores(np.where(np.arange(30) == i, 0.0, weight))[i] for i in range(30)]
    f = scores(weight)
    h = leverages(X, weight, 1.0, intercept=intercept)
    assert_allclose(one_step(f, Slopes(f - y, np.ones(30)), weight, h, None), expected, rtol=1e-5)


@pytest.mark.parametrize("shape", [np.asarray, csr_matrix])
def test_columns_far_from_0_have_the_leverages_of_centred_ones(shape):
    """An intercept takes what is common to a column; at 1e8 its square is all that float64 holds."""
    rng = np.random.default_rng(0)
    X, curvature = rng.normal(size=(30, 4)).round(), rng.random(30)
    far = leverages(shape(X + 1e8), curvature, 0.7, intercept=True)
    assert_allclose(far, leverages(X, curvature, 0.7, intercept=True), atol=1e-6)
    shares = LinearSVC(C=0.01).fit(X + 1e8, np.arange(30) < 2).predict_proba(X + 1e8)
    assert np.isfinite(shares).all()


def test_leverages_by_rows_are_those_by_columns(monkeypatch):
    rng = np.random.default_rng(2)
    X, curvature = rng.normal(size=(25, 6)), rng.uniform(size=25)
    by_columns = leverages(X, curvature, 0.7)
    monkeypatch.setattr("buttress.certainty.left_out.MOST_FEATURES", 5)
    some = np.where(np.arange(25) < 5, curvature, 0.0)
    by_rows = leverages(X, some, 0.7)
    expected = np.einsum("ij,ji->i", X, np.linalg.solve(0.7 * np.eye(6) + (X.T * some) @ X, X.T))
    assert_allclose(by_rows, expected, rtol=1e-8)
    assert_allclose(by_columns, np.einsum(
        "ij,ji->i", X, np.linalg.solve(0.7 * np.eye(6) + (X.T * curvature) @ X, X.T)), rtol=1e-6)


@pytest.mark.parametrize(("features", "work"), [(5, 1e9), (7, 25 * 25)], ids=["many columns", "many rows"])
def test_of_too_many_rows_some_count_and_each_its_own(monkeypatch, features, work):
    rng = np.random.default_rng(2)
    X, curvature = rng.normal(size=(25, 9)), rng.uniform(0.1, 3.0, size=25)
    monkeypatch.setattr("buttress.certainty.left_out.MOST_FEATURES", features)
    monkeypatch.setattr("buttress.certainty.left_out.MOST_WORK", work)
    count = min(features, int(np.sqrt(work / 25)))
    drawn = np.linspace(0, 24, count).astype(int)
    expected = []
    for i in range(25):
        with_own = np.union1d(drawn, [i])
        A = 0.7 * np.eye(9) + (X[with_own].T * curvature[with_own]) @ X[with_own]
        expected.append(X[i] @ np.linalg.solve(A, X[i]))
    for rows in (X, csr_matrix(X)):
        found = leverages(rows, curvature, 0.7)
        assert_allclose(found, expected, rtol=1e-8)
        assert (found * curvature < 1).all()     # of one row's curvature its own part is less than all


def test_copies_of_a_row_that_do_not_count_are_left_out_together(monkeypatch):
    monkeypatch.setattr("buttress.certainty.left_out.MOST_FEATURES", 5)
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(12), 3)
    X, curvature = rng.normal(size=(12, 9))[groups], rng.uniform(0.5, 3.0, size=36)
    drawn = np.linspace(0, 35, 5).astype(int)
    expected = []
    for i in range(36):
        with_own = np.union1d(drawn, np.flatnonzero(groups == groups[i]))
        A = 0.7 * np.eye(9) + (X[with_own].T * curvature[with_own]) @ X[with_own]
        expected.append(X[i] @ np.linalg.solve(A, X[i]))
    found = leverages(X, curvature, 0.7, groups=groups)
    assert_allclose(found, expected, rtol=1e-8)
    assert (found * np.bincount(groups, curvature)[groups] < 1).all()


def test_left_out_scores_of_wide_rows_are_those_of_fits_without_them(monkeypatch):
    monkeypatch.setattr("buttress.certainty.left_out.MOST_WORK", 60 * 10**2)     # 10 of 60 rows
    rng = np.random.default_rng(0)
    X = csr_matrix(normalize(rng.normal(size=(60, 2500)) * (rng.random((60, 2500)) < 0.02)))
    y = np.asarray(X[:, :300].sum(axis=1)).ravel() + 0.1 * rng.normal(size=60) > 0
    model = LinearSVC(tol=1e-6).fit(X, y)
    refitted = []
    for i in range(60):
        others = np.arange(60) != i
        refitted.append(LinearSVC(tol=1e-6).fit(X[others], y[others]).decision_function(X[i])[0])
    found = model._certainty.held.scores[:, 0]
    assert np.abs(found - refitted).max() < 0.2
    assert np.abs(found - refitted).mean() < 0.15 * np.abs(model.decision_function(X) - refitted).mean()


def test_calibration_of_one_score_is_scikit_learns_logistic_regression():
    rng = np.random.default_rng(3)
    s = rng.normal(size=200)
    y = (rng.uniform(size=200) < 1 / (1 + np.exp(-2 * s - 0.5))).astype(int)
    weight = rng.integers(1, 4, 200).astype(float)
    found = calibrate(HeldOut(s[:, None], y, weight, 2))
    totals = np.bincount(y, weight)
    target = np.where(y == 1, (totals[1] + 1) / (totals[1] + 2), 1 / (totals[0] + 2))  # Platt's
    both = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(
        np.concatenate([s, s])[:, None], np.repeat([1, 0], 200),
        np.concatenate([weight * target, weight * (1 - target)]))
    assert_allclose([found.slope[0], found.shift[0]], [both.coef_[0, 0], both.intercept_[0]], rtol=1e-4)


def test_scores_that_point_the_wrong_way_leave_the_shares_of_the_classes():
    rng = np.random.default_rng(5)
    y = (np.arange(90) < 30).astype(int)
    found = calibrate(HeldOut(rng.normal(size=(90, 1)) - 5 * y[:, None], y, np.ones(90), 2))
    mean = 1 / 3 * 31 / 32 + 2 / 3 * 1 / 62  # of Platt's targets
    assert_allclose(found.probabilities(np.zeros((1, 1)), np.zeros(1, dtype=int))[0, 1], mean, rtol=0.02)


def test_calibration_on_probabilities_of_the_true_classes():
    rng = np.random.default_rng(4)
    s = rng.normal(size=(20_000, 1))
    y = (rng.uniform(size=20_000) < 1 / (1 + np.exp(-3 * s[:, 0]))).astype(int)
    flipped = np.where(rng.uniform(size=20_000) < 0.2, 1 - y, y)
    second = 1 / (1 + np.exp(-3 * s[:, 0]))
    given = np.where(flipped[:, None] == [0, 1], 0.8, 0.2)
    joint = given * np.column_stack([1 - second, second])
    true = joint / joint.sum(axis=1, keepdims=True)  # Bayes' rule
    found = calibrate(HeldOut(s, flipped, np.ones(20_000), 2, true=true))
    assert_allclose([found.slope[0], found.shift[0]], [3.0, 0.0], atol=0.1)


def test_probabilities_are_of_the_right_labels_and_not_surer_than_rows_left_out_allow():
    X, truth = make_classification(500, 20, n_informative=5, class_sep=0.8, random_state=0)
    X = StandardScaler().fit_transform(X)
    given = np.where(np.arange(500) % 8 == 0, 1 - truth, truth)
    model = RobustKernelClassifier(random_state=0).fit(X[:200], given[:200])
    peer = CalibratedClassifierCV(RobustKernelClassifier(random_state=0), cv=5).fit(X[:200], given[:200])
    assert not model.clean_
    assert log_loss(truth[200:], model.predict_proba(X[200:])) < log_loss(truth[200:], peer.predict_proba(X[200:]))


def test_coupling_of_consistent_pairs_gives_their_probabilities():
    p = np.random.default_rng(5).dirichlet(np.ones(4), size=10)
    r = np.stack([p[:, i] / (p[:, i] + p[:, j]) for i, j in pairs_of(4)], axis=1)
    assert_allclose(coupled(r, 4), p, atol=1e-5)


def test_the_predicted_class_leads_with_the_least_change():
    cp = pytest.importorskip("cvxpy")
    p = np.random.default_rng(6).dirichlet(np.ones(4), size=5)
    for winner in range(4):
        found = leading(p.copy(), np.full(5, winner))
        assert_array_equal(found.argmax(axis=1), winner)
        assert_allclose(found.sum(axis=1), 1)
        for row, expected in zip(found, p, strict=True):
            q = cp.Variable(4)
            # the nearest q with p fixed: sum p log q is largest
            cp.Problem(cp.Minimize(-expected @ cp.log(q)), [cp.sum(q) == 1, q[winner] >= q]).solve()
            assert_allclose(row, q.value, atol=1e-4)


def test_of_equal_classes_the_predicted_one_leads_and_the_rest_stays():
    p = np.array([[0.4, 0.4, 0.2], [0.25, 0.25, 0.5], [1 / 3, 1 / 3, 1 / 3]])
    found = leading(p.copy(), np.array([1, 1, 2]))
    assert_array_equal(found.argmax(axis=1), [1, 1, 2])
    assert_allclose(found.sum(axis=1), 1, rtol=1e-15)
    assert_allclose(found, [[0.4, 0.4, 0.2], [0.25, 0.375, 0.375], [1 / 3, 1 / 3, 1 / 3]], atol=1e-8)


@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")  # first-order solvers, whose fits need not end
@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
@pytest.mark.parametrize("data", ["two", "three"])
def test_probabilities_agree_with_predict(model, data, tmp_path):
    X, y = problem(80) if data == "two" else load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    fitted = clone(model).fit(X, names)
    new = X + np.random.default_rng(0).normal(scale=0.5, size=X.shape)
    p = fitted.predict_proba(new)
    assert_array_equal(fitted.classes_[p.argmax(axis=1)], fitted.predict(new))
    assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    assert p.min() > 0
    assert p.max() < 1
    assert_allclose(np.exp(fitted.predict_log_proba(new)), p)
    assert log_loss(names, fitted.predict_proba(X), labels=fitted.classes_) < np.log(len(fitted.classes_))
    save(fitted, tmp_path / "model")
    again = load(tmp_path / "model")
    assert_array_equal(again.predict_proba(new), p)
    assert_array_equal(again.predict_set(new), fitted.predict_set(new))


@pytest.mark.parametrize("model", [
    KernelClassifier(), KernelRegressor(), RobustKernelClassifier(random_state=0),
    RobustKernelRegressor(random_state=0)], ids=str)
def test_a_model_does_not_change_with_the_rows_of_the_caller(model):
    X, y = problem(80)
    given = X.copy()
    fitted = clone(model).fit(given, y)
    before = fitted.predict(X)
    given *= 0.0
    assert_array_equal(fitted.predict(X), before)


ASKED_LATER = [
    AdversarialLinearSVC(eps=0.05),
    FreeRangeSVC(C_f=0.1),
    LinearSVC(),
    LinearSVC(penalty="l1", loss="squared_hinge"),
    LinearSVC(multi_class="crammer_singer"),
    StochasticLinearSVC(random_state=0, max_iter=10),
    AdversarialSVC(random_state=0, max_iter=20),
    CertifiedSVC(random_state=0, max_iter=20, n_landmarks=20),
    AdvSVM(**RKHS),
    StochasticAdvSVM(**RKHS, random_state=0),
    KernelClassifier(),
    KernelClassifier(n_landmarks=20, random_state=0),
]


@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")
@pytest.mark.filterwarnings("ignore::buttress.FeatureNoiseWarning")
@pytest.mark.parametrize("model", ASKED_LATER, ids=str)
def test_rows_are_left_out_when_probabilities_are_asked_for(model, monkeypatch):
    X, y = problem(80)
    calls = []
    for room in (left_out, held_out, under_risk):  # where it is called
        monkeypatch.setattr(room, "one_step", lambda *given: calls.append(given) or one_step(*given))
    fitted = clone(model).fit(X, y)
    fitted.predict(X)
    assert not calls
    fitted.predict_proba(X)
    once = len(calls)
    assert once
    fitted.predict_set(X)
    assert len(calls) == once


@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")
@pytest.mark.filterwarnings("ignore::buttress.FeatureNoiseWarning")
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("model", ASKED_LATER, ids=str)
def test_what_is_asked_later_is_what_is_answered_at_once(model, sparse, tmp_path):
    """Bit for bit: of a model saved before, and of one whose rows and parameters the caller has changed since."""
    X, y = problem(80)
    if sparse and not model.__sklearn_tags__().input_tags.sparse:
        pytest.skip("it takes no sparse rows")
    given = csr_matrix(X) if sparse else X.copy()
    first = clone(model).fit(given, y)
    at_once, objective = first.predict_proba(X), getattr(first, "primal_objective_", None)
    late = clone(model).fit(given, y)
    save(late, tmp_path / "model")
    copies = [pickle.loads(pickle.dumps(late)), deepcopy(late), load(tmp_path / "model")]
    given *= 0.0
    late.set_params(**{name: 7.0 for name in ("C", "alpha") if name in late.get_params()})
    for one in (late, *copies):
        assert_array_equal(one.predict_proba(X), at_once)
        assert getattr(one, "primal_objective_", None) == objective


@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")
def test_a_fit_to_many_numbers_scores_them_at_once_and_keeps_no_rows(monkeypatch):
    X, y = problem(80)
    for room, model in ((linear, LinearSVC()), (linear, StochasticLinearSVC(random_state=0, max_iter=10)),
                        (probabilities, KernelClassifier()), (probabilities, AdversarialLinearSVC())):
        expected = clone(model).fit(X, y).predict_proba(X)
        with monkeypatch.context() as context:
            context.setattr(room, "KEPT", 159)
            fitted = clone(model).fit(X, y)
        assert vars(fitted._certainty)["held"].scores.shape == (80, 1)
        assert_array_equal(fitted.predict_proba(X), expected)


@pytest.mark.parametrize("model", [
    SVC(kernel="linear", C=1e4), SVC(kernel="linear", C=np.inf), LinearSVC(C=1e4)], ids=str)
def test_separable_rows_give_no_certainty(model):
    X, y = make_blobs(40, centers=[[-5, 0], [5, 0]], random_state=0)
    p = clone(model).fit(X, y).predict_proba(1e3 * X)
    assert 0.9 < p.max() < 1 - 1e-3


@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("model", [SVC(), SVC(multi_class="ovr"), LinearSVC(), LeastSquaresClassifier()], ids=str)
def test_no_weight_makes_a_probability_of_0_or_1(model, n_classes, tmp_path):
    X, y = make_blobs(20, centers=n_classes, random_state=0)
    weight = np.where(np.arange(20) < 1, 1e17, 1)
    model = clone(model).fit(X, y, sample_weight=weight)
    p = model.predict_proba(X)
    assert ((p > 0) & (p < 1)).all()
    assert_allclose(p.sum(axis=1), 1)
    save(model, tmp_path / "heavy")
    assert_array_equal(load(tmp_path / "heavy").predict_proba(X), p)


def test_grid_search_by_log_loss():
    X, y = problem()
    search = GridSearchCV(SVC(), {"C": [0.1, 10.0]}, scoring="neg_log_loss", cv=3).fit(X, y)
    assert (search.cv_results_["mean_test_score"] > -np.log(2)).all()  # by chance


def test_prediction_sets_cover():
    covered = []
    for seed in range(20):
        X, y = make_blobs(400, centers=3, cluster_std=3.0, random_state=seed)
        model = SVC().fit(X[:150], y[:150])
        held = model.predict_set(X[150:], coverage=0.8)
        covered.append(held[np.arange(250), y[150:]].mean())
    assert 0.76 < np.mean(covered) < 0.86


def rare_class(n, seed):
    """Three classes in the plane, of which the last has a twelfth of the rows and lies within the second."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, size=n, p=[0.5, 5 / 12, 1 / 12])
    return rng.normal(size=(n, 2)) + np.array([[0, 0], [2, 0], [2, 1]])[y], y


def test_sets_by_class_cover_the_rare_class_too():
    covered = {False: [], True: []}
    for seed in range(15):
        X, y = rare_class(1500, seed)
        model = SVC().fit(X[:400], y[:400])
        for by_class, shares in covered.items():
            inside = model.predict_set(X[400:], by_class=by_class)[np.arange(1100), y[400:]]
            shares.append([inside[y[400:] == c].mean() for c in range(3)])
    assert np.mean(covered[False], axis=0)[2] < 0.75
    by_class = np.mean(covered[True], axis=0)
    assert np.all((by_class > 0.87) & (by_class < 0.95))


@pytest.mark.filterwarnings("ignore:StochasticLinearSVC stopped")
@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_a_class_is_in_a_set_by_its_rows_alone(model):
    """By definition: at most a tenth of m + 1 rows of the class, left out, have a smaller lead."""
    X, y = rare_class(240, 3)
    labels = np.array(["b", "a", "c"])[y]
    fitted = clone(model).fit(X, labels)
    calibration, held = fitted._calibrated(), fitted._held_out()
    leads = calibration.leads(fitted._scores_of(X)[0])
    own = calibration.leads(held.scores)[np.arange(len(held.codes)), held.codes]
    inside = fitted.predict_set(X, by_class=True)
    for c in range(3):
        rows = own[(held.codes == c) & (held.weight > 0)]
        smaller = (rows[:, None] <= leads[:, c]).sum(axis=0)
        assert_array_equal(inside[:, c], smaller >= np.floor(0.1 * (len(rows) + 1) + 1e-9))


@pytest.mark.filterwarnings("ignore:StochasticLinearSVC stopped")
@pytest.mark.parametrize("model", [*CLASSIFIERS, AdversarialLinearSVC(), CertifiedSVC(), LeastSquaresClassifier(),
                                   StochasticAdvSVM(**RKHS, random_state=0)], ids=str)
def test_groups_are_of_the_rows_given_to_fit(model):
    X, y = problem()
    labels = np.array(["b", "a"])[y]
    weight = np.array([0.0, 2.0, 1.0] * 20)
    fitted = clone(model)
    weighted = has_fit_parameter(fitted, "sample_weight")
    fitted.fit(X, labels, **({"sample_weight": weight} if weighted else {}))
    held = fitted._held_out()
    of = grouped((np.arange(60), np.arange(60)), held, 60)
    used = held.weight > 0
    assert_array_equal(labels[of.own[used]], fitted.classes_[held.codes[used]])
    assert set(of.own[used]) == set(np.flatnonzero(weight) if weighted else range(60))
    numbers = fitted.predict_set(X, coverage=0.7, groups=(labels, np.where(X[:, 0] > 0, "a", "b")))
    words = fitted.predict_set(X, coverage=0.7, groups=(labels == "a", X[:, 0] > 0))
    assert_array_equal(numbers, words)
    with pytest.raises(ValueError, match="groups must be two arrays, of the 60 rows given to fit and of the 2 rows"):
        fitted.predict_set(X[:2], groups=(labels[1:], labels[:2]))


def test_equal_rows_that_a_machine_joins_count_each_with_its_group():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(400, 3)).astype(float)
    y = (X.sum(axis=1) + rng.normal(size=400) > 1.5).astype(int)
    model = AdversarialLinearSVC(eps=0.1).fit(X, y)
    held = model._held_out()
    assert_array_equal(grouped((np.arange(400), np.arange(400)), held, 400).own, np.arange(400))
    assert_array_equal(held.codes, y)
    same = np.unique(np.column_stack([X, y]), axis=0, return_inverse=True)[1].reshape(-1)
    assert all(np.ptp(held.scores[same == k]) == 0 for k in range(16))
    once = AdversarialLinearSVC(eps=0.1).fit(X[np.unique(same, return_index=True)[1]], np.arange(16) % 2,
                                             sample_weight=np.bincount(same))
    assert_allclose(held.scores, once._held_out().scores[same], rtol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not model.predict_set(X, 0.5, by_class=True).all()


def test_groups_of_rows_that_are_drawn_from_a_join_are_refused():
    held = HeldOut(np.zeros((20, 1)), np.arange(20) % 2, np.ones(20), 2)
    with pytest.raises(ValueError, match="not known here: they were drawn from a join"):
        grouped((np.arange(20), np.arange(3)), held, 3)


@pytest.mark.parametrize("groups", [3, np.arange(60), "groups", {"a": 1}, (np.arange(60),),
                                    (pd.Series([[1]] * 60), pd.Series([[1]] * 60)), (np.eye(60), np.eye(60))])
def test_groups_that_are_no_pair_are_refused(groups):
    X, y = problem()
    with pytest.raises(ValueError, match=r"groups must be two arrays.*Write groups=\(of_training_rows, of_new_rows\)"):
        SVC().fit(X, y).predict_set(X, groups=groups)


def test_rows_without_a_group_are_a_group():
    X, y = problem()
    names = np.where(np.arange(60) < 30, "a", None).astype(object)
    numbers = np.where(np.arange(60) < 30, 1.0, np.nan)
    model = SVC().fit(X, y)
    by_name, by_number = (model.predict_set(X, 0.7, groups=(of, of)) for of in (names, numbers))
    assert_array_equal(by_name, by_number)


def test_weights_of_less_than_a_row_promise_no_more_than_rows():
    """By definition: the weight of rows with a smaller lead, and 1 for the new row, is at most .5 of all and 1."""
    rng = np.random.default_rng(0)
    for size in (0.01, 0.1, 0.37, 1.0, 2.5):
        values, weight = rng.normal(size=300), size * rng.uniform(0.5, 1.5, size=300)
        cut = lower_threshold(values, weight, 0.5)
        for value in values:
            share = (1 + weight[values <= value].sum()) / (1 + weight.sum())
            assert (value >= cut) == (share > 0.5 + 1e-12)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 0.06, 1: 1.0, 2: 1.0}])
def test_class_weights_say_nothing_of_how_many_rows_a_class_has(class_weight):
    X, y = rare_class(300, 5)
    plain, weighted = SVC(), SVC(class_weight=class_weight)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (plain, weighted):
            assert not model.fit(X, y).predict_set(X, by_class=True)[:, 0].all()


def test_one_heavy_row_is_no_class_of_many():
    X, y = rare_class(150, 6)
    weight = np.ones(150)
    weight[np.flatnonzero(y == 2)[0]] = 300.0
    model = LinearSVC().fit(X, y, sample_weight=weight)
    with pytest.warns(UserWarning, match=r"class 2 \(1\.0"):
        assert model.predict_set(X, by_class=True)[:, 2].all()


def test_a_class_of_too_few_rows_is_in_every_set():
    X, y = problem()
    y = np.where(np.arange(60) < 4, 2, y)
    model = SVC(class_weight="balanced").fit(X, y)  # balanced, the four rows weigh as much as twenty
    with pytest.warns(UserWarning, match=r"for 1 of 3 classes or groups.*fewer than 9 training rows: class 2 \(4\)"):
        assert model.predict_set(X, by_class=True)[:, 2].all()


@pytest.mark.parametrize("coverage", [1e-17, 1e-12])
def test_of_hardly_any_coverage_the_largest_value_is_the_threshold(coverage):
    assert lower_threshold(np.array([2.0, 3.0, 1.0]), np.ones(3), coverage) == 3


def test_the_threshold_is_the_exact_conformal_one():
    values = np.random.default_rng(0).permutation(99).astype(float)
    assert lower_threshold(values, np.ones(99), 0.9) == 9.0  # the tenth smallest: 10 = .1 (99 + 1)
    weight = np.ones(99)
    weight[values == 0] = 2
    assert lower_threshold(values, weight, 0.9) == lower_threshold(np.append(values, 0.0), np.ones(100), 0.9)


@pytest.mark.parametrize("machine", [AdvSVM, StochasticAdvSVM])
def test_some_rows_stand_for_all_in_the_curvature(machine, monkeypatch):
    """A drawn half of the rows has nearly the left-out scores that it has among all, and each class is in it."""
    X, y = make_blobs([400, 400, 2], centers=[[0, 0], [1, 1], [4, 0]], cluster_std=0.8, random_state=0)
    model = machine(**RKHS) if machine is AdvSVM else machine(**RKHS, random_state=0)
    every = clone(model).fit(X, y)._certainty.held
    monkeypatch.setattr(held_out, "SCORED", 400)
    some = clone(model).fit(X, y)._certainty.held
    assert set(some.codes) == {0, 1, 2}
    assert some.n_classes == 3
    rows = some.row
    assert 400 <= len(rows) == len(some.codes) <= 403
    away = every.scores[rows] - model.fit(X, y).decision_function(X[rows])
    moved = np.sqrt(np.mean((some.scores - every.scores[rows]) ** 2))
    assert moved < 0.2 * np.sqrt(np.mean(away**2))


KINDS = [SVC(), LinearSVC(), AdversarialSVC(random_state=0, max_iter=20), AdvSVM(**RKHS),
         KernelClassifier(), RobustKernelClassifier(random_state=0)]
@pytest.mark.parametrize("model", KINDS, ids=str)
def test_coverages_that_cannot_be_had_are_refused(model):
    X, y = problem()
    fitted = clone(model).fit(X, y)
    for coverage in (0, 1, -0.1, 1.5, np.nan, "most", True):
        with pytest.raises(ValueError, match="coverage must be"):
            fitted.predict_set(X, coverage=coverage)
    with pytest.raises(ValueError, match=r"at least 99 training rows\. Got \d"):
        fitted.predict_set(X, coverage=0.99)


@pytest.mark.parametrize("model", [*KINDS, SVC(multi_class="ovr")], ids=str)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_class_of_one_row(model, n_classes):
    X, y = problem()
    y = np.where(np.arange(60) == 7, 2, y if n_classes == 3 else 0)
    fitted = clone(model).fit(X, y)
    p = fitted.predict_proba(X)
    assert p.shape == (60, n_classes)
    assert_allclose(p.sum(axis=1), 1)
    assert_array_equal(fitted.classes_[p.argmax(axis=1)], fitted.predict(X))


def test_a_fit_over_a_join_that_ran_out_of_time_says_so(monkeypatch):
    def late(*_):
        raise TimeoutError

    monkeypatch.setattr("buttress.relational.svm.sampled_scores", late)
    rng = np.random.default_rng(0)
    loan = pd.DataFrame({"sum": rng.normal(size=60)})
    loan["bad"] = loan["sum"] > 0
    model = RelationalLinearSVC(random_state=0).fit(Join([Table("loan", loan, features=["sum"], label="bad")], on=[]))
    assert model.predict(np.array([[2.0]])).tolist() == [True]
    with pytest.raises(ValueError, match=r"time was up.*Raise max_time"):
        model.predict_proba(np.array([[2.0]]))


def test_left_out_error_is_that_of_the_scores():
    X, y = load_iris(return_X_y=True)
    for model in (SVC(), SVC(multi_class="ovr")):
        fitted = clone(model).fit(X, y)
        held = fitted._held_out()
        leads = calibrate(held).leads(held.scores)
        assert left_out_error(held) <= 0.06
        assert leads.shape == (150, 3)
    X, y = problem()
    binary = SVC().fit(X, y)
    assert left_out_error(binary._held_out()) == np.mean((binary.loo_decision_ > 0) != (y == 1))


def test_a_path_scored_by_rows_left_out():
    X, y = problem(100)
    for model in svc_path(X, y, [0.1, 1.0, 10.0]):
        alone = SVC(C=model.C).fit(X, y)
        assert_allclose(model.loo_error_, np.mean((alone.loo_decision_ > 0) != (y == 1)), atol=0.011)


def test_a_choice_by_rows_left_out():
    X, y = problem(100)
    model = SVC(C="loo", gamma="loo").fit(X, y)
    assert model.C_ in CS
    assert model.get_params()["C"] == "loo"
    plain = SVC(C=model.C_, gamma=model.gamma_).fit(X, y)
    assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-4)
    assert model.loo_error_ == left_out_error(model._held_out())
    assert SVC(C="loo").fit(X, y).gamma_ == "scale"
    assert not {"C_", "gamma_"} & vars(model.set_params(C=1.0, gamma="scale").fit(X, y)).keys(), "of another fit"
    with pytest.raises(ValueError, match="kernel given by its name"):
        SVC(gamma="loo", kernel=plain.expansion_.kernel).fit(X, y)


@pytest.mark.parametrize(("model", "message"), [
    (SVC(C="LOO"), r"C must be a number in \(0, inf\]\. Got 'LOO'\. Or use C='loo'"),
    (SVC(gamma="LOO"), "'loo' of SVC.* Got 'LOO'"),
    (SVR(C="loo"), r"Got 'loo'\. Only SVC chooses C by rows left out\. Use GridSearchCV"),
    (SVR(gamma="loo"), "gamma must be a positive number, 'scale' or 'auto' .* Got 'loo'"),
], ids=str)
def test_words_that_are_no_choice_name_what_is_allowed(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*problem())


def test_a_walk_ends_where_values_stop_falling():
    values = [3.0, 2.0, 2.5, 4.0, 1.0]
    seen = []

    def value(place):
        seen.append(place)
        return values[place]

    assert walk(value, 2, 5, SharedBudget()) == (1, 2.0)
    assert seen == [2, 3, 1, 0]
    assert walk(value, 3, 5, SharedBudget()) == (4, 1.0)
    assert walk(value, 0, 5, SharedBudget()) == (1, 2.0)


def test_a_choice_fits_few_of_the_values(monkeypatch):
    X, y = problem(100)
    fits = []
    solve = classifier.solve
    monkeypatch.setattr(classifier, "solve", lambda *args: fits.append(1) or solve(*args))
    chosen = SVC(C="loo", gamma="loo").fit(X, y)
    assert len(fits) <= 20
    every = [left_out_risk(model._held_out()) for gamma in GAMMAS for model in
             svc_path(X, y, CS, gamma=gamma / (2 * X.var()))]
    assert left_out_risk(chosen._held_out()) <= np.quantile(every, 0.2)


def test_probabilities_of_many_classes_are_near_the_truth():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    W = rng.normal(size=(2, 3)) * 2
    truth = softmax(X @ W, axis=1)
    y = np.array([rng.choice(3, p=p) for p in truth])
    p = SVC(C=1.0).fit(X[:400], y[:400]).predict_proba(X[400:])
    assert np.abs(p - truth[400:]).mean() < 0.08
