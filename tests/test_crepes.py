"""crepes calibrates our machines as it does scikit-learn's; it ships no tests of its own that could be borrowed."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import SVC, SVR, LinearSVC, LinearSVR, NuSVC, NuSVR

crepes = pytest.importorskip("crepes")


def in_three(X, y):
    """Return rows and answers to fit on, to calibrate with, and to judge."""
    X, judged, y, truth = train_test_split(X, y, test_size=0.5, random_state=0)
    X, other, y, held = train_test_split(X, y, test_size=0.5, random_state=0)
    return (X, y), (other, held), (judged, truth)


@pytest.mark.parametrize("machine", [SVC(), NuSVC(), LinearSVC()])
def test_sets_of_classes_hold_the_truth(machine):
    X, y = load_breast_cancer(return_X_y=True)
    fitted, held, judged = in_three(X, np.array(["benign", "malign"])[y])
    wrapped = crepes.WrapClassifier(make_pipeline(StandardScaler(), machine))
    wrapped.fit(*fitted)
    wrapped.calibrate(*held, class_cond=True)
    assert {"benign", "malign"} == {label for labels in wrapped.predict_set(judged[0]) for label in labels}
    wrapped.calibrate(*held)
    assert wrapped.evaluate(*judged, confidence=0.9)["error"] < 0.16


@pytest.mark.parametrize("machine", [SVR(C=100), NuSVR(C=100), LinearSVR(C=100)])
def test_intervals_hold_the_truth(machine):
    fitted, held, judged = in_three(*load_diabetes(return_X_y=True))
    wrapped = crepes.WrapRegressor(machine)
    wrapped.fit(*fitted)
    wrapped.calibrate(*held)
    assert wrapped.evaluate(*judged, confidence=0.9)["error"] < 0.18
    wrapped.calibrate(*held, cps=True)
    below, above = wrapped.predict_percentiles(judged[0], lower_percentiles=[5], higher_percentiles=[95]).T
    assert (below <= above).all()
