"""Which rows look wrong, and why: a robust fit's verdict on each row without it, and what contradicts the row."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from buttress._suggest import agreeing
from buttress._types import Labels, Mask, Rows
from buttress.audit.measuring.cells import number
from buttress.audit.reading.cautions import Quartiles, quartiles_of
from buttress.audit.reading.table import DataTable
from buttress.robust import RobustKernelClassifier, RobustKernelRegressor
from buttress.robust.judged import what_they_share
from buttress.robust.report import expectations

NEIGHBOURS = 10  # nearest rows that the sentence on a row counts
COMPARED = 10_000  # rows among which the nearest of a row are looked for
LISTED = 1000  # rows that are listed with their values and what contradicts them; all have a verdict
Robust = RobustKernelClassifier | RobustKernelRegressor
Plain = bool | int | float | str | None
WRONG = 0.5  # probability from which a row is called wrong
BORDERLINE = 0.25  # and from which it is worth a look


@dataclass(frozen=True)
class Suspicion:
    """How many rows were judged and look wrong; ``share`` is the estimated share of wrong targets among all rows, and
    between ``share_low`` and ``share_high`` it may lie.

    ``above_half`` rows are more likely wrong than right, of which ``held_out_above_half`` were held out from the
    models; ``isolated`` ones resemble no other row.
    """

    judged: int
    rows: int
    share: float
    share_low: float
    share_high: float
    above_half: int
    held_out_above_half: int
    borderline: int
    isolated: int

    def says(self) -> str:
        """Return a sentence about how many rows look wrong, of which."""
        all_of = "all" if self.judged == self.rows else f"{self.judged} of the"
        alone = self.isolated
        resembling = f" {alone} {agreeing(alone, 'resembles', 'resemble')} no other row." if alone else ""
        between = f"{self.share_low:.1%} to {self.share_high:.1%}"
        return (f"{all_of} {self.rows} rows were judged, held-out ones too: {self.above_half} "
                f"{agreeing(self.above_half, 'is', 'are')} more likely wrong than right, and about "
                f"{self.share:.1%} are estimated to be wrong ({between}).{resembling}").capitalize()


@dataclass(frozen=True)
class Neighbour:
    """A near row that contradicts another one."""

    row: Plain
    given: Plain
    values: dict[str, Plain]


@dataclass(frozen=True)
class Unusual:
    """A column in which a row differs from the rows of its target, and what these have there."""

    column: str
    value: Plain
    usual: str


@dataclass(frozen=True)
class Suspect:
    """A row that looks wrong or is borderline, what is unusual about it, and the nearest rows that contradict it."""

    row: Plain
    given: Plain
    expected: Plain
    probability: float
    score: float
    verdict: str
    why: str
    values: dict[str, Plain]
    unusual: list[Unusual]
    neighbours: list[Neighbour]


@dataclass
class Verdicts:
    """What the robust fit says of each judged row, in their order: arrays of length n.

    ``score`` is by how much the fit without the row prefers another class, or its distance from y in standard
    deviations; ``alone`` says that no other row resembles it; ``near`` (n, k) holds the nearest rows, -1 where they
    were not looked for. ``interval`` is the estimator's own for the share of wrong targets.
    """

    given: Labels
    expected: Labels
    probability: NDArray[np.float64]
    score: NDArray[np.float64]
    alone: NDArray[np.bool_]
    near: NDArray[np.intp]
    share: float
    classifies: bool
    interval: tuple[float, float] = (0.0, 1.0)

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """The rows that are more likely wrong than right."""
        return (self.probability >= WRONG) & ~self.alone

    @property
    def borderline(self) -> NDArray[np.bool_]:
        """The rows that are probably right, but worth a look."""
        return (self.probability >= BORDERLINE) & (self.probability < WRONG) & ~self.alone

    def misleading(self) -> str:
        """Return why targets that look wrong may be right, as far as the verdicts say, empty if they do not.

        So many may follow no column; or they share what genuine targets do, as where many are equal.
        """
        shared = None if self.classifies else what_they_share(self.given, self.given - self.expected, self.wrong,
                                                              together=False)
        if shared:
            return f"but {shared[0]}"
        return "so many may also mean that the columns do not tell the targets" if self.share >= 0.2 else ""

    def kinds(self) -> list[str]:
        """Return the verdict on each row in a word or two."""
        return np.select([self.alone, self.wrong, self.borderline],
                         ["resembles no other row", "wrong", "borderline"], "fine").tolist()

    def counts(self, rows: int, held_out: Mask) -> Suspicion:
        """Return how many of a table's ``rows`` were judged, and how many look wrong; ``held_out`` (n,) marks which."""
        return Suspicion(len(self.given), rows, self.share, *self.interval, int(self.wrong.sum()),
                         int((self.wrong & held_out).sum()), int(self.borderline.sum()), int(self.alone.sum()))

    def why(self, i: int) -> str:
        """Return a sentence about row i: what the fit without it expects, and what its neighbours are."""
        if self.alone[i]:
            return "no other row resembles it, so its label cannot be checked"
        near, score = self.given[self.neighbours(i)[:NEIGHBOURS]], self.score[i]
        if not self.classifies:
            beside = f"; its {len(near)} nearest rows have the median {number(np.median(near))}" if len(near) else ""
            return f"it lies {score:.1f} standard deviations from what the robust fit without it expects{beside}"
        expected = repr(plain(self.expected[i]))
        says = f"prefers {expected} by {score:.2f}" if score > 0 else f"agrees by only {-score:.2f}"
        alike = int((near == self.expected[i]).sum())
        beside = f"; {alike} of its {len(near)} nearest rows are {expected}" if len(near) else ""
        return f"the robust fit without it {says}{beside}"

    def neighbours(self, i: int) -> Rows:
        """Return the rows nearest to row i, none where they were not looked for."""
        return self.near[i][self.near[i] >= 0]


