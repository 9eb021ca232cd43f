"""Steps in the span of past progress: no step raises the objective or leaves the program, and restarts repeat them."""

import itertools

import numpy as np
import pytest
from test_smo import PROGRAMS, general, objective, program

from buttress.checkpoints.folder import Folder
from buttress.gram.rows import KernelRows
from buttress.kernels import RBF
from buttress.solvers.qp import smo
from buttress.solvers.qp.program import QP, feasible
from buttress.solvers.qp.smo import block_smo
from buttress.solvers.qp.subspace import PAST, Past, remembered, subspace_step
from buttress.solvers.run import run


def small_blocks(monkeypatch):
    """Let blocks hold few of the free variables, and count the steps between them that move something."""
    steps = []

    def counted(qp, b, g, past, most):
        before = b.copy()
        value = objective(qp, b)
        subspace_step(qp, b, g, past, most)
        assert objective(qp, b) <= value + 1e-12 * abs(value)
        steps.append((before != b).any())

    monkeypatch.setattr(smo, "SMALL_BLOCK", 8)
    monkeypatch.setattr(smo, "LARGE_BLOCK", 8)
    monkeypatch.setattr(smo, "subspace_step", counted)
    return steps


@pytest.mark.parametrize("options", [*PROGRAMS, {"C": 100.0, "kernel": RBF(5.0)}], ids=str)
def test_blocks_with_such_steps_end_at_the_optimum(options, monkeypatch):
    steps = small_blocks(monkeypatch)
    qp = program(**options)
    found = run(block_smo(qp, tol=1e-7), tol=1e-7, max_iter=10**6)
    assert found.converged
    assert objective(qp, found.state.b) == pytest.approx(general(qp), rel=1e-6)
    assert abs(found.state.b.sum()) < 1e-10 * np.abs(found.state.b).sum()
    free = (found.state.b > qp.lo) & (found.state.b < qp.hi)
    if np.count_nonzero(free) > 20:
        assert any(steps)


@pytest.mark.parametrize("l1", [0.0, 0.2])
def test_a_step_stays_within_the_program_and_keeps_its_gradient(l1):
    qp = program(n=120, C=2.0, l1=l1)
    K = qp.rows.gram()
    rng = np.random.default_rng(0)
    moved = 0
    for _ in range(20):
        ends = [feasible(0.7 * rng.uniform(qp.lo, qp.hi), qp.lo, qp.hi) for _ in range(PAST + 1)]
        past = Past(np.array(ends[:-1]), np.array([K @ end - qp.p for end in ends[:-1]]))
        b = ends[-1].copy()
        g = K @ b - qp.p
        subspace_step(qp, b, g, past, len(b))
        np.testing.assert_allclose(g, K @ b - qp.p, atol=1e-10)
        assert (b >= qp.lo).all()
        assert (b <= qp.hi).all()
        assert abs(b.sum() - ends[-1].sum()) < 1e-10
        assert objective(qp, b) <= objective(qp, ends[-1])
        moved += (b != ends[-1]).any()
    assert moved > 5


def test_without_bounds_a_step_is_the_least_of_the_span():
    """Two points of the past and wide bounds: the least over two coefficients in closed form."""
    rng = np.random.default_rng(0)
    rows = KernelRows(RBF(0.5), rng.normal(size=(50, 3)))
    K = rows.gram()
    p = rng.normal(size=50)
    wide = np.full(50, 1e6)
    qp = QP(rows, p, -wide, wide, np.zeros(50), np.zeros(50))
    points = rng.normal(size=(3, 50))
    points -= points.mean(axis=1, keepdims=True)
    past = Past(points[:2], points[:2] @ K - p)
    b = points[2].copy()
    g = K @ b - p
    D = b - points[:2]
    expected = b - D.T @ np.linalg.solve(D @ K @ D.T, D @ g)
    subspace_step(qp, b, g, past, 50)
    np.testing.assert_allclose(b, expected, rtol=1e-9)


def test_the_past_keeps_the_newest_points():
    past = Past(np.empty((0, 2)), np.empty((0, 2)))
    for k in range(PAST + 2):
        past = remembered(past, np.full(2, float(k)), np.full(2, 10.0 * k))
    assert past.b[:, 0].tolist() == list(range(2, PAST + 2))
    assert past.g[-1, 0] == 10.0 * (PAST + 1)


def test_a_restart_repeats_the_steps_to_the_same_bits(monkeypatch, tmp_path):
    steps = small_blocks(monkeypatch)
    qp = program(C=100.0, kernel=RBF(5.0), real=np.float32)
    states = []
    folder = Folder(tmp_path)
    for number, step in enumerate(itertools.islice(block_smo(qp, tol=1e-5), 60)):
        states.append(step.state.b)
        if number == 30:  # before the next step
            folder.write("memory", step.memory())
    assert any(steps)
    again = program(C=100.0, kernel=RBF(5.0), real=np.float32)
    resumed = block_smo(again, tol=1e-5, memory=folder.read("memory"))
    for expected, step in zip(states[30:], resumed, strict=False):
        np.testing.assert_array_equal(step.state.b, expected)
