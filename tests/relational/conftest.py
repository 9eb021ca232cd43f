"""Connections to the databases of the relational tests; an absent one skips by name, or fails where required."""

import os
import signal

import pytest


def absent(engine, why):
    """Skip by name, or fail under BUTTRESS_REQUIRE_ENGINES (set where every engine must be tested)."""
    if os.environ.get("BUTTRESS_REQUIRE_ENGINES"):
        pytest.fail(f"{engine} is required here and absent: {why}")
    pytest.skip(f"{engine} is absent: {why}")


def pytest_collection_modifyitems(items):
    """Mark the tests that ask for a server, or for Spark, however far down."""
    for item in items:
        if {"postgres", "spark"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("database")


@pytest.fixture(scope="session", autouse=True)
def heard():
    """SIGINT raises KeyboardInterrupt, also in a process that a shell put in the background, deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def duckdb_connection():
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        yield connection


@pytest.fixture(scope="session")
def postgres():
    """(connection that may write, connection of a role whose transactions are read-only by default)."""
    address = os.environ.get("BUTTRESS_POSTGRES")
    if not address:
        absent("PostgreSQL", "BUTTRESS_POSTGRES is not set; .ci/engines starts one")
    try:
        import psycopg
    except ImportError:
        absent("PostgreSQL", "psycopg is not installed")
    schema = f"buttress_{os.getpid()}"
    with psycopg.connect(f"{address} user=owner", autocommit=True) as owner:
        owner.execute(f"CREATE SCHEMA {schema}")
        owner.execute(f"SET search_path TO {schema}")
        # one snapshot a transaction: the other processes of the tests commit to the same database
        keeps = r"default_transaction_isolation=repeatable\\ read"
        with psycopg.connect(f"{address} user=reader options='-c search_path={schema} -c {keeps}'") as reader:
            yield owner, reader
        owner.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture(scope="session")
def spark():
    """A local Spark session, as small as it gets."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        absent("Spark", "pyspark is not installed")
    try:
        session = (SparkSession.builder.master("local[1]").appName("buttress-tests")
                   .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
                   .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
                   .config("spark.sql.adaptive.enabled", "false").config("spark.sql.codegen.wholeStage", "false")
                   .config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "512m").getOrCreate())
    except Exception as error:
        absent("Spark", f"its session did not start ({error})")
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(params=[0, 99], ids=["many dates", "few dates"])
def dates(request, monkeypatch):
    """Databases pair rows with dates where keys have few, and put both in one order where they have many."""
    monkeypatch.setattr("buttress.relational.entities.database.FEW_DATES", request.param)
    return request.param
