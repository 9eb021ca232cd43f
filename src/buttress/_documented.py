"""Where an estimator is documented: the link of its picture in a notebook, and keywords that other packages have."""

import functools
from collections.abc import Callable
from importlib import metadata
from typing import Any, TypeVar

T = TypeVar("T")


@functools.cache
def site() -> str:
    """Return the address of the documentation that the installed package names, empty if it names none."""
    try:
        urls = metadata.metadata("buttress").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return ""
    named = dict(url.split(", ", 1) for url in urls)
    return str(named.get("Documentation", "")).rstrip("/")


class Documented:
    """The "?" of the HTML picture of an estimator opens its page of our reference."""

    _doc_link_module = "buttress"

    @property
    def _doc_link_template(self) -> str:
        place = "buttress.relational" if type(self).__name__ == "EntityFeatures" else "buttress"
        return f"{site()}/reference/generated/{place}.{{estimator_name}}.html" if site() else ""


def advises(**advice: str) -> Callable[[type[T]], type[T]]:
    """Decorate a class: a keyword that scikit-learn's has, and ours lacks, raises a TypeError with the advice."""

    def decorate(made: type[T]) -> type[T]:
        of_class: Any = made
        init = of_class.__init__

        @functools.wraps(init)
        def checked(self: object, *args: Any, **kwargs: Any) -> None:
            for name in advice:
                if name in kwargs:
                    raise TypeError(f"{type(self).__name__} has no parameter {name!r}. {advice[name]}")
            init(self, *args, **kwargs)

        of_class.__init__ = checked
        return made

    return decorate


_ELSEWHERE = {
    "probability": "Remove it: predict_proba is always there, and agrees with predict.",
    "shrinking": "Remove it: the solver decides by itself, and the optimality gap of the fit holds either way.",
    "verbose": "Use progress=True for a progress bar, or a callback of scikit-learn.",
}
_ATTACKED = {
    "class_weight": "Remove it: rows are weighed alike; repeat those of a class to weigh it.",
    **_ELSEWHERE,
    "defense": "Each defence is an estimator: AdversarialSVC ('input'), CertifiedSVC ('certified'), AdvSVM ('rkhs'), "
               "and AdversarialClassifier, which chooses ('auto').",
    "tune": "Use AdversarialClassifier(tune='attacked'), or attacks.tuned.",
    "degree": "Give a kernel object, such as kernels.Polynomial(degree, gamma, coef0).",
    "coef0": "Give a kernel object, such as kernels.Polynomial(degree, gamma, coef0).",
}
_OF_STEPS = {
    "solver": "AdvSVM is exact, StochasticAdvSVM takes doubly stochastic steps.",
    **dict.fromkeys(("step", "step_size", "n_features", "batch_size", "n_passes"), "It is one of StochasticAdvSVM."),
}
_OF_INPUTS = {"n_landmarks": "It is one of AdversarialSVC and CertifiedSVC.",
              "bounds": "Features are moved, not inputs. It is one of AdversarialSVC and CertifiedSVC.",
              "attack_steps": "It is one of AdversarialSVC."}
_PLANE = {
    "class_weight": "Give sample_weight to fit instead.",
    "attack": "AdversarialLinearSVC is trained against a ball, FreeRangeSVC against a free range.",
    **_ELSEWHERE,
}
ADVICE = {
    "AdvSVM": {**_ATTACKED, **_OF_INPUTS, **_OF_STEPS, "device": "It is one of StochasticAdvSVM.",
               "random_state": "Remove it: nothing in this fit is drawn at random."},
    "StochasticAdvSVM": {**_ATTACKED, **_OF_INPUTS, "solver": _OF_STEPS["solver"],
                         "tol": "Remove it: training ends after n_passes."},
    "AdversarialSVC": {**_ATTACKED, **_OF_STEPS, "tol": "Remove it: training ends after max_iter iterations.",
                       "fit_intercept": "It is one of AdvSVM, the machine against a ball in feature space."},
    "AdversarialLinearSVC": {**_PLANE, **dict.fromkeys(("C_f", "attacked_class", "bounds"),
                                                       "It is one of FreeRangeSVC.")},
    "FreeRangeSVC": {**_PLANE, **dict.fromkeys(("norm", "eps"), "It is one of AdversarialLinearSVC.")},
    "LinearSVC": dict.fromkeys(("schedule", "eta0", "decay", "average"), "It is one of StochasticLinearSVC."),
    "StochasticLinearSVC": {
        "dual": "Remove it: steps are taken in the primal.",
        "intercept_scaling": "Remove it: the intercept is not penalised.",
        "multi_class": "Remove it: many classes are one problem a class.",
        "penalty": "Remove it: the norm is l2. For a sparse model use LinearSVC(penalty='l1', loss='squared_hinge').",
        "solver": "It is one of LinearSVC.",
        "verbose": _ELSEWHERE["verbose"],
    },
}
ADVICE["CertifiedSVC"] = {**ADVICE["AdversarialSVC"], "attack_steps": _OF_INPUTS["attack_steps"]}
ADVICE["AdversarialClassifier"] = {
    **ADVICE["CertifiedSVC"],
    **dict.fromkeys(("C", "gamma", "kernel", "n_landmarks", "max_iter", "device"),
                    "Give it to the candidates, as in candidates=[CertifiedSVC(...), AdversarialSVC(...)]."),
}
ADVICE["AdversarialClassifier"].pop("tune")
