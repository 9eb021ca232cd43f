"""Certificates of rows under a threat: moves and all swaps together, against exhaustive search, and forgeries."""

import copy
import itertools
import json
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as LibSVC

from buttress import SVC, CertifiedSVC, LinearSVC, ThreatModel, kernels, verify
from buttress.evidence.certificates import FILE, prove_rows, scores_of
from buttress.verify.inputs.threatened import OfExpansion, TreeBoxes
from buttress.verify.inputs.threatened import read_scores as opened

MODELS = [
    SVC(gamma=0.5), SVC(kernel="poly", degree=3, coef0=1.0), SVC(kernel="laplacian"), LinearSVC(),
    CertifiedSVC(eps=0.2),
    SVC(kernel=kernels.Combination([kernels.RBF(0.5), kernels.Polynomial(2, 0.2, 1.0)], [0.5, 1.0])),
    make_pipeline(StandardScaler(), LibSVC()), make_pipeline(StandardScaler(), LogisticRegression()),
    RandomForestClassifier(10, max_depth=4, random_state=0), HistGradientBoostingClassifier(max_iter=10, max_depth=3),
    make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=8, max_depth=3))]
THREAT = ThreatModel({0: 0.3, 1: 0.2}, {2: [0, 1]}, [[3, 4, 5]], most_swaps=2)
REACH = np.array([0.3, 0.2, 0, 0, 0, 0])


def mixed(classes, n=160):
    """Return rows of two numbers, a 0/1 column and a one-hot group, and labels."""
    g = np.random.default_rng(0)
    group = np.eye(3)[g.integers(0, 3, n)]
    X = np.column_stack([g.normal(size=(n, 2)), g.integers(0, 2, n), group])
    score = X[:, 0] + 0.5 * X[:, 1] + 0.6 * X[:, 2] - 0.5 * X[:, 3] + 0.4 * X[:, 5]
    return X, np.digitize(score, [0.3] if classes == 2 else [-0.2, 0.8])


def certificate(model, X, y, rows):
    words = [str(each) for each in model.classes_]
    labels = [words[code] for code in y[rows]]
    made = prove_rows(model, X[rows], words, labels, THREAT, "")
    return json.loads(made.files[FILE]), labels


@cache
def fitted(number, classes):
    """Return a model, rows to ask about, and their certificate and labels."""
    X, y = mixed(classes)
    model = clone(MODELS[number]).fit(X[:120], y[:120])
    return model, X[120:138], *certificate(model, X, y, np.arange(120, 138))


def swapped(x):
    """Return every way to swap a row at most twice, written down by hand."""
    ways = [x]
    for binary, group in itertools.product([None, 0, 1], [None, 0, 1, 2]):
        row = x.copy()
        row[2] = row[2] if binary is None else binary
        row[3:] = row[3:] if group is None else np.eye(3)[group]
        ways.append(row)
    return np.array(ways)


@pytest.mark.parametrize(("number", "classes"), [*((number, 2) for number in range(len(MODELS))),
                                                 (0, 3), (6, 3), (8, 3)])
def test_no_move_and_no_swap_within_a_proven_radius_changes_a_prediction(number, classes):
    model, rows, held, labels = fitted(number, classes)
    claims = verify.prove_threat(held, rows, labels)
    assert all(claim.holds for claim in claims)
    radius, g = held["claim"]["radius"], np.random.default_rng(1)
    assert sum(each is not None for each in radius) > 0
    for x, each in zip(rows, radius, strict=True):
        if each is None:
            continue
        corners = list(itertools.product([-1, 1], [-1, 1], *[[0]] * 4))
        moves = np.vstack([g.uniform(-1, 1, (40, 6)), corners]) * each * REACH
        points = (swapped(x)[:, None] + moves).reshape(-1, 6)
        assert (model.predict(points) == model.predict(x[None])).all()


