"""An audit that is killed and run again says what one says that was not."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestClassifier

import buttress
from buttress.checkpoints.folder import Folder
from buttress.checkpoints.journal import Journal

X, y = make_classification(150, 5, n_informative=4, n_redundant=0, random_state=0, flip_y=0.1)
REAL, real = make_regression(50, 3, noise=10.0, random_state=0)
NEW = {"rows": 20}


class Killed(BaseException):
    """Stands for the end of the process."""


def said(result):
    """Return all that a result says but how long it took."""
    return {name: value for name, value in result.to_dict().items() if name != "seconds"}


def audit(data, folder=None, **options):
    estimator = RandomForestClassifier(5, random_state=0) if data is X else None
    target = y if data is X else real
    return buttress.audit(estimator, data, target, checkpoint=None if folder is None else str(folder),
                          **{**NEW, **options})


def kill(data, folder, monkeypatch, last):
    """Audit until so many calls and stages were kept, and write them."""
    end = Journal.end
    count = 0

    def called(self, number, question, value):
        nonlocal count
        end(self, number, question, value)
        count += "best" not in value  # a run that has ended is no call
        if count == last and "best" not in value:
            self._write({})
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "end", called)
        with pytest.raises(Killed):
            audit(data, folder)


def test_an_audit_that_was_killed_says_the_same_and_makes_no_stage_again(tmp_path, monkeypatch):
    asked = []
    end = Journal.end
    monkeypatch.setattr(Journal, "end", lambda self, number, question, value: (
        asked.extend([question] if "best" not in value else []), end(self, number, question, value)))
    whole = said(audit(REAL, tmp_path / "whole"))
    needed = len(asked)
    kill(REAL, tmp_path / "killed", monkeypatch, 12)
    folder = Folder(str(tmp_path / "killed"))
    kept = [entry for name in folder.names("ended-") for entry in folder.read(name)]
    assert sum("best" not in entry["value"] for entry in kept) == 12
    asked.clear()
    assert said(audit(REAL, tmp_path / "killed")) == whole
    assert len(asked) == needed - 12
    assert list((tmp_path / "killed").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("last", [1, 5, 30, 60, 90])
def test_an_audit_that_was_killed_twice_anywhere_says_the_same(last, tmp_path, monkeypatch):
    kill(X, tmp_path, monkeypatch, last)
    kill(X, tmp_path, monkeypatch, 2)
    assert said(audit(X, tmp_path)) == said(audit(X))


def test_another_audit_is_refused(tmp_path, monkeypatch):
    kill(REAL, tmp_path, monkeypatch, 2)
    with pytest.raises(ValueError, match=r"eps was 0\.25, now 0\.5\. Delete the folder to start anew"):
        audit(REAL, tmp_path, eps=0.5)
    with pytest.raises(ValueError, match="table differs"):
        audit(np.round(REAL, 3), tmp_path)


@pytest.mark.parametrize("option", ["groups", "time", "none"])
def test_other_entries_of_a_column_that_is_no_feature_are_another_audit(option, tmp_path, monkeypatch):
    """Groups and times decide which rows are held out; a fitted model is asked with dropped columns too."""
    frame = pd.DataFrame(REAL, columns=list("abc")).assign(more=np.arange(50) % 25)
    options = {} if option == "none" else {option: "more"}
    if option == "none":
        frame["more"] = pd.date_range("2024-01-01", periods=50)
        options = {"estimator": DummyRegressor().fit(REAL, real)}

    def audited(frame):
        given = {"estimator": None, "checkpoint": str(tmp_path), **NEW, **options}
        return buttress.audit(given.pop("estimator"), frame, real, **given)

    monkeypatch.setattr(Journal, "end", ended)
    with pytest.raises(Killed):
        audited(frame)
    with pytest.raises(ValueError, match="table differs"):
        audited(frame.assign(more=frame["more"].to_numpy()[::-1]))


END = Journal.end


def ended(journal, *call):
    """Keep the first call or run that ends, and end the process there."""
    END(journal, *call)
    journal._write({})
    raise Killed
