"""Plain or robust: relabelling, the kernel of several widths, the linear guard and its reweighting."""

from dataclasses import replace
from itertools import islice
from unittest.mock import patch

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import softmax
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression, QuantileRegressor, Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale

from buttress import RobustKernelClassifier, RobustKernelRegressor, RobustLinearRegressor
from buttress._rows import SAMPLES
from buttress.kernels import MultiscaleRBF, kernel
from buttress.robust import label_fit
from buttress.robust.design import kernel_design
from buttress.robust.label_fit import LabelTask, fit_labels, with_directions
from buttress.solvers.contamination.label_law import (
    Flips,
    explain_at_ridges,
    explain_labels,
    label_likelihoods,
    label_margins,
)
from buttress.solvers.contamination.residual_law import LawLimits, LeftOutResiduals, explain, reweighted_steps
from buttress.solvers.contamination.tuning import CONFUSION, LABELS
from buttress.solvers.ridge.leave_one_out import FeatureRidge
from buttress.solvers.run import SharedBudget

from problems import iris, moons


def flipped_iris():
    """Iris with every fifth label moved on by one: X, wrong labels, right labels."""
    X, y = iris()
    dirty = y.copy()
    dirty[::5] = (y[::5] + 1) % 3
    return X, dirty, y


def widths_gram(X, Z):
    return np.mean([rbf_kernel(X, Z, gamma=g / X.shape[1]) for g in (1, 0.3, 0.1, 0.03)], axis=0)


def test_the_likeliest_class_follows_from_bayes():
    rng = np.random.default_rng(0)
    classes, codes, rate = softmax(2 * rng.normal(size=(60, 4)), axis=1), rng.integers(4, size=60), 0.3
    found = Flips(rate, np.zeros(60), classes, 0.0).true_class(codes)
    for i in range(60):
        joint = [classes[i, c] * (1 - rate if c == codes[i] else rate / 3) for c in range(4)]
        assert found[i] == np.argmax(joint)
    np.testing.assert_array_equal(Flips(0.0, np.zeros(60), classes, 0.0).true_class(codes), codes)


def test_a_label_is_wrong_with_the_mean_probability_over_all_laws():
    """Forty scores of one size and one wrong label: no flips and a low temperature explain it as well as one flip."""
    codes = np.arange(40) % 2
    scores = np.where(codes[:, None] == np.arange(2), 1.0, -1.0)
    scores[3] *= -1
    rho, total, mean = np.linspace(0, 0.49, 2000)[:, None], 0.0, 0.0
    for T in LABELS.temperatures:
        q = softmax(T * scores, axis=1)[np.arange(40), codes]
        chance = (1 - rho) * q + rho * (1 - q)
        joint = chance.prod(axis=1)
        total += trapezoid(joint, rho[:, 0])
        mean += trapezoid(joint[:, None] * rho * (1 - q) / chance, rho[:, 0], axis=0)
    found = explain_labels(scores, codes)
    np.testing.assert_allclose(found.wrong, mean / total, atol=2e-3)
    assert found.wrong[3] > 0.5
    assert np.delete(found.wrong, 3).max() < 0.01


def test_ridges_are_weighed_by_likelihood():
    """Brute force over ridge, temperature and rate, the integral over the rate by the trapezoid rule."""
    rng = np.random.default_rng(3)
    codes = rng.integers(3, size=60)
    tried = [rng.normal(size=(60, 3)) + size * np.eye(3)[codes] for size in (0.5, 1.5, 1.6)]
    rho = LABELS.rates

    def laws(scores):
        """Return P(labels) and P(label wrong) of each row, for each temperature and rate."""
        q = np.array([softmax(T * scores, axis=1)[np.arange(60), codes] for T in LABELS.temperatures])[:, None]
        wrong = rho[:, None] / 2 * (1 - q)
        chance = (1 - rho[:, None]) * q + wrong
        return chance.prod(axis=2), wrong / np.maximum(chance, 1e-300)

    total, mean, rate = 0.0, 0.0, 0.0
    for scores in tried:
        joint, wrong = laws(scores)
        total += trapezoid(joint.sum(axis=0), rho)
        rate += trapezoid(joint.sum(axis=0) * rho, rho)
        mean += trapezoid((joint[..., None] * wrong).sum(axis=0), rho, axis=0)
    found = explain_at_ridges(tried, codes, None)
    np.testing.assert_allclose(found.wrong, mean / total, atol=2e-3)
    assert found.rate == pytest.approx(rate / total, abs=2e-3)
    np.testing.assert_allclose(found.classes.sum(axis=1), 1, atol=1e-9)
    assert found.at == np.argmax([laws(scores)[0].max() for scores in tried])


