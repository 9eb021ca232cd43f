"""Weights of rows: one of weight two is two equal rows, one of weight 0 is not there; who takes them, and who not."""

import inspect
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array
from sklearn.base import clone, is_classifier
from sklearn.ensemble import BaggingRegressor
from sklearn.linear_model import LogisticRegression, Ridge

import buttress
from buttress import (
    CRR,
    STIR,
    SVC,
    SVDD,
    SVR,
    AdversarialLinearSVC,
    BatchedRidgeClassifier,
    FreeRangeSVC,
    KernelClassifier,
    KernelRegressor,
    LinearSVC,
    LinearSVR,
    RobustKernelClassifier,
    RobustKernelRegressor,
    RobustLinearRegressor,
    SeverClassifier,
    SeverRegressor,
    TrimmedLikelihoodClassifier,
    TrimmedLikelihoodRegressor,
    outlier_report,
)
from buttress._rows import median
from buttress._state import attributes_of
from buttress._weights import weighted_median

from problems import moons

X, LABELS = moons(60)
TARGETS = np.sin(2 * X[:, 0]) + X[:, 1]
WEIGHT = np.random.default_rng(0).integers(0, 4, size=60).astype(float)
COPIES = np.repeat(np.arange(60), WEIGHT.astype(int))
PAGE = Path(__file__).parents[1] / "docs" / "weights.md"


@pytest.mark.parametrize("model", [
    STIR(), STIR(fit_intercept=False), FreeRangeSVC(C_f=0.05), AdversarialLinearSVC(eps=0.05),
    AdversarialLinearSVC(norm="l2", eps=0.05),
], ids=str)
def test_weights_are_copies(model):
    y = LABELS if is_classifier(model) else TARGETS
    weighted = model.fit(X, y, sample_weight=WEIGHT)
    coef, intercept = weighted.coef_.copy(), weighted.intercept_
    repeated = model.fit(X[COPIES], y[COPIES])
    np.testing.assert_allclose(repeated.coef_, coef, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(repeated.intercept_, intercept, rtol=1e-6, atol=1e-8)


def test_stir_reaches_the_weighted_least_absolute_deviations_of_a_linear_program():
    rng = np.random.default_rng(1)
    Z, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    weight = rng.uniform(0.2, 3, size=40)
    model = STIR(tol=1e-9).fit(Z, y, sample_weight=weight)
    columns = np.column_stack([Z, np.ones(40)])
    found = linprog(np.concatenate([np.zeros(3), weight, weight]), A_eq=np.hstack([columns, np.eye(40), -np.eye(40)]),
                    b_eq=y, bounds=[(None, None)] * 3 + [(0, None)] * 80)
    ours = weight @ np.abs(y - Z @ model.coef_ - model.intercept_)
    assert found.fun <= ours <= found.fun * (1 + 1e-4)


def test_the_weighted_median_is_that_of_copies():
    values = np.random.default_rng(2).normal(size=60)
    assert weighted_median(values, WEIGHT) == pytest.approx(np.median(values[COPIES]))
    assert weighted_median(values[:4], np.ones(4)) == pytest.approx(np.median(values[:4]))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 101, 1000])
def test_the_median_is_numpys(n):
    values = np.random.default_rng(n).integers(-3, 4, size=(5, n)) * np.pi
    np.testing.assert_array_equal(median(values), np.median(values, axis=1))
    assert median(values[0]) == np.median(values[0])


@pytest.mark.parametrize("model", [FreeRangeSVC(), KernelClassifier(), BatchedRidgeClassifier()], ids=str)
def test_a_class_without_weight_is_refused(model):
    with pytest.raises(ValueError, match="zero for every row of class 2"):
        model.fit(X, np.where(WEIGHT == 0, 2, LABELS), sample_weight=WEIGHT)


@pytest.mark.parametrize("model", [FreeRangeSVC(), AdversarialLinearSVC()], ids=str)
def test_weights_beyond_the_solver_are_refused_as_such_a_C_is(model):
    with pytest.raises(ValueError, match="C=1e-200, weights counted, is beyond the solver's reach"):
        model.fit(X, LABELS, sample_weight=np.full(60, 1e-200))


@pytest.mark.parametrize("model", [SVC(), SVC(class_weight={0: 1e-9, 1: 1}), LinearSVC(), SVR(), LinearSVR()], ids=str)
@pytest.mark.parametrize(("C", "weight"), [(1e300, 1e10), (1e200, 1e99), (1e-300, 1e-20), (1.0, 1e-310)])
def test_weights_whose_products_leave_float64_are_refused(model, C, weight):
    with pytest.raises(ValueError, match="C times the weights of rows and classes must be from 1e-100 to 1e\\+100"):
        clone(model).set_params(C=C).fit(X, LABELS, sample_weight=np.full(60, weight))


