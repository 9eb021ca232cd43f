"""Fits to rows in batches, against the same fit to one array; with Dask on a local cluster of two workers."""

from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError

from buttress import RobustKernelClassifier, RobustKernelRegressor, outlier_report
from buttress.features import made, stored
from buttress.solvers.contamination.tuning import NOISY_LABELS

SAME = ("alpha_", "contamination_", "contamination_interval_", "inlier_mask_", "loo_residual_", "loo_sigma_",
        "n_iter_", "outlier_proba_", "row_keys_", "scale_", "weights_")
SAME_LABELS = ("agreement_", "alpha_", "confusion_", "contamination_", "contamination_interval_", "inlier_mask_",
               "isolated_", "loo_proba_", "loo_score_", "n_iter_", "outlier_proba_", "row_keys_", "scale_", "weights_")
BOUNDS = [0, 350, 351, 500, 700]
pytestmark = [pytest.mark.filterwarnings("ignore:.*named corrupt"),
              pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")]


def corrupted(n=700, seed=0):
    """Return rows of which some are equal, and targets a fifth of which are shifted."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[5] = X[n - 100]
    y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n) + 4 * (rng.random(n) < 0.2)
    return X, y


def pairs(X, y, bounds=BOUNDS):
    return [(X[a:b], y[a:b]) for a, b in pairwise(bounds)]


def mislabelled(n=700, seed=0):
    """Return rows of three classes by name, of which a fifth is wrong; two are equal, three far from all others.

    One of these is a batch by itself.
    """
    X, _ = corrupted(n, seed)
    rng = np.random.default_rng(seed)
    y = np.searchsorted([-0.5, 0.5], np.sin(X[:, 0]) + X[:, 1])
    y = np.where(rng.random(n) < 0.2, (y + 1) % 3, y)
    X[[3, n // 2, n // 2 + 1]] *= 1e4
    return X, np.array(["low", "middle", "high"])[y]


def classifier(n_landmarks=20):
    return RobustKernelClassifier(n_landmarks=n_landmarks, random_state=0)


def assert_equal_classifiers(one, other, X):
    for name in SAME_LABELS:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-8, atol=1e-8, err_msg=name)
    assert np.array_equal(one.classes_, other.classes_)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=1e-8)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-8)


def regressor(n_landmarks=20):
    return RobustKernelRegressor(kernel="rbf", n_landmarks=n_landmarks, n_starts=0, random_state=0)


def assert_equal_models(one, other, X):
    for name in SAME:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-8, atol=1e-8, err_msg=name)
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=1e-8)
    np.testing.assert_allclose(one.predict_interval(X), other.predict_interval(X), atol=1e-8)


@pytest.mark.parametrize(("n_landmarks", "made_again", "kept"), [(20, False, 0), (60, True, 0), (20, False, 10**9)])
def test_batches_give_the_fit_to_one_array(n_landmarks, made_again, kept, monkeypatch):
    """Of many rows a landmark and few, of features made again by both, by the batches alone, and kept."""
    monkeypatch.setattr(made, "FEATURE_BYTES", 0 if made_again else 10**9)
    monkeypatch.setattr(stored, "KEPT_BYTES", kept)
    X, y = corrupted()
    whole = regressor(n_landmarks).fit(X, y)
    assert_equal_models(regressor(n_landmarks).fit_batches(pairs(X, y)), whole, X)


@pytest.mark.parametrize(("n_landmarks", "made_again", "kept"),
                         [(20, False, 0), (40, False, 0), (40, True, 0), (20, False, 10**9)])
def test_batches_of_labels_give_the_fit_to_one_array(n_landmarks, made_again, kept, monkeypatch):
    monkeypatch.setattr(made, "FEATURE_BYTES", 0 if made_again else 10**9)
    monkeypatch.setattr(stored, "KEPT_BYTES", kept)
    X, y = mislabelled()
    whole = classifier(n_landmarks).fit(X, y)
    assert whole.isolated_.sum() == 3
    model = classifier(n_landmarks).fit_batches(pairs(X, y))
    assert_equal_classifiers(model, whole, X)
    assert np.array_equal(outlier_report(model, X, y)["row"], outlier_report(whole, X, y)["row"])


def test_each_step_of_the_fit_to_labels_is_a_pass_and_kept_features_need_none(monkeypatch):
    X, y = mislabelled(4000)
    passes = []

    def from_the_start():
        passes.append(1)
        return iter(pairs(X, y, [0, 1000, 4000]))

    kept = classifier().fit_batches(from_the_start)
    assert len(passes) <= 20  # five of what is known before a fit, again without the rows that resemble none, and spare
    passes.clear()
    monkeypatch.setattr(stored, "KEPT_BYTES", 0)
    streamed = classifier().fit_batches(from_the_start)
    assert kept.n_iter_ < len(passes) < kept.n_iter_ + 60
    assert_equal_classifiers(kept, streamed, X)


def test_few_labels_in_frames_and_bad_labels():
    X, y = mislabelled(120)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    whole = RobustKernelClassifier(random_state=0).fit(frame, y)
    parts = [(frame[:50], pd.Series(y[:50])), (frame[50:], pd.Series(y[50:]))]
    collected = RobustKernelClassifier(random_state=0).fit_batches(parts)
    assert_equal_classifiers(collected, whole, frame)
    assert collected.feature_names_in_.tolist() == ["a", "b", "c"]
    numbers = np.searchsorted(["high", "low", "middle"], y)
    with pytest.raises(TypeError, match="labels of one type"):
        classifier().fit_batches([(X[:60], y[:60]), (X[60:], numbers[60:])])
    with pytest.raises(ValueError, match="at least 2 classes"):
        classifier().fit_batches([(X[:60], np.ones(60)), (X[60:], np.ones(60))])
    with pytest.raises(ValueError, match=r"Batch 1: .*no value"):
        classifier().fit_batches([(X[:60], y[:60]), (X[60:], np.where(numbers[60:] == 1, None, y[60:]))])


def test_a_function_frames_and_few_rows():
    X, y = corrupted(300)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    whole = regressor().fit(frame, y)
    read = []

    def from_the_start():
        read.append(1)
        return iter([(frame[:100], y[:100]), (frame[100:], y[100:])])

    model = regressor().fit_batches(from_the_start)
    assert_equal_models(model, whole, frame)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert len(read) > 5
    assert model.n_iter_ < 10  # rounded weights alternate between two sets here, which must not go on to the limit
    assert np.array_equal(outlier_report(model, frame, y)["row"], outlier_report(whole, frame, y)["row"])
    exact = RobustKernelRegressor(n_starts=0, max_iter=3, random_state=0)
    collected = RobustKernelRegressor(n_starts=0, max_iter=3, random_state=0)
    assert_equal_models(collected.fit_batches(pairs(X, y, [0, 20, 60])), exact.fit(X[:60], y[:60]), X)
    columns = [(pl.DataFrame(part, schema=["a", "b", "c"]), pl.Series(targets))
               for part, targets in pairs(X, y, [0, 100, 300])]
    assert_equal_models(regressor().fit_batches(columns), whole, frame)


def test_bad_batches_are_refused_by_number():
    X, y = corrupted(200)
    spoiled = X.copy()
    spoiled[120, 1] = np.nan
    model = regressor()
    with pytest.raises(ValueError, match=r"Batch 1: .*(NaN|column)"):
        model.fit_batches(pairs(spoiled, y, [0, 100, 200]))
    with pytest.raises(ValueError, match=r"Batch 1: .*features"):
        model.fit_batches([(X[:100], y[:100]), (X[100:, :2], y[100:])])
    with pytest.raises(ValueError, match="iterator"):
        model.fit_batches(iter(pairs(X, y, [0, 200])))
    with pytest.raises(ValueError, match="y goes with a Dask collection"):
        model.fit_batches(pairs(X, y, [0, 200]), y)
    with pytest.raises(ValueError, match="precomputed"):
        RobustKernelRegressor(kernel="precomputed").fit_batches(pairs(X, y, [0, 200]))
    with pytest.raises(ValueError, match="at least 2 rows"):
        model.fit_batches([])
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_batches_that_change_are_refused():
    X, y = corrupted(200)
    passes = []

    def shrinking():
        passes.append(1)
        return pairs(X, y, [0, 100, 200]) if len(passes) == 1 else pairs(X, y, [0, 100, 150])

    with pytest.raises(ValueError, match="same in each pass"):
        regressor().fit_batches(shrinking)


@pytest.mark.parametrize("model", [regressor(), classifier(), RobustKernelRegressor(), RobustKernelClassifier()],
                         ids=str)
@pytest.mark.parametrize("kind", ["loader", "dask"])
def test_rows_in_another_order_at_each_pass_are_refused(model, kind):
    """Targets are kept from the first pass, so that they would go with other rows."""
    X, y = corrupted(200) if is_regressor(model) else mislabelled(200)
    rng = np.random.default_rng(0)

    def shuffled(X, y):
        order = rng.permutation(len(y))
        return pairs(X[order], y[order], [0, 100, 200])

    given = (lambda: shuffled(X, y),)
    if kind == "dask":
        arrays = pytest.importorskip("dask.array")
        read = pytest.importorskip("dask").delayed(lambda part: rng.permutation(part), pure=False)
        blocks = [arrays.from_delayed(read(part), part.shape, dtype=np.float64) for part in (X[:100], X[100:])]
        given = arrays.concatenate(blocks), arrays.from_array(y, chunks=100)
    with pytest.raises(ValueError, match=r"Batch \d has other rows"):
        model.fit_batches(*given)


@pytest.fixture(scope="module")
def cluster():
    """Start two workers in processes of their own."""
    distributed = pytest.importorskip("distributed")
    with (distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers,
          distributed.Client(workers) as client):
        yield client


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_two_dask_workers_give_the_fit_to_one_array(cluster, kind):
    X, y = corrupted()
    whole = regressor().fit(X, y)
    if kind == "array":
        arrays = pytest.importorskip("dask.array")
        chunks = tuple(np.diff(BOUNDS))
        given = arrays.from_array(X, chunks=(chunks, 3)), arrays.from_array(y, chunks=(chunks,))
    else:
        frames = pytest.importorskip("dask.dataframe")
        table = frames.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y), npartitions=3)
        given = table[["a", "b", "c"]], table["y"]
        whole.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)
        X = pd.DataFrame(X, columns=["a", "b", "c"])
    assert_equal_models(regressor().fit_batches(*given), whole, X)


@pytest.mark.slow
@patch.dict(vars(NOISY_LABELS), steps=2, rounds=1)  # each step is two passes, and Dask takes its time for each
def test_two_dask_workers_give_the_fit_to_the_labels_of_one_array(cluster):
    arrays = pytest.importorskip("dask.array")
    X, y = mislabelled()
    chunks = tuple(np.diff(BOUNDS))
    given = arrays.from_array(X, chunks=(chunks, 3)), arrays.from_array(y, chunks=(chunks,))
    model = RobustKernelClassifier(n_landmarks=20, alpha=1.0, random_state=0)
    assert_equal_classifiers(clone(model).fit_batches(*given), model.fit(X, y), X)


def test_dask_collections_that_do_not_match_are_refused():
    arrays = pytest.importorskip("dask.array")
    X, y = corrupted(200)
    with pytest.raises(ValueError, match="rechunk"):
        regressor().fit_batches(arrays.from_array(X, chunks=(100, 2)), arrays.from_array(y, chunks=100))
    with pytest.raises(ValueError, match="same blocks"):
        regressor().fit_batches(arrays.from_array(X, chunks=(100, 3)), arrays.from_array(y, chunks=50))
    with pytest.raises(ValueError, match="y must be one too"):
        regressor().fit_batches(arrays.from_array(X, chunks=(100, 3)), y)


@pytest.mark.parametrize(("batches", "message"), [
    (None, r"batches must be an iterable of pairs"),
    (3, "batches must be an iterable of pairs"),
    (np.ones((4, 2)), r"must be a pair .* Got ndarray as number 0"),
    ((np.ones((4, 2)), np.ones(4)), r"must be a pair .* Got ndarray as number 0"),
    ([(np.ones((4, 2)),)], "must be a pair"),
    ([(np.ones((4, 2)), np.ones(4)), (np.ones((0, 2)), np.ones(0))], "Batch 1: "),
])
def test_batches_of_another_form_are_named(batches, message):
    with pytest.raises(ValueError, match=message):
        regressor().fit_batches(batches)
