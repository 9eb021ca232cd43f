"""scaling="max" against "robust" of RelationalLinearSVC on held-out rows, with and without wild cells.

    python benchmarks/relational_scaling.py [--parts drawn,joins] [--rows 30000] [--splits 10] [--data-dir ...]

``drawn``: accuracy on two features with three visits each, one cell of them wild. ``joins``: area under the ROC curve
and accuracy on the other half of the label rows, for random halves, of generated shops, MovieLens and chinook, as
mean differences with their standard errors. The quantile of "robust" was set beforehand, so every set here judges. CPU
seconds are of one thread: set OMP_NUM_THREADS=1.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from entities import chinook, join_of, movielens, shop
from sklearn.metrics import roc_auc_score

from buttress.relational import Join, RelationalLinearSVC, Table

ALPHAS = (1e-2, 1e-3, 1e-4)
SCALINGS = ("max", "robust")
N = 30_000


def gaussian(rng, n):
    return rng.normal(size=(n, 2))


def skewed(rng, n):
    return rng.lognormal(size=(n, 2))


def sparse(rng, n):
    return rng.normal(size=(n, 2)) * (rng.random((n, 2)) < 0.05)


def people_and_visits(draw, rng, n, wild):
    """People with two features and a label, three visits each; ``wild`` is written into one cell."""
    x = draw(rng, n)
    visits = pd.DataFrame({"person": rng.integers(0, n, 3 * n), "z": rng.normal(size=3 * n)})
    centred = (x - x.mean(axis=0)) @ [1.0, -1.0]
    people = pd.DataFrame({"id": np.arange(n), "a": x[:, 0], "b": x[:, 1]})
    people["y"] = (centred + 0.3 * rng.normal(size=n) > 0).astype(int)
    if wild:
        people.loc[0, "a"] = wild
    return Join([Table("people", people, features=["a", "b"], label="y"), Table("visits", visits, features=["z"])],
                [("people.id", "visits.person")])


def drawn(n):
    print("set, wild cell, alpha: accuracy on clean held-out rows with max, with robust")
    for draw in (gaussian, skewed, sparse):
        for wild in (0.0, 100.0, 10_000.0):
            train = people_and_visits(draw, np.random.default_rng(0), n, wild)
            test = people_and_visits(draw, np.random.default_rng(1), n, 0.0)
            for alpha in ALPHAS:
                found = [RelationalLinearSVC(alpha=alpha, scaling=scaling, row_weight="join",
                                             random_state=0).fit(train).score(test) for scaling in SCALINGS]
                print(f"{draw.__name__:<9} {wild:>8g} {alpha:>7g}: {found[0]:.3f} {found[1]:.3f}", flush=True)


def with_wild_cell(others, customer):
    """The other tables of a shop with one order of 100 of a customer, where the others' sums are about 2 in size."""
    ((name, orders, features), on), *rest = others
    orders = orders.copy()
    orders.loc[orders.index[orders["customer"] == customer][0], "sum"] = 100.0
    return [((name, orders, features), on), *rest]


def measured(train, test, others, own, how, wild):
    """Area under the ROC curve, accuracy, CPU seconds, calls and gap of one fit."""
    begin = time.process_time()
    seen = with_wild_cell(others, train["id"][0]) if wild else others
    model = RelationalLinearSVC(random_state=0, max_iter=100, max_time=60, **how).fit(join_of(train, seen, own))
    took = time.process_time() - begin
    scores = model.decision_function(join_of(test, others, own))
    right = np.mean((scores > 0) == (test["y"].to_numpy() == model.classes_[1]))
    return roc_auc_score(test["y"], scores), right, took, model.n_oracle_calls_, model.gap_


def joins(splits, folder, only):
    sets = {"means": shop("means"), "means, wild cell": shop("means"), "counts": shop("counts")}
    if folder is not None:
        sets |= {"movielens": movielens(folder), "chinook": chinook(folder)}
    print(f"{splits} random halves; differences are robust - max, and their standard errors")
    for name, (rows, others, own) in sets.items():
        if only and name not in only:
            continue
        for how in ({"row_weight": "label_row"}, {"objective": "mean"}):
            for alpha in ALPHAS:
                found = np.zeros((splits, 2, 5))
                for split in range(splits):
                    order = np.random.default_rng(split).permutation(len(rows))
                    half = [rows.iloc[part].reset_index(drop=True) for part in np.array_split(order, 2)]
                    for j, scaling in enumerate(SCALINGS):
                        found[split, j] = measured(*half, others, own, {**how, "alpha": alpha, "scaling": scaling},
                                                   "wild" in name)
                line(f"{name}, {next(iter(how.values()))}, {alpha:g}", found)


def line(name, found):
    mean = found.mean(axis=0)
    less = found[:, 1] - found[:, 0]
    error = less.std(axis=0, ddof=1) / np.sqrt(len(less))
    print(f"{name:<30} AUC {mean[0, 0]:.4f} {mean[1, 0]:.4f} ({less[:, 0].mean():+.4f} +- {error[0]:.4f}) "
          f"accuracy {mean[0, 1]:.4f} {mean[1, 1]:.4f} ({less[:, 1].mean():+.4f} +- {error[1]:.4f}) "
          f"CPU {mean[0, 2]:.2f} {mean[1, 2]:.2f} s, calls {mean[0, 3]:.0f} {mean[1, 3]:.0f}, "
          f"largest gap {found[:, 0, 4].max():.0e} {found[:, 1, 4].max():.0e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="drawn,joins")
    parser.add_argument("--rows", type=int, default=N)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--sets", default=[], nargs="*", help="sets of joins, if not all")
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # limits of time, and label rows without a join row, are in the figures
    if "drawn" in options.parts:
        drawn(options.rows)
    if "joins" in options.parts:
        joins(options.splits, options.data_dir, options.sets)


if __name__ == "__main__":
    main()
