"""The audit: what breaks a plain SVM on your data, what a robust one recovers, and which rows look wrong.

The module is itself callable: ``buttress.audit(None, X, y)`` is :func:`buttress.audit.audit`.
"""

import sys
import types

from buttress.audit.contenders import register
from buttress.audit.result import AuditResult
from buttress.audit.study import Options, audit, audit_source

__all__ = ["AuditResult", "Options", "audit", "audit_source", "register"]


class _CallableModule(types.ModuleType):
    """A module that runs the audit when called: ``buttress.audit`` is a function and a place to import from."""

    __call__ = staticmethod(audit)


sys.modules[__name__].__class__ = _CallableModule
