"""The least-squares classifier, against refits, another library and closed forms."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeClassifier

from buttress import LeastSquaresClassifier
from buttress.certificates import certified_radius, training_flips
from buttress.expansion import one_against_rest
from buttress.least_squares import _Spectrum


def table(classes=2, n=40):
    X, y = load_iris(return_X_y=True)
    keep = np.random.default_rng(0).permutation(np.flatnonzero(y < classes))[:n]
    return X[keep], y[keep]


@pytest.mark.parametrize("classes", [2, 3])
def test_linear_machines_are_ridge_classifiers(classes):
    X, y = table(classes)
    weight = np.random.default_rng(1).random(len(y)) + 0.1
    ours = LeastSquaresClassifier(kernel="linear", alpha=0.7).fit(X, y, sample_weight=weight)
    theirs = RidgeClassifier(alpha=0.7).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-9)


def test_kernel_machines_are_kernel_ridge_on_a_centred_kernel():
    X, y = table()
    ours = LeastSquaresClassifier(gamma=0.3, alpha=0.5).fit(X, y)
    K = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(-1))
    P = np.eye(len(X)) - 1 / len(X)
    signs = 2.0 * (y == ours.classes_[1]) - 1
    theirs = KernelRidge(alpha=0.5, kernel="precomputed").fit(P @ K @ P, P @ signs)
    np.testing.assert_allclose(ours.decision_function(X), theirs.predict(P @ K @ P) + signs.mean(), atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_left_out_are_those_of_refits(weighted):
    X, y = table(3)
    weight = np.random.default_rng(1).random(len(y)) + 0.1 if weighted else np.ones(len(y))
    model = LeastSquaresClassifier(gamma=0.3, alpha=0.2).fit(X, y, sample_weight=weight)
    for row in range(0, 40, 7):
        rest = np.arange(len(y)) != row
        again = LeastSquaresClassifier(gamma=0.3, alpha=0.2).fit(X[rest], y[rest], sample_weight=weight[rest])
        np.testing.assert_allclose(model.loo_decision_[row], again.decision_function(X[row : row + 1])[0], atol=1e-8)


def test_the_penalty_is_the_one_with_the_least_error_left_out():
    X, y = table()
    X = X + np.random.default_rng(2).normal(size=X.shape)
    model = LeastSquaresClassifier(alpha="loo").fit(X, y)
    signs = 2.0 * (y == model.classes_[1]) - 1
    def error(alpha):
        left_out = LeastSquaresClassifier(alpha=alpha).fit(X, y).loo_decision_[:, 0]
        return np.mean((signs - left_out) ** 2)
    assert error(model.alpha_) <= min(error(model.alpha_ * 2.5), error(model.alpha_ / 2.5)) + 1e-12


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("alpha", [0.5, "loo"])
def test_flips_within_the_proof_change_no_prediction(classes, alpha):
    X, y = table(classes)
    X = X + 0.4 * np.random.default_rng(2).normal(size=X.shape)
    model = LeastSquaresClassifier(alpha=alpha).fit(X, y)
    found = training_flips(model, X, y, X[:10])
    fixed = LeastSquaresClassifier(alpha=model.alpha_, gamma=model.expansion_.kernel.gamma)
    for row, (rows, labels) in enumerate(zip(found.rows, found.labels)):
        if not found.exact[row] or not np.isfinite(found.needed[row]):
            continue
        for taken, changed in [(rows, True), (rows[:-1], False)]:
            other = y.copy()
            other[taken] = labels[: len(taken)]
            if len(np.unique(other)) == classes:
                assert (fixed.fit(X, other).predict(X[row : row + 1])[0] != found.prediction[row]) == changed


def test_attacks_and_radii_know_it():
    X, y = table()
    model = LeastSquaresClassifier().fit(X, y)
    assert (certified_radius(model, X[:5]).l2 > 0).all()


def test_what_cannot_be_fitted_is_refused():
    X, y = table()
    with pytest.raises(ValueError, match="alpha"):
        LeastSquaresClassifier(alpha=0.0).fit(X, y)
    with pytest.raises(ValueError, match="alpha"):
        LeastSquaresClassifier(alpha="lo").fit(X, y)
    with pytest.raises(ValueError, match="flips"):
        LeastSquaresClassifier(flips=2).fit(X, y)
    with pytest.raises(ValueError, match="precomputed"):
        LeastSquaresClassifier(kernel="precomputed").fit(X @ X.T, y)


@pytest.mark.parametrize("classes", [2, 3])
def test_rows_are_right_left_out_whatever_labels_are_wrong_where_the_tuning_says_so(classes):
    X, y = table(classes)
    X = X + 0.5 * np.random.default_rng(2).normal(size=X.shape)
    model = LeastSquaresClassifier(alpha="loo", flips=3).fit(X, y)
    fixed = LeastSquaresClassifier(alpha=model.alpha_, gamma=model.expansion_.kernel.gamma)
    rest = [np.arange(len(y)) != row for row in range(len(y))]
    needed = [training_flips(fixed.fit(X[r], y[r]), X[r], y[r], X[[i]]) for i, r in enumerate(rest)]
    share = np.mean([found.prediction[0] == y[i] and found.stands(3)[0] for i, found in enumerate(needed)])
    kernel = model.expansion_.kernel
    machine = _Spectrum(kernel(X, X), np.ones(len(y)))
    assert machine._proven(one_against_rest(y, len(model.classes_)), y, model.alpha_, 3) == pytest.approx(share)
