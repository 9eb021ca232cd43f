"""``buttress apply``."""

from pathlib import Path
from typing import Annotated

import typer

from buttress._suggest import counted
from buttress.cli.app import app
from buttress.cli.terminal import check_file, check_input


@app.command(short_help="Write corrections into a copy of the data.")
def apply(
    fixes: Annotated[Path, typer.Argument(help="suspicious.csv with its columns corrected and drop filled in.")],
    data: Annotated[Path, typer.Argument(help="The file that was audited.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the corrected file.")],
) -> None:
    """Write DATA with the corrections of FIXES: targets from its column corrected, without the rows to drop."""
    check_file(output)
    for path in (fixes, data):
        check_input(path, output)
    from buttress.audit.reading.corrections import apply_corrections, read_corrections

    corrected, dropped = apply_corrections(read_corrections(fixes), data, output)
    typer.echo(f"{counted(corrected, 'target')} corrected, {counted(dropped, 'row')} dropped. Written: {output}")
