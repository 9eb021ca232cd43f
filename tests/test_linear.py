"""The linear machine in the primal against other libraries, KKT conditions, plain loops, and the lecture's formulas."""


import numpy as np
import pytest
import sklearn.svm
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_classification

from buttress import LinearSVC, StochasticLinearSVC, linear
from buttress._checks import NotConvergedWarning
from buttress.solvers.linear import newton
from buttress.solvers.linear.primal import LinearProblem, Rate, best_rate
from buttress.solvers.linear.stochastic import SuffixMean, Walk, draws, merged, stochastic_descent

from linear_problems import LOSSES, gradient_descent, objective, problem_of, signs, slacks
from problems import breast_cancer, noisy, points

# --- the exact solver ---

MACHINES = [LinearSVC(solver="newton"), LinearSVC(solver="dual"), StochasticLinearSVC(random_state=0)]


@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_newton_is_libsvms_linear_machine(C):
    X, y = breast_cancer()
    ours = LinearSVC(C=C, tol=1e-9).fit(X, y)
    theirs = sklearn.svm.SVC(C=C, kernel="linear", tol=1e-7).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-4 * np.abs(theirs.coef_).max())
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
    best = 0.5 * (theirs.coef_**2).sum() + C * np.maximum(0, 1 - signs(y) * theirs.decision_function(X)).sum()
    assert ours.dual_objective_ <= best * (1 + 1e-12)
    assert ours.primal_objective_ <= best * (1 + 1e-9)
    assert 0 <= ours.primal_objective_ / objective(ours, X, y, C) - 1 + 1e-13 <= 1e-10
    assert ours.dual_gap_ <= 1e-9 * ours.primal_objective_
    a = ours.dual_coef_[0] * signs(y)
    assert (a >= 0).all()
    assert (a <= C * (1 + 1e-12)).all()
    assert ours.dual_coef_.sum() == pytest.approx(0, abs=1e-9 * a.sum())
    assert ours.dual_objective_ == pytest.approx(a.sum() - 0.5 * ((ours.dual_coef_[0] @ X) ** 2).sum(), rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_newton_without_an_intercept_is_liblinear(loss):
    X, y = noisy()
    ours = LinearSVC(loss=loss, fit_intercept=False, tol=1e-10).fit(X, y)
    theirs = sklearn.svm.LinearSVC(loss=loss, fit_intercept=False, tol=1e-10, max_iter=10**6, dual=True).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    assert ours.intercept_ == 0


def test_newton_meets_the_conditions_of_the_squared_hinge():
    X, y = noisy()
    model = LinearSVC(loss="squared_hinge", C=0.3, tol=1e-12).fit(X, y)
    pull = 0.6 * np.maximum(0, slacks(model, X, y)) * signs(y)
    np.testing.assert_allclose(model.coef_[0], pull @ X, atol=1e-9)
    assert pull.sum() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("C", [1.0, 100.0, 1000.0])
def test_columns_of_very_different_sizes_are_solved_to_the_tolerance(C):
    X, y = load_breast_cancer(return_X_y=True)  # unscaled: entries from 1e-3 to 4e3
    model = LinearSVC(C=C, tol=1e-5).fit(X, y)
    assert model.converged_
    assert model.primal_objective_ == pytest.approx(objective(model, X, y, C), rel=1e-9)
    assert 0 <= model.dual_gap_ <= 1e-5 * model.primal_objective_


@pytest.mark.parametrize("loss", LOSSES)
def test_more_columns_than_rows_and_conjugate_gradients_solve_the_same_system(loss, monkeypatch):
    X, y = make_classification(60, 150, n_informative=20, random_state=0)
    usual = LinearSVC(loss=loss, C=0.1, tol=1e-9).fit(X, y)
    theirs = sklearn.svm.SVC(C=0.1, kernel="linear", tol=1e-9).fit(X, y)
    if loss == "hinge":
        np.testing.assert_allclose(usual.coef_, theirs.coef_, atol=1e-5)
    monkeypatch.setattr(newton, "DIRECT", 5)
    iterative = LinearSVC(loss=loss, C=0.1, tol=1e-8).fit(csr_matrix(X), y)
    np.testing.assert_allclose(iterative.coef_, usual.coef_, atol=1e-5)


@pytest.mark.parametrize("kind", [csr_matrix, csr_array])
@pytest.mark.parametrize("model", MACHINES, ids=str)
def test_sparse_rows_give_the_answers_of_dense_ones(kind, model):
    X, y = noisy()
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    model = clone(model).set_params(C=0.01, tol=1e-2, max_iter=10000)
    dense = model.fit(X, y).decision_function(X)
    sparse = model.fit(kind(X), y).decision_function(kind(X))
    np.testing.assert_allclose(sparse, dense, atol=1e-3 if model.get_params().get("solver") == "newton" else 1e-9)


# --- one multiplier at a time ---


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", [csr_matrix, csr_array, np.asarray])
def test_coordinates_of_the_dual_reach_newtons_optimum(loss, intercept, kind):
    X, y = noisy()
    X = np.where(np.abs(X) < 0.7, 0.0, X)
    X[[4, 9]] = 0.0
    settings = {"loss": loss, "C": 0.3, "fit_intercept": intercept, "max_iter": 20000}
    weight = np.arange(len(y)) % 4
    best = LinearSVC(solver="newton", tol=1e-9, **settings).fit(X, y, weight)
    model = LinearSVC(solver="dual", tol=1e-6, **settings).fit(kind(X), y, weight)
    assert model.converged_
    assert model.dual_objective_ <= best.primal_objective_
    assert best.dual_objective_ <= model.primal_objective_ <= best.primal_objective_ * (1 + 1e-6)
    np.testing.assert_allclose(model.coef_, best.coef_, atol=5e-3)
    a = model.dual_coef_[0] * signs(y)
    assert (a >= 0).all()
    assert loss == "squared_hinge" or (a <= 0.3 * weight * (1 + 1e-12)).all()
    cost = (a[weight > 0] ** 2 / (1.2 * weight[weight > 0])).sum() if loss == "squared_hinge" else 0.0
    dual = a.sum() - 0.5 * ((model.dual_coef_[0] @ X) ** 2).sum() - cost
    assert dual == pytest.approx(model.dual_objective_, rel=1e-9)
    assert not intercept or model.dual_coef_.sum() == pytest.approx(0, abs=1e-9)


@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")
@pytest.mark.parametrize("seed", [91, 229, 233, 261, 266])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("convert", [np.asarray, csr_matrix])
def test_a_large_C_leaves_a_model_with_probabilities(seed, loss, convert):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([4, 5, 8, 20]))
    X, y = rng.normal(size=(n, 2)), np.arange(n) % 2
    X[:, rng.integers(2)] = rng.choice([0, 1, 5])
    model = LinearSVC(C=10.0 ** rng.uniform(0, 25), max_iter=50, loss=loss).fit(convert(X), y)
    p = model.predict_proba(X)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))


