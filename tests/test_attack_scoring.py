"""Accuracy under attack as a score: the closed form of linear machines, and what a search chooses by it."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import SVC, AdversarialLinearSVC, attacks

from problems import breast_cancer, moons


@pytest.mark.parametrize(("norm", "dual"), [("linf", 1), ("l2", 2)])
def test_of_a_linear_machine_it_is_the_share_of_margins_beyond_the_ball(norm, dual):
    X, y = breast_cancer()
    model = AdversarialLinearSVC(norm=norm, eps=0.2).fit(X, y)
    margin = (2 * y - 1) * model.decision_function(X) - 0.3 * np.linalg.norm(model.coef_[0], dual)
    assert attacks.AttackedAccuracy(eps=0.3, norm=norm)(model, X, y) == pytest.approx((margin > 0).mean(), abs=0.005)


def test_a_search_chooses_what_withstands_most():
    X, y = moons(150, noise=0.1)
    score, grid, folds = attacks.AttackedAccuracy(eps=0.2), [0.3, 1.0, 100.0], KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC(C=10)), {"svc__gamma": grid}, scoring=score, cv=folds)
    search.fit(X, y)
    means = []
    for gamma in grid:
        each = []
        for train, test in folds.split(X):
            model = make_pipeline(StandardScaler(), SVC(C=10, gamma=gamma)).fit(X[train], y[train])
            moved = attacks.pgd(model, X[test], y[test], eps=0.2, steps=20, random_state=0)
            each.append((model.predict(moved) == y[test]).mean())
        means.append(np.mean(each))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], means)
    assert search.best_params_["svc__gamma"] == grid[int(np.argmax(means))] < 100


def test_it_is_kept_in_pickles_as_searches_in_several_processes_need():
    score = attacks.AttackedAccuracy(eps=0.2, bounds=(0, 1))
    assert pickle.loads(pickle.dumps(score)) == score
