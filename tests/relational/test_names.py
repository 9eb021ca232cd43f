"""Names that a database would take for something else: columns that differ in case, tables named like files."""

import duckdb
import numpy as np
import pandas as pd
import pytest

from buttress.relational import Join, RelationalLinearSVC, Table


def two_cases():
    rng = np.random.default_rng(0)
    a = pd.DataFrame({"k": np.arange(60) % 10, "x": rng.normal(size=60), "X": rng.normal(size=60)})
    a["y"] = np.where(a.X > 0, 1, -1)
    b = pd.DataFrame({"k": np.arange(10), "z": rng.normal(size=10)})
    return Join([Table("a", a, features=["x", "X"], label="y"), Table("b", b, features=["z"])], on=[("a.k", "b.k")])


def test_columns_that_differ_in_case_are_two_in_process_and_refused_by_duckdb():
    model = RelationalLinearSVC(engine="memory").fit(two_cases())
    found = dict(zip(model.coef_names_, model.coef_[0], strict=True))
    assert abs(found["a.X"]) > 5 * abs(found["a.x"])
    with pytest.raises(ValueError, match=r"takes columns 'x' and 'X' of table 'a' for one\. Rename"):
        RelationalLinearSVC(engine="sql").fit(two_cases())


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
