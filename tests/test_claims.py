"""The claims pages: their form, their selectors, and the check that reruns them."""

import ast
import json
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from reproduce import filled, held
from reproduce.check import claims, complaints_of_form, index_line, pages, report, unheld_rows
from reproduce.forks import Forks
from reproduce.imported import files_of
from reproduce.verdicts.__main__ import experiments

MOST_UNHELD = 12  # rows with a number that was timed, or printed by a run whose table is not kept
ROOT = Path(__file__).parents[1]
HEAD = "`T` stands for `pytest tests/test_parts.py -k`, `V` stands for `python -m reproduce.verdicts`.\n\n"
HEAD += "| claim | verdict | command | run |\n|---|---|---|---|\n"


@pytest.fixture(scope="module")
def forks():
    with Forks() as started:
        yield started


def all_rows():
    return [row for rows in pages(ROOT / "docs").values() for row in rows]


def written(tmp_path, row, head=HEAD):
    (tmp_path / "claims").mkdir(parents=True, exist_ok=True)
    page = tmp_path / "claims" / "one.md"
    page.write_text(f"{head}{row}\n")
    (tmp_path / "claims.md").write_text(f"| [one]{index_line(page, claims(page))}")
    held.keep(tmp_path)
    return tmp_path


def test_every_row_has_a_verdict_and_a_command_or_a_reason(forks):
    assert len(all_rows()) > 100
    assert report(["--docs", str(ROOT / "docs"), "--form"], forks) == 0


def named(file):
    """The names of the tests in a file of which the default selection runs some cases."""
    tree = ast.parse(file.read_text())
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
            and not any(ast.unparse(mark) == "pytest.mark.slow" for mark in node.decorator_list)]


def test_every_selector_selects_a_test_and_every_file_is_there():
    for row in all_rows():
        for command in row.commands:
            files = re.findall(r"\S+\.(?:py|md)\b", command)
            assert all((ROOT / file).exists() for file in files), (row.where, command)
            if not command.startswith("pytest") or " -k " not in command:
                continue
            names = " ".join(name for file in files for name in named(ROOT / file))
            for part in re.sub(r'["\']|\bor\b', " ", command.split(" -k ")[1]).split():
                assert part in names or part in ("ART", "libsvm"), (row.where, part)


def test_every_experiment_is_stated_and_every_stated_one_exists():
    stated = {name for row in all_rows() for command in row.commands
              for name in re.findall(r"reproduce\.verdicts (\S+)", command)}
    assert stated == set(experiments())


@pytest.mark.parametrize("seed", range(10))
def test_a_changed_digit_of_a_page_or_of_a_table_that_it_shows_is_seen(tmp_path, capsys, forks, seed):
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs" / "claims", docs / "claims")
    shutil.copy(ROOT / "docs" / "claims.md", docs)
    shutil.copytree(ROOT / "benchmarks" / "results", tmp_path / "benchmarks" / "results")
    assert report(["--docs", str(docs), "--form"], forks) == 0
    rng = random.Random(seed)
    name = rng.choice(sorted(held.record(docs)))
    file = (docs / "claims" if name.endswith(".md") else tmp_path / "benchmarks" / "results") / name
    text = file.read_text()
    at = rng.choice([found.start() for found in re.finditer(r"[0-9]", text)])
    file.write_text(text[:at] + rng.choice([digit for digit in "0123456789" if digit != text[at]]) + text[at + 1:])
    capsys.readouterr()
    assert report(["--docs", str(docs), "--form"], forks) == 1
    assert f"{name}: 1 of its lines" in capsys.readouterr().out


def test_numbers_that_name_a_cell_are_those_of_the_table(tmp_path, capsys, forks):
    table = {"columns": ["", "a", "b c"], "rows": [["one, two", "12345.678±0.25", "- / **.5** (0.1)"]]}
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    (results / "made.json").write_text(json.dumps(table))
    cells = [("9", "a"), ("9.00", "a"), ("9,999", "a"), (".99", "a; 2"), ("9.9", "b c"), (".9", "b c; 2")]
    named = ", ".join(f"{number}<!--made; one, two; {column}-->" for number, column in cells)
    docs = written(tmp_path / "docs", f"| c | reproduces: {named} | `python -m x` | long: 2026-11-21, 91a0dd7 |")
    assert report(["--docs", str(docs), "--form"], forks) == 1
    assert "9 is 12346 in made.json" in capsys.readouterr().out
    assert report(["--docs", str(docs), "--form", "--keep"], forks) == 0
    page = docs / "claims" / "one.md"
    wanted = "reproduces: 12346, 12345.68, 12,346, .25, 0.5, .1"
    assert claims(page)[0].verdict == wanted
    page.write_text(page.read_text().replace("; 2-->", "; 3-->").replace("12346<!--made", "12346<!--gone"))
    before = page.read_text()
    assert report(["--docs", str(docs), "--form", "--keep"], forks) == 1
    assert page.read_text() == before
    said = capsys.readouterr().out
    assert said.count("there is no number 3 in row 'one, two'") == 2
    assert "column 'a' of gone.json" in said


