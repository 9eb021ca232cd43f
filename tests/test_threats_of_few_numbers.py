"""At most k numbers moved beside swaps: attacks and proofs against a search of everything on small tables."""

from dataclasses import replace
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import SVC, Budget, LinearSVC, ThreatModel, attacks, certificates
from buttress.certificates import trees_and_pipelines

ASKED = 24  # of the rows that a model is fitted to
REACH = {0: 0.4, 1: 0.2, 2: 1.0, 3: 0.3}
THREAT = ThreatModel({0: 0.4, 1: Budget(0.2, direction="up"), 2: Budget(1, step=1), 3: 0.3}, {4: [0, 1]}, most_moved=1)


def table(rows=40):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, 5))
    X[:, 2] = rng.integers(0, 5, rows)
    X[:, 4] = rng.integers(0, 2, rows)
    y = (X[:, 0] + X[:, 1] + 0.5 * X[:, 2] + X[:, 3] + X[:, 4] + 0.3 * rng.normal(size=rows) > 1.5).astype(int)
    return X, y


def values(x, column, ends):
    """Return values that a number may have: a grid, of steps its steps."""
    if column == 2:
        return x[2] + np.array([-1, 0, 1])
    low = 0 if column == 1 else -REACH[column]
    return x[column] + np.linspace(low, REACH[column], 2 if ends else 9)


def moved_by(x, most, of_column):
    """Return every row in which so many of the numbers have a value of their column."""
    found = []
    for places in combinations(range(4), most):
        given = list(product(*map(of_column, places)))
        rows = np.repeat(x[None], len(given), axis=0)
        rows[:, list(places)] = np.array(given, dtype=float).reshape(len(given), most)
        found.append(rows)
    return np.concatenate(found)


def with_flags(rows, flags):
    return np.concatenate([np.column_stack([rows[:, :4], np.full(len(rows), flag)]) for flag in sorted(set(flags))])


def versions(x, most, swaps=1, ends=False, norm="linf"):
    """Return every input on a grid with at most so many numbers moved."""
    rows = moved_by(x, most, lambda column: np.append(values(x, column, ends), x[column]))
    size = (((rows - x)[:, :4] / list(REACH.values())) ** 2).sum(axis=1)
    rows = rows if norm == "linf" else rows[size <= 1 + 1e-12]
    return with_flags(rows, [x[4], 0.0, 1.0] if swaps else [x[4]])


MODELS = {"rbf": SVC(gamma=0.2, C=10), "poly": make_pipeline(StandardScaler(), SVC(kernel="poly", degree=3)),
          "linear": LinearSVC()}


