"""The application that the commands join, and when it started: the budget of an audit runs from there."""

import time

import typer

STARTED = time.monotonic()
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, no_args_is_help=True,
                  help="Robust kernel machines: what breaks a plain SVM on your data, and what a robust one recovers.")


@app.callback()
def buttress() -> None:
    """Robust kernel machines."""
