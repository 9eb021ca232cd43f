"""Certificates of training data: how many labels, targets or rows could be wrong before a prediction changes."""
