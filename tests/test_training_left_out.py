"""What missing rows do to least squares: every term of the bounds against its law, every step of the attacks."""

from decimal import Decimal, localcontext
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression

from buttress.certificates import training_conclusions, training_removals
from buttress.certificates.training import conclusions
from buttress.certificates.training.changed_rows import RemovedRows, norm_of_top
from buttress.certificates.training.conclusions import _attack, _goals, _path, _Proof, _shortest

EPS = 2.0**-52
H = np.array([[0.5, 0.125, -0.0625, 0.03125], [0.125, 0.25, 0.25, -0.125],
              [-0.0625, 0.25, 0.75, 0.0625], [0.03125, -0.125, 0.0625, 0.5]])
ROWS = {
    "exact": RemovedRows(H, np.zeros(4), np.ones(4), np.ones(4), np.array([1.0, -2.0, 4.0, -0.5]),
                         np.array([1.0, 2.0, 4.0, 0.5]), np.array([1.0, 4.0, 0.25, 1.0])),
    "with errors": RemovedRows(H, np.array([0.0625, 0.0, 0.03125, 0.125]), np.ones(4), np.ones(4),
                               np.array([1.0, -2.0, 4.0, -0.5]), np.array([1.5, 2.25, 4.0, 1.0]),
                               np.array([1.0, 4.0, 0.25, 1.0])),
    "with one large": RemovedRows(H * [1, 1, 2.0**-20, 1], np.zeros(4), np.ones(4), np.ones(4),
                                  np.array([1.0, -2.0, 2.0**20, -0.5]), np.array([1.0, 2.0, 2.0**20, 0.5]),
                                  np.array([1.0, 1.0, 1.0, 1.0])),
}


def d(value):
    return Decimal(float(value))


def largest(values, k):
    return sum((value for value in sorted(values, reverse=True)[:k] if value > 0), Decimal(0))


def held_up(rows, k):
    """A and mu by the law, in 50 digits."""
    A, mu, root = [], Decimal(0), [d(g).sqrt() for g in rows.g_most]
    for i in range(4):
        others = [j for j in range(4) if j != i]
        signed = {j: d(rows.H[i, j]) * d(rows.r[j]) for j in others}
        most = {j: abs(d(rows.H[i, j])) + d(rows.error[i]) for j in others}
        slack = {j: (1 + 8 * d(EPS)) * most[j] * d(rows.r_most[j]) - abs(signed[j]) for j in others}
        A.append(max(largest([sign * signed[j] + slack[j] for j in others], k - 1) for sign in (1, -1)))
        mu = max(mu, root[i] * largest([most[j] * root[j] for j in others], k - 1))
    return A, mu * (1 + 32 * d(EPS)), root


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_a_bound_of_missing_rows_is_its_law(name, k):
    rows, h = ROWS[name], np.array([[0.5, -0.25, 2.0, 1.0], [-4.0, 0.0, 0.125, -0.5]])
    with localcontext() as context:
        context.prec = 50
        A, mu, root = held_up(rows, k)
        found, share = rows.held_up(k)
        np.testing.assert_allclose(found, [float(each) for each in A], rtol=EPS, atol=0)
        assert share == pytest.approx(float(mu), rel=EPS, abs=0)
        if mu >= 1:
            assert np.all(np.array([*rows.moves(h, np.zeros(2), k), rows.stretch(h, k)]) == np.inf)
            return
        for error in (0.0, 0.25):
            fall, rise = rows.moves(h, np.full(2, error), k)
            for row in range(2):
                gain = [d(a) * d(r) for a, r in zip(h[row], rows.r, strict=True)]
                most = [abs(d(a)) + d(error) for a in h[row]]
                slack = [(1 + 8 * d(EPS)) * b * d(r) - abs(c) + b * d(g) * one for b, r, c, g, one in
                         zip(most, rows.r_most, gain, rows.g_most, A, strict=True)]
                rest = (largest([(a * b) ** 2 for a, b in zip(most, root, strict=True)], k).sqrt()
                        * largest([(a * b) ** 2 for a, b in zip(A, root, strict=True)], k).sqrt() * mu / (1 - mu))
                for side, sign in ((fall, 1), (rise, -1)):
                    law = largest([sign * c + w for c, w in zip(gain, slack, strict=True)], k) + rest
                    assert side[row] == pytest.approx(float((1 + 32 * d(EPS)) * law), rel=4 * EPS, abs=0)
        for row in range(2):
            law = largest([(d(a) * b) ** 2 for a, b in zip(h[row], root, strict=True)], k) / (1 - mu)
            assert rows.stretch(h, k)[row] == pytest.approx(float((1 + 32 * d(EPS)) * law), rel=4 * EPS, abs=0)


