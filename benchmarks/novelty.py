"""Novelty detection side by side: speed, certificate, memory, and detection on real one-class tasks.

    python benchmarks/novelty.py speed      SVDD against scikit-learn's OneClassSVM, 10,000 x 30, same objective
    python benchmarks/novelty.py minimax    balls solved until a certified relative gap of 1e-5, 8 kernels x 2,000 rows
    python benchmarks/novelty.py joint      the same for objective="joint", , normalised and not
    python benchmarks/novelty.py memory     peak memory of 8 kernels x 10,000 rows
    python benchmarks/novelty.py detect     ROC AUC on one-class tasks over random splits; needs pyod for its OCSVM

``--data-dir`` is a folder with mnist/*-ubyte.gz and uci/heart_cleveland.csv; without it both come from OpenML.
"""

import argparse
import gzip
import resource
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import fetch_openml, load_breast_cancer, load_digits, make_classification, make_moons
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import OneClassSVM
from threadpoolctl import threadpool_limits

from buttress import SVDD, MultiKernelSVDD
from buttress.kernels import RBF, Cauchy, InverseMultiquadric, Laplacian, Linear, Log, Polynomial


def eight(gamma):
    """The note's seven definite or conditionally definite kernels and a second RBF, twice as narrow."""
    return [Linear(), Polynomial(2, gamma, 1.0), RBF(gamma), RBF(2 * gamma), Laplacian(gamma**0.5),
            InverseMultiquadric(gamma**-0.5), Log(2, gamma), Cauchy(gamma)]


def hyperplane_objective(X, gamma, support, coef):
    """1/2 b'Kb in libsvm's scale, for coefficients that sum to nu n, from the kernel in float64."""
    return 0.5 * float(coef @ RBF(gamma)(X[support], X[support]) @ coef)


def race(rounds, n=10_000, nu=0.1):
    """Return of each its model, least wall and processor seconds, interleaved, and its objective."""
    X = scale(make_classification(n, n_features=30, n_informative=15, random_state=0)[0])
    gamma = 1 / (30 * X.var())
    models = {"OneClassSVM": OneClassSVM(nu=nu, gamma=gamma, cache_size=2000), "SVDD": SVDD(nu=nu, kernel=RBF(gamma))}
    models["SVDD"].fit(X[:2000])  # compiles
    cpu, wall = {name: [] for name in models}, {name: [] for name in models}
    for _ in range(rounds):
        for name, model in models.items():
            began, ticks = time.perf_counter(), time.process_time()
            model.fit(X)
            wall[name].append(time.perf_counter() - began)
            cpu[name].append(time.process_time() - ticks)
    results = {}
    for name, model in models.items():
        coef = model.dual_coef_[0] / model.dual_coef_.sum() * nu * n
        objective = hyperplane_objective(X, gamma, model.support_, coef)
        results[name] = model, min(wall[name]), min(cpu[name]), objective
    return results


def speed(rounds):
    """Print seconds of both, the best of ``rounds``, and both objectives."""
    results = race(rounds)
    for name, (model, wall, cpu, objective) in results.items():
        print(f"{name:12} wall {wall:6.3f} s  cpu {cpu:6.3f} s  objective {objective:.6f}  "
              f"support vectors {len(model.support_)}")
    (_, wall, cpu, _), (ball, our_wall, our_cpu, _) = results["OneClassSVM"], results["SVDD"]
    print(f"ratio of cpu {cpu / our_cpu:.1f}, of wall {wall / our_wall:.1f}; relative gap "
          f"{ball.dual_gap_ / ball.primal_objective_:.1e}")


def mixtures(n):
    """Return four kinds of data by name: the rows and the kernels."""
    rng = np.random.default_rng(0)
    views = rng.normal(size=(n, 8))
    for j in range(8):
        views[j * 20 : (j + 1) * 20, j] *= 3 + j
    plain = {
        "moons": make_moons(n, noise=0.15, random_state=0)[0],
        "normal 10d": rng.normal(size=(n, 10)),
        "heavy tails 6d": rng.standard_t(3, size=(n, 6)),
    }
    tasks = {name: (X, eight(1 / (X.shape[1] * X.var()))) for name, X in plain.items()}
    return tasks | {"8 views": (views, [Column(j) for j in range(8)])}


def minimax(n=2000):
    """Print balls solved and the certified gap on four kinds of data."""
    for name, (X, kernels) in mixtures(n).items():
        began = time.perf_counter()
        model = MultiKernelSVDD(kernels, tol=1e-5).fit(X)
        print(f"{name:15} balls {model.n_solved_:3}  relative gap {model.dual_gap_ / model.primal_objective_:.1e}  "
              f"{time.perf_counter() - began:6.1f} s  weights {np.round(model.kernel_weights_, 3)}", flush=True)


def joint(n=2000):
    """Print balls solved and the certified gap of the joint objective."""
    for name, (X, kernels) in mixtures(n).items():
        for normalize in ("variance", None):
            model = MultiKernelSVDD(kernels, objective="joint", normalize=normalize, tol=1e-5)
            began = time.process_time()
            model.fit(X)
            print(f"{name:15} normalize={normalize!s:9} balls {model.n_solved_:3}  relative gap "
                  f"{model.dual_gap_ / model.primal_objective_:.1e}  {time.process_time() - began:6.1f} s  mixing "
                  f"{np.round(model.mixing_, 3)}", flush=True)


