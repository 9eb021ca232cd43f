"""Cyclic joins: the worst-case-optimal join, the bags at fractional hypertree width, and whole joins against DuckDB."""

from functools import cache
from itertools import combinations, permutations, product

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

from buttress.relational import Join, JoinSampler, RelationalLinearSVC, Table, describe, evaluate
from buttress.relational.counting.grid import grid_oracle
from buttress.relational.counting.margins import hinge
from buttress.relational.plan.generic_join import join_keys
from buttress.relational.plan.prepare import prepare
from buttress.relational.plan.tree import Decomposition, decompose, spanning_tree
from buttress.relational.sql.oracle import SqlOracle


def cycle(m):
    return [frozenset({i, (i + 1) % m}) for i in range(m)]


def clique(k):
    return [frozenset(pair) for pair in combinations(range(k), 2)]


# The join of keys


def nested_loops(relations):
    """Every combination of rows that agree, by trying all: the distinct ones, attributes ascending."""
    attributes = sorted(set().union(*relations))
    rows = [list(zip(*(relation[a].tolist() for a in relation))) for relation in relations]
    found = set()
    for chosen in product(*rows):
        bound = {}
        if all(bound.setdefault(a, v) == v for relation, row in zip(relations, chosen) for a, v in zip(relation, row)):
            found.add(tuple(bound[a] for a in attributes))
    return sorted(found)


@pytest.mark.parametrize("seed", range(60))
def test_join_of_keys_finds_what_nested_loops_find(seed):
    rng = np.random.default_rng(seed)
    n_attributes = int(rng.integers(1, 6))
    relations = []
    for _ in range(int(rng.integers(1, 5))):
        held = rng.permutation(n_attributes)[: rng.integers(1, n_attributes + 1)].tolist()
        n = int(rng.integers(0, 9))
        relations.append({a: rng.integers(0, 4, n) for a in held})
    wanted = nested_loops(relations)
    found = join_keys(relations, 10**6)
    assert sorted(zip(*(found[a].tolist() for a in sorted(found)))) == wanted
    assert not wanted or len(join_keys(relations, len(wanted) - 1)[min(found)]) == len(wanted)


def test_join_of_keys_keeps_large_values_apart():
    big = 2**62
    found = join_keys([{0: np.array([big, big - 1])}, {0: np.array([big - 1, big - 2])}], 10)
    assert found[0].tolist() == [big - 1]


# The bags


@pytest.mark.parametrize(("edges", "known"), [
    *[(cycle(m), 1.5 if m == 3 else 2.0) for m in (3, 4, 5, 7)],
    (clique(4), 2.0),
    (clique(5), 2.5),
    ([frozenset({0, 1, 2}), frozenset({1, 2, 3}), frozenset({0, 2, 3}), frozenset({0, 1, 3})], 4 / 3),
], ids=[*[f"cycle of {m}" for m in (3, 4, 5, 7)], "clique of 4", "clique of 5", "Loomis-Whitney of 4"])
def test_bags_have_the_known_fractional_hypertree_width(edges, known):
    bags = decompose(edges, [5.0] * len(edges))
    assert width(edges, bags) == pytest.approx(known, abs=1e-6)
    assert all(any(edge <= bag for bag in bags) for edge in edges)
    assert spanning_tree(bags) is not None


def width(edges, bags):
    """The largest fractional edge cover of a bag, its tables projected on it: the exponent of n."""
    return max(Decomposition(edges, [1.0] * len(edges)).log_rows(bag) for bag in bags)


def least_width(edges):
    """The least width over all orders of eliminating vertices, each tried in full."""
    @cache
    def cover(bag):
        A = -np.array([[float(v in edge) for edge in edges] for v in bag])
        return linprog(np.ones(len(edges)), A_ub=A, b_ub=-np.ones(len(bag))).fun

    best = np.inf
    for order in permutations(sorted(frozenset().union(*edges))):
        left = [set(edge) for edge in edges]
        worst = 0.0
        for v in order:
            bag = set().union(*(edge for edge in left if v in edge))
            worst = max(worst, cover(tuple(sorted(bag))))
            left = [edge for edge in left if v not in edge] + [bag - {v}]
        best = min(best, worst)
    return best


@pytest.mark.parametrize("seed", range(4))
def test_no_order_of_elimination_does_better(seed):
    rng = np.random.default_rng(seed)
    edges = [frozenset(rng.permutation(5)[: rng.integers(2, 4)].tolist()) for _ in range(5)]
    edges += [frozenset({v, (v + 1) % 5}) for v in range(5) if not any(v in edge for edge in edges)]
    large = [40.0] * len(edges)  # so that the sum of the bounds is their largest
    assert width(edges, decompose(edges, large)) == pytest.approx(least_width(edges), abs=1e-6)