def test_likelihoods_are_those_of_the_formula_for_tiny_rates_and_scores_far_off():
    rng = np.random.default_rng(4)
    scores, codes = 30 * rng.normal(size=(50, 3)), rng.integers(3, size=50)
    rates = np.array([0.0, 1e-30, 1e-15, 0.2])
    found = label_likelihoods(scores, codes, rates)
    for t in (0, 10, 24):
        q = softmax(LABELS.temperatures[t] * scores, axis=1)[np.arange(50), codes][:, None]
        chance = (1 - rates) * q + rates / 2 * (1 - q)
        np.testing.assert_allclose(found[t], np.log(chance + 1e-300).mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("stacked", [False, True])
def test_a_few_wrong_labels_among_easy_rows_are_not_explained_away(stacked):
    """What lies far on the wrong side is named in every trial, though a rate of 0 may be as likely."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y = iris()
        bad = np.isin(np.arange(150), rng.choice(150, 4, replace=False))
        dirty = np.where(bad, (y + rng.integers(1, 3, 150)) % 3, y)
        if stacked:
            X, dirty, bad = np.vstack([X, X]), np.tile(dirty, 2), np.tile(bad, 2)
        model = RobustKernelClassifier(random_state=0).fit(X, dirty)
        far = model.loo_score_ < -4 / 3  # two thirds of the way from no preference to the target of another class
        assert far.any()
        assert not model.inlier_mask_[far].any()
        assert np.mean(~model.inlier_mask_[~bad]) < 0.02
        assert 0.25 < model.contamination_ / bad.mean() < 1.25


def test_the_fit_is_kernel_ridge_on_the_relabelled_rows():
    """Two classes: rows of weight 0 count with the other label, and all rows count alike."""
    X, y = moons(160, noise=0.15)
    dirty = np.where(np.arange(160) % 5 == 0, 1 - y, y)
    model = RobustKernelClassifier(random_state=0).fit(X, dirty)
    relabelled = np.where(model.weights_ == 0, 1 - dirty, dirty)
    K = widths_gram(X, X) + 1  # the constant is a feature like the others
    w = np.linalg.solve(K + model.alpha_ * np.eye(160), 2.0 * relabelled - 1)
    np.testing.assert_allclose(model.decision_function(X), K @ w, atol=1e-5)
    assert 20 <= (model.weights_ == 0).sum() <= 44
    assert np.mean(relabelled == y) > np.mean(dirty == y) + 0.1


@pytest.mark.parametrize(("more", "taken"), [(-1e-6, False), (1e-6, True)])
def test_directions_must_explain_the_labels_decisively_better_after_the_fit_under_them_too(monkeypatch, more, taken):
    """One rate and one temperature are two numbers, which cost log(n)/2 each: the lead of the second law is set so."""
    X, y = moons(160, noise=0.15)
    dirty = np.where((y == 0) & (np.arange(160) % 5 < 2), 1, y)
    design = kernel_design(MultiscaleRBF(np.array([1, 0.3, 0.1, 0.03]) / 2), X, n_landmarks="auto",
                           rng=np.random.RandomState(0))
    task = LabelTask(design, dirty, 2, share=None, alpha=1.0, budget=SharedBudget())
    first, plainly = fit_labels(task), label_fit.confused_fit

    def barely(*arguments):
        fit, law = plainly(*arguments)
        cost = 2 / 2 * np.log(160)
        return fit, replace(law, criterion=first.likelihood + (CONFUSION.decisive + more - cost) / 160)

    monkeypatch.setattr(label_fit, "confused_fit", barely)
    found = with_directions(task, first)
    assert found.directed.rates[0, 1] == pytest.approx(np.mean(dirty[y == 0]), abs=0.1)
    assert (found.confusion is not None) == taken
    assert (found.last is first.last) != taken


def test_leave_one_out_scores_are_those_of_refits_to_the_relabelled_others():
    X, dirty, _ = flipped_iris()
    X = X + 1e-6 * np.arange(150)[:, None]  # equal rows would be left out together
    design = kernel_design(MultiscaleRBF(np.array([1, 0.3, 0.1, 0.03]) / 4), X, n_landmarks="auto",
                           rng=np.random.RandomState(0))
    task = LabelTask(design, dirty, 3, share=None, alpha=1.0, budget=SharedBudget())
    found = with_directions(task, fit_labels(task))
    model = RobustKernelClassifier(alpha=1.0, random_state=0).fit(X, dirty)
    margin = label_margins(found.last.scores, dirty)
    np.testing.assert_allclose(model.loo_score_, margin, atol=1e-6)
    fitted = model.predict(X)
    targets = 2 * np.eye(3)[np.where(found.last.weight == 1, dirty, fitted)] - 1
    K = widths_gram(X, X) + 1
    for i in (0, 5, 71, 149):
        left = np.arange(150) != i
        scores = K[i, left] @ np.linalg.solve(K[np.ix_(left, left)] + np.eye(149), targets[left])
        expected = scores[dirty[i]] - np.delete(scores, dirty[i]).max()
        assert margin[i] == pytest.approx(expected, abs=1e-5)


def test_labels_that_are_right_are_fitted_as_they_are():
    X, _, y = flipped_iris()
    model = RobustKernelClassifier(alpha=0.5, random_state=0).fit(X, y)
    assert model.clean_
    assert (model.weights_ == 1).all()
    K = widths_gram(X, X) + 1
    scores = K @ np.linalg.solve(K + 0.5 * np.eye(150), 2 * np.eye(3)[y] - 1)
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-5)


def test_the_default_kernel_is_a_mean_of_four_widths_with_distances_computed_once(monkeypatch):
    X, Z = load_iris(return_X_y=True)[0][:30], load_iris(return_X_y=True)[0][60:80]
    calls = []
    plain = kernel.squared_distances
    monkeypatch.setattr(kernel, "squared_distances", lambda A, B: calls.append(1) or plain(A, B))
    K = MultiscaleRBF(np.array([1, 0.3, 0.1, 0.03]) / 4)(X, Z)
    assert len(calls) == 1
    np.testing.assert_allclose(K, widths_gram(X, Z), rtol=1e-12)
    model = RobustKernelClassifier(random_state=0).fit(*iris())
    np.testing.assert_allclose(model.expansion_.kernel(X, Z), K, rtol=1e-12)


def test_a_kernel_of_no_width_or_a_bad_one_is_refused():
    for gammas, message in (((), "at least one number"), ((1.0, -2.0), r"gammas\[1\] must be in")):
        with pytest.raises(ValueError, match=message):
            RobustKernelClassifier(kernel=MultiscaleRBF(gammas)).fit(*moons(30))


def scattered(seed, rate, n=600):
    """Eight columns that explain a third of y, and a share of targets that say nothing and scatter widely."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, 8)), rng.normal(size=8)
    w *= 0.6 / np.linalg.norm(w)
    y = X @ w + 0.8 * rng.normal(size=n)
    y[: int(rate * n)] = rng.normal(0, 5, int(rate * n))
    return X, y, w


@pytest.mark.parametrize("rate", [0.2, 0.3])
def test_bad_targets_that_pull_little_are_still_found(rate):
    """Left-out rows are foretold hardly worse by the plain fit; the robust one is nearer to that of the good rows."""
    errors = []
    for seed in range(3):
        X, y, w = scattered(seed, rate)
        good = np.arange(len(y)) >= rate * len(y)
        model = RobustLinearRegressor(random_state=0).fit(X, y)
        assert not model.clean_
        assert model.contamination_ == pytest.approx(rate, abs=0.08)
        fits = model, Ridge(1.0).fit(X, y), Ridge(1.0).fit(X[good], y[good])
        errors.append([np.linalg.norm(fit.coef_ - w) for fit in fits])
    ours, plain, oracle = np.mean(errors, axis=0)
    assert ours < (plain + oracle) / 2


def mirrored_penguins(seed, n=234):
    """Columns and masses of three made kinds, and which three tenths of the masses are mirrored at their mean."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, size=n, p=[0.44, 0.2, 0.36])
    sex = rng.integers(2, size=n)
    mass = np.array([3.7, 3.73, 5.08])[kind] + 0.7 * (sex - 0.5) + 0.3 * rng.normal(size=n)
    bill = np.array([39, 49, 47])[kind] + 3 * sex + 2 * rng.normal(size=n)
    flipper = np.array([190, 196, 217])[kind] + 5 * mass + 4 * rng.normal(size=n)
    bad = rng.random(n) < 0.3
    return np.column_stack([np.eye(3)[kind], sex, bill, flipper]), scale(mass) * np.where(bad, -1, 1), bad


def test_a_law_that_takes_half_of_the_rows_for_corrupt_does_not_outvote_one_that_does_not():
    """It is the likeliest here, of the plain fit, and says nothing: the other one decides."""
    X, y, bad = mirrored_penguins(76)
    model = RobustKernelRegressor(kernel="rbf", random_state=0).fit(X, y)
    good, plain = (RobustKernelRegressor(kernel="rbf", contamination=0.0, random_state=0).fit(X[rows], y[rows])
                   for rows in (~bad, slice(None)))
    assert not model.clean_
    assert not (~model.inlier_mask_)[~bad].any()
    off, plainly = (np.linalg.norm(fit.predict(X) - good.predict(X)) for fit in (model, plain))
    assert off < 0.75 * plainly


@pytest.mark.parametrize("noise", ["normal", "standard_t", "exponential", "laplace"])
def test_genuine_noise_of_any_shape_costs_nothing(noise):
    """Normal and skewed noise keep the plain fit; with tails on both sides a few rows may lose their weight."""
    errors = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = scale(rng.normal(size=(400, 5)))
        draw = rng.standard_t(4, size=400) if noise == "standard_t" else getattr(rng, noise)(size=400)
        y = X @ [1.0, -1.0, 0.5, 0.0, 0.0] + draw
        model = RobustLinearRegressor(random_state=0).fit(X, y)
        plain = Ridge(1.0).fit(X, y)
        assert model.clean_ or noise in ("standard_t", "laplace")
        assert model.inlier_mask_.mean() > 0.99
        assert np.mean(model.weights_ == 0) < 0.02
        assert abs(model.intercept_ - plain.intercept_) < 0.1
        errors.append([np.linalg.norm(fit.coef_ - [1.0, -1.0, 0.5, 0.0, 0.0]) for fit in (model, plain)])
    ours, least_squares = np.mean(errors, axis=0)
    assert ours < 1.05 * least_squares


@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")
@pytest.mark.parametrize("d", [35, 50])
def test_many_columns_give_a_robust_fit_little_advantage_on_clean_data(d):
    clean, missed = [], 0
    for seed in range(4):
        X, y, _, _ = among_the_good(seed, rate=0, n=100, d=d)
        clean.append(RobustLinearRegressor(random_state=0).fit(X, y).clean_)
        y[:40] = np.random.default_rng(seed).normal(0, 4, 40)
        missed += RobustLinearRegressor(random_state=0).fit(X, y).clean_
    assert sum(clean) >= 3
    assert missed <= 1


def test_starts_tried_on_a_part_of_the_rows_end_where_those_on_all_do():
    X, y, w = scattered(0, 0.3, n=2000)
    whole = RobustLinearRegressor(random_state=0).fit(X, y)
    with patch.dict(vars(SAMPLES), rows=300):
        part = RobustLinearRegressor(random_state=0).fit(X, y)
    assert np.linalg.norm(part.coef_ - whole.coef_) < 0.2 * np.linalg.norm(whole.coef_ - w)
    assert np.mean(part.inlier_mask_ == whole.inlier_mask_) > 0.99
    assert part.agreement_.shape == (2000,)


def among_the_good(seed, noise="normal", rate=0.4, n=400, d=40):
    """A linear function with noise, and a share of targets that lie around its values, not far off."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d) / np.sqrt(d)
    y = X @ w + 0.5 * getattr(rng, noise)(size=n)
    bad = np.arange(n) < rate * n
    y[bad] = rng.normal(3, 3, bad.sum())
    return X, y, w, bad


def test_bad_targets_near_the_line_are_hardly_heard():
    """The scale of the trimmed fit is then too large: the bisquare alone misses by twice what the good rows do."""
    errors = []
    for seed in range(3):
        X, y, w, bad = among_the_good(seed)
        fits = RobustLinearRegressor(random_state=0).fit(X, y), Ridge(1.0).fit(X[~bad], y[~bad])
        errors.append([np.linalg.norm(fit.coef_ - w) for fit in fits])
    ours, oracle = np.mean(errors, axis=0)
    assert ours < 1.4 * oracle


def test_noise_without_a_variance_is_not_fitted_by_plain_least_squares():
    errors = []
    for seed in range(4):
        X, y, w, _ = among_the_good(seed, "standard_cauchy", rate=0, n=300, d=8)
        fits = RobustLinearRegressor(random_state=0).fit(X, y), QuantileRegressor(alpha=0).fit(X, y)
        errors.append([np.linalg.norm(fit.coef_ - w) for fit in fits])
    ours, absolute = np.mean(errors, axis=0)
    assert ours < 1.05 * absolute


def test_reweighting_forgives_no_row_that_the_bisquare_rejected():
    """Twenty rows far out along one column miss by less than the spread to be expected there, but all to one side."""
    X, y, w, _ = among_the_good(0, rate=0, n=200, d=4)
    X[:20, 0] += 100
    y[:20] = X[:20] @ w + 5
    ridge, weight = FeatureRidge(X), (np.arange(200) >= 20).astype(float)
    fit = ridge.solve(y, weight, 1e-9)
    known = explain(LeftOutResiduals(fit.loo, fit.spread), LawLimits(1e-6))
    assert known.responsibility[:20].min() > 0.5
    for step in islice(reweighted_steps(ridge, y, fit, known, alpha=1e-9, limits=LawLimits(1e-6)), 3):
        fit = step.state[0]
        assert not fit.weight[:20].any()
    same = LinearRegression(fit_intercept=False).fit(X[20:], y[20:], sample_weight=fit.weight[20:])
    np.testing.assert_allclose(fit.coef, same.coef_, atol=1e-9)


def test_on_landmarks_wrong_labels_are_named_but_average_out():
    X, y = moons(1500, noise=0.1)
    dirty = np.where(np.arange(1500) % 4 == 0, 1 - y, y)
    model = RobustKernelClassifier(n_landmarks=40, random_state=0).fit(X, dirty)
    assert np.median(model.weights_[dirty == y]) > 3 * np.median(model.weights_[dirty != y])
    assert model.score(X, y) > 0.98
    assert np.mean(model.inlier_mask_ == (dirty == y)) > 0.97
    assert model.contamination_ == pytest.approx(0.25, abs=0.02)


def test_a_classifier_told_that_no_label_is_wrong_names_none():
    X, y = load_iris(return_X_y=True)
    model = RobustKernelClassifier(contamination=0.0).fit(X, y)
    assert model.inlier_mask_.all()
    assert model.score(X, y) > 0.9
