"""What the audit says: suspicious rows and their order, the width of its table, its numbers, and its words."""

import csv
import io
import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from rich.console import Console
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_wine, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

import buttress
from buttress import ThreatModel
from buttress._checks import warn_user
from buttress.attacks import exact
from buttress.audit.baselines import baselines, stands_in_box
from buttress.audit.findings import Finding
from buttress.audit.measurements.attacked import ATTACKED
from buttress.audit.measurements.scores import AS_IS
from buttress.audit.measuring.cells import Cell, median_error, number, shown
from buttress.audit.measuring.measurement import measure
from buttress.audit.measuring.split_table import split_table
from buttress.audit.measuring.suspicion import Suspect, in_order
from buttress.audit.measuring.threatened import under_threat
from buttress.audit.models.answering import write
from buttress.audit.options import Options
from buttress.audit.reading.table import columns_of, make_table
from buttress.audit.writing.paste import _home
from buttress.audit.writing.report import html, next_step, terminal_columns, terminal_table

from audit_problems import only


@pytest.fixture(autouse=True, scope="module")
def few():
    """One machine beside the baselines; tests/test_findings.py audits all."""
    with only("plain SVC", "plain kernel ridge"):
        yield


@pytest.fixture(scope="module")
def mislabelled():
    """Two classes far apart, 24 labels swapped, rows called by letters; (index of the swapped, result)."""
    X, y = make_classification(160, n_features=4, class_sep=3.0, flip_y=0, random_state=0)
    index = np.array([f"r{i}" for i in range(160)])
    swapped = np.arange(3, 147, 6)
    y[swapped] = 1 - y[swapped]
    return set(index[swapped]), buttress.audit(None, pd.DataFrame(X, index=index), y)


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100, 2))
    return buttress.audit(None, X, 5000 + 1000 * X[:, 0] + rng.normal(size=100), rows=40)


def printed(result, width):
    console = Console(file=io.StringIO(), width=width)
    console.print(terminal_table(result, width))
    return console.file.getvalue()


def test_every_row_that_looks_wrong_is_listed_by_its_label(mislabelled):
    swapped, result = mislabelled
    wrong = {found.row for found in result.suspects if found.probability > 0.5}
    assert len(wrong & swapped) > 20
    assert len(wrong) == result.suspicion.above_half > 10
    assert result.suspicion.judged == result.suspicion.rows == 160
    assert abs(result.suspicion.share - 24 / 160) < 0.05
    assert {found["row"] for found in json.loads(json.dumps(result.to_dict()))["suspicious"]} >= wrong
    page = html(result)
    assert all(f"Row <b>{row}</b>" in page for row in wrong)
    for text in (page, " ".join(printed(result, 80).split())):
        assert f"All 160 rows were judged, held-out ones too: {len(wrong)} are more likely wrong than right" in text


def test_held_out_rows_that_look_wrong_are_said_to_be(mislabelled):
    _, result = mislabelled
    count = result.suspicion.held_out_above_half
    assert 0 < count < result.suspicion.above_half
    assert any(note.startswith(f"{count} of the 48 held-out rows look wrong themselves") for note in result.notes)
    assert "clean" not in " ".join(result.columns.values())


def test_rows_of_one_probability_are_ordered_by_their_score():
    probability = np.array([1 - 1e-11, 1.0, 0.7, 0.99, 0.3])
    score = np.array([5.0, 2.0, 9.0, 3.0, 0.0])
    assert in_order(probability, score).tolist() == [0, 1, 3, 2, 4]


def test_a_regression_shows_an_error_that_corrupt_targets_do_not_move(regression):
    residual = np.r_[np.linspace(-1, 1, 21), 1e6]
    cell = median_error(residual, seed=0)
    assert cell.value == np.median(np.abs(residual)) < 1
    assert cell.low <= cell.value <= cell.high < 1
    assert all(cells["median"].value < cells["as_is"].value for cells in regression.rows.values())


@pytest.mark.parametrize("width", [80, 66])
def test_no_number_is_cut(mislabelled, regression, width):
    for result in (mislabelled[1], regression):
        text = printed(result, width)
        assert "…" not in text
        for cells in result.rows.values():
            for key in terminal_columns(result):
                assert shown(cells[key].value, 3) in text


@pytest.mark.parametrize(("value", "text"), [
    (3100.0, "3100"), (12345.678, "12346"), (0.5, "0.5"), (123.456, "123.5"), (-0.00123, "-0.00123"), (2e12, "2e+12")])
