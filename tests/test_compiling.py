"""Compiled functions: a signature is compiled when first called for, and no other types are taken."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numba
import numpy as np
import pytest
from numba.core.errors import NumbaError

from buttress._compiling import Compiled

FIRST_FIT = """
import json
import numba.core.event as event
from sklearn.datasets import load_iris
from buttress import SVC

with event.install_recorder("numba:compile") as made:
    SVC().fit(*load_iris(return_X_y=True))
print(json.dumps([each.data["dispatcher"].py_func.__module__ for _, each in made.buffer]))
"""
SIGNATURES = ["float64(float64[::1])", "float32(float32[::1])"]


def total(x):
    found = x.dtype.type(0)
    for value in x:
        found += value
    return found


def made(function=total, signatures=SIGNATURES):
    return Compiled(function, signatures, fastmath=False)


def test_each_signature_is_compiled_at_its_first_call():
    compiled = made()
    assert compiled._left == SIGNATURES
    assert compiled(np.arange(4.0)) == 6
    assert compiled._left == SIGNATURES[1:]
    assert compiled(np.arange(4.0, dtype=np.float32)) == 6
    assert compiled._left == []
    assert compiled.__name__ == "total"


@pytest.mark.parametrize("wrong", [np.arange(4), np.arange(8.0)[::2], np.ones((2, 2))],
                         ids=["whole numbers", "steps", "matrix"])
def test_other_types_are_refused_before_and_after(wrong):
    compiled = made()
    for _ in range(2):
        with pytest.raises(TypeError, match="No matching definition"):
            compiled(wrong)
    assert compiled(np.arange(4.0)) == 6


def test_compiled_functions_call_each_other():
    inner = made()

    def twice(x):
        return 2 * inner(x)

    assert made(twice, SIGNATURES[:1])(np.arange(4.0)) == 12


def test_threads_that_call_first_at_once_all_get_their_answer():
    compiled = made()
    together = Barrier(6)

    def call(number):
        together.wait()
        reals = (np.float64, np.float32) if number % 2 else (np.float32, np.float64)
        return [float(compiled(np.arange(4.0, dtype=real))) for real in reals]

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(call, range(6))) == [[6, 6]] * 6
    assert len(compiled._ready) == 2


def test_compiling_that_is_cut_short_takes_no_other_types(monkeypatch):
    compiled = made()
    whole = compiled._made

    def cut():
        found = whole()
        monkeypatch.setattr(found, "compile", lambda signature: (_ for _ in ()).throw(KeyboardInterrupt))
        return found

    monkeypatch.setattr(compiled, "_made", cut)
    with pytest.raises(KeyboardInterrupt):
        compiled(np.arange(4.0))
    monkeypatch.setattr(compiled, "_made", whole)
    with pytest.raises(TypeError, match="No matching definition"):
        compiled(np.arange(4))
    assert compiled(np.arange(4.0)) == 6


def test_a_function_that_makes_an_array_without_saying_so_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def doubled(x):
        return 2 * x

    with pytest.raises(NumbaError):
        made(doubled, ["float64[::1](float64[::1])"])(np.arange(4.0))


def test_a_first_fit_compiles_no_functions_of_numba(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", FIRST_FIT]
    modules = json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    assert {module.split(".")[0] for module in modules} == {"buttress"}
