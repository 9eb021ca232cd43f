"""``buttress attack``."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from buttress._suggest import counted
from buttress.cli.app import app
from buttress.cli.terminal import check_input, ctrl_c

if TYPE_CHECKING:
    from buttress.audit.models.attacking import Robustness


@app.command(short_help="How accurate a model stays when inputs are moved.")
def attack(
    model: Annotated[Path, typer.Argument(help="A model file of a classifier, of buttress train or save.")],
    data: Annotated[Path, typer.Argument(help="CSV or Parquet of labelled rows, best not those of the training.")],
    target: Annotated[str, typer.Option(help="The column of the labels.")],
    eps: Annotated[str, typer.Option(
        help="Radii in standard deviations of each numeric column, as in 0.1,0.25.")] = "0.1,0.25,0.5",
    rows: Annotated[int, typer.Option(help="Most rows to attack; of more they are drawn.")] = 500,
    fail_under: Annotated[float | None, typer.Option(
        help="Exit with 1 if the accuracy at the largest radius is lower.")] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help="csv or parquet, when the name does not say.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
) -> None:
    """Show the accuracy that is left when somebody moves the numbers of DATA within each radius."""
    radii = [_radius(text) for text in eps.split(",")]
    for path in (model, data):
        check_input(path)
    if rows < 1:
        raise ValueError(f"--rows must be at least 1. Got {rows}.")
    if fail_under is not None and not 0 <= fail_under <= 1:
        raise ValueError(f"--fail-under is a share of the rows, in [0, 1]. Got {fail_under:g}.")
    from buttress.audit.models.attacking import attack as attacked
    from buttress.audit.reading.source import load
    from buttress.persistence import load as load_model

    columns, y, target = load(str(data), target, file_format)
    with ctrl_c():
        found = attacked(load_model(model), columns, y, target, radii, rows=rows, seed=seed)
    typer.echo(_table(found))
    if fail_under is not None and found.attacked[-1] < fail_under:
        typer.echo(f"buttress: accuracy {found.attacked[-1]:.3f} at eps {found.eps[-1]:g}, required {fail_under:g}",
                   err=True)
        raise typer.Exit(1)


def _radius(text: str) -> float:
    try:
        radius = float(text)
    except ValueError:
        raise ValueError(f"--eps must look like 0.1,0.25. Got {text!r}.") from None
    if not 0 <= radius < math.inf:
        raise ValueError(f"--eps must be at least 0. Got {text}.")
    return radius


def _table(found: "Robustness") -> str:
    """Return the accuracies as lines, blind ones marked."""
    proven = [None] * len(found.eps) if found.proven is None else found.proven
    lines = [f"{'eps':>6} {'accuracy':>9} {'proven':>7}"]
    lines += [f"{radius:>6g} {share:>8.3f}{'*' if blind else ' '} {'-' if least is None else f'{least:.3f}':>7}"
              for radius, share, blind, least in zip(found.eps, found.attacked, found.blind, proven, strict=True)]
    lines.append(f"{counted(found.rows, 'row')}, attacked by {found.how}. The true accuracy is between the two "
                 "columns.")
    if any(found.blind):
        lines.append("* the attack was blind: near most rows no score changed, so that this accuracy says nothing.")
    return "\n".join(lines)
