"""What ``train``, ``predict`` and ``audit`` do with a folder of Parquet files, which need not fit into memory."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from buttress.audit.reading.folder import is_folder, parquet_rows
from buttress.cli.terminal import ctrl_c, progress
from buttress.files.disk import check_file

if TYPE_CHECKING:
    from buttress._types import Predictor
    from buttress.audit.models.in_batches import Sample
    from buttress.audit.models.table_model import TableModel
    from buttress.audit.result import AuditResult

JUDGED = "judged.parquet"
SAMPLE = 20_000  # rows of a folder that are read whole by default: an audit of 20 columns then takes minutes
LANDMARKS = 500  # by default: ten million rows x 20 take some minutes
OF_FILES = ("file_format", "test", "drop")  # options of a table in one file
Data = Annotated[str, typer.Argument(
    help="A CSV or Parquet file, a folder of Parquet files larger than memory, a join in a TOML file, or a bundled set "
         "such as breast_cancer.")]
Sampled = Annotated[int | None, typer.Option(
    "--sample", min=20, help=f"Of a folder: how many rows are drawn and read whole. [default: {SAMPLE}]")]
Landmarks = Annotated[int | None, typer.Option(
    min=1, help=f"Of a folder: how many rows the machine compares others with. [default: {LANDMARKS}]")]


def check_options(context: typer.Context, data: str, *of_tables: str) -> bool:
    """Say whether DATA is a folder; ValueError where an option is given that is one of another kind of data.

    So it is where a threat is, and what it takes the place of. Options ``of_tables`` are of a file or a join.
    """
    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = [name for name, source in sources.items() if source is not None and source.name != "DEFAULT"]
    if "threat" in given and (told := [name for name in ("eps", "swaps") if name in given]):
        raise ValueError(f"--threat says what is moved and swapped, in place of --{told[0]}. Leave one of them out.")
    folder, join, of_folders = is_folder(data), is_join(data), ("sample", "landmarks")
    kind = "a folder or pattern of files" if folder else "a join" if join else "one table"
    for name in given:
        if name in (of_tables if folder else (*of_folders, *OF_FILES) if join else of_folders):
            raise ValueError(f"{data!r} is {kind}, of which --{name.removeprefix('file_').replace('_', '-')} is not "
                             "known. Leave it out.")
    return folder


def is_join(data: str) -> bool:
    """Say whether DATA is a TOML file, which declares a join."""
    return Path(data).suffix.lower() == ".toml"


def sample_of(data: str, target: str | None, task: str, size: int | None, seed: int) -> "Sample":
    """Return the rows that are drawn from a folder, as a table."""
    with ctrl_c():
        rows = parquet_rows(data)
        from buttress.audit.models.in_batches import sampled

        return sampled(rows, target, task, size or SAMPLE, seed)


def train_folder(
    sample: "Sample", landmarks: int | None, seed: int, max_time: float | None
) -> "tuple[TableModel, bool]":
    """Return a machine on landmarks, and whether it was cut short."""
    from buttress.audit.models.in_batches import train_in_batches

    with ctrl_c(), progress() as (report, _):
        return train_in_batches(sample, landmarks=landmarks or LANDMARKS, seed=seed, max_time=max_time,
                                report=report)


def predict_folder(model: "Predictor", data: str, output: Path) -> tuple[int, list[str]]:
    """Write a prediction for every row of a folder; returns how many, and what is to be said of them."""
    rows = parquet_rows(data)
    if output.absolute() in [file.absolute() for file in rows.files]:
        raise ValueError(f"--output {str(output)!r} is one of the files that are read. Name another.")
    from buttress.audit.models.in_batches import in_parts, predict_in_batches

    with ctrl_c(), in_parts(output) as put, progress() as (report, _):
        said = predict_in_batches(model, rows, put, report)
    return len(rows), said


def judge_folder(sample: "Sample", result: "AuditResult", output: Path, seed: int) -> None:
    """Write the verdict on every row of a folder beside the audit of a sample of it, and note how many they are."""
    from buttress.audit.models.in_batches import in_parts, judge_in_batches

    output.mkdir(parents=True, exist_ok=True)
    check_file(output / JUDGED)
    with ctrl_c(), in_parts(output / JUDGED) as put, progress() as (report, _):
        told = judge_in_batches(sample, seed, put, report)
    result.notes.insert(0, f"{told} {JUDGED} has the verdict on each.")
