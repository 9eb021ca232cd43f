"""``import buttress`` costs next to nothing, and every public name loads."""

import subprocess
import sys

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
