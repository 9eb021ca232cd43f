"""Fits among corrupt rows: trimmed objectives, and laws of residuals and of labels."""