@pytest.mark.parametrize("loss", LOSSES)
def test_sparse_rows_of_many_columns_take_the_dual_by_themselves(loss, monkeypatch):
    monkeypatch.setattr(linear, "MANY", 100)
    rng = np.random.default_rng(0)
    X = csr_matrix(rng.normal(size=(150, 1500)) * (rng.random((150, 1500)) < 0.01))
    y = np.asarray(X[:, :40].sum(axis=1)).ravel() + 0.3 * rng.normal(size=150) > 0
    model = LinearSVC(loss=loss, tol=1e-8, max_iter=20000).fit(X, y)
    theirs = LinearSVC(loss=loss, solver="newton", tol=1e-8).fit(X, y)
    assert model.primal_objective_ == pytest.approx(theirs.primal_objective_, rel=1e-7)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_array_equal(model.coef_, LinearSVC(loss=loss, solver="dual", tol=1e-8, max_iter=20000)
                                  .fit(X, y).coef_)
    assert (np.linalg.norm(model.coef_ - theirs.coef_)) > 0    # two ways, one optimum


def test_the_dual_takes_read_only_rows_and_as_many_passes_as_wanted():
    X, y = noisy()
    rows = csr_matrix(X)
    for part in (rows.data, rows.indices, rows.indptr):
        part.flags.writeable = False
    model = LinearSVC(solver="dual", max_iter=2, tol=1e-12)
    with pytest.warns(NotConvergedWarning, match="after 2 iterations"):
        model.fit(rows, y)
    assert model.n_iter_ == 2


# --- gradient descent ---


