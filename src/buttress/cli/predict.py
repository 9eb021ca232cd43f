"""``buttress predict``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from buttress._suggest import counted
from buttress.cli.app import app
from buttress.cli.terminal import check_file, check_input

if TYPE_CHECKING:
    from buttress.audit.protocols import Labels


@app.command(short_help="Predict every row of a file with a model.")
def predict(
    model: Annotated[Path, typer.Argument(help="A model file, of buttress train, fit or save.")],
    data: Annotated[Path, typer.Argument(help="CSV or Parquet of new rows; for a model over a join, the join's TOML.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the predictions, CSV or Parquet.")],
    file_format: Annotated[
        str | None, typer.Option("--format", help="csv or parquet, when the name does not say.")] = None,
) -> None:
    """Write a prediction for every row of DATA: its number, the prediction, and the probability if there is one."""
    check_file(output)
    from buttress.audit.measuring.cells import printable
    from buttress.audit.models.answering import check_format, write

    check_format(output)
    for path in (model, data):
        check_input(path, output)
    answer, said = _answer(model, data, file_format)
    write(answer, output)
    for remark in said:
        typer.echo(f"buttress: {printable(remark)}", err=True)
    typer.echo(f"{counted(len(answer['row']), 'row')} predicted. Written: {output}")


def _answer(path: Path, data: Path, file_format: str | None) -> tuple[dict[str, "Labels"], list[str]]:
    """Return the predictions for a table, or for the rows of a join's label table, and what is to be said of them."""
    from buttress.persistence import load
    from buttress.relational import RelationalLinearSVC

    model = load(path)
    joined = isinstance(model, RelationalLinearSVC)
    if joined != (data.suffix.lower() == ".toml"):
        needed = "the TOML file that declares its join" if joined else "a CSV or Parquet file, not a join"
        raise ValueError(f"{path.name} holds a {type(model).__name__}, which predicts from {needed}. Got {data.name}.")
    if joined:
        from buttress.relational.command import predict_file

        return predict_file(model, data), []
    from buttress.audit.models.answering import predictions, remarks
    from buttress.audit.reading.source import read_file

    columns = read_file(str(data), file_format)
    return predictions(model, columns), remarks(model, columns)
