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
from buttress.features.stored import StoredFeatures
from buttress.robust import label_fit, linear_fit, regression_fit
from buttress.robust.design import FEWEST_LANDMARKS, LANDMARK_SECONDS, affordable
from buttress.solvers.contamination.noisy_logistic import NoisyLogistic
from buttress.solvers.ridge.landmarks import WeightedSums

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


def named(value):
    return repr(value) if hasattr(value, "fit") else ""


@pytest.mark.parametrize(("model", "place", "name", "says"), [
    (MODELS[0][0], regression_fit, "_best_alpha", "of the rows that the search took as good"),
    (MODELS[1][0], regression_fit, "_best_alpha", "of the rows that the search took as good"),
    (MODELS[2][0], linear_fit, "_efficient", "an S estimate"),
])
def test_an_interrupt_leaves_a_model_of_the_rows_found(model, place, name, says, monkeypatch):
    interrupt(monkeypatch, place, name)
    with pytest.warns(InterruptedWarning, match=says):
        model = clone(model).fit(X, Y)
    assert np.sqrt(np.mean((model.predict(X) - TRUTH) ** 2)) < 0.5 * TRUTH.std()
    assert model.inlier_mask_[BAD].mean() < 0.2 < 0.8 < model.inlier_mask_[~BAD].mean()


def test_an_interrupt_of_the_guard_leaves_the_robust_fit(monkeypatch):
    whole = RobustKernelRegressor(kernel="rbf", random_state=0).fit(X, Y)
    interrupt(monkeypatch, regression_fit, "_explained")
    with pytest.warns(InterruptedWarning, match="The robust fit stays"):
        model = RobustKernelRegressor(kernel="rbf", random_state=0).fit(X, Y)
    assert not whole.clean_
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))


@pytest.mark.parametrize(("number", "place", "name"), [
    (0, regression_fit, "search"), (1, regression_fit, "search"), (2, linear_fit, "searched"),
    (3, label_fit, "as_given"),
    (4, NoisyLogistic, "chances"),
])
def test_an_interrupt_before_anything_is_known_is_passed_on(number, place, name, monkeypatch):
    model, y = MODELS[number]
    interrupt(monkeypatch, place, name)
    with pytest.raises(KeyboardInterrupt):
        clone(model).fit(X, y)


@pytest.mark.parametrize(("landmarks", "place", "name", "says"), [
    (40, NoisyLogistic, "_of_all_rows", "holds what was known before"),
    (5, NoisyLogistic, "left_out", "holds what was known before"),
])
def test_an_interrupt_leaves_a_classifier(landmarks, place, name, says, monkeypatch):
    interrupt(monkeypatch, place, name)
    with pytest.warns(InterruptedWarning, match=says):
        model = RobustKernelClassifier(n_landmarks=landmarks, random_state=0).fit(X, LABELS)
    judges_labels(model)


def judges_labels(model):
    assert (model.predict(X) == RIGHT).mean() > 0.9
    assert np.mean(model.inlier_mask_ == (LABELS == RIGHT)) > 0.85
    assert (model.loo_score_ != 0).all()


def test_an_interrupt_as_the_fit_to_all_rows_begins_leaves_that_to_a_part(monkeypatch):
    steps = NoisyLogistic.steps

    def interrupting(self, coef, *args):
        if self.used[:, -1].all() and coef.any():
            raise KeyboardInterrupt
        yield from steps(self, coef, *args)

    monkeypatch.setattr(NoisyLogistic, "steps", interrupting)
    with pytest.warns(InterruptedWarning, match="holds what was known before"):
        model = RobustKernelClassifier(n_landmarks=40, random_state=0).fit(X, LABELS)
    judges_labels(model)


