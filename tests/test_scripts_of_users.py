"""Twelve scripts as users of scikit-learn write them, with one changed import; each must say what is true."""

import numpy as np
import pandas as pd
import pytest
import sklearn.svm
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_iris, make_classification, make_regression
from sklearn.ensemble import StackingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, cross_val_score, learning_curve, train_test_split
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from buttress import SVC, SVR, LinearSVC, NuSVC


def informative(n=120, seed=0):
    """Two classes told apart by the first two of eight columns."""
    return make_classification(n, n_features=8, n_informative=2, n_redundant=0, shuffle=False, class_sep=2.0,
                               random_state=seed)


def test_recursive_feature_elimination():
    X, y = informative()
    for model in (SVC(kernel="linear"), LinearSVC(dual="auto", random_state=0)):
        kept = RFE(estimator=model, n_features_to_select=2, step=1).fit(X, y)
        assert set(np.flatnonzero(kept.support_)) == {0, 1}


def test_columns_selected_by_a_model():
    X, y = make_regression(100, 10, n_informative=3, noise=1.0, random_state=0, coef=False)
    _, _, truth = make_regression(100, 10, n_informative=3, noise=1.0, random_state=0, coef=True)
    chosen = SelectFromModel(SVR(kernel="linear", C=10), max_features=3, threshold=-np.inf).fit(X, y)
    assert set(np.flatnonzero(chosen.get_support())) == set(np.flatnonzero(truth))


def test_oversampling_near_support_vectors():
    imblearn = pytest.importorskip("imblearn.over_sampling")
    X, y = make_classification(200, weights=[0.85], random_state=0)
    _, labels = imblearn.SVMSMOTE(random_state=0, svm_estimator=SVC(random_state=0)).fit_resample(X, y)
    assert np.bincount(labels).min() > np.bincount(y).min()


def test_stacking():
    X, y = load_breast_cancer(return_X_y=True)
    layers = [("svm", make_pipeline(StandardScaler(), SVC(random_state=42))),
              ("nu", make_pipeline(StandardScaler(), NuSVC(nu=0.2)))]
    model = StackingClassifier(estimators=layers, final_estimator=LogisticRegression(), cv=3)
    assert cross_val_score(model, X, y, cv=2).min() > 0.93


def test_calibration():
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(StandardScaler().fit_transform(X), y, random_state=0)
    model = CalibratedClassifierCV(SVC(random_state=0), ensemble=False).fit(X_train, y_train)
    probability = model.predict_proba(X_test)[:, 1]
    assert np.mean((probability - y_test) ** 2) < 0.04


def test_one_against_one():
    X, y = load_iris(return_X_y=True)
    model = OneVsOneClassifier(LinearSVC(random_state=0)).fit(X, y)
    assert len(model.estimators_) == 3
    assert model.score(X, y) > 0.95


def test_sparse_text():
    cats = ["the cat sat on the mat", "a cat and a kitten purr", "the kitten chased the mouse", "my cat sleeps"]
    cars = ["the car has a new engine", "an engine needs oil", "the wheels of the car", "a fast car on the road"]
    model = make_pipeline(TfidfVectorizer(), LinearSVC(C=10, random_state=0))
    search = GridSearchCV(model, {"linearsvc__C": [1, 10]}, cv=2).fit(cats + cars, ["cat"] * 4 + ["car"] * 4)
    assert search.predict(["my kitten and my cat", "oil for the engine"]).tolist() == ["cat", "car"]
    kernel = make_pipeline(TfidfVectorizer(), SVC(kernel="linear")).fit(cats + cars, [0] * 4 + [1] * 4)
    assert kernel[-1].coef_.shape == (1, len(kernel[0].vocabulary_))


def test_a_kernel_of_strings():
    def common_pairs(A, B):
        pairs = [[{a[i:i + 2] for i in range(len(a) - 1)} for a in side] for side in (A, B)]
        return np.array([[len(a & b) for b in pairs[1]] for a in pairs[0]], dtype=float)

    genes = ["ACACAC", "CACACA", "ACACGT", "GTGTGT", "TGTGTG", "GTGTAC"]
    model = SVC(kernel=common_pairs).fit(genes, [0, 0, 0, 1, 1, 1])
    assert model.predict(["ACACACAC", "TGTG"]).tolist() == [0, 1]


def test_a_learning_curve():
    X, y = load_iris(return_X_y=True)
    sizes, train, test = learning_curve(SVC(gamma=0.1, random_state=0), X, y, train_sizes=[0.2, 1.0], cv=3,
                                        shuffle=True, random_state=0)
    assert sizes[1] == 100
    assert test.mean(axis=1)[1] > 0.9
    assert train.shape == (2, 3)


def test_importance_of_columns():
    X, y = informative()
    ours, theirs = (permutation_importance(kind(random_state=0).fit(X, y), X, y, n_repeats=5, random_state=0)
                    for kind in (SVC, sklearn.svm.SVC))
    np.testing.assert_allclose(ours.importances_mean, theirs.importances_mean, atol=0.01)


def test_halving_search():
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), SVC(random_state=0))
    search = HalvingGridSearchCV(model, {"svc__C": [0.001, 1, 10], "svc__gamma": ["scale", "auto"]}, cv=3,
                                 random_state=0).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.best_params_["svc__C"] != 0.001


def test_a_pipeline_that_speaks_pandas():
    table = pd.DataFrame({"size": [1.0, 2.0, 8.0, 9.0] * 5, "colour": ["red", "blue", "blue", "red"] * 5})
    y = pd.Series(["small", "small", "large", "large"] * 5, dtype="category")
    columns = make_column_transformer((StandardScaler(), ["size"]), (OneHotEncoder(sparse_output=False), ["colour"]))
    model = make_pipeline(columns, SVC(class_weight="balanced", random_state=0)).set_output(transform="pandas")
    model.fit(table, y)
    assert model[-1].feature_names_in_.tolist() == [
        "standardscaler__size", "onehotencoder__colour_blue", "onehotencoder__colour_red"]
    assert model.score(table, y) == 1.0
