"""Data sets for tests and examples: bundled and public sets by name, generators, and corruption of training rows."""

from buttress.datasets.generators import CORRUPTIONS, contaminate, make_polynomial, make_smooth
from buttress.datasets.uci import BUNDLED, SETS, Table, load_bundled, load_uci

__all__ = ["BUNDLED", "CORRUPTIONS", "SETS", "Table", "contaminate", "load_bundled", "load_uci", "make_polynomial",
           "make_smooth"]
