"""Counting the rows of a join inside a database, by SELECT statements only."""