@pytest.mark.parametrize("number", [0, 3, 4, 8])
def test_radii_are_nearly_as_large_as_search_allows(number):
    model, rows, held, _ = fitted(number, 2)
    grid = np.array(list(itertools.product(np.linspace(-1, 1, 5), np.linspace(-1, 1, 5), *[[0]] * 4))) * REACH
    shares = []
    for x, each in zip(rows, held["claim"]["radius"], strict=True):
        sizes = np.geomspace(0.05, 20, 30)
        points = (swapped(x)[:, None, None] + sizes[:, None, None] * grid).reshape(-1, 6)
        changed = (model.predict(points) != model.predict(x[None])).reshape(-1, len(sizes), len(grid)).any(axis=(0, 2))
        if changed.any() and not changed[0]:
            shares.append((each or 0.0) / sizes[changed.argmax()])
    assert np.median(shares) > 0.5
    assert max(shares) <= 1


@pytest.fixture(scope="module")
def true():
    """A certificate, its rows and labels."""
    X, y = mixed(2)
    return *certificate(SVC(gamma=0.5).fit(X[:120], y[:120]), X, y, np.arange(120, 126)), X[120:126]


def forged(held, change):
    held = copy.deepcopy(held)
    change(held)
    return held


def double(held):
    radius = held["claim"]["radius"]
    i = next(i for i, each in enumerate(radius) if each is not None)
    held["claim"]["radius"][i] = 100.0


def other_class(held):
    held["claim"]["prediction"][:] = ["1" if each == "0" else "0" for each in held["claim"]["prediction"]]


def larger_intercept(held):
    held["point"]["scores"]["intercept"][0] += 10.0


def wider_threat(held):
    held["problem"]["threat"]["reach"] = [50 * each for each in held["problem"]["threat"]["reach"]]


@pytest.mark.parametrize("change", [double, other_class, larger_intercept, wider_threat])
def test_forged_certificates_are_not_proven(change, true):
    held, labels, rows = true
    assert not all(claim.holds for claim in verify.prove_threat(forged(held, change), rows, labels))


BROKEN = [lambda held: held["problem"]["threat"].update(most_swaps=-1),
          lambda held: held["problem"]["threat"].update(reach=[1.0] * 6),  # a column that is swapped has no budget
          lambda held: held["problem"]["threat"]["groups"][0].update(places=[9]),
          lambda held: held["claim"]["radius"].pop(), lambda held: held["point"]["scores"].pop("origin"),
          lambda held: held["point"]["scores"].update(scale=[1.0]),
          lambda held: held["claim"]["radius"].__setitem__(0, -1.0),
          lambda held: held["point"]["scores"]["kernel"].update(gamma=-1.0)]


@pytest.mark.parametrize("change", BROKEN)
def test_what_is_no_certificate_is_refused(change, true):
    held, labels, rows = true
    with pytest.raises((ValueError, KeyError)):
        verify.prove_threat(forged(held, change), rows, labels)


def line(shift, scale=1.0, origin=0.0):
    """Return the scores x - shift of one column, as a certificate holds them."""
    return {"kernel": {"class": "Linear", "coef0": 0.0}, "pairs": False, "linear": None, "centers": [[1.0]],
            "coef": [[1.0]], "intercept": [0.0], "shift": [shift], "scale": [scale], "origin": [origin]}


def keeps(scores, x, reach):
    return OfExpansion(scores, ["no", "yes"], 1).keeps(np.array([x]), 1, np.array([reach]))


def test_rounding_of_what_scalers_subtract_is_taken_off():
    """At 1e9 numbers lie 1.2e-7 apart: a lead of 1e-7 can be one of 0."""
    assert keeps(line(0.0), 1e-6, 9e-7)
    assert not keeps(line(1e9), 1e9 + 1e-6, 9e-7)
    assert not keeps(line(0.0, origin=1e12), 1e-6, 9e-7)


