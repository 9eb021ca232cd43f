"""The study: split, fit everyone as the rows are and corrupted, attack, rank the suspicious, in a budget."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from buttress._types import Mask, Predictor, Rows, Supervised
from buttress.attacks.scoring import Fallen
from buttress.audit import options as spending
from buttress.audit.baselines import (
    GUESSES,
    OF_LOG,
    attacked_by_columns,
    reads_columns,
)
from buttress.audit.contenders import fitted_within, key_of, settled
from buttress.audit.findings import Finding
from buttress.audit.fitted import is_fitted
from buttress.audit.keeping import kept_stage
from buttress.audit.measuring.cells import (
    Cell,
    accuracy,
    attacked_correct,
    has_gradients,
    measured_columns,
    rmse,
)
from buttress.audit.measuring.judging import Jury
from buttress.audit.measuring.suspicion import Suspicion, Verdicts
from buttress.audit.moves.asking import InPlace
from buttress.audit.moves.space import Space
from buttress.audit.options import Options
from buttress.audit.protocols import Labels, Pick, Report
from buttress.audit.reading.cautions import cautions
from buttress.audit.reading.split import draw, split
from buttress.audit.reading.table import Table
from buttress.audit.warned import noted
from buttress.checkpoints.journal import journal_of_fit
from buttress.checkpoints.memory import Memory


@dataclass
class Study:
    """One audit in progress: the prepared split, the budget, and the cells measured so far."""

    table: Table
    task: str
    entries: dict[str, Predictor]
    options: Options
    report: Report
    started: float
    tell: Callable[[str], None] = lambda line: None
    known: dict[str, list[Finding]] = field(default_factory=dict)
    rows: dict[str, dict[str, Cell]] = field(default_factory=dict)
    curves: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    verdicts: Verdicts | None = None
    notes: list[str] = field(default_factory=list)
    unattacked: set[str] = field(default_factory=set)
    unfinished: set[str] = field(default_factory=set)
    attack_seconds: dict[str, float] = field(default_factory=dict)
    fallen: dict[str, Fallen] = field(default_factory=dict)  # the held-out rows of each attacked model
    novel: list[Any] = field(default_factory=list)
    subsampled: dict[str, str] = field(default_factory=dict)
    space: Space | None = None
    in_place: set[str] = field(default_factory=set)
    yours: dict[str, InPlace] = field(default_factory=dict)
    moves: dict[str, str] = field(default_factory=dict)
    models: dict[str, Predictor] = field(default_factory=dict)
    began: float = 0.0  # when measuring began, after reading
    jury: Jury = field(init=False)
    suspicion: Suspicion = field(init=False)
    judged: NDArray[np.intp] = field(init=False)

    @property
    def classifies(self) -> bool:
        return self.task == "classification"

    @property
    def unfitted(self) -> dict[str, Supervised]:
        """The entries that are to be fitted here."""
        return {name: cast(Supervised, model) for name, model in self.entries.items() if not is_fitted(model)}

    def left(self) -> float:
        """Return the seconds of the budget that remain."""
        return self.options.budget - (time.monotonic() - self.started)

    def columns(self) -> dict[str, str]:
        """Return the columns of the table, and what they say."""
        return measured_columns(self.classifies, self.options.eps) | self.moves

    def split_rows(self) -> None:
        train, test, note = split(self.table, self.classifies, self.options.seed)
        self.notes += [*cautions(self.table, self.classifies), *([note] if note else [])]
        self.sizes = {"train": len(train), "test": len(test)}
        self.raw = self.table.coded()
        scaled_by = self.at_most(train, spending.SCALING_ROWS)
        self.preparation = self.table.preparation().fit(self.raw[scaled_by])
        self.scaler = self.preparation.named_transformers_["numeric"][-1] if self.table.numeric else None
        self.native_preparation = self.table.native().fit(self.raw[scaled_by])
        # no more rows are prepared than can be used
        self.train = self.at_most(train, self.options.rows or max(spending.TRAINING_ROWS))
        self.test = self.at_most(test, spending.TEST_ROWS)
        if len(self.test) < len(test):
            self.subsampled["test"] = f"{len(self.test)} of {len(test)} held-out rows"
        self.X, self.X_test = self.prepared(self.train), self.prepared(self.test)
        self.native, self.native_test = (self.native_of(self.raw[part]) for part in (self.train, self.test))
        self.y = self.table.target[self.train]
        self.y_test = self.table.target[self.test]

    def at_most(self, rows: NDArray[np.intp], size: int) -> NDArray[np.intp]:
        """Return so many of the rows of the table, drawn, or all where they are fewer."""
        return rows if len(rows) <= size else rows[self._draw(self.table.target[rows], size)]

    def prepared(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return rows of the table as prepared features."""
        return self.prepared_of(self.raw[rows])

    def prepared_of(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return coded columns (n, d) as prepared features."""
        return np.asarray(self.preparation.transform(raw), dtype=np.float64)

    def native_of(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return coded columns (n, d) as gradient boosting takes them, gaps and all."""
        return np.asarray(self.native_preparation.transform(raw), dtype=np.float64)

    def subsample(self) -> None:
        """Keep as many rows as asked for, or as the budget affords."""
        self.report("warming up", 0.02)
        size: int = kept_stage("rows to train on", self._size)["size"]
        if size < len(self.X):
            chosen = self._draw(self.y, size)
            self.X = self.X[chosen]
            self.native = self.native[chosen]
            self.y = self.y[chosen]
            self.train = self.train[chosen]
        if size < self.sizes["train"]:
            self.subsampled["train"] = f"{size} of {self.sizes['train']} training rows"

    def _size(self) -> Memory:
        """Return how many rows to train on; fits made to find that out leave nothing in a checkpoint."""
        with journal_of_fit(None):
            return {"size": self.options.rows or self._affordable()}

    def _affordable(self) -> int:
        """Return how many rows should fit in the time planned for, by two pilots and how their time grows.

        One pilot is enough where all rows fit however fast their time grows, even with what is paid once: compiling.
        """
        small = min(len(self.X), spending.SMALL_PILOT)
        large = min(len(self.X), spending.LARGE_PILOT)
        everything = min(len(self.X), max(spending.TRAINING_ROWS))
        seconds = self._time_of_all(large)
        if seconds * (everything / large) ** spending.MOST_GROWTH <= spending.PLANNED * self.left():
            return everything
        before = self._time_of_all(small)
        seconds = self._time_of_all(large)
        growth = np.log(seconds / before) / np.log(large / small) if large > small else spending.UNKNOWN_GROWTH
        growth = float(np.clip(growth + spending.HIDDEN_GROWTH, spending.LEAST_GROWTH, spending.MOST_GROWTH))
        for size in (everything, *spending.TRAINING_ROWS):
            if size <= small or seconds * (size / large) ** growth <= spending.PLANNED * self.left():
                break
        return size

    def _draw(self, y: Labels, size: int) -> NDArray[np.intp]:
        return draw(y, size, self.classifies, self.options.seed)

    def _time_of_all(self, size: int) -> float:
        """Return the seconds an audit would take on ``size`` rows: a fit and an attack of each, times its fits.

        A machine that is in the table twice, once by name and once as it was chosen, is fitted again once.
        """
        total = 0.0
        seen: set[str] = set()
        chosen = self._draw(self.y, min(size, len(self.X)))
        y = self.y[chosen]
        few, eps = slice(spending.PILOT_ATTACKED), self.options.eps
        for name, estimator in self.unfitted.items():
            begun = time.monotonic()
            X = (self.native if reads_columns(name) else self.X)[chosen]
            with noted(self.notes, None):
                model, _ = fitted_within(spending.PILOT_SECONDS, estimator, X, y)
                if self.classifies and has_gradients(model):  # others are timed before they are attacked
                    attacked_correct(model, X[few], y[few], eps, len(self.table.numeric), self.options.seed)
            key = key_of(name, settled(estimator, model))
            total += (time.monotonic() - begun) * (1 if key in seen else len(spending.NOISE) + 1)
            seen.add(key)
        return total

    def fit(self, name: str, estimator: Supervised, y: Labels) -> Supervised:
        """Fit to the training rows in its share of the time left, and note who stopped before converging."""
        X = self.native if reads_columns(name) else self.X
        with noted(self.notes, name if y is self.y else None):
            if name.endswith(OF_LOG):  # corrupt targets may be negative
                y = np.maximum(y, self.table.target.min())
            model, early = fitted_within(self.left() * spending.ONE_FIT, estimator, X, y)
        if early:
            self.unfinished.add(name)
        return model

    def held_out(self, name: str) -> NDArray[np.float64]:
        """Return the held-out rows as this model takes them."""
        if self.space is not None and name in self.in_place:
            return self.space.rows(self.test)
        return self.native_test if reads_columns(name) else self.X_test

    def score(self, name: str, model: Predictor, part: Pick = slice(None)) -> Cell:
        predicted = model.predict(self.held_out(name)[part])
        y = self.y_test[part]
        return accuracy(predicted == y) if self.classifies else rmse(predicted - y, self.options.seed)

    def attacked(self, name: str, eps: float) -> Cell:
        """Attack a fitted model on the held-out rows that still stand within eps, and note the time it took."""
        if name not in self.fallen:
            self.fallen[name] = Fallen(np.asarray(self.models[name].predict(self.held_out(name)) == self.y_test))
        fallen = self.fallen[name]
        found = kept_stage(["attacked", name, eps], partial(self._attack, name, eps))
        fallen.note(eps, found["survived"])
        self.attack_seconds[name] = max(found["seconds"], self.attack_seconds.get(name, 0.0))
        return self.stood(name, eps)

    def stood(self, name: str, eps: float) -> Cell:
        """Return the accuracy within eps, by all that was found within that radius and smaller ones."""
        return accuracy(self.fallen[name].standing(eps))

    def _attack(self, name: str, eps: float) -> Memory:
        begun = time.monotonic()
        with warnings.catch_warnings():
            if eps != self.options.eps:  # the table's attack says what there is to say
                warnings.simplefilter("ignore", UserWarning)
            survived = self.fallen[name].attack(eps, partial(self.survives, name, eps))
        return {"survived": survived, "seconds": time.monotonic() - begun}

    def survives(self, name: str, eps: float, rows: Rows) -> Mask:
        """Say which of some held-out rows a fitted model gets right after an attack."""
        model, X, y = self.models[name], self.held_out(name)[rows], self.y_test[rows]
        if name in GUESSES:
            return np.asarray(model.predict(X) == y)
        attack = attacked_by_columns if reads_columns(name) else attacked_correct
        return attack(model, X, y, eps, len(self.table.numeric), self.options.seed)
