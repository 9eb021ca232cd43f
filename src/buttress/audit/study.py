"""The audit itself: split, fit everyone as the rows are and corrupted, attack, rank the suspicious, in a budget."""

import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from threadpoolctl import threadpool_limits

from buttress._checks import InterruptedWarning, NotConvergedWarning
from buttress._types import Predictor, Supervised
from buttress.audit import options as spending
from buttress.audit.conclude import conclude
from buttress.audit.contenders import contenders, fitted_within
from buttress.audit.fitted import is_fitted, on_prepared, order_columns
from buttress.audit.measure import Cell, accuracy, attacked_correct, has_gradients, has_scores, median_error, rmse
from buttress.audit.options import Options
from buttress.audit.protocols import Frame, Labels, Pick, Report, is_frame
from buttress.audit.reading.cautions import cautions
from buttress.audit.reading.split import draw, split
from buttress.audit.reading.table import Table, columns_of, kind_of_frame, labels_of, make_table
from buttress.audit.result import AuditResult
from buttress.audit.suspicion import plain, suspicious_rows
from buttress.certificates import certified_radius
from buttress.datasets import contaminate
from buttress.outlier import SVDD

NOISE = (0.0, 0.1, 0.2, 0.3, 0.4)  # shares of the training targets corrupted, the curve
IN_TABLE = (0.1, 0.3)  # of these, the columns of the table
RADII = (0.0, 0.5, 1.0, 1.5, 2.0)  # of attacks, in multiples of eps
COUNTED = 10  # rows attacked to tell what an attack by queries takes for all
NOVELTY = 0.05  # share of training rows that the ball around them may leave outside


def audit(
    estimator: Supervised | None,
    X: ArrayLike | Frame,
    y: ArrayLike,
    *,
    task: str = "auto",
    eps: float = 0.25,
    budget: float = 60.0,
    rows: int | None = None,
    random_state: int = 0,
    target_name: str = "target",
    report: Report | None = None,
) -> AuditResult:
    """Show what breaks a plain SVM on (X, y), what a robust one recovers, and which rows look wrong.

    Parameters
    ----------
    estimator : estimator or None
        Your own classifier or regressor as one more row; None for none. Unfitted, it is fitted on the prepared features
        like the others; fitted, it is judged as it is, on numeric columns, and not refitted to corrupt targets.
    X : array or frame of shape (n, d)
        Numbers are median-filled and standardised, texts one-hot encoded; constant columns are dropped and reported.
    y : array of shape (n,)
    task : {"auto", "classification", "regression"}
        "auto": texts and whole numbers with at most 10 values are classes.
    eps : float, default=0.25
        Radius of the attack in standard deviations of each numeric feature (l_inf).
    budget : float, default=60
        Seconds for everything; rows are subsampled to keep it, and the result says how many.
    rows : int or None
        Training rows to use, instead of as many as the budget allows on this machine: with it, the same
        ``random_state`` gives the same numbers wherever the budget suffices.
    random_state : int, default=0
    target_name : str
        What the report calls y.
    report : function of (what, share done) or None
        Called as the audit proceeds.

    Returns
    -------
    AuditResult
        With ``to_dict()`` and ``plot()``.

    Raises
    ------
    ValueError
        For unusable columns or targets, each named, fewer than 20 rows, or parameters out of range.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import buttress
    >>> X, y = load_iris(return_X_y=True)
    >>> result = buttress.audit(None, X, y, rows=60)
    >>> result.columns["as_is"], bool(result.rows["plain SVC"]["as_is"].value > 0.8)
    ('accuracy on held-out rows as they are', True)
    """
    started = time.monotonic()
    options = Options(task, eps, budget, rows, random_state)
    options.check()
    table, settled = make_table(columns_of(X), y, target_name, task, labels_of(X, y))
    table.by_number = not is_frame(X)
    return audit_table(estimator, table, settled, options, report, started, kind_of_frame(X))


