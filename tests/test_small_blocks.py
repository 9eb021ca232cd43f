"""Blocks that hold few of the free variables end at the optimum, and restarts repeat them."""

import itertools

import numpy as np
import pytest
from test_smo import PROGRAMS, general, objective, program

from buttress.checkpoints.folder import Folder
from buttress.kernels import RBF
from buttress.solvers.qp import smo
from buttress.solvers.qp.smo import block_smo
from buttress.solvers.run import run


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(smo, "SMALL_BLOCK", 8)
    monkeypatch.setattr(smo, "LARGE_BLOCK", 8)


@pytest.mark.parametrize("options", [*PROGRAMS, {"C": 100.0, "kernel": RBF(5.0)}], ids=str)
def test_small_blocks_end_at_the_optimum(options):
    qp = program(**options)
    found = run(block_smo(qp, tol=1e-7), tol=1e-7, max_iter=10**6)
    assert found.converged
    assert objective(qp, found.state.b) == pytest.approx(general(qp), rel=1e-6)
    assert abs(found.state.b.sum()) < 1e-10 * np.abs(found.state.b).sum()


def test_a_restart_repeats_the_steps_to_the_same_bits(tmp_path):
    qp = program(C=100.0, kernel=RBF(5.0), real=np.float32)
    states = []
    folder = Folder(tmp_path)
    for number, step in enumerate(itertools.islice(block_smo(qp, tol=1e-5), 60)):
        states.append(step.state.b)
        if number == 30:  # before the next step
            folder.write("memory", step.memory())
    again = program(C=100.0, kernel=RBF(5.0), real=np.float32)
    resumed = block_smo(again, tol=1e-5, memory=folder.read("memory"))
    for expected, step in zip(states[30:], resumed, strict=False):
        np.testing.assert_array_equal(step.state.b, expected)
