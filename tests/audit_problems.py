"""Audits for tests: of a few estimators, so that they take no longer than what is tested needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from buttress.audit import contenders

ALL = dict(contenders._CONTENDERS)


@contextmanager
def only(*names: str) -> Iterator[None]:
    """Audit only those of the contenders, all where none are named, beside the baselines."""
    few = {task: {name: factory for name, factory in entries.items() if name in names or not names}
           for task, entries in ALL.items()}
    with patch.object(contenders, "_CONTENDERS", few):
        yield
