"""From tables to a plan: the join tree, keys as numbers, scaled features, and the rows of the join by number."""
