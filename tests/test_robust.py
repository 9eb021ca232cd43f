"""Kernel machines that trim: descent, what they reject, what they refuse."""

import warnings

import numpy as np
import pytest
from scipy.optimize import brentq
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from buttress import (
    KernelClassifier,
    KernelRegressor,
    KernelScaleWarning,
    Mean,
    NotConvergedWarning,
    RobustKernelRegressor,
    SeverClassifier,
    SeverRegressor,
    Subquantile,
    Tilted,
)
from buttress.datasets import contaminate
from buttress.features.stored import StoredFeatures
from buttress.kernels import RBF, Linear
from buttress.losses import Logistic, Multinomial, Squared
from buttress.solvers.gradient.descent import descent
from buttress.solvers.gradient.space import Dual, Primal

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
    space = Dual(RBF(0.5)(points(50), points(50)), np.full(50, 1 / 50))
    steps = descent(space, y, loss, Subquantile(0.7), ridge=1e-3, start=w, sample_weight=np.ones(50), acceleration=None)
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
    X = X / 16
    train, test = np.arange(600), np.arange(600, 1200)
    _, flipped, _ = contaminate(X[train], y[train], 0.4, "flip", random_state=0)
    scores = {}
    found = {}
    for balanced in (True, False):
        model = KernelClassifier(risk=Subquantile(0.6), balanced=balanced, alpha=0.0, gamma=0.05, max_iter=60, tol=1e-9)
        with pytest.warns(NotConvergedWarning):  # early stopping is what regularises here
            model.fit(X[train], flipped)
        scores[balanced] = model.score(X[test], y[test])
        found[balanced] = [np.mean(model.predict(X[test][y[test] == c]) == c) for c in range(10)]
    assert scores[True] > 0.85, scores
    assert scores[False] < 0.7, scores
    assert min(found[True]) > 0.6, found
    assert np.sum(np.array(found[False]) < 0.05) >= 2, found  # of ten classes, some are given up


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


def objectives(steps, count):
    return np.array([step.objective for _, step in zip(range(count), steps, strict=False)])


@pytest.mark.parametrize("step", ["spectral", "paper", "preconditioned"])
@pytest.mark.parametrize("space", ["dual", "primal"])
@pytest.mark.parametrize("name", LOSSES)
def test_a_step_of_one_over_beta_never_raises_the_objective(name, space, step):
    loss, targets = LOSSES[name]
    y, share = targets(np.random.default_rng(1)), np.full(50, 0.02)
    X = points(50, 4, seed=1)
    X[:5] *= 100
    where = Dual(RBF(0.3)(X, X), share) if space == "dual" else Primal(StoredFeatures(X))
    start = np.zeros((where.n_coefs, 3) if name == "multinomial" else where.n_coefs)
    steps = descent(where, y, loss, Subquantile(0.7), ridge=1e-3, start=start, sample_weight=np.ones(50),
                    acceleration=None, step=step)
    values = objectives(steps, 150)
    assert np.diff(values).max() <= 1e-12
    assert values[-1] < values[0]


def test_the_paper_step_is_the_published_one():
    """Without a ridge and for an RBF kernel, eq. 48 makes the coefficient update residual / n on the kept rows."""
    X, y = points(40), np.random.default_rng(0).normal(size=40)
    K = RBF(0.5)(X, X)
    steps = descent(Dual(K, np.full(40, 1 / 40)), y, Squared(), Subquantile(0.5), ridge=0.0, start=np.zeros(40),
                    sample_weight=np.ones(40), acceleration=None, step="paper")
    w = np.zeros(40)
    for _, step in zip(range(30), steps, strict=False):
        np.testing.assert_allclose(step.state, w, atol=1e-12)
        residual = y - K @ w
        kept = np.argsort(residual**2)[:20]
        w[kept] += residual[kept] / 40


