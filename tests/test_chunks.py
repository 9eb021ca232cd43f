"""Large programs solved by parts and chunks of their rows, against all of the kernel matrix in float64."""

from functools import cache
from statistics import median
from unittest.mock import patch

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

from buttress import SVC, SVR, InterruptedWarning, NotConvergedWarning
from buttress._threads import own_threads
from buttress.gram.entries import entries
from buttress.gram.products import unstored_sums
from buttress.gram.rows import KernelRows
from buttress.kernels import RBF, Custom, Laplacian, Linear, Polynomial
from buttress.solvers.linear.primal import best_intercept
from buttress.solvers.qp import chunks
from buttress.solvers.qp.chunks import chunked_smo, suits
from buttress.solvers.qp.levels import filled, in_question, level_of, level_sizes, part_of, started, unit
from buttress.solvers.qp.program import QP, Point, classifier_qp, regressor_qp, violation
from buttress.solvers.qp.smo import block_smo
from buttress.solvers.run import run

ROWS = 2500  # more than are stored at once
MEMORY = 0.25  # megabytes of kernel rows: chunks of 256 rows


@pytest.fixture
def by_chunks(monkeypatch):
    """Have machines of ``ROWS`` rows count as large."""
    monkeypatch.setattr(chunks, "LARGE", ROWS)
    monkeypatch.setattr(chunks, "SLICE", 1e6)
    monkeypatch.setattr(chunks, "LEAST_SLICE", 100)
    called = []
    monkeypatch.setattr(
        "buttress.solvers.qp.solve.chunked_smo", lambda *a, **k: called.append(k) or chunked_smo(*a, **k))
    return called


def data(n=ROWS, noise=0.5):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6))
    return X, np.where(X[:, 0] * X[:, 1] + noise * rng.normal(size=n) > 0, 1.0, -1.0)


@cache
def everything():
    X, _ = data()
    return RBF(0.2)(X, X)


def program(kernel=None, C=3.0, regression=False, n=ROWS):
    X, y = data(n)
    rows = KernelRows(kernel or RBF(0.2), X, MEMORY, real=np.float32)
    if regression:
        return regressor_qp(rows, 50 + 3 * np.sin(X[:, 0]) + 0.2 * y, np.full(n, C), 0.1), X
    return classifier_qp(rows, y, np.full(n, C)), X


def proven(b, f, p, lo, hi, l1):
    """The primal value at the best intercept and the dual value, from f = K b with all of K."""
    r = p - f - best_intercept(p - f, lo, hi, l1)
    primal = 0.5 * b @ f + hi @ np.maximum(0, r - l1) - lo @ np.maximum(0, -r - l1)
    return primal, p @ b - l1 @ np.abs(b) - 0.5 * b @ f


@pytest.mark.parametrize("kernel", [RBF(0.1), Laplacian(0.1), Polynomial(degree=2), Linear()], ids=str)
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_sums_of_rows_that_are_not_stored(kernel, real):
    X, _ = data(1700)
    rng = np.random.default_rng(1)
    columns, wanted = np.sort(rng.permutation(1700)[:1100]), rng.permutation(1700)[:600]
    weights = rng.normal(size=1100)
    expected = kernel(X[wanted], X[columns]) @ weights
    found = [unstored_sums(entries(kernel, X, real), columns, weights, wanted)]
    with threadpool_limits(2, user_api="blas"), own_threads():
        found.append(unstored_sums(entries(kernel, X, real), columns, weights, wanted))
    exactly = 2e-5 if real == np.float32 else 1e-12
    np.testing.assert_allclose(found[0], expected, atol=exactly * np.abs(expected).max())
    np.testing.assert_array_equal(found[0], found[1])
    assert not unstored_sums(entries(kernel, X, real), columns[:0], weights[:0], wanted).any()


def test_float32_entries_are_summed_in_float64():
    X = np.ones((30_000, 2), dtype=np.float32)
    weights = np.full(30_000, 1 + 2**-20)
    total = unstored_sums(entries(RBF(0.1), X, np.float32), np.arange(30_000), weights, np.arange(1))
    assert total[0] == pytest.approx(30_000 * (1 + 2**-20), rel=1e-14)  # float32 sums of 512 are exact to 2^-15 only


@pytest.mark.parametrize("options", [{}, {"C": 0.05}, {"C": 100.0, "n": 1200}, {"kernel": Linear()},
                                     {"kernel": Laplacian(0.2)}, {"regression": True, "n": 800},
                                     {"regression": True, "C": 0.1}], ids=str)
