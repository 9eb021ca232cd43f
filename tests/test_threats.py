"""Threats against exhaustive search: every way to swap, and every cell of a tree or a grid of the ball beside it."""

import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hostile_threats import broken_promises
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from buttress import SVC, Budget, LinearSVC, ThreatModel, attacks, certificates
from buttress.certificates import trees_and_pipelines
from buttress.threats import read_threat
from buttress.threats.declared import one_hot_groups
from buttress.trees import read_forest

THREAT = ThreatModel(
    {0: 0.2, 1: Budget(0.3, direction="up"), 2: Budget(1.7, step=1, low=0, high=4)},
    {3: [0, 1], 4: [1]}, [[5, 6, 7]], most_swaps=2)


def mixed(seed, n=30):
    """Return two columns of numbers, one of whole ones, two of 0 and 1, and a one-hot group."""
    rng = np.random.default_rng(seed)
    numbers, whole, flags = rng.normal(size=(n, 2)), rng.integers(0, 5, n), rng.integers(0, 2, (n, 2))
    group = np.eye(3)[rng.integers(0, 3, n)]
    score = numbers[:, 0] + 0.5 * whole - 1 + flags[:, 0] + 0.8 * group[:, 1] - numbers[:, 1] * flags[:, 1]
    return np.column_stack([numbers, whole, flags, group]), (score + 0.3 * rng.normal(size=n) > 0.5).astype(int)


def swapped_versions(x, most):
    """Yield every version of a row with at most so many swaps."""
    for third, fourth, group in product((None, 0, 1), (None, 1), (None, 0, 1, 2)):
        if sum(choice is not None for choice in (third, fourth, group)) > most:
            continue
        version = x.copy()
        version[3] = x[3] if third is None else third
        version[4] = x[4] if fourth is None else fourth
        version[5:] = x[5:] if group is None else np.eye(3)[group]
        yield version


def every_input(x, most, first, second):
    """Return the inputs of the threat, the numbers at these places in their ranges."""
    wholes = [x[2] + move for move in (-1, 0, 1) if 0 <= x[2] + move <= 4]
    moved = [(a, b, c) for a, b, c in product(first, second, wholes)]
    versions = [np.concatenate([move, version[3:]]) for version in swapped_versions(x, most) for move in moved]
    return np.array(versions)


def on_a_grid(x, most, steps=9):
    return every_input(x, most, x[0] + np.linspace(-0.2, 0.2, steps), x[1] + np.linspace(0, 0.3, steps))


def cells_of(model, X, x, most):
    """Return an input of every cell of a forest that the threat reaches."""
    forest = read_forest(model, X)

    def places(column, low, high):
        cuts = [t for tree in forest.trees
                for t in tree.threshold[(tree.feature == column) & (tree.left >= 0)] if low < t < high]
        edges = np.unique([low, *cuts, high])
        return [low, high, *(edges[1:] + edges[:-1]) / 2]

    return every_input(x, most, places(0, x[0] - 0.2, x[0] + 0.2), places(1, x[1], x[1] + 0.3))


TREES = [
    DecisionTreeClassifier(random_state=0),  # of pure leaves: ties are never proven
    RandomForestClassifier(5, max_depth=3, random_state=0),
    GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0),
    HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3),
    make_pipeline(StandardScaler(), RandomForestClassifier(5, max_depth=3, random_state=0)),
    make_pipeline(MinMaxScaler(), RobustScaler(), HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3)),
]


@pytest.mark.parametrize("model", TREES, ids=str)
@pytest.mark.parametrize("most", [0, 1, 2])
def test_of_trees_the_exact_attack_is_the_search_of_all_cells(model, most):
    X, y = mixed(most)
    model.fit(X, y)
    found, info = attacks.exact(model, X, y, threat=replace(THREAT, most_swaps=most), return_info=True)
    broken = [(model.predict(cells_of(model, X, x, most)) != label).any() for x, label in zip(X, y, strict=True)]
    np.testing.assert_array_equal(info.success, broken)
    assert info.proven.all()
    assert 0 < info.success.sum() < len(X)
    np.testing.assert_array_equal(model.predict(found) != y, info.success)
    inside(found, X, most)