def test_the_papers_nesterov_is_its_momentum():
    X, y = points(40), np.random.default_rng(0).normal(size=40)
    K, rate, mu = RBF(0.5)(X, X), 0.02, 0.9
    steps = descent(Dual(K, np.full(40, 1 / 40)), y, Squared(), Subquantile(0.7), ridge=0.0, start=np.zeros(40),
                    sample_weight=np.ones(40), acceleration=mu, step=rate)
    w, w_last = np.zeros(40), np.zeros(40)
    v, b = np.zeros(40), np.zeros(40)

    def gradient(w):
        residual = K @ w - y
        g = np.zeros(40)
        kept = np.argsort(residual**2)[:28]
        g[kept] = 2 * residual[kept] / 28
        return g

    for _, step in zip(range(60), steps, strict=False):
        np.testing.assert_allclose(step.state, w, atol=1e-12)
        np.testing.assert_allclose(v, w, atol=1e-12)
        w, w_last = (1 + mu) * w - mu * w_last - rate * gradient(w), w  # eqs. 63 and 64
        b = mu * b + gradient(v)  # eq. 60
        v = v - rate * b  # eq. 61


def test_all_steps_and_spaces_reach_the_same_ridge_regression():
    X, y = points(60, 4), points(60, 1, seed=1)[:, 0]
    expected = Ridge(alpha=0.5, fit_intercept=False).fit(X, y).predict(X)
    options = {"alpha": 0.5, "risk": Mean(), "fit_intercept": False, "tol": 1e-9, "max_iter": 20000}
    for step in ("spectral", "paper", "preconditioned"):
        for acceleration in (None, 0.9, "nesterov"):
            primal = KernelRegressor(kernel="linear", step=step, acceleration=acceleration, **options).fit(X, y)
            np.testing.assert_allclose(primal.predict(X), expected, atol=1e-6, err_msg=f"{step} {acceleration}")
            dual = KernelRegressor(kernel="precomputed", step=step, acceleration=acceleration, **options)
            np.testing.assert_allclose(dual.fit(X @ X.T, y).predict(X @ X.T), expected, atol=1e-6)


def test_a_linear_kernel_with_an_offset_is_fitted_in_the_primal():
    X, y = points(60, 4), points(60, 1, seed=1)[:, 0] + 3
    options = {"risk": Mean(), "fit_intercept": False, "tol": 1e-10, "max_iter": 20000}
    model = KernelRegressor(kernel=Linear(coef0=2.0), **options).fit(X, y)
    assert model.coef_.shape == (5,)
    exact = KernelRidge(kernel=lambda a, b: a @ b + 2.0).fit(X, y)
    np.testing.assert_allclose(model.predict(X[:7]), exact.predict(X[:7]), atol=1e-6)


def test_as_many_landmarks_as_rows_are_exact():
    X, y, _ = waves(60)
    exact = KernelRegressor(gamma=1.0, tol=1e-8, max_iter=20000).fit(X, y)
    features = KernelRegressor(gamma=1.0, tol=1e-8, max_iter=20000, n_landmarks=60, random_state=0).fit(X, y)
    np.testing.assert_allclose(features.predict(X), exact.predict(X), atol=1e-4)
    np.testing.assert_array_equal(features.inlier_mask_, exact.inlier_mask_)


@pytest.mark.parametrize("acceleration", [None, 0.9, "nesterov"])
def test_the_ball_holds_and_binds(acceleration):
    X, y, _ = waves()
    K = RBF(1.0)(X, X)
    options = {"risk": Mean(), "alpha": 0.0, "gamma": 1.0, "acceleration": acceleration, "fit_intercept": False}
    model = KernelRegressor(radius=2.0, tol=1e-6, max_iter=5000, **options).fit(X, y)
    w = model.dual_coef_
    assert np.sqrt(w @ K @ w) == pytest.approx(2.0, rel=1e-9)
    # the minimiser in a ball is the ridge regression whose norm is the radius
    values, vectors = np.linalg.eigh(K)
    z = vectors.T @ y
    ridge = brentq(lambda a: np.sum(values * (z / (values + a)) ** 2) - 4, 1e-3, 1e5)
    np.testing.assert_allclose(model.predict(X), K @ np.linalg.solve(K + ridge * np.eye(len(X)), y), atol=1e-3)


