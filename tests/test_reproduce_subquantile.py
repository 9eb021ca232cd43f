"""The reproduction of the subquantile paper in short: sets that need no file, one trial."""

import json

import numpy as np
import pytest

from reproduce.subquantile import figures, published, tables
from reproduce.subquantile.__main__ import main
from reproduce.subquantile.protocol import problem, trial


def test_every_published_row_has_every_column_and_a_row_of_ours():
    for number, paper in tables.PUBLISHED.items():
        columns = [c for c in tables.columns(number, short=False) if c.data != "Polynomial"]
        assert all(len(cells) == len(columns) == 8 for cells in paper.values())
        assert set(paper) <= set(tables.ROWS[number])
    assert published.TABLE_2["TERM"][5] == (0.808, 0.0726)


def test_the_protocol_corrupts_the_last_training_rows_and_leaves_the_test_clean():
    source = problem("Diabetes")
    t, clean = trial(source, 0.4, "label+feature", 3), trial(source, 0.0, "label", 3)
    assert t.corrupt.sum() == int(0.4 * len(t.y))
    assert t.corrupt[-1]
    assert not t.corrupt[0]
    np.testing.assert_array_equal(t.X_test, clean.X_test)
    np.testing.assert_array_equal(t.X[~t.corrupt], clean.X[~t.corrupt])
    np.testing.assert_allclose(t.X[t.corrupt], 100 * clean.X[t.corrupt])
    np.testing.assert_allclose(t.y[t.corrupt], 1e4 * clean.y[t.corrupt])


def test_one_command_writes_tables_and_figures(tmp_path, capsys):
    short = ["--short", "--trials", "1", "--iterations", "10", "--output", str(tmp_path)]
    assert main([*short, "--tables", "2", "--figures", "1", "2", "3", "4"]) == 0
    both = capsys.readouterr().out
    assert main([*short, "--tables", "3", "--row", "SVM"]) == 0
    alone = capsys.readouterr().out
    assert "Table 3" in alone
    assert "Figure" not in alone
    shown = both + alone
    assert "0.651 (0.037) / " in shown  # the paper's number beside ours
    for name in ("table2", "table3", "figure1", "figure2", "figure3", "figure4"):
        assert (tmp_path / f"{name}.md").read_text() in shown
    records = json.loads((tmp_path / "table3.json").read_text())
    score = {(r["row"], r["column"]): r["score"] for r in records}
    # the paper's SVM fails with corrupted features only because of gamma="scale"
    far = "Breast cancer label+feature 0.2"
    assert score["SVM", far] < 0.75
    assert score["SVM, gamma 1/d", far] > 0.9
    records = json.loads((tmp_path / "table2.json").read_text())
    score = {(r["row"], r["column"]): r["score"] for r in records}
    far = "Diabetes label+feature 0.4"
    assert min(score[row, far] for row in ("KRR", "CRR", "STIR")) > 10 * score["Oracle", far]
    assert score["Subquantile", far] < 1.3 * score["Oracle", far]


def test_a_run_that_was_killed_goes_on(tmp_path, monkeypatch):
    """The rows that were finished are not fitted again, and the table is that of a run that was not killed."""
    fitted = []
    record = tables._record

    def until(last):
        def recorded(about, row, case):
            fitted.append(about)
            if len(fitted) == last:
                raise KeyboardInterrupt
            return record(about, row, case)
        return recorded

    def scores(folder):
        return [{k: v for k, v in entry.items() if k != "seconds"}
                for entry in json.loads((folder / "table3.json").read_text())]

    command = ["--short", "--trials", "1", "--tables", "3", "--row", "SVM", "--figures"]
    assert main([*command, "--output", str(tmp_path / "whole")]) == 0
    monkeypatch.setattr(tables, "_record", until(4))
    with pytest.raises(KeyboardInterrupt):
        main([*command, "--output", str(tmp_path / "killed")])
    monkeypatch.setattr(tables, "_record", until(None))
    assert main([*command, "--output", str(tmp_path / "killed"), "--resume"]) == 0
    whole = scores(tmp_path / "whole")
    assert scores(tmp_path / "killed") == whole
    assert len(fitted) == 1 + len(whole)
    assert not (tmp_path / "killed" / "finished").exists()


def test_a_verdict_needs_both_spreads():
    assert tables.agrees((0.50, 0.02, 1.0), (0.54, 0.03))
    assert not tables.agrees((0.50, 0.02, 1.0), (0.56, 0.03))
    records = [{"row": "KRR", "column": "Concrete label 0.2", "score": s, "seconds": 1.0} for s in (1.35, 1.36)]
    assert "| KRR | 1.355 (0.093) / **1.355** (0.005) | 1 of 1 | 1.00 |" in tables.markdown(1, records)


def test_bad_trials_are_refused(capsys):
    assert main(["--trials", "0"]) == 2
    assert "--trials must be at least 1. Got 0." in capsys.readouterr().err


def test_bounds_hold_and_say_where():
    sizes = np.array([300.0, 1500.0])
    assert "holds at 2 of 2" in figures.describe(3, figures.figure_3(10, sizes))
    assert "holds at 2 of 2" in figures.describe(4, figures.figure_4(10, sizes))


@pytest.mark.slow
def test_all_short_tables(tmp_path):
    assert main(["--short", "--trials", "2", "--iterations", "300", "--output", str(tmp_path)]) == 0
    score = {(r["row"], r["column"]): r["score"] for r in json.loads((tmp_path / "table1.json").read_text())}
    assert score["Oracle", "Polynomial label 0.2"] < score["KRR", "Polynomial label 0.2"]
