"""Names that a database would take for something else: columns that differ in case, tables named like files."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from relational_problems import design, joined, materialise
from relational_storage import in_database, in_spark, store

from buttress.relational import EntityFeatures, Join, RelationalLinearSVC, Table
from buttress.relational.counting.grid import grid_oracle
from buttress.relational.counting.margins import margin_loss
from buttress.relational.plan.plan import weigh
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources.dialects import DUCKDB, POSTGRES
from buttress.relational.sql.oracle import SqlOracle
from buttress.relational.sql.text import own_prefix
from buttress.relational.stream import streamed

ALIKE = [("age", "Age"), ('a "b"', 'A "B"'), ("two words", "Two Words"), ("é", "É"), ("it's", "It's"),
         ("x", "X", "X_1"), ("c0", "C0", "c1"), ("ſ", "s", "S")]


def two_cases(seed, columns=2):
    """A join whose columns are called alike but for their case, in any order and among others, and some of them."""
    rng = np.random.default_rng(seed)
    names = list(ALIKE[seed % len(ALIKE)])
    asked = names[-1:] if columns == 1 else names
    rows = {name: rng.normal(size=60) for name in names} | {name: rng.normal(size=60) for name in ("other", "more")}
    rows |= {"k": np.arange(60) % 10, "K": rng.integers(0, 10, 60), "id": np.arange(60), "Y": rng.integers(0, 2, 60)}
    rows["y"] = np.where(rows[asked[-1]] + rng.normal(scale=0.5, size=60) > 0, 1, -1)
    a = pd.DataFrame({name: rows[name] for name in rng.permutation(list(rows))})
    below = {"k": rng.integers(0, 10, 30), "K": np.arange(30), "v": rng.normal(size=30), "V": rng.normal(5, 1, 30)}
    b = pd.DataFrame({name: below[name] for name in rng.permutation(list(below))})
    return Join([Table("a", a, features=asked, label="y"), Table("b", b, features=["V", "v"][:columns])],
                on=[("a.k", "b.k")])


def in_polars(join):
    tables = [Table(t.name, pl.DataFrame({name: t.source[name].to_list() for name in t.source}), features=t.features,
                    label=t.label) for t in join.tables]
    return Join(tables, join.on)


def check_fits(here, there, engines):
    """A fit and the features of entities are those of the frames in this process."""
    wanted = RelationalLinearSVC(alpha=0.05, engine="memory", random_state=0).fit(here)
    rows = here.tables[0].source
    features = EntityFeatures(here, engine="memory").fit_transform(rows)
    for engine in engines:
        model = RelationalLinearSVC(alpha=0.05, engine=engine, random_state=0).fit(there)
        assert list(model.coef_names_) == list(wanted.coef_names_)
        np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-2)
        low, high = model.objective_interval_
        assert low <= wanted.objective_interval_[1]
        assert wanted.objective_interval_[0] <= high
    np.testing.assert_allclose(EntityFeatures(there, engine="sql").fit_transform(rows), features, atol=1e-9)


@pytest.mark.parametrize(("seed", "columns"), [(0, 1), (3, 1), *((seed, 2) for seed in range(len(ALIKE)))])
def test_columns_that_differ_in_case_are_told_apart_in_frames(seed, columns):
    join = two_cases(seed, columns)
    check_fits(join, join, ["sql", "stream"])


@pytest.mark.parametrize("seed", range(len(ALIKE)))
def test_columns_of_polars_that_differ_in_case_are_told_apart(seed):
    pytest.importorskip("pyarrow", reason="by which DuckDB reads polars frames")
    join = two_cases(seed)
    check_fits(join, in_polars(join), ["sql"])


def test_polars_without_pyarrow_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setattr("buttress.relational.sources.tables.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        RelationalLinearSVC(engine="sql").fit(in_polars(two_cases(0)))


@pytest.mark.filterwarnings("ignore:.*have no row of the join")
@pytest.mark.parametrize("seed", range(8))
def test_postgres_tells_columns_apart_that_differ_in_case(postgres, seed):
    owner, reader = postgres
    join = two_cases(seed)
    there = in_database(join, reader, owner.execute, POSTGRES, f"case{seed}")
    check_fits(join, there, ["memory", "sql"])
    check_scores(join, there, reader.execute)
    reader.rollback()


def test_spark_does_not_and_says_so(spark):
    join = two_cases(0)
    join.tables[0].features = ["age"]
    with pytest.raises(ValueError, match=r"Spark takes columns '(\w+)' and '(?i:\1)' of table 'a' for one\. Rename"):
        RelationalLinearSVC().fit(in_spark(join, spark, "case"))


def written(frame, path):
    frame = pl.DataFrame({name: frame[name].to_list() for name in frame})
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_files_with_columns_that_differ_in_case_are_refused(kind, engine, tmp_path):
    """DuckDB renames the second one: Age becomes Age_1, and Age_1 becomes Age_1_1."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.normal(size=40) for name in ("age", "Age", "Age_1")})
    frame["y"] = np.where(frame["Age_1"] > 0, 1, -1)
    path = written(frame, tmp_path / f"a.{kind}")
    for name in ("age", "Age", "Age_1"):
        with pytest.raises(ValueError, match=r"takes columns 'age' and 'Age' of 'a.* for one"):
            RelationalLinearSVC(engine=engine).fit(Join([Table("a", path, features=[name], label="y")]))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_files_with_a_column_called_as_their_folder_are_refused(kind, engine, tmp_path):
    """DuckDB would give every row of run=3/a.csv the run 3, whatever the file says."""
    (tmp_path / "Run=3").mkdir()
    frame = pd.DataFrame({"run": np.linspace(0, 1, 40), "x": np.arange(40.0) % 7, "y": np.repeat([-1, 1], 20)})
    path = written(frame, tmp_path / "Run=3" / f"a.{kind}")
    with pytest.raises(ValueError, match=r"takes column 'run' of .* from the name of a folder"):
        RelationalLinearSVC(engine=engine).fit(Join([Table("a", path, features=["run"], label="y")]))
    path = written(frame.rename(columns={"run": "walk"}), tmp_path / "Run=3" / f"b.{kind}")
    RelationalLinearSVC(engine=engine).fit(Join([Table("b", path, features=["walk"], label="y")]))


