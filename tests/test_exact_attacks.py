"""Exact attacks against every cell that thresholds cut out of a ball, and against closed forms."""

import itertools
from functools import partial

import numpy as np
import pytest
from sklearn import config_context
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from buttress import RobustBoostingClassifier, attacks
from buttress.attacks.settling import program
from buttress.certificates import certified_radius, certified_within
from buttress.scores import as_classifier
from buttress.trees import read_forest

from problems import breast_cancer, iris, moons, problems

TREES = [
    DecisionTreeClassifier(random_state=0),
    RandomForestClassifier(7, random_state=0),
    ExtraTreesClassifier(7, max_depth=5, random_state=0),
    GradientBoostingClassifier(n_estimators=7, random_state=0),
    HistGradientBoostingClassifier(max_iter=7, random_state=0),
    ExtraTreeClassifier(max_depth=5, random_state=0),
    BaggingClassifier(n_estimators=7, max_samples=0.5, random_state=0),
    BaggingClassifier(n_estimators=20, max_samples=4, max_features=0.5, bootstrap_features=True, random_state=0),
]
trees = pytest.mark.parametrize("model", TREES, ids=lambda m: type(m).__name__)


@trees
@problems
def test_forests_are_read_as_they_score(model, problem):
    X, y = problem()
    model = model.fit(X, y)
    forest = read_forest(model, X)
    moved = X + np.random.default_rng(0).normal(scale=0.3, size=X.shape)
    scores = forest.scores(moved)
    if hasattr(model, "decision_function"):
        np.testing.assert_allclose(scores, model.decision_function(moved).reshape(len(X), -1), atol=1e-9)
    else:
        np.testing.assert_allclose(scores, model.predict_proba(moved), atol=1e-9)


def cells(forest, low, high):
    """One point of every cell of a box in which no tree has a threshold."""
    sides = []
    for j in range(len(low)):
        cuts = {t for tree in forest.trees for f, t, left in zip(tree.feature, tree.threshold, tree.left, strict=True)
                if left >= 0 and f == j and low[j] <= t < high[j]}
        edges = [low[j], *sorted(cuts), high[j]]
        sides.append([(a + b) / 2 for a, b in itertools.pairwise(edges)] + [low[j], high[j]])
    return np.array(list(itertools.product(*sides)))


@trees
def test_a_row_is_broken_if_and_only_if_some_cell_of_its_ball_is(model):
    X, y = moons(120)
    model = model.fit(X, y)
    forest = read_forest(model, X)
    rows, labels = X[:25], y[:25]
    for eps in (0.1, 0.3):
        found, info = attacks.exact(model, rows, labels, eps=eps, return_info=True)
        assert np.abs(found - rows).max() <= eps
        np.testing.assert_array_equal(info.success, model.predict(found) != labels)
        for i, (x, label) in enumerate(zip(rows, labels, strict=True)):
            broken = (model.predict(cells(forest, x - eps, x + eps)) != label).any()
            assert info.success[i] == broken or not info.proven[i]
        assert info.proven.mean() > 0.8  # a tie of votes is left open


REGRESSORS = [
    DecisionTreeRegressor(max_depth=6, random_state=0),
    ExtraTreeRegressor(max_depth=6, random_state=0),
    RandomForestRegressor(7, random_state=0),
    ExtraTreesRegressor(7, max_depth=5, random_state=0),
    BaggingRegressor(n_estimators=7, max_features=0.5, random_state=0),
    GradientBoostingRegressor(n_estimators=20, loss="huber", random_state=0),
    HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=5),
    make_pipeline(StandardScaler(), GradientBoostingRegressor(n_estimators=20, random_state=0)),
]


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda m: str(m)[:30])
def test_regressors_of_trees_are_settled_by_the_sign_of_what_they_predict_in_every_cell(model):
    X, y = moons(120)
    y = 2 * y - 1
    model = model.fit(X, y)
    rows, given = X[::4], np.where(model.predict(X[::4]) > 0, 1, -1)
    forest = read_forest(as_classifier(model), X)
    moved = X + np.random.default_rng(0).normal(scale=0.3, size=X.shape)
    np.testing.assert_allclose(forest.scores(moved)[:, 0], model.predict(moved), atol=1e-12)
    found, info = attacks.exact(model, rows, given, eps=0.2, return_info=True)
    proven = certified_within(model, rows, eps=0.2, max_parts=10_000)
    np.testing.assert_array_equal((model.predict(found) > 0) != (given > 0), info.success)
    for i, x in enumerate(rows):
        scores = model.predict(cells(forest, x - 0.2, x + 0.2)) * given[i]
        if abs(scores.min()) > 1e-9:  # else a tie
            assert info.success[i] == (scores.min() < 0) == (not proven[i])
            assert info.proven[i]
    assert 0 < proven.sum() < len(rows)


