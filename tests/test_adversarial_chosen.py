"""defense="auto": the defence that keeps more held-out rows, and of machines that keep about as many the proven one."""

import warnings

import numpy as np
import pytest

from buttress import AdversarialSVC
from buttress.adversarial import chosen
from buttress.kernels import Polynomial

from problems import iris, moons

SHORT = {"max_iter": 10, "n_landmarks": 20, "random_state": 0}


@pytest.fixture
def paying(monkeypatch):
    """Moved inputs pay, however short the training."""
    monkeypatch.setattr("buttress.adversarial.kernel.outdone_by", lambda *args: None)


@pytest.mark.usefixtures("paying")
@pytest.mark.parametrize("defense", ["input", "certified"])
def test_the_defence_chosen_is_fitted_to_all_rows(defense, monkeypatch):
    monkeypatch.setattr(chosen, "_better", lambda copy, X, codes: defense)
    X, y = moons(80)
    auto, same = AdversarialSVC(**SHORT).fit(X, y), AdversarialSVC(defense=defense, **SHORT).fit(X, y)
    assert auto.defense_ == same.defense_ == defense
    assert auto.defense == "auto"
    np.testing.assert_array_equal(auto.decision_function(X), same.decision_function(X))


@pytest.mark.usefixtures("paying")
@pytest.mark.parametrize(
    ("gained", "lost", "taken"),
    [(0, 0, "certified"), (1, 0, "certified"), (2, 0, "input"), (5, 2, "input"), (4, 2, "certified"),
     (0, 5, "certified")],
)
def test_input_must_keep_more_rows_by_more_than_their_standard_error(gained, lost, taken, monkeypatch):
    def kept(model, X, codes, bounds):
        out = np.arange(len(X)) >= gained + lost
        mine = slice(0, gained) if model.defense == "input" else slice(gained, gained + lost)
        out[mine] = True
        return out

    monkeypatch.setattr(chosen, "_kept", kept)
    X, y = moons(80)
    assert AdversarialSVC(**SHORT).fit(X, y).defense_ == taken


def test_no_row_is_both_fitted_and_held_out_and_every_class_keeps_its_share():
    codes = np.repeat([0, 1, 2], [3000, 100, 3])
    fitted, held_out = chosen._parts(codes, np.random.RandomState(0))
    assert len(np.unique(np.concatenate([fitted, held_out]))) == len(fitted) + len(held_out) <= chosen.COMPARED_ROWS + 4
    assert np.bincount(codes[fitted], minlength=3)[2] == 3
    share = np.bincount(codes[held_out], minlength=3) / np.bincount(codes[np.concatenate([fitted, held_out])])
    np.testing.assert_allclose(share, [0.25, 0.25, 0], atol=0.01)


def test_classes_of_few_rows_are_fitted():
    X, y = iris()
    rows = np.r_[0:3, 50:53, 100:101]
    model = AdversarialSVC(**SHORT).fit(X[rows], y[rows])
    assert model.defense_ == "certified"
    assert len(model.classes_) == 3


def test_where_nothing_can_be_proven_or_is_to_be_withstood_inputs_are_moved():
    X, y = moons(40)
    assert AdversarialSVC(eps=0, **SHORT).fit(X, y).defense_ == "input"
    assert AdversarialSVC(kernel=Polynomial(2, 1.0, 1.0), **SHORT).fit(X, y).defense_ == "input"


def test_what_would_take_minutes_to_certify_is_trained_on_moved_inputs(monkeypatch):
    monkeypatch.setattr(chosen, "MOST_WORK", 40 * 2**2 - 1)
    X, y = moons(40)
    monkeypatch.setattr("buttress.adversarial.kernel.outdone_by", lambda *args: None)
    assert AdversarialSVC(**SHORT).fit(X, y).defense_ == "input"
    monkeypatch.setattr(chosen, "MOST_WORK", 40 * 2**2)
    assert AdversarialSVC(**SHORT).fit(X, y).defense_ == "certified"
    monkeypatch.setattr(chosen, "MOST_LINES", 40 * 20 - 1)
    assert AdversarialSVC(**SHORT).fit(X, y).defense_ == "input"


@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")
def test_a_box_for_each_row_and_a_time_limit_hold_for_the_comparison_too():
    X, y = moons(60)
    model = AdversarialSVC(bounds=(X - 0.05, X + 0.05), max_time=20.0, **SHORT).fit(X, y)
    assert model.score(X, y) > 0.7


def test_only_who_asked_for_moved_inputs_is_told_that_they_did_not_pay(monkeypatch):
    monkeypatch.setattr(chosen, "_better", lambda copy, X, codes: "input")
    monkeypatch.setattr("buttress.adversarial.kernel.outdone_by", lambda *args: "chance")
    X, y = moons(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert AdversarialSVC(**SHORT).fit(X, y).defense_ == "certified"
    with pytest.warns(UserWarning, match="no better than chance"):
        assert AdversarialSVC(defense="input", **SHORT).fit(X, y).defense_ == "certified"
