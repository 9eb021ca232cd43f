"""The machines of LinearSVC that liblinear has too: of few columns, and of all classes jointly, with proven gaps."""

import warnings
from fractions import Fraction

import cvxpy
import numpy as np
import pytest
import sklearn.svm
from hostile_gaps import exact, table
from scipy.sparse import csr_matrix
from sklearn.preprocessing import scale

from buttress import LinearSVC, NotConvergedWarning, StochasticLinearSVC, certificates, load, save, verify
from buttress.solvers.linear.penalised import JointProblem, SparseProblem, joint_descent, sparser
from buttress.solvers.linear.primal import LinearProblem

from problems import iris, moons

L1 = {"penalty": "l1", "loss": "squared_hinge", "dual": False}
CS = {"multi_class": "crammer_singer"}


def flowers(k):
    X, y = iris()
    return scale(X[y < k]) + 0.3, y[y < k]


def objective(model, X, y, weight, w=None, b=None, number=float):
    """The objective as documented, at the model's planes or others; in fractions if ``number`` is exact."""
    of = exact if number is Fraction else np.asarray
    w, b = (model.coef_, model.intercept_) if w is None else (w, b)
    X, w, b, C = of(X), of(w), of(b), of(model.C * weight)
    s = number(float(model.intercept_scaling))
    if model.penalty == "l1":
        signs = np.where(y == model.classes_[-1], 1, -1)
        u = np.maximum(1 - signs * (X @ w[0] + b[0]), 0)
        return np.abs(w).sum() + np.abs(b[0]) / s + C @ (u * u)
    if len(w) == 1:
        w, b = np.vstack([-w / 2, w / 2]), np.hstack([-b / 2, b / 2])
    f = X @ w.T + b
    codes = np.searchsorted(model.classes_, y)
    lead = f - f[np.arange(len(y)), codes][:, None] + 1
    lead[np.arange(len(y)), codes] = 0 * lead[0, 0]
    return ((w * w).sum() + (b * b).sum() / s**2) / 2 + C @ lead.max(axis=1)


def optimum(model, X, y, weight):
    """The same, minimised by cvxpy's interior-point method."""
    k = len(model.classes_)
    joint, C = model.multi_class != "ovr", model.C * weight
    w, b = cvxpy.Variable((k if joint else 1, X.shape[1])), cvxpy.Variable(k if joint else 1)
    bound = [] if model.fit_intercept else [b == 0]
    if joint:
        own = np.eye(k)[np.searchsorted(model.classes_, y)]
        f = X @ w.T + np.ones((len(y), 1)) @ cvxpy.reshape(b, (1, k), order="C")
        loss = C @ (cvxpy.max(f + 1 - own, axis=1) - cvxpy.sum(cvxpy.multiply(f, own), axis=1))
        size = (cvxpy.sum_squares(w) + cvxpy.sum_squares(b) / model.intercept_scaling**2) / 2
    else:
        signs = np.where(y == model.classes_[-1], 1, -1)
        loss = C @ cvxpy.square(cvxpy.pos(1 - cvxpy.multiply(signs, X @ w[0] + b[0])))
        size = cvxpy.norm1(w) + cvxpy.abs(b[0]) / model.intercept_scaling
    return cvxpy.Problem(cvxpy.Minimize(size + loss), bound).solve(solver="CLARABEL")


@pytest.mark.parametrize(("kind", "k"), [(L1, 2), (CS, 2), (CS, 3)], ids=["l1", "joint two", "joint three"])
@pytest.mark.parametrize("options", [{}, {"fit_intercept": False, "C": 0.01}, {"intercept_scaling": 20.0, "C": 0.3}],
                         ids=str)
def test_the_optimum_is_that_of_an_interior_point_method(kind, k, options):
    X, y = flowers(3) if k == 3 else moons(60)
    weight = np.random.default_rng(0).integers(0, 4, len(y)) / 2.0
    model = LinearSVC(**kind, **options, tol=1e-6, max_iter=50_000).fit(X, y, sample_weight=weight)
    best = optimum(model, X, y, weight)
    assert model.converged_
    assert model.primal_objective_ == pytest.approx(best, rel=2e-6)
    assert model.dual_objective_ <= best * (1 + 1e-7)
    assert objective(model, X, y, weight) == pytest.approx(model.primal_objective_, rel=1e-9)
    sparse = LinearSVC(**kind, **options, tol=1e-6, max_iter=50_000).fit(csr_matrix(X), y, sample_weight=weight)
    np.testing.assert_allclose(sparse.decision_function(X), model.decision_function(X), atol=1e-3)


def test_two_classes_jointly_are_the_hinge_machine_of_twice_the_C():
    X, y = moons(80)
    joint = LinearSVC(**CS, C=0.3, tol=1e-8, max_iter=100_000, intercept_scaling=2.0).fit(X, y)
    single = LinearSVC(C=0.6, tol=1e-10, fit_intercept=False).fit(np.c_[X, np.full(80, 2.0)], y)
    np.testing.assert_allclose(np.r_[joint.coef_[0], joint.intercept_ / 2], single.coef_[0], rtol=1e-3)
    assert 2 * joint.primal_objective_ == pytest.approx(single.primal_objective_, rel=1e-7)


