"""Which classes a model file may name: one table from stable names to where the classes live today.

A file says ``"class": "SVC"``. Moving or renaming a class changes the right side of one row here and no file. A class
without a row is refused, both when saving and when loading, so nothing in a file chooses what is imported.

To let models hold a new class, add a row to ``CLASSES``. Its name stands in files for ever: never reuse one, and never
change ``FORMAT_1``, which records the names that the first format wrote.
"""

from importlib import import_module
from typing import cast

import numpy as np

from buttress.persistence.errors import ModelFileError
from buttress.persistence.sklearn_classes import SKLEARN

CLASSES = {
    # estimators
    "AdvSVM": "buttress.adversarial:AdvSVM",
    "AdversarialClassifier": "buttress.adversarial:AdversarialClassifier",
    "AdversarialLinearSVC": "buttress.adversarial:AdversarialLinearSVC",
    "AdversarialSVC": "buttress.adversarial:AdversarialSVC",
    "CRR": "buttress.robust:CRR",
    "CertifiedSVC": "buttress.adversarial:CertifiedSVC",
    "EntityFeatures": "buttress.relational:EntityFeatures",
    "KernelClassifier": "buttress.robust:KernelClassifier",
    "KernelRegressor": "buttress.robust:KernelRegressor",
    "LinearSVC": "buttress.linear:LinearSVC",
    "MultiKernelSVDD": "buttress.outlier:MultiKernelSVDD",
    "Nystroem": "buttress.features:Nystroem",
    "RelationalLinearSVC": "buttress.relational:RelationalLinearSVC",
    "RobustKernelClassifier": "buttress.robust:RobustKernelClassifier",
    "RobustKernelRegressor": "buttress.robust:RobustKernelRegressor",
    "RobustLinearRegressor": "buttress.robust:RobustLinearRegressor",
    "STIR": "buttress.robust:STIR",
    "SVC": "buttress.svm:SVC",
    "SVDD": "buttress.outlier:SVDD",
    "SVR": "buttress.svm:SVR",
    "SeverClassifier": "buttress.robust:SeverClassifier",
    "SeverRegressor": "buttress.robust:SeverRegressor",
    "TrimmedLikelihoodClassifier": "buttress.robust:TrimmedLikelihoodClassifier",
    "TrimmedLikelihoodRegressor": "buttress.robust:TrimmedLikelihoodRegressor",
    # what fits keep of rows left out
    "Calibration": "buttress.certainty.calibration:Calibration",
    "Certainty": "buttress.certainty.probabilities:Certainty",
    "HeldOut": "buttress.certainty.calibration:HeldOut",
    "LeftOut": "buttress.svm.left_out:LeftOut",
    # a model behind the columns of a table
    "Notation": "buttress.audit.reading.entries:Notation",
    "TableModel": "buttress.audit.models.table_model:TableModel",
    # joins, without the rows of their tables
    "Join": "buttress.relational:Join",
    "Table": "buttress.relational:Table",
    # kernels
    "Cauchy": "buttress.kernels:Cauchy",
    "Combination": "buttress.kernels:Combination",
    "DiagonalShifted": "buttress.gram.spectrum:DiagonalShifted",
    "InverseMultiquadric": "buttress.kernels:InverseMultiquadric",
    "Laplacian": "buttress.kernels:Laplacian",
    "Linear": "buttress.kernels:Linear",
    "Log": "buttress.kernels:Log",
    "MultiscaleRBF": "buttress.kernels:MultiscaleRBF",
    "Polynomial": "buttress.kernels:Polynomial",
    "Precomputed": "buttress.kernels:Precomputed",
    "RBF": "buttress.kernels:RBF",
    "Sigmoid": "buttress.kernels:Sigmoid",
    "SpectrumCorrected": "buttress.gram.spectrum:SpectrumCorrected",
    # risks
    "Mean": "buttress.risks:Mean",
    "PerClass": "buttress.risks:PerClass",
    "Subquantile": "buttress.risks:Subquantile",
    "Tilted": "buttress.risks:Tilted",
    # score functions and feature maps
    "KernelExpansion": "buttress.expansion:KernelExpansion",
    "NystroemMap": "buttress.features:NystroemMap",
    "RandomExpansion": "buttress.features:RandomExpansion",
    "RandomFeatures": "buttress.features:RandomFeatures",
    # what models keep to say how sure they are
    "HeldOutFits": "buttress.certainty.intervals:HeldOutFits",
    "MMEstimate": "buttress.solvers.contamination.mm:MMEstimate",
    # where a stochastic descent stands, for partial_fit to go on
    "Rate": "buttress.solvers.linear.primal:Rate",
    "SuffixMean": "buttress.solvers.linear.stochastic:SuffixMean",
    "Walk": "buttress.solvers.linear.stochastic:Walk",
    # scikit-learn's
    **SKLEARN,
}

