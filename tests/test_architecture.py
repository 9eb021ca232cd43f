"""The map in docs/architecture.md is that of the source: its picture, its rooms and its paths."""

import ast
import importlib
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from test_persistence import write_unchecked

from buttress import ModelFileError, kernels, load, save

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "buttress"

if not (ROOT / "pyproject.toml").exists() or not SOURCE.exists():
    pytest.skip("the map is drawn from a checkout", allow_module_level=True)

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def section(title):
    """The text of the page under this heading."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(text):
    """The names in backticks that begin the rows of the text's tables."""
    return [name for row in re.findall(r"^\| (`[^|]*)\|", text, flags=re.M) for name in re.findall(r"`([^`]+)`", row)]


def folders():
    return {f"{file.parent.relative_to(SOURCE).as_posix()}/" for file in SOURCE.rglob("__init__.py")} - {"./"}


def files_of(folder):
    return [file for file in folder.glob("*.py") if file.name != "__init__.py"]


def test_the_picture_is_drawn_from_the_imports_of_today():
    house = runpy.run_path(str(ROOT / "docs" / "figures" / "house.py"))
    drawn = (ROOT / "docs" / "images" / "house.svg").read_text(encoding="utf-8")
    assert house["picture"]() == drawn, "run: python docs/figures/house.py"


def test_no_arrow_of_the_picture_points_upwards():
    house = runpy.run_path(str(ROOT / "docs" / "figures" / "house.py"))
    level = {room: floor for floor, rooms in enumerate(house["floors"]()) for room in rooms}
    assert [pair for pair in sorted(house["imports"](set(level))) if level[pair[0]] >= level[pair[1]]] == []


def test_arrows_that_follow_from_others_are_left_out():
    reduced = runpy.run_path(str(ROOT / "docs" / "figures" / "house.py"))["reduced"]
    assert reduced({("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("a", "c")}) == {("a", "b"), ("b", "c"), ("c", "d")}


def test_every_room_has_its_line():
    rooms = folders() | {file.name for file in files_of(SOURCE)}
    listed = first_cells(section("The rooms"))
    assert sorted(listed) == sorted(rooms)


@pytest.mark.parametrize("text", [PAGE, GUIDE], ids=["architecture", "contributing"])
def test_files_and_functions_that_are_named_exist(text):
    for path, name in re.findall(r"`([\w./]+\.(?:py|md|toml))(?:::(\w+))?`", text):
        file = next((base / path for base in (SOURCE, ROOT, ROOT / "docs") if (base / path).exists()), None)
        assert file, f"{path} does not exist"
        assert not name or name in defined(file), f"{path} defines no {name}"


def worked_example():
    """The kernel that CONTRIBUTING.md adds, as a class of kernels/named.py."""
    code = re.search(r"^```python\n(class .*?)^```", GUIDE, flags=re.M | re.S).group(1)
    named = vars(importlib.import_module("buttress.kernels.named")).copy()
    exec(code, named)
    return named["Matern"]


def test_the_kernel_of_the_worked_example_is_one():
    kernel, r2, h = worked_example()(gamma=0.5), np.linspace(0.1, 9, 50), 1e-6
    s = np.sqrt(1.5 * r2)
    np.testing.assert_allclose(kernel.profile(r2), (1 + s) * np.exp(-s), rtol=1e-12)
    np.testing.assert_allclose(kernel.slope(r2), (kernel.profile(r2 + h) - kernel.profile(r2 - h)) / (2 * h), atol=1e-8)
    X = np.random.default_rng(0).normal(size=(40, 2))
    assert np.linalg.eigvalsh(kernel(X, X))[0] > -1e-9


def test_the_kernel_of_the_worked_example_is_checked_in_files(monkeypatch, tmp_path):
    cls = worked_example()
    monkeypatch.setattr(kernels, "Matern", cls, raising=False)
    monkeypatch.setattr(kernels, "__all__", [*kernels.__all__, "Matern"])
    save(cls(gamma=0.5), tmp_path / "kernel")
    assert load(tmp_path / "kernel").gamma == 0.5
    for gamma in (-1.0, 0.0, np.nan, np.inf, "wide", None):
        write_unchecked(cls(gamma), tmp_path / "kernel")
        with pytest.raises(ModelFileError, match=r"Matern\.gamma"):
            load(tmp_path / "kernel")


def defined(file):
    """Names of the functions, classes, methods and constants of a file."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(target.id for target in targets if isinstance(target, ast.Name))
    return names


def imported(folder):
    """The names that scripts import from this package: file, module and name."""
    for file in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "buttress":
                yield from ((file.name, node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("folder", ["benchmarks", "reproduce", "examples"])
def test_what_scripts_import_is_there(folder):
    """They are not run, as they need data and time; a name that moved would show only then."""
    assert [each for each in imported(folder) if not hasattr(importlib.import_module(each[1]), each[2])] == []
