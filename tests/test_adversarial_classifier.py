"""The chooser: the candidate that keeps more held-out rows, and of those that keep about as many the first."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_circles

from buttress import (
    SVC,
    AdversarialClassifier,
    AdversarialLinearSVC,
    AdversarialSVC,
    CertifiedSVC,
    attacks,
    certificates,
)
from buttress.adversarial import chooser
from buttress.attacks.scoring import AttackedAccuracy

from problems import iris, moons

SHORT = {"max_iter": 10, "n_landmarks": 20}
TWO = [CertifiedSVC(**SHORT), AdversarialSVC(**SHORT)]


class Named(ClassifierMixin, BaseEstimator):
    """A classifier with a name and nothing else."""

    def __init__(self, name="first"):
        self.name = name

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


@pytest.mark.parametrize("number", [0, 1])
def test_the_machine_chosen_is_fitted_to_all_rows(number, monkeypatch):
    monkeypatch.setattr(AdversarialClassifier, "_chosen", lambda self, candidates, *data: (candidates[number], {}))
    X, y = moons(80)
    bounds = (X - 0.5, X + 0.5)
    model = AdversarialClassifier(TWO, eps=0.2, norm="l2", bounds=bounds, random_state=0).fit(X, y)
    same = type(TWO[number])(**SHORT, eps=0.2, norm="l2", bounds=bounds, random_state=0).fit(X, y)
    assert model.chosen_ == type(same).__name__
    for method in ("decision_function", "predict", "predict_proba", "predict_log_proba", "predict_set"):
        np.testing.assert_array_equal(getattr(model, method)(X), getattr(same, method)(X))


@pytest.mark.parametrize(
    ("gained", "lost", "taken"),
    [(0, 0, "first"), (1, 0, "first"), (2, 0, "second"), (5, 2, "second"), (4, 2, "first"), (0, 5, "first")],
)
def test_a_later_candidate_must_keep_more_rows_by_more_than_their_standard_error(gained, lost, taken, monkeypatch):
    def kept(self, model, X, y):
        out = np.arange(len(X)) >= gained + lost
        out[slice(0, gained) if model.name == "second" else slice(gained, gained + lost)] = True
        return out

    monkeypatch.setattr(AttackedAccuracy, "kept", kept)
    model = AdversarialClassifier([Named("first"), Named("second")]).fit(*moons(80))
    assert model.estimator_.name == taken


def test_no_row_is_both_fitted_and_held_out_and_every_class_keeps_its_share():
    codes = np.repeat([0, 1, 2], [3000, 100, 3])
    fitted, held_out = chooser.parts(codes, np.random.RandomState(0), chooser.COMPARED_ROWS)
    assert len(np.unique(np.concatenate([fitted, held_out]))) == len(fitted) + len(held_out) <= 2004
    assert np.bincount(codes[fitted], minlength=3)[2] == 3
    share = np.bincount(codes[held_out], minlength=3) / np.bincount(codes[np.concatenate([fitted, held_out])])
    np.testing.assert_allclose(share, [0.25, 0.25, 0], atol=0.01)


def test_classes_of_few_rows_are_fitted():
    X, y = iris()
    rows = np.r_[0:3, 50:53, 100:101]
    model = AdversarialClassifier(TWO, random_state=0).fit(X[rows], y[rows])
    assert model.chosen_ == "CertifiedSVC"
    assert len(model.classes_) == 3


def test_what_would_take_minutes_to_certify_is_no_candidate_by_default():
    names = [[type(one).__name__ for one in chooser.default_candidates(np.zeros(shape), classes, norm)]
             for shape, classes, norm in (((1_000, 30), 2, "l2"), ((1_600, 784), 2, "linf"), ((1_700, 784), 10, "l2"),
                                          ((200_000, 2), 2, "linf"))]
    assert names == [["CertifiedSVC", "AdversarialSVC"], ["CertifiedSVC", "AdversarialSVC", "RobustBoostingClassifier"],
                     ["AdversarialSVC"], ["AdversarialSVC", "RobustBoostingClassifier"]]


@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")
def test_a_box_for_each_row_and_a_time_limit_hold_for_the_comparison_too():
    X, y = moons(60)
    model = AdversarialClassifier(TWO, bounds=(X - 0.05, X + 0.05), max_time=20.0, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.7


def test_attacks_and_certificates_read_the_machine_inside():
    X, y = moons(80)
    model = AdversarialClassifier(TWO, eps=0.1, random_state=0).fit(X, y)
    inside = model.estimator_
    np.testing.assert_array_equal(attacks.pgd(model, X, y, eps=0.1), attacks.pgd(inside, X, y, eps=0.1))
    np.testing.assert_array_equal(certificates.certified_within(model, X, eps=0.1),
                                  certificates.certified_within(inside, X, eps=0.1))


def test_any_classifier_can_be_a_candidate():
    X, y = make_circles(80, factor=0.4, noise=0.05, random_state=0)
    linear = AdversarialLinearSVC()
    model = AdversarialClassifier([linear, SVC(gamma=2.0, C=10)], eps=0.05, tune="attacked", random_state=0).fit(X, y)
    assert model.chosen_ == "SVC"
    assert model.tuned_params_["C"] == model.estimator_.C
    assert not hasattr(linear, "classes_")
