"""The audit from Python: what it measures is checked by hand, and unusable data is refused by name."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binomtest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import buttress
from buttress.audit.measurements import MEASUREMENTS
from buttress.audit.measurements import scores as score_stage
from buttress.audit.measurements.attacked import MOVED
from buttress.audit.measuring.cells import Cell, accuracy, rmse
from buttress.audit.measuring.fits import as_good, better_than_guessing, deciding_columns, recommended, simplest
from buttress.audit.measuring.measurement import Measured
from buttress.audit.measuring.split_table import SplitPart, split_table
from buttress.audit.measuring.suspicion import Verdicts, judge, nearest, suspects
from buttress.audit.measuring.threatened import AttackOutcome, under_threat
from buttress.audit.options import Options
from buttress.audit.reading.source import kind_of, load, read_call
from buttress.audit.reading.table import columns_of, make_table, settle_task
from buttress.audit.writing.paste import paste
from buttress.audit.writing.report import html

from audit_problems import only


@pytest.fixture(autouse=True)
def few():
    """One machine beside the baselines, where a test audits: the fixture ``result`` has all of them."""
    with only("plain SVC", "plain kernel ridge"):
        yield


@pytest.fixture(scope="module")
def frame():
    """Numbers with a hole, a category, a constant and an identifier; the target depends on the first two."""
    rng = np.random.default_rng(0)
    n = 160
    colour = rng.choice(["red", "green"], n)
    size = rng.normal(size=n)
    size_with_hole = size.copy()
    size_with_hole[5] = np.nan
    return pd.DataFrame({
        'si"ze\n': size_with_hole, "weight": rng.normal(size=n), "colour": colour, "always": 1.0,
        "name": [f"row {i}" for i in range(n)], "label": np.where(size + (colour == "red") > 0.5, "yes", "no"),
    })


@pytest.fixture(scope="module")
def result(frame):
    """An audit of all estimators; ``few`` is per test, so that it does not reach here."""
    with only():
        return buttress.audit(None, frame.drop(columns="label"), frame["label"], rows=80)


def test_columns_are_sorted_and_what_is_dropped_is_said(result):
    assert result.data["numeric"] == ['si"ze\n', "weight"]
    assert result.data["categorical"] == ["colour"]
    assert any("'always' is constant" in note for note in result.notes)
    assert any("'name'" in note and "identifier" in note for note in result.notes)
    assert result.measured["rows that models are trained on"] == "80 of 112"


def test_every_cell_is_measured_with_an_interval_around_it(result):
    assert set(result.columns) - {"novel"} == {"as_is", "balanced", "auc", "log_loss", "attacked", "certified",
                                               "flipped_10", "flipped_30", "labels_needed", "labels_proven"}
    rows = {name: {key: cell for key, cell in cells.items() if not key.startswith("labels")}
            for name, cells in result.rows.items() if name != "least squares"}  # it is there for those columns
    for name, cells in rows.items():
        for key, cell in cells.items():
            if (name, key) == ("gradient boosting", "certified"):  # of trees no proof is known
                assert cell == Cell()
                continue
            assert 0 <= cell.low <= cell.value <= cell.high <= (np.inf if key == "log_loss" else 1)
        assert cells["attacked"].value <= cells["as_is"].value
        assert name == "gradient boosting" or cells["certified"].value <= cells["attacked"].value


def test_the_same_seed_gives_the_same_numbers(frame, result):
    again = buttress.audit(None, frame.drop(columns="label"), frame["label"], rows=80)
    assert again.rows == {name: result.rows[name] for name in again.rows}
    assert again.suspects == result.suspects


def test_the_result_is_plain_json_and_a_page_without_links(result):
    text = json.dumps(result.to_dict(), allow_nan=False)
    assert json.loads(text)["schema"] == "buttress.audit/3"
    page = html(result)
    assert "<svg" in page
    assert "src=" not in page.replace("xlink", "")
    assert "http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", "").replace("https://matplotlib.org", "")


def test_the_code_to_paste_runs(frame, result):
    scope = {}
    exec(result.code, scope)
    model = scope["model"].fit(frame, frame["label"])
    assert model.score(frame, frame["label"]) > 0.8


def test_the_code_of_a_file_or_a_bundled_set_reads_it(frame, tmp_path):
    path = tmp_path / "numbers.csv"
    frame.rename(columns={'si"ze\n': "size"}).assign(flag=frame["weight"] > 0).to_csv(path, index=False)
    odd = tmp_path / "numbers.dat"
    pl.DataFrame({name.strip('"\n'): frame[name].tolist() for name in frame.columns}).write_parquet(odd)
    for source, target, kind in ((str(path), "label", None), (str(odd), "label", "parquet"), ("iris", None, None)):
        columns, y, name = load(source, target, kind)
        table = make_table(columns, y, name, "auto")
        table.origin = source, kind_of(source, kind)
        assert table.task == "classification"
        scope = {}
        exec(paste(table, buttress.SVC()), scope)
        given = scope["y"] if source == "iris" else scope["frame"]["label"].to_numpy()
        assert scope["model"].score(scope["frame"], given) > 0.8


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_code_of_a_frame_is_in_the_users_library(library):
    frames = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    price, weight = rng.normal(5, 1, size=(2, 80)).round(3)
    y = np.where(price + weight > 10, "dear", "cheap")
    data = frames.DataFrame({"price": [f"£{value}" for value in price], "it's": [f" {value} KG" for value in weight],
                             "kind": np.array(["a", "b"] * 40, dtype=object)})
    scope = {}
    exec(code := buttress.audit(None, data, y, rows=40).code, scope)
    assert (f"import {library}" in code, "read_csv" in code) == (True, False)
    numbers = scope["with_numbers"](data)
    np.testing.assert_array_equal(numbers["price"], price)
    np.testing.assert_array_equal(numbers["it's"], weight)
    assert scope["model"].fit(numbers, y).score(numbers, y) > 0.8


def test_the_code_of_an_array_takes_columns_by_number():
    X, y = load_iris(return_X_y=True)
    X = np.column_stack([np.ones(150), X])
    scope = {}
    exec(code := buttress.audit(None, X, y, target_name="iris", rows=60).code, scope)
    assert scope["model"].fit(X, y).score(X, y) > 0.8
    assert "load_bundled" not in code


@pytest.mark.parametrize(("name", "separator", "decimal"), [
    ("a.csv", ";", "."), ("a.csv", ";", ","), ("a.tsv", "\t", ","), ("a.csv", "|", "."), ("a.csv", ",", ".")])
def test_separators_and_decimal_commas_are_found_out(frame, tmp_path, name, separator, decimal):
    path = tmp_path / name
    frame.to_csv(path, index=False, sep=separator, decimal=decimal)
    columns, y, target = load(str(path), "label", None)
    assert list(columns) == list(frame.columns.drop("label"))
    assert y.to_list() == frame["label"].tolist()
    np.testing.assert_array_equal(columns["weight"].to_numpy(), frame["weight"])
    table = make_table(columns, y, target, "auto")
    table.origin = str(path), kind_of(str(path), None)
    scope = {}
    exec(paste(table, buttress.SVC()), scope)
    assert scope["model"].score(scope["frame"], scope["frame"]["label"].to_numpy()) > 0.8


@pytest.mark.parametrize("start", ["", "\n", "\r\n\r\n", " \n"], ids=["none", "one", "two of Windows", "of a space"])
@pytest.mark.parametrize(("separator", "numbers"), [
    (",", ["1.5e-3", ".5", "-2.25"]), (";", ["1,5e-3", "2", "3"]), (";", [",5", "2", "3"]), ("\t", ["2", "-2,25", "3"]),
])
@pytest.mark.parametrize("text", ["word", "long " * 40_000], ids=["short", "long"])
def test_the_options_found_read_the_file_as_it_was_written(tmp_path, start, separator, numbers, text):
    """Long texts are beyond what the csv module takes, 131,072 letters."""
    path = tmp_path / "a.csv"
    lines = [["size", "note", "y"], *([number, text, str(i)] for i, number in enumerate(numbers))]
    path.write_bytes((start + "".join(separator.join(line) + "\n" for line in lines)).encode())
    columns, y, _ = load(str(path), "y", None)
    assert list(columns) == ["size", "note"]
    assert columns["size"].to_list() == [float(number.replace(",", ".")) for number in numbers]
    assert columns["note"].to_list() == [text] * 3
    assert y.to_list() == [0, 1, 2]
    assert pl.DataFrame({**columns, "y": y}).equals(eval(read_call(str(path), "csv"), {"pl": pl}))


@pytest.mark.parametrize(("encoding", "likely"), [("latin-1", "cp1252"), ("utf-16", "utf-16")])
def test_a_file_in_another_encoding_is_refused_with_the_fix(tmp_path, encoding, likely):
    path = tmp_path / "old.csv"
    path.write_text("size,label\n1.0,a\n2.0,größer\n" * 20, encoding=encoding)
    with pytest.raises(ValueError, match=rf"old.csv.* not UTF-8: byte .* {likely}.*iconv -f {likely} -t utf-8 old.csv"):
        load(str(path), "label", None)


def test_names_in_the_page_are_escaped():
    X, y = load_iris(return_X_y=True)
    names = {"<script>alert(1)</script>": X[:, 0], "b": X[:, 1]}
    found = buttress.audit(None, pd.DataFrame(names), y, rows=40, target_name="<blink>")
    assert "<script>alert" not in html(found)
    assert "<blink>" not in html(found)


def test_your_own_estimator_is_one_more_row(frame):
    mine = LogisticRegression()
    table = pl.DataFrame({name: frame[name].to_list() for name in frame.columns.drop("label")})
    found = buttress.audit(mine, table, frame["label"].to_list(), rows=60)
    assert "yours (LogisticRegression)" in found.rows
    assert not hasattr(mine, "coef_")


def test_fits_that_were_cut_short_are_named(frame):
    found = buttress.audit(buttress.SVC(max_iter=1), frame.drop(columns="label"), frame["label"], rows=60)
    said = [note for note in found.notes if "converged" in note]
    assert said == ["Not all fits converged of: yours (SVC)."]


@pytest.fixture
def still(monkeypatch):
    """No moves of the columns as they came, hundreds of frames for each model: tests/test_moves.py is about them."""
    few = tuple(one for one in MEASUREMENTS if one is not MOVED)
    monkeypatch.setattr("buttress.audit.call.MEASUREMENTS", few)


def test_a_fitted_model_is_judged_as_it_is_in_its_own_units(still):
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X * [1, 10, 100, 1000], columns=list("abcd"))
    mine = buttress.SVC().fit(frame[list("dcba")], y)
    coef = mine.dual_coef_.copy()
    found = buttress.audit(mine, frame, y, rows=60)
    cells = found.rows["yours (SVC)"]
    assert cells["as_is"].value > 0.8
    assert 0 <= cells["certified"].value <= cells["attacked"].value <= cells["as_is"].value
    assert cells["flipped_10"].value is None
    np.testing.assert_array_equal(mine.dual_coef_, coef)
    with pytest.raises(ValueError, match="lack the columns"):
        buttress.audit(mine, frame[["a", "b"]], y)
    with pytest.raises(ValueError, match=r"cannot predict the rows as they came.* 'd' of X"):
        buttress.audit(mine, frame.assign(d=["x", "y", "z"] * 50), y)


@pytest.mark.parametrize("library", [pd, pl])
def test_a_fitted_pipeline_that_names_its_columns_is_judged(library, still, monkeypatch):
    """With corners of the ball in place of the attacks by queries, which take hundreds of frames a row."""
    def corners(model, X, y, threat, right, seed, **how):
        rng = np.random.default_rng(seed)
        stands = model.predict(X) == y
        eps = threat.budgets[0].by
        for _ in range(10):
            stands &= model.predict(X + eps * rng.choice([-1, 1], size=X.shape)) == y
        return AttackOutcome(stands, None, False, "corners")

    monkeypatch.setattr("buttress.audit.measurements.attacked.under_threat", corners)
    X, y = (part[::3] for part in load_iris(return_X_y=True))
    frame = library.DataFrame(dict(zip("abcd", X.T, strict=True)))
    prepare = make_column_transformer((make_pipeline(SimpleImputer(), StandardScaler()), list("abcd")))
    mine = make_pipeline(prepare, buttress.SVC()).fit(frame, y)
    cells = buttress.audit(mine, frame, y, eps=0.5, rows=30).rows["yours (Pipeline)"]
    assert cells["as_is"].value > 0.8
    assert cells["attacked"].value <= cells["as_is"].value


def test_regression_measures_errors_and_finds_a_planted_row():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 2))
    y = X[:, 0] + 0.01 * rng.normal(size=120)
    y[7] = 40.0
    found = buttress.audit(None, X, y, rows=84, random_state=3)
    assert found.task == "regression"
    assert set(found.columns) - {"novel"} == {"as_is", "r2", "mae", "median", "noise_10", "noise_30"}
    table = make_table(columns_of(X), y, "y", "auto")
    verdicts, _ = judge(X, table.target, "regression", seed=0)
    verdicts.near = nearest(verdicts, np.arange(120), 120, X.__getitem__)
    rows = suspects(verdicts, table, np.arange(120))
    assert rows[0].row == 7
    assert rows[0].given == 40.0
    assert rows[0].values == {"x0": X[7, 0], "x1": X[7, 1]}
    distance = ((X - X[7]) ** 2).sum(axis=1)
    assert [near.row for near in rows[0].neighbours] == np.argsort(distance)[1:4].tolist()


def test_rows_unlike_the_training_rows_are_novel():
    X, y = make_classification(200, n_features=4, random_state=0)
    _, test = train_test_split(np.arange(200), test_size=0.3, random_state=0, stratify=y)
    X[test[:8]] += 40 * np.arange(1, 9)[:, None]
    found = buttress.audit(None, X, y, rows=140)
    assert set(test[:8]) <= set(found.novel)
    assert len(found.novel) <= 12  # of 52 typical ones few: in the mean a tenth of those named
    assert found.columns["novel"] == f"accuracy on the {len(found.novel)} novel held-out rows"
    assert all(cells["novel"].value is not None for name, cells in found.rows.items() if name != "least squares")


def test_suspicious_rows_are_the_flipped_ones():
    X, y = make_classification(150, n_features=5, class_sep=2.5, flip_y=0, random_state=0)
    flipped = y.copy()
    flipped[[3, 60, 100]] = 1 - flipped[[3, 60, 100]]
    table = make_table(columns_of(X), flipped, "y", "auto", np.arange(150) + 1000)
    verdicts, _ = judge(X, flipped, "classification", seed=0)
    verdicts.near = nearest(verdicts, np.arange(150), 150, X.__getitem__)
    found, rows = verdicts.counts(150, np.arange(150) >= 90), suspects(verdicts, table, np.arange(150))
    assert found.judged == 150
    assert found.above_half == sum(row.verdict == "wrong" for row in rows) >= 3
    assert found.held_out_above_half == sum(row.probability >= 0.5 and row.row >= 1090 for row in rows) >= 1
    assert all(row.probability >= 0.25 for row in rows)
    assert all(near.given == row.expected for row in rows for near in row.neighbours)
    assert 0.01 < found.share < 0.05
    assert {1003, 1060, 1100} <= {row.row for row in rows}
    assert rows[0].expected != rows[0].given


def test_categories_are_never_attacked():
    """Moved by as much as numbers, they would turn every row."""
    X = pd.DataFrame({"a": np.arange(60.0), "kind": ["u", "v"] * 30})
    y = np.array(["no", "yes"] * 30)
    table = make_table(columns_of(X), y, "y", "auto")
    split = split_table(table, {"majority class": DummyClassifier(), "linear": LogisticRegression()},
                        Options(eps=0.5))
    assert list(split.threat_to("linear").budgets) == [0]
    model = LogisticRegression(C=100.0).fit(split.train.X, split.train.y)
    right = np.asarray(model.predict(split.test.X) == split.test.y)
    threat = split.threat_to("linear").scaled(2.0)
    found = under_threat(model, split.test.X, split.test.y, threat, right, 0, codes=False, work=1e5)
    assert found.stands.all()
    assert (np.abs(model.decision_function(split.test.X)) < 2.0 * np.abs(model.coef_).sum()).all()


@pytest.mark.parametrize(("right", "n"), [(300, 400), (6, 6), (0, 6), (1, 30)])
def test_the_interval_of_an_accuracy_is_exact(right, n):
    cell, exact = accuracy(np.arange(n) < right), binomtest(right, n).proportion_ci(method="exact")
    assert cell.value == right / n
    assert (cell.low, cell.high) == pytest.approx((exact.low, exact.high))


def test_the_interval_of_an_error_is_that_of_its_mean_square():
    residual = np.random.default_rng(0).normal(size=400)
    cell, half = rmse(residual, seed=0), 1.96 * np.std(residual**2) / 20
    assert (cell.low**2, cell.high**2) == pytest.approx((cell.value**2 - half, cell.value**2 + half), abs=0.03)
    assert rmse(np.full(9, -2.0), seed=0) == Cell(2.0, 2.0, 2.0)


def test_twenty_rows_are_too_few_to_recommend():
    X = np.random.default_rng(0).normal(size=(20, 2))
    found = buttress.audit(None, X, np.where(X[:, 0] > 0, "a", "b"))
    assert found.recommended is None
    assert "SVC()" in found.code
    assert "6 held-out rows are too few to recommend an estimator; 20 are needed, of about 67" in " ".join(found.notes)
    assert "No model is recommended" in html(found)
    assert found.missed({"as_is": 1.1})[0].startswith("as_is of plain SVC is")
    assert all(cells["as_is"].low < 0.6 for cells in found.rows.values())


def test_what_is_as_good_as_the_best_loses_to_it_by_less_than_a_standard_error():
    """By the binomial: b of 400 rows right with one only, and none with the other only, have an error of sqrt(b) / 400.
    """
    best = np.zeros(400)
    for wrong, good in ((3, True), (5, False), (9, False)):
        assert as_good({"best": best, "other": (np.arange(400) < wrong).astype(float)}, True) == (
            ["best", "other"] if good or wrong <= 4 else ["best"])
    noisy = (np.arange(40) < 5).astype(float)  # five of forty and none: .125 behind, more than two points
    assert as_good({"best": np.zeros(40), "other": noisy}, True) == ["best"]
    rng = np.random.default_rng(0)
    squares = rng.normal(size=200) ** 2
    assert as_good({"best": squares, "same": squares * 1.01, "worse": squares * 1.3}, False) == ["best", "same"]
    assert as_good({}, True) == []


def split_of(y, losses, metric, together=None):
    """A split and what was measured of models with these losses on its held-out rows."""
    part = SplitPart(np.arange(len(y)), *np.zeros((2, len(y), 1)), y, together)
    classifies = metric in ("accuracy", "balanced_accuracy")
    split = SimpleNamespace(classifies=classifies, test=part, metric=metric, baseline="guess",
                            options=SimpleNamespace(seed=0))
    return split, Measured(losses=losses)


@pytest.mark.parametrize("rate", [0.5, 0.8])
def test_what_only_guesses_is_seldom_called_better_than_guessing(rate):
    """Eight models, each the majority on half of the rows and by chance on the others: in 5% of tables at most."""
    rng = np.random.default_rng(0)
    named = 0
    for _ in range(400):
        y = (rng.random(60) < rate).astype(int)
        right = {"guess": y == 1} | {str(k): np.where(rng.random(60) < 0.5, 1, rng.random(60) < rate) == y
                                     for k in range(8)}
        split, measured = split_of(y, {name: 1.0 - each for name, each in right.items()}, "accuracy")
        named += bool(better_than_guessing(split, measured))
    assert named <= 0.05 * 400 + 2 * np.sqrt(400 * 0.05 * 0.95)


@pytest.mark.parametrize(("won", "lost"), [(4, 0), (5, 0), (8, 2), (8, 3), (12, 4), (12, 5), (0, 0), (2, 9)])
def test_one_model_is_better_by_the_sign_test(won, lost):
    """McNemar's exact test by scipy: of the rows that only one gets right; an interval of the model alone holds both.
    """
    guess, ours = np.zeros(60), np.zeros(60)
    guess[:won], ours[won : won + lost] = 1.0, 1.0
    chance = binomtest(won, won + lost, alternative="greater").pvalue if won else 1.0
    y = np.arange(60) % 2
    better = better_than_guessing(*split_of(y, {"guess": guess, "model": ours}, "accuracy"))
    assert better == (["model"] if chance <= 0.05 else [])


def test_groups_and_rare_classes_count_as_what_they_are():
    y = (np.arange(40) < 28).astype(int)
    guess = (y != 1).astype(float)
    ours = guess.copy()
    ours[28:36] = 0.0  # eight more, none fewer
    both = {"guess": guess, "model": ours}
    assert better_than_guessing(*split_of(y, both, "balanced_accuracy")) == ["model"]
    assert better_than_guessing(*split_of(y, both, "accuracy", np.arange(40) // 20)) == []  # two groups say nothing
    assert better_than_guessing(*split_of(y[:10], {"guess": guess[:10], "model": ours[:10]}, "accuracy")) is None
    lost = guess.copy()
    lost[:3] = 1.0
    lost[28:35] = 0.0  # seven rare rows for three others: in accuracy that may be chance (.17)
    assert better_than_guessing(*split_of(y, {"guess": guess, "model": lost}, "accuracy")) == []
    assert better_than_guessing(*split_of(y, {"guess": guess, "model": lost}, "balanced_accuracy")) == ["model"]


def test_a_regressor_is_better_where_the_same_rows_say_so():
    """A row far away adds as much to both errors: alone neither interval would tell."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=60)
    guess, ours = y**2, (0.5 * y) ** 2
    guess[0], ours[0] = 400.0, 399.0
    for metric in ("rmse", "mae"):
        assert better_than_guessing(*split_of(y, {"guess": guess, "model": ours}, metric)) == ["model"]
        assert better_than_guessing(*split_of(y, {"guess": guess, "model": rng.permutation(guess)}, metric)) == []


