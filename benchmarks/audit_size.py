"""The audit of large tables: time, memory, and how many labels were judged, against reading the file alone.

    python benchmarks/audit_size.py 100000 csv          (rows, and csv or parquet)
    python benchmarks/audit_size.py 1000000 parquet --max-time 540
    python benchmarks/audit_size.py 100000 csv --task regression

The table has 50 columns: 30 of numbers (normal, lognormal, whole, with gaps), 15 of categories (2 to 40 values, some
missing), two of numbers written with a unit, an index, a date and a text that differs in every row. 2% of its targets
are wrong. The command runs in a process of its own; its peer is polars reading the same file in another. The clock by
which the audit keeps its budget counts processor seconds of all threads, so that others on the machine change nothing:
on two idle cores it takes no longer than that.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

NUMBERS = 30
CATEGORIES = 15
WRONG = 0.02  # of the targets
AUDIT = """import queue, sys, threading, time  # the first two keep the clock of the wall
time.monotonic = time.process_time
from buttress.cli import main
main()"""
READING = "import sys, polars; polars.read_{kind}(sys.argv[1])"


def table(rows: int, task: str, seed: int = 0) -> tuple[pl.DataFrame, np.ndarray]:
    """Return the frame, its target called y, and which targets are wrong."""
    rng = np.random.default_rng(seed)
    columns: dict[str, object] = {}
    score = np.zeros(rows)
    for j in range(NUMBERS):
        values = rng.normal(size=rows)
        score += rng.normal() * (values if j % 2 else np.maximum(values, 0.0))
        made = (values, np.exp(values), np.round(10 * values), np.where(rng.random(rows) < 0.1, np.nan, values))[j % 4]
        columns[f"n{j}"] = np.round(made, 4)
    for j in range(CATEGORIES):
        names = np.array([f"k{j}_{i}" for i in range(int(rng.integers(2, 41)))])
        codes = rng.integers(len(names), size=rows)
        score += rng.normal(size=len(names))[codes]
        columns[f"k{j}"] = pl.Series(names[codes]).set(pl.Series(rng.random(rows) < 0.03), None)
    for unit in ("kg", "£"):
        written = pl.Series(np.round(np.exp(rng.normal(size=rows)), 2)).cast(pl.String)
        columns[f"in_{unit}"] = written + f" {unit}" if unit == "kg" else unit + written
    columns["number"] = np.arange(rows)
    columns["day"] = (pl.Series(rng.integers(0, 3000, rows)) + 15_000).cast(pl.Date)
    columns["who"] = pl.Series([f"person {i:08d}" for i in rng.permutation(rows)])
    wrong = rng.random(rows) < WRONG
    if task == "classification":
        right = np.digitize(score, np.quantile(score, [0.4, 0.8]))
        given = np.where(wrong, (right + rng.integers(1, 3, rows)) % 3, right)
        columns["y"] = np.array(["low", "middle", "high"])[given]
    else:
        columns["y"] = np.round(score + np.where(wrong, 6 * score.std() * rng.choice([-1, 1], rows), 0.0), 4)
    return pl.DataFrame(columns), wrong


def ran(command: list[str]) -> tuple[float, float, float]:
    """Return the seconds, the processor seconds and the peak GB of a command and its children."""
    script = ("import resource, subprocess, sys, time; begun = time.monotonic(); "
              "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode; "
              "u = resource.getrusage(resource.RUSAGE_CHILDREN); "
              "print(time.monotonic() - begun, u.ru_utime + u.ru_stime, u.ru_maxrss / 1e6); sys.exit(code)")
    done = subprocess.run([sys.executable, "-c", script, *command], stdout=subprocess.PIPE, text=True, check=True)
    wall, processor, memory = (float(part) for part in done.stdout.split())
    return wall, processor, memory


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=int)
    parser.add_argument("kind", choices=("csv", "parquet"))
    parser.add_argument("--max-time", default="540")
    parser.add_argument("--task", choices=("classification", "regression"), default="classification")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"big.{given.kind}"
        frame, wrong = table(given.rows, given.task)
        getattr(frame, f"write_{given.kind}")(path)
        print(f"{given.rows} rows, {frame.width - 1} columns, {path.stat().st_size / 1e6:.0f} MB of {given.kind}")
        del frame
        read = ran([sys.executable, "-c", READING.format(kind=given.kind), str(path)])
        audit = ran([sys.executable, "-c", AUDIT, "audit", str(path), "--target", "y", "--max-time",
                     given.max_time, "--output", folder])
        print("| what | seconds | processor seconds | peak GB |\n| --- | --- | --- | --- |")
        for what, (wall, processor, memory) in (("polars reads it", read), ("the audit", audit)):
            print(f"| {what} | {wall:.0f} | {processor:.0f} | {memory:.2f} |")
        said = json.loads((Path(folder) / "audit.json").read_text())
        print("labels judged:", said["suspicion"]["judged"] if "suspicion" in said else said["suspicious"])
        print("subsampled:", said.get("subsampled"))
        verdicts = pl.read_csv(Path(folder) / "suspicious.csv", infer_schema_length=None)
        named = (verdicts["verdict"] == "wrong").to_numpy()
        print(f"called wrong: {named.sum()}, rightly {(named & wrong).sum() / max(1, named.sum()):.2f}, "
              f"of {wrong.sum()} wrong ones {(named & wrong).sum() / wrong.sum():.2f}")


if __name__ == "__main__":
    main()