def empties_by_ears(edges):
    """Whether taking away ears leaves one edge: the vertices that an ear shares lie in one other edge (Graham, Yu)."""
    left = list(edges)
    while len(left) > 1:
        for ear in left:
            others = [edge for edge in left if edge is not ear]
            shared = ear & frozenset().union(*others)
            if any(shared <= edge for edge in others):
                left = others
                break
        else:
            return False
    return True


def test_the_width_is_one_exactly_where_the_join_is_acyclic():
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(15):
        edges = [frozenset(rng.permutation(4)[: rng.choice([2, 2, 3])].tolist()) for _ in range(4)]
        acyclic = empties_by_ears(edges)
        assert (spanning_tree(edges) is not None) == acyclic, edges
        least = least_width(edges)
        assert least >= 1 - 1e-9
        assert (least <= 1 + 1e-9) == acyclic, edges
        seen.append(acyclic)
    assert 3 <= sum(seen) <= 12


# Whole joins


def tables_of(edges, rows, rng, keys=4, label=0, hangs=False):
    """A table an edge, a column an attribute; "hangs" adds a table below a table of the cycle."""
    frames = [pd.DataFrame({**{f"k{a}": rng.integers(0, keys, rows) for a in sorted(edge)},
                            "x": rng.normal(size=rows).round(2)}) for edge in edges]
    on = []
    for a in sorted(frozenset().union(*edges)):
        held = [i for i, edge in enumerate(edges) if a in edge]
        on += [(f"t{held[0]}.k{a}", f"t{i}.k{a}") for i in held[1:]]
    if hangs:
        frames[1]["h"] = rng.integers(0, 3, rows)
        frames.append(pd.DataFrame({"h": rng.integers(0, 4, 4), "x": rng.normal(size=4).round(2)}))
        on.append(("t1.h", f"t{len(frames) - 1}.h", *(["left"] if hangs == "left" else [])))
    frames[label]["y"] = np.arange(rows) % 2
    tables = [Table(f"t{i}", f, features=["x"], label="y" if i == label else None) for i, f in enumerate(frames)]
    return Join(tables, on), frames


def by_duckdb(duckdb, frames, join):
    """The numbers of the joined rows of each table, by DuckDB, -1 where a left join finds none."""
    names = [f"t{i}" for i in range(len(frames))]
    for name, frame in zip(names, frames):
        duckdb.register(name, frame.assign(row=np.arange(len(frame))))
    left = [pair for pair in join.on if len(pair) == 3]
    equal = " AND ".join(f"{pair[0]} = {pair[1]}" for pair in join.on if len(pair) == 2)
    inner = [name for name in names if name not in {pair[1].split(".")[0] for pair in left}]
    text = f"SELECT {', '.join(f'{n}.row' for n in names)} FROM {' CROSS JOIN '.join(inner)}"
    text += "".join(f" LEFT JOIN {second.split('.')[0]} ON {first} = {second}" for first, second, _ in left)
    return duckdb.execute(f"{text} WHERE {equal}").df().fillna(-1).astype(int).to_numpy()


SHAPES = {**{f"cycle of {m}": cycle(m) for m in (3, 4, 5, 6)}, "clique of 4": clique(4),
          "two triangles": [*cycle(3), frozenset({2, 3}), frozenset({3, 4}), frozenset({4, 2})],
          "within a table": [*cycle(3), frozenset({0, 1, 2})], "double edge": [*cycle(4), frozenset({0, 1})]}


@pytest.mark.parametrize("hangs", [False, True, "left"], ids=["alone", "table below", "left join below"])
@pytest.mark.parametrize("edges", SHAPES.values(), ids=SHAPES)
def test_a_cyclic_join_has_duckdbs_rows(duckdb_connection, edges, hangs):
    rng = np.random.default_rng(len(edges))
    label = int(rng.integers(len(edges)))
    wanted = np.zeros((0, label + 1), dtype=int)
    while len(set(wanted[:, label] % 2)) < 2:  # rows of both classes
        join, frames = tables_of(edges, 12, rng, keys=3, label=label, hangs=hangs)
        wanted = by_duckdb(duckdb_connection, frames, join)
    sampler = JoinSampler(join)
    found = pd.DataFrame(sampler.rows(range(sampler.n_rows_))).to_numpy()
    assert sampler.n_rows_ == len(wanted)
    assert sorted(map(tuple, found)) == sorted(map(tuple, wanted))


