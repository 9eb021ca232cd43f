"""p-values of the ball detectors: refits without a row, uniform on typical rows, and the share of false discoveries."""


import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import false_discovery_control
from sklearn.exceptions import NotFittedError

from buttress import SVDD, MultiKernelSVDD, load, save
from buttress.certainty.conformal import p_values, rejected, threshold
from buttress.kernels import RBF, Cauchy, Combination, InverseMultiquadric, Laplacian, MultiscaleRBF
from buttress.outlier.detector import outermost

DETECTORS = [SVDD(), SVDD(nu=0.3), SVDD(kernel="linear", nu=0.2), MultiKernelSVDD([RBF(0.2), RBF(1.0)])]


def name(model):
    return f"{type(model).__name__} {model.nu}"


def rows(n, seed):
    return np.random.default_rng(seed).standard_t(5, size=(n, 3))


def test_rows_without_coefficient_are_judged_as_by_refits_and_others_not_too_near():
    X = rows(80, 0)
    model = SVDD(kernel=RBF(0.3), nu=0.1, tol=1e-9).fit(X)
    other = {"kernel": RBF(0.3), "nu": 0.1 * 80 / 79, "tol": 1e-9}
    refit = np.array([SVDD(**other).fit(np.delete(X, i, 0)).score_samples(X[i:i + 1])[0] for i in range(80)])
    inside = np.setdiff1d(np.arange(80), model.support_)
    np.testing.assert_allclose(model.loo_scores_[inside], refit[inside], atol=1e-6)
    assert (model.loo_scores_ < refit + 0.02).all()


@pytest.mark.parametrize("kernel", [RBF(0.3), RBF(300.0), Laplacian(20.0), Cauchy(2.0), MultiscaleRBF((1.0, 50.0)),
                                    InverseMultiquadric(0.1), Combination([RBF(80.0), Laplacian(9.0)], [0.3, 2.0])])
def test_the_score_without_a_row_is_that_of_the_other_coefficients_in_proportion(kernel):
    X = rows(40, 1)
    X[0] = 30.0  # its own part is nearly all of its sum
    model = SVDD(kernel=kernel, nu=0.2).fit(X)
    a = np.zeros(40)
    a[model.support_] = model.dual_coef_[0]
    for i in [0, *model.support_[:5]]:
        rest = [(a[j] / (1 - a[i]), exact_logarithm(kernel, X[i], X[j])) for j in model.support_ if j != i]
        expected = logsumexp([log for _, log in rest], b=[weight for weight, _ in rest])
        assert model.loo_scores_[i] == pytest.approx(expected, rel=1e-9)


def exact_logarithm(kernel, x, z):
    """The logarithm of a kernel's value, from its formula."""
    r2 = float(((x - z) ** 2).sum())
    if isinstance(kernel, Combination):
        logs = [exact_logarithm(part, x, z) for part in kernel.kernels]
        return logsumexp(logs, b=kernel.weights)
    if isinstance(kernel, MultiscaleRBF):
        return logsumexp([-gamma * r2 for gamma in kernel.gammas]) - np.log(len(kernel.gammas))
    return {RBF: lambda: -kernel.gamma * r2, Laplacian: lambda: -kernel.gamma * np.sqrt(r2),
            Cauchy: lambda: -np.log1p(kernel.gamma * r2),
            InverseMultiquadric: lambda: -0.5 * np.log(r2 + kernel.offset**2)}[type(kernel)]()


def test_the_squared_distance_without_a_row_has_the_other_coefficients_in_proportion():
    X = rows(40, 1)
    model = SVDD(kernel="linear", nu=0.2).fit(X)
    a = np.zeros(40)
    a[model.support_] = model.dual_coef_[0]
    for i in model.support_[:5]:
        centre = (np.where(np.arange(40) == i, 0, a) / (1 - a[i])) @ X
        assert -model.loo_scores_[i] == pytest.approx(((X[i] - centre) ** 2).sum(), rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", [RBF(0.3), RBF(3e4), Laplacian(500.0),
                                    Combination([RBF(1e4), RBF(2e4)], [0.5, 2.0])])
def test_scores_are_logarithms_that_keep_the_order_far_from_all_rows(kernel, dtype):
    X = rows(60, 2)
    model = SVDD(kernel=kernel, nu=0.5).fit(X.astype(dtype))
    new = np.array([[0.1, 0.2, 0.3], [9.0, 0.0, 0.0], [90.0, 0.0, 0.0], [91.0, 0.0, 0.0], [1e4, 0.0, 0.0]])
    logs = np.array([[exact_logarithm(kernel, x, z) for z in model.support_vectors_] for x in new.astype(dtype)])
    expected = logsumexp(logs, b=model.dual_coef_, axis=1)
    scores = model.score_samples(new.astype(dtype))
    np.testing.assert_allclose(scores, expected, rtol=1e-9 if dtype is np.float64 else 2e-4)
    assert (np.diff(expected) < 0).all()
    assert (np.diff(scores) < 0).all()


