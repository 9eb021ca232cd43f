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
    "Mean": "buttress.risks",
    "NotConvergedWarning": "buttress._checks",
    "InterruptedWarning": "buttress._checks",
    "RelationalLinearSVC": "buttress.relational.svm",
    "SVC": "buttress.svm",
    "Subquantile": "buttress.risks",
    "Tilted": "buttress.risks",
    "AuditResult": "buttress.audit",
}
_MODULES = ("attacks", "datasets", "features", "kernels", "losses", "relational", "risks")

__all__ = sorted([*_HOME, *_MODULES, "audit", "__version__"])


def __getattr__(name: str) -> Any:
    if name == "audit":
        from buttress.audit import audit

        return audit
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"buttress.{name}")
    raise AttributeError(f"module 'buttress' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
