"""Prove again, from a model file and its data, what the model claims; needs numpy and nothing of this package.

    buttress-verify model.buttress data.csv [--target y] [--weights w] [--radii rows.csv] [--norm linf]
        [--problem problem.json]
    buttress-verify model.buttress --table loan=loan.csv --table person=person.csv --on loan.who=person.id --target bad
    buttress-verify evidence/ [data.csv] [--target y] [--problem problem.json] [--key key]

Proven is what ``predict`` computes: the gaps of SVC, SVR, LinearSVC, SVDD and MultiKernelSVDD at the coefficients and
intercepts of the file, radii of the rows of ``--radii`` (their column ``radius``, or the largest found; in l2, or in
l_inf by ``--norm linf``, of trees always) and the interval of a RelationalLinearSVC (mean hinge loss, a join of some
thousand rows). Also certificates of other machines (``foreign.py``) and of other
trees (``inputs/trees.py``), how many wrong labels change a prediction
(``training.py``), and what wrong targets or a row left out can make of it (``training.py``),
and folders of evidence (``evidence.py``). Exit code: 0 proven for the
problem that ``--problem`` states, 1 not proven, 2 cannot be checked, 3 proven for the problem that the file states, and
nobody else stated it.

``core.py`` holds the errors and the reader, ``gaps.py`` the gap; every kind of proof is a file. To run it without this
package, copy the folder: ``python -m verify``.
"""

from .command import main
from .core import Claim, Real, read_model
from .evidence import problem_of, prove
from .foreign import certificate, from_duals, prove_certificate
from .inputs.radii import radii
from .inputs.threatened import from_threat, prove_threat
from .inputs.trees import from_trees, prove_trees, tree_radii
from .joins import relational
from .training import from_flips, from_moves, prove_flips, prove_moves

__all__ = ["Claim", "Real", "certificate", "from_duals", "from_flips", "from_moves", "from_threat", "from_trees",
           "main", "problem_of", "prove", "prove_certificate", "prove_flips", "prove_moves", "prove_threat",
           "prove_trees", "radii", "read_model", "relational", "tree_radii"]
