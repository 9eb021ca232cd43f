"""The audit under a threat: its figures against a search of all that the threat allows."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import buttress.audit.measurements.attacked as attacked_
from buttress import Budget, ThreatModel, audit
from buttress.audit.measuring.split_table import split_table
from buttress.audit.options import Options
from buttress.audit.reading.table import columns_of, make_table
from buttress.cli import app

THREAT = ThreatModel({"score": Budget(2, step=1)}, {"flag": [0, 1], "colour": ["blue", "red"]})


def table(rows=150):
    """A flag that tells the class, a score of whole numbers that tells it too, and a colour."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, rows)
    flag = np.where(rng.random(rows) < 0.05, 1 - y, y)
    score = np.rint(50 + 6 * (2 * y - 1) + rng.normal(scale=3, size=rows))
    colour = np.where(rng.random(rows) < 0.2, "green", np.where(y == (rng.random(rows) < 0.3), "red", "blue"))
    return pd.DataFrame({"flag": flag, "score": score, "colour": colour}), np.where(y == 1, "yes", "no")


def versions(frame):
    swaps = [("flag", 0), ("flag", 1), ("colour", "blue"), ("colour", "red")]
    for move, (column, value) in product(range(-2, 3), swaps):
        yield frame.assign(score=frame.score + move, **{column: value})
    for move in range(-2, 3):
        yield frame.assign(score=frame.score + move)


def right_whatever(split, frame, name, model):
    """Say which held-out rows a model gets right in every version, prepared as the audit does."""
    right = []
    for version in versions(frame):
        raw = np.column_stack([version["flag"], version["score"],
                               [("blue", "green", "red").index(word) for word in version["colour"]]])
        features = split.features
        rows = (features.native if name == "gradient boosting" else features.prepared)(raw[split.test.places])
        right.append(model.predict(rows) == split.test.y)
    return np.all(right, axis=0)


@pytest.fixture(scope="module")
def watched():
    """An audit, and of each model which rows no version turns, which an attack left standing, and which are proven."""
    frame, y = table()
    seen, original = {}, attacked_._under_threat

    def watch(split, name, model, share, fallen):
        known = original(split, name, model, share, fallen)
        seen[name] = right_whatever(split, frame, name, model), fallen.standing(share), fallen.proven >= share
        return known

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(attacked_, "_under_threat", watch)
        return audit(None, frame, y, threat=THREAT, effort="quick"), seen


@pytest.fixture(scope="module")
def result(watched):
    return watched[0]


def test_what_is_proven_and_left_of_each_model_is_on_both_sides_of_the_search(watched):
    frame, y = table()
    made = make_table(columns_of(frame), y, "y", "auto")
    seen = watched[1]
    assert len(seen) >= 5
    assert split_table(made, {}, Options()).features.units[0].coded == {"colour": ["blue", "green", "red"]}
    for name, (true, standing, proven) in seen.items():
        assert not (proven & ~true).any(), name  # no proof is broken
        assert not (true & ~standing).any(), name  # what an attack broke is broken
        assert (standing & ~true).mean() <= 0.02, name  # and little that the search breaks is left
    assert any((~true).mean() > 0.3 for true, _, _ in seen.values())


def test_models_are_trained_and_told_of_the_threat(result):
    assert "threat" in result.columns["attacked"]
    assert any("Attacked and proven is what this allows" in note and "'score' by at most 2" in note
               for note in result.notes)
    assert result.settings["threat"] == str(THREAT)
    cells = result.rows["certified SVC"], result.rows["plain SVC"]
    assert cells[0]["certified"].value > cells[1]["certified"].value
    assert cells[0]["certified"].value <= cells[0]["attacked"].value


def test_the_code_of_a_machine_trained_under_a_threat_runs():
    frame, y = table()
    made = make_table(columns_of(frame), y, "y", "auto")
    from buttress import CertifiedSVC
    from buttress.audit.writing.paste import paste

    split = split_table(made, {"certified": CertifiedSVC()}, Options(threat=THREAT))
    made.origin = "", "pandas frame"
    code = paste(made, split.unfitted["certified"])
    space = {}
    exec(code, space)
    fitted = space["model"].fit(frame, y)
    assert fitted[-1].threat == split.threat_to("certified")


def test_the_command_takes_a_file(tmp_path):
    frame, y = table(60)
    frame.assign(y=y).to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "threat.toml").write_text("[numbers]\nscore = {by = 2, step = 1}\n[categories]\nflag = [0, 1]\n")
    options = ["--target", "y", "--effort", "quick", "--output", str(tmp_path), "--threat",
               str(tmp_path / "threat.toml")]
    done = CliRunner().invoke(app, ["audit", str(tmp_path / "data.csv"), *options])
    assert done.exit_code == 0, done.output
    assert "Attacked under the threat" in (tmp_path / "audit.html").read_text()
    (tmp_path / "threat.toml").write_text("[numbers]\nscor = 2\n")
    done = CliRunner().invoke(app, ["audit", str(tmp_path / "data.csv"), *options])
    assert done.exit_code != 0


def test_a_threat_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="threat must be a ThreatModel"):
        audit(None, *table(40), threat={"score": 1})
