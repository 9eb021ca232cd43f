"""The robustness curve: its numbers against attacks and certificates called one by one, and its plot."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import (
    SVC,
    SVR,
    CertifiedBoundaryDisplay,
    LinearSVR,
    OutlierDisplay,
    ReliabilityDisplay,
    RobustKernelClassifier,
    RobustnessCurveDisplay,
    attacks,
    certificates,
)
from buttress.attacks import pgd
from buttress.certificates import certified_within
from buttress.threats import ThreatModel

from problems import iris, moons

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from_estimator = RobustnessCurveDisplay.from_estimator


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_curves_are_the_attacks_and_the_certificates(norm):
    X, y = moons()
    model = SVC(gamma=1.0).fit(X, y)
    eps = np.array([0.0, 0.05, 0.1, 0.3])
    display = from_estimator(model, X, y, eps=eps, norm=norm)
    right = model.predict(X) == y
    radius = getattr(certificates.certified_radius(model, X), norm)
    for i, size in enumerate(eps):
        fallen = attacks.pgd(model, X, y, eps=size, norm=norm, return_info=True)[1].success
        assert display.attacked_accuracy[i] <= (~fallen).mean()  # 1 - fallen.mean() would round in another way
        assert display.attacked_accuracy[i] >= (~fallen).mean() - 0.01
        assert display.certified_accuracy[i] == (right & (radius > size)).mean() if size else right.mean()
    assert display.attacked_accuracy[0] == model.score(X, y)
    assert (np.diff(display.attacked_accuracy) <= 0).all()
    assert (display.certified_accuracy <= display.attacked_accuracy).all()
    assert display.certified_accuracy[1] > 0.5


def test_the_plot_shows_both_curves_and_can_be_drawn_again():
    X, y = iris()
    display = from_estimator(make_pipeline(StandardScaler(), SVC()).fit(X, y), X, y, bounds=(X.min(0), X.max(0)))
    attacked, certified = display.lines_
    np.testing.assert_array_equal(attacked.get_ydata(), display.attacked_accuracy)
    np.testing.assert_array_equal(certified.get_ydata(), display.certified_accuracy)
    assert len(display.eps) == 11
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["SVC, attacked", "SVC, certified"]
    first = display.ax_
    assert display.plot(name="again").ax_ is not first
    assert display.plot(ax=first, color="red").lines_[0].get_color() == "red"
    first.plot([0, 1], [0, 1], color=[0.1, 0.2, 0.3])
    assert display.plot(ax=first).lines_[0].get_color() not in (attacked.get_color(), "red")
    matplotlib.pyplot.close("all")


def test_models_without_certificates_show_the_attack_alone():
    X, y = moons()
    display = from_estimator(GaussianNB().fit(X, y), X, y, attack="worst_case", eps=[0.1, 0.2],
                             attack_options={"steps": 5, "restarts": 1}, random_state=0)
    assert display.certified_accuracy is None
    assert len(display.lines_) == 1
    assert display.attacked_accuracy[1] < display.attacked_accuracy[0] < 0.9
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize("options", [{}, {"attack": "worst_case", "attack_options": {"steps": 3, "restarts": 1}}],
                         ids=["pgd", "worst_case"])
def test_models_fitted_on_column_names_are_drawn(options):
    pandas = pytest.importorskip("pandas")
    X, y = moons(40)
    frame = pandas.DataFrame(X, columns=["first", "second"])
    scaled = ColumnTransformer([("both", StandardScaler(), ["first", "second"])])
    model = make_pipeline(scaled, SVC()).fit(frame, y)
    display = from_estimator(model, frame, y, eps=[0.1, 0.3], random_state=0, **options)
    assert display.attacked_accuracy[1] < display.attacked_accuracy[0] < 1
    matplotlib.pyplot.close("all")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    X, y = moons(40)
    display = from_estimator(SVC().fit(X, y), X, y, plot=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"buttress\[report\]"):
        display.plot()


@pytest.mark.parametrize("eps", [[-0.1, 0.2], [0.2, 0.1], [], 0.3, [0.1, np.nan]])
def test_radii_out_of_order_are_refused(eps):
    X, y = moons(40)
    with pytest.raises(ValueError, match="eps must be radii"):
        from_estimator(SVC().fit(X, y), X, y, eps=eps)


def test_a_regressor_has_no_accuracy_to_draw():
    X, _ = moons(40)
    with pytest.raises(ValueError, match="SVR is no classifier"):
        RobustnessCurveDisplay.from_estimator(SVR().fit(X, X[:, 0]), X, X[:, 0], plot=False)


def test_an_attack_by_another_name_is_refused():
    X, y = moons(40)
    with pytest.raises(ValueError, match="attack must be one of 'pgd', 'worst_case'"):
        from_estimator(SVC().fit(X, y), X, y, attack="pdg")


def test_a_blind_attack_is_marked_in_the_picture():
    X, y = moons(40)
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="blind"):
        display = RobustnessCurveDisplay.from_estimator(forest, X, y, eps=[0.0, 0.01])
    assert not display.blind[0]
    assert display.blind[1]
    assert "RandomForestClassifier, attack was blind" in [text.get_text() for text in display.ax_.get_legend().texts]
    seen = RobustnessCurveDisplay.from_estimator(SVC().fit(X, y), X, y, eps=[0.0, 0.01], plot=False)
    assert not seen.blind.any()


def test_models_on_one_plot_have_colours_that_print_and_that_the_colour_blind_tell_apart():
    X, y = moons(40)
    display = from_estimator(SVC(gamma=1.0).fit(X, y), X, y, eps=[0.0, 0.1])
    for gamma in (0.5, 2.0):
        from_estimator(SVC(gamma=gamma).fit(X, y), X, y, eps=[0.0, 0.1], ax=display.ax_)
    solid = [line.get_color() for line in display.ax_.lines if line.get_linestyle() == "-"]
    grey = [np.array(matplotlib.colors.to_rgb(colour)) @ [0.299, 0.587, 0.114] for colour in solid]
    assert len(set(solid)) == 3
    assert min(np.diff(np.sort(grey))) > 0.05
    first = ReliabilityDisplay.from_estimator(SVC(gamma=1.0).fit(X, y), X, y)
    second = ReliabilityDisplay.from_estimator(SVC(gamma=0.1).fit(X, y), X, y, ax=first.ax_)
    assert first.line_.get_color() != second.line_.get_color()
    matplotlib.pyplot.close("all")


def test_a_model_without_probabilities_has_no_reliability():
    X, y = moons(40)
    with pytest.raises(ValueError, match="LinearSVR states no probabilities"):
        ReliabilityDisplay.from_estimator(LinearSVR().fit(X, y), X, y)


def test_probabilities_of_rows_are_as_dark_as_they_are_large():
    X, y = moons(40)
    display = OutlierDisplay.from_estimator(RobustKernelClassifier(random_state=0).fit(X, y), X, y)
    shades = display.ax_.collections[0].cmap(np.linspace(0, 1, 20))[:, :3] @ [0.299, 0.587, 0.114]
    assert (np.diff(shades) < 0).all()
    matplotlib.pyplot.close("all")


def test_a_curve_under_a_threat_counts_its_swaps_at_every_multiple():
    """Standard deviations are those of all rows, whichever still stand."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=80) * np.linspace(1, 5, 80), "kind": rng.integers(0, 2, 80)})
    y = (frame["size"] + 2 * frame["kind"] > 1).astype(int)
    model = make_pipeline(StandardScaler(), SVC(C=10.0)).fit(frame, y)
    threat = ThreatModel(numbers={"size": "0.2 sd"}, categories={"kind": [0, 1]}, most_swaps=1)
    display = from_estimator(model, frame, y, threat=threat, eps=[0.0, 0.01, 0.5, 1.0], random_state=0)
    known = threat.on(frame)
    for place, share in enumerate(display.eps[1:], 1):
        limits = known.scaled(share)
        proven = certified_within(model, frame, threat=limits) & (model.predict(frame) == y)
        fallen = pgd(model, frame, y, threat=limits, random_state=0, return_info=True)[1].success
        assert display.certified_accuracy[place] == proven.mean()
        assert display.attacked_accuracy[place] <= 1 - fallen.mean()
    assert display.certified_accuracy[0] == display.attacked_accuracy[0] == model.score(frame, y)
    assert display.attacked_accuracy[1] < display.attacked_accuracy[0]  # by swaps alone
    assert (display.certified_accuracy <= display.attacked_accuracy).all()
    assert "budgets" in display.ax_.get_xlabel()
    forest = RandomForestClassifier(3, random_state=0).fit(frame, y)
    assert from_estimator(forest, frame, y, threat=threat, plot=False).eps[-1] == 1.0
    with pytest.raises(ValueError, match="norm and bounds of its own"):
        from_estimator(model, frame, y, threat=threat, norm="l2")


