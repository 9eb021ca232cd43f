"""Doubly stochastic gradients: against the algorithm written out, the exact kernel, differences and their theorems."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

from buttress import AdvSVM, FeatureNoiseWarning, StochasticAdvSVM, attacks
from buttress.features import RandomExpansion, RandomFeatures, landmarks, nystroem, random_features
from buttress.gram.rows import KernelRows
from buttress.kernels import RBF, Linear
from buttress.solvers.gradient.doubly_stochastic import KernelBasis, RandomBasis, doubly_stochastic, step_sizes
from buttress.solvers.qp.rkhs_path import first_point, natural_path, path_search
from buttress.solvers.qp.solve import solve_svm
from buttress.solvers.run import run

from problems import breast_cancer, moons, points
from rkhs_problems import QUIET, signed, value


def plain_natural_dsg(features, X, y, C, batch, rng):
    """Dai et al.'s algorithm 1 written out: no norm, no radius, one step of 1/t a batch."""
    order = rng.permutation(len(y))
    X, y = X[order].astype(np.float32), y[order]
    alphas, f = [], np.zeros((len(y), 1))
    for t, start in enumerate(range(0, len(y), batch)):
        stop = min(start + batch, len(y))
        g = 1.0 / (t + 1)
        active = 1 - y[start:stop] * f[start:stop] > 0
        z = g * C / (stop - start) * np.where(active, y[start:stop], 0.0)
        alphas = [(1 - g) * alpha for alpha in alphas]
        alphas.append(features(X[start:stop], t).astype(np.float64).T @ z)
        f *= 1 - g
        f[stop:] += features(X[stop:], t) @ alphas[-1].astype(np.float32)
    return np.stack(alphas)


def test_eps_zero_is_natural_dsg_bit_for_bit():
    X, y = signed(200)
    features = random_features(RBF(1.0), 2, 32, seed=0)
    basis = RandomBasis(features, X, 10, 1)
    steps = doubly_stochastic(basis, y[:, None], C=2.0, radius=0.0, step=step_sizes("diminishing", 1.0), batch=20,
                              n_passes=1, fit_intercept=False, rng=np.random.RandomState(7))
    coef = run(steps).state[0]
    plain = plain_natural_dsg(features, X, y[:, None], 2.0, 20, np.random.RandomState(7))
    np.testing.assert_array_equal(coef, plain)
    assert np.abs(plain).max() > 0


@pytest.mark.parametrize("radius", [0.0, 0.05])
def test_many_features_follow_the_kernel_iterate_by_iterate(radius):
    X, y = signed(120)
    options = {"C": 2.0, "radius": radius, "step": step_sizes("constant", 0.2), "batch": 20, "n_passes": 1,
               "fit_intercept": True}
    random = RandomBasis(random_features(RBF(1.0), 2, 10_000, seed=0), X, 6, 1)
    exact = KernelBasis(RBF(1.0), X, 1)
    K = RBF(1.0)(X, X)
    pairs = zip(*(doubly_stochastic(basis, y[:, None], rng=np.random.RandomState(1), **options)
                  for basis in (random, exact)), strict=True)
    for ours, theirs in pairs:
        f = sum((random.features(X, t) @ coef for t, coef in enumerate(ours.state[0])), np.zeros((120, 1)))
        np.testing.assert_allclose(f + ours.state[1], K @ theirs.state[0] + theirs.state[1], atol=0.05)
        np.testing.assert_allclose(ours.state[2], theirs.state[2], atol=0.02)


@pytest.mark.parametrize("step", ["constant", "diminishing"])
@pytest.mark.parametrize("passes", [1, 3])
def test_norm_recursion_is_the_norm(step, passes):
    """For the kernel itself the recursion is exact; for random features within 2% of z'K z of the same updates."""
    X, y = breast_cancer()
    y = 2.0 * y[:, None] - 1
    options = {"C": 4.0, "radius": 0.02, "step": step_sizes(step, 0.3 if step == "constant" else 1.0), "batch": 100,
               "n_passes": passes, "fit_intercept": False}
    K = RBF(0.02)(X, X)
    steps = doubly_stochastic(KernelBasis(RBF(0.02), X, 1), y, rng=np.random.RandomState(0), **options)
    coef, _, norm = run(steps).state
    assert norm[0] == pytest.approx(np.sqrt(coef[:, 0] @ K @ coef[:, 0]), rel=1e-9)
    basis = RandomBasis(random_features(RBF(0.02), 30, 1024, seed=0), X, 6 * passes, 1)
    shadow = KernelBasis(RBF(0.02), X, 1)
    add, shrink, reorder = basis.add, basis.shrink, basis.reorder
    basis.add = lambda t, rows, z: (shadow.add(t, rows, z), add(t, rows, z))[1]
    basis.shrink = lambda factor: (shadow.shrink(factor), shrink(factor))[1]
    basis.reorder = lambda order: (shadow.reorder(order), reorder(order))[1]
    norm = run(doubly_stochastic(basis, y, rng=np.random.RandomState(0), **options)).state[2]
    coef = shadow.state()[:, 0]
    assert norm[0] == pytest.approx(np.sqrt(coef @ K @ coef), rel=0.02)


