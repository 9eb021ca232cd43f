"""``import buttress`` costs next to nothing, and every public name loads."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import buttress

HEAVY = ["numba", "matplotlib", "pandas", "polars", "pyarrow", "duckdb", "torch", "rich", "typer", "jinja2", "pyspark"]


def test_importing_loads_nothing_heavy():
    code = "import sys; import sklearn; before = set(sys.modules); import buttress; print(*set(sys.modules) - before)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "buttress" in loaded
    assert not {name.split(".")[0] for name in loaded} & set(HEAVY)
    assert len(loaded) < 10


@pytest.mark.parametrize("name", buttress.__all__)
def test_every_public_name_loads(name):
    assert getattr(buttress, name) is not None


def test_unknown_names_raise_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'SVG'"):
        _ = buttress.SVG


def test_the_audit_is_a_function_and_a_place():
    from buttress.audit import AuditResult

    assert callable(buttress.audit)
    assert buttress.AuditResult is AuditResult


def test_the_stub_for_editors_names_what_the_package_has():
    stub = Path(buttress.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    named = {alias.asname: f"{node.module}.{alias.name}" for node in ast.walk(ast.parse(stub))
             if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert sorted(named) == sorted(set(buttress.__all__) - {"__version__"})
    assert {name: home for name, home in named.items() if name in buttress._HOME} == {
        name: f"{home}.{name}" for name, home in buttress._HOME.items()}