def test_batches_may_name_classes_that_have_no_weight_yet():
    model = BatchedRidgeClassifier().partial_fit(X, LABELS, classes=[0, 1], sample_weight=LABELS)
    assert model.partial_fit(X, LABELS).score(X, LABELS) > 0.8


def test_a_negative_weight_is_refused():
    with pytest.raises(ValueError, match="must not be negative"):
        STIR().fit(X, TARGETS, sample_weight=np.full(60, -1.0))


COUNTING = [  # those that take whole numbers only
    SeverRegressor(), SeverRegressor(Ridge(), variance_ratio=4.0, random_state=0),
    SeverRegressor(Ridge(), kernel="linear"), SeverClassifier(), SeverClassifier(LogisticRegression(), balanced=False),
    CRR(), TrimmedLikelihoodRegressor(), TrimmedLikelihoodClassifier(), RobustLinearRegressor(random_state=0),
    RobustLinearRegressor(contamination=0.2, fit_intercept=False, random_state=0),
    RobustKernelRegressor(random_state=0), RobustKernelRegressor(n_landmarks=20, random_state=0),
    RobustKernelClassifier(random_state=0), RobustKernelClassifier(n_landmarks=20, contamination=0.1, random_state=0),
]
counting = pytest.mark.parametrize("model", COUNTING, ids=str)
OF_ALL = ("contamination_", "contamination_interval_", "scale_", "alpha_", "confusion_", "n_iter_", "objective_")
named = pytest.mark.filterwarnings("ignore:.*named corrupt")


def spoiled(model, seed=0):
    """Return points with, a tenth each, wrong labels or targets far off, and how often each of them counts."""
    rng = np.random.default_rng(seed)
    points, labels = moons(60, seed=seed)
    bad = rng.permutation(60)[:6]
    if is_classifier(model):
        return points, np.where(np.isin(np.arange(60), bad), 1 - labels, labels), rng.integers(0, 4, size=60)
    y = points @ [1.0, -2.0] + 0.1 * rng.normal(size=60)
    y[bad] += 15
    return points, y, rng.integers(0, 4, size=60)


@counting
@named
def test_whole_weights_give_the_fit_to_copies(model):
    points, y, weight = spoiled(model)
    copies = np.repeat(np.arange(60), weight)
    weighted = clone(model).fit(points, y, sample_weight=weight)
    repeated = clone(model).fit(points[copies], y[copies])
    for ask in ("predict", "decision_function", "predict_proba", "predict_interval"):
        if hasattr(model, ask):
            np.testing.assert_allclose(getattr(weighted, ask)(points), getattr(repeated, ask)(points), atol=1e-9)
    for name in OF_ALL:
        if hasattr(repeated, name):
            np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-9, err_msg=name)
    for name, entry in attributes_of(type(model)).items():
        if entry.shape.startswith("n_rows"):
            of_copies = getattr(repeated, name)
            for row, said in enumerate(getattr(weighted, name)):
                same = [np.allclose(said, one, atol=1e-9) for one in of_copies[copies == row]]
                assert any(same) or not weight[row], (name, row)
    assert not weighted.inlier_mask_[weight == 0].any()
    assert 0 < weighted.inlier_mask_[weight > 0].mean() < 1


def test_intervals_do_not_know_rows_of_no_weight():
    used = WEIGHT > 0
    there = np.repeat(["a", "b"], 30)
    asked = {"coverage": 0.8, "groups": (there, there)}
    weighted = KernelRegressor().fit(X, TARGETS, sample_weight=used)
    without = KernelRegressor().fit(X[used], TARGETS[used])
    np.testing.assert_allclose(weighted.predict_interval(X), without.predict_interval(X), rtol=1e-9)
    np.testing.assert_allclose(weighted.predict_interval(X, **asked),
                               without.predict_interval(X, 0.8, groups=(there[used], there)), rtol=1e-9)


def test_trimmed_likelihoods_do_not_depend_on_the_order_of_rows():
    points, y, weight = spoiled(TrimmedLikelihoodClassifier())
    model = TrimmedLikelihoodClassifier().fit(points, y)
    np.testing.assert_allclose(TrimmedLikelihoodClassifier().fit(points[::-1], y[::-1]).coef_, model.coef_, rtol=1e-9)
    used = weight > 0
    without = TrimmedLikelihoodClassifier().fit(points[used], y[used])
    weighted = TrimmedLikelihoodClassifier().fit(points, y, sample_weight=used)
    np.testing.assert_allclose(weighted.coef_, without.coef_, rtol=1e-9)


