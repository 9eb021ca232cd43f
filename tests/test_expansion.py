"""Kernel expansions against sums written out, finite differences, and the estimators' own predictions."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from buttress import SVC, SVR, KernelClassifier, expansion
from buttress.expansion import (
    KernelExpansion,
    binary_contrasts,
    margins,
    pair_contrasts,
    rival_contrasts,
    winners,
)
from buttress.kernels import Linear

from problems import KERNELS, iris, moons, points


def an_expansion(kernel, k=3):
    return KernelExpansion(kernel, points(7, seed=1), points(7, k, seed=2), np.arange(float(k)))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_scores_are_the_sum_and_gradients_their_differences(kernel):
    f, X, V, h = an_expansion(kernel), points(5), points(5, 3, seed=3), 1e-6
    for i, c in np.ndindex(5, 3):
        terms = [f.coef[j, c] * kernel(X[i : i + 1], f.centers[j : j + 1])[0, 0] for j in range(7)]
        assert f(X)[i, c] == pytest.approx(sum(terms) + c, abs=1e-10)
    shifts = h * np.eye(3)
    numeric = np.stack([((f(X + s) - f(X - s)) / (2 * h) * V).sum(axis=1) for s in shifts], axis=1)
    np.testing.assert_allclose(f.gradient(X, V), numeric, atol=1e-6)


@pytest.mark.filterwarnings("ignore")  # that the fit has not converged
@pytest.mark.parametrize("machine", [SVC, SVR])
@pytest.mark.parametrize("column", [np.full(30, 1e8), 1.7e9 + np.arange(30.0)], ids=["constant", "time"])
def test_columns_far_from_0_cancel_in_the_hyperplane_as_in_real_numbers(machine, column):
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=30), column])
    model = machine(kernel="linear", C=0.1, max_iter=5000).fit(X, np.sign(X[:, 0] + rng.normal(size=30)))
    weights = [Fraction(one) for one in model.dual_coef_[0].tolist()]
    rows = [[Fraction(entry) for entry in row] for row in X.tolist()]
    plane = [sum(weight * rows[i][k] for weight, i in zip(weights, model.support_, strict=True)) for k in range(2)]
    exact = [float(sum(w * x for w, x in zip(plane, row, strict=True)) + Fraction(float(model.intercept_[0])))
             for row in rows]
    size = 1e-15 * max(1.0, *(abs(float(plane[1])) * abs(column)))  # of the largest term that a score is a sum of
    np.testing.assert_allclose(model.expansion_(X)[:, 0], exact, atol=1e-9 + 10 * size)
    np.testing.assert_allclose((X @ model.coef_.T + model.intercept_)[:, 0], exact, atol=1e-9 + 10 * size)


@pytest.mark.parametrize("chunk", [1, 7, 20, 10**6])
def test_chunks_change_nothing(chunk, monkeypatch):
    f, X, V = an_expansion(KERNELS[2]), points(23), points(23, 3, seed=3)
    scores, gradient = f(X), f.gradient(X, V)
    monkeypatch.setattr(expansion, "BLOCK_ENTRIES", chunk)
    np.testing.assert_allclose(f(X), scores, atol=1e-12)
    np.testing.assert_allclose(f.gradient(X, V), gradient, atol=1e-12)


def test_no_rows_have_no_scores():
    f = an_expansion(KERNELS[2])
    assert f(np.empty((0, 3))).shape == (0, 3)
    assert f.gradient(np.empty((0, 3)), np.empty((0, 3))).shape == (0, 3)


@pytest.mark.parametrize(("model", "problem"), [(SVC(), moons), (SVC(), iris), (KernelClassifier(), moons),
                                                (KernelClassifier(), iris)])
def test_a_positive_margin_is_a_right_prediction(model, problem):
    X, y = problem()
    model.fit(X, y)
    scores = model.expansion_(X)
    values, contrast = margins(scores, y, model.contrasts_)
    np.testing.assert_allclose(values, (contrast * scores).sum(axis=1), atol=1e-12)
    right = model.predict(X) == y
    assert right[values > 0].all()
    if scores.shape[1] != 3 or not isinstance(model, SVC):  # a vote can be won without winning every pair
        assert not right[values < 0].any()
    np.testing.assert_array_equal(model.classes_[winners(scores, model.contrasts_)][right], y[right])


def test_sparse_rows_far_from_0_cancel_in_the_hyperplane_as_in_real_numbers():
    rng = np.random.default_rng(1)
    Z, X = (np.hstack([1e8 + rng.normal(size=(n, 2)), rng.normal(size=(n, 3)) * (rng.random((n, 3)) < 0.3)])
            for n in (40, 5))
    coef = rng.normal(size=40)
    coef[-1] = -coef[:-1].sum()
    exact = [[Fraction(value) for value in row] for row in (*Z.tolist(), *X.tolist())]
    w = [sum(Fraction(c) * row[j] for c, row in zip(coef.tolist(), exact)) for j in range(5)]
    expected = [float(sum(a * b for a, b in zip(w, row))) for row in exact[40:]]
    for centers, rows in ((csr_matrix(Z), csr_matrix(X)), (csr_matrix(Z), X), (Z, csr_matrix(X))):
        scores = KernelExpansion(Linear(), centers, coef[:, None], np.zeros(1))(rows)[:, 0]
        np.testing.assert_allclose(scores, expected, rtol=1e-9)


def test_contrasts_are_leads_over_each_rival():
    scores = points(6, 4)
    leads = np.einsum("crk,ik->icr", rival_contrasts(4), scores)
    for i, c in np.ndindex(6, 4):
        expected = sorted(scores[i, c] - np.delete(scores[i], c))
        assert sorted(leads[i, c]) == pytest.approx(expected)
    np.testing.assert_array_equal(winners(scores, rival_contrasts(4)), scores.argmax(axis=1))
    signs = points(6, 1)
    np.testing.assert_array_equal(winners(signs, binary_contrasts()), (signs[:, 0] > 0).astype(int))


def test_pair_contrasts_count_votes():
    pairs = [(0, 1), (0, 2), (1, 2)]
    for signs in np.ndindex(2, 2, 2):
        scores = np.array([[1.0 if s else -1.0 for s in signs]])
        votes = np.zeros(3)
        for s, (i, j) in zip(scores[0], pairs):
            votes[i if s > 0 else j] += 1
        assert winners(scores, pair_contrasts(pairs, 3))[0] == votes.argmax()
