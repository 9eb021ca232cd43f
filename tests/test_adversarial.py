"""Training against perturbed inputs: does it help under attack, and does it solve the problem it states?"""

import warnings
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from buttress import SVC, AdversarialClassifier, AdversarialSVC, CertifiedSVC, NotConvergedWarning, attacks
from buttress._arrays import NUMPY
from buttress.adversarial.machine import Losses, ScoredRows, _held_out
from buttress.adversarial.moved_inputs import attack_of
from buttress.certainty.left_out import Slopes
from buttress.expansion import rival_contrasts
from buttress.kernels import RBF, Cauchy, Laplacian, Radial
from buttress.kernels.points import centred
from buttress.solvers.gradient import worst_inputs
from buttress.solvers.run import SPENT

from problems import breast_cancer, iris, moons, points


def attacked_accuracy(model, X, y, eps, norm="linf"):
    """Accuracy on the worst inputs that 40 gradient steps from two starts find."""
    moved = attacks.pgd(model, X, y, eps=eps, norm=norm, restarts=2, random_state=0)
    return (model.predict(moved) == y).mean()


@pytest.mark.parametrize(
    ("problem", "eps", "norm"),
    [(lambda: moons(400, noise=0.1), 0.25, "linf"), (lambda: moons(400, noise=0.1), 0.3, "l2"),
     (breast_cancer, 0.4, "linf")],
    ids=["moons linf", "moons l2", "breast cancer linf"],
)
def test_trained_machine_withstands_more_than_the_natural_one(problem, eps, norm):
    X, y = problem()
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    natural = SVC(C=10.0).fit(X, y)
    robust = AdversarialSVC(C=10.0, eps=eps, norm=norm, random_state=0).fit(X, y)
    before, after = (attacked_accuracy(model, X_test, y_test, eps, norm) for model in (natural, robust))
    assert after > before + 0.03
    assert robust.score(X_test, y_test) > 0.85


@pytest.mark.parametrize(("norm", "eps"), [("linf", 0.2), ("l2", 0.2), ("linf", 0.0)])
def test_linear_kernel_reaches_the_optimum_of_the_closed_form(norm, eps):
    X = points(40, 2)
    y = np.where(X @ [1.0, 0.5] + 0.3 * points(40, 1, seed=1)[:, 0] > 0, 1, -1)
    C = 0.5
    dual = 1 if norm == "linf" else 2

    def value(w, b):
        return 0.5 * w @ w + C * np.logaddexp(0, eps * np.linalg.norm(w, dual) - y * (X @ w + b)).sum()

    best = min(minimize(lambda z: value(z[:2], z[2]), start, method="Nelder-Mead",
                        options={"maxiter": 5000, "xatol": 1e-9, "fatol": 1e-9}).fun
               for start in 2 * points(5, 3, seed=2))
    model = AdversarialSVC(C=C, eps=eps, norm=norm, kernel="linear", random_state=0).fit(X, y)
    w = model.expansion_.gradient(X[:1], np.ones((1, 1)))[0]
    b = model.decision_function(np.zeros((1, 2)))[0]
    assert value(w, b) <= 1.01 * best
    assert model.history_[-1]["objective"] * C * len(y) == pytest.approx(value(w, b), rel=0.01)


def test_reported_objective_is_the_loss_at_the_worst_point_of_a_grid():
    X, y = moons(30)
    eps = 0.2
    model = AdversarialSVC(C=2.0, eps=eps, gamma=1.0, attack_steps=20, random_state=0).fit(X, y)
    steps = np.linspace(-eps, eps, 41)
    square = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    f = model.decision_function((X[:, None] + square).reshape(-1, 2)).reshape(30, -1)
    signs = np.where(y == 1, 1, -1)
    loss = np.logaddexp(0, -(signs[:, None] * f).min(axis=1)).sum()
    expansion = model.expansion_
    coef = expansion.coef[:, 0]
    square_norm = coef @ expansion.kernel(expansion.centers, expansion.centers) @ coef
    reported = min(step["objective"] for step in model.history_) * 2.0 * 30
    assert reported == pytest.approx(0.5 * square_norm + 2.0 * loss, rel=0.02)


@pytest.mark.parametrize("C", [0.1, 1.0])
def test_a_fit_that_gives_up_is_told_and_never_chosen(C):
    """At this radius gradient steps end with one class for nearly all rows; the certified machine does not."""
    X, y = breast_cancer()
    options = {"gamma": 0.5, "C": C, "n_landmarks": 100, "max_iter": 100}
    with pytest.warns(UserWarning, match="no better on its training rows than the majority class"):
        AdversarialSVC(eps=0.6, random_state=0, **options).fit(X, y)
    chooser = AdversarialClassifier([AdversarialSVC(**options), CertifiedSVC(**options)], eps=0.6, random_state=0)
    model = chooser.fit(X, y).estimator_
    assert model.score(X, y) > 0.8
    assert (model.certified_margin_ > 0).mean() > 0.7


