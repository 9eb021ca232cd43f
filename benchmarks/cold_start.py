"""CPU seconds of the first fits on a new machine, where no loop is compiled yet, of this checkout and of others.

    python benchmarks/cold_start.py [--rounds 3] [CHECKOUT ...]

Each round starts a fresh process with an empty numba cache for every checkout in turn. It imports the package, fits
iris, then 4,000 rows x 20, then both again, which shows how much of the first fits was compiling. Printed are the least
CPU seconds of the rounds, beyond imports, one thread, and the ratio of this checkout's first fits to each other one's.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
FITS = """
import json, time
import numpy as np
from sklearn.datasets import load_iris, make_classification
import buttress

iris = load_iris(return_X_y=True)
many = make_classification(4000, 20, n_informative=10, flip_y=0.05, random_state=0)
found = []
buttress.SVC
for X, y in (iris, many, iris, many):
    started = time.process_time()
    buttress.SVC().fit(X, y)
    found.append(time.process_time() - started)
print(json.dumps(found))
"""


def first_fits(checkout):
    """Return the CPU seconds of four fits in a new process: iris and 4,000 rows, twice."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | dict.fromkeys(THREADS, "1")
        environment |= {"NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(checkout / "src")}
        command = [sys.executable, "-c", FITS]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(ended.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("others", nargs="*", type=Path, help="other checkouts to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    checkouts = [HERE, *(other.resolve() for other in given.others)]
    taken = {checkout: [] for checkout in checkouts}
    for _ in range(given.rounds):
        for checkout in checkouts:
            taken[checkout].append(first_fits(checkout))
    print(f"{'':40s} {'iris':>7s} {'4,000':>7s} {'both':>7s} {'again':>7s} {'again':>7s} {'ratio':>6s}")
    own = None
    for checkout in checkouts:
        iris, many, iris_again, many_again = map(min, zip(*taken[checkout], strict=True))
        both = min(one[0] + one[1] for one in taken[checkout])
        own = both if own is None else own
        print(f"{checkout!s:40s} {iris:7.3f} {many:7.3f} {both:7.3f} {iris_again:7.4f} {many_again:7.4f} "
              f"{own / both:6.2f}")


if __name__ == "__main__":
    main()
