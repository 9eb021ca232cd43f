"""Sparse rows in the robust kernel machines: the answers of dense ones, and texts with wrong labels."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.datasets import load_digits

from buttress import SVC, RobustKernelClassifier, RobustKernelRegressor, attacks, certificates, outlier_report, scores
from buttress._rows import distinct_rows, equal_rows
from buttress.features import nystroem
from buttress.features.stored import landmark_features
from buttress.kernels import RBF
from buttress.robust.design import several_widths

KINDS = [csr_matrix, csr_array]


def texts(n=400, words=1000):
    """Weights of words in texts of unit length on three topics, which share words; every seventh label is wrong."""
    rng = np.random.default_rng(0)
    common, topics = rng.dirichlet(np.full(words, 0.3)), rng.dirichlet(np.full(words, 0.02), size=3)
    right = np.arange(n) % 3
    X = np.log1p([rng.multinomial(40, 0.6 * common + 0.4 * topics[topic]) for topic in right])
    bad = np.arange(n) % 7 == 4
    return X / np.linalg.norm(X, axis=1)[:, None], np.where(bad, (right + 1 + np.arange(n) % 2) % 3, right), right, bad


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{"kernel": "rbf"}, {"kernel": "linear"}, {"gamma": 0.5}, {"kernel": "poly"}],
                         ids=str)
def test_sparse_rows_give_the_model_of_dense_ones(kind, options):
    X, y = (rows[:160] for rows in texts()[:2])
    rng = np.random.default_rng(1)
    target = X @ rng.normal(size=X.shape[1]) + rng.normal(size=len(X)) * np.where(rng.random(len(X)) < 0.2, 5, 0.1)
    for machine, given in ((RobustKernelClassifier, y), (RobustKernelRegressor, target)):
        dense, sparse = (machine(random_state=0, **options).fit(made, given) for made in (X, kind(X)))
        score = "decision_function" if machine is RobustKernelClassifier else "predict"
        expected = getattr(dense, score)(X[:50])
        for made in (X[:50], kind(X[:50])):
            np.testing.assert_allclose(getattr(sparse, score)(made), expected, atol=1e-6)
        np.testing.assert_allclose(sparse.outlier_proba_, dense.outlier_proba_, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"n_landmarks": 100}], ids=str)
def test_wrong_labels_of_texts_are_found_and_reported(options):
    X, y, right, bad = texts()
    X, y, right, bad, X_new, topic = X[:300], y[:300], right[:300], bad[:300], X[300:], right[300:]
    model = RobustKernelClassifier(random_state=0, **options).fit(csr_matrix(X), y)
    assert np.mean(model.inlier_mask_ == bad) < 0.03
    assert model.score(csr_matrix(X_new), topic) > 0.95
    report = outlier_report(model, csr_matrix(X), y)
    first = report["row"][: bad.sum()]
    assert np.isin(first, np.flatnonzero(bad)).mean() > 0.9
    assert np.mean(report["expected"][: bad.sum()] == right[first]) > 0.9
    np.testing.assert_array_equal(outlier_report(model, X, y)["row"], report["row"])
    with pytest.raises(ValueError, match="rows differ"):
        outlier_report(model, csr_matrix(X[::-1]), y)


@pytest.mark.parametrize("kind", KINDS)
def test_landmark_features_of_sparse_rows_have_the_same_inner_products(kind):
    X = texts()[0]
    made = [landmark_features(nystroem(RBF(0.5), rows[:30]), rows, 1.0) for rows in (X, kind(X))]
    dense, sparse = (features[np.arange(len(X))] for features in made)
    np.testing.assert_allclose(sparse @ sparse.T, dense @ dense.T, atol=1e-8)
    np.testing.assert_allclose(made[1].missed, made[0].missed, atol=1e-8)
    np.testing.assert_allclose(nystroem(RBF(0.5), kind(X)[:30])(kind(X)), sparse[:, :-1], atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_sparse_rows_are_known_and_stored_zeros_make_no_difference(kind):
    rows = kind(np.random.default_rng(0).integers(1, 3, size=(200, 3)).astype(float))
    rows.data[::7] = 0.0
    table = rows.toarray()
    expected = np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)
    found = equal_rows(rows)
    assert np.count_nonzero(rows.data == 0) == len(rows.data[::7])  # what was given stays as it was
    pairs = np.unique(np.column_stack([found, expected]), axis=0)
    assert len(pairs) == expected.max() + 1 == len(np.unique(found))
    distinct = distinct_rows(rows).toarray()
    assert len(distinct) == expected.max() + 1
    np.testing.assert_array_equal(np.unique(distinct, axis=0), np.unique(table, axis=0))
    assert equal_rows(kind(np.eye(5))) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("machine", [SVC, RobustKernelClassifier])
def test_entries_stored_in_parts_and_in_no_order_are_added_up_and_left_as_they_are(machine, kind):
    X, y = (rows[:100] for rows in texts()[:2])
    whole = kind(X)
    parts = kind((np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), 2 * whole.indptr), shape=X.shape)
    for row in range(len(X)):
        span = slice(*parts.indptr[row : row + 2])
        parts.indices[span], parts.data[span] = parts.indices[span][::-1], parts.data[span][::-1]
    parts = kind((parts.data, parts.indices, parts.indptr), shape=X.shape)
    stored = parts.indices.copy()
    one, other = (machine(gamma=0.5).fit(made, y) for made in (whole, parts))
    np.testing.assert_allclose(other.decision_function(whole), one.decision_function(parts), atol=1e-6)
    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), atol=1e-6)
    if machine is RobustKernelClassifier:
        outlier_report(other, parts, y)
    np.testing.assert_array_equal(parts.indices, stored)


def test_a_sparse_frame_is_reported_by_its_row_labels():
    X, y, _, _ = texts(90)
    frame = pd.DataFrame.sparse.from_spmatrix(csr_matrix(X), index=np.arange(1000, 1090))
    frame.columns = frame.columns.astype(str)
    report = outlier_report(RobustKernelClassifier(random_state=0).fit(frame, y), frame, y)
    assert sorted(report["row"]) == list(range(1000, 1090))


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
def test_large_entries_in_single_precision_do_not_overflow(kind):
    X = np.zeros((60, 40), dtype=np.float32)
    X[np.arange(60), np.arange(60) % 40] = np.geomspace(1, 1e25, 60)
    kernel = several_widths(kind(X))
    assert kernel.gammas[0] == pytest.approx(1 / np.median((X.astype(float) ** 2).sum(axis=1)))


def test_widths_are_in_units_of_ordinary_rows_where_columns_are_not_scaled():
    X = texts()[0]
    usual = 1 / np.median((X**2).sum(axis=1))
    X[0] *= 1e6
    for made in (X, csr_matrix(X)):
        assert several_widths(made).gammas[0] == pytest.approx(usual, rel=0.01)
    assert several_widths(X + 1).gammas[0] == 1 / X.shape[1]
    assert several_widths(csr_matrix((20, 4))).gammas[0] == 1 / 4


def test_widths_of_pixels_are_in_units_of_their_rows_and_do_not_depend_on_the_unit_of_grey():
    X = load_digits().data[:300]
    grey = several_widths(X / 16).gammas
    lengths = np.sum((X / 16) ** 2, axis=1)
    assert grey[0] == pytest.approx(1 / np.median(lengths))
    scaled = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1)
    assert several_widths(scaled).gammas[0] == 1 / X.shape[1]


def test_a_wide_sparse_table_stays_sparse():
    topics, rng = np.arange(100) % 2, np.random.default_rng(0)
    words = rng.integers(0, 50, 2000) + np.repeat(topics, 20) * 100_000
    rows = csr_matrix((np.ones(2000), words, np.arange(0, 2001, 20)), shape=(100, 200_000))
    rows.sum_duplicates()
    rows.data[:] = 1
    tracemalloc.start()
    for options in ({}, {"n_landmarks": 20}):
        model = RobustKernelClassifier(kernel="linear", random_state=0, **options).fit(rows, topics)
        assert model.score(rows, topics) == 1
    assert len(outlier_report(model, rows, topics)["row"]) == 100
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # dense rows take 160 MB


def test_kernels_of_rows_of_numbers_refuse_sparse_ones_with_what_to_do():
    X, y, _, _ = texts(60)
    model = RobustKernelClassifier(kernel=lambda A, B: A @ B.T)
    with pytest.raises(ValueError, match="take no sparse X"):
        model.fit(csr_matrix(X), y)
    with pytest.raises(TypeError, match="toarray"):
        model.fit(X, y).predict(csr_matrix(X))


@pytest.mark.parametrize("machine", [SVC(), RobustKernelClassifier(gamma=0.5, random_state=0)], ids=str)
def test_what_was_fitted_to_sparse_rows_can_be_attacked_with_dense_ones(machine):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)) * (rng.random((80, 3)) < 0.7)
    y = (X.sum(axis=1) > 0).astype(int)
    found = []
    for kind in (np.asarray, csr_matrix):
        machine.fit(kind(X), y)
        moved = attacks.fgsm(machine, X[:20], y[:20], eps=0.2)
        found.append((moved, certificates.certified_radius(machine, X[:20]).linf))
    for dense, sparse in zip(*found, strict=True):
        np.testing.assert_allclose(sparse, dense, atol=1e-5)


def test_centres_too_many_to_be_made_dense_are_refused(monkeypatch):
    monkeypatch.setattr(scores, "MOST_DENSE", 1000)
    X, y = (rows[:60] for rows in texts()[:2])
    model = SVC(gamma=0.5).fit(csr_matrix(X), y)
    with pytest.raises(ValueError, match=r"centres of 1000 columns would take 0 GB. Fit it to fewer columns"):
        attacks.fgsm(model, X, y, eps=0.1)
