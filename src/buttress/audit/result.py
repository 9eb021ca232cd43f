"""The result of an audit: its data, and what a notebook, a folder or a plot shows of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from buttress._suggest import agreeing, counted
from buttress._types import Served
from buttress.audit.data import AuditData
from buttress.audit.writing.pictures import draw
from buttress.audit.writing.report import embedded, markdown, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(repr=False)
class AuditResult(AuditData):
    """What an audit found.

    Attributes
    ----------
    task : {"classification", "regression"}
    metric : {"accuracy", "balanced_accuracy", "rmse", "mae"}
        By what models are compared; of the last two lower is better.
    columns : dict of str to str
        The table's columns: key and what it says.
    rows : dict of str to dict of str to Cell
        Estimator name -> column key -> value with its interval; a Cell of None could not be measured.
    curves : dict
        "eps", "noise", "labels", for a fitted model "moved", "swapped" and "blanked": {"x": [...], estimator: [...]}.
    suspicion : Suspicion
        How many rows were judged and look wrong, and the estimated share of wrong targets.
    suspects : list of Suspect
        row, given, expected, probability, score, verdict ("wrong" from probability .5 on, "borderline" from .25), why,
        values, unusual (columns in which it differs from the rows of its target) and neighbours (those that contradict
        it); most suspicious first. A row is called by its label in a pandas index, else by its number.
    novel : list
        The held-out rows that are farther from the others than those from each other, at a false discovery rate of
        10%; their column of the table does not count for the recommendation.
    findings : list of Finding
        The worst first: code, severity, title, evidence, advice.
    verdict : list of str
        Three sentences: on the labels, on the inputs, on what to use.
    baseline : str
        The estimator that every other has to beat: the majority or the mean.
    against : dict or None
        What became of newer rows: columns (with the p-value that each did not change, and whether it drifted), novel
        (numbers of new rows), auc (how well new rows are told from old ones), score_old and score_new (accuracy, or
        median absolute error, of gradient boosting), trusted.
    sheet : Sheet
        All rows as they came, with the verdict on each.
    recommended : str or None
        Name of the estimator to use; None where too few rows are held out to tell.
    code : str
        That estimator, or else the plain machine, as code to paste.
    by_class : dict of str to ClassScore
        Of each class: rows, recall and precision of the recommended model, or else of the plain one.
    gain : Gain or None
        What following the advice gains: today's score, the recommended model's, and that with targets corrected.
    labels : WrongLabels or None
        Of classes, how many training labels would have to be wrong: what a least-squares machine is proven to stand,
        and which predictions hang on which suspicious rows.
    along : Along or None
        The columns that change along the file, the times, or from the rows trained on to those tested on, part by part.
    associations : Associations or None
        How much the target and the columns that say most of it say the same, pair by pair.
    precision : list of Precision
        To what the numbers of a column are given, where it shows, and by how many standard deviations rounding moves
        them.
    data, settings, measured : dict
        What was audited, how, and what was measured on how many rows.
    cut : list of str
        The measurements for which ``max_time`` did not suffice.
    notes : list of str
    seconds : float
    """

    def __repr__(self) -> str:
        """Return what it says in a line; everything is in its attributes."""
        wrong = self.suspicion.above_half
        looking = f"{counted(wrong, 'row')} {agreeing(wrong, 'looks', 'look')} wrong"
        return (f"<AuditResult: {self.task} of {self.data['target']!r}, {self.data['rows']} rows; recommended: "
                f"{self.recommended}; {looking}; {counted(len(self.notes), 'note')}>")

    def save(self, folder: str | Path) -> list[Path]:
        """Write audit.json, suspicious.csv and, with jinja2, audit.html into ``folder``; returns their paths."""
        return write(self, Path(folder))

    def to_markdown(self) -> str:
        """Return the verdict, the findings and the table as Markdown."""
        return markdown(self)

    def _repr_html_(self) -> str:
        """Return the page, for a notebook."""
        return embedded(self)

    def review(self, decisions: str | Path | None = None, *, who: str | None = None, port: int = 0) -> Served:
        """Serve pages on this machine on which somebody decides on the rows, the most suspicious first.

        Parameters
        ----------
        decisions : str, Path or None
            The file that keeps them. None: beside the data file, else ``decisions.review`` in the current folder.
        who : str or None
            Who decides; the name of the user by default.
        port : int
            0 for a free one.

        Returns
        -------
        Served
            With ``address``, to be opened in a browser, ``decisions`` as a frame, ``corrections(path)`` for ``buttress
            apply``, and ``stop()``; a notebook shows a link.
        """
        # the pages are made of audits, so that this room cannot import theirs
        return import_module("buttress.review.call").review(self, decisions, who, port)

    def plot(self, axes: "Sequence[Axes] | None" = None) -> "Figure":
        """Draw the curves on matplotlib ``axes`` (one a curve, made when None) and return the figure."""
        return draw(self, axes)
