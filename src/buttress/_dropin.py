"""Parameters that scikit-learn's machines have and ours need not, taken so that one changed import is enough.

``verbose`` shows progress. ``random_state`` is kept and never read: a fit draws nothing, so every value gives the same
model. What else changes nothing is told once in a process, and what would need another objective is refused.
"""

from dataclasses import dataclass
from typing import Any

from buttress._checks import warn_user
from buttress._types import RandomStateLike

SHRINKING = "the solver decides by itself which rows to set aside, and the optimality gap holds either way."
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

    def _check_spelling(self) -> None:
        """Refuse another norm, and tell of what changes nothing."""
        if self.penalty != "l2":
            raise ValueError(f"Unsupported set of arguments: penalty={self.penalty!r}, loss={vars(self)['loss']!r}, "
                             f"dual={self.dual!r}. The norm is l2, with a proven optimum. For a sparse model use "
                             f"{type(self).__name__}(penalty='l1') of scikit-learn.")
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