@pytest.mark.parametrize("eta", [0.05, 0.2, 2 / 5.5, 0.39])
def test_gradient_descent_contracts_by_the_larger_end_of_the_spectrum(eta):
    mu, L = 0.5, 5.0
    H = np.diag([mu, 1.7, L])

    factor = max(abs(1 - eta * mu), abs(1 - eta * L))
    states = [z for _, z in zip(range(40), gradient_descent(H.dot, points(1)[0], Rate(eta)))]
    lengths = np.linalg.norm(states, axis=1)
    assert (lengths[1:] <= factor * lengths[:-1] * (1 + 1e-12)).all()
    slow = np.eye(3)[0 if abs(1 - eta * mu) == factor else 2]
    _, second = (z for _, z in zip(range(2), gradient_descent(H.dot, slow, Rate(eta))))
    assert np.linalg.norm(second) == pytest.approx(factor, rel=1e-12)  # attained


def test_gradient_descent_on_the_squared_hinge_contracts_towards_newtons_solution():
    X, y = noisy()
    problem = problem_of(X, y, 0.1, squared=True, intercept=False)
    largest = problem.lam + 2 * np.linalg.eigvalsh(X.T @ X)[-1] / len(y)
    goal = LinearSVC(loss="squared_hinge", C=0.1, fit_intercept=False, tol=1e-13).fit(X, y).coef_[0]

    def gradient(w):
        pull = 2 * np.maximum(0, problem.slack(w, 0.0)) * problem.y / len(y)
        return problem.lam * w - X.T @ pull

    distances = [np.linalg.norm(w - goal) for _, w in zip(range(60), gradient_descent(gradient, np.zeros(8),
                                                                                      Rate(1 / largest)))]
    ratios = np.divide(distances[1:], distances[:-1])
    assert (ratios <= 1 - problem.lam / largest + 1e-9).all()


# --- the noise ball: chains of z <- z - eta (mu z + noise), all at once, against the lecture's formulas ---


def chains(rate, *, mu, noise, start, count, steps, seed=0):
    """Return the mean of z_t^2 over ``count`` chains, shape (steps + 1,)."""
    rng = np.random.default_rng(seed)

    states = gradient_descent(lambda z: mu * z + np.sqrt(noise) * rng.normal(size=count), np.full(count, start), rate)
    return np.array([np.mean(z**2) for _, z in zip(range(steps + 1), states)])


def test_a_constant_step_ends_in_the_noise_ball():
    mu, noise, eta, start, count = 0.5, 2.0, 0.2, 3.0, 20000
    p = chains(Rate(eta), mu=mu, noise=noise, start=start, count=count, steps=100)
    floor = eta * noise / (2 * mu - eta * mu**2)
    shrink = (1 - eta * mu) ** (2 * np.arange(101))
    expected = shrink * start**2 + (1 - shrink) * floor  # the recursion of the lecture, which is an equality here
    np.testing.assert_allclose(p, expected, rtol=6 * np.sqrt(2 / count))
    assert p[-1] == pytest.approx(floor, rel=6 * np.sqrt(2 / count))


def test_half_the_step_is_half_the_floor():
    floors = [chains(Rate(eta), mu=1.0, noise=1.0, start=0.0, count=20000, steps=300)[-1] for eta in (0.1, 0.05)]
    exact = (0.1 / (2 - 0.1)) / (0.05 / (2 - 0.05))
    assert floors[0] / floors[1] == pytest.approx(exact, rel=0.06)
    assert exact == pytest.approx(2, rel=0.03)


def test_the_compiled_steps_end_in_the_same_noise_ball():
    # Rows so short that every margin stays below 1: the mean hinge is then linear and the objective a quadratic.
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(1000, 1))
    problem = LinearProblem(X, np.ones(1000), np.full(1000, 1e-3), intercept=False)
    eta, noise = 0.1, X.var()
    walk, seen = Walk.start(np.zeros(1)), []
    for _ in range(10000):  # 60 steps forget (1 - eta)^120 of where they started
        walk.steps(problem, Rate(eta), rng.integers(1000, size=60))
        seen.append(walk.iterate[0])
    assert problem.lam == pytest.approx(1)
    assert np.abs(seen).max() * 0.5 < 1
    assert np.mean(seen) == pytest.approx(X.mean(), abs=6 * np.std(seen) / 100)
    assert np.var(seen) == pytest.approx(eta * noise / (2 - eta), rel=0.06)


