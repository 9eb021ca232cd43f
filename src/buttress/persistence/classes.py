"""Which classes, functions and types a model file may name: those that declare a state, and a closed list of others.

A file says ``"class": "SVC"``. A class of this package is known by its name if it declares its state (``_state.py``)
and is exported where users find it, or is a part in ``PARTS``. So a class can move without a change of format, and
nothing in a file chooses what is imported.

Of scikit-learn those are listed, by module, whose fitted state is arrays and plain values. What predicts in compiled
code that trusts its arrays (trees, forests, nearest neighbours by trees, libsvm) is not here: a forged file could make
it read outside them. Gradient boosting is, because ``models.py`` checks its trees.
"""

from importlib import import_module
from typing import Any

from buttress._state import Attribute
from buttress.files.container import ModelFileError

PUBLIC = ("buttress.kernels", "buttress", "buttress.relational", "buttress.features")  # where users find classes
PARTS = {  # what models are made of and users do not name
    "buttress.audit.models.table_model": ("TableModel",),
    "buttress.audit.reading.entries": ("Notation",),
    "buttress.certainty.calibration": ("Calibration", "HeldOut"),
    "buttress.certainty.intervals": ("HeldOutFits",),
    "buttress.certainty.probabilities": ("Certainty",),
    "buttress.expansion": ("KernelExpansion",),
    "buttress.gram.spectrum": ("SpectrumCorrected",),
    "buttress.risks": ("Mean", "PerClass", "Subquantile", "Tilted"),
    "buttress.solvers.contamination.mm": ("MMEstimate",),
    "buttress.solvers.linear.primal": ("Rate",),
    "buttress.solvers.linear.stochastic": ("SuffixMean", "Walk"),
    "buttress.svm.left_out": ("LeftOut",),
    "buttress.trees.forest": ("Forest", "Tree"),
}

# Functions and types that may stand in a parameter, such as SelectKBest's score_func. Reading a file calls none.
NAMED: dict[str, str] = {
    **{f"sklearn.{name}": f"sklearn.feature_selection:{name}"
       for name in ("chi2", "f_classif", "f_regression", "mutual_info_classif", "mutual_info_regression",
                    "r_regression")},
    **{f"numpy.{name}": f"numpy:{name}"
       for name in ("abs", "arcsinh", "arctan", "cbrt", "cos", "exp", "expm1", "log", "log10", "log1p", "log2",
                    "reciprocal", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "floating", "integer",
                    "number")},
    **{name: f"builtins:{name}" for name in ("bool", "float", "int", "object", "str")},
    "numpy.bool": "numpy:bool_", "numpy.object": "numpy:object_",
}

_MODULES = {
    "calibration": ("CalibratedClassifierCV", "_CalibratedClassifier", "_SigmoidCalibration"),
    "compose": ("ColumnTransformer", "TransformedTargetRegressor", "make_column_selector"),
    "decomposition": ("FactorAnalysis", "FastICA", "IncrementalPCA", "KernelPCA", "PCA", "TruncatedSVD"),
    "discriminant_analysis": ("LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis"),
    "dummy": ("DummyClassifier", "DummyRegressor"),
    "ensemble": (
        "HistGradientBoostingClassifier", "HistGradientBoostingRegressor", "StackingClassifier", "StackingRegressor",
        "VotingClassifier", "VotingRegressor"),
    "feature_extraction": ("DictVectorizer", "FeatureHasher"),
    "feature_extraction.text": ("CountVectorizer", "HashingVectorizer", "TfidfTransformer", "TfidfVectorizer"),
    "feature_selection": (
        "GenericUnivariateSelect", "RFE", "RFECV", "SelectFdr", "SelectFpr", "SelectFromModel", "SelectFwe",
        "SelectKBest", "SelectPercentile", "SequentialFeatureSelector", "VarianceThreshold"),
    "frozen": ("FrozenEstimator",),
    "impute": ("KNNImputer", "MissingIndicator", "SimpleImputer"),
    "isotonic": ("IsotonicRegression",),
    "kernel_approximation": (
        "AdditiveChi2Sampler", "Nystroem", "PolynomialCountSketch", "RBFSampler", "SkewedChi2Sampler"),
    "kernel_ridge": ("KernelRidge",),
    "linear_model": (
        "ARDRegression", "BayesianRidge", "ElasticNet", "ElasticNetCV", "HuberRegressor", "Lars", "LarsCV", "Lasso",
        "LassoCV", "LassoLars", "LassoLarsCV", "LassoLarsIC", "LinearRegression", "LogisticRegression",
        "LogisticRegressionCV", "OrthogonalMatchingPursuit", "OrthogonalMatchingPursuitCV", "Perceptron",
        "QuantileRegressor", "Ridge", "RidgeCV", "RidgeClassifier", "RidgeClassifierCV", "SGDClassifier",
        "SGDRegressor", "TheilSenRegressor"),
    "model_selection": (
        "GroupKFold", "KFold", "LeaveOneOut", "ShuffleSplit", "StratifiedGroupKFold", "StratifiedKFold",
        "StratifiedShuffleSplit", "TimeSeriesSplit"),
    "multiclass": ("OneVsOneClassifier", "OneVsRestClassifier"),
    "naive_bayes": ("BernoulliNB", "CategoricalNB", "ComplementNB", "GaussianNB", "MultinomialNB"),
    "neural_network": ("MLPClassifier", "MLPRegressor"),
    "pipeline": ("FeatureUnion", "Pipeline"),
    "preprocessing": (
        "Binarizer", "FunctionTransformer", "KBinsDiscretizer", "KernelCenterer", "LabelBinarizer", "LabelEncoder",
        "MaxAbsScaler", "MinMaxScaler", "MultiLabelBinarizer", "Normalizer", "OneHotEncoder", "OrdinalEncoder",
        "PolynomialFeatures", "PowerTransformer", "QuantileTransformer", "RobustScaler", "SplineTransformer",
        "StandardScaler", "TargetEncoder"),
    "random_projection": ("GaussianRandomProjection", "SparseRandomProjection"),
    "svm": ("LinearSVC", "LinearSVR"),
}
SKLEARN = {f"sklearn.{name}": f"sklearn.{module}:{name}" for module, names in _MODULES.items() for name in names}