class Column:
    """The linear kernel of one column."""

    def __init__(self, j):
        self.j = j

    def __call__(self, X, Z):
        return X[:, self.j, None] * Z[:, self.j]


def memory(n=10_000):
    """Print the peak resident memory of the whole process after a fit of eight kernels."""
    X = scale(make_classification(n, n_features=30, n_informative=15, random_state=0)[0])
    began = time.perf_counter()
    model = MultiKernelSVDD(eight(1 / 30)).fit(X)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"8 kernels x {n} rows: peak {peak:.2f} GB, {time.perf_counter() - began:.0f} s, {model.n_solved_} balls, "
          f"relative gap {model.dual_gap_ / model.primal_objective_:.1e}")


def mnist(folder):
    """Return the 10,000 test images (n, 784) in [0, 1] and their digits."""
    if folder is None:
        X, y = fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False)
        return X[60000:] / 255, y[60000:].astype(int)
    with gzip.open(folder / "mnist/t10k-images-idx3-ubyte.gz") as images:
        X = np.frombuffer(images.read(), np.uint8, offset=16).reshape(-1, 784) / 255
    with gzip.open(folder / "mnist/t10k-labels-idx1-ubyte.gz") as labels:
        return X, np.frombuffer(labels.read(), np.uint8, offset=8).astype(int)


def heart(folder):
    """Return the Cleveland rows without missing values and whether each has no disease."""
    if folder is None:
        X, y = fetch_openml("heart-c", version=1, return_X_y=True, as_frame=True)
        X = X.apply(lambda column: column.cat.codes.where(column.notna()) if column.dtype == "category" else column)
        full = X.notna().all(axis=1).to_numpy()
        return X.to_numpy(float)[full], (y == "<50").to_numpy()[full]
    table = np.genfromtxt(folder / "uci/heart_cleveland.csv", delimiter=",", skip_header=1)
    table = table[~np.isnan(table).any(axis=1)]
    return table[:, :-1], table[:, -1] == 0


def tasks_of(folder):
    """Yield (name, X, inlier mask, standardise): one class is typical, everything else is novel."""
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast cancer, benign", X, y == 1, True
    yield "heart, no disease", *heart(folder), True
    X, y = load_digits(return_X_y=True)
    for digit in (1, 3, 8):
        yield f"digits, {digit}", X / 16, y == digit, False
    X, y = mnist(folder)
    for digit in (3, 8):
        yield f"MNIST, {digit}", X, y == digit, False


def detectors(seed):
    """Return the peers and ours by name, each with nu = 0.1 where it has one, else with its defaults."""
    made = {
        "OneClassSVM": OneClassSVM(nu=0.1),
        "IsolationForest": IsolationForest(random_state=seed),
        "LOF": LocalOutlierFactor(novelty=True),
        "SVDD rbf": SVDD(nu=0.1),
        "SVDD laplacian": SVDD(kernel="laplacian", nu=0.1),
        "MK minimax": MultiKernelSVDD(nu=0.1, tol=1e-3),
        "MK spread": MultiKernelSVDD(nu=0.1, objective="spread", tol=1e-3),
        "MK joint": MultiKernelSVDD(nu=0.1, objective="joint", tol=1e-3),
        "MK uniform": MultiKernelSVDD(nu=0.1, objective="uniform"),
    }
    try:
        from pyod.models.ocsvm import OCSVM
    except ImportError:
        print("pyod is not installed: its OCSVM is left out.")
        return made
    return made | {"PyOD OCSVM": OCSVM()}


def scored(X, inlier, standardise, splits, only=None):
    """Return the ROC AUC of each detector over splits: 60% of the inliers train (at most 600)."""
    scores = {}
    for seed in range(splits):
        rng = np.random.default_rng(seed)
        typical, novel = rng.permutation(np.flatnonzero(inlier)), rng.permutation(np.flatnonzero(~inlier))[:1000]
        train = typical[: min(600, int(0.6 * len(typical)))]
        test = np.concatenate([typical[len(train) :], novel])
        scaler = StandardScaler().fit(X[train]) if standardise else None
        A, B = (X[train], X[test]) if scaler is None else (scaler.transform(X[train]), scaler.transform(X[test]))
        for label, model in detectors(seed).items():
            if only is None or label in only:
                value = model.fit(A).decision_function(B) * (-1 if label.startswith("PyOD") else 1)
                scores.setdefault(label, []).append(roc_auc_score(inlier[test], value))
    return scores


def detect(folder, splits):
    """Print mean and standard deviation of the ROC AUC over splits."""
    for name, X, inlier, standardise in tasks_of(folder):
        scores = scored(X, inlier, standardise, splits)
        print(f"\n{name} ({inlier.sum()} typical rows, {X.shape[1]} columns, {splits} splits)")
        for label, values in sorted(scores.items(), key=lambda item: -np.mean(item[1])):
            print(f"  {label:16} {np.mean(values):.4f} +- {np.std(values):.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "minimax", "joint", "memory", "detect"])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    with threadpool_limits(args.threads):
        if args.what == "speed":
            speed(args.rounds)
        elif args.what == "detect":
            detect(args.data_dir, args.splits)
        else:
            {"minimax": minimax, "joint": joint, "memory": memory}[args.what]()


if __name__ == "__main__":
    main()