@pytest.mark.parametrize("scalers", [[], [StandardScaler()], [RobustScaler(), MinMaxScaler()], [MaxAbsScaler()],
                                     [StandardScaler(with_mean=False), StandardScaler(with_std=False)]], ids=str)
@pytest.mark.parametrize("last", TREES[:4], ids=lambda model: type(model).__name__)
def test_thresholds_in_the_units_of_rows_are_right_to_the_last_bit(scalers, last):
    X, y = mixed(0)
    X[:, :2] = 1e3 * X[:, :2] + [1e6, 0]
    model = make_pipeline(*scalers, last).fit(X, y)
    forest = read_forest(model, X)
    for tree in forest.trees:
        for node in np.flatnonzero(tree.left >= 0):
            column, threshold = tree.feature[node], tree.threshold[node]
            at = np.repeat(X[:1], 2, axis=0)
            at[:, column] = threshold, np.nextafter(threshold, np.inf)
            inner = model[:-1].transform(at)[:, column] if scalers else at[:, column]
            given = cut(last, tree, forest, node)
            seen = inner if type(last) is HistGradientBoostingClassifier else inner.astype(np.float32)
            assert seen[0] <= given < seen[1]
    scores = model.predict_proba(X)[:, 1] if hasattr(last, "tree_") or hasattr(last, "estimators_") else None
    if type(last) in (DecisionTreeClassifier, RandomForestClassifier):
        np.testing.assert_allclose(forest.scores(X)[:, 1], scores)
    else:
        np.testing.assert_allclose(forest.scores(X)[:, 0], model.decision_function(X))


def cut(model, tree, forest, node):
    """Return the threshold of a node as scikit-learn has it."""
    place = next(number for number, each in enumerate(forest.trees) if each is tree)
    if type(model) is HistGradientBoostingClassifier:
        return model._predictors[place][0].nodes["num_threshold"][node]
    trees = np.ravel(getattr(model, "estimators_", [model]))
    return trees[place].tree_.threshold[node]


def inside(found, X, most):
    """Check that rows found are inputs of the threat."""
    assert (np.abs(found[:, 0] - X[:, 0]) <= 0.2 * (1 + 1e-12)).all()
    assert ((found[:, 1] >= X[:, 1]) & (found[:, 1] <= X[:, 1] + 0.3)).all()
    assert set((found[:, 2] - X[:, 2]).tolist()) <= {-1.0, 0.0, 1.0}
    assert ((found[:, 2] >= 0) & (found[:, 2] <= 4)).all()
    assert (found[:, 4] >= X[:, 4]).all()
    assert set(found[:, 3:].ravel().tolist()) <= {0.0, 1.0}
    np.testing.assert_array_equal(found[:, 5:].sum(axis=1), 1)
    changed = (found[:, 3] != X[:, 3]) * 1 + (found[:, 4] != X[:, 4]) + (found[:, 5:] != X[:, 5:]).any(axis=1)
    assert changed.max() <= most


MACHINES = [
    SVC(C=3, gamma=0.3), make_pipeline(StandardScaler(), SVC(gamma=0.02)), SVC(kernel="poly", degree=2), LinearSVC(),
    make_pipeline(StandardScaler(), LogisticRegression()),
]


@pytest.mark.parametrize("model", MACHINES, ids=str)
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_of_machines_no_input_breaks_a_proof_and_the_attack_finds_what_a_grid_finds(model, norm):
    X, y = mixed(0)
    model.fit(X, y)
    y = model.predict(X)
    for most in (0, 1, 2):
        numbers = THREAT.numbers if norm == "linf" else {**THREAT.numbers, 2: 0.0}  # steps in l2 are not all found
        threat = replace(THREAT, numbers=numbers, most_swaps=most, norm=norm)
        found, info = attacks.pgd(model, X, y, threat=threat, random_state=0, return_info=True)
        proven = certificates.certified_within(model, X, threat=threat)
        broken = np.array([(model.predict(within(threat, on_a_grid(x, most), x)) != label).any()
                           for x, label in zip(X, y, strict=True)])
        assert not (proven & broken).any()
        assert not (proven & info.success).any()
        assert info.success[broken].all()
        np.testing.assert_array_equal(model.predict(found) != y, info.success)
        inside(found, X, most)
        assert proven.any() or most


