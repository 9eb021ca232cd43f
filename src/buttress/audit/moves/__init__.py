"""Moves of rows in the columns as they came: numbers moved, categories swapped, cells left empty; for any model."""
