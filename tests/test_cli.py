"""The command as a user meets it, in a process of its own or through its entry point."""

import gzip
import json
import subprocess
import sys
from csv import field_size_limit
from importlib.machinery import PathFinder
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from buttress import cli


@pytest.fixture
def csv(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    frame = pl.DataFrame({"a": X[:, 0], 'quo"ted, näme': X[:, 1], "c": X[:, 2], "y": X[:, 0] + X[:, 1] > 0})
    path = tmp_path / "data.csv"
    frame.write_csv(path)
    return path


def call(monkeypatch, capsys, *arguments):
    """Run the entry point; return (exit code, stdout, stderr)."""
    monkeypatch.setattr(sys, "argv", ["buttress", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    out = capsys.readouterr()
    return stop.value.code or 0, out.out, out.err


def test_an_audit_writes_both_files_and_says_what_it_found(csv, tmp_path, monkeypatch, capsys):
    code, out, _ = call(monkeypatch, capsys, "audit", csv, "--target", "y", "--rows", 40, "--output", tmp_path / "out")
    assert code == 0
    assert "plain SVC" in out
    assert "Recommended" in out
    found = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert found["data"]["numeric"] == ["a", 'quo"ted, näme', "c"]
    assert (tmp_path / "out" / "audit.html").read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "audit.html", "audit.json", "suspicious.csv"]


def test_parquet_by_name_and_by_format(csv, tmp_path, monkeypatch, capsys):
    frame = pl.read_csv(csv)
    for name, extra in (("data.parquet", []), ("data.bin", ["--format", "parquet"])):
        frame.write_parquet(tmp_path / name)
        arguments = ("audit", tmp_path / name, "--target", "y", "--rows", 40, "-o", tmp_path, *extra)
        assert call(monkeypatch, capsys, *arguments)[0] == 0


def test_dropped_columns_are_no_features_of_an_audit_and_of_a_model(csv, tmp_path, monkeypatch, capsys):
    frame = pl.read_csv(csv).select("a", "c", "y", row=pl.Series(range(90)), bad=pl.Series(["1e300", *["2"] * 89]))
    frame.write_csv(csv)
    frame.drop("row").write_csv(tmp_path / "test.csv")  # which may lack a column that is dropped
    drop = ("--target", "y", "--drop", "row", "--drop", "bad")
    for test in ((), ("--test", tmp_path / "test.csv")):
        assert call(monkeypatch, capsys, "audit", csv, *drop, *test, "--rows", 40, "--output", tmp_path)[0] == 0
        found = json.loads((tmp_path / "audit.json").read_text())
        assert (found["data"]["numeric"], found["settings"]["drop"]) == (["a", "c"], ["row", "bad"])
        sheet = pl.read_csv(tmp_path / "suspicious.csv", infer_schema=False)
        sheet.with_columns(drop=pl.Series(["yes", *[None] * (len(sheet) - 1)])).write_csv(tmp_path / "decided.csv")
        clean = tmp_path / "clean.csv"
        assert call(monkeypatch, capsys, "apply", tmp_path / "decided.csv", csv, "--output", clean)[0] == 0
        assert pl.read_csv(clean, infer_schema=False).equals(pl.read_csv(csv, infer_schema=False)[1:])
    model = tmp_path / "model.buttress"
    assert call(monkeypatch, capsys, "train", csv, *drop, "--estimator", "plain", "--output", model)[0] == 0
    frame.drop("row", "bad", "y").write_csv(csv)
    assert call(monkeypatch, capsys, "predict", model, csv, "--output", tmp_path / "predicted.csv")[0] == 0


def test_fail_under_sets_the_exit_code(csv, tmp_path, monkeypatch, capsys):
    arguments = ("audit", csv, "--target", "y", "--rows", 40, "--output", tmp_path)
    code, _, err = call(monkeypatch, capsys, *arguments, "--fail-under", "attacked=1")
    assert code == 1
    assert "required 1" in err
    assert call(monkeypatch, capsys, *arguments, "--fail-under", "as_is=0.1")[0] == 0


def test_findings_set_the_exit_code_and_corrections_are_applied(csv, tmp_path, monkeypatch, capsys):
    frame = pl.read_csv(csv).with_columns(one=pl.lit(1), leak=pl.col("y").cast(pl.Int64) * 2)
    frame.write_csv(csv)
    arguments = ("audit", csv, "--target", "y", "--rows", 40, "--output", tmp_path)
    code, out, err = call(monkeypatch, capsys, *arguments, "--fail-on", "BUT001", "--ignore", "BUT005")
    assert code == 1
    assert "BUT001: Column 'leak' alone tells the target 'y'" in err
    assert "BUT005" not in out
    rows = pl.read_csv(tmp_path / "suspicious.csv")
    assert rows["row"].to_list() == list(range(90))
    rows.with_columns(drop=pl.when(pl.col("row") < 5).then(pl.lit("yes"))).write_csv(tmp_path / "fixes.csv")
    code, out, _ = call(monkeypatch, capsys, "apply", tmp_path / "fixes.csv", csv, "-o", tmp_path / "clean.csv")
    assert code == 0
    assert "0 targets corrected, 5 rows dropped" in out
    assert pl.read_csv(tmp_path / "clean.csv").equals(pl.read_csv(csv)[5:])
    assert call(monkeypatch, capsys, "apply", tmp_path / "fixes.csv", csv, "-o", csv)[0] == 2


def test_the_command_alone_prints_its_help_in_lines_and_its_version(monkeypatch, capsys):
    code, out, err = call(monkeypatch, capsys)
    assert code == 0
    assert out.count("\n") > 5
    assert err == ""
    assert call(monkeypatch, capsys, "--version")[1].startswith("buttress 0.")


@pytest.fixture
def bad(tmp_path):
    """Files that cannot be audited, by name."""
    files = {
        "empty.csv": b"",
        "header.csv": b"a,y\n",
        "binary.csv": bytes(range(256)) * 20,
        "ragged.csv": b"a,y\n1,2\n1,2,3,4\n",
        "not.parquet": b"PAR1 this is not one",
        "inf.csv": b"a,y\n" + b"inf,0\n1,1\n" * 20,
        "one_class.csv": b"a,y\n" + b"1,0\n2,0\n" * 20,
        "text.txt": b"hello",
        "twice.csv": b"y,y\n" + b"1,a\n2,b\n" * 20,
        "twins.csv": b"a,b,a,y\n" + b"1,2,3,a\n2,4,4,b\n" * 20,
        "cut.csv.gz": gzip.compress(b"a,y\n1,2\n" * 99)[:-9],
        "changed.csv.gz": b"\x1f\x8b" + bytes(20),
        "sheet.zip": b"PK\x03\x04" + bytes(99),
        "table.csv": b"PAR1\x15" + bytes(99),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "nothing").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["empty.csv", "--target", "y"], "is empty"),
        (["header.csv", "--target", "y"], "no rows"),
        (["binary.csv", "--target", "y"], "binary.csv"),
        (["ragged.csv", "--target", "y"], "Cannot read"),
        (["not.parquet", "--target", "y"], "Cannot read"),
        (["inf.csv", "--target", "y"], "'a' holds inf"),
        (["one_class.csv", "--target", "y"], "only one value"),
        (["text.txt", "--target", "y"], "--format"),
        (["inf.csv"], "--target is missing"),
        (["inf.csv", "--target", "Y"], "no column 'Y'"),
        (["nowhere.csv", "--target", "y"], "no file 'nowhere.csv'"),
        (["nowhere"], "neither a file nor a bundled"),
        (["brest_cancer"], "Did you mean 'breast_cancer'"),
        (["breast_cancer", "--target", "x"], "The target of 'breast_cancer' is 'target'"),
        (["diabetes", "--task", "classification"], "--task regression"),
        (["breast_cancer", "--task", "regression"], "--task classification"),
        (["breast_cancer", "--eps", "-1"], "eps must be in"),
        (["breast_cancer", "--fail-under", "attacked"], "attacked=0.7"),
        (["breast_cancer", "--fail-under", "as_is=nan"], "attacked=0.7"),
        (["breast_cancer", "--output", "text.txt"], "is a file. Name a folder"),
        (["breast_cancer", "--output", "text.txt/x"], "is a file. Name a folder"),
        (["breast_cancer", "--max-time", "0"], "max_time must be in"),
        (["breast_cancer", "--rows", "3"], "rows must be"),
        (["breast_cancer", "--seed", "-1"], "--seed"),
        (["breast_cancer", "--task", "clustering"], "clustering"),
        (["breast_cancer", "--fail-under", "attacked=70"], "in [0, 1]"),
        (["breast_cancer", "--fail-under", "atacked=0.7"], "novel. Did you mean 'attacked'?"),
        (["breast_cancer", "--fail-under", "r2=0.7"], "names the column 'r2'"),
        (["breast_cancer", "--ignore", "BUT999"], "no finding 'BUT999'"),
        (["breast_cancer", "--model", "nope"], "is not a file"),
        (["inf.csv", "--target", "y", "--format", "xls"], "--format must be"),
        (["nothing"], "is a folder, or a pattern, without a file"),
        (["breast_cancer", "--no-such-option"], "--no-such-option"),
        (["breast_cancer", "--drop", "mean radus"], "Did you mean 'mean radius'?"),
        (["breast_cancer", "--max-time", "long"], "--max-time"),
        (["-"], "is a folder, a pipe or a device"),
        (["breast_cancer", "-o", "/sys/out"], "--output '/sys/out' cannot be made"),
        (["/dev/null"], "'/dev/null' is a folder, a pipe or a device"),
        (["twice.csv", "--target", "y"], "has two columns 'y'"),
        (["twins.csv", "--target", "y"], "has two columns 'a'. Rename one of them."),
        (["cut.csv.gz", "--target", "y"], "'cut.csv.gz' cannot be unpacked"),
        (["changed.csv.gz", "--target", "y"], "'changed.csv.gz' cannot be unpacked"),
        (["sheet.zip", "--target", "y"], "'sheet.zip' cannot be unpacked"),
        (["table.csv", "--target", "y"], "'table.csv' is a Parquet file"),
        (["breast_cancer", "--threat", "empty.csv", "--eps", "1"], "in place of --eps"),
        ([], "Missing argument"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(bad, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(bad)
    before = sorted(path.name for path in bad.iterdir())
    code, out, err = call(monkeypatch, capsys, "audit", *arguments)
    assert code == 2
    assert err.count("\n") == 1
    assert err.startswith("buttress: ")
    assert message in err
    assert out == ""
    assert sorted(path.name for path in bad.iterdir()) == before


@pytest.mark.parametrize("arguments", [
    ("train", "inf.csv", "-o", "model"), ("attack", "model", "inf.csv"), ("evidence", "model", "inf.csv", "-o", "out"),
    ("fit", "joins.toml", "-o", "model"), ("review", "inf.csv"),
])
def test_a_seed_below_0_is_refused_by_its_name_on_the_command_line(bad, monkeypatch, capsys, arguments):
    monkeypatch.chdir(bad)
    code, _, err = call(monkeypatch, capsys, *arguments, "--seed", "-1")
    assert code == 2
    assert "--seed" in err


@pytest.fixture
def bare(monkeypatch):
    """As after pip install buttress: what the extra "report" brings is neither loaded nor found."""
    hidden = ("jinja2", "matplotlib", "polars")
    found = PathFinder.find_spec
    monkeypatch.setattr(PathFinder, "find_spec", lambda name, *more: None if name in hidden else found(name, *more))
    for name in hidden:
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("bare")
def test_a_bare_installation_audits_and_says_how_to_get_the_page(tmp_path, monkeypatch, capsys):
    (tmp_path / "audit.html").write_text("of an earlier audit")
    (tmp_path / "audit.json").write_text('{"schema": "buttress.audit/3"}')
    code, out, err = call(monkeypatch, capsys, "audit", "iris", "--rows", 40, "--output", tmp_path)
    assert (code, err) == (0, "")
    assert "Recommended" in out
    assert "jinja2" in out.splitlines()[-1]
    assert "pip install 'buttress[report]'" in out.splitlines()[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit.json", "suspicious.csv"]
    assert json.loads((tmp_path / "audit.json").read_text())["data"]["target"]


def test_the_help_has_a_whole_line_for_each_command(monkeypatch, capsys):
    _, out, _ = call(monkeypatch, capsys)
    lines = out[out.index("Commands:"):].splitlines()[1:]
    assert [line.split()[0] for line in lines] == [
        "audit", "apply", "evidence", "describe", "features", "fit", "train", "predict", "attack", "inspect",
        "review"]
    assert not [line for line in lines if line.endswith("...")]


def test_ctrl_c_writes_nothing(csv, tmp_path, monkeypatch, capsys):
    from buttress.svm import SVC

    def interrupted(self, X, y):
        raise KeyboardInterrupt

    monkeypatch.setattr(SVC, "fit", interrupted)
    code, _, err = call(monkeypatch, capsys, "audit", csv, "--target", "y", "--output", tmp_path / "out")
    assert code == 130
    assert "nothing was written" in err
    assert not (tmp_path / "out").exists()


def test_ctrl_c_in_a_fit_that_could_end_early_writes_no_model(csv, tmp_path, monkeypatch, capsys):
    from buttress.solvers.run import Watch

    steps = []

    def noted(watch, step, note=Watch.note):
        note(watch, step)
        steps.append(step)
        if len(steps) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "note", noted)
    model = tmp_path / "m.buttress"
    code, _, err = call(monkeypatch, capsys, "train", csv, "--target", "y", "-o", model, "--estimator", "subquantile")
    assert code == 130
    assert "nothing was written" in err
    assert not model.exists()


def test_help_needs_no_traceback():
    for arguments in (["--help"], ["audit", "--help"]):
        shown = subprocess.run([sys.executable, "-m", "buttress", *arguments],
                               capture_output=True, text=True, check=True)
        assert "audit" in shown.stdout


def test_an_audit_writes_over_nothing_that_is_of_none_or_filled_in(csv, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "audit.json").write_text("{}")
    arguments = ("audit", csv, "--target", "y", "--rows", 40, "--effort", "quick", "--output", out)
    code, _, err = call(monkeypatch, capsys, *arguments)
    assert (code, (out / "audit.json").read_text()) == (2, "{}")
    assert "holds 'audit.json', which is not from an earlier audit" in err
    (out / "audit.json").unlink()
    assert call(monkeypatch, capsys, *arguments)[0] == 0
    sheet = out / "suspicious.csv"
    filled = pl.read_csv(sheet).with_columns(drop=pl.when(pl.col("row") < 1).then(pl.lit("yes")))
    filled.write_csv(sheet)
    code, _, err = call(monkeypatch, capsys, *arguments)
    assert code == 2
    assert "holds 'suspicious.csv', which is not from an earlier audit, or has your corrections" in err
    assert pl.read_csv(sheet)["drop"][0] == "yes"
    assert call(monkeypatch, capsys, "apply", sheet, csv, "-o", tmp_path / "clean.csv")[0] == 0
    sheet.write_text("mine")
    assert "holds 'suspicious.csv', which is not from" in call(monkeypatch, capsys, *arguments)[2]


def test_long_entries_and_a_column_called_as_parquet_begins_are_read(tmp_path, monkeypatch, capsys):
    data, out = tmp_path / "data.csv", tmp_path / "out"
    pl.DataFrame({"PAR1": range(60), "text": ["x" * 200_000] * 60, "y": [0, 1] * 30}).write_csv(data)
    arguments = ("audit", data, "--target", "y", "--rows", 40, "--effort", "quick", "--output", out)
    for given in (arguments, arguments, ("apply", out / "suspicious.csv", data, "-o", tmp_path / "clean.csv")):
        assert call(monkeypatch, capsys, *given)[::2] == (0, "")
    assert field_size_limit() == 2**17  # that of the process is what it was


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_full_disk_is_named_and_costs_no_file(csv, tmp_path, monkeypatch, capsys, suffix):
    model, full, kept = tmp_path / "m.buttress", tmp_path / f"full{suffix}", tmp_path / f"kept{suffix}"
    assert call(monkeypatch, capsys, "train", csv, "--target", "y", "--estimator", "linear", "-o", model)[0] == 0
    full.symlink_to("/dev/full")
    code, _, err = call(monkeypatch, capsys, "predict", model, csv, "-o", full)
    assert (code, f"'{full}'" in err) == (2, True)
    kept.write_text("mine")

    def fails(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fails)
    assert call(monkeypatch, capsys, "predict", model, csv, "-o", kept)[0] == 2
    assert kept.read_text() == "mine"
