"""No row that a robust fit names has the weight of a good one: a search over corrupted tables."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_friedman1, make_moons

from buttress import RobustKernelClassifier, RobustKernelRegressor, RobustLinearRegressor


def corrupted(seed, kind, n):
    """Rows of a smooth function, clean or corrupted, at random; targets have the spread 1."""
    rng = np.random.default_rng(seed)
    X, y = make_friedman1(n, noise=1.0, random_state=seed)
    y = (y - y.mean()) / y.std()
    bad = rng.random(n) < rng.choice([0.1, 0.4])
    if kind == "shift":
        y[bad] += 2.1
    elif kind == "mirrored":
        y[bad] *= -1
    elif kind == "heavy":
        y += 0.5 * rng.standard_t(2, size=n)
    elif kind == "skewed":
        y = np.exp(1.5 * y)
    elif kind == "equal":
        y = np.maximum(y, 0)
    return X, y


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [RobustKernelRegressor(random_state=0), RobustLinearRegressor(random_state=0),
                                   RobustKernelRegressor(n_landmarks=15, random_state=0)], ids=repr)
@pytest.mark.parametrize("kind", ["shift", "mirrored", "heavy", "skewed", "equal"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_a_named_row_has_at_most_half_of_the_weight(model, kind, seed):
    X, y = corrupted(seed, kind, 150)
    model.fit(X, y)
    assert (model.weights_[~model.inlier_mask_] <= 0.75).all()
    assert not model.clean_ or (model.inlier_mask_.all() and (model.weights_ == 1).all())


def test_rows_that_are_named_do_not_turn_the_fit():
    """Friedman's function, two targets in five shifted by 2.1 of its deviations: the fit is that of the rows kept."""
    rng = np.random.default_rng(3)
    X, y = make_friedman1(400, noise=1.0, random_state=3)
    y = (y - y.mean()) / y.std()
    truth = y.copy()
    bad = rng.random(400) < 0.4
    y[bad] += 2.1
    model = RobustKernelRegressor(random_state=0).fit(X, y)
    kept = RobustKernelRegressor(contamination=0.0, random_state=0).fit(X[model.inlier_mask_], y[model.inlier_mask_])
    assert np.mean(~model.inlier_mask_[bad]) > 0.9
    assert np.sqrt(np.mean((model.predict(X) - truth)[bad] ** 2)) < 1.2 * np.sqrt(
        np.mean((kept.predict(X) - truth)[bad] ** 2))


def mislabelled(seed, kind, n):
    """Rows of two or three classes that overlap, one label in four wrong: anyhow, in one direction, or none."""
    rng = np.random.default_rng(seed)
    if seed % 2:
        X, y = make_moons(n, noise=0.25, random_state=seed)
    else:
        X, y = make_blobs(n, centers=3, cluster_std=2.5, random_state=seed)
    bad = rng.random(n) < {"clean": 0, "anyhow": 0.25, "one way": 0.25, "many": 0.4}[kind]
    shift = 1 if kind == "one way" else rng.integers(1, y.max() + 1, n)
    return X, np.where(bad & ((y == 0) | (kind != "one way")), (y + shift) % (y.max() + 1), y)


@pytest.mark.parametrize("landmarks", ["auto", 15, 60])
@pytest.mark.parametrize("kind", ["clean", "anyhow", "one way", "many"])
def test_a_label_named_wrong_is_not_fitted_as_it_was_given(kind, landmarks):
    for seed in range(8):
        X, y = mislabelled(seed, kind, 120)
        model = RobustKernelClassifier(n_landmarks=landmarks, random_state=0).fit(X, y)
        assert (model.weights_[~model.inlier_mask_] < 1).all()
        np.testing.assert_array_equal(model.inlier_mask_, model.outlier_proba_ <= 0.5)
        assert model.clean_ == model.inlier_mask_.all()
        if landmarks == "auto":
            np.testing.assert_array_equal(model.weights_, model.inlier_mask_)


def test_a_share_given_is_the_share_of_labels_fitted_otherwise():
    for seed in range(8):
        X, y = mislabelled(seed, "anyhow", 120)
        model = RobustKernelClassifier(contamination=0.2, random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.weights_, model.inlier_mask_)
        assert (model.weights_ == 0).sum() == 24
