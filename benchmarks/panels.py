"""What halving and doubling each constant of the panels that predictions are made of does to their time.

    OMP_NUM_THREADS=1 python benchmarks/panels.py [--repeat 15]

Rows are scored in float32 and float64 by machines of n support vectors with d columns, one thread, the constants in
turns; the least CPU seconds count. Printed are the times with the constants as they are, and the ratios to these. A
constant that changes which rows share a panel, or how many, changes float32 sums in their last digits only.
"""

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from buttress import _rows
from buttress.gram import sums
from buttress.kernels import RBF

CASES = {  # name -> rows scored, support vectors, columns, precision
    "5,000 rows, 4,600 x 30, float32": (5000, 4600, 30, np.float32),
    "1,000 rows, 2,900 x 784, float32": (1000, 2900, 784, np.float32),
    "1,000 rows, 4,600 x 30, float64": (1000, 4600, 30, np.float64),
    "200 rows, 4,600 x 30, float32": (200, 4600, 30, np.float32),
    "1 row, 100 x 20, float64": (1, 100, 20, np.float64),
}
CONSTANTS = ("HEIGHT", "LEAST_HEIGHT", "MOST_SHARES", "PANEL_ENTRIES", "WIDEST", "ALONE")


def case(rows, centres, columns, real):
    """Return a function that scores the rows."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(centres, columns)).astype(real)
    X = rng.normal(size=(rows, columns)).astype(real)
    coef = rng.normal(size=(centres, 1))
    scored = sums.weighted_sums(RBF(1.0 / columns), Z, real)
    often = max(1, 300 // rows)

    def job():
        for _ in range(often):
            scored(X, coef)

    return job


def least(jobs, repeat):
    """Return the least CPU seconds of each (prepare, job), taken in turns."""
    found = [np.inf] * len(jobs)
    for _ in range(repeat):
        for k, (prepare, job) in enumerate(jobs):
            restore = prepare()
            started = time.process_time()
            job()
            found[k] = min(found[k], time.process_time() - started)
            restore()
    return found


def varied(module, name, factor):
    """Return a function that scales a constant of a module, and returns one that sets it back."""

    def prepare():
        before = getattr(module, name)
        setattr(module, name, max(1, int(before * factor)))
        return lambda: setattr(module, name, before)

    return prepare


def show(title, module, names, job, repeat):
    jobs = [(varied(module, names[0], 1), job)]
    jobs += [(varied(module, name, factor), job) for name in names for factor in (0.5, 2)]
    base, *others = least(jobs, repeat)
    ratios = [f"{name} {others[2 * k] / base:.2f}, {others[2 * k + 1] / base:.2f}" for k, name in enumerate(names)]
    print(f"{title}: {base * 1e3:.2f} ms; halved, doubled: {'; '.join(ratios)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    with threadpool_limits(1):
        for name, sizes in CASES.items():
            show(name, sums, CONSTANTS, case(*sizes), repeat)
        X = np.random.default_rng(0).normal(size=(20_000, 30))
        show("equal rows of 20,000 x 30", _rows, ("CACHED_ROWS",), lambda: _rows.equal_rows(X), repeat)


if __name__ == "__main__":
    main()
