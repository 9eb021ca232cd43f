"""Declaring joins, their trees and samples, and everything that can be wrong with them."""


import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relational_problems import chain, joined, materialise
from scipy.stats import chisquare
from sklearn.datasets import load_iris

from buttress import AdversarialSVC, KernelClassifier
from buttress.relational import Join, JoinSampler, RelationalLinearSVC, Table, alpha_path, describe
from buttress.relational.plan.prepare import prepare
from buttress.relational.plan.tree import cyclic_core, spanning_tree
from buttress.relational.sources.tables import read_columns


@given(st.lists(st.frozensets(st.integers(0, 5), min_size=1, max_size=4), min_size=1, max_size=6))
@settings(max_examples=300, deadline=None)
def test_ear_removal_and_the_spanning_tree_agree(edges):
    tree = spanning_tree(edges)
    assert (tree is not None) == (len(cyclic_core(edges)) == 1)
    if tree is not None:  # running intersection: each vertex's tables hang together
        for v in frozenset().union(*edges):
            holders = {e for e in range(len(edges)) if v in edges[e]}
            assert sum(tree.parent[e] not in holders for e in holders) == 1


def cycle(m, rows, rng, keys=4):
    """A cycle of m tables, each with two keys and a feature."""
    frames = [pd.DataFrame({"a": rng.integers(0, keys, rows), "b": rng.integers(0, keys, rows),
                            "x": rng.normal(size=rows)}) for _ in range(m)]
    frames[0]["y"] = np.arange(rows) % 2
    tables = [Table(f"t{i}", f, features=["x"], label="y" if i == 0 else None) for i, f in enumerate(frames)]
    return Join(tables, [(f"t{i}.b", f"t{(i + 1) % m}.a") for i in range(m)]), frames


@pytest.mark.parametrize("m", [3, 4, 5])
def test_a_cyclic_join_is_its_brute_force(m):
    join, frames = cycle(m, 10, np.random.default_rng(m))
    rows = frames[0].add_suffix("0")
    for i in range(1, m):
        left, right = [f"b{i - 1}"], [f"a{i}"]
        if i == m - 1:
            left, right = [*left, "a0"], [*right, f"b{i}"]
        rows = rows.merge(frames[i].add_suffix(str(i)), left_on=left, right_on=right)
    assert prepare(join).n_rows == len(rows)
    model = RelationalLinearSVC(row_weight="join", alpha=0.01, random_state=0).fit(join)
    X = rows[[f"x{i}" for i in range(m)]].to_numpy()
    score = X @ model.coef_[0] + model.intercept_[0]
    assert model.score(join) == pytest.approx(np.mean((score > 0) == (rows["y0"] == 1)))
    scale = np.concatenate([table.scale for table in prepare(join).tables])
    beta = np.append(model.coef_[0] * scale, model.intercept_)
    objective = np.maximum(0, 1 - np.where(rows["y0"] == 1, 1, -1) * score).mean() + 0.01 * beta @ beta
    low, high = model.objective_interval_
    assert low - 1e-9 <= objective <= high + 1e-9


def test_the_bag_of_a_triangle_is_said_and_bounded():
    join, _ = cycle(3, 12, np.random.default_rng(1))
    found = describe(join)
    assert found.base_rows == {"t0": 12, "t1": 12, "t2": 12}
    assert "joined beforehand" in str(found)
    join.max_bag_rows = 2
    with pytest.raises(ValueError, match="max_bag_rows=2"):
        prepare(join)


@pytest.mark.parametrize("seed", range(6))
def test_a_description_counts_exactly(seed):
    join = joined(seed)
    found = describe(join)
    assert found.n_join_rows == len(materialise(join))
    assert set(found.edges.values()) <= {"exact", "sketched"}
    assert f"{found.n_join_rows:,}" in repr(found)
    with pytest.raises(ValueError, match="memory_limit"):
        describe(join, 0)


def test_a_description_reads_keys_alone(monkeypatch):
    """What a join costs is asked before there is room for its features."""
    join = joined(1)
    names = []

    def noted(source, wanted):
        names.extend(wanted)
        return read_columns(source, wanted)

    monkeypatch.setattr("buttress.relational.plan.prepare.read_columns", noted)
    found = describe(join)
    assert set(names) == {key.split(".")[1] for pair in join.on for key in pair[:2]}
    assert found.n_join_rows == len(materialise(join))
    assert "(root, has the label)" in str(found)


