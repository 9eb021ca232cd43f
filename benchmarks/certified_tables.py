"""What lies between attacked and certified accuracy on ten tables, without branch and bound and as it comes.

    python benchmarks/certified_tables.py --data-dir DIR            # DIR with heart_cleveland.csv, concrete.csv, ...
    python benchmarks/certified_tables.py --data-dir DIR --max-parts 10000 --rows 20
    python benchmarks/certified_tables.py --data-dir DIR --mnist    # DIR with MNIST's files: 1 and 7, within .1 and .2

One machine for all, fixed in advance: SVC() on standardised columns; numbers are cut at their median. Each row is
attacked by worst_case and certified within .3 standard deviations (l_inf). Effort counts parts, not seconds: every run
proves the same rows.
"""

import argparse
import gzip
import os
import time
import warnings
from pathlib import Path

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"

import numpy as np  # noqa: E402
from sklearn.datasets import (  # noqa: E402
    load_breast_cancer,
    load_diabetes,
    load_iris,
    load_wine,
    make_classification,
    make_moons,
)
from sklearn.preprocessing import scale  # noqa: E402

from buttress import SVC, attacks, certificates  # noqa: E402

EPS = 0.3
TRAINED = 300


def from_file(path):
    """Return the rows without gaps and whether the last column is above its median (heart: above 0)."""
    data = np.genfromtxt(path, delimiter=",", skip_header=1)
    data = data[~np.isnan(data).any(axis=1)]
    cut = 0 if "heart" in path.name else np.median(data[:, -1])
    return data[:, :-1], (data[:, -1] > cut).astype(int)


def tables(folder):
    for load in (load_breast_cancer, load_wine, load_iris):
        yield load.__name__[5:].replace("_", " "), load(return_X_y=True)
    X, y = load_diabetes(return_X_y=True)
    yield "diabetes", (X, (y > np.median(y)).astype(int))
    yield "moons", make_moons(400, noise=0.15, random_state=0)
    yield "generated, 10 columns", make_classification(400, 10, n_informative=6, class_sep=1.5, random_state=0)
    for name in ("heart_cleveland", "concrete", "wine_quality_red") if folder is not None else ():
        yield name.replace("_", " "), from_file(folder / f"{name}.csv")
    if folder is not None:
        data = np.load(folder / "california_housing.npz", allow_pickle=True)["data"].astype(float)
        yield "california housing", (data[:, :-1], (data[:, -1] > np.median(data[:, -1])).astype(int))


def ones_and_sevens(folder):
    """Return MNIST's training images of 1 and 7, pixels in [0, 1], and which are 7."""
    images, labels = (np.frombuffer(gzip.decompress((folder / f"train-{name}.gz").read_bytes()), np.uint8, offset=start)
                      for name, start in (("images-idx3-ubyte", 16), ("labels-idx1-ubyte", 8)))
    some = np.isin(labels, (1, 7))
    return images.reshape(-1, 784)[some] / 255, (labels[some] == 7).astype(int)


def measured(X, y, max_parts, rows, eps, trained=TRAINED):
    """Return clean, attacked, certified accuracy, without branch and bound and with it, and ms a row of both."""
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    train = min(trained, 2 * len(X) // 3)
    model = SVC().fit(X[:train], y[:train])
    X, y = X[train : train + rows], y[train : train + rows]
    right = model.predict(X) == y
    info = attacks.worst_case(model, X, y, eps=eps, steps=40, restarts=2, random_state=0, return_info=True)[1]
    shares, times = [], []
    for parts in (0, max_parts):
        began = time.process_time()
        shares.append((right & certificates.certified_within(model, X, eps=eps, max_parts=parts)).mean())
        times.append(1e3 * (time.process_time() - began) / len(X))
    return right.mean(), 1 - info.success.mean(), *shares, *times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--mnist", action="store_true")
    parser.add_argument("--max-parts", type=int, default=100)
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--eps", type=float, default=EPS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"| table | columns | clean | attacked | certified | with {options.max_parts} parts | ms a row | with them |")
    print("|---|---|---|---|---|---|---|---|")
    if options.mnist:
        X, y = ones_and_sevens(options.data_dir)
        for eps in (0.1, 0.2):
            show(f"MNIST 1 and 7, {eps}", X, measured(X, y, options.max_parts, options.rows, eps, trained=200))
        return
    for name, (X, y) in tables(options.data_dir):
        show(name, X, measured(scale(X), y, options.max_parts, options.rows, options.eps))


def show(name, X, figures):
    *shares, without, parts = figures
    shares = " | ".join(f"{share:.3f}" for share in shares)
    print(f"| {name} | {X.shape[1]} | {shares} | {without:.1f} | {parts:.1f} |", flush=True)


if __name__ == "__main__":
    main()
