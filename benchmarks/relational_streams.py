"""Joins that are streamed: time of a pass against this process, and fits to more rows than memory may hold.

    python benchmarks/relational_streams.py [--parts speed,large,rows,passes] [--rows 100000] [--fact 3000000]

Each figure comes from a process of its own with one thread; seconds are of its CPU, and where the engine is a process
of its own (PostgreSQL's server on this machine, Spark's Java), of both together. BUTTRESS_POSTGRES is the address of a
PostgreSQL.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
from relational import frames, in_postgres, in_spark, joins

from buttress.relational import Join, RelationalLinearSVC, Table, describe
from buttress.relational.counting.grid import grid_oracle
from buttress.relational.counting.margins import hinge
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources.databases import one_snapshot
from buttress.relational.sources.dialects import POSTGRES, SPARK
from buttress.relational.sql.oracle import SqlOracle
from buttress.relational.sql.text import counting_pass, ranges
from buttress.relational.stream import streamed

TURNS = 5


CASES = (("chain", 10, 3), ("chain", 100, 3), ("star", 10, 3), ("star", 100, 3), ("star", 100, 6))
SQL_TABLES = 3  # the most tables whose passes as SQL are timed: those of larger stars take minutes


def speed(rows, engines, bins, streams):
    """A pass over chains and stars, 10 and 100 rows a key: streamed, and of three tables as SQL, over in process."""
    for shape, fan, m in CASES:
        join = joins(shape, frames(shape, rows, fan, m))
        here = grid_oracle(prepare(join))
        beta = np.random.default_rng(1).normal(size=here.width)
        seen = here(beta, hinge(), bins)
        best = least(lambda here=here, beta=beta: here(beta, hinge(), bins))
        print(f"  {shape} of {m}, {rows:.0e} rows, {fan} rows a key, {bins} bins: here {best:.3f} s CPU", flush=True)
        for name, place in (("DuckDB", in_duckdb), ("PostgreSQL", in_postgres), ("Spark", in_spark)):
            there = place(join) if name in engines else None
            if there is None:
                continue
            with one_snapshot(there.connections):
                began = time.perf_counter()
                sql = SqlOracle(there)
                prepared = time.perf_counter() - began
                if streams:
                    began = time.perf_counter()
                    rows_of = streamed(sql, 4000)
                    read = time.perf_counter() - began
                    found = rows_of(beta, hinge(), bins)
                    assert abs(found.lower - seen.lower) <= found.upper - found.lower + seen.upper - seen.lower
                    took = least(lambda rows_of=rows_of, beta=beta: rows_of(beta, hinge(), bins))
                    print(f"    {name}, streamed: {took / best:.1f} times; once {prepared:.1f} s to plan, "
                          f"{read:.1f} s to read", flush=True)
                if m <= SQL_TABLES:
                    as_sql(sql, name, beta, bins, best)


def as_sql(sql, name, beta, bins, best):
    """A pass as SQL, the same over no rows, and the range of scores."""
    parts = sql._shares(beta)
    step = sql._step(beta, bins)
    none = f"WHERE {sql.dialect.random} < -1"
    empty = replace(sql.tree, nodes=[replace(node, item=f"(SELECT * FROM {node.item} q {none})")
                                     for node in sql.tree.nodes])
    pid = server_of(sql)
    for what, statement in (("a pass", counting_pass(sql.tree, parts, step)),
                            ("the same over no rows", counting_pass(empty, parts, step)),
                            ("the range of scores", ranges(sql.tree, parts))):
        took = least(lambda statement=statement: sql._select(statement), 2, pid)
        print(f"    {name}, as SQL, {what}: {took:.2f} s, {took / best:.1f} times", flush=True)


def passes(rows):
    """How many calls of a fit are answered by how many points, each of which is counted once a grid."""
    call = SqlOracle.__call__
    for shape, fan in (("chain", 10), ("star", 10), ("star", 100)):
        join = in_duckdb(joins(shape, frames(shape, rows, fan, 3)))
        for alpha in (1e-2, 1e-3):
            asked = set()

            def noted(self, beta, loss, bins, asked=asked):
                asked.add((beta.tobytes(), bins))
                return call(self, beta, loss, bins)

            SqlOracle.__call__ = noted
            model = RelationalLinearSVC(alpha=alpha, engine="sql", random_state=0, n_samples=5000, row_weight="join")
            model.fit(join)
            SqlOracle.__call__ = call
            print(f"  {shape} of 3, {fan} rows a key, alpha {alpha:g}: {model.n_oracle_calls_} calls, {len(asked)} "
                  "passes", flush=True)


def server_of(sql):
    """The number of the process that answers, None for this one."""
    if sql.dialect is POSTGRES:
        sql.connection.execute("SET max_parallel_workers_per_gather = 0")
        return sql.connection.info.backend_pid
    return sql.connection._jvm.java.lang.ProcessHandle.current().pid() if sql.dialect is SPARK else None


def least(call, turns=TURNS, pid=None):
    """Least CPU seconds that a call took of this process and of process ``pid``."""
    found = []
    for _ in range(turns):
        began = time.process_time() + cpu_of(pid)
        call()
        found.append(time.process_time() + cpu_of(pid) - began)
    return min(found)


def cpu_of(pid):
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def in_duckdb(join):
    """The tables of a join in a DuckDB with one thread."""
    connection = duckdb.connect(config={"threads": 1})
    tables = []
    for table in join.tables:
        frame = table.source  # noqa: F841 (DuckDB finds it by its name)
        connection.execute(f"CREATE TABLE {table.name} AS SELECT * FROM frame")
        tables.append(Table(table.name, (connection, table.name), features=table.features, label=table.label))
    return Join(tables, join.on)


def write_files(folder, n):
    """Parquet files of a fact table of n rows with 8 features, and of two tables of n/10 rows."""
    con = duckdb.connect(config={"threads": 1})
    con.execute("SELECT setseed(0.5)")
    xs = ", ".join(f"sqrt(-2 * ln(1 - random())) * cos(6.283185307179586 * random()) AS x{j}" for j in range(8))
    con.execute(f"COPY (SELECT CAST(random() * {n // 100} AS BIGINT) AS a, CAST(random() * {n // 10} AS BIGINT) AS b, "
                f"*, CAST(x0 + x1 + 2 * random() > 1 AS INTEGER) AS y FROM (SELECT {xs} FROM range({n}))) "
                f"TO '{folder}/fact.parquet'")
    for key, keys in (("a", n // 100), ("b", n // 10)):
        con.execute(f"COPY (SELECT CAST(random() * {keys} AS BIGINT) AS {key}, random() AS v FROM range({n // 10})) "
                    f"TO '{folder}/{key}.parquet'")


def large(fact, limit, engines):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, __file__, "--parts", f"write-{folder}", "--fact", str(fact)], check=True)
        for part in (f"say-{folder}", *(f"fit-{engine}-{folder}" for engine in engines)):
            subprocess.run([sys.executable, __file__, "--parts", part, "--limit", str(limit)], check=True)


def join_of_files(folder):
    return Join([Table("fact", f"{folder}/fact.parquet", features=[f"x{j}" for j in range(8)], label="y"),
                 *(Table(key, f"{folder}/{key}.parquet", features=["v"]) for key in "ab")],
                [("fact.a", "a.a"), ("fact.b", "b.b")])


def say(folder, limit):
    """What describe says of the memory: in a process of its own, for it reads the keys."""
    said = describe(join_of_files(folder), limit)
    print(f"  said: {said.megabytes:.0f} megabytes in memory", flush=True)


def fit(engine, folder, limit):
    """Fit in this process to 1e-3, and print its time and the growth of its memory beside the limit."""
    join = join_of_files(folder)
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    clock = time.perf_counter()
    cpu = time.process_time()
    model = RelationalLinearSVC(random_state=0, engine=engine, memory_limit=limit).fit(join)
    took = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6 - before
    print(f"  {engine}: N={model.n_join_rows_:.3g}, gap {model.gap_:.1e} in {model.n_oracle_calls_} calls, "
          f"{time.perf_counter() - clock:.0f} s ({time.process_time() - cpu:.0f} s CPU), {took:.0f} megabytes; "
          f"memory_limit is {limit:g}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="speed,large")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--fact", type=int, default=3_000_000)
    parser.add_argument("--limit", type=float, default=4000, help="memory_limit of the fits of large")
    parser.add_argument("--fits", default="stream", help="engines of the fits of large: stream,memory,auto")
    parser.add_argument("--bins", type=int, default=256, help="of a pass; a fit begins with 1024")
    parser.add_argument("--no-streams", action="store_true", help="time passes as SQL alone")
    parser.add_argument("--engines", default="DuckDB,PostgreSQL,Spark")
    options = parser.parse_args()
    for part in options.parts.split(","):
        if part.startswith("write-"):
            write_files(part.removeprefix("write-"), options.fact)
        elif part.startswith("say-"):
            say(part.removeprefix("say-"), options.limit)
        elif part.startswith("fit-"):
            fit(*part.split("-", 2)[1:], options.limit)
        elif part == "speed":
            speed(options.rows, options.engines.split(","), options.bins, not options.no_streams)
        elif part == "passes":
            passes(options.rows)
        else:
            large(options.fact, options.limit, options.fits.split(","))


if __name__ == "__main__":
    main()