def test_planted_faults_count_only_where_they_were_found():
    cells = {"as_is": {"ridge regression": Cell(0.9), "robust": Cell(0.9)},
             "noise_30": {"ridge regression": Cell(5.0), "robust": Cell(1.0)}}
    measured = Measured(columns=dict.fromkeys(cells, ""), cells=cells)
    assert simplest(["robust", "ridge regression"], measured, ["as_is"], False) == "ridge regression"
    assert simplest(["robust", "ridge regression"], measured, ["as_is", "noise_30"], False) == "robust"
    none, wrong = np.zeros(9), np.r_[0.9, 0.9, np.zeros(7)]
    for probability, low, expected in ((none, 0.0, ["as_is"]), (wrong, 0.0, ["as_is"]),
                                       (wrong, 0.1, ["as_is", "noise_30"])):
        measured.verdicts = Verdicts(none, none, probability, none, none > 0, np.zeros((9, 1), int), 0.1, False,
                                     (low, 0.3))
        assert deciding_columns(SimpleNamespace(classifies=False, decides="as_is"), measured) == expected


def test_a_machine_for_wrong_targets_is_recommended_where_it_clearly_beats_all_others_and_only_there():
    none = np.zeros(9)
    measured = Measured(columns={"as_is": ""})
    measured.verdicts = Verdicts(none, none, none, none, none > 0, np.zeros((9, 1), int), 0.0, False, (0.0, 0.1))
    measured.losses = {"mean of the target": np.full(30, 9.0), "ridge regression": np.full(30, 2.0),
                       "robust": np.ones(30)}
    measured.cells = {"as_is": {"ridge regression": Cell(1.4), "robust": Cell(1.0)}}
    split = SimpleNamespace(classifies=False, test=SplitPart(np.arange(30), *np.zeros((2, 30, 1)), np.zeros(30)),
                            decides="as_is", metric="rmse", baseline="mean of the target",
                            options=SimpleNamespace(seed=0),
                            unfitted={"ridge regression": Ridge(), "robust": buttress.RobustKernelRegressor()})
    assert recommended(split, measured) == "robust"  # though no target looks wrong
    measured.losses["ridge regression"] = np.full(30, 1.01)
    measured.cells["as_is"]["ridge regression"] = Cell(1.005)
    assert recommended(split, measured) == "ridge regression"


