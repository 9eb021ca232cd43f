"""Starts at rows of another class, and walks to rivals, against what gradients alone find and against dense grids."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC as SKLearnSVC

from buttress import SVC, attacks
from buttress.attacks.ball import Ball
from buttress.attacks.gradient import starts_at_others
from buttress.attacks.problem import pose

from problems import breast_cancer, iris, moons


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_starts_are_the_points_of_the_ball_nearest_to_the_nearest_other_row(norm):
    X, y = moons(60)
    model = KNeighborsClassifier(1).fit(X, y)
    problem = pose(model, X, y, None)
    eps = 0.2
    first = next(starts_at_others(problem, np.arange(60), Ball(eps, norm), 3))
    order = np.inf if norm == "linf" else 2
    for x, label, start in zip(X, y, first, strict=True):
        others = X[y != label]
        distance = np.linalg.norm(others - x, ord=order, axis=1)
        target = others[distance.argmin()]
        expected = np.clip(target, x - eps, x + eps) if norm == "linf" else x + (target - x) * min(
            1, eps / distance.min())
        np.testing.assert_allclose(start, expected, atol=1e-12)


def test_neighbours_that_show_no_slope_are_broken_where_a_grid_says_so():
    X, y = moons(100)
    model = KNeighborsClassifier(3).fit(X, y)
    side = np.linspace(-0.3, 0.3, 41)
    offsets = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    rows, labels = X[:25], y[:25]
    brute = np.array([(model.predict(x + offsets) != label).any() for x, label in zip(rows, labels, strict=True)])
    info = attacks.worst_case(model, rows, labels, eps=0.3, steps=5, restarts=1, random_state=0, return_info=True)[1]
    assert info.success.mean() >= brute.mean() - 0.05


def test_a_narrow_kernel_falls_to_the_second_start():
    X, y = breast_cancer()
    model = SKLearnSVC(C=10, gamma=0.5).fit(X[:300], y[:300])
    rows, labels = X[300:400], y[300:400]
    plain, started = (attacks.pgd(model, rows, labels, eps=0.5, restarts=restarts, random_state=0, return_info=True)[1]
                      for restarts in (1, 2))
    assert started.success.sum() > plain.success.sum()


def test_no_row_of_another_class_gives_no_start():
    X, y = moons(40)
    model = SVC(kernel="linear").fit(X, y)
    model.expansion_.intercept[:] += 1e6
    problem = pose(model, X, y, None)
    assert list(starts_at_others(problem, np.flatnonzero(y == 1), Ball(0.1, "linf"), 3)) == []


def test_a_machine_that_votes_falls_wherever_a_grid_says_so():
    X, y = iris()
    X = X[:, 2:]
    model = SKLearnSVC(gamma=0.5, C=10, decision_function_shape="ovo").fit(X, y)
    side = np.linspace(-0.6, 0.6, 41)
    offsets = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    brute = np.array([(model.predict(x + offsets) != label).any() for x, label in zip(X, y, strict=True)])
    info = attacks.pgd(model, X, y, eps=0.6, steps=40, return_info=True)[1]
    assert info.success.mean() >= brute.mean() - 0.02
