"""``buttress review``: an audit, and then pages on this machine on which somebody decides on its rows."""

from pathlib import Path
from typing import Annotated

import typer

from buttress.audit.options import Effort, Options
from buttress.cli.audit import Format, Task, read_table
from buttress.cli.folders import check_options
from buttress.cli.terminal import STARTED, app, ctrl_c, progress
from buttress.files.disk import check_file, check_there


@app.command(short_help="Decide on suspicious rows in the browser.")
def review(
    context: typer.Context,
    data: Annotated[Path, typer.Argument(help="A CSV or Parquet file; it is never changed.")],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    file_format: Format = None,
    task: Annotated[Task, typer.Option(help="What the target is.")] = Task.auto,
    effort: Annotated[Effort, typer.Option(help="How much the audit before it measures.")] = Effort.quick,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the audit.")] = 0,
    decisions: Annotated[Path | None, typer.Option(
        help="The file of decisions, made where there is none. [default: DATA.review]")] = None,
    who: Annotated[str | None, typer.Option(help="Who decides. [default: the user's name]")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Audit DATA, and open its rows in the browser, the most suspicious first, to keep, correct or drop each.

    Decisions are kept as they are made; the same command goes on from them. Corrections are taken from the page, and
    buttress apply writes them into a copy. Ctrl-C ends it.
    """
    check_there(data)
    check_options(context, str(data))
    kept = data.with_name(f"{data.name}.review") if decisions is None else decisions
    check_file(kept, "--decisions")
    options = Options(task=task.value, effort=effort, seed=seed)  # checked before the data are read
    from buttress.review.call import check_installed, listening

    check_installed()  # before the audit
    listening(port).close()
    table, _ = read_table(str(data), target, file_format, task.value)
    from buttress.audit.call import audit_table
    from buttress.review.call import review as serve

    with ctrl_c(), progress() as (report, tell):
        result = audit_table(None, table, options, report, STARTED, tell=tell)
    served = serve(result, kept, who, port)
    typer.echo(f"Review: {served.address}\nDecisions: {served.path}. Ctrl-C ends the review.")
    if browser:
        typer.launch(served.address)
    try:
        served.wait()
    except KeyboardInterrupt:
        typer.echo(f"The review ended. Decisions are in {served.path}.")
    finally:
        served.stop()
