"""The interval for wrong rows left: it covers whatever the order between the draws, and whenever one looks."""

import numpy as np
import pytest
from scipy.stats import beta, hypergeom

from buttress.review.estimates import Draw, wrong_left

EVERY = 10


def simulated(rng, n=500, share=0.1, told=1.5, decisions=300, learns=True):
    """One review, looked at after every draw: whether the interval covered each time, and its width at the end.

    Suspicion tells wrong rows apart by ``told`` standard deviations; where it ``learns``, it does so better the more
    wrong rows were found, and worse after each right one.
    """
    wrong = rng.random(n) < share
    suspicion = told * wrong + rng.normal(size=n)
    place = rng.normal(size=n) + wrong
    is_open, draws, covered = np.ones(n, dtype=bool), [], []
    found = 0
    for t in range(decisions):
        if t % EVERY == EVERY - 1:
            row = rng.choice(np.flatnonzero(is_open))
            draws.append(Draw(int(is_open.sum()), found, found, bool(wrong[row]), bool(wrong[row])))
        else:
            row = np.flatnonzero(is_open)[suspicion[is_open].argmax()]
        is_open[row] = False
        found += wrong[row]
        if learns:
            suspicion = suspicion + (0.3 if wrong[row] else -0.3) * np.exp(-((place - place[row]) ** 2))
        if t % EVERY == EVERY - 1:
            left = wrong_left(draws, int(is_open.sum()), int(found), int(found))
            covered.append(left.low <= wrong[is_open].sum() <= left.high)
            assert left.low <= left.estimate <= left.high
    return covered, left.high - left.low, len(draws)


@pytest.mark.parametrize(("share", "told", "decisions"), [(0.1, 1.5, 300), (0.02, 2.5, 200), (0.3, 0.0, 480),
                                                         (0.0, 1.0, 100)])
def test_it_covers_in_nine_of_ten_reviews_at_every_look(share, told, decisions):
    reviews = [simulated(np.random.default_rng(seed), share=share, told=told, decisions=decisions)
               for seed in range(40)]
    assert np.mean([all(covered) for covered, _, _ in reviews]) >= 0.9


def test_it_is_no_wider_than_that_of_a_plain_sample_of_as_many_rows():
    """Clopper & Pearson's interval of a plain sample of the table, as many rows as were drawn at random here."""
    ours, plain = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        _, width, m = simulated(rng, told=2.0)
        k = rng.binomial(m, 0.1)
        low = beta.ppf(0.05, k, m - k + 1) if k else 0.0
        high = beta.ppf(0.95, k + 1, m - k) if k < m else 1.0
        ours.append(width)
        plain.append(500 * (high - low))
    assert np.mean(ours) <= np.mean(plain)


def test_no_draws_say_nothing_and_all_rows_drawn_say_all():
    nothing = wrong_left([], 70, 3, 3)
    assert (nothing.low, nothing.high, nothing.drawn) == (0, 70, 0)
    assert wrong_left([Draw(1, 4, 4, True, True)], 0, 5, 5).high == 0


def test_rows_that_are_drawn_one_after_another_are_refused_no_sooner_than_their_probability_allows():
    """Of plain draws the probability is known: no number of wrong rows is refused that gives them more than a tenth."""
    n, m = 60, 30
    for wrong in range(0, 61, 3):
        chance = 0.0
        for k in range(max(0, wrong - (n - m)), min(m, wrong) + 1):
            # wrong ones spread evenly among the draws
            hits = np.diff(np.floor(np.linspace(0, k, m + 1) + 1e-9)).astype(int)
            found = np.append(0, np.cumsum(hits))
            draws = [Draw(n - j, int(found[j]), int(found[j]), bool(hits[j]), bool(hits[j])) for j in range(m)]
            left = wrong_left(draws, n - m, k, k)
            if not left.low <= wrong - k <= left.high:
                chance += hypergeom.pmf(k, n, wrong, m)
        assert chance <= 0.1


def test_a_row_on_which_somebody_is_unsure_may_be_either():
    sure = [Draw(100 - 2 * j, 0, 0, False, False) for j in range(40)]
    unsure = [Draw(100 - 2 * j, 0, j, False, True) for j in range(40)]
    assert wrong_left(unsure, 20, 0, 40).high >= wrong_left(sure, 20, 0, 0).high
    assert wrong_left(unsure, 20, 0, 40).low == 0
