"""Steps of algorithms, and algorithms that can be restarted from the memory of any of their steps."""

import functools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ParamSpec

from buttress.checkpoints.journal import Memory

Steps = Generator["Step", None, None]
P = ParamSpec("P")


@dataclass(frozen=True)
class Step:
    """One state of an algorithm.

    Parameters
    ----------
    state : object
        What the model is made of. It is kept, so it must not be changed in place afterwards.
    objective : float
        What is minimised; the state with the least is the best.
    gap : float or None
        The duality gap, as a share of the objective, where the algorithm bounds the optimum. At most ``tol`` means
        converged.
    violation : float or None
        By how much the conditions of optimality are violated, for algorithms that know that: the largest KKT violation,
        or the norm of the gradient as a share of the first one. At most ``tol`` means converged.
    change : float or None
        How much the last iteration changed, for algorithms that can tell no more. At most ``tol`` means converged.
    done : bool
        Whether the algorithm has nothing left to do: a fixed point, or the end of a plan.
    iterations : int
        How many iterations led from the last step to this one.
    shown : str
        What the progress line says of it in place of gap and objective.
    memory : function or None
        Returns what the algorithm needs to yield this step again and go on from it; called before the next step, and
        what it returns must not be changed in place afterwards. See :func:`restartable`.
    """

    state: Any
    objective: float
    gap: float | None = None
    violation: float | None = None
    change: float | None = None
    done: bool = False
    iterations: int = 1
    shown: str = ""
    memory: Callable[[], Memory] | None = None

    def converged(self, tol: float) -> bool:
        """Say whether the algorithm is done, or within ``tol`` by its own measure."""
        return self.done or any(measure <= tol for measure in self.measures.values())

    @property
    def measures(self) -> dict[str, float]:
        """The measures that the algorithm has, by name."""
        named = {"gap": self.gap, "violation": self.violation, "change": self.change}
        return {name: value for name, value in named.items() if value is not None}

    def measured(self) -> str:
        """Return the measures as text, such as ``"gap 0.02"``."""
        return ", ".join(f"{name} {value:.3g}" for name, value in self.measures.items())


class Restartable(Generator["Step", None, None]):
    """The steps of an algorithm, which can be taken up again from the memory of any of them."""

    def __init__(self, make: Callable[[Memory | None], Steps]):
        self._make = make
        self._steps = make(None)

    def restart(self, memory: Memory) -> None:
        """Yield the step of this memory next, and then those that follow it."""
        self._steps.close()
        self._steps = self._make(memory)

    def send(self, value: None, /) -> "Step":
        return self._steps.send(value)

    def throw(
        self, kind: Any, value: BaseException | object = None, traceback: TracebackType | None = None, /
    ) -> "Step":
        return self._steps.throw(kind, value, traceback)

    def close(self) -> None:
        self._steps.close()


def restartable(algorithm: Callable[P, Steps]) -> Callable[P, Restartable]:
    """Decorate an algorithm whose steps carry a memory and that takes one as its keyword argument ``memory``.

    Given the memory of a step, it yields that step again and goes on as it did then, to the bit: its random generator
    and whatever else it changes are part of it.
    """

    @functools.wraps(algorithm)
    def made(*args: P.args, **kwargs: P.kwargs) -> Restartable:
        def start(memory: Memory | None) -> Steps:
            if memory is not None:
                kwargs["memory"] = memory
            return algorithm(*args, **kwargs)

        return Restartable(start)

    return made
