"""SVC on small data against scikit-learn's (libsvm): CPU time of a fit and of predicting one row, and the objectives.

    python benchmarks/small_fits.py [--repeat 15]

Iris, wine, breast cancer and digits of scikit-learn, and generated sets of 200 to 2,000 rows x 20, columns scaled to
unit variance, at C = 1 and 100, one thread, in turns; the least of ``--repeat`` fits counts, and of four times as many
predictions. The ratios are scikit-learn's time over ours, so that more than 1 is faster. Both stop at a violation of
1e-3; "behind" is how much of the optimum each one's dual objective lacks, summed over the pairs of classes, by the
optimum of the same machines at tol = 1e-9.
"""

import argparse
import time
import warnings

import sklearn.svm
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

import buttress
from buttress.kernels import RBF

BUNDLED = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
GENERATED = (200, 500, 1000, 2000)


def sets():
    """Yield name, X and y."""
    for name, load in BUNDLED.items():
        X, y = load(return_X_y=True)
        yield name, scale(X), y
    for n in GENERATED:
        X, y = make_classification(n, 20, n_informative=10, n_redundant=5, class_sep=0.7, flip_y=0.05, random_state=0)
        yield f"{n} x 20", scale(X), y


def least(jobs, repeat):
    """Return the least CPU seconds of each job, taken in turns."""
    found = [float("inf")] * len(jobs)
    for _ in range(repeat):
        for k, job in enumerate(jobs):
            started = time.process_time()
            job()
            found[k] = min(found[k], time.process_time() - started)
    return found


def dual_of(model, X, y, gamma):
    """Return the dual objectives of all pairs of classes, summed, from the coefficients laid out as libsvm's."""
    K = RBF(gamma)(X[model.support_], X[model.support_])
    codes = y[model.support_]
    k = len(model.classes_)
    total = 0.0
    for i in range(k):
        for j in range(i + 1, k):
            b = model.dual_coef_[j - 1] * (codes == i) + model.dual_coef_[i] * (codes == j) if k > 2 else (
                model.dual_coef_[0])
            total += abs(b).sum() - 0.5 * b @ K @ b
    return total


def measure(name, X, y, C, repeat):
    """Print one row."""
    gamma = 1 / (X.shape[1] * X.var())
    kinds = (buttress.SVC, sklearn.svm.SVC)
    fits = least([lambda kind=kind: kind(C=C, gamma=gamma).fit(X, y) for kind in kinds], repeat)
    models = [kind(C=C, gamma=gamma).fit(X, y) for kind in kinds]
    rows = least([lambda model=model: model.predict(X[:1]) for model in models], 4 * repeat)
    best = dual_of(buttress.SVC(C=C, gamma=gamma, tol=1e-9).fit(X, y), X, y, gamma)
    behind = [1 - dual_of(model, X, y, gamma) / best for model in models]
    print(f"{name:14s} {C:4d} {fits[0] * 1e3:8.2f} {fits[1] * 1e3:8.2f} {fits[1] / fits[0]:6.2f} "
          f"{rows[0] * 1e6:11.0f} {rows[1] * 1e6:7.0f} {rows[1] / rows[0]:6.2f} {behind[0]:8.0e} {behind[1]:8.0e}",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    warnings.simplefilter("ignore")
    print(f"{'':14s} {'C':>4s} {'ours ms':>8s} {'theirs':>8s} {'ratio':>6s} {'one row us':>11s} {'theirs':>7s} "
          f"{'ratio':>6s} {'behind':>8s} {'theirs':>8s}")
    with threadpool_limits(1):
        for name, X, y in sets():
            for C in (1, 100):
                measure(name, X, y, C, repeat)


if __name__ == "__main__":
    main()