def audit_table(
    estimator: Supervised | None, table: Table, task: str, options: Options, report: Report | None, started: float,
    source: str,
) -> AuditResult:
    """Run the audit on a table; ``started`` is when the budget began to run, ``source`` names the data."""
    options.check()
    entries = contenders(task, options.eps, options.seed)
    if estimator is not None:
        if is_classifier(estimator) != (task == "classification"):
            raise ValueError(f"The target {table.target_name!r} makes this a {task} task, which "
                             f"{type(estimator).__name__} does not do. Give the other kind of estimator, or task=.")
        if is_fitted(estimator):
            order_columns(estimator, table)
        entries[f"yours ({type(estimator).__name__})"] = estimator
    study = Study(table, task, entries, options, report or (lambda what, share: None), started)
    # products of a few hundred rows are slower on two threads than on one
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(limits=1, user_api="blas"):
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", NotConvergedWarning)  # said in the notes instead
        warnings.simplefilter("error", InterruptedWarning)
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # a model fitted on a frame
        try:
            study.run()
        except InterruptedWarning:
            raise KeyboardInterrupt from None
    for warning in caught:
        if issubclass(warning.category, UserWarning):  # what users are to read is in the report, each once
            study.notes += [note] if (note := str(warning.message)) not in study.notes else []
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return conclude(study, source)


