"""The course of an audit: what is measured, in order of importance, each as far as the budget goes."""

import time
import warnings
from functools import partial
from os import cpu_count

import numpy as np
from threadpoolctl import threadpool_limits

from buttress._types import Predictor, Rows
from buttress.audit import options as spending
from buttress.audit.against.tests import unlike
from buttress.audit.baselines import NAMES, takes_logarithms
from buttress.audit.fitted import on_prepared
from buttress.audit.keeping import kept_stage
from buttress.audit.measuring.cells import Cell, has_gradients, has_scores, median_error, r2
from buttress.audit.measuring.curves import eps_curve, noise_curve
from buttress.audit.measuring.early import look_at_columns, tell_of_labels
from buttress.audit.measuring.judging import Jury
from buttress.audit.measuring.moves import measure_moves, pose
from buttress.audit.measuring.proving import prove
from buttress.audit.measuring.study import Study
from buttress.audit.measuring.suspicion import judge, plain
from buttress.checkpoints.memory import Memory

NOVELTY = 0.1  # of the rows called novel are not: a false discovery rate


def run(study: Study) -> None:
    """Split and prepare, choose how many rows the budget allows, then measure in order of importance."""
    study.began = time.monotonic()
    study.split_rows()
    pose(study)
    study.report("columns", 0.01)
    study.known = look_at_columns(study)
    columns = study.columns()
    study.rows = {name: {key: Cell() for key in columns} for name in study.entries}
    study.subsample()
    as_is_and_attacked(study)
    if study.classifies:
        study.report("certificates", 0.5)
        prove(study)
    if study.space is not None:
        measure_moves(study, study.space)
    study.report("suspicious rows", 0.55)
    _suspicious(study)
    _novel(study)
    noise_curve(study)
    eps_curve(study)
    _conclude_judging(study)
    study.report("writing", 0.97)


def as_is_and_attacked(study: Study) -> None:
    for k, (name, estimator) in enumerate(study.entries.items()):
        study.report(f"{name}: as is and attacked", 0.1 + 0.45 * k / len(study.entries))
        if name in study.unfitted:
            model: Predictor = study.fit(name, study.unfitted[name], study.y)
        else:
            model = study.yours[name] if name in study.in_place else on_prepared(estimator, study.scaler)
        study.models[name] = model
        study.rows[name]["as_is"] = study.score(name, model)
        if study.classifies:
            _attack_if_affordable(study, name)
        else:
            residual = model.predict(study.held_out(name)) - study.y_test
            study.rows[name]["r2"] = r2(residual, study.y_test, study.options.seed)
            study.rows[name]["median"] = median_error(residual, study.options.seed)


def _attack_if_affordable(study: Study, name: str) -> None:
    """Attack a fitted model; one without scores, or too slow to be asked so often, is left out with a note."""
    why_not = ""
    if name in NAMES:
        pass
    elif name in study.in_place:
        why_not = f"{name} reads the columns as they came, and is moved in them: see moved, swapped and blanked."
    elif not has_scores(study.models[name]):
        why_not = f"{name} gives labels only: it was not attacked, and is not recommended."
    elif not has_gradients(study.models[name]):
        seconds = _expected_seconds(study, name)
        if seconds > study.left() * spending.ONE_ATTACK:
            why_not = (f"{name} has no known gradients, and to attack it by queries would take about {seconds:.0f} "
                       "s: it was not attacked, and is not recommended. Raise the budget.")
        else:
            study.notes.append(f"{name} has no known gradients: it was attacked by queries, with the worst of "
                              "several attacks.")
    if why_not:
        study.unattacked.add(name)
        study.notes.append(why_not)
    else:
        study.rows[name]["attacked"] = study.attacked(name, study.options.eps)


