"""Features of entities with a date, against features that a person wrote in SQL for the task: three sets.

    python benchmarks/entities_over_time.py [--data-dir shared/data/relational] [--sets shop,movielens,chinook]

The SQL is in benchmarks/by_hand, one file a set. It was written before EntityFeatures had any word of time but ``last``
(by an author who knew which words were planned), and is not to be changed with it: what it gains is what a default set
of features still lacks. The blind SQL was written after the words, by an author who saw the tables and the labels of
early rows alone. Every line is the area under the ROC curve of two models with their defaults on rows that were
asked about later (the shop, MovieLens) or on another half (chinook, where tracks of one album are on both sides).
"""

import argparse
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from buttress.relational import EntityFeatures, Join, Table
from buttress.relational.entities.words import ALWAYS

BY_HAND = Path(__file__).parent / "by_hand"
FIRST_DAY = pd.Timestamp("2024-01-01")


@dataclass(frozen=True)
class Task:
    """Rows that are asked about with their labels ``y``, a join whose first table they are, and what the SQL reads.

    ``more`` are tables that one may declare beside them, and the pairs of columns that lead to these.
    """

    name: str
    rows: pd.DataFrame
    early: np.ndarray
    join: Join
    frames: dict[str, pd.DataFrame]
    more: tuple[list[Table], list[tuple[str, str]]] | None = None


def order_times(rng, first, last, rate):
    """The first order, and those of a steady customer until they leave."""
    return np.r_[first, np.sort(rng.uniform(first, last, rng.poisson(rate * (last - first))))]


def shop_frames(n=4000, days=360, seed=0):
    """Customers who come at different rates and leave unseen; orders and products; who orders within 30 days."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 200, n).astype(float)
    last = np.maximum(np.minimum(days, first + rng.exponential(200, n)), first + 1)
    rate = np.exp(rng.normal(-3.2, 0.8, n))
    times = [order_times(rng, *customer) for customer in zip(first, last, rate)]
    orders = pd.DataFrame({"cust": np.repeat(np.arange(n), [len(t) for t in times]), "day": np.concatenate(times)})
    orders["amount"] = rng.lognormal(3, 0.6, len(orders))
    orders["prod"] = rng.integers(0, 300, len(orders))
    products = pd.DataFrame({"prod": np.arange(300), "price": rng.lognormal(3, 0.4, 300),
                             "cat": rng.choice([f"c{i}" for i in range(8)], 300)})
    asked = []
    for day in range(180, 331, 30):
        known = np.unique(orders["cust"][orders["day"] < day])
        buyers = orders["cust"][(orders["day"] >= day) & (orders["day"] < day + 30)]
        asked.append(pd.DataFrame({"cust": known, "day": float(day), "y": np.isin(known, buyers).astype(int)}))
    return pd.concat(asked, ignore_index=True), orders, products


def dated(frame, name):
    """The frame with its days as dates, to the second, under another name."""
    seconds = (frame["day"] * 86400).astype(int)
    return frame.drop(columns="day").assign(**{name: FIRST_DAY + pd.to_timedelta(seconds, unit="s")})


def shop_task(folder):
    rows, orders, products = shop_frames()
    early = rows["day"].to_numpy() <= 270
    rows = dated(rows, "at")
    orders = dated(orders, "t")
    tables = [Table("asked", rows, label="y"), Table("orders", orders, features=["amount"], time="t"),
              Table("products", products, features=["price", "cat"])]
    join = Join(tables, [("asked.cust", "orders.cust"), ("orders.prod", "products.prod")], as_of="asked.at")
    return Task("shop", rows, early, join, {"asked": rows, "orders": orders, "products": products})


def movielens_task(folder):
    """Ratings of at least 4, from earlier ones of the film and of the user; the last third of 20,000 is judged.

    What is asked is a column of the past too: ``liked``, whether a rating was at least 4.
    """
    read = {name: duckdb.read_parquet(str(folder / "movielens_small" / f"{name}.parquet")).df()
            for name in ("ratings", "movie_genres")}
    ratings = read["ratings"]
    ratings["t"] = pd.to_datetime(ratings["timestamp"], unit="s")
    ratings = ratings[["userId", "movieId", "rating", "t"]]
    rows = ratings.sample(20_000, random_state=0).sort_values(["t", "userId", "movieId"]).reset_index(drop=True)
    rows = rows.rename(columns={"t": "at"}).assign(y=(rows["rating"] >= 4).astype(int)).drop(columns="rating")
    early = np.arange(len(rows)) < 13_334
    rows["judged"] = ~early
    genres = read["movie_genres"]
    past = ratings.assign(liked=(ratings["rating"] >= 4).astype(int))

    def rated(name):
        return Table(name, past, features=["rating", "liked"], time="t")

    tables = [Table("asked", rows, label="y"), rated("of_film"), rated("of_user"),
              Table("genres", genres, features=["genre"])]
    join = Join(tables, [("asked.movieId", "of_film.movieId"), ("asked.userId", "of_user.userId"),
                         ("asked.movieId", "genres.movieId")], as_of="asked.at")
    more = ([rated("films_of_user"), Table("alike", genres), rated("of_alike"), Table("mine", past, time="t"),
             Table("agreeing", past, time="t"), rated("of_agreeing")],
            [("of_user.movieId", "films_of_user.movieId"), ("genres.genre", "alike.genre"),
             ("alike.movieId", "of_alike.movieId"), ("asked.userId", "of_alike.userId"),
             ("asked.userId", "mine.userId"), ("mine.movieId", "agreeing.movieId"), ("mine.liked", "agreeing.liked"),
             ("agreeing.userId", "of_agreeing.userId"), ("asked.movieId", "of_agreeing.movieId")])
    return Task("movielens", rows, early, join, {"asked": rows, "ratings": ratings, "genres": genres}, more)


def chinook_task(folder):
    """Tracks of the genre rock; nothing has a date here."""
    read = {name: pd.read_csv(folder / "chinook" / f"{name}.csv")
            for name in ("Track", "InvoiceLine", "PlaylistTrack", "Invoice")}
    tracks = read["Track"].sample(frac=1, random_state=0).reset_index(drop=True)
    tracks["y"] = (tracks["GenreId"] == 1).astype(int)
    invoices = read["Invoice"].assign(InvoiceDate=pd.to_datetime(read["Invoice"]["InvoiceDate"]))
    lists = read["PlaylistTrack"].assign(PlaylistId=read["PlaylistTrack"]["PlaylistId"].astype(str))
    tables = [Table("tracks", tracks, features=["Milliseconds", "Bytes", "UnitPrice", "MediaTypeId"], label="y"),
              Table("lines", read["InvoiceLine"], features=["UnitPrice", "Quantity"]),
              Table("invoices", invoices, features=["Total"]), Table("lists", lists, features=["PlaylistId"]),
              Table("of_album", tracks, features=["Milliseconds"])]
    join = Join(tables, [("tracks.TrackId", "lines.TrackId"), ("lines.InvoiceId", "invoices.InvoiceId"),
                         ("tracks.TrackId", "lists.TrackId"), ("tracks.AlbumId", "of_album.AlbumId")])
    frames = {"tracks": tracks, "lines": read["InvoiceLine"], "invoices": invoices, "lists": read["PlaylistTrack"]}
    return Task("chinook", tracks, np.arange(len(tracks)) < len(tracks) // 2, join, frames)


FAMILIES = {
    "without words of time": (),
    "+ since_last, since_first": ("since_last", "since_first"),
    "+ gaps": ("gap_mean", "gap_last", "overdue"),
    "+ counts of 30 and 90 days": ("count:30d", "count:90d"),
    "+ sums of 30 and 90 days": ("sum:30d", "sum:90d"),
    "+ recent over total": ("count:30d/all", "count:90d/all"),
    "+ mean of the latest 3 rows": ("mean:3rows",),
    "+ means of the latest 3 and 10 rows": ("mean:3rows", "mean:10rows"),
    "+ trend": ("trend",),
    "+ different values": ("distinct",),
    "+ sums by category": ("sum_by",),
    "+ hour, weekday, season": ("hour", "weekday", "season_sin", "season_cos"),
    "+ all of these": ("since_last", "since_first", "gap_mean", "gap_last", "overdue", "count:30d", "count:90d",
                       "sum:30d", "sum:90d", "count:30d/all", "count:90d/all", "mean:3rows", "mean:10rows", "trend",
                       "hour", "weekday", "season_sin", "season_cos"),
}
TASKS = {"shop": shop_task, "movielens": movielens_task, "chinook": chinook_task}


def written_by_hand(task, who=""):
    """The features of the set's SQL file, one row a question."""
    with duckdb.connect(config={"threads": 1}) as connection:
        for place, (name, frame) in enumerate(task.frames.items()):
            connection.register(name, frame.assign(i=np.arange(len(frame))) if place == 0 else frame)
        found = connection.execute((BY_HAND / f"{task.name}{who}.sql").read_text()).df()
    return found.drop(columns="i").astype(float)


