"""The verifier on wrong labels: true claims are proven again, larger ones and forgeries are not."""

import json
from fractions import Fraction
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.metrics.pairwise import laplacian_kernel

from buttress import LeastSquaresClassifier, verify
from buttress.certificates import training_flips
from buttress.verify.training import solved, weights

LINEAR = {"class": "Linear", "coef0": 0.0}
WEIGHT = np.arange(1.0, 25.0)


def rbf(gamma):
    return {"class": "RBF", "gamma": gamma}


CASES = [  # model, kernel, alpha, intercept, classes, weights, options of training_flips
    (LeastSquaresClassifier(gamma=0.7), rbf(0.7), 1.0, True, 2, None, {}),
    (LeastSquaresClassifier(gamma=0.7, alpha=0.3), rbf(0.7), 0.3, True, 3, WEIGHT, {}),
    (LeastSquaresClassifier(gamma=0.7), rbf(0.7), 1.0, True, 3, None,
     {"directions": [(0, 1), (2, 1)], "eligible": np.arange(24) % 3 > 0}),
    (RidgeClassifier(alpha=2.0), LINEAR, 2.0, True, 2, WEIGHT, {}),
    (RidgeClassifier(alpha=2.0, fit_intercept=False), LINEAR, 2.0, False, 3, None, {}),
    (LinearRegression(), LINEAR, 0.0, True, 2, None, {"threshold": 0.4}),
    (Ridge(alpha=0.5), LINEAR, 0.5, True, 2, None, {"threshold": 0.5}),
    (KernelRidge(alpha=0.5, kernel="rbf", gamma=0.6), rbf(0.6), 0.5, False, 2, None, {"threshold": 0.5}),
    (KernelRidge(alpha=0.5, kernel="laplacian", gamma=0.6), None, 0.5, False, 2, None, {"threshold": 0.5}),
    (GaussianProcessRegressor(RBF(1.0), alpha=0.3, optimizer=None, normalize_y=True), rbf(0.5), 0.3, "targets", 2, None,
     {"threshold": 0.5}),
]


def case(number):
    """Return the certificate of a case, what was found, and training rows, labels and weights."""
    model, kernel, alpha, intercept, classes, weight, options = CASES[number]
    rng = np.random.default_rng(number)
    X, Z = rng.normal(size=(24, 2)), rng.normal(size=(7, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=24), [0.0] if classes == 2 else [-0.5, 0.5])
    given = {} if weight is None else {"sample_weight": weight}
    found = training_flips(model.fit(X, y, **given), X, y, Z, **given, **options)
    if kernel is None:
        X, Z = (laplacian_kernel(part, X, gamma=0.6) for part in (X, Z))
    stated = {"kernel": kernel, "alpha": alpha, "intercept": intercept, "classes": list(range(classes)),
              "threshold": options.get("threshold"), "directions": options.get("directions")}
    stated["eligible"] = np.flatnonzero(options["eligible"]).tolist() if "eligible" in options else None
    held = json.loads(json.dumps(verify.from_flips(stated, X, y, Z, found)))
    return held, found, X, y, weight


def proven(held, X, y, weight=None):
    return all(claim.holds for claim in verify.prove_flips(held, X, y, weight))


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{c[0]}, {c[4]} classes"[:40] for c in CASES])
def test_what_training_flips_finds_is_proven_again_and_one_label_more_is_not(number):
    held, found, X, y, weight = case(number)
    claims = verify.prove_flips(held, X, y, weight)
    assert [claim for claim in claims if not claim.holds] == []
    np.testing.assert_array_equal([claim.proven for claim in claims[1:]], found.needed)
    finite = [i for i, needed in enumerate(held["claim"]["needed"]) if needed is not None]
    assert finite
    for i in finite:
        larger = json.loads(json.dumps(held))
        larger["claim"]["needed"][i] += 1
        assert [claim.holds for claim in verify.prove_flips(larger, X, y, weight)].count(False) == 1
        larger["claim"]["needed"][i] = None
        assert not proven(larger, X, y, weight)


