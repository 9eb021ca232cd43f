"""Explained predictions: contributions add up to the score, name the rows, and can be drawn."""


import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import (
    SVC,
    SVDD,
    SVR,
    AdvSVM,
    BatchedRidgeClassifier,
    KernelClassifier,
    LeastSquaresClassifier,
    LinearSVC,
    MultiKernelSVDD,
    OneClassSVM,
    RobustKernelClassifier,
    RobustKernelRegressor,
    RobustLinearRegressor,
    StochasticAdvSVM,
    explain,
    outlier_report,
)
from buttress.kernels import RBF
from buttress.robust.report import likeliest

from problems import iris, moons

MODELS = [SVC(), SVR(), KernelClassifier(), RobustKernelClassifier(random_state=0),
          RobustKernelRegressor(random_state=0)]


@pytest.mark.parametrize("model", MODELS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("data", [iris, moons], ids=["three classes", "two"])
def test_contributions_add_up_to_the_score(model, data):
    X, y = data()
    model.fit(X, y)
    for i in (0, 17, len(X) - 1):
        why = explain(model, X[i])
        assert why.contribution.sum() + why.intercept == pytest.approx(why.score, rel=1e-9)
        assert np.abs(why.share).sum() == pytest.approx(1)
        assert (np.diff(np.abs(why.contribution)) <= 0).all()
        predicted = model.predict(X[i:i + 1])[0]
        if why.rival is None:
            assert why.score == pytest.approx(predicted)
        else:
            assert why.prediction == predicted != why.rival
            assert why.score >= 0


def test_two_classes_are_explained_by_the_dual_coefficients():
    X, y = moons()
    model = SVC(kernel=RBF(1.0)).fit(X, y)
    why = explain(model, X[3:4], labels=[f"row {i}" for i in range(len(X))])
    sign = 1 if model.decision_function(X[3:4])[0] > 0 else -1
    expected = sign * model.dual_coef_[0] * RBF(1.0)(X[3:4], X[model.support_])[0]
    found = dict(zip(why.row, why.contribution, strict=True))
    for row, value in zip(model.support_, expected, strict=True):
        assert found[f"row {row}"] == pytest.approx(value)
    assert why.score == pytest.approx(abs(model.decision_function(X[3:4])[0]))


def test_frames_and_plots():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X, y = iris()
    table = pd.DataFrame(X, columns=list("abcd"))
    why = explain(SVC().fit(table, y), table.iloc[[80]])
    assert list(why.frame().columns) == ["row", "contribution", "share", "similarity"]
    assert why.plot(most=4) is why
    widths = [bar.get_width() for bar in why.bars_]
    assert len(widths) == 6
    assert sum(widths) == pytest.approx(why.score)
    _, given = pyplot.subplots()
    assert why.plot(ax=given).ax_ is given
    assert why.figure_ is given.figure
    pyplot.close("all")


@pytest.mark.parametrize("model", [LeastSquaresClassifier(), AdvSVM()], ids=str)
def test_centres_of_unknown_rows_are_not_named_by_labels(model):
    """Row 5 equals row 3 and is counted with it: the centres after it are not the rows of their numbers."""
    X, y = moons()
    X[5], y[5] = X[3], y[3]
    model.fit(X, y)
    assert len(model.expansion_.centers) < len(X)
    with pytest.raises(ValueError, match="Leave labels out"):
        explain(model, X[0], labels=np.arange(len(X)).astype(str))
    why = explain(model, X[0])
    assert why.similarity[0] == pytest.approx(model.expansion_.kernel(X[:1], model.expansion_.centers[why.row[:1]]))


def test_detectors_are_explained_by_their_decision_or_not_at_all():
    X, _ = moons()
    model = OneClassSVM(gamma=1.0, nu=0.2).fit(X)
    for row in (X[:1], X[:1] + 3):
        why = explain(model, row)
        assert why.contribution.sum() + why.intercept == pytest.approx(model.decision_function(row)[0])
        assert why.prediction == model.predict(row)[0]
    for model in (SVDD(kernel="poly"), MultiKernelSVDD([RBF(0.1), RBF(1.0)])):
        with pytest.raises(ValueError, match="scores by a distance"):
            explain(model.fit(X), X[0])


def test_a_model_that_is_no_sum_over_rows_is_refused():
    X, _ = iris()
    with pytest.raises(ValueError, match="coef_, where there is one, says"):
        explain(RobustLinearRegressor().fit(X[:, :3], X[:, 3]), X[0, :3])
    points, sides = moons(40)
    for machine in (LinearSVC(), BatchedRidgeClassifier()):
        with pytest.raises(ValueError, match="coef_, where there is one, says"):
            explain(machine.fit(points, sides), points[0])
    with pytest.raises(ValueError, match="StochasticAdvSVM is no sum over training rows"):
        explain(StochasticAdvSVM(n_features=64, random_state=0).fit(points, sides), points[0])


def test_several_rows_and_missing_labels_are_refused():
    X, y = moons()
    model = SVC().fit(X, y)
    with pytest.raises(ValueError, match="takes one row"):
        explain(model, X[:2])
    with pytest.raises(ValueError, match="labels must be"):
        explain(model, X[0], labels=["a"])


def test_reports_of_a_false_discovery_rate_are_the_longest_of_that_mean():
    X, _ = moons()
    rng = np.random.default_rng(0)
    y = X[:, 0] + 0.1 * rng.normal(size=len(X))
    y[:20] = rng.normal(2, 2, size=20)
    model = RobustLinearRegressor(random_state=0).fit(X, y)
    whole = outlier_report(model, X, y)
    for fdr in (0.01, 0.1, 0.4):
        part = outlier_report(model, X, y, fdr=fdr)
        many = len(part["row"])
        ranked = np.sort(1 - model.outlier_proba_)
        assert ranked[:many].mean() <= fdr
        assert ranked[: many + 1].mean() > fdr or ranked[many] > 0.5
        assert set(part["row"]) <= set(whole["row"])
        assert sorted(part["probability"]) == sorted(1 - ranked[:many])
    for fdr in (0, 1, "few"):
        with pytest.raises(ValueError, match="fdr must be"):
            outlier_report(model, X, y, fdr=fdr)


def test_rows_likelier_right_than_corrupt_do_not_use_up_a_false_discovery_rate():
    certain = np.array([1.0] * 30 + [0.6, 0.4, 0.3] + [0.0] * 60)
    assert likeliest(certain, 0.1).sum() == 31  # with all three the mean would be .05
    assert likeliest(certain, 0.001).sum() == 30
    assert likeliest(certain, 0.6).sum() == 31


def test_isolated_rows_are_not_named_at_a_false_discovery_rate():
    X, y = iris()
    X = np.vstack([X, 1e3 * np.ones((1, 4))])
    y = np.append(y, 0)
    model = RobustKernelClassifier(random_state=0).fit(X, y)
    assert model.isolated_[-1]
    assert 150 not in outlier_report(model, X, y, fdr=0.9)["row"]


def test_a_prediction_hangs_on_labels_and_on_no_fewer():
    """Refits to the labels changed: those named change the prediction, no single one less does."""
    X, y = moons()
    model = make_pipeline(StandardScaler(), LeastSquaresClassifier(alpha=0.5)).fit(X, y)
    names = np.array([f"row {i}" for i in range(len(X))])
    for i in (0, 17):
        why = explain(model, X[i], training=(X, y))
        assert why.needed == len(why.hangs_on) >= 1
        assert (explain(model, X[i], training=(X, y), labels=names).hangs_on == names[why.hangs_on]).all()
        for left_out in (None, *why.hangs_on):
            wrong = y.copy()
            wrong[why.hangs_on] = 1 - y[why.hangs_on]
            if left_out is not None:
                wrong[left_out] = y[left_out]
            again = clone(model).fit(X, wrong).predict(X[i : i + 1])[0]
            assert (again != why.prediction) == (left_out is None)
    assert explain(model, X[0]).needed is None
    with pytest.raises(ValueError, match="linear in its targets"):
        explain(KernelClassifier().fit(X, y), X[0], training=(X, y))


def test_training_data_that_are_not_those_of_the_fit_are_refused():
    X, y = moons(60)
    model = SVC().fit(X, y)
    with pytest.raises(TypeError, match="training must be a pair"):
        explain(model, X[0], training=X)
    with pytest.raises(ValueError, match="has 5 rows, and the model was fitted to more"):
        explain(model, X[0], training=(X[:5], y[:5]))


def test_a_row_of_a_frame_keeps_the_names_of_its_columns():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    by_name = ColumnTransformer([("b", StandardScaler(), ["b"])], remainder="passthrough")
    model = make_pipeline(by_name, SVC()).fit(X, X.a > 0)
    row, frame = explain(model, X.iloc[7]), explain(model, X[7:8])
    assert row.score == frame.score
    np.testing.assert_array_equal(row.contribution, frame.contribution)