@pytest.mark.parametrize("edges", SHAPES.values(), ids=SHAPES)
def test_databases_count_a_cyclic_join_by_the_same_bags(edges):
    join, frames = tables_of(edges, 14, np.random.default_rng(len(edges)), keys=3, hangs="left")
    for table, frame in zip(join.tables, frames):
        table.source = pd.concat([frame, frame.iloc[:1]])  # keys repeat, so that no table joins a bag of this process
    plan = prepare(join)
    here, there = grid_oracle(plan, fold=False), SqlOracle(join)
    assert there.plan.n_rows == plan.n_rows
    beta = np.random.default_rng(0).normal(size=plan.width)
    mine, theirs = here.at_step(beta, hinge(0.1), 0.0371), there.at_step(beta, hinge(0.1), 0.0371)
    assert theirs.a == pytest.approx(mine.a, abs=1e-11)  # here lowered by what rounding may have added
    np.testing.assert_allclose(theirs.b, mine.b, atol=1e-12)
    assert theirs.lower == pytest.approx(mine.lower, abs=1e-11)


def test_every_table_hangs_on_a_bag_of_keys():
    join, _ = tables_of(cycle(4), 30, np.random.default_rng(0), keys=5)
    nodes = prepare(join).nodes
    bound = [node for node in nodes if node.bound]
    assert {len(node.bound) for node in bound} == {3}
    assert not any(node.members for node in bound)
    assert len(nodes[0].members) == 1  # the label's table stands alone, so that its rows can be scored


def test_every_bag_is_within_its_bound():
    rng = np.random.default_rng(1)
    for edges in (cycle(3), cycle(5), clique(4)):
        join, _ = tables_of(edges, 40, rng, keys=4)
        n = max(len(frame.source) for frame in join.tables)
        most = max((node.n_rows for node in prepare(join).nodes if node.bound), default=0)
        assert most <= n ** width(edges, decompose(edges, [1.0] * len(edges))) * (1 + 1e-9)


def test_a_fit_scores_the_rows_of_a_label_in_a_cycle(duckdb_connection):
    join, frames = tables_of(cycle(4), 40, np.random.default_rng(3), keys=4)
    model = RelationalLinearSVC(alpha=0.01, row_weight="join", n_samples=1, random_state=0).fit(join)
    rows = by_duckdb(duckdb_connection, frames, join)
    X = np.column_stack([frames[i]["x"].to_numpy()[rows[:, i]] for i in range(4)])
    score = X @ model.coef_[0] + model.intercept_[0]
    y = np.where(frames[0]["y"].to_numpy()[rows[:, 0]] == 1, 1, -1)
    scale = np.concatenate([table.scale for table in prepare(join).tables])
    beta = np.append(model.coef_[0] * scale, model.intercept_)
    low, high = model.objective_interval_
    assert low - 1e-9 <= np.maximum(0, 1 - y * score).mean() + 0.01 * beta @ beta <= high + 1e-9
    means = model.decision_function(join)
    used = model.label_rows(join)
    expected = [score[rows[:, 0] == row].mean() for row in used]
    np.testing.assert_allclose(means[used], expected, atol=1e-9)


def test_a_query_over_a_clique_is_its_brute_force(duckdb_connection):
    join, frames = tables_of(clique(4), 20, np.random.default_rng(5), keys=3)
    rows = by_duckdb(duckdb_connection, frames, join)
    total = sum(frames[i]["x"].to_numpy()[rows[:, i]] for i in range(6))
    assert evaluate(join).value == len(rows)
    least = evaluate(join, "min-plus", {f"t{i}.x": lambda v: v for i in range(6)})
    assert least.value == pytest.approx(total.min(), abs=1e-9)


def test_explanation_names_the_keys_that_are_bound():
    join, _ = tables_of(cycle(4), 30, np.random.default_rng(0), keys=5)
    text = str(describe(join))
    assert "keys t0.k0" in text
    assert "joined beforehand because the join is cyclic" in text


def test_memory_is_bounded_by_the_result_not_by_pairs():
    """The triangle 0-x, x-0 joined pairwise makes n^2 / 4 rows; with three rows a bag it must pass."""
    n = 2_000
    spokes = pd.DataFrame({"a": np.r_[np.zeros(n), np.arange(1, n)].astype(int),
                           "b": np.r_[np.arange(n), np.zeros(n - 1)].astype(int)})
    first = spokes.assign(y=np.arange(len(spokes)) % 2)
    join = Join([Table("r", first, label="y"), Table("s", spokes), Table("t", spokes)],
                [("r.b", "s.a"), ("s.b", "t.a"), ("t.b", "r.a")], max_bag_rows=10 * n)
    assert prepare(join).n_rows == 6 * (n - 1) + 1 - 3 * (n - 1)