@pytest.mark.parametrize("classes", [2, 3])
def test_no_set_of_fewer_labels_changes_a_prediction(classes):
    rng = np.random.default_rng(classes)
    X, Z, y = rng.normal(size=(10, 2)), rng.normal(size=(5, 2)), np.arange(10) % classes
    X[:, 0] += y
    model = RidgeClassifier(alpha=1.0).fit(X, y)
    before = model.predict(Z)
    claim = {"prediction": before.tolist(), "needed": [0] * len(Z)}
    stated = {"model": "least squares", "kernel": LINEAR, "alpha": 1.0, "intercept": True, "threshold": None,
              "classes": list(range(classes)), "directions": None, "eligible": None}
    held = verify.certificate(stated, {"rows": Z.tolist()}, X, y, claim)
    bound = [one.proven for one in verify.prove_flips(held, X, y)[1:]]
    truth = np.full(len(Z), np.inf)
    for k in (1, 2):
        for rows in combinations(range(10), k):
            for shift in np.ndindex(*(classes - 1,) * k):
                other = y.copy()
                other[list(rows)] = (y[list(rows)] + 1 + np.array(shift)) % classes
                changed = RidgeClassifier(alpha=1.0).fit(X, other).predict(Z) != before
                truth[changed] = np.minimum(truth[changed], k)
    np.testing.assert_array_equal(np.minimum(bound, 3), np.minimum(truth, 3))


@pytest.mark.parametrize("changed", [
    {"alpha": 30.0}, {"kernel": rbf(0.01)}, {"eligible": [0]}, {"directions": []}, {"intercept": False}])
def test_an_easier_problem_than_the_callers_is_not_proven_for_it(changed, tmp_path):
    held, _, X, y, _ = case(0)
    command = files(tmp_path, held, X, y)
    honest = json.dumps(held["problem"])
    assert verify.main([*command, "--problem", honest]) == 0
    (tmp_path / "flips.json").write_text(json.dumps({**held, "problem": held["problem"] | changed}))
    assert verify.main([*command, "--problem", honest]) != 0


@pytest.mark.parametrize(("alpha", "intercept"), [([0.5] * 3, False), (-1.0, True), (np.nan, True), ("each", True)])
def test_a_penalty_that_states_no_problem_is_refused(alpha, intercept):
    """With one a row, the mean that an intercept centres by is not that of the weights."""
    held, _, X, y, _ = case(0)
    held["problem"] |= {"alpha": [0.5] * len(X) if alpha == "each" else alpha, "intercept": intercept}
    with pytest.raises(ValueError, match="alpha must be a number >= 0, or one for each row where"):
        verify.prove_flips(held, X, y)


@pytest.mark.parametrize("rows", [[True, False] * 12, [0.5], [-1], [24], ["0"]])
def test_rows_that_are_no_numbers_of_rows_are_refused(rows):
    """A mask would be taken for rows 0 and 1, of which fewer labels can be wrong."""
    held, _, X, y, _ = case(0)
    held["problem"]["eligible"] = rows
    with pytest.raises(ValueError, match=f"numbers of rows, from 0 to {len(X) - 1}, or null"):
        verify.prove_flips(held, X, y)


def files(folder, held, X, y):
    pd.DataFrame(X).assign(y=y).to_csv(folder / "data.csv", index=False)
    (folder / "flips.json").write_text(json.dumps(held))
    return [str(folder / "flips.json"), str(folder / "data.csv"), "--target", "y"]


def test_the_command_says_what_is_proven(tmp_path, capsys):
    held, _, X, y, _ = case(0)
    command = files(tmp_path, held, X, y)
    assert verify.main(command) == 3
    assert "proven: labels that change row 6" in capsys.readouterr().out
    held["claim"]["needed"][2] += 1
    assert verify.main(files(tmp_path, held, X, y)) == 1
    assert "NOT PROVEN: labels that change row 2" in capsys.readouterr().out
    held["point"]["rows"] = held["point"]["rows"][:-1]
    assert verify.main(files(tmp_path, held, X, y)) == 2


def test_other_labels_rows_weights_and_predictions_are_noticed():
    held, _, X, y, _ = case(0)
    other = y.copy()
    other[0] = 1 - y[0]
    assert not proven(held, X, other)
    assert not proven(held, X[::-1].copy(), y[::-1].copy())
    assert not proven(held, X, y, np.where(y == 1, 1.0, 1e-3))
    held["claim"]["prediction"][0] = 1 - held["claim"]["prediction"][0]
    assert not proven(held, X, y)


