"""``buttress evidence``: a folder that says what is proven, measured and declared of a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from buttress.cli.audit import Declared, Format, check_output, declared_in
from buttress.cli.terminal import app, check_input, complain_of, ctrl_c

if TYPE_CHECKING:
    from buttress.evidence import EvidenceReport


@app.command(short_help="Write what is proven of a model, for somebody else to check.")
def evidence(
    model: Annotated[Path, typer.Argument(help="A model file, of buttress train or save.")],
    data: Annotated[Path, typer.Argument(help="CSV or Parquet of labelled rows that the model has not seen.")],
    target: Annotated[str, typer.Option(help="The column of the labels.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder.")] = Path("evidence"),
    training: Annotated[Path | None, typer.Option(
        help="The rows it was fitted to: its optimum, and what wrong labels could change, are then proven.")] = None,
    threat: Declared = None,
    eps: Annotated[float | None, typer.Option(
        help="Multiple of the threat's budgets, without one in standard deviations. [default: 1, 0.1 without]")] = None,
    declare: Annotated[list[str] | None, typer.Option(
        help="What you say yourself, as in purpose=..., data=..., limits=...")] = None,
    key: Annotated[Path | None, typer.Option(help="A file of secret bytes that signs evidence.json.")] = None,
    file_format: Format = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the attacks.")] = 0,
) -> None:
    """Write a folder on MODEL: evidence.html to read, and files from which buttress-verify proves it again."""
    for path in (model, data, training, threat, key):
        if path is not None:
            check_input(path)
    check_output(output)
    said = [text.partition("=") for text in declare or []]
    if not all(sign for _, sign, _ in said):
        raise ValueError(f"--declare must look like purpose=... Got {next(each[0] for each in said if not each[1])!r}.")
    from buttress.audit.reading.source import load
    from buttress.evidence import write_evidence
    from buttress.persistence import load as load_model

    columns, y, target = load(str(data), target, file_format)
    fitted_to = None if training is None else load(str(training), target, file_format)[:2]
    loaded = load_model(model)
    with ctrl_c():
        found = write_evidence(
            loaded, columns, y, target, output, training=fitted_to, threat=declared_in(threat), eps=eps,
            declared={heading: text for heading, _, text in said}, key=key.read_bytes() if key else None,
            random_state=seed)
    complain_of(loaded, columns)
    _show(found, output)


def _show(found: "EvidenceReport", output: Path) -> None:
    """Print the statements and where they are."""
    from buttress.audit.measuring.cells import printable

    for statement in found.statements:
        value = "" if statement.value is None else f" {statement.value:.4g}"
        typer.echo(printable(f"{statement.kind}: {statement.name}{value}"))
    for name, why in found.not_proven.items():
        typer.echo(printable(f"not proven, {name}: {why}"))
    again = f" Check it again: buttress-verify {output}" if found.counts()["proven"] else " Nothing is proven."
    typer.echo(f"Written: {output / 'evidence.html'}.{again}")