def test_every_step_is_feasible_and_says_its_objective_and_the_last_one_is_optimal(options):
    qp, X = program(**options)
    K = qp.rows.cache.kernel(X, X)
    most = np.abs(K).max()
    seen, known, counted, largest = [], 0, 0, 0.0
    for step in chunked_smo(qp, tol=1e-3):
        b = step.state.b
        f = K @ b
        assert (b >= qp.lo).all()
        assert (b <= qp.hi).all()
        assert abs(b.sum()) <= 1e-9 * np.abs(b).sum()
        largest = max(largest, np.abs(b).sum())
        rounding = 1e-6 + 1e-7 * largest**2  # of float32 entries
        assert step.objective == pytest.approx(-proven(b, f, qp.p, qp.lo, qp.hi, qp.l1)[1], rel=1e-5, abs=rounding)
        if step.state.stored is not None:
            known += 1
            np.testing.assert_allclose(step.state.stored, f, atol=2e-5 * most * np.abs(b).sum() ** 0.5)
            assert step.violation == pytest.approx(violation(f - qp.p, b, qp.lo, qp.hi, qp.l1), rel=0.05, abs=1e-2)
            product = qp.rows.single_times(b, np.arange(len(b)), step.state.summed)
            if product is not None and step.state.summed is not None:
                _, mass, moved = step.state.summed
                finite = np.isfinite(mass)
                counted += finite.sum()
                assert (mass[finite] >= (1 - 1e-4) * (K @ np.abs(b))[finite]).all()
                assert not finite.any() or (moved >= (1 - 1e-12) * np.abs(b)).all()
                assert (np.abs(product.f - f) <= product.errors).all()
        else:
            assert step.violation > 1e-3
        seen.append(step)
        if step.converged(1e-3):
            break
    assert known
    assert counted or options not in ({}, {"C": 100.0, "n": 1200})  # rows that were never in question keep the sums
    best = run(block_smo(qp, tol=1e-4), tol=1e-4).objective
    primal, dual = proven(seen[-1].state.b, f, qp.p, qp.lo, qp.hi, qp.l1)
    assert primal - dual <= 1e-3 * abs(primal)
    assert -dual == pytest.approx(best, rel=1e-4)
    assert "violation" in seen[-1].shown


@pytest.mark.parametrize("options", [{"n": 800}, {"n": 800, "kernel": Linear()}], ids=str)
def test_a_violation_below_rounding_is_not_chased_for_ever(options):
    qp, X = program(**options)
    outcome = run(chunked_smo(qp, tol=1e-14), tol=1e-14, max_iter=3_000_000, keep="last")
    assert outcome.status == "exhausted"
    primal, dual = proven(outcome.state.b, qp.rows.cache.kernel(X, X) @ outcome.state.b, qp.p, qp.lo, qp.hi, qp.l1)
    assert primal - dual <= 1e-4 * primal


def test_a_start_is_gone_on_from():
    qp, _ = program()
    solved = run(block_smo(qp, tol=0.05), tol=0.05)
    for start in (solved.state, Point(solved.state.b, f=qp.rows.times(solved.state.b))):
        first = next(chunked_smo(qp, tol=1e-3, start=start))
        np.testing.assert_array_equal(first.state.b, solved.state.b)
        assert first.objective == pytest.approx(solved.objective, rel=1e-6)
        after = run(chunked_smo(qp, tol=1e-3, start=start), tol=1e-3, keep="last")
        assert after.converged
        assert after.objective < solved.objective


MACHINES = {
    "hinge": (SVC(C=3.0, gamma=0.2), {}),
    "class weights": (SVC(C=3.0, gamma=0.2, class_weight={1: 3.0}), {}),
    "row weights": (SVC(C=3.0, gamma=0.2), {"sample_weight": np.random.default_rng(2).uniform(0.2, 2, ROWS)}),
    "few of a class": (SVC(C=3.0, gamma=0.2), {"few": True}),
    "SVR": (SVR(C=3.0, gamma=0.2, epsilon=0.2), {}),
}


@pytest.mark.parametrize(("case", "gap"), [*((case, None) for case in MACHINES), ("hinge", 0.02), ("SVR", 0.02)])
def test_machines_are_certified(by_chunks, case, gap):
    model, options = MACHINES[case]
    X, y = data()
    options = dict(options)
    if options.pop("few", False):
        y = np.where(X[:, 0] > 2.2, 1.0, -1.0)
    model = model.set_params(cache_size=MEMORY, gap=gap).fit(X, y, **options)
    assert by_chunks
    assert model.converged_
    bound = 3.0 * options.get("sample_weight", np.ones(ROWS)) * np.where((case == "class weights") & (y > 0), 3.0, 1.0)
    regression = case == "SVR"
    b = np.zeros(ROWS)
    b[model.support_] = model.dual_coef_[0]
    lo, hi = (-bound, bound) if regression else (np.where(y > 0, 0, -bound), np.where(y > 0, bound, 0.0))
    primal, dual = proven(b, everything() @ b, y, lo, hi, np.full(ROWS, 0.2 if regression else 0.0))
    assert primal - dual <= (gap or 1e-3) * primal
    assert model.primal_objective_ >= primal * (1 - 1e-9)
    assert model.dual_objective_ <= dual * (1 + 1e-9)
    assert model.dual_gap_ <= (gap or 1e-3) * model.primal_objective_


