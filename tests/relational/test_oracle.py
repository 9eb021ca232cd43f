"""The margin oracle against joins materialised by pandas: planes, bounds, sketches, roots, hardness."""

from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
from relational_problems import SHAPES, chain, design, hinge_mean, joined, materialise

from buttress.relational import Join, RelationalLinearSVC, Table
from buttress.relational.counting import compiled
from buttress.relational.counting.grid import Consulted, grid_oracle
from buttress.relational.counting.lists import COUNTING, Lists, room, unit_lists
from buttress.relational.counting.margins import hinge, margin_loss
from buttress.relational.counting.queries import group_entries, root_list
from buttress.relational.counting.schedule import MinkowskiSum, node_scores, schedule
from buttress.relational.optimum.certified import PlanePool
from buttress.relational.plan.plan import weigh
from buttress.relational.plan.prepare import prepare
from buttress.solvers.qp.active_set import simplex_minimiser

VARIANTS = [{}, {"weights": True}, {"left": True}]


def problem(seed, **how):
    """A random join whose rows show both labels, with its plan and its materialised rows."""
    join = joined(seed, **how)
    plan, rows = prepare(join), materialise(join)
    assert len(rows) == plan.n_rows
    return plan, *design(join, plan, rows)


@pytest.mark.parametrize("how", VARIANTS, ids=["plain", "weights", "left"])
@pytest.mark.parametrize("seed", range(12))
def test_planes_hold_everywhere_and_bounds_hold_at_the_point(seed, how):
    plan, X, y, weight = problem(seed, **how)
    oracle, rng = grid_oracle(plan), np.random.default_rng(seed)
    for name, width, bins in product(("hinge", "squared_hinge", "logistic"), (0.0, 0.2), (16, 512)):
        loss, beta = margin_loss(name, width), rng.normal(size=plan.width)

        def mean(b, loss=loss):
            return float(weight @ loss.value(y * (X @ b)) / weight.sum())

        seen = oracle(beta, loss, bins)
        assert seen.lower - 1e-12 <= mean(beta) <= seen.upper + 1e-12
        for scale in (0.1, 1.0, 10.0):
            other = scale * rng.normal(size=plan.width)
            assert seen.a - seen.b @ other <= mean(other) + 1e-12 * max(1, scale)


@pytest.mark.parametrize("seed", range(6))
def test_a_fine_grid_gives_the_gradient(seed):
    plan, X, y, weight = problem(seed)
    beta = np.random.default_rng(seed).normal(size=plan.width)
    loss = margin_loss("logistic")
    seen = grid_oracle(plan)(beta, loss, 1 << 18)
    expected = X.T @ (weight * y * loss.slope(y * (X @ beta))) / weight.sum()
    np.testing.assert_allclose(seen.b, expected, atol=1e-5)


def random_lists(rng, n_keys, width):
    """Lists of up to three entries for each key, one of them empty, as flat arrays (begin, end, bins, weights)."""
    made = [np.sort(rng.choice(width, size, replace=False)) for size in rng.integers(1, 4, n_keys)]
    made[1] = made[1][:0]
    end = np.cumsum([len(part) for part in made])
    bins = np.concatenate(made).astype(np.int32)
    return end - [len(part) for part in made], end, bins, rng.uniform(1, 2, len(bins))


def parts_called(monkeypatch, kernel, names, *arguments):
    """Run a kernel as Python; return which of the named parts, each of one branch, it calls for keys that have rows."""
    called = set()

    def noting(name, part):
        def note(*arguments):
            if name != "_packed" or arguments[1] <= arguments[2]:  # else it packs the bins of a key without rows
                called.add(name)
            return part(*arguments)

        return note

    for name in names:
        monkeypatch.setattr(compiled, name, noting(name, getattr(compiled, name)))
    kernel.function(*arguments)
    return called


