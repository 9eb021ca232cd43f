"""C and gamma chosen under attack: the search against functions with a known best point, and what is fitted then."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import SVC, AdversarialClassifier, AdversarialLinearSVC, AdversarialSVC, CertifiedSVC, attacks
from buttress._checks import InterruptedWarning, warn_user
from buttress.attacks.scoring import Tried, best_of, search
from buttress.kernels import RBF

from problems import moons

NAMES = [("gamma", 3.0), ("C", 10.0)]
START = {"gamma": 1.0, "C": 1.0}


def tried_at(parameters, percent):
    """One fit of a search that keeps this share of a thousand rows."""
    return Tried(parameters, np.arange(1000) < 10 * percent)


@pytest.mark.parametrize(("gamma", "C"), [(9.0, 10.0), (1 / 27, 0.1), (1.0, 1.0), (3.0, 0.01)])
def test_the_search_walks_to_the_top_of_a_hill_and_fits_no_point_twice(gamma, C):
    asked = []

    def hill(at):
        asked.append((at["gamma"], at["C"]))
        return tried_at(at, 100 - 10 * abs(np.log(at["gamma"] / gamma)) - 10 * abs(np.log(at["C"] / C)))

    tried = search(hill, NAMES, START, fits=30)
    assert best_of(tried).parameters == pytest.approx({"gamma": gamma, "C": C})
    assert len(tried) == len(asked) == len({tuple(np.round(np.log(at), 6)) for at in asked}) <= 14


def test_the_search_ends_with_its_fits_and_keeps_the_first_of_equals():
    tried = search(lambda at: tried_at(at, 50), NAMES, START, fits=30)
    assert best_of(tried).parameters == START
    assert len(tried) == 5  # the start, and a step up and down of each
    assert len(search(lambda at: tried_at(at, at["gamma"]), NAMES, START, fits=3)) == 3


def test_what_is_reported_is_the_accuracy_under_attack_and_the_best_is_fitted_to_all_rows():
    X, y = moons(80, noise=0.1)
    model, tried = attacks.tuned(SVC(), X, y, eps=0.2, fits=4, return_info=True)
    parts = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    for each in tried:
        again = SVC(**each.parameters).fit(parts[0], parts[2])
        moved = attacks.pgd(again, parts[1], parts[3], eps=0.2, steps=20, random_state=0)
        assert each.accuracy == (again.predict(moved) == parts[3]).mean()
    same = SVC(**best_of(tried).parameters).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), same.decision_function(X))


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (make_pipeline(StandardScaler(), SVC()), {"svc__C", "svc__gamma"}),
        (SVC(kernel=RBF(0.5)), {"C"}),
        (SVC(kernel="linear"), {"C"}),
        (AdversarialLinearSVC(eps=0.1), {"C"}),
    ],
)
def test_the_parameters_that_there_are_move(estimator, names):
    X, y = moons(40)
    tried = attacks.tuned(estimator, X, y, eps=0.1, fits=2, return_info=True)[1]
    assert set(tried[0].parameters) == names


def test_the_chooser_tunes_its_candidates():
    X, y = moons(60, noise=0.1)
    options = {"eps": 0.2, "random_state": 0}
    candidates = [CertifiedSVC(max_iter=20, n_landmarks=20), AdversarialSVC(max_iter=20, n_landmarks=20)]
    tuned = AdversarialClassifier(candidates, tune="attacked", **options).fit(X, y)
    assert set(tuned.tuned_params_) == {"C", "gamma"}
    same = clone(candidates[tuned.chosen_ == "AdversarialSVC"]).set_params(**options, **tuned.tuned_params_).fit(X, y)
    np.testing.assert_array_equal(tuned.decision_function(X), same.decision_function(X))


def test_what_cannot_be_tuned_is_refused():
    X, y = moons(20)
    with pytest.raises(ValueError, match="has no C"):
        attacks.tuned(StandardScaler(), X, y, eps=0.1)
    with pytest.raises(ValueError, match="held_out"):
        attacks.tuned(SVC(), X, y, eps=0.1, held_out=1.0)
    with pytest.raises(ValueError, match="fits"):
        attacks.tuned(SVC(), X, y, eps=0.1, fits=0)


class Stopped(SVC):
    """Hears Ctrl-C in its fit."""

    def fit(self, X, y):
        warn_user("interrupted", InterruptedWarning)
        return super().fit(X, y)


def test_ctrl_c_in_a_fit_of_the_search_ends_the_search():
    with pytest.raises(KeyboardInterrupt):
        attacks.tuned(Stopped(), *moons(20), eps=0.1)
