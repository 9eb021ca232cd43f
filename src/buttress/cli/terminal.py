"""What commands share: the application that they join, progress, Ctrl-C, the line they fail with, checks of files."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from buttress.files.disk import check_there

if TYPE_CHECKING:
    from buttress._types import AuditProgress


STARTED = time.monotonic()  # the budget of an audit runs from here
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True,
                  help="Find what is wrong with a table before a model learns from it, and train robust models.")


def _version(wanted: bool) -> None:
    if wanted:
        from buttress import __version__

        typer.echo(f"buttress {__version__}")
        raise typer.Exit()


@app.callback()
def buttress(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)] = False,
) -> None:
    """Robust kernel machines."""


def check_input(path: Path, output: Path | None = None) -> None:
    """Refuse a file that is not there, or that would be written over."""
    check_there(path)
    if output is not None:
        check_apart(path, output)


def check_apart(path: Path, output: Path) -> None:
    """Refuse to write over a file that is read, or over a table of the join that it declares."""
    read = [path]
    if output.exists() and path.suffix.lower() == ".toml":
        from buttress.relational.command import files_of

        read += files_of(path)
    if any(file.exists() and file.samefile(output) for file in read if output.exists()):
        raise ValueError(f"--output {str(output)!r} is one of the files that are read. Name another.")


def number_in(text: str, otherwise: str) -> float:
    """Return the number that a text is; ValueError with these words for another text, and for NaN."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):  # below which nothing is
        raise ValueError(otherwise)
    return number


@contextmanager
def ctrl_c() -> Iterator[None]:
    """Leave on Ctrl-C with a word of our own: the command line's library would leave without one."""
    try:
        yield
    except KeyboardInterrupt:
        stop("interrupted, nothing was written", 130)


@contextmanager
def progress() -> "Iterator[tuple[AuditProgress, Callable[[str], None]]]":
    """Show a bar on stderr while a terminal watches, and above it what is found on the way.

    Yields what a command tells how far it is, and what it has found so far.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.text import Text

    console = Console(stderr=True)
    if not console.is_terminal:
        yield (lambda what, share: None), (lambda line: None)
        return

    def tell(line: str) -> None:
        from buttress.audit.measuring.cells import printable

        console.print(Text(printable(line)))

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TextColumn("to go"),
               TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=1.0)
        yield (lambda what, share: bar.update(task, description=what, completed=share)), tell


def stop(message: str, code: int) -> NoReturn:
    complain(message)
    sys.exit(code)


def complain(message: str) -> None:
    """Write a message to stderr, on one line."""
    from buttress.audit.measuring.cells import printable

    typer.echo(f"buttress: {printable(' '.join(message.split()))}", err=True)


def complain_of(model: object, columns: Mapping[str, object]) -> None:
    """Write a line on each column with entries that the model could not read, or has not seen."""
    from buttress.audit.models.answering import remarks

    for remark in remarks(model, columns).values():
        complain(remark)
