"""The audit: which rows look wrong, how models withstand moved inputs and wrong labels, and which model to use.

The module is itself callable: ``buttress.audit(None, X, y)`` is :func:`buttress.audit.call.audit`. Its parts load when
they are first used, so that the command can look at a file before it loads scikit-learn.
"""

import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from buttress.audit.result import AuditResult

_HOME = {
    "AuditResult": "buttress.audit.result",
    "Check": "buttress.audit.findings",
    "Evidence": "buttress.audit.findings",
    "Finding": "buttress.audit.findings",
    "Options": "buttress.audit.options",
    "audit": "buttress.audit.call",
    "register": "buttress.audit.contenders",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        import importlib

        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'buttress.audit' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the parts too, so that ``help(buttress.audit)`` shows the function."""
    return [*__all__, *globals()]


class _CallableModule(types.ModuleType):
    """A module that runs the audit when called: ``buttress.audit`` is a function and a place to import from."""

    def __call__(self, *args: object, **kwargs: object) -> "AuditResult":
        from buttress.audit.call import audit

        return audit(*args, **kwargs)  # type: ignore[arg-type]


sys.modules[__name__].__class__ = _CallableModule
