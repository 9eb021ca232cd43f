"""Constants of the corrupted-data fits, chosen by trial: design, search, mixture, linear fit, relabelling.

Those of the algorithms below lie beside them: ``solvers.contamination.tuning`` and ``solvers.ridge.tuning``.
"""

from dataclasses import dataclass

import numpy as np

from buttress._checks import Array
from buttress._tuned import tuned
from buttress.solvers.contamination.tuning import LABEL_RUNS, THEORY
from buttress.solvers.ridge.tuning import SCALE


@dataclass(frozen=True)
class Designs:
    """From a kernel and rows to features."""

    exact_rows: int = tuned(3000, "rows", "up to these fits are exact", "the cost of n^3; command not recorded")
    landmarks: int = tuned(1000, "landmarks", "of more rows")
    widths: tuple[float, ...] = tuned((1.0, 0.3, 0.1, 0.03), "1/d", "gammas whose kernels the default averages")
    mostly_zero: float = tuned(0.15, "share of entries", "below which the length of rows stands for d",
                               "counts of words against scaled tables; sets not recorded")
    short: float = tuned(1 / 3, "of d", "squared length of an ordinary row below which it stands for d",
                         "scaled tables have .5 to 1.2 (cancer, digits / 4, "
                         "`benchmarks/robust_trial.py --sets choosing`), pixels in [0, 1] .1 to .24")
    coarse: int = tuned(100, "landmarks", "of the search")
    searched: int = tuned(1000, "rows", "of the search on landmark features")
    full_rank: float = tuned(0.6, "rank / n", "beyond which the Gram matrix is solved itself",
                             "cost; command not recorded")
    isolated: float = tuned(0.02, "of an ordinary row's cosines", "with less a row resembles no other", LABEL_RUNS)
    isolated_least: float = tuned(1e-6, "sum of cosines", "the same, where no row is ordinary")
    indefinite: float = tuned(1e-5, "of the largest entry, times n", "residual that shows an indefinite matrix")


@dataclass(frozen=True)
class Search:
    """Concentration from several starts on coarse features."""

    central_part: int = tuned(4, "rows a row kept", "one in so many, nearest the centre, is a start")
    random_part: int = tuned(10, "rows a row kept", "one in so many, at random, is a start")
    random_least: int = tuned(5, "rows", "least size of a random start")
    lower_quantile: float = tuned(0.2, "quantile of y", "given x, near which a start lies; another near 1 less it")
    quantile_rounds: int = tuned(20, "rounds", "of reweighting towards it")
    smoothed: float = tuned(0.1, "of the median residual", "below which residuals weigh alike for it")
    steps: int = tuned(10, "steps", "most concentration steps from a start")
    mixture_steps: int = tuned(12, "fits", "most of the mixture from a start")


@dataclass(frozen=True)
class Mixtures:
    """The mixture of good and corrupt rows, and the ridge of kernel regression."""

    least_ridge: float = tuned(1e-2, "k(x, x)", "smallest ridge tried")
    most_ridge: float = tuned(1e2, "k(x, x)", "largest ridge tried")
    ridges_tried: int = tuned(12, "values", "of the ridge, evenly by logarithm")
    degrees: float = tuned(8.0, "degrees of freedom", "of good residuals")
    degrees_of_many: float = tuned(3.0, "degrees of freedom", "of what landmarks cannot follow", SCALE)
    rounds: int = tuned(1, "EM rounds", "of the law between two exact fits: more settle it too early")
    rounds_of_many: int = tuned(6, "EM rounds", "between two fits on landmark features, which are expensive")
    settled_of_many: float = tuned(0.1, "nats a row", "change that ends the mixture fit of many rows")
    bounded_at: float = tuned(4.0, "deviations", "error beyond which a row counts no more for the ridge")
    least_scale: float = tuned(1e-6, "spread of the targets", "least scale of a residual")
    reread: float = tuned(0.05, "of the rows", "corrupt, by which a law with a shape must differ to be taken",
                          "Concrete of table 1 at 20%, long tail of `benchmarks/trial_sets.py`")

    @property
    def ridges(self) -> Array:
        """The ridges tried, in units of k(x, x)."""
        return np.geomspace(self.least_ridge, self.most_ridge, self.ridges_tried)


