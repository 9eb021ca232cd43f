"""Roots of many children: products of spectra give what products of lists give."""

import numpy as np
import pytest
from relational_problems import design, hinge_mean, joined, materialise, random_join
from sklearn.svm import LinearSVC

from buttress.relational import RelationalLinearSVC
from buttress.relational.counting import spectral
from buttress.relational.counting.grid import GridOracle
from buttress.relational.counting.lists import Lists
from buttress.relational.counting.margins import hinge, logistic
from buttress.relational.plan.prepare import prepare


def star_oracle(join):
    """The oracle of a star of four tables, and the one in it that multiplies spectra."""
    oracle = GridOracle(prepare(join))
    assert len(oracle.schedule.root.lists) == 2
    assert len(oracle.star.schedule.root.lists) == 3
    return oracle


@pytest.mark.parametrize("seed", range(3))
def test_spectra_give_what_lists_give(seed):
    for how in ({}, {"weights": True}, {"left": True}):
        oracle = star_oracle(joined(seed, shape="star", **how))
        beta = np.random.default_rng(seed).normal(size=oracle.plan.width)
        for loss in (logistic(), hinge(), hinge(0.05)):
            for step in (0.3, 0.0371):
                a, b = oracle.at_step(beta, loss, step), oracle.star.at_step(beta, loss, step)
                assert (a.a, a.lower, a.upper) == pytest.approx((b.a, b.lower, b.upper), abs=1e-12)
                np.testing.assert_allclose(a.b, b.b, atol=1e-12)


def test_one_row_consults_sums_of_all_choices():
    """Against all sums of an entry of each list, one by one."""
    rng = np.random.default_rng(0)
    lists = []
    for width in (3, 4, 6):
        bins = np.sort(rng.choice(width, 2, replace=False)).astype(np.int32)
        bins[1] = width - 1
        lists.append(Lists(np.array([0]), np.array([2]), bins, rng.uniform(1, 2, 2), width))
    slope = rng.normal(size=(2, 2 + 2 + 3 + 5))
    worth = [np.zeros(2) for _ in lists]
    keys = [np.zeros(1, dtype=np.int64)] * 3
    meeting = spectral.Meeting(lists, 2, slope)
    count = meeting.add(np.array([1], dtype=np.int32), np.array([0.5]), np.array([1]), keys)
    histogram = meeting.end(worth)
    expected = np.zeros(slope.shape[1])
    per_entry = [np.zeros(2) for _ in lists]
    for choice in np.ndindex(2, 2, 2):
        place = 1 + sum(int(part.bins[e]) for part, e in zip(lists, choice))
        mass = [part.mass[e] for part, e in zip(lists, choice)]
        expected[place] += 0.5 * np.prod(mass)
        for j, e in enumerate(choice):
            per_entry[j][e] += 0.5 * np.prod(mass) / mass[j] * slope[1, place]
    np.testing.assert_allclose(histogram, [np.zeros_like(expected), expected], atol=1e-12)
    assert count[0] == pytest.approx(expected @ slope[1], abs=1e-12)
    np.testing.assert_allclose(np.concatenate(worth), np.concatenate(per_entry), atol=1e-12)


def test_spectra_are_for_long_lists_that_fit_memory():
    work = star_oracle(random_join(0, shape="star", rows=200)).star.schedule

    def pays(bins, memory):
        return spectral.pays(*spectral.lengths_of(work, bins), bins, memory)

    assert not pays(1 << 20, 4000)  # lists of 50 rows stay short however fine the grid is
    assert pays(64, 4000)
    assert not pays(64, 1e-6)


def test_a_fit_by_spectra_holds_the_optimum(monkeypatch):
    monkeypatch.setattr(spectral, "pays", lambda *arguments: True)
    join = joined(1, shape="star", rows=12)
    model = RelationalLinearSVC(alpha=0.05, n_samples=10, random_state=0, row_weight="join").fit(join)
    X, y, weight = design(join, prepare(join), materialise(join))
    beta = LinearSVC(loss="hinge", C=1 / (0.1 * len(y)), fit_intercept=False, tol=1e-8, max_iter=1_000_000,
                     random_state=0).fit(X, y).coef_[0]
    low, high = model.objective_interval_
    assert model.gap_ <= 1e-3
    assert low <= (hinge_mean(X, y, weight, beta) + 0.05 * beta @ beta) * (1 + 1e-9)
    assert hinge_mean(X, y, weight, model.beta_) + 0.05 * model.beta_ @ model.beta_ <= high * (1 + 1e-9)
