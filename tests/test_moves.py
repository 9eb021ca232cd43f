"""Any model in the columns as they came: what it is asked with, and moves that do most harm, by trying all of them."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import buttress
from buttress.audit.baselines import is_fitted, takes_numbers
from buttress.audit.move_space import MoveSpace
from buttress.audit.moves import InPlace, blanks_of, swaps_of, worst_changes, worst_numbers
from buttress.audit.reading.source import kind_of_frame
from buttress.audit.reading.table import columns_of, make_table

from audit_problems import only

N = 90
RNG = np.random.default_rng(0)
SIZE = RNG.normal(50, 10, N)
COLOUR = RNG.choice(["red", "green", "blue"], N).astype(object)
COLOUR[::9] = None
TEXT = np.array([f"{RNG.choice(['good', 'bad'])} {i}" for i in range(N)], dtype=object)
COLUMNS = {"size": SIZE, "rooms": RNG.integers(1, 6, N), "colour": COLOUR, "text": TEXT,
           "gap": np.where(np.arange(N) % 7 == 0, np.nan, RNG.normal(size=N)), "flag": RNG.random(N) > 0.5}
SCORE = (SIZE - 50) / 10 + 2.0 * (COLOUR == "red") + 2.0 * np.array(["good" in text for text in TEXT])
LABELS = np.where(SCORE > 1.5, "yes", "no")


@pytest.fixture(autouse=True, scope="module")
def few():
    """Audits of one machine beside the baselines: what is tested here is the user's model."""
    with only("plain SVC", "plain kernel ridge"):
        yield


def framed(library):
    """A column of pandas keeps None as it is only where it is told to."""
    if library is pl:
        return pl.DataFrame({name: column.tolist() for name, column in COLUMNS.items()})
    return pd.DataFrame({name: pd.Series(column, dtype=column.dtype) for name, column in COLUMNS.items()})


def pipeline(last=None):
    """A model over text, gaps and categories, asked with frames."""
    prepare = make_column_transformer(
        (make_pipeline(SimpleImputer()), ["size", "rooms", "gap"]), (TfidfVectorizer(), "text"),
        (OneHotEncoder(handle_unknown="ignore"), ["colour", "flag"]))
    return make_pipeline(prepare, LogisticRegression(max_iter=2000) if last is None else last)


class LabelsOnly:
    """A model that has nothing but predict, and keeps what it was asked with."""

    def __init__(self, model):
        self.model = model
        self.asked = []

    def predict(self, data):
        self.asked.append(data)
        return self.model.predict(data)


def spaced(X, y):
    """A table and its space, all rows taken for training."""
    table = make_table(columns_of(X), y, "y", "auto")
    table.origin = "", kind_of_frame(X)
    return table, MoveSpace(table, table.coded(), np.arange(len(table))), table.classifies


@pytest.mark.parametrize("library", [pd, pl])
def test_rows_that_are_not_moved_are_the_data_as_they_came(library):
    frame = framed(library)
    _, space, _ = spaced(frame, LABELS)
    data = space.data(space.rows(np.arange(N)))
    assert type(data) is type(frame)
    if library is pd:
        pd.testing.assert_frame_equal(data, frame)
    else:
        assert data.equals(frame)
    some = space.data(space.rows(np.array([5, 2])))
    assert list(some["text"]) == [TEXT[5], TEXT[2]]


def test_rows_of_an_array_are_arrays():
    X = RNG.normal(size=(40, 3))
    _, space, _ = spaced(X, np.arange(40) % 2)
    np.testing.assert_array_equal(space.data(space.rows(np.arange(40))), X)


@pytest.mark.parametrize("library", [pd, pl])
def test_moved_rows_have_the_users_types(library):
    frame = framed(library)
    _, space, _ = spaced(frame, LABELS)
    rows = space.rows(np.arange(N))
    places = {axis.name: axis for axis in space.axes}
    assert set(places) == {"size", "rooms", "colour", "gap", "flag"}
    assert places["rooms"].whole
    rows[:, places["rooms"].place] += 1
    rows[0, places["colour"].place] = places["colour"].gap
    rows[:, places["flag"].place] = 1.0
    data = space.data(rows)
    assert data["rooms"].dtype == frame["rooms"].dtype
    np.testing.assert_array_equal(np.asarray(data["rooms"]), COLUMNS["rooms"] + 1)
    assert data["flag"].dtype == frame["flag"].dtype
    assert np.asarray(data["flag"]).all()
    assert bool(data["colour"].isna()[0] if library is pd else data["colour"].is_null()[0])