@pytest.mark.parametrize("header", ["a,a ,a_1,y", 'a," a",a_1,y', "x,a ,a,y", "A ,a,x,y"])
def test_files_of_text_with_columns_that_differ_in_spaces_are_refused(header, tmp_path):
    """DuckDB drops the spaces and renames the second one: a_1 would be the second column, and a the first of two."""
    rows = [f"{i},{10 * i},{100 * i},{i % 2}" for i in range(9)]
    (tmp_path / "a.csv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    for name in ("a", "a_1"):
        with pytest.raises(ValueError, match=r"takes columns '(A|a) ?' and ' ?a ?' of 'a\.csv' for one"):
            RelationalLinearSVC().fit(Join([Table("a", tmp_path / "a.csv", features=[name], label="y")]))


FORMS = [("\u00e9", "e\u0301"), ("\u212b", "\u00c5", "A\u030a"), ("\ufb01", "fi"), ("a b", "a\u00a0b"),
         ("a", "a\u200b"), ("\u0130", "\u0131", "i2"), ("\u00df", "ss", "\u1e9e")]


@pytest.mark.parametrize("names", FORMS, ids=ascii)
def test_forms_of_unicode_that_look_alike_are_told_apart_everywhere(names, duckdb_connection, postgres, tmp_path):
    owner, reader = postgres
    rng = np.random.default_rng(0)
    a = pd.DataFrame({name: rng.normal(size=60) for name in names})
    a["k"], a["y"] = np.arange(60) % 10, np.where(a[names[-1]] > 0, 1, -1)
    b = pd.DataFrame({"k": np.arange(20) % 10, **{name: rng.normal(size=20) for name in names}})
    join = Join([Table("a", a, features=names[1:], label="y"), Table("b", b, features=names[:1])], [("a.k", "b.k")])
    prefix = f"form{FORMS.index(names)}"
    check_fits(join, join, ["sql", "stream"])
    there = in_database(join, duckdb_connection, duckdb_connection.execute, DUCKDB, prefix)
    check_fits(join, there, ["memory", "sql"])
    check_fits(join, in_database(join, reader, owner.execute, POSTGRES, prefix), ["memory", "sql"])
    reader.rollback()
    for kind in ("csv", "parquet"):
        files = [Table(t.name, written(t.source, tmp_path / f"{t.name}.{kind}"), features=t.features, label=t.label)
                 for t in join.tables]
        check_fits(join, Join(files, join.on), ["memory", "sql"])


def test_a_file_whose_columns_match_the_first_but_for_their_case_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=40), "y": np.arange(40) % 2})
    written(frame, tmp_path / "a.parquet")
    written(pd.DataFrame({"X": -9.0 * frame["x"], **frame}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"takes columns 'X' and 'x' of 'b\.parquet' for one"):
        RelationalLinearSVC().fit(Join([Table("a", str(tmp_path / "*.parquet"), features=["x"], label="y")]))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("names", [("x", "x_1", "X_2"), ("é", "É", "É_1"), ('a "b"', "two words", "it's"),
                                   ("a,b", "a_1")])
def test_files_with_names_that_look_renamed_are_read(kind, names, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.normal(size=40) for name in names})
    frame["y"] = np.where(frame[names[1]] > 0, 1, -1)
    if kind == "parquet":
        frame["parts"] = [[1, 2]] * 40
        frame["y_1"] = 0.5
    path = written(frame, tmp_path / f"a.{kind}")
    here = RelationalLinearSVC(alpha=0.05, random_state=0).fit(Join([Table("a", frame, features=names, label="y")]))
    for engine in ("memory", "sql"):
        there = Join([Table("a", path, features=names, label="y")])
        model = RelationalLinearSVC(alpha=0.05, random_state=0, engine=engine).fit(there)
        np.testing.assert_allclose(model.coef_, here.coef_, atol=1e-2)


