"""Measured tables of the documentation: each has its file, and each file says how it came to be."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE = ROOT / "benchmarks" / "results.py"
if not FILE.exists():
    pytest.skip("the benchmarks are in a checkout", allow_module_level=True)

spec = importlib.util.spec_from_file_location("results", FILE)
results = importlib.util.module_from_spec(spec)
sys.modules["results"] = results
spec.loader.exec_module(results)

KEPT = sorted(file.stem for file in results.FOLDER.glob("*.json"))
PRINTED = """Seconds of a fit
| rows | ours \\| theirs |
| --- | ---: |
| 10 | .2 |
| 20 | .4 |

| other |
|---|
| 1 |
"""


def shown():
    """The names of the tables that pages show."""
    texts = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    return [name for text in texts for name in re.findall(r"^```\{measured\} (\S+)$", text, flags=re.M)]


def test_every_table_has_its_file_and_every_file_is_shown_once():
    assert sorted(shown()) == KEPT


@pytest.mark.parametrize("name", KEPT)
def test_a_table_says_how_it_came_to_be(name):
    kept = results.read(name)
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", kept.date)
    assert re.fullmatch(r"[0-9a-f]{7,40}", kept.commit), "commit the code first, then run it"
    assert kept.rows
    scripts = re.findall(r"\S+\.py\b", kept.command)
    assert scripts or kept.command.startswith(("python -m ", "buttress ", "pytest ", ".ci/"))
    assert [script for script in scripts if not (ROOT / script).exists()] == []


def test_a_printed_table_is_kept_and_shown_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    first, second = results.tables(PRINTED)
    assert second == [["other"], ["1"]]
    made = results.of_today("python benchmarks/one.py", first[0], first[1:])
    assert results.write("one", made) == tmp_path / "results" / "one.json"
    assert results.read("one") == made
    table, _, said = made.markdown().partition("\n\n")
    assert results.tables(table) == [first]
    assert said == f"*`python benchmarks/one.py`, run on {made.date}, commit {made.commit}.*"


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="every row must have 2 cells"):
        results.of_today("python benchmarks/one.py", ["a", "b"], [[1, 2], [3]])