def test_an_interrupt_while_folds_are_crossed_leaves_no_row_unjudged(monkeypatch):
    pulled, fits = NoisyLogistic._pulled, []

    def interrupting(self, *args):
        fits.append(self.used.shape[1])
        if fits[-3:] == [6] * 3:
            raise KeyboardInterrupt
        return pulled(self, *args)

    monkeypatch.setattr(NoisyLogistic, "_pulled", interrupting)
    with pytest.warns(InterruptedWarning, match="was interrupted"):
        model = RobustKernelClassifier(n_landmarks=40, random_state=0).fit(X, LABELS)
    assert fits[-4:] == [1, 6, 6, 6]
    judges_labels(model)


@pytest.mark.parametrize(("model", "y"), MODELS, ids=named)
def test_time_that_is_up_is_told_and_leaves_a_model(model, y):
    with pytest.warns(NotConvergedWarning, match=f"{type(model).__name__} stopped at max_time after"):
        stopped = clone(model).set_params(max_time=1e-9).fit(X, y)
    whole = clone(model).set_params(max_time=1e9).fit(X, y)
    assert stopped.n_iter_ <= whole.n_iter_
    if y is Y:
        assert stopped.inlier_mask_[BAD].mean() < 0.2 < 0.8 < stopped.inlier_mask_[~BAD].mean()
    else:
        judges_labels(stopped)
    with pytest.raises(ValueError, match="max_time"):
        clone(model).set_params(max_time=0).fit(X, y)


@pytest.mark.parametrize("model", [RobustKernelRegressor(kernel="rbf", alpha=1.0), RobustLinearRegressor()], ids=named)
def test_a_fit_that_leaves_nothing_out_says_nothing_of_time(model):
    clone(model).set_params(contamination=0, max_time=1e-9).fit(X, Y)  # any warning is an error


def test_random_starts_end_with_the_time(monkeypatch):
    starts, concentrate = [], regression_fit.concentrate
    monkeypatch.setattr(regression_fit, "concentrate",
                        lambda *args, **options: starts.append(1) or concentrate(*args, **options))
    with pytest.warns(NotConvergedWarning):
        RobustKernelRegressor(n_starts=50, max_time=1e-9, random_state=0).fit(X, Y)
    assert len(starts) == 3  # the fixed ones


def test_a_gram_matrix_is_right_after_an_interrupt():
    Z, y, u = RNG.normal(size=(200, 5)), RNG.normal(size=(200, 1)), np.ones(200)
    sums = WeightedSums(StoredFeatures(Z))
    sums(u, y)
    u[:20] = 0.5
    u[150:160] = 2.0  # weights up and weights down are taken in turn
    features = sums.features
    features.weighted_gram = raising_at_the_second_call(features.weighted_gram)
    with pytest.raises(KeyboardInterrupt):
        sums(u, y)
    np.testing.assert_allclose(sums(u, y), (Z.T * u) @ np.hstack([Z, y]), atol=1e-10)
    np.testing.assert_allclose(sums(u, 2 * y), (Z.T * u) @ np.hstack([Z, 2 * y]), atol=1e-10)


def raising_at_the_second_call(function):
    calls = []

    def called(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return function(*arguments, **options)

    return called


@pytest.mark.parametrize(("n", "seconds"), [(3000, 0.3), (100_000, 1.0)])
def test_landmarks_are_as_many_as_the_time_pays_for(n, seconds):
    count = affordable(n, seconds)
    assert FEWEST_LANDMARKS <= count < 1000
    assert count == FEWEST_LANDMARKS or LANDMARK_SECONDS * n * count**2 <= seconds
    model = RobustKernelRegressor(max_time=0.001, random_state=0)
    with pytest.warns(NotConvergedWarning):
        model.fit(np.tile(X, (3, 1)) + RNG.normal(size=(600, 2)), np.tile(Y, 3))
    assert len(model.expansion_.centers) == FEWEST_LANDMARKS


@pytest.mark.parametrize(("n", "seconds"), [(3000, 1e9), (100_000, 1e9), (200, 0.1)])
def test_landmarks_are_the_usual_ones_where_the_time_pays_for_them(n, seconds):
    assert affordable(n, seconds) == "auto"
