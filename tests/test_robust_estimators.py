"""The robust estimators: what corrupt rows do to them, what they say about those rows, and what they refuse."""

import itertools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, RobustScaler, scale
from sklearn.svm import SVC

from buttress import (
    SVDD,
    KernelClassifier,
    KernelRegressor,
    KernelScaleWarning,
    OutlierDisplay,
    RobustKernelClassifier,
    RobustKernelRegressor,
    RobustLinearRegressor,
    outlier_report,
)
from buttress.robust.tuning import MIXTURE

from problems import moons

REGRESSORS = [RobustKernelRegressor(random_state=0), RobustLinearRegressor(random_state=0)]
ALL = [*REGRESSORS, RobustKernelClassifier(random_state=0)]


def name(estimator):
    return type(estimator).__name__


def curve(n=150, rate=0.0, seed=0, kind="noise"):
    """A smooth function of two columns (linear for "line" and "far"), a share of the targets replaced."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    truth = 2 * X[:, 0] + (X[:, 1] if kind in ("line", "far") else np.sin(2 * X[:, 1]))
    y = truth + 0.1 * rng.normal(size=n)
    bad = np.arange(n) < rate * n
    y[bad] = 1e9 if kind == "far" else rng.normal(8, 3, size=bad.sum())
    return X, y, truth, bad


@pytest.mark.parametrize("model", REGRESSORS, ids=name)
@pytest.mark.parametrize("rate", [0.2, 0.4])
def test_the_bad_rows_are_found_and_their_share_too(model, rate):
    X, y, _, bad = curve(rate=rate, kind="line")
    model = clone(model).fit(X, y)
    assert np.mean(model.inlier_mask_ != bad) > 0.95
    assert model.contamination_ == pytest.approx(rate, abs=0.06)
    assert not model.clean_
    assert np.all((model.outlier_proba_ >= 0) & (model.outlier_proba_ <= 1))
    assert np.all((model.agreement_ >= 0) & (model.agreement_ <= 1))


@pytest.mark.parametrize("rate", [0.2, 0.4])
def test_kernel_fit_comes_close_to_the_fit_of_the_good_rows(rate):
    X, y, truth, bad = curve(rate=rate)
    oracle = min(np.std(KernelRidge(alpha=a, kernel="rbf", gamma=0.5).fit(X[~bad], y[~bad]).predict(X) - truth)
                 for a in (0.01, 0.1, 1))
    error = np.sqrt(np.mean((RobustKernelRegressor(random_state=0).fit(X, y).predict(X) - truth) ** 2))
    assert error < 1.5 * oracle
    plain = KernelRidge(alpha=0.1, kernel="rbf", gamma=0.5).fit(X, y)
    assert error < 0.1 * np.sqrt(np.mean((plain.predict(X) - truth) ** 2))


@pytest.mark.parametrize("model", REGRESSORS, ids=name)
def test_targets_of_a_thousand_million_do_not_reach_the_predictions(model):
    X, y, truth, bad = curve(rate=0.4, kind="far")
    model = clone(model).fit(X, y)
    assert np.abs(model.predict(X) - truth).max() < 3  # the truth spans 12; in its corners no good row is left
    np.testing.assert_array_equal(model.inlier_mask_, ~bad)


def test_linear_fit_bears_bad_rows_far_out_in_x():
    X, y, _, bad = curve(rate=0.4, kind="far")
    X[bad] *= 100
    model = RobustLinearRegressor(alpha=1e-6, random_state=0).fit(X, y)
    best = LinearRegression().fit(X[~bad], y[~bad])
    np.testing.assert_allclose(model.coef_, best.coef_, atol=0.02)
    assert model.intercept_ == pytest.approx(best.intercept_, abs=0.02)


@pytest.mark.parametrize("model", REGRESSORS, ids=name)
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_predictions_follow_the_units_of_the_target(model, rate):
    X, y, _, _ = curve(rate=rate)
    one, other = clone(model).fit(X, y), clone(model).fit(X, 7.0 - 250 * y)
    np.testing.assert_allclose(other.predict(X), 7.0 - 250 * one.predict(X), rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(other.outlier_proba_, one.outlier_proba_, atol=1e-5)


def test_clean_data_cost_nothing_beside_the_plain_learners():
    X, y = load_diabetes(return_X_y=True)
    X = scale(X)
    model = RobustKernelRegressor(random_state=0).fit(X[:300], y[:300])
    middle = np.median(y[:300])
    plain = KernelRidge(alpha=model.alpha_, kernel="rbf", gamma=0.1)
    plain.fit(X[:300], y[:300] - middle)
    errors = [np.sqrt(np.mean((f - y[300:]) ** 2)) for f in (model.predict(X[300:]), plain.predict(X[300:]) + middle)]
    assert model.clean_
    assert errors[0] <= 1.02 * errors[1]
    linear = RobustLinearRegressor(random_state=0).fit(X[:300], y[:300])
    ridge = Ridge(1.0).fit(X[:300], y[:300])
    assert linear.score(X[300:], y[300:]) >= ridge.score(X[300:], y[300:]) - 0.02
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:400], order[400:]
    labels = RobustKernelClassifier(random_state=0).fit(X[train], y[train])
    assert labels.clean_ == labels.inlier_mask_.all() == (labels.weights_ == 1).all()
    assert labels.score(X[test], y[test]) >= SVC(gamma="auto").fit(X[train], y[train]).score(X[test], y[test]) - 0.012


def test_leave_one_out_residual_is_the_given_less_what_the_others_say():
    X, y, _, _ = curve(60)
    model = RobustKernelRegressor(contamination=0, alpha=0.5, gamma=0.5).fit(X, y)
    for i in (3, 40):
        left = np.arange(60) != i
        K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1)) + 1  # the constant is a feature like the others
        w = np.linalg.solve(K[np.ix_(left, left)] + 0.5 * np.eye(59), y[left] - np.median(y))
        expected = y[i] - np.median(y) - K[i, left] @ w
        assert model.loo_residual_[i] == pytest.approx(expected, abs=1e-5)


def test_flipped_digits_do_not_cost_a_class():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    train, test = order[:600], order[600:1200]
    dirty = y[train].copy()
    bad = np.arange(600) < 240
    dirty[bad] = (dirty[bad] + rng.integers(1, 10, 240)) % 10
    model = RobustKernelClassifier(gamma=0.5, random_state=0).fit(X[train], dirty)
    assert model.score(X[test], y[test]) > 0.92
    assert model.contamination_ == pytest.approx(0.4, abs=0.06)
    assert np.mean(model.inlier_mask_ != bad) > 0.95


def test_isolated_rows_are_named_and_left_out():
    X, y = moons(120)
    X[:20] *= 1000
    with pytest.warns(UserWarning, match="20 of 120 rows resemble no other"):
        model = RobustKernelClassifier(random_state=0).fit(X, y)
    assert model.isolated_[:20].sum() >= 19
    assert model.isolated_[20:].sum() == 0
    assert not model.inlier_mask_[model.isolated_].any()
    assert model.weights_[model.isolated_].max() == 0
    # of their labels nothing is known: they are as likely wrong as the others, and do not count as wrong
    np.testing.assert_allclose(model.outlier_proba_[model.isolated_], model.outlier_proba_[~model.isolated_].mean())
    assert model.contamination_ < 0.05


@pytest.mark.parametrize(("unit", "category"), [(1e3, UserWarning), (1e6, KernelScaleWarning)])
def test_where_nearly_all_rows_are_isolated_the_scale_is_named(unit, category):
    X, y = moons(100, noise=0.1)
    with pytest.warns(category, match="RobustScaler"):
        RobustKernelClassifier(random_state=0).fit(unit * X, y)


def test_two_rows_are_fitted_to_their_labels():
    assert RobustKernelClassifier().fit([[-1.0], [1.0]], ["a", "b"]).predict([[-1.0], [1.0]]).tolist() == ["a", "b"]


@pytest.mark.parametrize("model", REGRESSORS, ids=name)
def test_a_share_given_names_no_row_that_nothing_speaks_against(model):
    X, y = curve()[:2]
    assert clone(model).set_params(contamination=0.2).fit(X, np.full(len(y), 3.0)).inlier_mask_.all()


def test_a_class_of_isolated_rows_is_named():
    X, y = moons(60)
    X[y == 1] *= 1e4
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = RobustKernelClassifier(random_state=0).fit(X, y)
    texts = [str(warning.message) for warning in seen]
    assert texts[0].startswith("30 of 60 rows resemble no other row")
    assert texts[1].startswith("No row of class 1 resembles another row")
    assert set(model.predict(X)) == {0}


def test_a_number_given_is_the_share_of_rows_named():
    X, y, _, _ = curve(100, rate=0.2)
    for model in (*REGRESSORS, RobustKernelClassifier(random_state=0)):
        target = (y > 0).astype(int) if isinstance(model, RobustKernelClassifier) else y
        fitted = clone(model).set_params(contamination=0.1).fit(X, target)
        assert (~fitted.inlier_mask_).sum() == 10
        assert fitted.contamination_ == 0.1


@pytest.mark.parametrize("n_landmarks", [60])
@pytest.mark.parametrize("model", [RobustKernelRegressor(), RobustKernelClassifier()], ids=name)
def test_landmark_features_find_the_same_rows_as_the_exact_fit(model, n_landmarks):
    X, y, truth, bad = curve(500, rate=0.2)
    if isinstance(model, RobustKernelClassifier):
        y = np.where(bad, truth < 0, truth > 0).astype(int)
    exact = clone(model).set_params(random_state=0).fit(X, y)
    coarse = clone(model).set_params(random_state=0, n_landmarks=n_landmarks).fit(X, y)
    # of labels another loss is fitted there
    assert np.mean(exact.inlier_mask_ == coarse.inlier_mask_) > (0.97 if hasattr(model, "n_starts") else 0.92)
    assert np.mean(coarse.inlier_mask_ != bad) > 0.93


def test_report_is_a_frame_like_the_data_and_the_worst_row_comes_first():
    X, y, truth, _ = curve(80)
    y[7] = 30.0
    labels = [f"row {i}" for i in range(80)]
    table = pd.DataFrame(X, columns=["a", "b"], index=labels)
    model = RobustKernelRegressor(random_state=0).fit(table, pd.Series(y, index=labels))
    report = outlier_report(model, table, pd.Series(y, index=labels))
    assert isinstance(report, pd.DataFrame)
    shown = np.column_stack([np.round(report["probability"], 2), np.abs(report["sigmas"])])
    assert all(tuple(one) >= tuple(two) for one, two in itertools.pairwise(shown))
    assert list(report.columns) == ["row", "given", "expected", "sigmas", "probability", "agreement",
                                    "x_pvalue", "x_columns"]
    assert report["row"].iloc[0] == "row 7"
    assert report["expected"].iloc[0] == pytest.approx(truth[7], abs=0.5)
    assert report["sigmas"].iloc[0] > 10
    assert isinstance(outlier_report(model, pl.DataFrame(X), y), pl.DataFrame)
    assert isinstance(outlier_report(model, X, y), dict)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("named", [False, True])
def test_a_pipeline_is_reported_in_the_columns_of_the_user(library, named):
    frames = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    height, weight = rng.normal(170, 9, 80), rng.normal(70, 9, 80)
    weight[3] = 7000.0
    frame = frames.DataFrame({"height": np.where(np.arange(80) == 9, np.nan, height), "weight": weight,
                              "sex": np.array(["f", "m"] * 40, dtype=object)})
    y = np.where(height > 170, "tall", "short")
    y[5] = "short" if y[5] == "tall" else "tall"
    if library == "pandas":
        frame.index = [f"row {i}" for i in range(80)]
    prepare = make_column_transformer((make_pipeline(SimpleImputer(), RobustScaler()), ["height", "weight"]),
                                      (OneHotEncoder(sparse_output=False), ["sex"]))
    if named:  # the steps before the last give frames of their own names
        prepare.set_output(transform=library)
    model = make_pipeline(prepare, RobustKernelClassifier(random_state=0)).fit(frame, y)
    report = outlier_report(model, frame, y)
    assert type(report) is type(frame)
    inside = outlier_report(model[-1], model[:-1].transform(frame), y)
    np.testing.assert_array_equal(report["probability"], inside["probability"])
    rows = list(report["row"])
    first = rows.index("row 3" if library == "pandas" else 3)
    assert list(report["x_columns"])[first] == "weight"
    assert set(", ".join(report["x_columns"]).split(", ")) <= {"", "height", "weight"}
    assert rows[0] == ("row 5" if library == "pandas" else 5)


def test_report_of_labels_names_the_expected_class_and_displays():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    X, codes = moons(100, noise=0.1)
    y = np.array(["left", "right"])[codes]
    y[3] = "left" if codes[3] else "right"
    model = RobustKernelClassifier(random_state=0).fit(X, y)
    report = outlier_report(model, X, y)
    assert report["row"][0] == 3
    assert report["expected"][0] != report["given"][0]
    assert report["margin"][0] < 0
    display = OutlierDisplay.from_estimator(model, X, y)
    assert len(display.ax_.collections[0].get_offsets()) == 100
    with pytest.raises(ValueError, match="needs the training data, 100 rows"):
        outlier_report(model, X[:9], y[:9])
    with pytest.raises(ValueError, match="labels in y that were not among them"):
        outlier_report(model, X, np.where(y == "left", "up", y))
    with pytest.raises(ValueError, match="needs a fitted RobustKernelRegressor"):
        outlier_report(SVC().fit(X, y), X, y)


@pytest.mark.parametrize("model", ALL, ids=name)
def test_report_refuses_rows_in_another_order(model):
    X, y, _, _ = curve(50)
    y = (y > 0).astype(int) if isinstance(model, RobustKernelClassifier) else y
    model = clone(model).fit(X, y)
    for same in (X, X.astype(np.float32), pd.DataFrame(X), X * (1 + 1e-9)):
        assert len(outlier_report(model, same, y)["row"]) == 50
    back = np.arange(50)[::-1]
    two = np.r_[np.arange(48), 49, 48]
    for other, count in ((back, 50), (two, 2)):
        with pytest.raises(ValueError, match=f"{count} of 50 rows differ, the first is row {50 - count}"):
            outlier_report(model, X[other], y[other])
    with pytest.raises(ValueError, match="in the same order"):
        outlier_report(model, X, y[back])
    with pytest.raises(ValueError, match=r"2 columns\. Got X of shape"):
        outlier_report(model, X[:, :1], y)
    with pytest.raises(ValueError, match="X with 49 rows"):
        outlier_report(model, X[:49], y)


@pytest.mark.parametrize("model", ALL, ids=name)
@pytest.mark.parametrize(("value", "message"), [(0.5, "nothing in the data says which half"), (-0.1, r"\[0, 0.5\)"),
                                                ("half", "'auto' or a number"), (float("nan"), r"\[0, 0.5\)")])
def test_impossible_contamination_is_explained(model, value, message):
    X, y = moons(20)
    with pytest.raises(ValueError, match=message):
        clone(model).set_params(contamination=value).fit(X, y)


def test_gamma_auto_is_one_over_the_columns_as_in_scikit_learn():
    X, y = moons(60)
    for model in (RobustKernelClassifier(gamma="auto"), RobustKernelRegressor(gamma="auto"), SVDD(gamma="auto")):
        assert repr(model.fit(X, y).expansion_.kernel) == "RBF(gamma=0.5)"


def test_other_bad_input_is_refused():
    X, y = moons(20)
    with pytest.raises(ValueError, match="RobustScaler"):
        RobustKernelRegressor(gamma="scale").fit(X, y)
    for kernel in ("sigmoid", "log"):  # the objective of a risk has no least value with them
        for made in (RobustKernelClassifier, KernelClassifier, KernelRegressor):
            with pytest.raises(ValueError, match="positive definite"):
                made(kernel=kernel).fit(X, y)
    with pytest.raises(ValueError, match="Class 2 has 1"):
        RobustKernelClassifier(contamination=0.2).fit(np.vstack([X, X[:1]]), np.append(y, 2))
    with pytest.raises(ValueError, match="not positive semi-definite"):
        RobustKernelRegressor(kernel=lambda A, B: -A @ B.T).fit(X, y)


@pytest.mark.parametrize("model", REGRESSORS, ids=name)
def test_equal_targets_are_predicted(model):
    X, _ = moons(30)
    model = clone(model).fit(X, np.full(30, 4))
    np.testing.assert_allclose(model.predict(X), 4)
    assert model.inlier_mask_.all()
    assert model.contamination_ == 0


def test_a_wrong_row_does_not_hide_behind_its_copy():
    X, y, _, _ = curve(120)
    X = np.repeat(X[:60], 2, axis=0)
    y = np.repeat(y[:60], 2)
    y[[10, 11]] += 4
    model = RobustKernelRegressor(alpha=0.1, random_state=0).fit(X, y)
    assert np.argsort(-model.outlier_proba_)[:2].tolist() in ([10, 11], [11, 10])


def test_linear_fit_leaves_a_row_out_with_its_copies():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(40, 15)), 2, axis=0)
    y = X[:, 0] + rng.normal(size=80)
    model = RobustLinearRegressor(contamination=0, alpha=1e-9).fit(X, y)
    for i in (0, 33):
        left = np.arange(80) // 2 != i // 2
        expected = y[i] - LinearRegression().fit(X[left], y[left]).predict(X[[i]])[0]
        assert model.loo_residual_[i] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("model", [RobustKernelRegressor(), RobustKernelClassifier()], ids=name)
def test_a_gram_matrix_given_in_advance_gives_the_same_fit(model):
    X, y = moons(60)
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1))
    one = clone(model).set_params(random_state=0, gamma=0.5).fit(X, y)
    same = clone(model).set_params(random_state=0, kernel="precomputed").fit(K, y)
    np.testing.assert_array_equal(same.inlier_mask_, one.inlier_mask_)
    np.testing.assert_allclose(same.predict(K), one.predict(X), atol=1e-5)


@pytest.mark.parametrize("model", ALL, ids=name)
def test_copies_that_differ_in_a_last_digit_are_warned_about(model):
    X, y, _, _ = curve(n=60)
    y = (y > 0).astype(float)
    again = np.vstack([X, X[7] * (1 + 1e-15)])
    with pytest.warns(UserWarning, match=r"2 rows of X .* last digit \(rows 7, 60\)"):
        clone(model).fit(again, np.append(y, y[7]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(model).fit(np.vstack([X, X[7]]), np.append(y, y[7]))


def test_plain_fit_that_stays_has_the_ridge_of_least_absolute_error():
    rng = np.random.default_rng(2)
    X = rng.uniform(-3, 3, (60, 1))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_t(3, 60)
    model = RobustKernelRegressor(kernel="rbf", random_state=0).fit(X, y)
    told = RobustKernelRegressor(kernel="rbf", contamination=0)
    left = [clone(told).set_params(alpha=alpha).fit(X, y).loo_residual_ for alpha in MIXTURE.ridges]
    assert model.clean_
    assert model.alpha_ == pytest.approx(MIXTURE.ridges[np.argmin([np.abs(r).sum() for r in left])])
    squares = told.fit(X, y)
    assert squares.alpha_ == pytest.approx(MIXTURE.ridges[np.argmin([r @ r for r in left])])
    assert squares.alpha_ > model.alpha_  # a few large residuals ask for more