def test_keys_are_exact_and_fan_outs_are_sketched():
    a = pd.DataFrame({"k": [1, 2], "j": [1, 1], "y": [0, 1]})
    unique, many = pd.DataFrame({"k": [1, 2], "x": [0.0, 1.0]}), pd.DataFrame({"j": [1, 1], "z": [0.0, 1.0]})
    join = Join([Table("a", a, label="y"), Table("one", unique, features=["x"]), Table("many", many, features=["z"])],
                [("a.k", "one.k"), ("a.j", "many.j")])
    assert describe(join).edges == {"one": "exact", "many": "sketched"}


# Sampling


@pytest.mark.parametrize("how", [{}, {"left": True}], ids=["inner", "left"])
@pytest.mark.parametrize("seed", range(6))
def test_unranking_is_a_bijection_onto_the_join(seed, how):
    join = joined(seed, **how)
    sampler = JoinSampler(join)
    rows = materialise(join)
    found = pd.DataFrame(sampler.rows(range(sampler.n_rows_)))
    expected = rows[[f"{t.name}.#" for t in join.tables]].fillna(-1).astype(int)
    assert sampler.n_rows_ == len(rows)
    assert not found.duplicated().any()
    assert set(map(tuple, found.to_numpy().tolist())) == set(map(tuple, expected.to_numpy().tolist()))
    X, _ = sampler.take([0, sampler.n_rows_ - 1])
    assert X.shape == (2, len(sampler.feature_names_))