def test_one_step_to_the_scores_of_a_row_left_out_ends_near_the_refit():
    """Logistic regression, whose losses have known slopes, is refitted without each row."""
    X, y = moons(40)
    codes = (y > 0).astype(int)
    machine = LogisticRegression(C=0.5, tol=1e-10).fit(X, codes)
    scores = machine.decision_function(X)
    proba = machine.predict_proba(X)[:, 1]
    losses = [Losses(Slopes(proba - codes, proba * (1 - proba)), 0.5)]
    part = ScoredRows(X, codes, np.zeros((2, 1, 1)), *[None] * 5, row=np.arange(40), given=40)
    found = _held_out(part, scores[:, None], losses, X, np.zeros(40)).scores[:, 0]
    refits = [clone(machine).fit(np.delete(X, i, 0), np.delete(codes, i)).decision_function(X[[i]])[0]
              for i in range(40)]
    assert np.abs(found - refits).max() < 0.1 * np.abs(scores - refits).max()


def test_same_seed_same_model_and_other_seed_other_model():
    X, y = moons(150)
    first, same, other = (AdversarialSVC(n_landmarks=20, random_state=s).fit(X, y).decision_function(X)
                          for s in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_larger_radius_gives_lower_scores_on_clean_rows():
    X, y = moons(200, noise=0.1)
    signs = np.where(y == 1, 1, -1)
    losses = []
    for eps in (0.1, 0.2, 0.3):
        model = AdversarialSVC(C=10.0, eps=eps, gamma=1.0, random_state=0).fit(X, y)
        losses.append(np.maximum(0, 1 - signs * model.decision_function(X)).mean())
    assert losses == sorted(losses)


def test_three_classes_are_each_set_against_the_rest():
    X, y = iris()
    model = AdversarialSVC(eps=0.1, random_state=0).fit(X, y)
    scores = model.decision_function(X)
    np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))
    assert attacked_accuracy(model, X, y, 0.1) > 0.8


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"eps": -0.1}, "eps must be in .*radius in the units of X"),
        ({"eps": np.nan}, "eps must be in"),
        ({"norm": "l1"}, "norm must be one of 'linf', 'l2'"),
        ({"C": 0}, "C must be in"),
        ({"attack_steps": 0}, "attack_steps must be a whole number of at least 1"),
        ({"n_landmarks": 0}, "n_landmarks must be a whole number"),
        ({"n_landmarks": "all"}, "n_landmarks must be one of 'auto'"),
        ({"kernel": "sigmoid"}, "positive definite"),
        ({"kernel": "log"}, "positive definite"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_time": -1}, "max_time"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    X, y = moons(20)
    with pytest.raises(ValueError, match=message):
        clone(AdversarialSVC()).set_params(**parameters).fit(X, y)


@pytest.mark.filterwarnings("ignore::buttress.NotConvergedWarning")
@pytest.mark.parametrize(("limit", "told"), [({"max_time": 1e-3}, True), ({"max_iter": 20}, False)])
def test_a_time_limit_that_stops_training_is_told(limit, told):
    """A number of rounds is what training is, and no cause for alarm."""
    X, y = moons(60)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        AdversarialSVC(eps=0.1, random_state=0, **limit).fit(X, y)
    stopped = [w for w in caught if "adversarial training stopped at" in str(w.message)]
    assert len(stopped) == told


@pytest.mark.parametrize(
    ("kernel", "formula"),
    [(RBF(0.7), lambda s, r2: np.exp(-0.7 * s * r2)), (Cauchy(0.7), lambda s, r2: 1 / (1 + 0.7 * s * r2)),
     (Laplacian(0.7), lambda s, r2: np.exp(-0.7 * np.sqrt(s * r2)))],
    ids=["rbf", "cauchy", "laplacian"],
)
def test_the_gradient_of_training_is_that_of_its_objective(kernel, formula):
    """By differences in every parameter, at inputs that do not move: coefficients, intercepts, centres and stretch."""
    X, codes = points(12, 2), np.arange(12) % 3
    V, C = rival_contrasts(3)[codes], 3.0
    sizes, z = [(5, 3), (3,), (5, 2), (1,)], points(1, 29, seed=3)[0]

    def machine(z):
        return worst_inputs.StretchedMachine(z[:15].reshape(5, 3), z[15:18], z[18:28].reshape(5, 2), z[28:])

    def values(m, A):
        return formula(np.exp(m.stretch[0]), ((A[:, None] - m.centers) ** 2).sum(axis=2))

    def objective(z):
        m = machine(z)
        scores = values(m, X) @ m.coef + m.intercept
        square_norm = np.sum(m.coef * (values(m, m.centers) @ m.coef))
        return log_loss(codes, softmax(scores, axis=1), labels=[0, 1, 2]) + square_norm / (2 * C * 12)

    m = machine(z)
    at = centred(worst_inputs.kernel_of(kernel, m), m.centers)
    g = worst_inputs._gradient(kernel, at, X, V, m, 1 / (C * 12), np.arange(5))
    assert [part.shape for part in vars(g).values()] == sizes
    np.testing.assert_allclose(np.concatenate([part.ravel() for part in vars(g).values()]),
                               approx_fprime(z, objective, 1e-7), atol=1e-5)


def test_the_width_is_trained_with_the_rest():
    """It widens a kernel that is too narrow, to an objective that this kernel cannot reach, and narrows a wide one."""
    X, y = moons(60)

    def fitted(kernel):
        options = {"C": 10.0, "eps": 0.1, "n_landmarks": 10, "random_state": 0}
        return AdversarialSVC(kernel=kernel, **options).fit(X, y)

    def least(model):
        return min(step["objective"] for step in model.history_)

    class Fixed(Radial):
        """A kernel whose width is not trained, for it is not known to be one of a family."""

        gamma = 20.0
        definiteness = "pd"
        profile = RBF.profile
        slope = RBF.slope

    assert fitted(RBF(0.1)).expansion_.kernel.gamma > 0.1
    trained = fitted(RBF(20.0))
    assert trained.expansion_.kernel.gamma < 20.0
    assert least(trained) < least(fitted(Fixed()))


@pytest.mark.parametrize(("n_landmarks", "classes", "count"), [
    ("auto", 2, 300), ("auto", 10, 500), (None, 2, 600), (7, 2, 7), (700, 2, 600)])
def test_centres(n_landmarks, classes, count):
    X, y = points(600, 3), np.arange(600) % classes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # there is nothing to learn
        assert AdversarialSVC(n_landmarks=n_landmarks, max_iter=1).fit(X, y).landmarks_.shape == (count, 3)


def test_drawn_centres_give_the_gradient_of_the_norm_in_the_mean():
    """Over every pair of five centres, as each is drawn equally often."""
    X, codes = points(12, 2), np.arange(12) % 3
    V, z = rival_contrasts(3)[codes], points(1, 29, seed=3)[0]
    m = worst_inputs.StretchedMachine(z[:15].reshape(5, 3), z[15:18], z[18:28].reshape(5, 2), z[28:])
    at = centred(worst_inputs.kernel_of(RBF(0.7), m), m.centers)

    def gradient(drawn):
        g = worst_inputs._gradient(RBF(0.7), at, X, V, m, 0.3, np.array(drawn))
        return np.concatenate([part.ravel() for part in vars(g).values()])

    pairs = [gradient(pair) for pair in combinations(range(5), 2)]
    np.testing.assert_allclose(np.mean(pairs, axis=0), gradient(range(5)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_inputs_that_are_trained_on_stay_in_the_ball_and_the_box_and_cost_more(norm):
    X, y = moons(40)
    low, high = X.min(axis=0), X.max(axis=0)
    model = AdversarialSVC(eps=0.2, norm=norm, bounds=(low, high), gamma=1.0, max_iter=100,
                           random_state=0).fit(X, y)
    attack = attack_of(model, model._problem(X, y, model.random_state, model.device, model.bounds, None), NUMPY)
    f = model.expansion_
    machine = worst_inputs.StretchedMachine(f.coef, f.intercept, f.centers, np.zeros(1))
    moved = attack(centred(f.kernel, f.centers), machine, np.arange(40), 0.5)
    assert (np.linalg.norm(moved - X, np.inf if norm == "linf" else 2, axis=1) <= 0.1 + 1e-12).all()
    assert ((moved >= low) & (moved <= high)).all()
    signs = np.where(y == 1, 1, -1)
    assert (signs * model.decision_function(moved)).mean() < (signs * model.decision_function(X)).mean()


@pytest.mark.parametrize("machine", [AdversarialSVC, CertifiedSVC])
def test_a_fit_ends_within_a_step_when_its_time_is_up(machine, monkeypatch):
    """The clock says that the time is up while the third step is computed: the model is that of a step before."""
    calls = iter(range(10_000))
    monkeypatch.setattr("buttress.adversarial.machine.countdown",
                        lambda _: lambda: SPENT if next(calls) > 2 * worst_inputs.ITERATIONS else 60.0)
    X, y = moons(60)
    with pytest.warns(NotConvergedWarning, match="max_time"):
        model = machine(random_state=0, max_time=60.0).fit(X, y)
    assert 0 < len(model.history_) < 5
    assert model.score(X, y) > 0.5
