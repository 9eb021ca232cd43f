"""Constants of fits among corrupt rows, chosen by trial: trimming, the laws of residuals and labels, the guard."""

from dataclasses import dataclass

import numpy as np

from buttress._checks import Array
from buttress._tuned import THEORY, UNBEATEN, tuned

COVERED = "tried on the choosing sets of `benchmarks/robust_trial.py`, all corruptions but tails and border"


@dataclass(frozen=True)
class Trimming:
    """Searches from several starts, Tukey's loss, and targets that repeat."""

    trusted: float = tuned(0.55, "share of rows", "kept by a concentration step: bears 45 per cent bad rows",
                           f"{THEORY}: little more than half")
    followed: int = tuned(3, "starts", "of best objective that go on", UNBEATEN)
    descended: int = tuned(5, "starts", "of an S estimate that go on by either scale", "`tests/test_textbook_lines.py`")
    alike: float = tuned(0.1, "share of rows", "taken otherwise as good by starts that are not the same",
                         "`tests/test_textbook_lines.py`")
    wide: int = tuned(50, "columns", "from which a few random rows are seldom all good", THEORY)
    good_within: float = tuned(2.5, "deviations", "residual up to which a start takes a row as good",
                               "the usual cut, Rousseeuw & Leroy 1987")
    tukey: float = tuned(4.685, "deviations", "where Tukey's loss becomes constant",
                         "set by theory: 95 per cent efficiency for normal errors")
    most_spent: float = tuned(1 / 3, "columns a row", "beyond which an S estimate fits its own choice of rows",
                              "1/2 and 1/3 on the choosing sets of `benchmarks/robust_trial.py`, 60 rows of each")
    shared_share: float = tuned(0.1, "share of rows", "a value held by more than these is the usual one", UNBEATEN)


@dataclass(frozen=True)
class Residuals:
    """The law of the residuals and how it is learned."""

    most_bad: float = tuned(0.5, "share of rows", "largest outlier share: a majority is good by definition", THEORY)
    degrees: tuple[float, ...] = tuned((2.0, 4.0, 8.0, 30.0), "degrees of freedom", "Student's laws tried", UNBEATEN)
    cauchy_share: float = tuned(0.1, "share", "Cauchy part of the outlier density: nothing is too far out", UNBEATEN)
    least_width: float = tuned(2.0, "inlier scales", "least outlier width", UNBEATEN)
    far_level: float = tuned(3.0, "deviations", "that an expected target counts for where the scale grows", UNBEATEN)
    rounds: int = tuned(50, "EM rounds", "that settle the law of given residuals", UNBEATEN)
    settled: float = tuned(1e-4, "nats a row", "change that ends the mixture fit", UNBEATEN)


@dataclass(frozen=True)
class Guard:
    """When a robust fit and a plain one part, and what is said of rows that may be genuine."""

    gain_a_row: float = tuned(0.1, "nats a row", "from which a robust fit without an outlier density is kept", UNBEATEN)
    gain_in_all: float = tuned(6.0, "nats", "in all rows that decide between the two", UNBEATEN)
    predicted: float = tuned(0.5, "of the robust fit's error", "plain error of bad rows up to which it predicts them: "
                             "they are most of their neighbours", THEORY)
    unexplained: float = tuned(0.5, "share of variance", "left when place explains which rows are bad: less, and they "
                               "lie together", "a fifth is explained at random, three quarters at steps")


@dataclass(frozen=True)
class LabelConstants:
    """The law of the labels: grids of temperatures and rates."""

    coolest: float = tuned(0.3, "1/score", "least inverse temperature of the softmax", UNBEATEN)
    hottest: float = tuned(30.0, "1/score", "largest inverse temperature of the softmax", UNBEATEN)

    @property
    def temperatures(self) -> Array:
        """The inverse temperatures tried, shape (T,)."""
        return np.geomspace(self.coolest, self.hottest, 25)

    @property
    def rates(self) -> Array:
        """The rates tried, shape (R,): 0 is among them."""
        low = np.geomspace(0.002, 0.1, 12)
        high = np.linspace(0.12, 0.98, 44)
        return np.asarray(0.5 * np.concatenate([[0.0], low, high]))


@dataclass(frozen=True)
class Directions:
    """The law of labels with a rate for each direction."""

    prior: float = tuned(4.0, "rows", "by which each class is favoured to keep its labels", UNBEATEN)
    most_given: float = tuned(0.5, "share of a class", "most that is given other labels: with more, the labels do not "
                              "tell which class is which", THEORY)
    decisive: float = tuned(3.0, "nats", "by which directions must explain labels better than a single rate, and "
                            "mixed scores better than single ones",
                            "set by theory: strong evidence after Kass & Raftery 1995")


@dataclass(frozen=True)
class NoisyLabels:
    """Logistic regression that allows for wrong labels."""

    steps: int = tuned(12, "steps", "of descent in a round", UNBEATEN)
    folds: int = tuned(5, "folds", "one is held out to choose the ridge; few rows are scored across all", UNBEATEN)
    least_curvature: float = tuned(1e-6, "curvature", "of a row: less is lost to rounding", "the precision of float32")


@dataclass(frozen=True)
class Shares:
    """The interval for the share of corrupt rows."""

    of_labels: float = tuned(1 / 3, "power", "of the likelihood of labels: rows share most of a fit",
                             f"1, 1/2, 1/3, 1/4 {COVERED}, seeds 50 and 51")
    of_residuals: float = tuned(1 / 7, "power", "of the likelihood of residuals: their law is only nearly true",
                                f"1/3, 1/4, 1/6, 1/7, 1/8, 1/10, 1/20 {COVERED}, seed 60: nearest nine tenths")
    neglected: float = tuned(1e-6, "of all weight", "shares of less weight are left out: .0014 of it at most",
                              "the precision of an interval")

    def tried(self, n: int) -> Array:
        """Return the shares tried of n rows, from a quarter of a row to one half."""
        few = np.geomspace(min(0.25 / n, 0.025), 0.05, 11)
        return np.concatenate([few, np.linspace(0.05, RESIDUALS.most_bad, 19)[1:]])


TRIMMING = Trimming()
RESIDUALS = Residuals()
GUARD = Guard()
LABELS = LabelConstants()
CONFUSION = Directions()
NOISY_LABELS = NoisyLabels()
SHARES = Shares()
