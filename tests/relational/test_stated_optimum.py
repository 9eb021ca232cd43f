"""The climb to a certified optimum takes the steps, and states the bounds, that its docstrings name.

u = 2^-53 is one rounding. That no bound of planes is false is shown in fractions (``test_oracle.py``).
"""

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from buttress.relational.counting.margins import Evaluation
from buttress.relational.optimum import certified, solve
from buttress.relational.optimum.certified import CertifiedPoint, Climber, PlanePool
from buttress.relational.sources.databases import SourceChangedError
from buttress.solvers.gradient.sent import lbfgs_points
from buttress.solvers.run import Outcome, Step

U = Fraction(1, 2**53)


@pytest.fixture(autouse=True)
def _one_plane_is_all(monkeypatch):
    """The weights of least value, where no more than one plane has a slope."""
    monkeypatch.setattr(certified, "simplex_minimiser",
                        lambda B, a: np.eye(len(a))[(a - (B * B).sum(axis=1) / 2).argmax()])


def pool_of(*planes, width=5):
    pool = PlanePool(width)
    for a, b, *tilt in planes:
        pool.add(a, np.resize([b, *np.zeros(width - 1)], width), *tilt)
    return pool


# planes


def test_roundings_of_a_bound_are_one_of_each_plane_and_column_and_16():
    """Of values, with b = 0, they count twice; of lengths once each, squared, beside the 8 of the quotient."""
    each = (1 + 5 + 16) * U
    of_value = pool_of((1.0, 0.0))._proven(np.ones(1), np.zeros(5), 1.0)
    assert 1 - Fraction(of_value) == 2 * each
    one = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    of_length = -pool_of((0.0, 1.0))._proven(np.ones(1), one, 0.25)
    assert Fraction(of_length) - 1 == 2 * each + 8 * U


@pytest.mark.parametrize(("v", "share"), [(0.5, 1.0), (1.0, 1.0), (2.0, 0.5)])
def test_a_bound_is_that_of_weights_whose_sum_is_at_most_1(v, share):
    pool = pool_of((3.0, 2.0, 0.25), (-0.5, 1.0, 0.0))
    both = np.array([v, 0.0])
    assert pool._proven(both, pool.B.T @ both, 0.5) == pytest.approx(
        share * v * 3.0 - (share * v * 2.0 + share * v * 0.25) ** 2 / 2)


def test_the_least_of_the_model_is_where_the_bound_is(monkeypatch):
    asked = []
    monkeypatch.setattr(certified, "simplex_minimiser", lambda B, a: asked.append(B) or np.ones(1))
    value, beta = pool_of((1.0, 2.0)).bound(0.75)
    assert asked[0] * 1.5**0.5 == pytest.approx(np.array([[2.0, 0, 0, 0, 0]]))  # half its square is what it costs
    assert value == pytest.approx(1 - 4 / 3)
    assert beta == pytest.approx([2 / 1.5, 0, 0, 0, 0])


def test_of_too_many_planes_the_one_unused_for_longest_goes(monkeypatch):
    """A plane is used if its weight is above 1e-6."""
    monkeypatch.setattr(certified, "MOST_PLANES", 4)
    monkeypatch.setattr(certified, "simplex_minimiser", lambda B, a: np.array([1.0, 1e-6, 1.1e-6, 0.9e-6])[: len(a)])
    pool = pool_of((1.0, 1.0, 0.1), (2.0, 2.0, 0.2), (3.0, 3.0, 0.3), (4.0, 4.0, 0.4))
    pool.bound(1.0)
    assert pool.age.tolist() == [0, 1, 0, 1]
    pool.age[3] += 5
    pool.bound(1.0)
    pool.add(5.0, np.full(5, 5.0), 0.5)
    assert pool.a.tolist() == [1.0, 2.0, 3.0, 5.0]
    assert pool.B[:, 0].tolist() == [1.0, 2.0, 3.0, 5.0]
    assert pool.tilt.tolist() == [0.1, 0.2, 0.3, 0.5]
    assert pool.age.tolist() == [0, 2, 0, 0]
    assert len(pool) == 4


def test_200_planes_are_kept():
    assert len(pool_of(*[(float(k), 1.0) for k in range(201)])) == 200


