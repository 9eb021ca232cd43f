"""What ``attacks.exact`` takes a row of trees: with the search of boxes before the programs, and by programs alone.

    python benchmarks/trees.py                     # breast cancer, 284 rows, and digits, even or odd, 1,000 rows
    python benchmarks/trees.py --eps .1 --most 0 300 1000 3000 --only GradientBoosting

Columns are standardised; half of the rows of breast cancer and 797 of the digits are fitted, the others attacked.
Milliseconds a row are of the processor, one thread, the first call that compiles left out. Both settle a row or leave
it open; rows that one calls broken and the other proven are counted, and there should be none. ``--most`` are the
boxes looked at before a program, 0 for programs alone (after one look, as before the search was there).
"""

import argparse
import os
import time

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"

from sklearn.datasets import load_breast_cancer, load_digits  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.preprocessing import StandardScaler  # noqa: E402

from buttress import attacks  # noqa: E402
from buttress.attacks.settling import program  # noqa: E402

MODELS = (GradientBoostingClassifier(n_estimators=100, max_depth=3, random_state=0),
          HistGradientBoostingClassifier(random_state=0),
          RandomForestClassifier(100, random_state=0), ExtraTreesClassifier(100, random_state=0))
WORK = 3e4  # of the programs, all rows together: those of forests would take hours


def tables():
    """Yield names, rows and labels to fit, rows and labels to attack."""
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast cancer", X[::2], y[::2], X[1::2], y[1::2]
    X, y = load_digits(return_X_y=True)
    yield "digits", X[1000:], y[1000:] % 2, X[:1000], y[:1000] % 2


def attacked(model, X, y, eps, most, work):
    """Return milliseconds a row, which rows are broken, and which are proven."""
    program.PARTS = max(1, most)
    start = time.process_time()
    info = attacks.exact(model, X, y, eps=eps, max_time=1e9, max_work=work, return_info=True)[1]
    seconds = time.process_time() - start
    return 1e3 * seconds / len(X), info.success, info.proven & ~info.success


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eps", type=float, nargs="*", default=[0.05, 0.1, 0.3])
    parser.add_argument("--most", type=int, nargs="*", default=[0, program.PARTS])
    parser.add_argument("--only", default="", help="only models whose name holds this")
    parser.add_argument("--tables", nargs="*", default=["breast cancer", "digits"])
    parser.add_argument("--work", type=float, default=WORK)
    options = parser.parse_args()
    print("| table | model | eps | boxes | ms a row | broken | proven | open | contradicted |\n" + 9 * "|---" + "|")
    for table, X, y, X_judge, y_judge in tables():
        scaler = StandardScaler().fit(X)
        for model in MODELS if table in options.tables else ():
            name = type(model).__name__.removesuffix("Classifier")
            if options.only not in name:
                continue
            model.fit(scaler.transform(X), y)
            rows = scaler.transform(X_judge)
            attacked(model, rows[:2], y_judge[:2], 0.01, 1, 1e3)
            for eps in options.eps:
                seen = []
                for most in options.most:
                    spent, broken, proven = attacked(model, rows, y_judge, eps, most, options.work)
                    against = sum(int((broken & other[1]).sum() + (proven & other[0]).sum()) for other in seen)
                    seen.append((broken, proven))
                    print(f"| {table} | {name} | {eps:g} | {most} | {spent:.2f} | {broken.mean():.3f} | "
                          f"{proven.mean():.3f} | {1 - (broken | proven).mean():.3f} | {against} |", flush=True)


if __name__ == "__main__":
    main()
