"""The law of labels with a rate for each direction, against brute force and against the single rate."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from threadpoolctl import threadpool_info, threadpool_limits

from buttress.solvers.contamination.confusion_law import (
    Confusion,
    confusion_steps,
    learn_confusion,
    likeliest_confusion,
    mixtures,
    one_rate,
)
from buttress.solvers.contamination.label_law import explain_labels, explain_mixed, label_likelihoods
from buttress.solvers.contamination.share_interval import label_shares
from buttress.solvers.contamination.tuning import CONFUSION, LABELS
from buttress.solvers.run import run


def drawn(rates, n=2000, C=3, temperature=4.0, seed=0):
    """Return scores, the true classes they bring about, and labels given by the rates."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, C))
    true = (softmax(temperature * scores, axis=1).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    codes = (rates[true].cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return scores, true, codes


def penalised(scores, codes, rates, temperature, bias):
    """The objective, from its definition."""
    prior = CONFUSION.prior * np.log(np.diagonal(rates)).sum() - bias @ bias / 2
    q = np.exp(log_softmax(temperature * scores + bias, axis=1))
    return (np.log((q @ rates)[np.arange(len(codes)), codes]).sum() + prior) / len(codes)


def brute_force(scores, codes):
    """Maximise the objective of two classes over all its numbers by a quasi-Newton search from several starts."""

    def law(u):
        a, b = 0.5 / (1 + np.exp(-u[:2]))
        return np.array([[1 - a, a], [b, 1 - b]]), np.exp(u[2]), np.array(u[3:])

    starts = [(-2, -2, 1, 0, 0), (1, -3, 1, 0, 0), (-3, 1, 1, 0, 0)]
    ends = [minimize(lambda u: -penalised(scores, codes, *law(u)), u, method="BFGS", options={"gtol": 1e-7}) for u in
            starts]
    best = min(ends, key=lambda end: end.fun)
    return -best.fun, law(best.x)


def test_expectation_and_maximisation_reach_the_optimum_of_brute_force():
    scores, _, codes = drawn(np.array([[0.7, 0.3], [0.05, 0.95]]), n=300, C=2)
    steps = confusion_steps(scores, codes, Confusion(one_rate(2, 0.1), np.eye(2), np.zeros(2)))
    found = run(steps, max_iter=3000, tol=1e-12, warn=False).state
    value, (rates, temperature, bias) = brute_force(scores, codes)
    assert found.objective == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(found.rates, rates, atol=5e-3)
    np.testing.assert_allclose(np.diagonal(found.A), temperature, rtol=2e-2)
    np.testing.assert_allclose(found.bias, bias, atol=2e-2)


def test_the_objective_is_the_penalised_likelihood_and_never_falls():
    scores, _, codes = drawn(one_rate(3, 0.3), n=400)
    steps = confusion_steps(scores, codes, Confusion(one_rate(3, 0.1), np.eye(3), np.zeros(3)))
    values = []
    for _, step in zip(range(30), steps, strict=False):
        law = step.state
        assert law.objective == pytest.approx(penalised(scores, codes, law.rates, law.A[0, 0], law.bias))
        values.append(law.objective)
    assert np.all(np.diff(values) > -1e-12)


def test_equal_rates_and_no_bias_are_the_single_rate():
    scores, _, codes = drawn(one_rate(3, 0.3), n=200)
    T, rho = LABELS.temperatures[12], 0.2
    law = Confusion(one_rate(3, rho), T * np.eye(3), np.zeros(3))
    single = label_likelihoods(scores, codes, np.array([rho]))[12, 0]
    assert np.log(law.joint(scores, codes).sum(axis=1)).mean() == pytest.approx(single)
    rows = np.arange(len(codes))
    q = softmax(T * scores, axis=1)[rows, codes]
    right = (1 - rho) * q / ((1 - rho) * q + rho / 2 * (1 - q))
    np.testing.assert_allclose(law.true_chances(scores, codes)[rows, codes], right)


def test_one_direction_is_found_and_the_others_are_zero():
    rates = np.eye(3)
    rates[0] = 0.6, 0.4, 0
    scores, true, codes = drawn(rates)
    law = learn_confusion(scores, codes)
    assert law.rates[0, 1] == pytest.approx(0.4, abs=0.06)
    off = law.rates[~np.eye(3, dtype=bool)]
    assert np.count_nonzero(off) == 1
    wrong = 1 - law.true_chances(scores, codes)[np.arange(len(codes)), codes]
    assert wrong[codes == true].mean() < 0.2 < 0.5 < wrong[codes != true].mean()


def test_right_labels_have_no_direction():
    scores, _, codes = drawn(np.eye(3))
    assert learn_confusion(scores, codes).lead(len(codes), explain_labels(scores, codes).likelihood) < 0


def mixed_problem(n=600):
    """Return scores in which the second class is the sum of the others and little more, and labels a tenth wrong."""
    scores, _, codes = drawn(one_rate(3, 0.1), n=n, temperature=6.0)
    blur = np.array([[1.0, 0.5, 0.0], [0.0, 0.2, 0.0], [0.0, 0.5, 1.0]])
    return scores @ blur, codes


def brute_force_mixed(scores, codes, rates, *starts):
    """Maximise the objective of mixed scores at these rates by quasi-Newton searches."""

    def value(u):
        A, b = u[:9].reshape(3, 3), u[9:]
        prior = CONFUSION.prior * np.log(np.diagonal(rates)).sum() - b @ b / 2 - np.sum(A * A) / 2 / 30**2
        joint = np.exp(log_softmax(scores @ A + b, axis=1)) * rates.T[codes]
        p = np.mean(joint / joint.sum(axis=1, keepdims=True), axis=0)
        own = sum(2 * p[k] * (A[k, k] - p @ A[:, k]) for k in range(3))
        return (np.log(joint.sum(axis=1)).sum() + prior + own) / len(codes)

    return max(-minimize(lambda u: -value(u), start, method="BFGS").fun for start in starts)


def test_mixed_scores_reach_the_optimum_of_brute_force():
    scores, codes = mixed_problem()
    law, = mixtures([scores], codes, 0.1)
    starts = np.append(4 * np.eye(3), np.zeros(3)), np.append(law.A, law.bias)
    assert law.objective == pytest.approx(brute_force_mixed(scores, codes, one_rate(3, 0.1), *starts), abs=1e-3)


def test_mixed_scores_tell_a_blurred_class_and_the_rate_of_wrong_labels():
    scores, codes = mixed_problem(2000)
    law, = mixtures([scores], codes, None)
    assert law.rates[0, 1] == pytest.approx(0.05, abs=0.02)
    flips, laws = explain_mixed([scores], codes, None)
    gain = len(codes) * (flips.likelihood - explain_labels(scores, codes).likelihood)
    assert laws is not None
    assert gain > 5 / 2 * np.log(len(codes))  # nine numbers of A and three of b, less three and two, less one


def test_scores_that_need_no_mixing_are_left_as_they_are():
    scores, _, codes = drawn(one_rate(3, 0.1))
    flips, laws = explain_mixed([scores], codes, None)
    assert laws is None
    assert flips.likelihood == explain_labels(scores, codes).likelihood


@pytest.mark.parametrize(("C", "mixed"), [(2, False), (3, True), (12, True), (13, False)])
def test_scores_of_three_to_twelve_classes_are_mixed(C, mixed):
    """Each class has nearly the score of the next too, so that only a mixture tells them."""
    scores, _, codes = drawn(np.eye(C), n=3000, C=C, temperature=8.0)
    blurred = scores @ np.linalg.inv(np.eye(C) + 0.9 * np.roll(np.eye(C), 1, axis=1))
    flips, laws = explain_mixed([blurred], codes, 0.0)
    assert (laws is not None) == mixed
    if mixed:
        assert np.mean(flips.classes.argmax(axis=1) == codes) > 0.8


def test_a_direction_is_found_in_mixed_scores():
    rates = np.eye(3)
    rates[0] = 0.6, 0, 0.4
    scores, _, codes = drawn(rates, temperature=12.0)
    blurred = scores @ np.array([[1.0, 0.5, 0.0], [0.0, 0.2, 0.0], [0.0, 0.5, 1.0]])
    law = learn_confusion(blurred, codes, mixed=True)
    np.testing.assert_allclose(law.rates, rates, atol=0.06)
    likelihood = np.log(law.joint(blurred, codes).sum(axis=1)).mean()
    assert law.criterion == pytest.approx(likelihood - (6 + law.directions()) / 2 * np.log(2000) / 2000)


def test_a_label_without_a_direction_is_right_however_little_the_scores_expect_it():
    """Of many rows laws are learned from a part, so that the others may contradict them."""
    law = Confusion(np.array([[1.0, 0, 0], [0, 0.7, 0.3], [0, 0, 1]]), np.eye(3), np.zeros(3))
    scores, codes = np.array([[0.0, -30, -30], [0, -3000, -3000]]), np.array([1, 1])
    np.testing.assert_allclose(law.true_chances(scores, codes), [[0, 1, 0], [0, 1, 0]])
    assert np.all(law.joint(scores, codes).sum(axis=1) > 0)


def test_the_many_small_systems_of_mixed_scores_have_one_thread(monkeypatch):
    """Threads that wait for one another on busy processors made each take 50 milliseconds."""
    threads, solve = [], np.linalg.solve

    def watched(*args):
        threads.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
        return solve(*args)

    monkeypatch.setattr(np.linalg, "solve", watched)
    scores, _, codes = drawn(np.eye(3), n=100)
    with threadpool_limits(2, user_api="blas"):
        law = likeliest_confusion(scores, codes)
        mixtures([scores], codes, None)
        label_shares(scores, codes, law)
    assert set(threads) == {1}
