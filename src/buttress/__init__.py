"""buttress: robust kernel machines for scikit-learn users.

Importing this package loads none of its parts: every name below is loaded when it is first used,
so that ``import buttress`` costs no compiler, plotting library or database driver.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "AdversarialSVC": "buttress.adversarial",
    "KernelClassifier": "buttress.robust",
    "KernelRegressor": "buttress.robust",
    "LinearSVC": "buttress.linear",
    "Mean": "buttress.risks",
    "MultiKernelSVDD": "buttress.outlier",
    "NotConvergedWarning": "buttress._checks",
    "InterruptedWarning": "buttress._checks",
    "SVC": "buttress.svm",
    "SVDD": "buttress.outlier",
    "SVR": "buttress.svm",
    "Subquantile": "buttress.risks",
    "Tilted": "buttress.risks",
    "svc_path": "buttress.svm",
    "AuditResult": "buttress.audit.result",
}
_MODULES = ("attacks", "audit", "datasets", "features", "kernels", "losses", "risks")

__all__ = sorted([*_HOME, *_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"buttress.{name}")
    raise AttributeError(f"module 'buttress' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