@counting
@named
@pytest.mark.parametrize("seed", [1, 2])
def test_copies_anywhere_in_the_table_are_a_weight(model, seed):
    points, y, weight = spoiled(model, seed)
    copies = np.random.default_rng(seed).permutation(np.repeat(np.arange(60), weight))
    if getattr(model, "n_landmarks", "auto") != "auto":
        pytest.skip("landmarks are drawn, by their places")
    weighted = clone(model).fit(points, y, sample_weight=weight)
    repeated = clone(model).fit(points[copies], y[copies])
    np.testing.assert_allclose(weighted.predict(points), repeated.predict(points), atol=1e-3)  # starts are drawn


@counting
def test_weights_that_are_no_counts_are_refused(model):
    points, y, _ = spoiled(model)
    ones = np.ones(60)
    for weight, message in [
        (np.where(np.arange(60) == 7, 1.5, 1.0), r"whole numbers\. Got 1\.5 in row 7"),
        (1.0 * (np.arange(60) == 3), "at most. Got n_samples = 1|zero for every row of class"),
        (np.where(np.arange(60) == 7, 1e20, 1.0), r"Got n_samples = 1e\+20"),
        (np.where(np.arange(60) == 7, np.inf, 1.0), "sample_weight"),
        (ones[:5], "sample_weight"),
    ]:
        with pytest.raises(ValueError, match=message):
            clone(model).fit(points, y, sample_weight=weight)
    if is_classifier(model):
        with pytest.raises(ValueError, match="zero for every row of class 1"):
            clone(model).fit(points, y, sample_weight=1 - y)


@named
def test_the_report_has_a_row_for_each_that_counts():
    points, y, weight = spoiled(RobustLinearRegressor())
    weight[[2, 5]] = 0
    frame = pd.DataFrame(points, columns=["a", "b"])
    for model in (RobustLinearRegressor(random_state=0), RobustKernelRegressor(random_state=0)):
        report = outlier_report(model.fit(frame, y, sample_weight=weight), frame, y)
        assert sorted(report["row"]) == np.flatnonzero(weight).tolist()
        found = report["row"][: ((y > 8) & (weight > 0)).sum()]
        assert (y[found] > 8).all()
        assert not report["sigmas"].isna().any()
        with pytest.raises(ValueError, match="same order"):
            outlier_report(model, frame[::-1], y[::-1])
    wild = frame.copy()  # what is not there says nothing of the columns of the others
    wild.loc[weight == 0] = 1e6
    model = RobustLinearRegressor(random_state=0).fit(wild, y, sample_weight=weight)
    there = weight > 0
    without = RobustLinearRegressor(random_state=0).fit(frame[there], y[there], sample_weight=weight[there])
    seen, alone = outlier_report(model, wild, y), outlier_report(without, frame[there], y[there])
    np.testing.assert_allclose(seen["x_pvalue"], alone["x_pvalue"])
    points, y, weight = spoiled(RobustKernelClassifier())
    model = RobustKernelClassifier(random_state=0).fit(points, y, sample_weight=weight)
    assert sorted(outlier_report(model, points, y)["row"]) == np.flatnonzero(weight).tolist()


@named
def test_twice_the_weights_are_twice_the_rows_and_narrow_what_is_uncertain():
    points, y, _ = spoiled(RobustLinearRegressor())
    once = RobustLinearRegressor(random_state=0).fit(points, y)
    twice = RobustLinearRegressor(random_state=0).fit(points, y, sample_weight=np.full(60, 2))
    ratio = twice.summary().std_error / once.summary().std_error
    np.testing.assert_allclose(ratio, np.sqrt(0.5), rtol=0.02)
    assert np.ptp(twice.predict_interval(points), axis=1).mean() < np.ptp(once.predict_interval(points), axis=1).mean()
    points, labels, _ = spoiled(RobustKernelClassifier())
    few = RobustKernelClassifier(random_state=0).fit(points, labels)
    many = RobustKernelClassifier(random_state=0).fit(points, labels, sample_weight=np.full(60, 3))
    assert np.ptp(many.contamination_interval_) < np.ptp(few.contamination_interval_)


