"""Nystroem features as a transformer: those of scikit-learn on the same landmarks, and the kernel itself."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem as Peer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from buttress import Nystroem, load, save
from buttress.kernels import RBF, Laplacian, Linear

from problems import moons

X, Y = moons(80)


@parametrize_with_checks([Nystroem(), Nystroem("laplacian", n_components=5, landmarks="uniform")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("landmarks", ["kmeans++", "uniform"])
@pytest.mark.parametrize(("kernel", "options"), [
    ("rbf", {"gamma": 0.7}), ("linear", {}), ("poly", {"gamma": 0.3, "degree": 2, "coef0": 1.0}),
])
def test_inner_products_are_those_of_scikit_learn_on_the_same_landmarks(kernel, options, landmarks):
    model = Nystroem(kernel, n_components=15, landmarks=landmarks, random_state=0, **options).fit(X)
    features = model.transform(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more components than landmarks are no matter here
        peer = Peer(kernel=kernel, n_components=15, **options).fit(model.components_)
    theirs = peer.transform(X)
    np.testing.assert_allclose(features @ features.T, theirs @ theirs.T, atol=1e-8)


def test_the_kernel_itself_where_a_row_is_a_landmark():
    model = Nystroem(RBF(0.7), n_components=20, random_state=0).fit(X)
    at_landmarks = model.transform(model.components_)
    np.testing.assert_allclose(model.transform(X) @ at_landmarks.T, RBF(0.7)(X, model.components_), atol=1e-8)


def test_landmarks_are_different_rows_and_no_more():
    few = np.repeat(X[:7], 5, axis=0)
    model = Nystroem(n_components=20, random_state=0).fit(few)
    assert model.components_.shape == (7, 2)
    assert model.transform(X).shape == (80, 7)
    assert {tuple(row) for row in model.components_} == {tuple(row) for row in X[:7]}


@pytest.mark.parametrize("landmarks", ["kmeans++", "uniform"])
def test_sparse_rows_have_the_features_of_dense_ones(landmarks):
    model = Nystroem(gamma=0.7, n_components=15, landmarks=landmarks, random_state=0).fit(csr_array(X))
    dense = clone(model).set_params(n_components=15).fit(X)
    dense.components_, dense.normalization_ = model.components_.toarray(), model.normalization_
    np.testing.assert_allclose(model.transform(csr_array(X)), dense.transform(X), atol=1e-10)
    np.testing.assert_allclose(model.transform(X), dense.transform(X), atol=1e-10)


def test_frames_names_pipelines_and_a_search_over_a_kernel_object():
    table = pd.DataFrame(X, columns=["width", "height"])
    model = Nystroem(n_components=3, random_state=0).set_output(transform="pandas").fit(table)
    assert list(model.transform(table).columns) == ["nystroem0", "nystroem1", "nystroem2"]
    assert list(model.get_feature_names_out()) == ["nystroem0", "nystroem1", "nystroem2"]
    pipeline = make_pipeline(Nystroem(RBF(), n_components=30, random_state=0), LogisticRegression(C=10.0))
    search = GridSearchCV(pipeline, {"nystroem__kernel__gamma": [1e-4, 2.0]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"nystroem__kernel__gamma": 2.0}


@pytest.mark.parametrize("rows", [X, csr_array(X)], ids=["dense", "sparse"])
def test_a_model_file_holds_it(rows, tmp_path):
    model = make_pipeline(Nystroem(Laplacian(0.5), n_components=10, random_state=0), LogisticRegression()).fit(rows, Y)
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(rows), model.predict_proba(rows))


@pytest.mark.parametrize(("change", "message"), [
    ({"kernel": "precomputed"}, "takes no precomputed kernel"),
    ({"kernel": "sigmoid", "gamma": 5.0, "coef0": -3.0}, "positive definite"),
    ({"landmarks": "grid"}, "landmarks must be one of"),
    ({"n_components": 0}, "n_components must be"),
    ({"kernel": "rbv"}, "kernel must be one of"),
])
def test_refusals_name_what_to_use(change, message):
    with pytest.raises(ValueError, match=message):
        Nystroem(**change).fit(X)


def test_a_linear_kernel_has_as_many_directions_as_columns():
    features = Nystroem(Linear(), n_components=20, random_state=0).fit(X).transform(X)
    np.testing.assert_allclose(features @ features.T, X @ X.T, atol=1e-8)
    assert np.linalg.matrix_rank(features, tol=1e-6) == 2
