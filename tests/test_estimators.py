"""What every estimator owes scikit-learn, pandas and polars users; adding one means adding a row to ESTIMATORS."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone, is_classifier, is_outlier_detector
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from buttress import (
    CRR,
    STIR,
    SVC,
    SVDD,
    SVR,
    AdversarialClassifier,
    AdversarialLinearSVC,
    AdversarialSVC,
    AdvSVM,
    BatchedRidge,
    BatchedRidgeClassifier,
    CertifiedSVC,
    ConformalDetector,
    FreeRangeSVC,
    KernelClassifier,
    KernelRegressor,
    LeastSquaresClassifier,
    LinearSVC,
    LinearSVR,
    MultiKernelSVDD,
    NuSVC,
    NuSVR,
    OneClassSVM,
    RobustBoostingClassifier,
    RobustBoostingRegressor,
    RobustKernelClassifier,
    RobustKernelRegressor,
    RobustLinearRegressor,
    SeverClassifier,
    SeverRegressor,
    StochasticAdvSVM,
    TrimmedLikelihoodClassifier,
    TrimmedLikelihoodRegressor,
    load,
    save,
)
from buttress.kernels import RBF

from problems import iris, moons

RKHS = {"C": 100.0, "eps": 1e-3}
ESTIMATORS = [
    SVC(),
    SVR(),
    LinearSVC(),
    NuSVC(nu=0.3),
    NuSVR(),
    LinearSVR(),
    OneClassSVM(),
    BatchedRidge(),
    BatchedRidgeClassifier(),
    LeastSquaresClassifier(),
    LeastSquaresClassifier(alpha="loo"),
    SVDD(),
    MultiKernelSVDD(),
    ConformalDetector(SVDD(), cv=3, random_state=0),
    AdversarialClassifier([CertifiedSVC(max_iter=30), AdversarialSVC(max_iter=30)], random_state=0),
    AdversarialSVC(max_iter=30, random_state=0),
    CertifiedSVC(max_iter=30, random_state=0),
    AdvSVM(**RKHS),
    StochasticAdvSVM(**RKHS, n_features=256, batch_size=20, n_passes=10, random_state=0),
    StochasticAdvSVM(**RKHS, n_features=None, batch_size=20, n_passes=10, random_state=0),
    FreeRangeSVC(C_f=0.01),
    AdversarialLinearSVC(eps=0.01),
    RobustBoostingClassifier(eps=0.01, n_estimators=20),
    RobustBoostingRegressor(eps=0.01, n_estimators=20),
    AdversarialLinearSVC(norm="l2", eps=0.01),
    KernelClassifier(),
    KernelRegressor(),
    SeverClassifier(),
    SeverRegressor(),
    CRR(),
    STIR(),
    TrimmedLikelihoodClassifier(),
    TrimmedLikelihoodRegressor(),
    RobustKernelClassifier(random_state=0),
    RobustKernelRegressor(random_state=0),
    RobustKernelRegressor(kernel="columns", random_state=0),
    RobustLinearRegressor(random_state=0),
]


def data_for(estimator):
    """Two moons: their labels for a classifier, else a smooth function of the points (outlier detectors ignore it)."""
    X, y = moons(60)
    return (X, y) if is_classifier(estimator) else (X, np.sin(2 * X[:, 0]) + X[:, 1])


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_keep_their_names_and_predict_as_arrays(estimator, frame):
    X, y = data_for(estimator)
    table = frame({"width": X[:, 0], "height": X[:, 1]})
    model = clone(estimator).fit(table, y)
    assert list(model.feature_names_in_) == ["width", "height"]
    expected = clone(estimator).fit(X, y).predict(X)
    np.testing.assert_allclose(model.predict(table), expected, atol=1e-9)


KERNEL_PREDICTORS = [e for e in ESTIMATORS if "kernel" in e.get_params() and not is_outlier_detector(e)]


@pytest.mark.parametrize("estimator", KERNEL_PREDICTORS, ids=lambda e: type(e).__name__)
def test_pickle_and_grid_search_over_a_kernel_object(estimator):
    X, y = data_for(estimator)
    model = clone(estimator).set_params(kernel=RBF())
    grid = {f"{type(model).__name__.lower()}__kernel__gamma": [1e-4, 2.0]}
    search = GridSearchCV(make_pipeline(StandardScaler(), model), grid, cv=2).fit(X, y)
    assert search.best_estimator_[-1].kernel.gamma == 2.0
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))


@pytest.mark.parametrize("estimator", [e for e in ESTIMATORS if "max_iter" in e.get_params()],
                         ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("limit", [-2, 0, 1.5])
def test_limits_of_iterations_are_counts(estimator, limit):
    with pytest.raises(ValueError, match="max_iter must be a whole number of at least 1"):
        clone(estimator).set_params(max_iter=limit).fit(*data_for(estimator))


@pytest.mark.parametrize(("estimator", "name"), [(SVC(), "cache_size"), (StochasticAdvSVM(**RKHS), "batch_size")])
def test_short_whole_numbers_of_numpy_are_whole_numbers(estimator, name):
    X, y = moons(300)
    made = [clone(estimator).set_params(random_state=0, **{name: kind(200)}).fit(X, y) for kind in (int, np.uint8)]
    np.testing.assert_array_equal(*(model.decision_function(X) for model in made))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_a_model_file_holds_it(estimator, tmp_path):
    X, y = data_for(estimator)
    model = clone(estimator).fit(X, y)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert str(again) == str(model)


@pytest.mark.parametrize("estimator", [e for e in ESTIMATORS if is_classifier(e)
                                       and get_tags(e).classifier_tags.multi_class], ids=lambda e: type(e).__name__)
def test_labels_may_be_text_and_more_than_two(estimator):
    X, y = iris()
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = clone(estimator).fit(X, names)
    # scores linear in the columns, one class against the rest, cannot single out the class in the middle
    assert model.score(X, names) > (0.8 if isinstance(model, BatchedRidgeClassifier) else 0.9)
    assert model.decision_function(X).shape == (150, 3)
