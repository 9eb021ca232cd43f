"""The commands on joins: ``buttress explain`` and ``buttress fit``."""

from pathlib import Path
from typing import Annotated

import typer

from buttress.cli.app import app
from buttress.cli.terminal import check_file, ctrl_c


@app.command(short_help="Show how a join of tables is counted.")
def explain(
    joins: Annotated[Path, typer.Argument(help="A TOML file that declares a join, see docs/relational/declaring.md.")],
    target: Annotated[str | None, typer.Option(help="The label, as table.column, in place of the file's.")] = None,
) -> None:
    """Show how a join is counted: its tree, rows, exact size, and which edges are exact."""
    from buttress.relational.command import explain_file

    typer.echo(explain_file(joins, target))


@app.command(short_help="Train a linear SVM over a join of tables.")
def fit(
    joins: Annotated[Path, typer.Argument(help="A TOML file that declares a join, see docs/relational/declaring.md.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")],
    target: Annotated[str | None, typer.Option(help="The label, as table.column, in place of the file's.")] = None,
    alpha: Annotated[float, typer.Option(help="Weight of the squared norm against the mean hinge loss.")] = 1e-3,
    tol: Annotated[float, typer.Option(help="Relative width of the interval around the optimum to stop at.")] = 1e-3,
    missing: Annotated[str, typer.Option(help="NULL in features: raise, or fill with zero or mean.")] = "raise",
    engine: Annotated[str, typer.Option(help="Where rows are counted: auto, memory, stream or sql.")] = "auto",
    memory_limit: Annotated[float, typer.Option(help="Megabytes that the fit may take.")] = 4000,
    max_time: Annotated[float | None, typer.Option(help="Most seconds.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample it starts from.")] = 0,
    all_coefficients: Annotated[bool, typer.Option("--all-coefficients", help="Print every coefficient.")] = False,
) -> None:
    """Train a linear SVM over a join that is never materialised, and write it with its interval."""
    from buttress.persistence import save
    from buttress.relational.command import fit_file, summary

    check_file(output)
    with ctrl_c():
        model = fit_file(joins, target, alpha=alpha, tol=tol, missing=missing, engine=engine, memory_limit=memory_limit,
                         max_time=max_time, random_state=seed, progress=True)
    save(model, output)
    typer.echo(summary(model, all_coefficients))
    typer.echo(f"Written: {output}")
