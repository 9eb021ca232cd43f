"""``buttress inspect``."""

from pathlib import Path
from typing import Annotated

import typer

from buttress.cli.app import app
from buttress.cli.terminal import check_input


@app.command(short_help="Show what is in a model file.")
def inspect(model: Annotated[Path, typer.Argument(help="A model file, of buttress train, fit or save.")]) -> None:
    """Show what is in a model file: when and by what it was written, its columns, classes, score and optimality gap."""
    check_input(model)
    from buttress.audit.models.describing import describe
    from buttress.persistence import read

    typer.echo(describe(read(model)))
