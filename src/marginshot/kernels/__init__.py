"""Kernel matrices, and compiled leaf functions on one task."""
