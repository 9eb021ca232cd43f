"""PGD and ZOO of buttress against those of ART on one scikit-learn RBF SVC: time, strength, queries.

    python benchmarks/attacks.py                       # scikit-learn's digits, 64 pixels
    python benchmarks/attacks.py --data mnist          # MNIST from OpenML, 784 pixels
    python benchmarks/attacks.py --data mnist --data-dir DIR        # DIR with its four idx files, gzipped or not
    python benchmarks/attacks.py --data wide --C .07   # scikit-learn's digits enlarged to 32 x 32 x 3, 3,072 columns

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


def wide_digits():
    X, y = small_digits()
    return np.kron(X.reshape(-1, 8, 8), np.ones((1, 4, 4))).reshape(len(X), -1).repeat(3, axis=1), y


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


def race_pgd(model, X, y, n):
    """Return processor seconds and robust accuracy of ART and of buttress in both types, and of the products alone."""
    from art.attacks.evasion import ProjectedGradientDescentNumpy
    from art.estimators.classification import SklearnClassifier

    X, y = X[:n], y[:n]
    options = {"eps": EPS, "eps_step": EPS / 4, "max_iter": 10, "verbose": False}
    theirs = ProjectedGradientDescentNumpy(SklearnClassifier(model, clip_values=(0, 1)), **options)
    found, seconds = timed(lambda: theirs.generate(X, np.eye(2)[y]), repeats=2)
    ours = {"eps": EPS, "step_size": EPS / 4, "steps": 10, "bounds": (0, 1)}
    results = {"ART": (seconds, np.mean(model.predict(found) == y), np.nan)}
    for dtype in ("float32", "float64"):
        rows = X.astype(dtype)
        mine, fast = timed(lambda rows=rows: attacks.pgd(model, rows, y, **ours), repeats=40)
        alone = timed(partial(products, rows, model.support_vectors_.astype(dtype)), repeats=40)[1]
        results[dtype] = fast, np.mean(model.predict(mine) == y), alone
    return results


def compare_pgd(model, X, y, n):
    results = race_pgd(model, X, y, n)
    seconds, accuracy, _ = results.pop("ART")
    print(f"PGD, 10 steps of eps/4, {n} rows: ART (float32) {seconds:.2f} s, robust accuracy {accuracy:.3f}")
    for dtype, (fast, accuracy, alone) in results.items():
        print(f"  buttress ({dtype}) {fast:.4f} s, ratio {seconds / fast:.0f}, robust accuracy "
              f"{accuracy:.3f}; its matrix products alone {alone:.4f} s")


def race_zoo(model, X, y, n, steps):
    """Return of ART and of buttress: processor seconds, queries, share of rows fooled, median distance."""
    from art.attacks.evasion import ZooAttack
    from art.estimators.classification import SklearnClassifier

    X, y = X[:n], y[:n]
    wrapped, asked = SklearnClassifier(model, clip_values=(0, 1)), counting(model)
    theirs = ZooAttack(wrapped, max_iter=steps, binary_search_steps=3, initial_const=1.0, learning_rate=0.01,
                       nb_parallel=min(128, X.shape[1]), use_resize=False, use_importance=False, verbose=False)
    found, seconds = timed(lambda: theirs.generate(X.astype(np.float32), np.eye(2)[y]))
    queries = asked[0]
    (mine, info), fast = timed(lambda: attacks.zoo(model, X, y, steps=steps, rounds=3, bounds=(0, 1), random_state=0,
                                                   return_info=True))
    fooled, ours = model.predict(found) != y, model.predict(mine) != y
    return {"ART": (seconds, queries, fooled.mean(), median_move(found - X, fooled)),
            "buttress": (fast, info.queries, ours.mean(), median_move(mine - X, ours))}


def compare_zoo(model, X, y, n, steps):
    results = race_zoo(model, X, y, n, steps)
    print(f"ZOO, {steps} steps, 3 rounds, {min(128, X.shape[1])} coordinates, {n} rows")
    for name, (seconds, queries, success, distance) in results.items():
        print(f"  {name} {seconds:.1f} s for {queries} queries, {1e6 * seconds / queries:.2f} microseconds a query; "
              f"success {success:.2f}, median distance {distance}")


def median_move(moves, rows):
    return f"{np.median(np.linalg.norm(moves[rows], axis=1)):.3f}" if rows.any() else "none"


def trained(X, y, train, C, likely=False):
    """Return an RBF SVC of scikit-learn fitted to the first rows of a fixed order, and the other rows."""
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:train], order[train:]
    distances = ((X[train[:300], None] - X[train[:300]]) ** 2).sum(axis=2)
    model = SVC(C=C, gamma=1 / np.median(distances[distances > 0]), probability=likely, random_state=0)
    return model.fit(X[train], y[train]), X[test], y[test]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=("digits", "mnist", "wide"), default="digits")
    parser.add_argument("--data-dir")
    parser.add_argument("--train", type=int, default=1500)
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--rows", type=int, default=50, help="rows PGD attacks; ZOO attacks a tenth of them")
    parser.add_argument("--zoo-steps", type=int, default=100)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    reading = {"digits": small_digits, "wide": wide_digits, "mnist": partial(ones_and_sevens, options.data_dir)}
    X, y = reading[options.data]()
    model, Z, z = trained(X, y, options.train, options.C)
    print(f"{options.data}, d={X.shape[1]}, n={options.train}, {len(model.support_)} support vectors, "
          f"C={options.C:g}, gamma={model.gamma:.4f}")
    compare_pgd(model, Z, z, options.rows)
    likely = trained(X, y, options.train, options.C, likely=True)[0]
    compare_zoo(likely, Z, z, max(1, options.rows // 10), options.zoo_steps)


if __name__ == "__main__":
    main()
