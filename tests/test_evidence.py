"""Folders of evidence: proven again, the same bits each time, and what a changed file is found by."""

import csv
import json
import os

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import LinearRegression, RidgeClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as LibSVC
from tampering import CHANGES, KEY, number, with_digests
from typer.testing import CliRunner

from buttress import SVC, SVR, Budget, LeastSquaresClassifier, ThreatModel, verify
from buttress.cli import app
from buttress.evidence import write_evidence
from buttress.evidence.folder import TEMPLATE

from audit_problems import conforms

SMALL = slice(None, None, 4)


def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    return X[["alcohol", "hue", "proline"]], y


def write(model, folder, **options):
    """Return the evidence on a model of wines, fitted to every other row."""
    X, y = wine()
    model.fit(X[::2], y[::2])
    given = {"training": (dict(X[::2]), y[::2]), **options}
    return write_evidence(model, dict(X[1::2][SMALL]), y[1::2][SMALL], "kind", folder, **given)


def check(folder, *arguments, capsys=None):
    """Return the exit code and what was printed."""
    code = verify.main([str(folder), *arguments])
    return code, capsys.readouterr().out if capsys else ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A signed folder on an SVC behind a scaler; nobody changes it."""
    path = tmp_path_factory.mktemp("evidence")
    write(make_pipeline(StandardScaler(), SVC()), path, key=KEY, declared={"purpose": "to tell wines apart"})
    return path


def test_every_proven_statement_is_proven_again(folder, capsys):
    code, said = check(folder, capsys=capsys)
    assert code == 3
    assert "NOT PROVEN" not in said
    problems = json.loads(next(line for line in said.splitlines() if line.startswith("problem: "))[9:])
    assert set(problems) == {"moved.json", "optimum.buttress", "units"}
    assert check(folder, "--problem", json.dumps(problems), capsys=capsys)[0] == 0
    problems["moved.json"]["threat"]["reach"][0] *= 2
    assert check(folder, "--problem", json.dumps(problems), capsys=capsys)[0] == 3


def test_the_file_conforms_to_its_schema(folder):
    schema = json.loads(TEMPLATE.with_name("evidence.schema.json").read_text())
    conforms(json.loads((folder / "evidence.json").read_text()), schema, schema)


def test_scores_in_float32_are_not_proven(tmp_path):
    X, y = wine()
    model = SVC().fit(X[::2].to_numpy(np.float32), y[::2])
    found = write_evidence(model, dict(X[1::2]), y[1::2], "kind", tmp_path)
    assert "float64" in found.not_proven["radii"]


def test_statements_say_what_they_rest_on(folder):
    held = json.loads((folder / "evidence.json").read_text())
    kinds = [statement["kind"] for statement in held["statements"]]
    assert {kind: kinds.count(kind) for kind in kinds} == {"proven": 3, "measured": 6, "declared": 1}
    assert held["left_blank"] == ["data", "limits"]
    assert set(held["not_proven"]) == {"labels"}
    accuracy = next(one for one in held["statements"] if one["name"] == "accuracy")
    X, y = wine()
    model = make_pipeline(StandardScaler(), SVC()).fit(X[::2], y[::2])
    assert accuracy["value"] == pytest.approx(model.score(X[1::2][SMALL], y[1::2][SMALL]))
    low, high = accuracy["rests_on"]["interval"]
    assert low < accuracy["value"] <= high
    page = (folder / "evidence.html").read_text()
    assert page.count("<tr>") == 1 + len(y[1::2][SMALL])
    assert "to tell wines apart" in page


def test_the_same_command_writes_the_same_files(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")  # model files hold the time of writing
    X, y = wine()
    model = make_pipeline(StandardScaler(), SVC()).fit(X[::2], y[::2])
    first, second = tmp_path / "first", tmp_path / "second"
    for path in (first, second):
        write_evidence(model, dict(X[1::2]), y[1::2], "kind", path, training=(dict(X[::2]), y[::2]), key=KEY)
    assert b"2023-11-14" in (first / "model.buttress").read_bytes()
    assert {path.name: path.read_bytes() for path in first.iterdir()} == {
        path.name: path.read_bytes() for path in second.iterdir()}


def test_transformers_that_give_frames_change_nothing(tmp_path):
    made = [write(make_pipeline(StandardScaler(), SVC()), tmp_path / "arrays")]
    with config_context(transform_output="pandas"):
        made.append(write(make_pipeline(StandardScaler(), SVC()), tmp_path / "frames"))
    assert made[0].statements == made[1].statements


def test_files_of_an_earlier_folder_go(tmp_path):
    write(make_pipeline(StandardScaler(), SVC()), tmp_path, key=KEY)
    write(make_pipeline(StandardScaler(), MLPClassifier(max_iter=5, random_state=0)), tmp_path, training=None)
    assert {path.name for path in tmp_path.iterdir()} == {
        "evidence.json", "evidence.html", "model.buttress", "rows.csv", "rows.parquet"}


def test_rows_of_the_examiner_are_compared(folder, tmp_path, capsys):
    X, y = wine()
    own = X[1::2][SMALL].assign(kind=y[1::2][SMALL])
    own.to_csv(tmp_path / "own.csv", index=False)
    assert check(folder, str(tmp_path / "own.csv"), "--target", "kind", capsys=capsys)[0] == 3
    for column in ("hue", "kind"):
        other = own.copy()
        other.loc[other.index[0], column] += 1
        other.to_csv(tmp_path / "other.csv", index=False)
        code, said = check(folder, str(tmp_path / "other.csv"), "--target", "kind", capsys=capsys)
        assert code == 1
        assert "NOT PROVEN: rows.csv" in said


@pytest.mark.parametrize(("model", "files"), [
    (make_pipeline(StandardScaler(), LibSVC(C=3.0)), ["moved.json", "optimum.json"]),
    (make_pipeline(StandardScaler(), LeastSquaresClassifier()), ["labels.json", "moved.json"]),
    (make_pipeline(StandardScaler(), RidgeClassifier()), ["labels.json", "moved.json"])],
    ids=lambda given: str(given)[-40:])
def test_proofs_of_other_models(model, files, tmp_path, capsys):
    write(model, tmp_path)
    code, said = check(tmp_path, capsys=capsys)
    assert code == 3
    assert "NOT PROVEN" not in said
    rests = [one["rests_on"] for one in json.loads((tmp_path / "evidence.json").read_text())["statements"]]
    assert files == sorted({one["file"] for one in rests if "file" in one})


def test_a_model_without_proofs_says_so_of_every_row(tmp_path, capsys):
    found = write(make_pipeline(StandardScaler(), MLPClassifier(max_iter=5, random_state=0)), tmp_path)
    assert set(found.rows["radius"]) == {None}
    assert set(found.not_proven) == {"radii", "optimum", "labels"}
    assert "MLPClassifier" in found.not_proven["radii"]
    assert (tmp_path / "evidence.html").read_text().count("not proven</td>") == len(found.rows["row"])
    assert verify.main([str(tmp_path)]) == 2
    assert "no statement" in capsys.readouterr().err


def test_a_regressor(tmp_path, capsys):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), SVR(C=10.0)).fit(X[:100], y[:100])
    found = write_evidence(model, dict(X[100:120]), y[100:120], "progress", tmp_path, training=(dict(X[:100]), y[:100]))
    assert found.counts() == {"proven": 1, "measured": 2, "declared": 0}
    assert "radius" not in found.rows
    error = next(one.value for one in found.statements if one.name == "root mean squared error")
    assert error == pytest.approx(np.sqrt(np.mean((model.predict(X[100:120]) - y[100:120]) ** 2)))
    assert check(tmp_path, capsys=capsys)[0] == 3
    plain = LinearRegression().fit(X[:100], y[:100])
    other = write_evidence(plain, dict(X[100:120]), y[100:120], "progress", tmp_path)
    assert other.not_proven == {"optimum": "the training rows were not given"}


def test_a_larger_threat_and_wrong_training_rows_prove_less(tmp_path):
    model = make_pipeline(StandardScaler(), SVC())
    small, large = (write(model, tmp_path, eps=eps).statements[0].value for eps in (0.05, 1.0))
    assert large < small
    X, y = wine()
    other = write(model, tmp_path, training=(dict(X[1::2]), y[1::2]))
    assert "Are they those of the fit" in other.not_proven["optimum"]
    declared = ThreatModel({"alcohol": Budget("0.05 sd")})
    kept = write(model, tmp_path, threat=declared).statements[0].value
    assert kept >= small


def copied(folder, place):
    for path in folder.iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    (place / "key").write_bytes(KEY)


def test_a_copied_folder_has_its_key(folder, tmp_path, capsys):
    copied(folder, tmp_path)
    assert check(tmp_path, "--key", str(tmp_path / "key"), capsys=capsys)[0] == 3


def test_a_file_that_was_added_is_said_to_be_of_no_evidence(folder, tmp_path, capsys):
    assert "not of this evidence" not in check(folder, capsys=capsys)[1]
    copied(folder, tmp_path)
    assert "not of this evidence: key\n" in check(tmp_path, capsys=capsys)[1]


@pytest.mark.parametrize("what", CHANGES)
def test_what_a_changed_folder_is_found_by(what, folder, tmp_path, capsys):
    change, by_proof = CHANGES[what]
    copied(folder, tmp_path)
    change(tmp_path)
    assert check(tmp_path, capsys=capsys)[0] == (1 if by_proof else 3)
    assert check(tmp_path, "--key", str(tmp_path / "key"), capsys=capsys)[0] == 1


def test_what_is_stated_of_the_optimum_is_proven(folder, tmp_path, capsys):
    def smaller(held):
        held["statements"][2]["value"] /= 100

    def other_row(place):
        text = (place / "training.csv").read_text()
        (place / "training.csv").write_text(text.replace(",0\n", ",1\n", 1))

    copied(folder, tmp_path)
    number(tmp_path, "evidence.json", smaller)
    assert check(tmp_path, capsys=capsys)[0] == 1
    copied(folder, tmp_path)
    with_digests(other_row)(tmp_path)
    assert check(tmp_path, capsys=capsys)[0] == 1


def other_at(folder):
    number(folder, "evidence.json", lambda held: held["statements"][0]["rests_on"].update(at=0.9999996))


def many_easy_rows(folder):
    names, row, *_ = list(csv.reader((folder / "rows.csv").open()))
    (folder / "easy.csv").write_text("\n".join(map(",".join, [names, *[row] * 99])))
    number(folder, "evidence.json", lambda held: held["statements"][0]["rests_on"].update(rows="easy.csv"))


def two_labels(folder):
    text = (folder / "rows.csv").read_text()
    (folder / "rows.csv").write_text(text.replace("0,1,2", "0,label,2", 1))


def behind_units(folder):
    (folder / "units").write_bytes((folder / "optimum.buttress").read_bytes())
    number(folder, "evidence.json", lambda held: held["statements"][2]["rests_on"].update(file="units"))


def huge(folder):
    number(folder, "evidence.json", lambda held: held["statements"][0].update(value=10**400))


def other_words(folder):
    number(folder, "evidence.json", lambda held: held["statements"][0].update(says="All rows stand everything."))


def like_a_proof(folder):
    number(folder, "evidence.json", lambda held: held["statements"].append(
        {"kind": "proven: rows kept at 9.0: stated 1, found 1" + 200 * " ", "name": "", "says": ""}))


def fewer_than_none(folder):
    number(folder, "evidence.json", lambda held: held["statements"][0]["rests_on"].update(at=-1))


@pytest.mark.parametrize(("change", "code", "said"), [
    (other_words, 3, "words of what is proven, not checked: accuracy under the threat, at least: All rows stand"),
    (like_a_proof, 2, "A statement is one of proven, measured, declared"), (fewer_than_none, 2, "number >= 0. Got -1"),
    (other_at, 3, "rows right and kept at 0.9999996 ("),  # the number as it is
    (many_easy_rows, 3, f"(moved.json, {len(wine()[1][1::2][SMALL])} rows)"),  # a statement does not choose its rows
    (with_digests(two_labels), 2, "two columns of one name"), (huge, 2, "OverflowError"),
    (behind_units, 2, "Got 'units'")])
def test_what_would_mislead(change, code, said, folder, tmp_path, capsys):
    copied(folder, tmp_path)
    change(tmp_path)
    assert verify.main([str(tmp_path)]) == code
    printed = capsys.readouterr()
    assert said in printed.out + printed.err


@pytest.mark.parametrize("unit", [{"name": "kind"}, {"mean": float("nan")}, {"scale": -1e300}, {"name": "proline"}])
def test_units_that_would_fit_any_rows_are_refused(unit, folder, tmp_path, capsys):
    X, y = wine()
    X[1::2][SMALL].assign(kind=y[1::2][SMALL]).to_csv(tmp_path / "own.csv", index=False)
    copied(folder, tmp_path)
    number(tmp_path, "evidence.json", lambda held: held["units"][0].update(unit))
    assert check(tmp_path, str(tmp_path / "own.csv"), "--target", "kind", capsys=capsys)[0] == 2


def test_what_is_declared_cannot_look_like_a_proof(tmp_path, capsys):
    write(make_pipeline(StandardScaler(), SVC()), tmp_path, declared={"purpose": "a\nproven: all\x1b[2J"})
    lines = check(tmp_path, capsys=capsys)[1].splitlines()
    assert not [line for line in lines if line.startswith("proven: all") or "\x1b" in line]


def test_classes_that_are_one_number_and_other_training_rows_are_told(tmp_path):
    X, y = wine()
    words = np.array(["1e5", "100000", "other"])[y]
    model = make_pipeline(StandardScaler(), RidgeClassifier()).fit(X[::2], words[::2])
    found = write_evidence(model, dict(X[1::2]), words[1::2], "kind", tmp_path, training=(dict(X[::2]), words[::2]))
    assert found.counts()["proven"] == 0
    assert "same label" in found.not_proven["radii"]
    fewer = write(make_pipeline(StandardScaler(), SVC()), tmp_path, training=(dict(X[:40:2]), y[:40:2]))
    assert "optimum" in fewer.not_proven
    model = make_pipeline(StandardScaler(), RidgeClassifier()).fit(X[::2], y[::2])
    half = write(make_pipeline(StandardScaler(), SVC()), tmp_path, training=(dict(X[:100:2]), y[:100:2]))
    assert half.not_proven["optimum"].endswith("of SVC: it was fitted to more than the 50 training rows given")
    other = write_evidence(model, dict(X[1::2]), y[1::2], "kind", tmp_path, training=(dict(X[1::2]), y[1::2]))
    assert "not proven on these training rows" in other.not_proven["labels"]


def test_a_name_cannot_lead_out_of_the_folder(folder, tmp_path, capsys):
    copied(folder, tmp_path)
    number(tmp_path, "evidence.json", lambda held: held["files"].update({"../x": "0"}))
    assert verify.main([str(tmp_path)]) == 2
    assert "'../x'" in capsys.readouterr().err


@pytest.mark.parametrize(("options", "said"), [
    ({"declared": {"price": "free"}}, "purpose, data, limits"), ({"key": b"short"}, "secret bytes"),
    ({"eps": -1.0}, "eps"), ({"threat": ThreatModel({"colour": 1.0})}, "'colour'")])
def test_bad_options_are_refused(options, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        write(make_pipeline(StandardScaler(), SVC()), tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


def test_files_that_are_no_evidence_are_not_lost(tmp_path):
    (tmp_path / "training.csv").write_text("mine")
    with pytest.raises(ValueError, match=r"holds 'training\.csv', which is of no earlier evidence"):
        write(make_pipeline(StandardScaler(), SVC()), tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("name", ["rows.csv", "training.csv", "evidence.json", "model.buttress"])
def test_files_beside_earlier_evidence_are_not_lost(name, tmp_path):
    """Only what the earlier evidence lists, and is as it lists it, is replaced."""
    model = make_pipeline(StandardScaler(), SVC())
    write(model, tmp_path, training=None)
    write(model, tmp_path, training=None)
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match="which is of no earlier evidence"):
        write(model, tmp_path, training=None)
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize("killed_at", [1, 3])
def test_evidence_that_a_kill_left_unfinished_is_written_anew(killed_at, tmp_path, monkeypatch):
    model = make_pipeline(StandardScaler(), SVC())
    write(model, tmp_path, training=None)
    steps = iter(range(killed_at))

    def step(*arguments):
        if next(steps, None) is None:
            raise KeyboardInterrupt
        os.rename(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr("buttress.files.disk.os.replace", step)
        with pytest.raises(KeyboardInterrupt):
            write(model, tmp_path, training=None, key=KEY)
    write(model, tmp_path, training=None, key=KEY)
    write(model, tmp_path, training=None)
    assert not (tmp_path / "evidence.sig").exists()


def test_from_the_command_line_with_categories(tmp_path, capsys):
    g = np.random.default_rng(0)
    frame = pd.DataFrame({"income": g.normal(50, 12, 120).round(2), "job": g.choice(["none", "clerk", "chief"], 120)})
    frame["loan"] = np.where(frame.income + 12 * (frame.job == "chief") > 52, "good", "bad")
    old_rows = frame[:80].copy()
    old_rows.loc[[3, 40], "loan"] = None  # train leaves them out
    old_rows.to_csv(tmp_path / "old.csv", index=False)
    frame[80:].to_csv(tmp_path / "new.csv", index=False)
    run = CliRunner().invoke
    old, new, model, out = (str(tmp_path / name) for name in ("old.csv", "new.csv", "model", "out"))
    assert run(app, ["train", old, "--target", "loan", "--estimator", "plain", "-o", model]).exit_code == 0
    done = run(app, ["evidence", model, new, "--target", "loan", "--training", old, "-o", out,
                     "--declare", "purpose=x"])
    assert done.exit_code == 0
    assert "Check it again: buttress-verify" in done.stdout
    assert "distance from the optimum" in done.stdout
    assert check(out, new, "--target", "loan", capsys=capsys)[0] == 3
    threat = json.loads((tmp_path / "out" / "moved.json").read_text())["problem"]["threat"]
    assert threat["most_swaps"] == 1
    assert len(threat["groups"][0]["choices"]) == 3
    refused = run(app, ["evidence", model, new, "--target", "loan", "-o", out, "--declare", "purpose"])
    assert refused.exit_code != 0
    assert "purpose=" in str(refused.exception)
