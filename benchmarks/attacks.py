"""PGD and ZOO of buttress against those of ART on one scikit-learn RBF SVC: time, strength, queries.

    python benchmarks/attacks.py                       # scikit-learn's digits, 64 pixels
    python benchmarks/attacks.py --data mnist          # MNIST from OpenML, 784 pixels
    python benchmarks/attacks.py --data mnist --data-dir DIR        # DIR with its four idx files, gzipped or not

Digits 1 and 7 of MNIST, or those below 5 and above of the small ones, pixels in [0, 1]. Both packages attack the same
fitted model, in the same process, on one BLAS thread; seconds are of the processor, so that other work on the machine
counts less. ART computes in float32; PGD of buttress is timed in that and in float64. ART needs
``pip install adversarial-robustness-toolbox packaging``; its ZOO needs ``probability=True``, for without it ART sees
labels only and returns its input.
"""

import argparse
import gzip
import os
import time
import warnings
from functools import partial
from pathlib import Path

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"

import numpy as np  # noqa: E402
from sklearn.datasets import fetch_openml, load_digits  # noqa: E402
from sklearn.svm import SVC  # noqa: E402

from buttress import attacks  # noqa: E402

EPS = 0.1


def read(folder, name):
    """Return one idx file as an array."""
    path = next(path for path in Path(folder).iterdir() if path.name.replace(".", "-").startswith(name))
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        raw = file.read()
    sizes = np.frombuffer(raw, ">i4", count=raw[3], offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(sizes)


def small_digits():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, (y >= 5).astype(int)


def ones_and_sevens(folder):
    if folder is None:
        X, y = fetch_openml("mnist_784", as_frame=False, return_X_y=True, parser="liac-arff")
        y = y.astype(int)
    else:
        X, y = read(folder, "train-images").reshape(60000, -1), read(folder, "train-labels")
    rows = np.isin(y, (1, 7))
    return X[rows] / 255.0, (y[rows] == 7).astype(int)


def timed(work, repeats=1):
    """Return the result and the least processor seconds of some runs."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return result, min(seconds)


def counting(model):
    """Make a model count the rows it is asked for, and return the count, a list of one number."""
    asked, predict_proba = [0], model.predict_proba

    def counted(X):
        asked[0] += len(X)
        return predict_proba(X)

    model.predict_proba = counted
    return asked


def products(X, Z, steps=10):
    """The matrix products of PGD with the support vectors Z: two a step and one at the end."""
    transposed = np.ascontiguousarray(Z.T)
    for _ in range(steps):
        (X @ transposed) @ Z
    X @ transposed


def compare_pgd(model, X, y, n):
    from art.attacks.evasion import ProjectedGradientDescentNumpy
    from art.estimators.classification import SklearnClassifier

    X, y = X[:n], y[:n]
    options = {"eps": EPS, "eps_step": EPS / 4, "max_iter": 10, "verbose": False}
    theirs = ProjectedGradientDescentNumpy(SklearnClassifier(model, clip_values=(0, 1)), **options)
    found, seconds = timed(lambda: theirs.generate(X, np.eye(2)[y]), repeats=2)
    ours = {"eps": EPS, "step_size": EPS / 4, "steps": 10, "bounds": (0, 1)}
    print(f"PGD, 10 steps of eps/4, {n} rows: ART (float32) {seconds:.2f} s, robust accuracy "
          f"{np.mean(model.predict(found) == y):.3f}")
    for dtype in ("float32", "float64"):
        rows = X.astype(dtype)
        mine, fast = timed(lambda rows=rows: attacks.pgd(model, rows, y, **ours), repeats=40)
        alone = timed(partial(products, rows, model.support_vectors_.astype(dtype)), repeats=40)[1]
        print(f"  buttress ({dtype}) {fast:.4f} s, ratio {seconds / fast:.0f}, robust accuracy "
              f"{np.mean(model.predict(mine) == y):.3f}; its matrix products alone {alone:.4f} s")


def compare_zoo(model, X, y, n, steps):
    from art.attacks.evasion import ZooAttack
    from art.estimators.classification import SklearnClassifier

    X, y = X[:n], y[:n]
    wrapped, asked = SklearnClassifier(model, clip_values=(0, 1)), counting(model)
    options = {"max_iter": steps, "binary_search_steps": 3, "initial_const": 1.0, "learning_rate": 0.01,
               "nb_parallel": min(128, X.shape[1]), "use_resize": False, "use_importance": False, "verbose": False}
    theirs = ZooAttack(wrapped, **options)
    found, seconds = timed(lambda: theirs.generate(X.astype(np.float32), np.eye(2)[y]))
    queries = asked[0]
    (mine, info), fast = timed(lambda: attacks.zoo(model, X, y, steps=steps, rounds=3, bounds=(0, 1), random_state=0,
                                                   return_info=True))
    fooled, ours = model.predict(found) != y, model.predict(mine) != y
    per_query = seconds / queries, fast / info.queries
    print(f"ZOO, {steps} steps, 3 rounds, {options['nb_parallel']} coordinates, {n} rows: "
          f"ART {seconds:.1f} s for {queries} queries, buttress {fast:.1f} s for {info.queries}")
    print(f"  microseconds a query: ART {1e6 * per_query[0]:.1f}, buttress {1e6 * per_query[1]:.2f}, "
          f"ratio {per_query[0] / per_query[1]:.0f}")
    print(f"  success: ART {fooled.mean():.2f}, buttress {ours.mean():.2f}; "
          f"median distance: ART {median_move(found - X, fooled)}, buttress {median_move(mine - X, ours)}")


def median_move(moves, rows):
    return f"{np.median(np.linalg.norm(moves[rows], axis=1)):.3f}" if rows.any() else "none"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=("digits", "mnist"), default="digits")
    parser.add_argument("--data-dir")
    parser.add_argument("--train", type=int, default=1500)
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--rows", type=int, default=50, help="rows PGD attacks; ZOO attacks a tenth of them")
    parser.add_argument("--zoo-steps", type=int, default=100)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y = ones_and_sevens(options.data_dir) if options.data == "mnist" else small_digits()
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[: options.train], order[options.train :]
    distances = ((X[train[:300], None] - X[train[:300]]) ** 2).sum(axis=2)
    settings = {"C": options.C, "gamma": 1 / np.median(distances[distances > 0])}
    model = SVC(**settings, probability=False).fit(X[train], y[train])
    print(f"{options.data}, d={X.shape[1]}, n={options.train}, {len(model.support_)} support vectors, "
          f"C={options.C:g}, gamma={model.gamma:.4f}")
    compare_pgd(model, X[test], y[test], options.rows)
    likely = SVC(**settings, probability=True, random_state=0).fit(X[train], y[train])
    compare_zoo(likely, X[test], y[test], max(1, options.rows // 10), options.zoo_steps)


if __name__ == "__main__":
    main()
