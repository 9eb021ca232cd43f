"""Featuretools beside EntityFeatures and the SQL by hand of entities_over_time.py: the same sets, rows and models.

    python3 -m venv other && other/bin/pip install . duckdb featuretools 'pandas<3'
    OMP_NUM_THREADS=1 other/bin/python benchmarks/entities_featuretools.py [--data-dir shared/data/relational]
        [--sets shop,movielens,chinook] [--without 'AlbumId,DAY(']

Each line has the areas under the ROC curve as there, and the processor milliseconds that the features of one asked row
took, of one thread in this process, from tables in memory to numbers, learned categories with them. Featuretools 1.31
does not read the frames of pandas 3.

What a user of featuretools would do is done: deep feature synthesis with its default primitives and depth (2) over an
EntitySet, each row as known just before its date (``include_cutoff_time=False``, as EntityFeatures and the SQL have
it), then its ``encode_features``: each of the 10 most frequent values of a category, of all rows asked, has a column.
Its tables have the columns that the SQL reads, and parents come out of ``normalize_dataframe``:

- shop: customers, parents of orders, are asked about; products are parents of orders.
- MovieLens: films and users, made of the ratings, are parents of ratings, genres (of films) and of the asked rows.
  These have no time in its sense, for they would not be known just before it: features that count other asked rows,
  later ones with them, are dropped.
- chinook: tracks have children (lines, lists) and a parent (albums); invoices are parents of lines.

Keys that lead to a parent and parts of dates are among its features by default, and are encoded as categories are. They
stay, though they matter: of chinook's 10 longest albums tracks are on both sides, and on MovieLens' sample LinearSVC is
worse for the dates. ``--without`` leaves out its features with such a text in their names. Columns without a value in
the early rows are dropped. "+ primitives of time" adds its own ones that have to be asked for. Where it would need more
than four minutes for all asked rows, every line of the set is of a sample: half of it early, half of it judged.
"""

import argparse
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from entities_over_time import TASKS, judged, made, written_by_hand

from buttress.relational import Join, Table

try:
    import featuretools as ft
except ImportError:
    sys.exit("featuretools is not installed, and nothing here depends on it. In an environment of its own: "
             "pip install . duckdb featuretools 'pandas<3'")

SAMPLED = {"movielens": 2000}  # asked rows; each has a date of its own, at .09 processor seconds a date
OF_TIME = ("time_since_last", "time_since_first", "avg_time_between")


def shop_entities(task):
    """Return the set of entities, the table asked about, and its key."""
    entities = ft.EntitySet("shop")
    orders = task.frames["orders"].reset_index(names="order")
    entities.add_dataframe(orders, "orders", index="order", time_index="t")
    entities.add_dataframe(task.frames["products"], "products", index="prod", logical_types={"cat": "Categorical"})
    entities.normalize_dataframe("orders", "customers", "cust")
    entities.add_relationship("products", "prod", "orders", "prod")
    return entities, "customers", "cust"


def movielens_entities(task):
    entities = ft.EntitySet("movielens")
    ratings = task.frames["ratings"].reset_index(names="number")
    entities.add_dataframe(ratings, "ratings", index="number", time_index="t")
    entities.normalize_dataframe("ratings", "users", "userId")
    entities.normalize_dataframe("ratings", "films", "movieId")
    genres = task.frames["genres"].reset_index(names="number")
    entities.add_dataframe(genres, "genres", index="number", logical_types={"genre": "Categorical"})
    asked = task.rows[["userId", "movieId", "at"]].reset_index(names="asked")
    entities.add_dataframe(asked, "asked", index="asked")
    for parent, key, child in [("users", "userId", "asked"), ("films", "movieId", "asked"),
                               ("films", "movieId", "genres")]:
        entities.add_relationship(parent, key, child, key)
    return entities, "asked", "asked"


