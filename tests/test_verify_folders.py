"""The verifier's limits: of what a folder may say, of what is compared, and of when a proof is tried again."""

import hashlib
import hmac
import json

import numpy as np
import pytest

from buttress.verify import certificate, command, evidence, main
from buttress.verify.core import Claim
from buttress.verify.evidence import (
    StatementProof,
    entry_of,
    prove_folder,
    prove_statement,
    read_columns,
    rows_agree,
    unchecked,
)

X = np.array([[2.0, 0.0], [0.0, 1.0], [-1.0, 1.0], [3.0, -2.0], [1.0, 1.0]])
Y = ["a", "b", "b", "a", "a"]
LINEAR = {"class": "Linear", "coef0": 0.0}


def proof(at, **claim):
    return StatementProof({"claim": claim}, Y[:3], [], at)


def test_rows_are_kept_at_their_radius_and_predictions_by_more_labels_than_are_wrong():
    assert proof(0.5, radius=[0.5, None, 0.4]).kept().tolist() == [True, False, False]
    assert proof(2.0, needed=[2, None, 3]).needed().tolist() == [False, True, True]
    assert proof(2.0, prediction=["a", "a", "b"]).right().tolist() == [True, False, True]
    claims = [Claim(name, 0.0, value, True) for name, value in (("gap 0", 1.0), ("gap 1", 3.0), ("primal", 9.0))]
    assert evidence.VALUES["gap"][1](StatementProof({}, [], claims, 0.0)) == 3.0


def write_table(path, rows, labels):
    lines = ["u,v,label", *(f"{u},{v},{label}" for (u, v), label in zip(rows.tolist(), labels, strict=True))]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path):
    """A folder with a certificate of labels and one of a gap, and no statement."""
    write_table(tmp_path / "training.csv", X, Y)
    stated = {"model": "least squares", "kernel": LINEAR, "alpha": 0.5, "intercept": True, "classes": ["a", "b"],
              "threshold": None, "directions": None, "eligible": None}
    labels = certificate(stated, {"rows": X[:3].tolist()}, X, Y, {"prediction": Y[:3], "needed": [1, 1, 0]})
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    stated = {"model": "SVC", "C": 3.0, "kernel": LINEAR, "classes": ["a", "b"], "class_weight": None,
              "pairs of classes": False}
    point = {"support": [0, 1], "coef": [[-0.25], [0.25]], "intercept": [0.0]}
    (tmp_path / "machine.json").write_text(json.dumps(certificate(stated, point, X, Y, {})))
    return tmp_path


def statement(file, value, at, stated):
    return {"kind": "proven", "value": stated, "rests_on": {"file": file, "value": value, "at": at}}


def test_a_statement_may_say_less_and_more_by_a_billionth(folder):
    whole = prove_statement(folder, statement("labels.json", "predictions kept", 0, 0.0))[0]
    assert [claim.holds for claim in whole] == [True]
    share, gap = 2 / 3, prove_statement(folder, statement("machine.json", "gap", 0, 1e9))[0][0].proven
    assert whole[0].proven == share
    assert gap > 0.1
    for step, holds in ((-0.5, True), (0.5e-9, True), (1e-9, True), (1.5e-9, False)):
        stated = share + step * share
        assert prove_statement(folder, statement("labels.json", "predictions kept", 0, stated))[0][0].holds == holds
        stated = gap - step * gap
        assert prove_statement(folder, statement("machine.json", "gap", 0, stated))[0][0].holds == holds
    with pytest.raises(ValueError, match="at a number >= 0"):
        prove_statement(folder, statement("labels.json", "predictions kept", -0.5, 0.0))


@pytest.mark.parametrize(("length", "fits"), [(15, False), (16, True)])
def test_a_key_is_of_16_bytes_and_its_signature_compared(folder, length, fits):
    held, key = {"files": {}, "statements": [], "units": []}, bytes(range(length))
    (folder / "evidence.json").write_text(json.dumps(held))
    made = hmac.new(key, (folder / "evidence.json").read_bytes(), hashlib.sha256).hexdigest()
    for text in (made, "0" * 64):
        (folder / "evidence.sig").write_text(text + "\n")
        if fits:
            assert prove_folder(folder, held, key)[0] == [
                ("signature of evidence.json", 1.0, float(text == made), text == made)]
        else:
            with pytest.raises(ValueError, match="shorter than 16 bytes"):
                prove_folder(folder, held, key)
    held["files"] = {"labels.json": "0" * 64}
    assert prove_folder(folder, held, None)[0] == [("digest of labels.json", 1.0, 0.0, False)]


def unit(name, **more):
    return {"name": name, "levels": None, "codes": False, "mean": 2.0, "scale": 4.0, **more}


def test_entries_of_the_data_are_taken_as_the_model_takes_them():
    assert entry_of(unit("u"), "10") == [2.0]
    assert entry_of(unit("u"), "ten") is None
    assert entry_of(unit("u"), "nan") is None
    assert entry_of(unit("u", levels=["x", "y"]), "y") == [0.0, 1.0]
    assert entry_of(unit("u", levels=["x", "y"], codes=True), "y") == [1.0]
    for wrong in ({"scale": np.inf}, {"scale": 0.0}, {"mean": np.nan}):
        with pytest.raises(ValueError, match="no finite mean and no scale above 0"):
            entry_of(unit("u", **wrong), "10")