@pytest.mark.parametrize("solver", ["dsg", "sgd"])
def test_update_is_the_functional_gradient(solver):
    """One batch of all rows from f1 to f2: (f1 - f2) / g is the gradient of the objective, by finite differences."""
    X, y = signed(30)
    K, radius, C = RBF(1.0)(X, X), 0.05, 20.0
    size = 1.0 if solver == "sgd" else 0.5
    basis = KernelBasis(RBF(1.0), X, 1) if solver == "sgd" else RandomBasis(
        random_features(RBF(1.0), 2, 100_000, seed=0), X, 2, 1)
    steps = doubly_stochastic(basis, y[:, None], C=C, radius=radius, step=lambda t: size if t == 1 else 1e-3, batch=30,
                              n_passes=2, fit_intercept=False, rng=np.random.RandomState(0))
    states = [step.state[0] for step in steps]
    if solver == "sgd":
        w = [state[:, 0] for state in states]
    else:
        f = [sum(basis.features(X, t) @ coef for t, coef in enumerate(state)) for state in states[1:]]
        w = [None, *(np.linalg.lstsq(K, column[:, 0], rcond=1e-6)[0] for column in f)]
    change = K @ (w[1] - w[2]) / 1e-3
    h = 1e-6

    def risk(v):
        return value(K, y, v, 0.0, C / 30, radius)

    gradient = [(risk(w[1] + h * e) - risk(w[1] - h * e)) / (2 * h) for e in np.eye(30)]
    np.testing.assert_allclose(change, gradient, atol=1e-4 if solver == "sgd" else 0.03)
    assert np.abs(gradient).max() > 2