def chinook_entities(task):
    entities = ft.EntitySet("chinook")
    tracks = task.rows[["TrackId", "AlbumId", "Milliseconds", "Bytes", "UnitPrice", "MediaTypeId"]]
    entities.add_dataframe(tracks, "tracks", index="TrackId")
    entities.add_dataframe(task.frames["lines"], "lines", index="InvoiceLineId")
    invoices = task.frames["invoices"][["InvoiceId", "CustomerId", "InvoiceDate", "Total"]]
    entities.add_dataframe(invoices, "invoices", index="InvoiceId", logical_types={"CustomerId": "Categorical"})
    lists = task.frames["lists"].reset_index(names="number")
    entities.add_dataframe(lists, "lists", index="number", logical_types={"PlaylistId": "Categorical"})
    entities.normalize_dataframe("tracks", "albums", "AlbumId")
    for parent, key, child in [("tracks", "TrackId", "lines"), ("invoices", "InvoiceId", "lines"),
                               ("tracks", "TrackId", "lists")]:
        entities.add_relationship(parent, key, child, key)
    return entities, "tracks", "TrackId"


ENTITIES = {"shop": shop_entities, "movielens": movielens_entities, "chinook": chinook_entities}


def synthesised(task, without, more=()):
    """Features of featuretools, a row an asked row; ``more`` are primitives beside those of its defaults."""
    entities, target, key = ENTITIES[task.name](task)
    primitives = [*ft.primitives.get_default_aggregation_primitives(), *more] if more else None
    how = {"entityset": entities, "target_dataframe_name": target, "agg_primitives": primitives,
           "drop_contains": ["(asked", *without]}
    keys = task.rows.index if key == target else task.rows[key]
    if task.join.as_of is None:
        made = ft.encode_features(*ft.dfs(**how))[0].loc[keys]
    else:
        asked = pd.DataFrame({"instance_id": keys, "time": task.rows["at"], "place": np.arange(len(keys))})
        found = ft.dfs(**how, cutoff_time=asked, include_cutoff_time=False)
        made = ft.encode_features(*found)[0].sort_values("place").drop(columns="place")
    return made.loc[:, made[task.early].notna().any().to_numpy()].astype(float)


def sample(task, n):
    """The task of n of its asked rows, half of them early, in their order."""
    rng = np.random.default_rng(0)
    halves = [rng.choice(np.flatnonzero(half), n // 2, replace=False) for half in (task.early, ~task.early)]
    kept = np.sort(np.concatenate(halves))
    rows = task.rows.iloc[kept].reset_index(drop=True)
    first, *others = task.join.tables
    asked = Table(first.name, rows, label=first.label)
    join = Join([asked, *others], task.join.on, as_of=task.join.as_of)
    return replace(task, rows=rows, early=task.early[kept], join=join, frames={**task.frames, first.name: rows})


def line(task, name, features):
    begun = time.process_time()
    X = features(task)
    spent = time.process_time() - begun
    areas = judged(task, X)
    print(f"| {task.name} | {name} | {len(X):,} | {X.shape[1]} | {areas[0]:.4f} | {areas[1]:.4f} "
          f"| {1000 * spent / len(X):.3g} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--sets", default="shop,movielens,chinook")
    parser.add_argument("--without", default="")
    options = parser.parse_args()
    without = options.without.split(",") if options.without else []
    warnings.simplefilter("ignore")  # of liblinear's limit of steps, and of types that featuretools guesses
    print("| set | features | asked rows | columns | LinearSVC | boosting | CPU ms a row |\n" + "| --- " * 7 + "|")
    for name in options.sets.split(","):
        if name != "shop" and options.data_dir is None:
            continue
        task = TASKS[name](options.data_dir)
        task = sample(task, SAMPLED[name]) if name in SAMPLED else task
        line(task, "SQL by hand", written_by_hand)
        line(task, "EntityFeatures, default", made)
        named = f"featuretools, default{' without ' * bool(without)}{', '.join(without)}"
        line(task, named, lambda task: synthesised(task, without))
        if task.join.as_of is not None and name not in SAMPLED:
            line(task, "featuretools + primitives of time", lambda task: synthesised(task, without, OF_TIME))


if __name__ == "__main__":
    main()
