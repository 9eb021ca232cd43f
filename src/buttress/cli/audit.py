"""``buttress audit``, and ``buttress apply``, which writes its corrections into a copy of the data."""

from collections.abc import Sequence
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from buttress._suggest import counted, near
from buttress._types import NamedColumns
from buttress.audit.options import Effort, Metric, Options
from buttress.audit.reading.folder import is_folder
from buttress.audit.writing.words import FILES, HEADINGS, WITHOUT_JINJA, columns_of_task
from buttress.cli.folders import JUDGED, OF_FILES, Data, Sampled, check_options, is_join, judge_folder, sample_of
from buttress.cli.terminal import STARTED, app, check_apart, check_input, ctrl_c, number_in, progress
from buttress.files.disk import can_write, check_file

if TYPE_CHECKING:
    from buttress.audit.models.in_batches import Sample
    from buttress.audit.reading.table import DataTable
    from buttress.audit.result import AuditResult
    from buttress.relational import EntityFeatures
    from buttress.threats import ThreatModel

PICKLES = (".pkl", ".pickle", ".joblib")  # how files that can run code when they are read are called
CUT_SHORT = 3  # the exit code of an audit that --max-time ended


class Task(StrEnum):
    """What the target of an audit is."""

    auto = "auto"
    classification = "classification"
    regression = "regression"


Format = Annotated[str | None, typer.Option("--format", help="csv or parquet, if the name does not say.")]
Trust = Annotated[bool, typer.Option(
    "--trust-pickle", help="Read --model from a pickle or joblib file, which can run code of its author.")]
Seconds = Annotated[float | None, typer.Option(
    help="Seconds after which the run is cut short: exit code 3, and no model is recommended.")]
Groups = Annotated[str | None, typer.Option(
    help="A column whose equal entries belong together, such as the patient: groups are held out whole.")]
Drop = Annotated[list[str] | None, typer.Option(help="A column that is no feature, such as a number of the row.")]
FailUnder = Annotated[list[str] | None, typer.Option(
    help="COLUMN=VALUE, as in attacked=0.7: exit with 1 if the recommended estimator does worse.")]
FailOn = Annotated[list[str] | None, typer.Option(
    help="error, warning, note or a code such as BUT007: exit with 1 if that, or a worse one, is found.")]
Declared = Annotated[Path | None, typer.Option(
    help="A TOML file that says what may be done to each column, see docs/threat-model.md; in place of --eps.")]
Kept = Annotated[str | None, typer.Option(
    metavar="FOLDER", help="Keep finished stages there: after a kill the same command continues from them.")]


@app.command(short_help="What is wrong with a table, and which model to use.")
def audit(
    context: typer.Context,
    data: Data,
    target: Annotated[str | None, typer.Option(help="The column to predict; of a join, table.column.")] = None,
    file_format: Format = None,
    task: Annotated[Task, typer.Option(help="What the target is.")] = Task.auto,
    eps: Annotated[float, typer.Option(help="Attack radius in standard deviations of each numeric feature.")] = 0.25,
    swaps: Annotated[int, typer.Option(min=1, help="Most categories of a row that are swapped, with --model.")] = 1,
    effort: Annotated[Effort, typer.Option(help="How much is measured.")] = Effort.standard,
    max_time: Seconds = None,
    rows: Annotated[int | None, typer.Option(help="Training rows to use instead of as many as are planned.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the page, JSON and CSV.")] = Path(),
    against: Annotated[Path | None, typer.Option(help="A file of newer rows: what drifted, what is novel.")] = None,
    drop: Drop = None,
    groups: Groups = None,
    time: Annotated[str | None, typer.Option(help="A column of times: the latest rows are held out.")] = None,
    test: Annotated[Path | None, typer.Option(help="A file of rows to test on, in place of some held out.")] = None,
    metric: Annotated[Metric, typer.Option(help="By what models are compared.")] = Metric.auto,
    threat: Declared = None,
    model: Annotated[Path | None, typer.Option(help="A model file, of train or save, as one more row.")] = None,
    trust_pickle: Trust = False,
    fail_under: FailUnder = None, fail_on: FailOn = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Code of a finding to leave out, such as BUT005.")] = None,
    checkpoint: Kept = None,
    sample: Sampled = None,
) -> None:
    """Audit DATA: which rows look wrong, how models withstand moved inputs and wrong labels, and which model to use.

    Of a folder a sample is audited; then every row is judged by a robust fit of the sample.
    """
    floors = _gates(fail_under or [], fail_on or [], ignore or [])
    _check_files(output, Path(data), {"against": against, "model": model, "test": test, "threat": threat}, trust_pickle)
    options = Options(task=task.value, eps=eps, effort=effort, max_time=max_time, rows=rows, seed=seed,
                      ignore=tuple(ignore or ()), swaps=swaps, groups=groups, time=time, metric=metric,
                      threat=declared_in(threat), drop=tuple(drop or ()))
    drawn = sample_of(data, target, task.value, sample, seed) if check_options(context, data, *OF_FILES) else None
    table, made = read_table(data, target, file_format, task.value, test, drawn, drop or [])
    _check_floors(floors, columns_of_task(table.task))
    from buttress.audit.call import audit_table
    with ctrl_c(), progress() as (report, tell):
        result = audit_table(_fitted(model), table, options, report, STARTED,
                             newer=_newer(against, made), checkpoint=checkpoint, tell=tell)
    _judge(result, output, floors, fail_on or [], drawn, seed)


