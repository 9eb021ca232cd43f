"""What estimators warn of on the way: a note under the estimator's name, or nothing of fits that no figure rests on."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from buttress._checks import NotConvergedWarning


@contextmanager
def noted(notes: list[str], name: str | None) -> Iterator[list[str]]:
    """Add what users are warned of to ``notes``, each once and after ``name``, if it has one; with None it is dropped.

    Yields a list that gets what says that a fit has not converged. Other warnings go on as they are.
    """
    unfinished: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotConvergedWarning)
        yield unfinished
    for warning in caught:
        if issubclass(warning.category, NotConvergedWarning):
            unfinished.append(str(warning.message))
        elif not issubclass(warning.category, UserWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        elif name is not None and (note := f"{name}: {warning.message}".removeprefix(": ")) not in notes:
            notes.append(note)
