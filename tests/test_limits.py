"""Limit cases: one method with a parameter at its end is another method."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from buttress import SVC, AdvSVM, KernelClassifier, KernelRegressor, attacks
from buttress.kernels import RBF, Combination, Linear
from buttress.losses import Squared
from buttress.risks import Mean, Subquantile, Tilted
from buttress.solvers.gradient.descent import descent
from buttress.solvers.gradient.space import Dual

from problems import iris, moons, noisy, points


def test_quantile_one_and_tilt_zero_are_the_mean_iterate_by_iterate():
    X, y = points(40), points(40, 1, seed=1)[:, 0]
    K = RBF(0.5)(X, X)
    runs = [
        descent(Dual(K, np.full(40, 1 / 40)), y, Squared(), risk, ridge=0.01, start=np.zeros(40),
                sample_weight=np.ones(40))
        for risk in (Mean(), Subquantile(1.0), Tilted(0.0))
    ]
    for _, mean, subquantile, tilted in zip(range(50), *runs, strict=False):
        np.testing.assert_allclose(subquantile.state, mean.state, atol=1e-14)
        np.testing.assert_allclose(tilted.state, mean.state, atol=1e-14)


def test_small_tilt_tends_to_the_mean():
    losses = np.random.default_rng(0).exponential(size=50)
    assert Tilted(-1e-6)(losses) == pytest.approx(Mean()(losses), rel=1e-5)


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_mean_risk_is_kernel_ridge(alpha):
    X, y = points(60), points(60, 1, seed=1)[:, 0]
    ours = KernelRegressor(risk=Mean(), alpha=alpha, gamma=0.3, fit_intercept=False, tol=1e-10, max_iter=20000)
    ours.fit(X, y)
    theirs = KernelRidge(alpha=alpha, kernel="rbf", gamma=0.3).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-6)


@pytest.mark.parametrize("problem", [moons, iris])
def test_eps_zero_is_the_natural_machine(problem):
    X, y = problem()
    robust = AdvSVM(eps=0, gamma=0.5, C=len(X), tol=1e-6).fit(X, y)  # C of the mean of the losses
    if len(robust.classes_) == 2:
        natural = SVC(gamma=0.5, tol=1e-6).fit(X, y)
        np.testing.assert_allclose(robust.decision_function(X), natural.decision_function(X), atol=1e-5)
    else:
        for c in range(3):
            natural = SVC(gamma=0.5, tol=1e-6).fit(X, y == c)
            np.testing.assert_allclose(robust.decision_function(X)[:, c], natural.decision_function(X), atol=1e-5)


def test_eps_zero_attacks_return_their_input():
    X, y = moons()
    model = SVC().fit(X, y)
    np.testing.assert_array_equal(attacks.pgd(model, X, y, eps=0, restarts=2), X)
    np.testing.assert_array_equal(attacks.fgsm(model, X, y, eps=0), X)


def test_one_kernel_is_its_combination():
    X, y = noisy()
    one = SVC(kernel=RBF(0.1)).fit(X, y)
    same = SVC(kernel=Combination([RBF(0.1), Linear()], [1.0, 0.0])).fit(X, y)
    np.testing.assert_allclose(same.decision_function(X), one.decision_function(X), atol=1e-9)


def test_doubled_weights_double_C_and_halve_alpha():
    X, y = noisy()
    doubled = SVC(C=2.0).fit(X, y).decision_function(X)
    np.testing.assert_allclose(SVC().fit(X, y, np.full(len(y), 2.0)).decision_function(X), doubled, atol=1e-9)
    halved = KernelClassifier(alpha=0.5).fit(X, y).decision_function(X)
    again = KernelClassifier(alpha=1.0).fit(X, y, np.full(len(y), 2.0)).decision_function(X)
    np.testing.assert_allclose(again, halved, atol=1e-9)
