"""The audit of a table against newer rows: which columns drifted, which rows are novel, whether to trust a model."""
