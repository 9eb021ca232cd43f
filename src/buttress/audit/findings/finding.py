"""A finding, the evidence it rests on, and the class of a check: what a user subclasses for one of their own."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._types import Labels
from buttress.audit.against import Comparison
from buttress.audit.measuring.cells import Cell
from buttress.audit.measuring.suspicion import LISTED, Verdicts
from buttress.audit.reading.table import DataTable
from buttress.files.container import Json


class Severity(StrEnum):
    """How bad a finding is: an error makes figures wrong, a warning can, a note is good to know."""

    error = "error"
    warning = "warning"
    note = "note"


@dataclass(frozen=True)
class Finding:
    """One thing that was found: its code, how bad it is, a sentence, the evidence and what to do next.

    ``evidence`` holds plain values (numbers, texts, lists of them), as they go into ``audit.json``.
    """

    code: str
    severity: Severity
    title: str
    evidence: Json = field(default_factory=dict)
    advice: str = ""


@dataclass
class Evidence:
    """What a check may look at.

    ``table`` holds all rows in use; ``train`` and ``test`` number those of them that were trained on and held out;
    ``verdicts`` is about the rows ``judged``. ``rows`` are the cells of the table, by estimator and column;
    ``recommended`` and ``baseline`` name two of the estimators (None where there are too few rows to tell). ``against``
    is what was found of newer rows, if there are any. ``decides`` is the column by which models are compared,
    ``better`` the models that beat the baseline by more than chance, None where that cannot be told. ``threatened``
    says that models were attacked under a threat in place of ``eps``.
    """

    table: DataTable
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    judged: NDArray[np.intp]
    verdicts: Verdicts
    rows: dict[str, dict[str, Cell]]
    recommended: str | None
    baseline: str
    eps: float
    novel: list[Any] = field(default_factory=list)
    against: Comparison | None = None
    decides: str = "as_is"
    better: list[str] | None = None
    threatened: bool = False

    @property
    def classifies(self) -> bool:
        """Whether the target is one of classes."""
        return self.table.classifies

    @property
    def target(self) -> Labels:
        """The target of all rows in use."""
        return self.table.target

    def cell(self, name: str | None, column: str) -> Cell:
        """Return a cell of the table, an empty one where there is none."""
        return self.rows.get(name or "", {}).get(column, Cell())

    def labels(self, places: Iterable[int], limit: int = LISTED) -> list[Any]:
        """Return what the first rows at ``places`` of the table are called."""
        return [self.table.row_numbers[place].item() if isinstance(self.table.row_numbers[place], np.generic)
                else str(self.table.row_numbers[place]) for place in list(places)[:limit]]


class Check(ABC):
    """A check of the audit. Give instances of a subclass as ``checks=`` for a check of your own.

    Class attributes: ``code`` (the audit's are BUT and three digits; use letters of your own), ``title`` (what it looks
    for) and ``severity`` (of its findings, unless one says otherwise).

    Examples
    --------
    >>> from buttress.audit import Check
    >>> class NegativeAge(Check):
    ...     code = "MINE001"
    ...     title = "ages below zero"
    ...     def find(self, evidence):
    ...         ages = evidence.table.numeric.get("age")
    ...         if ages is not None and (ages < 0).any():
    ...             yield self.finding(f"{(ages < 0).sum()} ages are negative.", rows=int((ages < 0).sum()))
    >>> import numpy as np
    >>> import buttress
    >>> X = {"age": np.r_[-5.0, np.arange(20.0, 59.0)], "b": np.sin(np.arange(40.0))}
    >>> import pandas as pd
    >>> found = buttress.audit(None, pd.DataFrame(X), np.arange(40) % 2, rows=20, checks=[NegativeAge()])
    >>> [finding.title for finding in found.findings if finding.code == "MINE001"]
    ['1 ages are negative.']
    """

    code: str
    title: str
    severity: Severity = Severity.warning

    @abstractmethod
    def find(self, evidence: Evidence) -> Iterable[Finding]:
        """Yield what is found in the evidence."""

    def finding(
        self, title: str, advice: str = "", severity: Severity | None = None, **evidence: Any
    ) -> Finding:
        """Return a finding of this check."""
        return Finding(self.code, severity or self.severity, title, evidence, advice)


Made = Callable[..., Finding]  # ``Check.finding`` of the check that asks


@dataclass(frozen=True)
class Listed(Check):
    """A check of the audit: the function that yields what it finds of the evidence, given what makes a finding of it.

    One ``of_columns`` looks at columns, target and split only: what it finds is told before any model is fitted.
    """

    code: str
    title: str
    finds: Callable[[Evidence, Made], Iterable[Finding]]
    severity: Severity = Severity.warning
    of_columns: bool = True

    def find(self, evidence: Evidence) -> Iterable[Finding]:
        return self.finds(evidence, self.finding)
