"""What a packager reads says the same everywhere: the version, the recipe for conda, the Pythons."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

import buttress

ROOT = Path(__file__).parents[1]
if not (ROOT / "pyproject.toml").exists():
    pytest.skip("the package is built from a checkout", allow_module_level=True)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RECIPE = (ROOT / ".ci" / "conda" / "meta.yaml").read_text(encoding="utf-8") if (ROOT / ".ci").exists() else ""


def block(head):
    """The entries of a list of the recipe."""
    found = re.search(rf"^ *{head}:\n((?: +- .*\n)+)", RECIPE, flags=re.M)
    return [line.strip().removeprefix("- ") for line in found.group(1).splitlines()]


def test_the_version_has_one_source():
    assert PROJECT["project"]["dynamic"] == ["readme", "version"]
    source = (ROOT / PROJECT["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert re.findall(r'^__version__ = "(.*)"$', source, flags=re.M) == [buttress.__version__]
    for file, pattern in (("CITATION.cff", r"^version: (.*)$"), (".ci/conda/meta.yaml", r'set version = "(.*)"')):
        assert re.findall(pattern, (ROOT / file).read_text(encoding="utf-8"), flags=re.M) == [buttress.__version__]


def test_the_address_is_the_same_wherever_it_stands():
    home = PROJECT["project"]["urls"]["Repository"]
    place = re.compile(r"https?://(?:example\.org|" + re.escape(home.split("/")[2]) + r")/[\w./-]*")
    for file, tail in (("SECURITY.md", "/security/advisories/new"), ("CITATION.cff", ""), (".ci/conda/meta.yaml", "")):
        assert place.findall((ROOT / file).read_text(encoding="utf-8")) == [home + tail]
    found = place.findall((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert len(found) >= 5
    assert all(address.startswith(home) for address in found)


def test_the_recipe_asks_for_what_the_package_asks_for():
    project = PROJECT["project"]
    needed = sorted([*project["dependencies"], f"python{project['requires-python']}"])
    assert sorted(line.replace(" ", "") for line in block("run")) == needed
    host = [line.replace(" ", "") for line in block("host")]
    assert sorted(host) == sorted([*PROJECT["build-system"]["requires"], "pip", f"python{project['requires-python']}"])
    assert block("entry_points") == [f"{name} = {target}" for name, target in project["scripts"].items()]
    assert f"license: {project['license']}\n" in RECIPE
    assert f'summary: "{project["description"]}"\n' in RECIPE


def test_every_python_of_the_tests_has_its_classifier():
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    tested = re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", workflow).group(1))
    kinds = PROJECT["project"]["classifiers"]
    assert [kind.rpartition(" ")[2] for kind in kinds if re.search(r":: 3\.\d+$", kind)] == tested


def test_what_only_some_systems_have_is_asked_where_it_may_be_missing():
    only_some = {"fcntl", "grp", "multiprocessing", "pwd", "resource", "select", "signal", "subprocess", "termios"}
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "src").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    guarded = [part for node in nodes if isinstance(node, ast.Try) for part in node.body
               if any(handler.type and ast.unparse(handler.type) == "ImportError" for handler in node.handlers)]
    nodes = [node for node in nodes if node not in guarded]
    named = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    named |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    assert named & only_some == set()
