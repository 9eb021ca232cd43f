"""Exact SVC training and prediction against scikit-learn and scikit-learn-intelex, in one run with equal threads.

    python benchmarks/exact.py [--threads 1 2] [--data-dir DIR] [--quick | --large] [--repeat 2] [--only NAME]
                               [--gap .01 .1]

Every library fits the same rows in float32 and float64 in turn (ours and sklearnex take float32 as such, scikit-learn
converts it); the best of ``--repeat`` runs counts. Printed per row: CPU and wall seconds, how many times longer the
others take, each one's dual objective relative to the best (0 is best), the floor (the products and exponentials of
n_SV rows, at the speed measured here, of sparse rows that of ours) and kernel rows computed per support vector.
``--gap`` fits ours once more for each of these values of its parameter. MNIST is read from DIR/mnist, else
fetched from OpenML. scikit-learn-intelex is left out where it is not installed.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

TOL, CACHE = 1e-3, 2000


def synthetic(n, d, flip=0.0, seed=0):
    from sklearn.datasets import make_classification
    from sklearn.preprocessing import scale

    X, y = make_classification(n, d, n_informative=d // 2, n_redundant=d // 4, flip_y=flip, class_sep=0.7,
                               n_clusters_per_class=4, random_state=seed)
    return scale(X), y


def mnist(data_dir, n, digits):
    """Return n training rows in [0, 1] and their digit, or whether it is odd."""
    folder = Path(data_dir) / "mnist" if data_dir else None
    if folder and folder.exists():
        images, labels = (_idx(next(folder.rglob(f"train-{kind}*"))) for kind in ("images", "labels"))
    else:
        from sklearn.datasets import fetch_openml

        images, labels = fetch_openml("mnist_784", return_X_y=True, as_frame=False)
    X, y = images[:n].reshape(n, -1) / 255.0, labels[:n].astype(int)
    return X, y if digits else y % 2


def _idx(path):
    """Return the array of an IDX file, gzipped or not."""
    raw = (gzip.open if path.suffix == ".gz" else open)(path, "rb").read()
    shape = [int.from_bytes(raw[4 + 4 * k : 8 + 4 * k], "big") for k in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def text(n, topical=0.15, d=100_000, words=80, topics=20, seed=0):
    """Return n rows like TF-IDF of text: words as frequent as by Zipf's law, a share ``topical`` of a topic; 5% of
    labels wrong."""
    from scipy.sparse import csr_matrix, diags
    from sklearn.preprocessing import normalize

    rng = np.random.default_rng(seed)
    frequency = 1 / np.arange(1, d + 1)
    topic = rng.integers(0, topics, n)
    word = rng.choice(d, size=(n, words), p=frequency / frequency.sum())
    of_topic = 1000 + 200 * topic[:, None] + rng.integers(0, 200, (n, words))
    word = np.where(rng.random((n, words)) < topical, of_topic, word)
    X = csr_matrix((np.ones(n * words), (np.repeat(np.arange(n), words), word.ravel())), shape=(n, d))
    X.data = 1 + np.log(X.data)
    rarity = 1 + np.log(n / (1 + np.bincount(X.indices, minlength=d)))
    return normalize(csr_matrix(X @ diags(rarity))), (topic % 2) ^ (rng.random(n) < 0.05)


# name -> (data, parameters)
PROBLEMS = {
    "synthetic 10k x 30, C=1": (lambda _: synthetic(10_000, 30), {"C": 1.0}),
    "synthetic 10k x 30, 20% noise, C=100": (lambda _: synthetic(10_000, 30, 0.4), {"C": 100.0}),
    "synthetic 20k x 30, C=1": (lambda _: synthetic(20_000, 30), {"C": 1.0}),
    "synthetic 5k x 800, C=1": (lambda _: synthetic(5_000, 800), {"C": 1.0}),
    "hard 10k x 10, gamma=.05, C=100": (lambda _: synthetic(10_000, 10, 0.02), {"C": 100.0, "gamma": 0.05}),
    "MNIST 20k even/odd, C=10": (lambda folder: mnist(folder, 20_000, False), {"C": 10.0}),
    "MNIST 10k ten classes, C=10": (lambda folder: mnist(folder, 10_000, True), {"C": 10.0}),
    "text 20k x 100k, C=1": (lambda _: text(20_000), {"C": 1.0, "gamma": 1.0}),
    "topical text 20k x 100k, C=10": (lambda _: text(20_000, topical=0.7), {"C": 10.0, "gamma": 0.1}),
    "text 20k x 100k, linear, C=1": (lambda _: text(20_000), {"C": 1.0, "gamma": 1.0, "kernel": "linear"}),
}
QUICK = {
    "synthetic 3k x 30, C=1": (lambda _: synthetic(3_000, 30), {"C": 1.0}),
    "hard 3k x 10, gamma=.05, C=100": (lambda _: synthetic(3_000, 10, 0.02), {"C": 100.0, "gamma": 0.05}),
    "text 3k x 100k, C=1": (lambda _: text(3_000), {"C": 1.0, "gamma": 1.0}),
}

LARGE = {"synthetic 100k x 30, C=1": (lambda _: synthetic(100_000, 30), {"C": 1.0})}  # the others take minutes


def libraries(threads, gaps=()):
    """Return name -> (class, dtype)."""
    import sklearn.svm

    import buttress

    found = {"ours f32": (buttress.SVC, np.float32), "ours f64": (buttress.SVC, np.float64),
             "scikit-learn": (sklearn.svm.SVC, np.float64)}
    found |= {f"ours, gap={gap:g}": (partial(buttress.SVC, gap=gap), np.float32) for gap in gaps}
    try:
        import daal4py
        from sklearnex.svm import SVC as Intelex
    except ImportError:
        print("# scikit-learn-intelex is not installed: left out", file=sys.stderr)
        return found
    daal4py.daalinit(threads)
    return found | {"sklearnex f32": (Intelex, np.float32), "sklearnex f64": (Intelex, np.float64)}


def timed(function):
    """Return what a function returns, with its CPU and wall seconds, once the machine has handed over its memory.

    A virtual machine does that at the first touch, a second for each GB, and takes it back when nobody uses it:
    without this whoever comes first in a turn pays for all.
    """
    np.ones(2**17 * CACHE)
    cpu, wall = time.process_time(), time.perf_counter()
    result = function()
    return result, time.process_time() - cpu, time.perf_counter() - wall


def dual_objective(model, X, gamma, kernel="rbf"):
    """Return the dual value of a two-class model in float64."""
    from scipy.sparse import issparse

    from buttress.gram.rows import KernelRows
    from buttress.kernels import RBF, Linear

    coef = model.dual_coef_.toarray() if issparse(model.dual_coef_) else np.asarray(model.dual_coef_)
    b = np.zeros(X.shape[0])
    b[np.asarray(model.support_)] = coef.ravel()
    f = KernelRows(RBF(gamma) if kernel == "rbf" else Linear(), X, 1e-3).proven_times(b, np.flatnonzero(b)).f
    return np.abs(b).sum() - 0.5 * b @ f


def floor_seconds(X, n_sv, exponentials=True):
    """Return the CPU seconds of n_sv rows of products and exponentials at the speed of this machine.

    Products are taken in float32, those of sparse rows as ``SVC`` takes them: a lower one may be possible.
    """
    from buttress.gram.compiled import rbf_entries
    from buttress.gram.sparse import SparseProducts

    height, width = 512, 2048
    if isinstance(X, np.ndarray):
        A, B = (np.ones((size, X.shape[1]), np.float32) for size in (height, width))
        product, entries = (lambda: A @ B.T), height * width
    else:
        sparse, drawn = SparseProducts(X.astype(np.float32)), np.random.default_rng(0).permutation(X.shape[0])[:32]
        product, entries = (lambda: sparse(drawn, slice(0, X.shape[0]))), len(drawn) * X.shape[0]
    panel, out, zeros = (np.ones(shape, np.float32) for shape in ((height, width), (height, width), (width,)))
    powers = partial(rbf_entries, panel, zeros[:height], zeros, np.float32(0.1), out, np.arange(height), 0)
    seconds = min(timed(product)[1] for _ in range(5)) / entries
    if exponentials:
        seconds += min(timed(powers)[1] for _ in range(5)) / (height * width)
    return seconds * X.shape[0] * n_sv


def measure(name, data, options, repeat, threads, leave_out=(), gaps=()):
    """Return one row: times of fit and predict, objectives, and the floor."""
    X, y = data
    gamma = options["gamma"] if "gamma" in options else 1 / (X.shape[1] * X.var())
    options = {"tol": TOL, "cache_size": CACHE, **options, "gamma": gamma}
    two = len(np.unique(y)) == 2
    row = {"name": name, "threads": threads, "fit": {}}
    known = {library: kind for library, kind in libraries(threads, gaps).items() if library not in leave_out}
    for turn in range(repeat):
        for library, (kind, dtype) in known.items():
            if library == "scikit-learn" and turn > 0:
                continue
            Z = X.astype(dtype)
            model, cpu, wall = timed(lambda kind=kind, Z=Z: kind(**options).fit(Z, y))
            _, p_cpu, _ = timed(lambda model=model, Z=Z: model.decision_function(Z[:5000]))
            seen = row["fit"].setdefault(library, {"cpu": cpu, "wall": wall, "predict": p_cpu})
            for key, value in (("cpu", cpu), ("wall", wall), ("predict", p_cpu)):
                seen[key] = min(seen[key], value)
            if turn == 0:
                seen["objective"] = dual_objective(model, X, gamma, options.get("kernel", "rbf")) if two else None
                if library == "ours f32":
                    n_sv = len(model.support_)
                    row |= {"n_sv": n_sv, "rows": model.n_kernel_rows_ / n_sv, "converged": model.converged_,
                            "floor": floor_seconds(X, n_sv, options.get("kernel") != "linear")}
    return row


def show(row):
    ours, best = row["fit"]["ours f32"], None
    if ours["objective"] is not None:
        best = max(entry["objective"] for entry in row["fit"].values())
    floor = f", floor {row['floor']:.2f} s, ours {ours['cpu'] / row['floor']:.1f} x floor"
    print(f"\n{row['name']}, {row['threads']} thread(s): {row['n_sv']} support vectors, {row['rows']:.2f} rows "
          f"computed per support vector{floor}")
    for library, entry in row["fit"].items():
        behind = "" if best is None else f"  objective {entry['objective'] / best - 1:+.1e}"
        cpu, wall, predict = (entry[key] / ours[key] for key in ("cpu", "wall", "predict"))
        print(f"  {library:14s} fit cpu {entry['cpu']:7.2f} s = {cpu:5.1f} x ours, wall {entry['wall']:7.2f} s = "
              f"{wall:5.1f} x ours, predict 5k {entry['predict']:6.3f} s = {predict:4.1f} x ours{behind}", flush=True)


def one(arguments):
    """Measure the chosen problems in this process, whose threads are already limited, and print JSON lines."""
    problems = QUICK if arguments.quick else LARGE if arguments.large else PROBLEMS
    import buttress

    buttress.SVC().fit(*synthetic(2500, 10))  # compile first
    for name, (data, options) in problems.items():
        if not arguments.only or arguments.only in name:
            print(json.dumps(measure(name, data(arguments.data_dir), options, arguments.repeat, arguments.threads[0],
                                     gaps=arguments.gap)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--data-dir")
    parser.add_argument("--quick", action="store_true", help="two small problems")
    parser.add_argument("--large", action="store_true", help="a problem of 100,000 rows instead")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--only", help="only problems whose name holds this")
    parser.add_argument("--gap", type=float, nargs="*", default=[], help="fit ours with these gaps, too")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        one(arguments)
        return
    for threads in arguments.threads:
        count = str(threads)
        limited = {**os.environ, **{f"{pool}_NUM_THREADS": count for pool in ("OMP", "OPENBLAS", "MKL")}}
        command = [sys.executable, __file__, "--worker", "--threads", count, "--repeat", str(arguments.repeat)]
        command += ["--quick"] * arguments.quick + ["--large"] * arguments.large
        command += ["--only", arguments.only] * bool(arguments.only)
        command += ["--gap", *map(str, arguments.gap)] * bool(arguments.gap)
        command += ["--data-dir", arguments.data_dir] * bool(arguments.data_dir)
        with subprocess.Popen(command, env=limited, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                show(json.loads(line))


if __name__ == "__main__":
    main()
