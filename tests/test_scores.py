"""The scores attacks and certificates read of fitted classifiers, against what those classifiers say."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC as SKLearnSVC
from sklearn.svm import LinearSVC, NuSVC

from buttress import SVC, SeverClassifier, TrimmedLikelihoodClassifier, attacks
from buttress.attacks.targets import ExpansionTarget, as_target, by_differences
from buttress.certificates import certified_radius
from buttress.expansion import winners
from buttress.scores import read_scores

from problems import iris, moons, points

READ = [
    SKLearnSVC(gamma=0.5),
    SKLearnSVC(kernel="poly", degree=2, coef0=0.5, gamma=0.7),
    SKLearnSVC(kernel="sigmoid", gamma=0.1, decision_function_shape="ovo"),
    NuSVC(nu=0.3),
    LinearSVC(),
    LogisticRegression(),
    RidgeClassifier(),
    SGDClassifier(random_state=0),
    LinearDiscriminantAnalysis(),
    make_pipeline(StandardScaler(), MinMaxScaler((-1, 2)), SKLearnSVC()),
    make_pipeline(RobustScaler(), "passthrough", MaxAbsScaler(), LogisticRegression()),
    make_pipeline(StandardScaler(with_mean=False), Nystroem(n_components=20, random_state=0), LinearSVC()),
    make_pipeline(Nystroem(n_components=20, random_state=0), StandardScaler(), LogisticRegression()),
    make_pipeline(StandardScaler(), SVC(gamma=0.5)),
    GridSearchCV(make_pipeline(StandardScaler(), SKLearnSVC()), {"svc__C": [1, 10]}, cv=2),
    SeverClassifier(),
    SeverClassifier(make_pipeline(StandardScaler(), LogisticRegression()), kernel="linear"),
]


@pytest.mark.parametrize("model", READ, ids=lambda e: re.sub(r"\W+", "-", str(e))[:60])
@pytest.mark.parametrize("problem", [moons, iris], ids=["two-classes", "three-classes"])
def test_scores_of_scikit_learn_models_are_read_exactly(model, problem):
    X, y = problem()
    X = 3 * X + np.arange(X.shape[1])
    model = clone(model).fit(X, y)
    target = as_target(model)
    assert isinstance(target, ExpansionTarget)
    scores = target.scores(X)
    np.testing.assert_array_equal(model.classes_[winners(scores, target.contrasts)], model.predict(X))
    theirs = model.decision_function(X)
    if theirs.ndim == 1 or not isinstance(getattr(model, "best_estimator_", model), (SKLearnSVC, NuSVC, SVC, Pipeline)):
        np.testing.assert_allclose(scores, theirs.reshape(scores.shape), atol=1e-8)
    contrast = points(len(X), scores.shape[1])
    exact, numeric = read_scores(model).gradient(X, contrast), by_differences(target.scores, X, contrast)
    np.testing.assert_allclose(exact, numeric, atol=1e-4 * np.abs(exact).max())
    np.testing.assert_allclose(target.linearise(X)[1](contrast), exact, atol=1e-9 * np.abs(exact).max())
    np.testing.assert_allclose(target.linearise(X)[0], scores, atol=1e-9)


def test_scores_of_trimmed_likelihood_are_read_exactly():
    X, y = moons()
    model = TrimmedLikelihoodClassifier(contamination=0.1).fit(X, y)
    target = as_target(model)
    assert isinstance(target, ExpansionTarget)
    np.testing.assert_allclose(target.scores(X)[:, 0], model.decision_function(X), atol=1e-12)
    distance = np.abs(model.decision_function(X)) / np.linalg.norm(model.coef_)
    np.testing.assert_allclose(certified_radius(model, X).l2, distance, rtol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        SKLearnSVC(decision_function_shape="ovo"),
        make_pipeline(PCA(2), SKLearnSVC(decision_function_shape="ovo")),
        make_pipeline(MinMaxScaler(clip=True), SVC()),
        make_pipeline(StandardScaler(), GaussianNB()),
        CalibratedClassifierCV(LinearSVC(), cv=2),
        SKLearnSVC(kernel=polynomial_kernel),
        SVC(decision_function_shape="ovo"),
    ],
    ids=lambda e: re.sub(r"at 0x\w+|\W+", "-", str(e))[:60],
)
def test_other_models_are_attacked_through_their_scores(model):
    X, y = iris()
    model = clone(model).fit(X, y)
    found, info = attacks.pgd(model, X, y, eps=0.3, steps=10, return_info=True)
    np.testing.assert_array_equal(info.success, model.predict(found) != y)
    assert info.success.sum() > (model.predict(X) != y).sum() + 10


def test_kernel_ridge_on_signs_is_attacked_as_its_sign():
    X, y = moons()
    y = 2 * y - 1
    model = make_pipeline(StandardScaler(), KernelRidge(kernel="rbf", gamma=1.0)).fit(X, y)
    found, info = attacks.pgd(model, X, y, eps=0.3, return_info=True)
    np.testing.assert_array_equal(info.success, np.where(model.predict(found) > 0, 1, -1) != y)
    assert info.success.sum() > 20
    with pytest.raises(ValueError, match=r"label 0, which is not among the classes of the model, \[-1, 1\]"):
        attacks.pgd(model, X, (y + 1) // 2, eps=0.3)