def within(threat, inputs, x):
    """Return the inputs whose numbers are in the threat's ball."""
    budgets = np.array([threat.numbers[column].by for column in range(3)])
    moves = np.abs(inputs[:, :3] - x[:3])
    shares = np.divide(moves, budgets, out=np.where(moves > 0, np.inf, 0.0), where=budgets > 0)
    size = shares.max(axis=1) if threat.norm == "linf" else np.linalg.norm(shares, axis=1)
    return inputs[size <= 1 + 1e-9 if threat.norm == "linf" else size <= 1 - 1e-9]


@pytest.mark.parametrize("model", [SVC(C=3, gamma=0.1), LogisticRegression(C=3)], ids=str)
def test_an_ellipsoid_is_that_of_the_budgets_also_of_columns_in_steps(model):
    X, y = mixed(0)
    model.fit(X, y)
    y = model.predict(X)
    threat = replace(THREAT, most_swaps=1, norm="l2")
    proven = certificates.certified_within(model, X, threat=threat)
    found, info = attacks.pgd(model, X, y, threat=threat, random_state=0, return_info=True)
    grids = [within(threat, on_a_grid(x, 1), x) for x in X]
    broken = np.array([(model.predict(grid) != label).any() for grid, label in zip(grids, y, strict=True)])
    assert not (proven & broken).any()
    assert all(len(within(threat, one[None], x)) for one, x in zip(found, X, strict=True))
    assert info.success.sum() >= broken.sum() - 3


@pytest.mark.parametrize("model", [LinearSVC(), LogisticRegression()], ids=str)
@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_of_linear_models_the_exact_attack_is_the_best_corner_of_the_best_swaps(model, most):
    X, y = mixed(1)
    model.fit(X, y)
    _, info = attacks.exact(model, X, y, threat=replace(THREAT, most_swaps=most), return_info=True)
    leads = np.array([((2 * label - 1) * model.decision_function(on_a_grid(x, most, 2))).min()
                      for x, label in zip(X, y, strict=True)])
    np.testing.assert_array_equal(info.success, leads <= 0)
    np.testing.assert_allclose(info.bound, leads)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_radius_is_the_short_form_of_a_threat(norm):
    X, y = mixed(2)
    model = LinearSVC().fit(X, y)
    eps = np.linspace(0, 0.3, X.shape[1])[None]
    threat = ThreatModel(dict(enumerate(eps[0])), norm=norm)
    short, long = (attacks.exact(model, X, y, return_info=True, **given)[1]
                   for given in ({"eps": eps, "norm": norm}, {"threat": threat}))
    np.testing.assert_allclose(short.bound, long.bound)
    machine = SVC(gamma=0.1).fit(X, y)
    np.testing.assert_array_equal(certificates.certified_within(machine, X, eps=eps, norm=norm),
                                  certificates.certified_within(machine, X, threat=threat))
    info = [attacks.pgd(machine, X, y, random_state=0, return_info=True, **given)[1]
            for given in ({"eps": eps, "norm": norm}, {"threat": threat})]
    np.testing.assert_array_equal(info[0].success, info[1].success)
    np.testing.assert_allclose(info[0].distance, info[1].distance, atol=1e-6)


def test_where_nothing_but_swaps_is_allowed_attack_and_proof_are_the_loop_over_them():
    X, y = mixed(3)
    threat = replace(THREAT, numbers={})
    for model in (SVC(gamma=0.3).fit(X, y), LinearSVC().fit(X, y)):
        y = model.predict(X)
        breaks = np.array([(model.predict(np.array(list(swapped_versions(x, 2)))) != label).any()
                           for x, label in zip(X, y, strict=True)])
        info = attacks.pgd(model, X, y, threat=threat, return_info=True)[1]
        np.testing.assert_array_equal(info.success, breaks)
        np.testing.assert_array_equal(certificates.certified_within(model, X, threat=threat), ~breaks)
        assert 0 < breaks.sum() < len(X)