def judge(
    X: NDArray[np.float64], y: Labels, task: str, *, seed: int, logarithms: bool = False,
) -> tuple[Verdicts, Robust]:
    """Return the verdict on each row of prepared features X (n, d) by a fit without it, and that fit.

    ``logarithms`` says to judge the logarithms of the targets. The nearest rows are not looked for.
    """
    classifies = task == "classification"
    model = (RobustKernelClassifier if classifies else RobustKernelRegressor)(random_state=seed)
    targets = np.log(y) if logarithms else y
    model.fit(X, targets)
    expected, score = expectations(model, targets)
    low, high = model.contamination_interval_
    return Verdicts(y, np.exp(expected) if logarithms else expected, model.outlier_proba_, score,
                    getattr(model, "isolated_", np.zeros(len(X), dtype=bool)), np.empty((len(X), 0), dtype=np.intp),
                    float(model.contamination_), classifies, (float(low), float(high))), model


def none_judged(target: Labels, classifies: bool) -> Verdicts:
    """Return verdicts on no row."""
    none = np.zeros(0)
    return Verdicts(target[:0], target[:0], none, none, none > 0, np.zeros((0, 0), dtype=np.intp), 0.0, classifies)


def nearest(verdicts: Verdicts, rows: Rows, fitted: int, prepare: Callable[[Rows], NDArray[np.float64]]) -> Rows:
    """Return which of the first rows of the fit are nearest to each judged row (n, k), of many rows to doubtful ones.

    ``rows`` of the table were judged, the first of which were ``fitted``; ``prepare`` maps them to prepared features.
    """
    among = prepare(rows[: min(fitted, COMPARED)])
    index = NearestNeighbors(n_neighbors=min(5 * NEIGHBOURS, len(among) - 1)).fit(among)
    near = np.full((len(rows), index.n_neighbors), -1, dtype=np.int32)
    asked = np.flatnonzero(verdicts.wrong | verdicts.borderline | (len(rows) <= COMPARED))
    if len(asked):
        found = index.kneighbors(prepare(rows[asked]), index.n_neighbors + 1, return_distance=False)
        own = found == asked[:, None]
        own[:, -1] |= ~own.any(axis=1)  # a row is no neighbour of itself; else the farthest is left out
        near[asked] = found[~own].reshape(len(asked), -1)
    return near


def suspects(verdicts: Verdicts, table: DataTable, judged: NDArray[np.intp]) -> list[Suspect]:
    """Return the rows that look wrong or are borderline, the most suspicious first, each with what contradicts it.

    ``judged`` (n,) are the rows of the table in the order of the verdicts.
    """
    shown = np.concatenate([rows[in_order(verdicts.probability[rows], verdicts.score[rows])]
                            for rows in map(np.flatnonzero, (verdicts.wrong, verdicts.borderline))])
    described = describing(verdicts, table, judged)
    return [described(i) for i in shown[:LISTED].tolist()]


