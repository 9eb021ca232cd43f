"""scikit-learn's classes in model files: each comes back and answers as before, and the file names the class."""

import ast
from pathlib import Path

import numpy as np
import pytest
import sklearn
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
    make_column_transformer,
)
from sklearn.decomposition import PCA, FactorAnalysis, FastICA, IncrementalPCA, KernelPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import (
    RFE,
    RFECV,
    GenericUnivariateSelect,
    SelectFdr,
    SelectFpr,
    SelectFromModel,
    SelectFwe,
    SelectKBest,
    SelectPercentile,
    SequentialFeatureSelector,
    VarianceThreshold,
    chi2,
    f_regression,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    Nystroem,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    ARDRegression,
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    HuberRegressor,
    Lars,
    LarsCV,
    Lasso,
    LassoCV,
    LassoLars,
    LassoLarsCV,
    LassoLarsIC,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    OrthogonalMatchingPursuit,
    OrthogonalMatchingPursuitCV,
    Perceptron,
    QuantileRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
    TheilSenRegressor,
)
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    RandomizedSearchCV,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    KernelCenterer,
    LabelBinarizer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    MultiLabelBinarizer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.svm import LinearSVC as PlainLinearSVC
from sklearn.svm import LinearSVR
from sklearn.utils.fixes import parse_version

from buttress import SVC, KernelRegressor, ModelFileError, load, save
from buttress.files.container import pack, unpack
from buttress.files.values import Encoder
from buttress.persistence.classes import SKLEARN
from buttress.persistence.models import encoded

RNG = np.random.default_rng(0)
X = np.abs(RNG.normal(size=(60, 4)))
Y = (X[:, 0] + X[:, 1] > 1.5).astype(int)
LEVELS = RNG.integers(0, 3, size=(60, 2))
HOLES = np.where(X > 2, np.nan, X)
TEXTS = np.array(["a cat", "the dog saw a cat", "a mouse", "dog and mouse"] * 15, dtype=object)
RECORDS = [{"size": float(x), "kind": kind} for x, kind in zip(X[:, 0], ["a", "b"] * 30, strict=True)]

TRANSFORMERS = [
    *(make() for make in (
        Binarizer, KBinsDiscretizer, MaxAbsScaler, MinMaxScaler, Normalizer, PolynomialFeatures, PowerTransformer,
        RobustScaler, StandardScaler, VarianceThreshold, FactorAnalysis, IncrementalPCA,
        KernelPCA, PCA, TruncatedSVD, SelectFpr, SelectFwe, SelectPercentile, GenericUnivariateSelect,
        AdditiveChi2Sampler, PolynomialCountSketch, RBFSampler, SkewedChi2Sampler, TargetEncoder)),
    FastICA(tol=0.1), FunctionTransformer(np.log1p, inverse_func=np.expm1), SelectKBest(chi2, k=2),
    SelectFdr(f_regression, alpha=0.9),
    SplineTransformer(), SplineTransformer(extrapolation="periodic"), KernelPCA(kernel="rbf"),
    QuantileTransformer(n_quantiles=9, output_distribution="normal"), KBinsDiscretizer(encode="ordinal"),
    Nystroem(n_components=5), GaussianRandomProjection(3), SparseRandomProjection(3),
    SelectFromModel(LogisticRegression()), RFE(Ridge(), n_features_to_select=2), RFECV(Ridge()),
    SequentialFeatureSelector(Ridge(), n_features_to_select=2),
    make_union(PCA(2), StandardScaler()), make_pipeline(PCA(3), MinMaxScaler()),
    make_column_transformer((PCA(1), [0, 1]), ("drop", [2]), remainder="passthrough"),
]
SPECIAL = [  # what is fitted to other rows
    (OneHotEncoder(), LEVELS), (OneHotEncoder(drop="first", sparse_output=False), LEVELS), (OrdinalEncoder(), LEVELS),
    (SimpleImputer(add_indicator=True), HOLES), (KNNImputer(), HOLES), (MissingIndicator(), HOLES),
    (CountVectorizer(), TEXTS), (TfidfVectorizer(stop_words="english", ngram_range=(1, 2)), TEXTS),
    (TfidfVectorizer(analyzer="char", max_features=5), TEXTS), (HashingVectorizer(n_features=16), TEXTS),
    (DictVectorizer(), RECORDS), (FeatureHasher(n_features=8), RECORDS),
    (KernelCenterer(), X @ X.T), (MultiLabelBinarizer(), [["a"], ["b", "c"]] * 30), (LabelEncoder(), TEXTS),
    (LabelBinarizer(), TEXTS),
]
SPLITTERS = [KFold(2), StratifiedKFold(2), ShuffleSplit(2, random_state=0), StratifiedShuffleSplit(2, random_state=0)]
CLASSIFIERS = [
    *(make() for make in (
        LogisticRegression, RidgeClassifier, RidgeClassifierCV, SGDClassifier, Perceptron, PlainLinearSVC, GaussianNB,
        MultinomialNB, BernoulliNB, ComplementNB, LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis,
        DummyClassifier)),
    *(CalibratedClassifierCV(SVC(), cv=splitter) for splitter in SPLITTERS),
    CalibratedClassifierCV(LogisticRegression(), method="isotonic", cv=2),
    CalibratedClassifierCV(FrozenEstimator(SVC().fit(X, Y))),
    CalibratedClassifierCV(GaussianNB(), ensemble=False, cv=2),
    LogisticRegressionCV(cv=2, Cs=2, scoring="accuracy", l1_ratios=(0,), use_legacy_attributes=False)
    if "use_legacy_attributes" in LogisticRegressionCV().get_params() else LogisticRegressionCV(cv=2, Cs=2),
    OneVsOneClassifier(SVC()), OneVsRestClassifier(SVC()),
    MLPClassifier(hidden_layer_sizes=(3,), max_iter=300, tol=0.1),
    StackingClassifier([("a", SVC()), ("b", GaussianNB())], cv=2),
    VotingClassifier([("a", SVC()), ("b", GaussianNB())]),
    make_pipeline(SelectKBest(k=2), PCA(), PolynomialFeatures(), SVC()),
    GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [1, 10]}, cv=2),
    RandomizedSearchCV(SVC(), {"C": [1, 10]}, n_iter=1, cv=2),
]
REGRESSORS = [
    *(make() for make in (
        ARDRegression, BayesianRidge, ElasticNet, HuberRegressor, Lars, Lasso, LassoLars, LassoLarsIC,
        LinearRegression, OrthogonalMatchingPursuit, QuantileRegressor, Ridge, RidgeCV, SGDRegressor, LinearSVR,
        TheilSenRegressor, DummyRegressor, KernelRidge)),
    *(make(cv=2) for make in (ElasticNetCV, LarsCV, LassoCV, LassoLarsCV, OrthogonalMatchingPursuitCV)),
    TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp),
    MLPRegressor(hidden_layer_sizes=(3,), max_iter=300, tol=0.1),
    StackingRegressor([("a", Ridge()), ("b", KernelRegressor())], cv=2),
    VotingRegressor([("a", Ridge()), ("b", KernelRegressor())]),
]
PARTS_OF_OTHERS = {"FeatureUnion", "IsotonicRegression", "Pipeline", "TfidfTransformer", "_CalibratedClassifier",
                   "_SigmoidCalibration"}  # of unions, calibration, pipelines and TF-IDF