def by_hand(model, frame, y, changes):
    """The rows a model still gets right under every one of the changes, each asked for on its own."""
    right = model.predict(frame) == y
    for name, value in changes:
        changed = frame.copy()
        changed[name] = pd.Series([value] * len(frame), dtype=object if value is None else None)
        right &= model.predict(changed) == y
    return right


@pytest.mark.parametrize("scores", [True, False])
def test_one_swap_and_one_empty_cell_are_the_worst_of_all(scores):
    frame = framed(pd)
    model = pipeline().fit(frame, LABELS)
    table, space, classifies = spaced(frame, LABELS)
    asked = InPlace(model if scores else LabelsOnly(model), space, table.target, classifies).asked()
    assert (asked.scores is not None) == scores
    rows = space.rows(np.arange(N))
    swaps = [("colour", value) for value in ("red", "green", "blue")] + [("flag", value) for value in (True, False)]
    blanks = [(name, np.nan) for name in ("size", "rooms", "gap")] + [("colour", None)]
    for changes, expected in ((swaps_of(space.axes), swaps), (blanks_of(space.axes), blanks)):
        assert len(changes) == len(expected)
        found = worst_changes(asked.harms(LABELS)[0], rows, changes, 2)
        np.testing.assert_array_equal(found[0] < 1, by_hand(model, frame, LABELS, expected))
        assert (found[1] >= found[0]).all()


def test_two_swaps_do_at_most_what_all_pairs_can():
    """The greedy search is held to the pairs, all tried by hand."""
    frame = framed(pd)
    model = pipeline(Ridge()).fit(frame, SCORE)
    _, space, _ = spaced(frame, SCORE)
    asked = InPlace(model, space, SCORE, False).asked()
    swaps = swaps_of(space.axes)
    found = np.max([worst_changes(harm, space.rows(np.arange(N)), swaps, 2) for harm in asked.harms(SCORE)], axis=0)
    most = np.abs(model.predict(frame) - SCORE)
    for colour, flag in itertools.product(["red", "green", "blue", None], [True, False, None]):
        changed = frame.copy()
        changed["colour"] = frame["colour"] if colour is None else colour
        changed["flag"] = frame["flag"] if flag is None else flag
        most = np.maximum(most, np.abs(model.predict(changed) - SCORE))
    assert (found[1] <= most + 1e-9).all()
    assert (found[1] == pytest.approx(most))  # a sum of one part a column: the worst of each is the worst of both


def test_numbers_of_a_linear_model_go_to_the_corner_against_its_weights():
    """The worst error of a linear model within a box is known: that at the centre plus radius times |weights|."""
    X = RNG.normal(size=(60, 3)) * [1, 10, 100]
    y = X @ [1.0, 0.2, 0.01] + RNG.normal(size=60)
    model = Ridge().fit(X, y)
    _, space, _ = spaced(X, y)
    asked = InPlace(model, space, y, False).asked()
    spread = (np.quantile(X, 0.75, axis=0) - np.quantile(X, 0.25, axis=0)) / 1.349
    found = np.max([worst_numbers(harm, space.rows(np.arange(60)), space.axes, [0.1, 0.5], 0)
                    for harm in asked.harms(y)], axis=0)
    for radius, harms in zip((0.1, 0.5), found, strict=True):
        worst = np.abs(model.predict(X) - y) + radius * spread @ np.abs(model.coef_)
        np.testing.assert_allclose(harms, worst)


def test_whole_numbers_move_by_whole_numbers():
    X = pd.DataFrame({"rooms": COLUMNS["rooms"], "year": np.arange(N) * 3})
    model = LabelsOnly(Ridge().fit(X, SCORE))
    _, space, _ = spaced(X, SCORE)
    asked = InPlace(model, space, SCORE, False).asked()
    worst_numbers(asked.harms(SCORE)[0], space.rows(np.arange(N)), space.axes, [0.3], 0)
    assert all(data["rooms"].dtype.kind == "i" for data in model.asked)
    assert max(int((data["rooms"] - X["rooms"]).abs().max()) for data in model.asked) == 0  # .3 deviations are no room
    assert max(int((data["year"] - X["year"]).abs().max()) for data in model.asked) > 1


@pytest.fixture(scope="module")
def result():
    frame = framed(pd)
    return buttress.audit(LabelsOnly(pipeline().fit(frame, LABELS)), frame, LABELS, rows=30, swaps=2)


