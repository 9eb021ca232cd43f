"""Machines trained against a threat: radii by column and threats mean the same, and what is chosen is judged by it."""

import numpy as np
import pandas as pd
import pytest

from buttress import (
    SVC,
    AdversarialClassifier,
    AdversarialSVC,
    AdvSVM,
    Budget,
    CertifiedSVC,
    RobustBoostingClassifier,
    ThreatModel,
    attacks,
    certificates,
)
from buttress.adversarial import chooser
from buttress.threats import region_of

from problems import moons

SHORT = {"max_iter": 20, "n_landmarks": 20}
MACHINES = [CertifiedSVC(**SHORT, random_state=0), AdversarialSVC(**SHORT, random_state=0)]


def told_by_a_flag(rows=120):
    """A flag that is right for nearly every row, and a number that is right for most."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, rows)
    flag = np.where(rng.random(rows) < 0.03, 1 - y, y)
    number = np.where(rng.random(rows) < 0.15, -1, 1) * (2 * y - 1) + rng.normal(scale=0.2, size=rows)
    return pd.DataFrame({"flag": flag.astype(float), "number": number}), y


FLAG = ThreatModel({"number": 0.1}, {"flag": [0, 1]})


def within_the_threat(frame):
    """Every swap, with the number at its ends and between."""
    for flag in (0.0, 1.0, None):
        for move in np.linspace(-0.1, 0.1, 9):
            yield frame.assign(number=frame.number + move, **({} if flag is None else {"flag": flag}))


@pytest.mark.parametrize("model", [*MACHINES, RobustBoostingClassifier(n_estimators=5)],
                         ids=lambda each: type(each).__name__)
def test_one_radius_is_that_of_every_column_and_a_threat(model):
    X, y = moons(80)
    scores = [model.__class__(**{**model.get_params(), **threat}).fit(X, y).decision_function(X) for threat in (
        {"eps": 0.2}, {"eps": [0.2, 0.2]}, {"threat": ThreatModel({0: 0.2, 1: 0.2})})]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-6)
    np.testing.assert_allclose(scores[2], scores[0], atol=1e-6)


@pytest.mark.parametrize("model", MACHINES, ids=lambda each: type(each).__name__)
def test_the_region_holds_all_that_a_threat_allows_and_fixes_the_rest(model):
    frame, _ = told_by_a_flag()
    frame["fixed"] = np.arange(len(frame)) % 7.0
    X = frame.to_numpy()
    low, high = region_of(0.1, "linf", None, FLAG, X, frame).ends(X)
    for version in within_the_threat(frame):
        assert (low <= version.to_numpy() + 1e-12).all()
        assert (version.to_numpy() <= high + 1e-12).all()
    assert (low[:, 2] == X[:, 2]).all()
    assert (high[:, 2] == X[:, 2]).all()
    half = region_of([0.0, 0.3, 0.1], "linf", (X - 0.2, X + 0.2), None, X, X).ends(X)
    np.testing.assert_allclose(half[1] - X, np.tile([0.0, 0.2, 0.1], (len(X), 1)))


def test_a_column_that_stays_may_decide_where_one_radius_would_hide_it():
    frame, y = told_by_a_flag()
    X = frame.to_numpy()
    everywhere = CertifiedSVC(eps=0.9, random_state=0, **SHORT).fit(X, y)
    elsewhere = CertifiedSVC(eps=[0.0, 0.9], random_state=0, **SHORT).fit(X, y)
    assert (elsewhere.certified_margin_ > 0).mean() > 0.9 > (everywhere.certified_margin_ > 0).mean()
    for move in np.linspace(-0.9, 0.9, 19):
        kept = elsewhere.predict(X + [0, move]) == y
        assert kept[elsewhere.certified_margin_ > 0].all()


def test_what_is_chosen_stands_the_whole_threat_by_trying_all_of_it():
    frame, y = told_by_a_flag()
    plain = SVC(C=10, gamma=2.0)  # it believes the flag
    model = AdversarialClassifier([plain, CertifiedSVC(**SHORT)], threat=FLAG, random_state=0).fit(frame, y)
    assert model.chosen_ == "CertifiedSVC"
    shown = np.all([model.predict(version) == y for version in within_the_threat(frame)], axis=0)
    believing = plain.fit(frame, y)
    broken = np.all([believing.predict(version) == y for version in within_the_threat(frame)], axis=0)
    assert shown.mean() > 0.8 > broken.mean()
    proven = certificates.certified_within(model, frame, threat=FLAG)
    assert not (proven & (model.predict(frame) == y) & ~shown).any()


def test_a_chooser_measures_the_accuracy_that_exhaustive_search_finds(monkeypatch):
    frame, y = told_by_a_flag()
    seen = {}

    def kept(self, model, X, labels):
        rows = pd.DataFrame(X, columns=frame.columns)
        right = [model.predict(version.to_numpy()) == labels for version in within_the_threat(rows)]
        seen["true"] = np.all(right, axis=0)
        seen["said"] = original(self, model, X, labels)
        return seen["said"]

    original = chooser.AttackedAccuracy.kept
    monkeypatch.setattr(chooser.AttackedAccuracy, "kept", kept)
    AdversarialClassifier([SVC(C=10, gamma=2.0), SVC(C=1.0)], threat=FLAG, random_state=0).fit(frame, y)
    np.testing.assert_array_equal(seen["said"], seen["true"])


def test_threats_that_machines_cannot_take_are_refused():
    X, y = moons(60)
    with pytest.raises(ValueError, match=r"eps must be a number >= 0, or one for each of the 2 columns"):
        CertifiedSVC(eps=[0.1, 0.1, 0.1], **SHORT).fit(X, y)
    with pytest.raises((ValueError, TypeError), match="eps"):
        AdvSVM(eps=[0.1, 0.1], norm="l2", gamma=1.0).fit(X, y)
    with pytest.raises(TypeError, match="threat must be a ThreatModel"):
        AdversarialSVC(threat={"0": 1}, **SHORT).fit(X, y)
    with pytest.raises(ValueError, match=r"threat\.on\(X\)"):
        AdversarialClassifier(MACHINES, threat=ThreatModel({0: Budget("0.5 sd")})).fit(X, y)


def test_a_score_under_an_ellipsoid_takes_trees_too():
    X, y = moons(60)
    model = RobustBoostingClassifier(n_estimators=3).fit(X, y)
    assert 0 <= attacks.AttackedAccuracy(threat=ThreatModel({0: 0.1, 1: 0.1}, norm="l2"))(model, X, y) <= 1
