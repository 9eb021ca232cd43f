"""The claims pages: their form, their selectors, and the check that reruns them."""

import ast
import re
from pathlib import Path

import pytest

from buttress.reproduce.check import claims, complaints_of_form, differing, index_line, main, pages
from buttress.reproduce.verdicts.__main__ import experiments

ROOT = Path(__file__).parents[1]
HEAD = "`T` stands for `pytest tests/test_parts.py -k`, `V` stands for `python -m buttress.reproduce.verdicts`.\n\n"
HEAD += "| claim | verdict | command | run |\n|---|---|---|---|\n"


def all_rows():
    return [row for rows in pages(ROOT / "docs").values() for row in rows]


def written(tmp_path, row, head=HEAD):
    (tmp_path / "claims").mkdir(parents=True, exist_ok=True)
    page = tmp_path / "claims" / "one.md"
    page.write_text(f"{head}{row}\n")
    (tmp_path / "claims.md").write_text(f"| [one]{index_line(page, claims(page))}")
    return tmp_path


def test_every_row_has_a_verdict_and_a_command_or_a_reason():
    assert len(all_rows()) > 100
    assert main(["--docs", str(ROOT / "docs"), "--form"]) == 0


def named(folder):
    """The names of the tests in the files of a command."""
    tree = ast.parse(folder.read_text())
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


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


SHORT = ("bounds.theorem_36", "trimming.equation_6", "joins.equation_6", "trimming.lemma_15")


@pytest.mark.parametrize("row", [row for row in all_rows() if row.commands and row.commands[0].endswith(SHORT)],
                         ids=lambda row: row.where)
def test_stated_figures_are_those_printed(row):
    name = row.commands[0].split()[-1]
    assert differing(row, experiments()[name]()) == []


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in all_rows() if row.figures], ids=lambda row: row.where)
def test_all_stated_figures_are_those_printed(row):
    name = row.commands[0].split()[-1]
    assert differing(row, experiments()[name]()) == []


@pytest.mark.parametrize(("row", "message"), [
    ("| a | maybe | `V bounds.theorem_36` | quick |", "the verdict must begin"),
    ("| a | reproduces | none | quick |", "no reason why none"),
    ("| a | reproduces | `V bounds.theorem_36` | sometimes |", "run must be quick"),
    ("| a | reproduces | `V bounds.theorem_36` | quick; `bound` = x |", ""),
    ("| a | reproduces | `V bounds.theorem_36` | quick; `bound` = 3 ± 0.1 |", "where 3 ± 0.1 is stated"),
    ("| a | reproduces | `V bounds.theorem_36` | quick; `other` = 3 ± 0.1 |", "'other' was not printed"),
    ("| a | reproduces | `V bounds.theorem_99` | quick |", "failed"),
])
def test_the_check_fails_and_says_why(tmp_path, capsys, row, message):
    status = main(["--docs", str(written(tmp_path, row))])
    assert status == (1 if message else 0)
    assert message in capsys.readouterr().out


def test_the_check_fails_where_the_index_counts_otherwise(tmp_path, capsys):
    docs = written(tmp_path, "| a | reproduces | `V bounds.theorem_36` | quick |")
    (docs / "claims.md").write_text("| [one](claims/one.md) | 7 | 7 | 0 | 0 |")
    assert main(["--docs", str(docs), "--form"]) == 1
    assert "the index must have" in capsys.readouterr().out


def test_a_selector_that_selects_nothing_fails(tmp_path, capsys):
    docs = written(tmp_path, "| a | reproduces | `N nothing_is_called_so` | quick |",
                   HEAD.replace("`T` stands for `pytest tests/test_parts.py -k`",
                                f"`N` stands for `pytest {Path(__file__).parent / 'test_suggest_none.py'} -k`"))
    (docs / "test_empty.py").write_text("def test_one():\n    pass\n")
    page = docs / "claims" / "one.md"
    page.write_text(page.read_text().replace(str(Path(__file__).parent / "test_suggest_none.py"),
                                             str(docs / "test_empty.py")))
    assert main(["--docs", str(docs)]) == 1
    assert "selects nothing" in capsys.readouterr().out


def test_tests_that_are_skipped_show_nothing(tmp_path, capsys):
    (tmp_path / "test_skipped.py").write_text("import pytest\n\ndef test_one():\n    pytest.skip('no reason')\n")
    docs = written(tmp_path, "| a | reproduces | `S one` | quick |",
                   HEAD.replace("`V` stands", f"`S` stands for `pytest {tmp_path / 'test_skipped.py'} -k`, `V` stands"))
    assert main(["--docs", str(docs)]) == 1
    assert "all its tests were skipped" in capsys.readouterr().out


def test_a_row_that_needs_a_module_is_told_where_it_is_not_run(tmp_path, capsys):
    docs = written(tmp_path, "| a | reproduces | `V bounds.theorem_36` | quick with no_such_module |")
    assert main(["--docs", str(docs)]) == 0
    assert "not run, for want of the module no_such_module" in capsys.readouterr().out
    docs = written(tmp_path, "| a | reproduces | `V bounds.theorem_99` | quick with numpy |")
    assert main(["--docs", str(docs)]) == 1


def test_long_rows_are_not_run():
    row = claims(ROOT / "docs" / "claims" / "subquantile.md")[0]
    assert row.run.startswith("long: ")
    assert complaints_of_form(row) == []
