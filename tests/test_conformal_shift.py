"""Typical rows that are not drawn as the training rows were, and rows that come in a stream."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from buttress import ConformalDetector

SHIFT = np.array([1.0, 0.0])


class Height(BaseEstimator):
    """Minus the second column, in steps of ``step``: with few different values, many ties."""

    def __init__(self, step=0.0):
        self.step = step

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def score_samples(self, X):
        return -X[:, 1] if self.step == 0 else -np.ceil(X[:, 1] / self.step)


def ratio(X):
    """Density of rows whose first column is moved by 1, over that of standard normal ones."""
    return np.exp(X @ SHIFT - 0.5)


def drawn(n, seed, moved=0.0):
    """Rows whose second column is larger where the first is: what is typical depends on the shift."""
    X = np.random.default_rng(seed).normal(size=(n, 2)) + moved * SHIFT
    X[:, 1] += 2 * X[:, 0]
    return X


def by_definition(d_known, w_known, d_new, w_new, fdr):
    """Weighted conformalised selection row by row, from pools of the rows left out and one new row."""
    m, n = len(d_new), len(d_known)
    candidates, sizes = [], []
    for j in range(m):
        pool = [*zip(d_known, w_known), (d_new[j], w_new[j])]
        whole = sum(w for _, w in pool)
        mean = whole / (n + 1)

        def as_far(l, more, pool=pool, whole=whole):
            return (sum(w for d, w in pool if d >= d_new[l]) + more) / (whole + more)

        q = sorted([0.0] + [as_far(l, w_new[l] - mean) for l in range(m) if l != j])
        size = max(k for k in range(1, m + 1) if k == 1 or q[k - 1] <= fdr * k / m + 1e-12)
        if as_far(j, 0.0) <= fdr * size / m + 1e-12:
            candidates.append(j)
            sizes.append(size)
    most = max(r for r in range(len(sizes) + 1) if sum(size <= r for size in sizes) >= r)
    return [j for j, size in zip(candidates, sizes) if size <= most]


@pytest.mark.parametrize("step", [0.0, 0.7])
@pytest.mark.parametrize("fdr", [0.2, 0.5])
def test_the_selection_is_the_one_of_the_definition(step, fdr):
    found = 0
    for seed in range(25):
        X, new = drawn(160, seed), drawn(15, 100 + seed, 1.0)
        new[: seed % 6, 1] += 9
        model = ConformalDetector(Height(step), random_state=seed, ratio=ratio).fit(X)
        left_out = X[np.random.RandomState(seed).permutation(160)[:80]]
        far = [-Height(step).score_samples(rows) for rows in (left_out, new)]
        expected = by_definition(far[0], ratio(left_out), far[1], ratio(new), fdr)
        np.testing.assert_array_equal(np.flatnonzero(model.novel(new, fdr)), expected)
        p = [(w + ratio(left_out)[far[0] >= d].sum()) / (w + ratio(left_out).sum()) for d, w in zip(far[1], ratio(new))]
        np.testing.assert_allclose(model.p_values(new), p, rtol=1e-12)
        found += len(expected)
    assert found > 10


def test_equal_ratios_select_as_benjamini_and_hochberg_and_a_factor_of_all_changes_nothing():
    for seed in range(20):
        X, new = drawn(60, seed), drawn(25, 100 + seed)
        new[:5, 1] += 4
        plain = ConformalDetector(Height(0.3), random_state=0).fit(X)
        equal = ConformalDetector(Height(0.3), random_state=0, ratio=lambda rows: np.full(len(rows), 7.0)).fit(X)
        np.testing.assert_allclose(equal.p_values(new), plain.p_values(new), rtol=1e-12)
        np.testing.assert_array_equal(equal.novel(new, 0.3), plain.novel(new, 0.3))
        one, other = (ConformalDetector(Height(), random_state=0, ratio=function).fit(X)
                      for function in (ratio, lambda rows: 1e-9 * ratio(rows)))
        np.testing.assert_array_equal(one.novel(new, 0.3), other.novel(new, 0.3))


def share_of_false(make, runs=300, m=30, novel=5, fdr=0.3):
    """Return means over runs of the share of typical rows among those named and of novel ones found, and an error."""
    false, found = [], []
    for seed in range(runs):
        new = drawn(m, 10_000 + seed, 1.0)
        new[:novel, 1] += 9
        named = make(seed).fit(drawn(600, seed)).novel(new, fdr)
        false.append(named[novel:].sum() / max(named.sum(), 1))
        found.append(named[:novel].mean())
    return np.mean(false), np.std(false) / np.sqrt(runs), np.mean(found)


@pytest.mark.parametrize("step", [0.0, 1.0])
def test_under_a_shift_the_ratio_keeps_the_false_discovery_rate_and_without_it_none_is_kept(step):
    false, error, found = share_of_false(lambda seed: ConformalDetector(Height(step), random_state=seed, ratio=ratio))
    assert false <= 0.3 * 25 / 30 + 3 * error
    assert found > 0.5
    ignored, error, _ = share_of_false(lambda seed: ConformalDetector(Height(step), random_state=seed))
    assert ignored > 0.3 + 3 * error


@pytest.mark.parametrize("factor", [2.0, 4.0])
def test_ratios_wrong_by_a_factor_cost_at_most_that_factor(factor):
    def wrong(X):
        return ratio(X) * np.where(X[:, 1] > 2, 1 / factor, 1.0)  # the worst of its kind: far rows count too little

    false, error, _ = share_of_false(lambda seed: ConformalDetector(Height(), random_state=seed, ratio=wrong), fdr=0.1)
    assert false <= factor * 0.1 + 3 * error


def test_a_row_that_no_typical_one_can_be_is_novel_and_left_out_rows_of_ratio_zero_do_not_count():
    X, new = drawn(60, 0), drawn(10, 1)
    model = ConformalDetector(Height(), random_state=0, ratio=lambda rows: 1.0 * (rows[:, 0] > 0)).fit(X)
    new[0] = [-3.0, 50.0]
    assert model.p_values(new)[0] == 0
    assert model.novel(new, 0.2)[0]
    left_out = X[np.random.RandomState(0).permutation(60)[:30]]
    counted = left_out[left_out[:, 0] > 0]
    right = new[new[:, 0] > 0]
    p = [(1 + (counted[:, 1] >= row[1]).sum()) / (1 + len(counted)) for row in right]
    np.testing.assert_allclose(model.p_values(right), p)


@pytest.mark.parametrize("bad", [
    lambda X: np.full(len(X), np.inf), lambda X: -np.ones(len(X)), lambda X: np.ones(3), lambda X: np.ones((len(X), 1)),
    lambda X: np.where(np.arange(len(X)) == 2, np.nan, 1.0), lambda X: np.zeros(len(X))])
def test_ratios_that_are_no_weights_are_refused(bad):
    with pytest.raises(ValueError, match="ratio"):
        ConformalDetector(Height(), ratio=bad).fit(drawn(60, 0))


def test_infinite_ratios_of_new_rows_and_what_has_no_theorem_are_refused():
    X = drawn(60, 0)
    model = ConformalDetector(Height(), random_state=0, ratio=lambda rows: np.where(rows[:, 1] > 100, np.inf, 1.0))
    model.fit(X)
    with pytest.raises(ValueError, match="finite"):
        model.p_values([[0.0, 1000.0]])
    with pytest.raises(ValueError, match="adaptive"):
        model.novel(X + 0.1, adaptive=True)
    with pytest.raises(ValueError, match="ratio"):
        next(model.novel_stream([X + 0.1]))
    for cv in (5, "jackknife+"):
        with pytest.raises(ValueError, match="ratio is for a split"):
            ConformalDetector(Height(), cv=cv, ratio=ratio).fit(X)
    with pytest.warns(UserWarning, match="can name no row"):
        ConformalDetector(Height(), random_state=0, ratio=ratio).fit(X).novel(drawn(5, 1), fdr=0.001)


def in_turn(p, fdr):
    """LOND: a row is named at fdr times its share times one more than were named before."""
    named = []
    for t, value in enumerate(p, 1):
        share = np.log(2) / np.log(t + 1) - np.log(2) / np.log(t + 2)
        named.append(bool(value <= fdr * share * (1 + sum(named))))
    return named


def test_a_stream_is_judged_row_by_row_whatever_its_batches():
    X, new = drawn(4000, 0), drawn(60, 1)
    new[::7, 1] += 12
    model = ConformalDetector(Height(), random_state=0).fit(X)
    expected = in_turn(model.p_values(new), 0.2)
    assert 3 <= sum(expected) < 20
    for cuts in ([], [1, 2, 30], range(1, 60)):
        batches = np.split(new, cuts)
        np.testing.assert_array_equal(np.concatenate(list(model.novel_stream(batches, 0.2))), expected)
    said = model.novel_stream(iter([new[:1], new[1:]]), 0.2)
    assert next(said).shape == (1,)  # said before the next ones are asked for
    with pytest.raises(ValueError, match="fdr must be"):
        next(model.novel_stream([new], 1.5))


def test_the_shares_of_a_stream_sum_to_one():
    t = np.arange(1, 10**6)
    assert (1 / np.log2(t + 1) - 1 / np.log2(t + 2)).sum() == pytest.approx(1 - 1 / np.log2(10**6 + 1))


@pytest.mark.parametrize("step", [0.0, 1.0])
def test_of_what_a_stream_names_at_most_the_stated_share_is_typical_at_any_time(step):
    """The p-values of one fit go together; typical rows come first, when a false one costs most."""
    T, false = np.array([5, 20, 60]), []
    for seed in range(400):
        new = drawn(60, 10_000 + seed)
        new[5::4, 1] += 12
        novel = np.isin(np.arange(60), np.arange(5, 60, 4))
        model = ConformalDetector(Height(step), random_state=seed).fit(drawn(200, seed))
        named = np.concatenate(list(model.novel_stream([new], 0.4)))
        false.append([(named & ~novel)[:t].sum() / max(named[:t].sum(), 1) for t in T])
    assert (np.mean(false, axis=0) <= 0.4 + 3 * np.std(false, axis=0) / np.sqrt(400)).all()
    assert np.mean(false) > 0
