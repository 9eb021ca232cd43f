"""Quadratic programs: the exact machines, balls and their certificates."""