@pytest.mark.parametrize("width", [3, 1000], ids=["few bins, in a dense array", "many bins, sorted"])
@pytest.mark.parametrize("leaf", [True, False])
def test_lists_are_the_sums_of_their_rows(width, leaf, monkeypatch):
    """Against a dictionary a key, on bins that rows share and on bins that they do not; one row weighs 0."""
    rng = np.random.default_rng(0)
    one = random_lists(rng, 5, width)
    start = np.array([0, 4, 4, 9, 20])  # the second key has no rows
    q, w = rng.integers(0, width, 20).astype(np.int32), rng.uniform(1, 2, 20)
    w[2] = 0
    one = unit_lists().arrays if leaf else one
    key = np.zeros(20, dtype=np.int64) if leaf else rng.integers(0, 5, 20)
    out, again = (room(np.full(4, 2 * width), 2 * width, np.inf) for _ in range(2))
    compiled.block_up(q, w, start, key, *one, 2 * width, *out.arrays)
    for k in range(4):
        expected = {}
        for t in range(start[k], start[k + 1]):
            for z, v in [(one[2][e], one[3][e]) for e in range(one[0][key[t]], one[1][key[t]])]:
                expected[q[t] + z] = expected.get(q[t] + z, 0.0) + w[t] * v
        expected = {z: v for z, v in sorted(expected.items()) if v}
        held = slice(out.begin[k], out.end[k])
        assert out.bins[held].tolist() == list(expected)
        np.testing.assert_allclose(out.mass[held], list(expected.values()), rtol=1e-12)
    ways = ("_packed", "_in_order")
    called = parts_called(monkeypatch, compiled.block_up, ways, q, w, start, key, *one, 2 * width, *again.arrays)
    assert "_packed" in called if width == 3 else called == {"_in_order"}