def read_table(
    data: str, target: str | None, file_format: str | None, task: str, test: Path | None = None,
    drawn: "Sample | None" = None, drop: Sequence[str] = (),
) -> tuple["DataTable", "EntityFeatures | None"]:
    """Return the table of DATA, and of a join the features that were learned; of a folder what is drawn."""
    if drawn is not None:
        return drawn.table, None
    if is_join(data):
        from buttress.audit.reading.entities import read_entities

        return read_entities(data, target, task)
    from buttress.audit.reading.source import kind_of, load, read_file
    from buttress.audit.reading.split import table_to_test

    more = None if test is None else read_file(str(test), None)
    table = table_to_test(*load(data, target, file_format), task, more, drop=drop)
    table.origin = data, str(kind_of(data, file_format))
    return table, None


def declared_in(threat: Path | None) -> "ThreatModel | None":
    """Return the threat that a file declares, None for none."""
    if threat is None:
        return None
    from buttress.threats import ThreatModel

    return ThreatModel.from_toml(threat)


def _judge(
    result: "AuditResult", output: Path, floors: dict[str, float], fail_on: list[str], drawn: "Sample | None", seed: int
) -> None:
    """Show and write the result, of a folder with a verdict on every row.

    Leave with exit code 1, and a line for each reason, where the user asked for that; with 3 if it was cut short.
    """
    if drawn is not None:
        judge_folder(drawn, result, output, seed)
    _show(result, result.save(output))
    missed = result.missed({key: floor for key, floor in floors.items() if key in result.columns})
    missed += result.failing(fail_on)
    for sentence in missed:
        typer.echo(f"buttress: {sentence}", err=True)
    if result.cut:
        typer.echo(f"buttress: {result.cut_short()}", err=True)
        raise typer.Exit(CUT_SHORT)
    if missed:
        raise typer.Exit(1)


def _gates(fail_under: list[str], fail_on: list[str], ignore: list[str]) -> dict[str, float]:
    """Return the floors by column; columns and codes that are unknown are refused before any work is done."""
    floors = dict(_floor(text) for text in fail_under)
    _check_floors(floors, list(HEADINGS))
    if fail_on or ignore:
        from buttress.audit.findings import Severity, check_codes

        check_codes(fail_on, words=list(Severity))
        check_codes(ignore)
    return floors


def _show(result: "AuditResult", paths: list[Path]) -> None:
    from rich.console import Console

    from buttress.audit.writing.report import terminal_table

    console = Console()
    console.print(terminal_table(result, console.width))
    console.print(f"Written: {', '.join(str(path) for path in paths)}", soft_wrap=True, markup=False, highlight=False)
    if not any(path.suffix == ".html" for path in paths):
        console.print(WITHOUT_JINJA, soft_wrap=True, markup=False, highlight=False)


