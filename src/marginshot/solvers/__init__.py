"""Minimisation of the objectives, in NumPy and compiled."""
