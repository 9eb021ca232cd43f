"""What a kernel expansion keeps for speed: it never answers from other centers, kernels or copies than its own."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris

from buttress import SVC
from buttress.expansion import KernelExpansion
from buttress.kernels import RBF, Laplacian, Linear

RNG = np.random.default_rng(0)
CENTERS = RNG.normal(size=(7, 3))
COEF = RNG.normal(size=(7, 2))
ROWS = RNG.normal(size=(5, 3))


def expected(kernel, centers):
    return kernel(ROWS, centers) @ COEF + 1.0


def made(kernel, centers=CENTERS):
    expansion = KernelExpansion(kernel, centers.copy(), COEF, np.ones(2))
    expansion.freeze()
    return expansion


@pytest.mark.parametrize("kernel", [RBF(0.7), Laplacian(0.4), Linear()])
def test_scores_are_the_kernel_times_the_coefficients_each_time(kernel):
    expansion = made(kernel)
    for _ in range(3):
        np.testing.assert_allclose(expansion(ROWS), expected(kernel, CENTERS), rtol=1e-13)


def test_other_centers_and_kernels_are_seen():
    expansion = made(RBF(0.7))
    expansion(ROWS)
    expansion.centers = 2 * CENTERS
    np.testing.assert_allclose(expansion(ROWS), expected(RBF(0.7), 2 * CENTERS), rtol=1e-13)
    expansion.freeze()
    expansion(ROWS)
    expansion.kernel = RBF(0.2)
    np.testing.assert_allclose(expansion(ROWS), expected(RBF(0.2), 2 * CENTERS), rtol=1e-13)
    expansion.kernel.gamma = 0.3
    np.testing.assert_allclose(expansion(ROWS), expected(RBF(0.3), 2 * CENTERS), rtol=1e-13)


def test_centers_that_are_not_frozen_may_change_in_place():
    expansion = KernelExpansion(RBF(0.7), CENTERS.copy(), COEF, np.ones(2))
    expansion(ROWS)
    expansion.centers *= 3
    np.testing.assert_allclose(expansion(ROWS), expected(RBF(0.7), 3 * CENTERS), rtol=1e-13)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_answer_alike_and_hold_nothing_more(copied):
    X, y = load_iris(return_X_y=True)
    model = SVC().fit(X, y)
    before = len(pickle.dumps(model))
    answers = model.decision_function(X)
    assert len(pickle.dumps(model)) == before
    again = copied(model)
    np.testing.assert_array_equal(again.decision_function(X), answers)
    assert not again.expansion_.centers.flags.writeable