def test_regressors_of_positive_predictions_and_of_several_targets_are_not_read():
    X, y = moons(80)
    with pytest.raises(ValueError, match="has the loss 'poisson'"):
        attacks.exact(HistGradientBoostingRegressor(loss="poisson", max_iter=2).fit(X, y + 1), X, 2 * y - 1, eps=0.1)
    with pytest.raises(ValueError, match="several labels a row"):
        certified_radius(RandomForestRegressor(3).fit(X, np.column_stack([y, y])), X)


def no_program(*arguments):
    raise AssertionError("a program is solved")


@trees
@pytest.mark.parametrize("problem", [moons, iris], ids=lambda p: p.__name__)
def test_a_search_without_programs_says_what_all_cells_say_and_bounds_their_leads(model, problem, monkeypatch):
    monkeypatch.setattr(program, "_least_lead", no_program)
    X, y = problem()
    X = X[:, :2]
    model = model.fit(X, y)
    forest = read_forest(model, X)
    rows, codes = X[::6], np.searchsorted(model.classes_, y[::6])
    for eps in (0.1, 0.3):
        info = attacks.exact(model, rows, y[::6], eps=eps, return_info=True)[1]
        slack = max(forest.rounding(contrast) for contrast in np.concatenate(forest.contrasts))
        for i, x in enumerate(rows):
            everywhere = cells(forest, x - eps, x + eps)
            least = (forest.scores(everywhere) @ forest.contrasts[codes[i]].T).min()
            wrong = (model.predict(everywhere) != y[::6][i]).any()
            assert info.bound[i] <= least + slack
            assert not (wrong and info.proven[i] and not info.success[i])
            if abs(least) > 3 * slack:  # else a tie, which rounding decides
                assert info.proven[i]
                assert info.success[i] == wrong


@trees
def test_parts_and_programs_never_contradict_each_other(model, monkeypatch):
    X, y = breast_cancer()
    model = model.fit(X[:300], y[:300])
    verdicts = []
    for most in (1, 30, 10_000):
        monkeypatch.setattr(program, "PARTS", most)
        info = attacks.exact(model, X[300:330], y[300:330], eps=0.2, max_work=1e5, return_info=True)[1]
        verdicts.append((info.success, info.proven & ~info.success))
    for (broken, _), (_, proven) in itertools.product(verdicts, verdicts):
        assert not (broken & proven).any()
    assert (verdicts[2][0] | verdicts[2][1]).mean() > 0.8


@trees
def test_parts_prove_of_trees_what_cells_say_and_radii_reach_the_first_cell_that_breaks(model):
    X, y = moons(120)
    model = model.fit(X, y)
    forest, rows = read_forest(model, X), X[::6]

    def least(x, eps):
        everywhere = forest.scores(cells(forest, x - eps, x + eps))
        code = np.searchsorted(model.classes_, model.predict(x[None])[0])
        return (everywhere @ forest.contrasts[code].T).min()

    slack = 3 * max(forest.rounding(contrast) for contrast in np.concatenate(forest.contrasts))
    leads = np.array([least(x, 0.2) for x in rows])
    proven = certified_within(model, rows, eps=0.2, max_parts=10_000)
    np.testing.assert_array_equal(proven, leads > slack)
    assert proven.sum() >= certified_within(model, rows, eps=0.2).sum()
    radius = certified_radius(model, rows, max_parts=100_000).linf
    assert all(least(x, size * (1 - 1e-9)) > 0 for x, size in zip(rows, radius, strict=True) if 0 < size < np.inf)
    assert not any(least(x, size + 1e-6) > slack for x, size in zip(rows, radius, strict=True) if np.isfinite(size))
    assert (radius >= certified_radius(model, rows).linf).all()


