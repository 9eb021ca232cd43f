"""Models trained, asked, attacked and looked into at the command line; their labels are those of the user's file."""

import re
import sys
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from buttress import SVC, cli, save
from buttress.attacks import pgd
from buttress.audit.models.table_model import codes_of
from buttress.persistence import load

N = 120
RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, N))
YES = A + B > 0


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Run a command in a folder of its own; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["buttress", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out = capsys.readouterr()
        return stop.value.code or 0, out.out, out.err

    return run


def written(name, **columns):
    pl.DataFrame({"a": A, "price": [f"£{value:.3f}" for value in B], "kind": ["u", "v", None] * (N // 3), **columns}
                 ).write_csv(name)


@pytest.mark.parametrize("estimator", ["linear", "boosting", "plain"])
@pytest.mark.parametrize(("no", "yes"), [("no", "yes"), ("FALSE", "TRUE"), ("1", "2"), ("01", "02"), ("0.0", "1.0")])
def test_predictions_are_in_the_users_words(no, yes, estimator, call):
    given = np.where(YES, yes, no)
    written("data.csv", y=given)
    assert call("train", "data.csv", "--target", "y", "--estimator", estimator, "-o", "m.buttress")[0] == 0
    pl.read_csv("data.csv", infer_schema=False).drop("y").write_csv("new.csv")
    assert call("predict", "m.buttress", "new.csv", "-o", "p.csv")[0] == 0
    found = pl.read_csv("p.csv", infer_schema=False)
    assert set(found["prediction"]) == {no, yes}
    assert np.mean(found["prediction"].to_numpy() == given) > 0.9
    assert found["row"].cast(int).to_list() == list(range(N))


def test_what_is_predicted_is_what_the_pipeline_says(call):
    written("data.csv", y=np.where(YES, "yes", "no"))
    call("train", "data.csv", "--target", "y", "--estimator", "plain", "-o", "m.buttress")
    model = load("m.buttress")
    frame = pl.DataFrame({"kind": ["v", None, "never seen"], "price": [0.5, -2.0, None], "more": [1, 2, 3],
                          "a": [1.0, -1.0, None]})
    rows = np.array([[1.0, 0.5, "v"], [-1.0, -2.0, "(missing)"], [np.nan, np.nan, "never seen"]], dtype=object)
    assert model.predict(frame).tolist() == model.pipeline.predict(rows).tolist()
    np.testing.assert_array_equal(model.rows_of(frame)[:2], rows[:2])


def test_a_regression_answers_in_numbers_and_parquet_is_written(call):
    written("data.csv", y=A + 2 * B)
    assert call("train", "data.csv", "--target", "y", "--estimator", "linear", "-o", "m.buttress")[0] == 0
    assert call("predict", "m.buttress", "data.csv", "-o", "p.parquet")[0] == 0
    found = pl.read_parquet("p.parquet")
    assert found.columns == ["row", "prediction"]
    np.testing.assert_allclose(found["prediction"], A + 2 * B, atol=0.2)
    code, _, err = call("attack", "m.buttress", "data.csv", "--target", "y")
    assert code == 2
    assert "predicts numbers" in err


def test_by_default_what_an_audit_recommends_is_trained(call, monkeypatch):
    said = SimpleNamespace(recommended="gradient boosting", verdict=["", "", "Use: gradient boosting."])
    monkeypatch.setattr("buttress.audit.call.audit_table", lambda *arguments, **more: said)
    written("data.csv", y=np.where(YES, "yes", "no"))
    code, out, _ = call("train", "data.csv", "--target", "y", "-o", "m.buttress")
    assert code == 0
    assert out.startswith("Use: gradient boosting.")
    assert load("m.buttress").estimator == "gradient boosting"
    said.recommended = None
    code, _, err = call("train", "data.csv", "--target", "y", "-o", "m.buttress")
    assert code == 2
    assert "--estimator linear" in err


@pytest.mark.slow
def test_the_audit_itself_recommends(call):
    written("data.csv", y=np.where(YES, "yes", "no"))
    code, out, _ = call("train", "data.csv", "--target", "y", "--effort", "quick", "-o", "m.buttress")
    assert code == 0
    assert out.startswith("Use: ")
    assert load("m.buttress").estimator in out


def test_an_attack_is_that_of_the_library(call):
    written("data.csv", y=np.where(YES, "yes", "no"))
    call("train", "data.csv", "--target", "y", "--estimator", "plain", "-o", "m.buttress")
    arguments = ("attack", "m.buttress", "data.csv", "--target", "y", "--eps", "0.25", "--swaps", 0)
    code, out, _ = call(*arguments)
    assert code == 0
    eps, swaps, accuracy, proven = (float(entry) for entry in out.splitlines()[2].split())
    assert swaps == 0
    model = load("m.buttress")
    X = model.pipeline[0].transform(model.rows_of(pl.read_csv("data.csv")))
    low, high = X.copy(), X.copy()
    low[:, :2], high[:, :2] = -np.inf, np.inf
    y = np.where(YES, "yes", "no")
    survived = model.pipeline[-1].predict(pgd(model.pipeline[-1], X, y, eps=eps, bounds=(low, high))) == y
    assert accuracy == pytest.approx(survived.mean(), abs=0.05)
    assert proven <= accuracy
    code, _, err = call(*arguments, "--fail-under", 1)
    assert code == 1
    assert "required 1" in err


def test_rows_without_a_target_are_left_out_of_an_attack_as_of_an_audit(call):
    written("data.csv", y=np.where(YES, "yes", "no"))
    call("train", "data.csv", "--target", "y", "--estimator", "plain", "-o", "m.buttress")
    whole = pl.read_csv("data.csv")
    whole[3:].write_csv("known.csv")
    whole.with_columns(y=pl.when(pl.int_range(N) < 3).then(None).otherwise("y")).write_csv("gaps.csv")
    found = {name: call("attack", "m.buttress", f"{name}.csv", "--target", "y", "--eps", "0.25") for name in
             ("known", "gaps")}
    assert found["gaps"][:2] == found["known"][:2]
    assert found["gaps"][2] == "buttress: 3 rows without a target 'y' left out.\n" + found["known"][2]


def test_boosting_is_attacked_by_trying_and_a_saved_machine_is_attacked_too(call):
    written("data.csv", y=np.where(YES, 1, 0))
    call("train", "data.csv", "--target", "y", "--estimator", "boosting", "-o", "m.buttress")
    _, out, _ = call("attack", "m.buttress", "data.csv", "--target", "y", "--eps", "0.2,0.4", "--rows", 40)
    shares = [float(line.split()[2]) for line in out.splitlines()[1:5]]
    assert shares == sorted(shares, reverse=True)
    assert out.splitlines()[5].startswith("40 rows")
    pl.DataFrame({"a": A, "b": B, "y": np.where(YES, 1, 0)}).write_csv("plain.csv")
    save(SVC().fit(np.column_stack([A, B]), YES.astype(int)), "svc.buttress")
    _, out, _ = call("attack", "svc.buttress", "plain.csv", "--target", "y", "--eps", "0.3")
    assert float(out.splitlines()[1].split()[2]) > float(out.splitlines()[2].split()[2])
    pl.DataFrame({"a": A, "b": B}).write_csv("new.csv")
    assert call("predict", "svc.buttress", "new.csv", "-o", "p.csv")[0] == 0
    assert np.mean(pl.read_csv("p.csv")["prediction"].to_numpy() == YES) > 0.9


FLAG = RNG.integers(0, 2, N)
KIND = RNG.choice(["u", "v", "w"], N)


def flipped(columns):
    """Yield the columns with each swap of one cell, in all rows at once."""
    yield columns
    yield {**columns, "flag": 1 - columns["flag"]}
    for kind in ("u", "v", "w"):
        yield {**columns, "kind": np.full(N, kind)}


def flags(call, estimator):
    """Train on a table that leans on a column of 0 and 1; return what one swap leaves right, the labels, the model."""
    columns = {"a": A, "flag": FLAG, "kind": KIND}
    y = np.where(A + 2 * FLAG + (KIND == "v") > 1.2, "yes", "no")
    pl.DataFrame({**columns, "y": y}).write_csv("flags.csv")
    call("train", "flags.csv", "--target", "y", "--estimator", estimator, "-o", "f.buttress")
    model = load("f.buttress")
    stands = np.all([model.predict(version) == y for version in flipped(columns)], axis=0)
    return stands.mean(), y, model


@pytest.mark.parametrize("estimator", ["linear", "plain", "certified", "boosting"])
def test_what_one_flip_breaks_is_not_called_proven(call, estimator):
    truth, _, _ = flags(call, estimator)
    code, out, _ = call("attack", "f.buttress", "flags.csv", "--target", "y", "--eps", "0,0.1")
    assert code == 0
    plain, swapped, moved = (line.split() for line in out.splitlines()[1:4])
    assert [plain[:2], swapped[:2], moved[:2]] == [["0", "0"], ["0", "1"], ["0.1", "1"]]
    assert float(plain[2]) > 0.8 > truth
    assert float(swapped[2]) == pytest.approx(truth, abs=1e-3)
    assert float(moved[2]) <= float(swapped[2])
    assert "'flag' to 0 or 1; 'kind' to u or v or w" in out
    if estimator != "boosting":  # it splits categories, which are not read as trees
        assert float(swapped[3]) == pytest.approx(truth, abs=1e-3)
        assert float(moved[3]) <= float(moved[2])


@pytest.mark.parametrize("estimator", ["linear", "boosting"])
def test_a_threat_file_is_in_the_units_of_the_table(call, estimator):
    _, y, model = flags(call, estimator)
    with open("threat.toml", "w", encoding="utf-8") as file:
        file.write('most_swaps = 1\n[numbers.a]\nby = 0.3\ndirection = "up"\n[categories]\nkind = ["v", "w"]\n')
    code, out, err = call("attack", "f.buttress", "flags.csv", "--target", "y", "--threat", "threat.toml")
    assert code == 0, err
    versions = [{"a": A + move, "flag": FLAG, "kind": kind} for move in np.linspace(0, 0.3, 7)
                for kind in (KIND, np.full(N, "v"), np.full(N, "w"))]
    stands = np.all([model.predict(version) == y for version in versions], axis=0)
    assert float(out.splitlines()[3].split()[2]) == pytest.approx(stands.mean(), abs=0.02)
    assert "'a' by at most 0.3, up only" in out
    assert call("attack", "f.buttress", "flags.csv", "--target", "y", "--threat", "threat.toml", "--swaps", 2)[0] == 2
    with open("threat.toml", "w", encoding="utf-8") as file:
        file.write("[numbers]\nkind = 1\n")
    code, _, err = call("attack", "f.buttress", "flags.csv", "--target", "y", "--threat", "threat.toml")
    assert code == 2
    assert "names 'kind', which is no number of the model" in err


def test_one_swap_may_break_every_row(call):
    pl.DataFrame({"kind": KIND, "y": np.where(KIND == "v", "yes", "no")}).write_csv("one.csv")
    call("train", "one.csv", "--target", "y", "--estimator", "boosting", "-o", "one.buttress")
    code, out, err = call("attack", "one.buttress", "one.csv", "--target", "y", "--eps", "0.1")
    assert code == 0, err
    assert [float(line.split()[2]) for line in out.splitlines()[1:4]] == [1, 0, 0]
    assert "at most what is shown: no proof is known" in out


def test_trees_that_were_saved_are_settled(call):
    X = np.column_stack([A, B, FLAG])
    y = (A + FLAG > 0.5).astype(int)
    pl.DataFrame({"a": A, "b": B, "flag": FLAG, "y": y}).write_csv("trees.csv")
    model = HistGradientBoostingClassifier(max_iter=10).fit(X, y)
    save(model, "trees.buttress")
    code, out, _ = call("attack", "trees.buttress", "trees.csv", "--target", "y", "--eps", "0")
    assert code == 0
    flipped = X * [1, 1, -1] + [0, 0, 1]
    truth = ((model.predict(X) == y) & (model.predict(flipped) == y)).mean()
    assert [float(entry) for entry in out.splitlines()[2].split()[2:]] == pytest.approx([truth, truth], abs=1e-3)


def test_a_file_says_what_is_in_it(call):
    written("data.csv", y=np.where(YES, "yes", "no"))
    call("train", "data.csv", "--target", "y", "--estimator", "plain", "-o", "m.buttress")
    code, out, _ = call("inspect", "m.buttress")
    assert code == 0
    for said in ("format 4", "buttress 0.", "plain SVC, classification of 'y'", f"{N} rows of data.csv", "no, yes",
                 "numbers: a, price", "categories: kind", "numbers in '£'", "held-out accuracy", "dual_gap_"):
        assert said in out
    save(SVC().fit(np.column_stack([A, B]), YES), "svc.buttress")
    assert "SVC()\n  classes: False, True\n  dual_gap_" in call("inspect", "svc.buttress")[1]


JOIN = """on = [["visits.person", "people.id"]]
[[table]]
name = "people"
source = "people.csv"
features = ["a"]
label = "bought"
[[table]]
name = "visits"
source = "visits.csv"
features = ["minutes"]
"""


@pytest.mark.parametrize(("no", "yes"), [("no", "yes"), ("False", "True"), ("10", "20")])
def test_a_model_over_a_join_answers_in_the_users_words(no, yes, call, tmp_path):
    pytest.importorskip("duckdb")
    (tmp_path / "joins.toml").write_text(JOIN)
    people = pl.DataFrame({"id": np.arange(N), "a": A, "bought": np.where(YES, yes, no)})
    people.write_csv("people.csv")
    pl.DataFrame({"person": np.arange(N), "minutes": B}).write_csv("visits.csv")
    assert call("fit", "joins.toml", "-o", "m.buttress")[0] == 0
    people.drop("bought").write_csv("people.csv")  # new people have no label
    assert call("predict", "m.buttress", "joins.toml", "-o", "p.csv")[0] == 0
    found = pl.read_csv("p.csv", infer_schema=False)["prediction"].to_numpy()
    assert set(found) == {no, yes}
    assert np.mean(found == np.where(YES, yes, no)) > 0.9
    assert "optimum within" in call("inspect", "m.buttress")[1]
    code, _, err = call("predict", "m.buttress", "people.csv", "-o", "p.csv")
    assert code == 2
    assert "TOML file" in err


@pytest.mark.parametrize(("no", "yes"), [("FALSE", "TRUE"), ("1", "2")])
@pytest.mark.parametrize("data", ["people.csv", "joins.toml", "people.parquet"])
def test_classes_beside_gaps_are_in_the_users_words_too(data, no, yes, call, tmp_path):
    pytest.importorskip("duckdb")
    given = np.where(YES, yes, no).astype(object)
    given[[3, 5]] = None
    (tmp_path / "joins.toml").write_text(JOIN)
    pl.DataFrame({"person": np.arange(N), "minutes": B}).write_csv("visits.csv")
    pl.DataFrame({"id": np.arange(N), "a": A, "bought": given}).write_csv("people.csv")
    pl.read_csv("people.csv").write_parquet("people.parquet")
    target = [] if data == "joins.toml" else ["--target", "bought"]
    assert call("train", data, *target, "--estimator", "linear", "-o", "m.buttress")[0] == 0
    assert call("predict", "m.buttress", data, "-o", "p.csv")[0] == 0
    words = {no.title(), yes.title()} if data == "people.parquet" else {no, yes}  # True, as Python has it
    assert set(pl.read_csv("p.csv", infer_schema=False)["prediction"]) == words


@pytest.mark.filterwarnings("default")
def test_warnings_are_lines_of_the_command(call, tmp_path):
    pytest.importorskip("duckdb")
    (tmp_path / "joins.toml").write_text(JOIN)
    pl.DataFrame({"id": np.arange(N), "a": A, "bought": YES}).write_csv("people.csv")
    pl.DataFrame({"person": np.arange(1, N), "minutes": B[1:]}).write_csv("visits.csv")
    assert call("fit", "joins.toml", "-o", "m.buttress")[0] == 0
    code, _, err = call("predict", "m.buttress", "joins.toml", "-o", "p.csv")
    assert code == 0
    assert err.startswith(f"buttress: 1 of {N} rows of people ")
    assert err.count("\n") == 1


def test_a_held_out_error_has_the_digits_of_its_interval(call):
    pl.DataFrame({"a": A, "y": 1e5 * (A + B)}).write_csv("data.csv")
    _, out, _ = call("train", "data.csv", "--target", "y", "--estimator", "linear", "-o", "m.buttress")
    assert re.match(r"ridge regression: RMSE \d{5,6} \(\d{5,6} to \d{5,6}\) on", out)
    assert re.search(r"held-out RMSE: \d{5,6} \(", call("inspect", "m.buttress")[1])


def test_a_join_with_gaps_is_fitted_once_told_how(call, tmp_path):
    pytest.importorskip("duckdb")
    (tmp_path / "joins.toml").write_text(JOIN)
    gaps = pl.Series(A).scatter(np.arange(3), None)
    pl.DataFrame({"id": np.arange(N), "a": gaps, "bought": YES.astype(int)}).write_csv("people.csv")
    pl.DataFrame({"person": np.arange(N), "minutes": B}).write_csv("visits.csv")
    code, _, err = call("fit", "joins.toml", "-o", "m.buttress")
    assert code == 2
    assert "people.a is NULL or NaN in 3 rows" in err
    assert "missing='mean'" in err
    code, out, _ = call("fit", "joins.toml", "-o", "m.buttress", "--missing", "mean", "--engine", "stream",
                        "--memory-limit", "300")
    assert code == 0
    assert "people.a is NULL" in out
    code, _, err = call("fit", "joins.toml", "-o", "m.buttress", "--engine", "disk")
    assert code == 2
    assert "engine" in err


@pytest.mark.parametrize(("arguments", "message"), [
    (["predict", "m.buttress", "short.csv", "-o", "p.csv"], "lack the columns 'price', 'kind'"),
    (["predict", "m.buttress", "words.csv", "-o", "p.csv"], "'a' held numbers before"),
    (["predict", "m.buttress", "/dev/null", "-o", "p.csv"], "'/dev/null' is a folder, a pipe or a device"),
    (["attack", "m.buttress", "data.csv", "--target", "y", "--threat", "number.toml"], "'kind', which is no number of"),
    (["attack", "m.buttress", "data.csv", "--target", "y", "--threat", "outside.toml"], "keeps 'a' from 99 to inf"),
    (["predict", "m.buttress", "data.csv", "-o", "data.csv"], "one of the files that are read"),
    (["train", "data.csv", "--target", "y", "-o", "data.csv"], "one of the files that are read"),
    (["train", "joins.toml", "-o", "people.csv"], "one of the files that are read"),
    (["fit", "joins.toml", "-o", "joins.toml"], "one of the files that are read"),
    (["features", "joins.toml", "-o", "people.csv"], "one of the files that are read"),
    (["train", "data.csv", "--target", "y", "--drop", "y", "-o", "x"], "'y', which is not among the features"),
    (["predict", "m.buttress", "data.csv", "-o", "nowhere/p.csv"], "is in 'nowhere', and there is no such folder"),
    (["predict", "m.buttress", "data.csv", "-o", "p.xlsx"], "end its name in .csv, .parquet or .pq"),
    (["features", "joins.toml", "-o", "f.txt"], "Rows are written as CSV or Parquet. Got --output 'f.txt'"),
    (["predict", "nope.buttress", "data.csv", "-o", "p.csv"], "no file 'nope.buttress'"),
    (["predict", "data.csv", "data.csv", "-o", "p.csv"], "not a model file"),
    (["predict", "m.buttress", "joins.toml", "-o", "p.csv"], "not a join"),
    (["attack", "m.buttress", "data.csv", "--target", "y", "--eps", "a"], "--eps must look like"),
    (["attack", "m.buttress", "data.csv", "--target", "y", "--eps", "-1"], "--eps must be at least 0"),
    (["attack", "m.buttress", "data.csv", "--target", "y", "--fail-under", "7"], "in [0, 1]"),
    (["attack", "m.buttress", "whole.csv", "--target", "word"], "Column 'word' holds 'q', which is no class of the "
     "model; its classes are no, yes. It was trained on the target 'y'"),
    (["attack", "m.buttress", "gone.csv", "--target", "none"], f"'none' is missing in {N} rows, the first of them"),
    (["train", "data.csv", "--target", "y", "-o", "x", "--estimator", "liner"], "liner"),
    (["train", "data.csv", "--target", "y", "-o", "x", "--estimator", "linear-log"], "does not suit"),
    (["train", "data.csv", "--target", "y", "-o", "nowhere/x"], "no such folder"),
    (["train", "data.csv", "--target", "y", "--estimator", "linear", "-o", "/sys/x"], "--output '/sys/x'"),
    (["inspect", "nope"], "no file 'nope'"),
])
def test_mistakes_are_one_line(arguments, message, call, tmp_path):
    written("data.csv", y=np.where(YES, "yes", "no"))
    call("train", "data.csv", "--target", "y", "--estimator", "linear", "-o", "m.buttress")
    pl.DataFrame({"a": A}).write_csv("short.csv")
    pl.read_csv("data.csv").with_columns(word=pl.lit("q")).write_csv("whole.csv")
    pl.read_csv("data.csv").with_columns(none=pl.lit("")).write_csv("gone.csv")
    pl.read_csv("data.csv").with_columns(a=pl.lit("word")).write_csv("words.csv")
    (tmp_path / "joins.toml").write_text(JOIN)
    pl.DataFrame({"id": [1]}).write_csv("people.csv")
    (tmp_path / "number.toml").write_text("[numbers]\nkind = 1")
    (tmp_path / "outside.toml").write_text("[numbers.a]\nby = 1\nlow = 99")
    before = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = call(*arguments)
    assert code == 2
    assert err.count("\n") == 1
    assert message in err
    assert out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_predict_says_what_it_could_not_read_and_has_not_seen(call):
    written("data.csv", y=np.where(YES, "yes", "no"))
    call("train", "data.csv", "--target", "y", "--estimator", "linear", "-o", "m.buttress")
    pl.DataFrame({"a": ["1.5", "abc", None, "2"], "price": ["£1", "£2", "£3", "free"],
                  "kind": ["u", "pink", "pink", "v"]}).write_csv("new.csv")
    code, out, err = call("predict", "m.buttress", "new.csv", "-o", "p.csv")
    assert code == 0
    assert out.startswith("4 rows predicted")
    assert err.splitlines() == [
        "buttress: Column 'a': 1 entry is no number, such as 'abc' in row 1; counted as missing.",
        "buttress: Column 'price': 1 entry is no number, such as 'free' in row 3; counted as missing.",
        "buttress: Column 'kind': 2 entries were not seen in training, such as 'pink' in row 1; counted as no "
        "category."]
    assert call("predict", "m.buttress", "data.csv", "-o", "p.csv")[2] == ""
    pl.read_csv("new.csv").with_columns(y=pl.lit("yes")).write_csv("new.csv")
    for command in (["attack", "m.buttress", "new.csv"], ["evidence", "m.buttress", "new.csv", "-o", "evidence"]):
        assert call(*command, "--target", "y")[2] == err


def test_features_have_truth_values_as_their_file_has_them(call, tmp_path):
    """DuckDB reads yes and no as truth values; where one is missing they are no numbers, of a label or of a feature."""
    pytest.importorskip("duckdb")
    (tmp_path / "joins.toml").write_text(JOIN)
    words = np.where(YES, "yes", "no").astype(object)
    pl.DataFrame({"person": np.arange(N), "minutes": B}).write_csv("visits.csv")
    for gaps in ([], [3, 5]):
        words[gaps] = None
        pl.DataFrame({"id": np.arange(N), "a": A, "bought": words}).write_csv("people.csv")
        assert call("features", "joins.toml", "-o", "f.csv")[0] == 0
        assert pl.read_csv("f.csv")["people.bought"].to_list() == words.tolist()
    assert call("train", "joins.toml", "--estimator", "linear", "-o", "m.buttress")[0] == 0
    assert call("predict", "m.buttress", "joins.toml", "-o", "p.csv")[0] == 0
    assert set(pl.read_csv("p.csv")["prediction"]) == {"yes", "no"}
    numbers = np.where(YES, 1, 0)
    pl.DataFrame({"id": np.arange(N), "a": A, "bought": numbers}).write_csv("people.csv")
    assert call("features", "joins.toml", "-o", "f.parquet")[0] == 0
    assert pl.read_parquet("f.parquet")["people.bought"].to_list() == numbers.tolist()
    truth = [None, *YES[1:].tolist()]
    pl.DataFrame({"id": np.arange(N), "a": truth, "bought": truth}).write_parquet("people.parquet")
    (tmp_path / "joins.toml").write_text(JOIN.replace("people.csv", "people.parquet"))
    assert call("features", "joins.toml", "-o", "f.parquet")[0] == 0
    found = pl.read_parquet("f.parquet")
    assert found["people.a"].to_list() == found["people.bought"].to_list() == truth


def test_train_says_what_became_of_columns_and_that_its_score_is_of_one_split(call):
    target = np.where(YES, "yes", "no").astype(object)
    target[[3, 5]] = None
    written("data.csv", y=target, same=np.ones(N), id=[f"row {i}" for i in range(N)])
    code, out, err = call("train", "data.csv", "--target", "y", "--estimator", "linear", "-o", "m.buttress")
    assert code == 0
    assert "2 rows without a target 'y' were dropped, the first of them row 3." in err
    assert "Column 'same' is constant and was dropped." in err
    assert f"Column 'id' has {N - 2} different texts and was dropped" in err
    assert "one split of the rows" in " ".join(out.split())


def test_classes_of_a_model_from_elsewhere_are_its_own_whatever_their_type_and_gaps_are_named():
    model = SimpleNamespace(classes_=np.array([0.0, 1.0]))
    assert codes_of(model, pl.Series([1, 0, 1]), "y").tolist() == [1.0, 0.0, 1.0]
    with pytest.raises(ValueError, match="'y' is missing in 1 row, the first of them row 1"):
        codes_of(model, np.array([1.0, np.nan]), "y")
    with pytest.raises(ValueError, match=r"holds '2', which is no class of the model; its classes are 0\.0, 1\.0"):
        codes_of(model, [2, 0], "y")


def test_neither_a_database_nor_what_an_audit_reads_is_written_over(call, tmp_path):
    (tmp_path / "shop.duckdb").write_text("rows")
    (tmp_path / "joins.toml").write_text("[[table]]\nname = 'a'\ndatabase = 'shop.duckdb'\ntable = 'a'\n")
    pl.DataFrame({"x": np.arange(N), "y": YES}).write_csv(tmp_path / "suspicious.csv")
    for asked in (["train", "joins.toml", "-o", "shop.duckdb"], ["audit", "suspicious.csv", "--target", "y"]):
        code, _, err = call(*asked)
        assert code == 2
        assert "is one of the files that are read" in err