def test_bits_do_not_depend_on_the_threads(by_chunks):
    X, y = data()
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(SVC(C=3.0, gamma=0.2, cache_size=MEMORY).fit(X, y))
    assert len(by_chunks) == 2
    np.testing.assert_array_equal(found[0].dual_coef_, found[1].dual_coef_)
    assert found[0].dual_gap_ == found[1].dual_gap_


@pytest.mark.parametrize("limit", [{"max_iter": 1}, {"max_iter": 3000}, {"max_iter": 8000}, {"max_time": 1e-3}])
def test_a_fit_cut_short_is_a_model_with_an_honest_gap(by_chunks, limit):
    X, y = data()
    with pytest.warns(NotConvergedWarning):
        model = SVC(C=3.0, gamma=0.2, cache_size=MEMORY, **limit).fit(X, y)
    assert not model.converged_
    b = np.zeros(ROWS)
    b[model.support_] = model.dual_coef_[0]
    lo, hi = np.where(y > 0, 0, -3.0), np.where(y > 0, 3.0, 0.0)
    primal, dual = proven(b, everything() @ b, y, lo, hi, np.zeros(ROWS))
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-4, abs=1e-9)
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-4)


def test_ctrl_c_leaves_the_model_of_the_last_step(by_chunks):
    X, y = data()
    steps = []

    def interrupt(*arguments):
        steps.append(arguments)
        if len(steps) == 12:
            raise KeyboardInterrupt
        return solve_chunk(*arguments)

    solve_chunk = chunks._solve_chunk
    with patch.object(chunks, "_solve_chunk", interrupt), pytest.warns(InterruptedWarning):
        model = SVC(C=3.0, gamma=0.2, cache_size=MEMORY).fit(X, y)
    assert len(steps) == 12
    assert not model.converged_
    b = np.zeros(ROWS)
    b[model.support_] = model.dual_coef_[0]
    primal, dual = proven(b, everything() @ b, y, np.minimum(0, 3 * y), np.maximum(0, 3 * y), 0.0 * y)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-4)
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-4)


def test_a_fit_that_is_cut_short_says_a_gap_that_holds(by_chunks):
    X, y = data()
    for calls in (60, 2000, 8000):
        with pytest.warns(NotConvergedWarning):
            model = SVC(C=3.0, gamma=0.2, cache_size=MEMORY, max_iter=calls).fit(X, y)
        b = np.zeros(ROWS)
        b[model.support_] = model.dual_coef_[0]
        primal, dual = proven(b, everything() @ b, y, np.where(y > 0, 0, -3.0), np.where(y > 0, 3.0, 0), np.zeros(ROWS))
        assert primal <= model.primal_objective_ * (1 + 1e-12)
        assert dual >= model.dual_objective_ - 1e-12 * primal
        assert model.dual_gap_ <= 1.25 * (primal - dual) + 1e-9 * primal


def test_a_known_product_of_a_start_is_not_computed_again():
    qp, _ = program()
    point = run(block_smo(qp, tol=0.05), tol=0.05).state
    asked = []
    times = KernelRows.times
    with patch.object(KernelRows, "times", lambda *arguments: asked.append(arguments) or times(*arguments)):
        first = next(chunked_smo(qp, tol=1e-3, start=Point(point.b, stored=everything() @ point.b)))
        assert not asked
        again = next(chunked_smo(qp, tol=1e-3, start=Point(point.b)))
    assert len(asked) == 1
    assert first.violation == pytest.approx(again.violation, abs=1e-4)


