"""What people write first: forms of ``on``, sources of every kind, searches; and scores inside a database."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from relational_problems import joined
from relational_storage import in_database, store
from sklearn.model_selection import GridSearchCV

from buttress.relational import EntityFeatures, Join, RelationalLinearSVC, Table
from buttress.relational.command import read_join
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources.dialects import DUCKDB, POSTGRES


def two():
    a = pd.DataFrame({"k": [1, 1, 2, 3], "x": [1.0, 2.0, 3.0, 4.0], "y": [0, 1, 0, 1]})
    b = pd.DataFrame({"k": [1, 2, 2, 3], "z": [1.0, 2.0, 3.0, 4.0]})
    return a, b


def tables(a, b):
    return [Table("a", a, features=["x"], label="y"), Table("b", b, features=["z"])]


@pytest.mark.parametrize(("on", "message"), [
    (("a.k", "b.k"), r"Use on=\[\('a.k', 'b.k'\)\]"),
    (["a.k", "b.k"], r"Use on=\[\('a.k', 'b.k'\)\]"),
    ({"a.k": "b.k"}, r"Use on=\[\('a.k', 'b.k'\)\]"),
    ("a.k = b.k", "must be a list of pairs"),
])
def test_forms_of_on_that_are_no_list_of_pairs(on, message):
    with pytest.raises(ValueError, match=message):
        Join(tables(*two()), on)


def test_using_names_keys_that_are_called_alike():
    a, b = two()
    assert prepare(Join(tables(a, b), using=["k"])).n_rows == prepare(Join(tables(a, b), [("a.k", "b.k")])).n_rows
    with pytest.raises(ValueError, match=r"Use \['k'\]"):
        Join(tables(a, b), using="k")
    with pytest.raises(ValueError, match="which 1 of the tables"):
        Join(tables(a, b), using=["x"]).check()


def test_a_search_of_scikit_learn_says_what_to_use():
    join = Join(tables(*two()), using=["k"])
    assert join
    with pytest.raises(ValueError, match="cross_validate"):
        GridSearchCV(RelationalLinearSVC(), {"alpha": [0.1, 1.0]}).fit(join)


def same(sources, engines=("memory", "sql")):
    """A join of these sources is that of the frames, in process and as SQL."""
    here = RelationalLinearSVC(alpha=0.1, random_state=0).fit(Join(tables(*two()), using=["k"]))
    for engine in engines:
        there = RelationalLinearSVC(alpha=0.1, random_state=0, engine=engine).fit(Join(tables(*sources), using=["k"]))
        np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-2)
        assert there.n_join_rows_ == here.n_join_rows_


def test_lazy_frames_and_relations(duckdb_connection):
    a, b = two()
    same([pl.DataFrame({c: frame[c].to_list() for c in frame}).lazy() for frame in (a, b)], ["memory"])
    for name, frame in (("a", a), ("b", b)):
        store(frame, name, duckdb_connection.execute, DUCKDB)
    same([duckdb_connection.sql(f"SELECT * FROM {name}") for name in "ab"])


def test_arrow_datasets(tmp_path):
    dataset = pytest.importorskip("pyarrow.dataset")
    a, b = two()
    for i, part in enumerate((a.iloc[:2], a.iloc[2:])):
        pl.DataFrame({c: part[c].to_list() for c in part}).write_parquet(tmp_path / f"{i}.parquet")
    same([dataset.dataset(tmp_path), b])


def test_lists_and_patterns_of_files(tmp_path, duckdb_connection):
    a, b = two()
    files = []
    for i, part in enumerate((a.iloc[:2], a.iloc[2:])):
        files.append(tmp_path / f"part-{i}.parquet")
        pl.DataFrame({c: part[c].to_list() for c in part}).write_parquet(files[-1])
    same([files, b])
    same([str(tmp_path / "part-*.parquet"), b])
    with pytest.raises(ValueError, match="there is no file"):
        Join(tables([*files, tmp_path / "part-9.parquet"], b), using=["k"]).check()


def test_urls_and_engines(postgres, tmp_path):
    import os

    import duckdb

    owner, _ = postgres
    a, b = two()
    schema = f"buttress_{os.getpid()}"
    for name, frame in (("url_a", a), ("url_b", b)):
        store(frame, name, owner.execute, POSTGRES)
    port = owner.info.port
    url = f"postgresql://owner@127.0.0.1:{port}/postgres"
    same([(url, (schema, "url_a")), (url, (schema, "url_b"))])
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as own:
        for name, frame in (("a", a), ("b", b)):
            store(frame, name, own.execute, DUCKDB)
    place = str(tmp_path / "shop.duckdb")
    same([(place, "a"), (place, "b")])
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(url.replace("postgresql", "postgresql+psycopg"))
    same([(engine, (schema, "url_a")), (engine, (schema, "url_b"))])


def check_scores(join, there, execute, model):
    model.fit(join)
    statement = model.to_sql(there, ["id"])
    found = dict(execute(statement).fetchall())
    scores = model.decision_function(join)
    assert len(found) == len(scores)
    np.testing.assert_allclose([found[i] for i in range(len(scores))], scores, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*have no row of the join")
@pytest.mark.parametrize("how", [{}, {"weights": True}, {"left": True}], ids=["plain", "weights", "left"])
@pytest.mark.parametrize("seed", [0, 1, 2, 5])
def test_scores_inside_a_database_are_those_of_predict(duckdb_connection, postgres, seed, how):
    owner, reader = postgres
    join = joined(seed, **how)
    join.tables[0].source["id"] = np.arange(len(join.tables[0].source))
    prefix = f"score{seed}{''.join(how)}"
    model = RelationalLinearSVC(alpha=0.05, random_state=0)
    check_scores(join, in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, prefix),
                 duckdb_connection.execute, model)
    if seed in (1, 2):
        check_scores(join, in_database(join, reader, owner.execute, POSTGRES, prefix), reader.execute, model)
        reader.rollback()


def test_scores_inside_a_database_fill_null_as_in_training(duckdb_connection):
    a, b = two()
    a["id"] = np.arange(4)
    a.loc[1, "x"] = np.nan
    b["c"] = ["u", None, "v", "u"]
    join = Join([Table("a", a, features=["x"], label="y"), Table("b", b, features=["z", "c"])], [("a.k", "b.k")])
    there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "filled")
    check_scores(join, there, duckdb_connection.execute, RelationalLinearSVC(alpha=0.1, missing="mean"))
    model = RelationalLinearSVC(alpha=0.1, missing="mean").fit(join)
    with pytest.raises(ValueError, match="one database"):
        model.to_sql(join)


def check_kept(rows, there, execute, run, spoil):
    """Scores and features are the same where their SELECTs were written while ``spoil`` had taken the values away."""
    timeless = Join(there.tables, there.on, as_of="all")
    model = RelationalLinearSVC(alpha=0.1, missing="mean", random_state=0).fit(timeless)
    made = EntityFeatures(there, missing="mean", engine="sql").fit(rows)
    wanted = np.column_stack([model.decision_function(timeless), made.transform(rows)])
    for name in ("kept_a", "kept_b"):
        execute(f"CREATE TABLE {name}_full AS SELECT * FROM {name}")
        execute(spoil.format(name))
    statements = model.to_sql(timeless, ["id"]), made.to_sql(["id"])
    for name in ("kept_a", "kept_b"):
        execute(f"DELETE FROM {name}")
        execute(f"INSERT INTO {name} SELECT * FROM {name}_full")
    scores, features = ({row[0]: row[1:] for row in run(statement).fetchall()} for statement in statements)
    np.testing.assert_allclose([scores[i] + features[i] for i in rows["id"]], wanted, rtol=1e-9, atol=1e-9)
    for name in ("kept_a", "kept_b"):
        execute(f"DROP TABLE {name}")
        execute(f"DROP TABLE {name}_full")


@pytest.mark.parametrize("spoil", ["DELETE FROM {}", 'UPDATE {} SET x = NULL, vip = NULL, c = NULL, "at" = NULL'],
                         ids=["no rows", "NULL alone"])
def test_selects_that_are_written_before_there_are_values_are_right_later(duckdb_connection, postgres, spoil):
    owner, reader = postgres
    a, b = (pd.DataFrame({"k": [1, 1, 2, 3], "x": [0.5, -1.0, 2.0, 3.0], "vip": [True, False, True, True],
                          "c": ["u", "v", "v", "u"], "at": pd.date_range(day, periods=4)})
            for day in ("2020-01-03", "2020-01-01"))
    a["id"], a["y"] = np.arange(4), [0, 1, 1, 0]
    join = Join([Table("a", a, features=["x", "vip", "c"], label="y"),
                 Table("b", b, features=["x", "vip", "c"], time="at")], [("a.k", "b.k")], as_of="a.at")
    there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, "kept")
    check_kept(a, there, duckdb_connection.execute, duckdb_connection.execute, spoil)
    there = in_database(join, reader, owner.execute, POSTGRES, "kept")
    reader.autocommit = True  # so that no transaction of the reader holds its tables
    try:
        check_kept(a, there, owner.execute, reader.execute, spoil)
    finally:
        reader.autocommit = False


def test_spark_frames_are_scored_where_they_are(spark):
    """One SELECT over Spark's own frames gives what predict gives: fills, categories and rows without a match too."""
    a, b = two()
    a["id"] = np.arange(4)
    a.loc[1, "x"] = np.nan
    b["c"] = ["u", "it's", "v", "u"]
    b["w"] = [1.0, 2.0, 0.5, 3.0]
    b.loc[3, "k"] = 9
    tables = [Table("a", a, features=["x"], label="y"), Table("b", b, features=["z", "c"], weights="w")]
    join = Join(tables, [("a.k", "b.k", "left")])
    kinds = {"i": "BIGINT", "f": "DOUBLE"}
    frames = []
    for table in tables:
        columns = ", ".join(f"{c} {kinds.get(table.source[c].dtype.kind, 'STRING')}" for c in table.source)
        values = table.source.astype(object).where(table.source.notna(), None).to_numpy().tolist()
        frames.append(Table(table.name, spark.createDataFrame(values, columns), features=table.features,
                            label=table.label, weights=table.weights))
    model = RelationalLinearSVC(alpha=0.1, missing="mean", random_state=0).fit(join)
    found = {row[0]: row[1] for row in spark.sql(model.to_sql(Join(frames, join.on), ["id"])).collect()}
    np.testing.assert_allclose([found[i] for i in range(4)], model.decision_function(join), atol=1e-12)


