"""The program's solvers against a general QP solver and each other, and the rows they read against the kernel."""

import itertools
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist

from buttress import NotConvergedWarning
from buttress.gram.compiled import add_rows, rbf_entries, rbf_in_place
from buttress.gram.entries import entries, worst_error
from buttress.gram.products import Exact, tiled_product
from buttress.gram.rows import KernelRows
from buttress.gram.sparse import SparseProducts
from buttress.kernels import RBF, Laplacian, Linear, Polynomial
from buttress.solvers.qp import active_set
from buttress.solvers.qp.active_set import exact_finish, padded_gram
from buttress.solvers.qp.certificate import best_intercept, certify
from buttress.solvers.qp.interior_point import interior_point
from buttress.solvers.qp.pairs import pair_updates
from buttress.solvers.qp.program import QP, Point, bias, classifier_qp, feasible, regressor_qp, violation
from buttress.solvers.qp.smo import block_smo, working_set
from buttress.solvers.qp.solve import Limits, follow, guard, on_bounds, solve
from buttress.solvers.run import Outcome, Step, run

from problems import KERNELS, large, of_columns, points


def program(n=80, C=5.0, l1=0.0, seed=0, kernel=None, **options):
    """A classifier's program, or a regressor's with l1 > 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    rows = KernelRows(kernel or RBF(0.5), X, **options)
    if l1:
        y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n)
        return QP(rows, y, np.full(n, -C), np.full(n, C), np.zeros(n), np.full(n, l1))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return QP(rows, y, np.where(y > 0, 0, -C), np.where(y > 0, C, 0.0), np.zeros(n), np.zeros(n))


def objective(qp, b):
    return 0.5 * b @ qp.rows.gram() @ b - qp.p @ b + np.sum(qp.l1 * np.abs(b))


def general(qp):
    """The optimum by an interior-point solver for cone programs."""
    b = cp.Variable(len(qp.p))
    K = qp.rows.gram() + 1e-12 * np.eye(len(qp.p))
    goal = 0.5 * cp.quad_form(b, cp.psd_wrap(K)) - qp.p @ b + np.asarray(qp.l1) @ cp.abs(b)
    problem = cp.Problem(cp.Minimize(goal), [b >= qp.lo, b <= qp.hi, cp.sum(b) == 0])
    return problem.solve(solver="CLARABEL")


PROGRAMS = [{}, {"C": 0.05}, {"C": 1e3}, {"l1": 0.1}, {"l1": 0.3, "C": 100.0}, {"kernel": Linear(), "C": 10.0},
            {"kernel": Linear(), "l1": 0.1, "C": 10.0}]


@pytest.mark.parametrize("options", PROGRAMS, ids=str)
def test_solvers_find_the_optimum(options):
    qp = program(**options)
    expected = general(qp)
    pairs = run(block_smo(qp, tol=1e-8), tol=1e-8, max_iter=10**6)
    interior = run(interior_point(qp.rows.gram(), qp.p, qp.lo, qp.hi, qp.l1), tol=1e-9, max_iter=100)
    for outcome, b in ((pairs, pairs.state.b), (interior, interior.state)):
        assert outcome.converged
        assert abs(b.sum()) < 1e-10 * np.abs(b).sum()
        assert (b >= qp.lo).all()
        assert (b <= qp.hi).all()
        assert objective(qp, b) == pytest.approx(expected, rel=1e-6)
    assert objective(qp, interior.state) == pytest.approx(objective(qp, pairs.state.b), rel=1e-9)


@pytest.mark.parametrize("options", PROGRAMS, ids=str)
def test_the_finish_is_exact(options):
    qp = program(**options)
    b = exact_finish(qp, run(block_smo(qp, tol=1e-3), tol=1e-3).state).b
    g = qp.rows.gram() @ b - qp.p
    assert violation(g, b, qp.lo, qp.hi, qp.l1) < 1e-9
    proof = certify(qp, b)
    assert 0 <= proof.seen < 1e-9 * abs(proof.primal)
    assert proof.seen <= proof.gap < 1e-8 * abs(proof.primal)
    assert proof.dual == pytest.approx(-objective(qp, b), rel=1e-9)


def test_steps_on_singular_programs_are_of_least_norm_and_leave_the_warning_filters_of_threads():
    rng = np.random.default_rng(0)
    K = np.repeat(np.repeat(RBF(0.5)(*2 * (rng.normal(size=(6, 2)),)), 5, axis=0), 5, axis=1)  # of rank 6
    right = np.repeat(rng.normal(size=6), 5)
    whole = np.block([[K, np.ones((30, 1))], [np.ones((1, 30)), 0]])
    expected = np.linalg.pinv(whole, rcond=1e-12) @ np.append(right, 0)
    before = list(warnings.filters)
    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: active_set._bordered_solve(K, right), range(200)))
    finally:
        sys.setswitchinterval(often)
    assert warnings.filters == before
    for x in found:
        np.testing.assert_allclose(x, expected[:-1], atol=1e-9 * np.abs(expected).max())


def test_the_product_of_a_finish_is_that_of_the_proof_where_this_allows_for_so_many_sums(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.repeat([-1.0, 1.0], 30)
    rows = KernelRows(RBF(0.5), X, real=None)
    qp = classifier_qp(rows, y, np.ones(60))
    point, _ = active_set.at_once(qp, 1e-3, 10_000)
    np.testing.assert_allclose(point.f, rows.gram() @ point.b, rtol=1e-12, atol=1e-14)
    assert certify(qp, point.b, f=point.f).product.f is point.f
    monkeypatch.setattr(active_set, "CHAIN", np.count_nonzero(point.b) - 1)
    assert active_set.at_once(qp, 1e-3, 10_000)[0].f is None


def test_bounds_of_float32_sums_of_wide_rows_are_sharper(monkeypatch):
    rng = np.random.default_rng(0)
    X, b = rng.uniform(0.1, 1, (2100, 1)) * rng.normal(size=(2100, 150)), rng.normal(size=2100)
    rows, some = KernelRows(RBF(0.02), X, real=np.float32), np.arange(50)
    found = rows.single_times(b, some)
    assert (np.abs(found.f - KernelRows(RBF(0.02), X).times(b)[some]) <= found.errors).all()
    monkeypatch.setattr(KernelRows, "wide", False)
    assert (1.5 * found.errors < rows.single_times(b, some).errors).all()


@pytest.mark.parametrize(("gamma", "most"), [(0.1, 5e-6), (1e3, 0.1)])
def test_float32_sums_of_sparse_rows_are_float64_sums_but_for_a_share_of_each_entry(gamma, most):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2100, 150)) * (rng.random((2100, 150)) < 0.02)
    Z[7] = Z[3] * (1 + 1e-9)
    X = csr_matrix(Z)
    b, some = rng.normal(size=2100), np.arange(50)
    rows = KernelRows(RBF(gamma), X, real=np.float32)
    found = rows.single_times(b, some)
    truth = (RBF(gamma)(X[:50], X).astype(np.longdouble) @ b).astype(float)
    assert (np.abs(found.f - truth) <= found.errors).all()
    assert (found.errors <= most * rows.times(np.abs(b))[some]).all()
    rows.cache.widen()
    assert rows.single_times(b, some) is None


def test_a_sparse_row_beyond_the_reach_of_all_others_has_no_bound_of_its_float32_sum():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2100, 150)) * (rng.random((2100, 150)) < 0.02)
    Z[7] *= 1e8  # its kernel values are 0, and it has no bound
    b = np.where(np.arange(2100) == 7, 0.0, rng.normal(size=2100))
    rows = KernelRows(RBF(0.5), csr_matrix(Z), real=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = rows.single_times(b, np.array([7, 8]))
    assert found.errors[0] == np.inf
    assert found.errors[1] < 2e-3


def test_without_time_left_no_newton_step_begins(monkeypatch):
    """On singular programs of some thousand rows a step takes seconds, and one solve would take dozens of them."""
    qp = program(C=5.0)
    steps = []
    monkeypatch.setattr(active_set, "newton_step", lambda K, qp, b, g: steps.append(b) or (b, True))
    point = run(block_smo(qp, tol=1e-3), tol=1e-3).state
    np.testing.assert_array_equal(exact_finish(qp, point, left=lambda: 1e-9).b, point.b)
    np.testing.assert_array_equal(on_bounds(qp, padded_gram(qp.rows), point.b, 1e-3, lambda: 1e-9), point.b)
    assert steps == []
    on_bounds(qp, padded_gram(qp.rows), point.b, 1e-3)
    assert steps


@pytest.mark.parametrize(("allowed", "patience", "status"), [
    (3, 5, "max_iter"), (4, 4, "max_iter"), (5, 3, "stalled"), (np.inf, 3, "stalled")])
def test_a_phase_ends_at_the_limit_of_the_user_or_is_stalled(allowed, patience, status):
    steps = (Step(None, violation=1.0, objective=0.0) for _ in count())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        outcome = follow(steps, Limits(), 1e-3, None, allowed, patience, warn=True)
    assert (outcome.status, outcome.n_iter) == (status, min(allowed, patience))
    assert len(told) == (status == "max_iter")  # of a limit that is ours nothing is said


@pytest.mark.parametrize("shares", [(0.9, 0.2), (0.2, 0.9)])
def test_of_phases_that_all_fail_the_point_with_the_least_gap_is_kept(monkeypatch, shares):
    """Its gap is primal less dual, the intercept the best of the kinks of the hinge losses."""
    qp = program(30)
    K, C = qp.rows.gram(), 5.0
    optimum = solve(qp, Limits(tol=1e-8)).b
    tried = [share * optimum for share in shares]

    def gap(b):
        f = K @ b
        loss = min(C * np.maximum(0, 1 - qp.p * (f + at)).sum() for at in qp.p - f)
        return b @ f + loss - np.abs(b).sum()

    ends = iter(zip(tried, ("stalled", "max_iter")))

    def phase(*arguments):
        b, arguments[-1].status = next(ends)
        return Outcome(b, arguments[-1].status, 1, np.inf, np.inf), Point(b)

    monkeypatch.setattr("buttress.solvers.qp.solve._phase", phase)
    with pytest.warns(NotConvergedWarning, match="at max_iter"):
        found = solve(qp, Limits(max_iter=9))
    np.testing.assert_array_equal(found.b, min(tried, key=gap))
    assert found.proof.gap == pytest.approx(min(map(gap, tried)), rel=1e-9)
    assert not found.converged


@pytest.mark.parametrize("l1", [0.0, 0.2])
def test_the_gap_bounds_the_optimum_for_any_feasible_point(l1):
    qp = program(l1=l1)
    best = -objective(qp, exact_finish(qp, run(block_smo(qp, tol=1e-6), tol=1e-6).state).b)
    rng = np.random.default_rng(1)
    for _ in range(20):
        b = feasible(rng.uniform(qp.lo, qp.hi), qp.lo, qp.hi)
        assert abs(b.sum()) < 1e-12
        proof = certify(qp, b)
        assert proof.dual <= best <= proof.primal


def by_brute_force(qp, b, f):
    """The primal value at the best intercept and the dual value, for f = K b."""
    r = qp.p - f - best_intercept(qp.p - f, qp.lo, qp.hi, qp.l1)
    losses = qp.hi @ np.maximum(0, r - qp.l1) - qp.lo @ np.maximum(0, -r - qp.l1)
    return 0.5 * b @ f + losses, qp.p @ b - qp.l1 @ np.abs(b) - 0.5 * b @ f


@pytest.mark.parametrize("regression", [False, True])
def test_float32_enters_a_certificate_only_where_its_proven_error_changes_nothing(regression):
    X, y = large(2900)
    rows = KernelRows(RBF(0.1), X, real=None)
    target = X[:, 0] + 0.3 * np.sin(X[:, 1])
    bound = np.full(len(y), 2.0)
    qp = regressor_qp(rows, target, bound, 0.05) if regression else classifier_qp(rows, 2.0 * y - 1, bound)
    b = run(block_smo(qp, tol=1e-3), tol=1e-3).state.b
    f = RBF(0.1)(X, X) @ b
    proof = certify(qp, b)
    primal, dual = by_brute_force(qp, b, f)
    assert rows.real == np.float32
    away = np.abs(proof.product.f - f)
    assert (away <= proof.product.errors + 1e-12).all()
    assert (away[b != 0] <= 1e-10).all()
    assert proof.dual <= dual <= primal <= proof.primal
    assert proof.primal == pytest.approx(primal, rel=1e-9)
    assert proof.dual == pytest.approx(dual, rel=1e-9)
    assert primal - dual <= proof.gap <= (primal - dual) * (1 + 1e-5)
    assert proof.violation == pytest.approx(violation(f - qp.p, b, qp.lo, qp.hi, qp.l1), abs=1e-9)


def test_best_intercept_beats_a_grid():
    rng = np.random.default_rng(0)
    residual, lo, hi, l1 = rng.normal(size=40), -rng.exponential(size=40), rng.exponential(size=40), 0.3
    grid = np.append(np.linspace(-3, 3, 5001), best_intercept(residual, lo, hi, l1))
    r = residual - grid[:, None]
    losses = np.maximum(0, r - l1) @ hi - np.maximum(0, -r - l1) @ lo
    assert losses[-1] <= losses[:-1].min() + 1e-12


def test_bias_is_the_average_over_the_free_and_lies_between_the_slopes():
    qp = program(l1=0.1)
    b = exact_finish(qp, run(block_smo(qp, tol=1e-3), tol=1e-3).state).b
    f = qp.rows.gram() @ b
    residual = qp.p - f - bias(f - qp.p, b, qp.lo, qp.hi, qp.l1)
    free = (b != 0) & (np.abs(b) < 5)
    np.testing.assert_allclose(residual[free], 0.1 * np.sign(b[free]), atol=1e-8)
    assert (np.abs(residual[b == 0]) <= 0.1 + 1e-8).all()


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_pairs_by_brute_force_on_two_variables(real):
    K = np.zeros((2, 64), dtype=real)
    K[:, :2] = [[2.0, 0.5], [0.5, 1.0]]
    p, l1 = np.array([1.0, -0.4]), np.full(2, 0.1)
    b, g = np.zeros(2), np.zeros(64, dtype=real)
    g[:2] = -p
    pairs, downwards = pair_updates(K, g, b, np.full(2, -3.0), np.full(2, 3.0), l1, 1e-5, 100)
    t = np.linspace(-3, 3, 600_001)
    values = 0.5 * t**2 * (2 + 1 - 2 * 0.5) - t * (p[0] - p[1]) + 0.2 * np.abs(t)
    assert b[0] == pytest.approx(t[values.argmin()], abs=1e-4)
    assert b.sum() == pytest.approx(0, abs=1e-12)
    assert pairs >= 1
    assert downwards == 0


def test_pairs_count_downward_curvature():
    K = np.zeros((2, 64))
    K[:, :2] = [[1.0, 2.0], [2.0, 1.0]]
    b, g = np.zeros(2), np.r_[-1.0, 1.0, np.zeros(62)]
    assert pair_updates(K, g, b, np.r_[0, -1.0], np.r_[1.0, 0], np.zeros(2), 1e-6, 10) == (1, 1)
    np.testing.assert_array_equal(b, [1, -1])


def test_working_set_holds_the_worst_and_the_free():
    up = np.array([5.0, np.inf, -3.0, 0.0, 1.0, -2.0, 7.0, 8.0])
    down = np.array([5.0, 4.0, -np.inf, 0.0, 1.0, -np.inf, 7.0, 8.0])
    chosen = working_set(up, down, 4, np.array([1, 2, 3]))
    assert {2, 3, 7} <= set(chosen)  # the least slope up, the free one of the last block, the largest slope down
    assert (np.diff(chosen) > 0).all()


@pytest.mark.parametrize("scale", [1e5, 1e6, 1e8])
def test_a_kernel_beyond_the_stand_in_for_infinity_never_yields_without_a_move(scale):
    kernel, X = Polynomial(3, 1.0, 1.0), scale * np.random.default_rng(0).normal(size=(300, 3))
    none = np.zeros(300)
    qp = QP(KernelRows(kernel, X), 15 * kernel.diagonal(X), none, np.ones(300), np.full(300, 0.1), none)
    states = [step.state.b for step in itertools.islice(block_smo(qp, tol=1e-3), 40)]
    assert all((after != before).any() for before, after in itertools.pairwise(states))


def test_solver_smo_without_a_limit_keeps_libsvms_guard():
    qp = program(n=30, kernel=Polynomial(3, 1e9, 1.0))
    assert guard(len(qp.p), Limits(solver="smo")) == 10_000_000
    assert guard(10**6, Limits(solver="smo")) == 100 * 10**6
    assert guard(30, Limits(solver="smo", max_iter=5)) == np.inf


# --- rows


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_prepared_entries_are_the_kernel(kernel, real):
    X, kernel = points(70, 5), of_columns(kernel, 5)
    rows, columns = np.array([3, 9, 69]), slice(5, 60)
    tolerance = 2e-5 if real == np.float32 else 1e-12
    expected = kernel(X, X)
    single = entries(kernel, X, real)
    found = single(rows, columns)
    assert found.dtype == real
    np.testing.assert_allclose(found, expected[rows][:, columns], rtol=tolerance, atol=tolerance)
    store = np.zeros((5, 70), dtype=real)
    single.write(rows, 10, 70, store, np.array([4, 0, 2]))
    np.testing.assert_allclose(store[[4, 0, 2], 10:], expected[rows][:, 10:], rtol=tolerance, atol=tolerance)
    sparse = entries(kernel, csr_matrix(np.where(X > 1.3, X, 0)), real)
    dense = np.where(X > 1.3, X, 0)
    expected = kernel(dense, dense)
    for asked in (columns, slice(0, 70), np.array([60, 2, 2])):
        np.testing.assert_allclose(sparse(rows, asked), expected[rows][:, asked], rtol=tolerance, atol=tolerance)
    sparse.write(rows, 10, 70, store, np.array([4, 0, 2]))
    np.testing.assert_allclose(store[[4, 0, 2], 10:], expected[rows][:, 10:], rtol=tolerance, atol=tolerance)


def test_memory_of_an_ended_fit_serves_the_next_one_but_not_while_something_refers_to_it():
    X = points(300, 5)
    first = KernelRows(RBF(1.0), X, real=None)
    seen = first.cache.store[7:9, 3:]
    before = seen.copy()
    del first
    second = KernelRows(RBF(0.1), X, real=None)
    np.testing.assert_array_equal(seen, before)
    np.testing.assert_allclose(second.cache.store, RBF(0.1)(X, X), atol=1e-14)
    place = second.cache.store.ctypes.data
    del second
    third = KernelRows(RBF(0.3), X[:200], real=None)
    assert third.cache.store.ctypes.data == place
    np.testing.assert_allclose(third.cache.store, RBF(0.3)(X[:200], X[:200]), atol=1e-14)


def test_products_of_sparse_rows_are_those_of_dense_ones():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(40, 30)) * (rng.random((40, 30)) < 0.1)
    dense[[3, 17]] = 0.0            # rows and columns without an entry
    dense[:, [0, 29]] = 0.0
    dense[5:, [4, 20]] = rng.normal(size=(35, 2))  # columns that many rows have
    products = SparseProducts(csr_matrix(dense))
    single = SparseProducts(csr_matrix(dense.astype(np.float32)))
    for rows in (np.array([3, 5, 39, 5]), slice(0, 40), np.empty(0, dtype=np.intp)):
        for columns in (slice(0, 40), slice(7, 23), slice(39, 40), np.array([17, 1, 1, 38])):
            np.testing.assert_allclose(products(rows, columns), dense[rows] @ dense[columns].T, atol=1e-14)
            np.testing.assert_allclose(single(rows, columns), dense[rows] @ dense[columns].T, atol=1e-5)
    held = (dense != 0).sum(axis=0)
    few = held <= 0.15 * 40
    assert not few[[4, 20]].any()
    assert few.sum() > 20
    assert products.cost(40, 40) == pytest.approx(40 * 40 * (~few).sum() + (held[few] ** 2).sum())


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_panels_of_sparse_rows_are_those_of_dense_ones(real):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(60, 40)) * (rng.random((60, 40)) < np.arange(40) / 260)
    found = entries(RBF(0.1), csr_matrix(dense), real)
    found.panel = 7, 11  # lists begin before, in and after a panel
    store = np.full((60, 60), np.nan, real)
    rows = rng.permutation(60)[:50]
    found.write(rows, 5, 59, store, rows)
    np.testing.assert_allclose(store[rows, 5:59], RBF(0.1)(dense[rows], dense[5:59]), atol=1e-5)
    assert np.isnan(store[:, :5]).all()
    found.tile = 7, 11
    b = np.where(np.arange(60) < 45, rng.normal(size=60), 0.0)
    for chosen in (0, 20, 45):
        product = tiled_product(Exact(found), b, np.ones(60), 45, chosen)
        some = np.r_[:chosen, 45:60]
        np.testing.assert_allclose(product[some], (RBF(0.1)(dense, dense) @ b)[some], atol=1e-4)


@pytest.mark.parametrize("kernel", [RBF(0.3), Laplacian(0.3)], ids=str)
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_a_row_far_away_does_not_blur_the_entries_of_the_others(kernel, real):
    X = points(200, 5)
    far = np.vstack([X, np.full((2, 5), 1e8)])
    found = entries(kernel, far, real)(np.arange(202), slice(0, 202))
    expected = np.exp(-0.3 * cdist(X, X, "sqeuclidean" if isinstance(kernel, RBF) else "euclidean"))
    np.testing.assert_allclose(found[:200, :200], expected, rtol=0, atol=2e-4 if real == np.float32 else 1e-12)
    assert (found[200:, :200] < 1e-30).all()


@pytest.mark.parametrize("size", [1e8, 1e25, 1e60])
def test_float32_entries_of_a_row_far_away_are_right_or_refused(size):
    X = points(3001, 5)
    X[1717] = size
    kernel = RBF(0.3)
    single = entries(kernel, X, np.float32)
    with np.errstate(all="ignore"):
        found = single(np.array([3, 1717]), slice(0, 400))
    expected = np.exp(-0.3 * cdist(X[[3, 1717]], X[:400], "sqeuclidean"))
    assert worst_error(kernel, X, single) > 1e-5 or np.abs(found - expected).max() < 1e-5


def test_fast_exponential_over_its_range():
    r2 = np.concatenate([np.linspace(0, 90, 4000), np.full(96, 1e4)]).astype(np.float32)
    store = np.zeros((1, 4096), dtype=np.float32)
    none = np.zeros((1, 4096), np.float32)
    rbf_entries(none, none[0, :1], r2, np.float32(1.0), store, np.zeros(1, int), 0)
    np.testing.assert_allclose(store[0, :3800], np.exp(-r2[:3800].astype(float)), rtol=2e-7 * 20)
    assert store[0, -1] < 1e-37


def test_exponential_in_float64():
    r2 = np.linspace(0, 700, 4001)
    panel = np.zeros((1, 4001))
    rbf_in_place(panel, np.zeros(1), r2, 1.0)
    np.testing.assert_allclose(panel[0], np.exp(-r2), rtol=1e-12, atol=2e-16)
    np.testing.assert_allclose(panel[0, :20], np.exp(-r2[:20]), rtol=2e-15)


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_rows_are_added_in_float64(real):
    rng = np.random.default_rng(0)
    store, slots, weights = rng.normal(size=(20, 700)).astype(real), rng.permutation(20)[:13], rng.normal(size=13)
    total = np.ones(600)
    add_rows(store, slots, weights, total, 50)
    np.testing.assert_allclose(total, 1 + weights @ store[slots, 50:650].astype(float), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("megabytes", [1e-9, 0.02, 10.0])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_rows_of_any_cache_are_the_gram_matrix(megabytes, real):
    X, kernel = points(90), RBF(0.3)
    K, rows = kernel(X, X), KernelRows(kernel, X, megabytes, real)
    tolerance = 1e-5 if real == np.float32 else 1e-12
    rng = np.random.default_rng(0)
    for _ in range(10):
        index = rng.choice(90, size=min(7, rows.capacity), replace=False)
        np.testing.assert_allclose(rows.fetch(index), K[index], rtol=tolerance)
        np.testing.assert_allclose(rows.block(index)[:, : len(index)], K[np.ix_(index, index)], rtol=tolerance)
    b = rng.normal(size=90) * (rng.random(90) < 0.5)
    np.testing.assert_allclose(rows.times(b), K @ b, atol=tolerance * 90)
    np.testing.assert_allclose(rows.proven_times(b).f, K @ b, atol=1e-11)
    np.testing.assert_allclose(rows.gram(), K, rtol=1e-12)
    assert rows.cache.store.nbytes <= max(megabytes * 2**20, 2 * 90 * 8)


def test_sections_share_their_entries():
    X, kernel = points(60), Laplacian(0.4)
    K, rows = kernel(X, X), KernelRows(kernel, X, real=np.float32, sections=[0, 10, 35, 60])
    first, second = rows.part([0, 2]), rows.part([0, 1])
    np.testing.assert_array_equal(first.index, np.r_[:10, 35:60])
    np.testing.assert_allclose(first.fetch(np.arange(10)), K[:10][:, first.index], rtol=1e-5)
    computed = rows.n_computed
    assert computed == pytest.approx(10 * 35 / 60)
    np.testing.assert_allclose(second.fetch(np.arange(10)), K[:10][:, :35], rtol=1e-5)
    assert rows.n_computed == pytest.approx(computed + 10 * 25 / 60)  # the first section was there
    b = np.linspace(-1, 1, 35)
    for part in (first, second):
        block = K[np.ix_(part.index, part.index)]
        np.testing.assert_allclose(part.times(b), block @ b, atol=1e-5)
        np.testing.assert_allclose(part.proven_times(b).f, block @ b, atol=1e-12)
        np.testing.assert_allclose(part.gram(), block, rtol=1e-12)
        np.testing.assert_array_equal(part.diagonal, np.ones(35))


def test_exact_product_of_several_tiles_with_wanted_rows_only():
    X, kernel = points(1300), RBF(0.3)
    b = np.where(np.random.default_rng(0).random(1300) < 0.6, 1.0, 0.0)
    wanted = np.arange(0, 1300, 3)
    found, expected = KernelRows(kernel, X, 0.01, np.float32).proven_times(b, wanted).f, kernel(X, X) @ b
    np.testing.assert_allclose(found[wanted], expected[wanted], rtol=1e-12)
    everything = KernelRows(kernel, X, 0.01, np.float32).proven_times(b).f
    np.testing.assert_allclose(everything, expected, rtol=1e-12)


def test_float32_is_chosen_where_it_is_good():
    near, far = points(2100), points(2100) * np.r_[1e4, 1, 1]
    assert KernelRows(RBF(0.3), near, 1, real=None).real == np.float32
    assert KernelRows(RBF(0.3), near[:2000], 1, real=None).real == np.float64
    assert KernelRows(RBF(0.3), far, 1, real=None).real == np.float64
    kernel = Polynomial(8, 1e3, 0.0)
    assert not worst_error(kernel, far, entries(kernel, far, np.float32)) < 1e-5


@pytest.mark.parametrize("real", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1e16, 1e29, 1e37, 1e99])
def test_targets_of_any_size_move_no_variable_that_there_is_not(size, real):
    """65 variables fill two blocks of 64, the second one with variables that do not count."""
    n, memory = 65, [np.full(193, 7.0) for _ in range(2)]
    for away, sign in zip(memory, (1.0, -1.0), strict=True):
        with np.errstate(over="ignore"):
            p = (sign * size * (10 + np.random.default_rng(0).normal(size=n))).astype(real)
        if not np.isfinite(p).all():
            continue
        K, g, b = np.zeros((n, 128), real), np.zeros(128, real), away[:n]
        K[:, :n] = np.eye(n)
        g[:n] = -p
        b[:] = 0.0
        l1 = np.full(n, 0.1 * size)
        pair_updates(K, g, b, -np.ones(n), np.ones(n), l1, 1e-6 * size, 1000)
        assert (away[n:] == 7.0).all()
        slope = b - p.astype(float)
        if real == np.float64:
            up, down = np.where(b >= 0, slope + l1, slope - l1), np.where(b > 0, slope + l1, slope - l1)
            assert down[b > -1].max() - up[b < 1].min() <= 1e-6 * size
