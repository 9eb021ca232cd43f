"""The balls side by side: speed, certificate and memory. Detection is in ``adbench.py``.

    python benchmarks/novelty.py speed      SVDD against scikit-learn's OneClassSVM, 10,000 x 30, same objective
    python benchmarks/novelty.py minimax    balls solved until a certified relative gap of 1e-5, 8 kernels x 2,000 rows
    python benchmarks/novelty.py joint      the same for objective="joint", , normalised and not
    python benchmarks/novelty.py memory     peak memory of 8 kernels x 10,000 rows
"""

import argparse
import resource
import time

import numpy as np
from sklearn.datasets import make_classification, make_moons
from sklearn.preprocessing import scale
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "minimax", "joint", "memory"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    with threadpool_limits(args.threads):
        if args.what == "speed":
            speed(args.rounds)
        else:
            {"minimax": minimax, "joint": joint, "memory": memory}[args.what]()


if __name__ == "__main__":
    main()
