"""Rows that somebody moves: radii, boxes and threats within which the class that ``predict`` computes stays."""