# the climb


class Oracle:
    """Replies with given evaluations in turn, and notes what it was asked."""

    can_refine = True

    def __init__(self, *seen):
        self.seen, self.asked = list(seen), []

    def __call__(self, beta, loss=None, bins=None):
        self.asked.append((beta.tolist(), getattr(loss, "name", ""), bins))
        return self.seen.pop(0) if len(self.seen) > 1 else self.seen[0]


def seen(lower=0.5, upper=1.0, b=0.0, a=0.0, smooth=0.75, width=5):
    return Evaluation(a, np.resize([b, *np.zeros(width - 1)], width), lower, upper, smooth)


def climb(*replies, alpha=1.0, tol=1e-3, **of):
    return Climber(Oracle(*replies), "hinge", alpha, PlanePool(5), tol, **of)


def test_the_objective_is_a_little_above_its_sum():
    """|beta|^2 = 4 of 4 columns, and 12 roundings of it."""
    one = Climber(Oracle(seen(0.0, 0.0, width=4)), "hinge", 1.0, PlanePool(4), 1e-3)
    one.visit(np.ones(4), 0.0)
    assert abs(Fraction(one.best.high) - 4 - 48 * U) <= 4 * U


def test_an_interval_only_narrows():
    one = climb(seen(0.25, 1.0, a=0.5), seen(0.25, 1.0, a=0.75), seen(0.5, 0.875, a=0.25), alpha=0.25)
    points = [np.zeros(5), np.zeros(5), np.array([0.5, 0.0, 0.0, 0.0, 0.0])]
    found = [one.visit(point, 0.0)[1].state for point in points]
    assert [state.high for state in found] == pytest.approx([1.0, 1.0, 0.875 + 0.0625])
    assert [state.low for state in found] == pytest.approx([0.5, 0.75, 0.75])
    assert [state.calls for state in found] == [1, 2, 3]
    assert found[1].beta is points[0]  # no better: the first one stays
    assert found[2].beta is points[2]
    assert one.slack == 0.375
    assert found[2].gap == pytest.approx(0.1875 / 0.9375)
    assert [CertifiedPoint(np.zeros(0), low, high, 1).gap for low, high in ((2.0, 1.0), (0.0, 0.0))] == [0.0, 0.0]
    assert len(one.pool) == 3


@pytest.mark.parametrize("high", [1.0, 3.0])
def test_bounds_that_cross_by_more_than_rounding_are_refused(high):
    one = climb(seen())
    for off in (1.0, 0.9, 1.1):
        one.best = CertifiedPoint(np.zeros(5), high + off * (1e-9 * (1 + high)), high, 1)
        if off > 1:
            with pytest.raises(SourceChangedError, match="changed while they were counted"):
                one._check()
        else:
            one._check()


@pytest.mark.parametrize(("slack", "bins", "can", "refined"), [
    (0.34, 1 << 10, True, True), (0.33, 1 << 10, True, False), (0.34, 1 << 19, True, True),
    (0.34, 1 << 20, True, False), (0.34, 1 << 10, False, False)])
def test_a_grid_is_refined_where_rounding_is_a_third_of_what_is_asked(slack, bins, can, refined):
    one = climb(seen(), bins=bins, slack=slack * 1e-3 * 2.0, best=CertifiedPoint(np.zeros(5), 0.0, 2.0, 1))
    one.oracle.can_refine = can
    assert one.refine() == refined
    assert one.bins == bins * (4 if refined else 1)


def test_rounding_of_a_third_itself_is_borne():
    tol = 0.25
    one = climb(seen(), tol=tol, slack=tol * (1 / 3) * 2.0, best=CertifiedPoint(np.zeros(5), 0.0, 2.0, 1))
    assert not one.refine()


class Visited:
    """A climb that notes where it is asked, of which the first ``fine`` calls ask for a finer grid."""

    def __init__(self, fine=0, high=2.0, tol=0.5, b=0.0, loss="hinge"):
        self.loss, self.alpha, self.tol, self.fine, self.visits = loss, 0.25, tol, fine, []
        self.best = CertifiedPoint(np.ones(5), 0.0, high, 0)
        self.model = np.array([3.0, 1.0, 1.0, 1.0, 1.0])
        self.reply = seen(b=b)

    def visit(self, beta, width):
        self.visits.append((beta.tolist(), width))
        return self.reply, Step(self.best, gap=1.0, objective=1.0)

    def refine(self):
        self.fine -= 1
        return self.fine >= 0


