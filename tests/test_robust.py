"""Kernel machines that trim: descent, what they reject, what they refuse."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import scale

from buttress import KernelClassifier, KernelRegressor, Mean, NotConvergedWarning, Subquantile
from buttress.datasets import contaminate
from buttress.kernels import RBF
from buttress.losses import Logistic, Multinomial, Squared
from buttress.solvers.descent import kernel_descent

from problems import moons, points

LOSSES = {
    "squared": (Squared(), lambda rng: rng.normal(size=50)),
    "logistic": (Logistic(), lambda rng: rng.choice([-1.0, 1.0], 50)),
    "multinomial": (Multinomial(), lambda rng: rng.integers(0, 3, 50)),
}


def waves(n=120, rate=0.2, seed=0):
    """A sine with a share of its targets moved far away: X, y, which rows were moved."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 6, size=(n, 1))
    y = np.sin(X[:, 0]) + 0.05 * rng.normal(size=n)
    return contaminate(X, y, rate, "noise", random_state=seed)


@pytest.mark.parametrize("name", LOSSES)
def test_descent_without_acceleration_never_rises(name):
    loss, targets = LOSSES[name]
    y = targets(np.random.default_rng(0))
    w = np.zeros((50, 3)) if name == "multinomial" else np.zeros(50)
    steps = kernel_descent(RBF(0.5)(points(50), points(50)), y, loss, Subquantile(0.7), ridge=1e-3, w=w,
                           sample_weight=np.ones(50), accelerate=False)
    objective = [step.objective for _, step in zip(range(200), steps, strict=False)]
    assert np.diff(objective).max() <= 1e-12
    assert objective[-1] < 0.9 * objective[0]


def test_corrupted_rows_are_rejected_and_the_curve_is_found():
    X, y, corrupt = waves()
    model = KernelRegressor(risk=Subquantile(0.8), alpha=0.1, gamma=1.0).fit(X, y)
    assert not model.inlier_mask_[corrupt].any()
    assert model.inlier_mask_[~corrupt].all()
    grid = np.linspace(0.3, 5.7, 50)[:, None]
    assert np.abs(model.predict(grid) - np.sin(grid[:, 0])).max() < 0.15
    plain = KernelRegressor(risk=Mean(), alpha=0.1, gamma=1.0).fit(X, y)
    assert np.abs(plain.predict(grid) - np.sin(grid[:, 0])).max() > 0.5


def test_a_target_of_a_billion_leaves_predictions_bounded():
    X, y, corrupt = waves(rate=0.4)
    y[corrupt] = 1e9
    model = KernelRegressor(risk=Subquantile(0.6), alpha=0.1, gamma=1.0).fit(X, y)
    assert np.abs(model.predict(X)).max() < 2


def test_trimming_within_classes_keeps_every_class():
    X, y = load_digits(return_X_y=True)
    X = scale(X)
    train, test = np.arange(600), np.arange(600, 1200)
    _, flipped, _ = contaminate(X[train], y[train], 0.4, "flip", random_state=0)
    scores = {}
    for balanced in (True, False):
        model = KernelClassifier(risk=Subquantile(0.6), balanced=balanced, alpha=0.0, max_iter=60, tol=1e-2)
        with pytest.warns(NotConvergedWarning):  # early stopping is what regularises here
            model.fit(X[train], flipped)
        scores[balanced] = model.score(X[test], y[test])
    assert scores[True] >= 0.85, scores
    assert scores[False] < scores[True] - 0.2, scores


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"risk": Subquantile(1.4)}, r"quantile must be in \(0, 1\]. Got 1.4"),
        ({"risk": "subquantile"}, "risk must be Mean"),
        ({"alpha": -1}, r"alpha must be in \[0, inf\)"),
        ({"tol": 0}, r"tol must be in \(0, inf\)"),
        ({"max_iter": 0}, "max_iter must be a whole number"),
        ({"gamma": -1}, r"gamma must be in \(0, inf\)"),
    ],
)
@pytest.mark.parametrize("estimator", [KernelRegressor, KernelClassifier])
def test_bad_parameters_are_named(estimator, parameters, message):
    X, y = moons(40)
    with pytest.raises(ValueError, match=message):
        estimator(**parameters).fit(X, y)