def test_proofs_do_not_lean_on_a_gap_larger_than_the_leaves():
    """HiGHS calls a program solved at a gap of 1e-6, whatever its costs are."""
    X, y = moons(120)
    for rate, seed in itertools.product((1e-7, 1e-9), range(2)):
        model = GradientBoostingClassifier(n_estimators=12, learning_rate=rate, init="zero", subsample=0.6, max_depth=4,
                                           random_state=seed).fit(X, y)
        forest, info = read_forest(model, X), attacks.exact(model, X[:20], y[:20], eps=0.3, return_info=True)[1]
        broken = [(model.predict(cells(forest, X[i] - 0.3, X[i] + 0.3)) != y[i]).any() for i in range(20)]
        assert not (np.array(broken) & info.proven & ~info.success).any()
        assert (info.proven & ~info.success).any()


def test_boosting_that_starts_from_an_estimator_is_not_read_as_trees():
    X, y = moons(80)
    model = GradientBoostingClassifier(n_estimators=3, init=LogisticRegression()).fit(X, y)
    with pytest.raises(ValueError, match="starts from LogisticRegression"):
        attacks.exact(model, X, y, eps=0.1)


def test_no_attack_breaks_what_is_proven():
    X, y = breast_cancer()
    model = RandomForestClassifier(10, max_depth=6, random_state=0).fit(X[:300], y[:300])
    rows, labels = X[300:330], y[300:330]
    info = attacks.exact(model, rows, labels, eps=0.3, return_info=True)[1]
    other = attacks.worst_case(model, rows, labels, eps=0.3, steps=5, restarts=1, random_state=0, return_info=True)[1]
    assert not (other.success & info.proven & ~info.success).any()
    assert info.success.sum() >= other.success.sum()
    assert info.proven.mean() > 0.9


def test_without_time_nothing_is_claimed():
    X, y = breast_cancer()
    model = HistGradientBoostingClassifier(max_iter=30, random_state=0).fit(X[:300], y[:300])
    rows, labels = X[300:304], y[300:304]
    short = attacks.exact(model, rows, labels, eps=0.5, max_row_time=1e-3, return_info=True)[1]
    long = attacks.exact(model, rows, labels, eps=0.5, max_row_time=20, return_info=True)[1]
    assert (long.proven | ~short.proven).all()
    assert (short.bound <= long.bound + 1e-6).all()


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("problem", [moons, iris, breast_cancer], ids=lambda p: p.__name__)
def test_linear_models_fall_exactly_at_their_distance(problem, norm):
    X, y = problem()
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    rows, labels = X[::5], model.predict(X[::5])
    codes = np.searchsorted(model.classes_, labels)
    scores, W = model.decision_function(rows), model[-1].coef_ / model[0].scale_
    if scores.ndim == 1:
        scores, W = np.column_stack([-scores, scores]) / 2, np.vstack([-W, W]) / 2
    power = 1 if norm == "linf" else 2
    distance = np.full(len(rows), np.inf)
    for rival in range(scores.shape[1]):
        lead = scores[np.arange(len(rows)), codes] - scores[:, rival]
        size = np.linalg.norm(W[codes] - W[rival], ord=power, axis=1)
        distance = np.where(codes == rival, distance, np.minimum(distance, lead / np.maximum(size, 1e-300)))
    eps = float(np.median(distance))
    for share in (1 - 1e-6, 1 + 1e-6):
        info = attacks.exact(model, rows, labels, eps=share * eps, norm=norm, return_info=True)[1]
        np.testing.assert_array_equal(info.success, distance < share * eps)
        assert info.proven.all()


