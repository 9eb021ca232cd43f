"""The hunt for mutants: what it names is there, and its grammar makes what it says."""

import ast

import pytest

from tests.mutants.__main__ import ROOMS, ROOT, drawn, files_of
from tests.mutants.grammar import mutants

FILES = sorted(file for room in ROOMS for file in files_of(room))


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_code_and_tests(room):
    patterns, tests = ROOMS[room]
    assert [pattern for pattern in patterns if not list(ROOT.glob(pattern))] == []
    assert [test for test in tests if not (ROOT / test).is_file()] == []


def test_mutants_are_programs_that_differ_and_are_drawn_by_the_seed_alone():
    files = FILES[::4]
    some = drawn(files, "1", 60)
    assert some == drawn(files, "1", 60) != drawn(files, "2", 60)
    for one in some:
        source = (ROOT / one.file).read_text(encoding="utf-8")
        assert ast.dump(ast.parse(one.applied(source))) != ast.dump(ast.parse(source))


@pytest.mark.parametrize(("line", "kinds"), [
    ("a + b", ["sign"]), ("a <= b", ["strictness"]), ("min(a, b)", ["extremum"]), ("a[1]", ["end", "end"])])
def test_the_grammar_knows_these_errors(line, kinds):
    found = [one.kind for one in mutants("file.py", f"def f(a, b):\n    return {line}\n")]
    assert [kind for kind in found if kind in kinds] == kinds
