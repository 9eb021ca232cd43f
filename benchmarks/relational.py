"""Relational SVM against materialising the join: certified gaps, time per oracle call, sketches and engines.

    python benchmarks/relational.py [--data-dir DIR] [--parts calls,goals,movielens,...] [--quick]

DIR holds movielens_small/*.parquet (GroupLens ml-latest-small; ratings, movie_genres) and chinook/*.csv (the tables of
the Chinook sample database, lerocha/chinook-database). Ratios are taken within one
run; times are seconds of this process's CPU (all threads) and of the clock.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
from sklearn.svm import LinearSVC

sys.path.append(str(Path(__file__).parents[1]))  # where reproduce/ is

from buttress.relational import Join, JoinSampler, RelationalLinearSVC, Table, describe
from buttress.relational.counting.grid import grid_oracle
from buttress.relational.counting.margins import hinge
from buttress.relational.plan.prepare import prepare
from buttress.relational.plan.tree import Decomposition, decompose
from buttress.relational.sources.databases import one_snapshot
from buttress.relational.sql.oracle import SqlOracle
from reproduce.pseudo_gradient import RankOracle

SIZES = 5


@contextmanager
def timed(out):
    clock = time.perf_counter()
    cpu = time.process_time()
    yield
    out["clock"] = time.perf_counter() - clock
    out["cpu"] = time.process_time() - cpu


def frames(shape, n, fan, m, seed=0):
    """Tables of n rows, ``fan`` rows a key; "star" hangs all tables on the first, "chain" each on the last."""
    rng = np.random.default_rng(seed)
    keys = max(n // fan, 1)
    made = []
    for i in range(m):
        frame = pd.DataFrame(rng.uniform(-1, 1, size=(n, SIZES)), columns=[f"x{j}" for j in range(SIZES)])
        frame["up"] = rng.integers(0, keys, size=n)
        for j in range(1, m):
            if (shape == "star" and i == 0) or j == i + 1:
                frame[f"k{j}"] = rng.integers(0, keys, size=n)
        made.append(frame)
    made[0]["y"] = np.where(made[0]["x0"] + 0.3 * made[0]["x1"] + 0.5 * rng.normal(size=n) > 0, 1, -1)
    return made


def joins(shape, made):
    m = len(made)
    tables = [Table(f"table{i}", f, features=[f"x{j}" for j in range(SIZES)], label=None if i else "y")
              for i, f in enumerate(made)]
    parent = [0 if shape == "star" else i - 1 for i in range(m)]
    return Join(tables, [(f"table{parent[i]}.k{i}", f"table{i}.up") for i in range(1, m)])


def calls(quick):
    """Time of one oracle call against fan-out, rows and tables; the cases of a group take turns."""
    n = 20_000 if quick else 100_000
    groups = ([("chain", n, fan, 4) for fan in (10, 100, 1000)],
              [("star", size, 100, 3) for size in (n // 10, n, n if quick else 10 * n)],
              [("chain", n, 100, m) for m in (2, 3, 4, 5, 6)], [("star", n, 100, m) for m in (2, 3, 4)])
    for group in groups:
        made = []
        for case in group:
            plan = prepare(joins(case[0], frames(*case)))
            made.append((plan.n_rows, grid_oracle(plan), np.random.default_rng(1).normal(size=plan.width)))
        best = [np.inf] * len(group)
        for _ in range(12):
            for i, (_, oracle, beta) in enumerate(made):
                took = {}
                with timed(took):
                    oracle(beta, hinge(), 256)
                best[i] = min(best[i], took["cpu"])
        for (shape, size, fan, m), (n_rows, *_), took in zip(group, made, best):
            print(f"  {shape}{m} n={size:.0e} fan={fan:<5} N={n_rows:.2e}  {took:.4f} s CPU a call",
                  flush=True)


def certify(name, join, tol=1e-3, **parameters):
    took = {}
    plan = None
    with timed(took):
        model = RelationalLinearSVC(tol=tol, **{"row_weight": "join", "random_state": 0, **parameters}).fit(join)
    low, high = model.objective_interval_
    print(f"  {name:<22} N={model.n_join_rows_:.3e} gap {model.gap_:.1e} [{low:.6f}, {high:.6f}] "
          f"{model.n_oracle_calls_} calls {took['clock']:.1f} s ({took['cpu']:.1f} s CPU)", flush=True)
    return model, took, plan


def goals(quick):
    """Certified fits at N = 1e9 and 1e12 against DuckDB + LinearSVC on a materialised join of 1e7 rows."""
    n = 10_000 if quick else 100_000
    for alpha in (1e-2, 1e-3, 1e-4):
        _, small, _ = certify(f"star of 3, alpha {alpha:g}", joins("star", frames("star", n, 100, 3)), alpha=alpha)
    certify("chain of 4", joins("chain", frames("chain", n if quick else 1_000_000, 100, 4)), tol=2e-3)
    materialised(small, 3_000 if quick else 1_000)


def materialised(small, n):
    """Join 1e7 rows in DuckDB and fit LinearSVC, in a process of its own with limits of memory and time."""
    for loss, dual, most in (("squared_hinge", False, 1000), ("hinge", True, 20)):
        try:
            rows, seconds = joined_apart(n, loss, dual, most)
            print(f"  DuckDB + LinearSVC     N={rows:.3e} {loss}, at most {most} rounds: {seconds:.1f} s CPU; the "
                  f"certified fit takes {small['cpu'] / seconds:.3f} of it", flush=True)
        except subprocess.TimeoutExpired:
            print(f"  DuckDB + LinearSVC     {loss}, at most {most} rounds: more than 600 s", flush=True)


def joined_apart(n, loss, dual, most):
    """Return rows and CPU seconds of ``join_and_fit`` in a process of its own, nan if that fails."""
    asked = f"import relational; relational.join_and_fit({n}, {loss!r}, {dual}, {most})"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=600,
                          cwd=Path(__file__).parent)
    if done.returncode:
        print("   ", done.stderr.strip().splitlines()[-1:])
        return np.nan, np.nan
    rows, seconds = done.stdout.strip().splitlines()[-1].split()
    return float(rows), float(seconds)


def join_and_fit(n, loss, dual, most):
    """Print the rows of the join and the CPU seconds that making, fetching and fitting it took."""
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
    t0, t1, t2 = frames("star", n, 100, 3)  # noqa: RUF059 (DuckDB finds them by name)
    begin = time.process_time()
    listed = ", ".join(f"t{i}.x{j}::FLOAT AS x{i}{j}" for i in range(3) for j in range(SIZES))
    table = duckdb.sql(f"SELECT {listed}, t0.y FROM t0 JOIN t1 ON t0.k1 = t1.up JOIN t2 ON t0.k2 = t2.up").fetchnumpy()
    X = np.empty((len(table["y"]), 3 * SIZES))  # liblinear wants 64 bits
    for c, name in enumerate([name for name in table if name != "y"]):
        X[:, c] = table[name]
    y = table.pop("y")
    table.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LinearSVC(loss=loss, dual=dual, C=1 / (2e-3 * len(X)), max_iter=most, fit_intercept=False).fit(X, y)
    print(len(X), time.process_time() - begin)


def movielens(folder):
    """The star of four of small MovieLens: is a rating at least 4, given its neighbours by film and by user?"""
    con = duckdb.connect()
    con.execute(f"CREATE VIEW r AS SELECT *, (rating - 2.75) / 2.25 AS stars, (timestamp - 1.18e9) / 3.6e8 AS time, "
                f"rating >= 4 AS liked FROM read_parquet('{folder}/movielens_small/ratings.parquet')")
    con.execute(f"CREATE VIEW g AS SELECT * FROM read_parquet('{folder}/movielens_small/movie_genres.parquet')")
    join = Join([Table("rating", (con, "r"), features=["time"], label="liked"),
                 Table("item", (con, "r"), features=["stars", "time"]),
                 Table("user", (con, "r"), features=["stars", "time"]), Table("genre", (con, "g"), features=["genre"])],
                on=[("rating.movieId", "item.movieId"), ("rating.userId", "user.userId"),
                    ("rating.movieId", "genre.movieId")])
    print(describe(join))
    for alpha in (1e-2, 1e-3, 1e-4):
        certify(f"MovieLens, alpha {alpha:g}", join, alpha=alpha)
        certify("  sample only", join, alpha=alpha, solver="sample")


def chinook(folder):
    """Certified fits of two joins of the Chinook shop, and LinearSVC on the rows that DuckDB makes of them."""
    con = duckdb.connect()
    for name in ("Track", "InvoiceLine", "Invoice", "PlaylistTrack"):
        con.execute(f"CREATE VIEW {name}_ AS SELECT * FROM read_csv('{folder}/chinook/{name}.csv')")
    con.execute("CREATE VIEW Tunes AS SELECT *, GenreId = 1 AS rock FROM Track_")
    track = Table("track", (con, "Tunes"), features=["Milliseconds", "Bytes", "UnitPrice"], label="rock")
    line = Table("line", (con, "InvoiceLine_"), features=["Quantity"])
    invoice = Table("invoice", (con, "Invoice_"), features=["Total"])
    playlist = Table("playlist", (con, "PlaylistTrack_"), features=["PlaylistId"])
    bought = "Tunes JOIN InvoiceLine_ line ON Tunes.TrackId = line.TrackId"
    for join, rows in (
            (Join([track, line, invoice], [("track.TrackId", "line.TrackId"), ("line.InvoiceId", "invoice.InvoiceId")]),
             f"{bought} JOIN Invoice_ invoice ON line.InvoiceId = invoice.InvoiceId"),
            (Join([track, line, playlist], [("track.TrackId", "line.TrackId"), ("track.TrackId", "playlist.TrackId")]),
             f"{bought} JOIN PlaylistTrack_ playlist ON Tunes.TrackId = playlist.TrackId")):
        columns = ["Tunes.Milliseconds", "Tunes.Bytes", "Tunes.UnitPrice", "line.Quantity"]
        columns.append("invoice.Total" if "invoice" in rows else "playlist.PlaylistId")
        made = np.array(con.execute(f"SELECT {', '.join(columns)}, rock FROM {rows}").fetchall(), dtype=float)
        for sampled in (100_000, 1):  # 1: nothing is listed, only counted
            model, _, _ = certify("Chinook", join, n_samples=sampled)
            X = np.insert(made[:, :-1] / np.abs(made[:, :-1]).max(axis=0), 3, 1.0, axis=1)  # 1 stands in track's place
            y = 2 * made[:, -1] - 1
            beta = LinearSVC(loss="hinge", C=1 / (2e-3 * len(y)), fit_intercept=False, tol=1e-8, max_iter=1_000_000,
                             random_state=0).fit(X, y).coef_[0]
            low, high = model.objective_interval_
            value = np.maximum(0, 1 - y * (X @ beta)).mean() + 1e-3 * beta @ beta
            print(f"    LinearSVC on {len(y)} rows {value:.8f}: {'within' if low <= value <= high else 'NOT WITHIN'}")


def sketches(quick):
    """Error of the paper's rank sketch and of the grid at the same point and in the same time.

    The error is the distance of the plane from the loss, which the finest grid bounds, as a share of the loss.
    """
    plan = prepare(joins("chain", frames("chain", 3_000 if quick else 20_000, 100, 4)))
    beta = np.random.default_rng(1).normal(size=plan.width)
    grid = grid_oracle(plan)

    def once(oracle, *how):
        oracle(beta, *how)
        took = {}
        with timed(took):
            seen = oracle(beta, *how)
        return seen, took["cpu"]

    fine = [(bins, *once(grid, hinge(), bins)) for bins in 2 ** np.arange(8, 16)]
    above = fine[-1][1].upper
    for bins, seen, took in fine:
        print(f"  grid {bins:<17} error at most {(above - seen.lower) / above:.1e}, {took:.3f} s CPU", flush=True)
    for name, error in (("paper's rank 0.5", 0.5), ("paper's rank 0.1", 0.1)):
        seen, took = once(RankOracle(plan, error=error))
        bins, same = max((bins, other) for bins, other, cpu in fine if cpu <= took)
        ratio = (above - seen.lower) / max(above - same.lower, 1e-300)
        print(f"  {name:<22} error at most {(above - seen.lower) / above:.1e}, {took:.3f} s CPU, "
              f"{ratio:.1g} times that of grid {bins}, which takes no longer", flush=True)


def engines(quick, wanted):
    """The same pass in process and as SQL text on the ``wanted`` of DuckDB, PostgreSQL (BUTTRESS_POSTGRES) and Spark.

    DuckDB has one thread, whose CPU time is taken; for the others, which are processes of their own, the clock.
    """
    for shape, fan in (("chain", 10), ("chain", 100), ("star", 10), ("star", 100)):
        join = joins(shape, frames(shape, 2_000 if quick else 10_000, fan, 3))
        plan = prepare(join)
        beta = np.random.default_rng(1).normal(size=plan.width)
        here = grid_oracle(plan, fold=False)
        seen, base = _passes(here, beta, 5)
        print(f"  {shape} of 3, {fan} rows a key, N={plan.n_rows:.1e}: in process {base['cpu']:.4f} s (cpu)",
              flush=True)
        for name, copied in (("duckdb", lambda join: join), ("postgres", in_postgres), ("spark", in_spark)):
            there = copied(join) if name in wanted else None
            if there is None:
                print(f"    {name:<9} left out")
                continue
            oracle = SqlOracle(there)
            if name == "duckdb":
                oracle.connection.execute("SET threads = 1")
            with one_snapshot(there.connections):
                found, took = _passes(oracle, beta, 2)
            what = "cpu" if name == "duckdb" else "clock"
            print(f"    {name:<9} {took[what]:.3f} s ({what}), {took[what] / base[what]:.0f} times; gradients differ "
                  f"by {np.abs(found.b - seen.b).max():.1e}", flush=True)


def _passes(oracle, beta, repeats):
    least = {"clock": np.inf, "cpu": np.inf}
    for _ in range(repeats):
        took = {}
        vars(oracle)["_kept"] = None  # as SQL: what it keeps of the last pass
        with timed(took):
            seen = oracle.at_step(beta, hinge(), 0.01)
        least = {what: min(least[what], took[what]) for what in least}
    return seen, least


def in_postgres(join):
    """The tables of a join copied to temporary tables of PostgreSQL, or None without one."""
    address = os.environ.get("BUTTRESS_POSTGRES")
    if not address:
        return None
    import psycopg

    connection = psycopg.connect(f"{address} user=owner", autocommit=True)
    tables = []
    for table in join.tables:
        frame = table.source
        kinds = ["BIGINT" if frame[c].dtype.kind == "i" else "DOUBLE PRECISION" for c in frame]
        connection.execute(f"CREATE TEMP TABLE {table.name} ({', '.join(map(' '.join, zip(frame, kinds)))})")
        with connection.cursor() as cursor, cursor.copy(f"COPY {table.name} FROM STDIN") as copy:
            for row in frame.itertuples(index=False):
                copy.write_row(row)
        connection.execute(f"ANALYZE {table.name}")
        tables.append(Table(table.name, (connection, table.name), features=table.features, label=table.label))
    return Join(tables, join.on)


def in_spark(join):
    """The tables of a join as views of a local Spark session, or None without Spark."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
             .config("spark.sql.shuffle.partitions", "2").config("spark.driver.bindAddress", "127.0.0.1")
             .config("spark.driver.host", "127.0.0.1").config("spark.driver.memory", "2g").getOrCreate())
    spark.sparkContext.setLogLevel("ERROR")
    tables = []
    for table in join.tables:
        schema = ", ".join(f"{c} {'BIGINT' if table.source[c].dtype.kind == 'i' else 'DOUBLE'}" for c in table.source)
        rows = spark.createDataFrame(table.source.to_numpy(dtype=object).tolist(), schema).cache()
        rows.createOrReplaceTempView(table.name)
        tables.append(Table(table.name, (spark, table.name), features=table.features, label=table.label))
    return Join(tables, join.on)