def test_a_random_start_and_a_schedule_lead_to_the_same_curve():
    X, y, corrupt = waves()
    zero = KernelRegressor(alpha=0.1, gamma=1.0, tol=1e-6, max_iter=5000).fit(X, y)
    glorot = KernelRegressor(alpha=0.1, gamma=1.0, tol=1e-6, max_iter=5000, init="glorot", random_state=0).fit(X, y)
    np.testing.assert_allclose(glorot.predict(X), zero.predict(X), atol=1e-2)
    schedule = KernelRegressor(alpha=0.1, gamma=1.0, step=lambda k: 1 / (1 + 0.01 * k), acceleration=None, tol=1e-2)
    np.testing.assert_array_equal(schedule.fit(X, y).inlier_mask_, ~corrupt)


def test_targets_scaled_and_shifted_give_predictions_scaled_and_shifted():
    X, y, _ = waves()
    one = KernelRegressor(gamma=1.0, tol=1e-8, max_iter=20000).fit(X, y)
    two = KernelRegressor(gamma=1.0, tol=1e-8, max_iter=20000).fit(X, 3 * y - 7)
    np.testing.assert_allclose(two.predict(X), 3 * one.predict(X) - 7, atol=1e-5)


def test_tilted_risk_sets_aside_the_corrupt_rows():
    X, y, corrupt = waves()
    model = KernelRegressor(risk=Tilted(-2.0), alpha=0.1, gamma=1.0).fit(X, y)
    far = np.abs(y - np.sin(X[:, 0])) > 1  # a few draws of the noise land near the curve
    assert not model.inlier_mask_[far].any()
    assert model.inlier_mask_[~corrupt].all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"acceleration": "nestorov"}, "acceleration must be one of .* Did you mean 'nesterov'"),
        ({"acceleration": 1.0}, r"acceleration must be in \[0, 1\)"),
        ({"step": "fast"}, "step must be one of 'spectral', 'paper', 'preconditioned'"),
        ({"step": -0.1}, r"step must be in \(0, inf\)"),
        ({"radius": 0}, r"radius must be in \(0, inf\)"),
        ({"radius": 1.0, "step": "preconditioned"}, "does not go with a radius"),
        ({"init": "xavier"}, "init must be one of 'zero', 'glorot'"),
        ({"n_landmarks": 0}, "n_landmarks must be a whole number of at least 1"),
        ({"n_landmarks": "all"}, "n_landmarks must be one of 'auto'"),
        ({"kernel": "precomputed", "n_landmarks": 5}, "n_landmarks needs a kernel of rows"),
    ],
)
@pytest.mark.parametrize("estimator", [KernelRegressor, KernelClassifier])
def test_bad_descent_parameters_are_named(estimator, parameters, message):
    X, y = moons(40)
    X = np.eye(40) if parameters.get("kernel") == "precomputed" else X
    with pytest.raises(ValueError, match=message):
        estimator(**parameters).fit(X, y)


@pytest.mark.parametrize("name", LOSSES)
def test_beta_bounds_the_change_of_the_gradient_and_is_tight(name):
    """|grad F(f) - grad F(h)|_H <= beta |f - h|_H on a fixed set of kept rows, beta from the trace and the spectrum."""
    loss, targets = LOSSES[name]
    rng = np.random.default_rng(2)
    y, q = targets(rng), np.where(np.arange(50) < 35, 1 / 35, 0.0)
    space = Dual(RBF(0.3)(points(50), points(50)), np.full(50, 0.02))
    rows = (lambda v: q[:, None] * v) if name == "multinomial" else (lambda v: q * v)
    shape = (50, 3) if name == "multinomial" else 50
    ratios = []
    for size in (1e-3, 1.0, 10.0):
        for _ in range(30):
            f = space.point(rng.normal(size=shape))
            h = space.point(f.c + size * rng.normal(size=shape))
            change = space.point(rows(loss.derivative(y, f.f) - loss.derivative(y, h.f)))
            ratios.append(space.norm(change) / space.norm(f - h))
    exact = loss.curvature * np.linalg.eigvalsh(np.sqrt(np.outer(q, q)) * space.K)[-1]
    assert max(ratios) <= exact * (1 + 1e-9)
    spectral = loss.curvature * space.largest(q)
    assert exact <= spectral * 1.001
    assert spectral <= loss.curvature * (q @ space.diagonal) * (1 + 8 * np.finfo(float).eps)
    # a small step along the top eigenvector, where the loss is most curved: scores of 0, two classes as likely
    assert loss.curvature == {"squared": 2.0, "logistic": 1 / 4, "multinomial": 1 / 2}[name]
    top = np.linalg.eigh(np.sqrt(np.outer(q, q)) * space.K)[1][:, -1] * np.sqrt(q)
    at = np.zeros(50)
    if name == "multinomial":
        top = top[:, None] * [1, -1, 0]
        at = np.tile([0.0, 0.0, -40.0], (50, 1))
    move = space.point(1e-3 * top)
    change = space.point(rows(loss.derivative(y, at + move.f) - loss.derivative(y, at)))
    assert space.norm(change) / space.norm(move) == pytest.approx(exact, rel=1e-4)