def write_unchecked(model, path):
    """Write a model's file without the check that it comes back, as an attacker would."""
    encoder = Encoder(encoded)
    path.write_bytes(b"".join(pack(encoder.encode(model, "model"), encoder.arrays, {}, grown=encoder.grown)))


def again(model, path):
    """The model saved and loaded."""
    save(model, path / "model")
    content = (path / "model").read_bytes()
    assert "sklearn.model_selection:" not in str(unpack("model", content).model)
    return load(path / "model")


def same(found, expected):
    """Exactly equal, sparse or dense."""
    assert issparse(found) == issparse(expected)
    if issparse(found):
        found, expected = found.toarray(), expected.toarray()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("model", TRANSFORMERS, ids=lambda model: str(model)[:40].replace("\n", ""))
def test_a_transformer_comes_back(model, tmp_path):
    model = model.fit(X, Y)
    loaded = again(model, tmp_path)
    same(loaded.transform(X), model.transform(X))
    assert set(vars(loaded)) - {"_sklearn_version"} == set(vars(model)) - {"_sklearn_version"}
    if hasattr(model, "get_feature_names_out"):
        same(loaded.get_feature_names_out(), model.get_feature_names_out())


@pytest.mark.parametrize(("model", "rows"), SPECIAL, ids=lambda part: type(part).__name__)
def test_a_transformer_of_other_rows_comes_back(model, rows, tmp_path):
    model = model.fit(rows)
    same(again(model, tmp_path).transform(rows), model.transform(rows))


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: str(model)[:40].replace("\n", ""))
def test_a_classifier_comes_back(model, tmp_path):
    model = model.fit(X, Y)
    loaded = again(model, tmp_path)
    same(loaded.predict(X), model.predict(X))
    for method in ("predict_proba", "decision_function"):
        if hasattr(model, method):
            same(getattr(loaded, method)(X), getattr(model, method)(X))


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda model: str(model)[:40].replace("\n", ""))
def test_a_regressor_comes_back(model, tmp_path):
    model = model.fit(X, X @ [1, 2, 3, 4] + 1)
    np.testing.assert_allclose(again(model, tmp_path).predict(X), model.predict(X), rtol=1e-13)


def test_of_a_search_the_best_is_saved(tmp_path):
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.01, 10]}, cv=2).fit(X, Y)
    loaded = again(search, tmp_path)
    assert search.best_params_["svc__C"] == loaded[-1].C
    inside = make_pipeline(MinMaxScaler(), GridSearchCV(SVC(), {"C": [0.01, 10]}, cv=2)).fit(X, Y)
    same(again(inside, tmp_path).decision_function(X), inside.decision_function(X))


