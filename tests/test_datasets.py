"""Corruption does what its kind says to the rows it says; generators return what they promise."""

import numpy as np
import pytest

from buttress.datasets import CORRUPTIONS, contaminate, make_polynomial, make_smooth

from problems import points


def problem(n=200):
    X = points(n, 3)
    return X, 2 + 3 * X[:, 0] + 0.1 * points(n, 1, seed=1)[:, 0]


@pytest.mark.parametrize("kind", CORRUPTIONS)
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4])
def test_only_the_named_rows_change_and_a_seed_repeats(kind, rate):
    X, y = problem()
    y = np.where(y > 2, "high", "low") if kind == "flip" else y
    X0, y0 = X.copy(), y.copy()
    X1, y1, mask = contaminate(X, y, rate, kind, random_state=3)
    assert mask.sum() == round(rate * 200)
    np.testing.assert_array_equal(y1[~mask], y0[~mask])
    np.testing.assert_array_equal(X1[~mask], X0[~mask])
    assert np.all(y1[mask] != y0[mask])
    np.testing.assert_array_equal(X, X0)  # what was given is left alone
    np.testing.assert_array_equal(y, y0)
    X2, y2, again = contaminate(X, y, rate, kind, random_state=3)
    np.testing.assert_array_equal(mask, again)
    np.testing.assert_array_equal(y1, y2)
    np.testing.assert_array_equal(X1, X2)


def corrupted(kind, rate=0.4, n=4000):
    """The target before and after on the corrupted rows, with the moments of y."""
    X, y = problem(n)
    _, dirty, mask = contaminate(X, y, rate, kind, random_state=0)
    return y[mask], dirty[mask], y.mean(), y.std(), np.median(y)


def test_noise_is_centred_five_deviations_off_and_five_wide():
    _, after, mean, std, _ = corrupted("noise")
    z = (after - mean) / std
    assert z.mean() == pytest.approx(5, abs=0.5)
    assert z.std() == pytest.approx(5, abs=0.5)


def test_each_regression_corruption_is_what_its_name_says():
    before, after, _, _, median = corrupted("mirrored")
    np.testing.assert_allclose(after - median, median - before)
    before, after, _, std, _ = corrupted("shifted")
    np.testing.assert_allclose(after - before, 2 * std)
    _, after, mean, std, _ = corrupted("constant")
    np.testing.assert_allclose(after, mean + 3 * std)
    before, after, *_ = corrupted("permuted")
    np.testing.assert_allclose(np.sort(after), np.sort(before))
    before, after, *_ = corrupted("oblivious")
    assert (after - before).std() == pytest.approx(5, abs=0.4)
    before, after, _, std, _ = corrupted("heavy_tails")
    assert np.median(np.abs(after - before)) == pytest.approx(std, rel=0.1)  # of a Cauchy, 1


def test_one_region_is_a_ball():
    X, y = problem()
    _, _, mask = contaminate(X, y, 0.2, "one_region", random_state=0)
    Z = X / X.std(axis=0)
    distances = ((Z[:, None] - Z[mask][None]) ** 2).sum(axis=2)
    assert np.any(distances[mask].max(axis=0) <= distances[~mask].min(axis=0))  # around one of its own rows


def test_the_second_function_is_linear_in_the_features():
    X, y = problem()
    _, dirty, mask = contaminate(X, y, 0.4, "second_function", random_state=0)
    A = np.column_stack([np.ones(mask.sum()), X[mask]])
    coef, *_ = np.linalg.lstsq(A, dirty[mask], rcond=None)
    np.testing.assert_allclose(A @ coef, dirty[mask], atol=1e-10)
    assert not np.allclose(np.column_stack([np.ones(len(X)), X]) @ coef, y, atol=1.0)


def test_label_and_feature_corruption_of_numbers_and_of_classes():
    X, y = problem()
    far, dirty, mask = contaminate(X, y, 0.2, "label+feature", random_state=0)
    np.testing.assert_allclose(far[mask], 100 * X[mask])
    np.testing.assert_allclose(dirty[mask], 10_000 * y[mask])
    far, flipped, mask = contaminate(X, y > 2, 0.2, "label+feature", random_state=0)
    np.testing.assert_allclose(far[mask], 100 * X[mask])
    np.testing.assert_array_equal(flipped, (y > 2) ^ mask)


def test_bad_arguments_are_named():
    X, y = problem()
    with pytest.raises(ValueError, match=r"kind must be one of .* Did you mean 'mirrored'"):
        contaminate(X, y, 0.2, "mirror")
    with pytest.raises(ValueError, match=r"rate must be in \[0, 1\)"):
        contaminate(X, y, 1.0, "noise")
    with pytest.raises(ValueError, match="at least 2 classes"):
        contaminate(X, np.zeros(200, dtype=int), 0.2, "flip")
    with pytest.raises(ValueError, match=r"needs a target of numbers.*Use kind='flip'"):
        contaminate(X, np.full(200, "red"), 0.2, "shifted")


def test_the_polynomial_set_is_a_cubic_with_small_noise():
    X, y, truth = make_polynomial(random_state=1)
    assert X.shape == (1000, 1)
    coef = np.polynomial.polynomial.polyfit(X[:, 0], truth, 3)
    np.testing.assert_allclose(np.polynomial.polynomial.polyval(X[:, 0], coef), truth, atol=1e-9)
    assert (y - truth).std() == pytest.approx(0.01, rel=0.1)


def test_the_smooth_set_is_of_size_one_and_has_the_noise_asked_for():
    values = [make_smooth(2000, noise=0.3, random_state=seed) for seed in range(40)]
    assert np.mean([np.mean(truth**2) for _, _, truth in values]) == pytest.approx(1, rel=0.2)
    for _, y, truth in values:
        assert (y - truth).std() == pytest.approx(0.3, rel=0.1)


def test_a_target_missing_is_refused():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        contaminate(np.zeros((40, 2)), np.arange(39.0), 0.2, "noise")
