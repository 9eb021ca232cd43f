"""What a packager reads says the same everywhere: the version, the recipe for conda, the Pythons."""

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
