"""What a checkpoint costs: median CPU seconds of the same fit with one and without, in turn, and what it writes.

    python benchmarks/long_fits.py [--repeat 5] [--only NAME]
"""

import argparse
import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import tempfile
import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_classification

import buttress as bt
from buttress.checkpoints.folder import Folder


def data(n, d, n_classes=2):
    return make_classification(n, d, n_informative=d // 2, n_classes=n_classes, flip_y=0.1, class_sep=0.7,
                               random_state=0)


FITS = {
    "SVC, 12,000 x 30": (bt.SVC(C=30), data(12_000, 30)),
    "SVC, 10 classes, 10,000 x 30": (bt.SVC(C=30), data(10_000, 30, 10)),
    "SVR, 5,000 x 30": (bt.SVR(C=10, epsilon=0.01), data(5_000, 30)),
}


def seconds(model, X, y):
    """Return the CPU seconds of a fit."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return time.process_time() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    written = []
    write = Folder.write

    def noted(self, name, value):
        write(self, name, value)
        written.append((self.path / f"{name}.checkpoint").stat().st_size)

    Folder.write = noted
    print(f"{'':34}{'plain, s':>10}{'kept, s':>10}{'ratio':>8}{'writes':>8}{'MB, largest':>13}")
    for name, (model, (X, y)) in FITS.items():
        if args.only not in name:
            continue
        plain, kept = [], []
        seconds(clone(model), X[:500], y[:500])
        for _ in range(args.repeat):
            plain.append(seconds(clone(model), X, y))
            written.clear()
            with tempfile.TemporaryDirectory() as folder:
                kept.append(seconds(clone(model).set_params(checkpoint=folder), X, y))
        ratio = np.median(kept) / np.median(plain)
        print(f"{name:34}{np.median(plain):10.2f}{np.median(kept):10.2f}{ratio:8.3f}{len(written):8}"
              f"{max(written, default=0) / 1e6:13.2f}", flush=True)


if __name__ == "__main__":
    main()
