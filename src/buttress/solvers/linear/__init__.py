"""Linear machines in the primal."""