def test_logarithms_have_the_order_of_the_squared_distances():
    X, new = rows(100, 3), rows(50, 4)
    model = SVDD(kernel=RBF(0.2), nu=0.1, contamination=None).fit(X)
    K = RBF(0.2)(new, model.support_vectors_) @ model.dual_coef_[0]
    distance2 = 1 - 2 * K + model.center_norm2_
    np.testing.assert_array_equal(np.argsort(distance2), np.argsort(-model.score_samples(new)))
    np.testing.assert_array_equal(model.predict(new) == 1, distance2 <= model.radius_**2 + 1e-9)


def test_the_width_is_that_of_the_third_neighbour_whatever_unit_and_copies():
    X = np.vstack([rows(50, 5), rows(50, 5)[:20]])  # copies
    apart = cdist(X[:50], X[:50], "sqeuclidean")
    third = np.sort(apart, axis=1)[:, 3]
    counted = np.sort(np.concatenate([third, third[:20]]))
    gamma = SVDD().fit(X).kernel_.gamma
    assert 1 / gamma == pytest.approx(counted[34])
    assert SVDD().fit(1e3 * X).kernel_.gamma == pytest.approx(1e-6 * gamma)
    assert SVDD(kernel="laplacian").fit(X).kernel_.gamma == pytest.approx(gamma**0.5)
    assert SVDD().fit(X[:50], sample_weight=np.where(np.arange(50) < 20, 2, 1)).kernel_.gamma == pytest.approx(gamma)
    assert SVDD(kernel="poly").fit(X).kernel_.gamma == pytest.approx(1 / (3 * X.var()))
    constant = np.column_stack([X, np.full(70, 7.0)])
    assert SVDD().fit(constant).kernel_.gamma == pytest.approx(gamma)
    assert SVDD().fit(np.ones((20, 2))).kernel_.gamma == 1.0


@pytest.mark.parametrize("model", DETECTORS, ids=name)
def test_typical_rows_have_small_p_values_no_more_often_than_they_say(model):
    p = np.concatenate([model.fit(rows(120, seed)).p_values(rows(200, 1000 + seed)) for seed in range(12)])
    for t in (0.05, 0.1, 0.3):
        assert np.mean(p <= t) <= t + 3.5 * np.sqrt(t * (1 - t) / 120 / 12)  # rows of one fit go together
    assert np.mean(p <= 0.5) > 0.25  # support vectors are judged a little too far out
    assert p.min() >= 1 / 121


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "log", "linear", None])
def test_rows_that_come_again_are_typical_though_sums_of_others_are_rounded_otherwise(kernel):
    """Few kinds of rows, many of each: most scores tie, those of new rows with those of rows left out too."""
    counts = np.array([60, 30, 6, 2])
    for seed in range(10):
        kinds = np.random.default_rng(seed).normal(size=(4, 2))
        model = MultiKernelSVDD([RBF(1.0), Laplacian(1.0)]) if kernel is None else SVDD(kernel=kernel)
        model.set_params(nu=0.1, contamination=0.2).fit(kinds.repeat(counts, axis=0))
        assert counts @ (model.predict(kinds) == -1) <= 0.2 * 98
        p = model.p_values(kinds)
        assert all(counts @ (p <= share) <= share * 99 for share in (0.05, 0.1, 0.2, 0.5))


def test_p_values_count_rows_farther_out():
    left_out = np.array([1.0, 2.0, 2.0, 5.0])
    weight = np.array([1.0, 1.0, 2.0, 1.0])
    new = np.array([0.5, 2.0, 2.5, 5.0, 9.0])
    np.testing.assert_allclose(p_values(new, left_out, weight), np.array([6, 5, 2, 2, 1]) / 6)


@pytest.mark.parametrize("model", DETECTORS, ids=name)
@pytest.mark.parametrize("share", [0.02, 0.1, np.float32(0.25)])
def test_contamination_is_the_p_value_of_the_threshold(model, share):
    X, new = rows(100, 2), rows(300, 3)
    model = type(model)(**{**model.get_params(), "contamination": share}).fit(X)
    np.testing.assert_array_equal(model.predict(new) == -1, model.p_values(new) <= share + 1e-12)
    np.testing.assert_array_equal(model.predict(new) == -1, model.decision_function(new) < 0)
    assert (model.fit_predict(X) == -1).sum() == round(share * 100)


