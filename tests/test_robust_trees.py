"""Boosted trees against moved rows: splits by brute force, the limit of no moves, and proofs that no move breaks."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from buttress import (
    Budget,
    ModelFileError,
    RobustBoostingClassifier,
    RobustBoostingRegressor,
    ThreatModel,
    attacks,
    certificates,
    load,
    save,
)
from buttress._state import StateError, check_state
from buttress.solvers.gradient.attacked_trees import Grid, Growth, best_split, grown
from buttress.trees import Tree


def table(seed, n=200, d=5):
    return make_classification(n, d, n_informative=d - 1, n_redundant=1, flip_y=0.1, random_state=seed)


def gain(g, h, low, high, threshold, smaller_left, ridge):
    """The gain of a split by its definition, row by row, or None where its values are not in that order."""
    sums = {"left": [0.0, 0.0], "right": [0.0, 0.0]}
    for pull, bend, down, up in zip(g, h, low, high, strict=True):
        sides = (["left"] if down <= threshold else []) + (["right"] if up > threshold else [])
        worse = "left" if (pull > 0) == smaller_left else "right"
        side = worse if worse in sides else sides[0]
        sums[side][0] += pull
        sums[side][1] += bend
    (gl, hl), (gr, hr) = sums["left"], sums["right"]
    if not (hl > 0 and hr > 0):
        return None
    left, right = gl / (hl + ridge), gr / (hr + ridge)
    if (left > right) if smaller_left else (left < right):
        return None
    return gl * left + gr * right - g.sum() ** 2 / (h.sum() + ridge)


@pytest.mark.parametrize("seed", range(20))
def test_best_split_is_that_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (12, 3)).astype(float)
    low, high = X - rng.uniform(0, 1.5, X.shape), X + rng.uniform(0, 1.5, X.shape)
    g, h = rng.normal(size=12), rng.uniform(0.1, 1, 12)
    grid = Grid.of(low, high, 100)
    found = best_split(grid, grid.first, grid.last, g, h, Growth(1, 0.5))
    gains = {(j, place): value
             for j in range(3) for place, threshold in enumerate(grid.thresholds[j]) if np.isfinite(threshold)
             for smaller in (True, False)
             if (value := gain(g, h, low[:, j], high[:, j], threshold, smaller, 0.5)) is not None and value > 0}
    if not gains:
        assert found is None
    else:
        assert gains[found] == pytest.approx(max(gains.values()))


def test_rows_that_reach_both_sides_stay_in_their_box_below():
    """A tree splits twice on one column: what a row reaches there is what its box reaches."""
    X, y = table(0, d=3)
    low, high = X - 0.3, X + 0.3
    tree = grown(Grid.of(low, high, 50), np.where(y > 0, 0.5, -0.5), np.full(len(y), 0.25), Growth(4, 1.0), 1.0)
    least, most = tree.ends(low, high, np.ones(1))
    rng = np.random.default_rng(0)
    moved = low + (high - low) * rng.uniform(size=(300, *X.shape))
    values = np.stack([tree.ends(Z, Z, np.ones(1))[0] for Z in moved])
    assert (values >= least).all()
    assert (values <= most).all()
    assert np.mean(values.min(axis=0) == least) > 0.9  # and the ends are met, not only bounds


@pytest.mark.parametrize("depth", [1, 3])
def test_without_moves_it_is_boosting_by_histograms(depth):
    X, y = table(1)
    X = X.round(1)
    options = {"max_depth": depth, "l2_regularization": 2.0, "learning_rate": 0.3}
    other = {"max_leaf_nodes": None, "min_samples_leaf": 1, "early_stopping": False, "max_iter": 5}
    ours = RobustBoostingClassifier(eps=0.0, n_estimators=5, **options).fit(X, y)
    theirs = HistGradientBoostingClassifier(**options, **other).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    target = X @ np.arange(5.0) + y
    ours = RobustBoostingRegressor(eps=0.0, n_estimators=5, **options).fit(X, target)
    theirs = HistGradientBoostingRegressor(**options, **other).fit(X, target)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)


def test_the_objective_bounds_the_worst_losses():
    X, y = table(2)
    model = RobustBoostingClassifier(eps=0.3, n_estimators=30).fit(X, y)
    info = attacks.exact(model, X, y, eps=0.3, return_info=True)[1]
    worst = np.where(np.isfinite(info.bound), info.bound, info.margin)
    assert model.history_[-1]["objective"] >= np.logaddexp(0, -worst).sum() - 1e-6
    assert model.history_[-1]["objective"] < 0.9 * model.history_[0]["objective"]


@pytest.mark.parametrize("seed", range(3))
def test_no_attack_breaks_what_is_proven(seed):
    X, y = table(seed)
    fitted, judged = slice(0, 120), slice(120, None)
    for model in (RobustBoostingClassifier(eps=0.2, n_estimators=30), RandomForestClassifier(10, random_state=0),
                  make_pipeline(StandardScaler(), RobustBoostingClassifier(eps=0.2, n_estimators=20))):
        model.fit(X[fitted], y[fitted])
        named = model.predict(X[judged])
        proven = certificates.certified_within(model, X[judged], eps=0.2)
        info = attacks.exact(model, X[judged], named, eps=0.2, return_info=True)[1]
        assert proven.any()
        assert not (proven & info.success).any()
        radius = certificates.certified_radius(model, X[judged]).linf
        without = certificates.certified_within(model, X[judged], eps=0.2, max_parts=0)
        assert ((radius >= 0.2) == without).all()
        assert (without <= proven).all()
        rng = np.random.default_rng(seed)
        for _ in range(200):
            corner = X[judged] + radius[:, None] * rng.choice([-1, 1], X[judged].shape)
            assert (model.predict(corner) == named).all()


def test_radii_of_one_tree_are_exact():
    """Two leaves: the distance to the threshold is the radius, in every scale, and inf where the box holds it off."""
    X, y = np.array([[0.0, 5.0], [1.0, 3.0], [4.0, 1.0], [5.0, 2.0]]), np.array([0, 0, 1, 1])
    model = RobustBoostingClassifier(eps=0.0, max_depth=1, n_estimators=1, l2_regularization=0.0).fit(X, y)
    column = int(model.forest_.trees[0].feature[0])
    place = float(model.forest_.trees[0].threshold[0])
    distance = np.abs(X[:, column] - place)
    np.testing.assert_allclose(certificates.certified_radius(model, X).linf, distance, rtol=1e-9)
    scale = np.full(2, 0.0)
    scale[column] = 2.0
    np.testing.assert_allclose(certificates.certified_radius(model, X, scale=scale).linf, distance / 2, rtol=1e-9)
    assert np.isinf(certificates.certified_radius(model, X, scale=scale[::-1]).linf).all()
    np.testing.assert_array_equal(certificates.certified_within(model, X, eps=distance + 0.01), False)
    assert certificates.certified_within(model, X, eps=distance - 0.01).all()


def test_training_against_moves_proves_more():
    X, y = table(3, n=400)
    plain, trained = (RobustBoostingClassifier(eps=eps, max_depth=3).fit(X[:250], y[:250]) for eps in (0.0, 0.3))
    kept = [np.mean(certificates.certified_within(model, X[250:], eps=0.3) & (model.predict(X[250:]) == y[250:]))
            for model in (plain, trained)]
    assert kept[1] > kept[0] + 0.1


def test_a_threat_fixes_columns_and_swaps_categories():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), rng.integers(0, 2, 300), rng.normal(size=300)])
    y = (X[:, 0] + 2 * X[:, 1] + 0.5 * X[:, 2] > 1).astype(int)
    threat = ThreatModel({0: Budget(0.5)}, {1: [0, 1]})
    model = RobustBoostingClassifier(threat=threat).fit(X, y)
    assert all((tree.feature[tree.left >= 0] != 1).all() for tree in model.forest_.trees)  # a swap would cross it
    stands = certificates.certified_within(model, X, threat=threat)
    info = attacks.exact(model, X, model.predict(X), threat=threat, return_info=True)[1]
    assert stands.any()
    assert not (stands & info.success).any()


def test_one_radius_a_column_and_a_box():
    X, y = table(4)
    box = (X.min() - 1, X.max() + 1)
    one = RobustBoostingClassifier(eps=0.2, bounds=box, n_estimators=5).fit(X, y)
    each = RobustBoostingClassifier(eps=np.full(5, 0.2), n_estimators=5).fit(X, y)
    np.testing.assert_array_equal(one.decision_function(X), each.decision_function(X))
    with pytest.raises(ValueError, match="bounds exclude the data"):
        RobustBoostingClassifier(bounds=(0.0, 1.0)).fit(X, y)
    with pytest.raises(ValueError, match="one for each of the 5 columns"):
        RobustBoostingClassifier(eps=[0.1, 0.2]).fit(X, y)


def test_predictions_stay_in_their_range():
    X, y = load_diabetes(return_X_y=True)
    X = scale(X)
    model = RobustBoostingRegressor(eps=0.1).fit(X[:300], y[:300])
    low, high = model.predict_range(X[300:])
    rng = np.random.default_rng(0)
    for _ in range(200):
        moved = model.predict(X[300:] + 0.1 * rng.choice([-1, 1], X[300:].shape))
        assert (low <= moved).all()
        assert (moved <= high).all()
    plain = RobustBoostingRegressor(eps=0.0).fit(X[:300], y[:300]).set_params(eps=0.1)
    wide = np.subtract(*plain.predict_range(X[300:])[::-1])
    assert (high - low).mean() < 0.7 * wide.mean()


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_leaves_are_finite_without_regularisation(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 3))
    y = X[:, 0] + rng.normal(size=80) > 0
    model = RobustBoostingClassifier(eps=0.1, l2_regularization=0, learning_rate=1, max_depth=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a side of rounding alone is 0 / 0
        model.fit(X, y, sample_weight=10 ** rng.uniform(-8, 8, 80))
    assert np.isfinite(model.decision_function(X)).all()


def test_several_classes_and_files(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = RobustBoostingClassifier(eps=0.1, n_estimators=10).fit(X, y.map({0: "a", 1: "b", 2: "c"}))
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X))
    assert model.score(X, y.map({0: "a", 1: "b", 2: "c"})) > 0.9
    save(model, tmp_path / "trees.buttress")
    again = load(tmp_path / "trees.buttress")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_trees_whose_walk_never_ends_are_refused():
    tree = Tree(np.zeros(3, dtype=np.intp), np.zeros(3), np.array([1, -1, -1]), np.array([2, -1, -1]), np.ones((3, 1)))
    check_state(tree)
    for left in ([0, -1, -1], [7, -1, -1], [1, 0, -1], [-1, -1, -1]):
        with pytest.raises(StateError):
            check_state(replace(tree, left=np.array(left)))


def test_a_threat_is_kept_in_model_files_and_checked_there(tmp_path):
    X, y = table(5)
    threat = ThreatModel({0: Budget(0.3, step=0.1, direction="up"), 1: 0.2}, {2: [0.0, 1.0]})
    model = RobustBoostingClassifier(threat=threat, n_estimators=2).fit(X, y)
    save(model, tmp_path / "trees.buttress")
    assert load(tmp_path / "trees.buttress").threat == threat
    object.__setattr__(threat.numbers[0], "direction", "sideways")
    with pytest.raises(ModelFileError, match="direction"):
        save(model, tmp_path / "forged.buttress")


def test_what_is_no_threat_and_no_radius_is_refused():
    X, y = table(6)
    with pytest.raises(TypeError, match="threat must be a ThreatModel"):
        RobustBoostingClassifier(threat=0.1).fit(X, y)
    for eps in (-1, "a", np.nan, ["a"] * 5, [-1.0] * 5):
        with pytest.raises((ValueError, TypeError), match="eps must be"):
            RobustBoostingClassifier(eps=eps).fit(X, y)