@pytest.mark.parametrize(
    ("y", "task", "expected"),
    [
        (np.array(["a", "b"] * 10), "auto", "classification"),
        (np.arange(20) % 7, "auto", "classification"),
        (np.arange(20) % 7, "regression", "regression"),
        (np.arange(20), "auto", "regression"),
        (np.linspace(0, 1, 20), "auto", "regression"),
        (np.array([True, False] * 10), "auto", "classification"),
        (np.array([1.0, 2.0] * 10), "auto", "classification"),
    ],
)
def test_the_task_follows_the_target(y, task, expected):
    assert settle_task(y, "y", task) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X.assign(weight=np.inf), y), "'weight' holds inf"),
        (lambda X, y: (X.assign(weight=1e300), y), "'weight' holds 1e\\+300"),
        (lambda X, y: (X[["always", "name"]], y), "No usable feature"),
        (lambda X, y: (X, y[:-1]), "X has 160 rows, y has 159"),
        (lambda X, y: (X[:10], y[:10]), "at least 20 rows"),
        (lambda X, y: (X, ["yes"] * len(y)), "only one value"),
        (lambda X, y: (X, np.r_[["rare"], y[1:]]), "'rare'"),
        (lambda X, y: (np.zeros(5), y), "two-dimensional"),
        (lambda X, y: (X, np.zeros((len(y), 2))), "one column"),
    ],
)
def test_unusable_data_is_refused_by_name(frame, change, message):
    X, y = change(frame.drop(columns="label"), frame["label"].to_numpy())
    with pytest.raises(ValueError, match=message):
        buttress.audit(None, X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "clustering"}, "task must be one of"),
        ({"eps": 0}, "eps must be in"),
        ({"max_time": -1}, "max_time must be in"),
        ({"effort": "much"}, "effort must be one of 'quick', 'standard', 'thorough'. Got 'much'"),
        ({"rows": 3}, "rows must be"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_bad_options_are_named(frame, options, message):
    with pytest.raises(ValueError, match=message):
        buttress.audit(None, frame.drop(columns="label"), frame["label"], **options)


def test_an_estimator_of_the_other_kind_is_refused(frame):
    with pytest.raises(ValueError, match="classification task"):
        buttress.audit(buttress.KernelRegressor(), frame.drop(columns="label"), frame["label"])


def test_a_model_whose_predictions_overflow_is_just_bad():
    """A held-out entry far out takes the exponential of a linear model of the logarithm beyond float64."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.exp(2 * X[:, 0] + 0.1 * rng.normal(size=200))
    far = X[180:].copy()
    far[3, 0] = 1e4
    found = buttress.audit(None, X[:180], y[:180], test=(far, y[180:]), effort="quick")
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.rows["ridge regression of the logarithm"]["as_is"].value > 1e40
    assert found.recommended != "ridge regression of the logarithm"


def test_what_several_estimators_warn_of_alike_is_noted_once(monkeypatch):
    said = ["linear SVC: eps=1: too large.", "kernel SVC: eps=1: too large.", "kernel SVC: did not learn."]
    monkeypatch.setattr(score_stage, "fitted", lambda split, name, estimator, y, notes: (
        None, not notes.extend(note for note in said if note.startswith(name))))
    split = SimpleNamespace(yours=None, unfitted=dict.fromkeys(["linear SVC", "kernel SVC"]),
                            train=SimpleNamespace(y=None))
    found = SimpleNamespace(notes=[], unfinished=[])
    for name in split.unfitted:
        score_stage._model(split, name, None, found)
    assert found.notes == [said[0], said[2]]


def test_an_audit_that_no_time_was_left_for_ends_with_what_it_did_not_measure():
    X = np.random.default_rng(0).normal(size=(100, 3))
    result = buttress.audit(None, X, X[:, 0] > 0, max_time=1e-9)
    assert result.cut
    assert result.recommended is None
    assert "the labels were not judged" in result.verdict[0]
    assert not len(result.suspicious)
