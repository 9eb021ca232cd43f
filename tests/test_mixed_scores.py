"""Classes that least squares blurs: scores are mixed, so that they are told, and wrong labels among them are found."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression

from buttress import RobustKernelClassifier, load, save
from buttress.kernels import MultiscaleRBF
from buttress.robust.design import kernel_design
from buttress.robust.kernel_classifier import _described
from buttress.robust.label_fit import LabelTask, fit_to
from buttress.solvers.contamination.confusion_law import Confusion
from buttress.solvers.run import SharedBudget


def ordered(n, seed=0):
    """Return rows of five columns and four classes, one after another along a line through them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, np.digitize(X.sum(axis=1) / np.sqrt(5) + 0.25 * rng.normal(size=n), [-0.3, 0.6, 1.2])


def test_a_class_between_two_others_is_predicted_as_well_as_by_logistic_regression_on_what_brings_it_about():
    """Four in five is what noise leaves; the best single score a class gets is a twentieth less."""
    X, y = ordered(500)
    X_new, y_new = ordered(3000, seed=1)
    line = LogisticRegression(C=100.0).fit(np.column_stack([X.sum(axis=1), X.sum(axis=1) ** 2]), y)
    peer = line.score(np.column_stack([X_new.sum(axis=1), X_new.sum(axis=1) ** 2]), y_new)
    model = RobustKernelClassifier(random_state=0).fit(X, y)
    assert model.score(X_new, y_new) > peer - 0.025
    assert model.contamination_ < 0.01


@pytest.mark.parametrize("make", [
    ordered, lambda n: make_blobs([n // 2, n // 4, n // 8, n // 8], n_features=5, cluster_std=1.2, random_state=3)])
def test_flips_into_a_small_class_among_a_thousand_rows_are_found(make):
    X, y = make(1000)
    sizes = np.bincount(y)
    bad = (y == sizes.argmax()) & (np.random.default_rng(0).random(1000) < 0.4)
    given = np.where(bad, sizes.argmin(), y)
    assert bad.sum() > np.sum(given == sizes.argmin()) / 2
    model = RobustKernelClassifier(random_state=0).fit(X, given)
    assert np.mean(model.inlier_mask_ == ~bad) > 0.98
    low, high = model.contamination_interval_
    assert low <= bad.mean() <= high
    assert model.confusion_[sizes.argmax(), sizes.argmin()] == pytest.approx(bad.sum() / sizes.max(), abs=0.03)


@pytest.mark.parametrize(("n", "C"), [(150, 6), (90, 4)])
def test_labels_of_pure_noise_are_not_read_from_what_leaving_a_row_out_takes_from_its_label(n, C):
    """Mixed scores of 150 rows explained them 75 nats better than chance could, by scores that were turned round."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 6)), rng.integers(0, C, n)
    model = RobustKernelClassifier(random_state=0).fit(X, y)
    assert model.score(rng.normal(size=(2000, 6)), rng.integers(0, C, 2000)) < 1 / C + 0.05
    assert model.contamination_interval_[1] > 0.3


@pytest.mark.parametrize("columns", [2, 20])
def test_mixed_scores_are_those_of_refits_and_the_model_gives_them(columns):
    """By definition, where features are fewer than rows and where they are as many."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, columns))
    codes = rng.integers(0, 3, 90)
    kernel = MultiscaleRBF(np.array([1, 0.3, 0.1, 0.03]) / columns)
    design = kernel_design(kernel, X, n_landmarks="auto", rng=np.random.RandomState(0))
    law = Confusion(np.eye(3), rng.normal(size=(3, 3)), rng.normal(size=3), mixed=True)
    fit = fit_to(LabelTask(design, codes, 3, None, 1.0, SharedBudget()), codes, 1.0, law)
    K, targets = kernel(X, X) + 1, 2 * np.eye(3)[codes] - 1
    dual = np.linalg.solve(K + np.eye(90), targets)
    np.testing.assert_allclose(_described(design, fit)["expansion_"](X), K @ dual @ law.A + law.bias, atol=1e-5)
    for i in (0, 41):
        left = np.arange(90) != i
        score = K[i, left] @ np.linalg.solve(K[np.ix_(left, left)] + np.eye(89), targets[left])
        np.testing.assert_allclose(fit.scores[i], score @ law.A + law.bias, atol=1e-5)


def test_a_saved_model_predicts_by_mixed_scores(tmp_path):
    X, y = ordered(700)
    model = RobustKernelClassifier(random_state=0).fit(X, y)
    assert np.ptp(model.expansion_.intercept) > 1
    save(model, tmp_path / "ordered.model")
    np.testing.assert_array_equal(load(tmp_path / "ordered.model").predict(X), model.predict(X))
    np.testing.assert_array_equal(model.decision_function(X).argmax(axis=1), model.predict(X))
