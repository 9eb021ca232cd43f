"""Leave-one-out residuals against brute-force refits, trimmed fits against their objective, mixtures against truth."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm, t
from sklearn.kernel_ridge import KernelRidge

from buttress._rows import equal_rows
from buttress.kernels import RBF
from buttress.solvers.contamination.label_law import explain_labels
from buttress.solvers.contamination.mm import Reweighted, bisquare, ended, reweighting
from buttress.solvers.contamination.residual_law import Law, LawLimits, LeftOutResiduals, explain
from buttress.solvers.contamination.trimmed import concentrate, lts_scale
from buttress.solvers.ridge.leave_one_out import FeatureRidge, GramRidge, SpectralRidge, pivoted_cholesky

from problems import points

RNG = np.random.default_rng(5)
X = points(30)
Y = np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=30)
K = RBF(0.3)(X, X)
WEIGHTS = np.where(np.arange(30) % 5 == 0, 0.0, RNG.uniform(0.2, 1, 30))


def both_forms(groups=None):
    Z, _, _ = pivoted_cholesky(np.array(K, order="F"), tol=1e-14)
    return [FeatureRidge(Z, groups=groups), GramRidge(K, groups)]


def refit_without(rows, i, alpha):
    """Predict row i from scikit-learn's kernel ridge on the weighted rows but ``rows``."""
    left = np.setdiff1d(np.flatnonzero(WEIGHTS > 0), rows)
    model = KernelRidge(alpha=alpha, kernel="precomputed").fit(K[np.ix_(left, left)], Y[left], WEIGHTS[left])
    return model.predict(K[[i]][:, left])[0]


@pytest.mark.parametrize("ridge", both_forms(), ids=["features", "gram"])
def test_residuals_are_those_of_refits_without_the_row(ridge):
    fit = ridge.solve(Y, WEIGHTS, 0.4)
    expected = [Y[i] - refit_without([i], i, 0.4) for i in range(30)]
    np.testing.assert_allclose(fit.loo, expected, atol=1e-5)


@pytest.mark.parametrize("form", [0, 1], ids=["features", "gram"])
def test_equal_rows_are_left_out_together(form):
    groups = np.arange(30) // 2
    twins = np.repeat(X[::2], 2, axis=0)
    G = RBF(0.3)(twins, twins)
    Z, _, _ = pivoted_cholesky(np.array(G, order="F"), tol=1e-12)
    np.testing.assert_array_equal(np.unique(equal_rows(twins)[groups * 2]).size, 15)
    ridge = [FeatureRidge(Z, groups=equal_rows(twins)), GramRidge(G, equal_rows(twins))][form]
    fit = ridge.solve(Y, np.ones(30), 0.4)
    for i in (0, 1, 16):
        left = np.flatnonzero(groups != groups[i])
        model = KernelRidge(alpha=0.4, kernel="precomputed").fit(G[np.ix_(left, left)], Y[left])
        assert fit.loo[i] == pytest.approx(Y[i] - model.predict(G[[i]][:, left])[0], abs=1e-6)


def test_spread_is_the_deviation_of_a_gaussian_process_with_the_row_left_out():
    ridge = GramRidge(K)
    fit = ridge.solve(Y, np.ones(30), 0.4)
    left = np.arange(30) != 4
    k = K[4, left]
    variance = K[4, 4] - k @ np.linalg.solve(K[np.ix_(left, left)] + 0.4 * np.eye(29), k)
    assert fit.spread[4] ** 2 == pytest.approx(1 + variance / 0.4, rel=1e-6)


def test_two_forms_paths_and_targets_agree():
    features, gram = both_forms()
    targets = np.column_stack([Y, Y**2])
    one, other = features.solve(targets, WEIGHTS, 0.7), gram.solve(targets, WEIGHTS, 0.7)
    np.testing.assert_allclose(one.loo, other.loo, atol=1e-4)
    np.testing.assert_allclose(one.spread, other.spread, atol=1e-4)
    for ridge in (features, gram):
        other = ridge.path(targets, WEIGHTS, [0.1, 0.7], np.arange(len(WEIGHTS)))[1]
        np.testing.assert_allclose(other.loo, one.loo, atol=1e-4)


def test_gram_matrix_kept_from_solve_to_solve_is_the_one_built_anew():
    ridge = both_forms()[0]
    for seed in range(4):
        u = np.random.default_rng(seed).random(30) * (np.arange(30) > seed)
        np.testing.assert_allclose(ridge.gram(u), (ridge.Z.T * u) @ ridge.Z, atol=1e-12)


def test_concentration_ends_where_its_own_rows_are_kept():
    Z = np.column_stack([points(80, 2, seed=3), np.ones(80)])
    y = Z @ [1.0, -2.0, 0.5] + 0.1 * RNG.normal(size=80)
    y[:25] += 5
    ridge = FeatureRidge(Z)
    *_, last = concentrate_to_the_end(ridge, y, alpha=0.1, h=44)
    _, keep = last.state
    assert keep.sum() == 44
    assert not keep[:25].any()
    again = ridge.solve(y, keep, 0.1)
    size = np.abs(again.loo) / again.spread
    assert size[keep > 0].max() <= size[keep == 0].min()


def concentrate_to_the_end(ridge, y, **options):
    for step in concentrate(ridge, y, np.ones(len(y)), **options):
        yield step
        if step.done:
            return


