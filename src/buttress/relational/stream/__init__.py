"""Counting a join whose rows lie in files of our own: they are read again in every pass, so memory holds only lists."""
