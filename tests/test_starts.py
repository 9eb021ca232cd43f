"""Starts at rows of another class, and walks to rivals, against what gradients alone find and against dense grids."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import logsumexp
from sklearn.datasets import load_wine
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
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


def may_be_nearest(own, rivals, x, eps):
    """Say whether some point within eps of x, columnwise, is nearer to a rival than to each of its own: exact."""
    limits = np.column_stack([x - eps, x + eps])
    for rival in rivals:
        A, b = 2 * (own - rival), (own**2).sum(axis=1) - (rival**2).sum()
        if linprog(np.zeros(len(x)), A, b, bounds=limits).status == 0:
            return True
    return False


def test_the_nearest_row_is_another_where_a_linear_program_says_that_it_can_be():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    order = np.random.default_rng(0).permutation(len(X))
    known, asked = order[40:], order[:40]
    model = KNeighborsClassifier(1).fit(X[known], y[known])
    truth = [model.predict([x])[0] != label
             or may_be_nearest(X[known][y[known] == label], X[known][y[known] != label], x, 0.5)
             for x, label in zip(X[asked], y[asked], strict=True)]
    info = attacks.worst_case(model, X[asked], y[asked], eps=0.5, random_state=0, return_info=True)[1]
    assert not (info.success & ~np.array(truth)).any()
    assert info.success.sum() >= sum(truth) - 1 >= 20
    scaled = make_pipeline(StandardScaler(), KNeighborsClassifier(1)).fit(X[known] * 7 + 3, y[known])
    behind = attacks.worst_case(scaled, X[asked] * 7 + 3, y[asked], eps=3.5, random_state=0, return_info=True)[1]
    assert abs(behind.success.sum() - info.success.sum()) <= 2


def test_neighbours_are_left_by_the_slopes_of_soft_votes_of_a_width_that_is_held():
    X, y = iris()
    model = KNeighborsClassifier(5).fit(X, y)
    rows, V = X[::11] + 0.1, np.random.default_rng(0).normal(size=(len(X[::11]), 3))
    scores, gradient = pose(model, rows, y[::11], None).target.linearise(rows)
    np.testing.assert_allclose(scores, np.log(np.clip(model.predict_proba(rows), 1e-300, None)))
    widths = np.sort(((rows[:, None] - X) ** 2).sum(axis=2), axis=1)[:, 4] / 4

    def soft(moved):
        apart = ((moved[:, None] - X) ** 2).sum(axis=2) / widths[:, None]
        return sum(V[:, c] * logsumexp(-apart[:, y == c], axis=1) for c in range(3))

    step = 1e-6 * np.eye(X.shape[1])
    slopes = np.column_stack([(soft(rows + e) - soft(rows - e)) / 2e-6 for e in step])
    np.testing.assert_allclose(gradient(V), slopes, rtol=1e-5, atol=1e-5)


def test_one_row_far_from_all_others_hides_no_neighbour():
    """It is nobody's neighbour, so it must not say how far the votes of others reach."""
    X, y = iris()
    rows, labels = X[::4], y[::4]
    left = [attacks.pgd(KNeighborsClassifier(3).fit(np.vstack([X, X[:1] + far]), np.append(y, 0)), rows, labels,
                        eps=0.6, return_info=True)[1].success.sum() for far in (1e6, 1e150)]
    assert left[0] == left[1] == attacks.pgd(KNeighborsClassifier(3).fit(X, y), rows, labels, eps=0.6,
                                             return_info=True)[1].success.sum() > 5


def test_votes_that_never_change_are_said_to_be_flat():
    X, y = moons(60)
    with pytest.warns(UserWarning, match="No score of KNeighborsClassifier changed"):
        attacks.pgd(KNeighborsClassifier(60).fit(X, y), X, y, eps=0.3)


@pytest.mark.filterwarnings("ignore::buttress.BlindAttackWarning")
@pytest.mark.parametrize(("attack", "restarts"), [(attacks.pgd, 2), (attacks.worst_case, 1)])
def test_neighbours_with_gaps_are_attacked_by_numbers(attack, restarts):
    """A neighbour with a gap is no place to start at."""
    X, y = moons(60)
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    model = KNeighborsClassifier(3, metric="nan_euclidean").fit(gaps, y)
    moved, info = attack(model, X, y, eps=0.5, steps=5, restarts=restarts, random_state=0, return_info=True)
    assert 0 < np.abs(moved - X).max() <= 0.5 * (1 + 1e-12)
    np.testing.assert_array_equal(info.success, model.predict(moved) != y)
    assert info.success.sum() > (model.predict(X) != y).sum()


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
