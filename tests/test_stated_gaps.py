"""The bounds that certificates and linear machines state are those of the formulas beside them, term by term.

u = 2^-53 is one rounding. That no bound is false is shown in fractions (``test_proven_gaps.py``,
``test_proven_terms.py``); here each is no wider than it says either.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from buttress._proof import Near
from buttress.gram.rounding import Product
from buttress.solvers.linear import primal as linear
from buttress.solvers.linear.primal import LinearProblem, Rate
from buttress.solvers.qp import certificate
from buttress.solvers.qp.program import QP

U = float(np.finfo(np.float64).eps) / 2


def program(p, lo, hi, l1, diagonal=(1.0,)):
    n = len(p)
    return QP(SimpleNamespace(diagonal=np.resize(np.array(diagonal), n)), *map(np.array, (p, lo, hi)), np.zeros(n),
              np.array(l1))


def product_of(f, errors):
    return Product(np.array(f), np.broadcast_to(np.array(errors, dtype=float), len(f)).copy(), True)


def stated(qp, b, f, errors, b0, total):
    """Write down the formulas of the certificate: the gap's terms, the fall, and what the dual's sums may lose."""
    n = len(b)
    r = qp.p - f - b0
    e = errors + 4 * U * (abs(qp.p) + abs(f) + abs(b0))
    evaluation = 16 * U * (qp.hi - qp.lo) * (abs(r) + e + qp.l1)
    h = [qp.hi * np.maximum(0, x - qp.l1) - qp.lo * np.maximum(0, -x - qp.l1) + qp.l1 * abs(b) - b * x
         for x in (r - e, r, r + e)]
    s = b.sum() - total
    room = b - qp.lo if s > 0 else qp.hi - b
    j = np.argmax(room)
    fall = abs(s) * (abs(qp.p[j] - f[j]) + errors[j] + qp.l1[j]) + 0.5 * s**2 * abs(qp.rows.diagonal[j])
    gap = (np.maximum(h[0], h[2]) + evaluation).sum() * (1 + 2 * n * U) + 1.01 * abs(b0 * s)
    width = 1.01 * abs(b) @ ((n + 4) * U * (abs(qp.p) + abs(f) + qp.l1) + errors / 2)
    dual = qp.p @ b - qp.l1 @ abs(b) - b @ f / 2
    return {"primal": dual + width + gap, "dual": dual - width - 1.01 * fall, "gap": gap + 1.01 * fall,
            "seen": h[1].sum(), "rounding": 2 * evaluation.sum()}


# p - f - b0 is at the kink, and the dual is 0: nothing is left but allowances
EXACT = program([13.0, 11.0, 12.0], [-1.0, -2.0, -1.0], [2.0, 1.0, 4.0], [1.0, 1.0, 1.0], [1.0, 2.0, -3.0])
AT = np.array([0.25, -0.25, 0.0])
F = np.full(3, 8.0)


@pytest.mark.parametrize(("qp", "b", "f", "errors", "b0", "total"), [
    (EXACT, AT, F, 0.0, 4.0, 0.0),
    (EXACT, AT, F, [0.125, 0.25, 0.5], 4.0, 0.0),
    (EXACT, AT, F, [0.125, 0.25, 0.5], 4.0, 2.0**-10),
    (EXACT, AT, F, [0.125, 0.25, 0.5], 4.0, -(2.0**-3)),
    (EXACT, AT, F, 0.0, 0.0, 2.0**-3),
    (EXACT, AT, F, 2.0**-50, 4.0, 0.0),
    (EXACT, np.array([1.75, -2.0, 4.0]), F, [0.125, 0.25, 0.5], 4.0, 3.75 + 2.0**-10),
    (EXACT, np.array([0.25, -1.75, 1.5]), np.array([2.0, -3.0, 5.0]), 0.0, -4.0, 0.0),
    (EXACT, np.array([-1.0, 0.5, 0.5]), F, 0.0, 4.0, 0.0),  # one is at its bound
    (replace(EXACT, lo=EXACT.hi * 0 - 2.0**-4), np.array([2.0**-4, 0.0, 0.0]), F, 0.0, 0.0, 0.0),  # room is just enough
], ids=["rounding", "errors", "low sum", "high sum", "sum", "small", "full", "losses", "bounds", "room"])
def test_a_certificate_states_its_terms_and_no_more(qp, b, f, errors, b0, total):
    errors = np.broadcast_to(np.array(errors, dtype=float), 3)
    proof = certificate.certificate(qp, b, product_of(f, errors), b0, total)
    for name, value in stated(qp, b, f, errors, b0, total).items():
        assert getattr(proof, name) == pytest.approx(value, rel=1e-9, abs=1e-30), name


def test_a_sum_of_many_terms_is_a_little_more():
    n = 4096
    qp = program(np.full(n, 2.0), np.full(n, -1.0), np.full(n, 1.0), np.zeros(n))
    proof = certificate.certificate(qp, np.zeros(n), product_of(np.zeros(n), 0.0), 0.0)
    assert proof.gap == pytest.approx(stated(qp, np.zeros(n), np.zeros(n), np.zeros(n), 0.0, 0.0)["gap"], rel=3e-14)


def test_a_point_outside_of_its_bounds_proves_nothing():
    proof = certificate.certificate(EXACT, np.array([0.25, -0.25, 4.5]), product_of(F, 0.0), 4.0, 4.5)
    assert (proof.dual, proof.gap) == (-np.inf, np.inf)


def test_without_room_for_the_sum_nothing_is_proven():
    qp = program([1.0, -1.0, 0.0], [0.0, -1.0, -0.25], [1.0, 0.0, 0.25], [0.0, 0.0, 0.0])
    b = np.array([1.0, -1.0, 0.0])
    for total, known in ((2.0**-60, True), (-(2.0**-1), True), (-(2.0**-0.9), False), (3.0, False)):
        proof = certificate.certificate(qp, b, product_of(b, 0.0), 0.0, total)
        assert (proof.dual > -np.inf, proof.gap < np.inf) == (known, known)
        assert known or (proof.dual, proof.gap) == (-np.inf, np.inf)


class Rows(SimpleNamespace):
    """Rows whose products are ``f`` without errors, in float32 with errors of a quarter."""

    def single_times(self, b, rows, known):
        return SimpleNamespace(f=self.f[rows], errors=np.full(len(rows), 0.25)) if self.single else None

    def proven_times(self, b, rows=None):
        self.asked.append(None if rows is None else rows.tolist())
        return Product(self.f.copy(), np.zeros(len(b)), True)


@pytest.mark.parametrize(("residual", "lo", "hi", "l1", "again"), [
    (-0.255, 0.0, 1.0, 0.0, True), (-0.265, 0.0, 1.0, 0.0, False), (-9.0, 0.0, 1.0, 0.0, False),
    (0.255, -1.0, 0.0, 0.0, True), (0.265, -1.0, 0.0, 0.0, False), (9.0, -1.0, 0.0, 0.0, False),
    (9.0, 0.0, 1.0, 0.0, True), (-9.0, -1.0, 0.0, 0.0, True),
    (0.1, -1.0, 1.0, 0.365, False), (0.1, -1.0, 1.0, 0.355, True), (-0.1, -1.0, 1.0, 0.365, False),
    (-0.1, -1.0, 1.0, 0.355, True), (-0.25 - 1e-2, 0.0, 1.0, 0.0, None), (0.25 + 1e-2, -1.0, 0.0, 0.0, None)])
def test_rows_whose_loss_float32_may_get_wrong_are_computed_again(residual, lo, hi, l1, again, monkeypatch):
    """As far as the error of a quarter and 0.01 reaches to the kink, on the sides that cost something."""
    f = 0.0 if again is None else 2.0  # at the border itself nothing may be rounded
    again = again is not False
    monkeypatch.setattr(certificate, "_best_intercept", lambda qp, of: f / 2)
    rows = Rows(single=True, asked=[], diagonal=np.ones(2), f=np.array([5.0, f]))
    qp = QP(rows, np.array([0.0, 1.5 * f + residual]), np.array([-1.0, lo]), np.array([1.0, hi]), np.zeros(2),
            np.array([0.0, l1]))
    found = certificate._product(qp, np.array([0.5, 0.0]), None)
    assert rows.asked == [[0], [1] if again else []]
    assert found.errors.tolist() == [0.0, 0.0 if again else 0.25]
    assert found.f.tolist() == [5.0, f]


@pytest.mark.parametrize("seed", range(4))
def test_the_certificate_is_that_of_the_agreed_intercept_or_of_the_best(seed):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=6)
    rows = Rows(single=False, asked=[], diagonal=np.ones(6), f=f)
    qp = QP(rows, rng.normal(size=6) + f, -np.ones(6), np.ones(6), np.zeros(6), np.full(6, 0.1), total=0.25)
    b = np.array([0.5, -0.25, 0.0, 0.0, 0.0, 0.0])
    agreed = certificate.certify(qp, b, enough=lambda proof: True)
    assert agreed.intercept == pytest.approx(np.mean((qp.p - f)[:2] - np.array([0.1, -0.1])))
    best = certificate.certify(qp, b)

    points = np.r_[qp.p - f - 0.1, qp.p - f + 0.1]

    def loss(b0):
        return np.maximum(0, abs(qp.p - f - b0) - 0.1).sum()

    least = min(loss(at) + 0.25 * at for at in points)
    assert loss(best.intercept) + 0.25 * best.intercept == pytest.approx(least)
    assert best.primal == pytest.approx(b @ f / 2 + least)
    b[1] = -0.5
    above, below, b0 = certificate.objectives(f, b, qp.p, qp.lo, qp.hi, qp.l1)
    assert below == pytest.approx(qp.p @ b - 0.1 * abs(b).sum() - b @ f / 2)
    assert above == pytest.approx(b @ f / 2 + loss(b0))
    assert loss(b0) == pytest.approx(min(map(loss, points)))


# linear machines


def hinge(X, y, c, w, b, margin, squared):
    losses = np.maximum(0, margin - y * (X @ w + b))
    return w @ w / 2 + c @ (losses**2 if squared else losses)


X = np.array([[1.0, 2.0], [-0.5, 3.0], [2.0, -1.0], [0.25, 0.5]])
Y = np.array([1.0, -1.0, -1.0, 1.0])
C = np.array([2.0, 1.0, 0.5, 3.0])


@pytest.mark.parametrize("squared", [False, True], ids=["hinge", "squared"])
@pytest.mark.parametrize("margin", [1.0, np.array([1.0, 0.5, -2.0, 1.5])], ids=["labels", "targets"])
@pytest.mark.parametrize("shape", [np.asarray, csr_array])
def test_both_objectives_of_a_plane(squared, margin, shape):
    problem = LinearProblem(shape(X), Y, C, squared, True, margin)
    w, b, a = np.array([0.3, -0.2]), 0.1, np.array([0.5, 0.75, 0.25, 0.5])
    primal = hinge(X, Y, C, w, b, margin, squared)
    v = X.T @ (Y * a)
    dual = (margin * a).sum() - v @ v / 2 - (a**2 / C).sum() / 4 * squared
    assert problem.lam == pytest.approx(1 / 6.5)
    assert problem.slack(w, b) == pytest.approx(margin - Y * (X @ w + b))
    assert problem.primal(w, problem.slack(w, b)) == pytest.approx(primal)
    assert problem.dual(a) == pytest.approx(dual)
    for free in (True, False):
        above, below = replace(problem, intercept=free).proven(w, b, a)
        assert primal <= above <= primal + 200 * U * 20
        assert dual - 200 * U * 20 <= below <= dual
    assert problem.proven(w, b, None)[1] == -np.inf
    assert problem.relative_gap(3.0, 1.0) == pytest.approx(2 / 3)
    assert problem.relative_gap(0.0, -1e-15) == pytest.approx(1e-15 / (1e-14 * 6.5))


@pytest.mark.parametrize("squared", [False, True], ids=["hinge", "squared"])
def test_multipliers_are_moved_into_their_box_and_onto_the_sum(squared):
    """The heavier class is made lighter; a squared loss has no upper bound."""
    problem = LinearProblem(X, Y, C, squared)
    for a in (np.array([9.0, 0.5, 0.25, 1.0]), np.array([0.25, 9.0, 1.0, -1.0]), np.array([0.5, 0.5, 0.0, 0.0])):
        boxed = np.maximum(a, 0) if squared else np.clip(a, 0, C)
        sums = np.array([boxed[Y > 0].sum(), boxed[Y < 0].sum()])
        expected = boxed * np.where(Y > 0, *(sums.min() / sums))
        assert problem.feasible(a) == pytest.approx(expected)
        assert replace(problem, intercept=False).feasible(a) == pytest.approx(boxed)
    assert problem.feasible(np.zeros(4)).tolist() == [0.0] * 4
    assert problem.feasible(np.array([1e-299, 0.0, 0.0, 0.0])).tolist() == [0.0] * 4
    tiny = problem.feasible(np.array([4e-300, 1e-300, 0.0, 0.0]))
    assert tiny == pytest.approx(np.array([1e-300, 1e-300, 0.0, 0.0]), rel=1e-9, abs=0)


@pytest.mark.parametrize("squared", [False, True], ids=["hinge", "squared"])
@pytest.mark.parametrize("shape", [np.asarray, csr_array])
def test_a_dual_falls_by_its_slope_where_a_sum_is_moved(squared, shape):
    c, margin = np.array([1.5, 1.0, 0.5, 1.0]), np.array([1.0, 0.5, -2.0, 1.5])
    for s in (2.0**-6, -(2.0**-6), 0.5, -0.5, 0.6, -0.6, 0.0):
        a = np.array([0.5, 0.75, 0.25, 0.5 + s])
        problem = LinearProblem(shape(X), Y, c, squared, True, margin)
        v = Near(X.T @ (Y * a), np.array([0.5, 0.25]) / 1.01)
        room = np.where(Y * s < 0, np.inf if squared else c - a, a)
        j = np.argmax(np.where(np.isfinite(room), room, c))
        slope = 2.0 + 1.01 * (abs(X[j]) @ [0.5, 0.25]) + abs(X[j] @ v.v) + 0.5 * a[j] / c[j] * squared
        expected = 1.01 * (abs(s) * slope + 0.5 * s**2 * (X[j] @ X[j] + 0.5 / c[j] * squared))
        expected = expected if room[j] >= 2 * abs(s) else np.inf
        assert problem._fall(problem.X, a, v) == (0 if s == 0 else pytest.approx(expected, rel=1e-12))


def test_the_bound_of_the_optimum_is_the_dual_less_its_fall():
    a = np.array([0.5, 0.75, 0.25, 0.5 + 2.0**-8])
    problem = LinearProblem(X, Y, C)
    v = (X - X.mean(axis=0)).T @ (Y * a)
    fall = problem._fall(X - X.mean(axis=0), a, Near(v))
    assert problem.proven(np.zeros(2), 0.0, a)[1] == pytest.approx(a.sum() - v @ v / 2 - fall, rel=1e-13)
    assert linear.Plane(np.zeros(2), 0.0).dual == -np.inf


def test_the_best_rate_is_the_one_under_which_the_bound_falls_fastest():
    assert linear.best_rate(0.5, 3.0, 2.0) == Rate(0.5 * 2 / 6, 0.25 * 2 / 12)
    capped = linear.best_rate(0.5, 3.0, 100.0)
    assert (capped.first, capped.decay, capped.intercept) == (2.0, 0.5, 1.0)
    assert Rate(3.0, 0.5)(4) == 1.0


@pytest.mark.parametrize("shape", [np.asarray, csr_array])
def test_the_default_rate_is_that_of_the_mean_squares(shape, monkeypatch):
    rows = np.array([0, 2, 3])
    squares = (X**2).sum(axis=1)[rows]
    size = C[rows] @ squares / C[rows].sum() / 2
    problem = LinearProblem(shape(X), Y, C)
    mu = problem.lam + 0.2 * size
    expected = replace(linear.best_rate(mu, 3 * size, 2 / mu), intercept=size)
    found = linear.default_rate(problem, rows)
    assert vars(found) == pytest.approx(vars(expected))
    assert linear.default_rate(replace(problem, squared=True), rows).first == pytest.approx(
        1 / (problem.lam + 2 * (squares.max() + size)))
    assert linear.default_rate(LinearProblem(0 * X, Y, C), rows).intercept == 1.0
    monkeypatch.setattr(linear, "RATE_ROWS", 2)  # the first and the last of them
    ends = C[[0, 3]] @ squares[[0, 2]] / C[[0, 3]].sum() / 2
    assert linear.default_rate(problem, rows).intercept == pytest.approx(ends)


def test_of_many_rows_10_000_give_the_default_rate():
    class Asked(SimpleNamespace):
        def __getitem__(self, rows):
            self.rows = rows
            return np.ones((len(rows), 2))

    rows, n = Asked(), 10_001
    linear.default_rate(LinearProblem(rows, np.ones(n), np.ones(n)), np.arange(n))
    assert (len(rows.rows), rows.rows[0], rows.rows[-1]) == (10_000, 0, n - 1)


def test_rates_of_schedules():
    problem, default = LinearProblem(X, Y, C), Rate(0.5, 0.25, 7.0)
    cases = {("constant", None, 3.0): (0.5, 0.0), ("pegasos", 2.0, None): (2.0, 2 / 6.5),
             ("inverse", None, None): (0.5, 0.25), ("inverse", 2.0, 3.0): (2.0, 3.0)}
    for arguments, rate in cases.items():
        assert linear.chosen_rate(default, problem, *arguments) == Rate(*rate, 7.0)
    with pytest.raises(ValueError, match="eta0 must be below nC"):
        linear.chosen_rate(default, LinearProblem(X, Y, np.full(4, 0.25)), "constant", 1.0, None)


@pytest.mark.parametrize("kink", [0.0, 0.3, "each"])
def test_no_breakpoint_is_a_better_intercept(kink):
    rng = np.random.default_rng(0)
    for _ in range(20):
        residual, lo, hi = rng.normal(size=6), -rng.random(6), rng.random(6)
        l1 = rng.random(6) if kink == "each" else kink
        points = np.r_[residual - l1, residual + l1]
        for total in (0.0, lo.sum() / 2, hi.sum() / 2):
            def value(b0, residual=residual, lo=lo, hi=hi, l1=l1, total=total):
                r = residual - b0
                return hi @ np.maximum(0, r - l1) - lo @ np.maximum(0, -r - l1) + total * b0

            found = linear.best_intercept(residual, lo, hi, l1, total)
            assert value(found) == pytest.approx(min(map(value, points)))
        y = np.where(rng.random(6) < 0.5, 1.0, -1.0)
        found = linear.hinge_intercept(residual, y, hi)
        values = [hi @ np.maximum(0, y * (residual - b0)) for b0 in (*residual, found)]
        assert values[-1] == pytest.approx(min(values))


def test_far_columns_do_not_widen_the_bound_of_the_optimum():
    """Rows are counted from their mean, which changes nothing in real numbers: sum a_i y_i = 0."""
    a = np.array([0.5, 0.75, 0.25, 0.5])
    near, far = (LinearProblem(X + away, Y, C).proven(np.zeros(2), 0.0, a)[1] for away in (0.0, 2.0**26))
    assert far == pytest.approx(near, abs=1e-12)


def test_margins_are_1_where_none_are_given():
    assert LinearProblem(X, Y, C).slack(np.zeros(2), 0.0).tolist() == [1.0] * 4


def test_where_losses_only_fall_the_intercept_is_the_last_breakpoint():
    residual = np.array([3.0, -1.0, 2.0])
    assert linear.best_intercept(residual, np.zeros(3), np.ones(3), 0.0, -1e-18) == 3.0
