"""LinearSVC and StochasticLinearSVC as estimators: streams, classes, budgets and bad input."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn.svm
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from buttress import LinearSVC, NotConvergedWarning, StochasticLinearSVC, attacks
from buttress.expansion import winners
from buttress.solvers.linear.primal import Rate
from buttress.solvers.linear.stochastic import stochastic_descent
from buttress.solvers.run import run

from linear_problems import LOSSES, objective, problem_of, signs
from problems import iris, noisy

# --- partial_fit and the estimator ---


def test_partial_fit_learns_from_a_stream_and_is_there_for_the_stochastic_machine_only():
    X, y = noisy(4000)
    model = StochasticLinearSVC(C=0.02, random_state=0)
    for part in np.array_split(np.arange(4000), 20):
        model.partial_fit(X[part], y[part], classes=[0, 1])
    best = LinearSVC(C=0.02 * 200 / 4000, tol=1e-9).fit(X, y)  # 1/(mC) of the first 200 rows is the weight of the norm
    assert objective(model, X, y, best.C) <= 1.02 * best.primal_objective_
    assert model.n_iter_ == 20
    assert not hasattr(LinearSVC(), "partial_fit")


def test_partial_fit_goes_on_from_fit_and_takes_sparse_rows():
    X, y = iris()
    model = StochasticLinearSVC(C=0.1, random_state=0).fit(csr_matrix(X), y)
    before = model.score(X, y)
    model.partial_fit(csr_matrix(X), y)
    assert model.coef_.shape == (3, 4)
    assert model.score(X, y) > before - 0.1


@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")
@parametrize_with_checks(
    [StochasticLinearSVC(tol=0.01), LinearSVC(loss="squared_hinge")],
)
def test_scikit_learn_checks(estimator, check):
    with np.errstate(all="ignore"):
        check(estimator)


def test_three_classes_are_three_machines():
    X, y = iris()
    model = LinearSVC(tol=1e-8).fit(X, y)
    for c in range(3):
        alone = LinearSVC(tol=1e-8).fit(X, y == c)
        np.testing.assert_allclose(model.decision_function(X)[:, c], alone.decision_function(X), atol=1e-6)
        assert model.primal_objective_[c] == pytest.approx(alone.primal_objective_, rel=1e-9)
    assert model.predict(X[:1]) == model.decision_function(X[:1]).argmax()


def test_attacks_work_on_it_and_move_a_score_by_eps_times_the_norm_of_w():
    X, y = noisy()
    model = LinearSVC().fit(X, y)
    np.testing.assert_allclose(model.expansion_(X)[:, 0], model.decision_function(X), atol=1e-12)
    np.testing.assert_array_equal(model.classes_[winners(model.expansion_(X), model.contrasts_)], model.predict(X))
    moved = attacks.fgsm(model, X, y, eps=0.1)
    change = signs(y) * (model.decision_function(moved) - model.decision_function(X))
    np.testing.assert_allclose(change, -0.1 * np.abs(model.coef_).sum(), rtol=1e-9)


def test_pickle_and_grid_search():
    X, y = noisy()
    grid = {"linearsvc__C": [1e-4, 1.0], "linearsvc__loss": LOSSES}
    search = GridSearchCV(make_pipeline(StandardScaler(), LinearSVC()), grid, cv=2).fit(X, y)
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))


def test_budgets_end_a_fit_with_a_warning_and_a_usable_model():
    X, y = noisy()
    best = sklearn.svm.SVC(kernel="linear", tol=1e-9).fit(X, y)
    least = 0.5 * np.sum(best.coef_**2) + np.maximum(0, 1 - signs(y) * best.decision_function(X)).sum()
    for limit in ({"max_iter": 1}, {"max_time": 1e-9}):
        with pytest.warns(NotConvergedWarning, match="stopped at max_"):
            model = LinearSVC(solver="dual", **limit).fit(X, y)
        assert not model.converged_
        assert model.primal_objective_ == pytest.approx(objective(model, X, y), rel=1e-9)
        assert model.primal_objective_ - model.dual_gap_ <= least <= model.primal_objective_


def test_a_tolerance_below_rounding_ends_with_a_warning():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.warns(NotConvergedWarning, match="leaves nothing to gain"):
        model = LinearSVC(C=1000, tol=1e-18).fit(X, y)
    assert model.dual_gap_ <= 1e-6 * model.primal_objective_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0}, r"C must be in \(0, inf\)"),
        ({"loss": "hing"}, "Did you mean 'hinge'"),
        ({"solver": "adam"}, "solver must be one of"),
        ({"solver": "sgd"}, "LinearSVC has no solver 'sgd'. Use StochasticLinearSVC"),
        ({"solver": "gd"}, "LinearSVC has no solver 'gd'. Use StochasticLinearSVC"),
        ({"tol": 0}, "tol must be in"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"class_weight": {0: 0.0}}, r"class_weight of class 0 must be in \(0, inf\)"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    X, y = noisy()
    with pytest.raises(ValueError, match=message):
        LinearSVC(**parameters).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"schedule": "linear"}, "schedule must be one of"),
        ({"eta0": -1}, "eta0 must be in"),
        ({"eta0": 1e9}, "eta0 must be below nC"),
        ({"decay": -1}, "decay must be in"),
        ({"decay": 1, "schedule": "pegasos"}, "decay belongs to schedule='inverse'"),
        ({"loss": "hing"}, "Did you mean 'hinge'"),
    ],
)
def test_bad_parameters_of_stochastic_steps_are_named(parameters, message):
    X, y = noisy()
    with pytest.raises(ValueError, match=message):
        StochasticLinearSVC(**parameters).fit(X, y)
    with pytest.raises(ValueError, match=message):
        StochasticLinearSVC(**parameters).partial_fit(X, y, classes=[0, 1])


@pytest.mark.parametrize("name", ["schedule", "eta0", "decay", "average"])
def test_parameters_of_steps_are_those_of_the_stochastic_machine(name):
    with pytest.raises(TypeError, match=f"LinearSVC has no parameter '{name}'. It is one of StochasticLinearSVC"):
        LinearSVC(**{name: None})
    with pytest.raises(TypeError, match=r"no parameter 'solver'\. It is one of LinearSVC"):
        StochasticLinearSVC(solver="newton")


def test_bad_data_is_named():
    X, y = noisy()
    model = StochasticLinearSVC()
    broken = csr_matrix(X)
    broken[3, 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN in column 2 \(1 rows, the first is row 3"):
        model.fit(broken, y)
    with pytest.raises(ValueError, match="zero for every row of class 1"):
        model.fit(X, y, (y == 0).astype(float))
    with pytest.raises(ValueError, match="needs classes"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X, y + 1, classes=[0, 1])
    model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        model.partial_fit(X, y, classes=[0, 2])
    with pytest.raises(ValueError, match="needs all rows at once"):
        StochasticLinearSVC(class_weight="balanced").partial_fit(X, y, classes=[0, 1])


def test_the_objective_falls_to_what_the_run_reports():
    X, y = noisy(500)
    outcome = run(stochastic_descent(problem_of(X, y, 0.01), Rate(0.02, 0.001), average=True,
                                     rng=np.random.RandomState(0)), tol=1e-4, max_iter=200)
    w, b, *_ = outcome.state
    assert outcome.objective == pytest.approx(0.5 * w @ w + 0.01 * np.maximum(0, 1 - signs(y) * (X @ w + b)).sum())


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("columns", ["far from 0", "with a time", "of different size", "scaled", "of noise", "rare"])
def test_stochastic_steps_that_lead_nowhere_are_told(columns, loss, intercept):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    if columns in ("of noise", "rare"):
        y = (rng.random(600) < (0.5 if columns == "of noise" else 0.02)).astype(int)
    changed = {"far from 0": X + 1e4, "with a time": np.c_[X, np.linspace(1.6e9, 1.7e9, 600)],
               "of different size": np.c_[X[:, :-1] + 1e4, 1e3 * X[:, -1]]}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        StochasticLinearSVC(loss=loss, fit_intercept=intercept, random_state=0).fit(changed.get(columns, X), y)
    assert any("Scale them" in str(one.message) for one in told) == (columns in changed)


@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")
@pytest.mark.parametrize("n", [10, 13, 40])
@pytest.mark.parametrize("unit", [1e-100, 1e-23, 1e-12, 1e-9, 1e80, 1e99])
def test_the_first_step_suits_columns_of_any_size(n, unit):
    """Of short ones the curvature is that of the penalty up to rounding, of long ones its square overflows."""
    X = unit * np.random.default_rng(0).normal(size=(n, 3))
    model = StochasticLinearSVC(random_state=0).fit(X, X[:, 0] > 0)
    assert model.score(X, X[:, 0] > 0) > 0.8
