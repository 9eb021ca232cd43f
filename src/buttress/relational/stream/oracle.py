"""The grid oracle over rows in files, from which a fit draws its sample, too."""

import numpy as np
from numpy.random import RandomState
from sklearn.utils import check_random_state

from buttress._checks import Array
from buttress.relational.counting.grid import GridOracle
from buttress.relational.stream.sampling import draw
from buttress.relational.stream.store import Store


class StreamedOracle(GridOracle):
    """Evaluate the mean loss over the rows of a join whose nodes lie in files.

    An int as ``random_state`` draws the same rows each time; the rest as for GridOracle.
    """

    def __init__(self, store: Store, width: int, total: float, memory: float,
                 random_state: RandomState | int | None = None):
        super().__init__(store.nodes, width, total, memory)
        self.store = store
        self.random_state = random_state

    def sample(self, n: int) -> tuple[Array, Array, Array]:
        """Return n rows drawn by weight: scaled features (n, width), labels -1/+1, and ones."""
        X, y = draw(self.store.nodes, self.width, n, check_random_state(self.random_state))
        return X, y, np.ones(n)