@pytest.mark.parametrize("name", ["rows.csv", "*.csv", "./rows.csv"])
def test_the_name_of_a_table_never_reads_a_file(name, tmp_path, monkeypatch):
    pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [1, -1, 1]}).to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as connection, pytest.raises(ValueError, match="has no table"):
        RelationalLinearSVC().fit(Join([Table("a", (connection, name), features=["x"], label="y")], on=[]))


def test_a_table_may_be_named_like_a_file():
    with duckdb.connect() as connection:
        connection.execute('CREATE TABLE "rows.csv" AS SELECT i AS x, 2 * (i % 2) - 1 AS y FROM range(40) t(i)')
        table = Table("a", (connection, "rows.csv"), features=["x"], label="y")
        model = RelationalLinearSVC().fit(Join([table], on=[]))
    assert model.n_join_rows_ == 40


def test_a_name_that_may_be_of_two_tables_is_refused():
    one = pd.DataFrame({"b.c": [1.0, 2.0], "y": [1, -1]})
    other = pd.DataFrame({"c": [1.0, 2.0]})
    join = Join([Table("a", one, label="y"), Table("a.b", other, features=["c"])], on=[("a.b.c", "a.b.c")])
    with pytest.raises(ValueError, match=r"'a\.b\.c' may be column 'b\.c' of table 'a' and column 'c' of table 'a\.b'"):
        RelationalLinearSVC().fit(join)


PARTS = [("t3", "t2", "t1", "t0"), ("keys", "w", "asked", "digit"),
         ("buttress_t1", "BUTTRESS_M0", "buttress__r2", "buttress_asked")]


def check_pass(join, there):
    """A pass as SQL, one over streamed rows, all rows listed and a sample are of the join's rows."""
    plan, rows = prepare(join), materialise(join)
    X, y, _ = design(join, plan, rows)
    weigh(plan, "label_row", None)
    beta = np.random.default_rng(0).normal(size=plan.width)
    wanted = grid_oracle(plan, fold=False).at_step(beta, margin_loss("logistic"), 0.0371)
    sql = SqlOracle(there, per_label_row=True)
    for oracle in (sql, streamed(sql, 100)):
        found = oracle.at_step(beta, margin_loss("logistic"), 0.0371)
        assert found.a == pytest.approx(wanted.a, abs=1e-12)
        np.testing.assert_allclose(found.b, wanted.b, atol=1e-12)
    assert sql.listed().total == pytest.approx(sql.total, rel=1e-12)
    known = set(map(tuple, np.column_stack([X, y]).round(9)))
    X_drawn, y_drawn, _ = sql.sample(100, None)
    assert set(map(tuple, np.column_stack([X_drawn, y_drawn]).round(9))) <= known


