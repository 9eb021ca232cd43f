"""Small programs in one compiled pass, against a general solver and against the steps that others can follow."""

import numpy as np
import pytest
from test_smo import PROGRAMS, general, objective, program

from buttress import SVC, SVR
from buttress.kernels import RBF, Linear
from buttress.solvers.qp import solve as solving
from buttress.solvers.qp.program import violation
from buttress.solvers.qp.solve import Limits, solve

FOLLOWED = Limits(max_iter=10**7)  # a limit of steps asks for the steps
SMALL = {"real": None}  # lets the whole matrix be stored


@pytest.mark.parametrize("options", PROGRAMS, ids=str)
def test_one_pass_finds_the_optimum_to_rounding(options):
    qp = program(**options, **SMALL)
    found = solve(qp, Limits())
    assert found.converged
    assert [entry["n_iter"] for entry in found.outcome.history] == [found.outcome.n_iter]  # one entry: one pass
    assert objective(qp, found.b) == pytest.approx(general(qp), rel=1e-6)
    f = found.proof.product.f
    np.testing.assert_allclose(f, qp.rows.gram() @ found.b, atol=1e-9 * np.abs(f).max())
    assert violation(f - qp.p, found.b, qp.lo, qp.hi, qp.l1) < 1e-9
    assert 0 <= found.proof.gap < 1e-8 * abs(found.proof.primal)  # proven: what rounding may have added is in it


@pytest.mark.parametrize("options", [
    {"n": 300, "C": 1e4, "kernel": RBF(20.0)},  # nearly all variables are free, too many for the pass
    {"n": 200, "C": 1e3, "kernel": Linear()},  # K has rank 3: singular on the free variables
    {"n": 300, "l1": 0.01, "C": 1e3},
    {"n": 65, "C": 1.0},
    {"n": 2, "C": 1.0, "seed": 3},
], ids=str)
def test_one_pass_ends_where_the_steps_end(options):
    one = solve(program(**options, **SMALL), Limits())
    other = solve(program(**options, **SMALL), FOLLOWED)
    assert one.converged
    assert one.proof.dual == pytest.approx(other.proof.dual, rel=1e-8)
    assert one.proof.intercept == pytest.approx(other.proof.intercept, abs=1e-4)
    f = other.proof.product.f
    np.testing.assert_allclose(one.proof.product.f, f, atol=1e-5 * max(1.0, np.abs(f).max()))


def test_a_pass_that_stalls_is_followed_by_the_interior_point_method(monkeypatch):
    monkeypatch.setattr(solving, "stall_limit", lambda n: 5)
    qp = program(C=100.0, **SMALL)
    found = solve(qp, Limits())
    assert found.converged
    assert objective(qp, found.b) == pytest.approx(general(qp), rel=1e-3)


def test_a_pass_starts_from_the_coefficients_given(monkeypatch):
    X = np.random.default_rng(0).normal(size=(120, 3))
    y = np.sin(X[:, 0])
    model = SVR(warm_start=True).fit(X, y)
    first = model.n_iter_
    assert first > 0
    assert model.fit(X, y).n_iter_ == 0


def test_equal_rows_with_both_labels_are_no_trouble():
    X = np.repeat(np.random.default_rng(0).normal(size=(30, 2)), 4, axis=0)
    y = np.tile([0, 1, 1, 1], 30)
    model = SVC(C=10.0).fit(X, y)
    assert model.converged_
    assert model.dual_gap_ <= 1e-3 * model.primal_objective_
    other = SVC(C=10.0, max_iter=10**6).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), atol=1e-3)