LEFT_OUT = {  # attributes that no file holds
    "Table": ("source",),  # a model holds what a table is called and what of it is used, never its rows
    "sklearn.IsotonicRegression": ("f_",),  # a function that is made again from the thresholds beside it
    "sklearn.MLPClassifier": ("_optimizer",),  # what only further training needs, and is no plain value: these four
    "sklearn.MLPRegressor": ("_optimizer",),
    "sklearn.Perceptron": ("_loss_function_",),
    "sklearn.SGDClassifier": ("_loss_function_",),
}

# where scikit-learn's classes have such attributes at all, and they are not lists or None
STATE_OF_SKLEARN = (
    Attribute("n_features_in_", "count", length="n_features"),
    Attribute("classes_", "label", "* or list"),
    Attribute("coef_", "finite", "* or *, n_features or list"),
    Attribute("components_", "finite", "*, n_features"),
    Attribute("mean_", "finite", "n_features or none"),
    Attribute("var_", "finite", "n_features or *, n_features or none"),
    Attribute("scale_", "finite", "one or n_features or none"),
    Attribute("intercept_", "finite", "one or * or list"),
)


def class_named(name: object) -> Any:
    """Return the class that a file calls ``name``; ModelFileError for one that no model is made of."""
    text = str(name)
    for module, names in PARTS.items():
        if text in names:
            return getattr(import_module(module), text)
    if text in SKLEARN:
        return _at(SKLEARN[text])
    for place in PUBLIC if text[:1].isupper() else ():
        room = import_module(place)
        found = getattr(room, text) if text in room.__all__ else None
        if isinstance(found, type) and "_state" in vars(found):
            return found
    raise ModelFileError(f"The file names the class {name!r}, which is not on the list of those a model is made of. If "
                         "a later release wrote the file, update buttress.")


def name_of(cls: type) -> str | None:
    """Return the name a class has in model files, None for a class that no model is made of."""
    name = cls.__name__ if cls.__module__.startswith("buttress.") else f"sklearn.{cls.__name__}"
    try:
        return name if class_named(name) is cls else None
    except ModelFileError:
        return None


def thing_named(name: object) -> object:
    """Return the function or type that a file calls ``name``; ModelFileError for one not in the table."""
    if str(name) not in NAMED:
        raise ModelFileError(f"The file names {name!r}, which is not on the list of functions and types a model may "
                             "have. If a later release wrote the file, update buttress.")
    return _at(NAMED[str(name)])


def name_of_thing(value: object) -> str | None:
    """Return the name a function or type has in model files, None for one that is not in the table."""
    if not callable(value) or not hasattr(value, "__name__"):
        return None
    return next((name for name, place in NAMED.items() if _at(place) is value), None)


def _at(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