@pytest.mark.parametrize("regression", [False, True])
def test_levels_that_hold_no_row_of_interest_are_gone_through(by_chunks, regression):
    X, _ = data()
    rare = np.zeros(ROWS)
    rare[[3, 4, 1001]] = 1.0  # in none of the parts but the whole
    assert not np.isin([3, 4, 1001], part_of(ROWS, level_sizes(ROWS, 256)[0])).any()
    model = (SVR if regression else SVC)(C=3.0, gamma=0.2, cache_size=MEMORY).fit(X, rare)
    assert by_chunks
    assert model.converged_
    y = rare if regression else 2 * rare - 1
    b = np.zeros(ROWS)
    b[model.support_] = model.dual_coef_[0]
    lo, hi = (np.full(ROWS, -3.0), np.full(ROWS, 3.0)) if regression else (np.minimum(3 * y, 0), np.maximum(3 * y, 0))
    primal, dual = proven(b, everything() @ b, y, lo, hi, np.full(ROWS, 0.1 if regression else 0.0))
    assert primal - dual <= 2e-3 * primal
    assert model.primal_objective_ == pytest.approx(primal, rel=2e-3)


def test_small_sparse_wide_and_slow_rows_are_not_solved_by_chunks(monkeypatch):
    X, y = data()
    monkeypatch.setattr(chunks, "LARGE", ROWS + 1)
    assert not suits(program()[0])
    monkeypatch.setattr(chunks, "LARGE", ROWS)
    assert suits(program()[0])
    assert not suits(QP(KernelRows(RBF(0.2), X, MEMORY), y, y, y, y, y))  # float64
    assert not suits(QP(KernelRows(RBF(0.2), np.tile(X, 30), MEMORY, np.float32), y, y, y, y, y))
    assert not suits(QP(KernelRows(Custom(lambda A, B: A @ B.T), X, MEMORY, np.float32), y, y, y, y, y))
    assert not suits(QP(KernelRows(RBF(0.2), csr_matrix(np.where(X > 1.5, X, 0)), MEMORY, np.float32), y, y, y, y, y))


def test_levels_grow_from_a_chunk_to_all_rows_and_parts_are_spread_evenly():
    for n, chunk in ((100, 200), (1000, 200), (10**6, 11_585)):
        sizes = level_sizes(n, chunk)
        assert sizes[-1] == n
        assert sizes[0] <= 1.5 * chunk
        assert sizes == sorted(set(sizes))
    part = part_of(10_000, 700)
    assert len(part) >= 699
    assert (np.diff(part) > 0).all()
    assert np.abs(np.histogram(part, 70, (0, 10_000))[0] - 10).max() <= 2
    np.testing.assert_array_equal(part_of(50, 80), np.arange(50))


def test_a_level_has_bounds_of_the_same_total():
    qp, _ = program()
    level = level_of(qp, part_of(ROWS, 500))
    assert (level.hi - level.lo).sum() == pytest.approx((qp.hi - qp.lo).sum())
    assert unit(level) == 1
    qp, _ = program(regression=True)
    assert unit(qp) == pytest.approx(sum(abs(p - median(qp.p)) for p in qp.p) / ROWS)


def test_those_of_most_worth_are_filled_first():
    room = np.array([1.0, 2, 0, 1, 3])
    np.testing.assert_allclose(filled(room, np.array([3.0, 5, 9, 1, 2]), 4.5), [1, 2, 0, 0, 1.5])
    np.testing.assert_allclose(filled(room, np.zeros(5), 100.0), room)


@pytest.mark.parametrize("regression", [False, True])
def test_a_start_is_feasible_has_the_mass_asked_for_and_leaves_out_what_is_clear(regression):
    qp, X = program(regression=regression)
    solved = run(block_smo(qp, tol=0.05), tol=0.05).state.b
    f = RBF(0.2)(X, X) @ solved
    mass = 0.5 * np.abs(solved).sum()
    b, some = started(qp, f, mass)
    assert (b >= qp.lo).all()
    assert (b <= qp.hi).all()
    assert np.abs(b).sum() <= 2 * mass * (1 + 1e-9)
    assert np.abs(started(qp, f, 0.9 * mass)[0]).sum() == pytest.approx(1.8 * mass)  # room for that
    assert abs(b.sum()) < 1e-9 * mass
    assert np.isin(np.flatnonzero(b), some).all()
    assert np.isin(np.flatnonzero(solved), some).all()
    assert (np.delete(np.abs(b - solved), some) == 0).all()


def test_rows_in_question_are_those_that_violate_and_those_near_it():
    qp, X = program()
    b = run(block_smo(qp, tol=1e-3), tol=1e-3).state.b
    f = RBF(0.2)(X, X) @ b
    r = qp.p * (qp.p - f - best_intercept(qp.p - f, qp.lo, qp.hi, qp.l1))  # 1 - y (f + b0)
    some = in_question(qp, b, f, 0.0, 1.0)
    free = (b > qp.lo) & (b < qp.hi)
    np.testing.assert_array_equal(some, np.flatnonzero(free | (np.abs(r) < 0.05)))
    assert len(in_question(qp, np.where(free, 0, b), f, 0.0, 1.0)) == ROWS  # where none is free, nothing is clear
