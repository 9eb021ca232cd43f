"""The balls side by side: speed, certificate and memory. Detection is in ``adbench.py``.

    python benchmarks/novelty.py speed      SVDD against scikit-learn's OneClassSVM, 10,000 x 30, same objective
    python benchmarks/novelty.py minimax    balls solved until a certified relative gap of 1e-5, 8 kernels x 2,000 rows
    python benchmarks/novelty.py joint      the same for objective="joint", , normalised and not
    python benchmarks/novelty.py memory     peak memory of 8 kernels x 10,000 rows
    python benchmarks/novelty.py limits     seconds that fits within max_time take, and what they then state
    python benchmarks/novelty.py size       SVDD of --rows x 30: processor seconds, certificate, rows scored a second
    python benchmarks/novelty.py split      p-values of --rows x 30 from a hundredth of them: processor seconds
    python benchmarks/novelty.py shift      false discoveries where typical rows are not drawn as the training rows were
    python benchmarks/novelty.py stream     the same of rows that come one by one
"""

import argparse
import resource
import time
import warnings

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import make_classification, make_moons
from sklearn.preprocessing import scale
from sklearn.svm import OneClassSVM
from threadpoolctl import threadpool_limits

from buttress import SVDD, ConformalDetector, MultiKernelSVDD
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


def limits(rounds):
    """Print of each limit and number of rows the most seconds of ``rounds`` fits, and what the last of them states."""
    print("| | rows | max_time | most seconds | rows of the ball | proof | converged |\n| --- " + "| --- " * 6 + "|")
    for name, model in {"`SVDD`": SVDD(), "`MultiKernelSVDD`": MultiKernelSVDD()}.items():
        model.fit(np.random.default_rng(0).normal(size=(2100, 3)))  # compiles
        for n in (500, 3000, 10_000):
            X = scale(make_classification(n, n_features=30, n_informative=15, random_state=0)[0])
            for limit in (0.1, 0.5, 2.0, 10.0):
                seconds = []
                for _ in range(rounds):
                    began = time.perf_counter()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        model.set_params(max_time=limit).fit(X)
                    seconds.append(time.perf_counter() - began)
                print(f"| {name} | {n:,} | {limit} | {max(seconds):.2f} | {np.count_nonzero(model.loo_weight_):,} | "
                      f"{model.proof_} | {model.converged_} |", flush=True)


