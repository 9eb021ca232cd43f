"""How an audit measures: a split table, a study of it, and the fits that measurements share."""
