"""Attacks that look for the nearest error, against exact distances of linear models and brute force, and bad input."""

import itertools
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import SVC, AdversarialSVC, attacks
from buttress.attacks.targets import as_target
from buttress.kernels import RBF

from problems import KERNELS, iris, margin, moons, noisy, of_columns, points, problems


def exact_distance(model, X):
    """Of the rows X from the decision boundary of a linear machine, in l2."""
    return np.abs(model.decision_function(X)) / np.linalg.norm(model.dual_coef_ @ model.support_vectors_)


@pytest.mark.parametrize(
    ("attack", "options"),
    [
        (attacks.carlini_wagner, {}),
        (attacks.zoo, {}),
        (attacks.zoo, {"coordinates": 3, "steps": 600}),
    ],
    ids=["cw", "zoo", "zoo-3-coordinates"],
)
def test_nearest_attacks_find_the_exact_distance_of_linear_models(attack, options):
    X, y = noisy(60)
    model = SVC(kernel="linear").fit(X, y)
    found, info = attack(model, X, y, return_info=True, random_state=0, **options)
    right = model.predict(X) == y
    assert info.success.all()
    assert (info.distance[~right] == 0).all()
    np.testing.assert_allclose(info.distance, np.linalg.norm(found - X, axis=1))
    ratio = info.distance[right] / exact_distance(model, X[right])
    assert ratio.min() >= 1 - 1e-9
    assert np.median(ratio) < 1.01
    assert np.quantile(ratio, 0.9) < 1.1
    np.testing.assert_array_equal(model.predict(found) != y, True)
    before = X + (1 - 2e-6) * (found - X)  # drawn back to a millionth of the way
    np.testing.assert_array_equal(model.predict(before) == y, right)


def test_a_row_fares_alone_as_it_does_among_others():
    X, y = load_digits(return_X_y=True)
    model = SVC(C=10).fit(X[:800] / 16, y[:800])
    X, y = X[1000:1020] / 16, y[1000:1020]
    attack = partial(attacks.carlini_wagner, model, bounds=(0, 1), random_state=0, return_info=True)
    among = attack(X, y)[1].distance
    alone = [attack(X[i : i + 1], y[i : i + 1])[1].distance[0] for i in range(len(X))]
    np.testing.assert_allclose(alone, among, rtol=0.05)
    assert np.mean(alone) == pytest.approx(among.mean(), rel=0.01)


@problems
def test_zoo_goes_where_carlini_and_wagner_go_on_linear_models(problem):
    """Both towards the boundary of the nearest rival, straight."""
    X, y = problem()
    model = SVC(kernel="linear").fit(X, y)
    moves = [attack(model, X, y, random_state=0) - X for attack in (attacks.carlini_wagner, attacks.zoo)]
    moved = (model.predict(X) == y) & (np.linalg.norm(moves[0], axis=1) > 0)
    ours, theirs = (move[moved] / np.linalg.norm(move[moved], axis=1, keepdims=True) for move in moves)
    assert np.median((ours * theirs).sum(axis=1)) > 0.999


@problems
def test_nearest_attacks_come_close_to_the_nearest_point_of_a_grid(problem):
    X, y = problem()
    X = X[:, :2]
    model = SVC(gamma=1.0).fit(X, y)
    X, y = X[::10], y[::10]
    side = np.linspace(-3, 3, 151)
    offsets = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    lengths = np.linalg.norm(offsets, axis=1)
    nearest = np.array([lengths[model.predict(x + offsets) != label].min() for x, label in zip(X, y)])
    for attack in (attacks.carlini_wagner, attacks.zoo):
        _, info = attack(model, X, y, random_state=0, return_info=True)
        assert info.success.mean() >= 0.8
        found = info.success
        assert (info.distance[found] >= nearest[found] - 0.06).all()
        assert np.median(info.distance[found] - nearest[found]) <= 0.02


