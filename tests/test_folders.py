"""Folders of Parquet files: models trained and asked in batches, and every row judged, against all rows in memory."""

import json
import sys
from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from buttress import RobustKernelClassifier, RobustKernelRegressor, cli
from buttress.audit.models import in_batches
from buttress.audit.models.in_batches import in_parts, judge_in_batches, predict_in_batches, sampled, train_in_batches
from buttress.audit.reading import folder
from buttress.audit.reading.folder import is_folder, parquet_rows
from buttress.audit.reading.split import split
from buttress.persistence import load
from buttress.relational.sources import files

pytest.importorskip("duckdb")
N = 900
RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, N)).round(3)
KIND = RNG.choice(np.array(["u", "v", None]), N)
SCORE = np.sin(2 * A) + B
WRONG = RNG.random(N) < 0.05
NAMES = np.array(["low", "middle", "high"])
RIGHT = np.searchsorted([-0.5, 0.5], SCORE)
LABELS = NAMES[np.where(WRONG, (RIGHT + 1) % 3, RIGHT)]
NUMBERS = np.where(WRONG, SCORE + 9, SCORE + 0.1 * RNG.normal(size=N))


@pytest.fixture(autouse=True)
def few_rows_a_batch(monkeypatch, tmp_path):
    monkeypatch.setattr(folder, "BATCH_ROWS", 100)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def call(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["buttress", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out = capsys.readouterr()
        return stop.value.code or 0, out.out, out.err

    return run


def write_folder(y, place="rows", ends=(0, 250, 251, 700, N)):
    """Write the rows into files of several groups of rows, in names that need quoting."""
    whole = pl.DataFrame({"a": A.astype(np.float32), 'b"s': B, "ki'n{d}": KIND.tolist(), "y": y})
    names = ["it's [1].parquet", "more/b\".parquet", "more/c.parquet", "more/d.parquet"]
    Path(place, "more").mkdir(parents=True)
    for name, first, end in zip(names, ends[:-1], ends[1:], strict=True):
        whole[first:end].write_parquet(Path(place, name), row_group_size=64)
    whole.write_parquet("whole.parquet")
    return whole


def quiet(what, share):
    pass


def trained(y, report=quiet, landmarks=40):
    write_folder(y)
    sample = sampled(parquet_rows("rows"), "y", "auto", 300, 0)
    return sample, *train_in_batches(sample, landmarks=landmarks, seed=0, max_time=None, report=report)


def features(model, frame):
    return model.pipeline[:-1].transform(model.rows_of(frame))


@pytest.mark.parametrize(("y", "kind"), [(LABELS, RidgeClassifier), (RIGHT > 0, RidgeClassifier), (NUMBERS, Ridge)],
                         ids=["classes", "booleans", "numbers"])
def test_batches_of_a_folder_give_scikit_learns_fit_to_all_rows_in_memory(y, kind):
    """The features are of a sample; the machine is that of all rows, also of those that were held out to score it."""
    _, model, cut = trained(y)
    frame = pl.read_parquet("whole.parquet")
    Z = features(model, frame)
    oracle = kind(alpha=1.0, solver="svd").fit(Z, y)
    assert np.array_equal(model.predict(frame), oracle.predict(Z)) or kind is Ridge
    ours = getattr(model.pipeline[-1], "decision_function", model.pipeline[-1].predict)(Z)
    np.testing.assert_allclose(ours, getattr(oracle, "decision_function", oracle.predict)(Z), atol=1e-7)
    assert model.trained_on["rows"] == N
    assert not cut


def held_out(sample):
    """The numbers of the rows that are held out to score the machine."""
    return sample.numbers[split(sample.table, 0)[1]]


def test_the_score_is_that_of_a_fit_which_had_not_seen_the_rows():
    sample, model, _ = trained(LABELS)
    held = held_out(sample)
    frame = pl.read_parquet("whole.parquet")[in_order()]
    Z, y = features(model, frame), frame["y"].to_numpy()
    others = np.setdiff1d(np.arange(N), held)
    assert model.score["value"] == RidgeClassifier(alpha=1.0).fit(Z[others], y[others]).score(Z[held], y[held])
    assert model.score["rows"] == len(held) == pytest.approx(0.3 * 300, abs=3)


def in_order():
    """The place of each row of the folder among those of the whole file: files in the order of their paths."""
    order = sorted(Path("rows").rglob("*.parquet"))
    starts = {"it's [1].parquet": (0, 250), 'b".parquet': (250, 251), "c.parquet": (251, 700), "d.parquet": (700, N)}
    return np.concatenate([np.arange(*starts[path.name]) for path in order])


def test_neither_threads_nor_listings_nor_insertion_order_change_a_bit(monkeypatch):
    _, model, _ = trained(LABELS, landmarks=200)  # of so many, sums on two threads are other sums
    plain, listed = files.connect_duckdb, Path.rglob

    def unordered(*arguments):
        connection = plain(*arguments)
        for setting in ("threads = 7", "preserve_insertion_order = false"):
            connection.execute(f"SET {setting}")
        return connection

    monkeypatch.setattr(folder, "connect_duckdb", unordered)
    monkeypatch.setattr(Path, "rglob", lambda self, pattern: sorted(listed(self, pattern), reverse=True))
    with threadpool_limits(limits=2):
        again, _ = train_in_batches(sampled(parquet_rows("rows"), "y", "auto", 300, 0), landmarks=200, seed=0,
                                    max_time=None, report=quiet)
    for name in ("coef_", "intercept_"):
        assert np.array_equal(getattr(model.pipeline[-1], name), getattr(again.pipeline[-1], name))
    assert model.score == again.score


@pytest.mark.parametrize("output", ["p.csv", "p.parquet"])
def test_predictions_are_row_by_row_those_of_one_file_in_memory(call, output):
    write_folder(LABELS)
    assert call("train", "rows", "--target", "y", "--sample", 300, "--landmarks", 30, "-o", "m.buttress")[0] == 0
    code, out, err = call("predict", "m.buttress", "rows", "-o", output)
    assert (code, err) == (0, "")
    assert out.startswith(f"{N} rows predicted")
    pl.read_parquet("whole.parquet")[in_order()].write_parquet("ordered.parquet")
    assert call("predict", "m.buttress", "ordered.parquet", "-o", f"whole-{output}")[0] == 0
    if output == "p.csv":
        assert Path("p.csv").read_bytes() == Path("whole-p.csv").read_bytes()
    else:
        assert pl.read_parquet(output).equals(pl.read_parquet(f"whole-{output}"))
    assert sorted(path.name for path in Path().iterdir()) == sorted(
        ["rows", "whole.parquet", "ordered.parquet", "m.buttress", output, f"whole-{output}"])


def test_bytes_are_the_categories_that_one_file_in_memory_has(call):
    frame = pl.DataFrame({"a": B, "old": KIND.tolist(), "y": LABELS}).with_columns(pl.col("old").cast(pl.Binary))
    Path("rows").mkdir()
    frame.write_parquet("rows/whole.parquet")
    assert call("train", "rows", "--target", "y", "--sample", 300, "--landmarks", 30, "-o", "m.buttress")[0] == 0
    written = []
    for source in ("rows", "rows/whole.parquet"):
        assert call("predict", "m.buttress", source, "-o", "p.csv")[::2] == (0, "")
        written.append(Path("p.csv").read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize("source", ["rows", "rows/whole.parquet"])
def test_bytes_are_classes(call, source):
    Path("rows").mkdir()
    pl.DataFrame({"a": A, "b": B, "y": LABELS}).with_columns(pl.col("y").cast(pl.Binary)).write_parquet(
        "rows/whole.parquet")
    more = ["--landmarks", 30] if source == "rows" else ["--estimator", "linear"]
    assert call("train", source, "--target", "y", "-o", "m.buttress", *more)[0] == 0
    assert call("predict", "m.buttress", source, "-o", "p.csv")[::2] == (0, "")
    assert set(pl.read_csv("p.csv")["prediction"]) == {f"b'{name}'" for name in NAMES}
    assert call("attack", "m.buttress", "rows/whole.parquet", "--target", "y", "--rows", 20)[::2] == (0, "")


def test_predicted_numbers_are_those_of_one_file_up_to_rounding(call):
    write_folder(NUMBERS)
    assert call("train", "rows", "--target", "y", "--sample", 300, "--landmarks", 30, "-o", "m.buttress")[0] == 0
    assert call("predict", "m.buttress", "rows", "-o", "p.parquet")[0] == 0
    expected = load("m.buttress").predict(pl.read_parquet("whole.parquet"))[in_order()]
    np.testing.assert_allclose(pl.read_parquet("p.parquet")["prediction"], expected, rtol=1e-9)


def test_what_was_learned_from_a_folder_is_attacked_and_has_evidence(call):
    whole = write_folder(LABELS)
    call("train", "rows", "--target", "y", "--sample", 300, "--landmarks", 30, "-o", "m.buttress")
    right = np.mean(load("m.buttress").predict(whole) == LABELS)
    code, out, err = call("attack", "m.buttress", "whole.parquet", "--target", "y", "--rows", N, "--eps", 0,
                          "--swaps", 0)
    assert (code, err, out.split()[6]) == (0, "", f"{right:.3f}")
    assert call("evidence", "m.buttress", "whole.parquet", "--target", "y", "--eps", 0)[::2] == (0, "")
    found = json.loads(Path("evidence/evidence.json").read_text())
    assert found["statements"][0]["value"] == pytest.approx(right)


def test_any_model_is_asked_in_batches_and_what_it_cannot_read_is_said(call):
    write_folder(LABELS)
    assert call("train", "whole.parquet", "--target", "y", "--estimator", "linear", "-o", "m.buttress")[0] == 0
    call("predict", "m.buttress", "whole.parquet", "-o", "one.csv")
    assert call("predict", "m.buttress", "rows/more/[cd].parquet", "-o", "p.csv")[0] == 0
    assert pl.read_csv("p.csv")["prediction"].to_list() == pl.read_csv("one.csv")["prediction"][251:].to_list()
    Path("other").mkdir()
    pl.DataFrame({"a": A, 'b"s': B, "ki'n{d}": ["new"] * N}).write_parquet("other/o.parquet")
    code, _, err = call("predict", "m.buttress", "other", "-o", "p.csv")
    assert code == 0
    assert "Rows 0 to 99" in err
    assert "'new'" in err


def test_columns_come_as_one_frame_has_them():
    """Whole numbers, single precision, bools, dates, durations, texts, with gaps and without, in groups of rows."""
    days = [None if k % 7 == 0 else date(2020, 1, 1 + k % 28) for k in range(230)]
    frame = pl.DataFrame({
        "whole": pl.Series([None if k % 5 == 0 else k for k in range(230)], dtype=pl.Int32), "plain": range(230),
        "single": pl.Series(A[:230], dtype=pl.Float32), "gaps": [None if k % 3 == 0 else float(k) for k in range(230)],
        "yes": [None if k % 4 == 0 else k % 2 == 0 for k in range(230)], "sure": [k % 2 == 0 for k in range(230)],
        "text": [None if k % 6 == 0 else f"t'{k}" for k in range(230)], "day": days,
        "long": pl.Series([None if k % 5 == 0 else k for k in range(230)]).cast(pl.Duration("us"))})
    Path("kinds").mkdir()
    frame.write_parquet("kinds/k.parquet", row_group_size=50)
    rows = parquet_rows("kinds")
    with pytest.raises(ValueError, match="target 'long' holds dates or durations"):
        rows.check_target("long")
    read = [batch for _, batch in rows.batches(frame.columns)]
    assert [len(batch["text"]) for batch in read] == [100, 100, 30]
    for name in frame.columns:
        given = frame[name].to_numpy()
        found = np.concatenate([batch[name] for batch in read])
        assert (given.dtype.kind == "m") == (found.dtype.kind == "m")
        if given.dtype.kind == "O":
            assert found.tolist() == given.tolist()
        else:
            np.testing.assert_array_equal(found.astype(given.dtype), given)
    some = np.array([0, 3, 120, 229])
    assert rows.at(some, ["text"])["text"].tolist() == frame["text"].to_numpy()[some].tolist()
    assert rows.place(some)["row_in_file"].tolist() == some.tolist()


class Interrupt:
    """A report that is Ctrl-C once so many batches are done."""

    def __init__(self, batches):
        self.left = batches

    def __call__(self, what, share):
        self.left -= what.startswith(("training", "predicting", "judging: "))
        if self.left == 0:
            raise KeyboardInterrupt


def test_ctrl_c_leaves_the_model_of_the_rows_so_far():
    """The first four batches: a file of 250 rows is three, one of one row the fourth; or the files are in other order.
    """
    sample, model, cut = trained(LABELS, Interrupt(4))
    sizes = [min(100, end - start) for first, end in pairwise(sample.rows.starts.tolist())
             for start in range(first, end, 100)]
    held = held_out(sample)
    seen = np.union1d(np.arange(sum(sizes[:4])), held)
    frame = pl.read_parquet("whole.parquet")[in_order()]
    Z, y = features(model, frame), frame["y"].to_numpy()
    oracle = RidgeClassifier(alpha=1.0).fit(Z[seen], y[seen])
    np.testing.assert_allclose(model.pipeline[-1].decision_function(Z), oracle.decision_function(Z), atol=1e-7)
    assert cut
    assert f"Ctrl-C ended the training after {len(seen)} of {N} rows" in model.trained_on["notes"][-1]


def test_ctrl_c_before_the_first_batch_and_a_limit_of_time():
    write_folder(LABELS)
    sample = sampled(parquet_rows("rows"), "y", "auto", 300, 0)

    def at_once(batches):
        raise KeyboardInterrupt
        yield

    settings = {"landmarks": 20, "seed": 0, "report": quiet}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder.ParquetRows, "batches", lambda self, names: at_once(names))
        with pytest.raises(KeyboardInterrupt):
            train_in_batches(sample, max_time=None, **settings)
    model, cut = train_in_batches(sample, max_time=1e-9, **settings)
    assert cut
    assert "--max-time ended" in model.trained_on["notes"][-1]
    assert model.trained_on["rows"] < 300


def test_the_command_writes_what_was_learned_and_says_so(call, monkeypatch):
    write_folder(LABELS)
    code, _, err = call("train", "rows", "--target", "y", "--sample", 300, "--max-time", 1e-9, "-o", "m.buttress")
    assert code == 3
    assert "The model is the one of these rows" in err
    assert load("m.buttress").predict(pl.read_parquet("whole.parquet")).shape == (N,)


def test_a_prediction_that_is_cut_short_leaves_no_file():
    _, model, _ = trained(LABELS)

    def cut_short():
        with in_parts(Path("p.csv")) as put:
            predict_in_batches(model, parquet_rows("rows"), put, Interrupt(3))

    with pytest.raises(KeyboardInterrupt):
        cut_short()
    assert not list(Path().glob("*p.csv")) + list(Path().glob(".parts*"))


def judged(y, size=300):
    write_folder(y)
    sample = sampled(parquet_rows("rows"), "y", "auto", size, 0)
    with in_parts(Path("judged.parquet")) as put:
        told = judge_in_batches(sample, 0, put, quiet)
    return sample, told, pl.read_parquet("judged.parquet")


def prepared(sample):
    """All rows in the order of the folder, and those of the sample, scaled and coded by the sample, by hand."""
    frame = pl.read_parquet("whole.parquet")[in_order()]
    numbers = frame[["a", 'b"s']].to_numpy().astype(float)
    kinds = np.array(["(missing)" if kind is None else kind for kind in frame["ki'n{d}"].to_list()])
    coded = kinds[:, None] == np.array(["(missing)", "u", "v"])
    X = np.hstack([StandardScaler().fit(numbers[sample.numbers]).transform(numbers), coded.astype(float)])
    return X, X[sample.numbers], frame["y"].to_numpy()


def test_every_label_is_judged_by_bayes_rule_of_the_law_of_the_sample():
    """P(class | x) of the sample's robust fit and P(given | class): the posterior, summed by hand."""
    sample, told, found = judged(LABELS)
    X, own, y = prepared(sample)
    model = RobustKernelClassifier(random_state=0).fit(own, y[sample.numbers])
    chances = model.predict_proba(X)
    wrong = np.empty(N)
    for i, given in enumerate(np.searchsorted(model.classes_, y)):
        joint = [chances[i, c] * model.confusion_[c, given] for c in range(3)]
        wrong[i] = 1 - joint[given] / sum(joint)
    wrong[sample.numbers] = model.outlier_proba_
    np.testing.assert_allclose(found["probability"], wrong, atol=1e-8)
    assert found["row"].to_list() == list(range(N))
    assert found["given"].to_list() == y.tolist()
    assert told.startswith(f"The audit is of a sample of {len(sample.numbers)} of {N} rows.")
    assert len(sample.numbers) == 300
    assert f" {(found['verdict'] == 'wrong').sum()} look wrong" in told
    bad = WRONG[in_order()]
    named = found["verdict"].to_numpy() == "wrong"
    assert named[bad].mean() > 0.6
    assert named[~bad].mean() < 0.05
    assert set(found["file"]) == {str(path) for path in Path("rows").rglob("*.parquet")}
    one = found.row(700, named=True)
    assert pl.read_parquet(one["file"])["y"][one["row_in_file"]] == one["given"]


def test_every_number_is_judged_in_standard_deviations_of_the_law():
    sample, _, found = judged(NUMBERS)
    X, own, y = prepared(sample)
    model = RobustKernelRegressor(random_state=0).fit(own, y[sample.numbers])
    others = np.setdiff1d(np.arange(N), sample.numbers)
    score = np.abs(y - model.predict(X)) / model.scale_
    np.testing.assert_allclose(found["score"].to_numpy()[others], score[others], rtol=1e-6)
    np.testing.assert_allclose(found["probability"].to_numpy()[sample.numbers], model.outlier_proba_, atol=1e-8)
    named = found["verdict"].to_numpy() == "wrong"
    bad = WRONG[in_order()]
    assert named[bad].mean() > 0.9
    assert named[~bad].mean() < 0.05


def test_the_audit_of_a_sample_says_so_and_names_rows_of_the_folder(call):
    write_folder(LABELS)
    code, out, err = call("audit", "rows", "--target", "y", "--sample", 200, "--effort", "quick", "-o", "out")
    assert code == 0, err
    said = f"The audit is of a sample of 200 of {N} rows. Every row is judged, by a robust fit of the 200 of the sample"
    assert said in json.loads(Path("out/audit.json").read_text())["notes"][0]
    assert said in " ".join(out.split())
    found = pl.read_parquet("out/judged.parquet")
    listed = pl.read_csv("out/suspicious.csv")
    assert len(found) == N
    of = {row["row"]: row for row in found.iter_rows(named=True)}
    assert all(of[row["row"]]["given"] == row["y"] for row in listed.iter_rows(named=True))
    for name in ("audit.json", "audit.html", "suspicious.csv"):
        Path("out", name).unlink()
    code, _, err = call("audit", "rows", "--target", "y", "--sample", 200, "--effort", "quick", "-o", "out")
    assert code == 2
    assert "'judged.parquet', which is not from an earlier audit" in err


def spoil(name, **columns):
    frame = pl.read_parquet("rows/more/c.parquet")
    frame.with_columns(**columns).write_parquet(f"rows/more/{name}.parquet")


def every_file(change):
    for path in list(Path("rows").rglob("*.parquet")):
        change(path)


NO_TARGET = pl.when(pl.int_range(pl.len()) == 3).then(None).otherwise(pl.col("y")).alias("y")


@pytest.mark.parametrize(("make", "message"), [
    (lambda: every_file(Path.unlink), "'rows' is a folder, or a pattern, without a file"),
    (lambda: spoil("z", a=pl.col("a").cast(pl.Float64)), r"Column 'a' is FLOAT in \".*1\].*\" and DOUBLE"),
    (lambda: spoil("z", extra=1), "Column 'extra' is missing in"),
    (lambda: spoil("z", y=NO_TARGET), r"The target 'y' is missing in 1 row of 'rows/more/z.parquet'"),
    (lambda: spoil("z", y=pl.lit("NA")), "'NA'"),
    (lambda: spoil("z", file_row_number=1), "Column 'file_row_number' is missing|has a column called"),
    (lambda: Path("rows/z.parquet").write_text("no Parquet"), "z.parquet' cannot be read"),
    (lambda: every_file(lambda path: pl.read_parquet(path, glob=False)[:0].write_parquet(path)), "no rows"),
    (lambda: every_file(lambda path: pl.read_parquet(path, glob=False).with_columns(y=pl.lit("same"))
                        .write_parquet(path)), "has only one value, 'same'"),
    (lambda: every_file(lambda path: pl.read_parquet(path, glob=False).with_columns(
        y=path.name + pl.int_range(pl.len()).cast(pl.String)).write_parquet(path)), "more than 500 different values"),
    (lambda: spoil("z", y=pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("rare")).otherwise(pl.col("y"))),
     "'rare', which none of the 300 rows of the sample has.*--sample"),
])
def test_what_is_wrong_with_a_folder_is_named(call, make, message, monkeypatch):
    write_folder(LABELS)
    monkeypatch.setattr(in_batches, "MOST_CLASSES", 500)
    make()
    code, out, err = call("train", "rows", "--target", "y", "--sample", 300, "-o", "m.buttress")
    assert code == 2
    assert out == ""
    with pytest.raises(ValueError, match=message):
        raise ValueError(err)
    assert not Path("m.buttress").exists()


def test_numbers_are_no_classes_but_a_class_among_floats_is():
    """Of 900 different numbers a sample has a third; of three that stand for classes it must have all."""
    write_folder(np.where(np.arange(N) == 500, 2.0, (SCORE > 0).astype(float)))
    with pytest.raises(ValueError, match=r"holds 2\.0, which none of the 30 rows"):
        sampled(parquet_rows("rows"), "y", "auto", 30, 0)
    assert sampled(parquet_rows("rows"), "y", "regression", 30, 0).table.task == "regression"
    for path in Path("rows").rglob("*.parquet"):
        frame = pl.read_parquet(path, glob=False)
        frame.with_columns(pl.col("y").cast(pl.Decimal(10, 1))).write_parquet(path)
    with pytest.raises(ValueError, match=r"holds 2\.0, which none of the 30 rows"):
        sampled(parquet_rows("rows"), "y", "auto", 30, 0)


def test_a_number_that_is_none_is_a_missing_target(call):
    numbers = np.where(np.arange(N) == 500, np.nan, NUMBERS)
    write_folder(numbers)
    code, _, err = call("train", "rows", "--target", "y", "-o", "m.buttress")
    assert code == 2
    assert "The target 'y' is missing in 1 row of 'rows/more/c.parquet'" in err


@pytest.mark.parametrize(("arguments", "message"), [
    (["train", "rows", "-o", "m"], "--target is missing"),
    (["train", "rows", "--target", "yy", "-o", "m"], "Did you mean 'y'"),
    (["train", "rows", "--target", "y", "-o", "m", "--estimator", "linear"], "of which --estimator is not known"),
    (["train", "whole.parquet", "--target", "y", "-o", "m", "--landmarks", "9"], "of which --landmarks is not known"),
    (["audit", "rows", "--target", "y", "--test", "whole.parquet"], "of which --test is not known"),
    (["train", "none/*.parquet", "--target", "y", "-o", "m"], "without a file"),
    (["predict", "m.buttress", "rows/more", "-o", "rows/more/c.parquet"], "is one of the files that are read"),
])
def test_options_of_folders_and_of_tables_are_kept_apart(call, arguments, message):
    write_folder(LABELS)
    if arguments[0] == "predict":
        call("train", "rows", "--target", "y", "--sample", 300, "-o", "m.buttress")
    code, _, err = call(*arguments)
    assert code == 2
    assert message in err


def test_a_folder_that_changes_while_it_is_read_is_refused():
    write_folder(LABELS)
    rows = parquet_rows("rows")
    pl.read_parquet("rows/more/c.parquet")[:50].write_parquet("rows/more/c.parquet")
    with pytest.raises(ValueError, match="has changed while it was read"):
        list(rows.batches(["a"]))


def test_columns_in_the_names_of_folders_are_columns():
    for name, rows in (("kind=u", slice(0, 60)), ("kind=v", slice(60, 90))):
        Path("rows", name).mkdir(parents=True)
        pl.DataFrame({"a": A[rows], "y": LABELS[rows]}).write_parquet(f"rows/{name}/part.parquet")
    sample = sampled(parquet_rows("rows"), "y", "auto", 90, 0)
    assert sample.table.categorical["kind"].tolist() == ["u"] * 60 + ["v"] * 30


@pytest.mark.parametrize("folders", [("run=3", "run=4"), ("a", "a/run=5")])
def test_no_column_of_a_file_is_replaced_by_the_name_of_a_folder(folders):
    for name in folders:
        Path("rows", name).mkdir(parents=True)
        pl.DataFrame({"run": [1, 2, 3], "y": [0, 1, 0]}).write_parquet(f"rows/{name}/part.parquet")
    with pytest.raises(ValueError, match=r"takes column 'run' of 'rows/.*' from the name of a folder"):
        parquet_rows("rows")


def test_what_is_a_folder():
    Path("a[b].csv").touch()
    Path("dir").mkdir()
    assert [is_folder(name) for name in ("dir", "x/*.parquet", "a[b].csv", "iris")] == [True, True, False, False]


def test_hidden_files_are_no_rows_and_other_endings_are_named_not_left_out():
    write_folder(LABELS)
    known = parquet_rows("rows").files
    Path("rows/.parts-x").mkdir()
    for name in (".parts-x/000000000.parquet", "more/._c.parquet"):  # of a prediction that was killed, of macOS
        Path("rows", name).write_bytes(b"half")
    assert parquet_rows("rows").files == known
    for name in ("more/e.PARQUET", "more/e.pq"):
        pl.DataFrame({"a": [1.0]}).write_parquet(Path("rows", name))
        with pytest.raises(ValueError, match=f"{name}' is no Parquet file by its name"):
            parquet_rows("rows")
        Path("rows", name).unlink()


def test_entries_that_no_sample_held_are_named_by_file_and_rows(call):
    Path("rows").mkdir()
    a, wrong = A.copy(), [f"{number:.3f}" for number in NUMBERS]
    parts = [range(450), range(450, 900)]
    for name, part in zip("cd", parts, strict=True):
        pl.DataFrame({"a": a[part], "b": B[part], "y": LABELS[part]}).write_parquet(f"rows/{name}.parquet")
    assert call("train", "rows", "--target", "y", "--sample", 100, "--landmarks", 20, "-o", "m.buttress")[0] == 0
    unseen = next(k for k in range(560, 650) if k not in sampled(parquet_rows("rows"), "y", "auto", 100, 0).numbers)
    a[unseen], wrong[unseen] = np.inf, "oops"
    where = f"Rows 100 to 199 of 'rows/d.parquet', counted from the first of these: %s in row {unseen - 550}"
    for name, part in zip("cd", parts, strict=True):
        pl.DataFrame({"a": a[part], "b": B[part], "y": LABELS[part]}).write_parquet(f"rows/{name}.parquet")
    train = ("train", "rows", "--target", "y", "--sample", 100, "--landmarks", 20, "-o", "n.buttress")
    for command in (train, ("predict", "m.buttress", "rows", "-o", "p.csv")):
        code, _, told = call(*command)
        assert code == 2
        assert where % "Column 'a' holds inf" in told
    for name, part in zip("cd", parts, strict=True):
        pl.DataFrame({"b": B[part], "y": [wrong[k] for k in part]}).write_parquet(f"rows/{name}.parquet")
    code, _, told = call(*train, "--task", "regression")
    assert code == 2
    assert where % "The target 'y' holds 'oops'" in told


@pytest.mark.parametrize("command", ["train", "predict"])
def test_every_column_that_cannot_be_read_is_said_once_however_many_batches(command, tmp_path, monkeypatch):
    """The first column's entries in each batch must not take the place of what is said of the second."""
    monkeypatch.setattr(folder, "BATCH_ROWS", 50)
    rng = np.random.default_rng(0)
    n = 400
    frame = pl.DataFrame({"a": [f"{x:.3f}" for x in rng.normal(size=n)], "kind": ["x", "y"] * (n // 2),
                          "y": ["p", "q"] * (n // 2)})
    good, odd = tmp_path / "good", tmp_path / "odd"
    for place, given in ((good, frame), (odd, frame.with_columns(
            a=pl.when(pl.int_range(n) % 50 == 1).then(pl.lit("oops")).otherwise("a"),
            kind=pl.when(pl.int_range(n) == n - 1).then(pl.lit("new")).otherwise("kind")))):
        place.mkdir()
        given.write_parquet(place / "one.parquet")
    rows = folder.parquet_rows(str(good))
    model, _ = train_in_batches(sampled(rows, "y", "auto", 100, 0), landmarks=10, seed=0, max_time=None,
                                report=lambda *said: None)
    if command == "train":
        drawn = sampled(rows, "y", "auto", 100, 0)
        drawn = replace(drawn, rows=folder.parquet_rows(str(odd)))
        said = train_in_batches(drawn, landmarks=10, seed=0, max_time=None, report=lambda *said: None)[0]
        said = said.trained_on["notes"]
    else:
        said = predict_in_batches(model, folder.parquet_rows(str(odd)), lambda columns: None, lambda *said: None)
    told = [sentence for sentence in said if sentence.startswith("Rows ")]
    assert len(told) == 2
    assert "'oops' in row 1" in told[0]
    assert told[0].endswith("So are entries in later batches, 7 of them.")
    assert told[1].startswith("Rows 350 to 399")
    assert "'new' in row 49" in told[1]


def test_a_folder_without_any_column_of_the_model_is_refused_by_name(call):
    write_folder(LABELS)
    assert call("train", "rows", "--target", "y", "--sample", 300, "-o", "m.buttress")[0] == 0
    Path("other").mkdir()
    pl.DataFrame({"x": [1.0]}).write_parquet("other/x.parquet")
    code, _, err = call("predict", "m.buttress", "other", "-o", "p.csv")
    assert code == 2
    assert "lack the columns 'a'" in err