def test_more_ways_than_are_tried_are_said_and_proven_by_what_holds_them_all(monkeypatch):
    X, y = mixed(0)
    model = make_pipeline(StandardScaler(), SVC(gamma=0.01)).fit(X, y)
    whole = certificates.certified_within(model, X, threat=THREAT)
    monkeypatch.setattr(trees_and_pipelines, "MOST_WAYS", 5)
    with pytest.warns(UserWarning, match="Not all were tried"):
        proven = certificates.certified_within(model, X, threat=THREAT)
    assert not (proven & ~whole).any()
    monkeypatch.setattr("buttress.attacks.joint.TRIED", 5)
    few = attacks.pgd(model, X, model.predict(X), threat=THREAT, random_state=0, return_info=True)[1]
    assert not (whole & few.success).any()
    assert few.success.sum() >= (~whole).sum() - 3  # swap after swap finds nearly what all ways find


def test_ways_are_counted_as_they_are_listed():
    X, _ = mixed(0)
    for most in range(5):
        moves = read_threat(replace(THREAT, most_swaps=most), X, X)
        assert moves.count() == len(list(moves.ways()))


def test_the_default_knows_what_columns_hold():
    rng = np.random.default_rng(0)
    X, _ = mixed(0, 40)
    frame = pd.DataFrame(X, columns=["a", "b", "whole", "flag", "other", "r", "g", "blue"])
    frame["key"] = rng.permutation(40) + 1000
    frame["date"] = pd.Timestamp("2024-01-01")
    frame["kind"] = rng.choice(["x", "y"], 40)
    frame["name"] = [f"row {number}" for number in range(40)]
    frame.loc[:, "name"] += [str(number) for number in range(40)]
    frame["constant"] = 1.5
    threat = ThreatModel.from_table(pd.concat([frame] * 2), by="0.5 sd", most_swaps=2)
    assert list(threat.numbers) == ["a", "b", "whole", "key"]  # doubled, the key is one no more
    threat = ThreatModel.from_table(frame, by="0.5 sd", most_swaps=2)
    assert list(threat.numbers) == ["a", "b", "whole"]
    assert threat.numbers["a"].by == pytest.approx(0.5 * frame["a"].std(ddof=0))
    assert [threat.numbers[name].step for name in ("a", "whole")] == [0, 1]
    assert threat.categories["flag"] == [0, 1]
    assert sorted(threat.categories["kind"]) == ["x", "y"]
    assert [list(group) for group in threat.one_hot] == [["r", "g", "blue"]]
    assert "'whole' by at most" in str(threat)
    assert "At most 2 cells are swapped" in str(threat)


def test_one_hot_groups_are_told_apart_where_they_stand_side_by_side():
    first, second = np.eye(2)[[0, 1, 1, 0, 1]], np.eye(3)[[0, 1, 2, 2, 1]]
    columns = dict(enumerate(np.column_stack([[1, 1, 0, 0, 1], first, second, [0, 0, 1, 0, 1]]).T))
    assert [[1, 2], [3, 4, 5]] in [one_hot_groups(columns, list(columns)), one_hot_groups(columns, [1, 2, 3, 4, 5])]
    assert one_hot_groups(columns, [1, 2, 3, 4, 5]) == [[1, 2], [3, 4, 5]]


@pytest.mark.parametrize("seed", range(5))
def test_a_group_is_found_behind_a_column_of_its_rows(seed):
    sex = np.eye(2, dtype=int)[np.random.default_rng(seed).permutation(20) % 2]
    some = sex[:, 0] * (np.arange(20) % 3 > 0)  # 1 in some rows where the first of the group is: never with the second
    frame = pd.DataFrame({"pregnant": some, "male": sex[:, 1], "female": sex[:, 0]})
    threat = ThreatModel.from_table(frame)
    assert [list(group) for group in threat.one_hot] == [["male", "female"]]
    assert list(threat.categories) == ["pregnant"]


