"""Weights of columns against finite differences, refits without each row, repeated rows, and rows never seen."""

from copy import deepcopy

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge

from buttress import (
    SVC,
    SVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    RobustKernelClassifier,
    RobustKernelRegressor,
    load,
    save,
)
from buttress.kernels import RBF, Cauchy, Linear, MultiscaleRBF, Stretched
from buttress.solvers.ridge.columns import ColumnError, learned_columns
from buttress.solvers.ridge.tuning import COLUMNS

from problems import points

RNG = np.random.default_rng(2)
X = points(30)
Y = np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=30)
WEIGHTS = RNG.uniform(0.2, 1, 30)
LOGS = np.array([0.4, -0.7, 0.2, np.log(0.2), np.log(0.3)])  # of w, b and alpha
FAR = pytest.mark.filterwarnings("ignore:.*rows are named corrupt")


def of_two(n, d, seed, noise=0.1):
    """Rows whose targets depend on the first two of d columns."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    truth = np.sin(2 * rows[:, 0]) + rows[:, 1] ** 2 / 2
    return rows, truth + noise * rng.normal(size=n), truth


def error_of(model, rows, truth):
    return float(np.sqrt(np.mean((model.predict(rows) - truth) ** 2)))


@pytest.mark.parametrize("kernel", [RBF(0.4), MultiscaleRBF((1.0, 0.1)), Cauchy(0.5)], ids=str)
@pytest.mark.parametrize("repeated", [0, 8])
def test_the_gradient_is_that_of_finite_differences(kernel, repeated):
    rows = np.vstack([X, X[:repeated]])
    error = ColumnError.of(rows, np.append(Y, Y[:repeated] + 0.5), np.append(WEIGHTS, WEIGHTS[:repeated]), kernel)
    assert check_grad(lambda p: error(p)[0], lambda p: error(p)[1], LOGS) < 1e-6


@pytest.mark.parametrize("repeated", [0, 8])
def test_of_several_targets_a_row_squares_are_added_up(repeated):
    """The objective is a logarithm: exp of twice it, without the prior, is the mean square of each target alone."""
    rows, u = np.vstack([X, X[:repeated]]), np.append(WEIGHTS, WEIGHTS[:repeated])
    several = np.stack([np.append(Y, Y[:repeated] + 0.5), np.cos(rows[:, 1]), rows[:, 2] ** 3], axis=1)
    prior = LOGS[:3] @ LOGS[:3] / (2 * u.sum() * COLUMNS.spread**2)
    error = ColumnError.of(rows, several, u, RBF(0.4))
    each = [np.exp(2 * (ColumnError.of(rows, y, u, RBF(0.4))(LOGS)[0] - prior)) for y in several.T]
    assert error(LOGS)[0] - prior == pytest.approx(np.log(sum(each)) / 2, rel=1e-10)
    assert check_grad(lambda p: error(p)[0], lambda p: error(p)[1], LOGS) < 1e-6


@pytest.mark.parametrize("repeated", [0, 8])
def test_the_error_is_that_of_refits_without_each_row_and_its_copies(repeated):
    rows, y, u = np.vstack([X, X[:repeated]]), np.append(Y, -Y[:repeated]), np.append(WEIGHTS, WEIGHTS[:repeated] / 2)
    w, (b, alpha) = np.exp(LOGS[:3]), np.exp(LOGS[3:])
    K = np.exp(-0.4 * ((rows[:, None] - rows) ** 2 @ w)) + b * rows @ rows.T + 1
    squares = 0.0
    for i in range(len(rows)):
        left = np.flatnonzero((rows != rows[i]).any(axis=1))
        refit = KernelRidge(alpha=alpha, kernel="precomputed").fit(K[np.ix_(left, left)], y[left], u[left])
        squares += u[i] * (y[i] - refit.predict(K[[i]][:, left])[0]) ** 2
    prior = LOGS[:3] @ LOGS[:3] / (2 * u.sum() * COLUMNS.spread**2)
    found = ColumnError.of(rows, y, u, RBF(0.4))(LOGS)[0]
    assert found == pytest.approx(np.log(squares / u.sum()) / 2 + prior, rel=1e-9)


def test_permuted_columns_permute_weights_and_a_row_twice_is_a_row_of_twice_the_weight():
    rows, y, _ = of_two(60, 4, 0)
    options = {"linear": 0.1, "alpha": 0.1, "alphas": (0.01, 100.0)}
    w, _ = learned_columns(rows, y, np.ones(60), RBF(0.3), **options)
    order = np.array([2, 0, 3, 1])
    permuted, _ = learned_columns(rows[:, order], y, np.ones(60), RBF(0.3), **options)
    np.testing.assert_allclose(permuted, w[order], rtol=1e-3)
    counts = np.where(np.arange(60) < 20, 2, 1)
    twice = learned_columns(rows.repeat(counts, axis=0), y.repeat(counts), np.ones(80), RBF(0.3), **options)
    weighted = learned_columns(rows, y, counts.astype(float), RBF(0.3), **options)
    np.testing.assert_allclose(twice[0], weighted[0], rtol=1e-3)
    assert twice[1] == pytest.approx(weighted[1], rel=1e-3)
    assert not np.allclose(weighted[0], w, rtol=1e-2)


def test_a_given_ridge_stays_and_equal_targets_say_nothing():
    rows, y, _ = of_two(60, 4, 0)
    kept = {"linear": 0.1, "alpha": 0.1}
    fixed, _ = learned_columns(rows, y, np.ones(60), RBF(0.3), alphas=(0.1, 0.1), **kept)
    free, _ = learned_columns(rows, y, np.ones(60), RBF(0.3), alphas=(0.01, 100.0), **kept)
    assert not np.allclose(fixed, free, rtol=1e-2)
    w, b = learned_columns(rows, np.ones(60), np.ones(60), RBF(0.3), alphas=(0.01, 100.0), **kept)
    assert (w == 1).all()
    assert b == 0.1


@FAR
def test_columns_that_say_nothing_lose_weight_and_the_error_falls():
    """Ten of twelve columns are noise, and a fifth of the targets are wrong."""
    rows, y, _ = of_two(240, 12, 1)
    wrong = np.arange(240) % 5 == 0
    y[wrong] += np.random.default_rng(0).choice([-3, 3], wrong.sum())
    fresh, _, truth = of_two(400, 12, 2)
    plain = RobustKernelRegressor(kernel="rbf", random_state=0).fit(rows, y)
    model = RobustKernelRegressor(kernel="columns", random_state=0).fit(rows, y)
    assert model.column_weights_[:2].min() > 1.5 * model.column_weights_[2:].max()
    assert error_of(model, fresh, truth) < 0.8 * error_of(plain, fresh, truth)
    assert plain.column_weights_ is None


@pytest.mark.filterwarnings("ignore:.*rows contradict the others")
def test_a_column_that_only_bad_rows_use_costs_no_more_than_with_equal_weights():
    """A quarter of the rows carry a number there, and targets of another function of it; the others carry 0."""
    rows, y, _ = of_two(200, 4, 3)
    wrong = np.arange(200) % 4 == 0
    bait = np.where(wrong, np.random.default_rng(1).normal(size=200), 0.0)
    y[wrong] = 4 + 2 * bait[wrong]
    fresh, _, truth = of_two(400, 4, 4)
    errors = [error_of(RobustKernelRegressor(kernel=kernel, random_state=0).fit(np.column_stack([rows, bait]), y),
                       np.column_stack([fresh, np.zeros(400)]), truth) for kernel in ("rbf", "columns")]
    assert errors[1] < 1.1 * errors[0]


def test_few_rows_of_many_columns_are_not_overfitted():
    """60 rows of 40 columns, of which all matter alike: the mean error is not 5% above that of equal weights."""
    ratios = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows, fresh, slope = rng.normal(size=(60, 40)), rng.normal(size=(300, 40)), rng.normal(size=40) / 6
        y = np.tanh(rows @ slope) + 0.1 * rng.normal(size=60)
        errors = [error_of(RobustKernelRegressor(kernel=kernel, random_state=0).fit(rows, y), fresh,
                           np.tanh(fresh @ slope)) for kernel in ("rbf", "columns")]
        ratios.append(errors[1] / errors[0])
    assert np.exp(np.mean(np.log(ratios))) < 1.05


def test_the_model_is_of_the_seed_and_is_saved_with_its_kernel(tmp_path):
    rows, y, _ = of_two(120, 3, 5)
    model, again = (RobustKernelRegressor(kernel="columns", random_state=0).fit(rows, y) for _ in range(2))
    np.testing.assert_array_equal(model.column_weights_, again.column_weights_)
    np.testing.assert_array_equal(model.predict(rows), again.predict(rows))
    stretched, line = model.expansion_.kernel.kernels
    assert isinstance(stretched, Stretched)
    assert isinstance(line, Linear)
    np.testing.assert_allclose(np.square(stretched.scales), model.column_weights_)
    f = model.expansion_
    by_hand = f.kernel(rows, f.centers) @ f.coef[:, 0] + f.intercept + model.intercept_
    np.testing.assert_allclose(model.predict(rows), by_hand)
    path = tmp_path / "model"
    save(model, path)
    loaded = load(path)
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(loaded.column_weights_, model.column_weights_)


def test_many_rows_learn_on_landmarks_and_repeated_rows_as_weights():
    rows, y, _ = of_two(200, 6, 6)
    fresh, _, truth = of_two(300, 6, 7)
    errors = [error_of(RobustKernelRegressor(kernel=kernel, n_landmarks=60, random_state=0).fit(rows, y), fresh, truth)
              for kernel in ("rbf", "columns")]
    assert errors[1] < 0.9 * errors[0]
    twice = np.where(np.arange(200) < 50, 2, 1)
    model = RobustKernelRegressor(kernel="columns", random_state=0)
    weighted = deepcopy(model).fit(rows, y, sample_weight=twice)
    repeated = model.fit(rows.repeat(twice, axis=0), y.repeat(twice))
    np.testing.assert_allclose(weighted.column_weights_, repeated.column_weights_)


@FAR
def test_a_fit_cut_short_by_time_has_equal_weights_and_one_interrupted_keeps_the_first_fit(monkeypatch):
    rows, y, _ = of_two(100, 4, 8)
    plain = RobustKernelRegressor(kernel="rbf", random_state=0).fit(rows, y)
    monkeypatch.setattr("buttress.robust.kernel_regressor.column_kernel", interrupt)
    with pytest.warns(UserWarning, match="equal weights of columns"):
        model = RobustKernelRegressor(kernel="columns", random_state=0).fit(rows, y)
    assert (model.column_weights_ == 1).all()
    np.testing.assert_allclose(model.predict(rows), plain.predict(rows))
    with pytest.warns(UserWarning, match="max_time"):
        model = RobustKernelRegressor(kernel="columns", max_time=1e-9, random_state=0).fit(rows, y)
    assert (model.column_weights_ == 1).all()


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("make", "message"), [
    (lambda: RobustKernelRegressor(kernel="columns").fit(csr_matrix(X), Y), "dense X"),
    (lambda: RobustKernelClassifier(kernel="columns").fit(X, Y > 0), "it is of RobustKernelRegressor"),
    (lambda: RobustKernelRegressor(kernel="columns", gamma=-1.0).fit(X, Y), "gamma"),
])
def test_what_has_no_columns_to_learn_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_auto_learns_columns_of_dense_rows_unless_gamma_is_chosen():
    rows, y, _ = of_two(60, 3, 9)
    auto = RobustKernelRegressor(random_state=0).fit(rows, y)
    columns = RobustKernelRegressor(kernel="columns", random_state=0).fit(rows, y)
    np.testing.assert_array_equal(auto.predict(rows), columns.predict(rows))
    np.testing.assert_array_equal(auto.column_weights_, columns.column_weights_)
    for given, X in (({}, csr_matrix(rows)), ({"gamma": 0.3}, rows), ({"gamma": 0.3}, csr_matrix(rows))):
        auto, rbf = (RobustKernelRegressor(kernel=kernel, random_state=0, **given).fit(X, y)
                     for kernel in ("auto", "rbf"))
        np.testing.assert_array_equal(auto.predict(X), rbf.predict(X))
        assert auto.column_weights_ is None


# --- kernel="columns" of the exact machines


def told(y):
    return y > np.median(y)


@pytest.mark.parametrize(("model", "target"), [
    (SVC(), told), (SVC(multi_class="ovr"), lambda y: np.digitize(y, [0, 1])), (NuSVC(), told),
    (SVR(C=10.0), lambda y: y), (NuSVR(C=10.0), lambda y: y)], ids=["SVC", "one a class", "NuSVC", "SVR", "NuSVR"])
def test_an_exact_machine_has_the_columns_of_kernel_ridge_on_its_targets(model, target):
    rows, y, _ = of_two(120, 8, 3)
    given = target(y)
    found = clone(model).set_params(kernel="columns").fit(rows, given)
    stretched, linear = found.expansion_.kernel.kernels
    w, b = np.square(stretched.scales), found.expansion_.kernel.weights[1]
    assert isinstance(linear, Linear)
    assert w[:2].min() > 1.5 * w[2:].max()
    numbers = given if given.dtype == float else np.eye(len(np.unique(given)))[given.astype(int)]
    error = ColumnError.of(rows, numbers - numbers.mean(axis=0), np.ones(120), stretched.kernel)
    ridges = np.log(COLUMNS.ridge) + np.linspace(-6, 6, 121)

    def least(weights, part):
        return min(error(np.concatenate([np.log(weights), [np.log(part), ridge]]))[0] for ridge in ridges)

    assert least(w, b) < least(np.ones(8), b) - 0.05
    given_kernel = clone(model).set_params(kernel=found.expansion_.kernel).fit(rows, given)
    np.testing.assert_allclose(found.decision_function(rows) if hasattr(found, "classes_") else found.predict(rows),
                               given_kernel.decision_function(rows) if hasattr(found, "classes_")
                               else given_kernel.predict(rows), rtol=1e-9, atol=1e-9)


def test_columns_that_say_nothing_cost_an_svc_and_an_svr_less():
    rows, y, _ = of_two(240, 12, 1)
    fresh, value, _ = of_two(1000, 12, 2)
    for model, target in ((SVC(C="loo"), told), (SVR(C=10.0), lambda y: y)):
        plain, learned = (clone(model).set_params(kernel=kernel).fit(rows, target(y)) for kernel in ("rbf", "columns"))
        assert 1 - learned.score(fresh, target(value)) < 0.8 * (1 - plain.score(fresh, target(value)))


def test_columns_are_learned_from_the_rows_that_count_and_a_weight_of_two_is_a_row_twice():
    rows, y, _ = of_two(90, 4, 4)
    counts = np.repeat([1.0, 2.0], [60, 30])
    options = {"kernel": "columns", "gamma": 0.3}
    twice = SVC(**options).fit(np.vstack([rows, rows[60:]]), told(np.append(y, y[60:])))
    weighted = SVC(**options).fit(rows, told(np.append(y, y[60:]))[:90], sample_weight=counts)
    scales = [model.expansion_.kernel.kernels[0].scales for model in (twice, weighted)]
    np.testing.assert_allclose(*scales, rtol=1e-4)
    extra = np.vstack([rows, rows[:20] + 5])
    ignored = SVC(**options).fit(extra, told(np.append(y, y[:20])), sample_weight=np.append(np.ones(90), np.zeros(20)))
    alone = SVC(**options).fit(rows, told(np.append(y, y[:20]))[:90])
    np.testing.assert_allclose(ignored.decision_function(rows), alone.decision_function(rows), rtol=1e-9)


@pytest.mark.parametrize("model", [machine(kernel="columns") for machine in (OneClassSVM, SVC, SVR)], ids=str)
def test_a_machine_without_targets_or_dense_columns_is_refused(model):
    rows, y, _ = of_two(30, 3, 5)
    with pytest.raises(ValueError, match="learns a weight for each column of a dense X"):
        model.fit(csr_matrix(rows), told(y))
    with pytest.raises(ValueError, match="gamma"):
        SVC(kernel="columns", gamma=-1.0).fit(rows, told(y))


@pytest.mark.parametrize("kernel", ["auto", "columns"])
def test_columns_so_far_from_0_that_a_linear_part_is_lost_to_rounding_have_equal_weights(kernel):
    rows, y, _ = of_two(40, 3, 0)
    model = RobustKernelRegressor(kernel=kernel, random_state=0).fit(rows + 1e8, y)
    assert (model.column_weights_ == 1).all()
    np.testing.assert_allclose(model.predict(rows + 1e8), RobustKernelRegressor(kernel="rbf", random_state=0).fit(
        rows, y).predict(rows), atol=0.2)


@pytest.mark.parametrize("model", [SVC(kernel="columns"), SVR(kernel="columns")], ids=str)
def test_an_exact_machine_refuses_columns_so_far_from_0_and_names_what_helps(model):
    rows, y, _ = of_two(40, 3, 0)
    with pytest.raises(ValueError, match=r"too far from 0 for kernel='columns'.*Scale them.*kernel='rbf'"):
        model.fit(rows + 1e8, told(y))
    for alike in (np.full((40, 3), 3.0), 5 + 2.6e-9 * (y[:, None] > 0)):  # too few different rows to see rounding in
        with pytest.raises(ValueError, match=r"too far from 0 for kernel='columns'.*Scale them.*kernel='rbf'"):
            model.fit(alike, told(y))
    assert np.unique(model.fit(np.zeros((40, 3)), told(y)).predict(rows * 0)).size == 1