@dataclass(frozen=True)
class LinearFits:
    """Least trimmed squares, then Tukey's loss, then reweighting."""

    far: float = tuned(1e8, "widths of a column", "beyond which an entry counts as so far", THEORY)
    gain: float = tuned(0.01, "nats a row", "that another reweighting must gain")
    random_below: int = tuned(50, "columns", "below which random starts are made")
    beyond_columns: int = tuned(2, "rows", "of a random start beyond the columns")
    absolute_rounds: int = tuned(30, "rounds", "towards least absolute deviations")
    least_deviation: float = tuned(1e-3, "spread of the targets", "a smaller deviation is weighted as this")
    descent_steps: int = tuned(100, "steps", "of the trimmed descent")
    steps: int = tuned(30, "steps", "most concentration steps from a start")
    most_spent: float = tuned(0.5, "of the trusted rows", "most degrees of freedom that the scale is corrected for")
    settled: float = tuned(1e-4, "scales", "change that ends the descent of Tukey's loss")


@dataclass(frozen=True)
class Relabelling:
    """Fits to the likeliest labels, exact or on landmark features."""

    least_ridge: float = tuned(0.01, "variance of features", "smallest ridge tried", LABEL_RUNS)
    most_ridge: float = tuned(100.0, "variance of features", "largest: more smooths small classes away", LABEL_RUNS)
    ridges_tried: int = tuned(12, "values", "of the ridge, evenly by logarithm")
    first_logistic: float = tuned(1.0, "k(x, x)", "largest ridge of logistic regression")
    last_logistic: float = tuned(1e-3, "k(x, x)", "smallest ridge of logistic regression")
    logistic_ridges: int = tuned(4, "values", "of that ridge, evenly by logarithm")
    smooth: float = tuned(25.0, "variance of features", "ridge while rows are chosen: wrong labels must not be fitted",
                          LABEL_RUNS)
    rounds: int = tuned(3, "fits", "to the likeliest labels; after more the fit trusts itself more than labels",
                       LABEL_RUNS)
    fewest: int = tuned(4, "rows", "from which labels are trimmed: of two each is predicted by the other alone")
    slight: float = tuned(0.02, "share of labels", "estimated rate up to which nothing is trimmed", LABEL_RUNS)
    trims: tuple[float, ...] = tuned((1.0, 0.8, 0.6), "share of rows", "kept by the fits that vote", THEORY)
    trim_steps: int = tuned(3, "steps", "most of those fits")
    least_kept: float = tuned(0.5, "share of rows", "least that trimming keeps", THEORY)
    compared_from: int = tuned(1000, "rows", "from which the exact fit is compared with one on landmarks", LABEL_RUNS)
    compared_gain: float = tuned(6.0, "nats", "by which the one on landmarks must predict labels better")
    many_isolated: float = tuned(0.1, "share of rows", "isolated ones beyond which columns seem not to be scaled")

    @property
    def ridges(self) -> Array:
        """The ridges tried, in units of the variance of the features."""
        return np.geomspace(self.least_ridge, self.most_ridge, self.ridges_tried)

    @property
    def logistic(self) -> Array:
        """The ridges of logistic regression, from large to small, in units of k(x, x)."""
        return np.geomspace(self.first_logistic, self.last_logistic, self.logistic_ridges)


@dataclass(frozen=True)
class Entries:
    """Entries of X out of line with the others of their row."""

    bound: float = tuned(4.0, "deviations", "that an entry counts for where others are predicted from it")
    degrees: tuple[float, ...] = tuned((1.0, 2.0, 4.0, 8.0, 30.0), "degrees of freedom", "Student's laws tried")
    rounds: int = tuned(30, "EM rounds", "for the scale of a column")
    level: float = tuned(0.05, "p-value", "of a row from which it is ordinary", THEORY)
    most: int = tuned(3, "entries", "named of a row")
    candidates: int = tuned(8, "entries", "of a row whose replacement is tried")
    named: int = tuned(1000, "rows", "most whose entries are looked for: one after another")
    columns: int = tuned(1000, "columns", "beyond which the inverse of their covariance takes longer than a fit")


@dataclass(frozen=True)
class Misleading:
    """Genuine rows that look corrupt: when ``fit`` warns that those named may be such."""

    named: float = tuned(0.02, "share of rows", "named corrupt from which it is asked what they have in common",
                         "most that may be named on clean data in silence")
    fewest: int = tuned(10, "rows", "the same, for few rows: fewer have something in common by chance", THEORY)
    one_side: float = tuned(0.95, "share of the rows named", "on one side of what is expected from which all count so",
                            THEORY)


DESIGN = Designs()
SEARCH = Search()
MIXTURE = Mixtures()
LINEAR = LinearFits()
RELABEL = Relabelling()
ENTRIES = Entries()
MISLEADING = Misleading()
