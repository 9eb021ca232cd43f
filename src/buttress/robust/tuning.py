"""Constants of the corrupted-data fits, chosen by trial: design, mixture, entries.

Those of the algorithms below lie beside them: ``solvers.contamination.tuning`` and ``solvers.ridge.tuning``.
"""

from dataclasses import dataclass

import numpy as np

from buttress._checks import Array
from buttress._tuned import THEORY, UNBEATEN, tuned
from buttress.solvers.ridge.tuning import SCALE


@dataclass(frozen=True)
class Designs:
    """From a kernel and rows to features."""

    exact_rows: int = tuned(3000, "rows", "up to these fits are exact", "n^3: 9 times a solve on the landmarks")
    landmarks: int = tuned(1000, "landmarks", "of more rows", f"the memory of a million rows, {SCALE}")
    widths: tuple[float, ...] = tuned((1.0, 0.3, 0.1, 0.03), "1/d", "gammas that the default averages", UNBEATEN)
    mostly_zero: float = tuned(0.15, "share of entries", "below which the length of rows stands for d",
                               "`tests/test_robust_sparse.py`: counts of words fill .03, pixels of digits .51")
    short: float = tuned(1 / 3, "of d", "squared length of an ordinary row below which it stands for d",
                         "`benchmarks/robust_trial.py --sets choosing`, cancer: .5 to 1.2; pixels in [0, 1]: .1 to .24")
    coarse: int = tuned(100, "landmarks", "of the search", UNBEATEN)
    searched: int = tuned(1000, "rows", "of the search on landmark features", UNBEATEN)
    isolated: float = tuned(0.02, "of an ordinary row's cosines", "with less a row resembles no other",
                            "`benchmarks/robust.py labels`, splits below 20 of heart, cancer and digits")


@dataclass(frozen=True)
class Mixtures:
    """The mixture of good and corrupt rows, and ridges."""

    degrees: float = tuned(8.0, "degrees of freedom", "of good residuals",
                           "errors: half +3 %, double -1 %, `benchmarks/constants.py`")
    degrees_of_many: float = tuned(3.0, "degrees of freedom", "of what landmarks cannot follow", SCALE)
    rounds: int = tuned(1, "EM rounds", "of the law between two exact fits", f"{THEORY}: EM")
    rounds_of_many: int = tuned(6, "EM rounds", "between two fits on landmark features, which are expensive", UNBEATEN)
    bounded_at: float = tuned(4.0, "deviations", "error beyond which a row counts no more for the ridge", UNBEATEN)
    least_scale: float = tuned(1e-6, "spread of the targets", "least scale of a residual", "the precision of float32")
    reread: float = tuned(0.05, "of the rows", "corrupt, by which a law with a shape must differ to be taken",
                          "Concrete of table 1 at 20%, long tail of `benchmarks/trial_sets.py`")

    @property
    def ridges(self) -> Array:
        """The ridges tried, in units of k(x, x), of labels in those of the variance of the features."""
        return np.geomspace(1e-2, 1e2, 12)

    @property
    def logistic(self) -> Array:
        """The ridges of logistic regression, from large to small, in units of k(x, x)."""
        return np.geomspace(1.0, 1e-3, 4)


@dataclass(frozen=True)
class Entries:
    """Entries of X out of line with the others of their row."""

    bound: float = tuned(4.0, "deviations", "that an entry counts for where others are predicted", UNBEATEN)
    degrees: tuple[float, ...] = tuned((1.0, 2.0, 4.0, 8.0, 30.0), "degrees of freedom", "Student's laws", UNBEATEN)
    level: float = tuned(0.05, "p-value", "of a row from which it is ordinary", THEORY)


DESIGN = Designs()
MIXTURE = Mixtures()
ENTRIES = Entries()
