"""Machines that give up: where linear ones do exactly, who is told, and who is chosen."""

import warnings

import numpy as np
import pytest

from buttress import (
    SVC,
    AdversarialClassifier,
    AdversarialLinearSVC,
    CertifiedSVC,
    LinearSVC,
    RobustBoostingClassifier,
    ThreatModel,
    attacks,
)
from buttress.attacks.collapse import advice, learnable
from buttress.attacks.scoring import Tried, best_of, search

from problems import breast_cancer, moons


def three_classes():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], [30, 50, 20])
    return rng.normal(size=(100, 3)) + np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0]])[codes], codes


@pytest.mark.parametrize("data", [moons(100), breast_cancer(), three_classes()], ids=["moons", "cancer", "three"])
@pytest.mark.parametrize("C", [0.1, 100.0])
@pytest.mark.filterwarnings("ignore")
def test_a_linear_machine_learns_below_the_radius_and_nothing_above_whatever_C_is(data, C):
    X, y = data
    radius = learnable(X, y)
    below, above = (np.abs(AdversarialLinearSVC(C=C, eps=share * radius, tol=1e-6).fit(X, y).coef_).max()
                    for share in (0.97, 1.03))
    assert below > 1e-3
    assert above < 1e-4
    rounder = AdversarialLinearSVC(C=C, eps=0.97 * radius, norm="l2", tol=1e-6).fit(X, y)
    assert np.abs(rounder.coef_).max() > 1e-3


def test_a_fit_with_one_class_for_all_is_told_with_a_radius_that_can_be_learned():
    X, y = moons(100)
    with pytest.warns(UserWarning, match="predicts one class for all rows and is no better on its training") as told:
        CertifiedSVC(eps=1.0, max_iter=5, n_landmarks=20, random_state=0).fit(X, y)
    said = next(str(each.message) for each in told if "one class for all" in str(each.message))
    assert f"Below eps={learnable(X, y):.3g} a linear machine still learns" in said
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CertifiedSVC(eps=0.1, max_iter=5, n_landmarks=20, random_state=0).fit(X, y)


def test_the_chooser_tells_of_a_collapse_of_any_candidate_and_of_accuracy_below_one_class_for_all():
    X, y = moons(100)
    y = (y + (np.arange(100) < 30) > 0).astype(int)  # the larger class has 65 rows
    with pytest.warns(UserWarning, match=r"SVC predicts one class for all rows"):
        AdversarialClassifier([SVC(C=1e-6)], eps=0.1, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="of the rows held out, and the majority class would keep"):
        AdversarialClassifier([SVC(gamma=50.0), SVC(gamma=40.0)], eps=0.5, random_state=0).fit(X, y)


def test_of_equals_the_one_that_tells_classes_apart_is_taken():
    kept = np.arange(100) < 60
    flat, apart = Tried({"C": 1.0}, kept, True), Tried({"C": 10.0}, ~kept[::-1] | kept)
    other = Tried({"C": 10.0}, np.roll(kept, 5))
    assert other.is_better(flat)
    assert not flat.is_better(other)
    assert not Tried({}, np.roll(kept, 5)).is_better(Tried({}, kept))
    much = Tried({}, np.arange(100) < 90, True)
    assert much.is_better(other)
    assert not other.is_better(much)
    assert apart.accuracy == flat.accuracy
    assert best_of([flat, apart]) is apart
    tried = search(lambda at: flat if at["C"] == 1 else apart, [("C", 10.0)], {"C": 1.0}, 4)
    assert best_of(tried) is apart


@pytest.mark.parametrize("fit", [
    lambda X, y: CertifiedSVC(eps=1e-9, max_iter=2, n_landmarks=5, random_state=0).fit(X, y),
    lambda X, y: CertifiedSVC(eps=[1e-9, 0.1], max_iter=2, n_landmarks=5, random_state=0).fit(X, y),
    lambda X, y: CertifiedSVC(threat=ThreatModel({0: 1e-9}), max_iter=2, n_landmarks=5, random_state=0).fit(X, y),
    lambda X, y: RobustBoostingClassifier(eps=1e-9, n_estimators=2).fit(X, y),
    lambda X, y: AdversarialLinearSVC(eps=1e-9).fit(X, y),
    lambda X, y: AdversarialClassifier([SVC()], eps=1e-9).fit(X, y),
    lambda X, y: attacks.pgd(SVC().fit(X, y), X, y, eps=1e-9),
    lambda X, y: attacks.exact(LinearSVC().fit(X, y), X, y, eps=[[1e-9, 0.1]]),
])
def test_a_radius_below_the_rounding_of_a_column_is_told(fit):
    X, y = moons(60)
    with pytest.warns(UserWarning, match="Column 0 of X holds numbers as large as 1e"):
        fit(X + [1e9, 0], y)


def test_a_column_that_stays_has_no_radius_to_be_lost():
    X, y = moons(60)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Column 0")
        attacks.pgd(SVC().fit(X, y), X + [1e9, 0], y, eps=[[0.0, 0.1]])


@pytest.mark.parametrize(("machine", "eps", "what"), [
    (SVC(C=1e-6), 0.1, "SVC predicts one class for all rows and is no better on its training rows"),
    (SVC(), 5.0, "At eps=5 the best candidate keeps .* and the majority class would keep"),
])
def test_a_machine_that_is_tuned_in_vain_is_told(machine, eps, what):
    X, y = moons(100)
    y = (y + (np.arange(100) < 30) > 0).astype(int)
    with pytest.warns(UserWarning, match=what) as told:
        attacks.tuned(machine, X, y, eps=eps, fits=1)
    said = next(str(each.message) for each in told if "majority class" in str(each.message))
    assert ("A linear machine learns here" if eps < learnable(X, y) else f"Below eps={learnable(X, y):.3g} a") in said


def test_no_radius_is_advised_where_a_linear_machine_learns_nothing_at_any():
    X, y = np.array([[0.0], [2.0]] * 5 + [[1.0]] * 2), np.repeat([0, 1], [10, 2])
    assert advice(X, y, 0.1).startswith("A linear machine learns nothing here at any eps")
