"""The commands on joins, ``describe``, ``features`` and ``fit``, and on models, ``train`` to ``inspect``."""

import math
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from buttress._checks import silent
from buttress._suggest import counted
from buttress.audit.options import Effort, Options
from buttress.cli.audit import CUT_SHORT, Declared, Drop, Format, Task, declared_in, read_table
from buttress.cli.folders import (
    Data,
    Landmarks,
    Sampled,
    check_options,
    is_folder,
    predict_folder,
    sample_of,
    train_folder,
)
from buttress.cli.terminal import (
    STARTED,
    app,
    check_apart,
    check_input,
    complain,
    complain_of,
    ctrl_c,
    number_in,
    progress,
)
from buttress.files.disk import check_file

if TYPE_CHECKING:
    from buttress._types import Labels, Predictor
    from buttress.audit.models.attacking import Robustness
    from buttress.audit.models.table_model import TableModel
    from buttress.audit.reading.table import DataTable


class ModelFamily(StrEnum):
    """What the audit compares, by a word each; -log is fitted to the logarithm of a skewed target."""

    recommended = "recommended"
    baseline = "baseline"
    linear = "linear"
    boosting = "boosting"
    plain = "plain"
    adversarial_linear = "adversarial-linear"
    certified = "certified"
    adversarial = "adversarial"
    subquantile = "subquantile"
    robust = "robust"
    linear_log = "linear-log"
    boosting_log = "boosting-log"


@app.command(short_help="Show how a join of tables is counted.")
def describe(
    joins: Annotated[Path, typer.Argument(help="A TOML file that declares a join, see docs/relational/declaring.md.")],
    target: Annotated[str | None, typer.Option(help="The label, as table.column, in place of the file's.")] = None,
) -> None:
    """Show how a join is counted: its tree, rows, exact size, and which edges are exact."""
    from buttress.relational import describe, read_join

    typer.echo(str(describe(read_join(joins, target))))


@app.command(short_help="Write a row of features for each row of a join's label table.")
def features(
    joins: Annotated[Path, typer.Argument(help="A TOML file that declares a join, see docs/relational/declaring.md.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the features, CSV or Parquet.")],
    target: Annotated[str | None, typer.Option(help="The label, as table.column, in place of the file's.")] = None,
    functions: Annotated[str | None, typer.Option(
        help="Words such as count,sum:30d,since_last, see docs/relational/entities.md; a set of them if left out.",
    )] = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Compute only the rows that see other rows than the last "
                                          "time; beside OUTPUT, a file ending in .known keeps what was.")] = False,
) -> None:
    """Write keys, features and label of each row of the label's table; with as_of, of what was known by its date."""
    check_file(output)
    from buttress.audit.models.answering import check_format, write
    from buttress.relational.command import features_file

    check_format(output)
    check_input(joins, output)
    known = output.with_name(f"{output.name}.known") if refresh else None
    with ctrl_c():
        columns, anew = features_file(joins, target, functions.split(",") if functions else None, known)
    write(columns, output)
    rows = len(next(iter(columns.values())))
    typer.echo(f"{counted(rows, 'row')}, {counted(len(columns), 'column')}. {f'Computed anew: {anew:,}. ' * refresh}"
               f"Written: {output}")


@app.command(short_help="Train a linear SVM over a join of tables.")
def fit(
    joins: Annotated[Path, typer.Argument(help="A TOML file that declares a join, see docs/relational/declaring.md.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")],
    target: Annotated[str | None, typer.Option(help="The label, as table.column, in place of the file's.")] = None,
    alpha: Annotated[float, typer.Option(help="Weight of the squared norm against the mean hinge loss.")] = 1e-3,
    tol: Annotated[float, typer.Option(help="Relative width of the interval around the optimum to stop at.")] = 1e-3,
    missing: Annotated[str, typer.Option(help="NULL in features: raise, or fill with zero or mean.")] = "raise",
    engine: Annotated[str, typer.Option(help="Where rows are counted: auto, memory, stream or sql.")] = "auto",
    memory_limit: Annotated[float, typer.Option(help="Megabytes that the fit may take.")] = 4000,
    max_time: Annotated[float | None, typer.Option(help="Most seconds.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample it starts from.")] = 0,
    all_coefficients: Annotated[bool, typer.Option("--all-coefficients", help="Print every coefficient.")] = False,
) -> None:
    """Train a linear SVM over a join that is never materialised, and write it with its interval."""
    from buttress.persistence import save
    from buttress.relational.command import fit_file, summary

    check_file(output)
    check_apart(joins, output)
    with ctrl_c():
        model = fit_file(joins, target, alpha=alpha, tol=tol, missing=missing, engine=engine, memory_limit=memory_limit,
                         max_time=max_time, random_state=seed, progress=True)
    save(model, output)
    typer.echo(summary(model, all_coefficients))
    typer.echo(f"Written: {output}")


