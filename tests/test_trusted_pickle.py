"""A pickle is opened only where the user says that it can be trusted."""

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from buttress.cli.audit import _check_files, _fitted


@pytest.mark.parametrize("name", ["model.pkl", "model.joblib", "MODEL.PICKLE"])
def test_a_pickle_is_refused_unless_trusted(tmp_path, name):
    X = np.arange(8.0)[:, None]
    model = LogisticRegression().fit(X, X[:, 0] > 3)
    path = tmp_path / name
    joblib.dump(model, path)
    with pytest.raises(ValueError, match="--trust-pickle"):
        _check_files(tmp_path, tmp_path / "data.csv", {"against": None, "test": None, "model": path}, False)
    _check_files(tmp_path, tmp_path / "data.csv", {"against": None, "test": None, "model": path}, True)
    np.testing.assert_array_equal(_fitted(path).predict(X), model.predict(X))


def test_a_file_of_our_own_needs_no_trust(tmp_path):
    path = tmp_path / "model.buttress"
    path.write_bytes(b"x")
    _check_files(tmp_path, tmp_path / "data.csv", {"against": path, "test": None, "model": path}, False)
    with pytest.raises(ValueError, match="is not a file"):
        _check_files(tmp_path, path, {"against": tmp_path / "new.csv", "test": None, "model": None}, False)