@cache
def of_all(name, norm):
    """Return a fitted model, and which of the rows asked about it withstand that all numbers are moved."""
    X, y = table()
    model = MODELS[name].fit(X, y)
    return model, certificates.certified_within(model, X[:ASKED], threat=replace(THREAT, most_moved=None, norm=norm))


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("most", [0, 1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_no_input_breaks_a_proof_and_the_attack_finds_what_a_grid_finds(name, most, norm):
    X = table()[0][:ASKED]
    model, whole = of_all(name, norm)
    threat = replace(THREAT, most_moved=most, norm=norm)
    labels = model.predict(X)
    proven = certificates.certified_within(model, X, threat=threat)
    found, info = attacks.pgd(model, X, labels, threat=threat, random_state=0, return_info=True)
    broken = np.array([(model.predict(versions(x, most, norm=norm)) != label).any()
                       for x, label in zip(X, labels, strict=True)])
    assert not (proven & (broken | info.success)).any()
    assert info.success.sum() >= broken.sum() - (2 if norm == "l2" else 0)  # of steps an ellipsoid's search finds few
    moved = (np.abs(found - X)[:, :4] > 1e-12).sum(axis=1)
    assert moved.max(initial=0) <= most
    assert (proven | ~whole).all()
    if 0 < most < 3 and norm == "linf":
        assert proven.sum() > whole.sum()  # that only some may be moved is made use of


@pytest.mark.parametrize("most", [0, 1, 2, 4])
@pytest.mark.parametrize("swaps", [0, 1])
def test_of_linear_models_the_exact_attack_is_the_best_of_all_corners(most, swaps):
    X, y = table()
    model = LinearSVC().fit(X, y)
    threat = replace(THREAT, most_moved=most, most_swaps=swaps)
    _, info = attacks.exact(model, X, y, threat=threat, return_info=True)
    leads = np.array([((2 * label - 1) * model.decision_function(versions(x, most, swaps, ends=True))).min()
                      for x, label in zip(X, y, strict=True)])
    np.testing.assert_allclose(np.where(info.bound == -np.inf, leads, info.bound), leads)
    np.testing.assert_array_equal(info.success, leads <= 0)


@pytest.mark.parametrize("most", [0, 1, 2, 3])
@pytest.mark.parametrize("model", [RandomForestClassifier(5, max_depth=4, random_state=0),
                                   GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0)],
                         ids=["forest", "boosting"])
def test_of_trees_the_exact_attack_is_the_search_of_all_cells(model, most):
    X, y = table()
    model.fit(X, y)
    threat = replace(THREAT, most_moved=most)
    found, info = attacks.exact(model, X, y, threat=threat, return_info=True)
    cuts = [np.sort(np.concatenate([tree.tree_.threshold[tree.tree_.feature == column]
                                    for tree in np.ravel(model.estimators_)])) for column in range(4)]

    def cell_values(x, column):
        grid = values(x, column, True)
        if column == 2:
            return np.append(grid, x[2])
        inside = cuts[column][(cuts[column] > grid.min()) & (cuts[column] < grid.max())]
        edges = np.unique([grid.min(), *inside, grid.max()])
        return np.concatenate([grid, (edges[1:] + edges[:-1]) / 2, [x[column]]])

    broken = []
    for x, label in zip(X, y, strict=True):
        rows = with_flags(moved_by(x, most, lambda column, x=x: cell_values(x, column)), [0.0, 1.0])
        broken.append((model.predict(np.vstack([x, rows])) != label).any())
    np.testing.assert_array_equal(info.success, broken)
    assert info.proven.all()
    assert ((np.abs(found - X)[:, :4] > 1e-9).sum(axis=1) <= most).all()
    stands = certificates.certified_within(model, X, threat=threat) & (model.predict(X) == y)
    assert not (stands & broken).any()


def test_more_choices_than_are_tried_are_said_and_proven_as_if_all_might_move(monkeypatch):
    X, y = table()
    model = SVC(gamma=0.2).fit(X, y)
    monkeypatch.setattr(trees_and_pipelines, "MOST_WAYS", 5)
    with pytest.warns(UserWarning, match="to choose the numbers that are moved"):
        few = certificates.certified_within(model, X, threat=THREAT)
    np.testing.assert_array_equal(few, certificates.certified_within(model, X, threat=replace(THREAT, most_moved=None)))


def test_it_is_said_and_read_from_a_file(tmp_path):
    assert "at most 1 of a row" in str(THREAT)
    (tmp_path / "threat.toml").write_text("most_moved = 2\n[numbers]\nage = 1\n")
    assert ThreatModel.from_toml(tmp_path / "threat.toml") == ThreatModel({"age": 1}, most_moved=2)
    with pytest.raises(ValueError, match="most_moved"):
        ThreatModel({0: 1}, most_moved=-1)
    X, y = table()
    with pytest.raises(ValueError, match="not settled exactly"):
        attacks.exact(LinearSVC().fit(X, y), X, y, threat=replace(THREAT, norm="l2"))


def test_of_forty_numbers_the_two_that_a_sum_of_stumps_weighs_most_are_moved():
    """Pairs are too many to try each, and slopes are flat: the second number must be looked for beside the worst."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 40))
    y = (X @ rng.normal(size=40) > 0).astype(int)
    model = GradientBoostingClassifier(max_depth=1, learning_rate=1.0, random_state=0).fit(X, y)
    info = attacks.pgd(model, X, y, threat=ThreatModel(dict.fromkeys(range(40), 0.5), most_moved=2), random_state=0,
                       return_info=True)[1]
    sign = np.where(y == 1, 1, -1)
    lead = sign * model.decision_function(X)
    ends = [[sign * model.decision_function(X + move * np.eye(40)[j]) for move in (-0.5, 0.5)] for j in range(40)]
    by_one = np.sort(lead - np.min(ends, axis=1), axis=0)[::-1]
    falls = lead < by_one[0] + by_one[1]
    assert (falls > (lead < by_one[0])).sum() > 20
    np.testing.assert_array_equal(info.success, falls)
