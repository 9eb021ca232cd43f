"""What estimators warn of on the way: a note under the estimator's name, or nothing of fits that no figure rests on."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def noted(notes: list[str], name: str | None) -> Iterator[None]:
    """Add what users are warned of to ``notes``, each once and after ``name``; with None it is dropped.

    Other warnings go on as they are.
    """
    with warnings.catch_warnings(record=True) as caught:
        yield
    for warning in caught:
        if not issubclass(warning.category, UserWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        elif name is not None and (note := f"{name}: {warning.message}") not in notes:
            notes.append(note)