def size(n, nu):
    """Print the processor seconds of an SVDD of n x 30 rows, its gap, and how many rows it scores a second."""
    X = np.random.default_rng(0).normal(size=(n, 30))
    X[:, 1::2] += X[:, ::2]
    SVDD().fit(X[:2100]).score_samples(X[:10])
    began = time.process_time()
    model = SVDD(nu=nu).fit(X)
    fitted = time.process_time() - began
    new = X[: max(100, int(1e9 / len(model.support_)))] + 0.1
    began = time.process_time()
    model.score_samples(new)
    rate = len(new) / (time.process_time() - began)
    print(f"{n} x 30, nu={nu:g}: {fitted:.1f} s, {len(model.support_)} support vectors, {model.n_iter_} pairs, relative"
          f" gap {model.dual_gap_ / model.primal_objective_:.1e} {model.proof_}; {rate:,.0f} rows scored a second; "
          f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


def split(n):
    """Print the processor seconds of split p-values of n x 30 rows, SVDD fitted to a hundredth of them."""
    X = np.random.default_rng(0).normal(size=(n, 30))
    X[:, 1::2] += X[:, ::2]
    SVDD().fit(X[:2100]).score_samples(X[:10])
    began = time.process_time()
    ConformalDetector(SVDD(), cv=0.99, random_state=0).fit(X)
    print(f"{n} x 30, 99% left out: {time.process_time() - began:.1f} s")


class Height(BaseEstimator):
    """Minus the second column, rounded up where there is a ``step``, so that many rows tie."""

    def __init__(self, step=0.0):
        self.step = step

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def score_samples(self, X):
        return -np.ceil(X[:, 1] / self.step) if self.step else -X[:, 1]


def shifted(n, seed, moved):
    """Normal rows, the first column moved, of which the second depends on it."""
    X = np.random.default_rng(seed).normal(size=(n, 2))
    X[:, 0] += moved
    X[:, 1] += 2 * X[:, 0]
    return X


def density_ratio(X):
    """Of rows moved by 1 to those not moved."""
    return np.exp(X[:, 0] - 0.5)


RATIOS = {
    "none": None,
    "right": density_ratio,
    "right, times 1e9": lambda X: 1e9 * density_ratio(X),
    "far rows count half": lambda X: density_ratio(X) * np.where(X[:, 1] > 2, 0.5, 1),
    "far rows count a quarter": lambda X: density_ratio(X) * np.where(X[:, 1] > 2, 0.25, 1),
    "at random half to double": lambda X: density_ratio(X) * 2 ** np.sin(1e3 * X[:, 0]),
    "at most 2": lambda X: np.minimum(density_ratio(X), 2),
    "0 for a half": lambda X: density_ratio(X) * (X[:, 0] > 0),
}


def false_shares(make, runs, fdr, judge, novel=10, m=50, moved=1.0, n=1000):
    """Return the mean share of typical rows among those named with its standard error, and of novel rows found."""
    false, found = [], []
    for seed in range(runs):
        new = shifted(m, 10**6 + seed, moved)
        is_novel = np.arange(m) % (m // novel) == 0
        new[is_novel, 1] += 8
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            named = judge(make(seed).fit(shifted(n, seed, 0.0)), new, fdr)
        false.append((named & ~is_novel).sum() / max(named.sum(), 1))
        found.append(named[is_novel].mean())
    return f"{np.mean(false):.3f} ± {np.std(false) / np.sqrt(runs):.3f} | {np.mean(found):.2f}"


def shift(runs):
    """Print false discovery rates at .2, of 40 typical rows among 50, with ratios right and wrong, and with ties."""
    print("| ratio | false share | novel found | false share, ties | novel found, ties |\n| --- " + "| --- " * 4 + "|")
    for name, ratio in RATIOS.items():
        cells = [false_shares(lambda seed, step=step, ratio=ratio: ConformalDetector(
            Height(step), random_state=seed, ratio=ratio), runs, 0.2, lambda model, new, fdr: model.novel(new, fdr))
            for step in (0.0, 1.5)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def stream(runs):
    """Print false discovery rates at .2 of rows in a stream, by training rows and share of novel rows."""
    print("| training rows | rows | novel | false share | novel found | in one batch: false share | novel found |\n"
          "| --- " + "| --- " * 6 + "|")
    for n, m, every in ((400, 100, 10), (4000, 100, 10), (4000, 1000, 10), (40_000, 1000, 10), (40_000, 1000, 50)):
        cells = [false_shares(lambda seed: ConformalDetector(Height(), random_state=seed), runs, 0.2, judge,
                              m // every, m, 0.0, n)
                 for judge in (lambda model, new, fdr: np.concatenate(list(model.novel_stream([new], fdr))),
                               lambda model, new, fdr: model.novel(new, fdr))]
        print(f"| {n:,} | {m:,} | 1 in {every} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "minimax", "joint", "memory", "limits", "size", "split",
                                         "shift", "stream"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--nu", type=float, default=0.9)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    with threadpool_limits(args.threads):
        if args.what in ("speed", "limits"):
            {"speed": speed, "limits": limits}[args.what](args.rounds)
        elif args.what in ("shift", "stream"):
            {"shift": shift, "stream": stream}[args.what](args.runs)
        elif args.what == "split":
            split(args.rows)
        elif args.what == "size":
            size(args.rows, args.nu)
        else:
            {"minimax": minimax, "joint": joint, "memory": memory}[args.what]()


if __name__ == "__main__":
    main()
