"""``buttress train``."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from buttress.cli.app import STARTED, app
from buttress.cli.audit import Task, check_numbers
from buttress.cli.terminal import check_file, ctrl_c, progress

if TYPE_CHECKING:
    from buttress.audit.models.table_model import TableModel
    from buttress.audit.reading.table import Table


class Family(StrEnum):
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


@app.command(short_help="Train a model on a table, and write it to a file.")
def train(
    data: Annotated[str, typer.Argument(help="A CSV or Parquet file, or a bundled set such as breast_cancer.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    estimator: Annotated[Family, typer.Option(help="What to train; by default what an audit recommends.")] = (
        Family.recommended),
    file_format: Annotated[
        str | None, typer.Option("--format", help="csv or parquet, when the name does not say.")] = None,
    task: Annotated[Task, typer.Option(help="What the target is.")] = Task.auto,
    eps: Annotated[float, typer.Option(help="Radius the audit attacks at, and adversarial training is for.")] = 0.25,
    budget: Annotated[float, typer.Option(help="Seconds for the audit that recommends.")] = 60.0,
    max_time: Annotated[float | None, typer.Option(help="Most seconds of a fit, where the estimator can stop.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
) -> None:
    """Train a model on all rows of DATA and write it with its columns, its labels as written, and its score."""
    check_file(output)
    check_numbers(eps, budget, None, seed)
    from buttress.audit.reading.source import load
    from buttress.audit.reading.table import make_table

    columns, y, target = load(data, target, file_format)
    table, settled = make_table(columns, y, target, task.value)
    table.origin = data, file_format or ""
    from buttress.audit.models.labels import texts_of
    from buttress.audit.models.training import estimators, named
    from buttress.audit.models.training import train as fitted
    from buttress.persistence import save

    entries = estimators(table, settled, eps, seed)
    with ctrl_c():
        chosen = estimator is not Family.recommended
        name = named(estimator.value, entries) if chosen else _recommended(table, settled, eps, budget, seed)
        model = fitted(table, settled, name, entries[name], source=data, seed=seed, max_time=max_time,
                       written=texts_of(data, target, file_format, y))
    save(model, output)
    _show(model, output)


def _recommended(table: "Table", task: str, eps: float, budget: float, seed: int) -> str:
    """Return what an audit recommends; ValueError where it recommends nothing."""
    from buttress.audit.call import audit_table
    from buttress.audit.options import Options

    with progress() as watch:
        result = audit_table(None, table, task, Options(task, eps, budget, None, seed), watch.report, STARTED, "",
                             tell=watch.tell)
    if result.recommended is None:
        raise ValueError("The rows are too few for a recommendation. Choose an estimator, such as --estimator linear.")
    typer.echo(result.verdict[-1])
    return result.recommended


def _show(model: "TableModel", output: Path) -> None:
    """Say what became of the columns, and what the model scored."""
    from buttress.audit.measuring.cells import printable

    for note in model.trained_on["notes"]:  # type: ignore[attr-defined]
        typer.echo(f"buttress: {printable(str(note))}", err=True)
    score = model.score
    typer.echo(f"{model.estimator}: {score['metric']} {float(score['value']):.3g} ({score['interval']}) on "
               f"{score['rows']} rows held out of a first fit, one split of the rows: another may differ by some "
               f"hundredths. The model is fitted to all {model.trained_on['rows']}.")
    typer.echo(f"Written: {output}")
