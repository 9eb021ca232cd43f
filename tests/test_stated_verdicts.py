"""The sentences of a verdict change where they say that they do: at 30 rows, at one per cent, at 20 held-out rows."""

from types import SimpleNamespace

import numpy as np
import pytest

from buttress.audit import conclude
from buttress.audit.baselines import LINEAR, OF_LOG, RIDGE
from buttress.audit.findings import Finding, Severity
from buttress.audit.measuring.cells import ENOUGH


def evidence_of(wrong=0, high=0.0, test=ENOUGH, better=()):
    verdicts = SimpleNamespace(given=np.zeros(200), wrong=np.arange(200) < wrong, interval=(0.0, high))
    return SimpleNamespace(classifies=True, verdicts=verdicts, test=np.arange(test), recommended=None,
                           better=list(better), baseline="majority class", rows={})


@pytest.mark.parametrize(("high", "says"), [(0.01, "no label of the 200"), (0.0101, "cannot tell"),
                                            (0.0099, "no label of the 200")])
def test_no_label_is_called_wrong_where_one_per_cent_may_be(high, says):
    assert says in conclude._labels(evidence_of(high=high), [])


@pytest.mark.parametrize(("wrong", "says"), [(30, "one by one"), (31, "correct the first"), (1, "1 of the 200 labels")])
def test_thirty_rows_can_be_looked_at_one_by_one(wrong, says, monkeypatch):
    monkeypatch.setattr(conclude, "doubt_of", lambda evidence: "")
    assert says in conclude._labels(evidence_of(wrong, 0.1), [])


def test_other_findings_on_the_inputs_are_counted():
    found = [Finding("BUT003", Severity.warning, f"Column {k} is odd.") for k in range(3)]
    assert conclude._inputs(found[:1], ()) == "Inputs: Column 0 is odd."
    assert conclude._inputs(found[:2], ()) == "Inputs: Column 0 is odd (1 more below)."
    assert conclude._inputs(found, ()) == "Inputs: Column 0 is odd (2 more below)."


@pytest.mark.parametrize("rows", [ENOUGH - 1, ENOUGH])
def test_too_few_held_out_rows_tell_nothing(rows):
    assert ("too few rows" in conclude._use(evidence_of(test=rows, better=["a"]), [])) == (rows < ENOUGH)
    split = SimpleNamespace(table=SimpleNamespace(notes=[], numeric=["a"]), classifies=True, test=range(rows))
    notes = conclude._notes(split, SimpleNamespace(notes=[], unfinished=[]), 0)
    assert bool(notes) == (rows < ENOUGH)


@pytest.mark.parametrize("name", [*LINEAR, RIDGE, RIDGE + OF_LOG])
def test_a_linear_model_is_the_easiest_to_explain(name):
    evidence = SimpleNamespace(rows={name: {}}, baseline="", classifies=True)
    assert ("easiest to explain" in conclude._why(name, evidence)) == (name in LINEAR or name == RIDGE + OF_LOG)
