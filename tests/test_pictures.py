"""Displays of boundaries, probabilities, convergence and kernel weights: what they show is what was asked."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_moons
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from buttress import (
    SVC,
    SVDD,
    CertifiedBoundaryDisplay,
    ConvergenceDisplay,
    KernelWeightsDisplay,
    LinearSVC,
    LinearSVR,
    MultiKernelSVDD,
    NovelColumnsDisplay,
    ReliabilityDisplay,
    novel_columns,
)
from buttress.kernels import RBF, Linear
from buttress.relational import Join, RelationalLinearSVC, Table

matplotlib = pytest.importorskip("matplotlib")
pyplot = pytest.importorskip("matplotlib.pyplot")
matplotlib.use("Agg")

X, Y = make_moons(120, noise=0.2, random_state=0)


def own_axes():
    return pyplot.subplots()[1]


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_every_point_of_a_certified_region_has_the_class_of_its_row(norm):
    names = np.array(["left", "right"])[Y]
    model = SVC(gamma=2.0).fit(X, names)
    ax = own_axes()
    shown = CertifiedBoundaryDisplay.from_estimator(model, X, names, norm=norm, resolution=40, ax=ax)
    assert shown.ax_ is ax
    points = np.column_stack([side.ravel() for side in shown.grid])
    away = points[None] - X[:, None]
    distance = np.abs(away).max(axis=2) if norm == "linf" else np.sqrt((away**2).sum(axis=2))
    inside = distance < shown.radius[:, None]
    assert inside.any()
    predicted = np.searchsorted(model.classes_, model.predict(X))
    assert (np.broadcast_to(shown.codes.ravel(), inside.shape)[inside] == predicted[np.nonzero(inside)[0]]).all()


def test_a_boundary_is_asked_for_by_the_names_of_columns():
    table = pd.DataFrame(X, columns=["u", "v"])
    model = make_pipeline(ColumnTransformer([("kept", "passthrough", ["u", "v"])]), SVC()).fit(table, Y)
    shown = CertifiedBoundaryDisplay.from_estimator(model, table, Y, resolution=9, plot=False)
    plain = CertifiedBoundaryDisplay.from_estimator(SVC().fit(X, Y), X, Y, resolution=9, plot=False)
    np.testing.assert_array_equal(shown.codes, plain.codes)
    np.testing.assert_allclose(shown.radius, plain.radius, rtol=1e-3)


def test_labels_of_no_class_have_no_colour():
    model = SVC().fit(X, Y)
    with pytest.raises(ValueError, match="holds the label 7"):
        CertifiedBoundaryDisplay.from_estimator(model, X, np.where(Y == 1, 7, 0), plot=False)
    with pytest.raises(ValueError, match="one label for each of the 120 rows"):
        CertifiedBoundaryDisplay.from_estimator(model, X, Y[:10], plot=False)


def test_a_row_with_names_is_read_by_them():
    table = pd.DataFrame(X, columns=["u", "v"])
    model = SVDD().fit(table)
    named = NovelColumnsDisplay.from_detector(model, table.iloc[0], table, plot=False)
    plain = NovelColumnsDisplay.from_detector(model, X[0], table, plot=False)
    np.testing.assert_array_equal(named.gains, plain.gains)
    with pytest.raises(ValueError, match="in their order: u, v"):
        NovelColumnsDisplay.from_detector(model, table.iloc[0][["v", "u"]], table, plot=False)
    with pytest.raises(ValueError, match="tried must be a whole number"):
        novel_columns(model, table, table, tried=0.5)


def test_a_boundary_of_three_features_is_refused():
    model = SVC().fit(np.c_[X, X[:, 0]], Y)
    with pytest.raises(ValueError, match="two columns"):
        CertifiedBoundaryDisplay.from_estimator(model, np.c_[X, X[:, 0]])


def test_reliability_is_that_of_a_model_whose_probabilities_are_known():
    class Coin:
        """Says .8 for class 1, always."""

        classes_ = np.array([0, 1])

        def predict_proba(self, rows):
            return np.tile([0.2, 0.8], (len(rows), 1))

    y = np.r_[np.ones(60), np.zeros(40)]
    shown = ReliabilityDisplay.from_estimator(Coin(), np.zeros((100, 1)), y, n_bins=1, ax=own_axes())
    assert shown.stated == pytest.approx([0.8])
    assert shown.right == pytest.approx([0.6])
    assert shown.calibration_error_ == pytest.approx(0.2)
    assert shown.count.tolist() == [100]


def test_bins_hold_all_rows():
    shown = ReliabilityDisplay.from_estimator(GaussianNB().fit(X, Y), X, Y, n_bins=7, plot=False)
    assert shown.count.sum() == len(X)
    assert np.average(shown.right, weights=shown.count) == pytest.approx(GaussianNB().fit(X, Y).score(X, Y))
    assert (np.diff(shown.stated) >= 0).all()
    with pytest.raises(ValueError, match="n_bins must be at most"):
        ReliabilityDisplay.from_estimator(GaussianNB().fit(X, Y), X, Y, n_bins=121)


def test_convergence_is_the_history():
    model = LinearSVC(tol=1e-2).fit(X, Y)
    shown = ConvergenceDisplay.from_estimator(model, ax=own_axes())
    assert shown.iteration.tolist() == [step["n_iter"] for step in model.history_]
    assert shown.objective.tolist() == [step["objective"] for step in model.history_]
    assert shown.lines_[1].get_ydata()[-1] == shown.distance[-1]
    assert ConvergenceDisplay.from_estimator(SVC().fit(X, Y), plot=False).measure == "violation"
    with pytest.raises(ValueError, match="LinearRegression keeps no history_"):
        ConvergenceDisplay.from_estimator(LinearRegression().fit(X, Y))


def test_the_interval_narrows_around_the_optimum_of_a_general_solver():
    small, labels = X[:40], np.where(Y[:40] == 1, 1.0, -1.0)
    cvxpy = pytest.importorskip("cvxpy")
    w, b = cvxpy.Variable(2), cvxpy.Variable()
    losses = cvxpy.pos(1 - cvxpy.multiply(labels, small @ w + b))
    optimum = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(w) / 2 + cvxpy.sum(losses))).solve()
    shown = ConvergenceDisplay.from_estimator(LinearSVC(tol=1e-6).fit(small, labels), ax=own_axes())
    assert (shown.lower <= optimum * (1 + 1e-6)).all()
    assert (shown.objective >= optimum * (1 - 1e-6)).all()
    assert (np.diff(shown.lower) >= 0).all()
    assert shown.objective[-1] - shown.lower[-1] <= 1e-5 * optimum
    np.testing.assert_array_equal(shown.lines_[2].get_ydata(), shown.lower)
    assert shown.interval_ is not None
    of_numbers = ConvergenceDisplay.from_estimator(LinearSVR().fit(X, X[:, 0]), plot=False)
    assert of_numbers.lower[-1] <= of_numbers.objective[-1]
    of_pairs = ConvergenceDisplay.from_estimator(SVC().fit(X, Y), ax=own_axes())
    assert of_pairs.lower is None
    assert of_pairs.interval_ is None


def test_the_last_interval_of_a_join_is_the_one_it_states():
    rng = np.random.default_rng(0)
    key = rng.integers(0, 5, size=60)
    rows = pd.DataFrame({"k": key, "x": rng.normal(size=60), "y": rng.choice([-1, 1], size=60)})
    other = pd.DataFrame({"k": rng.integers(0, 5, size=30), "z": rng.normal(size=30)})
    join = Join([Table("rows", rows, features=["x"], label="y"), Table("other", other, features=["z"])],
                on=[("rows.k", "other.k")])
    model = RelationalLinearSVC(tol=1e-3, random_state=0).fit(join)
    shown = ConvergenceDisplay.from_estimator(model, plot=False)
    low, high = model.objective_interval_
    assert shown.objective[-1] == pytest.approx(high, rel=1e-9)
    assert shown.lower[-1] == pytest.approx(low, rel=1e-9)


def test_columns_that_make_a_row_novel_are_bars_the_largest_on_top():
    known = pd.DataFrame(X, columns=["width", "it's"])
    row = X.mean(axis=0) + [0.0, 40.0]
    model = SVDD().fit(X)
    ax = own_axes()
    shown = NovelColumnsDisplay.from_detector(model, row, known, ax=ax)
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == sorted(novel_columns(model, row[None], X)[0])
    assert [text.get_text() for text in ax.get_yticklabels()][-1] == "it's" == shown.names[shown.gains.argmax()]


def test_kernel_weights_are_bars():
    model = MultiKernelSVDD([Linear(), RBF(2.0)]).fit(X)
    ax = own_axes()
    shown = KernelWeightsDisplay.from_estimator(model, ax=ax)
    assert [bar.get_width() for bar in ax.patches] == model.kernel_weights_.tolist()
    assert [text.get_text() for text in ax.get_yticklabels()] == shown.names
    with pytest.raises(ValueError, match="SVC has no kernel weights"):
        KernelWeightsDisplay.from_estimator(SVC().fit(X, Y))