def test_the_best_rate_minimises_the_bound_and_keeps_it():
    mu, noise, p0 = 0.7, 3.0, 4.0
    rate, p = best_rate(mu, noise, p0), p0
    for t in range(50):
        bound = 4 * noise * p0 / (4 * noise + mu**2 * p0 * t)
        assert rate(t) == pytest.approx(mu * bound / (2 * noise), rel=1e-12)
        best = minimize_scalar(lambda eta, p=p: (1 - eta * mu) * p + eta**2 * noise, bounds=(0, 1), method="bounded")
        assert best.x == pytest.approx(mu * p / (2 * noise), rel=1e-3)
        p = (1 - rate(t) * mu) * p + rate(t) ** 2 * noise
        assert rate(t) * mu <= 1
        assert p <= 4 * noise * p0 / (4 * noise + mu**2 * p0 * (t + 1)) * (1 + 1e-12)


def test_the_best_rate_never_starts_longer_than_one_over_mu():
    mu, noise = 0.5, 2.0
    rate = best_rate(mu, noise, 1e6)
    assert rate.first == pytest.approx(1 / mu)
    p = chains(rate, mu=mu, noise=noise, start=1e3, count=20000, steps=20)
    edge = 2 * noise / mu**2
    bound = 4 * noise * edge / (4 * noise + mu**2 * edge * np.arange(21))
    assert (p[1:] <= bound[1:] * (1 + 6 * np.sqrt(2 / 20000))).all()


def test_the_diminishing_step_has_no_floor():
    mu, noise, start, steps = 1.0, 4.0, 2.0, 5000
    p = chains(best_rate(mu, noise, start**2), mu=mu, noise=noise, start=start, count=1000, steps=steps)
    t = np.arange(steps + 1)
    bound = 4 * noise * start**2 / (4 * noise + mu**2 * start**2 * t)
    assert (p <= bound * (1 + 6 * np.sqrt(2 / 1000))).all()
    late = t >= 500
    slope = np.polyfit(np.log(t[late]), np.log(p[late]), 1)[0]
    assert slope == pytest.approx(-1, abs=0.1)
    assert p[-1] < 0.1 * (0.1 * noise / (2 - 0.1))  # a tenth of the ball of a constant step of 0.1


# --- stochastic descent ---


def plain_steps(problem, rate, rows):
    """The compiled steps as the lecture writes them; returns the iterates."""
    w, b, path = np.zeros(problem.X.shape[1]), 0.0, []
    for t, i in enumerate(rows):
        x, y, eta = problem.X[i], problem.y[i], rate(t)
        slack = 1 - y * (w @ x + b)
        slope = (2 * slack if problem.squared else 1.0) if slack > 0 else 0.0
        w = (1 - eta * problem.lam) * w + eta * slope * y * x
        b += eta * rate.intercept * slope * y * problem.intercept
        path.append(np.append(w, b))
    return np.array(path)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("lam", [0.01, 9.0])  # with 9 the scale of w falls below its least value every few steps
