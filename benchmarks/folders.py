"""Folders of Parquet files: processor seconds and memory of ``buttress train``, ``predict``, and of judging every row.

    python benchmarks/folders.py [--rows 1000000] [--landmarks 200] [--only train]

Files of 250,000 rows x 20 and two classes, 5% of their labels wrong, in a folder that goes with the run. Each command
runs in a process of its own. Judging is what ``buttress audit`` does after the audit of its sample of 20,000 rows.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from audit_size import ran

COLUMNS = 20
FILE_ROWS = 250_000
JUDGING = """import sys
from pathlib import Path
from buttress.audit.models.in_batches import in_parts, judge_in_batches, sampled
from buttress.audit.reading.folder import parquet_rows
sample = sampled(parquet_rows(sys.argv[1]), "y", "auto", 20_000, 0)
with in_parts(Path(sys.argv[2])) as put:
    judge_in_batches(sample, 0, put, lambda what, share: None)"""


def write(folder, rows):
    for number in range(rows // FILE_ROWS):
        rng = np.random.default_rng(number)
        X = rng.normal(size=(FILE_ROWS, COLUMNS)).astype(np.float32)
        score = np.sin(2 * X[:, 0]) + X[:, 1] + X[:, 0] * X[:, 2] / 2 + 0.3 * rng.normal(size=FILE_ROWS)
        given = (score > 0) ^ (rng.random(FILE_ROWS) < 0.05)
        columns = {f"x{j}": X[:, j] for j in range(COLUMNS)}
        pl.DataFrame({**columns, "y": np.where(given, "yes", "no")}).write_parquet(folder / f"{number:03}.parquet")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--landmarks", type=int, default=200)
    parser.add_argument("--only", choices=("train", "predict", "judge"), nargs="+", help="predict needs train")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        rows = Path(place) / "rows"
        rows.mkdir()
        write(rows, options.rows)
        model, written = (str(Path(place) / name) for name in ("m.buttress", "out.parquet"))
        command = [sys.executable, "-m", "buttress.cli"]
        count = str(options.landmarks)
        commands = {
            "train": [*command, "train", str(rows), "--target", "y", "--landmarks", count, "-o", model],
            "predict": [*command, "predict", model, str(rows), "-o", written],
            "judge": [sys.executable, "-c", JUDGING, str(rows), written]}
        print(f"| {options.rows:,} rows x {COLUMNS}, {options.landmarks} landmarks | processor s | peak GB |")
        print("| --- | --- | --- |")
        for name, line in commands.items():
            if options.only is None or name in options.only:
                _, spent, peak = ran(line)
                print(f"| {name} | {spent:.0f} | {peak:.2f} |", flush=True)


if __name__ == "__main__":
    main()