def test_gaps_of_a_column_do_not_fix_it():
    frame = pd.DataFrame({"a": np.linspace(0, 1, 30) ** 2, "whole": np.arange(30.0) % 7, "flag": np.arange(30.0) % 2})
    gaps = pd.concat([frame, frame * np.nan])
    assert ThreatModel.from_table(gaps, by="0.5 sd") == ThreatModel.from_table(frame, by="0.5 sd")
    assert ThreatModel({"a": "2 sd"}).on(gaps).numbers["a"].by == pytest.approx(2 * frame["a"].std(ddof=0))


def test_a_file_declares_what_python_declares(tmp_path):
    path = tmp_path / "threat.toml"
    path.write_text("""
        norm = "l2"
        most_swaps = 2
        one_hot = [["r", "g"]]
        [numbers]
        heat = "0.5 sd"
        [numbers.weight]
        by = 2
        step = 1
        direction = "up"
        high = 90
        [categories]
        kind = []
    """)
    threat = ThreatModel.from_toml(path)
    assert threat == ThreatModel({"heat": "0.5 sd", "weight": Budget(2, step=1, direction="up", high=90)},
                                 {"kind": []}, [["r", "g"]], 2, "l2")
    table = pd.DataFrame({"heat": [1.0, 3.0], "weight": [1.0, 2.0], "kind": ["b", "a"], "r": [0, 1], "g": [1, 0]})
    known = threat.on(table)
    assert known.numbers["heat"].by == 0.5
    assert known.categories["kind"] == ["a", "b"]
    assert known.scaled(2).numbers["weight"].by == 4
    path.write_text("nrom = 'l2'")
    with pytest.raises(ValueError, match="Did you mean 'norm'"):
        ThreatModel.from_toml(path)
    path.write_text("[numbers.a]\nby = 1\nup = true")
    with pytest.raises(ValueError, match="declares 'up', which no Budget has"):
        ThreatModel.from_toml(path)


@pytest.mark.parametrize(("threat", "message"), [
    (ThreatModel({0: "1 sd"}), r"Use threat\.on\(X\)"),
    (ThreatModel({}, {0: []}), r"Use threat\.on\(X\)"),
    (ThreatModel({9: 0.1}), "names column 9, which X lacks"),
    (ThreatModel({0: Budget(1, low=0)}), "bounds exclude the data"),
    (ThreatModel({}, {0: ["red"]}), "which is no number"),
])
def test_what_cannot_be_read_is_said(threat, message):
    X, y = mixed(0)
    model = SVC().fit(X, y)
    for call in (attacks.pgd, attacks.exact, attacks.worst_case):
        with pytest.raises(ValueError, match=message):
            call(model if call is not attacks.exact else LinearSVC().fit(X, y), X, y, threat=threat)
    with pytest.raises(ValueError, match=message):
        certificates.certified_within(model, X, threat=threat)


def test_a_threat_is_declared_once():
    X, y = mixed(0)
    model = SVC().fit(X, y)
    for call in (attacks.pgd, attacks.fgsm, attacks.worst_case, attacks.exact):
        with pytest.raises(ValueError, match=r"Give either eps or threat\. Got both"):
            call(model, X, y, eps=0.1, threat=THREAT)
        with pytest.raises(ValueError, match=r"Give either eps or threat\. Got neither"):
            call(model, X, y)
        with pytest.raises(ValueError, match="a norm and bounds of its own"):
            call(model, X, y, threat=THREAT, bounds=(X - 1, X + 1))
    with pytest.raises(ValueError, match="Column 3 is named twice"):
        ThreatModel({3: 0.1}, {3: [0, 1]})
    for wrong in ("0.5", "x sd", -1, "-1 sd", "nan sd"):
        with pytest.raises(ValueError, match="by must be"):
            Budget(wrong)


def test_frames_are_attacked_by_name_and_scores_take_a_threat():
    X, y = mixed(0, 60)
    names = list("abcdefgh")
    frame = pd.DataFrame(X, columns=names, index=np.arange(60) + 5)
    threat = ThreatModel({"a": 0.2}, {"d": [0, 1]})
    model = SVC().fit(frame, y)
    found, info = attacks.pgd(model, frame, y, threat=threat, random_state=0, return_info=True)
    assert found.index.equals(frame.index)
    assert list(found.columns) == names
    by_number = ThreatModel({0: 0.2}, {3: [0, 1]})
    same = attacks.pgd(SVC().fit(X, y), X, y, threat=by_number, random_state=0, return_info=True)[1]
    np.testing.assert_array_equal(info.success, same.success)
    score = attacks.AttackedAccuracy(threat=by_number)(SVC().fit(X, y), X, y)
    assert score == pytest.approx(1 - same.success.mean(), abs=0.02)
    chosen = attacks.tuned(SVC(), X, y, threat=by_number, fits=3)
    assert chosen.score(X, y) > 0.5