def in_order(probability: NDArray[np.float64], score: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the places of rows with the most suspicious first: by the probability as it is shown, then the score."""
    return np.lexsort((-score, -np.round(probability, 2)))


def describing(verdicts: Verdicts, table: DataTable, judged: NDArray[np.intp]) -> Callable[[int], Suspect]:
    """Return the function that describes one judged row by its place among them, whatever the verdict on it."""
    kinds = verdicts.kinds()
    usual = usual_of(verdicts, table, judged)

    def row(k: int) -> tuple[Plain, Plain]:
        return plain(table.row_numbers[judged[k]]), plain(verdicts.given[k])

    def described(i: int) -> Suspect:
        near = verdicts.neighbours(i)
        if verdicts.classifies:
            near = near[verdicts.given[near] == verdicts.expected[i]]
        neighbours = [Neighbour(*row(k), values_of(table, int(judged[k]))) for k in near[:3].tolist()]
        values = values_of(table, int(judged[i]))
        return Suspect(*row(i), plain(verdicts.expected[i]), float(verdicts.probability[i]), float(verdicts.score[i]),
                       kinds[i], verdicts.why(i), values, unusual(values, usual(i)), neighbours)

    return described


def values_of(table: DataTable, place: int) -> dict[str, Plain]:
    """Return the features of one row of the table as plain values, None where missing."""
    numbers = {name: float(column[place]) for name, column in table.numeric.items()}
    return ({name: None if np.isnan(value) else value for name, value in numbers.items()}
            | {name: str(column[place]) for name, column in table.categorical.items()})


Usual = Quartiles | Counter[str]


def usual_of(
    verdicts: Verdicts, table: DataTable, judged: NDArray[np.intp]
) -> Callable[[int], dict[str, Usual]]:
    """Return the function that says what is usual among the rows that have a judged row's target.

    That are the quartiles of numbers, and the counts of categories. Of very many rows some are looked at.
    """
    looked = slice(None, None, -(-len(judged) // 20_000) or None)  # at most so many rows are compared with
    rows, given = judged[looked], verdicts.given[looked]
    known: dict[object, dict[str, Usual]] = {}

    def among(peers: NDArray[np.intp]) -> dict[str, Usual]:
        return {**{name: quartiles_of(column[peers]) for name, column in table.numeric.items()},
                **{name: Counter(texts[peers].tolist()) for name, texts in table.categorical.items()}}

    def usual(i: int) -> dict[str, Usual]:
        target = verdicts.given[i]
        if not verdicts.classifies:
            order = np.argsort(np.abs(given - target), kind="stable")
            return among(rows[order[: max(20, len(rows) // 10)]])  # of the nearest targets
        if target not in known:
            peers = rows[given == target]
            known[target] = among(peers if len(peers) else judged[verdicts.given == target])
        return known[target]

    return usual


def unusual(values: Mapping[str, Plain], usual: Mapping[str, Usual]) -> list[Unusual]:
    """Return the columns in which a row differs most from what is usual for its target."""
    found: list[tuple[float, Unusual]] = []
    for name, among in usual.items():
        value = values[name]
        if isinstance(among, Counter):
            n = among.total()
            commonest = max(sorted(among), key=lambda text: among[text])
            found.append((-2 * np.log10(max(among[str(value)] / n, 1 / n)),
                          Unusual(name, value, f"{commonest} ({among[commonest] / n:.0%})")))
        elif isinstance(value, float) and among.spread > 0:
            ends = [among.low, among.high] if among.high > among.low else [among.middle]
            found.append((abs(value - among.middle) / among.spread,
                          Unusual(name, value, " to ".join(map(number, ends)))))
    found.sort(key=lambda entry: -entry[0])
    return [one for how, one in found[:3] if how >= 1.5]  # robust deviations, or -log10 of the share of its category


def plain(value: object) -> Plain:
    """Return a numpy scalar as a Python one, and a label such as a date or a pair as text, for JSON."""
    value = value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mM" else value
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