@pytest.mark.parametrize("model", DETECTORS, ids=name)
def test_a_tenth_of_the_training_rows_is_outside_by_default(model):
    X = np.vstack([rows(95, 7), rows(5, 7)])  # five copies
    fitted = model.fit(X)
    outside = fitted.predict(X) == -1
    assert 9 * (model.nu == 0.9) <= outside.sum() <= 10  # of a smaller nu many rows tie at the boundary
    np.testing.assert_array_equal(fitted.fit_predict(X) == -1, outside)
    scores = fitted.score_samples(X)
    assert scores[outside].max(initial=-np.inf) < fitted.offset_ <= scores[~outside].min()


def test_equal_rows_are_on_one_side_of_the_threshold():
    far = np.array([9.0, 9.0, 9.0, 8.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    ones = np.ones(10)
    assert outermost(far, ones) > 9  # one row may be outside, and three are equal
    assert 8 < outermost(far, np.array([1 / 3, 1 / 3, 1 / 3, 1, 1, 1, 1, 2, 2, 2])) < 9
    assert 1 < outermost(far[3:], ones[3:] + 3 * (far[3:] == 1)) < 8


def test_the_threshold_is_the_largest_distance_with_a_larger_p_value():
    left_out, ones = np.arange(1.0, 20.0), np.ones(19)
    assert threshold(left_out, ones, 0.05) == 19  # only a row beyond all 19 has p = 1/20
    assert threshold(left_out, ones, 0.1) == 18
    with pytest.raises(ValueError, match="needs at least 99 rows"):
        threshold(left_out, ones, 0.01)


@pytest.mark.parametrize("level", [0.01, 0.05, 0.2])
def test_rejections_are_those_of_benjamini_and_hochberg(level):
    rng = np.random.default_rng(0)
    for _ in range(30):
        p = np.round(np.concatenate([rng.uniform(size=30), rng.uniform(0, 0.02, size=rng.integers(0, 12))]), 3)
        np.testing.assert_array_equal(rejected(p, level, adaptive=False), false_discovery_control(p) <= level + 1e-12)
    assert rejected(np.empty(0), level, adaptive=True).shape == (0,)


def test_the_adaptive_version_divides_by_the_share_of_typical_rows():
    p = np.concatenate([np.full(8, 0.06), [0.6, 0.9]])
    assert rejected(p, 0.05, adaptive=False).sum() == 0
    assert rejected(p, 0.05, adaptive=True).sum() == 8  # (1 + 2) / 5 of the rows are typical: .06 * .6 <= .05 * .8


@pytest.mark.parametrize("adaptive", [False, True])
def test_few_of_the_rows_called_novel_are_typical(adaptive):
    false, found = [], []
    for seed in range(40):
        new = rows(60, 500 + seed)
        new[:12] += 6
        named = SVDD().fit(rows(200, seed)).novel(new, fdr=0.1, adaptive=adaptive)
        false.append(named[12:].sum() / max(named.sum(), 1))
        found.append(named[:12].mean())
    assert np.mean(false) <= 0.1 + 3 * np.std(false) / np.sqrt(40)
    assert np.mean(found) > 0.8


def test_weights_count_rows_and_rows_without_weight_do_not_count(tmp_path):
    X, new = rows(60, 5), rows(40, 6)
    weight = np.where(np.arange(60) < 50, 1.0, 0.0)
    model = SVDD().fit(X, sample_weight=weight)
    assert np.isnan(model.loo_scores_[50:]).all()
    alone = SVDD(gamma=model.kernel_.gamma).fit(X[:50])
    np.testing.assert_allclose(model.p_values(new), alone.p_values(new), atol=1e-9)
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").p_values(new), model.p_values(new))


@pytest.mark.parametrize("value", [0, 1, 1.2, -0.1, "few", True])
def test_shares_out_of_range_are_refused(value):
    X = rows(30, 0)
    with pytest.raises(ValueError, match="contamination must be"):
        SVDD(contamination=value).fit(X)
    with pytest.raises(ValueError, match="fdr must be"):
        SVDD().fit(X).novel(X, fdr=value)


def test_a_rate_that_no_row_can_meet_is_told():
    X = rows(30, 0)
    far = X[:5] + 1e3
    model = SVDD().fit(X)
    with pytest.warns(UserWarning, match="1 / \\(1 \\+ 30 training rows\\), and 99 rows are needed"):
        assert not model.novel(far, fdr=0.01).any()
    with pytest.raises(NotFittedError):
        SVDD().novel(far)
    assert model.novel(far, fdr=1 / 31).all()