@pytest.mark.parametrize(("where", "name", "value"), [
    ("problem", "intercept", 1), ("problem", "alpha", float("nan")), ("problem", "alpha", -1.0),
    ("problem", "more", 1), ("problem", "classes", [0]), ("problem", "classes", [0, 0]), ("problem", "threshold", 0.0),
    ("claim", "more", 1), ("claim", "needed", [1]), ("claim", "prediction", []), ("point", "rows", []),
    ("point", "rows", [[float("nan"), 0.0]] * 7), ("point", "rows", [[0.0]] * 7)])
def test_forged_certificates_cannot_be_checked(where, name, value):
    held, _, X, y, _ = case(0)
    if name == "threshold":
        held["problem"]["classes"] = [1, 0]  # what lies above a threshold is the larger label
    held[where][name] = value
    with pytest.raises((ValueError, IndexError, KeyError)):
        verify.prove_flips(held, X, y)


def test_a_number_of_labels_that_is_no_number_is_not_proven():
    held, _, X, y, _ = case(0)
    held["claim"]["needed"][0] = float("nan")
    assert not proven(held, X, y)


def test_a_tie_is_no_proof_and_rounding_alone_is_refused():
    X, y = np.array([[-1.0], [1.0], [-1.0], [1.0]]), np.array([0, 1, 0, 1])
    stated = {"model": "least squares", "kernel": LINEAR, "alpha": 1.0, "intercept": False, "classes": [0, 1],
              "threshold": None, "directions": None, "eligible": None}
    held = verify.certificate(stated, {"rows": [[1.0]]}, X, y, {"prediction": [1], "needed": [3]})
    assert [claim.proven for claim in verify.prove_flips(held, X, y)] == [1.0, 2.0]  # two of four equal voices tie
    twice = np.hstack([X, X])
    held = verify.certificate({**stated, "alpha": 1e-17}, {"rows": [[1.0, 1.0]]}, twice, y,
                              {"prediction": [1], "needed": [1]})
    with pytest.raises(ValueError, match=r"rounding decides|positive definite"):
        verify.prove_flips(held, twice, y)


@pytest.mark.parametrize("kernel", [LINEAR, {"class": "Polynomial", "degree": 2, "gamma": 1.0, "coef0": 1.0}])
def test_weights_hold_the_exact_ones(kernel):
    rng = np.random.default_rng(0)
    X, Z, weight = rng.normal(size=(6, 3)), rng.normal(size=(2, 3)), rng.random(6) + 0.1
    stated = {"intercept": True, "kernel": kernel, "alpha": 0.3}
    found = weights(stated, X, Z, weight)

    def exact(a, b):
        product = sum(Fraction(p) * Fraction(q) for p, q in zip(a, b))
        return product if kernel == LINEAR else (product + 1) ** 2

    for row, z in enumerate(Z):  # [K + D, 1; 1', 0] [h; .] = [k; 1] are the conditions of optimality
        A = [[exact(a, b) + (Fraction(0.3) / Fraction(weight[i]) if i == j else 0) for j, b in enumerate(X)] + [1]
             for i, a in enumerate(X)]
        h = eliminated([*A, [1] * 6 + [0]], [*(exact(a, z) for a in X), 1])[:6]
        assert all(Fraction(float(found.low[row, i])) <= h[i] <= Fraction(float(found.high[row, i])) for i in range(6))
        assert found.e[row].max() < 1e-10


def eliminated(A, b):
    """Return the solution of A x = b in exact fractions."""
    n = len(b)
    rows = [[*map(Fraction, row), Fraction(last)] for row, last in zip(A, b)]
    for i in range(n):
        pivot = next(j for j in range(i, n) if rows[j][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(n):
            if j != i:
                rows[j] = [value - rows[j][i] * own for value, own in zip(rows[j], rows[i])]
    return [row[n] for row in rows]


def test_solutions_of_hard_systems_hold_the_exact_ones():
    n = 7
    hilbert = np.array([[1 / (i + j + 1) for j in range(n)] for i in range(n)]) + 1e-9 * np.eye(n)
    found = solved(verify.Real(hilbert), verify.Real(np.ones((n, 1))))
    truth = eliminated(hilbert.tolist(), [1] * n)
    low, high = found.low[:, 0], found.high[:, 0]
    assert all(Fraction(float(low[i])) <= truth[i] <= Fraction(float(high[i])) for i in range(n))