def squared_error(radius, step, times, trials, C=1.0):
    """Mean over trials of the mean squared distance of f_t to the exact f on the rows, at each of ``times``."""
    X, y = signed(60)
    kernel = RBF(1.0)
    K = kernel(X, X)
    solve = natural_path(kernel, X, y, fit_intercept=False, tol=1e-9)
    first = first_point(kernel, X, y, fit_intercept=False)
    w = run(path_search(solve, first, y, C=C / 60, radius=radius), tol=1e-9, max_iter=100).state[0]
    errors = np.zeros((trials, len(times)))
    passes = -(-times[-1] // 6)
    for trial in range(trials):
        features = random_features(kernel, 2, 8, seed=trial)
        basis = RandomBasis(features, X, 6 * passes, 1)
        basis.state = lambda basis=basis: basis.coef  # no copies: looked at only here
        steps = doubly_stochastic(basis, y[:, None], C=C, radius=radius, step=step, batch=10, n_passes=passes,
                                  fit_intercept=False, rng=np.random.RandomState(trial))
        blocks = np.stack([features(X, t) for t in range(times[-1])])
        for t, state in enumerate(steps):
            if t in times:
                f = np.einsum("tim,tm->i", blocks[:t], state.state[0][:t, :, 0])
                errors[trial, times.index(t)] = np.mean((f - K @ w) ** 2)
            if t >= times[-1]:
                break
    return errors.mean(axis=0)


@pytest.mark.parametrize("radius", [0.0, 0.1], ids=["natural", "attacked"])
def test_diminishing_steps_converge_as_one_over_t(radius):
    """Theorem 3: E |f_t(x) - f*(x)|^2 = O(1/t) under steps theta/t."""
    times = [32, 64, 128, 256, 384]
    errors = squared_error(radius, step_sizes("diminishing", 1.0), times, trials=12)
    slope = np.polyfit(np.log(times), np.log(errors), 1)[0]
    assert -1.2 <= slope <= -0.8


def test_constant_steps_reach_a_floor_that_falls_with_the_step():
    """Theorem 4: near f* up to an error in proportion to the step, where it stays; O(1/t) would fall to a quarter."""
    floors = []
    for size in (0.2, 0.05):
        early, late = squared_error(0.1, step_sizes("constant", size), [round(6 / size), round(24 / size)], trials=8)
        assert 0.6 < late / early < 1.7
        floors.append((early + late) / 2)
    assert 0.15 < floors[1] / floors[0] < 0.4


@QUIET
def test_large_steps_do_not_turn_the_model_around():
    X, y = moons(100)
    model = StochasticAdvSVM(n_features=None, step="constant", step_size=5.0, C=1.0, eps=0.05, norm="l2", gamma=1.0,
                             batch_size=20, n_passes=3, fit_intercept=False, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.7


def written_out(K, y, batches, size, C, radius, *, clip):
    """Equation (10) of the adversarial SVM paper for batches: w of f = sum_i w_i k(x_i, .) and factor of each step.

    ||f|| is that of the kernel. Without ``clip`` the factor by which f shrinks may be negative, as in the paper.
    """
    w, path, factors = np.zeros(len(y)), [], []
    for rows in batches:
        norm = np.sqrt(w @ K @ w)
        active = 1 - y[rows] * (K[rows] @ w) + radius * norm > 0
        factor = 1 - size * (1 + (C * radius * active.mean() / norm if norm > 0 else 0.0))
        w = w * (max(factor, 0.0) if clip else factor)
        w[rows] += size * C / len(rows) * y[rows] * active
        path.append(w)
        factors.append(factor)
    return path, np.array(factors)


@pytest.mark.parametrize("batch", [1, 10])
def test_kernel_update_is_equation_10(batch):
    X, y = signed(60, noise=0.1)
    K, C, radius = RBF(1.0)(X, X), 20.0, 0.02
    batches = np.random.RandomState(3).permutation(60).reshape(-1, batch)
    path, factors = written_out(K, y, batches, 0.2, C, radius, clip=True)
    steps = doubly_stochastic(KernelBasis(RBF(1.0), X, 1), y[:, None], C=C, radius=radius,
                              step=step_sizes("constant", 0.2), batch=batch, n_passes=1, fit_intercept=False,
                              rng=np.random.RandomState(3))
    for ours, theirs in zip((step.state[0][:, 0] for step in steps), [np.zeros(60), *path], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    assert factors.min() < 0.79 < factors.max()  # the radius counts


def test_without_a_limit_on_the_shrinkage_a_long_step_turns_the_model_around():
    """Each step of the update as printed multiplies f by less than -1: scores change their sign from step to step."""
    X, y = signed(100)
    K = RBF(1.0)(X, X)
    batches = np.random.RandomState(0).permutation(100).reshape(-1, 20)
    right = {}
    for clip in (True, False):
        path, factors = written_out(K, y, batches, 5.0, 1.0, 0.05, clip=clip)
        assert (factors < -1).all()
        right[clip] = np.array([(np.sign(K @ w) == y).mean() for w in path])
    assert (right[True] > 0.5).all()
    assert (right[False][::2] > 0.8).all()
    assert (right[False][1::2] < 0.2).all()


@QUIET
def test_features_are_never_stored():
    X, y = points(300, 200), np.arange(300) % 2
    model = StochasticAdvSVM(eps=0, batch_size=50, random_state=0).fit(X, y)
    one_block = 200 * 1024 * 8
    assert len(pickle.dumps(model)) < one_block / 10


def solved(features, signs):
    """The coefficients and the intercept of the plain linear machine on features."""
    solution = solve_svm(KernelRows(Linear(), features), signs, np.ones(len(signs)))
    return features.T @ solution.b, np.array([solution.proof.intercept])


def test_random_features_fall_to_attacks_that_landmarks_withstand():
    """The same kernel, C and rows; both maps classify alike without an attack."""
    X, y = load_digits(return_X_y=True)
    X, y = X[(y == 3) | (y == 8)] / 16, y[(y == 3) | (y == 8)]
    signs = np.where(y == 8, 1.0, -1.0)
    waves = random_features(RBF(0.05), 64, 200, seed=0)
    phi = nystroem(RBF(0.05), landmarks(X, 100, rng=np.random.RandomState(0)))
    twin = AdvSVM(eps=0, gamma=0.05).fit(X, y)
    model = copy.copy(twin)
    coef, intercept = solved(waves(X, 0), signs)
    twin.expansion_ = RandomExpansion(waves, coef[None, :, None], intercept)
    coef, intercept = solved(phi(X), signs)
    model.expansion_ = phi.expansion(coef[:, None], intercept)
    assert twin.score(X, y) > 0.98
    assert model.score(X, y) > 0.98
    X, y = X[:100], y[:100]
    few, many = ((m.predict(attacks.pgd(m, X, y, eps=0.12, steps=10)) == y).mean() for m in (twin, model))
    assert few < many - 0.2


def test_noise_of_random_features_is_warned_of_where_it_is_large():
    X, y = breast_cancer()
    X = np.hstack([X, points(len(X), 70)])
    with pytest.warns(FeatureNoiseWarning, match="noise of l1 norm"):
        noisy = StochasticAdvSVM(C=8.0, eps=0, n_features=64, batch_size=100, random_state=0).fit(X, y)
    assert (noisy.gradient_noise_ > noisy.gradient_signal_).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error", FeatureNoiseWarning)
        StochasticAdvSVM(C=8.0, eps=0, gamma=0.5, n_features=4096, batch_size=50, random_state=0).fit(*moons(400))


def test_an_attack_draws_no_features_that_the_model_has_at_hand(monkeypatch):
    X, y = moons(40)
    model = StochasticAdvSVM(C=8.0, eps=0, n_features=32, batch_size=10, random_state=0).fit(X, y)
    drawn = []
    once = RandomFeatures._drawn
    monkeypatch.setattr(RandomFeatures, "_drawn", lambda self, block: drawn.append(block) or once(self, block))
    model.predict(X)
    assert drawn == [0, 1, 2, 3]
    for attack in (attacks.fgsm, attacks.pgd):
        attack(model, X.astype(np.float32), y, eps=0.1)
    attacks.zoo(model, X, y, steps=3)
    assert len(drawn) == 4
