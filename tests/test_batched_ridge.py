"""Ridge regression from batches, against scikit-learn's and the closed form on all rows in one array."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline

from buttress import BatchedRidge, BatchedRidgeClassifier, LeastSquaresClassifier, Nystroem, load, save

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5)) @ RNG.normal(size=(5, 5)) + np.array([0, 1e4, -3, 1e6, 2])  # columns far from 0
Y = X @ RNG.normal(size=5) + RNG.normal(size=300)
LABELS = np.array(["low", "middle", "high"])[np.searchsorted([-1, 2], Y - Y.mean())]
NAMED = pd.DataFrame(X, columns=list("abcde"))
WEIGHT = RNG.integers(0, 4, 300).astype(float)
BOUNDS = [0, 1, 120, 121, 300]
MACHINES = [(BatchedRidge(alpha=0.7), Y), (BatchedRidgeClassifier(alpha=0.7), LABELS),
            (BatchedRidgeClassifier(alpha=0.7), LABELS == "low")]
KINDS = ["numbers", "three classes", "two classes"]


def in_batches(model, y, order=None, weight=WEIGHT):
    rows = np.arange(300) if order is None else order
    classes = None if isinstance(model, BatchedRidge) else np.unique(y)
    for a, b in pairwise(BOUNDS):
        part = rows[a:b]
        model.partial_fit(X[part], y[part], classes=classes, sample_weight=weight[part])
    return model


def labelled():
    return BatchedRidgeClassifier().fit(X, LABELS)


def plane(model):
    return np.column_stack([np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)])


def assert_same_plane(one, other, rtol=1e-7):
    np.testing.assert_allclose(plane(one)[:, :-1], plane(other)[:, :-1], rtol=rtol, atol=rtol)
    np.testing.assert_allclose(X @ plane(one)[:, :-1].T + plane(one)[:, -1],
                               X @ plane(other)[:, :-1].T + plane(other)[:, -1], atol=1e-5)


@pytest.mark.parametrize(("model", "y"), MACHINES, ids=KINDS)
def test_batches_give_scikit_learns_ridge_of_all_rows(model, y):
    """Of weighted rows, one batch a single row: X is as given, and the oracle has all of it at once."""
    weight = WEIGHT.copy()
    weight[[0, 120]] = 2.0  # a batch of one row
    oracle = (Ridge if y is Y else RidgeClassifier)(alpha=0.7, solver="svd").fit(X, y, sample_weight=weight)
    found = in_batches(clone(model), y, weight=weight)
    assert_same_plane(found, oracle)
    assert found.n_rows_seen_ == 300
    assert_same_plane(clone(model).fit(X, y, sample_weight=weight), oracle)
    assert np.array_equal(found.predict(X), oracle.predict(X)) or y is Y


@pytest.mark.parametrize(("model", "y"), MACHINES, ids=KINDS)
def test_order_changes_rounding_alone_and_the_same_batches_give_the_same_bits(model, y):
    weight = np.ones(300)
    one, same = (in_batches(clone(model), y, weight=weight) for _ in range(2))
    assert np.array_equal(plane(one), plane(same))
    assert_same_plane(in_batches(clone(model), y, RNG.permutation(300), weight), one)


@pytest.mark.parametrize(("model", "y"), MACHINES, ids=KINDS)
def test_fits_of_parts_are_merged_into_the_fit_of_all(model, y, tmp_path):
    classes = None if y is Y else np.unique(y)
    parts = [clone(model).partial_fit(X[a:b], y[a:b], classes=classes) for a, b in pairwise(BOUNDS)]
    save(parts[1], tmp_path / "part")
    parts[1] = load(tmp_path / "part")  # as from another machine
    whole = clone(model).fit(X, y)
    assert_same_plane(reduce(lambda one, other: one.merge(other), parts), whole)
    assert parts[0].n_rows_seen_ == 300


def test_on_landmarks_that_are_all_rows_it_is_the_kernel_machine():
    """The closed form of kernel ridge on labels, by solving with the whole Gram matrix."""
    rows = RNG.normal(size=(60, 2))
    y = rows[:, 0] * rows[:, 1] > 0
    features = Nystroem(gamma=5.0, n_components=60, random_state=0).fit(rows)
    model = BatchedRidgeClassifier(alpha=0.1)
    for part in (slice(0, 20), slice(20, 60)):
        model.partial_fit(features.transform(rows[part]), y[part], classes=[False, True])
    exact = LeastSquaresClassifier(gamma=5.0, alpha=0.1).fit(rows, y)
    new = RNG.normal(size=(40, 2))
    np.testing.assert_allclose(make_pipeline(features, model).decision_function(new), exact.decision_function(new),
                               atol=1e-6)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: BatchedRidge(alpha=0).fit(X, Y), "alpha must be"),
    (lambda: BatchedRidgeClassifier().partial_fit(X, np.zeros(300)), "at least 2 classes"),
    (lambda: labelled().partial_fit(X, np.full(300, "new")), "'new', which is not among"),
    (lambda: labelled().partial_fit(X, LABELS, classes=["a"]), "those of the first call"),
    (lambda: BatchedRidge().partial_fit(X, Y, classes=[0, 1]), "no classes"),
    (lambda: BatchedRidge().fit(X, Y).partial_fit(X[:, :2], Y), "2 features"),
    (lambda: BatchedRidge().fit(X, Y).merge(BatchedRidge().fit(X[:, :2], Y)), "same columns and classes"),
    (lambda: BatchedRidge().fit(NAMED, Y).merge(BatchedRidge().fit(NAMED[list("bacde")], Y)), "'b', 'a', 'c'"),
    (lambda: BatchedRidge().fit(NAMED, Y).merge(BatchedRidge().fit(X, Y)), "same columns and classes"),
    (lambda: labelled().merge(BatchedRidgeClassifier().fit(X, LABELS == "low")), "same columns and classes"),
])
def test_what_cannot_be_learned_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_bad_batch_leaves_the_model_as_it_was():
    model = BatchedRidge().fit(X[:100], Y[:100])
    before = plane(model)
    spoiled = X[100:].copy()
    spoiled[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(spoiled, Y[100:])
    assert np.array_equal(plane(model), before)
    assert model.n_rows_seen_ == 100
    with pytest.raises(NotFittedError):
        BatchedRidge().merge(model)


def test_two_dask_workers_fit_parts_that_are_merged():
    distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")
    with (distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers,
          distributed.Client(workers)):
        model = BatchedRidgeClassifier()
        parts = [dask.delayed(clone(model).partial_fit)(X[a:b], LABELS[a:b], classes=np.unique(LABELS))
                 for a, b in pairwise(BOUNDS)]
        merged = reduce(lambda one, other: dask.delayed(one).merge(other), parts).compute()
    assert_same_plane(merged, model.fit(X, LABELS))
