"""Each allowance of the proofs about training data against its law, in exact numbers that leave nothing else.

A test here fails if the allowance that it is about is left out, doubled, or a tenth.
"""

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.svm import SVC as LibSVC

from buttress import LinearSVC
from buttress.certificates import training_moves
from buttress.certificates.training import hinge
from buttress.certificates.training.hinge import (
    HingePoint,
    HingeProblem,
    _intercepts,
    _interval,
    _largest_move,
    fewest_wrong,
    rounding,
)
from buttress.certificates.training.smoother import (
    ColumnSmoother,
    GramSmoother,
    Solver,
    _least_eigenvalue,
    _less_mean,
    _with_mean,
)

EPS = 2.0**-52


def machine(K, y, C=1.0, KT=None, own=(1.0,), intercept=False):
    K = np.array(K, float)
    return HingeProblem(K, np.array(K[:1] if KT is None else KT, float), np.array(own, float), np.array(y, float), C,
                        intercept)


@pytest.mark.parametrize(("K", "y", "beta", "b", "C", "gap", "size", "away"), [
    ([[1]], [1], [1], 0, 10, 0, 0.5 + 10 * 2, None),  # on its margin
    ([[1]], [1], [0.5], 0, 0.5, 0, 0.125 + 0.5 * 1.5, None),  # within it
    ([[1]], [1], [0.5], 0, 2, 0.125 + 2 * 0.5 - (0.5 - 0.125), 0.125 + 2 * 1.5, None),
    ([[1]], [1], [7], 0, 0.5, 0, 0.125 + 0.5 * 1.5, None),  # cut to C
    ([[1]], [-1], [-7], 0, 0.5, 0, 0.125 + 0.5 * 1.5, None),
    ([[1]], [1], [-7], 0, 2, 2, 2, None),  # cut to 0
    ([[4, 4], [4, 4]], [1, -1], [1, -1], 0, 2, 4 - 2, 0.5 * 2 * 8 + 2 * 2 * 9, None),  # values that cancel
    ([[2.0**60] * 2] * 2, [1, -1], [1, -1], 0, 1, 2 - 2, 2.0**61 + 2 + 2.0**62, 2 * 20 * EPS),
    ([[1.5, 0], [0, 0.5]], [1, -1], [1, -1], -0.5, 1, 0, 0.5 * 2 + 3 + 2, 2 * 20 * EPS),
    ([[1.5, 0], [0, 0.5]], [1, -1], [1, -0.5], -0.5, 1, 0.8125 + 0.25 - (1.5 - 0.8125),
     0.5 * 1.625 + 3 + 1.75, 0.5 + 1.5 * 20 * EPS),
])
def test_a_gap_is_its_objectives_and_what_rounding_and_a_sum_that_is_not_0_add(K, y, beta, b, C, gap, size, away):
    problem = machine(K, y, C, intercept=away is not None)
    point = problem.solved(np.array(beta, float), problem.y, float(b))
    doubt = 2 * (len(y) + 8) * EPS * size
    longest = np.sqrt(2 * (point.primal + doubt) * np.max(K))  # of w*, times that of a row
    lost = 0 if away is None else away * (1 + longest)
    assert point.doubt == pytest.approx(doubt, rel=1e-12, abs=0)
    assert point.gap == pytest.approx(gap + lost + doubt, rel=1e-12, abs=0)


def test_no_interval_of_values_is_narrower_than_its_rounding():
    problem = machine(np.eye(2), [1, -1], KT=[[1, -1]], own=[4])
    share = 2 * (2 + 8) * EPS
    assert rounding(2) == share
    for gap, reach in ((0.0, 0.0), (2.0, 4.0)):  # radius 2, times sqrt(4)
        low, high = _interval(problem, HingePoint(np.ones(2), np.ones(2), 0.0, 1.0, gap, 0.0), problem.y)
        assert -low[0] - reach == pytest.approx(share * (2 + reach), abs=EPS * reach)
        assert high[0] == -low[0]