def test_swaps_are_judged_by_the_model_where_its_threshold_is_another_than_its_scores():
    """The first value would do by the scores, and only the second by what is predicted."""
    X = np.linspace(-3, 3, 60)[:, None]
    y = (X[:, 0] > 0).astype(int)
    model = FixedThresholdClassifier(LogisticRegression(), threshold=0.9, response_method="predict_proba").fit(X, y)
    rows = X[X[:, 0] < -1]
    info = attacks.pgd(model, rows, np.zeros(len(rows)), threat=ThreatModel({}, {0: [0.3, 2.5]}), return_info=True)[1]
    assert model.predict([[0.3], [2.5]]).tolist() == [0, 1]
    assert info.success.all()


class Stepped(ClassifierMixin, BaseEstimator):
    """Scores that are flat but for one step, on which a row with a swapped second column can go down."""

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), 2
        return self

    def decision_function(self, X):
        moved, swapped = (np.asarray(X) > 0.5).T
        return 1.0 + swapped * (2.0 - moved)

    def predict(self, X):
        return (self.decision_function(X) > 0).astype(int)


def test_an_attack_is_not_blind_whose_scores_change_around_a_swap_alone():
    X, threat = np.zeros((3, 2)), ThreatModel({0: 0.8}, {1: [0, 1]})
    model = Stepped().fit(X, [0, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        info = attacks.pgd(model, X, np.ones(3), threat=threat, restarts=9, random_state=0, return_info=True)[1]
    assert not info.blind.any()
    assert not info.success.any()


@pytest.mark.filterwarnings("ignore")
def test_no_hostile_table_breaks_a_promise():
    results = [broken_promises(seed) for seed in range(10)]
    assert [one for broken, _ in results for one in broken] == []
    assert sum(proofs for _, proofs in results) > 50


def test_a_threat_of_another_kind_and_an_empty_range_are_refused():
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 0, 0, 1, 1, 1])
    model = SVC().fit(X, y)
    for take in (lambda: certificates.certified_within(model, X, threat=3), lambda: attacks.pgd(model, X, y, threat=3)):
        with pytest.raises(TypeError, match=r"threat must be a ThreatModel\. Got 3"):
            take()
    with pytest.raises(ValueError, match=r"low must be at most high\. Got low=2, high=1"):
        Budget(1, low=2, high=1)


@pytest.mark.parametrize(("text", "said"), [
    ("numbers = ['a']", "numbers must be budgets by column"), ("categories = 3", "categories must be lists of levels"),
    ("[categories]\nkind = 'red'", "column 'kind', must be a list of levels. Got 'red'"),
    ("one_hot = 'kind'", "one_hot must be a list of lists"),
    ("one_hot = ['a', 'b']", "must be a list of columns. Got 'a'"),
    ("[numbers]\na = -1", "column 'a': by must be"), ("[numbers.a]\nstep = 1", "column 'a': by must be a number"),
    ("[numbers.a]\nby = 1\nlow = 'x'", "column 'a': low must be a number"), ("[numbers", "not valid TOML"),
    ("a = 'gr\xf6\xdfer'", "Save it as UTF-8")])
def test_a_file_that_declares_no_threat_is_named_with_the_column(tmp_path, text, said):
    path = tmp_path / "threat.toml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=said) as error:
        ThreatModel.from_toml(path)
    assert str(path) in str(error.value)


def test_a_file_with_a_mark_of_its_encoding_is_read(tmp_path):
    (tmp_path / "threat.toml").write_text("[numbers]\na = 1", encoding="utf-8-sig")
    assert ThreatModel.from_toml(tmp_path / "threat.toml") == ThreatModel({"a": 1})
