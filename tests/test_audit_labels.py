"""How many labels would have to be wrong, as the audit counts it: against refits to labels changed one by one."""

import json

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from buttress import LeastSquaresClassifier
from buttress.audit.call import audit
from buttress.audit.measurements import MEASUREMENTS, targets
from buttress.audit.measurements.targets import MACHINE, SHARES
from buttress.audit.measuring.cells import Cell
from buttress.audit.measuring.measurement import measure
from buttress.audit.measuring.split_table import split_table
from buttress.audit.options import Options
from buttress.audit.reading.table import columns_of, make_table
from buttress.audit.writing.report import html
from buttress.svm import SVC

from audit_problems import only

NEEDED = {"scores on the rows as they are", "wrong targets", "wrong labels it would take"}


@pytest.fixture(scope="module")
def counted():
    X, y = make_classification(160, 4, class_sep=1.5, flip_y=0, weights=[0.6], random_state=0)
    y[:12] = 1 - y[:12]
    entries = {"majority class": DummyClassifier(strategy="prior"), "mine": RidgeClassifier(),
               "plain SVC": SVC(), "logistic regression": LogisticRegression()}
    table = make_table(columns_of(X), y, "y", "auto")
    split = split_table(table, entries, Options())
    chosen = tuple(one for one in MEASUREMENTS if one.name in NEEDED)
    return split, measure(chosen, split, lambda *_: None, lambda line: None)


def worst(model, split):
    """Return the fewest labels that make each held-out row wrong, and which, from a refit to each label changed."""
    X, y, test = split.train.X, split.train.y, split.test
    f = model.fit(X, y).decision_function(test.X)
    moves = np.empty((len(y), len(f)))
    for i in range(len(y)):
        other = y.copy()
        other[i] = 1 - y[i]
        moves[i] = model.fit(X, other).decision_function(test.X) - f
    harm = np.where(f > 0, -moves, moves)  # by how much each label lowers the lead
    order = np.argsort(-harm, axis=0, kind="stable")
    lead = np.abs(f) - np.cumsum(np.take_along_axis(np.maximum(harm, 0), order, axis=0), axis=0)
    fewest = 1 + (lead <= 0).argmax(axis=0)
    right = (f > 0) == (test.y == 1)
    return np.where(right, fewest, 0), [set(order[:k, j]) for j, k in enumerate(fewest)]


def test_the_numbers_are_those_of_refits_to_changed_labels(counted):
    split, found = counted
    machine = LeastSquaresClassifier(alpha=found.models[MACHINE].alpha_)
    n = len(split.train)
    for name, model in ((MACHINE, machine), ("mine", RidgeClassifier())):
        needed, _ = worst(model, split)
        assert found.cells["labels_needed"][name].value == np.floor(np.median(needed))
        assert found.cells["labels_proven"][name].value == pytest.approx((needed > found.labels.labels).mean())
        assert found.curves["labels"][name] == pytest.approx([(needed > int(share * n)).mean() for share in SHARES])
    assert found.labels.labels == max(1, np.ceil(found.verdicts.interval[1] * n))


def test_no_labels_drawn_or_chosen_change_what_is_proven(counted):
    """The attack: refits to as many wrong labels as are said to change nothing."""
    split, found = counted
    X, y, rng = split.train.X, split.train.y, np.random.default_rng(0)
    machine = LeastSquaresClassifier(alpha=found.models[MACHINE].alpha_)
    needed, _ = worst(machine, split)
    count = found.labels.labels
    stands = needed > count
    assert 0 < stands.sum() < len(stands)
    for _ in range(60):
        rows = rng.choice(len(y), count, replace=False)
        wrong = y.copy()
        wrong[rows] = 1 - y[rows]
        assert (machine.fit(X, wrong).predict(split.test.X) == split.test.y)[stands].all()


def test_the_majority_stands_until_it_is_none(counted):
    split, found = counted
    y = split.train.y.copy()
    major = int(y.mean() > 0.5)
    assert (split.test.y == major).mean() > 0.5
    needed = int(found.cells["labels_needed"]["majority class"].value)
    rows = np.flatnonzero(y == major)
    y[rows[: needed - 1]] = 1 - major
    assert (y == major).sum() > (y != major).sum()
    y[rows[needed - 1]] = 1 - major
    assert (y == major).sum() <= (y != major).sum()


def test_a_rare_class_is_among_the_rows_that_are_drawn(monkeypatch):
    monkeypatch.setattr(targets, "MOST_ROWS", 60)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 3)), np.repeat([0, 1, 2], [350, 240, 10])
    X[:, 0] += 4 * y
    with only("plain SVC"):
        result = audit(None, X, y, effort="quick")
    assert result.labels.trained == 60
    assert result.rows[MACHINE]["as_is"].value > 0.9


def test_what_is_not_linear_in_its_labels_has_no_number(counted):
    _, found = counted
    assert set(found.cells["labels_needed"]) == {MACHINE, "mine", "majority class"}


def test_predictions_hang_on_rows_whose_change_they_need(counted):
    split, found = counted
    machine = LeastSquaresClassifier(alpha=found.models[MACHINE].alpha_)
    _, sets = worst(machine, split)
    number = {int(split.table.row_numbers[place]): k for k, place in enumerate(split.train.places)}
    held = {int(split.table.row_numbers[place]): k for k, place in enumerate(split.test.places)}
    assert any(one.count for one in found.labels.hanging)
    for one in found.labels.hanging:
        on = {k for k, rows in enumerate(sets) if number[one.row] in rows}
        assert one.count == len(on)
        assert {held[row] for row in one.predictions} <= on
        assert len(one.predictions) == min(one.count, 10)


def test_page_file_and_markdown_say_it():
    X, y = make_classification(200, 4, class_sep=2.0, flip_y=0, random_state=0)
    y[:8] = 1 - y[:8]
    with only("plain SVC"):
        result = audit(None, X, y, effort="quick")
    assert result.labels.says() in result.to_markdown()
    page = html(result)
    assert 'id="labels"' in page
    for one in result.labels.hanging:
        assert one.row in {suspect.row for suspect in result.suspects}
    assert page.count("on its label") == len(result.labels.hanging) > 0
    found = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert found["labels"]["trained"] == result.data["train"]
    assert result.recommended != MACHINE


def test_three_classes_have_it_and_numbers_do_not():
    X, y = make_classification(150, 4, n_informative=3, n_redundant=0, n_classes=3, random_state=0)
    with only("plain SVC", "plain kernel ridge"):
        assert audit(None, X, y, effort="quick").labels.trained == 105
        assert audit(None, X, X[:, 0] + 0.1 * y + X[:, 1], effort="quick").labels is None


@pytest.mark.parametrize(("cell", "says", "between"), [
    (Cell(14.0, 10.0, 17.0), "14", "10 to 17"), (Cell(1.0, 0.95, 1.0), "1.000", ".95 to 1.00"),
    (Cell(0.0, 0.0, 1.0), "0.000", ".00 to 1.00")])
def test_whole_numbers_are_written_so(cell, says, between):
    assert (cell.number(), cell.interval()) == (says, between)