def ends(y, f, slack, C, most):
    """Where C sum (1 - y (f + b) - slack)_+ is ``most``, first and last, in fractions."""
    def total(b):
        return C * sum(max(Fraction(0), 1 - s * (v + b) - w) for s, v, w in zip(y, f, slack, strict=True))

    kinks = sorted(s * (1 - w) - v for s, v, w in zip(y, f, slack, strict=True))
    far = [kinks[0] - 10**9, *kinks, kinks[-1] + 10**9]
    roots = [a + (most - total(a)) * (b - a) / (total(b) - total(a)) for a, b in pairwise(far)
             if total(a) != total(b) and (total(a) - most) * (total(b) - most) <= 0]
    return min(roots), max(roots)


@pytest.mark.parametrize(("y", "f", "beta", "root", "C", "radius", "primal", "doubt"), [
    ([1, -1], [1, -1], [0, 0], 1, 1, 0, 3, 0),
    ([1, -1], [0.5, -1], [0, 0], 1, 2, 0.25, 3, 2.0**-5),
    ([1, -1, 1], [1, -1, 4], [2, 0, 0.5], 1, 2, 0.5, 5, 0),  # length 2 - 0.5
    ([1, -1, -1, -1], [3, 0, -2, -5], [0, 0, 0, 0], 1, 1, 0, 4, 2.0**-5),
    ([1, 1, 1, -1], [3, 0, -2, -5], [0, 0, 0, 0], 1, 0.5, 0.125, 3, 2.0**-6),
    ([1, -1], [0, 0], [0, 0], 2.0**20, 1, 2.0**20, 1, 0),  # slack of 2^40
    ([1, -1, 1], [2.0**30, -(2.0**30), 0], [0, 0, 0], 1, 1, 0, 1, 0),
    ([1, -1], [9, -9], [1, -1], 1, 4, 16, 0.25, 0),  # radius beyond w
])
def test_an_intercept_lies_where_exact_fractions_say(y, f, beta, root, C, radius, primal, doubt):
    n = len(y)
    problem = machine(np.eye(n) * root**2, y, C, intercept=True)
    f, beta = np.array(f, float), np.array(beta, float)
    found = _intercepts(problem, HingePoint(beta, f, 0.0, primal, 0.0, doubt), problem.y, radius)
    slack, share = [Fraction(radius * root)] * n, 2 * (n + 8) * Fraction(EPS)
    kinks = [Fraction(s) * (1 - slack[0]) - Fraction(v) for s, v in zip(y, f.tolist(), strict=True)]
    beyond = Fraction(primal) / Fraction(C) + 1
    largest = max(max(kinks) + beyond, beyond - min(kinks))
    length = max(Fraction(np.sqrt(beta @ f)) - Fraction(radius), Fraction(0))
    most = Fraction(primal) + 2 * Fraction(doubt) + share * Fraction(C) * n * (slack[0] + largest) - length**2 / 2
    low, high = ends([Fraction(s) for s in y], [Fraction(v) for v in f.tolist()], slack, Fraction(C), most)
    for end, law in ((found[0], low - share * abs(low)), (found[1], high + share * abs(high))):
        assert abs(Fraction(end) - law) <= 3 * Fraction(np.spacing(abs(end)))


