"""Work shared among threads: the same answers, no more threads than the BLAS had, and the BLAS left as it was."""

import threading

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_info, threadpool_limits

from buttress import (
    SVC,
    AdversarialSVC,
    CertifiedSVC,
    KernelClassifier,
    KernelRegressor,
    MultiKernelSVDD,
    RobustKernelRegressor,
    SeverClassifier,
    SeverRegressor,
    StochasticAdvSVM,
)
from buttress import _threads as threads
from buttress._threads import for_each, own_threads, share, threads_for, total
from buttress.gram import entries as panels
from buttress.gram import products, rows
from buttress.gram.rows import KernelRows
from buttress.kernels import RBF, Combination, Linear


def blas_threads():
    return max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_every_part_is_done_once_by_at_most_as_many_threads_as_the_blas_had(limit):
    done, by, together = [], set(), threading.Barrier(limit)

    def work(parts):
        together.wait(10)  # passes only if ``limit`` threads come
        for part in parts:
            done.append(part)
            by.add(threading.get_ident())

    with threadpool_limits(limit, user_api="blas"):
        with own_threads():
            assert blas_threads() == 1
            share(work, range(100), 1e9)
        assert blas_threads() == limit
    assert sorted(done) == list(range(100))
    assert len(by) <= limit


def test_little_work_stays_in_its_thread_and_errors_come_out():
    def refuse(parts):
        raise ArithmeticError(threading.current_thread().name)

    with threadpool_limits(2, user_api="blas"):
        for cost in (0.0, 1e9):
            with pytest.raises(ArithmeticError), own_threads():
                share(refuse, range(4), cost)
            assert blas_threads() == 2
        seen = []
        with own_threads():
            share(lambda parts: seen.append(threading.get_ident()), range(4), 10.0)
        assert seen == [threading.get_ident()]


def test_of_blocks_that_overlap_the_first_sets_the_blas_and_shares():
    seen = []

    def other():
        with own_threads():
            share(lambda parts: seen.append(threading.get_ident()), range(4), 1e9)
            seen.append(threading.get_ident())

    with threadpool_limits(2, user_api="blas"):
        with own_threads():
            second = threading.Thread(target=other)
            second.start()
            second.join()
            assert blas_threads() == 1
        assert blas_threads() == 2
    assert len(seen) == 2
    assert seen[0] == seen[1]


@pytest.mark.parametrize(("cost", "left"), [(1e8, 1), (1e10, 2)])
def test_small_products_get_a_blas_of_one_thread(cost, left):
    with threadpool_limits(2, user_api="blas"):
        with threads_for(cost):
            assert blas_threads() == left
        assert blas_threads() == 2


@pytest.mark.parametrize("kernel", [RBF(0.05), Linear(), Combination([RBF(0.1), Linear()], [2.0, 1.0])])
@pytest.mark.parametrize("d", [5, 200])
def test_rows_from_two_threads_are_those_from_one(kernel, d, monkeypatch):
    X = np.random.default_rng(0).normal(size=(1500, d))
    b, index = np.zeros(1500), np.arange(0, 1500, 2)
    b[::3] = np.random.default_rng(1).normal(size=500)
    for module, name, value in ((panels, "PANEL", 256), (rows, "COLUMNS_A_THREAD", 200),
                                (products, "TILE", 128), (threads, "WORTH", 0)):
        monkeypatch.setattr(module, name, value)

    def everything():
        K = KernelRows(kernel, X, 100.0, real=np.float32)
        total = np.zeros(1500)
        K.add(total, index[:300], b[index[:300]])
        return K.fetch(index[:300]), total, K.block(index), K.proven_times(b).f

    with threadpool_limits(1, user_api="blas"):
        alone = everything()
    with threadpool_limits(2, user_api="blas"), own_threads():
        shared = everything()
    np.testing.assert_array_equal(shared[3], alone[3])
    for one, two in zip(alone, shared, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-6, atol=1e-6 * np.abs(one).max())
    np.testing.assert_allclose(shared[3], kernel(X, X) @ b, rtol=1e-9, atol=1e-9 * np.abs(shared[3]).max())


def test_sums_of_parts_do_not_depend_on_threads():
    A = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)
    parts, seen = [slice(start, start + 10) for start in range(0, 1000, 10)], []
    sums = []
    for limit in (1, 2):
        with threadpool_limits(limit, user_api="blas"), own_threads():
            sums.append(total(lambda part: A[part].T @ A[part], parts, (3, 3)))
            for_each(seen.append, parts)
    np.testing.assert_array_equal(*sums)
    np.testing.assert_allclose(sums[0], A.astype(float).T @ A, rtol=1e-5, atol=1e-4)
    assert sorted(part.start for part in seen) == sorted(2 * list(range(0, 1000, 10)))
    np.testing.assert_array_equal(total(len, [], (2,)), np.zeros(2))


