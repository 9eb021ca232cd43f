"""A review: the rows of an audited table in the order in which they are looked at, and what was decided of each."""

import csv
import io
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from buttress._types import Labels
from buttress.audit.baselines import takes_logarithms
from buttress.audit.data import AuditData
from buttress.audit.measuring.judging import Judgement
from buttress.audit.measuring.split_table import ModelColumns
from buttress.audit.measuring.suspicion import BORDERLINE, Plain, Suspect, describing, in_order, plain
from buttress.audit.reading.entries import as_array
from buttress.review.estimates import Draw, Left, Ranking, WrongCell, ranking_of, wrong_cells, wrong_left
from buttress.review.store import Action, Decision, RefusedError, Said, Store, digest_of

BATCH = 10  # decisions after which rows are ranked anew
LEARNED = 5000  # rows that the ranking is learned on, at most
PAGE = 100  # rows on a page of the table


@dataclass(frozen=True)
class ShownRow:
    """One row as it is shown: what the audit says of it, its wrong cells, and what was decided."""

    place: int
    key: str
    suspect: Suspect | None
    values: dict[str, Plain]
    cells: dict[str, WrongCell]
    given: Plain
    expected: Plain
    probability: float | None
    decision: Decision | None
    drawn: bool


@dataclass(frozen=True)
class Filter:
    """Which rows the table shows: of a finding, of a class given, with something unusual in a column, decided or not.
    """

    finding: str = ""
    given: str = ""
    column: str = ""
    state: str = "open"


