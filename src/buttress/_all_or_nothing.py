"""Fits as transactions: whole, or not at all."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def all_or_nothing(fit: F) -> F:
    """Decorate the fit of an estimator: when it raises, also at Ctrl-C, the estimator is left as it was before.

    Attributes are given back by name, so a fit must not change an array of an earlier one in place.
    """

    @functools.wraps(fit)
    def guarded(model: object, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(model))
        try:
            return fit(model, *args, **kwargs)
        except BaseException:
            model.__dict__ = before  # at once, so that a second Ctrl-C finds nothing half done
            raise

    return cast(F, guarded)
