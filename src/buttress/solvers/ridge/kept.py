"""A ridge solver whose fits, or calls that make many of them, are kept in the checkpoint of the estimator's fit."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.checkpoints.journal import current_journal, follow, kept
from buttress.checkpoints.memory import Memory
from buttress.solvers.ridge.leave_one_out import Fit, Ridge


class KeptRidge:
    """The fits of another solver; those that the checkpoint holds are not computed again."""

    def __init__(self, ridge: Ridge):
        self.ridge = ridge
        follow(ridge)

    @property
    def missed(self) -> Array | None:
        """That of the solver."""
        return self.ridge.missed

    def __len__(self) -> int:
        return len(self.ridge)

    def solve(self, y: Array, u: Array, alpha: float) -> Fit:
        """Return the solver's fit to y, (n,) or (n, k), with row weights u (n,)."""
        return Fit(**kept(["solve", y, u, alpha], lambda: vars(self.ridge.solve(y, u, alpha))))

    def path(self, y: Array, u: Array, alphas: Array, rows: NDArray[np.intp]) -> Iterator[Fit]:
        """Yield the solver's fits for each alpha, u fixed, seen at ``rows``."""
        made: list[Iterator[Fit]] = []

        def computed(k: int) -> Memory:
            if not made:
                made.append(islice(self.ridge.path(y, u, alphas, rows), k, None))
            return vars(next(made[0]))

        for k, alpha in enumerate(alphas):
            yield Fit(**kept(["path", y, u, alpha, rows], partial(computed, k)))

    def memory(self) -> Memory:
        """Return what solving changes in the solver."""
        return self.ridge.memory()

    def recall(self, memory: Memory) -> None:
        """Have the solver go on from what ``memory`` returned."""
        self.ridge.recall(memory)


def kept_ridge(ridge: Ridge) -> Ridge:
    """Return the solver, or one that keeps its fits where the fit that is going on has a checkpoint."""
    return ridge if current_journal() is None else KeptRidge(ridge)


def kept_with(ridge: Ridge, question: object, compute: Callable[[], Memory]) -> Memory:
    """Return ``compute()``, or what the checkpoint of the fit keeps of it; the solver is then as that left it."""

    def computed() -> Memory:
        found = compute()
        return {"found": found, "ridge": ridge.memory()}

    answer = kept(question, computed)
    ridge.recall(answer["ridge"])
    found: Memory = answer["found"]
    return found
