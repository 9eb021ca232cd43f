"""How the time of an exact SVC grows with the rows: made data of n x 30, C=1, RBF of gamma "scale", tol 1e-3.

    python benchmarks/scaling.py [--rows 10000 30000 100000 300000 1000000] [--threads 2] [--gap .01] [--cache 1000]
                                 [--csv FILE]

Each size is fitted once, in a process of its own, in float32. Printed: CPU and wall seconds of the fit, support
vectors, the certified gap as a share of the objective, the most memory the process held, and between sizes the exponent
of CPU time in n. With ``--gap`` the fit stops on that certified gap. ``--csv`` appends the rows to a file. A million
rows took 7 minutes of processor time.
"""

import argparse
import csv
import json
import math
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from exact import synthetic

COLUMNS = ("rows", "threads", "gap_asked", "cpu", "wall", "n_sv", "gap", "converged", "peak_mb")


def fitted(n, gap, cache):
    """Fit n rows and return the figures of COLUMNS, in a process whose threads are limited."""
    from buttress import SVC

    SVC().fit(*synthetic(2500, 10))  # compile first
    X, y = synthetic(n, 30)
    X = X.astype(np.float32)
    gamma = 1 / (X.shape[1] * float(X.var(dtype=np.float64)))
    cpu, wall = time.process_time(), time.perf_counter()
    model = SVC(gamma=gamma, gap=gap, cache_size=cache, progress=True).fit(X, y)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"rows": n, "cpu": cpu, "wall": wall, "n_sv": len(model.support_), "converged": bool(model.converged_),
            "gap": float(model.dual_gap_ / model.primal_objective_), "peak_mb": peak}


def in_a_process(n, arguments):
    """Return the figures of n rows, fitted in a new process of so many threads."""
    limited = {**os.environ, **{f"{pool}_NUM_THREADS": str(arguments.threads) for pool in ("OMP", "OPENBLAS", "MKL")}}
    command = [sys.executable, __file__, "--worker", "--rows", str(n), "--cache", str(arguments.cache)]
    command += [] if arguments.gap is None else ["--gap", str(arguments.gap)]
    ran = subprocess.run(command, env=limited, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout) | {"threads": arguments.threads, "gap_asked": arguments.gap}


def append(path, row):
    """Write a row to a CSV file, after its header if the file is new."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        writer.writerow(row)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 30_000, 100_000, 300_000, 1_000_000])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--gap", type=float)
    parser.add_argument("--cache", type=float, default=1000, help="MB of kernel rows to keep")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(fitted(arguments.rows[0], arguments.gap, arguments.cache)))
        return
    before = None
    for n in arguments.rows:
        row = in_a_process(n, arguments)
        exponent = "" if before is None else math.log(row["cpu"] / before["cpu"]) / math.log(n / before["rows"])
        print(f"{n:9d} rows: cpu {row['cpu']:7.1f} s, wall {row['wall']:7.1f} s, {row['n_sv']} support vectors, "
              f"gap {row['gap']:.1e}, {row['peak_mb']:.0f} MB{exponent and f', n^{exponent:.2f}'}", flush=True)
        if arguments.csv:
            append(arguments.csv, row)
        before = row


if __name__ == "__main__":
    main()