def check_scores(join, there, run):
    """Scores, mean features and features of entities by SELECT are those of the frames."""
    rows = join.tables[0].source
    model = RelationalLinearSVC(alpha=0.05, random_state=0).fit(join)
    found = dict(run(model.to_sql(there, ["id"])).fetchall())
    np.testing.assert_allclose([found[i] for i in rows["id"]], model.decision_function(join), atol=1e-12)
    means = [RelationalLinearSVC(alpha=0.05, objective="mean", engine=engine, tol=1e-8).fit(place)
             for engine, place in (("memory", join), ("sql", there))]
    np.testing.assert_allclose(means[1].coef_, means[0].coef_, atol=1e-4)
    here = EntityFeatures(join).fit(rows)
    made = EntityFeatures(there, engine="sql").fit(rows)
    np.testing.assert_allclose(made.transform(rows), here.transform(rows), rtol=1e-9, atol=1e-9)
    values = {row[0]: row[1:] for row in run(made.to_sql(["id"])).fetchall()}
    np.testing.assert_allclose([values[i] for i in rows["id"]], here.transform(rows), rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*have no row of the join")
@pytest.mark.parametrize("names", PARTS, ids=" ".join)
@pytest.mark.parametrize("engine", ["DuckDB", "PostgreSQL"])
def test_tables_are_told_from_the_parts_of_our_selects(duckdb_connection, request, engine, names):
    """Tables called as our common table expressions are, or would be without their prefix, or like the prefix."""
    connection, write, dialect = duckdb_connection, duckdb_connection.execute, DUCKDB
    if engine == "PostgreSQL":
        owner, connection = request.getfixturevalue("postgres")
        write, dialect = owner.execute, POSTGRES
    join = joined(4, shape="star", left=True)
    join.tables[0].source["id"] = np.arange(len(join.tables[0].source))
    tables = []
    for table, name in zip(join.tables, names, strict=True):
        store(table.source, name, write, dialect)
        tables.append(Table(table.name, (connection, name), features=table.features, label=table.label))
    there = Join(tables, join.on)
    check_pass(join, there)
    check_scores(join, there, connection.execute)
    if engine == "PostgreSQL":
        connection.rollback()
    for name in names:
        write(f"DROP TABLE {dialect.table(name)}")


def test_our_prefix_is_in_no_name_of_the_tables():
    assert own_prefix(['"orders"', '"t1"']) == "buttress_"
    assert own_prefix(['"shop"."Buttress_orders"']) == "buttress__"
    assert own_prefix(['"buttress_"', '"x_buttress___y"']) == "buttress____"


@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT", "by default"])
def test_a_collation_of_a_column_is_not_asked_which_texts_are_equal(collation):
    """Frames and every engine tell texts apart that DuckDB takes for one there: in keys, categories and labels."""
    rng, db = np.random.default_rng(0), duckdb.connect()
    texts = np.array(["anna", "Anna", "ánna", "bo", "BO", "bö"])
    people = pd.DataFrame({"name": rng.choice(texts, 80), "age": rng.normal(size=80)})
    people["left"] = np.where(people["age"] + rng.normal(size=80) > 0, "yes", "no")
    visits = pd.DataFrame({"person": texts, "kind": ["x", "X", "x", "é", "e", "X"], "minutes": rng.normal(size=6)})
    collate = "" if collation == "by default" else f"COLLATE {collation}"
    if not collate:
        db.execute("SET default_collation = 'NOCASE'")
    for name, frame in (("people", people), ("visits", visits)):
        kinds = [f'"{c}" ' + (f"VARCHAR {collate}" if frame[c].dtype.kind != "f" else "DOUBLE") for c in frame]
        db.execute(f"CREATE TABLE {name} ({', '.join(kinds)})")
        db.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(kinds))})", frame.to_numpy().tolist())

    def join(sources):
        return Join([Table("people", sources[0], features=["age"], label="left"),
                     Table("visits", sources[1], features=["kind", "minutes"])], on=[("people.name", "visits.person")])

    here, there = join((people, visits)), join(((db, "people"), (db, "visits")))
    for engine in ("sql", "stream"):
        model = RelationalLinearSVC(alpha=1e-2, engine=engine, random_state=0).fit(there)
        assert model.n_join_rows_ == len(people.merge(visits, left_on="name", right_on="person"))
        assert [name[-1] for name in model.coef_names_ if "kind=" in name] == ["X", "e", "x", "é"]
        scored = [row[-1] for row in db.execute(model.to_sql(there, ["age"])).fetchall()]
        np.testing.assert_allclose(np.sort(scored), np.sort(model.decision_function(here)), atol=1e-12)
    made = EntityFeatures(here, ["count", "share"], engine="memory").fit(people)
    asked = EntityFeatures(there, ["count", "share"], engine="sql").fit(people)
    np.testing.assert_allclose(asked.transform(people), made.transform(people))