def test_no_rows_move_nothing_and_no_bound_is_known_where_rows_may_carry_each_other(monkeypatch):
    rows, h = ROWS["exact"], np.ones((1, 4))
    assert rows.moves(h, np.zeros(1), 0) == (0, 0)
    assert rows.stretch(h, 0) == 0
    monkeypatch.setattr(RemovedRows, "held_up", lambda self, k: (np.zeros(4), 1.0))
    assert rows.moves(0 * h, np.zeros(1), 2) == (np.inf, np.inf)
    assert rows.stretch(0 * h, 2) == np.inf


def test_rows_left_out_alone_are_those_of_their_law():
    error = np.array([2.0**-10, 0.0, 0.25])
    hat = np.array([[1 - 2.0**-10 - 4 * EPS, 0.5, 0.0],  # it may carry itself
                    [0.5, 0.25, -0.5], [0.0, -0.5, 0.5]])
    y = np.array([4.0, 2.0, -4.0])
    rows = RemovedRows.of(hat, error, y)
    e = y - hat @ y
    np.testing.assert_array_equal(rows.e, e)
    np.testing.assert_allclose(rows.e_most, np.abs(e) + 6 * error + 6 * EPS * (np.abs(hat) @ np.abs(y) + np.abs(y)),
                               rtol=EPS)
    np.testing.assert_allclose(rows.g_most, [np.inf, 1 / (0.75 - 4 * EPS), 1 / (0.25 - 4 * EPS)], rtol=EPS)
    np.testing.assert_allclose(rows.r[1:], [e[1] / 0.75, e[2] / 0.5], rtol=EPS)
    assert rows.r_most[0] == np.inf
    assert rows.moves(np.ones((1, 3)), np.zeros(1), 1) == (np.inf, np.inf)
    np.testing.assert_allclose(rows.r_most[1:], (rows.e_most * rows.g_most)[1:], rtol=EPS)
    zeros = RemovedRows.of(0 * hat, 0 * error, 2.0**40 * y)  # a residual is a rounding of its terms off
    np.testing.assert_allclose(zeros.e_most - np.abs(zeros.e), 2 * 3 * EPS * 2.0**40 * np.abs(y), rtol=0.1)


def test_the_norm_of_the_largest():
    assert norm_of_top(np.array([3.0, 1.0, 4.0]), 2) == 5


def test_what_a_model_is_off_its_refit_widens_its_interval():
    X, y = np.array([[0.0], [1.0], [2.0], [4.0], [8.0]]), np.array([0.0, 1.0, 0.0, 2.0, 1.0])
    model = LinearRegression().fit(X, y)
    others = [LinearRegression().fit(np.delete(X, i, 0), np.delete(y, i)).predict(X) for i in range(5)]
    for off in (1e-7, -1e-7):
        model.intercept_ += off
        found = training_removals(model, X, y, X, rows=1)
        np.testing.assert_allclose(found.low, np.min([model.predict(X) - off, *others], axis=0) - abs(off) + off,
                                   rtol=0, atol=1e-10)
        np.testing.assert_allclose(found.high, np.max([model.predict(X) - off, *others], axis=0) + abs(off) + off,
                                   rtol=0, atol=1e-10)
        model.intercept_ -= off
    all_gone = training_removals(model, X, y, X, rows=9)
    assert (all_gone.high == np.inf).all()
    assert (all_gone.low == -np.inf).all()


def proof(e, weights, coef, p=1, level=0.05, e_most=None, error=0.0, away=0.0, stretch=None, moves=None):
    """A proof whose bounds of missing rows are given."""
    e, weights, coef = np.array(e, float), np.atleast_2d(np.array(weights, float)), np.array(coef, float)
    told = SimpleNamespace(e=e, e_most=np.abs(e) if e_most is None else np.array(e_most), stretch=stretch, moves=moves)
    return _Proof(told, weights, np.full(len(coef), error), coef, np.full(len(coef), away), p, level)


