"""The application that the commands join, and when it started: the budget of an audit runs from there."""

import time
from typing import Annotated

import typer

STARTED = time.monotonic()
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True,
                  help="Robust kernel machines: what breaks a plain SVM on your data, and what a robust one recovers.")


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