def test_most_rows_are_rerun_or_filled_in():
    right = {row.where for row in all_rows() if row.run.startswith("quick")}
    for page in pages(ROOT / "docs"):
        assert "<!--" not in filled.without_names(page.read_text()), f"{page.name} has a comment that names no cell"
        right |= {f"{page.name}:{number}" for number, line in enumerate(page.read_text().splitlines(), start=1)
                  if filled.CELL.search(line)}
    assert len(right) >= 160


def test_few_numbers_are_held_by_nothing():
    assert len(unheld_rows(ROOT / "docs")) <= MOST_UNHELD
    assert len(all_rows()) - MOST_UNHELD >= 150


@pytest.mark.parametrize(("verdict", "numbers"), [
    ("slope -.97, or 97 per cent", []),
    ("slope -.37", [".37"]),
    ("within 2e-6, as lemma 12 and (45) say", []),
    ("within 2e-16", ["2e-16"]),
    ("12,000 rows as quoted", []),
    ("120,000 rows", ["120,000"]),
])
def test_a_number_is_held_by_its_figure_its_claim_or_the_code_that_runs(tmp_path, verdict, numbers):
    tests = "def test_near():\n    assert 0 < 2e-6\n\n\ndef test_other():\n    assert 0 < 2e-16\n"
    (tmp_path / "test_one.py").write_text(tests)
    command = "pytest test_one.py -k near"
    assert held.unheld("of 12,000 rows", verdict, {"slope": (-0.97, 0.15)}, [command], tmp_path) == numbers


@pytest.mark.parametrize(("row", "message"), [
    ("| a | maybe | `V bounds.theorem_36` | quick |", "the verdict must begin"),
    ("| a | reproduces | none | quick |", "no reason why none"),
    ("| a | reproduces | `V bounds.theorem_36` | sometimes |", "run must be quick"),
    ("| a | reproduces | `V bounds.theorem_36` | quick; `bound` = 2.17e-7 ± 1e-9 |", ""),
    ("| a | reproduces | `V bounds.theorem_36` | quick; `bound` = x |", "a figure must be written"),
    ("| a | reproduces | `V bounds.theorem_36` | quick; `bound` = 3 |", "a figure must be written"),
    ("| a | reproduces | `V bounds.theorem_36` | quick; `bound` = 3 ± 0.1 |", "where 3 ± 0.1 is stated"),
    ("| a | reproduces | `V bounds.theorem_36` | quick; `other` = 3 ± 0.1 |", "'other' was not printed"),
    ("| a | reproduces | `V bounds.theorem_99` | quick |", "failed"),
])
def test_the_check_fails_and_says_why(tmp_path, capsys, forks, row, message):
    status = report(["--docs", str(written(tmp_path, row))], forks)
    assert status == (1 if message else 0)
    assert message in capsys.readouterr().out


def test_the_check_fails_where_the_index_counts_otherwise(tmp_path, capsys, forks):
    docs = written(tmp_path, "| a | reproduces | `V bounds.theorem_36` | quick |")
    (docs / "claims.md").write_text("| [one](claims/one.md) | 7 | 7 | 0 | 0 |")
    assert report(["--docs", str(docs), "--form"], forks) == 1
    assert "the index must have" in capsys.readouterr().out


def test_a_selector_that_selects_nothing_fails(tmp_path, capsys, forks):
    docs = written(tmp_path, "| a | reproduces | `N nothing_is_called_so` | quick |",
                   HEAD.replace("`T` stands for `pytest tests/test_parts.py -k`",
                                f"`N` stands for `pytest {Path(__file__).parent / 'test_suggest_none.py'} -k`"))
    (docs / "test_empty.py").write_text("def test_one():\n    pass\n")
    page = docs / "claims" / "one.md"
    page.write_text(page.read_text().replace(str(Path(__file__).parent / "test_suggest_none.py"),
                                             str(docs / "test_empty.py")))
    assert report(["--docs", str(docs)], forks) == 1
    assert "selects nothing" in capsys.readouterr().out


def test_tests_that_are_skipped_show_nothing(tmp_path, capsys, forks):
    (tmp_path / "test_skipped.py").write_text("import pytest\n\ndef test_one():\n    pytest.skip('no reason')\n")
    docs = written(tmp_path, "| a | reproduces | `S one` | quick |",
                   HEAD.replace("`V` stands", f"`S` stands for `pytest {tmp_path / 'test_skipped.py'} -k`, `V` stands"))
    assert report(["--docs", str(docs)], forks) == 1
    assert "all its tests were skipped" in capsys.readouterr().out


