"""The scoreboard: who is better in a row, and tables whose rows all look alike."""

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
