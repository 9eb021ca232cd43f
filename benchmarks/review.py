"""How many decisions find 90% of the planted errors: rows ranked anew after every batch, in a fixed order, or drawn.

    python benchmarks/review.py              on the sets of REVIEWED, which judge
    python benchmarks/review.py --choosing   on those of CHOOSING, on which the order may be chosen
    python benchmarks/review.py --seeds 1    in its short form

Of each set, kind of error and seed some targets are made wrong. A person who knows them all decides on one row after
another: the fixed order is that of the robust estimator's first fit, a batch is of ten decisions, and of rows in random
order it is known how many it takes on average: (n + 1) m / (k + 1) to find m of k. No row is drawn at random between
the others here; of a real review every tenth is.
"""

import argparse
import warnings

import numpy as np

from benchmarks.trial_sets import CHOOSING, REVIEWED, corrupted_labels, corrupted_targets, dataset
from buttress import RobustKernelClassifier, RobustKernelRegressor
from buttress.audit.measuring.suspicion import in_order
from buttress.review.estimates import ranking_of
from buttress.robust.report import expectations

KINDS = {"labels": (("uniform", 0.1), ("one to one", 0.2), ("border", 0.1)),
         "regression": (("shift", 0.1), ("mirrored", 0.1), ("gross", 0.05))}
BATCH = 10
WANTED = 0.9


def fixed_order(X, y, classifies, seed):
    """Rows from the most suspicious on, as the audit lists them, and the probabilities that they are wrong."""
    model = (RobustKernelClassifier if classifies else RobustKernelRegressor)(random_state=seed).fit(X, y)
    return in_order(model.outlier_proba_, expectations(model, y)[1]), model.outlier_proba_


def taught(X, given, true, order, audited, classifies, wanted, seed):
    """Decisions until so many wrong rows are found, the ranking learned after every batch."""
    ranking = ranking_of(X, given, audited, classifies=classifies, seed=seed)
    decided, found, wrong = [], 0, given != true
    while True:
        for row in [i for i in order if i not in set(decided)][:BATCH]:
            decided.append(row)
            found += wrong[row]
            if found >= wanted:
                return len(decided)
        rows = np.array(decided)
        said = ranking.learn(rows, true[rows], np.empty(0, dtype=np.intp))
        order = in_order(said.probability, said.score)


def counted(name, kind, rate, task, seed):
    """Decisions over the number wanted: taught, fixed and random; None where too few rows became wrong."""
    X, true = dataset(name, seed)
    rng = np.random.default_rng([seed, 54])
    given, wrong = (corrupted_labels if task == "labels" else corrupted_targets)(X, true, kind, rate, rng)
    errors = int(wrong.sum())
    wanted = int(np.ceil(WANTED * errors))
    if errors < 5:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        order, audited = fixed_order(X, given, task == "labels", seed)
        fixed = int(np.flatnonzero(np.cumsum(wrong[order]) >= wanted)[0]) + 1
        anew = taught(X, given, true, order, audited, task == "labels", wanted, seed)
        return np.array([anew, fixed, (len(true) + 1) * wanted / (errors + 1)]) / wanted


def main():
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--choosing", action="store_true")
    options = parser.parse_args()
    print("Decisions for each wrong row found, until 90% of them are: means over seeds.\n")
    print("| set | errors | ranked anew | fixed order | random order |\n|---|---|---|---|---|")
    ratios = []
    for task, names in (CHOOSING if options.choosing else REVIEWED).items():
        for name in names:
            for kind, rate in KINDS[task]:
                rows = [row for seed in range(options.seeds)
                        if (row := counted(name, kind, rate, task, seed)) is not None]
                if rows:
                    mean = np.mean(rows, axis=0)
                    ratios.append(mean[:2] / mean[2])
                    print(f"| {name} | {kind} {rate:.0%} | " + " | ".join(f"{cell:.2f}" for cell in mean) + " |",
                          flush=True)
    anew, fixed = np.array(ratios).T
    print(f"| all | geometric mean, of random | {np.exp(np.log(anew).mean()):.3f} | {np.exp(np.log(fixed).mean()):.3f} "
          "| 1 |")
    print(f"| all | fewer, as many, more than fixed | {(anew < fixed).sum()}, {(anew == fixed).sum()}, "
          f"{(anew > fixed).sum()} | | |")


if __name__ == "__main__":
    main()