def test_a_labels_only_model_over_text_gaps_and_categories_gets_every_column(result):
    cells = result.rows["yours (LabelsOnly)"]
    assert result.data["categorical"] == ["colour"]
    for key in ("moved", "swapped", "blanked"):
        assert cells[key].value <= cells["as_is"].value
        assert all(row[key].value is not None for name, row in result.rows.items() if name != "least squares")
        curve = result.curves[key]["yours (LabelsOnly)"]
        assert curve == sorted(curve, reverse=True)
    assert "at most 2 categories" in result.columns["swapped"]
    assert result.curves["swapped"]["x"] == [0.0, 1.0, 2.0]
    assert cells["swapped"].value == result.curves["swapped"]["yours (LabelsOnly)"][2]
    assert {"moved", "swapped"} <= {finding.evidence.get("move") for finding in result.findings} | {"moved"}
    assert result._repr_html_().count("&lt;svg") == 6


def test_a_model_that_takes_no_gap_is_noted_and_a_regression_is_measured_by_its_error():
    X = pd.DataFrame({"a": SIZE, "b": COLUMNS["rooms"]})
    found = buttress.audit(Ridge().fit(X, SCORE), X, SCORE, rows=30)
    assert "yours (Ridge) raises an error on rows with an empty cell in 'a', 'b': those" in " ".join(found.notes)
    assert "blanked" not in found.columns
    assert found.rows["yours (Ridge)"]["moved"].value > found.rows["yours (Ridge)"]["as_is"].value


@pytest.mark.parametrize(("model", "message"), [
    (pipeline(), "lack the column 'colour'"), (SimpleNamespace(fit=None), "needs a method predict"),
    (SimpleNamespace(predict=lambda data: np.full(len(data), "other")), "predicts 'other', which is no class"),
    (SimpleNamespace(predict=lambda data: 1 / 0), r"cannot predict the rows as they came \(ZeroDivisionError")])
def test_models_that_do_not_suit_the_data_are_refused_before_any_work(model, message):
    if hasattr(model, "steps"):
        model.fit(framed(pd), LABELS)
    with pytest.raises(ValueError, match=message):
        buttress.audit(model, framed(pd).drop(columns="colour"), LABELS, rows=30)


def test_numbers_without_gaps_are_asked_at_prepared_features():
    X = pd.DataFrame({"a": SIZE, "b": COLUMNS["gap"]})
    table = make_table(columns_of(X), LABELS, "y", "auto")
    whole = make_table(columns_of(X[["a"]]), LABELS, "y", "auto")
    model = LogisticRegression().fit(X[["a"]], LABELS)
    assert (takes_numbers(model, whole), takes_numbers(model, table)) == (True, False)
    assert [is_fitted(one) for one in (model, LogisticRegression(), LabelsOnly(model))] == [True, False, True]


def test_a_trained_model_file_is_audited_on_texts_and_gaps(tmp_path):
    from buttress.audit.models.training import estimators, train
    from buttress.persistence import load, save

    columns = {"price": np.array([f"£{value:.2f}" for value in SIZE], dtype=object), "colour": COLOUR,
               "gap": COLUMNS["gap"]}
    table = make_table(columns, LABELS == "yes", "y", "auto")
    entries = estimators(table, 0.25, 0)
    name = "logistic regression"
    save(train(table, name, entries[name], source="a", written={}), tmp_path / "m.buttress")
    found = buttress.audit(load(tmp_path / "m.buttress"), pd.DataFrame(columns), LABELS == "yes", rows=30)
    cells = found.rows["yours (logistic regression)"]
    assert cells["as_is"].value > 0.6
    assert cells["swapped"].value <= cells["as_is"].value
    with pytest.raises(ValueError, match="regression task, which TableModel does not do"):
        buttress.audit(load(tmp_path / "m.buttress"), pd.DataFrame(columns), SCORE)


class Answers:
    """A fitted model that says ``answer`` of the sizes of the rows."""

    def __init__(self, answer):
        self.answer = answer

    def predict(self, X):
        return self.answer(X["size"].to_numpy())


@pytest.mark.parametrize(("answer", "said"), [
    (lambda sizes: 1 / (1 + np.exp(50 - sizes)), r"0\.\d+"),
    (lambda sizes: np.where(sizes > 50, "big", "small"), "'(big|small)'")], ids=["probabilities", "texts"])
def test_what_a_model_says_that_is_no_class_is_named(answer, said):
    """A probability of .7 is not class 0."""
    with pytest.raises(ValueError, match=f"predicts {said}, which is no class of the target"):
        buttress.audit(Answers(answer), pd.DataFrame(COLUMNS), (SIZE > 50).astype(int), effort="quick")


@pytest.mark.parametrize("first", [0, 2**60])
def test_classes_that_are_large_whole_numbers_are_told_apart(first):
    result = buttress.audit(Answers(lambda sizes: first + (sizes > 50)), pd.DataFrame(COLUMNS), first + (SIZE > 50),
                            effort="quick")
    assert result.rows["yours (Answers)"]["as_is"].value == 1
