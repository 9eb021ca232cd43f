"""The reproduction of the adversarial SVM paper: its readers and generator, and a short run of the whole."""

import gzip
import json

import numpy as np
import pytest
from sklearn.base import clone

from buttress.adversarial import StochasticAdvSVM
from buttress.attacks.targets import by_differences
from reproduce.adv_svm import protocol
from reproduce.adv_svm.__main__ import figures_text, main
from reproduce.adv_svm.data import SETS, deformation_fields, deformed, digits_pair, read_idx
from reproduce.adv_svm.protocol import MODELS, Candidate, figure_3, fitted
from reproduce.adv_svm.published_file import RIDGE, C, PublishedFile


def write_idx(path, data):
    header = b"\x00\x00\x08" + bytes([data.ndim]) + b"".join(side.to_bytes(4, "big") for side in data.shape)
    path.write_bytes(gzip.compress(header + data.tobytes()))


@pytest.fixture
def files(tmp_path):
    """Tiny MNIST and CIFAR-10 in their official formats."""
    rng = np.random.default_rng(0)
    for part, count in (("train", 60), ("t10k", 20)):
        write_idx(tmp_path / f"{part}-images-idx3-ubyte.gz", rng.integers(0, 256, (count, 28, 28), dtype=np.uint8))
        write_idx(tmp_path / f"{part}-labels-idx1-ubyte.gz", (np.arange(count) % 10).astype(np.uint8))
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        rows = np.column_stack([np.arange(20) % 10, rng.integers(0, 256, (20, 3072))]).astype(np.uint8)
        (tmp_path / name).write_bytes(rows.tobytes())
    arrays = {f"{what}_{part}": made for part, count in (("train", 20), ("test", 4)) for what, made in (
        ("x", rng.integers(0, 256, (count, 3072), dtype=np.uint8)), ("y", np.tile([1, 9], count // 2)))}
    np.savez(tmp_path / "cifar10_lossless_subset.npz", **arrays)
    return tmp_path


@pytest.mark.parametrize("name", [name for name in SETS if "8M" not in name])
def test_official_files_are_read(files, name):
    split = SETS[name](files)
    width, rows = (784, 12) if name.startswith("MNIST") else (3072, 20)
    assert split.X.shape == (rows, width)
    assert split.X_test.shape == (4, width)
    assert 0 <= split.X.min() < split.X.max() <= 1
    assert set(split.y) == set(split.y_test) == {0, 1}


def test_idx_holds_what_was_written(tmp_path):
    data = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
    write_idx(tmp_path / "a.gz", data)
    np.testing.assert_array_equal(read_idx(tmp_path / "a.gz"), data.reshape(4, 6))
    (tmp_path / "b").write_bytes(b"\x00\x00\x08\x01\x00\x00\x00\x09abc")
    with pytest.raises(ValueError, match="holds 3 bytes of data, its header says 9"):
        read_idx(tmp_path / "b")
    (tmp_path / "c").write_bytes(b"PK")
    with pytest.raises(ValueError, match="not an idx file"):
        read_idx(tmp_path / "c")


def test_missing_files_are_named(tmp_path, capsys):
    assert main(["--data-dir", str(tmp_path), "--output", str(tmp_path / "out"), "--sets", "MNIST 1 vs. 7"]) == 1
    assert "train-images-idx3-ubyte" in capsys.readouterr().err


def test_deformed_images_stay_near_their_originals():
    split = digits_pair(3, 8)
    originals = np.rint(255 * split.X_test).astype(np.uint8)
    made, base = deformed(originals, 3 * len(originals))
    again, _ = deformed(originals, 3 * len(originals))
    np.testing.assert_array_equal(made, again)
    assert made.shape == (3 * len(originals), 64)
    assert (base == np.arange(3 * len(originals)) % len(originals)).all()
    assert not (made == originals[base]).all(axis=1).any()
    assert made.mean() == pytest.approx(originals.mean(), rel=0.1)
    fields = deformation_fields(8)
    assert np.abs(fields).max() == 1
    assert np.diff(fields, axis=1).std() < 0.3 * fields.std()


def test_short_run_writes_every_row_and_attack(tmp_path, capsys):
    options = ["--short", "--trials", "1", "--attacked", "10", "--folds", "2", "--sample", "80", "--features", "64",
               "--nearest", "2", "--output", str(tmp_path)]
    assert main(options) == 0
    record = json.loads((tmp_path / "digits-3-vs-8.json").read_text())
    assert tuple(record["rows"]) == MODELS
    printed = capsys.readouterr().out
    for row, found in record["rows"].items():
        assert f"| {row} |" in printed
        scores = {attack: mean for attack, (mean, _) in found["scores"].items()}
        assert 50 <= scores["Normal"] <= 100
        assert scores["PGD"] <= scores["FGSM"] + 10
        assert scores["C&W"] == 0
        assert 0 < scores["C&W median l2"] < 4
    assert record["rows"]["exact rkhs"]["scores"]["Normal"][0] > 85


def test_only_what_a_seed_draws_is_fitted_in_each_trial(monkeypatch):
    split = digits_pair(3, 8)
    seeds = []
    monkeypatch.setattr(protocol, "fitted", lambda *given: seeds.append(given[-1]) or fitted(*given))
    sizes = {"trials": 3, "attacked": 5, "nearest": 0, "nearest_trials": 0, "folds": 2, "sample": 80, "features": 32}
    for row, wanted in (("adv-linear-SVM", [0]), ("published file", [0, 1, 2])):
        list(protocol.measure(split, 0.1, **sizes, models=[row]))
        assert seeds[-len(wanted):] == wanted
        assert seeds.count(0) == len(seeds) - len(wanted) + 1  # the choice of parameters
        seeds.clear()


def test_figure_3_has_every_attack_at_every_stage():
    split = digits_pair(3, 8)
    natural = StochasticAdvSVM(eps=0, norm="l2", C=8.0, n_features=64, batch_size=100,
                             fit_intercept=False)
    curves = figure_3(Candidate(natural), split, 10, 1)
    assert set(curves) == {"Normal", "FGSM", "PGD", "C&W", "C&W median l2", "ZOO", "ZOO median l2"}
    assert {tuple(x for x, _ in curve) for curve in curves.values()} == {(1, 2)}
    model = fitted(Candidate(clone(natural).set_params(max_iter=2)), split.X, split.y, 0)
    assert curves["Normal"][-1][1] == 100 * np.mean(model.predict(split.X_test[:10]) != split.y_test[:10])
    assert all(error in (0.0, 100.0) for _, error in curves["C&W"] + curves["ZOO"])


def test_figures_stand_beside_the_points_of_the_papers_tables():
    whole = {"steps": [(5, 70.0), (10, 69.0)], "eps": [(4 / 255, 71.0), (8 / 255, 69.0)]}
    panels = {"C&W": [(3, 90.0), (6, 80.0)], "C&W median l2": [(3, 0.5), (6, 0.6)]}
    text = figures_text("CIFAR10 automobile vs. truck", {"Natural": {"figure 2": whole, "figure 3": panels}})
    assert "| Natural | 70.00 | 69.00 (63.32) |" in text
    assert "| Natural | 71.00 | 69.00 (63.32) |" in text
    assert "| Natural | 90.00 | 80.00 (52.70) |" in text  # 100 - 47.30
    assert "| Natural | 0.50 | 0.60 |" in text
    assert "(" not in figures_text("MNIST 1 vs. 7", {"Natural": {"figure 2": whole}})


def test_published_file_is_a_sum_of_ridge_regressions():
    """As the file solves it, on the features and with its two one-hot outputs, where ours solves on the rows."""
    split = digits_pair(3, 8)
    model = PublishedFile(n_frequencies=40, batch_size=50, n_components=10).fit(split.X, split.y)
    order, scores = np.random.default_rng(0).permutation(len(split.X)), np.zeros((len(split.X_test), 2))
    for t in range(12):
        rows = order[50 * t : 50 * t + 50]
        phi = model.sum_.features(model._inner(split.X[rows]), t)
        one_hot = np.eye(2)[split.y[rows]]
        W = np.linalg.solve(phi.T @ phi / 50 + RIDGE * np.eye(80), C * phi.T @ one_hot / 50)
        scores += model.sum_.features(model._inner(split.X_test), t) @ W
    np.testing.assert_allclose(model.decision_function(split.X_test), scores[:, 1] - scores[:, 0], rtol=1e-4, atol=1e-3)
    assert model.score(split.X_test, split.y_test) > 0.9


def test_published_files_gradient_agrees_with_differences():
    split = digits_pair(3, 8)
    model = PublishedFile(n_frequencies=40, batch_size=100, n_components=10).fit(split.X, split.y)
    X = split.X_test[:5].astype(np.float64)
    exact = model.input_gradient(X, np.ones((5, 1)))
    numeric = by_differences(lambda rows: model.decision_function(rows)[:, None], X, np.ones((5, 1)))
    np.testing.assert_allclose(exact, numeric, atol=1e-4 * np.abs(exact).max())


def test_only_the_models_asked_for_are_run(tmp_path):
    options = ["--short", "--trials", "1", "--attacked", "5", "--nearest", "0", "--output", str(tmp_path)]
    assert main([*options, "--models", "published file"]) == 0
    assert list(json.loads((tmp_path / "digits-3-vs-8.json").read_text())["rows"]) == ["published file"]


@pytest.mark.parametrize("option", ["--trials", "--attacked", "--folds", "--sample", "--features"])
def test_bad_numbers_are_refused(option, capsys, tmp_path):
    assert main([option, "0", "--short", "--output", str(tmp_path)]) == 2
    assert f"{option} must be at least" in capsys.readouterr().err


def test_a_run_that_was_killed_goes_on_after_its_last_attack(tmp_path, capsys, monkeypatch):
    options = ["--short", "--trials", "3", "--attacked", "5", "--folds", "2", "--sample", "80", "--features", "32",
               "--nearest", "0", "--models", "Natural"]
    assert main([*options, "--output", str(tmp_path / "whole")]) == 0
    once = protocol.accuracy_of
    columns = {**protocol.PAPER_ATTACKS, **protocol.honest_attacks(0.1)}
    asked = []

    def killed(column, *rest):
        asked.append(column)
        if len(asked) == len(columns) + 3:  # the third of the second trial
            raise KeyboardInterrupt
        return once(column, *rest)

    monkeypatch.setattr(protocol, "accuracy_of", killed)
    with pytest.raises(KeyboardInterrupt):
        main([*options, "--trials", "2", "--output", str(tmp_path / "killed")])  # more trials go on from fewer
    capsys.readouterr()
    del asked[:]
    assert main([*options, "--output", str(tmp_path / "killed"), "--resume"]) == 0
    assert asked == [*list(columns)[2:], *columns]
    assert "trial 2 of 3: 0 minutes left of this column" in capsys.readouterr().err
    whole, resumed = (json.loads((tmp_path / name / "digits-3-vs-8.json").read_text())["rows"]["Natural"]
                      for name in ("whole", "killed"))
    assert resumed["scores"] == whole["scores"]


def test_machines_with_the_same_features_are_trained_once_a_trial_also_after_a_kill(tmp_path, monkeypatch):
    options = ["--short", "--attacked", "5", "--folds", "2", "--sample", "80", "--features", "32", "--nearest", "0"]
    rows = ["Natural", "adv-SVM(D)"]
    trained = []
    once = protocol.all_trained
    monkeypatch.setattr(protocol, "all_trained", lambda *given: trained.append(1) or once(*given))

    def scores(name, *more):
        assert main([*options, "--trials", "2", "--output", str(tmp_path / name), *more]) == 0
        found = json.loads((tmp_path / name / "digits-3-vs-8.json").read_text())["rows"]
        return {row: found[row]["scores"] for row in found}

    with monkeypatch.context() as kill:
        kill.setattr(protocol, "one_trial", None)  # as soon as the first two are trained
        with pytest.raises(TypeError):
            scores("together", "--models", *rows)
    assert len(trained) == 1
    together = scores("together", "--models", *rows, "--resume")
    assert len(trained) == 2
    alone = {row: scores(row, "--models", row)[row] for row in rows}
    assert together == alone