def test_the_root_meets_every_entry_of_its_rows_lists():
    """Against loops over rows and entries."""
    rng = np.random.default_rng(0)
    n, width = 60, 9
    one, key = random_lists(rng, 5, width), rng.integers(0, 5, n)
    q, w, slope = rng.integers(0, width, n).astype(np.int32), rng.uniform(1, 2, n), rng.normal(size=2 * width)
    found = [np.zeros_like(slope), np.zeros(len(one[2])), np.zeros(n)]
    compiled.meet(q, w, key, *one, slope, *found)
    histogram, below, worth = [np.zeros_like(part) for part in found]
    for t in range(n):
        for e in range(one[0][key[t]], one[1][key[t]]):
            z = q[t] + one[2][e]
            histogram[z] += w[t] * one[3][e]
            worth[t] += one[3][e] * slope[z]
            below[e] += w[t] * slope[z]
    for a, b in zip(found, (histogram, below, worth)):
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("empty", [False, True])
def test_a_product_of_lists_has_every_pair_of_entries_and_what_it_is_worth_reaches_both(empty):
    """Against loops over pairs: a product whose last pair has no entries, and one among others."""
    rng = np.random.default_rng(0)
    one, two = (Lists(*random_lists(rng, 4, 6), 6) for _ in range(2))
    first, second = np.array([0, 1, 2, 3, 2]), np.array([3, 2, 0, 2, 1 if empty else 2])
    part = Consulted([one, two], [np.zeros(len(lists.mass)) for lists in (one, two)], [])
    part.multiply(MinkowskiSum(0, 1, (first, second)), np.inf)
    made = part.lists[2]
    adjoint = rng.normal(size=len(made.mass))
    part.worth[2] += adjoint
    part.spread()
    worth = [np.zeros_like(lists.mass) for lists in (one, two)]
    for p, (a, b) in enumerate(zip(first, second)):
        held = slice(made.begin[p], made.end[p])
        expected = {}
        for e, f in product(range(one.begin[a], one.end[a]), range(two.begin[b], two.end[b])):
            z = one.bins[e] + two.bins[f]
            expected[z] = expected.get(z, 0.0) + one.mass[e] * two.mass[f]
            up = adjoint[held][made.bins[held] == z][0]
            worth[0][e] += two.mass[f] * up
            worth[1][f] += one.mass[e] * up
        assert made.bins[held].tolist() == sorted(expected)
        np.testing.assert_allclose(made.mass[held], [expected[z] for z in sorted(expected)], rtol=1e-12)
    for found, wanted in zip(part.worth, worth):
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_a_join_over_unique_keys_is_exact_on_any_grid():
    plan, X, y, weight = problem(4, shape="keys")
    beta = np.random.default_rng(0).normal(size=plan.width)
    seen = grid_oracle(plan)(beta, hinge(), bins=2)
    assert seen.upper == pytest.approx(hinge_mean(X, y, weight, beta), abs=1e-12)
    assert seen.lower == pytest.approx(hinge_mean(X, y, weight, beta), abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_every_table_sees_the_same_set_of_rows(seed):
    """The weights that reach the tables' rows sum to one number, that of the set U, whichever table is looked at."""
    plan, *_ = problem(seed)
    for table in plan.tables:  # a column of ones in each table sums its rows' signed counts
        table.X = np.ones((table.X.shape[0], 1))
    plan.y[:] = 1.0
    beta = np.random.default_rng(seed).normal(size=plan.width)
    seen = grid_oracle(plan, fold=False)(beta, hinge(), 20)
    np.testing.assert_allclose(seen.b, seen.a, rtol=1e-12)


def counts_within(score, mass, kept, error):
    """Whether the groups' counts stay within the factor at every threshold."""
    order, group = kept
    score, mass = score[order], mass[order]
    last = np.array([group[i] != group[i + 1] if i + 1 < len(group) else True for i in range(len(group))])
    high, total = score[last], np.bincount(group, mass)
    true = np.array([mass[score <= t].sum() for t in score])
    sketched = np.array([total[high <= t].sum() for t in score])
    return bool(((sketched <= true + 1e-9) & (sketched * (1 + error) >= true - 1e-9)).all())


@pytest.mark.parametrize("error", [0.1, 0.5, 1.0])
def test_groups_by_the_count_before_hold_their_factor_and_groups_by_the_count_after_do_not(error):
    rng = np.random.default_rng(0)
    score, mass = rng.integers(0, 60, size=400).astype(float), np.where(rng.random(400) < 0.05, 1e4, 1.0)
    owner = np.zeros(400, dtype=np.int64)
    assert counts_within(score, mass, group_entries(owner, 1, score, mass, error), error)
    order = np.argsort(score, kind="stable")
    level = np.floor(np.log(np.cumsum(mass[order])) / np.log1p(error))
    wrong = np.cumsum(np.r_[False, level[1:] != level[:-1]])
    assert not counts_within(score, mass, (order, wrong), error)


def test_the_plane_of_a_long_list_holds():
    """Lists longer than are kept exactly: a chain with 400 rows a key."""
    join = chain(400, 400, 3)
    plan = prepare(join)
    assert plan.n_rows == 400**3
    beta = np.array([0.9, -0.4, 0.1, 0.5, 0.7, -0.8, 0.3])
    scores = node_scores(plan, beta)
    exact = [np.sort(scores[i]) for i in (1, 2)]
    sums = (exact[0][:, None] + exact[1][None, :]).ravel()
    sums.sort()
    before = np.concatenate([[0.0], np.cumsum(sums)])
    total = 0.0
    for s, y in zip(scores[0], plan.y):  # sum of max(0, 1 - y (s + v)) over all v, by prefix sums
        k = np.searchsorted(sums, y - s, side="right" if y > 0 else "left")
        many, part = (k, before[k]) if y > 0 else (len(sums) - k, before[-1] - before[k])
        total += many * (1 - y * s) - y * part
    L = total / plan.n_rows
    grid = grid_oracle(plan)(beta, hinge(), 512)
    assert grid.lower <= L + 1e-12
    assert grid.upper + 1e-12 >= L
    assert grid.upper - grid.lower < 1e-3


def relabelled(join, root):
    """The same join with the label moved to a copy in another table is not the same join: move the tables' order."""
    order = [root, *(i for i in range(len(join.tables)) if i != root)]
    return Join([join.tables[i] for i in order], join.on)


@pytest.mark.parametrize("seed", range(3))
def test_histogram_does_not_depend_on_the_root(seed):
    """Scores of all join rows, as a list, whichever table is at the root (labels aside)."""
    join = joined(seed, nulls=False)
    for table in join.tables:
        table.label = None
    lists = []
    for root in range(len(join.tables)):
        plan = prepare(relabelled(join, root), intercept=False)
        weights = {table.name: np.arange(1, 1 + table.X.shape[1]) for table in plan.tables}
        beta = np.concatenate([weights[table.name] * table.scale for table in plan.tables])
        scores = [np.round(score, 6) for score in node_scores(plan, beta)]
        found = root_list(plan, scores, COUNTING, [np.ones((node.n_rows, 1)) for node in plan.nodes])
        lists.append(pd.Series(found.value[:, 0]).groupby(found.score.round(5)).sum())
    for other in lists[1:]:
        pd.testing.assert_series_equal(lists[0], other)


@pytest.mark.parametrize("seed", range(4))
def test_the_plane_does_not_depend_on_the_root(seed):
    """With one label for all rows, constant and gradient agree to 1e-12 whichever table is at the root."""
    join = joined(seed)
    for table in join.tables:
        table.label = None
    names = [table.name for table in join.tables]
    seen = []
    for root in range(len(names)):
        plan = prepare(relabelled(join, root), intercept=False)
        weight = {name: np.random.default_rng(i).normal(size=20) for i, name in enumerate(names)}
        beta = np.concatenate([weight[table.name][: table.X.shape[1]] for table in plan.tables])
        found = grid_oracle(plan, fold=False).at_step(beta, margin_loss("logistic"), 0.0371)
        parts = {table.name: found.b[part] for table, part in zip(plan.tables, plan.slices)}
        seen.append((found.a, np.concatenate([parts[name] for name in names])))
    for a, b in seen[1:]:
        assert a == pytest.approx(seen[0][0], abs=1e-12)
        np.testing.assert_allclose(b, seen[0][1], atol=1e-12)


def knapsack(sizes, capacity, k):
    """Lemma 3: 2^m rows with key 1 and one with key 0, whose Value is -k."""
    tables, on = [], []
    values = pd.DataFrame({"key": [1, 0], "value": [1.0, -k], "y": [1, 1]})
    values = pd.concat([values, pd.DataFrame({"key": [0], "value": [0.0], "y": [0]})])
    tables.append(Table("v", values, features=["value"], label="y"))
    for i, size in enumerate(sizes):
        item = pd.DataFrame({"key": [1, 1, 0], "e": [0.0, size / capacity, 0.0]})
        tables.append(Table(f"t{i}", item, features=["e"]))
        on.append(("v.key", f"t{i}.key"))
    return Join(tables, on)


def test_the_knapsack_instance_fools_the_partial_derivative_but_not_the_interval():
    sizes, capacity = np.array([5, 6, 7, 8, 9, 10, 11]), 28
    subsets = np.array(list(product((0, 1), repeat=len(sizes)))) @ sizes
    fit = int((subsets <= capacity).sum())
    plan = prepare(knapsack(sizes, capacity, fit), intercept=False)
    assert plan.n_rows == 2 ** len(sizes) + 2
    beta = np.concatenate([np.zeros(1) if table.name == "v" else table.scale for table in plan.tables])
    coarse = grid_oracle(plan)(beta, hinge(), 12)
    positive = plan.n_rows * coarse.b[0] * plan.tables[0].scale[0]
    assert abs(positive) > 0.5  # the true partial derivative is 0: exactly ``fit`` subsets fit
    margins = np.concatenate([subsets / capacity, [0.0]])
    L = (np.maximum(0, 1 - margins).sum() + 1.0) / plan.n_rows  # the row of label 0 has score 0
    assert coarse.lower <= L + 1e-12
    assert coarse.upper + 1e-12 >= L
    whole = knapsack(sizes, capacity, fit)  # and a whole fit from sketches alone holds the optimum of the listed rows
    exact = RelationalLinearSVC(alpha=1e-2, tol=1e-6, random_state=0).fit(whole)
    sketched = RelationalLinearSVC(alpha=1e-2, n_samples=1, random_state=0).fit(whole)
    assert sketched.dual_bound_ <= exact.objective_interval_[1]
    assert exact.dual_bound_ <= sketched.objective_interval_[1]
    assert sketched.gap_ <= 1e-3


def test_rows_beyond_two_to_the_53_keep_relative_accuracy():
    join = chain(300, 300, 9)
    plan = prepare(join)
    assert plan.n_rows == 300**9  # more than 2^63, counted exactly
    seen = grid_oracle(plan)(np.zeros(plan.width), hinge())
    assert seen.lower == pytest.approx(1.0, rel=1e-11)
    assert seen.lower < 1.0  # what rounding may hide is taken off
    share = float((plan.y > 0).mean())
    assert seen.b[-1 - sum(t.X.shape[1] for t in plan.tables[1:])] == pytest.approx(2 * share - 1, rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_weighing_label_rows_is_dividing_by_the_fan_out(seed):
    join = joined(seed)
    plan = prepare(join)
    weigh(plan, "label_row", None)
    rows = materialise(join)
    X, y, _ = design(join, plan, rows)
    fan = rows.groupby("t0.#")["t0.#"].transform("size").to_numpy()
    beta = np.random.default_rng(seed).normal(size=plan.width)
    expected = hinge_mean(X, y, 1 / fan, beta)
    seen = grid_oracle(plan)(beta, hinge(), 4096)
    assert seen.lower - 1e-12 <= expected <= seen.upper + 1e-12
    assert seen.upper - seen.lower < 0.02


def test_dual_bound_of_random_planes_is_the_simplex_optimum():
    """Against a general convex solver."""
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(0)
    pool = PlanePool(4)
    for _ in range(12):
        pool.add(float(rng.random()), rng.normal(size=4))
    value, beta = pool.bound(0.05)
    point, level = cvxpy.Variable(4), cvxpy.Variable()
    wanted = cvxpy.Problem(cvxpy.Minimize(level + 0.05 * cvxpy.sum_squares(point)),
                           [level >= pool.a - pool.B @ point]).solve(solver="CLARABEL")
    assert value == pytest.approx(wanted, rel=1e-6)
    assert (pool.a - pool.B @ beta).max() + 0.05 * beta @ beta == pytest.approx(wanted, rel=1e-6)


def test_shapes_include_every_kind_of_operation():
    """Products, folded edges and chains all occur in the problems above."""
    kinds = {shape: prepare_any(shape) for shape in SHAPES}
    assert any(isinstance(operation, MinkowskiSum) for operations, _ in kinds.values() for operation in operations)
    assert any(not operations for operations, _ in kinds.values())


def prepare_any(shape):
    plan, *_ = problem(0, shape=shape)
    return schedule(plan)


def test_scores_that_hardly_differ_do_not_overflow_the_grid():
    plan, X, y, weight = problem(1)
    beta = np.full(plan.width, 1e-17)
    beta[plan.slices[0].stop - 1] = 0.7  # the intercept
    seen = grid_oracle(plan)(beta, hinge(), 1024)
    assert seen.lower == pytest.approx(hinge_mean(X, y, weight, beta), rel=1e-6)
    assert seen.lower - 1e-12 <= hinge_mean(X, y, weight, beta) <= seen.upper + 1e-12


def test_a_root_of_many_children_is_counted_in_parts(monkeypatch):
    """Its products take memory for every row, so that few rows are met at once."""
    plan, *_ = problem(4, shape="star", left=True)
    beta = np.random.default_rng(0).normal(size=plan.width)
    whole = grid_oracle(plan, fold=False).at_step(beta, margin_loss("logistic"), 0.0371)
    oracle = grid_oracle(plan, fold=False)
    assert len(oracle.nodes[-1].children) > 2
    monkeypatch.setattr("buttress.relational.counting.grid.PRODUCT_ENTRIES", 3)
    found = oracle.at_step(beta, margin_loss("logistic"), 0.0371)
    assert (found.a, found.lower, found.upper) == pytest.approx((whole.a, whole.lower, whole.upper), abs=1e-12)
    np.testing.assert_allclose(found.b, whole.b, atol=1e-12)


# what floating point adds, in fractions


def exact_mean(X, y, weight, beta, power):
    """The mean loss in fractions: of the hinge to a power."""
    f = [sum(Fraction(float(x)) * Fraction(float(c)) for x, c in zip(row, beta, strict=True)) for row in X]
    losses = [max(Fraction(0), 1 - int(s) * z) ** power for s, z in zip(y, f, strict=True)]
    return sum(Fraction(float(w)) * each for w, each in zip(weight, losses, strict=True)) / sum(
        Fraction(float(w)) for w in weight)


def false_bounds(seed, name, width, listed):
    """How many of a plane at other points, and of two bounds at its own, are false in real numbers."""
    plan, X, y, weight = problem(seed, weights=True)
    rng = np.random.default_rng(seed)
    beta, loss = rng.normal(size=plan.width), margin_loss(name, width)
    power = 2 if name == "squared_hinge" else 1
    seen = grid_oracle(plan, listed=10_000 if listed else 0)(beta, loss, 64)
    at = exact_mean(X, y, weight, beta, power)
    wrong = (Fraction(seen.lower) > at) + (at > Fraction(seen.upper))
    for other in (beta, 10 * beta, np.zeros(plan.width)):
        plane = Fraction(seen.a) - sum(Fraction(float(b)) * Fraction(float(c)) for b, c in zip(seen.b, other))
        wrong += plane - Fraction(seen.tilt) * Fraction(float(np.linalg.norm(other))) > exact_mean(
            X, y, weight, other, power)
    return wrong


def test_planes_and_bounds_hold_in_real_numbers_and_do_not_without_the_allowance(monkeypatch):
    asked = [(seed, name, width, listed) for seed in range(8) for listed in (False, True)
             for name, width in (("hinge", 0.0), ("hinge", 0.05), ("squared_hinge", 0.0))]
    assert sum(false_bounds(*one) for one in asked) == 0
    monkeypatch.setattr("buttress.relational.counting.grid.U", 0.0)
    assert sum(false_bounds(*one) for one in asked) > 5


def test_the_bound_of_planes_holds_in_fractions():
    """v.a - |B'v|^2 / 4 alpha for the weights that the pool takes, of sum 1, in fractions."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        n, d, alpha = int(rng.integers(1, 9)), int(rng.integers(1, 9)), 10.0 ** rng.uniform(-4, 0)
        pool = PlanePool(d)
        for _ in range(n):
            pool.add(rng.random() * 10.0 ** rng.integers(-3, 3), rng.normal(size=d), 1e-9 * rng.random())
        v = simplex_minimiser(pool.B / np.sqrt(2 * alpha), pool.a)
        share = [Fraction(float(x)) for x in v]
        share = [x / sum(share) for x in share]
        g = [sum(x * Fraction(float(b)) for x, b in zip(share, column)) for column in pool.B.T]
        t = sum(x * Fraction(float(tilt)) for x, tilt in zip(share, pool.tilt))
        value = sum(x * Fraction(float(a)) for x, a in zip(share, pool.a))
        square = sum(x * x for x in g)
        assert value <= 1e9
        low = Fraction(pool.bound(alpha)[0])
        # (|g| + t)^2 is at least g^2 + 2 t |g|_lower + t^2, for |g| rounded down
        length = Fraction(float(np.sqrt(float(square)))) * (1 - Fraction(1, 2**50))
        assert low <= value - (square + 2 * t * length + t * t) / (4 * Fraction(alpha))
        assert float(low) == pytest.approx(float(value - (square + 2 * t * length) / (4 * Fraction(alpha))), rel=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_intervals_of_joins_in_memory_are_proven_and_others_are_measured():
    join = joined(0)
    for how, word in (({}, "proven"), ({"objective": "mean"}, "measured"),
                      ({"engine": "stream"}, "measured")):
        assert RelationalLinearSVC(max_iter=3, random_state=0, **how).fit(join).proof_ == word