def test_an_intercept_of_one_class_has_no_end():
    problem = machine(np.eye(2), [1, 1], intercept=True)
    low, high = _intercepts(problem, HingePoint(np.zeros(2), np.zeros(2), 1.0, 0.0, 0.0, 0.0), problem.y, 0.0)
    assert high == np.inf
    assert low == pytest.approx(1.0)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_what_some_wrong_labels_move_is_the_worst_of_all_sets(k):
    """Of terms that are summed apart from each other, each over its own worst set."""
    y, a, C = np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.0, 2.0, 0.5, 4.0]), 4.0
    f, K = np.array([0.5, -4.0, -0.25, 2.0]), np.diag([4.0, 1.0, 16.0, 1.0])
    KT, m, suspects = np.array([[1.0, -2.0, 8.0, 3.0], [0.0, 0.0, 0.0, 5.0]]), y * f, [0, 1, 2]
    problem = machine(K, y, C, KT, [4.0, 0.25])
    found = _largest_move(problem, HingePoint(y * a, f, 0.0, 0.0, 0.5, 0.25), np.array(suspects), k)
    sets = [list(s) for size in range(k + 1) for s in combinations(suspects, size)]
    g = C * (np.maximum(0, 1 + m) - np.maximum(0, 1 - m)) + a * (1 - m) + k / 4 * a**2 * np.diagonal(K)
    square = 0.5 + 0.25 + max(g[s].sum() for s in sets)
    for row in range(2):
        moved = max((a * np.abs(KT[row]))[s].sum() for s in sets) / 2 + np.sqrt([4.0, 0.25][row] * square)
        law = moved + 2 * (4 + 8) * EPS * (moved + a @ np.abs(KT[row]))
        assert abs(found[row] - law) <= 2 * np.spacing(law)


def test_what_is_trusted_still_rounds():
    problem = machine(np.zeros((2, 2)), [1, -1], KT=[[0, 1]], own=[0])
    found = _largest_move(problem, HingePoint(np.array([1.0, -1.0]), np.zeros(2), 0.0, 0.0, 0.0, 0.0), np.array([0]), 1)
    assert found == 2 * (2 + 8) * EPS


def test_a_value_of_0_is_not_proven_and_no_label_is_named_for_it():
    X = np.array([[1.0], [2.0], [3.0], [-1.0], [-2.0], [-3.0]])
    y = np.sign(X[:, 0])
    model = LinearSVC(C=0.5, fit_intercept=False).fit(X, y)
    needed, rows, exact = fewest_wrong(model, X, y, np.array([[0.0], [3.0]]), np.arange(6), 2)
    assert needed[0] == 1
    assert rows.tolist() == [-1, -1]
    assert not exact.any()
    assert needed[1] > 1


def test_the_first_label_alone_is_named():
    X, y = np.array([[8.0], [0.01], [-0.01]]), np.array([1.0, 1.0, -1.0])
    model = LinearSVC(C=1.0, fit_intercept=False).fit(X, y)
    needed, rows, exact = fewest_wrong(model, X, y, np.array([[1.0], [-1.0]]), np.arange(3), 0)
    assert needed.tolist() == [1, 1]
    assert rows.tolist() == [0, 0]
    assert exact.all()


def test_labels_are_proven_not_to_matter_as_long_as_each_fewer_is(monkeypatch):
    moves = np.array([[1] * 5 + [9 - 3 * k] for k in range(5)]) * np.arange(5)[:, None]
    monkeypatch.setattr(hinge, "_largest_move", lambda problem, point, suspects, k: moves[k])
    margin = np.array([0.5, 1.0, 1.5, 2.5, 9.0, 5.0])  # the last stands 2 and 3, not 1
    assert hinge._without_intercept(None, None, margin, None, 3).tolist() == [1, 1, 2, 3, 4, 1]
    assert hinge._without_intercept(None, None, margin, None, 0).tolist() == [1] * 6


def test_fewer_rows_than_the_machine_was_fitted_to_are_refused():
    X, y = np.array([[1.0], [-1.0], [2.0]]), np.array([1.0, -1.0, -1.0])
    model = LibSVC(kernel="linear").fit(X, y)
    assert model.support_.tolist() == [1, 2, 0]
    with pytest.raises(ValueError, match="X_train has 2 rows"):
        fewest_wrong(model, X[:2], y[:2], X, np.arange(2), 1)


def test_a_value_of_0_is_of_the_first_class():
    """Two rows across from the others have labels that cancel; one of them wrong, the second class has their side."""
    X, y = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 0.5], [0.0, 0.5]]), np.array([1.0, -1.0, 1.0, -1.0])
    model = LibSVC(kernel="linear", C=1.0, tol=1e-8).fit(X, y)
    needed, rows, exact = fewest_wrong(model, X, y, np.array([[0.0, 4.0]]), np.arange(4), 1)
    assert model.decision_function([[0.0, 4.0]]) == 0
    assert (needed, rows, exact) == (1, 3, True)