def _check_files(output: Path, data: Path, files: dict[str, Path | None], trusted: bool) -> None:
    """Refuse files that are not there, and a pickle that the user did not say they trust, before it is opened.

    The folder of the output is refused first, where it could not be written, or rows that are read would be.
    """
    check_output(output)
    own = (JUDGED, *FILES) if is_folder(str(data)) else FILES
    for read, name in product((data, files["against"], files["test"]), own):
        if read is not None:
            check_apart(read, output / name)
    if any((output / name).exists() for name in own):
        from buttress.audit.writing.report import check_earlier

        check_earlier(output, own)
    model = files["model"]
    for option, path in files.items():
        if path is not None and not path.is_file():
            raise ValueError(f"--{option} {str(path)!r} is not a file.")
    if model is not None and model.suffix.lower() in PICKLES and not trusted:
        raise ValueError(f"--model {str(model)!r} is a pickle, and reading one runs whatever code its maker put into "
                         "it. If you trust who made it, add --trust-pickle; or write the model with buttress.save, "
                         "whose files cannot run code.")


def _newer(path: Path | None, made: "EntityFeatures | None") -> tuple[NamedColumns, str] | None:
    """Return the columns of a file of newer rows and its name, None for none; of a join with the features ``made``."""
    if path is None:
        return None
    if made is not None and is_join(str(path)):
        from buttress.audit.reading.entities import newer_entities

        return newer_entities(str(path), made), str(path)
    from buttress.audit.reading.source import read_file

    return read_file(str(path), None), str(path)


def _fitted(path: Path | None) -> Any:
    """Return the model in the file, None for none; a pickle was said to be trusted."""
    if path is None:
        return None
    if path.suffix.lower() in PICKLES:
        import joblib

        return joblib.load(path)
    from buttress.persistence import load

    return load(path)


def _floor(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    floor = number_in(value, f"--fail-under must look like attacked=0.7. Got {text!r}.")
    if name.startswith(("attacked", "certified", "flipped")) and not 0 <= floor <= 1:
        raise ValueError(f"--fail-under {name} is a share of the rows, in [0, 1]. Got {value}.")
    return name, floor


def _check_floors(floors: dict[str, float], columns: list[str]) -> None:
    for name in floors:
        if name not in columns:
            raise ValueError(f"--fail-under names the column {name!r}; this audit has {', '.join(columns)}."
                             f"{near(name, columns)}")


def check_output(folder: Path) -> None:
    """Refuse a folder that could not be written before any work is done."""
    folder = folder.absolute()
    if ".." in folder.parts:
        folder = folder.resolve()
    above = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not above.is_dir():
        raise ValueError(f"--output {str(folder)!r} cannot be made: {str(above)!r} is a file. Name a folder.")
    if not can_write(above):
        raise ValueError(f"--output {str(folder)!r} cannot be made: {str(above)!r} cannot be written to. Name another.")


@app.command(short_help="Write corrections into a copy of the data.")
def apply(
    fixes: Annotated[Path, typer.Argument(help="suspicious.csv with its columns corrected and drop filled in.")],
    data: Annotated[Path, typer.Argument(help="The file that was audited.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the corrected file.")],
) -> None:
    """Write DATA with the corrections of FIXES: targets from its column corrected, without the rows to drop.

    Rows are found by their key, wherever they are now. One that is not in DATA as it was audited is refused and listed,
    and the exit code is 1.
    """
    check_file(output)
    for path in (fixes, data):
        check_input(path, output)
    from buttress.audit.reading.corrections import apply_corrections, read_corrections

    done = apply_corrections(read_corrections(fixes), data, output)
    typer.echo(f"{counted(done.corrected, 'target')} corrected, {counted(done.dropped, 'row')} dropped. "
               f"Written: {output}")
    for row in done.refused:
        typer.echo(f"buttress: row {row} was left alone: {data.name} has no such row as it was audited.", err=True)
    if done.refused:
        raise typer.Exit(1)
