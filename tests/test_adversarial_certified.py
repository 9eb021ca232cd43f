"""Training on the certificate: a conic solver, the linear machine it starts from, grids of moves, and attacks."""

import numpy as np
import pytest
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from buttress import AdversarialLinearSVC, CertifiedSVC, attacks, certificates, explain
from buttress.adversarial.certified import regions_of
from buttress.expansion import KernelExpansion, binary_contrasts
from buttress.kernels import RBF, Cauchy, Laplacian
from buttress.threats import BallInBox, region_of

from problems import breast_cancer, iris, moons, points

SQUARE = np.stack(np.meshgrid(*[np.linspace(-1, 1, 21)] * 2), axis=-1).reshape(-1, 2)
DISC = SQUARE[np.linalg.norm(SQUARE, axis=1) <= 1]


def certified(**options):
    return CertifiedSVC(**{"random_state": 0, **options})


def test_objective_is_that_of_a_conic_solver():
    cp = pytest.importorskip("cvxpy")
    X, codes = moons(12)
    C, eps, kernel = 2.0, 0.15, RBF(1.0)
    model = certified(C=C, eps=eps, gamma=1.0, n_landmarks=8, max_iter=500).fit(X, codes)
    Z, y = model.landmarks_, 2 * codes - 1
    lines = regions_of(kernel, X, Z, BallInBox(eps, "linf", None), binary_contrasts()[codes])
    p, q, w, b, L = cp.Variable(8, nonneg=True), cp.Variable(8, nonneg=True), cp.Variable(2), cp.Variable(), []
    for i, sign in enumerate(y):
        plus, minus = (p, q) if sign > 0 else (q, p)
        bend = lines.below_slope[i] @ plus - lines.above_slope[i] @ minus
        away = X[i] - Z
        slope = 2 * ((lines.below_slope[i][:, None] * away).T @ plus - (lines.above_slope[i][:, None] * away).T @ minus)
        slope = slope + sign * w
        least = [cp.min(cp.hstack([slope[j] * d + bend * d**2 for d in eps * np.linspace(-1, 1, 9)])) for j in range(2)]
        const = lines.below_value[i] @ plus - lines.above_value[i] @ minus + sign * (X[i] @ w + b)
        L.append(const + least[0] + least[1])
    root = np.linalg.cholesky(kernel(Z, Z) + 1e-12 * np.eye(8))
    norm = cp.sum_squares(root.T @ (p - q)) + cp.sum_squares(w)
    problem = cp.Problem(cp.Minimize(0.5 * norm + C * cp.sum(cp.pos(1 - cp.hstack(L)))))
    problem.solve(solver=cp.CLARABEL)
    ours = min(step["objective"] for step in model.history_) * C * len(X)
    assert problem.value * (1 - 1e-6) <= ours <= 1.01 * problem.value


def test_training_starts_at_the_exact_linear_machine():
    X, y = breast_cancer()
    linear = AdversarialLinearSVC(C=0.5, eps=0.3).fit(X, y)
    model = certified(C=0.5, eps=0.3, max_iter=10, n_landmarks=20).fit(X, y)
    assert model.history_[0]["objective"] * 0.5 * len(X) == pytest.approx(linear.primal_objective_, rel=1e-3)
    assert min(step["objective"] for step in model.history_) <= model.history_[0]["objective"]


