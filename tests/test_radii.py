"""Accuracy within several radii never rises with the radius, whatever the attacks miss."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from buttress import SVC
from buttress.attacks.scoring import Fallen
from buttress.audit.measurements.attacked import ATTACKED
from buttress.audit.measurements.scores import AS_IS
from buttress.audit.measuring.measurement import measure
from buttress.audit.measuring.split_table import split_table
from buttress.audit.measuring.threatened import AttackOutcome
from buttress.audit.options import Options
from buttress.audit.reading.table import make_table

from problems import moons

ROWS = 6


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.4]), st.integers(0, 2**ROWS - 1)), max_size=6),
       st.integers(0, 2**ROWS - 1))
def test_a_row_stands_where_no_attack_within_that_radius_or_less_has_broken_it(attacked, right):
    def bits(number):
        return np.array([bool(number >> row & 1) for row in range(ROWS)])

    fallen = Fallen(bits(right))
    for eps, survives in attacked:
        fallen.attack(eps, lambda rows, survives=survives: bits(survives)[rows])
    for eps in (0.0, 0.1, 0.25, 0.5):
        broken = [~bits(survives) for radius, survives in attacked if radius <= eps]
        expected = bits(right) & ~np.any([np.zeros(ROWS, dtype=bool), *broken], axis=0)
        np.testing.assert_array_equal(fallen.standing(eps), expected)


def test_no_attack_is_spent_on_what_is_proven_within_that_radius_or_more():
    fallen = Fallen(np.array([True, True, False]))
    fallen.prove(0.2, np.array([0]))
    asked = []
    for eps in (0.1, 0.2, 0.3):
        fallen.attack(eps, lambda rows: asked.append(rows.tolist()) or np.ones(len(rows), dtype=bool))
    assert asked == [[1], [1], [0, 1]]


def lazy(model, X, y, threat, right, seed, **how):
    """Stand for an attack that finds less the larger the radius: rows far from 0 fall to small moves only."""
    stands = (np.abs(X[:, 0]) < 2 * threat.budgets[0].by) & (model.predict(X) == y)
    return AttackOutcome(stands, None, False, "lazily")


def test_the_curve_of_an_audit_never_rises_and_its_table_agrees(monkeypatch):
    monkeypatch.setattr("buttress.audit.measurements.attacked.under_threat", lazy)
    X, y = moons(120)
    table = make_table({"a": X[:, 0], "b": X[:, 1]}, y, "y", "classification")
    entries = {"majority class": DummyClassifier(), "plain SVC": SVC(), "logistic regression": LogisticRegression()}
    split = split_table(table, entries, Options(eps=0.5))
    found = measure((AS_IS, ATTACKED), split, lambda *_: None, lambda line: None)
    for name in list(entries)[1:]:
        curve = found.curves["eps"][name]
        assert (np.diff(curve) <= 0).all()
        assert curve[0] > curve[1] >= curve[2] == found.cells["attacked"][name].value