TABLE = '[[table]]\nname = "a"\nsource = "a.csv"\nfeatures = ["x"]\nlabel = "y"\n'


@pytest.mark.parametrize(("text", "message"), [
    ("table = 3", r"table of joins.toml must be tables, each under \[\[table\]\]. Got 3"),
    ("table = [3]", r"table of joins.toml must be tables"),
    ("on = 3\n" + TABLE, "on must be a list of pairs .* Got 3"),
    ("on = [3]\n" + TABLE, "Each entry of on must be .* Got 3"),
    ('on = [["a.x", 4]]\n' + TABLE, r"Each entry of on must be .* Got \['a.x', 4\]"),
    ('max_bag_rows = "many"\n' + TABLE, "max_bag_rows of joins.toml must be a whole number"),
    ("as_of = 2020-01-01\n" + TABLE, "as_of of joins.toml must be 'table.column'"),
    (TABLE.replace('"a.csv"', "5"), r"source of a \[\[table\]\] of joins.toml must be text. Got 5"),
    (TABLE.replace('"a"', "5"), "name of a .* must be text"),
    (TABLE.replace('"y"', '["y"]'), "label of a .* must be text"),
    (TABLE.replace('["x"]', '"x"'), "features of a .* must be a list of columns"),
    (TABLE.replace('["x"]', "[3]"), "features of a .* must be a list of columns"),
])
def test_entries_of_another_kind_in_a_toml_file_are_named(text, message, tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,0\n2,1\n", encoding="utf-8")
    (tmp_path / "joins.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_join(tmp_path / "joins.toml")
