"""Inputs: feature files, rows in blocks, labels, pictures, sampled tasks."""