def test_a_row_that_needs_a_module_is_told_where_it_is_not_run(tmp_path, capsys, forks):
    docs = written(tmp_path, "| a | reproduces | `V bounds.theorem_36` | quick with no_such_module |")
    assert report(["--docs", str(docs)], forks) == 0
    assert "not run, for want of the module no_such_module" in capsys.readouterr().out
    docs = written(tmp_path, "| a | reproduces | `V bounds.theorem_99` | quick with numpy |")
    assert report(["--docs", str(docs)], forks) == 1


def test_commands_are_run_as_a_shell_would(tmp_path, forks):
    (tmp_path / "told.py").write_text("import sys\n\nprint(__name__, sys.argv[1:])\nsys.exit(len(sys.argv))\n")
    before = forks.count
    script = forks.run('python told.py "two words"', tmp_path)
    assert (script.status, script.output) == (2, "__main__ ['two words']\n")
    assert forks.run("python -m told", tmp_path).status == 1
    assert forks.run("exit 3", tmp_path).status == 3
    assert forks.run("echo one | tr o a", tmp_path).output == "ane\n"
    assert "No module named nowhere" in forks.run("python -m nowhere", tmp_path).output
    assert forks.run("kill -9 $$", tmp_path).status == -9
    assert forks.run('python told.py "two words"', tmp_path) is script
    assert forks.count == before + 6


@pytest.fixture
def checkout(tmp_path):
    """A checkout of a small package with a script, committed once; a function runs git in it."""
    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    files = {"src/buttress/__init__.py": "", "src/buttress/inner.py": "",
             "src/buttress/room/__init__.py": "def later():\n    from buttress.inner import nothing_yet\n",
             "src/buttress/room/one.py": "1", "src/buttress/other/__init__.py": "", "benchmarks/beside.py": "",
             "benchmarks/script.py": "import beside\nimport buttress.room.one\nassert __name__ != '__main__'\n",
             "src/buttress/program/__init__.py": "", "src/buttress/program/__main__.py": "import buttress.other\n"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "docs").mkdir()
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    return tmp_path, git


def test_a_command_imports_what_python_imports_for_it(checkout):
    root, _ = checkout
    package = {"src/buttress/__init__.py"}
    room = {"src/buttress/room/__init__.py", "src/buttress/room/one.py", "src/buttress/inner.py"}
    assert files_of("python benchmarks/script.py --size 3", root) == package | room | {
        "benchmarks/script.py", "benchmarks/beside.py"}
    assert files_of("python -m buttress.program", root) == package | {
        "src/buttress/program/__init__.py", "src/buttress/program/__main__.py", "src/buttress/other/__init__.py"}
    assert files_of("python benchmarks/none.py", root).startswith("FileNotFoundError")
    assert "begins with pytest" in files_of("pytest tests", root)


def test_of_long_commands_it_is_told_whether_their_code_has_changed(checkout, capsys, forks):
    root, git = checkout
    commit = git("rev-parse", "--short", "HEAD").strip()
    row = "| a | reproduces | `python benchmarks/script.py` | long: 2026-11-21, {} |"
    docs = written(root / "docs", row.format(commit) + "\n" + row.format(commit))

    def told():
        report(["--docs", str(docs), "--long"], forks)
        return capsys.readouterr().out

    (root / "src" / "buttress" / "other" / "__init__.py").write_text("# not imported by the script")
    assert told() == (f"2026-11-21 {commit} one.md:5,6: python benchmarks/script.py: unchanged since: none of the 6 "
                      "files that it imports\n")
    (root / "src" / "buttress" / "room" / "one.py").write_text("2")
    assert told().endswith("changed since: 1 of the 6 files that it imports, in room\n")
    (root / "benchmarks" / "beside.py").write_text("2")
    (root / "src" / "buttress" / "room" / "__init__.py").write_text("")
    assert told().endswith("changed since: 3 of the 5 files that it imports, 2 of them in room\n")
    (root / "benchmarks" / "younger.py").write_text("")
    written(root / "docs", row.format(commit).replace("script", "younger"))
    assert told().endswith(f"unknown: its program was not there at {commit}\n")
    written(root / "docs", row.format(commit).replace("benchmarks/script.py", "-m buttress.program"))
    assert told().endswith("changed since: 1 of the 4 files that it imports, in other\n")
    written(root / "docs", row.format(f"{commit}, 66 s"))
    assert told().startswith(f"2026-11-21 {commit} 66 s one.md:5: python benchmarks/script.py: changed")
    written(root / "docs", row.format("0" * 9))
    assert told().endswith("unknown: 000000000 is not in this checkout\n")


def test_long_rows_are_not_run():
    row = claims(ROOT / "docs" / "claims" / "subquantile.md")[0]
    assert row.run.startswith("long: ")
    assert complaints_of_form(row) == []
