"""Parameters that scikit-learn's machines have and ours need not, taken so that one changed import is enough.

``verbose`` shows progress. ``random_state`` is kept and never read: a fit draws nothing, so every value gives the same
model. What else changes nothing is told once in a process, and what would need another objective is refused.
"""

from dataclasses import dataclass
from typing import Any

from buttress._checks import check_number, check_option, warn_user
from buttress._types import RandomStateLike

JOINT = "crammer_singer"
_told: set[tuple[str, str]] = set()


@dataclass(kw_only=True, eq=False, repr=False)
class Shrinking:
    """Of libsvm's machines."""

    shrinking: bool = True
    verbose: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class Seeded:
    """Of the machines that draw at random elsewhere."""

    _draws = False

    random_state: RandomStateLike = None


@dataclass(kw_only=True, eq=False, repr=False)
class Liblinear(Seeded):
    """Of liblinear's machines."""

    penalty: str = "l2"
    dual: bool | str = "auto"
    intercept_scaling: float = 1.0
    verbose: bool = False

    @property
    def _penalises(self) -> str:
        """The form whose intercept is penalised: the other norm, or all classes jointly; empty where it is not."""
        return "l1" if self.penalty == "l1" else JOINT if getattr(self, "multi_class", "") == JOINT else ""

    def _check_spelling(self) -> None:
        """Refuse sets of arguments that are no machine here, or none of scikit-learn's; tell of what has no effect."""
        check_option("penalty", self.penalty, ("l2", "l1"))
        several = getattr(self, "multi_class", None)
        if several is not None:
            check_option("multi_class", several, ("ovr", JOINT))
        loss = vars(self)["loss"]
        squared = loss.startswith("squared")
        sparse = self.penalty == "l1"
        known = squared and several == "ovr" and self.dual is not True if sparse else (
            not squared if several == JOINT else squared or self.dual is not False)
        if not known:
            raise ValueError(f"Unsupported set of arguments: penalty={self.penalty!r}, loss={loss!r}, "
                             f"dual={self.dual!r}, multi_class={several!r}. In scikit-learn dual=False "
                             "means a squared loss, which is not the default here: give it as loss=. penalty='l1' is "
                             "LinearSVC's, with loss='squared_hinge' and dual=False; multi_class='crammer_singer' has "
                             "the hinge.")
        check_number("intercept_scaling", self.intercept_scaling, 0)
        if not self._penalises:
            note_idle(self, dual="the optimum is the same, and both bounds of it are computed.",
                      intercept_scaling="the intercept is not penalised, so nothing has to make up for that.")


def note_idle(estimator: object, **why: str) -> None:
    """Tell, once a process and class, of each of these parameters that is set and changes nothing, and why not."""
    kind = type(estimator)
    for name, reason in why.items():
        value: Any = getattr(estimator, name)
        if value != getattr(kind, name) and (kind.__name__, name) not in _told:
            _told.add((kind.__name__, name))
            warn_user(f"{kind.__name__}({name}={value!r}) gives the same model as without it: {reason}")