def test_an_unlimited_attack_tells_models_apart_by_distance_only():
    X, y = make_moons(150, noise=0.1, random_state=0)
    natural, trained = SVC(C=10).fit(X, y), AdversarialSVC(C=10, eps=0.25, random_state=0).fit(X, y)
    attack = partial(attacks.carlini_wagner, X=X, y=y, random_state=0, return_info=True)
    near, far = (attack(model)[1] for model in (natural, trained))
    assert near.success.all()
    assert far.success.all()
    assert np.median(far.distance) > 1.5 * np.median(near.distance)
    attack = partial(attacks.zoo, X=X[::3], y=y[::3], random_state=0, return_info=True)
    near, far = (attack(model)[1] for model in (natural, trained))
    assert near.success.all()
    assert far.success.mean() > 0.9
    assert np.median(far.distance) > 1.5 * np.median(near.distance)


@pytest.mark.parametrize("attack", [attacks.carlini_wagner, attacks.zoo])
def test_kappa_is_the_margin_to_be_wrong_by(attack):
    X, y = moons(40)
    model = SVC(gamma=1.0).fit(X, y)
    near = attack(model, X, y, random_state=0, return_info=True)[1]
    found, info = attack(model, X, y, kappa=0.3, random_state=0, return_info=True)
    reached = margin(model, found, y) <= -0.3
    assert reached.mean() > 0.9
    assert np.median(info.distance - near.distance) > 0.05
    assert np.median(margin(model, found, y)[info.distance > 0]) > -0.32


def test_nearest_attacks_stay_in_the_box_and_say_when_they_fail():
    X, y = moons(40)
    model = SVC(gamma=1.0).fit(X, y)
    box = (X - 0.05, X + 0.05)
    for attack in (attacks.carlini_wagner, attacks.zoo):
        found, info = attack(model, X, y, bounds=box, return_info=True)
        assert np.abs(found - X).max() <= 0.05 + 1e-12
        np.testing.assert_array_equal(info.success, model.predict(found) != y)
        assert 0 < info.success.sum() < 40


def test_zoo_scores_steps_along_coordinates_as_fresh_queries_would():
    X, y = iris()
    rng = np.random.default_rng(0)
    rows, columns = np.array([3, 0, 7]), rng.integers(0, 4, (3, 5))
    alike = np.array([0.3, -0.2, 1e-4, 2.0])[columns] * rng.choice([-1, 1], (3, 5))  # one length a column, as in ZOO
    for kernel, steps in itertools.product([*KERNELS, RBF(1e3)], [rng.normal(size=(3, 5)), alike]):
        target = as_target(make_pipeline(StandardScaler(), SVC(kernel=of_columns(kernel, 4))).fit(X, y))
        V = rng.normal(size=(3, 3))
        got = target.nudged(X[rows], columns, steps, V)
        for r, b in np.ndindex(3, 5):
            moved = X[rows[r]].copy()
            moved[columns[r, b]] += steps[r, b]
            assert got[r, b] == pytest.approx(float(target.scores(moved[None])[0] @ V[r]), rel=1e-9, abs=1e-9)


def test_zoo_counts_two_queries_a_coordinate_and_one_a_step():
    X, y = points(1, 6), np.array([1])
    model = SVC(kernel="linear").fit(np.array([[-1.0] * 6, [1.0] * 6]), [0, 1])
    y = 1 - (model.predict(X) == 0)
    info = attacks.zoo(model, X, y, steps=1, rounds=1, coordinates=4, return_info=True)[1]
    assert info.queries == 1 + 2 * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kappa": -1}, "kappa must be in"),
        ({"steps": 0}, "steps must be"),
        ({"learning_rate": 0}, "learning_rate must be"),
    ],
)
@pytest.mark.parametrize("attack", [attacks.carlini_wagner, attacks.zoo])
def test_bad_options_of_nearest_attacks_are_refused(attack, options, message):
    X, y = moons(40)
    with pytest.raises(ValueError, match=message):
        attack(SVC().fit(X, y), X, y, **options)


def test_nearest_attacks_in_single_precision_cross_the_border_as_surely():
    X, y = iris()
    model = SVC(gamma=1.0, C=10.0).fit(X, y)
    double, single = (attacks.carlini_wagner(model, X.astype(kind), y, random_state=0, return_info=True)[1]
                      for kind in (np.float64, np.float32))
    assert (single.success != double.success).mean() < 0.01  # one row in 150 may depend on rounding
    assert np.median(single.distance) == pytest.approx(np.median(double.distance), rel=0.01)
