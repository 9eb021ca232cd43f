"""Labels wrong in one direction only: found, named and undone by the classifier; other data are fitted as before."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from buttress import InterruptedWarning, RobustKernelClassifier, load, save
from buttress.solvers.contamination.tuning import CONFUSION


def blobs(share, seed=0, C=2):
    """Return blobs a third of which, of class 0, are given as class 1; the right labels; and fresh rows."""
    X, y = make_blobs(360 * C, centers=np.column_stack([4.0 * np.arange(C), np.zeros(C)]), random_state=seed)
    rng = np.random.default_rng(seed)
    given = np.where((y == 0) & (rng.random(len(y)) < share), 1, y)
    half = 180 * C
    return X[:half], given[:half], y[:half], X[half:], y[half:]


@pytest.mark.parametrize("C", [2, 3])
def test_one_direction_is_estimated_named_and_undone(C):
    X, given, y, X_new, y_new = blobs(0.4, C=C)
    model = RobustKernelClassifier(random_state=0).fit(X, given)
    wrong = given != y
    assert model.confusion_[0, 1] == pytest.approx(wrong[y == 0].mean(), abs=0.03)
    assert model.confusion_.sum(axis=1) == pytest.approx(np.ones(C))
    assert np.mean(model.inlier_mask_[~wrong]) > 0.97
    assert np.mean(~model.inlier_mask_[wrong]) > 0.85
    assert model.contamination_ == pytest.approx(wrong.mean(), abs=0.02)
    assert model.score(X_new, y_new) > 0.95
    assert not model.clean_


def test_a_rate_that_is_alike_in_all_directions_is_left_to_the_single_rate():
    X, _, y, _, _ = blobs(0, C=3)
    rng = np.random.default_rng(1)
    given = np.where(rng.random(len(y)) < 0.2, (y + rng.integers(1, 3, len(y))) % 3, y)
    model = RobustKernelClassifier(random_state=0).fit(X, given)
    off = model.confusion_[~np.eye(3, dtype=bool)]
    np.testing.assert_allclose(off, model.contamination_ / 2)


def test_right_labels_have_no_direction():
    X, _, y, _, _ = blobs(0)
    model = RobustKernelClassifier(random_state=0).fit(X, y)
    np.testing.assert_allclose(model.confusion_, np.eye(2), atol=0.02)
    assert model.inlier_mask_.mean() > 0.98


def test_overlapping_classes_are_not_wrong_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    scores = 1.2 * X + [1.0, 0.5, 0.0]
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    model = RobustKernelClassifier(random_state=0).fit(X, y)
    assert len(set(model.confusion_[~np.eye(3, dtype=bool)])) == 1


def test_a_share_given_is_taken_at_its_word():
    X, given, *_ = blobs(0.4)
    model = RobustKernelClassifier(contamination=0.2, random_state=0).fit(X, given)
    np.testing.assert_allclose(model.confusion_, [[0.8, 0.2], [0.2, 0.8]])


def test_a_saved_model_keeps_the_matrix(tmp_path):
    X, given, *_ = blobs(0.4)
    model = RobustKernelClassifier(random_state=0).fit(X, given)
    save(model, tmp_path / "labels.model")
    np.testing.assert_array_equal(load(tmp_path / "labels.model").confusion_, model.confusion_)


def test_ctrl_c_while_directions_are_tried_leaves_the_fit_before(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-3, 1, (60, 2)), rng.normal(3, 1, (60, 2))])
    y = np.repeat([0, 1], 60)
    y[:24] = 1

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("buttress.robust.label_fit.likeliest_confusion", interrupted)
    with pytest.warns(InterruptedWarning, match="some directions"):
        model = RobustKernelClassifier(random_state=0).fit(X, y)
    monkeypatch.undo()
    monkeypatch.setattr("buttress.robust.label_fit.CONFUSION", replace(CONFUSION, decisive=np.inf))
    plain = RobustKernelClassifier(random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(X))


@pytest.mark.parametrize("seed", [1, 2])
def test_flips_that_outnumber_the_right_labels_of_a_small_class_are_found(seed):
    """Two in five rows of the largest class go into one a third its size: most of each true class keeps its label."""
    rng = np.random.default_rng(seed)
    X, y = make_blobs([160, 60, 60, 60], n_features=4, centers=3 * rng.normal(size=(4, 4)), random_state=seed)
    bad = (y == 0) & (rng.random(len(y)) < 0.4)
    dirty = np.where(bad, 1, y)
    assert bad.sum() > np.sum(dirty == 1) / 2
    model = RobustKernelClassifier(random_state=0).fit(X, dirty)
    np.testing.assert_array_equal(model.inlier_mask_, ~bad)
    assert model.confusion_[0, 1] == pytest.approx(bad.sum() / 160, abs=0.03)
    assert model.converged_
    low, high = model.contamination_interval_
    assert low <= bad.mean() <= high
