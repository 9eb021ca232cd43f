"""The verifier on wrong targets and rows left out: true intervals are proven again, narrower ones and forgeries not."""

import json
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge

from buttress import verify
from buttress.certificates import training_moves, training_removals

LINEAR = {"class": "Linear", "coef0": 0.0}
CASES = [  # model, kernel, alpha, intercept
    (LinearRegression(), LINEAR, 0.0, True),
    (Ridge(alpha=0.5), LINEAR, 0.5, True),
    (Ridge(alpha=0.5, fit_intercept=False), LINEAR, 0.5, False),
    (KernelRidge(alpha=0.5, kernel="rbf", gamma=0.6), {"class": "RBF", "gamma": 0.6}, 0.5, False),
    (GaussianProcessRegressor(RBF(1.0), alpha=0.3, optimizer=None), {"class": "RBF", "gamma": 0.5}, 0.3, False),
    (GaussianProcessRegressor(RBF(1.0), alpha=0.3, optimizer=None, normalize_y=True), {"class": "RBF", "gamma": 0.5},
     0.3, "targets"),
]


def data(seed, n=9):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, 2)), rng.normal(size=(4, 2))
    return X, X[:, 0] + rng.normal(size=n), Z


def certificate(number, **stated):
    """Return the certificate of a case, and its model, rows, targets and rows asked about."""
    model, kernel, alpha, intercept = CASES[number]
    X, y, Z = data(number)
    model.fit(X, y)
    if "by" in stated:
        some = None if "eligible" not in stated else np.isin(np.arange(9), stated["eligible"])
        found = training_moves(model, X, y, Z, by=stated["by"], rows=stated["rows"], eligible=some)
    else:
        found = training_removals(model, X, y, Z, rows=stated["rows"])
    stated = {"kernel": kernel, "alpha": alpha, "intercept": intercept, **stated}
    return json.loads(json.dumps(verify.from_moves(stated, X, y, Z, found))), model, X, y, Z


@pytest.mark.parametrize("number", range(len(CASES)))
def test_intervals_of_wrong_targets_are_proven_and_as_narrow_as_all_moves_say(number):
    held, model, X, y, Z = certificate(number, by=0.7, rows=2, eligible=[0, 2, 3, 5, 8])
    claims = verify.prove_moves(held, X, y)
    assert len(claims) == 9
    assert all(claim.holds for claim in claims)
    moved = [0.7 * (np.eye(9)[list(rows)].T @ signs) for rows in combinations([0, 2, 3, 5, 8], 2)
             for signs in product((-1, 1), repeat=2)]
    predicted = np.array([model.fit(X, y + move).predict(Z) for move in moved])
    proven = np.array([claim.proven for claim in claims[1:]]).reshape(4, 2)
    np.testing.assert_allclose(proven[:, 0], predicted.min(axis=0), atol=1e-9)
    np.testing.assert_allclose(proven[:, 1], predicted.max(axis=0), atol=1e-9)


@pytest.mark.parametrize("number", range(5))
def test_intervals_without_a_row_are_proven_and_as_narrow_as_refits_say(number):
    held, model, X, y, Z = certificate(number, rows=1)
    claims = verify.prove_moves(held, X, y)
    assert all(claim.holds for claim in claims)
    without = np.array([model.fit(np.delete(X, i, axis=0), np.delete(y, i)).predict(Z) for i in range(9)])
    whole = model.fit(X, y).predict(Z)
    proven = np.array([claim.proven for claim in claims[1:]]).reshape(4, 2)
    np.testing.assert_allclose(proven[:, 0], np.minimum(without.min(axis=0), whole), atol=1e-8)
    np.testing.assert_allclose(proven[:, 1], np.maximum(without.max(axis=0), whole), atol=1e-8)


@pytest.mark.parametrize("stated", [{"by": 0.7, "rows": 2}, {"rows": 1}])
def test_narrower_intervals_are_not_proven(stated):
    held, _, X, y, _ = certificate(3, **stated)
    for end, step in (("low", 1e-6), ("high", -1e-6)):
        claim = {**held["claim"], end: [value + step for value in held["claim"][end]]}
        claims = verify.prove_moves({**held, "claim": claim}, X, y)
        assert sum(claim.holds for claim in claims) == 5  # of the data and of the other end
    assert not verify.prove_moves(held, X, y + 1e-9)[0].holds


@pytest.mark.parametrize(("change", "message"), [
    ({"rows": -1}, "number of targets"), ({"rows": 1.5}, "number of targets"), ({"by": -1.0}, "by a number"),
    ({"by": float("inf")}, "by a number"), ({"by": None, "rows": 2}, "one is proven"), ({"more": 1}, "claimed of"),
    ({"by": None, "rows": 1, "intercept": "targets"}, "one is proven"), ({"alpha": -1.0}, "alpha")])
def test_what_states_no_problem_is_refused(change, message):
    held, _, X, y, _ = certificate(3, by=0.7, rows=2)
    with pytest.raises(ValueError, match=message):
        verify.prove_moves({**held, "problem": {**held["problem"], **change}}, X, y)


def test_a_row_that_decides_itself_is_refused():
    X, y = np.array([[0.0], [0.0], [1.0]]), np.array([0.0, 1.0, 2.0])
    found = training_moves(LinearRegression().fit(X, y), X, y, X, by=1.0, rows=1)
    stated = {"kernel": LINEAR, "alpha": 0.0, "intercept": True, "rows": 1}
    with pytest.raises(ValueError, match="decides"):
        verify.prove_moves(verify.from_moves(stated, X, y, X, found), X, y)


def test_the_command_proves_a_file_of_intervals(tmp_path, capsys):
    held, _, X, y, _ = certificate(3, by=0.7, rows=2)
    pd.DataFrame(X).assign(y=y).to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "moves.json").write_text(json.dumps(held))
    call = [str(tmp_path / "moves.json"), str(tmp_path / "data.csv"), "--target", "y"]
    assert verify.main(call) == 3
    assert "proven: largest prediction of row 3" in capsys.readouterr().out
    assert verify.main([*call, "--problem", json.dumps(held["problem"])]) == 0
