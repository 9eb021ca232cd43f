"""The study: split, fit everyone as the rows are and corrupted, attack, rank the suspicious, in a budget."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from os import cpu_count
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from buttress._types import Mask, Predictor, Rows, Supervised
from buttress.attacks.radii import Fallen
from buttress.audit import options as spending
from buttress.audit.against.tests import unlike
from buttress.audit.baselines import (
    GUESSES,
    NAMES,
    OF_LOG,
    attacked_by_columns,
    reads_columns,
    takes_logarithms,
)
from buttress.audit.contenders import fitted_within, key_of, settled
from buttress.audit.curves import NOISE, eps_curve, noise_curve
from buttress.audit.early import look_at_columns, tell_of_labels
from buttress.audit.findings import Finding
from buttress.audit.fitted import is_fitted, on_prepared
from buttress.audit.judging import Jury
from buttress.audit.keeping import kept_stage
from buttress.audit.measure import (
    Cell,
    accuracy,
    attacked_correct,
    has_gradients,
    has_scores,
    measured_columns,
    median_error,
    r2,
    rmse,
)
from buttress.audit.moves.asking import InPlace
from buttress.audit.moves.measuring import measure, pose
from buttress.audit.moves.space import Space
from buttress.audit.options import Options
from buttress.audit.protocols import Labels, Pick, Report
from buttress.audit.proving import prove
from buttress.audit.reading.cautions import cautions
from buttress.audit.reading.split import draw, split
from buttress.audit.reading.table import Table
from buttress.audit.suspicion import Verdicts, judge, plain
from buttress.audit.warned import noted
from buttress.checkpoints.journal import journal_of_fit
from buttress.checkpoints.memory import Memory

NOVELTY = 0.1  # of the rows called novel are not: a false discovery rate


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
    suspicion: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unattacked: set[str] = field(default_factory=set)
    unfinished: set[str] = field(default_factory=set)
    attack_seconds: dict[str, float] = field(default_factory=dict)
    fallen: dict[str, Fallen] = field(default_factory=dict)  # the held-out rows of each attacked model
    novel: list[Any] = field(default_factory=list)
    subsampled: dict[str, Any] = field(default_factory=dict)
    space: Space | None = None
    in_place: set[str] = field(default_factory=set)
    yours: dict[str, InPlace] = field(default_factory=dict)
    moves: dict[str, str] = field(default_factory=dict)

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

    def run(self) -> None:
        """Split and prepare, choose how many rows the budget allows, then measure in order of importance."""
        self.began = time.monotonic()
        self._split()
        pose(self)
        self.report("columns", 0.01)
        self.known = look_at_columns(self)
        columns = self.columns()
        self.rows = {name: {key: Cell() for key in columns} for name in self.entries}
        self._subsample()
        self._as_is_and_attacked()
        if self.classifies:
            self.report("certificates", 0.5)
            prove(self)
        if self.space is not None:
            measure(self, self.space)
        self.report("suspicious rows", 0.55)
        self._suspicious()
        self._novel()
        noise_curve(self)
        eps_curve(self)
        self._conclude_judging()
        self.report("writing", 0.97)

    def columns(self) -> dict[str, str]:
        """Return the columns of the table, and what they say."""
        return measured_columns(self.classifies, self.options.eps) | self.moves

    def _split(self) -> None:
        train, test, note = split(self.table, self.classifies, self.options.seed)
        self.notes += [*cautions(self.table, self.classifies), *([note] if note else [])]
        self.sizes = {"train": len(train), "test": len(test)}
        self.raw = self.table.coded()
        scaled_by = self._at_most(train, spending.SCALING_ROWS)
        self.preparation = self.table.preparation().fit(self.raw[scaled_by])
        self.scaler = self.preparation.named_transformers_["numeric"][-1] if self.table.numeric else None
        self.native_preparation = self.table.native().fit(self.raw[scaled_by])
        # no more rows are prepared than can be used
        self.train = self._at_most(train, self.options.rows or max(spending.TRAINING_ROWS))
        self.test = self._at_most(test, spending.TEST_ROWS)
        if len(self.test) < len(test):
            self.subsampled["test"] = f"{len(self.test)} of {len(test)} held-out rows"
        self.X, self.X_test = self._prepared(self.train), self._prepared(self.test)
        self.native, self.native_test = (self.native_of(self.raw[part]) for part in (self.train, self.test))
        self.y = self.table.target[self.train]
        self.y_test = self.table.target[self.test]

    def _at_most(self, rows: NDArray[np.intp], size: int) -> NDArray[np.intp]:
        """Return so many of the rows of the table, drawn, or all where they are fewer."""
        return rows if len(rows) <= size else rows[self._draw(self.table.target[rows], size)]

    def _prepared(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return rows of the table as prepared features."""
        return self.prepared_of(self.raw[rows])

    def prepared_of(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return coded columns (n, d) as prepared features."""
        return np.asarray(self.preparation.transform(raw), dtype=np.float64)

    def native_of(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return coded columns (n, d) as gradient boosting takes them, gaps and all."""
        return np.asarray(self.native_preparation.transform(raw), dtype=np.float64)

    def _subsample(self) -> None:
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
            total += (time.monotonic() - begun) * (1 if key in seen else len(NOISE) + 1)
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

    def _as_is_and_attacked(self) -> None:
        self.models: dict[str, Predictor] = {}
        for k, (name, estimator) in enumerate(self.entries.items()):
            self.report(f"{name}: as is and attacked", 0.1 + 0.45 * k / len(self.entries))
            if name in self.unfitted:
                model: Predictor = self.fit(name, self.unfitted[name], self.y)
            else:
                model = self.yours[name] if name in self.in_place else on_prepared(estimator, self.scaler)
            self.models[name] = model
            self.rows[name]["as_is"] = self.score(name, model)
            if self.classifies:
                self._attack_if_affordable(name)
            else:
                residual = model.predict(self._held_out(name)) - self.y_test
                self.rows[name]["r2"] = r2(residual, self.y_test, self.options.seed)
                self.rows[name]["median"] = median_error(residual, self.options.seed)

    def _held_out(self, name: str) -> NDArray[np.float64]:
        """Return the held-out rows as this model takes them."""
        if self.space is not None and name in self.in_place:
            return self.space.rows(self.test)
        return self.native_test if reads_columns(name) else self.X_test

    def score(self, name: str, model: Predictor, part: Pick = slice(None)) -> Cell:
        predicted = model.predict(self._held_out(name)[part])
        y = self.y_test[part]
        return accuracy(predicted == y) if self.classifies else rmse(predicted - y, self.options.seed)

    def _attack_if_affordable(self, name: str) -> None:
        """Attack a fitted model; one without scores, or too slow to be asked so often, is left out with a note."""
        why_not = ""
        if name in NAMES:
            pass
        elif name in self.in_place:
            why_not = f"{name} reads the columns as they came, and is moved in them: see moved, swapped and blanked."
        elif not has_scores(self.models[name]):
            why_not = f"{name} gives labels only: it was not attacked, and is not recommended."
        elif not has_gradients(self.models[name]):
            seconds = self._expected_seconds(name)
            if seconds > self.left() * spending.ONE_ATTACK:
                why_not = (f"{name} has no known gradients, and to attack it by queries would take about {seconds:.0f} "
                           "s: it was not attacked, and is not recommended. Raise the budget.")
            else:
                self.notes.append(f"{name} has no known gradients: it was attacked by queries, with the worst of "
                                  "several attacks.")
        if why_not:
            self.unattacked.add(name)
            self.notes.append(why_not)
        else:
            self.rows[name]["attacked"] = self.attacked(name, self.options.eps)

    def _expected_seconds(self, name: str) -> float:
        """Return what an attack on all held-out rows should take, from one on two rows and one on a few more."""
        seconds = []
        for count in (2, spending.COUNTED):  # the first also pays for what is paid once
            rows = np.arange(min(count, len(self.y_test)))
            found = kept_stage(["attacked", name, self.options.eps, count], partial(self._timed, name, rows))
            seconds.append(found["seconds"])
        a_row = max(0.0, seconds[1] - seconds[0]) / (spending.COUNTED - 2)
        return seconds[1] + a_row * max(0, len(self.X_test) - spending.COUNTED)

    def _timed(self, name: str, rows: Rows) -> Memory:
        begun = time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the table's attack says what there is to say
            self._survives(name, self.options.eps, rows)
        return {"seconds": time.monotonic() - begun}

    def attacked(self, name: str, eps: float) -> Cell:
        """Attack a fitted model on the held-out rows that still stand within eps, and note the time it took."""
        if name not in self.fallen:
            self.fallen[name] = Fallen(np.asarray(self.models[name].predict(self._held_out(name)) == self.y_test))
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
            survived = self.fallen[name].attack(eps, partial(self._survives, name, eps))
        return {"survived": survived, "seconds": time.monotonic() - begun}

    def _survives(self, name: str, eps: float, rows: Rows) -> Mask:
        """Say which of some held-out rows a fitted model gets right after an attack."""
        model, X, y = self.models[name], self._held_out(name)[rows], self.y_test[rows]
        if name in GUESSES:
            return np.asarray(model.predict(X) == y)
        attack = attacked_by_columns if reads_columns(name) else attacked_correct
        return attack(model, X, y, eps, len(self.table.numeric), self.options.seed)

    def _suspicious(self) -> None:
        """Judge rows, trained on or held out alike: each by a fit without it, so that none need be kept apart.

        With ``rows`` given those are the rows that are used; else all rows, as far as the budget allows. Of more than
        the fit takes, the others are judged by it as they are.
        """
        known = np.concatenate([self.train, self.test])
        others = np.setdiff1d(np.arange(len(self.table)), known)
        if self.options.rows:
            others = others[:0]
        others = np.random.default_rng(self.options.seed).permutation(others)
        many = len(others) and self.left() > spending.LARGE_FIT_SECONDS
        more = others[: spending.LARGE_FIT_ROWS - len(known)] if many else others[:0]
        fitted = np.concatenate([more, known])
        logarithms = takes_logarithms(self.table, self.task)
        with threadpool_limits(cpu_count() if len(more) else 1, user_api="blas"):
            first, model = judge(self._prepared(fitted), self.table.target[fitted], self.task, held_out=len(self.test),
                                 seed=self.options.seed, logarithms=logarithms,
                                 max_time=max(1.0, spending.ONE_LARGE_FIT * self.left()) if len(more) else None)
        self.jury = Jury(model, self._prepared, self.table.target, fitted, first, others[len(more) :], logarithms)
        tell_of_labels(self)
        self._judge_others(spending.FOR_JUDGING * self.left())

    def _judge_others(self, seconds: float) -> None:
        """Judge rows the robust fit has not seen for some seconds, or until none is left."""
        total = len(self.jury.waiting)
        with threadpool_limits(cpu_count(), user_api="blas"):
            for waiting in self.jury.go_on(time.monotonic() + seconds):
                self.report(f"judging labels: {waiting} rows to go", 0.55 + 0.1 * (1 - waiting / total))

    def _conclude_judging(self) -> None:
        """Judge what rows the time left allows, and sum up."""
        self._judge_others(self.left() - spending.FOR_WRITING * (self.began - self.started))
        self.verdicts, self.judged = self.jury.verdicts(self.test)
        self.suspicion = {**self.verdicts.counts(), "rows": len(self.table)}
        if len(self.judged) < len(self.table):
            self.subsampled["judged"] = f"{len(self.judged)} of {len(self.table)} rows"
        if len(self.judged) > len(self.jury.fitted):
            self.notes.append(f"Labels were judged by a robust fit of {len(self.jury.fitted)} rows: those without "
                              f"themselves, {len(self.judged) - len(self.jury.fitted)} others as it had not seen them.")

    def _novel(self) -> None:
        """Score everyone on the test rows that are farther from the others than those from each other, if any are."""
        self.report("novel rows", 0.58)
        if self.left() < spending.FOR_NOVELTY * self.options.budget:
            self.subsampled["novel"] = "novel rows were not looked for"
            return
        rest = np.setdiff1d(np.arange(len(self.table)), self.test)
        outside = unlike(self._prepared(self._at_most(rest, spending.NOVELTY_ROWS)), self.X_test, NOVELTY)
        self.novel = [plain(row) for row in self.table.row_numbers[self.test[outside]]]
        if self.novel:
            for name, model in self.models.items():
                self.rows[name]["novel"] = self.score(name, model, outside)