class Review:
    """The course of a review of an audit's rows; ``path`` is where decisions are kept, ``who`` decides."""

    def __init__(self, result: AuditData, path: Path, who: str, seed: int | None = None):
        self.result = result
        self.table = result.sheet.table
        keys = result.sheet.keys
        self.keys = [keys[place] for place in self.table.places.tolist()]
        self.names = [str(number) for number in self.table.row_numbers.tolist()]
        self.place_of = {key: place for place, key in enumerate(self.keys)}
        self.store = Store(path, digest_of(keys, self.table.target_name), who)
        self.judged = np.full(len(self.table), -1)  # the number of each row among those judged
        self.judged[result.sheet.judged] = np.arange(len(result.sheet.judged))
        verdicts = result.sheet.verdicts
        n = len(self.table)
        self.ranked = Judgement(np.full(n, np.nan), np.zeros(n), self.table.target.astype(object))
        self._take_up(Judgement(verdicts.probability, verdicts.score, verdicts.expected), result.sheet.judged)
        self.ranked_after = 0
        self._rng = np.random.default_rng(seed)
        self._worker = ThreadPoolExecutor(1, "ranking")
        self._cells = self._worker.submit(wrong_cells, self.table, result.sheet.judged)
        self._running: Future[None] | None = None
        self._lock = Lock()
        if self.store.current:
            self.rank_anew()

    @property
    def classifies(self) -> bool:
        return self.result.task == "classification"

    @cached_property
    def classes(self) -> list[str]:
        """The classes as they are written in the data, none of numbers."""
        return [written(label) for label in self._labels] if self.classifies else []

    @cached_property
    def described(self) -> Callable[[int], Suspect]:
        """The function that describes a judged row."""
        return describing(self.result.sheet.verdicts, self.table, self.result.sheet.judged)

    @property
    def cells(self) -> dict[int, dict[str, WrongCell]]:
        """The wrong cells of each row that has some; of a large table none in the first seconds."""
        return self._cells.result() if self._cells.done() else {}

    def open_rows(self) -> NDArray[np.bool_]:
        """Say of each row (n,) whether nobody decided on it."""
        return ~np.isin(np.arange(len(self.table)), [self.place_of[key] for key in self.store.current])

    def next(self) -> int | None:
        """Return the row to look at: the most suspicious one not decided on, every tenth drawn; None if all are."""
        with self._lock:
            self.store.read()
            is_open, draws = self.open_rows(), self.store.draws
            if draws and is_open[self.place_of[draws[-1].key]]:
                return self.place_of[draws[-1].key]
            if not is_open.any():
                return None
            after = draws[-1].after if draws else 0
            since = len({one.key for one in self.store.history if one.id > after})
            seen = [self.place_of[one.key] for one in self.store.history]
            fresh = is_open & ~np.isin(np.arange(len(is_open)), seen)
            if since >= 10 - (not draws) and fresh.any():  # one row of ten that are shown is drawn at random
                drawn = int(self._rng.choice(np.flatnonzero(fresh)))
                self.store.draw(self.keys[drawn])
                return self.place_of[self.store.draws[-1].key]
            return int(self.in_order(np.flatnonzero(is_open))[0])

    def in_order(self, places: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return rows with the most suspicious first, those that were not judged last."""
        probability = np.nan_to_num(self.ranked.probability[places], nan=-1.0)
        return places[in_order(probability, self.ranked.score[places])]

    def shown(self, place: int) -> ShownRow:
        """Return a row as it is shown."""
        i = int(self.judged[place])
        key = self.keys[place]
        p = float(self.ranked.probability[place])
        given = {name: plain(as_array(column)[self.table.places[place]]) for name, column in self.table.given.items()}
        return ShownRow(place, key, None if i < 0 else self.described(i), given, self.cells.get(place, {}),
                        plain(self.table.target[place]), plain(self.ranked.expected[place]), None if np.isnan(p) else p,
                        self.store.current.get(key), any(draw.key == key for draw in self.store.draws))

    def decide(self, places: Iterable[int], action: Action, value: str | None, why: str, seen: int) -> None:
        """Record a decision on rows, to correct each to ``value`` or, if None, to what is expected of it.

        To correct a target to what is given is to keep it. RefusedError says why it cannot be.
        """
        said = []
        for place in places:
            to = (self._expected(place) if value is None else self._checked(value)) if action is Action.correct else ""
            given = action is Action.correct and self._target(to) == self.table.target[place]
            done, to = (Action.keep, "") if given else (action, to)
            said.append(Said(self.keys[place], self.names[place], done, to, why.strip()))
        if not said:
            raise RefusedError("No row was chosen. Tick some rows first.")
        self.store.record(said, seen)
        if len(self.store.history) - self.ranked_after >= BATCH:
            self.rank_anew()

    def _expected(self, place: int) -> str:
        expected = self.ranked.expected[place]
        if expected == self.table.target[place]:
            raise RefusedError(f"Nothing was recorded: of row {self.names[place]} the target given is the one "
                               "expected. Keep it, or choose another for it.")
        return written(expected)

    def _checked(self, value: str) -> str:
        if self.classifies and value not in self.classes:
            raise RefusedError(f"{value!r} is no class of {self.table.target_name!r}. Choose one of "
                               f"{', '.join(map(repr, self.classes))}.")
        if not self.classifies:
            value = value.strip()
            try:
                number = float(value) if value.isascii() and "_" not in value else np.nan  # as files write numbers
            except ValueError:
                number = np.nan
            if not np.isfinite(number) or (number <= 0 and self._logarithms):
                what = "a number above 0, as all others are" if self._logarithms else "a number"
                raise RefusedError(f"The target must be {what}. Got {value!r}.")
        return value

    def undo(self, number: int) -> Decision:
        """Take a decision back."""
        taken = self.store.undo(number)
        if len(self.store.history) - self.ranked_after >= BATCH:
            self.rank_anew()
        return taken

    def left(self) -> Left:
        """Return how many wrong rows are left, by the rows drawn at random."""
        first = {one.key: one.id for one in reversed(self.store.history)}
        said = {one.key: one for one in self.store.history if one.action is not Action.undo}
        wrong = {key for key, one in said.items() if one.action in (Action.correct, Action.drop)}
        perhaps = wrong | {key for key, one in said.items() if one.action is Action.unsure}
        draws = []
        for draw in self.store.draws:
            if draw.key in first:
                before = {key for key, number in first.items() if number <= draw.after}
                draws.append(Draw(len(self.keys) - len(before), len(wrong & before), len(perhaps & before),
                                  draw.key in wrong, draw.key in perhaps))
        return wrong_left(draws, len(self.keys) - len(first), len(wrong), len(perhaps))

    def rank_anew(self) -> None:
        """Rank the rows anew in the background, unless that is being done."""
        if self._running is None or self._running.done():
            self.ranked_after = len(self.store.history)
            self._running = self._worker.submit(self._learn)

    @cached_property
    def _logarithms(self) -> bool:
        return takes_logarithms(self.table)

    @cached_property
    def _learned_on(self) -> NDArray[np.intp]:
        """The places among the judged rows that the ranking is learned on: the suspicious half, and others."""
        p = self.result.sheet.verdicts.probability
        if len(p) <= LEARNED:
            return np.arange(len(p))
        order = np.argsort(-p, kind="stable")
        others = np.random.default_rng(0).permutation(order[LEARNED // 2 :])[: LEARNED // 2]
        return np.sort(np.concatenate([order[: LEARNED // 2], others]))

    @cached_property
    def _ranking(self) -> Ranking:
        chosen = self._learned_on
        places = self.result.sheet.judged[chosen]
        features = ModelColumns(self.table, places)
        return ranking_of(features.prepared(features.raw[places]), self.table.target[places],
                          self.result.sheet.verdicts.probability[chosen], classifies=self.classifies,
                          logarithms=self._logarithms)

    def _learn(self) -> None:
        places = self.result.sheet.judged[self._learned_on]
        at = {int(place): i for i, place in enumerate(places)}
        known = [(at[self.place_of[key]], one) for key, one in list(self.store.current.items())
                 if self.place_of.get(key, -1) in at and one.action is not Action.unsure]
        kept = [(i, one) for i, one in known if one.action is not Action.drop]
        dropped = [i for i, one in known if one.action is Action.drop]
        targets = np.array([self.target_after(int(places[i]), one) for i, one in kept], dtype=self.table.target.dtype)
        ranked = self._ranking.learn(np.array([i for i, _ in kept], dtype=np.intp), targets,
                                     np.array(dropped, dtype=np.intp))
        self._take_up(ranked, places)

    def target_after(self, place: int, one: Decision) -> object:
        """Return the target of a row after a decision that keeps the row."""
        if one.action is Action.keep:
            return self.table.target[place]
        return self._target(one.value)

    def _target(self, value: str) -> object:
        return self._labels[self.classes.index(value)] if self.classifies else float(value)

    def _take_up(self, ranked: Judgement, places: NDArray[np.intp]) -> None:
        now = Judgement(self.ranked.probability.copy(), self.ranked.score.copy(), self.ranked.expected.copy())
        now.probability[places] = ranked.probability
        now.score[places] = ranked.score
        now.expected[places] = ranked.expected
        self.ranked = now

    def chosen(self, wanted: Filter) -> NDArray[np.intp]:
        """Return the rows that a filter lets through, the most suspicious first."""
        is_open = self.open_rows()
        keep = {"open": is_open, "decided": ~is_open}.get(wanted.state, np.ones(len(is_open), dtype=bool)).copy()
        if wanted.given in self.classes:
            keep &= self.table.target == self._target(wanted.given)
        if wanted.finding:
            keep &= np.isin(self.names, self.findings.get(wanted.finding, []))
        if wanted.column:
            keep &= np.isin(self.names, self.columns.get(wanted.column, []))
        return self.in_order(np.flatnonzero(keep))

    @cached_property
    def _labels(self) -> Labels:
        return np.unique(self.table.target)

    @cached_property
    def findings(self) -> dict[str, list[str]]:
        """The rows of each finding that names rows, by its code."""
        return {one.code: [str(row) for row in one.evidence["rows"]] for one in self.result.findings
                if isinstance(one.evidence.get("rows"), list)}

    @cached_property
    def columns(self) -> dict[str, list[str]]:
        """The rows with something unusual or wrong in each column."""
        found: dict[str, list[str]] = {}
        for suspect in self.result.suspects:
            for unusual in suspect.unusual:
                found.setdefault(unusual.column, []).append(str(suspect.row))
        for place, cells in self._cells.result().items():
            for name in cells:
                found.setdefault(name, []).append(self.names[place])
        return found

    def suspicious_left(self) -> int:
        """Return how many rows not decided on are worth a look."""
        p = self.ranked.probability.copy()
        p[~self.open_rows()] = 0.0
        return int((np.nan_to_num(p) >= BORDERLINE).sum())

    def corrections(self) -> str:
        """Return what was decided as the CSV that ``buttress apply`` reads."""
        self.store.read()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("row", "target", "key", "corrected", "drop", "decision", "why", "who", "when"))
        for one in sorted(self.store.current.values(), key=lambda one: one.id):
            writer.writerow([one.row, self.table.target_name, one.key, one.value,
                             "yes" if one.action is Action.drop else "", one.action, one.why, one.who, one.at])
        return text.getvalue()

    def close(self) -> None:
        """End the review: decisions are kept."""
        self._worker.shutdown(wait=True, cancel_futures=True)
        self.store.close()


def written(label: object) -> str:
    """Return a class as a CSV file of the data has it: polars reads ``true`` as a truth value and prints ``True``."""
    value = plain(label)
    return str(value).lower() if isinstance(value, bool) else str(value)