def test_other_models_and_splitters_come_back(tmp_path):
    bayes = CategoricalNB().fit(LEVELS, Y)
    same(again(bayes, tmp_path).predict(LEVELS), bayes.predict(LEVELS))
    for splitter in (GroupKFold(2), StratifiedGroupKFold(2), LeaveOneOut(), TimeSeriesSplit(2)):
        search = CalibratedClassifierCV(GaussianNB(), cv=2).fit(X, Y)
        search.cv = splitter
        assert vars(again(search, tmp_path).cv) == vars(splitter)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_column_selectors_texts_and_passthrough_come_back(library, tmp_path):
    frames = pytest.importorskip(library)
    if library == "polars" and parse_version(sklearn.__version__) < parse_version("1.8"):
        pytest.skip("texts in a column of polars are beyond this scikit-learn")
    frame = frames.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": np.array(["u", "v"] * 30, dtype=object),
                              "words": TEXTS, "left": X[:, 2]})
    chosen = [["a", "b"], ["kind"]]
    if library == "pandas":
        chosen = [make_column_selector(dtype_include=np.number, pattern="^[ab]$"), make_column_selector("kind")]
    model = make_pipeline(
        ColumnTransformer([("numbers", PowerTransformer(), chosen[0]), ("kinds", OneHotEncoder(), chosen[1]),
                           ("words", TfidfVectorizer(), "words")], remainder="passthrough"), SVC())
    model.fit(frame, Y)
    loaded = again(model, tmp_path)
    same(loaded.decision_function(frame), model.decision_function(frame))
    same(loaded[:-1].get_feature_names_out(), model[:-1].get_feature_names_out())


MIXED = np.column_stack([HOLES[:, 0], LEVELS, HOLES[:, 1]])
BOOSTED = [
    (HistGradientBoostingClassifier(max_iter=5, categorical_features=[1, 2], min_samples_leaf=2), Y),
    (HistGradientBoostingClassifier(max_iter=5, categorical_features=[2], min_samples_leaf=2), LEVELS[:, 0]),
    (HistGradientBoostingClassifier(max_iter=5), np.array(["no", "yes"])[Y]),
    (HistGradientBoostingRegressor(max_iter=5, loss="gamma"), X[:, 0] + 1),
    (HistGradientBoostingRegressor(max_iter=5, categorical_features=[1]), X[:, 0]),
]


@pytest.mark.parametrize(("model", "target"), BOOSTED)
def test_boosting_comes_back(model, target, tmp_path):
    model = model.fit(MIXED, target)
    loaded = again(model, tmp_path)
    unseen = MIXED.copy()
    unseen[::5, 1] = 9
    unseen[::3, 2] = np.nan
    for rows in (MIXED, unseen):
        same(loaded.predict(rows), model.predict(rows))
        if hasattr(model, "predict_proba"):
            same(loaded.predict_proba(rows), model.predict_proba(rows))
    same(clone(loaded).fit(MIXED, target).predict(MIXED), model.predict(MIXED))


@pytest.mark.parametrize(("part", "value"), [("left", 0), ("right", 10**6), ("feature_idx", 4), ("feature_idx", -1),
                                             ("bitset_idx", 9), ("is_categorical", 1)])
def test_trees_that_point_outside_are_refused(part, value, tmp_path):
    model = HistGradientBoostingClassifier(max_iter=2, categorical_features=[1, 2], min_samples_leaf=2)
    model.fit(MIXED, (LEVELS[:, 0] == 1) ^ Y)
    for tree in (tree for iteration in model._predictors for tree in iteration):
        inner = tree.nodes["is_leaf"] == 0
        tree.nodes[part][inner & (tree.nodes["is_categorical"] == (part == "bitset_idx"))] = value
    with pytest.raises(ValueError, match="point outside"):
        save(model, tmp_path / "model")
    write_unchecked(model, tmp_path / "model")
    with pytest.raises(ValueError, match="point outside"):
        load(tmp_path / "model")


def test_boosting_of_a_frame_with_categories_is_refused(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "b": pandas.Categorical(["u", "v"] * 30)})
    with pytest.raises(ValueError, match="frame with categories"):
        save(HistGradientBoostingClassifier(max_iter=2).fit(frame, Y), tmp_path / "model")


def test_a_large_vocabulary_takes_few_bytes(tmp_path):
    words = [f"word{i}" for i in range(20_000)]
    model = CountVectorizer().fit([" ".join(words)])
    assert again(model, tmp_path).vocabulary_ == model.vocabulary_
    assert (tmp_path / "model").stat().st_size < 30 * len(words)


def test_every_class_of_the_table_has_its_test():
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {"LinearSVC"}
    assert {name.removeprefix("sklearn.") for name in SKLEARN} - used == PARTS_OF_OTHERS


def test_a_pipeline_with_a_step_without_a_name_is_refused(tmp_path):
    model = make_pipeline(StandardScaler(), SVC()).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    model.steps[0] = model.steps[0][1:]
    with pytest.raises(ModelFileError, match="not fitted"):
        save(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()