def test_a_start_is_evaluated_on_finer_grids_and_with_both_rounded_hinges():
    one = Visited(fine=2)
    assert [type(step) for step in certified.certify(one, np.zeros(5))] == [Step] * 5
    assert [width for _, width in one.visits] == [0.0, 0.0, 0.0, 0.05, 0.01]
    smooth = Visited(loss="logistic")
    assert len(list(certified.certify(smooth, np.zeros(5)))) == 1


@pytest.mark.parametrize(("loss", "widths"), [("hinge", [0.05] * 25 + [0.01] * 25), ("logistic", [0.0] * 250)])
def test_polishing_has_25_calls_for_each_width_and_250_for_a_smooth_loss(loss, widths, monkeypatch):
    def points(beta):
        while True:
            yield beta

    monkeypatch.setattr(certified, "lbfgs_points", points)
    one = Visited(loss=loss, b=9.0)
    list(certified.polish(one))
    assert [width for _, width in one.visits] == widths


@pytest.mark.parametrize(("off", "calls"), [(0.99, 1), (1.01, 5)])
def test_polishing_ends_where_the_slope_leaves_a_fifth_of_what_is_asked(off, calls, monkeypatch):
    """|slope|^2 / (4 alpha) is how far the value is from the least at most, as it is 2 alpha-strongly convex."""
    sent = []

    def points(beta):
        while True:
            sent.append((yield beta))

    monkeypatch.setattr(certified, "lbfgs_points", points)
    one = Visited()
    slope = np.sqrt(off * 0.2 * one.tol * 2.0 * 4 * 0.25)
    one.reply = replace(seen(), b=np.array([0.5 - slope, 0.5, 0.5, 0.5, 0.5]))  # of the ridge at 1: 2 * 0.25
    assert len(list(certified._polish_smoothed(one, 0.0, 5))) == calls
    for value, gradient in sent:
        assert value == pytest.approx(0.75 + 0.25 * 5)
        assert gradient == pytest.approx([slope, 0, 0, 0, 0])


def test_polishing_ends_at_the_border_too(monkeypatch):
    monkeypatch.setattr(certified, "POLISH_SHARE", 0.25)
    one = Visited()
    one.reply = replace(seen(), b=np.array([0.0, 0.5, 0.5, 0.5, 0.5]))  # a slope of 1/2
    assert len(list(certified._polish_smoothed(one, 0.0, 5))) == 1


def test_bundle_steps_are_the_least_of_the_model_and_before_it():
    one = Visited(fine=1)
    steps = certified.bundle(one)
    assert [type(next(steps)) for _ in range(5)] == [Step] * 5
    before = [1.6, 1.0, 1.0, 1.0, 1.0]
    points = [point for point, _ in one.visits]
    assert points == [pytest.approx(at) for at in (np.ones(5), before, one.model, before, one.model)]
    assert {width for _, width in one.visits} == {0.0}


def test_solvers_are_parts_of_the_climb(monkeypatch):
    for name in ("certify", "polish", "bundle"):
        monkeypatch.setattr(certified, name, lambda *parts, name=name: iter([name]))
    said = {solver: list(certified.certified_steps(None, None, solver)) for solver in ("auto", "sample")}
    assert said == {"auto": ["certify", "polish", "bundle"], "sample": ["certify"]}


# the parts of a fit


class Drawn:
    """An oracle that gives a sample of rows."""

    def __init__(self, y):
        self.y = np.array(y)
        self.X = np.random.default_rng(0).normal(size=(len(y), 2))
        self.weight = np.arange(1.0, len(y) + 1)

    def sample(self, most, rng):
        self.most = most
        return self.X, self.y, self.weight