def test_a_steep_negative_tilt_puts_all_weight_on_the_least_loss():
    losses = np.array([3.0, 0.5, 2.0])
    np.testing.assert_allclose(Tilted(-1e3).weights(losses), [0, 1, 0], atol=1e-12)
    assert Tilted(-1e3)(losses) == pytest.approx(0.5, abs=2e-3)


def test_equal_targets_are_fitted_and_nothing_is_rejected():
    model = KernelRegressor().fit(points(30), np.full(30, 4.0))
    np.testing.assert_allclose(model.predict(points(5, seed=1)), 4.0)
    assert model.inlier_mask_.all()


def test_a_class_of_one_row_is_not_trimmed_away():
    X, y = points(41), np.r_[np.zeros(20), np.ones(20), 2]
    model = KernelClassifier(risk=Subquantile(0.6), alpha=1e-3).fit(X, y)
    assert model.inlier_mask_[-1]
    assert model.predict(X[-1:]) == 2


SCALED = [KernelRegressor(), KernelRegressor(n_landmarks=20), KernelClassifier(), SeverRegressor(),
          SeverRegressor(KernelRidge(kernel="rbf")), RobustKernelRegressor(random_state=0)]


FOLLOWING = SCALED[-1]  # its widths follow rows that are short
COMPLAINTS = [(model, 1e3, "unlike.*lower gamma") for model in SCALED]
COMPLAINTS += [(model, 1e-5, "alike.*raise gamma") for model in SCALED if model is not FOLLOWING]


def test_widths_that_follow_short_rows_are_nothing_to_complain_about():
    X = points(80, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernelScaleWarning)
        clone(FOLLOWING).fit(1e-5 * X, (X[:, 0] > 0).astype(float))


@pytest.mark.parametrize(("model", "factor", "complaint"), COMPLAINTS)
def test_rows_that_the_kernel_cannot_tell_apart_or_relate_are_complained_about(model, factor, complaint):
    X = points(80, 3)
    y = (X[:, 0] > 0).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernelScaleWarning)
        clone(model).fit(X, y)
        clone(model).fit(np.repeat(X[:40], 2, axis=0), y)
    with pytest.warns(KernelScaleWarning, match=f"(?s)rows of X are all {complaint}") as seen:
        clone(model).fit(factor * X, y)
    assert sum(issubclass(one.category, KernelScaleWarning) for one in seen) == 1


def test_orthogonal_rows_of_a_linear_kernel_are_nothing_to_complain_about():
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernelScaleWarning)
        KernelRegressor(kernel="linear").fit(np.eye(20), np.arange(20.0))
        KernelRegressor(kernel="polynomial", degree=2).fit(points(80, 3), np.arange(80.0))


def test_a_tilt_in_units_of_other_targets_is_told():
    """t l of hundreds: all weight on the few rows of least loss."""
    X = np.random.default_rng(0).normal(size=(100, 2))
    KernelRegressor(risk=Tilted(-2)).fit(X, X[:, 0])
    with pytest.warns(UserWarning, match=r"Tilted\(tilt=-2\) weights the rows as if they were .* of 100"):
        KernelRegressor(risk=Tilted(-2)).fit(X, 100 * X[:, 0])


def test_sever_names_an_estimator_that_gives_no_scores():
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match=r"decision_function or predict_proba.*Got Ridge"):
        SeverClassifier(Ridge()).fit(X, X[:, 0] > 0)


def test_a_step_too_long_for_any_number_is_told_once():
    X, y = moons(40)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = KernelRegressor(step=1e12).fit(X, y)
    assert ["too long" in str(warning.message) for warning in caught] == [True]
    np.testing.assert_allclose(model.predict(X), y.mean())  # as before the first step
