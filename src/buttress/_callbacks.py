"""A shim over scikit-learn's experimental callback API, so that older versions work without it.

Estimators that iterate derive from :class:`CallbackSupportMixin`, decorate ``fit`` with
:func:`with_callbacks`, and hand :func:`step_callback` to the loop in ``solvers/run.py``.
"""

from collections.abc import Callable
from typing import Any

from buttress._types import Estimator, MatrixLike, VectorLike

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Does nothing: this scikit-learn has no callbacks."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method unchanged: this scikit-learn has no callbacks."""
        return method


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