@app.command(short_help="Train a model on a table, and write it to a file.")
def train(
    context: typer.Context,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")],
    target: Annotated[str | None, typer.Option(help="The column to predict; of a join, table.column.")] = None,
    estimator: Annotated[ModelFamily, typer.Option(help="What to train; by default what an audit recommends.")] = (
        ModelFamily.recommended),
    file_format: Format = None,
    drop: Drop = None,
    task: Annotated[Task, typer.Option(help="What the target is.")] = Task.auto,
    eps: Annotated[float, typer.Option(help="Radius the audit attacks at, and adversarial training is for.")] = 0.25,
    effort: Annotated[Effort, typer.Option(help="How much the audit measures that recommends.")] = Effort.standard,
    max_time: Annotated[float | None, typer.Option(help="Most seconds of a fit, where the estimator can stop.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    sample: Sampled = None,
    landmarks: Landmarks = None,
) -> None:
    """Train a model on all rows of DATA and write it with its columns, its labels as written, and its score.

    Of a folder a machine on landmarks learns from all rows in batches. Ctrl-C leaves the one of the rows so far.
    """
    check_file(output)
    check_apart(Path(data), output)
    # checked before the data are read
    options = Options(task=task.value, eps=eps, effort=effort, max_time=max_time, seed=seed)
    if check_options(context, data, "estimator", "file_format", "drop", "eps", "effort"):
        model, cut = train_folder(sample_of(data, target, task.value, sample, seed), landmarks, seed, max_time)
    else:
        model, cut = _train_table(data, target, file_format, drop or [], estimator, options), False
    from buttress.persistence import save

    save(model, output)
    _show(model, output)
    if cut:
        raise typer.Exit(CUT_SHORT)


def _train_table(
    data: str, target: str | None, file_format: str | None, drop: list[str], estimator: ModelFamily, options: Options,
) -> "TableModel":
    """Return a model of a table in one file, or of a join."""
    table, entities = read_table(data, target, file_format, options.task, drop=drop)
    from buttress.audit.models.training import estimators, named, texts_of
    from buttress.audit.models.training import train as fitted
    from buttress.audit.reading.entities import texts_in_join

    entries = estimators(table, options.eps, options.seed)
    with ctrl_c(), silent(pass_on=True):  # a fit that was cut short is no model to keep
        chosen = estimator is not ModelFamily.recommended
        name = named(estimator.value, entries) if chosen else _recommended(table, options)
        written = texts_of(data, table.target_name, file_format, table.given_target) if entities is None else (
            texts_in_join(entities, table.given_target))
        model = fitted(table, name, entries[name], source=data, seed=options.seed,
                       max_time=options.max_time, written=written)
    model.made = entities
    return model


def _recommended(table: "DataTable", options: Options) -> str:
    """Return what an audit recommends; ValueError where it recommends nothing."""
    from buttress.audit.call import audit_table

    with progress() as (report, tell):
        result = audit_table(None, table, replace(options, max_time=None), report, STARTED, tell=tell)
    if result.recommended is None:
        raise ValueError(f"No model is recommended ({result.verdict[2].removeprefix('Use: ').rstrip('.')}). Choose an "
                         "estimator, such as --estimator linear.")
    typer.echo(result.verdict[2])
    return result.recommended


def _show(model: "TableModel", output: Path) -> None:
    """Say what became of the columns, and what the model scored."""
    from buttress.audit.measuring.cells import shown

    for note in model.trained_on["notes"]:
        complain(str(note))
    score = model.score
    typer.echo(f"{model.estimator}: {score['metric']} {shown(float(score['value']), 3)} ({score['interval']}) on "
               f"{score['rows']} rows held out of a first fit, one split of the rows: another may differ by some "
               f"hundredths. The model is fitted to all {model.trained_on['rows']}.")
    typer.echo(f"Written: {output}")


@app.command(short_help="Predict every row of a file with a model.")
def predict(
    model: Annotated[Path, typer.Argument(help="A model file, of buttress train, fit or save.")],
    data: Annotated[Path, typer.Argument(help="CSV, Parquet or a folder of it with new rows; for a model over a join, "
                                              "the join's TOML.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the predictions, CSV or Parquet.")],
    file_format: Format = None,
) -> None:
    """Write a prediction for every row of DATA: its number, the prediction, and the probability if there is one."""
    check_file(output)
    from buttress.audit.models.answering import check_format, write

    check_format(output)
    check_input(model, output)
    if is_folder(str(data)):
        rows, said = predict_folder(_loaded(model, data), str(data), output)
    else:
        check_input(data, output)
        answer, said = _answer(model, data, file_format)
        write(answer, output)
        rows = len(answer["row"])
    for remark in said:
        complain(remark)
    typer.echo(f"{counted(rows, 'row')} predicted. Written: {output}")


def _answer(path: Path, data: Path, file_format: str | None) -> tuple[dict[str, "Labels"], list[str]]:
    """Return the predictions for a table, or for the rows of a join's label table, and what is to be said of them."""
    from buttress.relational import RelationalLinearSVC

    model = _loaded(path, data)
    made = getattr(model, "made", None)
    if isinstance(model, RelationalLinearSVC):
        from buttress.relational.command import predict_file

        return predict_file(model, data), []
    from buttress.audit.models.answering import predictions, remarks
    from buttress.audit.reading.entities import entities_to_predict
    from buttress.audit.reading.source import read_file

    rows = None if made is None else entities_to_predict(str(data), made)
    keys, columns = ({}, read_file(str(data), file_format)) if rows is None else (rows.keys, rows.columns)
    return {**keys, **predictions(model, columns)}, list(remarks(model, columns).values())


def _loaded(path: Path, data: Path) -> "Predictor":
    """Return the model in a file; ValueError where it predicts from a join and DATA is none, or the other way."""
    from buttress.persistence import load
    from buttress.relational import RelationalLinearSVC

    model: Predictor = load(path)
    joined = getattr(model, "made", None) is not None or isinstance(model, RelationalLinearSVC)
    if joined != (data.suffix.lower() == ".toml"):
        needed = "the TOML file that declares its join" if joined else "a CSV or Parquet file, not a join"
        raise ValueError(f"{path.name} holds a model that predicts from {needed}. Got {data.name}.")
    return model


@app.command(short_help="How accurate a model stays when inputs are moved.")
def attack(
    model: Annotated[Path, typer.Argument(help="A model file of a classifier, of buttress train or save.")],
    data: Annotated[Path, typer.Argument(help="CSV or Parquet of labelled rows, best not those of the training; for a "
                                              "model over a join, the join's TOML, whose features are attacked.")],
    target: Annotated[str | None, typer.Option(
        help="The column of the labels; of a join, table.column in place of the file's.")] = None,
    eps: Annotated[str | None, typer.Option(
        help="Radii in standard deviations of each numeric column, as in 0.1,0.25; with --threat multiples of its "
             "budgets. By default 0.1,0.25,0.5, with --threat 1.")] = None,
    swaps: Annotated[int | None, typer.Option(
        help="Most columns of 0 and 1 and categories that are swapped in a row besides; 1 by default.")] = None,
    threat: Declared = None,
    rows: Annotated[int, typer.Option(min=1, help="Most rows to attack; of more they are drawn.")] = 500,
    fail_under: Annotated[float | None, typer.Option(
        help="Exit with 1 if the accuracy at the largest radius is lower.")] = None,
    file_format: Format = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
) -> None:
    """Show the accuracy that is left when somebody moves numbers of DATA within each radius and swaps categories."""
    radii = [_radius(text) for text in (eps or ("0.1,0.25,0.5" if threat is None else "1")).split(",")]
    for path in (model, data) if threat is None else (model, data, threat):
        check_input(path)
    if swaps is not None and (swaps < 0 or threat is not None):
        raise ValueError("--swaps must be at least 0. A threat file has most_swaps in its place. Got "
                         f"{swaps}{'' if threat is None else f' and {threat}'}.")
    if fail_under is not None and not 0 <= fail_under <= 1:
        raise ValueError(f"--fail-under is a share of the rows, in [0, 1]. Got {fail_under:g}.")
    from buttress.audit.models import attacking

    loaded, declared = _loaded(model, data), declared_in(threat)
    columns, y, target = _labelled(loaded, str(data), target, file_format)
    with ctrl_c():
        posed = attacking.pose(loaded, columns, y, target)
        allowed = declared or attacking.default_threat(posed, 1 if swaps is None else swaps)
        found = attacking.attack(posed, allowed, radii, rows=rows, seed=seed)
    complain_of(loaded, columns)
    typer.echo(_as_lines(found))
    if fail_under is not None and found.attacked[-1] < fail_under:
        typer.echo(f"buttress: accuracy {found.attacked[-1]:.3f} at eps {found.eps[-1]:g}, required {fail_under:g}",
                   err=True)
        raise typer.Exit(1)


def _labelled(
    model: "Predictor", data: str, target: str | None, file_format: str | None
) -> "tuple[Mapping[str, object], Any, str]":
    """Return the columns, the labels and their name of a table, or of the label table of a join; of rows with one."""
    from buttress.audit.models.table_model import labelled
    from buttress.audit.reading.entities import labelled_entities
    from buttress.audit.reading.source import load

    made = getattr(model, "made", None)
    columns, given, name = load(data, target, file_format) if made is None else labelled_entities(data, target, made)
    columns, y = labelled(columns, given)
    if len(y) < len(given):
        typer.echo(f"buttress: {counted(len(given) - len(y), 'row')} without a target {name!r} left out.", err=True)
    return columns, y, name


def _radius(text: str) -> float:
    radius = number_in(text, f"--eps must look like 0.1,0.25. Got {text!r}.")
    if not 0 <= radius < math.inf:
        raise ValueError(f"--eps must be at least 0. Got {text}.")
    return radius


def _as_lines(result: "Robustness") -> str:
    """Return the accuracies as lines, blind ones marked."""
    from buttress.audit.measuring.cells import printable

    proven = ["-"] * len(result.eps) if result.proven is None else [f"{share:.3f}" for share in result.proven]
    lines = [f"{'eps':>6} {'swaps':>6} {'accuracy':>9} {'proven':>7}"]
    lines += [f"{radius:>6g} {swaps:>6} {share:>8.3f}{'*' if blind else ' '} {least:>7}"
              for radius, swaps, share, blind, least in zip(
                  result.eps, result.swaps, result.attacked, result.blind, proven, strict=True)]
    true = "at most what is shown: no proof is known" if result.proven is None else "between the two columns"
    lines.append(f"{counted(result.rows, 'row')}, attacked by {result.how}. The true accuracy is {true}.")
    lines.append(f"At eps 1: {printable(result.threat)}")
    if any(result.blind):
        lines.append("* the attack was blind: near most rows no score changed, so that this accuracy says nothing.")
    return "\n".join(lines)


@app.command(short_help="Show what is in a model file.")
def inspect(model: Annotated[Path, typer.Argument(help="A model file, of buttress train, fit or save.")]) -> None:
    """Show what is in a model file: when and by what it was written, its columns, classes, score and optimality gap."""
    check_input(model)
    from buttress.audit.models.answering import contents
    from buttress.persistence import read

    typer.echo(contents(read(model)))
