"""Weighted ridge regression with leave-one-out residuals."""
