"""SEVER, CRR, STIR and trimmed likelihood against explicit features, fixed points, linear programs and peers."""

import numpy as np
import pytest
import sklearn
from scipy.optimize import linprog, minimize
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler, scale

from buttress import (
    CRR,
    STIR,
    SeverClassifier,
    SeverRegressor,
    TrimmedLikelihoodClassifier,
    TrimmedLikelihoodRegressor,
)
from buttress.datasets import contaminate
from buttress.kernels import RBF
from buttress.robust.published.likelihood import FAMILIES, trimmed_likelihood
from buttress.robust.published.linear import column_basis, crr, stir
from buttress.robust.published.sever import gram_times, scores

from problems import breast_cancer, iris, moons, points


def line(n=200, d=4, rate=0.2, kind="noise", seed=0, noise=0.1):
    """A linear problem with a corrupted share: X, y, corrupted rows, the true coefficients."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    X, y, corrupt = contaminate(X, X @ w + noise * rng.normal(size=n), rate, kind, random_state=seed)
    return X, y, corrupt, w


@pytest.mark.parametrize("n_scores", [1, 3])
def test_sever_scores_by_the_gram_matrix_are_those_of_explicit_gradients(n_scores):
    X, R = points(40, 5), points(40, n_scores, seed=1)
    G = np.concatenate([R[:, [c]] * X for c in range(n_scores)], axis=1)
    G = G - G.mean(axis=0)
    direction = np.linalg.svd(G)[2][0]
    np.testing.assert_allclose(scores(R, lambda v: X @ (X.T @ v)), (G @ direction) ** 2, rtol=1e-4, atol=1e-6)


def test_sever_with_a_linear_kernel_is_a_loop_over_explicit_gradients():
    X, y, _, _ = line()
    model = SeverRegressor(Ridge(alpha=1.0, fit_intercept=False), kernel="linear", contamination=0.2).fit(X, y)
    kept = np.arange(len(y))
    for _ in range(4):
        ridge = Ridge(alpha=1.0, fit_intercept=False).fit(X[kept], y[kept])
        G = (ridge.predict(X[kept]) - y[kept])[:, None] * X[kept]
        G = G - G.mean(axis=0)
        tau = (G @ np.linalg.svd(G)[2][0]) ** 2
        kept = kept[np.sort(np.argsort(-tau)[int(0.1 * len(kept)):])]
    np.testing.assert_array_equal(np.flatnonzero(model.inlier_mask_), kept)
    last = Ridge(alpha=1.0, fit_intercept=False).fit(X[kept], y[kept])
    np.testing.assert_allclose(model.estimator_.coef_, last.coef_)


def test_sever_takes_the_kernel_of_its_estimator():
    X, y, _, _ = line(80)
    own = SeverRegressor(KernelRidge(kernel="rbf", gamma=0.2)).fit(X, y)
    given = SeverRegressor(KernelRidge(kernel="rbf", gamma=0.2), kernel=RBF(0.2)).fit(X, y)
    np.testing.assert_array_equal(own.inlier_mask_, given.inlier_mask_)


@pytest.mark.parametrize("ratio", [None, 4.0])
def test_sever_drops_the_corrupt_rows(ratio):
    X, y, corrupt, w = line()
    model = SeverRegressor(Ridge(), kernel="linear", variance_ratio=ratio, n_rounds=20 if ratio else 4,
                           random_state=0)
    model.fit(X, y)
    assert model.inlier_mask_[corrupt].mean() < 0.1
    assert np.linalg.norm(model.estimator_.coef_ - w) < 0.2 * np.linalg.norm(Ridge().fit(X, y).coef_ - w)


def test_the_random_rule_leaves_clean_rows_nearly_alone():
    X, y, _, _ = line(rate=0.0)
    model = SeverRegressor(Ridge(), kernel="linear", variance_ratio=4.0, random_state=0).fit(X, y)
    assert model.inlier_mask_.mean() > 0.9


def test_sever_classifier_keeps_every_class_and_names_a_lost_one():
    X, y = iris()
    _, flipped, mask = contaminate(X, y, 0.2, "flip", random_state=0)
    model = SeverClassifier(contamination=0.2).fit(X, flipped)
    assert model.score(X, y) > 0.9
    assert model.inlier_mask_[mask].mean() < 0.5 < model.inlier_mask_[~mask].mean()
    rare = np.r_[np.zeros(60, dtype=int), 1]
    X = np.r_[points(60, 2), [[9.0, 9.0]]]
    with pytest.raises(ValueError, match=r"dropped every row of class .*1.*\. Use balanced=True"):
        SeverClassifier(LogisticRegression(), drop_share=0.1, balanced=False).fit(X, rare)


def test_sever_goes_over_features_beyond_the_exact_rows(monkeypatch):
    monkeypatch.setattr("buttress.robust.published.sever.GRAM_ROWS", 300)
    monkeypatch.setattr("buttress.robust.published.sever.AUTO_LANDMARKS", 200)
    X = points(400, 2)
    v = points(400, 1, seed=1)
    exact = RBF(0.5)(X, X) @ v
    np.testing.assert_allclose(gram_times(RBF(0.5), X)(v), exact, atol=0.02 * np.abs(exact).max())


def test_crr_never_raises_its_objective_and_ends_at_a_fixed_point():
    X, y, corrupt, _ = line(kind="shifted")
    objective = [step.objective for _, step in zip(range(60), crr(column_basis(X), y, 40), strict=False)]
    assert np.diff(objective).max() <= 1e-9
    model = CRR(contamination=0.2, fit_intercept=False, tol=1e-12).fit(X, y)
    np.testing.assert_array_equal(model.inlier_mask_, ~corrupt)
    inliers = LinearRegression(fit_intercept=False).fit(X[~corrupt], y[~corrupt])
    np.testing.assert_allclose(model.coef_, inliers.coef_, atol=1e-8)
    residual = y - model.predict(X)
    np.testing.assert_allclose(residual[corrupt], model.correction_[corrupt], atol=1e-8)


def test_nothing_forgiven_is_least_squares():
    X, y, _, _ = line()
    plain = LinearRegression().fit(X, y)
    for model in (CRR(contamination=0.0), TrimmedLikelihoodRegressor(contamination=0.0)):
        model.fit(X, y)
        np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-6)
        assert model.intercept_ == pytest.approx(plain.intercept_, abs=1e-6)
        assert model.inlier_mask_.all()


def test_stir_never_raises_its_objective_and_tends_to_least_absolute_deviations():
    X, y, corrupt, _ = line(60, 3)
    steps = stir(X, y, weight=np.ones(60), truncation=1.0, growth=1.5)
    objective = [step.objective for _, step in zip(range(80), steps, strict=False)]
    assert np.diff(objective).max() <= 1e-9
    model = STIR(fit_intercept=False, tol=1e-9, max_iter=5000).fit(X, y)
    # minimise sum(u + v) with X w + u - v = y, u and v >= 0
    program = linprog(np.r_[np.zeros(3), np.ones(120)], A_eq=np.c_[X, np.eye(60), -np.eye(60)], b_eq=y,
                      bounds=[(None, None)] * 3 + [(0, None)] * 120)
    assert np.abs(y - model.predict(X)).sum() == pytest.approx(program.fun, rel=1e-4)
    assert model.inlier_mask_[~corrupt].all()


@pytest.mark.parametrize("estimator", [CRR(), STIR(), TrimmedLikelihoodRegressor()], ids=lambda e: type(e).__name__)
def test_linear_baselines_recover_the_line_whatever_its_units(estimator):
    X, y, corrupt, w = line(kind="shifted" if isinstance(estimator, CRR) else "noise")
    one = estimator.fit(X, y)
    assert np.abs(one.coef_ - w).max() < 0.1
    coef, kept = one.coef_.copy(), one.inlier_mask_.copy()
    assert kept[corrupt].mean() < 0.1
    two = estimator.fit(X, 1e6 * y)
    np.testing.assert_allclose(two.coef_, 1e6 * coef, rtol=1e-3)
    order = np.random.default_rng(0).permutation(len(y))
    three = estimator.fit(X[order], y[order])
    np.testing.assert_allclose(three.coef_, coef, rtol=1e-3)
    np.testing.assert_array_equal(three.inlier_mask_, kept[order])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("radius", [np.inf, 0.5])
def test_trimmed_likelihood_never_rises(family, radius):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    t = X @ [0.5, -0.3, 0.2]
    y = {"normal": t + rng.normal(size=80), "poisson": rng.poisson(np.exp(t)).astype(float),
         "binomial": (rng.uniform(size=80) < 1 / (1 + np.exp(-t))).astype(float)}[family]
    steps = trimmed_likelihood(X, y, FAMILIES[family], np.ones(80, dtype=bool), 75, radius)
    states = [step for _, step in zip(range(20), steps, strict=False)]
    assert np.diff([step.objective for step in states]).max() <= 1e-6
    assert states[-1].done
    beta, kept = states[-1].state
    assert np.linalg.norm(beta) <= radius * (1 + 1e-9)
    # an independent minimiser of the likelihood of the kept rows in the ball
    ball = [{"type": "ineq", "fun": lambda b: radius**2 - b @ b}] if np.isfinite(radius) else []
    best = minimize(lambda b: FAMILIES[family].loss(y[kept], X[kept] @ b).sum(), beta + 0.1, constraints=ball,
                    method="SLSQP", options={"ftol": 1e-12, "maxiter": 500})
    np.testing.assert_allclose(beta, best.x, atol=2e-3)


def test_untrimmed_likelihoods_are_scikit_learns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    counts = rng.poisson(np.exp(X @ [0.5, -0.3] + 1))
    ours = TrimmedLikelihoodRegressor(contamination=0.0, family="poisson").fit(X, counts)
    theirs = PoissonRegressor(alpha=0, tol=1e-10, max_iter=1000).fit(X, counts)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-4)
    labels = rng.uniform(size=150) < 1 / (1 + np.exp(-X @ [2.0, -1.0]))
    ours = TrimmedLikelihoodClassifier(contamination=0.0).fit(X, labels)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X, labels)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)


def test_trimmed_poisson_regression_forgives_wild_counts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = rng.poisson(np.exp(X @ [0.5, -0.3] + 1)).astype(float)
    y[:30] = 500
    model = TrimmedLikelihoodRegressor(contamination=0.1, family="poisson").fit(X, y)
    assert not model.inlier_mask_[:30].any()
    assert np.abs(model.coef_ - [0.5, -0.3]).max() < 0.15


@pytest.mark.parametrize("estimator", [SeverRegressor, SeverClassifier, CRR, TrimmedLikelihoodRegressor])
def test_half_of_the_rows_corrupt_is_refused_with_the_reason(estimator):
    X, y = breast_cancer()
    with pytest.raises(ValueError, match=r"contamination must be in \[0, 0.5\). Got 0.5. With half of the rows"):
        estimator(contamination=0.5).fit(X, y)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (SeverRegressor(drop_share=0.1, variance_ratio=4.0), "Give one of them"),
        (SeverRegressor(variance_ratio=0.5), r"variance_ratio must be in \[1, inf\)"),
        (SeverRegressor(n_rounds=0), "n_rounds must be a whole number"),
        (SeverRegressor(kernel="precomputed"), "takes no Gram matrix"),
        (SeverRegressor(drop_share=1.0), r"drop_share must be in \[0, 1\)"),
        (STIR(growth=1.0), r"growth must be in \(1, inf\)"),
        (STIR(truncation=0), r"truncation must be in \(0, inf\)"),
        (CRR(tol=0), r"tol must be in \(0, inf\)"),
        (TrimmedLikelihoodRegressor(family="gamma"), "family must be one of 'normal', 'poisson'"),
        (TrimmedLikelihoodRegressor(family="poisson"), "Poisson targets must not be negative"),
        (TrimmedLikelihoodRegressor(radius=-1), r"radius must be in \(0, inf\)"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(estimator, message):
    X, y, _, _ = line(30)
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y)


def test_scaled_features_do_not_mislead_the_trimmed_likelihood():
    X, y, corrupt, w = line(kind="label+feature")
    model = TrimmedLikelihoodRegressor(contamination=0.2).fit(scale(X, with_mean=False) * X.std(axis=0), y)
    assert not model.inlier_mask_[corrupt].any()
    assert np.abs(model.coef_ - w).max() < 0.1


@pytest.mark.parametrize("estimator", [SeverRegressor(), CRR(contamination=0.3), STIR(), TrimmedLikelihoodRegressor()],
                         ids=lambda e: type(e).__name__)
def test_targets_of_a_thousand_million_leave_predictions_bounded(estimator):
    X = points(60)
    y = X[:, 0].copy()
    y[:12] = 1e9
    assert np.abs(estimator.fit(X, y).predict(X)).max() < 5


@pytest.mark.parametrize("estimator", [SeverRegressor(), CRR(), STIR(), TrimmedLikelihoodRegressor()],
                         ids=lambda e: type(e).__name__)
def test_equal_targets_are_fitted(estimator):
    model = estimator.fit(points(30), np.full(30, 4.0))
    np.testing.assert_allclose(model.predict(points(5, seed=1)), 4.0, atol=1e-6)


@pytest.mark.parametrize("machine", [CRR, STIR, TrimmedLikelihoodRegressor])
@pytest.mark.parametrize("constant", [-1e3, 1e6])
def test_a_constant_added_to_the_targets_only_moves_the_intercept(machine, constant):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X @ [3.0, -1.0, 2.0] + 0.1 * rng.normal(size=200)
    y[:40] += 20
    one, other = machine().fit(X, y), machine().fit(X, y + constant)
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-6)
    np.testing.assert_array_equal(other.inlier_mask_, one.inlier_mask_)
    assert other.intercept_ == pytest.approx(one.intercept_ + constant, abs=1e-5)
    assert np.abs(one.coef_ - [3.0, -1.0, 2.0]).max() < 0.1


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize(("sever", "inner"), [
    (SeverRegressor(contamination=0.2, kernel="linear"), Ridge()),
    (SeverClassifier(contamination=0.2, kernel="linear"), LogisticRegression()),
], ids=lambda made: type(made).__name__)
def test_sever_passes_metadata_of_the_rows_left_to_its_estimator(sever, inner, routing):
    X, y = moons(60)
    weight = np.random.default_rng(0).uniform(0.1, 5, size=60)
    asking = clone(inner).set_fit_request(sample_weight="trust")
    model = clone(sever).set_params(estimator=asking).fit(X, y, trust=weight)
    left = model.inlier_mask_
    assert left.sum() < 60
    direct = clone(inner).fit(X[left], y[left], sample_weight=weight[left])
    np.testing.assert_allclose(model.estimator_.coef_, direct.coef_)
    assert not np.allclose(direct.coef_, clone(inner).fit(X[left], y[left]).coef_)
    inside = make_pipeline(StandardScaler(), clone(model))
    assert inside.fit(X, y, trust=weight)[-1].inlier_mask_.sum() < 60
    count = np.random.default_rng(1).integers(0, 3, size=60)
    copies = np.repeat(np.arange(60), count)
    both = clone(model).fit(X, y, sample_weight=count, trust=weight)
    repeated = clone(model).fit(X[copies], y[copies], trust=weight[copies])
    np.testing.assert_allclose(both.estimator_.coef_, repeated.estimator_.coef_)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(("sever", "inner"), [(SeverRegressor, Ridge()), (SeverClassifier, LogisticRegression())])
def test_sever_takes_sparse_rows_where_its_estimator_does(sever, inner, kernel):
    X, y = moons(60)
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    dense = sever(inner, kernel=kernel, contamination=0.2).fit(X, y)
    model = make_pipeline(MaxAbsScaler(), sever(inner, kernel=kernel, contamination=0.2))
    scaled = X / np.abs(X).max(axis=0)
    for kind in (csr_matrix, csr_array):
        sparse = sever(inner, kernel=kernel, contamination=0.2).fit(kind(X), y)
        np.testing.assert_array_equal(sparse.inlier_mask_, dense.inlier_mask_)
        np.testing.assert_allclose(sparse.predict(kind(X)), dense.predict(X), atol=1e-5)
        of_scaled = sever(inner, kernel=kernel, contamination=0.2).fit(scaled, y)
        np.testing.assert_array_equal(model.fit(kind(X), y)[-1].inlier_mask_, of_scaled.inlier_mask_)
    with pytest.raises(TypeError, match="dense data is required"):
        sever(contamination=0.2).fit(csr_matrix(X), y)  # the default machine takes dense rows


def test_sever_in_a_search_passes_weights_on(routing):
    X, y = moons(60)
    weight = np.random.default_rng(0).uniform(0.1, 5, size=60)
    sever = SeverRegressor(Ridge().set_fit_request(sample_weight="trust"), kernel="linear")
    inside = make_pipeline(StandardScaler(), sever)
    search = GridSearchCV(inside, {"severregressor__contamination": [0.1, 0.2]}, cv=3)
    search.fit(X, y, trust=weight)
    best = search.best_estimator_
    left = best[-1].inlier_mask_
    direct = Ridge().fit(best[0].transform(X)[left], y[left], sample_weight=weight[left])
    np.testing.assert_allclose(best[-1].estimator_.coef_, direct.coef_)


def test_sever_takes_metadata_of_none_as_no_metadata():
    X, y = moons(60)
    plain = SeverRegressor(n_rounds=1).fit(X, y)
    np.testing.assert_array_equal(SeverRegressor(n_rounds=1).fit(X, y, trust=None).predict(X), plain.predict(X))


def test_counts_reach_sever_through_a_pipeline(routing):
    X, y = moons(60)
    count = np.random.default_rng(1).integers(0, 3, size=60)
    copies = np.repeat(np.arange(60), count)
    inside = make_pipeline(FunctionTransformer(), SeverRegressor(Ridge()).set_fit_request(sample_weight=True))
    np.testing.assert_allclose(inside.fit(X, y, sample_weight=count).predict(X),
                               SeverRegressor(Ridge()).fit(X[copies], y[copies]).predict(X))
    refuses = make_pipeline(FunctionTransformer(), SeverRegressor(Ridge()))
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        refuses.fit(X, y, sample_weight=count)


def test_sever_refuses_metadata_that_nobody_asked_for(routing):
    X, y = moons(60)
    with pytest.raises(TypeError, match="trust"):
        SeverRegressor(Ridge()).fit(X, y, trust=np.ones(60))
    with sklearn.config_context(enable_metadata_routing=True):
        asking = SeverRegressor(Ridge().set_fit_request(sample_weight=True))
        with pytest.raises(ValueError, match="set_fit_request"):
            asking.fit(X, y, sample_weight=np.full(60, 2))


def test_sever_says_how_metadata_is_passed_on():
    X, y = moons(60)
    with pytest.raises(TypeError, match=r"passes trust on by metadata routing only. Use sklearn.set_config"):
        SeverRegressor(Ridge()).fit(X, y, trust=np.ones(60))
