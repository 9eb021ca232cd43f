"""Sums of decision trees, of this package and others, read as arrays."""

from buttress.trees.forest import Forest, Nodes, Tree
from buttress.trees.reading import NAMES, read_forest

__all__ = ["NAMES", "Forest", "Nodes", "Tree", "read_forest"]