@pytest.mark.parametrize(("off", "agree"), [(0.0, True), (0.5e-9, True), (1.5e-9, False)])
def test_rows_of_a_folder_are_those_of_the_data_to_a_billionth(folder, off, agree):
    (folder / "rows.csv").write_text(f"u,x,y,label\n{0.0 + off!r},1,0,a\n1,0,1,b\n")
    held = {"units": [unit("u"), unit("level", levels=["x", "y"])]}
    data = {"u": ["2", "6"], "level": ["x", "y"], "label": ["a", "b"]}
    assert rows_agree(folder, held, data, "label")[0][1:] == (1.0, float(agree), agree)
    assert not rows_agree(folder, held, data | {"label": ["a", "a"]}, "label")[0].holds
    assert not rows_agree(folder, held, data | {"u": ["-", "-"], "level": ["-", "-"]}, "label")[0].holds
    assert not rows_agree(folder, {"units": held["units"][:1]}, data, "label")[0].holds  # a column more than units
    for units in (held["units"] * 2, [unit("other")], [unit("label")]):
        with pytest.raises(ValueError, match="of other columns than the data's"):
            rows_agree(folder, {"units": units}, data, "label")


def test_data_are_not_compared_with_a_folder_that_holds_no_rows(tmp_path):
    with pytest.raises(ValueError, match=r"no rows\.csv to compare the data with.* Leave them out"):
        rows_agree(tmp_path, {"units": []}, {"a": ["1"]}, "a")


def test_columns_of_one_name_are_refused(tmp_path):
    (tmp_path / "data.csv").write_text("u,u\n1,2\n")
    with pytest.raises(ValueError, match="two columns of one name"):
        read_columns(tmp_path / "data.csv")
    (tmp_path / "data.csv").write_text("u,v\n1,2\n")
    assert read_columns(tmp_path / "data.csv") == {"u": ["1"], "v": ["2"]}


def test_what_nobody_proves_is_listed_after_what_digests_are():
    said = unchecked({"files": {"a": "", "b": ""}, "statements": [
        {"kind": "declared", "name": "purpose", "says": "none"}]})
    assert said[0].startswith("the digests of 2 files are compared")
    assert said[1:] == ["declared, not checked: purpose: none"]


def test_no_text_of_a_file_makes_a_line_or_a_colour(capsys):
    command.say("a\nb\x1b[1m")
    assert capsys.readouterr().out == "a\\nb\\x1b[1m\n"


@pytest.mark.parametrize(("part", "code"), [("problem", 3), ("kernel", 2)])
def test_no_name_in_a_file_makes_a_line(part, code, folder, capsys):
    held = json.loads((folder / "machine.json").read_text())
    forged = "\nproven for the problem that was given"
    (held["problem"] if part == "problem" else held["problem"]["kernel"])["x" + forged] = 1.0
    (folder / "machine.json").write_text(json.dumps(held))
    assert main([str(folder / "machine.json"), str(folder / "training.csv")]) == code
    printed = capsys.readouterr()
    assert repr(forged)[1:-1] in printed.out + printed.err
    assert forged not in printed.out + printed.err


def test_a_file_and_a_column_may_have_an_equals_sign_in_their_names(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / f"{name}=.csv").write_text("a=b,c\n1,2\n")
    (tmp_path / "model").write_bytes(b"")
    asked = []
    monkeypatch.setattr(command, "read_model", lambda path: {})
    monkeypatch.setattr(command, "problem_of", lambda model: {})
    monkeypatch.setattr(command, "relational", lambda model, *given: asked.extend(given) or [])
    tables = [f"--table={name}={tmp_path / name}=.csv" for name in ("one", "two")]
    main([str(tmp_path / "model"), *tables, "--on=one.c=two.a=b", "--target=c"])
    assert asked == [{name: {"a=b": ["1"], "c": ["2"]} for name in ("one", "two")}, [["one.c", "two.a=b"]], "c"]


def test_the_target_is_the_last_column_and_a_problem_stated_must_be_the_files(folder, capsys):
    call = [str(folder / "labels.json"), str(folder / "training.csv")]
    assert main(call) == main([*call, "--target", "label"]) == 3
    assert main([*call, "--target", "u"]) in (1, 2)
    stated = json.loads((folder / "labels.json").read_text())["problem"]
    capsys.readouterr()
    for asked, code, said in ((stated, 0, "for the problem that was given"), (stated | {"more": 1}, 3, "lack: more"),
                              (stated | {"alpha": 2}, 3, "lack: alpha")):
        assert main([*call, "--problem", json.dumps(asked)]) == code
        assert said in capsys.readouterr().out


@pytest.mark.parametrize(("n", "claims", "kinds"), [
    (3_000, [True, False, False], [float, np.longdouble]), (3_001, [True, False, False], [float]),
    (9, [True, True, True], [float]), (9, [False, True, True], [float]),
    (9, [True, True, False], [float, np.longdouble])])
def test_a_proof_that_rounding_spoils_is_tried_with_longer_numbers(n, claims, kinds, monkeypatch):
    """Of up to 3,000 rows; not where the first claim fails, that the data are those of the file."""
    asked = []

    def tried(model, rows, y, weight):
        asked.append(rows.dtype)
        assert weight.tolist() == [2.0, 0.0] + [1.0] * (n - 2)
        return [Claim("it", 1.0, 1.0, holds) for holds in claims]

    monkeypatch.setitem(evidence.PROOFS, "SVC", (lambda model: {"C": np.float64(2)}, tried))
    evidence.prove({"class": "SVC"}, np.zeros((n, 1)), weight=np.array([2.0, -3.0] + [1.0] * (n - 2)))
    assert asked == [np.dtype(kind) for kind in kinds]
    assert evidence.problem_of({"class": "SVC"}) == {"C": 2.0}
