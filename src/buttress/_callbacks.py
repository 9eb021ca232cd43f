"""What surrounds a fit: it is whole or not at all, and callbacks of scikit-learn follow its steps.

Estimators that iterate derive from :class:`CallbackSupportMixin`, decorate ``fit`` with
:func:`with_callbacks`, and hand :func:`step_callback` to the loop in ``solvers/run.py``. What a step would be as a
model, for callbacks that score it, they say with :func:`showing`. scikit-learn's callbacks are experimental: older
versions work without them.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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


# from a step to the fitted attributes that make a model of it
ModelOf = Callable[[Any], Mapping[str, object]]


@dataclass(frozen=True)
class Told:
    """Reports each step of a fit to the estimator's callbacks, and returns True where one of them stops it.

    ``model_of`` makes a model of a step, only when a callback asks for one; ``known`` are attributes of all of them.
    """

    estimator: Estimator
    context: Any
    X: MatrixLike | None
    y: VectorLike | None
    known: Mapping[str, object] = field(default_factory=dict)
    model_of: ModelOf | None = None

    def __call__(self, step: object) -> bool:
        task = self.context.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(estimator=self.estimator, X=self.X, y=self.y)
        made = None if self.model_of is None else functools.partial(self._model, self.model_of, step)
        return bool(task.call_on_fit_task_end(estimator=self.estimator, X=self.X, y=self.y,
                                              reconstruction_attributes=made))

    def _model(self, model_of: ModelOf, step: object) -> Mapping[str, object]:
        # A step has no scores of rows left out (those of an earlier fit, which the estimator may hold, are not its) and
        # no names of columns: it is scored on rows that have been checked, which have none.
        return {"_certainty": None, "feature_names_in_": None, **self.known, **model_of(step)}


# what the loop calls with each of its steps; True stops it
Report = Told | None


def step_callback(
    estimator: Estimator, X: MatrixLike | None, y: VectorLike | None, max_iter: int | None,
    known: Mapping[str, object] | None = None,
) -> Report:
    """Return a function of one step that reports it to the estimator's callbacks and says whether to stop.

    ``known`` are the attributes that a model of any step has, and that the estimator is not given until the end.
    """
    if not getattr(estimator, "_skl_callbacks", None):
        return None
    supported: Any = estimator
    most = None if max_iter is None else max_iter + 1  # the first step counts no iteration
    context = supported._init_callback_context(max_subtasks=most)
    context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
    return Told(estimator, context, X, y, known or {})


def showing(report: Report, model_of: ModelOf) -> Report:
    """Return the report with models of its steps: ``model_of`` returns the fitted attributes of a step."""
    return None if report is None else replace(report, model_of=model_of)


def all_or_nothing(fit: F) -> F:
    """Decorate the fit of an estimator: when it raises, also at Ctrl-C, the estimator is left as it was before.

    Attributes are given back by name, so a fit must not change an array of an earlier one in place.
    """

    @functools.wraps(fit)
    def guarded(model: object, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(model))
        try:
            return fit(model, *args, **kwargs)
        except BaseException as error:
            model.__dict__ = before  # at once, so that a second Ctrl-C finds nothing half done
            if isinstance(error, SystemError) and isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from error  # Ctrl-C as compiled code was entered
            raise

    return cast(F, guarded)