SHAPES = {**{f"cycle of {m}": [(i, (i + 1) % m) for i in range(m)] for m in range(3, 10)},
          "clique of 4": list(combinations(range(4), 2))}


def cycles(quick):
    """Rows of the largest bag of keys against rows a table, on the two kinds of tables that are worst for a cycle.

    "full": every pair of sqrt(n) values, worst for a triangle and a clique; "hubs": one value with all others, worst
    for longer cycles, whose paths of two tables have n^2 / 4 rows. The slope is that of the logarithms.
    """
    sizes = (64, 144, 256) if quick else (100, 400, 1600)
    for name, edges in SHAPES.items():
        cycle_edges = [frozenset(edge) for edge in edges]
        covers = Decomposition(cycle_edges, [1.0] * len(edges))
        least = max(map(covers.log_rows, decompose(cycle_edges, [np.log(sizes[-1])] * len(edges))))
        slopes = {}
        for kind in ("full", "hubs"):
            largest = [_largest_bag(edges, kind, n) for n in sizes]
            slopes[kind] = np.polyfit(np.log(sizes), np.log(largest), 1)[0]
        shown = ", ".join(f"{kind} {slope:.2f}" for kind, slope in slopes.items())
        print(f"  {name:<12} fhtw {least:.2f}, slope {shown}", flush=True)


