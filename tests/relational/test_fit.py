"""Fits against LinearSVC on materialised joins."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from relational_problems import chain, design, hinge_mean, joined, materialise, random_join
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from buttress import NotConvergedWarning, load, save
from buttress.relational import Join, JoinSampler, RelationalLinearSVC, Table, cross_validate, describe
from buttress.relational.counting.margins import margin_loss
from buttress.relational.plan.prepare import prepare

VARIANTS = [{}, {"weights": True}, {"left": True}]


def objective(X, y, weight, beta, alpha, loss=None):
    if loss is None:
        return hinge_mean(X, y, weight, beta) + alpha * float(beta @ beta)
    return float(weight @ loss.value(y * (X @ beta)) / weight.sum()) + alpha * float(beta @ beta)


def liblinear(X, y, weight, alpha):
    model = LinearSVC(loss="hinge", C=1 / (2 * alpha * weight.sum()), fit_intercept=False, tol=1e-7, max_iter=20_000,
                      random_state=0)
    beta = model.fit(X, y, sample_weight=weight).coef_[0]
    return objective(X, y, weight, beta, alpha)


def check_fit(join, alpha=1e-2, row_weight="join", **parameters):
    """The interval holds LinearSVC's optimum and the model's own objective; returns the model."""
    model = RelationalLinearSVC(alpha=alpha, row_weight=row_weight, random_state=0, **parameters).fit(join)
    rows = materialise(join)
    plan = prepare(join)
    X, y, weight = design(join, plan, rows)
    if row_weight == "label_row":
        weight = weight / rows["t0.#"].map(rows["t0.#"].value_counts()).to_numpy()
    low, high = model.objective_interval_
    assert model.n_join_rows_ == len(rows)
    reference = liblinear(X, y, weight, alpha)
    assert low <= reference * (1 + 1e-9)
    # only better, up to what liblinear leaves undone
    assert objective(X, y, weight, model.beta_, alpha) <= min(high, reference * (1 + 2 * model.gap_) + 1e-6) + 1e-12
    return model


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("how", VARIANTS, ids=["plain", "weights", "left"])
@pytest.mark.parametrize("seed", range(8))
def test_small_joins_match_linear_svc(seed, how):
    assert check_fit(joined(seed, **how)).gap_ <= 1e-3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(3))
def test_each_label_row_counts_once_by_default(seed):
    join = joined(seed, **VARIANTS[seed])
    model = check_fit(join, row_weight="label_row")
    np.testing.assert_array_equal(RelationalLinearSVC(alpha=1e-2, random_state=0).fit(join).coef_, model.coef_)


def entity_means(join, row_weight):
    """Mean scaled features, label and weight of each label row that has join rows, from the materialised join."""
    rows = materialise(join)
    X, y, weight = design(join, prepare(join), rows)
    entity = rows["t0.#"].to_numpy()
    numbers = np.unique(entity[weight > 0])
    means = np.array([np.average(X[entity == i], axis=0, weights=weight[entity == i]) for i in numbers])
    total = np.array([weight[entity == i].sum() for i in numbers])
    count = np.array([(entity == i).sum() for i in numbers])
    labels = np.array([y[entity == i][0] for i in numbers])
    return means, labels, total / count if row_weight == "label_row" else total


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("engine", ["memory", "sql"])
@pytest.mark.parametrize("row_weight", ["join", "label_row"])
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5])
def test_the_objective_of_mean_scores_is_certified(seed, row_weight, engine):
    join = joined(seed, rows=12, **VARIANTS[seed % 3])
    model = RelationalLinearSVC(alpha=1e-2, objective="mean", row_weight=row_weight, engine=engine, tol=1e-6,
                                random_state=0).fit(join)
    X, y, weight = entity_means(join, row_weight)
    low, high = model.objective_interval_
    assert low <= liblinear(X, y, weight, 1e-2) * (1 + 1e-9)
    assert objective(X, y, weight, model.beta_, 1e-2) <= high * (1 + 1e-9)
    assert model.gap_ <= 1e-6


def test_the_objective_of_mean_scores_in_folds_and_with_probabilities():
    join = chain(400, 10, 3)
    model = RelationalLinearSVC(objective="mean", random_state=0).fit(join)
    assert model.predict_proba(join).shape == (400, 2)
    scores = cross_validate(join, [1e-3, 1.0], 3, RelationalLinearSVC(objective="mean", random_state=0))["test_score"]
    assert scores.mean(axis=1)[1] > 0.6
    with pytest.raises(MemoryError, match="objective='rows'"):
        RelationalLinearSVC(objective="mean", memory_limit=1e-3, engine="memory").fit(join)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning")
@pytest.mark.parametrize("seed", range(8))
def test_the_interval_holds_when_nothing_is_listed(seed):
    """n_samples=1 keeps the rows from being enumerated, so that only the grid is used."""
    model = check_fit(joined(seed, rows=10), n_samples=1, max_iter=60, tol=1e-2)
    assert model.gap_ < 0.02


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_other_losses_match_scikit_learn(loss):
    join = joined(1, rows=10)
    rows, plan = materialise(join), prepare(join)
    X, y, weight = design(join, plan, rows)
    C = 1 / (2 * 0.01 * len(y))
    peer = (LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=2000) if loss == "logistic"
            else LinearSVC(loss=loss, C=C, fit_intercept=False, tol=1e-10, max_iter=100_000))
    reference = objective(X, y, weight, peer.fit(X, y).coef_[0], 0.01, margin_loss(loss))
    model = RelationalLinearSVC(row_weight="join", alpha=0.01, loss=loss, tol=1e-6, random_state=0).fit(join)
    low, high = model.objective_interval_
    assert low <= reference + 1e-10
    assert reference <= high * (1 + 1e-6)


def test_a_large_join_is_certified_and_its_sample_is_not_better():
    join = chain(2000, 50, 4)
    sampled = RelationalLinearSVC(solver="sample", n_samples=2000, random_state=0).fit(join)
    model = RelationalLinearSVC(n_samples=2000, random_state=0).fit(join)
    assert model.n_join_rows_ > 10**8
    assert model.converged_
    assert model.gap_ <= 1e-3
    assert sampled.objective_interval_[1] >= model.dual_bound_
    assert sampled.dual_bound_ <= model.objective_interval_[1]


def test_C_is_linear_svcs():
    join = joined(2)
    n = prepare(join).n_rows
    a = RelationalLinearSVC(row_weight="join", C=0.5, random_state=0).fit(join)
    b = RelationalLinearSVC(row_weight="join", alpha=1 / (2 * 0.5 * n), random_state=0).fit(join)
    assert a.objective_interval_ == b.objective_interval_


def test_a_row_of_weight_two_is_two_rows():
    rng = np.random.default_rng(0)
    a = pd.DataFrame({"k": rng.integers(0, 3, 12), "x": rng.normal(size=12), "y": np.arange(12) % 2, "w": 1.0})
    b = pd.DataFrame({"k": rng.integers(0, 3, 9), "z": rng.normal(size=9)})
    weighted, repeated = a.assign(w=np.arange(12) % 3 + 1.0), a.loc[np.repeat(np.arange(12), np.arange(12) % 3 + 1)]

    def fit(frame):
        join = Join([Table("a", frame, features=["x"], label="y", weights="w"), Table("b", b, features=["z"])],
                    [("a.k", "b.k")])
        return RelationalLinearSVC(alpha=0.01, tol=1e-6, random_state=0).fit(join)

    np.testing.assert_allclose(fit(weighted).objective_interval_, fit(repeated).objective_interval_, rtol=2e-6)


def test_coefficients_are_in_original_units_and_feature_order():
    join = joined(3)
    model = RelationalLinearSVC(alpha=0.01, random_state=0).fit(join)
    plan, rows = prepare(join), materialise(join)
    X, _, _ = design(join, plan, rows)
    raw = rows[list(model.feature_names_in_)]
    np.testing.assert_allclose(model.decision_function(raw), X @ model.beta_, atol=1e-12)
    np.testing.assert_allclose(model.decision_function(raw.to_numpy(dtype=object)), X @ model.beta_, atol=1e-12)
    expected = [f"{t.name}.{c}" for t in join.tables for c in t.features]
    assert list(model.feature_names_in_) == expected
    assert model.coef_.shape == (1, len(model.coef_names_))
    stored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(stored.coef_, model.coef_)
    assert clone(model).get_params() == model.get_params()
    assert repr(RelationalLinearSVC(alpha=0.5)) == "RelationalLinearSVC(alpha=0.5)"


@pytest.mark.parametrize("how", [{}, {"weights": True}])
def test_coefficients_per_standard_deviation_are_those_of_standardised_columns(how):
    """Against the weighted deviations of the listed rows' columns in their own units."""
    join = joined(3, **how)
    model = RelationalLinearSVC(alpha=0.01, row_weight="join", random_state=0).fit(join)
    plan, rows = prepare(join), materialise(join)
    X, _, weight = design(join, plan, rows)
    kept = np.ones(X.shape[1], dtype=bool)
    kept[plan.slices[plan.label_table].stop - 1] = False  # the constant column
    scale = np.concatenate([table.scale for table in plan.tables])
    raw = X[:, kept] * scale
    deviation = np.sqrt(np.cov(raw.T, aweights=weight, ddof=0).diagonal())
    np.testing.assert_allclose(model.coef_per_deviation_[0], model.coef_[0] * deviation, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_a_left_join_and_of_a_sampler_are_scored(seed):
    join = joined(seed, left=True)
    model = RelationalLinearSVC(alpha=0.01, random_state=0).fit(join)
    rows = materialise(join)
    X, _, _ = design(join, prepare(join), rows)
    raw = rows[list(model.feature_names_in_)]
    np.testing.assert_allclose(model.decision_function(raw), X @ model.beta_, atol=1e-12)
    sampler = JoinSampler(join)
    encoded, _ = sampler.take(range(sampler.n_rows_))
    places = sampler.rows(range(sampler.n_rows_))
    order = pd.MultiIndex.from_arrays([places[t.name] for t in join.tables])
    wanted = pd.MultiIndex.from_frame(rows[[f"{t.name}.#" for t in join.tables]].fillna(-1).astype(int))
    expected = pd.Series(X @ model.beta_, wanted)[order]
    np.testing.assert_allclose(encoded @ model.coef_[0] + model.intercept_, expected, atol=1e-12)


def test_a_hole_in_a_matched_row_is_refused():
    people = pd.DataFrame({"shop": [1, 2, 3, 1], "age": [1.0, 2.0, 3.0, 4.0], "y": [0, 1, 0, 1]})
    shops = pd.DataFrame({"id": [1, 2], "size": [5.0, 6.0], "town": ["a", "b"]})
    join = Join([Table("p", people, features=["age"], label="y"), Table("s", shops, features=["size", "town"])],
                [("p.shop", "s.id", "left")])
    model = RelationalLinearSVC(alpha=0.1).fit(join)
    rows = pd.DataFrame({"p.age": [1.0, 2.0], "s.size": [None, 5.0], "s.town": [None, None]})
    assert model.predict(rows[:1]).shape == (1,)
    with pytest.raises(ValueError, match=r"Column 's.town' is NULL or NaN in 1 rows"):
        model.predict(rows)
    with pytest.raises(ValueError, match=r"Column 'p.age' is NULL or NaN in 1 rows"):
        model.predict(rows[:1].assign(**{"p.age": None}))


def test_a_saved_model_comes_back(tmp_path):
    join = joined(3)
    model = RelationalLinearSVC(alpha=0.01, tol=0.1, random_state=0).fit(join)
    save(model, tmp_path / "model.buttress")
    again = load(tmp_path / "model.buttress")
    assert set(vars(again)) == set(vars(model))
    assert again.objective_interval_ == model.objective_interval_
    raw = materialise(join)[list(model.feature_names_in_)]
    np.testing.assert_array_equal(again.predict(raw), model.predict(raw))
    np.testing.assert_array_equal(again.decision_function(join), model.decision_function(join))


def test_the_sample_reports_a_true_interval():
    join = joined(7)
    rows, plan = materialise(join), prepare(join)
    X, y, weight = design(join, plan, rows)
    model = RelationalLinearSVC(row_weight="join", alpha=0.05, solver="sample", random_state=0).fit(join)
    low, high = model.objective_interval_
    assert low <= objective(X, y, weight, model.beta_, 0.05) <= high + 1e-12
    assert low <= liblinear(X, y, weight, 0.05) + 1e-9
    assert model.gap_ < 0.2


def test_too_few_calls_warn():
    with pytest.warns(NotConvergedWarning, match="max_iter"):
        RelationalLinearSVC(tol=1e-12, n_samples=50, max_iter=3, random_state=0).fit(chain(200, 20, 3))


def test_duplicate_names_do_not_join_by_accident():
    join = random_join(1, shape="path", nulls=False)
    for table in join.tables:
        table.source["same"] = 1
    before = prepare(random_join(1, shape="path", nulls=False)).n_rows
    assert prepare(join).n_rows == before


def test_a_description_counts_the_sample_of_a_small_join():
    """Of 2,000 rows of tables the sample takes most: what numpy held at the peak of a fit is in what describe says."""
    join = chain(2000, 10, 3, d=8)
    said = describe(join).megabytes
    tracemalloc.start()
    RelationalLinearSVC(random_state=0, tol=0.1).fit(join)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert said / 4 < peak / 1e6 < said * 1.3
