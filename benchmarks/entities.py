"""What pays where labels belong to entities: objectives over a join, or aggregates of one row an entity.

    python benchmarks/entities.py [--data-dir shared/data/relational] [--sets means,counts,movielens,chinook]

Each line is one model on the same half of the label rows, with its area under the ROC curve on the other half and its
CPU seconds (fit and predict, one thread: set OMP_NUM_THREADS=1). Every model has its defaults; nothing is chosen on
these sets. The aggregates are the same by EntityFeatures and by pandas, so their areas should agree.
"""

import argparse
import time
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from buttress.relational import EntityFeatures, Join, RelationalLinearSVC, Table

FUNCTIONS = ("count", "mean", "sum", "min", "max", "std", "share")
MODELS = {
    "LinearSVC": lambda: make_pipeline(StandardScaler(), LinearSVC(max_iter=5000)),
    "SVC": lambda: make_pipeline(StandardScaler(), SVC()),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
}
OBJECTIVES = {
    "sample of 1e5 join rows": {"solver": "sample", "row_weight": "join"},
    "row objective": {"row_weight": "join"},
    "label_row": {"row_weight": "label_row"},
    "label_row, robust scales": {"row_weight": "label_row", "scaling": "robust"},
    "entity objective": {"objective": "mean"},
}


def shop(kind, n=4000, seed=0):
    """Customers with orders and visits; the label depends on the mean sum, or on counts and their interaction."""
    rng = np.random.default_rng(seed)
    rates = rng.gamma(3, 5, size=(2, n))
    taste = rng.normal(size=n)
    many = rng.poisson(rates) + 1
    orders = pd.DataFrame({"customer": np.repeat(np.arange(n), many[0])})
    orders["sum"] = taste[orders["customer"]] + 2 * rng.normal(size=len(orders))
    visits = pd.DataFrame({"customer": np.repeat(np.arange(n), many[1])})
    visits["minutes"] = rng.exponential(size=len(visits))
    visits["page"] = rng.choice(["home", "sale", "help"], len(visits))
    scaled = (rates - 15) / 9
    drive = 2 * taste if kind == "means" else scaled[0] + 2 * scaled[0] * scaled[1]
    people = pd.DataFrame({"id": np.arange(n), "age": rng.normal(size=n),
                           "y": (drive + rng.logistic(size=n) > 0).astype(int)})
    return people, [(("orders", orders, ["sum"]), ("id", "customer")),
                    (("visits", visits, ["minutes", "page"]), ("id", "customer"))], ["age"]


def read_parquet(path):
    return duckdb.read_parquet(str(path)).df()


def movielens(folder):
    """Ratings of at least 4, from other ratings of the film and of the user: 7 in 10 ratings are history, no label."""
    ratings = read_parquet(folder / "movielens_small" / "ratings.parquet")
    genres = read_parquet(folder / "movielens_small" / "movie_genres.parquet")
    order = np.random.default_rng(0).permutation(len(ratings))
    history = ratings.iloc[order[: int(0.7 * len(order))]][["userId", "movieId", "rating"]]
    rows = ratings.iloc[order[-10_000:]].reset_index(drop=True)
    rows = pd.DataFrame({"userId": rows["userId"], "movieId": rows["movieId"], "y": (rows["rating"] >= 4).astype(int)})
    return rows, [(("of_film", history, ["rating"]), ("movieId", "movieId")),
                  (("of_user", history, ["rating"]), ("userId", "userId")),
                  (("genres", genres, ["genre"]), ("movieId", "movieId"))], []


def chinook(folder):
    """Tracks of the genre rock, from their length, sales and playlists."""
    read = {name: pd.read_csv(folder / "chinook" / f"{name}.csv") for name in ("Track", "InvoiceLine", "PlaylistTrack")}
    tracks = read["Track"].sample(frac=1, random_state=0).reset_index(drop=True)
    tracks["y"] = (tracks["GenreId"] == 1).astype(int)
    lists = read["PlaylistTrack"].assign(PlaylistId=read["PlaylistTrack"]["PlaylistId"].astype(str))
    return tracks, [(("lines", read["InvoiceLine"], ["UnitPrice", "Quantity"]), ("TrackId", "TrackId")),
                    (("lists", lists, ["PlaylistId"]), ("TrackId", "TrackId"))], ["Milliseconds", "Bytes", "UnitPrice"]