def test_with_an_intercept_two_labels_are_the_most_that_is_asked_of():
    X = np.array([[-4.0], [-3.5], [-3.0], [-2.5], [2.5], [3.0], [3.5], [4.0]])
    model = LibSVC(kernel="linear", C=0.1, tol=1e-8).fit(X, np.sign(X[:, 0]))
    needed, rows, _ = fewest_wrong(model, X, np.sign(X[:, 0]), np.array([[5.0], [-5.0], [0.02]]), np.arange(8), 5)
    assert needed.tolist() == [2, 2, 1]
    assert rows[2] >= 0


@pytest.mark.parametrize("values", [[1.0], [2.0, 3.0], [0.5, 4.0, 64.0]])
def test_the_least_eigenvalue_is_that_of_its_law(values):
    A, rounded = np.diag(values), (len(values) + 2) * EPS * sum(values)
    assert _least_eigenvalue(A, 0.0) == pytest.approx(values[0] - 2 * rounded, abs=EPS * values[0])
    assert _least_eigenvalue(A, values[0]) == pytest.approx(values[0] / 2 - rounded, abs=EPS * values[0])
    assert _least_eigenvalue(A, 2 * rounded) > 0.4 * values[0]  # half of it proves nothing
    assert _least_eigenvalue(A, 4 * rounded) == pytest.approx(rounded, rel=1e-9, abs=0)
    assert _least_eigenvalue(-A, 0.0) < -values[-1]
    with pytest.raises(ValueError, match="rounding decides"):
        Solver.of(A, 0.0, away=_least_eigenvalue(A, 0.0))


@pytest.mark.parametrize(("away", "lost"), [(0.0, [0.0, 0.0]), (2.0**-40, [0.0, 0.0]), (0.0, [2.0**-40, 0.25])])
def test_the_error_of_a_solution_is_that_of_its_law(away, lost):
    A, K = np.diag([4.0, 16.0]), np.array([[4.0, 16.0], [16.0, 0.0]])  # solved exactly
    solver = Solver.of(A, 4.0, away)
    assert solver.least == 2 - 4 * EPS * 20 - away
    H, error = solver(K, np.array(lost))
    np.testing.assert_array_equal(H, [[1.0, 4.0], [1.0, 0.0]])
    size = np.linalg.norm(A) * np.linalg.norm(H, axis=0) + np.linalg.norm(K, axis=0)
    law = 6 * EPS * size + away * np.linalg.norm(H, axis=0) + lost
    np.testing.assert_allclose(error, law / solver.least, rtol=1e-12)
    solver = Solver(A, (np.eye(2), True), 0.0, 1.0)  # a factor that does not fit
    np.testing.assert_allclose(solver(K)[1], np.linalg.norm(K - A @ K, axis=0), rtol=1e-12)


def test_a_mean_stretches_errors():
    mean, V, error = np.array([0.25, 0.75]), np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([1.0, 0.0])
    values, wider = _with_mean(V, error, mean)
    np.testing.assert_array_equal(values, mean + V - np.array([[7.0], [0.0]]) * mean)
    stretch = 1 + np.sqrt(2 * (0.0625 + 0.5625))
    np.testing.assert_allclose(wider, [stretch * (1 + 4 * EPS * 5) + 4 * EPS, 4 * EPS], rtol=1e-14)
    wider = _with_mean(V, 0 * error, mean)[1]
    np.testing.assert_allclose(wider, 4 * EPS * (1 + stretch * np.array([5, 0])), rtol=1e-14)
    less, wider = _less_mean(V, 0 * error, mean)
    np.testing.assert_array_equal(less, values - mean)
    np.testing.assert_allclose(wider, 4 * EPS * stretch * np.array([5, 0]), rtol=1e-14)
    assert _with_mean(V, error, None) == _less_mean(V, error, None) == (V, error)


