"""Features of entities from more rows than memory holds: processor seconds, memory, and what is spilled to disk.

    python benchmarks/entities_size.py [--rows 10000000] [--entities 1000000] [--memory 2000] [--place DIR]

A DuckDB file with a row an entity, each with a date of its own, and orders of a year, which are in no order of time or
entity. Each step runs in a process of its own, its connection with so many megabytes and one thread: "transform" makes
the default words of all entities in EntityFeatures, "to_sql" has the database write them to Parquet by its statement.
Both learn from 20,000 entities. Memory is that of the whole process. The file goes with the run.
"""

import argparse
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

import duckdb
from audit_size import ran

from buttress.relational import EntityFeatures, Join, Table

MADE = """CREATE TABLE asked AS SELECT i AS cust, TIMESTAMP '2024-07-01' + to_seconds(hash(i, 1) % 15552000) AS day
              FROM range({entities}) r(i);
          CREATE TABLE orders AS SELECT hash(i, 2) % {entities} AS cust, (hash(i, 3) % 100000) / 100 AS amount,
              TIMESTAMP '2024-01-01' + to_seconds(hash(i, 4) % 31536000) AS t FROM range({rows}) r(i)"""


def step(name, place, memory):
    """One of the steps, in this process."""
    limits = {"memory_limit": f"{memory}MB", "threads": 1, "temp_directory": str(place / "spilled")}
    with duckdb.connect(str(place / "shop.duckdb"), config=limits) as connection:
        join = Join([Table("asked", (connection, "asked")),
                     Table("orders", (connection, "orders"), features=["amount"], time="t")],
                    [("asked.cust", "orders.cust")], as_of="asked.day")
        rows = connection.execute("SELECT * FROM asked ORDER BY cust").df()
        made = EntityFeatures(join, missing="nan", engine="sql").fit(rows[:: max(len(rows) // 20_000, 1)])
        if name == "transform":
            made.transform(rows)
        elif name == "to_sql":
            connection.execute(f"COPY ({made.to_sql(['cust'])}) TO '{place / 'features.parquet'}'")


def largest(folder, stop, sizes):
    """Look at the size of a folder until there is something in ``stop``."""
    while not stop:
        with suppress(FileNotFoundError):  # a file went while it was looked at
            sizes.append(sum(file.stat().st_size for file in folder.rglob("*")))
        time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--memory", type=int, default=2000)
    parser.add_argument("--place", type=Path)
    parser.add_argument("--step")
    options = parser.parse_args()
    if options.step:
        step(options.step, options.place, options.memory)
        return
    with tempfile.TemporaryDirectory(dir=options.place) as place:
        file = Path(place) / "shop.duckdb"
        with duckdb.connect(str(file), config={"memory_limit": f"{options.memory}MB", "threads": 1}) as connection:
            connection.execute(MADE.format(rows=options.rows, entities=options.entities))
        print(f"| {options.rows:,} rows of {options.entities:,} entities, {file.stat().st_size / 1e9:.1f} GB, "
              f"memory_limit {options.memory} MB | processor s | peak GB | spilled GB |\n| --- | --- | --- | --- |")
        for name in ("fit", "transform", "to_sql"):
            stop, sizes = [], [0]
            watch = Thread(target=largest, args=(Path(place) / "spilled", stop, sizes))
            watch.start()
            try:
                _, spent, peak = ran([sys.executable, __file__, "--step", name, "--place", place, "--memory",
                                      str(options.memory)])
            finally:
                stop.append(True)
                watch.join()
            print(f"| {name} | {spent:.0f} | {peak:.2f} | {max(sizes) / 1e9:.2f} |", flush=True)


if __name__ == "__main__":
    main()
