"""Data sets for tests and examples: bundled sets by name, generators, and corruption of training rows."""

from buttress.datasets.bundled import BUNDLED, load_bundled
from buttress.datasets.generators import CORRUPTIONS, contaminate, make_polynomial, make_smooth

__all__ = ["BUNDLED", "CORRUPTIONS", "contaminate", "load_bundled", "make_polynomial", "make_smooth"]
