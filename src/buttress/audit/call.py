"""The call: from arrays, frames or a table that was read to the result of a study of it."""

import warnings
from collections.abc import Callable, Mapping, Sequence, Sized
from time import monotonic

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from buttress._checks import InterruptedWarning, NotConvergedWarning
from buttress._types import AuditProgress, Frame, Predictor, Supervised
from buttress.audit.against import check_columns, compare
from buttress.audit.baselines import baselines, check_task, is_fitted, name_of, takes_numbers
from buttress.audit.conclude import conclude
from buttress.audit.contenders import contenders
from buttress.audit.findings import Check
from buttress.audit.keeping import kept_in
from buttress.audit.measurements import MEASUREMENTS
from buttress.audit.measuring.fits import noted
from buttress.audit.measuring.measurement import measure, seconds_of
from buttress.audit.measuring.split_table import split_table
from buttress.audit.options import Options
from buttress.audit.reading.source import kind_of_frame, labels_of
from buttress.audit.reading.split import set_apart, table_to_test
from buttress.audit.reading.table import DataTable, columns_of
from buttress.audit.result import AuditResult
from buttress.threats import ThreatModel

Newer = tuple[Mapping[str, object], str]  # columns and what they are called


def audit(
    estimator: Supervised | Predictor | None,
    X: ArrayLike | Frame,
    y: ArrayLike,
    *,
    task: str = "auto",
    eps: float = 0.25,
    swaps: int = 1,
    effort: str = "standard",
    max_time: float | None = None,
    rows: int | None = None,
    random_state: int = 0,
    target_name: str = "target",
    checks: Sequence[Check] = (),
    ignore: Sequence[str] = (),
    against: ArrayLike | Frame | None = None,
    drop: Sequence[str] = (),
    groups: str | None = None,
    time: str | None = None,
    test: tuple[ArrayLike | Frame, ArrayLike] | None = None,
    metric: str = "auto",
    threat: ThreatModel | None = None,
    checkpoint: str | None = None,
    report: AuditProgress | None = None,
) -> AuditResult:
    """Audit a table: which rows look wrong, how models withstand moved inputs and wrong labels, which model to use.

    Parameters
    ----------
    estimator : estimator or None
        Your own classifier or regressor as one more row; None for none. An unfitted one is fitted to the prepared
        features like the others. A fitted one, anything with ``predict``, is judged as it is and never refitted; it
        gets the columns of X unchanged, texts and missing values included. The table then also says what moved numbers,
        swapped categories and empty cells do to all models.
    X : array or frame of shape (n, d)
        Numbers are median-filled and standardised, texts one-hot encoded; constant columns are dropped and reported.
    y : array of shape (n,)
    task : {"auto", "classification", "regression"}
        "auto": texts and whole numbers with at most 10 values are classes.
    eps : float, default=0.25
        Radius of the attack in standard deviations of each numeric feature (l_inf); for a fitted estimator in robust
        deviations of the original columns.
    swaps : int, default=1
        Most categories of a row that are swapped for others, if a fitted estimator is given.
    effort : {"quick", "standard", "thorough"}
        How much is measured. The plan depends on the size and kind of the table, not on the clock, so equal data,
        parameters and versions give equal results.
    max_time : float or None
        Seconds after which the audit stops: the rest is not measured, and no model is recommended (``cut`` of the
        result).
    rows : int or None
        Training rows to use, instead of as many as are planned.
    random_state : int, default=0
    target_name : str
        What the report calls y.
    checks : sequence of Check
        Your own, run after the audit's; see :class:`buttress.audit.Check`.
    ignore : sequence of str
        Codes of findings to leave out, such as "BUT005".
    against : array or frame or None
        Newer rows with the columns of X, and perhaps one called ``target_name``: the result then says which columns
        drifted, which rows are novel, and whether a model of (X, y) can be trusted on them.
    drop : sequence of str
        Columns of X that are no features, such as a number of the row.
    groups : str or None
        The column of X (x0, x1, ... of an array) whose equal entries belong together, such as the patient. Groups stay
        whole in every split, and intervals are over groups. The column is then not a feature.
    time : str or None
        The column with the times of the rows: the latest 30% are held out. The column is then not a feature.
    test : (X, y) or None
        Rows to test models on, instead of held-out rows; both are searched for suspicious rows.
    metric : {"auto", "accuracy", "balanced_accuracy", "rmse", "mae"}
        By what models are compared. "auto" is accuracy, or balanced accuracy where a class has less than a tenth of the
        rows; of numbers it is the RMSE.
    threat : ThreatModel or None
        What may be done to each column of X, instead of ``eps``: models are trained against it if they can be, and
        attacks and proofs use it, swaps and moves together.
    checkpoint : str or None
        Folder in which finished stages are kept: after a kill the same call continues from them; ``max_time`` then
        starts again. Emptied at the end.
    report : function of (what, share done) or None
        Called as the audit proceeds.

    Returns
    -------
    AuditResult
        With ``findings``, ``table``, ``suspicious``, ``save(folder)``, ``plot()`` and ``to_dict()``; a notebook shows
        the page.

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
    started = monotonic()
    options = Options(task=task, eps=eps, effort=effort, max_time=max_time, rows=rows, seed=random_state,
                      ignore=tuple(ignore), swaps=swaps, groups=groups, time=time, metric=metric,
                      threat=threat, drop=tuple(drop))  # checked before the data are read
    table = _table(X, y, test, target_name, options)
    newer = None if against is None else (columns_of(against), kind_of_frame(against))
    return audit_table(estimator, table, options, report, started, checks, newer, checkpoint)


def _table(
    X: ArrayLike | Frame, y: ArrayLike, test: tuple[ArrayLike | Frame, ArrayLike] | None, name: str, options: Options
) -> DataTable:
    """Return the checked table, with the rows to test on below the others."""
    columns, labels, more = columns_of(X), labels_of(X, y), None
    _check_lengths(X, y)
    if test is not None:
        _check_lengths(*test)
        below = labels_of(*test)
        labels = None if labels is None or below is None else np.concatenate([labels, below])
        more = {**columns_of(test[0]), name: test[1]}
    table = table_to_test(columns, y, name, options.task, more, labels, options.drop)
    table.origin = "", kind_of_frame(X)
    return table


def _check_lengths(X: ArrayLike | Frame, y: ArrayLike) -> None:
    rows, targets = (len(data) if isinstance(data, Sized) else 0 for data in (X, y))
    if rows != targets:
        raise ValueError(f"X and y must have the same number of rows. X has {rows} rows, y has {targets}. Give the "
                         "target of every row of X, in the same order.")


def audit_table(
    estimator: Supervised | Predictor | None, table: DataTable, options: Options,
    report: AuditProgress | None, started: float, checks: Sequence[Check] = (), newer: Newer | None = None,
    checkpoint: str | None = None, tell: Callable[[str], None] | None = None,
) -> AuditResult:
    """Run the audit on a table; ``max_time`` counts from ``started``.

    ``newer`` are the columns, and the name, of data to compare the table with. ``tell`` is called with a line on each
    thing that is known early.
    """
    set_apart(table, options.groups, options.time)
    entries: dict[str, Predictor] = {**contenders(table.task, options.eps, options.seed),
                                     **baselines(table, options.seed)}
    if estimator is not None:
        check_task(estimator, table)
        if is_fitted(estimator) and takes_numbers(estimator, table):
            names = map(str, getattr(estimator, "feature_names_in_", table.numeric))
            table.numeric = {name: table.numeric[name] for name in names}  # in the order it was fitted on
        entries[name_of(estimator)] = estimator
    if newer is not None:
        check_columns(table, *newer)
    deadline = None if options.max_time is None else started + options.max_time
    report, tell, comparison = report or (lambda what, share: None), tell or (lambda line: None), None
    # products and trees of a few hundred rows are slower on two threads than on one; and one thread adds in one order
    notes: list[str] = []
    with noted(notes, ""), threadpool_limits(limits=1):
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", NotConvergedWarning)  # said in the notes instead
        warnings.simplefilter("error", InterruptedWarning)
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # a model fitted on a frame
        try:
            with kept_in(checkpoint, table, options, entries):
                split = split_table(table, entries, options)
                tell(f"About {seconds_of(MEASUREMENTS, split):.0f} seconds on one core, as planned for such a table.")
                measured = measure(MEASUREMENTS, split, report, tell, deadline)
            if newer is not None:
                comparison = compare(table, *newer, split.train.places, split.test.places, options.seed)
        except InterruptedWarning:
            raise KeyboardInterrupt from None
    measured.notes += [note for note in notes if note not in measured.notes]
    report("writing", 0.97)
    return conclude(split, measured, checks, comparison, monotonic() - started)
