"""Running methods over thousands of tasks, and what is measured there."""
