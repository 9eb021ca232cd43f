"""The settings of an audit, and what its budget is spent on.

The shares below are of the time that is left, or of the whole budget where they say so. None of them decides a figure
of the table: they decide on how many rows it is measured, and which cells are left out when the time runs short.
"""

from dataclasses import dataclass

from buttress._checks import check_count, check_number, check_option

NOISE = (0.0, 0.1, 0.2, 0.3, 0.4)  # shares of the training targets corrupted, the curve
TRAINING_ROWS = (2000, 1400, 1000, 700, 500, 350, 250, 150, 80)  # each about .7 of the one before
TEST_ROWS = 500  # a 95% interval of an accuracy is then at most .09 wide
SCALING_ROWS = 50_000  # training rows whose medians, means and deviations prepare all rows; all of fewer
LARGE_FIT_ROWS = 40_000  # of the fit that judges labels, on 1,000 landmarks: as quick as one on 2,500 rows without
LARGE_FIT_SECONDS = 90.0  # that must be left for it
ONE_LARGE_FIT = 0.3  # of the time left, after which it makes do with what it has
FOR_JUDGING = 0.3  # of the time left may go to rows that fit has not seen; what is left at the end goes to them too
FOR_WRITING = 2.0  # seconds kept for findings and files for each second that reading took
SMALL_PILOT = 80  # rows
LARGE_PILOT = 240
PILOT_SECONDS = 10.0  # most for one fit of a pilot
PILOT_ATTACKED = 20  # rows
COUNTED = 10  # rows attacked to tell what an attack by queries takes for all
UNKNOWN_GROWTH = 2.0  # power of the rows that the time grows with, where there are too few rows for two pilots
HIDDEN_GROWTH = 0.2  # added to that power: the pilots' fixed costs hide some of it
LEAST_GROWTH = 0.5
MOST_GROWTH = 2.5
PLANNED = 0.75  # of the time left may be planned for; the rest is for what the pilots did not foresee
ONE_FIT = 1 / 4  # of the time left may go to one fit
ONE_ATTACK = 1 / 3  # of the time left may go to one attack by queries
ONE_CERTIFICATE = 1 / 8  # of the time left may go to the proofs of one model
NOVELTY_ROWS = 5000  # that held-out rows are compared with
FOR_NOVELTY = 0.2  # of the budget must be left to look for novel rows
FOR_CURVES = 0.1  # of the budget must be left after each further point of a curve


@dataclass(frozen=True)
class Options:
    """The settings of an audit, as :func:`buttress.audit.call.audit` states them."""

    task: str = "auto"
    eps: float = 0.25
    budget: float = 60.0
    rows: int | None = None
    seed: int = 0
    ignore: tuple[str, ...] = ()  # codes of findings to leave out
    swaps: int = 1  # most categories of a row that are swapped

    def check(self) -> None:
        check_option("task", self.task, ("auto", "classification", "regression"))
        check_number("eps", self.eps, 0, fix="It is a radius in standard deviations.")
        check_number("budget", self.budget, 0)
        check_count("random_state", self.seed, 0)
        check_count("swaps", self.swaps, 1)
        if self.rows is not None:
            check_count("rows", self.rows, 20)
