"""The smallest soft ball is as its docstrings say: radius, program, certificate, and the steps of its solve.

u = 2^-53 is one rounding. That no bound of the certificate is false is shown in fractions (``test_proven_gaps.py``).
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from buttress.gram.rounding import Product
from buttress.solvers.ball import soft_ball
from buttress.solvers.qp.solve import Limits
from buttress.solvers.run import Outcome

U = float(np.finfo(np.float64).eps) / 2


def radius_cost(d2, weight, total, r2):
    return r2 + weight @ np.maximum(d2 - r2, 0) / total


def test_no_radius_costs_less_and_of_equal_ones_the_middle_is_taken():
    rng = np.random.default_rng(0)
    for _ in range(8):
        d2, weight = rng.random(7), rng.integers(1, 4, 7).astype(float)
        for total in (*np.cumsum(weight[np.argsort(-d2)]), 0.5, 1.5, weight.sum() * 0.77):
            costs = np.array([radius_cost(d2, weight, total, r2) for r2 in d2])
            best = d2[costs <= costs.min() + 1e-12]
            found = soft_ball.quantile_radius(d2, weight, total)
            assert found == pytest.approx((best.min() + best.max()) / 2)


def test_weights_within_rounding_of_the_total_count_as_equal(monkeypatch):
    d2 = np.array([1.0, 3.0, 2.0])
    for total, expected in ((1 - 0.9e-12, 2.5), (1 + 0.9e-12, 2.5), (1 - 1.1e-12, 3.0), (1 + 1.1e-12, 2.0)):
        assert soft_ball.quantile_radius(d2, np.ones(3), total) == expected
    assert soft_ball.quantile_radius(d2, np.ones(3), 3.0) == 1.0
    assert soft_ball.quantile_radius(d2, np.ones(3), 3.5) == 1.0
    monkeypatch.setattr(soft_ball, "SAME_WEIGHT", 0.0)
    assert soft_ball.quantile_radius(d2, np.ones(3), 1.0) == 2.5


def test_a_value_is_moved_outward_by_eight_roundings():
    assert soft_ball.outward(1.0) == 1 + 8 * U
    assert soft_ball.outward(-1.0) == -1 + 8 * U


def test_the_rows_farthest_away_are_filled_first():
    away, weight = np.array([0.5, 3.0, -1.0, 2.0]), np.array([1.0, 0.5, 1.0, 2.0])
    for total, expected in ((0.25, [0.0, 0.25, 0.0, 0.0]), (2.0, [0.0, 0.5, 0.0, 1.5]), (3.0, [0.5, 0.5, 0.0, 2.0]),
                            (4.5, [1.0, 0.5, 1.0, 2.0])):
        assert soft_ball.farthest(away, weight, total).tolist() == expected


POINTS = np.random.default_rng(0).normal(size=(9, 2))


class Gram(SimpleNamespace):
    """Rows of a matrix K; its products are off by ``errors`` at most, and its diagonal by ``of_diagonal``."""

    real, errors, of_diagonal = np.float64, 0.0, 0.0

    def __len__(self):
        return len(self.K)

    @property
    def diagonal(self):
        return np.diag(self.K)

    @property
    def capacity(self):
        return len(self.K)

    def fetch(self, some):
        return self.K[some]

    def proven_times(self, b, rows=None):
        return Product(self.K @ b, self.errors * np.ones(len(b)), True)

    @property
    def diagonal_errors(self):
        return self.of_diagonal * np.ones(len(self))


def gram_rows(X=POINTS):
    return Gram(K=np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 2))


def test_first_distances_are_those_to_the_mean():
    K, weight = gram_rows().K, np.arange(1.0, 10.0)
    weight *= 9 / weight.sum()
    away, scale = soft_ball.first_distances(gram_rows(), weight)
    whole = np.diag(K) - 2 * K.mean(axis=0) + K.mean()
    assert away - whole == pytest.approx(np.full(9, -K.mean()))
    assert scale == pytest.approx(weight @ whole / 9)
    many = np.arange(200.0)[:, None] / 10  # the centre is that of 64 of them, the first and the last among them
    some = np.linspace(0, 199, 64).astype(int)
    assert soft_ball.first_distances(gram_rows(many), np.ones(200))[0] == pytest.approx(
        1 - 2 * gram_rows(many).K[some].mean(axis=0))


@pytest.mark.parametrize(("spread", "known"), [(1.1e-13, True), (0.9e-13, False), (0.0, False)])
def test_a_spread_that_is_rounding_is_replaced_by_1(spread, known):
    """Two rows with k(x, x) = 1 and 1/4, and a mean squared distance to their middle of ``spread``."""
    K = np.diag([1.0, 0.25]) + np.array([[0.0, 0.625 - 2 * spread], [0.625 - 2 * spread, 0.0]])
    scale = soft_ball.first_distances(Gram(K=K), np.ones(2))[1]
    assert scale == (pytest.approx(spread, rel=0.01) if known else 1.0)


def test_a_spread_at_the_border_is_rounding(monkeypatch):
    K = np.array([[1.0, 0.0], [0.0, 1.0]])
    monkeypatch.setattr(soft_ball, "NO_SPREAD", 0.5)
    assert soft_ball.first_distances(Gram(K=K), np.ones(2))[1] == 1.0
    monkeypatch.setattr(soft_ball, "NO_SPREAD", 0.49)
    assert soft_ball.first_distances(Gram(K=K), np.ones(2))[1] == 0.5


def test_the_program_of_a_ball():
    weight = np.arange(1.0, 10.0)
    qp, scale = soft_ball.ball_program(gram_rows(), weight, 3.0, None)
    assert scale == pytest.approx(soft_ball.first_distances(gram_rows(), weight / 5)[1])
    assert qp.p.tolist() == [1.5] * 9
    assert qp.hi == pytest.approx(weight / 5)
    assert (qp.lo.tolist(), qp.l1.tolist()) == ([0.0] * 9, [0.0] * 9)
    assert qp.start.sum() == pytest.approx(3.0)
    given = soft_ball.ball_program(gram_rows(), weight, 3.0, np.full(9, 1 / 9))[0]
    assert given.start == pytest.approx(np.full(9, 1 / 3))


@pytest.mark.parametrize(("errors", "of_diagonal"), [(0.0, 0.0), (2.0**-10, 0.0), (0.0, 2.0**-10)])
def test_what_is_said_of_a_ball_is_what_its_certificate_says(errors, of_diagonal):
    """The certificate of b in its own units, 2 / (nu n)^2 of it in those of squared distances."""
    rows = Gram(K=gram_rows().K * np.outer(np.arange(1, 10), np.arange(1, 10)), errors=errors, of_diagonal=of_diagonal)
    weight, nu = np.ones(9), 0.4
    total = nu * 9
    b = np.minimum(1.0, np.arange(9) / 10.0)
    a, K = b / total, rows.K
    ball = soft_ball.ball_of(rows, weight, nu, b, "half")
    d2 = np.diag(K) - 2 * K @ a + a @ K @ a
    r2 = soft_ball.quantile_radius(d2, weight, total)
    assert ball.a == pytest.approx(a)
    assert (ball.norm2, ball.radius2) == (pytest.approx(a @ K @ a), pytest.approx(r2))
    assert ball.distance2 == pytest.approx(d2)
    assert (ball.outcome.status, ball.outcome.objective) == ("half", np.inf)
    assert not ball.converged
    qp = soft_ball.ball_program(rows, weight, total, None)[0]
    of_p = total / 2 * of_diagonal + 2 * U * abs(qp.p)
    proof = soft_ball.certificate(qp, b, Product(K @ b, errors + 2 * of_p, True), total / 2 * (r2 - a @ K @ a),
                                  total)
    unit = 2 / total**2
    assert ball.primal == pytest.approx(unit * proof.primal, rel=1e-14)
    assert ball.dual == pytest.approx(unit * proof.dual, rel=1e-14)
    assert ball.gap == pytest.approx(unit * proof.gap, rel=1e-14)
    assert (ball.primal > unit * proof.primal) & (ball.dual < unit * proof.dual) & (ball.gap > unit * proof.gap)
    scaled = ball.times(3.0)
    for name in ("norm2", "radius2", "slack", "primal", "dual", "gap"):
        assert getattr(scaled, name) == pytest.approx(3 * getattr(ball, name), rel=1e-14)
    assert scaled.distance2 == pytest.approx(3 * d2)
    assert (scaled.primal > 3 * ball.primal) & (scaled.dual < 3 * ball.dual) & (scaled.gap > 3 * ball.gap)
    again = soft_ball.recounted(rows, weight, nu, ball)
    assert again.primal == pytest.approx(ball.primal, rel=1e-12)
    assert again.converged == ball.converged


def test_the_error_of_p_is_all_that_a_ball_of_rounding_has():
    """One row that is its own ball: nothing is left but the allowance for p = nu n k(x, x) / 2."""
    ball = soft_ball.certified(soft_ball.ball_program(Gram(K=np.ones((2, 2))), np.ones(2), 1.0, None)[0],
                               np.full(2, 0.5), 1.0, Outcome(None, "", 0, 0.0))
    qp = soft_ball.ball_program(Gram(K=np.ones((2, 2))), np.ones(2), 1.0, None)[0]
    each = np.ones(2)
    proof = soft_ball.certificate(qp, np.full(2, 0.5), Product(each, 2 * 2 * U * 0.5 * each, True), -0.5, 1.0)
    assert ball.gap == pytest.approx(2 * proof.gap, rel=1e-12, abs=0)


def test_the_slack_of_a_radius_is_its_rounding_or_the_violation():
    K = gram_rows().K
    qp = soft_ball.ball_program(Gram(K=K), np.ones(9), 3.0, None)[0]
    b = np.full(9, 1 / 3)
    ball = soft_ball.certified(qp, b, 3.0, Outcome(None, "", 0, 0.0))
    assert ball.slack == pytest.approx(ball.distance2.max() - ball.distance2.min())
    b = np.array([0.0, *[0.5] * 7, 1.0])  # the farthest row cannot rise, the nearest one cannot fall
    qp = soft_ball.ball_program(Gram(K=np.diag([*range(1, 9), 20.0])), np.ones(9), 4.5, None)[0]
    ends = soft_ball.certified(qp, b, 4.5, Outcome(None, "", 0, 0.0))
    assert ends.slack == pytest.approx(ends.distance2[b < 1].max() - ends.distance2[b > 0].min())
    assert ends.slack < np.ptp(ends.distance2) / 2
    even = soft_ball.ball_program(Gram(K=np.array([[3.0, 1.0], [1.0, 5.0]])), np.ones(2), 1.0, None)[0]
    rounding = soft_ball.certified(even, np.full(2, 0.5), 1.0, Outcome(None, "", 0, 0.0)).slack
    assert rounding == pytest.approx(128 * U * (5 + 2 * 3 + 2.5), rel=1e-9, abs=0)


@pytest.mark.parametrize("seconds", [None, 3.0])
def test_a_certificate_may_take_a_quarter_of_a_second_more(seconds, monkeypatch):
    monkeypatch.setattr(soft_ball, "ending", lambda limit: limit)
    assert soft_ball.in_the_end(seconds) == (None if seconds is None else 3.25)


def test_without_time_what_the_rows_say_is_measured():
    class Slow(Gram):
        def proven_times(self, b, rows=None):
            raise TimeoutError

    K = gram_rows().K
    b = np.full(9, 1 / 3)
    qp = soft_ball.ball_program(Slow(K=K), np.ones(9), 3.0, None)[0]
    outcome = Outcome(None, "converged", 0, 0.0)
    ball = soft_ball.certified_in_time(qp, soft_ball.Point(b, stored=K @ b), 3.0, outcome, lambda: None)
    assert (ball.proven, outcome.status) == (False, "late")
    whole = soft_ball.certified(replace(qp, rows=Gram(K=K)), b, 3.0, outcome)
    assert (whole.proven, whole.primal) == (True, pytest.approx(ball.primal))
    with pytest.raises(TimeoutError):
        soft_ball.certified_in_time(qp, soft_ball.Point(b), 3.0, outcome, lambda: None)


class Solve:
    """A solve of two rows with stand-ins for its parts: phases of 7 steps, then balls of the given ``gaps``."""

    def __init__(self, monkeypatch, gaps, primal=1.0, status="converged", real=np.float64):
        self.gaps, self.primal, self.status = list(gaps), primal, status
        self.targets, self.allowed, self.widened, self.finished = [], [], 0, 0
        self.rows = Gram(K=np.eye(2), real=real, cache=SimpleNamespace(widen=self.widen))
        monkeypatch.setattr(soft_ball, "block_smo", lambda *parts, **more: None)
        for name in ("follow", "exact_finish", "certified_in_time"):
            monkeypatch.setattr(soft_ball, name, getattr(self, name))

    def follow(self, steps, limits, target, seconds, allowed, patience, **more):
        self.targets.append(target)
        self.allowed.append(allowed)
        return Outcome(soft_ball.Point(np.ones(2)), self.status, 7, 0.0)

    def exact_finish(self, qp, state, left):
        self.finished += 1
        return state

    def certified_in_time(self, qp, point, total, outcome, left):
        none = np.zeros(2)
        return soft_ball.SoftBall(none, 0.0, none, 0.0, 0.0, self.primal, 0.0, self.gaps.pop(0), True, outcome, False)

    def widen(self):
        self.widened += 1
        self.rows.real = np.float64

    def run(self, nu=0.5, max_iter=None, **more):
        return soft_ball.solve_ball(self.rows, np.ones(2), nu, Limits(max_iter=max_iter), **more)


@pytest.mark.parametrize(("nu", "many"), [(0.5, 1.0), (100.0, 1.0), (300.0, 3.0)])
def test_pairs_go_on_to_a_tenth_until_the_gap_is_small(monkeypatch, nu, many):
    """From tol times the mean squared distance, a half here, and above nu n = 200 that of squared distances."""
    solve = Solve(monkeypatch, [1e-2, 1.01e-3, 1e-3])
    ball = solve.run(nu)
    assert solve.targets == pytest.approx([many * 1e-3 * 0.5 / 10**k for k in range(3)])
    assert (ball.converged, ball.outcome.n_iter, solve.finished) == (True, 21, 3)
    assert solve.allowed == [np.inf] * 3


def test_pairs_are_given_up_below_the_smallest_tolerance(monkeypatch):
    monkeypatch.setattr(soft_ball, "TIGHTEST", 0.01)
    monkeypatch.setattr(soft_ball, "TIGHTENING", 10.0)
    solve = Solve(monkeypatch, [1.0] * 9)
    assert not solve.run().converged
    assert len(solve.targets) == 4 or solve.targets[2] < 0.01 * solve.targets[0]
    monkeypatch.setattr(soft_ball, "TIGHTEST", 0.25)
    monkeypatch.setattr(soft_ball, "TIGHTENING", 2.0)
    solve = Solve(monkeypatch, [1.0] * 9)
    assert not solve.run().converged
    assert len(solve.targets) == 4


@pytest.mark.parametrize(("gap", "converged"), [(0.9, True), (1.1, False)])
def test_of_a_primal_of_0_a_gap_of_1e_12_of_the_spread_is_none(monkeypatch, gap, converged):
    solve = Solve(monkeypatch, [gap * 1e-12 * 0.5, 0.0], primal=0.0)
    assert solve.run().converged
    assert len(solve.targets) == (1 if converged else 2)


def test_steps_that_are_left_are_those_not_used(monkeypatch):
    solve = Solve(monkeypatch, [1.0, 1.0, 0.0])
    solve.run(max_iter=20)
    assert solve.allowed == [20, 13, 6]


def test_stored_rows_in_float32_are_computed_again_before_the_tolerance_is_lowered(monkeypatch):
    solve = Solve(monkeypatch, [1.0, 1.0, 0.0], real=np.float32)
    assert solve.run().converged
    assert solve.targets == pytest.approx([5e-4, 5e-4, 5e-5])
    assert solve.widened == 1


@pytest.mark.parametrize("status", ["max_iter", "stalled", "late"])
def test_what_has_not_converged_is_not_called_so(monkeypatch, status):
    solve = Solve(monkeypatch, [1.0, 0.0], status=status)
    assert not solve.run().converged
    assert solve.finished == (status == "stalled")
    assert Solve(monkeypatch, [0.0], status=status).run().converged == (status == "stalled")


def test_the_active_set_finishes_few_rows(monkeypatch):
    for most, finished in ((2, 1), (1, 0)):
        solve = Solve(monkeypatch, [0.0])
        solve.run(exact_rows=most)
        assert solve.finished == finished
