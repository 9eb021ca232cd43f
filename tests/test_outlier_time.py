"""Fits of balls within max_time, of which any moment may be the last: what they then state is true."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits
from verify_cases import held

from buttress import SVDD, MultiKernelSVDD, load, save, verify
from buttress._checks import NotConvergedWarning
from buttress._threads import ending, in_time, own_threads, share
from buttress.kernels import RBF, Laplacian, Polynomial
from buttress.outlier.detector import FEWEST

KERNELS = [RBF(0.3), Laplacian(0.8)]
BALLS = [SVDD(kernel=RBF(0.3)), SVDD(kernel=Polynomial(2, 0.3, 1.0), nu=0.3), MultiKernelSVDD(KERNELS),
         MultiKernelSVDD(KERNELS, objective="joint"), MultiKernelSVDD(KERNELS, objective="spread"),
         MultiKernelSVDD(KERNELS, objective="uniform")]
OBJECTIVES = ["minimax", "joint", "uniform"]  # whose gap is of a convex problem


def rows(n, seed=0):
    return np.random.default_rng(seed).standard_t(5, size=(n, 3))


def limited(model, seconds):
    return type(model)(**{**model.get_params(deep=False), "max_time": seconds})


@pytest.mark.parametrize("model", BALLS, ids=str)
def test_without_time_the_ball_is_that_of_few_rows_and_nothing_is_proven(model, tmp_path):
    X = rows(FEWEST + 200)
    with pytest.warns(NotConvergedWarning, match=f"fitted to {FEWEST} rows, those with a loo_weight_"):
        cut = limited(model, 1e-9).fit(X)
    counted = cut.loo_weight_ > 0
    assert counted.sum() == FEWEST
    assert (cut.converged_, cut.proof_) == (False, "measured")
    assert np.isnan(cut.dual_gap_)
    with pytest.warns(NotConvergedWarning):
        same = limited(model, 1e-9).fit(X, sample_weight=counted * 1.0)
    new = rows(50, 1)
    np.testing.assert_array_equal(cut.score_samples(new), same.score_samples(new))
    np.testing.assert_array_equal(cut.loo_scores_, same.loo_scores_)
    assert same.dual_gap_ >= 0
    left_out = cut.loo_scores_[counted]
    beyond = (left_out <= cut.score_samples(new)[:, None]).sum(axis=1)
    np.testing.assert_allclose(cut.p_values(new), (1 + beyond) / (1 + FEWEST))
    assert set(cut.predict(new)) == {-1, 1}
    save(cut, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(new), cut.predict(new))


class Ticking:
    """A clock on which a second goes by whenever it is looked at."""

    def __init__(self):
        self.seconds = itertools.count()

    def monotonic(self):
        return float(next(self.seconds))


@pytest.fixture
def clock(monkeypatch):
    ticking = Ticking()
    for module in ("_threads", "solvers.run", "solvers.watch"):
        monkeypatch.setattr(f"buttress.{module}.time", SimpleNamespace(monotonic=ticking.monotonic))
    monkeypatch.setattr("buttress.outlier.detector.FEWEST", 100)
    monkeypatch.setattr("buttress.solvers.ball.soft_ball.PATIENCE", 3.0)
    return ticking


def bounds(model):
    """The interval that a model says the optimum is in, of a convex problem."""
    return model.primal_objective_ - model.dual_gap_, model.primal_objective_


@pytest.mark.parametrize("model", BALLS, ids=str)
@pytest.mark.filterwarnings("ignore::buttress._checks.NotConvergedWarning")
def test_whenever_the_time_is_up_the_model_is_usable_and_states_what_is_true(model, clock, tmp_path):
    X = rows(2100)  # more rows than are stored in float64
    whole = limited(model, None).fit(X)
    ends, kinds = [1, 4, 11, 25, 60, 160, 1000, 1e7], set()
    for seconds in ends:
        cut = limited(model, seconds).fit(X)
        assert np.isfinite(cut.score_samples(X[:20])).all()
        assert math.isclose(cut.dual_coef_.sum(), 1, rel_tol=1e-9)
        few = (cut.loo_weight_ > 0).sum() == 100
        kinds.add((few, cut.proof_, cut.converged_))
        assert few == np.isnan(cut.dual_gap_)
        if few or cut.proof_ == "measured":
            assert (cut.converged_, cut.proof_) == (False, "measured")
        if not few and getattr(model, "objective", "minimax") in OBJECTIVES:
            low, high = bounds(cut)
            assert low * (1 - 1e-5) <= bounds(whole)[1]
            assert high * (1 + 1e-5) >= bounds(whole)[0]
    assert kinds == {(True, "measured", False), (False, "measured", False), (False, "proven", True)}
    np.testing.assert_array_equal(cut.dual_coef_, whole.dual_coef_)  # a limit that is not met changes nothing
    assert cut.dual_gap_ == whole.dual_gap_


def test_a_certificate_that_comes_too_late_is_not_claimed(clock, monkeypatch):
    X = rows(2100)
    monkeypatch.setattr("buttress.solvers.ball.soft_ball.PATIENCE", -1e9)
    with pytest.warns(NotConvergedWarning, match="had no time to prove its gap"):
        cut = SVDD(kernel=RBF(0.3), max_time=1e6).fit(X)
    whole = SVDD(kernel=RBF(0.3)).fit(X)
    assert (cut.converged_, cut.proof_, whole.proof_) == (False, "measured", "proven")
    assert cut.primal_objective_ == pytest.approx(whole.primal_objective_, rel=1e-4)
    assert np.abs(cut.score_samples(X) - whole.score_samples(X)).max() < 0.05


@pytest.mark.parametrize("threads", [1, 2])
def test_work_ends_between_parts_when_the_time_is_up(threads):
    done = []

    def work(parts):
        for part in parts:
            done.append(part)

    with threadpool_limits(threads), own_threads():
        with ending(-1.0), pytest.raises(TimeoutError):
            share(work, range(50), 1e9)
        assert done == []
        with ending(60.0), ending(None):
            share(work, range(50), 1e9)
        assert sorted(done) == list(range(50))
        assert list(in_time([3, 1])) == [3, 1]


@pytest.mark.parametrize("model", [SVDD(), MultiKernelSVDD(KERNELS, tol=1e-2)], ids=str)
def test_balls_of_many_rows_are_the_same_to_the_bit_from_any_number_of_threads(model):
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            model.fit(rows(2300))
        found.append((model.dual_coef_, model.loo_scores_, model.dual_gap_, model.primal_objective_))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_helpers_stop_too_and_an_error_is_passed_on_after_the_time_is_up():
    with ending(-1.0):
        late = in_time(range(3))
    with pytest.raises(TimeoutError):
        next(late)  # whatever thread draws it

    def work(parts):
        next(parts)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), ending(60.0):
        share(work, range(5), 1e9)


def test_the_claims_of_a_cut_fit_of_all_rows_are_proven_again(tmp_path):
    X = rows(400)
    with pytest.warns(NotConvergedWarning, match="max_time"):
        model = SVDD(kernel=RBF(0.3), nu=0.2, tol=1e-9, max_time=1e-9).fit(X)
    assert model.proof_ == "proven"
    save(model, tmp_path / "model")
    assert held(verify.read_model(tmp_path / "model"), X, None, None)
