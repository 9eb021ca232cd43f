"""Random features against the kernels they estimate, and random bits against the distributions they claim."""

import pickle

import numpy as np
import pytest
from scipy.stats import kstest

from buttress.features import (
    STATIONARY,
    RandomExpansion,
    WavePoint,
    feature_radius,
    gradient_noise,
    input_radius,
    random_features,
    spectrum_of,
)
from buttress.features.spectral import AT_A_TIME, exponentials, normals, words
from buttress.kernels import RBF, Cauchy, InverseMultiquadric, Laplacian, Linear

from problems import points

# One row a spectrum: adding one means adding a row here.
KERNELS = [RBF(0.4), Laplacian(0.7), Cauchy(0.6), InverseMultiquadric(1.3)]


def test_every_spectrum_is_tested():
    assert {type(kernel) for kernel in KERNELS} == set(STATIONARY)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_features_estimate_the_kernel_to_monte_carlo_accuracy(kernel):
    X = points(12, 3)
    features = random_features(kernel, 3, 100_000, seed=3)(X, 0)
    error = features @ features.T - kernel(X, X)
    assert np.abs(error).max() < 6 * kernel.diagonal(X)[0] / np.sqrt(100_000)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_frequencies_have_the_second_moment_stated(kernel):
    frequencies, _ = random_features(kernel, 2, 200_000, seed=0).waves(0)
    stated = spectrum_of(kernel, "a test").second_moment(kernel)
    if np.isinf(stated):
        assert np.mean(frequencies**2) > 100 * np.median(frequencies**2)
    else:
        assert np.mean(frequencies**2) == pytest.approx(stated, rel=0.03)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_feature_radius_is_the_distance_of_features_and_inverts(kernel):
    X = points(1, 4)
    previous = 0.0
    for eps in (1e-3, 0.1, 1.0, 3.0):
        moved = X + eps * np.array([[0.5, -0.5, 0.5, 0.5]])
        distance = np.sqrt(2 * kernel.diagonal(X)[0] - 2 * kernel(X, moved)[0, 0])
        radius = feature_radius(kernel, eps)
        assert radius == pytest.approx(distance, rel=1e-5)
        assert previous < radius < np.sqrt(2 * kernel.diagonal(X)[0])
        previous = radius
        if radius < 0.999 * np.sqrt(2 * kernel.diagonal(X)[0]):
            assert input_radius(kernel, radius) == pytest.approx(eps, rel=1e-6)
    assert feature_radius(kernel, 0.0) == 0
    assert input_radius(kernel, 2.0) == np.inf


def test_small_radius_keeps_its_digits():
    assert feature_radius(RBF(0.5), 1e-9) == pytest.approx(1e-9, rel=1e-12)
    for kernel in KERNELS:
        assert input_radius(kernel, feature_radius(kernel, 1e-9)) == pytest.approx(1e-9, rel=1e-12)


def test_other_kernels_are_refused_with_the_list():
    with pytest.raises(ValueError, match="RBF, Laplacian, Cauchy, InverseMultiquadric"):
        random_features(Linear(), 2, 10, seed=0)


def test_numbers_have_their_distributions():
    draws = normals(words(5, 0, 50_000))
    assert kstest(draws, "norm").pvalue > 0.01
    assert abs(np.corrcoef(draws[::2], draws[1::2])[0, 1]) < 0.02
    assert abs(np.corrcoef(draws[::2] ** 2, draws[1::2] ** 2)[0, 1]) < 0.02
    assert kstest(np.arctan2(draws[::2], draws[1::2]), "uniform", (-np.pi, 2 * np.pi)).pvalue > 0.01
    high = np.r_[0, np.linspace(1, 2**32 - 1, 9999).astype(np.uint64)].astype(np.uint64)
    uniform = (high + 0.5) / 2**32
    np.testing.assert_allclose(exponentials(high << np.uint64(32)), -np.log(uniform), rtol=1e-10, atol=1e-12)


def test_single_precision_features_are_those_of_doubles():
    features = random_features(RBF(0.5), 3, 64, seed=0)
    X = 20 * points(40, 3)
    np.testing.assert_allclose(features(X.astype(np.float32), 0), features(X, 0), atol=2e-5 * features.scale)


