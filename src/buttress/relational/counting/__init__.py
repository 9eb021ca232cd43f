"""Counting the rows of a join in this process: the margin oracles, and other questions about scores."""
