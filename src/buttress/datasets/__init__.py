"""Data to try things on: the sets bundled with scikit-learn by name, and corruption of training rows."""

from buttress.datasets.bundled import BUNDLED, load_bundled
from buttress.datasets.contamination import contaminate

__all__ = ["BUNDLED", "contaminate", "load_bundled"]