def test_bits_are_the_published_philox_numbers():
    """Known answers of the Random123 distribution (kat_vectors): philox4x64-10 of key 0, counter 0."""
    expected = [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    before = np.random.Philox(key=0, counter=[2**64 - 1] * 4)  # the first block is that of counter + 1
    assert before.random_raw(4).tolist() == expected
    generator = np.random.Philox(key=9, counter=[0, 0, 0, 7])
    np.testing.assert_array_equal(words(9, 7, 5), generator.random_raw(5))


def test_blocks_differ_and_do_not_depend_on_order_or_pickling():
    features = random_features(RBF(), 3, 16, seed=1)
    first, second = features.waves(0)[0], features.waves(1)[0]
    again = pickle.loads(pickle.dumps(features))
    assert not again._kept
    np.testing.assert_array_equal(again.waves(1)[0], second)
    np.testing.assert_array_equal(again.waves(0)[0], first)
    assert not np.allclose(first, second)
    assert not np.allclose(first, random_features(RBF(), 3, 16, seed=2).waves(0)[0])
    assert len(pickle.dumps(random_features(RBF(), 1000, 1024, seed=0))) < 1000


def test_expansion_gradient_agrees_with_finite_differences():
    X, V = points(5, 3), points(5, 2, seed=4)
    expansion = RandomExpansion(random_features(Cauchy(0.6), 3, 40, seed=0), points(80, 2, seed=3).reshape(2, 40, 2),
                                np.array([0.1, -0.2]))
    shift = 1e-6 * np.eye(3)
    numeric = [((expansion(X + h) - expansion(X - h)) * V).sum(axis=1) / 2e-6 for h in shift]
    np.testing.assert_allclose(expansion.gradient(X, V), np.transpose(numeric), atol=1e-6)


def test_predicted_gradient_noise_is_the_noise_seen():
    """A machine of the exact kernel and its random features: the difference of their gradients, over draws."""
    X, Z, z = points(40, 10), points(60, 10, seed=1), points(60, 1, seed=2) / 60
    kernel, seen, predicted = RBF(0.05), [], []
    exact = kernel.gradient(X, Z, np.tile(z[:, 0], (40, 1)))
    for seed in range(20):
        features = random_features(kernel, 10, 256, seed=seed)
        expansion = RandomExpansion(features, (features(Z, 0).T @ z)[None], np.zeros(1))
        seen.append(np.abs(expansion.gradient(X, np.ones((40, 1))) - exact).sum(axis=1).mean())
        predicted.append(gradient_noise(expansion)[0])
    assert np.mean(predicted) == pytest.approx(np.mean(seen), rel=0.25)


def test_what_an_attack_asks_of_random_features_is_what_fresh_queries_answer():
    rng = np.random.default_rng(0)
    features = random_features(RBF(0.5), 6, 40, seed=2)
    model = RandomExpansion(features, rng.normal(size=(3, 40, 2)), rng.normal(size=2))
    X, rows = rng.normal(size=(7, 6)), np.array([4, 0, 2])
    V, columns = rng.normal(size=(3, 2)), rng.integers(6, size=(3, 4))
    point, steps = WavePoint(model, X), np.full((3, 4), 1e-4)
    np.testing.assert_allclose(point.scores, model(X), atol=1e-12)
    np.testing.assert_allclose(point.gradient(V, rows), model.gradient(X[rows], V), atol=1e-12)
    leads = [point.nudged(rows, columns, sign * steps, V) for sign in (1, -1)]
    for b in range(4):
        scores = []
        for sign in (1, -1):
            moved = X[rows]
            moved[np.arange(3), columns[:, b]] += sign * 1e-4
            scores.append(np.sum(model(moved) * V, axis=1))
            np.testing.assert_allclose(leads[(1 - sign) // 2][:, b], scores[-1], atol=1e-6)
        np.testing.assert_allclose(leads[0][:, b] - leads[1][:, b], scores[0] - scores[1], atol=1e-11)
    assert point.nudged(rows, columns, 1000 * steps, V) is None


def test_normal_numbers_are_each_words_own():
    bits = words(3, 1, AT_A_TIME + 5)
    apart = np.concatenate([normals(bits[:7]), normals(bits[7:AT_A_TIME]), normals(bits[AT_A_TIME:])])
    np.testing.assert_array_equal(normals(bits), apart)
    assert normals(bits[:0]).shape == (0,)