@dataclass
class Study:
    """One audit in progress: the prepared split, the budget, and the cells measured so far."""

    table: Table
    task: str
    entries: dict[str, Supervised]
    options: Options
    report: Report
    started: float
    rows: dict[str, dict[str, Cell]] = field(default_factory=dict)
    curves: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    suspicious: list[dict[str, Any]] = field(default_factory=list)
    suspicion: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unattacked: set[str] = field(default_factory=set)
    unfinished: set[str] = field(default_factory=set)
    attack_seconds: dict[str, float] = field(default_factory=dict)
    novel: list[Any] = field(default_factory=list)
    subsampled: dict[str, Any] = field(default_factory=dict)

    @property
    def classifies(self) -> bool:
        return self.task == "classification"

    @property
    def unfitted(self) -> dict[str, Supervised]:
        """The entries that are to be fitted here."""
        return {name: estimator for name, estimator in self.entries.items() if not is_fitted(estimator)}

    def left(self) -> float:
        """Return the seconds of the budget that remain."""
        return self.options.budget - (time.monotonic() - self.started)

    def run(self) -> None:
        """Split and prepare, choose how many rows the budget allows, then measure in order of importance."""
        self._split()
        columns = self.columns()
        self.rows = {name: {key: Cell() for key in columns} for name in self.entries}
        self._subsample()
        self._as_is_and_attacked()
        if self.classifies:
            self._certified()
        self.report("suspicious rows", 0.55)
        self._suspicious()
        self._novel()
        self._noise_curve()
        self._eps_curve()
        self.report("done", 1.0)

    def columns(self) -> dict[str, str]:
        if self.classifies:
            return {"as_is": "accuracy on held-out rows as they are",
                    "attacked": f"accuracy under PGD, eps {self.options.eps:g} standard deviations",
                    "certified": "accuracy no attack within eps can lower, proven",
                    "flipped_10": "accuracy, 10% of training labels flipped",
                    "flipped_30": "accuracy, 30% of training labels flipped"}
        return {"as_is": "RMSE on held-out rows as they are",
                "median": "median absolute error on them, which a few corrupt targets do not move",
                "noise_10": "RMSE, 10% of training targets corrupted",
                "noise_30": "RMSE, 30% of training targets corrupted"}

    def _split(self) -> None:
        train, test, note = split(self.table, self.classifies, self.options.seed)
        self.notes += [*cautions(self.table, self.classifies), *([note] if note else [])]
        raw = self.table.array()
        preparation = self.table.preparation().fit(raw[train])
        self.X, self.X_test = (np.asarray(preparation.transform(raw[part]), dtype=np.float64) for part in (train, test))
        self.scaler = preparation.named_transformers_["numeric"][-1] if self.table.numeric else None
        self.y = self.table.target[train]
        self.y_test = self.table.target[test]
        self.row_numbers = self.table.row_numbers[train]
        self.test_numbers = self.table.row_numbers[test]
        self.sizes = {"train": len(train), "test": len(test)}

    def _subsample(self) -> None:
        """Keep as many rows as asked for, or as the budget affords."""
        self.report("warming up", 0.02)
        self._time_of_all(spending.COMPILING_ROWS)
        self._keep_test(spending.TEST_ROWS)
        size = self.options.rows or self._affordable()
        if size < len(self.X):
            chosen = self._draw(self.y, size)
            self.X = self.X[chosen]
            self.y = self.y[chosen]
            self.row_numbers = self.row_numbers[chosen]
            self.subsampled["train"] = f"{size} of {self.sizes['train']} training rows"

    def _affordable(self) -> int:
        """Return how many rows should fit in the time planned for, by two pilots and how their time grows."""
        small = min(len(self.X), spending.SMALL_PILOT)
        large = min(len(self.X), spending.LARGE_PILOT)
        before = self._time_of_all(small)
        seconds = self._time_of_all(large)
        growth = np.log(seconds / before) / np.log(large / small) if large > small else spending.UNKNOWN_GROWTH
        growth = float(np.clip(growth + spending.HIDDEN_GROWTH, spending.LEAST_GROWTH, spending.MOST_GROWTH))
        for size in (min(len(self.X), max(spending.TRAINING_ROWS)), *spending.TRAINING_ROWS):
            if size <= small or seconds * (size / large) ** growth <= spending.PLANNED * self.left():
                break
        return size

    def _keep_test(self, size: int) -> None:
        if size < len(self.X_test):
            chosen = self._draw(self.y_test, size)
            self.X_test = self.X_test[chosen]
            self.y_test = self.y_test[chosen]
            self.test_numbers = self.test_numbers[chosen]
            self.subsampled["test"] = f"{size} of {self.sizes['test']} held-out rows"

    def _draw(self, y: Labels, size: int) -> NDArray[np.intp]:
        return draw(y, size, self.classifies, self.options.seed)

    def _time_of_all(self, size: int) -> float:
        """Return the seconds an audit would take on ``size`` rows: a fit and an attack of each, times the fits."""
        begun = time.monotonic()
        chosen = self._draw(self.y, min(size, len(self.X)))
        X, y = self.X[chosen], self.y[chosen]
        for estimator in self.unfitted.values():
            model, _ = fitted_within(spending.PILOT_SECONDS, estimator, X, y)
            if self.classifies and has_gradients(model):  # others are timed before they are attacked
                few = slice(spending.PILOT_ATTACKED)
                attacked_correct(model, X[few], y[few], self.options.eps, len(self.table.numeric), self.options.seed)
        return (time.monotonic() - begun) * (len(NOISE) + 1)

    def _fit(self, name: str, estimator: Supervised, y: Labels) -> Supervised:
        """Fit to the training rows in its share of the time left, and note who stopped before converging."""
        model, early = fitted_within(self.left() * spending.ONE_FIT, estimator, self.X, y)
        if early:
            self.unfinished.add(name)
        return model

    def _as_is_and_attacked(self) -> None:
        self.models: dict[str, Predictor] = {}
        for k, (name, estimator) in enumerate(self.entries.items()):
            self.report(f"{name}: as is and attacked", 0.1 + 0.45 * k / len(self.entries))
            if name in self.unfitted:
                model = self._fit(name, estimator, self.y)
            else:
                model = on_prepared(estimator, self.scaler)
            self.models[name] = model
            self.rows[name]["as_is"] = self._score(model)
            if self.classifies:
                self._attack_if_affordable(name)
            else:
                self.rows[name]["median"] = median_error(model.predict(self.X_test) - self.y_test, self.options.seed)

    def _certified(self) -> None:
        """Prove, where a model has a certificate, that no attack within eps could have turned a right row wrong."""
        self.report("certificates", 0.5)
        for name, model in self.models.items():
            try:
                radius = certified_radius(model, self.X_test).linf
            except ValueError:  # no certificate is known for this model
                continue
            correct = (model.predict(self.X_test) == self.y_test) & (radius >= self.options.eps)
            self.rows[name]["certified"] = accuracy(correct)

    def _score(self, model: Predictor, part: Pick = slice(None)) -> Cell:
        predicted = model.predict(self.X_test[part])
        y = self.y_test[part]
        return accuracy(predicted == y) if self.classifies else rmse(predicted - y, self.options.seed)

    def _attack_if_affordable(self, name: str) -> None:
        """Attack a fitted model; one without scores, or too slow to be asked so often, is left out with a note."""
        why_not = ""
        if not has_scores(self.models[name]):
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
            self.rows[name]["attacked"] = self._attacked(name, self.options.eps)

    def _expected_seconds(self, name: str) -> float:
        """Return what an attack on all held-out rows should take, from one on two rows and one on a few more."""
        seconds = []
        for count in (2, COUNTED):  # the first also pays for what is paid once
            self._attacked(name, self.options.eps, count)
            seconds.append(self.attack_seconds[name])
        a_row = max(0.0, seconds[1] - seconds[0]) / (COUNTED - 2)
        return seconds[1] + a_row * max(0, len(self.X_test) - COUNTED)

    def _attacked(self, name: str, eps: float, count: int | None = None) -> Cell:
        """Attack a fitted model on the held-out rows, or on the first ``count`` of them, and note the time it took."""
        begun = time.monotonic()
        with warnings.catch_warnings():
            if count is not None or eps != self.options.eps:  # the table's attack says what there is to say
                warnings.simplefilter("ignore", UserWarning)
            survived = attacked_correct(self.models[name], self.X_test[:count], self.y_test[:count], eps,
                                        len(self.table.numeric), self.options.seed)
        self.attack_seconds[name] = time.monotonic() - begun
        return accuracy(survived)

    def _suspicious(self) -> None:
        """Judge training and held-out rows alike: each by a fit without it, so that none need be kept apart."""
        X = np.concatenate([self.X, self.X_test])
        y = np.concatenate([self.y, self.y_test])
        labels = np.concatenate([self.row_numbers, self.test_numbers])
        self.suspicious, self.suspicion = suspicious_rows(X, y, labels, self.task, held_out=len(self.X_test),
                                                          seed=self.options.seed)
        self.suspicion["rows"] = len(self.table)

    def _novel(self) -> None:
        """Score everyone on the test rows outside the smallest ball around the training rows, if there are any."""
        self.report("novel rows", 0.58)
        if self.left() < spending.FOR_NOVELTY * self.options.budget:
            self.subsampled["novel"] = "novel rows were not looked for"
            return
        ball = self._fit("the ball around the training rows", SVDD(nu=NOVELTY), self.y)
        outside = ball.predict(self.X_test) == -1
        self.novel = [plain(row) for row in self.test_numbers[outside]]
        if self.novel:
            for name, model in self.models.items():
                self.rows[name]["novel"] = self._score(model, outside)

    def _noise_curve(self) -> None:
        """Corrupt 10% and 30% first, the table's columns, then the rest of the curve while the budget lasts."""
        kind, prefix = ("flip", "flipped") if self.classifies else ("noise", "noise")
        curve: dict[str, list[Any]] = {"x": list(NOISE)} | {name: [None] * len(NOISE) for name in self.entries}
        for name in self.entries:
            curve[name][0] = self.rows[name]["as_is"].value
        for k, rate in enumerate((*IN_TABLE, 0.2, 0.4)):
            self.report(f"{rate:.0%} of training targets corrupted", 0.6 + 0.07 * k)
            _, dirty, _ = contaminate(self.X, self.y, rate, kind, random_state=self.options.seed)
            for name, estimator in self.unfitted.items():
                if self.left() < spending.FOR_CURVES * self.options.budget:
                    continue
                cell = self._score(self._fit(name, estimator, dirty))
                curve[name][NOISE.index(rate)] = cell.value
                if rate in IN_TABLE:
                    self.rows[name][f"{prefix}_{rate:.0%}".rstrip("%")] = cell
        self.curves["noise"] = curve

    def _eps_curve(self) -> None:
        if not self.classifies:
            return
        radii = [share * self.options.eps for share in RADII]
        curve: dict[str, list[Any]] = {"x": radii} | {name: [None] * len(RADII) for name in self.entries}
        for name, cells in self.rows.items():
            curve[name][0] = cells["as_is"].value
            curve[name][RADII.index(1.0)] = cells["attacked"].value
        for k in (4, 1, 3):  # the widest first, then between
            self.report(f"attacks at eps {radii[k]:g}", 0.92)
            for name in (name for name in self.models if name not in self.unattacked):
                if self.left() - self.attack_seconds[name] > spending.FOR_CURVES * self.options.budget:
                    curve[name][k] = self._attacked(name, radii[k]).value
        self.curves["eps"] = curve