@pytest.mark.parametrize("mean", [np.array([0.5, 0.5]), np.array([0.25, 0.75])], ids=str)
def test_centred_kernel_values_lose_what_their_law_says(mean):
    K, k, penalty = np.array([[4.0, 1.0], [1.0, 2.0]]), np.array([[8.0, 2.0]]), np.array([2.0, 8.0])
    smoother = GramSmoother(lambda X: k, K, penalty, mean, centred=True)
    P = np.eye(2) - np.outer(np.ones(2), mean)
    np.testing.assert_array_equal(smoother.solved.A, P @ K @ P.T + np.diag(penalty))
    share = (1 + np.sqrt(2) * np.linalg.norm(mean)) ** 2 * 10 * EPS
    rows = np.linalg.norm(K, axis=1) + np.linalg.norm(mean) * np.linalg.norm(K)
    assert smoother.solved.away == pytest.approx(share * np.linalg.norm(rows), rel=1e-12, abs=0)
    told = []
    smoother.solved = lambda values, away: told.append((values, away)) or (values, 0 * away)
    smoother(k)
    np.testing.assert_array_equal(told[0][0], P @ (k[0] - K @ mean)[:, None])
    law = share * (np.linalg.norm(k) + np.linalg.norm(mean) * np.linalg.norm(K))
    np.testing.assert_allclose(told[0][1], law, rtol=1e-12)
    plain = GramSmoother(lambda X: k, K, penalty)
    np.testing.assert_array_equal(plain.solved.A, K + np.diag(penalty))
    assert plain.solved.away == 0
    assert plain.solved.least == pytest.approx(1.0)  # half of the least penalty


@pytest.mark.parametrize("intercept", [True, False])
def test_sums_of_columns_lose_what_their_law_says(intercept):
    X, weight = 1e16 + np.array([[0.0], [2.0], [4.0], [16.0]]), np.array([1.0, 1.0, 2.0, 4.0])
    X, point = (X, 1e16) if intercept else (X - 1e16, 8.0)
    smoother = ColumnSmoother(X, 2.0, weight, intercept)
    first = float(weight @ X[:, 0] / 8) if intercept else 0.0  # near the mean, which is no float
    scale = smoother.scale[0]
    assert np.frexp(scale)[0] == 0.5  # a power of 2
    assert 0.5 <= smoother.solved.A[0, 0] <= 2
    far = scale * (X[:, 0] - first)
    middle = weight @ far / 8 if intercept else 0.0
    assert abs(middle) > 0.2 * scale or not intercept
    spread = np.sqrt(weight @ far**2)
    assert smoother.solved.A[0, 0] == weight @ (far - middle) ** 2 + 2 * scale**2
    assert smoother.solved.away == pytest.approx(12 * EPS * spread**2, rel=1e-12, abs=0)
    told = []
    smoother.solved = lambda values, away: told.append((values, away)) or (np.full((1, 1), 0.5), np.array([0.25]))
    h, error = smoother(np.array([[point]]))
    assert told[0][0] == scale * (point - first) - middle
    np.testing.assert_allclose(told[0][1], EPS * (8 * spread / np.sqrt(8) + scale * abs(point - first)), rtol=1e-12)
    size = np.linalg.norm(weight * (np.abs(far) + abs(middle)))
    V = (weight * (far - middle) * 0.5)[None]
    mean = weight / 8 if intercept else None
    law = _with_mean(V, np.array([size * (0.25 + 3 * EPS * 0.5)]), mean)
    np.testing.assert_array_equal(h, law[0])
    np.testing.assert_allclose(error, law[1], rtol=1e-15)
    smoother.solved = lambda values, away=0.0: (values / scale / 2, np.zeros(1))
    coefficients, error = smoother.coefficients()
    law = _less_mean(V, np.array([size * 3 * EPS * 0.5]), mean)
    np.testing.assert_array_equal(coefficients, law[0])
    np.testing.assert_allclose(error, law[1], rtol=1e-15)