def test_t_values_and_their_level_are_those_of_the_textbook(monkeypatch):
    e, weights = [1.0, 2.0, -2.0, 0.0], [[3.0, 0.0, 4.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    np.testing.assert_allclose(proof(e, weights, [10.0, -6.0]).t, [10 / (np.sqrt(9 / 3) * 5), -6 / np.sqrt(9 / 3)])
    asked = []
    monkeypatch.setattr(conclusions, "student", SimpleNamespace(isf=lambda *args: asked.append(args) or 2.0))
    found = proof([3.0, 0.0, 0.0, 0.0], weights, [30.0, 6.0], p=3)  # t = 2 and 2
    assert found.t.tolist() == [2.0, 2.0]
    assert asked == [(0.025, 1)]
    assert not found.significant.any()
    assert proof([3.0, 0.0, 0.0, 0.0], weights, [-33.0, 6.0], p=3).significant.tolist() == [True, False]


@pytest.mark.parametrize(("e_most", "error"), [([1.0, 2.0, 2.0, 0, 0, 0, 0, 0], 0.0),
                                               ([1.5, 2.25, 2.0, 0.5, 0, 0, 0, 0], 0.5)])
def test_t_values_of_missing_rows_lie_between_their_laws(e_most, error):
    e, weights = [1.0, 2.0, -2.0, 0, 0, 0, 0, 0], np.array([[3.0, 0, -4.0, 0, 0, 0, 0, 0]])
    asked = []

    def stretch(h, k):
        asked.append((h, k))
        return 2.0 if np.ndim(h) == 1 else np.array([144.0])

    found = proof(e, weights, [1.0], e_most=e_most, error=error, stretch=stretch)
    low, high = found._t_values(3, np.array([6.0]), np.array([7.0]))
    wider = 1 + 16 * 8 * EPS
    residuals = np.sqrt((np.array(e_most) ** 2).sum() / (7 - 3))
    np.testing.assert_allclose(low, 6 / (residuals * np.hypot(5 + error, 12)) / wider, rtol=4 * EPS)
    least = (np.maximum(2 * np.abs(e) - e_most, 0) ** 2).sum() - 2
    np.testing.assert_allclose(high, 7 / (np.sqrt(least / 7) * (5 - error)) * wider, rtol=4 * EPS)
    assert asked[0][1] == asked[1][1] == 3
    np.testing.assert_array_equal(asked[0][0], e_most)
    np.testing.assert_array_equal(asked[1][0], np.abs(weights) + error)
    assert found._t_values(3, np.array([-1.0]), np.array([7.0]))[0] == 0
    found.length = np.array([0.25])
    assert found._t_values(3, np.array([6.0]), np.array([7.0]))[1] == (np.inf if error else
                                                                      pytest.approx(7 / (np.sqrt(1.0) * 0.25)))
    found.left_out.stretch = lambda h, k: 20.0 if np.ndim(h) == 1 else np.array([144.0])  # more than all residuals
    assert found._t_values(3, np.array([6.0]), np.array([7.0]))[1] == np.inf


def test_what_missing_rows_cannot_change_is_told_from_the_ends(monkeypatch):
    """Of coefficients 4, 4, -4, and 4: moves of 1 up and 2 down; a limit of t that tells what was asked."""
    monkeypatch.setattr(conclusions, "student", SimpleNamespace(isf=lambda level, freedom: 100 * level + freedom))
    asked, coef = [], [4.0, 4.0, -4.0, 2.25]
    found = proof([1.0] * 8, np.ones((4, 8)), coef, p=2, away=0.25, level=0.5,
                  moves=lambda weights, error, k: (np.full(4, 2.0), np.full(4, 1.0)))
    found.significant = np.array([True, True, False, False])
    limit, wide = 25 + 6 - 3, 25 + 6

    def told(k, low, high):
        asked.append((k, low, high))
        return np.array([limit + 0.5, limit, 99.0, 99.0]), np.array([0.0, 0.0, wide - 0.5, wide])

    found._t_values = told
    sign, level = found._holds(3)
    assert sign.tolist() == [True, True, True, False]  # 2.25 may become 0
    assert level.tolist() == [True, False, True, False]
    assert asked[0][0] == 3
    np.testing.assert_array_equal(asked[0][1], [1.75, 1.75, 2.75, 0.0])
    np.testing.assert_array_equal(asked[0][2], [5.25, 5.25, 6.25, 3.5])
    assert len(asked) == 1
    assert [part.tolist() for part in found._holds(6)] == [[False] * 4] * 2
    found.left_out.moves = lambda weights, error, k: (np.full(4, 9.0), np.full(4, 0.0))
    found._holds(3)
    np.testing.assert_array_equal(asked[1][2], [5.25, 5.25, 13.25, 7.0])  # through 0 and beyond


@pytest.mark.parametrize("most", range(10))
def test_the_most_rows_are_found_by_halving(most):
    found = proof([1.0] * 31, np.ones((2, 31)), [1.0, 2.0])
    found.holds = lambda k: (np.array([k <= most, k <= 3]), np.array([k <= 2, k <= 20 - most]))
    assert found.most(0).tolist() == [most, 3]
    assert found.most(1).tolist() == [2, 20 - most]


def least_squares(A, y, j):
    """Return coefficient j and its t-value by the normal equations."""
    inverse = np.linalg.inv(A.T @ A)
    coef = inverse @ A.T @ y
    e = y - A @ coef
    return coef[j], coef[j] / np.sqrt(e @ e / (len(y) - A.shape[1]) * inverse[j, j])


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("seed", range(4))
def test_each_step_leaves_out_the_row_that_helps_most(kind, seed):
    rng = np.random.default_rng(seed)
    A, j = np.column_stack([rng.normal(size=9), np.ones(9)]), seed % 2
    y = A @ [1.0, -0.5] + 0.8 * rng.normal(size=9)
    coef, t = least_squares(A, y, j)
    above = abs(t) > student.isf(0.05, 7)
    goal = _goals(coef, above, 0.1)[kind]

    def measured(rows):
        b, t = least_squares(np.delete(A, rows, 0), np.delete(y, rows), j)
        if kind == 0:
            return b * np.sign(coef)
        return (abs(t) - student.isf(0.05, 7 - len(rows))) * (1 if above else -1)

    path = list(_path(A, y, j, goal))
    assert len(path) == 6  # two rows more than coefficients are left
    for (rows, now), (more, _) in pairwise(path):
        assert now == pytest.approx(measured(rows), rel=1e-9, abs=0)
        left = [i for i in range(9) if i not in rows]
        assert more[-1] == min(left, key=lambda i: measured([*rows, i]))
        np.testing.assert_array_equal(more[:-1], rows)
    found = _attack(A, y, j, goal)
    done = [rows for rows, now in path if now < 0]
    assert (found is None and not done) or len(found) == len(done[0])


def test_the_attack_stops_where_columns_are_no_longer_told_apart():
    assert list(_path(np.zeros((5, 1)), np.ones(5), 0, _goals(1.0, True, 0.1)[0])) == []
    near = 1 + EPS * np.arange(5.0)  # columns that differ by roundings only
    assert list(_path(np.column_stack([near, np.ones(5)]), np.ones(5), 0, _goals(1.0, True, 0.1)[0])) == []
    A = np.column_stack([np.ones(6), [0, 0, 0, 0, 0, 1.0]])
    rng = np.random.default_rng(0)
    for j, sign in product(range(2), (1.0, -1.0)):
        for _ in range(5):
            path = [rows for rows, _ in _path(A, rng.normal(size=6), j, _goals(sign, True, 0.1)[0])]
            assert len(path) == 3
            assert 5 not in path[-1]  # without it there is no second column


def test_the_attack_names_rows_that_turn_a_sign_not_that_make_it_0(monkeypatch):
    monkeypatch.setattr(conclusions, "_path", lambda *args: iter([([1], 0.0), ([1, 2], -1.0)]))
    assert _attack(None, None, 0, None) == [1, 2]


def test_how_far_coefficients_are_from_their_refit_is_part_of_the_proof(monkeypatch):
    told = []
    monkeypatch.setattr(conclusions, "_Proof", lambda *args: told.append(args) or 1 / 0)
    X = np.random.default_rng(0).normal(size=(8, 2))
    model = LinearRegression().fit(X, X[:, 0])
    model.coef_ = model.coef_ + [0.0, 1e-7]
    with pytest.raises(ZeroDivisionError):
        training_conclusions(model, X, X[:, 0])
    *_, away, p, level = told[0]
    assert (p, level) == (3, 0.05)
    np.testing.assert_allclose(away, [0, 1e-7], atol=1e-11)
    assert (away > 0).all()
    with pytest.raises(ValueError, match="level"):
        training_conclusions(model, X, X[:, 0], level=1.5)
    square = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 0.0]])
    with pytest.raises(ValueError, match="3 rows do not decide 3"):
        training_conclusions(LinearRegression().fit(square, square[:, 0]), square, square[:, 0])


