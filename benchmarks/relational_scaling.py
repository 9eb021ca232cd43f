"""scaling="max" against "robust" of RelationalLinearSVC: accuracy on held-out rows, with and without wild cells.

``python benchmarks/relational_scaling.py`` The quantile of "robust" was set beforehand, so every set here judges.
"""

import argparse

import numpy as np
import pandas as pd

from buttress.relational import Join, RelationalLinearSVC, Table

ALPHAS = (1e-2, 1e-3, 1e-4)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=N)
    n = parser.parse_args().rows
    print("set, wild cell, alpha: accuracy on clean held-out rows with max, with robust")
    for draw in (gaussian, skewed, sparse):
        for wild in (0.0, 100.0, 10_000.0):
            train = people_and_visits(draw, np.random.default_rng(0), n, wild)
            test = people_and_visits(draw, np.random.default_rng(1), n, 0.0)
            for alpha in ALPHAS:
                found = [RelationalLinearSVC(alpha=alpha, scaling=scaling, row_weight="join",
                                             random_state=0).fit(train).score(test) for scaling in ("max", "robust")]
                print(f"{draw.__name__:<9} {wild:>8g} {alpha:>7g}: {found[0]:.3f} {found[1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