def test_a_robust_fit_on_landmarks_is_the_same_to_the_last_bit_from_any_number_of_threads():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 3))
    y = np.where(rng.random(9000) < 0.2, 9.0, np.sin(X[:, 0]) + 0.1 * rng.normal(size=9000))
    found = []
    for limit in (1, 2):
        with threadpool_limits(limit, user_api="blas"):
            found.append(RobustKernelRegressor(n_landmarks=500, random_state=0).fit(X, y).predict(X[:100]))
    np.testing.assert_array_equal(*found)


def test_kernels_of_users_are_called_from_one_thread_only():
    rng, callers = np.random.default_rng(0), set()

    def kernel(A, B):
        callers.add(threading.get_ident())
        return np.exp(0.3 * A @ B.T)

    X = rng.normal(size=(9000, 2))
    with threadpool_limits(2, user_api="blas"):
        RobustKernelRegressor(kernel=kernel, n_landmarks=500, random_state=0).fit(X, X[:, 0])
    assert callers == {threading.get_ident()}


def test_nothing_is_written_after_an_interrupt(monkeypatch):
    monkeypatch.setattr(threads, "WORTH", 0)
    done, caller, begun = [], threading.get_ident(), threading.Event()

    def work(queue):
        for start in queue:
            if threading.get_ident() == caller:
                begun.set()
                raise KeyboardInterrupt
            begun.wait(10)  # or the other thread may have taken everything before this one has begun
            done.append(start)

    with threadpool_limits(2, user_api="blas"), own_threads():
        with pytest.raises(KeyboardInterrupt):
            share(work, range(100_000), 1.0)
        left = len(done)
        threading.Event().wait(0.05)
        assert len(done) == left < 100_000


@pytest.mark.parametrize("options", [{"C": 10.0}, {"C": 1000.0, "gamma": 0.2}], ids=str)
def test_a_fit_with_two_threads_is_the_fit_with_one_to_the_last_bit(options):
    """With the second options more variables are free than a block holds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 10))
    y = (X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=2500) > 0).astype(int)
    with threadpool_limits(2, user_api="blas"):
        two = SVC(**options).fit(X, y)
    with threadpool_limits(1, user_api="blas"):
        one = SVC(**options).fit(X, y)
    assert two.converged_
    np.testing.assert_array_equal(two.dual_coef_, one.dual_coef_)
    np.testing.assert_array_equal(two.intercept_, one.intercept_)
    assert two.dual_gap_ == one.dual_gap_


@pytest.mark.parametrize("model", [
    KernelRegressor(n_landmarks=100, random_state=0), KernelRegressor(acceleration=None, step="preconditioned"),
    KernelClassifier(n_landmarks=100, random_state=0), SeverRegressor(random_state=0), SeverClassifier(random_state=0),
    CertifiedSVC(eps=0.1, max_iter=50, random_state=0),
    MultiKernelSVDD(["linear", "rbf", "laplacian", "poly"], nu=0.5)], ids=str)
def test_fits_of_few_rows_are_the_same_to_the_last_bit_from_any_number_of_threads(model):
    X, y = load_breast_cancer(return_X_y=True)
    found = []
    for limit in (1, 2):
        with threadpool_limits(limit, user_api="blas"):
            fitted = model.fit(scale(X)[:400], y[:400])
        values = vars(getattr(fitted, "estimator_", fitted))
        found.append({name: value for name, value in values.items() if isinstance(value, np.ndarray)})
    for name, value in found[0].items():
        np.testing.assert_array_equal(found[1][name], value, err_msg=name)


@pytest.mark.parametrize("model", [AdversarialSVC(random_state=0), StochasticAdvSVM(random_state=0)], ids=str)
def test_training_under_attack_is_the_same_from_any_number_of_threads(model):
    """Many steps made differences of 3e-4 and 8e-10 of those in the last digit."""
    X, y = load_breast_cancer(return_X_y=True)
    found = []
    for limit in (1, 2):
        with threadpool_limits(limit, user_api="blas"):
            found.append(model.fit(scale(X), y).decision_function(scale(X)))
    np.testing.assert_array_equal(*found)