def test_many_classes_have_a_sparse_machine_each_and_few_columns():
    X, y = flowers(3)
    X = np.hstack([X, np.random.default_rng(1).normal(size=(len(X), 30))])
    model = LinearSVC(**L1, C=0.02).fit(X, y)
    assert model.dual_gap_.shape == (3,)
    for c in range(3):
        alone = LinearSVC(**L1, C=0.02).fit(X, y == c)
        np.testing.assert_array_equal(model.coef_[c], alone.coef_[0])
    assert (model.coef_[:, 4:] == 0).all()
    assert model.score(X, y) > 0.8


# --- proven


def exact_dual(model, X, y):
    """The dual in fractions at the point that the model holds, made smaller until it is surely feasible."""
    X, C, s = exact(X), Fraction(float(model.C)), Fraction(float(model.intercept_scaling))
    p = exact(model.dual_coef_)
    if model.penalty == "l1":
        a = np.abs(p[0])
        steepest = max(*np.abs(X.T @ p[0]), s * abs(p[0].sum()), 1)
        return (a / steepest).sum() - (a * a).sum() / steepest**2 / (4 * C)
    p = np.vstack([-p, p]) if len(p) == 1 else p
    own = np.searchsorted(model.classes_, y) == np.arange(len(p))[:, None]
    a = np.where(own, 0, np.maximum(-p, 0))
    a = a * np.minimum(1, [C / max(total, C) for total in a.sum(axis=0)])
    v = np.where(own, a.sum(axis=0), -a) @ np.hstack([X, np.full((len(X), 1), s)])
    return a.sum() - (v * v).sum() / 2


@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("number", range(30))
def test_no_hostile_table_makes_a_gap_false(number):
    """The attack: far entries, offsets and columns of very different sizes, huge and tiny C; recounted in fractions."""
    rng = np.random.default_rng((7, number))
    X = table(rng, 40)
    k = int(rng.integers(2, 4)) if number % 2 else 2
    y = np.argsort(np.argsort(X[:, 0] + X[:, -1] + rng.normal(size=40))) * k // 40
    model = LinearSVC(**(CS if number % 2 else L1), C=10.0 ** rng.uniform(-6, 6), max_iter=50,
                      intercept_scaling=10.0 ** rng.uniform(-2, 2)).fit(X, y)
    ones = np.ones(40)
    primal = objective(model, X, y, ones, number=Fraction)
    assert primal <= Fraction(model.primal_objective_)
    assert Fraction(model.dual_objective_) <= exact_dual(model, X, y) * (1 + Fraction(1, 10**12))
    for factor in (0.0, 0.5, 0.999, 1.001):  # no point is below what is said to be a lower bound
        there = objective(model, X, y, ones, factor * model.coef_, factor * model.intercept_, number=Fraction)
        assert Fraction(model.dual_objective_) <= there
    assert model.dual_gap_ >= 0


def test_multipliers_that_are_not_feasible_prove_nothing_false():
    """The attack: multipliers far too large, of the wrong sign, or beyond C_i, given to the proof as they are."""
    X, y = flowers(3)
    codes, n = y.astype(np.int64), len(y)
    rng = np.random.default_rng(3)
    joint = JointProblem(X, codes, np.ones(n), 3, 1.0)
    sparse = SparseProblem(LinearProblem(X, np.where(y > 0, 1.0, -1.0), np.ones(n), True), 1.0)
    best = LinearSVC(**CS, tol=1e-6, max_iter=100_000).fit(X, y).primal_objective_
    least = LinearSVC(**L1, tol=1e-6, max_iter=100_000).fit(X, y > 0).primal_objective_
    for size in 10.0 ** np.arange(-3, 7):
        p = size * rng.normal(size=(3, n))
        assert joint.proven(np.zeros((3, 4)), np.zeros(3), p)[1] <= best
        assert sparse.proven(np.zeros(4), 0.0, np.abs(p[0]))[1] <= least


def test_the_first_step_is_the_plane_0_with_a_true_bound():
    X, y = flowers(3)
    sparse = SparseProblem(LinearProblem(X, np.where(y > 0, 1.0, -1.0), np.ones(len(y)), True), 1.0)
    joint = JointProblem(X, y.astype(np.int64), np.ones(len(y)), 3, 1.0)
    for steps in (sparser(sparse), joint_descent(joint)):
        first = next(steps)
        assert first.objective == pytest.approx(len(y))
        assert not first.state.w.any()
        assert -1e-9 < first.state.dual < len(y)


def test_a_run_of_too_few_passes_says_how_good_it_is():
    X, y = flowers(3)
    for kind in (L1, CS):
        with pytest.warns(NotConvergedWarning, match="gap"):
            model = LinearSVC(**kind, C=100.0, max_iter=2).fit(X, y)
        assert (np.array(model.dual_gap_) > 1e-4 * np.array(model.primal_objective_)).any()


