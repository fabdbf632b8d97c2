"""Runs methods over thousands of tasks and measures them."""