def test_lines_take_a_label_and_short_names_of_options():
    X, y = moons(40)
    model = SVC().fit(X, y)
    lines = from_estimator(model, X, y, eps=[0.0, 0.1], label="mine", c="red", ls=":").lines_
    assert [line.get_label() for line in lines] == ["mine, attacked", "mine, certified"]
    assert {line.get_color() for line in lines} == {"red"}
    assert [line.get_linestyle() for line in lines] == [":", "--"]
    assert ReliabilityDisplay.from_estimator(model, X, y, n_bins=3, c="red").line_.get_color() == "red"
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize("display", [RobustnessCurveDisplay, ReliabilityDisplay, CertifiedBoundaryDisplay])
@pytest.mark.parametrize("given", [lambda y: y[:-1], lambda y: y[:1], lambda y: y[:, None], lambda y: y[0]])
def test_labels_of_another_length_are_refused(display, given):
    """One label, or a column of them, would be compared with every row."""
    X, y = moons(40)
    with pytest.raises(ValueError, match="y must have one label for each of the 40 rows"):
        display.from_estimator(SVC().fit(X, y), X, given(y), plot=False)


@pytest.mark.parametrize("display", [RobustnessCurveDisplay, ReliabilityDisplay, CertifiedBoundaryDisplay])
@pytest.mark.parametrize("kind", ["boolean", "Int64", "float"])
def test_missing_labels_are_refused_and_not_wrong(display, kind):
    X, y = moons(40)
    gaps = pd.Series(y == 1).astype("boolean").mask(np.arange(40) == 3).astype(kind)
    with pytest.raises(ValueError, match=r"in 1 rows, the first is row 3\. Drop those rows"):
        display.from_estimator(SVC().fit(X, y), X, gaps, plot=False)