def test_a_sample_starts_at_the_optimum_of_its_rows():
    oracle = Drawn([1, -1, -1, 1, 1, -1])
    alpha, rng = 0.3, np.random.RandomState(0)
    beta = solve.sample_start(oracle, SimpleNamespace(n_samples=6, loss="logistic"), alpha, rng)
    margins = oracle.y * (oracle.X @ beta)
    share = oracle.weight / oracle.weight.sum()
    assert 2 * alpha * beta == pytest.approx((share * oracle.y / (1 + np.exp(margins))) @ oracle.X, rel=1e-3)
    squared = solve.sample_start(oracle, SimpleNamespace(n_samples=6, loss="squared_hinge"), alpha, rng)
    margins = oracle.y * (oracle.X @ squared)
    slopes = share * oracle.y * 2 * np.maximum(0, 1 - margins)
    assert 2 * alpha * squared == pytest.approx(slopes @ oracle.X, rel=0.01)
    only = solve.sample_start(Drawn([1, 1, 1]), SimpleNamespace(n_samples=3, loss="hinge"), alpha, rng)
    assert only.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("off", "same"), [(1.9e-9, True), (2.1e-9, False)])
def test_a_checkpoint_is_of_the_same_rows_up_to_the_order_of_their_sums(off, same, monkeypatch):
    monkeypatch.setattr(solve, "current_journal", lambda: True)
    monkeypatch.setattr(solve, "kept", lambda key, computed: {"sums": np.full(5, 1 + off)})
    oracle, plan = Oracle(replace(seen(), b=np.ones(5))), SimpleNamespace(nodes=[], width=5)
    if same:
        solve.check_same_rows(oracle, plan)
        return
    with pytest.raises(ValueError, match="not those of the checkpoint"):
        solve.check_same_rows(oracle, plan)


def test_scores_to_calibrate_by():
    oracle = Drawn([1, -1, -1, 1, 0])
    beta = np.array([0.5, -2.0])
    held, spread = solve.sampled_scores(oracle, beta, np.random.RandomState(0))
    w = oracle.weight / oracle.weight.sum()
    assert vars(held)["scores"] == pytest.approx((oracle.X @ beta)[:, None])
    assert held.weight == pytest.approx(5 * w)
    assert spread == pytest.approx(np.sqrt(w @ (oracle.X - w @ oracle.X) ** 2))
    assert held.codes.tolist() == [1, 0, 0, 1, 0]
    assert oracle.most == 10_000
    assert held.n_classes == 2


MODEL = SimpleNamespace(loss="hinge", tol=1e-3, max_time=None, progress=False, solver="auto", max_iter=None)


@pytest.mark.parametrize(("solver", "max_iter", "warn"), [("auto", 7, True), ("auto", None, True),
                                                          ("sample", None, False)])
def test_a_run_warns_only_where_it_is_to_reach_its_tolerance(solver, max_iter, warn, monkeypatch):
    asked = []

    def run(steps, **options):
        asked.append(options)
        return Outcome(None, "converged", 0, 0.0)

    monkeypatch.setattr(solve, "run", run)
    pool = pool_of((-1.0, 0.0))  # a bound below 0, where no loss is
    seen_by = []
    monkeypatch.setattr(solve, "certified_steps", lambda one, *others: seen_by.append(one))
    model = SimpleNamespace(**{**vars(MODEL), "solver": solver, "max_iter": max_iter})
    solve.solve(Oracle(seen()), pool, model, 0.5, lambda: None, None)
    assert (asked[0]["tol"], asked[0]["max_iter"], asked[0]["warn"]) == (1e-3, max_iter, warn)
    assert seen_by[0].best.low == 0.0
    solve.solve(Oracle(seen()), pool_of((0.25, 0.0)), model, 0.5, lambda: None, None)
    assert seen_by[1].best.low == pytest.approx(0.25)


def test_lbfgs_leaves_out_what_bends_too_little_for_floats():
    """The squares of a curvature of 1e-15 beside steps of 1e-150 are 0."""
    points = lbfgs_points(np.array([0.0, 1e-135]))
    x = next(points)
    for _ in range(4):
        x = points.send((1e-8 * x[0] + 5e-16 * x[1] ** 2, np.array([1e-8, 1e-15 * x[1]])))
    np.testing.assert_allclose(x, [-4e-8, 1e-135], rtol=1e-9)
