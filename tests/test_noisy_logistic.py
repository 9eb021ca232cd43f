"""Logistic regression that allows for wrong labels: against scikit-learn, refits and finite differences."""

import numpy as np
import pytest
from scipy.linalg import cho_solve
from sklearn.linear_model import LogisticRegression

from buttress import InterruptedWarning, RobustKernelClassifier
from buttress.kernels import MultiscaleRBF
from buttress.robust.design import kernel_design
from buttress.solvers.contamination.confusion_law import one_rate
from buttress.solvers.contamination.noisy_logistic import AtRidge, NoisyLogistic, _pull, curvature
from buttress.solvers.run import run

WIDTHS = np.array([1, 0.3, 0.1, 0.03])
RIGHT, WRONG = one_rate(3, 0.0), one_rate(3, 0.2)
ONE_WAY = np.array([[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.1, 0.1, 0.8]])


def waves(n=1500, rate=0.2, seed=0):
    """Three classes between the level lines of a wavy function of four columns: X, labels, which are wrong, right."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    right = np.digitize(np.sin(X[:, 0]) + np.cos(2 * X[:, 1]) + X[:, 2] * X[:, 3] / 2, [-0.5, 0.8])
    wrong = rng.random(n) < rate
    return X, np.where(wrong, (right + rng.integers(1, 3, n)) % 3, right), wrong, right


def problem(n=1500, m=40, rate=0.2, repeated=False):
    X, y, _, _ = waves(n, rate)
    if repeated:
        X, y = np.vstack([X, X[:200]]), np.append(y, y[:200])
    design = kernel_design(MultiscaleRBF(WIDTHS / 4), X, n_landmarks=m, rng=np.random.RandomState(0))
    return NoisyLogistic(design.ridge.features, y, 3, design.ridge.groups), y


def solved(fit, alpha, rates, start=None):
    """Iterate to the optimum."""
    coef = fit._start() if start is None else start
    for _ in range(6):
        factor = fit._factor(fit._gram(curvature(fit.chances(coef))), alpha)
        coef = run(fit.steps(coef, factor, alpha, rates), tol=1e-15, max_iter=60, warn=False).state
    return coef


def test_with_right_labels_it_is_logistic_regression():
    fit, y = problem()
    coef = solved(fit, 0.5, RIGHT)
    Z = fit.features[np.arange(len(y))]
    peer = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, max_iter=5000).fit(Z, y)
    np.testing.assert_allclose(coef, peer.coef_.T - peer.coef_.mean(axis=0)[:, None], atol=2e-4)


@pytest.mark.parametrize("rates", [WRONG, ONE_WAY], ids=["one rate", "one way"])
def test_residuals_are_the_gradient_and_the_optimum_has_none(rates):
    fit, y = problem()
    rng, Z = np.random.default_rng(1), fit.features[np.arange(len(y))]
    coef, direction = rng.normal(size=(2, Z.shape[1], 3))

    def value(c):
        return fit.objective(fit.chances(c), c, 0.5, rates).item()

    def residuals(c):
        return _pull(rates, Z @ c, y, fit.used)

    slope = (0.5 * coef - Z.T @ residuals(coef)) / len(y)
    numeric = (value(coef + 1e-5 * direction) - value(coef - 1e-5 * direction)) / 2e-5
    assert np.sum(slope * direction) == pytest.approx(numeric, rel=1e-5)
    best = solved(fit, 0.5, rates)
    slope = 0.5 * best - Z.T @ residuals(best)
    assert np.abs(slope).max() < 1e-4 * np.abs(0.5 * best).max()


@pytest.mark.parametrize("scale", [0.0, 1.0, 3.0])
def test_every_step_that_stays_lowers_the_objective(scale):
    """Also from a start whose curvature understates that further on, where first steps are too long."""
    fit, _ = problem()
    start = scale * np.random.default_rng(0).normal(size=fit._start().shape)
    factor = fit._factor(fit._gram(curvature(fit.chances(start))), 1e-3)
    steps = [step for step, _ in zip(fit.steps(start, factor, 1e-3, one_rate(3, 0.3)), range(60), strict=False)]
    values = [fit.objective(fit.chances(step.state), step.state, 1e-3, one_rate(3, 0.3)).item() for step in steps]
    np.testing.assert_allclose([step.objective for step in steps], values, rtol=1e-12)
    assert np.all(np.diff(values) <= 8 * np.finfo(float).eps * np.abs(values[1:]))
    stayed = np.flatnonzero(np.diff(values) == 0)
    assert all(steps[k + 1].change == 1 for k in stayed[:10])  # a step taken back is no convergence
    for k in set(stayed[stayed < 58]) - set(stayed - 1):  # then a plain step, halved or not
        slope = 1e-3 * steps[k].state - fit._pulled(steps[k].state, one_rate(3, 0.3))[1]
        plain = cho_solve(factor, slope)
        length = -np.sum((steps[k + 2].state - steps[k].state) * plain) / np.sum(plain**2)
        assert np.log2(length) == pytest.approx(round(np.log2(length)), abs=1e-6)
    assert (len(stayed) > 0) == (scale == 3)
    best = solved(fit, 1e-3, one_rate(3, 0.3))
    assert scale == 3 or values[-1] < fit.objective(fit.chances(best), best, 1e-3, one_rate(3, 0.3)) + 0.02


@pytest.mark.parametrize("n_classes", [3, 5, 10])
def test_classes_may_come_in_turns(n_classes):
    """No part of the rows is held out in which a class is missing."""
    rng = np.random.default_rng(0)
    y = np.arange(1000) % n_classes
    X = rng.normal(size=(1000, 2)) + 8 * np.column_stack([np.cos(y), np.sin(y)]) + 3 * y[:, None]
    model = RobustKernelClassifier(n_landmarks=100, random_state=0).fit(X / 5, y)
    assert model.contamination_ < 0.01
    assert model.inlier_mask_.all()


def test_curvature_bounds_the_hessian():
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.full(5, 0.5), size=200)
    largest = [np.linalg.eigvalsh(np.diag(row) - np.outer(row, row))[-1] for row in q]
    assert np.all(curvature(q) >= np.array(largest) - 8 * np.finfo(float).eps)


@pytest.mark.parametrize("repeated", [False, True])
def test_scores_of_rows_left_out_are_near_those_of_refits(repeated):
    """Rows that are equal are left out together."""
    fit, y = problem(repeated=repeated)
    coef = solved(fit, 1.0, WRONG)
    Z = fit.features[np.arange(len(y))]
    out = fit.left_out(coef, 1.0, WRONG)
    rows = np.arange(0, 60, 6)
    shift = []
    for i in rows:
        fit.used = 1.0 - np.all(Z[i] == Z, axis=1)[:, None]
        assert (1 - fit.used).sum() == 1 + repeated
        shift.append(Z[i] @ solved(fit, 1.0, WRONG, coef))
    plain = Z[rows] @ coef
    said, real = (out[rows] - plain).ravel(), (shift - plain).ravel()
    assert np.corrcoef(said, real)[0, 1] > 0.8
    assert 0.4 < said @ real / (real @ real) < 1.1


def test_fits_to_all_rows_and_to_the_other_folds_take_their_steps_together_as_they_would_alone():
    fit, y = problem(n=800)
    fold = np.arange(len(y)) % 5
    together = fit._of_all_rows(fold, AtRidge(fit._start(), np.zeros(0), WRONG, 0.0, 0.01, 0))
    for k in range(6):
        fit.used = (fold != k)[:, None].astype(float)
        alone, _ = fit._rounds(fit._start(), 0.01, WRONG, [fit.first, fit.last])
        np.testing.assert_allclose(together.scores[fold == k], fit._scores(alone)[fold == k], atol=1e-9)
        best = solved(fit, 0.01, WRONG)
        value, least = (fit.objective(fit.chances(coef), coef, 0.01, WRONG).item() for coef in (alone, best))
        assert value < least + 0.02
    np.testing.assert_allclose(together.coef, alone, atol=1e-9)


def test_an_interrupt_leaves_a_model_and_ends_all_rounds(monkeypatch):
    X, y, _, _ = waves(1500)
    calls, pulled = [], NoisyLogistic._pulled

    def interrupting(self, coef, rates):
        calls.append(rates)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return pulled(self, coef, rates)

    monkeypatch.setattr(NoisyLogistic, "_pulled", interrupting)
    with pytest.warns(InterruptedWarning, match="was interrupted"):
        model = RobustKernelClassifier(n_landmarks=60, random_state=0).fit(X, y)
    assert len(calls) == 8  # no step follows
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize("at", [3, 45])
def test_an_interrupt_of_the_second_fit_says_that_the_first_stays(monkeypatch, at):
    X, right, _, _ = waves(600, rate=0.0)
    y = np.where(np.random.default_rng(2).random(600) < 0.3, (right + 1) % 3, right)
    calls, pulled = [], NoisyLogistic._pulled

    def interrupting(self, coef, rates):
        calls.extend([rates] if len(np.unique(rates.round(12))) > 2 else [])
        if len(calls) == at:
            raise KeyboardInterrupt
        return pulled(self, coef, rates)

    monkeypatch.setattr(NoisyLogistic, "_pulled", interrupting)
    with pytest.warns(InterruptedWarning) as told:
        model = RobustKernelClassifier(n_landmarks=20, random_state=0).fit(X, y)
    assert [str(one.message).startswith("The fit was interrupted.") for one in told] == [True]
    assert len(np.unique(model.confusion_.round(12))) == 2


def test_on_landmarks_detail_is_kept_and_wrong_labels_are_named():
    X, y, wrong, _ = waves(4000)
    Xt, _, _, yt = waves(2000, seed=1)
    model = RobustKernelClassifier(n_landmarks=120, random_state=0).fit(X, y)
    peer = LogisticRegression(C=10.0, max_iter=500).fit(features(model, X), y)
    assert model.score(Xt, yt) > peer.score(features(model, Xt), yt) + 0.02
    assert model.contamination_ == pytest.approx(0.2, abs=0.03)
    assert np.mean(model.inlier_mask_ != wrong) > 0.93
    np.testing.assert_array_equal(model.loo_proba_.argmax(axis=1) == y, model.loo_score_ > 0)
    assert np.mean(model.predict(X) == model.classes_[model.loo_proba_.argmax(axis=1)]) > 0.95


@pytest.mark.parametrize("cycle", [False, True])
def test_on_landmarks_labels_wrong_one_way_are_named(cycle):
    """One class is read as another, or each as the next: that classes overlap explains such labels nearly as well."""
    X, right, _, _ = waves(4000, rate=0.0)
    wrong = (np.random.default_rng(2).random(4000) < 0.3) & (cycle | (right == 1))
    model = RobustKernelClassifier(n_landmarks=120, random_state=0).fit(X, np.where(wrong, (right + 1) % 3, right))
    assert model.contamination_ == pytest.approx(wrong.mean(), abs=0.03)
    assert np.mean(model.inlier_mask_ != wrong) > 0.93
    assert model.confusion_[1, 2] == pytest.approx(0.3, abs=0.05)
    Xt, yt, _, _ = waves(2000, rate=0.0, seed=1)
    assert model.score(Xt, yt) > 0.9


def test_shells_one_within_the_other_are_not_wrong_one_way():
    """Mixed scores explain the labels far better, under one rate too: of a thin shell a tenth would seem wrong."""
    X = np.random.default_rng(1).normal(size=(3500, 10))
    radius = np.sum(X[:, :3] ** 2, axis=1)
    y = np.digitize(radius, np.quantile(radius, [0.2, 0.3, 0.45, 0.6, 0.61]))
    model = RobustKernelClassifier(n_landmarks=200, random_state=0).fit(X, y)
    assert model.contamination_ < 0.03
    assert model.inlier_mask_.mean() > 0.98


def features(model, X):
    """Return kernel values with the landmarks, whitened."""
    kernel, Z = model.expansion_.kernel, model.expansion_.centers
    values, vectors = np.linalg.eigh(kernel(Z, Z))
    return kernel(X, Z) @ (vectors / np.sqrt(np.maximum(values, 1e-9)))
