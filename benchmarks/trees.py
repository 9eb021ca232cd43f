"""What ``attacks.exact`` takes a row of trees: with the search of boxes before the programs, and by programs alone.

    python benchmarks/trees.py                     # breast cancer, 284 rows, and digits, even or odd, 1,000 rows
    python benchmarks/trees.py --eps .1 --most 0 300 1000 3000 --only GradientBoosting
    python benchmarks/trees.py --veritas --eps .1 .3   # gradient boosting beside veritas (pip install dtai-veritas)

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

import numpy as np  # noqa: E402
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
PATIENCE = 2.0  # seconds of veritas a row
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
    info = attacks.exact(model, X, y, eps=eps, max_row_time=1e9, max_work=work, return_info=True)[1]
    seconds = time.process_time() - start
    return 1e3 * seconds / len(X), info.success, info.proven & ~info.success


def by_veritas(model, X, eps):
    """Return milliseconds a row, and of which rows veritas finds the prediction changed within eps, NaN unsettled."""
    from veritas import Config, HeuristicType, Interval, StopReason, get_addtree

    trees = get_addtree(model, silent=True)
    broken = []
    start = time.process_time()
    for row, label in zip(X, model.predict(X), strict=True):
        box = [Interval(float(x - eps), float(np.nextafter(np.float32(x + eps), np.float32(np.inf)))) for x in row]
        turned = (trees.negate_leaf_values() if label == model.classes_[1] else trees).prune(box)
        search = Config(HeuristicType.MAX_OUTPUT).get_search(turned, box)
        ended = search.step_for(PATIENCE, 100)
        turned_over = search.num_solutions() > 0 and search.get_solution(0).output > 0
        broken.append(np.nan if ended == StopReason.OUT_OF_TIME and not turned_over else turned_over)
    return 1e3 * (time.process_time() - start) / len(X), np.array(broken, dtype=float)


def beside_veritas(eps):
    """Print of how many rows both say the same."""
    print("| table | eps | rows | broken | veritas leaves open | both agree | ms a row | veritas |\n" + 8 * "|---"
          + "|")
    for table, X, y, X_judge, _ in tables():
        scaler = StandardScaler().fit(X)
        model = MODELS[0].fit(scaler.transform(X), y)
        rows = scaler.transform(X_judge).astype(np.float32).astype(float)
        attacked(model, rows[:2], model.predict(rows[:2]), 0.01, 1, 1e3)
        for each in eps:
            spent, broken, _ = attacked(model, rows, model.predict(rows), each, program.PARTS, WORK)
            theirs, found = by_veritas(model, rows, each)
            print(f"| {table} | {each:g} | {len(rows)} | {broken.mean():.3f} | {np.isnan(found).sum()} | "
                  f"{(broken == found).sum()} | {spent:.2f} | {theirs:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eps", type=float, nargs="*", default=[0.05, 0.1, 0.3])
    parser.add_argument("--most", type=int, nargs="*", default=[0, program.PARTS])
    parser.add_argument("--only", default="", help="only models whose name holds this")
    parser.add_argument("--tables", nargs="*", default=["breast cancer", "digits"])
    parser.add_argument("--work", type=float, default=WORK)
    parser.add_argument("--veritas", action="store_true")
    options = parser.parse_args()
    if options.veritas:
        beside_veritas(options.eps)
        return
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
