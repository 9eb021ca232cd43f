"""Who is audited: a plain machine and the robust ones, by task. Later estimators join with :func:`register`."""

from collections.abc import Callable

from sklearn.base import clone

from buttress._types import Predictor, Supervised
from buttress.adversarial import AdversarialClassifier, AdversarialLinearSVC, AdversarialSVC, CertifiedSVC
from buttress.risks import Mean, Subquantile
from buttress.robust import KernelClassifier, KernelRegressor, RobustKernelClassifier, RobustKernelRegressor
from buttress.svm import SVC

Factory = Callable[[float, int], Supervised]  # (eps, seed) -> unfitted estimator

# of the machines trained against moved inputs, half and a third of their defaults, for the time of an audit
LANDMARKS = 150
ITERATIONS = 100

_CONTENDERS: dict[str, dict[str, Factory]] = {  # the plain one first
    "classification": {
        "plain SVC": lambda eps, seed: SVC(),
        "adversarial linear SVC": lambda eps, seed: AdversarialLinearSVC(eps=eps),
        "certified SVC": lambda eps, seed: CertifiedSVC(
            eps=eps, n_landmarks=LANDMARKS, max_iter=ITERATIONS, random_state=seed),
        "adversarial SVC": lambda eps, seed: AdversarialClassifier(
            [CertifiedSVC(n_landmarks=LANDMARKS, max_iter=ITERATIONS),
             AdversarialSVC(n_landmarks=LANDMARKS, max_iter=ITERATIONS)], eps=eps, random_state=seed),
        "subquantile, class-balanced": lambda eps, seed: KernelClassifier(risk=Subquantile(0.7), alpha=1.0),
        "robust, contamination unknown": lambda eps, seed: RobustKernelClassifier(random_state=seed),
    },
    "regression": {
        "plain kernel ridge": lambda eps, seed: KernelRegressor(risk=Mean()),
        "subquantile": lambda eps, seed: KernelRegressor(risk=Subquantile(0.7)),
        "robust, contamination unknown": lambda eps, seed: RobustKernelRegressor(random_state=seed),
    },
}


def register(task: str, name: str, factory: Factory) -> None:
    """Add a row to every audit of ``task``; ``factory(eps, seed)`` makes the estimator for prepared features."""
    _CONTENDERS[task][name] = factory


def contenders(task: str, eps: float, seed: int) -> dict[str, Supervised]:
    """Return the unfitted estimators of ``task`` by name, the plain one first."""
    return {name: factory(eps, seed) for name, factory in _CONTENDERS[task].items()}


def settled(estimator: Supervised, model: Predictor) -> Supervised:
    """Return the machine that a fit of the chooser chose, to fit it again; any other estimator as it is.

    The choice takes two fits and two attacks; to make it anew for each share of corrupt targets would take most of an
    audit.
    """
    if not isinstance(model, AdversarialClassifier):
        return estimator
    return clone(model.estimator_).set_params(max_time=None)
