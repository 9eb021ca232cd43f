"""The table as it is measured: the plan of the audit, columns prepared, rows split into those trained on and held out.

The plan says how much of everything is measured, by a fixed rule from the size and kind of the table. No clock is read:
the same table gets the same plan on any machine, busy or idle. The sizes are those at which a table of 50 columns and
two classes takes about ten seconds, a minute and five minutes on one core.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from buttress._types import Labels, Predictor, Rows, Supervised
from buttress.audit.baselines import GUESSES, Yours, is_fitted, reads_columns, yours_of
from buttress.audit.measuring.cells import Cell, Together, accuracy, root_mean
from buttress.audit.measuring.threatened import behind, units_of
from buttress.audit.options import Effort, Metric, Options
from buttress.audit.reading.split import draw, split
from buttress.audit.reading.table import DataTable
from buttress.threats import ThreatModel


@dataclass(frozen=True)
class SplitPlan:
    """How much is measured: rows, unless it says otherwise."""

    trained: int  # that the models are fitted to
    held_out: int  # that they are scored on and attacked on
    prepared_by: int  # whose medians, means and deviations prepare all rows
    shares: tuple[float, ...]  # of the training targets that are made wrong
    radii: tuple[float, ...]  # of attacks, in multiples of eps
    programs: float  # work of an exact attack on trees, about a tenth of a millisecond each (``attacks.exact``)
    queries: float  # predictions asked of a model without gradients, an attack or a search
    judging: int  # of the fit that judges targets
    novelty: int  # that held-out rows are compared with


PLANS = {
    Effort.quick: SplitPlan(400, 250, 50_000, (0.1, 0.3), (1.0,), 5e3, 2e5, 2_000, 2_000),
    Effort.standard: SplitPlan(1_000, 500, 50_000, (0.1, 0.3), (0.5, 1.0, 2.0), 5e4, 5e5, 40_000, 5_000),
    Effort.thorough: SplitPlan(2_500, 2_000, 50_000, (0.1, 0.2, 0.3, 0.4), (0.25, 0.5, 1.0, 1.5, 2.0), 1e6, 5e6, 40_000,
                               20_000),
}


def plan_of(table: DataTable, options: Options) -> SplitPlan:
    """Return the plan for a table: fewer rows are trained on where there are many classes, each of which costs a fit.

    The rows that the user asked for are those trained on, and all that the targets are judged by.
    """
    plan = PLANS[Effort(options.effort)]
    if options.rows is not None:
        return replace(plan, trained=options.rows)
    classes = int(table.target_codes.max()) + 1 if table.classifies else 2
    # eighty rows, however many classes there are
    return replace(plan, trained=max(80, int(plan.trained * (2 / max(2, classes)) ** 0.5)))


Places = NDArray[np.intp]  # of rows in the table


class ModelColumns:
    """The columns of a table as models take them: prepared features, or columns as they are for gradient boosting."""

    def __init__(self, table: DataTable, fitted_on: Places):
        self.raw = table.coded()
        self._preparation = table.preparation().fit(self.raw[fitted_on])
        self._native = table.native().fit(self.raw[fitted_on])
        words = {name: table.factors[name][0] for name in table.categorical}
        prepared, native = (units_of(made, list(table.numeric), words) for made in (self._preparation, self._native))
        for units in (prepared, native):
            units.coded = {name: [words[name][int(code)] for code in codes] for name, codes in units.coded.items()}
        self.units = prepared, native
        self.scaler = self._preparation.named_transformers_["numeric"][-1] if table.numeric else None

    def prepared(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return coded columns (n, d) as prepared features."""
        return np.asarray(self._preparation.transform(raw), dtype=np.float64)

    def native(self, raw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return coded columns (n, d) as gradient boosting takes them, gaps and all."""
        return np.asarray(self._native.transform(raw), dtype=np.float64)


@dataclass(frozen=True)
class SplitPart:
    """Some rows of a table: where they are, as prepared features, as boosting takes them, and their targets."""

    places: Places
    X: NDArray[np.float64]
    native: NDArray[np.float64]
    y: Labels
    together: Together = None  # the groups that the rows belong to, where the user named some

    def __len__(self) -> int:
        return len(self.y)

    def taken_by(self, name: str) -> NDArray[np.float64]:
        """Return the rows as the estimator of that name takes them."""
        return self.native if reads_columns(name) else self.X


@dataclass(frozen=True)
class SplitTable:
    """What every measurement starts from. Nothing in it changes while the audit goes on.

    ``entries`` are the estimators by name, ``yours`` the fitted one of the user's; ``sides`` is how many rows there are
    on each side of the split, of which ``train`` and ``test`` hold as many as the plan uses.
    """

    table: DataTable
    entries: dict[str, Predictor]
    options: Options
    plan: SplitPlan
    features: ModelColumns
    train: SplitPart
    test: SplitPart
    yours: Yours | None
    sides: dict[str, int]
    note: str

    @property
    def classifies(self) -> bool:
        return self.table.classifies

    @cached_property
    def unfitted(self) -> dict[str, Supervised]:
        """The entries that are to be fitted here, those that can against the threat."""
        found = {name: cast(Supervised, model) for name, model in self.entries.items() if not is_fitted(model)}
        if self.options.threat is None:
            return found
        return {name: clone(model).set_params(threat=self.threat_to(name)) if "threat" in model.get_params() else model
                for name, model in found.items()}

    def threat_to(self, name: str) -> ThreatModel:
        """Return the threat to the columns that an estimator takes, by place: a standard deviation where none is
        declared."""
        if self.options.threat is None:
            return ThreatModel(dict.fromkeys(range(len(self.table.numeric)), 1.0))
        rows = np.vstack([self.train.taken_by(name), self.test.taken_by(name)])
        return behind(self.options.threat, self.features.units[reads_columns(name)], rows)

    @property
    def metric(self) -> str:
        """By what models are compared: by default accuracy, of classes one of which is rare balanced accuracy; RMSE."""
        if self.options.metric != Metric.auto:
            return self.options.metric
        if not self.classifies:
            return Metric.rmse
        rarest = np.unique(self.table.target, return_counts=True)[1].min()
        # where a class has fewer, the majority is right in most rows, and accuracy says little
        return Metric.balanced_accuracy if rarest < 0.1 * len(self.table) else Metric.accuracy

    @property
    def decides(self) -> str:
        """The column of the table that holds the metric."""
        return {Metric.balanced_accuracy: "balanced", Metric.mae: "mae"}.get(Metric(self.metric), "as_is")

    @property
    def baseline(self) -> str:
        """The estimator that every other has to beat."""
        return next(name for name in self.entries if name in GUESSES)

    def in_place(self, name: str) -> bool:
        """Say whether an estimator is the user's, and can be asked with the columns as they came only."""
        return self.yours is not None and name == self.yours.name and not self.yours.on_numbers

    def held_out(self, name: str) -> NDArray[np.float64]:
        """Return the held-out rows as the estimator of that name takes them."""
        if self.yours is not None and self.in_place(name):
            return self.yours.model.space.rows(self.test.places)
        return self.test.taken_by(name)

    def score(self, losses: NDArray[Any], rows: Rows | None = None) -> Cell:
        """Return the accuracy, or of squared errors the RMSE, over some held-out rows, by default the first of them.

        Of classes a loss is 1 or True where a row is wrong.
        """
        rows = np.arange(len(losses)) if rows is None else rows
        together = None if self.test.together is None else self.test.together[rows]
        return accuracy(losses == 0, together) if self.classifies else root_mean(losses, self.options.seed, together)

    def prepared(self, places: Places) -> NDArray[np.float64]:
        """Return rows of the table as prepared features."""
        return self.features.prepared(self.features.raw[places])

    def at_most(self, places: Places, size: int) -> Places:
        """Return so many of some rows of the table, drawn, or all where they are fewer."""
        return _at_most(self.table, places, size, self.options.seed)


def split_table(table: DataTable, entries: dict[str, Predictor], options: Options) -> SplitTable:
    """Plan what is measured of a table, split it and prepare its columns."""
    plan, classifies, seed = plan_of(table, options), table.classifies, options.seed
    if options.metric in ((Metric.rmse, Metric.mae) if classifies else (Metric.accuracy, Metric.balanced_accuracy)):
        raise ValueError(f"The metric {options.metric} does not suit a {table.task} task. Leave it out, or use "
                         f"{'accuracy or balanced_accuracy' if classifies else 'rmse or mae'}.")
    train, test, note = split(table, seed)
    features = ModelColumns(table, _at_most(table, train, plan.prepared_by, seed))

    def part(places: Places, size: int) -> SplitPart:
        chosen = _at_most(table, places, size, seed)
        raw = features.raw[chosen]
        return SplitPart(chosen, features.prepared(raw), features.native(raw), table.target[chosen],
                         None if table.groups is None else table.groups[chosen])

    parts = part(train, plan.trained), part(test, plan.held_out)
    yours = yours_of(table, entries, options, features.raw, *(one.places for one in parts))
    return SplitTable(table, entries, options, plan, features, *parts, yours,
                      {"train": len(train), "test": len(test)}, note)


def _at_most(table: DataTable, places: Places, size: int, seed: int) -> Places:
    return places if len(places) <= size else places[draw(table.target[places], size, table.classifies, seed)]
