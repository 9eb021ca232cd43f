"""Frames stored as tables of a database by plain SQL, for the relational tests."""

import pandas as pd

from buttress.relational import Join, Table
from buttress.relational.sources.dialects import SPARK

SPARK_TYPES = {"i": "BIGINT", "I": "BIGINT", "f": "DOUBLE", "b": "BOOLEAN", "d": "TIMESTAMP_NTZ"}
TYPES = {"i": "BIGINT", "I": "BIGINT", "f": "DOUBLE PRECISION", "b": "BOOLEAN", "d": "TIMESTAMP"}


def store(frame, name, execute, dialect, text="VARCHAR"):
    """Create a table of a frame's rows."""
    kinds = {**TYPES, "f": dialect.double}
    columns = [f"{dialect.quote(c)} {kinds.get(str(frame[c].dtype)[0], text)}" for c in frame] or ["one BIGINT"]
    execute(f"CREATE TABLE {dialect.table(name)} ({', '.join(columns)})")

    def literal(value):
        if pd.isna(value):
            return "NULL"
        if isinstance(value, pd.Timestamp):
            return f"TIMESTAMP {dialect.text(str(value))}"
        return dialect.text(value) if isinstance(value, str) else repr(value)

    values = frame.astype(object).to_numpy().tolist() if len(frame.columns) else [[0]] * len(frame)
    rows = ", ".join("(" + ", ".join(map(literal, row)) + ")" for row in values)
    if rows:
        execute(f"INSERT INTO {dialect.table(name)} VALUES {rows}")


def in_database(join, connection, execute, dialect, prefix, text="VARCHAR"):
    """The same join over tables stored in a database."""
    tables = []
    for table in join.tables:
        name = f"{prefix}_{table.name}"
        store(table.source, name, execute, dialect, text)
        tables.append(Table(table.name, (connection, name), features=table.features, label=table.label,
                            weights=table.weights, time=table.time, order=table.order,
                            delay=table.delay))
    return Join(tables, join.on, as_of=join.as_of)


def in_spark(join, spark, prefix):
    """The same join over views of Spark."""
    tables = []
    for table in join.tables:
        frame = table.source
        schema = ", ".join(f"{SPARK.quote(c)} {SPARK_TYPES.get(str(frame[c].dtype)[0], 'STRING')}" for c in frame)
        values = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
        values = [[v.to_pydatetime() if isinstance(v, pd.Timestamp) else v for v in row] for row in values]
        name = f"{prefix}_{table.name}"
        spark.createDataFrame(values, schema).createOrReplaceTempView(SPARK.quote(name))
        tables.append(Table(table.name, (spark, name), features=table.features, label=table.label,
                            weights=table.weights, time=table.time, order=table.order,
                            delay=table.delay))
    return Join(tables, join.on, as_of=join.as_of)