def test_the_units_of_columns_have_no_say():
    rng = np.random.default_rng(0)
    X, units = rng.normal(size=(30, 3)), 2.0 ** np.array([0, 40, -40])
    for alpha, one in ((0.0, True), (1.0, False)):
        plain, other = ColumnSmoother(X, alpha, np.ones(30), True), ColumnSmoother(X * units, alpha, np.ones(30), True)
        assert (other(X * units)[1] < 1e-12).all()
        if one:
            for mine, its in zip(plain(X), other(X * units), strict=True):
                np.testing.assert_array_equal(mine, its)
            np.testing.assert_array_equal(plain.coefficients()[1], other.coefficients()[1] * units)
    least = ColumnSmoother(X * units, 1.0, np.ones(30), True).solved
    assert least.least <= np.linalg.eigvalsh(least.A)[0]
    with pytest.raises(ValueError, match="rounding decides"):
        ColumnSmoother(X * [1, 0, 1], 0.0, np.ones(30), True)


def test_weights_hold_where_roundings_of_equal_terms_have_one_sign():
    """A column of 0 and 1.1: each of its 90,000 squares is rounded the same way in their sum."""
    X = np.where(np.arange(300_007) % 1000 < 300, 1.1, 0.0)
    h, error = ColumnSmoother(X[:, None], 0.0, np.ones(len(X)), False)(np.array([[1.1]]))
    count = int((X > 0).sum())
    off = float(sum((Fraction(float(value)) - Fraction(1, count)) ** 2 * int((h[0, X > 0] == value).sum())
                    for value in np.unique(h[0, X > 0]))) ** 0.5
    assert off <= error[0]


def solved(A, b):
    """Solve in fractions."""
    rows = [[*row, value] for row, value in zip(A, b, strict=True)]
    for i in range(len(rows)):
        swap = next(j for j in range(i, len(rows)) if rows[j][i] != 0)
        rows[i], rows[swap] = rows[swap], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        rows = [rows[j] if j == i else [a - rows[j][i] * c for a, c in zip(rows[j], rows[i], strict=True)]
                for j in range(len(rows))]
    return [row[-1] for row in rows]


@pytest.mark.parametrize(("model", "n", "d"), [
    (Ridge(), 3, 4), (Ridge(), 4, 2), (LinearRegression(), 4, 2), (Ridge(fit_intercept=False), 3, 4)], ids=str)
def test_intervals_hold_in_fractions_for_columns_far_from_0(model, n, d):
    rng = np.random.default_rng(0)
    far = 1e5 if model.fit_intercept else 0.0
    X, y, z = far + rng.normal(size=(n, d)), rng.normal(size=n), far + rng.normal(size=d)
    rows, at = [[Fraction(v) for v in row] for row in X.tolist()], [Fraction(v) for v in z.tolist()]
    mean = [sum(column) / n if model.fit_intercept else Fraction(0) for column in zip(*rows, strict=True)]
    C = [[v - m for v, m in zip(row, mean, strict=True)] for row in [*rows, at]]
    G = [[sum(row[i] * row[j] for row in C[:-1]) + (i == j) * Fraction(getattr(model, "alpha", 0)) for j in range(d)]
         for i in range(d)]
    u = solved(G, C[-1])
    h = [sum(a * b for a, b in zip(u, row, strict=True)) + Fraction(int(model.fit_intercept), n) for row in C[:-1]]
    found = training_moves(model.fit(X, y), X, y, z[None], by=1e9, rows=1)
    prediction = sum(a * Fraction(b) for a, b in zip(h, y.tolist(), strict=True))
    most = 10**9 * max(map(abs, h))
    assert Fraction(found.low[0]) <= prediction - most
    assert Fraction(found.high[0]) >= prediction + most
    assert found.high[0] - found.low[0] <= float(2 * most) * (1 + 1e-8)
