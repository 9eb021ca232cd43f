"""What Ctrl-C and the end of max_time leave of the robust estimators."""

import numpy as np
import pytest
from sklearn.base import clone

from buttress import (
    InterruptedWarning,
    NotConvergedWarning,
    RobustKernelClassifier,
    RobustKernelRegressor,
    RobustLinearRegressor,
)
from buttress.robust import em, labels, mixture, mm
from buttress.solvers.noisy_logistic import NoisyLogistic

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(200, 2))
TRUTH = 2 * X[:, 0] + np.sin(2 * X[:, 1])
BAD = np.arange(200) % 10 < 3
Y = np.where(BAD, 30 + X[:, 0], TRUTH + 0.1 * RNG.normal(size=200))
RIGHT = (X[:, 0] > 0).astype(int)
LABELS = np.where(np.arange(200) % 5 == 0, 1 - RIGHT, RIGHT)
MODELS = [
    (RobustKernelRegressor(random_state=0), Y),
    (RobustKernelRegressor(n_landmarks=60, random_state=0), Y),
    (RobustLinearRegressor(random_state=0), Y),
    (RobustKernelClassifier(random_state=0), LABELS),
    (RobustKernelClassifier(n_landmarks=40, random_state=0), LABELS),
]


def interrupt(monkeypatch, place, name):
    """Let Ctrl-C come where ``place`` first calls what it knows under this name."""
    real, calls = getattr(place, name), []

    def interrupting(*args, **options):
        calls.append(name)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(place, name, interrupting)


def named(model):
    return repr(model)


@pytest.mark.parametrize(("model", "place", "name", "says"), [
    (MODELS[0][0], em, "_best_alpha", "of the rows that the search took as good"),
    (MODELS[1][0], em, "_best_alpha", "of the rows that the search took as good"),
    (MODELS[2][0], mm, "m_steps", "of least trimmed squares"),
])
def test_an_interrupt_leaves_a_model_of_the_rows_found(model, place, name, says, monkeypatch):
    interrupt(monkeypatch, place, name)
    with pytest.warns(InterruptedWarning, match=says):
        model = clone(model).fit(X, Y)
    assert np.sqrt(np.mean((model.predict(X) - TRUTH) ** 2)) < 0.5 * TRUTH.std()
    assert model.inlier_mask_[BAD].mean() < 0.2 < 0.8 < model.inlier_mask_[~BAD].mean()


@pytest.mark.parametrize(("number", "place", "name"), [
    (0, mixture, "search"), (1, mixture, "search"), (2, mm, "least_trimmed"), (3, labels, "likeliest_fit"),
    (4, NoisyLogistic, "chances"),
])
def test_an_interrupt_before_anything_is_known_is_passed_on(number, place, name, monkeypatch):
    model, y = MODELS[number]
    interrupt(monkeypatch, place, name)
    with pytest.raises(KeyboardInterrupt):
        clone(model).fit(X, y)


@pytest.mark.parametrize(("landmarks", "place", "name", "says"), [
    ("auto", labels, "_concentrated", "labels that a plain fit finds likeliest"),
    (40, NoisyLogistic, "residuals", "was interrupted"),
    (5, NoisyLogistic, "left_out", "by the fit that they have a part in"),
])
def test_an_interrupt_leaves_a_classifier(landmarks, place, name, says, monkeypatch):
    interrupt(monkeypatch, place, name)
    with pytest.warns(InterruptedWarning, match=says):
        model = RobustKernelClassifier(n_landmarks=landmarks, random_state=0).fit(X, LABELS)
    assert model.predict(X).shape == (200,)
    if landmarks == "auto":
        assert (model.predict(X) == RIGHT).mean() > 0.9


@pytest.mark.parametrize(("model", "y"), MODELS, ids=named)
def test_time_that_is_up_is_told_and_leaves_a_model(model, y):
    with pytest.warns(NotConvergedWarning, match=f"{type(model).__name__} stopped at max_time after"):
        stopped = clone(model).set_params(max_time=1e-9).fit(X, y)
    whole = clone(model).set_params(max_time=1e9).fit(X, y)
    assert stopped.n_iter_ <= whole.n_iter_
    if y is Y:
        assert stopped.inlier_mask_[BAD].mean() < 0.2 < 0.8 < stopped.inlier_mask_[~BAD].mean()
    else:
        assert (whole.predict(X) == RIGHT).mean() > 0.9
    with pytest.raises(ValueError, match="max_time"):
        clone(model).set_params(max_time=0).fit(X, y)