def test_unranking_beyond_two_to_the_63():
    sampler = JoinSampler(chain(100, 100, 10), random_state=0)
    assert sampler.n_rows_ == 100**10
    numbers = [0, 12345678901234567890, 100**10 - 1]
    found = sampler.rows(np.array(numbers, dtype=object))
    assert found["t0"].tolist() == [n // 100**9 for n in numbers]
    _, y = sampler.sample(100)
    assert len(set(y)) == 2


@pytest.mark.parametrize("weighted", [False, True])
def test_samples_follow_the_weights(weighted):
    join = joined(1, weights=True, nulls=False)
    rows = materialise(join)
    weight = np.prod([rows[f"{t.name}.w"] for t in join.tables], axis=0) if weighted else np.ones(len(rows))
    sampler = JoinSampler(join, weighted=weighted, random_state=0)
    X, _ = sampler.sample(20_000)
    everything, _ = sampler.take(range(sampler.n_rows_))
    place = pd.DataFrame(sampler.rows(range(sampler.n_rows_))).apply(tuple, axis=1)
    order = {key: i for i, key in enumerate(rows[[f"{t.name}.#" for t in join.tables]].apply(tuple, axis=1))}
    chance = weight[[order[key] for key in place]]
    kinds, kind = np.unique(everything.round(9), axis=0, return_inverse=True)
    wanted = np.bincount(kind.reshape(-1), chance) * len(X) / chance.sum()
    both = np.unique(np.vstack([kinds, X.round(9)]), axis=0, return_inverse=True)[1].reshape(-1)
    assert both.max() == len(kinds) - 1  # nothing is drawn that is not a row
    seen = np.bincount(both[len(kinds):], minlength=len(kinds))
    assert not seen[wanted == 0].any()
    assert chisquare(seen[wanted > 0], wanted[wanted > 0]).pvalue > 1e-4


def test_other_estimators_train_on_drawn_rows():
    """Iris split in two tables: robust classifiers of the array world learn from a join."""
    X, y = load_iris(return_X_y=True)
    number = np.arange(len(y))
    sepal = pd.DataFrame({"id": number, "length": X[:, 0], "width": X[:, 1], "y": y == 0})
    petal = pd.DataFrame({"id": number, "length": X[:, 2], "width": X[:, 3]})
    join = Join([Table("sepal", sepal, features=["length", "width"], label="y"),
                 Table("petal", petal, features=["length", "width"])], [("sepal.id", "petal.id")])
    sampler = JoinSampler(join, random_state=0)
    (A, a), (B, b) = sampler.sample(80), sampler.sample(80)
    for model in (AdversarialSVC(eps=0.05, n_landmarks=20, random_state=0), KernelClassifier()):
        assert model.fit(A, a).score(B, b) > 0.9
    again = JoinSampler(join, random_state=0).sample(80)
    np.testing.assert_array_equal(again[0], A)


# Mistakes


def tables():
    a = pd.DataFrame({"k": [1, 1, 2, 3], "x": [0.5, 1.0, -1.0, 2.0], "y": [0, 1, 0, 1], "w": [1.0, 2.0, 1.0, 1.0]})
    b = pd.DataFrame({"k": [1, 2, 3], "z": [1.0, 2.0, 3.0], "name": ["r", "g", "r"], "t": pd.to_datetime(["2020"] * 3)})
    return a, b


def declare(a, b, on=(("a.k", "b.k"),), weights=None, features=("z",), label="y"):
    return Join([Table("a", a, features=["x"], label=label, weights=weights), Table("b", b, features=list(features))],
                on)


def spoiled(which, column, value, row=0):
    frames = dict(zip("ab", tables()))
    frame = frames[which].astype({column: object} if isinstance(value, str) else {})
    frame.loc[row, column] = value
    frames[which] = frame
    return frames["a"], frames["b"]


def both_weighted(*factors):
    """Return a join of tables whose weights are about some factors, the first one's in two tables."""
    a, b = tables()
    others = [Table(f"b{i}", b.assign(w=factor * b["z"]), features=["z"], weights="w")
              for i, factor in enumerate(factors)]
    return Join([Table("a", a.assign(w=factors[0] * a["w"]), features=["x"], label="y", weights="w"), *others],
                [("a.k", f"b{i}.k") for i in range(len(factors))])


MISTAKES = {
    "missing column": (lambda: declare(*tables(), features=["zz"]), "Did you mean 'z'"),
    "missing key": (lambda: declare(*tables(), on=[("a.k", "b.kk")]), "Did you mean 'k'"),
    "missing table": (lambda: declare(*tables(), on=[("a.k", "bb.k")]), "with one of the tables a, b"),
    "not a pair": (lambda: declare(*tables(), on=[("a.k",)]), "Each entry of on"),
    "joined to itself": (lambda: declare(*tables(), on=[("a.k", "a.x")]), "with itself"),
    "not joined": (lambda: declare(*tables(), on=[]), "not joined"),
    "NaN feature": (lambda: declare(*spoiled("b", "z", np.nan)), "Feature b.z is NULL or NaN in 1 rows"),
    "inf feature": (lambda: declare(*spoiled("b", "z", np.inf)), "b.z holds inf"),
    "a time": (lambda: declare(*tables(), features=["t"]), "b.t holds times"),
    "empty": (lambda: declare(tables()[0].assign(k=9), tables()[1]), "has no rows"),
    "one class": (lambda: declare(tables()[0].assign(y=1), tables()[1]), "two classes"),
    "three classes": (lambda: declare(tables()[0].assign(y=[0, 1, 2, 2]), tables()[1]), "two classes"),
    "NaN label": (lambda: declare(tables()[0].assign(y=[0, 1, np.nan, 1]), tables()[1]), "Label a.y is NULL"),
    "key types": (lambda: declare(tables()[0].assign(k=["1", "1", "2", "3"]), tables()[1]), "one type"),
    "negative weight": (lambda: declare(*spoiled("a", "w", -1.0), weights="w"), "must be in"),
    "NaN weight": (lambda: declare(*spoiled("a", "w", np.nan), weights="w"), "Weights a.w are NULL or NaN in 1 rows"),
    "inf weight": (lambda: declare(*spoiled("a", "w", np.inf), weights="w"), "up to inf in magnitude"),
    "text for weights": (lambda: declare(tables()[0].assign(w="1"), tables()[1], weights="w"), "must be numbers"),
    "tiny weight": (lambda: declare(*spoiled("a", "w", 1e-200), weights="w"), "so far from 1"),
    "tiny weights": (lambda: both_weighted(1e-160), "so far from 1"),
    "huge weights": (lambda: both_weighted(1e99, 1e80), "so far from 1"),
    "tiny feature": (lambda: declare(tables()[0], tables()[1].assign(z=[0.0, 1e-320, -1e-320])),
                     "b.z holds numbers of about 9.99989e-321, too small"),
    "large feature": (lambda: declare(*spoiled("b", "z", 1e200)), "b.z holds 1e\\+200"),
    "a NULL time": (lambda: declare(*spoiled("b", "t", pd.NaT), features=["t"]), "Feature b.t is NULL or NaN in 1"),
    "NULL label of text": (lambda: declare(tables()[0].assign(y=["u", "v", None, "v"]), tables()[1]),
                           "Label a.y is NULL or NaN in 1 rows"),
    "three texts": (lambda: declare(tables()[0].assign(y=["u", "v", "w", "v"]), tables()[1]),
                    "Got 3: u, v, w"),
    "zero weights": (lambda: declare(tables()[0].assign(w=0.0), tables()[1], weights="w"), "weight zero"),
    "twice the same name": (lambda: Join([Table("a", tables()[0], label="y"), Table("a", tables()[1])]), "are called"),
    "two labels": (lambda: Join([Table("a", tables()[0], label="y"), Table("b", tables()[0], label="y")]), "Got 2"),
    "no label": (lambda: declare(*tables(), label=None), "No table"),
    "left the wrong way": (lambda: declare(*tables(), on=[("b.k", "a.k", "left")]), "must lead away"),
    "NUL": (lambda: declare(tables()[0].rename(columns={"w": "w\0"}), tables()[1]), "NUL"),
    "no file": (lambda: Join([Table("a", "absent.parquet", features=["x"], label="y")]), "there is no file"),
    "strange file": (lambda: Join([Table("a", __file__, features=["x"], label="y")]), "must end in"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_mistake_is_named_in_one_text_by_both_engines(mistake):
    pytest.importorskip("duckdb")
    make, message = MISTAKES[mistake]
    refusals = []
    for engine in ("memory", "sql"):
        with pytest.raises(ValueError, match=message) as refused:
            RelationalLinearSVC(engine=engine).fit(make())
        refusals.append(str(refused.value))
    assert refusals[0] == refusals[1]


@pytest.mark.parametrize("row_weight", ["join", "label_row"])
@pytest.mark.parametrize(("n", "fits"), [(60, True), (70, False), (110, False)])
def test_rows_beyond_the_range_of_floats_are_counted_and_not_fitted(n, fits, row_weight):
    a, b = tables()[0].assign(k=1), pd.DataFrame({"k": np.ones(1000)})
    join = Join([Table("a", a, features=["x"], label="y"), *(Table(f"b{i}", b) for i in range(n))],
                [("a.k", f"b{i}.k") for i in range(n)])
    assert describe(join).n_join_rows == 4 * 1000**n
    model = RelationalLinearSVC(alpha=0.1, row_weight=row_weight, random_state=0)
    if not fits:
        with pytest.raises(ValueError, match="so many rows"):
            model.fit(join)
        return
    alone = RelationalLinearSVC(alpha=0.1, random_state=0).fit(Join(join.tables[:1]))
    low, high = model.fit(join).objective_interval_
    assert low <= alone.objective_interval_[1]
    assert alone.objective_interval_[0] <= high


@pytest.mark.parametrize("factor", [-1.0, 1e-101, 1e101, np.inf, np.nan])
def test_factors_of_classes_are_0_or_within_the_range_of_weights(factor):
    with pytest.raises(ValueError, match="class_weight must hold 0 or numbers from 1e-100 to 1e"):
        RelationalLinearSVC(class_weight={0: factor}).fit(declare(*tables()))


@pytest.mark.parametrize(("parameter", "value"), [
    ("alpha", 0), ("alpha", "1"), ("C", -1), ("tol", 0), ("loss", "hing"), ("solver", "atuo"),
    ("row_weight", "rows"), ("n_samples", 0), ("engine", "x"), ("max_iter", 0),
    ("memory_limit", 0),
])
def test_parameters_out_of_range_are_named(parameter, value):
    with pytest.raises(ValueError, match=parameter):
        RelationalLinearSVC(**{parameter: value}).fit(declare(*tables()))


@pytest.mark.parametrize(("parameter", "value", "message"), [
    ("alpha", 1e-188, r"alpha must be in \[1e-100, 1e\+100\]"), ("alpha", 1e101, "alpha must be in"),
    ("C", 1e101, r"alpha = 1 / \(2 C W\) must be in"), ("C", 1e-308, r"alpha = 1 / \(2 C W\) must be in")])
def test_a_ridge_whose_squares_are_no_floats_is_refused(parameter, value, message):
    with pytest.raises(ValueError, match=message):
        RelationalLinearSVC(**{parameter: value}).fit(declare(*tables()))
    with pytest.raises(ValueError, match="alpha must be in"):
        alpha_path(declare(*tables()), [-1.0])


@pytest.mark.parametrize("n_samples", [1, 100])
def test_the_interval_holds_the_optimum_of_the_least_ridge(n_samples):
    """Two rows at -1 and 1 that a line tells apart: the optimum is alpha, at a slope of 1."""
    a, b = pd.DataFrame({"k": [0, 0], "x": [-1.0, 1.0], "y": [0, 1]}), pd.DataFrame({"k": [0, 0]})
    join = Join([Table("a", a, features=["x"], label="y"), Table("b", b)], [("a.k", "b.k")])
    found = RelationalLinearSVC(alpha=1e-100, fit_intercept=False, n_samples=n_samples, random_state=0).fit(join)
    low, high = found.objective_interval_
    assert low <= 1e-100 <= high


def test_wrong_arguments_of_table_and_fit():
    with pytest.raises(ValueError, match="must be a list"):
        Table("a", None, features="x")
    with pytest.raises(ValueError, match="non-empty"):
        Table("a\0", None)
    with pytest.raises(ValueError, match="fitted to a Join"):
        RelationalLinearSVC().fit(np.zeros((3, 2)))


def test_null_keys_are_dropped_and_said():
    a, b = tables()
    a["k"] = a["k"].astype("Int64").mask([False, True, False, False])
    join = declare(a, b)
    assert prepare(join).n_rows == 3
    assert "1 rows of a have a NULL key" in str(describe(join))


def test_joined_rows_are_a_frame_or_an_array_in_the_order_of_the_features():
    """A sampler's rows have a column of ones in place of a text with one value."""
    a = pd.DataFrame({"k": range(8), "x": [-3.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0], "y": [0, 0, 0, 0, 1, 1, 0, 1]})
    b = pd.DataFrame({"k": range(8), "land": ["here"] * 8})
    join = Join([Table("a", a, features=["x"], label="y"), Table("b", b, features=["land"])], on=[("a.k", "b.k")])
    model = RelationalLinearSVC(alpha=0.01, fit_intercept=False, random_state=0).fit(join)
    assert list(model.coef_names_) == ["a.x", "b.land=here"]
    assert abs(model.coef_[0, 1]) > 1e-3
    frame = pd.DataFrame({"a.x": a["x"], "b.land": b["land"]})
    expected = a["x"] * model.coef_[0, 0] + model.coef_[0, 1]
    for rows in (frame, frame.to_numpy()):
        np.testing.assert_allclose(model.decision_function(rows), expected)
    np.testing.assert_allclose(np.sort(JoinSampler(join).take(range(8))[0] @ model.coef_[0]), np.sort(expected))


def test_predicting_names_what_is_missing():
    model = RelationalLinearSVC(alpha=0.1, random_state=0).fit(declare(*tables(), features=["z", "name"]))
    assert list(model.coef_names_) == ["a.x", "b.z", "b.name=g", "b.name=r"]
    good = pd.DataFrame({"a.x": [1.0], "b.z": [2.0], "b.name": ["unseen"]})
    assert model.predict(good).shape == (1,)
    with pytest.raises(ValueError, match=r"no column 'b\.z'"):
        model.predict(good.drop(columns="b.z"))
    with pytest.raises(ValueError, match="NULL or NaN in 1 rows"):
        model.predict(good.assign(**{"a.x": np.nan}))
    with pytest.raises(ValueError, match="3 columns"):
        model.predict(np.zeros((2, 5)))
    with pytest.raises(ValueError, match=r"no feature 'b\.name'"):
        model.decision_function(declare(*tables()))
    with pytest.raises(ValueError, match="Row numbers"):
        JoinSampler(declare(*tables())).take([99])