def test_numbers_are_written_without_exponents_where_that_helps(value, text):
    assert number(value) == text


def test_cells_have_three_decimals_while_those_tell_something():
    assert Cell(0.5, 0.25, 1.0).text() == "0.500\n.25–1.00"
    assert Cell(1234.5678, 1200.0, 1300.0).text() == "1235\n1200–1300"
    assert Cell(0.00012345).text(interval=False) == "0.0001234"
    assert Cell(0.0, 0.0, 0.007351).interval() == "0 to 0.007351"
    assert Cell(0.008368, 0.001, 0.03).number() == "0.008"
    assert Cell(0.008368, 0.008, 0.009).number() == "0.008368"
    assert Cell(0.1, 0.004, 0.3).interval() == ".00 to .30"


def test_what_is_proven_is_the_distance_to_a_line():
    """A linear machine changes its class at |f(x)| / ||w||_1."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    y = (X @ [1.0, -2.0] > 0.1).astype(int)
    model = buttress.LinearSVC(C=10.0).fit(X, y)
    clear = np.abs(model.decision_function(X)) / np.abs(model.coef_).sum() >= 0.25
    assert 0 < clear.sum() < 20
    for machine, proven in ((model, clear), (KNeighborsClassifier(2).fit(X, y), None)):
        found = under_threat(machine, X, machine.predict(X), ThreatModel({0: 0.25, 1: 0.25}),
                             np.ones(20, dtype=bool), 0, codes=False, work=1e5)
        np.testing.assert_array_equal(found.proven, proven)


def test_what_was_measured_is_said_with_its_rows(regression):
    text = " ".join(printed(regression, 80).split())
    assert "rows that models are trained on: 40 of 70" in text
    assert "rows that models are trained on" in html(regression)


def test_a_forest_is_attacked_although_its_scores_are_flat():
    """Random corners of the ball, tried here without the attacks, turn rows wrong that PGD cannot."""
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    train = np.arange(len(X)) % 3 != 0
    model, rows, labels = RandomForestClassifier(20, random_state=0).fit(X[train], y[train]), X[~train], y[~train]
    rng, standing = np.random.default_rng(0), model.predict(rows) == labels
    start = standing.mean()
    for _ in range(50):
        standing &= model.predict(rows + 0.25 * rng.choice([-1, 1], size=rows.shape)) == labels
    assert standing.mean() < start
    found = under_threat(model, rows, labels, ThreatModel(dict.fromkeys(range(13), 0.25)),
                         model.predict(rows) == labels, 0, codes=False, work=1e5)
    assert found.stands.mean() <= standing.mean() + 0.02


def test_an_attack_that_would_ask_too_often_is_left_out_with_a_note(monkeypatch):
    monkeypatch.setattr("buttress.audit.measurements.attacked.queries_a_row", lambda columns, classes: 10**6)
    X = np.random.default_rng(0).normal(size=(120, 3))
    forest = RandomForestClassifier(5, random_state=0)
    result = buttress.audit(forest, X, (X[:, 0] > 0).astype(int), rows=40)
    assert result.rows["yours (RandomForestClassifier)"]["attacked"].value is None
    assert any("an attack by queries would ask it 1,000,000 times a row: it was not" in note for note in result.notes)
    assert result.recommended in set(result.rows) - {"yours (RandomForestClassifier)"}


def test_a_blind_attack_is_noted_once():
    X = np.random.default_rng(0).normal(size=(60, 3))
    flat, y = BaggingClassifier(KNeighborsClassifier(1), 3, random_state=0), (X[:, 0] > 0).astype(int)
    result = buttress.audit(flat, X, y, rows=30)
    assert sum("No score of BaggingClassifier changed" in note for note in result.notes) == 1


class Labels(ClassifierMixin, BaseEstimator):
    """Right on two classes, but without scores; it warns when it is fitted."""

    def fit(self, X, y):
        warn_user("these rows are odd")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[(np.asarray(X)[:, 0] > 0).astype(int)]


def test_what_cannot_be_attacked_is_said_and_not_recommended_and_warnings_are_notes(recwarn):
    X = np.random.default_rng(0).normal(size=(120, 3))
    result = buttress.audit(Labels(), X, (X[:, 0] > 0).astype(int), rows=40)
    cells = result.rows["yours (Labels)"]
    assert cells["as_is"].value > 0.9
    assert cells["attacked"].value is None
    assert "yours (Labels) gives labels only: it was not attacked, and is not recommended." in result.notes
    assert result.recommended != "yours (Labels)"
    assert result.notes.count("yours (Labels): these rows are odd") == 1
    assert sum("odd" in note for note in result.notes) == 1
    assert not [warning for warning in recwarn if "odd" in str(warning.message)]


def test_the_result_is_one_line_and_names_public_modules(regression):
    assert repr(regression).startswith("<AuditResult: regression of 'target', 100 rows; recommended: ")
    assert len(repr(regression)) < 150
    assert regression.data["source"] == "array"
    assert _home(RandomForestClassifier) == "sklearn.ensemble"
    assert _home(buttress.SVC) == "buttress"
    assert _home(Labels) == Labels.__module__


def test_what_is_no_better_than_the_majority_is_not_recommended_because_nothing_moves_it():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    result = buttress.audit(None, X, y)
    assert result.recommended is None
    assert "no model is clearly better than the majority class" in result.verdict[2]
    assert not any(finding.code in ("BUT014", "BUT015") for finding in result.findings)
    assert "use this" not in html(result)


def test_the_next_step_is_the_advice_on_the_worst_finding_or_the_command_that_trains():
    found = [Finding("BUT002", "error", "t", {}), Finding("BUT001", "warning", "t", {}, "Drop.")]
    result = SimpleNamespace(findings=found, recommended="plain SVC", cut=[],
                             data={"source": "my data.csv", "target": "$y"},
                             settings={"groups": None, "time": None, "drop": []})
    assert next_step(result) == "Next: Drop. (BUT001)"
    result.findings = [Finding("BUT006", "note", "t", {}, "Look.")]
    assert next_step(result) == "Next: buttress train 'my data.csv' --target '$y' -o model.buttress"
    result.settings = {"groups": "who", "time": "day", "drop": ["id"]}
    assert next_step(result).endswith(" --drop id --drop who --drop day -o model.buttress")
    result.data["source"] = "pandas frame"
    assert "code below" in next_step(result)
    result.recommended = None
    assert "more rows" in next_step(result)


@pytest.mark.parametrize(("trusted", "said"), [(True, "Nothing speaks against"), (False, "There is an alarm about")])
def test_the_terminal_says_what_the_comparison_with_newer_rows_came_to(regression, trusted, said):
    against = {"source": "new.csv", "rows": 7, "trusted": trusted}
    result = replace(regression, against=against)
    assert f"{said} using a model of these rows on the 7 of new.csv." in printed(result, 200)
    assert "model of these rows" not in printed(regression, 200)


def test_names_and_labels_mean_nothing_to_the_terminal(regression):
    named = replace(regression, data={**regression.data, "target": "[/b]", "source": "a\x1b[2Jb"})
    said = printed(named, 200)
    assert "[/b]" in said
    assert "\x1b" not in said
    assert r"a\x1b[2Jb" in said


@pytest.mark.parametrize("killed_at", range(7))
def test_a_kill_leaves_no_files_of_two_audits_side_by_side(regression, tmp_path, monkeypatch, killed_at):
    old = {"audit.json": '{"schema": "buttress.audit/0"}', "audit.html": "", "suspicious.csv": "row,target,key,drop"}
    for name, text in old.items():
        (tmp_path / name).write_text(text)
    calls = []

    def counted(function):
        def step(*arguments, **options):
            calls.append(function)
            if len(calls) > killed_at:
                raise KeyboardInterrupt
            return function(*arguments, **options)

        return step

    monkeypatch.setattr("buttress.files.disk.os.replace", counted(os.replace))
    unlink = counted(Path.unlink)
    monkeypatch.setattr("buttress.files.disk.Path.unlink",
                        lambda path, **options: unlink(path, **options) if path.parent == tmp_path else None)
    with suppress(KeyboardInterrupt):
        regression.save(tmp_path)
    there = [name for name in old if (tmp_path / name).exists()]
    earlier = {(tmp_path / name).read_text() == old[name] for name in there}
    assert "audit.json" in there or not there  # so that a later audit knows them
    assert len(earlier) <= 1
    assert earlier == {False} or killed_at < 6


def test_an_empty_table_of_suspicious_rows_is_not_drawn(regression):
    quiet = replace(regression, suspects=[])
    assert "Most suspicious" not in printed(quiet, 80)
    assert "Most suspicious" in printed(replace(regression, suspects=[
        Suspect(1, 1.0, 2.0, 0.9, 3.0, "wrong", "far", {}, [], [])]), 80)


def test_the_file_of_suspicious_rows_is_written_in_parts_as_in_one(mislabelled, tmp_path, monkeypatch):
    _, result = mislabelled
    result.sheet.write(tmp_path / "one.csv")
    monkeypatch.setattr("buttress.audit.data.CHUNK", 7)
    result.sheet.write(tmp_path / "parts.csv")
    text = (tmp_path / "one.csv").read_text()
    assert (tmp_path / "parts.csv").read_text() == text
    assert text.count("\n") == 161
    assert text.splitlines()[0].split(",")[:3] == ["row", "verdict", "probability"]


def test_the_file_of_a_polars_frame_says_what_that_of_a_pandas_one_does(mislabelled, tmp_path):
    _, result = mislabelled
    table = result.sheet.table
    rows = range(160)
    columns = {"number": [row / 7 for row in rows], "flag": [row % 3 == 0 for row in rows], "whole": list(rows),
               "text": [('"a", b', "ü", None, "")[row % 4] for row in rows]}
    read = []
    for library in (pd, pl):
        frame = library.DataFrame(columns)
        given = {name: frame[name] for name in columns}
        target = library.Series([f"t{row}" for row in rows])
        sheet = replace(result.sheet, table=replace(table, given=given, given_target=target))
        sheet.write(tmp_path / "suspicious.csv")
        with (tmp_path / "suspicious.csv").open(newline="") as file:
            read.append([["" if entry == "nan" else entry for entry in line] for line in csv.reader(file)])
    assert read[0] == read[1]


def test_dates_of_nanoseconds_are_written_as_dates(mislabelled, tmp_path):
    """Of entries, of the index, and of keys: as whole numbers numpy hands them to Python."""
    _, result = mislabelled
    days = np.arange("2024-01-01", 160, dtype="datetime64[D]").astype("datetime64[ns]")
    days[3] = "NaT"
    table = result.sheet.table
    calls = make_table(columns_of(np.arange(160.0)[:, None]), table.given_target, "y", "auto", days).row_numbers
    replace(result.sheet, table=replace(table, given={"day": days}, row_numbers=calls)).write(tmp_path / "s.csv")
    with (tmp_path / "s.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["day"] for row in rows[2:5]] == [row["row"] for row in rows[2:5]] == [
        "2024-01-03 00:00:00", "", "2024-01-05 00:00:00"]
    write({"day": days}, tmp_path / "f.parquet")
    assert pl.read_parquet(tmp_path / "f.parquet")["day"].to_list() == days.astype("datetime64[us]").tolist()


def test_what_is_said_of_linear_machines_of_several_classes_under_attack_is_exact():
    """The worst move of a row is known; gradients go to one rival, and left such rows standing."""
    X, y = make_classification(900, 20, n_informative=6, n_classes=3, random_state=0)
    columns = {**columns_of(X), "kind": np.where(X[:, 0] > 0, "u", "v")}
    table = make_table(columns, y, "y", "auto")
    entries = {"majority class": DummyClassifier(), "linear": buttress.AdversarialLinearSVC(eps=0.25)}
    split = split_table(table, entries, Options(effort="quick"))
    found = measure((AS_IS, ATTACKED), split, lambda what, share: None, lambda line: None)
    reach = np.where(np.arange(split.test.X.shape[1]) < 20, 0.25, 0.0)
    fallen = exact(found.models["linear"], split.test.X, split.test.y, eps=reach, return_info=True)[1].success
    assert found.cells["attacked"]["linear"].value == found.cells["certified"]["linear"].value == (~fallen).mean()


def test_what_is_said_of_boosting_under_attack_is_exact_at_any_effort():
    """Trying leaves rows standing that a worst move turns; the oracle settles each row, however long it takes."""
    X, y = make_classification(240, 6, random_state=0)
    table = make_table(columns_of(X), y, "y", "auto")
    split = split_table(table, baselines(table, 0), Options(effort="quick"))
    found = measure((AS_IS, ATTACKED), split, lambda what, share: None, lambda line: None)
    model, rows = found.models["gradient boosting"], (split.test.native, split.test.y)
    stands = ~exact(model, *rows, eps=0.25, return_info=True)[1].success
    X, y = rows
    tried = (model.predict(X) == y) & stands_in_box(model, X, y, (X - 0.25, X + 0.25), 0)
    assert found.cells["attacked"]["gradient boosting"].value == stands.mean() < tried.mean()
    assert found.on["rows of gradient boosting of which the worst move is known"] == f"{len(stands)} of {len(stands)}"