def with_more(task):
    """The task with more tables.

    All ratings of films of the user; of theirs those of films of a kind with it; and of the film those by users who
    liked, or did not, what the user liked, or did not: once for each film that both agree on.
    """
    tables, pairs = task.more
    return replace(task, join=Join([*task.join.tables, *tables], [*task.join.on, *pairs], as_of=task.join.as_of))


def made(task, **how):
    """The features of EntityFeatures, learned on the early rows."""
    learned = EntityFeatures(task.join, missing="nan", **how).fit(task.rows[task.early])
    return pd.DataFrame(learned.transform(task.rows), columns=learned.get_feature_names_out())


def judged(task, X):
    """Areas under the ROC curve of a linear machine and of boosting on the rows that are not early."""
    y = task.rows["y"].to_numpy()
    X = np.asarray(X)
    areas = []
    for model in (make_pipeline(SimpleImputer(), StandardScaler(), LinearSVC(C=0.01)),
                  HistGradientBoostingClassifier(max_iter=80, learning_rate=0.06, random_state=0)):
        model.fit(X[task.early], y[task.early])
        areas.append(roc_auc_score(y[~task.early], model.decision_function(X[~task.early])))
    return areas


def line(task, name, X):
    areas = judged(task, X)
    print(f"| {task.name} | {name} | {X.shape[1]} | {areas[0]:.4f} | {areas[1]:.4f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--sets", default="shop,movielens,chinook")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of liblinear's limit of steps, and of columns without a value
    print("| set | features | columns | LinearSVC | boosting |\n| --- | --- | --- | --- | --- |")
    for name in options.sets.split(","):
        if name != "shop" and options.data_dir is None:
            continue
        task = TASKS[name](options.data_dir)
        line(task, "SQL by hand", written_by_hand(task))
        line(task, "SQL by hand, blind", written_by_hand(task, "_blind"))
        for label, words in ([] if task.join.as_of is None else FAMILIES.items()):
            line(task, label, made(task, functions=(*ALWAYS, *words)))
        line(task, "default", made(task))
        if task.more is not None:
            line(task, "default, circles declared", made(with_more(task)))


if __name__ == "__main__":
    main()
