"""What is proven of support vector machines whose labels may be wrong, against refits of every set of labels."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.svm import SVC as LibSVC

from buttress import SVC, LinearSVC
from buttress.certificates import training_flips
from buttress.certificates.training.hinge import HingeProblem

MACHINES = [LibSVC(C=1.0, gamma=0.5, tol=1e-8), SVC(C=1.0, gamma=0.5, tol=1e-8), LibSVC(C=20.0, gamma=0.3, tol=1e-8),
            LinearSVC(C=0.2, tol=1e-8, fit_intercept=False), LibSVC(kernel="linear", C=0.5, tol=1e-8)]


def table(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int), 1.5 * rng.normal(size=(15, 2))


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_that_is_proven_is_broken_by_brute_force(machine, seed):
    X, y, Z = table(14, seed)
    model = machine.fit(X, y)
    before = model.predict(Z)
    found = training_flips(model, X, y, Z, flips=[1, 2, 3])
    least = np.full(len(Z), 4.0)
    for k in (1, 2):
        for rows in combinations(range(14), k):
            other = y.copy()
            other[list(rows)] ^= 1
            if np.ptp(other):
                changed = machine.fit(X, other).predict(Z) != before
                least[changed] = np.minimum(least[changed], k)
    assert (found.needed <= least).all()
    np.testing.assert_array_equal(found.needed[found.exact], least[found.exact])
    assert ((found.needed == 1) <= (least == 1)).mean() > 0.9  # with tight refits one label is decided


def test_small_C_is_proven_beyond_one_label():
    X, y, _ = table(200, 3)
    far = np.array([[3.0, 0.0], [-3.0, 0.0]])
    model = LinearSVC(C=0.005, fit_intercept=False).fit(X, y)
    assert (training_flips(model, X, y, far, flips=3).needed > 2).all()


def test_the_gap_is_that_of_its_definition():
    X, y, _ = table(30, 2)
    signs = 2.0 * y - 1
    model = LibSVC(C=2.0, gamma=0.5, tol=1e-10).fit(X, y)
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1))
    beta = np.zeros(30)
    beta[model.support_] = model.dual_coef_[0]
    problem = HingeProblem(K, K[:5], np.ones(5), signs, 2.0, True)
    good = problem.solved(beta, signs, float(model.intercept_[0]))
    assert 0 < good.gap < 1e-6
    half = problem.solved(0.5 * beta, signs, float(model.intercept_[0]))
    primal = 0.125 * beta @ K @ beta + 2 * np.maximum(0, 1 - signs * (0.5 * K @ beta + model.intercept_[0])).sum()
    assert half.primal == pytest.approx(primal)
    assert half.gap >= primal - 0.5 * np.abs(beta).sum() + 0.125 * beta @ K @ beta


def test_a_refit_that_stops_early_proves_less():
    X, y, Z = table(40, 4)
    tight = training_flips(LibSVC(C=5.0, gamma=0.5, tol=1e-8).fit(X, y), X, y, Z)
    loose = training_flips(LibSVC(C=5.0, gamma=0.5, tol=0.3).fit(X, y), X, y, Z)
    assert (loose.needed > 1).sum() <= (tight.needed > 1).sum()
    assert (tight.needed > 1).any()


@pytest.mark.parametrize("machine", [LibSVC(C=2.0, gamma=0.7), SVC(C=2.0, gamma=0.7)], ids=str)
def test_a_machine_fitted_with_weights_is_not_taken_for_one_without(machine):
    """Its refits would have the weights too: there one label changes predictions that stand in refits without."""
    X, y, Z = table(10, 0)
    weight = np.where(np.arange(10) == 0, 5.0, 1.0)
    with pytest.raises(ValueError, match="sample_weight"):
        training_flips(machine.fit(X, y, sample_weight=weight), X, y, Z)
    with pytest.raises(ValueError, match="Give the data it was fitted to"):
        training_flips(machine.fit(X, y), X[::-1], y[::-1], Z)
    training_flips(machine.fit(X, y, sample_weight=np.ones(10)), X, y, Z)


@pytest.mark.filterwarnings("ignore:Sigmoid is not positive definite")
def test_what_is_not_covered_is_refused():
    X, y, Z = table(20, 0)
    for machine in (LibSVC(kernel="sigmoid"), SVC(kernel="sigmoid"), SVC(kernel="log")):
        with pytest.raises(ValueError, match="positive definite"):
            training_flips(machine.fit(X, y), X, y, Z)
    with pytest.raises(ValueError, match="class_weight"):
        training_flips(LibSVC(class_weight="balanced").fit(X, y), X, y, Z)
    with pytest.raises(ValueError, match="costs"):
        training_flips(SVC().fit(X, y), X, y, Z, costs=np.ones(20))
    with pytest.raises(ValueError, match="two classes"):
        training_flips(SVC().fit(X, np.arange(20) % 3), X, np.arange(20) % 3, Z)
