"""Which classes of scikit-learn a model file may name, by module: those whose fitted state is arrays and plain values.

What predicts in compiled code that trusts its arrays (trees, forests, nearest neighbours by trees, libsvm) is not here:
a forged file could make it read outside them. Gradient boosting is, because ``boosting.py`` checks its trees.
"""

from buttress._state import Attribute

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

WITHOUT_FIT = ("sklearn.FeatureHasher", "sklearn.HashingVectorizer")  # they learn nothing

# attributes that only further training needs, and that are neither arrays nor plain values
OF_TRAINING = {
    "sklearn.MLPClassifier": ("_optimizer",),
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
