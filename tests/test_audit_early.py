"""What an audit tells while it runs, and what a machine that stands in its table twice comes to."""

import time

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification

from buttress.adversarial import AdversarialClassifier, AdversarialSVC, CertifiedSVC
from buttress.audit import contenders, moves
from buttress.audit.baselines import stands_in_box
from buttress.audit.call import audit_table
from buttress.audit.contenders import settled
from buttress.audit.options import Options
from buttress.audit.reading.table import make_table

from audit_problems import only

SHORT = {"n_landmarks": 20, "max_iter": 10}
THREAT = {"eps": 0.25, "random_state": 0}


def told(y_wrong):
    """Return what an audit of plain machines tells and reports, in order, and its result."""
    X, y = make_classification(120, 4, n_informative=4, n_redundant=0, class_sep=2.5, flip_y=0, random_state=0)
    y[list(y_wrong)] = 1 - y[list(y_wrong)]
    columns = {f"c{j}": X[:, j] for j in range(4)} | {"flat": np.r_[1.0, np.zeros(119)]}
    table = make_table(columns, y, "y", "auto")
    lines: list[str] = []
    with only("plain SVC"):
        result = audit_table(None, table, Options(rows=60), lambda what, share: lines.append(what),
                             time.monotonic(), tell=lambda line: lines.append(f"told: {line}"))
    return lines, result


def test_findings_of_columns_are_told_before_any_model_is_fitted_and_stand_in_the_result():
    lines, result = told(y_wrong=[3, 50])
    found = next(found for found in result.findings if found.code == "BUT005")
    first = lines.index(f"told: {found.severity} BUT005 {found.title}")
    assert first < next(k for k, line in enumerate(lines) if line.endswith(": as it is"))
    of_labels = next(line for line in lines if "rows were judged" in line)
    corrupted = next(k for k, line in enumerate(lines) if line.startswith("30% of training targets"))
    assert lines.index(of_labels) < corrupted
    assert of_labels == f"told: {result.suspicion.says()}"


def test_the_time_that_reading_took_counts_towards_the_limit():
    X, y = make_classification(120, 4, random_state=0)
    table = make_table({f"c{j}": X[:, j] for j in range(4)}, y, "y", "auto")
    with only("plain SVC"):
        result = audit_table(None, table, Options(max_time=3600.0), None, time.monotonic() - 3600)
    assert result.cut
    assert result.recommended is None


@pytest.mark.parametrize("machine", [AdversarialSVC, CertifiedSVC])
def test_the_machine_that_was_chosen_is_fitted_again_without_a_choice(machine):
    X, y = make_classification(40, 3, n_informative=3, n_redundant=0, random_state=0)
    chooser = AdversarialClassifier([machine(**SHORT)], **THREAT)
    again = settled(chooser, clone(chooser).set_params(max_time=60.0).fit(X, y))
    assert again.get_params() == machine(**SHORT, **THREAT).get_params()
    named = AdversarialSVC()
    assert settled(named, named) is named


def test_a_machine_that_is_in_the_table_twice_has_the_same_scores_in_both_rows(monkeypatch):
    """The row of the chooser is that of the machine it chose, fitted to the same corrupt targets."""
    few = {"certified SVC": lambda eps, seed: CertifiedSVC(**SHORT, **THREAT),
           "adversarial SVC": lambda eps, seed: AdversarialClassifier([CertifiedSVC(**SHORT), AdversarialSVC(**SHORT)],
                                                                      **THREAT)}
    monkeypatch.setattr(contenders, "_CONTENDERS", {"classification": few, "regression": {}})
    X, y = make_classification(80, 3, n_informative=3, n_redundant=0, class_sep=2.0, random_state=1)
    table = make_table({f"c{j}": X[:, j] for j in range(3)}, y, "y", "auto")
    rows = audit_table(None, table, Options(rows=50), lambda what, share: None, time.monotonic()).rows
    assert all(cell.value is not None for key, cell in rows["adversarial SVC"].items() if "labels" not in key)
    assert rows["adversarial SVC"] == rows["certified SVC"]


def test_corners_and_moves_asked_for_at_once_leave_what_they_leave_in_turns(monkeypatch):
    """A model of three lines: the greedy search over columns has a closed form, each column at its worst end."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(40, 3)), np.array([1.0, -2.0, 0.5])

    class Line:
        classes_ = np.array([0, 1])

        def predict_proba(self, Z):
            p = 1 / (1 + np.exp(-Z @ w))
            return np.c_[1 - p, p]

        def predict(self, Z):
            return (Z @ w > 0).astype(int)

    y = (X @ w > 0).astype(int)
    monkeypatch.setattr(moves, "CORNERS", 1)
    stands = stands_in_box(Line(), X, y, (X - 0.2, X + 0.2), 0)
    np.testing.assert_array_equal(stands, np.abs(X @ w) > 0.2 * np.abs(w).sum())
    assert 0 < stands.sum() < 40