def _expected_seconds(study: Study, name: str) -> float:
    """Return what an attack on all held-out rows should take, from one on two rows and one on a few more."""
    seconds = []
    for count in (2, spending.COUNTED):  # the first also pays for what is paid once
        rows = np.arange(min(count, len(study.y_test)))
        found = kept_stage(["attacked", name, study.options.eps, count], partial(_timed, study, name, rows))
        seconds.append(found["seconds"])
    a_row = max(0.0, seconds[1] - seconds[0]) / (spending.COUNTED - 2)
    return seconds[1] + a_row * max(0, len(study.X_test) - spending.COUNTED)


def _timed(study: Study, name: str, rows: Rows) -> Memory:
    begun = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the table's attack says what there is to say
        study.survives(name, study.options.eps, rows)
    return {"seconds": time.monotonic() - begun}


def _suspicious(study: Study) -> None:
    """Judge rows, trained on or held out alike: each by a fit without it, so that none need be kept apart.

    With ``rows`` given those are the rows that are used; else all rows, as far as the budget allows. Of more than
    the fit takes, the others are judged by it as they are.
    """
    known = np.concatenate([study.train, study.test])
    others = np.setdiff1d(np.arange(len(study.table)), known)
    if study.options.rows:
        others = others[:0]
    others = np.random.default_rng(study.options.seed).permutation(others)
    many = len(others) and study.left() > spending.LARGE_FIT_SECONDS
    more = others[: spending.LARGE_FIT_ROWS - len(known)] if many else others[:0]
    fitted = np.concatenate([more, known])
    logarithms = takes_logarithms(study.table, study.task)
    with threadpool_limits(cpu_count() if len(more) else 1, user_api="blas"):
        first, model = judge(study.prepared(fitted), study.table.target[fitted], study.task, held_out=len(study.test),
                             seed=study.options.seed, logarithms=logarithms,
                             max_time=max(1.0, spending.ONE_LARGE_FIT * study.left()) if len(more) else None)
    study.jury = Jury(model, study.prepared, study.table.target, fitted, first, others[len(more) :], logarithms)
    tell_of_labels(study)
    _judge_others(study, spending.FOR_JUDGING * study.left())


def _judge_others(study: Study, seconds: float) -> None:
    """Judge rows the robust fit has not seen for some seconds, or until none is left."""
    total = len(study.jury.waiting)
    with threadpool_limits(cpu_count(), user_api="blas"):
        for waiting in study.jury.go_on(time.monotonic() + seconds):
            study.report(f"judging labels: {waiting} rows to go", 0.55 + 0.1 * (1 - waiting / total))


def _conclude_judging(study: Study) -> None:
    """Judge what rows the time left allows, and sum up."""
    _judge_others(study, study.left() - spending.FOR_WRITING * (study.began - study.started))
    study.verdicts, study.judged = study.jury.verdicts(study.test)
    study.suspicion = study.verdicts.counts(len(study.table))
    if len(study.judged) < len(study.table):
        study.subsampled["judged"] = f"{len(study.judged)} of {len(study.table)} rows"
    if len(study.judged) > len(study.jury.fitted):
        study.notes.append(f"Labels were judged by a robust fit of {len(study.jury.fitted)} rows: those without "
                          f"themselves, {len(study.judged) - len(study.jury.fitted)} others as it had not seen them.")


def _novel(study: Study) -> None:
    """Score everyone on the test rows that are farther from the others than those from each other, if any are."""
    study.report("novel rows", 0.58)
    if study.left() < spending.FOR_NOVELTY * study.options.budget:
        study.subsampled["novel"] = "novel rows were not looked for"
        return
    rest = np.setdiff1d(np.arange(len(study.table)), study.test)
    outside = unlike(study.prepared(study.at_most(rest, spending.NOVELTY_ROWS)), study.X_test, NOVELTY)
    study.novel = [plain(row) for row in study.table.row_numbers[study.test[outside]]]
    if study.novel:
        for name, model in study.models.items():
            study.rows[name]["novel"] = study.score(name, model, outside)