def triangles(quick):
    """A triangle of three tables in process and by DuckDB, a process each."""
    for engine in ("memory", "sql"):
        subprocess.run([sys.executable, __file__, "--parts", f"triangle-{engine}"] + ["--quick"] * quick, check=True)


def _largest_bag(edges, kind, n):
    """Rows of the largest bag of keys of a join whose tables have n rows."""
    side = round(n**0.5)
    grid = np.indices((side, side)).reshape(2, -1)
    spokes = np.array([[0] * (n // 2) + list(range(1, n // 2)), [*range(n // 2)] + [0] * (n // 2 - 1)])
    made = [pd.DataFrame((grid if kind == "full" else spokes).T, columns=[f"k{a}", f"k{b}"]) for a, b in edges]
    for frame in made:
        frame["row"] = np.arange(len(frame))
    on = [(f"t{[v in e for e in edges].index(True)}.k{v}", f"t{i}.k{v}") for v in {v for e in edges for v in e}
          for i, edge in enumerate(edges) if v in edge and i != [v in e for e in edges].index(True)]
    plan = prepare(Join([Table(f"t{i}", frame) for i, frame in enumerate(made)], on))
    return max(node.n_rows for node in plan.nodes if node.bound)


def triangle_frames(quick):
    rng = np.random.default_rng(0)
    n, keys = (10_000, 100) if quick else (100_000, 500)
    made = [pd.DataFrame({"a": rng.integers(0, keys, n), "b": rng.integers(0, keys, n), "x": rng.normal(size=n)})
            for _ in range(3)]
    made[0]["y"] = (made[0]["x"] + 0.5 * rng.normal(size=n) > 0).astype(int)
    return made


def triangle(quick, engine):
    """Fit a triangle of three tables of 10^5 rows and 500 keys, in process or by DuckDB, in a process of its own."""
    made = triangle_frames(quick)
    join = Join([Table(f"table{i}", frame, features=["x"], label=None if i else "y") for i, frame in enumerate(made)],
                [("table0.b", "table1.a"), ("table1.b", "table2.a"), ("table2.b", "table0.a")])
    took = {}
    with timed(took):
        model = RelationalLinearSVC(alpha=1e-2, random_state=0, row_weight="join", engine=engine).fit(join)
    low, high = model.objective_interval_
    print(f"  triangle, {engine}: {model.n_join_rows_:.3g} rows of the join, gap {(high - low) / high:.1e}, "
          f"{took['cpu']:.1f} s CPU, {took['clock']:.1f} s of the clock, at most "
          f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB", flush=True)


def pentagons(quick):
    """A cycle of five tables in process, by DuckDB and by PostgreSQL, a process each."""
    for rows in (1_000,) if quick else (1_000, 4_000):
        for engine in ("memory", "duckdb", "postgres"):
            subprocess.run([sys.executable, __file__, "--parts", f"pentagon-{engine}-{rows}"], check=True)


def pentagon(engine, rows):
    """Fit a cycle of five tables of ``rows`` rows and two keys each, drawn at random."""
    keys = 100 if rows < 4_000 else 200
    rng = np.random.default_rng(0)
    made = []
    for i in range(5):
        made.append(pd.DataFrame({"a": rng.integers(0, keys, rows), "b": rng.integers(0, keys, rows),
                                  "x": rng.normal(size=rows)}))
        if i == 0:
            made[0]["y"] = (made[0]["x"] + 0.5 * rng.normal(size=rows) > 0).astype(int)
    join = Join([Table(f"table{i}", frame, features=["x"], label=None if i else "y") for i, frame in enumerate(made)],
                [(f"table{i}.b", f"table{(i + 1) % 5}.a") for i in range(5)])
    join = in_postgres(join) if engine == "postgres" else join
    if join is None:
        print(f"  pentagon, {rows} rows, postgres: left out")
        return
    took = {}
    with timed(took):
        model = RelationalLinearSVC(alpha=1e-2, random_state=0, row_weight="join",
                                    engine="memory" if engine == "memory" else "sql").fit(join)
    low, high = model.objective_interval_
    print(f"  pentagon, {rows} rows, {engine}: {model.n_join_rows_:.3g} rows of the join, "
          f"gap {(high - low) / high:.1e}, {took['cpu']:.1f} s CPU, {took['clock']:.1f} s of the clock, at most "
          f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB", flush=True)


def memory(quick):
    """Peak memory of fits in this process against what describe says, each in a process of its own."""
    n = 300_000 if quick else 3_000_000
    with tempfile.TemporaryDirectory() as folder:
        for name in ("numbers", "words", "narrow"):
            _memory_files(Path(folder), n)
            subprocess.run([sys.executable, __file__, "--parts", f"memory-{name}", "--data-dir", folder], check=True)


def _memory_files(folder, n):
    """Parquet files of a fact table of n rows, and of two tables with a tenth of them."""
    rng = np.random.default_rng(0)
    fact = {"a": rng.integers(0, n // 100, n), "b": rng.integers(0, n // 10, n), "y": rng.integers(0, 2, n),
            "word": rng.choice(["north", "east", "south", "west"], n)}
    fact |= {f"x{j}": rng.normal(size=n) for j in range(8)}
    pl.DataFrame(fact).write_parquet(folder / "fact.parquet")
    for key, keys in (("a", n // 100), ("b", n // 10)):
        made = pl.DataFrame({key: rng.integers(0, keys, n // 10), "v": rng.normal(size=n // 10)})
        made.write_parquet(folder / f"{key}.parquet")


def _peak(name, folder):
    """Fit in this process, and print the growth of its memory beside what describe says."""
    features = {"numbers": [f"x{j}" for j in range(8)], "words": ["x0", "word"], "narrow": ["x0", "x1"]}[name]
    join = Join([Table("fact", folder / "fact.parquet", features=features, label="y"),
                 *(Table(key, folder / f"{key}.parquet", features=["v"]) for key in "ab")],
                [("fact.a", "a.a"), ("fact.b", "b.b")])
    small = Join([Table("a", folder / "a.parquet", features=["v"])])
    describe(small)  # loads what a fit needs
    said = describe(join).megabytes
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    RelationalLinearSVC(alpha=1e-2, random_state=0, engine="memory", tol=1e-2).fit(join)
    took = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6 - before
    print(f"  {name:<8} said {said:.0f} megabytes, took {took:.0f}: {took / said:.2f} times", flush=True)


def stability(quick):
    """Definition 12 measured: the least delta and gamma for alpha-perturbations of two joins, by random search.

    A search gives lower bounds of delta and gamma: an instance that looks unstable is, one that looks stable may not.
    """
    rng = np.random.default_rng(0)
    for name, noise in (("well separated", 0.1), ("labels at random", None)):
        made = frames("chain", 60, 10, 2)
        first = made[0]["x0"] + (0 if noise is None else noise * rng.normal(size=60))
        made[0]["y"] = np.where(first > 0, 1, -1) if noise is not None else rng.choice([-1, 1], size=60)
        sampler = JoinSampler(joins("chain", made))
        X, y = sampler.take(range(sampler.n_rows_))
        for share in (0.01, 0.1):
            delta, gamma = _stability(X, y, share, rng)
            print(f"{name}, {share:.0%}, least delta = {delta:.3f}\n{name}, {share:.0%}, least gamma = {gamma:.3f}")


def _stability(X, y, share, rng, lam=1e-2, tries=6):
    def F(beta, Z):
        return np.maximum(0, 1 - y * (Z @ beta)).mean() + lam * beta @ beta

    def best(Z):
        return LinearSVC(loss="hinge", C=1 / (2 * lam * len(y)), fit_intercept=False, max_iter=20_000, tol=1e-6,
                         random_state=0).fit(Z, y).coef_[0]

    whole = best(X)
    pushes = [rng.choice([-1.0, 1.0], size=X.shape) for _ in range(tries - 2)]
    pushes += [sign * np.sign(y[:, None] * X * whole) for sign in (-1, 1)]
    made = [X * (1 + share * push) for push in pushes]
    found = [best(Z) for Z in made]
    least = [F(b, Z) for b, Z in zip(found, made)]
    delta = max(F(b, Z) / low - 1 for b in found for Z, low in zip(made, least))
    near = [b * scale for b in found for scale in np.linspace(0, 2, 41)]
    allowed = [(b, i) for b in near for i in range(tries) if F(b, made[i]) <= (1 + 2 * delta) * least[i]]
    gamma = max(F(b, Z) / low - 1 for b, _ in allowed for Z, low in zip(made, least))
    return delta, gamma


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--parts", default="calls,sketches,engines,stability,goals,cycles,triangles,pentagons,memory,"
                                           "movielens,chinook")
    parser.add_argument("--engines", default="duckdb,postgres,spark")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    for part in options.parts.split(","):
        if part.startswith("triangle-"):
            triangle(options.quick, part.removeprefix("triangle-"))
            continue
        if part.startswith("pentagon-"):
            engine, rows = part.split("-")[1:]
            pentagon(engine, int(rows))
            continue
        if part.startswith("memory-"):
            _peak(part.removeprefix("memory-"), options.data_dir)
            continue
        print(part)
        if part in ("movielens", "chinook"):
            if options.data_dir is None:
                print("  left out: give --data-dir")
                continue
            (movielens if part == "movielens" else chinook)(options.data_dir)
        elif part == "engines":
            engines(options.quick, options.engines.split(","))
        else:
            {"calls": calls, "sketches": sketches, "stability": stability, "goals": goals, "cycles": cycles,
             "triangles": triangles, "pentagons": pentagons, "memory": memory}[part](options.quick)


if __name__ == "__main__":
    main()