@pytest.mark.parametrize("kernel", [RBF(1.0), Laplacian(1.0), Cauchy(1.0)], ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize(("norm", "moves"), [("linf", SQUARE), ("l2", DISC)])
@pytest.mark.parametrize("three", [False, True])
def test_certified_hinge_is_at_least_the_attacked_one(kernel, norm, moves, three):
    """At every point of a grid over each ball, the lead is no less than the bound that training was on."""
    X, y = moons(40)
    y = y + 2 * (X[:, 0] > 1.2) * (y == 1) if three else y
    eps = 0.2
    model = certified(C=5.0, eps=eps, norm=norm, kernel=kernel, max_iter=60).fit(X, y)
    codes = np.searchsorted(model.classes_, y)
    scores = model.expansion_((X[:, None] + eps * moves).reshape(-1, 2)).reshape(len(X), len(moves), -1)
    leads = np.einsum("irk,igk->igr", model.contrasts_[codes], scores).min(axis=(1, 2))
    bound = model.certified_margin_
    assert (leads >= bound - 1e-9).all()
    assert np.maximum(0, 1 - bound).sum() >= np.maximum(0, 1 - leads).sum()
    proven = certificates.certified_within(model, X, eps=eps, norm=norm)
    assert proven[bound > 1e-9].all()
    assert np.median(leads - bound) < 0.5  # it is a bound worth having


def test_what_is_certified_withstands_attacks_and_beats_what_is_untrained():
    X, y = breast_cancer()
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    model = certified(eps=0.3, gamma=0.03, n_landmarks=100, max_iter=100).fit(X, y)
    right = model.predict(X_test) == y_test
    proven = right & certificates.certified_within(model, X_test, eps=0.3)
    info = attacks.worst_case(model, X_test, y_test, eps=0.3, steps=20, restarts=2, random_state=0, return_info=True)[1]
    assert not (proven & info.success).any()
    assert proven.mean() > 0.97 * (1 - info.success.mean())
    assert proven.mean() > 0.8


def test_three_classes_and_probabilities():
    X, y = iris()
    model = certified(eps=0.1, gamma=0.3, max_iter=100).fit(X, y)
    assert model.score(X, y) > 0.9
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(proba.argmax(axis=1), np.searchsorted(model.classes_, model.predict(X)))


def test_a_box_leaves_attackers_less():
    X, y = moons(60)
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    free, boxed = (regions_of(RBF(2.0), X, X[:10], region_of(0.1, "linf", bounds, None, X, X), binary_contrasts()[y])
                   for bounds in (None, (0, 1)))
    assert (boxed.half <= free.half * (1 + 1e-9)).all()
    assert (boxed.half < 0.9 * free.half).any()
    model = certified(eps=0.1, gamma=2.0, max_iter=30, bounds=(0, 1)).fit(X, y)
    proven = certificates.certified_within(model, X, eps=0.1, bounds=(0, 1))
    assert proven[model.certified_margin_ > 1e-9].all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "poly"}, "needs lines below its kernel's values"),
        ({"bounds": (0, 1)}, "bounds exclude the data"),
    ],
)
def test_what_cannot_be_certified_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        certified(**options).fit(*moons(20))


def test_rows_that_cannot_be_written_are_certified():
    X, y = moons(20)
    X.flags.writeable = False
    model = certified(max_iter=10).fit(X, y)
    assert certificates.certified_within(model, X, eps=0.01, max_parts=100).any()


def with_linear_part(kernel):
    """A machine of two classes whose expansion is set by hand."""
    X, y = moons(20)
    model = certified(max_iter=10).fit(X, y)
    model.expansion_ = KernelExpansion(kernel, points(12, 2), points(12, 1, seed=1), np.array([0.2]),
                                       0.7 * points(2, 1, seed=2))
    return model


@pytest.mark.parametrize("kernel", [RBF(0.3), Laplacian(0.4)], ids=lambda kernel: type(kernel).__name__)
def test_a_linear_part_is_scored_attacked_certified_and_explained(kernel):
    model = with_linear_part(kernel)
    X = 2 * points(60, 2, seed=3)
    score, h = model.decision_function, 1e-6
    slopes = model.expansion_.gradient(X, np.ones((60, 1)))
    for j in range(2):
        step = h * np.eye(2)[j]
        np.testing.assert_allclose(slopes[:, j], (score(X + step) - score(X - step)) / (2 * h), atol=1e-6)
    labels = model.predict(X)
    radius = certificates.certified_radius(model, X)
    for norm, moves in (("linf", SQUARE), ("l2", DISC)):
        reach = np.minimum(getattr(radius, norm), 1e3) * (1 - 1e-9)
        moved = (X[:, None] + reach[:, None, None] * moves).reshape(-1, 2)
        np.testing.assert_array_equal(model.predict(moved), np.repeat(labels, len(moves)))
    near = attacks.carlini_wagner(model, X, labels, return_info=True)[1].distance
    assert (radius.l2 <= near * (1 + 1e-9)).all()
    assert np.median(radius.l2 / near) > 0.5
    seen = attacks.zoo(model, X[:10], labels[:10], steps=60, random_state=0, return_info=True)[1]
    assert np.median(seen.distance / near[:10]) < 1.05
    why = explain(model, X[0])
    assert why.contribution.sum() + why.intercept == pytest.approx(why.score)


def test_columns_without_weight_leave_the_scores_of_rows_left_out_as_refits_give_them():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(620, 30))
    y = (X[:, :3].sum(axis=1) + 0.5 * rng.normal(size=620) > 0).astype(int)
    model = certified(eps=0.3, max_iter=100).fit(X[:120], y[:120])
    rows = np.arange(0, 120, 10)
    refits = [certified(eps=0.3, max_iter=100).fit(np.delete(X[:120], i, axis=0), np.delete(y[:120], i)) for i in rows]
    left_out = [refit.decision_function(X[i : i + 1])[0] for i, refit in zip(rows, refits, strict=True)]
    scores = model._held_out().scores[:, 0]
    assert np.median(np.abs(scores[rows] - left_out)) < 0.1 * np.std(scores)
    assert log_loss(y[120:], model.predict_proba(X[120:])) < 0.5  # 0.69 says nothing