# Format 1 wrote "module:Class", the module being the shortest that offered the class at that time.
_MODULES_OF_FORMAT_1 = {
    "buttress.adversarial": ("AdversarialLinearSVC", "AdversarialSVC"),
    "buttress.expansion": ("KernelExpansion",),
    "buttress.features": ("NystroemMap", "RandomExpansion", "RandomFeatures"),
    "buttress.kernels": (
        "Cauchy", "Combination", "InverseMultiquadric", "Laplacian", "Linear", "Log", "MultiscaleRBF", "Polynomial",
        "Precomputed", "RBF", "Sigmoid"),
    "buttress.linear": ("LinearSVC",),
    "buttress.outlier": ("MultiKernelSVDD", "SVDD"),
    "buttress.relational": ("RelationalLinearSVC",),
    "buttress.risks": ("Mean", "PerClass", "Subquantile", "Tilted"),
    "buttress.robust": (
        "CRR", "KernelClassifier", "KernelRegressor", "RobustKernelClassifier", "RobustKernelRegressor",
        "RobustLinearRegressor", "STIR", "SeverClassifier", "SeverRegressor", "TrimmedLikelihoodClassifier",
        "TrimmedLikelihoodRegressor"),
    "buttress.solvers.definite": ("DiagonalShifted", "SpectrumCorrected"),
    "buttress.svm": ("SVC", "SVR"),
    "sklearn.compose": ("ColumnTransformer",),
    "sklearn.impute": ("SimpleImputer",),
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.preprocessing": ("MaxAbsScaler", "MinMaxScaler", "OneHotEncoder", "RobustScaler", "StandardScaler"),
}
FORMAT_1 = {
    f"{module}:{name}": f"sklearn.{name}" if module.startswith("sklearn.") else name
    for module, names in _MODULES_OF_FORMAT_1.items()
    for name in names
}

# Functions and types that may stand in a parameter, such as SelectKBest's score_func. Reading a file calls none.
FUNCTIONS = {
    **{f"sklearn.{name}": f"sklearn.feature_selection:{name}"
       for name in ("chi2", "f_classif", "f_regression", "mutual_info_classif", "mutual_info_regression",
                    "r_regression")},
    **{f"numpy.{name}": f"numpy:{name}"
       for name in ("abs", "arcsinh", "arctan", "cbrt", "cos", "exp", "expm1", "log", "log10", "log1p", "log2",
                    "reciprocal", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh")},
}
TYPES: dict[str, type] = {
    "bool": bool, "float": float, "int": int, "object": object, "str": str,
    "numpy.bool": np.bool_, "numpy.floating": np.floating, "numpy.integer": np.integer, "numpy.number": np.number,
    "numpy.object": np.object_,
}


def name_of(cls: type) -> str | None:
    """Return the name a class has in model files, None for a class that is not in the table."""
    for name, place in CLASSES.items():
        if place.endswith(f":{cls.__name__}") and _class_at(place) is cls:
            return name
    return None


def class_named(name: object, version: int) -> type:
    """Return the class that a file of format ``version`` calls ``name``; ModelFileError for one not in the table."""
    known = FORMAT_1.get(str(name)) if version == 1 else str(name)
    if known not in CLASSES:
        raise ModelFileError(f"The file names the class {name!r}, which is not on the list of those a model is made "
                             "of. If a later release wrote the file, update buttress.")
    return _class_at(CLASSES[known])


def function_name_of(value: object) -> str | None:
    """Return the name a function has in model files, None for one that is not in the table."""
    called = getattr(value, "__name__", None)
    for name, place in FUNCTIONS.items():
        if called is not None and _at(place) is value:
            return name
    return None


def function_named(name: object) -> object:
    """Return the function that a file calls ``name``; ModelFileError for one not in the table."""
    if str(name) not in FUNCTIONS:
        raise ModelFileError(f"The file names the function {name!r}, which is not on the list of those a model may "
                             "have. If a later release wrote the file, update buttress.")
    return _at(FUNCTIONS[str(name)])


def _class_at(place: str) -> type:
    return cast(type, _at(place))


def _at(place: str) -> object:
    module, _, name = place.partition(":")
    found: object = getattr(import_module(module), name)
    return found
