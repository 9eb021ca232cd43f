"""One row of features for each row of the label's table: aggregates of the rows that belong to it, without leaks."""
