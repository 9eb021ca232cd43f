"""The ``buttress`` command: parse, call, print. Errors are one line on stderr and exit code 2."""

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from buttress.audit.protocols import Report
    from buttress.audit.result import AuditResult

STARTED = time.monotonic()
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True,
                  help="Robust kernel machines: what breaks a plain SVM on your data, and what a robust one recovers.")


class Task(StrEnum):
    """What the target of an audit is."""

    auto = "auto"
    classification = "classification"
    regression = "regression"


@app.callback()
def buttress() -> None:
    """Robust kernel machines."""


@app.command()
def audit(
    data: Annotated[str, typer.Argument(help="A CSV or Parquet file, or a bundled set such as breast_cancer.")],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help="csv or parquet, when the name does not say.")] = None,
    task: Annotated[Task, typer.Option(help="What the target is.")] = Task.auto,
    eps: Annotated[float, typer.Option(help="Attack radius in standard deviations of each numeric feature.")] = 0.25,
    budget: Annotated[float, typer.Option(help="Seconds for the whole run.")] = 60.0,
    rows: Annotated[int | None, typer.Option(help="Training rows to use instead of what the budget allows.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    output: Annotated[Path, typer.Option(help="Folder for audit.json and audit.html.")] = Path(),
    model: Annotated[Path | None, typer.Option(help="A model file of buttress.save, as one more row.")] = None,
    fail_under: Annotated[list[str] | None, typer.Option(
        help="COLUMN=VALUE, as in attacked=0.7: exit with 1 if the recommended estimator does worse.")] = None,
) -> None:
    """Show what breaks a plain SVM on DATA, what a robust one recovers, and which rows look wrong."""
    floors = dict(_floor(text) for text in fail_under or [])
    _check_output(output)
    _check_numbers(eps, budget, rows, seed)
    if model is not None and not model.is_file():
        raise ValueError(f"--model {str(model)!r} is not a file.")
    from buttress.audit.reading.source import kind_of, load
    from buttress.audit.reading.table import make_table

    table, settled = make_table(*load(data, target, file_format), task.value)
    table.origin = data, str(kind_of(data, file_format))
    from buttress.audit.options import Options
    from buttress.audit.study import audit_table
    from buttress.audit.writing.report import write

    options = Options(task.value, eps, budget, rows, seed)
    with _ctrl_c(), _progress() as report:
        result = audit_table(_fitted(model), table, settled, options, report, STARTED, data)
    _check_floors(floors, list(result.columns))
    paths = write(result, output)
    _show(result, paths)
    missed = result.missed(floors)
    for sentence in missed:
        typer.echo(f"buttress: {sentence}", err=True)
    if missed:
        raise typer.Exit(1)


@app.command()
def explain(
    joins: Annotated[Path, typer.Argument(help="A TOML file that declares a join, see docs/relational/declaring.md.")],
    target: Annotated[str | None, typer.Option(help="The label, as table.column, in place of the file's.")] = None,
) -> None:
    """Show how a join is counted: its tree, rows, exact size, and which edges are exact."""
    from buttress.relational.command import explain_file

    typer.echo(explain_file(joins, target))


@app.command()
def fit(
    joins: Annotated[Path, typer.Argument(help="A TOML file that declares a join, see docs/relational/declaring.md.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")],
    target: Annotated[str | None, typer.Option(help="The label, as table.column, in place of the file's.")] = None,
    alpha: Annotated[float, typer.Option(help="Weight of the squared norm against the mean hinge loss.")] = 1e-3,
    tol: Annotated[float, typer.Option(help="Relative width of the interval around the optimum to stop at.")] = 1e-3,
    max_time: Annotated[float | None, typer.Option(help="Most seconds.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample it starts from.")] = 0,
) -> None:
    """Train a linear SVM over a join that is never materialised, and write it with its certificate."""
    from buttress.persistence import save
    from buttress.relational.command import fit_file, summary

    _check_file(output)
    with _ctrl_c():
        model = fit_file(joins, target, alpha=alpha, tol=tol, max_time=max_time, random_state=seed, progress=True)
    save(model, output)
    typer.echo(summary(model))
    typer.echo(f"Written: {output}")


def _show(result: "AuditResult", paths: list[Path]) -> None:
    from rich.console import Console

    from buttress.audit.writing.report import terminal_table

    console = Console()
    console.print(terminal_table(result, console.width))
    console.print(f"Written: {', '.join(str(path) for path in paths)}", soft_wrap=True, markup=False, highlight=False)


def _fitted(path: Path | None) -> Any:
    """Return the model in the file, None for none."""
    if path is None:
        return None
    from buttress.persistence import load

    return load(path)


def _floor(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        floor = float(value)
    except ValueError:
        raise ValueError(f"--fail-under must look like attacked=0.7. Got {text!r}.") from None
    if name.startswith(("attacked", "certified", "flipped")) and not 0 <= floor <= 1:
        raise ValueError(f"--fail-under {name} is a share of the rows, in [0, 1]. Got {value}.")
    return name, floor


def _check_floors(floors: dict[str, float], columns: list[str]) -> None:
    for name in floors:
        if name not in columns:
            raise ValueError(f"--fail-under names the column {name!r}; this audit has {', '.join(columns)}.")


def _check_output(folder: Path) -> None:
    """Refuse a folder that could not be written, before any work is done."""
    folder = folder.absolute()
    if ".." in folder.parts:
        folder = folder.resolve()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output {str(folder)!r} is a file. Name a folder.")
    above = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK) or str(above) == "/proc":
        raise ValueError(f"--output {str(folder)!r} cannot be made: {str(above)!r} cannot be written to.")


def _check_file(path: Path) -> None:
    """Refuse a model file that could not be written, before any work is done."""
    if path.is_dir():
        raise ValueError(f"--output {str(path)!r} is a folder. Name a file.")
    if not os.access(path.absolute().parent, os.W_OK):
        raise ValueError(f"--output {str(path)!r} cannot be written: there is no such folder, or no right to it.")


def _check_numbers(eps: float, budget: float, rows: int | None, seed: int) -> None:
    """Refuse numbers out of range at once; the audit checks them again, but only after it has loaded."""
    for name, value in (("eps", eps), ("budget", budget)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be in (0, inf). Got {value:g}.")
    if rows is not None and rows < 20:
        raise ValueError(f"rows must be a whole number of at least 20. Got {rows}.")
    if seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0. Got {seed}.")


@contextmanager
def _ctrl_c() -> Iterator[None]:
    """Leave on Ctrl-C with a word of our own: the command line's library would leave without one."""
    try:
        yield
    except KeyboardInterrupt:
        _stop("interrupted, nothing was written", 130)


@contextmanager
def _progress() -> Iterator["Report"]:
    """Show a bar on stderr while a terminal watches."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda what, share: None
        return
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=1.0)
        yield lambda what, share: bar.update(task, description=what, completed=share)


def main() -> None:
    """Run the command; mistakes of the user become one line and exit code 2, Ctrl-C exit code 130."""
    try:
        code = app(standalone_mode=False)
    except (ValueError, TypeError, ImportError, OSError) as error:
        _stop(str(error), 2)
    except Exception as error:
        if not hasattr(error, "format_message"):  # not the command line's own complaint about its arguments
            raise
        _stop(error.format_message(), 2)
    sys.exit(code if isinstance(code, int) else 0)


def _stop(message: str, code: int) -> NoReturn:
    typer.echo(f"buttress: {' '.join(message.split())}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