def test_sparse_rows_count_alike_and_a_gram_matrix_takes_no_weights():
    points, y, weight = spoiled(SeverRegressor())
    sparse = SeverRegressor(Ridge()).fit(csr_array(points), y, sample_weight=weight)
    dense = SeverRegressor(Ridge()).fit(points, y, sample_weight=weight)
    np.testing.assert_allclose(sparse.predict(csr_array(points)), dense.predict(points), atol=1e-5)
    gram = points @ points.T
    with pytest.raises(ValueError, match="sample_weight goes with rows"):
        RobustKernelRegressor(kernel="precomputed").fit(gram, y, sample_weight=weight)
    RobustKernelRegressor(kernel="precomputed", max_iter=2, n_starts=0).fit(gram, y, sample_weight=np.ones(60))


def test_a_warning_of_near_copies_has_the_numbers_of_the_rows_given():
    points, y, _ = spoiled(RobustLinearRegressor())
    points[9] = points[4] * (1 + 1e-15)
    for model in (RobustLinearRegressor(random_state=0), RobustKernelRegressor(random_state=0)):
        with pytest.warns(UserWarning, match=r"repeat another .*rows 4, 9\)"):
            model.fit(points, y, sample_weight=np.full(60, 2))


@named
def test_bagging_gives_its_draws_as_weights():
    points, y, _ = spoiled(RobustLinearRegressor())
    bagged = BaggingRegressor(RobustLinearRegressor(n_starts=20), n_estimators=3, random_state=0).fit(points, y)
    line = points @ [1.0, -2.0]
    assert np.abs(bagged.predict(points) - line).mean() < 0.1 < np.abs(y - line).mean()


@pytest.mark.skipif(not PAGE.exists(), reason="the pages are in a checkout")
def test_the_page_says_of_every_estimator_whether_it_takes_weights():
    said = {name: answer.strip() for name, answer in re.findall(r"^\| `(\w+)` \| (yes|no)", PAGE.read_text(), re.M)}
    estimators = {name: getattr(buttress, name) for name in buttress.__all__}
    fits = {name: kind.fit for name, kind in estimators.items() if inspect.isclass(kind) and hasattr(kind, "fit")}
    takes = {name: "yes" if "sample_weight" in inspect.signature(fit).parameters else "no"
             for name, fit in fits.items()}
    assert said == takes


@pytest.mark.parametrize("model", [AdversarialLinearSVC(eps=0.1), FreeRangeSVC(), buttress.KernelClassifier()])
def test_what_is_made_later_does_not_follow_weights_that_changed(model):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(80, 3)), np.ones(80)
    y = X[:, 0] + rng.normal(size=80) > 0
    first = clone(model).fit(X, y, sample_weight=weight).predict_proba(X)
    later = clone(model).fit(X, y, sample_weight=weight)
    weight[:] = np.arange(80)
    np.testing.assert_array_equal(later.predict_proba(X), first)


def test_intervals_made_later_do_not_follow_weights_that_changed():
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(80, 3)), np.ones(80)
    fits = [buttress.KernelRegressor().fit(X, X[:, 0], sample_weight=weight) for _ in range(2)]
    first = fits[0].predict_interval(X)
    weight[:] = np.arange(80)
    np.testing.assert_array_equal(fits[1].predict_interval(X), first)


def test_weights_add_nothing_to_the_number_of_rows_behind_a_p_value():
    far = np.full((1, X.shape[1]), 50.0)
    for weight in (None, np.full(60, 3.0)):
        assert SVDD().fit(X, sample_weight=weight).p_values(far) == pytest.approx(1 / 61)
    assert SVDD().fit(np.repeat(X, 3, axis=0)).p_values(far) == pytest.approx(1 / 181)


def test_rows_of_hardly_any_weight_add_nothing_either():
    weight = np.where(np.arange(60) < 12, 1.0, 1e-12)
    assert SVDD().fit(X, sample_weight=weight).p_values([[50.0, 50.0]]) == pytest.approx(1 / 13)
    with pytest.raises(ValueError, match="needs at least 19 rows"):
        SVDD(contamination=0.05).fit(X, sample_weight=weight)
    model = SVR().fit(X, np.where(weight == 1, TARGETS, 1e6), sample_weight=weight)
    alone = SVR(gamma=model.expansion_.kernel.gamma).fit(X[:12], TARGETS[:12])
    np.testing.assert_allclose(model.predict_interval(X, 0.8), alone.predict_interval(X, 0.8), atol=1e-3)
    for machine in (model, KernelRegressor().fit(X, TARGETS, sample_weight=weight)):
        with pytest.raises(ValueError, match="at least 19 training rows"):
            machine.predict_interval(X, 0.95)
