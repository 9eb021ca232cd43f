"""SVR against scikit-learn's and scikit-learn-intelex's, and a path of ten C against one fit of the largest.

    OMP_NUM_THREADS=1 python benchmarks/kin.py [--rows 10000] [--repeat 2]

Made rows x 30, RBF of gamma "scale", tol 1e-3, rows in float32 except for scikit-learn's, CPU seconds, the least of
``--repeat`` fits in turns. SVR: C=1, epsilon=.1, the target a smooth function with noise of a tenth of its spread; its
dual objective is given relative to the best of the three. The path: ten C from .01 to 10, evenly by logarithm, and
its last model's dual gap beside that of the fit alone. SVDD is in ``novelty.py speed``, LinearSVC in ``linear.py``.
"""

import argparse

import numpy as np
import sklearn.svm
from exact import synthetic, timed

import buttress
from buttress.gram.rows import KernelRows
from buttress.kernels import RBF

CS = np.logspace(-2, 1, 10)
EPSILON = 0.1


def least(jobs, repeat):
    """Return the least CPU seconds of each job, taken in turns, and what each returned."""
    found = dict.fromkeys(jobs, np.inf)
    results = {}
    for _ in range(repeat):
        for name, job in jobs.items():
            results[name], cpu, _ = timed(job)
            found[name] = min(found[name], cpu)
    return found, results


def regression(X, repeat):
    """Print a row for each library."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(2, X.shape[1])) / np.sqrt(X.shape[1])
    y = np.sin(2 * X @ w[0]) + X @ w[1]
    y += 0.1 * y.std() * rng.normal(size=len(y))
    gamma = 1 / (X.shape[1] * X.var())
    options = {"C": 1.0, "epsilon": EPSILON, "gamma": gamma, "cache_size": 2000}
    single = X.astype(np.float32)
    jobs = {"ours f32": lambda: buttress.SVR(**options).fit(single, y),
            "scikit-learn": lambda: sklearn.svm.SVR(**options).fit(X, y)}
    try:
        from sklearnex.svm import SVR as Intelex

        jobs["sklearnex f32"] = lambda: Intelex(**options).fit(single, y.astype(np.float32))
    except ImportError:
        print("# scikit-learn-intelex is not installed: left out")
    seconds, models = least(jobs, repeat)
    values = {name: dual(model, X, y, gamma) for name, model in models.items()}
    best = max(values.values())
    for name, taken in seconds.items():
        print(f"SVR {len(X)} x {X.shape[1]}  {name:14s} {taken:7.2f} s = {taken / seconds['ours f32']:5.1f} x ours, "
              f"{len(models[name].support_)} support vectors, objective {values[name] / best - 1:+.1e}", flush=True)


def dual(model, X, y, gamma):
    """Return the dual value of a regressor in float64."""
    b = np.zeros(len(X))
    b[np.asarray(model.support_)] = np.asarray(model.dual_coef_).ravel()
    f = KernelRows(RBF(gamma), X, 1e-3).proven_times(b, np.flatnonzero(b)).f
    return y @ b - EPSILON * np.abs(b).sum() - 0.5 * b @ f


def path(X, y, repeat):
    """Print the time of the path, of its largest C alone, and of the ten fits one by one."""
    X = X.astype(np.float32)
    options = {"cache_size": 2000}
    jobs = {"path": lambda: buttress.svc_path(X, y, list(CS), **options)[-1],
            "largest": lambda: buttress.SVC(C=float(CS[-1]), **options).fit(X, y),
            "one by one": lambda: [buttress.SVC(C=float(C), **options).fit(X, y) for C in CS][-1]}
    seconds, models = least(jobs, repeat)
    for name, taken in seconds.items():
        gap = models[name].dual_gap_ / models[name].primal_objective_
        print(f"path of {len(CS)} C, {len(X)} x {X.shape[1]}  {name:10s} {taken:7.2f} s = "
              f"{taken / seconds['largest']:5.2f} x the largest, gap {gap:.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=2)
    arguments = parser.parse_args()
    X, y = synthetic(arguments.rows, 30)
    buttress.SVR().fit(X[:2500].astype(np.float32), X[:2500, 0])  # compiles
    regression(X, arguments.repeat)
    path(X, y, arguments.repeat)


if __name__ == "__main__":
    main()
