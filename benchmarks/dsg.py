"""Time one pass of doubly stochastic gradients, as ratios of runs of the same minute.

    OPENBLAS_NUM_THREADS=1 python benchmarks/dsg.py [--rows 13007] [--width 784]     # generated rows
    OPENBLAS_NUM_THREADS=1 python benchmarks/dsg.py --data-dir DIR                   # MNIST 1 and 7, its four idx files

Compared: the pass against its matrix products alone (each block of features times the rows still to come), the attacked
pass against the natural one, the exact-kernel pass against the doubly stochastic one; and the free-range machine.
"""

import argparse
import time
import warnings

import numpy as np
from attacks import ones_and_sevens
from sklearn.datasets import make_classification

from buttress import FeatureNoiseWarning, FreeRangeSVC, StochasticAdvSVM


def seconds(runs, repeat):
    """Least wall and processor seconds of each of some runs, taken in turn ``repeat`` times."""
    best = dict.fromkeys(runs, (np.inf, np.inf))
    for _ in range(repeat):
        for name, call in runs.items():
            start = time.perf_counter(), time.process_time()
            call()
            took = time.perf_counter() - start[0], time.process_time() - start[1]
            best[name] = tuple(map(min, best[name], took))
    return best


def floor(X, batch, features):
    """The products X W of the pass, batch by batch, in single precision as the solver does them."""
    X = X.astype(np.float32)
    W = np.ones((X.shape[1], features), dtype=np.float32)
    for start in range(0, len(X), batch):
        for part in range(start, len(X), 2048):
            X[part : part + 2048] @ W


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=13007)
    parser.add_argument("--width", type=int, default=784)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--data-dir")
    options = parser.parse_args()
    if options.data_dir is None:
        X, y = make_classification(options.rows, options.width, n_informative=20, random_state=0)
        X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    else:
        X, y = ones_and_sevens(options.data_dir)
    warnings.simplefilter("ignore", FeatureNoiseWarning)
    common = {"norm": "l2", "C": 8.0, "random_state": 0, "fit_intercept": False}
    runs = {
        "products alone": lambda: floor(X, 500, 1024),
        "natural dsg": lambda: StochasticAdvSVM(eps=0, **common).fit(X, y),
        "attacked dsg": lambda: StochasticAdvSVM(eps=1e-3, **common).fit(X, y),
        "attacked sgd": lambda: StochasticAdvSVM(eps=1e-3, **{**common, "n_features": None}).fit(X, y),
        "free-range": lambda: FreeRangeSVC(C_f=0.1, attacked_class="both", tol=1e-4).fit(X, y),
    }
    took = seconds(runs, options.repeat)
    print(f"{len(X)} x {X.shape[1]}, {'generated' if options.data_dir is None else 'MNIST 1 and 7'}")
    print("| run | seconds | processor seconds | processor, against the products |\n|---|---|---|---|")
    for name, (wall, cpu) in took.items():
        print(f"| {name} | {wall:.2f} | {cpu:.2f} | {cpu / took['products alone'][1]:.2f} |")


if __name__ == "__main__":
    main()
