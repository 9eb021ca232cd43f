"""The Gram matrix of the training rows, made piece by piece and never whole unless it fits."""
