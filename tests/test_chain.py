"""Chains of smooth functions against the models they were read from and against differences."""

import warnings

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, QuantileTransformer, StandardScaler
from sklearn.svm import SVC as SKLearnSVC
from sklearn.svm import LinearSVC as SKLearnLinearSVC

from buttress import SVC, attacks
from buttress.attacks.chain import read_chain
from buttress.attacks.targets import ChainTarget, QueryTarget, as_target, by_differences

from problems import iris, moons, problems

NETWORK = MLPClassifier((8, 5), max_iter=150, random_state=0)
MODELS = [
    NETWORK,
    MLPClassifier((6,), activation="tanh", max_iter=150, random_state=0),
    MLPClassifier((6,), activation="logistic", max_iter=150, random_state=0),
    MLPClassifier((), activation="identity", max_iter=150, random_state=0),
    make_pipeline(StandardScaler(), PCA(2), SKLearnSVC(gamma=0.5)),
    make_pipeline(TruncatedSVD(1), NETWORK),
    make_pipeline(SelectKBest(k=1), PolynomialFeatures(3), LogisticRegression(max_iter=1000)),
    make_pipeline(PolynomialFeatures(2, include_bias=False), StandardScaler(), SKLearnLinearSVC()),
    CalibratedClassifierCV(SKLearnLinearSVC(), cv=3),
    CalibratedClassifierCV(LogisticRegression(), cv=2, ensemble=False),
    OneVsRestClassifier(SKLearnSVC(gamma=0.5)),
    OneVsRestClassifier(NETWORK),
    OneVsOneClassifier(SVC(gamma=0.5)),
    make_pipeline(ColumnTransformer([("a", StandardScaler(), [0])], remainder="passthrough"), NETWORK),
    make_pipeline(ColumnTransformer([("a", StandardScaler(), [0]), ("b", PCA(1), slice(0, 2)), ("c", "drop", [1])]),
                  NETWORK),
]
models = pytest.mark.parametrize("model", MODELS, ids=lambda m: str(m).replace("\n", "")[:60])


def fitted(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short training
        return model.fit(X, y)


@models
@problems
def test_gradients_agree_with_differences_and_scores_with_the_labels(model, problem):
    X, y = problem()
    model = fitted(model, X, y)
    target = as_target(model)
    assert isinstance(target, ChainTarget)
    rows = X[::9] + 0.013
    scores = target.scores(rows)
    V = np.random.default_rng(0).normal(size=scores.shape)
    slopes = target.linearise(rows)[1](V)
    np.testing.assert_allclose(slopes, by_differences(target.scores, rows, V), rtol=1e-4, atol=1e-5)
    leads = np.einsum("crk,ik->icr", target.contrasts, scores).min(axis=2)
    clear = np.abs(leads).max(axis=1) > 1e-9
    won = leads.max(axis=1) > 0  # of pairs, no class may win all
    np.testing.assert_array_equal(model.classes_[leads.argmax(axis=1)][clear & won], model.predict(rows)[clear & won])
    assert won.mean() > 0.9


@models
def test_probabilities_are_those_of_the_model(model):
    X, y = iris()
    model = fitted(model, X, y)
    chain = read_chain(model).scores
    if isinstance(model, CalibratedClassifierCV):
        logs = chain(X)[0]
        np.testing.assert_allclose(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True),
                                   np.log(model.predict_proba(X)), atol=1e-9)
    elif isinstance(model, MLPClassifier):
        logits = chain(X)[0]
        np.testing.assert_allclose(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True),
                                   np.log(model.predict_proba(X)), atol=1e-9)


def test_columns_by_name_give_the_gradients_of_columns_by_number():
    pandas = pytest.importorskip("pandas")
    X, y = iris()
    frame = pandas.DataFrame(X, columns=list("abcd"))

    def made(columns):
        parts = [("scaled", StandardScaler(), columns), ("rest", "passthrough", columns[:1])]
        return make_pipeline(ColumnTransformer(parts), LogisticRegression())

    by_name, by_number = made(["c", "a"]).fit(frame, y), made([2, 0]).fit(X, y)
    moved = attacks.pgd(by_name, frame, y, eps=0.3, random_state=0)
    other = attacks.pgd(by_number, X, y, eps=0.3, random_state=0)
    np.testing.assert_allclose(np.asarray(moved), other, atol=1e-9)
    assert isinstance(moved, pandas.DataFrame)
    turned = frame[["d", "c", "b", "a"]]
    info = attacks.pgd(by_name, turned, y, eps=0.3, random_state=0, return_info=True)[1]  # asked, not read
    assert info.queries > 10 * len(X)


def test_a_network_that_is_sure_is_attacked_through_its_logits():
    X, y = moons(100)
    model = fitted(MLPClassifier((10,), max_iter=300, random_state=0), X, y)
    model.coefs_[-1] *= 1000  # probabilities are 0 and 1 to the last digit
    model.intercepts_[-1] *= 1000
    sure = attacks.pgd(model, X, y, eps=0.3, random_state=0, return_info=True)[1]
    model.coefs_[-1] /= 1000
    model.intercepts_[-1] /= 1000
    plain = attacks.pgd(model, X, y, eps=0.3, random_state=0, return_info=True)[1]
    assert sure.success.mean() == pytest.approx(plain.success.mean(), abs=0.02)


@pytest.mark.parametrize("model", [make_pipeline(QuantileTransformer(n_quantiles=20), LogisticRegression()),
                                   CalibratedClassifierCV(GaussianNB(), cv=2), CalibratedClassifierCV(NETWORK, cv=2),
                                   CalibratedClassifierCV(LogisticRegression(), method="isotonic", cv=2)],
                         ids=lambda m: str(m)[:40])
def test_other_models_are_asked(model):
    X, y = moons(60)
    assert type(as_target(fitted(model, X, y))) is QueryTarget


class Refitted(MLPClassifier):
    """A network that only fits in another way."""

    def fit(self, X, y):
        return super().fit(np.concatenate([X, X + 0.1]), np.concatenate([y, y]))


class Turned(MLPClassifier):
    """A network that answers in another way."""

    def predict_proba(self, X):
        return super().predict_proba(X)[:, ::-1]


def test_a_network_of_a_subclass_is_read_where_it_answers_as_one():
    X, y = iris()
    plain, mine, turned = (fitted(kind((6,), max_iter=60, random_state=0), X, y)
                           for kind in (MLPClassifier, Refitted, Turned))
    twice = np.concatenate([X, X + 0.1]), np.concatenate([y, y])
    again = fitted(MLPClassifier((6,), max_iter=60, random_state=0), *twice)
    assert read_chain(plain) is not None
    assert read_chain(turned) is None
    np.testing.assert_allclose(read_chain(mine).scores(X)[0], read_chain(again).scores(X)[0])
