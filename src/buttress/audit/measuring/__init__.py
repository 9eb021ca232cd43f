"""What an audit measures: a study of a split table, and a file for each kind of measurement."""
