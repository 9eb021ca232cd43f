"""The robust kernel regressor on rows that stay on disk, beside a stochastic gradient on the same batches.

    python benchmarks/batches.py [--rows 1000000] [--landmarks 500] [--folder /tmp] [--workers 0]
                                 [--kept 1e9] [--labels]

Writes Parquet files of 100,000 rows x 20 to a folder that it removes again: a smooth function of three columns, noise,
and a fifth of the targets replaced by N(5, 5) deviations. ``RobustKernelRegressor.fit_batches`` reads one file at a
time; with ``--workers`` Dask's processes read them. The peer is scikit-learn's Nystroem with as many landmarks from
the first file, and SGDRegressor with Huber's loss, one pass by ``partial_fit``. ``--kept`` is the most bytes of
features that are kept; with 0 they are made again in each pass. ``--labels`` fits ``RobustKernelClassifier`` to three
classes of the truth, a fifth of the labels wrong. Needs polars, with workers dask too.
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

from buttress import RobustKernelClassifier, RobustKernelRegressor
from buttress.features import stored

COLUMNS = 20
ROWS = 100_000
READ = []  # the files read, in this process


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
    READ.append(path)
    table = pl.read_parquet(path)
    return table.drop("y").to_numpy(), table["y"].to_numpy()


def read_labels(path):
    """Return the rows of a file, and classes of the truth at them of which a fifth is wrong."""
    seed = int(path.stem)
    _, _, truth, _ = drawn(ROWS, seed)
    rng = np.random.default_rng(seed)
    right = np.digitize(truth, [-0.5, 0.8])
    return read(path)[0], np.where(rng.random(ROWS) < 0.2, (right + rng.integers(1, 3, ROWS)) % 3, right)


def collections(paths):
    """Return the files as Dask arrays."""
    import dask
    from dask import array

    pairs = [dask.delayed(read)(path) for path in paths]
    X = [array.from_delayed(pair[0], (ROWS, COLUMNS), np.float32) for pair in pairs]
    y = [array.from_delayed(pair[1], (ROWS,), np.float64) for pair in pairs]
    return array.concatenate(X), array.concatenate(y)


def ours(paths, options):
    if options.labels:
        model = RobustKernelClassifier(n_landmarks=options.landmarks, random_state=0)
        return model.fit_batches(lambda: map(read_labels, paths))
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
    stored.KEPT_BYTES = options.kept
    X, _, truth, _ = drawn(20_000, 10**6)
    spread = truth.std()
    print("| rows | landmarks | fit | wall, s | processor, s | error | peak memory |")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        paths = written(folder, options.rows)
        model, wall, spent, peak = measured(ours, paths, options)
        passes = len(READ) / len(paths)
        if options.labels:
            accuracy = np.mean(model.predict(X) == np.digitize(truth, [-0.5, 0.8]))
            print(f"labels, {options.rows:,} rows, {options.landmarks} landmarks: {passes:.0f} passes, {wall:.0f} s, "
                  f"processor {spent:.0f} s, accuracy {accuracy:.4f}, peak memory {peak:.1f} GB")
            return
        error = np.sqrt(np.mean((model.predict(X) - truth) ** 2)) / spread
        who = f"fit_batches, {options.workers} workers" if options.workers else "fit_batches"
        print(f"| {options.rows:,} | {options.landmarks} | {who} | {wall:.0f} | {spent:.0f} | {error:.4f} | "
              f"{peak:.1f} GB |", flush=True)
        bad = np.concatenate([drawn(ROWS, seed)[3] for seed in range(len(paths))])
        low, high = model.contamination_interval_
        print(f"share {model.contamination_:.4f} [{low:.3f}, {high:.3f}], true {bad.mean():.4f}; good rows named "
              f"{np.mean(~model.inlier_mask_[~bad]):.4f}, bad ones {np.mean(~model.inlier_mask_[bad]):.3f}; "
              f"iterations {model.n_iter_}; {passes:.0f} passes", flush=True)
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
    parser.add_argument("--kept", type=float, default=stored.KEPT_BYTES)
    parser.add_argument("--labels", action="store_true")
    warnings.simplefilter("ignore")
    main(parser.parse_args())