# --- what else a LinearSVC does


@pytest.mark.parametrize(("kind", "k", "error"), [(L1, 2, 0.02), (CS, 2, 0.7), (CS, 3, 0.7)],
                         ids=["l1", "joint two", "joint three"])
def test_scores_of_rows_left_out_are_those_of_fits_without_them(kind, k, error):
    """By a step each; that of a hinge, which has no second derivative, is taken of a smooth one."""
    X, y = flowers(3) if k == 3 else moons(60)
    options = dict(kind, C=1.0, tol=1e-5, max_iter=20_000)
    model = LinearSVC(**options).fit(X, y)
    told = model._certainty.held.scores
    rows = np.arange(0, len(y), 5)
    truth = np.vstack([np.atleast_2d(LinearSVC(**options).fit(np.delete(X, i, 0), np.delete(y, i))
                                     .decision_function(X[[i]])).reshape(1, -1) for i in rows])
    seen = np.atleast_2d(model.decision_function(X).reshape(len(y), -1))[rows]
    assert np.abs(told[rows] - truth).mean() < error * np.abs(seen - truth).mean()
    p = model.predict_proba(X)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))


@pytest.mark.parametrize("kind", [L1, CS], ids=["l1", "joint"])
def test_sparse_weights_predict_alike_and_are_kept(kind, tmp_path):
    X, y = flowers(3)
    model = LinearSVC(**kind, C=0.05, max_iter=20_000).fit(X, y)
    scores = model.decision_function(X)
    assert model.sparsify().coef_.nnz == (model.densify().coef_ != 0).sum()
    save(model.sparsify(), tmp_path / "model")
    again = load(tmp_path / "model")
    for rows in (X, csr_matrix(X)):
        np.testing.assert_allclose(again.decision_function(rows), scores, atol=1e-12)
    np.testing.assert_allclose(again.expansion_(X), scores, atol=1e-12)
    np.testing.assert_array_equal(model.densify().decision_function(X), scores)


def test_a_sparse_machine_without_any_column_has_probabilities():
    X, y = moons(60)
    model = LinearSVC(**L1, C=1e-4).fit(X, y)
    assert not model.coef_.any()
    np.testing.assert_allclose(model.predict_proba(X), 0.5, atol=0.02)


def test_nothing_is_said_of_arguments_that_scikit_learn_asks_for():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearSVC(**L1, random_state=0).fit(*moons(60))


@pytest.mark.parametrize("wrong", [
    {"penalty": "l1"}, L1 | {"dual": True}, CS | {"loss": "squared_hinge"}, L1 | CS, {"dual": False}], ids=str)
def test_sets_of_arguments_that_are_no_machine_are_refused(wrong):
    with pytest.raises(ValueError, match="Unsupported set of arguments: penalty="):
        LinearSVC(**wrong).fit(*moons(40))


def test_a_misspelt_dual_is_refused():
    with pytest.raises(ValueError, match="dual must be"):
        LinearSVC(dual="foo").fit(*moons(40))


def test_what_is_proven_of_the_usual_machine_is_refused_of_these(tmp_path):
    X, y = moons(40)
    joint = LinearSVC(**CS, max_iter=20_000).fit(X, y)
    with pytest.raises(ValueError, match="Nothing can be proven of wrong labels"):
        certificates.training_flips(joint, X, y, X)
    for model in (joint, LinearSVC(**L1).fit(X, y)):
        save(model, tmp_path / "model")
        read = verify.read_model(tmp_path / "model")
        with pytest.raises(ValueError, match="have no proof here"):
            verify.prove(read, X, y)
    for kind in (L1, CS):
        with pytest.raises(ValueError, match="solver must be"):
            LinearSVC(**kind, solver="newton").fit(X, y)
    with pytest.raises(TypeError, match="no parameter 'penalty'"):
        StochasticLinearSVC(penalty="l1")


@pytest.mark.parametrize("name", ["SVC", "NuSVC", "LinearSVC", "SVR"])
def test_negative_weights_leave_rows_out_as_in_scikit_learn(name):
    import buttress

    X, y = moons(60)
    weight = np.where(np.arange(60) % 7 == 0, -2.0, 1.0)
    options = {"kernel": "linear"} if name != "LinearSVC" else {"loss": "squared_hinge", "intercept_scaling": 1e3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = getattr(sklearn.svm, name)(**options, tol=1e-6).fit(X, y, sample_weight=weight)
    ours = getattr(buttress, name)(**options, tol=1e-6)
    with pytest.warns(UserWarning, match="negative in 9 rows, the first of them row 0: they are left out"):
        ours.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-2, atol=1e-3)
    without = getattr(buttress, name)(**options, tol=1e-6).fit(X, y, sample_weight=np.maximum(weight, 0))
    np.testing.assert_array_equal(ours.coef_, without.coef_)
