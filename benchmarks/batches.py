"""The robust kernel regressor on rows that stay on disk, beside a stochastic gradient on the same batches.

    python benchmarks/batches.py [--rows 1000000] [--landmarks 500] [--folder /tmp] [--workers 0]

Writes Parquet files of 100,000 rows x 20 to a folder that it removes again: a smooth function of three columns, noise,
and a fifth of the targets replaced by N(5, 5) deviations. ``RobustKernelRegressor.fit_batches`` reads one file at a
time; with ``--workers`` Dask's processes read them. The peer is scikit-learn's Nystroem with as many landmarks from
the first file, and SGDRegressor with Huber's loss, one pass by ``partial_fit``. Needs polars, with workers dask too.
"""

import argparse
import resource
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDRegressor

from buttress import RobustKernelRegressor

COLUMNS = 20
ROWS = 100_000


def drawn(n, seed):
    """Return X (n, 20), targets, the truth at the rows, and which are bad."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, COLUMNS)).astype(np.float32)
    truth = np.sin(2 * X[:, 0]) + X[:, 1] + X[:, 0] * X[:, 2] / 2
    y = truth + 0.3 * rng.normal(size=n)
    bad = rng.random(n) < 0.2
    y[bad] = rng.normal(5 * y.std(), 5 * y.std(), bad.sum())
    return X, y, truth, bad


def written(folder, n):
    """Write the files and return their paths."""
    paths = []
    for seed in range(n // ROWS):
        X, y, _, _ = drawn(ROWS, seed)
        paths.append(Path(folder) / f"{seed}.parquet")
        pl.DataFrame({**{f"x{j}": X[:, j] for j in range(COLUMNS)}, "y": y}).write_parquet(paths[-1])
    return paths


def read(path):
    table = pl.read_parquet(path)
    return table.drop("y").to_numpy(), table["y"].to_numpy()


def collections(paths):
    """Return the files as Dask arrays."""
    import dask
    from dask import array

    pairs = [dask.delayed(read)(path) for path in paths]
    X = [array.from_delayed(pair[0], (ROWS, COLUMNS), np.float32) for pair in pairs]
    y = [array.from_delayed(pair[1], (ROWS,), np.float64) for pair in pairs]
    return array.concatenate(X), array.concatenate(y)


def ours(paths, options):
    model = RobustKernelRegressor(n_landmarks=options.landmarks, random_state=0)
    if not options.workers:
        return model.fit_batches(lambda: map(read, paths))
    from distributed import Client, LocalCluster

    with (LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=None) as cluster,
          Client(cluster)):
        return model.fit_batches(*collections(paths))


def peer(paths, options):
    first, _ = read(paths[0])
    features = Nystroem(gamma=0.3 / COLUMNS, n_components=options.landmarks, random_state=0).fit(first)
    model = SGDRegressor(loss="huber", epsilon=0.5, alpha=1e-7, random_state=0)
    for X, y in map(read, paths):
        model.partial_fit(features.transform(X), y)
    return lambda X: model.predict(features.transform(X))


def measured(fit, paths, options):
    """Return what a fit made, its wall and processor seconds, and the peak memory so far in GB."""
    wall, begun = time.perf_counter(), time.process_time()
    made = fit(paths, options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return made, time.perf_counter() - wall, time.process_time() - begun, peak


def main(options):
    X, _, truth, _ = drawn(20_000, 10**6)
    spread = truth.std()
    print("| rows | landmarks | fit | wall, s | processor, s | error | peak memory |")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        paths = written(folder, options.rows)
        model, wall, spent, peak = measured(ours, paths, options)
        error = np.sqrt(np.mean((model.predict(X) - truth) ** 2)) / spread
        who = f"fit_batches, {options.workers} workers" if options.workers else "fit_batches"
        print(f"| {options.rows:,} | {options.landmarks} | {who} | {wall:.0f} | {spent:.0f} | {error:.4f} | "
              f"{peak:.1f} GB |", flush=True)
        bad = np.concatenate([drawn(ROWS, seed)[3] for seed in range(len(paths))])
        low, high = model.contamination_interval_
        print(f"share {model.contamination_:.4f} [{low:.3f}, {high:.3f}], true {bad.mean():.4f}; good rows named "
              f"{np.mean(~model.inlier_mask_[~bad]):.4f}, bad ones {np.mean(~model.inlier_mask_[bad]):.3f}; "
              f"iterations {model.n_iter_}", flush=True)
        predict, wall, spent, _ = measured(peer, paths, options)
        error = np.sqrt(np.mean((predict(X) - truth) ** 2)) / spread
        print(f"| {options.rows:,} | {options.landmarks} | Nystroem and SGD, Huber | {wall:.0f} | {spent:.0f} | "
              f"{error:.4f} | |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--landmarks", type=int, default=500)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--workers", type=int, default=0)
    warnings.simplefilter("ignore")
    main(parser.parse_args())