def test_compiled_steps_are_the_plain_ones(squared, intercept, lam):
    X, y = noisy(40)
    problem = problem_of(X, y, 1 / (40 * lam), squared=squared, intercept=intercept)
    rate, rows = Rate(0.1, 0.02, 0.7), np.random.default_rng(0).integers(40, size=100)
    path = plain_steps(problem, rate, rows)
    for X_kind in (X, csr_matrix(X)):
        problem.X, walk = X_kind, Walk.start(np.zeros(8))
        total = walk.steps(problem, rate, rows[:60]) + walk.steps(problem, rate, rows[60:])
        problem.X = X
        np.testing.assert_allclose(walk.iterate, path[-1], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(total, path.sum(axis=0), rtol=1e-9, atol=1e-9)


def test_the_suffix_is_between_a_third_and_two_thirds():
    mean = SuffixMean(1)
    for k in range(1, 200):
        mean.add(np.array([float(k)]), 1)
        first = k - mean.size + 1
        assert mean.value[0] == pytest.approx((first + k) / 2)  # exactly the last ``size`` ones
        assert k < 4 or k / 3 <= mean.size <= 2 * k / 3 + 1


def test_rows_are_drawn_in_proportion_to_their_weight():
    rng = np.random.RandomState(0)
    assert sorted(next(draws(np.full(50, 0.02), rng, whole=True))) == list(range(50))
    share = np.random.default_rng(0).dirichlet(np.ones(30))
    passes = draws(share, rng, whole=True)
    counts = np.array([np.bincount(next(passes), minlength=30) for _ in range(3000)])
    assert (np.abs(counts - 30 * share) < 1).all()
    np.testing.assert_allclose(counts.mean(axis=0), 30 * share, atol=6 * 0.5 / np.sqrt(3000))
    blocks = draws(np.full(1600, 1 / 1600), rng)
    assert sorted(np.concatenate([next(blocks) for _ in range(16)])) == list(range(1600))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("schedule", ["inverse", "pegasos", "constant"])
def test_stochastic_descent_comes_near_the_optimum(loss, schedule):
    X, y = noisy(2000)
    settings = {"eta0": 0.003} if schedule == "constant" else {}
    model = StochasticLinearSVC(C=0.01, loss=loss, schedule=schedule, tol=1e-5, random_state=0, **settings)
    model.fit(X, y)
    best = LinearSVC(C=0.01, loss=loss, tol=1e-9).fit(X, y).primal_objective_
    assert best <= model.primal_objective_ <= 1.005 * best
    assert not hasattr(model, "dual_gap_")


def test_a_constant_step_has_a_floor_that_halves_with_it_and_averaging_goes_below():
    X, y = noisy(1000)
    problem = problem_of(X, y, 0.01)
    best = LinearSVC(C=0.01, tol=1e-10).fit(X, y).primal_objective_

    def excess(eta, average):
        steps = stochastic_descent(problem, Rate(eta), average=average, rng=np.random.RandomState(0))
        return np.mean([step.objective - best for k, step in zip(range(1600), steps) if k > 400])

    coarse, fine = excess(0.04, False), excess(0.02, False)
    assert 1.5 < coarse / fine < 3
    assert excess(0.02, True) < 0.3 * fine


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_doubled_weights_are_a_doubled_C_and_no_weight_is_no_row(machine):
    X, y = noisy()

    def fitted(C, *data):
        return clone(machine).set_params(C=C, tol=0.05).fit(*data)

    doubled = fitted(0.02, X, y)
    weighted = fitted(0.01, X, y, np.full(len(y), 2.0))
    np.testing.assert_allclose(weighted.coef_, doubled.coef_, rtol=1e-12)
    keep = np.arange(len(y)) % 3 > 0
    some = fitted(0.01, X, y, keep.astype(float))
    np.testing.assert_allclose(some.coef_, fitted(0.01, X[keep], y[keep]).coef_, rtol=1e-9)


@pytest.mark.parametrize("model", [machine for machine in MACHINES if machine.get_params().get("solver") != "dual"],
                         ids=str)
@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
def test_weights_are_repeated_rows_in_any_order(model, kind):
    X, y = noisy(120)
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, len(y))
    rows = rng.permutation(np.arange(len(y)).repeat(counts))
    model = clone(model).set_params(C=0.1, tol=0.02, max_iter=10000, class_weight="balanced")
    weighted = model.fit(kind(X), y, counts).decision_function(X)
    repeated = model.fit(kind(X[rows]), y[rows]).decision_function(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-8)


def test_rows_are_merged_only_where_they_are_equal_to_the_last_bit():
    X = np.array([[1e20, 1.0], [1e20, 2.0], [0.5, 0.0], [1e20, 1.0], [0.5, 0.0], [0.5, 0.0], [0.5, -0.0]])
    y = np.array([1, 1, 1, 1, 1, 0, 1])  # the products of the first two with any vector are equal in float64
    for rows in (X, csr_matrix(X)):
        problem, kept = merged(LinearProblem(rows, signs(y), np.arange(1.0, 8.0)))
        where = {(*X[i], y[i]): problem.bound[i] for i in kept}
        assert where.pop((0.5, 0.0, 1)) == 3 + 5 + 7
        assert where.pop((0.5, 0.0, 0)) == 6
        assert sum(problem.bound[i] for i in kept if X[i, 1] == 1) == 1 + 4
        assert problem.bound.sum() == 28


def test_sgd_weights_solve_the_weighted_problem():
    X, y = noisy(1000)
    weight = np.random.default_rng(0).exponential(size=len(y))
    exact = LinearSVC(C=0.01, tol=1e-9).fit(X, y, weight)
    model = StochasticLinearSVC(C=0.01, tol=1e-5, random_state=0).fit(X, y, weight)
    assert exact.primal_objective_ <= model.primal_objective_ <= 1.005 * exact.primal_objective_