def join_of(rows, others, own):
    tables = [Table("entities", rows, features=own, label="y")]
    tables += [Table(name, frame, features=features) for (name, frame, features), _ in others]
    return Join(tables, [(f"entities.{a}", f"{table[0]}.{b}", "left") for table, (a, b) in others])


def by_hand(rows, others, own):
    """The same aggregates in pandas, as one would write them."""
    out = rows[own].reset_index(drop=True)
    for (name, frame, features), (key, other) in others:
        numbers = [column for column in features if frame[column].dtype.kind in "if"]
        grouped = frame.groupby(other)
        found = grouped.size().rename("count").to_frame()
        if numbers:
            made = grouped[numbers].agg(["mean", "sum", "min", "max", "std"])
            made.columns = [".".join(column) for column in made]
            found = found.join(made)
        for column in set(features) - set(numbers):
            kept = frame[column].value_counts().index[:20]
            shares = pd.crosstab(frame[other], frame[column], normalize="index")[kept]
            found = found.join(shares.add_prefix(f"{column}="))
        zero = [c for c in found if c == "count" or c.endswith(".sum") or "=" in c]
        found = found.reindex(rows[key]).reset_index(drop=True)
        out = out.join(found.fillna(dict.fromkeys(zero, 0)).add_prefix(f"{name}."))
    return out


def line(name, y, scores, seconds):
    print(f"  {name:<42} AUC {roc_auc_score(y, scores):.4f}   {seconds:7.2f} s CPU", flush=True)


def scored(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict_proba(X)[:, 1]


def objectives(train, test, others, own):
    for name, how in OBJECTIVES.items():
        begin = time.process_time()
        model = RelationalLinearSVC(alpha=1e-3, random_state=0, max_iter=100, max_time=60, **how)
        model.fit(join_of(train, others, own))
        scores = model.decision_function(join_of(test, others, own))
        line(f"{name} (N={model.n_join_rows_:.2g}, gap {model.gap_:.0e})", test["y"], scores,
             time.process_time() - begin)


def aggregates(train, test, others, own):
    for source in ("EntityFeatures", "pandas by hand"):
        begin = time.process_time()
        if source == "EntityFeatures":
            made = EntityFeatures(join_of(train, others, own), FUNCTIONS, missing="mean")
            X, Z = made.fit_transform(train), made.transform(test)
        else:
            X, Z = by_hand(train, others, own), by_hand(test, others, own)
            fills = X.mean()
            X, Z = X.fillna(fills).to_numpy(), Z.fillna(fills).to_numpy()
        took = time.process_time() - begin
        print(f"  {source}: {X.shape[1]} features, {took:.2f} s CPU", flush=True)
        for name, model in MODELS.items():
            begin = time.process_time()
            fitted = model().fit(X, train["y"])
            line(f"{source} + {name}", test["y"], scored(fitted, Z), took + time.process_time() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--sets", default="means,counts,movielens,chinook")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # limits of time, and label rows without a join row, are in the figures
    for name in options.sets.split(","):
        print(name)
        if name in ("movielens", "chinook") and options.data_dir is None:
            print("  left out: give --data-dir")
            continue
        rows, others, own = {"means": shop, "counts": shop}[name](name) if name in ("means", "counts") else \
            {"movielens": movielens, "chinook": chinook}[name](options.data_dir)
        half = len(rows) // 2
        halves = rows.iloc[:half].reset_index(drop=True), rows.iloc[half:].reset_index(drop=True)
        objectives(*halves, others, own)
        aggregates(*halves, others, own)


if __name__ == "__main__":
    main()
