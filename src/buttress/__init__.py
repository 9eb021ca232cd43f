"""buttress: robust kernel machines for scikit-learn users.

Importing this package loads none of its parts: every name below is loaded when it is first used,
so that ``import buttress`` costs no compiler, plotting library or database driver.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "AdvSVM": "buttress.adversarial",
    "AdversarialClassifier": "buttress.adversarial",
    "AdversarialLinearSVC": "buttress.adversarial",
    "AdversarialSVC": "buttress.adversarial",
    "AuditResult": "buttress.audit.result",
    "BatchedRidge": "buttress.batched_ridge",
    "BatchedRidgeClassifier": "buttress.batched_ridge",
    "BlindAttackWarning": "buttress.attacks.problem",
    "Budget": "buttress.threats",
    "CRR": "buttress.robust",
    "CertifiedSVC": "buttress.adversarial",
    "CertifiedBoundaryDisplay": "buttress.displays",
    "ConformalDetector": "buttress.certainty.detector",
    "ConvergenceDisplay": "buttress.displays",
    "explain": "buttress.explaining",
    "FeatureNoiseWarning": "buttress._checks",
    "FreeRangeSVC": "buttress.adversarial",
    "IndefiniteKernelWarning": "buttress.gram.spectrum",
    "InterruptedWarning": "buttress._checks",
    "KernelClassifier": "buttress.robust",
    "KernelRegressor": "buttress.robust",
    "KernelScaleWarning": "buttress._checks",
    "KernelWeightsDisplay": "buttress.displays",
    "label_law": "buttress.robust",
    "LabelsJudged": "buttress.robust",
    "LeastSquaresClassifier": "buttress.least_squares",
    "LinearSVC": "buttress.linear",
    "LinearSVR": "buttress.linear_svr",
    "load": "buttress.persistence",
    "Mean": "buttress.risks",
    "ModelFileError": "buttress.persistence",
    "MultiKernelSVDD": "buttress.outlier",
    "NotConvergedWarning": "buttress._checks",
    "novel_columns": "buttress.certainty.detector",
    "NovelColumnsDisplay": "buttress.displays",
    "NuSVC": "buttress.svm",
    "NuSVR": "buttress.svm",
    "Nystroem": "buttress.features",
    "OneClassSVM": "buttress.svm",
    "outlier_report": "buttress.robust",
    "OutlierDisplay": "buttress.displays",
    "RelationalLinearSVC": "buttress.relational.svm",
    "ReliabilityDisplay": "buttress.displays",
    "residual_law": "buttress.robust",
    "RobustKernelClassifier": "buttress.robust",
    "RobustKernelRegressor": "buttress.robust",
    "RobustLinearRegressor": "buttress.robust",
    "RobustnessCurveDisplay": "buttress.displays",
    "save": "buttress.persistence",
    "RobustBoostingClassifier": "buttress.adversarial",
    "RobustBoostingRegressor": "buttress.adversarial",
    "SeverClassifier": "buttress.robust",
    "SeverRegressor": "buttress.robust",
    "STIR": "buttress.robust",
    "StochasticAdvSVM": "buttress.adversarial",
    "StochasticLinearSVC": "buttress.stochastic_linear",
    "Subquantile": "buttress.risks",
    "SVC": "buttress.svm",
    "svc_path": "buttress.svm",
    "SVDD": "buttress.outlier",
    "SVR": "buttress.svm",
    "ThreatModel": "buttress.threats",
    "Tilted": "buttress.risks",
    "to_onnx": "buttress.onnx",
    "TargetsJudged": "buttress.robust",
    "TrimmedLikelihoodClassifier": "buttress.robust",
    "TrimmedLikelihoodRegressor": "buttress.robust",
}
_MODULES = ("attacks", "audit", "certificates", "datasets", "evidence", "features", "kernels", "losses", "relational",
            "risks")

__all__ = sorted([*_HOME, *_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"buttress.{name}")
    raise AttributeError(f"module 'buttress' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
