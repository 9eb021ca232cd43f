"""A shim over scikit-learn's experimental callback API, so that older versions work without it.

Estimators that iterate derive from :class:`CallbackSupportMixin`, decorate ``fit`` with
:func:`with_callbacks`, and hand :func:`step_callback` to the loop in ``solvers/run.py``.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from buttress._types import Estimator, MatrixLike, VectorLike

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as managed
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Does nothing: this scikit-learn has no callbacks."""

    def managed(method: F) -> F:
        """Return the method unchanged: this scikit-learn has no callbacks."""
        return method


def with_callbacks(fit: F) -> F:
    """Decorate the fit of an estimator: its callbacks hear of the end, with the fitted model, and are torn down."""

    @functools.wraps(fit)
    def ending(estimator: Any, X: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        fitted = fit(estimator, X, y, *args, **kwargs)
        context = getattr(estimator, "_callback_fit_ctx", None)
        if context is not None and getattr(estimator, "_skl_callbacks", None):
            context.call_on_fit_task_end(estimator=estimator, X=X, y=y, reconstruction_attributes=dict)
        return fitted

    return cast(F, managed(ending))


def without_callbacks(estimator: T) -> T:
    """Return the estimator with no callbacks: copies that a fit tries are no part of what its callbacks watch."""
    if hasattr(estimator, "set_callbacks"):
        estimator.set_callbacks()
    return estimator


# what the loop calls with each of its steps; True stops it
Report = Callable[[object], bool] | None


def step_callback(estimator: Estimator, X: MatrixLike | None, y: VectorLike | None, max_iter: int | None) -> Report:
    """Return a function of one step that reports it to the estimator's callbacks and says whether to stop."""
    if not hasattr(estimator, "_init_callback_context"):
        return None
    supported: Any = estimator
    context = supported._init_callback_context(max_subtasks=max_iter)
    if not getattr(estimator, "_skl_callbacks", None):
        return None
    context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)

    def report(step: object) -> bool:
        task = context.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        return bool(task.call_on_fit_task_end(estimator=estimator, X=X, y=y))

    return report
