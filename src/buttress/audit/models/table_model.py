"""A fitted model together with the columns it reads and the labels it answers with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline

from buttress._state import Attribute, State
from buttress._suggest import agreeing, column_called, counted
from buttress._types import Frame, Labels
from buttress.audit.reading.entries import Notation, as_array, categories_of, check_there, is_missing, spelled, texts_of
from buttress.audit.reading.table import columns_of, read_as_before, taken
from buttress.files.container import Json

if TYPE_CHECKING:
    from buttress.relational import EntityFeatures


@dataclass
class TableModel:
    """A pipeline behind the columns of a table: it finds them by name, reads their entries, and answers in their words.

    Parameters
    ----------
    target : str
        The column that is predicted.
    task : {"classification", "regression"}
    estimator : str
        What the audit calls the estimator, such as "plain SVC".
    pipeline : Pipeline
        Fitted to objects (n, d), numbers first.
    numeric, categorical : list of str
        The columns in the order of the pipeline.
    read_as : dict of str to Notation
        How the entries of columns of texts are read as numbers.
    given : list
        The classes as they stand in the data, in the order of ``pipeline.classes_``; empty for a regression.
    written : list of str
        The same as a text file has them: "yes" where a reader says True.
    score : dict of str to float
        What a fit without them scored on held-out rows: the metric's name, "low", "high" and "rows".
    trained_on : dict
        "source", "rows" and "notes": what became of the columns.
    made : EntityFeatures or None
        What makes the columns of a join's tables; None for a model of one table.
    """

    _state = State(
        Attribute("target", "text"),
        Attribute("task", "text"),
        Attribute("estimator", "text"),
        Attribute("pipeline", "part", of="Pipeline"),
        Attribute("numeric", "label", "*"),
        Attribute("categorical", "label", "*"),
        Attribute("read_as", "any"),
        Attribute("given", "any"),
        Attribute("written", "label", "*"),
        Attribute("score", "any"),
        Attribute("trained_on", "any"),
        Attribute("made", "part", "one or none", of="EntityFeatures"))

    target: str
    task: str
    estimator: str
    pipeline: Pipeline
    numeric: list[str]
    categorical: list[str]
    read_as: dict[str, Notation]
    given: list[object] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    score: dict[str, float | str] = field(default_factory=dict)
    trained_on: Json = field(default_factory=dict)
    made: "EntityFeatures | None" = None

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The columns it needs."""
        return np.array([*self.numeric, *self.categorical], dtype=object)

    def rows_of(self, X: ArrayLike | Frame | Mapping[str, object]) -> NDArray[np.object_]:
        """Return the columns of a frame, or of a dict of columns, as the pipeline takes them.

        Raises ValueError naming the columns that are missing, or hold what cannot be read.
        """
        columns = X if isinstance(X, Mapping) else columns_of(X)
        check_there(self.feature_names_in_, columns, "The data", "the model was trained on")
        read = [*(read_as_before(name, columns[name], self.read_as.get(name)) for name in self.numeric),
                *(categories_of(columns[name]) for name in self.categorical)]
        return np.array([np.asarray(column, dtype=object) for column in read], dtype=object).T

    def remarks_by_column(self, X: ArrayLike | Frame | Mapping[str, object]) -> dict[str, str]:
        """Return a sentence by column with entries that are no numbers where numbers were, or new categories."""
        columns = X if isinstance(X, Mapping) else columns_of(X)
        check_there(self.feature_names_in_, columns, "The data", "the model was trained on")
        said = {name: _unread(name, columns[name], self.read_as.get(name)) for name in self.numeric}
        if self.categorical:
            coder = self.pipeline[0].named_transformers_["categorical"]
            said |= {name: _unseen(name, categories_of(columns[name]), set(known.tolist()))
                     for name, known in zip(self.categorical, coder.categories_, strict=True)}
        return {name: sentence for name, sentence in said.items() if sentence}

    def predict(self, X: ArrayLike | Frame | Mapping[str, object]) -> Labels:
        """Return what is predicted for each row: classes as they stand in the data it was trained on, or numbers."""
        found = self.pipeline.predict(self.rows_of(X))
        return self.in_words(found, self.given) if self.given else found

    def predict_proba(self, X: ArrayLike | Frame | Mapping[str, object]) -> NDArray[np.float64]:
        """Return the probability of each class (n, classes), in the order of ``given``."""
        return np.asarray(self.pipeline.predict_proba(self.rows_of(X)))

    def in_words(self, codes: Labels, words: Sequence[object]) -> Labels:
        """Return the word of each class that the pipeline predicted."""
        kind = None if len({type(word) for word in words}) == 1 else object
        return np.array(words, dtype=kind)[np.searchsorted(self.pipeline.classes_, codes)]


def labelled(columns: Mapping[str, object], y: Any) -> tuple[Mapping[str, object], Any]:
    """Return the rows that have a label, all where none has."""
    kept = np.flatnonzero([not is_missing(entry) for entry in as_array(y)])
    return (columns, y) if len(kept) in (0, len(y)) else (
        {name: taken(column, kept) for name, column in columns.items()}, taken(y, kept))


def codes_of(model: Any, y: ArrayLike, name: str) -> Labels:
    """Return the targets of labelled rows, column ``name``, as a classifier knows them.

    Raises ValueError for a row without one, and for classes it does not know.
    """
    entries = as_array(y)
    gaps = [row for row, entry in enumerate(entries) if is_missing(entry)]
    if gaps:
        raise ValueError(f"The target {name!r} is missing in {counted(len(gaps), 'row')}, the first of them row "
                         f"{gaps[0]}. Fill it in, or leave such rows out.")
    kept = isinstance(model, TableModel)
    classes, words = (model.pipeline.classes_, (model.written, model.given)) if kept else (
        model.classes_, (model.classes_.tolist(),))
    known = {spelled(word): code for said in words for word, code in zip(said, classes, strict=True)}
    values = [spelled(value) for value in entries.tolist()]
    unknown = sorted(set(values) - set(known))
    if unknown:
        renamed = kept and name != model.target
        other = f" It was trained on the target {model.target!r}: is that meant?" if renamed else ""
        raise ValueError(f"Column {name!r} holds {unknown[0]!r}, which is no class of the model; its classes are "
                         f"{', '.join(map(str, words[0]))}.{other}")
    return np.array([known[value] for value in values])


def _unread(name: str, column: object, notation: Notation | None) -> str:
    """Return a sentence about entries that are no numbers and count as missing, empty where there are none."""
    values = as_array(column)
    if values.dtype.kind not in "OUST":
        return ""
    texts = texts_of(values)
    lost = np.flatnonzero(np.isnan(read_as_before(name, column, notation)) & (texts.codes >= 0))
    if not len(lost):
        return ""
    return (f"{column_called(name)}: {counted(len(lost), 'entry')} "
            f"{agreeing(len(lost), 'is no number', 'are no numbers')}, such as "
            f"{texts.distinct[texts.codes[lost[0]]]!r} in row {lost[0]}; counted as missing.")


def _unseen(name: str, column: Labels, known: set[str]) -> str:
    """Return a sentence about categories that were not in the training rows, empty where there are none."""
    new = np.flatnonzero([text not in known for text in column])
    if not len(new):
        return ""
    return (f"{column_called(name)}: {counted(len(new), 'entry')} {agreeing(len(new), 'was', 'were')} not seen in "
            f"training, such as {str(column[new[0]])!r} in row {new[0]}; counted as no category.")
