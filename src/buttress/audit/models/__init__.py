"""A model trained on a table, to be kept in a file: training, prediction, attack, and what a file says of itself."""