def test_bisquare_fit_is_a_stationary_point_of_its_loss():
    Z = np.column_stack([points(60, 2, seed=4), np.ones(60)])
    y = Z @ [1.0, -1.0, 0.0] + 0.2 * RNG.normal(size=60)
    y[:10] = 9
    start = np.array([1.0, -1.0, 0.0])
    found = ended(reweighting(Z, y, Reweighted(start, y - Z @ start, 0.2), 4.685, alpha=0.3))

    def loss(w):
        z = np.minimum(((y - Z @ w) / (4.685 * 0.2)) ** 2, 1)
        return (4.685 * 0.2) ** 2 / 6 * np.sum(1 - (1 - z) ** 3) + 0.15 * w @ w

    best = minimize(loss, found.coef, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    np.testing.assert_allclose(found.coef, best.x, atol=1e-4)
    assert bisquare(np.array([0.0, 0.937, 1.0]), 4.685 * 0.2).round(3).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("part", [0.5, 0.75, 1.0])
def test_scale_of_the_smallest_residuals_is_consistent_for_normal_ones(part):
    r = 3 * norm.ppf((np.arange(20000) + 0.5) / 20000)
    assert lts_scale(r, int(part * 20000)) == pytest.approx(3, rel=2e-3)
    spoilt = np.concatenate([r, np.full(8000, 1e9)])
    assert lts_scale(spoilt, 14001) < 9


def test_a_law_finds_the_share_and_the_rows_it_was_drawn_with():
    rng = np.random.default_rng(0)
    r = np.concatenate([rng.normal(size=800), rng.normal(8, 3, size=200)])
    found = explain(LeftOutResiduals(r, np.ones(1000)), LawLimits(1e-9))
    assert found.law.share == pytest.approx(0.2, abs=0.03)
    assert np.mean((found.responsibility > 0.5) == (np.arange(1000) < 800)) > 0.97
    clean = explain(LeftOutResiduals(rng.standard_t(4, size=1000), np.ones(1000)), LawLimits(1e-9))
    assert clean.law.share == 0
    assert clean.responsibility.min() > 0.99


def test_how_likely_one_row_is_bad_grows_with_its_distance():
    """Heavier tails explain it too, and the two explanations are weighed, not chosen between."""
    r, bad = np.random.default_rng(0).normal(size=200), []
    for far in (4.0, 4.5, 5.0, 5.5, 6.0, 8.0, 60.0):
        r[0] = far
        bad.append(1 - explain(LeftOutResiduals(r, np.ones(200)), LawLimits(1e-9)).responsibility[0])
    assert np.all(np.diff(bad) > 0)
    assert bad[0] < 0.1
    assert bad[-1] > 0.9
    assert sum(0.05 < p < 0.95 for p in bad) >= 3


def test_densities_are_those_of_scipy_and_nothing_is_too_far_to_be_an_outlier():
    law = Law(scale=0.5, nu=8.0, share=0.25, location=1.0, width=2.0)
    r = np.array([0.3, -2.0, 5.0])
    inlier, outlier = law.log_parts(LeftOutResiduals(r, np.ones(3)))
    np.testing.assert_allclose(np.exp(inlier), 0.75 * t(8, scale=0.5).pdf(r), rtol=1e-9)
    mixed = 0.9 * norm(1, 2).pdf(r) + 0.1 * t(1, 1, 2).pdf(r)
    np.testing.assert_allclose(np.exp(outlier), 0.25 * mixed, rtol=1e-9)
    assert law.e_step(LeftOutResiduals(np.array([1e3, 1e9]), np.ones(2)))[0].max() < 1e-6


def test_rate_of_wrong_labels_is_that_of_greatest_likelihood():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 3)) * 3
    q = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    codes = (rng.random(4000)[:, None] > q.cumsum(axis=1)).sum(axis=1)
    wrong = rng.random(4000) < 0.25
    codes[wrong] = (codes[wrong] + rng.integers(1, 3, wrong.sum())) % 3
    found = explain_labels(logits, codes)
    assert found.rate == pytest.approx(0.25, abs=0.03)
    assert found.wrong.mean() == pytest.approx(wrong.mean(), abs=0.03)  # probabilities add up to the number of errors
    sure = found.wrong > 0.8
    assert wrong[sure].mean() == pytest.approx(found.wrong[sure].mean(), abs=0.05)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("stacked", [True, False])
def test_eigenvectors_give_the_fits_of_the_solver(exact, stacked):
    """Rows of equal weight by one eigendecomposition; rows of other weights by the solver itself."""
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(40, 12))
    Z[:, 11] = Z[:, 0]  # an eigenvalue of 0
    Z = np.vstack([Z, Z[:10]]) if stacked else Z
    Y = rng.normal(size=(len(Z), 3))
    groups = equal_rows(Z) if stacked else None
    plain = GramRidge(Z @ Z.T, groups) if exact else FeatureRidge(Z, groups=groups)
    ours = SpectralRidge(plain)
    features = Z @ Z.T if exact else Z
    for alpha in (0.1, 30.0):
        for u in (np.ones(len(Z)), np.where(rng.random(len(Z)) < 0.3, 0.0, 1.0)):
            expected, found = plain.solve(Y, u, alpha), ours.solve(Y, u, alpha)
            np.testing.assert_allclose(features @ found.coef, features @ expected.coef, atol=1e-8)
            np.testing.assert_allclose(found.values, expected.values, atol=1e-8)
            np.testing.assert_allclose(found.loo, expected.loo, atol=1e-8)
            np.testing.assert_allclose(found.spread, expected.spread, atol=1e-8)
            rows = np.array([3, 1, 20])
            seen = next(iter(ours.path(Y, u, np.array([alpha]), rows)))
            np.testing.assert_allclose(seen.loo, expected.loo[rows], atol=1e-8)