def test_a_box_is_kept_and_used_to_its_end():
    X, y = moons(60)
    model = LogisticRegression().fit(X, y)
    low, high = X - [0.0, 0.2], X + [0.0, 0.2]  # the first column is fixed
    found = attacks.exact(model, X, y, eps=0.5, norm="l2", bounds=(low, high))
    np.testing.assert_array_equal(found[:, 0], X[:, 0])
    np.testing.assert_allclose(np.abs(found[:, 1] - X[:, 1]), 0.2, atol=1e-9)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (GaussianNB(), {}, "No exact attack is known for GaussianNB"),
        (DecisionTreeClassifier(), {"norm": "l2"}, "linf' only"),
        (DecisionTreeClassifier(), {"eps": -1}, "eps must be in"),
        (DecisionTreeClassifier(), {"max_row_time": 0}, "max_row_time must be in"),
        (HistGradientBoostingClassifier(categorical_features=[0], max_iter=2), {}, "categorical columns"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_not_known_is_refused(model, options, message):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 4, 100), rng.normal(size=100)]).astype(float)
    model = model.fit(X, (X[:, 0] % 2).astype(int))
    with pytest.raises(ValueError, match=message):
        attacks.exact(model, X, (X[:, 0] % 2).astype(int), **{"eps": 0.1, **options})


def test_categories_that_no_tree_splits_are_refused_too_for_they_change_places():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), rng.integers(0, 2, 200)])
    model = HistGradientBoostingClassifier(categorical_features=[1], max_iter=2, max_depth=1).fit(X, X[:, 0] > 0)
    assert not any(tree.nodes["is_categorical"].any() for (tree,) in model._predictors)
    with pytest.raises(ValueError, match="categorical columns"):
        certified_radius(model, X)


def test_bagged_trees_that_saw_some_columns_and_classes_are_put_in_the_whole():
    X, y = iris()
    bag = BaggingClassifier(n_estimators=20, max_samples=4, max_features=0.5, random_state=0)
    with config_context(enable_metadata_routing=True):  # each tree is then given its rows, and no weights
        bag.fit(X, y)
    assert {len(tree.classes_) for tree in bag.estimators_} >= {2, 3}
    radius = certified_radius(bag, X).linf
    assert (radius > 0).mean() > 0.5
    rng, predicted = np.random.default_rng(0), bag.predict(X)
    for _ in range(200):
        moved = X + rng.choice([-1.0, 1.0], size=X.shape) * np.minimum(radius, 1e3)[:, None] * (1 - 1e-9)
        np.testing.assert_array_equal(bag.predict(moved), predicted)


def test_bags_of_other_machines_are_no_trees():
    X, y = moons(60)
    bag = BaggingClassifier(LogisticRegression(), n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match="BaggingClassifier of trees"):
        attacks.exact(bag, X, y, eps=0.1)


@pytest.mark.parametrize("scaler", [MinMaxScaler(), StandardScaler()])
def test_rows_that_a_scaler_rounds_otherwise_are_refused(scaler):
    """Behind a scaler a float32 row can have another class than the float64 row of the same numbers."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 1)).astype(np.float32), rng.integers(0, 2, 200)
    model = make_pipeline(scaler, DecisionTreeClassifier(random_state=0)).fit(X, y)
    tree = read_forest(model, X.astype(float)).trees[0]
    cuts = tree.threshold[tree.left >= 0].astype(np.float32)
    beside = np.concatenate([cuts, *(np.nextafter(cuts, np.float32(end)) for end in (-np.inf, np.inf))])[:, None]
    assert (model.predict(beside) != model.predict(beside.astype(float))).any()
    robust = make_pipeline(scaler, RobustBoostingClassifier(eps=0.001, n_estimators=3)).fit(X, y)
    for asked in (certified_radius, partial(certified_within, eps=0.1)):
        asked(model, X.astype(float))
        for proven in (model, robust):
            with pytest.raises(ValueError, match="X must be of float64 where trees stand behind a scaler"):
                asked(proven, X)
