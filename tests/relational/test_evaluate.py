"""evaluate: queries over random joins against the rows listed by pandas."""

from functools import reduce
from math import gcd

import numpy as np
import pandas as pd
import pytest
from relational_problems import chain, materialise, random_join

from buttress.relational import Join, Table, evaluate, score_thresholds, semiring
from buttress.relational.counting import lists
from buttress.relational.counting.queries import group_entries

RINGS = {
    "counting": (lambda a, b: a + b, lambda a, b: a * b, 0.0, lambda v: np.round(4 * v)),
    "sum-product": (lambda a, b: a + b, lambda a, b: a * b, 0.0, lambda v: v),
    "min-plus": (min, lambda a, b: a + b, np.inf, lambda v: v),
    "max-plus": (max, lambda a, b: a + b, -np.inf, lambda v: v),
    "max-product": (max, lambda a, b: a * b, 0.0, np.abs),
    "boolean": (max, lambda a, b: a * b, 0.0, lambda v: v > -1),
    "own": (gcd, lambda a, b: a * b // gcd(a, b) if a and b else 0, 0, lambda v: [1 + int(abs(8 * x)) for x in v]),
}


def listed(rows, add, term, zero, chosen, form, functions):
    parts = [np.asarray(f(rows[key].to_numpy(float)), dtype=object) for key, f in functions.items()]
    total = zero
    for row in np.flatnonzero(chosen):
        total = add(total, reduce(term if form == "product" else add, [part[row] for part in parts]))
    return total


@pytest.mark.parametrize("seed", range(100))
def test_every_ring_and_form_agrees_with_the_listed_join(seed):
    join = random_join(seed, rows=7)
    rows = materialise(join)
    if not len(rows):
        assert all(evaluate(join, ring).value == zero for ring, (_, _, zero, _) in RINGS.items() if ring != "own")
        return
    rng = np.random.default_rng(seed)
    names = [f"{table.name}.x{rng.integers(2)}" for table in join.tables]
    name = list(RINGS)[seed % len(RINGS)]
    add, multiply, zero, function = RINGS[name]
    ring = semiring(add, multiply, zero=zero, one=1) if name == "own" else name
    functions = dict.fromkeys(names, function)
    coefficients = {key: float(rng.integers(-3, 4)) for key in names}
    score = sum(np.round(64 * rows[key].to_numpy(float)) * c for key, c in coefficients.items())
    where = {key: lambda v, c=c: np.round(64 * v) * c for key, c in coefficients.items()}  # whole numbers: no rounding
    for threshold in (None, float(np.median(score)), -1e9):
        chosen = np.ones(len(rows), dtype=bool) if threshold is None else score <= threshold
        for form in ("product", "sum"):
            found = evaluate(join, ring, functions, form=form, where=None if threshold is None else (where, threshold))
            wanted = listed(rows, add, multiply, zero, chosen, form, functions)
            assert found.value == pytest.approx(float(wanted), rel=1e-9, abs=1e-9), (form, threshold)
            assert found.sure == found.value == found.possible
            assert found.score_error == 0


def test_counting_without_functions_is_the_number_of_rows():
    join = chain(300, 300, 5)
    assert evaluate(join).value == 300.0**5


def test_a_sketched_join_says_how_far_the_scores_may_be_off(monkeypatch):
    join = chain(40, 20, 4)
    names = [f"{table.name}.x0" for table in join.tables]
    where = (dict.fromkeys(names, 1.0), 0.25)
    exact = evaluate(join, where=where)
    monkeypatch.setattr(lists, "MOST_ENTRIES", 10_000)
    rough = evaluate(join, where=where)
    assert exact.score_error == 0 < rough.score_error < 0.1
    assert rough.sure <= exact.value <= rough.possible
    assert rough.sure < rough.possible
    rows = materialise(join)
    assert exact.value == (rows[names].sum(axis=1) <= 0.25).sum()


@pytest.mark.parametrize("eps", [0.3, 0.05])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_sketches_are_within_the_factor_that_was_asked_for(monkeypatch, eps, weighted):
    """A star of four tables, against its listed rows at each tenth of their scores; weights over six decades."""
    rng = np.random.default_rng(0)
    tables = [Table(f"t{i}", pd.DataFrame({"k": np.arange(60) % 2, "x": rng.normal(size=60),
                                           "w": 10 ** rng.uniform(-3, 3, 60)})) for i in range(4)]
    join = Join(tables, on=[("t0.k", f"t{i}.k") for i in (1, 2, 3)])
    frames = [table.source for table in tables]
    score, weight = [], []
    for k in (0, 1):
        one = [frame[frame.k == k] for frame in frames]
        score.append(reduce(np.add.outer, [part.x.to_numpy() for part in one]).ravel())
        weight.append(reduce(np.multiply.outer, [part.w.to_numpy() for part in one]).ravel())
    score, weight = np.concatenate(score), np.concatenate(weight)
    ring, values = ("sum-product", {f"t{i}.w": lambda v: v for i in range(4)}) if weighted else ("counting", None)
    monkeypatch.setattr(lists, "MOST_ENTRIES", 40_000)
    names = {f"t{i}.x": 1.0 for i in range(4)}
    for most in np.quantile(score, np.arange(0.1, 1, 0.1)):
        right = (weight if weighted else np.ones(len(score)))[score <= most].sum()
        found = evaluate(join, ring, values, where=(names, float(most)), eps=eps)
        assert found.sure <= right <= found.possible <= (1 + eps) * found.sure * (1 + 1e-12)
        assert found.sure < found.possible
        assert evaluate(join, ring, values, where=(names, float(most))).score_error > 0


def test_a_group_of_a_sketch_grows_by_its_factor_beside_a_list_of_far_more_weight():
    """In sums over both lists 7 is rounded away beside 1e17, and 9 is 16: by whole numbers."""
    mass = np.array([1e17, *[9.0] * 10, *[7.0] * 1000])
    owner = (np.arange(len(mass)) > 0).astype(int)
    order, group = group_entries(owner, 2, np.arange(len(mass), dtype=float), mass, 0.1)
    assert (order == np.arange(len(mass))).all()
    before = np.cumsum([0, *mass[1:].astype(int)])[:-1]
    for one in range(1, group[-1] + 1):
        counts = before[group[1:] == one]
        assert counts[-1] <= 1.1 * counts[0] * (1 + 1e-9) or len(counts) == 1


def test_columns_of_equal_names_join_beside_the_pairs():
    one = pd.DataFrame({"k": [1, 1, 2], "day": [1, 2, 1], "x": [1.0, 2.0, 4.0]})
    two = pd.DataFrame({"k": [1, 1, 2], "day": [1, 1, 2], "z": [10.0, 20.0, 30.0]})
    join = Join([Table("one", one), Table("two", two)], on=[("one.k", "two.k")], using=["day"])
    rows = one.merge(two, on=["k", "day"])
    assert evaluate(join).value == len(rows) == 2
    found, many = score_thresholds(join, {"one.x": 1.0, "two.z": 1.0}, eps=1.0)
    assert (found.tolist(), many.tolist()) == ([21.0, 11.0], [1.0, 2.0])


@pytest.mark.parametrize("seed", range(12))
def test_thresholds_are_the_scores_that_so_many_rows_reach(seed):
    join = random_join(seed, rows=8)
    rows = materialise(join)
    names = [f"{table.name}.x0" for table in join.tables]
    score = sum((np.round(9 * rows[name].to_numpy()) for name in names), np.zeros(len(rows)))
    found, many = score_thresholds(join, dict.fromkeys(names, lambda v: np.round(9 * v)), eps=0.3)
    best = np.sort(score)[::-1]
    assert len(many) == (int(np.floor(np.log(len(rows)) / np.log(1.3) + 1e-9)) + 1 if len(rows) else 0)
    for H, count in zip(found, many):
        assert best[int(np.ceil(count - 1e-9)) - 1] == H


@pytest.mark.parametrize("scores", [3, None, {1: 2.0}])
def test_scores_that_are_none_are_refused_by_their_name(scores):
    with pytest.raises(ValueError, match=r"^scores must be a dict"):
        score_thresholds(chain(20, 5, 2), scores)


def test_a_factor_is_for_sums_of_weights():
    join = chain(20, 5, 3)
    for options in ({"ring": "min-plus"}, {"form": "sum"}, {"eps": 0.0}, {"eps": 2},
                    {"ring": "sum-product", "values": {"t0.x0": lambda v: v}}):
        with pytest.raises(ValueError, match="eps"):
            evaluate(join, **{"eps": 0.1, **options})


def test_values_may_be_tuples():
    """Count and sum as a pair, by hand: 4 rows, of sums 10, 20, 5 and 5."""
    loan = pd.DataFrame({"account": [1, 1, 2], "sum": [10.0, 20.0, 5.0]})
    account = pd.DataFrame({"id": [1, 2, 2], "age": [30.0, 50.0, 60.0]})
    join = Join([Table("loan", loan), Table("account", account)], [("loan.account", "account.id")])
    pairs = semiring(lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda a, b: (a[0] * b[0], a[0] * b[1] + a[1] * b[0]),
                     zero=(0, 0.0), one=(1, 0.0), name="counting")
    values = {"loan.sum": lambda v: [(1, x) for x in v]}
    assert evaluate(join, pairs, values).value == (4, 40.0)
    assert evaluate(join, pairs, values, where=({"loan.sum": 1.0, "account.age": 1.0}, 55.0)).value == (3, 35.0)
    assert evaluate(join, pairs, values, where=({"loan.sum": 1.0}, 1.0)).value == (0, 0.0)
    assert evaluate(join, pairs, values, form="sum").value == (4, 40.0)
    assert evaluate(join, pairs, values, form="sum", where=({"loan.sum": 1.0}, 1.0)).value == (0, 0.0)


@pytest.mark.parametrize("ring", list(RINGS))
@pytest.mark.parametrize(("m", "seed"), [(2, 0), (3, 1), (3, 2)])
def test_sums_are_met_in_the_middle_where_the_scores_of_all_rows_are_too_many(monkeypatch, ring, m, seed):
    """All pairs of two tables, and chains of three: more rows of the join than entries may be held, and ties."""
    join = chain(30, 30 if m == 2 else 10, m, seed=seed)
    rows = materialise(join)
    names = [f"{table.name}.x0" for table in join.tables]
    add, multiply, zero, function = RINGS[ring]
    own = semiring(add, multiply, zero=zero, one=1) if ring == "own" else ring
    whole = dict.fromkeys(names, lambda v: np.round(9 * v))  # so that sums round in no order of their terms
    score = sum(np.round(9 * rows[name].to_numpy()) for name in names)
    monkeypatch.setattr(lists, "MOST_ENTRIES", 350)
    for most in (float(np.sort(score)[len(score) // 3]), float(score.min()), -99.0):
        for form in ("product", "sum"):
            found = evaluate(join, own, dict.fromkeys(names, function), form=form, where=(whole, most))
            wanted = listed(rows, add, multiply, zero, score <= most, form, dict.fromkeys(names, function))
            assert found.score_error == 0
            assert found.value == pytest.approx(float(wanted), rel=1e-9, abs=1e-9)


def test_section_b4_with_its_identities_put_right():
    """Least distance of a correctly classified negative row: F_d is 0 for -1 and inf for 1, scores negated."""
    join = chain(20, 5, 3)
    rows = materialise(join)
    names = [f"{table.name}.x{j}" for table in join.tables for j in range(2)]
    beta = dict(zip(names, np.random.default_rng(0).normal(size=6)))
    functions = {key: lambda v, b=b: -b * v for key, b in beta.items()}
    functions["t0.y"] = lambda v: np.where(v == -1, 0.0, np.inf)
    found = evaluate(join, "min-plus", functions, where=(beta, 0.0)).value
    score = sum(b * rows[key] for key, b in beta.items())
    right = (rows["t0.y"] == -1) & (score <= 0)
    assert found == pytest.approx(-score[right].max(), rel=1e-12)


def test_what_cannot_be_answered_is_refused_with_the_reason():
    join = chain(20, 5, 4)
    two = [({"t0.x0": 1.0}, 0.0), ({"t1.x0": 1.0}, 0.0)]
    with pytest.raises(ValueError, match=r"FAQ-AI\(2\).*n\^2"):
        evaluate(join, where=two)
    with pytest.raises(ValueError, match="no column 'x9'"):
        evaluate(join, values={"t0.x9": np.abs})
    with pytest.raises(ValueError, match="one value for each"):
        evaluate(join, values={"t0.x0": np.sum})
    with pytest.raises(ValueError, match="ring"):
        evaluate(join, "tropical")
    with pytest.raises(ValueError, match="left join"):
        evaluate(random_join(0, left=True))
    base = pd.DataFrame({"k": [1, 2], "day": [1.0, 2.0]})
    dated = Join([Table("a", base), Table("b", base.assign(day=[0.5, 2.0]), time="day")], on=[("a.k", "b.k")],
                 as_of="a.day")
    assert evaluate(dated).value == 1  # the other row is of the date itself
    assert score_thresholds(dated, {"b.day": 1.0})[0].tolist() == [0.5]
    with pytest.raises(ValueError, match=r"over a Join\. Got DataFrame"):
        evaluate(pd.DataFrame({"a": [1.0]}))
    frame = pd.DataFrame({"k": [1, 2], "v": [1.0, None]})
    with pytest.raises(ValueError, match="NULL in 1 rows"):
        evaluate(Join([Table("a", frame), Table("b", frame)], [("a.k", "b.k")]), values={"a.v": np.abs})


COLUMN = "t0.x0"


@pytest.mark.parametrize(("ring", "values", "message"), [
    ("sum-product", [COLUMN], "values must be a dict"),
    ("sum-product", {COLUMN: 3.0}, r"Got 't0\.x0': 3\.0\. For a constant"),
    ("sum-product", {3: np.abs}, "Got 3"),
    ("sum-product", {"t0.word": lambda v: v}, r"'t0\.word' returns must be of numbers\. Got 'red'"),
    ("sum-product", {COLUMN: lambda v: v * np.nan}, "'sum-product' semiring: finite numbers. Got nan"),
    ("counting", {COLUMN: lambda v: np.full(len(v), np.inf)}, "Got inf"),
    ("min-plus", {COLUMN: lambda v: np.full(len(v), -np.inf)}, "numbers above -inf"),
    ("max-plus", {COLUMN: lambda v: np.full(len(v), np.inf)}, "numbers below inf"),
    ("max-product", {COLUMN: lambda v: -np.abs(v) - 1}, "at least 0"),
    ("boolean", {COLUMN: lambda v: v / 2}, "truth values"),
])
def test_values_outside_the_semiring_are_refused(ring, values, message):
    frame = pd.DataFrame({"k": [1, 2], "x0": [1.0, 0.5], "word": ["red", "blue"]})
    with pytest.raises(ValueError, match=message):
        evaluate(Join([Table("t0", frame), Table("t1", frame)], [("t0.k", "t1.k")]), ring, values)


@pytest.mark.parametrize(("where", "message"), [
    (5, "Got 5"),
    ("t0.x0 < 3", "where must be"),
    ({COLUMN: 1.0}, "where must be"),
    (({COLUMN: 1.0},), "where must be"),
    (({3: 1.0}, 0.0), "where must be"),
    (((COLUMN, 1.0), 0.0), "where must be"),
    (({COLUMN: 1.0}, "low"), "threshold of where must be a number"),
    (({COLUMN: 1.0}, np.nan), "threshold of where"),
    (({COLUMN: "red"}, 0.0), r"coefficient of 't0\.x0' must be a number"),
    (({COLUMN: np.inf}, 0.0), "coefficient"),
    (({COLUMN: lambda v: v * np.nan}, 0.0), "scores: finite numbers. Got nan"),
    (({"t0.word": 1.0}, 0.0), r"Column 't0\.word' must be of numbers"),
])
def test_what_is_no_inequality_is_refused(where, message):
    frame = pd.DataFrame({"k": [1, 2], "x0": [1.0, 0.5], "word": ["red", "blue"]})
    with pytest.raises(ValueError, match=message):
        evaluate(Join([Table("t0", frame)]), where=where)


def test_identities_that_are_none_are_refused():
    with pytest.raises(ValueError, match=r"add\(zero, one\) = one must hold\. Got 0"):
        semiring(min, lambda a, b: a * b, zero=0, one=1)
    with pytest.raises(ValueError, match=r"multiply\(zero, one\) = zero"):
        semiring(max, lambda a, b: a + b, zero=0, one=2)
    with pytest.raises(ValueError, match="multiply must be a function"):
        semiring(min, None, zero=0, one=1)


def test_infinity_leaves_a_row_out():
    frame = pd.DataFrame({"x": [3.0, 1.0, 2.0]})
    join = Join([Table("t", frame)])
    assert evaluate(join, "min-plus", {"t.x": lambda v: np.where(v == 1, np.inf, v)}).value == 2
    assert evaluate(join, "max-plus", {"t.x": lambda v: np.where(v == 3, -np.inf, v)}).value == 2
    assert evaluate(join, "boolean", {"t.x": lambda v: v > 5}).value == 0