def test_a_box_is_that_of_the_scaled_rows():
    assert keeps(line(1.0, 100.0), 2.0, 0.999)
    assert not keeps(line(1.0, 100.0), 2.0, 1.001)
    assert keeps(line(1.0, 0.01), 2.0, 0.999)
    assert not keeps(line(1.0, 0.01), 2.0, 1.001)


def test_a_linear_part_beside_a_kernel_counts():
    part = line(0.0)
    part["linear"], part["coef"] = [[1.0]], [[0.0]]
    assert keeps(part, 1.0, 0.999)
    assert not keeps(part, 1.0, 1.001)


def test_a_way_to_decide_that_no_proof_knows_is_refused():
    X, y = load_iris(return_X_y=True)
    model = LibSVC(kernel="sigmoid").fit(X, y)
    with pytest.raises(ValueError, match="kernel"):
        scores_of(model, X)
    with pytest.raises(ValueError, match="no proof is known"):
        scores_of(type("Mine", (SVC,), {"decision_function": lambda self, X: 0})().fit(X, y), X)


def test_the_box_of_a_tree_holds_what_rounding_reaches():
    """At .3 a move of .3 - .1 as floats have it reaches the threshold .1, and a row there goes left."""
    nodes = {"feature": [0, 0, 0], "threshold": [0.1, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
             "value": [[0.0], [-1.0], [1.0]]}
    trees = TreeBoxes({"offset": [0.0], "trees": [nodes]}, ["no", "yes"], 2)
    x, far = np.array([0.3, 0.0]), 0.3 - 0.1
    assert 0.3 - far <= 0.1
    assert not trees.keeps(x, 1, np.array([far, 0.0]))
    assert trees.keeps(x, 1, np.array([far * (1 - 1e-14), 0.0]))
    left = np.array([0.1 - far, 0.0])
    assert trees.keeps(left, 0, np.array([far * (1 - 1e-14), 0.0]))
    assert not trees.keeps(left, 0, np.array([far * (1 + 1e-14), 0.0]))
    assert not trees.keeps(x, 0, np.array([0.0, 0.0]))


def test_nodes_that_share_a_child_are_no_tree():
    """A row that comes to a node by its first parent would be forgotten where only the last one is asked."""
    nodes = {"feature": [0] * 6, "threshold": [0, -1, 1, 0, 0, 0], "left": [1, 3, 3, -1, -1, -1],
             "right": [2, 4, 5, -1, -1, -1], "value": [[0.0], [0.0], [0.0], [-1.0], [1.0], [1.0]]}
    with pytest.raises(ValueError, match="no tree"):
        TreeBoxes({"offset": [0.0], "trees": [nodes]}, ["no", "yes"], 1)


@pytest.mark.parametrize("shared", ["intercept_", "coef_"])
def test_what_all_scores_share_costs_digits_of_what_is_predicted(shared):
    """It cancels in the leads, and not in the rounding of the scores that predict compares."""
    X = np.linspace(-3, 3, 60)[:, None]
    model = LogisticRegression(C=0.1).fit(X, np.arange(60) // 20)
    setattr(model, shared, getattr(model, shared) + 2e13)
    codes, held = model.predict(X), opened(scores_of(model, X), [0, 1, 2], 1)
    for x, code in zip(X[::3], codes[::3], strict=True):
        radius = 0.0
        for step in 2.0 ** -np.arange(30):
            radius += step if held.keeps(x, int(code), np.array([radius + step])) else 0.0
        if radius:
            moved = x + np.linspace(-radius, radius, 2001)[:, None]
            assert (model.predict(moved) == code).all()


def test_what_no_score_shares_costs_nothing():
    X = np.linspace(-3, 3, 60)[:, None]
    model = LogisticRegression(C=0.1).fit(X, np.arange(60) // 20)
    held = opened(scores_of(model, X), [0, 1, 2], 1)
    assert all(held.keeps(x, int(code), np.array([1e-6])) for x, code in zip(X, model.predict(X), strict=True))
