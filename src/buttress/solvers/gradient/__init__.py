"""Gradient methods: descent under a risk, doubly stochastic gradients, worst inputs, quasi-Newton."""
