"""Swapped categories against a loop over every version of every row."""

import itertools
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from buttress import ThreatModel, attacks
from buttress.attacks.swaps import WorstVersions
from buttress.threats.moves import Group


def of(names, most=1):
    """Return the threat to become what these columns hold."""
    return ThreatModel({}, {name: [] for name in names}, most_swaps=most)


def table(n=40):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"colour": rng.choice(["red", "green", "blue"], n), "size": rng.normal(size=n),
                      "shape": pd.Categorical(rng.choice(["round", "square"], n)), "grade": rng.integers(0, 4, n)})
    score = (X["colour"] == "red") + (X["grade"] > 1) * 0.7 + 0.5 * X["size"] + (X["shape"] == "round") * 0.4
    return X, np.where(score > score.median(), "yes", "no")


def fitted(last, X, y):
    names = ["colour", "shape", "grade"]
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), names), remainder="passthrough")
    return make_pipeline(encode, last).fit(X, y), names


@pytest.mark.parametrize("last", [LogisticRegression(C=10), DecisionTreeClassifier(max_depth=4), RidgeClassifier()],
                         ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("count", [1, 2])
def test_a_row_falls_if_and_only_if_some_version_of_it_does(last, count):
    X, y = table()
    model, names = fitted(last, X, y)
    found, info = attacks.swaps(model, X, y, threat=of(names, count), return_info=True)
    levels = [list(dict.fromkeys(X[name])) for name in names]
    versions = [(row, values) for row in range(len(X)) for values in product(*levels)
                if sum(value != X[name].iloc[row] for name, value in zip(names, values, strict=True)) <= count]
    rows = [row for row, _ in versions]
    frame = X.iloc[rows].reset_index(drop=True)
    for name, column in zip(names, zip(*[values for _, values in versions], strict=True), strict=True):
        frame[name] = pd.Series(column).astype(X[name].dtype)
    fell = pd.Series(model.predict(frame) != y[rows]).groupby(np.array(rows)).any().to_numpy()
    np.testing.assert_array_equal(info.success, fell)
    np.testing.assert_array_equal(model.predict(found) != y, info.success)
    assert found.dtypes.equals(X.dtypes)
    assert found.index.equals(X.index)
    np.testing.assert_array_equal(info.distance, (found[names].astype(object) != X[names].astype(object)).sum(axis=1))
    assert info.distance.max() <= count
    np.testing.assert_array_equal(found["size"], X["size"])


def test_levels_may_be_given_and_arrays_and_polars_taken():
    pl = pytest.importorskip("polars")
    X, y = table()
    cells = X[["colour", "grade"]].astype(str).to_numpy(dtype=object)
    model = make_pipeline(OneHotEncoder(), LogisticRegression(C=10)).fit(cells, y)
    info = attacks.swaps(model, cells, y, threat=ThreatModel({}, {0: ["green"]}), return_info=True)[1]
    green = cells.copy()
    green[:, 0] = "green"
    np.testing.assert_array_equal(info.success, (model.predict(cells) != y) | (model.predict(green) != y))
    frame = pl.DataFrame({"a": cells[:, 0].astype(str), "b": cells[:, 1].astype(str)})
    other = make_pipeline(OneHotEncoder(), LogisticRegression(C=10)).fit(pd.DataFrame(cells, columns=["a", "b"]), y)

    class Polars:
        classes_ = other.classes_

        def predict(self, X):
            return other.predict(pd.DataFrame({name: X[name].to_list() for name in X.columns}))

    Polars.__sklearn_is_fitted__ = lambda self: True
    named = attacks.swaps(Polars(), frame, y, threat=ThreatModel({}, {"a": ["green"]}), return_info=True)[1]
    np.testing.assert_array_equal(named.success, info.success)
    assert np.isnan(named.margin).all()


@pytest.mark.parametrize("empty", [np.nan, None, pd.NA], ids=str)
def test_an_empty_cell_is_an_entry_like_others(empty):
    X, y = table()
    X["shape"] = X["shape"].astype(object)
    X.loc[X.index[::5], "shape"] = empty

    class Shapes:
        classes_ = np.array(["no", "yes"])

        def predict(self, X):
            return np.where(X["shape"].isna(), "yes", "no")

    Shapes.__sklearn_is_fitted__ = lambda self: True
    found, info = attacks.swaps(Shapes(), X, y, threat=of(["shape"]), return_info=True)
    assert info.success.all()       # an empty cell turns every row into a yes, any other entry into a no
    np.testing.assert_array_equal(found["shape"].isna(), y == "no")
    np.testing.assert_array_equal(info.distance, X["shape"].isna() == (y == "yes"))
    numbers = pd.DataFrame({"shape": np.where(X["shape"].isna(), np.nan, 1.0)})
    assert attacks.swaps(Shapes(), numbers, y, threat=of(["shape"]), return_info=True)[1].queries <= 4 * len(X)


def test_one_cell_after_another_does_what_all_ways_do_where_scores_add_up():
    X, y = table()
    model, names = fitted(LogisticRegression(C=10), X, y)
    codes = (y == "yes").astype(int)
    entries = {name: list(dict.fromkeys(X[name])) for name in names}

    def harm(rows, versions):
        frame = X.iloc[rows].assign(**{name: [entries[name][int(code)] for code in column]
                                       for name, column in zip(names, versions.T, strict=True)})
        score = model.decision_function(frame)
        return np.where(codes[rows] == 1, -score, score)

    given = np.array([[entries[name].index(cell) for name, cell in row.items()] for _, row in X[names].iterrows()])
    groups = [Group(np.array([place]), np.arange(len(entries[name]))[:, None]) for place, name in enumerate(names)]
    greedy, whole = (WorstVersions(given.astype(float), harm, groups) for _ in range(2))
    ways = [((group, choice),) for group, each in enumerate(groups) for choice in range(len(each.choices))]
    whole.try_ways(sum(some, ()) for k in (1, 2) for some in itertools.combinations(ways, k))
    greedy.add_one()
    assert (given != greedy.X).sum(axis=1).max() == 1
    greedy.add_one()
    assert (given != greedy.X).sum(axis=1).max() == 2
    np.testing.assert_allclose(greedy.most, whole.most)


def test_what_cannot_be_done_is_said():
    X, y = table()
    model, names = fitted(LogisticRegression(), X, y)
    with pytest.raises(ValueError, match=r"columns must be columns of X\. Got 'weight'"):
        attacks.swaps(model, X, y, threat=of(["weight"]))
    with pytest.raises(ValueError, match="ways to change"):
        attacks.swaps(model, X, y, threat=ThreatModel({}, {name: range(100) for name in names}, most_swaps=3))
    with pytest.raises(ValueError, match="Got a threat to others"):
        attacks.swaps(model, X, y, threat=ThreatModel({"size": 0.1}))
    with pytest.raises(ValueError, match="not among the classes"):
        attacks.swaps(model, X, np.full(len(y), "maybe"), threat=of(names))


def test_margins_without_bound_settle_no_row():
    X, y = table()
    model, names = fitted(LogisticRegression(C=10), X, y)

    class Certain:
        classes_ = model.classes_

        def predict(self, X):
            return model.predict(X)

        def decision_function(self, X):
            return np.where(model.decision_function(X) > 0, np.inf, -np.inf)

    Certain.__sklearn_is_fitted__ = lambda self: True
    _, expected = attacks.swaps(model, X, y, threat=of(names), return_info=True)
    _, found = attacks.swaps(Certain(), X, y, threat=of(names), return_info=True)
    np.testing.assert_array_equal(found.success, expected.success)
    assert expected.success.any()
