"""Poisoned training data: what is returned is what was fitted, against exact truth and random labels."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeClassifier
from sklearn.tree import DecisionTreeClassifier

from buttress import SVC, SVR, LeastSquaresClassifier
from buttress.attacks import poison_labels, poison_rows, poison_targets
from buttress.certificates import training_accuracy


def table(n=120, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=n), [0.0] if classes == 2 else [-0.5, 0.5])
    return X[: n // 2], y[: n // 2], X[n // 2 :], y[n // 2 :]


LEARNERS = [SVC(), RidgeClassifier(), DecisionTreeClassifier(max_depth=4, random_state=0)]


@pytest.mark.parametrize("model", LEARNERS, ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_what_is_said_is_what_a_fit_gives(model, classes):
    X, y, Z, truth = table(classes=classes)
    found = poison_labels(model, X, y, Z, truth, flips=9)
    assert (found.y != y).sum() == 9
    np.testing.assert_array_equal(np.flatnonzero(found.y != y), np.sort(found.rows))
    assert found.score == model.fit(found.X, found.y).score(Z, truth)
    assert found.clean == model.fit(X, y).score(Z, truth)
    put_in = poison_rows(model, X, y, Z, truth, rows=9, bounds=(-0.5, [0.5, 1.0, 1.5]))
    np.testing.assert_array_equal(put_in.X[:60], X)
    assert (put_in.X[60:] >= -0.5).all()
    assert (put_in.X[60:] <= [0.5, 1.0, 1.5]).all()
    assert put_in.score == model.fit(put_in.X, put_in.y).score(Z, truth)


@pytest.mark.parametrize("seed", range(3))
def test_labels_come_near_the_worst_there_are(seed):
    X, y, Z, truth = table(28, seed)
    model = RidgeClassifier(alpha=1.0)
    worst = 1.0
    for rows in combinations(range(14), 2):
        other = y.copy()
        other[list(rows)] ^= 1
        worst = min(worst, model.fit(X, other).score(Z, truth))
    found = poison_labels(model, X, y, Z, truth, flips=2)
    proven = training_accuracy(model.fit(X, y), X, y, Z, truth, flips=2)
    assert proven.together <= worst <= found.score
    assert found.score <= worst + 2 / 14 + 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_targets_come_near_the_worst_there_are(seed):
    """All pairs of targets at all ends, for a regressor that is no surrogate of the attack."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(28, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=28)
    X, Z, y, truth = X[:14], X[14:], y[:14], y[14:]
    model, ends = KernelRidge(kernel="rbf", alpha=0.5, gamma=0.2), (-2.0, 3.0)
    worst = 1.0
    for rows in combinations(range(14), 2):
        for new in product(ends, repeat=2):
            other = y.copy()
            other[list(rows)] = new
            worst = min(worst, model.fit(X, other).score(Z, truth))
    found = poison_targets(model, X, y, Z, truth, targets=2, bounds=ends)
    assert set(found.y[found.rows]) <= set(ends)
    np.testing.assert_array_equal(np.delete(found.y, found.rows), np.delete(y, found.rows))
    assert found.score == model.fit(X, found.y).score(Z, truth)
    assert found.clean == model.fit(X, y).score(Z, truth)
    assert 0.85 * np.sqrt(1 - worst) <= np.sqrt(1 - found.score) <= np.sqrt(1 - worst)  # errors in spreads of truth


def test_exchanged_labels_do_more_harm_than_labels_one_after_another():
    """Of least squares, whose worst labels the program of the proof comes near."""
    X, y, Z, truth = table(240, 1)
    model = LeastSquaresClassifier()
    found = poison_labels(model, X, y, Z, truth, flips=24)
    program = training_accuracy(model.fit(X, y), X, y, Z, truth, flips=24)
    assert program.together <= found.score <= program.attacked


def test_it_does_more_harm_than_chance():
    X, y, Z, truth = table(400)
    model = LeastSquaresClassifier()
    found = poison_labels(model, X, y, Z, truth, flips=40)
    rng, by_chance = np.random.default_rng(1), []
    for _ in range(5):
        other = y.copy()
        other[rng.permutation(len(y))[:40]] ^= 1
        by_chance.append(model.fit(X, other).score(Z, truth))
    assert found.score < min(by_chance) - 0.05


def test_no_poison_changes_nothing_and_bad_input_is_refused():
    X, y = load_iris(return_X_y=True)
    found = poison_labels(SVC(), X, y, X, y, flips=0)
    assert found.score == found.clean
    assert len(found.rows) == 0
    with pytest.raises(ValueError, match="flips"):
        poison_labels(SVC(), X, y, X, y, flips=-1)
    with pytest.raises(ValueError, match="one label a row"):
        poison_labels(SVC(), X, y, X, y[:-1], flips=1)
    with pytest.raises(ValueError, match="bounds"):
        poison_rows(SVC(), X, y, X, y, rows=3, bounds=(1.0, 0.0))
    with pytest.raises(ValueError, match="classes of y"):
        poison_labels(SVC(), X, y, X, y + 1, flips=1)
    for bad, message in (({"targets": -1}, "targets"), ({"targets": 1, "bounds": (0.0, np.inf)}, "bounds")):
        with pytest.raises(ValueError, match=message):
            poison_targets(SVR(), X, y, X, y, **bad)
    for attack, model, other in ((poison_labels, SVR(), "poison_targets"), (poison_targets, SVC(), "poison_labels")):
        with pytest.raises(ValueError, match=f"Use {other}"):
            attack(model, X, y, X, y, **{attack.__name__.removeprefix("poison_").replace("labels", "flips"): 1})
    for wrong, name in ((np.nan, "y"), (np.inf, "y"), (1e300, "y")):
        with pytest.raises(ValueError, match=f"'?{name}'? "):
            poison_targets(SVR(), X, np.where(y == 1, wrong, y), X, y, targets=1)
    for few in (slice(0, 1), slice(0, 50)):  # one row, and one target: R^2 is not defined
        with pytest.raises(ValueError, match="y_test must hold two different"):
            poison_targets(SVR(), X, y, X[few], y[few], targets=1)
    assert len(poison_targets(SVR(), X, y, X, y, targets=0).rows) == 0


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e5])
def test_moved_targets_are_at_an_end_and_no_other_is_said_to_be_moved(unit):
    X, _, Z, _ = table()
    rng = np.random.default_rng(3)
    y = np.append(unit * rng.normal(size=50), np.repeat(2 * unit, 10))
    for targets in (5, 60):
        found = poison_targets(SVR(), X, y, Z, rng.normal(size=60), targets=targets)
        np.testing.assert_array_equal(np.flatnonzero(found.y != y), np.sort(found.rows))
        assert np.isin(found.y[found.rows], [y.min(), y.max()]).all()


def test_columns_in_another_order_are_refused():
    """The model is fitted to arrays, which have no names: what was asked about would be another row."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["a", "b"])
    y = np.where(X.a > 0, "u", "v")
    for poison, options in ((poison_labels, {"flips": 1}), (poison_rows, {"rows": 1})):
        named, plain = (poison(SVC(), rows, y, rows, y, random_state=0, **options) for rows in (X, X.to_numpy()))
        np.testing.assert_array_equal(named.X, plain.X)
        np.testing.assert_array_equal(named.y, plain.y)
        with pytest.raises(ValueError, match="in their order: a, b"):
            poison(SVC(), X, y, X[["b", "a"]], y, random_state=0, **options)