@pytest.mark.parametrize("n", [3, 4, 6, 7, 8, 13, 14, 20])
def test_the_shortest_start_of_a_path_is_found_by_halving(n):
    rng = np.random.default_rng(0)
    A, y = np.ones((n, 1)), rng.normal(size=n) + 3
    goal = _goals(1.0, True, 0.1)[0]
    ways = [rows for rows, _ in _path(A, y, 0, goal)][: n // 2]
    assert len(ways) == n // 2
    for least in range(1, n // 2 + 1):
        found = _shortest(A, y, 0, goal, lambda rows, goal, least=least: 0.0 if len(rows) < least else -1.0)
        np.testing.assert_array_equal(-1 if found is None else found, ways[least] if least < n // 2 else -1)


class Line(RegressorMixin, BaseEstimator):
    """Weighted least squares that states its t-values; the weights are those of the targets' last digits."""

    def __init__(self, fit_intercept=True):
        self.fit_intercept = fit_intercept

    def fit(self, X, y):
        self.weights = np.where(y > 0, 1.0, 4.0)
        root = np.sqrt(self.weights)
        self.A, self.b = self.design(X) * root[:, None], y * root
        return self

    def design(self, X):
        return np.column_stack([np.ones(len(X)), X]) if self.fit_intercept else X

    def predict(self, X):
        return self.design(X) @ self.summary().estimate

    def summary(self):
        both = [least_squares(self.A, self.b, j) for j in range(self.A.shape[1])]
        estimate, t = np.array(both).T
        return SimpleNamespace(estimate=estimate, t=t, freedom=len(self.b) - len(estimate), weights=self.weights)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rows_found_by_refits_are_as_few_as_any_start_of_the_path(intercept, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(14, 2))
    y = X @ [0.5, -0.3] + 0.6 * rng.normal(size=14) + 0.4 * intercept
    model = Line(intercept).fit(X, y)
    found, stated = training_conclusions(model, X, y, level=0.2), model.summary()
    first = int(intercept)
    np.testing.assert_array_equal(found.coef, stated.estimate[first:])
    np.testing.assert_array_equal(found.t, stated.t[first:])
    np.testing.assert_array_equal(found.significant, np.abs(found.t) > student.isf(0.1, stated.freedom))
    assert not found.sign_proven.any()
    assert not found.level_proven.any()
    A = np.column_stack([X, np.ones((14, first))]) * np.sqrt(stated.weights)[:, None]
    for j in range(2):
        goals = _goals(found.coef[j], found.significant[j], 0.2)
        for goal, least, rows in zip(goals, (found.sign_found[j], found.level_found[j]),
                                     (found.sign_rows[j], found.level_rows[j]), strict=True):
            ways = [way for way, _ in _path(A, y * np.sqrt(stated.weights), j, goal)][:7]
            does = []
            for way in ways:
                refit = Line(intercept).fit(np.delete(X, way, 0), np.delete(y, way)).summary()
                does.append(goal(refit.estimate[first + j], refit.t[first + j], refit.freedom) < 0)
            assert least == len(rows) if len(rows) else least == np.inf
            assert does[len(rows)] if len(rows) else not does[-1]
            assert not (len(rows) and does[len(rows) - 1])
