"""The scoreboard: who is better in a row, tables whose rows all look alike, and two commits side by side."""

import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "benchmarks" / "scoreboard.py"
if not FILE.exists():
    pytest.skip("the benchmarks are in a checkout", allow_module_level=True)

spec = importlib.util.spec_from_file_location("scoreboard", FILE)
scoreboard = importlib.util.module_from_spec(spec)
sys.modules["scoreboard"] = scoreboard
sys.path.insert(0, str(FILE.parent))
spec.loader.exec_module(scoreboard)
Better, Row = scoreboard.Better, scoreboard.Row


@pytest.mark.parametrize(("ours", "theirs", "better", "verdict"), [
    (1.0, 2.0, Better.LESS, "buttress"), (2.0, 1.0, Better.LESS, "PyOD"), (1.0, 1.05, Better.LESS, "even"),
    (0.9, 0.8, Better.MORE, "buttress"), (0.8, 0.9, Better.MORE, "PyOD"), (0.9, 0.903, Better.MORE, "even"),
    (0.1, 0.2, Better.LOWER, "buttress"), (0.91, 0.95, Better.NEARER, "buttress"), (0.85, 0.93, Better.NEARER, "PyOD"),
    (1.0, None, Better.LESS, "not measured"),
])
def test_the_verdict_of_a_row(ours, theirs, better, verdict):
    assert Row("task", "s", ours, "PyOD, OCSVM", theirs, better).verdict() == verdict


def test_wins_and_losses_are_counted_and_an_absent_peer_is_named():
    rows = [Row("first", "s", 1.0, "ART", 3.0), Row("second", "s", 3.0, "ART", 1.0),
            Row("third", "s", float("nan"), "MAPIE", None)]
    found = scoreboard.tables({"attacks": rows}, "python -m benchmarks")
    assert found["scoreboard"].rows == [["1", "0", "1", "1"]]
    table = found["scoreboard-attacks"].markdown()
    assert "| first | s | 1 | 3 | ART | 3.00 | buttress |" in table
    assert "| second | s | 3 | 1 | ART | 0.33 | ART |" in table
    assert "| third | s |  | not installed | MAPIE |  | not measured |" in table


def test_of_two_commits_a_slower_row_is_measured_again_and_counted(monkeypatch, capsys):
    import watch

    asked = []
    times = {"same": lambda new, asks: 1.05 if new else 1.0, "slow": lambda new, asks: 1.2 if new else 1.0,
             "disturbed": lambda new, asks: 1.0 if not new or asks > 4 else 1.5,
             "new": lambda new, asks: 1.0 if new else watch.np.inf}
    monkeypatch.setattr(watch, "ROWS", dict.fromkeys(times))
    monkeypatch.setattr(watch, "exported", lambda commit, folder: commit)

    def seconds(source, name, folder):
        asked.append((source, name))
        return times[name](source == "NEW", asked.count((source, name)))

    monkeypatch.setattr(watch, "seconds", seconds)
    assert watch.compare(("OLD", "NEW"), 3, [], None) == 1
    assert {name: asked.count(("NEW", name)) for name in times} == {"same": 4, "slow": 7, "disturbed": 7, "new": 1}
    table = capsys.readouterr().out
    assert "| slow | 1 | 1.2 | 1.20 |" in table
    assert "| disturbed | 1 | 1 | 1.00 |" in table
    assert "| new | unknown | 1 |  |" in table


@pytest.mark.skipif(not (FILE.parents[1] / ".git").exists(), reason="the sources are no git checkout")
def test_a_commit_is_exported_whole_and_its_rows_are_timed(tmp_path):
    import watch

    source = watch.exported("HEAD", tmp_path / "new")
    assert (source / "buttress" / "__init__.py").exists()
    assert 0 < watch.seconds(source, "iris, C=1", None) < float("inf")
    assert watch.seconds(tmp_path / "nothing", "no such row", None) == float("inf")
